//! Indexes: their columns and expressions, and the entries that they have of rows.
//!
//! ```text
//!   key     storage, the values of columns and expressions; the row's key, unless the values alone are unique
//!   value   the row's key
//!           with INCLUDE: its length, the row's key, the included columns
//! ```
//!
//! An index with a predicate has entries of the rows for which that is true. Expressions and
//! predicates are immutable, so a row has the same entry each time.

use crate::bind::Binder;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::{Expr, Scope};
use crate::function::{Function, Out, Param, Volatility};
use crate::key;
use crate::kv;
use crate::operator_class::{self, OperatorClass};
use crate::parse;
use crate::row;
use crate::types::Type;
use minicbor::{Decode, Encode};
use sqlparser::ast;
use std::sync::Arc;

/// An index, or the primary key (whose storage is the table's).
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Index {
    /// The id, and the storage of its entries.
    #[n(0)]
    pub id: u32,
    /// The name.
    #[n(1)]
    pub name: String,
    /// The columns and expressions that it is ordered by.
    #[n(2)]
    pub columns: Vec<IndexPart>,
    /// True if no two rows may be equal in it at any time.
    #[n(3)]
    pub unique: bool,
    /// Set while the index is built: its entries are written, but no query reads it, since entries
    /// of older rows may be missing. The number identifies the build.
    #[n(4)]
    pub building: Option<u32>,
    /// The columns whose values its entries hold besides: INCLUDE.
    #[n(5)]
    #[cbor(default)]
    pub included: Vec<u32>,
    /// The texts of its expressions.
    #[n(6)]
    #[cbor(default)]
    pub expressions: Vec<String>,
    /// The text of the condition for the rows that it has entries of.
    #[n(7)]
    pub predicate: Option<String>,
    /// True if it is that of a UNIQUE constraint. `None` as earlier releases wrote it, which named
    /// these apart.
    #[n(8)]
    pub(crate) constraint: Option<bool>,
    /// True if NULLs are equal to each other where it is unique: NULLS NOT DISTINCT.
    #[n(9)]
    #[cbor(default)]
    pub(crate) nulls_not_distinct: bool,
    /// Set if no two rows may be equal in it when a statement or a transaction ends, as a UNIQUE
    /// constraint demands that is DEFERRABLE; true if INITIALLY DEFERRED. It is not `unique` then.
    #[n(10)]
    #[cbor(default)]
    pub(crate) deferrable: Option<bool>,
    #[cbor(skip)]
    bound: Bound,
}

/// The expressions and the predicate, over a row of the table.
#[derive(Clone, Debug, Default, PartialEq)]
struct Bound {
    expressions: Vec<(Expr, Type)>,
    predicate: Option<Expr>,
    /// True if a literal would be another time in another zone.
    reads_zone: bool,
}

/// A column or an expression of an index.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub struct IndexPart {
    /// The number of the column, from 0; from [`IndexPart::EXPRESSIONS`] on, that of an expression.
    #[n(0)]
    pub column: u32,
    /// True if the largest value comes first.
    #[n(1)]
    pub descending: bool,
    /// True if NULLs were asked for at the other end than keys have them, where they are the
    /// largest values. It is shown; the index gives no rows in that order.
    #[n(2)]
    #[cbor(default)]
    pub nulls_reversed: bool,
    /// The id of the operator class that was named, which is shown.
    #[n(3)]
    pub class: Option<u32>,
}

/// The entry that an index has of a row.
#[derive(Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    /// True if no other row may have the key.
    pub(crate) unique: bool,
    pub(crate) value: Vec<u8>,
}

impl IndexPart {
    /// The number from which on parts are expressions.
    pub const EXPRESSIONS: u32 = 1 << 31;
    /// A part that is none: releases that know no predicates and no included columns refuse it, and
    /// with it the table, whose entries they would write wrongly.
    const MARK: IndexPart = IndexPart::ascending(u32::MAX);

