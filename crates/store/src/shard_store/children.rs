//! The birth of a shard that is split off: in the store it starts with a pointer to its versions.

use super::{APPLIED, BORN_AT, COPY, Extent, HOME, REMOVED, SHARED, ShardStore};
use meridian_clock::Timestamp;
use meridian_mvcc::{
    Batch, HORIZON, Key, KeyRange, SpaceId, StoreError, StoredVersion, Value, Version, Write, local,
};

/// A split: from a key on, the keys of a shard become another shard's.
#[derive(Clone, Debug)]
pub struct Split {
    /// The timestamp of the split.
    pub at: Timestamp,
    /// The first key of the other shard.
    pub key: Key,
    /// The other shard.
    pub child: u32,
    /// The rows that the two shards keep about it.
    pub rows: Vec<Write>,
    /// True if this node has no versions of the parent but its replica of the child needs them:
    /// then the child is reported and not created.
    pub hollow: bool,
}

/// A split that the store does not have yet.
pub(super) struct PendingChild {
    /// The parent's log position.
    pub(super) position: u64,
    pub(super) child: u32,
    pub(super) bounds: KeyRange,
    pub(super) at: Timestamp,
    /// The child's own rows at its birth.
    pub(super) rows: Vec<Write>,
    pub(super) hollow: bool,
}

impl ShardStore {
    /// Returns the flushed children of this shard, with their ranges.
    pub fn children(&self) -> Result<Vec<(u32, KeyRange)>, StoreError> {
        let rows = self.store.snapshot()?.scan(
            self.versions(),
            &local::children(self.shard),
            Timestamp::MAX,
            false,
            usize::MAX,
            usize::MAX,
        )?;
        let child =
            |row: &StoredVersion| Some((local::child_of(&row.key)?, row.version.value.clone()?));
        rows.versions
            .iter()
            .filter_map(child)
            .map(|(child, value)| Ok((child, self.range_in(&value)?)))
            .collect()
    }

    /// Returns the children that came into the store since the last call.
    pub fn created(&self) -> Vec<(u32, KeyRange)> {
        std::mem::take(&mut self.created.lock())
    }

    /// Installs a split: from a committed entry on, the keys from `key` on are another shard's. The
    /// child is created in the store, with its own rows, when the split is flushed.
    pub fn divide(&self, split: Split, position: u64, term: u64) {
        let Split { at, key, child, rows, hollow } = split;
        let value = |range: &KeyRange| {
            Some(Value::from(
                minicbor::to_vec(range).expect("invariant: writing to memory cannot fail"),
            ))
        };
        let mut bounds = self.bounds.write();
        let (kept, given) = bounds.clone().cut(&key);
        let (its, mut own): (Vec<Write>, Vec<Write>) =
            rows.into_iter().partition(|row| local::of(child).contains(&row.key));
        own.push(Write { key: local::bounds(self.shard), value: value(&kept) });
        own.push(Write { key: local::child(self.shard, child), value: value(&given) });
        *bounds = kept;
        self.pending_children.lock().push_back(PendingChild {
            position,
            child,
            bounds: given,
            at,
            rows: its,
            hollow,
        });
        drop(bounds);
        self.install(at, &own, position, term);
    }

    /// Adds the births of children to the batch that passes their splits.
    pub(super) fn create_children(
        &self,
        through: u64,
        horizon: Timestamp,
        batch: &mut Batch,
    ) -> Result<Vec<(u32, KeyRange)>, StoreError> {
        let (pending_children, home) = (self.pending_children.lock(), self.versions());
        let mut created = Vec::new();
        for PendingChild { child, bounds, at, rows, hollow, .. } in
            pending_children.iter().take_while(|split_origin| split_origin.position <= through)
        {
            if *hollow || self.child_exists(*child)? {
                // This node has no versions of the child, or has a newer state of it: it left the
                // parent, came back, and replays an old split.
                created.push((*child, bounds.clone()));
                continue;
            }
            let (pointer, facts) =
                (SpaceId { shard: *child, ..self.pointer() }, SpaceId::new(self.database, *child));
            let extent = Extent { position: BORN_AT.0, term: BORN_AT.1, at: *at, horizon };
            let whereabouts = [&home.shard.to_be_bytes()[..], &[home.copy]].concat();
            batch.facts.extend(extent.facts(facts));
            batch.facts.push((facts, HORIZON, horizon.to_be_bytes().to_vec()));
            batch.facts.push((pointer, HOME, whereabouts));
            let value = Some(Value::from(
                minicbor::to_vec(bounds).expect("invariant: writing to memory cannot fail"),
            ));
            batch.versions.push(StoredVersion {
                key: local::bounds(*child),
                version: Version { at: *at, value },
            });
            batch.versions.extend(rows.iter().map(|Write { key, value }| StoredVersion {
                key: key.clone(),
                version: Version { at: *at, value: value.clone() },
            }));
            created.push((*child, bounds.clone()));
        }
        if !created.is_empty() {
            let owner = SpaceId { shard: home.shard, ..self.pointer() };
            let mut shared = self.store.fact(owner, SHARED)?.unwrap_or_default();
            if !shared.contains(&home.copy) {
                shared.push(home.copy);
                batch.facts.push((owner, SHARED, shared));
            }
        }
        Ok(created)
    }

    /// True if the store has, or had, something of a child.
    pub(super) fn child_exists(&self, child: u32) -> Result<bool, StoreError> {
        let (pointer, facts) =
            (SpaceId { shard: child, ..self.pointer() }, SpaceId::new(self.database, child));
        let told = [(pointer, HOME), (pointer, COPY), (pointer, REMOVED), (facts, APPLIED)];
        for (space, fact) in told {
            if self.store.fact(space, fact)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if a split waits to be flushed.
    pub fn expects(&self) -> bool {
        !self.pending_children.lock().is_empty()
    }

    /// True if the split that creates this child waits to be flushed.
    pub fn expects_child(&self, child: u32) -> bool {
        self.pending_children.lock().iter().any(|split_origin| split_origin.child == child)
    }

    /// Reports all children that the copy in use names.
    pub fn list_children(&self) -> Result<(), StoreError> {
        let children = self.children()?;
        self.created.lock().extend(children);
        Ok(())
    }

    /// Reports a child again whose replica could not be started.
    pub fn retry_child(&self, child: u32, bounds: KeyRange) {
        self.created.lock().push((child, bounds));
    }
}
