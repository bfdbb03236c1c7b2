//! What replicas say, keep, agree on, wait for, and ask of their world.

use bytes::Bytes;
use meridian_clock::Timestamp;
use meridian_machine::{Address, NodeId};
use meridian_mvcc::{KeyRange, Write};
use meridian_replication::group::{self, Index, Term};
use meridian_txn::locking::{Reply, Request, TransactionId};
use minicbor::{Decode, Encode};

/// What arrives at a replica or at a coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message {
    /// Between members.
    #[n(0)]
    Group(#[n(0)] group::Message),
    /// From a coordinator to a leader.
    #[n(1)]
    Request(#[n(0)] Request),
    /// From a leader to a coordinator.
    #[n(2)]
    Reply(#[n(0)] Reply),
}

/// What a replica keeps on disk.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Record {
    /// The group's.
    #[n(0)]
    Group(#[n(0)] group::Record),
    /// What the entries that a checkpoint freed have said.
    #[n(1)]
    Summary(#[n(0)] Summary),
}

/// What remains of entries that are no longer in the log, besides their versions. Travels with snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Summary {
    /// No leader up to here used a timestamp above these nanoseconds that is not in the log (Trap A.5-2).
    #[n(0)]
    pub ceiling_ns: u64,
    /// The newest commit timestamp.
    #[n(1)]
    pub newest: Timestamp,
    /// Recent outcomes, oldest first.
    #[n(2)]
    pub outcomes: Vec<Committed>,
    /// Outcomes of this leadership and earlier ones may have been forgotten.
    #[n(3)]
    pub forgotten: u64,
}

/// One outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Committed {
    /// The attempt.
    #[n(0)]
    pub transaction: TransactionId,
    /// The commit timestamp.
    #[n(1)]
    pub at: Timestamp,
    /// The leadership.
    #[n(2)]
    pub term: u64,
}

/// What the group agrees on.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) enum Payload {
    /// A transaction happened.
    #[n(0)]
    Commit {
        #[n(0)]
        transaction: TransactionId,
        #[n(1)]
        at: Timestamp,
        #[n(2)]
        writes: Vec<Write>,
    },
    /// Timestamps up to these nanoseconds may be used.
    #[n(1)]
    Ceiling(#[n(0)] u64),
}

/// The first byte of each payload.
const FORMAT: u8 = 1;

impl Payload {
    pub(super) fn to_bytes(&self) -> Bytes {
        let mut bytes = vec![FORMAT];
        minicbor::encode(self, &mut bytes).expect("invariant: a vector takes everything");
        bytes.into()
    }

    /// `None` for a leader's first entry, which is empty.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Option<Self>, minicbor::decode::Error> {
        match bytes {
            [] => Ok(None),
            [FORMAT, rest @ ..] => minicbor::decode(rest).map(Some),
            [..] => Err(minicbor::decode::Error::message("a payload of an unknown format version")),
        }
    }
}

/// What a replica waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The group's.
    Group(group::Timer),
    /// The oldest agreed commit's timestamp has passed (commit wait), or a new leader's predecessor's has.
    CommitWait,
    /// Look for silent transactions, and keep the ceiling ahead.
    Tick,
    /// Something that had to wait for the clock or the lease may go on.
    Retry,
}

/// A decision that a read may proceed. The world reads and answers with [`ReadGrant::answer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadGrant {
    /// Who asked.
    pub reply_to: Address,
    /// The question.
    pub id: u64,
    /// The leadership that grants it.
    pub term: u64,
    /// What to read.
    pub range: KeyRange,
    /// At which timestamp.
    pub at: Timestamp,
    /// From its end backwards.
    pub reverse: bool,
    /// At most so many rows.
    pub limit_rows: u32,
    /// The answer is true only if it leaves before this (`Outbox::send_before`): the end of the lease.
    pub until: u64,
}

impl ReadGrant {
    /// The answer.
    pub fn answer(&self, chunk: meridian_mvcc::Chunk) -> Message {
        let (id, term, at) = (self.id, self.term, self.at);
        Message::Reply(Reply::Rows { id, term, at, rows: chunk.rows, rest: chunk.rest })
    }
}

/// What local readers may know without asking the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// Everything at or below is installed, and nothing will appear there any more (safe time).
    pub through: Timestamp,
    /// While `now.latest` is below this, `through` holds everything that was acknowledged; 0 at a follower.
    pub until: u64,
    /// The oldest commit that has a timestamp and cannot be shown yet.
    pub held_back: Option<Timestamp>,
}

/// The versions of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// The commit timestamp.
    pub at: Timestamp,
    /// What was written.
    pub writes: Vec<Write>,
    /// The entry.
    pub index: Index,
    /// Its term.
    pub term: Term,
}

/// What a replica asks of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Put these into `Recent`, in order, before anything that follows in the outbox. Every entry through the index is then applied.
    Install {
        /// The commits.
        installs: Vec<Install>,
        /// The last entry.
        through: Index,
        /// Its term.
        term: Term,
    },
    /// Read and answer.
    Serve(ReadGrant),
    /// Publish this for local readers.
    Readable(Readable),
    /// A follower needs versions and [`Summary`] through an entry; then call `Replica::snapshot_delivered`.
    SendSnapshot {
        /// The follower.
        to: NodeId,
        /// At least through this entry.
        index: Index,
        /// Its term.
        term: Term,
    },
    /// This replica leads.
    BecameLeader {
        /// The leadership.
        term: Term,
    },
    /// It leads no more.
    LostLeadership {
        /// The leadership that ended.
        term: Term,
    },
}
