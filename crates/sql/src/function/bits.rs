//! Functions and operators of strings of bits.

use super::of::*;
use super::{Function, whole_at, wrong_type};
use crate::bits::Bits;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("&", &[BIT, BIT], A_BIT, |args, _| combined(args, "AND", |a, b| a & b)),
    Function::new("|", &[BIT, BIT], A_BIT, |args, _| combined(args, "OR", |a, b| a | b)),
    Function::new("#", &[BIT, BIT], A_BIT, |args, _| combined(args, "XOR", |a, b| a ^ b)),
    Function::new("~", &[BIT], A_BIT, |args, _| made(bits_at(args, 0)?.inverted())),
    Function::new("<<", &[BIT, INT4], A_BIT, |args, _| {
        made(bits_at(args, 0)?.shifted(whole_at(args, 1)?))
    }),
    Function::new(">>", &[BIT, INT4], A_BIT, |args, _| {
        made(bits_at(args, 0)?.shifted(-whole_at(args, 1)?))
    }),
    Function::new("||", &[VARBIT, VARBIT], A_VARBIT, |args, _| {
        made(bits_at(args, 0)?.join(bits_at(args, 1)?)?)
    }),
    Function::new("length", &[BIT], AN_INT4, length),
    Function::new("bit_length", &[BIT], AN_INT4, length),
    Function::new("octet_length", &[BIT], AN_INT4, |args, _| {
        Ok(Datum::Int4(bits_at(args, 0)?.bytes().len() as i32))
    }),
    Function::new("bit_count", &[BIT], AN_INT8, |args, _| {
        Ok(Datum::Int8(bits_at(args, 0)?.count_ones() as i64))
    }),
    Function::new("get_bit", &[BIT, INT4], AN_INT4, |args, _| {
        Ok(Datum::Int4(bits_at(args, 0)?.get(place(args)?).into()))
    }),
    Function::new("set_bit", &[BIT, INT4, INT4], A_BIT, |args, _| {
        let at = place(args)?;
        match whole_at(args, 2)? {
            bit @ 0..=1 => made(bits_at(args, 0)?.with(at, bit == 1)),
            _ => Err(SqlError::new(state::INVALID_PARAMETER, "new bit must be 0 or 1")),
        }
    }),
    Function::new("substring", &[BIT, INT4], A_BIT, substring),
    Function::new("substring", &[BIT, INT4, INT4], A_BIT, substring),
    Function::new("position", &[BIT, BIT], AN_INT4, position),
    Function::new("overlay", &[BIT, BIT, INT4], A_BIT, overlay),
    Function::new("overlay", &[BIT, BIT, INT4, INT4], A_BIT, overlay),
];

fn bits_at(args: &[Datum], at: usize) -> Result<&Bits, SqlError> {
    match args.get(at) {
        Some(Datum::Bits(bits)) => Ok(bits),
        _ => Err(wrong_type()),
    }
}

fn made(bits: Bits) -> Result<Datum, SqlError> {
    Ok(Datum::Bits(bits))
}

fn combined(args: &[Datum], verb: &str, f: fn(bool, bool) -> bool) -> Result<Datum, SqlError> {
    made(bits_at(args, 0)?.combined(bits_at(args, 1)?, verb, f)?)
}

fn length(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Int4(bits_at(args, 0)?.length() as i32))
}

/// Returns the place that the second argument gives, counted from 0.
fn place(args: &[Datum]) -> Result<u32, SqlError> {
    let (length, at) = (bits_at(args, 0)?.length(), whole_at(args, 1)?);
    u32::try_from(at).ok().filter(|at| *at < length).ok_or_else(|| {
        let most = i64::from(length) - 1;
        let message = format!("bit index {at} out of valid range (0..{most})");
        SqlError::new(state::ARRAY_SUBSCRIPT, message)
    })
}

/// Returns the part of some bits that begins at a place, counted from 1, and is that long at most.
fn part(bits: &Bits, start: i64, length: Option<i64>) -> Result<Bits, SqlError> {
    let most = i64::from(bits.length());
    let end = match length {
        Some(..0) => {
            return Err(SqlError::new("22011", "negative substring length not allowed"));
        }
        Some(length) => start.saturating_add(length),
        None => i64::MAX,
    };
    let (from, to) = (start.clamp(1, most + 1), end.clamp(1, most + 1));
    Ok(bits.part(from as u32 - 1, to.max(from) as u32 - 1))
}

fn substring(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let length = args.get(2).map(|_| whole_at(args, 2)).transpose()?;
    made(part(bits_at(args, 0)?, whole_at(args, 1)?, length)?)
}

/// Returns the place of the second argument in the first, counted from 1; 0 if it is not there.
fn position(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (bits, sought) = (bits_at(args, 0)?, bits_at(args, 1)?);
    let found = bits.find(sought).filter(|_| bits.length() > 0);
    Ok(Datum::Int4(found.map_or(0, |at| at as i32 + 1)))
}

fn overlay(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (bits, new, start) = (bits_at(args, 0)?, bits_at(args, 1)?, whole_at(args, 2)?);
    let length = match args.get(3) {
        Some(_) => whole_at(args, 3)?,
        None => new.length().into(),
    };
    if start <= 0 {
        return Err(SqlError::new("22011", "negative substring length not allowed"));
    }
    let before = part(bits, 1, Some(start - 1))?;
    let after = part(bits, start.saturating_add(length), None)?;
    made(before.join(new)?.join(&after)?)
}
