//! The judge of snapshot isolation by timestamps, which is exact.
//!
//! ```text
//!   snapshot ─────────────── commit          a transaction reads what was committed at or below its
//!      │  no other commit wrote │            snapshot, and its own writes
//!      └────── these rows ──────┘
//! ```
//!
//! 1. Each transaction that wrote has a commit timestamp of its own, above its snapshot. A
//!    transaction without a snapshot has read nothing but what it had written.
//! 2. Its reads return the state at its snapshot, and its own earlier writes.
//! 3. Nothing that it writes was committed by another transaction between the two (first committer
//!    wins).
//! 4. The snapshot of a transaction contains the commits that its causal token named, and those
//!    that asked for external consistency and had ended when it began.

use crate::timestamps::{State, step};
use crate::{Op, Stamp, Status, Transaction, timestamps};
use std::collections::{BTreeMap, BTreeSet};

/// A contradiction to snapshot isolation in the order of the timestamps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A timestamp is missing or given twice, or a read contradicts the snapshot.
    #[error(transparent)]
    Order(#[from] timestamps::Violation),
    /// A commit is not above its snapshot.
    #[error("the commit is not above the snapshot {snapshot:?}: {transaction}")]
    Backwards {
        /// The transaction.
        transaction: Box<Transaction>,
        /// Its snapshot.
        snapshot: Stamp,
    },
    /// A transaction that wrote has read, and its snapshot is not known.
    #[error("the snapshot is missing of a transaction that has read: {0}")]
    NoSnapshot(Box<Transaction>),
    /// A row was written between a transaction's snapshot and its commit.
    #[error("{key} was written after the snapshot of {transaction}, by {other}")]
    LostUpdate {
        /// The row.
        key: String,
        /// The transaction that committed first.
        other: Box<Transaction>,
        /// The transaction that did not see it.
        transaction: Box<Transaction>,
    },
    /// A snapshot lacks a transaction that its client knew of.
    #[error("the snapshot {snapshot:?} of {after} lacks {before}")]
    Missed {
        /// The transaction that is missing.
        before: Box<Transaction>,
        /// The transaction that should have seen it.
        after: Box<Transaction>,
        /// Its snapshot.
        snapshot: Stamp,
    },
}

/// An event of a replay, in the order of the timestamps. At one timestamp the commit comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Commits,
    Reads,
}

/// Checks that a history is one of snapshot isolation in the order of its timestamps.
pub fn judge(history: &[Transaction]) -> Result<(), Violation> {
    let mut events: Vec<(Stamp, Event, &Transaction)> = Vec::new();
    for transaction in history.iter().filter(|transaction| transaction.status != Status::Fail) {
        match (transaction.at, transaction.snapshot) {
            (Some(at), snapshot) if transaction.writes() => {
                if let Some(snapshot) = snapshot.filter(|snapshot| *snapshot >= at) {
                    let transaction = Box::new(transaction.clone());
                    return Err(Violation::Backwards { transaction, snapshot });
                }
                if snapshot.is_none() && has_read(transaction) {
                    return Err(Violation::NoSnapshot(Box::new(transaction.clone())));
                }
                events.push((at, Event::Commits, transaction));
                events.extend(snapshot.map(|snapshot| (snapshot, Event::Reads, transaction)));
            }
            (Some(at), snapshot) => {
                events.push((snapshot.unwrap_or(at), Event::Reads, transaction));
            }
            (None, _) if transaction.status == Status::Ok && transaction.writes() => {
                return Err(
                    timestamps::Violation::NoTimestamp(Box::new(transaction.clone())).into()
                );
            }
            (None, _) => {}
        }
    }
    events.sort_by_key(|(at, event, _)| (*at, *event));
    replay(&events)?;
    known(history)
}

/// True if a transaction has surely read what its own earlier writes do not answer.
fn has_read(transaction: &Transaction) -> bool {
    let mut written: BTreeSet<&String> = BTreeSet::new();
    transaction.status == Status::Ok
        && transaction.ops.iter().any(|op| match op {
            Op::Write(key, _) => {
                written.insert(key);
                false
            }
            // It is appended to what was there.
            Op::Append(key, _) => written.insert(key),
            Op::Read(key, _) => !written.contains(key),
            Op::Scan(..) => true,
        })
}

