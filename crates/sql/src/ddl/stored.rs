//! The texts of expressions that are stored: sequences and types are named by their ids, so that
//! they may be renamed, and are found whatever the search path.

use super::{Ddl, users};
use crate::bind::Binder;
use crate::catalog::{self, Object, Table, UserType};
use crate::error::{SqlError, state};
use crate::names::{self, Qualified};
use crate::sequence;
use crate::type_names;
use sqlparser::ast::{self, CastKind, DataType, Expr, Ident, Value};
use std::ops::ControlFlow;

/// Fails with 0A000 if a literal would be another time in UTC, in which stored texts are read, than
/// in the session's zone.
pub(super) fn refuse_zone(cx: &Ddl<'_>, reads_zone: bool) -> Result<(), SqlError> {
    if !reads_zone || cx.facts.zone().only_offset() == Some(0) {
        return Ok(());
    }
    Err(SqlError::unsupported(
        "a stored literal of type timestamp with time zone that names no zone, in a session whose \
         TimeZone is not UTC",
    )
    .hint("Write the zone into it: '2020-01-01 12:00+01'."))
}

/// Fails as [`refuse_zone`] does for the default of a column.
pub(super) fn check_default(cx: &Ddl<'_>, table: &Table, column: usize) -> Result<(), SqlError> {
    let mut binder = Binder::new(&[]);
    binder.default_of(table, column)?;
    refuse_zone(cx, binder.reads_zone)
}

/// Says of a type that a stored expression cannot name why: its table has no column of the type.
pub(super) fn foreign_type(error: SqlError, mut types: impl Iterator<Item = UserType>) -> SqlError {
    let is_missing = |ty: &UserType| {
        let names = [&*names::reference(ty.id()).value, ty.name()];
        let is_of = |name| error.message == format!("type \"{name}\" does not exist");
        error.sqlstate == state::UNDEFINED_OBJECT && names.into_iter().any(is_of)
    };
    match types.find(is_missing) {
        Some(ty) => SqlError::unsupported(format!(
            "the type {} in a stored expression of a table that has no column of it",
            ty.shown()
        )),
        None => error,
    }
}

/// Lets an expression name the database's types by their ids.
pub(super) fn refer_to_types(expr: &mut Expr, types: &[(Qualified, UserType)]) {
    let _ = ast::visit_expressions_mut(expr, |part| {
        if let Some(ty) = type_names::of_mut(part) {
            refer_to(ty, types);
        }
        ControlFlow::<()>::Continue(())
    });
}

fn refer_to(ty: &mut DataType, types: &[(Qualified, UserType)]) {
    if let DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)) = ty {
        return refer_to(element, types);
    }
    let Some(name) = names::enumeration(ty) else { return };
    if let Some((_, found)) = types.iter().find(|(other, _)| *other == name) {
        let name = ast::ObjectName::from(vec![names::reference(found.id())]);
        *ty = DataType::Custom(name, Vec::new());
    }
}

/// Returns the text of an expression, as it is stored and shown: without brackets around it, and
/// with PostgreSQL's names of types, so that the text of what is shown is the same.
pub(super) fn text_of(expr: &Expr) -> String {
    let mut expr = expr;
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    let mut expr = expr.clone();
    let _ = ast::visit_expressions_mut(&mut expr, |part| {
        if let Expr::TypedString(typed) = part
            && !matches!(typed.data_type, DataType::Char(None) | DataType::Character(None))
        {
            *part = Expr::Cast {
                kind: CastKind::DoubleColon,
                expr: Box::new(Expr::Value(typed.value.clone())),
                data_type: typed.data_type.clone(),
                array: false,
                format: None,
            };
        }
        if let Some(ty) = type_names::of_mut(part)
            && let Some(name) = written(ty)
        {
            *ty = DataType::Custom(ast::ObjectName::from(vec![Ident::new(name)]), Vec::new());
        }
        ControlFlow::<()>::Continue(())
    });
    expr.to_string()
}

/// Returns PostgreSQL's name of a type that is written by a key word. `None` leaves it as it is:
/// so the names of sequences are told from other casts to `regclass`.
fn written(ty: &DataType) -> Option<String> {
    match ty {
        DataType::Regclass | DataType::Custom(..) => None,
        ty => names::data_type(ty, &[]).ok().map(|ty| ty.to_string()),
    }
}

/// Returns the text of an expression to be stored: types and sequences are named by their ids.
/// Fails with 42P01 if there is none of a name.
pub(super) async fn stored(cx: &mut Ddl<'_>, expr: &Expr) -> Result<String, SqlError> {
    let mut found: Vec<String> = Vec::new();
    let _ = ast::visit_expressions(expr, |part| {
        found.extend(sequence::literal_of(part).map(str::to_owned));
        ControlFlow::<()>::Continue(())
    });
    let mut ids = Vec::with_capacity(found.len());
    for text in found {
        let missing = || {
            let message = format!("relation \"{text}\" does not exist");
            SqlError::new(state::UNDEFINED_TABLE, message)
        };
        let name = names::written(&text).ok_or_else(missing)?;
        match cx.object(&name).await?.ok_or_else(missing)? {
            Object::Sequence(sequence) => {
                users::keep(cx, sequence.id);
                ids.push((text, sequence.id));
            }
            other => return Err(catalog::not_a("sequence", other.name())),
        }
    }
    let mut expr = expr.clone();
    refer_to_types(&mut expr, &cx.types);
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
    Ok(text_of(&expr))
}
