"""asyncpg: everything in binary, types by introspection."""

import asyncio
import datetime as dt
import ipaddress
import json
import uuid
from decimal import Decimal

import asyncpg
import checks
from checks import check, equal

TARGET = {
    "host": checks.HOST,
    "port": checks.PORT,
    "user": checks.USER,
    "database": checks.DATABASE,
    "ssl": False,
}


async def connect(**options):
    return await asyncpg.connect(**TARGET, **options)


async def raises(kind, awaitable):
    try:
        await awaitable
    except kind as error:
        return error
    raise AssertionError(f"no error, expected {kind.__name__}")


@check
async def versions_and_settings(c):
    version = c.get_server_version()
    assert version.major >= 14, version
    settings = c.get_settings()
    equal((settings.server_encoding, settings.client_encoding), ("UTF8", "UTF8"))


@check
async def create_insert_select(c):
    await c.execute("CREATE TABLE crud (id bigserial PRIMARY KEY, name text NOT NULL, n int)")
    equal(await c.fetchval("INSERT INTO crud (name) VALUES ($1) RETURNING id", "ann"), 1)
    equal(await c.execute("INSERT INTO crud (name, n) VALUES ($1, $2)", "bob", 2), "INSERT 0 1")
    rows = await c.fetch("SELECT * FROM crud ORDER BY id")
    equal(
        [dict(row) for row in rows], [dict(id=1, name="ann", n=None), dict(id=2, name="bob", n=2)]
    )
    equal(await c.execute("UPDATE crud SET n = 0"), "UPDATE 2")
    equal(await c.execute("DELETE FROM crud WHERE id = $1", 1), "DELETE 1")
    equal(await c.fetchrow("SELECT 1 WHERE false"), None)


async def round_trip(c, name, *values):
    for value in values:
        found = await c.fetchval(f"SELECT $1::{name}", value)
        equal(found, value)


@check
async def integers(c):
    await round_trip(c, "smallint", 0, -(2**15), 2**15 - 1, None)
    await round_trip(c, "integer", 0, -(2**31), 2**31 - 1)
    await round_trip(c, "bigint", 0, -(2**63), 2**63 - 1)
    await round_trip(c, "oid", 0, 2**32 - 1)


@check
async def floats_and_numerics(c):
    await round_trip(c, "real", 1.5, float("inf"))
    await round_trip(c, "double precision", 0.1, -1e300)
    await round_trip(c, "numeric", Decimal("0"), Decimal("-12345.67890"), Decimal("0.0001"))


@check
async def numerics_of_any_size(c):
    await round_trip(c, "numeric", Decimal("1" * 60), Decimal("1e-40"))
    assert (await c.fetchval("SELECT 'NaN'::numeric")).is_nan()


@check
async def texts_bytes_and_booleans(c):
    await round_trip(c, "text", "", "ünïcode ✓", "a" * 100_000)
    await round_trip(c, "varchar(10)", "ab")
    await round_trip(c, "char(3)", "abc")
    await round_trip(c, "bytea", b"", b"\x00\xff")
    await round_trip(c, "boolean", True, False)
    await round_trip(c, "name", "x")


@check
async def dates_and_times(c):
    utc = dt.timezone.utc
    await round_trip(c, "date", dt.date(1, 1, 1), dt.date(2024, 2, 29), dt.date.max)
    await round_trip(c, "time", dt.time(0), dt.time(23, 59, 59, 999999))
    await round_trip(c, "timestamp", dt.datetime(1900, 1, 1), dt.datetime(2024, 2, 29, 1, 2, 3, 4))
    await round_trip(c, "timestamptz", dt.datetime(2024, 2, 29, 1, 2, 3, 4, utc))
    await round_trip(c, "interval", dt.timedelta(0), dt.timedelta(-3, 4, 5))


@check
async def infinite_dates(c):
    equal(await c.fetchval("SELECT 'infinity'::timestamp"), dt.datetime.max)
    equal(await c.fetchval("SELECT '-infinity'::date"), dt.date.min)


@check
async def time_with_time_zone(c):
    await round_trip(c, "timetz", dt.time(1, 2, 3, 4, dt.timezone(dt.timedelta(hours=-5))))


@check
async def uuids_and_networks(c):
    await round_trip(c, "uuid", uuid.UUID("12345678-1234-5678-1234-567812345678"))
    await round_trip(c, "inet", ipaddress.ip_address("::1"), ipaddress.ip_interface("10.1.2.3/8"))
    await round_trip(c, "cidr", ipaddress.ip_network("10.0.0.0/8"))


@check
async def bit_strings(c):
    await round_trip(c, "varbit", asyncpg.BitString("1011"))


@check
async def points_and_boxes(c):
    await round_trip(c, "point", asyncpg.Point(1, 2))


