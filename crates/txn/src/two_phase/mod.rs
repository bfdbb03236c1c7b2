//! The state of two-phase commit between the leaders of a transaction's shards, as a value (Spanner
//! §4.2.1).
//!
//! ```text
//!   participant                         coordinator group
//!   prepared in its log ── Vote ──────▶ all votes: commit_at above them, agreed, commit wait
//!        outcome in its log ◀── Decided ──┘
//!                           ── Ended ──▶ no participant will ask any more: forgotten
//! ```
//!
//! A [`TwoPhase`] is what one member knows about transactions over several shards, in both roles.
//! It reads no clock, sends nothing and proposes nothing. Its functions name the steps of the
//! protocol, take the term and the time, and return what is to be sent or logged. A shard's
//! participant holds one and carries that out; it also says which transactions are ending, because
//! the value does not know locks, the log or commit wait.
//!
//! Terms, not leases, tell whether a message counts, so that a wrong clock breaks no transaction's
//! atomicity. A transaction is decided in one term of the coordinator's group, or never
//! (`decides`): a leader of an earlier term does not know of it. A transaction that was prepared in
//! one term of a participant's group (`voted_in`) is in the log of every later leader.
//!
//! | file | question |
//! |---|---|
//! | `messages` | which messages do leaders exchange? |
//! | `votes` | what do the votes of a transaction add up to? |
//! | `voting` | coordinator group: has every participant voted? |
//! | `decisions` | coordinator group: which participants have not logged a decision? |
//! | `outcomes` | which outcomes are remembered, and which may be forgotten? |
//! | `one_shot` | when is a one-shot commit admitted? |
//! | `prepared` | participant: which transactions wait for an outcome, and when does it ask? |
//! | `readers` | participant that was only read: how long does its vote hold? |
//!
//! Invariants:
//! 1. The commit timestamp is above all votes and below all bounds (Trap A.5-9).
//! 2. A transaction that is unknown to a leader of the term that decides it, or of a later one, is
//!    aborted: its commit would have to be admitted in that term, and it is not. A one-shot commit
//!    that may still be admitted is waited for. A leader of an earlier term says nothing, and
//!    neither does one that may have forgotten the outcome ([`TwoPhase::answer`]).
//! 3. A decision is kept until every participant has the outcome in its own log (Traps A.5-11,
//!    A.5-12). A participant's leader confirms this for a transaction that it does not know only if
//!    the transaction was not prepared in a later term than its own ([`TwoPhase::confirms`]).

mod decisions;
mod messages;
mod one_shot;
mod outcomes;
mod prepared;
mod readers;
pub mod rules;
#[cfg(test)]
mod tests;
mod votes;
mod voting;

use crate::TransactionId;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::{NodeId, ShardId};
use std::collections::BTreeMap;

pub use decisions::{Decision, Decisions};
pub use messages::{OneShot, ParticipantMessage, Vote};
pub use one_shot::{OneShotAdmission, OneShots};
pub use outcomes::Outcomes;
pub use prepared::{EndedTxn, PrepareRecord, PreparedTxns, Receipt};
pub use readers::{ReadVote, ReadVotes};
pub use votes::{Ballot, Collected, EarlyVotes};
pub use voting::{Counted, Voting};

/// The interval at which unresolved votes and decisions are sent again, in nanoseconds.
pub const RESOLVE_NS: u64 = 1_000_000_000;

/// The leader term that decides a transaction, and the member to which votes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decider {
    /// The shard whose group decides.
    pub shard: ShardId,
    /// The node that leads the group, as far as the transaction's coordinator knows.
    pub node: NodeId,
    /// The term of that leader: in another term the transaction is never committed.
    pub term: u64,
    /// The one-shot request to the group, if the attempt has locked nothing there.
    pub one_shot: Option<OneShot>,
}

