//! The fields that an interval literal names: `INTERVAL '1' DAY`, `INTERVAL '1:30' HOUR TO MINUTE`.

use super::{HOUR_US, Interval, MINUTE_US, out_of_range};
use crate::error::{SqlError, state};
use sqlparser::ast::{self, DateTimeField};

/// A field, from the largest to the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

/// A range of fields, and the number of digits of the seconds' fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(super) first: Unit,
    pub(super) last: Unit,
    digits: Option<u64>,
}

impl Fields {
    /// Returns the fields of a literal; `None` if it names none.
    pub(crate) fn of(literal: &ast::Interval) -> Result<Option<Fields>, SqlError> {
        let ast::Interval {
            value: _,
            leading_field,
            leading_precision,
            last_field,
            fractional_seconds_precision,
        } = literal;
        let Some(leading) = leading_field else {
            return match (leading_precision, last_field, fractional_seconds_precision) {
                (None, None, None) => Ok(None),
                _ => Err(syntax()),
            };
        };
        let first = unit(leading)?;
        let last = last_field.as_ref().map_or(Ok(first), unit)?;
        let is_range = match (first, last) {
            (_, _) if last_field.is_none() => true,
            (Unit::Year, Unit::Month) => true,
            (Unit::Day | Unit::Hour | Unit::Minute, last) => first < last,
            _ => false,
        };
        // The parser takes the digits of SECOND(n) for those of the leading field.
        let digits = match (first, leading_precision, fractional_seconds_precision) {
            (_, None, digits) => *digits,
            (Unit::Second, digits, None) => *digits,
            _ => return Err(syntax()),
        };
        if !is_range || digits.is_some() && last != Unit::Second {
            return Err(syntax());
        }
        Ok(Some(Fields { first, last, digits: digits.map(|digits| digits.min(6)) }))
    }

    /// Returns the interval without what is smaller than the last field, or larger than a
    /// fraction's digits can tell.
    pub(super) fn cut(self, interval: Interval) -> Result<Interval, SqlError> {
        let Interval { months, days, micros } = interval;
        Ok(match self.last {
            Unit::Year => Interval { months: months / 12 * 12, ..Interval::default() },
            Unit::Month => Interval { months, ..Interval::default() },
            Unit::Day => Interval { months, days, micros: 0 },
            Unit::Hour => Interval { months, days, micros: micros / HOUR_US * HOUR_US },
            Unit::Minute => Interval { months, days, micros: micros / MINUTE_US * MINUTE_US },
            Unit::Second => {
                let step = 10i64.pow(6 - self.digits.unwrap_or(6) as u32);
                let half = if micros < 0 { -(step / 2) } else { step / 2 };
                let rounded = micros.checked_add(half).ok_or_else(out_of_range)?;
                Interval { months, days, micros: rounded / step * step }
            }
        })
    }
}

fn unit(field: &DateTimeField) -> Result<Unit, SqlError> {
    Ok(match field {
        DateTimeField::Year => Unit::Year,
        DateTimeField::Month => Unit::Month,
        DateTimeField::Day => Unit::Day,
        DateTimeField::Hour => Unit::Hour,
        DateTimeField::Minute => Unit::Minute,
        DateTimeField::Second => Unit::Second,
        // PostgreSQL takes these for the name of the column.
        other => return Err(SqlError::unsupported(format!("the interval field {other}"))),
    })
}

fn syntax() -> SqlError {
    SqlError::new(state::SYNTAX, "syntax error in the fields of an interval")
}
