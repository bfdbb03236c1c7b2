//! Descriptors of tables and indexes: rows of the database itself, under its own protocol, so that
//! DDL is transactional.
//!
//! Each table has a row with its version, which DDL locks and writes. Other transactions read it
//! only when they plan, at a snapshot. They declare the versions that they planned for, and the
//! shards that hold the rows reject outdated ones ([`Transaction::planned_for`]).

use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::index::Index;
use crate::key;
use crate::kv;
use crate::statistics::{self, Statistics};
use crate::types::Type;
use meridian_clock::Timestamp;
use meridian_mvcc::{Key, KeyRange};
use meridian_txn::{Lock, Mode, SchemaVersion, Transaction};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// The descriptor of a table.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Table {
    /// The id, which never changes.
    #[n(0)]
    pub id: u32,
    /// The version: 1 at first, and one more with each change of this descriptor.
    #[n(1)]
    pub version: u64,
    /// The name.
    #[n(2)]
    pub name: String,
    /// The storage of its rows.
    #[n(3)]
    pub storage: u32,
    /// The columns.
    #[n(4)]
    pub columns: Vec<ColumnDef>,
    /// The primary key; without one, rows have hidden ids as keys.
    #[n(5)]
    pub primary: Option<Index>,
    /// The secondary indexes.
    #[n(6)]
    pub indexes: Vec<Index>,
    #[cbor(skip)]
    stored: Vec<usize>,
    /// The statistics, if it has been analyzed.
    #[cbor(skip)]
    pub(crate) statistics: Option<Arc<Statistics>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ColumnDef {
    /// The name.
    #[n(0)]
    pub name: String,
    /// The type.
    #[n(1)]
    #[cbor(with = "type_codec")]
    pub ty: Type,
    /// True if it rejects NULL.
    #[n(2)]
    pub not_null: bool,
    /// The text of its DEFAULT.
    #[n(3)]
    pub default: Option<String>,
}

mod type_codec {
    use crate::types::Type;
    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};

    pub(super) fn encode<C, W: Write>(
        ty: &Type,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        e.array(2)?.u32(ty.oid())?.i32(ty.modifier())?.ok()
    }

    pub(super) fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Type, DecodeError> {
        d.array()?;
        let (oid, modifier) = (d.u32()?, d.i32()?);
        Type::with_modifier(oid, modifier).ok_or_else(|| DecodeError::message("unknown type"))
    }
}

impl Table {
    /// Derives the other fields. Must be called after every change of columns or primary key.
    pub(crate) fn settle(&mut self) {
        let in_key = |column: usize| {
            key::is_exact(self.columns[column].ty)
                && self
                    .primary
                    .as_ref()
                    .is_some_and(|p| p.columns.iter().any(|part| part.column as usize == column))
        };
        self.stored = (0..self.columns.len()).filter(|column| !in_key(*column)).collect();
    }

    pub(crate) fn new(id: u32, name: &str, columns: Vec<ColumnDef>) -> Self {
        let mut table = Table {
            id,
            version: 1,
            name: name.into(),
            storage: id,
            columns,
            primary: None,
            indexes: Vec::new(),
            stored: Vec::new(),
            statistics: None,
        };
        table.settle();
        table
    }

    /// Returns what a plan for this table depends on.
    pub(crate) fn planned(&self) -> Planned {
        let statistics = self.statistics.as_ref().map_or(0, |statistics| statistics.number);
        Planned { id: self.id, version: self.version, statistics }
    }

    /// Returns the columns that the stored value holds.
    pub(crate) fn stored(&self) -> &[usize] {
        &self.stored
    }

    /// Returns the number of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Returns the key ranges of its rows and of its indexes' entries, except in storages that only
    /// this transaction sees.
    pub(crate) fn ranges(&self, own: &[u32]) -> Vec<KeyRange> {
        let storages = [self.storage].into_iter().chain(self.indexes.iter().map(|index| index.id));
        let known = storages.filter(|storage| !own.contains(storage));
        known.map(|storage| kv::prefix_range(&kv::storage_prefix(storage))).collect()
    }

    /// From the commit on, rejects transactions that planned for this version or an older one.
    pub(crate) fn outdate(
        &self,
        txn: &mut dyn Transaction,
        to: u64,
        own: &[u32],
    ) -> Result<(), SqlError> {
        let ranges = self.ranges(own);
        if !ranges.is_empty() {
            txn.change_schema(SchemaVersion { table: self.id, version: to }, ranges)?;
        }
        Ok(())
    }

    /// Returns the key of a row under the primary key, with the storage's prefix. Without a primary
    /// key the caller allocates an id.
    pub(crate) fn row_key(&self, row: &[Datum]) -> Option<Vec<u8>> {
        let primary = self.primary.as_ref()?;
        let mut out = kv::storage_prefix(self.storage);
        for part in &primary.columns {
            key::write(&row[part.column as usize], part.descending, &mut out);
        }
        Some(out)
    }

