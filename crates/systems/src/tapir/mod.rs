//! TAPIR: optimistic transactions (`txn/tapir`) on replicas without leader or order (`replication/inconsistent`).
//!
//! ```text
//!   a session's question ── invoke ──▶ Propose ─▶ all replicas of the shard ─▶ enough alike, or decide and Finalize ──▶ its answer
//!   how it ended         ── tell ────▶ Tell ────▶ all replicas, which install
//! ```
//!
//! What a shard is asked is a consensus operation, whose result is its answer; how a transaction ended is a fact, for which nobody waits. No database can choose it
//! yet: the worlds of its tests run it whole, nodes do not.

mod client;

pub use client::{Wire, invoke, tell};

use meridian_machine::Reading;
use meridian_mvcc::{KeyRange, Write};
use meridian_replication::inconsistent::{self, Application, Entry, Op, OpId, RecordOf, State};
use meridian_txn::TransactionId;
use meridian_txn::tapir::{Answer, End, Guarantee, Participant, Proposal, Question, Standing, Vote};

/// What clients and replicas say.
pub type Message = inconsistent::Message<End, Question, Answer>;
/// What a replica keeps on disk.
pub type Kept = inconsistent::Kept<End, Question, Answer>;
/// A replica of a shard.
pub type Replica = inconsistent::Replica<Shard>;

/// What a replica asks of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put the versions of a commit into Recent. It may be asked for again after a crash.
    Install {
        /// The commit timestamp.
        at: meridian_clock::Timestamp,
        /// The versions.
        writes: Vec<Write>,
    },
}

/// What operations on a shard mean.
#[derive(Clone, Debug)]
pub struct Shard {
    participant: Participant,
}

impl Shard {
    /// One in which nothing has happened.
    pub fn new(guarantee: Guarantee, bounds: KeyRange) -> Shard {
        Shard { participant: Participant::new(guarantee, bounds) }
    }

    /// What it knows of transactions.
    pub fn participant(&self) -> &Participant {
        &self.participant
    }
}

fn install((at, writes): (meridian_clock::Timestamp, Vec<Write>)) -> Effect {
    Effect::Install { at, writes }
}

/// A question that was asked, and what was answered.
type Answered = (OpId, Question, Answer);

/// Proposals, with the votes on them.
fn votes(answered: &[Answered]) -> Vec<(&Proposal, Vote)> {
    let vote = |(_, question, answer): &'_ Answered| match answer {
        Answer::Vote(vote) => prepares(question).map(|_| *vote),
        Answer::Stands(_) => None,
    };
    answered.iter().filter_map(|one| Some((prepares(&one.1)?, vote(one)?))).collect()
}

fn prepares(question: &Question) -> Option<&Proposal> {
    if let Question::Prepare(proposal) = question { Some(proposal) } else { None }
}

fn resolves(question: &Question) -> Option<TransactionId> {
    if let Question::Resolve(transaction) = question { Some(*transaction) } else { None }
}

impl Application for Shard {
    type Inconsistent = End;
    type Consensus = Question;
    type Result = Answer;
    type Effect = Effect;

    fn execute(&mut self, _: Reading, _: OpId, end: &End, effects: &mut Vec<Effect>) {
        effects.extend(self.participant.end(end).map(install));
    }

    fn answer(&mut self, now: Reading, _: OpId, question: &Question, _: &mut Vec<Effect>) -> Answer {
        match question {
            Question::Prepare(proposal) => Answer::Vote(self.participant.prepare(now, proposal)),
            Question::Resolve(transaction) => Answer::Stands(self.participant.resolve(*transaction)),
        }
    }

    fn recall(&mut self, now: Reading, answered: &[Answered], _: &mut Vec<Effect>) {
        self.participant.recall(now, &votes(answered));
        for transaction in answered.iter().filter_map(|(_, question, _)| resolves(question)) {
            self.participant.resolve(transaction); // Whom it has answered so it does not prepare.
        }
    }

    fn sync(&mut self, now: Reading, record: &RecordOf<Shard>, effects: &mut Vec<Effect>) {
        let (mut decided, mut ends, mut fenced) = (Vec::new(), Vec::new(), Vec::new());
        for Entry { op, state, merged } in record.values() {
            match (op, state) {
                (Op::Consensus(Question::Prepare(proposal)), State::Finalized(Some(Answer::Vote(vote)))) => {
                    decided.push((proposal, *vote));
                }
                // One that a view began with: what it asks about was decided then.
                (Op::Consensus(Question::Resolve(transaction)), _) => {
                    fenced.extend(merged.is_some().then_some(*transaction));
                }
                (Op::Inconsistent(end), State::Finalized(_)) => ends.push(end),
                _ => {}
            }
        }
        effects.extend(self.participant.sync(now, &decided, &ends).into_iter().map(install));
        self.participant.fence(fenced);
    }

    fn merge(
        &mut self,
        now: Reading,
        likely: &[Answered],
        open: &[(OpId, Question)],
        _: &mut Vec<Effect>,
    ) -> Vec<Answer> {
        let questions =
            || likely.iter().map(|(_, question, _)| question).chain(open.iter().map(|(_, question)| question));
        let opened: Vec<&Proposal> = open.iter().filter_map(|(_, question)| prepares(question)).collect();
        let mut decided = self.participant.merge(now, &votes(likely), &opened).into_iter();
        // What is asked of transactions is open in this view; the next question is asked in one that began with this one.
        let told = likely.iter().map(|(_, _, answer)| Some(answer)).chain(open.iter().map(|_| None));
        let answers = questions().zip(told).map(|(question, told)| match question {
            Question::Prepare(_) => Answer::Vote(decided.next().unwrap_or(Vote::Abstain)),
            Question::Resolve(_) => told.cloned().unwrap_or(Answer::Stands(Standing::Open)),
        });
        let answers = answers.collect();
        self.participant.fence(questions().filter_map(resolves));
        answers
    }

    fn forgets(&self, _: OpId, _: &Entry<End, Question, Answer>) -> bool {
        false // Checkpoints, which say what is settled, are to come.
    }
}
