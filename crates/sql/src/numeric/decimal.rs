//! The forms of a finite number, and its rounding.

use super::big::{self, POWERS, power_of_ten};
use super::{MOST_SCALE, MOST_WHOLE, overflow};
use crate::error::SqlError;
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;
use std::sync::Arc;

/// A finite number of a scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Decimal(Form);

/// Invariant: a number that 128 bits hold is a small one, so that each has one form.
#[derive(Clone, Debug, PartialEq)]
enum Form {
    /// The halves of a whole number of 128 bits, which would be aligned to as many.
    Small { high: i64, low: u64, scale: u16 },
    /// Any other.
    Large(Arc<Wide>),
}

/// A number in computation: `digits / 10^scale`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wide {
    pub(super) digits: BigInt,
    pub(super) scale: u32,
}

impl Wide {
    pub(super) fn of(digits: impl Into<BigInt>, scale: u32) -> Wide {
        Wide { digits: digits.into(), scale }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.sign() == Sign::NoSign
    }

    /// Returns the digits at a scale that is not below its own.
    pub(super) fn digits_at(&self, scale: u32) -> BigInt {
        match scale - self.scale {
            0 => self.digits.clone(),
            more => big::product(&self.digits, &power_of_ten(more)),
        }
    }

    /// Returns it with this scale; half is rounded away from zero.
    pub(super) fn at_scale(self, scale: u32) -> Wide {
        match self.scale.cmp(&scale) {
            Ordering::Equal => self,
            Ordering::Less => Wide { digits: self.digits_at(scale), scale },
            Ordering::Greater => {
                let unit = power_of_ten(self.scale - scale);
                Wide { digits: big::divided_rounded(&self.digits, &unit), scale }
            }
        }
    }

    pub(super) fn times(&self, other: &Wide) -> Wide {
        let digits = big::product(&self.digits, &other.digits);
        Wide { digits, scale: self.scale + other.scale }
    }

    /// Divides by a number other than zero; half is rounded away from zero.
    pub(super) fn over(&self, other: &Wide, scale: u32) -> Wide {
        let (above, below) = match (scale + other.scale).checked_sub(self.scale) {
            Some(more) => (big::product(&self.digits, &power_of_ten(more)), other.digits.clone()),
            None => {
                let more = power_of_ten(self.scale - scale - other.scale);
                (self.digits.clone(), big::product(&other.digits, &more))
            }
        };
        Wide { digits: big::divided_rounded(&above, &below), scale }
    }

    /// Returns the place of the first digit: 0 for ones, 1 for tens; `None` for zero.
    pub(super) fn first_place(&self) -> Option<i64> {
        let count = i64::from(big::count_digits(&self.digits));
        (count > 0).then(|| count - 1 - i64::from(self.scale))
    }

    /// Returns the first digits, at most 30 of them, and the place of the last of these.
    fn leading(&self) -> (i128, i64) {
        let count = big::count_digits(&self.digits);
        let dropped = count.saturating_sub(30);
        let digits = match dropped {
            0 => self.digits.clone(),
            _ => big::divided(&self.digits, &power_of_ten(dropped)).0,
        };
        (i128::try_from(digits).unwrap_or(0), i64::from(dropped) - i64::from(self.scale))
    }

    /// Returns PostgreSQL's weight of the number, and its first digits in base 10000.
    pub(super) fn groups(&self) -> Groups {
        let (leading, place) = self.leading();
        Groups::of(leading.unsigned_abs(), place)
    }

    /// Returns the nearest float, almost.
    pub(super) fn to_f64(&self) -> f64 {
        let (leading, place) = self.leading();
        format!("{leading}e{place}").parse().unwrap_or(0.0)
    }
}

/// The first digits of a number in base 10000, as scales depend on them.
pub(super) struct Groups {
    /// The place of the first group: 0 for that before the point.
    pub(super) weight: i64,
    /// The first group; 0 for zero.
    pub(super) first: u32,
    /// The leading digits, and the place of the last of them.
    leading: u128,
    place: i64,
}

impl Groups {
    fn of(leading: u128, place: i64) -> Groups {
        let Some(log) = leading.checked_ilog10() else {
            return Groups { weight: 0, first: 0, leading, place };
        };
        let first_place = i64::from(log) + place;
        let count = first_place.rem_euclid(4) as u32 + 1;
        let first = match (log + 1).checked_sub(count) {
            Some(rest) => leading / 10u128.pow(rest),
            None => leading * 10u128.pow(count - log - 1),
        };
        Groups { weight: first_place.div_euclid(4), first: first as u32, leading, place }
    }

