//! The transaction of a session: its temporary objects over a transaction of the database.

use super::is_temporary;
use super::store::Temporary;
use crate::kv;
use meridian_clock::{Interval, Timestamp};
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_txn::{
    Age, AgeParts, Begin, Consistency, Database, Failure, Future, IsolationLevel, Lock, Locking,
    Mode, Outcome, Rows, Savepoint, SchemaVersion, Timings, Transaction,
};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

/// A transaction that reads and writes the temporary objects of its session, too.
pub(crate) struct Overlay {
    shared: Box<dyn Transaction>,
    temporary: Arc<Temporary>,
    /// The session's open transaction; `None` for one [beside](Overlay::beside) it.
    open: Option<Open>,
    /// The savepoints of the database's transaction, and the points of the store.
    savepoints: Vec<(Savepoint, usize)>,
    shows_versions: bool,
}

/// The open transaction of a session: rolled back when it is dropped.
struct Open {
    temporary: Arc<Temporary>,
    number: u64,
}

impl Open {
    fn commit(self) {
        self.temporary.end(self.number, true);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.temporary.end(self.number, false);
    }
}

impl Overlay {
    /// Begins the session's transaction. One that was not decided is rolled back.
    pub(crate) fn begin(shared: Box<dyn Transaction>, temporary: &Arc<Temporary>) -> Overlay {
        let mut overlay = Overlay::beside(shared, temporary);
        overlay.open = Some(Open { temporary: temporary.clone(), number: temporary.begin() });
        overlay
    }

    /// Begins a transaction beside that of the session. It sees the temporary objects as they are
    /// now; what it writes of them stays, whatever becomes of either.
    pub(crate) fn beside(shared: Box<dyn Transaction>, temporary: &Arc<Temporary>) -> Overlay {
        Overlay {
            shared,
            temporary: temporary.clone(),
            open: None,
            savepoints: Vec::new(),
            shows_versions: false,
        }
    }

    /// Adds the rows of the store to a chunk of the database.
    fn add_own(&self, range: &KeyRange, reverse: bool, limit_rows: usize, found: Rows) -> Rows {
        let part = covered(range, reverse, found.rest.as_ref());
        let own = self.temporary.scan(&part, reverse, limit_rows);
        self.shown(merge(range, reverse, limit_rows, found, own))
    }

    /// Gives rows of the store no timestamps, where rows have any.
    fn shown(&self, mut rows: Rows) -> Rows {
        match self.shows_versions {
            true => rows.at.resize(rows.rows.len(), None),
            false => rows.at.clear(),
        }
        rows
    }
}

/// Returns the part of a range that a chunk covers.
fn covered(range: &KeyRange, reverse: bool, rest: Option<&KeyRange>) -> KeyRange {
    match rest {
        None => range.clone(),
        Some(rest) if reverse => {
            KeyRange { start: rest.end.clone().unwrap_or_default(), ..range.clone() }
        }
        Some(rest) => KeyRange { end: Some(rest.start.clone()), ..range.clone() },
    }
}

/// Merges a chunk of a range with one of the store, of the part of the range that it covers.
fn merge(range: &KeyRange, reverse: bool, limit_rows: usize, found: Rows, own: Rows) -> Rows {
    let rest = match own.rest {
        // What the database has behind it is read again with the store's next chunk.
        Some(own) if reverse => Some(KeyRange { end: own.end, ..range.clone() }),
        Some(own) => Some(KeyRange { start: own.start, ..range.clone() }),
        None => found.rest,
    };
    let is_left = |key: &Key| rest.as_ref().is_some_and(|rest| rest.contains(key));
    let at = found.at.into_iter().chain(std::iter::repeat(None));
    let mut all: Vec<_> = found.rows.into_iter().zip(at).collect();
    all.retain(|((key, _), _)| !is_left(key));
    all.extend(own.rows.into_iter().map(|row| (row, None)));
    all.sort_by(|((a, _), _), ((b, _), _)| if reverse { b.cmp(a) } else { a.cmp(b) });
    let rest = match all.get(limit_rows) {
        Some(((next, _), _)) => Some(range.from_key(next, reverse)),
        None => rest,
    };
    all.truncate(limit_rows);
    let (rows, at) = all.into_iter().unzip();
    Rows { rows, at, rest }
}

impl Transaction for Overlay {
    fn mode(&self) -> Mode {
        self.shared.mode()
    }

