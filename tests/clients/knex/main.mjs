// Knex: the schema builder, migrations and the query builder.

import knex from "knex";
import { check, equal, raises, run, PGHOST, PGPORT, PGUSER, PGDATABASE } from "./checks.mjs";

const connection = { host: PGHOST, port: PGPORT, user: PGUSER, database: PGDATABASE, ssl: false };

function open(more = {}) {
  return knex({ client: "pg", connection, pool: { min: 0, max: 4 }, ...more });
}

check("creates tables of every type", async (k) => {
  await k.schema.createTable("every", (t) => {
    t.increments("id");
    t.bigInteger("big").defaultTo(7);
    t.integer("small").unsigned().notNullable();
    t.text("body");
    t.string("name", 40).defaultTo("x").index();
    t.float("ratio");
    t.double("exact");
    t.decimal("price", 10, 2);
    t.boolean("on").defaultTo(false);
    t.date("day");
    t.datetime("at", { useTz: true });
    t.time("hour");
    t.timestamps(true, true);
    t.binary("raw");
    t.json("j");
    t.jsonb("jb");
    t.uuid("u").defaultTo(k.fn.uuid());
    t.specificType("tags", "text[]");
    t.comment("a table");
  });
  await k("every").insert({
    small: 1,
    price: 1.5,
    jb: { a: 1 },
    tags: ["a", "b"],
    raw: Buffer.from("z"),
  });
  const row = await k("every").first("big", "name", "price", "jb", "tags", "on", "raw");
  equal(row, {
    big: "7",
    name: "x",
    price: "1.50",
    jb: { a: 1 },
    tags: ["a", "b"],
    on: false,
    raw: Buffer.from("z"),
  });
  const info = await k("every").columnInfo();
  equal(info.name, {
    type: "character varying",
    maxLength: 40,
    nullable: true,
    defaultValue: "'x'::character varying",
  });
});

check("enums as checks", async (k) => {
  await k.schema.createTable("checked", (t) => t.enu("level", ["low", "high"]));
  await k("checked").insert({ level: "low" });
  await raises("23514", () => k("checked").insert({ level: "no" }));
});

check("native enums", async (k) => {
  await k.schema.createTable("native", (t) =>
    t.enu("level", ["low", "high"], { useNative: true, enumName: "native_level" }),
  );
  await k("native").insert({ level: "low" });
  await raises("22P02", () => k("native").insert({ level: "no" }));
});

check("foreign keys and cascades", async (k) => {
  await k.schema.createTable("owner", (t) => t.increments());
  await k.schema.createTable("pet", (t) => {
    t.increments();
    t.integer("owner_id").references("id").inTable("owner").onDelete("CASCADE").onUpdate("CASCADE");
    t.unique(["owner_id", "id"], { indexName: "pet_once" });
  });
  const [{ id }] = await k("owner").insert({}).returning("id");
  await k("pet").insert({ owner_id: id });
  await raises("23503", () => k("pet").insert({ owner_id: 99 }));
  await k("owner").del();
  equal(await k("pet").select(), []);
});

check("changes tables", async (k) => {
  await k.schema.createTable("changed", (t) => {
    t.increments();
    t.string("name", 10);
    t.integer("old");
  });
  await k("changed").insert({ name: "a", old: 5 });
  await k.schema.alterTable("changed", (t) => {
    t.string("extra").defaultTo("e");
    t.renameColumn("old", "older");
    t.string("name", 50).notNullable().alter();
    t.unique("name");
  });
  await k.schema.alterTable("changed", (t) => {
    t.bigInteger("older").alter();
    t.dropUnique("name");
    t.setNullable("name");
  });
  equal(await k("changed").select(), [{ id: 1, name: "a", older: "5", extra: "e" }]);
  await k.schema.alterTable("changed", (t) => t.dropColumns("extra", "older"));
  await k.schema.renameTable("changed", "renamed");
  equal(await k.schema.hasTable("changed"), false);
  equal(await k.schema.hasColumn("renamed", "name"), true);
  await k.schema.dropTableIfExists("renamed");
});

