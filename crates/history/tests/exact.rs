//! The judges compared with a naive judge that tries every order of a small history.

use meridian_history::cycles::Model;
use meridian_history::search::{self, Limit, Order};
use meridian_history::{Op, Status, Transaction, Value, Verdict, judge};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeMap;

type State = BTreeMap<String, Value>;

/// Returns the state after a transaction, or `None` if it read something else.
fn run(state: &State, transaction: &Transaction) -> Option<State> {
    let mut state = state.clone();
    let believed = transaction.status == Status::Ok;
    let stands = |state: &State, key: &str| state.get(key).cloned().unwrap_or(Value::Nothing);
    for op in &transaction.ops {
        match op {
            Op::Read(key, value) if believed && !stands(&state, key).same(value) => return None,
            Op::Scan(low, high, rows) if believed => {
                let within = state.iter().filter(|(key, value)| {
                    low <= key && *key < high && !value.same(&Value::Nothing)
                });
                let within: Vec<(String, Value)> =
                    within.map(|(key, value)| (key.clone(), value.clone())).collect();
                let shown = rows.iter().filter(|(_, value)| !value.same(&Value::Nothing)).cloned();
                if within != shown.collect::<Vec<_>>() {
                    return None;
                }
            }
            Op::Read(..) | Op::Scan(..) => {}
            Op::Write(key, value) => drop(state.insert(key.clone(), value.clone())),
            Op::Append(key, element) => {
                let longer = stands(&state, key).appended(*element);
                state.insert(key.clone(), longer);
            }
        }
    }
    Some(state)
}

/// True if the remaining transactions can follow in some order.
fn follow(state: &State, left: &[&Transaction], order: Order) -> bool {
    if left.iter().all(|transaction| transaction.status == Status::Info) {
        return true;
    }
    (0..left.len()).any(|at| {
        let ended = |other: &&Transaction| other.status == Status::Ok && other.end < left[at].start;
        if order == Order::RealTime && left.iter().any(ended) {
            return false;
        }
        let mut rest = left.to_vec();
        rest.remove(at);
        run(state, left[at]).is_some_and(|state| follow(&state, &rest, order))
    })
}

fn naive(history: &[Transaction], order: Order) -> bool {
    let left: Vec<&Transaction> =
        history.iter().filter(|transaction| transaction.status != Status::Fail).collect();
    follow(&State::new(), &left, order)
}

/// A transaction to run: operations by kind, key and value, and how long it lasts before and after
/// its moment.
#[derive(Clone, Debug)]
struct Plan {
    ops: Vec<(u8, u8, i64)>,
    status: u8,
    before: u64,
    after: u64,
}

fn plan() -> impl Strategy<Value = Plan> {
    let ops = prop::collection::vec((0..12u8, 0..3u8, 1..3i64), 1..4);
    (ops, 0..12u8, 0..9u64, 0..9u64).prop_map(|(ops, status, before, after)| Plan {
        ops,
        status,
        before,
        after,
    })
}

