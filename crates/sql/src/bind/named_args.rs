//! Arguments by name of PostgreSQL's functions: `make_interval(days => 10)`.

use crate::error::{SqlError, state};
use crate::names;
use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArgOperator, Value};
use std::sync::LazyLock;

static ZERO: LazyLock<Expr> = LazyLock::new(|| value(Value::Number("0".to_owned(), false)));
static FALSE: LazyLock<Expr> = LazyLock::new(|| value(Value::Boolean(false)));
static EMPTY_OBJECT: LazyLock<Expr> =
    LazyLock::new(|| value(Value::SingleQuotedString("{}".to_owned())));

fn value(value: Value) -> Expr {
    Expr::Value(value.into())
}

/// A parameter: its name and its default, if it has one.
type Param = (&'static str, Option<&'static LazyLock<Expr>>);

/// The parameters of `make_interval`.
const PARTS: [Param; 7] = [
    ("years", Some(&ZERO)),
    ("months", Some(&ZERO)),
    ("weeks", Some(&ZERO)),
    ("days", Some(&ZERO)),
    ("hours", Some(&ZERO)),
    ("mins", Some(&ZERO)),
    ("secs", Some(&ZERO)),
];

/// The parameters of the functions of `jsonpath`.
const OF_PATHS: [Param; 4] =
    [("target", None), ("path", None), ("vars", Some(&EMPTY_OBJECT)), ("silent", Some(&FALSE))];

/// Returns the parameters of a function whose arguments may have names.
fn params(function: &str) -> Option<&'static [Param]> {
    match function {
        "make_interval" => Some(&PARTS),
        _ if function.starts_with("jsonb_path_") => Some(&OF_PATHS),
        _ => None,
    }
}

/// Returns the arguments of a call in the order of the parameters, with the defaults of those that
/// are left out. A call without names keeps its arguments, unless its function has no form for
/// them.
pub(super) fn in_order<'a>(
    function: &str,
    args: &'a [FunctionArg],
) -> Result<Vec<&'a Expr>, SqlError> {
    let has_names = args.iter().any(|arg| matches!(arg, FunctionArg::Named { .. }));
    let Some(params) = params(function).filter(|_| has_names || function == "make_interval") else {
        return names::unnamed(args);
    };
    let missing = || {
        let message = format!("function {function} with these arguments does not exist");
        SqlError::new(state::UNDEFINED_FUNCTION, message)
    };
    let mut given: Vec<Option<&Expr>> = vec![None; params.len()];
    let mut is_named = false;
    for (position, arg) in args.iter().enumerate() {
        let (at, value) = match arg {
            FunctionArg::Unnamed(value) if !is_named => (Some(position), value),
            FunctionArg::Unnamed(_) => {
                let message = "positional argument cannot follow named argument";
                return Err(SqlError::new(state::SYNTAX, message));
            }
            FunctionArg::Named {
                name,
                arg,
                operator: FunctionArgOperator::RightArrow | FunctionArgOperator::Assignment,
            } => {
                is_named = true;
                let name = names::fold(name);
                (params.iter().position(|(param, _)| *param == name), arg)
            }
            other => return Err(SqlError::unsupported(format!("the argument {other}"))),
        };
        let FunctionArgExpr::Expr(value) = value else {
            return Err(SqlError::unsupported(format!("the argument {arg}")));
        };
        let at = at.filter(|at| *at < params.len()).ok_or_else(missing)?;
        let is_twice = given[at].replace(value).is_some();
        if is_twice && matches!(args.get(at), Some(FunctionArg::Unnamed(_))) {
            return Err(missing());
        }
        if is_twice {
            let message = format!("argument name \"{}\" used more than once", params[at].0);
            return Err(SqlError::new(state::SYNTAX, message));
        }
    }
    let defaults = params.iter().map(|(_, default)| default.map(|default| &**default));
    let values = given.into_iter().zip(defaults).map(|(value, default)| value.or(default));
    values.map(|value| value.ok_or_else(missing)).collect()
}

/// Returns the arguments of a call, as [`in_order`] does.
pub(super) fn of_call(call: &ast::Function) -> Result<Vec<&Expr>, SqlError> {
    match &call.args {
        ast::FunctionArguments::List(list) => {
            in_order(&names::function_name(&call.name), &list.args)
        }
        _ => names::arguments(call),
    }
}
