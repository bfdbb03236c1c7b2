//! Functions of numbers.
//!
//! Those of numerics are computed as numerics, with PostgreSQL's scales: at least sixteen
//! significant digits.

use super::of::*;
use super::{Function, decimal_at, float_at, whole_at, wrong_type};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::{Arith, Scope};
use crate::number;
use crate::types::Type;
use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, MathematicalOps, RoundingStrategy};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("abs", &[INT2], AN_INT2, abs),
    Function::new("abs", &[INT4], AN_INT4, abs),
    Function::new("abs", &[INT8], AN_INT8, abs),
    Function::new("abs", &[NUMERIC], A_NUMERIC, abs),
    Function::new("abs", &[FLOAT8], A_FLOAT8, abs),
    Function::new("-", &[INT2], AN_INT2, negate),
    Function::new("-", &[INT4], AN_INT4, negate),
    Function::new("-", &[INT8], AN_INT8, negate),
    Function::new("-", &[NUMERIC], A_NUMERIC, negate),
    Function::new("-", &[FLOAT8], A_FLOAT8, negate),
    Function::new("ceil", &[NUMERIC], A_NUMERIC, ceil),
    Function::new("ceil", &[FLOAT8], A_FLOAT8, ceil),
    Function::new("ceiling", &[NUMERIC], A_NUMERIC, ceil),
    Function::new("ceiling", &[FLOAT8], A_FLOAT8, ceil),
    Function::new("floor", &[NUMERIC], A_NUMERIC, floor),
    Function::new("floor", &[FLOAT8], A_FLOAT8, floor),
    Function::new("round", &[NUMERIC], A_NUMERIC, round),
    Function::new("round", &[FLOAT8], A_FLOAT8, round),
    Function::new("round", &[NUMERIC, INT4], A_NUMERIC, round),
    Function::new("trunc", &[NUMERIC], A_NUMERIC, trunc),
    Function::new("trunc", &[FLOAT8], A_FLOAT8, trunc),
    Function::new("trunc", &[NUMERIC, INT4], A_NUMERIC, trunc),
    Function::new("sign", &[NUMERIC], A_NUMERIC, sign),
    Function::new("sign", &[FLOAT8], A_FLOAT8, sign),
    Function::new("sqrt", &[NUMERIC], A_NUMERIC, sqrt),
    Function::new("sqrt", &[FLOAT8], A_FLOAT8, sqrt),
    Function::new("cbrt", &[FLOAT8], A_FLOAT8, |args, _| finite(float_at(args, 0)?.cbrt())),
    Function::new("exp", &[NUMERIC], A_NUMERIC, exp),
    Function::new("exp", &[FLOAT8], A_FLOAT8, exp),
    Function::new("ln", &[NUMERIC], A_NUMERIC, ln),
    Function::new("ln", &[FLOAT8], A_FLOAT8, ln),
    Function::new("log", &[FLOAT8], A_FLOAT8, log10),
    Function::new("log10", &[FLOAT8], A_FLOAT8, log10),
    Function::new("power", &[NUMERIC, NUMERIC], A_NUMERIC, power),
    Function::new("power", &[FLOAT8, FLOAT8], A_FLOAT8, power),
    Function::new("pow", &[NUMERIC, NUMERIC], A_NUMERIC, power),
    Function::new("pow", &[FLOAT8, FLOAT8], A_FLOAT8, power),
    Function::new("^", &[NUMERIC, NUMERIC], A_NUMERIC, power),
    Function::new("^", &[FLOAT8, FLOAT8], A_FLOAT8, power),
    Function::new("mod", &[INT2, INT2], AN_INT2, modulo),
    Function::new("mod", &[INT4, INT4], AN_INT4, modulo),
    Function::new("mod", &[INT8, INT8], AN_INT8, modulo),
    Function::new("mod", &[NUMERIC, NUMERIC], A_NUMERIC, modulo),
    Function::new("div", &[NUMERIC, NUMERIC], A_NUMERIC, div),
    Function::new("factorial", &[INT8], A_NUMERIC, factorial),
    Function::new("scale", &[NUMERIC], AN_INT4, scale),
    Function::new("min_scale", &[NUMERIC], AN_INT4, least_scale),
    Function::new("trim_scale", &[NUMERIC], A_NUMERIC, trim_scale),
    Function::new("log", &[NUMERIC], A_NUMERIC, log_of_base),
    Function::new("log10", &[NUMERIC], A_NUMERIC, log_of_base),
    Function::new("log", &[NUMERIC, NUMERIC], A_NUMERIC, log_of_base),
    Function::new("width_bucket", &[FLOAT8, FLOAT8, FLOAT8, INT4], AN_INT4, bucket),
    Function::new("lcm", &[INT4, INT4], AN_INT4, lcm),
    Function::new("lcm", &[INT8, INT8], AN_INT8, lcm),
    Function::new("gcd", &[INT4, INT4], AN_INT4, gcd),
    Function::new("gcd", &[INT8, INT8], AN_INT8, gcd),
    Function::new("pi", &[], A_FLOAT8, |_, _| Ok(Datum::Float8(std::f64::consts::PI))),
    Function::new("&", &[INT4, INT4], AN_INT4, and),
    Function::new("&", &[INT8, INT8], AN_INT8, and),
    Function::new("|", &[INT4, INT4], AN_INT4, or),
    Function::new("|", &[INT8, INT8], AN_INT8, or),
    Function::new("#", &[INT4, INT4], AN_INT4, xor),
    Function::new("#", &[INT8, INT8], AN_INT8, xor),
    Function::new("~", &[INT4], AN_INT4, not),
    Function::new("~", &[INT8], AN_INT8, not),
    Function::new("<<", &[INT4, INT4], AN_INT4, shift_left),
    Function::new("<<", &[INT8, INT4], AN_INT8, shift_left),
    Function::new(">>", &[INT4, INT4], AN_INT4, shift_right),
    Function::new(">>", &[INT8, INT4], AN_INT8, shift_right),
];

