//! The functions that make the columns of SEARCH and CYCLE. No statement can name them.

use super::{Function, Out, Param};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Scope;
use crate::record;
use crate::types::Type;

/// A row with its depth, from the row before and the fields.
pub(crate) static DEEPER: Function =
    Function::new("search breadth", &[Param::Any], Out::Of(Type::Record), deeper)
        .variadic()
        .lenient();
/// An array of rows, from the rows before and the fields of the last one.
pub(crate) static APPEND: Function =
    Function::new("search depth", &[Param::Any], Out::Of(Type::Records), append)
        .variadic()
        .lenient();
/// Whether an array of rows has the row of these fields.
pub(crate) static CONTAINS: Function =
    Function::new("cycle", &[Param::Any], Out::Of(Type::Bool), contains).variadic().lenient();

fn split(args: &[Datum]) -> (&Datum, &[Datum]) {
    args.split_first().unwrap_or((&Datum::Null, &[]))
}

fn deeper(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let (before, fields) = split(args);
    record::deeper(before, fields, scope.session.zone())
}

fn append(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let (before, fields) = split(args);
    record::append(before, fields, scope.session.zone())
}

fn contains(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let (rows, fields) = split(args);
    record::contains(rows, fields).map(Datum::Bool)
}
