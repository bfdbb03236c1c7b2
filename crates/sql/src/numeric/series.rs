//! Exponentials and logarithms to any precision.
//!
//! A number is computed as a whole number of units of `2^-bits`: products and shifts need no
//! division. Arguments are brought near to zero or one first, so that a few terms of a series do;
//! each such step loses bits, which are added before.

use super::big::{self, power_of_ten};
use super::decimal::Wide;
use crate::interrupt;
use num_bigint::{BigInt, Sign};

/// The bits beyond those that a result needs: it is off by a unit of its last digit only where
/// the next ten digits of the true value are zeros or nines.
const SPARE_BITS: u64 = 40;

/// Returns the bits of some decimal digits, rounded up.
fn bits_of(digits: u64) -> u64 {
    digits * 3322 / 1000 + 4
}

/// Returns the arguments' reduction that costs least: half as many products of a series for as
/// many roots or squares.
fn reduction(bits: u64) -> u64 {
    (bits as f64).sqrt() as u64 / 2 + 3
}

/// Returns `digits / 10^scale * 2^bits`.
fn to_binary(n: &Wide, bits: u64) -> BigInt {
    big::divided(&(&n.digits << bits), &power_of_ten(n.scale)).0
}

/// Returns `n / 2^bits` with a scale; half is rounded away from zero.
fn to_decimal(n: &BigInt, bits: u64, scale: u32) -> Wide {
    let digits = big::product(n, &power_of_ten(scale));
    Wide { digits: big::divided_rounded(&digits, &(BigInt::from(1) << bits)), scale }
}

/// Returns the artanh of `1 / n`.
fn artanh_of_part(n: u32, bits: u64) -> BigInt {
    let mut power = (BigInt::from(1) << bits) / n;
    let mut sum = power.clone();
    let mut odd = 1u32;
    while power.sign() != Sign::NoSign {
        interrupt::step();
        (power, odd) = (power / (n * n), odd + 2);
        sum += &power / odd;
    }
    sum
}

/// Returns the natural logarithm of two.
fn ln_2(bits: u64) -> BigInt {
    let part = |n| artanh_of_part(n, bits + 8);
    (part(26) * 18 - part(4801) * 2 + part(8749) * 8) >> 8u8
}

/// Returns the exponential of a number with a scale. `weight` is at least the place of the
/// result's first digit.
pub(super) fn exp(n: &Wide, weight: i64, scale: u32) -> Wide {
    let digits = u64::try_from(weight + 2 + i64::from(scale)).unwrap_or(0);
    let halvings = reduction(bits_of(digits));
    // A unit of the argument is a unit of the result times its size.
    let bits = bits_of(digits) + 2 * halvings + SPARE_BITS + 32;
    let x = to_binary(n, bits);
    let ln_2 = ln_2(bits);
    let twos = (&x + (&ln_2 >> 1u8)) / &ln_2 - i32::from(x.sign() == Sign::Minus);
    let rest = (x - &twos * &ln_2) >> halvings;
    let one = BigInt::from(1) << bits;
    let (mut sum, mut term, mut number) = (one.clone(), one, 0u32);
    loop {
        number += 1;
        term = (big::product(&term, &rest) >> bits) / number;
        // A shift rounds down, so that a term below zero ends as -1.
        if term.bits() <= 1 {
            break;
        }
        sum += &term;
    }
    for _ in 0..halvings {
        sum = big::product(&sum, &sum) >> bits;
    }
    let digits = big::product(&sum, &power_of_ten(scale));
    let twos = i64::try_from(twos).unwrap_or(0);
    let shift = bits as i64 - twos;
    match u64::try_from(shift) {
        Ok(shift) => {
            Wide { digits: big::divided_rounded(&digits, &(BigInt::from(1) << shift)), scale }
        }
        Err(_) => Wide { digits: digits << shift.unsigned_abs(), scale },
    }
}

/// Returns the natural logarithm of a number above zero with a scale.
pub(super) fn ln(n: &Wide, scale: u32) -> Wide {
    let needed = bits_of(scale.into());
    let most_roots = reduction(needed);
    // The logarithm of the largest number is below 2^20.
    let bits = needed + most_roots + SPARE_BITS + 24;
    // The number is the part times a power of two; the part is between a half and two.
    let unit = power_of_ten(n.scale);
    let twos = n.digits.bits() as i64 - unit.bits() as i64;
    let shift = bits as i64 - twos;
    let (above, below) = match u64::try_from(shift) {
        Ok(shift) => (&n.digits << shift, unit),
        Err(_) => (n.digits.clone(), unit << shift.unsigned_abs()),
    };
    let mut part = big::divided(&above, &below).0;
    let one = BigInt::from(1) << bits;
    // A number near to one needs fewer.
    let near = bits.saturating_sub((&part - &one).bits());
    let roots = most_roots.saturating_sub(near);
    for _ in 0..roots {
        let square = part << bits;
        part = big::root(&square);
    }
    let (above, below) = (&part - &one, &part + &one);
    let z = big::divided(&(above << bits), &below).0;
    let square = big::product(&z, &z) >> bits;
    let (mut sum, mut power, mut odd) = (z.clone(), z, 1u32);
    loop {
        power = big::product(&power, &square) >> bits;
        odd += 2;
        if power.bits() <= 1 {
            break;
        }
        sum += &power / odd;
    }
    let part = sum << (roots + 1);
    let twos = if twos == 0 { BigInt::ZERO } else { ln_2(bits) * twos };
    to_decimal(&(part + twos), bits, scale)
}
