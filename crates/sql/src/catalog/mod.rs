//! Descriptors of objects, from tables to schemas: rows of the database itself, under its own
//! protocol, so that DDL is transactional.
//!
//! Each object has a row with its version, which DDL locks and writes. Other transactions read it
//! only when they plan, at a snapshot. They declare the versions that they planned for, and the
//! shards that hold the rows reject outdated ones ([`Transaction::planned_for`]).

mod cache;
mod comments;
mod generated;
mod object;
mod schema;
mod table;
mod user_type;

pub(crate) use cache::{Cache, Planned};
pub(crate) use comments::{Comments, Part, comments, put_comments};
pub(crate) use generated::Generated;
pub(crate) use object::{Object, schema_codec};
pub(crate) use schema::{
    Resolver, Schema, SearchPath, extension, functions_in, is_system_schema, put_schema_name,
    schema_id, type_of_id,
};
pub use table::{ColumnDef, Identity, Table};
pub(crate) use table::{dropped_name, type_codec};
pub(crate) use user_type::UserType;

use crate::composite::ROW_ARRAY;
use crate::error::{SqlError, state};
use crate::kv;
use crate::statistics;
use crate::temporary;
use meridian_clock::Timestamp;
use meridian_mvcc::{Key, KeyRange};
use meridian_txn::{Lock, Mode, Transaction};
use minicbor::{Decode, Encode};
use std::sync::Arc;

/// The relation of a name.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Relation {
    #[n(0)]
    pub(crate) id: u32,
    /// The table of an index; its own id for a table.
    #[n(1)]
    pub(crate) table: u32,
}

impl Relation {
    pub(crate) fn decode(value: &[u8]) -> Result<Relation, SqlError> {
        minicbor::decode(value)
            .map_err(|error| SqlError::corrupted(format!("a name in the catalog: {error}")))
    }
}

/// Returns the version of an object, as a transaction sees it; `None` if it does not exist.
pub(crate) async fn version(
    txn: &mut dyn Transaction,
    id: u32,
    lock: Lock,
) -> Result<Option<u64>, SqlError> {
    let value = txn.get(&kv::version_key(id), lock).await?;
    value.map(|value| read_u64(&value.0)).transpose()
}

/// Returns the version of an object and the number of its statistics, and the version's commit
/// timestamp, if the transaction reports those.
async fn newest(
    txn: &mut dyn Transaction,
    id: u32,
    lock: Lock,
) -> Result<Option<(Planned, Option<Timestamp>)>, SqlError> {
    let (start, end) = (kv::version_key(id), kv::statistics_number_key(id).successor());
    let found = txn.scan(&KeyRange { start, end: Some(end) }, lock, false, 2).await?;
    let at = found.at.first().copied().flatten();
    let mut rows = found.rows.iter();
    let Some((_, version)) = rows.next() else { return Ok(None) };
    let statistics = rows.next().map_or(0, |(_, value)| statistics::number(&value.0));
    Ok(Some((Planned { id, version: read_u64(version)?, statistics }, at)))
}

/// Reads an id that a value of the catalog is.
pub(crate) fn read_u32(bytes: &[u8]) -> Result<u32, SqlError> {
    bytes
        .try_into()
        .map(u32::from_be_bytes)
        .map_err(|_| SqlError::corrupted("an id in the catalog"))
}

fn read_u64(bytes: &[u8]) -> Result<u64, SqlError> {
    bytes
        .try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| SqlError::corrupted("a number in the catalog"))
}

/// Returns the relation of a name in a schema, if there is one.
pub(crate) async fn relation_in(
    txn: &mut dyn Transaction,
    schema: u32,
    name: &str,
) -> Result<Option<Relation>, SqlError> {
    let key = kv::name_key(schema, name);
    let found = txn.get(&key, Lock::Shared).await?;
    found.map(|value| Relation::decode(&value)).transpose()
}

