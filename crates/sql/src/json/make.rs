//! Writes values of SQL as JSON.

use crate::datetime::{self, Zone};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::hstore::Values;
use crate::interrupt;
use crate::limits;
use crate::types::Type;
use std::fmt::Write;

/// The line breaks of arrays and objects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// None.
    Plain,
    /// One between the items of the outermost dimension, or the fields of the row.
    Lines,
}

/// Appends a value as JSON: numbers and truth values as they are, JSON as it is, arrays as arrays,
/// rows and `hstore` as objects, times in ISO 8601, all else as a string. Fails with 54000 if the
/// text becomes too large.
pub(crate) fn write_json(
    datum: &Datum,
    style: Style,
    zone: &Zone,
    out: &mut String,
) -> Result<(), SqlError> {
    match datum {
        Datum::Null => out.push_str("null"),
        Datum::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Datum::Float4(x) if !x.is_finite() => write_string(&text_of(datum, zone), out),
        Datum::Float8(x) if !x.is_finite() => write_string(&text_of(datum, zone), out),
        Datum::Numeric(n) if n.finite().is_none() => write_string(&text_of(datum, zone), out),
        Datum::Int2(_)
        | Datum::Int4(_)
        | Datum::Int8(_)
        | Datum::Float4(_)
        | Datum::Float8(_)
        | Datum::Numeric(_) => {
            datum.write_text(Type::Text, zone, out);
        }
        Datum::Json(text) => out.push_str(text),
        Datum::Jsonb(_) => _ = datum.write_text(Type::Jsonb, zone, out),
        Datum::Hstore(value) => value.write_json(Values::Strict, out),
        Datum::Array(array) => {
            let lengths: Vec<usize> = array.dimensions().iter().map(|dim| dim.length).collect();
            match lengths.is_empty() {
                true => out.push_str("[]"),
                false => write_dimension(array.values(), &lengths, style, zone, out)?,
            }
        }
        Datum::Record(record) => {
            out.push('{');
            for (at, (field, value)) in record.fields().enumerate() {
                if at > 0 {
                    out.push_str(if style == Style::Lines { ",\n " } else { "," });
                }
                write_string(&field.name, out);
                out.push(':');
                match value {
                    // The blanks of `character(n)` are part of it.
                    Datum::Text(_) => {
                        write_string(&value.to_text_in(field.ty, zone).unwrap_or_default(), out);
                    }
                    value => write_json(value, Style::Plain, zone, out)?,
                }
            }
            out.push('}');
        }
        Datum::Text(text) => write_string(text, out),
        _ => write_string(&text_of(datum, zone), out),
    }
    limits::check_value(out.len())
}

/// Returns the text of a value in JSON: times in ISO 8601, `2024-05-01T10:00:00+00:00`.
fn text_of(datum: &Datum, zone: &Zone) -> String {
    let mut text = datum.to_text_in(Type::Text, zone).unwrap_or_default();
    let (us, has_zone) = match datum {
        Datum::Timestamp(us) => (*us, false),
        Datum::TimestampTz(us) => (*us, true),
        _ => return text,
    };
    if datetime::is_infinite(us) {
        return text;
    }
    text = text.replacen(' ', "T", 1);
    // The offset shows its minutes; perhaps BC is behind it.
    let end = text.find(' ').unwrap_or(text.len());
    let sign_at = text[..end].rfind(['+', '-']).unwrap_or(end);
    if has_zone && !text[sign_at..end].contains(':') {
        text.insert_str(end, ":00");
    }
    text
}

/// Writes the elements of the outermost of some dimensions in brackets.
fn write_dimension(
    values: &[Datum],
    lengths: &[usize],
    style: Style,
    zone: &Zone,
    out: &mut String,
) -> Result<(), SqlError> {
    let size = values.len() / lengths[0].max(1);
    out.push('[');
    for (at, part) in values.chunks(size.max(1)).enumerate() {
        if at > 0 {
            out.push_str(if style == Style::Lines { ",\n " } else { "," });
        }
        match lengths.len() {
            1 => write_json(&part[0], Style::Plain, zone, out)?,
            _ => write_dimension(part, &lengths[1..], Style::Plain, zone, out)?,
        }
    }
    out.push(']');
    Ok(())
}

/// Returns the key of an object that a value becomes. Fails with 22023 for an array, a
/// row or JSON.
pub(crate) fn key_of(datum: &Datum, zone: &Zone) -> Result<String, SqlError> {
    match datum {
        Datum::Array(_)
        | Datum::Record(_)
        | Datum::Json(_)
        | Datum::Jsonb(_)
        | Datum::Hstore(_) => {
            let message = "key value must be scalar, not array, composite, or json";
            Err(SqlError::new(state::INVALID_PARAMETER, message))
        }
        Datum::Bool(b) => Ok(b.to_string()),
        _ => Ok(text_of(datum, zone)),
    }
}

/// Appends a string of JSON in its quotes.
pub(crate) fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| matches!(c, '"' | '\\' | '\0'..='\x1F')) {
        interrupt::step();
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            8 => out.push_str("\\b"),
            12 => out.push_str("\\f"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            other => _ = write!(out, "\\u{other:04x}"),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}
