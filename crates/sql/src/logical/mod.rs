//! The logical plan of a query: a closed set of relational operators over columns with ids.
//!
//! A relation is a multiset of rows. Each of its columns has an id that no other column of the
//! query has, so that a rewrite may move an operator without renumbering anything. An expression
//! names columns of its input by `Expr::Column(id)`, and may name columns of enclosing relations.
//!
//! A join is *dependent* if its right side names columns of its left side. Its right side is then
//! evaluated once for each row of the left side; all kinds of joins have the same meaning as
//! without dependence.

mod columns;
#[cfg(test)]
pub(crate) mod drawn;
#[cfg(test)]
pub(crate) mod naive;
#[cfg(test)]
mod naive_window;
mod show;

use crate::aggregate::Aggregate;
use crate::bind::RowLocks;
use crate::catalog::Table;
use crate::expr::Expr;
use crate::function::Function;
use crate::interrupt;
use crate::window;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The id of a column within one query.
pub(crate) type ColumnId = usize;

/// A relation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rel {
    /// Rows of expressions. A query without FROM reads one row without columns.
    Values { columns: Vec<ColumnId>, rows: Vec<Vec<Expr>> },
    /// The rows of a table. Behind its columns there is the row's commit timestamp, and in queries
    /// that change or lock rows the row's key.
    Scan { table: Arc<Table>, columns: Vec<ColumnId> },
    /// The rows for which the condition is true.
    Filter { input: Box<Rel>, condition: Expr },
    /// One row of expressions for each row. An output may pass a column on under its own id.
    Project { input: Box<Rel>, outputs: Vec<(ColumnId, Expr)> },
    /// Pairs of rows.
    Join(Box<Join>),
    /// One row for each group of rows with equal keys (NULL equals NULL): the keys, the marks of
    /// grouping sets, the aggregates. Without keys there is exactly one group.
    Aggregate {
        input: Box<Rel>,
        keys: Vec<ColumnId>,
        sets: Option<Box<GroupingSets>>,
        aggregates: Vec<(ColumnId, Aggregate)>,
    },
    /// Each row, and the values of window functions for it.
    Window(Box<Window>),
    /// The first row of each group of rows that are equal in these columns.
    Distinct { input: Box<Rel>, on: Vec<ColumnId> },
    /// The rows in order; rows with equal keys are in any order.
    Sort { input: Box<Rel>, by: Vec<SortKey> },
    /// The rows after the first `offset`, at most `limit` of them.
    Limit { input: Box<Rel>, limit: Option<Expr>, offset: Option<Expr> },
    /// The rows, with those of tables that they are made of locked (FOR UPDATE). Nothing moves into
    /// it from above: the rows that it locks are those that its query returns.
    Lock { input: Box<Rel>, locks: Vec<RowLocks> },
    /// UNION, INTERSECT and EXCEPT.
    Set(Box<SetOperation>),
    /// The body, in which [`Rel::Named`] stands for the rows of the definition. The definition is
    /// evaluated at most once.
    With { name: usize, definition: Box<Rel>, body: Box<Rel> },
    /// The rows of a WITH query: `columns` are new ids for its columns `of`.
    Named { name: usize, columns: Vec<ColumnId>, of: Vec<ColumnId> },
    /// A query of WITH RECURSIVE.
    Recursive(Box<Recursion>),
    /// The rows of set-returning functions.
    Functions(Functions),
}

/// A recursive query: the rows of `first`, then in rounds the rows of `step`, in which
/// [`Rel::Named`] stands for the rows that the round before added, until a round adds none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recursion {
    /// The name that `step` reads.
    pub(crate) name: usize,
    /// True if duplicates count: otherwise a row that was there before is not added again.
    pub(crate) all: bool,
    pub(crate) columns: Vec<ColumnId>,
    /// Each side with its columns in the order of `columns`.
    pub(crate) first: (Rel, Vec<ColumnId>),
    pub(crate) step: (Rel, Vec<ColumnId>),
}

/// The rows of functions side by side. A function with fewer rows than another has NULLs in the
/// others. A function that returns no set returns one row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Functions {
    pub(crate) calls: Vec<(&'static Function, Vec<Expr>)>,
    /// The columns of the calls, one call's after another's.
    pub(crate) columns: Vec<ColumnId>,
    /// The number of the row, from 1.
    pub(crate) ordinality: Option<ColumnId>,
}

/// A join of two relations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Join {
    pub(crate) kind: JoinKind,
    pub(crate) left: Rel,
    pub(crate) right: Rel,
    /// A pair of rows matches if this is true. The [guards](Join::is_guard) among its conjuncts are
    /// evaluated first, and the right side only if they are true.
    pub(crate) on: Expr,
}

impl Join {
    /// True if a conjunct of the condition decides about a left row alone: it names no column of
    /// the right side. In a mark join it must not be NULL either, since the mark would be.
    pub(crate) fn is_guard(kind: JoinKind, conjunct: &Expr, rights: &BTreeSet<ColumnId>) -> bool {
        !conjunct.names_any(rights)
            && match kind {
                JoinKind::Full => false,
                JoinKind::Mark(_) => conjunct.is_never_null(),
                _ => true,
            }
    }
}

