//! Values as text by a template, and back: `to_char`, `to_date` and `to_timestamp`.

mod numbers;
mod read;
mod template;
mod times;

use super::of::*;
use super::{Function, text_at};
use crate::datetime::{DAY_US, date_in_range, timestamp_overflow};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("to_char", &[TIMESTAMP, TEXT], A_TEXT, to_char).stable(),
    Function::new("to_char", &[TIMESTAMPTZ, TEXT], A_TEXT, to_char).of_zone(),
    Function::new("to_char", &[INTERVAL, TEXT], A_TEXT, to_char).stable(),
    Function::new("to_char", &[NUMERIC, TEXT], A_TEXT, to_char).stable(),
    Function::new("to_char", &[INT4, TEXT], A_TEXT, to_char).stable(),
    Function::new("to_char", &[INT8, TEXT], A_TEXT, to_char).stable(),
    Function::new("to_char", &[FLOAT4, TEXT], A_TEXT, to_char).stable(),
    Function::new("to_char", &[FLOAT8, TEXT], A_TEXT, to_char).stable(),
    Function::new("to_timestamp", &[TEXT, TEXT], A_TIMESTAMPTZ, |args, scope| {
        let (days, within) = read::read(text_at(args, 0)?, text_at(args, 1)?)?;
        let local = i128::from(days) * i128::from(DAY_US) + i128::from(within);
        let zone = scope.session.zone();
        zone.instant(local).map(Datum::TimestampTz).ok_or_else(timestamp_overflow)
    })
    .of_zone(),
    Function::new("to_date", &[TEXT, TEXT], A_DATE, to_date).no_longer_immutable(),
];

fn to_char(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let template = text_at(args, 1)?;
    match &args[0] {
        Datum::Timestamp(_) | Datum::TimestampTz(_) | Datum::Interval(_) => {
            times::to_char(&args[0], template, scope.session.zone())
        }
        number => numbers::to_char(number, template),
    }
}

fn to_date(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let text = text_at(args, 0)?;
    let (days, _) = read::read(text, text_at(args, 1)?)?;
    date_in_range(days).map(Datum::Date).ok_or_else(|| {
        SqlError::new(state::DATETIME_OVERFLOW, format!("date out of range: \"{text}\""))
    })
}

/// Returns the ending of an ordinal number, `st` of `21`.
fn ordinal(number: &str, upper: bool) -> &'static str {
    let digits = number.as_bytes();
    let teens = digits.len() > 1 && digits[digits.len() - 2] == b'1';
    match (digits.last().copied().filter(|_| !teens), upper) {
        (Some(b'1'), true) => "ST",
        (Some(b'1'), false) => "st",
        (Some(b'2'), true) => "ND",
        (Some(b'2'), false) => "nd",
        (Some(b'3'), true) => "RD",
        (Some(b'3'), false) => "rd",
        (_, true) => "TH",
        (_, false) => "th",
    }
}
