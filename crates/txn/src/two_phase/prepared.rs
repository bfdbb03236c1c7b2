//! The transactions that are prepared at a participant and wait for their outcome.

use super::{OneShot, ParticipantMessage, ToLeader, Vote};
use crate::TransactionId;
use meridian_clock::Timestamp;
use meridian_machine::{Address, NodeId, ShardId};
use std::collections::BTreeMap;

/// Limits the backoff of a participant that asks for an outcome: it asks after 1, 2 and then 4
/// rounds, at most 2 to the power of this.
const MOST_RESTS: u32 = 2;

/// A protocol's prepare record, which is in the participant's log.
pub trait PrepareRecord {
    /// The prepare timestamp.
    fn at(&self) -> Timestamp;
    /// The commit timestamp must be above this.
    fn above(&self) -> Timestamp {
        self.at()
    }
    /// The commit timestamp must be below this.
    fn below(&self) -> Timestamp {
        Timestamp::MAX
    }
    /// The shard whose group decides.
    fn coordinator(&self) -> ShardId;
    /// The term of that group's leader that decides the transaction, if it is ever decided.
    fn decides(&self) -> u64;
    /// The one-shot request to that group, if the attempt has locked nothing there.
    fn one_shot(&self) -> Option<OneShot> {
        None
    }
    /// The participant's vote.
    fn vote(&self) -> Vote {
        Vote::Prepared { at: self.above(), below: self.below() }
    }
}

/// A transaction that is prepared and not resolved.
#[derive(Debug)]
struct PreparedTxn<R> {
    record: R,
    /// True once the outcome is proposed; `told_by` is the leader that sent it.
    ending: bool,
    told_by: Option<Address>,
    /// The node that led the coordinator's group when this leader prepared it.
    coordinator: Option<NodeId>,
    /// How often the coordinator was asked, and how many rounds pass before the next time.
    asked: u32,
    rests: u32,
}

impl<R: PrepareRecord> PreparedTxn<R> {
    fn new(record: R, coordinator: Option<NodeId>) -> PreparedTxn<R> {
        // Not in the first round.
        PreparedTxn { record, ending: false, told_by: None, coordinator, asked: 0, rests: 1 }
    }

    /// Returns whether to ask for the outcome in this round, and which node: first the node that
    /// led the coordinator's group, then all nodes (`None`), less and less often.
    fn asks(&mut self) -> Option<Option<NodeId>> {
        if self.rests > 0 {
            self.rests -= 1;
            return None;
        }
        let first = self.asked == 0;
        self.rests = (1 << self.asked.min(MOST_RESTS)) - 1;
        self.asked += 1;
        Some(self.coordinator.filter(|_| first))
    }

    /// The timestamp at which the prepare record's row is replaced: the commit timestamp, or for an
    /// abort one above the prepare timestamp that no other version has. The last timestamp of a
    /// nanosecond is never issued.
    fn ends_at(&self, at: Option<Timestamp>) -> Timestamp {
        at.unwrap_or(Timestamp { logical: u32::MAX, ..self.record.at() })
    }
}

/// The transactions that are prepared here, each with its prepare record.
#[derive(Debug)]
pub struct PreparedTxns<R>(BTreeMap<TransactionId, PreparedTxn<R>>);

/// The effect of an outcome on the participant that receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// New: it is to be proposed to the log. The row of the prepare record ends at this timestamp.
    New(Timestamp),
    /// Proposed already.
    Repeated,
    /// Void: its sender does not decide the transaction.
    Foreign,
}

/// A prepared transaction whose outcome is in the log.
#[derive(Debug)]
pub struct EndedTxn<R> {
    /// Its prepare record.
    pub record: R,
    /// The timestamp at which the row of the prepare record ends.
    pub at: Timestamp,
    /// The coordinator group's leader, which waits for the confirmation, if it told this leader.
    pub told_by: Option<Address>,
}

impl<R> Default for PreparedTxns<R> {
    fn default() -> Self {
        PreparedTxns(BTreeMap::new())
    }
}

impl<R: PrepareRecord> PreparedTxns<R> {
    pub(super) fn restore(records: BTreeMap<TransactionId, R>) -> PreparedTxns<R> {
        let new = |(txn, record)| (txn, PreparedTxn::new(record, None));
        PreparedTxns(records.into_iter().map(new).collect())
    }

    /// Takes in a prepare record that is in the log. A leader that has voted names the node to
    /// which it voted.
    pub fn prepare(&mut self, txn: TransactionId, record: R, coordinator: Option<NodeId>) {
        self.0.insert(txn, PreparedTxn::new(record, coordinator));
    }

    /// Forgets what an earlier leader term did about the transactions: this member leads now.
    pub fn take_up(&mut self) {
        for prepared in self.0.values_mut() {
            (prepared.ending, prepared.told_by, prepared.coordinator) = (false, None, None);
            (prepared.asked, prepared.rests) = (0, 1);
        }
    }

    /// Receives an outcome from a leader: the commit timestamp, or `None` for an abort. Returns
    /// `None` if the transaction is not prepared here.
    pub fn on_decided(
        &mut self,
        txn: TransactionId,
        from: Address,
        at: Option<Timestamp>,
    ) -> Option<Receipt> {
        let prepared = self.0.get_mut(&txn)?;
        if prepared.record.coordinator() != from.shard {
            return Some(Receipt::Foreign);
        }
        prepared.told_by = Some(from);
        if std::mem::replace(&mut prepared.ending, true) {
            return Some(Receipt::Repeated);
        }
        Some(Receipt::New(prepared.ends_at(at)))
    }

    /// Takes in an outcome that is in the log. `None` if the transaction is not prepared here, or
    /// not any more: an outcome that two leaders proposed counts once.
    pub fn end(&mut self, txn: TransactionId, at: Option<Timestamp>) -> Option<EndedTxn<R>> {
        let prepared = self.0.remove(&txn)?;
        let at = prepared.ends_at(at);
        Some(EndedTxn { record: prepared.record, at, told_by: prepared.told_by })
    }

    /// Begins a round in which a shard's leader repeats its votes, to ask for outcomes. Returns the
    /// votes that are due in this round.
    pub fn ask(&mut self, shard: ShardId, term: u64) -> Vec<ToLeader> {
        let ask = |(txn, prepared): (&TransactionId, &mut PreparedTxn<R>)| {
            let node = prepared.asks()?;
            let record = &prepared.record;
            let message = ParticipantMessage::Vote {
                transaction: *txn,
                shard,
                vote: record.vote(),
                one_shot: record.one_shot(),
                decides: record.decides(),
                voted_in: term,
            };
            Some(ToLeader { shard: record.coordinator(), node, message })
        };
        self.0.iter_mut().filter(|(_, prepared)| !prepared.ending).filter_map(ask).collect()
    }

    /// The prepare record of a transaction.
    pub fn get(&self, txn: TransactionId) -> Option<&R> {
        self.0.get(&txn).map(|prepared| &prepared.record)
    }

    /// True if a transaction is prepared here.
    pub fn contains(&self, txn: TransactionId) -> bool {
        self.0.contains_key(&txn)
    }

    /// The transactions and their prepare records.
    pub fn iter(&self) -> impl Iterator<Item = (TransactionId, &R)> {
        self.0.iter().map(|(txn, prepared)| (*txn, &prepared.record))
    }

    /// The prepare records.
    pub fn records(&self) -> impl Iterator<Item = &R> {
        self.0.values().map(|prepared| &prepared.record)
    }

    /// The number of transactions that are prepared here.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if no transaction is prepared here.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