/// A history that one engine made by running transactions in sequence, with some reads that it
/// never returned. With `named` each value names its writer.
fn made(plans: &[Plan], named: bool, blind: bool, lies: &[(usize, usize)]) -> Vec<Transaction> {
    let (mut state, mut history, mut number) = (State::new(), Vec::new(), 10);
    for (place, plan) in plans.iter().enumerate() {
        let status = match plan.status {
            0 => Status::Fail,
            1 | 2 => Status::Info,
            _ => Status::Ok,
        };
        let mut mine = state.clone();
        let mut ops = Vec::new();
        for (kind, key, value) in &plan.ops {
            number += 1;
            let value = if named { number } else { *value };
            let key = ["l", "x", "y"][usize::from(*key)].to_owned();
            let list = key == "l";
            match (kind, list) {
                (0..5, _) if !blind || plan.ops.len() == 1 => {
                    let found = mine.get(&key).cloned().unwrap_or(Value::Nothing);
                    ops.push(Op::Read(key, found));
                }
                (5 | 6, _) => {
                    let rows = mine.iter().filter(|(_, value)| **value != Value::Nothing);
                    let rows = rows.map(|(key, value)| (key.clone(), value.clone())).collect();
                    ops.push(Op::Scan("a".into(), "z".into(), rows));
                }
                (7, _) if !named => {
                    mine.insert(key.clone(), Value::Nothing);
                    ops.push(Op::Write(key, Value::Nothing));
                }
                (_, true) => {
                    let longer = mine.get(&key).unwrap_or(&Value::Nothing).appended(value);
                    mine.insert(key.clone(), longer);
                    ops.push(Op::Append(key, value));
                }
                (_, false) => {
                    mine.insert(key.clone(), Value::Number(value));
                    ops.push(Op::Write(key, Value::Number(value)));
                }
            }
        }
        if status == Status::Ok || (status == Status::Info && plan.status == 1) {
            state = mine;
        }
        let moment = 10 + 4 * place as u64;
        let period = (moment - plan.before, moment + plan.after);
        history.push(Transaction::new(place as u64, period, status, ops));
    }
    let written =
        history.iter().flat_map(|transaction| &transaction.ops).filter_map(|op| match op {
            Op::Write(_, value) | Op::Read(_, value) => Some(value.clone()),
            Op::Append(_, element) => Some(Value::List(vec![*element])),
            Op::Scan(..) => None,
        });
    let written: Vec<Value> = written.chain([Value::Nothing]).collect();
    for (which, what) in lies {
        let reads = history.iter_mut().flat_map(|transaction| &mut transaction.ops);
        let mut reads: Vec<&mut Op> =
            reads.filter(|op| matches!(op, Op::Read(..) | Op::Scan(..))).collect();
        if reads.is_empty() {
            break;
        }
        let at = which % reads.len();
        match &mut reads[at] {
            Op::Read(_, value) => *value = written[what % written.len()].clone(),
            Op::Scan(_, _, rows) if !rows.is_empty() => drop(rows.remove(what % rows.len())),
            _ => {}
        }
    }
    history
}

fn text(history: &[Transaction]) -> String {
    history.iter().map(|transaction| format!("{:?} {transaction}\n", transaction.status)).collect()
}

/// Compares the verdicts of all judges with the naive judge's.
fn compare(history: &[Transaction]) -> Result<[bool; 2], TestCaseError> {
    let mut right = [false; 2];
    for (at, (order, model)) in
        [(Order::Any, Model::Serializable), (Order::RealTime, Model::StrictSerializable)]
            .into_iter()
            .enumerate()
    {
        let expected = naive(history, order);
        let searched = search::judge(history, order, Limit::default());
        prop_assert_eq!(
            searched.is_ok(),
            expected,
            "{:?} by search: {:?}\n{}",
            order,
            searched,
            text(history)
        );
        let found = match judge(history, model, Limit::default()) {
            Verdict::Right(_) => true,
            Verdict::Wrong { .. } => false,
            Verdict::Undecided(why) => {
                return Err(TestCaseError::fail(format!(
                    "{order:?} undecided: {why}\n{}",
                    text(history)
                )));
            }
        };
        prop_assert_eq!(found, expected, "{:?}\n{}", order, text(history));
        right[at] = found;
    }
    if right[0] {
        for model in [Model::SnapshotIsolation, Model::ReadCommitted] {
            let found = judge(history, model, Limit::default());
            prop_assert!(
                matches!(found, Verdict::Right(_)),
                "{:?}: {:?}\n{}",
                model,
                found,
                text(history)
            );
        }
    }
    Ok(right)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn the_judges_say_what_trying_every_order_says(
        plans in prop::collection::vec(plan(), 1..7),
        named: bool,
        blind: bool,
        lies in prop::collection::vec((0..99usize, 0..99usize), 0..3),
    ) {
        compare(&made(&plans, named, blind, &lies))?;
    }
}
