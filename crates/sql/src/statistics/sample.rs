//! A random sample of a table's rows, and the statistics that it gives.

use super::{ColumnStatistics, Statistics};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::key;
use crate::memory::Held;
use std::hash::Hasher;

/// The number of rows of a sample. PostgreSQL's, for which it cites Chaudhuri, Motwani, Narasayya
/// (SIGMOD 1998): enough for histograms of 100 buckets over tables of any size.
const ROWS: u64 = 30_000;
/// The most common values of a column that are kept, and the buckets of its histogram.
const MOST: usize = 100;
/// The most common values of all columns together, and the buckets of all histograms.
const MOST_VALUES: usize = 10_000;
/// The bytes of a value that are kept. Of a longer one they are its beginning and a checksum.
const MOST_BYTES: usize = 128;
/// The memory of a sample: rows that take more make it smaller.
const SAMPLE_BYTES: usize = 16 << 20;

/// A uniform sample of the rows so far (Vitter's algorithm R).
pub(super) struct Sample {
    /// For each row its values, as keys encode them; `None` for NULL.
    rows: Vec<Vec<Option<Box<[u8]>>>>,
    columns: usize,
    seen: u64,
    /// The number of rows that it has at most.
    most: u64,
    random: u64,
    held: Held,
}

/// Shortens a long value so that the order of beginnings and equality stay.
pub(super) fn shortened(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() > MOST_BYTES {
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(&bytes);
        bytes.truncate(MOST_BYTES - 8);
        bytes.extend(hasher.finish().to_be_bytes());
    }
    bytes
}

impl Sample {
    pub(super) fn new(columns: usize, held: Held) -> Self {
        let random = 0x9e37_79b9_7f4a_7c15;
        Sample { rows: Vec::new(), columns, seen: 0, most: ROWS, random, held }
    }

    /// Returns a number below another one. The sequence is the same each time, so that runs replay.
    fn below(&mut self, end: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u128::from(self.random) * u128::from(end)) >> 64) as u64
    }

    /// Considers a row. Fails with 53200 if the sample takes too much memory.
    pub(super) fn add(&mut self, row: &[Datum]) -> Result<(), SqlError> {
        self.seen += 1;
        let place = if self.seen <= self.most { self.seen - 1 } else { self.below(self.seen) };
        if place >= self.most {
            return Ok(());
        }
        let encoded = |datum: &Datum| {
            let mut bytes = Vec::new();
            key::write(datum, false, &mut bytes);
            shortened(bytes).into_boxed_slice()
        };
        let value = |datum: &Datum| (!datum.is_null()).then(|| encoded(datum));
        let taken: Vec<_> = row.iter().map(value).collect();
        let size = |row: &[Option<Box<[u8]>>]| {
            row.iter().map(|value| 24 + value.as_ref().map_or(0, |value| value.len())).sum()
        };
        self.held.add(size(&taken))?;
        match self.rows.get_mut(place as usize) {
            Some(row) => {
                self.held.free(size(row));
                *row = taken;
            }
            None => self.rows.push(taken),
        }
        if self.held.used() > SAMPLE_BYTES {
            // Half of the rows, chosen at random, are a uniform sample as well.
            let half = self.rows.len().div_ceil(2);
            for at in 0..half {
                let other = at + self.below((self.rows.len() - at) as u64) as usize;
                self.rows.swap(at, other);
            }
            for row in self.rows.drain(half..) {
                self.held.free(size(&row));
            }
            self.most = half as u64;
        }
        Ok(())
    }

    /// Returns the statistics of all rows that were considered.
    pub(super) fn finish(self) -> Statistics {
        let most = (MOST_VALUES / self.columns.max(1)).clamp(1, MOST);
        let columns = (0..self.columns).map(|column| self.column(column, most)).collect();
        Statistics { number: 0, rows: self.seen, columns }
    }

    fn column(&self, column: usize, most: usize) -> ColumnStatistics {
        let sampled = self.rows.len().max(1) as f64;
        let mut values: Vec<&[u8]> =
            self.rows.iter().filter_map(|row| row[column].as_deref()).collect();
        values.sort_unstable();
        let mut runs: Vec<(&[u8], usize)> = Vec::new();
        for value in &values {
            match runs.last_mut() {
                Some((last, count)) if last == value => *count += 1,
                _ => runs.push((value, 1)),
            }
        }
        let nulls = 1.0 - values.len() as f64 / sampled;
        let total = self.seen as f64 * (1.0 - nulls);
        let distinct = distinct(&runs, values.len() as f64, total);
        let common = most_common(&runs, values.len(), distinct, most);
        let is_common =
            |value: &[u8]| common.binary_search_by(|(other, _)| (*other).cmp(value)).is_ok();
        values.retain(|value| !is_common(value));
        ColumnStatistics {
            nulls,
            distinct,
            bounds: bounds(&values, most),
            common: common
                .into_iter()
                .map(|(value, count)| (value.to_vec().into(), count as f64 / sampled))
                .collect(),
        }
    }
}

