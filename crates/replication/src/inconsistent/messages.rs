//! What clients and replicas say, and what replicas keep.

use minicbor::{Decode, Encode};
use std::collections::BTreeMap;
use std::fmt;

/// An operation: never the same one twice, because a client's life is not, and what is asked under
/// it never changes (Trap A.2-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct OpId {
    /// The client's node.
    #[n(0)]
    pub node: u32,
    /// Its life.
    #[n(1)]
    pub incarnation: u32,
    /// Its own number.
    #[n(2)]
    pub number: u64,
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.node, self.incarnation, self.number)
    }
}

/// Between two view changes. Answers count together only when they were given in the same view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct View {
    /// Whose replicas are in it.
    #[n(0)]
    pub epoch: u32,
    /// Views of an epoch are counted.
    #[n(1)]
    pub number: u64,
}

impl View {
    /// A view of the first epoch.
    pub const fn of(number: u64) -> View {
        View { epoch: 0, number }
    }

    /// The one after this.
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

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Op<I, C> {
    /// It can be done in any order, at any replica, and always succeeds.
    #[n(0)]
    Inconsistent(#[n(0)] I),
    /// Replicas may answer it differently; one answer becomes the group's.
    #[n(1)]
    Consensus(#[n(0)] C),
}

/// What a replica knows of an operation; a result is that of a consensus operation.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum State<R> {
    /// It was proposed. A consensus operation was executed here, with this result.
    #[n(0)]
    Tentative(#[n(0)] Option<R>),
    /// This is the group's result. An inconsistent operation was executed here.
    #[n(1)]
    Finalized(#[n(0)] Option<R>),
}

impl<R> State<R> {
    /// The result, if it is a consensus operation's.
    pub fn result(&self) -> Option<&R> {
        let (State::Tentative(result) | State::Finalized(result)) = self;
        result.as_ref()
    }

    /// Whether that is the group's.
    pub fn is_final(&self) -> bool {
        matches!(self, State::Finalized(_))
    }
}

/// An operation in a record.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Entry<I, C, R> {
    /// What was asked for.
    #[n(0)]
    pub op: Op<I, C>,
    /// What is known of it.
    #[n(1)]
    pub state: State<R>,
    /// The first view that began with it; none for what was proposed since.
    #[n(2)]
    pub merged: Option<View>,
}

impl<I, C, R> Entry<I, C, R> {
    /// Whether an inconsistent operation was executed here since the last view began: that is so,
    /// whoever else has heard of it.
    pub fn is_told(&self) -> bool {
        matches!(self.op, Op::Inconsistent(_)) && self.state.is_final() && self.merged.is_none()
    }
}

/// What a replica has of the operations that were proposed: a set, not a sequence.
pub type Record<I, C, R> = BTreeMap<OpId, Entry<I, C, R>>;

/// What became of operations since another record; none of those that are forgotten.
pub type Changes<I, C, R> = BTreeMap<OpId, Option<Entry<I, C, R>>>;

/// A part of what there is to say of a record, in the order of its operations.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Part<I, C, R> {
    /// Only what is other than in the record with which this view began; none, if the record is
    /// said as a whole.
    #[n(0)]
    pub upon: Option<View>,
    /// It begins here; none, at the beginning.
    #[n(1)]
    pub from: Option<OpId>,
    /// What lies in it.
    #[n(2)]
    pub changes: Changes<I, C, R>,
    /// The next one begins here; none, if there is none.
    #[n(3)]
    pub rest: Option<OpId>,
}

impl<I, C, R> Part<I, C, R> {
    /// All of a record at once.
    pub fn whole(record: Record<I, C, R>) -> Self {
        let changes = record.into_iter().map(|(id, entry)| (id, Some(entry))).collect();
        Part { upon: None, from: None, changes, rest: None }
    }
}

/// What is kept on disk, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Kept<I, C, R> {
    /// Something was proposed.
    #[n(0)]
    Proposed {
        /// Which.
        #[n(0)]
        id: OpId,
        /// What.
        #[n(1)]
        op: Op<I, C>,
        /// A consensus operation's result here.
        #[n(2)]
        result: Option<R>,
    },
    /// An operation's result is known.
    #[n(1)]
    Finalized {
        /// Whose.
        #[n(0)]
        id: OpId,
        /// The group's.
        #[n(1)]
        result: Option<R>,
    },
    /// Nothing is answered any more in views before this one.
    #[n(2)]
    Left {
        /// It.
        #[n(0)]
        view: View,
    },
    /// A view has begun, with this record in place of what was there.
    #[n(3)]
    Began {
        /// It.
        #[n(0)]
        view: View,
        /// The changes are to the record with which this view began; none, if they are to nothing.
        #[n(1)]
        upon: Option<View>,
        /// What it began with.
        #[n(2)]
        changes: Changes<I, C, R>,
        /// Besides, what had come since as it was proposed or told here, and what was decided of
        /// it.
        #[n(3)]
        decided: Vec<(OpId, Option<R>)>,
    },
    /// The host has for good what a view began with.
    #[n(5)]
    Stored {
        /// It.
        #[n(0)]
        view: View,
        /// How far the host's store went then: one that goes less far by now has lost what is
        /// nowhere else any more.
        #[n(1)]
        position: u64,
    },
    /// An inconsistent operation was told and executed.
    #[n(4)]
    Told {
        /// Which.
        #[n(0)]
        id: OpId,
        /// What.
        #[n(1)]
        op: I,
    },
}

impl<I, C, R> Kept<I, C, R> {
    /// How far the host's store has to go, with what was kept; none, if it was never said to have
    /// anything for good.
    pub fn goes_to(kept: &[Self]) -> Option<u64> {
        let position = |kept: &Self| {
            if let Kept::Stored { position, .. } = kept { Some(*position) } else { None }
        };
        kept.iter().filter_map(position).max()
    }
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message<I, C, R> {
    /// A client asks every replica.
    #[n(0)]
    Propose {
        /// Which operation.
        #[n(0)]
        id: OpId,
        /// What it is.
        #[n(1)]
        op: Op<I, C>,
        /// The newest view that the client has heard of.
        #[n(2)]
        newest: View,
    },
    /// A replica has it on disk.
    #[n(1)]
    Reply {
        /// Which operation.
        #[n(0)]
        id: OpId,
        /// The view that the replica is in.
        #[n(1)]
        view: View,
        /// What it knows of it.
        #[n(2)]
        state: State<R>,
    },
    /// A client tells the group's result; an inconsistent operation is to be executed.
    #[n(2)]
    Finalize {
        /// Which operation.
        #[n(0)]
        id: OpId,
        /// A consensus operation's result.
        #[n(1)]
        result: Option<R>,
        /// The newest view that the client has heard of.
        #[n(2)]
        newest: View,
        /// That of the answers from which it has decided.
        #[n(3)]
        decided: View,
    },
    /// A replica has that on disk.
    #[n(3)]
    Confirm {
        /// Which operation.
        #[n(0)]
        id: OpId,
        /// The view that the replica is in.
        #[n(1)]
        view: View,
    },
    /// A replica is told the result of something that was never proposed to it, or is forgotten.
    #[n(4)]
    Missing {
        /// Which operation.
        #[n(0)]
        id: OpId,
        /// The view that the replica is in.
        #[n(1)]
        view: View,
    },
    /// A replica answers nothing any more before this view begins.
    #[n(5)]
    LeaveView {
        /// It.
        #[n(0)]
        view: View,
    },
    /// The same, to the view's leader, with what the replica has (DO-VIEW-CHANGE).
    #[n(6)]
    Change {
        /// The view that is to begin.
        #[n(0)]
        view: View,
        /// The last one that had begun here.
        #[n(1)]
        last: View,
        /// Of what came since that one, or of all that is here.
        #[n(2)]
        part: Part<I, C, R>,
        /// The newest one of which everything is in the host's hands for good that it began with.
        #[n(3)]
        stored: View,
    },
    /// A view begins with this record.
    #[n(7)]
    StartView {
        /// It.
        #[n(0)]
        view: View,
        /// Of the merged record: of what is other than in the view before, or of all.
        #[n(1)]
        part: Part<I, C, R>,
    },
    /// A replica has that on disk.
    #[n(8)]
    Started {
        /// The view.
        #[n(0)]
        view: View,
    },
    /// A client tells every replica a fact: an inconsistent operation that is true whoever hears of
    /// it, and for which it does not wait. It is executed at once, and not answered.
    #[n(9)]
    Tell {
        /// Which operation.
        #[n(0)]
        id: OpId,
        /// What it is.
        #[n(1)]
        op: I,
    },
    /// Whoever was sent a part of a record wants the next one; or the whole record, as it does not
    /// have that to which the changes are.
    #[n(11)]
    More {
        /// The view that is to begin, or has.
        #[n(0)]
        view: View,
        /// What was said so far is other than in this view; none, for the whole record.
        #[n(1)]
        upon: Option<View>,
        /// From here on; none, from the beginning.
        #[n(2)]
        from: Option<OpId>,
    },
    /// A client wants a view to begin: what is undecided in this one is to be decided.
    #[n(10)]
    Renew {
        /// The one that it wants to end; whoever is in a later one does nothing.
        #[n(0)]
        view: View,
    },
}
