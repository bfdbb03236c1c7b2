//! Requests and responses between a coordinator and a leader.

use crate::mvto::Operation;
use crate::two_phase::{Decider, OneShot};
use crate::{Age, Conflict, Lock, SchemaChange, SchemaVersion, TransactionId};
use meridian_clock::{Interval, Timestamp};
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::{Key, KeyRange, StoreError, Value, Write};
use minicbor::{Decode, Encode};

/// The lock epoch: the leader term and the admission id under which a transaction's locks were
/// taken. Locks of another term are void (Trap A.5-7). Locks of another admission are void too: the
/// attempt had ended, and a delayed request of it began it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LockEpoch {
    /// The leader's term.
    #[n(0)]
    pub term: u64,
    /// The admission id that the leader gave the attempt; 0 if it has no locks.
    #[n(1)]
    pub admission: u64,
}

/// A coordinator's request to a leader.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Request {
    /// The attempt.
    #[n(0)]
    pub transaction: TransactionId,
    /// Its age.
    #[n(1)]
    pub age: Age,
    /// The request id, which the response repeats.
    #[n(2)]
    pub id: u64,
    /// The lock epoch in the response to the attempt's first request to this shard; none before
    /// that response.
    #[n(3)]
    pub lock_epoch: Option<LockEpoch>,
    /// The operation.
    #[n(4)]
    pub body: RequestBody,
    /// The schema versions that the attempt's statements were planned for so far.
    #[n(5)]
    #[cbor(default)]
    pub planned: Vec<SchemaVersion>,
    /// Set for a commit or prepare by an attempt without locks in this shard.
    #[n(6)]
    pub one_shot: Option<OneShot>,
    /// The causal token: the leader issues timestamps above it from now on, and snapshots are not
    /// below it (HybridTime §3.2, `Update`).
    #[n(7)]
    pub token: Option<Timestamp>,
    /// The snapshot of a transaction that has read without locks: its commit is refused where a
    /// row that it writes has a newer version (Clock-SI §III-B).
    #[n(8)]
    pub snapshot: Option<ReadSnapshot>,
    /// The range in which no other transaction meets this one's writes: commits are not certified
    /// against them ([`Transaction::writes_alone`](crate::Transaction::writes_alone)).
    #[n(9)]
    pub private: Option<KeyRange>,
}

/// The state that a transaction has read, for the certification of its writes.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ReadSnapshot {
    /// The timestamp of the snapshot.
    #[n(0)]
    pub at: Timestamp,
    /// Commits that other transactions made for this one. What they wrote is no conflict.
    #[n(1)]
    pub adopted: Vec<Timestamp>,
}

impl Request {
    /// Returns a request of an attempt without locks and without planned schema versions.
    pub fn plain(transaction: TransactionId, age: Age, id: u64, body: RequestBody) -> Request {
        Request {
            transaction,
            age,
            id,
            lock_epoch: None,
            body,
            planned: Vec::new(),
            one_shot: None,
            token: None,
            snapshot: None,
            private: None,
        }
    }
}

