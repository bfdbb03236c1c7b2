// node-postgres, as its documentation shows it.

import pg from "pg";
import Cursor from "pg-cursor";
import QueryStream from "pg-query-stream";
import copy from "pg-copy-streams";
import { pipeline } from "node:stream/promises";
import { Readable } from "node:stream";
import { check, equal, raises, run, PGDATABASE } from "./checks.mjs";

async function open() {
  const client = new pg.Client({ ssl: false });
  client.on("error", () => {});
  await client.connect();
  return client;
}

const values = async (c, ...query) => (await c.query(...query)).rows;

check("connects", async (c) => {
  equal(await values(c, "SELECT current_database() AS d"), [{ d: PGDATABASE }]);
});

check("creates, inserts, selects", async (c) => {
  await c.query("CREATE TABLE crud (id serial PRIMARY KEY, name text NOT NULL, n int)");
  const insert = "INSERT INTO crud (name, n) VALUES ($1, $2) RETURNING *";
  equal(await values(c, insert, ["ann", 1]), [{ id: 1, name: "ann", n: 1 }]);
  const update = await c.query("UPDATE crud SET n = n + $1", [5]);
  equal([update.command, update.rowCount], ["UPDATE", 1]);
  equal(await values(c, "SELECT n FROM crud WHERE name = $1", ["ann"]), [{ n: 6 }]);
  equal((await c.query("DELETE FROM crud")).rowCount, 1);
});

check("types of values", async (c) => {
  const [row] = await values(
    c,
    `SELECT 1::int2 AS a, 2::int4 AS b, 9007199254740993::int8 AS c, 1.50::numeric AS d,
            1.5::float8 AS e, true AS f, 'x'::text AS g, '\\x00ff'::bytea AS h,
            '2024-02-29 12:00:00+00'::timestamptz AS i, '{"a":[1,null]}'::jsonb AS j,
            ARRAY[1,2] AS k, ARRAY['a',NULL,'b,c'] AS l, NULL AS m,
            '12345678-1234-5678-1234-567812345678'::uuid AS n, '0.25'::float4 AS o`,
  );
  equal(row, {
    a: 1,
    b: 2,
    c: "9007199254740993",
    d: "1.50",
    e: 1.5,
    f: true,
    g: "x",
    h: Buffer.from([0, 255]),
    i: new Date("2024-02-29T12:00:00Z"),
    j: { a: [1, null] },
    k: [1, 2],
    l: ["a", null, "b,c"],
    m: null,
    n: "12345678-1234-5678-1234-567812345678",
    o: 0.25,
  });
});

check("intervals", async (c) => {
  const [{ i }] = await values(c, "SELECT interval '1 year 2 days 03:04:05.006' AS i");
  equal([i.years, i.days, i.hours, i.milliseconds], [1, 2, 3, 6]);
});

check("results in binary", async (c) => {
  const query = { text: "SELECT $1::int4 AS a, $2::text AS b, true AS c", binary: true };
  equal((await c.query({ ...query, values: [7, "✓"] })).rows, [{ a: 7, b: "✓", c: true }]);
});

check("parameters of every type", async (c) => {
  await c.query(
    `CREATE TABLE params
       (i int, b bigint, n numeric, t text, d timestamptz, j jsonb, a text[], y bytea)`,
  );
  const at = new Date("2024-01-02T03:04:05.678Z");
  const row = [1, "9007199254740993", "1.25", "x", at, { k: 1 }, ["a", null], Buffer.from("z")];
  await c.query("INSERT INTO params VALUES ($1, $2, $3, $4, $5, $6, $7, $8)", row);
  const result = await c.query({ text: "SELECT * FROM params", rowMode: "array" });
  equal(result.rows, [row]);
});

check("any of a list", async (c) => {
  const rows = await values(c, "SELECT g FROM generate_series(1, 9) g WHERE g = ANY($1)", [[2, 4]]);
  equal(rows, [{ g: 2 }, { g: 4 }]);
});

check("fields of results", async (c) => {
  await c.query("CREATE TABLE fields (id int PRIMARY KEY, v varchar(9))");
  const { fields } = await c.query("SELECT id, v AS other, 1.5::numeric(10,2) FROM fields");
  equal(
    fields.map((f) => [f.name, f.dataTypeID, f.columnID]),
    [
      ["id", 23, 1],
      ["other", 1043, 2],
      ["numeric", 1700, 0],
    ],
  );
  equal(fields[1].dataTypeModifier, 13);
  const [{ oid }] = await values(c, "SELECT 'fields'::regclass::oid AS oid");
  equal(fields[0].tableID, oid);
});

