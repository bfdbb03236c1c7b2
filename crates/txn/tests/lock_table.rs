//! Tests of the lock table: single cases, and random histories.

use meridian_mvcc::{Key, KeyRange};
use meridian_txn::locking::{LockTable, TransactionId, Verdict};
use meridian_txn::{Age, Conflict, Lock};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn id(number: u64) -> TransactionId {
    TransactionId { node: 1, incarnation: 1, number }
}

/// Returns an age; transaction 1 is the oldest.
fn age(number: u64) -> Age {
    Age { began_ns: number, node: 1, number }
}

fn point(key: &str) -> KeyRange {
    KeyRange::point(Key::from(key))
}

fn ask(
    table: &mut LockTable,
    now: u64,
    txn: u64,
    range: KeyRange,
    lock: Lock,
    ticket: u64,
) -> Vec<Verdict> {
    table.acquire(now, id(txn), age(txn), range, lock, ticket)
}

fn wounded(by: u64, key: &str) -> Conflict {
    Conflict::Wounded { by: age(by), key: Key::from(key), application: None }
}

#[test]
fn readers_share_and_a_writer_waits_for_them() {
    let mut table = LockTable::new();
    assert_eq!(ask(&mut table, 0, 1, point("a"), Lock::Shared, 10), [Verdict::Granted(10)]);
    assert_eq!(ask(&mut table, 0, 2, point("a"), Lock::Shared, 11), [Verdict::Granted(11)]);
    assert_eq!(ask(&mut table, 0, 3, point("a"), Lock::Exclusive, 12), []);
    assert_eq!(table.waits()[0].blockers, [id(1), id(2)]);
    assert_eq!(table.release(id(1)), []);
    assert_eq!(table.release(id(2)), [Verdict::Granted(12)]);
}

#[test]
fn a_range_that_ends_before_it_starts_blocks_nothing() {
    let mut table = LockTable::new();
    let range =
        |start: &str, end: &str| KeyRange { start: Key::from(start), end: Some(Key::from(end)) };
    ask(&mut table, 0, 1, range("a", "z"), Lock::Exclusive, 10);
    ask(&mut table, 0, 1, point("m"), Lock::Exclusive, 11);
    assert_eq!(ask(&mut table, 0, 2, range("m", "c"), Lock::Exclusive, 12), [Verdict::Granted(12)]);
    assert_eq!(ask(&mut table, 0, 3, range("m", "m"), Lock::Exclusive, 13), [Verdict::Granted(13)]);
    table.release(id(1));
    assert_eq!(ask(&mut table, 0, 4, range("a", "z"), Lock::Exclusive, 14), [Verdict::Granted(14)]);
}

#[test]
fn a_wound_only_marks_until_the_victim_would_wait() {
    let mut table = LockTable::new();
    ask(&mut table, 0, 2, point("a"), Lock::Exclusive, 10);
    ask(&mut table, 0, 3, point("b"), Lock::Exclusive, 11);
    // The oldest transaction requests a: 2 is wounded, and may proceed as long as it need not wait.
    assert_eq!(
        ask(&mut table, 1, 1, point("a"), Lock::Exclusive, 12),
        [Verdict::Marked(id(2), wounded(1, "a"))]
    );
    assert_eq!(ask(&mut table, 2, 2, point("c"), Lock::Exclusive, 13), [Verdict::Granted(13)]);
    assert_eq!(
        ask(&mut table, 3, 2, point("b"), Lock::Shared, 14),
        [Verdict::Victim(id(2), None, wounded(1, "a"))]
    );
    assert_eq!(table.release(id(2)), [Verdict::Granted(12)]);
}

#[test]
fn a_victim_that_waits_already_is_aborted_at_once() {
    let mut table = LockTable::new();
    ask(&mut table, 0, 1, point("b"), Lock::Exclusive, 10);
    ask(&mut table, 0, 2, point("a"), Lock::Exclusive, 11);
    assert_eq!(
        ask(&mut table, 0, 2, point("b"), Lock::Exclusive, 12),
        [],
        "the younger waits for the older"
    );
    // This request would close the deadlock.
    assert_eq!(
        ask(&mut table, 0, 1, point("a"), Lock::Exclusive, 13),
        [Verdict::Victim(id(2), Some(12), wounded(1, "a"))]
    );
    assert_eq!(table.release(id(2)), [Verdict::Granted(13)]);
}

