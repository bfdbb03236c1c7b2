//! Every version younger than `settled`, in memory.
//!
//! The machine's world installs versions here in the order of their agreement; a settler takes the oldest in whole
//! installs, writes them to the store, and only then lets go of them. So at every moment each version stands in
//! Recent, in the store, or in both, and a reader who looks **into Recent first and into a snapshot of the
//! store taken afterwards** misses none.
//!
//! This is the one structure of the idea rooms that is shared between threads. Its lock is held for the
//! time of a map operation, never across a step or a store's I/O.

use crate::{Key, KeyRange, Value, Version, Write};
use meridian_clock::Timestamp;
use parking_lot::RwLock;
use std::collections::{BTreeMap, VecDeque};

/// What a settler writes to the store: whole installs, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settling {
    /// The installs, in order: when, and what.
    pub installs: Vec<(Timestamp, Vec<Write>)>,
    /// Bytes that letting go of them frees.
    pub bytes: usize,
    /// The position that the last of them was installed with.
    pub position: u64,
}

#[derive(Default)]
struct Inner {
    /// Versions by key, newest first.
    versions: BTreeMap<Key, Vec<Version>>,
    /// What was installed and not yet let go of, oldest first.
    installs: VecDeque<Install>,
    bytes: usize,
    position: u64,
}

struct Install {
    at: Timestamp,
    keys: Vec<Key>,
    bytes: usize,
    position: u64,
}

/// Versions in memory, readable by any thread.
#[derive(Default)]
pub struct Recent {
    inner: RwLock<Inner>,
}

/// Bookkeeping of one version beside its key and value, roughly.
const OVERHEAD_BYTES: usize = 96;

impl Recent {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the versions of one commit. `position` is the caller's own, and grows.
    pub fn install(&self, at: Timestamp, writes: &[Write], position: u64) {
        let mut inner = self.inner.write();
        debug_assert!(position >= inner.position, "installs come in the order of agreement");
        let mut install = Install { at, keys: Vec::with_capacity(writes.len()), bytes: 0, position };
        for write in writes {
            let size = write.key.len() + write.value.as_ref().map_or(0, |value| value.len()) + OVERHEAD_BYTES;
            let versions = inner.versions.entry(write.key.clone()).or_default();
            let place = versions.partition_point(|version| version.at > at);
            if versions.get(place).is_some_and(|version| version.at == at) {
                continue; // The same install again, after a restart: a version is immutable.
            }
            versions.insert(place, Version { at, value: write.value.clone() });
            install.keys.push(write.key.clone());
            install.bytes += size;
        }
        inner.bytes += install.bytes;
        inner.position = position;
        inner.installs.push_back(install);
    }

    /// The newest version of a key at or below `at`.
    pub fn get(&self, key: &[u8], at: Timestamp) -> Option<Version> {
        let inner = self.inner.read();
        newest(inner.versions.get(key)?, at).cloned()
    }

    /// For each key of a range that has one, its newest version at or below `at`; up to `limit_keys` keys. The second
    /// part says that there may be more beyond the last.
    pub fn scan(
        &self,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_keys: usize,
    ) -> (Vec<(Key, Version)>, bool) {
        if range.is_empty() {
            return (Vec::new(), false);
        }
        let inner = self.inner.read();
        let keys = match &range.end {
            Some(end) => inner.versions.range::<Key, _>(&range.start..end),
            None => inner.versions.range::<Key, _>(&range.start..),
        };
        let mut found = Vec::new();
        let mut visit = |(key, versions): (&Key, &Vec<Version>)| {
            if let Some(version) = newest(versions, at) {
                if found.len() == limit_keys {
                    return false;
                }
                found.push((key.clone(), version.clone()));
            }
            true
        };
        let all = if reverse { keys.rev().all(&mut visit) } else { keys.into_iter().all(&mut visit) };
        (found, !all)
    }

    /// The oldest installs, about `limit_bytes` of them (at least one), to be written to the store. They stay visible
    /// until [`Recent::settled`].
    pub fn settling(&self, limit_bytes: usize) -> Settling {
        let inner = self.inner.read();
        let mut settling = Settling::default();
        for install in &inner.installs {
            if settling.bytes >= limit_bytes && !settling.installs.is_empty() {
                break;
            }
            let value = |key: &Key| -> Option<Value> {
                let versions = inner.versions.get(key)?;
                versions.iter().find(|version| version.at == install.at)?.value.clone()
            };
            let writes = install.keys.iter().map(|key| Write { key: key.clone(), value: value(key) }).collect();
            settling.installs.push((install.at, writes));
            settling.bytes += install.bytes;
            settling.position = install.position;
        }
        settling
    }

    /// Lets go of what [`Recent::settling`] returned: the store shows it to every snapshot taken from now on.
    pub fn settled(&self, settling: &Settling) {
        let mut inner = self.inner.write();
        for _ in &settling.installs {
            let install = inner.installs.pop_front().expect("only what was installed is settled");
            inner.bytes -= install.bytes;
            for key in &install.keys {
                if let Some(versions) = inner.versions.get_mut(key) {
                    versions.retain(|version| version.at != install.at);
                    if versions.is_empty() {
                        inner.versions.remove(key);
                    }
                }
            }
        }
    }

    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        self.inner.read().bytes
    }

    /// The position of the newest install.
    pub fn position(&self) -> u64 {
        self.inner.read().position
    }

    /// Forgets everything: a snapshot of the whole space has replaced it.
    pub fn reset(&self, position: u64) {
        *self.inner.write() = Inner { position, ..Inner::default() };
    }
}

fn newest(versions: &[Version], at: Timestamp) -> Option<&Version> {
    versions.get(versions.partition_point(|version| version.at > at))
}
