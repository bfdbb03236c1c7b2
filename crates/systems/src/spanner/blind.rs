//! One-shot commits: attempts that have locked nothing here and ask to commit, or to be prepared,
//! in one round trip (§4.2.1: writes are buffered at the client).
//!
//! An attempt that holds locks names the admission and the leader term under which it took them,
//! which tells a late copy of a request from a new one. A one-shot commit names the leader term
//! that its coordinator last heard of, and a deadline for its admission. Until the deadline this
//! leader term remembers it; after the deadline it is not admitted.
//!
//! ```text
//!   admitted or refused ────── remembered, however it ends ─────▶ deadline ── never admitted
//! ```
//!
//! 1. A leader term admits an attempt at most once. Every other term refuses it.
//! 2. A refused attempt is never admitted later. So a refusal is final, and the session may retry
//!    with locks.
//! 3. Time does not go back here: a wrong clock makes sessions take locks first, and never admits
//!    an attempt twice.

use super::two_phase::Ballot;
use meridian_clock::Timestamp;
use meridian_txn::locking::TransactionId;
use std::collections::{BTreeMap, BTreeSet};

/// How far ahead a deadline may lie, in nanoseconds. Farther ahead, the clock of its node is wrong.
const FAR_NS: u64 = 10_000_000_000;
/// The most attempts to remember.
const MOST: usize = 100_000;
/// The most attempts to remember that have votes and are not admitted yet.
const MOST_EARLY: usize = 10_000;

/// The decision on a one-shot commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It may be admitted.
    New,
    /// It was admitted before, or is refused.
    Known,
    /// It is refused because its deadline has passed. It may have been admitted before.
    Late,
}

/// The one-shot commits that a leader term remembers.
#[derive(Debug, Default)]
pub(super) struct Blinds {
    /// The commit timestamps of the remembered attempts; `None` if one has not committed.
    known: BTreeMap<TransactionId, Option<Timestamp>>,
    /// The deadlines until which they are remembered.
    ends: BTreeSet<(u64, TransactionId)>,
    /// The latest time that was ever read here, in nanoseconds since the epoch.
    latest_ns: u64,
    /// Incarnations of nodes with wrong clocks or too many attempts, by `(node, incarnation)`. None
    /// of their attempts is admitted until the given time, by which the deadlines of those that
    /// were refused have passed.
    unheard: BTreeMap<(u32, u32), u64>,
    /// Votes that arrived before the commits that they are for.
    early: BTreeMap<TransactionId, Vec<Ballot>>,
}

impl Blinds {
    fn pass(&mut self, latest_ns: u64) {
        self.latest_ns = self.latest_ns.max(latest_ns);
        while let Some((by, who)) =
            self.ends.first().copied().filter(|(by, _)| *by < self.latest_ns)
        {
            self.ends.remove(&(by, who));
            self.known.remove(&who);
            self.early.remove(&who); // Their shards ask for the outcome.
        }
    }

    /// True if attempts of this incarnation of a node are refused. Extends that to the deadline
    /// `by`.
    fn is_unheard(&mut self, of: (u32, u32), by: u64) -> bool {
        let Some(until) = self.unheard.get_mut(&of).filter(|until| **until >= self.latest_ns)
        else {
            self.unheard.remove(&of);
            return false;
        };
        *until = by.max(*until);
        true
    }

    fn hears_no_more(&mut self, of: (u32, u32), by: u64) {
        self.unheard.insert(of, by.max(self.latest_ns.saturating_add(FAR_NS)));
    }

    /// Decides whether to admit an attempt with the deadline `by`, and remembers it if so.
    pub fn hear(&mut self, latest_ns: u64, who: TransactionId, by: u64) -> Heard {
        self.pass(latest_ns);
        let of = (who.node, who.incarnation);
        if self.known.contains_key(&who) {
            return Heard::Known;
        }
        if by < self.latest_ns {
            return Heard::Late;
        }
        if self.is_unheard(of, by) {
            return Heard::Known;
        }
        if by - self.latest_ns > FAR_NS || self.known.len() >= MOST {
            // A refusal must be remembered until the deadline, which is too long or too much here.
            // So all attempts of this incarnation are refused until then.
            self.hears_no_more(of, by);
            return Heard::Known;
        }
        self.known.insert(who, None);
        self.ends.insert((by, who));
        Heard::New
    }

