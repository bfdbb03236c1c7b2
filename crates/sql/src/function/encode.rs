//! Texts of bytes, of formats and of parts that replace others.

use super::of::*;
use super::{Function, Out, Param, text_at, whole_at, wrong_type};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::limits;
use crate::system::quoted;
use crate::types::Type;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use std::fmt::Write;

const A_BYTEA: Out = Out::Of(Type::Bytea);

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("encode", &[BYTEA, TEXT], A_TEXT, encode),
    Function::new("decode", &[TEXT, TEXT], A_BYTEA, decode),
    Function::new("convert_from", &[BYTEA, TEXT], A_TEXT, convert_from).no_longer_immutable(),
    Function::new("convert_to", &[TEXT, TEXT], A_BYTEA, convert_to).no_longer_immutable(),
    Function::new("get_byte", &[BYTEA, INT4], AN_INT4, get_byte),
    Function::new("overlay", &[TEXT, TEXT, INT4], A_TEXT, overlay),
    Function::new("overlay", &[TEXT, TEXT, INT4, INT4], A_TEXT, overlay),
    Function::new("format", &[TEXT], A_TEXT, format).lenient().of_zone(),
    Function::new("format", &[TEXT, Param::Any], A_TEXT, format).variadic().lenient().of_zone(),
];

fn bytes_at(args: &[Datum], at: usize) -> Result<&Bytes, SqlError> {
    match args.get(at) {
        Some(Datum::Bytes(bytes)) => Ok(bytes),
        _ => Err(wrong_type()),
    }
}

fn unknown_encoding(name: &str) -> SqlError {
    SqlError::new(state::INVALID_PARAMETER, format!("unrecognized encoding: \"{name}\""))
}

/// Lines of 76 characters, as PostgreSQL breaks base64.
fn lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 76);
    for (at, c) in text.chars().enumerate() {
        if at > 0 && at % 76 == 0 {
            out.push('\n');
        }
        out.push(c);
    }
    out
}

fn encode(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let bytes = bytes_at(args, 0)?;
    limits::check_value(bytes.len().saturating_mul(4))?;
    let mut out = String::new();
    match text_at(args, 1)?.to_ascii_lowercase().as_str() {
        "hex" => bytes.iter().for_each(|byte| _ = write!(out, "{byte:02x}")),
        "base64" => out = lines(&STANDARD.encode(bytes)),
        "escape" => {
            for byte in bytes {
                match byte {
                    0 | 128.. => _ = write!(out, "\\{byte:03o}"),
                    b'\\' => out.push_str("\\\\"),
                    byte => out.push(char::from(*byte)),
                }
            }
        }
        other => return Err(unknown_encoding(other)),
    }
    Ok(Datum::text(out))
}

fn decode(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let text = text_at(args, 0)?;
    let wrong = |message: String| SqlError::new(state::INVALID_PARAMETER, message);
    let bytes: Bytes = match text_at(args, 1)?.to_ascii_lowercase().as_str() {
        "hex" => {
            let digits: Vec<char> = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            let digit = |c: &char| {
                let bad = || wrong(format!("invalid hexadecimal digit: \"{c}\""));
                c.to_digit(16).map(|digit| digit as u8).ok_or_else(bad)
            };
            let mut out = Vec::with_capacity(digits.len() / 2);
            for pair in digits.chunks(2) {
                let [high, low] = pair else {
                    return Err(wrong("invalid hexadecimal data: odd number of digits".into()));
                };
                out.push(digit(high)? << 4 | digit(low)?);
            }
            out.into()
        }
        "base64" => {
            let packed: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            let decoded = STANDARD.decode(packed);
            decoded.map_err(|error| wrong(format!("invalid base64 data: {error}")))?.into()
        }
        "escape" => match Datum::from_text(Type::Bytea, text)? {
            Datum::Bytes(bytes) => bytes,
            _ => return Err(wrong_type()),
        },
        other => return Err(unknown_encoding(other)),
    };
    Ok(Datum::Bytes(bytes))
}

fn check_utf8(name: &str) -> Result<(), SqlError> {
    match name.to_ascii_lowercase().as_str() {
        "utf8" | "utf-8" | "unicode" => Ok(()),
        _ => Err(SqlError::unsupported(format!("the encoding {name}"))),
    }
}

