//! The binary format of `hstore`, in which rows have it, too: the number of pairs, and of each the
//! length of the key, the key, the length of the value (-1 for NULL), and the value.

use super::{Hstore, Pair};
use crate::error::{SqlError, state};
use crate::format_binary;

/// The number of pairs that a value may have: PostgreSQL's.
const MOST_PAIRS: i32 = 26_843_545;

fn insufficient() -> SqlError {
    SqlError::new(state::PROTOCOL_VIOLATION, "insufficient data left in message")
}

/// Reads a number of four bytes.
fn number(rest: &mut &[u8]) -> Result<i32, SqlError> {
    let (first, others) = rest.split_first_chunk().ok_or_else(insufficient)?;
    *rest = others;
    Ok(i32::from_be_bytes(*first))
}

/// Reads a length and a text of it; `None` for a negative length.
fn text<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a str>, SqlError> {
    let Ok(length) = usize::try_from(number(rest)?) else { return Ok(None) };
    let (text, others) = rest.split_at_checked(length).ok_or_else(insufficient)?;
    *rest = others;
    format_binary::text(text).map(Some)
}

fn pair<'a>(rest: &mut &'a [u8]) -> Result<Pair<'a>, SqlError> {
    let key = text(rest)?.ok_or_else(super::null_key)?;
    Ok((key, text(rest)?))
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    out.extend((length as u32).to_be_bytes());
}

impl Hstore {
    /// Appends the binary format.
    pub(crate) fn write_binary(&self, out: &mut Vec<u8>) {
        write_length(self.len(), out);
        for (key, value) in self.pairs() {
            write_length(key.len(), out);
            out.extend(key.as_bytes());
            match value {
                Some(value) => {
                    write_length(value.len(), out);
                    out.extend(value.as_bytes());
                }
                None => out.extend((-1i32).to_be_bytes()),
            }
        }
    }

    /// Parses the binary format. Fails with 54000 for too many pairs, with 22004 for a NULL as
    /// key, with 08P01 or 22P03 for fewer or more bytes.
    pub(crate) fn from_binary(bytes: &[u8]) -> Result<Hstore, SqlError> {
        let mut rest = bytes;
        let count = number(&mut rest)?;
        if !(0..=MOST_PAIRS).contains(&count) {
            let message =
                format!("number of pairs ({count}) exceeds the maximum allowed ({MOST_PAIRS})");
            return Err(SqlError::new(state::TOO_LARGE, message));
        }
        let pairs = (0..count).map(|_| pair(&mut rest)).collect::<Result<_, _>>()?;
        if !rest.is_empty() {
            let message = "incorrect binary data format for type hstore";
            return Err(SqlError::new(state::BAD_BINARY, message));
        }
        Hstore::of(pairs)
    }
}
