//! Functions and operators of `json`, `jsonb` and `jsonpath`.

mod change;
mod inspect;
mod make;
mod part;
mod path;
mod record;
mod rows;

pub(crate) use record::takes_definitions;

use super::{Function, Out, Param, array_at, wrong_type};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::json::{Builder, Jsonb};
use crate::limits;
use crate::types::Type;
use std::sync::Arc;

/// True for the functions that make JSON of values of any type.
pub(crate) fn makes_json(name: &str) -> bool {
    matches!(
        name,
        "to_json"
            | "to_jsonb"
            | "row_to_json"
            | "json_build_array"
            | "json_build_object"
            | "jsonb_build_array"
            | "jsonb_build_object"
            | "json_agg"
            | "json_object_agg"
            | "jsonb_agg"
            | "jsonb_object_agg"
    )
}

/// True for PostgreSQL's functions of JSON that are not here.
pub(super) fn is_not_built(name: &str) -> bool {
    matches!(
        name,
        "json_populate_record"
            | "json_populate_recordset"
            | "jsonb_populate_record"
            | "jsonb_populate_recordset"
            | "jsonb_set_lax"
    )
}

pub(super) const ALL: [&[Function]; 9] = [
    change::FUNCTIONS,
    inspect::FUNCTIONS,
    make::FUNCTIONS,
    part::FUNCTIONS,
    path::FUNCTIONS,
    path::IN_ZONE,
    record::FUNCTIONS,
    path::OPERATORS,
    rows::FUNCTIONS,
];

const JSON: Param = Param::Of(Type::Json);
const JSONB: Param = Param::Of(Type::Jsonb);
const TEXTS: Param = Param::Of(Type::Text.array());
const A_JSON: Out = Out::Of(Type::Json);
const A_JSONB: Out = Out::Of(Type::Jsonb);
const ANY: Param = Param::Any;
const RECORD: Param = Param::Of(Type::Record);

fn json_at(args: &[Datum], at: usize) -> Result<&str, SqlError> {
    match args.get(at) {
        Some(Datum::Json(text)) => Ok(text),
        _ => Err(wrong_type()),
    }
}

fn jsonb_at(args: &[Datum], at: usize) -> Result<&Jsonb, SqlError> {
    match args.get(at) {
        Some(Datum::Jsonb(value)) => Ok(value),
        _ => Err(wrong_type()),
    }
}

/// The texts of an array; `None` for a NULL.
fn texts_at<'a>(args: &'a [Datum], at: usize) -> Result<Vec<Option<&'a str>>, SqlError> {
    let text = |datum: &'a Datum| match datum {
        Datum::Null => Ok(None),
        Datum::Text(text) => Ok(Some(&**text)),
        _ => Err(wrong_type()),
    };
    array_at(args, at)?.values().iter().map(text).collect()
}

/// The texts of an array of at most one dimension. Fails with 2202E for another.
fn path_at(args: &[Datum], at: usize) -> Result<Vec<Option<&str>>, SqlError> {
    if array_at(args, at)?.dimensions().len() > 1 {
        return Err(SqlError::new(state::ARRAY_SUBSCRIPT, "wrong number of array subscripts"));
    }
    texts_at(args, at)
}

fn made(builder: Builder) -> Result<Datum, SqlError> {
    Ok(Datum::Jsonb(builder.finish()?))
}

fn made_text(text: String) -> Result<Datum, SqlError> {
    limits::check_value(text.len())?;
    Ok(Datum::Text(Arc::from(text)))
}

fn made_json(text: String) -> Result<Datum, SqlError> {
    limits::check_value(text.len())?;
    Ok(Datum::Json(Arc::from(text)))
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(state::INVALID_PARAMETER, message)
}

/// A flag among the arguments, or its default.
fn flag_at(args: &[Datum], at: usize, default: bool) -> bool {
    args.get(at).map_or(default, |flag| *flag == Datum::Bool(true))
}
