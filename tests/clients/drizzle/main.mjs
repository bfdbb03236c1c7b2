// Drizzle on node-postgres: its migrator, which keeps its journal in a schema of its own unless
// told otherwise, its query builder and its relational queries.

import pg from "pg";
import { drizzle } from "drizzle-orm/node-postgres";
import { migrate } from "drizzle-orm/node-postgres/migrator";
import {
  and,
  asc,
  count,
  desc,
  eq,
  exists,
  gt,
  ilike,
  inArray,
  relations,
  sql,
  sum,
} from "drizzle-orm";
import {
  bigint,
  integer,
  jsonb,
  numeric,
  pgEnum,
  pgTable,
  serial,
  text,
  timestamp,
  uuid,
} from "drizzle-orm/pg-core";
import { check, equal, raises, run, URL_OF_DATABASE } from "./checks.mjs";

const role = pgEnum("role", ["reader", "writer", "editor"]);
const users = pgTable("users", {
  id: serial("id").primaryKey(),
  name: text("name").notNull().unique(),
  role: role("role").notNull().default("reader"),
  created: timestamp("created", { withTimezone: true }).notNull().defaultNow(),
});
const posts = pgTable("posts", {
  id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
  author: integer("author")
    .notNull()
    .references(() => users.id),
  title: text("title").notNull(),
  price: numeric("price", { precision: 10, scale: 2 }),
  tags: text("tags").array().notNull().default([]),
  data: jsonb("data"),
  uid: uuid("uid").notNull().defaultRandom(),
});
const schema = {
  users,
  posts,
  usersRelations: relations(users, ({ many }) => ({ posts: many(posts) })),
  postsRelations: relations(posts, ({ one }) => ({
    user: one(users, { fields: [posts.author], references: [users.id] }),
  })),
};

// Each check has a database of its own, since all share the tables' names.
let number = 0;
async function open() {
  const admin = new pg.Client(URL_OF_DATABASE);
  await admin.connect();
  const name = `${process.env.PGDATABASE}_${++number}`;
  const protocol = process.env.MERIDIAN_PROTOCOL;
  await admin.query(`CREATE DATABASE ${name}${protocol ? ` PROTOCOL = "${protocol}"` : ""}`);
  await admin.end();
  const pool = new pg.Pool({ connectionString: `${URL_OF_DATABASE}_${number}`, max: 4 });
  pool.on("error", () => {});
  return { db: drizzle(pool, { schema }), pool };
}

// The migrations, with the journal in the schema public.
const FLAT = { migrationsFolder: "migrations", migrationsSchema: "public" };

async function filled({ db }) {
  await migrate(db, FLAT);
  const [ann, bob] = await db
    .insert(users)
    .values([{ name: "ann" }, { name: "bob", role: "writer" }])
    .returning();
  await db.insert(posts).values([
    { author: ann.id, title: "one", price: "1.50", tags: ["x", "y"], data: { n: 1 } },
    { author: ann.id, title: "two", price: "2.50" },
    { author: bob.id, title: "three", data: [1, null] },
  ]);
  return db;
}

check("migrations with a schema of their own", async ({ db }) => {
  await migrate(db, { migrationsFolder: "migrations" });
  await migrate(db, { migrationsFolder: "migrations" });
  equal((await db.execute(sql`SELECT count(*)::int AS n FROM drizzle.__drizzle_migrations`)).rows, [
    { n: 2 },
  ]);
});

check("migrations", async ({ db }) => {
  await migrate(db, FLAT);
  await migrate(db, FLAT);
  equal((await db.execute(sql`SELECT count(*)::int AS n FROM __drizzle_migrations`)).rows, [
    { n: 2 },
  ]);
});

check("inserts and selects", async (side) => {
  const db = await filled(side);
  const [row] = await db.select().from(posts).where(eq(posts.title, "one"));
  equal([row.id, row.price, row.tags, row.data], [1, "1.50", ["x", "y"], { n: 1 }]);
  equal(row.uid.length, 36);
  const [user] = await db.select().from(users).where(eq(users.role, "writer"));
  equal([user.name, user.created instanceof Date], ["bob", true]);
});