check("check constraints of columns", async (k) => {
  await k.schema.createTable("limits", (t) => {
    t.integer("n").checkPositive();
    t.string("s").checkLength("<", 4);
    t.string("r").checkRegex("^[a-z]+$");
    t.integer("b").checkBetween([1, 5]);
  });
  await k("limits").insert({ n: 1, s: "abc", r: "x", b: 3 });
  for (const row of [{ n: -1 }, { s: "abcd" }, { r: "X" }, { b: 9 }])
    await raises("23514", () => k("limits").insert(row));
});

check("indexes", async (k) => {
  await k.schema.createTable("indexed", (t) => {
    t.increments();
    t.integer("a");
    t.integer("b");
    t.index(["a", "b"], "indexed_ab");
    t.index(["b"], "indexed_part", { predicate: k.whereNotNull("a") });
    t.unique(["a"], { indexName: "indexed_unique", predicate: k.whereNull("b") });
  });
  const names = await k("pg_indexes")
    .where({ tablename: "indexed" })
    .orderBy("indexname")
    .pluck("indexname");
  equal(names, ["indexed_ab", "indexed_part", "indexed_pkey", "indexed_unique"]);
  await k.schema.alterTable("indexed", (t) => t.dropIndex(["a", "b"], "indexed_ab"));
});

check("indexes of other methods", async (k) => {
  await k.schema.createTable("methods", (t) => {
    t.jsonb("d");
    t.integer("n");
    t.index(["d"], "methods_gin", "gin");
    t.index(["n"], "methods_hash", { indexType: "hash" });
  });
});

check("views", async (k) => {
  await k.schema.createTable("seen", (t) => t.integer("n"));
  await k("seen").insert([{ n: 1 }, { n: 2 }]);
  await k.schema.createView("big", (v) => {
    v.columns(["n"]);
    v.as(k("seen").where("n", ">", 1).select("n"));
  });
  equal(await k("big"), [{ n: 2 }]);
  await k.schema.dropView("big");
});

check("schemas", async (k) => {
  await k.schema.createSchema("app");
  await k.schema.withSchema("app").createTable("t", (t) => t.increments());
  await k.withSchema("app").from("t").insert({});
  equal(await k.withSchema("app").from("t"), [{ id: 1 }]);
});

check("copies of tables", async (k) => {
  await k.schema.createTable("original", (t) => {
    t.increments();
    t.integer("n").defaultTo(5);
  });
  await k.schema.createTableLike("likeness", "original", (t) => t.text("more"));
  await k("likeness").insert({ id: 1 });
  equal(await k("likeness").first(), { id: 1, n: 5, more: null });
});

// Migrations that stand in memory.
const STEPS = {
  "1_people": {
    up: (k) =>
      k.schema.createTable("people", (t) => {
        t.increments();
        t.string("name").notNullable();
      }),
    down: (k) => k.schema.dropTable("people"),
  },
  "2_age": {
    up: async (k) => {
      await k.schema.alterTable("people", (t) => t.integer("age").defaultTo(1));
      await k("people").insert({ name: "ann" });
    },
    down: (k) => k.schema.alterTable("people", (t) => t.dropColumn("age")),
  },
  "3_concurrent": {
    up: (k) => k.raw("CREATE INDEX CONCURRENTLY people_name ON people (name)"),
    down: (k) => k.schema.alterTable("people", (t) => t.dropIndex("name", "people_name")),
    config: { transaction: false },
  },
};
const source = {
  getMigrations: async () => Object.keys(STEPS),
  getMigrationName: (name) => name,
  getMigration: async (name) => STEPS[name],
};

check("migrations up and down", async (k) => {
  const migrate = k.migrate;
  const config = { migrationSource: source };
  equal((await migrate.latest(config))[1], Object.keys(STEPS));
  equal(await k("people").select("name", "age"), [{ name: "ann", age: 1 }]);
  equal((await migrate.list(config))[1], []);
  equal(await migrate.currentVersion(config), "3");
  await migrate.down(config);
  await migrate.rollback(config, true);
  equal(await k.schema.hasTable("people"), false);
});

