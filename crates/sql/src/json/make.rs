//! Writes values of SQL as JSON.

use crate::array::Array;
use crate::datetime;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::types::Type;
use std::fmt::Write;

/// The line breaks of arrays.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// None.
    Plain,
    /// One between the items of the outermost dimension.
    Lines,
}

/// Appends a value as JSON: numbers and truth values as they are, JSON as it is, arrays as arrays,
/// times in ISO 8601, all else as a string.
pub(crate) fn write_json(datum: &Datum, style: Style, out: &mut String) {
    match datum {
        Datum::Null => out.push_str("null"),
        Datum::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Datum::Float8(x) if !x.is_finite() => quoted(datum, out),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Float8(_) | Datum::Numeric(_) => {
            datum.write_text(Type::Text, out);
        }
        Datum::Json(text) => out.push_str(text),
        Datum::Jsonb(_) => _ = datum.write_text(Type::Jsonb, out),
        Datum::Array(array) => write_array(array, style, out),
        Datum::Timestamp(us) | Datum::TimestampTz(us) if !datetime::is_infinite(*us) => {
            let mut text = String::new();
            datum.write_text(Type::Text, &mut text);
            let has_zone = matches!(datum, Datum::TimestampTz(_));
            // `2024-05-01 10:00:00+00`, perhaps with BC behind it, becomes
            // `2024-05-01T10:00:00+00:00`.
            let text = text.replacen(' ', "T", 1);
            write_string(&if has_zone { text.replacen("+00", "+00:00", 1) } else { text }, out);
        }
        Datum::Text(text) => write_string(text, out),
        _ => quoted(datum, out),
    }
}

fn quoted(datum: &Datum, out: &mut String) {
    write_string(&datum.to_text(Type::Text).unwrap_or_default(), out);
}

fn write_array(array: &Array, style: Style, out: &mut String) {
    let lengths: Vec<usize> = array.dimensions().iter().map(|dim| dim.length).collect();
    if lengths.is_empty() {
        return out.push_str("[]");
    }
    write_dimension(array.values(), &lengths, style, out);
}

/// Writes the elements of the outermost of some dimensions in brackets.
fn write_dimension(values: &[Datum], lengths: &[usize], style: Style, out: &mut String) {
    let size = values.len() / lengths[0].max(1);
    out.push('[');
    for (at, part) in values.chunks(size.max(1)).enumerate() {
        if at > 0 {
            out.push_str(if style == Style::Lines { ",\n " } else { "," });
        }
        match lengths.len() {
            1 => write_json(&part[0], Style::Plain, out),
            _ => write_dimension(part, &lengths[1..], Style::Plain, out),
        }
    }
    out.push(']');
}

/// Returns the key of an object that a value becomes. Fails with 22023 for an array or JSON.
pub(crate) fn key_of(datum: &Datum) -> Result<String, SqlError> {
    if matches!(datum, Datum::Array(_) | Datum::Json(_) | Datum::Jsonb(_)) {
        let message = "key value must be scalar, not array, composite, or json";
        return Err(SqlError::new(state::INVALID_PARAMETER, message));
    }
    let mut json = String::new();
    write_json(datum, Style::Plain, &mut json);
    // All but numbers and truth values are strings already.
    Ok(match datum {
        Datum::Text(text) => text.to_string(),
        _ => json.trim_matches('"').to_owned(),
    })
}

/// Appends a string of JSON in its quotes.
pub(crate) fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| matches!(c, '"' | '\\' | '\0'..='\x1F')) {
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
