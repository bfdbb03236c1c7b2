//! Statistics of tables: how many rows there are, and how the values of each column are spread.
//!
//! ```text
//!   01 04 id 00    the number of a table's statistics, beside its version: both are read at once
//!   01 07 id       the statistics of that number
//! ```
//!
//! `ANALYZE` writes them in a transaction. A server runs it by itself once much of a table has
//! changed ([`Changes`]). They change no answer, so they are no part of a table's version: nothing
//! that runs is rejected when they change. A plan that is kept is made again once this node has
//! read newer statistics.
//!
//! Values are kept as keys encode them ([`crate::key`]), which compare as bytes.

mod analyze;
mod changes;
mod sample;
mod selectivity;

pub(crate) use analyze::in_transaction;
pub(crate) use changes::Changes;
pub(crate) use selectivity::{ARRAY_ELEMENTS, selectivity};

use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::key;
use crate::kv;
use meridian_txn::{Lock, Transaction};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use sample::shortened;

/// The statistics of a table.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Statistics {
    /// The number: one more with each ANALYZE.
    #[n(0)]
    pub(crate) number: u64,
    /// The number of rows.
    #[n(1)]
    pub(crate) rows: u64,
    /// The columns, in the table's order. A column that was added since has none.
    #[n(2)]
    pub(crate) columns: Vec<ColumnStatistics>,
}

/// The statistics of a column.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct ColumnStatistics {
    /// The part of the rows with NULL.
    #[n(0)]
    pub(crate) nulls: f64,
    /// The estimated number of different values, without NULL.
    #[n(1)]
    pub(crate) distinct: f64,
    /// The most common values, and the part of the rows that has each.
    #[n(2)]
    common: Vec<(ByteVec, f64)>,
    /// Bounds of the other values, from the least to the largest: as many rows lie between any two
    /// neighbours.
    #[n(3)]
    bounds: Vec<ByteVec>,
}

/// Returns the part of the values from `low` to `high` that are below one, by the bytes in which
/// the bounds differ.
fn share(low: &[u8], value: &[u8], high: &[u8]) -> f64 {
    let same = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    let number = |bytes: &[u8]| {
        let digits = bytes.iter().skip(same).chain(std::iter::repeat(&0)).take(8);
        digits.fold(0.0, |number, digit| number * 256.0 + f64::from(*digit))
    };
    let (low, value, high) = (number(low), number(value), number(high));
    if low < high { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 }
}

fn encoded(value: &Datum) -> Vec<u8> {
    let mut bytes = Vec::new();
    key::write(value, false, &mut bytes);
    shortened(bytes)
}

impl Statistics {
    /// Returns the statistics of a column.
    pub(crate) fn column(&self, number: usize) -> Option<&ColumnStatistics> {
        self.columns.get(number)
    }
}

impl ColumnStatistics {
    /// Returns the part of the rows that has a value; of an average value, if it is not known yet.
    pub(crate) fn equal(&self, value: Option<&Datum>) -> f64 {
        if self.distinct < 1.0 {
            return 0.0;
        }
        let Some(value) = value else { return (1.0 - self.nulls) / self.distinct };
        if value.is_null() {
            return 0.0;
        }
        let value = encoded(value);
        if let Some((_, part)) = self.common.iter().find(|(common, _)| **common == value) {
            return *part;
        }
        let others = (self.distinct - self.common.len() as f64).max(1.0);
        self.uncommon() / others
    }

    /// Returns the part of the rows whose value is below one, or equal to it if it is `included`.
    pub(crate) fn below(&self, value: &Datum, included: bool) -> f64 {
        let value = encoded(value);
        let is_below = |other: &[u8]| other < &value[..] || (included && other == value);
        let common: f64 =
            self.common.iter().filter(|(other, _)| is_below(other)).map(|(_, part)| *part).sum();
        let buckets = self.bounds.len().saturating_sub(1).max(1) as f64;
        let passed = self.bounds.partition_point(|bound| is_below(bound));
        let part = match (passed.checked_sub(1), self.bounds.get(passed)) {
            (None, _) => 0.0,
            (Some(_), None) => 1.0,
            (Some(low), Some(high)) => {
                (low as f64 + share(&self.bounds[low], &value, high)) / buckets
            }
        };
        common + self.uncommon() * part
    }

    /// Returns the part of the rows with a value that is not among the most common.
    fn uncommon(&self) -> f64 {
        let common: f64 = self.common.iter().map(|(_, part)| *part).sum();
        (1.0 - self.nulls - common).max(0.0)
    }
}

/// Reads the statistics of a table.
pub(crate) async fn read(
    txn: &mut dyn Transaction,
    table: u32,
) -> Result<Option<Statistics>, SqlError> {
    let Some(value) = txn.get(&kv::statistics_key(table), Lock::Shared).await? else {
        return Ok(None);
    };
    minicbor::decode(&value.0)
        .map(Some)
        .map_err(|error| SqlError::corrupted(format!("statistics in the catalog: {error}")))
}

/// Writes the statistics of a table, with a new number.
async fn write(
    txn: &mut dyn Transaction,
    table: &Table,
    mut statistics: Statistics,
) -> Result<(), SqlError> {
    let key = kv::statistics_number_key(table.id);
    let known = txn.get(&key, Lock::Exclusive).await?;
    statistics.number = known.map_or(0, |value| number(&value.0)) + 1;
    let number = statistics.number.to_be_bytes().to_vec();
    let bytes = minicbor::to_vec(&statistics).expect("invariant: writing to memory does not fail");
    txn.put(kv::statistics_key(table.id), Some(kv::to_value(bytes)))?;
    Ok(txn.put(key, Some(kv::to_value(number)))?)
}

/// Removes the statistics of a table whose rows are gone.
pub(crate) fn forget(txn: &mut dyn Transaction, table: u32) -> Result<(), SqlError> {
    txn.put(kv::statistics_key(table), None)?;
    Ok(txn.put(kv::statistics_number_key(table), None)?)
}

/// Decodes a number of statistics.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}
