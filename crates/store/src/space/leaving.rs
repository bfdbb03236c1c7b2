//! What stays of a shard when this node is no member any more, and how a member begins with
//! nothing.

use super::{AS_OF, COPY, HOME, LEFT, POINTER, Place, REMOVED, SHARED, Space, number};
use meridian_mvcc::{Batch, KeyRange, SpaceId, Store, StoreError};
use std::sync::atomic::Ordering;

/// A child of a shard that this node has left. It is told no more of it.
#[derive(Clone, Debug, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub struct Left {
    /// Which shard.
    #[n(0)]
    pub child: u32,
    /// With which keys it began.
    #[n(1)]
    pub bounds: KeyRange,
    /// What the parent knew of its beginning, as the owner wrote it; nothing, if it knew nothing.
    #[n(2)]
    #[cbor(default, with = "minicbor::bytes")]
    pub birth: Vec<u8>,
}

impl Space {
    /// This node is no member of the shard's group since an entry: what it has of the shard goes,
    /// but for what other shards point at. Durable when this returns. Splits that are not settled
    /// are, first: who was split off stays, and what is known of its birth.
    pub fn leave(&self, since: u64, birth: impl Fn(u32) -> Vec<u8>) -> Result<(), StoreError> {
        self.settle(usize::MAX)?;
        let _alone = self.settling.lock();
        let (old, pointer, fresh) = (*self.place.read(), self.pointer(), self.begin_copy()?);
        let mut left = self.left()?;
        let children = self
            .children()?
            .into_iter()
            .filter(|(child, _)| left.iter().all(|known| known.child != *child));
        let children: Vec<Left> =
            children.map(|(child, bounds)| Left { child, bounds, birth: birth(child) }).collect();
        left.extend(children);
        let left = minicbor::to_vec(left).expect("invariant: writing to memory cannot fail");
        let facts = vec![
            (pointer, COPY, vec![fresh.copy]),
            (pointer, HOME, Vec::new()),
            (pointer, REMOVED, since.to_be_bytes().to_vec()),
            (pointer, LEFT, left),
        ];
        self.store.apply_durably(Batch { space: pointer, facts, ..Batch::default() })?;
        // Before anything is gone: a session that still holds this reads nothing rather than an
        // empty shard.
        self.closed.store(true, Ordering::Release);
        *self.collecting.lock() = None;
        self.recent.reset(0);
        *self.place.write() = Place { facts: fresh, versions: fresh };
        self.drop_unused(old)
    }

    /// This node is to have a member of the shard, by an entry, and nothing of it yet: a split that
    /// would bring it is too late. Durable when this returns.
    pub fn begin_empty(&self, since: u64) -> Result<(), StoreError> {
        self.awaits.store(since, Ordering::Release);
        let pointer = self.pointer();
        if self.store.fact(pointer, COPY)?.is_some() {
            return Ok(());
        }
        let facts = vec![(pointer, COPY, vec![self.facts().copy])];
        self.store.apply_durably(Batch { space: pointer, facts, ..Batch::default() })
    }

    /// Children of which it was known here that they were born, before this node left the shard's
    /// group.
    pub fn left(&self) -> Result<Vec<Left>, StoreError> {
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

    /// The entry since which this node is no member of a shard's group, if it was one and is none;
    /// an entry above it may have made it one again.
    pub fn removed(
        database: u32,
        shard: u32,
        store: &dyn Store,
    ) -> Result<Option<u64>, StoreError> {
        let fact = store.fact(SpaceId { database, shard, copy: POINTER }, REMOVED)?;
        Ok(fact.map(|bytes| u64::from_be_bytes(number(Some(bytes)))))
    }

    /// Its replica is gone: when this returns, nothing is written through this any more, and a read
    /// that is under way fails.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Behind whatever is being settled or collected.
        let _alone = self.settling.lock();
        *self.collecting.lock() = None;
        self.recent.reset(0);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The epoch as of which what is here counts, where no group has the shard.
    pub fn as_of(&self) -> Result<u32, StoreError> {
        Ok(u32::from_be_bytes(number(self.store.fact(self.pointer(), AS_OF)?)))
    }

    /// Lets go of everything, in one step that is durable when this returns: what comes to stand
    /// here counts as of an epoch. An empty space takes its place.
    pub fn let_go(self, as_of: u32) -> Result<Space, StoreError> {
        self.close();
        let (old, pointer, fresh) = (*self.place.read(), self.pointer(), self.begin_copy()?);
        let facts =
            vec![(pointer, COPY, vec![fresh.copy]), (pointer, AS_OF, as_of.to_be_bytes().to_vec())];
        self.store.apply_durably(Batch { space: pointer, facts, ..Batch::default() })?;
        self.drop_unused(old)?;
        Space::open_with(self.database, self.shard, self.bounds(), self.store)
    }

    /// Removes everything: the database is dropped.
    pub fn forget(&self) -> Result<(), StoreError> {
        let _alone = self.settling.lock();
        *self.collecting.lock() = None;
        self.recent.reset(0);
        let used = self.facts();
        for copy in self.store.fact(self.pointer(), SHARED)?.unwrap_or_default() {
            self.store.drop_space(SpaceId { copy, ..used })?;
        }
        self.store.drop_space(used)?;
        self.store.drop_space(self.pointer())
    }
}
