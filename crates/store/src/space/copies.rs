//! Copies of a shard: what another node is sent, and what is received from one.

use super::{COPY, Extent, HOME, POINTER, Place, SHARED, Space};
use crate::rules;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_mvcc::{
    Batch, Cursor, HORIZON, Key, KeyRange, Retained, Snapshot, SpaceId, StoreError, StoredVersion,
    Value, local,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A shard as it stands in the store, for whoever has to be sent all of it.
pub struct Whole {
    /// How far it goes.
    pub extent: Extent,
    shard: u32,
    id: SpaceId,
    view: Arc<dyn Snapshot>,
    ranges: Vec<KeyRange>,
}

impl Whole {
    /// Without versions: only what the shard knows of itself, for a witness.
    pub fn bare(self) -> Whole {
        Whole { ranges: vec![local::of(self.shard)], ..self }
    }

    /// Its versions from a place on, all of those that can be read, about `limit_bytes` of them;
    /// and where the rest begins.
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

impl Space {
    /// The same of a copy that was received and is not in use.
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

    /// Everything that was agreed up to some entry at or after `position`, as it stands in the
    /// store now, for whoever has to be sent all of it; `None` while the store does not go that
    /// far.
    pub fn whole(&self, position: u64) -> Result<Option<Whole>, StoreError> {
        let _alone = self.settling.lock();
        let extent = self.extent()?;
        if extent.position < position {
            return Ok(None);
        }
        // Nothing above it is removed yet, or will be from this view: collection takes the same
        // turn.
        let horizon = extent.horizon.max(self.recent.horizon());
        let horizon = if broken(rules::COPY_WITHOUT_HISTORY) { extent.at } else { horizon };
        let extent = Extent { horizon, ..extent };
        let (id, view) = (self.versions(), self.store.snapshot()?);
        // As of the entry: a split may be known here and not be settled.
        let row =
            view.get(id, &local::bounds(self.shard), extent.at)?.and_then(|version| version.value);
        let bounds = row.map_or(Ok(KeyRange::all()), |value| self.range_in(&value))?;
        Ok(Some(Whole { shard: self.shard, id, extent, view, ranges: self.ranges(&bounds) }))
    }

    /// Removes a copy that is not in use any more.
    pub(super) fn drop_unused(&self, old: Place) -> Result<(), StoreError> {
        let shared = self.store.fact(self.pointer(), SHARED)?.unwrap_or_default();
        if shared.contains(&old.facts.copy) {
            return Ok(()); // Invariant 6.
        }
        match self.store.drop_space(old.facts) {
            Err(StoreError::Full { .. }) => Ok(()), // Its place is cleared when it is used again.
            dropped => dropped,
        }
    }

    /// Where a copy that is being received goes: beside the one in use. What was left there by an
    /// earlier attempt is removed.
    pub fn begin_copy(&self) -> Result<SpaceId, StoreError> {
        let used = self.facts();
        let taken = self.store.fact(self.pointer(), SHARED)?.unwrap_or_default();
        let next = |copy: u8| if copy + 1 == POINTER { 0 } else { copy + 1 };
        let mut copy = next(used.copy);
        while taken.contains(&copy) && copy != used.copy {
            copy = next(copy);
        }
        let fresh = SpaceId { copy, ..used };
        self.store.drop_space(fresh)?;
        Ok(fresh)
    }

    /// Adds to a copy that is being received.
    pub fn extend_copy(
        &self,
        copy: SpaceId,
        versions: Vec<StoredVersion>,
    ) -> Result<(), StoreError> {
        self.store.apply(Batch { space: copy, versions, ..Batch::default() })
    }

    /// The copy is complete up to here, and durable when this returns.
    pub fn end_copy(&self, copy: SpaceId, extent: Extent) -> Result<(), StoreError> {
        let mut facts = extent.facts(copy);
        facts.push((copy, HORIZON, extent.horizon.to_be_bytes().to_vec()));
        self.store.apply_durably(Batch { space: copy, facts, ..Batch::default() })
    }

    /// A copy takes the place of what is in use, durably. Called within a step of the shard's
    /// machine: nothing is installed meanwhile. Splits that are not settled are, first: their
    /// children have the rows here, and may be alone with them. Those that the copy tells of are
    /// [told](Self::tell_children) when their births are known.
    pub fn use_copy(&self, copy: SpaceId, extent: Extent) -> Result<(), StoreError> {
        if self.expects() {
            self.settle(usize::MAX)?;
        }
        let _alone = self.settling.lock();
        let (old, pointer) = (*self.place.read(), self.pointer());
        let facts = vec![(pointer, COPY, vec![copy.copy]), (pointer, HOME, Vec::new())];
        // All or nothing: a pointer that is written but not in use would, after a crash, name a
        // copy that lacks what was settled since.
        self.store.apply_durably(Batch { space: pointer, facts, ..Batch::default() })?;
        *self.collecting.lock() = None;
        self.recent.reset(extent.position);
        self.recent.raise_horizon(extent.horizon);
        *self.place.write() = Place { facts: copy, versions: copy };
        self.terms.lock().clear();
        (*self.newest.lock(), *self.settled.lock()) = (extent.at, extent.at);
        *self.retained.lock() = Retained::since(extent.at);
        self.dirty.store(true, Ordering::Relaxed);
        self.read_bounds()?;
        self.has_come_to(extent.position);
        self.drop_unused(old)
    }
}