check("joins, groups and subqueries", async (side) => {
  const db = await filled(side);
  const rows = await db
    .select({ name: users.name, n: count(posts.id), total: sum(posts.price) })
    .from(users)
    .leftJoin(posts, eq(posts.author, users.id))
    .groupBy(users.id)
    .having(gt(count(posts.id), 1));
  equal(rows, [{ name: "ann", n: 2, total: "4.00" }]);
  const dear = db
    .select()
    .from(posts)
    .where(and(eq(posts.author, users.id), gt(posts.price, "2")));
  equal(await db.select({ name: users.name }).from(users).where(exists(dear)), [{ name: "ann" }]);
  const t = db
    .$with("t")
    .as(db.select({ title: posts.title }).from(posts).where(ilike(posts.title, "T%")));
  equal(await db.with(t).select().from(t).orderBy(asc(t.title)), [
    { title: "three" },
    { title: "two" },
  ]);
  equal(
    (
      await db
        .select()
        .from(posts)
        .where(inArray(posts.id, [1, 3]))
        .orderBy(desc(posts.id))
        .limit(1)
    ).length,
    1,
  );
});

check("relational queries", async (side) => {
  const db = await filled(side);
  const rows = await db.query.users.findMany({
    columns: { name: true },
    with: { posts: { columns: { title: true, tags: true }, orderBy: asc(posts.id), limit: 1 } },
    orderBy: asc(users.id),
  });
  equal(rows, [
    { name: "ann", posts: [{ title: "one", tags: ["x", "y"] }] },
    { name: "bob", posts: [{ title: "three", tags: [] }] },
  ]);
  const post = await db.query.posts.findFirst({
    where: eq(posts.title, "two"),
    with: { user: true },
  });
  equal(post.user.name, "ann");
});

check("updates, deletes and upserts", async (side) => {
  const db = await filled(side);
  equal(
    await db
      .update(posts)
      .set({ price: sql`${posts.price} * 2` })
      .where(eq(posts.id, 1))
      .returning({ price: posts.price }),
    [{ price: "3.00" }],
  );
  await db
    .insert(users)
    .values({ name: "ann", role: "editor" })
    .onConflictDoUpdate({ target: users.name, set: { role: sql`excluded.role` } });
  await db.insert(users).values({ name: "ann" }).onConflictDoNothing();
  equal((await db.select().from(users).where(eq(users.name, "ann")))[0].role, "editor");
  await db.delete(users).where(eq(users.name, "ann"));
  equal(await db.$count(posts), 1);
});

check("errors by code", async (side) => {
  const db = await filled(side);
  const error = await raises("23505", () => db.insert(users).values({ name: "ann" }));
  equal(error.constraint, "users_name_unique");
  await raises("23503", () => db.insert(posts).values({ author: 99, title: "x" }));
  await raises("23514", () => db.insert(posts).values({ author: 1, title: "" }));
  await raises("23502", () => db.insert(posts).values({ author: null, title: "x" }));
});

check("transactions and savepoints", async (side) => {
  const db = await filled(side);
  await db.transaction(
    async (t) => {
      await t.insert(users).values({ name: "carl" });
      await t
        .transaction(async (inner) => {
          await inner.delete(posts);
          inner.rollback();
        })
        .catch(() => {});
    },
    { isolationLevel: "serializable" },
  );
  equal([await db.$count(users), await db.$count(posts)], [3, 3]);
});

check("row locks", async (side) => {
  const db = await filled(side);
  await db.transaction(async (t) => {
    await t.select().from(users).where(eq(users.id, 1)).for("update");
    const rest = await db.transaction((o) =>
      o.select({ id: users.id }).from(users).for("update", { skipLocked: true }),
    );
    equal(rest, [{ id: 2 }]);
  });
});

check("prepared statements", async (side) => {
  const db = await filled(side);
  const query = db
    .select({ title: posts.title })
    .from(posts)
    .where(eq(posts.id, sql.placeholder("id")))
    .prepare("by_id");
  equal(
    [await query.execute({ id: 1 }), await query.execute({ id: 2 })],
    [[{ title: "one" }], [{ title: "two" }]],
  );
});

run(open, ({ pool }) => pool.end());
