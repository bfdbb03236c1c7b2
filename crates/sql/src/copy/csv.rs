//! The format csv: values with separators in quotes, and quotes in quotes escaped.

use super::bad;
use super::options::Options;
use crate::error::SqlError;

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) value: Vec<u8>,
    /// True if a part of it was in quotes.
    pub(super) is_quoted: bool,
}

/// Splits a record into its fields. Fails if a quote is left open.
pub(super) fn fields(options: &Options, record: &[u8]) -> Result<Vec<Field>, SqlError> {
    let Options { delimiter, quote, escape, .. } = *options;
    let (mut out, mut value) = (Vec::new(), Vec::new());
    let (mut is_quoted, mut inside) = (false, false);
    let mut bytes = record.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if inside {
            let escaped = |next: &u8| *next == quote || *next == escape;
            match bytes.next_if(|next| byte == escape && escaped(next)) {
                Some(next) => value.push(next),
                None if byte == quote => inside = false,
                None => value.push(byte),
            }
        } else if byte == delimiter {
            out.push(Field { value: std::mem::take(&mut value), is_quoted });
            is_quoted = false;
        } else if byte == quote {
            (inside, is_quoted) = (true, true);
        } else {
            value.push(byte);
        }
    }
    if inside {
        return Err(bad("unterminated CSV quoted field"));
    }
    out.push(Field { value, is_quoted });
    Ok(out)
}

/// Appends a row; NULL is `None`. The values of `quoted` columns are always in quotes.
pub(super) fn write<'a>(
    options: &Options,
    quoted: &[bool],
    fields: impl Iterator<Item = Option<&'a str>>,
    out: &mut Vec<u8>,
) {
    let Options { delimiter, quote, escape, .. } = *options;
    let special = |byte: u8| byte == delimiter || byte == quote || matches!(byte, b'\n' | b'\r');
    for (at, field) in fields.enumerate() {
        if at > 0 {
            out.push(delimiter);
        }
        let Some(field) = field else {
            out.extend(&options.null);
            continue;
        };
        // A line that is `\.` alone would end the data.
        let needs = field.as_bytes() == options.null
            || (quoted.len() == 1 && field == "\\.")
            || field.bytes().any(special);
        if !needs && !quoted.get(at).copied().unwrap_or(false) {
            out.extend(field.as_bytes());
            continue;
        }
        out.push(quote);
        for byte in field.bytes() {
            if byte == quote || byte == escape {
                out.push(escape);
            }
            out.push(byte);
        }
        out.push(quote);
    }
    out.push(b'\n');
}
