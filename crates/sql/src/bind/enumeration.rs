//! `enum_first`, `enum_last` and `enum_range`: functions of a type, not of a value.

use super::{Binder, Typed};
use crate::array::Array;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::function;
use crate::types::Type;
use sqlparser::ast;
use std::sync::Arc;

impl Binder {
    /// Binds a function that lists the values of an enum type, which is that of its arguments.
    pub(super) fn enum_values(
        &mut self,
        name: &str,
        args: &[&ast::Expr],
    ) -> Result<Typed, SqlError> {
        let bound = self.bind_all(args)?;
        let types: Vec<_> = bound.iter().map(|arg| self.type_of(arg)).collect();
        let is_range = name == "enum_range";
        let of = types.iter().flatten().find_map(|ty| match ty {
            Type::Enum(of) => Some(*of),
            _ => None,
        });
        let takes = bound.len() == 1 || (is_range && bound.len() == 2);
        let Some(of) = of.filter(|_| takes) else {
            if takes && types.iter().all(Option::is_none) {
                let message = "could not determine polymorphic type because input has type unknown";
                return Err(SqlError::new(state::TYPE_MISMATCH, message));
            }
            return Err(function::missing(name, &types));
        };
        if types.iter().flatten().any(|ty| *ty != Type::Enum(of)) {
            return Err(function::missing(name, &types));
        }
        let mut values = of.values().map(Datum::Enum);
        if !is_range {
            let end = if name == "enum_first" { values.next() } else { values.next_back() };
            let empty = || {
                let message = format!("enum {} contains no values", of.shown());
                SqlError::new(state::NOT_IN_STATE, message)
            };
            let end = Typed::of(Expr::Const(end.ok_or_else(empty)?), Type::Enum(of));
            return self.apply(function::ENUM_END, vec![end]);
        }
        let all = Array::of(Type::Enum(of), values.collect())?;
        let all = Typed::of(Expr::Const(Datum::Array(Arc::new(all))), Type::Enum(of).array());
        let (low, high) = match <[Typed; 2]>::try_from(bound) {
            Ok([low, high]) => (low, high),
            Err(_) => {
                let open = Typed::of(Expr::Const(Datum::Null), Type::Enum(of));
                (open.clone(), open)
            }
        };
        self.apply(function::ENUM_RANGE, vec![low, high, all])
    }
}
