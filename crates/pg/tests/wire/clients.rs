//! Tests psql of the distribution. If it is not installed, the test prints that it is skipped.

use crate::common;
use crate::common::start;
use std::process::{Command, Output};

fn run(server: &common::Running, program: &'static str, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", server.address.port().to_string())
        .env("PGUSER", "root")
        .env("PGDATABASE", "meridian")
        .args(arguments);
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("skipped: {program} does not run here ({error})");
            None
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_runs_statements_and_shows_errors() {
    let server = start().await;
    let script = "CREATE TABLE t (id int PRIMARY KEY, name text); INSERT INTO t VALUES (1, 'one'), (2, NULL);";
    let Some(made) = run(&server, "psql", &["-X", "-v", "ON_ERROR_STOP=1", "-c", script]) else {
        return;
    };
    assert!(made.status.success(), "{}", text(&made.stderr));
    let shown =
        run(&server, "psql", &["-X", "-A", "-P", "null=∅", "-c", "SELECT * FROM t ORDER BY id"])
            .expect("runs");
    assert_eq!(text(&shown.stdout), "id|name\n1|one\n2|∅\n(2 rows)\n", "{}", text(&shown.stderr));
    let failed = run(&server, "psql", &["-X", "-c", "SELECT * FROM tt"]).expect("runs");
    assert!(
        text(&failed.stderr).contains("ERROR:  relation \"tt\" does not exist"),
        "{}",
        text(&failed.stderr)
    );
    let lost = run(&server, "psql", &["-X", "-d", "meridan", "-c", "SELECT 1"]).expect("runs");
    assert!(
        text(&lost.stderr).contains("FATAL:  database \"meridan\" does not exist"),
        "{}",
        text(&lost.stderr)
    );
}
