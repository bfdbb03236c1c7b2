//! What clients do, and what they write down of it.
//!
//! Keys that begin with `l` are lists, to which is appended by reading and writing; keys that begin with `r` are registers, written without
//! a look. Every element and number is written once, so that a value names its writer.

use crate::site::Handle;
use meridian_clock::Timestamp;
use meridian_history::{Op, Stamp, Status, Value};
use meridian_mvcc::{Key, KeyRange, Value as Bytes};
use meridian_txn::locking::Site;
use meridian_txn::{Begin, Database, Failure, Lock, Mode, Outcome, ReadAt, Transaction};
use parking_lot::Mutex;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// One thing to do.
#[derive(Clone, Debug)]
pub enum Step {
    Read(String, Lock),
    Append(String, i64),
    Write(String, Option<i64>),
    Scan(String, String, bool),
    /// Writes something and takes it back.
    Regret(String),
    Think(u64),
}

/// A transaction to be tried.
#[derive(Clone, Debug)]
pub struct Plan {
    pub mode: Mode,
    pub steps: Vec<Step>,
}

/// What is known of a transaction so far.
#[derive(Debug, Default)]
pub struct Seen {
    pub ops: Vec<Op>,
    /// From here on nobody can say any more that it did not happen.
    pub committing: bool,
    pub ended: Option<(Status, Option<Stamp>)>,
    /// Why it failed.
    pub why: Option<String>,
}

pub fn stamp(at: Timestamp) -> Stamp {
    (at.nanos, at.logical, at.issuer)
}

/// The numbers in a stored value.
pub fn numbers(bytes: &[u8]) -> Vec<i64> {
    bytes.chunks_exact(8).map(|part| i64::from_be_bytes(part.try_into().expect("eight bytes"))).collect()
}

/// What a stored value means.
pub fn value(key: &str, stored: Option<&[u8]>) -> Value {
    match stored {
        None => Value::Nothing,
        Some(bytes) if key.starts_with('l') => Value::List(numbers(bytes)),
        Some(bytes) => numbers(bytes).first().map_or(Value::Nothing, |number| Value::Number(*number)),
    }
}

fn stored(numbers: &[i64]) -> Bytes {
    Bytes::from(numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>())
}

fn key(name: &str) -> Key {
    Key::from(name.as_bytes().to_vec())
}

/// The range between two keys.
pub fn between(low: &str, high: &str) -> KeyRange {
    KeyRange { start: key(low), end: Some(key(high)) }
}

/// Draws a transaction. Readers write nothing, and so get on where others wait for a majority.
pub fn plan(rng: &mut ChaCha8Rng, reader: bool, keys: u32, next: &mut i64, past: &[Timestamp]) -> Plan {
    let mut steps = Vec::new();
    let name = |rng: &mut ChaCha8Rng, kind: char| format!("{kind}{}", rng.random_range(0..keys));
    let mode = match rng.random_range(0..10) {
        0..2 => Mode::ReadOnly(ReadAt::Now),
        3.. if reader => Mode::ReadOnly(ReadAt::Now),
        2 if !past.is_empty() => Mode::ReadOnly(ReadAt::Exact(past[rng.random_range(0..past.len())])),
        _ => Mode::ReadWrite,
    };
    let writes = mode == Mode::ReadWrite;
    for _ in 0..rng.random_range(1..5) {
        let lock = if rng.random_bool(0.3) { Lock::Exclusive } else { Lock::Shared };
        let kind = if rng.random_bool(0.5) { 'l' } else { 'r' };
        let step = match rng.random_range(0..12) {
            0..4 if writes => {
                *next += 1;
                Step::Append(name(rng, 'l'), *next)
            }
            4..6 if writes => {
                *next += 1;
                Step::Write(name(rng, 'r'), Some(*next))
            }
            6 if writes => {
                *next += 1;
                steps.push(Step::Write(name(rng, 'r'), None));
                Step::Append(name(rng, 'l'), *next)
            }
            7 if writes => Step::Regret(name(rng, kind)),
            8 => Step::Scan(kind.to_string(), char::from(kind as u8 + 1).to_string(), rng.random_bool(0.3)),
            9 => Step::Think(rng.random_range(0..30_000_000)),
            _ => Step::Read(name(rng, kind), lock),
        };
        steps.push(step);
    }
    if rng.random_bool(0.02) {
        steps.push(Step::Think(3_000_000_000)); // Somebody who went for coffee with locks in hand.
    }
    Plan { mode, steps }
}

