//! The texts of expressions that are stored: sequences are named by their ids, so that they may be
//! renamed.

use super::Ddl;
use crate::catalog::{self, Object};
use crate::enumeration::Enum;
use crate::error::{SqlError, state};
use crate::names;
use crate::sequence;
use meridian_txn::Lock;
use sqlparser::ast::{self, CastKind, DataType, Expr, Value};
use std::ops::ControlFlow;

/// Says of a type that a stored expression cannot name why: its table has no column of the type.
pub(super) fn foreign_type(error: SqlError, types: &[Enum]) -> SqlError {
    let is_missing = |ty: &&Enum| {
        let message = format!("type \"{}\" does not exist", ty.descriptor().name);
        error.sqlstate == state::UNDEFINED_OBJECT && error.message == message
    };
    match types.iter().find(is_missing) {
        Some(ty) => SqlError::unsupported(format!(
            "the type {} in a stored expression of a table that has no column of it",
            ty.shown()
        )),
        None => error,
    }
}

/// Returns the text of an expression to be stored: sequences are named by their ids. Fails with
/// 42P01 if there is none of a name.
pub(super) async fn stored(cx: &mut Ddl<'_>, expr: &Expr) -> Result<String, SqlError> {
    let mut found: Vec<String> = Vec::new();
    let _ = ast::visit_expressions(expr, |part| {
        found.extend(sequence::literal_of(part).map(str::to_owned));
        ControlFlow::<()>::Continue(())
    });
    if found.is_empty() {
        return Ok(expr.to_string());
    }
    let mut ids = Vec::with_capacity(found.len());
    for text in found {
        let missing = || {
            let message = format!("relation \"{text}\" does not exist");
            SqlError::new(state::UNDEFINED_TABLE, message)
        };
        let name = names::written(&text).ok_or_else(missing)?;
        let cache = &cx.engine.cache;
        let object = catalog::object_by_name(cx.txn, cache, &name, cx.clean, Lock::Shared);
        match object.await?.ok_or_else(missing)? {
            Object::Sequence(sequence) => ids.push((text, sequence.id)),
            other => return Err(catalog::not_a("sequence", other.name())),
        }
    }
    let mut expr = expr.clone();
    let _ = ast::visit_expressions_mut(&mut expr, |part| {
        if let Some(text) = sequence::literal_of(part).map(str::to_owned)
            && let Some((_, id)) = ids.iter().find(|(name, _)| *name == text)
            && let Expr::Function(call) = part
            && let ast::FunctionArguments::List(list) = &mut call.args
            && let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(first))) =
                list.args.first_mut()
        {
            *first = Expr::Cast {
                kind: CastKind::DoubleColon,
                expr: Box::new(Expr::value(Value::SingleQuotedString(id.to_string()))),
                data_type: DataType::Regclass,
                array: false,
                format: None,
            };
        }
        ControlFlow::<()>::Continue(())
    });
    debug_assert!(ids.iter().all(|(_, id)| expr.to_string().contains(&sequence::reference(*id))));
    Ok(expr.to_string())
}
