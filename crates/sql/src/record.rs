//! Rows as values, of the columns that SEARCH and CYCLE add to a recursive query: `record` and
//! `record[]`.
//!
//! ```text
//!   record    the fields as in a key                    00   text   length of the part before 00
//!   record[]  each record's fields, as a bytea in a key 00   text   length of the part before 00
//! ```
//!
//! So the order of the bytes is that of the values: a tag of a key is above 00, and an array that
//! continues another one is above it.

use crate::array;
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::key;
use crate::limits;
use crate::types::Type;
use bytes::Bytes;

/// The bytes of a length.
const LENGTH: usize = 4;

fn wrong() -> SqlError {
    SqlError::corrupted("a row as a value is not one")
}

fn pack(mut key: Vec<u8>, text: &str) -> Result<Datum, SqlError> {
    limits::check_value(key.len() + text.len())?;
    let length = u32::try_from(key.len()).map_err(|_| wrong())?;
    key.push(0);
    key.extend(text.as_bytes());
    key.extend(length.to_be_bytes());
    Ok(Datum::Bytes(Bytes::from(key)))
}

/// Returns the part that has the order, and the text.
fn parts(bytes: &[u8]) -> Option<(&[u8], &str)> {
    let (rest, length) = bytes.split_last_chunk::<LENGTH>()?;
    let (key, text) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some((key, std::str::from_utf8(text.get(1..)?).ok()?))
}

/// Returns the text of a value.
pub(crate) fn text(bytes: &[u8]) -> &str {
    parts(bytes).map_or("", |(_, text)| text)
}

fn key_of(fields: &[Datum]) -> Vec<u8> {
    let mut key = Vec::new();
    fields.iter().for_each(|field| key::write(field, false, &mut key));
    key
}

/// Returns the text of a row in a time zone: `(1,"a b",)`.
fn text_of(fields: &[Datum], zone: &Zone) -> String {
    let mut out = String::from("(");
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        let ty = field.type_of().unwrap_or(Type::Text);
        let Some(text) = field.to_text_in(ty, zone) else { continue };
        let special = |c: char| {
            matches!(c, '"' | '\\' | '(' | ')' | ',') || c.is_ascii_whitespace() || c == '\u{b}'
        };
        if !text.is_empty() && !text.contains(special) {
            out.push_str(&text);
            continue;
        }
        out.push('"');
        for c in text.chars() {
            if matches!(c, '"' | '\\') {
                out.push(c);
            }
            out.push(c);
        }
        out.push('"');
    }
    out.push(')');
    out
}

/// Returns a row, the first field of which is one more than that of the row before, or 0.
pub(crate) fn deeper(before: &Datum, fields: &[Datum], zone: &Zone) -> Result<Datum, SqlError> {
    let depth = match before {
        Datum::Bytes(bytes) => {
            let (key, _) = parts(bytes).ok_or_else(wrong)?;
            let depth = key::Reader::new(key).read(Type::Int8, false)?;
            depth.as_i64().ok_or_else(wrong)?.saturating_add(1)
        }
        _ => 0,
    };
    let fields = [&[Datum::Int8(depth)][..], fields].concat();
    pack(key_of(&fields), &text_of(&fields, zone))
}

/// Returns an array of rows and one more row behind them.
pub(crate) fn append(before: &Datum, fields: &[Datum], zone: &Zone) -> Result<Datum, SqlError> {
    let row = array::element_text(&text_of(fields, zone));
    let (mut key, text) = match before {
        Datum::Bytes(bytes) => {
            let (key, text) = parts(bytes).ok_or_else(wrong)?;
            let text = text.strip_suffix('}').ok_or_else(wrong)?;
            (key.to_vec(), format!("{text},{row}}}"))
        }
        _ => (Vec::new(), format!("{{{row}}}")),
    };
    key::write(&Datum::Bytes(Bytes::from(key_of(fields))), false, &mut key);
    pack(key, &text)
}

/// True if an array of rows has a row.
pub(crate) fn contains(rows: &Datum, fields: &[Datum]) -> Result<bool, SqlError> {
    let Datum::Bytes(bytes) = rows else { return Ok(false) };
    let (key, _) = parts(bytes).ok_or_else(wrong)?;
    let wanted = key_of(fields);
    let mut reader = key::Reader::new(key);
    while !reader.is_at_end() {
        match reader.read(Type::Bytea, false)? {
            Datum::Bytes(row) if *row == *wanted => return Ok(true),
            _ => {}
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: &Datum) -> String {
        value.to_text(Type::Records).unwrap()
    }

    #[test]
    fn values_have_the_texts_and_the_order_of_postgresql() {
        let row = |text: &str| vec![Datum::Int4(7), Datum::text(text), Datum::Null];
        let append = |before: &Datum, fields: &[Datum]| append(before, fields, Zone::utc());
        let deeper = |before: &Datum, fields: &[Datum]| deeper(before, fields, Zone::utc());
        let one = append(&Datum::Null, &row("a")).unwrap();
        let two = append(&one, &row("b \"c\\")).unwrap();
        let other = append(&Datum::Null, &row("a b")).unwrap();
        assert_eq!(shown(&one), "{\"(7,a,)\"}");
        assert_eq!(shown(&two), r#"{"(7,a,)","(7,\"b \"\"c\\\\\",)"}"#);
        assert!(one.order(&two).is_lt() && two.order(&other).is_lt());
        assert!(contains(&two, &row("a")).unwrap());
        assert!(!contains(&two, &row("b")).unwrap());
        let depth = deeper(&Datum::Null, &[Datum::text("")]).unwrap();
        assert_eq!(shown(&depth), "(0,\"\")");
        let below = deeper(&depth, &[Datum::Null]).unwrap();
        assert_eq!(shown(&below), "(1,)");
        assert!(depth.order(&below).is_lt());
    }
}
