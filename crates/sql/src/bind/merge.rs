//! MERGE: the query that finds an action for each row of the source.
//!
//! ```text
//! values of the actions, each where it is the row's action
//!   └─ the number of the action: the first WHEN whose condition holds
//!        └─ source ⟕ the table, on the condition
//! ```
//!
//! All of it is computed before the first row is written, so that no subquery sees a change of the
//! statement itself.

use super::query::Query;
use super::target::{named_columns, target_columns};
use super::{Binder, Relation};
use crate::carried;
use crate::catalog::Table;
use crate::clauses;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::{Compare, Expr};
use crate::logical::{ColumnId, JoinKind, Rel};
use crate::names;
use crate::types::Type;
use sqlparser::ast::{self, MergeClauseKind};
use std::sync::Arc;

/// A bound MERGE.
pub(crate) struct Merge {
    pub(crate) table: Arc<Table>,
    /// Its outputs are the key of the table's row, the number of the action, and the values of all
    /// actions.
    pub(crate) query: Query,
    pub(crate) actions: Vec<MergeAction>,
}

/// The action of a WHEN.
pub(crate) enum MergeAction {
    /// Gives values to these columns, from which those of generated columns follow.
    Update(Vec<usize>),
    Delete,
    /// Inserts a row, of which all columns have values.
    Insert,
    Nothing,
}

impl MergeAction {
    /// Returns the number of its values.
    pub(crate) fn width(&self, table: &Table) -> usize {
        match self {
            MergeAction::Update(columns) => columns.len(),
            MergeAction::Insert => table.columns.len(),
            MergeAction::Delete | MergeAction::Nothing => 0,
        }
    }
}

fn syntax(message: &str) -> SqlError {
    SqlError::new(state::SYNTAX, message)
}

/// Returns the name of the table that a MERGE changes.
pub(crate) fn merged(merge: &ast::Merge) -> Result<&ast::ObjectName, SqlError> {
    match clauses::plain_table(&merge.table) {
        Some((name, _)) => Ok(name),
        None => Err(SqlError::unsupported(format!("merging into {}", merge.table))),
    }
}

/// A CASE with one branch.
fn case(when: Expr, then: Expr, otherwise: Expr) -> Expr {
    Expr::Case { branches: vec![(when, then)], otherwise: Box::new(otherwise) }
}

/// Returns the conditions of one kind as a CASE that gives the number of the first that holds.
fn first_of(conditions: Vec<(Expr, usize)>) -> Expr {
    let number = |at: usize| Expr::Const(Datum::Int4(i32::try_from(at).unwrap_or(i32::MAX)));
    let branches: Vec<_> = conditions.into_iter().map(|(it, at)| (it, number(at))).collect();
    match branches.is_empty() {
        true => Expr::Const(Datum::Null),
        false => Expr::Case { branches, otherwise: Box::new(Expr::Const(Datum::Null)) },
    }
}

/// Returns the relations that two FROM items both name.
fn twice<'a>(target: &'a Relation, sources: &'a [Relation]) -> Option<&'a str> {
    let name = target.alias.as_deref()?;
    sources.iter().any(|source| source.alias.as_deref() == Some(name)).then_some(name)
}

