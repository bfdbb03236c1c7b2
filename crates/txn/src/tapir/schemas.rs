//! The schema versions that a transaction was planned for, and their validation where it reads and
//! writes.
//!
//! Each shard that has keys of a table has a row with the version of the table's schema that holds
//! there. A schema change writes the row, and a transaction that uses the table reads it. So it is
//! validated like every other read, and needs no rule of its own. A table whose schema never
//! changed has no such row.

use crate::{Conflict, Failure, SchemaVersion};
use meridian_machine::ShardId;
use meridian_mvcc::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the value of the row of a schema's version.
pub(super) fn row(version: u64) -> Value {
    Value::from(version.to_be_bytes().to_vec())
}

/// The schema versions that a transaction was planned for.
#[derive(Debug, Default)]
pub(super) struct Planned {
    /// The oldest planned version of each table.
    tables: BTreeMap<u32, u64>,
    /// The shards and tables where the version was checked.
    checked: BTreeSet<(ShardId, u32)>,
}

impl Planned {
    /// Declares the schema version of a table that the following statements are planned for.
    pub fn plan(&mut self, SchemaVersion { table, version }: SchemaVersion) {
        let known = self.tables.entry(table).or_insert(version);
        if version < *known {
            *known = version;
            self.checked.retain(|(_, other)| *other != table);
        }
    }

    /// Returns the tables whose planned version was not checked yet in a shard.
    pub fn unchecked(&self, shard: ShardId) -> Vec<u32> {
        self.tables
            .keys()
            .copied()
            .filter(|table| !self.checked.contains(&(shard, *table)))
            .collect()
    }

    /// Checks the planned version of a table against its row in a shard.
    pub fn check(
        &mut self,
        shard: ShardId,
        table: u32,
        row: Option<&Value>,
    ) -> Result<(), Failure> {
        let holds = match row {
            None => 0,
            Some(row) => <[u8; 8]>::try_from(&row[..]).map(u64::from_be_bytes).map_err(|_| {
                Failure::Storage(format!(
                    "the schema version of a table in shard {} cannot be decoded",
                    shard.0
                ))
            })?,
        };
        if self.tables.get(&table).is_some_and(|planned| holds > *planned) {
            return Err(Failure::Aborted(Conflict::SchemaChanged { table }));
        }
        self.checked.insert((shard, table));
        Ok(())
    }
}
