//! PostgreSQL's binary format of values.

use crate::array::{Array, Dimension, MOST_DIMENSIONS};
use crate::bits::{self, Bits};
use crate::datetime::{self, ZonedTime};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::hstore::Hstore;
use crate::interval::Interval;
use crate::network::Network;
use crate::numeric::Numeric;
use crate::record::{self, Record};
use crate::types::{NAME_LENGTH, Type};
use bytes::Bytes;

const JSON_VERSION: u8 = 1;

impl Datum {
    /// Returns the binary format; `None` for NULL.
    pub fn to_binary(&self, ty: Type) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.write_binary(ty, &mut out).then_some(out)
    }

    /// Appends the binary format; false, and nothing appended, for NULL.
    pub fn write_binary(&self, ty: Type, out: &mut Vec<u8>) -> bool {
        match self {
            Datum::Null => return false,
            Datum::Bool(b) => out.push(u8::from(*b)),
            Datum::Int2(n) => out.extend(n.to_be_bytes()),
            Datum::Int4(n) => out.extend(n.to_be_bytes()),
            Datum::Int8(n) => out.extend(n.to_be_bytes()),
            Datum::Float4(x) => out.extend(x.to_be_bytes()),
            Datum::Float8(x) => out.extend(x.to_be_bytes()),
            Datum::Numeric(n) => n.write_binary(out),
            // An empty text is the byte 0.
            Datum::Text(text) if ty == Type::ByteChar => {
                out.push(text.as_bytes().first().copied().unwrap_or(0));
            }
            Datum::Text(text) => {
                out.extend(text.as_bytes());
                if let Type::Char(n) = ty {
                    out.extend(std::iter::repeat_n(
                        b' ',
                        (n as usize).saturating_sub(text.chars().count()),
                    ));
                }
            }
            Datum::Bytes(bytes) => out.extend(bytes),
            Datum::Uuid(id) => out.extend(id.as_bytes()),
            Datum::Date(days) => out.extend(days.to_be_bytes()),
            Datum::Time(us) | Datum::Timestamp(us) | Datum::TimestampTz(us) => {
                out.extend(us.to_be_bytes())
            }
            Datum::Interval(Interval { months, days, micros }) => {
                out.extend(micros.to_be_bytes());
                out.extend(days.to_be_bytes());
                out.extend(months.to_be_bytes());
            }
            Datum::Network(network) => network.write_binary(out),
            Datum::Json(text) => out.extend(text.as_bytes()),
            // The version of the format, then the text.
            Datum::Jsonb(_) | Datum::JsonPath(_) => {
                out.push(JSON_VERSION);
                out.extend(self.to_text(ty).unwrap_or_default().as_bytes());
            }
            Datum::Hstore(value) => value.write_binary(out),
            Datum::Array(array) => write_array(array, ty, out),
            // The zone is given in seconds to the west.
            Datum::TimeTz(ZonedTime { micros, east_s }) => {
                out.extend(micros.to_be_bytes());
                out.extend((-east_s).to_be_bytes());
            }
            Datum::Bits(bits) => {
                out.extend(bits.length().to_be_bytes());
                out.extend(bits.bytes());
            }
            Datum::Oid(oid) | Datum::Object(oid, _) => out.extend(oid.to_be_bytes()),
            Datum::Enum(value) => out.extend(value.label().as_bytes()),
            Datum::Base(value) => out.extend(value.text().as_bytes()),
            Datum::Record(record) => record.write_binary(out),
        }
        true
    }

    /// Parses the binary format of a type.
    pub fn from_binary(ty: Type, bytes: &[u8]) -> Result<Datum, SqlError> {
        fn fixed<const N: usize>(ty: Type, bytes: &[u8]) -> Result<[u8; N], SqlError> {
            bytes.try_into().map_err(|_| incorrect(ty))
        }
        Ok(match ty {
            Type::Rounded(rounded) => Datum::from_binary(rounded.plain(), bytes)?,
            Type::Bool => Datum::Bool(fixed::<1>(ty, bytes)?[0] != 0),
            Type::Int2 => Datum::Int2(i16::from_be_bytes(fixed(ty, bytes)?)),
            Type::Int4 => Datum::Int4(i32::from_be_bytes(fixed(ty, bytes)?)),
            Type::Int8 => Datum::Int8(i64::from_be_bytes(fixed(ty, bytes)?)),
            Type::Float4 => Datum::Float4(f32::from_be_bytes(fixed(ty, bytes)?)),
            Type::Float8 => Datum::Float8(f64::from_be_bytes(fixed(ty, bytes)?)),
            Type::Numeric(_) => Datum::Numeric(Numeric::from_binary(bytes)?),
            Type::Text | Type::Varchar(_) => Datum::text(text(bytes)?),
            Type::Name if bytes.len() > NAME_LENGTH => {
                let message = "identifier too long";
                let detail =
                    format!("Identifier must be less than {} characters.", NAME_LENGTH + 1);
                return Err(SqlError::new(state::NAME_TOO_LONG, message).detail(detail));
            }
            Type::Name => Datum::text(text(bytes)?),
            Type::ByteChar => match fixed::<1>(ty, bytes)? {
                [0] => Datum::text(""),
                _ => Datum::from_text(ty, text(bytes)?)?,
            },
            Type::Internal(_) => {
                let what = format!("input of a value of type {ty}");
                return Err(SqlError::unsupported(what));
            }
            Type::Oid | Type::Xid => Datum::Oid(u32::from_be_bytes(fixed(ty, bytes)?)),
            Type::Char(_) => Datum::text(text(bytes)?.trim_end_matches(' ')),
            Type::Inet | Type::Cidr => {
                let network = Network::from_binary(bytes, ty == Type::Cidr);
                Datum::Network(network.ok_or_else(|| incorrect(ty))?)
            }
            Type::Json => Datum::from_text(ty, text(bytes)?)?,
            Type::Jsonb | Type::JsonPath => match bytes {
                [JSON_VERSION, rest @ ..] => Datum::from_text(ty, text(rest)?)?,
                [version, ..] => {
                    let message = format!("unsupported {} version number {version}", ty.name());
                    return Err(SqlError::new(state::BAD_BINARY, message));
                }
                [] => return Err(incorrect(ty)),
            },
            Type::Hstore => Datum::Hstore(Hstore::from_binary(bytes)?),
            Type::Enum(of) => Datum::Enum(of.labelled(text(bytes)?)?),
            Type::Base(of) => Datum::Base(of.read(text(bytes)?)?),
            Type::Bytea => Datum::Bytes(Bytes::copy_from_slice(bytes)),
            Type::Record => return Err(record::no_fields()),
            Type::Composite(ty) => Datum::Record(Record::from_binary(ty, bytes)?.into()),
            Type::Uuid => Datum::Uuid(uuid::Uuid::from_bytes(fixed(ty, bytes)?)),
            Type::Date => {
                let days = i32::from_be_bytes(fixed(ty, bytes)?);
                let is_known = datetime::is_infinite_date(days)
                    || datetime::date_in_range(days.into()).is_some();
                Datum::Date(is_known.then_some(days).ok_or_else(datetime::date_overflow)?)
            }
            Type::Time => {
                let us = i64::from_be_bytes(fixed(ty, bytes)?);
                let is_known = (0..=datetime::DAY_US).contains(&us);
                Datum::Time(is_known.then_some(us).ok_or_else(datetime::time_overflow)?)
            }
            Type::TimeTz => {
                let (us, west_s) = bytes.split_at_checked(8).ok_or_else(|| incorrect(ty))?;
                let us = i64::from_be_bytes(fixed(ty, us)?);
                if !(0..=datetime::DAY_US).contains(&us) {
                    return Err(datetime::time_overflow());
                }
                let east_s = i32::from_be_bytes(fixed(ty, west_s)?).checked_neg();
                let time = east_s.and_then(|east_s| ZonedTime::written(us, east_s));
                Datum::TimeTz(time.ok_or_else(datetime::displacement_overflow)?)
            }
            Type::Bit(_) | Type::Varbit(_) => {
                let (length, bytes) = bytes.split_first_chunk().ok_or_else(|| incorrect(ty))?;
                let length = u32::from_be_bytes(*length);
                if bits::check_length(length as usize).is_err()
                    || bytes.len() != bits::bytes_of(length)
                {
                    let message = "invalid length in external bit string";
                    return Err(SqlError::new(state::BAD_BINARY, message));
                }
                Datum::Bits(Bits::of_bytes(length, bytes).ok_or_else(|| incorrect(ty))?)
            }
            Type::Timestamp => Datum::Timestamp(micros(i64::from_be_bytes(fixed(ty, bytes)?))?),
            Type::TimestampTz => Datum::TimestampTz(micros(i64::from_be_bytes(fixed(ty, bytes)?))?),
            Type::Array(element) => Datum::Array(read_array(element.ty(), bytes)?.into()),
            Type::Void => Datum::text(""),
            Type::Int2Vector | Type::OidVector => {
                Datum::Array(read_array(ty.element().unwrap_or(ty), bytes)?.into())
            }
            Type::Object(_) => {
                let oid = u32::from_be_bytes(fixed(ty, bytes)?);
                Datum::Object(oid, oid.to_string().into())
            }
            Type::Interval => {
                let [micros, parts] = [0, 8].map(|at| bytes.get(at..at + 8));
                let micros = fixed(ty, micros.unwrap_or_default())?;
                let parts = i64::from_be_bytes(fixed(ty, parts.unwrap_or_default())?);
                if bytes.len() != 16 {
                    return Err(incorrect(ty));
                }
                Datum::Interval(Interval {
                    micros: i64::from_be_bytes(micros),
                    days: (parts >> 32) as i32,
                    months: parts as i32,
                })
            }
        })
    }
}

