//! Arrays with other elements: assignments to subscripts.

use super::{Array, Dimension, MOST_ELEMENTS};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::limits;

impl Array {
    /// Returns the array with another element. An array of one dimension grows to the subscript,
    /// with NULLs between; one without elements has only this one then.
    ///
    /// Fails with 2202E for a wrong number of subscripts, and outside of several dimensions; with
    /// 54000 if it would be too large.
    pub(crate) fn with_element(&self, at: &[i64], value: Datum) -> Result<Array, SqlError> {
        let bounds: Vec<(i64, i64)> = at.iter().map(|at| (*at, *at)).collect();
        if !self.dimensions.is_empty() && at.len() != self.dimensions.len() {
            return Err(wrong("wrong number of array subscripts"));
        }
        self.with_values(&bounds, &[value])
    }

    /// Returns the array with the first elements of another one between bounds, of which
    /// `i64::MIN` and `i64::MAX` are those of the array. It grows as with an element.
    pub(crate) fn with_slice(
        &self,
        bounds: &[(i64, i64)],
        source: &Array,
    ) -> Result<Array, SqlError> {
        let is_open = |(low, high): &(i64, i64)| *low == i64::MIN || *high == i64::MAX;
        if self.dimensions.is_empty() && bounds.iter().any(is_open) {
            let message = "array slice subscript must provide both boundaries";
            return Err(wrong(message).detail(
                "When assigning to a slice of an empty array value, slice boundaries must be fully specified.",
            ));
        }
        if !self.dimensions.is_empty() && bounds.len() > self.dimensions.len() {
            return Err(wrong("wrong number of array subscripts"));
        }
        let whole = |at: usize| {
            let dimension = self.dimensions.get(at);
            dimension.map(|it| (i64::from(it.lower), i64::from(it.upper())))
        };
        let mut closed = Vec::with_capacity(self.dimensions.len().max(bounds.len()));
        for at in 0..self.dimensions.len().max(bounds.len()) {
            let (least, most) = whole(at).unwrap_or_default();
            let (low, high) = bounds.get(at).copied().unwrap_or((least, most));
            let low = if low == i64::MIN { least } else { low };
            let high = if high == i64::MAX { most } else { high };
            if low > high {
                return Err(wrong("upper bound cannot be less than lower bound"));
            }
            closed.push((low, high));
        }
        self.with_values(&closed, &source.values)
    }

    /// Returns the array with other values between the bounds of all dimensions.
    fn with_values(&self, bounds: &[(i64, i64)], values: &[Datum]) -> Result<Array, SqlError> {
        let length = |(low, high): &(i64, i64)| usize::try_from(high - low + 1).unwrap_or(0);
        let many = bounds.iter().try_fold(1usize, |n, bound| n.checked_mul(length(bound)));
        let many = many.filter(|many| *many <= MOST_ELEMENTS).ok_or_else(too_large)?;
        if values.len() < many {
            return Err(wrong("source array too small"));
        }
        let mut grown = match self.dimensions.as_slice() {
            [] => {
                let dimensions = bounds.iter().map(|bound| {
                    let lower = i32::try_from(bound.0).map_err(|_| too_large())?;
                    Ok(Dimension { lower, length: length(bound) })
                });
                let dimensions = dimensions.collect::<Result<_, SqlError>>()?;
                return Array::with(self.element, dimensions, values[..many].to_vec());
            }
            [only] => self.grown(*only, bounds[0])?,
            all => {
                let is_within = |(dimension, (low, high)): (&Dimension, &(i64, i64))| {
                    i64::from(dimension.lower) <= *low && *high <= i64::from(dimension.upper())
                };
                if !all.iter().zip(bounds).all(is_within) {
                    return Err(wrong("array subscript out of range"));
                }
                self.clone()
            }
        };
        let ranges = grown.dimensions.iter().zip(bounds);
        let ranges: Vec<(usize, usize)> = ranges
            .map(|(dimension, bound)| {
                ((bound.0 - i64::from(dimension.lower)) as usize, length(bound))
            })
            .collect();
        let mut values = values.iter();
        grown.scatter(&ranges, 0, 0, &mut values);
        Ok(grown)
    }

    /// Returns an array of one dimension that reaches to bounds, with NULLs in new places.
    fn grown(&self, dimension: Dimension, (low, high): (i64, i64)) -> Result<Array, SqlError> {
        let (least, most) = (i64::from(dimension.lower), i64::from(dimension.upper()));
        let (before, behind) = ((least - low).max(0), (high - most).max(0));
        let length = dimension.length as i64 + before + behind;
        if length > MOST_ELEMENTS as i64 {
            return Err(too_large());
        }
        limits::check_value((length as usize).saturating_mul(size_of::<Datum>()))?;
        let lower = i32::try_from(least - before).map_err(|_| too_large())?;
        let nulls = |count: i64| std::iter::repeat_n(Datum::Null, count as usize);
        let values = nulls(before).chain(self.values.iter().cloned()).chain(nulls(behind));
        let dimension = Dimension { lower, length: length as usize };
        Array::with(self.element, vec![dimension], values.collect())
    }

    fn scatter(
        &mut self,
        ranges: &[(usize, usize)],
        depth: usize,
        at: usize,
        values: &mut std::slice::Iter<'_, Datum>,
    ) {
        let Some((skip, length)) = ranges.get(depth) else {
            if let Some(value) = values.next() {
                self.values[at] = value.clone();
            }
            return;
        };
        let first = at * self.dimensions[depth].length + skip;
        (first..first + length).for_each(|at| self.scatter(ranges, depth + 1, at, values));
    }
}

fn wrong(message: &str) -> SqlError {
    SqlError::new(state::ARRAY_SUBSCRIPT, message)
}

fn too_large() -> SqlError {
    let message = format!("array size exceeds the maximum allowed ({MOST_ELEMENTS})");
    SqlError::new(state::TOO_LARGE, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Type;

    fn ints(values: &[i32]) -> Array {
        let values = values.iter().map(|value| Datum::Int4(*value)).collect();
        Array::of(Type::Int4, values).expect("an array")
    }

    #[test]
    fn a_huge_subscript_is_refused_before_memory_is_taken() {
        for at in [i64::from(i32::MAX), i64::from(i32::MIN), 100_000_000] {
            let error = ints(&[1, 2]).with_element(&[at], Datum::Int4(3)).expect_err("too large");
            assert_eq!(error.sqlstate, state::TOO_LARGE, "{at}");
        }
        let bounds = (i64::from(i32::MIN), i64::from(i32::MAX));
        let error = ints(&[]).with_slice(&[bounds], &ints(&[1])).expect_err("too large");
        assert_eq!(error.sqlstate, state::TOO_LARGE);
    }

    #[test]
    fn a_part_that_was_assigned_is_read_back() {
        let array = ints(&[1, 2, 3]).with_slice(&[(5, 6)], &ints(&[5, 6, 7])).expect("it fits");
        assert_eq!(array.get(&[5]), Some(&Datum::Int4(5)));
        assert_eq!(array.get(&[4]), Some(&Datum::Null));
        assert_eq!(array.slice(&[(5, 6)]).expect("a slice").values(), ints(&[5, 6]).values());
        assert_eq!(array.values().len(), 6);
    }
}
