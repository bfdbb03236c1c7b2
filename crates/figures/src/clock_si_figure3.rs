//! Clock-SI, Figure 3: the latency of read-only transactions at one switch (§V-B).
//!
//! **The paper**: «Each transaction reads eight items at each partition.» «Compared with
//! conventional SI, Clock-SI saves approximately one round-trip latency. For a single-partition
//! read-only transaction this amounts to about 50% latency savings.»
//!
//! `clock_si.rs` describes the measurement.

use crate::clock_si::{COMPARED, beside_authority, measure, model, window_ns};
use crate::measure::{mean_ms, quantile};
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_sim::Regions;
use meridian_sim::scenario::{Scenario, Work};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "clock_si_figure3";
/// The title.
pub const TITLE: &str = "read-only transactions at one switch (Clock-SI, Figure 3)";

/// The number of partitions, and of those that a transaction reads at most.
const PARTITIONS: u32 = 3;

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let rows = (1..=PARTITIONS).map(|read| {
        let took_ns = COMPARED.map(|protocol| {
            progress(&format!("{}, {read} partitions", protocol.row.name));
            let scenario = beside_authority(PARTITIONS, 1, Work::ReadRuns(read));
            let scenario = Scenario { window_ns: window_ns(effort), ..scenario };
            measure(protocol, scenario, 1, Regions::Lan).reads_ns
        });
        Latencies { client: "", partitions: read, took_ns }
    });
    let rows: Vec<Latencies> = rows.collect();
    let notes = vec![
        format!(
            "Here: a client on a node of its own; each partition and the authority on a server, with a round trip of 0.14 ms, of which each way takes up to a tenth longer; {} \
             transactions or more for each number.",
            rows.iter().flat_map(|row| &row.took_ns).map(Vec::len).min().unwrap_or(0)
        ),
        "The paper's figure is a drawing. Its text: Clock-SI saves about one round trip, with one partition about 50 %.".to_owned(),
        model(),
    ];
    Figure {
        name: NAME,
        title: TITLE.to_owned(),
        table: table(&rows, &["one round trip, 50 %", "one round trip", "one round trip"]),
        notes,
        panels: vec![panel(&rows, 2.0)],
    }
}

/// The latencies of the [`COMPARED`] protocols with clients in one place, sorted.
pub(crate) struct Latencies {
    pub client: &'static str,
    pub partitions: u32,
    pub took_ns: [Vec<u64>; 2],
}

/// Returns the table of latencies, beside what the paper says is saved.
pub(crate) fn table(rows: &[Latencies], papers: &[&str]) -> Table {
    let columns = [
        "client",
        "partitions",
        "clock_si ms",
        "p99",
        "conventional_si ms",
        "p99",
        "saved ms",
        "saved",
        "paper's",
    ];
    let lacks_clients = rows.iter().all(|row| row.client.is_empty());
    let from = usize::from(lacks_clients);
    let mut table =
        Table { head: columns[from..].iter().map(|s| (*s).to_owned()).collect(), rows: Vec::new() };
    for (Latencies { client, partitions, took_ns }, papers) in rows.iter().zip(papers) {
        let [ours, other] = took_ns.each_ref().map(|took_ns| mean_ms(took_ns));
        let [p99, other_p99] = took_ns
            .each_ref()
            .map(|took_ns| format!("{:.2}", quantile(took_ns, 0.99) as f64 / 1e6));
        let cells = [
            (*client).to_owned(),
            partitions.to_string(),
            format!("{ours:.2}"),
            p99,
            format!("{other:.2}"),
            other_p99,
            format!("{:.2}", other - ours),
            format!("{:.0} %", 100.0 * (other - ours) / other),
            (*papers).to_owned(),
        ];
        table.rows.push(cells[from..].to_vec());
    }
    table
}

/// Returns the panel of mean latencies.
pub(crate) fn panel(rows: &[Latencies], to: f64) -> Panel {
    let series = COMPARED.iter().enumerate().map(|(color, protocol)| Series {
        name: format!("{}, here", protocol.row.name),
        style: Style::OursMarked,
        color,
        points: rows
            .iter()
            .map(|row| (f64::from(row.partitions), mean_ms(&row.took_ns[color])))
            .collect(),
    });
    Panel {
        x: Axis { label: "partitions that a transaction reads", from: 0.5, to: 3.5 },
        y: Axis { label: "latency, ms", from: 0.0, to },
        logarithmic: (false, false),
        series: series.collect(),
    }
}
