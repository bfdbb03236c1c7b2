//! Tests that psql's backslash commands, against the real server, print the same as with
//! PostgreSQL.

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
    let (version, complaints): (Vec<&str>, Vec<&str>) = complaints
        .lines()
        .partition(|line| line.starts_with("WARNING: psql") || line.contains("Some psql features"));
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

const SCHEMAS: &str = "      List of schemas
  Name  |       Owner
--------+-------------------
 public | pg_database_owner
(1 row)

";

const ROLES: &str = r"                                   List of roles
 Role name |                         Attributes                         | Member of
-----------+------------------------------------------------------------+-----------
 root      | Superuser, Create role, Create DB, Replication, Bypass RLS | {}

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
    // The other commands of psql must at least succeed.
    for command in [
        "\\d+ city",
        "\\dt+",
        "\\di+",
        "\\dv",
        "\\ds",
        "\\df",
        "\\dT",
        "\\dp",
        "\\dx",
        "\\db",
        "\\dg",
        "\\d plain",
    ] {
        psql(&server, command);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg_locks_shows_waiters_and_blockers() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let connect = async |name: &str| {
        let mut config: tokio_postgres::Config = server.url.parse().expect("a URL");
        let (client, connection) = config
            .application_name(name)
            .connect(tokio_postgres::NoTls)
            .await
            .expect("it connects");
        tokio::spawn(connection);
        client
    };
    let (holder, waiter, watcher) =
        (connect("holder").await, connect("waiter").await, connect("watcher").await);
    holder
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)")
        .await
        .expect("rows");
    // An older transaction would win, so the holder begins first.
    holder.batch_execute("BEGIN; UPDATE t SET n = 2 WHERE id = 1").await.expect("it locks");
    let wait = tokio::spawn(async move {
        waiter.batch_execute("UPDATE t SET n = 3 WHERE id = 1").await.expect("it gets its turn");
    });
    let waits = "SELECT w.pid, pg_blocking_pids(w.pid), a.application_name, a.query, l.relation::regclass::text \
                 FROM pg_locks l JOIN pg_stat_activity w ON w.pid = l.pid \
                 JOIN pg_locks h ON h.granted AND NOT l.granted JOIN pg_stat_activity a ON a.pid = h.pid";
    let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
    let row = loop {
        if let Some(row) = watcher.query(waits, &[]).await.expect("an answer").pop() {
            break row;
        }
        assert!(std::time::Instant::now() < end, "no session waits for the lock");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!(row.get::<_, &str>(2), "holder");
    assert_eq!(row.get::<_, &str>(3), "BEGIN; UPDATE t SET n = 2 WHERE id = 1");
    assert_eq!(row.get::<_, &str>(4), "t");
    let blockers: Vec<i32> = row.get(1);
    let [blocker] = blockers[..] else { panic!("one session holds the lock: {blockers:?}") };
    let states = "SELECT state, wait_event_type FROM pg_stat_activity WHERE pid = $1";
    let state = watcher.query_one(states, &[&blocker]).await.expect("it is listed");
    assert_eq!(state.get::<_, &str>(0), "idle in transaction");
    let state = watcher.query_one(states, &[&row.get::<_, i32>(0)]).await.expect("it is listed");
    assert_eq!((state.get::<_, &str>(0), state.get::<_, &str>(1)), ("active", "Lock"));
    let own = watcher.query_one(
        "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()",
        &[],
    );
    assert_eq!(own.await.expect("itself").get::<_, &str>(0), "watcher");
    holder.batch_execute("COMMIT").await.expect("it commits");
    wait.await.expect("it ends");
    let left = watcher.query("SELECT * FROM pg_locks", &[]).await.expect("an answer");
    assert!(left.is_empty());
}
