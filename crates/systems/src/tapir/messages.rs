//! What sessions and replicas say.

use meridian_clock::Timestamp;
use meridian_mvcc::{KeyRange, Write};
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
    },
    /// What stands there, as far as the replica knows; nobody who is not prepared writes there any more.
    #[n(2)]
    Looked {
        /// The question.
        #[n(0)]
        id: OpId,
        /// None while somebody is prepared who may write there.
        #[n(1)]
        page: Option<Page>,
    },
}

/// The newest version of each key, tombstones, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Page {
    /// In the order that was asked for.
    #[n(0)]
    pub versions: Vec<(Timestamp, Write)>,
    /// What was not looked at.
    #[n(1)]
    pub rest: Option<KeyRange>,
}