@check
async def ranges(c):
    await round_trip(c, "int4range", asyncpg.Range(1, 5))


@check
async def json_by_a_codec(c):
    for name in ("json", "jsonb"):
        await c.set_type_codec(
            name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog", format="text"
        )
        await round_trip(c, name, {"a": [1, None, "✓"]}, [], "x", 1.5)


@check
async def arrays(c):
    await round_trip(c, "int[]", [], [1, None, 3], [[1, 2], [3, 4]])
    await round_trip(c, "text[]", ["a,b", '"', "", None])
    await round_trip(c, "numeric[]", [Decimal("1.5")])
    await round_trip(c, "timestamptz[]", [dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)])
    await round_trip(c, "uuid[]", [uuid.uuid4()])
    await round_trip(c, "bytea[]", [b"\x00"])


@check
async def any_of_a_list(c):
    rows = await c.fetch(
        "SELECT g FROM generate_series(1, 9) g WHERE g = ANY($1::int[])", [2, 99, 4]
    )
    equal([row["g"] for row in rows], [2, 4])


@check
async def unnest_of_parameters(c):
    await c.execute("CREATE TABLE unnested (id int PRIMARY KEY, v text)")
    query = "INSERT INTO unnested SELECT * FROM unnest($1::int[], $2::text[])"
    equal(await c.execute(query, [1, 2, 3], ["a", "b", None]), "INSERT 0 3")


@check
async def enums_by_introspection(c):
    await c.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    await c.execute("CREATE TABLE moods (id int PRIMARY KEY, m mood, ms mood[])")
    query = "INSERT INTO moods VALUES (1, $1, $2) RETURNING m, ms"
    equal(tuple(await c.fetchrow(query, "sad", ["happy", None])), ("sad", ["happy", None]))
    await raises(asyncpg.InvalidTextRepresentationError, c.fetchval("SELECT $1::mood", "no"))


@check
async def composite_types_by_introspection(c):
    await c.execute("CREATE TYPE pair AS (a int, b text)")
    equal(tuple(await c.fetchval("SELECT $1::pair", (1, "x"))), (1, "x"))


@check
async def row_types_of_tables(c):
    await c.execute("CREATE TABLE whole (a int, b text)")
    await c.execute("INSERT INTO whole VALUES (1, 'x')")
    equal(tuple(await c.fetchval("SELECT whole FROM whole")), (1, "x"))


@check
async def rows_as_values(c):
    equal(tuple(await c.fetchval("SELECT ROW(1, 'x'::text, NULL::date)")), (1, "x", None))


