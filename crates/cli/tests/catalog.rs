//! psql's backslash commands, against the real server, print what they print of PostgreSQL.
#![cfg(feature = "analytic")]

mod common;

use common::{Started, installed};
use std::process::Command;

fn psql(server: &Started, command: &str) -> String {
    let output = Command::new("psql")
        .args(["-X", "-q", "-d", &server.url, "-c", command])
        .env("PGAPPNAME", "catalog")
        .env_remove("PGOPTIONS")
        .output()
        .expect("psql runs");
    let complaints = common::stderr(&output);
    let (version, complaints): (Vec<&str>, Vec<&str>) =
        complaints.lines().partition(|line| line.starts_with("WARNING: psql") || line.contains("Some psql features"));
    assert!(complaints.is_empty(), "{command}: {complaints:?} {version:?}");
    common::stdout(&output).lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

const TABLE: &str = r#"                           Table "public.city"
 Column  |           Type           | Collation | Nullable |   Default
---------+--------------------------+-----------+----------+--------------
 id      | integer                  |           | not null |
 name    | character varying(30)    |           | not null |
 people  | bigint                   |           |          | 0
 founded | date                     |           |          |
 area    | numeric(10,2)            |           |          |
 note    | text                     |           |          | 'none'::text
 at      | timestamp with time zone |           |          | now()
Indexes:
    "city_pkey" PRIMARY KEY, btree (id)
    "city_name" btree (name)
    "city_people" UNIQUE, btree (people DESC, name)

"#;

const RELATIONS: &str = r"       List of relations
 Schema | Name  | Type  | Owner
--------+-------+-------+-------
 public | city  | table | root
 public | plain | table | root
(2 rows)

";

const INDEXES: &str = r"              List of relations
 Schema |    Name     | Type  | Owner | Table
--------+-------------+-------+-------+-------
 public | city_name   | index | root  | city
 public | city_people | index | root  | city
 public | city_pkey   | index | root  | city
(3 rows)

";

const INDEX: &str = r#"              Index "public.city_name"
 Column |         Type          | Key? | Definition
--------+-----------------------+------+------------
 name   | character varying(30) | yes  | name
btree, for table "public.city"

"#;

const SCHEMAS: &str = r"List of schemas
  Name  | Owner
--------+-------
 public | root
(1 row)

";

const ROLES: &str = r"                       List of roles
 Role name |            Attributes             | Member of
-----------+-----------------------------------+-----------
 root      | Superuser, Create role, Create DB | {}

";

#[test]
fn psql_describes_tables_indexes_databases_and_roles() {
    if !installed("psql") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    psql(
        &server,
        "CREATE TABLE city (id int PRIMARY KEY, name varchar(30) NOT NULL, people bigint DEFAULT 0, founded date, \
         area numeric(10,2), note text DEFAULT 'none', at timestamptz DEFAULT now())",
    );
    psql(&server, "CREATE INDEX city_name ON city (name)");
    psql(&server, "CREATE UNIQUE INDEX city_people ON city (people DESC, name)");
    psql(&server, "CREATE TABLE plain (a bool, b char(3))");
    for (command, printed) in [
        ("\\d", RELATIONS),
        ("\\dt", RELATIONS),
        ("\\d city", TABLE),
        ("\\di", INDEXES),
        ("\\d city_name", INDEX),
        ("\\dn", SCHEMAS),
        ("\\du", ROLES),
    ] {
        assert_eq!(psql(&server, command), printed, "{command}");
    }
    let databases = psql(&server, "\\l");
    assert!(databases.contains(" meridian | root  | UTF8     | C       | C     |"), "{databases}");
    // What else psql offers answers, at least.
    for command in
        ["\\d+ city", "\\dt+", "\\di+", "\\dv", "\\ds", "\\df", "\\dT", "\\dp", "\\dx", "\\db", "\\dg", "\\d plain"]
    {
        psql(&server, command);
    }
}
