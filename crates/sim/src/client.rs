//! Clients: they run planned transactions, and record the reads, writes and outcomes.

use crate::sim_protocol::RequestRouter;
use crate::workload::{OPENING, Plan, Scope, Step};
use crate::world::order::Asked;
use meridian_clock::Timestamp;
use meridian_history::{Op, Stamp, Status, Value};
use meridian_mvcc::{Key, KeyRange, Value as Bytes};
use meridian_txn::{Begin, Conflict, Database, Failure, Lock, Mode, Outcome, ReadAt, Transaction};
use parking_lot::Mutex;
use std::sync::Arc;

/// The prefix of keys that only identify a committed transaction.
pub const MARK: char = '~';

/// The observations of a transaction so far.
#[derive(Debug, Default)]
pub struct Seen {
    pub ops: Vec<Op>,
    /// True once the transaction may have committed.
    pub committing: bool,
    pub ended: Option<(Status, Option<Stamp>)>,
    /// The reason of its failure.
    pub why: Option<String>,
    /// True if it failed because of a conflict with another transaction, and not because of a
    /// fault.
    pub gave_way: bool,
    /// The timestamp of a read of the present whose scope was declared.
    pub narrow: Option<Timestamp>,
    /// The snapshot that a transaction which writes has read.
    pub snapshot: Option<Timestamp>,
    /// The causal token of a client that has seen its end.
    pub token: Timestamp,
    /// The time for which it waited until a timestamp had surely passed, in nanoseconds.
    pub waited_ns: u64,
    /// The time for which it waited for an oracle's timestamp, in nanoseconds.
    pub timestamp_ns: u64,
    /// The time from COMMIT to its end, in nanoseconds.
    pub commit_ns: u64,
    /// True if it failed because its snapshot is older than the versions that are kept.
    pub too_old: bool,
}

pub fn stamp(at: Timestamp) -> Stamp {
    (at.nanos, at.logical, at.issuer)
}

/// Returns the numbers in a stored value.
pub fn numbers(bytes: &[u8]) -> Vec<i64> {
    bytes
        .chunks_exact(8)
        .map(|part| i64::from_be_bytes(part.try_into().expect("eight bytes")))
        .collect()
}

/// Decodes a stored value.
pub fn value(key: &str, stored: Option<&[u8]>) -> Value {
    match stored {
        None => Value::Nothing,
        Some(bytes) if key.starts_with('l') => Value::List(numbers(bytes)),
        Some(bytes) => {
            numbers(bytes).first().map_or(Value::Nothing, |number| Value::Number(*number))
        }
    }
}

fn stored(numbers: &[i64]) -> Bytes {
    Bytes::from(numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>())
}

fn key(name: &str) -> Key {
    Key::from(name.as_bytes().to_vec())
}

/// Returns the range between two keys.
pub fn between(low: &str, high: &str) -> KeyRange {
    KeyRange { start: key(low), end: Some(key(high)) }
}

/// Runs a transaction; records its progress in `seen`.
pub async fn attempt<D: RequestRouter>(
    database: Arc<dyn Database>,
    router: Arc<D>,
    plan: Plan,
    asked: Asked,
    seen: Arc<Mutex<Seen>>,
) {
    let end = |status, at: Option<Timestamp>| seen.lock().ended = Some((status, at.map(stamp)));
    let fail = |why: Failure| {
        {
            let mut seen = seen.lock();
            let another = |why: &Conflict| {
                matches!(
                    why,
                    Conflict::Wounded { .. }
                        | Conflict::Overwritten
                        | Conflict::Contended
                        | Conflict::WrittenSince { .. }
                        | Conflict::ReadLater { .. }
                )
            };
            seen.gave_way = matches!(&why, Failure::Aborted(why) if another(why));
            seen.too_old = matches!(why, Failure::BelowHorizon { .. });
            seen.why = Some(why.to_string());
        }
        end(Status::Fail, None);
    };
    let Asked { consistency, token, snapshot_age, pipelined, .. } = asked;
    let how = Begin { consistency, token, snapshot_age, ..Begin::new(plan.mode) };
    let mut transaction = match database.begin(how).await {
        Ok(transaction) => transaction,
        Err(why) => return fail(why),
    };
    let timings = transaction.measure();
    let narrow = said(&mut *transaction, &plan);
    for step in plan.steps {
        if let Err(why) =
            take(&mut *transaction, &router, step, (plan.rows, pipelined), &seen).await
        {
            return fail(why);
        }
        if pipelined {
            transaction.send_writes().await;
        }
    }
    if let Some(mark) = plan.mark
        && let Err(why) = transaction.put(key(&format!("{MARK}{mark}")), Some(stored(&[mark])))
    {
        return fail(why);
    }
    // A transaction that only read counts as committed whatever the response, since only its reads
    // are judged.
    {
        let mut seen = seen.lock();
        (seen.committing, seen.token) = (true, transaction.token());
        seen.snapshot = transaction.read_at().filter(|_| plan.mode == Mode::ReadWrite);
    }
    let outcome = transaction.commit().await;
    if let Some(times) = timings.map(|timings| timings.times()) {
        let mut seen = seen.lock();
        seen.waited_ns = times.read_wait_ns + times.commit_wait_ns;
        (seen.timestamp_ns, seen.commit_ns) = (times.timestamp_ns, times.commit_ns);
    }
    if let Outcome::Committed { at } = outcome {
        let mut seen = seen.lock();
        seen.token = seen.token.max(at);
    }
    match outcome {
        Outcome::Committed { at } if narrow => {
            seen.lock().narrow = Some(at);
            end(Status::Ok, None);
        }
        Outcome::Committed { at } => end(Status::Ok, Some(at)),
        Outcome::Aborted { why } => fail(Failure::Aborted(why)),
        Outcome::Unknown => end(Status::Info, None),
    }
}