/// The rows that a join returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinKind {
    /// The pairs that match.
    Inner,
    /// The pairs that match, and the left rows without a match, with NULLs.
    Left,
    /// As `Left`, and the right rows without a match. Not dependent.
    Full,
    /// The left rows with a match.
    Semi,
    /// The left rows without a match.
    Anti,
    /// As `Left`; fails with 21000 if a left row has two matches.
    Single,
    /// Each left row, and a truth value: true if it has a match; otherwise NULL if the condition is
    /// NULL for a pair; otherwise false.
    Mark(ColumnId),
}

/// The sets of keys by which rows are grouped, each set by itself: the result is the union of the
/// results of all sets. A key that is not in a set is NULL in the set's rows. A set without keys
/// has exactly one group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GroupingSets {
    /// The places of each set's keys among all keys.
    pub(crate) sets: Vec<Vec<usize>>,
    /// The columns of GROUPING(…), each with its value for each set.
    pub(crate) marks: Vec<(ColumnId, Vec<i32>)>,
}

impl GroupingSets {
    /// True if a key is in all sets.
    pub(crate) fn all_have(&self, key: usize) -> bool {
        self.sets.iter().all(|set| set.contains(&key))
    }
}

/// Window functions over one division of the rows. The rows whose partition columns are equal (NULL
/// equals NULL) are a partition, sorted by `order`; rows that are equal in it are peers, in any
/// order, so that a function that depends on the order of peers has any of its possible values. A
/// row's frame is a range of its partition around it; each call returns its function's value for
/// the row and its frame, as SQL defines it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) input: Rel,
    pub(crate) partition: Vec<ColumnId>,
    pub(crate) order: Vec<SortKey>,
    pub(crate) calls: Vec<(ColumnId, window::Call)>,
}

/// A set operation; its sides have the same number of columns, of the same types.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetOperation {
    pub(crate) op: SetOp,
    /// True if duplicates count.
    pub(crate) all: bool,
    pub(crate) columns: Vec<ColumnId>,
    /// Two sides, or more for UNION, each with its columns in the order of `columns`.
    pub(crate) sides: Vec<(Rel, Vec<ColumnId>)>,
}

/// The kind of a set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetOp {
    Union,
    Intersect,
    Except,
}

/// A column that rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortKey {
    pub(crate) column: ColumnId,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// A subquery in an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subquery {
    pub(crate) wants: Wants,
    pub(crate) rel: Rel,
}

/// The value of a subquery in an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wants {
    /// The column of its only row; NULL if it has none. Fails with 21000 if it has several rows.
    Value(ColumnId),
    /// True if it has a row.
    Existence,
    /// True if the condition is true for a row; otherwise NULL if it is NULL for a row; otherwise
    /// false. `x IN (…)` is the condition `x = column`.
    Any(Expr),
}

impl Rel {
    /// One row without columns.
    pub(crate) fn one_row() -> Rel {
        Rel::Values { columns: Vec::new(), rows: vec![Vec::new()] }
    }

    /// The rows for which all conditions are true.
    pub(crate) fn filter(self, conditions: Vec<Expr>) -> Rel {
        match Expr::all_of(conditions) {
            None => self,
            Some(condition) => Rel::Filter { input: Box::new(self), condition },
        }
    }

    /// A join.
    pub(crate) fn join(self, kind: JoinKind, right: Rel, on: Expr) -> Rel {
        Rel::Join(Box::new(Join { kind, left: self, right, on }))
    }

    /// The relations that it reads.
    pub(crate) fn inputs(&self) -> Vec<&Rel> {
        interrupt::step();
        match self {
            Rel::Values { .. } | Rel::Scan { .. } | Rel::Named { .. } | Rel::Functions(_) => {
                Vec::new()
            }
            Rel::Filter { input, .. }
            | Rel::Project { input, .. }
            | Rel::Aggregate { input, .. }
            | Rel::Distinct { input, .. }
            | Rel::Sort { input, .. }
            | Rel::Limit { input, .. }
            | Rel::Lock { input, .. } => vec![input],
            Rel::Window(window) => vec![&window.input],
            Rel::Join(join) => vec![&join.left, &join.right],
            Rel::Set(set) => set.sides.iter().map(|(rel, _)| rel).collect(),
            Rel::Recursive(query) => vec![&query.first.0, &query.step.0],
            Rel::With { definition, body, .. } => vec![definition, body],
        }
    }

    /// The relations that it reads.
    pub(crate) fn inputs_mut(&mut self) -> Vec<&mut Rel> {
        interrupt::step();
        match self {
            Rel::Values { .. } | Rel::Scan { .. } | Rel::Named { .. } | Rel::Functions(_) => {
                Vec::new()
            }
            Rel::Filter { input, .. }
            | Rel::Project { input, .. }
            | Rel::Aggregate { input, .. }
            | Rel::Distinct { input, .. }
            | Rel::Sort { input, .. }
            | Rel::Limit { input, .. }
            | Rel::Lock { input, .. } => vec![input],
            Rel::Window(window) => vec![&mut window.input],
            Rel::Join(join) => vec![&mut join.left, &mut join.right],
            Rel::Set(set) => set.sides.iter_mut().map(|(rel, _)| rel).collect(),
            Rel::Recursive(query) => vec![&mut query.first.0, &mut query.step.0],
            Rel::With { definition, body, .. } => vec![definition, body],
        }
    }

