//! The layout of a version's key in the B-tree: space, key, and the inverted timestamp, so that the
//! newest version comes first.

use meridian_clock::Timestamp;
use meridian_mvcc::{KeyRange, SpaceId};
use std::cmp::Ordering;

const SPACE: usize = 9;
const STAMP: usize = 16;

/// A key type that compares (space, key) first and then timestamps, newest first. A plain
/// comparison of bytes would mix a key's timestamp with a longer key's next bytes.
#[derive(Debug)]
pub(crate) struct VersionKey;

impl redb::Value for VersionKey {
    type SelfType<'a> = &'a [u8];
    type AsBytes<'a> = &'a [u8];

    fn fixed_width() -> Option<usize> {
        None
    }

    fn from_bytes<'a>(data: &'a [u8]) -> &'a [u8]
    where
        Self: 'a,
    {
        data
    }

    fn as_bytes<'a, 'b: 'a>(value: &'a Self::SelfType<'b>) -> &'a [u8]
    where
        Self: 'b,
    {
        value
    }

    fn type_name() -> redb::TypeName {
        redb::TypeName::new("meridian::VersionKey")
    }
}

impl redb::Key for VersionKey {
    fn compare(a: &[u8], b: &[u8]) -> Ordering {
        let split = |bytes: &[u8]| bytes.len().saturating_sub(STAMP);
        let ((key_a, stamp_a), (key_b, stamp_b)) = (a.split_at(split(a)), b.split_at(split(b)));
        key_a.cmp(key_b).then_with(|| stamp_a.cmp(stamp_b))
    }
}

/// Encodes the key of a version.
pub(crate) fn encode(space: SpaceId, key: &[u8], at: Timestamp) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SPACE + key.len() + STAMP);
    encode_into(&mut bytes, space, key, at);
    bytes
}

/// Encodes the key of a version into a buffer, whose content it replaces.
pub(crate) fn encode_into(bytes: &mut Vec<u8>, space: SpaceId, key: &[u8], at: Timestamp) {
    bytes.clear();
    bytes.extend_from_slice(&space.database.to_be_bytes());
    bytes.extend_from_slice(&space.shard.to_be_bytes());
    bytes.push(space.copy);
    bytes.extend_from_slice(key);
    bytes.extend(at.to_be_bytes().map(|byte| !byte));
}

/// Decodes a version's key: the key within the space, and the timestamp.
pub(crate) fn decode(bytes: &[u8]) -> Option<(&[u8], Timestamp)> {
    let (rest, stamp) = bytes.split_last_chunk::<STAMP>()?;
    Some((rest.get(SPACE..)?, Timestamp::from_be_bytes(stamp.map(|byte| !byte))))
}

/// Returns the bounds of a range of keys: its first version, inclusive, and the first one beyond
/// it, exclusive.
pub(crate) fn bounds(space: SpaceId, range: &KeyRange) -> (Vec<u8>, Vec<u8>) {
    let start = encode(space, &range.start, Timestamp::MAX);
    let end = match &range.end {
        Some(end) => encode(space, end, Timestamp::MAX),
        None => space_bounds(space).1,
    };
    (start, end)
}

/// Returns the bounds of a space: its first version, inclusive, and the first one beyond it,
/// exclusive.
pub(crate) fn space_bounds(space: SpaceId) -> (Vec<u8>, Vec<u8>) {
    let number = (u128::from(space.database) << 40)
        | (u128::from(space.shard) << 8)
        | u128::from(space.copy);
    let next = number + 1;
    let end = match u32::try_from(next >> 40) {
        Ok(database) => {
            let next = SpaceId { database, shard: (next >> 8) as u32, copy: next as u8 };
            encode(next, &[], Timestamp::MAX)
        }
        // No shard has the last space: the log reserves its number.
        Err(_) => vec![u8::MAX; SPACE + 1 + STAMP],
    };
    (encode(space, &[], Timestamp::MAX), end)
}
