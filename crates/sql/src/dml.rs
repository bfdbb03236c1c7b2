//! INSERT, UPDATE and DELETE.

use crate::access::{Access, Wish};
use crate::bind::{Binder, Typed, bind_items};
use crate::by_query;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::explain::Actuals;
use crate::expr::{Expr, Scope};
use crate::names;
use crate::physical;
use crate::response::Column;
use crate::row;
use crate::scan::{Cursor, Found};
use crate::types::Type;
use crate::write;
use crate::{kv, parse};
use meridian_mvcc::Key;
use meridian_txn::{Lock, Transaction};
use sqlparser::ast::{self, SetExpr};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The effects of a data-changing statement.
#[derive(Default)]
pub(crate) struct Changed {
    pub(crate) count: u64,
    pub(crate) rows: Vec<Vec<Datum>>,
    /// The rows that ON CONFLICT DO UPDATE has written: none may be written twice.
    pub(crate) touched: BTreeSet<Key>,
}

/// Fails with 42804 if an output of a query cannot be assigned to its column.
pub(crate) fn refuse_unassignable(
    table: &Table,
    outputs: &[Column],
    targets: &[usize],
) -> Result<(), SqlError> {
    for (output, column) in outputs.iter().zip(targets) {
        let column = &table.columns[*column];
        if !crate::cast::is_assignable(output.ty, column.ty) {
            let (name, wanted, found) = (&column.name, column.ty.name(), output.ty.name());
            let message =
                format!("column \"{name}\" is of type {wanted} but expression is of type {found}");
            let hint = "You will need to rewrite or cast the expression.";
            return Err(SqlError::new(state::TYPE_MISMATCH, message).hint(hint));
        }
    }
    Ok(())
}

/// The outputs of RETURNING.
#[derive(Debug)]
pub(crate) struct Returning {
    outputs: Vec<Expr>,
    pub(crate) columns: Arc<[Column]>,
}

impl Returning {
    pub(crate) fn compile(
        binder: &mut Binder,
        items: &Option<Vec<ast::SelectItem>>,
    ) -> Result<Option<Returning>, SqlError> {
        let Some(items) = items else { return Ok(None) };
        binder.begin_clause("RETURNING", false);
        let mut items = bind_items(binder, items)?;
        binder.end_clause();
        for item in &mut items {
            let typed = item.typed.clone();
            let ty = typed.ty.unwrap_or(Type::Text);
            item.typed = Typed::of(binder.coerce(typed, ty, false)?, ty);
            if item.typed.expr.has_subquery() {
                return Err(SqlError::unsupported("a subquery in RETURNING"));
            }
        }
        let columns = items.iter().map(|item| item.column(binder)).collect();
        let outputs = items.into_iter().map(|item| item.typed.expr).collect();
        Ok(Some(Returning { outputs, columns }))
    }

    pub(crate) fn take(
        this: &Option<Returning>,
        row: &[Datum],
        scope: &Scope<'_>,
        changed: &mut Changed,
    ) -> Result<(), SqlError> {
        changed.count += 1;
        if let Some(returning) = this {
            let row = returning
                .outputs
                .iter()
                .map(|expr| expr.eval(row, scope))
                .collect::<Result<_, _>>()?;
            changed.rows.push(row);
        }
        Ok(())
    }
}

enum Source {
    Values(Vec<Vec<Expr>>),
    /// A query; for each of its outputs the column that takes it, cast to the column's type; and
    /// the defaults of all columns.
    Query(Arc<physical::Query>, Vec<usize>, Vec<Expr>),
}

#[derive(Debug)]
enum OnConflict {
    Fail,
    /// The key whose conflicts are ignored; `None` for all keys.
    Nothing(Option<Option<usize>>),
    Update {
        index: Option<usize>,
        assignments: Vec<(usize, Expr)>,
        filter: Option<Expr>,
    },
}

/// A compiled INSERT.
pub(crate) struct Insert {
    pub(crate) table: Arc<Table>,
    source: Source,
    conflict: OnConflict,
    pub(crate) returning: Option<Returning>,
}

