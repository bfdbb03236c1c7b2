//! The interface of a transaction to its session, the same for every protocol.

use crate::{AgeParts, Consistency, IsolationLevel, SchemaVersion, SnapshotAge, Timings};
use meridian_clock::{Interval, Timestamp};
use meridian_mvcc::{Key, KeyRange, Value};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A boxed future: the boundary between protocols, which are stepped, and sessions, which are async
/// on any executor.
pub type Future<'a, T> = Pin<Box<dyn std::future::Future<Output = T> + Send + 'a>>;

/// The id of one attempt of one transaction. It is never reused, because an incarnation of a node
/// is not.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, minicbor::Encode, minicbor::Decode,
)]
pub struct TransactionId {
    /// The coordinator's node.
    #[n(0)]
    pub node: u32,
    /// The node's incarnation.
    #[n(1)]
    pub incarnation: u32,
    /// The node's number for the attempt.
    #[n(2)]
    pub number: u64,
}

/// The lock that a read takes until the transaction ends. Ignored by protocols that do not lock,
/// and in read-only transactions.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, minicbor::Encode, minicbor::Decode,
)]
pub enum Lock {
    /// No other transaction may write the range.
    #[n(0)]
    Shared,
    /// No other transaction may write the range, or read it under a lock: UPDATE, DELETE, SELECT …
    /// FOR UPDATE.
    #[n(1)]
    Exclusive,
}

/// The behaviour of a read in a read-write transaction if a lock is not free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locking {
    /// Waits for the lock.
    #[default]
    Wait,
    /// Fails with [`Failure::Locked`].
    NoWait,
    /// Takes no lock, and reads committed versions and the transaction's own writes.
    None,
}

/// The snapshot of a read-only transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAt {
    /// Everything that was acknowledged before the transaction began.
    Now,
    /// Exactly the state at this timestamp (AS OF SYSTEM TIME).
    Exact(Timestamp),
    /// The state at this timestamp or at any later one that is available on this node; or
    /// everything that was acknowledged before the transaction began (Spanner §4.1.3, bounded
    /// staleness).
    AtLeast(Timestamp),
}

/// The kind of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads and writes.
    ReadWrite,
    /// Reads at one timestamp; takes no lock and blocks no other transaction.
    ReadOnly(ReadAt),
}

/// The priority of a transaction: smaller is older, and the older wins (wound-wait). A retry keeps
/// its age.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, minicbor::Encode, minicbor::Decode,
)]
pub struct Age {
    /// When the first attempt began by its node's clock, nanoseconds since the epoch.
    #[n(0)]
    pub began_ns: u64,
    /// The coordinator's node, so that no two transactions have one age.
    #[n(1)]
    pub node: u32,
    /// The node's number for the transaction.
    #[n(2)]
    pub number: u64,
}

/// The options of a beginning transaction.
#[derive(Clone, Debug)]
pub struct Begin {
    /// Reads only, or writes too.
    pub mode: Mode,
    /// The age of the attempt that this one retries; none for a first attempt.
    pub age: Option<Age>,
    /// The order that it needs; a protocol that has only stronger modes gives one of those.
    pub consistency: Consistency,
    /// The causal token: the transaction comes after everything up to this timestamp. Zero for
    /// none. Protocols whose commits wait until their timestamps have passed need none, and ignore
    /// it.
    pub token: Timestamp,
    /// How much older than the present a snapshot is to be, and not below the token. Only for
    /// databases that choose older snapshots ([`Database::snapshot_age`]); others ignore it.
    pub snapshot_age: SnapshotAge,
}

impl Begin {
    /// Returns the options of a first attempt with the strongest order.
    pub const fn new(mode: Mode) -> Begin {
        Begin {
            mode,
            age: None,
            consistency: Consistency::CommitWait,
            token: Timestamp::ZERO,
            snapshot_age: SnapshotAge::PRESENT,
        }
    }

    /// Returns the options with the age of the attempt that this one retries, if it is a retry.
    pub fn aged(self, age: Option<Age>) -> Begin {
        Begin { age, ..self }
    }
}

