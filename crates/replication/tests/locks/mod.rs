//! The application of the tests of inconsistent replication: a lock server, as in TOCS'18 (§3.1).

use meridian_machine::Reading;
use meridian_machine::planted::Rule;
use meridian_replication::inconsistent::{Application, ChangesOf, Entry, Op, OpId, RecordOf, View};
use meridian_replication::rules;
use std::collections::{BTreeMap, BTreeSet};

/// The broken rules that random simulations meet (`unordered.rs`). Transcripts cover the other ones
/// (`views.rs`), which random simulations meet once in thousands of runs.
pub const MET_AT_RANDOM: [Rule; 5] = [
    rules::REPLIES_BEFORE_DURABLE,
    rules::FAST_QUORUM_TOO_SMALL,
    rules::FORGETS_WHAT_ONE_LACKS,
    rules::BASE_UNCHECKED,
    rules::FORMER_NOT_ASKED,
];

/// Gives one of a few locks to the operation that requests it; the result is `true` if it was free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock(pub u8);

/// Returns a lock that this operation got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlock(pub OpId);

#[derive(Debug, Default)]
pub struct Locks {
    pub held: BTreeMap<u8, OpId>,
    pub released: BTreeSet<OpId>,
    /// Clients have ended every operation below this number, and have returned its locks.
    pub ended_below: u64,
}

impl Locks {
    fn take(&mut self, id: OpId, Lock(name): Lock) -> bool {
        id.number >= self.ended_below
            && !self.released.contains(&id)
            && *self.held.entry(name).or_insert(id) == id
    }
}

impl Application for Locks {
    type Inconsistent = Unlock;
    type Consensus = Lock;
    type Result = bool;
    /// The operation whose lock was returned: for the store, which keeps it.
    type Effect = OpId;

    fn execute(&mut self, _: Reading, _: OpId, Unlock(lock): &Unlock, effects: &mut Vec<OpId>) {
        effects.push(*lock);
        self.released.insert(*lock);
        self.held.retain(|_, holder| holder != lock);
    }

    fn answer(&mut self, _: Reading, id: OpId, lock: &Lock, _: &mut Vec<OpId>) -> bool {
        self.take(id, *lock)
    }

    fn recall(&mut self, _: Reading, answered: &[(OpId, Lock, bool)], _: &mut Vec<OpId>) {
        for (id, lock, _) in answered.iter().filter(|(_, _, granted)| *granted) {
            self.take(*id, *lock);
        }
    }

    fn sync(&mut self, _: Reading, record: &RecordOf<Locks>, effects: &mut Vec<OpId>) {
        let of = |entry: &Entry<Unlock, Lock, bool>| match entry.op {
            Op::Inconsistent(Unlock(lock)) => Some(lock),
            Op::Consensus(_) => None,
        };
        self.released = record.values().filter_map(of).collect();
        effects.extend(&self.released);
        let granted = record.iter().filter(|(_, entry)| entry.state.result() == Some(&true));
        let held = granted.filter_map(|(id, entry)| match entry.op {
            Op::Consensus(Lock(name)) if !self.released.contains(id) => Some((name, *id)),
            _ => None,
        });
        self.held = held.collect();
    }

    fn merge(
        &mut self,
        _: Reading,
        likely: &[(OpId, Lock, bool)],
        open: &[(OpId, Lock)],
        _: &mut Vec<OpId>,
    ) -> Vec<bool> {
        for (id, Lock(name), _) in likely.iter().filter(|(_, _, granted)| *granted) {
            // An operation that has returned its lock has had it.
            if id.number >= self.ended_below && !self.released.contains(id) {
                self.held.insert(*name, *id);
            }
        }
        open.iter().map(|(id, lock)| self.take(*id, *lock)).collect()
    }

    fn bytes(_: &Entry<Unlock, Lock, bool>) -> usize {
        1
    }

    fn lacking(_: &RecordOf<Locks>, told: Vec<(OpId, Unlock)>) -> Vec<(OpId, Unlock)> {
        told
    }

    fn forget(&self, record: &RecordOf<Locks>, _: View, stored: View) -> ChangesOf<Locks> {
        let over = |id: &OpId| {
            id.number < self.ended_below && !self.held.values().any(|holder| holder == id)
        };
        let forgotten = |(id, entry): (&OpId, &Entry<Unlock, Lock, bool>)| {
            let had = entry.merged.is_some_and(|merged| merged <= stored);
            (had && over(id)).then_some((*id, None))
        };
        record.iter().filter_map(forgotten).collect()
    }
}
