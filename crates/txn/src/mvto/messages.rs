//! Messages of coordinators, leaders and recorders.

use super::recorder::Place;
use crate::shards::ReplicaId;
use crate::{SchemaVersion, TransactionId};
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange, Write};
use minicbor::{Decode, Encode};

/// A coordinator's request to a shard, for a transaction with a timestamp.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Operation {
    /// Reads a range at the transaction's timestamp. It waits for the outcome of older transactions
    /// that write there.
    #[n(0)]
    Read {
        /// The range to read.
        #[n(0)]
        range: KeyRange,
        /// Reads from the end of the range backwards.
        #[n(1)]
        reverse: bool,
        /// The maximum number of rows.
        #[n(2)]
        limit_rows: u32,
        /// Returns the commit timestamp of each row too.
        #[n(3)]
        versions: bool,
        /// Reserves the key, if the range is one: the transaction writes it next, and has lost to
        /// later readers before.
        #[n(4)]
        #[cbor(default)]
        reserves: bool,
    },
    /// Writes intents, and creates the transaction's record if this shard is its recorder. Answered
    /// with [`Written`](crate::shards::Response::Written) once the log has them. A repeated request
    /// is answered alike. One that comes before an earlier part is answered with
    /// [`Unknown`](crate::shards::Response::Unknown), and sent again.
    #[n(1)]
    Write {
        /// The number of earlier parts.
        #[n(0)]
        part: u32,
        /// The writes; each key occurs once.
        #[n(1)]
        writes: Vec<Write>,
        /// The keys whose writes in earlier parts are taken back.
        #[n(2)]
        withdrawn: Vec<Key>,
        /// The schemas that change in this shard, and the keys of their tables.
        #[n(3)]
        schemas: Vec<(SchemaVersion, KeyRange)>,
        /// The recorder's shard, and the node that leads it as far as the coordinator knows.
        #[n(4)]
        recorder: ReplicaId,
        /// The number of parts of which the coordinator knows that they are in the log.
        #[n(5)]
        acknowledged: u32,
    },
    /// Commits a transaction that writes in this shard only: its writes are its record. The commit
    /// wait is the leader's, and overlaps agreement.
    #[n(2)]
    CommitAlone {
        /// The writes; each key occurs once.
        #[n(0)]
        writes: Vec<Write>,
        /// The schemas that change, and the keys of their tables.
        #[n(1)]
        schemas: Vec<(SchemaVersion, KeyRange)>,
        /// True if an earlier copy of the request may have been received: it is not executed again,
        /// but answered with what became of it.
        #[n(2)]
        again: bool,
        /// The time until the transaction's timestamp has surely passed, in nanoseconds from when
        /// this was sent, if an oracle said so. `None` if the leader's clock says it.
        #[n(3)]
        passes_in_ns: Option<u64>,
    },
    /// Commits a transaction at its recorder. All its intents are in the logs, and its timestamp
    /// has surely passed.
    #[n(3)]
    Commit {
        /// The other shards with intents.
        #[n(0)]
        places: Vec<Place>,
        /// The number of parts in which it has written here.
        #[n(1)]
        parts: u32,
    },
    /// Aborts a transaction at its recorder, unless it is committed. Not answered.
    #[n(4)]
    Abort {
        /// The other shards that may have intents.
        #[n(0)]
        places: Vec<Place>,
    },
}

/// A message between the leaders of shards about one transaction.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Peer {
    /// To the recorder: the sender has an intent of the transaction and needs its outcome (K2's
    /// PUSHWS). Answered with `Decided` once it is decided.
    #[n(0)]
    Push {
        /// The transaction.
        #[n(0)]
        transaction: TransactionId,
        /// Its timestamp.
        #[n(1)]
        at: Timestamp,
        /// The timestamp of a reader that waits, if one does. It is later: waits go from later to
        /// earlier transactions only, so that none waits in a circle (Trap A.1-B9). Only a query of
        /// the past, which has no intents, reads at the same timestamp.
        #[n(2)]
        reader: Option<Timestamp>,
    },
    /// From the recorder: the transaction is decided.
    #[n(1)]
    Decided {
        /// The transaction.
        #[n(0)]
        transaction: TransactionId,
        /// The commit timestamp, or `None` if it is aborted.
        #[n(1)]
        at: Option<Timestamp>,
        /// The term in which the receiver's shard had the intents in its log, if the recorder wants
        /// to know when the shard has the outcome.
        #[n(2)]
        term: Option<u64>,
        /// The number of parts in which a committed transaction has written there. A leader with
        /// fewer is deposed, and does not know it.
        #[n(3)]
        parts: u32,
    },
    /// To the recorder: the shard has the outcome in its log.
    #[n(2)]
    Finalized {
        /// The transaction.
        #[n(0)]
        transaction: TransactionId,
        /// The shard.
        #[n(1)]
        shard: ShardId,
    },
}
