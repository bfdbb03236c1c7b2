//! Garbage collection: removal of versions that no read needs any more.
//!
//! ```text
//! time
//!  40 |    a3
//! ----+---- horizon 30: reads at 30 and later must see what they saw
//!  25 |            d  tombstone    removed: no older version stays, so *absent* reads the same
//!  20 |    a2      d1              a2 stays, a read at 30 sees it; d1 is removed
//!  10 |    a1      b1              a1 is removed, b1 stays
//!     +--------------------
//! ```
//!
//! Invariants:
//! 1. A read at or above the horizon returns the same before, during and after a collection.
//! 2. A read below the horizon is refused, never answered from the versions that happen to be left.
//!    The horizon is raised for readers first ([`MemTable::raise_horizon`]), and is written to the
//!    store in the same batch as any removals, because an earlier batch may have failed on a full
//!    disk.
//! 3. The horizon does not pass what Recent has not flushed: a tombstone is not removed above an
//!    older version that is flushed later.
//!
//! Collection is incremental: chunk by chunk over the keys, each chunk a batch of its own. An
//! interrupted collection is simply begun again.

use crate::{Batch, KeyRange, MemTable, Snapshot, SpaceId, Store, StoreError, StoredVersion};
use meridian_clock::Timestamp;
use std::collections::VecDeque;

/// The name of the fact that holds a space's horizon.
pub const HORIZON: &str = "horizon";

/// Returns the oldest timestamp at which a space can be read, according to its store. A new
/// [`MemTable`] is created with it.
pub fn horizon(store: &dyn Store, space: SpaceId) -> Result<Timestamp, StoreError> {
    let Some(bytes) = store.fact(space, HORIZON)? else { return Ok(Timestamp::ZERO) };
    let bytes = <[u8; 16]>::try_from(bytes).map_err(|found| StoreError::Damaged {
        file: format!("the horizon of space {}/{}", space.database, space.shard),
        what: format!("it has {} bytes instead of 16", found.len()),
    })?;
    Ok(Timestamp::from_be_bytes(bytes))
}

/// The horizon that a retention allows: what was closed a retention ago, not a closed timestamp
/// that lies a retention back. In a shard without writes the newest commit may be older than any
/// retention, and a reader that begins to read it may read it for a whole retention.
///
/// After a restart, or in a copy, a timestamp counts from when it is seen to be closed. The newest
/// entry's does not count from its own time: it may lie above what is closed, and so above what
/// readers were given since then. A ceiling lies above the snapshot that it was agreed for.
#[derive(Debug, Default)]
pub struct Retained {
    /// Closed timestamps, and when each was seen, nanoseconds since the epoch; oldest first, and at
    /// most [`STEPS`](Self::STEPS) + 2.
    closed: VecDeque<(u64, Timestamp)>,
}

impl Retained {
    /// The usual number of times that a horizon moves within a retention.
    pub const STEPS: u64 = 16;

    /// Records the present closed timestamp. Returns the horizon for a retention of `retention_ns`.
    pub fn horizon(&mut self, now_ns: u64, retention_ns: u64, closed: Timestamp) -> Timestamp {
        let due = |(seen, known): &(u64, Timestamp)| {
            closed > *known && now_ns >= seen.saturating_add(retention_ns / Self::STEPS)
        };
        // A clock that was ahead before must not hold the horizon back.
        self.closed.iter_mut().for_each(|(seen, _)| *seen = now_ns.min(*seen));
        if self.closed.back().is_none_or(due) {
            self.closed.push_back((now_ns, closed));
        }
        let limit = now_ns.saturating_sub(retention_ns);
        while self.closed.get(1).is_some_and(|(seen, _)| *seen <= limit) {
            self.closed.pop_front();
        }
        let oldest = self.closed.front().filter(|(seen, _)| *seen <= limit);
        oldest.map_or(Timestamp::ZERO, |(_, then)| *then).min(closed).min(Timestamp::end_of(limit))
    }
}

/// One pass over a space's versions.
#[derive(Clone, Debug)]
pub struct Collector {
    /// The space of the versions, and the shard whose horizon it is: shards share a space after a
    /// split.
    space: SpaceId,
    shard: SpaceId,
    horizon: Timestamp,
    /// The ranges that are left, the last first.
    left: Vec<KeyRange>,
}

impl Collector {
    /// Begins a pass that removes versions that no read at or above `horizon` needs. From now on
    /// every read below it is refused.
    ///
    /// The caller guarantees that no version at or below `horizon` is still to be installed (the
    /// horizon is below the safe time).
    pub fn begin(memtable: &MemTable, space: SpaceId, horizon: Timestamp) -> Self {
        Self::within(memtable, space, space, vec![KeyRange::all()], horizon)
    }