    /// A column, by number, whose smallest value comes first.
    pub const fn ascending(column: u32) -> IndexPart {
        IndexPart { column, descending: false, nulls_reversed: false, class: None }
    }

    /// Returns the number of its column; `None` for an expression.
    pub fn column(self) -> Option<usize> {
        (self.column < Self::EXPRESSIONS).then_some(self.column as usize)
    }

    /// Returns the operator class of its values.
    pub(crate) fn operator_class(self, ty: Type) -> Option<&'static OperatorClass> {
        self.class.and_then(operator_class::of_id).or_else(|| operator_class::of_type(ty))
    }

    /// Fails with 42804 if its operator class does not order the values of a type.
    fn check_class(self, ty: Type) -> Result<(), SqlError> {
        self.class.and_then(operator_class::of_id).map_or(Ok(()), |class| class.check(ty))
    }

    fn expression(self) -> Option<usize> {
        self.column.checked_sub(Self::EXPRESSIONS).map(|at| at as usize)
    }
}

impl Index {
    /// Creates an index of columns.
    pub fn new(id: u32, name: String, columns: Vec<IndexPart>, unique: bool) -> Index {
        Index {
            id,
            name,
            columns,
            unique,
            building: None,
            included: Vec::new(),
            expressions: Vec::new(),
            predicate: None,
            constraint: Some(false),
            nulls_not_distinct: false,
            deferrable: None,
            bound: Bound::default(),
        }
    }

    /// Creates the index of a UNIQUE constraint, without id and name.
    pub(crate) fn of_unique(
        columns: Vec<IndexPart>,
        nulls_not_distinct: bool,
        deferrable: Option<bool>,
    ) -> Index {
        let index = Index::new(0, String::new(), columns, deferrable.is_none());
        Index { constraint: Some(true), nulls_not_distinct, deferrable, ..index }
    }

    /// True if it was declared UNIQUE, whenever that is checked.
    pub(crate) fn is_declared_unique(&self) -> bool {
        self.unique || self.deferrable.is_some()
    }

    /// True if it is that of a UNIQUE constraint.
    pub(crate) fn is_constraint(&self) -> bool {
        let is_plain =
            self.predicate.is_none() && self.included.is_empty() && self.expressions.is_empty();
        self.constraint.unwrap_or_else(|| is_plain && self.unique && self.name.ends_with("_key"))
    }

    /// True if an expression or the condition names a column.
    pub(crate) fn computes_from(&self, column: usize) -> bool {
        let mut uses = false;
        let bound = self.bound.expressions.iter().map(|(expr, _)| expr);
        for expr in bound.chain(&self.bound.predicate) {
            expr.walk(&mut |part| uses |= matches!(part, Expr::Column(at) if *at == column));
        }
        uses
    }

    /// True if its entries depend on a column.
    pub(crate) fn uses(&self, column: usize) -> bool {
        self.included.contains(&(column as u32))
            || self.columns.iter().any(|part| part.column() == Some(column))
            || self.computes_from(column)
    }

    /// Returns its columns, if it keeps them unique in all rows: a foreign key may refer to them.
    pub(crate) fn key_columns(&self) -> Option<Vec<u32>> {
        let columns: Vec<u32> = self.columns.iter().map(|part| part.column).collect();
        self.is_key_of(&columns).then_some(columns)
    }

    /// True if it keeps these columns of all rows unique, and is complete: a foreign key may refer
    /// to them.
    pub(crate) fn is_key_of(&self, columns: &[u32]) -> bool {
        self.unique
            && self.building.is_none()
            && self.predicate.is_none()
            && self.has_columns(columns)
    }

    /// True if its columns are these, in any order.
    pub(crate) fn has_columns(&self, columns: &[u32]) -> bool {
        self.columns.len() == columns.len()
            && self.columns.iter().all(|part| columns.contains(&part.column))
    }