/// Returns the values of columns that an INSERT does not name.
pub(crate) fn defaults(binder: &mut Binder, table: &Table) -> Result<Vec<Expr>, SqlError> {
    (0..table.columns.len())
        .map(|column| match &table.columns[column].default {
            Some(text) => binder.bind_for(&parse::expression(text)?, table, column),
            None => Ok(Expr::Const(Datum::Null)),
        })
        .collect()
}

/// Returns the numbers of the named columns; of all columns if none is named.
pub(crate) fn target_columns(table: &Table, named: &[ast::Ident]) -> Result<Vec<usize>, SqlError> {
    if named.is_empty() {
        return Ok((0..table.columns.len()).collect());
    }
    let mut out = Vec::with_capacity(named.len());
    for ident in named {
        let name = names::fold(ident);
        let Some(column) = table.column(&name) else {
            let message =
                format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            let mut error =
                SqlError::new(state::UNDEFINED_COLUMN, message).at(names::position(ident));
            if let Some(near) = names::nearest(&name, table.columns.iter().map(|c| c.name.as_str()))
            {
                error = error.hint(format!("Did you mean \"{near}\"?"));
            }
            return Err(error);
        };
        if out.contains(&column) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message).at(names::position(ident)));
        }
        out.push(column);
    }
    Ok(out)
}

