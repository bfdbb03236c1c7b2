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
//!   01 0D space key       the sessions that hold an advisory lock, or wait for it
//!   01 0E process         until when the sessions of a process hold advisory locks
//!   01 0F time age number  a notification, see `notify`
//!   01 20 schema name 00 types   id of a function, by its name and the types of its inputs
//!   01 21 name            id of the extension of a name
//!   01 F0 id              what a commit does with a temporary table; in memory only
//!   02 storage key...     rows of a table, or entries of an index
//! ```

use crate::key;
use crate::system::PUBLIC;
use crate::temporary;
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

/// The prefix of the names of functions in a schema.
pub(crate) fn function_names_prefix(schema: u32) -> Vec<u8> {
    [&[1, 0x20], &schema.to_be_bytes()[..]].concat()
}

/// The prefix of the functions of a name in a schema. No name contains its last byte.
pub(crate) fn functions_prefix(schema: u32, name: &str) -> Vec<u8> {
    [&function_names_prefix(schema), name.as_bytes(), &[0]].concat()
}

/// The key of a function, with the names of its inputs' types.
pub(crate) fn function_key(schema: u32, name: &str, types: &str) -> Key {
    to_key([&functions_prefix(schema, name), types.as_bytes()].concat())
}

/// The prefix of the names of extensions.
pub(crate) const EXTENSIONS: [u8; 2] = [1, 0x21];

pub(crate) fn extension_key(name: &str) -> Key {
    to_key([&EXTENSIONS, name.as_bytes()].concat())
}

/// The prefix of advisory locks.
pub(crate) const ADVISORY: [u8; 2] = [1, 13];
/// The prefix of the leases of processes whose sessions hold advisory locks.
pub(crate) const LEASES: [u8; 2] = [1, 14];

/// The prefix of notifications.
pub(crate) const NOTIFICATIONS: [u8; 2] = [1, 15];

pub(crate) fn dropped_key(storage: u32) -> Key {
    to_key([&DROPPED, &storage.to_be_bytes()[..]].concat())
}

pub(crate) const PENDING: [u8; 2] = [1, 6];

pub(crate) fn pending_key(storage: u32) -> Key {
    to_key([&PENDING, &storage.to_be_bytes()[..]].concat())
}

/// The prefix of what a commit does with temporary tables.
pub(crate) const ON_COMMIT: [u8; 2] = [1, 0xF0];

pub(crate) fn on_commit_key(table: u32) -> Key {
    to_key([&ON_COMMIT, &table.to_be_bytes()[..]].concat())
}

/// The first byte of the keys of the catalog.
const CATALOG: u8 = 1;
/// The kinds of keys of the catalog that begin with the id of an object, a storage or a schema.
const BY_ID: [u8; 8] = [2, 4, 5, 6, 7, 8, 0x0B, 0x0C];

/// True for a key of the catalog.
pub(crate) fn is_of_catalog(key: &Key) -> bool {
    key.first() == Some(&CATALOG)
}

/// True if there is the id of a temporary object in a key.
fn has_temporary_id(key: &[u8], at: usize) -> bool {
    let id = key.get(at..).and_then(|rest| rest.first_chunk());
    id.is_some_and(|id| temporary::is_temporary(u32::from_be_bytes(*id)))
}

/// True for a key of a temporary object: it is in the session's memory.
pub(crate) fn is_temporary(key: &[u8]) -> bool {
    match key {
        [ROWS, ..] => has_temporary_id(key, 1),
        // The user of an object, too.
        [CATALOG, 8, ..] => has_temporary_id(key, 2) || has_temporary_id(key, 6),
        [CATALOG, kind, ..] if BY_ID.contains(kind) => has_temporary_id(key, 2),
        [CATALOG, 0x0A, schema @ ..] => schema.starts_with(temporary::ALIAS.as_bytes()),
        _ => key.starts_with(&ON_COMMIT),
    }
}

/// True if all keys of a range are those of temporary objects, as far as there are any.
pub(crate) fn is_all_temporary(range: &KeyRange) -> bool {
    let start = &*range.start;
    let ends_by = |last: &[u8]| range.end.as_ref().is_some_and(|end| **end <= *last);
    match start {
        // Storages are ordered by their ids, and are the last keys.
        [ROWS, ..] => has_temporary_id(start, 1),
        [CATALOG, kind, ..] if BY_ID.contains(kind) => {
            has_temporary_id(start, 2) && ends_by(&[CATALOG, kind + 1])
        }
        _ => is_temporary(start) && ends_by(&range.start.successor()) || start == ON_COMMIT,
    }
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

/// Returns the storage of a row or an entry of an index.
pub(crate) fn storage_of(key: &Key) -> Option<u32> {
    let id = key.strip_prefix(&[ROWS])?.first_chunk()?;
    Some(u32::from_be_bytes(*id))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_temporary_objects_are_told_by_their_ids() {
        let (shared, own) = (16_400, temporary::SCHEMA + 5);
        let both = |of: fn(u32) -> Key| [of(shared), of(own)];
        for [shared, own] in [
            both(descriptor_key),
            both(comments_key),
            both(version_key),
            both(statistics_number_key),
            both(statistics_key),
            both(dropped_key),
            both(|id| name_key(id, "t")),
            both(|id| type_name_key(id, "t")),
            both(|id| user_key(id, 16_500)),
            both(|id| user_key(16_500, id)),
            both(|id| to_key([storage_prefix(id), vec![1]].concat())),
            [schema_name_key("s"), schema_name_key("pg_temp")],
            [name_key(PUBLIC, "pg_temp"), on_commit_key(own)],
        ] {
            assert!(!is_temporary(&shared), "{shared:?}");
            assert!(is_temporary(&own), "{own:?}");
            assert!(!is_all_temporary(&KeyRange::point(shared)));
        }
    }

    #[test]
    fn ranges_of_temporary_objects_have_no_other_keys() {
        let own = temporary::SCHEMA + 5;
        for range in [
            prefix_range(&storage_prefix(own)),
            prefix_range(&users_prefix(own)),
            prefix_range(&names_prefix(temporary::SCHEMA)),
            prefix_range(&ON_COMMIT),
            KeyRange::point(schema_name_key("pg_temp")),
            KeyRange { start: version_key(own), end: Some(statistics_number_key(own).successor()) },
        ] {
            assert!(is_all_temporary(&range), "{range:?}");
        }
        for range in [
            KeyRange::all(),
            prefix_range(&[ROWS]),
            prefix_range(&DESCRIPTORS),
            prefix_range(&users_prefix(16_400)),
            KeyRange { start: descriptor_key(own), end: Some(version_key(16_400)) },
        ] {
            assert!(!is_all_temporary(&range), "{range:?}");
        }
    }
}