fn replay(events: &[(Stamp, Event, &Transaction)]) -> Result<(), Violation> {
    let mut state = State::new();
    let mut writers: BTreeMap<&String, (Stamp, &Transaction)> = BTreeMap::new();
    let mut last: Option<(Stamp, &Transaction)> = None;
    for (at, event, transaction) in events.iter().copied() {
        if event == Event::Reads {
            // Its own writes are applied to a copy.
            step(&mut state.clone(), transaction)?;
            continue;
        }
        if let Some((_, other)) = last.filter(|(other, _)| *other == at) {
            let (one, other) = (Box::new(other.clone()), Box::new(transaction.clone()));
            return Err(timestamps::Violation::Shared(one, other).into());
        }
        last = Some((at, transaction));
        for op in &transaction.ops {
            let (Op::Write(key, _) | Op::Append(key, _)) = op else { continue };
            let since = |(written, _): &(Stamp, &Transaction)| {
                *written < at && transaction.snapshot.is_some_and(|snapshot| *written > snapshot)
            };
            if let Some((_, other)) = writers.get(key).filter(|writer| since(writer)) {
                return Err(Violation::LostUpdate {
                    key: key.clone(),
                    other: Box::new((*other).clone()),
                    transaction: Box::new(transaction.clone()),
                });
            }
            writers.insert(key, (at, transaction));
        }
        // Its reads were those of its snapshot.
        let written = Transaction { status: Status::Info, ..transaction.clone() };
        step(&mut state, &written)?;
    }
    Ok(())
}