/// Returns a float, or the error of a value out of range.
pub(super) fn finite(x: f64) -> Result<Datum, SqlError> {
    match x.is_infinite() {
        true => Err(number::overflow(Type::Float8)),
        false => Ok(Datum::Float8(x)),
    }
}

fn overflow() -> SqlError {
    number::overflow(Type::Numeric(None))
}

/// Returns a numeric with as many decimal places as PostgreSQL gives a value of about
/// `10^weight`, and no fewer than `least`.
fn scaled(n: Decimal, weight: f64, least: u32) -> Result<Datum, SqlError> {
    let places = (16.0 - weight.trunc()).clamp(0.0, 28.0) as u32;
    let places = places.max(least);
    let mut n = n.round_dp_with_strategy(places, RoundingStrategy::MidpointAwayFromZero);
    n.rescale(places);
    Ok(Datum::Numeric(n))
}

fn abs(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    match &args[0] {
        Datum::Float8(x) => Ok(Datum::Float8(x.abs())),
        Datum::Numeric(n) => Ok(Datum::Numeric(n.abs())),
        n => integer_like(n, i128::from(whole_at(args, 0)?).abs()),
    }
}

/// Returns an integer of a value's type.
fn integer_like(of: &Datum, n: i128) -> Result<Datum, SqlError> {
    number::integer(of.type_of().unwrap_or(Type::Int8), n)
}

fn negate(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    match &args[0] {
        Datum::Float8(x) => Ok(Datum::Float8(-x)),
        // There is no negative zero.
        Datum::Numeric(n) if n.is_zero() => Ok(Datum::Numeric(n.abs())),
        Datum::Numeric(n) => Ok(Datum::Numeric(-*n)),
        n => integer_like(n, -i128::from(whole_at(args, 0)?)),
    }
}

