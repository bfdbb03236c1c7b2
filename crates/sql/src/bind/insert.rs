//! INSERT: the rows to insert, from values or from a query.

use super::on_conflict::OnConflict;
use super::query::Query;
use super::scope::XMAX;
use super::target::{assigned_column, check_insertable, is_default, named_columns, target_columns};
use super::{Binder, Relation};
use crate::carried::{self, Overriding};
use crate::catalog::Table;
use crate::clauses;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::logical::{ColumnId, Rel};
use crate::names;
use crate::response::Column;
use crate::types::Type;
use sqlparser::ast::{self, SetExpr};
use std::sync::Arc;

/// A bound INSERT.
pub(crate) struct Insert {
    pub(crate) table: Arc<Table>,
    pub(crate) source: Source,
    pub(crate) conflict: OnConflict,
    pub(crate) returning: Option<Returning>,
}

impl Insert {
    /// Returns the value of the column `xmax` of a row that was inserted, or that ON CONFLICT
    /// changed. Transactions have no ids of 32 bits: 1 stands for that of any.
    pub(crate) fn xmax(is_changed: bool) -> Datum {
        Datum::Oid(u32::from(is_changed))
    }
}

/// The source of the rows: the values of all columns.
pub(crate) enum Source {
    /// Expressions that read nothing.
    Values(Vec<Vec<Expr>>),
    /// A query, whose last outputs may be those of RETURNING.
    Query(Box<Query>),
}

/// The outputs of RETURNING.
pub(crate) struct Returning {
    pub(crate) columns: Arc<[Column]>,
    /// Expressions over the inserted row, and behind it its [`Insert::xmax`]; `None` if the source
    /// computes them with the row, since they read tables, which must not show the statement's own
    /// changes.
    pub(crate) exprs: Option<Vec<Expr>>,
}

fn syntax(message: &str) -> SqlError {
    SqlError::new(state::SYNTAX, message)
}

const TOO_MANY: &str = "INSERT has more expressions than target columns";
const TOO_FEW: &str = "INSERT has more target columns than expressions";

/// Returns the name of the table that an INSERT writes.
pub(crate) fn table_of(insert: &ast::Insert) -> Result<&ast::ObjectName, SqlError> {
    match &insert.table {
        ast::TableObject::TableName(name) => Ok(name),
        _ => Err(SqlError::unsupported("inserting into anything but a table")),
    }
}

/// Fails for clauses of other dialects.
fn check_clauses(insert: &ast::Insert) -> Result<(), SqlError> {
    let ast::Insert {
        insert_token: _,
        optimizer_hints,
        or,
        ignore,
        into: _,
        table: _,
        table_alias: _,
        columns: _,
        overwrite,
        source: _,
        assignments,
        partitioned,
        after_columns,
        has_table_keyword,
        on: _,
        returning: _,
        output,
        replace_into,
        priority,
        insert_alias,
        settings,
        format_clause,
        multi_table_insert_type,
        multi_table_into_clauses,
        multi_table_when_clauses,
        multi_table_else_clause,
    } = insert;
    clauses::refuse(&[
        (!optimizer_hints.is_empty(), "a hint"),
        (or.is_some() || *ignore || *replace_into, "INSERT OR, INSERT IGNORE and REPLACE"),
        (*overwrite || *has_table_keyword, "INSERT OVERWRITE and INSERT TABLE"),
        (!assignments.is_empty(), "INSERT … SET"),
        (partitioned.is_some() || !after_columns.is_empty(), "PARTITION"),
        (output.is_some(), "OUTPUT"),
        (priority.is_some(), "a priority"),
        (insert_alias.is_some(), "an alias behind the values"),
        (settings.is_some() || format_clause.is_some(), "SETTINGS or FORMAT"),
        (
            multi_table_insert_type.is_some()
                || !multi_table_into_clauses.is_empty()
                || !multi_table_when_clauses.is_empty()
                || multi_table_else_clause.is_some(),
            "inserting into several tables",
        ),
    ])
}

/// The ids of a relation's columns.
pub(super) fn ids(relation: &Relation) -> Vec<ColumnId> {
    relation.columns.iter().map(|column| column.id).collect()
}

/// True if an expression reads tables or the catalog, so that only a plan evaluates it.
fn reads_tables(expr: &Expr) -> bool {
    let mut reads = expr.has_subquery();
    expr.walk(&mut |part| {
        reads |= matches!(part, Expr::Call(function, _) if function.reads_catalog());
    });
    reads
}