/// The reason why a transaction was aborted for good: none of its writes took effect.
#[derive(Clone, Debug, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub enum Conflict {
    /// An older transaction requested a lock that this one held (wound-wait).
    #[n(0)]
    Wounded {
        /// The age of the transaction that won.
        #[n(0)]
        by: Age,
        /// The key of the conflict.
        #[n(1)]
        key: Key,
        /// The `application_name` of the winner's session, if it has one.
        #[n(2)]
        application: Option<String>,
    },
    /// The leader that held this transaction's locks does not lead any more.
    #[n(2)]
    LeaderChanged,
    /// The session ended, or rolled back.
    #[n(3)]
    RolledBack,
    /// The coordinator gave no sign of life for too long while the transaction held locks.
    #[n(4)]
    Expired,
    /// Keys of this transaction moved to another shard while it held locks.
    #[n(5)]
    Moved,
    /// A shard that was only read could not extend its promise until the other shards were
    /// prepared.
    #[n(6)]
    Late,
    /// The schema of a table differs from the version that the transaction was planned for, or is
    /// about to.
    #[n(7)]
    SchemaChanged {
        /// The table's id.
        #[n(0)]
        table: u32,
    },
    /// A version that the transaction has read was overwritten by another transaction, or may have
    /// been (optimistic protocols).
    #[n(8)]
    Overwritten,
    /// No timestamp was found at which the transaction is valid, in any of its attempts (optimistic
    /// protocols).
    #[n(9)]
    Contended,
    /// A row that the transaction writes has a version above its snapshot, or may have one
    /// (snapshot isolation: the first of two committers wins).
    #[n(10)]
    WrittenSince {
        /// The row's key.
        #[n(0)]
        key: Key,
        /// The newest version that the row has or may have: a transaction that comes after it is
        /// not refused for it again. None in the answer of an earlier version.
        #[n(1)]
        at: Option<Timestamp>,
    },
    /// A later transaction has read a row that this one writes, or a range that the row lies in
    /// (timestamp ordering: the write would change what was read).
    #[n(11)]
    ReadLater {
        /// The row's key.
        #[n(0)]
        key: Key,
    },
}

/// The outcome of a commit as its session knows it. `Aborted` is definite, `Unknown` is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The transaction committed at this timestamp, durably.
    Committed {
        /// The commit timestamp.
        at: Timestamp,
    },
    /// The transaction did not commit and never will.
    Aborted {
        /// The reason.
        why: Conflict,
    },
    /// The transaction may have committed, or may yet: the leader did not answer.
    Unknown,
}

/// The error of a read, or of beginning a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The transaction is aborted: SQLSTATE 40001 unless a retry absorbs it.
    Aborted(Conflict),
    /// The snapshot is older than the versions that are kept.
    BelowHorizon {
        /// The oldest timestamp that can still be read.
        oldest: Timestamp,
    },
    /// The snapshot lies in the future.
    InFuture {
        /// The present time by this node's clock.
        now: Interval,
    },
    /// The causal token lies too far in the future to be true: SQLSTATE 22023.
    FarToken {
        /// The distance by which it is ahead of the latest possible time, in nanoseconds.
        ahead_ns: u64,
    },
    /// A write in a read-only transaction: SQLSTATE 25006.
    ReadOnly,
    /// The transaction's writes exceed the limit: SQLSTATE 54000.
    TooLarge {
        /// The limit in bytes.
        limit_bytes: u64,
    },
    /// There is no memory for a row that is kept in it: SQLSTATE 53200.
    OutOfMemory {
        /// The limit in bytes.
        limit_bytes: u64,
    },
    /// The disk has no room for writes: SQLSTATE 53100. Reads still succeed.
    DiskFull,
    /// A lock was not acquired within the timeout: SQLSTATE 55P03.
    LockTimeout,
    /// A lock was not free, and the read was not to wait for it: SQLSTATE 55P03.
    Locked,
    /// No leader answers. The message names the group and what to do.
    Unavailable(String),
    /// A group refused an administrative request in its present state: SQLSTATE 55000.
    Refused(String),
    /// The store or the log cannot be read. The message names the file.
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
            Conflict::Contended => {
                f.write_str("too many concurrent transactions conflict with this one")
            }
            Conflict::WrittenSince { .. } => f.write_str(
                "another transaction has written a row that this one writes, after its snapshot",
            ),
            Conflict::ReadLater { .. } => {
                f.write_str("a later transaction has read a row that this one writes")
            }
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
            Failure::FarToken { ahead_ns } => write!(
                f,
                "the causal token is {} ms ahead of the latest possible time: it is not of this database, or a clock is wrong",
                ahead_ns.div_ceil(1_000_000)
            ),
            Failure::ReadOnly => f.write_str("cannot write in a read-only transaction"),
            Failure::TooLarge { limit_bytes } => {
                write!(f, "the transaction writes more than {limit_bytes} bytes")
            }
            Failure::OutOfMemory { limit_bytes } => {
                let megabytes = limit_bytes >> 20;
                write!(f, "queries and temporary tables may take {megabytes} MB together")
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

/// One chunk of a scan, in key order or in reverse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Keys and values, without tombstones, with the transaction's own writes merged in.
    pub rows: Vec<(Key, Value)>,
    /// The commit timestamp of each row, in the same order, if [`Transaction::show_versions`] was
    /// called; `None` for the transaction's own writes.
    pub at: Vec<Option<Timestamp>>,
    /// The part of the range that is left to scan; `None` if there is none.
    pub rest: Option<KeyRange>,
}

