//! Functions of the session, its node and its clock, and sources of randomness.

use super::of::*;
use super::{Effect, Function, Out, Param, text_at, wrong_type};
use crate::consistency;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::record::{Field, Record, Shape};
use crate::signal::Signal;
use crate::system;
use crate::types::Type;
use std::sync::Arc;

const fn signals(name: &'static str, params: &'static [Param], signal: Signal) -> Function {
    Function::effect_of(name, params, A_BOOL, Effect::Signal(signal))
}

/// The columns of `tt_now()`.
const TT_NOW: &[(&str, Type)] = &[("earliest", Type::TimestampTz), ("latest", Type::TimestampTz)];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("version", &[], A_TEXT, version).stable(),
    Function::new("current_database", &[], A_NAME, current_database).stable(),
    Function::new("current_catalog", &[], A_NAME, current_database).stable(),
    Function::new("current_user", &[], A_NAME, current_user).stable(),
    Function::new("session_user", &[], A_NAME, current_user).stable(),
    Function::new("user", &[], A_NAME, current_user).stable(),
    Function::new("current_role", &[], A_NAME, current_user).stable(),
    Function::new("pg_backend_pid", &[], AN_INT4, pg_backend_pid).stable(),
    signals("pg_cancel_backend", &[INT4], Signal::Cancel),
    signals("pg_terminate_backend", &[INT4], Signal::Terminate),
    signals("pg_terminate_backend", &[INT4, INT8], Signal::Terminate),
    Function::new("set_config", &[TEXT, TEXT, BOOL], A_TEXT, set_config).volatile().lenient(),
    Function::new("causal_token", &[], A_TEXT, causal_token).volatile(),
    Function::new("tt_now", &[], Out::Of(Type::Record), tt_now).columns(TT_NOW).volatile(),
    Function::new("tt_after", &[TIMESTAMPTZ], A_BOOL, tt_after).volatile(),
    Function::new("tt_before", &[TIMESTAMPTZ], A_BOOL, tt_before).volatile(),
    Function::new("gen_random_uuid", &[], A_UUID, gen_random_uuid).volatile(),
    Function::new("random", &[], A_FLOAT8, random).volatile(),
];

/// The result of `version()`.
const VERSION: &str = concat!("PostgreSQL 15.0 (Meridian ", env!("CARGO_PKG_VERSION"), ")");

fn version(_: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::text(VERSION))
}

fn current_database(_: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::text(&scope.session.database))
}

fn current_user(_: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::text(&scope.session.user))
}

fn pg_backend_pid(_: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Int4(scope.session.pid))
}

fn set_config(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    if args[0].is_null() {
        return Err(SqlError::new(state::NULL_NOT_ALLOWED, "SET requires parameter name"));
    }
    let value = (!args[1].is_null()).then(|| text_at(args, 1)).transpose()?;
    let is_local = args[2] == Datum::Bool(true);
    Ok(Datum::text(scope.session.settings.ask(text_at(args, 0)?, value, is_local)?))
}

fn causal_token(_: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let facts = scope.session;
    Ok(Datum::text(consistency::token_to_text(&facts.database, facts.token)))
}

fn tt_now(_: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let (earliest, latest) = system::interval_now(scope.session)?;
    let shape = Shape::Anonymous(TT_NOW.iter().map(Field::of).collect());
    let values = vec![Datum::TimestampTz(earliest), Datum::TimestampTz(latest)];
    Ok(Datum::Record(Arc::new(Record::new(shape, values)?)))
}

fn tt_after(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let Datum::TimestampTz(at) = args[0] else { return Err(wrong_type()) };
    Ok(Datum::Bool(at < system::interval_now(scope.session)?.0))
}

fn tt_before(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let Datum::TimestampTz(at) = args[0] else { return Err(wrong_type()) };
    Ok(Datum::Bool(at > system::interval_now(scope.session)?.1))
}

pub(crate) fn gen_random_uuid(_: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Uuid(uuid::Uuid::new_v4()))
}

/// At least 0, and less than 1: 53 random bits.
fn random(_: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    // The two highest bits of the lower half are fixed.
    let bits = (uuid::Uuid::new_v4().as_u128() as u64) << 2 >> 11;
    Ok(Datum::Float8(bits as f64 / (1u64 << 53) as f64))
}
