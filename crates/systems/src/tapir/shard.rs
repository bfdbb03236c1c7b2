//! Execution of operations on a shard: puts questions to the participant, and applies facts.

use super::Effect;
use crate::tapir::rules;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::{Reading, ShardId, sometimes};
use meridian_mvcc::KeyRange;
use meridian_replication::inconsistent::{
    Application, ChangesOf, Entry, Op, OpId, RecordOf, State, View,
};
use meridian_txn::TransactionId;
use meridian_txn::tapir::rules as tapir_rules;
use meridian_txn::tapir::{
    ConsensusOp, ConsensusResult, End, Guarantee, InconsistentOp, Installed, Participant, Past,
    Proposal, TxnStatus, Vote,
};
use std::collections::{BTreeMap, BTreeSet};

/// How many bytes an entry of the record counts for besides its keys and values.
const ENTRY_BYTES: usize = 1 << 10;

/// The application of inconsistent replication: a shard's participant.
#[derive(Clone, Debug)]
pub struct Shard {
    participant: Participant,
}

impl Shard {
    /// Makes an empty shard with these keys.
    pub fn new(guarantee: Guarantee, shard: ShardId, bounds: KeyRange) -> Shard {
        Shard { participant: Participant::new(guarantee, shard, bounds) }
    }

    /// Returns a shard without the state that was settled before its first view.
    pub(super) fn taking_over(self) -> Shard {
        Shard { participant: self.participant.taking_over() }
    }

    /// The state of its transactions.
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

/// A question, with its answer.
type Answered = (OpId, ConsensusOp, ConsensusResult);

/// Returns the proposals, with the votes on them.
fn votes(answered: &[Answered]) -> Vec<(&Proposal, Vote)> {
    let voted = answered.iter().filter_map(|(_, question, answer)| match (question, answer) {
        (ConsensusOp::Prepare(proposal), ConsensusResult::Vote(vote)) => Some((proposal, *vote)),
        _ => None,
    });
    voted.collect()
}

fn prepares(question: &ConsensusOp) -> Option<&Proposal> {
    if let ConsensusOp::Prepare(proposal) = question { Some(proposal) } else { None }
}

fn resolves(question: &ConsensusOp) -> Option<TransactionId> {
    if let ConsensusOp::Resolve { transaction, .. } = question { Some(*transaction) } else { None }
}

impl Application for Shard {
    type Inconsistent = InconsistentOp;
    type Consensus = ConsensusOp;
    type Result = ConsensusResult;
    type Effect = Effect;

    fn execute(&mut self, _: Reading, _: OpId, fact: &InconsistentOp, effects: &mut Vec<Effect>) {
        match fact {
            InconsistentOp::Ended(end) => effects.extend(self.participant.end(end).map(install)),
            // The replica that notes this knows the ranges; others learn of it when a view begins.
            InconsistentOp::Served(_) => {}
            InconsistentOp::Over(past) => self.participant.close(past.closed),
        }
    }

    fn answer(
        &mut self,
        now: Reading,
        _: OpId,
        question: &ConsensusOp,
        _: &mut Vec<Effect>,
    ) -> ConsensusResult {
        match question {
            ConsensusOp::Prepare(proposal) => {
                ConsensusResult::Vote(self.participant.prepare(now, proposal))
            }
            ConsensusOp::Resolve { transaction, .. } => {
                ConsensusResult::Stands(self.participant.resolve(*transaction))
            }
        }
    }

    fn recall(&mut self, now: Reading, answered: &[Answered], _: &mut Vec<Effect>) {
        self.participant.recall(now, &votes(answered));
        for transaction in answered.iter().filter_map(|(_, question, _)| resolves(question)) {
            self.participant.resolve(transaction); // It does not prepare these any more.
        }
    }

