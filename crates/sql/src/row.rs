//! Encodes rows as stored values: a version byte, the number of stored columns, a bitmap of NULLs,
//! the values.
//!
//! Columns whose value the key determines exactly are not stored again. A row with fewer columns
//! than its table was written before the others were added: those have the value that the
//! descriptor holds for such rows.

use crate::array::{Array, Dimension, MOST_DIMENSIONS};
use crate::bits::{Bits, bytes_of};
use crate::catalog::Table;
use crate::composite::Composite;
use crate::datetime::ZonedTime;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::hstore::Hstore;
use crate::interval::Interval;
use crate::json::{Jsonb, Path};
use crate::key;
use crate::network::Network;
use crate::numeric::{MOST_SCALE, Stored};
use crate::record::{Record, Shape};
use crate::types::Type;
use bytes::Bytes;

const VERSION: u8 = 1;

/// Encodes the columns of a row that its key does not determine.
pub(crate) fn encode(table: &Table, row: &[Datum]) -> Vec<u8> {
    let stored = table.stored();
    let mut out = Vec::with_capacity(16 + stored.len() * 6);
    out.push(VERSION);
    encode_columns(stored, row, &mut out);
    out
}

/// Appends the number of some columns of a row, a bitmap of NULLs, their values.
pub(crate) fn encode_columns(columns: &[usize], row: &[Datum], out: &mut Vec<u8>) {
    write_varint(columns.len() as u128, out);
    let bitmap = out.len();
    out.resize(bitmap + columns.len().div_ceil(8), 0);
    for (at, &column) in columns.iter().enumerate() {
        match &row[column] {
            Datum::Null => out[bitmap + at / 8] |= 1 << (at % 8),
            datum => write(datum, out),
        }
    }
}

/// Encodes a value alone.
pub(crate) fn encode_value(value: &Datum) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

/// Decodes a value as [`encode_value`] wrote it.
pub(crate) fn decode_value(ty: Type, bytes: &[u8]) -> Result<Datum, SqlError> {
    Source { bytes }.read(ty)
}

/// Appends the length of bytes that follow.
pub(crate) fn write_length(length: usize, out: &mut Vec<u8>) {
    write_varint(length as u128, out);
}

/// Splits off bytes behind their length.
pub(crate) fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), SqlError> {
    let mut source = Source { bytes };
    let length = source.length()?;
    let first = source.take(length)?;
    Ok((first, source.bytes))
}

/// Decodes a row as wide as its table; columns that are not wanted are NULL. `key` is the key
/// without its storage's prefix.
pub(crate) fn decode(
    table: &Table,
    key: &[u8],
    value: &[u8],
    wanted: &[bool],
) -> Result<Vec<Datum>, SqlError> {
    let mut row = vec![Datum::Null; table.columns.len()];
    if let Some(primary) = &table.primary {
        let mut reader = key::Reader::new(key);
        for part in primary.columns.iter() {
            let column = part.column as usize;
            let ty = table.columns[column].ty;
            if wanted[column] && key::is_exact(ty) {
                row[column] = reader.read(ty, part.descending)?;
            } else {
                reader.skip(part.descending)?;
            }
        }
    }
    let mut source = Source { bytes: value };
    if source.byte()? != VERSION {
        return Err(SqlError::corrupted("a row has an unknown version"));
    }
    decode_columns(table, table.stored(), source.bytes, wanted, &mut row)?;
    Ok(row)
}