    fn age(&self) -> Age {
        self.shared.age()
    }

    fn began(&self) -> Interval {
        self.shared.began()
    }

    fn read_at(&self) -> Option<Timestamp> {
        self.shared.read_at()
    }

    fn reads_apart(&self) -> bool {
        self.shared.reads_apart()
    }

    fn token(&self) -> Timestamp {
        self.shared.token()
    }

    fn get<'a>(
        &'a mut self,
        key: &'a Key,
        lock: Lock,
    ) -> Future<'a, Result<Option<Value>, Failure>> {
        match kv::is_temporary(key) {
            true => Box::pin(ready(Ok(self.temporary.get(key)))),
            false => self.shared.get(key, lock),
        }
    }

    fn get_many<'a>(
        &'a mut self,
        keys: &'a [Key],
        lock: Lock,
    ) -> Future<'a, Result<Vec<Option<Value>>, Failure>> {
        let shared = keys.iter().filter(|key| !kv::is_temporary(key));
        let shared: Vec<Key> = shared.cloned().collect();
        if shared.len() == keys.len() {
            return self.shared.get_many(keys, lock);
        }
        Box::pin(async move {
            // Together, as without the others: each round trip counts where names are looked up.
            let mut found = match shared.as_slice() {
                [] => Vec::new(),
                shared => self.shared.get_many(shared, lock).await?,
            }
            .into_iter();
            let value = |key: &Key| match kv::is_temporary(key) {
                true => self.temporary.get(key),
                false => found.next().flatten(),
            };
            Ok(keys.iter().map(value).collect())
        })
    }

    fn scan<'a>(
        &'a mut self,
        range: &'a KeyRange,
        lock: Lock,
        reverse: bool,
        limit_rows: usize,
    ) -> Future<'a, Result<Rows, Failure>> {
        if kv::is_all_temporary(range) {
            let found = self.temporary.scan(range, reverse, limit_rows);
            return Box::pin(ready(Ok(self.shown(found))));
        }
        if self.temporary.is_empty_in(range) {
            return self.shared.scan(range, lock, reverse, limit_rows);
        }
        Box::pin(async move {
            let found = self.shared.scan(range, lock, reverse, limit_rows).await?;
            Ok(self.add_own(range, reverse, limit_rows, found))
        })
    }

    fn keep(&mut self, key: &Key, value: &Value) -> Result<(), Failure> {
        if kv::is_temporary(key) { Ok(()) } else { self.shared.keep(key, value) }
    }

    fn keep_range(&mut self, range: KeyRange) {
        if !kv::is_all_temporary(&range) {
            self.shared.keep_range(range);
        }
    }

    fn kept_ranges(&self) -> Vec<KeyRange> {
        self.shared.kept_ranges()
    }

    fn lock_first(&mut self, ranges: Vec<KeyRange>) -> Future<'_, Result<(), Failure>> {
        self.shared.lock_first(ranges)
    }

    fn own(&mut self, range: KeyRange) {
        self.shared.own(range);
    }

    fn writes_alone(&mut self, range: KeyRange) {
        self.shared.writes_alone(range);
    }

    fn adopt(&mut self, commit: Timestamp) {
        self.shared.adopt(commit);
    }

    fn give_way(&mut self) {
        self.shared.give_way();
    }

    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        if kv::is_temporary(&key) {
            return self.temporary.put(key, value, self.open.is_some());
        }
        self.temporary.note_shared_write();
        self.shared.put(key, value)
    }

    fn send_writes(&mut self) -> Future<'_, ()> {
        self.shared.send_writes()
    }

    fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.shared.set_lock_timeout(timeout);
    }

    fn set_locking(&mut self, how: Locking) -> bool {
        self.shared.set_locking(how)
    }

    fn locking(&self) -> Locking {
        self.shared.locking()
    }

    fn set_consistency(&mut self, mode: Consistency) {
        self.shared.set_consistency(mode);
    }

    fn set_application(&mut self, name: &str) {
        self.shared.set_application(name);
    }

    fn measure(&mut self) -> Option<Arc<Timings>> {
        self.shared.measure()
    }

    fn show_versions(&mut self) {
        self.shows_versions = true;
        self.shared.show_versions();
    }

    fn reads_only_in(&mut self, scope: &KeyRange, negotiates: bool) -> bool {
        !kv::is_all_temporary(scope) && self.shared.reads_only_in(scope, negotiates)
    }

    fn planned_for(&mut self, schema: SchemaVersion) {
        if !is_temporary(schema.table) {
            self.shared.planned_for(schema);
        }
    }

    fn change_schema(&mut self, to: SchemaVersion, ranges: Vec<KeyRange>) -> Result<(), Failure> {
        if is_temporary(to.table) {
            return Ok(());
        }
        self.temporary.note_shared_write();
        self.shared.change_schema(to, ranges)
    }

    fn validate(&mut self) -> Future<'_, Result<(), Failure>> {
        self.shared.validate()
    }

    fn before_commit(&mut self) -> Future<'_, Result<(), Failure>> {
        self.shared.before_commit()
    }

    fn savepoint(&mut self) -> Savepoint {
        self.savepoints.push((self.shared.savepoint(), self.temporary.mark()));
        Savepoint(self.savepoints.len() - 1)
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        self.savepoints.truncate(savepoint.0 + 1);
        let Some((shared, mark)) = self.savepoints.last().copied() else { return };
        self.shared.rollback_to(shared);
        if let Some(open) = &self.open {
            self.temporary.roll_back(open.number, mark);
        }
    }

    fn commit(self: Box<Self>) -> Future<'static, Outcome> {
        let Overlay { shared, open, .. } = *self;
        Box::pin(async move {
            let outcome = shared.commit().await;
            if let (Outcome::Committed { .. }, Some(open)) = (&outcome, open) {
                open.commit();
            }
            outcome
        })
    }
}

