//! Dates and times: what `.datetime()` makes of texts in ISO 8601, and their comparison.
//!
//! ```text
//!   date       year-month-day
//!   time       hour:minute:second[.fraction] [zone]
//!   timestamp  date, a space or T, time
//!   zone       +hour[:minute] or -hour[:minute]
//! ```
//!
//! A number has as many digits as it is written with, and blanks may be before it, as in
//! PostgreSQL.

use crate::cast;
use crate::datetime::{DAY_US, Local, Zone, ZonedTime, civil, date_in_range, timestamp_in_range};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::types::Type;
use std::cmp::Ordering;
use std::fmt::Write;

/// The farthest hour of a zone.
const FARTHEST_HOUR: i64 = 15;

/// A date or time that a method has read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moment {
    value: Datum,
    /// The zone of a timestamp with one, which it is shown in: seconds to the east.
    east_s: i32,
}

/// The rest of a text.
struct Source<'t>(&'t str);

impl Source<'_> {
    fn takes(&mut self, sign: char) -> bool {
        let rest = self.0.strip_prefix(sign);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn skip_blanks(&mut self) -> bool {
        let before = self.0.len();
        self.0 = self.0.trim_start_matches([' ', '\t', '\n', '\x0B', '\x0C', '\r']);
        self.0.len() < before
    }

    /// Takes digits.
    fn digits(&mut self) -> Option<&str> {
        let end = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        (!digits.is_empty()).then_some(digits)
    }

    /// Takes a number, perhaps with a sign: whether it is negative, and its magnitude.
    fn signed(&mut self) -> Option<(bool, i64)> {
        self.skip_blanks();
        let is_negative = self.takes('-');
        if !is_negative {
            self.takes('+');
        }
        Some((is_negative, self.digits()?.parse().ok()?))
    }

    /// Takes a number below a limit.
    fn below(&mut self, limit: i64) -> Option<i64> {
        match self.signed()? {
            (true, 1..) => None,
            (_, n) => Some(n).filter(|n| *n < limit),
        }
    }

    /// Takes a date: the days since 2000.
    fn date(&mut self) -> Option<i64> {
        let (is_before, year) = self.signed()?;
        // There is no year 0: that before 1 is 1 BC.
        let year = match (is_before, year) {
            (true, year @ 1..) => 1 - year,
            (_, year) => year,
        };
        let month = self.takes('-').then(|| self.below(13))??;
        let day = self.takes('-').then(|| self.below(32))??;
        if year.abs() > i64::from(i32::MAX) || month == 0 || day == 0 {
            return None;
        }
        civil::valid_days(year, month, day)
    }

    /// Takes a time of the day in microseconds, and the seconds to the east of a zone.
    fn time(&mut self) -> Option<(i64, Option<i32>)> {
        let hour = self.below(24)?;
        let minute = self.takes(':').then(|| self.below(60))??;
        let second = self.takes(':').then(|| self.below(60))??;
        let has_fraction = self.takes('.');
        let micros = match has_fraction {
            true => {
                let digits = self.digits().filter(|digits| digits.len() <= 6)?;
                format!("{digits:0<6}").parse().ok()?
            }
            false => 0,
        };
        let us = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros;
        let has_blanks = !has_fraction && self.skip_blanks();
        if self.0.trim_start_matches([' ', '\t', '\n', '\x0B', '\x0C', '\r']).is_empty() {
            return Some((us, None));
        }
        let is_west = self.takes('-');
        if !is_west && !self.takes('+') && !has_blanks {
            return None;
        }
        let mut number = || self.digits()?.parse::<i64>().ok();
        let hour = number().filter(|hour| *hour <= FARTHEST_HOUR)?;
        let minute = match self.takes(':') {
            true => self.digits()?.parse().ok().filter(|minute: &i64| *minute < 60)?,
            false => 0,
        };
        let east_s = (hour * 60 + minute) as i32 * 60;
        Some((us, Some(if is_west { -east_s } else { east_s })))
    }

    fn is_over(&mut self) -> bool {
        self.skip_blanks();
        self.0.is_empty()
    }
}

