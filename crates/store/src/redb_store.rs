//! Versions in one redb file over a `Disk`.

use crate::version_key::{self, VersionKey};
use meridian_clock::Timestamp;
use meridian_log::{Disk, File};
use meridian_mvcc::{Batch, Key, KeyRange, Page, Snapshot, SpaceId, Store, StoreError, StoredVersion, Value, Version};
use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

const VERSIONS: TableDefinition<VersionKey, &[u8]> = TableDefinition::new("versions");
const FACTS: TableDefinition<(u64, &str), &[u8]> = TableDefinition::new("facts");
/// The one file.
const FILE: &str = "store.redb";

/// redb's storage backend over a `Disk`'s file.
struct Backend(Arc<dyn File>);

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(FILE)
    }
}

impl redb::StorageBackend for Backend {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read_at(offset, out)
    }
    fn set_len(&self, length: u64) -> std::io::Result<()> {
        self.0.set_len(length)
    }
    fn sync_data(&self) -> std::io::Result<()> {
        self.0.sync()
    }
    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write_at(offset, data)
    }
}

/// The store engine.
pub struct RedbStore {
    database: Database,
    file: String,
    /// The view that readers share until the next batch: beginning a read costs more than a look-up.
    view: Mutex<Option<Arc<View>>>,
}

struct View {
    versions: ReadOnlyTable<VersionKey, &'static [u8]>,
    file: String,
}

impl RedbStore {
    /// Opens the store of a disk, or makes an empty one. `cache_bytes` bounds the pages kept in memory.
    pub fn open(disk: &dyn Disk, cache_bytes: usize) -> Result<Self, StoreError> {
        let file = disk.describe(FILE);
        let handle =
            disk.open(FILE).map_err(|error| StoreError::Disk { file: file.clone(), what: error.to_string() })?;
        let damaged = |error: &dyn std::fmt::Display| StoreError::Damaged {
            file: file.clone(),
            what: format!(
                "{error}. Nothing was repaired or removed: restore the file from a backup, or start this node with an empty data \
                 directory and let it catch up from the others"
            ),
        };
        let database = Database::builder()
            .set_cache_size(cache_bytes)
            .create_with_backend(Backend(handle))
            .map_err(|error| damaged(&error))?;
        let store = RedbStore { database, file: file.clone(), view: Mutex::new(None) };
        store.write(Durability::Immediate, |write| {
            write.open_table(VERSIONS)?;
            write.open_table(FACTS)?;
            Ok(())
        })?;
        Ok(store)
    }

    fn failure(&self, error: redb::Error) -> StoreError {
        failure(&self.file, error)
    }

    fn write(
        &self,
        durability: Durability,
        step: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        let run = || -> Result<(), redb::Error> {
            let mut write = self.database.begin_write()?;
            write.set_durability(durability)?;
            step(&write)?;
            write.commit()?;
            Ok(())
        };
        run().map_err(|error| self.failure(error))?;
        *self.view.lock().expect("no reader panics while it holds the view") = None;
        Ok(())
    }
}

fn failure(file: &str, error: redb::Error) -> StoreError {
    let file = file.to_owned();
    match error {
        redb::Error::Io(error) if error.kind() == std::io::ErrorKind::StorageFull => StoreError::Full { file },
        redb::Error::Corrupted(what) => StoreError::Damaged { file, what },
        other => StoreError::Disk { file, what: other.to_string() },
    }
}

fn space_number(space: SpaceId) -> u64 {
    (u64::from(space.database) << 32) | u64::from(space.shard)
}

impl Store for RedbStore {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError> {
        let mut view = self.view.lock().expect("no reader panics while it holds the view");
        if let Some(view) = &*view {
            return Ok(view.clone());
        }
        let open = || -> Result<_, redb::Error> { Ok(self.database.begin_read()?.open_table(VERSIONS)?) };
        let versions = open().map_err(|error| self.failure(error))?;
        let fresh = Arc::new(View { versions, file: self.file.clone() });
        *view = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.write(Durability::None, |write| {
            let mut versions = write.open_table(VERSIONS)?;
            let mut value = Vec::new();
            for found in &batch.versions {
                let key = version_key::encode(batch.space, &found.key, found.version.at);
                value.clear();
                if let Some(bytes) = &found.version.value {
                    value.push(1);
                    value.extend_from_slice(bytes);
                }
                versions.insert(&*key, &*value)?;
            }
            for (key, at) in &batch.removals {
                versions.remove(&*version_key::encode(batch.space, key, *at))?;
            }
            let mut facts = write.open_table(FACTS)?;
            for (name, fact) in &batch.facts {
                facts.insert((space_number(batch.space), *name), &**fact)?;
            }
            Ok(())
        })
    }

    fn checkpoint(&self) -> Result<(), StoreError> {
        self.write(Durability::Immediate, |_| Ok(()))
    }

    fn fact(&self, space: SpaceId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let look = || -> Result<_, redb::Error> {
            let facts = self.database.begin_read()?.open_table(FACTS)?;
            Ok(facts.get((space_number(space), name))?.map(|fact| fact.value().to_vec()))
        };
        look().map_err(|error| self.failure(error))
    }

    fn drop_space(&self, space: SpaceId) -> Result<(), StoreError> {
        self.write(Durability::None, |write| {
            let mut versions = write.open_table(VERSIONS)?;
            versions.retain(|key, _| version_key::space(key) != Some(space))?;
            let mut facts = write.open_table(FACTS)?;
            facts.retain(|(number, _), _| number != space_number(space))?;
            Ok(())
        })
    }
}

