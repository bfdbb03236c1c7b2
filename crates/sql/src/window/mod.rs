//! The catalog of window functions, the frames of windows, and their values over a partition.
//!
//! Each aggregate is a window function as well. [`resolve`] chooses a form by the rules of scalar
//! functions.

mod frame;
mod value;

#[cfg(test)]
pub(crate) use frame::in_range;
pub(crate) use value::{Offsets, Partition};

use crate::aggregate::Aggregate;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::function::of::*;
use crate::function::{self, Form, Out, Param};
use crate::types::Type;

/// A window function that is not an aggregate.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    params: &'static [Param],
    result: Out,
    pub(crate) kind: Kind,
}

/// The value of a window function for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The row's number in its partition.
    RowNumber,
    /// The number of the first of its peers.
    Rank,
    /// The number of its group of peers.
    DenseRank,
    /// The part of the other rows that is before its peers.
    PercentRank,
    /// The part of the rows that is not behind its peers.
    CumeDist,
    /// The number of its part, if the partition has so many parts of equal size.
    Ntile,
    /// A value of a row before it.
    Lag,
    /// A value of a row behind it.
    Lead,
    /// A value of the frame's first row.
    First,
    /// A value of the frame's last row.
    Last,
    /// A value of a row of the frame, by its number.
    Nth,
}

const fn row(name: &'static str, params: &'static [Param], result: Out, kind: Kind) -> Function {
    Function { name, params, result, kind }
}

const ANY: Param = Param::Common;
const THAT: Out = Out::Common;

static FUNCTIONS: [Function; 15] = [
    row("row_number", &[], AN_INT8, Kind::RowNumber),
    row("rank", &[], AN_INT8, Kind::Rank),
    row("dense_rank", &[], AN_INT8, Kind::DenseRank),
    row("percent_rank", &[], A_FLOAT8, Kind::PercentRank),
    row("cume_dist", &[], A_FLOAT8, Kind::CumeDist),
    row("ntile", &[INT4], AN_INT4, Kind::Ntile),
    row("lag", &[ANY], THAT, Kind::Lag),
    row("lag", &[ANY, INT4], THAT, Kind::Lag),
    row("lag", &[ANY, INT4, ANY], THAT, Kind::Lag),
    row("lead", &[ANY], THAT, Kind::Lead),
    row("lead", &[ANY, INT4], THAT, Kind::Lead),
    row("lead", &[ANY, INT4, ANY], THAT, Kind::Lead),
    row("first_value", &[ANY], THAT, Kind::First),
    row("last_value", &[ANY], THAT, Kind::Last),
    row("nth_value", &[ANY, INT4], THAT, Kind::Nth),
];

impl Form for Function {
    fn params(&self) -> &[Param] {
        self.params
    }

    fn is_variadic(&self) -> bool {
        false
    }

    fn result(&self) -> Out {
        self.result
    }
}

/// Rows of the catalog are the same only if they are one.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Iterates over all window functions that are no aggregates.
pub(crate) fn all() -> impl Iterator<Item = &'static Function> {
    FUNCTIONS.iter()
}

/// True if there is a window function of this name that is not an aggregate.
pub(crate) fn exists(name: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.name == name)
}

/// Chooses the form of a window function for arguments of these types, as PostgreSQL does.
pub(crate) fn resolve(
    name: &str,
    args: &[Option<Type>],
) -> Result<function::Call<'static, Function>, SqlError> {
    let forms: Vec<_> = FUNCTIONS.iter().filter(|function| function.name == name).collect();
    function::choose(name, &forms, args)
}

/// A call of a window function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) work: Work,
    pub(crate) frame: Frame,
}

/// The function of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Work {
    Function(&'static Function, Vec<Expr>),
    /// An aggregate of the rows of the frame.
    Aggregate(Aggregate),
}

/// The rows around a row that a window function sees.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) units: Units,
    pub(crate) start: Bound,
    pub(crate) end: Bound,
    pub(crate) exclude: Exclude,
}

/// The unit of a frame's offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    Rows,
    /// Differences of the values that the partition is sorted by.
    Range,
    /// Groups of peers: rows that are equal in the order.
    Groups,
}

/// An end of a frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bound {
    /// The partition's first row for the start, its last row for the end.
    Unbounded,
    Preceding(Expr),
    Current,
    Following(Expr),
}

/// The rows of a frame that are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exclude {
    Nothing,
    CurrentRow,
    /// The current row and its peers.
    Group,
    /// The peers of the current row.
    Ties,
}

impl Frame {
    /// The frame of a window without one: all rows up to the last peer of the current row.
    pub(crate) fn usual() -> Frame {
        Frame {
            units: Units::Range,
            start: Bound::Unbounded,
            end: Bound::Current,
            exclude: Exclude::Nothing,
        }
    }
}

impl Bound {
    /// Returns its offset.
    pub(crate) fn offset(&self) -> Option<&Expr> {
        match self {
            Bound::Preceding(offset) | Bound::Following(offset) => Some(offset),
            _ => None,
        }
    }

    fn offset_mut(&mut self) -> Option<&mut Expr> {
        match self {
            Bound::Preceding(offset) | Bound::Following(offset) => Some(offset),
            _ => None,
        }
    }
}

impl Call {
    /// Returns the expressions over the rows, then the offsets of the frame.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        let mut exprs = match &self.work {
            Work::Function(_, args) => args.iter().collect(),
            Work::Aggregate(aggregate) => aggregate.exprs(),
        };
        exprs.extend(self.frame.start.offset().into_iter().chain(self.frame.end.offset()));
        exprs
    }

    /// Returns the expressions over the rows, then the offsets of the frame.
    pub(crate) fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        let mut exprs = match &mut self.work {
            Work::Function(_, args) => args.iter_mut().collect(),
            Work::Aggregate(aggregate) => aggregate.exprs_mut(),
        };
        exprs.extend(self.frame.start.offset_mut());
        exprs.extend(self.frame.end.offset_mut());
        exprs
    }

    /// Returns its name, for plans.
    pub(crate) fn name(&self) -> &'static str {
        match &self.work {
            Work::Function(function, _) => function.name,
            Work::Aggregate(aggregate) => aggregate.function.name,
        }
    }
}
