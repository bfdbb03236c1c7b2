//! The items and members of a value as rows.

use super::super::of::*;
use super::super::{Function, Rows, wrong_type};
use super::part::{Made, MadeOfText, json_text, owned, shown, whole};
use super::{A_JSON, A_JSONB, JSON, JSONB, invalid, jsonb_at};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Scope;
use crate::json::{Event, Part, Reader, View};
use crate::types::Type;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::set("json_object_keys", &[JSON], A_TEXT, json_keys),
    Function::set("jsonb_object_keys", &[JSONB], A_TEXT, keys),
    Function::set("json_array_elements", &[JSON], A_JSON, |args, _| {
        json_elements(args, whole, "json_array_elements")
    })
    .columns(&[("value", Type::Json)]),
    Function::set("json_array_elements_text", &[JSON], A_TEXT, |args, _| {
        json_elements(args, json_text, "json_array_elements_text")
    })
    .columns(&[("value", Type::Text)]),
    Function::set("jsonb_array_elements", &[JSONB], A_JSONB, |args, _| elements(args, owned))
        .columns(&[("value", Type::Jsonb)]),
    Function::set("jsonb_array_elements_text", &[JSONB], A_TEXT, |args, _| elements(args, shown))
        .columns(&[("value", Type::Text)]),
    Function::set("json_each", &[JSON], A_JSON, |args, _| json_members(args, whole))
        .columns(&[("key", Type::Text), ("value", Type::Json)]),
    Function::set("json_each_text", &[JSON], A_TEXT, |args, _| json_members(args, json_text))
        .columns(&[("key", Type::Text), ("value", Type::Text)]),
    Function::set("jsonb_each", &[JSONB], A_JSONB, |args, _| members(args, owned, "jsonb_each"))
        .columns(&[("key", Type::Text), ("value", Type::Jsonb)]),
    Function::set("jsonb_each_text", &[JSONB], A_TEXT, |args, _| {
        members(args, shown, "jsonb_each_text")
    })
    .columns(&[("key", Type::Text), ("value", Type::Text)]),
];

/// Returns the error of a value of another kind.
pub(super) fn cannot(function: &str, of: &str) -> SqlError {
    invalid(format!("cannot {function} {of}"))
}

fn elements(args: &[Datum], made: Made) -> Result<Rows, SqlError> {
    let value = jsonb_at(args, 0)?.clone();
    let count = match value.root().view() {
        View::Array(items) => items.len(),
        View::Object(_) => return Err(cannot("extract elements from", "an object")),
        _ => return Err(cannot("extract elements from", "a scalar")),
    };
    Ok(Box::new((0..count).map(move |at| {
        let item = value.root().item(at as i64);
        Ok(vec![item.map_or(Ok(Datum::Null), made)?])
    })))
}

fn members(args: &[Datum], made: Made, name: &str) -> Result<Rows, SqlError> {
    let value = jsonb_at(args, 0)?.clone();
    let View::Object(members) = value.root().view() else {
        return Err(cannot(&format!("call {name} on"), "a non-object"));
    };
    let count = members.len();
    Ok(Box::new((0..count).map(move |at| match value.root().view() {
        View::Object(members) => match members.get(at) {
            Some((key, node)) => Ok(vec![Datum::text(key), made(node)?]),
            None => Ok(vec![Datum::Null, Datum::Null]),
        },
        _ => Err(wrong_type()),
    })))
}

fn keys(args: &[Datum], _: &Scope<'_>) -> Result<Rows, SqlError> {
    let keys: Vec<Datum> = match jsonb_at(args, 0)?.root().view() {
        View::Object(members) => members.iter().map(|(key, _)| Datum::text(key)).collect(),
        View::Array(_) => return Err(cannot("call jsonb_object_keys on", "an array")),
        _ => return Err(cannot("call jsonb_object_keys on", "a scalar")),
    };
    Ok(Box::new(keys.into_iter().map(|key| Ok(vec![key]))))
}

/// The rows of a text's parts.
pub(super) fn json_rows(
    args: &[Datum],
    check: impl FnOnce(&Event<'_>) -> Result<(), SqlError>,
    row: impl Fn(Part<'_>) -> Result<Vec<Datum>, SqlError> + Send + 'static,
) -> Result<Rows, SqlError> {
    let Some(Datum::Json(text)) = args.first() else { return Err(wrong_type()) };
    let (text, mut reader) = (text.clone(), Reader::default());
    check(&reader.first(&text)?)?;
    Ok(Box::new(std::iter::from_fn(move || reader.part(&text).map(|part| part.and_then(&row)))))
}

fn json_elements(args: &[Datum], made: MadeOfText, name: &str) -> Result<Rows, SqlError> {
    let check = |whole: &Event<'_>| match whole {
        Event::StartArray => Ok(()),
        Event::StartObject => Err(cannot(&format!("call {name} on"), "a non-array")),
        _ => Err(cannot(&format!("call {name} on"), "a scalar")),
    };
    json_rows(args, check, move |part| Ok(vec![made(part.text, &part.first)?]))
}

fn json_members(args: &[Datum], made: MadeOfText) -> Result<Rows, SqlError> {
    let check = |whole: &Event<'_>| match whole {
        Event::StartObject => Ok(()),
        Event::StartArray => Err(cannot("deconstruct", "an array as an object")),
        _ => Err(cannot("deconstruct", "a scalar")),
    };
    json_rows(args, check, move |part| {
        Ok(vec![Datum::text(part.key.unwrap_or_default()), made(part.text, &part.first)?])
    })
}

fn json_keys(args: &[Datum], _: &Scope<'_>) -> Result<Rows, SqlError> {
    let check = |whole: &Event<'_>| match whole {
        Event::StartObject => Ok(()),
        Event::StartArray => Err(cannot("call json_object_keys on", "an array")),
        _ => Err(cannot("call json_object_keys on", "a scalar")),
    };
    json_rows(args, check, |part| Ok(vec![Datum::text(part.key.unwrap_or_default())]))
}