    /// Returns the first groups as one whole number, and the place of its last digit.
    pub(super) fn several(&self, count: u32) -> (f64, i64) {
        // A number that ends before has fewer groups.
        let mut end = (self.weight + 1 - i64::from(count)) * 4;
        let unit = |end: i64| 10u128.checked_pow((end - self.place).max(0) as u32).unwrap_or(1);
        let mut digits = match end >= self.place {
            true => self.leading / unit(end),
            false => {
                end = end.max(self.place.div_euclid(4) * 4);
                self.leading * 10u128.pow((self.place - end).max(0) as u32)
            }
        };
        while digits > 0 && digits % 10_000 == 0 {
            (digits, end) = (digits / 10_000, end + 4);
        }
        (digits as f64, end)
    }
}

impl Decimal {
    pub(super) const fn small(mantissa: i128, scale: u16) -> Decimal {
        Decimal(Form::Small { high: (mantissa >> 64) as i64, low: mantissa as u64, scale })
    }

    /// Returns a number with its digits behind the largest scale rounded. Fails with 22003 if it
    /// has too many before the point.
    pub(super) fn of(wide: Wide) -> Result<Decimal, SqlError> {
        Decimal::unchecked(wide.scale.min(MOST_SCALE), wide).checked()
    }

    fn unchecked(scale: u32, wide: Wide) -> Decimal {
        let wide = wide.at_scale(scale);
        match i128::try_from(&wide.digits) {
            Ok(mantissa) => Decimal::small(mantissa, scale as u16),
            Err(_) => Decimal(Form::Large(Arc::new(wide))),
        }
    }

    /// Fails if it has more digits before the point than a number may have.
    pub(super) fn checked(self) -> Result<Decimal, SqlError> {
        match self.first_place() {
            Some(first) if first >= MOST_WHOLE => Err(overflow()),
            _ => Ok(self),
        }
    }

    pub(crate) fn scale(&self) -> u32 {
        match &self.0 {
            Form::Small { scale, .. } => (*scale).into(),
            Form::Large(wide) => wide.scale,
        }
    }

    /// Returns the digits as a whole number; `None` beyond 128 bits.
    pub(super) fn mantissa(&self) -> Option<i128> {
        match &self.0 {
            Form::Small { high, low, .. } => Some(i128::from(*high) << 64 | i128::from(*low)),
            Form::Large(_) => None,
        }
    }

    pub(super) fn wide(&self) -> Wide {
        match (&self.0, self.mantissa()) {
            (Form::Large(wide), _) => Wide::clone(wide),
            (Form::Small { scale, .. }, mantissa) => {
                Wide::of(mantissa.unwrap_or_default(), (*scale).into())
            }
        }
    }

    pub(crate) fn sign(&self) -> Ordering {
        match &self.0 {
            Form::Small { high, low, .. } => high.cmp(&0).then(low.cmp(&0)),
            Form::Large(wide) => match wide.digits.sign() {
                Sign::Minus => Ordering::Less,
                _ => Ordering::Greater,
            },
        }
    }

    /// Returns the place of the first digit: 0 for ones, 1 for tens; `None` for zero.
    pub(super) fn first_place(&self) -> Option<i64> {
        match (&self.0, self.mantissa()) {
            (Form::Large(wide), _) => wide.first_place(),
            (_, mantissa) => {
                let log = mantissa?.unsigned_abs().checked_ilog10()?;
                Some(i64::from(log) - i64::from(self.scale()))
            }
        }
    }

    pub(super) fn groups(&self) -> Groups {
        match (&self.0, self.mantissa()) {
            (Form::Large(wide), _) => wide.groups(),
            (_, mantissa) => {
                Groups::of(mantissa.unwrap_or_default().unsigned_abs(), -i64::from(self.scale()))
            }
        }
    }

    pub(super) fn behind(&self) -> usize {
        match &self.0 {
            Form::Small { .. } => 0,
            Form::Large(wide) => wide.digits.bits() as usize / 8 + 72,
        }
    }

