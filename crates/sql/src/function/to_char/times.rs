//! `to_char` of timestamps and intervals.

use super::ordinal;
use super::template::{Case, Key, Node, nodes};
use crate::datetime::civil::{day_of_year, days_of, iso_week, julian, weekday};
use crate::datetime::zone::At;
use crate::datetime::{Civil, DAY_US, Zone, is_infinite};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::interrupt;
use crate::interval::{HOUR_US, Interval};
use std::fmt::Write;

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ROMAN: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// The parts of a time or an interval.
struct Shown {
    civil: Civil,
    /// Days since 2000, for what only a date has.
    days: i64,
    is_interval: bool,
    /// The offset of an instant.
    at: Option<At>,
}

impl Shown {
    fn of(time: &Datum, zone: &Zone) -> Option<Shown> {
        Some(match time {
            Datum::Timestamp(us) | Datum::TimestampTz(us) if is_infinite(*us) => return None,
            Datum::Timestamp(us) => Shown {
                civil: Civil::of(*us),
                days: us.div_euclid(DAY_US),
                is_interval: false,
                at: None,
            },
            Datum::TimestampTz(us) => {
                let local = zone.local(*us);
                Shown { at: Some(zone.at(*us)), ..Shown::of(&Datum::Timestamp(local), zone)? }
            }
            Datum::Interval(Interval { months, days, micros }) => {
                let civil = Civil {
                    year: i64::from(months / 12),
                    month: i64::from(months % 12),
                    day: i64::from(*days),
                    hour: micros / HOUR_US,
                    minute: micros / 60_000_000 % 60,
                    second: micros / 1_000_000 % 60,
                    micros: micros % 1_000_000,
                };
                Shown { civil, days: 0, is_interval: true, at: None }
            }
            _ => return None,
        })
    }

    /// The year as it is shown: before the first as a positive number.
    fn year(&self, year: i64) -> i64 {
        if self.is_interval || year > 0 { year } else { 1 - year }
    }

    /// Days of years of twelve months of 30 days.
    fn days_of_interval(&self) -> i64 {
        (self.civil.year * 12 + self.civil.month) * 30 + self.civil.day
    }
}

/// Renders a time by a template; NULL for infinity and for an empty template.
pub(super) fn to_char(time: &Datum, template: &str, zone: &Zone) -> Result<Datum, SqlError> {
    let Some(shown) = Shown::of(time, zone).filter(|_| !template.is_empty()) else {
        return Ok(Datum::Null);
    };
    let mut out = String::new();
    for node in nodes(template) {
        interrupt::step();
        match node {
            Node::Text { shown, .. } => out.push(shown),
            Node::Pattern { key, case, bare, translated, ordinal: th, .. } => {
                let from = out.len();
                write(&shown, key, case, bare, translated, &mut out)?;
                let of_zone = matches!(key, Key::Offset | Key::ZoneHour | Key::ZoneMinute);
                let is_number = !of_zone && out[from..].ends_with(|c: char| c.is_ascii_digit());
                if let Some(upper) = th.filter(|_| is_number) {
                    let ending = ordinal(&out[from..], upper);
                    out.push_str(ending);
                }
            }
        }
    }
    Ok(Datum::text(out))
}

fn cased(word: &str, case: Case) -> String {
    match case {
        Case::Upper => word.to_uppercase(),
        Case::Lower => word.to_lowercase(),
        Case::Title => word.to_owned(),
    }
}