/// Returns the object of an id. `clean`: the transaction has changed no descriptor, so that its
/// reads are committed.
pub(crate) async fn object_by_id(
    txn: &mut dyn Transaction,
    cache: &Cache,
    id: u32,
    clean: bool,
    lock: Lock,
) -> Result<Option<Object>, SqlError> {
    let Some((planned, since)) = newest(txn, id, lock).await? else { return Ok(None) };
    if temporary::is_temporary(id) {
        // Sessions share the cache.
        let found = read_object(txn, planned).await?;
        return Box::pin(with_newest_types(txn, cache, found, clean)).await.map(Some);
    }
    let since = since.or(txn.read_at()).filter(|_| clean && txn.mode() != Mode::ReadWrite);
    if clean && let Some(object) = cache.get(planned) {
        if let Some(at) = since {
            cache.put(object.clone(), at);
        }
        return Ok(Some(object));
    }
    let object = read_object(txn, planned).await?;
    if let Some(at) = since {
        cache.put(object.clone(), at);
    }
    Ok(Some(object))
}

/// Reads an object whose version is known.
async fn read_object(txn: &mut dyn Transaction, planned: Planned) -> Result<Object, SqlError> {
    let id = planned.id;
    let Some(value) = txn.get(&kv::descriptor_key(id), Lock::Shared).await? else {
        return Err(SqlError::corrupted(format!("object {id} has a version and no descriptor")));
    };
    let mut object = Object::decode(&value.0)?;
    if let Object::Table(table) = &mut object
        && planned.statistics > 0
    {
        Arc::make_mut(table).statistics = statistics::read(txn, id).await?.map(Arc::new);
    }
    Ok(object)
}

/// Gives the columns of a temporary object the newest versions of their types: other sessions
/// change these, and do not see it. Fails with 0A000 if its rows or expressions do not fit them.
async fn with_newest_types(
    txn: &mut dyn Transaction,
    cache: &Cache,
    mut object: Object,
    clean: bool,
) -> Result<Object, SqlError> {
    let mut changed = None;
    for old in object.user_types() {
        let found = type_of_id(txn, cache, old.id(), clean, Lock::Shared).await?;
        // A type that was dropped stays what it was.
        let Some(new) = found.filter(|new| !new.is_version(old)) else { continue };
        let refused = |error: Option<SqlError>| changed_type(old, object.name(), error);
        if let (UserType::Composite(before), UserType::Composite(after)) = (old, new) {
            let is_in_key = object.table().is_some_and(|table| table.key_with(old).is_some());
            if !before.is_stored_as(after) || is_in_key && before.loses_fields(after) {
                return Err(refused(None));
            }
        }
        changed = Some(old);
        let columns = match &mut object {
            Object::Table(table) => &mut Arc::make_mut(table).columns,
            Object::View(view) => &mut Arc::make_mut(view).columns,
            _ => continue,
        };
        columns.iter_mut().for_each(|column| column.take_version(new));
    }
    if let (Some(of), Object::Table(table)) = (changed, &mut object) {
        let table = Arc::make_mut(table);
        table.columns.iter_mut().try_for_each(ColumnDef::settle)?;
        let bound = table.bind_stored();
        bound.map_err(|error| changed_type(of, &table.name, Some(error)))?;
    }
    Ok(object)
}

/// Returns the error of a temporary table that does not fit the newest version of a type.
fn changed_type(of: UserType, table: &str, why: Option<SqlError>) -> SqlError {
    let of = of.shown();
    let what = format!("reading \"{table}\", whose type {of} another session has changed,");
    let error = SqlError::unsupported(what).hint("DISCARD TEMP removes the table.");
    match why {
        Some(why) => error.detail(why.message),
        None => error,
    }
}

/// Returns the table of an id.
pub(crate) async fn table_by_id(
    txn: &mut dyn Transaction,
    cache: &Cache,
    id: u32,
    clean: bool,
    lock: Lock,
) -> Result<Option<Arc<Table>>, SqlError> {
    let object = object_by_id(txn, cache, id, clean, lock).await?;
    Ok(object.and_then(|object| object.table().cloned()))
}

/// Reads a temporary table as the session has defined it: other sessions may have changed its types
/// since.
pub(crate) async fn temporary_table(
    txn: &mut dyn Transaction,
    id: u32,
) -> Result<Option<Arc<Table>>, SqlError> {
    if version(txn, id, Lock::Shared).await?.is_none() {
        return Ok(None);
    }
    let value = txn.get(&kv::descriptor_key(id), Lock::Shared).await?;
    let object = value.map(|value| Object::decode(&value.0)).transpose()?;
    Ok(object.and_then(|object| object.table().cloned()))
}

