//! Roots, powers, exponentials and logarithms, with PostgreSQL's scales.
//!
//! A result has at least sixteen significant digits, by an estimate of its size that is
//! PostgreSQL's, and no fewer decimal places than the arguments.

use super::decimal::Wide;
use super::{
    Decimal, MOST_COMPUTED_SCALE, MOST_WHOLE, Numeric, SIGNIFICANT_DIGITS, big, by_zero, overflow,
    series,
};
use crate::error::SqlError;
use crate::number;
use Numeric::{Finite, Infinity, NaN, NegativeInfinity};
use std::cmp::Ordering;

/// The decimal logarithm of e, with PostgreSQL's digits.
#[expect(clippy::approx_constant, reason = "its last digits decide about scales")]
const LOG_E: f64 = 0.434294481903252;
/// The natural logarithm of ten.
const LN_10: f64 = std::f64::consts::LN_10;
/// The argument of an exponential from which it is an overflow, or zero.
const LARGEST_EXPONENT: f64 = 6000.0;
/// The largest such estimate for the argument of a power, of which eight digits are known.
const LARGEST_ESTIMATE: f64 = 6020.0;
/// The digits beyond those of a result that an intermediate one has.
const SPARE_DIGITS: i64 = 8;

/// Returns a scale for a result whose first digit is at a place, at least the scales of arguments.
fn scale_at(place: i64, least: &[u32]) -> u32 {
    let scale = least.iter().fold(SIGNIFICANT_DIGITS - place, |scale, of| scale.max((*of).into()));
    scale.clamp(0, MOST_COMPUTED_SCALE) as u32
}

fn not_negative(scale: i64) -> u32 {
    scale.max(0) as u32
}

impl Numeric {
    pub(crate) fn sqrt(&self) -> Result<Numeric, SqlError> {
        match self {
            _ if self.sign().is_lt() => Err(number::root_of_negative()),
            Finite(n) => {
                let place = (n.groups().weight + 1) * 4 / 2 - 1;
                n.root(scale_at(place, &[n.scale()])).map(Finite)
            }
            other => Ok(other.clone()),
        }
    }

    pub(crate) fn exp(&self) -> Result<Numeric, SqlError> {
        match self {
            Finite(n) => {
                let n = n.wide();
                let place = (n.to_f64() * LOG_E).clamp(-2000.0, 2000.0) as i64;
                let scale = scale_at(place, &[n.scale]);
                exp(&n, scale).and_then(Decimal::of).map(Finite)
            }
            NegativeInfinity => Ok(Numeric::of(0, 0)),
            other => Ok(other.clone()),
        }
    }

    pub(crate) fn ln(&self) -> Result<Numeric, SqlError> {
        number::check_logarithm(self.sign())?;
        match self {
            Finite(n) => {
                let scale = scale_at(ln_place(n), &[n.scale()]);
                Decimal::of(series::ln(&n.wide(), scale)).map(Finite)
            }
            other => Ok(other.clone()),
        }
    }

    /// Returns the logarithm to a base.
    pub(crate) fn log(&self, base: &Numeric) -> Result<Numeric, SqlError> {
        if let (NaN, _) | (_, NaN) = (self, base) {
            return Ok(NaN);
        }
        number::check_logarithm(base.sign())?;
        number::check_logarithm(self.sign())?;
        match (self, base) {
            (Finite(n), Finite(base)) => log(n, base).map(Finite),
            (Finite(_), _) => Ok(Numeric::of(0, 0)),
            (_, Finite(_)) => Ok(Infinity),
            _ => Ok(NaN),
        }
    }

    /// Raises it to a power.
    pub(crate) fn power(&self, exponent: &Numeric) -> Result<Numeric, SqlError> {
        let one = Numeric::of(1, 0);
        match (self, exponent) {
            (NaN, exponent) if exponent.is_zero() => return Ok(one),
            (base, NaN) if base.order(&one).is_eq() => return Ok(one),
            (NaN, _) | (_, NaN) => return Ok(NaN),
            _ => {}
        }
        if self.is_zero() && exponent.sign().is_lt() {
            return Err(number::negative_power_of_zero());
        }
        let is_whole = exponent.finite().is_none_or(Decimal::is_whole);
        if self.sign().is_lt() && !is_whole {
            return Err(number::complex_power());
        }
        match (self, exponent) {
            (Finite(base), Finite(exponent)) => power(base, exponent).map(Finite),
            _ => Ok(infinite_power(self, exponent)),
        }
    }
}