/// Estimates the number of different values among `total` from runs of equal values in a sample
/// (Haas and Stokes 1998, their estimator Duj1, as PostgreSQL does).
fn distinct(runs: &[(&[u8], usize)], sampled: f64, total: f64) -> f64 {
    let found = runs.len() as f64;
    let once = runs.iter().filter(|(_, count)| *count == 1).count() as f64;
    if once == sampled || sampled == 0.0 {
        return if sampled == 0.0 { 0.0 } else { total };
    }
    (sampled * found / (sampled - once + once * sampled / total)).clamp(found, total.max(found))
}

/// Returns the values that are more common than the average, in order: all of them, if they are few
/// and the sample has shown each more than once.
fn most_common<'a>(
    runs: &[(&'a [u8], usize)],
    sampled: usize,
    distinct: f64,
    most: usize,
) -> Vec<(&'a [u8], usize)> {
    let is_whole = runs.len() <= most && distinct < runs.len() as f64 + 0.5;
    let least = if is_whole { 1.0 } else { (1.25 * sampled as f64 / distinct).max(2.0) };
    let mut common: Vec<_> =
        runs.iter().filter(|(_, count)| *count as f64 >= least).copied().collect();
    common.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    common.truncate(most);
    common.sort_unstable();
    common
}

/// Returns bounds of sorted values, with as many values between any two neighbours.
fn bounds(values: &[&[u8]], most: usize) -> Vec<minicbor::bytes::ByteVec> {
    if values.len() < 2 {
        return values.iter().map(|value| value.to_vec().into()).collect();
    }
    let buckets = most.min(values.len() - 1);
    (0..=buckets).map(|at| values[at * (values.len() - 1) / buckets].to_vec().into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::QueryMemory;
    use std::sync::Arc;

    fn of(values: impl Iterator<Item = Option<i64>>) -> Statistics {
        let mut sample = Sample::new(1, Held::none(&Arc::new(QueryMemory::default())));
        for value in values {
            sample.add(&[value.map_or(Datum::Null, Datum::Int8)]).expect("room");
        }
        sample.finish()
    }

    #[track_caller]
    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= wanted.abs() * 0.1 + 0.01, "{found} for {wanted}");
    }

    #[test]
    fn distinct_values_are_as_many_as_rows() {
        let statistics = of((0..100_000).map(Some));
        let column = &statistics.columns[0];
        assert_eq!((statistics.rows, column.nulls), (100_000, 0.0));
        near(column.distinct, 100_000.0);
        near(column.below(&Datum::Int8(25_000), false), 0.25);
        near(column.equal(Some(&Datum::Int8(7))) * 100_000.0, 1.0);
        assert_eq!(column.below(&Datum::Int8(-1), false), 0.0);
        near(column.below(&Datum::Int8(1_000_000), true), 1.0);
    }

    #[test]
    fn few_values_are_all_known() {
        // Half are NULL, nine tenths of the others are 0.
        let value = |n: i64| (n % 2 == 0).then_some(i64::from(n % 20 == 0) * (n % 7));
        let statistics = of((0..70_000).map(value));
        let column = &statistics.columns[0];
        near(column.nulls, 0.5);
        near(column.distinct, 7.0);
        near(column.equal(Some(&Datum::Int8(0))), 0.45 + 0.05 / 7.0);
        near(column.equal(Some(&Datum::Int8(3))), 0.05 / 7.0);
        near(column.below(&Datum::Int8(0), true), 0.45 + 0.05 / 7.0);
    }

    #[test]
    fn an_empty_table_and_one_of_nulls_have_no_values() {
        for statistics in [of(std::iter::empty()), of((0..50).map(|_| None))] {
            let column = &statistics.columns[0];
            assert_eq!((column.distinct, column.equal(None)), (0.0, 0.0));
            assert_eq!(column.below(&Datum::Int8(3), true), 0.0);
        }
    }

    #[test]
    fn long_values_keep_their_order_and_are_told_apart() {
        let long = |last: u8| [vec![b'x'; 500], vec![last]].concat();
        assert_ne!(shortened(long(1)), shortened(long(2)));
        assert!(shortened(vec![b'w'; 500]) < shortened(long(0)));
        assert_eq!(shortened(long(1)).len(), MOST_BYTES);
    }
}
