//! JSON of values of SQL.

use super::super::of::*;
use super::super::{Function, Param, array_at};
use super::{
    A_JSON, A_JSONB, ANY, JSONB, RECORD, TEXTS, flag_at, invalid, jsonb_at, made, made_json,
    made_text, texts_at,
};
use crate::array::Array;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::json::{self, Builder, Event, Style};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("jsonb_pretty", &[JSONB], A_TEXT, |a, _| {
        made_text(json::pretty(jsonb_at(a, 0)?.root().events())?)
    }),
    Function::new("to_json", &[ANY], A_JSON, |a, scope| json_of(&a[0], Style::Plain, scope))
        .of_zone(),
    Function::new("to_jsonb", &[ANY], A_JSONB, |a, scope| {
        let mut builder = Builder::default();
        builder.add_datum(&a[0], scope.session.zone())?;
        made(builder)
    })
    .of_zone(),
    Function::new("row_to_json", &[RECORD], A_JSON, row_to_json).of_zone(),
    Function::new("row_to_json", &[RECORD, BOOL], A_JSON, row_to_json).of_zone(),
    Function::new("array_to_json", &[Param::Array], A_JSON, array_to_json).of_zone(),
    Function::new("array_to_json", &[Param::Array, BOOL], A_JSON, array_to_json).of_zone(),
    Function::new("json_build_array", &[], A_JSON, json_build_array).lenient().of_zone(),
    Function::new("json_build_array", &[ANY], A_JSON, json_build_array)
        .variadic()
        .lenient()
        .of_zone(),
    Function::new("jsonb_build_array", &[], A_JSONB, build_array).lenient().of_zone(),
    Function::new("jsonb_build_array", &[ANY], A_JSONB, build_array).variadic().lenient().of_zone(),
    Function::new("json_build_object", &[], A_JSON, json_build_object).lenient().of_zone(),
    Function::new("json_build_object", &[ANY], A_JSON, json_build_object)
        .variadic()
        .lenient()
        .of_zone(),
    Function::new("jsonb_build_object", &[], A_JSONB, build_object).lenient().of_zone(),
    Function::new("jsonb_build_object", &[ANY], A_JSONB, build_object)
        .variadic()
        .lenient()
        .of_zone(),
    Function::new("json_object", &[TEXTS], A_JSON, json_object),
    Function::new("json_object", &[TEXTS, TEXTS], A_JSON, json_object),
    Function::new("jsonb_object", &[TEXTS], A_JSONB, object),
    Function::new("jsonb_object", &[TEXTS, TEXTS], A_JSONB, object),
];

fn json_of(datum: &Datum, style: Style, scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let mut out = String::new();
    json::write_json(datum, style, scope.session.zone(), &mut out)?;
    made_json(out)
}

fn row_to_json(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let style = if flag_at(args, 1, false) { Style::Lines } else { Style::Plain };
    json_of(&args[0], style, scope)
}

fn array_to_json(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let style = if flag_at(args, 1, false) { Style::Lines } else { Style::Plain };
    json_of(&args[0], style, scope)
}

fn json_build_array(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let zone = scope.session.zone();
    let mut out = String::from("[");
    for (at, item) in args.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        json::write_json(item, Style::Plain, zone, &mut out)?;
    }
    out.push(']');
    made_json(out)
}

fn build_array(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let zone = scope.session.zone();
    let mut builder = Builder::default();
    builder.add(Event::StartArray)?;
    args.iter().try_for_each(|item| builder.add_datum(item, zone))?;
    builder.add(Event::EndArray)?;
    made(builder)
}

/// The keys and values that arguments alternate between.
fn pairs<'a>(
    args: &'a [Datum],
    name: &str,
) -> Result<impl Iterator<Item = (usize, &'a Datum, &'a Datum)>, SqlError> {
    if args.len() % 2 == 1 {
        let message = "argument list must have even number of elements";
        return Err(invalid(message).hint(format!(
            "The arguments of {name}() must consist of alternating keys and values."
        )));
    }
    Ok(args.chunks_exact(2).enumerate().map(|(at, pair)| (2 * at + 1, &pair[0], &pair[1])))
}

fn json_build_object(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let zone = scope.session.zone();
    let mut out = String::from("{");
    for (at, key, value) in pairs(args, "json_build_object")? {
        if at > 1 {
            out.push_str(", ");
        }
        if key.is_null() {
            return Err(invalid(format!("argument {at} cannot be null"))
                .hint("Object keys should be text."));
        }
        json::write_string(&json::key_of(key, zone)?, &mut out);
        out.push_str(" : ");
        json::write_json(value, Style::Plain, zone, &mut out)?;
    }
    out.push('}');
    made_json(out)
}

fn build_object(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let zone = scope.session.zone();
    let mut builder = Builder::default();
    builder.add(Event::StartObject)?;
    for (at, key, value) in pairs(args, "jsonb_build_object")? {
        if key.is_null() {
            return Err(invalid(format!("argument {at}: key must not be null")));
        }
        builder.add(Event::ObjectKey(json::key_of(key, zone)?.into()))?;
        builder.add_datum(value, zone)?;
    }
    builder.add(Event::EndObject)?;
    made(builder)
}

/// The keys and values of one array that alternates between them, of one of pairs, or of two
/// arrays.
fn pairs_of_texts(args: &[Datum]) -> Result<Vec<(&str, Option<&str>)>, SqlError> {
    let wrong = |message: &str| SqlError::new(state::ARRAY_SUBSCRIPT, message);
    let dimensions = |array: &Array| array.dimensions().iter().map(|dim| dim.length).collect();
    let first: Vec<usize> = dimensions(array_at(args, 0)?);
    let (keys, values) = match args.len() {
        1 => {
            match first.as_slice() {
                [] => {}
                [length] if length % 2 == 1 => {
                    return Err(wrong("array must have even number of elements"));
                }
                [_] | [_, 2] => {}
                [_, _] => return Err(wrong("array must have two columns")),
                _ => return Err(wrong("wrong number of array subscripts")),
            }
            let texts = texts_at(args, 0)?;
            let part = |from| texts.iter().skip(from).step_by(2).copied().collect::<Vec<_>>();
            (part(0), part(1))
        }
        _ => {
            let second: Vec<usize> = dimensions(array_at(args, 1)?);
            if first.len() > 1 || second.len() > 1 {
                return Err(wrong("wrong number of array subscripts"));
            }
            if first != second {
                return Err(wrong("mismatched array dimensions"));
            }
            (texts_at(args, 0)?, texts_at(args, 1)?)
        }
    };
    let null = || SqlError::new(state::NULL_NOT_ALLOWED, "null value not allowed for object key");
    let pairs = keys.into_iter().zip(values);
    pairs.map(|(key, value)| Ok((key.ok_or_else(null)?, value))).collect()
}

fn json_object(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let mut out = String::from("{");
    for (at, (key, value)) in pairs_of_texts(args)?.into_iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        json::write_string(key, &mut out);
        out.push_str(" : ");
        match value {
            Some(text) => json::write_string(text, &mut out),
            None => out.push_str("null"),
        }
    }
    out.push('}');
    made_json(out)
}

fn object(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let mut builder = Builder::default();
    builder.add(Event::StartObject)?;
    for (key, value) in pairs_of_texts(args)? {
        builder.add(Event::ObjectKey(key.into()))?;
        builder.add(value.map_or(Event::Null, |text| Event::String(text.into())))?;
    }
    builder.add(Event::EndObject)?;
    made(builder)
}