/// Turns the ids of columns into positions.
pub(super) fn at(mut expr: Expr, layout: &[ColumnId]) -> Expr {
    expr.rewrite(&mut |part| {
        if let Expr::Column(id) = part
            && let Some(at) = layout.iter().position(|column| column == id)
        {
            *part = Expr::Column(at);
        }
    });
    expr
}

impl Binder {
    /// Binds an INSERT; the caller completes its query.
    pub(super) fn bind_insert(
        &mut self,
        insert: &ast::Insert,
        table: Arc<Table>,
        definitions: Vec<(usize, Rel, bool)>,
    ) -> Result<Insert, SqlError> {
        check_clauses(insert)?;
        let ast::Insert { table_alias, columns, source, on, returning, .. } = insert;
        let (columns, overriding) = carried::overriding(columns);
        let named = !columns.is_empty();
        let targets = match named {
            true => named_columns(&table, columns)?,
            false => target_columns(&table, &[])?,
        };
        let defaults = self.defaults(&table)?;
        let mut query = None;
        let rows = match source.as_deref() {
            None => vec![defaults],
            Some(source) => match clauses::plain_values(source) {
                Some(values) => {
                    let targets = (&targets[..], columns);
                    self.bind_rows(values, &table, targets, defaults, overriding)?
                }
                None => {
                    let is_field = |name: &&ast::ObjectName| name.0.len() > 1;
                    if let Some(name) = columns.iter().find(is_field) {
                        assigned_column(&table, name)?;
                    }
                    self.binds_side = matches!(&*source.body, SetExpr::Select(_));
                    let mut bound = self.bind_query(source)?;
                    self.binds_side = false;
                    let count = bound.outputs.len();
                    if count > targets.len() {
                        return Err(syntax(TOO_MANY));
                    }
                    if named && count < targets.len() {
                        return Err(syntax(TOO_FEW));
                    }
                    let values = self.fitted(&mut bound, &table, &targets[..count])?;
                    let mut row = defaults;
                    for (column, value) in targets.iter().zip(values) {
                        let is_identity = table.columns[*column].identity.is_some();
                        if is_identity && overriding == Some(Overriding::User) {
                            continue;
                        }
                        check_insertable(&table, *column, overriding)?;
                        row[*column] = value;
                    }
                    query = Some(bound.rel);
                    vec![row]
                }
            },
        };
        let alias =
            table_alias.as_ref().map_or(table.name.clone(), |alias| names::fold(&alias.alias));
        let relation = self.table_columns(table.clone(), &alias, false);
        let existing = ids(&relation);
        self.level().relations.push(relation);
        let action = match on {
            None => OnConflict::Fail,
            Some(ast::OnInsert::OnConflict(on)) => self.on_conflict(on, &table)?,
            Some(_) => return Err(syntax("ON DUPLICATE KEY is not PostgreSQL's: use ON CONFLICT")),
        };
        // RETURNING names the columns of the row as it is written.
        let written: Vec<ColumnId> = existing.iter().map(|id| self.copied(*id)).collect();
        for (column, id) in self.level().relations[0].columns.iter_mut().zip(&written) {
            column.id = *id;
        }
        let xmax = self.computed(XMAX, Type::Xid);
        let (columns, mut returned) = match returning {
            None => (None, Vec::new()),
            Some(items) => {
                self.level().xmax = Some(xmax);
                let (columns, exprs) = self.returning(items)?;
                self.level().xmax = None;
                (Some(columns), exprs)
            }
        };
        let computes = returned.iter().any(reads_tables);
        let is_plain = query.is_none() && !computes && !rows.iter().flatten().any(reads_tables);
        let updates = matches!(action, OnConflict::Update(_));
        let updates_by_plan = action.needs_plan(reads_tables) || updates && computes;
        let (conflict, source) = if is_plain && !updates_by_plan {
            (action.evaluated(&existing), Source::Values(rows))
        } else {
            let proposed = match updates_by_plan {
                true => existing.iter().map(|id| self.copied(*id)).collect(),
                false => written.clone(),
            };
            // What the plan computes from the row sees the values of its generated columns.
            let generates = !table.generated.is_empty() && (computes || updates_by_plan);
            let mut given = proposed.clone();
            for column in table.generated.iter().map(|it| it.column).filter(|_| generates) {
                given[column] = self.copied(proposed[column]);
            }
            let mut rel = match (query, rows) {
                (Some(query), mut rows) => {
                    let row = rows.pop().unwrap_or_default();
                    let outputs = given.into_iter().zip(row).collect();
                    Rel::Project { input: Box::new(query), outputs }
                }
                (None, rows) => Rel::Values { columns: given, rows },
            };
            if generates {
                rel = rel.with_columns(table.generated_over(&proposed));
            }
            let mut outputs = proposed.clone();
            let mut changes = Expr::Const(Datum::Bool(false));
            let conflict = match action {
                OnConflict::Update(update) if updates_by_plan => {
                    let planned =
                        self.planned_update(update, &table, (rel, &proposed), &existing, &written)?;
                    (rel, outputs) = (planned.rel, planned.outputs);
                    changes = Expr::Column(planned.changes);
                    planned.action
                }
                action => action.evaluated(&existing),
            };
            if computes {
                let exprs = std::mem::take(&mut returned);
                if exprs.iter().any(|expr| expr.names(xmax)) {
                    let changed = Expr::Const(Insert::xmax(true));
                    let case = Expr::Case {
                        branches: vec![(changes, changed)],
                        otherwise: Box::new(Expr::Const(Insert::xmax(false))),
                    };
                    rel = rel.with_columns(vec![(xmax, case)]);
                }
                let mut computed = Vec::with_capacity(exprs.len());
                for (column, expr) in columns.iter().flat_map(|all| all.iter()).zip(exprs) {
                    let id = self.computed(&column.name, column.ty);
                    computed.push((id, expr));
                    outputs.push(id);
                }
                rel = rel.with_columns(computed);
            }
            let query = Query::part(rel.with_all(definitions), outputs);
            (conflict, Source::Query(Box::new(query)))
        };
        let returning = columns.map(|columns| {
            let layout = [&written[..], &[xmax]].concat();
            let placed =
                |exprs: Vec<Expr>| exprs.into_iter().map(|expr| at(expr, &layout)).collect();
            Returning { columns, exprs: (!computes).then(|| placed(returned)) }
        });
        Ok(Insert { table, source, conflict, returning })
    }

