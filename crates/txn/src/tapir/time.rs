//! Waiting for a timestamp to pass.

use crate::Node;
use meridian_clock::Timestamp;

/// The shortest and the longest time between two looks at the clock, in nanoseconds: a clock that
/// was set back stands still, and one that knows nothing may know more soon.
const WAITS_NS: (u64, u64) = (50_000, 100_000_000);

/// Waits until a timestamp has surely passed; false if the node ends before.
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
