//! PostgreSQL's arithmetic: overflow and division by zero are errors, numerics keep PostgreSQL's
//! scales.

use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Arith;
use crate::numeric::{self, Numeric};
use crate::types::Type;
use std::borrow::Cow;
use std::cmp::Ordering;

pub(crate) fn overflow(ty: Type) -> SqlError {
    match ty {
        Type::Float4 | Type::Float8 => {
            SqlError::new(state::OUT_OF_RANGE, "value out of range: overflow")
        }
        Type::Numeric(_) => numeric::overflow(),
        _ => SqlError::new(state::OUT_OF_RANGE, format!("{} out of range", ty.name())),
    }
}

/// True if a number is zero as it is written, whatever its exponent: `0.0e400`.
pub(crate) fn is_written_zero(digits: &str) -> bool {
    let mantissa = digits.split(['e', 'E']).next().unwrap_or(digits);
    !mantissa.bytes().any(|digit| matches!(digit, b'1'..=b'9'))
}

/// The error of a float that is too small.
pub(crate) fn underflow() -> SqlError {
    SqlError::new(state::OUT_OF_RANGE, "value out of range: underflow")
}

/// Returns a float of the smaller width. Fails with 22003 if it has none of this size.
pub(crate) fn narrow(x: f64) -> Result<f32, SqlError> {
    match x as f32 {
        narrow if narrow.is_infinite() && x.is_finite() => Err(overflow(Type::Float4)),
        0.0 if x != 0.0 => Err(underflow()),
        narrow => Ok(narrow),
    }
}

pub(crate) fn by_zero() -> SqlError {
    SqlError::new(state::DIVISION_BY_ZERO, "division by zero")
}

pub(crate) fn root_of_negative() -> SqlError {
    let message = "cannot take square root of a negative number";
    SqlError::new(state::INVALID_ARGUMENT, message)
}

/// Fails with 2201E for a number that has no logarithm, by its sign.
pub(crate) fn check_logarithm(sign: Ordering) -> Result<(), SqlError> {
    let message = match sign {
        Ordering::Greater => return Ok(()),
        Ordering::Equal => "cannot take logarithm of zero",
        Ordering::Less => "cannot take logarithm of a negative number",
    };
    Err(SqlError::new("2201E", message))
}

pub(crate) fn negative_power_of_zero() -> SqlError {
    let message = "zero raised to a negative power is undefined";
    SqlError::new(state::INVALID_ARGUMENT, message)
}

pub(crate) fn complex_power() -> SqlError {
    let message = "a negative number raised to a non-integer power yields a complex result";
    SqlError::new(state::INVALID_ARGUMENT, message)
}

/// Returns an integer of a width.
pub(crate) fn integer(ty: Type, n: i128) -> Result<Datum, SqlError> {
    let wide = |_| overflow(ty);
    Ok(match ty {
        Type::Int2 => Datum::Int2(n.try_into().map_err(wide)?),
        Type::Int4 => Datum::Int4(n.try_into().map_err(wide)?),
        _ => Datum::Int8(n.try_into().map_err(|_| overflow(Type::Int8))?),
    })
}

/// Returns a number as a numeric.
pub(crate) fn to_numeric(datum: &Datum) -> Result<Cow<'_, Numeric>, SqlError> {
    Ok(match datum {
        Datum::Numeric(n) => Cow::Borrowed(n),
        Datum::Float4(x) => Cow::Owned(Numeric::of_real(*x)?),
        Datum::Float8(x) => Cow::Owned(Numeric::of_float(*x)?),
        other => Cow::Owned(Numeric::from(other.as_i64().unwrap_or(0))),
    })
}

pub(crate) fn arith(op: Arith, ty: Type, left: &Datum, right: &Datum) -> Result<Datum, SqlError> {
    match ty {
        Type::Int2 | Type::Int4 | Type::Int8 => {
            let (a, b) =
                (i128::from(left.as_i64().unwrap_or(0)), i128::from(right.as_i64().unwrap_or(0)));
            integer(
                ty,
                match op {
                    Arith::Add => a + b,
                    Arith::Sub => a - b,
                    Arith::Mul => a * b,
                    Arith::Div | Arith::Mod if b == 0 => return Err(by_zero()),
                    Arith::Div => a / b,
                    Arith::Mod => a % b,
                },
            )
        }
        // Two floats of the smaller width have the nearest result of the greater one, rounded.
        Type::Float4 => match arith(op, Type::Float8, left, right)? {
            Datum::Float8(x) => narrow(x).map(Datum::Float4),
            other => Ok(other),
        },
        Type::Float8 => {
            let (a, b) = (left.as_f64().unwrap_or(0.0), right.as_f64().unwrap_or(0.0));
            let x = match op {
                Arith::Add => a + b,
                Arith::Sub => a - b,
                Arith::Mul => a * b,
                Arith::Div | Arith::Mod if b == 0.0 => return Err(by_zero()),
                Arith::Div => a / b,
                Arith::Mod => a % b,
            };
            let vanishes = match op {
                Arith::Mul => a != 0.0 && b != 0.0,
                Arith::Div => a != 0.0 && b.is_finite(),
                _ => false,
            };
            match x {
                x if x.is_infinite() && a.is_finite() && b.is_finite() => Err(overflow(ty)),
                0.0 if vanishes => Err(underflow()),
                x => Ok(Datum::Float8(x)),
            }
        }
        Type::Numeric(_) => {
            let (a, b) = (to_numeric(left)?, to_numeric(right)?);
            let result = match op {
                Arith::Add => a.plus(&b),
                Arith::Sub => a.minus(&b),
                Arith::Mul => a.times(&b),
                Arith::Div => a.over(&b),
                Arith::Mod => a.rest(&b),
            };
            result.map(Datum::Numeric)
        }
        _ => Err(SqlError::unsupported(format!("arithmetic on {ty}"))),
    }
}
