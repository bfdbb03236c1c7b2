"""pg_dump, psql and pg_restore: databases move from here to here, from here to PostgreSQL, and
from PostgreSQL to here."""

import os
import re
import subprocess
import tempfile

import checks

HERE = (checks.PORT, checks.USER, os.environ.get("MERIDIAN_PROTOCOL"))
POSTGRESQL = (int(os.environ["POSTGRES_PORT"]), os.environ["POSTGRES_USER"], None)

# What a database may contain: statements, and a query that shows what they made.
CONTENTS = {
    "tables and rows": (
        """CREATE TABLE t (id int PRIMARY KEY, v text DEFAULT 'x' NOT NULL, n numeric(10, 2));
           INSERT INTO t SELECT g, E'tab\\t\\\\' || g, g / 3.0 FROM generate_series(1, 500) g;
           INSERT INTO t VALUES (0, '', NULL);""",
        "SELECT * FROM t ORDER BY id",
    ),
    "values of every type": (
        """CREATE TABLE t (a smallint, b bigint, c real, d double precision, e boolean,
             f varchar(9), g char(4), h bytea, i date, j time, k timestamp, l timestamptz,
             m interval, n uuid, o json, p jsonb, q inet, r cidr, s int[], u text[]);
           INSERT INTO t VALUES (1, 2, 0.25, 'Infinity', true, 'v', 'c', '\\x00ff', '2024-02-29',
             '01:02:03', '2024-02-29 01:02:03.5', '2024-02-29 01:02:03+00', '1 year 2 days 3.5 s',
             '12345678-1234-5678-1234-567812345678', '{"a" : 1}', '{"b": [1, null]}', '10.0.0.1',
             '10.0.0.0/8', '{1,NULL,3}', ARRAY['a,b', '"', NULL]);
           INSERT INTO t (a) VALUES (NULL);""",
        "SELECT * FROM t ORDER BY a",
    ),
    "constraints": (
        """CREATE TABLE p (id int PRIMARY KEY, a int, b int, UNIQUE (a, b));
           CREATE TABLE c (id int, p int CONSTRAINT c_p REFERENCES p ON DELETE CASCADE DEFERRABLE,
             n int CHECK (n > 0 AND n < 10), PRIMARY KEY (id, n));
           INSERT INTO p VALUES (1, 1, 1); INSERT INTO c VALUES (1, 1, 5);""",
        "SELECT conname, contype, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid IN ('p'::regclass, 'c'::regclass) ORDER BY conname",
    ),
    "indexes": (
        """CREATE TABLE t (a int, b text, c int);
           CREATE INDEX t_ab ON t (a DESC, b); CREATE UNIQUE INDEX t_u ON t (a) WHERE c > 5;
           CREATE INDEX t_lower ON t (lower(b)); CREATE INDEX t_inc ON t (c) INCLUDE (b);""",
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 't' ORDER BY indexname",
    ),
    "sequences and identities": (
        """CREATE SEQUENCE s START 100 INCREMENT 5 CYCLE MAXVALUE 1000; SELECT nextval('s');
           CREATE TABLE t (a serial, b bigint GENERATED ALWAYS AS IDENTITY,
             c int DEFAULT nextval('s'));
           INSERT INTO t DEFAULT VALUES; INSERT INTO t DEFAULT VALUES;""",
        "INSERT INTO t DEFAULT VALUES RETURNING *",
    ),
    "enums": (
        """CREATE TYPE mood AS ENUM ('sad', 'it''s', 'happy');
           CREATE TABLE t (m mood DEFAULT 'sad', ms mood[]);
           INSERT INTO t VALUES ('happy', '{sad,happy}'), (DEFAULT, NULL);""",
        "SELECT * FROM t ORDER BY m",
    ),
    "views": (
        """CREATE TABLE t (id int PRIMARY KEY, g text);
           INSERT INTO t VALUES (1, 'a'), (2, 'a'), (3, 'b');
           CREATE VIEW v AS SELECT g, count(*) AS n FROM t WHERE id > 0 GROUP BY g;
           CREATE VIEW w AS SELECT v.n, t.id FROM v JOIN t USING (g);""",
        "SELECT * FROM w ORDER BY id",
    ),
    "comments": (
        """CREATE TABLE t (a int); COMMENT ON TABLE t IS 'it''s';
           COMMENT ON COLUMN t.a IS 'a column';""",
        "SELECT obj_description('t'::regclass), col_description('t'::regclass, 1)",
    ),
    "odd names": (
        """CREATE TABLE "Odd ""name" ("select" int PRIMARY KEY, "ünï" text);
           INSERT INTO "Odd ""name" VALUES (1, 'x');""",
        'SELECT "select", "ünï" FROM "Odd ""name"',
    ),
    "generated columns": (
        """CREATE TABLE t (a int, b int GENERATED ALWAYS AS (a * 2) STORED);
           INSERT INTO t VALUES (4);""",
        "SELECT * FROM t",
    ),
    "domains and composite types": (
        """CREATE DOMAIN positive AS int CHECK (VALUE > 0); CREATE TYPE pair AS (a int, b text);
           CREATE TABLE t (p positive, c pair); INSERT INTO t VALUES (5, (1, 'x'));""",
        "SELECT * FROM t",
    ),
    "schemas": (
        """CREATE SCHEMA app; CREATE TABLE app.t (id int PRIMARY KEY); INSERT INTO app.t VALUES (7);
           CREATE VIEW app.v AS SELECT * FROM app.t;""",
        "SELECT * FROM app.v",
    ),
    "materialized views": (
        "CREATE MATERIALIZED VIEW m AS SELECT 1 AS a; CREATE UNIQUE INDEX ON m (a);",
        "SELECT * FROM m",
    ),
    "functions and triggers": (
        """CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql AS 'SELECT n * 2';
           CREATE TABLE t (n int);
           CREATE FUNCTION double() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN NEW.n := twice(NEW.n); RETURN NEW; END $$;
           CREATE TRIGGER d BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION double();""",
        "INSERT INTO t VALUES (3) RETURNING n",
    ),
    "partitions": (
        """CREATE TABLE t (id int, v text) PARTITION BY RANGE (id);
           CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10);
           INSERT INTO t VALUES (5, 'x');""",
        "SELECT * FROM t",
    ),
}

