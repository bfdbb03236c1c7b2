//! Values of `bit` and `bit varying`: strings of bits of any length.

use crate::error::{SqlError, state};
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
                bytes.push(0);
            }
            if let Some(last) = bytes.last_mut() {
                *last |= u8::from(bit) << (7 - length % 8);
            }
            length += 1;
        }
        Bits { length, bytes: bytes.into() }
    }

    /// Parses `0101`, `b0101` or `x5F`. Fails with 22P02 for another digit.
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
            None => Ok(Bits::collect(digits.bytes().map(|digit| digit == b'1'))),
        }
    }

    fn of_hexadecimal(digits: &str) -> Result<Bits, SqlError> {
        match digits.chars().find(|digit| !digit.is_ascii_hexdigit()) {
            Some(digit) => Err(no_digit(digit, "hexadecimal")),
            None => {
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
        if self.length.checked_add(other.length).is_none_or(|length| length > MOST_BITS) {
            return Err(too_long());
        }
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

/// The SQLSTATE of strings of bits whose lengths do not fit.
const LENGTH_MISMATCH: &str = "22026";
/// The most bits of a value, PostgreSQL's.
pub(crate) const MOST_BITS: u32 = 83_886_080;

fn no_digit(digit: char, kind: &str) -> SqlError {
    SqlError::new(state::BAD_TEXT, format!("\"{digit}\" is not a valid {kind} digit"))
}

fn too_long() -> SqlError {
    let message = format!("bit string length exceeds the maximum allowed ({MOST_BITS})");
    SqlError::new(state::TOO_LARGE, message)
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
