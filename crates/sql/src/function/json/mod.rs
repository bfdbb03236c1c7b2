//! Functions and operators of `json` and `jsonb`.

mod change;
mod inspect;
mod make;
mod part;
mod rows;

use super::{Function, Out, Param, array_at, wrong_type};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::json::{Builder, Jsonb};
use crate::limits;
use crate::types::Type;
use std::sync::Arc;

pub(crate) use make::ROW_AS_JSON;

/// True for the functions that make JSON of values of any type.
pub(crate) fn makes_json(name: &str) -> bool {
    matches!(name, "to_json" | "to_jsonb" | "row_to_json")
        || name.starts_with("json") && (name.contains("_build_") || name.ends_with("_agg"))
}

/// True for the functions that take a whole row, `t` or `t.*`.
pub(crate) fn takes_rows(name: &str) -> bool {
    makes_json(name) || name == "count"
}

pub(super) const ALL: [&[Function]; 5] =
    [change::FUNCTIONS, inspect::FUNCTIONS, make::FUNCTIONS, part::FUNCTIONS, rows::FUNCTIONS];

const JSON: Param = Param::Of(Type::Json);
const JSONB: Param = Param::Of(Type::Jsonb);
const TEXTS: Param = Param::Of(Type::Text.array());
const A_JSON: Out = Out::Of(Type::Json);
const A_JSONB: Out = Out::Of(Type::Jsonb);
const ANY: Param = Param::Any;

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
