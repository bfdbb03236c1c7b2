//! `numeric`: exact decimal numbers, with not-a-number and both infinities.
//!
//! A number is a whole number and the count of its digits behind the point, its *scale*: `1.50` is
//! 150 and 2. Each number has one form for each scale. Those of 128 bits are held in place, and
//! their arithmetic is that of the processor; larger ones are shared and computed by `num-bigint`.
//! Results have the scales that PostgreSQL gives them.
//!
//! ```text
//!   Numeric ── a Decimal (finite), NaN, Infinity, -Infinity
//!     decimal       the forms of a finite number, and its rounding
//!     arith         + - * / % and their kin
//!     power         roots, powers, exponentials and logarithms, with PostgreSQL's scales
//!     moments       variances
//!     series        exponentials and logarithms to any precision, in fractions of powers of two
//!     big           whole numbers and their decimal digits
//!     text, wire    PostgreSQL's formats
//!     key, stored   bytes that compare, bytes of a row
//! ```

mod arith;
mod big;
mod decimal;
mod key;
mod moments;
mod power;
mod series;
mod stored;
#[cfg(test)]
pub(crate) mod tests;
mod text;
mod wire;

pub(crate) use arith::factorial;
pub use decimal::Decimal;
pub(crate) use key::{NAN, NEGATIVE_INFINITY, skip};
pub(crate) use moments::Moments;
pub(crate) use stored::Stored;
pub(crate) use text::Written;

use crate::error::{SqlError, state};
use std::cmp::Ordering;

/// The digits that a number has before the point.
pub(crate) const MOST_WHOLE: i64 = 131_072;
/// The digits that it has behind the point.
pub(crate) const MOST_SCALE: u32 = 16_383;
/// The digits behind the point that a quotient, a root or a logarithm may have for its precision.
const MOST_COMPUTED_SCALE: i64 = 1000;
/// The least number of significant digits of a quotient, a root or a logarithm.
const SIGNIFICANT_DIGITS: i64 = 16;

/// A value of type `numeric`.
///
/// Two values are `==` if nothing tells one from the other: 1.0 is not 1.00. SQL's comparison is
/// [`Numeric::order`].
#[derive(Clone, Debug, PartialEq)]
pub enum Numeric {
    /// A number.
    Finite(Decimal),
    /// Not a number; equal to itself and above all others.
    NaN,
    /// Above all numbers.
    Infinity,
    /// Below all numbers.
    NegativeInfinity,
}

use Numeric::{Finite, Infinity, NaN, NegativeInfinity};

pub(crate) fn overflow() -> SqlError {
    SqlError::new(state::OUT_OF_RANGE, "value overflows numeric format")
}

fn by_zero() -> SqlError {
    crate::number::by_zero()
}

impl From<i64> for Numeric {
    fn from(n: i64) -> Numeric {
        Numeric::of(n.into(), 0)
    }
}

impl Numeric {
    /// Returns `mantissa / 10^scale`.
    pub const fn of(mantissa: i128, scale: u16) -> Numeric {
        Finite(Decimal::small(mantissa, scale))
    }

    /// Returns a float's first 15 digits, as PostgreSQL does.
    pub(crate) fn of_float(x: f64) -> Result<Numeric, SqlError> {
        match x {
            x if x.is_nan() => Ok(NaN),
            f64::INFINITY => Ok(Infinity),
            f64::NEG_INFINITY => Ok(NegativeInfinity),
            x => Numeric::from_text(&format!("{x:.14e}")).map(|n| n.trim_scale()),
        }
    }

    /// Returns the number with the digits that a `real` surely holds.
    pub(crate) fn of_real(x: f32) -> Result<Numeric, SqlError> {
        match x.is_finite() {
            true => Numeric::from_text(&format!("{x:.5e}")).map(|n| n.trim_scale()),
            false => Numeric::of_float(x.into()),
        }
    }

    /// Returns the nearest float; infinite or zero beyond their range.
    pub(crate) fn to_f64(&self) -> f64 {
        match self {
            Finite(n) => n.to_f64(),
            NaN => f64::NAN,
            Infinity => f64::INFINITY,
            NegativeInfinity => f64::NEG_INFINITY,
        }
    }

    /// Returns the nearest whole number, half away from zero; `None` beyond 128 bits.
    pub(crate) fn to_whole(&self) -> Option<i128> {
        match self {
            Finite(n) => n.round(0).mantissa(),
            _ => None,
        }
    }

    /// Returns it as a finite number.
    pub(crate) fn finite(&self) -> Option<&Decimal> {
        match self {
            Finite(n) => Some(n),
            _ => None,
        }
    }

