//! Writes rows: generated columns, constraints, the row, the entries of its indexes.

use crate::catalog::{ColumnDef, Table};
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Facts;
use crate::index::{Entry, Index, IndexPart};
use crate::key;
use crate::kv;
use crate::row;
use meridian_mvcc::{Key, Value};
use meridian_txn::{Age, Failure, Future, Lock, Transaction};

/// The place that rows are written to: a transaction, or what waits to be written to it.
pub(crate) trait Store: Send {
    /// Returns the age of the transaction.
    fn age(&self) -> Age;
    /// Reads a key that is about to be written, own writes first.
    fn read<'a>(&'a mut self, key: &'a Key) -> Future<'a, Result<Option<Value>, Failure>>;
    /// Writes a key; `None` deletes it.
    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure>;
}

impl Store for dyn Transaction + '_ {
    fn age(&self) -> Age {
        Transaction::age(self)
    }

    fn read<'a>(&'a mut self, key: &'a Key) -> Future<'a, Result<Option<Value>, Failure>> {
        self.get(key, Lock::Exclusive)
    }

    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        Transaction::put(self, key, value)
    }
}

/// The conflict that prevents the insertion of a row.
pub(crate) struct Clash {
    /// The secondary index; `None` for the primary key.
    pub(crate) index: Option<usize>,
    /// The key of the existing row.
    pub(crate) key: Key,
}

/// Returns a key for a row of a table without a primary key. The transaction's age is unique, so
/// that no shared counter is needed.
pub(crate) fn hidden_key(table: &Table, age: Age, row_number: &mut u64) -> Vec<u8> {
    let mut out = kv::storage_prefix(table.storage);
    for part in [age.began_ns, age.node.into(), age.number, *row_number] {
        key::write(&Datum::Int8(part as i64), false, &mut out);
    }
    *row_number += 1;
    out
}

/// Fails if a row violates a constraint that concerns it alone. `before` is the row that it
/// replaces.
fn check(
    table: &Table,
    row: &[Datum],
    before: Option<&[Datum]>,
    facts: &Facts,
) -> Result<(), SqlError> {
    table.check_domains(row, before, facts)?;
    for (column, datum) in table.columns.iter().zip(row) {
        if column.not_null && datum.is_null() {
            return Err(SqlError::new(
                state::NOT_NULL,
                format!(
                    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                    column.name, table.name
                ),
            )
            .detail(format!("Failing row contains ({}).", shown(table, row, facts.zone())))
            .of_column(table, &column.name));
        }
    }
    table.check(row, facts, || shown(table, row, facts.zone()))
}

/// The bytes of a value beyond which the detail of an error cuts it.
const SHOWN_BYTES: usize = 64;

/// Returns the values of a row for the detail of an error.
fn shown(table: &Table, row: &[Datum], zone: &Zone) -> String {
    let text = |(at, column): (usize, &ColumnDef)| {
        let mut text = row[at].to_text_in(column.ty, zone).unwrap_or_else(|| "null".into());
        if text.len() > SHOWN_BYTES {
            text.truncate(text.floor_char_boundary(SHOWN_BYTES));
            text += "...";
        }
        text
    };
    table.present().map(text).collect::<Vec<_>>().join(", ")
}

/// Returns 23505 in PostgreSQL's words.
pub(crate) fn duplicate(
    table: &Table,
    index: Option<usize>,
    row: &[Datum],
    zone: &Zone,
) -> SqlError {
    let Some(index) = index.map(|at| &table.indexes[at]).or(table.primary.as_ref()) else {
        return SqlError::new(state::UNIQUE, "duplicate key value");
    };
    duplicate_of(table, index, row, zone)
}

pub(crate) fn duplicate_of(table: &Table, index: &Index, row: &[Datum], zone: &Zone) -> SqlError {
    match index.values(row) {
        Ok(values) => duplicate_values(table, index, &values, zone),
        Err(_) => duplicate_in(table, index),
    }
}

fn duplicate_in(table: &Table, index: &Index) -> SqlError {
    let message = format!("duplicate key value violates unique constraint \"{}\"", index.name);
    SqlError::new(state::UNIQUE, message).of_constraint(table, &index.name)
}

/// Returns 23505 for values of a key.
pub(crate) fn duplicate_values(
    table: &Table,
    index: &Index,
    values: &[Datum],
    zone: &Zone,
) -> SqlError {
    let names: Vec<&str> = index.columns.iter().map(|part| index.text_of(table, *part)).collect();
    let text = |(part, value): (&IndexPart, &Datum)| {
        value.to_text_in(index.type_of(table, *part), zone).unwrap_or_else(|| "null".into())
    };
    let values: Vec<String> = index.columns.iter().zip(values).map(text).collect();
    duplicate_in(table, index).detail(format!(
        "Key ({})=({}) already exists.",
        names.join(", "),
        values.join(", ")
    ))
}

/// Returns the row that conflicts with a new one in one key, `None` being the primary key.
pub(crate) async fn clash_in<S: Store + ?Sized>(
    txn: &mut S,
    table: &Table,
    row: &[Datum],
    index: Option<usize>,
) -> Result<Option<Clash>, SqlError> {
    let clash = |key: Vec<u8>| Clash { index, key: kv::to_key(key) };
    let Some(at) = index else {
        let Some(key) = table.row_key(row) else { return Ok(None) };
        let there = txn.read(&kv::to_key(key.clone())).await?;
        return Ok(there.map(|_| clash(key)));
    };
    let index = &table.indexes[at];
    let Some(Entry { key, unique: true, .. }) = index.entry(row, &[])? else { return Ok(None) };
    let Some(there) = txn.read(&kv::to_key(key)).await? else { return Ok(None) };
    let mut key = kv::storage_prefix(table.storage);
    key.extend(index.row_key(&there)?);
    Ok(Some(clash(key)))
}

