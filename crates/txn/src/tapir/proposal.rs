//! Operations on a shard's replicas, their results, and the decisions from these results.

use crate::TransactionId;
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange, Write};
use minicbor::{Decode, Encode};
use std::ops::Deref;
use std::sync::Arc;

/// The guarantee of a database about the order of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum Guarantee {
    /// The order is also that of real time: the coordinator waits until the timestamp has surely
    /// passed (Trap A.2-1).
    #[default]
    #[n(0)]
    StrictlySerializable,
    /// There is a serial order. A key that no transaction has read yet may be written in the past
    /// (§6.3).
    #[n(1)]
    Serializable,
}

/// The result of a read of a range at a replica, to be validated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct RangeRead {
    /// The range: all of it, including keys that were not found (Trap A.2-18).
    #[n(0)]
    pub range: KeyRange,
    /// The unsettled versions in the range, by key; tombstones are included.
    #[n(1)]
    pub versions: Vec<(Key, Timestamp)>,
    /// The replica's settled timestamp at the read. It had every version at or below, as every
    /// replica has that settled as much.
    #[n(2)]
    pub through: Timestamp,
}

impl RangeRead {
    /// Returns the version of a key that was read, if it was not settled.
    pub fn of(&self, key: &Key) -> Option<Timestamp> {
        let place = self.versions.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
        Some(self.versions[place].1)
    }
}

/// One shard's part of a transaction, proposed at a timestamp (PREPARE).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Proposal {
    /// The transaction.
    #[n(0)]
    pub transaction: TransactionId,
    /// The number of timestamps that were proposed before. Each attempt is an operation of its own
    /// (Trap A.2-13), and is opened when the former one will never commit.
    #[n(1)]
    pub attempt: u32,
    /// The proposed timestamp.
    #[n(2)]
    pub at: Timestamp,
    /// The reads and writes, the same for every attempt.
    #[cbor(n(3), with = "shared")]
    pub footprint: Arc<Footprint>,
}

/// The reads and writes of a transaction in a shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Footprint {
    /// The reads in this shard.
    #[n(0)]
    pub reads: Vec<RangeRead>,
    /// The writes in this shard, in key order; each key occurs once.
    #[n(1)]
    pub writes: Vec<Write>,
    /// Every participant, this shard included: a recovery asks them.
    #[n(2)]
    pub participants: Vec<ShardId>,
}

/// Encodes a footprint behind its shared pointer.
mod shared {
    use super::Footprint;
    use minicbor::decode::Error;
    use minicbor::encode::{Error as Unwritten, Write};
    use minicbor::{Decode, Decoder, Encode, Encoder};
    use std::sync::Arc;

    pub fn encode<C, W: Write>(
        footprint: &Arc<Footprint>,
        encoder: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), Unwritten<W::Error>> {
        footprint.as_ref().encode(encoder, context)
    }

    pub fn decode<'b, C>(
        decoder: &mut Decoder<'b>,
        context: &mut C,
    ) -> Result<Arc<Footprint>, Error> {
        Footprint::decode(decoder, context).map(Arc::new)
    }
}

impl Deref for Proposal {
    type Target = Footprint;

    fn deref(&self) -> &Footprint {
        &self.footprint
    }
}

impl Proposal {
    /// Returns the proposal without its reads and writes. A commit is sent by name to replicas that
    /// have it prepared. The name also remains of a commit that all replicas of a shard have for
    /// good, because other shards may still ask for it.
    pub fn name(&self) -> Proposal {
        let participants = self.participants.clone();
        Proposal {
            footprint: Arc::new(Footprint { reads: Vec::new(), writes: Vec::new(), participants }),
            ..*self
        }
    }

    /// Returns the size of its keys and values in bytes.
    pub fn bytes(&self) -> usize {
        let seen = |seen: &RangeRead| -> usize {
            let versions = seen.versions.iter().map(|(key, _)| key.len() + size_of::<Timestamp>());
            seen.range.start.len()
                + seen.range.end.as_ref().map_or(0, |end| end.len())
                + versions.sum::<usize>()
        };
        let written =
            |write: &Write| write.key.len() + write.value.as_ref().map_or(0, |value| value.len());
        self.reads.iter().map(seen).sum::<usize>() + self.writes.iter().map(written).sum::<usize>()
    }

    /// True if only the name is left. A name is never proposed.
    pub fn is_name(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }
}

/// A consensus operation on the replicas of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum ConsensusOp {
    /// Validates a proposal and prepares it.
    #[n(0)]
    Prepare(#[n(0)] Proposal),
    /// Asks for the group's state of a transaction, in recovery.
    #[n(1)]
    Resolve {
        /// The transaction.
        #[n(0)]
        transaction: TransactionId,
        /// No attempt up to this timestamp is prepared from now on that is not prepared yet.
        #[n(1)]
        through: Timestamp,
    },
}

