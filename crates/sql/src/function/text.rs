//! Functions of text and of bytes.

use super::of::*;
use super::{Function, Out, Param, text_at, whole_at, wrong_type};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::limits;
use crate::memory;
use crate::types::Type;
use bytes::Bytes;
use md5::Digest;
use std::collections::HashMap;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("lower", &[TEXT], A_TEXT, lower),
    Function::new("upper", &[TEXT], A_TEXT, upper),
    Function::new("initcap", &[TEXT], A_TEXT, initcap),
    Function::new("length", &[TEXT], AN_INT4, length),
    Function::new("length", &[BYTEA], AN_INT4, octet_length),
    Function::new("char_length", &[TEXT], AN_INT4, length),
    Function::new("character_length", &[TEXT], AN_INT4, length),
    Function::new("octet_length", &[TEXT], AN_INT4, octet_length),
    Function::new("octet_length", &[BYTEA], AN_INT4, octet_length),
    Function::new("bit_length", &[TEXT], AN_INT4, bit_length),
    Function::new("bit_length", &[BYTEA], AN_INT4, bit_length),
    Function::new("btrim", &[TEXT], A_TEXT, btrim),
    Function::new("btrim", &[TEXT, TEXT], A_TEXT, btrim),
    Function::new("ltrim", &[TEXT], A_TEXT, ltrim),
    Function::new("ltrim", &[TEXT, TEXT], A_TEXT, ltrim),
    Function::new("rtrim", &[TEXT], A_TEXT, rtrim),
    Function::new("rtrim", &[TEXT, TEXT], A_TEXT, rtrim),
    Function::new("substr", &[TEXT, INT4], A_TEXT, substring),
    Function::new("substr", &[TEXT, INT4, INT4], A_TEXT, substring),
    Function::new("substring", &[TEXT, INT4], A_TEXT, substring),
    Function::new("substring", &[TEXT, INT4, INT4], A_TEXT, substring),
    Function::new("replace", &[TEXT, TEXT, TEXT], A_TEXT, replace),
    Function::new("translate", &[TEXT, TEXT, TEXT], A_TEXT, translate),
    Function::new("repeat", &[TEXT, INT4], A_TEXT, repeat),
    Function::new("reverse", &[TEXT], A_TEXT, reverse),
    Function::new("lpad", &[TEXT, INT4], A_TEXT, lpad),
    Function::new("lpad", &[TEXT, INT4, TEXT], A_TEXT, lpad),
    Function::new("rpad", &[TEXT, INT4], A_TEXT, rpad),
    Function::new("rpad", &[TEXT, INT4, TEXT], A_TEXT, rpad),
    Function::new("left", &[TEXT, INT4], A_TEXT, left),
    Function::new("right", &[TEXT, INT4], A_TEXT, right),
    Function::new("strpos", &[TEXT, TEXT], AN_INT4, strpos),
    Function::new("position", &[TEXT, TEXT], AN_INT4, strpos),
    Function::new("starts_with", &[TEXT, TEXT], A_BOOL, starts_with),
    Function::new("split_part", &[TEXT, TEXT, INT4], A_TEXT, split_part),
    Function::new("ascii", &[TEXT], AN_INT4, ascii),
    Function::new("chr", &[INT4], A_TEXT, chr),
    Function::new("to_hex", &[INT4], A_TEXT, to_hex),
    Function::new("to_hex", &[INT8], A_TEXT, to_hex),
    Function::new("md5", &[TEXT], A_TEXT, md5),
    Function::new("md5", &[BYTEA], A_TEXT, md5),
    Function::new("quote_literal", &[TEXT], A_TEXT, quote_literal),
    Function::new("quote_nullable", &[TEXT], A_TEXT, quote_nullable).lenient(),
    Function::new("quote_ident", &[TEXT], A_TEXT, quote_ident),
    Function::new("||", &[TEXT, TEXT], A_TEXT, join),
    Function::new("||", &[TEXT, Param::NonArray], A_TEXT, join).of_zone(),
    Function::new("||", &[Param::NonArray, TEXT], A_TEXT, join).of_zone(),
    Function::new("||", &[BYTEA, BYTEA], Out::Of(Type::Bytea), join_bytes),
];

