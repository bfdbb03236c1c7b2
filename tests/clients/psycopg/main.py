"""psycopg 3, as its documentation shows it."""

import datetime as dt
import ipaddress
import threading
import uuid
from decimal import Decimal
from enum import Enum

import checks
import psycopg
from checks import check, equal, raises
from psycopg import errors, sql
from psycopg.rows import class_row, dict_row, namedtuple_row
from psycopg.types.composite import CompositeInfo, register_composite
from psycopg.types.enum import EnumInfo, register_enum
from psycopg.types.json import Json, Jsonb
from psycopg.types.range import Range

CONNINFO = f"host={checks.HOST} port={checks.PORT} user={checks.USER} dbname={checks.DATABASE}"


def connect(**options):
    return psycopg.connect(CONNINFO, **options)


@check
def connection_information(c):
    equal(c.info.dbname, checks.DATABASE)
    equal(c.info.encoding, "utf-8")
    equal(c.info.parameter_status("standard_conforming_strings"), "on")
    assert c.info.server_version >= 140000, c.info.server_version
    assert c.info.backend_pid > 0


@check
def create_insert_select(c):
    c.execute("CREATE TABLE crud (id serial PRIMARY KEY, name text NOT NULL, n integer)")
    c.execute("INSERT INTO crud (name, n) VALUES (%s, %s)", ("ann", 1))
    cursor = c.execute("INSERT INTO crud (name, n) VALUES (%s, %s) RETURNING id", ("bob", None))
    equal(cursor.fetchone(), (2,))
    equal(c.execute("SELECT * FROM crud ORDER BY id").fetchall(), [(1, "ann", 1), (2, "bob", None)])
    equal(c.execute("UPDATE crud SET n = n + 1 WHERE n = %s", (1,)).rowcount, 1)
    equal(c.execute("DELETE FROM crud").rowcount, 2)
    c.commit()


@check
def named_parameters(c):
    row = c.execute("SELECT %(a)s::int + %(b)s, %(b)s, '%%'", {"a": 1, "b": 2}).fetchone()
    equal(row, (3, 2, "%"))


@check
def executemany_with_returning(c):
    c.execute("CREATE TABLE many (id int PRIMARY KEY, v text)")
    cursor = c.cursor()
    rows = [(i, f"v{i}") for i in range(50)]
    cursor.executemany("INSERT INTO many VALUES (%s, %s) RETURNING id", rows, returning=True)
    ids = [cursor.fetchone()[0]]
    while cursor.nextset():
        ids.append(cursor.fetchone()[0])
    equal(ids, list(range(50)))


def numbers(c, binary):
    values = (2**15 - 1, 2**31 - 1, -(2**63), 1.5, 0.1, Decimal("12345.67890"), True)
    casts = "%s::int2, %s::int4, %s::int8, %s::float4, %s::float8, %s::numeric, %s::bool"
    equal(c.cursor(binary=binary).execute(f"SELECT {casts}", values).fetchone(), values)


@check
def numbers_as_text(c):
    numbers(c, False)


@check
def numbers_in_binary(c):
    numbers(c, True)


def times(c, binary):
    c.execute("SET TIME ZONE 'UTC'")
    values = (
        dt.date(2024, 2, 29),
        dt.time(23, 59, 59, 123456),
        dt.datetime(2024, 2, 29, 12, 0, 0, 1),
        dt.datetime(2024, 2, 29, 12, 0, tzinfo=dt.timezone.utc),
        dt.timedelta(days=3, seconds=4, microseconds=5),
    )
    casts = "%s::date, %s::time, %s::timestamp, %s::timestamptz, %s::interval"
    equal(c.cursor(binary=binary).execute(f"SELECT {casts}", values).fetchone(), values)


@check
def dates_and_times_as_text(c):
    times(c, False)


@check
def dates_and_times_in_binary(c):
    times(c, True)


