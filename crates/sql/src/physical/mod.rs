//! The physical plan of a query: operators over rows with positions, and the access paths that they
//! read by.
//!
//! Columns of enclosing relations are parameters behind the statement's own: an operator that runs
//! its right side for each left row sets them first. So an access path by key serves a dependent
//! right side as it serves a parameter.

mod estimate;
mod lower;
mod order;
mod ordered;

pub(crate) use estimate::estimated;
pub(crate) use lower::lower;
#[cfg(test)]
pub(crate) use lower::lower_with;

use crate::access::{Access, Target};
use crate::aggregate::Aggregate;
use crate::bind::{ColumnInfo, OnLocked, RowLocks, Strength};
use crate::catalog::Table;
use crate::error::SqlError;
use crate::expr::{Expr, Scope};
use crate::function::Function;
use crate::logical::{ColumnId, GroupingSets, SetOp};
use crate::response::Column;
use crate::types::Type;
use crate::window;
use meridian_mvcc::KeyRange;
use std::sync::Arc;

/// The plan of a whole query.
pub(crate) struct Query {
    pub(crate) root: Arc<Node>,
    pub(crate) columns: Arc<[Column]>,
    pub(crate) params: Arc<[Type]>,
    /// The number of parameters, with those for columns of enclosing relations.
    pub(crate) slots: usize,
    /// The number of queries of WITH.
    pub(crate) named: usize,
    /// The steps of the statement whose rows it is given: they are the first queries of WITH.
    pub(crate) given: Vec<usize>,
    /// True if a function of it reads the catalog.
    pub(crate) reads_catalog: bool,
    /// The number of relations: the plan is not deeper than a few times that.
    pub(crate) relations: usize,
    /// True if it locks rows.
    pub(crate) locks: bool,
    /// True if a read-only transaction can run it.
    pub(crate) only_reads: bool,
    /// The names and types of columns by their ids, and the ids of the columns that are parameters
    /// behind the statement's own, for EXPLAIN.
    pub(crate) known: Vec<ColumnInfo>,
    pub(crate) passed: Vec<ColumnId>,
}

impl Query {
    /// Returns the range of a table's rows that contains all its reads; `None` if there are
    /// several, or if it reads through an index.
    pub(crate) fn scope(&self, scope: &Scope<'_>) -> Result<Option<KeyRange>, SqlError> {
        if self.reads_catalog {
            return Ok(None);
        }
        let mut node = &self.root;
        let scan = loop {
            node = match &node.op {
                Op::Scan(scan) => break scan,
                Op::Filter { input, .. }
                | Op::Project { input, .. }
                | Op::Aggregate { input, .. }
                | Op::Window { input, .. }
                | Op::Distinct { input, .. }
                | Op::Sort { input, .. }
                | Op::Limit { input, .. } => input,
                _ => return Ok(None),
            };
        };
        if scan.table.is_made() || scan.access.index.is_some() {
            return Ok(None);
        }
        let mut targets = scan.access.targets(&scan.table, scope)?;
        Ok(match (targets.pop(), targets.is_empty()) {
            (Some(Target::Point(key)), true) => Some(KeyRange::point(key)),
            (Some(Target::Range(range)), true) => Some(range),
            _ => None,
        })
    }
}

/// A node of a plan: an operator, and the form and number of its rows.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) op: Op,
    /// The ids of its columns, by position.
    pub(crate) layout: Vec<ColumnId>,
    /// The estimated number of its rows; for a dependent side, those of one left row.
    pub(crate) rows: f64,
}

