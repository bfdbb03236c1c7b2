//! HybridTime, Figure 2: the latency of writes over time in each consistency mode, and the clock
//! error, without `fsync()` and replication (§5.3).
//!
//! **The paper**: «HybridTime consistency has virtually no impact on latency.» «Commit-wait
//! consistency requests are about 2 orders of magnitude slower than non-commit-wait ones.» «The
//! latency of commit-wait requests closely track the clock error.»
//!
//! `hybridtime.rs` describes the measurement.

use crate::hybridtime::{FIRST, Papers, Run, over_time, table};
use crate::measure::quantile;
use crate::{Effort, Figure};
use meridian_sim::profile::Commit;
use meridian_txn::Consistency;

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "hybridtime_figure2";
/// The title.
pub const TITLE: &str = "consistency modes without fsync and replication (HybridTime, Figure 2)";

/// The paper's mean clock error in one data centre, in milliseconds (§5.2).
pub(crate) const MEAN_ERROR_MS: f64 = 14.73;

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let runs = FIRST.measure(effort, progress);
    let papers = Papers { latency: ["about 1", "1", "about 100"], waiting: ["none", "none", "-"] };
    let notes = vec![
        FIRST.setting(effort, &runs),
        tracked(&runs),
        "The paper's figure is a drawing, of latencies at the server; its text gives proportions alone. Here a latency has a round trip to the server in it, and work that the \
         paper's machines of eight cores did at once."
            .to_owned(),
        FIRST.model(),
    ];
    Figure {
        name: NAME,
        title: TITLE.to_owned(),
        table: table(&runs, &papers),
        notes,
        panels: vec![over_time(&runs[0], Some(MEAN_ERROR_MS))],
    }
}

/// Returns the note about latency and clock error.
pub(crate) fn tracked(runs: &[Run]) -> String {
    let of_two_errors = |run: &Run| {
        let part = |write: &Commit| {
            let began_ns = write.ended_ns.saturating_sub(write.took_ns);
            write.took_ns * 1_000 / (2 * run.error_ns(began_ns)).max(1)
        };
        run.of(Consistency::CommitWait).map(part).collect::<Vec<_>>()
    };
    let mut parts: Vec<u64> = runs.iter().flat_map(of_two_errors).collect();
    parts.sort_unstable();
    let at = |part| quantile(&parts, part) as f64 / 1_000.0;
    format!(
        "A write in mode commit_wait takes {:.2} to {:.2} times twice the clock error of its begin (5th to 95th percentile).",
        at(0.05),
        at(0.95)
    )
}
