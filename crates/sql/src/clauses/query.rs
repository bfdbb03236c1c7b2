//! Clauses of a query: whether it is plain enough for its rows to be locked, or for INSERT to take
//! its values. Other queries go to the binder, which reads their clauses or rejects them.

use sqlparser::ast::{
    GroupByExpr, LimitClause, ObjectName, OrderBy, OrderByKind, Query, Select, SetExpr, TableAlias,
    TableFactor, Values,
};

/// Returns the body, ORDER BY and LIMIT of a query without other clauses than locks.
fn plain_query(query: &Query) -> Option<(&SetExpr, Option<&OrderBy>, Option<&LimitClause>)> {
    let Query {
        with: None,
        body,
        order_by,
        limit_clause,
        fetch: None,
        locks: _,
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators,
    } = query
    else {
        return None;
    };
    let is_plain = pipe_operators.is_empty();
    is_plain.then_some((&**body, order_by.as_ref(), limit_clause.as_ref()))
}

/// Returns the SELECT of a query without WITH, FETCH, named windows and other dialects' clauses.
pub(crate) fn plain_select(query: &Query) -> Option<&Select> {
    let (SetExpr::Select(select), order_by, limit_clause) = plain_query(query)? else {
        return None;
    };
    let Select {
        select_token: _,
        optimizer_hints,
        distinct: _,
        select_modifiers: None,
        top: None,
        top_before_distinct: _,
        projection: _,
        exclude: None,
        into: None,
        from: _,
        lateral_views,
        prewhere: None,
        selection: _,
        connect_by,
        group_by: GroupByExpr::Expressions(_, modifiers),
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window,
        qualify: None,
        window_before_qualify: _,
        value_table_mode: None,
        flavor: _,
    } = &**select
    else {
        return None;
    };
    let lists_are_empty = optimizer_hints.is_empty()
        && lateral_views.is_empty()
        && connect_by.is_empty()
        && modifiers.is_empty()
        && cluster_by.is_empty()
        && distribute_by.is_empty()
        && sort_by.is_empty()
        && named_window.is_empty();
    let is_ordered_plainly = order_by.is_none_or(|order| {
        let OrderByKind::Expressions(all) = &order.kind else { return false };
        order.interpolate.is_none() && all.iter().all(|by| by.with_fill.is_none())
    });
    let is_limited_plainly = match limit_clause {
        None => true,
        Some(LimitClause::LimitOffset { limit: _, offset: _, limit_by }) => limit_by.is_empty(),
        Some(LimitClause::OffsetCommaLimit { .. }) => false,
    };
    (lists_are_empty && is_ordered_plainly && is_limited_plainly).then_some(&**select)
}

/// Returns the rows of a query that is nothing but VALUES.
pub(crate) fn plain_values(query: &Query) -> Option<&Values> {
    match plain_query(query)? {
        (SetExpr::Values(values), None, None) if query.locks.is_empty() => Some(values),
        _ => None,
    }
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
