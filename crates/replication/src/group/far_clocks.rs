//! Protection from clocks that are far ahead: such a clock costs its node the leadership, and never
//! the group its timestamps.
//!
//! A leader whose clock is an hour ahead would put timestamps of that hour into the log, and every
//! later leader would have to wait until they have passed (invariant 1 of Spanner's replicas:
//! timestamps grow in the order of the log).
//!
//! ```text
//!   leader's earliest ─────────────────┐ sends: pre-vote, vote, append
//!   member's latest ──┤  MAX_OFFSET_NS ├──▶ ignored
//! ```
//!
//! 1. A member that knows the time ignores a leader or candidate whose `earliest` is more than
//!    [`MAX_OFFSET_NS`] above the member's own `latest`. Two correct clocks, however uncertain, are
//!    never that far apart.
//! 2. A member that does not know the time accepts every leader, and grants no lease. A leader
//!    without a lease of a quorum assigns no timestamp, so its messages carry no news about the
//!    time.
//! 3. A promise never lasts longer than one that is given now, on the present clock: a promise that
//!    was given by a clock far ahead ends two leases after the clock is right.

use super::{Grant, Group, Message};
use crate::rules;
use meridian_machine::planted::broken;
use meridian_machine::{Health, Reading, sometimes};

/// The distance by which a leader's clock may be ahead of a member's, beyond the uncertainty of
/// both, in nanoseconds.
pub const MAX_OFFSET_NS: u64 = 1_000_000_000;

impl Group {
    /// True if a message comes from a clock that is far ahead of this member's.
    pub(super) fn is_from_far_ahead(now: Reading, message: &Message) -> bool {
        let (Message::PreVote { asked_at, .. }
        | Message::Vote { asked_at, .. }
        | Message::Append { asked_at, .. }) = message
        else {
            return false;
        };
        let far = now.health == Health::Good
            && *asked_at > now.interval.latest.saturating_add(MAX_OFFSET_NS);
        if far {
            sometimes!("a member does not hear a leader whose clock is far ahead");
        }
        far && !broken(rules::FAR_CLOCKS_HEARD)
    }

    /// Shortens a promise that a clock far ahead has given. The holder's lease ends before it: the
    /// lease began when the holder sent its request, which was before now.
    pub(super) fn shorten_promise(&mut self, now: Reading) {
        let Some(Grant { until, lease_ns, .. }) = &mut self.grant else { return };
        let most = now.interval.latest.saturating_add(2 * *lease_ns);
        if *lease_ns > 0
            && now.health == Health::Good
            && *until > most.saturating_add(MAX_OFFSET_NS)
        {
            sometimes!("a promise of a clock that was far ahead is shortened");
            *until = most;
        }
    }
}
