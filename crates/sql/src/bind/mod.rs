//! Binds a statement: names to columns, literals and parameters to types, queries to logical plans.
//!
//! A quoted literal and an undeclared parameter have no type until another operand gives them one,
//! as in PostgreSQL. Each part of the syntax tree is bound or refused; none is ignored.

mod aggregate;
mod arbiter;
mod array;
mod call;
mod change;
mod citext;
mod definitions;
mod empty;
mod enumeration;
mod expr;
mod extension;
mod from;
mod functions;
mod group;
mod insert;
mod items;
mod lock;
mod merge;
mod modifying;
mod named_args;
mod on_conflict;
mod query;
mod recursive;
mod row;
mod scope;
mod search;
mod subquery;
mod target;
mod types;
mod user_function;
mod view;
mod window;

pub(crate) use change::{Change, target_of};
pub(crate) use expr::interval;
pub(crate) use extension::is_of_postgresql;
pub(crate) use insert::{Insert, Returning, Source, table_of};
pub(crate) use items::{Item, bind_items};
pub(crate) use lock::{OnLocked, RowLocks, Strength};
pub(crate) use merge::{Merge, MergeAction, merged};
pub(crate) use modifying::{Modifying, Part, Step, alone, modifying};
pub(crate) use on_conflict::{DoUpdate, NewValues, OnConflict};
use query::Output;
pub(crate) use query::{Query, compile};
pub(crate) use recursive::modifies;
pub(crate) use scope::{Level, Relation};
pub(crate) use target::target_columns;
pub(crate) use user_function::{check_body, procedure_error, shown_inputs};
pub(crate) use view::{NewView, view};

use crate::aggregate::Aggregate;
use crate::catalog::Table;
use crate::datetime::Zone;
use crate::domain::Domain;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::extension::Extension;
use crate::logical::ColumnId;
use crate::names::{self, NamedTypes, Qualified};
use crate::record::Shape;
use crate::types::Type;
use crate::user_function::NamedFunctions;
use crate::view::{Mention, View};
use sqlparser::ast;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A bound expression and its type; `None` while the type is undetermined.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: Option<Type>,
    /// The domain that the value is of; `ty` is its base type then.
    pub(crate) domain: Option<Domain>,
    /// True behind COLLATE "C".
    is_of_bytes: bool,
}

impl Typed {
    pub(crate) fn of(expr: Expr, ty: Type) -> Self {
        Typed { expr, ty: Some(ty), domain: None, is_of_bytes: false }
    }

    /// Returns an expression whose type is not determined.
    pub(crate) fn free(expr: Expr) -> Self {
        Typed { expr, ty: None, domain: None, is_of_bytes: false }
    }
}

