//! Clock-SI's experiments (§V): the parts that its figures share.
//!
//! **The paper** compares Clock-SI with conventional snapshot isolation, whose timestamps are those
//! of an authority on a server of its own. It had eight partitions of a million keys, each on one
//! server that is not replicated, clients on other machines of the same switch (round trip 0.14
//! ms), NTP, and disks of which a synchronous write takes 6.7 ms on average. Its figures are
//! drawings, of which the text gives some numbers.
//!
//! **These measurements** have groups of one replica, each on a server, and sessions on nodes of
//! their own. A session's node has one core, so there are several for each partition where
//! throughput is measured. The authority's server takes 1/64,000 s for a request and its response,
//! whereas all others have the costs of the model. Clocks claim an error of 0.1 ms and have none.
//!
//! **Differences.** The paper's client sends its transaction to a partition, which asks the
//! authority; here the session's node asks for the snapshot, and the partition only for the
//! timestamp of a commit. The paper's items of one transaction are drawn one by one, and read in
//! one message; here they are adjacent, because a request names one range.

use crate::measure::{S, measure_at, scenario};
use crate::{Axis, Effort, Panel, Series, Style};
use meridian_sim::profile::{Costs, DiskWait, Profile};
use meridian_sim::scenario::{ErrorBound, Scenario, Work};
use meridian_sim::{Regions, SimulatedProtocol, protocols};
use meridian_txn::Consistency;

/// The compared protocols.
pub(crate) const COMPARED: [&SimulatedProtocol; 2] =
    [&protocols::CLOCK_SI, &protocols::CONVENTIONAL_SI];

/// «It can only assign about 64k timestamps/second» (§V-B).
const AUTHORITY_NS: u64 = 1_000_000_000 / 64_000;
/// «The average time of a synchronous disk write is 6.7ms» (§V-A).
pub(crate) const DISK_MEAN_NS: u64 = 6_700_000;
/// The average is all that is known of it.
const DISK: DiskWait = DiskWait::LogNormal {
    least_ns: 6_500_000,
    most_ns: 7_000_000,
    mean_ns: DISK_MEAN_NS,
    deviation_ns: 100_000,
};
const CLOCK_ERROR_NS: u64 = 100_000;

/// The costs of all servers but the authority's.
pub(crate) fn costs() -> Costs {
    Costs { disk: DISK, ..Costs::measured() }
}

/// Returns a scenario of some groups, without an authority of its own.
pub(crate) fn partitions(zones: usize, groups: u32, gateways: usize, work: Work) -> Scenario {
    let servers = (groups as usize).div_ceil(zones);
    Scenario {
        gateways,
        modes: &[Consistency::Hybrid],
        clocks: ErrorBound::of(CLOCK_ERROR_NS),
        ..scenario(zones, servers, groups, 1, work)
    }
}

/// Returns a scenario of some partitions at one switch, beside the server of the authority.
pub(crate) fn beside_authority(partitions_: u32, gateways: usize, work: Work) -> Scenario {
    let authority_ns = Some(AUTHORITY_NS);
    Scenario { authority_ns, ..partitions(1, partitions_ + 1, gateways, work) }
}

/// Measures a scenario.
pub(crate) fn measure(
    protocol: &'static SimulatedProtocol,
    scenario: Scenario,
    sessions: usize,
    regions: Regions,
) -> Profile {
    measure_at(costs(), protocol, scenario, 1, sessions, regions)
}

/// The nodes for sessions, and the sessions, of each partition where throughput is measured: no
/// session's node is as busy as the partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub gateways: u32,
    pub sessions: u32,
    pub window_ns: u64,
}

/// The throughputs of the [`COMPARED`] protocols with a number of partitions.
pub(crate) struct Throughput {
    pub partitions: u32,
    pub per_second: [f64; 2],
}

/// Measures the throughput of a kind of transaction, with more and more partitions.
pub(crate) fn throughput(
    effort: Effort,
    work: Work,
    load: Load,
    progress: &mut dyn FnMut(&str),
) -> Vec<Throughput> {
    let counts: &[u32] = effort.pick(&[1, 2, 3, 4, 5, 6, 7, 8], &[1, 4]);
    let measured = |partitions: &u32| {
        let per_second = COMPARED.map(|protocol| {
            progress(&format!("{work:?}, {}, {partitions} partitions", protocol.row.name));
            let Load { gateways, sessions, window_ns } = load;
            let [gateways, sessions] =
                [gateways, sessions].map(|each| (each * partitions) as usize);
            let scenario = Scenario { window_ns, ..beside_authority(*partitions, gateways, work) };
            measure(protocol, scenario, sessions, Regions::Lan).per_second()
        });
        Throughput { partitions: *partitions, per_second }
    };
    counts.iter().map(measured).collect()
}

/// Returns the panel of a throughput.
pub(crate) fn throughput_panel(label: &'static str, measured: &[Throughput], to: f64) -> Panel {
    let series = COMPARED.iter().enumerate().map(|(color, protocol)| Series {
        name: format!("{}, here", protocol.row.name),
        style: Style::OursMarked,
        color,
        points: measured
            .iter()
            .map(|point| (f64::from(point.partitions), point.per_second[color] / 1e3))
            .collect(),
    });
    Panel {
        x: Axis { label: "partitions", from: 0.0, to: 9.0 },
        y: Axis { label, from: 0.0, to },
        logarithmic: (false, false),
        series: series.collect(),
    }
}

/// Returns a throughput in thousands.
pub(crate) fn thousands(per_second: f64) -> String {
    format!("{:.1} k", per_second / 1e3)
}

/// Returns the note about the cost model.
pub(crate) fn model() -> String {
    crate::measure::model_of(costs(), "the paper's 64 bytes")
}

/// Returns the duration of a latency measurement.
pub(crate) fn window_ns(effort: Effort) -> u64 {
    effort.pick(20, 2) * S
}
