//! `meridian sim` and `meridian check`: simulated clusters from seeds, and judges of histories.

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use meridian_history::cycles::Model;
use meridian_history::search::Limit;
use meridian_history::{Status, Transaction, Verdict, judge, read_lines, write};
use meridian_sim::profile::{Costs, quantile_ms};
use meridian_sim::{
    Faults, Options, Regions, Report, SimulatedProtocol, Timebase, Workload, protocols, run, shrink,
};
use meridian_systems::Protocol;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

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
    /// The protocol: spanner; tapir, whose transactions are strictly serializable;
    /// tapir-serializable, as in its paper; qwstore, which has no transactions, and promises only
    /// that a read never misses an acknowledged write.
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
    /// clock-si.
    #[arg(long, default_value = "drawn")]
    regions: Regions,
    /// The number of nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    nodes: u32,
    /// The number of transactions that may write to begin before the faults end.
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

/// The consistency models that a history can be judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Claim {
    /// An order of the transactions that respects real time; also called linearizable.
    #[value(alias = "linearizable")]
    StrictSerializable,
    /// An order of the transactions.
    Serializable,
    /// Every transaction reads a snapshot, and of two concurrent ones that write the same key one
    /// fails.
    SnapshotIsolation,
    /// No transaction reads uncommitted writes, or a part of a transaction's writes.
    ReadCommitted,
}

impl Claim {
    fn model(self) -> Model {
        match self {
            Claim::StrictSerializable => Model::StrictSerializable,
            Claim::Serializable => Model::Serializable,
            Claim::SnapshotIsolation => Model::SnapshotIsolation,
            Claim::ReadCommitted => Model::ReadCommitted,
        }
    }
}

/// The exit status of `meridian check` without a verdict: the judges cannot decide, or the file is
/// no history.
const NO_VERDICT: u8 = 2;

/// `meridian check`: the exit status is 0 if the history is right, 1 if it is wrong, 2 if there is
/// no verdict.
#[derive(Debug, Args)]
pub struct Check {
    /// The history: one JSON object per line for each transaction.
    file: PathBuf,
    /// The consistency model.
    #[arg(long, value_enum, default_value = "strict-serializable")]
    model: Claim,
    /// The number of failed tries of a transaction after which the search for an order gives up.
    #[arg(long, default_value_t = Limit::default().0)]
    limit: usize,
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
        let (is_led, is_transactional) = (protocol.has_leaders, protocol.has_transactions());
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

