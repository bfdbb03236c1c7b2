//! Clock-SI, Figure 4: the latency of read-only transactions over two continents (§V-B).
//!
//! **The paper** had partitions in US West, US East and Europe, and the authority with the one in
//! US West. For clients in Europe, «Clock-SI reduces the latency of each transaction by about 160
//! milliseconds»; in US West «the saved latency by Clock-SI becomes sub-milliseconds», and in US
//! East it is «about 170 milliseconds».
//!
//! `clock_si.rs` describes the measurement. A transaction reads at the partition of its client
//! first.

use crate::clock_si::{COMPARED, measure, model, partitions, window_ns};
use crate::clock_si_figure3::{Latencies, panel, table};
use crate::{Effort, Figure};
use meridian_sim::Regions;
use meridian_sim::scenario::{Scenario, Work};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "clock_si_figure4";
/// The title.
pub const TITLE: &str = "read-only transactions over two continents (Clock-SI, Figure 4)";

/// The data centres in the order of [`Regions::ClockSi`]; what the paper says is saved there.
const CLIENTS: [(&str, &str); 3] =
    [("US West", "below 1 ms"), ("US East", "about 170 ms"), ("Europe", "about 160 ms")];
/// The data centre of the clients of the paper's figure.
const EUROPE: usize = 2;

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let (mut rows, mut papers) = (Vec::new(), Vec::new());
    for (zone, (client, saved)) in CLIENTS.into_iter().enumerate().rev() {
        for read in 1..=CLIENTS.len() as u32 {
            let took_ns = COMPARED.map(|protocol| {
                progress(&format!(
                    "{}, a client in {client}, {read} partitions",
                    protocol.row.name
                ));
                let all = CLIENTS.len();
                let scenario = Scenario {
                    clients_in: Some(zone),
                    steady: true,
                    window_ns: window_ns(effort),
                    ..partitions(all, all as u32, all, Work::ReadRuns(read))
                };
                measure(protocol, scenario, 1, Regions::ClockSi).reads_ns
            });
            rows.push(Latencies { client, partitions: read, took_ns });
            papers.push(saved);
        }
    }
    let notes = vec![
        "Here: a partition in each data centre; the authority is the leader of the first group, in US West; the client is on a node of its own. Round trips: US West to US East 170 ms, to Europe \
         160, US East to Europe 165 (which the paper does not print), within one 0.14; no message takes longer. \
         Where a session reads once in more than 100 ms, each read at a partition waits for an entry in its log (a ceiling), 6.7 ms; the authority renews its own ahead of time."
            .to_owned(),
        "The plot has the clients in Europe, as the paper's figure, which is a drawing.".to_owned(),
        model(),
    ];
    let table = table(&rows, &papers);
    let of_europe = |row: &Latencies| row.client == CLIENTS[EUROPE].0;
    let drawn: Vec<Latencies> = rows.into_iter().filter(of_europe).collect();
    Figure { name: NAME, title: TITLE.to_owned(), table, notes, panels: vec![panel(&drawn, 600.0)] }
}
