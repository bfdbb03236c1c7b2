//! Times made from numbers.

use super::super::of::*;
use super::super::{Function, float_at, text_at, whole_at};
use super::arith::day_of_parts;
use crate::datetime::zone::Named;
use crate::datetime::{
    self, DAY_US, EPOCH_S, date_in_range, instant_of, timestamp_in_range, timestamp_overflow,
};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::interval::{Interval, out_of_range};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("make_date", &[INT4, INT4, INT4], A_DATE, make_date),
    Function::new("make_time", &[INT4, INT4, FLOAT8], A_TIME, make_time),
    Function::new(
        "make_timestamp",
        &[INT4, INT4, INT4, INT4, INT4, FLOAT8],
        A_TIMESTAMP,
        |a, _| timestamp(a).map(Datum::Timestamp),
    ),
    Function::new(
        "make_timestamptz",
        &[INT4, INT4, INT4, INT4, INT4, FLOAT8],
        A_TIMESTAMPTZ,
        |args, scope| instant_of(timestamp(args)?, scope.session.zone()).map(Datum::TimestampTz),
    )
    .of_zone(),
    Function::new(
        "make_timestamptz",
        &[INT4, INT4, INT4, INT4, INT4, FLOAT8, TEXT],
        A_TIMESTAMPTZ,
        make_timestamptz_at,
    )
    .of_zone(),
    Function::new(
        "make_interval",
        &[INT4, INT4, INT4, INT4, INT4, INT4, FLOAT8],
        AN_INTERVAL,
        make_interval,
    ),
    Function::new("to_timestamp", &[FLOAT8], A_TIMESTAMPTZ, to_timestamp),
];

fn overflow(message: String) -> SqlError {
    SqlError::new(state::DATETIME_OVERFLOW, message)
}

fn make_date(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (year, month, day) = (whole_at(args, 0)?, whole_at(args, 1)?, whole_at(args, 2)?);
    let shown = || format!("out of range: {year}-{month:02}-{day:02}");
    let days = day_of_parts(year, month, day)
        .ok_or_else(|| overflow(format!("date field value {}", shown())))?;
    date_in_range(days).map(Datum::Date).ok_or_else(|| overflow(format!("date {}", shown())))
}

/// Returns the microseconds since midnight. Fails with 22008 for a time that no day has.
fn within(hour: i64, minute: i64, seconds: f64) -> Result<i64, SqlError> {
    let within = ((hour * 60 + minute) * 60) as f64 * 1e6 + (seconds * 1e6).round_ties_even();
    let is_there = (0..=24).contains(&hour)
        && (0..60).contains(&minute)
        && (0.0..=60.0).contains(&seconds)
        && within <= DAY_US as f64;
    if !is_there {
        let seconds = short(seconds, 2);
        let message = format!("time field value out of range: {hour}:{minute:02}:{seconds}");
        return Err(overflow(message));
    }
    Ok(within as i64)
}

fn make_time(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    within(whole_at(args, 0)?, whole_at(args, 1)?, float_at(args, 2)?).map(Datum::Time)
}

fn timestamp(args: &[Datum]) -> Result<i64, SqlError> {
    let (year, month, day) = (whole_at(args, 0)?, whole_at(args, 1)?, whole_at(args, 2)?);
    let days = day_of_parts(year, month, day).ok_or_else(|| {
        overflow(format!("date field value out of range: {year}-{month:02}-{day:02}"))
    })?;
    let (hour, minute, seconds) = (whole_at(args, 3)?, whole_at(args, 4)?, float_at(args, 5)?);
    let within = within(hour, minute, seconds)?;
    let at = i128::from(days) * i128::from(DAY_US) + i128::from(within);
    timestamp_in_range(at).ok_or_else(|| {
        let seconds = short(seconds, 2);
        overflow(format!(
            "timestamp out of range: {year}-{month:02}-{day:02} {hour}:{minute:02}:{seconds}"
        ))
    })
}

fn make_timestamptz_at(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let us = i128::from(timestamp(args)?);
    let zone = text_at(args, 6)?;
    if zone.starts_with(|c: char| c.is_ascii_digit()) {
        let message = format!("invalid input syntax for type numeric time zone: \"{zone}\"");
        return Err(SqlError::new(state::INVALID_PARAMETER, message)
            .hint("Numeric time zones must have \"-\" or \"+\" as first character."));
    }
    let east_s = match datetime::offset_from_text(zone) {
        Some(Ok(east_s)) => east_s,
        Some(Err(())) => {
            let message = format!("numeric time zone \"{zone}\" out of range");
            return Err(SqlError::new(state::INVALID_PARAMETER, message));
        }
        None => Named::find(zone)?.east_s_of_local(us),
    };
    timestamp_in_range(us - i128::from(east_s) * 1_000_000)
        .map(Datum::TimestampTz)
        .ok_or_else(timestamp_overflow)
}

/// Years, months, weeks, days, hours, minutes and seconds.
fn make_interval(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let whole = |at: usize| whole_at(args, at);
    let seconds = float_at(args, 6)?;
    let months = whole(0)? * 12 + whole(1)?;
    let days = whole(2)? * 7 + whole(3)?;
    let micros = (seconds * 1e6).round_ties_even();
    if micros.is_nan() || micros.abs() >= 2f64.powi(63) {
        return Err(out_of_range());
    }
    let minutes = whole(4)? * 60 + whole(5)?;
    Ok(Datum::Interval(Interval {
        months: months.try_into().map_err(|_| out_of_range())?,
        days: days.try_into().map_err(|_| out_of_range())?,
        micros: (minutes * 60_000_000).checked_add(micros as i64).ok_or_else(out_of_range)?,
    }))
}

/// The time of a number of seconds since 1970.
fn to_timestamp(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let seconds = float_at(args, 0)?;
    if seconds.is_nan() {
        return Err(overflow("timestamp cannot be NaN".into()));
    }
    if seconds.is_infinite() {
        let infinity = if seconds < 0.0 { i64::MIN } else { i64::MAX };
        return Ok(Datum::TimestampTz(infinity));
    }
    let us = ((seconds - EPOCH_S as f64) * 1e6).round_ties_even();
    timestamp_in_range(us as i128)
        .map(Datum::TimestampTz)
        .ok_or_else(|| overflow(format!("timestamp out of range: \"{}\"", short(seconds, 0))))
}

/// Shows a float with six digits, as C's `%g` does, with leading zeros.
fn short(x: f64, width: usize) -> String {
    let scientific = format!("{x:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        let text = trimmed(&format!("{x:.*}", (5 - exponent) as usize));
        return format!("{text:0>width$}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}
