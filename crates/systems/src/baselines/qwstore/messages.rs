//! What sessions and replicas say, and what a replica keeps.

use meridian_clock::Timestamp;
use meridian_mvcc::{Key, KeyRange, Value, Write};
use meridian_replication::inconsistent::OpId;
use minicbor::{Decode, Encode};

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message {
    /// A session writes. Said again until it is answered: to have it twice is to have it.
    #[n(0)]
    Put {
        /// Its question.
        #[n(0)]
        id: OpId,
        /// The version of all these.
        #[n(1)]
        at: Timestamp,
        /// Keys and values.
        #[n(2)]
        writes: Vec<Write>,
    },
    /// The replica has it on disk.
    #[n(1)]
    Stored {
        /// The question.
        #[n(0)]
        id: OpId,
    },
    /// A session reads what is newest here.
    #[n(2)]
    Read {
        /// Its question.
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
    #[n(3)]
    Found {
        /// The question.
        #[n(0)]
        id: OpId,
        /// In the order that was asked for.
        #[n(1)]
        rows: Vec<(Key, Value)>,
        /// What was not looked at.
        #[n(2)]
        rest: Option<KeyRange>,
    },
}

impl Message {
    /// The question that this answers, if it is an answer to a session.
    pub fn answers(&self) -> Option<OpId> {
        match self {
            Message::Stored { id } | Message::Found { id, .. } => Some(*id),
            Message::Put { .. } | Message::Read { .. } => None,
        }
    }
}

/// What a replica was told to write.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Put {
    /// Its place among everything that the replica has taken, from 1 on. It grows over restarts.
    #[n(0)]
    pub place: u64,
    /// The version.
    #[n(1)]
    pub at: Timestamp,
    /// Keys and values.
    #[n(2)]
    pub writes: Vec<Write>,
}

/// What a replica keeps on disk.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Kept {
    /// It was told to write this.
    #[n(0)]
    Put(#[n(0)] Put),
    /// Everything up to a place was in the store for good, and is kept no more.
    #[n(1)]
    Stored(#[n(0)] u64),
}

impl Kept {
    /// How far the host's store has to go, with what was kept: the place of the last put that is
    /// only there.
    pub fn goes_to(kept: &[Kept]) -> u64 {
        let stored = |kept: &Kept| if let Kept::Stored(place) = kept { Some(*place) } else { None };
        kept.iter().filter_map(stored).max().unwrap_or_default()
    }
}
