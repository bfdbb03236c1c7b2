//! How a replica that takes over gets what is in no record any more: it reads what is settled at
//! another one, page by page.
//!
//! ```text
//!   the first view begins    its record has all that ever commits above what is settled; so what is wanted is what stood there
//!   Copy(range) ──▶ one of the others    Looked(page, rest) ◀──    installed, and the rest is asked for
//!   …                                    nothing is left; once all of that is in the store for good, and that is on disk, it serves
//! ```
//!
//! A crash before that begins the copy anew, as of the same timestamp.
//!
//! Until then it votes, as that takes what the record has, and serves no reads: nobody takes it for
//! one that has taken over, and nothing is forgotten anywhere. It has no history: what stood below
//! is refused.

use super::{Kept, Message, Page};
use crate::tapir::rules;
use meridian_clock::Timestamp;
use meridian_machine::NodeId;
use meridian_machine::planted::broken;
use meridian_mvcc::{KeyRange, Write};
use meridian_replication::inconsistent::{Op, OpId};
use meridian_txn::tapir::Fact;

/// So many rows are asked for at once.
const PAGE_ROWS: u32 = 10_000;

/// A copy under way.
#[derive(Clone, Debug)]
pub(super) struct Copying {
    /// The shard's keys, and those of rows about the shard itself.
    all: Vec<KeyRange>,
    /// As of when; none, before a view has begun.
    at: Option<Timestamp>,
    /// What is wanted still; nothing, when all is here.
    rest: Vec<KeyRange>,
    /// The question that was asked last.
    asked: Option<OpId>,
    /// Whose turn it is to be asked.
    turn: usize,
}

/// What comes of a page.
pub(super) struct Copied {
    /// These versions are to be installed.
    pub versions: Vec<(Timestamp, Write)>,
    /// That was all, as of this timestamp.
    pub all: Option<Timestamp>,
}

impl Copying {
    /// Of all these ranges; as of this timestamp, if an earlier life began with that.
    pub fn of(all: Vec<KeyRange>, at: Option<Timestamp>) -> Copying {
        Copying { rest: all.clone(), all, at, asked: None, turn: 0 }
    }

    /// As of when an earlier life copied, by what it kept: what was settled when the first view of
    /// the epoch began, or one that came with its whole record. Later views settle more, of which a
    /// former replica does not hear; nothing above is forgotten until the copy is in the store for
    /// good.
    pub fn began_at(kept: &[Kept], epoch: u32) -> Option<Timestamp> {
        let (mut settled, mut at) = (Timestamp::ZERO, None);
        for kept in kept {
            let Kept::Began { view, changes, upon, .. } = kept else { continue };
            let facts = changes.values().flatten().filter_map(|entry| match &entry.op {
                Op::Inconsistent(Fact::Over(past)) => Some(past.settled),
                _ => None,
            });
            settled = facts.fold(settled, Timestamp::max);
            let moves = at.is_none() || upon.is_none() || broken(rules::COPY_MOVES_ON);
            if view.epoch == epoch && moves {
                at = Some(settled);
            }
        }
        at
    }

    /// Whether nothing is wanted any more.
    pub fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// A view has begun, with a record that has everything above what is settled. If that came
    /// whole, the view need not descend from the one with which the copy began, whose record may
    /// have had more: the copy begins anew.
    pub fn begin(&mut self, settled: Timestamp, whole: bool) {
        if self.at.is_none() || whole && self.at < Some(settled) {
            (self.at, self.rest, self.asked) = (Some(settled), self.all.clone(), None);
        }
    }

    /// Whether nothing stood there, so that nothing is wanted.
    pub fn is_of_nothing(&mut self) -> bool {
        let nothing = self.at == Some(Timestamp::ZERO);
        self.rest.retain(|_| !nothing);
        nothing
    }

    /// Asks one of the others, another one each time.
    pub fn ask(&mut self, id: OpId, others: &[NodeId]) -> Option<(NodeId, Message)> {
        let (at, range) = (self.at?, self.rest.last()?.clone());
        let to = *others.get(self.turn % others.len().max(1))?;
        (self.asked, self.turn) = (Some(id), self.turn + 1);
        Some((to, Message::Copy { id, at, range, limit_rows: PAGE_ROWS }))
    }

    /// Takes in what was asked for last. Whoever answered well is asked again.
    pub fn take(&mut self, id: OpId, page: Page) -> Option<Copied> {
        self.asked.take_if(|asked| *asked == id)?;
        self.turn = self.turn.saturating_sub(1);
        self.rest.pop();
        self.rest.extend(page.rest);
        Some(Copied { versions: page.versions, all: self.at.filter(|_| self.is_done()) })
    }

    /// What is wanted is older than what somebody keeps: it begins anew with the oldest there.
    pub fn too_old(&mut self, id: OpId, oldest: Timestamp) {
        if self.asked.take_if(|asked| *asked == id).is_some() && self.at < Some(oldest) {
            (self.at, self.rest) = (Some(oldest), self.all.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_replication::inconsistent::{ChangesOf, Entry, State, View};
    use meridian_txn::tapir::Past;

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, ..Timestamp::ZERO }
    }

    fn began(number: u64, upon: Option<u64>, settled: u64) -> Kept {
        let of = |number| View { epoch: 1, number };
        let op = Op::Inconsistent(Fact::Over(Past { closed: at(settled), settled: at(settled) }));
        let entry = Entry { op, state: State::Finalized(None), merged: Some(of(number)) };
        let id = OpId { node: 1, incarnation: 1, number: 1 };
        let changes = ChangesOf::<super::super::Shard>::from([(id, Some(entry))]);
        Kept::Began { view: of(number), upon: upon.map(of), changes, decided: Vec::new() }
    }

    #[test]
    fn a_copy_is_as_of_the_first_view_or_one_that_came_whole() {
        let (first, second) = (began(0, None, 10), began(1, Some(0), 20));
        assert_eq!(Copying::began_at(&[], 1), None);
        assert_eq!(Copying::began_at(&[first.clone(), second.clone()], 1), Some(at(10)));
        assert_eq!(Copying::began_at(&[first, second, began(3, None, 30)], 1), Some(at(30)));
        let all = vec![KeyRange::all()];
        let mut copying = Copying::of(all.clone(), None);
        let id = OpId { node: 2, incarnation: 1, number: 1 };
        copying.begin(at(10), true);
        assert!(copying.ask(id, &[NodeId(1)]).is_some());
        copying.begin(at(20), false);
        assert_eq!(copying.at, Some(at(10)));
        copying.begin(at(30), true);
        assert_eq!((copying.at, &copying.rest), (Some(at(30)), &all));
        // A page of the earlier copy is not one of this.
        assert!(copying.take(id, Page { versions: Vec::new(), rest: None }).is_none());
    }
}
