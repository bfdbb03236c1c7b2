//! What is asked of a shard's replicas, what each answers, and what is decided from their answers.

use crate::TransactionId;
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange, Write};
use minicbor::{Decode, Encode};
use std::ops::Deref;
use std::sync::Arc;

/// What a database promises of the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum Guarantee {
    /// The order is that of real time, too: the coordinator waits until the timestamp has surely
    /// passed (Trap A.2-1).
    #[default]
    #[n(0)]
    StrictlySerializable,
    /// There is an order. What nobody has read yet may be written in the past (§6.3).
    #[n(1)]
    Serializable,
}

/// What a replica said was in a range.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Seen {
    /// The range: all of it, found or not (Trap A.2-18).
    #[n(0)]
    pub range: KeyRange,
    /// The versions in it that are not settled, by key; tombstones, too.
    #[n(1)]
    pub versions: Vec<(Key, Timestamp)>,
    /// Everything at or below was settled there: it had all of that, as everybody does who has
    /// settled as much.
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Proposal {
    /// Which.
    #[n(0)]
    pub transaction: TransactionId,
    /// How many timestamps were proposed before. Each is an operation of its own (Trap A.2-13), and
    /// is opened when the one before will never commit.
    #[n(1)]
    pub attempt: u32,
    /// The timestamp.
    #[n(2)]
    pub at: Timestamp,
    /// The same for every attempt.
    #[cbor(n(3), with = "shared")]
    pub footprint: Arc<Footprint>,
}

/// What a transaction has read and writes in a shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Footprint {
    /// What it has read here.
    #[n(0)]
    pub reads: Vec<Seen>,
    /// What it writes here, by key, each once.
    #[n(1)]
    pub writes: Vec<Write>,
    /// Every shard that takes part, this one included: whoever recovers it asks them.
    #[n(2)]
    pub participants: Vec<ShardId>,
}

/// A footprint is in many hands, and in one place.
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
    /// Which it is, without what it has read and writes: so it is told to replicas that have it
    /// prepared; and it is what is left of a commit that all replicas of a shard have for good, as
    /// other shards may still ask.
    pub fn name(&self) -> Proposal {
        let participants = self.participants.clone();
        Proposal {
            footprint: Arc::new(Footprint { reads: Vec::new(), writes: Vec::new(), participants }),
            ..*self
        }
    }

    /// What its keys and values take.
    pub fn bytes(&self) -> usize {
        let seen = |seen: &Seen| -> usize {
            let versions = seen.versions.iter().map(|(key, _)| key.len() + size_of::<Timestamp>());
            seen.range.start.len()
                + seen.range.end.as_ref().map_or(0, |end| end.len())
                + versions.sum::<usize>()
        };
        let written =
            |write: &Write| write.key.len() + write.value.as_ref().map_or(0, |value| value.len());
        self.reads.iter().map(seen).sum::<usize>() + self.writes.iter().map(written).sum::<usize>()
    }

    /// Whether nothing else is left of it; nobody proposes that.
    pub fn is_name(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }
}

/// What the replicas of a shard are asked, and answer together.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Question {
    /// May it be prepared?
    #[n(0)]
    Prepare(#[n(0)] Proposal),
    /// What is the group's of this transaction?
    #[n(1)]
    Resolve {
        /// Which.
        #[n(0)]
        transaction: TransactionId,
        /// No attempt up to this timestamp comes to be prepared from now on that is not yet.
        #[n(1)]
        through: Timestamp,
    },
}

/// What they answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Answer {
    /// To who proposes.
    #[n(0)]
    Vote(#[n(0)] Vote),
    /// To who recovers.
    #[n(1)]
    Stands(#[n(0)] Standing),
}

/// How a transaction stands in a shard. All but `Open` stand for ever: whoever asks, however often,
/// hears the same, until it has ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Standing {
    /// That is not known before a view has begun with the question.
    #[n(0)]
    Open,
    /// It has committed.
    #[n(1)]
    Committed(#[n(0)] Proposal),
    /// It was aborted.
    #[n(2)]
    Aborted,
    /// The group has said yes to this attempt, and does not to any other.
    #[n(3)]
    Prepared(#[n(0)] Proposal),
    /// The group has said yes to none that counts, and does not any more.
    #[n(4)]
    Never,
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
    /// The timestamp is settled, and what was there is forgotten. It may have committed, or not.
    #[n(4)]
    Late,
}

/// What became of a transaction. A commit says everything anew, as a replica need not have heard of
/// the proposal; where all of them have, it is told by its [name](Proposal::name).
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

/// Up to where a shard's past is over. Both go up, and what is settled is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Past {
    /// Nothing is said yes to at or below this any more.
    #[n(0)]
    pub closed: Timestamp,
    /// All that ever commits at or below is in the record that said so, or was in an earlier one:
    /// whoever began a view with that has it.
    #[n(1)]
    pub settled: Timestamp,
}

impl Past {
    /// The later one of each.
    pub fn join(self, other: Past) -> Past {
        Past { closed: self.closed.max(other.closed), settled: self.settled.max(other.settled) }
    }
}

/// What is true whoever hears of it, and is in the record so that nobody forgets it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Fact {
    /// A transaction has ended.
    #[n(0)]
    Ended(#[n(0)] End),
    /// A replica may have served snapshots up to here: who has not been said yes to does not write
    /// below any more.
    #[n(1)]
    Served(#[n(0)] Timestamp),
    /// A part of the past is over. What is settled whoever merges a view says.
    #[n(2)]
    Over(#[n(0)] Past),
}

/// What a shard answers, from what enough of its replicas have: of one attempt (TAPIR-DECIDE).
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

/// What a shard answers to who recovers a transaction. What has ended is a fact, whoever says it;
/// the rest is said by everybody in a view, or is not known yet.
pub fn stands<'a>(answers: impl IntoIterator<Item = &'a Standing>) -> Standing {
    let answers: Vec<&Standing> = answers.into_iter().collect();
    let ended = |answer: &&&Standing| matches!(answer, Standing::Committed(_) | Standing::Aborted);
    match answers.iter().find(ended).or(answers.first()) {
        Some(ended @ (Standing::Committed(_) | Standing::Aborted)) => (*ended).clone(),
        Some(first) if answers.iter().all(|answer| *answer == *first) => (*first).clone(),
        _ => Standing::Open,
    }
}