    fn sync(&mut self, now: Reading, record: &RecordOf<Shard>, effects: &mut Vec<Effect>) {
        // The view began with a question about these transactions: everything about them that it
        // began with is decided, and nothing that came later counts.
        let asked = |entry: &Entry<InconsistentOp, ConsensusOp, ConsensusResult>| match &entry.op {
            Op::Consensus(ConsensusOp::Resolve { transaction, .. }) => {
                entry.merged.map(|_| *transaction)
            }
            _ => None,
        };
        let asked: Vec<TransactionId> = record.values().filter_map(asked).collect();
        let (mut decided, mut ends, mut past) = (Vec::new(), Vec::new(), Past::default());
        for Entry { op, state, merged } in record.values() {
            match (op, state) {
                (
                    Op::Consensus(ConsensusOp::Prepare(proposal)),
                    State::Finalized(Some(ConsensusResult::Vote(vote))),
                ) => {
                    let counts = merged.is_some() || !asked.contains(&proposal.transaction);
                    decided.extend(counts.then_some((proposal, *vote)));
                }
                (Op::Inconsistent(InconsistentOp::Ended(end)), State::Finalized(_)) => {
                    ends.push(end)
                }
                (Op::Inconsistent(InconsistentOp::Served(through)), State::Finalized(_)) => {
                    self.participant.served(now, *through)
                }
                (Op::Inconsistent(InconsistentOp::Over(over)), State::Finalized(_)) => {
                    past = past.join(*over)
                }
                _ => {}
            }
        }
        effects
            .extend(self.participant.sync(now, &decided, &asked, &ends).into_iter().map(install));
        self.participant.settle(past); // After the outcomes below it are applied.
    }

    fn merge(
        &mut self,
        now: Reading,
        likely: &[Answered],
        open: &[(OpId, ConsensusOp)],
        _: &mut Vec<Effect>,
    ) -> Vec<ConsensusResult> {
        let proposed: Vec<&Proposal> =
            open.iter().filter_map(|(_, question)| prepares(question)).collect();
        let mut decided = self.participant.merge(now, &votes(likely), &proposed).into_iter();
        // A question about a transaction stays open in this view. The next question is asked in a
        // view that began with this one.
        let answers = open.iter().map(|(_, question)| match question {
            ConsensusOp::Prepare(_) => {
                ConsensusResult::Vote(decided.next().unwrap_or(Vote::Abstain))
            }
            ConsensusOp::Resolve { .. } => ConsensusResult::Stands(TxnStatus::Open),
        });
        answers.collect()
    }

    fn bytes(entry: &OperationEntry) -> usize {
        let of_op = match &entry.op {
            Op::Consensus(ConsensusOp::Prepare(proposal))
            | Op::Inconsistent(InconsistentOp::Ended(End::Commit(proposal))) => proposal.bytes(),
            Op::Consensus(ConsensusOp::Resolve { .. }) | Op::Inconsistent(_) => 0,
        };
        let of_result = match entry.state.result() {
            Some(ConsensusResult::Stands(
                TxnStatus::Committed(proposal) | TxnStatus::Prepared(proposal),
            )) => proposal.bytes(),
            _ => 0,
        };
        ENTRY_BYTES + of_op + of_result
    }

    fn lacking(
        record: &RecordOf<Shard>,
        told: Vec<(OpId, InconsistentOp)>,
    ) -> Vec<(OpId, InconsistentOp)> {
        let (mut settled, mut served) = (Timestamp::ZERO, Timestamp::ZERO);
        for entry in record.values() {
            match &entry.op {
                Op::Inconsistent(InconsistentOp::Over(past)) => settled = settled.max(past.settled),
                Op::Inconsistent(InconsistentOp::Served(through)) => served = served.max(*through),
                _ => {}
            }
        }
        let lacks = |fact: &InconsistentOp| match fact {
            InconsistentOp::Ended(End::Commit(Proposal { at, .. }) | End::Abort { at, .. }) => {
                *at > settled
            }
            InconsistentOp::Served(through) => *through > served,
            InconsistentOp::Over(_) => false, // Without it proposals may get yes votes.
        };
        told.into_iter().filter(|(_, fact)| lacks(fact)).collect()
    }