impl Binder {
    /// Binds a MERGE; the caller completes its query.
    pub(super) fn bind_merge(
        &mut self,
        merge: &ast::Merge,
        table: Arc<Table>,
        definitions: Vec<(usize, Rel, bool)>,
    ) -> Result<Merge, SqlError> {
        let ast::Merge {
            merge_token: _,
            optimizer_hints,
            into,
            table: target,
            source,
            on,
            clauses,
            output,
        } = merge;
        clauses::refuse(&[(!optimizer_hints.is_empty(), "a hint")])?;
        if output.is_some() {
            return Err(syntax("syntax error at or near \"returning\""));
        }
        if !into {
            return Err(syntax("MERGE needs INTO"));
        }
        if clauses.is_empty() {
            return Err(syntax("syntax error at end of input"));
        }
        // A query of WITH hides a table as a source, and not the table that is changed.
        let hidden = std::mem::take(&mut self.named);
        let row_keys = std::mem::replace(&mut self.row_keys, true);
        let item = |factor: &ast::TableFactor| ast::TableWithJoins {
            relation: factor.clone(),
            joins: Vec::new(),
        };
        let rel = self.bind_from(&[item(target)])?;
        (self.named, self.row_keys) = (hidden, row_keys);
        let mut all = std::mem::take(&mut self.level().relations);
        let from = self.bind_from(&[item(source)])?;
        let sources = self.level().relations.clone();
        let target = all[0].clone();
        if let Some(name) = twice(&target, &sources) {
            return Err(SqlError::new(
                "42712",
                format!("name \"{name}\" specified more than once"),
            )
            .detail("The name is used both as MERGE target table and data source."));
        }
        let key = target.row_key.ok_or_else(|| SqlError::corrupted("a scan without row keys"))?;
        let olds: Vec<ColumnId> = target.columns.iter().map(|column| column.id).collect();
        all.extend(sources.iter().cloned());
        self.level().relations.clone_from(&all);
        self.begin_clause("JOIN conditions", false);
        let on = self.bind_bool(on, "JOIN/ON")?;
        self.end_clause();
        // The commit timestamp of a changed row is not known yet.
        all[0].commit_timestamp = None;
        let (mut matched, mut unmatched) = (Vec::new(), Vec::new());
        let (mut is_over, mut has_unmatched) = ([false, false], false);
        let (mut actions, mut values) = (Vec::with_capacity(clauses.len()), Vec::new());
        for (at, clause) in clauses.iter().enumerate() {
            let ast::MergeClause { when_token: _, clause_kind, predicate, action } = clause;
            let is_matched = match clause_kind {
                MergeClauseKind::Matched => true,
                MergeClauseKind::NotMatched => false,
                MergeClauseKind::NotMatchedByTarget | MergeClauseKind::NotMatchedBySource => {
                    return Err(syntax("syntax error at or near \"by\""));
                }
            };
            has_unmatched |= !is_matched;
            let is_over = &mut is_over[usize::from(is_matched)];
            if *is_over {
                let message = "unreachable WHEN clause specified after unconditional WHEN clause";
                return Err(syntax(message));
            }
            *is_over = predicate.is_none();
            // What is not matched has no row of the table.
            let level = self.level();
            level.relations.clone_from(if is_matched { &all } else { &sources });
            level.hidden = target.alias.clone().filter(|_| !is_matched);
            self.begin_clause("MERGE WHEN conditions", false);
            let condition = match predicate {
                Some(predicate) => self.bind_bool(predicate, "WHEN")?,
                None => Expr::truth(),
            };
            self.end_clause();
            if is_matched { &mut matched } else { &mut unmatched }.push((condition, at));
            let (action, given) = self.merge_action(action, &table)?;
            values.extend(given.into_iter().map(|(id, value)| (at, id, value)));
            actions.push(action);
        }
        let level = self.level();
        (level.relations, level.hidden) = (Vec::new(), None);
        let kind = if has_unmatched { JoinKind::Left } else { JoinKind::Inner };
        let rel = from.join(kind, rel, on);
        let exists = Expr::IsNull(Box::new(Expr::Column(key)), true);
        let number = self.computed("action", Type::Int4);
        let first = case(exists, first_of(matched), first_of(unmatched));
        let rel = rel.with_columns(vec![(number, first)]);
        let (mut outputs, mut computed) = (vec![key, number], Vec::with_capacity(values.len()));
        for (at, column, value) in values {
            let is_wanted = Expr::Compare(
                Compare::Eq,
                Box::new((Expr::Column(number), Expr::Const(Datum::Int4(at as i32)))),
            );
            let id = self.copied(olds[column]);
            computed.push((id, case(is_wanted, value, Expr::Const(Datum::Null))));
            outputs.push(id);
        }
        let rel = rel.with_columns(computed);
        let query = Query::part(rel.with_all(definitions), outputs);
        Ok(Merge { table, query, actions })
    }

    /// Binds the action of a WHEN: also the columns and their values.
    fn merge_action(
        &mut self,
        action: &ast::MergeAction,
        table: &Arc<Table>,
    ) -> Result<(MergeAction, Vec<(usize, Expr)>), SqlError> {
        if carried::is_nothing(action) {
            return Ok((MergeAction::Nothing, Vec::new()));
        }
        match action {
            ast::MergeAction::Delete { delete_token: _ } => Ok((MergeAction::Delete, Vec::new())),
            ast::MergeAction::Update(update) => {
                let ast::MergeUpdateExpr {
                    update_token: _,
                    assignments,
                    update_predicate,
                    delete_predicate,
                } = update;
                if update_predicate.is_some() || delete_predicate.is_some() {
                    return Err(syntax("syntax error at or near \"where\""));
                }
                self.begin_clause("UPDATE", false);
                let values = self.assignments(table, assignments, None)?;
                self.end_clause();
                let columns = values.iter().map(|(column, _)| *column).collect();
                Ok((MergeAction::Update(columns), values))
            }
            ast::MergeAction::Insert(insert) => {
                let row = self.merge_row(insert, table)?;
                Ok((MergeAction::Insert, row.into_iter().enumerate().collect()))
            }
        }
    }

    /// Binds the row that a WHEN NOT MATCHED inserts.
    fn merge_row(
        &mut self,
        insert: &ast::MergeInsertExpr,
        table: &Arc<Table>,
    ) -> Result<Vec<Expr>, SqlError> {
        let ast::MergeInsertExpr {
            insert_token: _,
            columns,
            kind_token: _,
            kind,
            insert_predicate,
        } = insert;
        if insert_predicate.is_some() {
            return Err(syntax("syntax error at or near \"where\""));
        }
        let ast::MergeInsertKind::Values(rows) = kind else {
            return Err(SqlError::unsupported("INSERT ROW"));
        };
        let defaults = self.defaults(table)?;
        if carried::gives_defaults(insert) {
            return Ok(defaults);
        }
        if let [_, second, ..] = rows.rows.as_slice() {
            let place = second.content.first().and_then(names::expr_position);
            return Err(syntax("syntax error at or near \",\"").at(place));
        }
        let (columns, overriding) = carried::overriding(columns);
        let named = !columns.is_empty();
        let targets = match named {
            true => named_columns(table, columns)?,
            false => target_columns(table, &[])?,
        };
        let mut bound = self.bind_rows(rows, table, (&targets, columns), defaults, overriding)?;
        bound.pop().ok_or_else(|| syntax("an INSERT without values"))
    }
}
