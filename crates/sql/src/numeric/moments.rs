//! Variances and standard deviations: `(n Σx² - (Σx)²) / (n (n - 1))`, with PostgreSQL's scale of
//! the quotient.

use super::decimal::Wide;
use super::{Decimal, Numeric, arith, big};
use crate::error::SqlError;
use num_bigint::{BigInt, Sign};

/// The exact sums of numbers and of their squares.
pub(crate) struct Moments {
    count: i64,
    sum: Wide,
    squares: Wide,
    /// True if one was no finite number.
    is_unknown: bool,
}

impl Moments {
    pub(crate) fn none() -> Moments {
        Moments { count: 0, sum: Wide::of(0, 0), squares: Wide::of(0, 0), is_unknown: false }
    }

    pub(crate) fn add(&mut self, value: &Numeric) {
        self.count += 1;
        let Numeric::Finite(n) = value else { return self.is_unknown = true };
        let scale = n.scale().max(self.sum.scale);
        if scale > self.sum.scale {
            self.sum = Wide { digits: self.sum.digits_at(scale), scale };
            self.squares = Wide { digits: self.squares.digits_at(2 * scale), scale: 2 * scale };
        }
        let digits = n.wide().digits_at(scale);
        self.squares.digits += big::product(&digits, &digits);
        self.sum.digits += digits;
    }

    /// Returns the bytes that the sums take.
    pub(crate) fn behind(&self) -> usize {
        (self.sum.digits.bits() + self.squares.digits.bits()) as usize / 8
    }

    /// Returns the variance, of a sample or of all there are, or its root; `None` for too few
    /// numbers.
    pub(crate) fn variance(&self, sample: bool, root: bool) -> Result<Option<Numeric>, SqlError> {
        if self.count <= i64::from(sample) {
            return Ok(None);
        }
        if self.is_unknown {
            return Ok(Some(Numeric::NaN));
        }
        let count = BigInt::from(self.count);
        let squares = &count * &self.squares.digits;
        let digits = squares - big::product(&self.sum.digits, &self.sum.digits);
        if digits.sign() != Sign::Plus {
            return Ok(Some(Numeric::of(0, 0)));
        }
        let above = Wide { digits, scale: self.squares.scale };
        let below = Wide::of(count * (self.count - i64::from(sample)), 0);
        let scale = arith::quotient_scale((&above.groups(), above.scale), (&below.groups(), 0));
        let variance = Decimal::of(above.over(&below, scale))?;
        let value = if root { variance.root(scale)? } else { variance };
        Ok(Some(Numeric::Finite(value)))
    }
}
