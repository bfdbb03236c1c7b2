//! Tests `meridian sim` and `meridian check`, as a researcher uses them.

mod common;

use common::{run, stderr, stdout};

#[test]
fn a_seed_is_a_run_that_can_be_had_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.jsonl");
    let path = path.to_str().expect("UTF-8");
    let arguments = ["sim", "--seed", "5", "--txns", "60", "--json"];
    let once = run(&[&arguments[..], &["--history", path]].concat());
    assert!(once.status.success(), "{}{}", stdout(&once), stderr(&once));
    assert_eq!(stdout(&once), stdout(&run(&arguments)));
    assert!(
        stdout(&once).contains("\"verdict\":\"ok\"") && stdout(&once).contains("\"trace_hash\""),
        "{}",
        stdout(&once)
    );
    for model in ["strict-serializable", "serializable", "snapshot-isolation", "read-committed"] {
        let checked = run(&["check", path, "--model", model]);
        assert!(
            checked.status.success() && stdout(&checked).contains(model),
            "{}",
            stdout(&checked)
        );
    }
    // Some reads of one list contain an element that no transaction appended.
    let text = std::fs::read_to_string(path).expect("it was written");
    let spoil = |line: &str| line.replacen("\"l1\",[", "\"l1\",[987654321,", 1).replace(",]", "]");
    let spoilt: Vec<String> = text.lines().map(spoil).collect();
    assert_ne!(text.lines().collect::<Vec<_>>(), spoilt);
    std::fs::write(path, spoilt.join("\n")).expect("written");
    let checked = run(&["check", path]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(stdout(&checked).contains("not strict-serializable"), "{}", stdout(&checked));
}

#[test]
fn a_campaign_sums_up_and_an_account_is_readable() {
    let campaign = run(&[
        "sim",
        "--seeds",
        "0..4",
        "--jobs",
        "2",
        "--txns",
        "40",
        "--faults",
        "network,process",
    ]);
    assert!(campaign.status.success(), "{}{}", stdout(&campaign), stderr(&campaign));
    for part in ["seeds         0..4", " ok, ", "0 of 4 seeds wrong"] {
        assert!(stdout(&campaign).contains(part), "{part}: {}", stdout(&campaign));
    }
    let one = run(&["sim", "--faults", "none", "--txns", "40", "--trace"]);
    for part in [
        "n1 boots with",
        "faults        none",
        "verdict       strictly serializable",
        "trace hash    ",
    ] {
        assert!(stdout(&one).contains(part), "{part}: {}", stdout(&one));
    }
}

#[test]
fn what_is_no_history_and_no_range_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("garbage");
    std::fs::write(&path, "{}\n").expect("written");
    let checked = run(&["check", path.to_str().expect("UTF-8")]);
    assert_eq!(checked.status.code(), Some(2), "a file that is no history has no verdict");
    assert!(stderr(&checked).contains("garbage: line 1: "), "{}", stderr(&checked));
    let [first, again, never] = [
        r#"{"client":1,"start":1,"end":2,"status":"ok","ops":[["append","x",1]]}"#,
        r#"{"client":1,"start":3,"end":4,"status":"ok","ops":[["r","x",[1,1]]]}"#,
        r#"{"client":1,"start":5,"end":6,"status":"ok","ops":[["r","x",[1,9]]]}"#,
    ];
    for (wrong, why) in
        [(again, "appended to x once"), (never, "9 of x was read and no transaction wrote it")]
    {
        std::fs::write(&path, format!("{first}\n\n{wrong}\n")).expect("written");
        let checked = run(&["check", path.to_str().expect("UTF-8")]);
        assert_eq!(checked.status.code(), Some(1));
        assert!(
            stdout(&checked).contains(why) && stdout(&checked).contains("garbage: line 3\n"),
            "{}",
            stdout(&checked)
        );
    }
    let misfits: [(&[&str], &str); 4] = [
        (
            &["raft"],
            "there are spanner, hybrid_time, clock_si, conventional_si, k2, tapir, tapir-serializable, qwstore",
        ),
        (
            &["qwstore", "--sql"],
            "--sql does not go with --protocol qwstore: tables need transactions",
        ),
        (&["qwstore", "--workload", "bank"], "--workload does not go with --protocol qwstore"),
        (&["tapir", "--nodes", "4"], "its replicas are an odd number"),
    ];
    for (protocol, why) in misfits {
        let refused = run(&[&["sim", "--seed", "1", "--protocol"], protocol].concat());
        assert!(
            !refused.status.success() && stderr(&refused).contains(why),
            "{}",
            stderr(&refused)
        );
    }
    for seeds in ["7", "9..3", "a..b"] {
        let refused = run(&["sim", "--seeds", seeds]);
        assert!(
            !refused.status.success() && stderr(&refused).contains("FROM..TO"),
            "{}",
            stderr(&refused)
        );
    }
}