fn ceil(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(match &args[0] {
        Datum::Float8(x) => Datum::Float8(x.ceil()),
        // There is no negative zero.
        _ => match decimal_at(args, 0)?.ceil() {
            zero if zero.is_zero() => Datum::Numeric(zero.abs()),
            n => Datum::Numeric(n),
        },
    })
}

fn floor(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(match &args[0] {
        Datum::Float8(x) => Datum::Float8(x.floor()),
        _ => Datum::Numeric(decimal_at(args, 0)?.floor()),
    })
}

/// Rounds to decimal places, or to tens, hundreds and so on for a negative number.
fn rounded(args: &[Datum], strategy: RoundingStrategy) -> Result<Datum, SqlError> {
    let n = decimal_at(args, 0)?;
    let places = if args.len() > 1 { whole_at(args, 1)? } else { 0 };
    if places < 0 {
        if places < -28 {
            return Ok(Datum::Numeric(Decimal::ZERO));
        }
        let unit = Decimal::from_i128_with_scale(10i128.pow(places.unsigned_abs() as u32), 0);
        let units = (n / unit).round_dp_with_strategy(0, strategy);
        return units.checked_mul(unit).map(Datum::Numeric).ok_or_else(overflow);
    }
    let places = places.min(28) as u32;
    let mut n = n.round_dp_with_strategy(places, strategy);
    if args.len() > 1 {
        n.rescale(places);
    }
    Ok(Datum::Numeric(n))
}

fn round(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    match &args[0] {
        Datum::Float8(x) => Ok(Datum::Float8(x.round_ties_even())),
        _ => rounded(args, RoundingStrategy::MidpointAwayFromZero),
    }
}

fn trunc(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    match &args[0] {
        Datum::Float8(x) => Ok(Datum::Float8(x.trunc())),
        _ => rounded(args, RoundingStrategy::ToZero),
    }
}

fn sign(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(match &args[0] {
        Datum::Float8(x) if *x == 0.0 || x.is_nan() => Datum::Float8(*x),
        Datum::Float8(x) => Datum::Float8(x.signum()),
        _ => {
            let n = decimal_at(args, 0)?;
            let sign = i64::from(!n.is_zero()) * if n.is_sign_negative() { -1 } else { 1 };
            Datum::Numeric(Decimal::from(sign))
        }
    })
}

fn sqrt(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let negative = || {
        let message = "cannot take square root of a negative number";
        SqlError::new(state::INVALID_ARGUMENT, message)
    };
    if let Datum::Float8(x) = args[0] {
        return if x < 0.0 { Err(negative()) } else { Ok(Datum::Float8(x.sqrt())) };
    }
    let n = decimal_at(args, 0)?;
    let root = n.sqrt().ok_or_else(negative)?;
    // The weight in groups of four digits decides.
    let groups = (log10_of(n) / 4.0).floor();
    scaled(root, (groups + 1.0) * 2.0 - 1.0, n.scale())
}

/// The decimal logarithm of a positive number, nearly; 0 for zero.
fn log10_of(n: Decimal) -> f64 {
    n.to_f64().filter(|x| *x > 0.0).map_or(0.0, f64::log10)
}

fn exp(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    if let Datum::Float8(x) = args[0] {
        return match x.is_infinite() {
            true => Ok(Datum::Float8(x.exp())),
            false if x.exp() == 0.0 => Err(number::underflow()),
            false => finite(x.exp()),
        };
    }
    let n = decimal_at(args, 0)?;
    let value = n.checked_exp().ok_or_else(overflow)?;
    let weight = n.to_f64().unwrap_or(0.0) * std::f64::consts::LOG10_E;
    scaled(value, weight, n.scale())
}

fn of_logarithm(is_positive: bool, is_zero: bool) -> Result<(), SqlError> {
    let message = match (is_positive, is_zero) {
        (_, true) => "cannot take logarithm of zero",
        (false, _) => "cannot take logarithm of a negative number",
        _ => return Ok(()),
    };
    Err(SqlError::new("2201E", message))
}