/// A retried transaction keeps its age, and the abort of the first attempt may arrive late or
/// never.
#[test]
fn two_attempts_of_one_age_do_not_mistake_each_other() {
    let mut table = LockTable::new();
    let ask = |table: &mut LockTable, txn: u64, key: &str, ticket: u64| {
        table.acquire(
            0,
            id(txn),
            age(if txn == 9 { 9 } else { 1 }),
            point(key),
            Lock::Exclusive,
            ticket,
        )
    };
    // Transactions 2 and 3 are the first and second attempt of one transaction. Both wait for 9,
    // which cannot be wounded any more.
    assert_eq!(ask(&mut table, 9, "a", 10), [Verdict::Granted(10)]);
    table.committing(id(9));
    assert_eq!(ask(&mut table, 2, "a", 11), []);
    assert_eq!(ask(&mut table, 3, "a", 12), []);
    assert_eq!(table.release(id(2)), []);
    assert_eq!(table.release(id(9)), [Verdict::Granted(12)], "the second attempt still waits");
    // A delayed request begins the first attempt again. It blocks the second attempt no longer than
    // a younger transaction would.
    assert_eq!(ask(&mut table, 2, "b", 13), [Verdict::Granted(13)]);
    assert_eq!(ask(&mut table, 2, "a", 14), []);
    assert_eq!(ask(&mut table, 3, "b", 15), [Verdict::Victim(id(2), Some(14), wounded(1, "b"))]);
    assert_eq!(table.release(id(2)), [Verdict::Granted(15)]);
}

#[test]
fn a_victim_that_is_idle_for_a_second_is_aborted() {
    let mut table = LockTable::new();
    ask(&mut table, 0, 2, point("a"), Lock::Exclusive, 10);
    ask(&mut table, 0, 1, point("a"), Lock::Exclusive, 11);
    assert_eq!(table.idle_victims(LockTable::IDLE_NS - 1), []);
    assert_eq!(
        table.idle_victims(LockTable::IDLE_NS),
        [Verdict::Victim(id(2), None, wounded(1, "a"))]
    );
    table.committing(id(2));
    assert_eq!(
        table.idle_victims(LockTable::IDLE_NS),
        [],
        "a committing transaction ends by itself"
    );
}

#[test]
fn a_range_blocks_an_insert_into_it() {
    let mut table = LockTable::new();
    let range = KeyRange { start: Key::from("b"), end: Some(Key::from("d")) };
    ask(&mut table, 0, 1, range.clone(), Lock::Shared, 10);
    assert_eq!(ask(&mut table, 0, 2, point("c"), Lock::Exclusive, 11), []);
    assert_eq!(ask(&mut table, 0, 3, point("d"), Lock::Exclusive, 12), [Verdict::Granted(12)]);
    assert_eq!(table.release(id(1)), [Verdict::Granted(11)]);
    assert_eq!(
        ask(&mut table, 0, 4, range, Lock::Shared, 13),
        [],
        "a point lock blocks a range lock"
    );
}

#[test]
fn an_upgrade_waits_for_the_other_reader_only() {
    let mut table = LockTable::new();
    ask(&mut table, 0, 1, point("a"), Lock::Shared, 10);
    ask(&mut table, 0, 2, point("a"), Lock::Shared, 11);
    assert_eq!(
        ask(&mut table, 0, 1, point("a"), Lock::Exclusive, 12),
        [Verdict::Marked(id(2), wounded(1, "a"))]
    );
    assert_eq!(table.release(id(2)), [Verdict::Granted(12)]);
}

