//! The interface of a planned query to its session, which the row executor implements, and an
//! analytical engine for what this crate does not plan yet: some functions and types.
//!
//! The engine plans against table descriptors. While a query runs, the session requests its next
//! rows and lends its transaction for just that call, as a [`Reader`]; the engine's own threads
//! never hold it. So a dropped query leaves the transaction where it was. The engine never sees
//! keys, locks or protocols. Without an engine, such a query fails with 0A000.

use crate::bind::Binder;
use crate::cast;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Facts;
use crate::names;
use crate::response::Column;
use crate::scan::{self, Position};
use crate::types::Type;
use meridian_txn::{Future, Lock, Transaction};
use sqlparser::ast::{self, Query};
use std::sync::Arc;

/// An analytical engine.
pub trait Analytic: Send + Sync {
    /// Plans a query over the tables it names. `params` are the declared types, `None` where the
    /// client declared none.
    fn plan<'a>(
        &'a self,
        query: &'a Query,
        tables: &'a [Arc<Table>],
        params: &'a [Option<Type>],
    ) -> Future<'a, Result<Arc<dyn AnalyticPlan>, SqlError>>;
}

/// A planned query.
pub trait AnalyticPlan: Send + Sync {
    /// Returns the types of its parameters.
    fn params(&self) -> Vec<Type>;
    /// Returns the columns of the rows.
    fn columns(&self) -> Arc<[Column]>;
    /// Returns the lines of EXPLAIN.
    fn explain(&self) -> Vec<String>;
    /// Starts the query; rows are computed on request.
    fn start(&self, params: Vec<Datum>) -> Result<Box<dyn AnalyticRows>, SqlError>;
}

/// The rows of a running query.
pub trait AnalyticRows: Send {
    /// The next rows, `None` at the end. The reader is lent for this call; a later call may lend
    /// another of the same transaction.
    fn next<'a>(
        &'a mut self,
        reader: &'a mut Reader<'_>,
    ) -> Future<'a, Result<Option<Vec<Vec<Datum>>>, SqlError>>;
}

/// The session's transaction, lent for one call.
pub struct Reader<'t> {
    pub(crate) transaction: &'t mut dyn Transaction,
    pub(crate) facts: &'t Facts,
    pub(crate) now_us: i64,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(transaction: &'t mut dyn Transaction, facts: &'t Facts, now_us: i64) -> Self {
        Reader { transaction, facts, now_us }
    }

    /// Returns the session's properties, for functions.
    pub fn facts(&self) -> &Facts {
        self.facts
    }

    /// CURRENT_TIMESTAMP: microseconds since 2000-01-01 00:00:00 UTC.
    pub fn now_us(&self) -> i64 {
        self.now_us
    }

    /// Loads all tables as the transaction sees them, for functions that read the catalog.
    pub async fn catalog(&mut self) -> Result<crate::system::Catalog, SqlError> {
        crate::system::load(self.transaction).await
    }

    /// Returns the next rows of a table from `position` on, at most `limit_rows`, each with the
    /// requested columns in that order; `None` at the end. Start with `Position::start(table)`.
    pub async fn chunk(
        &mut self,
        table: &Table,
        position: &mut Position,
        columns: &[usize],
        limit_rows: usize,
    ) -> Result<Option<Vec<Vec<Datum>>>, SqlError> {
        scan::chunk(self.transaction, table, position, columns, Lock::Shared, limit_rows).await
    }
}

/// Returns the type that a cast or a declaration names.
pub fn type_of_sql(ty: &ast::DataType) -> Result<Type, SqlError> {
    names::data_type(ty)
}

/// Returns PostgreSQL's name of an output without an alias.
pub fn heading(expr: &ast::Expr) -> String {
    crate::heading::heading(expr)
}

/// A name as PostgreSQL folds it: small letters unless quoted.
pub fn fold(ident: &ast::Ident) -> String {
    names::fold(ident)
}

/// Casts a value to another type.
pub fn convert(datum: Datum, ty: Type, explicit: bool) -> Result<Datum, SqlError> {
    cast::cast(datum, ty, explicit)
}

/// Returns the value of an expression over constants.
pub fn constant(expr: &ast::Expr) -> Result<Option<Datum>, SqlError> {
    let mut binder = Binder::new(&[]);
    let bound = binder.bind_free(expr)?;
    Ok(match bound.expr {
        crate::expr::Expr::Const(datum) => Some(datum),
        _ => None,
    })
}

/// A function of this crate's catalog, for an engine to call.
#[derive(Clone, Debug)]
pub struct Scalar {
    call: Arc<crate::function::Call>,
    /// The type of its result.
    pub ty: Type,
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.call.function == other.call.function && self.ty == other.ty
    }
}

impl Eq for Scalar {}

impl Scalar {
    /// Finds a function by its name and the types of its arguments.
    pub fn find(name: &str, args: &[Option<Type>]) -> Option<Scalar> {
        let call = crate::function::resolve(name, args).ok()?;
        Some(Scalar { ty: call.result, call: Arc::new(call) })
    }

    /// True if a function of this name exists for some arguments.
    pub fn is_known(name: &str) -> bool {
        !crate::function::named(name).is_empty()
    }

    /// Returns its value at a time of the transaction, in microseconds since 2000.
    pub fn call(&self, args: &[Datum], facts: &Facts, now_us: i64) -> Result<Datum, SqlError> {
        let convert = |(arg, param): (&Datum, &Option<Type>)| match param {
            Some(ty) => cast::cast(arg.clone(), *ty, false),
            None => Ok(arg.clone()),
        };
        let converted = args.iter().zip(&self.call.params).map(convert);
        let converted = converted.collect::<Result<Vec<_>, _>>()?;
        let scope = crate::expr::Scope { params: &[], now_us, session: facts, catalog: None };
        self.call.function.call(&converted, &scope)
    }
}

/// Returns `left op right` in numbers of a type, as PostgreSQL computes it; `None` for other
/// operators.
pub fn arithmetic(
    op: &ast::BinaryOperator,
    ty: Type,
    left: &Datum,
    right: &Datum,
) -> Option<Result<Datum, SqlError>> {
    use crate::expr::Arith;
    let op = match op {
        ast::BinaryOperator::Plus => Arith::Add,
        ast::BinaryOperator::Minus => Arith::Sub,
        ast::BinaryOperator::Multiply => Arith::Mul,
        ast::BinaryOperator::Divide => Arith::Div,
        ast::BinaryOperator::Modulo => Arith::Mod,
        _ => return None,
    };
    if left.is_null() || right.is_null() {
        return Some(Ok(Datum::Null));
    }
    let side = |datum: &Datum| cast::cast(datum.clone(), ty, false);
    Some(side(left).and_then(|left| crate::number::arith(op, ty, &left, &side(right)?)))
}
