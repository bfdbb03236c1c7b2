//! Bytes that compare like the numbers, and that are the same for equal ones.
//!
//! ```text
//!   31        -Infinity
//!   32        a number below -2^100: the digits of its magnitude, every byte inverted
//!   34        a number whose whole part W has 100 bits: W + 2^100 as 16 bytes, 12 bytes of 28
//!             digits behind the point; perhaps the rest of the digits
//!   36        a number from 2^100 on: the count of its digits before the point, its digits
//!   37, 38    Infinity, NaN
//!
//!   digits    pairs of digits plus one, ended by 00
//!   rest      FF, the digits behind the 28th
//! ```
//!
//! Numbers without a rest have the keys that earlier releases wrote. A number with one follows that
//! of which it has the first digits, and whatever stands behind that in a key, since no value
//! begins with FF. Where keys descend, it follows the next larger number of 28 digits, and has what
//! is missing to that as its rest. So a key is a prefix of others, and the end of all keys with a
//! value before others is the value's bytes and FF.

use super::big::{self, POWERS, power_of_ten};
use super::{Decimal, Numeric};
use crate::error::SqlError;
use num_bigint::{BigInt, Sign};

pub(crate) const NEGATIVE_INFINITY: u8 = 0x31;
pub(crate) const BELOW: u8 = 0x32;
pub(crate) const DECIMAL: u8 = 0x34;
pub(crate) const ABOVE: u8 = 0x36;
pub(crate) const INFINITY: u8 = 0x37;
pub(crate) const NAN: u8 = 0x38;

/// The first byte of a rest. No value begins with it, ascending or descending.
pub(crate) const REST: u8 = 0xFF;
/// The digits behind the point before a rest.
const SHORT: u32 = 28;
/// The number that is added to whole parts.
const OFFSET: i128 = 1 << 100;
/// The bytes of a number without a rest, behind the tag.
const SHORT_BYTES: usize = 28;

/// The parts of a number: its whole part, 28 digits behind the point, and the rest as digits.
struct Parts {
    whole: i128,
    fraction: i128,
    rest: String,
}

impl Numeric {
    /// Appends the key.
    pub(crate) fn write_key(&self, descending: bool, out: &mut Vec<u8>) {
        let from = out.len();
        let tag = match self {
            Numeric::Finite(n) => match n.parts(descending) {
                Some(parts) => {
                    out.push(DECIMAL);
                    out.extend((parts.whole + OFFSET).to_be_bytes());
                    out.extend(&parts.fraction.to_be_bytes()[4..]);
                    invert(&mut out[from..], descending);
                    if !parts.rest.is_empty() {
                        out.push(REST);
                        write_digits(&parts.rest, out);
                    }
                    return;
                }
                None => {
                    let is_below = n.sign().is_lt();
                    out.push(if is_below { BELOW } else { ABOVE });
                    let digits = big::digits_of(&n.wide().digits);
                    let whole = digits.len() as u32 - n.scale();
                    out.extend(whole.to_be_bytes());
                    write_digits(&digits, out);
                    invert(&mut out[from + 1..], is_below);
                    return invert(&mut out[from..], descending);
                }
            },
            Numeric::NaN => NAN,
            Numeric::Infinity => INFINITY,
            Numeric::NegativeInfinity => NEGATIVE_INFINITY,
        };
        out.push(tag);
        invert(&mut out[from..], descending);
    }
}

fn invert(bytes: &mut [u8], really: bool) {
    if really {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Appends digits in pairs, without the zeros at their end.
fn write_digits(digits: &str, out: &mut Vec<u8>) {
    let digits = digits.trim_end_matches('0').as_bytes();
    out.extend(digits.chunks(2).map(|pair| {
        let low = pair.get(1).map_or(0, |digit| digit - b'0');
        (pair[0] - b'0') * 10 + low + 1
    }));
    out.push(0);
}

/// Returns the length of a key behind its tag. `bytes` begins behind the tag; those of a
/// descending key are inverted. An element of an array is ascending, whether or not the bytes of
/// the whole array are inverted.
pub(crate) fn skip(
    tag: u8,
    bytes: &[u8],
    descending: bool,
    in_array: bool,
) -> Result<usize, SqlError> {
    let (first, last) = if descending && in_array { (!REST, 0xFF) } else { (REST, 0) };
    let digits = |from: usize, end: u8| {
        let rest = bytes.get(from..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == end);
        let length = length.ok_or_else(|| SqlError::corrupted("a key ends too early"))?;
        Ok(from + length + 1)
    };
    match tag {
        DECIMAL if bytes.get(SHORT_BYTES) == Some(&first) => digits(SHORT_BYTES + 1, last),
        DECIMAL => Ok(SHORT_BYTES),
        BELOW | ABOVE => digits(4, if (tag == BELOW) == descending { 0 } else { 0xFF }),
        NAN | INFINITY | NEGATIVE_INFINITY => Ok(0),
        _ => Err(SqlError::corrupted("a key has an unknown tag")),
    }
}

impl Decimal {
    /// Splits a number into the part up to the 28th digit behind the point, rounded down, or up
    /// for a descending key, and the rest; `None` if the whole part has more than 100 bits.
    fn parts(&self, descending: bool) -> Option<Parts> {
        let is_inside = |whole: i128| (-OFFSET..OFFSET).contains(&whole).then_some(whole);
        let scale = self.scale();
        if let Some(mantissa) = self.mantissa()
            && scale <= SHORT
        {
            let unit = POWERS[scale as usize];
            let whole = is_inside(mantissa.div_euclid(unit))?;
            let fraction = mantissa.rem_euclid(unit) * POWERS[(SHORT - scale) as usize];
            return Some(Parts { whole, fraction, rest: String::new() });
        }
        let wide = self.wide();
        if wide.first_place().is_some_and(|first| first > 30) {
            return None;
        }
        let floor = |n: &BigInt, unit: &BigInt| {
            let (quotient, rest) = big::divided(n, unit);
            match rest.sign() {
                Sign::Minus => (quotient - 1, rest + unit),
                _ => (quotient, rest),
            }
        };
        let unit = power_of_ten(scale.saturating_sub(SHORT));
        let (mut short, mut rest) = match scale.checked_sub(SHORT) {
            Some(_) => floor(&wide.digits, &unit),
            None => (wide.digits_at(SHORT), BigInt::ZERO),
        };
        // Both directions agree about what is inside.
        is_inside(i128::try_from(floor(&short, &power_of_ten(SHORT)).0).ok()?)?;
        if descending && rest.sign() != Sign::NoSign {
            (short, rest) = (short + 1, unit - rest);
        }
        let (whole, fraction) = floor(&short, &power_of_ten(SHORT));
        let rest = match rest.sign() {
            Sign::NoSign => String::new(),
            _ => {
                let digits = big::digits_of(&rest);
                let zeros = (scale - SHORT) as usize - digits.len();
                "0".repeat(zeros) + &digits
            }
        };
        let of = |n: BigInt| i128::try_from(n).ok();
        Some(Parts { whole: of(whole)?, fraction: of(fraction)?, rest })
    }
}