    /// The expressions of this operator itself.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        match self {
            Rel::Values { rows, .. } => rows.iter().flatten().collect(),
            Rel::Filter { condition, .. } => vec![condition],
            Rel::Project { outputs, .. } => outputs.iter().map(|(_, expr)| expr).collect(),
            Rel::Join(join) => vec![&join.on],
            Rel::Aggregate { aggregates, .. } => {
                aggregates.iter().flat_map(|(_, aggregate)| aggregate.exprs()).collect()
            }
            Rel::Window(window) => window.calls.iter().flat_map(|(_, call)| call.exprs()).collect(),
            Rel::Limit { limit, offset, .. } => limit.iter().chain(offset).collect(),
            Rel::Functions(functions) => {
                functions.calls.iter().flat_map(|(_, args)| args).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The columns of its rows.
    pub(crate) fn columns(&self) -> Vec<ColumnId> {
        interrupt::step();
        match self {
            Rel::Values { columns, .. }
            | Rel::Scan { columns, .. }
            | Rel::Named { columns, .. } => columns.clone(),
            Rel::Filter { input, .. }
            | Rel::Distinct { input, .. }
            | Rel::Sort { input, .. }
            | Rel::Limit { input, .. }
            | Rel::Lock { input, .. } => input.columns(),
            Rel::Project { outputs, .. } => outputs.iter().map(|(id, _)| *id).collect(),
            Rel::Join(join) => {
                let mut columns = join.left.columns();
                match join.kind {
                    JoinKind::Semi | JoinKind::Anti => {}
                    JoinKind::Mark(mark) => columns.push(mark),
                    _ => columns.extend(join.right.columns()),
                }
                columns
            }
            Rel::Aggregate { keys, sets, aggregates, .. } => {
                let marks = sets.iter().flat_map(|sets| &sets.marks).map(|(id, _)| *id);
                let aggregates = aggregates.iter().map(|(id, _)| *id);
                keys.iter().copied().chain(marks).chain(aggregates).collect()
            }
            Rel::Window(window) => {
                let mut columns = window.input.columns();
                columns.extend(window.calls.iter().map(|(id, _)| *id));
                columns
            }
            Rel::Set(set) => set.columns.clone(),
            Rel::Recursive(query) => query.columns.clone(),
            Rel::Functions(Functions { columns, ordinality, .. }) => {
                columns.iter().chain(ordinality).copied().collect()
            }
            Rel::With { body, .. } => body.columns(),
        }
    }

    /// Adds computed columns to its rows.
    pub(crate) fn with_columns(self, added: Vec<(ColumnId, Expr)>) -> Rel {
        let passed = self.columns().into_iter().map(|id| (id, Expr::Column(id)));
        let outputs = passed.chain(added).collect();
        Rel::Project { input: Box::new(self), outputs }
    }

    /// The columns of its rows that no input of it has.
    fn own_columns(&self) -> Vec<ColumnId> {
        match self {
            Rel::Filter { .. }
            | Rel::Distinct { .. }
            | Rel::Sort { .. }
            | Rel::Limit { .. }
            | Rel::Lock { .. }
            | Rel::With { .. } => Vec::new(),
            Rel::Join(join) => match join.kind {
                JoinKind::Mark(mark) => vec![mark],
                _ => Vec::new(),
            },
            Rel::Window(window) => window.calls.iter().map(|(id, _)| *id).collect(),
            makes_all => makes_all.columns(),
        }
    }

    /// The columns that it names beside its expressions.
    fn keys(&self) -> Vec<ColumnId> {
        match self {
            Rel::Aggregate { keys, .. } => keys.clone(),
            Rel::Distinct { on, .. } => on.clone(),
            Rel::Sort { by, .. } => by.iter().map(|key| key.column).collect(),
            Rel::Lock { locks, .. } => locks.iter().map(|locks| locks.of).collect(),
            Rel::Window(window) => {
                let order = window.order.iter().map(|key| key.column);
                window.partition.iter().copied().chain(order).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The columns that it names and that none of its relations has: those of enclosing relations.
    pub(crate) fn free_columns(&self) -> BTreeSet<ColumnId> {
        let (mut named, mut made) = (BTreeSet::new(), BTreeSet::new());
        self.gather_columns(&mut named, &mut made);
        named.retain(|column| !made.contains(column));
        named
    }

    fn gather_columns(&self, named: &mut BTreeSet<ColumnId>, made: &mut BTreeSet<ColumnId>) {
        for expr in self.exprs() {
            expr.each_column(&mut |column| _ = named.insert(column));
        }
        named.extend(self.keys());
        made.extend(self.own_columns());
        for input in self.inputs() {
            input.gather_columns(named, made);
        }
    }
}