/// A point inside a transaction to which its writes can be rolled back. Locks stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(pub usize);

/// One transaction. Dropping it sends an abort and returns at once; dropping the future of `commit`
/// cancels nothing.
pub trait Transaction: Send {
    /// Returns its kind.
    fn mode(&self) -> Mode;
    /// Returns its age, which a retry keeps.
    fn age(&self) -> Age;
    /// Returns when it began by its node's clock: `CURRENT_TIMESTAMP`.
    fn began(&self) -> Interval;
    /// Returns the snapshot of a read-only transaction once it is chosen.
    fn read_at(&self) -> Option<Timestamp>;
    /// True if its reads need not be of one moment, and it is not refused for that (HybridTime's
    /// mode `none`).
    fn reads_apart(&self) -> bool {
        false
    }
    /// Returns the causal token of a client that has seen this transaction's reads: nothing that it
    /// has read is newer. Zero for protocols without tokens.
    fn token(&self) -> Timestamp {
        Timestamp::ZERO
    }
    /// Reads one key, own writes first.
    fn get<'a>(
        &'a mut self,
        key: &'a Key,
        lock: Lock,
    ) -> Future<'a, Result<Option<Value>, Failure>>;
    /// Reads several keys, own writes first, in the order of `keys`, in which it also takes their
    /// locks.
    ///
    /// A protocol that can request all of them in parallel overrides this, so that the latency does
    /// not grow with their number.
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
    /// Declares that no other transaction may write a row, of which this one has read the value,
    /// until this one has committed (FOR UPDATE, FOR SHARE). Fails with `TooLarge` like
    /// [`Transaction::put`]. Protocols need nothing more whose reads take locks or are validated.
    fn keep(&mut self, key: &Key, value: &Value) -> Result<(), Failure> {
        let _ = (key, value);
        Ok(())
    }
    /// Declares that no row of a range may change, appear or go away between what this transaction
    /// reads of it and its commit (schema changes that read a table). Like [`Transaction::keep`],
    /// it is for protocols whose reads neither lock nor are validated.
    fn keep_range(&mut self, range: KeyRange) {
        let _ = range;
    }
    /// Returns the ranges that are [kept](Transaction::keep_range).
    fn kept_ranges(&self) -> Vec<KeyRange> {
        Vec::new()
    }
    /// Keeps ranges that a former attempt has kept, and locks them before the first read: nothing
    /// changes in them until this attempt has ended, so that steady writers cannot have it refused
    /// again and again.
    fn lock_first(&mut self, ranges: Vec<KeyRange>) -> Future<'_, Result<(), Failure>> {
        let _ = ranges;
        Box::pin(std::future::ready(Ok(())))
    }
    /// Declares that a range is new: until this transaction has committed, only commits that it
    /// [adopts](Transaction::adopt) write there. It reads what they have written, whatever its
    /// snapshot.
    fn own(&mut self, range: KeyRange) {
        let _ = range;
    }
    /// Declares that no other transaction meets the writes of this one in a range: storage that no
    /// descriptor names yet, or none names any more. A transaction that is planned for a
    /// descriptor from above this commit reads above it, and one that is planned for an older one
    /// is refused as the schema changes. So leaders need not remember these writes for
    /// certification. Of several ranges the last counts. Like [`Transaction::keep`], it is for
    /// protocols whose reads neither lock nor are validated.
    fn writes_alone(&mut self, range: KeyRange) {
        let _ = range;
    }
    /// Adopts a commit that another transaction made for this one: a row that it wrote may be
    /// written by this one, whatever its snapshot. No third transaction may have written the row
    /// before it. A leader that has begun since, or that remembers the commit by hash only, may
    /// refuse the row nevertheless. Like [`Transaction::keep`], it is for protocols whose reads
    /// neither lock nor are validated.
    fn adopt(&mut self, commit: Timestamp) {
        let _ = commit;
    }
    /// Declares that this transaction waits for another one of its session. It gives up its place
    /// in an order of waiting, if the protocol has given it one: the other may need that place.
    fn give_way(&mut self) {}
    /// Buffers a write; `None` deletes the key.
    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure>;
    /// Sends the writes so far to their shards, so that the commit need not, and does not wait for
    /// answers: the transaction goes on meanwhile. A refusal shows with a later call. Protocols
    /// that write when they commit ignore it.
    fn send_writes(&mut self) -> Future<'_, ()> {
        Box::pin(std::future::ready(()))
    }
    /// Sets the time that a read waits for a lock; `None` is unlimited. Protocols that do not lock
    /// ignore it.
    fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        let _ = timeout;
    }
    /// Sets the locking of later reads. Returns false if the protocol cannot do it: a protocol
    /// without locks never waits.
    fn set_locking(&mut self, how: Locking) -> bool {
        how != Locking::None
    }
    /// Returns the locking of reads. Protocols without locks always wait.
    fn locking(&self) -> Locking {
        Locking::Wait
    }
    /// Sets the order that the transaction needs, from its next read or its commit on. Protocols
    /// with one mode ignore it.
    fn set_consistency(&mut self, mode: Consistency) {
        let _ = mode;
    }
    /// Sets the session's `application_name`, which is reported to transactions that lose against
    /// this one. Protocols that do not report it ignore it.
    fn set_application(&mut self, name: &str) {
        let _ = name;
    }
    /// Starts to measure the time that the transaction takes. Protocols without measurement return
    /// `None`.
    fn measure(&mut self) -> Option<Arc<Timings>> {
        None
    }
    /// Asks that chunks return the commit timestamp of each row. Protocols without it ignore this.
    fn show_versions(&mut self) {}
    /// Declares, before the first read, that all reads lie in this range (Spanner §4.2.2). Returns
    /// true if the protocol uses that: then the transaction reads the present of this range only,
    /// and nothing else may be read in it. A range in several shards is used only if `negotiates`
    /// is true: the shards are then asked for a timestamp first, and reads do not wait for commits
    /// meanwhile.
    fn reads_only_in(&mut self, scope: &KeyRange, negotiates: bool) -> bool {
        let _ = (scope, negotiates);
        false
    }
    /// Declares the schema version of a table that the following statements were planned for. The
    /// transaction fails where a later version holds. Of several versions of one table the oldest
    /// counts.
    fn planned_for(&mut self, schema: SchemaVersion);
    /// Changes the schema of a table from the commit timestamp on, for every transaction that reads
    /// or writes in these ranges, which are all that plans for earlier versions touch. A rollback
    /// to a savepoint undoes it.
    fn change_schema(&mut self, to: SchemaVersion, ranges: Vec<KeyRange>) -> Result<(), Failure>;
    /// Checks that everything that it has read is consistent, before a session reports an error
    /// that follows from these reads. Reads under locks or of one snapshot always are. A protocol
    /// that validates at commit fails here as it would then.
    fn validate(&mut self) -> Future<'_, Result<(), Failure>> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Does what its commit needs and what may fail for another reason than a conflict. A session
    /// calls it before the commit, which otherwise does the same and can only tell of a conflict.
    fn before_commit(&mut self) -> Future<'_, Result<(), Failure>> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Returns a point to roll back to.
    fn savepoint(&mut self) -> Savepoint;
    /// Undoes every write since the savepoint.
    fn rollback_to(&mut self, savepoint: Savepoint);
    /// Commits. The future ends when the outcome is durable and its timestamp has surely passed
    /// (commit wait).
    fn commit(self: Box<Self>) -> Future<'static, Outcome>;
}

/// A database, in which transactions begin.
pub trait Database: Send + Sync {
    /// Returns the isolation level of its transactions, which `SHOW transaction_isolation` shows. A
    /// session that requests a weaker level gets this one.
    fn isolation(&self) -> IsolationLevel;
    /// Returns the consistency modes that a transaction can choose, the default first.
    fn consistency(&self) -> &'static [Consistency] {
        &[Consistency::CommitWait]
    }
    /// Returns what the age of a snapshot would be made of now, on this node. `None` in a database
    /// that chooses no older snapshots.
    fn snapshot_age(&self) -> Option<AgeParts> {
        None
    }
    /// Waits for a time by the node's boot clock, or until the node closes.
    fn sleep(&self, time: Duration) -> Future<'_, ()>;
    /// Begins a transaction. Fails with `Unavailable` or `BelowHorizon`.
    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>>;
}
