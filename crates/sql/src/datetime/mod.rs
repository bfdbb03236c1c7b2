//! Dates and timestamps: days and microseconds since 2000-01-01, PostgreSQL's epoch, in
//! PostgreSQL's ranges. The greatest and the least number of a type are infinity and -infinity.

pub(crate) mod civil;
mod read;
pub(crate) mod zone;
mod zoned_time;

pub(crate) use civil::Civil;
pub(crate) use read::{
    date_from_text, is_relative, offset_from_text, time_from_text, timestamp_from_text,
    zoned_time_from_text,
};
pub use zone::{Local, Zone};
pub use zoned_time::ZonedTime;

use crate::datum::Datum;
use crate::error::{SqlError, state};
use civil::{date_of, days_of};
use meridian_clock::Timestamp;
use std::fmt::Write;

/// The microseconds of a day.
pub(crate) const DAY_US: i64 = 86_400_000_000;
/// Seconds from the Unix epoch to PostgreSQL's.
pub(crate) const EPOCH_S: i64 = 946_684_800;
/// The first day, 4714-11-24 BC.
const FIRST_DAY: i64 = -2_451_545;
/// The last day of a date, 5874897-12-31.
const LAST_DAY: i64 = 2_145_031_948;
/// The year in which timestamps end.
const END_YEAR: i64 = 294_277;

/// Returns a commit time in microseconds, rounded up: a snapshot at that time includes the commit.
pub(crate) fn committed(at: Timestamp) -> Datum {
    Datum::TimestampTz(from_unix_ns(at.nanos.saturating_add(999)))
}

/// Converts Unix nanoseconds to PostgreSQL microseconds.
pub(crate) fn from_unix_ns(ns: u64) -> i64 {
    (ns / 1000) as i64 - EPOCH_S * 1_000_000
}

/// Converts PostgreSQL microseconds to Unix nanoseconds; 0 for times before 1970.
pub(crate) fn to_unix_ns(us: i64) -> u64 {
    let unix_us = i128::from(us) + i128::from(EPOCH_S) * 1_000_000;
    u64::try_from(unix_us * 1000).unwrap_or(if unix_us < 0 { 0 } else { u64::MAX })
}

/// True for infinity and -infinity.
pub(crate) fn is_infinite_date(days: i32) -> bool {
    matches!(days, i32::MIN | i32::MAX)
}

/// True for infinity and -infinity.
pub(crate) fn is_infinite(us: i64) -> bool {
    matches!(us, i64::MIN | i64::MAX)
}

/// Returns a date if it is in range.
pub(crate) fn date_in_range(days: i64) -> Option<i32> {
    (FIRST_DAY..=LAST_DAY).contains(&days).then_some(days as i32)
}

/// Returns a timestamp if it is in range.
pub(crate) fn timestamp_in_range(us: i128) -> Option<i64> {
    let day = i128::from(DAY_US);
    let (first, end) = (i128::from(FIRST_DAY) * day, i128::from(days_of(END_YEAR, 1, 1)) * day);
    (first..end).contains(&us).then_some(us as i64)
}

/// Returns the error of a timestamp that is out of range.
pub(crate) fn timestamp_overflow() -> SqlError {
    SqlError::new(state::DATETIME_OVERFLOW, "timestamp out of range")
}

/// Returns the error of a date that is out of range.
pub(crate) fn date_overflow() -> SqlError {
    SqlError::new(state::DATETIME_OVERFLOW, "date out of range")
}

/// Returns 22009: an offset is too far from UTC.
pub(crate) fn displacement_overflow() -> SqlError {
    SqlError::new(state::DISPLACEMENT, "time zone displacement out of range")
}

/// Returns the error of a time of the day that is out of range.
pub(crate) fn time_overflow() -> SqlError {
    SqlError::new(state::DATETIME_OVERFLOW, "time out of range")
}

/// Returns midnight of a day, to compare it with timestamps; infinity beyond all of them.
pub(crate) fn midnight_wide(days: i32) -> i128 {
    match days {
        i32::MAX => i64::MAX.into(),
        i32::MIN => i64::MIN.into(),
        days => i128::from(days) * i128::from(DAY_US),
    }
}

/// Returns midnight of a day. Fails with 22008 if no timestamp holds it.
pub(crate) fn midnight(days: i32) -> Result<i64, SqlError> {
    match days {
        i32::MAX => Ok(i64::MAX),
        i32::MIN => Ok(i64::MIN),
        days => timestamp_in_range(midnight_wide(days)).ok_or_else(|| {
            SqlError::new(state::DATETIME_OVERFLOW, "date out of range for timestamp")
        }),
    }
}

/// Returns the instant of a timestamp in a zone; infinity as it is. Fails with 22008 out of range.
pub(crate) fn instant_of(us: i64, zone: &Zone) -> Result<i64, SqlError> {
    match is_infinite(us) {
        true => Ok(us),
        false => zone.instant(us.into()).ok_or_else(timestamp_overflow),
    }
}

/// Returns the local time of an instant in a zone; infinity as it is. Fails with 22008 out of
/// range.
pub(crate) fn local_of(us: i64, zone: &Zone) -> Result<i64, SqlError> {
    match is_infinite(us) {
        true => Ok(us),
        false => timestamp_in_range(zone.local(us).into()).ok_or_else(timestamp_overflow),
    }
}

/// Returns the day of a timestamp.
pub(crate) fn day_of(us: i64) -> i32 {
    match us {
        i64::MAX => i32::MAX,
        i64::MIN => i32::MIN,
        us => us.div_euclid(DAY_US) as i32,
    }
}

/// Writes a year, and ` BC` behind what `rest` writes if it is one before the first.
fn with_era(year: i64, out: &mut String, rest: impl FnOnce(&mut String)) {
    let shown = if year > 0 { year } else { 1 - year };
    let _ = write!(out, "{shown:04}");
    rest(out);
    if year <= 0 {
        out.push_str(" BC");
    }
}

/// Renders a date as `2024-05-06`, or infinity.
pub(crate) fn date_to_text(days: i32, out: &mut String) {
    match days {
        i32::MAX => out.push_str("infinity"),
        i32::MIN => out.push_str("-infinity"),
        days => {
            let (year, month, day) = date_of(days.into());
            with_era(year, out, |out| _ = write!(out, "-{month:02}-{day:02}"));
        }
    }
}

/// Renders a time of the day as `07:08:09.123456`.
pub(crate) fn time_to_text(us: i64, out: &mut String) {
    let seconds = us / 1_000_000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let _ = write!(out, "{hour:02}:{minute:02}:{second:02}");
    write_fraction(us % 1_000_000, out);
}

/// Writes a part of a second without the zeros at its end.
fn write_fraction(micros: i64, out: &mut String) {
    if micros > 0 {
        let digits = format!("{micros:06}");
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
}

/// Renders a timestamp as `2024-05-06 07:08:09.123456`: the local time of a zone with its offset
/// behind it, `+02`, or as it is.
pub(crate) fn timestamp_to_text(us: i64, zone: Option<&Zone>, out: &mut String) {
    if is_infinite(us) {
        out.push_str(if us < 0 { "-infinity" } else { "infinity" });
        return;
    }
    let east_s = zone.map(|zone| zone.east_s(us));
    let at = us.saturating_add(i64::from(east_s.unwrap_or(0)) * 1_000_000);
    let Civil { year, month, day, hour, minute, second, micros } = Civil::of(at);
    with_era(year, out, |out| {
        let _ = write!(out, "-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
        write_fraction(micros, out);
        if let Some(east_s) = east_s {
            zone::write_offset(east_s, out);
        }
    });
}