fn made(text: String) -> Result<Datum, SqlError> {
    limits::check_value(text.len())?;
    Ok(Datum::text(text))
}

fn count(n: usize) -> Result<Datum, SqlError> {
    Ok(Datum::Int4(i32::try_from(n).unwrap_or(i32::MAX)))
}

fn lower(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    made(text_at(args, 0)?.to_lowercase())
}

fn upper(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    made(text_at(args, 0)?.to_uppercase())
}

/// Capitalizes words: runs of letters and digits.
fn initcap(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let mut inside = false;
    let mut out = String::new();
    for c in text_at(args, 0)?.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_alphanumeric();
    }
    made(out)
}

fn length(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    count(text_at(args, 0)?.chars().count())
}

fn bytes_of(args: &[Datum]) -> Result<&[u8], SqlError> {
    match &args[0] {
        Datum::Bytes(bytes) => Ok(bytes),
        Datum::Text(text) => Ok(text.as_bytes()),
        _ => Err(wrong_type()),
    }
}

fn octet_length(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    count(bytes_of(args)?.len())
}

fn bit_length(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    count(bytes_of(args)?.len().saturating_mul(8))
}

/// The characters that a trim removes; blanks without a second argument.
fn cut(args: &[Datum]) -> Result<Vec<char>, SqlError> {
    if args.len() < 2 {
        return Ok(vec![' ']);
    }
    Ok(text_at(args, 1)?.chars().collect())
}

fn btrim(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::text(text_at(args, 0)?.trim_matches(&cut(args)?[..])))
}

fn ltrim(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::text(text_at(args, 0)?.trim_start_matches(&cut(args)?[..])))
}

fn rtrim(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::text(text_at(args, 0)?.trim_end_matches(&cut(args)?[..])))
}

fn substring(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (text, from) = (text_at(args, 0)?, whole_at(args, 1)?);
    let end = match args.len() {
        2 => i64::MAX,
        _ => match whole_at(args, 2)? {
            ..0 => return Err(SqlError::new("22011", "negative substring length not allowed")),
            length => from.saturating_add(length),
        },
    };
    let skip = (from.max(1) - 1) as usize;
    let take = end.saturating_sub(from.max(1)).max(0) as usize;
    Ok(Datum::text(text.chars().skip(skip).take(take).collect::<String>()))
}

fn replace(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let (text, from, to) = (text_at(args, 0)?, text_at(args, 1)?, text_at(args, 2)?);
    if from.is_empty() {
        return Ok(args[0].clone());
    }
    let more = match to.len().saturating_sub(from.len()) {
        0 => 0,
        each => text.matches(from).count().saturating_mul(each),
    };
    limits::check_room(text.len().saturating_add(more), scope)?;
    Ok(Datum::text(text.replace(from, to)))
}

/// Replaces each character by the one at its place in the second set, or by nothing.
fn translate(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let mut to = text_at(args, 2)?.chars();
    let mut known: HashMap<char, Option<char>> = HashMap::new();
    for c in text_at(args, 1)?.chars() {
        let with = to.next();
        known.entry(c).or_insert(with);
    }
    let map = |c: char| known.get(&c).copied().unwrap_or(Some(c));
    made(text_at(args, 0)?.chars().filter_map(map).collect())
}

fn repeat(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let (text, times) = (text_at(args, 0)?, usize::try_from(whole_at(args, 1)?).unwrap_or(0));
    limits::check_room(text.len().saturating_mul(times), scope)?;
    Ok(Datum::text(text.repeat(times)))
}

fn reverse(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::text(text_at(args, 0)?.chars().rev().collect::<String>()))
}

fn pad(args: &[Datum], scope: &Scope<'_>, at_left: bool) -> Result<Datum, SqlError> {
    let (text, length) = (text_at(args, 0)?, usize::try_from(whole_at(args, 1)?).unwrap_or(0));
    let fill = if args.len() == 3 { text_at(args, 2)? } else { " " };
    limits::check_room(length, scope)?;
    let missing = match fill.is_empty() {
        true => 0,
        false => length.saturating_sub(text.chars().count()),
    };
    let kept = text.chars().take(length);
    let padding = fill.chars().cycle().take(missing);
    made(match at_left {
        true => padding.chain(kept).collect(),
        false => kept.chain(padding).collect(),
    })
}

