//! Converts days and microseconds since 2000-01-01, PostgreSQL's epoch, to text and back (ISO
//! style, the years of chrono).

use crate::datum::Datum;
use crate::error::{SqlError, state};
use chrono::{
    DateTime, Datelike, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike,
};
use meridian_clock::Timestamp;

/// The microseconds of a day.
pub(crate) const DAY_US: i64 = 86_400_000_000;
/// Seconds from the Unix epoch to PostgreSQL's.
pub(crate) const EPOCH_S: i64 = 946_684_800;
const EPOCH_DAY: i32 = 730_120;

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

pub(crate) fn civil_date(days: i32) -> Option<NaiveDate> {
    NaiveDate::from_num_days_from_ce_opt(days.checked_add(EPOCH_DAY)?)
}

pub(crate) fn civil(us: i64) -> Option<NaiveDateTime> {
    let days = i32::try_from(us.div_euclid(DAY_US)).ok()?;
    let rest = us.rem_euclid(DAY_US);
    let time = NaiveTime::from_num_seconds_from_midnight_opt(
        (rest / 1_000_000) as u32,
        (rest % 1_000_000) as u32 * 1000,
    )?;
    Some(civil_date(days)?.and_time(time))
}

pub(crate) fn from_civil_date(date: NaiveDate) -> i32 {
    date.num_days_from_ce() - EPOCH_DAY
}

pub(crate) fn from_civil(at: NaiveDateTime) -> i64 {
    i64::from(from_civil_date(at.date())) * DAY_US
        + i64::from(at.num_seconds_from_midnight()) * 1_000_000
        + i64::from(at.nanosecond() / 1000)
}

/// Renders a date as `2024-05-06`, or infinity.
pub(crate) fn date_to_text(days: i32, out: &mut String) {
    use std::fmt::Write;
    match (days, civil_date(days)) {
        (i32::MAX, _) => out.push_str("infinity"),
        (i32::MIN, _) => out.push_str("-infinity"),
        (_, Some(date)) if date.year() > 0 => {
            let _ = write!(out, "{:04}-{:02}-{:02}", date.year(), date.month(), date.day());
        }
        (_, Some(date)) => {
            let _ = write!(out, "{:04}-{:02}-{:02} BC", 1 - date.year(), date.month(), date.day());
        }
        (_, None) => out.push_str("infinity"),
    }
}

/// Renders a timestamp as `2024-05-06 07:08:09.123456`, with `+00` if it has a zone.
pub(crate) fn timestamp_to_text(us: i64, zone: bool, out: &mut String) {
    use std::fmt::Write;
    let Some(at) = civil(us) else {
        out.push_str(if us < 0 { "-infinity" } else { "infinity" });
        return;
    };
    let year = if at.year() > 0 { at.year() } else { 1 - at.year() };
    let _ = write!(
        out,
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
        year,
        at.month(),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    );
    let micros = at.nanosecond() / 1000;
    if micros > 0 {
        let digits = format!("{micros:06}");
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
    if zone {
        out.push_str("+00");
    }
    if at.year() <= 0 {
        out.push_str(" BC");
    }
}

fn bad(kind: &str, text: &str) -> SqlError {
    SqlError::new(state::BAD_DATETIME, format!("invalid input syntax for type {kind}: \"{text}\""))
}

/// Parses a date; ignores a time after it, as PostgreSQL does.
pub(crate) fn date_from_text(text: &str) -> Result<i32, SqlError> {
    let trimmed = text.trim();
    match trimmed.to_ascii_lowercase().as_str() {
        "infinity" => return Ok(i32::MAX),
        "-infinity" => return Ok(i32::MIN),
        "epoch" => return Ok(-10957),
        _ => {}
    }
    let day = trimmed.split([' ', 'T']).next().unwrap_or("");
    parse_day(day)
        .map(from_civil_date)
        .ok_or_else(|| if names_a_day(day) { no_such(text) } else { bad("date", text) })
}

/// True if the text has the form of a date, whose month or day may not exist.
fn names_a_day(day: &str) -> bool {
    let parts: Vec<&str> = day.split(['-', '/']).collect();
    parts.len() == 3
        && parts
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the error 22008.
fn no_such(text: &str) -> SqlError {
    SqlError::new(
        state::DATETIME_OVERFLOW,
        format!("date/time field value out of range: \"{text}\""),
    )
}

fn parse_day(day: &str) -> Option<NaiveDate> {
    if day.len() == 8 && day.bytes().all(|b| b.is_ascii_digit()) {
        return NaiveDate::parse_from_str(day, "%Y%m%d").ok();
    }
    let mut parts = day.split(['-', '/']);
    let (a, b, c) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || a.is_empty() || a.len() > 6 {
        return None;
    }
    if a.len() <= 2 && c.len() == 4 {
        return NaiveDate::from_ymd_opt(c.parse().ok()?, a.parse().ok()?, b.parse().ok()?);
    }
    NaiveDate::from_ymd_opt(a.parse().ok()?, b.parse().ok()?, c.parse().ok()?)
}

/// Parses a timestamp, with or without a zone. If one is given and `zoned`, the result is UTC;
/// otherwise the zone is ignored.
pub(crate) fn timestamp_from_text(text: &str, zoned: bool) -> Result<i64, SqlError> {
    let kind = if zoned { "timestamp with time zone" } else { "timestamp" };
    let trimmed = text.trim();
    match trimmed.to_ascii_lowercase().as_str() {
        "infinity" => return Ok(i64::MAX),
        "-infinity" => return Ok(i64::MIN),
        "epoch" => return Ok(-EPOCH_S * 1_000_000),
        _ => {}
    }
    if let Ok(at) = DateTime::<FixedOffset>::parse_from_rfc3339(trimmed) {
        return Ok(from_civil(if zoned { at.naive_utc() } else { at.naive_local() }));
    }
    let (day, rest) = match trimmed.find([' ', 'T']) {
        Some(at) => (&trimmed[..at], trimmed[at + 1..].trim()),
        None => (trimmed, ""),
    };
    let day = parse_day(day)
        .ok_or_else(|| if names_a_day(day) { no_such(text) } else { bad(kind, text) })?;
    let zone_at = rest.find(['+', '-', 'Z', 'z', 'U', 'G', ' ']).unwrap_or(rest.len());
    let (clock, zone) = (rest[..zone_at].trim(), rest[zone_at..].trim());
    let time = if clock.is_empty() {
        NaiveTime::MIN
    } else {
        NaiveTime::parse_from_str(clock, "%H:%M:%S%.f")
            .or_else(|_| NaiveTime::parse_from_str(clock, "%H:%M"))
            .map_err(|_| bad(kind, text))?
    };
    let offset_s = zone_offset_s(zone).ok_or_else(|| bad(kind, text))?;
    let at = day.and_time(time);
    let at = if zoned {
        at.checked_sub_signed(TimeDelta::seconds(offset_s)).ok_or_else(|| bad(kind, text))?
    } else {
        at
    };
    Ok(from_civil(at))
}

fn zone_offset_s(zone: &str) -> Option<i64> {
    if zone.is_empty() || ["z", "utc", "gmt"].contains(&zone.to_ascii_lowercase().as_str()) {
        return Some(0);
    }
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let digits: String = digits.chars().filter(|c| *c != ':').collect();
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes) = match digits.len() {
        1 | 2 => (digits.parse::<i64>().ok()?, 0),
        4 => (digits[..2].parse::<i64>().ok()?, digits[2..].parse::<i64>().ok()?),
        _ => return None,
    };
    (hours < 16 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}
