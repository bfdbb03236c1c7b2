//! Copies of a shard: those sent to another node, and those received from one.

use super::{COPY, Extent, HOME, POINTER, Place, SHARED, ShardStore};
use crate::rules;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_mvcc::{
    Batch, Cursor, HORIZON, Key, KeyRange, Retained, Snapshot, SpaceId, StoreError, StoredVersion,
    Value, local,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A snapshot of a shard in the store, to be sent to another node.
pub struct ShardSnapshot {
    /// The extent of the snapshot.
    pub extent: Extent,
    shard: u32,
    id: SpaceId,
    view: Arc<dyn Snapshot>,
    ranges: Vec<KeyRange>,
}

impl ShardSnapshot {
    /// Drops the versions, except for the shard's own rows: for a witness.
    pub fn bare(self) -> ShardSnapshot {
        ShardSnapshot { ranges: vec![local::of(self.shard)], ..self }
    }

    /// Returns about `limit_bytes` of the readable versions from a cursor on, and the cursor of the
    /// rest.
    pub fn page(
        &self,
        from: &Cursor,
        limit_bytes: usize,
    ) -> Result<(Vec<StoredVersion>, Option<Cursor>), StoreError> {
        let parts = || {
            self.ranges.iter().map(|part| part.common(&from.range)).filter(|part| !part.is_empty())
        };
        let Some(part) = parts().next() else { return Ok((Vec::new(), None)) };
        let to_end = |start: Key| KeyRange { start, end: from.range.end.clone() };
        let below = from.below.filter(|_| part.start == from.range.start);
        let (versions, rest) =
            self.view.history(self.id, &Cursor { range: part, below }, limit_bytes)?;
        let next = || parts().nth(1).map(|next| Cursor { range: to_end(next.start), below: None });
        let rest = rest.map(|Cursor { range, below }| Cursor { range: to_end(range.start), below });
        Ok((versions, rest.or_else(next)))
    }
}

impl ShardStore {
    /// Returns the protocol's own rows of a received copy that is not in use.
    pub fn protocol_rows_of(&self, copy: SpaceId) -> Result<Vec<(Key, Value)>, StoreError> {
        let range = local::protocol_rows(self.shard);
        let found = self.store.snapshot()?.scan(
            copy,
            &range,
            Timestamp::MAX,
            false,
            usize::MAX,
            usize::MAX,
        )?;
        Ok(found
            .versions
            .into_iter()
            .filter_map(|row| Some((row.key, row.version.value?)))
            .collect())
    }

    /// Returns a snapshot of the store up to some entry at or after `position`. Returns `None`
    /// while the store does not reach that far.
    pub fn shard_snapshot(&self, position: u64) -> Result<Option<ShardSnapshot>, StoreError> {
        let _alone = self.flushing.lock();
        let extent = self.extent()?;
        if extent.position < position {
            return Ok(None);
        }
        // No version above the horizon has been removed, nor will be from this view: collection
        // takes the same lock.
        let horizon = extent.horizon.max(self.memtable.horizon());
        let horizon = if broken(rules::COPY_WITHOUT_HISTORY) { extent.at } else { horizon };
        let extent = Extent { horizon, ..extent };
        let (id, view) = (self.versions(), self.store.snapshot()?);
        // As of the entry: a split may be known here but not flushed.
        let row =
            view.get(id, &local::bounds(self.shard), extent.at)?.and_then(|version| version.value);
        let bounds = row.map_or(Ok(KeyRange::all()), |value| self.range_in(&value))?;
        Ok(Some(ShardSnapshot {
            shard: self.shard,
            id,
            extent,
            view,
            ranges: self.ranges(&bounds),
        }))
    }

    /// Removes a copy that is no longer in use.
    pub(super) fn drop_unused(&self, old: Place) -> Result<(), StoreError> {
        let shared = self.store.fact(self.pointer(), SHARED)?.unwrap_or_default();
        if shared.contains(&old.facts.copy) {
            return Ok(()); // Invariant 6.
        }
        match self.store.drop_spaces(old.facts..=old.facts) {
            Err(StoreError::Full { .. }) => Ok(()), // It is removed before its number is reused.
            dropped => dropped,
        }
    }

    /// Returns the space for a copy to be received, beside the one in use. Removes the rest of an
    /// earlier attempt.
    pub fn begin_copy(&self) -> Result<SpaceId, StoreError> {
        let used = self.facts();
        let taken = self.store.fact(self.pointer(), SHARED)?.unwrap_or_default();
        let next = |copy: u8| if copy + 1 == POINTER { 0 } else { copy + 1 };
        let mut copy = next(used.copy);
        while taken.contains(&copy) && copy != used.copy {
            copy = next(copy);
        }
        let fresh = SpaceId { copy, ..used };
        self.store.drop_spaces(fresh..=fresh)?;
        Ok(fresh)
    }

    /// Adds versions to a copy that is being received.
    pub fn extend_copy(
        &self,
        copy: SpaceId,
        versions: Vec<StoredVersion>,
    ) -> Result<(), StoreError> {
        self.store.apply(Batch { space: copy, versions, ..Batch::default() })
    }

    /// Marks a copy complete up to an extent. Durable when this returns.
    pub fn end_copy(&self, copy: SpaceId, extent: Extent) -> Result<(), StoreError> {
        let mut facts = extent.facts(copy);
        facts.push((copy, HORIZON, extent.horizon.to_be_bytes().to_vec()));
        self.store.apply_durably(Batch { space: copy, facts, ..Batch::default() })
    }

    /// Replaces the versions in use by a copy, durably. Called within a step of the shard's
    /// replica, so that nothing is installed meanwhile. Outstanding splits are flushed first: their
    /// children's rows are here, perhaps only here. Children named in the copy are reported by
    /// [`list_children`](Self::list_children) when their births are known.
    pub fn use_copy(&self, copy: SpaceId, extent: Extent) -> Result<(), StoreError> {
        if self.expects() {
            self.flush(usize::MAX)?;
        }
        let _alone = self.flushing.lock();
        if self.is_closed() {
            return Err(StoreError::Elsewhere); // The node has left the shard meanwhile.
        }
        let (old, pointer) = (*self.place.read(), self.pointer());
        let facts = vec![(pointer, COPY, vec![copy.copy]), (pointer, HOME, Vec::new())];
        // All or nothing: if the pointer were written but the copy not used, then after a crash the
        // pointer would name a copy that lacks later flushes.
        self.store.apply_durably(Batch { space: pointer, facts, ..Batch::default() })?;
        *self.collecting.lock() = None;
        self.memtable.reset(extent.position);
        self.memtable.raise_horizon(extent.horizon);
        *self.place.write() = Place { facts: copy, versions: copy };
        self.terms.lock().clear();
        (*self.newest.lock(), *self.flushed.lock()) = (extent.at, extent.at);
        *self.retained.lock() = Retained::default();
        self.dirty.store(true, Ordering::Relaxed);
        self.read_bounds()?;
        self.has_come_to(extent.position);
        self.drop_unused(old)
    }
}
