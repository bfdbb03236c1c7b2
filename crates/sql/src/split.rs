//! `ALTER TABLE … SPLIT AT VALUES (…), (…)`: splits the table's shard at these primary keys.
//!
//! It is not part of a transaction: it waits until no transaction is in progress in the group, and
//! it changes no query's result.

use crate::bind::Binder;
use crate::cast;
use crate::catalog::{self, Object, Resolver, Table};
use crate::control::outside;
use crate::datetime::Local;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::names;
use crate::response::Response;
use crate::session::Session;
use crate::temporary;
use crate::{key, kv};
use meridian_txn::{Begin, Lock, Mode, ReadAt};
use sqlparser::ast;

/// Splits a table's shard at each of these rows' keys.
pub(crate) async fn run(
    session: &mut Session,
    name: &ast::ObjectName,
    rows: &[Vec<ast::Expr>],
) -> Result<Response, SqlError> {
    let server_info = outside(session, "ALTER TABLE … SPLIT AT").await?;
    let (engine, folded) = (session.engine.clone(), names::relation(name)?);
    let begin = Begin::new(Mode::ReadOnly(ReadAt::Now));
    let mut txn = engine.database().begin(begin).await?;
    let path = session.facts.search_path();
    let found =
        Resolver::new(&path).object(&mut *txn, &engine.cache, &folded, false, Lock::Shared).await?;
    let table = match found {
        Some(Object::Table(table)) if temporary::is_temporary(table.id) => {
            return Err(SqlError::unsupported("SPLIT AT of a temporary table, which has no shard"));
        }
        Some(Object::Table(table)) => table,
        Some(_) => return Err(catalog::not_a("table", &folded.name)),
        None => {
            let message = format!("relation \"{folded}\" does not exist");
            return Err(SqlError::new(state::UNDEFINED_TABLE, message));
        }
    };
    drop(txn);
    let local = Local { zone: session.facts.zone(), now_us: None };
    let keys: Result<Vec<Vec<u8>>, SqlError> =
        rows.iter().map(|row| split_key(&table, row, local)).collect();
    server_info.split(engine.name(), keys?).await?;
    Ok(Response::Complete("ALTER TABLE".into()))
}

/// Returns the key at which these values of the primary key's first columns begin.
fn split_key(table: &Table, values: &[ast::Expr], local: Local<'_>) -> Result<Vec<u8>, SqlError> {
    let Some(primary) = &table.primary else {
        let message = format!("table \"{}\" has no primary key to split at", table.name);
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
            .hint("ALTER TABLE … ADD PRIMARY KEY comes first."));
    };
    if values.is_empty() || values.len() > primary.columns.len() {
        let (given, most) = (values.len(), primary.columns.len());
        let message =
            format!("a row of SPLIT AT has {given} values, and the primary key has {most} columns");
        return Err(SqlError::new(state::SYNTAX, message));
    }
    let mut key = kv::storage_prefix(table.storage);
    for (value, part) in values.iter().zip(&primary.columns) {
        let column = &table.columns[part.column as usize];
        let wrong = |why: &str| {
            let message = format!("SPLIT AT: the value for column \"{}\" {why}", column.name);
            SqlError::new(state::CANNOT_COERCE, message)
        };
        let value = constant(value)?.ok_or_else(|| wrong("is not a constant"))?;
        let fits = value
            .type_of()
            .is_none_or(|from| cast::is_assignable(from, column.ty) || from.is_text());
        if value.is_null() || !fits {
            return Err(wrong(&format!("is not of type {}", column.ty.name())));
        }
        let value = cast::cast(value, column.ty, false, local)?;
        key::write(&value, part.descending, &mut key);
    }
    Ok(key)
}

/// Returns the value of an expression over constants.
fn constant(expr: &ast::Expr) -> Result<Option<Datum>, SqlError> {
    let mut binder = Binder::new(&[]);
    Ok(match binder.bind_free(expr)?.expr {
        Expr::Const(datum) => Some(datum),
        _ => None,
    })
}