    /// Makes earlier releases refuse it, if they would not understand it.
    pub(crate) fn mark(&mut self) {
        if self.predicate.is_some()
            || !self.included.is_empty()
            || self.nulls_not_distinct
            || self.deferrable.is_some()
        {
            self.columns.push(IndexPart::MARK);
        }
    }

    /// Undoes [`mark`](Self::mark).
    pub(crate) fn unmark(&mut self) {
        self.columns.retain(|part| *part != IndexPart::MARK);
    }

    /// Binds the expressions and the predicate to a table. Must be called after every change of
    /// these or of the table's columns.
    pub(crate) fn bind(&mut self, table: &Arc<Table>) -> Result<(), SqlError> {
        let mut bound = Bound::default();
        for text in &self.expressions {
            let (expr, ty, reads_zone) = bound_key(table, &parse::expression(text)?)?;
            let number = bound.expressions.len();
            let mut parts = self.columns.iter();
            if let Some(part) = parts.find(|part| part.expression() == Some(number)) {
                part.check_class(ty)?;
            }
            bound.reads_zone |= reads_zone;
            bound.expressions.push((expr, ty));
        }
        if let Some(text) = &self.predicate {
            let (expr, reads_zone) = bound_condition(table, text)?;
            bound.reads_zone |= reads_zone;
            bound.predicate = Some(expr);
        }
        self.bound = bound;
        Ok(())
    }

    /// Fails with 42P17 if it computes by what is not immutable, and returns true if a literal
    /// would be another time in another zone. An index that is new must pass; one of an earlier
    /// release may have been made when all times were in UTC.
    pub(crate) fn check_new(&self, table: &Table) -> Result<bool, SqlError> {
        for (expr, _) in &self.bound.expressions {
            refuse_mutable(expr, Stored::Expression, table)?;
        }
        if let Some(predicate) = &self.bound.predicate {
            refuse_mutable(predicate, Stored::Predicate, table)?;
        }
        Ok(self.bound.reads_zone)
    }

    /// Fails with 42704 if a column's values have no order.
    /// Fails with 42804 if an operator class has none of their type.
    pub(crate) fn check_keys(&self, table: &Table) -> Result<(), SqlError> {
        let columns = self.columns.iter().filter(|part| part.expression().is_none());
        columns.map(|part| (part, table.columns[part.column as usize].ty)).try_for_each(
            |(part, ty)| {
                check_key(ty)?;
                part.check_class(ty)
            },
        )
    }

    /// Returns the condition for the rows that it has entries of, over a row of the table.
    pub(crate) fn condition(&self) -> Option<&Expr> {
        self.bound.predicate.as_ref()
    }

    /// Returns its columns and expressions, over a row of the table.
    pub(crate) fn keys(&self) -> Vec<Expr> {
        let key = |part: &IndexPart| match part.expression() {
            Some(at) => self.bound.expressions[at].0.clone(),
            None => Expr::Column(part.column as usize),
        };
        self.columns.iter().map(key).collect()
    }

    /// Returns the type of a part.
    pub(crate) fn type_of(&self, table: &Table, part: IndexPart) -> Type {
        match part.expression() {
            Some(at) => self.bound.expressions[at].1,
            None => table.columns[part.column as usize].ty,
        }
    }

    /// Returns the name of a column, or the text of an expression.
    pub(crate) fn text_of<'a>(&'a self, table: &'a Table, part: IndexPart) -> &'a str {
        match part.expression() {
            Some(at) => &self.expressions[at],
            None => &table.columns[part.column as usize].name,
        }
    }

