//! The remains of a shard that this node has left, and the start of an empty replica.

use super::{AS_OF, COPY, HOME, LEFT, POINTER, Place, REMOVED, ShardStore, number};
use crate::rules;
use meridian_machine::planted::broken;
use meridian_mvcc::{Batch, KeyRange, SpaceId, Store, StoreError};
use std::sync::atomic::Ordering;

/// A child of a shard that this node has left. The node hears no more of it from the parent.
#[derive(Clone, Debug, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub struct OrphanedChild {
    /// The child.
    #[n(0)]
    pub child: u32,
    /// Its range at its birth.
    #[n(1)]
    pub bounds: KeyRange,
    /// The parent's record of the birth, as the caller encoded it; empty if there is none.
    #[n(2)]
    #[cbor(default, with = "minicbor::bytes")]
    pub split_origin: Vec<u8>,
}

impl ShardStore {
    /// Removes what this node has of the shard, which it has left as of an entry, except for
    /// versions that other shards point at. Durable when this returns. Flushes outstanding splits
    /// first: the children stay, with the records of their births.
    pub fn leave(
        &self,
        since: u64,
        split_origin: impl Fn(u32) -> Vec<u8>,
    ) -> Result<(), StoreError> {
        self.flush(usize::MAX)?;
        let _alone = self.flushing.lock();
        let (old, pointer, fresh) = (*self.place.read(), self.pointer(), self.begin_copy()?);
        let mut left = self.left()?;
        let children = self
            .children()?
            .into_iter()
            .filter(|(child, _)| left.iter().all(|known| known.child != *child));
        let children: Vec<OrphanedChild> = children
            .map(|(child, bounds)| OrphanedChild {
                child,
                bounds,
                split_origin: split_origin(child),
            })
            .collect();
        left.extend(children);
        let left = minicbor::to_vec(left).expect("invariant: writing to memory cannot fail");
        let facts = vec![
            (pointer, COPY, vec![fresh.copy]),
            (pointer, HOME, Vec::new()),
            (pointer, REMOVED, since.to_be_bytes().to_vec()),
            (pointer, LEFT, left),
        ];
        self.store.apply_durably(Batch { space: pointer, facts, ..Batch::default() })?;
        // Closed before anything is removed: a session that still holds this space gets an error
        // rather than an empty shard.
        self.closed.store(true, Ordering::Release);
        *self.collecting.lock() = None;
        self.memtable.reset(0);
        *self.place.write() = Place { facts: fresh, versions: fresh };
        self.drop_unused(old)
    }

    /// Marks a new, empty replica, which this node is to have as of an entry. From then on, a split
    /// cannot create it with versions any more. Durable when this returns.
    pub fn begin_empty(&self, since: u64) -> Result<(), StoreError> {
        self.awaits.store(since, Ordering::Release);
        let pointer = self.pointer();
        if self.store.fact(pointer, COPY)?.is_some() {
            return Ok(());
        }
        let facts = vec![(pointer, COPY, vec![self.facts().copy])];
        self.store.apply_durably(Batch { space: pointer, facts, ..Batch::default() })
    }

    /// Returns the children that were known here when this node left the shard's group.
    pub fn left(&self) -> Result<Vec<OrphanedChild>, StoreError> {
        let fact = self.store.fact(self.pointer(), LEFT)?;
        fact.map_or(Ok(Vec::new()), |bytes| {
            minicbor::decode(&bytes).map_err(|error| StoreError::Damaged {
                file: format!(
                    "what shard {} of database {} left behind",
                    self.shard, self.database
                ),
                what: error.to_string(),
            })
        })
    }

    /// Returns the entry that removed this node from a shard's group, if one did. A later entry may
    /// have added it again.
    pub fn removed(
        database: u32,
        shard: u32,
        store: &dyn Store,
    ) -> Result<Option<u64>, StoreError> {
        let fact = store.fact(SpaceId { database, shard, copy: POINTER }, REMOVED)?;
        Ok(fact.map(|bytes| u64::from_be_bytes(number(Some(bytes)))))
    }

    /// Closes the space when its replica is gone. After this returns, nothing is written through
    /// it, and reads in progress fail.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // After any flush or collection that is running.
        let _alone = self.flushing.lock();
        *self.collecting.lock() = None;
        self.memtable.reset(0);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns the epoch as of which the versions are valid, in databases without leaders.
    pub fn as_of(&self) -> Result<u32, StoreError> {
        Ok(u32::from_be_bytes(number(self.store.fact(self.pointer(), AS_OF)?)))
    }

    /// Removes everything in one step that is durable when this returns, and returns an empty
    /// space, which is valid as of an epoch.
    pub fn discard(self, as_of: u32) -> Result<ShardStore, StoreError> {
        self.close();
        let (old, pointer, fresh) = (*self.place.read(), self.pointer(), self.begin_copy()?);
        let facts =
            vec![(pointer, COPY, vec![fresh.copy]), (pointer, AS_OF, as_of.to_be_bytes().to_vec())];
        self.store.apply_durably(Batch { space: pointer, facts, ..Batch::default() })?;
        self.drop_unused(old)?;
        ShardStore::open_with(self.database, self.shard, self.bounds(), self.store)
    }

    /// Makes everything installed here durable. The catalog does this before anything of a dropped
    /// database is removed, in the log or in the store: a node that began again with an older row
    /// would open the database, and find a log whose beginning is in no store.
    pub fn settle(&self) -> Result<(), StoreError> {
        if broken(rules::FORGOTTEN_BEFORE_ROW) {
            return Ok(());
        }
        self.flush(usize::MAX)?;
        self.store.checkpoint()
    }

    /// Removes everything, because the database is dropped. The row that says so is durable.
    pub fn forget(&self) -> Result<(), StoreError> {
        let _alone = self.flushing.lock();
        *self.collecting.lock() = None;
        self.memtable.reset(0);
        // Every copy: one that is no longer in use may be left since a crash.
        let first = SpaceId { copy: 0, ..self.facts() };
        self.store.drop_spaces(first..=SpaceId { copy: u8::MAX, ..first })
    }
}
