//! PostgreSQL's binary format: the number of groups of four digits, the weight of the first, the
//! sign or the kind of what is no number, the scale, the groups.

use super::decimal::Wide;
use super::{Decimal, MOST_SCALE, Numeric, big};
use crate::error::{SqlError, state};

const POSITIVE: u16 = 0;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const NEGATIVE_INFINITY: u16 = 0xF000;
/// The scale that PostgreSQL writes for an infinity; nothing reads it.
const INFINITE_SCALE: u16 = 0x20;

fn bad(what: &str) -> SqlError {
    let message = format!("invalid {what} in external \"numeric\" value");
    SqlError::new(state::BAD_BINARY, message)
}

impl Numeric {
    /// Appends the format.
    pub(crate) fn write_binary(&self, out: &mut Vec<u8>) {
        let (sign, scale) = match self {
            Numeric::Finite(n) => return n.write_binary(out),
            Numeric::NaN => (NAN, 0),
            Numeric::Infinity => (INFINITY, INFINITE_SCALE),
            Numeric::NegativeInfinity => (NEGATIVE_INFINITY, INFINITE_SCALE),
        };
        [0, 0, sign, scale].iter().for_each(|word| out.extend(word.to_be_bytes()));
    }

    /// Reads the format. Digits that the scale does not show are dropped.
    pub(crate) fn from_binary(bytes: &[u8]) -> Result<Numeric, SqlError> {
        let short = || SqlError::new(state::BAD_BINARY, "insufficient data left in message");
        let mut words = bytes.chunks(2).map(|pair| match pair {
            [high, low] => Ok(u16::from_be_bytes([*high, *low])),
            _ => Err(short()),
        });
        let mut word = || words.next().unwrap_or_else(|| Err(short()));
        let (count, weight, sign, scale) = (word()?, word()? as i16, word()?, word()?);
        match sign {
            NAN => return Ok(Numeric::NaN),
            INFINITY => return Ok(Numeric::Infinity),
            NEGATIVE_INFINITY => return Ok(Numeric::NegativeInfinity),
            POSITIVE | NEGATIVE => {}
            _ => return Err(bad("sign")),
        }
        if u32::from(scale) > MOST_SCALE {
            return Err(bad("scale"));
        }
        let mut digits = Vec::with_capacity(4 * usize::from(count).min(bytes.len()));
        for _ in 0..count {
            let group = word()?;
            if group > 9999 {
                return Err(bad("digit"));
            }
            digits.extend([1000, 100, 10, 1].map(|unit| b'0' + (group / unit % 10) as u8));
        }
        if bytes.len() > 8 + 2 * usize::from(count) {
            let message = "incorrect binary data format";
            return Err(SqlError::new(state::BAD_BINARY, message));
        }
        // The places of the digits up to the last one that the scale shows.
        let shown = (i64::from(weight) + 1) * 4 + i64::from(scale);
        let zeros = shown - digits.len() as i64;
        digits.truncate(shown.max(0) as usize);
        if digits.iter().all(|digit| *digit == b'0') {
            return Ok(Numeric::of(0, scale));
        }
        digits.extend(std::iter::repeat_n(b'0', zeros.max(0) as usize));
        let digits = big::of_digits(&digits);
        let digits = if sign == NEGATIVE { -digits } else { digits };
        Decimal::of(Wide::of(digits, scale.into())).map(Numeric::Finite)
    }
}

impl Decimal {
    fn write_binary(&self, out: &mut Vec<u8>) {
        let scale = self.scale();
        let padding = (4 - scale % 4) % 4;
        let before = (scale + padding) as i32 / 4;
        let power = big::POWERS[padding as usize] as u128;
        let small = self.mantissa().and_then(|n| n.unsigned_abs().checked_mul(power));
        let mut groups: Vec<u16> = Vec::new();
        match small {
            Some(mut rest) => {
                while rest > u64::MAX.into() {
                    groups.push((rest % 10_000) as u16);
                    rest /= 10_000;
                }
                let mut rest = rest as u64;
                while rest > 0 {
                    groups.push((rest % 10_000) as u16);
                    rest /= 10_000;
                }
                groups.reverse();
            }
            None => {
                let mut digits = big::digits_of(&self.wide().digits);
                digits.extend(std::iter::repeat_n('0', padding as usize));
                let number = |group: &[u8]| {
                    group.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'))
                };
                let (first, others) = digits.as_bytes().split_at(digits.len() % 4);
                groups.extend((!first.is_empty()).then(|| number(first)));
                groups.extend(others.chunks(4).map(number));
            }
        }
        let mut weight = groups.len() as i32 - before - 1;
        while groups.last() == Some(&0) {
            groups.pop();
        }
        if groups.is_empty() {
            weight = 0;
        }
        let sign = if self.sign().is_lt() { NEGATIVE } else { POSITIVE };
        for word in [groups.len() as u16, weight as i16 as u16, sign, scale as u16] {
            out.extend(word.to_be_bytes());
        }
        groups.iter().for_each(|group| out.extend(group.to_be_bytes()));
    }
}
