//! How versions move from memory to the store, and when old ones are removed.

use super::{Extent, Space};
use meridian_clock::Timestamp;
use meridian_mvcc::{
    Batch, Collector, HORIZON, Key, KeyRange, Retained, StoreError, StoredVersion, Version, Write,
    local,
};
use std::sync::atomic::Ordering;

impl Space {
    /// The term of the entry at a position that is still in Recent.
    pub(super) fn term_of(&self, position: u64) -> Option<u64> {
        let terms = self.terms.lock();
        terms.iter().find(|(last, _)| position <= *last).map(|(_, term)| *term)
    }

    pub(super) fn forget_terms(&self, through: u64) {
        let mut terms = self.terms.lock();
        while terms.pop_front_if(|(last, _)| *last <= through).is_some() {}
    }

    /// Moves everything in Recent to the store, in batches, and says how many bytes that was.
    pub fn settle(&self, batch_bytes: usize) -> Result<usize, StoreError> {
        let mut moved = 0;
        let until = self.recent.position();
        loop {
            let _alone = self.settling.lock();
            if self.is_closed() {
                return Ok(moved);
            }
            let settling = self.recent.settling(batch_bytes);
            let Some(newest) = settling.installs.iter().map(|(at, _)| *at).max() else {
                return Ok(moved);
            };
            let versions = settling.installs.iter().flat_map(|(at, writes)| {
                let version = |write: &Write| Version { at: *at, value: write.value.clone() };
                writes.iter().map(move |write| StoredVersion {
                    key: write.key.clone(),
                    version: version(write),
                })
            });
            let term = self.term_of(settling.position).unwrap_or_default();
            let mut settled = self.settled.lock();
            let newest = newest.max(*settled); // Outcomes of prepared transactions come late.
            let extent =
                Extent { position: settling.position, term, at: newest, horizon: Timestamp::ZERO };
            let (versions, facts) = (versions.collect(), extent.facts(self.facts()));
            let mut batch = Batch { space: self.versions(), versions, removals: Vec::new(), facts };
            let born = self.bear(settling.position, self.recent.horizon(), &mut batch)?;
            // What a child writes to the log is of no use without its birth.
            if born.is_empty() {
                self.store.apply(batch)?
            } else {
                self.store.apply_durably(batch)?
            }
            *settled = newest;
            self.births.lock().drain(..born.len());
            self.born.lock().extend(born);
            self.dirty.store(true, Ordering::Relaxed);
            self.forget_terms(settling.position);
            self.recent.settled(&settling);
            // a ceiling has few bytes, and moves too
            moved += settling.bytes + settling.installs.len();
            if settling.position >= until {
                return Ok(moved);
            }
        }
    }

    /// Its ranges of the space where its versions are, in order, if these are its bounds.
    pub(super) fn ranges(&self, bounds: &KeyRange) -> Vec<KeyRange> {
        let all = local::all();
        let below = KeyRange { start: Key::default(), end: Some(all.start.clone()) };
        let above = KeyRange { start: all.end.unwrap_or_default(), end: None };
        let ranges = [bounds.common(&below), local::of(self.shard), bounds.common(&above)];
        ranges.into_iter().filter(|range| !range.is_empty()).collect()
    }

    /// Goes on removing what nobody needs who reads what was `closed` within the last
    /// `retention_ns` ([`Retained`]): looks at about `budget_bytes` of versions. A pass begins when
    /// there may be something to remove and the horizon has moved; true if one ended.
    pub fn collect(
        &self,
        now_ns: u64,
        retention_ns: u64,
        closed: Timestamp,
        budget_bytes: usize,
    ) -> Result<bool, StoreError> {
        let _alone = self.settling.lock();
        if self.is_closed() {
            return Ok(false);
        }
        let mut collecting = self.collecting.lock();
        // What is still to be installed here is newer than what was: a member that lags collects
        // less.
        let horizon =
            self.retained.lock().horizon(now_ns, retention_ns, closed).min(*self.newest.lock());
        if collecting.is_none() {
            let step_ns = retention_ns / (Retained::STEPS / 2);
            let moved = horizon.nanos > self.recent.horizon().nanos.saturating_add(step_ns);
            if !moved || !self.dirty.swap(false, Ordering::Relaxed) {
                return Ok(false);
            }
        }
        let begin = || {
            Collector::within(
                &self.recent,
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
                // What this batch was to remove, the next pass looks at again.
                *collecting = None;
                self.dirty.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(false)
    }

    /// What stood below this is not here, and is refused from now on. To be
    /// [kept](Self::keep_horizon) once what stands at it is settled.
    pub fn raise_horizon(&self, to: Timestamp) {
        self.recent.raise_horizon(to);
    }

    /// The same for ever: durable when this returns.
    pub fn keep_horizon(&self) -> Result<(), StoreError> {
        let _alone = self.settling.lock();
        if self.is_closed() {
            return Ok(());
        }
        let space = self.facts();
        let facts = vec![(space, HORIZON, self.recent.horizon().to_be_bytes().to_vec())];
        self.store.apply_durably(Batch { space, facts, ..Batch::default() })
    }
}
