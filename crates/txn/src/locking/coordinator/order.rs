//! The order that a transaction needs with transactions that it does not conflict with (HybridTime
//! §4): its causal token, and what it waits for.
//!
//! In a database that shows commits before their timestamps have passed, leaders know no modes. The
//! coordinator tells them its token, and delays its own answers.
//!
//! | mode | requests carry the token | an answer waits until |
//! |---|---|---|
//! | `none` | no, but what it sees adds to the session's | |
//! | `hybrid` | yes | |
//! | `commit_wait` | yes | everything that it has written and read has surely passed |

use super::Coordinator;
use crate::locking::rules;
use crate::shards::Shards;
use crate::{Consistency, Failure, Mode, passes};
use meridian_clock::{Interval, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::sometimes;

/// How far a causal token may be ahead of the latest possible time, in nanoseconds. Farther ahead,
/// a clock is wrong, or the token is not of this database (Trap A.4-3).
pub const MOST_TOKEN_AHEAD_NS: u64 = 1_000_000_000;

/// The order of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CausalOrder {
    /// The modes of the database.
    modes: &'static [Consistency],
    consistency: Consistency,
    /// True if the database shows commits before their timestamps have passed.
    early: bool,
    /// The greatest timestamp that the transaction has seen.
    token: Timestamp,
    /// Everything up to here has surely passed.
    passed: Timestamp,
}

impl CausalOrder {
    /// Returns the order of a transaction in a database with these modes. A mode that it does not
    /// have is given the next stronger one, or else its strongest.
    pub(in crate::locking) fn new(
        modes: &'static [Consistency],
        asked: Consistency,
        token: Timestamp,
    ) -> CausalOrder {
        let early = modes.iter().any(|mode| *mode < Consistency::CommitWait);
        let mut order =
            CausalOrder { modes, consistency: asked, early, token, passed: Timestamp::ZERO };
        order.set(asked);
        order
    }

    /// Sets the mode.
    pub(super) fn set(&mut self, asked: Consistency) {
        let strongest = self.modes.iter().copied().max().unwrap_or(Consistency::CommitWait);
        self.consistency = asked.given(self.modes).unwrap_or(strongest);
    }

    /// True if the transaction comes after its token.
    fn is_causal(&self) -> bool {
        self.early && self.consistency > Consistency::None
    }

    /// Returns the modes of the database.
    pub(in crate::locking) fn modes(&self) -> &'static [Consistency] {
        self.modes
    }

    /// Returns the transaction's mode.
    pub(crate) fn consistency(&self) -> Consistency {
        self.consistency
    }

    /// Returns the timestamp that the transaction comes after. Zero if it comes after none.
    pub(crate) fn token(&self) -> Timestamp {
        let drops = !self.is_causal() || broken(rules::TOKEN_DROPPED);
        if drops { Timestamp::ZERO } else { self.token }
    }

    /// Returns the token that requests carry.
    pub(in crate::locking) fn carried(&self) -> Option<Timestamp> {
        Some(self.token()).filter(|token| *token > Timestamp::ZERO)
    }

    /// Learns a timestamp that the transaction has seen. In mode `none` too: a later transaction of
    /// the session may need it.
    pub(crate) fn learn(&mut self, at: Timestamp) {
        if self.early {
            self.token = self.token.max(at);
        }
    }

    /// Returns the greatest timestamp that the transaction and its session have seen, whether this
    /// transaction comes after it or not. Zero in a database that needs no tokens.
    pub(in crate::locking) fn seen(&self) -> Timestamp {
        let drops = !self.early || broken(rules::TOKEN_DROPPED);
        if drops { Timestamp::ZERO } else { self.token }
    }

    /// True if each read finds what is newest in its shard.
    pub(in crate::locking) fn reads_shards_apart(&self) -> bool {
        self.early && self.consistency == Consistency::None
    }

    /// True if answers wait until what the transaction has seen has surely passed.
    pub(super) fn waits(&self) -> bool {
        self.early && self.consistency == Consistency::CommitWait
    }

    /// Returns the timestamp that must have passed before an answer leaves. `None` if none must.
    fn waits_for(&self, at: Timestamp) -> Option<Timestamp> {
        Some(at).filter(|at| self.waits() && *at > self.passed)
    }
}

