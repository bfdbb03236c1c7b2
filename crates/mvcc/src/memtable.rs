//! The versions that are not flushed yet, in memory.
//!
//! The host installs versions here in the order of their agreement. A flusher takes the oldest ones
//! in whole installs, writes them to the store, and only then releases them. So at every moment
//! each version is in Recent, in the store, or in both, and a reader that looks **into Recent first
//! and into a snapshot of the store taken afterwards** misses none.
//!
//! ```text
//!   install ──▶ ┌────────── Recent ──────────┐ ── settling ──▶ store.apply ── settled ──▶ released
//!               │ newest  …  …  …  oldest    │     (visible until then)
//!               └────────────────────────────┘
//! ```
//!
//! Invariants:
//! 1. A released version is in every snapshot of the store that is taken from then on.
//! 2. `flushed_through` is at or above every released timestamp. A version above it is newer than
//!    every version of its key in the store, so that a reader needs the store only for versions at
//!    or below it.
//! 3. `horizon` is raised before anything below it is removed from the store. A reader that
//!    compares its timestamp with it *after* reading therefore never takes a removed version for an
//!    absent one.
//!
//! This is the one structure of the crates without I/O that is shared between threads. Its lock is
//! held for the time of a few map operations, never across a step or a store's I/O.

use crate::rules;
use crate::{Key, KeyRange, StoreError, Version, Write};
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use parking_lot::RwLock;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The installs that a flush writes to the store, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlushBatch {
    /// The installs, in order: the timestamp and the writes of each.
    pub installs: Vec<(Timestamp, Arc<[Write]>)>,
    /// The memory that releasing them frees, in bytes.
    pub bytes: usize,
    /// The position with which the last of them was installed.
    pub position: u64,
    /// The generation of Recent that they are from. After a reset they are not in it any more.
    generation: u64,
}

#[derive(Default)]
struct Inner {
    /// Versions by key, oldest first.
    versions: BTreeMap<Key, VecDeque<Version>>,
    /// The installs that are not released yet, oldest first.
    installs: VecDeque<Install>,
    bytes: usize,
    position: u64,
    flushed_through: Timestamp,
    horizon: Timestamp,
    generation: u64,
}

struct Install {
    at: Timestamp,
    writes: Arc<[Write]>,
    bytes: usize,
    position: u64,
}

/// Versions in memory, readable by any thread.
#[derive(Default)]
pub struct MemTable {
    inner: RwLock<Inner>,
}

/// The approximate memory for one version besides its key and value, in bytes.
const OVERHEAD_BYTES: usize = 256;
/// The number of installs that are released under one lock: a reader waits no longer than for
/// these.
const INSTALLS_AT_ONCE: usize = 256;
/// The number of keys that a scan examines under the lock for each key that it may return; some
/// more are added.
const LOOKS_PER_KEY: usize = 4;

impl MemTable {
    /// Creates an empty Recent.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty Recent in front of a store that has versions up to `flushed_through` and
    /// keeps none below `horizon` for readers: see [`crate::horizon`]. If timestamps are installed
    /// in ascending order, `flushed_through` may be zero, as in [`MemTable::new`].
    pub fn before(flushed_through: Timestamp, horizon: Timestamp) -> Self {
        MemTable { inner: RwLock::new(Inner { flushed_through, horizon, ..Inner::default() }) }
    }

    /// Adds the versions of one commit. `position` belongs to the caller, and grows.
    pub fn install(&self, at: Timestamp, writes: &[Write], position: u64) {
        let size = |write: &Write| {
            write.key.len() + write.value.as_ref().map_or(0, |value| value.len()) + OVERHEAD_BYTES
        };
        let mut install =
            Install { at, writes: writes.into(), bytes: writes.iter().map(size).sum(), position };
        let mut inner = self.inner.write();
        debug_assert!(position >= inner.position, "installs come in the order of agreement");
        let mut again = false;
        for write in writes {
            // Most keys have one version here.
            let versions = inner
                .versions
                .entry(write.key.clone())
                .or_insert_with(|| VecDeque::with_capacity(1));
            let place = match versions.back() {
                Some(newest) if newest.at >= at => {
                    versions.partition_point(|version| version.at < at)
                }
                _ => versions.len(),
            };
            if versions.get(place).is_some_and(|version| version.at == at) {
                // The same install is repeated after a restart: a version is immutable.
                again = true;
                install.bytes -= size(write);
            } else {
                versions.insert(place, Version { at, value: write.value.clone() });
            }
        }
        if again && install.bytes == 0 {
            install.writes = Arc::default();
        }
        inner.bytes += install.bytes;
        inner.position = position;
        inner.installs.push_back(install);
    }

