//! What time it is here, how surely, and how far others are from it: `SHOW CLOCK` and `meridian.clock`.

use super::{Rows, Value, World, Writer};
use crate::datetime::from_unix_ns;
use crate::expr::Facts;

/// A node's clock, as this node knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockFact {
    /// The node.
    pub node: u32,
    /// `good`, `starting` or `fenced`; nothing of other nodes.
    pub state: Option<&'static str>,
    /// Where the time comes from; nothing of other nodes.
    pub source: Option<&'static str>,
    /// The earliest and the latest that it can be, in nanoseconds since 1970, if it is known.
    pub interval: Option<(u64, u64)>,
    /// By how much the node's clock is ahead of this one's, if that was measured.
    pub ahead_ns: Option<i64>,
}

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    (name == "clock").then_some(clock as Rows)
}

pub(super) fn clock(world: &World<'_>, out: &mut Writer<'_>) {
    for fact in facts(world.facts) {
        // Rounded outwards.
        let (earliest, latest) = fact.interval.unzip();
        let earliest = earliest.map(from_unix_ns);
        let latest = latest.map(|latest| from_unix_ns(latest.saturating_add(999)));
        out.row(&[
            ("node", fact.node.into()),
            ("state", fact.state.into()),
            ("source", fact.source.into()),
            ("earliest", earliest.map_or(Value::Null, Value::Time)),
            ("latest", latest.map_or(Value::Null, Value::Time)),
            ("uncertainty_ns", fact.interval.map(|(earliest, latest)| ((latest - earliest) / 2) as i64).into()),
            ("ahead_ns", fact.ahead_ns.into()),
        ]);
    }
}

fn facts(facts: &Facts) -> Vec<ClockFact> {
    facts.surroundings().map_or_else(Vec::new, |around| around.clocks())
}
