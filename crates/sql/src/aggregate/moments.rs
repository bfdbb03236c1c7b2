//! Variances and standard deviations; the average of floats.
//!
//! Whole numbers and numerics are summed exactly. Floats follow the method of Youngs and Cramer, as
//! in PostgreSQL, so that the results agree in their last digits.

use super::{Accumulator, Function};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::function::of::*;
use crate::memory::Held;
use crate::number;
use crate::numeric::Moments;
use crate::types::Type;

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

/// The exact variance of numbers.
struct Exact {
    /// True for an estimate from a sample: division by n - 1.
    sample: bool,
    /// True for the square root.
    root: bool,
    moments: Moments,
}

impl Exact {
    fn of(sample: bool, root: bool) -> Exact {
        Exact { sample, root, moments: Moments::none() }
    }
}

impl Accumulator for Exact {
    fn add(&mut self, args: &[Datum], held: &mut Held) -> Result<(), SqlError> {
        let [value] = args else { return Ok(()) };
        let before = self.moments.behind();
        self.moments.add(&*number::to_numeric(value)?);
        held.add(self.moments.behind().saturating_sub(before))
    }

    fn value(&self) -> Result<Datum, SqlError> {
        let variance = self.moments.variance(self.sample, self.root)?;
        Ok(variance.map_or(Datum::Null, Datum::Numeric))
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
