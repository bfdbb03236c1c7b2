//! The engine's counterpart in memory: a sorted map. It is simple, and tests compare the engine
//! with it.
//!
//! The map is persistent in the functional sense: a view or checkpoint shares with it whatever
//! later batches leave alone.

use imbl::OrdMap;
use meridian_clock::Timestamp;
use meridian_mvcc::{
    Batch, Cursor, Key, KeyRange, Page, Snapshot, SpaceId, Store, StoreError, StoredVersion, Value,
    Version,
};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};
use std::sync::{Arc, Mutex};

type Versions = OrdMap<(SpaceId, Key, Reverse<Timestamp>), Option<Value>>;

#[derive(Clone, Default)]
struct State {
    versions: Versions,
    facts: BTreeMap<(SpaceId, String), Vec<u8>>,
}

/// A store that keeps everything in memory.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    checkpoint: Mutex<State>,
}

impl MemoryStore {
    /// Returns an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Simulates a crash, which leaves the last checkpoint.
    pub fn crash(&self) {
        *self.state() = self.checkpoint.lock().expect("a plain value").clone();
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("a plain value")
    }
}

impl Store for MemoryStore {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError> {
        Ok(Arc::new(MemoryView(self.state().versions.clone())))
    }

    fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut state = self.state();
        let versions = &mut state.versions;
        for StoredVersion { key, version } in batch.versions {
            versions.insert((batch.space, key, Reverse(version.at)), version.value);
        }
        for (key, at) in batch.removals {
            versions.remove(&(batch.space, key, Reverse(at)));
        }
        for (space, name, fact) in batch.facts {
            state.facts.insert((space, name.to_owned()), fact);
        }
        Ok(())
    }

    fn apply_durably(&self, batch: Batch) -> Result<(), StoreError> {
        self.apply(batch)?;
        self.checkpoint()
    }

    fn checkpoint(&self) -> Result<(), StoreError> {
        *self.checkpoint.lock().expect("a plain value") = self.state().clone();
        Ok(())
    }

    fn fact(&self, space: SpaceId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state().facts.get(&(space, name.to_owned())).cloned())
    }

    fn drop_spaces(&self, spaces: RangeInclusive<SpaceId>) -> Result<(), StoreError> {
        let mut state = self.state();
        let all = (*spaces.start(), Key::default(), Reverse(Timestamp::MAX))..;
        let of_spaces = state
            .versions
            .range(all)
            .map(|(key, _)| key.clone())
            .take_while(|(owner, _, _)| spaces.contains(owner));
        for key in of_spaces.collect::<Vec<_>>() {
            state.versions.remove(&key);
        }
        state.facts.retain(|(owner, _), _| !spaces.contains(owner));
        Ok(())
    }
}

struct MemoryView(Versions);

/// Returns the space after this one, or `None` after the last.
fn after(space: SpaceId) -> Option<SpaceId> {
    let SpaceId { database, shard, copy } = space;
    let carry = |database: u32, shard: u32| SpaceId { database, shard, copy: 0 };
    copy.checked_add(1)
        .map(|copy| SpaceId { copy, ..space })
        .or_else(|| Some(carry(database, shard.checked_add(1)?)))
        .or_else(|| Some(carry(database.checked_add(1)?, 0)))
}

impl MemoryView {
    /// Returns the versions of a range, in key order and newest first within a key, or in the
    /// reverse order.
    fn within(
        &self,
        space: SpaceId,
        range: &KeyRange,
        reverse: bool,
    ) -> impl Iterator<Item = StoredVersion> {
        let first = |space: SpaceId, key: Key| (space, key, Reverse(Timestamp::MAX));
        let start = Bound::Included(first(space, range.start.clone()));
        let end = match &range.end {
            Some(end) => Bound::Excluded(first(space, end.clone().max(range.start.clone()))),
            None => after(space)
                .map_or(Bound::Unbounded, |next| Bound::Excluded(first(next, Key::default()))),
        };
        let mut found = self.0.range((start, end));
        std::iter::from_fn(move || if reverse { found.next_back() } else { found.next() }).map(
            |((_, key, at), value)| StoredVersion {
                key: key.clone(),
                version: Version { at: at.0, value: value.clone() },
            },
        )
    }
}

fn size(found: &StoredVersion) -> usize {
    found.key.len() + found.version.value.as_ref().map_or(0, |value| value.len()) + 16
}

impl Snapshot for MemoryView {
    fn get(
        &self,
        space: SpaceId,
        key: &[u8],
        at: Timestamp,
    ) -> Result<Option<Version>, StoreError> {
        let found = self
            .within(space, &KeyRange::point(key.into()), false)
            .find(|found| found.version.at <= at);
        Ok(found.map(|found| found.version))
    }

    fn scan(
        &self,
        space: SpaceId,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_keys: usize,
        limit_bytes: usize,
    ) -> Result<Page, StoreError> {
        let (mut page, mut bytes) = (Page::default(), 0);
        for found in self.within(space, range, reverse).filter(|found| found.version.at <= at) {
            let full = page.versions.len() >= limit_keys || bytes >= limit_bytes.max(1);
            match page.versions.last_mut() {
                // In reverse order, later versions of a key are newer.
                Some(last) if last.key == found.key && reverse => {
                    bytes = bytes + size(&found) - size(last);
                    *last = found;
                }
                Some(last) if last.key == found.key => {}
                _ if full => {
                    page.rest = Some(range.from_key(&found.key, reverse));
                    break;
                }
                _ => {
                    bytes += size(&found);
                    page.versions.push(found);
                }
            }
        }
        Ok(page)
    }

    fn versions(
        &self,
        space: SpaceId,
        range: &KeyRange,
        limit_bytes: usize,
    ) -> Result<Page, StoreError> {
        let (mut page, mut bytes) = (Page::default(), 0);
        for found in self.within(space, range, false) {
            if bytes >= limit_bytes
                && page.versions.last().is_some_and(|last| last.key != found.key)
            {
                page.rest = Some(KeyRange { start: found.key, end: range.end.clone() });
                break;
            }
            bytes += size(&found);
            page.versions.push(found);
        }
        Ok(page)
    }

    fn history(
        &self,
        space: SpaceId,
        from: &Cursor,
        limit_bytes: usize,
    ) -> Result<(Vec<StoredVersion>, Option<Cursor>), StoreError> {
        let (mut versions, mut bytes) = (Vec::<StoredVersion>::new(), 0);
        let before = |found: &StoredVersion| {
            found.key == from.range.start
                && from.below.is_some_and(|below| found.version.at >= below)
        };
        for found in self.within(space, &from.range, false).skip_while(before) {
            if let Some(last) = versions.last().filter(|_| bytes >= limit_bytes.max(1)) {
                let below = (last.key == found.key).then_some(last.version.at);
                let range = KeyRange { start: found.key, end: from.range.end.clone() };
                return Ok((versions, Some(Cursor { range, below })));
            }
            bytes += size(&found);
            versions.push(found);
        }
        Ok((versions, None))
    }
}
