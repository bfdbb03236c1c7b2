//! The bytes of a row.
//!
//! ```text
//!   0 to 7F   the scale, then the digits as a signed whole number of 128 bits
//!   80        any other number: its scale, the length of its digits, these as two's complement
//!   81 82 83  NaN, Infinity, -Infinity
//! ```
//!
//! Numbers of 28 digits have the bytes that earlier releases wrote.

use super::decimal::Wide;
use super::{Decimal, Numeric};
use crate::error::SqlError;
use num_bigint::BigInt;

const LARGEST_SHORT_SCALE: u32 = 0x7F;
const LARGE: u8 = 0x80;
const NAN: u8 = 0x81;
const INFINITY: u8 = 0x82;
const NEGATIVE_INFINITY: u8 = 0x83;

/// The parts of a value in a row.
pub(crate) enum Stored {
    /// A first byte and a whole number.
    Small(u8, i128),
    /// A first byte, a scale, and the bytes of a whole number.
    Large(u8, u32, Vec<u8>),
    /// A first byte alone.
    Other(u8),
}

impl Stored {
    pub(crate) fn of(value: &Numeric) -> Stored {
        let n = match value {
            Numeric::Finite(n) => n,
            Numeric::NaN => return Stored::Other(NAN),
            Numeric::Infinity => return Stored::Other(INFINITY),
            Numeric::NegativeInfinity => return Stored::Other(NEGATIVE_INFINITY),
        };
        match n.mantissa() {
            Some(mantissa) if n.scale() <= LARGEST_SHORT_SCALE => {
                Stored::Small(n.scale() as u8, mantissa)
            }
            _ => Stored::Large(LARGE, n.scale(), n.wide().digits.to_signed_bytes_le()),
        }
    }

    /// Returns the parts that follow a first byte, without their contents; `None` for one of a
    /// later release.
    pub(crate) fn begun(first: u8) -> Option<Stored> {
        Some(match first {
            LARGE => Stored::Large(first, 0, Vec::new()),
            NAN | INFINITY | NEGATIVE_INFINITY => Stored::Other(first),
            _ if u32::from(first) <= LARGEST_SHORT_SCALE => Stored::Small(first, 0),
            _ => return None,
        })
    }

    /// Returns the value.
    pub(crate) fn value(self) -> Result<Numeric, SqlError> {
        Ok(match self {
            Stored::Small(scale, mantissa) => Numeric::of(mantissa, scale.into()),
            Stored::Large(_, scale, digits) => {
                let wide = Wide::of(BigInt::from_signed_bytes_le(&digits), scale);
                Numeric::Finite(Decimal::of(wide)?)
            }
            Stored::Other(NAN) => Numeric::NaN,
            Stored::Other(INFINITY) => Numeric::Infinity,
            Stored::Other(_) => Numeric::NegativeInfinity,
        })
    }
}
