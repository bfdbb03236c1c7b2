//! PostgreSQL's binary format: a header, and for each row the number of its values, and each with
//! its length.

use super::{LONGEST_RECORD_BYTES, bad};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::types::Type;

/// The beginning of the data. Its bytes show if a line end or an eighth bit was changed on the way.
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// The flags that a reader has to understand.
const CRITICAL_FLAGS: u32 = 0xFFFF_0000;
/// The length of NULL, and the number of values that ends the data.
const NONE: i32 = -1;
/// The length of that number, in bytes.
pub(super) const END_BYTES: usize = 2;

/// Appends the header: no flags, and no extension.
pub(super) fn write_header(out: &mut Vec<u8>) {
    out.extend(SIGNATURE);
    out.extend([0; 8]);
}

/// Appends a row.
pub(super) fn write<'a>(
    values: impl ExactSizeIterator<Item = (&'a Datum, Type)>,
    out: &mut Vec<u8>,
) {
    out.extend((values.len() as u16).to_be_bytes());
    for (datum, ty) in values {
        let start = out.len();
        out.extend(NONE.to_be_bytes());
        if datum.write_binary(ty, out) {
            let length = u32::try_from(out.len() - start - 4)
                .expect("invariant: a value is shorter than 4 GB");
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

/// Appends the end of the data.
pub(super) fn write_end(out: &mut Vec<u8>) {
    out.extend((NONE as i16).to_be_bytes());
}

/// Reads integers and bytes from the front of data that may be cut anywhere.
struct Front<'a>(&'a [u8]);

impl<'a> Front<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<i32> {
        self.take(4).map(|bytes| i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn short(&mut self) -> Option<i16> {
        self.take(2).map(|bytes| i16::from_be_bytes([bytes[0], bytes[1]]))
    }
}

/// Reads the header at the front of the data. Returns its length; `None` if a part is missing.
pub(super) fn read_header(data: &[u8]) -> Result<Option<usize>, SqlError> {
    let known = data.len().min(SIGNATURE.len());
    if data[..known] != SIGNATURE[..known] {
        return Err(bad("COPY file signature not recognized"));
    }
    let mut front = Front(data);
    let (Some(_), Some(flags), Some(extension)) =
        (front.take(SIGNATURE.len()), front.number(), front.number())
    else {
        return Ok(None);
    };
    if flags as u32 & CRITICAL_FLAGS != 0 {
        return Err(bad("unrecognized critical flags in COPY file header"));
    }
    let extension = usize::try_from(extension)
        .ok()
        .filter(|length| *length <= LONGEST_RECORD_BYTES)
        .ok_or_else(|| bad("invalid COPY file header (wrong length)"))?;
    Ok(front.take(extension).map(|_| data.len() - front.0.len()))
}

/// True if the end of the data is at the front of it.
pub(super) fn is_end(data: &[u8]) -> bool {
    Front(data).short().is_some_and(|count| i32::from(count) == NONE)
}

/// The values of a row, and its length in bytes.
pub(super) type Tuple<'a> = (Vec<Option<&'a [u8]>>, usize);

/// Reads a row of `columns` values at the front of the data; `None` if a part is missing.
pub(super) fn read_tuple(data: &[u8], columns: usize) -> Result<Option<Tuple<'_>>, SqlError> {
    let mut front = Front(data);
    let Some(count) = front.short() else { return Ok(None) };
    if usize::try_from(count) != Ok(columns) {
        return Err(bad(format!("row field count is {count}, expected {columns}")));
    }
    let mut values = Vec::with_capacity(columns);
    for _ in 0..columns {
        let Some(length) = front.number() else { return Ok(None) };
        if length == NONE {
            values.push(None);
            continue;
        }
        let length = usize::try_from(length).map_err(|_| bad("invalid field size"))?;
        if length > LONGEST_RECORD_BYTES {
            return Err(SqlError::new(state::TOO_LARGE, "a value of COPY is longer than 64 MB"));
        }
        let Some(value) = front.take(length) else { return Ok(None) };
        values.push(Some(value));
    }
    Ok(Some((values, data.len() - front.0.len())))
}
