//! Runs a program with a time limit, and with the processes that it starts.

use crate::server::ends_with_us;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The way a program ended.
pub enum Ended {
    /// With this exit status.
    Exit(std::process::ExitStatus),
    /// It was killed after its time.
    Late(Duration),
}

impl Ended {
    /// Returns an end that is not that of a program that did its work.
    pub fn complaint(&self) -> Option<String> {
        match self {
            Ended::Exit(status) if status.success() => None,
            Ended::Exit(status) => Some(status.to_string()),
            Ended::Late(limit) => Some(format!("no end within {} minutes", limit.as_secs() / 60)),
        }
    }
}

/// Returns the command that runs in a folder; a program with a slash is one of that folder.
pub fn command(folder: &Path, words: &[&str]) -> Command {
    let (program, arguments) = words.split_first().unwrap_or((&"", &[]));
    let mut command = match program.contains('/') {
        true => Command::new(absolute(&folder.join(program))),
        false => Command::new(program),
    };
    command.args(arguments).current_dir(folder);
    command
}

fn absolute(path: &Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Runs a command until its end, or kills it and all that it started; its output goes to a file.
pub fn run(command: &mut Command, log: &Path, limit: Duration) -> Result<Ended, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", log.display());
    let out = File::create(log).map_err(wrong)?;
    let errors = out.try_clone().map_err(wrong)?;
    command.stdin(Stdio::null()).stdout(out).stderr(errors).process_group(0);
    ends_with_us(command, libc::SIGKILL);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| format!("cannot run {name}: {error}"))?;
    let end = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Err(error) => return Err(format!("cannot wait for {name}: {error}")),
            Ok(Some(status)) => return Ok(Ended::Exit(status)),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                // SAFETY: a signal to the group of a child that was not waited for yet, so that
                // its number is still its own.
                unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
                let _ = child.wait();
                return Ok(Ended::Late(limit));
            }
        }
    }
}
