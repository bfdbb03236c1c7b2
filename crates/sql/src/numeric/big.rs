//! Whole numbers of any size, and their decimal digits.
//!
//! An operation that may take milliseconds counts steps for its operands, so that it can be
//! interrupted, and is computed apart from the thread's other tasks. A computation of many such
//! operations is apart as a whole: inside it they go on where they are.

use crate::interrupt;
use num_bigint::{BigInt, Sign};

/// The powers of ten that 128 bits hold.
pub(super) const POWERS: [i128; 39] = {
    let mut powers = [1; 39];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// The digits that are converted at once; more are halved first.
const PART: usize = 400;
/// The bits of operands from which a computation may take milliseconds.
const LARGE_BITS: u64 = 30_000;
/// The bits of an operand for each step.
const BITS_PER_STEP: u64 = 256;

pub(super) fn power_of_ten(exponent: u32) -> BigInt {
    match POWERS.get(exponent as usize) {
        Some(power) => BigInt::from(*power),
        None => BigInt::from(5).pow(exponent) << exponent,
    }
}

/// Computes with operands of some bits together.
pub(super) fn counted<T>(bits: u64, f: impl FnOnce() -> T) -> T {
    (0..=bits / BITS_PER_STEP).for_each(|_| interrupt::step());
    if bits < LARGE_BITS { f() } else { interrupt::apart(f) }
}

pub(super) fn product(a: &BigInt, b: &BigInt) -> BigInt {
    counted(a.bits() + b.bits(), || a * b)
}

/// Returns the quotient, rounded towards zero, and the rest.
pub(super) fn divided(above: &BigInt, below: &BigInt) -> (BigInt, BigInt) {
    counted(above.bits() + below.bits(), || {
        let quotient = above / below;
        let rest = above - &quotient * below;
        (quotient, rest)
    })
}

/// Returns the quotient; half is rounded away from zero.
pub(super) fn divided_rounded(above: &BigInt, below: &BigInt) -> BigInt {
    let (quotient, rest) = divided(above, below);
    let is_up = (rest.magnitude() << 1u8) >= *below.magnitude();
    match (is_up, above.sign() == below.sign()) {
        (false, _) => quotient,
        (true, true) => quotient + 1,
        (true, false) => quotient - 1,
    }
}

/// Returns the root of a number that is not negative, rounded down.
pub(super) fn root(square: &BigInt) -> BigInt {
    counted(square.bits(), || square.sqrt())
}

/// Returns the number of decimal digits; zero has none.
pub(super) fn count_digits(n: &BigInt) -> u32 {
    /// log10(2), in fractions of 2^64.
    const LOG: u128 = 5_553_023_288_523_357_132;
    let digits = |bits: u64| ((u128::from(bits) * LOG) >> 64) as u32 + 1;
    let bits = n.bits();
    if bits == 0 {
        return 0;
    }
    // Those of the least and of the greatest number of so many bits.
    let (least, most) = (digits(bits - 1), digits(bits));
    if least == most || *n.magnitude() < *power_of_ten(least).magnitude() { least } else { most }
}

/// Returns the digits of a magnitude; zero has none.
pub(super) fn digits_of(n: &BigInt) -> String {
    counted(n.bits(), || halved_digits_of(n))
}

fn halved_digits_of(n: &BigInt) -> String {
    let magnitude = BigInt::from(n.magnitude().clone());
    // Powers of ten, each the square of the one before.
    let mut powers: Vec<BigInt> = Vec::new();
    let mut width = PART;
    while magnitude.bits() > 3 * width as u64 {
        powers.push(power_of_ten(width as u32));
        width *= 2;
    }
    let mut out = String::new();
    if magnitude.sign() != Sign::NoSign {
        write_digits(&magnitude, &powers, false, &mut out);
    }
    out
}

/// Appends the digits of a number; with zeros before it, twice as many as the last power has.
fn write_digits(n: &BigInt, powers: &[BigInt], is_padded: bool, out: &mut String) {
    let Some((power, smaller)) = powers.split_last() else {
        let digits = n.to_string();
        if is_padded {
            out.extend(std::iter::repeat_n('0', PART - digits.len()));
        }
        return out.push_str(&digits);
    };
    let (above, below) = divided(n, power);
    let starts = is_padded || above.sign() != Sign::NoSign;
    if starts {
        write_digits(&above, smaller, is_padded, out);
    }
    write_digits(&below, smaller, starts, out);
}

/// Returns the number that decimal digits are.
pub(super) fn of_digits(digits: &[u8]) -> BigInt {
    counted(digits.len() as u64 * 3, || of_halved_digits(digits))
}

fn of_halved_digits(digits: &[u8]) -> BigInt {
    if digits.len() <= PART {
        return BigInt::parse_bytes(digits, 10).unwrap_or(BigInt::ZERO);
    }
    let mut below = PART;
    while below * 2 < digits.len() {
        below *= 2;
    }
    let (first, last) = digits.split_at(digits.len() - below);
    product(&of_halved_digits(first), &power_of_ten(below as u32)) + of_halved_digits(last)
}

/// Returns the product of the whole numbers of a range; they are above zero.
pub(super) fn product_of(first: u64, last: u64) -> BigInt {
    match last - first {
        0 => BigInt::from(first),
        1 => BigInt::from(first) * last,
        distance => {
            let middle = first + distance / 2;
            product(&product_of(first, middle), &product_of(middle + 1, last))
        }
    }
}
