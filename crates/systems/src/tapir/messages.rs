//! What sessions and replicas say.

use meridian_clock::Timestamp;
use meridian_mvcc::{Chunk, Key, KeyRange, Write};
use meridian_replication::inconsistent::{self, OpId};
use meridian_txn::tapir::{Answer, Fact, Question};
use minicbor::{Decode, Encode};

/// What a replica keeps on disk.
pub type Kept = inconsistent::Kept<Fact, Question, Answer>;

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message {
    /// Of operations and views.
    #[n(0)]
    Operation(#[n(0)] inconsistent::Message<Fact, Question, Answer>),
    /// A session reads a snapshot.
    #[n(1)]
    Look {
        /// Its question; no operation has this number.
        #[n(0)]
        id: OpId,
        /// The snapshot.
        #[n(1)]
        at: Timestamp,
        /// What of it.
        #[n(2)]
        range: KeyRange,
        /// From the end.
        #[n(3)]
        reverse: bool,
        /// So many rows at most.
        #[n(4)]
        limit_rows: u32,
        /// Whose replicas are asked: enough of them are not enough of another epoch's.
        #[n(5)]
        epoch: u32,
    },
    /// What stands there, as far as the replica knows; nobody who is not prepared writes there any
    /// more.
    #[n(2)]
    Looked {
        /// The question.
        #[n(0)]
        id: OpId,
        /// None while somebody is prepared who may write there.
        #[n(1)]
        page: Option<Page>,
        /// It is all: what stands there has ended here, and nobody else has to be asked.
        #[n(2)]
        settled: bool,
        /// The view in which the replica has answered. Answers of one view count together.
        #[n(3)]
        #[cbor(default)]
        view: inconsistent::View,
    },
    /// A session reads what is newest here, which is validated when it commits.
    #[n(3)]
    Read {
        /// Its question; no operation has this number.
        #[n(0)]
        id: OpId,
        /// What.
        #[n(1)]
        range: KeyRange,
        /// From the end.
        #[n(2)]
        reverse: bool,
        /// So many rows at most.
        #[n(3)]
        limit_rows: u32,
    },
    /// What the replica has of it.
    #[n(4)]
    Found {
        /// The question.
        #[n(0)]
        id: OpId,
        /// It.
        #[n(1)]
        page: Page,
        /// Everything at or below was settled there, before it was looked at.
        #[n(2)]
        through: Timestamp,
    },
    /// A replica that takes over wants what is settled.
    #[n(6)]
    Copy {
        /// Its question; no operation has this number.
        #[n(0)]
        id: OpId,
        /// As of when.
        #[n(1)]
        at: Timestamp,
        /// What of it.
        #[n(2)]
        range: KeyRange,
        /// So many rows at most.
        #[n(3)]
        limit_rows: u32,
    },
    /// The snapshot is older than what is kept.
    #[n(5)]
    TooOld {
        /// The question.
        #[n(0)]
        id: OpId,
        /// The oldest that can be read.
        #[n(1)]
        oldest: Timestamp,
    },
    /// A session wants its turn at a contested key.
    #[n(7)]
    TakeTurn {
        /// The question; no operation has this number.
        #[n(0)]
        id: OpId,
        /// The request, which is asked about again and again.
        #[n(4)]
        request: OpId,
        /// The key after which the queue is named: at most 1 KiB, or there is none.
        #[n(1)]
        key: Key,
        /// How long the turn may be held, in nanoseconds: at most 5 s count.
        #[n(2)]
        holds_ns: u64,
        /// Whether the session knows that it is queued, and is to be answered only when it has its
        /// turn.
        #[n(3)]
        waits: bool,
    },
    /// Other sessions come first.
    #[n(8)]
    Queued {
        /// The question.
        #[n(0)]
        id: OpId,
    },
    /// The session has its turn.
    #[n(9)]
    HasTurn {
        /// The question.
        #[n(0)]
        id: OpId,
    },
    /// A session needs its turn, or its place in the queue, no more.
    #[n(10)]
    Leave {
        /// The request.
        #[n(0)]
        request: OpId,
        /// The key of the queue.
        #[n(1)]
        key: Key,
    },
    /// Another session of the same node goes on with a turn.
    #[n(11)]
    KeepTurn {
        /// The request that has the turn.
        #[n(0)]
        request: OpId,
        /// The key of the queue.
        #[n(1)]
        key: Key,
        /// How long the turn may be held from now on, in nanoseconds: at most 5 s count.
        #[n(2)]
        holds_ns: u64,
    },
}

impl Message {
    /// The question that this answers, if it is an answer to a session.
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

/// The newest version of each key of which there is one, tombstones, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Page {
    /// In the order that was asked for.
    #[n(0)]
    pub versions: Vec<(Timestamp, Write)>,
    /// What was not looked at.
    #[n(1)]
    pub rest: Option<KeyRange>,
}

impl Page {
    /// What a scan found, in one sequence.
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

    /// The inverse.
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
