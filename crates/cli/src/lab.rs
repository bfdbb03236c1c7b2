//! `meridian sim`: simulated clusters from seeds.

mod campaign;
mod check;
mod predict;

pub use check::Check;

use clap::{Args, ValueEnum};
use meridian_history::cycles::Model;
use meridian_history::{Status, write};
use meridian_sim::{
    Faults, Options, Regions, Report, SimulatedProtocol, Timebase, Workload, protocols, run, shrink,
};
use meridian_systems::Protocol;
use std::fs::File;
use std::io::BufWriter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// All kinds but `lies`.
    All,
    /// No faults.
    None,
    /// Loss, repetition, delay, cuts in one direction or both.
    Network,
    /// Clocks that step, drift and flicker within their bound, and bounds that widen.
    Clock,
    /// Slow and failing syncs, full disks, flipped bits, misdirected writes, lost files.
    Disk,
    /// Crashes, power failures, restarts, ends in order, pauses, slow processors, lost nodes.
    Process,
    /// Clocks beyond their bound, which `all` does not have: then histories are held to be
    /// serializable, and not strictly so.
    Lies,
}

/// `meridian sim`
#[derive(Debug, Args)]
pub struct Simulation {
    /// The protocol: spanner; hybrid_time, whose transactions choose how they are ordered;
    /// clock_si, which gives snapshot isolation; conventional_si, its baseline with a timestamp
    /// authority; k2, whose transactions are ordered by timestamps from their start; tapir, whose
    /// transactions are strictly serializable; tapir-serializable, as in its paper; qwstore, which
    /// has no transactions, and promises only that a read never misses an acknowledged write.
    #[arg(long, default_value = protocols::DEFAULT.row.name, value_parser = protocol)]
    protocol: &'static SimulatedProtocol,
    /// The seed of one run, from which all its choices are drawn.
    #[arg(long, default_value_t = 0, conflicts_with = "seeds")]
    seed: u64,
    /// Run many seeds, FROM..TO.
    #[arg(long, value_parser = range)]
    seeds: Option<(u64, u64)>,
    /// Runs at once [default: the number of cores].
    #[arg(long)]
    jobs: Option<usize>,
    /// The kinds of faults that may occur.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "all")]
    faults: Vec<Kind>,
    /// The clients' workload: mixed, list-append, rw-register, bank, set, counter, long-fork,
    /// monotonic, causal-reverse, predicate; with `all`, each seed runs another.
    #[arg(long, default_value = "mixed", value_parser = workload)]
    workload: Work,
    /// Clients speak SQL instead of reading and writing keys.
    #[arg(long)]
    sql: bool,
    /// No node knows the time of day: nodes poll each other.
    #[arg(long)]
    cluster_time: bool,
    /// All nodes are time masters, of which a minority may lie (with --faults lies): the promise
    /// holds nevertheless.
    #[arg(long, conflicts_with = "cluster_time")]
    time_masters: bool,
    /// The distances between nodes: drawn from the seed, or as in a paper: lan, spanner, k2, tapir,
    /// hybrid-time, clock-si.
    #[arg(long, default_value = "drawn")]
    regions: Regions,
    /// The number of nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    nodes: u32,
    /// The number of transactions of writing clients after whose begin the faults end.
    #[arg(long, default_value_t = 300)]
    txns: usize,
    /// The number of changes of a shard's members, or of a database's replicas; drawn from the seed
    /// if not given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=1000))]
    moves: Option<u32>,
    /// Apply only these of the drawn faults, FROM..TO, as a shrunk run prints it.
    #[arg(long, value_parser = range, conflicts_with = "seeds")]
    strikes: Option<(u64, u64)>,
    /// Predict throughput and latency of clusters with this many nodes, from the costs of each
    /// action: no faults, no judges.
    #[arg(long, value_name = "NODES,…", num_args = 0..=1, value_delimiter = ',', default_missing_value = "3,5,9,25,99",
          value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with_all = ["seeds", "history", "trace", "sql", "strikes", "moves"])]
    profile: Option<Vec<u32>>,
    /// Sessions at each node, for a prediction.
    #[arg(long, default_value_t = 8, requires = "profile")]
    sessions: usize,
    /// Seconds of virtual time, for a prediction.
    #[arg(long, default_value_t = 5, requires = "profile")]
    seconds: u64,
    /// Write the clients' history to this file, as `check` reads it.
    #[arg(long, conflicts_with = "seeds")]
    history: Option<PathBuf>,
    /// Print every event, one line each.
    #[arg(long, conflicts_with = "seeds")]
    trace: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Append a line about this campaign to a file: seeds, verdict, and the commit in the
    /// environment variable MERIDIAN_COMMIT.
    #[arg(long, requires = "seeds")]
    ledger: Option<PathBuf>,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("{text} is no range of seeds: FROM..TO, for example 0..1000");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let (from, to) = (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
    if from < to { Ok((from, to)) } else { Err(wrong()) }
}