/// Returns the id of the type of a name in a schema, if there is one.
pub(crate) async fn type_in(
    txn: &mut dyn Transaction,
    schema: u32,
    name: &str,
    lock: Lock,
) -> Result<Option<u32>, SqlError> {
    let found = txn.get(&kv::type_name_key(schema, name), lock).await?;
    found.map(|value| read_u32(&value)).transpose()
}

/// Returns the error of an object of another kind.
pub(crate) fn not_a(kind: &str, name: &str) -> SqlError {
    let article = if kind.starts_with('i') { "an" } else { "a" };
    SqlError::new(state::WRONG_OBJECT, format!("\"{name}\" is not {article} {kind}"))
}

/// Returns all names in schema `public`, for "did you mean".
pub(crate) async fn names(txn: &mut dyn Transaction) -> Result<Vec<(String, Relation)>, SqlError> {
    let mut names = Vec::new();
    let mut rest = Some(kv::prefix_range(&kv::NAMES));
    while let Some(range) = rest {
        let chunk = txn.scan(&range, Lock::Shared, false, 1000).await?;
        for (key, value) in &chunk.rows {
            let name = String::from_utf8_lossy(&key.0[kv::NAMES.len()..]).into_owned();
            names.push((name, Relation::decode(value)?));
        }
        rest = chunk.rest;
    }
    Ok(names)
}

/// Allocates the next id, which tables and indexes share, for [`crate::bulk::Ids`]. User objects
/// begin at PostgreSQL's first id.
pub(crate) async fn next_id(txn: &mut dyn Transaction) -> Result<u32, SqlError> {
    let key: Key = kv::to_key(kv::NEXT_ID.to_vec());
    let next = txn
        .get(&key, Lock::Exclusive)
        .await?
        .map(|value| read_u64(&value.0))
        .transpose()?
        .unwrap_or(16384);
    txn.put(key, Some(kv::to_value((next + 1).to_be_bytes().to_vec())))?;
    let id = u32::try_from(next).ok().filter(|id| *id < ROW_ARRAY);
    id.ok_or_else(|| SqlError::new(state::TOO_LARGE, "all object ids are used up"))
}

/// Writes the name of a relation.
pub(crate) fn put_name(
    txn: &mut dyn Transaction,
    schema: u32,
    name: &str,
    id: u32,
    table: u32,
) -> Result<(), SqlError> {
    let bytes = minicbor::to_vec(Relation { id, table })
        .expect("invariant: writing to memory does not fail");
    Ok(txn.put(kv::name_key(schema, name), Some(kv::to_value(bytes)))?)
}

/// Writes the name of a type.
pub(crate) fn put_type_name(
    txn: &mut dyn Transaction,
    schema: u32,
    name: &str,
    id: u32,
) -> Result<(), SqlError> {
    let value = kv::to_value(id.to_be_bytes().to_vec());
    Ok(txn.put(kv::type_name_key(schema, name), Some(value))?)
}

/// Writes a descriptor and its version.
pub(crate) fn put(txn: &mut dyn Transaction, object: &Object) -> Result<(), SqlError> {
    let Planned { id, version, .. } = object.planned();
    txn.put(kv::descriptor_key(id), Some(kv::to_value(object.encode())))?;
    Ok(txn.put(kv::version_key(id), Some(kv::to_value(version.to_be_bytes().to_vec())))?)
}

/// Writes the descriptor of a table and its version.
pub(crate) fn put_table(txn: &mut dyn Transaction, table: Table) -> Result<(), SqlError> {
    put(txn, &Object::Table(Arc::new(table)))
}

/// Removes a descriptor, its version and its name.
pub(crate) fn remove(txn: &mut dyn Transaction, object: &Object) -> Result<(), SqlError> {
    txn.put(object.name_key(), None)?;
    txn.put(kv::comments_key(object.id()), None)?;
    txn.put(kv::descriptor_key(object.id()), None)?;
    Ok(txn.put(kv::version_key(object.id()), None)?)
}

/// Marks a storage as unused, for VACUUM.
pub(crate) fn drop_storage(txn: &mut dyn Transaction, storage: u32) -> Result<(), SqlError> {
    Ok(txn.put(kv::dropped_key(storage), Some(kv::to_value(Vec::new())))?)
}
