//! What one shard keeps on this node: Recent in front, the store behind.
//!
//! ```text
//!   split at key:   installs   bounds, child ──▶ Recent ── settle ──▶ store: … and the child's birth, in the batch that passes the split
//!   child:          points at the space where its versions are already; what it writes goes there, too
//! ```
//!
//! Invariants:
//! 1. What is installed is readable at once; it leaves Recent only after the store shows it.
//! 2. Each batch carries the position up to which it is complete, so that a node that comes back
//!    knows where to go on.
//! 3. Settling, collecting and replacing never meet: a copy is not mixed with what it replaces.
//! 4. A copy that is received whole is written beside the one in use, and takes its place in one
//!    step once it is durable.
//! 5. A child is born in the store exactly if its parent's position has passed the split; durably,
//!    before anything of it is in the log.
//! 6. A space that another shard points at, or did, is not removed before its database is.
//! 7. A space that is closed serves nothing and writes nothing, whichever thread still holds it:
//!    what stands in its place is another's.
//! 8. Of a shard that this node is no member of any more it keeps since when, so that it does not
//!    come back with nothing as the one that it was.

use crate::rules;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_mvcc::{
    Batch, Chunk, Collector, Cursor, HORIZON, Key, KeyRange, Recent, Retained, Snapshot, SpaceId,
    Store, StoreError, StoredVersion, Value, Version, Write, horizon, local,
};
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const APPLIED: &str = "applied";
const APPLIED_TERM: &str = "applied term";
const APPLIED_AT: &str = "applied at";
const COPY: &str = "copy in use";
/// Where a shard's versions are, if not in its own space.
const HOME: &str = "home";
/// Copies that other shards point at.
const SHARED: &str = "shared";
/// The entry since which this node is no member of the shard's group.
const REMOVED: &str = "removed";
/// The epoch as of which what a shard without leader has here counts.
const AS_OF: &str = "as of";
/// The children that it had then.
const LEFT: &str = "left";
/// The copy that never holds versions, only the facts which one is in use.
const POINTER: u8 = u8::MAX;
/// The place in its log at which a child is born: what came before is in the store.
const BORN_AT: (u64, u64) = (1, 1);

/// How far a shard's versions go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub struct Extent {
    /// The last agreed entry that is in it.
    #[n(0)]
    pub position: u64,
    /// That entry's term.
    #[n(1)]
    pub term: u64,
    /// The newest timestamp that was agreed up to there.
    #[n(2)]
    pub at: Timestamp,
    /// The oldest timestamp that can be read.
    #[n(3)]
    pub horizon: Timestamp,
}

impl Extent {
    fn facts(&self, of: SpaceId) -> Vec<(SpaceId, &'static str, Vec<u8>)> {
        vec![
            (of, APPLIED, self.position.to_be_bytes().to_vec()),
            (of, APPLIED_TERM, self.term.to_be_bytes().to_vec()),
            (of, APPLIED_AT, self.at.to_be_bytes().to_vec()),
        ]
    }
}

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
struct Birth {
    /// The parent's.
    position: u64,
    child: u32,
    bounds: KeyRange,
    at: Timestamp,
    /// What it knows of itself at its birth.
    rows: Vec<Write>,
    hollow: bool,
}

/// Where things are in the store.
#[derive(Clone, Copy)]
struct Place {
    /// Whose facts.
    facts: SpaceId,
    /// Where the versions are.
    versions: SpaceId,
}

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

/// A shard's versions.
pub struct Space {
    database: u32,
    shard: u32,
    place: RwLock<Place>,
    /// Which keys it has.
    bounds: RwLock<KeyRange>,
    /// Splits that the store does not know of yet, oldest first; and children that it knows of
    /// since the last look.
    births: Mutex<VecDeque<Birth>>,
    born: Mutex<Vec<(u32, KeyRange)>>,
    recent: Recent,
    store: Arc<dyn Store>,
    settling: Mutex<()>,
    /// The terms of what is in Recent, by position.
    terms: Mutex<VecDeque<(u64, u64)>>,
    /// The newest timestamp that was installed, and that was settled.
    newest: Mutex<Timestamp>,
    settled: Mutex<Timestamp>,
    collecting: Mutex<Option<Collector>>,
    /// How far its horizon may go.
    retained: Mutex<Retained>,
    /// Something was settled since the last pass of collection began.
    dirty: AtomicBool,
    /// Its replica is gone.
    closed: AtomicBool,
    /// The entry by which the member was invited, until the space has come to it; then 0.
    awaits: AtomicU64,
}

