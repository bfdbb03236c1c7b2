//! What one shard keeps on this node: Recent in front, the store behind.
//!
//! ```text
//!   split at key:   installs   bounds, child ──▶ Recent ── settle ──▶ store: … and the child's birth, in the batch that passes the split
//!   child:          points at the space where its versions are already; what it writes goes there, too
//! ```
//!
//! Invariants:
//! 1. What is installed is readable at once; it leaves Recent only after the store shows it.
//! 2. Each batch carries the position up to which it is complete, so that a node that comes back
//!    knows where to go on.
//! 3. Settling, collecting and replacing never meet: a copy is not mixed with what it replaces.
//! 4. A copy that is received whole is written beside the one in use, and takes its place in one
//!    step once it is durable.
//! 5. A child is born in the store exactly if its parent's position has passed the split; durably,
//!    before anything of it is in the log.
//! 6. A space that another shard points at, or did, is not removed before its database is.
//! 7. A space that is closed serves nothing and writes nothing, whichever thread still holds it:
//!    what stands in its place is another's.
//! 8. Of a shard that this node is no member of any more it keeps since when, so that it does not
//!    come back with nothing as the one that it was.

mod births;
mod copies;
mod leaving;
mod settling;
#[cfg(test)]
mod tests;

pub use births::Split;
pub use copies::Whole;
pub use leaving::Left;

use crate::rules;
use births::Birth;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_mvcc::{
    Chunk, Collector, Key, KeyRange, Recent, Retained, SpaceId, Store, StoreError, Value, Version,
    Write, horizon, local,
};
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const APPLIED: &str = "applied";
const APPLIED_TERM: &str = "applied term";
const APPLIED_AT: &str = "applied at";
const COPY: &str = "copy in use";
/// Where a shard's versions are, if not in its own space.
const HOME: &str = "home";
/// Copies that other shards point at.
const SHARED: &str = "shared";
/// The entry since which this node is no member of the shard's group.
const REMOVED: &str = "removed";
/// The epoch as of which what a shard without leader has here counts.
const AS_OF: &str = "as of";
/// The children that it had then.
const LEFT: &str = "left";
/// The copy that never holds versions, only the facts which one is in use.
const POINTER: u8 = u8::MAX;
/// The place in its log at which a child is born: what came before is in the store.
const BORN_AT: (u64, u64) = (1, 1);

/// How far a shard's versions go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub struct Extent {
    /// The last agreed entry that is in it.
    #[n(0)]
    pub position: u64,
    /// That entry's term.
    #[n(1)]
    pub term: u64,
    /// The newest timestamp that was agreed up to there.
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

/// Where things are in the store.
#[derive(Clone, Copy)]
struct Place {
    /// Whose facts.
    facts: SpaceId,
    /// Where the versions are.
    versions: SpaceId,
}

/// A shard's versions.
pub struct Space {
    database: u32,
    shard: u32,
    place: RwLock<Place>,
    /// Which keys it has.
    bounds: RwLock<KeyRange>,
    /// Splits that the store does not know of yet, oldest first; and children that it knows of
    /// since the last look.
    births: Mutex<VecDeque<Birth>>,
    born: Mutex<Vec<(u32, KeyRange)>>,
    recent: Recent,
    store: Arc<dyn Store>,
    settling: Mutex<()>,
    /// The terms of what is in Recent, by position.
    terms: Mutex<VecDeque<(u64, u64)>>,
    /// The newest timestamp that was installed, and that was settled.
    newest: Mutex<Timestamp>,
    settled: Mutex<Timestamp>,
    collecting: Mutex<Option<Collector>>,
    /// How far its horizon may go.
    retained: Mutex<Retained>,
    /// Something was settled since the last pass of collection began.
    dirty: AtomicBool,
    /// Its replica is gone.
    closed: AtomicBool,
    /// The entry by which the member was invited, until the space has come to it; then 0.
    awaits: AtomicU64,
}

