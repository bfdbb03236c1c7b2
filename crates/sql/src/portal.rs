//! Portals: statements with their parameters, and the progress of their results.

use crate::compile::{Compiled, Plan};
use crate::cursor::Fetched;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::exec;
use crate::explain::{Actuals, Explained};
use crate::movement::Place;
use crate::parse::Parsed;
use crate::record::in_version;
use crate::response::Column;
use meridian_txn::Timings;
use std::sync::Arc;
use std::time::Duration;

/// A statement with its parameters, and the progress of its result.
pub(crate) struct Portal {
    pub(crate) compiled: Option<Arc<Compiled>>,
    pub(crate) statement: String,
    pub(crate) params: Arc<[Datum]>,
    /// The query, once it runs.
    pub(crate) rows: Option<Box<exec::Running>>,
    /// A row beyond those that were asked for, which tells that they are not the last.
    pub(crate) ahead: Option<Vec<Datum>>,
    pub(crate) count: u64,
    /// True if the client may know the columns.
    pub(crate) described: bool,
    /// The result of EXPLAIN ANALYZE, which is shown after the commit.
    pub(crate) analyzed: Option<Analyzed>,
    /// The rows of FETCH that are left.
    pub(crate) fetched: Option<Fetched>,
    /// Set once the query has returned its last row: whether more were wanted.
    pub(crate) over: Option<bool>,
}

/// The result of EXPLAIN ANALYZE.
pub(crate) struct Analyzed {
    pub(crate) explained: Explained,
    pub(crate) actuals: Actuals,
    pub(crate) took: Option<Duration>,
    pub(crate) timings: Option<Arc<Timings>>,
}

impl Portal {
    pub(crate) fn new(compiled: Arc<Compiled>, params: Arc<[Datum]>) -> Self {
        let statement = String::new();
        Portal {
            compiled: Some(compiled),
            statement,
            params,
            rows: None,
            ahead: None,
            count: 0,
            described: false,
            analyzed: None,
            fetched: None,
            over: None,
        }
    }

    pub(crate) fn empty() -> Self {
        let (statement, params) = (String::new(), Arc::from([]));
        Portal {
            compiled: None,
            statement,
            params,
            rows: None,
            ahead: None,
            count: 0,
            described: false,
            analyzed: None,
            fetched: None,
            over: None,
        }
    }

    /// Creates a portal of a prepared statement.
    pub(crate) fn of_statement(
        name: &str,
        compiled: Option<Arc<Compiled>>,
        params: Arc<[Datum]>,
    ) -> Self {
        let portal = compiled.map_or_else(Portal::empty, |compiled| Portal::new(compiled, params));
        Portal { statement: name.into(), described: true, ..portal }
    }

    /// Gives it a new plan of its statement, and its parameters the versions of the types that the
    /// plan has. Fails with 0A000 if the client knows other columns.
    pub(crate) fn replace(&mut self, fresh: Arc<Compiled>) -> Result<(), SqlError> {
        let shape = |compiled: &Compiled| {
            let of = |column: &Column| (column.name.clone(), column.ty);
            let columns = compiled.columns.as_ref();
            let columns = columns.map(|columns| columns.iter().map(of).collect::<Vec<_>>());
            (columns, compiled.params.clone())
        };
        let is_other = |before: &Arc<Compiled>| shape(before) != shape(&fresh);
        if self.described && self.compiled.as_ref().is_some_and(is_other) {
            let message = "cached plan must not change result type";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
                .of_routine("RevalidateCachedQuery"));
        }
        let types = fresh.params.iter();
        let params =
            self.params.iter().zip(types).map(|(value, ty)| in_version(value.clone(), *ty));
        self.params = params.collect::<Result<_, _>>()?;
        self.compiled = Some(fresh);
        Ok(())
    }

    /// True if it is one of a query, whose rows may be fetched in parts.
    pub(crate) fn is_query(&self) -> bool {
        let is_query = |compiled: &Arc<Compiled>| {
            matches!(compiled.plan, Plan::Query(_)) && compiled.source.copy_to.is_none()
        };
        self.compiled.as_ref().is_some_and(is_query)
    }

    /// True if its query has returned its last row.
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Returns the place of its query.
    pub(crate) fn place(&self) -> Place {
        let passed = usize::try_from(self.count).unwrap_or(usize::MAX);
        Place { passed, at_end: self.over == Some(true) }
    }

    /// Ends its query, which has returned its last row. `at_end`: more were wanted.
    pub(crate) fn end(&mut self, at_end: bool) {
        (self.rows, self.ahead) = (None, None);
        self.over = Some(at_end);
    }

    pub(crate) fn source(&self) -> Option<&Parsed> {
        self.compiled.as_ref().map(|compiled| &*compiled.source)
    }

    pub(crate) fn columns(&self) -> Option<Arc<[Column]>> {
        self.compiled.as_ref().and_then(|compiled| compiled.columns.clone())
    }
}
