//! The place that the changes of a statement write to.
//!
//! A statement with one change writes to its transaction, once all its rows are known. If there are
//! several changes, each may read after another has written, and must not see that: then the writes
//! wait until the statement ends. Queries read the transaction, and only what writes rows (and
//! looks for their keys) sees the writes that wait.

use super::Key;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::memory::{Held, QueryMemory};
use crate::write::Store;
use crate::{kv, row};
use meridian_mvcc::Value;
use meridian_txn::{Age, Failure, Future, Transaction};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The memory of a write that waits, besides its key and value, in bytes.
const WRITE_BYTES: usize = 64;

/// A transaction, and the writes that wait.
pub(crate) struct Target<'t> {
    /// For reads, and for what functions write.
    pub(super) txn: &'t mut dyn Transaction,
    waiting: Option<Waiting>,
}

/// Writes that wait for the end of their statement.
struct Waiting {
    writes: BTreeMap<Key, Option<Value>>,
    /// Their size in bytes, and that for which memory is held.
    bytes: usize,
    accounted: usize,
    held: Held,
}

impl<'t> Target<'t> {
    /// Creates the target of the only change of a statement.
    pub(super) fn at_once(txn: &'t mut dyn Transaction) -> Self {
        Target { txn, waiting: None }
    }

    /// Creates the target of several changes.
    pub(super) fn at_the_end(txn: &'t mut dyn Transaction, memory: &Arc<QueryMemory>) -> Self {
        let (writes, held) = (BTreeMap::new(), Held::none(memory));
        Target { txn, waiting: Some(Waiting { writes, bytes: 0, accounted: 0, held }) }
    }

    /// True if another change of the statement has written the row of a key.
    pub(super) fn has_written(&self, key: &Key) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.writes.contains_key(key))
    }

    /// Takes memory for the writes since the last call.
    pub(super) fn account(&mut self) -> Result<(), SqlError> {
        let Some(waiting) = &mut self.waiting else { return Ok(()) };
        let more = waiting.bytes - waiting.accounted;
        waiting.accounted = waiting.bytes;
        waiting.held.add(more)
    }

    /// Locks a row and returns its values; `None` if it is not there.
    pub(super) async fn locked_row(
        &mut self,
        table: &Table,
        key: &Key,
    ) -> Result<Option<Vec<Datum>>, SqlError> {
        let Some(value) = self.read(key).await? else { return Ok(None) };
        let all = vec![true; table.columns.len()];
        row::decode(table, &key[kv::PREFIX..], &value, &all).map(Some)
    }

    /// Writes what waits, and returns the transaction.
    pub(super) fn finish(self) -> Result<&'t mut dyn Transaction, SqlError> {
        for (key, value) in self.waiting.into_iter().flat_map(|waiting| waiting.writes) {
            self.txn.put(key, value)?;
        }
        Ok(self.txn)
    }
}

impl Store for Target<'_> {
    fn age(&self) -> Age {
        self.txn.age()
    }

    fn read<'a>(&'a mut self, key: &'a Key) -> Future<'a, Result<Option<Value>, Failure>> {
        if let Some(value) = self.waiting.as_ref().and_then(|waiting| waiting.writes.get(key)) {
            return Box::pin(std::future::ready(Ok(value.clone())));
        }
        self.txn.read(key)
    }

    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        let Some(waiting) = &mut self.waiting else { return Store::put(self.txn, key, value) };
        let size = |value: &Option<Value>| value.as_ref().map_or(0, |value| value.len());
        waiting.bytes += size(&value);
        match waiting.writes.entry(key) {
            Entry::Occupied(mut known) => {
                let before = size(&known.insert(value));
                // What is accounted stays: only the size may not fall below it.
                waiting.bytes = (waiting.bytes - before).max(waiting.accounted);
            }
            Entry::Vacant(place) => {
                waiting.bytes += place.key().len() + WRITE_BYTES;
                place.insert(value);
            }
        }
        Ok(())
    }
}