fn ln(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    if let Datum::Float8(x) = args[0] {
        of_logarithm(x > 0.0 || x.is_nan(), x == 0.0)?;
        return Ok(Datum::Float8(x.ln()));
    }
    let n = decimal_at(args, 0)?;
    of_logarithm(n.is_sign_positive(), n.is_zero())?;
    let value = n.checked_ln().ok_or_else(overflow)?;
    let weight = if value.is_zero() { 0.0 } else { log10_of(value.abs()) };
    scaled(value, weight, n.scale())
}

fn log10(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let x = float_at(args, 0)?;
    of_logarithm(x > 0.0 || x.is_nan(), x == 0.0)?;
    Ok(Datum::Float8(x.log10()))
}

fn power(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let of_zero = || {
        let message = "zero raised to a negative power is undefined";
        SqlError::new(state::INVALID_ARGUMENT, message)
    };
    let of_negative = || {
        let message = "a negative number raised to a non-integer power yields a complex result";
        SqlError::new(state::INVALID_ARGUMENT, message)
    };
    if let [Datum::Float8(base), Datum::Float8(exponent)] = args {
        if *base == 0.0 && *exponent < 0.0 {
            return Err(of_zero());
        }
        if *base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
            return Err(of_negative());
        }
        let value = base.powf(*exponent);
        return match base.is_infinite() || exponent.is_infinite() {
            true => Ok(Datum::Float8(value)),
            false if value == 0.0 && *base != 0.0 => Err(number::underflow()),
            false => finite(value),
        };
    }
    let (base, exponent) = (decimal_at(args, 0)?, decimal_at(args, 1)?);
    if base.is_zero() && exponent.is_sign_negative() && !exponent.is_zero() {
        return Err(of_zero());
    }
    if base.is_sign_negative() && !base.is_zero() && !exponent.fract().is_zero() {
        return Err(of_negative());
    }
    if let Some(whole) = exponent.fract().is_zero().then(|| exponent.to_i64()).flatten() {
        return scaled(base.checked_powi(whole).ok_or_else(overflow)?, 0.0, base.scale());
    }
    let value = base.checked_powd(exponent).ok_or_else(overflow)?;
    // By a logarithm of eight digits, which decides about powers of ten.
    let ln = log10_of(base) * std::f64::consts::LN_10;
    let places = 10f64.powf(8.0 - ln.abs().max(1e-20).log10().floor());
    let rounded = |x: f64| (x * places).round() / places;
    let weight = rounded(rounded(ln) * exponent.to_f64().unwrap_or(0.0)) / std::f64::consts::LN_10;
    scaled(value, weight, base.scale().max(exponent.scale()))
}

fn modulo(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let ty = args[0].type_of().unwrap_or(Type::Int8);
    number::arith(Arith::Mod, ty, &args[0], &args[1])
}

/// The whole part of a quotient.
fn div(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (a, b) = (decimal_at(args, 0)?, decimal_at(args, 1)?);
    if b.is_zero() {
        return Err(number::by_zero());
    }
    a.checked_div(b).map(|n| Datum::Numeric(n.trunc())).ok_or_else(overflow)
}

/// The logarithm of the last argument, for the base of the first one, or for ten.
fn log_of_base(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let n = decimal_at(args, args.len() - 1)?;
    let base = if args.len() > 1 { decimal_at(args, 0)? } else { Decimal::TEN };
    for value in [base, n] {
        of_logarithm(value.is_sign_positive(), value.is_zero())?;
    }
    let of = |n: Decimal| n.checked_ln().ok_or_else(overflow);
    let below = of(base)?;
    if below.is_zero() {
        return Err(SqlError::new(state::DIVISION_BY_ZERO, "division by zero"));
    }
    let value = match args.len() {
        1 => n.checked_log10().ok_or_else(overflow)?,
        _ => of(n)?.checked_div(below).ok_or_else(overflow)?,
    };
    let weight = if value.is_zero() { 0.0 } else { log10_of(value.abs()) };
    scaled(value, weight, n.scale().max(base.scale()))
}

