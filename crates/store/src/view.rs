//! A view of the engine: look-ups, scans, and pages of all versions.

use crate::redb_store::Place;
use crate::version_key::{self, VersionKey};
use meridian_clock::Timestamp;
use meridian_mvcc::{
    Cursor, Key, KeyRange, Page, Snapshot, SpaceId, StoreError, StoredVersion, Value, Version,
};
use redb::ReadOnlyTable;
use std::ops::Bound;

pub(crate) struct EngineView {
    pub versions: ReadOnlyTable<VersionKey, &'static [u8]>,
    pub place: Place,
}

/// Versions of one key that a scan steps over before it seeks the next key.
const STEPS: usize = 8;
/// Entries that a scan looks at besides those of its keys. A long run of versions that are all too
/// new ends the page early.
const LOOKS: usize = 20_000;

fn value(bytes: &[u8]) -> Option<Value> {
    bytes.split_first().map(|(_, value)| Value::from(value))
}

fn size(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + 16
}

/// The next move of a visit.
enum Next {
    Entry,
    Seek(Vec<u8>),
    Stop,
}

impl EngineView {
    /// Visits the versions of a range in key order, newest first within a key.
    fn visit(
        &self,
        space: SpaceId,
        range: &KeyRange,
        mut visit: impl FnMut(&[u8], Timestamp, &[u8]) -> Next,
    ) -> Result<(), StoreError> {
        if range.is_empty() {
            return Ok(());
        }
        let (mut start, end) = version_key::bounds(space, range);
        'seek: loop {
            let bounds = (Bound::Included(&*start), Bound::Excluded(&*end));
            if <VersionKey as redb::Key>::compare(&start, &end).is_ge() {
                // Not by plain bytes: a seek may be before the end and still have the larger bytes.
                return Ok(());
            }
            for entry in
                self.versions.range::<&[u8]>(bounds).map_err(|error| self.place.failure(error))?
            {
                let (key, value) = entry.map_err(|error| self.place.failure(error))?;
                let (key, at) = self.decode(key.value())?;
                match visit(key, at, value.value()) {
                    Next::Entry => {}
                    Next::Stop => return Ok(()),
                    Next::Seek(to) => {
                        start = to;
                        continue 'seek;
                    }
                }
            }
            return Ok(());
        }
    }

    fn decode<'a>(&self, key: &'a [u8]) -> Result<(&'a [u8], Timestamp), StoreError> {
        version_key::decode(key)
            .ok_or_else(|| self.place.damaged("a key is too short to be a version's"))
    }

    /// Returns the largest key of a range.
    fn last_key(&self, space: SpaceId, range: &KeyRange) -> Result<Option<Key>, StoreError> {
        if range.is_empty() {
            return Ok(None);
        }
        let (start, end) = version_key::bounds(space, range);
        let bounds = (Bound::Included(&*start), Bound::Excluded(&*end));
        let mut entries =
            self.versions.range::<&[u8]>(bounds).map_err(|error| self.place.failure(error))?;
        let Some(entry) = entries.next_back() else { return Ok(None) };
        let (key, _) = entry.map_err(|error| self.place.failure(error))?;
        Ok(Some(Key::from(self.decode(key.value())?.0)))
    }

    fn scan_back(
        &self,
        space: SpaceId,
        range: &KeyRange,
        at: Timestamp,
        limit_keys: usize,
        limit_bytes: usize,
    ) -> Result<Page, StoreError> {
        let (mut page, mut bytes, mut looks) = (Page::default(), 0, 0);
        let mut left = range.clone();
        while let Some(key) = self.last_key(space, &left)? {
            if page.versions.len() >= limit_keys || bytes >= limit_bytes.max(1) || looks == LOOKS {
                page.rest = Some(left);
                break;
            }
            looks += 1;
            left.end = Some(key.clone());
            if let Some(version) = self.get(space, &key, at)? {
                bytes += size(&key, version.value.as_deref().unwrap_or_default());
                page.versions.push(StoredVersion { key, version });
            }
        }
        Ok(page)
    }
}