    /// Begins a pass for a shard that has only these ranges of a space.
    pub fn within(
        memtable: &MemTable,
        space: SpaceId,
        shard: SpaceId,
        mut ranges: Vec<KeyRange>,
        horizon: Timestamp,
    ) -> Self {
        let horizon =
            memtable.oldest().map_or(horizon, |oldest| oldest.min(horizon)).max(memtable.horizon());
        memtable.raise_horizon(horizon);
        ranges.reverse();
        Collector { space, shard, horizon, left: ranges }
    }

    /// Returns the horizon of this pass.
    pub fn horizon(&self) -> Timestamp {
        self.horizon
    }

    /// Returns the next batch, to be applied before the next step; `None` when the pass is done. A
    /// step examines about `limit_bytes` of versions, so that a batch may be empty; an empty batch
    /// need not be applied.
    pub fn step(
        &mut self,
        snapshot: &dyn Snapshot,
        limit_bytes: usize,
    ) -> Result<Option<Batch>, StoreError> {
        let Some(range) = self.left.pop() else { return Ok(None) };
        let page = match snapshot.versions(self.space, &range, limit_bytes) {
            Ok(page) => page,
            Err(error) => {
                self.left.push(range);
                return Err(error);
            }
        };
        self.left.extend(page.rest);
        let mut batch = Batch { space: self.space, ..Batch::default() };
        for versions in page.versions.chunk_by(|a, b| a.key == b.key) {
            let superseded = superseded(versions, self.horizon);
            batch
                .removals
                .extend(superseded.iter().map(|found| (found.key.clone(), found.version.at)));
        }
        if !batch.removals.is_empty() {
            batch.facts.push((self.shard, HORIZON, self.horizon.to_be_bytes().to_vec()));
        }
        Ok(Some(batch))
    }
}

/// Returns those of one key's versions, newest first, that no read at or above the horizon needs.
fn superseded(versions: &[StoredVersion], horizon: Timestamp) -> &[StoredVersion] {
    let below = &versions[versions.partition_point(|found| found.version.at > horizon)..];
    match below.first() {
        Some(seen) if seen.version.value.is_some() => &below[1..],
        _ => below,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Value, Version};

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, logical: 0, issuer: 1 }
    }

    fn versions(of: &[(u64, bool)]) -> Vec<StoredVersion> {
        let version = |(nanos, live): &(u64, bool)| Version {
            at: at(*nanos),
            value: live.then(|| Value::from("v")),
        };
        of.iter()
            .map(|found| StoredVersion { key: Key::from("k"), version: version(found) })
            .collect()
    }

    fn removed(of: &[(u64, bool)], horizon: u64) -> Vec<u64> {
        superseded(&versions(of), at(horizon)).iter().map(|found| found.version.at.nanos).collect()
    }

    #[test]
    fn the_version_that_the_horizon_sees_stays() {
        assert_eq!(removed(&[(40, true), (20, true), (10, true)], 30), [10]);
        assert_eq!(removed(&[(30, true), (20, true)], 30), [20]);
        assert_eq!(removed(&[(40, true)], 30), [0; 0]);
        assert_eq!(removed(&[(10, true)], 30), [0; 0]);
    }

    #[test]
    fn what_was_the_newest_commit_can_be_read_for_a_retention() {
        let mut retained = Retained::default();
        // Nothing was written for long, and a reader reads the newest commit; then a timestamp is
        // closed.
        assert_eq!(retained.horizon(1_000, 160, at(100)), Timestamp::ZERO);
        assert_eq!(retained.horizon(1_010, 160, at(1_001)), Timestamp::ZERO);
        assert_eq!(retained.horizon(1_159, 160, at(1_001)), Timestamp::ZERO);
        assert_eq!(retained.horizon(1_160, 160, at(1_160)), at(100));
        assert_eq!(retained.horizon(1_169, 160, at(1_169)), at(100));
        assert_eq!(retained.horizon(1_170, 160, at(1_170)), at(1_001));
        // The state stays small however often this is called, and the closed timestamp bounds the
        // horizon.
        (2_000..3_000).for_each(|now| assert!(retained.horizon(now, 160, at(now)) < at(now - 159)));
        assert!(retained.closed.len() <= 18, "{}", retained.closed.len());
        assert_eq!(retained.horizon(9_000, 160, at(50)), at(50));
        // A clock that was hours ahead, and is right again.
        for (ahead, closed) in [(50_000, 9_100), (50_100, 9_200)] {
            retained.horizon(ahead, 160, at(closed));
        }
        assert!(retained.horizon(9_300, 160, at(9_300)) < at(9_100));
        assert_eq!(retained.horizon(9_461, 160, at(9_461)), at(9_200));
    }

    #[test]
    fn a_tombstone_goes_with_what_it_hides() {
        assert_eq!(removed(&[(25, false), (20, true)], 30), [25, 20]);
        assert_eq!(removed(&[(40, true), (25, false)], 30), [25]);
        assert_eq!(removed(&[(35, false), (20, true), (10, true)], 30), [10]);
    }
}