    /// Binds the rows of VALUES for columns, the others taking their defaults.
    pub(super) fn bind_rows(
        &mut self,
        values: &ast::Values,
        table: &Table,
        (targets, named): (&[usize], &[ast::ObjectName]),
        defaults: Vec<Expr>,
        overriding: Option<Overriding>,
    ) -> Result<Vec<Vec<Expr>>, SqlError> {
        let ast::Values { explicit_row, value_keyword, rows } = values;
        if *explicit_row || *value_keyword {
            return Err(SqlError::unsupported("VALUES of another dialect"));
        }
        let mut bound = Vec::with_capacity(rows.len());
        let width = rows.first().map_or(0, |row| row.content.len());
        for row in rows {
            let row = &row.content;
            if row.len() != width {
                let message = "VALUES lists must all be the same length";
                return Err(syntax(message).at(row.last().and_then(names::expr_position)));
            }
            let message = match row.len() {
                count if count > targets.len() => Some(TOO_MANY),
                count if count < targets.len() && !named.is_empty() => Some(TOO_FEW),
                _ => None,
            };
            if let Some(message) = message {
                return Err(syntax(message).at(row.last().and_then(names::expr_position)));
            }
            let mut made = defaults.clone();
            self.begin_clause("VALUES", false);
            // The columns of which fields are given so far.
            let mut begun = Vec::new();
            for (at, (value, column)) in row.iter().zip(targets).enumerate() {
                let is_identity = table.columns[*column].identity.is_some();
                let is_ignored = is_identity && overriding == Some(Overriding::User);
                if !is_ignored && !is_default(value) {
                    check_insertable(table, *column, overriding)?;
                }
                let path = named.get(at).map_or(&[][..], |name| &name.0[1..]);
                if path.is_empty() {
                    // Its names and its type are checked in any case.
                    let value = self.bind_value(value, table, *column)?;
                    if !is_ignored {
                        made[*column] = value;
                    }
                    continue;
                }
                if !begun.contains(column) {
                    made[*column] = Expr::Const(Datum::Null);
                    begun.push(*column);
                }
                let fields: Vec<_> =
                    path.iter().filter_map(|part| part.as_ident()).cloned().collect();
                let row = std::mem::replace(&mut made[*column], Expr::Const(Datum::Null));
                made[*column] = self.with_field(row, &table.columns[*column], &fields, value)?;
            }
            self.end_clause();
            bound.push(made);
        }
        Ok(bound)
    }
}