    /// Returns the name of the function that an expression calls and that is all of it.
    pub(crate) fn call_of<'a>(&'a self, table: &'a Table, part: IndexPart) -> Option<&'a str> {
        let (name, rest) = self.text_of(table, part).split_once('(')?;
        let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        // The first parenthesis is closed at the end.
        let mut depth = 1;
        let closes = rest.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0
        });
        let is_whole = closes.is_some_and(|(at, _)| at + 1 == rest.len());
        (part.column().is_none() && is_name && is_whole).then_some(name)
    }

    /// Returns the values of its parts for a row.
    pub(crate) fn values(&self, row: &[Datum]) -> Result<Vec<Datum>, SqlError> {
        let value = |part: &IndexPart| match part.expression() {
            Some(at) => eval(&self.bound.expressions[at].0, row),
            None => Ok(row[part.column as usize].clone()),
        };
        self.columns.iter().map(value).collect()
    }

    /// Returns the first bytes of the entries of rows that are equal to one, if its UNIQUE
    /// constraint is DEFERRABLE; `None` if it is not, or other rows may be equal.
    pub(crate) fn deferrable_prefix(&self, row: &[Datum]) -> Result<Option<Vec<u8>>, SqlError> {
        if self.deferrable.is_none() {
            return Ok(None);
        }
        let mut prefix = kv::storage_prefix(self.id);
        let nulls = self.write_values(row, &mut prefix)?;
        Ok((self.nulls_not_distinct || !nulls).then_some(prefix))
    }

    /// Appends the values of a row to a key, and returns true if one is NULL.
    fn write_values(&self, row: &[Datum], key: &mut Vec<u8>) -> Result<bool, SqlError> {
        let mut nulls = false;
        for part in &self.columns {
            let computed;
            let datum = match part.expression() {
                Some(at) => {
                    computed = eval(&self.bound.expressions[at].0, row)?;
                    &computed
                }
                None => &row[part.column as usize],
            };
            nulls |= datum.is_null();
            key::write(datum, part.descending, key);
        }
        Ok(nulls)
    }

    /// Returns its entry of a row; `None` if its predicate is not true.
    pub(crate) fn entry(&self, row: &[Datum], row_key: &[u8]) -> Result<Option<Entry>, SqlError> {
        if let Some(predicate) = &self.bound.predicate
            && eval(predicate, row)? != Datum::Bool(true)
        {
            return Ok(None);
        }
        let mut key = kv::storage_prefix(self.id);
        let nulls = self.write_values(row, &mut key)?;
        let unique = self.unique && (self.nulls_not_distinct || !nulls);
        if !unique {
            key.extend(row_key);
        }
        let mut value = Vec::with_capacity(row_key.len());
        if !self.included.is_empty() {
            row::write_length(row_key.len(), &mut value);
        }
        value.extend(row_key);
        if !self.included.is_empty() {
            let included: Vec<usize> = self.included.iter().map(|at| *at as usize).collect();
            row::encode_columns(&included, row, &mut value);
        }
        Ok(Some(Entry { key, unique, value }))
    }

    /// Splits the value of an entry: the row's key, and the included columns.
    fn split<'v>(&self, value: &'v [u8]) -> Result<(&'v [u8], &'v [u8]), SqlError> {
        match self.included.is_empty() {
            true => Ok((value, &[])),
            false => row::split(value),
        }
    }

    /// Returns the row's key, without prefix, of an entry's value.
    pub(crate) fn row_key<'v>(&self, value: &'v [u8]) -> Result<&'v [u8], SqlError> {
        Ok(self.split(value)?.0)
    }

    /// True if its entries hold the wanted columns. The commit timestamp, behind the columns, is
    /// the row's alone.
    pub(crate) fn covers(&self, table: &Table, wanted: &[bool]) -> bool {
        let has = |column: usize| {
            let is_part = |part: &IndexPart| part.column() == Some(column);
            let in_key = |index: &Index| index.columns.iter().any(is_part);
            let is_exact = || key::is_exact(table.columns[column].ty);
            let is_in_keys = || in_key(self) || table.primary.as_ref().is_some_and(in_key);
            self.included.contains(&(column as u32)) || (is_exact() && is_in_keys())
        };
        let columns = table.columns.len();
        let mut all = wanted.iter().enumerate().filter(|(_, wanted)| **wanted);
        all.all(|(at, _)| at > columns || (at < columns && has(at)))
    }

    /// Returns a row as far as an entry holds it, and the row's key. `entry` is the entry's key
    /// without its storage's prefix.
    pub(crate) fn decode(
        &self,
        table: &Table,
        entry: &[u8],
        value: &[u8],
        wanted: &[bool],
    ) -> Result<(Vec<u8>, Vec<Datum>), SqlError> {
        let mut row = vec![Datum::Null; table.columns.len()];
        let (suffix, included) = self.split(value)?;
        let primary = table.primary.as_ref().map(|primary| (primary, suffix));
        for (index, bytes) in [(self, entry)].into_iter().chain(primary) {
            let mut reader = key::Reader::new(bytes);
            for part in &index.columns {
                match part.column() {
                    Some(column) if wanted[column] && key::is_exact(table.columns[column].ty) => {
                        row[column] = reader.read(table.columns[column].ty, part.descending)?;
                    }
                    _ => reader.skip(part.descending)?,
                }
            }
        }
        if !included.is_empty() {
            let columns: Vec<usize> = self.included.iter().map(|at| *at as usize).collect();
            row::decode_columns(table, &columns, included, wanted, &mut row)?;
        }
        let mut key = kv::storage_prefix(table.storage);
        key.extend(suffix);
        Ok((key, row))
    }
}