check("a migration that fails leaves nothing", async (k) => {
  const broken = {
    up: async (x) => {
      await x.schema.createTable("half", (t) => t.increments());
      await x.raw("SELECT 1/0");
    },
    down: async () => {},
  };
  const config = {
    tableName: "other_migrations",
    migrationSource: {
      getMigrations: async () => ["1_broken"],
      getMigrationName: (n) => n,
      getMigration: async () => broken,
    },
  };
  await raises("22012", () => k.migrate.latest(config));
  equal(await k.schema.hasTable("half"), false);
});

async function shop(k, name) {
  await k.schema.createTable(name, (t) => {
    t.increments();
    t.string("g");
    t.integer("n");
  });
  await k(name).insert([
    { g: "a", n: 1 },
    { g: "a", n: 2 },
    { g: "b", n: 5 },
  ]);
  return () => k(name);
}

check("queries", async (k) => {
  const q = await shop(k, "queried");
  equal(await q().where("n", ">", 1).orWhere({ g: "b" }).orderBy("n").pluck("n"), [2, 5]);
  equal(await q().whereIn("n", [1, 5]).whereNot("g", "b").pluck("n"), [1]);
  equal(
    await q()
      .select("g")
      .sum({ total: "n" })
      .groupBy("g")
      .having(k.raw("sum(n)"), ">", 3)
      .orderBy("g"),
    [{ g: "b", total: "5" }],
  );
  equal(await q().count("* as c").first(), { c: "3" });
  equal(await q().distinct("g").orderBy("g").limit(1).offset(1), [{ g: "b" }]);
  equal(await q().distinctOn("g").orderBy("g").orderBy("n", "desc").pluck("n"), [2, 5]);
  equal(await q().whereILike("g", "A%").whereBetween("n", [2, 3]).pluck("n"), [2]);
});

check("joins, unions and common table expressions", async (k) => {
  const q = await shop(k, "joined");
  equal((await q().join("joined as o", "joined.g", "o.g").count("* as c"))[0].c, "5");
  equal(
    await q()
      .leftJoin("joined as o", function () {
        this.on("joined.n", "<", "o.n").andOnVal("o.g", "b");
      })
      .whereNull("o.n")
      .pluck("joined.n"),
    [5],
  );
  equal(
    (
      await q()
        .select("n")
        .union(k.select(k.raw("9 AS n")))
        .orderBy("n")
    ).length,
    4,
  );
  equal(await k.with("t", q().where("n", 5)).from("t").pluck("g"), ["b"]);
  const walk = k.withRecursive("walk", ["n"], (b) =>
    b
      .from(k.raw("(VALUES (1)) AS v(n)"))
      .select("n")
      .unionAll((u) => u.from("walk").where("n", "<", 4).select(k.raw("n + 1"))),
  );
  equal(await walk.from("walk").pluck("n"), [1, 2, 3, 4]);
});

check("window functions", async (k) => {
  const q = await shop(k, "windowed");
  const rows = await q()
    .select("n")
    .rank("r", "n")
    .rowNumber("i", (b) => b.orderBy("n").partitionBy("g"))
    .orderBy("n");
  equal(rows, [
    { n: 1, r: "1", i: "1" },
    { n: 2, r: "2", i: "2" },
    { n: 5, r: "3", i: "1" },
  ]);
});

check("updates and deletes", async (k) => {
  const q = await shop(k, "updated");
  equal(
    await q()
      .where({ g: "a" })
      .update({ n: k.raw("n * 10") }, ["n"]),
    [{ n: 10 }, { n: 20 }],
  );
  await q().where({ g: "b" }).increment("n", 2);
  equal(await q().where("n", 7).del("id"), [{ id: 3 }]);
  await q()
    .updateFrom(k.raw("(VALUES (10, 11)) AS v(a, b)"))
    .where("n", k.raw("v.a"))
    .update({ n: k.raw("v.b") });
  equal(await q().orderBy("n").pluck("n"), [11, 20]);
  await q().truncate();
  equal(await q(), []);
});