    pub(super) fn to_f64(&self) -> f64 {
        // Both are exact then, and the quotient is the nearest.
        const EXACT: u128 = 1 << 53;
        if let Some(mantissa) = self.mantissa()
            && mantissa.unsigned_abs() <= EXACT
            && self.scale() <= 22
        {
            return mantissa as f64 / POWERS[self.scale() as usize] as f64;
        }
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    pub(super) fn order(&self, other: &Decimal) -> Ordering {
        if let (Some(a), Some(b)) = (self.mantissa(), other.mantissa())
            && let Some((a, b, _)) = aligned(a, self.scale(), b, other.scale())
        {
            return a.cmp(&b);
        }
        let by_sign = self.sign().cmp(&other.sign());
        if by_sign.is_ne() {
            return by_sign;
        }
        let by_place = self.first_place().cmp(&other.first_place());
        match (by_place, self.sign()) {
            (Ordering::Equal, _) => {
                let (a, b) = (self.wide(), other.wide());
                let scale = a.scale.max(b.scale);
                a.digits_at(scale).cmp(&b.digits_at(scale))
            }
            (by_place, Ordering::Less) => by_place.reverse(),
            (by_place, _) => by_place,
        }
    }

    pub(super) fn negated(&self) -> Decimal {
        match self.mantissa().map(i128::checked_neg) {
            Some(Some(mantissa)) => Decimal::small(mantissa, self.scale() as u16),
            _ => {
                let wide = self.wide();
                Decimal::unchecked(wide.scale, Wide { digits: -wide.digits, ..wide })
            }
        }
    }

    /// Rounds to decimal places, half away from zero.
    pub(super) fn round(&self, places: i64) -> Decimal {
        self.to_places(
            places,
            |above, below| {
                let (quotient, rest) = (above / below, above % below);
                let is_up = rest.unsigned_abs() >= below.unsigned_abs() - rest.unsigned_abs();
                quotient + if is_up { above.signum() } else { 0 }
            },
            big::divided_rounded,
        )
    }

    /// Drops the digits behind some decimal places.
    pub(super) fn truncated(&self, places: i64) -> Decimal {
        self.to_places(places, |above, below| above / below, |a, b| big::divided(a, b).0)
    }

    pub(super) fn floor(&self) -> Decimal {
        self.to_places(0, i128::div_euclid, |above, below| {
            let (quotient, rest) = big::divided(above, below);
            if rest.sign() == Sign::Minus { quotient - 1 } else { quotient }
        })
    }

    /// Returns it with these places, by a division of its digits if it has more; with none, and
    /// zeros before the point, for a negative number.
    fn to_places(
        &self,
        places: i64,
        small: fn(i128, i128) -> i128,
        large: fn(&BigInt, &BigInt) -> BigInt,
    ) -> Decimal {
        let scale = places.max(0) as u32;
        let dropped = i64::from(self.scale()) - places;
        if dropped == 0 {
            return self.clone();
        }
        if let Some(mantissa) = self.mantissa() {
            let power = POWERS.get(dropped.unsigned_abs() as usize).copied();
            let zeros = POWERS.get((-places).max(0) as usize).copied();
            let digits = match (dropped > 0, power, zeros) {
                (true, Some(unit), Some(zeros)) => small(mantissa, unit).checked_mul(zeros),
                (false, Some(unit), _) => mantissa.checked_mul(unit),
                _ => None,
            };
            if let Some(digits) = digits {
                return Decimal::small(digits, scale as u16);
            }
        }
        let wide = self.wide();
        let digits = match dropped {
            1.. => {
                let units = large(&wide.digits, &power_of_ten(dropped as u32));
                match units.sign() {
                    Sign::NoSign => units,
                    _ => big::product(&units, &power_of_ten((-places).max(0) as u32)),
                }
            }
            _ => wide.digits_at(scale),
        };
        Decimal::unchecked(scale, Wide { digits, scale })
    }

    /// Drops the zeros at the end of the digits behind the point.
    pub(super) fn trimmed(&self) -> Decimal {
        let Some(mut mantissa) = self.mantissa() else {
            let wide = self.wide();
            let digits = big::digits_of(&wide.digits);
            let zeros = (digits.len() - digits.trim_end_matches('0').len()) as u32;
            return self.truncated(wide.scale.saturating_sub(zeros).into());
        };
        let mut scale = if mantissa == 0 { 0 } else { self.scale() as u16 };
        while scale > 0 && mantissa % 10 == 0 {
            (mantissa, scale) = (mantissa / 10, scale - 1);
        }
        Decimal::small(mantissa, scale)
    }
}

/// Returns two numbers with a common scale, if 128 bits hold both.
pub(super) fn aligned(a: i128, of_a: u32, b: i128, of_b: u32) -> Option<(i128, i128, u32)> {
    if of_a == of_b {
        return Some((a, b, of_a));
    }
    let power = *POWERS.get(of_a.abs_diff(of_b) as usize)?;
    match of_a < of_b {
        true => Some((a.checked_mul(power)?, b, of_b)),
        false => Some((a, b.checked_mul(power)?, of_a)),
    }
}
