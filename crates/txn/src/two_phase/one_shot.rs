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

use super::{Ballot, EarlyVotes};
use crate::TransactionId;
use meridian_clock::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// How far ahead a deadline may lie, in nanoseconds. Farther ahead, the clock of its node is wrong.
const FAR_NS: u64 = 10_000_000_000;
/// The most attempts to remember.
const MOST: usize = 100_000;
/// The most attempts to remember that have votes and are not admitted yet.
const MOST_EARLY: usize = 10_000;

/// The decision on a one-shot commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneShotAdmission {
    /// It may be admitted.
    New,
    /// It was admitted before, or is refused.
    Known,
    /// It is refused because its deadline has passed. It may have been admitted before.
    Late,
}

/// The one-shot commits that a leader term remembers.
#[derive(Debug, Default)]
pub struct OneShots {
    /// The commit timestamps of the remembered attempts; `None` if one has not committed.
    known: BTreeMap<TransactionId, Option<Timestamp>>,
    /// The deadlines until which they are remembered.
    ends: BTreeSet<(u64, TransactionId)>,
    /// The latest time that was ever read here, in nanoseconds since the epoch.
    latest_ns: u64,
    /// Incarnations of nodes with wrong clocks or too many attempts, by `(node, incarnation)`. None
    /// of their attempts is admitted until the given time, by which the deadlines of those that
    /// were refused have passed.
    refused_until: BTreeMap<(u32, u32), u64>,
    /// Votes that arrived before the commits that they are for.
    early: BTreeMap<TransactionId, EarlyVotes>,
}

impl OneShots {
    fn pass(&mut self, latest_ns: u64) {
        self.latest_ns = self.latest_ns.max(latest_ns);
        while let Some((by, txn)) =
            self.ends.first().copied().filter(|(by, _)| *by < self.latest_ns)
        {
            self.ends.remove(&(by, txn));
            self.known.remove(&txn);
            self.early.remove(&txn); // Their shards ask for the outcome.
        }
    }

    /// True if attempts of this incarnation of a node are refused. Extends that to the deadline
    /// `by`.
    fn is_refused(&mut self, of: (u32, u32), by: u64) -> bool {
        let Some(until) = self.refused_until.get_mut(&of).filter(|until| **until >= self.latest_ns)
        else {
            self.refused_until.remove(&of);
            return false;
        };
        *until = by.max(*until);
        true
    }

    fn refuse_until(&mut self, of: (u32, u32), by: u64) {
        self.refused_until.insert(of, by.max(self.latest_ns.saturating_add(FAR_NS)));
    }

    /// Decides whether to admit an attempt with the deadline `by`, and remembers it if so.
    pub fn admit(&mut self, latest_ns: u64, txn: TransactionId, by: u64) -> OneShotAdmission {
        self.pass(latest_ns);
        let of = (txn.node, txn.incarnation);
        if self.known.contains_key(&txn) {
            return OneShotAdmission::Known;
        }
        if by < self.latest_ns {
            return OneShotAdmission::Late;
        }
        if self.is_refused(of, by) {
            return OneShotAdmission::Known;
        }
        if by - self.latest_ns > FAR_NS || self.known.len() >= MOST {
            // A refusal must be remembered until the deadline, which is too long or too much here.
            // So all attempts of this incarnation are refused until then.
            self.refuse_until(of, by);
            return OneShotAdmission::Known;
        }
        self.known.insert(txn, None);
        self.ends.insert((by, txn));
        OneShotAdmission::New
    }

    /// True if an unknown attempt may still be admitted, so that votes for it are to be kept.
    pub fn expects(&mut self, latest_ns: u64, txn: TransactionId, by: u64) -> bool {
        self.pass(latest_ns);
        let of = (txn.node, txn.incarnation);
        if self.known.contains_key(&txn) || by < self.latest_ns {
            return false;
        }
        if by - self.latest_ns > FAR_NS {
            self.refuse_until(of, by);
        }
        !self.is_refused(of, by)
    }

