//! TAPIR: optimistic transactions (`txn/tapir`) on replicas without leader or order (`replication/inconsistent`).
//!
//! A proposal is a consensus operation, whose result is a vote; how a transaction ended is an inconsistent one. No database can choose it yet: there is no
//! coordinator.

use meridian_machine::Reading;
use meridian_mvcc::{KeyRange, Write};
use meridian_replication::inconsistent::{Application, Entry, Op, OpId, RecordOf, State};
use meridian_txn::tapir::{End, Guarantee, Participant, Proposal, Vote};

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

impl Application for Shard {
    type Inconsistent = End;
    type Consensus = Proposal;
    type Result = Vote;
    type Effect = Effect;

    fn execute(&mut self, _: Reading, _: OpId, end: &End, effects: &mut Vec<Effect>) {
        effects.extend(self.participant.end(end).map(install));
    }

    fn answer(&mut self, now: Reading, _: OpId, proposal: &Proposal, _: &mut Vec<Effect>) -> Vote {
        self.participant.prepare(now, proposal)
    }

    fn recall(&mut self, _: Reading, answered: &[(OpId, Proposal, Vote)], _: &mut Vec<Effect>) {
        let answered: Vec<(&Proposal, Vote)> = answered.iter().map(|(_, proposal, vote)| (proposal, *vote)).collect();
        self.participant.recall(&answered);
    }

    fn sync(&mut self, _: Reading, record: &RecordOf<Shard>, effects: &mut Vec<Effect>) {
        let decided = |entry: &'_ Entry<End, Proposal, Vote>| match &entry.state {
            State::Finalized(Some(vote)) => Some(*vote),
            _ => None,
        };
        let (mut votes, mut ends) = (Vec::new(), Vec::new());
        for entry in record.values() {
            match &entry.op {
                Op::Consensus(proposal) => votes.extend(decided(entry).map(|vote| (proposal, vote))),
                Op::Inconsistent(end) => ends.extend(entry.state.is_final().then_some(end)),
            }
        }
        effects.extend(self.participant.sync(&votes, &ends).into_iter().map(install));
    }

    fn merge(
        &mut self,
        now: Reading,
        likely: &[(OpId, Proposal, Vote)],
        open: &[(OpId, Proposal)],
        _: &mut Vec<Effect>,
    ) -> Vec<Vote> {
        let likely: Vec<(&Proposal, Vote)> = likely.iter().map(|(_, proposal, vote)| (proposal, *vote)).collect();
        let open: Vec<&Proposal> = open.iter().map(|(_, proposal)| proposal).collect();
        self.participant.merge(now, &likely, &open)
    }

    fn forgets(&self, _: OpId, _: &Entry<End, Proposal, Vote>) -> bool {
        false // Checkpoints, which say what is settled, are to come.
    }
}
