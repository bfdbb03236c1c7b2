//! PostgreSQL's arithmetic: overflow and division by zero are errors, numerics keep PostgreSQL's
//! scales.

use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Arith;
use crate::types::Type;
use rust_decimal::{Decimal, RoundingStrategy};

pub(crate) fn overflow(ty: Type) -> SqlError {
    match ty {
        Type::Float8 => SqlError::new(state::OUT_OF_RANGE, "value out of range: overflow"),
        Type::Numeric(_) => SqlError::new(state::OUT_OF_RANGE, "value overflows numeric format")
            .detail("At most 28 digits are kept."),
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

pub(crate) fn by_zero() -> SqlError {
    SqlError::new(state::DIVISION_BY_ZERO, "division by zero")
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

pub(crate) fn to_decimal(datum: &Datum) -> Result<Decimal, SqlError> {
    match datum {
        Datum::Numeric(n) => Ok(*n),
        Datum::Float8(x) => {
            // PostgreSQL keeps 15 digits of a float.
            crate::format_text::decimal(&format!("{:.14e}", x))
                .map(|n| n.normalize())
                .ok_or_else(|| overflow(Type::Numeric(None)))
        }
        other => Ok(Decimal::from(other.as_i64().unwrap_or(0))),
    }
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
            let (a, b) = (to_decimal(left)?, to_decimal(right)?);
            let scale = a.scale().max(b.scale());
            let result = match op {
                Arith::Add => a.checked_add(b).map(|sum| scaled(sum, scale)),
                Arith::Sub => a.checked_sub(b).map(|difference| scaled(difference, scale)),
                Arith::Mul => {
                    a.checked_mul(b).map(|product| scaled(product, a.scale() + b.scale()))
                }
                Arith::Div | Arith::Mod if b.is_zero() => return Err(by_zero()),
                Arith::Div => return divide(a, b).map(Datum::Numeric),
                Arith::Mod => a.checked_rem(b).map(|rest| scaled(rest, scale)),
            };
            result.map(Datum::Numeric).ok_or_else(|| overflow(ty))
        }
        _ => Err(SqlError::unsupported(format!("arithmetic on {ty}"))),
    }
}

/// Gives a number at least this scale, as far as its digits leave room: results that are zero have
/// lost theirs.
fn scaled(mut n: Decimal, scale: u32) -> Decimal {
    if n.scale() < scale {
        n.rescale(scale);
    }
    n
}

/// Divides to PostgreSQL's scale: at least sixteen significant digits, and no fewer decimal places
/// than either side.
pub(crate) fn divide(a: Decimal, b: Decimal) -> Result<Decimal, SqlError> {
    let (weight_a, first_a) = weight(a);
    let (weight_b, first_b) = weight(b);
    let quotient_weight = weight_a - weight_b - i32::from(first_a <= first_b);
    let scale =
        (16 - quotient_weight * 4).max(a.scale() as i32).max(b.scale() as i32).clamp(0, 28) as u32;
    let quotient = a.checked_div(b).ok_or_else(|| overflow(Type::Numeric(None)))?;
    let mut rounded =
        quotient.round_dp_with_strategy(scale, RoundingStrategy::MidpointAwayFromZero);
    rounded.rescale(scale);
    Ok(rounded)
}

/// Returns the weight of the first group of four digits, and that group.
fn weight(n: Decimal) -> (i32, u128) {
    let padding = (4 - n.scale() % 4) % 4;
    let mut rest = n.mantissa().unsigned_abs() * 10u128.pow(padding);
    let mut groups = 0;
    while rest >= 10_000 {
        rest /= 10_000;
        groups += 1;
    }
    if rest == 0 { (0, 0) } else { (groups - ((n.scale() + padding) / 4) as i32, rest) }
}