fn binder_over(table: &Arc<Table>, clause: &'static str) -> Binder {
    let mut binder = Binder::stored();
    binder.add(table.clone(), &table.name);
    binder.begin_clause(clause, false);
    binder
}

/// Binds an expression of a key over a row of a table. Returns it with its type, and whether a
/// literal would be another time in another zone.
pub(crate) fn bound_key(
    table: &Arc<Table>,
    expr: &ast::Expr,
) -> Result<(Expr, Type, bool), SqlError> {
    let mut binder = binder_over(table, "index expressions");
    let typed = binder.bind(expr)?;
    let ty = typed.ty.unwrap_or(Type::Text);
    let expr = binder.coerce(typed, ty, false)?;
    check_key(ty)?;
    Ok((apart(expr, table), ty, binder.reads_zone))
}

/// Binds the condition of an index over a row of a table.
pub(crate) fn bound_condition(table: &Arc<Table>, text: &str) -> Result<(Expr, bool), SqlError> {
    let mut binder = binder_over(table, "index predicates");
    let expr = binder.bind_bool(&parse::expression(text)?, "WHERE")?;
    Ok((apart(expr, table), binder.reads_zone))
}

/// Evaluates an immutable expression, which needs no session.
pub(crate) fn eval(expr: &Expr, row: &[Datum]) -> Result<Datum, SqlError> {
    expr.eval(row, &Scope::immutable())
}

/// True for a cast between an enum type and text: labels may be renamed.
fn casts_label(inner: &Expr, to: Type, table: &Table) -> bool {
    let mut has_enum = false;
    inner.walk(&mut |part| {
        if let Expr::Column(at) = part {
            has_enum |= table.columns[*at].ty.enumeration().is_some();
        }
    });
    to.enumeration().is_some() || has_enum && to.element().unwrap_or(to).is_text()
}

/// Returns the type of an expression over a row of a table, where its form tells it.
pub(crate) fn type_of(expr: &Expr, table: &Table) -> Option<Type> {
    match expr {
        Expr::Column(at) => Some(table.columns[*at].ty),
        Expr::Const(value) => value.type_of(),
        Expr::Arith(_, ty, _) | Expr::Cast(_, ty, _) => Some(*ty),
        Expr::Domain(_, domain) => Some(domain.base()),
        Expr::Coalesce(values) => values.iter().find_map(|value| type_of(value, table)),
        Expr::Call(Function { result: Out::Of(ty), .. }, _) => Some(*ty),
        _ => None,
    }
}

