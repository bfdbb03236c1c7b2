//! Arithmetic of times, and the age of one.

use super::super::of::*;
use super::super::{Function, float_at, whole_at, wrong_type};
use super::{interval_at, like, micros_at, zoned_at};
use crate::datetime::civil::{days_of, month_days};
use crate::datetime::{
    self, Civil, DAY_US, Zone, ZonedTime, date_overflow, instant_of, is_infinite, is_infinite_date,
    timestamp_in_range, timestamp_overflow,
};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::interval::{Interval, out_of_range};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("+", &[INTERVAL, INTERVAL], AN_INTERVAL, plus),
    Function::new("+", &[DATE, INT4], A_DATE, days_after),
    Function::new("+", &[INT4, DATE], A_DATE, |args, scope| days_after(&swapped(args), scope)),
    Function::new("+", &[DATE, INTERVAL], A_TIMESTAMP, after),
    Function::new("+", &[TIMESTAMP, INTERVAL], A_TIMESTAMP, after),
    Function::new("+", &[TIMESTAMPTZ, INTERVAL], A_TIMESTAMPTZ, after).of_zone(),
    Function::new("+", &[INTERVAL, DATE], A_TIMESTAMP, |args, scope| after(&swapped(args), scope)),
    Function::new("+", &[INTERVAL, TIMESTAMP], A_TIMESTAMP, |args, scope| {
        after(&swapped(args), scope)
    }),
    Function::new("+", &[INTERVAL, TIMESTAMPTZ], A_TIMESTAMPTZ, |args, scope| {
        after(&swapped(args), scope)
    })
    .of_zone(),
    Function::new("+", &[TIME, INTERVAL], A_TIME, |args, _| moved_time(args, 1)),
    Function::new("+", &[INTERVAL, TIME], A_TIME, |args, _| moved_time(&swapped(args), 1)),
    Function::new("-", &[TIME, INTERVAL], A_TIME, |args, _| moved_time(args, -1)),
    Function::new("-", &[TIME, TIME], AN_INTERVAL, |args, _| {
        let micros = micros_at(args, 0)? - micros_at(args, 1)?;
        Ok(Datum::Interval(Interval { micros, days: 0, months: 0 }))
    }),
    Function::new("+", &[TIMETZ, INTERVAL], A_TIMETZ, |args, _| moved_zoned(args, 1)),
    Function::new("+", &[INTERVAL, TIMETZ], A_TIMETZ, |args, _| moved_zoned(&swapped(args), 1)),
    Function::new("-", &[TIMETZ, INTERVAL], A_TIMETZ, |args, _| moved_zoned(args, -1)),
    Function::new("+", &[DATE, TIMETZ], A_TIMESTAMPTZ, at_zoned),
    Function::new("+", &[TIMETZ, DATE], A_TIMESTAMPTZ, |args, scope| {
        at_zoned(&swapped(args), scope)
    }),
    Function::new("+", &[DATE, TIME], A_TIMESTAMP, at_time),
    Function::new("+", &[TIME, DATE], A_TIMESTAMP, |args, scope| at_time(&swapped(args), scope)),
    Function::new("-", &[INTERVAL], AN_INTERVAL, |args, _| {
        interval_at(args, 0)?.negated().map(Datum::Interval)
    }),
    Function::new("-", &[INTERVAL, INTERVAL], AN_INTERVAL, minus),
    Function::new("-", &[DATE, INT4], A_DATE, days_before),
    Function::new("-", &[DATE, DATE], AN_INT4, days_between),
    Function::new("-", &[DATE, INTERVAL], A_TIMESTAMP, before),
    Function::new("-", &[TIMESTAMP, INTERVAL], A_TIMESTAMP, before),
    Function::new("-", &[TIMESTAMPTZ, INTERVAL], A_TIMESTAMPTZ, before).of_zone(),
    Function::new("-", &[TIMESTAMP, TIMESTAMP], AN_INTERVAL, between),
    Function::new("-", &[TIMESTAMPTZ, TIMESTAMPTZ], AN_INTERVAL, between),
    Function::new("*", &[INTERVAL, FLOAT8], AN_INTERVAL, times),
    Function::new("*", &[FLOAT8, INTERVAL], AN_INTERVAL, |args, scope| {
        times(&swapped(args), scope)
    }),
    Function::new("/", &[INTERVAL, FLOAT8], AN_INTERVAL, |args, _| {
        interval_at(args, 0)?.divided_by(float_at(args, 1)?).map(Datum::Interval)
    }),
    Function::new("age", &[TIMESTAMP, TIMESTAMP], AN_INTERVAL, age),
    Function::new("age", &[TIMESTAMPTZ, TIMESTAMPTZ], AN_INTERVAL, age).of_zone(),
    Function::new("age", &[TIMESTAMP], AN_INTERVAL, age_today).stable(),
    Function::new("age", &[TIMESTAMPTZ], AN_INTERVAL, age_today).stable(),
    Function::new("justify_hours", &[INTERVAL], AN_INTERVAL, |args, _| {
        interval_at(args, 0)?.justified_hours().map(Datum::Interval)
    }),
    Function::new("justify_days", &[INTERVAL], AN_INTERVAL, |args, _| {
        interval_at(args, 0)?.justified_days().map(Datum::Interval)
    }),
    Function::new("justify_interval", &[INTERVAL], AN_INTERVAL, |args, _| {
        interval_at(args, 0)?.justified().map(Datum::Interval)
    }),
    Function::new("isfinite", &[DATE], A_BOOL, is_finite),
    Function::new("isfinite", &[TIMESTAMP], A_BOOL, is_finite),
    Function::new("isfinite", &[TIMESTAMPTZ], A_BOOL, is_finite),
    Function::new("isfinite", &[INTERVAL], A_BOOL, is_finite),
    Function::new("overlaps", &[TIMETZ, TIMETZ, TIMETZ, TIMETZ], A_BOOL, overlaps).lenient(),
    Function::new("overlaps", &[TIME, TIME, TIME, TIME], A_BOOL, overlaps).lenient(),
    Function::new("overlaps", &[TIME, INTERVAL, TIME, TIME], A_BOOL, overlaps).lenient(),
    Function::new("overlaps", &[TIME, TIME, TIME, INTERVAL], A_BOOL, overlaps).lenient(),
    Function::new("overlaps", &[TIME, INTERVAL, TIME, INTERVAL], A_BOOL, overlaps).lenient(),
    Function::new("overlaps", &[TIMESTAMP, TIMESTAMP, TIMESTAMP, TIMESTAMP], A_BOOL, overlaps)
        .lenient(),
    Function::new("overlaps", &[TIMESTAMP, INTERVAL, TIMESTAMP, TIMESTAMP], A_BOOL, overlaps)
        .lenient(),
    Function::new("overlaps", &[TIMESTAMP, TIMESTAMP, TIMESTAMP, INTERVAL], A_BOOL, overlaps)
        .lenient(),
    Function::new("overlaps", &[TIMESTAMP, INTERVAL, TIMESTAMP, INTERVAL], A_BOOL, overlaps)
        .lenient(),
    Function::new(
        "overlaps",
        &[TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ],
        A_BOOL,
        overlaps,
    )
    .lenient(),
    Function::new("overlaps", &[TIMESTAMPTZ, INTERVAL, TIMESTAMPTZ, TIMESTAMPTZ], A_BOOL, overlaps)
        .lenient()
        .of_zone(),
    Function::new("overlaps", &[TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL], A_BOOL, overlaps)
        .lenient()
        .of_zone(),
    Function::new("overlaps", &[TIMESTAMPTZ, INTERVAL, TIMESTAMPTZ, INTERVAL], A_BOOL, overlaps)
        .lenient()
        .of_zone(),
];

