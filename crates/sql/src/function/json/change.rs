//! Values that are made of others: joined, with parts set, or without parts.

use super::super::of::*;
use super::super::{Function, text_at, whole_at};
use super::{
    A_JSON, A_JSONB, JSON, JSONB, TEXTS, flag_at, invalid, json_at, jsonb_at, made, made_json,
    path_at,
};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::json::{self, Builder, Event, Node, View, Writer};
use crate::stack;
use std::collections::HashSet;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("||", &[JSONB, JSONB], A_JSONB, cat),
    Function::new("-", &[JSONB, TEXT], A_JSONB, |a, _| {
        let key = text_at(a, 1)?;
        without(a, |other| other == key)
    }),
    Function::new("-", &[JSONB, TEXTS], A_JSONB, |a, _| {
        let keys: HashSet<_> = path_at(a, 1)?.into_iter().flatten().collect();
        without(a, |other| keys.contains(other))
    }),
    Function::new("-", &[JSONB, INT4], A_JSONB, without_place),
    Function::new("#-", &[JSONB, TEXTS], A_JSONB, without_path),
    Function::new("jsonb_delete_path", &[JSONB, TEXTS], A_JSONB, without_path),
    Function::new("jsonb_set", &[JSONB, TEXTS, JSONB], A_JSONB, set),
    Function::new("jsonb_set", &[JSONB, TEXTS, JSONB, BOOL], A_JSONB, set),
    Function::new("jsonb_insert", &[JSONB, TEXTS, JSONB], A_JSONB, insert),
    Function::new("jsonb_insert", &[JSONB, TEXTS, JSONB, BOOL], A_JSONB, insert),
    Function::new("json_strip_nulls", &[JSON], A_JSON, json_strip_nulls),
    Function::new("jsonb_strip_nulls", &[JSONB], A_JSONB, strip_nulls),
];

/// Two objects become one; else the items of both, or the values themselves, become an array.
fn cat(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (left, right) = (jsonb_at(args, 0)?.root(), jsonb_at(args, 1)?.root());
    let mut builder = Builder::default();
    if let (View::Object(left), View::Object(right)) = (left.view(), right.view()) {
        builder.add(Event::StartObject)?;
        for (key, value) in left.iter().chain(right.iter()) {
            builder.add_member(key, value)?;
        }
        builder.add(Event::EndObject)?;
        return made(builder);
    }
    builder.add(Event::StartArray)?;
    for side in [left, right] {
        match side.view() {
            View::Array(items) => items.iter().try_for_each(|item| builder.add_node(item))?,
            _ => builder.add_node(side)?,
        }
    }
    builder.add(Event::EndArray)?;
    made(builder)
}

/// Leaves out members of an object by their keys, and strings of an array.
fn without(args: &[Datum], goes: impl Fn(&str) -> bool) -> Result<Datum, SqlError> {
    let value = jsonb_at(args, 0)?.root();
    let mut builder = Builder::default();
    match value.view() {
        View::Object(members) => {
            builder.add(Event::StartObject)?;
            for (key, value) in members.iter().filter(|(key, _)| !goes(key)) {
                builder.add_member(key, value)?;
            }
            builder.add(Event::EndObject)?;
        }
        View::Array(items) => {
            builder.add(Event::StartArray)?;
            for item in items.iter() {
                if !matches!(item.view(), View::String(text) if goes(text)) {
                    builder.add_node(item)?;
                }
            }
            builder.add(Event::EndArray)?;
        }
        _ => return Err(invalid("cannot delete from scalar")),
    }
    made(builder)
}

fn without_place(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let value = jsonb_at(args, 0)?.root();
    let items = match value.view() {
        View::Array(items) => items,
        View::Object(_) => return Err(invalid("cannot delete from object using integer index")),
        _ => return Err(invalid("cannot delete from scalar")),
    };
    let gone = items.place(whole_at(args, 1)?);
    let mut builder = Builder::default();
    builder.add(Event::StartArray)?;
    for (at, item) in items.iter().enumerate() {
        if Some(at) != gone {
            builder.add_node(item)?;
        }
    }
    builder.add(Event::EndArray)?;
    made(builder)
}