/// Returns a power of which the base or the exponent is infinite.
fn infinite_power(base: &Numeric, exponent: &Numeric) -> Numeric {
    let (zero, one) = (Numeric::of(0, 0), Numeric::of(1, 0));
    match (base.abs().order(&one), exponent) {
        _ if base.order(&one).is_eq() || exponent.is_zero() => one,
        // Of minus one.
        (Ordering::Equal, _) => one,
        _ if base.is_zero() => zero,
        (Ordering::Greater, Infinity) | (Ordering::Less, NegativeInfinity) => Infinity,
        (_, Infinity | NegativeInfinity) => zero,
        _ if exponent.sign().is_lt() => zero,
        _ => match (base, exponent) {
            (NegativeInfinity, Finite(n)) if n.is_odd() => NegativeInfinity,
            _ => Infinity,
        },
    }
}

impl Decimal {
    /// Returns the root of a number that is not negative.
    pub(super) fn root(&self, scale: u32) -> Result<Decimal, SqlError> {
        // A digit more than wanted, rounded down, tells how the root is rounded.
        let (square, more) = (self.wide(), scale + 1);
        let square = match square.scale.checked_sub(2 * more) {
            None | Some(0) => square.digits_at(2 * more),
            // The digits that are dropped do not change a root that is rounded down.
            Some(rest) => big::divided(&square.digits, &big::power_of_ten(rest)).0,
        };
        Decimal::of(Wide { digits: big::root(&square), scale: more }.at_scale(scale))
    }

    fn is_whole(&self) -> bool {
        self.truncated(0).order(self).is_eq()
    }

    /// True if a whole number is odd.
    fn is_odd(&self) -> bool {
        self.truncated(0).wide().digits.bit(0)
    }
}

/// Returns PostgreSQL's estimate of the place of the first digit of a logarithm.
fn ln_place(n: &Decimal) -> i64 {
    let (low, high) = (Decimal::small(9, 1), Decimal::small(11, 1));
    if n.order(&low).is_ge() && n.order(&high).is_le() {
        // ln(1 + x) is about x.
        let Ok(x) = n.minus(&Decimal::small(1, 0)) else { return 0 };
        let groups = x.groups();
        return match groups.first {
            0 => 0,
            first => groups.weight * 4 + i64::from(first.ilog10()),
        };
    }
    let (digits, place) = n.groups().several(2);
    (digits.ln() + place as f64 * LN_10).abs().log10() as i64
}

fn exp(n: &Wide, scale: u32) -> Result<Wide, SqlError> {
    let x = n.to_f64();
    if x >= LARGEST_EXPONENT {
        return Err(overflow());
    }
    let place = (x * LOG_E) as i64;
    // Far below half a unit of the last digit.
    if x <= -LARGEST_EXPONENT || place + i64::from(scale) < -2 {
        return Ok(Wide::of(0, scale));
    }
    Ok(series::exp(n, place + 1, scale))
}

fn log(n: &Decimal, base: &Decimal) -> Result<Decimal, SqlError> {
    let (base_place, place) = (ln_place(base), ln_place(n));
    let result_place = place - base_place;
    let scale = scale_at(result_place, &[base.scale(), n.scale()]);
    let more = i64::from(scale) + result_place + SPARE_DIGITS;
    let below = series::ln(&base.wide(), not_negative(more - base_place));
    let above = series::ln(&n.wide(), not_negative(more - place));
    if below.is_zero() {
        return Err(by_zero());
    }
    Decimal::of(above.over(&below, scale))
}