fn swapped(args: &[Datum]) -> Vec<Datum> {
    args.iter().rev().cloned().collect()
}

/// Moves a time of the day by a length, past midnight if need be.
fn past_midnight(us: i64, by: i64) -> i64 {
    (us + by % DAY_US).rem_euclid(DAY_US)
}

fn moved_time(args: &[Datum], sign: i64) -> Result<Datum, SqlError> {
    let by = interval_at(args, 1)?.micros % DAY_US;
    Ok(Datum::Time(past_midnight(micros_at(args, 0)?, sign * by)))
}

fn moved_zoned(args: &[Datum], sign: i64) -> Result<Datum, SqlError> {
    let (time, by) = (zoned_at(args, 0)?, interval_at(args, 1)?.micros % DAY_US);
    let micros = past_midnight(time.micros, sign * by);
    Ok(Datum::TimeTz(ZonedTime { micros, ..time }))
}

/// The instant of a day and a time in its zone.
fn at_zoned(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let midnight = micros_at(args, 0)?;
    if is_infinite(midnight) {
        return Ok(Datum::TimestampTz(midnight));
    }
    let us = i128::from(midnight) + i128::from(zoned_at(args, 1)?.utc_us());
    timestamp_in_range(us).map(Datum::TimestampTz).ok_or_else(timestamp_overflow)
}

