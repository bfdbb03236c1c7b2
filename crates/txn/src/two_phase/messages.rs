//! Messages between the leaders of a transaction's shards.
//!
//! A leader that waits repeats its message every second, and so does its successor.

use crate::{Conflict, TransactionId};
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use minicbor::{Decode, Encode};

/// The condition of a one-shot commit: an attempt without locks in a shard commits or prepares
/// there in one round trip, without a lock epoch. In this term the leader admits it at most once
/// and not after `by`; in any other term never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct OneShot {
    /// The leader's term, as far as the coordinator's node knows.
    #[n(0)]
    pub term: u64,
    /// The deadline, nanoseconds since the epoch.
    #[n(1)]
    pub by: u64,
}

/// A message between leaders.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum ParticipantMessage {
    /// To the coordinator. Repeated, it asks for the outcome of the transaction.
    #[n(0)]
    Vote {
        /// The transaction.
        #[n(0)]
        transaction: TransactionId,
        /// The shard that votes.
        #[n(1)]
        shard: ShardId,
        /// The vote.
        #[n(2)]
        vote: Vote,
        /// The condition of the one-shot commit at the coordinator, if the attempt has no locks
        /// there. Its commit may then still be on the way.
        #[n(3)]
        one_shot: Option<OneShot>,
        /// The only term of the coordinator's group that may decide to commit.
        #[n(4)]
        #[cbor(default)]
        decides: u64,
        /// The term of the participant's group that votes.
        #[n(5)]
        #[cbor(default)]
        voted_in: u64,
    },
    /// To a participant.
    #[n(1)]
    Decided {
        /// The transaction.
        #[n(0)]
        transaction: TransactionId,
        /// The commit timestamp, which has surely passed; none if the transaction is aborted for
        /// good.
        #[n(1)]
        at: Option<Timestamp>,
        /// The term of the participant's group that voted. A leader of an earlier term does not
        /// know what is prepared there.
        #[n(2)]
        #[cbor(default)]
        voted_in: u64,
    },
    /// To the coordinator: the participant's log has the outcome, and the participant will not ask
    /// again.
    #[n(2)]
    Ended {
        /// The transaction.
        #[n(0)]
        transaction: TransactionId,
        /// The participant's shard.
        #[n(1)]
        shard: ShardId,
    },
    /// To the coordinator: an older transaction waits for this one (Trap A.5-10).
    #[n(3)]
    Wound {
        /// The transaction that is to give way.
        #[n(0)]
        transaction: TransactionId,
        /// The older transaction, and the key.
        #[n(1)]
        why: Conflict,
    },
    /// To a participant that was only read and asks whether its promise is still needed: the
    /// promise is needed for longer.
    #[n(4)]
    Undecided {
        /// The transaction.
        #[n(0)]
        transaction: TransactionId,
    },
}

/// A participant's vote.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Vote {
    /// The participant is prepared: the commit timestamp must be above `at`.
    #[n(0)]
    Prepared {
        /// The prepare timestamp.
        #[n(0)]
        at: Timestamp,
        /// From this timestamp on a schema may differ from the version that the transaction was
        /// planned for: the commit timestamp must be below.
        #[n(1)]
        below: Timestamp,
    },
    /// The participant was only read, and its locks hold for a while (Trap A.5-8).
    #[n(1)]
    Read {
        /// The values that were read are current through this timestamp.
        #[n(0)]
        through: Timestamp,
        /// Once the locks are gone, every leader of the shard issues timestamps above this: the
        /// commit timestamp must be below.
        #[n(1)]
        below: Timestamp,
    },
    /// The participant will not prepare.
    #[n(2)]
    No {
        /// The reason.
        #[n(0)]
        why: Conflict,
    },
}
