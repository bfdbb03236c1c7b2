//! The current time with its bounds, and the offsets of other nodes' clocks: `SHOW CLOCK`,
//! `meridian.clock`, and the functions `tt_now()`, `tt_after(t)` and `tt_before(t)`.

use super::{Rows, SystemContext, Value, Writer};
use crate::datetime::from_unix_ns;
use crate::error::SqlError;
use crate::expr::Facts;

/// A node's clock, as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockFact {
    /// The node.
    pub node: u32,
    /// The clock's status: `good`, `fenced` …; of another node, if it was received recently.
    pub state: Option<&'static str>,
    /// The source of the time.
    pub source: Option<String>,
    /// The earliest and the latest possible time, in nanoseconds since 1970, if it is known; of
    /// another node, when it answered.
    pub interval: Option<(u64, u64)>,
    /// The offset of the node's clock from this one's, if it was measured, in nanoseconds.
    pub ahead_ns: Option<i64>,
    /// The round trip of that measurement, in nanoseconds.
    pub round_trip_ns: Option<u64>,
}

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    (name == "clock").then_some(clock as Rows)
}

/// Converts to microseconds, rounded outwards.
fn outwards((earliest, latest): (u64, u64)) -> (i64, i64) {
    (from_unix_ns(earliest), from_unix_ns(latest.saturating_add(999)))
}

pub(super) fn clock(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let facts =
        context.facts.server_info().map_or_else(Vec::new, |server_info| server_info.clocks());
    for fact in &facts {
        let (earliest, latest) = fact.interval.map(outwards).unzip();
        out.row(&[
            ("node", fact.node.into()),
            ("state", fact.state.into()),
            ("source", fact.source.as_deref().into()),
            ("earliest", earliest.map_or(Value::Null, Value::Time)),
            ("latest", latest.map_or(Value::Null, Value::Time)),
            (
                "uncertainty_ns",
                fact.interval.map(|(earliest, latest)| ((latest - earliest) / 2) as i64).into(),
            ),
            ("ahead_ns", fact.ahead_ns.into()),
            ("round_trip_ns", fact.round_trip_ns.map(|trip| trip as i64).into()),
        ]);
    }
}

/// Returns `TT.now()` (Spanner, table 1), in microseconds since 2000.
pub(crate) fn interval_now(facts: &Facts) -> Result<(i64, i64), SqlError> {
    let known = facts.server_info().and_then(|server_info| server_info.interval());
    known.map(outwards).ok_or_else(|| {
        SqlError::new("55000", "the time is not known")
            .hint("SHOW CLOCK and `meridian clock doctor` tell more.")
    })
}
