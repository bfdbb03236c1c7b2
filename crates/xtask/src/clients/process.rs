//! Runs a program with a time limit, and with the processes that it starts.

use crate::server::ends_with_us;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
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

/// Returns the command that runs in a folder, without this process's settings of PostgreSQL's
/// clients; a program with a slash is one of that folder.
pub fn command(folder: &Path, words: &[&str]) -> Command {
    let (program, arguments) = words.split_first().unwrap_or((&"", &[]));
    let mut command = match program.contains('/') {
        true => Command::new(absolute(&folder.join(program))),
        false => Command::new(program),
    };
    command.args(arguments).current_dir(folder);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PG") {
            command.env_remove(name);
        }
    }
    command
}

fn absolute(path: &Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// True if a child has ended. It is not waited for, so that its number is still its own.
fn has_ended(child: &Child) -> std::io::Result<bool> {
    // SAFETY: all bytes of the structure may be zero.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the structure is there for as long as the call.
    match unsafe { libc::waitid(libc::P_PID, child.id(), &mut info, how) } {
        0 => {}
        _ => return Err(std::io::Error::last_os_error()),
    }
    // SAFETY: the call has filled it, or left its zeros.
    Ok(unsafe { info.si_pid() } != 0)
}

/// Runs a command until its end or its time is over, and kills all that it started; its output goes
/// to a file.
pub fn run(command: &mut Command, log: &Path, limit: Duration) -> Result<Ended, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", log.display());
    let out = File::create(log).map_err(wrong)?;
    let errors = out.try_clone().map_err(wrong)?;
    command.stdin(Stdio::null()).stdout(out).stderr(errors).process_group(0);
    ends_with_us(command, libc::SIGKILL);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| format!("cannot run {name}: {error}"))?;
    let lost = |error| format!("cannot wait for {name}: {error}");
    let end = Instant::now() + limit;
    let is_late = loop {
        match has_ended(&child).map_err(lost)? {
            true => break false,
            false if Instant::now() >= end => break true,
            false => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    // SAFETY: a signal to the group of a child that was not waited for yet, so that its number is
    // still its own.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    let status = child.wait().map_err(lost)?;
    Ok(if is_late { Ended::Late(limit) } else { Ended::Exit(status) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_started_ends_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = |script: &str, limit| {
            let mut command = command(folder.path(), &["sh", "-c", script]);
            run(&mut command, &folder.path().join("log"), limit).expect("runs")
        };
        let began = Instant::now();
        let ended = run("sleep 600 & echo $! > started; exit 3", Duration::from_secs(60));
        assert!(matches!(ended, Ended::Exit(status) if status.code() == Some(3)));
        let started = std::fs::read_to_string(folder.path().join("started")).expect("is written");
        let stat = format!("/proc/{}/stat", started.trim());
        let is_over = || std::fs::read_to_string(&stat).map_or(true, |text| text.contains(") Z "));
        while !is_over() {
            assert!(began.elapsed() < Duration::from_secs(60), "it runs on");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(matches!(run("sleep 600", Duration::from_millis(50)), Ended::Late(_)));
    }
}
