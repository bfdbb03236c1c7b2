//! What one shard keeps on this node: Recent in front, the store behind.
//!
//! Invariants:
//! 1. What is installed is readable at once; it leaves Recent only after the store shows it.
//! 2. Each batch carries the position up to which it is complete, so that a node that comes back knows where to go on.
//! 3. Settling, collecting and replacing never meet: a copy is not mixed with what it replaces.
//! 4. A copy that is received whole is written beside the one in use, and takes its place in one step once it is durable.

use meridian_clock::Timestamp;
use meridian_mvcc::{
    Batch, Chunk, Collector, KeyRange, Recent, Snapshot, SpaceId, Store, StoreError, StoredVersion, Version, Write,
    horizon,
};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

const APPLIED: &str = "applied";
const APPLIED_TERM: &str = "applied term";
const APPLIED_AT: &str = "applied at";
const COPY: &str = "copy in use";
/// The copy that never holds versions, only the fact which one is in use.
const POINTER: u8 = u8::MAX;

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
    fn facts(&self) -> Vec<(&'static str, Vec<u8>)> {
        vec![
            (APPLIED, self.position.to_be_bytes().to_vec()),
            (APPLIED_TERM, self.term.to_be_bytes().to_vec()),
            (APPLIED_AT, self.at.to_be_bytes().to_vec()),
        ]
    }
}

/// A shard's versions.
pub struct Space {
    database: u32,
    shard: u32,
    copy: AtomicU8,
    recent: Recent,
    store: Arc<dyn Store>,
    settling: Mutex<()>,
    /// The terms of what is in Recent, by position.
    terms: Mutex<VecDeque<(u64, u64)>>,
    /// The newest timestamp that was installed.
    newest: Mutex<Timestamp>,
    collecting: Mutex<Option<Collector>>,
    /// Something was settled since the last pass of collection began.
    dirty: AtomicBool,
}

