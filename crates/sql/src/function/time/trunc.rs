//! Times cut off to a field or to a multiple of an interval: `date_trunc` and `date_bin`.

use super::super::of::*;
use super::super::{Function, text_at, wrong_type};
use super::fields::{Field, decade, unknown, unsupported};
use super::{interval_at, like, micros_at};
use crate::datetime::civil::{date_of, monday};
use crate::datetime::zone::Named;
use crate::datetime::{Civil, DAY_US, Zone, is_infinite, timestamp_in_range, timestamp_overflow};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::interval::{HOUR_US, Interval, MINUTE_US, SECOND_US, out_of_range};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("date_trunc", &[TEXT, TIMESTAMP], A_TIMESTAMP, date_trunc),
    Function::new("date_trunc", &[TEXT, TIMESTAMPTZ], A_TIMESTAMPTZ, |args, scope| {
        date_trunc_in(args, scope.session.zone())
    })
    .of_zone(),
    Function::new("date_trunc", &[TEXT, TIMESTAMPTZ, TEXT], A_TIMESTAMPTZ, date_trunc_at).of_zone(),
    Function::new("date_trunc", &[TEXT, INTERVAL], AN_INTERVAL, interval_trunc),
    Function::new("date_bin", &[INTERVAL, TIMESTAMP, TIMESTAMP], A_TIMESTAMP, date_bin),
    Function::new("date_bin", &[INTERVAL, TIMESTAMPTZ, TIMESTAMPTZ], A_TIMESTAMPTZ, date_bin),
];

/// Returns a field that times are cut off to.
fn field_of(name: &str, time: &Datum) -> Result<Field, SqlError> {
    match Field::of_name(name) {
        Some(field) if field.is_of_zone() => Err(unsupported(name, time)),
        Some(field) if field <= Field::Millennium => Ok(field),
        _ => Err(unknown(name, time)),
    }
}

/// Returns the first year of the span of years that a year is in.
fn first_year(year: i64, length: i64) -> i64 {
    (year - 1).div_euclid(length) * length + 1
}

fn cut(us: i64, field: Field) -> Result<i64, SqlError> {
    let (days, within) = (us.div_euclid(DAY_US), us.rem_euclid(DAY_US));
    let (year, month, _) = date_of(days);
    let date = |year, month| {
        Civil { year, month, day: 1, hour: 0, minute: 0, second: 0, micros: 0 }.micros_wide()
    };
    let at = match field {
        Field::Millennium => date(first_year(year, 1000), 1),
        Field::Century => date(first_year(year, 100), 1),
        Field::Decade => date(decade(year) * 10, 1),
        Field::Year => date(year, 1),
        Field::Quarter => date(year, (month - 1) / 3 * 3 + 1),
        Field::Month => date(year, month),
        Field::Week => i128::from(monday(days)) * i128::from(DAY_US),
        Field::Day => i128::from(us - within),
        Field::Hour => i128::from(us - within % HOUR_US),
        Field::Minute => i128::from(us - within % MINUTE_US),
        Field::Second => i128::from(us - within % SECOND_US),
        Field::Millisecond => i128::from(us - within % 1000),
        _ => i128::from(us),
    };
    timestamp_in_range(at).ok_or_else(timestamp_overflow)
}

fn date_trunc(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let us = micros_at(args, 1)?;
    if is_infinite(us) {
        return Ok(args[1].clone());
    }
    Ok(like(&args[1], cut(us, field_of(text_at(args, 0)?, &args[1])?)?))
}

/// Cuts off an instant in the local time of a zone.
fn date_trunc_in(args: &[Datum], zone: &Zone) -> Result<Datum, SqlError> {
    let us = micros_at(args, 1)?;
    if is_infinite(us) {
        return Ok(args[1].clone());
    }
    let field = field_of(text_at(args, 0)?, &args[1])?;
    let there = cut(zone.local(us), field)?;
    let at = match field >= Field::Day {
        true => zone.instant(there.into()),
        // The offset within a day stays as it is.
        false => timestamp_in_range(i128::from(there) - i128::from(zone.east_s(us)) * 1_000_000),
    };
    at.map(Datum::TimestampTz).ok_or_else(timestamp_overflow)
}

/// `date_trunc` in a zone that is named.
fn date_trunc_at(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let zone = match Named::find(text_at(args, 2)?)? {
        Named::Offset { east_s, .. } => Zone::of_offset(east_s),
        Named::Abbreviation(_, zone) | Named::Zone(zone) => zone,
    };
    date_trunc_in(args, &zone)
}

fn interval_trunc(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (name, span) = (text_at(args, 0)?, interval_at(args, 1)?);
    let to_months =
        |months: i32| Interval { months: span.months / months * months, ..Interval::default() };
    let to_micros = |micros: i64| Interval { micros: span.micros / micros * micros, ..span };
    Ok(Datum::Interval(match field_of(name, &args[1])? {
        Field::Millennium => to_months(12_000),
        Field::Century => to_months(1200),
        Field::Decade => to_months(120),
        Field::Year => to_months(12),
        Field::Quarter => to_months(3),
        Field::Month => to_months(1),
        Field::Week => {
            let detail = "Months usually have fractional weeks.";
            return Err(unsupported(name, &args[1]).detail(detail));
        }
        Field::Day => Interval { micros: 0, ..span },
        Field::Hour => to_micros(HOUR_US),
        Field::Minute => to_micros(MINUTE_US),
        Field::Second => to_micros(SECOND_US),
        Field::Millisecond => to_micros(1000),
        _ => span,
    }))
}

/// The latest time not after another that is a multiple of a stride from the origin.
fn date_bin(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (stride, us, origin) = (interval_at(args, 0)?, micros_at(args, 1)?, micros_at(args, 2)?);
    if is_infinite(us) {
        return Ok(args[1].clone());
    }
    if is_infinite(origin) {
        return Err(SqlError::new(state::DATETIME_OVERFLOW, "origin out of range"));
    }
    if stride.months != 0 {
        return Err(SqlError::new(
            state::FEATURE_NOT_SUPPORTED,
            "timestamps cannot be binned into intervals containing months or years",
        ));
    }
    let step = i64::try_from(stride.length()).map_err(|_| out_of_range())?;
    if step <= 0 {
        let message = "stride must be greater than zero";
        return Err(SqlError::new(state::DATETIME_OVERFLOW, message));
    }
    let behind = us.checked_sub(origin).ok_or_else(out_of_range)?;
    let at = i128::from(us) - i128::from(behind.rem_euclid(step));
    match args[1] {
        Datum::Timestamp(_) | Datum::TimestampTz(_) => {}
        _ => return Err(wrong_type()),
    }
    timestamp_in_range(at).map(|at| like(&args[1], at)).ok_or_else(timestamp_overflow)
}
