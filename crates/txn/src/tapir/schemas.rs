//! Which versions of tables' schemas a transaction was planned for, and whether they hold where it
//! reads and writes.
//!
//! In each shard that has keys of a table there is a row that says which version of its schema
//! holds there. Who changes the schema writes it, and who uses the table reads it: so it is
//! validated as everything else is, and no rule of its own is needed. A table whose schema never
//! changed has no such row.

use crate::{Conflict, Failure, SchemaVersion};
use meridian_machine::ShardId;
use meridian_mvcc::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What stands in the row of a schema's version.
pub(super) fn row(version: u64) -> Value {
    Value::from(version.to_be_bytes().to_vec())
}

/// What a transaction was planned for.
#[derive(Debug, Default)]
pub(super) struct Planned {
    /// Of each table the oldest version.
    tables: BTreeMap<u32, u64>,
    /// Where that was looked at.
    checked: BTreeSet<(ShardId, u32)>,
}

impl Planned {
    /// What comes next is planned for this.
    pub fn plan(&mut self, SchemaVersion { table, version }: SchemaVersion) {
        let known = self.tables.entry(table).or_insert(version);
        if version < *known {
            *known = version;
            self.checked.retain(|(_, other)| *other != table);
        }
    }

    /// Tables of which nobody has looked yet whether the plan holds in a shard.
    pub fn unchecked(&self, shard: ShardId) -> Vec<u32> {
        self.tables
            .keys()
            .copied()
            .filter(|table| !self.checked.contains(&(shard, *table)))
            .collect()
    }

    /// What the row there says of it.
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
                    "what shard {} keeps of a table's schema is no version",
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
