//! Tests `meridian figure` on real processes.

mod common;

use common::{run, stderr, stdout};

#[test]
fn table_4_is_measured_on_processes_beside_the_papers() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().display().to_string();
    let measured = run(&["figure", "spanner_table4", "--processes", "--quick", "--out", &out]);
    let (shown, said) = (stdout(&measured), stderr(&measured));
    assert!(measured.status.success(), "{shown}{said}");
    let row = |many: &str, papers: &str| {
        let found = shown.lines().find(|line| line.split_whitespace().next() == Some(many));
        let found = found.unwrap_or_else(|| panic!("no row of {many} participants: {shown}"));
        assert!(found.contains(papers), "the paper's {papers} is not in {found}");
        let mean: f64 =
            found.split_whitespace().nth(1).and_then(|mean| mean.parse().ok()).expect("a number");
        // No commit returns before its commit wait is over, all of which falls into COMMIT.
        assert!(mean >= 4.0, "{found}");
    };
    for (many, papers) in
        [("1", "17.0 ±1.4"), ("2", "24.5 ±2.5"), ("5", "31.5 ±6.2"), ("10", "30.0 ±3.7")]
    {
        row(many, papers);
    }
    assert!(
        shown.contains("on real processes") && shown.contains("3 nodes") && shown.contains("fsync"),
        "{shown}"
    );
    assert!(said.contains("10 participants"), "how far it is: {said}");
    let plot = std::fs::read_to_string(folder.path().join("spanner_table4-processes.svg"))
        .expect("the plot");
    assert!(plot.starts_with("<svg") && plot.contains("on real processes"));
}

#[test]
fn hybrid_time_on_processes_waits_in_one_mode_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().display().to_string();
    let measured = run(&["figure", "hybridtime_figure4", "--processes", "--quick", "--out", &out]);
    let (shown, said) = (stdout(&measured), stderr(&measured));
    assert!(measured.status.success(), "{shown}{said}");
    let row = |mode: &str| {
        let found = shown.lines().find(|line| line.split_whitespace().next() == Some(mode));
        found.unwrap_or_else(|| panic!("no row of {mode}: {shown}"))
    };
    let mean = |mode| {
        let mean = row(mode).split_whitespace().nth(2).and_then(|mean| mean.parse::<f64>().ok());
        mean.expect("a number")
    };
    // No write returns before twice the clock error has passed since its timestamp.
    assert!(mean("commit_wait") >= 29.0, "{shown}");
    assert!(mean("commit_wait") > mean("hybrid").max(mean("none")), "{shown}");
    assert!(row("commit_wait").contains("about 10") && row("commit_wait").contains("86 %"));
    assert!(shown.contains("No operation failed.") && shown.contains("cores"), "{shown}");
    let plot = std::fs::read_to_string(folder.path().join("hybridtime_figure4-processes.svg"));
    assert!(plot.expect("the plot").contains("on real processes"));
}

#[test]
fn what_cannot_be_measured_or_written_is_reported_first() {
    for (arguments, why) in [
        (
            &["figure", "spanner_table9", "--processes"][..],
            "no figure is called spanner_table9; there are spanner_table3",
        ),
        (
            &["figure", "spanner_table4", "--processes", "--out", "/dev/null/plots"],
            "cannot write to /dev/null/plots",
        ),
        (
            &["figure", "spanner_table4", "--out", "/dev/null/plots"],
            "cannot write to /dev/null/plots",
        ),
        (&["figure", "--processes"], "<NAME>"),
    ] {
        let refused = run(arguments);
        assert!(!refused.status.success() && stdout(&refused).is_empty(), "{}", stdout(&refused));
        let said = stderr(&refused);
        assert!(said.contains(why) && !said.contains("start"), "{said}");
    }
}
