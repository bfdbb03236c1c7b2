//! Messages of clients and replicas, and the records that replicas keep on disk.

use minicbor::{Decode, Encode};
use std::collections::BTreeMap;
use std::fmt;

/// The id of an operation. It is unique because a client's incarnation is, and the operation with
/// an id never changes (Trap A.2-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct OpId {
    /// The client's node.
    #[n(0)]
    pub node: u32,
    /// The client's incarnation.
    #[n(1)]
    pub incarnation: u32,
    /// The client's number for the operation.
    #[n(2)]
    pub number: u64,
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.node, self.incarnation, self.number)
    }
}

/// The period between two view changes. Answers count together only if they were given in the same
/// view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct View {
    /// The epoch, which determines the replicas.
    #[n(0)]
    pub epoch: u32,
    /// The number of the view in its epoch.
    #[n(1)]
    pub number: u64,
}

impl View {
    /// Returns a view of the first epoch.
    pub const fn of(number: u64) -> View {
        View { epoch: 0, number }
    }

    /// Returns the next view of the epoch.
    pub const fn next(self) -> View {
        View { number: self.number + 1, ..self }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.epoch {
            0 => write!(f, "v{}", self.number),
            epoch => write!(f, "e{epoch}.v{}", self.number),
        }
    }
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Op<I, C> {
    /// An operation that can be executed in any order, at any replica, and always succeeds.
    #[n(0)]
    Inconsistent(#[n(0)] I),
    /// An operation to which replicas may give different results; one becomes the group's.
    #[n(1)]
    Consensus(#[n(0)] C),
}

/// A replica's state of an operation. The result is that of a consensus operation.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum State<R> {
    /// The operation was proposed. A consensus operation was executed here, with this result.
    #[n(0)]
    Tentative(#[n(0)] Option<R>),
    /// The group's result is known. An inconsistent operation was executed here.
    #[n(1)]
    Finalized(#[n(0)] Option<R>),
}

impl<R> State<R> {
    /// Returns the result of a consensus operation.
    pub fn result(&self) -> Option<&R> {
        let (State::Tentative(result) | State::Finalized(result)) = self;
        result.as_ref()
    }

    /// True if the result is the group's.
    pub fn is_final(&self) -> bool {
        matches!(self, State::Finalized(_))
    }
}

/// An operation in a record.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Entry<I, C, R> {
    /// The operation.
    #[n(0)]
    pub op: Op<I, C>,
    /// Its state.
    #[n(1)]
    pub state: State<R>,
    /// The first view that began with it; none for an operation that was proposed since.
    #[n(2)]
    pub merged: Option<View>,
}

impl<I, C, R> Entry<I, C, R> {
    /// True for an inconsistent operation that was executed here since the last view began: it
    /// holds whether or not other replicas have received it.
    pub fn is_told(&self) -> bool {
        matches!(self.op, Op::Inconsistent(_)) && self.state.is_final() && self.merged.is_none()
    }
}

/// A replica's record: the set of the operations that it has, without an order.
pub type Record<I, C, R> = BTreeMap<OpId, Entry<I, C, R>>;

/// The changes since another record; `None` for operations that are forgotten.
pub type Changes<I, C, R> = BTreeMap<OpId, Option<Entry<I, C, R>>>;

/// A part of a record or of its changes, in the order of operation ids.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Part<I, C, R> {
    /// The view to whose record these are the changes; none for a part of a whole record.
    #[n(0)]
    pub upon: Option<View>,
    /// The first id of the part; none at the beginning.
    #[n(1)]
    pub from: Option<OpId>,
    /// The changes in the part.
    #[n(2)]
    pub changes: Changes<I, C, R>,
    /// The first id of the next part; none if this is the last one.
    #[n(3)]
    pub rest: Option<OpId>,
}

impl<I, C, R> Part<I, C, R> {
    /// Returns a whole record as one part.
    pub fn whole(record: Record<I, C, R>) -> Self {
        let changes = record.into_iter().map(|(id, entry)| (id, Some(entry))).collect();
        Part { upon: None, from: None, changes, rest: None }
    }
}

/// A record of a replica on disk; records are replayed in order.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum LogRecord<I, C, R> {
    /// An operation was proposed.
    #[n(0)]
    Proposed {
        /// Its id.
        #[n(0)]
        id: OpId,
        /// The operation.
        #[n(1)]
        op: Op<I, C>,
        /// A consensus operation's result here.
        #[n(2)]
        result: Option<R>,
    },
    /// The result of an operation is known.
    #[n(1)]
    Finalized {
        /// The operation's id.
        #[n(0)]
        id: OpId,
        /// The group's result.
        #[n(1)]
        result: Option<R>,
    },
    /// The replica answers nothing any more in views before this one.
    #[n(2)]
    Left {
        /// The view.
        #[n(0)]
        view: View,
    },
    /// A view has begun, with this record in place of the former one.
    #[n(3)]
    Began {
        /// The view.
        #[n(0)]
        view: View,
        /// The view to whose record the changes apply; none if they are the whole record.
        #[n(1)]
        upon: Option<View>,
        /// The record with which the view began, or its changes.
        #[n(2)]
        changes: Changes<I, C, R>,
        /// Operations that were proposed or told here since the former view and are in the new
        /// record: their ids and results.
        #[n(3)]
        decided: Vec<(OpId, Option<R>)>,
    },
    /// The host has durably stored everything that a view began with.
    #[n(5)]
    Stored {
        /// The view.
        #[n(0)]
        view: View,
        /// The position of the host's store then. A store that is at a lower position has lost
        /// entries that exist nowhere else.
        #[n(1)]
        position: u64,
    },
    /// An inconsistent operation was told and executed.
    #[n(4)]
    Told {
        /// The operation's id.
        #[n(0)]
        id: OpId,
        /// The operation.
        #[n(1)]
        op: I,
    },
}

impl<I, C, R> LogRecord<I, C, R> {
    /// Returns the lowest position that the host's store must have according to these records; none
    /// if no `Stored` is among them.
    pub fn goes_to(logged: &[Self]) -> Option<u64> {
        let position = |logged: &Self| {
            if let LogRecord::Stored { position, .. } = logged { Some(*position) } else { None }
        };
        logged.iter().filter_map(position).max()
    }
}

/// A message of a client or a replica.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message<I, C, R> {
    /// A client proposes an operation to every replica.
    #[n(0)]
    Propose {
        /// The operation's id.
        #[n(0)]
        id: OpId,
        /// The operation.
        #[n(1)]
        op: Op<I, C>,
        /// The newest view that the client knows.
        #[n(2)]
        newest: View,
    },
    /// The answer to `Propose`: the replica has the operation on disk.
    #[n(1)]
    Reply {
        /// The operation's id.
        #[n(0)]
        id: OpId,
        /// The replica's view.
        #[n(1)]
        view: View,
        /// The replica's state of the operation.
        #[n(2)]
        state: State<R>,
    },
    /// A client sends the group's result; an inconsistent operation is executed.
    #[n(2)]
    Finalize {
        /// The operation's id.
        #[n(0)]
        id: OpId,
        /// A consensus operation's result.
        #[n(1)]
        result: Option<R>,
        /// The newest view that the client knows.
        #[n(2)]
        newest: View,
        /// The view of the answers from which the client decided.
        #[n(3)]
        decided: View,
    },
    /// The answer to `Finalize`: the replica has the result on disk.
    #[n(3)]
    Confirm {
        /// The operation's id.
        #[n(0)]
        id: OpId,
        /// The replica's view.
        #[n(1)]
        view: View,
    },
    /// The answer to `Finalize` for an operation that was never proposed to the replica, or is
    /// forgotten.
    #[n(4)]
    Missing {
        /// The operation's id.
        #[n(0)]
        id: OpId,
        /// The replica's view.
        #[n(1)]
        view: View,
    },
    /// A replica answers nothing any more before this view begins.
    #[n(5)]
    LeaveView {
        /// The view.
        #[n(0)]
        view: View,
    },
    /// A replica has left for this view, and sends its record to the view's leader
    /// (DO-VIEW-CHANGE).
    #[n(6)]
    Change {
        /// The view that is to begin.
        #[n(0)]
        view: View,
        /// The last view that began at the replica.
        #[n(1)]
        last: View,
        /// A part of the operations since that view, or of the whole record.
        #[n(2)]
        part: Part<I, C, R>,
        /// The newest view of which the replica's host has durably stored everything that it began
        /// with.
        #[n(3)]
        stored: View,
    },
    /// A view begins with this record.
    #[n(7)]
    StartView {
        /// The view.
        #[n(0)]
        view: View,
        /// A part of the merged record, or of its changes against the view before.
        #[n(1)]
        part: Part<I, C, R>,
    },
    /// A replica has the view's record on disk.
    #[n(8)]
    Started {
        /// The view.
        #[n(0)]
        view: View,
    },
    /// A client sends a fact to every replica: an inconsistent operation that is true at each
    /// replica that receives it, and for which the client does not wait. It is executed at once,
    /// and not answered.
    #[n(9)]
    Tell {
        /// The operation's id.
        #[n(0)]
        id: OpId,
        /// The operation.
        #[n(1)]
        op: I,
    },
    /// Asks for the next part of a record; or for the whole record, if the replica lacks the one
    /// that the changes apply to.
    #[n(11)]
    More {
        /// The view that is to begin, or has.
        #[n(0)]
        view: View,
        /// The view to whose record the changes apply; none for the whole record.
        #[n(1)]
        upon: Option<View>,
        /// The first id of the part; none for the first part.
        #[n(2)]
        from: Option<OpId>,
    },
    /// A client asks for a view change, which decides everything that is undecided in this view.
    #[n(10)]
    Renew {
        /// The view to end. A replica in a later view does nothing.
        #[n(0)]
        view: View,
    },
}
