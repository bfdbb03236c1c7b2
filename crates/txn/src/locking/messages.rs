//! What a coordinator and a leader say to each other.

use crate::{Age, Conflict, Lock, SchemaChange, SchemaVersion, TransactionId};
use meridian_clock::Timestamp;
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::{Key, KeyRange, StoreError, Value, Write};
use minicbor::{Decode, Encode};

/// What an attempt's locks stand on: one birth of it in one leadership. Locks of another leadership
/// are void (Trap A.5-7); so are those of another birth: the attempt had ended, and an old question
/// of it that came late began it anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Footing {
    /// The leadership.
    #[n(0)]
    pub term: u64,
    /// Its own number for the attempt; 0 for whom nothing is locked.
    #[n(1)]
    pub birth: u64,
}

/// What an attempt names that has locked nothing in a shard, and asks to commit or to prepare there
/// in one trip: it has no footing there. In that leadership it begins once, by that time, or never;
/// in any other it never begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Blind {
    /// The leadership of which its gateway has heard.
    #[n(0)]
    pub term: u64,
    /// Not after this, nanoseconds since the epoch.
    #[n(1)]
    pub by: u64,
}

/// A coordinator's question.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Request {
    /// The attempt.
    #[n(0)]
    pub transaction: TransactionId,
    /// Its age.
    #[n(1)]
    pub age: Age,
    /// The number of the question; its answer bears it.
    #[n(2)]
    pub id: u64,
    /// What the answer to the attempt's first question stood on; none before that.
    #[n(3)]
    pub footing: Option<Footing>,
    /// The question.
    #[n(4)]
    pub ask: Ask,
    /// What the attempt was planned for, as far as it has come.
    #[n(5)]
    #[cbor(default)]
    pub planned: Vec<SchemaVersion>,
    /// Of a commit or a prepare by an attempt that has locked nothing here.
    #[n(6)]
    pub blind: Option<Blind>,
}

impl Request {
    /// By an attempt that has locked nothing and was planned for nothing.
    pub fn plain(transaction: TransactionId, age: Age, id: u64, ask: Ask) -> Request {
        Request { transaction, age, id, footing: None, ask, planned: Vec::new(), blind: None }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Ask {
    /// Lock a range, then read it.
    #[n(0)]
    Read {
        /// What to lock and read.
        #[n(0)]
        range: KeyRange,
        /// How.
        #[n(1)]
        lock: Lock,
        /// From its end backwards.
        #[n(2)]
        reverse: bool,
        /// At most so many rows.
        #[n(3)]
        limit_rows: u32,
        /// What the session calls itself, with an attempt's first question to a shard.
        #[n(4)]
        application: Option<String>,
        /// Tell when each row was committed.
        #[n(5)]
        #[cbor(default)]
        versions: bool,
        /// Answer [`Reply::Locked`] instead of waiting for the lock.
        #[n(6)]
        #[cbor(default)]
        nowait: bool,
    },
    /// Commit these writes.
    #[n(1)]
    Commit {
        /// Each key once.
        #[n(0)]
        writes: Vec<Write>,
        /// Other shards that the attempt has locked something in, and that have been asked to
        /// prepare: this one coordinates.
        #[n(1)]
        #[cbor(default)]
        participants: Vec<ShardId>,
        /// The schemas that it changes here.
        #[n(2)]
        schema: Option<SchemaChange>,
    },
    /// Forget the attempt.
    #[n(2)]
    Abort,
    /// Read without a lock, at a timestamp, or at one that the leader chooses.
    #[n(3)]
    Snapshot {
        /// The timestamp; none asks for everything that was acknowledged before now.
        #[n(0)]
        at: Option<Timestamp>,
        /// What to read.
        #[n(1)]
        range: KeyRange,
        /// From its end backwards.
        #[n(2)]
        reverse: bool,
        /// At most so many rows.
        #[n(3)]
        limit_rows: u32,
        /// Tell when each row was committed.
        #[n(4)]
        #[cbor(default)]
        versions: bool,
        /// The transaction reads nowhere else (§4.1.4), as far as it has said.
        #[n(6)]
        scope: Option<KeyRange>,
    },
    /// The attempt lives on; not answered.
    #[n(4)]
    KeepAlive,
    /// The attempt does not want any more what it waits for, and keeps what it holds; not answered.
    #[n(5)]
    Withdraw,
    /// Prepare to commit these writes, or none if the attempt has only read here; the coordinator
    /// hears what comes of it (§4.2.1).
    #[n(6)]
    Prepare {
        /// Each key once.
        #[n(0)]
        writes: Vec<Write>,
        /// Whose group decides.
        #[n(1)]
        coordinator: Seat,
        /// The schemas that it changes here.
        #[n(2)]
        schema: Option<SchemaChange>,
        /// How the coordinator was asked, if the attempt has locked nothing there.
        #[n(3)]
        blind: Option<Blind>,
        /// The term of the leadership that is asked to decide: in another one the transaction is
        /// never committed.
        #[n(4)]
        #[cbor(default)]
        decides: u64,
    },
    /// From a key on this shard's keys become another shard's. Asked again after it was done, it is
    /// done.
    #[n(7)]
    Split {
        /// The first key of the other shard.
        #[n(0)]
        at: Key,
        /// Its number, which nobody else was given.
        #[n(1)]
        shard: ShardId,
    },
    /// These are to be the members of the shard's group. Asked again until it is done, or refused.
    #[n(8)]
    Members(#[n(0)] Members),
    /// The timestamp of the newest commit that wrote into a range, or a later one at which it can
    /// be read as of now (§4.2.2).
    #[n(9)]
    LastTs {
        /// What is to be read.
        #[n(0)]
        range: KeyRange,
    },
}

/// Who is to be in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Members {
    /// Whose votes count.
    #[n(0)]
    pub voters: Vec<NodeId>,
    /// Who is sent everything and has no vote.
    #[n(1)]
    pub learners: Vec<NodeId>,
    /// Voters that keep the log and no versions.
    #[n(2)]
    pub witnesses: Vec<NodeId>,
}

/// A shard's member at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Seat {
    /// The shard.
    #[n(0)]
    pub shard: ShardId,
    /// The node.
    #[n(1)]
    pub node: NodeId,
}

/// Where the time of a commit went at its leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Spent {
    /// From the timestamp to agreement: a quorum has it on disk.
    #[n(0)]
    pub replication_ns: u64,
    /// From agreement until the timestamp had surely passed.
    #[n(1)]
    pub commit_wait_ns: u64,
}