/// Refuses a token that cannot be true.
pub(super) fn check_token(token: Timestamp, now: Interval) -> Result<(), Failure> {
    let ahead_ns = token.nanos.saturating_sub(now.latest);
    if ahead_ns > MOST_TOKEN_AHEAD_NS && !broken(rules::FAR_TOKEN_ADOPTED) {
        return Err(Failure::FarToken { ahead_ns });
    }
    Ok(())
}

impl<S: Shards> Coordinator<S> {
    /// Waits until the snapshot of a read-only transaction, and everything that its session had
    /// seen before, has surely passed, if its mode is `commit_wait`.
    pub(super) async fn snapshot_passes(&mut self) -> Result<(), Failure> {
        let Some(at) = self.read_at.filter(|_| self.mode != Mode::ReadWrite) else {
            return Ok(());
        };
        let Some(at) = self.order.waits_for(at.max(self.order.token())) else { return Ok(()) };
        if broken(rules::READ_WAIT) {
            return Ok(());
        }
        let began_ns = self.boot_ns();
        if !passes(self.shards.node(), at).await {
            return Err(Failure::Unavailable(
                "this node is shutting down: retry once it is back".into(),
            ));
        }
        self.order.passed = at;
        let waited_ns = self.boot_ns() - began_ns;
        if waited_ns > 0 {
            sometimes!("a read waits until its snapshot has surely passed");
        }
        self.note_read_wait(waited_ns);
        Ok(())
    }

    /// Records the time that a read waited: until what it had read had surely passed, or at a
    /// leader.
    pub(super) fn note_read_wait(&self, waited_ns: u64) {
        self.count(|counters| counters.read_waited(waited_ns));
        if let Some(timings) = &self.timings {
            timings.note(|times| times.read_wait_ns += waited_ns);
        }
    }

    /// Waits until a commit's timestamp has surely passed, if the mode is `commit_wait`. Returns
    /// the time that it waited, in nanoseconds, or `None` if the node closes before.
    pub(in crate::locking) async fn commit_passes(&self, at: Timestamp) -> Option<u64> {
        let Some(at) = self.order.waits_for(at.max(self.order.token())) else { return Some(0) };
        if broken(meridian_clock::rules::COMMIT_WAIT) {
            return Some(0);
        }
        let began_ns = self.boot_ns();
        passes(self.shards.node(), at).await.then(|| self.boot_ns() - began_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODES: &[Consistency] =
        &[Consistency::Hybrid, Consistency::CommitWait, Consistency::None];

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, ..Timestamp::ZERO }
    }

    #[test]
    fn a_token_is_carried_by_modes_that_use_it_and_grows() {
        let mut order = CausalOrder::new(MODES, Consistency::Hybrid, at(5));
        assert_eq!(order.carried(), Some(at(5)));
        order.learn(at(9));
        order.learn(at(7));
        assert_eq!((order.token(), order.waits_for(at(9))), (at(9), None));
        order.set(Consistency::CommitWait);
        assert_eq!((order.carried(), order.waits_for(at(9))), (Some(at(9)), Some(at(9))));
        order.passed = at(9);
        assert_eq!(order.waits_for(at(9)), None, "it has passed already");
        order.set(Consistency::None);
        order.learn(at(11));
        assert_eq!((order.carried(), order.token()), (None, Timestamp::ZERO));
        assert_eq!(order.seen(), at(11), "for a later transaction of the session");
        // A database whose leaders wait needs no token.
        let spanner = CausalOrder::new(&[Consistency::CommitWait], Consistency::None, at(5));
        assert_eq!((spanner.consistency(), spanner.carried()), (Consistency::CommitWait, None));
        assert_eq!(spanner.seen(), Timestamp::ZERO);
        assert_eq!(spanner.waits_for(at(9)), None);
    }

    #[test]
    fn a_token_that_cannot_be_true_is_refused_with_the_distance() {
        let now = Interval { earliest: 90, latest: 110 };
        assert_eq!(check_token(at(110 + MOST_TOKEN_AHEAD_NS), now), Ok(()));
        let far = check_token(at(113 + MOST_TOKEN_AHEAD_NS), now);
        assert_eq!(far, Err(Failure::FarToken { ahead_ns: MOST_TOKEN_AHEAD_NS + 3 }));
    }
}
