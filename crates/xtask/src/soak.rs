//! `cargo xtask sim --minutes N`: runs one campaign after the other, of every kind in turn, on
//! seeds that the ledger does not contain.
//!
//! The ledger has a line for each campaign that was run with it.

use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The options of the command.
#[derive(Debug, Args)]
pub struct Options {
    /// The duration in minutes; the last campaign runs to its end.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// The number of seeds in each campaign.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The ledger.
    #[arg(long, default_value = "docs/ledger.jsonl")]
    ledger: PathBuf,
    /// The program; built if not given.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// Each kind of campaign, and its duration as a multiple of the first.
const KINDS: &[(&[&str], u64)] = &[
    (&["--workload", "all"], 1),
    (&["--workload", "all", "--nodes", "5"], 4),
    (&["--workload", "all", "--faults", "all,lies"], 1),
    (&["--workload", "all", "--sql"], 4),
    (&["--workload", "all", "--cluster-time"], 2),
    (&["--workload", "all", "--time-masters", "--faults", "all,lies"], 2),
    (&["--workload", "mixed", "--txns", "2000"], 4),
    (&["--workload", "all", "--nodes", "5", "--regions", "k2"], 4),
    (&["--protocol", "tapir", "--workload", "all"], 2),
    (&["--protocol", "tapir", "--workload", "all", "--nodes", "5"], 6),
    (&["--protocol", "tapir", "--workload", "all", "--sql"], 8),
    (&["--protocol", "tapir-serializable", "--workload", "all", "--faults", "all,lies"], 2),
];

/// Returns the first seed after all seeds in the ledger.
fn unused(ledger: &Path) -> Result<u64, String> {
    let text = match fs::read_to_string(ledger) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(format!("{}: {error}", ledger.display())),
    };
    let mut next = 0;
    for (place, line) in text.lines().enumerate() {
        let entry: serde_json::Value = serde_json::from_str(line)
            .map_err(|error| format!("{}:{}: {error}", ledger.display(), place + 1))?;
        next = next.max(entry["seeds"][1].as_u64().unwrap_or(0));
    }
    Ok(next)
}

fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])
        .is_none_or(|changes| !changes.is_empty());
    let head = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    if changed { format!("{head} and changes") } else { head }
}

/// Runs campaigns until the time is over; fails if one was wrong.
pub fn run(options: &Options) -> Result<(), String> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => crate::server::build()?,
    };
    let commit = commit(); // Before the ledger changes.
    let end = Instant::now() + Duration::from_secs(60 * options.minutes);
    let (mut campaigns, mut wrong) = (0, 0);
    for (arguments, weight) in KINDS.iter().cycle() {
        if Instant::now() >= end {
            break;
        }
        let from = unused(&options.ledger)?;
        let seeds = format!("{from}..{}", from + (options.seeds / weight).max(1));
        println!("── meridian sim --seeds {seeds} {}", arguments.join(" "));
        let status = Command::new(&binary)
            .args(["sim", "--seeds", &seeds, "--ledger"])
            .arg(&options.ledger)
            .args(*arguments)
            .env("MERIDIAN_COMMIT", &commit)
            .status()
            .map_err(|error| format!("{}: {error}", binary.display()))?;
        campaigns += 1;
        wrong += u64::from(!status.success());
    }
    println!(
        "{campaigns} campaigns, {wrong} of them wrong; the ledger is {}",
        options.ledger.display()
    );
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} campaigns were wrong")) }
}

#[cfg(test)]
mod tests {
    use super::unused;

    #[test]
    fn seeds_are_used_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = folder.path().join("ledger");
        assert_eq!(unused(&ledger), Ok(0));
        std::fs::write(&ledger, "{\"seeds\":[5,70]}\n{\"seeds\":[0,5]}\n").expect("written");
        assert_eq!(unused(&ledger), Ok(70));
        std::fs::write(&ledger, "{\"seeds\":[5,70]}\nnonsense\n").expect("written");
        assert!(unused(&ledger).is_err_and(|why| why.contains(":2: ")));
    }
}
