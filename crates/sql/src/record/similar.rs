//! Rows that are compared with each other have fields of the same types. Only the values of type
//! `record` tell whether they have.

use super::{Record, Shape, dissimilar, has_rows, other_count};
use crate::datum::Datum;
use crate::error::SqlError;

/// The check of some columns whose values are sorted, grouped or made distinct.
#[derive(Default)]
pub(crate) struct Similar {
    /// The first value with rows in each column.
    first: Vec<Option<Datum>>,
}

impl Similar {
    /// Adds a value of each column. Fails with 42804 if it does not compare with those before.
    pub(crate) fn check<'d>(
        &mut self,
        values: impl IntoIterator<Item = &'d Datum>,
    ) -> Result<(), SqlError> {
        for (at, value) in values.into_iter().enumerate().filter(|(_, value)| has_rows(value)) {
            if self.first.len() <= at {
                self.first.resize(at + 1, None);
            }
            match &self.first[at] {
                Some(first) => check_pair(first, value)?,
                None => self.first[at] = Some(value.clone()),
            }
        }
        Ok(())
    }
}

/// Fails with 42804 if values do not compare with each other.
pub(crate) fn check_all<'d>(values: impl IntoIterator<Item = &'d Datum>) -> Result<(), SqlError> {
    let mut one = Similar::default();
    values.into_iter().try_for_each(|value| one.check([value]))
}

fn check_pair(one: &Datum, other: &Datum) -> Result<(), SqlError> {
    match (one, other) {
        (Datum::Record(one), Datum::Record(other)) => check_rows(one, other),
        (Datum::Array(one), Datum::Array(other)) => {
            let mut pairs = one.values().iter().zip(other.values());
            pairs.try_for_each(|(one, other)| check_pair(one, other))
        }
        _ => Ok(()),
    }
}

fn check_rows(one: &Record, other: &Record) -> Result<(), SqlError> {
    if matches!((&one.shape, &other.shape), (Shape::Named(a), Shape::Named(b)) if a == b) {
        return Ok(());
    }
    for (at, ((left, a), (right, b))) in one.fields().zip(other.fields()).enumerate() {
        if left.ty.oid() != right.ty.oid() {
            return Err(dissimilar(left, right, at));
        }
        check_pair(a, b)?;
    }
    if one.values.len() == other.values.len() { Ok(()) } else { Err(other_count()) }
}
