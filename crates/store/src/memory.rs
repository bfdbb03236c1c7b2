//! The engine's twin in memory: a sorted map. Obviously right, and what the engine is compared with.

use meridian_clock::Timestamp;
use meridian_mvcc::{Batch, Key, KeyRange, Page, Snapshot, SpaceId, Store, StoreError, StoredVersion, Value, Version};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Versions = BTreeMap<(SpaceId, Key, Reverse<Timestamp>), Option<Value>>;

#[derive(Clone, Default)]
struct State {
    versions: Arc<Versions>,
    facts: BTreeMap<(SpaceId, String), Vec<u8>>,
}

/// A store that keeps everything in memory.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    checkpoint: Mutex<State>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a crash leaves: the last checkpoint.
    pub fn crash(&self) {
        *self.state() = self.checkpoint.lock().expect("a plain value").clone();
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("a plain value")
    }
}

impl Store for MemoryStore {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError> {
        Ok(Arc::new(View(Arc::clone(&self.state().versions))))
    }

    fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut state = self.state();
        let versions = Arc::make_mut(&mut state.versions);
        for StoredVersion { key, version } in batch.versions {
            versions.insert((batch.space, key, Reverse(version.at)), version.value);
        }
        for (key, at) in batch.removals {
            versions.remove(&(batch.space, key, Reverse(at)));
        }
        for (name, fact) in batch.facts {
            state.facts.insert((batch.space, name.to_owned()), fact);
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<(), StoreError> {
        *self.checkpoint.lock().expect("a plain value") = self.state().clone();
        Ok(())
    }

    fn fact(&self, space: SpaceId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state().facts.get(&(space, name.to_owned())).cloned())
    }

    fn drop_space(&self, space: SpaceId) -> Result<(), StoreError> {
        let mut state = self.state();
        Arc::make_mut(&mut state.versions).retain(|(owner, _, _), _| *owner != space);
        state.facts.retain(|(owner, _), _| *owner != space);
        Ok(())
    }
}

struct View(Arc<Versions>);

impl View {
    fn within(&self, space: SpaceId, range: &KeyRange) -> impl Iterator<Item = StoredVersion> {
        let start = (space, range.start.clone(), Reverse(Timestamp::MAX));
        let range = range.clone();
        self.0.range(start..).take_while(move |((owner, key, _), _)| *owner == space && range.contains(key)).map(
            |((_, key, at), value)| StoredVersion {
                key: key.clone(),
                version: Version { at: at.0, value: value.clone() },
            },
        )
    }
}

impl Snapshot for View {
    fn get(&self, space: SpaceId, key: &[u8], at: Timestamp) -> Result<Option<Version>, StoreError> {
        let found = self.within(space, &KeyRange::point(key.into())).find(|found| found.version.at <= at);
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
        let mut newest: Vec<StoredVersion> = Vec::new();
        for found in self.within(space, range).filter(|found| found.version.at <= at) {
            if newest.last().is_none_or(|last| last.key != found.key) {
                newest.push(found);
            }
        }
        if reverse {
            newest.reverse();
        }
        let mut bytes = 0;
        let fits = |found: &StoredVersion| {
            let before = bytes;
            bytes += found.key.len() + found.version.value.as_ref().map_or(0, |value| value.len()) + 16;
            before < limit_bytes.max(1)
        };
        let count = newest.iter().take(limit_keys).map(fits).take_while(|fits| *fits).count();
        let rest = newest.get(count).map(|next| range.from_key(&next.key, reverse));
        newest.truncate(count);
        Ok(Page { versions: newest, rest })
    }

    fn versions(&self, space: SpaceId, range: &KeyRange, limit_bytes: usize) -> Result<Page, StoreError> {
        let (mut page, mut bytes) = (Page::default(), 0);
        for found in self.within(space, range) {
            if bytes >= limit_bytes && page.versions.last().is_some_and(|last| last.key != found.key) {
                page.rest = Some(KeyRange { start: found.key, end: range.end.clone() });
                break;
            }
            bytes += found.key.len() + found.version.value.as_ref().map_or(0, |value| value.len()) + 16;
            page.versions.push(found);
        }
        Ok(page)
    }
}
