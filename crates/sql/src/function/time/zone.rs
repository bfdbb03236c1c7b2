//! Zones: `timezone(zone, time)`, which `AT TIME ZONE` calls.

use super::super::of::*;
use super::super::{Function, text_at};
use super::{interval_at, micros_at};
use crate::datetime::zone::Named;
use crate::datetime::{is_infinite, timestamp_in_range, timestamp_overflow};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("timezone", &[TEXT, TIMESTAMP], A_TIMESTAMPTZ, timezone),
    Function::new("timezone", &[TEXT, TIMESTAMPTZ], A_TIMESTAMP, timezone),
    Function::new("timezone", &[INTERVAL, TIMESTAMP], A_TIMESTAMPTZ, timezone),
    Function::new("timezone", &[INTERVAL, TIMESTAMPTZ], A_TIMESTAMP, timezone),
];

fn timezone(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let us = micros_at(args, 1)?;
    let is_zoned = matches!(args[1], Datum::TimestampTz(_));
    let east_s = match &args[0] {
        Datum::Interval(_) => {
            let span = interval_at(args, 0)?;
            if span.months != 0 || span.days != 0 {
                let message =
                    format!("interval time zone \"{span}\" must not include months or days");
                return Err(SqlError::new(state::INVALID_PARAMETER, message));
            }
            span.micros / 1_000_000
        }
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
