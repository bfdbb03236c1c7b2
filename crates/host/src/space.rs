//! What one shard keeps on this node: Recent in front, the store behind.
//!
//! Invariants:
//! 1. What is installed is readable at once; it leaves Recent only after the store shows it.
//! 2. Each batch carries the position up to which it is complete, so that a node that comes back knows where to go on.
//! 3. Settling and replacing never meet: a snapshot is not mixed with what it replaces.

use meridian_clock::Timestamp;
use meridian_log::MachineKey;
use meridian_mvcc::{Batch, Chunk, KeyRange, Page, Recent, SpaceId, Store, StoreError, StoredVersion, Version, Write};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

const APPLIED: &str = "applied";
const APPLIED_TERM: &str = "applied term";
const APPLIED_AT: &str = "applied at";

/// A shard's versions.
pub struct Space {
    id: SpaceId,
    recent: Recent,
    store: Arc<dyn Store>,
    settling: Mutex<()>,
    /// The terms of what is in Recent, by position; empty where nobody agrees.
    terms: Mutex<VecDeque<(u64, u64)>>,
}

impl Space {
    /// The space of a shard in a store.
    pub fn new(key: MachineKey, store: Arc<dyn Store>) -> Self {
        let id = SpaceId { database: key.database, shard: key.shard };
        Space { id, recent: Recent::new(), store, settling: Mutex::new(()), terms: Mutex::default() }
    }

    /// Which it is.
    pub fn id(&self) -> SpaceId {
        self.id
    }

    /// The position up to which the store is complete.
    pub fn applied(&self) -> Result<u64, StoreError> {
        let fact = self.store.fact(self.id, APPLIED)?;
        Ok(fact.and_then(|bytes| Some(u64::from_be_bytes(bytes.try_into().ok()?))).unwrap_or(0))
    }

    /// The term of the entry at that position.
    pub fn applied_term(&self) -> Result<u64, StoreError> {
        let fact = self.store.fact(self.id, APPLIED_TERM)?;
        Ok(fact.and_then(|bytes| Some(u64::from_be_bytes(bytes.try_into().ok()?))).unwrap_or(0))
    }

    /// The newest commit timestamp that the store holds.
    pub fn applied_at(&self) -> Result<Timestamp, StoreError> {
        let fact = self.store.fact(self.id, APPLIED_AT)?;
        Ok(fact.and_then(|bytes| Some(Timestamp::from_be_bytes(bytes.try_into().ok()?))).unwrap_or(Timestamp::ZERO))
    }

    /// Makes the writes of one agreed entry readable.
    pub fn install_in_term(&self, at: Timestamp, writes: &[Write], position: u64, term: u64) {
        self.terms.lock().push_back((position, term));
        self.recent.install(at, writes, position);
    }

    /// The term of the entry at a position.
    fn term_of(&self, position: u64) -> Option<u64> {
        let terms = self.terms.lock();
        let beyond = terms.partition_point(|(known, _)| *known <= position);
        beyond.checked_sub(1).map(|place| terms[place].1)
    }

    fn forget_terms(&self, through: u64) {
        let mut terms = self.terms.lock();
        while terms.pop_front_if(|(known, _)| *known <= through).is_some() {}
    }

    /// Makes the writes of one commit readable.
    pub fn install(&self, at: Timestamp, writes: &[Write], position: u64) {
        self.recent.install(at, writes, position);
    }

    /// The newest version of a key at or below a timestamp.
    pub fn get(&self, key: &[u8], at: Timestamp) -> Result<Option<Version>, StoreError> {
        meridian_mvcc::read(&self.recent, &*self.store, self.id, key, at)
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
        meridian_mvcc::scan(&self.recent, &*self.store, self.id, range, at, reverse, limit_rows, limit_bytes)
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
            if settling.installs.is_empty() {
                return Ok(moved);
            }
            let versions = settling.installs.iter().flat_map(|(at, writes)| {
                let version = |write: &Write| Version { at: *at, value: write.value.clone() };
                writes.iter().map(move |write| StoredVersion { key: write.key.clone(), version: version(write) })
            });
            let mut facts = vec![(APPLIED, settling.position.to_be_bytes().to_vec())];
            if let Some(term) = self.term_of(settling.position) {
                facts.push((APPLIED_TERM, term.to_be_bytes().to_vec()));
            }
            if let Some((at, _)) = settling.installs.last() {
                facts.push((APPLIED_AT, at.to_be_bytes().to_vec()));
            }
            let versions = versions.collect();
            self.store.apply(Batch { space: self.id, versions, removals: Vec::new(), facts })?;
            self.forget_terms(settling.position);
            self.recent.settled(&settling);
            moved += settling.bytes;
            if settling.position >= until {
                return Ok(moved);
            }
        }
    }

    /// A page of every version, for whoever has to be sent all of them. What is in Recent must have been settled.
    pub fn versions(&self, range: &KeyRange, limit_bytes: usize) -> Result<Page, StoreError> {
        self.store.snapshot()?.versions(self.id, range, limit_bytes)
    }

    /// Forgets everything: what another member sends replaces it.
    pub fn replace(&self, versions: Vec<StoredVersion>, position: u64) -> Result<(), StoreError> {
        let _alone = self.settling.lock();
        self.recent.reset(position);
        self.store.drop_space(self.id)?;
        let facts = vec![(APPLIED, position.to_be_bytes().to_vec())];
        self.store.apply(Batch { space: self.id, versions, removals: Vec::new(), facts })
    }

    /// Makes what was settled survive a crash.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        self.store.checkpoint()
    }

    /// Removes everything.
    pub fn forget(&self) -> Result<(), StoreError> {
        let _alone = self.settling.lock();
        self.recent.reset(0);
        self.store.drop_space(self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_mvcc::{Key, Value};
    use meridian_store::MemoryStore;

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, logical: 0, issuer: 1 }
    }

    #[test]
    fn what_is_settled_stays_readable_and_its_position_is_known() {
        let space = Space::new(MachineKey { database: 1, shard: 0 }, Arc::new(MemoryStore::new()));
        let key = Key::from(b"k".to_vec());
        for number in 1..=100u64 {
            let value = Some(Value::from(number.to_be_bytes().to_vec()));
            space.install(at(number), &[Write { key: key.clone(), value }], number);
            if number % 7 == 0 {
                space.settle(100).unwrap();
                assert_eq!(space.applied().unwrap(), number);
                assert_eq!(space.recent_bytes(), 0);
            }
            for earlier in 1..=number {
                let found = space.get(b"k", at(earlier)).unwrap().unwrap();
                assert_eq!(found.value.unwrap().to_vec(), earlier.to_be_bytes());
            }
        }
        space.replace(Vec::new(), 500).unwrap();
        assert_eq!(space.get(b"k", at(1000)).unwrap(), None);
        assert_eq!(space.applied().unwrap(), 500);
    }
}