    fn encode(&self) -> Vec<u8> {
        let mut table = self.clone();
        table.indexes.iter_mut().for_each(Index::mark);
        minicbor::to_vec(table).expect("invariant: writing to memory does not fail")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Table, SqlError> {
        let wrong = |why: &dyn std::fmt::Display| {
            SqlError::corrupted(format!("a table's descriptor: {why}"))
        };
        let mut table: Table = minicbor::decode(bytes).map_err(|e| wrong(&e))?;
        table.indexes.iter_mut().for_each(Index::unmark);
        let parts = table.primary.iter().chain(&table.indexes).flat_map(|index| &index.columns);
        let is_missing = |column: usize| column >= table.columns.len();
        let missing = parts.into_iter().filter_map(|part| part.column()).any(is_missing);
        let included = table.indexes.iter().flat_map(|index| &index.included);
        if missing || included.into_iter().any(|column| is_missing(*column as usize)) {
            return Err(wrong(&"an index of a column that is not there"));
        }
        table.settle();
        table.bind_indexes()?;
        Ok(table)
    }

    /// Binds the expressions and predicates of its indexes. Must be called after every change of
    /// its columns or indexes.
    pub(crate) fn bind_indexes(&mut self) -> Result<(), SqlError> {
        let has_text = |index: &Index| !index.expressions.is_empty() || index.predicate.is_some();
        if !self.indexes.iter().any(has_text) {
            return Ok(());
        }
        let rows = Arc::new(Table::new(self.id, &self.name, self.columns.clone()));
        self.indexes
            .iter_mut()
            .filter(|index| has_text(index))
            .try_for_each(|index| index.bind(&rows))
    }
}

/// The relation of a name.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Relation {
    #[n(0)]
    pub(crate) id: u32,
    /// The table of an index; its own id for a table.
    #[n(1)]
    pub(crate) table: u32,
}

/// A table as a plan was made for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) id: u32,
    pub(crate) version: u64,
    /// The number of its statistics; 0 without any.
    pub(crate) statistics: u64,
}

/// Descriptors by id, shared by all sessions of a database. Only committed ones are cached; they
/// may be outdated.
#[derive(Default)]
pub(crate) struct Cache {
    tables: Mutex<BTreeMap<u32, Known>>,
}

struct Known {
    table: Arc<Table>,
    /// The oldest snapshot at which the descriptor is known to be valid.
    since: Timestamp,
}

impl Cache {
    fn tables(&self) -> MutexGuard<'_, BTreeMap<u32, Known>> {
        self.tables.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn get(&self, planned: Planned) -> Option<Arc<Table>> {
        self.tables()
            .get(&planned.id)
            .filter(|known| known.table.planned() == planned)
            .map(|known| known.table.clone())
    }

    /// Returns the newest known version of a table, and the number of its statistics, if the
    /// version was valid at the snapshot.
    pub(crate) fn planned(&self, id: u32, at: Option<Timestamp>) -> Option<Planned> {
        let held = |known: &&Known| at.is_none_or(|at| known.since <= at);
        self.tables().get(&id).filter(held).map(|known| known.table.planned())
    }

    /// Returns a table whose newest known version began after a snapshot.
    pub(crate) fn changed_since(&self, id: u32, at: Timestamp) -> Option<Arc<Table>> {
        self.tables().get(&id).filter(|known| known.since > at).map(|known| known.table.clone())
    }

    /// Forgets a table that has changed.
    pub(crate) fn forget(&self, id: u32) {
        self.tables().remove(&id);
    }

    /// Forgets all tables.
    pub(crate) fn clear(&self) {
        self.tables().clear();
    }

    /// Finds a cached table.
    pub(crate) fn find(&self, which: impl Fn(&Table) -> bool) -> Option<Arc<Table>> {
        self.tables().values().find(|known| which(&known.table)).map(|known| known.table.clone())
    }

    fn put(&self, table: Arc<Table>, since: Timestamp) {
        let mut tables = self.tables();
        match tables.get_mut(&table.id) {
            Some(known) if known.table.version == table.version => {
                known.since = known.since.min(since);
                if known.table.planned().statistics < table.planned().statistics {
                    known.table = table;
                }
            }
            Some(known) if known.table.version > table.version => {}
            _ => drop(tables.insert(table.id, Known { table, since })),
        }
    }
}

/// Returns the version of a table, as a transaction sees it; `None` if the table does not exist.
pub(crate) async fn version(
    txn: &mut dyn Transaction,
    id: u32,
    lock: Lock,
) -> Result<Option<u64>, SqlError> {
    let value = txn.get(&kv::version_key(id), lock).await?;
    value.map(|value| read_u64(&value.0)).transpose()
}

/// Returns the version of a table and the number of its statistics, and the version's commit
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

fn read_u64(bytes: &[u8]) -> Result<u64, SqlError> {
    bytes
        .try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| SqlError::corrupted("a number in the catalog"))
}

/// Returns the relation of a name, if there is one.
pub(crate) async fn relation(
    txn: &mut dyn Transaction,
    name: &str,
) -> Result<Option<Relation>, SqlError> {
    let key = kv::name_key(name);
    let Some(value) = txn.get(&key, Lock::Shared).await? else { return Ok(None) };
    minicbor::decode(&value.0)
        .map(Some)
        .map_err(|e| SqlError::corrupted(format!("a name in the catalog: {e}")))
}

