//! The names that an expression may use: the relations of its query, then those of the enclosing
//! queries.

use super::functions::SetCall;
use super::group::Mark;
use super::lock::Lockable;
use super::window::Windows;
use super::{Aggregate, Binder, COMMIT_TIMESTAMP, ColumnInfo, ROW_KEY, Typed};
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::logical::{ColumnId, Rel};
use crate::names::{self, Qualified};
use crate::types::Type;
use sqlparser::ast;
use std::sync::Arc;

/// A column of every table that `*` leaves out: the id of the table.
const TABLE_OID: &str = "tableoid";

/// A column of RETURNING behind ON CONFLICT that `*` leaves out: 0 in a row that was inserted, the
/// id of a transaction in one that was there before.
pub(super) const XMAX: &str = "xmax";

/// A query that is being bound.
#[derive(Default)]
pub(crate) struct Level {
    pub(crate) relations: Vec<Relation>,
    /// The aggregates so far; `None` in a clause that may have none.
    pub(super) aggregates: Option<Vec<(ColumnId, Aggregate)>>,
    /// The set-returning functions so far; `None` in a clause that may have none.
    pub(super) sets: Option<Vec<SetCall>>,
    /// The rows of a set-returning function of the database, for each row of the query.
    pub(super) set_queries: Vec<Rel>,
    /// The window functions so far; `None` in a clause that may have none.
    pub(super) windows: Option<Windows>,
    /// The calls of GROUPING so far.
    pub(super) marks: Vec<Mark>,
    /// The columns that tell whether rows behind outer joins are there, by the first column of
    /// the relation; `None` in a statement that cannot add any.
    pub(super) present: Option<Vec<(ColumnId, ColumnId)>>,
    /// The id of the column [`XMAX`], where there is one.
    pub(super) xmax: Option<ColumnId>,
    /// The name of the clause, for errors.
    pub(super) clause: &'static str,
    /// The name of a relation that this clause may not name.
    pub(super) hidden: Option<String>,
}

/// A relation in the scope of a query.
#[derive(Clone)]
pub(crate) struct Relation {
    /// The name that qualifies its columns; none for the merged columns of USING.
    pub(crate) alias: Option<String>,
    pub(crate) columns: Vec<ScopeColumn>,
    /// The table that it reads.
    pub(crate) table: Option<Arc<Table>>,
    /// The id of the row's commit timestamp.
    pub(crate) commit_timestamp: Option<ColumnId>,
    /// The id of the row's key.
    pub(crate) row_key: Option<ColumnId>,
    /// The rows of tables that its rows are made of.
    pub(super) rows: Lockable,
    /// True if its name stands for its only column.
    pub(crate) is_scalar: bool,
    /// The number of outer joins that may return rows without one of its own.
    pub(crate) outer_joins: usize,
}

/// A column of a relation.
#[derive(Clone)]
pub(crate) struct ScopeColumn {
    pub(crate) name: String,
    pub(crate) id: ColumnId,
    pub(crate) visibility: Visibility,
}

/// The names by which a column is found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// Its name, qualified or not.
    Full,
    /// Its qualified name: USING merged the column into another one.
    Qualified,
    /// No name: the column was dropped.
    Dropped,
}

impl ScopeColumn {
    /// True if its name finds it, qualified or not.
    pub(super) fn is_visible(&self, qualified: bool) -> bool {
        match self.visibility {
            Visibility::Full => true,
            Visibility::Qualified => qualified,
            Visibility::Dropped => false,
        }
    }
}

impl Relation {
    pub(super) fn find(&self, name: &str, qualified: bool) -> Vec<ColumnId> {
        let fits = |column: &&ScopeColumn| column.name == name && column.is_visible(qualified);
        self.columns.iter().filter(fits).map(|column| column.id).collect()
    }
}