/// Declares the scope of a read of the present. Returns true if the transaction makes use of it.
fn said(transaction: &mut dyn Transaction, plan: &Plan) -> bool {
    if plan.mode != Mode::ReadOnly(ReadAt::Now) || plan.scope == Scope::Open {
        return false;
    }
    let range = |step: &Step| match step {
        Step::Read(name, _) => Some(KeyRange::point(key(name))),
        Step::Scan(low, high, _) => Some(between(low, high)),
        _ => None,
    };
    let hull = |all: KeyRange, one: KeyRange| KeyRange {
        start: all.start.min(one.start),
        end: all.end.zip(one.end).map(|(all, one)| all.max(one)),
    };
    let scope = plan.steps.iter().filter_map(range).reduce(hull);
    scope.is_some_and(|scope| transaction.reads_only_in(&scope, plan.scope == Scope::Negotiated))
}

async fn read(
    transaction: &mut dyn Transaction,
    name: &str,
    lock: Lock,
) -> Result<Option<Bytes>, Failure> {
    let key = key(name);
    transaction.get(&key, lock).await
}

/// Reads a register, and records the value.
async fn look(
    transaction: &mut dyn Transaction,
    name: &str,
    lock: Lock,
    seen: &Mutex<Seen>,
) -> Result<Option<i64>, Failure> {
    let found = read(transaction, name, lock).await?;
    let found = value(name, found.as_ref().map(|found| found.as_ref()));
    let number = if let Value::Number(number) = found { Some(number) } else { None };
    seen.lock().ops.push(Op::Read(name.to_owned(), found));
    Ok(number)
}

fn write(
    transaction: &mut dyn Transaction,
    name: String,
    number: Option<i64>,
    seen: &Mutex<Seen>,
) -> Result<(), Failure> {
    transaction.put(key(&name), number.map(|number| stored(&[number])))?;
    seen.lock().ops.push(Op::Write(name, number.map_or(Value::Nothing, Value::Number)));
    Ok(())
}

async fn scan(
    transaction: &mut dyn Transaction,
    (low, high): (String, String),
    (lock, reverse, limit): (Lock, bool, usize),
    seen: &Mutex<Seen>,
) -> Result<Vec<(String, Value)>, Failure> {
    let (mut rows, mut rest) = (Vec::new(), Some(between(&low, &high)));
    while let Some(range) = rest {
        let found = transaction.scan(&range, lock, reverse, limit).await?;
        rest = found.rest;
        for (key, bytes) in found.rows {
            let name = String::from_utf8_lossy(key.as_ref()).into_owned();
            let found = value(&name, Some(bytes.as_ref()));
            rows.push((name, found));
        }
    }
    seen.lock().ops.push(Op::Scan(low, high, rows.clone()));
    Ok(rows)
}

async fn take<D: RequestRouter>(
    transaction: &mut dyn Transaction,
    router: &Arc<D>,
    step: Step,
    (limit, pipelined): (usize, bool),
    seen: &Mutex<Seen>,
) -> Result<(), Failure> {
    match step {
        Step::Read(name, lock) => {
            look(transaction, &name, lock, seen).await?;
        }
        Step::Append(name, element) => {
            let found = read(transaction, &name, Lock::Exclusive).await?;
            let mut list = found.as_ref().map(|found| numbers(found)).unwrap_or_default();
            seen.lock().ops.push(Op::Read(name.clone(), Value::List(list.clone())));
            list.push(element);
            transaction.put(key(&name), Some(stored(&list)))?;
            seen.lock().ops.push(Op::Append(name, element));
        }
        Step::Write(name, number) => write(transaction, name, number, seen)?,
        Step::Scan(low, high, reverse) => {
            scan(transaction, (low, high), (Lock::Shared, reverse, limit), seen).await?;
        }
        Step::Move(from, to, amount) => {
            let has = look(transaction, &from, Lock::Exclusive, seen).await?.unwrap_or(OPENING);
            let other = look(transaction, &to, Lock::Exclusive, seen).await?.unwrap_or(OPENING);
            if has >= amount {
                write(transaction, from, Some(has - amount), seen)?;
                write(transaction, to, Some(other + amount), seen)?;
            }
        }
        Step::Increment(name) => {
            // Shared: two transactions that read the same number conflict when they write.
            let number = look(transaction, &name, Lock::Shared, seen).await?.unwrap_or(0);
            write(transaction, name, Some(number + 1), seen)?;
        }
        Step::Next(low, high, name) => {
            let rows = scan(transaction, (low, high), (Lock::Shared, false, limit), seen).await?;
            let number = |(_, value): &(String, Value)| {
                if let Value::Number(number) = value { *number } else { 0 }
            };
            let greatest = rows.iter().map(number).max().unwrap_or(0);
            write(transaction, name, Some(greatest + 1), seen)?;
        }
        Step::InsertUnless(low, high, name, number) => {
            if scan(transaction, (low, high), (Lock::Shared, false, limit), seen).await?.is_empty()
            {
                write(transaction, name, Some(number), seen)?;
            }
        }
        Step::Regret(name) => {
            let point = transaction.savepoint();
            transaction.put(key(&name), Some(stored(&[-1])))?;
            if pipelined {
                transaction.send_writes().await;
            }
            transaction.rollback_to(point);
        }
        Step::Think(pause_ns) => router.rest(pause_ns).await,
    }
    Ok(())
}