/// The timestamp of a day and a time.
fn at_time(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let midnight = micros_at(args, 0)?;
    if is_infinite(midnight) {
        return Ok(Datum::Timestamp(midnight));
    }
    let us = i128::from(midnight) + i128::from(micros_at(args, 1)?);
    timestamp_in_range(us).map(Datum::Timestamp).ok_or_else(timestamp_overflow)
}

fn plus(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    interval_at(args, 0)?.plus(interval_at(args, 1)?).map(Datum::Interval)
}

fn minus(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    interval_at(args, 0)?.minus(interval_at(args, 1)?).map(Datum::Interval)
}

fn times(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    interval_at(args, 0)?.times(float_at(args, 1)?).map(Datum::Interval)
}

fn date_at(args: &[Datum], at: usize) -> Result<i32, SqlError> {
    match args.get(at) {
        Some(Datum::Date(days)) => Ok(*days),
        _ => Err(wrong_type()),
    }
}

/// Returns a date some days after another.
fn moved(days: i32, by: i64) -> Result<Datum, SqlError> {
    if is_infinite_date(days) {
        return Ok(Datum::Date(days));
    }
    datetime::date_in_range(i64::from(days) + by).map(Datum::Date).ok_or_else(date_overflow)
}

fn days_after(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    moved(date_at(args, 0)?, whole_at(args, 1)?)
}

fn days_before(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    moved(date_at(args, 0)?, -whole_at(args, 1)?)
}

fn days_between(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (a, b) = (date_at(args, 0)?, date_at(args, 1)?);
    if is_infinite_date(a) || is_infinite_date(b) {
        return Err(SqlError::new(state::DATETIME_OVERFLOW, "cannot subtract infinite dates"));
    }
    // Both are in the range of dates, so that the difference is one of 32 bits.
    Ok(Datum::Int4((i64::from(a) - i64::from(b)) as i32))
}

