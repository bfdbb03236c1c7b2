//! The functions whose rows have the columns that a query defines: each row is a document, from
//! which `bind::definitions` takes the columns.

use super::super::{Function, Out, Rows, wrong_type};
use super::part::{owned, whole};
use super::rows::{cannot, json_rows};
use super::{JSON, JSONB, invalid, jsonb_at};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Scope;
use crate::json::{Event, Node, Reader, View};
use crate::types::Type;

const RECORDS: Out = Out::Of(Type::Record);

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("json_to_record", &[JSON], RECORDS, json_record).stable(),
    Function::new("jsonb_to_record", &[JSONB], RECORDS, record).stable(),
    Function::set("json_to_recordset", &[JSON], RECORDS, json_records).lenient().stable(),
    Function::set("jsonb_to_recordset", &[JSONB], RECORDS, records).lenient().stable(),
];

/// True for the functions whose rows have the columns that a query defines.
pub(crate) fn takes_definitions(name: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.name == name)
}

fn no_composite(of: &str) -> SqlError {
    cannot("call populate_composite on", of)
}

fn no_object(name: &str) -> SqlError {
    invalid(format!("argument of {name} must be an array of objects"))
}

fn json_record(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let Some(Datum::Json(text)) = args.first() else { return Err(wrong_type()) };
    match Reader::default().first(text)? {
        Event::StartObject => Ok(Datum::Json(text.clone())),
        Event::StartArray => Err(no_composite("an array")),
        _ => Err(no_composite("a scalar")),
    }
}

fn record(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let value = jsonb_at(args, 0)?;
    match value.root().view() {
        View::Object(_) => Ok(Datum::Jsonb(value.clone())),
        View::Array(_) => Err(no_composite("an array")),
        _ => Err(no_composite("a scalar")),
    }
}

fn json_records(args: &[Datum], _: &Scope<'_>) -> Result<Rows, SqlError> {
    const NAME: &str = "json_to_recordset";
    if args.first().is_some_and(Datum::is_null) {
        return Ok(Box::new(std::iter::empty()));
    }
    let check = |whole: &Event<'_>| match whole {
        Event::StartArray => Ok(()),
        Event::StartObject => Err(cannot(&format!("call {NAME} on"), "an object")),
        _ => Err(cannot(&format!("call {NAME} on"), "a scalar")),
    };
    json_rows(args, check, |part| match part.first {
        Event::StartObject => Ok(vec![whole(part.text, &part.first)?]),
        _ => Err(no_object(NAME)),
    })
}

fn records(args: &[Datum], _: &Scope<'_>) -> Result<Rows, SqlError> {
    const NAME: &str = "jsonb_to_recordset";
    if args.first().is_some_and(Datum::is_null) {
        return Ok(Box::new(std::iter::empty()));
    }
    let value = jsonb_at(args, 0)?.clone();
    let View::Array(items) = value.root().view() else {
        return Err(cannot(&format!("call {NAME} on"), "a non-array"));
    };
    let count = items.len();
    Ok(Box::new((0..count).map(move |at| match value.root().item(at as i64) {
        Some(item) if Node::is_object(item) => Ok(vec![owned(item)?]),
        _ => Err(no_object(NAME)),
    })))
}
