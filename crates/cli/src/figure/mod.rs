//! `meridian figure`: the papers' figures, measured in the simulator, or at small scale on real
//! processes.
//!
//! On processes: nodes of this program (`meridian start`) on this machine, in temporary folders,
//! and sessions over PostgreSQL's wire protocol in this process. The crate `figures` has the
//! papers' values and the plots; each file here measures one figure. Every started process ends
//! with the measurement, whether it succeeds, fails, or is ended by a signal that can be handled.

mod cluster;
mod hybridtime_figure4;
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
    /// The figure's name; without it, all names are listed.
    name: Option<String>,
    /// Measure at small scale, on real processes of this program on this machine, and not in the
    /// lab.
    #[arg(long, requires = "name")]
    processes: bool,
    /// Measure less of everything, to check that it works and not for its results.
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
    // Checks that the folder is writable before minutes of measuring.
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

/// The name and the size of a measurement.
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

    /// Prints the progress.
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
            meridian_figures::hybridtime_figure4::NAME => hybridtime_figure4::measure(bench).await,
            other => Err(format!("{other} is measured in the lab alone: leave out --processes")),
        }
    };
    let mut figure = tokio::select! {
        figure = measured => figure?,
        // Dropping the measurement ends all processes that it started.
        signal = stop.wait() => return Err(format!("{signal}: nothing was measured, and what was started is stopped")),
    };
    figure.title += ", on real processes";
    Ok(figure)
}

/// Describes the machine and the build on which processes were measured.
fn world(nodes: &str) -> String {
    let cores = std::thread::available_parallelism()
        .map_or_else(|_| "an unknown number of".into(), |many| many.to_string());
    let build = if cfg!(debug_assertions) { ", built without optimisation" } else { "" };
    format!(
        "Measured on real processes: {nodes}. A node is a process of this program{build}. All are on one machine of {cores} cores, which the \
         sessions share with them; they are connected by loopback, and their logs are synced (fsync) to a temporary folder{}.",
        file_system().map_or_else(String::new, |kind| format!(" on {kind}"))
    )
}

/// Returns the type of the file system of temporary folders, if the system reports it.
fn file_system() -> Option<String> {
    let folder = std::env::temp_dir().canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    // A later mount at the longest matching path hides earlier ones.
    let (_, kind) =
        mounts.filter(|(at, _)| folder.starts_with(at)).max_by_key(|(at, _)| at.len())?;
    Some(kind.to_owned())
}
