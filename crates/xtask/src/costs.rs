//! `cargo xtask costs`: measures the CPU costs of the simulator's cost model on this machine.
//!
//! `commits`, an example of the host, runs with one session on one node, and on three in one
//! process. The kernel reports the CPU time of each thread (`/proc/PID/task/*/schedstat`); the
//! threads' names give their purpose:
//!
//! | | one node | three nodes, per commit |
//! |---|---|---|
//! | `commits`: the session, and the leader that it steps | 5 times a request or a response | and it hands 2 frames to the network |
//! | `log` | one sync | three, some of which are one (three nodes share a disk here), and followers hand 2 frames to the network |
//! | `peer` | | 4 frames are received |
//!
//! The wait of a sync for the disk is the rest of a transaction's time on one node: the median
//! without the CPU time. It is taken as the middle between a tenth of the longest wait and the
//! longest.
//!
//! The machine may have background load: of several runs the one counts in which a commit took the
//! least CPU time. A run of three nodes counts only if the session's node leads in the end;
//! leadership takes some seconds to move there.

use clap::Args;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The file that the simulator reads.
const FILE: &str = "crates/sim/src/costs.txt";
/// The durations of the runs, in seconds; the leader of three nodes moves within its run.
const ALONE: u64 = 10;
const THREE: u64 = 26;
/// The measured part at the end of a run, in seconds.
const LOOK: u64 = 6;

/// `cargo xtask costs`
#[derive(Debug, Args)]
pub struct Options {
    /// The number of runs of each kind.
    #[arg(long, default_value_t = 5)]
    runs: u32,
}

/// The measurements of a run, per commit.
struct Run {
    per_second: f64,
    p50_us: f64,
    /// CPU time by thread name, in microseconds.
    cpu_us: BTreeMap<String, f64>,
}

impl Run {
    fn of(&self, threads: &str) -> f64 {
        self.cpu_us.get(threads).copied().unwrap_or_default()
    }

    fn all(&self) -> f64 {
        self.cpu_us.values().sum()
    }

    fn told(&self, nodes: u32) -> String {
        let threads: Vec<String> = self
            .cpu_us
            .iter()
            .filter(|(_, us)| **us >= 0.1)
            .map(|(name, us)| format!("{name} {us:.1}"))
            .collect();
        let Run { per_second, p50_us, .. } = self;
        format!(
            "# {nodes} nodes, 1 session: {per_second:.0} commits/s, p50 {p50_us:.1} µs; CPU µs per commit: {}",
            threads.join(", ")
        )
    }
}

/// Returns the CPU time of the threads of each name so far, in nanoseconds.
fn burnt(child: &Child) -> Result<BTreeMap<String, u64>, String> {
    let mut burnt = BTreeMap::new();
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id()))
        .map_err(|error| error.to_string())?;
    for task in tasks.flatten() {
        let read = |what: &str| std::fs::read_to_string(task.path().join(what)).unwrap_or_default();
        let (name, times) = (read("comm"), read("schedstat"));
        let ns: u64 = times.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default();
        *burnt.entry(name.trim().to_owned()).or_default() += ns;
    }
    Ok(burnt)
}

/// Parses `148.2µs` or `1.4ms` into microseconds.
fn micros(text: &str) -> Option<f64> {
    let number = |unit: &str| text.strip_suffix(unit)?.parse::<f64>().ok();
    number("µs").or_else(|| Some(number("ms")? * 1e3)).or_else(|| Some(number("ns")? / 1e3))
}

fn run_one(example: &Path, nodes: u32, seconds: u64) -> Result<Run, String> {
    let mut command = Command::new(example);
    let command =
        command.args([nodes.to_string(), "1".into(), seconds.to_string()]).stdout(Stdio::piped());
    let child = command.spawn().map_err(|error| format!("{}: {error}", example.display()))?;
    std::thread::sleep(Duration::from_secs(seconds - LOOK));
    let (before, began) = (burnt(&child)?, Instant::now());
    std::thread::sleep(Duration::from_secs(LOOK - 2));
    let (after, elapsed) = (burnt(&child)?, began.elapsed());
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let word_after = |mark: &str| text.split_once(mark)?.1.split([' ', ',']).next();
    let found =
        || Some((word_after("sessions: ")?.parse::<f64>().ok()?, micros(word_after("p50 ")?)?));
    let (per_second, p50_us) =
        found().ok_or_else(|| format!("{} said {text}", example.display()))?;
    let commits = per_second * elapsed.as_secs_f64();
    let cpu_us = after.into_iter().map(|(name, ns)| {
        let ns = ns - before.get(&name).copied().unwrap_or_default();
        (name, ns as f64 / 1e3 / commits)
    });
    Ok(Run { per_second, p50_us, cpu_us: cpu_us.collect() })
}

/// Measures the costs, and writes the file.
pub fn run(options: &Options) -> Result<(), String> {
    let mut build = Command::new("cargo");
    let build = build.args(["build", "--release", "-p", "meridian-host", "--example", "commits"]);
    let built = build.status().map_err(|error| error.to_string())?;
    if !built.success() {
        return Err("commits cannot be built".into());
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let text = measure(&target.join("release/examples/commits"), options.runs)?;
    print!("{text}");
    std::fs::write(Path::new(FILE), text).map_err(|error| format!("{FILE}: {error}"))
}

fn measure(example: &Path, runs: u32) -> Result<String, String> {
    let least = |nodes: u32, seconds: u64| {
        let mut best: Option<Run> = None;
        for _ in 0..runs {
            let run = run_one(example, nodes, seconds)?;
            eprintln!("{}", run.told(nodes));
            // A leader on another node would read for the session there.
            let counts = run.of("read") < 0.1;
            if counts && best.as_ref().is_none_or(|best| run.all() < best.all()) {
                best = Some(run);
            }
        }
        best.ok_or_else(|| {
            format!("in no run with {nodes} nodes the session's node led in the end")
        })
    };
    let (alone, three) = (least(1, ALONE)?, least(3, THREE)?);
    let local = alone.of("commits") / 5.0;
    let sync = alone.of("log");
    let more = three.of("commits") - alone.of("commits");
    if more <= 0.0 {
        return Err(
            "a commit on three nodes took its session less than one alone: the machine was too busy to measure".into(),
        );
    }
    let (send, receive) = (more / 2.0, three.of("peer") / 4.0);
    let disk = (alone.p50_us - alone.all()).max(0.0) / 0.55;
    let nanoseconds = |us: f64| (us * 10.0).round() as u64 * 100;
    Ok(format!(
        "# What things cost a core, and a sync the disk, in nanoseconds: `cargo xtask costs --runs {runs}`; how, crates/xtask/src/costs.rs says.\n\
         {}\n{}\nsend_ns {}\nreceive_ns {}\nlocal_ns {}\nsync_ns {}\ndisk_ns {}\n",
        alone.told(1),
        three.told(3),
        nanoseconds(send),
        nanoseconds(receive),
        nanoseconds(local),
        nanoseconds(sync),
        nanoseconds(disk),
    ))
}
