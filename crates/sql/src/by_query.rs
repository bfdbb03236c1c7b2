//! UPDATE and DELETE that find rows or values by a query: `UPDATE … FROM`, `DELETE … USING`,
//! subqueries.
//!
//! The change runs `SELECT key, values FROM table, others WHERE condition` to the end. Then each
//! row is locked by its key and changed. Both happen in one transaction, so the row is still what
//! the query saw. A row with several matches is changed once, by the first match; PostgreSQL does
//! not specify which. For a table without a primary key the query selects the rows' stored keys.

use crate::bind::{Binder, ROW_KEY};
use crate::cast;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::dml::{Changed, Returning, refuse_unassignable, target_columns};
use crate::error::{SqlError, state};
use crate::exec::Reader;
use crate::explain::Actuals;
use crate::expr::Scope;
use crate::memory::{Held, weight};
use crate::names;
use crate::physical;
use crate::{kv, row, write};
use meridian_txn::{Lock, Locking, Transaction};
use sqlparser::ast::{
    self, Expr, Ident, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A change by query, before its query is planned.
pub(crate) struct Draft {
    /// Selects the keys, then the new values.
    pub(crate) query: ast::Query,
    /// The columns of the new values; `None` for DELETE.
    assigned: Option<Vec<usize>>,
    returning: Option<Vec<SelectItem>>,
    /// True if it selects the columns of a primary key, false if it selects the rows' keys.
    has_primary: bool,
    alias: String,
}

/// A compiled change by query.
pub(crate) struct ByQuery {
    pub(crate) table: Arc<Table>,
    pub(crate) plan: Arc<physical::Query>,
    assigned: Option<Vec<usize>>,
    pub(crate) returning: Option<Returning>,
}

fn literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => {
            !matches!(value.value, ast::Value::Number(..) | ast::Value::Boolean(_))
        }
        Expr::Nested(inner) => literal(inner),
        _ => false,
    }
}

