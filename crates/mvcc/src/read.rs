//! Reads over Recent and the store together.

use crate::{Key, KeyRange, Recent, SpaceId, Store, StoreError, Value, Version};
use meridian_clock::Timestamp;

/// One chunk of a merged scan: live rows only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Keys and values in order.
    pub rows: Vec<(Key, Value)>,
    /// What is left to scan; `None` when the range is exhausted.
    pub rest: Option<KeyRange>,
}

/// The newest version of a key at or below `at`, a tombstone included.
///
/// Recent first, then a snapshot of the store taken afterwards: what leaves Recent in between is in that snapshot.
pub fn read(
    recent: &Recent,
    store: &dyn Store,
    space: SpaceId,
    key: &[u8],
    at: Timestamp,
) -> Result<Option<Version>, StoreError> {
    match recent.get(key, at) {
        // Agreement is in the order of timestamps, so that whatever stands in Recent is newer than what is settled.
        Some(version) => Ok(Some(version)),
        None => store.snapshot()?.get(space, key, at),
    }
}

/// A chunk of a range as of `at`, at most `limit_rows` rows and about `limit_bytes` bytes, tombstones removed.
#[allow(clippy::too_many_arguments)]
pub fn scan(
    recent: &Recent,
    store: &dyn Store,
    space: SpaceId,
    range: &KeyRange,
    at: Timestamp,
    reverse: bool,
    limit_rows: usize,
    limit_bytes: usize,
) -> Result<Chunk, StoreError> {
    let limit_rows = limit_rows.max(1);
    // The same number of keys from both: the merge is complete up to where the shorter of the two ends.
    let (young, more_young) = recent.scan(range, at, reverse, limit_rows);
    let page = store.snapshot()?.scan(space, range, at, reverse, limit_rows)?;

    // Nothing is known beyond the last key of a side that was cut short.
    let before = |a: &Key, b: &Key| if reverse { a > b } else { a < b };
    let mut horizon: Option<Key> = None;
    let ends = [
        more_young.then(|| young.last().map(|(key, _)| key.clone())).flatten(),
        page.rest.is_some().then(|| page.versions.last().map(|found| found.key.clone())).flatten(),
    ];
    for end in ends.into_iter().flatten() {
        if horizon.as_ref().is_none_or(|known| before(&end, known)) {
            horizon = Some(end);
        }
    }

    let mut chunk = Chunk::default();
    let mut bytes = 0;
    let mut young = young.into_iter().peekable();
    let mut old = page.versions.into_iter().peekable();
    let mut last: Option<Key> = None;
    loop {
        let (key, version) = match (young.peek(), old.peek()) {
            (None, None) => break,
            (Some(_), None) => young.next().expect("peeked"),
            (None, Some(_)) => old.next().map(|found| (found.key, found.version)).expect("peeked"),
            (Some((a, _)), Some(b)) if *a == b.key => {
                old.next();
                young.next().expect("peeked")
            }
            (Some((a, _)), Some(b)) if before(a, &b.key) => young.next().expect("peeked"),
            _ => old.next().map(|found| (found.key, found.version)).expect("peeked"),
        };
        if horizon.as_ref().is_some_and(|horizon| before(horizon, &key)) {
            break;
        }
        if chunk.rows.len() == limit_rows || (bytes >= limit_bytes && !chunk.rows.is_empty()) {
            chunk.rest = last.map(|last| beyond(range, &last, reverse));
            return Ok(chunk);
        }
        last = Some(key.clone());
        if let Some(value) = version.value {
            bytes += key.len() + value.len();
            chunk.rows.push((key, value));
        }
    }
    chunk.rest = horizon.map(|horizon| beyond(range, &horizon, reverse)).filter(|rest| !rest.is_empty());
    Ok(chunk)
}

/// The part of a range after a key, in the direction of the scan.
fn beyond(range: &KeyRange, key: &Key, reverse: bool) -> KeyRange {
    if reverse {
        KeyRange { start: range.start.clone(), end: Some(key.clone()) }
    } else {
        KeyRange { start: key.successor(), end: range.end.clone() }
    }
}
