//! Variances and standard deviations; the average of floats.
//!
//! Whole numbers and numerics are summed exactly: `variance = (n Σx² - (Σx)²) / (n (n - 1))`, with
//! PostgreSQL's scale of the quotient. Floats follow the method of Youngs and Cramer, as in
//! PostgreSQL, so that the results agree in their last digits.

use super::{Accumulator, Function};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::function::of::*;
use crate::memory::Held;
use crate::number;
use crate::types::Type;
use num_bigint::{BigInt, Sign};
use rust_decimal::Decimal;

/// The rows of one function: of whole numbers and numerics, and of floats.
macro_rules! rows {
    ($($name:literal $sample:literal $root:literal),*) => {
        &[
            Function::new("avg", &[FLOAT8], A_FLOAT8, |_| Box::new(Floats::of(Moment::Average))),
            $(
                Function::new($name, &[INT2], A_NUMERIC, |_| Box::new(Exact::of($sample, $root))),
                Function::new($name, &[INT4], A_NUMERIC, |_| Box::new(Exact::of($sample, $root))),
                Function::new($name, &[INT8], A_NUMERIC, |_| Box::new(Exact::of($sample, $root))),
                Function::new($name, &[NUMERIC], A_NUMERIC, |_| Box::new(Exact::of($sample, $root))),
                Function::new($name, &[FLOAT8], A_FLOAT8, |_| {
                    Box::new(Floats::of(Moment::Variance { sample: $sample, root: $root }))
                }),
            )*
        ]
    };
}

pub(super) const FUNCTIONS: &[Function] = rows!(
    "var_pop" false false,
    "var_samp" true false,
    "variance" true false,
    "stddev_pop" false true,
    "stddev_samp" true true,
    "stddev" true true
);

/// The least number of significant digits of a quotient.
const SIGNIFICANT_DIGITS: i64 = 16;
/// The largest scale of a numeric.
const LARGEST_SCALE: u32 = 28;

/// The exact sums of numbers and of their squares.
struct Exact {
    /// True for an estimate from a sample: division by n - 1.
    sample: bool,
    /// True for the square root.
    root: bool,
    count: i64,
    /// The number of decimals of the sum; the squares have twice as many.
    scale: u32,
    sum: BigInt,
    squares: BigInt,
}

fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

impl Exact {
    fn of(sample: bool, root: bool) -> Exact {
        Exact { sample, root, count: 0, scale: 0, sum: BigInt::ZERO, squares: BigInt::ZERO }
    }

    /// Returns the quotient of the sums, and its scale.
    fn quotient(&self) -> (BigInt, u32) {
        let count = BigInt::from(self.count);
        let above = &count * &self.squares - &self.sum * &self.sum;
        let below = &count * BigInt::from(self.count - i64::from(self.sample));
        let places = self.scale * 2;
        if above.sign() != Sign::Plus {
            return (BigInt::ZERO, 0);
        }
        let ((weight_a, first_a), (weight_b, first_b)) =
            (weight(&above, places), weight(&below, 0));
        let quotient_weight = weight_a - weight_b - i64::from(first_a <= first_b);
        let scale = (SIGNIFICANT_DIGITS - quotient_weight * 4).max(places.into()).clamp(0, 1000);
        let scale = scale as u32;
        let (above, below) = (above * power_of_ten(scale), below * power_of_ten(places));
        (rounded(&above, &below), scale)
    }
}

/// Divides numbers above zero; half is rounded up.
fn rounded(above: &BigInt, below: &BigInt) -> BigInt {
    (above * 2 + below) / (below * 2)
}

/// Returns the weight of the first group of four digits, and that group.
fn weight(n: &BigInt, places: u32) -> (i64, u32) {
    let padding = (4 - places % 4) % 4;
    let digits = (n * power_of_ten(padding)).to_string();
    let first = match digits.len() % 4 {
        0 => 4,
        length => length,
    };
    let groups = digits.len().div_ceil(4) as i64;
    (groups - 1 - i64::from((places + padding) / 4), digits[..first].parse().unwrap_or(0))
}

/// Returns a numeric, with fewer decimals if there is no room for all.
fn numeric(mantissa: BigInt, scale: u32) -> Result<Datum, SqlError> {
    for kept in (0..=scale.min(LARGEST_SCALE)).rev() {
        let fitting = rounded(&mantissa, &power_of_ten(scale - kept));
        if let Ok(mantissa) = i128::try_from(&fitting)
            && let Ok(n) = Decimal::try_from_i128_with_scale(mantissa, kept)
        {
            return Ok(Datum::Numeric(n));
        }
    }
    Err(number::overflow(Type::Numeric(None)))
}

impl Accumulator for Exact {
    fn add(&mut self, args: &[Datum], _: &mut Held) -> Result<(), SqlError> {
        let [value] = args else { return Ok(()) };
        let value = number::to_decimal(value)?;
        if value.scale() > self.scale {
            let more = value.scale() - self.scale;
            self.sum *= power_of_ten(more);
            self.squares *= power_of_ten(more * 2);
            self.scale = value.scale();
        }
        let value = BigInt::from(value.mantissa()) * power_of_ten(self.scale - value.scale());
        self.count += 1;
        self.squares += &value * &value;
        self.sum += value;
        Ok(())
    }