impl Insert {
    pub(crate) fn compile(
        declared: &[Option<crate::types::Type>],
        insert: &ast::Insert,
        table: Arc<Table>,
        planned: Option<Arc<physical::Query>>,
    ) -> Result<(Insert, Binder), SqlError> {
        let mut binder = Binder::new(declared);
        let named: Vec<ast::Ident> = insert
            .columns
            .iter()
            .filter_map(|name| name.0.last().and_then(|part| part.as_ident()).cloned())
            .collect();
        let targets = target_columns(&table, &named)?;
        let defaults = defaults(&mut binder, &table)?;
        let source = match insert.source.as_deref() {
            None => Source::Values(vec![defaults]),
            Some(_) if let Some(plan) = planned => {
                let columns = plan.columns.clone();
                if columns.len() > targets.len() {
                    return Err(SqlError::new(
                        state::SYNTAX,
                        "INSERT has more expressions than target columns",
                    ));
                }
                if !named.is_empty() && columns.len() < targets.len() {
                    return Err(SqlError::new(
                        state::SYNTAX,
                        "INSERT has more target columns than expressions",
                    ));
                }
                refuse_unassignable(&table, &columns, &targets)?;
                binder.params = plan.inferred.clone();
                let targets = targets[..columns.len()].to_vec();
                Source::Query(plan, targets, defaults)
            }
            Some(query) => match &*query.body {
                SetExpr::Values(values) => {
                    let mut rows = Vec::with_capacity(values.rows.len());
                    for value in &values.rows {
                        let value = &value.content;
                        let short = named.is_empty() && value.len() < targets.len();
                        if value.len() > targets.len() || (value.len() < targets.len() && !short) {
                            let more = if value.len() > targets.len() {
                                "INSERT has more expressions than target columns"
                            } else {
                                "INSERT has more target columns than expressions"
                            };
                            return Err(SqlError::new(state::SYNTAX, more)
                                .at(value.last().and_then(names::expr_position)));
                        }
                        let mut row = defaults.clone();
                        binder.begin_clause("VALUES", false);
                        for (expr, column) in value.iter().zip(&targets) {
                            let is_default = matches!(expr, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"));
                            if !is_default {
                                row[*column] = binder.bind_for(expr, &table, *column)?;
                            }
                        }
                        rows.push(row);
                    }
                    Source::Values(rows)
                }
                _ => return Err(SqlError::unsupported("INSERT from this query")),
            },
        };
        let alias =
            insert.table_alias.as_ref().map_or(table.name.clone(), |a| names::fold(&a.alias));
        binder.add(table.clone(), &alias);
        let returning = Returning::compile(&mut binder, &insert.returning)?;
        let conflict = match &insert.on {
            None => OnConflict::Fail,
            Some(ast::OnInsert::OnConflict(on)) => {
                let index = conflict_index(&table, on.conflict_target.as_ref())?;
                match &on.action {
                    ast::OnConflictAction::DoNothing => OnConflict::Nothing(index),
                    ast::OnConflictAction::DoUpdate(update) => {
                        let Some(index) = index else {
                            return Err(SqlError::new(
                                state::SYNTAX,
                                "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                            )
                            .hint("For example, ON CONFLICT (column_name)."));
                        };
                        binder.add(table.clone(), "excluded");
                        let assignments =
                            assignments(&mut binder, &table, &update.assignments, true)?;
                        let filter = update
                            .selection
                            .as_ref()
                            .map(|e| binder.bind_bool(e, "WHERE"))
                            .transpose()?;
                        OnConflict::Update { index, assignments, filter }
                    }
                }
            }
            Some(_) => {
                return Err(SqlError::new(
                    state::SYNTAX,
                    "ON DUPLICATE KEY is not PostgreSQL's: use ON CONFLICT",
                ));
            }
        };
        Ok((Insert { table, source, conflict, returning }, binder))
    }

    /// Returns the query of its rows; the number of rows, if they are values.
    pub(crate) fn query(&self) -> Result<&physical::Query, usize> {
        match &self.source {
            Source::Query(query, ..) => Ok(query),
            Source::Values(rows) => Err(rows.len()),
        }
    }

    /// Returns what it does at a conflict, if it does not fail.
    pub(crate) fn conflict_resolution(&self) -> Option<&'static str> {
        match self.conflict {
            OnConflict::Fail => None,
            OnConflict::Nothing(_) => Some("NOTHING"),
            OnConflict::Update { .. } => Some("UPDATE"),
        }
    }

    /// Inserts the rows. Counts what the nodes of its query do, if that is wanted.
    pub(crate) async fn run(
        &self,
        txn: &mut dyn Transaction,
        scope: &Scope<'_>,
        sequence: &mut u64,
        actuals: Option<&mut Actuals>,
    ) -> Result<Changed, SqlError> {
        let mut changed = Changed::default();
        match &self.source {
            Source::Values(rows) => {
                for row in rows {
                    let row = row
                        .iter()
                        .map(|expr| expr.eval(&[], scope))
                        .collect::<Result<Vec<_>, _>>()?;
                    self.insert(txn, row, scope, sequence, &mut changed).await?;
                }
            }
            Source::Query(plan, targets, defaults) => {
                // All of them before the first is written: the query must not see its own inserts.
                let (rows, _held) = by_query::all_rows(plan.as_ref(), txn, scope, actuals).await?;
                let defaults = defaults.iter().map(|expr| expr.eval(&[], scope)).collect::<Result<
                    Vec<_>,
                    _,
                >>(
                )?;
                for values in rows {
                    let mut row = defaults.clone();
                    for (value, column) in values.into_iter().zip(targets) {
                        row[*column] =
                            crate::cast::cast(value, self.table.columns[*column].ty, false)?;
                    }
                    self.insert(txn, row, scope, sequence, &mut changed).await?;
                }
            }
        }
        Ok(changed)
    }

    async fn insert(
        &self,
        txn: &mut dyn Transaction,
        row: Vec<Datum>,
        scope: &Scope<'_>,
        sequence: &mut u64,
        changed: &mut Changed,
    ) -> Result<(), SqlError> {
        let table = &*self.table;
        let mut own = *sequence;
        let Some(clash) = write::insert(txn, table, &row, sequence).await? else {
            if let OnConflict::Update { .. } = &self.conflict {
                let key =
                    table.row_key(&row).unwrap_or_else(|| write::hidden_key(table, txn, &mut own));
                changed.touched.insert(kv::to_key(key));
            }
            return Returning::take(&self.returning, &row, scope, changed);
        };
        // The key that is named decides, even if the row conflicts in another one as well.
        let named = match &self.conflict {
            OnConflict::Nothing(Some(index)) | OnConflict::Update { index, .. } => Some(*index),
            OnConflict::Nothing(None) | OnConflict::Fail => None,
        };
        let clash = match named.filter(|named| *named != clash.index) {
            Some(named) => write::clash_in(txn, table, &row, named).await?.unwrap_or(clash),
            None => clash,
        };
        match &self.conflict {
            OnConflict::Nothing(index) if index.is_none_or(|index| index == clash.index) => Ok(()),
            OnConflict::Update { index, assignments, filter } if *index == clash.index => {
                if changed.touched.contains(&clash.key) {
                    let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
                    return Err(SqlError::new(state::CARDINALITY_VIOLATION, message)
                        .hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values."));
                }
                let Some(value) = txn.get(&clash.key, Lock::Exclusive).await? else {
                    return Err(SqlError::corrupted(
                        "a unique index names a row that is not there",
                    ));
                };
                let old = row::decode(
                    table,
                    &clash.key[kv::PREFIX..],
                    &value,
                    &vec![true; table.columns.len()],
                )?;
                let both = [old.as_slice(), &row].concat();
                if let Some(filter) = filter
                    && !filter.holds(&both, scope)?
                {
                    return Ok(());
                }
                let mut new = old.clone();
                for (column, value) in assignments {
                    new[*column] = value.eval(&both, scope)?;
                }
                write::update(txn, table, &clash.key, &old, &new).await?;
                changed.touched.insert(table.row_key(&new).map_or(clash.key, kv::to_key));
                Returning::take(&self.returning, &new, scope, changed)
            }
            _ => Err(write::duplicate(table, clash.index, &row)),
        }
    }
}

/// Returns the unique key that ON CONFLICT names: `Some(None)` is the primary key.
fn conflict_index(
    table: &Table,
    target: Option<&ast::ConflictTarget>,
) -> Result<Option<Option<usize>>, SqlError> {
    let keys = || {
        table.primary.iter().map(|primary| (None, primary)).chain(
            table
                .indexes
                .iter()
                .enumerate()
                .filter(|(_, index)| index.unique && index.building.is_none())
                .map(|(at, index)| (Some(at), index)),
        )
    };
    match target {
        None => Ok(None),
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            let name = names::relation(name)?;
            let found = keys().find(|(_, index)| index.name == name).map(|(at, _)| at);
            found.map(Some).ok_or_else(|| {
                let message =
                    format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
                SqlError::new(state::UNDEFINED_OBJECT, message)
            })
        }
        Some(ast::ConflictTarget::Columns(columns)) => {
            let mut wanted = target_columns(table, columns)?;
            wanted.sort_unstable();
            let found = keys().filter(|(_, index)| index.predicate.is_none()).find(|(_, index)| {
                let mut columns: Vec<usize> =
                    index.columns.iter().map(|part| part.column as usize).collect();
                columns.sort_unstable();
                columns == wanted
            });
            found.map(|(at, _)| Some(at)).ok_or_else(|| {
                SqlError::new(
                    state::INVALID_COLUMN_REFERENCE,
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                )
            })
        }
    }
}

fn assignments(
    binder: &mut Binder,
    table: &Table,
    all: &[ast::Assignment],
    beside_excluded: bool,
) -> Result<Vec<(usize, Expr)>, SqlError> {
    let mut out: Vec<(usize, Expr)> = Vec::with_capacity(all.len());
    let mut set = |binder: &mut Binder,
                   target: &ast::ObjectName,
                   value: &ast::Expr|
     -> Result<(), SqlError> {
        let ident = target
            .0
            .last()
            .and_then(|part| part.as_ident())
            .cloned()
            .unwrap_or_else(|| ast::Ident::new(""));
        let column = target_columns(table, std::slice::from_ref(&ident))?[0];
        if out.iter().any(|(other, _)| *other == column) {
            let message =
                format!("multiple assignments to same column \"{}\"", table.columns[column].name);
            return Err(SqlError::new(state::SYNTAX, message));
        }
        let is_default = matches!(value, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"));
        let expr = if is_default {
            match &table.columns[column].default {
                Some(text) => binder.bind_for(&parse::expression(text)?, table, column)?,
                None => Expr::Const(Datum::Null),
            }
        } else if beside_excluded {
            // A bare name means the existing row; `excluded.` the other one.
            let excluded = binder.level().relations.pop();
            let bare = binder.bind_for(value, table, column);
            binder.level().relations.extend(excluded);
            bare.or_else(|_| binder.bind_for(value, table, column))?
        } else {
            binder.bind_for(value, table, column)?
        };
        out.push((column, expr));
        Ok(())
    };
    for assignment in all {
        match (&assignment.target, &assignment.value) {
            (ast::AssignmentTarget::ColumnName(name), value) => set(binder, name, value)?,
            (ast::AssignmentTarget::Tuple(names), ast::Expr::Tuple(values))
                if names.len() == values.len() =>
            {
                for (name, value) in names.iter().zip(values) {
                    set(binder, name, value)?;
                }
            }
            _ => return Err(SqlError::unsupported("this assignment")),
        }
    }
    Ok(out)
}

/// A compiled UPDATE or DELETE (which has no assignments).
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) table: Arc<Table>,
    pub(crate) access: Access,
    pub(crate) filter: Option<Expr>,
    assignments: Option<Vec<(usize, Expr)>>,
    pub(crate) returning: Option<Returning>,
}

