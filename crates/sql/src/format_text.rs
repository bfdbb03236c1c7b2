//! PostgreSQL's text format of values.

use crate::array::{Array, Dimension};
use crate::bits::Bits;
use crate::datetime::{self, Local, Zone};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::hstore::Hstore;
use crate::interval::Interval;
use crate::json::{self, Jsonb, Path};
use crate::network::Network;
use crate::number;
use crate::numeric::Numeric;
use crate::record::{self, Record};
use crate::types::{NAME_LENGTH, Type};
use bytes::Bytes;
use std::fmt::{Display, LowerExp, Write};
use std::str::FromStr;
use std::sync::Arc;

impl Datum {
    /// Returns the text format in UTC, where no session has a zone; `None` for NULL.
    pub fn to_text(&self, ty: Type) -> Option<String> {
        self.to_text_in(ty, Zone::utc())
    }

    /// Returns the text format, in which only `character(n)` depends on the type, and only the
    /// times with a zone on that of the session; `None` for NULL.
    pub fn to_text_in(&self, ty: Type, zone: &Zone) -> Option<String> {
        let mut out = String::new();
        self.write_text(ty, zone, &mut out).then_some(out)
    }

    /// Appends the text format; false, and nothing appended, for NULL.
    pub fn write_text(&self, ty: Type, zone: &Zone, out: &mut String) -> bool {
        match self {
            Datum::Null => return false,
            Datum::Bool(b) => out.push(if *b { 't' } else { 'f' }),
            Datum::Int2(n) => _ = write!(out, "{n}"),
            Datum::Int4(n) => _ = write!(out, "{n}"),
            Datum::Int8(n) => _ = write!(out, "{n}"),
            Datum::Float4(x) => write_float(*x, x.is_nan(), 6, out),
            Datum::Float8(x) => write_float(*x, x.is_nan(), 15, out),
            Datum::Numeric(n) => _ = write!(out, "{n}"),
            Datum::Text(text) => {
                out.push_str(text);
                if let Type::Char(n) = ty {
                    out.extend(std::iter::repeat_n(
                        ' ',
                        (n as usize).saturating_sub(text.chars().count()),
                    ));
                }
            }
            Datum::Bytes(bytes) => {
                out.push_str("\\x");
                for byte in bytes {
                    _ = write!(out, "{byte:02x}");
                }
            }
            Datum::Uuid(id) => _ = write!(out, "{id}"),
            Datum::Date(days) => datetime::date_to_text(*days, out),
            Datum::Time(us) => datetime::time_to_text(*us, out),
            Datum::TimeTz(time) => time.write_text(out),
            Datum::Timestamp(us) => datetime::timestamp_to_text(*us, None, out),
            Datum::TimestampTz(us) => datetime::timestamp_to_text(*us, Some(zone), out),
            Datum::Interval(interval) => _ = write!(out, "{interval}"),
            Datum::Network(network) => _ = write!(out, "{network}"),
            Datum::Json(text) => out.push_str(text),
            Datum::Jsonb(value) => json::write_text(value.root().events(), out),
            Datum::JsonPath(path) => _ = write!(out, "{path}"),
            Datum::Hstore(value) => value.write_text(out),
            Datum::Array(array) if matches!(ty, Type::Int2Vector | Type::OidVector) => {
                let values = array.values().iter().filter_map(Datum::as_i64);
                let values: Vec<_> = values.map(|value| value.to_string()).collect();
                out.push_str(&values.join(" "));
            }
            Datum::Array(array) => array.write_text(zone, out),
            Datum::Bits(bits) => _ = write!(out, "{bits}"),
            Datum::Oid(oid) => _ = write!(out, "{oid}"),
            Datum::Object(_, name) => out.push_str(name),
            Datum::Enum(value) => out.push_str(value.label()),
            Datum::Base(value) => out.push_str(value.text()),
            Datum::Record(record) => record.write_text(zone, out),
        }
        true
    }

    /// Parses the text format of a type where no session has a zone: times without one are UTC.
    pub fn from_text(ty: Type, text: &str) -> Result<Datum, SqlError> {
        Datum::from_text_in(ty, text, Local::utc())
    }