/// One workload, or all in turn.
#[derive(Clone, Copy, Debug)]
enum Work {
    One(Workload),
    All,
}

impl Work {
    fn of(self, seed: u64, protocol: &Protocol) -> Workload {
        let all = Workload::of(protocol);
        match self {
            Work::One(workload) => workload,
            Work::All => all[(seed % all.len() as u64) as usize],
        }
    }
}

fn workload(text: &str) -> Result<Work, String> {
    if text == "all" { Ok(Work::All) } else { text.parse().map(Work::One) }
}

fn protocol(text: &str) -> Result<&'static SimulatedProtocol, String> {
    let known = || protocols::ALL.map(|simulated| simulated.row.name).join(", ");
    protocols::named(text)
        .ok_or_else(|| format!("no protocol is called {text}; there are {}", known()))
}

fn faults(kinds: &[Kind]) -> Faults {
    let has = |kind: Kind| kinds.contains(&kind) || kinds.contains(&Kind::All);
    Faults {
        network: has(Kind::Network),
        clock: has(Kind::Clock),
        disk: has(Kind::Disk),
        process: has(Kind::Process),
        lies: kinds.contains(&Kind::Lies),
    }
}

/// Returns the numbers of transactions that committed, failed, and have an unknown outcome.
fn counts(report: &Report) -> [u64; 3] {
    let count = |status| {
        report.history.iter().filter(|transaction| transaction.status == status).count() as u64
    };
    [Status::Ok, Status::Fail, Status::Info].map(count)
}

/// Runs a simulation; a failed assertion counts as a verdict.
fn judged(options: Options) -> Result<Report, String> {
    catch_unwind(AssertUnwindSafe(|| run(options))).map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or(panic.downcast_ref::<&str>().copied());
        format!(
            "seed {}: an assertion failed: {}",
            options.seed,
            text.unwrap_or("without a message")
        )
    })
}

/// Suppresses the output of failing assertions, which would tear a progress bar apart; the text is
/// in the verdict.
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = work();
    std::panic::set_hook(hook);
    result
}

impl Simulation {
    /// Prints the command that repeats a run, and one for a smaller run.
    fn advise(&self, seed: u64) {
        eprintln!("Again: {}", self.again(seed));
        if self.strikes.is_none()
            && let Some(smaller) = self.shrunk(seed)
        {
            eprintln!("Smaller: {smaller}");
        }
    }

    fn timebase(&self) -> Timebase {
        match (self.cluster_time, self.time_masters) {
            (true, _) => Timebase::Cluster,
            (_, true) => Timebase::Masters,
            _ => Timebase::Bound,
        }
    }

    fn options(&self, seed: u64) -> Options {
        let nodes = self.nodes as usize;
        Options {
            protocol: self.protocol,
            nodes,
            clients: 2 * nodes,
            transactions: self.txns,
            faults: faults(&self.faults),
            workload: self.workload.of(seed, self.protocol.row),
            regions: self.regions,
            sql: self.sql,
            timebase: self.timebase(),
            strikes: self.strikes,
            moves: self.moves,
            log: self.trace.then_some(|line: &str| println!("{line}")),
            ..Options::new(seed)
        }
    }

    /// Searches for a smaller run that fails, and returns the command for it.
    fn shrunk(&self, seed: u64) -> Option<String> {
        const RUNS: usize = 60;
        eprintln!("Searching for a smaller run that fails, too …");
        let whole = self.options(seed);
        let smaller = quietly(|| shrink(whole, RUNS));
        let less = (smaller.strikes, smaller.transactions) != (whole.strikes, whole.transactions);
        less.then(|| self.command(seed, &smaller))
    }

    /// Returns the command that repeats a run.
    fn again(&self, seed: u64) -> String {
        self.command(seed, &self.options(seed))
    }

    fn command(&self, seed: u64, options: &Options) -> String {
        let name = |kind: &Kind| kind.to_possible_value().map(|value| value.get_name().to_owned());
        let faults: Vec<String> = self.faults.iter().filter_map(name).collect();
        let Options { nodes, transactions, regions, workload, strikes, moves, .. } = options;
        let protocol = match self.protocol.row.name {
            default if default == protocols::DEFAULT.row.name => String::new(),
            other => format!("--protocol {other} "),
        };
        let sql = if self.sql { "--sql " } else { "" };
        let time = match self.timebase() {
            Timebase::Bound => "",
            Timebase::Cluster => "--cluster-time ",
            Timebase::Masters => "--time-masters ",
        };
        let world = format!("{sql}{time}--nodes {nodes} --regions {regions} --txns {transactions}");
        let moves = moves.map_or(String::new(), |moves| format!(" --moves {moves}"));
        let strikes =
            strikes.map_or(String::new(), |(from, to)| format!(" --strikes {from}..{to}"));
        format!(
            "meridian sim {protocol}--seed {seed} --workload {workload} --faults {} {world}{moves}{strikes} --trace",
            faults.join(",")
        )
    }

