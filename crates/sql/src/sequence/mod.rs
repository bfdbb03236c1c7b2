//! Sequences: descriptors in the catalog, and one value each.
//!
//! ```text
//!   02 id          the value: the last one that was taken, and whether any was
//! ```
//!
//! A session takes values in blocks, each in a transaction of its own, and hands them out one by
//! one ([`draw`]). A value that was taken is never taken again, whether or not it is used: gaps
//! remain where a session ends or a transaction is rolled back, as in PostgreSQL.
//!
//! A sequence that the session's open transaction has created or changed is read and written in
//! that transaction: no other one sees it.

mod draw;
mod literal;
mod options;
mod parse;

pub(crate) use draw::{Changed, Drawn, Sequences, Use, call};
pub(crate) use literal::{literal_of, placed_literal_of};
pub(crate) use options::Options;
pub(crate) use parse::{Change, IdentityChange, SequenceStatement, cut, identity};

use crate::catalog::{ColumnDef, Planned, Table, schema_codec, type_codec};
use crate::error::{SqlError, state};
use crate::kv;
use crate::types::Type;
use meridian_mvcc::{Key, KeyRange};
use minicbor::{Decode, Encode};

/// The number of values that a session takes at once from a sequence without CACHE.
pub(crate) const CACHE: i64 = 32;

/// The descriptor of a sequence.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Sequence {
    /// The id, and the storage of its value.
    #[n(0)]
    pub(crate) id: u32,
    /// The version: 1 at first, and one more with each change of this descriptor.
    #[n(1)]
    pub(crate) version: u64,
    #[n(2)]
    pub(crate) name: String,
    /// The type of its values: one of the integers.
    #[n(3)]
    #[cbor(with = "type_codec")]
    pub(crate) ty: Type,
    #[n(4)]
    pub(crate) increment: i64,
    #[n(5)]
    pub(crate) min: i64,
    #[n(6)]
    pub(crate) max: i64,
    #[n(7)]
    pub(crate) start: i64,
    /// The number of values that a session takes at once.
    #[n(8)]
    pub(crate) cache: i64,
    /// True if the first value follows the last one.
    #[n(9)]
    pub(crate) cycle: bool,
    /// True if the bits of its values are handed out in reverse order.
    #[n(10)]
    pub(crate) reversed: bool,
    /// The column that it goes with.
    #[n(11)]
    pub(crate) owner: Option<Owner>,
    /// The schema that it is in.
    #[n(12)]
    #[cbor(with = "schema_codec", has_nil)]
    pub(crate) schema: u32,
}

/// The column with which a sequence is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Owner {
    #[n(0)]
    pub(crate) table: u32,
    /// The number of the column, from 0.
    #[n(1)]
    pub(crate) column: u32,
    /// True if it is the sequence of an identity column.
    #[n(2)]
    pub(crate) is_identity: bool,
}

/// The state of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Value {
    /// The last value that was taken; the first one to take if none was.
    #[n(0)]
    pub(crate) last: i64,
    #[n(1)]
    pub(crate) is_called: bool,
}

/// Values that were taken and not handed out yet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Block {
    next: i64,
    left: u64,
    increment: i64,
}

impl Block {
    /// Hands out the next value.
    fn pop(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1)?;
        let value = self.next;
        // The value behind the last one may be beyond the type.
        self.next = self.next.wrapping_add(self.increment);
        Some(value)
    }
}

impl Sequence {
    /// Returns what a plan that uses it depends on.
    pub(crate) fn planned(&self) -> Planned {
        Planned { id: self.id, version: self.version, statistics: 0 }
    }

    /// Returns the key of its value.
    pub(crate) fn key(&self) -> Key {
        kv::to_key(kv::storage_prefix(self.id))
    }

    /// Returns the range of its keys.
    pub(crate) fn range(&self) -> KeyRange {
        kv::prefix_range(&kv::storage_prefix(self.id))
    }

    /// Takes values after a state, at most `count` (at least one): fewer before the end. Returns
    /// the new state, too. Fails with 2200H at the end, unless the sequence cycles.
    pub(crate) fn take(&self, value: Value, count: u64) -> Result<(Value, Block), SqlError> {
        let (increment, min, max) =
            (i128::from(self.increment), i128::from(self.min), i128::from(self.max));
        let is_within = |value: i128| (min..=max).contains(&value);
        let mut first = i128::from(value.last);
        if value.is_called {
            first += increment;
        }
        if !is_within(first) {
            let (end, name, again) = match self.increment > 0 {
                true => (self.max, "maximum", min),
                false => (self.min, "minimum", max),
            };
            if !self.cycle {
                let message =
                    format!("nextval: reached {name} value of sequence \"{}\" ({end})", self.name);
                return Err(SqlError::new(state::SEQUENCE_END, message));
            }
            first = again;
        }
        let room =
            if increment > 0 { (max - first) / increment } else { (min - first) / increment };
        let left = (room + 1).min(i128::from(count.max(1)));
        let last = first + (left - 1) * increment;
        // Both are within the limits.
        let block = Block { next: first as i64, left: left as u64, increment: self.increment };
        Ok((Value { last: last as i64, is_called: true }, block))
    }

