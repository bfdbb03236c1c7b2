//! The wording of TAPIR's transcripts: transactions by their names, timestamps in milliseconds
//! since the world began.

use super::BEGINNING;
use meridian_clock::Timestamp;
use meridian_machine::{Address, Role};
use meridian_mvcc::{Key, Write};
use meridian_replication::inconsistent::{Message as Said, Op, OpId, State};
use meridian_systems::tapir::Message;
use meridian_txn::TransactionId;
use meridian_txn::tapir::{
    ConsensusOp, ConsensusResult, End, InconsistentOp, Proposal, RangeRead, TxnStatus, Vote,
};
use std::collections::BTreeMap;

/// The names of transactions, and the subjects of operations.
#[derive(Default)]
pub struct Names {
    transactions: BTreeMap<TransactionId, String>,
    operations: BTreeMap<OpId, String>,
}

/// Returns the name of a replica by its node and shard, or of a session by its node.
pub fn place(address: Address) -> String {
    match address.role {
        Role::Coordinator(_) => format!("n{}", address.node.0),
        _ => format!("n{}.s{}", address.node.0, address.shard.0 + 1),
    }
}

pub fn moment(at: Timestamp) -> String {
    let text = format!("{:.6}", at.nanos.saturating_sub(BEGINNING) as f64 / 1e6);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn key(key: &Key) -> String {
    String::from_utf8_lossy(key.as_ref()).into_owned()
}

pub fn write(write: &Write) -> String {
    let value = write
        .value
        .as_ref()
        .map_or("nothing".into(), |value| String::from_utf8_lossy(value).into_owned());
    format!("{}={value}", key(&write.key))
}

pub fn writes(writes: &[Write]) -> String {
    writes.iter().map(write).collect::<Vec<_>>().join(" ")
}

fn seen(seen: &RangeRead) -> String {
    let versions: Vec<String> =
        seen.versions.iter().map(|(of, at)| format!("{} of {}", key(of), moment(*at))).collect();
    if versions.is_empty() { format!("no {}", key(&seen.range.start)) } else { versions.join(", ") }
}

fn vote(vote: &Vote) -> String {
    match vote {
        Vote::Ok => "OK".into(),
        Vote::Abstain => "ABSTAIN".into(),
        Vote::Retry(above) => format!("RETRY above {}", moment(*above)),
        Vote::Abort => "ABORT".into(),
        Vote::Late => "late".into(),
    }
}

impl Names {
    pub fn call(&mut self, transaction: TransactionId, name: &str) {
        self.transactions.insert(transaction, name.to_owned());
    }

    pub fn of(&self, transaction: TransactionId) -> &str {
        self.transactions.get(&transaction).map_or("somebody", String::as_str)
    }

    fn attempt(&self, proposal: &Proposal) -> String {
        format!("{}.{}", self.of(proposal.transaction), proposal.attempt + 1)
    }

    fn proposal(&self, proposal: &Proposal) -> String {
        let (at, all) = (proposal.at, &proposal.writes);
        let reads: String =
            proposal.reads.iter().map(|read| format!("; has read {}", seen(read))).collect();
        let writes =
            if all.is_empty() { String::new() } else { format!("; writes {}", writes(all)) };
        format!("{} at {}{reads}{writes}", self.attempt(proposal), moment(at))
    }

    fn question(&self, question: &ConsensusOp) -> String {
        match question {
            ConsensusOp::Prepare(proposal) => self.attempt(proposal),
            ConsensusOp::Resolve { transaction, .. } => {
                format!("what became of {}", self.of(*transaction))
            }
        }
    }

    fn status(&self, status: &TxnStatus) -> String {
        match status {
            TxnStatus::Open => "open in this view".into(),
            TxnStatus::Committed(proposal) => format!("committed at {}", moment(proposal.at)),
            TxnStatus::Aborted => "aborted".into(),
            TxnStatus::Prepared(proposal) => format!("prepared, {}", self.attempt(proposal)),
            TxnStatus::Never => "never".into(),
        }
    }

    fn answer(&self, answer: Option<&ConsensusResult>) -> String {
        match answer {
            Some(ConsensusResult::Vote(given)) => vote(given),
            Some(ConsensusResult::Stands(status)) => self.status(status),
            None => "done".into(),
        }
    }

    fn state(&self, state: &State<ConsensusResult>) -> String {
        let kind = if state.is_final() { "final" } else { "tentative" };
        format!("{kind} {}", self.answer(state.result()))
    }

    fn fact(&self, fact: &InconsistentOp) -> String {
        match fact {
            InconsistentOp::Ended(End::Commit(name)) if name.is_name() => {
                format!("{} has committed", self.attempt(name))
            }
            InconsistentOp::Ended(End::Commit(proposal)) => {
                let (who, all) = (self.of(proposal.transaction), writes(&proposal.writes));
                format!("{who} has committed at {}: {all}", moment(proposal.at))
            }
            InconsistentOp::Ended(End::Abort { transaction, .. }) => {
                format!("{} is aborted", self.of(*transaction))
            }
            InconsistentOp::Served(through) => {
                format!("snapshots are served up to {}", moment(*through))
            }
            InconsistentOp::Over(past) => format!("closed up to {}", moment(past.closed)),
        }
    }

    /// Returns a short form of a record.
    fn record<'a>(
        &self,
        entries: impl Iterator<Item = (&'a Op<InconsistentOp, ConsensusOp>, &'a State<ConsensusResult>)>,
    ) -> String {
        let entry =
            |(op, state): (&Op<InconsistentOp, ConsensusOp>, &State<ConsensusResult>)| match op {
                Op::Consensus(question) => {
                    format!("{} {}", self.question(question), self.state(state))
                }
                Op::Inconsistent(fact) => self.fact(fact),
            };
        let all: Vec<String> = entries.map(entry).collect();
        if all.is_empty() { "nothing".into() } else { all.join(", ") }
    }

    /// Returns a message as text, and remembers the subject of an operation.
    pub fn message(&mut self, message: &Message) -> String {
        let Message::Operation(said) = message else { return format!("{message:?}") };
        if let Said::Propose { id, op: Op::Consensus(question), .. } = said {
            let about = self.question(question);
            self.operations.insert(*id, about);
        }
        let about =
            |id: &OpId| self.operations.get(id).map_or("an unknown operation", String::as_str);
        match said {
            Said::Propose { op: Op::Consensus(ConsensusOp::Prepare(proposal)), .. } => {
                format!("Propose {}", self.proposal(proposal))
            }
            Said::Propose { id, .. } => format!("Propose {}", about(id)),
            Said::Reply { id, view, state } => {
                format!("Reply {} in {view}: {}", about(id), self.state(state))
            }
            Said::Finalize { id, result, .. } => {
                format!("Finalize {}: {}", about(id), self.answer(result.as_ref()))
            }
            Said::Confirm { id, view } => format!("Confirm {} in {view}", about(id)),
            Said::Missing { id, view } => format!("Missing {} in {view}", about(id)),
            Said::LeaveView { view } => format!("LeaveView for {view}"),
            Said::Change { view, last, part, .. } => {
                let all = part.changes.values().flatten().map(|entry| (&entry.op, &entry.state));
                let what = if part.upon.is_some() { "what came since" } else { "all of" };
                format!("Change to {view} with {what} {last}: {}", self.record(all))
            }
            Said::StartView { view, part } => {
                let all = part.changes.values().flatten().map(|entry| (&entry.op, &entry.state));
                let upon =
                    part.upon.map_or_else(String::new, |upon| format!(", other than {upon}"));
                format!("StartView {view}{upon}: {}", self.record(all))
            }
            Said::More { view, .. } => format!("More of {view}"),
            Said::Started { view } => format!("Started {view}"),
            Said::Tell { op, .. } => format!("Tell {}", self.fact(op)),
            Said::Renew { view } => format!("Renew {view}"),
        }
    }
}
