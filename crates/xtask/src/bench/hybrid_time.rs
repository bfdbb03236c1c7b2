//! A `hybrid_time` database in each mode beside a `spanner` database, on one cluster of three nodes
//! whose clocks have one bound.
//!
//! Each round runs all contenders, in turn, so that the machine's other work affects all of them. A
//! ratio compares two runs of one round. The `spanner` database runs twice in each round: the ratio
//! of the second run to the first is the noise of the machine.

use super::workload::{read, workload};
use super::{Measured, Options, Report, WARM_UP_SECONDS, watch};
use crate::pgbench;
use crate::server::{Server, meridian};
use std::path::Path;

const WORKLOADS: [&str; 2] = ["bank", "tpcb"];

/// A database and a consistency mode.
struct Contender {
    name: &'static str,
    database: &'static str,
    mode: &'static str,
}

/// The contenders; the first one is what the others are compared with.
const CONTENDERS: [Contender; 5] = [
    Contender { name: "spanner", database: "beside", mode: "commit_wait" },
    Contender { name: "spanner, again", database: "beside", mode: "commit_wait" },
    Contender { name: "hybrid_time", database: "hybrid", mode: "commit_wait" },
    Contender { name: "hybrid_time", database: "hybrid", mode: "hybrid" },
    Contender { name: "hybrid_time", database: "hybrid", mode: "none" },
];

impl Contender {
    fn url(&self, server: &Server) -> String {
        let options = format!("-c%20meridian.consistency%3D{}", self.mode);
        let port = server.target.port;
        format!("postgresql://root@127.0.0.1:{port}/{}?options={options}", self.database)
    }

    fn measure(
        &self,
        server: &Server,
        binary: &Path,
        which: &str,
        clients: u32,
        seconds: u32,
    ) -> Result<Measured, String> {
        eprintln!("{} {}: {which} with {clients} clients …", self.name, self.mode);
        let (clients, seconds) = (clients.to_string(), seconds.to_string());
        let run = || {
            let url = self.url(server);
            let shown = workload(binary, &[which, "run", &url, "-c", &clients, "-d", &seconds])?;
            read(&shown).ok_or_else(|| format!("meridian workload printed {shown}"))
        };
        watch(|| server.used(), libc::RUSAGE_CHILDREN, run)
    }
}

/// Returns the median of numbers, and the lowest and the highest.
fn spread(mut numbers: Vec<f64>) -> (f64, f64, f64) {
    numbers.sort_unstable_by(f64::total_cmp);
    let at = |place: usize| numbers.get(place).copied().unwrap_or(f64::NAN);
    (at(numbers.len() / 2), at(0), at(numbers.len().saturating_sub(1)))
}

/// Measures both workloads.
pub fn run(
    report: &mut Report,
    options: &Options,
    binary: &Path,
    folder: &Path,
) -> Result<(), String> {
    let bound = ["--clock-bound", &options.clock_bound];
    let server = meridian(binary, &folder.join("hybrid_time"), 3, &bound)?;
    report.line(&format!(
        "three nodes, --clock-bound {}; meridian workload, scale {}; {} rounds of {} s: median (lowest to highest)",
        options.clock_bound, options.scale, options.rounds, options.seconds
    ));
    pgbench::sql(&server.target, "CREATE DATABASE beside PROTOCOL = spanner")?;
    pgbench::sql(&server.target, "CREATE DATABASE hybrid PROTOCOL = hybrid_time")?;
    report.line("");
    report.line("| what | clients | database | mode | tps | × spanner | p50 ms | p99 ms | failed | CPU µs/txn | others' cores |");
    report.line("|---|---|---|---|---|---|---|---|---|---|---|");
    for which in WORKLOADS {
        let scale = options.scale.to_string();
        for one in [&CONTENDERS[0], &CONTENDERS[3]] {
            eprintln!("{}: filling {which}, then warming up …", one.name);
            workload(binary, &[which, "init", &one.url(&server), "--scale", &scale])?;
            // Leadership moves to the clients' node.
            one.measure(&server, binary, which, 8, WARM_UP_SECONDS)?;
        }
        for clients in &options.clients {
            let mut rounds: Vec<Vec<Measured>> = Vec::new();
            for _ in 0..options.rounds.max(1) {
                let one = |contender: &Contender| {
                    contender.measure(&server, binary, which, *clients, options.seconds)
                };
                rounds.push(CONTENDERS.iter().map(one).collect::<Result<_, _>>()?);
            }
            for (at, contender) in CONTENDERS.iter().enumerate() {
                report.line(&row(which, *clients, contender, at, &rounds));
            }
        }
        for one in [&CONTENDERS[0], &CONTENDERS[3]] {
            workload(binary, &[which, "check", &one.url(&server)])?;
        }
    }
    report.line("");
    report.line("the sums of all databases are right");
    Ok(())
}

fn row(
    which: &str,
    clients: u32,
    contender: &Contender,
    at: usize,
    rounds: &[Vec<Measured>],
) -> String {
    let of = |number: &dyn Fn(&[Measured]) -> f64| {
        spread(rounds.iter().map(|round| number(round)).collect())
    };
    let (tps, least, most) = of(&|round| round[at].outcome.tps);
    let (ratio, lowest, highest) =
        of(&|round| round[at].outcome.tps / round[0].outcome.tps.max(1e-9));
    let (p50, ..) = of(&|round| round[at].outcome.p50_ms);
    let (p99, ..) = of(&|round| round[at].outcome.p99_ms);
    let (cpu, ..) = of(&|round| round[at].cpu_us);
    let (others, ..) = of(&|round| round[at].others_cores);
    let failed: u64 = rounds.iter().map(|round| round[at].outcome.failed).sum();
    let Contender { name, mode, .. } = contender;
    format!(
        "| {which} | {clients} | {name} | {mode} | {tps:.0} ({least:.0} to {most:.0}) | \
         {ratio:.2} ({lowest:.2} to {highest:.2}) | {p50:.2} | {p99:.2} | {failed} | {cpu:.0} | \
         {others:.2} |"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_median_between_the_ends() {
        assert_eq!(spread(vec![3.0, 1.0, 2.0]), (2.0, 1.0, 3.0));
        assert_eq!(spread(vec![4.0]), (4.0, 4.0, 4.0));
    }
}
