//! Rows about a shard itself, stored among its versions, so that everything that carries versions
//! (flushes, checkpoints, snapshots, recovery) carries them too.
//!
//! ```text
//!   \0local\0 <shard> bounds          the shard's key range
//!   \0local\0 <shard> child <n>       the shard that was split off, and its key range
//!   \0local\0 <shard> recipe …        the state of the shard's protocol (an older term for it)
//!   \0local\0 <shard> recipe s <t>    the versions of table t's schema that hold in the shard
//! ```
//!
//! SQL does not see these rows, and no route leads to them.

use crate::{Key, KeyRange};

const PREFIX: &[u8] = b"\0local\0";
const BOUNDS: &[u8] = b"bounds";
const CHILD: &[u8] = b"child";
const PROTOCOL: &[u8] = b"recipe";

fn key(shard: u32, name: &[u8]) -> Vec<u8> {
    [PREFIX, &shard.to_be_bytes(), name].concat()
}

/// Returns the range of the rows of all shards.
pub fn all() -> KeyRange {
    KeyRange::prefix(PREFIX)
}

/// True if a key is that of such a row.
pub fn is(key: &[u8]) -> bool {
    key.starts_with(PREFIX)
}

/// Returns the range of the rows of one shard.
pub fn of(shard: u32) -> KeyRange {
    KeyRange::prefix(&key(shard, b""))
}

/// Returns the key of a shard's bounds.
pub fn bounds(shard: u32) -> Key {
    key(shard, BOUNDS).into()
}

/// Returns the key of the row about a child that was split off a shard.
pub fn child(shard: u32, child: u32) -> Key {
    [&*key(shard, CHILD), &child.to_be_bytes()].concat().into()
}

/// Returns the range of the rows about all children of a shard.
pub fn children(shard: u32) -> KeyRange {
    KeyRange::prefix(&key(shard, CHILD))
}

/// Returns the child that a row's key names.
pub fn child_of(row: &[u8]) -> Option<u32> {
    row.last_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Returns the key of a row of the shard's protocol.
pub fn protocol(shard: u32, name: &[u8]) -> Key {
    [&*key(shard, PROTOCOL), name].concat().into()
}

/// The first byte of the names of schema rows among a protocol's rows. It is the same for every
/// protocol, because coordinators read these rows.
pub const SCHEMA: u8 = b's';

/// Returns the key of the row with the versions of a table's schema that hold in a shard. A table
/// whose schema never changed has none.
pub fn schema(shard: u32, table: u32) -> Key {
    protocol(shard, &[&[SCHEMA], &table.to_be_bytes()[..]].concat())
}

/// Returns the range of all schema rows of a shard.
pub fn schemas(shard: u32) -> KeyRange {
    KeyRange::prefix(&protocol(shard, &[SCHEMA]))
}

/// Returns the range of all rows of the shard's protocol.
pub fn protocol_rows(shard: u32) -> KeyRange {
    KeyRange::prefix(&key(shard, PROTOCOL))
}
