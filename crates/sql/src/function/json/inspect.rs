//! Kind, length and contents of a value.

use super::super::of::*;
use super::super::{Function, text_at};
use super::rows::cannot;
use super::{JSON, JSONB, TEXTS, json_at, jsonb_at, texts_at};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Scope;
use crate::interrupt;
use crate::json::{Event, Node, Reader, View};
use crate::stack;
use std::collections::HashSet;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("@>", &[JSONB, JSONB], A_BOOL, |a, _| contains(a, 0, 1)),
    Function::new("<@", &[JSONB, JSONB], A_BOOL, |a, _| contains(a, 1, 0)),
    Function::new("?", &[JSONB, TEXT], A_BOOL, |a, _| {
        Ok(Datum::Bool(has(jsonb_at(a, 0)?.root(), text_at(a, 1)?)))
    }),
    Function::new("?|", &[JSONB, TEXTS], A_BOOL, has_any),
    Function::new("?&", &[JSONB, TEXTS], A_BOOL, has_all),
    Function::new("json_typeof", &[JSON], A_TEXT, json_type),
    Function::new("jsonb_typeof", &[JSONB], A_TEXT, type_),
    Function::new("json_array_length", &[JSON], AN_INT4, json_length),
    Function::new("jsonb_array_length", &[JSONB], AN_INT4, length),
];

fn type_(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::text(match jsonb_at(args, 0)?.root().view() {
        View::Null => "null",
        View::Bool(_) => "boolean",
        View::Number(_) => "number",
        View::String(_) => "string",
        View::Array(_) => "array",
        View::Object(_) => "object",
    }))
}

fn json_type(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::text(match Reader::default().first(json_at(args, 0)?)? {
        Event::Boolean(_) => "boolean",
        Event::Number(_) => "number",
        Event::String(_) => "string",
        Event::StartArray => "array",
        Event::StartObject => "object",
        _ => "null",
    }))
}

fn length(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    match jsonb_at(args, 0)?.root().view() {
        View::Array(items) => Ok(Datum::Int4(items.len() as i32)),
        View::Object(_) => Err(cannot("get array length of", "a non-array")),
        _ => Err(cannot("get array length of", "a scalar")),
    }
}

fn json_length(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (text, mut reader) = (json_at(args, 0)?, Reader::default());
    match reader.first(text)? {
        Event::StartArray => {
            let mut parts = std::iter::from_fn(|| reader.part(text));
            let count = parts.try_fold(0, |count, part| part.map(|_| count + 1))?;
            Ok(Datum::Int4(count))
        }
        Event::StartObject => Err(cannot("get array length of", "a non-array")),
        _ => Err(cannot("get array length of", "a scalar")),
    }
}

/// True if an object has a key, an array a string, or if the value is the string.
fn has(node: Node<'_>, key: &str) -> bool {
    match node.view() {
        View::Object(_) => node.member(key).is_some(),
        View::Array(items) => {
            let mut strings = items.iter();
            strings.any(|item| matches!(item.view(), View::String(text) if text == key))
        }
        View::String(text) => text == key,
        _ => false,
    }
}

/// Tells of each key whether a value has it; NULLs are left out.
fn has_each<'a>(args: &'a [Datum]) -> Result<impl Iterator<Item = bool> + 'a, SqlError> {
    let node = jsonb_at(args, 0)?.root();
    let strings: HashSet<&str> = match node.view() {
        View::Array(items) => items.iter().filter_map(Node::string).collect(),
        _ => node.string().into_iter().collect(),
    };
    let keys = texts_at(args, 1)?.into_iter().flatten();
    Ok(keys.map(move |key| strings.contains(key) || node.member(key).is_some()))
}

fn has_any(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(has_each(args)?.any(|has| has)))
}

fn has_all(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(has_each(args)?.all(|has| has)))
}

fn contains(args: &[Datum], outer: usize, inner: usize) -> Result<Datum, SqlError> {
    let (outer, inner) = (jsonb_at(args, outer)?.root(), jsonb_at(args, inner)?.root());
    let found = match (outer.view(), inner.view()) {
        // An array contains a scalar, at the top alone.
        (View::Array(items), View::Null | View::Bool(_) | View::Number(_) | View::String(_)) => {
            items.iter().any(|item| is_same(item, inner))
        }
        _ => is_within(outer, inner),
    };
    Ok(Datum::Bool(found))
}

/// True if two values that are no arrays and no objects are equal.
fn is_same(a: Node<'_>, b: Node<'_>) -> bool {
    interrupt::step();
    let are_numbers = matches!((a.view(), b.view()), (View::Number(_), View::Number(_)));
    a.bytes() == b.bytes() || are_numbers && a.key() == b.key()
}

/// Calls itself for each level of what is looked for.
fn is_within(outer: Node<'_>, inner: Node<'_>) -> bool {
    interrupt::step();
    stack::level(|| match (outer.view(), inner.view()) {
        (View::Object(_), View::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| outer.member(key).is_some_and(|there| is_within(there, wanted))),
        (View::Array(items), View::Array(wanted)) => {
            let (scalars, others): (Vec<_>, Vec<_>) = items.iter().partition(|it| it.is_scalar());
            let scalars: HashSet<Vec<u8>> = scalars.into_iter().map(Node::key).collect();
            wanted.iter().all(|wanted| match wanted.is_scalar() {
                true => scalars.contains(&wanted.key()),
                false => others.iter().any(|item| is_within(*item, wanted)),
            })
        }
        (View::Object(_) | View::Array(_), _) | (_, View::Object(_) | View::Array(_)) => false,
        _ => is_same(outer, inner),
    })
}
