//! The node on which coordinators run, whichever protocol they speak.
//!
//! A coordinator is `async` and knows no executor. Time, identity, randomness and sleep come from
//! its node, so that a server and the simulator run the same coordinator.

use meridian_clock::{Health, Reading, Timestamp};
use meridian_machine::{Incarnation, NodeId};
use std::time::Duration;

/// How long a coordinator waits until its node knows the time, in nanoseconds.
const CLOCK_PATIENCE_NS: u64 = 10_000_000_000;
/// The time between two looks at a clock that does not know the time, in nanoseconds.
const CLOCK_PAUSE_NS: u64 = 10_000_000;
/// The bounds of one pause while a timestamp passes, in nanoseconds. The lower bound matters for a
/// clock that was set back, which stands still; the upper one for a node without the time, which
/// may learn it soon.
const WAITS_NS: (u64, u64) = (50_000, 100_000_000);

/// A node, as the coordinators of one database on it see it.
pub trait Node: Send + Sync + 'static {
    /// The time, with its bounds, and the boot clock.
    fn now(&self) -> Reading;
    /// The boot clock, in nanoseconds.
    fn boot_ns(&self) -> u64 {
        self.now().boot_ns
    }
    /// The node, and its incarnation.
    fn here(&self) -> (NodeId, Incarnation);
    /// A number that is unique within the incarnation and the database.
    fn new_number(&self) -> u64;
    /// A random number of `0.0..1.0`.
    fn random(&self) -> f64;
    /// A random number below `bound`, or 0 if that is 0.
    fn random_below(&self, bound: usize) -> usize;
    /// True once the node, or the database, shuts down: requests get no more responses.
    fn is_closed(&self) -> bool;
    /// True while the node's disk has no room for writes.
    fn is_full(&self) -> bool;
    /// True for this node, and for nodes to which a connection stands.
    fn reaches(&self, node: NodeId) -> bool;
    /// Waits until the boot clock reaches `boot_ns`, or the node closes.
    fn sleep_until(&self, boot_ns: u64) -> impl Future<Output = ()> + Send;
}

/// Waits for a time, or until the node closes.
pub async fn sleep(node: &impl Node, time: Duration) {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    node.sleep_until(node.boot_ns().saturating_add(ns)).await;
}

/// Waits until a node knows the time. Returns false if it does not within ten seconds, or if it
/// closes.
pub async fn knows_time(node: &impl Node) -> bool {
    let until = node.boot_ns() + CLOCK_PATIENCE_NS;
    loop {
        let now = node.now();
        if now.health == Health::Good {
            return true;
        }
        if now.boot_ns >= until || node.is_closed() {
            return false;
        }
        node.sleep_until(now.boot_ns + CLOCK_PAUSE_NS).await;
    }
}

/// Waits until a timestamp has surely passed. Returns false if the node closes before.
pub async fn passes(node: &impl Node, at: Timestamp) -> bool {
    loop {
        let now = node.now();
        if now.interval.after(at.nanos) {
            return true;
        }
        if node.is_closed() {
            return false;
        }
        let left_ns = at.nanos - now.interval.earliest + 1;
        node.sleep_until(now.boot_ns + left_ns.clamp(WAITS_NS.0, WAITS_NS.1)).await;
    }
}
