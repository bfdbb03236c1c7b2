//! The keys and values of a session's temporary objects, and the log of the open transaction.

use super::SCHEMA;
use crate::composite::ROW_ARRAY;
use crate::error::{SqlError, state};
use crate::kv;
use crate::memory::{Held, QueryMemory};
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_txn::{Failure, Rows};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The memory that a row takes besides its bytes, approximately.
const ROW_BYTES: usize = 128;
/// The memory that an entry of the log takes besides the bytes of its key and of the old value.
const ENTRY_BYTES: usize = 96;
/// The size of a chunk of a scan, in bytes.
const CHUNK_BYTES: usize = 1 << 20;

/// The temporary objects of a session.
pub(crate) struct Temporary {
    /// The name of the schema.
    schema: String,
    state: Mutex<State>,
    /// The number of writes of the session's transactions that went to the database.
    shared_writes: AtomicU64,
}

struct State {
    rows: BTreeMap<Key, Value>,
    held: Held,
    /// The number of the open transaction; of the last one, if none is open.
    transaction: u64,
    /// The old values of what the open transaction has written, in order.
    log: Vec<Undo>,
    last_id: u32,
    /// The last id before the transaction began, or before its newest savepoint: an entry of the
    /// log undoes all writes in the storages of later ids.
    old_until: u32,
    /// The number of changes of the catalog, rollbacks included.
    generation: u64,
}

/// An entry of the log.
enum Undo {
    /// The value that a key had.
    Write(Key, Option<Value>),
    /// Storage that is new: nothing is in it after a rollback.
    Storage(u32),
}

impl Undo {
    /// Returns the memory that it takes.
    fn weight(&self) -> usize {
        match self {
            Undo::Write(key, old) => {
                ENTRY_BYTES + key.len() + old.as_ref().map_or(0, |old| old.len())
            }
            Undo::Storage(_) => ENTRY_BYTES,
        }
    }
}

fn weight(key: &Key, value: &Value) -> usize {
    ROW_BYTES + key.len() + value.len()
}

