//! PostgreSQL's text format.

use super::decimal::Wide;
use super::{Decimal, MOST_SCALE, MOST_WHOLE, Numeric, big, overflow};
use crate::error::{SqlError, state};
use std::fmt;

/// The digits that 128 bits hold in any case.
const SMALL_DIGITS: usize = 38;
/// The exponents that are read; all others are out of range, whatever the digits.
const LARGEST_EXPONENT: i64 = i32::MAX as i64 / 2;

/// A number as it is written: its digits before and behind the point, and an exponent.
pub(crate) struct Written<'a> {
    pub(crate) is_negative: bool,
    pub(crate) whole: &'a str,
    pub(crate) fraction: &'a str,
    pub(crate) exponent: i64,
}

impl<'a> Written<'a> {
    /// Splits a text; `None` if it is no number. Fails with 22003 for an exponent out of range.
    pub(crate) fn of(text: &'a str) -> Result<Option<Written<'a>>, SqlError> {
        let is_negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !are_digits(whole) || !are_digits(fraction) || whole.len() + fraction.len() == 0 {
            return Ok(None);
        }
        let exponent = match exponent {
            None => 0,
            Some(exponent) => {
                let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
                if digits.is_empty() || !are_digits(digits) {
                    return Ok(None);
                }
                let exponent = exponent.parse().unwrap_or(i64::MAX);
                if !(-LARGEST_EXPONENT + 1..LARGEST_EXPONENT).contains(&exponent) {
                    return Err(overflow());
                }
                exponent
            }
        };
        Ok(Some(Written { is_negative, whole, fraction, exponent }))
    }

    /// Returns its digits before and behind the point, without zeros at their beginning; both are
    /// empty for zero.
    fn digits(&self) -> (&'a str, &'a str) {
        match self.whole.trim_start_matches('0') {
            "" => ("", self.fraction.trim_start_matches('0')),
            whole => (whole, self.fraction),
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits() == ("", "")
    }

    /// Returns the number of its digits that the exponent leaves behind the point; below zero, of
    /// the zeros that it adds.
    fn point(&self) -> i64 {
        self.fraction.len() as i64 - self.exponent
    }

    /// Returns its scale. Fails with 22003 if it has too many digits, before or behind the point.
    pub(crate) fn scale(&self) -> Result<u32, SqlError> {
        let point = self.point();
        let scale = u32::try_from(point.max(0)).ok().filter(|scale| *scale <= MOST_SCALE);
        let (whole, fraction) = self.digits();
        let count = (whole.len() + fraction.len()) as i64;
        match scale {
            Some(scale) if count == 0 || count - point <= MOST_WHOLE => Ok(scale),
            _ => Err(overflow()),
        }
    }

    /// Returns the number. Fails with 22003 if it has too many digits, before it makes any.
    fn value(&self) -> Result<Decimal, SqlError> {
        let (scale, (whole, fraction)) = (self.scale()?, self.digits());
        let count = whole.len() + fraction.len();
        if count == 0 {
            return Ok(Decimal::small(0, scale as u16));
        }
        let zeros = (-self.point()).max(0) as usize;
        let digits = whole.bytes().chain(fraction.bytes());
        if count + zeros <= SMALL_DIGITS {
            let digits = digits.fold(0, |sum, digit| sum * 10 + i128::from(digit - b'0'));
            let mantissa = digits * big::POWERS[zeros];
            let mantissa = if self.is_negative { -mantissa } else { mantissa };
            return Ok(Decimal::small(mantissa, scale as u16));
        }
        let digits: Vec<u8> = digits.chain(std::iter::repeat_n(b'0', zeros)).collect();
        let digits = big::of_digits(&digits);
        Decimal::of(Wide::of(if self.is_negative { -digits } else { digits }, scale))
    }
}

impl Numeric {
    /// Reads a number, perhaps with an exponent, or the name of another value. Fails with 22P02
    /// for any other text, with 22003 for a number of too many digits.
    pub fn from_text(text: &str) -> Result<Numeric, SqlError> {
        let trimmed = text.trim_matches([' ', '\t', '\n', '\r', '\x0B', '\x0C']);
        if let Some(number) = Written::of(trimmed)? {
            return number.value().map(Numeric::Finite);
        }
        Ok(match trimmed.to_ascii_lowercase().as_str() {
            "nan" => Numeric::NaN,
            "infinity" | "+infinity" | "inf" | "+inf" => Numeric::Infinity,
            "-infinity" | "-inf" => Numeric::NegativeInfinity,
            _ => {
                let message = format!("invalid input syntax for type numeric: \"{text}\"");
                return Err(SqlError::new(state::BAD_TEXT, message));
            }
        })
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Numeric::Finite(n) => n.fmt(f),
            Numeric::NaN => f.write_str("NaN"),
            Numeric::Infinity => f.write_str("Infinity"),
            Numeric::NegativeInfinity => f.write_str("-Infinity"),
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = self.scale() as usize;
        if self.sign().is_lt() {
            f.write_str("-")?;
        }
        let Some(mantissa) = self.mantissa() else {
            return write_point(f, &big::digits_of(&self.wide().digits), scale);
        };
        match (mantissa.unsigned_abs(), scale) {
            (digits, 0) => write!(f, "{digits}"),
            // Most numbers are of few digits, whose division is that of the processor.
            (digits, 1..=18) if digits <= u64::MAX.into() => {
                let unit = big::POWERS[scale] as u64;
                let (whole, fraction) = (digits as u64 / unit, digits as u64 % unit);
                write!(f, "{whole}.{fraction:0scale$}")
            }
            (digits, _) => write_point(f, &digits.to_string(), scale),
        }
    }
}

/// Writes digits with a point before the last of them, and zeros where they are too few.
fn write_point(f: &mut fmt::Formatter<'_>, digits: &str, scale: usize) -> fmt::Result {
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(scale));
    f.write_str(if whole.is_empty() { "0" } else { whole })?;
    if scale > 0 {
        f.write_str(".")?;
        let zeros = "0000000000000000000000000000000000000000000000000000000000000000";
        let mut missing = scale - fraction.len();
        while missing > 0 {
            let some = missing.min(zeros.len());
            f.write_str(&zeros[..some])?;
            missing -= some;
        }
        f.write_str(fraction)?;
    }
    Ok(())
}
