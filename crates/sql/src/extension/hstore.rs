//! `hstore`: a type of keys with texts. Its values are in the folder `hstore`.

use super::Extension;
use crate::array::Array;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Scope;
use crate::function::of::*;
use crate::function::{Function, Out, Param, Rows, Value, array_at, text_at, wrong_type};
use crate::hstore::{Hstore, Keys, Pair, Values, texts};
use crate::limits;
use crate::types::Type;
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) static EXTENSION: Extension = Extension {
    name: "hstore",
    version: "1.8",
    comment: "data type for storing sets of (key, value) pairs",
    fixed_types: &[Type::Hstore],
    types: &[],
    functions: FUNCTIONS,
    refused: &[
        "#=",
        "hstore_hash",
        "hstore_hash_extended",
        "hstore_version_diag",
        "populate_record",
    ],
};

const HSTORE: Param = Param::Of(Type::Hstore);
const TEXTS: Param = Param::Of(Type::Text.array());
const RECORD: Param = Param::Of(Type::Record);
const AN_HSTORE: Out = Out::Of(Type::Hstore);
const OF_TEXTS: Out = Out::Of(Type::Text.array());
const A_JSON: Out = Out::Of(Type::Json);
const A_JSONB: Out = Out::Of(Type::Jsonb);

/// The columns of the rows of `each`.
const PAIR: &[(&str, Type)] = &[("key", Type::Text), ("value", Type::Text)];

const fn compares(name: &'static str, kernel: Value) -> Function {
    Function::new(name, &[HSTORE, HSTORE], A_BOOL, kernel)
}