fn number<const N: usize>(bytes: Option<Vec<u8>>) -> [u8; N] {
    bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

impl Space {
    /// The space of a shard in a store, as far as the store knows it.
    pub fn open(database: u32, shard: u32, store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let pointer = SpaceId { database, shard, copy: POINTER };
        let [copy] = number(store.fact(pointer, COPY)?);
        let mut space = Space {
            database,
            shard,
            copy: AtomicU8::new(copy),
            recent: Recent::new(),
            store,
            settling: Mutex::new(()),
            terms: Mutex::default(),
            newest: Mutex::default(),
            collecting: Mutex::default(),
            dirty: AtomicBool::new(true),
        };
        let extent = space.extent()?;
        space.recent = Recent::before(extent.at, extent.horizon);
        *space.newest.lock() = extent.at;
        Ok(space)
    }

    /// Which it is.
    pub fn id(&self) -> SpaceId {
        SpaceId { database: self.database, shard: self.shard, copy: self.copy.load(Ordering::Acquire) }
    }

    /// How far the store goes.
    pub fn extent(&self) -> Result<Extent, StoreError> {
        let id = self.id();
        Ok(Extent {
            position: u64::from_be_bytes(number(self.store.fact(id, APPLIED)?)),
            term: u64::from_be_bytes(number(self.store.fact(id, APPLIED_TERM)?)),
            at: Timestamp::from_be_bytes(number(self.store.fact(id, APPLIED_AT)?)),
            horizon: horizon(&*self.store, id)?,
        })
    }

    /// The store ends before what the log still has: it was emptied, or is an old copy. The log begins after `position`.
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
    }

    /// The term of the entry at a position that is still in Recent.
    fn term_of(&self, position: u64) -> Option<u64> {
        let terms = self.terms.lock();
        terms.iter().find(|(last, _)| position <= *last).map(|(_, term)| *term)
    }

    fn forget_terms(&self, through: u64) {
        let mut terms = self.terms.lock();
        while terms.pop_front_if(|(last, _)| *last <= through).is_some() {}
    }

    /// The newest version of a key at or below a timestamp.
    pub fn get(&self, key: &[u8], at: Timestamp) -> Result<Option<Version>, StoreError> {
        meridian_mvcc::read(&self.recent, &*self.store, self.id(), key, at)
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
        meridian_mvcc::scan(&self.recent, &*self.store, self.id(), range, at, reverse, limit_rows, limit_bytes)
    }

    /// Memory that Recent holds.
    pub fn recent_bytes(&self) -> usize {
        self.recent.bytes()
    }

    /// Moves everything in Recent to the store, in batches, and says how many bytes that was.
    pub fn settle(&self, batch_bytes: usize) -> Result<usize, StoreError> {
        let mut moved = 0;
        let until = self.recent.position();
        loop {
            let _alone = self.settling.lock();
            let settling = self.recent.settling(batch_bytes);
            let Some((at, _)) = settling.installs.last() else { return Ok(moved) };
            let versions = settling.installs.iter().flat_map(|(at, writes)| {
                let version = |write: &Write| Version { at: *at, value: write.value.clone() };
                writes.iter().map(move |write| StoredVersion { key: write.key.clone(), version: version(write) })
            });
            let term = self.term_of(settling.position).unwrap_or_default();
            let extent = Extent { position: settling.position, term, at: *at, horizon: Timestamp::ZERO };
            let versions = versions.collect();
            self.store.apply(Batch { space: self.id(), versions, removals: Vec::new(), facts: extent.facts() })?;
            self.dirty.store(true, Ordering::Relaxed);
            self.forget_terms(settling.position);
            self.recent.settled(&settling);
            moved += settling.bytes + settling.installs.len(); // a floor has no bytes, and moves too
            if settling.position >= until {
                return Ok(moved);
            }
        }
    }

    /// Goes on removing what no read at or above `horizon` needs: looks at about `budget_bytes` of versions. A pass begins when there
    /// may be something to remove and the horizon has moved by `step_ns` since the last one; true if one ended.
    pub fn collect(&self, horizon: Timestamp, step_ns: u64, budget_bytes: usize) -> Result<bool, StoreError> {
        let _alone = self.settling.lock();
        let mut collecting = self.collecting.lock();
        // What is still to be installed here is newer than what was: a member that lags collects less.
        let horizon = horizon.min(*self.newest.lock());
        if collecting.is_none() {
            let moved = horizon.nanos > self.recent.horizon().nanos.saturating_add(step_ns);
            if !moved || !self.dirty.swap(false, Ordering::Relaxed) {
                return Ok(false);
            }
        }
        let collector = collecting.get_or_insert_with(|| Collector::begin(&self.recent, self.id(), horizon));
        let mut left = budget_bytes;
        while left > 0 {
            let step = left.min(1 << 20);
            left -= step;
            let Some(batch) = collector.step(&*self.store.snapshot()?, step)? else {
                *collecting = None;
                return Ok(true);
            };
            if !batch.removals.is_empty() || !batch.facts.is_empty() {
                self.store.apply(batch)?;
            }
        }
        Ok(false)
    }

    /// Everything that was agreed up to some entry at or after `position`, as it stands in the store now, for whoever has to be sent
    /// all of it; `None` while the store does not go that far.
    pub fn whole(&self, position: u64) -> Result<Option<(SpaceId, Extent, Arc<dyn Snapshot>)>, StoreError> {
        let _alone = self.settling.lock();
        let extent = self.extent()?;
        if extent.position < position {
            return Ok(None);
        }
        Ok(Some((self.id(), extent, self.store.snapshot()?)))
    }

    /// Where a copy that is being received goes: beside the one in use. What was left there by an earlier attempt is removed.
    pub fn begin_copy(&self) -> Result<SpaceId, StoreError> {
        let used = self.id();
        let copy = if used.copy + 1 == POINTER { 0 } else { used.copy + 1 };
        let fresh = SpaceId { copy, ..used };
        self.store.drop_space(fresh)?;
        Ok(fresh)
    }

    /// Adds to a copy that is being received.
    pub fn extend_copy(&self, copy: SpaceId, versions: Vec<StoredVersion>) -> Result<(), StoreError> {
        self.store.apply(Batch { space: copy, versions, ..Batch::default() })
    }

    /// The copy is complete up to here, and durable when this returns.
    pub fn end_copy(&self, copy: SpaceId, extent: Extent) -> Result<(), StoreError> {
        let mut facts = extent.facts();
        facts.push((meridian_mvcc::HORIZON, extent.horizon.to_be_bytes().to_vec()));
        self.store.apply_durably(Batch { space: copy, facts, ..Batch::default() })
    }

    /// A copy takes the place of what is in use, durably. Called within a step of the shard's machine: nothing is installed meanwhile.
    pub fn use_copy(&self, copy: SpaceId, extent: Extent) -> Result<(), StoreError> {
        let _alone = self.settling.lock();
        let old = self.id();
        let facts = vec![(COPY, vec![copy.copy])];
        // All or nothing: a pointer that is written but not in use would, after a crash, name a copy that lacks what was settled since.
        self.store.apply_durably(Batch { space: SpaceId { copy: POINTER, ..copy }, facts, ..Batch::default() })?;
        *self.collecting.lock() = None;
        self.recent.reset(extent.position);
        self.recent.raise_horizon(extent.horizon);
        self.copy.store(copy.copy, Ordering::Release);
        self.terms.lock().clear();
        *self.newest.lock() = extent.at;
        match self.store.drop_space(old) {
            Err(StoreError::Full { .. }) => Ok(()), // It is not in use any more; its place is cleared when it is used again.
            dropped => dropped,
        }
    }

    /// Removes everything.
    pub fn forget(&self) -> Result<(), StoreError> {
        let _alone = self.settling.lock();
        *self.collecting.lock() = None;
        self.recent.reset(0);
        let used = self.id();
        self.store.drop_space(used)?;
        self.store.drop_space(SpaceId { copy: POINTER, ..used })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use meridian_mvcc::{Key, Value};

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, logical: 0, issuer: 1 }
    }

    fn filled(commits: u64) -> Space {
        let space = Space::open(1, 0, Arc::new(MemoryStore::new())).unwrap();
        let key = Key::from(b"k".to_vec());
        for number in 1..=commits {
            let value = Some(Value::from(number.to_be_bytes().to_vec()));
            space.install(at(number), &[Write { key: key.clone(), value }], number, 1 + number / 10);
        }
        space
    }

    #[test]
    fn what_is_settled_stays_readable_and_its_extent_is_known() {
        let space = filled(0);
        let key = Key::from(b"k".to_vec());
        for number in 1..=100u64 {
            let value = Some(Value::from(number.to_be_bytes().to_vec()));
            space.install(at(number), &[Write { key: key.clone(), value }], number, 1 + number / 10);
            if number % 7 == 0 {
                space.settle(100).unwrap();
                let horizon = Timestamp::ZERO;
                let extent = Extent { position: number, term: 1 + number / 10, at: at(number), horizon };
                assert_eq!(space.extent().unwrap(), extent);
                assert_eq!(space.recent_bytes(), 0);
            }
            for earlier in 1..=number {
                let found = space.get(b"k", at(earlier)).unwrap().unwrap();
                assert_eq!(found.value.unwrap().to_vec(), earlier.to_be_bytes());
            }
        }
    }

    #[test]
    fn a_copy_replaces_everything_at_once_also_for_the_next_life() {
        let (from, to) = (filled(50), filled(7));
        from.settle(usize::MAX).unwrap();
        assert!(from.whole(51).unwrap().is_none());
        let (source, extent, view) = from.whole(50).unwrap().unwrap();
        let copy = to.begin_copy().unwrap();
        let page = view.versions(source, &KeyRange::all(), usize::MAX).unwrap();
        to.extend_copy(copy, page.versions).unwrap();
        to.end_copy(copy, extent).unwrap();
        assert_eq!(to.get(b"k", at(60)).unwrap().unwrap().at, at(7));
        to.use_copy(copy, extent).unwrap();
        let again = Space::open(1, 0, Arc::clone(&to.store)).unwrap();
        for space in [to, again] {
            assert_eq!(space.get(b"k", at(60)).unwrap().unwrap().at, at(50));
            assert_eq!(space.get(b"k", at(20)).unwrap().unwrap().at, at(20));
            assert_eq!(space.extent().unwrap(), extent);
        }
    }

    #[test]
    fn what_is_superseded_below_the_horizon_goes_and_is_refused() {
        let space = filled(50);
        space.settle(usize::MAX).unwrap();
        while !space.collect(at(40), 0, 1 << 20).unwrap() {}
        let oldest = at(40);
        assert_eq!(space.get(b"k", at(39)), Err(StoreError::BelowHorizon { oldest }));
        assert_eq!(space.get(b"k", at(40)).unwrap().unwrap().at, at(40));
        let left = space.store.snapshot().unwrap().versions(space.id(), &KeyRange::all(), usize::MAX).unwrap();
        assert_eq!(left.versions.len(), 11);
        let again = Space::open(1, 0, Arc::clone(&space.store)).unwrap();
        assert_eq!(again.get(b"k", at(39)), Err(StoreError::BelowHorizon { oldest }));
    }
}
