//! Values of type `interval`: months, days and microseconds, which are kept apart since a month has
//! no fixed number of days, and a day no fixed number of hours.
//!
//! Comparisons, groups and keys take a month for 30 days and a day for 24 hours, as PostgreSQL
//! does: `1 month`, `30 days` and `720 hours` are equal, and yet differ as they are shown.

mod arith;
mod fields;
mod iso;
mod read;

pub(crate) use fields::Fields;

use crate::datetime::DAY_US;
use crate::error::{SqlError, state};
use std::cmp::Ordering;
use std::fmt::{self, Display, Formatter};

/// The microseconds of an hour.
pub(crate) const HOUR_US: i64 = 3_600_000_000;
/// The microseconds of a minute.
pub(crate) const MINUTE_US: i64 = 60_000_000;
/// The microseconds of a second.
pub(crate) const SECOND_US: i64 = 1_000_000;
/// The days of a month, where one must have a number of days.
pub(crate) const MONTH_DAYS: i64 = 30;

/// A span of time. Its parts may have different signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Whole months; a year is twelve of them.
    pub months: i32,
    /// Whole days.
    pub days: i32,
    /// The rest, in microseconds.
    pub micros: i64,
}

impl Interval {
    /// Returns its length in microseconds, with months of 30 days and days of 24 hours.
    pub(crate) fn length(self) -> i128 {
        let days = i128::from(self.months) * i128::from(MONTH_DAYS) + i128::from(self.days);
        days * i128::from(DAY_US) + i128::from(self.micros)
    }

    /// Orders by length.
    pub fn order(self, other: Interval) -> Ordering {
        self.length().cmp(&other.length())
    }

    /// Parses any of the styles of input that PostgreSQL knows.
    pub(crate) fn from_text(text: &str) -> Result<Interval, SqlError> {
        Interval::from_text_of(text, None)
    }

    /// Parses the text of a literal that names its fields: they give a number without a unit its
    /// unit, and the rest of the value is cut off.
    pub(crate) fn from_text_of(text: &str, fields: Option<Fields>) -> Result<Interval, SqlError> {
        let read = match read::read(text, fields) {
            Err(read::Failure::Syntax) => iso::read(text),
            other => other,
        };
        let interval = read.map_err(|failure| match failure {
            read::Failure::Syntax => SqlError::new(
                state::BAD_DATETIME,
                format!("invalid input syntax for type interval: \"{text}\""),
            ),
            read::Failure::Field => {
                SqlError::new("22015", format!("interval field value out of range: \"{text}\""))
            }
            read::Failure::Whole => out_of_range(),
        })?;
        match fields {
            Some(fields) => fields.cut(interval),
            None => Ok(interval),
        }
    }
}

/// Returns the error of a result that no interval holds.
pub(crate) fn out_of_range() -> SqlError {
    SqlError::new(state::DATETIME_OVERFLOW, "interval out of range")
}

/// PostgreSQL's `intervalstyle` of this name: `1 year 2 mons -3 days +04:05:06.7`.
impl Display for Interval {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut between = "";
        // The sign of a part after a negative one is shown.
        let mut negative = false;
        let parts = [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")];
        for (count, unit) in parts.into_iter().filter(|(count, _)| *count != 0) {
            let sign = if negative && count > 0 { "+" } else { "" };
            let plural = if count == 1 { "" } else { "s" };
            write!(f, "{between}{sign}{count} {unit}{plural}")?;
            (between, negative) = (" ", count < 0);
        }
        if self.micros == 0 && !between.is_empty() {
            return Ok(());
        }
        let sign = match (self.micros < 0, negative) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        let us = self.micros.unsigned_abs();
        let (hours, minutes) = (us / HOUR_US as u64, us / MINUTE_US as u64 % 60);
        let (seconds, rest) = (us / SECOND_US as u64 % 60, us % SECOND_US as u64);
        write!(f, "{between}{sign}{hours:02}:{minutes:02}:{seconds:02}")?;
        if rest > 0 {
            write!(f, ".{}", format!("{rest:06}").trim_end_matches('0'))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match Interval::from_text(text) {
            Ok(interval) => interval.to_string(),
            Err(error) => error.sqlstate.to_string(),
        }
    }

    /// Inputs, and what PostgreSQL 15 shows for them or its error.
    #[test]
    fn every_style_is_read() {
        for (text, result) in [
            ("1 year 2 mons 3 days 04:05:06.7", "1 year 2 mons 3 days 04:05:06.7"),
            ("1-2", "1 year 2 mons"),
            ("-1-2", "-1 years -2 mons"),
            ("1-2 3 4:05:06", "1 year 2 mons 3 days 04:05:06"),
            ("1 2 hours", "1 day 02:00:00"),
            ("1 04:05:06", "1 day 04:05:06"),
            ("-1 day +04:05", "-1 days +04:05:00"),
            ("1 day -04:05", "1 day -04:05:00"),
            ("@ 1 minute ago", "-00:01:00"),
            ("P1Y2M3DT4H5M6.7S", "1 year 2 mons 3 days 04:05:06.7"),
            ("P0001-02-03T04:05:06", "1 year 2 mons 3 days 04:05:06"),
            ("P00010203T040506", "1 year 2 mons 3 days 04:05:06"),
            ("P1.5W", "10 days 12:00:00"),
            ("PT-1H", "-01:00:00"),
            ("1.5 weeks", "10 days 12:00:00"),
            ("1.5 months", "1 mon 15 days"),
            ("1.5 years", "1 year 6 mons"),
            ("2 decades 1 century", "120 years"),
            ("1 millennium", "1000 years"),
            ("1.5", "00:00:01.5"),
            ("90 minutes", "01:30:00"),
            ("12:34.5", "00:12:34.5"),
            ("0.0000005 seconds", "00:00:00"),
            ("3 microseconds 2 ms", "00:00:00.002003"),
            ("1 day, 2 hours", "1 day 02:00:00"),
            (" 5 ", "00:00:05"),
            ("1 day 1 day", "22007"),
            ("day", "22007"),
            ("", "22007"),
            ("1 fortnight", "22007"),
            ("1:60", "22015"),
            ("1-12", "22015"),
            ("178956971 years", "22008"),
        ] {
            assert_eq!(shown(text), result, "{text:?}");
        }
    }

    #[test]
    fn lengths_are_compared() {
        let of = |text| Interval::from_text(text).expect("an interval");
        assert!(of("25 hours").order(of("1 day")).is_gt());
        assert!(of("1 month").order(of("30 days")).is_eq());
        assert!(of("1 year").order(of("364 days")).is_lt());
        assert!(of("-1 day").order(of("0")).is_lt());
    }
}
