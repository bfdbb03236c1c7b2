//! Histories as large as those of a simulated world: right ones are found right, and one wrong read
//! is found.

use meridian_history::cycles::Model;
use meridian_history::search::Limit;
use meridian_history::{Op, Status, Transaction, Value, Verdict, judge};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// The shape of a workload: how many transactions write blindly, how many writes delete, and how
/// many transactions have an unknown outcome (as many fail), all in percent.
#[derive(Clone, Copy, Debug)]
struct Mix {
    transactions: usize,
    clients: u64,
    keys: usize,
    blind: u32,
    deletes: u32,
    unknown: u32,
}

/// Makes the history of an engine that runs one transaction at a time. Each value names its writer.
fn registers(mix: Mix, seed: u64) -> Vec<Transaction> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut state: BTreeMap<String, i64> = BTreeMap::new();
    let mut free = vec![0u64; mix.clients as usize];
    let (mut history, mut number) = (Vec::new(), 0);
    for place in 0..mix.transactions as u64 {
        let moment = 100 + 10 * place;
        let ready: Vec<u64> =
            (0..mix.clients).filter(|client| free[*client as usize] < moment).collect();
        let Some(client) = ready.get(rng.random_range(0..ready.len().max(1))).copied() else {
            continue;
        };
        let start = rng.random_range(
            free[client as usize].max(moment.saturating_sub(10 * mix.clients))..=moment,
        );
        let end = moment + rng.random_range(0..10 * mix.clients);
        free[client as usize] = end + 1;
        let status = match rng.random_range(0..100) {
            percent if percent < mix.unknown => Status::Info,
            percent if percent < 2 * mix.unknown => Status::Fail,
            _ => Status::Ok,
        };
        let is_blind = rng.random_range(0..100) < mix.blind;
        let happens = status == Status::Ok || (status == Status::Info && rng.random_bool(0.5));
        let mut mine = state.clone();
        let mut ops = Vec::new();
        for _ in 0..rng.random_range(1..4) {
            let key = format!("k{}", rng.random_range(0..mix.keys));
            let stands = mine.get(&key).map_or(Value::Nothing, |value| Value::Number(*value));
            if !is_blind {
                ops.push(Op::Read(key.clone(), stands));
            }
            if is_blind || rng.random_bool(0.3) {
                number += 1;
                if rng.random_range(0..100) < mix.deletes {
                    mine.remove(&key);
                    ops.push(Op::Write(key, Value::Nothing));
                } else {
                    mine.insert(key.clone(), number);
                    ops.push(Op::Write(key, Value::Number(number)));
                }
            }
        }
        if happens {
            state = mine;
        }
        history.push(Transaction::new(client, (start, end), status, ops));
    }
    history
}

/// Changes the result of one read-only transaction to the state some writes before.
fn spoil(history: &mut [Transaction], seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    loop {
        let at = rng.random_range(history.len() / 2..history.len());
        if history[at].status != Status::Ok || history[at].writes() {
            continue;
        }
        let Some(Op::Read(key, Value::Number(now))) = history[at].ops.first().cloned() else {
            continue;
        };
        let start = history[at].start;
        let ended = |transaction: &&Transaction| {
            transaction.status == Status::Ok && transaction.end + 1_000 < start
        };
        let before = history[..at].iter().filter(ended).flat_map(|transaction| {
            transaction
                .ops
                .iter()
                .rev()
                .find(|op| matches!(op, Op::Write(written, _) if *written == key))
        });
        let before = before.filter_map(|op| match op {
            Op::Write(_, Value::Number(number)) if *number != now => Some(*number),
            _ => None,
        });
        let before: Vec<i64> = before.collect();
        let Some(old) = before.len().checked_sub(3).map(|at| before[at]) else { continue };
        history[at].ops = vec![Op::Read(key, Value::Number(old))];
        return;
    }
}

/// The verdict: right or wrong; `None` is undecided.
fn verdict(history: &[Transaction], model: Model) -> Option<bool> {
    match judge(history, model, Limit(100_000)) {
        Verdict::Right(_) => Some(true),
        Verdict::Wrong { .. } => Some(false),
        Verdict::Undecided(_) => None,
    }
}

#[test]
fn worlds_are_decided() {
    for (transactions, keys) in [(300, 5), (600, 20)] {
        for (blind, deletes, unknown) in [(0, 0, 0), (50, 0, 0), (90, 0, 5), (50, 10, 5)] {
            let mix = Mix { transactions, clients: 8, keys, blind, deletes, unknown };
            for seed in 0..4 {
                let mut history = registers(mix, seed);
                for model in
                    [Model::StrictSerializable, Model::Serializable, Model::SnapshotIsolation]
                {
                    assert_eq!(
                        verdict(&history, model),
                        Some(true),
                        "{model:?}, seed {seed} of {mix:?}"
                    );
                }
                spoil(&mut history, seed);
                let spoilt = verdict(&history, Model::StrictSerializable);
                assert_eq!(spoilt, Some(false), "spoilt, seed {seed} of {mix:?}");
            }
        }
    }
}

/// Above the size up to which all edges are inferred, a stale read is found by real time.
#[test]
fn many_transactions_are_decided() {
    let mix =
        Mix { transactions: 40_000, clients: 8, keys: 500, blind: 50, deletes: 0, unknown: 1 };
    let mut history = registers(mix, 1);
    assert!(history.len() > 1 << 14);
    assert_eq!(verdict(&history, Model::StrictSerializable), Some(true));
    spoil(&mut history, 1);
    assert_eq!(verdict(&history, Model::StrictSerializable), Some(false));
}