@check
def time_with_time_zone(c):
    value = dt.time(10, 20, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    for binary in (False, True):
        cursor = c.cursor(binary=binary).execute("SELECT %s::timetz", (value,))
        equal(cursor.fetchone(), (value,))


@check
def named_time_zone(c):
    c.execute("SET TIME ZONE 'Europe/Berlin'")
    (value,) = c.execute("SELECT '2024-07-01 12:00Z'::timestamptz").fetchone()
    equal(value.utcoffset(), dt.timedelta(hours=2))


def others(c, binary):
    values = (
        "ünïcode ✓",
        b"\x00\xff bytes",
        uuid.UUID("12345678-1234-5678-1234-567812345678"),
        ipaddress.ip_address("192.168.0.1"),
        ipaddress.ip_network("10.0.0.0/8"),
    )
    cursor = c.cursor(binary=binary)
    cursor.execute("SELECT %s::text, %s::bytea, %s::uuid, %s::inet, %s::cidr", values)
    equal(cursor.fetchone(), values)


@check
def text_bytes_uuid_and_networks_as_text(c):
    others(c, False)


@check
def text_bytes_uuid_and_networks_in_binary(c):
    others(c, True)


@check
def json_and_jsonb(c):
    value = {"a": [1, 2.5, None, True], "b": {"c": "✓"}}
    for binary in (False, True):
        cursor = c.cursor(binary=binary)
        cursor.execute("SELECT %s::json, %s::jsonb", (Json(value), Jsonb(value)))
        equal(cursor.fetchone(), (value, value))
    query = "SELECT %s::jsonb -> 'b' ->> 'c', %s::jsonb @> %s::jsonb, %s::jsonb ? 'a'"
    row = c.execute(query, (Jsonb(value), Jsonb(value), Jsonb({"b": {}}), Jsonb(value))).fetchone()
    equal(row, ("✓", True, True))


def arrays(c, binary):
    values = ([1, None, 3], ["a", "b,c", '"'], [[1, 2], [3, 4]], [Decimal("1.5")], [])
    casts = "%s::int[], %s::text[], %s::int[], %s::numeric[], %s::text[]"
    equal(c.cursor(binary=binary).execute(f"SELECT {casts}", values).fetchone(), values)


@check
def arrays_as_text(c):
    arrays(c, False)


@check
def arrays_in_binary(c):
    arrays(c, True)


@check
def arrays_of_dates_and_uuids(c):
    values = ([dt.date(2024, 1, 1), dt.date(1999, 12, 31)], [uuid.uuid4()], [True, False])
    for binary in (False, True):
        cursor = c.cursor(binary=binary)
        equal(
            cursor.execute("SELECT %s::date[], %s::uuid[], %s::bool[]", values).fetchone(), values
        )


@check
def any_of_a_list(c):
    c.execute("CREATE TABLE listed (id int PRIMARY KEY)")
    c.execute("INSERT INTO listed SELECT generate_series(1, 10)")
    rows = c.execute(
        "SELECT id FROM listed WHERE id = ANY(%s) ORDER BY id", ([2, 4, 99],)
    ).fetchall()
    equal(rows, [(2,), (4,)])


@check
def nulls_of_every_type(c):
    types = "int, int8, numeric, text, bytea, date, timestamptz, interval, uuid, jsonb, inet, int[]"
    for name in types.split(", "):
        for binary in (False, True):
            cursor = c.cursor(binary=binary)
            equal(cursor.execute(f"SELECT %s::{name}", (None,)).fetchone(), (None,))


@check
def special_numerics(c):
    row = c.execute("SELECT 'NaN'::numeric, 'Infinity'::float8, '-Infinity'::float8").fetchone()
    assert row[0].is_nan() and row[1] == float("inf") and row[2] == float("-inf"), row


@check
def numeric_of_fifty_digits(c):
    value = Decimal("1234567890" * 5 + "." + "9876543210")
    for binary in (False, True):
        equal(c.cursor(binary=binary).execute("SELECT %s::numeric", (value,)).fetchone(), (value,))


class Mood(Enum):
    SAD = "sad"
    HAPPY = "happy"


@check
def enums(c):
    c.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    register_enum(
        EnumInfo.fetch(c, "mood"), c, Mood, mapping={Mood.SAD: "sad", Mood.HAPPY: "happy"}
    )
    c.execute("CREATE TABLE moods (id int PRIMARY KEY, m mood)")
    for binary in (False, True):
        cursor = c.cursor(binary=binary)
        cursor.execute("INSERT INTO moods VALUES (%s, %s) RETURNING m", (int(binary), Mood.HAPPY))
        equal(cursor.fetchone(), (Mood.HAPPY,))
    raises(errors.InvalidTextRepresentation, lambda: c.execute("SELECT 'no'::mood"), "22P02")


@check
def composite_types(c):
    c.execute("CREATE TYPE pair AS (a int, b text)")
    info = CompositeInfo.fetch(c, "pair")
    register_composite(info, c)
    value = info.python_type(1, "x")
    equal(c.execute("SELECT %s::pair", (value,)).fetchone()[0], value)


@check
def rows_as_values(c):
    equal(c.execute("SELECT ROW(1, 'x'::text, true)").fetchone(), (("1", "x", "t"),))


@check
def domains(c):
    c.execute("CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    equal(c.execute("SELECT 3::positive").fetchone(), (3,))
    raises(errors.CheckViolation, lambda: c.execute("SELECT (-3)::positive"), "23514")


@check
def ranges(c):
    value = Range(1, 5)
    equal(c.execute("SELECT %s::int4range", (value,)).fetchone(), (value,))


@check
def row_factories(c):
    cursor = c.cursor(row_factory=dict_row)
    equal(cursor.execute("SELECT 1 AS a, 'x' AS b").fetchone(), {"a": 1, "b": "x"})
    cursor = c.cursor(row_factory=namedtuple_row)
    equal(cursor.execute("SELECT 1 AS a").fetchone().a, 1)

    class Point:
        def __init__(self, x, y):
            self.x, self.y = x, y

    point = c.cursor(row_factory=class_row(Point)).execute("SELECT 1 AS x, 2 AS y").fetchone()
    equal((point.x, point.y), (1, 2))


@check
def descriptions_of_columns(c):
    columns = c.execute(
        "SELECT 1 AS i, 'x'::varchar(7) AS v, 1.5::numeric(10, 2) AS n, now()::timestamp(3) AS t"
    ).description
    equal([column.name for column in columns], ["i", "v", "n", "t"])
    equal([column.type_code for column in columns], [23, 1043, 1700, 1114])
    equal((columns[1].display_size, columns[2].precision, columns[2].scale), (7, 10, 2))


@check
def commit_and_rollback(c):
    c.execute("CREATE TABLE kept (id int PRIMARY KEY)")
    c.commit()
    c.execute("INSERT INTO kept VALUES (1)")
    c.rollback()
    equal(c.execute("SELECT count(*) FROM kept").fetchone(), (0,))


@check
def transaction_blocks_and_savepoints(c):
    c.execute("CREATE TABLE nested (id int PRIMARY KEY)")
    c.commit()
    with c.transaction():
        c.execute("INSERT INTO nested VALUES (1)")
        with c.transaction() as inner:
            c.execute("INSERT INTO nested VALUES (2)")
            raise psycopg.Rollback(inner)
        c.execute("INSERT INTO nested VALUES (3)")
    equal(c.execute("SELECT id FROM nested ORDER BY id").fetchall(), [(1,), (3,)])


@check
def ddl_is_transactional(c):
    c.execute("CREATE TABLE undone (id int)")
    c.rollback()
    equal(c.execute("SELECT to_regclass('undone')").fetchone(), (None,))


@check
def a_failed_transaction(c):
    raises(errors.DivisionByZero, lambda: c.execute("SELECT 1/0"), "22012")
    equal(c.info.transaction_status, psycopg.pq.TransactionStatus.INERROR)
    raises(errors.InFailedSqlTransaction, lambda: c.execute("SELECT 1"), "25P02")
    c.rollback()
    equal(c.execute("SELECT 1").fetchone(), (1,))


@check
def autocommit(c):
    with connect(autocommit=True) as a:
        a.execute("CREATE TABLE automatic (id int)")
        a.execute("INSERT INTO automatic VALUES (1)")
        equal(a.info.transaction_status, psycopg.pq.TransactionStatus.IDLE)
    equal(c.execute("SELECT * FROM automatic").fetchall(), [(1,)])


@check
def isolation_levels_and_read_only(c):
    for level in (psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE):
        c.isolation_level = level
        name = level.name.lower().replace("_", " ")
        equal(c.execute("SHOW transaction_isolation").fetchone(), (name,))
        c.rollback()
    c.read_only = True
    write = "CREATE TABLE forbidden (id int)"
    raises(errors.ReadOnlySqlTransaction, lambda: c.execute(write), "25006")


@check
def deferrable_transactions(c):
    c.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    c.read_only = True
    c.deferrable = True
    equal(c.execute("SHOW transaction_deferrable").fetchone(), ("on",))


@check
def errors_of_constraints(c):
    c.autocommit = True
    c.execute("CREATE TABLE owner (id int PRIMARY KEY)")
    c.execute(
        "CREATE TABLE strict (id int PRIMARY KEY, n int NOT NULL, u int UNIQUE,"
        " k int CONSTRAINT positive_k CHECK (k > 0), o int REFERENCES owner, s varchar(3))"
    )
    c.execute("INSERT INTO strict VALUES (1, 1, 1)")
    add = "INSERT INTO strict VALUES "
    error = raises(errors.UniqueViolation, lambda: c.execute(add + "(1, 1, 2)"), "23505")
    equal(error.diag.constraint_name, "strict_pkey")
    equal(error.diag.table_name, "strict")
    equal(error.diag.message_detail, "Key (id)=(1) already exists.")
    error = raises(errors.NotNullViolation, lambda: c.execute(add + "(2)"), "23502")
    equal(error.diag.column_name, "n")
    error = raises(errors.CheckViolation, lambda: c.execute(add + "(2, 1, 2, 0)"), "23514")
    equal(error.diag.constraint_name, "positive_k")
    error = raises(errors.ForeignKeyViolation, lambda: c.execute(add + "(2, 1, 2, 1, 9)"), "23503")
    equal(error.diag.constraint_name, "strict_o_fkey")
    long = add + "(2, 1, 2, 1, NULL, 'long')"
    raises(errors.StringDataRightTruncation, lambda: c.execute(long), "22001")


@check
def errors_of_statements(c):
    c.autocommit = True
    for state, statement in [
        ("42P01", "SELECT * FROM missing"),
        ("42703", "SELECT missing"),
        ("42883", "SELECT missing(1)"),
        ("42601", "SELECT FROM WHERE"),
        ("22P02", "SELECT 'x'::int"),
        ("22003", "SELECT 2147483647 + 1"),
        ("22007", "SELECT 'x'::date"),
        ("22008", "SELECT '2024-02-30'::date"),
        ("42804", "SELECT CASE WHEN 1 THEN 2 END"),
        ("42803", "SELECT a, count(*) FROM (VALUES (1)) t(a)"),
        ("42702", "SELECT a FROM (VALUES (1)) t(a), (VALUES (1)) u(a)"),
        ("21000", "SELECT (VALUES (1), (2))"),
    ]:
        raises(psycopg.Error, lambda: c.execute(statement), state)
    error = raises(psycopg.Error, lambda: c.execute("SELECT 1 +  missing"))
    equal(error.diag.statement_position, "13")


@check
def prepared_statements(c):
    c.execute("CREATE TABLE prepared (id int PRIMARY KEY, v text)")
    for i in range(20):
        c.execute("INSERT INTO prepared VALUES (%s, %s)", (i, str(i)), prepare=True)
    names = c.execute("SELECT statement FROM pg_prepared_statements WHERE name LIKE '_pg3%'")
    equal(names.fetchall(), [("INSERT INTO prepared VALUES ($1, $2)",)])
    equal(c.execute("SELECT count(*) FROM prepared").fetchone(), (20,))


@check
def prepared_statements_after_a_change_of_the_table(c):
    c.autocommit = True
    c.execute("CREATE TABLE changing (id int)")
    c.execute("INSERT INTO changing VALUES (1)")
    query = "SELECT * FROM changing"
    c.execute(query, prepare=True)
    with connect() as other:
        other.execute("ALTER TABLE changing ADD COLUMN v text DEFAULT 'x'")
    raises(errors.FeatureNotSupported, lambda: c.execute(query, prepare=True), "0A000")


@check
def pipeline_mode(c):
    c.execute("CREATE TABLE piped (id int PRIMARY KEY)")
    c.commit()
    with c.pipeline() as pipeline:
        for i in range(100):
            c.execute("INSERT INTO piped VALUES (%s)", (i,))
        cursor = c.execute("SELECT count(*) FROM piped")
        pipeline.sync()
        equal(cursor.fetchone(), (100,))
    c.commit()
    with connect(autocommit=True) as a:

        def fails():
            with a.pipeline() as pipeline:
                a.execute("INSERT INTO piped VALUES (1000)")
                a.execute("INSERT INTO piped VALUES (1)")
                pipeline.sync()

        raises(errors.UniqueViolation, fails, "23505")
    equal(c.execute("SELECT count(*) FROM piped").fetchone(), (100,))


@check
def server_side_cursors(c):
    with c.cursor(name="numbers") as cursor:
        cursor.itersize = 100
        cursor.execute("SELECT generate_series(1, 1000)")
        equal(cursor.fetchmany(3), [(1,), (2,), (3,)])
        equal(sum(row[0] for row in cursor), 500500 - 6)


@check
def scrollable_cursors(c):
    with c.cursor(name="scrolled", scrollable=True) as cursor:
        cursor.execute("SELECT generate_series(1, 10)")
        cursor.scroll(5)
        equal(cursor.fetchone(), (6,))
        cursor.scroll(-2)
        equal(cursor.fetchone(), (5,))
        cursor.scroll(0, mode="absolute")
        equal(cursor.fetchone(), (1,))


@check
def cursors_with_hold(c):
    cursor = c.cursor(name="held", withhold=True)
    cursor.execute("SELECT generate_series(1, 5)")
    c.commit()
    equal(cursor.fetchall(), [(i,) for i in range(1, 6)])
    cursor.close()


@check
def streams_of_single_rows(c):
    equal(sum(row[0] for row in c.cursor().stream("SELECT generate_series(1, 1000)")), 500500)


@check
def copy_from_rows(c):
    c.execute("CREATE TABLE copied (id int, v text, at timestamptz, b bytea, tags text[])")
    now = dt.datetime.now(dt.timezone.utc)
    with c.cursor().copy("COPY copied FROM STDIN") as copy:
        for i in range(1000):
            copy.write_row((i, f"tab\there\\{i}", now, b"\x00", ["a", None]))
        copy.write_row((None, None, None, None, None))
    equal(c.execute("SELECT count(*), count(id) FROM copied").fetchone(), (1001, 1000))
    row = c.execute("SELECT v, at, b, tags FROM copied WHERE id = 7").fetchone()
    equal(row, ("tab\there\\7", now, b"\x00", ["a", None]))


@check
def copy_in_binary(c):
    c.execute("CREATE TABLE copied_binary (id int4, n numeric, d date, u uuid, j jsonb)")
    row = (1, Decimal("1.50"), dt.date(2024, 1, 2), uuid.uuid4(), {"a": 1})
    with c.cursor().copy("COPY copied_binary FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int4", "numeric", "date", "uuid", "jsonb"])
        copy.write_row((*row[:4], Jsonb(row[4])))
    with c.cursor().copy("COPY copied_binary TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(["int4", "numeric", "date", "uuid", "jsonb"])
        equal(list(copy.rows()), [row])


@check
def copy_to_csv(c):
    query = (
        "COPY (SELECT i, 'a,\"b' AS v FROM generate_series(1, 2) i) TO STDOUT (FORMAT csv, HEADER)"
    )
    with c.cursor().copy(query) as copy:
        text = b"".join(copy).decode()
    equal(text, 'i,v\n1,"a,""b"\n2,"a,""b"\n')


@check
def copy_that_fails(c):
    c.execute("CREATE TABLE copied_wrong (id int)")
    c.commit()

    def fails():
        with c.cursor().copy("COPY copied_wrong FROM STDIN") as copy:
            copy.write("1\nx\n")

    raises(errors.InvalidTextRepresentation, fails, "22P02")
    c.rollback()
    equal(c.execute("SELECT count(*) FROM copied_wrong").fetchone(), (0,))


@check
def upsert(c):
    c.execute("CREATE TABLE upserted (k text PRIMARY KEY, n int)")
    query = (
        "INSERT INTO upserted AS u VALUES (%s, %s) ON CONFLICT (k)"
        " DO UPDATE SET n = u.n + excluded.n RETURNING n, (xmax = 0)"
    )
    equal(c.execute(query, ("a", 1)).fetchone(), (1, True))
    equal(c.execute(query, ("a", 5)).fetchone()[0], 6)
    nothing = "INSERT INTO upserted VALUES ('a', 9) ON CONFLICT DO NOTHING"
    equal(c.execute(nothing).rowcount, 0)


@check
def row_locks(c):
    c.execute("CREATE TABLE locked (id int PRIMARY KEY, n int)")
    c.execute("INSERT INTO locked VALUES (1, 0), (2, 0)")
    c.commit()
    c.execute("SELECT * FROM locked WHERE id = 1 FOR UPDATE")
    with connect() as other:
        query = "SELECT id FROM locked ORDER BY id FOR UPDATE SKIP LOCKED"
        equal(other.execute(query).fetchall(), [(2,)])
        now = "SELECT id FROM locked WHERE id = 1 FOR UPDATE NOWAIT"
        raises(errors.LockNotAvailable, lambda: other.execute(now), "55P03")
        other.rollback()


@check
def lock_timeouts(c):
    c.execute("CREATE TABLE waited (id int PRIMARY KEY)")
    c.execute("INSERT INTO waited VALUES (1)")
    c.commit()
    c.execute("SELECT * FROM waited FOR UPDATE")
    with connect() as other:
        other.execute("SET lock_timeout = '200ms'")
        update = "UPDATE waited SET id = 2"
        raises(errors.LockNotAvailable, lambda: other.execute(update), "55P03")
        other.rollback()


@check
def advisory_locks(c):
    equal(c.execute("SELECT pg_try_advisory_lock(42)").fetchone(), (True,))
    with connect() as other:
        equal(other.execute("SELECT pg_try_advisory_lock(42)").fetchone(), (False,))
    equal(c.execute("SELECT pg_advisory_unlock(42)").fetchone(), (True,))


@check
def statement_timeout(c):
    c.execute("SET statement_timeout = '200ms'")
    slow = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b"
    raises(errors.QueryCanceled, lambda: c.execute(slow), "57014")


@check
def cancelling_a_statement(c):
    threading.Timer(0.3, c.cancel_safe).start()
    slow = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b"
    raises(errors.QueryCanceled, lambda: c.execute(slow), "57014")


@check
def listen_and_notify(c):
    c.autocommit = True
    c.execute("LISTEN news")
    with connect(autocommit=True) as other:
        other.execute("SELECT pg_notify('news', 'hello')")
    notes = [(n.channel, n.payload) for n in c.notifies(timeout=5, stop_after=1)]
    equal(notes, [("news", "hello")])


@check
def notices(c):
    heard = []
    c.add_notice_handler(lambda note: heard.append((note.sqlstate, note.message_primary)))
    c.execute("DROP TABLE IF EXISTS not_there")
    equal(heard, [("00000", 'table "not_there" does not exist, skipping')])


@check
def do_blocks(c):
    c.execute("DO $$ BEGIN PERFORM 1; END $$")


@check
def temporary_tables(c):
    c.execute("CREATE TEMPORARY TABLE scratch (id int) ON COMMIT DROP")
    c.execute("INSERT INTO scratch VALUES (1)")
    equal(c.execute("SELECT * FROM scratch").fetchall(), [(1,)])


@check
def composed_identifiers(c):
    table = sql.Identifier('odd "name')
    c.execute(sql.SQL("CREATE TABLE {} ({} int)").format(table, sql.Identifier("Column")))
    c.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(table, sql.Literal(5)))
    row = (
        c.cursor(row_factory=dict_row).execute(sql.SQL("SELECT * FROM {}").format(table)).fetchone()
    )
    equal(row, {"Column": 5})


@check
def several_statements_in_one_string(c):
    cursor = c.execute("SELECT 1; SELECT 2")
    equal(cursor.fetchone(), (1,))
    assert cursor.nextset()
    equal(cursor.fetchone(), (2,))


@check
def client_side_binding(c):
    cursor = psycopg.ClientCursor(c)
    equal(cursor.mogrify("SELECT %s, %s", ("it's", 1.5)), "SELECT 'it''s', 1.5")
    values = ("it's \\", dt.date(2024, 1, 2), b"\x01", None)
    cursor.execute("SELECT %s, %s, %s, %s", values)
    equal(cursor.fetchone(), values)


@check
def large_values(c):
    text = "x" * 1_000_000
    c.execute("CREATE TABLE large (id int PRIMARY KEY, v text, b bytea)")
    c.execute("INSERT INTO large VALUES (1, %s, %s)", (text, text.encode()))
    equal(c.execute("SELECT v, b FROM large").fetchone(), (text, text.encode()))


@check
def many_columns_and_parameters(c):
    values = list(range(1000))
    row = c.execute("SELECT " + ", ".join(["%s"] * 1000), values).fetchone()
    equal(list(row), values)


@check
def two_phase_commit(c):
    c.tpc_begin(c.xid(1, "gtrid", "bqual"))
    c.execute("SELECT 1")
    c.tpc_prepare()
    c.tpc_rollback()


@check
def types_of_a_database(c):
    for name in ("int4", "text", "uuid", "jsonb", "timestamptz", "numeric"):
        info = psycopg.types.TypeInfo.fetch(c, name)
        equal((info.name, info.oid), (name, psycopg.adapters.types[name].oid))
        equal(info.array_oid, psycopg.adapters.types[name].array_oid)


@check
def a_pool_of_connections(c):
    from psycopg_pool import ConnectionPool

    with ConnectionPool(CONNINFO, min_size=2, max_size=4, timeout=10) as pool:
        results = []

        def work():
            with pool.connection() as connection:
                results.append(connection.execute("SELECT 1").fetchone())

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(results, [(1,)] * 8)


@check
def asynchronous_connections(c):
    import asyncio

    async def work():
        async with await psycopg.AsyncConnection.connect(CONNINFO) as connection:
            cursor = await connection.execute("SELECT generate_series(1, 3)")
            return [row async for row in cursor]

    equal(asyncio.run(work()), [(1,), (2,), (3,)])


@check
def reading_the_catalog(c):
    c.execute("CREATE TABLE described (id serial PRIMARY KEY, v varchar(9) DEFAULT 'x' NOT NULL)")
    rows = c.execute(
        "SELECT column_name, data_type, character_maximum_length, is_nullable, column_default"
        " FROM information_schema.columns WHERE table_name = 'described' ORDER BY ordinal_position"
    ).fetchall()
    equal(
        rows,
        [
            ("id", "integer", None, "NO", "nextval('described_id_seq'::regclass)"),
            ("v", "character varying", 9, "NO", "'x'::character varying"),
        ],
    )


@check
def window_functions_and_grouping(c):
    rows = c.execute(
        "WITH t(g, n) AS (VALUES ('a', 1), ('a', 2), ('b', 5))"
        " SELECT g, n, sum(n) OVER (PARTITION BY g ORDER BY n), row_number() OVER (ORDER BY n)"
        " FROM t ORDER BY n"
    ).fetchall()
    equal(rows, [("a", 1, 1, 1), ("a", 2, 3, 2), ("b", 5, 5, 3)])


@check
def changing_data_in_with(c):
    c.execute("CREATE TABLE queue (id int PRIMARY KEY)")
    c.execute("INSERT INTO queue VALUES (1), (2)")
    query = "WITH taken AS (DELETE FROM queue WHERE id = 1 RETURNING id) SELECT id FROM taken"
    equal(c.execute(query).fetchall(), [(1,)])


@check
def a_job_queue(c):
    c.execute("CREATE TABLE jobs (id serial PRIMARY KEY, state text NOT NULL DEFAULT 'new')")
    c.execute("INSERT INTO jobs (state) SELECT 'new' FROM generate_series(1, 5)")
    c.commit()
    take = (
        "UPDATE jobs SET state = 'taken' WHERE id = (SELECT id FROM jobs WHERE state = 'new'"
        " ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id"
    )
    equal(c.execute(take).fetchone(), (1,))
    with connect() as other:
        equal(other.execute(take).fetchone(), (2,))


checks.run(connect, lambda c: c.close())
