//! TAPIR, Figure 10: the latency of Retwis' FollowUser over three continents, with the client in
//! the US, in Europe or in Asia (§7.4.2).
//!
//! **The paper** had one replica of each of five shards in each of Google Compute Engine's three
//! regions; the leaders of systems with leaders were in the US. The transaction reads two keys and
//! writes two, drawn by Zipf's law with 0.6 of a million. The figure is a drawing. Its text says:
//! «When the client shares a datacenter with the leader, the latency of the other transactional
//! systems is better than TAPIR-KV», for they «commit with a round-trip to the leader and another
//! replica in the closest geographic region, while TAPIR-KV must contact all replicas to commit in
//! the fast path». «When the client is in a different datacenter from the leader, TAPIR-KV provides
//! the best performance of all of the comparison systems. The locking-based transactional systems
//! suffer because they must go to the leader for read locks.»
//!
//! **This measurement** has two shards, and the client on a node of its own in its region. Round
//! trips are those of the paper's Table 1, and no message takes longer; so the numbers are sums of
//! trips, and some tenths of a millisecond of work. With one session: both keys in one shard, or
//! one in each. With many: by Zipf's law, in whichever shard they are.
//!
//! **Differences.** None of the paper's locking systems (TXN-LOCK, SPAN-LOCK) is here; `spanner`
//! locks at the leader as they do. With two groups to commit in, the coordinator's group agrees on
//! the decision after both have agreed to prepare: another trip to Europe, so that it is slower
//! than TAPIR even from the US. The paper's text has only one such trip.

use crate::measure::{S, mean_ms, measure_of, quantile, scenario};
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_sim::profile::Profile;
use meridian_sim::scenario::{Scenario, Work};
use meridian_sim::{Regions, SimulatedProtocol, protocols};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "tapir_figure10";
/// The title.
pub const TITLE: &str = "FollowUser over three continents (TAPIR, Figure 10)";

/// The client's region, and the paper's words about systems with leaders and about TAPIR.
const CLIENTS: [(&str, [&str; 2]); 3] = [
    ("US", ["faster", "slower"]),
    ("Europe", ["slower", "fastest"]),
    ("Asia", ["slower", "fastest"]),
];

/// The compared protocols.
const COMPARED: [&SimulatedProtocol; 3] =
    [&protocols::SPANNER, &protocols::TAPIR, &protocols::TAPIR_SERIALIZABLE];

/// The measurements of a protocol, with the client in one region.
struct Measured {
    client: usize,
    protocol: &'static SimulatedProtocol,
    /// One session: both keys in one shard; one key in each of two.
    alone: [f64; 2],
    /// Many sessions, by Zipf's law.
    zipf: Profile,
}

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let (seconds, sessions) = effort.pick((60, 20), (4, 3));
    let mut all = Vec::new();
    for (client, (region, _)) in CLIENTS.iter().enumerate() {
        for protocol in COMPARED {
            progress(&format!("the client in {region}, {}", protocol.row.name));
            let run = |work, sessions| {
                let (gateways, clients_in, window_ns) = (CLIENTS.len(), Some(client), seconds * S);
                let led_in_first = true;
                let scenario = Scenario {
                    gateways,
                    clients_in,
                    led_in_first,
                    window_ns,
                    steady: true,
                    ..scenario(3, 1, 2, 3, work)
                };
                measure_of(protocol, scenario, 1, sessions, Regions::Tapir)
            };
            let alone = [1, 2].map(|shards| mean_ms(&run(Work::Follow(shards), 1).writes_ns));
            all.push(Measured { client, protocol, alone, zipf: run(Work::FollowByZipf, sessions) });
        }
    }
    let notes = vec![
        format!(
            "Here: a replica of each of two shards in each region, leaders (of spanner) in the US, the client on a node of its own. Round trips of the paper's Table 1: US-Europe 111.3 ms, \
             US-Asia 166.5, Europe-Asia 261.8, within Asia 10.8, elsewhere about 1; no message takes longer. One session: means of {seconds} s. Zipf 0.6 of a million keys: {sessions} \
             sessions, {seconds} s; who is aborted is not tried again, and not in the latencies."
        ),
        "The paper's figure is a drawing; its column here is from the text: with the client beside the leader the other transactional systems are better than TAPIR, which needs responses of all \
         replicas; elsewhere TAPIR is best, because locks are taken at the leader."
            .to_owned(),
        "tapir: two reads at the replica of the client's region, and one round trip to the farthest replica. spanner: two reads under locks at the leader, a round trip \
         to it, and from there one round trip to Europe for one group, two for two."
            .to_owned(),
        "Predicted, not timed: the work by the cost model of crates/sim/src/costs.txt, which adds half a millisecond at most. Not modelled: sizes, SQL and its wire protocol, other work on the machines."
            .to_owned(),
    ];
    figure(&all, notes)
}

/// Builds the figure of the measurements, beside the paper's text.
fn figure(measured: &[Measured], notes: Vec<String>) -> Figure {
    let columns =
        ["client", "recipe", "1 shard ms", "2 shards ms", "Zipf p50", "p99", "aborted", "paper's"];
    let mut table = Table { head: columns.map(str::to_owned).to_vec(), rows: Vec::new() };
    let mut series: Vec<Series> = Vec::new();
    for Measured { client, protocol, alone, zipf } in measured {
        let (region, [of_leaders, of_tapir]) = CLIENTS[*client];
        let told = if protocol.row.has_leaders() { of_leaders } else { of_tapir };
        let ms = |part| format!("{:.1}", quantile(&zipf.writes_ns, part) as f64 / 1e6);
        let tried = zipf.failed + zipf.writes_ns.len() as u64;
        let aborted = format!("{:.1} %", 100.0 * zipf.failed as f64 / tried.max(1) as f64);
        let [one, two] = alone.map(|ms| format!("{ms:.1}"));
        let [region, name, told] = [region, protocol.row.name, told].map(str::to_owned);
        table.rows.push(vec![region, name, one, two, ms(0.5), ms(0.99), aborted, told]);
        let color = COMPARED.iter().position(|known| known == protocol).unwrap_or_default();
        for (shards, ms) in ["1 shard", "2 shards"].into_iter().zip(alone) {
            let name = format!("{}, {shards}, here", protocol.row.name);
            let point = (*client as f64 + 1.0, *ms);
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => series.push(Series {
                    name,
                    style: Style::OursMarked,
                    color,
                    points: vec![point],
                }),
            }
        }
    }
    let panel = Panel {
        x: Axis { label: "the client is in: 1 the US, 2 Europe, 3 Asia", from: 0.5, to: 3.5 },
        y: Axis { label: "latency of FollowUser, ms", from: 0.0, to: 1_400.0 },
        logarithmic: (false, false),
        series,
    };
    Figure { name: NAME, title: TITLE.to_owned(), table, notes, panels: vec![panel] }
}
