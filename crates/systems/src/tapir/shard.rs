//! What operations on a shard mean: questions are put to the participant, and facts are taken in.

use super::Effect;
use meridian_machine::{Reading, ShardId};
use meridian_mvcc::KeyRange;
use meridian_replication::inconsistent::{Application, Entry, Op, OpId, RecordOf, State};
use meridian_txn::TransactionId;
use meridian_txn::tapir::{Answer, Fact, Guarantee, Installed, Participant, Proposal, Question, Standing, Vote};

/// What operations on a shard mean.
#[derive(Clone, Debug)]
pub struct Shard {
    participant: Participant,
}

impl Shard {
    /// One in which nothing has happened, with these keys.
    pub fn new(guarantee: Guarantee, shard: ShardId, bounds: KeyRange) -> Shard {
        Shard { participant: Participant::new(guarantee, shard, bounds) }
    }

    /// What it knows of transactions.
    pub fn participant(&self) -> &Participant {
        &self.participant
    }

    pub(super) fn participant_mut(&mut self) -> &mut Participant {
        &mut self.participant
    }
}

fn install((at, writes): Installed) -> Effect {
    Effect::Install { at, writes }
}

/// A question that was asked, and what was answered.
type Answered = (OpId, Question, Answer);

/// Proposals, with the votes on them.
fn votes(answered: &[Answered]) -> Vec<(&Proposal, Vote)> {
    let voted = answered.iter().filter_map(|(_, question, answer)| match (question, answer) {
        (Question::Prepare(proposal), Answer::Vote(vote)) => Some((proposal, *vote)),
        _ => None,
    });
    voted.collect()
}

fn prepares(question: &Question) -> Option<&Proposal> {
    if let Question::Prepare(proposal) = question { Some(proposal) } else { None }
}

fn resolves(question: &Question) -> Option<TransactionId> {
    if let Question::Resolve(transaction) = question { Some(*transaction) } else { None }
}

impl Application for Shard {
    type Inconsistent = Fact;
    type Consensus = Question;
    type Result = Answer;
    type Effect = Effect;

    fn execute(&mut self, _: Reading, _: OpId, fact: &Fact, effects: &mut Vec<Effect>) {
        match fact {
            Fact::Ended(end) => effects.extend(self.participant.end(end).map(install)),
            Fact::Served(_) => {} // Who says so knows which ranges; the others hear of it when a view begins.
        }
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
        // A question that the view began with: of that transaction everything that it began with is decided, and nothing that came later counts.
        let asked = |entry: &Entry<Fact, Question, Answer>| match &entry.op {
            Op::Consensus(Question::Resolve(transaction)) => entry.merged.map(|_| *transaction),
            _ => None,
        };
        let asked: Vec<TransactionId> = record.values().filter_map(asked).collect();
        let (mut decided, mut ends) = (Vec::new(), Vec::new());
        for Entry { op, state, merged } in record.values() {
            match (op, state) {
                (Op::Consensus(Question::Prepare(proposal)), State::Finalized(Some(Answer::Vote(vote)))) => {
                    let counts = merged.is_some() || !asked.contains(&proposal.transaction);
                    decided.extend(counts.then_some((proposal, *vote)));
                }
                (Op::Inconsistent(Fact::Ended(end)), State::Finalized(_)) => ends.push(end),
                (Op::Inconsistent(Fact::Served(through)), State::Finalized(_)) => self.participant.served(*through),
                _ => {}
            }
        }
        effects.extend(self.participant.sync(now, &decided, &asked, &ends).into_iter().map(install));
    }

    fn merge(
        &mut self,
        now: Reading,
        likely: &[Answered],
        open: &[(OpId, Question)],
        _: &mut Vec<Effect>,
    ) -> Vec<Answer> {
        let proposed: Vec<&Proposal> = open.iter().filter_map(|(_, question)| prepares(question)).collect();
        let mut decided = self.participant.merge(now, &votes(likely), &proposed).into_iter();
        // What is asked of transactions is open in this view; the next question is asked in one that began with this one.
        let answers = open.iter().map(|(_, question)| match question {
            Question::Prepare(_) => Answer::Vote(decided.next().unwrap_or(Vote::Abstain)),
            Question::Resolve(_) => Answer::Stands(Standing::Open),
        });
        answers.collect()
    }

    fn forgets(&self, _: OpId, entry: &Entry<Fact, Question, Answer>) -> bool {
        match entry.op {
            Op::Inconsistent(Fact::Served(through)) => through < self.participant.served_through(),
            _ => false, // Checkpoints, which say what is settled, are to come.
        }
    }
}
