//! Covariance, correlation and linear regression of pairs of floats.
//!
//! The sums are updated by the method of Youngs and Cramer, as PostgreSQL does, so that the results
//! agree in their last digits.

use super::{Accumulator, Function};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::function::Out;
use crate::function::of::*;
use crate::memory::Held;
use crate::number;
use crate::types::Type;

pub(super) const FUNCTIONS: &[Function] = &[
    row("corr", A_FLOAT8, |_| of(corr)),
    row("covar_pop", A_FLOAT8, |_| of(|s| some(s.sxy / s.count))),
    row("covar_samp", A_FLOAT8, |_| of(covar_samp)),
    row("regr_avgx", A_FLOAT8, |_| of(|s| some(s.sx / s.count))),
    row("regr_avgy", A_FLOAT8, |_| of(|s| some(s.sy / s.count))),
    row("regr_count", AN_INT8, |_| super::basic::count(Type::Int8)),
    row("regr_intercept", A_FLOAT8, |_| of(intercept)),
    row("regr_r2", A_FLOAT8, |_| of(r2)),
    row("regr_slope", A_FLOAT8, |_| of(slope)),
    row("regr_sxx", A_FLOAT8, |_| of(|s| some(s.sxx))),
    row("regr_sxy", A_FLOAT8, |_| of(|s| some(s.sxy))),
    row("regr_syy", A_FLOAT8, |_| of(|s| some(s.syy))),
];

/// A function of y and x.
const fn row(name: &'static str, result: Out, start: fn(Type) -> Box<dyn Accumulator>) -> Function {
    Function::new(name, &[FLOAT8, FLOAT8], result, start)
}

/// The number of pairs, the sums of x and y, and the sums of the products of their deviations.
#[derive(Clone, Copy, Default)]
struct Sums {
    count: f64,
    sx: f64,
    sxx: f64,
    sy: f64,
    syy: f64,
    sxy: f64,
}

struct Regression {
    sums: Sums,
    result: fn(&Sums) -> Option<f64>,
}

fn of(result: fn(&Sums) -> Option<f64>) -> Box<dyn Accumulator> {
    Box::new(Regression { sums: Sums::default(), result })
}

impl Sums {
    fn add(&mut self, y: f64, x: f64) -> Result<(), SqlError> {
        let before = *self;
        self.count += 1.0;
        self.sx += x;
        self.sy += y;
        if before.count > 0.0 {
            let (dx, dy) = (x * self.count - self.sx, y * self.count - self.sy);
            let scale = 1.0 / (self.count * before.count);
            self.sxx += dx * dx * scale;
            self.syy += dy * dy * scale;
            self.sxy += dx * dy * scale;
            // An infinite sum of finite values is an overflow; of infinite values it is NaN.
            let (x_is, y_is) = (
                before.sx.is_infinite() || x.is_infinite(),
                before.sy.is_infinite() || y.is_infinite(),
            );
            let cross = self.sxy.is_infinite();
            if (self.sxx.is_infinite() || cross) && !x_is
                || (self.syy.is_infinite() || cross) && !y_is
            {
                return Err(number::overflow(Type::Float8));
            }
            for sum in [&mut self.sxx, &mut self.syy, &mut self.sxy] {
                if sum.is_infinite() {
                    *sum = f64::NAN;
                }
            }
        } else {
            if !x.is_finite() {
                (self.sxx, self.sxy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.syy, self.sxy) = (f64::NAN, f64::NAN);
            }
        }
        Ok(())
    }
}

impl Accumulator for Regression {
    fn add(&mut self, args: &[Datum], _: &mut Held) -> Result<(), SqlError> {
        match args {
            [Datum::Float8(y), Datum::Float8(x)] => self.sums.add(*y, *x),
            _ => Ok(()),
        }
    }

    fn value(&self) -> Result<Datum, SqlError> {
        if self.sums.count < 1.0 {
            return Ok(Datum::Null);
        }
        Ok((self.result)(&self.sums).map_or(Datum::Null, Datum::Float8))
    }
}

fn some(x: f64) -> Option<f64> {
    Some(x)
}

fn corr(s: &Sums) -> Option<f64> {
    (s.sxx != 0.0 && s.syy != 0.0).then(|| s.sxy / (s.sxx * s.syy).sqrt())
}

fn covar_samp(s: &Sums) -> Option<f64> {
    (s.count >= 2.0).then(|| s.sxy / (s.count - 1.0))
}

fn slope(s: &Sums) -> Option<f64> {
    (s.sxx != 0.0).then(|| s.sxy / s.sxx)
}

fn intercept(s: &Sums) -> Option<f64> {
    (s.sxx != 0.0).then(|| (s.sy - s.sx * s.sxy / s.sxx) / s.count)
}

fn r2(s: &Sums) -> Option<f64> {
    match (s.sxx == 0.0, s.syy == 0.0) {
        (true, _) => None,
        (false, true) => Some(1.0),
        _ => Some((s.sxy * s.sxy) / (s.sxx * s.syy)),
    }
}
