//! `meridian sim --profile`: predictions of throughput and latency from the costs of each action.

use super::{Simulation, Work, judged};
use meridian_sim::profile::{Costs, quantile_ms};
use meridian_sim::{Faults, Options, Regions, Workload};
use std::process::ExitCode;

impl Simulation {
    /// Predicts one cluster size after the other.
    pub(super) fn predict(&self) -> ExitCode {
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
}