/// Returns a timestamp that is in the range of the type. Fails with 22008 for another.
fn micros(us: i64) -> Result<i64, SqlError> {
    let is_known = datetime::is_infinite(us) || datetime::timestamp_in_range(us.into()).is_some();
    is_known.then_some(us).ok_or_else(datetime::timestamp_overflow)
}

/// Writes the number of dimensions, whether there are NULLs, the element's object id, the length
/// and lower bound of each dimension, then the elements behind their lengths.
fn write_array(array: &Array, ty: Type, out: &mut Vec<u8>) {
    let element = ty.element().unwrap_or(array.element);
    let has_null = array.values().iter().any(Datum::is_null);
    out.extend((array.dimensions().len() as u32).to_be_bytes());
    out.extend(u32::from(has_null).to_be_bytes());
    out.extend(element.oid().to_be_bytes());
    for dimension in array.dimensions() {
        out.extend((dimension.length as u32).to_be_bytes());
        out.extend(dimension.lower.to_be_bytes());
    }
    for value in array.values() {
        let at = out.len();
        out.extend((-1i32).to_be_bytes());
        if value.write_binary(element, out) {
            let length = (out.len() - at - 4) as u32;
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

fn read_array(element: Type, bytes: &[u8]) -> Result<Array, SqlError> {
    let element = element.base();
    let ty = element.array();
    let mut rest = bytes;
    let mut number = || -> Result<i32, SqlError> {
        let (first, others) = rest.split_first_chunk().ok_or_else(|| incorrect(ty))?;
        rest = others;
        Ok(i32::from_be_bytes(*first))
    };
    let (count, flags, oid) = (number()?, number()?, number()?);
    if !(0..=MOST_DIMENSIONS as i32).contains(&count) || !(0..=1).contains(&flags) {
        return Err(incorrect(ty));
    }
    let found = u32::try_from(oid).ok();
    let is_its = match element {
        Type::Enum(_) | Type::Composite(_) | Type::Base(_) => found == Some(element.oid()),
        _ => found.and_then(Type::from_oid).map(Type::base) == Some(element.base()),
    };
    if !is_its {
        return Err(SqlError::new(state::TYPE_MISMATCH, "wrong element type"));
    }
    let mut dimensions = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let length = usize::try_from(number()?).map_err(|_| incorrect(ty))?;
        dimensions.push(Dimension { length, lower: number()? });
    }
    let mut values = Vec::new();
    let of_lengths = dimensions.iter().try_fold(1usize, |n, dim| n.checked_mul(dim.length));
    // Each element has at least its length.
    let most = rest.len() / 4;
    let total = if dimensions.is_empty() { Some(0) } else { of_lengths };
    for _ in 0..total.filter(|total| *total <= most).ok_or_else(|| incorrect(ty))? {
        let (length, others) = rest.split_first_chunk().ok_or_else(|| incorrect(ty))?;
        let length = i32::from_be_bytes(*length);
        if length == -1 {
            rest = others;
            values.push(Datum::Null);
            continue;
        }
        let length = usize::try_from(length).map_err(|_| incorrect(ty))?;
        let (value, others) = others.split_at_checked(length).ok_or_else(|| incorrect(ty))?;
        rest = others;
        values.push(Datum::from_binary(element, value)?);
    }
    if !rest.is_empty() {
        return Err(incorrect(ty));
    }
    Array::with(element, dimensions, values)
}

fn incorrect(ty: Type) -> SqlError {
    SqlError::new(state::BAD_BINARY, format!("incorrect binary data format for type {}", ty.name()))
}

/// Returns bytes as a text. Fails with 22021 for what is none.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, SqlError> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| {
        SqlError::new(state::BAD_ENCODING, "invalid byte sequence for encoding \"UTF8\"")
    })
}
