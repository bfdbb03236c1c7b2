//! Functions of notifications.

use super::of::*;
use super::{Function, Rows, text_at};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Scope;
use crate::notify::Action;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("pg_notify", &[TEXT, TEXT], A_VOID, notify).volatile().lenient(),
    Function::set("pg_listening_channels", &[], A_TEXT, channels).stable(),
    Function::new("pg_notification_queue_usage", &[], A_FLOAT8, usage).volatile(),
];

fn notify(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let text = |at: usize| match &args[at] {
        Datum::Null => Ok(""),
        _ => text_at(args, at),
    };
    scope.session.notifications.add(Action::notify(text(0)?, text(1)?)?);
    Ok(Datum::text(""))
}

fn channels(_: &[Datum], scope: &Scope<'_>) -> Result<Rows, SqlError> {
    let channels = scope.session.notifications.channels();
    Ok(Box::new(channels.into_iter().map(|channel| Ok(vec![Datum::text(channel)]))))
}

/// The share of its bound that the fullest session of this process uses.
fn usage(_: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let engine = scope.session.engine.as_ref();
    Ok(Datum::Float8(engine.map_or(0.0, |engine| engine.listeners.usage())))
}
