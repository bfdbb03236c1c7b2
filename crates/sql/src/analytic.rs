//! The seam to an analytical engine, for queries that the own executor does not run: joins, subqueries, windows and the like.
//!
//! The engine plans against table descriptors and reads rows through a [`Reader`], which lends it the session's transaction. It
//! never sees keys, locks or protocols. Without one, such a query answers 0A000.

use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::response::Column;
use crate::scan::{self, Position};
use crate::types::Type;
use futures::lock::Mutex;
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_txn::{Conflict, Failure, Future, Lock, Outcome, Rows, Savepoint, Transaction};
use sqlparser::ast::Query;
use std::sync::Arc;

/// An analytical engine.
pub trait Analytic: Send + Sync {
    /// Plans a query over the tables it names. `params` are the declared types, `None` where the client declared none.
    fn plan<'a>(
        &'a self,
        query: &'a Query,
        tables: &'a [Arc<Table>],
        params: &'a [Option<Type>],
    ) -> Future<'a, Result<Arc<dyn AnalyticPlan>, SqlError>>;
}

/// A planned query.
pub trait AnalyticPlan: Send + Sync {
    /// The types of its parameters.
    fn params(&self) -> Vec<Type>;
    /// What each row consists of.
    fn columns(&self) -> Arc<[Column]>;
    /// Lines for EXPLAIN.
    fn explain(&self) -> Vec<String>;
    /// Starts it: the rows come as they are asked for.
    fn execute(&self, params: Vec<Datum>, reader: Reader) -> Result<Box<dyn AnalyticRows>, SqlError>;
}

/// The rows of a running query.
pub trait AnalyticRows: Send {
    /// The next rows, `None` at the end.
    fn next(&mut self) -> Future<'_, Result<Option<Vec<Vec<Datum>>>, SqlError>>;
}

/// The session's transaction on loan. Clones share it; each chunk takes it for itself.
#[derive(Clone)]
pub struct Reader {
    loan: Arc<Mutex<Option<Box<dyn Transaction>>>>,
    lock: Lock,
}

impl Reader {
    /// A reader without a transaction yet.
    pub(crate) fn idle() -> Self {
        Reader { loan: Arc::new(Mutex::new(None)), lock: Lock::Shared }
    }

    /// Lends a transaction, until it is taken back.
    pub(crate) async fn lend(&self, transaction: Box<dyn Transaction>) {
        *self.loan.lock().await = Some(transaction);
    }

    /// Takes the transaction back; later reads through clones fail.
    pub(crate) async fn take_back(&self) -> Option<Box<dyn Transaction>> {
        self.loan.lock().await.take()
    }

    /// The next rows of a table from `position` on, at most `limit_rows`, each holding the columns asked for in that order;
    /// `None` at the end. Start with `Position::start(table)`.
    pub async fn chunk(
        &self,
        table: &Table,
        position: &mut Position,
        columns: &[usize],
        limit_rows: usize,
    ) -> Result<Option<Vec<Vec<Datum>>>, SqlError> {
        let mut loan = self.loan.lock().await;
        let Some(transaction) = loan.as_mut() else {
            return Err(SqlError::new(crate::error::state::CANCELED, "the query has ended"));
        };
        scan::chunk(transaction.as_mut(), table, position, columns, self.lock, limit_rows).await
    }
}

/// Stands where a transaction was, while that is lent.
pub(crate) struct Lent;

impl Transaction for Lent {
    fn mode(&self) -> meridian_txn::Mode {
        meridian_txn::Mode::ReadOnly(meridian_txn::ReadAt::Now)
    }

    fn age(&self) -> meridian_txn::Age {
        meridian_txn::Age { began_ns: 0, node: 0, number: 0 }
    }

    fn began(&self) -> meridian_clock::Interval {
        meridian_clock::Interval { earliest: 0, latest: 0 }
    }

    fn read_at(&self) -> Option<meridian_clock::Timestamp> {
        None
    }

    fn get<'a>(&'a mut self, _: &'a Key, _: Lock) -> Future<'a, Result<Option<Value>, Failure>> {
        Box::pin(async { Err(Failure::Aborted(Conflict::RolledBack)) })
    }

    fn scan<'a>(&'a mut self, _: &'a KeyRange, _: Lock, _: bool, _: usize) -> Future<'a, Result<Rows, Failure>> {
        Box::pin(async { Err(Failure::Aborted(Conflict::RolledBack)) })
    }

    fn put(&mut self, _: Key, _: Option<Value>) -> Result<(), Failure> {
        Err(Failure::Aborted(Conflict::RolledBack))
    }

    fn savepoint(&mut self) -> Savepoint {
        Savepoint(0)
    }

    fn rollback_to(&mut self, _: Savepoint) {}

    fn commit(self: Box<Self>) -> Future<'static, Outcome> {
        Box::pin(async { Outcome::Aborted { why: Conflict::RolledBack } })
    }
}
