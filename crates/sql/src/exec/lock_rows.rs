//! Locks the rows of tables that a query's rows are made of: above its joins, so that only rows
//! that are returned are locked.
//!
//! What the input reads, it reads under shared locks (or as the protocol reads otherwise: at a
//! snapshot, or validated when the transaction commits), so that a row is the same once its lock is
//! acquired.
//!
//! With SKIP LOCKED the input reads without locks, and its rows only name candidates. The rows of
//! tables of each candidate are locked at once, or the candidate is left out. Then the input runs
//! again, with shared locks, over these rows of the tables alone: what it returns is true. Each
//! candidate takes one of these rows, in their order, so that the candidates' order holds, and
//! what is counted above: a candidate that finds none left is left out.

use super::{CHUNK_ROWS, Context, Operator, Row, start};
use crate::bind::{OnLocked, Strength};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::kv;
use crate::logical::ColumnId;
use crate::memory::weight;
use crate::physical::{LockedTable, Node, Op};
use meridian_mvcc::{Key, Value};
use meridian_txn::{Failure, Future, Locking};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// The rows of tables that the scans of a running query read alone, by the column of their keys.
pub(super) type Pins = BTreeMap<ColumnId, (Key, Value)>;

/// The memory of a key of a candidate, besides its bytes.
const KEY_BYTES: usize = 48;

/// The rows of the input that could be locked.
pub(super) struct LockRows {
    input: Box<dyn Operator>,
    plan: Arc<Node>,
    /// By the keys of the candidates so far, the rows that are made of these rows of tables and
    /// that no candidate has taken yet: none if they could not be locked.
    made: HashMap<Vec<Key>, VecDeque<Row>>,
}

impl LockRows {
    pub(super) fn new(input: Box<dyn Operator>, plan: Arc<Node>) -> Self {
        LockRows { input, plan, made: HashMap::new() }
    }

    /// Returns the next rows, which the locks wait for.
    async fn wait(
        &mut self,
        tables: &[LockedTable],
        cx: &mut Context<'_>,
        want: usize,
    ) -> Result<Vec<Row>, SqlError> {
        let rows = self.input.next(cx, want).await?;
        for table in tables {
            let mut keys: Vec<Key> = rows.iter().filter_map(|row| key_of(row, table)).collect();
            keys.sort_unstable();
            keys.dedup();
            lock(&keys, table, cx).await?;
        }
        Ok(rows)
    }

    /// Returns rows of the next candidates that can be locked.
    async fn skip(
        &mut self,
        input: &Arc<Node>,
        tables: &[LockedTable],
        cx: &mut Context<'_>,
        want: usize,
    ) -> Result<Vec<Row>, SqlError> {
        let mut rows = Vec::new();
        while rows.is_empty() {
            let before = cx.lock_as(Locking::None)?;
            let found = self.input.next(cx, want).await;
            cx.lock_as(before)?;
            let found = found?;
            if found.is_empty() {
                break;
            }
            for candidate in found {
                let keys: Vec<Key> =
                    tables.iter().filter_map(|table| key_of(&candidate, table)).collect();
                if keys.len() < tables.len() {
                    continue;
                }
                if !self.made.contains_key(&keys) {
                    cx.state.held.add(keys.iter().map(|key| KEY_BYTES + key.len()).sum())?;
                    let made = match pins(tables, &keys, cx).await? {
                        Some(pins) => again(input, pins, cx).await?,
                        None => VecDeque::new(),
                    };
                    self.made.insert(keys.clone(), made);
                }
                if let Some(row) = self.made.get_mut(&keys).and_then(VecDeque::pop_front) {
                    cx.state.held.free(weight(&row));
                    rows.push(row);
                }
            }
        }
        Ok(rows)
    }
}

/// Locks the rows of a candidate; `None` if one of them is locked, or gone.
async fn pins(
    tables: &[LockedTable],
    keys: &[Key],
    cx: &mut Context<'_>,
) -> Result<Option<Pins>, SqlError> {
    let mut pins = Pins::new();
    for (table, key) in tables.iter().zip(keys) {
        match lock(std::slice::from_ref(key), table, cx).await?.pop() {
            Some(value) => _ = pins.insert(table.of, (key.clone(), value)),
            None => return Ok(None),
        }
    }
    Ok(Some(pins))
}

/// Returns the rows of an input that are made of some rows of tables.
async fn again(
    input: &Arc<Node>,
    pins: Pins,
    cx: &mut Context<'_>,
) -> Result<VecDeque<Row>, SqlError> {
    // The joins of the candidates go on behind it.
    let (outside, params) = (cx.state.pins.clone(), cx.state.params.clone());
    cx.state.pins.extend(pins);
    let before = cx.lock_as(Locking::Wait)?;
    let made = all(input, cx).await;
    cx.lock_as(before)?;
    (cx.state.pins, cx.state.params) = (outside, params);
    made
}

/// Returns all rows of an input, for which memory is held.
async fn all(input: &Arc<Node>, cx: &mut Context<'_>) -> Result<VecDeque<Row>, SqlError> {
    let (mut rows, mut running) = (VecDeque::new(), start(input, false));
    loop {
        let more = running.next(cx, CHUNK_ROWS).await?;
        if more.is_empty() {
            return Ok(rows);
        }
        cx.state.held.add(more.iter().map(|row| weight(row)).sum())?;
        cx.pause(more.len()).await;
        rows.extend(more);
    }
}

/// Returns the key of a table's row that a row is made of.
fn key_of(row: &[Datum], table: &LockedTable) -> Option<Key> {
    match row.get(table.key) {
        Some(Datum::Bytes(key)) => Some(kv::to_key(key.to_vec())),
        _ => None,
    }
}

/// Locks rows of a table, and returns those that are there; none with SKIP LOCKED, if one of them
/// is locked.
async fn lock(
    keys: &[Key],
    table: &LockedTable,
    cx: &mut Context<'_>,
) -> Result<Vec<Value>, SqlError> {
    let LockedTable { strength, on_locked, .. } = *table;
    let before = match on_locked {
        OnLocked::Wait => cx.lock_as(Locking::Wait)?,
        OnLocked::Fail | OnLocked::Skip => cx.lock_as(Locking::NoWait)?,
    };
    let found = cx.txn.get_many(keys, Strength::lock(strength)).await;
    cx.lock_as(before)?;
    let found = match found {
        Err(Failure::Locked) if on_locked == OnLocked::Skip => return Ok(Vec::new()),
        found => found?,
    };
    for (key, value) in keys.iter().zip(&found) {
        if let Some(value) = value {
            // It stays as it is until the transaction has committed, under every protocol.
            cx.txn.keep(key, value)?;
        }
    }
    Ok(found.into_iter().flatten().collect())
}

impl Operator for LockRows {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let plan = self.plan.clone();
            let Op::LockRows { input, tables } = &plan.op else { return Ok(Vec::new()) };
            match tables.iter().any(|table| table.on_locked == OnLocked::Skip) {
                true => self.skip(input, tables, cx, want).await,
                false => self.wait(tables, cx, want).await,
            }
        })
    }
}