/// Checks that snapshots contain what their clients knew of.
fn known(history: &[Transaction]) -> Result<(), Violation> {
    let placed = |transaction: &&Transaction| {
        transaction.status == Status::Ok && transaction.writes() && transaction.at.is_some()
    };
    let named: BTreeMap<(u64, u64), &Transaction> = history
        .iter()
        .filter(placed)
        .map(|transaction| ((transaction.client, transaction.start), transaction))
        .collect();
    let waited: Vec<&Transaction> =
        history.iter().filter(placed).filter(|transaction| transaction.external).collect();
    for after in history.iter().filter(|transaction| transaction.status != Status::Fail) {
        let Some(snapshot) = after.snapshot.or(after.at.filter(|_| !after.writes())) else {
            continue;
        };
        let given = after.follows.iter().filter_map(|name| named.get(name)).copied();
        let seen_from = after.start.saturating_sub(after.snapshot_age_ns);
        let ended = waited.iter().copied().filter(|before| before.end < seen_from);
        if let Some(before) = given.chain(ended).find(|before| before.at > Some(snapshot)) {
            let (before, after) = (Box::new(before.clone()), Box::new(after.clone()));
            return Err(Violation::Missed { before, after, snapshot });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use crate::cycles::{self, Model};

    /// A transaction at a snapshot and a commit timestamp.
    fn ran(snapshot: u64, at: u64, ops: Vec<Op>) -> Transaction {
        let stamp = |nanos: u64| (nanos > 0).then_some((nanos, 0, 1));
        let observed = Transaction::new(at, (10 * at, 10 * at + 5), Status::Ok, ops);
        Transaction { at: stamp(at), snapshot: stamp(snapshot), ..observed }
    }

    fn read(key: &str, value: i64) -> Op {
        Op::Read(key.into(), if value == 0 { Value::Nothing } else { Value::Number(value) })
    }

    fn write(key: &str, value: i64) -> Op {
        Op::Write(key.into(), Value::Number(value))
    }

    #[test]
    fn write_skew_is_allowed_and_a_lost_update_is_not() {
        let base = || ran(1, 2, vec![write("x", 1), write("y", 1)]);
        let skew = [
            base(),
            ran(3, 5, vec![read("x", 1), read("y", 1), write("x", 2)]),
            ran(4, 6, vec![read("x", 1), read("y", 1), write("y", 3), read("y", 3)]),
            ran(0, 7, vec![read("x", 2), read("y", 3)]),
        ];
        assert_eq!(judge(&skew), Ok(()));
        let serial = cycles::judge(&skew, Model::Serializable);
        assert!(matches!(serial, Err(cycles::Violation::Cycle(_))), "{serial:?}");
        assert!(timestamps::replay(&skew).is_err());
        let lost = [base(), ran(3, 5, vec![write("x", 2)]), ran(4, 6, vec![write("x", 3)])];
        assert!(matches!(judge(&lost), Err(Violation::LostUpdate { key, .. }) if key == "x"));
        // Blind writes that name no snapshot overwrite.
        let blind = [base(), ran(3, 5, vec![write("x", 2)]), ran(0, 6, vec![write("x", 3)])];
        assert_eq!(judge(&blind), Ok(()));
    }

    #[test]
    fn a_transaction_that_has_read_names_its_snapshot() {
        let base = || ran(1, 2, vec![write("x", 1)]);
        let own = [base(), ran(0, 5, vec![write("x", 2), read("x", 2)])];
        assert_eq!(judge(&own), Ok(()));
        let scan = Op::Scan("a".into(), "z".into(), vec![("x".into(), Value::Number(1))]);
        for unnamed in [read("x", 1), scan] {
            let found = judge(&[base(), ran(0, 5, vec![unnamed, write("x", 2)])]);
            assert!(matches!(found, Err(Violation::NoSnapshot(_))), "{found:?}");
        }
    }

    #[test]
    fn a_read_of_another_state_is_found() {
        let early = [ran(1, 2, vec![write("x", 1)]), ran(3, 4, vec![read("x", 0), write("y", 2)])];
        assert!(matches!(judge(&early), Err(Violation::Order(_))));
        let late = [ran(1, 5, vec![write("x", 1)]), ran(3, 7, vec![read("x", 1), write("y", 2)])];
        assert!(matches!(judge(&late), Err(Violation::Order(_))));
        let fractured = [
            ran(1, 2, vec![write("x", 1), write("y", 1)]),
            ran(3, 5, vec![write("x", 2), write("y", 2)]),
            ran(0, 6, vec![read("x", 2), read("y", 1)]),
        ];
        assert!(matches!(judge(&fractured), Err(Violation::Order(_))));
        // Two snapshots that see two commits in opposite orders.
        let fork = [
            ran(1, 2, vec![write("x", 1), write("y", 1)]),
            ran(3, 5, vec![write("x", 2)]),
            ran(3, 6, vec![write("y", 2)]),
            ran(0, 7, vec![read("x", 2), read("y", 1)]),
            ran(0, 8, vec![read("x", 1), read("y", 2)]),
        ];
        assert!(matches!(judge(&fork), Err(Violation::Order(_))));
        let own = [
            ran(1, 2, vec![write("x", 1)]),
            ran(3, 5, vec![read("x", 1), write("x", 2), read("x", 1)]),
        ];
        assert!(matches!(judge(&own), Err(Violation::Order(_))));
        // A transaction that wrote what the history does not show has read its snapshot.
        let marked = [ran(1, 3, vec![write("x", 1)]), ran(2, 5, vec![read("x", 0)])];
        assert_eq!(judge(&marked), Ok(()));
        let backwards = [ran(9, 5, vec![write("x", 1)])];
        assert!(matches!(judge(&backwards), Err(Violation::Backwards { .. })));
        let shared = [ran(1, 5, vec![write("x", 1)]), ran(1, 5, vec![write("y", 2)])];
        assert!(matches!(judge(&shared), Err(Violation::Order(_))));
    }

    #[test]
    fn tokens_and_waits_put_a_commit_into_later_snapshots() {
        let first = ran(1, 4, vec![write("x", 1)]);
        let mut second = ran(3, 6, vec![write("y", 2)]);
        assert_eq!(judge(&[first.clone(), second.clone()]), Ok(()), "unrelated");
        second.follows = vec![(first.client, first.start)];
        let found = judge(&[first.clone(), second.clone()]);
        assert!(matches!(found, Err(Violation::Missed { .. })), "{found:?}");
        second.follows.clear();
        let waited = Transaction { external: true, ..first };
        let found = judge(&[waited.clone(), second.clone()]);
        assert!(matches!(found, Err(Violation::Missed { .. })), "{found:?}");
        // The first one ended 15 before the second one began.
        second.snapshot_age_ns = 10;
        let found = judge(&[waited.clone(), second.clone()]);
        assert!(matches!(found, Err(Violation::Missed { .. })), "{found:?}");
        second.snapshot_age_ns = 20;
        assert_eq!(judge(&[waited.clone(), second.clone()]), Ok(()), "it asked for less");
        second.follows = vec![(waited.client, waited.start)];
        let found = judge(&[waited, second]);
        assert!(matches!(found, Err(Violation::Missed { .. })), "its token counts: {found:?}");
    }
}