fn power(base: &Decimal, exponent: &Decimal) -> Result<Decimal, SqlError> {
    if exponent.is_whole()
        && let Some(whole) = exponent.truncated(0).mantissa()
        && let Ok(whole) = i32::try_from(whole)
    {
        return whole_power(base, whole);
    }
    if base.sign().is_eq() {
        return Ok(Decimal::small(0, SIGNIFICANT_DIGITS as u16));
    }
    let is_negative = base.sign().is_lt() && exponent.is_odd();
    let base = if base.sign().is_lt() { base.negated() } else { base.clone() };
    let (n, exponent) = (base.wide(), exponent.wide());
    // A logarithm of eight digits tells how large the result is.
    let ln_place = ln_place(&base);
    let product = |scale: u32| series::ln(&n, scale).times(&exponent).at_scale(scale);
    let estimate = product(not_negative(SPARE_DIGITS - ln_place)).to_f64();
    if estimate.abs() > LARGEST_ESTIMATE {
        return match estimate > 0.0 {
            true => Err(overflow()),
            false => Ok(Decimal::small(0, MOST_COMPUTED_SCALE as u16)),
        };
    }
    let place = (estimate * LOG_E) as i64;
    let scale = scale_at(place, &[n.scale, exponent.scale]);
    let digits = (i64::from(scale) + place).max(0);
    let value = exp(&product(not_negative(digits - ln_place + SPARE_DIGITS)), scale)?;
    Decimal::of(if is_negative { Wide { digits: -value.digits, ..value } } else { value })
}

/// Raises to a whole power by squares, which keep only the digits that the result has.
fn whole_power(base: &Decimal, exponent: i32) -> Result<Decimal, SqlError> {
    let scale = scale_at(0, &[base.scale()]);
    let n = base.wide();
    match exponent {
        0 => return Decimal::of(Wide::of(1, 0).at_scale(scale)),
        1 => return Decimal::of(n.at_scale(scale)),
        -1 if base.sign().is_eq() => return Err(by_zero()),
        -1 => return Decimal::of(Wide::of(1, 0).over(&n, scale)),
        2 => return Decimal::of(n.times(&n).at_scale(scale)),
        _ if base.sign().is_eq() && exponent < 0 => return Err(by_zero()),
        _ if base.sign().is_eq() => return Ok(Decimal::small(0, scale as u16)),
        _ => {}
    }
    let (digits, place) = base.groups().several(4);
    let size = f64::from(exponent) * (digits.log10() + place as f64);
    if size > 3.0 * MOST_WHOLE as f64 {
        return Err(overflow());
    }
    if size + 1.0 < -f64::from(scale) || size + 1.0 < -(MOST_COMPUTED_SCALE as f64) {
        return Ok(Decimal::small(0, scale as u16));
    }
    let spare = f64::from(exponent).abs().ln() as i64 + SPARE_DIGITS;
    let significant = 1 + i64::from(scale) + size as i64 + spare;
    let weight = |n: &Wide| n.first_place().map_or(0, |place| place.div_euclid(4));
    let kept = |weight: i64, scale: u32| not_negative((significant - weight * 4).min(scale.into()));
    let mut left = exponent.unsigned_abs();
    let mut square = n.clone();
    let mut result = if left & 1 == 1 { n } else { Wide::of(1, 0) };
    loop {
        left >>= 1;
        if left == 0 {
            break;
        }
        let to = kept(2 * weight(&square), 2 * square.scale);
        square = square.times(&square).at_scale(to);
        if left & 1 == 1 {
            let to = kept(weight(&square) + weight(&result), square.scale + result.scale);
            result = square.times(&result).at_scale(to);
        }
        if weight(&square).max(weight(&result)) * 4 >= MOST_WHOLE {
            return match exponent > 0 {
                true => Err(overflow()),
                false => Ok(Decimal::small(0, scale as u16)),
            };
        }
    }
    match exponent {
        ..0 if result.is_zero() => Err(by_zero()),
        ..0 => Decimal::of(Wide::of(1, 0).over(&result, scale)),
        _ => Decimal::of(result.at_scale(scale)),
    }
}
