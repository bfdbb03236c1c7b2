//! `meridian sim` and `meridian check`, as a researcher uses them.

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
        assert!(checked.status.success() && stdout(&checked).contains(model), "{}", stdout(&checked));
    }
    // Some reads of one list see an element that nobody appended.
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
    let campaign = run(&["sim", "--seeds", "0..4", "--jobs", "2", "--txns", "40", "--faults", "network,process"]);
    assert!(campaign.status.success(), "{}{}", stdout(&campaign), stderr(&campaign));
    for part in ["seeds         0..4", " ok, ", "0 of 4 seeds wrong"] {
        assert!(stdout(&campaign).contains(part), "{part}: {}", stdout(&campaign));
    }
    let one = run(&["sim", "--faults", "none", "--txns", "40", "--trace"]);
    for part in ["n1 comes to life", "faults        none", "verdict       strictly serializable", "trace hash    "] {
        assert!(stdout(&one).contains(part), "{part}: {}", stdout(&one));
    }
}

#[test]
fn what_is_no_history_and_no_range_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("garbage");
    std::fs::write(&path, "{}\n").expect("written");
    let checked = run(&["check", path.to_str().expect("UTF-8")]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(stderr(&checked).contains("garbage: line 1: "), "{}", stderr(&checked));
    for seeds in ["7", "9..3", "a..b"] {
        let refused = run(&["sim", "--seeds", seeds]);
        assert!(!refused.status.success() && stderr(&refused).contains("FROM..TO"), "{}", stderr(&refused));
    }
}