    /// Returns an option that does not apply to this protocol, and the reason.
    fn misfit(&self) -> Option<(&'static str, &'static str)> {
        let protocol = self.protocol.row;
        let (is_led, is_transactional) = (protocol.has_leaders(), protocol.has_transactions());
        let counts = matches!(self.workload, Work::One(workload) if !Workload::of(protocol).contains(&workload));
        let misfits = [
            (self.moves.is_some() && !is_transactional, "--moves", "its replicas do not move"),
            (
                self.profile.is_some() && !is_led,
                "--profile",
                "the prediction needs groups with leaders",
            ),
            (
                self.nodes.is_multiple_of(2) && is_transactional && !is_led,
                "--nodes",
                "its replicas are an odd number",
            ),
            (self.sql && !is_transactional, "--sql", "tables need transactions"),
            (counts, "--workload", "its invariant needs transactions"),
        ];
        misfits.into_iter().find(|(given, _, _)| *given).map(|(_, option, why)| (option, why))
    }

    /// Runs the command.
    pub fn run(&self) -> ExitCode {
        if let Some((option, why)) = self.misfit() {
            eprintln!(
                "meridian: {option} does not go with --protocol {}: {why}",
                self.protocol.row.name
            );
            return ExitCode::FAILURE;
        }
        match self.seeds {
            None if self.profile.is_some() => self.predict(),
            None => self.one(),
            Some((from, to)) => self.campaign(from, to),
        }
    }

    fn one(&self) -> ExitCode {
        let report = match judged(self.options(self.seed)) {
            Ok(report) => report,
            Err(why) => {
                eprintln!("meridian: {why}");
                self.advise(self.seed);
                return ExitCode::FAILURE;
            }
        };
        if let Some(path) = &self.history {
            let written =
                File::create(path).and_then(|file| write(&report.history, BufWriter::new(file)));
            if let Err(error) = written {
                eprintln!("meridian: {}: {error}", path.display());
                return ExitCode::FAILURE;
            }
        }
        let [ok, failed, unknown] = counts(&report);
        if self.json {
            println!(
                "{}",
                serde_json::json!({
                    "seed": report.seed,
                    "protocol": self.protocol.row.name,
                    "workload": self.workload.of(self.seed, self.protocol.row).name(),
                    "verdict": report.verdict.as_ref().map_or_else(|why| why.as_str(), |()| "ok"),
                    "ok": ok,
                    "failed": failed,
                    "unknown": unknown,
                    "faults": report.faults,
                    "changes": report.changes,
                    "anomalies": report.anomalies,
                    "failures": report.failures,
                    "events": report.events,
                    "virtual_ns": report.virtual_ns,
                    "trace_hash": format!("{:016x}", report.trace_hash),
                })
            );
        } else {
            let workload = self.workload.of(self.seed, self.protocol.row);
            println!(
                "world         {}, seed {}, {} nodes, {} clients, {workload}",
                self.protocol.row.name,
                report.seed,
                self.nodes,
                2 * self.nodes
            );
            for (what, counts) in [("faults ", &report.faults), ("changes", &report.changes)] {
                let counts: Vec<String> =
                    counts.iter().map(|(name, times)| format!("{name} {times}×")).collect();
                println!(
                    "{what}       {}",
                    if counts.is_empty() { "none".into() } else { counts.join(", ") }
                );
            }
            println!("transactions  {ok} ok, {failed} failed, {unknown} unknown");
            for (what, times) in &report.anomalies {
                println!("allowed       {times}× {what}");
            }
            for (why, times) in &report.failures {
                println!("              {times}× {why}");
            }
            let seconds = report.virtual_ns as f64 / 1e9;
            println!("time          {seconds:.1} s of virtual time, {} events", report.events);
            println!("trace hash    {:016x}", report.trace_hash);
            match &report.verdict {
                Ok(()) => {
                    let order = match self.options(self.seed).model() {
                        Model::StrictSerializable => "strictly serializable",
                        Model::SnapshotIsolation => "snapshot isolation",
                        _ => "serializable",
                    };
                    println!(
                        "verdict       {order}, all clients made progress, nothing is left, all copies are equal"
                    );
                }
                Err(why) => println!("verdict       WRONG: {why}"),
            }
        }
        match report.verdict {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => {
                self.advise(self.seed);
                ExitCode::FAILURE
            }
        }
    }
}