/// The answer to the request with this number.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// What was read.
    #[n(0)]
    Rows {
        /// The question.
        #[n(0)]
        id: u64,
        /// What the attempt's locks stand on.
        #[n(1)]
        footing: Footing,
        /// The snapshot that was read.
        #[n(2)]
        at: Timestamp,
        /// The rows.
        #[n(3)]
        rows: Vec<(Key, Value)>,
        /// What is left.
        #[n(4)]
        rest: Option<KeyRange>,
        /// When each of the rows was committed, in the same order, if that was asked for.
        #[n(5)]
        #[cbor(default)]
        committed_at: Vec<Timestamp>,
    },
    /// It is committed and surely past.
    #[n(1)]
    Committed {
        /// The question.
        #[n(0)]
        id: u64,
        /// The commit timestamp.
        #[n(1)]
        at: Timestamp,
        /// Where its time went.
        #[n(2)]
        #[cbor(default)]
        spent: Spent,
    },
    /// It is aborted; nothing of it happened.
    #[n(2)]
    Aborted {
        /// The question.
        #[n(0)]
        id: u64,
        /// Why.
        #[n(1)]
        why: Conflict,
    },
    /// Its fate is not known here: leadership was lost while the commit was being agreed on.
    #[n(3)]
    Unknown {
        /// The question.
        #[n(0)]
        id: u64,
    },
    /// Ask another; maybe this one.
    #[n(4)]
    NotLeader {
        /// The question.
        #[n(0)]
        id: u64,
        /// The leader's node, as far as is known.
        #[n(1)]
        leader: Option<u32>,
    },
    /// The question was asked before and waits here for a lock, or to be agreed on: its answer
    /// comes.
    #[n(5)]
    Waiting {
        /// The question.
        #[n(0)]
        id: u64,
    },
    /// The snapshot is older than what is kept.
    #[n(6)]
    BelowHorizon {
        /// The question.
        #[n(0)]
        id: u64,
        /// The oldest timestamp that can be read.
        #[n(1)]
        oldest: Timestamp,
    },
    /// The leader's store cannot be read.
    #[n(7)]
    Broken {
        /// The question.
        #[n(0)]
        id: u64,
        /// The file, and what is wrong with it.
        #[n(1)]
        what: String,
    },
    /// It is prepared, or has voted: the coordinator decides.
    #[n(8)]
    Prepared {
        /// The question.
        #[n(0)]
        id: u64,
    },
    /// An older transaction wants what this one holds: whatever it waits for elsewhere, it aborts
    /// itself. Not an answer to a question.
    #[n(10)]
    Wounded {
        /// By whom, and where.
        #[n(0)]
        why: Conflict,
    },
    /// What is asked for cannot be; nothing of it was done.
    #[n(11)]
    Refused {
        /// The question.
        #[n(0)]
        id: u64,
        /// Why, and what would do.
        #[n(1)]
        why: String,
    },
    /// Everything that was acknowledged and wrote into the range lies at or below.
    #[n(12)]
    LastTs {
        /// The question.
        #[n(0)]
        id: u64,
        /// The timestamp.
        #[n(1)]
        at: Timestamp,
    },
    /// Nothing comes of this question, which was asked blindly, and too late: what became of an
    /// earlier one is not known here.
    #[n(13)]
    TooLate {
        /// The question.
        #[n(0)]
        id: u64,
    },
    /// The lock was not free, and the request was not to wait for it. What the attempt holds it
    /// keeps.
    #[n(14)]
    Locked {
        /// The question.
        #[n(0)]
        id: u64,
        /// What the attempt's locks stand on.
        #[n(1)]
        footing: Footing,
    },
    /// These keys are another shard's.
    #[n(9)]
    Moved {
        /// The question.
        #[n(0)]
        id: u64,
        /// From which key on they are whose, as far as is known here.
        #[n(1)]
        to: Option<(Key, ShardId)>,
    },
}

impl Reply {
    /// The question that is answered.
    pub fn id(&self) -> u64 {
        match self {
            Reply::Rows { id, .. }
            | Reply::Committed { id, .. }
            | Reply::Aborted { id, .. }
            | Reply::Unknown { id }
            | Reply::NotLeader { id, .. }
            | Reply::Waiting { id }
            | Reply::BelowHorizon { id, .. }
            | Reply::Broken { id, .. }
            | Reply::Prepared { id }
            | Reply::Refused { id, .. }
            | Reply::LastTs { id, .. }
            | Reply::TooLate { id }
            | Reply::Locked { id, .. }
            | Reply::Moved { id, .. } => *id,
            Reply::Wounded { .. } => 0,
        }
    }

    /// What is said of a read that the store refused.
    pub fn refused(id: u64, error: StoreError) -> Reply {
        match error {
            StoreError::BelowHorizon { oldest } => Reply::BelowHorizon { id, oldest },
            StoreError::Elsewhere => Reply::Moved { id, to: None },
            other => Reply::Broken { id, what: other.to_string() },
        }
    }
}
