//! Functions of numbers.
//!
//! Those of numerics are in `numeric`.

use super::of::*;
use super::{Function, float_at, numeric_at, whole_at, wrong_type};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{Arith, Scope};
use crate::number;
use crate::numeric::{self, Numeric};
use crate::types::Type;
use std::cmp::Ordering;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("abs", &[INT2], AN_INT2, abs),
    Function::new("abs", &[INT4], AN_INT4, abs),
    Function::new("abs", &[INT8], AN_INT8, abs),
    Function::new("abs", &[NUMERIC], A_NUMERIC, abs),
    Function::new("abs", &[FLOAT4], A_FLOAT4, abs),
    Function::new("abs", &[FLOAT8], A_FLOAT8, abs),
    Function::new("-", &[INT2], AN_INT2, negate),
    Function::new("-", &[INT4], AN_INT4, negate),
    Function::new("-", &[INT8], AN_INT8, negate),
    Function::new("-", &[NUMERIC], A_NUMERIC, negate),
    Function::new("-", &[FLOAT4], A_FLOAT4, negate),
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
    Function::new("width_bucket", &[NUMERIC, NUMERIC, NUMERIC, INT4], AN_INT4, numeric_bucket),
    Function::new("width_bucket", &[FLOAT8, FLOAT8, FLOAT8, INT4], AN_INT4, bucket),
    Function::new("lcm", &[INT4, INT4], AN_INT4, lcm),
    Function::new("lcm", &[INT8, INT8], AN_INT8, lcm),
    Function::new("gcd", &[INT4, INT4], AN_INT4, gcd),
    Function::new("gcd", &[INT8, INT8], AN_INT8, gcd),
    Function::new("lcm", &[NUMERIC, NUMERIC], A_NUMERIC, |args, _| {
        numeric_at(args, 0)?.lcm(numeric_at(args, 1)?).map(Datum::Numeric)
    }),
    Function::new("gcd", &[NUMERIC, NUMERIC], A_NUMERIC, |args, _| {
        numeric_at(args, 0)?.gcd(numeric_at(args, 1)?).map(Datum::Numeric)
    }),
    Function::new("pi", &[], A_FLOAT8, |_, _| Ok(Datum::Float8(std::f64::consts::PI))),
    Function::new("&", &[INT2, INT2], AN_INT2, and),
    Function::new("&", &[INT4, INT4], AN_INT4, and),
    Function::new("&", &[INT8, INT8], AN_INT8, and),
    Function::new("|", &[INT2, INT2], AN_INT2, or),
    Function::new("|", &[INT4, INT4], AN_INT4, or),
    Function::new("|", &[INT8, INT8], AN_INT8, or),
    Function::new("#", &[INT2, INT2], AN_INT2, xor),
    Function::new("#", &[INT4, INT4], AN_INT4, xor),
    Function::new("#", &[INT8, INT8], AN_INT8, xor),
    Function::new("~", &[INT2], AN_INT2, not),
    Function::new("~", &[INT4], AN_INT4, not),
    Function::new("~", &[INT8], AN_INT8, not),
    Function::new("<<", &[INT2, INT4], AN_INT2, shift_left),
    Function::new("<<", &[INT4, INT4], AN_INT4, shift_left),
    Function::new("<<", &[INT8, INT4], AN_INT8, shift_left),
    Function::new(">>", &[INT2, INT4], AN_INT2, shift_right),
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

fn abs(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    match &args[0] {
        Datum::Float4(x) => Ok(Datum::Float4(x.abs())),
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
        Datum::Float4(x) => Ok(Datum::Float4(-x)),
        Datum::Float8(x) => Ok(Datum::Float8(-x)),
        Datum::Numeric(n) => Ok(Datum::Numeric(n.negated())),
        n => integer_like(n, -i128::from(whole_at(args, 0)?)),
    }
}

fn ceil(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    match &args[0] {
        Datum::Float8(x) => Ok(Datum::Float8(x.ceil())),
        _ => numeric_at(args, 0)?.ceil().map(Datum::Numeric),
    }
}

fn floor(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    match &args[0] {
        Datum::Float8(x) => Ok(Datum::Float8(x.floor())),
        _ => numeric_at(args, 0)?.floor().map(Datum::Numeric),
    }
}

/// The decimal places of the second argument, or none.
fn places(args: &[Datum]) -> Result<i64, SqlError> {
    if args.len() > 1 { whole_at(args, 1) } else { Ok(0) }
}

fn round(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    match &args[0] {
        Datum::Float8(x) => Ok(Datum::Float8(x.round_ties_even())),
        _ => numeric_at(args, 0)?.round(places(args)?).map(Datum::Numeric),
    }
}

fn trunc(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    match &args[0] {
        Datum::Float8(x) => Ok(Datum::Float8(x.trunc())),
        _ => Ok(Datum::Numeric(numeric_at(args, 0)?.truncated(places(args)?))),
    }
}

fn sign(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(match &args[0] {
        Datum::Float8(x) if *x == 0.0 || x.is_nan() => Datum::Float8(*x),
        Datum::Float8(x) => Datum::Float8(x.signum()),
        _ => match numeric_at(args, 0)? {
            Numeric::NaN => Datum::Numeric(Numeric::NaN),
            n => Datum::Numeric(Numeric::from(n.sign() as i64)),
        },
    })
}

fn sqrt(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    match args[0] {
        Datum::Float8(x) if x < 0.0 => Err(number::root_of_negative()),
        Datum::Float8(x) => Ok(Datum::Float8(x.sqrt())),
        _ => numeric_at(args, 0)?.sqrt().map(Datum::Numeric),
    }
}

