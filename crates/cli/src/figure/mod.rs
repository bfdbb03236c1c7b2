//! `meridian figure`: the papers' figures, measured in the lab, or in small on real processes.
//!
//! On processes: nodes of this very program (`meridian start`) on this machine, in temporary
//! folders, and sessions over PostgreSQL's wire in this process. What is known of a paper, and how
//! it is drawn, stands in `figures`; here is only what is measured, a file for each figure. Nothing
//! that is started here outlives the measurement, whether it ends well, with an error, or with a
//! signal that a process can hear.

mod cluster;
mod sessions;
mod spanner_figure5;
mod spanner_figure6;
mod spanner_table3;
mod spanner_table4;

use crate::start::Stop;
use clap::Args;
use meridian_figures::{Effort, Figure, Unknown, all, draw};
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::runtime::Runtime;

/// `meridian figure`
#[derive(Debug, Args)]
pub struct Options {
    /// Which; without it, all names are listed.
    name: Option<String>,
    /// Measure in small, on real processes of this program on this machine, and not in the lab.
    #[arg(long, requires = "name")]
    processes: bool,
    /// Less of everything: whether it works, and not what it says.
    #[arg(long, requires = "name")]
    quick: bool,
    /// The folder that the plot is written to, as NAME.svg or NAME-processes.svg.
    #[arg(long, value_name = "DIR", default_value = ".", requires = "name")]
    out: PathBuf,
}

/// Measures a figure, prints it and writes the plot.
pub fn run(runtime: &Runtime, options: &Options) -> ExitCode {
    let Some(name) = &options.name else {
        all().for_each(|(name, title)| println!("{name:<18}{title}"));
        return ExitCode::SUCCESS;
    };
    match measure(runtime, name, options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => crate::fail(&why),
    }
}

fn measure(runtime: &Runtime, name: &str, options: &Options) -> Result<(), String> {
    let path = options.out.join(if options.processes {
        format!("{name}-processes.svg")
    } else {
        format!("{name}.svg")
    });
    let bench = Bench::of(name, options.quick)?;
    // Minutes of measuring end in this folder: whether it takes a file is asked first.
    std::fs::create_dir_all(&options.out)
        .and_then(|()| tempfile::tempfile_in(&options.out))
        .map_err(|error| format!("cannot write to {}: {error}", options.out.display()))?;
    let figure = if options.processes {
        runtime.block_on(on_processes(bench))?
    } else {
        let effort = if options.quick { Effort::Small } else { Effort::Full };
        draw(name, effort, &mut |line| bench.say(line)).map_err(|why| why.to_string())?
    };
    print!("{}", figure.text());
    std::fs::write(&path, figure.svg()).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("\nThe plot is in {}.", path.display());
    Ok(())
}

/// A measurement: of what, and how much of it.
#[derive(Clone, Copy, Debug)]
struct Bench {
    name: &'static str,
    quick: bool,
}

impl Bench {
    fn of(name: &str, quick: bool) -> Result<Bench, String> {
        let known = all().find(|(known, _)| *known == name);
        known
            .map(|(name, _)| Bench { name, quick })
            .ok_or_else(|| Unknown(name.to_owned()).to_string())
    }

    fn pick<T>(self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// How far it is.
    fn say(self, line: &str) {
        eprintln!("{}: {line}", self.name);
    }
}

async fn on_processes(bench: Bench) -> Result<Figure, String> {
    let stop = Stop::listen()?;
    let measured = async {
        match bench.name {
            meridian_figures::spanner_table3::NAME => spanner_table3::measure(bench).await,
            meridian_figures::spanner_table4::NAME => spanner_table4::measure(bench).await,
            meridian_figures::spanner_figure5::NAME => spanner_figure5::measure(bench).await,
            meridian_figures::spanner_figure6::NAME => spanner_figure6::measure(bench).await,
            other => Err(format!("{other} is measured in the lab alone: leave out --processes")),
        }
    };
    let mut figure = tokio::select! {
        figure = measured => figure?,
        // Whatever runs ends with the measurement, which is dropped.
        signal = stop.wait() => return Err(format!("{signal}: nothing was measured, and what was started is stopped")),
    };
    figure.title += ", on real processes";
    Ok(figure)
}

/// What has to be known of each measurement on processes.
fn world(nodes: &str) -> String {
    let cores = std::thread::available_parallelism()
        .map_or_else(|_| "an unknown number of".into(), |many| many.to_string());
    let build = if cfg!(debug_assertions) { ", built without optimisation" } else { "" };
    format!(
        "Measured on real processes: {nodes}. A node is a process of this program{build}. All are on one machine of {cores} cores, which the \
         sessions share with them; between them is loopback, and what they keep is synced (fsync) to a temporary folder{}.",
        file_system().map_or_else(String::new, |kind| format!(" on {kind}"))
    )
}

/// What kind of file system temporary folders are on, where the system tells.
fn file_system() -> Option<String> {
    let folder = std::env::temp_dir().canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    // The last of those with the longest path hides the others.
    let (_, kind) =
        mounts.filter(|(at, _)| folder.starts_with(at)).max_by_key(|(at, _)| at.len())?;
    Some(kind.to_owned())
}
