//! Sums, products, quotients and rests of finite numbers.

use super::big::{self, POWERS};
use super::decimal::{Groups, Wide, aligned};
use super::{
    Decimal, MOST_COMPUTED_SCALE, MOST_SCALE, MOST_WHOLE, Numeric, SIGNIFICANT_DIGITS, overflow,
};
use crate::error::{SqlError, state};
use num_bigint::{BigInt, Sign};

/// The largest number whose factorial is no overflow.
const LARGEST_FACTORIAL: i64 = 32_177;

impl Decimal {
    pub(super) fn plus(&self, other: &Decimal) -> Result<Decimal, SqlError> {
        self.combined(other, i128::checked_add, |a, b| a + b)
    }

    pub(super) fn minus(&self, other: &Decimal) -> Result<Decimal, SqlError> {
        self.combined(other, i128::checked_sub, |a, b| a - b)
    }

    /// Applies an operation to the digits of two numbers, at the larger scale.
    fn combined(
        &self,
        other: &Decimal,
        small: fn(i128, i128) -> Option<i128>,
        large: fn(BigInt, BigInt) -> BigInt,
    ) -> Result<Decimal, SqlError> {
        if let (Some(a), Some(b)) = (self.mantissa(), other.mantissa())
            && let Some((a, b, scale)) = aligned(a, self.scale(), b, other.scale())
            && let Some(digits) = small(a, b)
        {
            return Ok(Decimal::small(digits, scale as u16));
        }
        let (a, b, scale) = self.aligned(other);
        Decimal::of(Wide { digits: large(a, b), scale })
    }

    /// Returns the digits of two numbers at the larger scale.
    fn aligned(&self, other: &Decimal) -> (BigInt, BigInt, u32) {
        let scale = self.scale().max(other.scale());
        (self.wide().digits_at(scale), other.wide().digits_at(scale), scale)
    }

    pub(super) fn times(&self, other: &Decimal) -> Result<Decimal, SqlError> {
        let scale = self.scale() + other.scale();
        if let (Some(a), Some(b)) = (self.mantissa(), other.mantissa())
            && let Some(digits) = a.checked_mul(b)
            && scale <= MOST_SCALE
        {
            return Ok(Decimal::small(digits, scale as u16));
        }
        // The product has no fewer digits before the point than this.
        if let (Some(a), Some(b)) = (self.first_place(), other.first_place())
            && a + b >= MOST_WHOLE
        {
            return Err(overflow());
        }
        Decimal::of(self.wide().times(&other.wide()))
    }

    /// Divides by a number other than zero, to PostgreSQL's scale.
    pub(super) fn over(&self, other: &Decimal) -> Result<Decimal, SqlError> {
        self.over_to(other, self.scale_over(other))
    }

    pub(super) fn scale_over(&self, other: &Decimal) -> u32 {
        quotient_scale((&self.groups(), self.scale()), (&other.groups(), other.scale()))
    }

    /// Divides by a number other than zero; half is rounded away from zero.
    pub(super) fn over_to(&self, other: &Decimal, scale: u32) -> Result<Decimal, SqlError> {
        if let (Some(above), Some(below)) = (self.mantissa(), other.mantissa())
            && let Some(more) = (scale + other.scale()).checked_sub(self.scale())
            && let Some(power) = POWERS.get(more as usize)
            && let Some(above) = above.checked_mul(*power)
            && let Some(quotient) = above.checked_div(below)
        {
            let rest = (above % below).unsigned_abs();
            let up = i128::from(rest >= below.unsigned_abs() - rest);
            let up = if (above < 0) == (below < 0) { up } else { -up };
            return Ok(Decimal::small(quotient + up, scale as u16));
        }
        Decimal::of(self.wide().over(&other.wide(), scale))
    }

    /// Returns the whole part of a quotient by a number other than zero.
    pub(super) fn whole_quotient(&self, other: &Decimal) -> Result<Decimal, SqlError> {
        let (a, b, _) = self.aligned(other);
        Decimal::of(Wide::of(big::divided(&a, &b).0, 0))
    }

    /// Returns the rest of a division by a number other than zero.
    pub(super) fn rest(&self, other: &Decimal) -> Result<Decimal, SqlError> {
        self.combined(other, i128::checked_rem, |a, b| big::divided(&a, &b).1)
    }

    pub(super) fn gcd(&self, other: &Decimal) -> Result<Decimal, SqlError> {
        let (a, b, scale) = self.aligned(other);
        Decimal::of(Wide { digits: common_divisor(a, b), scale })
    }

    pub(super) fn lcm(&self, other: &Decimal) -> Result<Decimal, SqlError> {
        let (a, b, scale) = self.aligned(other);
        if a.sign() == Sign::NoSign || b.sign() == Sign::NoSign {
            return Ok(Decimal::small(0, scale as u16));
        }
        let part = big::divided(&a, &common_divisor(a.clone(), b.clone())).0;
        let digits = big::product(&part, &b).magnitude().clone().into();
        Decimal::of(Wide { digits, scale })
    }
}

/// Returns the scale of a quotient: at least sixteen significant digits, estimated by the first
/// groups of four digits, and no fewer decimal places than either side.
pub(super) fn quotient_scale(above: (&Groups, u32), below: (&Groups, u32)) -> u32 {
    let (a, b) = (above.0, below.0);
    let weight = a.weight - b.weight - i64::from(a.first <= b.first);
    let scale = SIGNIFICANT_DIGITS - weight * 4;
    scale.max(above.1.into()).max(below.1.into()).clamp(0, MOST_COMPUTED_SCALE) as u32
}

fn common_divisor(a: BigInt, b: BigInt) -> BigInt {
    big::counted(a.bits() + b.bits(), || {
        let (mut a, mut b) = (a, b);
        while b.sign() != Sign::NoSign {
            let rest = big::divided(&a, &b).1;
            (a, b) = (b, rest);
        }
        a.magnitude().clone().into()
    })
}

/// Returns the product of the numbers from one to another. Fails with 22003 for a negative one, or
/// if the product is too large.
pub(crate) fn factorial(n: i64) -> Result<Numeric, SqlError> {
    match n {
        ..0 => {
            let message = "factorial of a negative number is undefined";
            Err(SqlError::new(state::OUT_OF_RANGE, message))
        }
        0..=LARGEST_FACTORIAL => {
            let digits = big::product_of(1, n.max(1) as u64);
            Decimal::of(Wide::of(digits, 0)).map(Numeric::Finite)
        }
        _ => Err(overflow()),
    }
}
