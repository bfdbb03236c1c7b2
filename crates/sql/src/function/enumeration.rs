//! Functions of enum types. The binder gives them the values of the type.
//!
//! None is immutable: a type gets new labels.

use super::{Function, Out, Param, array_at, wrong_type};
use crate::array::Array;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Scope;
use std::sync::Arc;

/// `enum_range` of two bounds: the binder adds the array of all values.
pub(crate) const ENUM_RANGE: &str = "enum_range of";
/// `enum_first` or `enum_last`: the binder gives it that value.
pub(crate) const ENUM_END: &str = "enum_end of";

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new(ENUM_END, &[Param::Common], Out::Common, |args, _| {
        args.first().cloned().ok_or_else(wrong_type)
    })
    .stable(),
    Function::new(ENUM_RANGE, &[Param::Common, Param::Common, Param::Array], Out::Array, range)
        .lenient()
        .stable(),
];

/// Returns the values from the first bound to the last; a NULL is no bound.
fn range(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let all = array_at(args, 2)?;
    let is_in = |value: &&Datum| {
        (args[0].is_null() || args[0].order(value).is_le())
            && (args[1].is_null() || value.order(&args[1]).is_le())
    };
    let values = all.values().iter().filter(is_in).cloned().collect();
    Ok(Datum::Array(Arc::new(Array::of(all.element, values)?)))
}
