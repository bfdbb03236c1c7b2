//! UPDATE and DELETE: the query that finds the rows to change, with their new values and the
//! outputs of RETURNING.
//!
//! ```text
//! outputs of RETURNING, over the new values
//!   └─ new values, over the old ones
//!        └─ WHERE
//!             └─ the table × FROM or USING, each row of the table once
//! ```
//!
//! All of it is computed before the first row is written, so that no subquery sees a change of the
//! statement itself.

use super::lock::{OnLocked, RowLocks, Strength};
use super::query::Query;
use super::target::{assigned_column, assigned_field, check_updatable, nested};
use super::{Binder, Typed, bind_items};
use crate::catalog::Table;
use crate::clauses;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::logical::{ColumnId, JoinKind, Rel, Subquery, Wants};
use crate::response::Column;
use crate::types::Type;
use sqlparser::ast;
use std::sync::Arc;

/// A bound UPDATE or DELETE.
pub(crate) struct Change {
    pub(crate) table: Arc<Table>,
    /// Finds the rows. Its outputs are a row's key, the old values if it `locks`, the new values of
    /// the assigned columns, and those of RETURNING.
    pub(crate) query: Query,
    /// True if the scan of the table locks its rows for the change and reads them whole: the
    /// condition depends on no other relation.
    pub(crate) locks: bool,
    /// The columns with new values, generated ones among them; `None` for DELETE.
    pub(crate) assigned: Option<Vec<usize>>,
    pub(crate) returning: Option<Arc<[Column]>>,
}

/// The clauses of UPDATE and DELETE.
struct Clauses<'a> {
    target: &'a ast::TableWithJoins,
    others: &'a [ast::TableWithJoins],
    assignments: Option<&'a [ast::Assignment]>,
    selection: Option<&'a ast::Expr>,
    returning: Option<&'a [ast::SelectItem]>,
}

/// Returns the clauses of an UPDATE; fails for those of other dialects.
fn of_update(update: &ast::Update) -> Result<Clauses<'_>, SqlError> {
    let ast::Update {
        update_token: _,
        optimizer_hints,
        table,
        assignments,
        from,
        selection,
        returning,
        output,
        or,
        order_by,
        limit,
    } = update;
    clauses::refuse(&[
        (!optimizer_hints.is_empty(), "a hint"),
        (output.is_some(), "OUTPUT"),
        (or.is_some(), "UPDATE OR"),
        (!order_by.is_empty(), "ORDER BY of UPDATE"),
        (limit.is_some(), "LIMIT of UPDATE"),
    ])?;
    let others = match from {
        None => &[][..],
        Some(ast::UpdateTableFromKind::AfterSet(from)) => from,
        Some(ast::UpdateTableFromKind::BeforeSet(_)) => {
            return Err(SqlError::new(state::SYNTAX, "FROM stands behind SET"));
        }
    };
    Ok(Clauses {
        target: table,
        others,
        assignments: Some(assignments),
        selection: selection.as_ref(),
        returning: returning.as_deref(),
    })
}

/// Returns the clauses of a DELETE; fails for those of other dialects.
fn of_delete(delete: &ast::Delete) -> Result<Clauses<'_>, SqlError> {
    let ast::Delete {
        delete_token: _,
        optimizer_hints,
        tables,
        from,
        using,
        selection,
        returning,
        output,
        order_by,
        limit,
    } = delete;
    clauses::refuse(&[
        (!optimizer_hints.is_empty(), "a hint"),
        (!tables.is_empty(), "deleting from several tables"),
        (output.is_some(), "OUTPUT"),
        (!order_by.is_empty(), "ORDER BY of DELETE"),
        (limit.is_some(), "LIMIT of DELETE"),
    ])?;
    let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = from;
    let [target] = from.as_slice() else {
        return Err(SqlError::unsupported("deleting from several tables"));
    };
    Ok(Clauses {
        target,
        others: using.as_deref().unwrap_or_default(),
        assignments: None,
        selection: selection.as_ref(),
        returning: returning.as_deref(),
    })
}

/// Returns the name of the table that an UPDATE or DELETE changes.
pub(crate) fn target_of(statement: &ast::Statement) -> Result<&ast::ObjectName, SqlError> {
    let target = match statement {
        ast::Statement::Update(update) => of_update(update)?.target,
        ast::Statement::Delete(delete) => of_delete(delete)?.target,
        _ => return Err(SqlError::unsupported("this statement")),
    };
    let name = match (clauses::plain_table(&target.relation), target.joins.is_empty()) {
        (Some((name, _)), true) => name,
        _ => return Err(SqlError::unsupported(format!("changing {target}"))),
    };
    Ok(name)
}

/// The columns that an assignment gives values to, of those that exist: no generated ones.
fn targets(table: &Table, assignment: &ast::Assignment) -> Vec<usize> {
    let names = match &assignment.target {
        ast::AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
        ast::AssignmentTarget::Tuple(names) => names,
    };
    let columns = names.iter().filter_map(|name| Some(assigned_field(table, name).ok()?.0));
    columns.filter(|column| table.columns[*column].generated.is_none()).collect()
}

