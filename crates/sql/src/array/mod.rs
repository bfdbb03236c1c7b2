//! Values of array types: elements of one type in up to six dimensions, each with a lower bound.

mod assign;
mod text;

use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::types::Type;
use std::cmp::Ordering;

/// The number of dimensions that an array may have.
pub(crate) const MOST_DIMENSIONS: usize = 6;
/// The number of elements that an array may have, as in PostgreSQL.
const MOST_ELEMENTS: usize = 134_217_727;

/// An array. One without elements has no dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The type of the elements.
    pub(crate) element: Type,
    dimensions: Vec<Dimension>,
    /// The elements, those of the last dimension side by side.
    values: Vec<Datum>,
}

/// A dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dimension {
    /// The index of the first element.
    pub(crate) lower: i32,
    pub(crate) length: usize,
}

impl Dimension {
    /// The index of the last element.
    pub(crate) fn upper(self) -> i32 {
        self.lower.saturating_add(self.length as i32 - 1)
    }
}

impl Array {
    /// Creates an array of one dimension.
    pub(crate) fn of(element: Type, values: Vec<Datum>) -> Result<Array, SqlError> {
        let dimension = Dimension { lower: 1, length: values.len() };
        Array::with(element, vec![dimension], values)
    }

    /// Creates an array. Fails with 54000 if it is too large, with 2202E if its dimensions do not
    /// fit its values.
    pub(crate) fn with(
        element: Type,
        dimensions: Vec<Dimension>,
        values: Vec<Datum>,
    ) -> Result<Array, SqlError> {
        if values.is_empty() {
            return Ok(Array { element, dimensions: Vec::new(), values });
        }
        if dimensions.len() > MOST_DIMENSIONS {
            let message = format!(
                "number of array dimensions ({}) exceeds the maximum allowed ({MOST_DIMENSIONS})",
                dimensions.len()
            );
            return Err(SqlError::new(state::TOO_LARGE, message));
        }
        let fits = |dimension: &Dimension| {
            i64::from(dimension.lower) + dimension.length as i64 - 1 <= i64::from(i32::MAX)
        };
        if values.len() > MOST_ELEMENTS || !dimensions.iter().all(fits) {
            let message = format!("array size exceeds the maximum allowed ({MOST_ELEMENTS})");
            return Err(SqlError::new(state::TOO_LARGE, message));
        }
        let count = dimensions.iter().try_fold(1usize, |n, dim| n.checked_mul(dim.length));
        if count != Some(values.len()) {
            return Err(mismatch());
        }
        Ok(Array { element, dimensions, values })
    }

    /// Creates an array of arrays, which have the same dimensions.
    pub(crate) fn of_arrays(element: Type, parts: &[&Array]) -> Result<Array, SqlError> {
        let Some(first) = parts.first() else { return Array::of(element, Vec::new()) };
        if parts.iter().any(|part| part.dimensions != first.dimensions) {
            return Err(mismatch());
        }
        let mut dimensions = vec![Dimension { lower: 1, length: parts.len() }];
        dimensions.extend(&first.dimensions);
        let values = parts.iter().flat_map(|part| part.values.iter().cloned()).collect();
        Array::with(element, dimensions, values)
    }

    /// Creates an array of elements or of arrays. A NULL among arrays is an empty one.
    pub(crate) fn of_parts(element: Type, parts: Vec<Datum>) -> Result<Array, SqlError> {
        if !parts.iter().any(|part| matches!(part, Datum::Array(_))) {
            return Array::of(element, parts);
        }
        let empty = Array::of(element, Vec::new())?;
        let inner = parts.iter().map(|part| match part {
            Datum::Array(array) => &**array,
            _ => &empty,
        });
        Array::of_arrays(element, &inner.collect::<Vec<_>>())
    }

    pub(crate) fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    pub(crate) fn values(&self) -> &[Datum] {
        &self.values
    }

    /// Returns an array of the same dimensions, whose elements are `f` of its elements.
    pub(crate) fn map(
        &self,
        element: Type,
        f: impl FnMut(&Datum) -> Result<Datum, SqlError>,
    ) -> Result<Array, SqlError> {
        let values = self.values.iter().map(f).collect::<Result<_, _>>()?;
        Ok(Array { element, dimensions: self.dimensions.clone(), values })
    }

    /// Returns an element; `None` outside of the array, and for a wrong number of subscripts.
    pub(crate) fn get(&self, subscripts: &[i64]) -> Option<&Datum> {
        if subscripts.len() != self.dimensions.len() {
            return None;
        }
        let mut at = 0;
        for (subscript, dimension) in subscripts.iter().zip(&self.dimensions) {
            let offset = usize::try_from(subscript - i64::from(dimension.lower)).ok()?;
            if offset >= dimension.length {
                return None;
            }
            at = at * dimension.length + offset;
        }
        self.values.get(at)
    }