const FUNCTIONS: &[Function] = &[
    Function::new("->", &[HSTORE, TEXT], A_TEXT, value),
    Function::new("->", &[HSTORE, TEXTS], OF_TEXTS, values),
    Function::new("||", &[HSTORE, HSTORE], AN_HSTORE, concat),
    Function::new("?", &[HSTORE, TEXT], A_BOOL, exists),
    Function::new("?|", &[HSTORE, TEXTS], A_BOOL, exists_any),
    Function::new("?&", &[HSTORE, TEXTS], A_BOOL, exists_all),
    Function::new("@>", &[HSTORE, HSTORE], A_BOOL, contains),
    Function::new("<@", &[HSTORE, HSTORE], A_BOOL, contained),
    Function::new("-", &[HSTORE, TEXT], AN_HSTORE, without_key),
    Function::new("-", &[HSTORE, TEXTS], AN_HSTORE, without_keys),
    Function::new("-", &[HSTORE, HSTORE], AN_HSTORE, without),
    Function::new("%%", &[HSTORE], OF_TEXTS, to_array),
    Function::new("%#", &[HSTORE], OF_TEXTS, to_matrix),
    compares("#<#", |args, _| ordered(args, Ordering::is_lt)),
    compares("#<=#", |args, _| ordered(args, Ordering::is_le)),
    compares("#>#", |args, _| ordered(args, Ordering::is_gt)),
    compares("#>=#", |args, _| ordered(args, Ordering::is_ge)),
    Function::new("fetchval", &[HSTORE, TEXT], A_TEXT, value),
    Function::new("slice_array", &[HSTORE, TEXTS], OF_TEXTS, values),
    Function::new("slice", &[HSTORE, TEXTS], AN_HSTORE, slice),
    Function::new("hs_concat", &[HSTORE, HSTORE], AN_HSTORE, concat),
    Function::new("exist", &[HSTORE, TEXT], A_BOOL, exists),
    Function::new("isexists", &[HSTORE, TEXT], A_BOOL, exists),
    Function::new("exists_any", &[HSTORE, TEXTS], A_BOOL, exists_any),
    Function::new("exists_all", &[HSTORE, TEXTS], A_BOOL, exists_all),
    Function::new("defined", &[HSTORE, TEXT], A_BOOL, defined),
    Function::new("isdefined", &[HSTORE, TEXT], A_BOOL, defined),
    Function::new("hs_contains", &[HSTORE, HSTORE], A_BOOL, contains),
    Function::new("hs_contained", &[HSTORE, HSTORE], A_BOOL, contained),
    Function::new("delete", &[HSTORE, TEXT], AN_HSTORE, without_key),
    Function::new("delete", &[HSTORE, TEXTS], AN_HSTORE, without_keys),
    Function::new("delete", &[HSTORE, HSTORE], AN_HSTORE, without),
    compares("hstore_eq", |args, _| ordered(args, Ordering::is_eq)),
    compares("hstore_ne", |args, _| ordered(args, Ordering::is_ne)),
    compares("hstore_lt", |args, _| ordered(args, Ordering::is_lt)),
    compares("hstore_le", |args, _| ordered(args, Ordering::is_le)),
    compares("hstore_gt", |args, _| ordered(args, Ordering::is_gt)),
    compares("hstore_ge", |args, _| ordered(args, Ordering::is_ge)),
    Function::new("hstore_cmp", &[HSTORE, HSTORE], AN_INT4, |args, _| {
        Ok(Datum::Int4(at(args, 0)?.order(at(args, 1)?) as i32))
    }),
    Function::new("hstore", &[TEXT, TEXT], AN_HSTORE, of_texts).lenient(),
    Function::new("tconvert", &[TEXT, TEXT], AN_HSTORE, of_texts).lenient(),
    Function::new("hstore", &[TEXTS, TEXTS], AN_HSTORE, of_arrays).lenient(),
    Function::new("hstore", &[TEXTS], AN_HSTORE, |args, _| {
        made(Hstore::of_array(array_at(args, 0)?))
    }),
    Function::new("hstore", &[RECORD], AN_HSTORE, of_row).lenient().of_zone(),
    Function::new("hstore_to_array", &[HSTORE], OF_TEXTS, to_array),
    Function::new("hstore_to_matrix", &[HSTORE], OF_TEXTS, to_matrix),
    Function::new("hstore_to_json", &[HSTORE], A_JSON, |args, _| json(args, Values::Strict)),
    Function::new("hstore_to_json_loose", &[HSTORE], A_JSON, |args, _| json(args, Values::Loose)),
    Function::new("hstore_to_jsonb", &[HSTORE], A_JSONB, |args, _| jsonb(args, Values::Strict)),
    Function::new("hstore_to_jsonb_loose", &[HSTORE], A_JSONB, |args, _| {
        jsonb(args, Values::Loose)
    }),
    Function::new("akeys", &[HSTORE], OF_TEXTS, |args, _| all(args, key_of)),
    Function::new("avals", &[HSTORE], OF_TEXTS, |args, _| all(args, value_of)),
    Function::set("skeys", &[HSTORE], A_TEXT, |args, _| rows(args, |pair| vec![key_of(pair)])),
    Function::set("svals", &[HSTORE], A_TEXT, |args, _| rows(args, |pair| vec![value_of(pair)])),
    Function::set("each", &[HSTORE], Out::Of(Type::Record), |args, _| {
        rows(args, |pair| vec![key_of(pair), value_of(pair)])
    })
    .columns(PAIR),
];

fn at(args: &[Datum], at: usize) -> Result<&Hstore, SqlError> {
    match args.get(at) {
        Some(Datum::Hstore(value)) => Ok(value),
        _ => Err(wrong_type()),
    }
}

fn made(value: Result<Hstore, SqlError>) -> Result<Datum, SqlError> {
    value.map(Datum::Hstore)
}

fn made_array(array: Result<Array, SqlError>) -> Result<Datum, SqlError> {
    Ok(Datum::Array(Arc::new(array?)))
}

fn key_of((key, _): Pair<'_>) -> Datum {
    Datum::text(key)
}

fn value_of((_, value): Pair<'_>) -> Datum {
    value.map_or(Datum::Null, Datum::text)
}