/// Returns the table of an id. `clean`: the transaction has changed no descriptor, so that its
/// reads are committed.
pub(crate) async fn table_by_id(
    txn: &mut dyn Transaction,
    cache: &Cache,
    id: u32,
    clean: bool,
    lock: Lock,
) -> Result<Option<Arc<Table>>, SqlError> {
    let Some((planned, since)) = newest(txn, id, lock).await? else { return Ok(None) };
    let since = since.or(txn.read_at()).filter(|_| clean && txn.mode() != Mode::ReadWrite);
    if clean && let Some(table) = cache.get(planned) {
        if let Some(at) = since {
            cache.put(table.clone(), at);
        }
        return Ok(Some(table));
    }
    let key = kv::descriptor_key(id);
    let Some(value) = txn.get(&key, Lock::Shared).await? else {
        return Err(SqlError::corrupted(format!("table {id} has a version and no descriptor")));
    };
    let mut table = Table::decode(&value.0)?;
    if planned.statistics > 0 {
        table.statistics = statistics::read(txn, id).await?.map(Arc::new);
    }
    let table = Arc::new(table);
    if let Some(at) = since {
        cache.put(table.clone(), at);
    }
    Ok(Some(table))
}

/// Returns the table of a name.
pub(crate) async fn table_by_name(
    txn: &mut dyn Transaction,
    cache: &Cache,
    name: &str,
    clean: bool,
    lock: Lock,
) -> Result<Option<Arc<Table>>, SqlError> {
    match relation(txn, name).await? {
        Some(relation) if relation.id == relation.table => {
            table_by_id(txn, cache, relation.id, clean, lock).await
        }
        Some(_) => Err(SqlError::new(state::WRONG_OBJECT, format!("\"{name}\" is not a table"))),
        None => Ok(None),
    }
}

/// Returns all names of the database, for "did you mean" and the catalog's own tables.
pub(crate) async fn names(txn: &mut dyn Transaction) -> Result<Vec<(String, Relation)>, SqlError> {
    let mut names = Vec::new();
    let mut rest = Some(kv::prefix_range(&kv::NAMES));
    while let Some(range) = rest {
        let chunk = txn.scan(&range, Lock::Shared, false, 1000).await?;
        for (key, value) in &chunk.rows {
            let name = String::from_utf8_lossy(&key.0[kv::NAMES.len()..]).into_owned();
            let relation = minicbor::decode(&value.0)
                .map_err(|e| SqlError::corrupted(format!("a name: {e}")))?;
            names.push((name, relation));
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
    u32::try_from(next).map_err(|_| SqlError::new(state::TOO_LARGE, "all object ids are used up"))
}

/// Writes the name of a relation.
pub(crate) fn put_name(
    txn: &mut dyn Transaction,
    name: &str,
    id: u32,
    table: u32,
) -> Result<(), SqlError> {
    let bytes = minicbor::to_vec(Relation { id, table })
        .expect("invariant: writing to memory does not fail");
    Ok(txn.put(kv::name_key(name), Some(kv::to_value(bytes)))?)
}

/// Writes a descriptor and its version.
pub(crate) fn put_table(txn: &mut dyn Transaction, table: &Table) -> Result<(), SqlError> {
    txn.put(kv::descriptor_key(table.id), Some(kv::to_value(table.encode())))?;
    Ok(txn
        .put(kv::version_key(table.id), Some(kv::to_value(table.version.to_be_bytes().to_vec())))?)
}

/// Marks a storage as unused, for VACUUM.
pub(crate) fn drop_storage(txn: &mut dyn Transaction, storage: u32) -> Result<(), SqlError> {
    Ok(txn.put(kv::dropped_key(storage), Some(kv::to_value(Vec::new())))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::IndexPart;

    #[test]
    fn a_release_that_does_not_know_an_index_refuses_its_table() {
        let column = |name: &str| ColumnDef {
            name: name.into(),
            ty: Type::Int4,
            not_null: false,
            default: None,
        };
        let mut table = Table::new(7, "t", vec![column("a"), column("b")]);
        let part = IndexPart { column: 1, descending: true };
        let plain = Index::new(8, "plain".into(), vec![part], false);
        table.indexes = vec![plain.clone(), plain.clone(), plain];
        table.indexes[1].predicate = Some("a > 3".into());
        table.indexes[2].included = vec![0];
        table.bind_indexes().expect("bound");
        let bytes = table.encode();
        assert_eq!(Table::decode(&bytes).expect("known"), table);
        // Earlier releases refuse the number of a column that is not there.
        let raw: Table = minicbor::decode(&bytes).expect("CBOR");
        let refused = |index: &Index| index.columns.iter().any(|part| part.column >= 2);
        assert_eq!(raw.indexes.iter().map(refused).collect::<Vec<_>>(), [false, true, true]);
    }
}
