//! Zones: `timezone(zone, time)`, which `AT TIME ZONE` calls. Zones with a fixed offset from UTC
//! are known, named regions are not.

use super::super::of::*;
use super::super::{Function, text_at};
use super::{interval_at, micros_at};
use crate::datetime::{is_infinite, timestamp_in_range, timestamp_overflow, zone_offset_s};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("timezone", &[TEXT, TIMESTAMP], A_TIMESTAMPTZ, timezone),
    Function::new("timezone", &[TEXT, TIMESTAMPTZ], A_TIMESTAMP, timezone),
    Function::new("timezone", &[INTERVAL, TIMESTAMP], A_TIMESTAMPTZ, timezone),
    Function::new("timezone", &[INTERVAL, TIMESTAMPTZ], A_TIMESTAMP, timezone),
];

/// Returns the offset of a zone from UTC in microseconds, to the east. A sign in a zone's name is
/// that of POSIX: `UTC+2` is to the west.
pub(super) fn offset_us(zone: &str) -> Result<i64, SqlError> {
    let lower = zone.to_ascii_lowercase();
    let unknown = || SqlError::unsupported(format!("the time zone \"{zone}\""));
    let name = lower.strip_prefix("etc/").unwrap_or(&lower);
    if matches!(name, "utc" | "gmt" | "uct" | "ut" | "zulu" | "z" | "universal" | "greenwich") {
        return Ok(0);
    }
    let signed = ["utc", "gmt"].into_iter().find_map(|prefix| lower.strip_prefix(prefix));
    let signed = signed.unwrap_or(&lower);
    let is_short = signed.len() <= 3 || signed.contains(':');
    if !is_short || !signed.starts_with(['+', '-']) {
        return Err(unknown());
    }
    zone_offset_s(signed).map(|offset_s| -offset_s * 1_000_000).ok_or_else(unknown)
}

fn timezone(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let offset_us = match &args[0] {
        Datum::Interval(_) => {
            let span = interval_at(args, 0)?;
            if span.months != 0 || span.days != 0 {
                let message =
                    format!("interval time zone \"{span}\" must not include months or days");
                return Err(SqlError::new(state::INVALID_PARAMETER, message));
            }
            span.micros / 1_000_000 * 1_000_000
        }
        _ => offset_us(text_at(args, 0)?)?,
    };
    let us = micros_at(args, 1)?;
    let is_zoned = matches!(args[1], Datum::TimestampTz(_));
    let made = |us| if is_zoned { Datum::Timestamp(us) } else { Datum::TimestampTz(us) };
    if is_infinite(us) {
        return Ok(made(us));
    }
    let offset_us = i128::from(if is_zoned { offset_us } else { -offset_us });
    timestamp_in_range(i128::from(us) + offset_us).map(made).ok_or_else(timestamp_overflow)
}