/// The change at the end of a path.
#[derive(Clone, Copy)]
enum Change<'a> {
    Delete,
    /// Replaces a value; adds it if there is none, unless told not to.
    Set(Node<'a>, bool),
    /// Adds a value before an item, or behind it; a member that is there stays an error.
    Insert(Node<'a>, bool),
}

fn changed(args: &[Datum], change: Change<'_>, verb: &str) -> Result<Datum, SqlError> {
    let value = jsonb_at(args, 0)?;
    let is_scalar = !matches!(value.root().view(), View::Array(_) | View::Object(_));
    if is_scalar {
        return Err(invalid(format!("cannot {verb} scalar")));
    }
    let path = path_at(args, 1)?;
    if path.is_empty() {
        return Ok(args[0].clone());
    }
    let is_empty = match value.root().view() {
        View::Array(items) => items.len() == 0,
        View::Object(members) => members.len() == 0,
        _ => false,
    };
    if is_empty && matches!(change, Change::Delete | Change::Set(_, false)) {
        return Ok(args[0].clone());
    }
    let mut builder = Builder::default();
    change_at(&mut builder, value.root(), &path, 0, change)?;
    made(builder)
}

fn set(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let value = jsonb_at(args, 2)?.root();
    changed(args, Change::Set(value, flag_at(args, 3, true)), "set path in")
}

fn insert(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let value = jsonb_at(args, 2)?.root();
    changed(args, Change::Insert(value, flag_at(args, 3, false)), "set path in")
}

fn without_path(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    changed(args, Change::Delete, "delete path in")
}

/// Copies a value with a change at a path. Calls itself for each step.
fn change_at(
    builder: &mut Builder,
    node: Node<'_>,
    path: &[Option<&str>],
    depth: usize,
    change: Change<'_>,
) -> Result<(), SqlError> {
    stack::level(|| {
        let Some(step) = path[depth] else {
            let message = format!("path element at position {} is null", depth + 1);
            return Err(SqlError::new(state::NULL_NOT_ALLOWED, message));
        };
        let is_last = depth + 1 == path.len();
        match node.view() {
            View::Object(members) => {
                builder.add(Event::StartObject)?;
                let mut met = false;
                for (key, value) in members.iter() {
                    match (key == step, is_last, change) {
                        (false, ..) => builder.add_member(key, value)?,
                        (true, false, _) => {
                            met = true;
                            builder.add(Event::ObjectKey(key.into()))?;
                            change_at(builder, value, path, depth + 1, change)?;
                        }
                        (true, true, Change::Delete) => met = true,
                        (true, true, Change::Set(new, _)) => {
                            met = true;
                            builder.add_member(key, new)?;
                        }
                        (true, true, Change::Insert(..)) => {
                            return Err(invalid("cannot replace existing key")
                                .hint("Try using the function jsonb_set to replace key value."));
                        }
                    }
                }
                match change {
                    Change::Set(new, true) | Change::Insert(new, _) if is_last && !met => {
                        builder.add_member(step, new)?;
                    }
                    _ => {}
                }
                builder.add(Event::EndObject)
            }
            View::Array(items) => {
                let Some(wanted) = json::place(step) else {
                    let message = format!(
                        "path element at position {} is not an integer: \"{step}\"",
                        depth + 1
                    );
                    return Err(SqlError::new(state::BAD_TEXT, message));
                };
                builder.add(Event::StartArray)?;
                let place = items.place(wanted.into());
                let new = match change {
                    Change::Set(new, true) | Change::Insert(new, _) if is_last => Some(new),
                    _ => None,
                };
                // A place before the first item is the first, one behind the last is the end.
                if let (None, Some(new), true) = (place, new, wanted < 0) {
                    builder.add_node(new)?;
                }
                for (at, item) in items.iter().enumerate() {
                    match (Some(at) == place, is_last, change) {
                        (false, ..) => builder.add_node(item)?,
                        (true, false, _) => change_at(builder, item, path, depth + 1, change)?,
                        (true, true, Change::Delete) => {}
                        (true, true, Change::Set(new, _)) => builder.add_node(new)?,
                        (true, true, Change::Insert(new, after)) => {
                            let both = if after { [item, new] } else { [new, item] };
                            both.into_iter().try_for_each(|node| builder.add_node(node))?;
                        }
                    }
                }
                if let (None, Some(new), true) = (place, new, wanted >= 0) {
                    builder.add_node(new)?;
                }
                builder.add(Event::EndArray)
            }
            _ => builder.add_node(node),
        }
    })
}

/// Leaves out the members of objects whose value is `null`, and passes the rest on.
fn drop_nulls<'a>(
    events: impl Iterator<Item = Result<Event<'a>, SqlError>>,
    mut pass: impl FnMut(Event<'a>) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    let mut key = None;
    for event in events {
        match (event?, key.take()) {
            (Event::ObjectKey(name), _) => key = Some(Event::ObjectKey(name)),
            (Event::Null, Some(_)) => {}
            (event, name) => {
                name.map_or(Ok(()), &mut pass)?;
                pass(event)?;
            }
        }
    }
    Ok(())
}

fn strip_nulls(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let mut builder = Builder::default();
    let events = jsonb_at(args, 0)?.root().events();
    drop_nulls(events.map(Ok), |event| builder.add(event))?;
    made(builder)
}

fn json_strip_nulls(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let mut text = String::new();
    let mut writer = Writer::compact(&mut text);
    drop_nulls(json::events(json_at(args, 0)?), |event| {
        writer.add(&event);
        Ok(())
    })?;
    made_json(text)
}