impl Draft {
    /// Builds the query for a statement that changes a table.
    pub(crate) fn of(statement: &Statement, table: &Table) -> Result<Draft, SqlError> {
        let (target, others, selection, returning, assignments) = match statement {
            Statement::Update(update) => {
                let others = match &update.from {
                    Some(ast::UpdateTableFromKind::AfterSet(from)) => from.clone(),
                    Some(ast::UpdateTableFromKind::BeforeSet(_)) => {
                        return Err(SqlError::new(state::SYNTAX, "FROM stands behind SET"));
                    }
                    None => Vec::new(),
                };
                (
                    &update.table,
                    others,
                    &update.selection,
                    &update.returning,
                    Some(&update.assignments),
                )
            }
            Statement::Delete(delete) => {
                let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) =
                    &delete.from;
                let [target] = from.as_slice() else {
                    return Err(SqlError::unsupported("deleting from several tables"));
                };
                (
                    target,
                    delete.using.clone().unwrap_or_default(),
                    &delete.selection,
                    &delete.returning,
                    None,
                )
            }
            _ => return Err(SqlError::unsupported("this statement")),
        };
        let TableFactor::Table { alias, .. } = &target.relation else {
            return Err(SqlError::unsupported("changing anything but a table"));
        };
        let alias =
            alias.as_ref().map_or_else(|| table.name.clone(), |alias| names::fold(&alias.name));
        let qualified = |name: &str| {
            Expr::CompoundIdentifier(
                [&*alias, name].map(|part| Ident::with_quote('"', part)).to_vec(),
            )
        };
        let mut outputs: Vec<Expr> = match &table.primary {
            Some(key) => key
                .columns
                .iter()
                .map(|part| qualified(&table.columns[part.column as usize].name))
                .collect(),
            None => vec![qualified(ROW_KEY)],
        };
        let mut assigned = Vec::new();
        for assignment in assignments.into_iter().flatten() {
            match (&assignment.target, &assignment.value) {
                (ast::AssignmentTarget::ColumnName(name), value) => {
                    outputs.push(assign(table, name, value, &mut assigned)?);
                }
                (ast::AssignmentTarget::Tuple(names), Expr::Tuple(values))
                    if names.len() == values.len() =>
                {
                    for (name, value) in names.iter().zip(values) {
                        outputs.push(assign(table, name, value, &mut assigned)?);
                    }
                }
                _ => return Err(SqlError::unsupported("this assignment")),
            }
        }
        let template = Parser::new(&PostgreSqlDialect {})
            .try_with_sql("SELECT 1")
            .and_then(|mut parser| parser.parse_query());
        let mut query = *template.map_err(|error| SqlError::new("XX000", error.to_string()))?;
        if let SetExpr::Select(select) = &mut *query.body {
            // Unique names.
            let item = |(at, expr)| SelectItem::ExprWithAlias {
                expr,
                alias: Ident::with_quote('"', format!("_{at}")),
            };
            select.projection = outputs.into_iter().enumerate().map(item).collect();
            select.from = std::iter::once(TableWithJoins {
                relation: target.relation.clone(),
                joins: Vec::new(),
            })
            .chain(others)
            .collect();
            select.selection = selection.clone();
        }
        Ok(Draft {
            query,
            assigned: assignments.map(|_| assigned),
            returning: returning.clone(),
            has_primary: table.primary.is_some(),
            alias,
        })
    }

    /// True if its query reads the rows' keys, for want of a primary key.
    pub(crate) fn reads_row_keys(&self) -> bool {
        !self.has_primary
    }

    /// Completes the change with the planned query.
    pub(crate) fn planned(
        self,
        binder: &mut Binder,
        table: Arc<Table>,
        plan: Arc<physical::Query>,
    ) -> Result<ByQuery, SqlError> {
        let keys = table.primary.as_ref().map_or(1, |primary| primary.columns.len());
        let columns = plan.columns.clone();
        let assigned: Vec<usize> = self.assigned.iter().flatten().copied().collect();
        refuse_unassignable(&table, &columns[keys.min(columns.len())..], &assigned)?;
        binder.params = plan.inferred.clone();
        binder.add(table.clone(), &self.alias);
        let returning = Returning::compile(binder, &self.returning)?;
        Ok(ByQuery { table, plan, assigned: self.assigned, returning })
    }
}

/// Returns the query of an INSERT: its values, or its SELECT, with what the columns give them.
pub(crate) fn source_of(
    insert: &ast::Insert,
    query: &ast::Query,
    table: &Table,
) -> Result<ast::Query, SqlError> {
    let named = insert.columns.iter().filter_map(|name| name.0.last()?.as_ident().cloned());
    let targets = target_columns(table, &named.collect::<Vec<_>>())?;
    let mut query = query.clone();
    match &mut *query.body {
        SetExpr::Values(values) => {
            for row in &mut values.rows {
                for (value, column) in row.content.iter_mut().zip(&targets) {
                    *value = value_of(table, *column, value)?;
                }
            }
        }
        SetExpr::Select(select) => {
            for (item, column) in select.projection.iter_mut().zip(&targets) {
                match item {
                    SelectItem::UnnamedExpr(value)
                    | SelectItem::ExprWithAlias { expr: value, alias: _ } => {
                        if literal(value) {
                            *value = value_of(table, *column, value)?;
                        }
                    }
                    // Behind `*` the columns are not known.
                    _ => break,
                }
            }
        }
        _ => {}
    }
    Ok(query)
}

/// Renders a new value as an output of the query.
fn assign(
    table: &Table,
    name: &ast::ObjectName,
    value: &Expr,
    assigned: &mut Vec<usize>,
) -> Result<Expr, SqlError> {
    let ident =
        name.0.last().and_then(|part| part.as_ident()).cloned().unwrap_or_else(|| Ident::new(""));
    let column = target_columns(table, std::slice::from_ref(&ident))?[0];
    if assigned.contains(&column) {
        let message =
            format!("multiple assignments to same column \"{}\"", table.columns[column].name);
        return Err(SqlError::new(state::SYNTAX, message));
    }
    assigned.push(column);
    value_of(table, column, value)
}

