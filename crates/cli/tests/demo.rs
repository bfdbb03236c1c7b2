//! `meridian demo`: what its banner offers runs, also while a node is down.

mod common;

use common::{run, stderr, stdout};

/// The lines that the banner tells to paste.
fn offered(banner: &str) -> Vec<String> {
    let after = banner.lines().skip_while(|line| !line.starts_with("Paste one")).skip(1);
    let lines = after.take_while(|line| !line.is_empty()).map(str::trim);
    lines.filter(|line| !line.starts_with("--")).map(str::to_owned).collect()
}

#[test]
fn everything_that_the_banner_offers_runs_and_a_kept_demo_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let keep = folder.path().join("demo");
    let keep = keep.to_str().expect("UTF-8");
    let demo = |lines: &[&str]| {
        let ports = ["--sql", "127.0.0.1:0", "--http", "127.0.0.1:0", "--keep", keep];
        let mut arguments = vec!["demo"];
        arguments.extend(ports);
        lines.iter().for_each(|line| arguments.extend(["-e", line]));
        run(&arguments)
    };
    let first = demo(&["update accounts set balance = 7 where owner = 'Ada'", "\\demo"]);
    let shown = stdout(&first);
    assert!(first.status.success(), "{shown}{}", stderr(&first));
    assert!(shown.contains("clock: ±0.1 ms, source=one machine's clock"), "{shown}");
    assert!(["node 1", "node 2", "node 3"].iter().all(|node| shown.contains(node)), "{shown}");
    // The sample is older than what time travel in the banner asks for.
    std::thread::sleep(std::time::Duration::from_millis(2_200));
    let mut pasted = offered(&shown);
    assert_eq!(pasted.len(), 4, "{shown}");
    assert!(pasted.iter().any(|line| line.contains("kill")), "{shown}");
    pasted.push("select 'still ' || count(*) || ' accounts' from accounts".into());
    pasted.push("\\demo restart 1".into());
    pasted.push("\\demo".into());
    let second = demo(&pasted.iter().map(String::as_str).collect::<Vec<_>>());
    let shown = stdout(&second);
    assert!(second.status.success(), "{shown}{}", stderr(&second));
    assert!(shown.contains("still 6 accounts"), "{shown}");
    assert!(shown.contains("Blaise") && shown.contains("life 3"), "{shown}");
    assert_eq!(shown.matches("life 2").count(), 2, "{shown}");
}

#[test]
fn nodes_are_killed_and_restarted_by_number_only() {
    let lines = ["\\demo kill 4", "\\demo kill", "\\demo restart 2", "\\demo dance"];
    for line in lines {
        let output = run(&["demo", "--sql", "127.0.0.1:0", "--http", "127.0.0.1:0", "-e", line]);
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(stderr(&output).contains("\\demo"), "{}", stderr(&output));
    }
}