    /// Predicts one cluster size after the other.
    fn predict(&self) -> ExitCode {
        let workload = match self.workload {
            Work::One(Workload::Mixed) | Work::All => Workload::RwRegister,
            Work::One(workload) => workload,
        };
        let regions = if self.regions == Regions::Drawn { Regions::Lan } else { self.regions };
        if !self.json {
            let Costs { send_ns, receive_ns, local_ns, sync_ns, .. } = Costs::measured();
            let [send, receive, local, sync] =
                [send_ns, receive_ns, local_ns, sync_ns].map(|ns| ns as f64 / 1e3);
            println!(
                "predicted, not measured: {workload}, {} sessions at each node, one core a node, one group of all nodes, regions {regions}",
                self.sessions
            );
            println!(
                "a frame costs {send} µs to send and {receive} µs to receive, a local question {local} µs, a batch of the log {sync} µs\n"
            );
            println!(
                "{:>6} {:>12} {:>10} {:>10} {:>10} {:>10} {:>11} {:>14}",
                "nodes",
                "committed/s",
                "write p50",
                "write p99",
                "read p50",
                "read p99",
                "frames/txn",
                "busiest core"
            );
        }
        for nodes in self.profile.iter().flatten() {
            let nodes = *nodes as usize;
            let options = Options {
                nodes,
                clients: self.sessions * nodes,
                faults: Faults::NONE,
                workload,
                regions,
                profile: Some((Costs::measured(), self.seconds)),
                ..self.options(self.seed)
            };
            let report = match judged(options) {
                Ok(report) => report,
                Err(why) => {
                    eprintln!("meridian: {why}");
                    return ExitCode::FAILURE;
                }
            };
            let Some(profile) = report.profile.filter(|profile| profile.per_second() > 0.0) else {
                eprintln!(
                    "meridian: {nodes} nodes commit nothing within {} s: no leader is elected",
                    self.seconds
                );
                return ExitCode::FAILURE;
            };
            let committed = profile.writes_ns.len() + profile.reads_ns.len();
            let frames = profile.frames as f64 / committed as f64;
            let (busiest, part) = profile.busiest();
            let leads = if report.leader == Some(busiest) { "leader" } else { "other" };
            let times = [
                (&profile.writes_ns, 0.5),
                (&profile.writes_ns, 0.99),
                (&profile.reads_ns, 0.5),
                (&profile.reads_ns, 0.99),
            ];
            let [write_50, write_99, read_50, read_99] =
                times.map(|(times, part)| quantile_ms(times, part));
            if self.json {
                println!(
                    "{}",
                    serde_json::json!({
                        "nodes": nodes, "sessions": options.clients, "workload": workload.name(), "per_second": profile.per_second(),
                        "write_ms": {"p50": write_50, "p99": write_99}, "read_ms": {"p50": read_50, "p99": read_99},
                        "frames_per_transaction": frames, "busiest_core": part, "busiest": leads, "trace_hash": format!("{:016x}", report.trace_hash),
                    })
                );
            } else {
                let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.2} ms"));
                let [write_50, write_99, read_50, read_99] =
                    [write_50, write_99, read_50, read_99].map(ms);
                let busiest = format!("{leads} {:.0} %", 100.0 * part);
                println!(
                    "{nodes:>6} {:>12.0} {write_50:>10} {write_99:>10} {read_50:>10} {read_99:>10} {frames:>11.1} {busiest:>14}",
                    profile.per_second()
                );
            }
        }
        ExitCode::SUCCESS
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
            for (why, times) in &report.failures {
                println!("              {times}× {why}");
            }
            let seconds = report.virtual_ns as f64 / 1e9;
            println!("time          {seconds:.1} s of virtual time, {} events", report.events);
            println!("trace hash    {:016x}", report.trace_hash);
            match &report.verdict {
                Ok(()) => {
                    let order = if self.options(self.seed).is_strict() {
                        "strictly serializable"
                    } else {
                        "serializable"
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

    fn campaign(&self, from: u64, to: u64) -> ExitCode {
        let jobs = self
            .jobs
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
            .max(1);
        let (next, began) = (AtomicU64::new(from), Instant::now());
        let bar = ProgressBar::new(to - from);
        let style = ProgressStyle::with_template(
            "{bar:40} {pos}/{len} seeds  {per_sec}  {eta} left  {msg}",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let sums = Mutex::new(Sums::default());
        quietly(|| {
            std::thread::scope(|scope| {
                for _ in 0..jobs {
                    scope.spawn(|| {
                        loop {
                            let seed = next.fetch_add(1, Ordering::Relaxed);
                            if seed >= to {
                                return;
                            }
                            let report = judged(self.options(seed));
                            // One seed in a hundred runs twice, and must give the same run.
                            let twin = seed.is_multiple_of(100).then(|| judged(self.options(seed)));
                            let report = match (report, twin) {
                                (Ok(once), Some(Ok(again)))
                                    if once.trace_hash != again.trace_hash =>
                                {
                                    Err(format!("seed {seed}: two runs of it are not the same run"))
                                }
                                (report, _) => report,
                            };
                            let mut sums = sums
                                .lock()
                                .expect("invariant: no thread panics with the lock held");
                            sums.add(seed, report);
                            bar.inc(1);
                            if !sums.wrong.is_empty() {
                                bar.set_message(format!("{} WRONG", sums.wrong.len()));
                            }
                        }
                    });
                }
            })
        });
        bar.finish_and_clear();
        let sums = sums.into_inner().expect("invariant: no thread panics with the lock held");
        let seconds = began.elapsed().as_secs_f64();
        let Sums {
            transactions: [ok, failed, unknown],
            faults,
            reached,
            starved,
            wrong,
            virtual_ns,
        } = &sums;
        // A single special workload need not reach every state.
        let varied = matches!(self.workload, Work::All | Work::One(Workload::Mixed));
        let enough = to - from >= 300 && self.faults == [Kind::All] && !self.sql && varied;
        let missed: Vec<&str> = self
            .protocol
            .should_meet
            .iter()
            .copied()
            .filter(|what| enough && !reached.contains_key(what))
            .collect();
        let hungry = enough && starved.len() as u64 * 100 > to - from;
        let good = wrong.is_empty() && missed.is_empty() && !hungry;
        let verdict = if good { "ok" } else { "wrong" };
        if self.json {
            println!(
                "{}",
                serde_json::json!({
                    "protocol": self.protocol.row.name, "seeds": to - from, "verdict": verdict, "ok": ok, "failed": failed, "unknown": unknown, "faults": faults,
                    "reached": reached, "missed": missed, "starved": starved, "wrong": wrong, "virtual_ns": virtual_ns, "seeds_per_second": (to - from) as f64 / seconds,
                })
            );
        } else {
            let protocol = self.protocol.row.name;
            println!(
                "seeds         {from}..{to} of {protocol}, {:.1} a second",
                (to - from) as f64 / seconds
            );
            println!("transactions  {ok} ok, {failed} failed, {unknown} unknown");
            for (name, times) in faults {
                println!("              {times:>8} × {name}");
            }
            println!("met");
            for (what, times) in reached {
                println!("              {times:>8} × {what}");
            }
            for what in &missed {
                println!("              NEVER    × {what}: this campaign has not tested it");
            }
            let too_many = if hungry { "TOO MANY, " } else { "" };
            let some: Vec<String> = starved.iter().take(8).map(u64::to_string).collect();
            let which =
                if some.is_empty() { String::new() } else { format!(": {}, …", some.join(", ")) };
            let hungry = starved.len();
            println!(
                "starved       {too_many}{hungry} of {} seeds committed hardly anything{which}",
                to - from
            );
            println!(
                "time          {:.0} s of virtual time in {seconds:.0} s",
                *virtual_ns as f64 / 1e9
            );
            println!("verdict       {} of {} seeds wrong", wrong.len(), to - from);
        }
        let noted = self
            .ledger
            .as_ref()
            .map_or(Ok(()), |path| note(path, &self.entry((from, to), &sums, good, seconds)));
        if let Err(error) = &noted {
            eprintln!("meridian: the ledger is not written: {error}");
        }
        for (seed, why) in wrong.iter().take(10) {
            eprintln!("{why}\nAgain: {}", self.again(*seed));
        }
        if let Some(smaller) = wrong.keys().next().and_then(|seed| self.shrunk(*seed)) {
            eprintln!("Smaller: {smaller}");
        }
        if good && noted.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Returns the ledger's line of a campaign.
    fn entry(
        &self,
        (from, to): (u64, u64),
        sums: &Sums,
        good: bool,
        seconds: f64,
    ) -> serde_json::Value {
        let name = |kind: &Kind| kind.to_possible_value().map(|value| value.get_name().to_owned());
        let workload = match self.workload {
            Work::One(workload) => workload.name(),
            Work::All => "all",
        };
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let [ok, failed, unknown] = sums.transactions;
        serde_json::json!({
            "at": now.as_secs(),
            "version": env!("CARGO_PKG_VERSION"),
            "commit": std::env::var("MERIDIAN_COMMIT").ok(),
            "protocol": self.protocol.row.name,
            "seeds": [from, to],
            "workload": workload,
            "sql": self.sql,
            "cluster_time": self.cluster_time,
            "time_masters": self.time_masters,
            "nodes": self.nodes,
            "regions": self.regions.name(),
            "faults": self.faults.iter().filter_map(name).collect::<Vec<_>>(),
            "txns": self.txns,
            "moves": self.moves,
            "ok": ok,
            "failed": failed,
            "unknown": unknown,
            "starved": sums.starved.len(),
            "wrong": sums.wrong.keys().collect::<Vec<_>>(),
            "verdict": if good { "ok" } else { "wrong" },
            "seconds": (seconds * 10.0).round() / 10.0,
        })
    }
}

/// Appends a line to a file.
fn note(path: &Path, line: &serde_json::Value) -> std::io::Result<()> {
    let mut file = File::options().create(true).append(true).open(path)?;
    writeln!(file, "{line}")
}

#[derive(Default)]
struct Sums {
    transactions: [u64; 3],
    faults: BTreeMap<&'static str, u64>,
    reached: BTreeMap<&'static str, u64>,
    starved: Vec<u64>,
    wrong: BTreeMap<u64, String>,
    virtual_ns: u64,
}

impl Sums {
    fn add(&mut self, seed: u64, report: Result<Report, String>) {
        match report {
            Ok(report) => {
                for (sum, count) in self.transactions.iter_mut().zip(counts(&report)) {
                    *sum += count;
                }
                let struck = report.faults.iter().chain(&report.changes);
                struck.for_each(|(name, times)| *self.faults.entry(name).or_default() += times);
                report
                    .reached
                    .iter()
                    .for_each(|(what, times)| *self.reached.entry(what).or_default() += times);
                self.starved.extend(report.is_starved().then_some(seed));
                self.virtual_ns += report.virtual_ns;
                if let Err(why) = report.verdict {
                    self.wrong.insert(seed, why);
                }
            }
            Err(why) => drop(self.wrong.insert(seed, why)),
        }
    }
}

impl Check {
    /// Reads and judges the history.
    pub fn run(&self) -> ExitCode {
        let path = self.file.display();
        let read = File::open(&self.file)
            .map_err(Into::into)
            .and_then(|file| read_lines(BufReader::new(file)));
        let (lines, history): (Vec<usize>, Vec<Transaction>) = match read {
            Ok(history) => history.into_iter().unzip(),
            Err(error) => {
                eprintln!("meridian: {path}: {error}");
                return ExitCode::from(NO_VERDICT);
            }
        };
        let claim = self
            .model
            .to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default();
        match judge(&history, self.model.model(), Limit(self.limit)) {
            Verdict::Right(proof) => {
                println!("{path}: {} transactions, {claim}: {proof}", history.len());
                ExitCode::SUCCESS
            }
            Verdict::Wrong { why, transactions } => {
                println!("{path}: not {claim}\n{why}");
                let line = |wrong: &Transaction| {
                    lines[history.iter().position(|transaction| transaction == wrong)?..].first()
                };
                let lines: Vec<String> =
                    transactions.iter().filter_map(line).map(usize::to_string).collect();
                if !lines.is_empty() {
                    println!("{path}: line {}", lines.join(", "));
                }
                ExitCode::FAILURE
            }
            Verdict::Undecided(why) => {
                println!(
                    "{path}: {} transactions, undecided whether {claim}\n{why}",
                    history.len()
                );
                ExitCode::from(NO_VERDICT)
            }
        }
    }
}