fn convert_from(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    check_utf8(text_at(args, 1)?)?;
    Datum::from_binary(Type::Text, bytes_at(args, 0)?)
}

fn convert_to(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    check_utf8(text_at(args, 1)?)?;
    Ok(Datum::Bytes(Bytes::copy_from_slice(text_at(args, 0)?.as_bytes())))
}

fn get_byte(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (bytes, at) = (bytes_at(args, 0)?, whole_at(args, 1)?);
    let found = usize::try_from(at).ok().and_then(|at| bytes.get(at));
    found.map(|byte| Datum::Int4((*byte).into())).ok_or_else(|| {
        let last = bytes.len() as i64 - 1;
        SqlError::new(state::ARRAY_SUBSCRIPT, format!("index {at} out of valid range, 0..{last}"))
    })
}

/// Replaces the characters from one on, counted from 1; as many as the new text has, unless a
/// number is given.
fn overlay(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (text, new, from) = (text_at(args, 0)?, text_at(args, 1)?, whole_at(args, 2)?);
    let count = match args.get(3) {
        Some(_) => whole_at(args, 3)?,
        None => new.chars().count() as i64,
    };
    if from <= 0 {
        return Err(SqlError::new("22011", "negative substring length not allowed"));
    }
    let before = text.chars().take((from - 1) as usize);
    let rest = usize::try_from(from - 1 + count).unwrap_or(0);
    let out: String = before.chain(new.chars()).chain(text.chars().skip(rest)).collect();
    limits::check_value(out.len())?;
    Ok(Datum::text(out))
}

/// `%s` is a value, `%I` a quoted name, `%L` a quoted literal; `%2$s` names its argument, `%-10s`
/// pads to a width.
fn format(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let Datum::Text(template) = &args[0] else { return Ok(Datum::Null) };
    let wrong = |message: &str| SqlError::new(state::INVALID_PARAMETER, message);
    let cut = || wrong("unterminated format() type specifier");
    let (mut out, mut chars, mut next) = (String::new(), template.chars().peekable(), 1);
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let number = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut value: Option<usize> = None;
            while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                chars.next();
                value = Some(value.unwrap_or(0).saturating_mul(10).saturating_add(digit as usize));
            }
            value
        };
        let first = number(&mut chars);
        let (mut position, mut width, mut left) = (None, None, false);
        match (first, chars.peek()) {
            (Some(at), Some('$')) => {
                chars.next();
                position = Some(at);
            }
            (first, _) => width = first,
        }
        if width.is_none() && chars.peek() == Some(&'-') {
            chars.next();
            left = true;
        }
        width = width.or_else(|| number(&mut chars));
        let kind = chars.next().ok_or_else(cut)?;
        if kind == '%' {
            out.push('%');
            continue;
        }
        if !matches!(kind, 's' | 'I' | 'L') {
            return Err(wrong(&format!("unrecognized format() type specifier \"{kind}\"")));
        }
        let at = position.unwrap_or(next);
        if at == 0 {
            return Err(wrong("format specifies argument 0, but arguments are numbered from 1"));
        }
        next = at + 1;
        let value = args.get(at).ok_or_else(|| wrong("too few arguments for format()"))?;
        let text = value.to_text_in(value.type_of().unwrap_or(Type::Text), scope.session.zone());
        let text = match (kind, text) {
            ('s', text) => text.unwrap_or_default(),
            ('I', None) => {
                return Err(SqlError::new(
                    "22004",
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            ('I', Some(text)) => quoted(&text),
            (_, None) => "NULL".to_owned(),
            (_, Some(text)) => super::text::quoted(&text),
        };
        let padding = width.unwrap_or(0).saturating_sub(text.chars().count());
        limits::check_value(out.len().saturating_add(text.len()).saturating_add(padding))?;
        let blanks = std::iter::repeat_n(' ', padding);
        match left {
            true => {
                out.push_str(&text);
                out.extend(blanks);
            }
            false => {
                out.extend(blanks);
                out.push_str(&text);
            }
        }
    }
    Ok(Datum::text(out))
}
