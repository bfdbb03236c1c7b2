//! What is asked of a shard's replicas, what each answers, and what is decided from their answers.

use crate::TransactionId;
use meridian_clock::Timestamp;
use meridian_mvcc::{Key, KeyRange, Write};
use minicbor::{Decode, Encode};

/// What a database promises of the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum Guarantee {
    /// The order is that of real time, too: the coordinator waits until the timestamp has surely passed (Trap A.2-1).
    #[default]
    #[n(0)]
    StrictlySerializable,
    /// There is an order. What nobody has read yet may be written in the past (§6.3).
    #[n(1)]
    Serializable,
}

/// What a replica said was in a range.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Seen {
    /// The range: all of it, found or not (Trap A.2-18).
    #[n(0)]
    pub range: KeyRange,
    /// The versions in it that are not settled, by key; tombstones, too.
    #[n(1)]
    pub versions: Vec<(Key, Timestamp)>,
    /// Everything at or below was settled there: it had all of that, as everybody does who has settled as much.
    #[n(2)]
    pub through: Timestamp,
}

impl Seen {
    /// The version that was seen of a key, if it was not settled.
    pub fn of(&self, key: &Key) -> Option<Timestamp> {
        let place = self.versions.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
        Some(self.versions[place].1)
    }
}

/// A transaction that is to be at a timestamp, as far as one shard is concerned (PREPARE).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Proposal {
    /// Which.
    #[n(0)]
    pub transaction: TransactionId,
    /// How many timestamps were proposed before. Each is an operation of its own (Trap A.2-13), and is opened when the one before will never commit.
    #[n(1)]
    pub attempt: u32,
    /// The timestamp.
    #[n(2)]
    pub at: Timestamp,
    /// What it has read here.
    #[n(3)]
    pub reads: Vec<Seen>,
    /// What it writes here, by key, each once.
    #[n(4)]
    pub writes: Vec<Write>,
}

/// What a replica thinks of a proposal (TAPIR-OCC-CHECK, with the mends of Trap A.2-20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Vote {
    /// It is prepared here.
    #[n(0)]
    Ok,
    /// It would do if another one is aborted that is prepared here.
    #[n(1)]
    Abstain,
    /// Not at this timestamp: one above this may do.
    #[n(2)]
    Retry(#[n(0)] Timestamp),
    /// Never: something that it has read is another by now.
    #[n(3)]
    Abort,
}

/// What became of a transaction. A commit says everything anew: a replica need not have heard of the proposal.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum End {
    /// It committed as it was proposed.
    #[n(0)]
    Commit(#[n(0)] Proposal),
    /// It did not, and does not at any timestamp up to this one.
    #[n(1)]
    Abort {
        /// Which.
        #[n(0)]
        transaction: TransactionId,
        /// The highest that was ever proposed.
        #[n(1)]
        at: Timestamp,
    },
}

/// What a shard answers, from what enough of its replicas have: of one attempt (TAPIR-DECIDE).
pub fn decide<'a>(votes: impl IntoIterator<Item = &'a Vote>, quorum: usize) -> Vote {
    let votes: Vec<Vote> = votes.into_iter().copied().collect();
    let many = |vote: Vote| votes.iter().filter(|known| **known == vote).count();
    let retry = votes.iter().filter_map(|vote| if let Vote::Retry(above) = vote { Some(*above) } else { None }).max();
    match retry {
        _ if many(Vote::Abort) > 0 => Vote::Abort,
        _ if many(Vote::Ok) >= quorum => Vote::Ok,
        _ if many(Vote::Abstain) >= quorum => Vote::Abstain,
        Some(above) => Vote::Retry(above),
        None => Vote::Abstain,
    }
}