    /// Parses the text format of a type. Limits of length and scale are not applied here, but at
    /// assignment.
    pub fn from_text_in(ty: Type, text: &str, local: Local<'_>) -> Result<Datum, SqlError> {
        let trimmed = text.trim();
        let bad = || {
            SqlError::new(
                state::BAD_TEXT,
                format!("invalid input syntax for type {}: \"{text}\"", ty.name()),
            )
        };
        let integer = |least: i64, most: i64| match trimmed.parse::<i128>() {
            Ok(n) if (i128::from(least)..=i128::from(most)).contains(&n) => Ok(n as i64),
            Ok(_) => Err(out_of_range_text(text, ty)),
            Err(_) if trimmed.len() > 20 && trimmed.bytes().all(|b| b.is_ascii_digit()) => {
                Err(out_of_range_text(text, ty))
            }
            Err(_) => Err(bad()),
        };
        Ok(match ty {
            Type::Bool => Datum::Bool(match trimmed.to_ascii_lowercase().as_str() {
                "t" | "tr" | "tru" | "true" | "y" | "ye" | "yes" | "on" | "1" => true,
                "f" | "fa" | "fal" | "fals" | "false" | "n" | "no" | "of" | "off" | "0" => false,
                _ => return Err(bad()),
            }),
            Type::Int2 => Datum::Int2(integer(i16::MIN.into(), i16::MAX.into())? as i16),
            Type::Int4 => Datum::Int4(integer(i32::MIN.into(), i32::MAX.into())? as i32),
            Type::Int8 => Datum::Int8(integer(i64::MIN, i64::MAX)?),
            Type::Float4 => {
                let x = f32::from_str(trimmed).map_err(|_| bad())?;
                check_float(x.is_infinite(), x == 0.0, trimmed, ty)?;
                Datum::Float4(x)
            }
            Type::Float8 => {
                let x = f64::from_str(trimmed).map_err(|_| bad())?;
                check_float(x.is_infinite(), x == 0.0, trimmed, ty)?;
                Datum::Float8(x)
            }
            Type::Numeric(_) => Datum::Numeric(Numeric::from_text(text)?),
            Type::Text | Type::Varchar(_) => Datum::text(text),
            Type::Internal(_) => {
                let message = format!("cannot accept a value of type {ty}");
                return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
            }
            Type::Name => Datum::text(within(text, NAME_LENGTH)),
            Type::ByteChar => Datum::text(&byte_of(text)?),
            Type::Record => return Err(record::no_fields()),
            Type::Composite(ty) => Datum::Record(Record::from_text_in(ty, text, local)?.into()),
            Type::Char(_) => Datum::text(text.trim_end_matches(' ')),
            Type::Bytea => Datum::Bytes(bytea(text).ok_or_else(bad)?),
            Type::Uuid => Datum::Uuid(uuid::Uuid::try_parse(trimmed).map_err(|_| bad())?),
            Type::Date => Datum::Date(datetime::date_from_text(text, local)?),
            Type::Time => Datum::Time(datetime::time_from_text(text, local)?),
            Type::TimeTz => Datum::TimeTz(datetime::zoned_time_from_text(text, local)?),
            Type::Timestamp => Datum::Timestamp(datetime::timestamp_from_text(text, false, local)?),
            Type::TimestampTz => {
                Datum::TimestampTz(datetime::timestamp_from_text(text, true, local)?)
            }
            Type::Interval => Datum::Interval(Interval::from_text(text)?),
            Type::Rounded(rounded) => match rounded.fields() {
                None => Datum::from_text_in(rounded.plain(), text, local)?,
                fields => Datum::Interval(Interval::from_text_of(text, fields)?),
            },
            Type::Inet | Type::Cidr => Datum::Network(Network::from_text(text, ty == Type::Cidr)?),
            Type::Json => {
                json::check(text)?;
                Datum::Json(Arc::from(text))
            }
            Type::Jsonb => Datum::Jsonb(Jsonb::from_text(text)?),
            Type::JsonPath => Datum::JsonPath(Path::from_text(text)?),
            Type::Hstore => Datum::Hstore(Hstore::from_text(text)?),
            Type::Void => Datum::text(""),
            Type::Int2Vector | Type::OidVector => {
                let element = ty.element().unwrap_or(ty);
                let values = trimmed.split_ascii_whitespace();
                let values = values.map(|part| Datum::from_text(element, part));
                let values: Vec<_> = values.collect::<Result<_, _>>()?;
                let dimension = Dimension { lower: 0, length: values.len() };
                Datum::Array(Array::with(element, vec![dimension], values)?.into())
            }
            Type::Bit(_) | Type::Varbit(_) => Datum::Bits(Bits::from_text(text)?),
            // A negative number has the bits of a large one.
            Type::Oid | Type::Xid => match integer(i32::MIN.into(), u32::MAX.into())? {
                n @ ..0 => Datum::Oid(n as i32 as u32),
                n => Datum::Oid(n as u32),
            },
            // The names of objects are not known here.
            Type::Object(_) => {
                Datum::Object(trimmed.parse().map_err(|_| bad())?, Arc::from(trimmed))
            }
            Type::Array(element) => {
                Datum::Array(Array::from_text_in(element.ty(), text, local)?.into())
            }
            Type::Enum(ty) => Datum::Enum(ty.labelled(text)?),
            Type::Base(ty) => Datum::Base(ty.read(text)?),
        })
    }
}