impl Decider {
    /// Returns the message with a vote of a shard, which its leader gives in a term.
    pub fn message(
        &self,
        transaction: TransactionId,
        shard: ShardId,
        vote: Vote,
        voted_in: u64,
    ) -> ParticipantMessage {
        let (one_shot, decides) = (self.one_shot, self.term);
        ParticipantMessage::Vote { transaction, shard, vote, one_shot, decides, voted_in }
    }
}

/// A transaction that a participant asks about.
#[derive(Clone, Copy, Debug)]
pub struct Inquiry {
    /// The transaction.
    pub transaction: TransactionId,
    /// The condition of its one-shot commit, if it has locked nothing in the coordinator group.
    pub one_shot: Option<OneShot>,
    /// The term in which it is decided; 0 if an earlier release prepared it.
    pub decides: u64,
    /// The term in which the participant voted.
    pub voted_in: u64,
    /// True if it only read in that shard.
    pub reads: bool,
}

impl Inquiry {
    /// True if only a later term than this one decides the transaction.
    pub fn is_decided_after(&self, term: u64) -> bool {
        self.decides > term && !broken(rules::DECIDES_IN_ANY_TERM)
    }
}

/// The answer of the coordinator group's leader to a participant that asks for an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The transaction is committed at this timestamp.
    Committed(Timestamp),
    /// The transaction is not committed, and never will be.
    Aborted,
    /// This leader does not know: the participant gets no answer, and asks again.
    Unknown,
}

/// A message to the leader of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToLeader {
    /// The shard.
    pub shard: ShardId,
    /// The node that may lead it; every node if it is not known.
    pub node: Option<NodeId>,
    /// The message.
    pub message: ParticipantMessage,
}

/// The state of transactions over several shards at one member. `R` is the protocol's prepare
/// record, `P` its request to commit or prepare.
#[derive(Debug)]
pub struct TwoPhase<R, P> {
    /// Transactions that are prepared here; every member knows them.
    pub prepared: PreparedTxns<R>,
    /// Attempts that have only read here, and vote or have voted.
    pub readers: ReadVotes<P>,
    /// Commits that wait for votes.
    pub voting: Voting<P>,
    /// Commits decided here that are not logged by every participant, as far as is known.
    pub decisions: Decisions,
    /// Outcomes of transactions that have ended here.
    pub outcomes: Outcomes,
    /// One-shot commits that this leader term remembers.
    pub one_shots: OneShots,
}

impl<R: PrepareRecord, P> TwoPhase<R, P> {
    /// Makes the state of a member without transactions, which remembers this many outcomes.
    pub fn new(most_outcomes: usize) -> Self {
        TwoPhase {
            prepared: PreparedTxns::default(),
            readers: ReadVotes::default(),
            voting: Voting::default(),
            decisions: Decisions::default(),
            outcomes: Outcomes::new(most_outcomes),
            one_shots: OneShots::default(),
        }
    }

    /// Restores the state that the store holds.
    pub fn restore(
        &mut self,
        prepared: BTreeMap<TransactionId, R>,
        decisions: BTreeMap<TransactionId, Decision>,
    ) {
        self.prepared = PreparedTxns::restore(prepared);
        self.decisions = Decisions::restore(decisions);
    }

    /// Remembers the commit timestamp of a transaction, which a log entry of a term holds.
    pub fn remember(&mut self, txn: TransactionId, at: Timestamp, term: u64) {
        self.outcomes.remember(txn, at, term);
        self.one_shots.note_commit(txn, at);
    }

    /// Returns the commit timestamp of a transaction, if it is remembered.
    pub fn outcome_of(&self, txn: TransactionId) -> Option<Timestamp> {
        self.outcomes.get(txn).or_else(|| self.one_shots.committed(txn))
    }

    /// Returns the commit timestamp of a transaction that was decided here, or is remembered.
    fn commit_of(&self, txn: TransactionId) -> Option<Timestamp> {
        self.decisions.at(txn).or_else(|| self.outcome_of(txn))
    }

    /// True if a transaction is prepared here, or has only read here and voted: its coordinator
    /// group decides.
    pub fn has_voted(&self, txn: TransactionId) -> bool {
        self.prepared.contains(txn) || self.readers.contains(txn)
    }

