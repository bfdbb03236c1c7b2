//! `meridian start`: refusals, signals, crashes, and PostgreSQL's own tools.

mod common;

use common::{Started, installed, run, stderr, stdout};
use std::process::Command;
use std::time::Duration;

#[test]
fn what_cannot_start_says_why_and_ends_with_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("UTF-8");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its address").to_string();
    let join = format!("{taken},127.0.0.1:1");
    for (arguments, reason) in [
        (vec!["start"], "--data"),
        (vec!["start", "--data", data, "--sql", "0.0.0.0:0"], "authentication"),
        (
            vec!["start", "--data", data, "--sql", "127.0.0.1:0", "--http", "0.0.0.0:0"],
            "authentication",
        ),
        (vec!["start", "--data", data, "--sql", &taken], "--sql"),
        (vec!["start", "--data", data, "--sql", "127.0.0.1:0", "--http", &taken], "--http"),
        (vec!["start", "--data", data, "--clock-bound", "3 parsecs"], "500us"),
        (vec!["start", "--data", data, "--join", "127.0.0.1:1,127.0.0.1:2"], "--listen"),
        (
            vec![
                "start",
                "--data",
                data,
                "--join",
                "127.0.0.1:1,127.0.0.1:2",
                "--listen",
                "127.0.0.1:3",
            ],
            "does not name",
        ),
        (vec!["start", "--data", data, "--cluster-time"], "--join"),
        (vec!["start", "--data", data, "--clock-bound", "10ms"], "several nodes"),
        (
            vec!["start", "--data", data, "--token-file", "/nonexistent"],
            "--token-file /nonexistent",
        ),
        (vec!["start", "--data", data, "--token-file", "/proc/version"], "not a token"),
        (vec!["start", "--data", data, "--join", &join, "--listen", &taken], "cannot listen on"),
        (vec!["start", "--data", data, "--config", "/nonexistent.toml"], "/nonexistent.toml"),
        (
            vec!["start", "--data", "/dev/null/x", "--sql", "127.0.0.1:0", "--http", "127.0.0.1:0"],
            "/dev/null/x",
        ),
    ] {
        let output = run(&arguments);
        let complaint = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {complaint}");
        assert!(
            complaint.starts_with("meridian: ") && complaint.contains(reason),
            "{arguments:?}: {complaint}"
        );
        assert!(!complaint.contains("panicked"), "{complaint}");
    }
}

#[test]
fn health_and_metrics_answer_and_sigterm_stops_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Started::on(folder.path());
    let output = run(&[
        "sql",
        &node.url,
        "-e",
        "create table t (id int primary key)",
        "-e",
        "insert into t values (7)",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(node.get("/health").contains("\"status\":\"ok\""));
    let metrics = node.get("/metrics");
    assert!(
        metrics.contains("meridian_pg_statements_total")
            && metrics.contains("meridian_log_fsyncs_total"),
        "{metrics}"
    );
    let counted = "meridian_commit_wait_seconds_count{database=\"meridian\",protocol=\"spanner\"} ";
    let commits = metrics.lines().find_map(|line| line.strip_prefix(counted));
    assert!(commits.is_some_and(|commits| commits != "0"), "{metrics}");
    assert_eq!(node.terminate(), Some(0));
    let again = Started::on(folder.path());
    let output = run(&["sql", &again.url, "-e", "select id from t"]);
    assert!(stdout(&output).contains('7'), "{}{}", stdout(&output), stderr(&output));
}

/// The disk that a node's messages are written to is full. Each message once ended the node.
#[test]
fn messages_that_cannot_be_written_are_lost_and_harm_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = common::meridian();
    let full = std::fs::File::create("/dev/full").expect("Linux has it");
    command.arg("start").env("MERIDIAN_LOG", "trace").stderr(full);
    let node = Started::of(command, folder.path());
    let output = run(&["sql", &node.url, "-e", "create table t (id int primary key)"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn the_sums_hold_after_kill_nine_under_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Started::on(folder.path());
    let filled = run(&["workload", "bank", "init", &node.url]);
    assert!(filled.status.success(), "{}", stderr(&filled));
    let load = common::meridian()
        .args(["workload", "bank", "run", &node.url, "--clients", "4", "--duration", "3"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    std::thread::sleep(Duration::from_millis(1500));
    node.kill();
    let load = load.wait_with_output().expect("it ends");
    assert!(!stdout(&load).contains("  ok                0 "), "{}", stdout(&load));
    let again = Started::on(folder.path());
    let checked = run(&["workload", "bank", "check", &again.url]);
    assert!(checked.status.success(), "{}{}", stdout(&checked), stderr(&checked));
}

#[test]
fn a_lock_is_waited_for_no_longer_than_lock_timeout() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Started::on(folder.path());
    let url = &node.url;
    let sql = |statement: &str| run(&["sql", url, "-e", statement]);
    assert!(sql("create table t (id int primary key); insert into t values (1)").status.success());
    let (refused, heard) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let holder = scope.spawn(move || {
            let mut holder = common::meridian();
            holder
                .args(["sql", url])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped());
            let mut holder = holder.spawn().expect("the binary runs");
            let mut input = holder.stdin.take().expect("a pipe");
            std::io::Write::write_all(&mut input, b"begin; update t set id = 1 where id = 1;\n")
                .expect("it reads");
            heard.recv().expect("a statement timed out");
            // A while longer, until the statement without a timeout waits.
            std::thread::sleep(Duration::from_secs(2));
            drop(input);
            holder.wait().expect("it ends")
        });
        // Retries until the holder has its lock.
        let end = std::time::Instant::now() + Duration::from_secs(120);
        loop {
            let began = std::time::Instant::now();
            let output = sql("set lock_timeout = '300ms'; update t set id = 1");
            if stderr(&output).contains("55P03") {
                assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
                break;
            }
            assert!(output.status.success() && began < end, "{}", stderr(&output));
        }
        refused.send(()).expect("the holder lives");
        assert!(sql("update t set id = 2").status.success(), "it waits as long as it takes");
        holder.join().expect("it ends");
    });
    assert!(stdout(&sql("select id from t")).contains('2'));
}

