//! SELECT … INTO: another form of CREATE TABLE AS.

use crate::error::{SqlError, state};
use crate::names;
use sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use sqlparser::ast::{CopySource, Query, SelectInto, SetExpr, Statement};

fn wrong(into: &SelectInto, message: &str) -> SqlError {
    let name = into.name.0.first().and_then(|part| part.as_ident());
    SqlError::new(state::SYNTAX, message).at(name.and_then(names::position))
}

/// Returns 42601: the query is a part of a statement, or of another query.
pub(crate) fn not_here(into: &SelectInto) -> SqlError {
    wrong(into, "SELECT ... INTO is not allowed here")
}

/// Turns a query with INTO into CREATE TABLE AS. Refuses it in other statements; queries inside a
/// query are refused when they are bound.
pub(crate) fn settle(statement: &mut Statement) -> Result<(), SqlError> {
    let refused = |query: &mut Query, what: &str| match take(&mut query.body)? {
        Some(_) => Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, what)),
        None => Ok(()),
    };
    match statement {
        Statement::Query(query) => {
            let Some(into) = take(&mut query.body)? else { return Ok(()) };
            if into.unlogged {
                return Err(SqlError::unsupported("CREATE UNLOGGED"));
            }
            let create = CreateTableBuilder::new(into.name).temporary(into.temporary);
            let create = create.query(Some(query.clone())).build();
            *statement = Statement::CreateTable(create);
            Ok(())
        }
        Statement::CreateView(create) => {
            refused(&mut create.query, "views must not contain SELECT INTO")
        }
        Statement::Copy { source: CopySource::Query(query), .. } => {
            refused(query, "COPY (SELECT INTO) is not supported")
        }
        Statement::Explain { statement, .. } => match &mut **statement {
            Statement::Query(query) => refused(query, "EXPLAIN of SELECT INTO is not supported"),
            _ => Ok(()),
        },
        Statement::Prepare { statement, .. } => match &mut **statement {
            Statement::Query(query) => refused(query, "PREPARE of SELECT INTO is not supported"),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Takes INTO from the first SELECT of a query. Fails with 42601 if another one has it.
fn take(mut body: &mut SetExpr) -> Result<Option<SelectInto>, SqlError> {
    loop {
        body = match body {
            SetExpr::Select(select) => return Ok(select.into.take()),
            SetExpr::Query(query) => &mut *query.body,
            SetExpr::SetOperation { left, right, .. } => {
                if let Some(into) = take_other(right) {
                    let message = "INTO is only allowed on first SELECT of UNION/INTERSECT/EXCEPT";
                    return Err(wrong(&into, message));
                }
                left
            }
            _ => return Ok(None),
        };
    }
}

/// Returns INTO of any SELECT of a query.
fn take_other(body: &mut SetExpr) -> Option<SelectInto> {
    let mut rest = vec![body];
    while let Some(body) = rest.pop() {
        match body {
            SetExpr::Select(select) if select.into.is_some() => return select.into.take(),
            SetExpr::Query(query) => rest.push(&mut query.body),
            SetExpr::SetOperation { left, right, .. } => rest.extend([&mut **right, &mut **left]),
            _ => {}
        }
    }
    None
}