    /// Returns the newest version of a key at or below `at`.
    pub fn get(&self, key: &[u8], at: Timestamp) -> Option<Version> {
        self.look(key, at).0
    }

    /// Returns the newest version of a key at or below `at`, and true if the store can have no
    /// newer one.
    pub(crate) fn look(&self, key: &[u8], at: Timestamp) -> (Option<Version>, bool) {
        let inner = self.inner.read();
        let version = inner.versions.get(key).and_then(|versions| newest(versions, at)).cloned();
        let surely = version.as_ref().is_some_and(|version| version.at > inner.flushed_through);
        (version, surely)
    }

    /// Returns for each key of a range its newest version at or below `at`, if it has one; up to
    /// `limit_keys` keys and about `limit_bytes` bytes. The second part is the range that was not
    /// examined.
    pub fn scan(
        &self,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_keys: usize,
        limit_bytes: usize,
    ) -> (Vec<(Key, Version)>, Option<KeyRange>) {
        if range.is_empty() {
            return (Vec::new(), None);
        }
        let inner = self.inner.read();
        let keys = match &range.end {
            Some(end) => inner.versions.range::<Key, _>(&range.start..end),
            None => inner.versions.range::<Key, _>(&range.start..),
        };
        let (mut found, mut bytes) = (Vec::new(), 0);
        let mut looks = limit_keys.saturating_mul(LOOKS_PER_KEY).saturating_add(1000);
        let mut rest = None;
        let mut visit = |(key, versions): (&Key, &VecDeque<Version>)| {
            if found.len() >= limit_keys || bytes >= limit_bytes.max(1) || looks == 0 {
                rest = Some(range.from_key(key, reverse));
                return false;
            }
            looks -= 1;
            if let Some(version) = newest(versions, at) {
                bytes += key.len()
                    + version.value.as_ref().map_or(0, |value| value.len())
                    + OVERHEAD_BYTES;
                found.push((key.clone(), version.clone()));
            }
            true
        };
        let _ = if reverse { keys.rev().all(&mut visit) } else { keys.into_iter().all(&mut visit) };
        (found, rest)
    }

    /// Returns the oldest installs, about `limit_bytes` of them (at least one), to be written to
    /// the store. They stay visible until [`MemTable::flushed`].
    pub fn flush_batch(&self, limit_bytes: usize) -> FlushBatch {
        let inner = self.inner.read();
        let mut flushing = FlushBatch { generation: inner.generation, ..FlushBatch::default() };
        for install in &inner.installs {
            if flushing.bytes >= limit_bytes && !flushing.installs.is_empty() {
                break;
            }
            flushing.installs.push((install.at, Arc::clone(&install.writes)));
            flushing.bytes += install.bytes;
            flushing.position = install.position;
        }
        flushing
    }

    /// Releases the installs that [`MemTable::flush_batch`] returned: every snapshot of the store
    /// taken from now on has them. There is one flusher at a time.
    pub fn flushed(&self, flushing: &FlushBatch) {
        for installs in flushing.installs.chunks(INSTALLS_AT_ONCE) {
            let mut inner = self.inner.write();
            if inner.generation != flushing.generation {
                return; // A reset in between has released everything.
            }
            for (at, _) in installs {
                inner.flushed_through = inner.flushed_through.max(*at);
                let install = inner
                    .installs
                    .pop_front()
                    .expect("invariant: one flusher releases installs in order");
                inner.bytes -= install.bytes;
                for write in install.writes.iter() {
                    inner.drop_version(&write.key, *at);
                }
            }
        }
    }

    /// Returns the approximate memory held, in bytes.
    pub fn bytes(&self) -> usize {
        self.inner.read().bytes
    }

    /// Returns the position of the newest install.
    pub fn position(&self) -> u64 {
        self.inner.read().position
    }

    /// Returns the timestamp above which every installed version is here.
    pub fn flushed_through(&self) -> Timestamp {
        self.inner.read().flushed_through
    }

