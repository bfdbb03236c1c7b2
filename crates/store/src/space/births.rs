//! How a shard that is split off from another begins in the store: where its versions are already.

use super::{APPLIED, BORN_AT, COPY, Extent, HOME, REMOVED, SHARED, Space};
use meridian_clock::Timestamp;
use meridian_mvcc::{
    Batch, HORIZON, Key, KeyRange, SpaceId, StoreError, StoredVersion, Value, Version, Write, local,
};

/// From a key on the keys of a shard become another shard's.
#[derive(Clone, Debug)]
pub struct Split {
    /// When.
    pub at: Timestamp,
    /// The first key of the other shard.
    pub key: Key,
    /// The other shard.
    pub child: u32,
    /// What either shard keeps of it.
    pub rows: Vec<Write>,
    /// This node has none of the child's versions, because it keeps none of the parent's, and its
    /// member of the child would have to have them: it is told of a birth, and no more.
    pub hollow: bool,
}

/// A split that the store does not know of yet.
pub(super) struct Birth {
    /// The parent's.
    pub(super) position: u64,
    pub(super) child: u32,
    pub(super) bounds: KeyRange,
    pub(super) at: Timestamp,
    /// What it knows of itself at its birth.
    pub(super) rows: Vec<Write>,
    pub(super) hollow: bool,
}

impl Space {
    /// What parts of it became, as far as they were settled: which shards, with which keys.
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

    /// The children that the store knows of since this was last asked.
    pub fn born(&self) -> Vec<(u32, KeyRange)> {
        std::mem::take(&mut self.born.lock())
    }

    /// From an agreed entry on, the keys from `key` on are another shard's. It is born when this is
    /// settled, with those of the rows that are its own.
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
        self.births.lock().push_back(Birth {
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

    /// What the store is told of children in the batch that passes their splits.
    pub(super) fn bear(
        &self,
        through: u64,
        horizon: Timestamp,
        batch: &mut Batch,
    ) -> Result<Vec<(u32, KeyRange)>, StoreError> {
        let (births, home) = (self.births.lock(), self.versions());
        let mut born = Vec::new();
        for Birth { child, bounds, at, rows, hollow, .. } in
            births.iter().take_while(|birth| birth.position <= through)
        {
            if *hollow || self.has_been_born(*child)? {
                // This node has nothing of it; or it left the parent, came back, and reads in its
                // log of what it knows better.
                born.push((*child, bounds.clone()));
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
            born.push((*child, bounds.clone()));
        }
        if !born.is_empty() {
            let owner = SpaceId { shard: home.shard, ..self.pointer() };
            let mut shared = self.store.fact(owner, SHARED)?.unwrap_or_default();
            if !shared.contains(&home.copy) {
                shared.push(home.copy);
                batch.facts.push((owner, SHARED, shared));
            }
        }
        Ok(born)
    }

    /// Whether the store has, or had, something of a child.
    pub(super) fn has_been_born(&self, child: u32) -> Result<bool, StoreError> {
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

    /// A split waits to be settled.
    pub fn expects(&self) -> bool {
        !self.births.lock().is_empty()
    }

    /// The split that bears this child does.
    pub fn expects_child(&self, child: u32) -> bool {
        self.births.lock().iter().any(|birth| birth.child == child)
    }

    /// Everybody who was split off, as a copy that is in use now has it, is born as far as this
    /// node knows.
    pub fn tell_children(&self) -> Result<(), StoreError> {
        let children = self.children()?;
        self.born.lock().extend(children);
        Ok(())
    }

    /// One that could not be begun is told of again.
    pub fn bear_again(&self, child: u32, bounds: KeyRange) {
        self.born.lock().push((child, bounds));
    }
}
