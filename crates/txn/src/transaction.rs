//! What a session sees of a transaction, whichever protocol runs it.

use crate::{IsolationLevel, SchemaVersion, Timings};
use meridian_clock::{Interval, Timestamp};
use meridian_mvcc::{Key, KeyRange, Value};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A boxed future: the seam between protocols, which are stepped, and sessions, which are async on
/// any executor.
pub type Future<'a, T> = Pin<Box<dyn std::future::Future<Output = T> + Send + 'a>>;

/// One attempt of one transaction; never reused, because a gateway's incarnation is not.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, minicbor::Encode, minicbor::Decode,
)]
pub struct TransactionId {
    /// The gateway's node.
    #[n(0)]
    pub node: u32,
    /// Its life.
    #[n(1)]
    pub incarnation: u32,
    /// Its own number.
    #[n(2)]
    pub number: u64,
}

/// How a read protects what it saw until the transaction ends. Ignored by protocols that do not
/// lock, and in read-only transactions.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, minicbor::Encode, minicbor::Decode,
)]
pub enum Lock {
    /// Nobody may write it.
    #[n(0)]
    Shared,
    /// Nobody else may read it under a lock or write it: UPDATE, DELETE, SELECT … FOR UPDATE.
    #[n(1)]
    Exclusive,
}

/// What a read in a read-write transaction does about locks that are not free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locking {
    /// Waits until it has them.
    #[default]
    Wait,
    /// Fails with [`Failure::Locked`].
    NoWait,
    /// Takes none, and reads what is committed and what the transaction itself has written.
    None,
}

/// Which snapshot a read-only transaction sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAt {
    /// Everything that was acknowledged before the transaction began.
    Now,
    /// Exactly the state at this timestamp (AS OF SYSTEM TIME).
    Exact(Timestamp),
    /// The state at this timestamp or at any later one, whichever is at hand; or everything that
    /// was acknowledged before the transaction began (Spanner §4.1.3, bounded staleness).
    AtLeast(Timestamp),
}

/// What kind of transaction to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads and writes.
    ReadWrite,
    /// Reads at one timestamp; takes no lock and blocks nobody.
    ReadOnly(ReadAt),
}

/// The priority of a transaction: smaller is older, and the older wins (wound-wait). A retry keeps
/// its age.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, minicbor::Encode, minicbor::Decode,
)]
pub struct Age {
    /// When the first attempt began, nanoseconds since the epoch as its gateway saw it.
    #[n(0)]
    pub began_ns: u64,
    /// The gateway, so that no two transactions have one age.
    #[n(1)]
    pub node: u32,
    /// The gateway's own number.
    #[n(2)]
    pub number: u64,
}

/// How to begin a transaction.
#[derive(Clone, Debug)]
pub struct Begin {
    /// Reads only, or writes too.
    pub mode: Mode,
    /// The age of the attempt that this one replays; a first attempt has none.
    pub age: Option<Age>,
}

/// Why a transaction was aborted for good: nothing of it happened.
#[derive(Clone, Debug, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub enum Conflict {
    /// An older transaction wanted what this one held (wound-wait).
    #[n(0)]
    Wounded {
        /// The age of the transaction that won.
        #[n(0)]
        by: Age,
        /// The key over which they met.
        #[n(1)]
        key: Key,
        /// What the winner's session calls itself, if it said so.
        #[n(2)]
        application: Option<String>,
    },
    /// The leader that held this transaction's locks is leader no more.
    #[n(2)]
    LeaderChanged,
    /// The session went away, or asked for it.
    #[n(3)]
    RolledBack,
    /// Held locks without a sign of life for longer than allowed.
    #[n(4)]
    Expired,
    /// Keys of this transaction were given to another shard while it held locks.
    #[n(5)]
    Moved,
    /// A shard that was only read could not promise for as long as the others took to prepare.
    #[n(6)]
    Late,
    /// A table's schema is another by now than the one that the transaction was planned for, or is
    /// about to be.
    #[n(7)]
    SchemaChanged {
        /// The table's id.
        #[n(0)]
        table: u32,
    },
    /// What it has read is another by now, or may be: somebody else has written it (optimistic
    /// protocols).
    #[n(8)]
    Overwritten,
    /// No timestamp was found at which it fits among the others, however often it was proposed
    /// (optimistic protocols).
    #[n(9)]
    Contended,
}