@check
async def domains_by_introspection(c):
    await c.execute("CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    await round_trip(c, "positive", 5)
    await raises(asyncpg.CheckViolationError, c.fetchval("SELECT $1::positive", -5))


@check
async def custom_codecs_of_enums(c):
    await c.execute("CREATE TYPE size AS ENUM ('s', 'l')")
    await c.set_type_codec("size", encoder=str.lower, decoder=str.upper, format="text")
    equal(await c.fetchval("SELECT $1::size", "L"), "L")


@check
async def prepared_statements(c):
    statement = await c.prepare("SELECT $1::int + $2::int8 AS total, $3::text AS t")
    equal([p.name for p in statement.get_parameters()], ["int4", "int8", "text"])
    equal(
        [(a.name, a.type.name) for a in statement.get_attributes()],
        [("total", "int8"), ("t", "text")],
    )
    equal(tuple(await statement.fetchrow(1, 2, "x")), (3, "x"))
    equal(await statement.fetchval(5, 6, "x"), 11)
    assert "Plan" in (await statement.explain(1, 2, "x"))[0]


@check
async def types_of_parameters(c):
    await c.execute("CREATE TABLE typed (id int8, n numeric(10, 2), at timestamptz, v varchar(5))")
    for query, expected in [
        (
            "INSERT INTO typed VALUES ($1, $2, $3, $4)",
            ["int8", "numeric", "timestamptz", "varchar"],
        ),
        ("SELECT * FROM typed WHERE id = $1 AND v LIKE $2 LIMIT $3", ["int8", "text", "int8"]),
        ("UPDATE typed SET n = n + $1 WHERE at > $2", ["numeric", "timestamptz"]),
        ("SELECT coalesce($1, id) FROM typed WHERE id IN ($2, $3)", ["int8", "int8", "int8"]),
        ("SELECT CASE WHEN $1 THEN $2 ELSE 'x' END", ["bool", "text"]),
    ]:
        statement = await c.prepare(query)
        equal([p.name for p in statement.get_parameters()], expected)


@check
async def statements_after_a_change_of_the_table(c):
    await c.execute("CREATE TABLE changing (id int)")
    await c.execute("INSERT INTO changing VALUES (1)")
    query = "SELECT * FROM changing"
    await c.fetch(query)
    other = await connect()
    await other.execute("ALTER TABLE changing ADD COLUMN v text DEFAULT 'x'")
    await other.close()
    equal(tuple((await c.fetch(query))[0]), (1, "x"))


@check
async def executemany(c):
    await c.execute("CREATE TABLE many (id int PRIMARY KEY, v text)")
    await c.executemany("INSERT INTO many VALUES ($1, $2)", [(i, str(i)) for i in range(500)])
    equal(await c.fetchval("SELECT count(*) FROM many"), 500)
    again = c.executemany("INSERT INTO many VALUES ($1, 'x')", [(1000,), (1,)])
    await raises(asyncpg.UniqueViolationError, again)
    equal(await c.fetchval("SELECT count(*) FROM many"), 500)


@check
async def transactions_and_savepoints(c):
    await c.execute("CREATE TABLE nested (id int PRIMARY KEY)")
    async with c.transaction():
        await c.execute("INSERT INTO nested VALUES (1)")
        try:
            async with c.transaction():
                await c.execute("INSERT INTO nested VALUES (2)")
                await c.execute("INSERT INTO nested VALUES (1)")
        except asyncpg.UniqueViolationError:
            pass
        await c.execute("INSERT INTO nested VALUES (3)")
    equal([row["id"] for row in await c.fetch("SELECT id FROM nested ORDER BY id")], [1, 3])


@check
async def isolation_levels(c):
    for level in ("serializable", "repeatable_read", "read_committed"):
        async with c.transaction(isolation=level):
            equal(await c.fetchval("SHOW transaction_isolation"), level.replace("_", " "))


@check
async def read_only_and_deferrable_transactions(c):
    async with c.transaction(isolation="serializable", readonly=True, deferrable=True):
        error = c.execute("CREATE TABLE forbidden (id int)")
        await raises(asyncpg.ReadOnlySQLTransactionError, error)


@check
async def errors_have_their_fields(c):
    await c.execute("CREATE TABLE strict (id int PRIMARY KEY, n int NOT NULL CHECK (n > 0))")
    await c.execute("INSERT INTO strict VALUES (1, 1)")
    error = await raises(
        asyncpg.UniqueViolationError, c.execute("INSERT INTO strict VALUES (1, 1)")
    )
    equal(
        (error.sqlstate, error.constraint_name, error.table_name),
        ("23505", "strict_pkey", "strict"),
    )
    error = await raises(asyncpg.CheckViolationError, c.execute("INSERT INTO strict VALUES (2, 0)"))
    equal((error.schema_name, error.constraint_name), ("public", "strict_n_check"))
    error = await raises(asyncpg.NotNullViolationError, c.execute("INSERT INTO strict VALUES (2)"))
    equal(error.column_name, "n")
    await raises(asyncpg.UndefinedTableError, c.execute("SELECT * FROM missing"))
    await raises(asyncpg.PostgresSyntaxError, c.execute("SELEKT"))
    await raises(asyncpg.DataError, c.fetchval("SELECT $1::int", "x"))


@check
async def cursors(c):
    async with c.transaction():
        values = [
            r["g"] async for r in c.cursor("SELECT generate_series(1, $1::int) g", 100, prefetch=7)
        ]
        equal(values, list(range(1, 101)))
        cursor = await c.cursor("SELECT generate_series(1, 10) g")
        await cursor.forward(3)
        equal([row["g"] for row in await cursor.fetch(2)], [4, 5])


@check
async def copy_records(c):
    await c.execute("CREATE TABLE copied (id int, v text, at timestamptz, n numeric, tags text[])")
    at = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    rows = [(i, f"v{i}", at, Decimal("1.50"), ["a", None]) for i in range(1000)] + [(None,) * 5]
    equal(await c.copy_records_to_table("copied", records=rows), "COPY 1001")
    equal([tuple(row) for row in await c.fetch("SELECT * FROM copied ORDER BY id")], rows)


@check
async def copy_csv(c):
    import io

    await c.execute("CREATE TABLE csv (id int, v text)")
    source = io.BytesIO(b'id,v\n1,"a,b"\n2,\n')
    equal(await c.copy_to_table("csv", source=source, format="csv", header=True), "COPY 2")
    out = io.BytesIO()
    await c.copy_from_query("SELECT * FROM csv WHERE id >= $1", 1, output=out, format="csv")
    equal(out.getvalue(), b'1,"a,b"\n2,\n')
    out = io.BytesIO()
    await c.copy_from_table("csv", columns=["v"], output=out)
    equal(out.getvalue(), b"a,b\n\\N\n")


@check
async def copy_binary(c):
    import io

    await c.execute("CREATE TABLE raw (id int, v text)")
    await c.execute("INSERT INTO raw VALUES (1, 'x'), (2, NULL)")
    out = io.BytesIO()
    await c.copy_from_table("raw", output=out, format="binary")
    out.seek(0)
    equal(await c.copy_to_table("raw", source=out, format="binary"), "COPY 2")
    equal(await c.fetchval("SELECT count(*) FROM raw"), 4)


@check
async def upserts(c):
    await c.execute("CREATE TABLE upserted (k text PRIMARY KEY, n int NOT NULL)")
    query = (
        "INSERT INTO upserted AS u VALUES ($1, $2)"
        " ON CONFLICT (k) DO UPDATE SET n = u.n + $2 RETURNING n"
    )
    equal(await c.fetchval(query, "a", 1), 1)
    equal(await c.fetchval(query, "a", 5), 6)


@check
async def row_locks(c):
    await c.execute("CREATE TABLE locked (id int PRIMARY KEY)")
    await c.execute("INSERT INTO locked VALUES (1), (2)")
    other = await connect()
    async with c.transaction():
        await c.execute("SELECT * FROM locked WHERE id = 1 FOR UPDATE")
        query = "SELECT id FROM locked ORDER BY id FOR UPDATE SKIP LOCKED"
        equal([row["id"] for row in await other.fetch(query)], [2])
        now = other.fetch("SELECT id FROM locked FOR UPDATE NOWAIT")
        await raises(asyncpg.LockNotAvailableError, now)
    await other.close()


@check
async def concurrent_updates_wait(c):
    await c.execute("CREATE TABLE counted (id int PRIMARY KEY, n int)")
    await c.execute("INSERT INTO counted VALUES (1, 0)")
    others = [await connect() for _ in range(5)]

    async def add(other):
        for _ in range(10):
            while True:
                try:
                    await other.execute("UPDATE counted SET n = n + 1 WHERE id = 1")
                    break
                except asyncpg.SerializationError:
                    pass

    await asyncio.gather(*(add(other) for other in others))
    equal(await c.fetchval("SELECT n FROM counted"), 50)
    for other in others:
        await other.close()


@check
async def timeouts_cancel_statements(c):
    # A cancellation that comes before the statement is none, and then the client waits for it.
    await c.execute("SET statement_timeout = '20s'")
    slow = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b"
    await raises(asyncio.TimeoutError, c.fetch(slow, timeout=1))
    equal(await c.fetchval("SELECT 1"), 1)


@check
async def listen_and_notify(c):
    heard = asyncio.get_running_loop().create_future()
    await c.add_listener(
        "news", lambda _, __, channel, payload: heard.set_result((channel, payload))
    )
    other = await connect()
    await other.execute("NOTIFY news, 'hello'")
    equal(await asyncio.wait_for(heard, 5), ("news", "hello"))
    await other.close()


@check
async def notices(c):
    heard = []
    c.add_log_listener(lambda _, message: heard.append(message.message))
    await c.execute("DROP TABLE IF EXISTS not_there")
    await asyncio.sleep(0.1)
    equal(heard, ['table "not_there" does not exist, skipping'])


@check
async def a_pool_resets_its_connections(c):
    async with asyncpg.create_pool(**TARGET, min_size=1, max_size=2) as pool:
        async with pool.acquire() as connection:
            await connection.execute("SET search_path = 'public'")
            await connection.execute("SET application_name = 'changed'")
        async with pool.acquire() as connection:
            equal(await connection.fetchval("SHOW application_name"), "")
        results = await asyncio.gather(*(pool.fetchval("SELECT $1::int", i) for i in range(20)))
        equal(results, list(range(20)))


@check
async def settings_of_a_connection(c):
    other = await connect(server_settings={"application_name": "mine", "search_path": "public"})
    equal(await other.fetchval("SELECT current_setting('application_name')"), "mine")
    await other.close()


@check
async def temporary_tables(c):
    await c.execute("CREATE TEMP TABLE scratch (id int)")
    await c.execute("INSERT INTO scratch VALUES (1)")
    equal(await c.fetchval("SELECT id FROM scratch"), 1)


@check
async def schemas(c):
    await c.execute("CREATE SCHEMA app; CREATE TABLE app.t (id int); INSERT INTO app.t VALUES (7)")
    await c.execute("SET search_path = app, public")
    equal(await c.fetchval("SELECT id FROM t"), 7)


@check
async def recursive_queries(c):
    query = (
        "WITH RECURSIVE walk(n) AS (SELECT $1::int UNION ALL SELECT n + 1 FROM walk WHERE n < $2)"
        " SELECT array_agg(n ORDER BY n) FROM walk"
    )
    equal(await c.fetchval(query, 1, 5), [1, 2, 3, 4, 5])


checks.run(connect, lambda c: c.close(timeout=5))
