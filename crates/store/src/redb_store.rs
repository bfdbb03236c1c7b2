//! Versions in one redb file over a `Disk`.
//!
//! Invariants:
//! 1. `apply` is one engine transaction without a sync: readers see all of a batch or none, and a
//!    crash keeps all of it or none.
//! 2. `checkpoint` is a two-phase commit of the engine, with the allocator's state: what it made
//!    durable needs no scan after a crash, and nothing that a later crash tears belongs to it (see
//!    [`crate::blocks`]).
//! 3. What a store holds when it is opened is durable, although after a failed sync the page cache
//!    may show what the disk lacks. The header names a state only after a sync has covered all its
//!    pages and checksums; that state's pages are not overwritten; and opening rewrites and syncs
//!    the header before it writes anything else. After a failed sync this process writes nothing
//!    more.
//! 4. The engine is asked to write only while there is room for what it may have buffered, because
//!    it takes no write any more once one has failed. So a full disk is an error of one batch:
//!    reads go on, and writes resume when there is room.

use crate::blocks::{self, Blocks, Unopened};
use crate::version_key::{self, VersionKey};
use crate::view::EngineView;
use meridian_log::Disk;
use meridian_mvcc::{Batch, Snapshot, SpaceId, Store, StoreError};
use parking_lot::Mutex;
use redb::{Database, Durability, ReadableDatabase, TableDefinition, TableHandle};
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

/// Bytes of pages kept in memory even if the disk is nearly full.
const LEAST_CACHE_BYTES: usize = 16 << 20;

pub(crate) const VERSIONS: TableDefinition<VersionKey, &[u8]> = TableDefinition::new("versions");
const FACTS: TableDefinition<(u64, u8, &str), &[u8]> = TableDefinition::new("facts");
/// The name of the one file.
const FILE: &str = "store.redb";
/// Free bytes that are left beside what the engine may have buffered, for the log and for the
/// file's growth.
const RESERVE_BYTES: u64 = 32 << 20;

/// The engine's storage: blocks of the one file with checksums.
struct Backend(Arc<Blocks>);

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
        self.0.read(offset, out)
    }
    fn set_len(&self, length: u64) -> std::io::Result<()> {
        self.0.set_len(length)
    }
    fn sync_data(&self) -> std::io::Result<()> {
        self.0.sync()
    }
    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write(offset, data)
    }
}

/// The file's path and blocks, for errors.
#[derive(Clone)]
pub(crate) struct Place {
    file: String,
    blocks: Arc<Blocks>,
}

/// The advice after an error of damage, behind the engine's own message.
const ADVICE: &str = "Nothing was repaired or removed. A single node: restore its data directory from a backup. One of several \
                      nodes: leave it stopped, the other nodes go on without it. Do not restore an older copy of its data \
                      directory: it would break promises it made to them. They refuse a node with an empty directory (a \
                      member cannot be replaced in this version)";

/// True if an error means that the disk has no room, or that this process may use no more of it.
fn is_full(kind: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
}

impl Place {
    pub(crate) fn damaged(&self, what: &str) -> StoreError {
        StoreError::Damaged { file: self.file.clone(), what: format!("{what}. {ADVICE}") }
    }

    /// Translates an error of the engine. Errors after found damage or after a failed write are
    /// consequences of those.
    pub(crate) fn failure(&self, error: impl Into<redb::Error>) -> StoreError {
        if let Some(what) = self.blocks.damage() {
            return self.damaged(&what);
        }
        let file = self.file.clone();
        match error.into() {
            redb::Error::Io(error) if is_full(error.kind()) => StoreError::Full { file },
            redb::Error::Corrupted(what) => self.damaged(&what),
            redb::Error::UpgradeRequired(found) => {
                let what = format!(
                    "it has the engine's format {found}: open it with the version of meridian that wrote it"
                );
                StoreError::Disk { file, what }
            }
            redb::Error::PreviousIo => {
                let what =
                    "the disk failed an earlier read or write: restart this node, its log has everything".to_owned();
                StoreError::Disk { file, what }
            }
            other => StoreError::Disk { file, what: other.to_string() },
        }
    }
}

/// The store engine.
pub struct RedbStore {
    database: Database,
    place: Place,
    /// Bytes that the engine may still have to write.
    buffered_bytes: u64,
    /// The view that readers share until the next batch: starting a read of the engine costs more
    /// than a look-up.
    view: Mutex<Option<Arc<EngineView>>>,
}

impl RedbStore {
    /// Opens the store of a disk, or creates an empty one. `cache_bytes` bounds the pages kept in
    /// memory. On a nearly full disk the bound is lower, because room is reserved for unwritten
    /// pages.
    pub fn open(disk: &dyn Disk, cache_bytes: usize) -> Result<Self, StoreError> {
        let file = disk.describe(FILE);
        let refused = |what: String| StoreError::Disk { file: file.clone(), what };
        let handle = disk.open(FILE).map_err(|error| refused(error.to_string()))?;
        let blocks = Blocks::open(handle).map_err(|why| match why {
            Unopened::Io(error) => refused(error.to_string()),
            Unopened::Damaged(what) => StoreError::Damaged { file: file.clone(), what: format!("{what}. {ADVICE}") },
            Unopened::Newer(found) => refused(format!(
                "it has store format {found}, and this version reads up to {}: use the newer version of meridian",
                blocks::FORMAT
            )),
        })?;
        let place = Place { file: file.clone(), blocks: Arc::new(blocks) };
        let free = disk.free_bytes().map_err(|error| refused(error.to_string()))?;
        let cache_bytes =
            cache_bytes.min(usize::try_from(free / 2).unwrap_or(usize::MAX).max(LEAST_CACHE_BYTES));
        let database = Database::builder()
            .set_cache_size(cache_bytes)
            .create_with_backend(Backend(Arc::clone(&place.blocks)))
            .map_err(|error| place.failure(error))?;
        let buffered_bytes = cache_bytes as u64 / 2;
        let store = RedbStore { database, place, buffered_bytes, view: Mutex::new(None) };
        store.make_tables()?;
        Ok(store)
    }

