//! Messages between sessions and replicas.

use meridian_clock::Timestamp;
use meridian_mvcc::{Chunk, Key, KeyRange, Write};
use meridian_replication::inconsistent::{self, OpId};
use meridian_txn::tapir::{ConsensusOp, ConsensusResult, InconsistentOp};
use minicbor::{Decode, Encode};

/// A log record of a replica.
pub type LogRecord = inconsistent::LogRecord<InconsistentOp, ConsensusOp, ConsensusResult>;

/// A message between sessions and replicas.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message {
    /// A message about operations and views.
    #[n(0)]
    Operation(#[n(0)] inconsistent::Message<InconsistentOp, ConsensusOp, ConsensusResult>),
    /// A session reads a snapshot.
    #[n(1)]
    Look {
        /// The request; no operation has this number.
        #[n(0)]
        id: OpId,
        /// The snapshot's timestamp.
        #[n(1)]
        at: Timestamp,
        /// The range to read.
        #[n(2)]
        range: KeyRange,
        /// Reads from the end of the range backwards.
        #[n(3)]
        reverse: bool,
        /// The most rows to return.
        #[n(4)]
        limit_rows: u32,
        /// The epoch of the replicas. Answers of different epochs do not count together.
        #[n(5)]
        epoch: u32,
    },
    /// A replica's answer to a snapshot read: its versions. Transactions that are not prepared do
    /// not write there any more.
    #[n(2)]
    Looked {
        /// The request.
        #[n(0)]
        id: OpId,
        /// The versions; `None` while a transaction is prepared that may write there.
        #[n(1)]
        page: Option<Page>,
        /// True if all transactions at or below the snapshot have ended here: no other replica is
        /// needed.
        #[n(2)]
        settled: bool,
        /// The view in which the replica has answered. Only answers of one view count together.
        #[n(3)]
        #[cbor(default)]
        view: inconsistent::View,
    },
    /// A session reads a replica's newest versions, which are validated when it commits.
    #[n(3)]
    Read {
        /// The request; no operation has this number.
        #[n(0)]
        id: OpId,
        /// The range to read.
        #[n(1)]
        range: KeyRange,
        /// Reads from the end of the range backwards.
        #[n(2)]
        reverse: bool,
        /// The most rows to return.
        #[n(3)]
        limit_rows: u32,
    },
    /// A replica's answer to a read of its newest versions.
    #[n(4)]
    Found {
        /// The request.
        #[n(0)]
        id: OpId,
        /// The versions.
        #[n(1)]
        page: Page,
        /// Everything at or below this was settled at the replica before it read.
        #[n(2)]
        through: Timestamp,
    },
    /// A new replica requests a page of the settled state.
    #[n(6)]
    Copy {
        /// The request; no operation has this number.
        #[n(0)]
        id: OpId,
        /// The timestamp of the copy.
        #[n(1)]
        at: Timestamp,
        /// The range to copy.
        #[n(2)]
        range: KeyRange,
        /// The most rows to return.
        #[n(3)]
        limit_rows: u32,
    },
    /// The snapshot is older than the retained versions.
    #[n(5)]
    TooOld {
        /// The request.
        #[n(0)]
        id: OpId,
        /// The oldest timestamp that can be read.
        #[n(1)]
        oldest: Timestamp,
    },
    /// A session requests its turn at contested ranges.
    #[n(7)]
    TakeTurn {
        /// The number of this message; no operation has it.
        #[n(0)]
        id: OpId,
        /// The request for the turn, which the session repeats.
        #[n(4)]
        request: OpId,
        /// The key that names the turn at the session's node.
        #[n(1)]
        key: Key,
        /// How long the turn may be held, in nanoseconds: at most 5 s count.
        #[n(2)]
        holds_ns: u64,
        /// True if the session knows that it is queued, and is to be answered only when it has its
        /// turn.
        #[n(3)]
        waits: bool,
        /// The contested ranges; without any, the key. More than 64 of them, or more than 16 KiB of
        /// keys, are given their turn at once.
        #[n(5)]
        #[cbor(skip_if = "Vec::is_empty")]
        ranges: Vec<KeyRange>,
    },
    /// Other sessions come first.
    #[n(8)]
    Queued {
        /// The number of the message that is answered.
        #[n(0)]
        id: OpId,
    },
    /// The session has its turn.
    #[n(9)]
    HasTurn {
        /// The number of the message that is answered.
        #[n(0)]
        id: OpId,
    },
    /// A session no longer needs its turn, or its place in the queue.
    #[n(10)]
    Leave {
        /// The request for the turn.
        #[n(0)]
        request: OpId,
        /// The key that names the turn at the session's node.
        #[n(1)]
        key: Key,
    },
    /// Another session of the same node continues with a turn.
    #[n(11)]
    KeepTurn {
        /// The request that has the turn.
        #[n(0)]
        request: OpId,
        /// The key that names the turn at the session's node.
        #[n(1)]
        key: Key,
        /// How long the turn may be held from now on, in nanoseconds: at most 5 s count.
        #[n(2)]
        holds_ns: u64,
    },
}

impl Message {
    /// Returns the request that this message answers, if it is an answer to a session.
    pub fn answers(&self) -> Option<OpId> {
        match self {
            Message::Operation(
                inconsistent::Message::Reply { id, .. }
                | inconsistent::Message::Confirm { id, .. }
                | inconsistent::Message::Missing { id, .. },
            ) => Some(*id),
            Message::Looked { id, .. } | Message::Found { id, .. } | Message::TooOld { id, .. } => {
                Some(*id)
            }
            Message::Queued { id } | Message::HasTurn { id } => Some(*id),
            Message::Operation(_)
            | Message::Look { .. }
            | Message::Read { .. }
            | Message::Copy { .. } => None,
            Message::TakeTurn { .. } | Message::KeepTurn { .. } | Message::Leave { .. } => None,
        }
    }
}

/// The newest version of each key in a range, including tombstones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Page {
    /// In the requested order.
    #[n(0)]
    pub versions: Vec<(Timestamp, Write)>,
    /// The rest of the range, which was not read.
    #[n(1)]
    pub rest: Option<KeyRange>,
}

impl Page {
    /// Merges the rows and tombstones of a scan into one sequence.
    pub fn of(chunk: Chunk, reverse: bool) -> Page {
        let Chunk { rows, at, gone, rest } = chunk;
        let live = rows
            .into_iter()
            .zip(at)
            .map(|((key, value), at)| (at, Write { key, value: Some(value) }));
        let gone = gone.into_iter().map(|(key, at)| (at, Write { key, value: None }));
        let mut versions: Vec<(Timestamp, Write)> = live.chain(gone).collect();
        versions.sort_unstable_by(|(_, one), (_, other)| one.key.cmp(&other.key));
        if reverse {
            versions.reverse();
        }
        Page { versions, rest }
    }

    /// Separates rows from tombstones: the inverse of [`of`](Page::of).
    pub fn chunk(self) -> Chunk {
        let mut chunk = Chunk { rest: self.rest, ..Chunk::default() };
        for (at, Write { key, value }) in self.versions {
            match value {
                Some(value) => {
                    chunk.rows.push((key, value));
                    chunk.at.push(at);
                }
                None => chunk.gone.push((key, at)),
            }
        }
        chunk
    }
}
