//! Removing versions that nobody may read any more.
//!
//! ```text
//! time
//!  40 |    a3
//! ----+---- horizon 30: reads at 30 and later must see what they saw
//!  25 |            d  tombstone         goes: nothing below it stays, so that *absent* says the same
//!  20 |    a2      d1                   a2 stays, it is what a read at 30 sees; d1 goes
//!  10 |    a1      b1                   a1 goes, b1 stays
//!     +--------------------
//! ```
//!
//! Invariants:
//! 1. A read at or above the horizon answers the same before, during and after a collection.
//! 2. A read below the horizon is refused, never answered from what happens to be left: readers are
//!    told of the horizon first ([`Recent::raise_horizon`]), and the horizon is written to the
//!    store in the same batch as any removals: an earlier batch may have failed, on a full disk.
//! 3. The horizon does not pass what Recent has not settled: a tombstone is not removed above a
//!    version that comes later.
//!
//! Incremental: chunk by chunk over the keys, each chunk a batch of its own; a collection that is
//! broken off is simply begun again.

use crate::{Batch, KeyRange, Recent, Snapshot, SpaceId, Store, StoreError, StoredVersion};
use meridian_clock::Timestamp;
use std::collections::VecDeque;

/// The name of the fact that holds a space's horizon.
pub const HORIZON: &str = "horizon";

/// The oldest timestamp at which a space can be read, as its store knows it: what a new [`Recent`]
/// is told.
pub fn horizon(store: &dyn Store, space: SpaceId) -> Result<Timestamp, StoreError> {
    let Some(bytes) = store.fact(space, HORIZON)? else { return Ok(Timestamp::ZERO) };
    let bytes = <[u8; 16]>::try_from(bytes).map_err(|found| StoreError::Damaged {
        file: format!("the horizon of space {}/{}", space.database, space.shard),
        what: format!("it has {} bytes instead of 16", found.len()),
    })?;
    Ok(Timestamp::from_be_bytes(bytes))
}

/// How far a horizon may go: to what was closed a retention ago, not to what is closed now and
/// older than that. Where nobody writes, the newest commit may be older than any retention; who
/// begins to read it reads for as long as anybody.
#[derive(Debug)]
pub struct Retained {
    /// What was closed, and when that was seen, nanoseconds since the epoch; oldest first, and at
    /// most [`STEPS`](Self::STEPS) and two.
    closed: VecDeque<(u64, Timestamp)>,
}

impl Retained {
    /// A horizon moves so many times in a retention, mostly.
    pub const STEPS: u64 = 16;

    /// Of a space of whose past nothing else is known: what is complete is taken to have been
    /// closed when it was now.
    pub fn since(complete: Timestamp) -> Self {
        Retained { closed: [(complete.nanos, complete)].into() }
    }

    /// Notes what is closed now; the horizon for somebody who keeps versions for `retention_ns`.
    pub fn horizon(&mut self, now_ns: u64, retention_ns: u64, closed: Timestamp) -> Timestamp {
        let due = |(seen, known): &(u64, Timestamp)| {
            closed > *known && now_ns >= seen.saturating_add(retention_ns / Self::STEPS)
        };
        // A clock that was ahead holds nothing back.
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
    /// Where the versions are, and whose horizon it is: shards share a space after a split.
    space: SpaceId,
    shard: SpaceId,
    horizon: Timestamp,
    /// What is left to look at, the last first.
    left: Vec<KeyRange>,
}

impl Collector {
    /// Begins a pass that removes what no read at or above `horizon` needs. From now on nobody
    /// reads below it.
    ///
    /// The caller knows that no version at or below `horizon` is still to be installed (it is below
    /// the safe time).
    pub fn begin(recent: &Recent, space: SpaceId, horizon: Timestamp) -> Self {
        Self::within(recent, space, space, vec![KeyRange::all()], horizon)
    }

    /// The same for a shard that has only these ranges of a space.
    pub fn within(
        recent: &Recent,
        space: SpaceId,
        shard: SpaceId,
        mut ranges: Vec<KeyRange>,
        horizon: Timestamp,
    ) -> Self {
        let horizon =
            recent.oldest().map_or(horizon, |oldest| oldest.min(horizon)).max(recent.horizon());
        recent.raise_horizon(horizon);
        ranges.reverse();
        Collector { space, shard, horizon, left: ranges }
    }

    /// The horizon of this pass.
    pub fn horizon(&self) -> Timestamp {
        self.horizon
    }

    /// The next batch, to be applied before the next step; `None` when the pass is done. It looks
    /// at about `limit_bytes` of versions, so that a batch may well be empty: it need not be
    /// applied then.
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

/// Of one key's versions, newest first, those that no read at or above the horizon needs.
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
        let mut retained = Retained::since(at(100));
        // Nothing was written for long; then a timestamp is closed, and somebody reads what was the
        // newest commit until then.
        assert_eq!(retained.horizon(1_000, 160, at(100)), at(100));
        assert_eq!(retained.horizon(1_001, 160, at(1_001)), at(100));
        assert_eq!(retained.horizon(1_160, 160, at(1_160)), at(100));
        assert_eq!(retained.horizon(1_161, 160, at(1_161)), at(1_001));
        // However often it is asked, it keeps little; and what is closed holds it back.
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
