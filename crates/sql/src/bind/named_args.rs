//! Arguments by name, which `make_interval` has: `make_interval(days => 10)`.

use super::{Binder, Typed};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::names;
use crate::types::Type;
use sqlparser::ast;

/// The parameters of `make_interval`.
const PARTS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];

impl Binder {
    /// Binds a call of `make_interval`; parts that are left out are zero.
    pub(super) fn make_interval(&mut self, call: &ast::Function) -> Result<Typed, SqlError> {
        let ast::FunctionArguments::List(list) = &call.args else {
            return Err(SqlError::unsupported("make_interval without a list of arguments"));
        };
        let ast::FunctionArgumentList { duplicate_treatment, args, clauses } = list;
        if duplicate_treatment.is_some() || !clauses.is_empty() {
            return Err(SqlError::unsupported("DISTINCT or clauses in make_interval"));
        }
        let mut parts: [Option<&ast::Expr>; 7] = [None; 7];
        let mut is_named = false;
        for (position, arg) in args.iter().enumerate() {
            let (at, value) = match arg {
                ast::FunctionArg::Unnamed(value) if !is_named => (position, value),
                ast::FunctionArg::Unnamed(_) => {
                    let message = "positional argument cannot follow named argument";
                    return Err(SqlError::new(state::SYNTAX, message));
                }
                ast::FunctionArg::Named {
                    name,
                    arg,
                    operator:
                        ast::FunctionArgOperator::RightArrow | ast::FunctionArgOperator::Assignment,
                } => {
                    is_named = true;
                    let name = names::fold(name);
                    let at = PARTS.iter().position(|part| *part == name);
                    (at.unwrap_or(PARTS.len()), arg)
                }
                other => return Err(SqlError::unsupported(format!("the argument {other}"))),
            };
            let ast::FunctionArgExpr::Expr(value) = value else {
                return Err(SqlError::unsupported(format!("the argument {arg}")));
            };
            match parts.get_mut(at) {
                Some(part @ None) => *part = Some(value),
                Some(Some(_)) => {
                    let message = format!("argument name \"{}\" used more than once", PARTS[at]);
                    return Err(SqlError::new(state::SYNTAX, message));
                }
                None => {
                    let message = "function make_interval with these arguments does not exist";
                    return Err(SqlError::new(state::UNDEFINED_FUNCTION, message));
                }
            }
        }
        let mut bound = Vec::with_capacity(PARTS.len());
        for (at, part) in parts.into_iter().enumerate() {
            bound.push(match part {
                Some(part) => self.bind(part)?,
                None if at == PARTS.len() - 1 => {
                    Typed::of(Expr::Const(Datum::Float8(0.0)), Type::Float8)
                }
                None => Typed::of(Expr::Const(Datum::Int4(0)), Type::Int4),
            });
        }
        self.apply("make_interval", bound)
    }
}
