//! Runs the real binary, as a user does.

#![allow(dead_code)] // Each test file uses its own part.

#[path = "../../../host/tests/common/ports.rs"]
mod ports;
pub mod session;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Returns the command `meridian …`, independent of the user's environment.
pub fn meridian() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    for name in ["MERIDIAN_URL", "MERIDIAN_DATA", "MERIDIAN_LOG"] {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end.
pub fn run(arguments: &[&str]) -> Output {
    meridian().args(arguments).stdin(Stdio::null()).output().expect("the binary runs")
}

/// Runs a command to its end with a text on its standard input.
pub fn run_with_input(arguments: &[&str], input: &str) -> Output {
    let mut child = meridian()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

/// Returns the standard output.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// Returns the standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// A running `meridian start`; killed when it is dropped.
pub struct Started {
    child: Child,
    /// `postgresql://…`
    pub url: String,
    /// `127.0.0.1:port`
    pub sql: String,
    /// `127.0.0.1:port`
    pub http: String,
}

impl Started {
    /// Starts a node on free ports, and waits until it is ready.
    pub fn on(folder: &Path) -> Started {
        Started::with(folder, &[])
    }

    /// Starts one of several nodes.
    pub fn member(folder: &Path, listen: &str, join: &str) -> Started {
        Started::with(folder, &["--zone", "here", "--listen", listen, "--join", join])
    }

    /// Starts a node with these flags.
    pub fn with(folder: &Path, flags: &[&str]) -> Started {
        let mut command = meridian();
        command.arg("start").args(flags).stderr(Stdio::inherit());
        Started::of(command, folder)
    }

    /// Starts a node by a command that has further flags, variables and a stderr.
    pub fn of(mut command: Command, folder: &Path) -> Started {
        let mut child = command
            .args(["--sql", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let end = Instant::now() + Duration::from_secs(120);
        let mut url = String::new();
        let mut http = String::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = receive.recv_timeout(left).expect("it gets ready within two minutes");
            if let Some(found) = line.trim().strip_prefix("sql ") {
                url = found.trim().to_owned();
            }
            if let Some(found) = line.trim().strip_prefix("http ") {
                http = found
                    .trim()
                    .trim_start_matches("http://")
                    .split('/')
                    .next()
                    .unwrap_or("")
                    .to_owned();
            }
            if line.starts_with("Ready") {
                break;
            }
        }
        let sql = url
            .split('@')
            .nth(1)
            .and_then(|rest| rest.split('/').next())
            .expect("a URL")
            .to_owned();
        Started { child, url, sql, http }
    }

    /// Returns the SQL port.
    pub fn port(&self) -> &str {
        self.sql.rsplit(':').next().expect("a port")
    }

    /// Kills the node (kill -9).
    pub fn kill(mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it is dead");
    }

    /// Sends SIGTERM, and returns the exit code.
    pub fn terminate(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
        let end = Instant::now() + Duration::from_secs(120);
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it did not stop within two minutes of SIGTERM");
    }

    /// Sends a GET request over a plain socket.
    pub fn get(&self, path: &str) -> String {
        let mut socket = std::net::TcpStream::connect(&self.http).expect("the HTTP port answers");
        write!(socket, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .expect("it reads");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("it answers");
        answer
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns addresses that were free a moment ago.
pub fn free_addresses(count: usize) -> Vec<String> {
    ports::free_ports(count).into_iter().map(|port| format!("127.0.0.1:{port}")).collect()
}

/// True if a program is installed. If CI is set, a missing program fails the test; otherwise the
/// test prints that it is skipped.
pub fn installed(program: &str) -> bool {
    let found =
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(
            std::env::var_os("CI").is_none(),
            "{program} is not installed, and CI allows no skip"
        );
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}
