//! One shard's versions on this node: Recent in front of the store.
//!
//! ```text
//!   split at key:  installs  bounds, child ──▶ Recent ── settle ──▶ store, with the child's birth
//!                                              in the batch that passes the split
//!   child:         points at the space that holds its versions already, and writes there, too
//! ```
//!
//! Invariants:
//! 1. An installed version is readable at once; it leaves Recent only after the store shows it.
//! 2. Each batch carries the position up to which it is complete, so that a restarted node knows
//!    where to continue.
//! 3. Flushing, collecting and replacing exclude each other: a copy is not mixed with the versions
//!    that it replaces.
//! 4. A received copy is written beside the one in use, and replaces it in one step once it is
//!    durable.
//! 5. A child exists in the store exactly if its parent's position has passed the split; durably,
//!    before any record of it is in the log.
//! 6. A space that another shard points at, or did, is not removed before its database is.
//! 7. A closed space serves and writes nothing, whichever thread still holds it: another space has
//!    taken its place.
//! 8. Of a shard that this node has left it keeps the entry of its removal, so that it does not
//!    return with an empty replica in the role of the old one.

mod children;
mod copies;
mod flushing;
mod leaving;
#[cfg(test)]
mod tests;

pub use children::Split;
pub use copies::ShardSnapshot;
pub use leaving::OrphanedChild;

use crate::rules;
use children::PendingChild;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_mvcc::{
    Chunk, Collector, Key, KeyRange, MemTable, Retained, SpaceId, Store, StoreError, Value,
    Version, Write, horizon, local,
};
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const APPLIED: &str = "applied";
const APPLIED_TERM: &str = "applied term";
const APPLIED_AT: &str = "applied at";
const COPY: &str = "copy in use";
/// The space that holds a shard's versions, if it is not its own.
const HOME: &str = "home";
/// Copies that other shards point at.
const SHARED: &str = "shared";
/// The entry that removed this node from the shard's group.
const REMOVED: &str = "removed";
/// The epoch as of which the versions of a shard without a leader are valid.
const AS_OF: &str = "as of";
/// The children that the shard had at that entry.
const LEFT: &str = "left";
/// The copy that never holds versions, only the facts that name the copy in use.
const POINTER: u8 = u8::MAX;
/// The log position and term at which a child starts: the store has everything before.
const BORN_AT: (u64, u64) = (1, 1);

/// The extent of a shard's versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub struct Extent {
    /// The last committed entry that is included.
    #[n(0)]
    pub position: u64,
    /// That entry's term.
    #[n(1)]
    pub term: u64,
    /// The newest commit timestamp up to that entry.
    #[n(2)]
    pub at: Timestamp,
    /// The oldest timestamp that can be read.
    #[n(3)]
    pub horizon: Timestamp,
}

impl Extent {
    fn facts(&self, of: SpaceId) -> Vec<(SpaceId, &'static str, Vec<u8>)> {
        vec![
            (of, APPLIED, self.position.to_be_bytes().to_vec()),
            (of, APPLIED_TERM, self.term.to_be_bytes().to_vec()),
            (of, APPLIED_AT, self.at.to_be_bytes().to_vec()),
        ]
    }
}

/// The spaces of a shard in the store.
#[derive(Clone, Copy)]
struct Place {
    /// The space with the shard's facts.
    facts: SpaceId,
    /// The space with its versions.
    versions: SpaceId,
}

/// The versions of one shard on this node.
pub struct ShardStore {
    database: u32,
    shard: u32,
    place: RwLock<Place>,
    /// The shard's range.
    bounds: RwLock<KeyRange>,
    /// Splits that the store does not have yet, oldest first. `created` has the children that came
    /// into the store since the last call of [`ShardStore::created`].
    pending_children: Mutex<VecDeque<PendingChild>>,
    created: Mutex<Vec<(u32, KeyRange)>>,
    memtable: MemTable,
    store: Arc<dyn Store>,
    flushing: Mutex<()>,
    /// The terms of the entries in Recent, by position.
    terms: Mutex<VecDeque<(u64, u64)>>,
    /// The newest timestamp that was installed, and the newest that was flushed.
    newest: Mutex<Timestamp>,
    flushed: Mutex<Timestamp>,
    collecting: Mutex<Option<Collector>>,
    /// Limits the progress of the horizon.
    retained: Mutex<Retained>,
    /// True if versions were flushed since the last pass of collection began.
    dirty: AtomicBool,
    /// True once its replica is gone.
    closed: AtomicBool,
    /// The entry that made this node a member, until the space has reached it; then 0.
    awaits: AtomicU64,
}