/// The operation that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum RequestBody {
    /// Locks a range, then reads it.
    #[n(0)]
    Read {
        /// The range to lock and read.
        #[n(0)]
        range: KeyRange,
        /// The lock mode.
        #[n(1)]
        lock: Lock,
        /// Reads from the end of the range backwards.
        #[n(2)]
        reverse: bool,
        /// The maximum number of rows.
        #[n(3)]
        limit_rows: u32,
        /// The session's `application_name`; sent with an attempt's first request to a shard.
        #[n(4)]
        application: Option<String>,
        /// Returns the commit timestamp of each row too.
        #[n(5)]
        #[cbor(default)]
        versions: bool,
        /// Answers [`Response::Locked`] instead of waiting for the lock.
        #[n(6)]
        #[cbor(default)]
        nowait: bool,
    },
    /// Commits these writes.
    #[n(1)]
    Commit {
        /// The writes; each key occurs once.
        #[n(0)]
        writes: Vec<Write>,
        /// The other shards in which the attempt has locks. They have been sent Prepare; the shard
        /// that receives this coordinates.
        #[n(1)]
        #[cbor(default)]
        participants: Vec<ShardId>,
        /// The schemas that the attempt changes in this shard.
        #[n(2)]
        schema: Option<SchemaChange>,
    },
    /// Aborts the attempt.
    #[n(2)]
    Abort,
    /// Reads without a lock, at a given timestamp or at one that the leader chooses.
    #[n(3)]
    Snapshot {
        /// The timestamp; none reads everything that was acknowledged before the request.
        #[n(0)]
        at: Option<Timestamp>,
        /// The range to read.
        #[n(1)]
        range: KeyRange,
        /// Reads from the end of the range backwards.
        #[n(2)]
        reverse: bool,
        /// The maximum number of rows.
        #[n(3)]
        limit_rows: u32,
        /// Returns the commit timestamp of each row too.
        #[n(4)]
        #[cbor(default)]
        versions: bool,
        /// Set for a single-shard read: the range outside which the transaction reads nothing, as
        /// far as it has declared (§4.1.4).
        #[n(6)]
        single_shard_range: Option<KeyRange>,
    },
    /// Keeps the attempt alive. Not answered.
    #[n(4)]
    KeepAlive,
    /// Cancels the attempt's waiting lock request; its locks are kept. Not answered.
    #[n(5)]
    Withdraw,
    /// Prepares these writes, or none if the attempt has only read in this shard. The leader sends
    /// its vote to the coordinator (§4.2.1).
    #[n(6)]
    Prepare {
        /// The writes; each key occurs once.
        #[n(0)]
        writes: Vec<Write>,
        /// The replica of the group whose log decides.
        #[n(1)]
        coordinator: ReplicaId,
        /// The schemas that the attempt changes in this shard.
        #[n(2)]
        schema: Option<SchemaChange>,
        /// The condition of the one-shot commit at the coordinator, if the attempt has no locks
        /// there.
        #[n(3)]
        one_shot: Option<OneShot>,
        /// The term of the leader that is asked to decide. In another term the transaction is never
        /// committed.
        #[n(4)]
        #[cbor(default)]
        decides: u64,
    },
    /// Splits the shard: from a key on, its keys become another shard's. A repeated request
    /// succeeds if the split is done.
    #[n(7)]
    Split {
        /// The first key of the new shard.
        #[n(0)]
        at: Key,
        /// The id of the new shard, which no other shard has.
        #[n(1)]
        shard: ShardId,
    },
    /// Changes the members of the shard's group. The request is repeated until the change is done
    /// or refused.
    #[n(8)]
    Members(#[n(0)] MemberRoles),
    /// Returns a timestamp at or above every acknowledged commit that wrote into a range, at which
    /// the range can be read as of now (§4.2.2).
    #[n(9)]
    LastTs {
        /// The range to read.
        #[n(0)]
        range: KeyRange,
    },
    /// Returns a timestamp of the database's authority: a snapshot at it has everything that was
    /// acknowledged before the request.
    #[n(10)]
    SnapshotTimestamp,
    /// An operation of a transaction that is ordered by the timestamp which it drew when it began
    /// (multi-version timestamp ordering).
    #[n(11)]
    Ordered {
        /// The transaction's timestamp.
        #[n(0)]
        at: Timestamp,
        /// The operation.
        #[n(1)]
        operation: Operation,
    },
    /// Returns the interval that contains the time at the replica, leader or not: it is an oracle
    /// (K2 §2.2). Refused if the interval is wider.
    #[n(12)]
    Time {
        /// The largest half width of the interval, in nanoseconds.
        #[n(0)]
        within_ns: u64,
    },
}

impl RequestBody {
    /// Returns the decider that a request to prepare names. `None` for other requests.
    pub fn decider(&self) -> Option<Decider> {
        let RequestBody::Prepare { coordinator, one_shot, decides, .. } = self else { return None };
        let ReplicaId { shard, node } = *coordinator;
        Some(Decider { shard, node, term: *decides, one_shot: *one_shot })
    }
}

/// The members that a group is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct MemberRoles {
    /// Voters.
    #[n(0)]
    pub voters: Vec<NodeId>,
    /// Members that receive the log and have no vote.
    #[n(1)]
    pub learners: Vec<NodeId>,
    /// Voters that keep the log and no versions.
    #[n(2)]
    pub witnesses: Vec<NodeId>,
}

/// The id of a replica: a shard and a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct ReplicaId {
    /// The shard.
    #[n(0)]
    pub shard: ShardId,
    /// The node.
    #[n(1)]
    pub node: NodeId,
}

/// The time that a commit took at its leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Spent {
    /// From the assignment of the timestamp until a quorum had the commit on disk.
    #[n(0)]
    pub replication_ns: u64,
    /// From then until the timestamp had surely passed: the commit wait.
    #[n(1)]
    pub commit_wait_ns: u64,
}