impl Moment {
    /// Reads a text; `None` if it is no date or time in ISO 8601.
    pub(super) fn of_text(text: &str) -> Option<Moment> {
        let of = |value| Some(Moment { value, east_s: 0 });
        let mut source = Source(text);
        if let Some((us, zone)) = source.time() {
            return match zone.filter(|_| source.is_over()) {
                Some(east_s) => of(Datum::TimeTz(ZonedTime::written(us, east_s)?)),
                None if zone.is_none() && source.is_over() => of(Datum::Time(us)),
                None => None,
            };
        }
        let mut source = Source(text);
        let days = source.date()?;
        let has_time = source.takes('T') || source.takes(' ');
        if source.is_over() {
            // Blanks may be at the end, and T may not.
            return match text.contains('T') {
                true => None,
                false => of(Datum::Date(date_in_range(days)?)),
            };
        }
        let (us, zone) = has_time.then(|| source.time())??;
        if !source.is_over() {
            return None;
        }
        let local = i128::from(days) * i128::from(DAY_US) + i128::from(us);
        let Some(east_s) = zone else { return of(Datum::Timestamp(timestamp_in_range(local)?)) };
        let us = timestamp_in_range(local - i128::from(east_s) * 1_000_000)?;
        Some(Moment { value: Datum::TimestampTz(us), east_s })
    }

    /// Returns the name of its type.
    pub(super) fn type_name(&self) -> &'static str {
        self.value.type_of().map_or("", Type::name)
    }

    /// Returns its text in ISO 8601, as JSON has it.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let (local, east_s) = match &self.value {
            Datum::TimestampTz(us) => {
                let us = us.saturating_add(i64::from(self.east_s) * 1_000_000);
                (Datum::Timestamp(us), Some(self.east_s))
            }
            Datum::TimeTz(time) => (Datum::Time(time.micros), Some(time.east_s)),
            other => (other.clone(), None),
        };
        local.write_text(Type::Text, Zone::utc(), &mut text);
        let end = text.find(" BC").unwrap_or(text.len());
        let era = text.split_off(end);
        let mut text = text.replacen(' ', "T", 1);
        if let Some(east_s) = east_s {
            let (sign, s) = (if east_s < 0 { '-' } else { '+' }, east_s.unsigned_abs());
            _ = write!(text, "{sign}{:02}:{:02}", s / 3600, s / 60 % 60);
        }
        text + &era
    }

    /// Returns its order with another; `None` if they are not comparable. Fails with 0A000 if that
    /// depends on the zone of the session, and none is given.
    pub(super) fn order(
        &self,
        other: &Moment,
        local: Option<Local<'_>>,
    ) -> Result<Option<Ordering>, SqlError> {
        let common = match (&self.value, &other.value) {
            (Datum::Time(_), Datum::Time(_)) => Type::Time,
            (Datum::Time(_) | Datum::TimeTz(_), Datum::Time(_) | Datum::TimeTz(_)) => Type::TimeTz,
            (Datum::Time(_) | Datum::TimeTz(_), _) | (_, Datum::Time(_) | Datum::TimeTz(_)) => {
                return Ok(None);
            }
            (Datum::TimestampTz(_), _) | (_, Datum::TimestampTz(_)) => Type::TimestampTz,
            _ => Type::Timestamp,
        };
        Ok(Some(self.as_type(common, local)?.order(&other.as_type(common, local)?)))
    }

    /// Returns it as a value of a type.
    fn as_type(&self, ty: Type, local: Option<Local<'_>>) -> Result<Datum, SqlError> {
        if self.value.type_of() == Some(ty) {
            return Ok(self.value.clone());
        }
        let needs_zone = matches!(ty, Type::TimeTz | Type::TimestampTz);
        let local = match (needs_zone, local) {
            (false, _) => Local::utc(),
            (true, Some(local)) => local,
            (true, None) => {
                let name = |ty| match ty {
                    Type::Timestamp => "timestamp",
                    Type::TimestampTz => "timestamptz",
                    Type::Time => "time",
                    Type::TimeTz => "timetz",
                    _ => "date",
                };
                let from = name(self.value.type_of().unwrap_or(Type::Date));
                let message = format!(
                    "cannot convert value from {from} to {} without time zone usage",
                    name(ty)
                );
                return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
                    .hint("Use *_tz() function for time zone support."));
            }
        };
        cast::cast(self.value.clone(), ty, true, local)
    }
}
