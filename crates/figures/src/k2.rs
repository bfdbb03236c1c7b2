//! K2's experiments (§7): the parts that its figures share.
//!
//! **The paper** had oracle servers of their own, synchronized by PTP, which answer a coordinator
//! in 18 µs and give about 60,000 timestamps a second; batches of 100 µs, and ε = 100 µs (§2.2,
//! §4.3, §7.2). YCSB-T has three operations in a transaction, half of them writes, on keys drawn by
//! Zipf's law, with 0.8 by default (§7.1).
//!
//! **These measurements** have groups of one replica, each on a server, and sessions on nodes of
//! their own, which send the writes of a transaction ahead of its commit. The oracle is the leader
//! of a group without keys, whose server takes 1/60,000 s for a request and its response. A round
//! trip takes 0.14 ms, and more with the costs of frames: longer than the paper's batches last.
//! Here they last for 1 ms. Clocks claim an error of 100 µs and have none.

use crate::measure::{MS, S, measure_at, scenario};
use crate::{Effort, Figure};
use meridian_clock::oracle::Terms;
use meridian_sim::profile::{Costs, DiskWait, Profile};
use meridian_sim::scenario::{ErrorBound, Scenario, TimeOracle, Work};
use meridian_sim::{Regions, SimulatedProtocol};
use meridian_txn::Consistency;

/// «A TTC Oracle server can stably generate ∼60k timestamps per second» (§4.3).
const ORACLE_NS: u64 = 1_000_000_000 / 60_000;
/// «An uncertainty bound as 100 µs» (§2.2).
pub(crate) const CLOCK_ERROR_NS: u64 = 100_000;
/// A flash disk with a buffer that survives power loss.
const DISK: DiskWait = DiskWait::UpTo(50_000);

/// A batch has to last longer than the request for it.
const TERMS: Terms = Terms { ttl_ns: MS, ..Terms::K2 };
/// The batches of K2, and its strawman.
pub(crate) const BATCHES: TimeOracle = TimeOracle { terms: TERMS, batches: true };
/// See [`BATCHES`].
pub(crate) const STRAWMAN: TimeOracle = TimeOracle { terms: TERMS, batches: false };

fn costs() -> Costs {
    Costs { disk: DISK, ..Costs::measured() }
}

/// Returns a scenario of some groups at one switch, with an oracle or without.
pub(crate) fn groups(
    groups: u32,
    gateways: usize,
    oracle: Option<TimeOracle>,
    work: Work,
) -> Scenario {
    // The oracle's group has no keys.
    let all = groups + u32::from(oracle.is_some());
    Scenario {
        gateways,
        clocks: ErrorBound::of(CLOCK_ERROR_NS),
        modes: &[Consistency::Hybrid],
        authority_ns: oracle.map(|_| ORACLE_NS),
        oracle,
        steady: true,
        ..scenario(1, all as usize, all, 1, work)
    }
}

/// Returns a scenario of two groups, each with a replica on each of three servers.
pub(crate) fn replicated(work: Work) -> Scenario {
    Scenario {
        gateways: 4,
        clocks: ErrorBound::of(CLOCK_ERROR_NS),
        modes: &[Consistency::Hybrid],
        steady: true,
        ..scenario(3, 1, 2, 3, work)
    }
}

/// Measures a scenario.
pub(crate) fn measure(
    protocol: &'static SimulatedProtocol,
    scenario: Scenario,
    sessions: usize,
) -> Profile {
    measure_at(costs(), protocol, scenario, 1, sessions, Regions::Lan)
}

/// Returns the duration of a measurement.
pub(crate) fn window_ns(effort: Effort) -> u64 {
    effort.pick(4 * S, S / 2)
}

/// Returns the note about the cost model.
pub(crate) fn model() -> String {
    crate::measure::model_of(costs(), "the paper's are not printed")
}

/// Returns the note that the drawn figure of the paper is a drawing, and what its text says.
pub(crate) fn papers(said: &str) -> String {
    format!("The paper's figure is a drawing. Its text: {said}")
}

/// Returns a figure of one panel.
pub(crate) fn figure(
    (name, title): (&'static str, &str),
    table: crate::Table,
    panel: crate::Panel,
    notes: Vec<String>,
) -> Figure {
    Figure { name, title: title.to_owned(), table, notes, panels: vec![panel] }
}
