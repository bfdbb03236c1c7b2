//! Messages, timers and effects of a shard's members.

use meridian_clock::{Timestamp, TimestampRange};
use meridian_machine::{Address, NodeId, ShardId};
use meridian_mvcc::{Key, KeyRange, Write};
use meridian_replication::group::{self, Index, Membership, Term};
use meridian_txn::shards::{LockEpoch, ReadLease, Request, Response};
use minicbor::{Decode, Encode};

/// A message between members and coordinators, or of type `B` between leaders of different shards
/// about one transaction.
#[expect(clippy::large_enum_variant, reason = "most messages are requests, or entries on the heap")]
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message<B> {
    /// Between members.
    #[n(0)]
    Group(#[n(0)] group::Message),
    /// From a coordinator.
    #[n(1)]
    Request(#[n(0)] Request),
    /// To a coordinator.
    #[n(2)]
    Response(#[n(0)] Response),
    /// Between members: everything at or below this timestamp was visible at a leader. It holds for
    /// ever, whichever member sends it.
    #[n(3)]
    LeaderVisible(#[n(0)] Timestamp),
    /// Between the leaders of a transaction's shards.
    #[n(4)]
    Participant(#[n(0)] B),
    /// To the sessions of a node, with or without a member: the sender begins to serve, and
    /// requests go to it from now on.
    #[n(5)]
    Leads(#[n(0)] Term),
    /// From the leader of a shard to the timestamp authority: asks for timestamps of commits.
    #[n(6)]
    AskTimestamps {
        /// How many.
        #[n(0)]
        count: u32,
        /// The leader's term, which the answer repeats.
        #[n(1)]
        term: Term,
        /// The leader commits only above this.
        #[n(2)]
        above: Timestamp,
    },
    /// The authority's answer.
    #[n(7)]
    Timestamps {
        /// The timestamps.
        #[n(0)]
        range: TimestampRange,
        /// The term of the leader that asked.
        #[n(1)]
        term: Term,
    },
}

/// The timers of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A timer of the group.
    Group(group::Timer),
    /// A commit timestamp has surely passed, or a lease reaches further.
    CommitWait,
    /// The participant looks for transactions that are idle for too long.
    Idle,
    /// A window of the workload ends.
    Workload,
    /// The leader sends [`Message::LeaderVisible`].
    Close,
    /// Transactions have had time to end before a leadership transfer.
    HandOver,
    /// Transactions have had time to end before a split.
    Split,
    /// The participant repeats messages about prepared transactions and about decisions.
    Resolve,
    /// The leader checks how idle the shard is.
    MinNext,
    /// The leader asks the timestamp authority again.
    Authority,
}

/// A read to be answered with [`Response::Rows`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serve {
    /// The address of the session that asked.
    pub reply_to: Address,
    /// The number of the request.
    pub id: u64,
    /// The leader term and admission under which the attempt's locks were taken.
    pub lock_epoch: LockEpoch,
    /// The snapshot's timestamp.
    pub at: Timestamp,
    /// The range to read.
    pub range: KeyRange,
    /// Reads from the end of the range backwards.
    pub reverse: bool,
    /// The most rows to return.
    pub limit_rows: u32,
    /// Also returns the commit timestamp of each row.
    pub versions: bool,
    /// The answer is true only if it leaves while `now.latest` is below this.
    pub deadline: Option<u64>,
    /// The time that a snapshot waited before it could be served, in nanoseconds.
    pub waited_ns: Option<u64>,
}

/// An effect that a member asks of its runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put agreed versions into memory, before any later effect of the outbox.
    Install {
        /// The commit timestamp.
        at: Timestamp,
        /// The versions.
        writes: Vec<Write>,
        /// The entry's index in the log.
        index: Index,
        /// Its term.
        term: Term,
        /// True if another shard chose the timestamp: later timestamps may be installed here
        /// already.
        decided_elsewhere: bool,
    },
    /// Split the shard: the keys from `key` on belong to another shard, which starts here with the
    /// versions that are stored of them. Happens before any later effect of the outbox.
    Divide {
        /// The timestamp of the split.
        at: Timestamp,
        /// The first key of the other shard.
        key: Key,
        /// The other shard.
        shard: ShardId,
        /// The other shard's rows about itself at its creation.
        rows: Vec<Write>,
        /// True if this member keeps no versions, but the node's member of the other shard needs
        /// them: the other shard does not start with what is stored here.
        hollow: bool,
        /// The entry's index in the log.
        index: Index,
        /// Its term.
        term: Term,
    },
    /// Serve and answer a read.
    Serve(Serve),
    /// Count a question about a transaction's outcome that its recorder is asked (K2 §5.3).
    CountPush,
    /// Publish what sessions of this node may read without asking the leader.
    ReadLease(ReadLease),
    /// Publish the leader that this member knows, for requests of this node.
    Leader(Option<NodeId>),
    /// Send the stored shard, at or above an entry, to a member that is too far behind.
    SendSnapshot {
        /// The member.
        to: NodeId,
        /// The entry.
        index: Index,
        /// True for a witness: send only the shard's rows about itself.
        witness: bool,
        /// The term of the leader that requests it.
        term: Term,
    },
    /// Publish the members of the group.
    Members(Membership),
    /// Remove the shard from this node, which an entry has removed from the group. It becomes a
    /// member again only by a later entry.
    Removed {
        /// The entry.
        index: Index,
    },
    /// Stop the node, because an agreed entry cannot be read: it must not diverge.
    Stop {
        /// Why.
        why: String,
    },
}