fn write(
    shown: &Shown,
    key: Key,
    case: Case,
    bare: bool,
    translated: bool,
    out: &mut String,
) -> Result<(), SqlError> {
    let Civil { year, month, day, hour, minute, second, micros } = shown.civil;
    let only_dates = || {
        let message = "invalid format specification for an interval value";
        Err(SqlError::new(state::BAD_DATETIME, message)
            .hint("Intervals are not tied to specific calendar dates."))
    };
    // A sign takes one more place.
    let number = |n: i64, width: usize| {
        let width = if bare { 0 } else { width + usize::from(n < 0) };
        format!("{n:0width$}")
    };
    let word = |word: &str, width: usize, bare: bool| {
        let word = cased(word, case);
        if bare { word } else { format!("{word:width$}") }
    };
    let of_interval = shown.is_interval;
    let text = match key {
        Key::Fixed => return Ok(()),
        Key::Era(_) | Key::DayName | Key::DayAbbreviated | Key::DayOfWeek | Key::IsoDayOfWeek
            if of_interval =>
        {
            return only_dates();
        }
        Key::MonthName | Key::MonthAbbreviated if of_interval => return only_dates(),
        Key::Zone | Key::ZoneHour | Key::ZoneMinute | Key::Offset if of_interval => {
            return only_dates();
        }
        Key::IsoDayOfYear | Key::IsoWeek | Key::IsoYear(_) | Key::Julian | Key::WeekOfYear
            if of_interval =>
        {
            return Err(SqlError::unsupported("weeks and Julian days of an interval in to_char"));
        }
        Key::Era(points) => {
            let name = match (year > 0, points) {
                (true, true) => "A.D.",
                (true, false) => "AD",
                (false, true) => "B.C.",
                (false, false) => "BC",
            };
            cased(name, case)
        }
        Key::Half(points) => {
            let name = match (hour % 24 >= 12, points) {
                (true, true) => "P.M.",
                (true, false) => "PM",
                (false, true) => "A.M.",
                (false, false) => "AM",
            };
            cased(name, case)
        }
        Key::Century => {
            let century = match year {
                _ if of_interval => year / 100,
                1.. => (year - 1) / 100 + 1,
                _ => year / 100 - 1,
            };
            number(century, if century.abs() < 100 { 2 } else { 0 })
        }
        Key::DayName => word(DAYS[weekday(shown.days) as usize], 9, bare || translated),
        Key::DayAbbreviated => cased(&DAYS[weekday(shown.days) as usize][..3], case),
        Key::DayOfYear if of_interval => padded(shown.days_of_interval(), bare, 3),
        Key::DayOfYear => number(day_of_year(shown.days), 3),
        Key::Day => padded(day, bare, 2),
        Key::DayOfWeek => (weekday(shown.days) + 1).to_string(),
        Key::IsoDayOfWeek => ((weekday(shown.days) + 6) % 7 + 1).to_string(),
        Key::IsoDayOfYear => {
            let (of_year, _) = iso_week(shown.days);
            let first = crate::datetime::civil::monday(days_of(of_year, 1, 4));
            number(shown.days - first + 1, 3)
        }
        Key::IsoWeek => number(iso_week(shown.days).1, 2),
        Key::IsoYear(digits) => last_digits(shown.year(iso_week(shown.days).0), digits, &number),
        Key::Fraction(digits) => padded(micros / 10i64.pow(6 - digits), false, digits as usize),
        Key::Milliseconds => padded(micros / 1000, false, 3),
        Key::Microseconds => padded(micros, false, 6),
        Key::Hour24 => number(hour, 2),
        Key::Hour12 => number(if hour % 12 == 0 { 12 } else { hour % 12 }, 2),
        Key::Minute => number(minute, 2),
        Key::Second => number(second, 2),
        Key::SecondOfDay => (hour * 3600 + minute * 60 + second).to_string(),
        Key::MonthName => word(MONTHS[month as usize - 1], 9, bare || translated),
        Key::MonthAbbreviated => cased(&MONTHS[month as usize - 1][..3], case),
        Key::Month => number(month, 2),
        Key::Quarter if month == 0 => String::new(),
        Key::Quarter => ((month - 1) / 3 + 1).to_string(),
        Key::RomanMonth if month == 0 && year == 0 => String::new(),
        // Negative months of an interval count from the end of the year.
        Key::RomanMonth => {
            let at = match month {
                0 if year > 0 => 11,
                0 => 0,
                ..0 => 12 + month,
                _ => month - 1,
            };
            word(ROMAN[at as usize], 4, bare)
        }
        Key::Julian => julian(shown.days).to_string(),
        Key::Zone => match (&shown.at, case) {
            (None, _) => String::new(),
            (Some(at), Case::Lower) => at.abbreviation.to_lowercase(),
            (Some(at), _) => at.abbreviation.clone(),
        },
        Key::Offset | Key::ZoneHour | Key::ZoneMinute => {
            let east_s = shown.at.as_ref().map_or(0, |at| at.east_s);
            let (sign, size) = (if east_s < 0 { '-' } else { '+' }, east_s.unsigned_abs());
            let (hours, minutes) = (size / 3600, size / 60 % 60);
            match key {
                Key::ZoneMinute => format!("{minutes:02}"),
                Key::Offset if size % 3600 > 0 => {
                    format!("{sign}{}:{minutes:02}", padded(hours.into(), bare, 2))
                }
                Key::Offset => format!("{sign}{}", padded(hours.into(), bare, 2)),
                _ => format!("{sign}{hours:02}"),
            }
        }
        Key::WeekOfYear => number((day_of_year(shown.days) - 1) / 7 + 1, 2),
        Key::WeekOfMonth => ((day - 1) / 7 + 1).to_string(),
        Key::YearWithComma => {
            let year = shown.year(year);
            format!("{},{:03}", year / 1000, year % 1000)
        }
        Key::Year(digits) => last_digits(shown.year(year), digits, &number),
    };
    let _ = write!(out, "{text}");
    Ok(())
}

/// The width includes the sign.
fn padded(n: i64, bare: bool, width: usize) -> String {
    let width = if bare { 0 } else { width };
    format!("{n:0width$}")
}

fn last_digits(year: i64, digits: u32, number: &dyn Fn(i64, usize) -> String) -> String {
    let shown = if digits == 4 { year } else { year % 10i64.pow(digits) };
    number(shown, digits as usize)
}
