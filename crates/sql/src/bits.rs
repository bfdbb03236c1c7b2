//! Values of `bit` and `bit varying`: strings of bits of any length.

use crate::error::{SqlError, state};
use crate::interrupt;
use crate::limits;
use crate::types::Type;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A string of bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    length: u32,
    /// The bits, the first in the highest bit of the first byte; zeros behind the last.
    bytes: Arc<[u8]>,
}

impl Bits {
    /// Returns the first bits of some bytes; `None` if there are fewer.
    pub(crate) fn of_bytes(length: u32, bytes: &[u8]) -> Option<Bits> {
        let mut bytes = bytes.get(..bytes_of(length))?.to_vec();
        if let (Some(last), rest @ 1..) = (bytes.last_mut(), length % 8) {
            *last &= 0xFF << (8 - rest);
        }
        Some(Bits { length, bytes: bytes.into() })
    }

    fn collect(bits: impl Iterator<Item = bool>) -> Bits {
        let (mut length, mut bytes) = (0u32, Vec::new());
        for bit in bits {
            if length.is_multiple_of(8) {
                interrupt::step();
                bytes.push(0);
            }
            if let Some(last) = bytes.last_mut() {
                *last |= u8::from(bit) << (7 - length % 8);
            }
            length += 1;
        }
        Bits { length, bytes: bytes.into() }
    }

    /// Parses `0101`, `b0101` or `x5F`. Fails with 22P02 for another digit, and with 54000 for too
    /// many.
    pub(crate) fn from_text(text: &str) -> Result<Bits, SqlError> {
        match text.as_bytes().first() {
            Some(b'x' | b'X') => Bits::of_hexadecimal(&text[1..]),
            Some(b'b' | b'B') => Bits::of_binary(&text[1..]),
            _ => Bits::of_binary(text),
        }
    }

    fn of_binary(digits: &str) -> Result<Bits, SqlError> {
        match digits.chars().find(|digit| !matches!(digit, '0' | '1')) {
            Some(digit) => Err(no_digit(digit, "binary")),
            None => {
                check_length(digits.len())?;
                Ok(Bits::collect(digits.bytes().map(|digit| digit == b'1')))
            }
        }
    }

    fn of_hexadecimal(digits: &str) -> Result<Bits, SqlError> {
        match digits.chars().find(|digit| !digit.is_ascii_hexdigit()) {
            Some(digit) => Err(no_digit(digit, "hexadecimal")),
            None => {
                check_length(4 * digits.len())?;
                let values = digits.chars().filter_map(|digit| digit.to_digit(16));
                Ok(Bits::collect(values.flat_map(|n| (0..4).rev().map(move |at| n >> at & 1 == 1))))
            }
        }
    }

    /// Returns the lowest bits of a number, with copies of its sign before them.
    pub(crate) fn of_number(n: i64, length: u32) -> Bits {
        Bits::collect((0..length).rev().map(|at| n >> at.min(63) & 1 == 1))
    }

    /// Returns the number that the bits are, of that many bits; `None` if there are more.
    pub(crate) fn number(&self, most: u32) -> Option<u64> {
        (self.length <= most).then(|| self.iter().fold(0, |n, bit| n << 1 | u64::from(bit)))
    }

    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = bool> + '_ {
        (0..self.length).map(|at| self.get(at))
    }

    /// Returns a bit, which is one of them.
    pub(crate) fn get(&self, at: u32) -> bool {
        self.bytes[(at / 8) as usize] >> (7 - at % 8) & 1 == 1
    }

    /// Returns it with another bit at a place, which is one of its places.
    pub(crate) fn with(&self, at: u32, bit: bool) -> Bits {
        Bits::collect((0..self.length).map(|place| if place == at { bit } else { self.get(place) }))
    }

    /// Returns that many bits: the first of them, and zeros behind them.
    pub(crate) fn resized(&self, length: u32) -> Bits {
        Bits::collect(self.iter().chain(std::iter::repeat(false)).take(length as usize))
    }

    /// Returns the bits in a range.
    pub(crate) fn part(&self, from: u32, to: u32) -> Bits {
        Bits::collect((from..to).map(|at| self.get(at)))
    }

    /// Returns its bits and those of another behind them. Fails with 54000 if they are too many.
    pub(crate) fn join(&self, other: &Bits) -> Result<Bits, SqlError> {
        let length = self.length as usize + other.length as usize;
        check_length(length)?;
        limits::check_value(length.div_ceil(8))?;
        Ok(Bits::collect(self.iter().chain(other.iter())))
    }

    /// Returns the bits inverted.
    pub(crate) fn inverted(&self) -> Bits {
        Bits::collect(self.iter().map(|bit| !bit))
    }

    /// Combines the bits with those of another. Fails with 22026 for another length.
    pub(crate) fn combined(
        &self,
        other: &Bits,
        verb: &str,
        f: impl Fn(bool, bool) -> bool,
    ) -> Result<Bits, SqlError> {
        if self.length != other.length {
            let message = format!("cannot {verb} bit strings of different sizes");
            return Err(SqlError::new(LENGTH_MISMATCH, message));
        }
        Ok(Bits::collect(self.iter().zip(other.iter()).map(|(a, b)| f(a, b))))
    }

    /// Returns as many bits, moved to the left by a number of places, to the right below zero.
    pub(crate) fn shifted(&self, left: i64) -> Bits {
        let moved = |at: u32| u32::try_from(i64::from(at) + left).ok();
        let bit = |at| moved(at).filter(|at| *at < self.length).is_some_and(|at| self.get(at));
        Bits::collect((0..self.length).map(bit))
    }

    /// Returns the number of bits that are 1.
    pub(crate) fn count_ones(&self) -> u64 {
        self.bytes.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }

    /// Returns the first place of other bits among these, counted from 0. By Rabin and Karp: bits
    /// are compared only where their hash is that of the other ones.
    pub(crate) fn find(&self, sought: &Bits) -> Option<u32> {
        let last = self.length.checked_sub(sought.length)?;
        let hash = |bits: &Bits| (0..sought.length).fold(0, |hash, at| rolled(hash, bits.get(at)));
        // The weight of the bit that leaves the hash.
        let weight = (1..sought.length).fold(1, |weight, _| times(weight, HASH_BASE));
        let (wanted, mut hash) = (hash(sought), hash(self));
        for from in 0..=last {
            interrupt::step();
            if hash == wanted && self.has_at(from, sought) {
                return Some(from);
            }
            if from < last && sought.length > 0 {
                let without = if self.get(from) { HASH_MODULUS - weight } else { 0 };
                hash = rolled((hash + without) % HASH_MODULUS, self.get(from + sought.length));
            }
        }
        None
    }

    fn has_at(&self, from: u32, sought: &Bits) -> bool {
        sought.iter().zip(from..).all(|(bit, at)| {
            interrupt::step();
            self.get(at) == bit
        })
    }

    /// Orders by the bits, then by the number of them.
    pub(crate) fn order(&self, other: &Bits) -> Ordering {
        self.bytes.cmp(&other.bytes).then(self.length.cmp(&other.length))
    }

    /// Returns the value for a type with a length. `bit(n)` needs that length exactly, `bit
    /// varying(n)` at most; an explicit cast truncates, and appends zeros to a `bit(n)`.
    pub(crate) fn limited(self, ty: Type, explicit: bool) -> Result<Bits, SqlError> {
        let length = self.length;
        match ty {
            Type::Bit(Some(n)) if length != n && explicit => Ok(self.resized(n)),
            Type::Bit(Some(n)) if length != n => {
                let message = format!("bit string length {length} does not match type bit({n})");
                Err(SqlError::new(LENGTH_MISMATCH, message))
            }
            Type::Varbit(Some(n)) if length > n && explicit => Ok(self.resized(n)),
            Type::Varbit(Some(n)) if length > n => {
                let message = format!("bit string too long for type bit varying({n})");
                Err(SqlError::new(state::STRING_TOO_LONG, message))
            }
            _ => Ok(self),
        }
    }
}