fn number<const N: usize>(bytes: Option<Vec<u8>>) -> [u8; N] {
    bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

impl ShardStore {
    /// Opens the space of a shard in a store.
    pub fn open(database: u32, shard: u32, store: Arc<dyn Store>) -> Result<Self, StoreError> {
        Self::open_with(database, shard, KeyRange::all(), store)
    }

    /// Opens the space of a shard with this range, if the store does not have one.
    pub fn open_with(
        database: u32,
        shard: u32,
        bounds: KeyRange,
        store: Arc<dyn Store>,
    ) -> Result<Self, StoreError> {
        let pointer = SpaceId { database, shard, copy: POINTER };
        let [copy] = number(store.fact(pointer, COPY)?);
        let facts = SpaceId { database, shard, copy };
        let home = store.fact(pointer, HOME)?.and_then(|bytes| <[u8; 5]>::try_from(bytes).ok());
        let versions = home.map_or(facts, |[a, b, c, d, copy]| SpaceId {
            database,
            shard: u32::from_be_bytes([a, b, c, d]),
            copy,
        });
        let mut space = ShardStore {
            database,
            shard,
            place: RwLock::new(Place { facts, versions }),
            bounds: RwLock::new(bounds),
            pending_children: Mutex::default(),
            created: Mutex::default(),
            memtable: MemTable::new(),
            store,
            flushing: Mutex::new(()),
            terms: Mutex::default(),
            newest: Mutex::default(),
            flushed: Mutex::default(),
            collecting: Mutex::default(),
            retained: Mutex::default(),
            dirty: AtomicBool::new(true),
            closed: AtomicBool::new(false),
            awaits: AtomicU64::new(0),
        };
        let extent = space.extent()?;
        space.memtable = MemTable::before(extent.at, extent.horizon);
        (*space.newest.lock(), *space.flushed.lock()) = (extent.at, extent.at);
        space.read_bounds()?;
        Ok(space)
    }

    /// Returns the database and shard.
    pub fn id(&self) -> SpaceId {
        SpaceId::new(self.database, self.shard)
    }

    /// Returns the shard's range.
    pub fn bounds(&self) -> KeyRange {
        self.bounds.read().clone()
    }

    fn versions(&self) -> SpaceId {
        self.place.read().versions
    }

    fn facts(&self) -> SpaceId {
        self.place.read().facts
    }

    fn pointer(&self) -> SpaceId {
        SpaceId { database: self.database, shard: self.shard, copy: POINTER }
    }

    fn read_bounds(&self) -> Result<(), StoreError> {
        let row = meridian_mvcc::read(
            &self.memtable,
            &*self.store,
            self.versions(),
            &local::bounds(self.shard),
            Timestamp::MAX,
        )?;
        if let Some(value) = row.and_then(|version| version.value) {
            *self.bounds.write() = self.range_in(&value)?;
        }
        Ok(())
    }

    fn range_in(&self, value: &Value) -> Result<KeyRange, StoreError> {
        minicbor::decode(value).map_err(|error| StoreError::Damaged {
            file: format!(
                "a row of shard {} of database {} about itself",
                self.shard, self.database
            ),
            what: error.to_string(),
        })
    }

    /// Returns the protocol's own rows, as of the last committed entry that is installed.
    pub fn protocol_rows(&self) -> Result<Vec<(Key, Value)>, StoreError> {
        let range = local::protocol_rows(self.shard);
        let (mut rows, mut rest) = (Vec::new(), Some(range));
        while let Some(range) = rest {
            let id = self.versions();
            let page = meridian_mvcc::scan(
                &self.memtable,
                &*self.store,
                id,
                &range,
                Timestamp::MAX,
                false,
                1000,
                1 << 20,
            )?;
            rows.extend(page.rows);
            rest = page.rest;
        }
        Ok(rows)
    }

    /// Returns the extent of the store.
    pub fn extent(&self) -> Result<Extent, StoreError> {
        let id = self.facts();
        Ok(Extent {
            position: u64::from_be_bytes(number(self.store.fact(id, APPLIED)?)),
            term: u64::from_be_bytes(number(self.store.fact(id, APPLIED_TERM)?)),
            at: Timestamp::from_be_bytes(number(self.store.fact(id, APPLIED_AT)?)),
            horizon: horizon(&*self.store, id)?,
        })
    }

    /// Returns the error for a store that ends before the log begins, because it was emptied or is
    /// an old copy. The log begins after `position`.
    pub fn lacks(&self, position: u64) -> StoreError {
        let what = match self.extent() {
            Ok(extent) => format!(
                "it ends at entry {} of shard {} of database {}, and the log begins after {position}. A single node: restore store and \
                 log from the same backup. One of several nodes: leave it stopped, the other nodes go on without it (a member cannot be replaced in this version)",
                extent.position, self.shard, self.database
            ),
            Err(error) => error.to_string(),
        };
        StoreError::Damaged { file: "the store".to_owned(), what }
    }

    /// Installs the writes of one committed entry, which are readable at once.
    pub fn install(&self, at: Timestamp, writes: &[Write], position: u64, term: u64) {
        {
            let mut terms = self.terms.lock();
            // One element per term is enough, because terms never fall.
            match terms.back_mut() {
                Some((newest, known)) if *known == term => *newest = position,
                _ => terms.push_back((position, term)),
            }
        }
        self.memtable.install(at, writes, position);
        let mut newest = self.newest.lock();
        *newest = newest.max(at);
        drop(newest);
        self.has_come_to(position);
    }

    fn has_come_to(&self, position: u64) {
        if position >= self.awaits.load(Ordering::Relaxed) {
            self.awaits.store(0, Ordering::Release);
        }
    }

    /// True if the replica started empty and has not reached the entry of its invitation yet. It
    /// lacks the snapshot that a session may have been reading at the replica before it.
    pub fn is_behind(&self) -> bool {
        self.awaits.load(Ordering::Acquire) > 0 && !broken(rules::READS_NEWCOMER)
    }

    /// Returns the newest version of a key at or below a timestamp. Fails with `Elsewhere` outside
    /// the shard's range.
    pub fn get(&self, key: &[u8], at: Timestamp) -> Result<Option<Version>, StoreError> {
        let found = meridian_mvcc::read(&self.memtable, &*self.store, self.versions(), key, at)?;
        // Checked after reading: if the bounds are unchanged then, the read has seen every write
        // within them. The shard's own rows lie outside of the bounds.
        if self.is_closed() {
            Err(StoreError::Elsewhere)
        } else if local::of(self.shard).contains(key) || self.bounds.read().contains(key) {
            Ok(found)
        } else {
            Err(StoreError::Elsewhere)
        }
    }

    /// Scans a chunk of a range as of a timestamp. Fails with `Elsewhere` outside the shard's
    /// range.
    pub fn scan(
        &self,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_rows: usize,
        limit_bytes: usize,
    ) -> Result<Chunk, StoreError> {
        let id = self.versions();
        let mut found = meridian_mvcc::scan(
            &self.memtable,
            &*self.store,
            id,
            range,
            at,
            reverse,
            limit_rows,
            limit_bytes,
        )?;
        if self.is_closed() {
            return Err(StoreError::Elsewhere); // Versions may have been removed already.
        }
        if local::of(self.shard).contains_range(range) {
            return Ok(found); // A scan of the shard's own rows only.
        }
        // A scan may have met own rows of shards. It goes on behind a chunk that is full of them.
        if local::all().end.is_none_or(|end| range.start < end) {
            // The own rows of shards are not visible to other readers.
            let mut kept = found.rows.iter().map(|(key, _)| !local::is(key));
            found.at.retain(|_| kept.next() == Some(true));
            found.rows.retain(|(key, _)| !local::is(key));
            found.gone.retain(|(key, _)| !local::is(key));
        }
        if self.bounds.read().contains_range(range) {
            Ok(found)
        } else {
            Err(StoreError::Elsewhere)
        }
    }

    /// Returns the newest installed timestamp.
    pub fn newest(&self) -> Timestamp {
        *self.newest.lock()
    }

    /// Returns the memory used by Recent, in bytes.
    pub fn memtable_bytes(&self) -> usize {
        self.memtable.bytes()
    }
}
