//! Reads over Recent and the store together.
//!
//! The order matters: **Recent first, then a snapshot of the store, then the horizon.**
//!
//! ```text
//!   flusher     store.apply(v) ──▶ recent.settled(v)
//!   collector   recent.raise_horizon(h) ──▶ store.apply(removals below h)
//!   reader      recent.get ──▶ store.snapshot().get ──▶ recent.believe(at)
//! ```
//!
//! A reader that does not find v in Recent because it was released takes its snapshot after
//! `apply(v)`, and finds v there. In the opposite order v could move in between. A reader whose
//! snapshot lacks a collected version sees the raised horizon.

use crate::{Key, KeyRange, MemTable, SpaceId, Store, StoreError, StoredVersion, Value, Version};
use meridian_clock::Timestamp;

/// One chunk of a merged scan: live rows only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Keys and values in order.
    pub rows: Vec<(Key, Value)>,
    /// The commit timestamp of each row, in the same order.
    pub at: Vec<Timestamp>,
    /// Keys whose newest version is a tombstone that still exists, with the time of deletion, in
    /// the scanned part of the range.
    pub gone: Vec<(Key, Timestamp)>,
    /// The part of the range that is left to scan; `None` if there is none. A part may be left
    /// although there are no rows.
    pub rest: Option<KeyRange>,
}

impl Chunk {
    fn push(&mut self, key: Key, value: Value, at: Timestamp) {
        self.rows.push((key, value));
        self.at.push(at);
    }
}

/// Returns the newest version of a key at or below `at`, a tombstone included.
pub fn read(
    memtable: &MemTable,
    store: &dyn Store,
    space: SpaceId,
    key: &[u8],
    at: Timestamp,
) -> Result<Option<Version>, StoreError> {
    let found = match memtable.look(key, at) {
        (young, true) => young,
        (young, false) => later(young, store.snapshot()?.get(space, key, at)?),
    };
    memtable.believe(at)?;
    Ok(found)
}

/// Returns the later of two versions of a key.
fn later(a: Option<Version>, b: Option<Version>) -> Option<Version> {
    match (&a, &b) {
        (Some(young), Some(old)) if young.at < old.at => b,
        (Some(_), _) => a,
        (None, _) => b,
    }
}

/// Returns a chunk of a range as of `at`, at most `limit_rows` rows and about `limit_bytes` bytes,
/// without tombstones.
#[allow(clippy::too_many_arguments)]
pub fn scan(
    memtable: &MemTable,
    store: &dyn Store,
    space: SpaceId,
    range: &KeyRange,
    at: Timestamp,
    reverse: bool,
    limit_rows: usize,
    limit_bytes: usize,
) -> Result<Chunk, StoreError> {
    if let Some(key) = range.as_point() {
        // Most statements read a point; a version that is new enough is found without the store.
        let mut chunk = Chunk::default();
        if let Some(Version { at, value }) = read(memtable, store, space, key, at)? {
            match value {
                Some(value) => chunk.push(key.clone(), value, at),
                None => chunk.gone.push((key.clone(), at)),
            }
        }
        return Ok(chunk);
    }
    let limit_rows = limit_rows.max(1);
    let mut versions = limit_rows;
    let mut chunk =
        scan_part(memtable, store, space, range, at, reverse, limit_rows, versions, limit_bytes)?;
    // A queue begins with tombstones of what was taken from it: a reader of its first row does not
    // come back for each of them. A part with neither rows nor tombstones has passed as many
    // versions above `at` as one call may.
    let mut passed = chunk.gone.len();
    while chunk.rows.is_empty() && passed > 0 && chunk.gone.len() < MOST_GONE {
        let Some(rest) = chunk.rest.take() else { break };
        versions = (versions * 4).clamp(FEW_VERSIONS, MOST_GONE);
        let more = scan_part(
            memtable,
            store,
            space,
            &rest,
            at,
            reverse,
            limit_rows,
            versions,
            limit_bytes,
        )?;
        passed = more.gone.len();
        chunk.gone.extend(more.gone);
        chunk = Chunk { gone: chunk.gone, ..more };
    }
    Ok(chunk)
}

/// The versions that are read at first behind tombstones alone.
const FEW_VERSIONS: usize = 16;
/// The tombstones after which a chunk ends without a row, so that others have their turn.
const MOST_GONE: usize = 1_024;

/// Returns a chunk of at most `limit_rows` rows, from at most `limit_versions` versions of each
/// side.
#[allow(clippy::too_many_arguments)]
fn scan_part(
    memtable: &MemTable,
    store: &dyn Store,
    space: SpaceId,
    range: &KeyRange,
    at: Timestamp,
    reverse: bool,
    limit_rows: usize,
    limit_versions: usize,
    limit_bytes: usize,
) -> Result<Chunk, StoreError> {
    let (young, young_rest) = memtable.scan(range, at, reverse, limit_versions, limit_bytes);
    let page = store.snapshot()?.scan(space, range, at, reverse, limit_versions, limit_bytes)?;
    memtable.believe(at)?;

    // Each side is known up to where it stopped, and the merge up to the nearer of the two.
    let known = [young_rest, page.rest];
    let is_known = |key: &Key| known.iter().flatten().all(|rest| !rest.contains(key));

    let mut chunk = Chunk::default();
    let mut bytes = 0;
    for (key, version) in merge(young, page.versions, reverse) {
        if !is_known(&key) {
            break;
        }
        let Some(value) = version.value else {
            chunk.gone.push((key, version.at));
            continue;
        };
        if chunk.rows.len() == limit_rows || (bytes >= limit_bytes && !chunk.rows.is_empty()) {
            chunk.rest = Some(range.from_key(&key, reverse));
            return Ok(chunk);
        }
        bytes += key.len() + value.len();
        chunk.push(key, value, version.at);
    }
    // The rests begin at different keys of the same range: the larger one contains everything
    // unknown.
    chunk.rest = match known {
        [Some(a), Some(b)] => Some(if a.contains_range(&b) { a } else { b }),
        [a, b] => a.or(b),
    };
    Ok(chunk)
}

/// Merges both sides in the order of the scan; of a key that both have, the later version counts.
fn merge(
    young: Vec<(Key, Version)>,
    old: Vec<StoredVersion>,
    reverse: bool,
) -> impl Iterator<Item = (Key, Version)> {
    let mut young = young.into_iter().peekable();
    let mut old = old.into_iter().map(|found| (found.key, found.version)).peekable();
    std::iter::from_fn(move || {
        let (Some((a, young_version)), Some((b, old_version))) = (young.peek(), old.peek()) else {
            return young.next().or_else(|| old.next());
        };
        let order = if reverse { b.cmp(a) } else { a.cmp(b) };
        if order.is_eq() {
            let is_young_later = young_version.at >= old_version.at;
            let both = (young.next(), old.next());
            return if is_young_later { both.0 } else { both.1 };
        }
        if order.is_lt() { young.next() } else { old.next() }
    })
}
