//! Attempts that have locked nothing here, and ask for their commit, or to be prepared, in one
//! trip: blind writes (§4.2.1: writes are buffered at the client).
//!
//! Whoever has locked something names a birth in a leadership, and an echo of his question is told
//! by it. These name a leadership of which their gateway has heard, and until when they may begin:
//! an echo is told by what this leadership remembers, and after that by the time.
//!
//! ```text
//!   begins ──────────────── remembered, however it ends ──────────────▶ by ── nothing begins any more
//! ```
//!
//! 1. In one leadership an attempt begins once; in any other it does not begin.
//! 2. Who was refused never begins. So a refusal is final, and the session may lock first.
//! 3. Time does not go back here: a clock that lies makes sessions lock first, and nothing begin
//!    twice.

use super::two_phase::Ballot;
use meridian_clock::Timestamp;
use meridian_txn::locking::TransactionId;
use std::collections::{BTreeMap, BTreeSet};

/// Who wants to begin within more than this has a clock that is wrong.
const FAR_NS: u64 = 10_000_000_000;
/// So many are remembered.
const MOST: usize = 100_000;
/// And so many that have not begun, and have votes.
const MOST_EARLY: usize = 10_000;

/// Whether an attempt begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It may.
    New,
    /// It did, or was refused.
    Known,
    /// It does not, for its time is over: it may have begun before.
    Late,
}

/// What one leadership remembers of them.
#[derive(Debug, Default)]
pub(super) struct Blinds {
    /// When they committed, if they did.
    known: BTreeMap<TransactionId, Option<Timestamp>>,
    /// Until when they are remembered.
    ends: BTreeSet<(u64, TransactionId)>,
    /// The latest time that was ever read here.
    latest_ns: u64,
    /// Lives of nodes whose times are not to be believed, or who asked too much: nothing of theirs
    /// begins before then, and whatever was refused does not begin later.
    unheard: BTreeMap<(u32, u32), u64>,
    /// Votes that came before the commits that they are for.
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
            self.early.remove(&who); // They ask what became of it.
        }
    }

    /// Whether nothing of a node is heard, or has been since it said this.
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

    /// Somebody wants to begin, by some time at the latest.
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
            // To be refused it would have to be remembered for longer than it may be: all of that
            // node's are refused for as long.
            self.hears_no_more(of, by);
            return Heard::Known;
        }
        self.known.insert(who, None);
        self.ends.insert((by, who));
        Heard::New
    }

    /// Whether an attempt that is not known may yet begin, and its votes are to wait for that.
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

    /// A vote comes that is [expected](Self::expects) to be for somebody who begins.
    pub fn keep(&mut self, who: TransactionId, by: u64, vote: Ballot) {
        if self.early.len() < MOST_EARLY || self.early.contains_key(&who) {
            let votes = self.early.entry(who).or_default();
            votes.retain(|known| known.shard != vote.shard);
            votes.push(vote);
            self.ends.insert((by, who));
        }
    }

    /// The votes that came before it.
    pub fn take_early(&mut self, who: TransactionId) -> Vec<Ballot> {
        self.early.remove(&who).unwrap_or_default()
    }

    /// It is remembered.
    pub fn knows(&self, who: TransactionId) -> bool {
        self.known.contains_key(&who)
    }

    /// It committed.
    pub fn note_commit(&mut self, who: TransactionId, at: Timestamp) {
        if let Some(known) = self.known.get_mut(&who) {
            *known = Some(at);
        }
    }

    /// When it committed, as far as is known.
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
        // The first is forgotten. A clock that goes back does not make it begin again.
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
            "as long as it was refused"
        );
        assert_eq!(blinds.hear(2 * FAR_NS + 1, who(4), 2 * FAR_NS), Heard::Late);
        assert_eq!(
            blinds.hear(2 * FAR_NS + 1, who(5), 2 * FAR_NS + 2),
            Heard::New,
            "and then it is heard again"
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