#[test]
fn a_verdict_is_an_exit_status() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.jsonl");
    let path = path.to_str().expect("UTF-8");
    // Both writers of 1 are possible, so that only a search decides; its first choice is wrong.
    let history = |last: &str| {
        let ops = [
            (1, 4, r#"["w","y",2],["w","l",null]"#),
            (1, 5, r#"["w","y",1],["w","y",2]"#),
            (6, 9, r#"["r","y",2],["w","y",2]"#),
            (7, 12, r#"["w","y",1],["append","l",2]"#),
            (8, 14, last),
        ];
        let line = |(start, end, ops): (u64, u64, &str)| {
            format!(
                "{{\"client\":{start},\"start\":{start},\"end\":{end},\"status\":\"ok\",\"ops\":[{ops}]}}\n"
            )
        };
        ops.map(line).concat()
    };
    let cases = [
        (
            r#"["r","l",[2]]"#,
            "10000000",
            0,
            "strict-serializable: an order of the transactions explains",
        ),
        (r#"["r","l",[2]],["r","y",2]"#, "10000000", 1, "not strict-serializable"),
        (r#"["r","l",[2]],["r","y",2]"#, "0", 2, "undecided whether strict-serializable"),
    ];
    for (last, limit, status, what) in cases {
        std::fs::write(path, history(last)).expect("written");
        let checked = run(&["check", path, "--limit", limit]);
        assert_eq!(checked.status.code(), Some(status), "{}{}", stdout(&checked), stderr(&checked));
        assert!(stdout(&checked).contains(what), "{}", stdout(&checked));
    }
    let missing = run(&["check", "/nonexistent/history.jsonl"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("/nonexistent/history.jsonl"), "{}", stderr(&missing));
}

#[test]
fn sizes_are_predicted_and_each_run_is_the_same() {
    let arguments = ["sim", "--profile", "3", "--seconds", "1", "--sessions", "2", "--json"];
    let (once, again) = (run(&arguments), run(&arguments));
    assert!(
        once.status.success() && stdout(&once) == stdout(&again),
        "{}{}",
        stdout(&once),
        stderr(&once)
    );
    let told: serde_json::Value = serde_json::from_str(&stdout(&once)).expect("JSON");
    let [per_second, frames] =
        [&told["per_second"], &told["frames_per_transaction"]].map(|told| told.as_f64());
    assert!(
        per_second.is_some_and(|per_second| (1_000.0..30_000.0).contains(&per_second)),
        "{told}"
    );
    assert!(frames.is_some_and(|frames| (3.0..12.0).contains(&frames)), "{told}");
    let table = run(&["sim", "--profile", "3,5", "--seconds", "1", "--sessions", "1"]);
    assert!(
        stdout(&table).contains("predicted, not measured") && stdout(&table).contains("leader"),
        "{}",
        stdout(&table)
    );
    for (wrong, why) in [
        (["--profile", "0"], "1..=1000"),
        (["--profile", "3,many"], "many"),
        (["--sessions", "3"], "--profile"),
    ] {
        let refused = run(&[&["sim"], &wrong[..]].concat());
        assert!(
            !refused.status.success() && stderr(&refused).contains(why),
            "{}",
            stderr(&refused)
        );
    }
}

#[test]
fn campaigns_are_written_down() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = folder.path().join("ledger.jsonl");
    let path = ledger.to_str().expect("UTF-8");
    for seeds in ["0..2", "2..3"] {
        let campaign = run(&[
            "sim", "--seeds", seeds, "--txns", "20", "--faults", "all,lies", "--ledger", path,
        ]);
        assert!(campaign.status.success(), "{}", stderr(&campaign));
    }
    let text = std::fs::read_to_string(&ledger).expect("it was written");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((lines.len(), &lines[1]["seeds"]), (2, &serde_json::json!([2, 3])));
    assert_eq!(
        (&lines[0]["verdict"], &lines[0]["wrong"]),
        (&serde_json::json!("ok"), &serde_json::json!([]))
    );
    let nowhere =
        run(&["sim", "--seeds", "0..1", "--txns", "5", "--ledger", "/nonexistent/ledger"]);
    assert!(
        !nowhere.status.success() && stderr(&nowhere).contains("ledger"),
        "{}",
        stderr(&nowhere)
    );
}