fn lpad(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    pad(args, scope, true)
}

fn rpad(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    pad(args, scope, false)
}

/// The number of characters that `left` and `right` keep: all but some for a negative number.
fn kept(args: &[Datum]) -> Result<(usize, usize), SqlError> {
    let (all, n) = (text_at(args, 0)?.chars().count() as i64, whole_at(args, 1)?);
    let kept = if n < 0 { all.saturating_add(n).max(0) } else { n.min(all) };
    Ok((all as usize, kept as usize))
}

fn left(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (_, kept) = kept(args)?;
    Ok(Datum::text(text_at(args, 0)?.chars().take(kept).collect::<String>()))
}

fn right(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (all, kept) = kept(args)?;
    Ok(Datum::text(text_at(args, 0)?.chars().skip(all - kept).collect::<String>()))
}

fn strpos(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (hay, needle) = (text_at(args, 0)?, text_at(args, 1)?);
    count(hay.find(needle).map_or(0, |at| hay[..at].chars().count() + 1))
}

fn starts_with(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(text_at(args, 0)?.starts_with(text_at(args, 1)?)))
}

/// The part of this number between separators, from the end for a negative number.
fn split_part(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (text, between, n) = (text_at(args, 0)?, text_at(args, 1)?, whole_at(args, 2)?);
    let at = n.unsigned_abs() as usize;
    if n == 0 {
        return Err(SqlError::new(state::INVALID_PARAMETER, "field position must not be zero"));
    }
    let part = match between.is_empty() {
        true => (at == 1).then_some(text),
        false if n > 0 => text.split(between).nth(at - 1),
        false => text.rsplit(between).nth(at - 1),
    };
    Ok(Datum::text(part.unwrap_or_default()))
}

fn ascii(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Int4(text_at(args, 0)?.chars().next().map_or(0, |c| c as i32)))
}

fn chr(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let code = whole_at(args, 0)?;
    match code {
        0 => return Err(SqlError::new("54000", "null character not permitted")),
        ..0 => {
            let message = "character number must be positive";
            return Err(SqlError::new(state::INVALID_PARAMETER, message));
        }
        _ => {}
    }
    let found = u32::try_from(code).ok().and_then(char::from_u32);
    let Some(c) = found else {
        let message = format!("requested character too large for encoding: {code}");
        return Err(SqlError::new("54000", message));
    };
    Ok(Datum::text(c.to_string()))
}

fn to_hex(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    match args[0] {
        Datum::Int4(n) => made(format!("{n:x}")),
        Datum::Int8(n) => made(format!("{n:x}")),
        _ => Err(wrong_type()),
    }
}

fn md5(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let digest = md5::Md5::digest(bytes_of(args)?);
    made(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns a literal of a text.
pub(super) fn quoted(text: &str) -> String {
    let prefix = if text.contains('\\') { "E" } else { "" };
    format!("{prefix}'{}'", text.replace('\'', "''").replace('\\', "\\\\"))
}

fn quote_literal(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    made(quoted(text_at(args, 0)?))
}

fn quote_nullable(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    if args[0].is_null() {
        return Ok(Datum::text("NULL"));
    }
    made(quoted(text_at(args, 0)?))
}

/// Quotes a name unless it is one as it stands: small letters, digits and underscores, and no
/// reserved word.
fn quote_ident(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    made(crate::system::quoted(text_at(args, 0)?))
}

fn join(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    limits::check_room(args.iter().map(memory::behind).sum(), scope)?;
    let mut out = String::new();
    for arg in args {
        match arg {
            Datum::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Datum::Network(network) => out.push_str(&network.full()),
            arg => _ = arg.write_text(Type::Text, scope.session.zone(), &mut out),
        }
    }
    made(out)
}

fn join_bytes(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let [Datum::Bytes(left), Datum::Bytes(right)] = args else { return Err(wrong_type()) };
    limits::check_room(left.len() + right.len(), scope)?;
    Ok(Datum::Bytes(Bytes::from([&left[..], &right[..]].concat())))
}
