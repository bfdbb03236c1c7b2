//! Copies of the settled state to a new replica, which no record contains any more: it reads them
//! page by page from other replicas.
//!
//! ```text
//!   the first view begins    its record has all that commits above the settled timestamp;
//!                            the copy is to have the state at that timestamp
//!   Copy(range) ──▶ another replica    Looked(page, rest) ◀──    install, then request the rest
//!   nothing is left, all of it is durable in the store, and the log says so ──▶ it serves
//! ```
//!
//! A crash before that restarts the copy, at the same timestamp.
//!
//! Until it serves, the replica votes, for which the record suffices, but serves no reads. So it
//! does not count as having taken over, and no replica forgets anything. It has no history: reads
//! below the copy's timestamp are refused.

use super::{LogRecord, Message, Page};
use crate::tapir::rules;
use meridian_clock::Timestamp;
use meridian_machine::NodeId;
use meridian_machine::planted::broken;
use meridian_mvcc::{KeyRange, Write};
use meridian_replication::inconsistent::{Op, OpId};
use meridian_txn::tapir::InconsistentOp;

/// How many rows a page has, at most.
const PAGE_ROWS: u32 = 10_000;

/// A copy under way.
#[derive(Clone, Debug)]
pub(super) struct Copying {
    /// The ranges to copy: the shard's keys, and those of the shard's local rows.
    all: Vec<KeyRange>,
    /// The timestamp of the copy; `None` before a view has begun.
    at: Option<Timestamp>,
    /// The ranges that are still missing; empty when the copy is complete.
    rest: Vec<KeyRange>,
    /// The last request.
    asked: Option<OpId>,
    /// The index of the replica to ask next.
    turn: usize,
}

/// A page of a copy.
pub(super) struct Copied {
    /// The versions to install.
    pub versions: Vec<(Timestamp, Write)>,
    /// The timestamp of the copy, if this was its last page.
    pub all: Option<Timestamp>,
}

impl Copying {
    /// Starts a copy of these ranges; at this timestamp, if a copy began with it before a restart.
    pub fn of(all: Vec<KeyRange>, at: Option<Timestamp>) -> Copying {
        Copying { rest: all.clone(), all, at, asked: None, turn: 0 }
    }

    /// Returns the timestamp of a copy that began before a restart, from the log records: what was
    /// settled when the first view of the epoch began, or the last one that came with its whole
    /// record. Later views settle more, which former replicas do not learn. Nothing above the
    /// timestamp is forgotten until the copy is durable in the store.
    pub fn began_at(logged: &[LogRecord], epoch: u32) -> Option<Timestamp> {
        let (mut settled, mut at) = (Timestamp::ZERO, None);
        for logged in logged {
            let LogRecord::Began { view, changes, upon, .. } = logged else { continue };
            let facts = changes.values().flatten().filter_map(|entry| match &entry.op {
                Op::Inconsistent(InconsistentOp::Over(past)) => Some(past.settled),
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

    /// True if no range is missing.
    pub fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// Notes that a view has begun, with a record that has everything above the settled timestamp.
    /// If the record came whole, the view need not descend from the one with which the copy began,
    /// whose record may have had more: the copy restarts.
    pub fn begin(&mut self, settled: Timestamp, whole: bool) {
        if self.at.is_none() || whole && self.at < Some(settled) {
            (self.at, self.rest, self.asked) = (Some(settled), self.all.clone(), None);
        }
    }

    /// True if nothing was settled, so that there is nothing to copy.
    pub fn is_of_nothing(&mut self) -> bool {
        let nothing = self.at == Some(Timestamp::ZERO);
        self.rest.retain(|_| !nothing);
        nothing
    }

    /// Makes a request to one of the other replicas, in rotation.
    pub fn ask(&mut self, id: OpId, others: &[NodeId]) -> Option<(NodeId, Message)> {
        let (at, range) = (self.at?, self.rest.last()?.clone());
        let to = *others.get(self.turn % others.len().max(1))?;
        (self.asked, self.turn) = (Some(id), self.turn + 1);
        Some((to, Message::Copy { id, at, range, limit_rows: PAGE_ROWS }))
    }

    /// Takes in the page that was requested last. The replica that sent it is asked again.
    pub fn take(&mut self, id: OpId, page: Page) -> Option<Copied> {
        self.asked.take_if(|asked| *asked == id)?;
        self.turn = self.turn.saturating_sub(1);
        self.rest.pop();
        self.rest.extend(page.rest);
        Some(Copied { versions: page.versions, all: self.at.filter(|_| self.is_done()) })
    }

    /// Restarts the copy at the oldest timestamp that a replica keeps, because the requested one is
    /// older.
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

    fn began(number: u64, upon: Option<u64>, settled: u64) -> LogRecord {
        let of = |number| View { epoch: 1, number };
        let op = Op::Inconsistent(InconsistentOp::Over(Past {
            closed: at(settled),
            settled: at(settled),
        }));
        let entry = Entry { op, state: State::Finalized(None), merged: Some(of(number)) };
        let id = OpId { node: 1, incarnation: 1, number: 1 };
        let changes = ChangesOf::<super::super::Shard>::from([(id, Some(entry))]);
        LogRecord::Began { view: of(number), upon: upon.map(of), changes, decided: Vec::new() }
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
        // A page of the earlier copy does not count for this one.
        assert!(copying.take(id, Page { versions: Vec::new(), rest: None }).is_none());
    }
}