fn value(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(at(args, 0)?.get(text_at(args, 1)?).flatten().map_or(Datum::Null, Datum::text))
}

fn values(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    made_array(at(args, 0)?.values_of(array_at(args, 1)?))
}

fn slice(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    made(at(args, 0)?.slice(&Keys::of(texts(array_at(args, 1)?))))
}

fn concat(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let (left, right) = (at(args, 0)?, at(args, 1)?);
    limits::check_room(left.bytes() + right.bytes(), scope)?;
    made(left.with(right))
}

fn exists(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(at(args, 0)?.get(text_at(args, 1)?).is_some()))
}

fn exists_any(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let value = at(args, 0)?;
    Ok(Datum::Bool(texts(array_at(args, 1)?).any(|key| value.get(key).is_some())))
}

fn exists_all(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let value = at(args, 0)?;
    Ok(Datum::Bool(texts(array_at(args, 1)?).all(|key| value.get(key).is_some())))
}

fn defined(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(at(args, 0)?.get(text_at(args, 1)?).flatten().is_some()))
}

fn contains(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(at(args, 0)?.contains(at(args, 1)?)))
}

fn contained(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(at(args, 1)?.contains(at(args, 0)?)))
}

fn without_key(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    made(at(args, 0)?.without_keys(&Keys::of([text_at(args, 1)?])))
}

fn without_keys(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    made(at(args, 0)?.without_keys(&Keys::of(texts(array_at(args, 1)?))))
}

fn without(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    made(at(args, 0)?.without(at(args, 1)?))
}

fn ordered(args: &[Datum], is: fn(Ordering) -> bool) -> Result<Datum, SqlError> {
    Ok(Datum::Bool(is(at(args, 0)?.order(at(args, 1)?))))
}

fn to_array(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    made_array(at(args, 0)?.to_array())
}

fn to_matrix(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    made_array(at(args, 0)?.to_matrix())
}

fn json(args: &[Datum], values: Values) -> Result<Datum, SqlError> {
    let mut text = String::new();
    at(args, 0)?.write_json(values, &mut text);
    limits::check_value(text.len())?;
    Ok(Datum::Json(text.into()))
}

fn jsonb(args: &[Datum], values: Values) -> Result<Datum, SqlError> {
    Ok(Datum::Jsonb(at(args, 0)?.to_jsonb(values)?))
}

fn all(args: &[Datum], part: fn(Pair<'_>) -> Datum) -> Result<Datum, SqlError> {
    made_array(Array::of(Type::Text, at(args, 0)?.pairs().map(part).collect()))
}

fn rows(args: &[Datum], row: fn(Pair<'_>) -> Vec<Datum>) -> Result<Rows, SqlError> {
    let value = at(args, 0)?.clone();
    Ok(Box::new((0..value.len()).map(move |at| Ok(row(value.pair(at))))))
}

/// Makes one pair; NULL for NULL as key.
fn of_texts(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let value = (!args[1].is_null()).then(|| text_at(args, 1)).transpose()?;
    made(Hstore::of(vec![(text_at(args, 0)?, value)]))
}

/// Makes pairs of keys and values; NULL for NULL as keys.
fn of_arrays(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let values = (!args[1].is_null()).then(|| array_at(args, 1)).transpose()?;
    made(Hstore::of_arrays(array_at(args, 0)?, values.map(|values| &**values)))
}

/// Makes pairs of the names and values of a row's fields.
fn of_row(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let Some(Datum::Record(record)) = args.first() else {
        // The value does not tell the names of its fields.
        return Err(SqlError::unsupported("hstore of a row that is NULL"));
    };
    limits::check_room(record.text_bytes(), scope)?;
    let zone = scope.session.zone();
    let fields = record.fields();
    let fields: Vec<_> =
        fields.map(|(field, value)| (&*field.name, value.to_text_in(field.ty, zone))).collect();
    made(Hstore::of(fields.iter().map(|(name, text)| (*name, text.as_deref())).collect()))
}
