//! Waits of a coordinator for its node's clock.

use super::Site;
use meridian_clock::Timestamp;

/// The bounds of one pause while a timestamp passes, in nanoseconds. The lower bound matters for a
/// clock that was set back, which stands still; the upper one for a node without the time, which
/// may learn it soon.
const WAITS_NS: (u64, u64) = (50_000, 100_000_000);

/// Waits until the node knows the time. Returns false if it does not learn it, or shuts down.
pub(super) async fn is_known<S: Site>(site: &S) -> bool {
    crate::is_known(|| site.now(), || site.is_closed(), |until| site.pause(until)).await
}

/// Waits until a timestamp has surely passed. Returns false if the node shuts down before.
pub(super) async fn passes<S: Site>(site: &S, at: Timestamp) -> bool {
    loop {
        let now = site.now();
        if now.interval.after(at.nanos) {
            return true;
        }
        if site.is_closed() {
            return false;
        }
        let left_ns = at.nanos - now.interval.earliest + 1;
        site.pause(now.boot_ns + left_ns.clamp(WAITS_NS.0, WAITS_NS.1)).await;
    }
}