impl Binder {
    /// Binds an UPDATE or DELETE; the caller completes its query.
    pub(super) fn bind_change(
        &mut self,
        statement: &ast::Statement,
        table: Arc<Table>,
        definitions: Vec<(usize, Rel, bool)>,
    ) -> Result<Change, SqlError> {
        let clauses = match statement {
            ast::Statement::Update(update) => of_update(update)?,
            ast::Statement::Delete(delete) => of_delete(delete)?,
            _ => return Err(SqlError::unsupported("this statement")),
        };
        let row_keys = std::mem::replace(&mut self.row_keys, true);
        let from: Vec<_> = std::iter::once(clauses.target).chain(clauses.others).cloned().collect();
        // A query of WITH hides a table in FROM, and not the table that is changed.
        let hidden = std::mem::take(&mut self.named);
        let mut rel = self.bind_from(&from[..1])?;
        self.named = hidden;
        let target = self.relations()[0].clone();
        let key = target.row_key.ok_or_else(|| SqlError::corrupted("a scan without row keys"))?;
        if let [_, others @ ..] = from.as_slice()
            && !others.is_empty()
        {
            // FROM does not see the table that is changed, even where it is LATERAL.
            let mut relations = std::mem::take(&mut self.level().relations);
            let others = self.bind_from(others)?;
            relations.append(&mut self.level().relations);
            self.level().relations = relations;
            self.check_aliases()?;
            rel = rel.join(JoinKind::Inner, others, Expr::truth());
        }
        let olds: Vec<ColumnId> = target.columns.iter().map(|column| column.id).collect();
        let mut locks = clauses.others.is_empty();
        if let Some(selection) = clauses.selection {
            self.begin_clause("WHERE", false);
            let condition = self.bind_bool(selection, "WHERE")?;
            self.end_clause();
            locks &= !condition.has_subquery();
            rel = rel.filter(vec![condition]);
        }
        if !clauses.others.is_empty() {
            // A row that is found several times is changed once, by the first find; PostgreSQL does
            // not define which.
            rel = Rel::Distinct { input: Box::new(rel), on: vec![key] };
        }
        let mut outputs = vec![key];
        if locks {
            outputs.extend(&olds);
        }
        // RETURNING is bound before SET, as in PostgreSQL: its use of a parameter may give it a
        // type.
        let mut news = olds.clone();
        let changing = clauses.assignments.unwrap_or_default();
        let mut changes: Vec<usize> =
            changing.iter().flat_map(|assignment| targets(&table, assignment)).collect();
        let computed = table.generated.iter().filter(|it| it.names_any(&changes));
        let recomputed: Vec<usize> = computed.map(|it| it.column).collect();
        changes.extend(&recomputed);
        for column in changes {
            news[column] = self.copied(olds[column]);
            self.level().relations[0].columns[column].id = news[column];
        }
        // The commit timestamp of a changed row is not known yet.
        self.level().relations[0].commit_timestamp = None;
        let returning = clauses.returning.map(|items| self.returning(items)).transpose()?;
        self.level().relations[0] = target;
        let mut assigned = None;
        if let Some(all) = clauses.assignments {
            self.begin_clause("UPDATE", false);
            let assignments = self.assignments(&table, all, Some(&mut rel))?;
            self.end_clause();
            let mut computed = Vec::with_capacity(assignments.len());
            for (column, value) in &assignments {
                computed.push((news[*column], value.clone()));
                outputs.push(news[*column]);
            }
            rel = rel.with_columns(computed);
            let mut assigned_all: Vec<usize> =
                assignments.into_iter().map(|(column, _)| column).collect();
            if !recomputed.is_empty() {
                let mut values = table.generated_over(&news);
                values.retain(|(id, _)| recomputed.iter().any(|column| news[*column] == *id));
                outputs.extend(recomputed.iter().map(|column| news[*column]));
                rel = rel.with_columns(values);
                assigned_all.extend(recomputed);
            }
            assigned = Some(assigned_all);
        }
        let returning = returning.map(|(columns, exprs)| {
            let mut computed = Vec::with_capacity(exprs.len());
            for (column, expr) in columns.iter().zip(exprs) {
                let id = self.computed(&column.name, column.ty);
                computed.push((id, expr));
                outputs.push(id);
            }
            rel = std::mem::replace(&mut rel, Rel::one_row()).with_columns(computed);
            columns
        });
        let (strength, on_locked) = (Strength::Update, OnLocked::Wait);
        let locks_rows = RowLocks { strength, on_locked, of: key, keeps: false };
        self.row_keys = row_keys;
        let mut query = Query::part(rel.with_all(definitions), outputs);
        query.locks = locks.then_some(locks_rows);
        Ok(Change { table, query, locks, assigned, returning })
    }

    /// Creates a column like another one.
    pub(super) fn copied(&mut self, id: ColumnId) -> ColumnId {
        self.columns.push(self.columns[id].clone());
        self.columns.len() - 1
    }

