//! Functions and operators of dates, timestamps and intervals.

mod arith;
mod clock;
mod fields;
mod make;
mod trunc;
mod zone;

pub(crate) use arith::{shifted, shifted_in};

use super::{Function, wrong_type};
use crate::datetime::{self, ZonedTime};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::interval::Interval;

pub(super) const ALL: [&[Function]; 6] = [
    arith::FUNCTIONS,
    clock::FUNCTIONS,
    fields::FUNCTIONS,
    make::FUNCTIONS,
    trunc::FUNCTIONS,
    zone::FUNCTIONS,
];

fn interval_at(args: &[Datum], at: usize) -> Result<Interval, SqlError> {
    match args.get(at) {
        Some(Datum::Interval(interval)) => Ok(*interval),
        _ => Err(wrong_type()),
    }
}

/// Returns a timestamp's microseconds, those of a date's midnight, or those of a time of the day,
/// which is in UTC if it has a zone.
fn micros_at(args: &[Datum], at: usize) -> Result<i64, SqlError> {
    match args.get(at) {
        Some(Datum::Timestamp(us) | Datum::TimestampTz(us) | Datum::Time(us)) => Ok(*us),
        Some(Datum::TimeTz(time)) => Ok(time.utc_us()),
        Some(Datum::Date(days)) => datetime::midnight(*days),
        _ => Err(wrong_type()),
    }
}

fn zoned_at(args: &[Datum], at: usize) -> Result<ZonedTime, SqlError> {
    match args.get(at) {
        Some(Datum::TimeTz(time)) => Ok(*time),
        _ => Err(wrong_type()),
    }
}

/// Returns a timestamp of the same type as another.
fn like(of: &Datum, us: i64) -> Datum {
    match of {
        Datum::TimestampTz(_) => Datum::TimestampTz(us),
        _ => Datum::Timestamp(us),
    }
}
