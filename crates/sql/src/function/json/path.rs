//! The functions of `jsonpath`.

use super::super::of::*;
use super::super::{Function, Param, Rows, wrong_type};
use super::{A_JSONB, JSONB, flag_at, jsonb_at, made};
use crate::datetime::Local;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::json::{Builder, Evaluation, Event, Item, Jsonb, Path};
use crate::types::Type;
use std::sync::LazyLock;

const PATH: Param = Param::Of(Type::JsonPath);

/// Functions with and without the parameters that have defaults: variables, and whether errors
/// are silent.
macro_rules! functions {
    ($volatility:ident, $($make:ident $name:literal $result:ident $kernel:expr;)*) => {
        &[$(
            Function::$make($name, &[JSONB, PATH], $result, $kernel).$volatility(),
            Function::$make($name, &[JSONB, PATH, JSONB], $result, $kernel).$volatility(),
            Function::$make($name, &[JSONB, PATH, JSONB, BOOL], $result, $kernel).$volatility(),
        )*]
    };
}

pub(super) const FUNCTIONS: &[Function] = functions!(immutable,
    new "jsonb_path_exists" A_BOOL |args, _| exists(args, None);
    new "jsonb_path_match" A_BOOL |args, _| matches(args, None);
    set "jsonb_path_query" A_JSONB |args, _| query(args, None);
    new "jsonb_path_query_array" A_JSONB |args, _| array(args, None);
    new "jsonb_path_query_first" A_JSONB |args, _| first(args, None);
);

/// Those that compare dates and times in the zone of the session.
pub(super) const IN_ZONE: &[Function] = functions!(of_zone,
    new "jsonb_path_exists_tz" A_BOOL |args, scope| exists(args, Some(scope.local()));
    new "jsonb_path_match_tz" A_BOOL |args, scope| matches(args, Some(scope.local()));
    set "jsonb_path_query_tz" A_JSONB |args, scope| query(args, Some(scope.local()));
    new "jsonb_path_query_array_tz" A_JSONB |args, scope| array(args, Some(scope.local()));
    new "jsonb_path_query_first_tz" A_JSONB |args, scope| first(args, Some(scope.local()));
);

pub(super) const OPERATORS: &[Function] = &[
    Function::new("@?", &[JSONB, PATH], A_BOOL, |args, _| {
        Ok(truth(evaluation(args, None, true, None)?.exists()?))
    }),
    Function::new("@@", &[JSONB, PATH], A_BOOL, |args, _| {
        Ok(truth(only_truth(&evaluation(args, None, true, None)?.items()?)?.flatten()))
    }),
];

fn truth(value: Option<bool>) -> Datum {
    value.map_or(Datum::Null, Datum::Bool)
}

fn path_at(args: &[Datum], at: usize) -> Result<&Path, SqlError> {
    match args.get(at) {
        Some(Datum::JsonPath(path)) => Ok(path),
        _ => Err(wrong_type()),
    }
}

fn evaluation<'a>(
    args: &'a [Datum],
    vars: Option<&'a Jsonb>,
    is_silent: bool,
    local: Option<Local<'a>>,
) -> Result<Evaluation<'a>, SqlError> {
    let evaluation = Evaluation::new(path_at(args, 1)?, jsonb_at(args, 0)?, vars, is_silent)?;
    Ok(match local {
        Some(local) => evaluation.in_zone(local),
        None => evaluation,
    })
}

/// Returns the variables; without any, their default.
fn vars(args: &[Datum]) -> Result<&Jsonb, SqlError> {
    static NONE: LazyLock<Jsonb> =
        LazyLock::new(|| Jsonb::from_text("{}").unwrap_or_else(|_| Jsonb::from_bytes(&[])));
    if args.len() > 2 { jsonb_at(args, 2) } else { Ok(&NONE) }
}

fn is_silent(args: &[Datum]) -> bool {
    flag_at(args, 3, false)
}

fn items<'a>(args: &'a [Datum], local: Option<Local<'a>>) -> Result<Vec<Item<'a>>, SqlError> {
    evaluation(args, Some(vars(args)?), is_silent(args), local)?.items()
}

fn exists(args: &[Datum], local: Option<Local<'_>>) -> Result<Datum, SqlError> {
    Ok(truth(evaluation(args, Some(vars(args)?), is_silent(args), local)?.exists()?))
}

/// Returns the truth value that is the only item, which may be unknown; `None` for other items.
fn only_truth(items: &[Item<'_>]) -> Result<Option<Option<bool>>, SqlError> {
    let [item] = items else { return Ok(None) };
    item.truth()
}

fn matches(args: &[Datum], local: Option<Local<'_>>) -> Result<Datum, SqlError> {
    match only_truth(&items(args, local)?)? {
        Some(value) => Ok(truth(value)),
        None if is_silent(args) => Ok(Datum::Null),
        None => Err(SqlError::new(state::NO_SINGLE_JSON_ITEM, "single boolean result is expected")),
    }
}

fn query(args: &[Datum], local: Option<Local<'_>>) -> Result<Rows, SqlError> {
    let values = items(args, local)?.into_iter().map(|item| item.to_jsonb().map(Datum::Jsonb));
    let values: Vec<Datum> = values.collect::<Result<_, _>>()?;
    Ok(Box::new(values.into_iter().map(|value| Ok(vec![value]))))
}

fn array(args: &[Datum], local: Option<Local<'_>>) -> Result<Datum, SqlError> {
    let mut builder = Builder::default();
    builder.add(Event::StartArray)?;
    items(args, local)?.iter().try_for_each(|item| item.add_to(&mut builder))?;
    builder.add(Event::EndArray)?;
    made(builder)
}

fn first(args: &[Datum], local: Option<Local<'_>>) -> Result<Datum, SqlError> {
    let items = items(args, local)?;
    items.first().map_or(Ok(Datum::Null), |item| item.to_jsonb().map(Datum::Jsonb))
}
