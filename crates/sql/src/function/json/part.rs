//! Parts of a value: by keys, by places, by paths. Those of `json` are read up to the part, which
//! keeps its spaces; those of `jsonb` are looked up in its bytes.

use super::super::of::*;
use super::super::{Function, text_at, whole_at};
use super::{A_JSON, A_JSONB, JSON, JSONB, TEXTS, json_at, jsonb_at, made_text, texts_at};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::json::{self, Event, Node, Part, Reader, View};
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("->", &[JSON, TEXT], A_JSON, |a, _| json_part(a, Step::Key, whole)),
    Function::new("->", &[JSON, INT4], A_JSON, |a, _| json_part(a, Step::Place, whole)),
    Function::new("->", &[JSONB, TEXT], A_JSONB, |a, _| part(a, Step::Key, owned)),
    Function::new("->", &[JSONB, INT4], A_JSONB, |a, _| part(a, Step::Place, owned)),
    Function::new("->>", &[JSON, TEXT], A_TEXT, |a, _| json_part(a, Step::Key, json_text)),
    Function::new("->>", &[JSON, INT4], A_TEXT, |a, _| json_part(a, Step::Place, json_text)),
    Function::new("->>", &[JSONB, TEXT], A_TEXT, |a, _| part(a, Step::Key, shown)),
    Function::new("->>", &[JSONB, INT4], A_TEXT, |a, _| part(a, Step::Place, shown)),
    Function::new("#>", &[JSON, TEXTS], A_JSON, |a, _| json_part(a, Step::Path, whole)),
    Function::new("#>", &[JSONB, TEXTS], A_JSONB, |a, _| part(a, Step::Path, owned)),
    Function::new("#>>", &[JSON, TEXTS], A_TEXT, |a, _| json_part(a, Step::Path, json_text)),
    Function::new("#>>", &[JSONB, TEXTS], A_TEXT, |a, _| part(a, Step::Path, shown)),
    Function::new("json_extract_path", &[JSON, TEXT], A_JSON, |a, _| {
        json_part(a, Step::Steps, whole)
    })
    .variadic(),
    Function::new("jsonb_extract_path", &[JSONB, TEXT], A_JSONB, |a, _| {
        part(a, Step::Steps, owned)
    })
    .variadic(),
    Function::new("json_extract_path_text", &[JSON, TEXT], A_TEXT, |a, _| {
        json_part(a, Step::Steps, json_text)
    })
    .variadic(),
    Function::new("jsonb_extract_path_text", &[JSONB, TEXT], A_TEXT, |a, _| {
        part(a, Step::Steps, shown)
    })
    .variadic(),
    Function::new("[]", &[JSONB, TEXT], A_JSONB, |a, _| part(a, Step::Steps, owned)).variadic(),
];

/// The meaning of the arguments behind a document.
#[derive(Clone, Copy)]
enum Step {
    /// A key of an object.
    Key,
    /// A place in an array.
    Place,
    /// An array of keys and places.
    Path,
    /// Keys and places.
    Steps,
}

/// One step into a document.
#[derive(Clone, Copy)]
enum To<'a> {
    Key(&'a str),
    Place(i64),
    /// A key of an object, or a place in an array.
    Either(&'a str),
}

/// Returns the steps that arguments name; `None` if one is NULL.
fn steps(args: &[Datum], step: Step) -> Result<Option<Vec<To<'_>>>, SqlError> {
    Ok(Some(match step {
        Step::Key => vec![To::Key(text_at(args, 1)?)],
        Step::Place => vec![To::Place(whole_at(args, 1)?)],
        Step::Path => {
            let texts = texts_at(args, 1)?.into_iter();
            return Ok(texts.map(|text| text.map(To::Either)).collect());
        }
        Step::Steps => {
            let texts = (1..args.len()).map(|at| text_at(args, at).map(To::Either));
            texts.collect::<Result<_, _>>()?
        }
    }))
}

/// Makes a value of a part: the part itself, or its text.
pub(super) type Made = fn(Node<'_>) -> Result<Datum, SqlError>;

pub(super) fn owned(node: Node<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Jsonb(node.to_owned()))
}

/// A string without its quotes; NULL for `null`.
pub(super) fn shown(node: Node<'_>) -> Result<Datum, SqlError> {
    Ok(match node.view() {
        View::Null => Datum::Null,
        View::String(text) => Datum::text(text),
        _ => {
            let mut out = String::new();
            json::write_text(node.events(), &mut out);
            return made_text(out);
        }
    })
}

fn part(args: &[Datum], step: Step, made: Made) -> Result<Datum, SqlError> {
    let Some(steps) = steps(args, step)? else { return Ok(Datum::Null) };
    let found = steps.into_iter().try_fold(jsonb_at(args, 0)?.root(), |node, step| match step {
        To::Key(key) => node.member(key),
        // A scalar is an array of itself here, as in PostgreSQL.
        To::Place(0 | -1) if node.is_scalar() => Some(node),
        To::Place(at) => node.item(at),
        To::Either(step) => node.step(step),
    });
    found.map_or(Ok(Datum::Null), made)
}

/// Makes a value of the text of a part and its first event.
pub(super) type MadeOfText = fn(&str, &Event<'_>) -> Result<Datum, SqlError>;

pub(super) fn whole(text: &str, _: &Event<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Json(Arc::from(text)))
}

pub(super) fn json_text(text: &str, first: &Event<'_>) -> Result<Datum, SqlError> {
    Ok(match first {
        Event::Null => Datum::Null,
        Event::String(decoded) => Datum::text(decoded),
        _ => Datum::text(text),
    })
}

fn json_part(args: &[Datum], step: Step, made: MadeOfText) -> Result<Datum, SqlError> {
    let Some(steps) = steps(args, step)? else { return Ok(Datum::Null) };
    let mut text = json_at(args, 0)?;
    let mut first = Reader::default().first(text)?;
    for step in steps {
        let mut reader = Reader::default();
        reader.first(text)?;
        let parts = std::iter::from_fn(|| reader.part(text));
        let found = match (&first, step) {
            (Event::StartArray, To::Place(at)) => at_place(parts, at)?,
            (Event::StartArray, To::Either(step)) => match json::place(step) {
                Some(at) => at_place(parts, at.into())?,
                None => None,
            },
            (Event::StartObject, To::Key(key) | To::Either(key)) => last_of(parts, key)?,
            _ => None,
        };
        let Some(part) = found else { return Ok(Datum::Null) };
        (text, first) = (part.text, part.first);
    }
    made(text.trim(), &first)
}

/// Returns the value of a key: the last one, if it is there more than once.
fn last_of<'a>(
    parts: impl Iterator<Item = Result<Part<'a>, SqlError>>,
    key: &str,
) -> Result<Option<Part<'a>>, SqlError> {
    let mut last = None;
    for part in parts {
        let part = part?;
        if part.key.as_deref() == Some(key) {
            last = Some(part);
        }
    }
    Ok(last)
}

/// Returns an item of an array; a negative place counts from the end.
fn at_place<'a>(
    mut parts: impl Iterator<Item = Result<Part<'a>, SqlError>>,
    at: i64,
) -> Result<Option<Part<'a>>, SqlError> {
    if let Ok(at) = usize::try_from(at) {
        return parts.nth(at).transpose();
    }
    let from_end = at.unsigned_abs() as usize;
    let mut last = VecDeque::new();
    for part in parts {
        last.push_back(part?);
        if last.len() > from_end {
            last.pop_front();
        }
    }
    Ok(if last.len() == from_end { last.pop_front() } else { None })
}