    /// True if an unknown attempt may still be admitted, so that votes for it are to be kept.
    pub fn expects(&mut self, latest_ns: u64, who: TransactionId, by: u64) -> bool {
        self.pass(latest_ns);
        let of = (who.node, who.incarnation);
        if self.known.contains_key(&who) || by < self.latest_ns {
            return false;
        }
        if by - self.latest_ns > FAR_NS {
            self.hears_no_more(of, by);
        }
        !self.is_unheard(of, by)
    }

    /// Keeps a vote for an attempt that is [expected](Self::expects).
    pub fn keep(&mut self, who: TransactionId, by: u64, vote: Ballot) {
        if self.early.len() < MOST_EARLY || self.early.contains_key(&who) {
            let votes = self.early.entry(who).or_default();
            votes.retain(|known| known.shard != vote.shard);
            votes.push(vote);
            self.ends.insert((by, who));
        }
    }

    /// Returns and removes the votes that arrived before the attempt.
    pub fn take_early(&mut self, who: TransactionId) -> Vec<Ballot> {
        self.early.remove(&who).unwrap_or_default()
    }

    /// True if the attempt is remembered.
    pub fn knows(&self, who: TransactionId) -> bool {
        self.known.contains_key(&who)
    }

    /// Notes the commit timestamp of an attempt, if it is remembered.
    pub fn note_commit(&mut self, who: TransactionId, at: Timestamp) {
        if let Some(known) = self.known.get_mut(&who) {
            *known = Some(at);
        }
    }

    /// Returns the commit timestamp of an attempt, if it is known.
    pub fn committed(&self, who: TransactionId) -> Option<Timestamp> {
        self.known.get(&who).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(number: u64) -> TransactionId {
        TransactionId { node: 1, incarnation: 1, number }
    }

    #[test]
    fn an_attempt_begins_once_and_not_after_its_time_whatever_the_clock_does() {
        let mut blinds = Blinds::default();
        assert_eq!(blinds.hear(100, who(1), 200), Heard::New);
        assert_eq!(blinds.hear(150, who(1), 200), Heard::Known);
        assert!(!blinds.expects(150, who(1), 200) && blinds.expects(150, who(2), 200));
        assert_eq!(blinds.hear(201, who(2), 202), Heard::New);
        // The first attempt is forgotten. A clock that goes back does not admit it again.
        assert_eq!(blinds.hear(100, who(1), 200), Heard::Late);
        assert!(!blinds.expects(100, who(1), 200));
    }

    #[test]
    fn who_asks_for_too_long_or_for_too_much_is_not_heard_any_more() {
        let mut blinds = Blinds::default();
        assert_eq!(blinds.hear(0, who(1), FAR_NS + 1), Heard::Known);
        assert_eq!(blinds.hear(FAR_NS, who(1), FAR_NS + 1), Heard::Known, "a refusal is final");
        assert_eq!(blinds.hear(FAR_NS, who(2), FAR_NS + 1), Heard::Known);
        assert_eq!(
            blinds.hear(FAR_NS, TransactionId { incarnation: 2, ..who(3) }, FAR_NS + 1),
            Heard::New
        );
        assert_eq!(
            blinds.hear(FAR_NS + 1, who(4), 2 * FAR_NS),
            Heard::Known,
            "refused until the deadline of the refused attempt"
        );
        assert_eq!(blinds.hear(2 * FAR_NS + 1, who(4), 2 * FAR_NS), Heard::Late);
        assert_eq!(
            blinds.hear(2 * FAR_NS + 1, who(5), 2 * FAR_NS + 2),
            Heard::New,
            "admitted again afterwards"
        );
    }

    #[test]
    fn what_became_of_it_is_remembered_as_long() {
        let at = Timestamp { nanos: 120, logical: 0, issuer: 1 };
        let mut blinds = Blinds::default();
        blinds.hear(100, who(1), 200);
        blinds.note_commit(who(1), at);
        blinds.note_commit(who(2), at);
        assert_eq!((blinds.committed(who(1)), blinds.committed(who(2))), (Some(at), None));
    }
}