fn out_of_range_text(text: &str, ty: Type) -> SqlError {
    SqlError::new(
        state::OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {}", ty.name()),
    )
}

/// Fails with 22003 for a float that its digits do not give: they are too large, or too small.
fn check_float(is_infinite: bool, is_zero: bool, text: &str, ty: Type) -> Result<(), SqlError> {
    let vanishes = is_zero && !number::is_written_zero(text);
    if vanishes || (is_infinite && text.bytes().any(|b| b.is_ascii_digit())) {
        let message = format!("\"{text}\" is out of range for type {}", ty.name());
        return Err(SqlError::new(state::OUT_OF_RANGE, message));
    }
    Ok(())
}

/// Returns the characters of a text that are within a number of bytes.
pub(crate) fn within(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns the first character of a text, as a `"char"` has it, or the byte of `\ooo`; the byte 0
/// is no character. Fails with 0A000 for one beyond ASCII, which would be no text.
fn byte_of(text: &str) -> Result<String, SqlError> {
    let digit = |digit: &u8| (b'0'..=b'7').contains(digit).then(|| u16::from(digit - b'0'));
    let byte = match text.as_bytes() {
        [b'\\', a, b, c] => {
            let digits = digit(a).zip(digit(b)).zip(digit(c));
            digits.map(|((a, b), c)| char::from((a * 64 + b * 8 + c) as u8))
        }
        _ => None,
    };
    match byte.or_else(|| text.chars().next()) {
        Some(first) if !first.is_ascii() => {
            Err(SqlError::unsupported("a value of type \"char\" that is not ASCII"))
        }
        Some('\0') | None => Ok(String::new()),
        Some(first) => Ok(first.to_string()),
    }
}

/// Writes the shortest digits that read back as the same float, with an exponent for numbers of
/// more digits than its type surely holds, and for small ones.
fn write_float<F: LowerExp + Display>(x: F, is_nan: bool, digits_of_type: i32, out: &mut String) {
    if is_nan {
        return out.push_str("NaN");
    }
    let scientific = format!("{x:e}");
    match scientific.as_str() {
        "inf" => return out.push_str("Infinity"),
        "-inf" => return out.push_str("-Infinity"),
        _ => {}
    }
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..digits_of_type).contains(&exponent) {
        _ = write!(out, "{x}");
    } else {
        _ = write!(out, "{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
}

fn bytea(text: &str) -> Option<Bytes> {
    if let Some(hex) = text.strip_prefix("\\x") {
        let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        if !digits.len().is_multiple_of(2) {
            return None;
        }
        let nibble = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
        return digits
            .chunks_exact(2)
            .map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?))
            .collect();
    }
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            out.push(bytes[at]);
            at += 1;
        } else if bytes.get(at + 1) == Some(&b'\\') {
            out.push(b'\\');
            at += 2;
        } else {
            let octal = bytes.get(at + 1..at + 4)?;
            let value = octal
                .iter()
                .try_fold(0u32, |sum, b| char::from(*b).to_digit(8).map(|d| sum * 8 + d))?;
            out.push(u8::try_from(value).ok()?);
            at += 4;
        }
    }
    Some(out.into())
}
