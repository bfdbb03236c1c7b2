//! What members of a shard, coordinators and runtimes say to one another.

use meridian_clock::Timestamp;
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::{Key, Write};
use meridian_replication::group::{self, Index, Membership, Term};
use meridian_txn::locking::Readable;
use minicbor::{Decode, Encode};

/// What members and coordinators say: requests `Q`, responses `A`, and what leaders of different
/// shards say about one transaction, `B`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message<Q, A, B> {
    /// Between members.
    #[n(0)]
    Group(#[n(0)] group::Message),
    /// From a coordinator.
    #[n(1)]
    Ask(#[n(0)] Q),
    /// To a coordinator.
    #[n(2)]
    Answer(#[n(0)] A),
    /// Between members: everything at or below was shown by a leader. It is so, whichever member
    /// says it, and whenever.
    #[n(3)]
    Shown(#[n(0)] Timestamp),
    /// Between the leaders of a transaction's shards.
    #[n(4)]
    Between(#[n(0)] B),
    /// To the sessions of a node, with a member or without: the sender begins to serve, and is to
    /// be asked from now on.
    #[n(5)]
    Leads(#[n(0)] Term),
}

/// What a member waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The group's.
    Group(group::Timer),
    /// A commit timestamp has surely passed, or a lease reaches further.
    CommitWait,
    /// A look at transactions that are idle for too long: the participant's.
    Idle,
    /// A look at who asks.
    Workload,
    /// The members are told how far the leader has shown.
    Close,
    /// Transactions that are under way have had time to end.
    HandOver,
    /// The same, for a split.
    Split,
    /// A look at what is prepared, and at decisions that are not told to all: the participant's.
    Resolve,
    /// A look at how idle the shard is.
    MinNext,
}

/// What a member asks of its runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<R> {
    /// Put agreed versions into Recent, before anything that follows in the outbox.
    Install {
        /// The commit timestamp.
        at: Timestamp,
        /// The versions; none of a floor.
        writes: Vec<Write>,
        /// The entry's place in the log.
        index: Index,
        /// Its term.
        term: Term,
        /// The timestamp was chosen by another shard: there may be later ones here already.
        decided_elsewhere: bool,
    },
    /// From a key on the keys are another shard's, which is born here with what stands here of
    /// them; before anything that follows in the outbox.
    Divide {
        /// The timestamp of the split.
        at: Timestamp,
        /// The first key of the other shard.
        key: Key,
        /// The other shard.
        shard: ShardId,
        /// What the other shard knows of itself at its birth.
        rows: Vec<Write>,
        /// This member keeps no versions, and the node's member of the other shard would have to
        /// have them: the other shard does not begin with what stands here.
        hollow: bool,
        /// The entry's place in the log.
        index: Index,
        /// Its term.
        term: Term,
    },
    /// Read, and answer: a read as the participant describes it.
    Serve(R),
    /// Publish for readers of this node.
    Readable(Readable),
    /// Publish the leader that this member has heard of, for requests of this node.
    Leader(Option<NodeId>),
    /// Send what is stored, at or above an entry, to a member that is too far behind.
    SendSnapshot {
        /// The member.
        to: NodeId,
        /// The entry.
        index: Index,
        /// It is a witness: only what the shard knows of itself.
        witness: bool,
        /// The term of the leader that wants it.
        term: Term,
    },
    /// Publish who is in the group.
    Members(Membership),
    /// This node is no member of the group as of an entry: what is kept of the shard goes, and it
    /// is one again only if it is added by a later entry than this.
    Removed {
        /// The entry.
        index: Index,
    },
    /// An agreed entry cannot be read: this node must stop rather than diverge.
    Stop {
        /// Why.
        why: String,
    },
}
