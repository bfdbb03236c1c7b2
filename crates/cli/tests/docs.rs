//! Tests that the commands of docs/getting-started.md run, line by line, on free ports.

mod common;

use common::{free_addresses, installed};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Processes that are killed when the test ends, however it ends.
#[derive(Default)]
struct Jobs(Vec<Child>);

impl Jobs {
    fn end(&mut self, job: usize, signal: &str) {
        let child = &mut self.0[job];
        assert!(
            Command::new("kill")
                .args([signal, &child.id().to_string()])
                .status()
                .expect("kill runs")
                .success()
        );
        child.wait().expect("it ends");
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for job in &mut self.0 {
            let _ = job.kill();
            let _ = job.wait();
        }
    }
}

fn shell(line: &str, folder: &Path) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_meridian"));
    let own = binary.parent().expect("a folder").display().to_string();
    let mut command = Command::new("sh");
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .args(["-c", line])
        .current_dir(folder)
        .env("PATH", format!("{own}:{path}"))
        .stdin(Stdio::null());
    command
}

/// Returns the code blocks of one language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.strip_prefix("```") == Some(language) {
            found.push(lines.by_ref().take_while(|line| *line != "```").collect());
        }
    }
    found
}

#[test]
fn the_first_steps_can_be_taken_as_they_are_written() {
    let text = include_str!("../../../docs/getting-started.md");
    let mut text = text.to_owned();
    let free = free_addresses(18);
    // The demo takes three ports in a row, free ones here.
    text = text.replace(
        "demo --sql 127.0.0.1:5544 --http 127.0.0.1:8844",
        "demo --sql 127.0.0.1:0 --http 127.0.0.1:0",
    );
    let written = [
        "5544", "5545", "5546", "8844", "8845", "8846", "7001", "7002", "7003", "5554", "5555",
        "5556", "8854", "8855", "8856", "7011", "7012", "7013",
    ];
    for (at, (port, address)) in written.iter().zip(&free).enumerate() {
        // In two steps, in case a free port equals a port in the text.
        text = text.replace(port, &format!("<{at}>"));
        assert!(address.starts_with("127.0.0.1:"));
    }
    for (at, address) in free.iter().enumerate() {
        text = text.replace(&format!("<{at}>"), address.rsplit(':').next().expect("a port"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut ran = 0;
    for block in blocks(&text, "sh") {
        let mut jobs = Jobs::default();
        for line in block {
            let program = line.split_whitespace().next().expect("a command");
            if ["psql", "pgbench"].contains(&program) && !installed(program) {
                continue;
            }
            if program == "curl" && Command::new("curl").arg("--version").output().is_err() {
                continue; // Other tests read the same pages.
            }
            ran += 1;
            if let Some(line) = line.strip_suffix(" &") {
                let mut job = shell(&format!("exec {line}"), folder.path());
                let mut job = job.stdout(Stdio::piped()).spawn().expect("sh runs");
                let mut lines = BufReader::new(job.stdout.take().expect("a pipe")).lines();
                jobs.0.push(job);
                assert!(
                    lines.by_ref().map_while(Result::ok).any(|line| line.starts_with("Ready")),
                    "{line}"
                );
                std::thread::spawn(move || lines.for_each(drop));
            } else if let Some(job) = line.strip_prefix("kill -9 %") {
                jobs.end(job.parse::<usize>().expect("a number") - 1, "-KILL");
            } else if let Some(job) = line.strip_prefix("kill %") {
                jobs.end(job.parse::<usize>().expect("a number") - 1, "-TERM");
            } else {
                let output = shell(line, folder.path()).output().expect("sh runs");
                let shown = String::from_utf8_lossy(&output.stdout);
                assert!(
                    output.status.success(),
                    "{line}: {shown}{}",
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        }
    }
    assert!(ran > 12, "{ran} lines");
    // The config file is valid, too, for the folder that was created above.
    let config = blocks(&text, "toml").concat().join("\n");
    std::fs::write(folder.path().join("node.toml"), config).expect("written");
    let mut jobs = Jobs::default();
    let mut job = shell("exec meridian start --config node.toml", folder.path());
    let mut job = job.stdout(Stdio::piped()).spawn().expect("sh runs");
    let lines = BufReader::new(job.stdout.take().expect("a pipe")).lines();
    jobs.0.push(job);
    assert!(lines.map_while(Result::ok).any(|line| line.starts_with("Ready")));
}

#[test]
fn the_lab_runs_as_it_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    for line in blocks(include_str!("../../../docs/lab.md"), "sh").concat() {
        let output = shell(line, folder.path()).output().expect("sh runs");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{line}: {shown}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