DIRECTIONS = {
    "moves here": (HERE, HERE),
    "moves to PostgreSQL": (HERE, POSTGRESQL),
    "moves from PostgreSQL": (POSTGRESQL, HERE),
}
number = 0


def address(side, database):
    return ["-h", checks.HOST, "-p", str(side[0]), "-U", side[1], "-d", database]


def call(*words, text=None):
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{words[0]}: {done.stderr.strip()[:400]}")
    return done.stdout


def psql(side, database, text):
    return call(
        "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *address(side, database), text=text
    )


def fresh(side):
    global number
    number += 1
    name = f"{checks.DATABASE}_{number}"
    protocol = f' PROTOCOL = "{side[2]}"' if side[2] else ""
    psql(side, "postgres", f"DROP DATABASE IF EXISTS {name};\nCREATE DATABASE {name}{protocol};")
    return name


def moves(contents, source, target, form):
    """Dumps a database and restores it elsewhere; a dump of the copy is the same."""
    statements, query = contents
    one, other = fresh(source), fresh(target)
    psql(source, one, statements)
    if form == "custom":
        with tempfile.NamedTemporaryFile() as file:
            call("pg_dump", "-Fc", "-O", "-x", "-f", file.name, *address(source, one))
            call("pg_restore", "-O", "-x", "--exit-on-error", *address(target, other), file.name)
    else:
        options = ["--inserts"] if form == "inserts" else []
        dump = call("pg_dump", "-O", "-x", *options, *address(source, one))
        psql(target, other, dump)
        if source == target:
            again = call("pg_dump", "-O", "-x", *options, *address(target, other))
            alike("the second dump", plain(again), plain(dump))
    alike("the query", psql(target, other, query), psql(source, one, query))


def alike(name, found, expected):
    """Fails unless two texts have the same lines; names the first that are not in both."""
    found, expected = found.split("\n"), expected.split("\n")
    if found != expected:
        more = [line for line in found if line not in expected][:2]
        less = [line for line in expected if line not in found][:2]
        raise AssertionError(f"{name}: {more}, expected {less}")


def plain(dump):
    """Returns a dump without what is new in each: its key of psql's restricted mode."""
    return re.sub(r"^\\(un)?restrict .*$", "", dump, flags=re.M)


for name, contents in CONTENTS.items():
    for direction, (source, target) in DIRECTIONS.items():

        def action(_, contents=contents, source=source, target=target):
            moves(contents, source, target, "plain")

        action.__name__ = f"{name}: {direction}".replace(": ", ", ")
        checks.check(action)

for form in ("custom", "inserts"):

    def action(_, form=form):
        moves(CONTENTS["tables and rows"], HERE, HERE, form)

    action.__name__ = f"the format {form}"
    checks.check(action)

# Each check runs several programs, which ask the catalogs for everything.
checks.SECONDS = 180
checks.run(lambda: None, lambda _: None)