    /// Returns the value that is handed out for one that was taken.
    pub(crate) fn shown(&self, value: i64) -> i64 {
        match self.reversed {
            // The highest bit is that of the sign.
            true => ((value as u64).reverse_bits() >> 1) as i64,
            false => value,
        }
    }

    /// Returns the state before the first value.
    pub(crate) fn beginning(&self) -> Value {
        Value { last: self.start, is_called: false }
    }

    /// Returns its columns as PostgreSQL shows a sequence that is read as a table.
    pub(crate) fn as_table(&self) -> Table {
        let column = |name: &str, ty| ColumnDef { not_null: true, ..ColumnDef::new(name, ty) };
        let columns = vec![
            column("last_value", Type::Int8),
            column("log_cnt", Type::Int8),
            column("is_called", Type::Bool),
        ];
        let mut table = Table::new(self.id, &self.name, columns);
        table.version = self.version;
        table.is_sequence = true;
        table.schema = self.schema;
        table
    }

    /// Returns the text of the default of a column that takes its values.
    pub(crate) fn default(&self) -> String {
        format!("nextval({})", reference(self.id))
    }
}

/// Returns a reference to a relation in the text of an expression that is stored.
pub(crate) fn reference(id: u32) -> String {
    format!("'{id}'::REGCLASS")
}

/// Returns the relations that the text of a stored expression refers to.
pub(crate) fn referenced(text: &str) -> Vec<u32> {
    let before = text.split("'::REGCLASS").collect::<Vec<_>>();
    let all = &before[..before.len() - 1];
    all.iter().filter_map(|part| part.rsplit('\'').next()?.parse().ok()).collect()
}

impl Value {
    pub(crate) fn encode(self) -> Vec<u8> {
        minicbor::to_vec(self).expect("invariant: writing to memory does not fail")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Value, SqlError> {
        minicbor::decode(bytes)
            .map_err(|e| SqlError::corrupted(format!("the value of a sequence: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system;

    fn sequence(options: Options) -> Sequence {
        Sequence::new(7, (system::PUBLIC, "s"), Type::Int8, &options).expect("valid")
    }

    fn values(sequence: &Sequence, mut value: Value, count: u64) -> (Vec<i64>, Value) {
        let mut block = Block::default();
        (value, block) = sequence.take(value, count).unwrap_or((value, block));
        (std::iter::from_fn(|| block.pop()).collect(), value)
    }

    #[test]
    fn blocks_follow_each_other_and_end_at_the_limits() {
        let up = sequence(Options { max: Some(Some(5)), ..Options::default() });
        let (first, value) = values(&up, up.beginning(), 3);
        let (rest, value) = values(&up, value, 3);
        assert_eq!((first, rest), (vec![1, 2, 3], vec![4, 5]));
        let error = up.take(value, 1).expect_err("the end");
        assert_eq!(error.sqlstate, state::SEQUENCE_END);
        let down = Options {
            increment: Some(-3),
            min: Some(Some(-7)),
            cycle: Some(true),
            ..Options::default()
        };
        let down = sequence(down);
        let (first, value) = values(&down, down.beginning(), 10);
        assert_eq!((first, values(&down, value, 1).0), (vec![-1, -4, -7], vec![-1]));
    }

    #[test]
    fn the_whole_range_of_a_type_is_within_reach() {
        let all =
            Options { min: Some(Some(i64::MIN)), start: Some(i64::MAX - 1), ..Options::default() };
        let all = sequence(all);
        let (last, value) = values(&all, all.beginning(), u64::MAX);
        assert_eq!(last, [i64::MAX - 1, i64::MAX]);
        assert!(all.take(value, 1).is_err());
        let far = Options {
            increment: Some(i64::MAX),
            min: Some(Some(i64::MIN)),
            start: Some(i64::MIN),
            ..Options::default()
        };
        let far = sequence(far);
        assert_eq!(values(&far, far.beginning(), 9).0, [i64::MIN, -1, i64::MAX - 1]);
    }

    #[test]
    fn reversed_values_are_positive_and_distinct() {
        let reversed = sequence(Options { reversed: true, ..Options::default() });
        let shown: Vec<i64> = (1..5).map(|value| reversed.shown(value)).collect();
        assert_eq!(shown, [1 << 62, 1 << 61, (1 << 62) + (1 << 61), 1 << 60]);
        assert_eq!(reversed.shown(reversed.shown(77)), 77);
    }
}