/// Inserts a row, or returns the conflicting row. The generated columns take their values first.
pub(crate) async fn insert<S: Store + ?Sized>(
    txn: &mut S,
    table: &Table,
    row: &mut [Datum],
    facts: &Facts,
    row_number: &mut u64,
) -> Result<Option<Clash>, SqlError> {
    insert_above(txn, table, row, facts, row_number, None).await
}

/// Inserts a row into storage that has no key above `highest`: rows in the order of their keys need
/// no check.
pub(crate) async fn insert_above<S: Store + ?Sized>(
    txn: &mut S,
    table: &Table,
    row: &mut [Datum],
    facts: &Facts,
    row_number: &mut u64,
    highest: Option<&mut Option<Key>>,
) -> Result<Option<Clash>, SqlError> {
    table.generate(row)?;
    check(table, row, None, facts)?;
    let key = match table.row_key(row) {
        Some(bytes) => {
            let key = kv::to_key(bytes);
            let surely_new = highest.is_some_and(|highest| match highest {
                Some(known) if key <= *known => false,
                highest => highest.replace(key.clone()).is_none_or(|known| known < key),
            });
            if !surely_new && txn.read(&key).await?.is_some() {
                return Ok(Some(Clash { index: None, key }));
            }
            key
        }
        None => kv::to_key(hidden_key(table, txn.age(), row_number)),
    };
    let suffix = &key[kv::PREFIX..];
    let mut entries = Vec::with_capacity(table.indexes.len());
    for (at, index) in table.indexes.iter().enumerate() {
        let Some(Entry { key: bytes, unique, value }) = index.entry(row, suffix)? else { continue };
        let entry = kv::to_key(bytes);
        if unique && let Some(other) = txn.read(&entry).await? {
            let mut key = kv::storage_prefix(table.storage);
            key.extend(index.row_key(&other)?);
            return Ok(Some(Clash { index: Some(at), key: kv::to_key(key) }));
        }
        entries.push((entry, value));
    }
    for (entry, value) in entries {
        txn.put(entry, Some(kv::to_value(value)))?;
    }
    txn.put(key, Some(kv::to_value(row::encode(table, row))))?;
    Ok(None)
}

/// Replaces a row, whose generated columns have their new values; the key may change with it.
pub(crate) async fn update<S: Store + ?Sized>(
    txn: &mut S,
    table: &Table,
    key: &Key,
    old: &[Datum],
    new: &[Datum],
    facts: &Facts,
) -> Result<(), SqlError> {
    check(table, new, Some(old), facts)?;
    let new_key = table.row_key(new).map_or_else(|| key.clone(), kv::to_key);
    let moved = new_key != *key;
    if moved {
        if txn.read(&new_key).await?.is_some() {
            return Err(duplicate(table, None, new, facts.zone()));
        }
        txn.put(key.clone(), None)?;
    }
    for (at, index) in table.indexes.iter().enumerate() {
        let before = old_entry(index, old, &key[kv::PREFIX..])?;
        let after = index.entry(new, &new_key[kv::PREFIX..])?;
        if before == after {
            continue;
        }
        let stays =
            before.as_ref().map(|entry| &entry.key) == after.as_ref().map(|entry| &entry.key);
        if let Some(Entry { key: after, unique: true, .. }) = &after
            && (!stays || index.building.is_some())
        {
            let there = txn.read(&kv::to_key(after.clone())).await?;
            if let Some(there) = there
                && (!stays || *index.row_key(&there)? != key[kv::PREFIX..])
            {
                return Err(duplicate(table, Some(at), new, facts.zone()));
            }
        }
        if let Some(before) = before.filter(|_| !stays) {
            remove_entry(txn, index, before.key, &key[kv::PREFIX..]).await?;
        }
        if let Some(Entry { key, value, .. }) = after {
            txn.put(kv::to_key(key), Some(kv::to_value(value)))?;
        }
    }
    Ok(txn.put(new_key, Some(kv::to_value(row::encode(table, new))))?)
}

/// Returns the entry that an index may have of an existing row. While the index is built there may
/// be rows for which its expressions fail: they have none.
fn old_entry(index: &Index, row: &[Datum], suffix: &[u8]) -> Result<Option<Entry>, SqlError> {
    match index.entry(row, suffix) {
        Err(_) if index.building.is_some() => Ok(None),
        entry => entry,
    }
}

/// Deletes a row.
pub(crate) async fn delete<S: Store + ?Sized>(
    txn: &mut S,
    table: &Table,
    key: &Key,
    row: &[Datum],
) -> Result<(), SqlError> {
    for index in &table.indexes {
        if let Some(entry) = old_entry(index, row, &key[kv::PREFIX..])? {
            remove_entry(txn, index, entry.key, &key[kv::PREFIX..]).await?;
        }
    }
    Ok(txn.put(key.clone(), None)?)
}

/// Removes a row's index entry. In a unique index that is being built the entry may be another
/// row's: this row, which is older, has none yet.
async fn remove_entry<S: Store + ?Sized>(
    txn: &mut S,
    index: &Index,
    entry: Vec<u8>,
    suffix: &[u8],
) -> Result<(), SqlError> {
    let entry = kv::to_key(entry);
    if index.unique && index.building.is_some() {
        let there = txn.read(&entry).await?;
        if let Some(there) = there
            && index.row_key(&there)? != suffix
        {
            return Ok(());
        }
    }
    Ok(txn.put(entry, None)?)
}
