//! The error detail of a transaction that lost a conflict: the object, and the other transaction.

use crate::catalog::{Cache, Table};
use crate::datetime::Zone;
use crate::error::SqlError;
use crate::{key, kv};
use meridian_txn::{Age, Conflict};

/// Adds the detail of a conflict to an error; `age` is that of the transaction that lost, `zone`
/// the zone of its session.
pub(crate) fn explain(
    mut error: SqlError,
    cache: &Cache,
    age: Option<Age>,
    zone: &Zone,
) -> SqlError {
    let Some(conflict) = error.conflict.take() else { return error };
    let (by, key, application) = match *conflict {
        Conflict::Wounded { by, key, application } => (by, key, application),
        Conflict::SchemaChanged { table } => {
            let name = cache
                .find(|known| known.id == table)
                .map_or(String::new(), |table| format!(" \"{}\"", table.name));
            return error.detail(format!(
                "Nothing of the transaction happened: the definition of a table{name} that it used changed before it could commit."
            ));
        }
        Conflict::WrittenSince { key, .. } => {
            let Some(place) = place(cache, &key, zone) else { return error };
            return error.detail(format!(
                "Nothing of the transaction happened: another transaction has written {place} after this one's snapshot."
            ));
        }
        Conflict::ReadLater { key } => {
            let Some(place) = place(cache, &key, zone) else { return error };
            return error.detail(format!(
                "Nothing of the transaction happened: a transaction that began later has read {place}, which this one writes."
            ));
        }
        _ => return error,
    };
    let over = place(cache, &key, zone).map_or(String::new(), |place| format!(" over {place}"));
    let named = application.filter(|name| !name.is_empty());
    let who = named.map_or(String::new(), |name| format!(" of application \"{name}\""));
    let earlier = age.and_then(|age| age.began_ns.checked_sub(by.began_ns));
    let since =
        earlier.map_or(String::new(), |ns| format!(", {:.1} ms before this one", ns as f64 / 1e6));
    error.detail(format!(
        "Nothing of the transaction happened: it conflicted{over} with a transaction{who} that began earlier, on node {}{since}.",
        by.node
    ))
}

/// Describes the row or the table of a key.
fn place(cache: &Cache, key: &[u8], zone: &Zone) -> Option<String> {
    let id = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    if let Some(rest) = key.strip_prefix(&kv::VERSIONS) {
        let table = id(rest).and_then(|id| cache.find(|table| table.id == id))?;
        return Some(format!("the definition of table \"{}\"", table.name));
    }
    let rest = key.strip_prefix(&[kv::ROWS])?;
    let storage = id(rest)?;
    let of_index = |table: &Table| table.indexes.iter().any(|index| index.id == storage);
    let table = cache.find(|table| table.storage == storage || of_index(table))?;
    let index = table.indexes.iter().find(|index| index.id == storage);
    let index = index.or(table.primary.as_ref());
    let (mut reader, mut names, mut values) =
        (key::Reader::new(&rest[4..]), Vec::new(), Vec::new());
    for (index, part) in
        index.iter().flat_map(|index| index.columns.iter().map(move |p| (index, p)))
    {
        let ty = index.type_of(&table, *part);
        let Ok(value) = reader.read(ty, part.descending) else { break };
        names.push(index.text_of(&table, *part).to_owned());
        values.push(value.to_text_in(ty, zone).unwrap_or_else(|| "null".to_owned()));
    }
    Some(match names.is_empty() {
        true => format!("rows of table \"{}\"", table.name),
        false => {
            format!("({})=({}) of table \"{}\"", names.join(", "), values.join(", "), table.name)
        }
    })
}