    /// Returns the sign; NaN is above zero.
    pub(crate) fn sign(&self) -> Ordering {
        match self {
            Finite(n) => n.sign(),
            NaN | Infinity => Ordering::Greater,
            NegativeInfinity => Ordering::Less,
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.sign().is_eq()
    }

    /// Orders two values, whatever their scales.
    pub fn order(&self, other: &Numeric) -> Ordering {
        let rank = |n: &Numeric| match n {
            NegativeInfinity => 0,
            Finite(_) => 1,
            Infinity => 2,
            NaN => 3,
        };
        match (self, other) {
            (Finite(a), Finite(b)) => a.order(b),
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }

    /// Returns the bytes that it takes behind itself.
    pub(crate) fn behind(&self) -> usize {
        self.finite().map_or(0, Decimal::behind)
    }

    pub(crate) fn negated(&self) -> Numeric {
        match self {
            Finite(n) => Finite(n.negated()),
            NaN => NaN,
            Infinity => NegativeInfinity,
            NegativeInfinity => Infinity,
        }
    }

    pub(crate) fn abs(&self) -> Numeric {
        match self.sign() {
            Ordering::Less => self.negated(),
            _ => self.clone(),
        }
    }

    /// Applies a function to a finite number; the others stay.
    fn map(&self, f: impl FnOnce(&Decimal) -> Decimal) -> Numeric {
        match self {
            Finite(n) => Finite(f(n)),
            other => other.clone(),
        }
    }

    /// Rounds to decimal places, half away from zero; to tens, hundreds and so on for a negative
    /// number of places.
    pub(crate) fn round(&self, places: i64) -> Result<Numeric, SqlError> {
        self.map(|n| n.round(clamped(places))).checked()
    }

    /// Drops the digits behind some decimal places.
    pub(crate) fn truncated(&self, places: i64) -> Numeric {
        self.map(|n| n.truncated(clamped(places)))
    }

    pub(crate) fn floor(&self) -> Result<Numeric, SqlError> {
        self.map(Decimal::floor).checked()
    }

    pub(crate) fn ceil(&self) -> Result<Numeric, SqlError> {
        Ok(self.negated().floor()?.negated())
    }

    /// Drops the zeros at the end of the digits behind the point.
    pub(crate) fn trim_scale(&self) -> Numeric {
        self.map(Decimal::trimmed)
    }

    /// Fails if a number has too many digits.
    fn checked(self) -> Result<Numeric, SqlError> {
        match self {
            Finite(n) => n.checked().map(Finite),
            other => Ok(other),
        }
    }

    /// Returns the value as a column of a precision and a scale holds it. Fails with 22003 if it
    /// has more digits before the point.
    pub(crate) fn limited(self, precision: u16, scale: i16) -> Result<Numeric, SqlError> {
        let wrong = |why: String| {
            let detail = format!("A field with precision {precision}, scale {scale} {why}.");
            SqlError::new(state::OUT_OF_RANGE, "numeric field overflow").detail(detail)
        };
        let n = match self {
            Finite(n) => n.round(scale.into()),
            NaN => return Ok(NaN),
            _ => return Err(wrong("cannot hold an infinite value".to_owned())),
        };
        let most = i64::from(precision) - i64::from(scale);
        if n.first_place().is_some_and(|first| first >= most) {
            let bound = if most == 0 { "1".to_owned() } else { format!("10^{most}") };
            return Err(wrong(format!("must round to an absolute value less than {bound}")));
        }
        Ok(Finite(n))
    }

    pub(crate) fn plus(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        match (self, other) {
            (Finite(a), Finite(b)) => a.plus(b).map(Finite),
            (NaN, _) | (_, NaN) => Ok(NaN),
            (Infinity, NegativeInfinity) | (NegativeInfinity, Infinity) => Ok(NaN),
            (Finite(_), infinite) | (infinite, _) => Ok(infinite.clone()),
        }
    }

    pub(crate) fn minus(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        match (self, other) {
            (Finite(a), Finite(b)) => a.minus(b).map(Finite),
            _ => self.plus(&other.negated()),
        }
    }

    /// Returns infinity with the sign of a product; NaN for one with zero.
    fn infinite_product(&self, other: &Numeric) -> Numeric {
        match (self, other) {
            (NaN, _) | (_, NaN) => NaN,
            _ => match (self.sign(), other.sign()) {
                (Ordering::Equal, _) | (_, Ordering::Equal) => NaN,
                (a, b) if a == b => Infinity,
                _ => NegativeInfinity,
            },
        }
    }

    pub(crate) fn times(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        match (self, other) {
            (Finite(a), Finite(b)) => a.times(b).map(Finite),
            _ => Ok(self.infinite_product(other)),
        }
    }

    /// Divides by a kind of division of finite numbers.
    fn divided(
        &self,
        other: &Numeric,
        finite: fn(&Decimal, &Decimal) -> Result<Decimal, SqlError>,
    ) -> Result<Numeric, SqlError> {
        match (self, other) {
            (NaN, _) | (_, NaN) => Ok(NaN),
            (_, divisor) if divisor.is_zero() => Err(by_zero()),
            (Finite(a), Finite(b)) => finite(a, b).map(Finite),
            (Finite(_), _) => Ok(Numeric::of(0, 0)),
            (_, Finite(_)) => Ok(self.infinite_product(other)),
            _ => Ok(NaN),
        }
    }

    /// Divides to PostgreSQL's scale.
    pub(crate) fn over(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        self.divided(other, Decimal::over)
    }

    /// Returns the whole part of the quotient.
    pub(crate) fn whole_quotient(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        self.divided(other, Decimal::whole_quotient)
    }

    pub(crate) fn rest(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        match (self, other) {
            (NaN, _) | (_, NaN) => Ok(NaN),
            (_, divisor) if divisor.is_zero() => Err(by_zero()),
            (Finite(a), Finite(b)) => a.rest(b).map(Finite),
            (Finite(_), _) => Ok(self.clone()),
            _ => Ok(NaN),
        }
    }

    /// Returns the greatest common divisor.
    pub(crate) fn gcd(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        match (self, other) {
            (Finite(a), Finite(b)) => a.gcd(b).map(Finite),
            _ => Ok(NaN),
        }
    }

    /// Returns the least common multiple.
    pub(crate) fn lcm(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        match (self, other) {
            (Finite(a), Finite(b)) => a.lcm(b).map(Finite),
            _ => Ok(NaN),
        }
    }
}

/// Returns a number of decimal places beyond which none differs from another.
fn clamped(places: i64) -> i64 {
    places.clamp(-MOST_WHOLE - 1, MOST_SCALE.into())
}
