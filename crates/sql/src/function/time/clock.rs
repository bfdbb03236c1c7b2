//! The current time: that of the transaction, of the statement, and of the clock.

use super::super::Function;
use super::super::of::*;
use super::super::whole_at;
use crate::datetime::{DAY_US, ZonedTime, day_of};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::system;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("now", &[], A_TIMESTAMPTZ, now).stable(),
    Function::new("transaction_timestamp", &[], A_TIMESTAMPTZ, now).stable(),
    Function::new("current_timestamp", &[], A_TIMESTAMPTZ, now).stable(),
    Function::new("current_timestamp", &[INT4], A_TIMESTAMPTZ, |args, scope| {
        rounded(args, scope).map(Datum::TimestampTz)
    })
    .stable(),
    Function::new("current_time", &[], A_TIMETZ, |_, scope| {
        Ok(Datum::TimeTz(zoned(scope.now_us, scope)))
    })
    .stable(),
    Function::new("current_time", &[INT4], A_TIMETZ, |args, scope| {
        Ok(Datum::TimeTz(zoned(rounded(args, scope)?, scope)))
    })
    .stable(),
    Function::new("localtime", &[], A_TIME, |_, scope| {
        Ok(Datum::Time(local(scope.now_us, scope).rem_euclid(DAY_US)))
    })
    .stable(),
    Function::new("localtime", &[INT4], A_TIME, |args, scope| {
        Ok(Datum::Time(local(rounded(args, scope)?, scope).rem_euclid(DAY_US)))
    })
    .stable(),
    Function::new("localtimestamp", &[], A_TIMESTAMP, |_, scope| {
        Ok(Datum::Timestamp(local(scope.now_us, scope)))
    })
    .stable(),
    Function::new("localtimestamp", &[INT4], A_TIMESTAMP, |args, scope| {
        Ok(Datum::Timestamp(local(rounded(args, scope)?, scope)))
    })
    .stable(),
    Function::new("current_date", &[], A_DATE, |_, scope| {
        Ok(Datum::Date(day_of(local(scope.now_us, scope))))
    })
    .stable(),
    Function::new("statement_timestamp", &[], A_TIMESTAMPTZ, statement_timestamp).stable(),
    Function::new("clock_timestamp", &[], A_TIMESTAMPTZ, clock_timestamp).volatile(),
];

/// Returns the local time of an instant.
fn local(us: i64, scope: &Scope<'_>) -> i64 {
    scope.session.zone().local(us)
}

/// Returns the time of the day of an instant, in the session's zone.
fn zoned(us: i64, scope: &Scope<'_>) -> ZonedTime {
    let east_s = scope.session.zone().east_s(us);
    ZonedTime { micros: local(us, scope).rem_euclid(DAY_US), east_s }
}

fn now(_: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::TimestampTz(scope.now_us))
}

/// Returns the transaction's time with a number of decimal places of the seconds.
fn rounded(args: &[Datum], scope: &Scope<'_>) -> Result<i64, SqlError> {
    let places = whole_at(args, 0)?;
    if places < 0 {
        let message = format!("TIMESTAMP({places}) precision must not be negative");
        return Err(SqlError::new(state::INVALID_PARAMETER, message));
    }
    let step = 10i64.pow(6 - places.min(6) as u32);
    Ok((scope.now_us + step / 2).div_euclid(step) * step)
}

/// The time of the clock when the statement began; never before the transaction's.
fn statement_timestamp(_: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::TimestampTz(
        scope.session.statement_us.map_or(scope.now_us, |at| at.max(scope.now_us)),
    ))
}

/// The earliest possible time, as for a transaction that begins now; without a clock, the
/// statement's.
fn clock_timestamp(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    match system::interval_now(scope.session) {
        Ok((earliest, _)) => Ok(Datum::TimestampTz(earliest.max(scope.now_us))),
        Err(_) => statement_timestamp(args, scope),
    }
}