/// Returns a timestamp moved by an interval: by its months first, where a day beyond the end of its
/// month becomes the last one, then by its days, then by its time.
pub(crate) fn shifted(us: i64, by: Interval) -> Result<i64, SqlError> {
    if is_infinite(us) {
        return Ok(us);
    }
    let mut at = i128::from(us);
    if by.months != 0 {
        let civil = Civil::of(us);
        let months = civil.year * 12 + civil.month - 1 + i64::from(by.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        let day = civil.day.min(month_days(year, month));
        at = Civil { year, month, day, ..civil }.micros_wide();
    }
    at = timestamp_in_range(at).ok_or_else(timestamp_overflow)?.into();
    at += i128::from(by.days) * i128::from(DAY_US);
    at = timestamp_in_range(at).ok_or_else(timestamp_overflow)?.into();
    timestamp_in_range(at + i128::from(by.micros)).ok_or_else(timestamp_overflow)
}

/// Returns an instant moved by an interval: by its months and its days in the local time of a zone,
/// then by its time.
pub(crate) fn shifted_in(us: i64, by: Interval, zone: &Zone) -> Result<i64, SqlError> {
    if is_infinite(us) {
        return Ok(us);
    }
    let parts = [
        Interval { months: by.months, ..Interval::default() },
        Interval { days: by.days, ..Interval::default() },
    ];
    let mut at = us;
    for part in parts.into_iter().filter(|part| *part != Interval::default()) {
        at = instant_of(shifted(zone.local(at), part)?, zone)?;
    }
    timestamp_in_range(i128::from(at) + i128::from(by.micros)).ok_or_else(timestamp_overflow)
}

/// Returns a time moved by an interval, an instant in the session's zone.
fn moved_by(time: &Datum, us: i64, by: Interval, scope: &Scope<'_>) -> Result<i64, SqlError> {
    match time {
        Datum::TimestampTz(_) => shifted_in(us, by, scope.session.zone()),
        _ => shifted(us, by),
    }
}

fn after(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let by = interval_at(args, 1)?;
    Ok(like(&args[0], moved_by(&args[0], micros_at(args, 0)?, by, scope)?))
}

fn before(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let by = interval_at(args, 1)?.negated()?;
    Ok(like(&args[0], moved_by(&args[0], micros_at(args, 0)?, by, scope)?))
}

/// The days and the time between two timestamps.
fn between(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (a, b) = (micros_at(args, 0)?, micros_at(args, 1)?);
    if is_infinite(a) || is_infinite(b) {
        return Err(SqlError::new(state::DATETIME_OVERFLOW, "cannot subtract infinite timestamps"));
    }
    let micros = a.checked_sub(b).ok_or_else(out_of_range)?;
    let span = Interval { months: 0, days: (micros / DAY_US) as i32, micros: micros % DAY_US };
    Ok(Datum::Interval(span))
}

/// Subtracts by the calendar: years, months, days and time.
fn age_of(a: i64, b: i64) -> Result<Datum, SqlError> {
    if is_infinite(a) || is_infinite(b) {
        return Err(SqlError::unsupported("the age of infinity"));
    }
    let (later, earlier) = (Civil::of(a.max(b)), Civil::of(a.min(b)));
    let mut months = (later.year - earlier.year) * 12 + later.month - earlier.month;
    let mut days = later.day - earlier.day;
    let mut micros = later.within() - earlier.within();
    if micros < 0 {
        (micros, days) = (micros + DAY_US, days - 1);
    }
    // The days that are missing are those of the earlier month.
    while days < 0 {
        (days, months) = (days + month_days(earlier.year, earlier.month), months - 1);
    }
    let span = Interval { months: months as i32, days: days as i32, micros };
    Ok(Datum::Interval(if a < b { span.negated()? } else { span }))
}

/// Returns the local time of a timestamp, of an instant in the session's zone.
fn local_at(args: &[Datum], at: usize, scope: &Scope<'_>) -> Result<i64, SqlError> {
    match args.get(at) {
        Some(Datum::TimestampTz(us)) => Ok(scope.session.zone().local(*us)),
        _ => micros_at(args, at),
    }
}

fn age(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    age_of(local_at(args, 0, scope)?, local_at(args, 1, scope)?)
}

fn age_today(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let now = scope.session.zone().local(scope.now_us);
    age_of(now - now.rem_euclid(DAY_US), local_at(args, 0, scope)?)
}

fn is_finite(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(match args[0] {
        Datum::Date(days) => !is_infinite_date(days),
        Datum::Timestamp(us) | Datum::TimestampTz(us) => !is_infinite(us),
        _ => true,
    }))
}

/// Returns the ends of a period in order; an unknown end comes last. `None` if both are unknown.
fn period(args: &[Datum], scope: &Scope<'_>) -> Result<Option<(i64, Option<i64>)>, SqlError> {
    let start = (!args[0].is_null()).then(|| micros_at(args, 0)).transpose()?;
    let end = match (&args[1], start) {
        (Datum::Null, _) => None,
        (Datum::Interval(span), Some(start)) => Some(match args[0] {
            Datum::Time(_) => past_midnight(start, span.micros),
            _ => moved_by(&args[0], start, *span, scope)?,
        }),
        (Datum::Interval(_), None) => None,
        _ => Some(micros_at(args, 1)?),
    };
    Ok(match (start, end) {
        (Some(a), Some(b)) => Some((a.min(b), Some(a.max(b)))),
        (Some(one), None) | (None, Some(one)) => Some((one, None)),
        (None, None) => None,
    })
}

/// SQL's OVERLAPS: an unknown end leaves the answer open only if it matters.
fn overlaps(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let (Some(one), Some(two)) = (period(&args[..2], scope)?, period(&args[2..], scope)?) else {
        return Ok(Datum::Null);
    };
    let (earlier, later) = if one.0 <= two.0 { (one, two) } else { (two, one) };
    Ok(match (earlier.1, later.1) {
        (Some(_), Some(_)) if earlier.0 == later.0 => Datum::Bool(true),
        (Some(end), _) if later.0 < end && earlier.0 < later.0 => Datum::Bool(true),
        (Some(_), Some(_)) => Datum::Bool(false),
        _ => Datum::Null,
    })
}

/// Returns the day of a date's parts, perhaps before the first year.
pub(super) fn day_of_parts(year: i64, month: i64, day: i64) -> Option<i64> {
    let year = match year {
        0 => return None,
        ..0 => year + 1,
        _ => year,
    };
    let exists = (1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day);
    exists.then(|| days_of(year, month, day))
}
