//! The fields that an interval literal names: `INTERVAL '1' DAY`, `INTERVAL '1:30' HOUR TO MINUTE`.

use super::{HOUR_US, Interval, MINUTE_US, out_of_range};
use crate::error::{SqlError, state};
use sqlparser::ast::{self, DateTimeField, IntervalFields};
use std::fmt;

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

    /// Returns the fields of an interval's type, by the modifier of PostgreSQL, which has a bit for
    /// each; `None` if it has all.
    pub(crate) fn of_modifier(modifier: i32) -> Option<Fields> {
        let bits = modifier >> 16 & 0x7FFF;
        let mut named = BITS.iter().filter(|(_, bit)| bits & 1 << bit != 0).map(|(unit, _)| *unit);
        let first = named.next().filter(|_| bits != ALL)?;
        let last = named.next_back().unwrap_or(first);
        let digits = u64::try_from(modifier & 0xFFFF).ok().filter(|digits| *digits <= 6);
        Some(Fields { first, last, digits })
    }

    /// Returns the modifier of the type of an interval with fields, or of digits alone.
    pub(crate) fn modifier(fields: Option<&IntervalFields>, digits: Option<u64>) -> i32 {
        use Unit::{Day, Hour, Minute, Month, Second, Year};
        let range = fields.map(|fields| match fields {
            IntervalFields::Year => (Year, Year),
            IntervalFields::Month => (Month, Month),
            IntervalFields::Day => (Day, Day),
            IntervalFields::Hour => (Hour, Hour),
            IntervalFields::Minute => (Minute, Minute),
            IntervalFields::Second => (Second, Second),
            IntervalFields::YearToMonth => (Year, Month),
            IntervalFields::DayToHour => (Day, Hour),
            IntervalFields::DayToMinute => (Day, Minute),
            IntervalFields::DayToSecond => (Day, Second),
            IntervalFields::HourToMinute => (Hour, Minute),
            IntervalFields::HourToSecond => (Hour, Second),
            IntervalFields::MinuteToSecond => (Minute, Second),
        });
        let bits = range.map_or(ALL, |(first, last)| {
            let named = BITS.iter().filter(|(unit, _)| (first..=last).contains(unit));
            named.fold(0, |bits, (_, bit)| bits | 1 << bit)
        });
        bits << 16 | digits.map_or(0xFFFF, |digits| digits.min(6) as i32)
    }

    /// Returns fields, or all with some digits.
    pub(crate) fn or_all(fields: Option<Fields>, digits: u32) -> Fields {
        let all = Fields { first: Unit::Year, last: Unit::Second, digits: Some(digits.into()) };
        fields.unwrap_or(all)
    }

    /// Returns the interval without what is smaller than the last field, or larger than a
    /// fraction's digits can tell.
    pub(crate) fn cut(self, interval: Interval) -> Result<Interval, SqlError> {
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

/// The bits of the fields in the modifier of a type, and all that it may have.
const BITS: [(Unit, i32); 6] = [
    (Unit::Year, 2),
    (Unit::Month, 1),
    (Unit::Day, 3),
    (Unit::Hour, 10),
    (Unit::Minute, 11),
    (Unit::Second, 12),
];
const ALL: i32 = 0x7FFF;

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |unit| match unit {
            Unit::Year => "year",
            Unit::Month => "month",
            Unit::Day => "day",
            Unit::Hour => "hour",
            Unit::Minute => "minute",
            Unit::Second => "second",
        };
        f.write_str(name(self.first))?;
        if self.last == self.first { Ok(()) } else { write!(f, " to {}", name(self.last)) }
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