impl Temporary {
    /// Creates the store of the session of a number.
    pub(crate) fn new(session: u64, memory: &Arc<QueryMemory>) -> Temporary {
        let state = State {
            rows: BTreeMap::new(),
            held: Held::none(memory),
            transaction: 0,
            log: Vec::new(),
            last_id: SCHEMA,
            old_until: SCHEMA,
            generation: 0,
        };
        let schema = format!("pg_temp_{session}");
        Temporary { schema, state: Mutex::new(state), shared_writes: AtomicU64::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of the schema.
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// Returns the number of changes of the temporary catalog so far: plans hold for one.
    pub(crate) fn generation(&self) -> u64 {
        self.state().generation
    }

    /// Returns the number of writes of the session that went to the database so far.
    pub(crate) fn shared_writes(&self) -> u64 {
        self.shared_writes.load(Ordering::Relaxed)
    }

    /// Counts a write that goes to the database.
    pub(super) fn note_shared_write(&self) {
        self.shared_writes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the next id of a temporary object or storage. The storage is empty, also after a
    /// rollback of the open transaction.
    pub(crate) fn next_id(&self) -> Result<u32, SqlError> {
        let mut state = self.state();
        let next = state.last_id.checked_add(1).filter(|id| *id < SCHEMA + ROW_ARRAY);
        let used_up = "all ids of temporary objects of this session are used up";
        state.last_id = next.ok_or_else(|| SqlError::new(state::TOO_LARGE, used_up))?;
        let id = state.last_id;
        state.log_entry(Undo::Storage(id))?;
        Ok(id)
    }

    /// Begins a transaction, and returns its number. One that was not decided is rolled back.
    pub(super) fn begin(&self) -> u64 {
        let mut state = self.state();
        state.undo(0);
        state.transaction += 1;
        state.old_until = state.last_id;
        state.transaction
    }

    /// Ends a transaction, unless another one has begun.
    pub(super) fn end(&self, transaction: u64, committed: bool) {
        let mut state = self.state();
        if state.transaction != transaction {
            return;
        }
        if committed {
            state.forget_log();
            state.erase_dropped();
        } else {
            state.undo(0);
        }
        state.held.trim();
    }

    /// Returns a point to [roll back to](Temporary::roll_back).
    pub(super) fn mark(&self) -> usize {
        let mut state = self.state();
        state.old_until = state.last_id;
        state.log.len()
    }

    /// True if the open transaction has written something that a rollback undoes.
    pub(crate) fn has_written(&self) -> bool {
        !self.state().log.is_empty()
    }

    /// Undoes the writes of a transaction since a point.
    pub(super) fn roll_back(&self, transaction: u64, mark: usize) {
        let mut state = self.state();
        if state.transaction == transaction {
            state.undo(mark);
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Value> {
        self.state().rows.get(key).cloned()
    }

    /// True if there is no row in a range.
    pub(super) fn is_empty_in(&self, range: &KeyRange) -> bool {
        self.state().rows.range(bounds(range)).next().is_none()
    }

    /// Reads a chunk of a range, as [`meridian_txn::Transaction::scan`] does.
    pub(super) fn scan(&self, range: &KeyRange, reverse: bool, limit_rows: usize) -> Rows {
        let state = self.state();
        let found = state.rows.range(bounds(range));
        if reverse {
            chunk(found.rev(), range, true, limit_rows)
        } else {
            chunk(found, range, false, limit_rows)
        }
    }

    /// Writes a value, or removes it. `logged`: a rollback of the open transaction undoes it. Fails
    /// without memory.
    pub(crate) fn put(&self, key: Key, value: Option<Value>, logged: bool) -> Result<(), Failure> {
        let mut state = self.state();
        let limit_bytes = state.held.limit_bytes() as u64;
        state.put(key, value, logged).map_err(|_| Failure::OutOfMemory { limit_bytes })
    }

    /// Removes all rows of a range; a rollback undoes it.
    pub(crate) fn erase(&self, range: &KeyRange) -> Result<(), SqlError> {
        let mut state = self.state();
        state.keys_in(range).into_iter().try_for_each(|key| state.put(key, None, true))
    }

    /// Removes all objects; a rollback of the open transaction undoes it.
    pub(crate) fn clear(&self) -> Result<(), SqlError> {
        self.erase(&KeyRange::all())
    }

    /// Removes all objects, outside of a transaction.
    pub(crate) fn discard(&self) -> Result<(), SqlError> {
        let transaction = self.begin();
        let cleared = self.clear();
        self.end(transaction, cleared.is_ok());
        cleared
    }
}

impl Default for Temporary {
    fn default() -> Self {
        Temporary::new(0, &Arc::default())
    }
}

impl State {
    fn keys_in(&self, range: &KeyRange) -> Vec<Key> {
        self.rows.range(bounds(range)).map(|(key, _)| key.clone()).collect()
    }

    fn log_entry(&mut self, entry: Undo) -> Result<(), SqlError> {
        self.take(entry.weight())?;
        self.log.push(entry);
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<(), SqlError> {
        self.held.add(bytes).inspect_err(|_| self.held.free(bytes))
    }

    fn put(&mut self, key: Key, value: Option<Value>, logged: bool) -> Result<(), SqlError> {
        if let Some(value) = &value {
            self.take(weight(&key, value))?;
        }
        let is_new = kv::storage_of(&key).is_some_and(|id| id > self.old_until);
        if logged && !is_new {
            let old = self.rows.get(&key).cloned();
            if let Err(error) = self.log_entry(Undo::Write(key.clone(), old)) {
                let taken = value.as_ref().map_or(0, |value| weight(&key, value));
                self.held.free(taken);
                return Err(error);
            }
        }
        self.replace(key, value);
        Ok(())
    }

    /// Sets a value for which memory is taken, and frees that of the old one.
    fn replace(&mut self, key: Key, value: Option<Value>) {
        self.generation += u64::from(kv::is_of_catalog(&key));
        let old = match value {
            Some(value) => self.rows.insert(key.clone(), value),
            None => self.rows.remove(&key),
        };
        if let Some(old) = old {
            self.held.free(weight(&key, &old));
        }
    }

    /// Undoes the log down to a length.
    fn undo(&mut self, mark: usize) {
        while self.log.len() > mark {
            let Some(entry) = self.log.pop() else { return };
            self.held.free(entry.weight());
            match entry {
                Undo::Write(key, old) => {
                    if let Some(old) = &old {
                        self.held.retake(weight(&key, old));
                    }
                    self.replace(key, old);
                }
                Undo::Storage(id) => self.erase_storage(id),
            }
        }
    }

    fn forget_log(&mut self) {
        let bytes = self.log.iter().map(Undo::weight).sum();
        self.held.free(bytes);
        self.log.clear();
    }

    fn erase_storage(&mut self, id: u32) {
        let keys = self.keys_in(&kv::prefix_range(&kv::storage_prefix(id)));
        keys.into_iter().for_each(|key| self.replace(key, None));
    }

    /// Erases the storages that committed transactions have dropped.
    fn erase_dropped(&mut self) {
        for note in self.keys_in(&kv::prefix_range(&kv::DROPPED)) {
            if let Some(id) = note.last_chunk() {
                self.erase_storage(u32::from_be_bytes(*id));
            }
            if let Some(value) = self.rows.remove(&note) {
                self.held.free(weight(&note, &value));
            }
        }
    }
}

fn bounds(range: &KeyRange) -> (Bound<Key>, Bound<Key>) {
    let start = range.start.clone();
    match &range.end {
        // A range that ends before it begins is empty.
        Some(end) if *end <= start => (Bound::Included(start.clone()), Bound::Excluded(start)),
        Some(end) => (Bound::Included(start), Bound::Excluded(end.clone())),
        None => (Bound::Included(start), Bound::Unbounded),
    }
}

fn chunk<'r>(
    found: impl Iterator<Item = (&'r Key, &'r Value)>,
    range: &KeyRange,
    reverse: bool,
    limit_rows: usize,
) -> Rows {
    let (mut rows, mut bytes, mut found) = (Vec::new(), 0, found.peekable());
    while rows.len() < limit_rows && bytes < CHUNK_BYTES {
        let Some((key, value)) = found.next() else { break };
        bytes += key.len() + value.len();
        rows.push((key.clone(), value.clone()));
    }
    let rest = found.peek().map(|(next, _)| range.from_key(next, reverse));
    Rows { rows, at: Vec::new(), rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(storage: u32, row: u8) -> Key {
        kv::to_key([kv::storage_prefix(SCHEMA + storage), vec![row]].concat())
    }

    /// Creates a store with storages of the ids up to 9.
    fn store() -> Temporary {
        let store = Temporary::default();
        let open = store.begin();
        for _ in 0..9 {
            store.next_id().expect("an id");
        }
        store.end(open, true);
        store
    }

    fn put(store: &Temporary, key: Key, value: &str) {
        store.put(key, Some(value.into()), true).expect("room");
    }

    #[test]
    fn a_rollback_restores_what_was() {
        let store = store();
        let first = store.begin();
        put(&store, key(1, 1), "a");
        store.end(first, true);
        let second = store.begin();
        put(&store, key(1, 1), "b");
        let mark = store.mark();
        put(&store, key(1, 1), "c");
        put(&store, key(1, 2), "d");
        store.roll_back(second, mark);
        assert_eq!(store.get(&key(1, 1)), Some("b".into()));
        store.end(first, true);
        store.end(second, false);
        assert_eq!(store.get(&key(1, 1)), Some("a".into()), "the first had ended before");
        assert_eq!(store.get(&key(1, 2)), None);
    }

    #[test]
    fn a_transaction_that_begins_rolls_back_one_that_was_left() {
        let store = store();
        let left = store.begin();
        put(&store, key(1, 1), "a");
        let next = store.begin();
        assert_eq!(store.get(&key(1, 1)), None);
        put(&store, key(1, 1), "b");
        store.end(left, false);
        store.end(next, true);
        assert_eq!(store.get(&key(1, 1)), Some("b".into()));
    }

    #[test]
    fn storages_end_with_their_transactions_and_when_they_are_dropped() {
        let store = store();
        let open = store.begin();
        let id = store.next_id().expect("an id");
        store.put(key(id - SCHEMA, 1), Some("a".into()), false).expect("room");
        store.end(open, false);
        assert_eq!(store.get(&key(id - SCHEMA, 1)), None);
        let open = store.begin();
        put(&store, key(7, 1), "a");
        put(&store, kv::dropped_key(SCHEMA + 7), "");
        store.end(open, true);
        assert!(store.is_empty_in(&KeyRange::all()));
    }

    #[test]
    fn rows_of_new_storages_need_no_log() {
        let store = store();
        let open = store.begin();
        let first = store.next_id().expect("an id") - SCHEMA;
        put(&store, key(first, 1), "a");
        let mark = store.mark();
        put(&store, key(first, 1), "b");
        let second = store.next_id().expect("an id") - SCHEMA;
        put(&store, key(second, 1), "c");
        assert_eq!(store.mark(), 3, "two storages, and a write since the savepoint");
        store.roll_back(open, mark);
        assert_eq!(store.get(&key(first, 1)), Some("a".into()));
        assert_eq!(store.get(&key(second, 1)), None);
        store.end(open, false);
        assert!(store.is_empty_in(&KeyRange::all()));
    }

    #[test]
    fn memory_is_limited_and_given_back() {
        let memory = Arc::new(QueryMemory::of(1 << 20));
        let store = Temporary::new(1, &memory);
        store.next_id().expect("an id");
        let open = store.begin();
        let large = Value::from(vec![0; 300 << 10]);
        let write = |row| store.put(key(1, row), Some(large.clone()), true);
        let written = (0..9).take_while(|row| write(*row).is_ok()).count();
        assert_eq!(written, 3);
        store.end(open, false);
        assert!(memory.held_bytes() < 100 << 10);
        drop(store);
        assert_eq!(memory.held_bytes(), 0);
    }

    #[test]
    fn the_log_takes_memory_for_keys() {
        let memory = Arc::new(QueryMemory::of(1 << 20));
        let store = Temporary::new(1, &memory);
        let open = store.begin();
        let long = |row: u8| kv::to_key([vec![1, 4, 0x40], vec![row; 100 << 10]].concat());
        let written = (0..9).take_while(|row| store.put(long(*row), None, true).is_ok()).count();
        assert_eq!(written, 9);
        assert!(memory.held_bytes() >= 900 << 10, "{}", memory.held_bytes());
        assert!(store.put(long(9), None, true).is_ok());
        assert!(store.put(long(10), None, true).is_err());
        store.end(open, false);
        assert!(memory.held_bytes() < 100 << 10);
    }

    #[test]
    fn a_scan_goes_on_behind_its_chunk_in_both_directions() {
        let store = store();
        (0..5).for_each(|row| put(&store, key(1, row), "x"));
        for reverse in [false, true] {
            let mut rest = Some(kv::prefix_range(&kv::storage_prefix(SCHEMA + 1)));
            let mut seen = Vec::new();
            while let Some(range) = rest {
                let chunk = store.scan(&range, reverse, 2);
                seen.extend(chunk.rows.iter().filter_map(|(key, _)| key.last().copied()));
                rest = chunk.rest;
            }
            let mut wanted = vec![0, 1, 2, 3, 4];
            if reverse {
                wanted.reverse();
            }
            assert_eq!(seen, wanted);
        }
    }
}