    /// Returns the part of an array within bounds; dimensions without bounds stay whole.
    pub(crate) fn slice(&self, bounds: &[(i64, i64)]) -> Result<Array, SqlError> {
        let empty = || Array::of(self.element, Vec::new());
        if bounds.len() > self.dimensions.len() {
            return empty();
        }
        let mut ranges = Vec::with_capacity(self.dimensions.len());
        for (at, dimension) in self.dimensions.iter().enumerate() {
            let (least, most) = (i64::from(dimension.lower), i64::from(dimension.upper()));
            let (low, high) = bounds.get(at).copied().unwrap_or((least, most));
            let (low, high) = (low.max(least), high.min(most));
            if low > high {
                return empty();
            }
            ranges.push(((low - least) as usize, (high - low + 1) as usize));
        }
        let mut values = Vec::new();
        self.gather(&ranges, 0, 0, &mut values);
        let dimensions = ranges.iter().map(|(_, length)| Dimension { lower: 1, length: *length });
        Array::with(self.element, dimensions.collect(), values)
    }

    fn gather(&self, ranges: &[(usize, usize)], depth: usize, at: usize, out: &mut Vec<Datum>) {
        let Some((skip, length)) = ranges.get(depth) else {
            out.push(self.values[at].clone());
            return;
        };
        let first = at * self.dimensions[depth].length + skip;
        (first..first + length).for_each(|at| self.gather(ranges, depth + 1, at, out));
    }

    /// Orders two arrays as [`Array::order`] does. Fails with 42804 for rows that do not compare.
    pub(crate) fn compare(&self, other: &Array) -> Result<Ordering, SqlError> {
        if self.element.is_row() {
            let mut pairs = self.values.iter().zip(&other.values);
            let different = pairs.find_map(|(a, b)| match a.compare(b) {
                Ok(Ordering::Equal) => None,
                other => Some(other),
            });
            if let Some(different) = different {
                return different;
            }
        }
        Ok(self.order(other))
    }

    /// Orders by the elements one by one, then by their number, then by the dimensions.
    pub(crate) fn order(&self, other: &Array) -> Ordering {
        let pairs = self.values.iter().zip(&other.values);
        let elements = pairs.map(|(a, b)| a.order(b)).find(|order| order.is_ne());
        let shape = |array: &Array| {
            let lengths: Vec<_> = array.dimensions.iter().map(|dim| dim.length).collect();
            let lowers: Vec<_> = array.dimensions.iter().map(|dim| dim.lower).collect();
            (array.values.len(), array.dimensions.len(), lengths, lowers)
        };
        elements.unwrap_or_else(|| shape(self).cmp(&shape(other)))
    }
}

/// The error of arrays that do not fit each other.
pub(crate) fn mismatch() -> SqlError {
    let message = "multidimensional arrays must have array expressions with matching dimensions";
    SqlError::new(state::ARRAY_SUBSCRIPT, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(text: &str) -> Array {
        Array::from_text_in(Type::Int4, text, crate::datetime::Local::utc()).expect(text)
    }

    #[test]
    fn elements_and_slices_have_their_subscripts() {
        let array = ints("[2:3][0:2]={{1,2,3},{4,5,6}}");
        assert_eq!(array.get(&[3, 0]), Some(&Datum::Int4(4)));
        for outside in [&[1, 0][..], &[4, 0], &[2, 3], &[2], &[2, 0, 0]] {
            assert_eq!(array.get(outside), None, "{outside:?}");
        }
        let slice = |bounds: &[(i64, i64)]| {
            let part = array.slice(bounds).expect("a part");
            let mut out = String::new();
            part.write_text(crate::datetime::Zone::utc(), &mut out);
            out
        };
        assert_eq!(slice(&[(3, 9), (1, 2)]), "{{5,6}}");
        assert_eq!(slice(&[(2, 2)]), "{{1,2,3}}");
        assert_eq!(slice(&[(i64::MIN, i64::MAX), (0, 0)]), "{{1},{4}}");
        assert_eq!(slice(&[(4, 9)]), "{}");
    }

    #[test]
    fn arrays_are_ordered_by_their_elements_first() {
        let sorted = ["{}", "{1}", "{1,2}", "{{1,2}}", "{1,3}", "{1,NULL}", "{2}", "[2:2]={2}"];
        for (at, a) in sorted.iter().enumerate() {
            for (other, b) in sorted.iter().enumerate() {
                assert_eq!(ints(a).order(&ints(b)), at.cmp(&other), "{a} {b}");
            }
        }
    }
}
