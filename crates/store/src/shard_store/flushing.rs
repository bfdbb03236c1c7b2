//! Flushing versions from memory to the store, and collecting old ones.

use super::{Extent, ShardStore};
use meridian_clock::Timestamp;
use meridian_mvcc::{
    Batch, Collector, HORIZON, Key, KeyRange, Retained, StoreError, StoredVersion, Version, Write,
    local,
};
use std::sync::atomic::Ordering;

impl ShardStore {
    /// Returns the term of an entry that is still in Recent.
    pub(super) fn term_of(&self, position: u64) -> Option<u64> {
        let terms = self.terms.lock();
        terms.iter().find(|(last, _)| position <= *last).map(|(_, term)| *term)
    }

    pub(super) fn forget_terms(&self, through: u64) {
        let mut terms = self.terms.lock();
        while terms.pop_front_if(|(last, _)| *last <= through).is_some() {}
    }

    /// Flushes everything in Recent to the store, in batches. Returns the number of bytes.
    pub fn flush(&self, batch_bytes: usize) -> Result<usize, StoreError> {
        let mut moved = 0;
        let until = self.memtable.position();
        loop {
            let _alone = self.flushing.lock();
            if self.is_closed() {
                return Ok(moved);
            }
            let flushing = self.memtable.flush_batch(batch_bytes);
            let Some(newest) = flushing.installs.iter().map(|(at, _)| *at).max() else {
                return Ok(moved);
            };
            let versions = flushing.installs.iter().flat_map(|(at, writes)| {
                let version = |write: &Write| Version { at: *at, value: write.value.clone() };
                writes.iter().map(move |write| StoredVersion {
                    key: write.key.clone(),
                    version: version(write),
                })
            });
            let term = self.term_of(flushing.position).unwrap_or_default();
            let mut flushed = self.flushed.lock();
            let newest = newest.max(*flushed); // Prepared transactions may commit out of order.
            let extent =
                Extent { position: flushing.position, term, at: newest, horizon: Timestamp::ZERO };
            let (versions, facts) = (versions.collect(), extent.facts(self.facts()));
            let mut batch = Batch { space: self.versions(), versions, removals: Vec::new(), facts };
            let created =
                self.create_children(flushing.position, self.memtable.horizon(), &mut batch)?;
            // A child's log records are useless without its birth.
            if created.is_empty() {
                self.store.apply(batch)?
            } else {
                self.store.apply_durably(batch)?
            }
            *flushed = newest;
            self.pending_children.lock().drain(..created.len());
            self.created.lock().extend(created);
            self.dirty.store(true, Ordering::Relaxed);
            self.forget_terms(flushing.position);
            self.memtable.flushed(&flushing);
            // Entries without writes count, too.
            moved += flushing.bytes + flushing.installs.len();
            if flushing.position >= until {
                return Ok(moved);
            }
        }
    }

    /// Returns the shard's ranges of the space that holds its versions, in order, given its bounds.
    pub(super) fn ranges(&self, bounds: &KeyRange) -> Vec<KeyRange> {
        let all = local::all();
        let below = KeyRange { start: Key::default(), end: Some(all.start.clone()) };
        let above = KeyRange { start: all.end.unwrap_or_default(), end: None };
        let ranges = [bounds.common(&below), local::of(self.shard), bounds.common(&above)];
        ranges.into_iter().filter(|range| !range.is_empty()).collect()
    }

    /// Continues to remove versions that are not needed for reads at timestamps that were `closed`
    /// within the last `retention_ns` ([`Retained`]). Looks at about `budget_bytes` of versions. A
    /// pass starts when there may be something to remove and the horizon has moved. Returns true if
    /// a pass ended.
    pub fn collect(
        &self,
        now_ns: u64,
        retention_ns: u64,
        closed: Timestamp,
        budget_bytes: usize,
    ) -> Result<bool, StoreError> {
        let _alone = self.flushing.lock();
        if self.is_closed() {
            return Ok(false);
        }
        let mut collecting = self.collecting.lock();
        // Entries still to be installed here are newer than the installed ones: a lagging replica
        // collects less.
        let horizon =
            self.retained.lock().horizon(now_ns, retention_ns, closed).min(*self.newest.lock());
        if collecting.is_none() {
            let step_ns = retention_ns / (Retained::STEPS / 2);
            let moved = horizon.nanos > self.memtable.horizon().nanos.saturating_add(step_ns);
            if !moved || !self.dirty.swap(false, Ordering::Relaxed) {
                return Ok(false);
            }
        }
        let begin = || {
            Collector::within(
                &self.memtable,
                self.versions(),
                self.facts(),
                self.ranges(&self.bounds()),
                horizon,
            )
        };
        let collector = collecting.get_or_insert_with(begin);
        let mut left = budget_bytes;
        while left > 0 {
            let step = left.min(1 << 20);
            left -= step;
            let Some(batch) = collector.step(&*self.store.snapshot()?, step)? else {
                *collecting = None;
                return Ok(true);
            };
            if batch.removals.is_empty() {
                continue;
            }
            if let Err(error) = self.store.apply(batch) {
                // The next pass looks at this batch's versions again.
                *collecting = None;
                self.dirty.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(false)
    }

    /// Refuses reads below a timestamp from now on. [`Self::keep_horizon`] makes this durable, once
    /// the versions at the timestamp are flushed.
    pub fn raise_horizon(&self, to: Timestamp) {
        self.memtable.raise_horizon(to);
    }

    /// Makes the present horizon durable.
    pub fn keep_horizon(&self) -> Result<(), StoreError> {
        let _alone = self.flushing.lock();
        if self.is_closed() {
            return Ok(());
        }
        let space = self.facts();
        let facts = vec![(space, HORIZON, self.memtable.horizon().to_be_bytes().to_vec())];
        self.store.apply_durably(Batch { space, facts, ..Batch::default() })
    }
}