    fn forget(&self, record: &RecordOf<Shard>, last: View, stored: View) -> ChangesOf<Shard> {
        let settled = settled(record, last);
        let over = |entry: &OperationEntry| {
            if let Op::Inconsistent(InconsistentOp::Over(past)) = &entry.op {
                Some(past.closed)
            } else {
                None
            }
        };
        let latest = record
            .iter()
            .filter_map(|(id, entry)| Some((over(entry)?, *id)))
            .max()
            .map(|(_, id)| id);
        let is_served = |entry: &OperationEntry| {
            if let Op::Inconsistent(InconsistentOp::Served(through)) = &entry.op {
                Some(*through)
            } else {
                None
            }
        };
        let served = record.values().filter_map(is_served).max().unwrap_or_default();
        let (mut changes, mut names) = (ChangesOf::<Shard>::new(), BTreeSet::new());
        for (id, entry) in record {
            let with =
                |fact: InconsistentOp| Some(Entry { op: Op::Inconsistent(fact), ..entry.clone() });
            let is_over = match &entry.op {
                // This entry says from now on what is settled.
                Op::Inconsistent(InconsistentOp::Over(past)) if Some(*id) == latest => {
                    if past.settled != settled {
                        changes.insert(*id, with(InconsistentOp::Over(Past { settled, ..*past })));
                    }
                    false
                }
                Op::Inconsistent(InconsistentOp::Over(_)) => true,
                Op::Consensus(ConsensusOp::Prepare(proposal)) => proposal.at <= settled,
                Op::Consensus(ConsensusOp::Resolve { through, .. }) => *through <= settled,
                Op::Inconsistent(InconsistentOp::Ended(End::Abort { at, .. })) => *at <= settled,
                // The largest in the record stays: this replica's own value may be from a view that
                // was bypassed.
                Op::Inconsistent(InconsistentOp::Served(through)) => {
                    *through < self.participant.served_through().min(served)
                }
                Op::Inconsistent(InconsistentOp::Ended(End::Commit(proposal))) => {
                    proposal.at <= settled
                }
            };
            if !is_over || !had(entry, stored) {
                continue;
            }
            let name = match &entry.op {
                Op::Inconsistent(InconsistentOp::Ended(End::Commit(proposal)))
                    if proposal.participants.len() > 1
                        && names.insert(proposal.transaction)
                        && !broken(tapir_rules::NAMES_FORGOTTEN) =>
                {
                    if proposal.is_name() {
                        continue;
                    }
                    with(InconsistentOp::Ended(End::Commit(proposal.name())))
                }
                _ => None,
            };
            changes.insert(*id, name);
        }
        changes
    }
}

type OperationEntry = Entry<InconsistentOp, ConsensusOp, ConsensusResult>;

/// True if this view or an earlier one began with the entry.
fn had(entry: &OperationEntry, view: View) -> bool {
    entry.merged.is_some_and(|merged| merged <= view)
}

/// Returns the settled timestamp of a record. What was closed when the view `last` began got no yes
/// vote in it. So every transaction that ever commits there is in the record, and in that of any
/// other view that replaces the next one. A transaction that is prepared in the record and has not
/// ended may still commit.
fn settled(record: &RecordOf<Shard>, last: View) -> Timestamp {
    let (mut past, mut closed) = (Past::default(), Timestamp::ZERO);
    let (mut newest, mut ended) =
        (BTreeMap::<TransactionId, (u32, Timestamp, bool)>::new(), BTreeSet::new());
    for entry in record.values() {
        match &entry.op {
            Op::Inconsistent(InconsistentOp::Over(over)) => {
                past = past.join(*over);
                if had(entry, last) || broken(rules::SETTLES_UNCLOSED) {
                    closed = closed.max(over.closed);
                }
            }
            Op::Inconsistent(InconsistentOp::Ended(
                End::Commit(Proposal { transaction, .. }) | End::Abort { transaction, .. },
            )) => {
                ended.insert(*transaction);
            }
            Op::Consensus(ConsensusOp::Prepare(Proposal { transaction, attempt, at, .. })) => {
                let attempt =
                    (*attempt, *at, entry.state.result() == Some(&ConsensusResult::Vote(Vote::Ok)));
                let known = newest.entry(*transaction).or_insert(attempt);
                *known = attempt.max(*known);
            }
            Op::Inconsistent(InconsistentOp::Served(_))
            | Op::Consensus(ConsensusOp::Resolve { .. }) => {}
        }
    }
    let open = newest
        .iter()
        .filter(|(who, (_, at, said_yes))| *said_yes && *at > past.settled && !ended.contains(who));
    match open.map(|(_, (_, at, _))| *at).min() {
        Some(open) if open <= closed && !broken(rules::SETTLES_PREPARED) => {
            sometimes!("a transaction is prepared where everything else is over");
            Timestamp::end_of(open.nanos.saturating_sub(1)).max(past.settled)
        }
        _ => closed.max(past.settled),
    }
}
