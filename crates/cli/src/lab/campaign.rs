//! `meridian sim --seeds`: many runs, judged together, and their line in the ledger.

use super::{Kind, Simulation, Work, counts, judged, quietly};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use meridian_sim::{Report, Workload};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

impl Simulation {
    pub(super) fn campaign(&self, from: u64, to: u64) -> ExitCode {
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