/// The prime modulus of hashes of bits, and the base of their weights.
const HASH_MODULUS: u64 = (1 << 61) - 1;
const HASH_BASE: u64 = 1_145_141_919_810_893;

fn times(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(HASH_MODULUS)) as u64
}

/// Returns the hash of some bits and another one behind them.
fn rolled(hash: u64, bit: bool) -> u64 {
    interrupt::step();
    (times(hash, HASH_BASE) + u64::from(bit)) % HASH_MODULUS
}

/// The SQLSTATE of strings of bits whose lengths do not fit.
const LENGTH_MISMATCH: &str = "22026";
/// The longest length of a type, PostgreSQL's.
pub(crate) const LONGEST_TYPE: u32 = 83_886_080;
/// The most bits of a value, PostgreSQL's.
const MOST_BITS: usize = 2_147_483_640;

fn no_digit(digit: char, kind: &str) -> SqlError {
    SqlError::new(state::BAD_TEXT, format!("\"{digit}\" is not a valid {kind} digit"))
}

/// Fails with 54000 if a value would have too many bits.
pub(crate) fn check_length(bits: usize) -> Result<(), SqlError> {
    if bits <= MOST_BITS {
        return Ok(());
    }
    let message = format!("bit string length exceeds the maximum allowed ({MOST_BITS})");
    Err(SqlError::new(state::TOO_LARGE, message))
}

/// Returns the number of bytes that hold that many bits.
pub(crate) const fn bytes_of(length: u32) -> usize {
    length.div_ceil(8) as usize
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|bit| f.write_str(if bit { "1" } else { "0" }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str) -> Bits {
        Bits::from_text(text).expect("bits")
    }

    #[test]
    fn bits_are_found_at_their_first_place() {
        for (within, sought, place) in [
            ("0010110", "1", Some(2)),
            ("0010110", "0010110", Some(0)),
            ("0010110", "110", Some(4)),
            ("0010110", "111", None),
            ("0010110", "", Some(0)),
            ("", "", Some(0)),
            ("1", "10", None),
            ("x00000000000000000000000000000000f1", "x0f1", Some(124)),
        ] {
            assert_eq!(bits(within).find(&bits(sought)), place, "{sought} in {within}");
        }
        // Each place shares nearly all bits with what is sought.
        let (mut within, sought) = ("0".repeat(200_000), "0".repeat(100_000) + "1");
        assert_eq!(bits(&within).find(&bits(&sought)), None);
        within.push('1');
        assert_eq!(bits(&within).find(&bits(&sought)), Some(100_000));
    }

    #[test]
    fn a_search_ends_if_its_statement_does() {
        let (within, sought) = (bits(&"01".repeat(50_000)), bits(&"10".repeat(20_000)));
        let is_due = Box::new(|| true);
        let watch = Arc::new(interrupt::Watch { is_due, apart: |f| f() });
        assert_eq!(interrupt::watched(&watch, || within.find(&sought)), None);
        assert_eq!(interrupt::watched(&watch, || within.inverted()), None);
    }

    #[test]
    fn a_value_has_a_longest_length() {
        assert!(check_length(MOST_BITS).is_ok());
        let error = check_length(MOST_BITS + 1).expect_err("too long");
        assert_eq!(error.sqlstate, state::TOO_LARGE);
        assert_eq!(error.message, "bit string length exceeds the maximum allowed (2147483640)");
    }
}