impl Snapshot for EngineView {
    fn get(
        &self,
        space: SpaceId,
        key: &[u8],
        at: Timestamp,
    ) -> Result<Option<Version>, StoreError> {
        let newest = version_key::encode(space, key, at);
        let oldest = version_key::encode(space, key, Timestamp::ZERO);
        let bounds = (Bound::Included(&*newest), Bound::Included(&*oldest));
        let mut entries =
            self.versions.range::<&[u8]>(bounds).map_err(|error| self.place.failure(error))?;
        let Some(entry) = entries.next() else { return Ok(None) };
        let (found, bytes) = entry.map_err(|error| self.place.failure(error))?;
        let (_, at) = self.decode(found.value())?;
        Ok(Some(Version { at, value: value(bytes.value()) }))
    }

    fn scan(
        &self,
        space: SpaceId,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_keys: usize,
        limit_bytes: usize,
    ) -> Result<Page, StoreError> {
        if reverse {
            return self.scan_back(space, range, at, limit_keys, limit_bytes);
        }
        let (mut page, mut bytes, mut looks, mut steps) = (Page::default(), 0, 0, 0);
        let enough = limit_keys.saturating_mul(2 * STEPS).saturating_add(LOOKS);
        self.visit(space, range, |key, version, found| {
            let seen = page.versions.last().is_some_and(|last: &StoredVersion| &*last.key == key);
            looks += 1;
            if seen || version > at {
                if looks >= enough && !seen {
                    page.rest = Some(KeyRange { start: Key::from(key), end: range.end.clone() });
                    return Next::Stop;
                }
                steps += 1;
                if steps <= STEPS {
                    return Next::Entry;
                }
                steps = 0;
                // Seeks past a key that was seen, or to the first version that the reader may see.
                return Next::Seek(match seen {
                    true => version_key::encode(space, &Key::from(key).successor(), Timestamp::MAX),
                    false => version_key::encode(space, key, at),
                });
            }
            steps = 0;
            if page.versions.len() >= limit_keys || bytes >= limit_bytes.max(1) {
                page.rest = Some(KeyRange { start: Key::from(key), end: range.end.clone() });
                return Next::Stop;
            }
            bytes += size(key, found);
            let version = Version { at: version, value: value(found) };
            page.versions.push(StoredVersion { key: Key::from(key), version });
            Next::Entry
        })?;
        Ok(page)
    }

    fn versions(
        &self,
        space: SpaceId,
        range: &KeyRange,
        limit_bytes: usize,
    ) -> Result<Page, StoreError> {
        let (mut page, mut bytes) = (Page::default(), 0);
        self.visit(space, range, |key, at, found| {
            let another =
                page.versions.last().is_some_and(|last: &StoredVersion| &*last.key != key);
            if another && bytes >= limit_bytes {
                page.rest = Some(KeyRange { start: Key::from(key), end: range.end.clone() });
                return Next::Stop;
            }
            bytes += size(key, found);
            page.versions.push(StoredVersion {
                key: Key::from(key),
                version: Version { at, value: value(found) },
            });
            Next::Entry
        })?;
        Ok(page)
    }

    fn history(
        &self,
        space: SpaceId,
        from: &Cursor,
        limit_bytes: usize,
    ) -> Result<(Vec<StoredVersion>, Option<Cursor>), StoreError> {
        let (mut versions, mut bytes, mut rest) = (Vec::<StoredVersion>::new(), 0, None);
        self.visit(space, &from.range, |key, at, found| {
            if let Some(below) =
                from.below.filter(|below| at >= *below && *key == *from.range.start)
            {
                let seek = at > below;
                return if seek {
                    Next::Seek(version_key::encode(space, key, below))
                } else {
                    Next::Entry
                };
            }
            if let Some(last) = versions.last().filter(|_| bytes >= limit_bytes.max(1)) {
                let below = (*last.key == *key).then_some(last.version.at);
                let range = KeyRange { start: Key::from(key), end: from.range.end.clone() };
                rest = Some(Cursor { range, below });
                return Next::Stop;
            }
            bytes += size(key, found);
            versions.push(StoredVersion {
                key: Key::from(key),
                version: Version { at, value: value(found) },
            });
            Next::Entry
        })?;
        Ok((versions, rest))
    }
}
