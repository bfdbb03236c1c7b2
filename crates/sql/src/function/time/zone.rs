//! Zones: `timezone(zone, time)`, which `AT TIME ZONE` calls.

use super::super::of::*;
use super::super::{Function, text_at};
use super::{interval_at, micros_at, zoned_at};
use crate::datetime::zone::Named;
use crate::datetime::{displacement_overflow, is_infinite, timestamp_in_range, timestamp_overflow};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("timezone", &[TEXT, TIMESTAMP], A_TIMESTAMPTZ, timezone),
    Function::new("timezone", &[TEXT, TIMESTAMPTZ], A_TIMESTAMP, timezone),
    Function::new("timezone", &[INTERVAL, TIMESTAMP], A_TIMESTAMPTZ, timezone),
    Function::new("timezone", &[INTERVAL, TIMESTAMPTZ], A_TIMESTAMP, timezone),
    Function::new("timezone", &[TEXT, TIMETZ], A_TIMETZ, zoned).stable(),
    Function::new("timezone", &[INTERVAL, TIMETZ], A_TIMETZ, zoned),
];

/// Returns a time of the day in another zone, whose offset is that of the present day.
fn zoned(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let time = zoned_at(args, 1)?;
    let east_s = match &args[0] {
        Datum::Interval(_) => east_s_of(args)?,
        _ => Named::find(text_at(args, 0)?)?.east_s(scope.now_us).into(),
    };
    time.in_zone(east_s).map(Datum::TimeTz).ok_or_else(displacement_overflow)
}

/// Returns the offset that an interval gives.
fn east_s_of(args: &[Datum]) -> Result<i64, SqlError> {
    let span = interval_at(args, 0)?;
    if span.months != 0 || span.days != 0 {
        let message = format!("interval time zone \"{span}\" must not include months or days");
        return Err(SqlError::new(state::INVALID_PARAMETER, message));
    }
    Ok(span.micros / 1_000_000)
}

fn timezone(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let us = micros_at(args, 1)?;
    let is_zoned = matches!(args[1], Datum::TimestampTz(_));
    let east_s = match &args[0] {
        Datum::Interval(_) => east_s_of(args)?,
        _ => {
            let zone = Named::find(text_at(args, 0)?)?;
            i64::from(if is_zoned { zone.east_s(us) } else { zone.east_s_of_local(us.into()) })
        }
    };
    let made = |us| if is_zoned { Datum::Timestamp(us) } else { Datum::TimestampTz(us) };
    if is_infinite(us) {
        return Ok(made(us));
    }
    let east_us = i128::from(if is_zoned { east_s } else { -east_s }) * 1_000_000;
    timestamp_in_range(i128::from(us) + east_us).map(made).ok_or_else(timestamp_overflow)
}