check("prepared statements", async (c) => {
  const query = { name: "sum", text: "SELECT $1::int + $2::int AS s" };
  for (let i = 0; i < 5; i++)
    equal((await c.query({ ...query, values: [i, 1] })).rows, [{ s: i + 1 }]);
});

check("transactions", async (c) => {
  await c.query("CREATE TABLE kept (id int PRIMARY KEY)");
  await c.query("BEGIN");
  await c.query("INSERT INTO kept VALUES (1)");
  await c.query("SAVEPOINT s");
  await raises("23505", () => c.query("INSERT INTO kept VALUES (1)"));
  await raises("25P02", () => c.query("SELECT 1"));
  await c.query("ROLLBACK TO s");
  await c.query("COMMIT");
  equal(await values(c, "SELECT * FROM kept"), [{ id: 1 }]);
});

check("fields of errors", async (c) => {
  await c.query(
    "CREATE TABLE strict (id int PRIMARY KEY, n int CONSTRAINT n_positive CHECK (n > 0))",
  );
  await c.query("INSERT INTO strict VALUES (1, 1)");
  let error = await raises("23505", () => c.query("INSERT INTO strict VALUES (1, 1)"));
  equal([error.constraint, error.table, error.schema], ["strict_pkey", "strict", "public"]);
  equal([error.severity, error.detail], ["ERROR", "Key (id)=(1) already exists."]);
  error = await raises("23514", () => c.query("INSERT INTO strict VALUES (2, 0)"));
  equal(error.constraint, "n_positive");
  error = await raises("42703", () => c.query("SELECT missing FROM strict"));
  equal(error.position, "8");
});

check("several statements in one string", async (c) => {
  const results = await c.query(
    "CREATE TABLE several (id int); INSERT INTO several VALUES (1); SELECT * FROM several",
  );
  equal(
    results.map((r) => [r.command, r.rowCount]),
    [
      ["CREATE", null],
      ["INSERT", 1],
      ["SELECT", 1],
    ],
  );
});

check("cursors", async (c) => {
  const cursor = c.query(new Cursor("SELECT g FROM generate_series(1, $1::int) g", [10]));
  equal(
    (await cursor.read(4)).map((r) => r.g),
    [1, 2, 3, 4],
  );
  equal(
    (await cursor.read(4)).map((r) => r.g),
    [5, 6, 7, 8],
  );
  await cursor.close();
  equal(await values(c, "SELECT 1 AS a"), [{ a: 1 }]);
});

check("cursors inside a transaction with other statements", async (c) => {
  await c.query("BEGIN");
  const cursor = c.query(new Cursor("SELECT g FROM generate_series(1, 1000) g"));
  let sum = 0;
  for (let rows = await cursor.read(100); rows.length > 0; rows = await cursor.read(100)) {
    sum += rows.reduce((total, row) => total + row.g, 0);
  }
  await cursor.close();
  await c.query("COMMIT");
  equal(sum, 500500);
});

check("streams of rows", async (c) => {
  let sum = 0;
  for await (const row of c.query(
    new QueryStream("SELECT g FROM generate_series(1, 1000) g", [], { batchSize: 70 }),
  ))
    sum += row.g;
  equal(sum, 500500);
});

check("copy from a stream", async (c) => {
  await c.query("CREATE TABLE copied (id int, v text)");
  const lines = Array.from({ length: 1000 }, (_, i) => `${i}\tv${i}\n`);
  const sink = c.query(copy.from("COPY copied FROM STDIN"));
  await pipeline(Readable.from(lines), sink);
  equal(sink.rowCount, 1000);
  equal(await values(c, "SELECT count(*)::int AS n, max(v) AS m FROM copied"), [
    { n: 1000, m: "v999" },
  ]);
});

check("copy to a stream", async (c) => {
  let text = "";
  for await (const part of c.query(
    copy.to("COPY (SELECT g, 'x' FROM generate_series(1, 3) g) TO STDOUT (FORMAT csv)"),
  ))
    text += part;
  equal(text, "1,x\n2,x\n3,x\n");
});