/// A database whose transactions are [beside](Overlay::beside) that of a session.
pub(crate) struct Beside {
    shared: Arc<dyn Database>,
    temporary: Arc<Temporary>,
}

impl Beside {
    pub(crate) fn new(shared: Arc<dyn Database>, temporary: Arc<Temporary>) -> Beside {
        Beside { shared, temporary }
    }
}

impl Database for Beside {
    fn isolation(&self) -> IsolationLevel {
        self.shared.isolation()
    }

    fn consistency(&self) -> &'static [Consistency] {
        self.shared.consistency()
    }

    fn snapshot_age(&self) -> Option<AgeParts> {
        self.shared.snapshot_age()
    }

    fn sleep(&self, time: Duration) -> Future<'_, ()> {
        self.shared.sleep(time)
    }

    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        Box::pin(async move {
            let shared = self.shared.begin(how).await?;
            let overlay: Box<dyn Transaction> = Box::new(Overlay::beside(shared, &self.temporary));
            Ok(overlay)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a chunk of what there is of some keys in a range, as a scan does.
    fn chunk(of: &[u8], range: &KeyRange, reverse: bool, limit: usize) -> Rows {
        let mut keys: Vec<Key> = of.iter().map(|key| Key::from(vec![*key])).collect();
        keys.retain(|key| range.contains(key));
        if reverse {
            keys.reverse();
        }
        let rest = keys.get(limit).map(|next| range.from_key(next, reverse));
        let row = |key: Key| (key, Value::from("x"));
        Rows { rows: keys.into_iter().take(limit).map(row).collect(), at: Vec::new(), rest }
    }

    #[test]
    fn chunks_of_any_sizes_are_merged_to_the_rows_of_both_in_order() {
        let (shared, own) = ([1, 4, 5, 6, 9], [2, 3, 7, 8, 10, 11]);
        let range = KeyRange { start: vec![1].into(), end: Some(vec![11].into()) };
        for reverse in [false, true] {
            for (of_shared, of_own, limit) in
                [(1, 9, 9), (9, 1, 9), (2, 2, 9), (9, 9, 1), (1, 2, 2), (9, 3, 3), (9, 9, 9)]
            {
                let (mut seen, mut left) = (Vec::new(), Some(range.clone()));
                while let Some(range) = left {
                    let found = chunk(&shared, &range, reverse, of_shared.min(limit));
                    let part = covered(&range, reverse, found.rest.as_ref());
                    let own = chunk(&own, &part, reverse, of_own.min(limit));
                    let merged = merge(&range, reverse, limit, found, own);
                    assert!(merged.rows.len() <= limit);
                    seen.extend(merged.rows.iter().map(|(key, _)| key[0]));
                    left = merged.rest;
                }
                let mut all: Vec<u8> = (1..11).collect();
                if reverse {
                    all.reverse();
                }
                assert_eq!(seen, all, "{of_shared} {of_own} {limit} {reverse}");
            }
        }
    }
}