fn value(bytes: &[u8]) -> Option<Value> {
    bytes.split_first().map(|(_, value)| Value::from(value))
}

impl View {
    fn failure(&self, error: redb::StorageError) -> StoreError {
        failure(&self.file, error.into())
    }

    fn damaged(&self) -> StoreError {
        StoreError::Damaged { file: self.file.clone(), what: "a key is too short to be a version's".to_owned() }
    }

    /// Visits the versions of a range, newest first within a key, until told to stop.
    fn visit(
        &self,
        space: SpaceId,
        range: &KeyRange,
        mut visit: impl FnMut(&[u8], Timestamp, &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        if range.is_empty() {
            return Ok(());
        }
        let start = version_key::encode(space, &range.start, Timestamp::MAX);
        let end = match &range.end {
            Some(end) => version_key::encode(space, end, Timestamp::MAX),
            None => match space_number(space).checked_add(1) {
                Some(next) => {
                    let next = SpaceId { database: (next >> 32) as u32, shard: next as u32 };
                    version_key::encode(next, &[], Timestamp::MAX)
                }
                None => vec![u8::MAX; 64],
            },
        };
        let bounds = (Bound::Included(&*start), Bound::Excluded(&*end));
        for entry in self.versions.range::<&[u8]>(bounds).map_err(|error| self.failure(error))? {
            let (key, value) = entry.map_err(|error| self.failure(error))?;
            let (key, at) = version_key::decode(key.value()).ok_or_else(|| self.damaged())?;
            if !visit(key, at, value.value()) {
                break;
            }
        }
        Ok(())
    }

    /// The newest version at or below `at` of the largest key below `end` that has one.
    fn last_before(
        &self,
        space: SpaceId,
        range: &KeyRange,
        at: Timestamp,
    ) -> Result<Option<StoredVersion>, StoreError> {
        let mut end = range.end.clone();
        loop {
            let start = version_key::encode(space, &range.start, Timestamp::MAX);
            let bound = match &end {
                Some(end) => version_key::encode(space, end, Timestamp::MAX),
                None => {
                    let next = space_number(space).saturating_add(1);
                    let next = SpaceId { database: (next >> 32) as u32, shard: next as u32 };
                    version_key::encode(next, &[], Timestamp::MAX)
                }
            };
            let bounds = (Bound::Included(&*start), Bound::Excluded(&*bound));
            let mut entries = self.versions.range::<&[u8]>(bounds).map_err(|error| self.failure(error))?;
            let Some(entry) = entries.next_back() else { return Ok(None) };
            let (key, _) = entry.map_err(|error| self.failure(error))?;
            let (key, _) = version_key::decode(key.value()).ok_or_else(|| self.damaged())?;
            let key = Key::from(key);
            if let Some(version) = Snapshot::get(self, space, &key, at)? {
                return Ok(Some(StoredVersion { key, version }));
            }
            if key <= range.start {
                return Ok(None);
            }
            end = Some(key);
        }
    }
}

impl Snapshot for View {
    fn get(&self, space: SpaceId, key: &[u8], at: Timestamp) -> Result<Option<Version>, StoreError> {
        let newest = version_key::encode(space, key, at);
        let oldest = version_key::encode(space, key, Timestamp::ZERO);
        let bounds = (Bound::Included(&*newest), Bound::Included(&*oldest));
        let mut entries = self.versions.range::<&[u8]>(bounds).map_err(|error| self.failure(error))?;
        let Some(entry) = entries.next() else { return Ok(None) };
        let (found, bytes) = entry.map_err(|error| self.failure(error))?;
        let (_, at) = version_key::decode(found.value()).ok_or_else(|| self.damaged())?;
        Ok(Some(Version { at, value: value(bytes.value()) }))
    }

    fn scan(
        &self,
        space: SpaceId,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_keys: usize,
    ) -> Result<Page, StoreError> {
        let mut page = Page::default();
        if reverse {
            let mut left = range.clone();
            while let Some(found) = self.last_before(space, &left, at)? {
                left.end = Some(found.key.clone());
                page.versions.push(found);
                if page.versions.len() == limit_keys {
                    page.rest = Some(left).filter(|left| !left.is_empty());
                    break;
                }
            }
            return Ok(page);
        }
        self.visit(space, range, |key, version, bytes| {
            let seen = page.versions.last().is_some_and(|found| &*found.key == key);
            if version > at || seen {
                return true;
            }
            if page.versions.len() == limit_keys {
                page.rest = Some(KeyRange { start: Key::from(key), end: range.end.clone() });
                return false;
            }
            let version = Version { at: version, value: value(bytes) };
            page.versions.push(StoredVersion { key: Key::from(key), version });
            true
        })?;
        Ok(page)
    }

    fn versions(&self, space: SpaceId, range: &KeyRange, limit_bytes: usize) -> Result<Page, StoreError> {
        let (mut page, mut bytes) = (Page::default(), 0);
        self.visit(space, range, |key, at, found| {
            let another = page.versions.last().is_some_and(|last: &StoredVersion| &*last.key != key);
            if another && bytes >= limit_bytes {
                page.rest = Some(KeyRange { start: Key::from(key), end: range.end.clone() });
                return false;
            }
            bytes += key.len() + found.len() + 16;
            page.versions.push(StoredVersion { key: Key::from(key), version: Version { at, value: value(found) } });
            true
        })?;
        Ok(page)
    }
}