impl Change {
    pub(crate) fn update(
        binder: &mut Binder,
        update: &ast::Update,
        table: Arc<Table>,
    ) -> Result<Change, SqlError> {
        if update.from.is_some() || !update.table.joins.is_empty() {
            return Err(SqlError::unsupported("UPDATE … FROM"));
        }
        binder.begin_clause("UPDATE", false);
        let assignments = Some(assignments(binder, &table, &update.assignments, false)?);
        Self::compile(binder, table, update.selection.as_ref(), assignments, &update.returning)
    }

    pub(crate) fn delete(
        binder: &mut Binder,
        delete: &ast::Delete,
        table: Arc<Table>,
    ) -> Result<Change, SqlError> {
        if delete.using.is_some() {
            return Err(SqlError::unsupported("DELETE … USING"));
        }
        Self::compile(binder, table, delete.selection.as_ref(), None, &delete.returning)
    }

    fn compile(
        binder: &mut Binder,
        table: Arc<Table>,
        selection: Option<&ast::Expr>,
        assignments: Option<Vec<(usize, Expr)>>,
        returning: &Option<Vec<ast::SelectItem>>,
    ) -> Result<Change, SqlError> {
        binder.begin_clause("WHERE", false);
        let filter = selection.map(|expr| binder.bind_bool(expr, "WHERE")).transpose()?;
        let returning = Returning::compile(binder, returning)?;
        let access = {
            let filter = filter.as_ref();
            Access::choose_for(&table, &Wish { filter, by_key: true, ..Wish::default() })
        };
        Ok(Change { table, access, filter, assignments, returning })
    }