fn factorial(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let n = whole_at(args, 0)?;
    if n < 0 {
        let message = "factorial of a negative number is undefined";
        return Err(SqlError::new(state::OUT_OF_RANGE, message));
    }
    let product = (2..=n).try_fold(Decimal::ONE, |product, n| product.checked_mul(n.into()));
    product.map(Datum::Numeric).ok_or_else(overflow)
}

fn scale(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Int4(decimal_at(args, 0)?.scale() as i32))
}

fn least_scale(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Int4(decimal_at(args, 0)?.normalize().scale() as i32))
}

fn trim_scale(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Numeric(decimal_at(args, 0)?.normalize()))
}

/// The number of the bucket, among equal ones between two bounds, that a value is in.
fn bucket(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (x, low, high) = (float_at(args, 0)?, float_at(args, 1)?, float_at(args, 2)?);
    let count = whole_at(args, 3)?;
    let wrong = |message: &str| Err(SqlError::new("2201G", message));
    if count <= 0 {
        return wrong("count must be greater than zero");
    }
    if x.is_nan() || low.is_nan() || high.is_nan() {
        return wrong("operand, lower bound, and upper bound cannot be NaN");
    }
    if low.is_infinite() || high.is_infinite() {
        return wrong("lower and upper bounds must be finite");
    }
    if low == high {
        return wrong("lower bound cannot equal upper bound");
    }
    let part = (x - low) / (high - low);
    let bucket = match part {
        part if part < 0.0 => 0,
        part if part >= 1.0 => count + 1,
        part => (part * count as f64) as i64 + 1,
    };
    i32::try_from(bucket).map(Datum::Int4).map_err(|_| number::overflow(Type::Int4))
}

fn lcm(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let (a, b) = (i128::from(whole_at(args, 0)?), i128::from(whole_at(args, 1)?));
    if a == 0 || b == 0 {
        return integer_like(&args[0], 0);
    }
    let wide = [Datum::Int8(whole_at(args, 0)?), Datum::Int8(whole_at(args, 1)?)];
    let divisor = gcd(&wide, scope)?.as_i64().unwrap_or(1);
    integer_like(&args[0], (a / i128::from(divisor) * b).abs())
}

fn gcd(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (mut a, mut b) = (i128::from(whole_at(args, 0)?), i128::from(whole_at(args, 1)?));
    while b != 0 {
        (a, b) = (b, a % b);
    }
    integer_like(&args[0], a.abs())
}

fn and(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    integer_like(&args[0], i128::from(whole_at(args, 0)? & whole_at(args, 1)?))
}

fn or(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    integer_like(&args[0], i128::from(whole_at(args, 0)? | whole_at(args, 1)?))
}

fn xor(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    integer_like(&args[0], i128::from(whole_at(args, 0)? ^ whole_at(args, 1)?))
}

fn not(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    integer_like(&args[0], i128::from(!whole_at(args, 0)?))
}

/// Shifts by the lowest bits of the count, as processors do.
fn shift_left(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let by = whole_at(args, 1)? as u32;
    match args[0] {
        Datum::Int4(n) => Ok(Datum::Int4(n.wrapping_shl(by))),
        Datum::Int8(n) => Ok(Datum::Int8(n.wrapping_shl(by))),
        _ => Err(wrong_type()),
    }
}

fn shift_right(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let by = whole_at(args, 1)? as u32;
    match args[0] {
        Datum::Int4(n) => Ok(Datum::Int4(n.wrapping_shr(by))),
        Datum::Int8(n) => Ok(Datum::Int8(n.wrapping_shr(by))),
        _ => Err(wrong_type()),
    }
}
