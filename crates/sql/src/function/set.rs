//! Set-returning functions.

use super::of::*;
use super::time::{shifted, shifted_in};
use super::{Function, Param, Rows, array_at, numeric_at, whole_at, wrong_type};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::interval::Interval;
use crate::number;
use crate::numeric::Numeric;
use crate::types::Type;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::set("pg_options_to_table", &[Param::Of(Type::Text.array())], A_TEXT, options)
        .stable()
        .columns(&[("option_name", Type::Text), ("option_value", Type::Text)]),
    Function::set("generate_series", &[INT4, INT4], AN_INT4, |a, _| integers(a, Type::Int4)),
    Function::set("generate_series", &[INT4, INT4, INT4], AN_INT4, |a, _| integers(a, Type::Int4)),
    Function::set("generate_series", &[INT8, INT8], AN_INT8, |a, _| integers(a, Type::Int8)),
    Function::set("generate_series", &[INT8, INT8, INT8], AN_INT8, |a, _| integers(a, Type::Int8)),
    Function::set("generate_series", &[NUMERIC, NUMERIC], A_NUMERIC, numerics),
    Function::set("generate_series", &[NUMERIC, NUMERIC, NUMERIC], A_NUMERIC, numerics),
    Function::set("generate_series", &[TIMESTAMP, TIMESTAMP, INTERVAL], A_TIMESTAMP, |args, _| {
        times(args, Datum::Timestamp, shifted)
    }),
    Function::set(
        "generate_series",
        &[TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL],
        A_TIMESTAMPTZ,
        |args, scope| {
            let zone = scope.session.zone().clone();
            times(args, Datum::TimestampTz, move |at, by| shifted_in(at, by, &zone))
        },
    )
    .of_zone(),
    Function::set("string_to_table", &[TEXT, TEXT], A_TEXT, split).lenient(),
    Function::set("string_to_table", &[TEXT, TEXT, TEXT], A_TEXT, split).lenient(),
];

fn no_step() -> SqlError {
    SqlError::new(state::INVALID_PARAMETER, "step size cannot equal zero")
}

/// The integers from a first to a last one. The series ends where the type does.
fn integers(args: &[Datum], ty: Type) -> Result<Rows, SqlError> {
    let (first, last) = (whole_at(args, 0)?, whole_at(args, 1)?);
    let step = if args.len() > 2 { whole_at(args, 2)? } else { 1 };
    if step == 0 {
        return Err(no_step());
    }
    let is_in = move |n: &i64| if step > 0 { *n <= last } else { *n >= last };
    let next = move |n: &i64| n.checked_add(step);
    let series = std::iter::successors(Some(first), next).take_while(is_in);
    Ok(Box::new(series.map(move |n| Ok(vec![number::integer(ty, n.into())?]))))
}

/// The names and values of options, `name=value`.
fn options(args: &[Datum], _: &Scope<'_>) -> Result<Rows, SqlError> {
    let option = |datum: &Datum| {
        let text = datum.to_text(Type::Text)?;
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Datum::text(value)),
            None => (&*text, Datum::Null),
        };
        Some(Ok(vec![Datum::text(name), value]))
    };
    let rows: Vec<_> = array_at(args, 0)?.values().iter().filter_map(option).collect();
    Ok(Box::new(rows.into_iter()))
}

/// The numerics from a first to a last one.
fn numerics(args: &[Datum], _: &Scope<'_>) -> Result<Rows, SqlError> {
    for (n, what) in args.iter().zip(["start value", "stop value", "step size"]) {
        let n = match n {
            Datum::Numeric(n) if n.finite().is_none() => n,
            _ => continue,
        };
        let kind = if *n == Numeric::NaN { "NaN" } else { "infinity" };
        let message = format!("{what} cannot be {kind}");
        return Err(SqlError::new(state::INVALID_PARAMETER, message));
    }
    let (first, last) = (numeric_at(args, 0)?, numeric_at(args, 1)?.clone());
    let step = if args.len() > 2 { numeric_at(args, 2)?.clone() } else { Numeric::from(1) };
    if step.is_zero() {
        return Err(no_step());
    }
    let end = step.sign();
    let is_in = move |n: &Numeric| n.order(&last) != end;
    // The series ends where numbers do.
    let next = move |n: &Numeric| n.plus(&step).ok();
    let series = std::iter::successors(Some(first.clone()), next).take_while(is_in);
    Ok(Box::new(series.map(|n| Ok(vec![Datum::Numeric(n)]))))
}

/// The times from a first to a last one.
fn times(
    args: &[Datum],
    made: fn(i64) -> Datum,
    shifted: impl Fn(i64, Interval) -> Result<i64, SqlError> + Send + 'static,
) -> Result<Rows, SqlError> {
    let (
        Datum::Timestamp(first) | Datum::TimestampTz(first),
        Datum::Timestamp(last) | Datum::TimestampTz(last),
        Datum::Interval(step),
    ) = (&args[0], &args[1], &args[2])
    else {
        return Err(wrong_type());
    };
    let (last, step, length) = (*last, *step, step.length());
    if length == 0 {
        return Err(no_step());
    }
    let is_in = move |at: i64| if length > 0 { at <= last } else { at >= last };
    let mut next = Some(*first);
    Ok(Box::new(std::iter::from_fn(move || {
        let at = next.take().filter(|at| is_in(*at))?;
        match shifted(at, step) {
            Ok(after) => next = Some(after),
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(vec![made(at)]))
    })))
}

/// The parts of a text between delimiters.
fn split(args: &[Datum], _: &Scope<'_>) -> Result<Rows, SqlError> {
    let parts = super::array::parts(args)?.unwrap_or_default();
    Ok(Box::new(parts.into_iter().map(|part| Ok(vec![part]))))
}