/// Tries a transaction; what comes of it is in `seen` at every moment.
pub async fn attempt(database: Arc<dyn Database>, desk: Handle, plan: Plan, seen: Arc<Mutex<Seen>>) {
    let end = |status, at: Option<Timestamp>| seen.lock().ended = Some((status, at.map(stamp)));
    let fail = |why: Failure| {
        seen.lock().why = Some(why.to_string());
        end(Status::Fail, None);
    };
    let mut transaction = match database.begin(Begin { mode: plan.mode, age: None }).await {
        Ok(transaction) => transaction,
        Err(why) => return fail(why),
    };
    for step in plan.steps {
        if let Err(why) = take(&mut *transaction, &desk, step, &seen).await {
            return fail(why);
        }
    }
    // Who only read is committed whatever is heard: that it has committed is said of what it saw.
    seen.lock().committing = true;
    match transaction.commit().await {
        Outcome::Committed { at } => end(Status::Ok, Some(at)),
        Outcome::Aborted { why } => fail(Failure::Aborted(why)),
        Outcome::Unknown => end(Status::Info, None),
    }
}

async fn read(transaction: &mut dyn Transaction, name: &str, lock: Lock) -> Result<Option<Bytes>, Failure> {
    let key = key(name);
    transaction.get(&key, lock).await
}

async fn take(transaction: &mut dyn Transaction, desk: &Handle, step: Step, seen: &Mutex<Seen>) -> Result<(), Failure> {
    match step {
        Step::Read(name, lock) => {
            let found = read(transaction, &name, lock).await?;
            let found = value(&name, found.as_ref().map(|found| found.as_ref()));
            seen.lock().ops.push(Op::Read(name, found));
        }
        Step::Append(name, element) => {
            let found = read(transaction, &name, Lock::Exclusive).await?;
            let mut list = found.as_ref().map(|found| numbers(found)).unwrap_or_default();
            seen.lock().ops.push(Op::Read(name.clone(), Value::List(list.clone())));
            list.push(element);
            transaction.put(key(&name), Some(stored(&list)))?;
            seen.lock().ops.push(Op::Append(name, element));
        }
        Step::Write(name, number) => {
            transaction.put(key(&name), number.map(|number| stored(&[number])))?;
            seen.lock().ops.push(Op::Write(name, number.map_or(Value::Nothing, Value::Number)));
        }
        Step::Scan(low, high, reverse) => {
            let (mut rows, mut rest) = (Vec::new(), Some(between(&low, &high)));
            while let Some(range) = rest {
                let found = transaction.scan(&range, Lock::Shared, reverse, 2).await?;
                rest = found.rest;
                for (key, bytes) in found.rows {
                    let name = String::from_utf8_lossy(key.as_ref()).into_owned();
                    let found = value(&name, Some(bytes.as_ref()));
                    rows.push((name, found));
                }
            }
            seen.lock().ops.push(Op::Scan(low, high, rows));
        }
        Step::Regret(name) => {
            let point = transaction.savepoint();
            transaction.put(key(&name), Some(stored(&[-1])))?;
            transaction.rollback_to(point);
        }
        Step::Think(pause_ns) => {
            let until = desk.now().boot_ns + pause_ns;
            desk.pause(until).await;
        }
    }
    Ok(())
}
