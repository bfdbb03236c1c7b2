//! What the leaders of a transaction's shards say to each other (Spanner §4.2.1).
//!
//! ```text
//!   participant                         coordinator
//!   prepared in its log ── Vote ──────▶ all votes: commit_at above them, agreed, commit wait
//!        outcome in its log ◀── Decided ──┘
//!                           ── Ended ──▶ nobody has to ask any more: forgotten
//! ```
//!
//! Terms, not leases, say whose word counts, so that a clock that lies breaks no transaction apart.
//! A transaction is decided in one leadership of the coordinator's group, or never (`decides`): one
//! of an earlier term does not know of it. And what was prepared in one leadership of a participant
//! (`voted_in`) every later one has in its log.
//!
//! Whoever waits asks or tells again every second, and so does his successor.

use super::{Blind, TransactionId};
use crate::Conflict;
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use minicbor::{Decode, Encode};

/// Said between leaders.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Between {
    /// To the coordinator; repeated, it asks what became of the transaction.
    #[n(0)]
    Vote {
        /// On what.
        #[n(0)]
        transaction: TransactionId,
        /// Who votes.
        #[n(1)]
        shard: ShardId,
        /// How.
        #[n(2)]
        vote: Vote,
        /// How the coordinator was asked, if the attempt has locked nothing there: then its commit
        /// may be on the way.
        #[n(3)]
        blind: Option<Blind>,
        /// The leadership of the coordinator's group that decides, or none ever.
        #[n(4)]
        #[cbor(default)]
        decides: u64,
        /// The leadership of the participant's group that votes.
        #[n(5)]
        #[cbor(default)]
        voted_in: u64,
    },
    /// To a participant.
    #[n(1)]
    Decided {
        /// On what.
        #[n(0)]
        transaction: TransactionId,
        /// When it committed, which is surely past; none if it is aborted for good.
        #[n(1)]
        at: Option<Timestamp>,
        /// The leadership of the participant's group that voted: one of an earlier term does not
        /// know what is prepared there.
        #[n(2)]
        #[cbor(default)]
        voted_in: u64,
    },
    /// To the coordinator: the participant's log has the outcome, and will never ask again.
    #[n(2)]
    Ended {
        /// Of which.
        #[n(0)]
        transaction: TransactionId,
        /// Where.
        #[n(1)]
        shard: ShardId,
    },
    /// To the coordinator: an older transaction waits for this one (Trap A.5-10).
    #[n(3)]
    Wound {
        /// Which is to give way.
        #[n(0)]
        transaction: TransactionId,
        /// To whom, and where.
        #[n(1)]
        why: Conflict,
    },
    /// To a participant that was only read and asks whether its promise is still needed: it is, for
    /// longer.
    #[n(4)]
    Undecided {
        /// Of which.
        #[n(0)]
        transaction: TransactionId,
    },
}

/// A participant's vote.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Vote {
    /// It is prepared: the commit timestamp is above this one.
    #[n(0)]
    Prepared {
        /// The prepare timestamp.
        #[n(0)]
        at: Timestamp,
        /// A schema that it was planned for may be another from this timestamp on: the commit
        /// timestamp is below.
        #[n(1)]
        below: Timestamp,
    },
    /// It was only read, and its locks hold for a while (Trap A.5-8).
    #[n(1)]
    Read {
        /// What was read is what stood here.
        #[n(0)]
        through: Timestamp,
        /// Whoever leads the shard issues above this, once the locks are gone: the commit timestamp
        /// is below.
        #[n(1)]
        below: Timestamp,
    },
    /// It will not be prepared.
    #[n(2)]
    No {
        /// Why.
        #[n(0)]
        why: Conflict,
    },
}