fn number<const N: usize>(bytes: Option<Vec<u8>>) -> [u8; N] {
    bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

impl Space {
    /// The space of a shard in a store, as far as the store knows it.
    pub fn open(database: u32, shard: u32, store: Arc<dyn Store>) -> Result<Self, StoreError> {
        Self::open_with(database, shard, KeyRange::all(), store)
    }

    /// The same for a shard that has these keys, if the store does not know better.
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
        let mut space = Space {
            database,
            shard,
            place: RwLock::new(Place { facts, versions }),
            bounds: RwLock::new(bounds),
            births: Mutex::default(),
            born: Mutex::default(),
            recent: Recent::new(),
            store,
            settling: Mutex::new(()),
            terms: Mutex::default(),
            newest: Mutex::default(),
            settled: Mutex::default(),
            collecting: Mutex::default(),
            retained: Mutex::new(Retained::since(Timestamp::ZERO)),
            dirty: AtomicBool::new(true),
            closed: AtomicBool::new(false),
            awaits: AtomicU64::new(0),
        };
        let extent = space.extent()?;
        space.recent = Recent::before(extent.at, extent.horizon);
        (*space.newest.lock(), *space.settled.lock()) = (extent.at, extent.at);
        *space.retained.lock() = Retained::since(extent.at.max(extent.horizon));
        space.read_bounds()?;
        Ok(space)
    }

    /// Which shard of which database.
    pub fn id(&self) -> SpaceId {
        SpaceId::new(self.database, self.shard)
    }

    /// Which keys it has.
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
            &self.recent,
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

    /// What the protocol keeps for itself, as of the last agreed entry that is here.
    pub fn protocol_rows(&self) -> Result<Vec<(Key, Value)>, StoreError> {
        let range = local::protocol_rows(self.shard);
        let (mut rows, mut rest) = (Vec::new(), Some(range));
        while let Some(range) = rest {
            let id = self.versions();
            let page = meridian_mvcc::scan(
                &self.recent,
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

    /// How far the store goes.
    pub fn extent(&self) -> Result<Extent, StoreError> {
        let id = self.facts();
        Ok(Extent {
            position: u64::from_be_bytes(number(self.store.fact(id, APPLIED)?)),
            term: u64::from_be_bytes(number(self.store.fact(id, APPLIED_TERM)?)),
            at: Timestamp::from_be_bytes(number(self.store.fact(id, APPLIED_AT)?)),
            horizon: horizon(&*self.store, id)?,
        })
    }

    /// The store ends before what the log still has: it was emptied, or is an old copy. The log
    /// begins after `position`.
    pub fn lacks(&self, position: u64) -> StoreError {
        let what = match self.extent() {
            Ok(extent) => format!(
                "it ends at entry {} of shard {} of database {}, and the log begins after {position}: a node that is alone needs store and \
                 log from the same backup; one of several: leave it off, the others go on (a member cannot be replaced in this version)",
                extent.position, self.shard, self.database
            ),
            Err(error) => error.to_string(),
        };
        StoreError::Damaged { file: "the store".to_owned(), what }
    }

    /// Makes the writes of one agreed entry readable.
    pub fn install(&self, at: Timestamp, writes: &[Write], position: u64, term: u64) {
        {
            let mut terms = self.terms.lock();
            // One entry for each term is enough: they never fall.
            match terms.back_mut() {
                Some((newest, known)) if *known == term => *newest = position,
                _ => terms.push_back((position, term)),
            }
        }
        self.recent.install(at, writes, position);
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

    /// Whether the member has begun with nothing, and has not come to its invitation yet. It has
    /// none of the snapshot that a session was reading at the member before it.
    pub fn is_behind(&self) -> bool {
        self.awaits.load(Ordering::Acquire) > 0 && !broken(rules::READS_NEWCOMER)
    }

    /// The newest version of a key at or below a timestamp.
    pub fn get(&self, key: &[u8], at: Timestamp) -> Result<Option<Version>, StoreError> {
        let found = meridian_mvcc::read(&self.recent, &*self.store, self.versions(), key, at)?;
        // After reading: who found the bounds as they were has found everything that was written
        // within them. What the shard keeps for itself lies within no bounds.
        if self.is_closed() {
            Err(StoreError::Elsewhere)
        } else if local::of(self.shard).contains(key) || self.bounds.read().contains(key) {
            Ok(found)
        } else {
            Err(StoreError::Elsewhere)
        }
    }

    /// A chunk of a range as of a timestamp.
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
            &self.recent,
            &*self.store,
            id,
            range,
            at,
            reverse,
            limit_rows,
            limit_bytes,
        )?;
        if self.is_closed() {
            return Err(StoreError::Elsewhere); // Something of it may have been missing already.
        }
        if local::of(self.shard).contains_range(range) {
            return Ok(found); // Whoever asks for nothing else knows why.
        }
        // A scan may have got into them: it goes on behind what was full of them.
        if local::all().end.is_none_or(|end| range.start < end) {
            // What shards keep for themselves nobody else reads.
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

    /// The newest timestamp that was installed.
    pub fn newest(&self) -> Timestamp {
        *self.newest.lock()
    }

    /// Memory that Recent holds.
    pub fn recent_bytes(&self) -> usize {
        self.recent.bytes()
    }
}