fn number<const N: usize>(bytes: Option<Vec<u8>>) -> [u8; N] {
    bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

impl Space {
    /// The space of a shard in a store, as far as the store knows it.
    pub fn open(database: u32, shard: u32, store: Arc<dyn Store>) -> Result<Self, StoreError> {
        Self::open_with(database, shard, KeyRange::all(), store)
    }

    /// The same for a shard that has these keys, if the store does not know better.
    pub fn open_with(
        database: u32,
        shard: u32,
        bounds: KeyRange,
        store: Arc<dyn Store>,
    ) -> Result<Self, StoreError> {
        let pointer = SpaceId { database, shard, copy: POINTER };
        let [copy] = number(store.fact(pointer, COPY)?);
        let facts = SpaceId { database, shard, copy };
        let home = store.fact(pointer, HOME)?.and_then(|bytes| <[u8; 5]>::try_from(bytes).ok());
        let versions = home.map_or(facts, |[a, b, c, d, copy]| SpaceId {
            database,
            shard: u32::from_be_bytes([a, b, c, d]),
            copy,
        });
        let mut space = Space {
            database,
            shard,
            place: RwLock::new(Place { facts, versions }),
            bounds: RwLock::new(bounds),
            births: Mutex::default(),
            born: Mutex::default(),
            recent: Recent::new(),
            store,
            settling: Mutex::new(()),
            terms: Mutex::default(),
            newest: Mutex::default(),
            settled: Mutex::default(),
            collecting: Mutex::default(),
            retained: Mutex::new(Retained::since(Timestamp::ZERO)),
            dirty: AtomicBool::new(true),
            closed: AtomicBool::new(false),
            awaits: AtomicU64::new(0),
        };
        let extent = space.extent()?;
        space.recent = Recent::before(extent.at, extent.horizon);
        (*space.newest.lock(), *space.settled.lock()) = (extent.at, extent.at);
        *space.retained.lock() = Retained::since(extent.at.max(extent.horizon));
        space.read_bounds()?;
        Ok(space)
    }

    /// Which shard of which database.
    pub fn id(&self) -> SpaceId {
        SpaceId::new(self.database, self.shard)
    }

    /// Which keys it has.
    pub fn bounds(&self) -> KeyRange {
        self.bounds.read().clone()
    }

    fn versions(&self) -> SpaceId {
        self.place.read().versions
    }

    fn facts(&self) -> SpaceId {
        self.place.read().facts
    }

    fn pointer(&self) -> SpaceId {
        SpaceId { database: self.database, shard: self.shard, copy: POINTER }
    }

    fn read_bounds(&self) -> Result<(), StoreError> {
        let row = meridian_mvcc::read(
            &self.recent,
            &*self.store,
            self.versions(),
            &local::bounds(self.shard),
            Timestamp::MAX,
        )?;
        if let Some(value) = row.and_then(|version| version.value) {
            *self.bounds.write() = self.range_in(&value)?;
        }
        Ok(())
    }

    fn range_in(&self, value: &Value) -> Result<KeyRange, StoreError> {
        minicbor::decode(value).map_err(|error| StoreError::Damaged {
            file: format!(
                "a row of shard {} of database {} about itself",
                self.shard, self.database
            ),
            what: error.to_string(),
        })
    }

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

    /// What the protocol keeps for itself, as of the last agreed entry that is here.
    pub fn protocol_rows(&self) -> Result<Vec<(Key, Value)>, StoreError> {
        let range = local::protocol_rows(self.shard);
        let (mut rows, mut rest) = (Vec::new(), Some(range));
        while let Some(range) = rest {
            let id = self.versions();
            let page = meridian_mvcc::scan(
                &self.recent,
                &*self.store,
                id,
                &range,
                Timestamp::MAX,
                false,
                1000,
                1 << 20,
            )?;
            rows.extend(page.rows);
            rest = page.rest;
        }
        Ok(rows)
    }

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

    /// How far the store goes.
    pub fn extent(&self) -> Result<Extent, StoreError> {
        let id = self.facts();
        Ok(Extent {
            position: u64::from_be_bytes(number(self.store.fact(id, APPLIED)?)),
            term: u64::from_be_bytes(number(self.store.fact(id, APPLIED_TERM)?)),
            at: Timestamp::from_be_bytes(number(self.store.fact(id, APPLIED_AT)?)),
            horizon: horizon(&*self.store, id)?,
        })
    }

    /// The store ends before what the log still has: it was emptied, or is an old copy. The log
    /// begins after `position`.
    pub fn lacks(&self, position: u64) -> StoreError {
        let what = match self.extent() {
            Ok(extent) => format!(
                "it ends at entry {} of shard {} of database {}, and the log begins after {position}: a node that is alone needs store and \
                 log from the same backup; one of several: leave it off, the others go on (a member cannot be replaced in this version)",
                extent.position, self.shard, self.database
            ),
            Err(error) => error.to_string(),
        };
        StoreError::Damaged { file: "the store".to_owned(), what }
    }

    /// Makes the writes of one agreed entry readable.
    pub fn install(&self, at: Timestamp, writes: &[Write], position: u64, term: u64) {
        {
            let mut terms = self.terms.lock();
            // One entry for each term is enough: they never fall.
            match terms.back_mut() {
                Some((newest, known)) if *known == term => *newest = position,
                _ => terms.push_back((position, term)),
            }
        }
        self.recent.install(at, writes, position);
        let mut newest = self.newest.lock();
        *newest = newest.max(at);
        drop(newest);
        self.has_come_to(position);
    }

    fn has_come_to(&self, position: u64) {
        if position >= self.awaits.load(Ordering::Relaxed) {
            self.awaits.store(0, Ordering::Release);
        }
    }

    /// Whether the member has begun with nothing, and has not come to its invitation yet. It has
    /// none of the snapshot that a session was reading at the member before it.
    pub fn is_behind(&self) -> bool {
        self.awaits.load(Ordering::Acquire) > 0 && !broken(rules::READS_NEWCOMER)
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
    fn bear(
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
    fn has_been_born(&self, child: u32) -> Result<bool, StoreError> {
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

    /// The term of the entry at a position that is still in Recent.
    fn term_of(&self, position: u64) -> Option<u64> {
        let terms = self.terms.lock();
        terms.iter().find(|(last, _)| position <= *last).map(|(_, term)| *term)
    }

    fn forget_terms(&self, through: u64) {
        let mut terms = self.terms.lock();
        while terms.pop_front_if(|(last, _)| *last <= through).is_some() {}
    }

    /// The newest version of a key at or below a timestamp.
    pub fn get(&self, key: &[u8], at: Timestamp) -> Result<Option<Version>, StoreError> {
        let found = meridian_mvcc::read(&self.recent, &*self.store, self.versions(), key, at)?;
        // After reading: who found the bounds as they were has found everything that was written
        // within them. What the shard keeps for itself lies within no bounds.
        if self.is_closed() {
            Err(StoreError::Elsewhere)
        } else if local::of(self.shard).contains(key) || self.bounds.read().contains(key) {
            Ok(found)
        } else {
            Err(StoreError::Elsewhere)
        }
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
        let id = self.versions();
        let mut found = meridian_mvcc::scan(
            &self.recent,
            &*self.store,
            id,
            range,
            at,
            reverse,
            limit_rows,
            limit_bytes,
        )?;
        if self.is_closed() {
            return Err(StoreError::Elsewhere); // Something of it may have been missing already.
        }
        if local::of(self.shard).contains_range(range) {
            return Ok(found); // Whoever asks for nothing else knows why.
        }
        // A scan may have got into them: it goes on behind what was full of them.
        if local::all().end.is_none_or(|end| range.start < end) {
            // What shards keep for themselves nobody else reads.
            let mut kept = found.rows.iter().map(|(key, _)| !local::is(key));
            found.at.retain(|_| kept.next() == Some(true));
            found.rows.retain(|(key, _)| !local::is(key));
            found.gone.retain(|(key, _)| !local::is(key));
        }
        if self.bounds.read().contains_range(range) {
            Ok(found)
        } else {
            Err(StoreError::Elsewhere)
        }
    }

    /// The newest timestamp that was installed.
    pub fn newest(&self) -> Timestamp {
        *self.newest.lock()
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

    /// A split waits to be settled.
    pub fn expects(&self) -> bool {
        !self.births.lock().is_empty()
    }

    /// The split that bears this child does.
    pub fn expects_child(&self, child: u32) -> bool {
        self.births.lock().iter().any(|birth| birth.child == child)
    }

    /// Its ranges of the space where its versions are, in order, if these are its bounds.
    fn ranges(&self, bounds: &KeyRange) -> Vec<KeyRange> {
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

    /// Removes a copy that is not in use any more.
    fn drop_unused(&self, old: Place) -> Result<(), StoreError> {
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

    /// Its replica is gone: when this returns, nothing is written through this any more, and a read
    /// that is under way fails.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Behind whatever is being settled or collected.
        let _alone = self.settling.lock();
        *self.collecting.lock() = None;
        self.recent.reset(0);
    }

    fn is_closed(&self) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use meridian_machine::planted::plant;
    use meridian_mvcc::{Key, Value};

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, logical: 0, issuer: 1 }
    }

    fn split(rows: Vec<Write>) -> Split {
        Split { at: at(20), key: "m".into(), child: 7, rows, hollow: false }
    }

    fn filled(commits: u64) -> Space {
        let space = Space::open(1, 0, Arc::new(MemoryStore::new())).unwrap();
        let key = Key::from(b"k".to_vec());
        for number in 1..=commits {
            let value = Some(Value::from(number.to_be_bytes().to_vec()));
            space.install(
                at(number),
                &[Write { key: key.clone(), value }],
                number,
                1 + number / 10,
            );
        }
        space
    }

    #[test]
    fn what_is_settled_stays_readable_and_its_extent_is_known() {
        let space = filled(0);
        let key = Key::from(b"k".to_vec());
        for number in 1..=100u64 {
            let value = Some(Value::from(number.to_be_bytes().to_vec()));
            space.install(
                at(number),
                &[Write { key: key.clone(), value }],
                number,
                1 + number / 10,
            );
            if number % 7 == 0 {
                space.settle(100).unwrap();
                let horizon = Timestamp::ZERO;
                let extent =
                    Extent { position: number, term: 1 + number / 10, at: at(number), horizon };
                assert_eq!(space.extent().unwrap(), extent);
                assert_eq!(space.recent_bytes(), 0);
            }
            for earlier in 1..=number {
                let found = space.get(b"k", at(earlier)).unwrap().unwrap();
                assert_eq!(found.value.unwrap().to_vec(), earlier.to_be_bytes());
            }
        }
    }

    #[test]
    fn a_copy_replaces_everything_at_once_also_for_the_next_life() {
        let (from, to) = (filled(50), filled(7));
        from.settle(usize::MAX).unwrap();
        assert!(from.whole(51).unwrap().is_none());
        let whole = from.whole(50).unwrap().unwrap();
        let extent = whole.extent;
        let copy = receive(&to, &whole, usize::MAX);
        assert_eq!(to.get(b"k", at(60)).unwrap().unwrap().at, at(7));
        to.use_copy(copy, extent).unwrap();
        let again = Space::open(1, 0, Arc::clone(&to.store)).unwrap();
        for space in [to, again] {
            assert_eq!(space.get(b"k", at(60)).unwrap().unwrap().at, at(50));
            assert_eq!(space.get(b"k", at(20)).unwrap().unwrap().at, at(20), "with its history");
            assert_eq!(space.extent().unwrap(), extent);
        }
    }

    /// A copy in pages of so many bytes, durable and not in use.
    fn receive(to: &Space, whole: &Whole, page_bytes: usize) -> SpaceId {
        let (copy, mut rest) = (to.begin_copy().unwrap(), Some(Cursor::default()));
        while let Some(from) = rest {
            let (versions, next) = whole.page(&from, page_bytes).unwrap();
            to.extend_copy(copy, versions).unwrap();
            rest = next;
        }
        to.end_copy(copy, whole.extent).unwrap();
        copy
    }

    #[test]
    fn that_a_copy_has_no_history_is_noticed() {
        let planted = std::thread::spawn(|| {
            plant(Some(rules::COPY_WITHOUT_HISTORY), true);
            a_copy_reaches_back_as_far_as_its_source_and_no_further();
        });
        assert!(planted.join().is_err());
    }

    #[test]
    fn a_copy_reaches_back_as_far_as_its_source_and_no_further() {
        let (from, to) = (filled(50), filled(7));
        put(&from, "gone", 60, 51);
        from.install(at(61), &[Write { key: "gone".into(), value: None }], 52, 9);
        from.settle(usize::MAX).unwrap();
        assert!(!from.collect(40, 160, at(40), 1 << 20).unwrap());
        assert!(from.collect(200, 160, at(61), 1 << 30).unwrap());
        // The versions of one key take many pages.
        let whole = from.whole(52).unwrap().unwrap();
        let copy = receive(&to, &whole, 1);
        to.use_copy(copy, whole.extent).unwrap();
        let again = Space::open(1, 0, Arc::clone(&to.store)).unwrap();
        for space in [&from, &to, &again] {
            assert_eq!(space.get(b"k", at(39)), Err(StoreError::BelowHorizon { oldest: at(40) }));
            (40..=50).for_each(|nanos| assert_eq!(seen(space, "k", nanos), Ok(Some(nanos))));
            let gone =
                |nanos| space.get(b"gone", at(nanos)).unwrap().and_then(|version| version.value);
            assert_eq!((gone(59), gone(60), gone(61)), (None, Some(Value::from("x")), None));
        }
        // Collection goes on there, once what was closed with the copy is that old.
        assert!(!to.collect(220, 160, at(61), 1 << 20).unwrap());
        assert!(to.collect(221, 160, at(61), 1 << 30).unwrap());
        assert_eq!(seen(&to, "k", 60), Err(StoreError::BelowHorizon { oldest: at(61) }));
        assert_eq!(seen(&to, "k", 61), Ok(Some(50)));
    }

    /// A store that is full, for one batch.
    struct FullOnce(MemoryStore, AtomicBool);

    impl Store for FullOnce {
        fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError> {
            self.0.snapshot()
        }
        fn apply(&self, batch: Batch) -> Result<(), StoreError> {
            let full = || StoreError::Full { file: "the store".to_owned() };
            if self.1.swap(false, Ordering::Relaxed) { Err(full()) } else { self.0.apply(batch) }
        }
        fn apply_durably(&self, batch: Batch) -> Result<(), StoreError> {
            self.0.apply_durably(batch)
        }
        fn checkpoint(&self) -> Result<(), StoreError> {
            self.0.checkpoint()
        }
        fn fact(&self, space: SpaceId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
            self.0.fact(space, name)
        }
        fn drop_space(&self, space: SpaceId) -> Result<(), StoreError> {
            self.0.drop_space(space)
        }
    }

    /// The batch that was to tell of the horizon failed. (Found over continents, seed 22000069
    /// without turns: a read of the past found nothing, after a full disk and a restart.)
    #[test]
    fn nothing_is_removed_without_the_horizon_also_where_the_disk_was_full() {
        let store = Arc::new(FullOnce(MemoryStore::new(), AtomicBool::new(false)));
        let space = Space::open(1, 0, Arc::clone(&store) as Arc<dyn Store>).unwrap();
        (1..=20)
            .for_each(|number| put(&space, ["a", "b"][number as usize % 2], 10 * number, number));
        space.settle(usize::MAX).unwrap();
        assert!(!space.collect(100, 160, at(100), 1).unwrap());
        store.1.store(true, Ordering::Relaxed);
        let passes: Vec<_> =
            (300..400).map(|now_ns| space.collect(now_ns, 160, at(200), 1)).collect();
        assert_eq!(passes.iter().filter(|pass| pass.is_err()).count(), 1);
        assert!(passes.last().is_some_and(|pass| pass.is_ok()));
        for space in [&space, &Space::open(1, 0, store).unwrap()] {
            for key in [b"a", b"b"] {
                let read = |nanos| space.get(key, at(nanos)).map(|version| version.is_some());
                assert!((20..=200).all(|nanos| matches!(
                    read(nanos),
                    Ok(true) | Err(StoreError::BelowHorizon { .. })
                )));
            }
        }
    }

    #[test]
    fn what_is_superseded_below_the_horizon_goes_and_is_refused() {
        let space = filled(50);
        space.settle(usize::MAX).unwrap();
        assert!(
            !space.collect(40, 160, at(40), 1 << 20).unwrap(),
            "who reads at 40 may read for 160"
        );
        assert!(!space.collect(199, 160, at(50), 1 << 20).unwrap());
        while !space.collect(200, 160, at(50), 1 << 20).unwrap() {}
        let oldest = at(40);
        assert_eq!(space.get(b"k", at(39)), Err(StoreError::BelowHorizon { oldest }));
        assert_eq!(space.get(b"k", at(40)).unwrap().unwrap().at, at(40));
        let left = space
            .store
            .snapshot()
            .unwrap()
            .versions(space.versions(), &KeyRange::all(), usize::MAX)
            .unwrap();
        assert_eq!(left.versions.len(), 11);
        let again = Space::open(1, 0, Arc::clone(&space.store)).unwrap();
        assert_eq!(again.get(b"k", at(39)), Err(StoreError::BelowHorizon { oldest }));
    }

    fn seen(space: &Space, key: &str, nanos: u64) -> Result<Option<u64>, StoreError> {
        Ok(space.get(key.as_bytes(), at(nanos))?.map(|version| version.at.nanos))
    }

    fn put(space: &Space, key: &str, nanos: u64, position: u64) {
        space.install(
            at(nanos),
            &[Write { key: key.into(), value: Some(Value::from("x")) }],
            position,
            1,
        );
    }

    #[test]
    fn a_child_is_born_where_its_versions_are_and_not_before_the_split_is_settled() {
        let store = Arc::new(MemoryStore::new());
        let parent = Space::open(1, 0, Arc::clone(&store) as Arc<dyn Store>).unwrap();
        for (number, key) in ["a", "m", "z"].into_iter().enumerate() {
            put(&parent, key, 10 + number as u64, 1 + number as u64);
        }
        let row =
            |shard| Write { key: local::protocol(shard, b"r"), value: Some(Value::from("r")) };
        parent.divide(split(vec![row(0), row(7)]), 4, 1);
        assert_eq!(seen(&parent, "z", 99), Err(StoreError::Elsewhere));
        assert!(
            parent.born().is_empty() && parent.expects() && parent.children().unwrap().is_empty()
        );
        parent.settle(usize::MAX).unwrap();
        let bounds = KeyRange { start: "m".into(), end: None };
        assert_eq!(parent.born(), [(7, bounds.clone())]);
        for life in 0..2 {
            let parent = Space::open(1, 0, Arc::clone(&store) as Arc<dyn Store>).unwrap();
            assert_eq!(parent.children().unwrap(), [(7, bounds.clone())]);
            let child = Space::open(1, 7, Arc::clone(&store) as Arc<dyn Store>).unwrap();
            assert_eq!(child.bounds(), bounds);
            assert_eq!(
                (parent.protocol_rows().unwrap().len(), child.protocol_rows().unwrap().len()),
                (1, 1)
            );
            assert_eq!(
                (seen(&parent, "a", 99), seen(&child, "z", 29)),
                (Ok(Some(10)), Ok(Some(12)))
            );
            assert_eq!(seen(&child, "a", 99), Err(StoreError::Elsewhere));
            if life == 0 {
                assert_eq!(
                    (child.extent().unwrap().position, child.extent().unwrap().at),
                    (1, at(20))
                );
            }
            put(&child, "z", 30 + life, 2 + life);
            child.settle(usize::MAX).unwrap();
            assert_eq!(
                (seen(&child, "z", 25), seen(&child, "z", 99)),
                (Ok(Some(12)), Ok(Some(30 + life)))
            );
        }
    }

    #[test]
    fn who_leaves_a_shard_keeps_since_when_and_what_others_point_at() {
        let store = Arc::new(MemoryStore::new());
        let open = |shard| Space::open(1, shard, Arc::clone(&store) as Arc<dyn Store>).unwrap();
        let parent = open(0);
        for (number, key) in ["a", "m", "z"].into_iter().enumerate() {
            put(&parent, key, 10 + number as u64, 1 + number as u64);
        }
        parent.divide(split(Vec::new()), 4, 1);
        parent.leave(9, |child| vec![child as u8]).unwrap(); // The child is born before.
        let bounds = KeyRange { start: "m".into(), end: None };
        assert_eq!(open(0).left(), Ok(vec![Left { child: 7, bounds, birth: vec![7] }]));
        assert_eq!(Space::removed(1, 0, &*store), Ok(Some(9)));
        assert_eq!(Space::removed(1, 7, &*store), Ok(None));
        assert_eq!(
            seen(&parent, "a", 99),
            Err(StoreError::Elsewhere),
            "an empty answer would be wrong"
        );
        assert_eq!(
            (open(0).extent().unwrap(), seen(&open(0), "a", 99)),
            (Extent::default(), Ok(None))
        );
        assert_eq!(seen(&open(7), "z", 99), Ok(Some(12)));
        open(7).leave(3, |_| Vec::new()).unwrap();
        assert_eq!(seen(&open(7), "z", 99), Ok(None));
        let again = open(0);
        put(&again, "b", 30, 1);
        again.settle(usize::MAX).unwrap();
        assert_eq!(seen(&open(0), "b", 99), Ok(Some(30)));
    }

    #[test]
    fn a_member_that_began_with_nothing_is_behind_until_it_has_its_invitation() {
        let store = Arc::new(MemoryStore::new()) as Arc<dyn Store>;
        let open = || Space::open(1, 0, Arc::clone(&store)).unwrap();
        let by_log = open();
        assert!(!by_log.is_behind());
        by_log.begin_empty(2).unwrap();
        put(&by_log, "a", 10, 1);
        assert!(by_log.is_behind());
        put(&by_log, "b", 11, 2);
        assert!(!by_log.is_behind());
        let by_copy = open();
        by_copy.begin_empty(2).unwrap();
        let copy = by_copy.begin_copy().unwrap();
        let extent = Extent { position: 2, term: 1, at: at(11), horizon: Timestamp::ZERO };
        by_copy.end_copy(copy, extent).unwrap();
        assert!(by_copy.is_behind());
        by_copy.use_copy(copy, extent).unwrap();
        assert!(!by_copy.is_behind());
    }

    #[test]
    fn what_was_let_go_of_is_neither_read_nor_written_by_what_still_holds_it() {
        let store = Arc::new(MemoryStore::new());
        let open = || Space::open(1, 0, Arc::clone(&store) as Arc<dyn Store>).unwrap();
        let held = open();
        put(&held, "a", 10, 1);
        held.settle(usize::MAX).unwrap();
        put(&held, "b", 11, 2);
        assert_eq!((held.as_of(), seen(&held, "b", 99)), (Ok(0), Ok(Some(11))));
        held.close();
        for key in ["a", "b"] {
            assert_eq!(
                seen(&held, key, 99),
                Err(StoreError::Elsewhere),
                "an empty answer would be wrong"
            );
        }
        let fresh = open().let_go(3).unwrap();
        put(&held, "c", 12, 3); // A step that was under way.
        assert_eq!((held.settle(usize::MAX), held.keep_horizon()), (Ok(0), Ok(())));
        for space in [&fresh, &open()] {
            assert_eq!((space.as_of(), space.extent().unwrap()), (Ok(3), Extent::default()));
            assert!(["a", "b", "c"].into_iter().all(|key| seen(space, key, 99) == Ok(None)));
        }
        put(&fresh, "d", 13, 1);
        fresh.settle(usize::MAX).unwrap();
        assert_eq!(seen(&open(), "d", 99), Ok(Some(13)));
    }

    #[test]
    fn who_goes_on_from_a_copy_keeps_the_rows_of_a_split_that_was_not_settled() {
        let member = |store: &Arc<MemoryStore>| {
            let parent = Space::open(1, 0, Arc::clone(store) as Arc<dyn Store>).unwrap();
            put(&parent, "z", 10, 1);
            parent.divide(split(Vec::new()), 2, 1);
            parent
        };
        let (sender, here) = (member(&Arc::new(MemoryStore::new())), Arc::new(MemoryStore::new()));
        put(&sender, "a", 30, 3);
        sender.settle(usize::MAX).unwrap();
        let (whole, parent) = (sender.whole(1).unwrap().unwrap(), member(&here));
        let copy = receive(&parent, &whole, usize::MAX);
        parent.use_copy(copy, whole.extent).unwrap();
        let child = Space::open(1, 7, Arc::clone(&here) as Arc<dyn Store>).unwrap();
        assert_eq!((child.extent().unwrap().position, seen(&child, "z", 99)), (1, Ok(Some(10))));
        assert_eq!(seen(&parent, "a", 99), Ok(Some(30)));
    }

    #[test]
    fn copies_of_parent_and_child_hold_what_is_theirs_and_leave_each_other_alone() {
        let store = || Arc::new(MemoryStore::new()) as Arc<dyn Store>;
        let (here, there) = (store(), store());
        let parent = Space::open(1, 0, Arc::clone(&here)).unwrap();
        for (number, key) in ["a", "m", "z"].into_iter().enumerate() {
            put(&parent, key, 10 + number as u64, 1 + number as u64);
        }
        parent.divide(split(Vec::new()), 4, 1);
        parent.install(
            at(21),
            &[Write { key: local::protocol(0, b"r"), value: Some(Value::from("r")) }],
            5,
            1,
        );
        parent.settle(usize::MAX).unwrap();
        let child = Space::open(1, 7, Arc::clone(&here)).unwrap();
        put(&child, "q", 30, 2);
        child.settle(usize::MAX).unwrap();
        let send = |from: &Space, to: &Space| {
            let whole = from.whole(1).unwrap().unwrap();
            let copy = receive(to, &whole, 1);
            to.use_copy(copy, whole.extent).unwrap();
            to.tell_children().unwrap();
        };
        let other = Space::open(1, 0, Arc::clone(&there)).unwrap();
        send(&parent, &other);
        assert_eq!(seen(&other, "a", 99), Ok(Some(10)));
        assert_eq!(seen(&other, "z", 99), Err(StoreError::Elsewhere));
        assert_eq!(other.protocol_rows().unwrap().len(), 1);
        let [(7, bounds)] = &other.born()[..] else { panic!("it knows of the child") };
        let orphan = Space::open_with(1, 7, bounds.clone(), Arc::clone(&there)).unwrap();
        assert_eq!((orphan.extent().unwrap().position, seen(&orphan, "z", 99)), (0, Ok(None)));
        send(&child, &orphan);
        assert_eq!((seen(&orphan, "z", 99), seen(&orphan, "q", 99)), (Ok(Some(12)), Ok(Some(30))));
        // The parent is replaced where it was born: what the child points at stays.
        send(&other, &parent);
        assert_eq!((seen(&parent, "a", 99), seen(&child, "z", 99)), (Ok(Some(10)), Ok(Some(12))));
        child.forget().unwrap();
        parent.forget().unwrap();
        let left = |space: SpaceId| {
            here.snapshot().unwrap().versions(space, &KeyRange::all(), usize::MAX).unwrap()
        };
        assert!(
            (0..3).all(|copy| left(SpaceId { database: 1, shard: 0, copy }).versions.is_empty())
        );
    }
}
