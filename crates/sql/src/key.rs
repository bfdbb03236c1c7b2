//! Memcomparable keys: the order of the bytes is the order of the values, and each value marks its
//! end.
//!
//! A value is a tag and its bytes. NULL's tag is above all others, so that NULLs come last as in
//! PostgreSQL; a descending value has every byte inverted. Whole numbers of all widths share one
//! form, so that `int4 = int8` needs no conversion of keys.
//!
//! ```text
//!   boolean   08 or 09
//!   integer   20 + length of the magnitude (1F - length when negative), then its bytes;
//!             days, microseconds and object ids, too
//!   float     30 + 8 bytes, flipped so that they compare like the numbers, of both widths
//!   numeric   31 to 38 + digits (see `numeric::key`), perhaps FF and more digits
//!   text      40 + bytes, 00 escaped as 00 FF, ended by 00 01 (bytea: 42)
//!   uuid      44 + 16 bytes
//!   interval  46 + 10 bytes of the length in microseconds, a month as 30 days
//!   jsonb     4A + bytes in the order of values, escaped and ended as those of a text
//!   enum      4C + the place of the label, escaped and ended as those of a text
//!   inet      4E (IPv6: 50) + bytes of the network, length of its prefix, bytes of the address
//!   array     48 + (01 and the element) for each element, 00, the number of dimensions,
//!             their lengths, their lower bounds
//!   timetz    52 + 8 bytes of the microseconds in UTC, 4 of the seconds to the west
//!   bit       54 + bytes, escaped and ended as those of a text, the number of bits in the last
//!   citext    5A + bytes in lower case, escaped and ended as those of a text
//!   row       56 + (01 and the field) for each field up to the last that is not NULL, 02
//!   hstore    58 + bytes in the order of values, escaped and ended as those of a text
//!   NULL      F0
//! ```

use crate::array::Array;
use crate::bits::{Bits, bytes_of};
use crate::datetime::ZonedTime;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::interval::Interval;
use crate::network::Network;
use crate::numeric;
use crate::record::Record;
use crate::types::Type;
use bytes::Bytes;

const FALSE: u8 = 0x08;
const TRUE: u8 = 0x09;
const INTEGER_ZERO: u8 = 0x20;
const FLOAT: u8 = 0x30;
const TEXT: u8 = 0x40;
const BYTES: u8 = 0x42;
const UUID: u8 = 0x44;
const INTERVAL: u8 = 0x46;
/// The bytes of an interval's length.
const INTERVAL_BYTES: usize = 10;
const ARRAY: u8 = 0x48;
const JSONB: u8 = 0x4A;
const ENUM: u8 = 0x4C;
const INET_4: u8 = 0x4E;
const INET_6: u8 = 0x50;
const TIMETZ: u8 = 0x52;
/// The bytes of a time with a zone.
const TIMETZ_BYTES: usize = 12;
const BITS: u8 = 0x54;
const RECORD: u8 = 0x56;
const HSTORE: u8 = 0x58;
const BASE: u8 = 0x5A;
const NULL: u8 = 0xF0;