    fn value(&self) -> Result<Datum, SqlError> {
        if self.count <= i64::from(self.sample) {
            return Ok(Datum::Null);
        }
        let (variance, scale) = self.quotient();
        if !self.root {
            return numeric(variance, scale);
        }
        let square = variance * power_of_ten(scale);
        let root = square.sqrt();
        let up = &square - &root * &root > root;
        numeric(root + i32::from(up), scale)
    }
}

/// The result of [`Floats`].
#[derive(Clone, Copy)]
enum Moment {
    Average,
    Variance { sample: bool, root: bool },
}

/// The number of floats, their sum, and the sum of the squares of their deviations.
struct Floats {
    moment: Moment,
    count: f64,
    sum: f64,
    squares: f64,
}

impl Floats {
    fn of(moment: Moment) -> Floats {
        Floats { moment, count: 0.0, sum: 0.0, squares: 0.0 }
    }
}

impl Accumulator for Floats {
    fn add(&mut self, args: &[Datum], _: &mut Held) -> Result<(), SqlError> {
        let [Datum::Float8(x)] = args else { return Ok(()) };
        let (count, sum) = (self.count, self.sum);
        self.count += 1.0;
        self.sum += x;
        if count > 0.0 {
            let deviation = x * self.count - self.sum;
            self.squares += deviation * deviation / (self.count * count);
            if self.sum.is_infinite() || self.squares.is_infinite() {
                // An infinite sum of finite values is an overflow; of infinite values it is NaN.
                if !sum.is_infinite() && !x.is_infinite() {
                    return Err(number::overflow(Type::Float8));
                }
                self.squares = f64::NAN;
            }
        } else if !x.is_finite() {
            self.squares = f64::NAN;
        }
        Ok(())
    }

    fn value(&self) -> Result<Datum, SqlError> {
        let value = match self.moment {
            _ if self.count == 0.0 => return Ok(Datum::Null),
            Moment::Average => self.sum / self.count,
            Moment::Variance { sample: true, .. } if self.count <= 1.0 => return Ok(Datum::Null),
            Moment::Variance { sample, root } => {
                let variance = self.squares / (self.count - if sample { 1.0 } else { 0.0 });
                if root { variance.sqrt() } else { variance }
            }
        };
        Ok(Datum::Float8(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::QueryMemory;
    use std::sync::Arc;

    fn value(mut of: impl Accumulator, values: &[Datum]) -> String {
        let mut held = Held::none(&Arc::new(QueryMemory::default()));
        for value in values {
            of.add(std::slice::from_ref(value), &mut held).expect("a number");
        }
        of.value().expect("a value").to_text(Type::Numeric(None)).unwrap_or_else(|| "NULL".into())
    }

    #[test]
    fn exact_moments_have_the_digits_of_postgresql() {
        let whole = |values: &[i64]| values.iter().map(|n| Datum::Int8(*n)).collect::<Vec<_>>();
        let decimal = |text: &str| Datum::from_text(Type::Numeric(None), text).expect("a numeric");
        let decimals = |texts: &[&str]| texts.iter().map(|text| decimal(text)).collect::<Vec<_>>();
        for (sample, root, values, expected) in [
            (true, false, whole(&[]), "NULL"),
            (true, false, whole(&[5]), "NULL"),
            (false, false, whole(&[5]), "0"),
            (false, false, whole(&[1, 2]), "0.25000000000000000000"),
            (false, false, whole(&[1, 2, 3]), "0.66666666666666666667"),
            (true, false, whole(&[1, 2, 3, 4]), "1.6666666666666667"),
            (true, true, whole(&[1, 2, 3, 4]), "1.2909944487358056"),
            (true, false, decimals(&["1.50", "2.50", "0.25", "3.00"]), "1.4739583333333333"),
            (true, false, decimals(&["0.1", "100"]), "4990.0050000000000000"),
        ] {
            let found = value(Exact::of(sample, root), &values);
            assert_eq!(found, expected, "{values:?}, sample {sample}, root {root}");
        }
    }

    #[test]
    fn overflowing_floats_are_an_error_and_infinite_ones_are_not() {
        let mut held = Held::none(&Arc::new(QueryMemory::default()));
        let mut floats = Floats::of(Moment::Average);
        floats.add(&[Datum::Float8(1e300)], &mut held).expect("one");
        let error = floats.add(&[Datum::Float8(-1e300)], &mut held).expect_err("its square");
        assert_eq!(error.sqlstate, crate::error::state::OUT_OF_RANGE);
        let mut floats = Floats::of(Moment::Average);
        for x in [f64::INFINITY, 1.0] {
            floats.add(&[Datum::Float8(x)], &mut held).expect("a float");
        }
        assert_eq!(floats.value(), Ok(Datum::Float8(f64::INFINITY)));
    }
}
