//! The binary format of rows: the number of fields, and of each the object id of its type, its
//! length (-1 for NULL) and its value.

use super::{Record, Shape};
use crate::composite::Composite;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::types::Type;

/// Reads a number of four bytes.
fn number(rest: &mut &[u8]) -> Option<i32> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(i32::from_be_bytes(*first))
}

impl Record {
    /// Appends the binary format.
    pub(crate) fn write_binary(&self, out: &mut Vec<u8>) {
        out.extend((self.values.len() as u32).to_be_bytes());
        for (field, value) in self.fields() {
            out.extend(field.ty.oid().to_be_bytes());
            let at = out.len();
            out.extend((-1i32).to_be_bytes());
            if value.write_binary(field.ty, out) {
                let length = (out.len() - at - 4) as u32;
                out[at..at + 4].copy_from_slice(&length.to_be_bytes());
            }
        }
    }

    /// Parses a row of a composite type. Fails with 42804 for other fields than those of the type,
    /// with 22P03 for bytes that are no row.
    pub(crate) fn from_binary(ty: Composite, bytes: &[u8]) -> Result<Record, SqlError> {
        let incorrect = || {
            let message = format!("incorrect binary data format for type {}", ty.shown());
            SqlError::new(state::BAD_BINARY, message)
        };
        let (mut rest, fields) = (bytes, ty.fields());
        let count = number(&mut rest).ok_or_else(incorrect)?;
        if usize::try_from(count).ok() != Some(fields.len()) {
            let message = format!("wrong number of columns: {count}, expected {}", fields.len());
            return Err(SqlError::new(state::TYPE_MISMATCH, message));
        }
        let mut values = Vec::with_capacity(fields.len());
        for (at, field) in fields.iter().enumerate() {
            let oid = number(&mut rest).ok_or_else(incorrect)? as u32;
            if oid != field.ty.oid() {
                let name = Type::from_oid(oid).map_or("unknown", Type::name);
                let message = format!(
                    "binary data has type {oid} ({name}) instead of expected {} ({}) in record column {}",
                    field.ty.oid(),
                    field.ty.name(),
                    at + 1
                );
                return Err(SqlError::new(state::TYPE_MISMATCH, message));
            }
            let length = number(&mut rest).ok_or_else(incorrect)?;
            if length == -1 {
                values.push(Datum::Null);
                continue;
            }
            let length = usize::try_from(length).map_err(|_| incorrect())?;
            let (value, others) = rest.split_at_checked(length).ok_or_else(incorrect)?;
            rest = others;
            let value = Datum::from_binary(field.ty, value)?;
            values.push(crate::cast::cast(value, field.ty, false, crate::datetime::Local::utc())?);
        }
        if !rest.is_empty() {
            return Err(incorrect());
        }
        Record::new(Shape::Named(ty), values)
    }
}