#[test]
fn databases_are_created_and_dropped_while_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Started::on(folder.path());
    let sql = |url: &str, statement: &str| {
        let output = run(&["sql", url, "-e", statement]);
        if output.status.success() { Ok(stdout(&output)) } else { Err(stderr(&output)) }
    };
    let lab = node.url.replace("/meridian", "/lab");
    assert!(sql(&lab, "select 1").expect_err("not yet").contains("lab"));
    sql(&node.url, "create database lab protocol = spanner").expect("created");
    sql(&lab, "create table t (id int primary key)").expect("usable");
    for (statement, complaint) in [
        ("create database lab", "42P04"),
        ("create database other protocol = raft", "spanner"),
        ("create database other protocol = qwstore", "no transactions, and SQL cannot do without"),
        (
            "create database other protocol = qwstore",
            "spanner, hybrid_time, clock_si, conventional_si, k2, tapir, tapir-serializable",
        ),
        ("create database other protocol", "PROTOCOL takes one name"),
        ("begin; create database other", "25001"),
        ("drop database nowhere", "3D000"),
        ("drop database postgres", "42501"),
        ("drop database meridian", "55006"),
    ] {
        let error = sql(&node.url, statement).expect_err(statement);
        assert!(error.contains(complaint), "{statement}: {error}");
    }
    sql(
        &node.url,
        "create database if not exists lab; drop database lab; drop database if exists lab",
    )
    .expect("gone");
    assert!(sql(&lab, "select 1").is_err());
    sql(&node.url, "create database lab").expect("created again");
    assert!(sql(&lab, "select * from t").expect_err("empty").contains("42P01"));
}

#[test]
fn psql_is_a_client() {
    if !installed("psql") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let node = Started::on(folder.path());
    let output = Command::new("psql")
        .args([
            "-X",
            "-h",
            "127.0.0.1",
            "-p",
            node.port(),
            "-U",
            "root",
            "-d",
            "meridian",
            "-A",
            "-t",
        ])
        .args([
            "-c",
            "create table t (id int primary key, name text)",
            "-c",
            "insert into t values (1, 'a')",
        ])
        .args(["-c", "select id, name from t"])
        .output()
        .expect("psql runs");
    assert_eq!(stdout(&output), "CREATE TABLE\nINSERT 0 1\n1|a\n", "{}", stderr(&output));
}

#[test]
fn pgbench_runs_in_every_mode_and_its_balances_add_up() {
    if !installed("pgbench") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let node = Started::on(folder.path());
    let pgbench = |arguments: &[&str]| {
        let mut command = Command::new("pgbench");
        command
            .args(["-h", "127.0.0.1", "-p", node.port(), "-U", "root"])
            .args(arguments)
            .arg("meridian");
        command.output().expect("pgbench runs")
    };
    let filled = pgbench(&["-i", "-s", "1", "-q"]);
    assert!(filled.status.success(), "{}", stderr(&filled));
    for mode in ["simple", "extended", "prepared"] {
        let ran = pgbench(&["-n", "-M", mode, "-c", "4", "-T", "3", "--max-tries=1"]);
        let (shown, complaint) = (stdout(&ran), stderr(&ran));
        assert!(ran.status.success(), "{mode}: {complaint}");
        assert!(
            shown.contains("number of failed transactions: 0 (0.000%)"),
            "{mode}: {shown}{complaint}"
        );
    }
    let checked = run(&["workload", "tpcb", "check", &node.url]);
    assert!(checked.status.success(), "{}{}", stdout(&checked), stderr(&checked));
}