    /// The transactions for which this shard [has voted](Self::has_voted).
    pub fn voters(&self) -> impl Iterator<Item = TransactionId> + '_ {
        self.prepared.iter().map(|(txn, _)| txn).chain(self.readers.transactions())
    }

    /// Returns the vote that this shard has given for a transaction. Values that were read here are
    /// current through the timestamp `through`.
    pub fn vote_of(&self, txn: TransactionId, through: Timestamp) -> Option<Vote> {
        let read = || self.readers.below(txn).map(|below| Vote::Read { through, below });
        self.prepared.get(txn).map(PrepareRecord::vote).or_else(read)
    }

    /// Returns the shard that decides a transaction for which this shard has voted.
    pub fn coordinator_of(&self, txn: TransactionId) -> Option<ShardId> {
        let of_reader = || self.readers.decider(txn).map(|decider| decider.shard);
        self.prepared.get(txn).map(PrepareRecord::coordinator).or_else(of_reader)
    }

    /// True if an unknown one-shot commit may still be admitted in this leader term, so that votes
    /// for it are to be kept. `latest_ns` is the latest time that it can be, and `None` where the
    /// node does not know the time.
    pub fn expects(
        &mut self,
        txn: TransactionId,
        one_shot: Option<OneShot>,
        term: u64,
        latest_ns: Option<u64>,
    ) -> bool {
        let Some(one_shot) = one_shot.filter(|one_shot| one_shot.term == term) else {
            return false;
        };
        let Some(latest_ns) = latest_ns else { return true };
        self.one_shots.expects(latest_ns, txn, one_shot.by) && self.commit_of(txn).is_none()
    }

    /// Answers a participant that asks for the outcome of a transaction which is not ending here,
    /// as the leader of the coordinator group in a term. `latest_ns` is the latest time that it can
    /// be, and `None` where the node does not know the time; `leased` says whether the leader has
    /// its lease.
    pub fn answer(
        &mut self,
        asked: Inquiry,
        term: u64,
        latest_ns: Option<u64>,
        leased: bool,
    ) -> Answer {
        let Inquiry { transaction, one_shot, decides, reads, .. } = asked;
        if let Some(at) = self.commit_of(transaction) {
            return Answer::Committed(at);
        }
        if asked.is_decided_after(term) || self.expects(transaction, one_shot, term, latest_ns) {
            return Answer::Unknown;
        }
        if reads && self.outcomes.may_have_forgotten(decides) {
            // Decisions are kept for participants with a prepare record only. This leader may have
            // forgotten that the transaction committed. The participant's bound passes without an
            // answer.
            return Answer::Unknown;
        }
        if decides == 0 && !leased {
            // A prepare record of an earlier release names no term. Only a lease proves that this
            // leader decides.
            return Answer::Unknown;
        }
        // Its commit cannot be in the log any more (invariant 2).
        Answer::Aborted
    }

    /// True if a participant's leader may confirm that its log has the outcome of a transaction
    /// which is not prepared here, and was prepared in the term `voted_in` (invariant 3). If the
    /// prepare record is still being agreed on, this shard asks later.
    pub fn confirms(&self, txn: TransactionId, voted_in: u64, term: u64, leased: bool) -> bool {
        // An earlier release named no term.
        let leads = voted_in > 0 || leased;
        let knows = leads && voted_in <= term || broken(rules::ENDED_UNKNOWN);
        knows && !self.prepared.contains(txn)
    }

    /// True if messages are to be repeated until other shards answer.
    pub fn has_unresolved(&self) -> bool {
        !self.prepared.is_empty() || !self.decisions.is_empty() || !self.readers.is_empty()
    }

    /// True if no transaction over several shards is pending.
    pub fn is_at_rest(&self) -> bool {
        !self.has_unresolved() && self.voting.is_empty() && self.readers.waiting.is_empty()
    }
}
