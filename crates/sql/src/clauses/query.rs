//! Clauses of a query: whether INSERT can take its values, and which items of FROM are plain
//! tables. Other queries go to the binder, which reads their clauses or rejects them.

use sqlparser::ast::{ObjectName, Query, SetExpr, TableAlias, TableFactor, Values};

/// Returns the rows of a query that is nothing but VALUES.
pub(crate) fn plain_values(query: &Query) -> Option<&Values> {
    let Query {
        with: None,
        body,
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks,
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators,
    } = query
    else {
        return None;
    };
    match &**body {
        SetExpr::Values(values) if locks.is_empty() && pipe_operators.is_empty() => Some(values),
        _ => None,
    }
}

/// True if a query has a clause that only other dialects have.
pub(crate) fn is_foreign(query: &Query) -> bool {
    let Query { for_clause, settings, format_clause, pipe_operators, .. } = query;
    for_clause.is_some()
        || settings.is_some()
        || format_clause.is_some()
        || !pipe_operators.is_empty()
}

/// Returns the name and the alias of an item of FROM that is nothing but a table.
pub(crate) fn plain_table(factor: &TableFactor) -> Option<(&ObjectName, Option<&TableAlias>)> {
    let TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = factor
    else {
        return None;
    };
    let names_columns =
        alias.as_ref().is_some_and(|alias| !alias.columns.is_empty() || alias.at.is_some());
    let is_plain =
        !names_columns && with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty();
    is_plain.then_some((name, alias.as_ref()))
}
