//! `hstore` of arrays of texts, and the arrays that it becomes.

use super::{Hstore, Pair, null_key};
use crate::array::{Array, Dimension};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::types::Type;

fn wrong(message: &str) -> SqlError {
    SqlError::new(state::ARRAY_SUBSCRIPT, message)
}

fn wrong_dimensions() -> SqlError {
    wrong("wrong number of array subscripts")
}

/// Returns an element that is a text; `None` for NULL.
fn text(value: &Datum) -> Option<&str> {
    match value {
        Datum::Text(text) => Some(text),
        _ => None,
    }
}

/// Returns the texts of an array that are not NULL.
pub(crate) fn texts(array: &Array) -> impl Iterator<Item = &str> {
    array.values().iter().filter_map(text)
}

fn pair<'a>(key: &'a Datum, value: &'a Datum) -> Result<Pair<'a>, SqlError> {
    Ok((text(key).ok_or_else(null_key)?, text(value)))
}

fn datum(text: Option<&str>) -> Datum {
    text.map_or(Datum::Null, Datum::text)
}

impl Hstore {
    /// Creates a value of keys and values that take turns, or stand in two columns. Fails with
    /// 2202E for other arrays, with 22004 for NULL as a key.
    pub(crate) fn of_array(array: &Array) -> Result<Hstore, SqlError> {
        match array.dimensions() {
            [] => {}
            [all] if all.length % 2 == 0 => {}
            [_] => return Err(wrong("array must have even number of elements")),
            [_, columns] if columns.length == 2 => {}
            [_, _] => return Err(wrong("array must have two columns")),
            _ => return Err(wrong_dimensions()),
        }
        let pairs = array.values().chunks_exact(2).map(|both| pair(&both[0], &both[1]));
        Hstore::of(pairs.collect::<Result<_, _>>()?)
    }

    /// Creates a value of keys and their values, which are NULL for `None`. Fails with 2202E for
    /// arrays of several dimensions or of different bounds, with 22004 for NULL as a key.
    pub(crate) fn of_arrays(keys: &Array, values: Option<&Array>) -> Result<Hstore, SqlError> {
        let is_flat = |array: &Array| array.dimensions().len() <= 1;
        if !is_flat(keys) || !values.is_none_or(is_flat) {
            return Err(wrong_dimensions());
        }
        if values.is_some_and(|values| values.dimensions() != keys.dimensions()) {
            return Err(wrong("arrays must have same bounds"));
        }
        let values = values.map_or(&[][..], Array::values).iter();
        let values = values.chain(std::iter::repeat(&Datum::Null));
        let pairs = keys.values().iter().zip(values).map(|(key, value)| pair(key, value));
        Hstore::of(pairs.collect::<Result<_, _>>()?)
    }

    /// Returns the keys and values as they take turns.
    fn alternating(&self) -> Vec<Datum> {
        self.pairs().flat_map(|(key, value)| [Datum::text(key), datum(value)]).collect()
    }

    /// Returns the keys and values, which take turns.
    pub(crate) fn to_array(&self) -> Result<Array, SqlError> {
        Array::of(Type::Text, self.alternating())
    }

    /// Returns the keys and values in two columns.
    pub(crate) fn to_matrix(&self) -> Result<Array, SqlError> {
        let dimensions = [self.len(), 2].map(|length| Dimension { lower: 1, length });
        Array::with(Type::Text, dimensions.into(), self.alternating())
    }

    /// Returns the values of an array's keys, in its dimensions.
    pub(crate) fn values_of(&self, keys: &Array) -> Result<Array, SqlError> {
        let value = |key: &str| datum(self.get(key).flatten());
        keys.map(Type::Text, |key| Ok(text(key).map_or(Datum::Null, value)))
    }
}
