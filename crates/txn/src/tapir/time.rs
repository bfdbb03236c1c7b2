//! What a session waits for of the time.

use super::Site;
use meridian_clock::Timestamp;

/// Who waits for a timestamp to pass asks again after so long at least: a clock that was set back
/// stands still. And at most: one that knows nothing may know more soon.
const WAITS_NS: (u64, u64) = (50_000, 100_000_000);

/// Waits until the node knows what time it is; false if it does not find out, or ends.
pub(super) async fn is_known<S: Site>(site: &S) -> bool {
    crate::is_known(|| site.now(), || site.is_closed(), |until| site.pause(until)).await
}

/// Waits until a timestamp has surely passed; false if the node ends before.
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