    /// Keeps a vote for an attempt that is [expected](Self::expects).
    pub fn keep(&mut self, txn: TransactionId, by: u64, vote: Ballot) {
        if self.early.len() < MOST_EARLY || self.early.contains_key(&txn) {
            self.early.entry(txn).or_default().keep(vote);
            self.ends.insert((by, txn));
        }
    }

    /// Returns and removes the votes that arrived before the attempt.
    pub fn take_early(&mut self, txn: TransactionId) -> EarlyVotes {
        self.early.remove(&txn).unwrap_or_default()
    }

    /// True if the attempt is remembered.
    pub fn knows(&self, txn: TransactionId) -> bool {
        self.known.contains_key(&txn)
    }

    /// Notes the commit timestamp of an attempt, if it is remembered.
    pub fn note_commit(&mut self, txn: TransactionId, at: Timestamp) {
        if let Some(known) = self.known.get_mut(&txn) {
            *known = Some(at);
        }
    }

    /// Returns the commit timestamp of an attempt, if it is known.
    pub fn committed(&self, txn: TransactionId) -> Option<Timestamp> {
        self.known.get(&txn).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn txn(number: u64) -> TransactionId {
        TransactionId { node: 1, incarnation: 1, number }
    }

    #[test]
    fn an_attempt_begins_once_and_not_after_its_time_whatever_the_clock_does() {
        let mut one_shots = OneShots::default();
        assert_eq!(one_shots.admit(100, txn(1), 200), OneShotAdmission::New);
        assert_eq!(one_shots.admit(150, txn(1), 200), OneShotAdmission::Known);
        assert!(!one_shots.expects(150, txn(1), 200) && one_shots.expects(150, txn(2), 200));
        assert_eq!(one_shots.admit(201, txn(2), 202), OneShotAdmission::New);
        // The first attempt is forgotten. A clock that goes back does not admit it again.
        assert_eq!(one_shots.admit(100, txn(1), 200), OneShotAdmission::Late);
        assert!(!one_shots.expects(100, txn(1), 200));
    }

    #[test]
    fn one_shot_commits_with_far_deadlines_or_too_many_are_refused() {
        let mut one_shots = OneShots::default();
        assert_eq!(one_shots.admit(0, txn(1), FAR_NS + 1), OneShotAdmission::Known);
        assert_eq!(
            one_shots.admit(FAR_NS, txn(1), FAR_NS + 1),
            OneShotAdmission::Known,
            "a refusal is final"
        );
        assert_eq!(one_shots.admit(FAR_NS, txn(2), FAR_NS + 1), OneShotAdmission::Known);
        assert_eq!(
            one_shots.admit(FAR_NS, TransactionId { incarnation: 2, ..txn(3) }, FAR_NS + 1),
            OneShotAdmission::New
        );
        assert_eq!(
            one_shots.admit(FAR_NS + 1, txn(4), 2 * FAR_NS),
            OneShotAdmission::Known,
            "refused until the deadline of the refused attempt"
        );
        assert_eq!(one_shots.admit(2 * FAR_NS + 1, txn(4), 2 * FAR_NS), OneShotAdmission::Late);
        assert_eq!(
            one_shots.admit(2 * FAR_NS + 1, txn(5), 2 * FAR_NS + 2),
            OneShotAdmission::New,
            "admitted again afterwards"
        );
    }

    #[test]
    fn what_became_of_it_is_remembered_as_long() {
        let at = Timestamp { nanos: 120, logical: 0, issuer: 1 };
        let mut one_shots = OneShots::default();
        one_shots.admit(100, txn(1), 200);
        one_shots.note_commit(txn(1), at);
        one_shots.note_commit(txn(2), at);
        assert_eq!((one_shots.committed(txn(1)), one_shots.committed(txn(2))), (Some(at), None));
    }
}
