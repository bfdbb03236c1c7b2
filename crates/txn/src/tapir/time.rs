//! Waits of a coordinator for its node's clock.

use crate::Node;
use meridian_clock::Timestamp;

/// The bounds of one pause while a timestamp passes, in nanoseconds. The lower bound matters for a
/// clock that was set back, which stands still; the upper one for a node without the time, which
/// may learn it soon.
const WAITS_NS: (u64, u64) = (50_000, 100_000_000);

/// Waits until a timestamp has surely passed. Returns false if the node closes before.
pub(super) async fn passes(node: &impl Node, at: Timestamp) -> bool {
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
