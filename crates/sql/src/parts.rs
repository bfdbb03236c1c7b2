//! The parts of a statement with WITH: those that change data, and the statement behind WITH.

use crate::bind;
use crate::clauses;
use crate::constraint::Related;
use crate::dml::{self, Change, Insert, Merge, Write};
use crate::error::{SqlError, state};
use crate::names;
use crate::normalize;
use crate::physical;
use sqlparser::ast::{self, SetExpr, Statement};
use std::sync::Arc;

/// True if queries of WITH change data.
pub(crate) fn is_modifying(with: &ast::With) -> bool {
    with.cte_tables.iter().any(bind::modifies)
}

/// Returns the WITH of a statement, if it changes data.
pub(crate) fn modifying_of(statement: &Statement) -> Option<&ast::With> {
    let Statement::Query(query) = statement else { return None };
    query.with.as_ref().filter(|with| is_modifying(with))
}

/// Returns the change of a query of WITH.
pub(crate) fn part_of(cte: &ast::Cte) -> Result<&Statement, SqlError> {
    match (&*cte.query.body, change_of(&cte.query)?) {
        (SetExpr::Merge(_), _) | (_, None) => {
            let message = "MERGE not supported in WITH query";
            Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
                .at(names::position(&cte.alias.name)))
        }
        (_, Some(change)) => Ok(change),
    }
}

/// Plans a bound change.
pub(crate) fn plan_write(part: bind::Part, relations: usize) -> Result<Write, SqlError> {
    Ok(match part {
        bind::Part::Insert(insert) => Write::Insert(Insert::plan(insert, relations)?),
        bind::Part::Change(change) => Write::Change(Change::plan(change, relations)?),
        bind::Part::Merge(merge) => Write::Merge(Merge::plan(merge, relations)?),
        bind::Part::Query(_) => return Err(SqlError::unsupported("this statement")),
    })
}

/// Plans a bound statement whose WITH changes data.
pub(crate) fn plan_with(
    bound: bind::Modifying,
    related: Option<Arc<Related>>,
    relations: usize,
) -> Result<dml::With, SqlError> {
    let mut steps = Vec::with_capacity(bound.steps.len());
    for bind::Step { number, name, part, reads } in bound.steps {
        let part = match part {
            bind::Part::Query(query) => {
                let query = physical::lower(normalize::query(query), relations)?;
                dml::Part::Query(Arc::new(query))
            }
            change => dml::Part::Write(plan_write(change, relations)?),
        };
        steps.push(dml::Step { number, name, part, reads });
    }
    Ok(dml::With::new(steps, related))
}

/// Returns the WITH of `WITH … UPDATE` and of its kind, and the statement behind it.
pub(crate) fn with_of(statement: &Statement) -> Result<(Option<&ast::With>, &Statement), SqlError> {
    let Statement::Query(query) = statement else { return Ok((None, statement)) };
    Ok(match change_of(query)? {
        Some(change) => (query.with.as_ref(), change),
        None => (None, statement),
    })
}

/// Returns the change behind the WITH of a query, if it is one.
fn change_of(query: &ast::Query) -> Result<Option<&Statement>, SqlError> {
    let (SetExpr::Insert(inner)
    | SetExpr::Update(inner)
    | SetExpr::Delete(inner)
    | SetExpr::Merge(inner)) = &*query.body
    else {
        return Ok(None);
    };
    let ast::Query {
        with: _,
        body: _,
        order_by,
        limit_clause,
        fetch,
        locks,
        for_clause: _,
        settings: _,
        format_clause: _,
        pipe_operators: _,
    } = query;
    clauses::refuse(&[(
        order_by.is_some()
            || limit_clause.is_some()
            || fetch.is_some()
            || !locks.is_empty()
            || clauses::is_foreign(query),
        "a clause behind WITH … INSERT, UPDATE, DELETE or MERGE",
    )])?;
    Ok(Some(inner))
}
