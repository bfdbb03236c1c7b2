//! Messages between sessions and replicas, and a replica's log records.

use meridian_clock::Timestamp;
use meridian_mvcc::{Key, KeyRange, Value, Write};
use meridian_replication::inconsistent::OpId;
use minicbor::{Decode, Encode};

/// A message between sessions and replicas.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message {
    /// A session writes. It repeats the message until it is answered; writing is idempotent.
    #[n(0)]
    Put {
        /// The request.
        #[n(0)]
        id: OpId,
        /// The timestamp of all these versions.
        #[n(1)]
        at: Timestamp,
        /// Keys and values.
        #[n(2)]
        writes: Vec<Write>,
    },
    /// The replica has the write on disk.
    #[n(1)]
    Stored {
        /// The request.
        #[n(0)]
        id: OpId,
    },
    /// A session reads a replica's newest versions.
    #[n(2)]
    Read {
        /// The request.
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
    /// A replica's answer to a read.
    #[n(3)]
    Found {
        /// The request.
        #[n(0)]
        id: OpId,
        /// The rows, in the requested order.
        #[n(1)]
        rows: Vec<(Key, Value)>,
        /// The rest of the range, which was not read.
        #[n(2)]
        rest: Option<KeyRange>,
    },
}

impl Message {
    /// Returns the request that this message answers, if it is an answer to a session.
    pub fn answers(&self) -> Option<OpId> {
        match self {
            Message::Stored { id } | Message::Found { id, .. } => Some(*id),
            Message::Put { .. } | Message::Read { .. } => None,
        }
    }
}

/// A write that a replica has accepted.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Put {
    /// Its place in the order of the replica's writes, from 1 on. It grows across restarts.
    #[n(0)]
    pub place: u64,
    /// The timestamp.
    #[n(1)]
    pub at: Timestamp,
    /// Keys and values.
    #[n(2)]
    pub writes: Vec<Write>,
}

/// A log record of a replica.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum LogRecord {
    /// The replica accepted a write.
    #[n(0)]
    Put(#[n(0)] Put),
    /// Everything up to a place was durable in the store, and its records are dropped.
    #[n(1)]
    Stored(#[n(0)] u64),
}

impl LogRecord {
    /// Returns the place that the store must reach at least, according to the records: later writes
    /// are in the log.
    pub fn goes_to(logged: &[LogRecord]) -> u64 {
        let stored = |logged: &LogRecord| {
            if let LogRecord::Stored(place) = logged { Some(*place) } else { None }
        };
        logged.iter().filter_map(stored).max().unwrap_or_default()
    }
}
