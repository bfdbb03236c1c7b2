//! The parts that all figures share: the setting of §5, and statistics over several runs.

use meridian_sim::profile::{Costs, DiskWait, Profile};
use meridian_sim::scenario::{ErrorBound, Scenario, Work};
use meridian_sim::{Options, Regions, SimulatedProtocol, protocols, run};
use meridian_txn::{Consistency, SnapshotAge};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000 * MS;
/// «Commit wait is about 5ms» (§5.1): twice a clock's uncertainty.
const HALF_WIDTH: u64 = 2_500_000;
/// «Paxos leader leases are set to 10 seconds» (§5.2).
const LEASE: u64 = 10 * S;

/// Returns the note about the cost model.
pub fn model() -> String {
    model_of(Costs::measured(), "the paper's 4 KB")
}

/// Returns the note about the cost model, with other costs, beside the paper's values.
pub fn model_of(costs: Costs, values: &str) -> String {
    let Costs { send_ns, receive_ns, local_ns, sync_ns, disk } = costs;
    let us = |ns: u64| ns as f64 / 1e3;
    let [send, receive, local, sync] = [send_ns, receive_ns, local_ns, sync_ns].map(us);
    let wait = match disk {
        DiskWait::NONE => "and waits for no disk".to_owned(),
        DiskWait::UpTo(most_ns) => {
            format!("and a sync waits for the disk for up to {} µs", us(most_ns))
        }
        DiskWait::LogNormal { mean_ns, .. } => {
            format!("and a sync waits for the disk for {} µs in the mean", us(mean_ns))
        }
    };
    format!(
        "Predicted, not timed: a node has one core; a frame costs {send} µs to send and {receive} µs to receive, a local request {local} µs, a batch of the log \
         {sync} µs, {wait} (crates/sim/src/costs.txt). Not modelled: sizes (values have 8 bytes, {values}), SQL and \
         its wire protocol, other work on the machines."
    )
}

/// Returns the setting of §5.1: data centres less than a millisecond apart, leases of 10 s, a
/// commit wait of 5 ms.
pub fn scenario(
    zones: usize,
    servers: usize,
    groups: u32,
    replicas: usize,
    work: Work,
) -> Scenario {
    Scenario {
        zones,
        servers,
        gateways: 1,
        clients_in: None,
        groups,
        replicas,
        led_in_first: false,
        work,
        every_ns: None,
        lease_ns: LEASE,
        clocks: ErrorBound::of(HALF_WIDTH),
        modes: &[Consistency::CommitWait],
        age: SnapshotAge::PRESENT,
        authority_ns: None,
        oracle: None,
        buffered: false,
        masters: 0,
        window_ns: S,
        steady: false,
        incident: None,
    }
}

/// Measures a scenario with the default protocol.
pub fn measure(scenario: Scenario, seed: u64, sessions: usize, regions: Regions) -> Profile {
    measure_of(protocols::DEFAULT, scenario, seed, sessions, regions)
}

/// Measures a scenario with any protocol.
pub fn measure_of(
    protocol: &'static SimulatedProtocol,
    scenario: Scenario,
    seed: u64,
    sessions: usize,
    regions: Regions,
) -> Profile {
    measure_at(Costs::measured(), protocol, scenario, seed, sessions, regions)
}

/// Measures a scenario at other costs.
pub fn measure_at(
    costs: Costs,
    protocol: &'static SimulatedProtocol,
    scenario: Scenario,
    seed: u64,
    sessions: usize,
    regions: Regions,
) -> Profile {
    let report = run(Options { protocol, ..scenario.options(seed, sessions, regions, costs) });
    assert_eq!(report.verdict, Ok(()), "the measured run is wrong");
    report.profile.expect("a scene is measured")
}

/// Returns the mean, in milliseconds.
pub fn mean_ms(times_ns: &[u64]) -> f64 {
    times_ns.iter().sum::<u64>() as f64 / times_ns.len().max(1) as f64 / 1e6
}

/// Returns a quantile of sorted numbers; 0 if there are none.
pub fn quantile(sorted: &[u64], part: f64) -> u64 {
    let place = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(place.max(1) - 1).or(sorted.last()).copied().unwrap_or_default()
}

/// The results of several runs, one number each.
#[derive(Clone, Debug, Default)]
pub struct Runs(pub Vec<f64>);

impl Runs {
    /// Returns the mean of all runs.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    fn deviation(&self) -> f64 {
        let (mean, many) = (self.mean(), self.0.len().max(2) as f64 - 1.0);
        (self.0.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / many).sqrt()
    }

    /// Renders the result as in the paper's tables: the mean, and the standard deviation if there
    /// are several runs.
    pub fn told(&self) -> String {
        match self.0.len() {
            0 | 1 => mean_told(self.mean(), 0.0).0,
            _ => told(self.mean(), self.deviation()),
        }
    }
}

pub fn told(mean: f64, deviation: f64) -> String {
    let (mean, digits) = mean_told(mean, deviation);
    format!("{mean} ±{deviation:.digits$}")
}

/// Renders a mean, and returns the number of its decimals.
fn mean_told(mean: f64, deviation: f64) -> (String, usize) {
    let digits = if mean < 10.0 && deviation < 0.1 { 2 } else { 1 };
    (format!("{mean:.digits$}"), digits)
}