/// What a session may conclude of a commit. `Aborted` is definite, `Unknown` is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It happened at this timestamp, durably.
    Committed {
        /// The commit timestamp.
        at: Timestamp,
    },
    /// It did not happen and never will.
    Aborted {
        /// Why.
        why: Conflict,
    },
    /// It may have happened, or may yet: the leader did not answer.
    Unknown,
}

/// Why a read, or a beginning, did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The transaction is aborted: SQLSTATE 40001 unless a replay absorbs it.
    Aborted(Conflict),
    /// The snapshot is older than what is kept.
    BelowHorizon {
        /// The oldest timestamp that can still be read.
        oldest: Timestamp,
    },
    /// The snapshot lies in the future.
    InFuture {
        /// What the clock says.
        now: Interval,
    },
    /// A write in a read-only transaction: SQLSTATE 25006.
    ReadOnly,
    /// The transaction's writes exceed the limit: SQLSTATE 54000.
    TooLarge {
        /// The limit in bytes.
        limit_bytes: u64,
    },
    /// No room for writes: SQLSTATE 53100. Reads go on.
    DiskFull,
    /// A lock was not to be had within the time that was given: SQLSTATE 55P03.
    LockTimeout,
    /// A lock was not free, and the read was not to wait for it: SQLSTATE 55P03.
    Locked,
    /// No leader answers; the message says which group and what to do.
    Unavailable(String),
    /// What was asked of a group cannot be, as things are: SQLSTATE 55000.
    Refused(String),
    /// The store or the log cannot be read; the message names the file.
    Storage(String),
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Conflict::Wounded { .. } => {
                f.write_str("an older transaction needed what this one held")
            }
            Conflict::LeaderChanged => {
                f.write_str("the leader that held this transaction's locks changed")
            }
            Conflict::RolledBack => f.write_str("the transaction was rolled back"),
            Conflict::Expired => f.write_str("the transaction gave no sign of life for too long"),
            Conflict::Moved => f.write_str("keys of this transaction moved to another shard"),
            Conflict::SchemaChanged { .. } => f.write_str("the schema of a table changed"),
            Conflict::Overwritten => {
                f.write_str("another transaction has written what this one had read")
            }
            Conflict::Contended => f.write_str("too many others want what this transaction wants"),
            Conflict::Late => f.write_str(
                "the shards of this transaction took too long to agree on its timestamp",
            ),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Aborted(why) => write!(f, "aborted: {why}"),
            Failure::BelowHorizon { oldest } => {
                write!(f, "the snapshot is older than {oldest}, the oldest that is kept")
            }
            Failure::InFuture { now } => write!(f, "the snapshot lies in the future; now is {now}"),
            Failure::ReadOnly => f.write_str("cannot write in a read-only transaction"),
            Failure::TooLarge { limit_bytes } => {
                write!(f, "the transaction writes more than {limit_bytes} bytes")
            }
            Failure::DiskFull => f.write_str("no room left on the disk for writes"),
            Failure::LockTimeout => f.write_str("canceling statement due to lock timeout"),
            Failure::Locked => f.write_str("could not obtain the lock without waiting"),
            Failure::Unavailable(why) | Failure::Refused(why) | Failure::Storage(why) => {
                f.write_str(why)
            }
        }
    }
}

impl std::error::Error for Failure {}

/// One chunk of a scan, in key order (or reverse).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Keys and values, tombstones removed, the transaction's own writes merged in.
    pub rows: Vec<(Key, Value)>,
    /// When each of them was committed, in the same order, if that was asked for
    /// ([`Transaction::show_versions`]); of the transaction's own writes nothing is known yet.
    pub at: Vec<Option<Timestamp>>,
    /// What is left to scan; `None` when the range is exhausted.
    pub rest: Option<KeyRange>,
}

/// A point inside a transaction to which its writes can be taken back. Locks stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(pub usize);

