//! Functions that search a text by regular expressions.

use super::array::PART_BYTES;
use super::of::*;
use super::pattern::{compiled, folds};
use super::regex::Groups;
use super::{Function, Out, Rows, text_at, whole_at};
use crate::array::Array;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::limits;
use crate::types::Type;
use std::sync::Arc;

const OF_TEXTS: Out = Out::Of(Type::Text.array());

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("regexp_match", &[TEXT, TEXT], OF_TEXTS, first),
    Function::new("regexp_match", &[TEXT, TEXT, TEXT], OF_TEXTS, first),
    Function::set("regexp_matches", &[TEXT, TEXT], OF_TEXTS, all),
    Function::set("regexp_matches", &[TEXT, TEXT, TEXT], OF_TEXTS, all),
    Function::new("regexp_like", &[TEXT, TEXT], A_BOOL, like),
    Function::new("regexp_like", &[TEXT, TEXT, TEXT], A_BOOL, like),
    Function::new("regexp_count", &[TEXT, TEXT], AN_INT4, count),
    Function::new("regexp_count", &[TEXT, TEXT, INT4], AN_INT4, count),
    Function::new("regexp_count", &[TEXT, TEXT, INT4, TEXT], AN_INT4, count),
    Function::new("regexp_substr", &[TEXT, TEXT], A_TEXT, part),
    Function::set("regexp_split_to_table", &[TEXT, TEXT], A_TEXT, split_rows),
    Function::set("regexp_split_to_table", &[TEXT, TEXT, TEXT], A_TEXT, split_rows),
    Function::new("regexp_split_to_array", &[TEXT, TEXT], OF_TEXTS, split_array),
    Function::new("regexp_split_to_array", &[TEXT, TEXT, TEXT], OF_TEXTS, split_array),
    Function::new("substring", &[TEXT, TEXT], A_TEXT, part),
];

fn flags<'a>(args: &'a [Datum], at: usize, name: &str) -> Result<&'a str, SqlError> {
    let flags = if args.len() > at { text_at(args, at)? } else { "" };
    if flags.contains('g') && name != "regexp_matches" {
        let message = format!("{name}() does not support the \"global\" option");
        return Err(SqlError::new(state::INVALID_PARAMETER, message));
    }
    Ok(flags)
}

/// Returns the groups of a match as an array; the whole match if it has no groups.
fn groups(found: &Groups<'_>) -> Result<Datum, SqlError> {
    let from = usize::from(found.len() > 1);
    let group = |at: usize| match found.get(at) {
        Some(group) => Datum::text(group),
        None => Datum::Null,
    };
    let groups = (from..found.len()).map(group).collect();
    Ok(Datum::Array(Arc::new(Array::of(Type::Text, groups)?)))
}

fn first(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let fold = folds(flags(args, 2, "regexp_match")?)?;
    let text = text_at(args, 0)?;
    compiled(text_at(args, 1)?, fold, |regex| {
        regex.groups(text)?.map_or(Ok(Datum::Null), |found| groups(&found))
    })
}

/// The first match, or all of them with the flag `g`.
fn all(args: &[Datum], _: &Scope<'_>) -> Result<Rows, SqlError> {
    let flags = flags(args, 2, "regexp_matches")?;
    let most = if flags.contains('g') { usize::MAX } else { 1 };
    let text = text_at(args, 0)?;
    let found = compiled(text_at(args, 1)?, folds(flags)?, |regex| {
        let mut all = Vec::new();
        regex.each_groups(text, |found| {
            all.push(groups(&found)?);
            limits::check_value(all.len().saturating_mul(2 * PART_BYTES))?;
            Ok(all.len() < most)
        })?;
        Ok(all)
    })?;
    Ok(Box::new(found.into_iter().map(|groups| Ok(vec![groups]))))
}

fn like(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let fold = folds(flags(args, 2, "regexp_like")?)?;
    let text = text_at(args, 0)?;
    Ok(Datum::Bool(compiled(text_at(args, 1)?, fold, |regex| regex.is_match(text))?))
}

/// The number of matches from a character on, counted from 1.
fn count(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let fold = folds(flags(args, 3, "regexp_count")?)?;
    let start = if args.len() > 2 { whole_at(args, 2)? } else { 1 };
    let Some(skipped) = usize::try_from(start - 1).ok() else {
        let message = format!("invalid value for parameter \"start\": {start}");
        return Err(SqlError::new(state::INVALID_PARAMETER, message));
    };
    let text = text_at(args, 0)?;
    let from = text.char_indices().nth(skipped).map_or(text.len(), |(at, _)| at);
    let mut count = 0usize;
    compiled(text_at(args, 1)?, fold, |regex| {
        regex.each_match(&text[from..], |_| {
            count += 1;
            Ok(())
        })
    })?;
    Ok(Datum::Int4(i32::try_from(count).unwrap_or(i32::MAX)))
}

/// The first group of a match; the whole match if it has no groups.
fn part(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let text = text_at(args, 0)?;
    compiled(text_at(args, 1)?, false, |regex| {
        let Some(found) = regex.groups(text)? else { return Ok(Datum::Null) };
        let group = found.get(usize::from(found.len() > 1));
        Ok(group.map_or(Datum::Null, Datum::text))
    })
}

/// Returns the parts of a text between the matches of an expression. An empty match separates two
/// characters; at an end of the text, or behind another match, it separates nothing.
fn split(args: &[Datum], name: &str) -> Result<Vec<Datum>, SqlError> {
    let fold = folds(flags(args, 2, name)?)?;
    let text = text_at(args, 0)?;
    compiled(text_at(args, 1)?, fold, |regex| {
        let (mut parts, mut from) = (Vec::new(), 0);
        regex.each_match(text, |found| {
            if found.is_empty() && (found.start == from || found.start == text.len()) {
                return Ok(());
            }
            parts.push(Datum::text(&text[from..found.start]));
            from = found.end;
            limits::check_value(parts.len().saturating_mul(PART_BYTES))
        })?;
        parts.push(Datum::text(&text[from..]));
        Ok(parts)
    })
}

fn split_rows(args: &[Datum], _: &Scope<'_>) -> Result<Rows, SqlError> {
    let parts = split(args, "regexp_split_to_table")?;
    Ok(Box::new(parts.into_iter().map(|part| Ok(vec![part]))))
}

fn split_array(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let parts = split(args, "regexp_split_to_array")?;
    Ok(Datum::Array(Arc::new(Array::of(Type::Text, parts)?)))
}