    fn make_tables(&self) -> Result<(), StoreError> {
        let count = || -> Result<usize, redb::Error> {
            let read = self.database.begin_read()?;
            Ok(read
                .list_tables()?
                .filter(|table| [VERSIONS.name(), FACTS.name()].contains(&table.name()))
                .count())
        };
        if count().map_err(|error| self.place.failure(error))? == 2 {
            return Ok(());
        }
        self.write(Durability::Immediate, |write| {
            write.open_table(VERSIONS)?;
            write.open_table(FACTS)?;
            Ok(())
        })
    }

    fn write(
        &self,
        durability: Durability,
        step: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        let file = &self.place.file;
        let free = self.place.blocks.free_bytes();
        let free =
            free.map_err(|error| StoreError::Disk { file: file.clone(), what: error.to_string() })?;
        if free < self.buffered_bytes + RESERVE_BYTES {
            return Err(StoreError::Full { file: file.clone() });
        }
        let run = || -> Result<(), redb::Error> {
            let mut write = self.database.begin_write()?;
            write.set_durability(durability)?;
            write.set_quick_repair(matches!(durability, Durability::Immediate));
            step(&write)?;
            write.commit()?;
            Ok(())
        };
        let result = run().map_err(|error| self.place.failure(error));
        *self.view.lock() = None;
        result
    }

    fn put(&self, durability: Durability, batch: Batch) -> Result<(), StoreError> {
        self.write(durability, |write| {
            let mut versions = write.open_table(VERSIONS)?;
            // In the tree's order.
            let mut order: Vec<_> = batch.versions.iter().collect();
            order.sort_unstable_by(|a, b| a.key.cmp(&b.key).then(b.version.at.cmp(&a.version.at)));
            let (mut key, mut value) = (Vec::new(), Vec::new());
            for found in order {
                version_key::encode_into(&mut key, batch.space, &found.key, found.version.at);
                value.clear();
                if let Some(bytes) = &found.version.value {
                    value.push(1);
                    value.extend_from_slice(bytes);
                }
                versions.insert(&*key, &*value)?;
            }
            for (removed, at) in &batch.removals {
                version_key::encode_into(&mut key, batch.space, removed, *at);
                versions.remove(&*key)?;
            }
            let mut facts = write.open_table(FACTS)?;
            for (space, name, fact) in &batch.facts {
                let (shard, copy) = owner(*space);
                facts.insert((shard, copy, *name), &**fact)?;
            }
            Ok(())
        })
    }
}

/// Returns the key of a space's facts: database and shard, and the copy.
fn owner(space: SpaceId) -> (u64, u8) {
    ((u64::from(space.database) << 32) | u64::from(space.shard), space.copy)
}

impl Store for RedbStore {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError> {
        let mut view = self.view.lock();
        if let Some(view) = &*view {
            return Ok(view.clone());
        }
        // Under the lock, so that a view from before a commit is never kept after it.
        let open =
            || -> Result<_, redb::Error> { Ok(self.database.begin_read()?.open_table(VERSIONS)?) };
        let versions = open().map_err(|error| self.place.failure(error))?;
        let fresh = Arc::new(EngineView { versions, place: self.place.clone() });
        *view = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.put(Durability::None, batch)
    }

    fn apply_durably(&self, batch: Batch) -> Result<(), StoreError> {
        self.put(Durability::Immediate, batch)
    }

    fn checkpoint(&self) -> Result<(), StoreError> {
        self.write(Durability::Immediate, |_| Ok(()))
    }

    fn fact(&self, space: SpaceId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let look = || -> Result<_, redb::Error> {
            let facts = self.database.begin_read()?.open_table(FACTS)?;
            let (shard, copy) = owner(space);
            Ok(facts.get((shard, copy, name))?.map(|fact| fact.value().to_vec()))
        };
        look().map_err(|error| self.place.failure(error))
    }

    fn drop_spaces(&self, spaces: RangeInclusive<SpaceId>) -> Result<(), StoreError> {
        self.write(Durability::None, |write| {
            let mut versions = write.open_table(VERSIONS)?;
            let start = version_key::space_bounds(*spaces.start()).0;
            let end = version_key::space_bounds(*spaces.end()).1;
            versions.retain_in::<&[u8], _>(
                (Bound::Included(&*start), Bound::Excluded(&*end)),
                |_, _| false,
            )?;
            let mut facts = write.open_table(FACTS)?;
            let owners = owner(*spaces.start())..=owner(*spaces.end());
            facts.retain(|(shard, copy, _), _| !owners.contains(&(shard, copy)))?;
            Ok(())
        })
    }
}