/// Decodes columns as [`encode_columns`] wrote them, or the first of them, into a row.
pub(crate) fn decode_columns(
    table: &Table,
    columns: &[usize],
    bytes: &[u8],
    wanted: &[bool],
    row: &mut [Datum],
) -> Result<(), SqlError> {
    let mut source = Source { bytes };
    let count = source.varint()? as usize;
    if count > columns.len() {
        return Err(SqlError::corrupted("a row has more columns than its table"));
    }
    let bitmap = source.take(count.div_ceil(8))?;
    let last = columns[..count].iter().rposition(|column| wanted[*column]).map_or(0, |at| at + 1);
    for (at, &column) in columns[..last].iter().enumerate() {
        if bitmap[at / 8] >> (at % 8) & 1 == 0 {
            let ty = table.columns[column].ty;
            if wanted[column] && !table.columns[column].dropped {
                row[column] = source.read(ty)?;
            } else {
                source.skip(ty)?;
            }
        }
    }
    for &column in columns[count..].iter().filter(|column| wanted[**column]) {
        if let Some(value) = &table.columns[column].filled {
            row[column] = value.clone();
        }
    }
    Ok(())
}

/// Appends a value that is not NULL.
fn write(datum: &Datum, out: &mut Vec<u8>) {
    match datum {
        Datum::Null => {}
        Datum::Bool(b) => out.push(u8::from(*b)),
        Datum::Int2(n) => write_signed((*n).into(), out),
        Datum::Int4(n) | Datum::Date(n) => write_signed((*n).into(), out),
        Datum::Int8(n) | Datum::Time(n) | Datum::Timestamp(n) | Datum::TimestampTz(n) => {
            write_signed((*n).into(), out)
        }
        Datum::Float4(x) => out.extend(x.to_le_bytes()),
        Datum::Float8(x) => out.extend(x.to_le_bytes()),
        Datum::Numeric(n) => write_numeric(&Stored::of(n), out),
        Datum::Text(text) => write_bytes(text.as_bytes(), out),
        Datum::Bytes(bytes) => write_bytes(bytes, out),
        Datum::Uuid(id) => out.extend(id.as_bytes()),
        Datum::Interval(Interval { months, days, micros }) => {
            write_signed((*months).into(), out);
            write_signed((*days).into(), out);
            write_signed((*micros).into(), out);
        }
        Datum::Network(network) => network.write_row(out),
        Datum::Json(text) => write_bytes(text.as_bytes(), out),
        Datum::Jsonb(value) => write_bytes(value.as_bytes(), out),
        Datum::JsonPath(path) => write_bytes(path.to_string().as_bytes(), out),
        Datum::Hstore(value) => {
            let mut bytes = Vec::new();
            value.write_binary(&mut bytes);
            write_bytes(&bytes, out);
        }
        Datum::Array(array) => write_array(array, out),
        Datum::TimeTz(ZonedTime { micros, east_s }) => {
            write_signed((*micros).into(), out);
            write_signed((*east_s).into(), out);
        }
        Datum::Bits(bits) => {
            write_varint(bits.length().into(), out);
            out.extend(bits.bytes());
        }
        Datum::Oid(oid) => write_signed((*oid).into(), out),
        // No column of a stored table has such a type.
        Datum::Object(oid, _) => write_signed((*oid).into(), out),
        Datum::Enum(value) => write_bytes(value.place(), out),
        Datum::Base(value) => write_bytes(value.text().as_bytes(), out),
        Datum::Record(record) => write_record(record, out),
    }
}

fn write_numeric(stored: &Stored, out: &mut Vec<u8>) {
    match stored {
        Stored::Small(first, digits) => {
            out.push(*first);
            write_signed(*digits, out);
        }
        Stored::Large(first, scale, digits) => {
            out.push(*first);
            write_varint((*scale).into(), out);
            write_bytes(digits, out);
        }
        Stored::Other(first) => out.push(*first),
    }
}

/// Writes the dimensions, a bitmap of NULLs, the other elements.
fn write_array(array: &Array, out: &mut Vec<u8>) {
    write_varint(array.dimensions().len() as u128, out);
    for dimension in array.dimensions() {
        write_varint(dimension.length as u128, out);
        write_signed(dimension.lower.into(), out);
    }
    let values = array.values();
    let bitmap = out.len();
    out.resize(bitmap + values.len().div_ceil(8), 0);
    for (at, value) in values.iter().enumerate() {
        match value {
            Datum::Null => out[bitmap + at / 8] |= 1 << (at % 8),
            datum => write(datum, out),
        }
    }
}