/// True if a call may have another value for the same arguments. A value that is appended to a text
/// is converted as its type is.
fn may_change(function: &Function, args: &[Expr], table: &Table) -> bool {
    let is_fixed = |ty: Type| {
        let ty = ty.plain();
        ty.is_number()
            || ty.is_text()
            || matches!(ty, Type::Bool | Type::Uuid | Type::Bytea)
            || matches!(ty, Type::Json | Type::Jsonb | Type::JsonPath)
            || matches!(ty, Type::Time | Type::TimeTz | Type::Inet | Type::Cidr | Type::Hstore)
            || matches!(ty, Type::Oid | Type::ByteChar | Type::Bit(_) | Type::Varbit(_))
    };
    let varies = |(param, arg): (&Param, &Expr)| {
        *param == Param::NonArray && !type_of(arg, table).is_some_and(is_fixed)
    };
    match function.volatility {
        Volatility::Immutable => false,
        _ if function.name == "||" => function.params.iter().zip(args).any(varies),
        _ => true,
    }
}

/// The use of an expression that the catalog holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    Expression,
    Predicate,
    Check,
    Generated,
}

/// True if the value may differ between sessions or times. What depends on the session's zone alone
/// may stand in a CHECK.
fn is_mutable(expr: &Expr, of: Stored, table: &Table) -> bool {
    let mut is_mutable = false;
    expr.walk(&mut |part| match part {
        Expr::Call(function, args) => {
            let is_allowed = match of {
                Stored::Check => function.is_of_zone || function.was_immutable,
                Stored::Generated => function.was_immutable,
                Stored::Expression | Stored::Predicate => false,
            };
            is_mutable |= may_change(function, args, table) && !is_allowed;
        }
        Expr::Cast(inner, to, how) => {
            is_mutable |= casts_label(inner, *to, table) || how.is_stable && of != Stored::Check;
        }
        _ => {}
    });
    is_mutable
}

/// Hides an expression that is not immutable: an index of an earlier release computes it in UTC,
/// and what a query computes in its session's zone is another value.
fn apart(expr: Expr, table: &Table) -> Expr {
    match is_mutable(&expr, Stored::Expression, table) {
        true => Expr::Coalesce(vec![expr]),
        false => expr,
    }
}

/// Returns the error of a generated column whose value may change by itself.
pub(crate) fn not_immutable() -> SqlError {
    SqlError::new(state::INVALID_DEFINITION, "generation expression is not immutable")
}

/// Fails with 42P17 for an expression that is not immutable.
pub(crate) fn refuse_mutable(expr: &Expr, of: Stored, table: &Table) -> Result<(), SqlError> {
    let what = match of {
        Stored::Expression => "index expression",
        Stored::Predicate => "index predicate",
        Stored::Check => "check constraint",
        Stored::Generated => "generation expression",
    };
    let mut param = None;
    expr.walk(&mut |part| {
        if let Expr::Param(at) = part {
            param = Some(*at);
        }
    });
    if let Some(at) = param {
        let message = format!("there is no parameter ${}", at + 1);
        return Err(SqlError::new(state::UNDEFINED_PARAMETER, message));
    }
    if expr.has_subquery() {
        return Err(SqlError::unsupported(format!("a subquery in an {what}")));
    }
    match is_mutable(expr, of, table) {
        // PostgreSQL has them.
        true if of == Stored::Check => {
            Err(SqlError::unsupported("a check constraint with functions that are not immutable"))
        }
        true if of == Stored::Generated => Err(not_immutable()),
        true => {
            let message = format!("functions in {what} must be marked IMMUTABLE");
            Err(SqlError::new(state::INVALID_DEFINITION, message))
        }
        false => Ok(()),
    }
}

/// Fails with 42704 for a type that an index cannot have.
fn check_key(ty: Type) -> Result<(), SqlError> {
    if ty.has_order() {
        return Ok(());
    }
    let name = ty.name();
    let message =
        format!("data type {name} has no default operator class for access method \"btree\"");
    let hint = "You must specify an operator class for the index or define a default operator class for the data type.";
    Err(SqlError::new(state::UNDEFINED_OBJECT, message).hint(hint))
}