/// Installed extensions, with their ids, by the names of functions and operators that they declare.
pub(crate) type NamedExtensions = Vec<(Qualified, u32, &'static Extension)>;

/// The objects that a statement may name.
#[derive(Clone, Default)]
pub(crate) struct Objects {
    pub(crate) tables: Vec<Arc<Table>>,
    pub(crate) views: Vec<Arc<View>>,
    /// The ids of the tables and views, by the names that the statement has for them.
    pub(crate) by_name: Vec<(Qualified, u32)>,
    /// The ids of relations whose names stand in literals, with these.
    pub(crate) relations: Vec<(String, u32)>,
    /// The types of the database that it names.
    pub(crate) types: NamedTypes,
    /// The functions of the database that it may call.
    pub(crate) functions: NamedFunctions,
    /// The extensions that have a function or an operator of a name.
    pub(crate) extensions: NamedExtensions,
    /// The tables that the changes of WITH change, in order.
    pub(crate) targets: Vec<Arc<Table>>,
    /// The session's zone.
    pub(crate) zone: Zone,
}

impl Objects {
    /// Returns the id of a table or a view, by the name that the statement has for it.
    pub(crate) fn relation(&self, name: &Qualified) -> Option<u32> {
        self.by_name.iter().find(|(other, _)| other == name).map(|(_, id)| *id)
    }
}

impl From<Vec<Arc<Table>>> for Objects {
    fn from(tables: Vec<Arc<Table>>) -> Self {
        let by_name = tables.iter().map(|table| (Qualified::of(&table.name), table.id)).collect();
        Objects { tables, by_name, ..Objects::default() }
    }
}

/// A column of the statement, by its id.
#[derive(Clone, Debug)]
pub(crate) struct ColumnInfo {
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// The domain that its values are of.
    pub(crate) domain: Option<Domain>,
    /// The table and the column's number in it, from 1; zeros if it is computed.
    pub(crate) origin: (u32, i16),
    /// True if it is a column of a table with the collation of a language.
    is_collated: bool,
    /// The alias of its relation.
    relation: String,
    /// The level of the query that reads it, from 0.
    level: usize,
    /// The place of its latest use.
    used_at: Option<usize>,
    /// True once an expression names it, or a relation whose row it is in.
    is_used: bool,
    /// The fields of a `record`, as far as they are known.
    shape: Option<Shape>,
}

impl ColumnInfo {
    /// True if an expression names it, or a relation whose row it is in.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Returns the alias of its relation.
    pub(crate) fn relation(&self) -> &str {
        &self.relation
    }
}

/// A query of WITH.
#[derive(Clone)]
struct NamedQuery {
    name: String,
    number: usize,
    outputs: Vec<Output>,
    /// The error of naming it here, in a recursive query.
    refused: Option<SqlError>,
}

/// Binds the expressions of one statement.
pub(crate) struct Binder {
    /// The queries inside each other, the innermost last.
    levels: Vec<Level>,
    /// The types of parameters, as far as they are determined.
    pub(crate) params: Vec<Option<Type>>,
    /// True if the query may read rows' keys.
    row_keys: bool,
    columns: Vec<ColumnInfo>,
    /// The tables that subqueries may name; `None` where there can be no subquery.
    tables: Option<Vec<Arc<Table>>>,
    /// The views that queries may name.
    views: Vec<Arc<View>>,
    /// The ids of these tables and views, by the names that the statement has for them.
    by_name: Vec<(Qualified, u32)>,
    /// The parts that a stored text has otherwise, while the query of a new view is bound.
    mentions: Option<Vec<Mention>>,
    /// The ids of relations whose names stand in literals.
    relations: Vec<(String, u32)>,
    /// The types of the database that casts may name: those that were looked up, and those of
    /// tables in scope.
    pub(crate) types: NamedTypes,
    /// The functions of the database that calls may mean, those of the first schema first.
    functions: NamedFunctions,
    /// The extensions that have a function or an operator of a name.
    extensions: NamedExtensions,
    /// The functions whose bodies are being bound, the innermost last.
    bodies: Vec<user_function::Body>,
    /// The functions that the text of a new view calls.
    called: Vec<u32>,
    /// The zone of times in literals that name none.
    pub(crate) zone: Zone,
    /// True while the text is one of the catalog: its times are in UTC, and the present day is not
    /// known.
    is_frozen: bool,
    /// True if a literal of such a text would be another time in another zone.
    pub(crate) reads_zone: bool,
    /// True while a stored expression is bound: its literals name relations by their ids.
    is_stored: bool,
    /// The queries of WITH in scope, the innermost last.
    named: Vec<NamedQuery>,
    named_count: usize,
    /// True while the SELECT of a side of a set operation begins.
    binds_side: bool,
    /// The names of the outputs of scalar subqueries, by column.
    subquery_names: BTreeMap<ColumnId, String>,
    /// The collation of a language that a column of a table in the statement has, if one has.
    collation: Option<String>,
}

/// A column that every table has and `*` leaves out: the commit timestamp of the row, NULL for rows
/// that the transaction itself wrote. It comes after the other columns.
pub(crate) const COMMIT_TIMESTAMP: &str = "meridian_commit_timestamp";

/// A column of every table in the queries of changes: the key under which the row is stored, as
/// `bytea`. It comes after the commit timestamp.
pub(crate) const ROW_KEY: &str = "meridian_row_key";

impl Binder {
    pub(crate) fn new(declared: &[Option<Type>]) -> Self {
        Binder {
            levels: vec![Level::default()],
            params: declared.to_vec(),
            row_keys: false,
            columns: Vec::new(),
            tables: None,
            views: Vec::new(),
            by_name: Vec::new(),
            mentions: None,
            relations: Vec::new(),
            types: Vec::new(),
            functions: Vec::new(),
            extensions: Vec::new(),
            bodies: Vec::new(),
            called: Vec::new(),
            zone: Zone::utc().clone(),
            is_frozen: false,
            reads_zone: false,
            is_stored: false,
            named: Vec::new(),
            named_count: 0,
            binds_side: false,
            subquery_names: BTreeMap::new(),
            collation: None,
        }
    }

    /// Returns the binder of a text of the catalog.
    pub(crate) fn stored() -> Self {
        Binder { is_frozen: true, ..Binder::new(&[]) }
    }

    /// Returns the parameters' types; undetermined ones are text.
    pub(crate) fn param_types(&self) -> Arc<[Type]> {
        self.params.iter().map(|ty| ty.unwrap_or(Type::Text)).collect()
    }

    /// Returns what is known of a column.
    pub(crate) fn column(&self, id: ColumnId) -> &ColumnInfo {
        &self.columns[id]
    }

    /// True if a column belongs to the innermost query.
    fn is_own(&self, id: ColumnId) -> bool {
        self.columns[id].level + 1 == self.levels.len()
    }

    /// Creates a computed column.
    fn computed(&mut self, name: &str, ty: Type) -> ColumnId {
        self.columns.push(ColumnInfo {
            name: name.into(),
            ty,
            domain: None,
            origin: (0, 0),
            is_collated: false,
            relation: String::new(),
            level: self.levels.len() - 1,
            used_at: None,
            is_used: false,
            shape: None,
        });
        self.columns.len() - 1
    }

    /// Returns a column as an expression.
    pub(crate) fn typed_column(&self, id: ColumnId) -> Typed {
        let ColumnInfo { ty, domain, .. } = self.columns[id];
        Typed { domain, ..Typed::of(Expr::Column(id), ty) }
    }

    /// Binds an expression whose context gives no type; a literal is text.
    pub(crate) fn bind_free(&mut self, expr: &ast::Expr) -> Result<Typed, SqlError> {
        let bound = self.bind(expr)?;
        if bound.ty.is_some() {
            return Ok(bound);
        }
        let expr = self.coerce(bound, Type::Text, false)?;
        Ok(Typed::of(expr, Type::Text))
    }

    /// Binds a condition.
    pub(crate) fn bind_bool(&mut self, expr: &ast::Expr, place: &str) -> Result<Expr, SqlError> {
        let bound = self.bind(expr)?;
        match bound.ty {
            Some(Type::Bool) | None => self.coerce(bound, Type::Bool, false),
            Some(ty) => {
                let message =
                    format!("argument of {place} must be type boolean, not type {}", ty.name());
                Err(SqlError::new(state::TYPE_MISMATCH, message).at(names::expr_position(expr)))
            }
        }
    }
}