/// Renders a value for a column as an output of a query: DEFAULT becomes the column's default, and
/// a quoted literal and a parameter take the type of the column.
fn value_of(table: &Table, column: usize, value: &Expr) -> Result<Expr, SqlError> {
    let is_default = matches!(value, Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"));
    let value = match (is_default, &table.columns[column].default) {
        (false, _) => value.clone(),
        (true, Some(text)) => crate::parse::expression(text)?,
        (true, None) => Expr::value(ast::Value::Null),
    };
    if !literal(&value) {
        return Ok(value);
    }
    let ty = Parser::new(&PostgreSqlDialect {})
        .try_with_sql(&table.columns[column].ty.base().to_string())
        .and_then(|mut parser| parser.parse_data_type());
    Ok(Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(value),
        data_type: ty.map_err(|error| SqlError::new("XX000", error.to_string()))?,
        array: false,
        format: None,
    })
}

/// Returns all rows of a planned query, and the memory that they hold. Counts what its nodes do, if
/// that is wanted.
pub(crate) async fn all_rows(
    plan: &physical::Query,
    txn: &mut dyn Transaction,
    scope: &Scope<'_>,
    actuals: Option<&mut Actuals>,
) -> Result<(Vec<Vec<Datum>>, Held), SqlError> {
    let (mut rows, mut held) = (Vec::new(), Held::none(&scope.session.memory));
    let params = scope.params.get(..plan.params.len()).unwrap_or(scope.params).to_vec();
    let mut running = plan.start(params, actuals.is_some());
    let mut reader = Reader::new(txn, scope.session, scope.now_us);
    while let Some(more) = running.next(&mut reader, usize::MAX).await? {
        held.add(more.iter().map(|row| weight(row)).sum())?;
        rows.extend(more);
    }
    // The statement's own reads wait for locks, whatever its query did (NOWAIT).
    reader.transaction.set_locking(Locking::Wait);
    if let Some(actuals) = actuals {
        actuals.extend(running.actuals());
    }
    Ok((rows, held))
}

impl ByQuery {
    pub(crate) fn is_update(&self) -> bool {
        self.assigned.is_some()
    }

    pub(crate) async fn run(
        &self,
        txn: &mut dyn Transaction,
        scope: &Scope<'_>,
        actuals: Option<&mut Actuals>,
    ) -> Result<Changed, SqlError> {
        let table = &*self.table;
        let parts = table.primary.as_ref().map_or(&[][..], |primary| &primary.columns);
        let mut changed = Changed::default();
        let mut done = BTreeSet::new();
        let (rows, _held) = all_rows(self.plan.as_ref(), txn, scope, actuals).await?;
        for found in rows {
            let mut by_key = vec![Datum::Null; table.columns.len()];
            let mut values = found.into_iter();
            for part in parts {
                let column = part.column as usize;
                by_key[column] = cast::cast(
                    values.next().unwrap_or(Datum::Null),
                    table.columns[column].ty,
                    false,
                )?;
            }
            let key = match table.row_key(&by_key) {
                Some(key) => kv::to_key(key),
                None => match values.next() {
                    Some(Datum::Bytes(key)) => kv::to_key(key.to_vec()),
                    _ => continue,
                },
            };
            if !done.insert(key.clone()) {
                continue;
            }
            let Some(value) = txn.get(&key, Lock::Exclusive).await? else {
                return Err(SqlError::corrupted("a row that was just read is not there"));
            };
            let old =
                row::decode(table, &key[kv::PREFIX..], &value, &vec![true; table.columns.len()])?;
            match &self.assigned {
                Some(assigned) => {
                    let mut new = old.clone();
                    for (column, value) in assigned.iter().zip(values) {
                        new[*column] = cast::cast(value, table.columns[*column].ty, false)?;
                    }
                    write::update(txn, table, &key, &old, &new).await?;
                    Returning::take(&self.returning, &new, scope, &mut changed)?;
                }
                None => {
                    write::delete(txn, table, &key, &old).await?;
                    Returning::take(&self.returning, &old, scope, &mut changed)?;
                }
            }
        }
        Ok(changed)
    }
}
