//! Tests `meridian workload` against PostgreSQL itself, and against a cluster whose nodes are
//! killed, beginning with the one that clients are connected to; and the workloads below SQL.

mod common;

use common::{Started, free_addresses, meridian, run, stderr, stdout};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A PostgreSQL server of the test's own; stopped when it is dropped.
struct Postgres {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

/// Returns the folder of the newest version that Debian's packages installed.
fn binaries() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    folders
        .filter(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
        .max()
}

/// Returns the output of `id -u NAME` or `id -g NAME`.
fn id(flag: &str, name: &[&str]) -> Option<u32> {
    let output = Command::new("id").arg(flag).args(name).output().ok()?;
    stdout(&output).trim().parse().ok()
}

impl Postgres {
    fn start() -> Option<Postgres> {
        let binaries = binaries()?;
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        // PostgreSQL refuses to run as root, and so runs as its package's user then.
        let other = match id("-u", &[])? {
            0 => Some((id("-u", &["postgres"])?, id("-g", &["postgres"])?)),
            _ => None,
        };
        if let Some((user, group)) = other {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).expect("root may");
        }
        let command = |name: &str| {
            let mut command = Command::new(binaries.join(name));
            command.arg("-D").arg(&data).current_dir(folder.path()).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            if let Some((user, group)) = other {
                command.uid(user).gid(group);
            }
            command
        };
        let made = command("initdb")
            .args(["-U", "root", "-A", "trust", "-N"])
            .status()
            .expect("initdb runs");
        assert!(made.success(), "initdb failed");
        let address = free_addresses(1).remove(0);
        let port = address.rsplit(':').next().expect("a port");
        let child = command("postgres")
            .args(["-h", "127.0.0.1", "-p", port, "-F", "-k"])
            .arg(folder.path())
            .spawn();
        let url = format!("postgresql://root@{address}/postgres");
        let postgres = Postgres { child: child.expect("postgres runs"), url, _folder: folder };
        let end = Instant::now() + Duration::from_secs(120);
        while !run(&["sql", &postgres.url, "-e", "select 1"]).status.success() {
            assert!(Instant::now() < end, "PostgreSQL does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(postgres)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT ends its children, too.
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

fn workload(arguments: &[&str]) -> String {
    let output = run(&[&["workload"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

#[test]
fn workloads_run_on_postgresql_and_wrong_sums_are_found_there() {
    let Some(postgres) = Postgres::start() else {
        assert!(
            std::env::var_os("CI").is_none(),
            "PostgreSQL's server is not installed, and CI allows no skip"
        );
        eprintln!("SKIPPED: PostgreSQL's server is not installed");
        return;
    };
    // An application's own table of one of the names is left alone.
    let own = |sql: &str| assert!(run(&["sql", &postgres.url, "-e", sql]).status.success());
    own("create table orders (id int)");
    let refused = run(&["workload", "tpcc", "init", &postgres.url]);
    let said = stderr(&refused);
    assert!(!refused.status.success() && said.contains("orders that is not of TPC-C"), "{said}");
    own("drop table orders");
    for kind in ["bank", "tpcb", "tpcc"] {
        workload(&[kind, "init", &postgres.url]);
        let ran = workload(&[kind, "run", &postgres.url, "--clients", "4", "--duration", "2"]);
        assert!(ran.contains("p99.9") && ran.contains("tx/s"), "{ran}");
        assert!(workload(&[kind, "check", &postgres.url]).contains("check ok"));
    }
    let spoil = |statement: &str, kind: &str| {
        assert!(run(&["sql", &postgres.url, "-e", statement]).status.success(), "{statement}");
        let spoilt = run(&["workload", kind, "check", &postgres.url]);
        assert_eq!(spoilt.status.code(), Some(1), "{statement}");
        stdout(&spoilt) + &stderr(&spoilt)
    };
    let said = spoil("update bank_accounts set balance = balance + 1 where id = 7", "bank");
    assert!(said.contains("1 appeared or vanished"), "{said}");
    // A part of a transaction is missing: each condition that it breaks is named, and no other.
    for (statement, broken) in [
        ("update warehouse set w_ytd = w_ytd + 1", vec!["1", "8"]),
        (
            "update warehouse set w_ytd = w_ytd - 1; update district set d_next_o_id = d_next_o_id + 1 where d_id = 3",
            vec!["2"],
        ),
        (
            "update district set d_next_o_id = d_next_o_id - 1 where d_id = 3; delete from order_line where ol_d_id = 4 and ol_o_id = 7 and ol_number = 1",
            vec!["4", "6"],
        ),
        (
            "update customer set c_balance = c_balance + 1 where c_d_id = 5 and c_id = 6",
            vec!["4", "6", "10", "12"],
        ),
    ] {
        let said = spoil(statement, "tpcc");
        let lines = said.lines().filter(|line| line.contains("BROKEN"));
        let found: Vec<_> = lines.filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(found, broken, "{statement}: {said}");
    }
}

#[test]
fn a_run_goes_on_elsewhere_when_the_node_that_it_speaks_to_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let addresses = free_addresses(3);
    let join = addresses.join(",");
    let open =
        |at: usize| Started::member(&folder.path().join(at.to_string()), &addresses[at], &join);
    let (first, second, third) = (open(0), open(1), open(2));
    let url = format!("postgresql://root@{},{},{}/meridian", first.sql, second.sql, third.sql);
    for kind in ["bank", "tpcb"] {
        workload(&[kind, "init", &url]);
    }
    let spawn = |kind: &str| {
        let mut command = meridian();
        command.args(["workload", kind, "run", &url, "--clients", "2", "--duration", "12"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
    };
    let running = ["bank", "tpcb"].map(spawn);
    std::thread::sleep(Duration::from_secs(2));
    first.kill();
    for load in running {
        let load = load.wait_with_output().expect("it ends");
        let shown = stdout(&load);
        assert!(load.status.success(), "{shown}{}", stderr(&load));
        // Transactions commit in the last seconds, too, long after the kill.
        let seconds: Vec<&str> = shown.lines().filter(|line| line.contains("tx/s")).collect();
        let late = seconds.iter().rev().take(3);
        assert!(late.into_iter().any(|line| !line.contains(" 0 tx/s")), "{shown}");
    }
    for node in [&second, &third] {
        for kind in ["bank", "tpcb"] {
            assert!(workload(&[kind, "check", &node.url]).contains("check ok"));
        }
    }
    let first = open(0);
    for kind in ["bank", "tpcb"] {
        assert!(workload(&[kind, "check", &first.url]).contains("check ok"));
    }
}

/// Returns each protocol's row, in the order of the table, by column.
fn measured(arguments: &[&str]) -> Vec<Vec<String>> {
    let little = ["--keys", "500", "--clients", "2", "--duration", "0.5"];
    let shown = workload(&[arguments, &little[..]].concat());
    let table = shown.lines().skip_while(|line| !line.starts_with("protocol")).skip(1);
    let rows = table.take_while(|line| !line.starts_with('×'));
    rows.map(|row| row.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn protocols_are_compared_with_a_store_without_transactions() {
    let rows = measured(&["micro", "--protocol", "tapir,qwstore"]);
    let column = |at: usize| rows.iter().map(|row| row[at].as_str()).collect::<Vec<_>>();
    assert_eq!((column(0), column(2)[0]), (vec!["qwstore", "tapir"], "1.00"), "{rows:?}");
    assert!(column(2)[1].parse::<f64>().is_ok_and(|ratio| ratio > 0.0), "{rows:?}");
    let each_second = column(1).into_iter().map(|number| number.parse::<u64>().expect("a number"));
    assert!(each_second.min() > Some(0), "{rows:?}");
    // A protocol without validation aborts nothing.
    assert_eq!(column(3)[0], "0.0%", "{rows:?}");
    let rows = measured(&["retwis", "--protocol", "spanner"]);
    assert_eq!((rows[0][0].as_str(), rows[0][2].as_str()), ("spanner", "–"), "{rows:?}");
    let rows =
        measured(&["ycsb-t", "--replicas", "1", "--zipf", "0.99", "--protocol", "k2,clock_si"]);
    let each_second = rows.iter().map(|row| row[1].parse::<u64>().expect("a number"));
    assert!(rows.len() == 2 && each_second.min() > Some(0), "{rows:?}");
}

#[test]
fn options_that_cannot_be_are_refused_with_those_that_can() {
    for (command, option, value, named) in [
        ("micro", "--replicas", "2", "1, 3, 5 or 7"),
        ("micro", "--consistency", "eventual", "none, hybrid, commit_wait"),
        ("ycsb-t", "--zipf", "NaN", "from 0 to 3"),
        ("ycsb-t", "--zipf", "-1", "from 0 to 3"),
        ("ycsb-t", "--writes", "1.5", "from 0 to 1"),
    ] {
        let output = run(&["workload", command, &format!("{option}={value}")]);
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains(named), "{option} {value}: {said}");
    }
}
