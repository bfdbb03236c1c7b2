//! Functions that choose among their arguments, and those that take arguments of any type.

use super::of::*;
use super::{Function, Out, Param};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Scope;
use crate::limits;
use crate::memory;
use crate::record::similar::check_all;
use crate::types::Type;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("nullif", &[Param::Common, Param::Common], Out::Common, nullif)
        .lenient()
        .compares(),
    Function::new("greatest", &[Param::Common], Out::Common, greatest)
        .variadic()
        .lenient()
        .compares(),
    Function::new("least", &[Param::Common], Out::Common, least).variadic().lenient().compares(),
    Function::new("concat", &[Param::Any], A_TEXT, concat).variadic().lenient().of_zone(),
    Function::new("concat_ws", &[TEXT, Param::Any], A_TEXT, concat_ws)
        .variadic()
        .lenient()
        .of_zone(),
    Function::new("num_nulls", &[Param::Any], AN_INT4, num_nulls).variadic().lenient(),
    Function::new("num_nonnulls", &[Param::Any], AN_INT4, num_nonnulls).variadic().lenient(),
];

fn nullif(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(if args[0].compare(&args[1])?.is_eq() { Datum::Null } else { args[0].clone() })
}

fn greatest(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    check_all(args)?;
    let known = args.iter().filter(|arg| !arg.is_null());
    // Of equal ones the first.
    Ok(known.rev().max_by(|a, b| a.order(b)).cloned().unwrap_or(Datum::Null))
}

fn least(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    check_all(args)?;
    let known = args.iter().filter(|arg| !arg.is_null());
    Ok(known.min_by(|a, b| a.order(b)).cloned().unwrap_or(Datum::Null))
}

/// Joins the texts of all arguments that are not NULL.
fn joined(args: &[Datum], between: &str, scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let parts: usize = args.iter().map(memory::behind).sum();
    limits::check_room(parts.saturating_add(between.len() * args.len()), scope)?;
    let mut out = String::new();
    for (at, arg) in args.iter().filter(|arg| !arg.is_null()).enumerate() {
        if at > 0 {
            out.push_str(between);
        }
        arg.write_text(Type::Text, scope.session.zone(), &mut out);
        limits::check_value(out.len())?;
    }
    Ok(Datum::text(out))
}

fn concat(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    joined(args, "", scope)
}

fn concat_ws(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    match &args[0] {
        Datum::Text(between) => joined(&args[1..], between, scope),
        _ => Ok(Datum::Null),
    }
}

fn num_nulls(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Int4(args.iter().filter(|arg| arg.is_null()).count() as i32))
}

fn num_nonnulls(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Int4(args.iter().filter(|arg| !arg.is_null()).count() as i32))
}
