//! HybridTime, Figure 4: the latency of writes over time in each consistency mode, and the clock
//! error, with `fsync()` and replication (§5.4).
//!
//! **The paper**: «HybridTime consistency requests take about one order of magnitude less to
//! complete than commit-wait request.» «Even overlapping replication [...] and the local
//! write-ahead-log append, 99.9% of the requests spend 86% percent of the total request time
//! waiting out clock error.» HybridTime requests «take about 5 times less to complete than single
//! replica group writes as reported on the Spanner paper».
//!
//! `hybridtime.rs` describes the measurement.

use crate::hybridtime::{Papers, Run, SECOND, over_time, table};
use crate::hybridtime_figure2::{MEAN_ERROR_MS, tracked};
use crate::measure::quantile;
use crate::{Effort, Figure};
use meridian_txn::Consistency;

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "hybridtime_figure4";
/// The title.
pub const TITLE: &str = "consistency modes with fsync and replication (HybridTime, Figure 4)";

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let runs = SECOND.measure(effort, progress);
    let notes = vec![
        SECOND.setting(effort, &runs),
        least_waiting(&runs),
        tracked(&runs),
        "The paper's figure is a drawing, of latencies at the server. Its text has one more number: a HybridTime request takes about a fifth of a write of Spanner's with one replica, \
         which is 14.4 ms with commit wait and 9.4 without (Spanner, Table 3)."
            .to_owned(),
        SECOND.model(),
    ];
    figure(&runs, notes)
}

/// Builds the figure of some runs, beside the paper's text.
pub fn figure(runs: &[Run], notes: Vec<String>) -> Figure {
    let papers = Papers { latency: ["-", "1", "about 10"], waiting: ["none", "none", "86 %"] };
    let table = table(runs, &papers);
    let panels = runs.first().map(|run| over_time(run, Some(MEAN_ERROR_MS)));
    Figure {
        name: NAME,
        title: TITLE.to_owned(),
        table,
        notes,
        panels: panels.into_iter().collect(),
    }
}

/// Returns the note about the part of a request that is waiting.
fn least_waiting(runs: &[Run]) -> String {
    let writes = runs.iter().flat_map(|run| run.of(Consistency::CommitWait));
    let mut parts: Vec<u64> =
        writes.map(|write| write.waited_ns * 1_000 / write.took_ns.max(1)).collect();
    parts.sort_unstable();
    let at = |part| quantile(&parts, part) as f64 / 10.0;
    format!(
        "Of the writes in mode commit_wait, half spend {:.0} % or more of their time waiting, 99 % spend {:.0} % or more, and 99.9 % spend {:.0} % or more: a slow sync leaves less to wait \
         for. The paper says that 99.9 % of the requests spend 86 %.",
        at(0.5),
        at(0.01),
        at(0.001)
    )
}