/// A leader's response.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Response {
    /// The rows that were read.
    #[n(0)]
    Rows {
        /// The request id.
        #[n(0)]
        id: u64,
        /// The attempt's lock epoch.
        #[n(1)]
        lock_epoch: LockEpoch,
        /// The snapshot that was read.
        #[n(2)]
        at: Timestamp,
        /// The rows.
        #[n(3)]
        rows: Vec<(Key, Value)>,
        /// The part of the range that was not read yet.
        #[n(4)]
        rest: Option<KeyRange>,
        /// When each row was committed, in the order of `rows`, if the request asked for it.
        #[n(5)]
        #[cbor(default)]
        committed_at: Vec<Timestamp>,
        /// The time that the snapshot waited for its clock and for commits before it, in
        /// nanoseconds; none if it did not have to.
        #[n(6)]
        waited_ns: Option<u64>,
    },
    /// The transaction is committed, and its timestamp has surely passed.
    #[n(1)]
    Committed {
        /// The request id.
        #[n(0)]
        id: u64,
        /// The commit timestamp.
        #[n(1)]
        at: Timestamp,
        /// The time that the commit took.
        #[n(2)]
        #[cbor(default)]
        spent: Spent,
    },
    /// The transaction is aborted; none of its writes took effect.
    #[n(2)]
    Aborted {
        /// The request id.
        #[n(0)]
        id: u64,
        /// The reason.
        #[n(1)]
        why: Conflict,
    },
    /// The outcome is not known here: leadership was lost while the commit was being agreed on.
    #[n(3)]
    Unknown {
        /// The request id.
        #[n(0)]
        id: u64,
    },
    /// This replica does not lead; `leader` may. A node without a replica of the shard names none:
    /// what it has cached may be wrong, and two such nodes would name each other for ever.
    #[n(4)]
    NotLeader {
        /// The request id.
        #[n(0)]
        id: u64,
        /// The leader's node, as far as is known.
        #[n(1)]
        leader: Option<u32>,
    },
    /// The request was received before and waits for a lock or for agreement. Its response will
    /// follow.
    #[n(5)]
    Waiting {
        /// The request id.
        #[n(0)]
        id: u64,
    },
    /// The snapshot is older than the versions that are kept.
    #[n(6)]
    BelowHorizon {
        /// The request id.
        #[n(0)]
        id: u64,
        /// The oldest timestamp that can be read.
        #[n(1)]
        oldest: Timestamp,
    },
    /// The leader's store cannot be read.
    #[n(7)]
    Broken {
        /// The request id.
        #[n(0)]
        id: u64,
        /// The file, and what is wrong with it.
        #[n(1)]
        what: String,
    },
    /// The transaction is prepared, or has voted: the coordinator decides.
    #[n(8)]
    Prepared {
        /// The request id.
        #[n(0)]
        id: u64,
    },
    /// An older transaction requests a lock of this one: its coordinator aborts it if it waits
    /// anywhere. Not the response to a request.
    #[n(10)]
    Wounded {
        /// The older transaction, and the key.
        #[n(0)]
        why: Conflict,
    },
    /// The request cannot be served; it had no effect.
    #[n(11)]
    Refused {
        /// The request id.
        #[n(0)]
        id: u64,
        /// The reason, and what to do.
        #[n(1)]
        why: String,
    },
    /// A timestamp at or above every acknowledged commit that wrote into the range.
    #[n(12)]
    LastTs {
        /// The request id.
        #[n(0)]
        id: u64,
        /// The timestamp.
        #[n(1)]
        at: Timestamp,
    },
    /// A one-shot commit arrived too late and has no effect. The outcome of an earlier copy of it
    /// is not known here.
    #[n(13)]
    TooLate {
        /// The request id.
        #[n(0)]
        id: u64,
    },
    /// The lock is not free, and the request was not to wait. The attempt keeps its locks.
    #[n(14)]
    Locked {
        /// The request id.
        #[n(0)]
        id: u64,
        /// The attempt's lock epoch.
        #[n(1)]
        lock_epoch: LockEpoch,
    },
    /// The intents are in the shard's log.
    #[n(16)]
    Written {
        /// The request id.
        #[n(0)]
        id: u64,
        /// The term of the leader that answers.
        #[n(1)]
        term: u64,
    },
    /// The interval that contained the time after the request was received.
    #[n(17)]
    Time {
        /// The request id.
        #[n(0)]
        id: u64,
        /// The interval.
        #[n(1)]
        interval: Interval,
    },
    /// A timestamp of the authority.
    #[n(15)]
    SnapshotTimestamp {
        /// The request id.
        #[n(0)]
        id: u64,
        /// The timestamp.
        #[n(1)]
        at: Timestamp,
    },
    /// The keys belong to another shard.
    #[n(9)]
    Moved {
        /// The request id.
        #[n(0)]
        id: u64,
        /// The first key that belongs to the other shard, and that shard, as far as is known here.
        #[n(1)]
        to: Option<(Key, ShardId)>,
    },
}

impl Response {
    /// Returns the id of the request that is answered; 0 for [`Response::Wounded`].
    pub fn id(&self) -> u64 {
        match self {
            Response::Rows { id, .. }
            | Response::Committed { id, .. }
            | Response::Aborted { id, .. }
            | Response::Unknown { id }
            | Response::NotLeader { id, .. }
            | Response::Waiting { id }
            | Response::BelowHorizon { id, .. }
            | Response::Broken { id, .. }
            | Response::Prepared { id }
            | Response::Refused { id, .. }
            | Response::LastTs { id, .. }
            | Response::TooLate { id }
            | Response::Locked { id, .. }
            | Response::SnapshotTimestamp { id, .. }
            | Response::Written { id, .. }
            | Response::Time { id, .. }
            | Response::Moved { id, .. } => *id,
            Response::Wounded { .. } => 0,
        }
    }

    /// Returns the response to a read that the store refused.
    pub fn refused(id: u64, error: StoreError) -> Response {
        match error {
            StoreError::BelowHorizon { oldest } => Response::BelowHorizon { id, oldest },
            StoreError::Elsewhere => Response::Moved { id, to: None },
            other => Response::Broken { id, what: other.to_string() },
        }
    }
}
