//! Trigonometric and hyperbolic functions.

use super::math::finite;
use super::of::*;
use super::{Function, float_at};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("degrees", &[FLOAT8], A_FLOAT8, |a, _| finite(float_at(a, 0)?.to_degrees())),
    Function::new("radians", &[FLOAT8], A_FLOAT8, |a, _| finite(float_at(a, 0)?.to_radians())),
    Function::new("sin", &[FLOAT8], A_FLOAT8, |args, _| angle(args, f64::sin)),
    Function::new("cos", &[FLOAT8], A_FLOAT8, |args, _| angle(args, f64::cos)),
    Function::new("tan", &[FLOAT8], A_FLOAT8, |args, _| angle(args, f64::tan)),
    Function::new("cot", &[FLOAT8], A_FLOAT8, |args, _| angle(args, |x| x.tan().recip())),
    Function::new("asin", &[FLOAT8], A_FLOAT8, |args, _| within(args, -1.0, 1.0, f64::asin)),
    Function::new("acos", &[FLOAT8], A_FLOAT8, |args, _| within(args, -1.0, 1.0, f64::acos)),
    Function::new("atan", &[FLOAT8], A_FLOAT8, |args, _| finite(float_at(args, 0)?.atan())),
    Function::new("atan2", &[FLOAT8, FLOAT8], A_FLOAT8, atan2),
    Function::new("sinh", &[FLOAT8], A_FLOAT8, |args, _| whole_line(args, f64::sinh)),
    Function::new("cosh", &[FLOAT8], A_FLOAT8, |args, _| whole_line(args, f64::cosh)),
    Function::new("tanh", &[FLOAT8], A_FLOAT8, |args, _| whole_line(args, f64::tanh)),
    Function::new("asinh", &[FLOAT8], A_FLOAT8, |args, _| whole_line(args, f64::asinh)),
    Function::new("acosh", &[FLOAT8], A_FLOAT8, |a, _| within(a, 1.0, f64::INFINITY, f64::acosh)),
    Function::new("atanh", &[FLOAT8], A_FLOAT8, |args, _| within(args, -1.0, 1.0, f64::atanh)),
];

fn outside() -> SqlError {
    SqlError::new(state::OUT_OF_RANGE, "input is out of range")
}

/// A function of an angle, which is finite.
fn angle(args: &[Datum], f: fn(f64) -> f64) -> Result<Datum, SqlError> {
    let x = float_at(args, 0)?;
    if x.is_infinite() {
        return Err(outside());
    }
    Ok(Datum::Float8(f(x)))
}

/// A function of the values between two bounds.
fn within(args: &[Datum], low: f64, high: f64, f: fn(f64) -> f64) -> Result<Datum, SqlError> {
    let x = float_at(args, 0)?;
    if x < low || x > high {
        return Err(outside());
    }
    Ok(Datum::Float8(f(x)))
}

fn whole_line(args: &[Datum], f: fn(f64) -> f64) -> Result<Datum, SqlError> {
    Ok(Datum::Float8(f(float_at(args, 0)?)))
}

fn atan2(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Float8(float_at(args, 0)?.atan2(float_at(args, 1)?)))
}