/// The result of a consensus operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum ConsensusResult {
    /// The result of `Prepare`.
    #[n(0)]
    Vote(#[n(0)] Vote),
    /// The result of `Resolve`.
    #[n(1)]
    Stands(#[n(0)] TxnStatus),
}

/// The state of a transaction in a shard. All but `Open` are final: every recovery receives the
/// same until the transaction has ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum TxnStatus {
    /// Not known before a view has begun with the operation.
    #[n(0)]
    Open,
    /// The transaction has committed.
    #[n(1)]
    Committed(#[n(0)] Proposal),
    /// The transaction was aborted.
    #[n(2)]
    Aborted,
    /// The group has voted `Ok` on this attempt, and will on no other.
    #[n(3)]
    Prepared(#[n(0)] Proposal),
    /// The group has voted `Ok` on no attempt that counts, and never will.
    #[n(4)]
    Never,
}

/// A replica's vote on a proposal (TAPIR-OCC-CHECK, with the fixes of Trap A.2-20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Vote {
    /// The proposal is prepared here (PREPARE-OK).
    #[n(0)]
    Ok,
    /// The proposal conflicts with one that is prepared here; it can commit if that one is aborted.
    #[n(1)]
    Abstain,
    /// The proposal cannot commit at this timestamp. A timestamp above the given one may do.
    #[n(2)]
    Retry(#[n(0)] Timestamp),
    /// The transaction can never commit: a version that it has read was overwritten.
    #[n(3)]
    Abort,
    /// The timestamp is settled and its transactions are forgotten. The transaction may have
    /// committed or not.
    #[n(4)]
    Late,
}

/// The outcome of a transaction. A commit repeats its reads and writes, because a replica need not
/// have received the proposal. Where all replicas have, it is sent by its [name](Proposal::name).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum End {
    /// The transaction committed as it was proposed.
    #[n(0)]
    Commit(#[n(0)] Proposal),
    /// The transaction did not commit, and does not at any timestamp up to `at`.
    #[n(1)]
    Abort {
        /// The transaction.
        #[n(0)]
        transaction: TransactionId,
        /// The highest timestamp that was ever proposed for it.
        #[n(1)]
        at: Timestamp,
    },
}

/// The closed and settled timestamps of a shard. Both only rise, and the settled one is at most the
/// closed one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Past {
    /// No proposal at or below this is accepted any more.
    #[n(0)]
    pub closed: Timestamp,
    /// The record that contains this, or an earlier record, has every transaction that ever commits
    /// at or below. Every replica that began a view with that record has them.
    #[n(1)]
    pub settled: Timestamp,
}

impl Past {
    /// Returns the later of each timestamp.
    pub fn join(self, other: Past) -> Past {
        Past { closed: self.closed.max(other.closed), settled: self.settled.max(other.settled) }
    }
}

/// An inconsistent operation: true at every replica that receives it, and kept in the record.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum InconsistentOp {
    /// A transaction has ended.
    #[n(0)]
    Ended(#[n(0)] End),
    /// A replica may have served snapshots up to this timestamp: transactions that are not prepared
    /// write nothing below it any more.
    #[n(1)]
    Served(#[n(0)] Timestamp),
    /// The closed and settled timestamps have risen. The leader that merges a view determines the
    /// settled one.
    #[n(2)]
    Over(#[n(0)] Past),
}

/// Decides a shard's vote on one attempt from the votes of at least a quorum of replicas
/// (TAPIR-DECIDE).
pub fn decide<'a>(votes: impl IntoIterator<Item = &'a Vote>, quorum: usize) -> Vote {
    let votes: Vec<Vote> = votes.into_iter().copied().collect();
    let many = |vote: Vote| votes.iter().filter(|known| **known == vote).count();
    let retry = votes
        .iter()
        .filter_map(|vote| if let Vote::Retry(above) = vote { Some(*above) } else { None })
        .max();
    match retry {
        _ if many(Vote::Late) > 0 => Vote::Late,
        _ if many(Vote::Abort) > 0 => Vote::Abort,
        _ if many(Vote::Ok) >= quorum => Vote::Ok,
        _ if many(Vote::Abstain) >= quorum => Vote::Abstain,
        Some(above) => Vote::Retry(above),
        None => Vote::Abstain,
    }
}

/// Decides a shard's answer to a recovery. An outcome counts whichever replica reports it. Every
/// other state must be reported by all replicas in a view, or is not known yet.
pub fn stands<'a>(answers: impl IntoIterator<Item = &'a TxnStatus>) -> TxnStatus {
    let answers: Vec<&TxnStatus> = answers.into_iter().collect();
    let ended =
        |answer: &&&TxnStatus| matches!(answer, TxnStatus::Committed(_) | TxnStatus::Aborted);
    match answers.iter().find(ended).or(answers.first()) {
        Some(ended @ (TxnStatus::Committed(_) | TxnStatus::Aborted)) => (*ended).clone(),
        Some(first) if answers.iter().all(|answer| *answer == *first) => (*first).clone(),
        _ => TxnStatus::Open,
    }
}