    /// Returns the oldest timestamp that is not flushed yet.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.inner.read().installs.iter().map(|install| install.at).min()
    }

    /// Returns the oldest timestamp that can be read.
    pub fn horizon(&self) -> Timestamp {
        self.inner.read().horizon
    }

    /// Refuses reads below `horizon` from now on. The horizon never sinks.
    pub fn raise_horizon(&self, horizon: Timestamp) {
        let mut inner = self.inner.write();
        inner.horizon = inner.horizon.max(horizon);
    }

    /// Returns an error if a read at `at` is below the horizon. Called *after* reading: see
    /// invariant 3.
    pub fn believe(&self, at: Timestamp) -> Result<(), StoreError> {
        let oldest = self.horizon();
        if at < oldest && !broken(rules::HORIZON_UNCHECKED) {
            Err(StoreError::BelowHorizon { oldest })
        } else {
            Ok(())
        }
    }

    /// Removes everything: a snapshot of the whole space has replaced it.
    pub fn reset(&self, position: u64) {
        let mut inner = self.inner.write();
        let generation = inner.generation + 1;
        // The removed versions count as flushed: the snapshot holds them, and every later install
        // was agreed after the snapshot.
        let (flushed_through, horizon) =
            (inner.installs.iter().map(|install| install.at).max(), inner.horizon);
        let flushed_through = flushed_through.unwrap_or_default().max(inner.flushed_through);
        *inner = Inner { position, generation, flushed_through, horizon, ..Inner::default() };
    }
}

impl Inner {
    fn drop_version(&mut self, key: &Key, at: Timestamp) {
        let Some(versions) = self.versions.get_mut(key) else { return };
        match versions.front() {
            Some(oldest) if oldest.at == at => drop(versions.pop_front()),
            _ => versions.retain(|version| version.at != at),
        }
        if versions.is_empty() {
            self.versions.remove(key);
        }
    }
}

/// Returns the newest version at or below `at`; `versions` are sorted oldest first.
fn newest(versions: &VecDeque<Version>, at: Timestamp) -> Option<&Version> {
    match versions.back() {
        Some(newest) if newest.at <= at => Some(newest),
        _ => versions.get(versions.partition_point(|version| version.at <= at).checked_sub(1)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, logical: 0, issuer: 1 }
    }

    fn write(key: &str, value: &str) -> Write {
        Write { key: key.into(), value: Some(Value::from(value)) }
    }

    #[test]
    fn the_same_install_twice_counts_once() {
        let memtable = MemTable::new();
        memtable.install(at(1), &[write("a", "1")], 1);
        let bytes = memtable.bytes();
        memtable.install(at(1), &[write("a", "1")], 1);
        assert_eq!(memtable.bytes(), bytes);
        memtable.flushed(&memtable.flush_batch(usize::MAX));
        assert_eq!((memtable.bytes(), memtable.get(b"a", at(9))), (0, None));
    }

    #[test]
    fn a_flush_that_a_reset_overtook_removes_nothing() {
        let memtable = MemTable::new();
        memtable.install(at(1), &[write("a", "1")], 1);
        let flushing = memtable.flush_batch(usize::MAX);
        memtable.reset(7);
        memtable.install(at(8), &[write("b", "8")], 8);
        memtable.flushed(&flushing);
        assert_eq!(memtable.get(b"b", at(9)).map(|version| version.at), Some(at(8)));
        assert_eq!(memtable.flush_batch(usize::MAX).installs.len(), 1);
    }

    #[test]
    fn what_comes_late_with_an_older_timestamp_finds_its_place() {
        let memtable = MemTable::new();
        for nanos in [10, 30, 20] {
            memtable.install(at(nanos), &[write("a", "x")], nanos.max(30));
        }
        let seen = |nanos| memtable.get(b"a", at(nanos)).map(|version| version.at);
        assert_eq!(
            [seen(9), seen(15), seen(25), seen(35)],
            [None, Some(at(10)), Some(at(20)), Some(at(30))]
        );
    }

    #[test]
    fn the_horizon_never_sinks() {
        let memtable = MemTable::new();
        memtable.raise_horizon(at(10));
        memtable.raise_horizon(at(5));
        assert_eq!(memtable.believe(at(9)), Err(StoreError::BelowHorizon { oldest: at(10) }));
        assert_eq!(memtable.believe(at(10)), Ok(()));
    }

    #[test]
    fn a_range_that_ends_before_it_starts_holds_nothing() {
        let memtable = MemTable::new();
        memtable.install(at(1), &[write("a", "1"), write("m", "1"), write("z", "1")], 1);
        for end in ["a", "m"] {
            let range = KeyRange { start: "m".into(), end: Some(end.into()) };
            for reverse in [false, true] {
                assert_eq!(memtable.scan(&range, at(9), reverse, 10, 1000), (Vec::new(), None));
            }
        }
    }
}
