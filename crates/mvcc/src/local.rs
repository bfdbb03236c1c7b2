//! Rows that a shard keeps for itself, among its versions: whatever carries versions (settling,
//! checkpoints, copies, recovery) carries them too.
//!
//! ```text
//!   \0local\0 <shard> bounds          which keys it has
//!   \0local\0 <shard> child <n>       which shard a part of it became, and with which keys
//!   \0local\0 <shard> recipe …        what the shard's protocol must not lose (the key is older than the term)
//!   \0local\0 <shard> recipe s <t>    which versions of table t's schema hold in it
//! ```
//!
//! They have no part in SQL, and no route leads to them.

use crate::{Key, KeyRange};

const PREFIX: &[u8] = b"\0local\0";
const BOUNDS: &[u8] = b"bounds";
const CHILD: &[u8] = b"child";
const PROTOCOL: &[u8] = b"recipe";

fn key(shard: u32, name: &[u8]) -> Vec<u8> {
    [PREFIX, &shard.to_be_bytes(), name].concat()
}

/// The rows of all shards.
pub fn all() -> KeyRange {
    KeyRange::prefix(PREFIX)
}

/// Whether a key is such a row's.
pub fn is(key: &[u8]) -> bool {
    key.starts_with(PREFIX)
}

/// The rows of one shard.
pub fn of(shard: u32) -> KeyRange {
    KeyRange::prefix(&key(shard, b""))
}

/// Where a shard's bounds stand.
pub fn bounds(shard: u32) -> Key {
    key(shard, BOUNDS).into()
}

/// Where it stands that a part of a shard became another.
pub fn child(shard: u32, child: u32) -> Key {
    [&*key(shard, CHILD), &child.to_be_bytes()].concat().into()
}

/// All that a shard's parts became.
pub fn children(shard: u32) -> KeyRange {
    KeyRange::prefix(&key(shard, CHILD))
}

/// The child that a row is about.
pub fn child_of(row: &[u8]) -> Option<u32> {
    row.last_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// A row of the protocol's own.
pub fn protocol(shard: u32, name: &[u8]) -> Key {
    [&*key(shard, PROTOCOL), name].concat().into()
}

/// How the names of rows of schemas begin, among a protocol's own: every protocol writes them so,
/// because sessions read them.
pub const SCHEMA: u8 = b's';

/// Where it stands which versions of a table's schema hold in a shard. A table whose schema never
/// changed has none.
pub fn schema(shard: u32, table: u32) -> Key {
    protocol(shard, &[&[SCHEMA], &table.to_be_bytes()[..]].concat())
}

/// All of these.
pub fn schemas(shard: u32) -> KeyRange {
    KeyRange::prefix(&protocol(shard, &[SCHEMA]))
}

/// All rows of the protocol's own.
pub fn protocol_rows(shard: u32) -> KeyRange {
    KeyRange::prefix(&key(shard, PROTOCOL))
}