/// One transaction. Dropping it posts an abort and returns at once; dropping the future of `commit`
/// recalls nothing.
pub trait Transaction: Send {
    /// Its kind.
    fn mode(&self) -> Mode;
    /// Its age, to be kept by a replay.
    fn age(&self) -> Age;
    /// When it began, as its gateway saw it: `CURRENT_TIMESTAMP`.
    fn began(&self) -> Interval;
    /// The snapshot of a read-only transaction once it is chosen.
    fn read_at(&self) -> Option<Timestamp>;
    /// Reads one key, own writes first.
    fn get<'a>(
        &'a mut self,
        key: &'a Key,
        lock: Lock,
    ) -> Future<'a, Result<Option<Value>, Failure>>;
    /// Reads several keys, own writes first, in the order of `keys`. Takes their locks in that
    /// order, too.
    ///
    /// A protocol that can ask for all of them at once overrides this, so that their number does
    /// not multiply the distance to the replica that answers.
    fn get_many<'a>(
        &'a mut self,
        keys: &'a [Key],
        lock: Lock,
    ) -> Future<'a, Result<Vec<Option<Value>>, Failure>> {
        Box::pin(async move {
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                found.push(self.get(key, lock).await?);
            }
            Ok(found)
        })
    }
    /// Reads a chunk of a range in key order, or in reverse: at most `limit_rows` rows, and about a
    /// megabyte.
    fn scan<'a>(
        &'a mut self,
        range: &'a KeyRange,
        lock: Lock,
        reverse: bool,
        limit_rows: usize,
    ) -> Future<'a, Result<Rows, Failure>>;
    /// Buffers a write; `None` deletes.
    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure>;
    /// From now on a read waits for a lock no longer than this; without one, as long as it takes.
    /// Protocols that do not lock ignore it.
    fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        let _ = timeout;
    }
    /// How reads lock from now on. False if the protocol cannot: one without locks never waits, and
    /// has nothing that could be free or not.
    fn set_locking(&mut self, how: Locking) -> bool {
        how != Locking::None
    }
    /// What the session calls itself: told to those who lose against this transaction. Protocols
    /// that do not tell ignore it.
    fn set_application(&mut self, name: &str) {
        let _ = name;
    }
    /// From now on it notes where its time goes. Protocols that do not tell have none.
    fn measure(&mut self) -> Option<Arc<Timings>> {
        None
    }
    /// From now on chunks tell when each row was committed. Protocols that do not tell leave it
    /// out.
    fn show_versions(&mut self) {}
    /// All that it will read lies in this range: its scope (Spanner §4.2.2). To be said before it
    /// reads. True if it is of use: then the transaction is of the present in the scope only, and
    /// nothing else may be read in it. A scope in several shards is of use to who negotiates: a
    /// round of questions first, and no waiting for what commits meanwhile.
    fn reads_only_in(&mut self, scope: &KeyRange, negotiates: bool) -> bool {
        let _ = (scope, negotiates);
        false
    }
    /// What comes next was planned for this version of a table's schema: it reads nothing, and
    /// commits nothing, where a later one holds. Of several versions of one table the oldest
    /// counts.
    fn planned_for(&mut self, schema: SchemaVersion);
    /// If it commits, this version holds from its timestamp on for whoever reads or writes in these
    /// ranges, which are all that plans for earlier versions touch. Taken back with the writes
    /// since a savepoint.
    fn change_schema(&mut self, to: SchemaVersion, ranges: Vec<KeyRange>) -> Result<(), Failure>;
    /// Whether all that it has read stands together: asked before somebody is told an error that
    /// comes of it. Where reads are protected, or are of one snapshot, they do; a protocol that
    /// finds out when it commits fails here as it would then.
    fn validate(&mut self) -> Future<'_, Result<(), Failure>> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Marks a point to return to.
    fn savepoint(&mut self) -> Savepoint;
    /// Takes back every write since the savepoint.
    fn rollback_to(&mut self, savepoint: Savepoint);
    /// Commits. The answer comes when the outcome is durable and surely past (commit wait).
    fn commit(self: Box<Self>) -> Future<'static, Outcome>;
}

/// A database in which transactions begin.
pub trait Database: Send + Sync {
    /// The isolation level of its transactions: what `SHOW transaction_isolation` says. A session
    /// that asks for a weaker one gets this.
    fn isolation(&self) -> IsolationLevel;
    /// Begins a transaction. Fails with `Unavailable` or `BelowHorizon`.
    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>>;
}