check("a pool", async () => {
  const pool = new pg.Pool({ max: 4, ssl: false });
  const results = await Promise.all(
    Array.from({ length: 20 }, (_, i) => pool.query("SELECT $1::int AS i", [i])),
  );
  equal(
    results.map((r) => r.rows[0].i),
    Array.from({ length: 20 }, (_, i) => i),
  );
  await pool.end();
});

check("cancelling a statement", async (c) => {
  const [{ pid }] = await values(c, "SELECT pg_backend_pid() AS pid");
  const other = await open();
  const slow = c.query(
    "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b",
  );
  setTimeout(() => other.query("SELECT pg_cancel_backend($1)", [pid]).catch(() => {}), 300);
  try {
    await Promise.race([
      raises("57014", () => slow),
      new Promise((_, no) => setTimeout(() => no(new Error("not cancelled within 10 s")), 10_000)),
    ]);
  } finally {
    other.connection.stream.destroy();
    c.connection.stream.destroy();
  }
});

check("statement_timeout of the configuration", async () => {
  const c = new pg.Client({ statement_timeout: 200, ssl: false });
  await c.connect();
  await raises("57014", () =>
    c.query("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b"),
  );
  await c.end();
});

check("application_name and options", async () => {
  const c = new pg.Client({
    application_name: "mine",
    options: "-c search_path=public",
    ssl: false,
  });
  await c.connect();
  const [row] = await values(
    c,
    "SELECT current_setting('application_name') AS a, current_setting('search_path') AS s",
  );
  equal(row, { a: "mine", s: "public" });
  await c.end();
});

check("listen and notify", async (c) => {
  const heard = new Promise((resolve) =>
    c.on("notification", (n) => resolve([n.channel, n.payload])),
  );
  await c.query("LISTEN news");
  const other = await open();
  await other.query("SELECT pg_notify('news', 'hello')");
  equal(await Promise.race([heard, new Promise((r) => setTimeout(r, 5000, "nothing"))]), [
    "news",
    "hello",
  ]);
  await other.end();
});

check("notices", async (c) => {
  const heard = [];
  c.on("notice", (note) => heard.push([note.severity, note.message]));
  await c.query("DROP TABLE IF EXISTS not_there");
  equal(heard, [["NOTICE", 'table "not_there" does not exist, skipping']]);
});

check("upserts", async (c) => {
  await c.query("CREATE TABLE upserted (k text PRIMARY KEY, n int)");
  const query =
    `INSERT INTO upserted AS u VALUES ($1, $2)
     ON CONFLICT (k) DO UPDATE SET n = u.n + excluded.n RETURNING n`;
  await c.query(query, ["a", 1]);
  equal(await values(c, query, ["a", 5]), [{ n: 6 }]);
});

check("rows as JSON", async (c) => {
  await c.query("CREATE TABLE whole (a int, b text); INSERT INTO whole VALUES (1, 'x'), (2, NULL)");
  equal(await values(c, "SELECT json_agg(w ORDER BY a) AS j FROM whole w"), [
    {
      j: [
        { a: 1, b: "x" },
        { a: 2, b: null },
      ],
    },
  ]);
  equal(await values(c, "SELECT row_to_json(w) AS j FROM whole w WHERE a = 1"), [
    { j: { a: 1, b: "x" } },
  ]);
});

check("inserting from JSON", async (c) => {
  await c.query("CREATE TABLE from_json (a int, b text)");
  const rows = JSON.stringify([{ a: 1, b: "x" }, { a: 2 }]);
  await c.query("INSERT INTO from_json SELECT * FROM json_to_recordset($1) AS t(a int, b text)", [
    rows,
  ]);
  equal(await values(c, "SELECT * FROM from_json ORDER BY a"), [
    { a: 1, b: "x" },
    { a: 2, b: null },
  ]);
});

check("row locks", async (c) => {
  await c.query("CREATE TABLE locked (id int PRIMARY KEY); INSERT INTO locked VALUES (1), (2)");
  const other = await open();
  await c.query("BEGIN");
  await c.query("SELECT * FROM locked WHERE id = 1 FOR UPDATE");
  equal(await values(other, "SELECT id FROM locked FOR UPDATE SKIP LOCKED"), [{ id: 2 }]);
  await raises("55P03", () => other.query("SELECT id FROM locked FOR UPDATE NOWAIT"));
  await c.query("COMMIT");
  await other.end();
});

check("composite and unknown types as text", async (c) => {
  equal(await values(c, "SELECT (1, 'a b', NULL) AS r"), [{ r: '(1,"a b",)' }]);
});

run(open, (c) => c.end());