/// Appends a value.
pub(crate) fn write(datum: &Datum, descending: bool, out: &mut Vec<u8>) {
    let from = out.len();
    match datum {
        Datum::Numeric(n) => return n.write_key(descending, out),
        Datum::Null => out.push(NULL),
        Datum::Bool(b) => out.push(if *b { TRUE } else { FALSE }),
        Datum::Int2(n) => write_integer((*n).into(), out),
        Datum::Int4(n) | Datum::Date(n) => write_integer((*n).into(), out),
        Datum::Int8(n) | Datum::Time(n) | Datum::Timestamp(n) | Datum::TimestampTz(n) => {
            write_integer(*n, out)
        }
        Datum::Float4(x) => write_float((*x).into(), out),
        Datum::Float8(x) => write_float(*x, out),
        Datum::Text(text) => {
            out.push(TEXT);
            write_escaped(text.as_bytes(), out);
        }
        Datum::Bytes(bytes) => {
            out.push(BYTES);
            write_escaped(bytes, out);
        }
        Datum::Uuid(id) => {
            out.push(UUID);
            out.extend(id.as_bytes());
        }
        Datum::Interval(interval) => write_interval(*interval, out),
        Datum::Network(network) => {
            out.push(if network.family() == 4 { INET_4 } else { INET_6 });
            network.write_key(out);
        }
        Datum::Jsonb(value) => {
            out.push(JSONB);
            write_escaped(&value.root().key(), out);
        }
        Datum::Hstore(value) => {
            out.push(HSTORE);
            write_escaped(&value.key(), out);
        }
        // No index has one, since it has no order; statistics tell texts from each other.
        Datum::Json(text) => {
            out.push(TEXT);
            write_escaped(text.as_bytes(), out);
        }
        Datum::JsonPath(path) => {
            out.push(TEXT);
            write_escaped(path.to_string().as_bytes(), out);
        }
        Datum::Array(array) => write_array(array, out),
        Datum::Oid(oid) | Datum::Object(oid, _) => write_integer((*oid).into(), out),
        Datum::TimeTz(time) => {
            out.push(TIMETZ);
            out.extend((time.utc_us() ^ i64::MIN).to_be_bytes());
            out.extend((-time.east_s ^ i32::MIN).to_be_bytes());
        }
        Datum::Bits(bits) => {
            out.push(BITS);
            write_escaped(bits.bytes(), out);
            out.push((bits.length() + 7) as u8 % 8);
        }
        Datum::Enum(value) => {
            out.push(ENUM);
            write_escaped(value.place(), out);
        }
        Datum::Base(value) => {
            out.push(BASE);
            write_escaped(value.key().as_bytes(), out);
        }
        Datum::Record(record) => write_record(record, out),
    }
    if descending {
        out[from..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Writes the sign and the length in the tag, then the bytes without leading zeros (or ones).
fn write_integer(n: i64, out: &mut Vec<u8>) {
    let magnitude = if n < 0 { !n } else { n } as u64;
    let length = 8 - magnitude.leading_zeros() as usize / 8;
    out.push(if n < 0 { INTEGER_ZERO - 1 - length as u8 } else { INTEGER_ZERO + length as u8 });
    out.extend(&n.to_be_bytes()[8 - length..]);
}

fn write_float(x: f64, out: &mut Vec<u8>) {
    out.push(FLOAT);
    out.extend(float_bits(x).to_be_bytes());
}

/// Returns IEEE bits in an order that compares like numbers; NaN is largest, -0 is 0.
fn float_bits(x: f64) -> u64 {
    let bits = if x.is_nan() {
        f64::NAN.to_bits() & !(1 << 63)
    } else {
        (if x == 0.0 { 0.0 } else { x }).to_bits()
    };
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Writes the length, above zero: equal intervals of different parts have one key.
fn write_interval(interval: Interval, out: &mut Vec<u8>) {
    out.push(INTERVAL);
    let length = interval.length() + (1 << (INTERVAL_BYTES * 8 - 1));
    out.extend(&length.to_be_bytes()[16 - INTERVAL_BYTES..]);
}

/// Writes the elements, then the number of dimensions, their lengths, their lower bounds.
fn write_array(array: &Array, out: &mut Vec<u8>) {
    out.push(ARRAY);
    for value in array.values() {
        out.push(1);
        write(value, false, out);
    }
    let dimensions = array.dimensions();
    out.extend([0, dimensions.len() as u8]);
    dimensions.iter().for_each(|dimension| write_integer(dimension.length as i64, out));
    dimensions.iter().for_each(|dimension| write_integer(dimension.lower.into(), out));
}

/// Writes the fields up to the last that is not NULL: the end is above all fields, as NULL is.
fn write_record(record: &Record, out: &mut Vec<u8>) {
    out.push(RECORD);
    let values = record.values();
    let count = values.iter().rposition(|value| !value.is_null()).map_or(0, |last| last + 1);
    for value in &values[..count] {
        out.push(1);
        write(value, false, out);
    }
    out.push(2);
}

fn write_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(0xFF);
        }
    }
    out.extend([0, 1]);
}

/// True if a key of this type determines the whole value. A number's scale, the sign of a zero,
/// an interval's parts, and the case of a `citext` are lost; arrays, rows, `jsonb` and `hstore` are
/// stored a second time.
pub(crate) const fn is_exact(ty: Type) -> bool {
    let is_lossy = matches!(
        ty.plain(),
        Type::Numeric(_)
            | Type::Float4
            | Type::Float8
            | Type::Interval
            | Type::Array(_)
            | Type::Jsonb
            | Type::Hstore
            | Type::Base(_)
    );
    !is_lossy && !ty.is_row()
}

/// Decodes keys, value by value.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    fn byte(&mut self, invert: u8) -> Result<u8, SqlError> {
        let byte =
            self.bytes.get(self.at).ok_or_else(|| SqlError::corrupted("a key ends too early"))?;
        self.at += 1;
        Ok(byte ^ invert)
    }

    fn take<const N: usize>(
        &mut self,
        length: usize,
        invert: u8,
        fill: u8,
    ) -> Result<[u8; N], SqlError> {
        let mut out = [fill; N];
        for slot in &mut out[N - length..] {
            *slot = self.byte(invert)?;
        }
        Ok(out)
    }

    fn escaped(&mut self, invert: u8) -> Result<Vec<u8>, SqlError> {
        let mut out = Vec::new();
        loop {
            match self.byte(invert)? {
                0 => match self.byte(invert)? {
                    1 => return Ok(out),
                    0xFF => out.push(0),
                    _ => return Err(SqlError::corrupted("a key has a wrong escape")),
                },
                byte => out.push(byte),
            }
        }
    }

    /// Skips a value of any type.
    pub(crate) fn skip(&mut self, descending: bool) -> Result<(), SqlError> {
        self.skip_value(descending, false)
    }

    fn skip_value(&mut self, descending: bool, in_array: bool) -> Result<(), SqlError> {
        let invert = if descending { 0xFF } else { 0 };
        let tag = self.byte(invert)?;
        let length = match tag {
            NULL | TRUE | FALSE => 0,
            FLOAT => 8,
            numeric::NEGATIVE_INFINITY..=numeric::NAN => {
                let rest = self.bytes.get(self.at..).unwrap_or_default();
                numeric::skip(tag, rest, descending, in_array)?
            }
            UUID => 16,
            INET_4 => 4 + 1 + 4,
            INET_6 => 16 + 1 + 16,
            INTERVAL => INTERVAL_BYTES,
            TIMETZ => TIMETZ_BYTES,
            BITS => {
                self.escaped(invert)?;
                1
            }
            TEXT | BYTES | JSONB | ENUM | HSTORE | BASE => {
                self.escaped(invert)?;
                0
            }
            ARRAY => {
                while self.byte(invert)? == 1 {
                    self.skip_value(descending, true)?;
                }
                for _ in 0..2 * usize::from(self.byte(invert)?) {
                    self.skip_value(descending, true)?;
                }
                0
            }
            RECORD => {
                while self.byte(invert)? == 1 {
                    self.skip_value(descending, true)?;
                }
                0
            }
            _ if (INTEGER_ZERO - 9..=INTEGER_ZERO + 8).contains(&tag) => integer_length(tag),
            _ => return Err(SqlError::corrupted("a key has an unknown tag")),
        };
        self.at += length;
        if self.at > self.bytes.len() {
            return Err(SqlError::corrupted("a key ends too early"));
        }
        Ok(())
    }

    /// Decodes a value of a type whose keys are exact.
    pub(crate) fn read(&mut self, ty: Type, descending: bool) -> Result<Datum, SqlError> {
        let invert = if descending { 0xFF } else { 0 };
        let wrong = || SqlError::corrupted("a key holds a value of another type");
        let (tag, ty) = (self.byte(invert)?, ty.plain());
        Ok(match (tag, ty) {
            (NULL, _) => Datum::Null,
            (TRUE, Type::Bool) => Datum::Bool(true),
            (FALSE, Type::Bool) => Datum::Bool(false),
            (TEXT, ty) if ty.is_text() || ty == Type::ByteChar => {
                Datum::text(String::from_utf8(self.escaped(invert)?).map_err(|_| wrong())?)
            }
            (tag @ (INET_4 | INET_6), Type::Inet | Type::Cidr) => {
                let length = if tag == INET_4 { 4 } else { 16 };
                let _: [u8; 16] = self.take(length, invert, 0)?;
                let bits = self.byte(invert)?;
                let octets: [u8; 16] = self.take(length, invert, 0)?;
                let octets = &octets[16 - length..];
                Datum::Network(
                    Network::of_octets(octets, bits, ty == Type::Cidr).ok_or_else(wrong)?,
                )
            }
            (ENUM, Type::Enum(ty)) => Datum::Enum(ty.placed(&self.escaped(invert)?)?),
            (BYTES, Type::Bytea) => Datum::Bytes(Bytes::from(self.escaped(invert)?)),
            (UUID, Type::Uuid) => Datum::Uuid(uuid::Uuid::from_bytes(self.take(16, invert, 0)?)),
            (TIMETZ, Type::TimeTz) => {
                let utc_us = i64::from_be_bytes(self.take(8, invert, 0)?) ^ i64::MIN;
                let west_s = i32::from_be_bytes(self.take(4, invert, 0)?) ^ i32::MIN;
                let time = west_s.checked_neg().and_then(|east_s| {
                    let east_us = i64::from(east_s) * 1_000_000;
                    ZonedTime::of(utc_us.checked_add(east_us)?, east_s)
                });
                Datum::TimeTz(time.ok_or_else(wrong)?)
            }
            (BITS, Type::Bit(_) | Type::Varbit(_)) => {
                let bytes = self.escaped(invert)?;
                let unused = 7 - u32::from(self.byte(invert)? & 7);
                let length = (bytes.len() as u32 * 8).saturating_sub(unused);
                let bits = Bits::of_bytes(length, &bytes);
                Datum::Bits(bits.filter(|_| bytes_of(length) == bytes.len()).ok_or_else(wrong)?)
            }
            (tag, _) if (INTEGER_ZERO - 9..=INTEGER_ZERO + 8).contains(&tag) => {
                let fill = if tag < INTEGER_ZERO { 0xFF } else { 0 };
                let n = i64::from_be_bytes(self.take(integer_length(tag), invert, fill)?);
                match ty {
                    Type::Int2 => Datum::Int2(n.try_into().map_err(|_| wrong())?),
                    Type::Int4 => Datum::Int4(n.try_into().map_err(|_| wrong())?),
                    Type::Date => Datum::Date(n.try_into().map_err(|_| wrong())?),
                    Type::Int8 => Datum::Int8(n),
                    Type::Oid | Type::Xid => Datum::Oid(n.try_into().map_err(|_| wrong())?),
                    Type::Time => Datum::Time(n),
                    Type::Timestamp => Datum::Timestamp(n),
                    Type::TimestampTz => Datum::TimestampTz(n),
                    _ => return Err(wrong()),
                }
            }
            _ => return Err(wrong()),
        })
    }
}

const fn integer_length(tag: u8) -> usize {
    if tag < INTEGER_ZERO {
        (INTEGER_ZERO - 1 - tag) as usize
    } else {
        (tag - INTEGER_ZERO) as usize
    }
}

/// Appends what ends all keys that begin with values: no value begins with this byte, and the rest
/// of a long numeric, which does, belongs to another value.
pub(crate) fn end(values: &mut Vec<u8>) {
    values.push(0xFF);
}

/// Returns the first key after every key with this prefix; `None` if there is none. Behind values,
/// [`end`] is the end.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}
