//! Tests that the statements of the banner of `meridian demo` run, even while a node is down.

mod common;

use common::{meridian, run, run_with_input, stderr, stdout};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Returns the lines that the banner offers to paste.
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

/// Pastes the banner of a first demo at once, through the standard input.
#[test]
fn a_banner_can_be_pasted_as_soon_as_it_is_there() {
    let ports = ["demo", "--sql", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let first = run(&[&ports[..], &["-e", "select 1"]].concat());
    let pasted = offered(&stdout(&first));
    assert_eq!(pasted.len(), 4, "{pasted:?} {}", stderr(&first));
    let text = format!("{}\nselect 'there are ' || count(*) from accounts;\n", pasted.join("\n"));
    let output = run_with_input(&ports, &text);
    let shown = stdout(&output);
    assert!(output.status.success(), "{shown}{}", stderr(&output));
    // Time travel shows the values after the transaction, and not the zeros of now.
    assert!(
        shown.contains("there are 6") && shown.contains("2500") && shown.contains("COMMIT"),
        "{shown}"
    );
    assert!(shown.contains("Node 1 in amsterdam is killed"), "{shown}");
}

#[test]
fn taken_ports_are_reported_with_a_hint_and_sigterm_ends_a_demo() {
    let mut child = meridian()
        .args(["demo", "--no-shell", "--sql", "127.0.0.1:0", "--http", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut ports = Vec::new();
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for line in lines.by_ref().map_while(Result::ok) {
        for part in line.split_whitespace() {
            let address =
                part.trim_start_matches("postgresql://root@").trim_start_matches("http://");
            if part.contains("://") {
                ports.push(address.split('/').next().unwrap_or("").to_owned());
            }
        }
        if line.contains("SIGTERM ends it") {
            break;
        }
    }
    assert_eq!(ports.len(), 6, "{ports:?}");
    // Each node serves its own port.
    for sql in ports.iter().step_by(2) {
        let url = format!("postgresql://root@{sql}/meridian");
        let output = run(&["sql", &url, "-e", "select count(*) from accounts"]);
        assert!(stdout(&output).contains('6'), "{}", stderr(&output));
    }
    let http = ["demo", "--sql", "127.0.0.1:0", "--http", &ports[1], "-e", "select 1"];
    for (arguments, flag) in
        [(&["demo", "--sql", &ports[0], "--no-shell"][..], "--sql"), (&http[..], "--http")]
    {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            stderr(&output).contains(flag) && stderr(&output).contains("listen"),
            "{}",
            stderr(&output)
        );
    }
    assert!(
        Command::new("kill")
            .args(["-TERM", &child.id().to_string()])
            .status()
            .expect("kill runs")
            .success()
    );
    assert!(lines.map_while(Result::ok).any(|line| line.contains("closing")));
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn sigterm_ends_a_demo_with_a_shell_and_deletes_its_data() {
    let mut child = meridian()
        .args(["demo", "--sql", "127.0.0.1:0", "--http", "127.0.0.1:0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut lines =
        BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let data = lines
        .find_map(|line| Some(line.trim().strip_prefix("data ")?.trim().to_owned()))
        .expect("a folder");
    let data = std::path::PathBuf::from(data.split(" (").next().expect("a path"));
    assert!(data.exists());
    assert!(lines.any(|line| line.contains("\\q leaves")));
    assert!(
        Command::new("kill")
            .args(["-TERM", &child.id().to_string()])
            .status()
            .expect("kill runs")
            .success()
    );
    lines.for_each(drop);
    assert!(child.wait().expect("it ends").success());
    assert!(!data.exists(), "{} is left", data.display());
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
