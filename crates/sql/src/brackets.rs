//! A query in brackets and the clauses around it are one query, as in PostgreSQL: in
//! `(SELECT … LIMIT 3) ORDER BY a` the order comes before the limit. Each clause may be there once.

use crate::error::{SqlError, state};
use crate::names;
use sqlparser::ast::{Fetch, LimitClause, OrderByKind, Query, SetExpr, Spanned};
use sqlparser::tokenizer::Span;

/// Takes the clauses of a query in brackets into the query that it is the body of.
pub(crate) fn open(query: &mut Query) -> Result<(), SqlError> {
    if !matches!(*query.body, SetExpr::Query(_)) {
        return Ok(());
    }
    let outer = Places::of(query);
    let SetExpr::Query(inner) = &mut *query.body else { return Ok(()) };
    let (Some(outer), Some(found)) = (outer, Places::of(inner)) else { return Ok(()) };
    once("ORDER BY", outer.order, found.order)?;
    once("OFFSET", outer.offset, found.offset)?;
    once("LIMIT", outer.limit, found.limit)?;
    once("WITH", outer.with, found.with)?;
    let (inner_limit, inner_fetch) = (inner.limit_clause.take(), inner.fetch.take());
    query.with = query.with.take().or_else(|| inner.with.take());
    query.order_by = query.order_by.take().or_else(|| inner.order_by.take());
    query.fetch = query.fetch.take().or(inner_fetch);
    query.limit_clause = join(query.limit_clause.take(), inner_limit);
    inner.locks.append(&mut query.locks);
    query.locks = std::mem::take(&mut inner.locks);
    let none = SetExpr::Values(sqlparser::ast::Values {
        explicit_row: false,
        value_keyword: false,
        rows: Vec::new(),
    });
    *query.body = std::mem::replace(&mut *inner.body, none);
    Ok(())
}

/// The places of a query's clauses.
struct Places {
    with: Option<Span>,
    order: Option<Span>,
    offset: Option<Span>,
    limit: Option<Span>,
}

impl Places {
    /// Returns `None` for a query with a clause of another dialect: binding refuses it.
    fn of(query: &Query) -> Option<Places> {
        let is_foreign = query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty();
        let (limit, offset) = match &query.limit_clause {
            _ if is_foreign => return None,
            Some(LimitClause::OffsetCommaLimit { .. }) => return None,
            Some(LimitClause::LimitOffset { limit, offset, limit_by: _ }) => {
                (limit.as_ref().map(Spanned::span), offset.as_ref().map(|it| it.value.span()))
            }
            None => (None, None),
        };
        let rows = |fetch: &Fetch| fetch.quantity.as_ref().map_or_else(Span::empty, Spanned::span);
        Some(Places {
            with: query.with.as_ref().map(|with| with.with_token.0.span),
            order: query.order_by.as_ref().map(|order| match &order.kind {
                OrderByKind::Expressions(keys) => {
                    keys.first().map_or_else(Span::empty, |key| key.span())
                }
                OrderByKind::All(_) => Span::empty(),
            }),
            offset,
            limit: limit.or_else(|| query.fetch.as_ref().map(rows)),
        })
    }
}

fn once(clause: &str, outer: Option<Span>, inner: Option<Span>) -> Result<(), SqlError> {
    let (Some(span), Some(_)) = (outer, inner) else { return Ok(()) };
    let message = format!("multiple {clause} clauses not allowed");
    Err(SqlError::new(state::SYNTAX, message).at(names::place(span.start)))
}

/// Joins LIMIT of one query and OFFSET of the other.
fn join(outer: Option<LimitClause>, inner: Option<LimitClause>) -> Option<LimitClause> {
    let (one, other) = match (outer, inner) {
        (Some(outer), Some(inner)) => (outer, inner),
        (one, other) => return one.or(other),
    };
    match (one, other) {
        (
            LimitClause::LimitOffset { limit, offset, limit_by },
            LimitClause::LimitOffset { limit: other_limit, offset: other_offset, limit_by: by },
        ) => Some(LimitClause::LimitOffset {
            limit: limit.or(other_limit),
            offset: offset.or(other_offset),
            limit_by: limit_by.into_iter().chain(by).collect(),
        }),
        (one, _) => Some(one),
    }
}