check("upserts", async (k) => {
  await k.schema.createTable("upserted", (t) => {
    t.string("k").primary();
    t.integer("n");
  });
  await k("upserted").insert({ k: "a", n: 1 });
  await k("upserted").insert({ k: "a", n: 2 }).onConflict("k").merge();
  await k("upserted").insert({ k: "a", n: 9 }).onConflict("k").ignore();
  await k("upserted")
    .insert({ k: "a", n: 3 })
    .onConflict("k")
    .merge({ n: k.raw("upserted.n + excluded.n") })
    .where("upserted.n", "<", 100);
  equal(await k("upserted"), [{ k: "a", n: 5 }]);
});

check("JSON", async (k) => {
  await k.schema.createTable("documents", (t) => {
    t.increments();
    t.jsonb("d");
  });
  await k("documents").insert({ d: { a: { b: 5 }, tags: ["x"] } });
  equal(await k("documents").jsonExtract("d", "$.a.b", "b"), [{ b: 5 }]);
  equal(await k("documents").whereJsonPath("d", "$.a.b", ">", 4).pluck("id"), [1]);
  equal(
    await k("documents")
      .whereJsonSupersetOf("d", { tags: ["x"] })
      .pluck("id"),
    [1],
  );
  equal(
    await k("documents")
      .whereJsonObject("d", { a: { b: 5 }, tags: ["x"] })
      .pluck("id"),
    [1],
  );
  equal(await k("documents").jsonSet("d", "$.a.b", "6", "d"), [
    { d: { a: { b: 6 }, tags: ["x"] } },
  ]);
});

check("transactions", async (k) => {
  const q = await shop(k, "trans");
  await k.transaction(async (t) => {
    await t("trans").insert({ g: "c", n: 9 });
    await t
      .transaction(async (inner) => {
        await inner("trans").del();
        throw new Error("back");
      })
      .catch(() => {});
  });
  equal(await q().count("* as c").first(), { c: "4" });
  await raises("22012", () =>
    k.transaction(async (t) => {
      await t("trans").del();
      await t.raw("SELECT 1/0");
    }),
  );
  equal(await q().count("* as c").first(), { c: "4" });
});

check("isolation levels of transactions", async (k) => {
  for (const isolationLevel of ["serializable", "repeatable read"]) {
    const t = await k.transaction({ isolationLevel });
    equal((await t.raw("SHOW transaction_isolation")).rows, [
      { transaction_isolation: isolationLevel },
    ]);
    await t.rollback();
  }
});

check("row locks", async (k) => {
  await shop(k, "locked");
  await k.transaction(async (t) => {
    await t("locked").where({ id: 1 }).forUpdate();
    await k.transaction(async (other) => {
      equal(await other("locked").orderBy("id").forUpdate().skipLocked().pluck("id"), [2, 3]);
    });
    await raises("55P03", () => k("locked").forUpdate().noWait());
  });
});

check("weaker row locks", async (k) => {
  await shop(k, "weak");
  await k.transaction(async (t) => {
    equal((await t("weak").forShare()).length, 3);
    equal((await t("weak").forKeyShare()).length, 3);
    equal((await t("weak").forNoKeyUpdate()).length, 3);
  });
});

check("streams", async (k) => {
  let sum = 0;
  for await (const row of k.select("g").from(k.raw("generate_series(1, 100) AS g")).stream())
    sum += row.g;
  equal(sum, 5050);
});

check("batches", async (k) => {
  await k.schema.createTable("batch", (t) => t.integer("n"));
  await k.batchInsert(
    "batch",
    Array.from({ length: 2500 }, (_, n) => ({ n })),
    1000,
  );
  equal(await k("batch").max("n as m").first(), { m: 2499 });
});

run(open, (k) => k.destroy());
