//! Types of times with a modifier, to which values are rounded: `timestamp(3)`,
//! `interval day to second`.

use crate::datetime::{self, ZonedTime};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::interval::Fields;
use crate::types::Type;
use std::fmt;

/// A type of times with a modifier, as `atttypmod` has it: the digits of the seconds' fraction, and
/// above them the fields of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rounded {
    oid: u32,
    modifier: i32,
}

impl Rounded {
    /// Returns a type of times with a modifier; `None` for other types, and without a modifier.
    pub(crate) const fn of(ty: Type, modifier: i32) -> Option<Rounded> {
        let takes = matches!(
            ty,
            Type::Time | Type::TimeTz | Type::Timestamp | Type::TimestampTz | Type::Interval
        );
        if takes && modifier >= 0 { Some(Rounded { oid: ty.oid(), modifier }) } else { None }
    }

    /// Returns the type without its modifier.
    pub const fn plain(self) -> Type {
        match Type::from_oid(self.oid) {
            Some(ty) => ty,
            None => Type::Timestamp,
        }
    }

    pub(crate) const fn oid(self) -> u32 {
        self.oid
    }

    pub(crate) const fn modifier(self) -> i32 {
        self.modifier
    }

    /// Returns the fields that an interval has; `None` if it has all.
    pub(crate) fn fields(self) -> Option<Fields> {
        if self.plain() == Type::Interval { Fields::of_modifier(self.modifier) } else { None }
    }

    /// Returns the digits of the seconds' fraction.
    pub(crate) fn digits(self) -> u32 {
        // An interval with fields may say nothing of digits: all bits are set.
        (self.modifier as u32 & 0xFFFF).min(6)
    }

    /// Rounds a value of the plain type.
    pub(crate) fn round(self, datum: Datum) -> Result<Datum, SqlError> {
        let digits = self.digits();
        Ok(match datum {
            Datum::Time(us) => Datum::Time(rounded(us, digits)),
            Datum::TimeTz(time) => {
                Datum::TimeTz(ZonedTime { micros: rounded(time.micros, digits), ..time })
            }
            Datum::Timestamp(us) => Datum::Timestamp(instant(us, digits)?),
            Datum::TimestampTz(us) => Datum::TimestampTz(instant(us, digits)?),
            Datum::Interval(interval) => {
                Datum::Interval(Fields::or_all(self.fields(), digits).cut(interval)?)
            }
            other => other,
        })
    }
}

/// Rounds a time that has a date.
fn instant(us: i64, digits: u32) -> Result<i64, SqlError> {
    if datetime::is_infinite(us) {
        return Ok(us);
    }
    let us = rounded(us, digits).into();
    datetime::timestamp_in_range(us).ok_or_else(datetime::timestamp_overflow)
}

/// Rounds microseconds to digits of a second, halves away from zero.
fn rounded(us: i64, digits: u32) -> i64 {
    let step = 10i64.pow(6 - digits);
    let half = if us < 0 { -(step / 2) } else { step / 2 };
    us.saturating_add(half) / step * step
}

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.plain().name();
        let (first, rest) = name.split_once(' ').map_or((name, ""), |(first, rest)| (first, rest));
        f.write_str(first)?;
        if let Some(fields) = self.fields() {
            write!(f, " {fields}")?;
        }
        if self.modifier & 0xFFFF != 0xFFFF {
            write!(f, "({})", self.modifier & 0xFFFF)?;
        }
        if rest.is_empty() { Ok(()) } else { write!(f, " {rest}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_away_from_zero() {
        for (us, digits, expected) in [
            (1_234_500, 3, 1_235_000),
            (-1_234_500, 3, -1_235_000),
            (1_234_499, 3, 1_234_000),
            (-499_999, 0, 0),
            (1_234_567, 6, 1_234_567),
        ] {
            assert_eq!(rounded(us, digits), expected, "{us} to {digits}");
        }
    }

    #[test]
    fn types_are_named_with_their_modifiers() {
        for (oid, modifier, name) in [
            (1114, 3, "timestamp(3) without time zone"),
            (1184, 0, "timestamp(0) with time zone"),
            (1083, 6, "time(6) without time zone"),
            (1186, 0x7FFF << 16 | 2, "interval(2)"),
            (1186, 1 << 18 | 0xFFFF, "interval year"),
            (1186, (1 << 3 | 7 << 10) << 16 | 0xFFFF, "interval day to second"),
            (1186, (1 << 3 | 7 << 10) << 16 | 1, "interval day to second(1)"),
        ] {
            let ty = Type::with_modifier(oid, modifier).expect("a type");
            let many = ty.array();
            assert_eq!(Type::with_modifier(many.oid(), modifier), Some(many));
            assert_eq!((ty.to_string(), ty.oid(), ty.modifier()), (name.into(), oid, modifier));
        }
        assert_eq!(Type::with_modifier(1114, -1), Some(Type::Timestamp));
    }
}