fn exp(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    if let Datum::Float8(x) = args[0] {
        return match x.is_infinite() {
            true => Ok(Datum::Float8(x.exp())),
            false if x.exp() == 0.0 => Err(number::underflow()),
            false => finite(x.exp()),
        };
    }
    numeric_at(args, 0)?.exp().map(Datum::Numeric)
}

/// Fails with 2201E for a float that has no logarithm; that of NaN is NaN.
fn check_logarithm(x: f64) -> Result<(), SqlError> {
    number::check_logarithm(x.partial_cmp(&0.0).unwrap_or(Ordering::Greater))
}

fn ln(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    if let Datum::Float8(x) = args[0] {
        check_logarithm(x)?;
        return Ok(Datum::Float8(x.ln()));
    }
    numeric_at(args, 0)?.ln().map(Datum::Numeric)
}

fn log10(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let x = float_at(args, 0)?;
    check_logarithm(x)?;
    Ok(Datum::Float8(x.log10()))
}

fn power(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    if let [Datum::Float8(base), Datum::Float8(exponent)] = args {
        if *base == 0.0 && *exponent < 0.0 {
            return Err(number::negative_power_of_zero());
        }
        if *base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
            return Err(number::complex_power());
        }
        let value = base.powf(*exponent);
        return match base.is_infinite() || exponent.is_infinite() {
            true => Ok(Datum::Float8(value)),
            false if value == 0.0 && *base != 0.0 => Err(number::underflow()),
            false => finite(value),
        };
    }
    numeric_at(args, 0)?.power(numeric_at(args, 1)?).map(Datum::Numeric)
}

fn modulo(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let ty = args[0].type_of().unwrap_or(Type::Int8);
    number::arith(Arith::Mod, ty, &args[0], &args[1])
}

/// The whole part of a quotient.
fn div(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    numeric_at(args, 0)?.whole_quotient(numeric_at(args, 1)?).map(Datum::Numeric)
}

/// The logarithm of the last argument, for the base of the first one, or for ten.
fn log_of_base(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let ten = Numeric::from(10);
    let base = if args.len() > 1 { numeric_at(args, 0)? } else { &ten };
    numeric_at(args, args.len() - 1)?.log(base).map(Datum::Numeric)
}

fn factorial(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    numeric::factorial(whole_at(args, 0)?).map(Datum::Numeric)
}

/// A scale; NULL where there is none.
fn scale_of(n: &Numeric) -> Datum {
    n.finite().map_or(Datum::Null, |n| Datum::Int4(n.scale() as i32))
}

fn scale(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    numeric_at(args, 0).map(scale_of)
}

fn least_scale(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(scale_of(&numeric_at(args, 0)?.trim_scale()))
}

fn trim_scale(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Numeric(numeric_at(args, 0)?.trim_scale()))
}

/// Fails for bounds between which there are no buckets.
fn check_buckets(count: i64, unknown: bool, infinite: bool, equal: bool) -> Result<(), SqlError> {
    let message = match () {
        () if count <= 0 => "count must be greater than zero",
        () if unknown => "operand, lower bound, and upper bound cannot be NaN",
        () if infinite => "lower and upper bounds must be finite",
        () if equal => "lower bound cannot equal upper bound",
        () => return Ok(()),
    };
    Err(SqlError::new("2201G", message))
}

/// The number of the bucket, among equal ones between two bounds, that a numeric is in.
fn numeric_bucket(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (x, low, high) = (numeric_at(args, 0)?, numeric_at(args, 1)?, numeric_at(args, 2)?);
    let count = whole_at(args, 3)?;
    let unknown = [x, low, high].contains(&&Numeric::NaN);
    let infinite = low.finite().is_none() || high.finite().is_none();
    check_buckets(count, unknown, infinite, low.order(high).is_eq())?;
    // The bounds may descend.
    let (from_low, to_high) = match low.order(high).is_lt() {
        true => (x.order(low), x.order(high)),
        false => (low.order(x), high.order(x)),
    };
    let bucket = if from_low.is_lt() {
        0
    } else if to_high.is_ge() {
        count as i128 + 1
    } else {
        let distance = x.minus(low)?.abs().times(&count.into())?;
        let part = distance.over(&high.minus(low)?.abs())?;
        let before = part.floor()?.to_whole().unwrap_or(0);
        (before + 1).min(count.into())
    };
    number::integer(Type::Int4, bucket)
}

/// The number of the bucket, among equal ones between two bounds, that a value is in.
fn bucket(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (x, low, high) = (float_at(args, 0)?, float_at(args, 1)?, float_at(args, 2)?);
    let count = whole_at(args, 3)?;
    let unknown = x.is_nan() || low.is_nan() || high.is_nan();
    let infinite = low.is_infinite() || high.is_infinite();
    check_buckets(count, unknown, infinite, low == high)?;
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

/// Shifts by the lowest bits of the count, as processors do; a `smallint` as an `integer`.
fn shift_left(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let by = whole_at(args, 1)? as u32;
    match args[0] {
        Datum::Int2(n) => Ok(Datum::Int2(i32::from(n).wrapping_shl(by) as i16)),
        Datum::Int4(n) => Ok(Datum::Int4(n.wrapping_shl(by))),
        Datum::Int8(n) => Ok(Datum::Int8(n.wrapping_shl(by))),
        _ => Err(wrong_type()),
    }
}

fn shift_right(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let by = whole_at(args, 1)? as u32;
    match args[0] {
        Datum::Int2(n) => Ok(Datum::Int2(i32::from(n).wrapping_shr(by) as i16)),
        Datum::Int4(n) => Ok(Datum::Int4(n.wrapping_shr(by))),
        Datum::Int8(n) => Ok(Datum::Int8(n.wrapping_shr(by))),
        _ => Err(wrong_type()),
    }
}