/// Writes the number of attributes, dropped ones included, a bitmap of NULLs, the other values.
fn write_record(record: &Record, out: &mut Vec<u8>) {
    let attributes = match record.shape() {
        Shape::Named(ty) => ty.descriptor().attributes.as_slice(),
        // No column of a stored table has such a type.
        Shape::Anonymous(_) => return write_varint(0, out),
    };
    write_varint(attributes.len() as u128, out);
    let bitmap = out.len();
    out.resize(bitmap + attributes.len().div_ceil(8), 0);
    let mut values = record.values().iter();
    for (at, attribute) in attributes.iter().enumerate() {
        match Some(attribute).filter(|it| !it.dropped).and_then(|_| values.next()) {
            None | Some(Datum::Null) => out[bitmap + at / 8] |= 1 << (at % 8),
            Some(datum) => write(datum, out),
        }
    }
}

fn write_varint(mut n: u128, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn write_signed(n: i128, out: &mut Vec<u8>) {
    write_varint(((n << 1) ^ (n >> 127)) as u128, out);
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_varint(bytes.len() as u128, out);
    out.extend(bytes);
}

struct Source<'a> {
    bytes: &'a [u8],
}

impl<'a> Source<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], SqlError> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(length)
            .ok_or_else(|| SqlError::corrupted("a row ends too early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, SqlError> {
        Ok(self.take(1)?[0])
    }

    fn varint(&mut self) -> Result<u128, SqlError> {
        let mut n = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            n |= u128::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(SqlError::corrupted("a number in a row does not end"))
    }

    fn signed(&mut self) -> Result<i128, SqlError> {
        let n = self.varint()?;
        Ok((n >> 1) as i128 ^ -((n & 1) as i128))
    }

    fn length(&mut self) -> Result<usize, SqlError> {
        usize::try_from(self.varint()?)
            .map_err(|_| SqlError::corrupted("a length in a row is too large"))
    }

    fn text(&mut self) -> Result<&'a str, SqlError> {
        let length = self.length()?;
        std::str::from_utf8(self.take(length)?)
            .map_err(|_| SqlError::corrupted("a text in a row is not UTF-8"))
    }

    fn skip(&mut self, ty: Type) -> Result<(), SqlError> {
        match ty.plain() {
            Type::Text
            | Type::Varchar(_)
            | Type::Char(_)
            | Type::Name
            | Type::ByteChar
            | Type::Bytea
            | Type::Json
            | Type::Jsonb
            | Type::JsonPath
            | Type::Hstore
            | Type::Base(_)
            | Type::Enum(_) => {
                let length = self.length()?;
                self.take(length)?;
            }
            Type::Bool => _ = self.take(1)?,
            Type::Float4 => _ = self.take(4)?,
            Type::Float8 => _ = self.take(8)?,
            Type::TimeTz => {
                self.varint()?;
                self.varint()?;
            }
            Type::Bit(_) | Type::Varbit(_) => _ = self.bits()?,
            Type::Uuid => _ = self.take(16)?,
            Type::Inet | Type::Cidr => _ = self.network()?,
            Type::Numeric(_) => _ = self.numeric()?,
            Type::Interval => {
                for _ in 0..3 {
                    self.varint()?;
                }
            }
            Type::Array(element) => {
                let (dimensions, count) = self.dimensions()?;
                if !dimensions.is_empty() {
                    let nulls = self.take(count.div_ceil(8))?;
                    let is_null = |at: &usize| nulls[at / 8] >> (at % 8) & 1 == 1;
                    for _ in (0..count).filter(|at| !is_null(at)) {
                        self.skip(element.ty())?;
                    }
                }
            }
            Type::Composite(ty) => _ = self.record(ty)?,
            _ => _ = self.varint()?,
        }
        Ok(())
    }

    fn numeric(&mut self) -> Result<Stored, SqlError> {
        let wrong = || SqlError::corrupted("a numeric in a row is of a later release");
        Ok(match Stored::begun(self.byte()?).ok_or_else(wrong)? {
            Stored::Small(first, _) => Stored::Small(first, self.signed()?),
            Stored::Large(first, ..) => {
                let scale = u32::try_from(self.varint()?).ok();
                let scale = scale.filter(|scale| *scale <= MOST_SCALE);
                let wrong = || SqlError::corrupted("a numeric in a row has too large a scale");
                let scale = scale.ok_or_else(wrong)?;
                let length = self.length()?;
                Stored::Large(first, scale, self.take(length)?.to_vec())
            }
            other => other,
        })
    }

    fn bits(&mut self) -> Result<Bits, SqlError> {
        let wrong = || SqlError::corrupted("a bit string in a row is too long");
        let length = u32::try_from(self.varint()?).map_err(|_| wrong())?;
        Bits::of_bytes(length, self.take(bytes_of(length))?).ok_or_else(wrong)
    }

    /// Reads the length of a network's prefix, and an address.
    fn network(&mut self) -> Result<(u8, &'a [u8]), SqlError> {
        let (family, bits) = (self.byte()?, self.byte()?);
        match family {
            4 => Ok((bits, self.take(4)?)),
            6 => Ok((bits, self.take(16)?)),
            _ => Err(SqlError::corrupted("an address in a row is of no known family")),
        }
    }

    /// Reads the dimensions of an array; returns the number of its elements, too.
    fn dimensions(&mut self) -> Result<(Vec<Dimension>, usize), SqlError> {
        let wrong = || SqlError::corrupted("an array in a row has wrong dimensions");
        let number = self.length()?;
        if number > MOST_DIMENSIONS {
            return Err(wrong());
        }
        let (mut dimensions, mut count) = (Vec::with_capacity(number), 1usize);
        for _ in 0..number {
            let length = self.length()?;
            let lower = i32::try_from(self.signed()?).map_err(|_| wrong())?;
            count = count.checked_mul(length).ok_or_else(wrong)?;
            dimensions.push(Dimension { lower, length });
        }
        Ok((dimensions, if number == 0 { 0 } else { count }))
    }

    fn array(&mut self, element: Type) -> Result<Array, SqlError> {
        let (dimensions, count) = self.dimensions()?;
        let nulls = self.take(count.div_ceil(8))?;
        let mut values = Vec::with_capacity(count.min(self.bytes.len() + 8 * nulls.len()));
        for at in 0..count {
            values.push(match nulls[at / 8] >> (at % 8) & 1 {
                1 => Datum::Null,
                _ => self.read(element)?,
            });
        }
        Array::with(element, dimensions, values)
    }

    /// Reads a row of a composite type. Attributes that were added later are NULL.
    fn record(&mut self, ty: Composite) -> Result<Record, SqlError> {
        let attributes = &ty.descriptor().attributes;
        let count = self.length()?;
        if count > attributes.len() {
            return Err(SqlError::corrupted("a row as a value has more fields than its type"));
        }
        let nulls = self.take(count.div_ceil(8))?;
        let mut values = Vec::with_capacity(ty.fields().len());
        for (at, attribute) in attributes.iter().enumerate() {
            let value = match at >= count || nulls[at / 8] >> (at % 8) & 1 == 1 {
                true => Datum::Null,
                false => self.read(attribute.ty)?,
            };
            if !attribute.dropped {
                values.push(value);
            }
        }
        Record::new(Shape::Named(ty), values)
    }

    fn read(&mut self, ty: Type) -> Result<Datum, SqlError> {
        let wrong = |_| SqlError::corrupted("a number in a row is too large for its column");
        Ok(match ty {
            Type::Rounded(rounded) => self.read(rounded.plain())?,
            Type::Bool => Datum::Bool(self.byte()? != 0),
            Type::Int2 => Datum::Int2(self.signed()?.try_into().map_err(wrong)?),
            Type::Int4 => Datum::Int4(self.signed()?.try_into().map_err(wrong)?),
            Type::Date => Datum::Date(self.signed()?.try_into().map_err(wrong)?),
            Type::Int8 => Datum::Int8(self.signed()?.try_into().map_err(wrong)?),
            Type::Time => Datum::Time(self.signed()?.try_into().map_err(wrong)?),
            Type::Timestamp => Datum::Timestamp(self.signed()?.try_into().map_err(wrong)?),
            Type::TimestampTz => Datum::TimestampTz(self.signed()?.try_into().map_err(wrong)?),
            Type::Oid | Type::Xid => Datum::Oid(self.signed()?.try_into().map_err(wrong)?),
            Type::TimeTz => {
                let micros = self.signed()?.try_into().map_err(wrong)?;
                let time = ZonedTime::of(micros, self.signed()?.try_into().map_err(wrong)?);
                let wrong = || SqlError::corrupted("a time in a row is out of range");
                Datum::TimeTz(time.ok_or_else(wrong)?)
            }
            Type::Bit(_) | Type::Varbit(_) => Datum::Bits(self.bits()?),
            Type::Float4 => {
                let mut bits = [0; 4];
                bits.copy_from_slice(self.take(4)?);
                Datum::Float4(f32::from_le_bytes(bits))
            }
            Type::Float8 => {
                let mut bits = [0; 8];
                bits.copy_from_slice(self.take(8)?);
                Datum::Float8(f64::from_le_bytes(bits))
            }
            Type::Numeric(_) => {
                let wrong = |_| SqlError::corrupted("a numeric in a row is too large");
                Datum::Numeric(self.numeric()?.value().map_err(wrong)?)
            }
            Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Name | Type::ByteChar => {
                Datum::text(self.text()?)
            }
            Type::Inet | Type::Cidr => {
                let (bits, octets) = self.network()?;
                let network = Network::of_octets(octets, bits, ty == Type::Cidr);
                let wrong = || SqlError::corrupted("an address in a row");
                Datum::Network(network.ok_or_else(wrong)?)
            }
            Type::Json => Datum::Json(self.text()?.into()),
            Type::JsonPath => Datum::JsonPath(Path::from_text(self.text()?)?),
            Type::Jsonb => {
                let length = self.length()?;
                Datum::Jsonb(Jsonb::from_bytes(self.take(length)?))
            }
            Type::Hstore => {
                let length = self.length()?;
                let value = Hstore::from_binary(self.take(length)?);
                Datum::Hstore(value.map_err(|_| SqlError::corrupted("an hstore in a row"))?)
            }
            Type::Bytea => {
                let length = self.length()?;
                Datum::Bytes(Bytes::copy_from_slice(self.take(length)?))
            }
            Type::Base(ty) => Datum::Base(ty.read(self.text()?)?),
            Type::Enum(ty) => {
                let length = self.length()?;
                Datum::Enum(ty.placed(self.take(length)?)?)
            }
            Type::Uuid => {
                let mut id = [0; 16];
                id.copy_from_slice(self.take(16)?);
                Datum::Uuid(uuid::Uuid::from_bytes(id))
            }
            Type::Array(element) => Datum::Array(self.array(element.ty().base())?.into()),
            Type::Composite(ty) => Datum::Record(self.record(ty)?.into()),
            Type::Int2Vector
            | Type::OidVector
            | Type::Internal(_)
            | Type::Object(_)
            | Type::Void
            | Type::Record => {
                return Err(SqlError::corrupted("a row has a value of a system table's type"));
            }
            Type::Interval => Datum::Interval(Interval {
                months: self.signed()?.try_into().map_err(wrong)?,
                days: self.signed()?.try_into().map_err(wrong)?,
                micros: self.signed()?.try_into().map_err(wrong)?,
            }),
        })
    }
}
