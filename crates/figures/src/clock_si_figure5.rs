//! Clock-SI, Figure 5: the throughput of read-only and of update transactions, with more and more
//! partitions (§V-B).
//!
//! **The paper**: read-only, «the throughput of Clock-SI increases linearly as the number of
//! partitions increases. For conventional SI, the throughput levels off at around 64k
//! transactions/second», and «given its limit of 64k timestamps/second, the timestamp authority
//! sustains only 32k update transactions/second. [...] Batching timestamp requests from the data
//! partitions to the timestamp authority can improve the throughput of conventional SI.»
//!
//! `clock_si.rs` describes the measurement. Below the limits, the paper's Clock-SI has twice the
//! throughput, because a partition there handles twice the messages in conventional SI; here the
//! session's node handles those of the snapshot. A leader asks for the timestamps of all commits
//! that wait in one message; with these numbers hardly two wait.

use crate::clock_si::{Load, Throughput, model, thousands, throughput, throughput_panel};
use crate::measure::MS;
use crate::{Effort, Figure, Table};
use meridian_sim::scenario::Work;

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "clock_si_figure5";
/// The title.
pub const TITLE: &str = "throughput with more partitions (Clock-SI, Figure 5)";

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let window_ns = effort.pick(400, 100) * MS;
    let reading = Load { gateways: 5, sessions: 40, window_ns };
    let updating = Load { gateways: 6, sessions: 300, window_ns };
    let reads = throughput(effort, Work::ReadRuns(1), reading, progress);
    let updates = throughput(effort, Work::UpdateRun, updating, progress);
    let head = [
        "partitions",
        "reads: clock_si",
        "authority",
        "paper's",
        "updates: clock_si",
        "authority",
        "paper's",
    ];
    let row = |(reads, updates): (&Throughput, &Throughput)| {
        let [[ours, other], [our_updates, other_updates]] =
            [reads, updates].map(|point| point.per_second.map(thousands));
        let [limit, update_limit] = ["64 k", "32 k"].map(str::to_owned);
        vec![
            reads.partitions.to_string(),
            ours,
            other,
            limit,
            our_updates,
            other_updates,
            update_limit,
        ]
    };
    let rows = reads.iter().zip(&updates).map(row).collect();
    let notes = vec![
        format!(
            "Here: transactions per second with {} nodes of sessions for each partition, {} sessions that read or {} that update, {} ms each. Each reads, or reads and writes, eight adjacent keys of \
             one partition. The authority answers a request in 1/64,000 s, on a server of its own.",
            updating.gateways, reading.sessions, updating.sessions, window_ns / MS
        ),
        "The paper's column is the limit of conventional SI, whose throughput is in the column authority; its Clock-SI grows linearly, with twice the \
         throughput below the limit."
            .to_owned(),
        model(),
    ];
    Figure {
        name: NAME,
        title: TITLE.to_owned(),
        table: Table { head: head.map(str::to_owned).to_vec(), rows },
        notes,
        panels: vec![
            throughput_panel("read-only, thousands in a second", &reads, 250.0),
            throughput_panel("updates, thousands in a second", &updates, 120.0),
        ],
    }
}