    /// Binds the outputs of RETURNING.
    pub(super) fn returning(
        &mut self,
        items: &[ast::SelectItem],
    ) -> Result<(Arc<[Column]>, Vec<Expr>), SqlError> {
        self.begin_clause("RETURNING", false);
        let mut items = bind_items(self, items)?;
        self.end_clause();
        for item in &mut items {
            let typed = item.typed.clone();
            let ty = typed.ty.unwrap_or(Type::Text);
            item.typed = Typed::of(self.coerce(typed, ty, false)?, ty);
        }
        let columns = items.iter().map(|item| item.column(self)).collect();
        Ok((columns, items.into_iter().map(|item| item.typed.expr).collect()))
    }

    /// Binds the assignments of SET: columns and their values. A row of values may be that of a
    /// subquery, which is joined to the relation if there is one. DEFAULT of a generated column is
    /// left out.
    pub(super) fn assignments(
        &mut self,
        table: &Table,
        all: &[ast::Assignment],
        mut rel: Option<&mut Rel>,
    ) -> Result<Vec<(usize, Expr)>, SqlError> {
        let mut out: Vec<(usize, Expr)> = Vec::with_capacity(all.len());
        // The columns of which fields are assigned so far; a later value of a field counts.
        let mut parts: Vec<usize> = Vec::new();
        for ast::Assignment { target, value } in all {
            let names = match target {
                ast::AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
                ast::AssignmentTarget::Tuple(names) => names,
            };
            if let ast::AssignmentTarget::ColumnName(name) = target
                && name.0.len() > 1
                && rel.is_some()
            {
                let (column, fields) = &assigned_field(table, name)?;
                let is_whole =
                    out.iter().any(|(other, _)| other == column) && !parts.contains(column);
                if is_whole {
                    let name = &table.columns[*column].name;
                    let message = format!("multiple assignments to same column \"{name}\"");
                    return Err(SqlError::new(state::SYNTAX, message));
                }
                parts.push(*column);
                self.assign_field(table, *column, fields, value, &mut out)?;
                continue;
            }
            let mut columns = Vec::with_capacity(names.len());
            for name in names {
                let column = assigned_column(table, name)?;
                if out.iter().any(|(other, _)| *other == column) || columns.contains(&column) {
                    let name = &table.columns[column].name;
                    let message = format!("multiple assignments to same column \"{name}\"");
                    return Err(SqlError::new(state::SYNTAX, message));
                }
                columns.push(column);
            }
            if let ast::Expr::Subquery(_) = nested(value)
                && let ast::AssignmentTarget::Tuple(_) = target
            {
                columns.iter().try_for_each(|column| check_updatable(table, *column))?;
            }
            if let ast::AssignmentTarget::ColumnName(_) = target {
                out.push((columns[0], self.bind_new_value(value, table, columns[0])?));
                continue;
            }
            match (nested(value), &mut rel) {
                (ast::Expr::Tuple(values), _) if values.len() == columns.len() => {
                    for (column, value) in columns.into_iter().zip(values) {
                        out.push((column, self.bind_new_value(value, table, column)?));
                    }
                }
                (ast::Expr::Subquery(query), Some(rel)) => {
                    let mut bound = self.bind_query(query)?;
                    if bound.outputs.len() != columns.len() {
                        return Err(mismatched());
                    }
                    let values = self.fitted(&mut bound, table, &columns)?;
                    let input = std::mem::replace(*rel, Rel::one_row());
                    **rel = input.join(JoinKind::Single, bound.rel, Expr::truth());
                    out.extend(columns.into_iter().zip(values));
                }
                (ast::Expr::Subquery(query), None) => {
                    for (at, column) in columns.iter().enumerate() {
                        out.push((*column, self.part_of_query(query, table, &columns, at)?));
                    }
                }
                (ast::Expr::Tuple(_), _) => return Err(mismatched()),
                _ => return Err(SqlError::unsupported("this assignment")),
            }
        }
        out.retain(|(column, _)| table.columns[*column].generated.is_none());
        Ok(out)
    }

    /// Binds one of the values that the row of a subquery gives to columns.
    fn part_of_query(
        &mut self,
        query: &ast::Query,
        table: &Table,
        columns: &[usize],
        at: usize,
    ) -> Result<Expr, SqlError> {
        let mut bound = self.bind_query(query)?;
        if bound.outputs.len() != columns.len() {
            return Err(mismatched());
        }
        let mut value = self.fitted(&mut bound, table, columns)?.swap_remove(at);
        if bound.rel.is_volatile() {
            // It runs once for each column.
            return Err(SqlError::unsupported("a volatile subquery for several columns here"));
        }
        let (id, rel) = (bound.outputs[at].id, bound.rel);
        let subquery = Expr::Subquery(Box::new(Subquery { wants: Wants::Value(id), rel }));
        value.rewrite(&mut |part| {
            if *part == Expr::Column(id) {
                *part = subquery.clone();
            }
        });
        Ok(value)
    }
}

fn mismatched() -> SqlError {
    SqlError::new(state::SYNTAX, "number of columns does not match number of values")
}