#[test]
fn what_is_held_is_granted_again_even_to_the_wounded() {
    let mut table = LockTable::new();
    let range = KeyRange { start: Key::from("b"), end: Some(Key::from("d")) };
    ask(&mut table, 0, 2, point("a"), Lock::Exclusive, 10);
    ask(&mut table, 0, 2, range, Lock::Exclusive, 11);
    assert_eq!(
        ask(&mut table, 0, 1, point("a"), Lock::Exclusive, 12),
        [Verdict::Marked(id(2), wounded(1, "a"))]
    );
    assert_eq!(ask(&mut table, 0, 2, point("a"), Lock::Exclusive, 13), [Verdict::Granted(13)]);
    assert_eq!(ask(&mut table, 0, 2, point("c"), Lock::Exclusive, 14), [Verdict::Granted(14)]);
}

#[test]
fn no_request_overtakes_an_older_waiter() {
    let mut table = LockTable::new();
    ask(&mut table, 0, 1, point("a"), Lock::Shared, 10);
    ask(&mut table, 0, 2, point("a"), Lock::Exclusive, 11);
    assert_eq!(
        ask(&mut table, 0, 3, point("a"), Lock::Shared, 12),
        [],
        "a younger reader queues behind the writer"
    );
    assert_eq!(table.release(id(1)), [Verdict::Granted(11)]);
    assert_eq!(table.release(id(2)), [Verdict::Granted(12)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random transactions lock random ranges: conflicting locks are never held at once, and every
    /// transaction ends.
    #[test]
    fn conflicting_locks_are_never_held_and_no_deadlock_lasts(
        plans in prop::collection::vec(prop::collection::vec((0..6u8, 0..4u8, any::<bool>()), 1..6), 2..7),
        order in prop::collection::vec(any::<u8>(), 200),
    ) {
        let mut table = LockTable::new();
        let mut at = vec![0; plans.len()];
        let mut waiting = vec![false; plans.len()];
        let mut held: BTreeMap<u64, Vec<(KeyRange, Lock)>> = BTreeMap::new();
        let mut order = order.into_iter().cycle();
        let mut steps = 0;
        while at.iter().zip(&plans).any(|(at, plan)| *at <= plan.len()) {
            steps += 1;
            prop_assert!(steps < 20_000, "a transaction never ends: {:?}", table.waits());
            let txn = order.next().expect("the order repeats for ever") as usize % plans.len();
            if waiting[txn] || at[txn] > plans[txn].len() {
                continue;
            }
            let request = |txn: usize, at: usize| {
                let (start, width, exclusive) = plans[txn][at];
                let range = match width {
                    0 => KeyRange::point(Key::from(vec![start])),
                    _ => KeyRange { start: Key::from(vec![start]), end: Some(Key::from(vec![start + width])) },
                };
                (range, if exclusive { Lock::Exclusive } else { Lock::Shared })
            };
            let mut verdicts = if at[txn] == plans[txn].len() {
                at[txn] += 1;
                held.remove(&(txn as u64));
                table.release(id(txn as u64))
            } else {
                let (range, lock) = request(txn, at[txn]);
                waiting[txn] = true;
                ask(&mut table, steps, txn as u64, range, lock, txn as u64)
            };
            while let Some(verdict) = verdicts.pop() {
                match verdict {
                    Verdict::Granted(ticket) => {
                        let granted = request(ticket as usize, at[ticket as usize]);
                        for (other, locks) in &held {
                            for (range, lock) in locks {
                                let clash = *lock == Lock::Exclusive || granted.1 == Lock::Exclusive;
                                prop_assert!(*other == ticket || !clash || !range.overlaps(&granted.0));
                            }
                        }
                        held.entry(ticket).or_default().push(granted);
                        waiting[ticket as usize] = false;
                        at[ticket as usize] += 1;
                    }
                    Verdict::Victim(victim, _, _) => {
                        // A new attempt has the same age.
                        let victim = victim.number;
                        (at[victim as usize], waiting[victim as usize]) = (0, false);
                        held.remove(&victim);
                        verdicts.extend(table.release(id(victim)));
                    }
                    Verdict::Marked(..) => {}
                    Verdict::Wound(..) => unreachable!("nothing is prepared"),
                }
            }
        }
        prop_assert_eq!(table.owners().count(), 0);
    }
}