/// An operator.
#[derive(Debug)]
pub(crate) enum Op {
    /// Rows of expressions.
    Values(Vec<Vec<Expr>>),
    /// The rows of a table.
    Scan(Scan),
    /// The rows, each as it is under the locks of the tables' rows that it is made of. Of SKIP
    /// LOCKED, those that can be locked at once.
    LockRows { input: Arc<Node>, tables: Vec<LockedTable> },
    /// The rows for which a condition is true.
    Filter { input: Arc<Node>, condition: Expr },
    /// A row of expressions for each row.
    Project { input: Arc<Node>, outputs: Vec<Expr> },
    /// Pairs of rows.
    Join(Join),
    /// The keys and aggregates of each group.
    Aggregate {
        input: Arc<Node>,
        keys: Vec<Expr>,
        sets: Option<Box<GroupingSets>>,
        aggregates: Vec<Aggregate>,
    },
    /// The rows, partition by partition in order, each with the values of window functions.
    Window { input: Arc<Node>, partition: Vec<usize>, order: Vec<SortBy>, calls: Vec<window::Call> },
    /// The first row of each group that is equal in some columns.
    Distinct { input: Arc<Node>, on: Vec<usize> },
    /// The rows in order: all of them, or the first `most`, with the offset included.
    Sort { input: Arc<Node>, by: Vec<SortBy>, most: Option<(Option<Expr>, Option<Expr>)> },
    /// Some of the rows: limit and offset.
    Limit { input: Arc<Node>, limit: Option<Expr>, offset: Option<Expr> },
    /// UNION, INTERSECT, EXCEPT.
    Set { op: SetOp, all: bool, sides: Vec<Arc<Node>> },
    /// A query of WITH, and the query that uses it.
    With { name: usize, definition: Arc<Node>, body: Arc<Node> },
    /// The rows of a query of WITH: some of its columns.
    Named { name: usize, picks: Vec<usize>, of: RowsOf },
    /// A query of WITH RECURSIVE, whose step reads the rows of the round before by a name.
    Recursive { name: usize, all: bool, first: Arc<Node>, step: Arc<Node> },
    /// The rows of functions side by side, perhaps with their number.
    Functions { calls: Vec<(&'static Function, Vec<Expr>)>, ordinality: bool },
}

/// The rows that a name of WITH stands for.
#[derive(Clone, Debug)]
pub(crate) enum RowsOf {
    /// Those of a query.
    Query(Arc<Node>),
    /// In the step of a recursive query, those of the round before.
    Round,
    /// Those of another step of the statement, which has run.
    Given,
}

/// A scan of a table.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) table: Arc<Table>,
    pub(crate) access: Access,
    /// True if it reads from the last key to the first one.
    pub(crate) backwards: bool,
    /// The locks of its rows; a shared lock if there are none.
    pub(crate) locks: Option<RowLocks>,
    /// The condition over the table's columns, the commit timestamp and the key behind them.
    pub(crate) filter: Option<Expr>,
    /// The columns that the filter or the outputs need.
    pub(crate) wanted: Vec<bool>,
    /// The columns of the outputs.
    pub(crate) picks: Vec<usize>,
    /// The ids of the table's columns, for EXPLAIN.
    pub(crate) columns: Vec<ColumnId>,
}

/// The locks of the rows of one table that an operator's rows are made of.
#[derive(Debug)]
pub(crate) struct LockedTable {
    pub(crate) strength: Strength,
    pub(crate) on_locked: OnLocked,
    /// The id of the column with the rows' keys, and its place.
    pub(crate) of: ColumnId,
    pub(crate) key: usize,
}

/// A join.
#[derive(Debug)]
pub(crate) struct Join {
    pub(crate) kind: Kind,
    pub(crate) left: Arc<Node>,
    pub(crate) right: Arc<Node>,
    /// The numbers of the sides' columns.
    pub(crate) left_width: usize,
    pub(crate) right_width: usize,
    /// The condition over the left side alone: where it is not true, nothing matches.
    pub(crate) guard: Option<Expr>,
    /// The whole rest of the condition, over both sides.
    pub(crate) on: Option<Expr>,
    pub(crate) how: How,
}

/// The rows that a join returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Inner,
    Left,
    Full,
    Semi,
    Anti,
    /// The left rows for which the condition is false for all right rows: not even NULL.
    AntiUnknown,
    Single,
    Mark,
}

/// The way to find the right rows of a left row.
#[derive(Debug)]
pub(crate) enum How {
    /// By equal keys in a table of the right rows. `rest` is the condition besides the keys.
    Hash { left: Vec<Expr>, right: Vec<Expr>, rest: Option<Expr> },
    /// All right rows, which are read once.
    Loop,
    /// By running the right side with the left row's columns as parameters: for each position of
    /// the left row its parameter. The rows may be remembered for equal columns, unless they are
    /// volatile.
    Dependent { slots: Vec<(usize, usize)>, remembers: bool },
}

/// The rows of a LIMIT that is not known when the query is planned.
const LIMIT_ROWS: f64 = 100.0;

/// Returns the number of rows that a LIMIT with an OFFSET needs; `None` without a LIMIT.
pub(crate) fn rows_of(limit: &Option<Expr>, offset: &Option<Expr>) -> Option<f64> {
    let count = |expr: &Option<Expr>| match expr {
        Some(Expr::Const(count)) => count.as_i64().map(|count| count as f64),
        Some(_) => Some(LIMIT_ROWS),
        None => Some(0.0),
    };
    limit.as_ref()?;
    Some(count(limit)? + count(offset)?)
}

/// A column that rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortBy {
    pub(crate) column: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}