    pub(crate) fn is_update(&self) -> bool {
        self.assignments.is_some()
    }

    pub(crate) async fn run(
        &self,
        txn: &mut dyn Transaction,
        scope: &Scope<'_>,
    ) -> Result<Changed, SqlError> {
        let table = &*self.table;
        let wanted = vec![true; table.columns.len()];
        let mut cursor = Cursor::new(self.access.index, self.access.targets(table, scope)?, false);
        // All rows are found before the first is written: a row that moves is not found again.
        let mut matched: Vec<Found> = Vec::new();
        loop {
            let found = cursor.next(txn, table, &wanted, Lock::Exclusive, 4000).await?;
            if found.is_empty() {
                break;
            }
            for found in found {
                if self
                    .filter
                    .as_ref()
                    .map_or(Ok(true), |filter| filter.holds(&found.row, scope))?
                {
                    matched.push(found);
                }
            }
        }
        let mut changed = Changed::default();
        for Found { key, row, .. } in matched {
            match &self.assignments {
                Some(assignments) => {
                    let mut new = row.clone();
                    for (column, value) in assignments {
                        new[*column] = value.eval(&row, scope)?;
                    }
                    write::update(txn, table, &key, &row, &new).await?;
                    Returning::take(&self.returning, &new, scope, &mut changed)?;
                }
                None => {
                    write::delete(txn, table, &key, &row).await?;
                    Returning::take(&self.returning, &row, scope, &mut changed)?;
                }
            }
        }
        Ok(changed)
    }
}
