//! The key layout of a database's catalog and rows.
//!
//! ```text
//!   01 01 name            relation of a name in schema `public`: id, table
//!   01 02 id              descriptor of an object
//!   01 02 id 00           comments on it
//!   01 03                 next id
//!   01 04 id              version of a table
//!   01 04 id 00           number of its statistics
//!   01 05 storage         storage that is unused, to be erased by VACUUM
//!   01 06 storage         when an id was allocated to a transaction that has not committed yet
//!   01 07 id              statistics of a table
//!   01 08 id user         nothing: a view's query names the object, or a column has the type
//!   01 09 name            id of the type of a name in schema `public`
//!   01 0A name            id of the schema of a name; zero if there is no schema `public`
//!   01 0B schema name     relation of a name in another schema: id, table
//!   01 0C schema name     id of the type of a name in another schema
//!   01 0D space key       holders of an advisory lock
//!   01 0E engine          until when the sessions of a process hold advisory locks
//!   02 storage key...     rows of a table, or entries of an index
//! ```

use crate::key;
use crate::system::PUBLIC;
use meridian_mvcc::{Key, KeyRange, Value};

pub(crate) const NEXT_ID: [u8; 2] = [1, 3];
pub(crate) const DESCRIPTORS: [u8; 2] = [1, 2];
/// The names of relations in schema `public`.
pub(crate) const NAMES: [u8; 2] = [1, 1];
pub(crate) const DROPPED: [u8; 2] = [1, 5];

/// The prefix of the names of relations in a schema. The keys of `public` are those of releases
/// without schemas.
pub(crate) fn names_prefix(schema: u32) -> Vec<u8> {
    match schema {
        PUBLIC => NAMES.to_vec(),
        other => [&[1, 0x0B], &other.to_be_bytes()[..]].concat(),
    }
}

/// The prefix of the names of types in a schema.
pub(crate) fn type_names_prefix(schema: u32) -> Vec<u8> {
    match schema {
        PUBLIC => vec![1, 9],
        other => [&[1, 0x0C], &other.to_be_bytes()[..]].concat(),
    }
}

pub(crate) fn name_key(schema: u32, name: &str) -> Key {
    to_key([&names_prefix(schema), name.as_bytes()].concat())
}

pub(crate) fn schema_name_key(name: &str) -> Key {
    to_key([&[1, 0x0A], name.as_bytes()].concat())
}

pub(crate) fn descriptor_key(id: u32) -> Key {
    to_key([&[1, 2], &id.to_be_bytes()[..]].concat())
}

/// The key of the comments on an object, the next key behind its descriptor's.
pub(crate) fn comments_key(id: u32) -> Key {
    descriptor_key(id).successor()
}

/// Returns the object whose descriptor or comments a key has, and true for its comments.
pub(crate) fn described(key: &Key) -> Option<(u32, bool)> {
    let (id, rest) = key.0.strip_prefix(&DESCRIPTORS)?.split_first_chunk()?;
    Some((u32::from_be_bytes(*id), !rest.is_empty()))
}

pub(crate) const VERSIONS: [u8; 2] = [1, 4];

pub(crate) fn version_key(id: u32) -> Key {
    to_key([&VERSIONS, &id.to_be_bytes()[..]].concat())
}

/// The key of the number of a table's statistics, the next key behind its version's.
pub(crate) fn statistics_number_key(id: u32) -> Key {
    version_key(id).successor()
}

pub(crate) fn statistics_key(id: u32) -> Key {
    to_key([&[1, 7], &id.to_be_bytes()[..]].concat())
}

/// The prefix of the users of an object: views whose queries name it, relations with columns of it.
pub(crate) fn users_prefix(object: u32) -> Vec<u8> {
    [&[1, 8], &object.to_be_bytes()[..]].concat()
}

pub(crate) fn user_key(object: u32, user: u32) -> Key {
    to_key([&users_prefix(object), &user.to_be_bytes()[..]].concat())
}

pub(crate) fn type_name_key(schema: u32, name: &str) -> Key {
    to_key([&type_names_prefix(schema), name.as_bytes()].concat())
}

/// The prefix of advisory locks.
pub(crate) const ADVISORY: [u8; 2] = [1, 13];
/// The prefix of the leases of processes whose sessions hold advisory locks.
pub(crate) const LEASES: [u8; 2] = [1, 14];

pub(crate) fn dropped_key(storage: u32) -> Key {
    to_key([&DROPPED, &storage.to_be_bytes()[..]].concat())
}

pub(crate) const PENDING: [u8; 2] = [1, 6];

pub(crate) fn pending_key(storage: u32) -> Key {
    to_key([&PENDING, &storage.to_be_bytes()[..]].concat())
}

/// The first byte of the keys of all storages.
pub(crate) const ROWS: u8 = 2;

/// The length of a storage's prefix.
pub(crate) const PREFIX: usize = 5;

/// Returns the prefix of a storage's keys.
pub(crate) fn storage_prefix(storage: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    out.push(ROWS);
    out.extend(storage.to_be_bytes());
    out
}

/// Returns the range of all keys with this prefix.
pub(crate) fn prefix_range(prefix: &[u8]) -> KeyRange {
    range(prefix.to_vec(), key::after_prefix(prefix))
}

pub(crate) fn to_key(bytes: Vec<u8>) -> Key {
    Key(bytes.into())
}

pub(crate) fn to_value(bytes: Vec<u8>) -> Value {
    Value(bytes.into())
}

pub(crate) fn range(start: Vec<u8>, end: Option<Vec<u8>>) -> KeyRange {
    KeyRange { start: to_key(start), end: end.map(to_key) }
}