impl Binder {
    /// The innermost query.
    pub(crate) fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("invariant: there is a query")
    }

    /// The relations of the innermost query.
    pub(crate) fn relations(&self) -> &[Relation] {
        self.levels.last().map_or(&[], |level| &level.relations)
    }

    /// Adds a table; its columns follow those of the tables before it.
    pub(crate) fn add(&mut self, table: Arc<Table>, alias: &str) {
        let relation = self.table_columns(table, alias, false);
        self.level().relations.push(relation);
    }

    /// Creates the columns of a table, with that of the commit timestamp if it is asked for.
    pub(super) fn table_columns(
        &mut self,
        table: Arc<Table>,
        alias: &str,
        versions: bool,
    ) -> Relation {
        let level = self.levels.len() - 1;
        let first = self.columns.len();
        self.know_types(&table);
        for (at, column) in table.columns.iter().enumerate() {
            self.columns.push(ColumnInfo {
                name: column.name.clone(),
                ty: column.ty,
                domain: column.domain,
                origin: (table.id, at as i16 + 1),
                is_collated: column.collation.is_some(),
                relation: alias.into(),
                level,
                used_at: None,
                is_used: false,
                shape: None,
            });
        }
        self.collation = self.collation.take().or_else(|| table.collation().map(str::to_owned));
        let named = |(at, column): (usize, &crate::catalog::ColumnDef)| ScopeColumn {
            name: column.name.clone(),
            id: first + at,
            visibility: if column.dropped { Visibility::Dropped } else { Visibility::Full },
        };
        let columns: Vec<ScopeColumn> = table.columns.iter().enumerate().map(named).collect();
        let commit_timestamp = versions.then(|| self.computed(COMMIT_TIMESTAMP, Type::TimestampTz));
        let row_key = self.row_keys.then(|| self.computed(ROW_KEY, Type::Bytea));
        let alias = Some(alias.into());
        let stored = row_key.filter(|_| !table.is_made());
        Relation {
            alias,
            columns,
            table: Some(table),
            commit_timestamp,
            row_key,
            rows: Lockable::of(stored),
            is_scalar: false,
            outer_joins: 0,
        }
    }

    /// Lets casts name the types of a table's columns, as its stored expressions do.
    pub(super) fn know_types(&mut self, table: &Table) {
        for ty in table.user_types() {
            let named = (Qualified::of(ty.name()), ty);
            if !self.types.contains(&named) {
                self.types.push(named);
            }
        }
    }

    /// Returns the id of the only table of a query, or of the one that is named; `None` if there is
    /// none.
    fn table_oid(
        &self,
        level: &Level,
        qualifier: Option<&str>,
        ident: &ast::Ident,
    ) -> Result<Option<Typed>, SqlError> {
        let named = |one: &&Relation| qualifier.is_none_or(|it| Some(it) == one.alias.as_deref());
        let mut relations = level.relations.iter().filter(named);
        let mut tables = relations.by_ref().filter_map(|one| Some((one, one.table.as_ref()?)));
        let Some((relation, table)) = tables.next() else { return Ok(None) };
        if tables.next().is_some() {
            let message = format!("column reference \"{TABLE_OID}\" is ambiguous");
            let error = SqlError::new(state::AMBIGUOUS_COLUMN, message);
            return Err(error.at(names::position(ident)));
        }
        let id = Expr::Const(Datum::Int4(table.id as i32));
        if relation.outer_joins == 0 {
            return Ok(Some(Typed::of(id, Type::Int4)));
        }
        // In a row that is there, such a column is not NULL.
        let Some((key, _)) = table.present().find(|(_, column)| column.not_null) else {
            let what = "tableoid of a table without NOT NULL, behind an outer join";
            return Err(SqlError::unsupported(what));
        };
        let key = Expr::Column(relation.columns[key].id);
        let is_missing = Expr::IsNull(Box::new(key), false);
        let branches = vec![(is_missing, Expr::Const(Datum::Null))];
        let id = Expr::Case { branches, otherwise: Box::new(id) };
        Ok(Some(Typed::of(id, Type::Int4)))
    }

    /// Finds a column by its name, in the innermost query that has it.
    pub(super) fn resolve(
        &mut self,
        qualifier: Option<&str>,
        ident: &ast::Ident,
    ) -> Result<Typed, SqlError> {
        let name = names::fold(ident);
        for level in (0..self.levels.len()).rev() {
            let mut found = Vec::new();
            let mut known = false;
            for relation in &self.levels[level].relations {
                if qualifier.is_some() && qualifier != relation.alias.as_deref() {
                    continue;
                }
                known = true;
                found.extend(relation.find(&name, qualifier.is_some()));
            }
            match found.as_slice() {
                [] => {}
                [id] => {
                    let info = &mut self.columns[*id];
                    info.used_at = names::position(ident).or(info.used_at);
                    info.is_used = true;
                    return Ok(self.typed_column(*id));
                }
                _ => {
                    let message = format!("column reference \"{name}\" is ambiguous");
                    return Err(
                        SqlError::new(state::AMBIGUOUS_COLUMN, message).at(names::position(ident))
                    );
                }
            }
            if let (COMMIT_TIMESTAMP, [only]) = (&*name, &*self.levels[level].relations)
                && qualifier.is_none_or(|qualifier| Some(qualifier) == only.alias.as_deref())
                && let Some(id) = only.commit_timestamp
                && only.table.as_ref().is_some_and(|table| !table.is_made())
            {
                return Ok(Typed::of(Expr::Column(id), Type::TimestampTz));
            }
            if name == TABLE_OID
                && let Some(found) = self.table_oid(&self.levels[level], qualifier, ident)?
            {
                return Ok(found);
            }
            if let (XMAX, Some(id), [only]) =
                (&*name, self.levels[level].xmax, &*self.levels[level].relations)
                && qualifier.is_none_or(|qualifier| Some(qualifier) == only.alias.as_deref())
            {
                return Ok(Typed::of(Expr::Column(id), Type::Xid));
            }
            if let (ROW_KEY, Some(qualifier)) = (&*name, qualifier) {
                let mut relations = self.levels[level].relations.iter();
                let found = relations.find(|one| one.alias.as_deref() == Some(qualifier));
                if let Some(id) = found.and_then(|relation| relation.row_key) {
                    return Ok(Typed::of(Expr::Column(id), Type::Bytea));
                }
            }
            if known && qualifier.is_some() {
                break;
            }
        }
        // The name of a relation stands for its row, where no query has such a column.
        if qualifier.is_none()
            && let Some(row) = self.whole_row(&name)?
        {
            return Ok(row);
        }
        Err(self.missing(qualifier, &name).at(names::position(ident)))
    }

    /// Returns the error of a column that is not there.
    fn missing(&self, qualifier: Option<&str>, name: &str) -> SqlError {
        let relations = || self.levels.iter().rev().flat_map(|level| &level.relations);
        if let Some(qualifier) = qualifier
            && !relations().any(|relation| relation.alias.as_deref() == Some(qualifier))
        {
            if self.levels.iter().any(|level| level.hidden.as_deref() == Some(qualifier)) {
                let message =
                    format!("invalid reference to FROM-clause entry for table \"{qualifier}\"");
                let hint = format!(
                    "There is an entry for table \"{qualifier}\", \
                     but it cannot be referenced from this part of the query."
                );
                return SqlError::new(state::UNDEFINED_TABLE, message).hint(hint);
            }
            let message = format!("missing FROM-clause entry for table \"{qualifier}\"");
            return SqlError::new(state::UNDEFINED_TABLE, message);
        }
        let shown = qualifier
            .map_or_else(|| format!("\"{name}\""), |qualifier| format!("{qualifier}.{name}"));
        let error =
            SqlError::new(state::UNDEFINED_COLUMN, format!("column {shown} does not exist"));
        let columns = relations().flat_map(|relation| &relation.columns);
        let all =
            columns.filter(|column| column.is_visible(true)).map(|column| column.name.as_str());
        match names::nearest(name, all) {
            Some(near) => error.hint(format!("Did you mean \"{near}\"?")),
            None => error,
        }
    }
}
