//! `cargo xtask differential`: runs random statements on Meridian and PostgreSQL, and compares the
//! answers.
//!
//! ```text
//!   seed ──▶ case: tables, statements ──▶ PostgreSQL ──▶ answer ─┐
//!                                    └──▶ Meridian ────▶ answer ─┴─▶ compare ──▶ shrink ──▶ report
//! ```
//!
//! Everything is drawn from one seed for each case. Queries whose result PostgreSQL leaves
//! undefined are not drawn; `compare` lists the differences that are accepted.

pub mod answer;
mod case;
mod changes;
mod compare;
mod expressions;
mod features;
mod generator;
mod lab;
mod queries;
mod report;
mod schema;
mod scope;
mod shrink;
mod side;
mod sources;
mod templates;
mod tree;
mod types;

pub use answer::{Answer, Outcome};
use case::Case;
use clap::Args;
use features::{Feature, Skipped};
use lab::{Found, Lab, Rules};
use meridian_sim::SimulatedProtocol;
use meridian_sim::protocols;
use report::Report;
pub use side::Side;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The options of the command.
#[derive(Debug, Args)]
pub struct Options {
    /// The duration in minutes, on new seeds.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Run the case of this seed alone.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run the cases of these seeds: FROM..TO.
    #[arg(long, value_parser = range)]
    seeds: Option<Range<u64>>,
    /// The program; built if not given.
    #[arg(long, visible_alias = "binary")]
    meridian: Option<PathBuf>,
    /// The protocol of the database.
    #[arg(long, default_value = protocols::DEFAULT.row.name, value_parser = crate::defects::protocol)]
    protocol: &'static SimulatedProtocol,
    /// The features that are left out. A seed's case depends on this list.
    #[arg(long, value_enum, value_delimiter = ',')]
    skip: Vec<Feature>,
    /// Texts of operators and functions that are left out, such as "SIMILAR TO".
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// Report soft differences too: errors that depend on the order of evaluation, which PostgreSQL
    /// does not define.
    #[arg(long)]
    strict: bool,
    /// Print the script of each case, and run none.
    #[arg(long)]
    print: bool,
    /// Keep the folders of both servers.
    #[arg(long)]
    keep: bool,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let parts =
        text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parts.ok_or_else(|| format!("{text:?} is no range of seeds; write 0..100"))
}

/// Returns a first seed after which no earlier run has used any: the seconds of the system clock,
/// each of which leaves a thousand seeds.
fn new_seed() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_secs() * 1000
}

/// The time and the number of runs that shrinking one difference may take.
const SHRINK: Duration = Duration::from_secs(60);
const SHRINK_RUNS: usize = 1500;

impl Options {
    /// Returns the seeds to run; without a list of them they have no end.
    fn seeds(&self) -> Range<u64> {
        match (self.seed, &self.seeds) {
            (Some(seed), _) => seed..seed + 1,
            (None, Some(seeds)) => seeds.clone(),
            (None, None) => new_seed()..u64::MAX,
        }
    }

    fn has_end(&self) -> bool {
        self.seed.is_some() || self.seeds.is_some()
    }

    fn rules(&self) -> Rules {
        Rules { protocol: self.protocol.row.name, strict: self.strict, skipped: self.skip.clone() }
    }

    /// Returns the command that runs the case of a seed again.
    fn command(&self, seed: u64) -> String {
        let mut command =
            format!("cargo xtask differential --seed {seed} --protocol {}", self.protocol.row.name);
        if let Some(binary) = &self.meridian {
            command += &format!(" --meridian {}", binary.display());
        }
        if !self.skip.is_empty() {
            let names: Vec<String> = self.skip.iter().map(|feature| feature.name()).collect();
            command += &format!(" --skip {}", names.join(","));
        }
        if !self.without.is_empty() {
            command += &format!(" --without '{}'", self.without.join(","));
        }
        if self.strict {
            command += " --strict";
        }
        command
    }
}

/// Runs the command.
pub fn run(options: &Options) -> Result<(), String> {
    let skipped = Skipped { features: options.skip.clone(), forms: options.without.clone() };
    if options.print {
        let seeds = if options.has_end() { options.seeds() } else { 0..1 };
        for seed in seeds {
            println!("-- seed {seed}\n{}", Case::draw(seed, &skipped).script());
        }
        return Ok(());
    }
    let binary = match &options.meridian {
        Some(binary) => binary.clone(),
        None => crate::server::build()?,
    };
    let folder = tempfile::Builder::new().prefix("meridian-differential-").tempdir();
    let mut folder = folder.map_err(|error| format!("cannot create a folder: {error}"))?;
    readable(folder.path())?;
    folder.disable_cleanup(options.keep);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    let started = Lab::start(&binary, folder.path(), options.rules());
    let mut lab = runtime.block_on(started)?;
    let mut report = Report::default();
    let end = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    for seed in options.seeds() {
        if !options.has_end() && Instant::now() >= end {
            break;
        }
        let mut case = Case::draw(seed, &skipped);
        // After a difference, the rest of the case runs, and before it the changes that ran.
        while let Some(found) = runtime.block_on(lab.run(&case))? {
            let at = found.at;
            if !report.knows(&found) {
                let (small, found) = shrunk(&runtime, &mut lab, case.clone(), found)?;
                report.add(&options.command(seed), &small, &found);
            }
            match at {
                Some(at) => {
                    let rest = case.statements.split_off(at + 1);
                    case.statements.truncate(at);
                    case.statements.retain(|statement| statement.changes);
                    case.statements.extend(rest);
                }
                None => break,
            }
            report.progress(&lab.counts);
        }
        report.cases += 1;
        report.progress(&lab.counts);
    }
    report.summary(&lab.counts);
    if options.keep {
        println!("folders       {}", folder.path().display());
    }
    if lab.lost > 0 {
        return Err(format!(
            "{} connections to Meridian broke; see the statements above",
            lab.lost
        ));
    }
    match report.differences() {
        0 => Ok(()),
        count => Err(format!("{count} different differences; each script above shows one")),
    }
}

/// Lets PostgreSQL's user enter the folder.
fn readable(folder: &std::path::Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let permissions = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, permissions)
        .map_err(|error| format!("{}: {error}", folder.display()))
}

/// Returns the smallest case found that shows the difference, and its answers.
fn shrunk(
    runtime: &Runtime,
    lab: &mut Lab,
    mut case: Case,
    found: Found,
) -> Result<(Case, Found), String> {
    if let Some(at) = found.at {
        case.statements.truncate(at + 1);
    } else {
        case.statements.clear();
    }
    let counts = lab.counts.clone();
    let end = Instant::now() + SHRINK;
    let (mut latest, mut runs, mut wrong) = (found.clone(), 0, None);
    let small = shrink::shrink(case, &mut |smaller| {
        runs += 1;
        if wrong.is_some() || runs > SHRINK_RUNS || Instant::now() > end {
            return false;
        }
        match runtime.block_on(lab.run(smaller)) {
            Ok(Some(again)) if again.difference == found.difference => {
                let is_last = again.at.is_none_or(|at| at + 1 == smaller.statements.len());
                if is_last {
                    latest = again;
                }
                is_last
            }
            Ok(_) => false,
            Err(error) => {
                wrong = Some(error);
                false
            }
        }
    });
    lab.counts = counts;
    match wrong {
        Some(error) => Err(error),
        None => Ok((small, latest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_seeds_is_read() {
        assert_eq!(range("3..10"), Ok(3..10));
        assert!(range("3").is_err_and(|error| error.contains("0..100")));
    }
}
