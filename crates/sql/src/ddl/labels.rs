//! A new name of a label of an enum type, in the texts that have it as a literal.
//!
//! A literal has its type from what stands beside it: a text that names the label by the old name
//! cannot be bound any more.

use crate::bind::Binder;
use crate::catalog::{Table, UserType};
use crate::enumeration::Enum;
use crate::error::{SqlError, state};
use crate::names;
use crate::parse;
use crate::types::Type;
use sqlparser::ast::{Expr, Value};

/// Says of a text that could not be bound that it has the old name of a label.
pub(super) fn named_by(error: SqlError, label: &str, kind: &str, name: &str) -> SqlError {
    if error.sqlstate != state::BAD_TEXT {
        return error;
    }
    SqlError::unsupported(format!("renaming the label \"{label}\", which a {kind} names,"))
        .detail(format!("The {kind} \"{name}\": {}", error.message))
        .hint("Drop it, and create it again.")
}

/// Returns the literal that is all of an expression, if it is one of a type: by itself where
/// `is_its`, or by a cast.
fn whole(expr: &mut Expr, ty: Enum, is_its: bool) -> Option<&mut Value> {
    match expr {
        Expr::Nested(inner) => whole(inner, ty, is_its),
        Expr::Value(value) => is_its.then_some(&mut value.value),
        Expr::Cast { expr, data_type, .. } => {
            whole(expr, ty, names::is_user_type(data_type, UserType::Enum(ty)))
        }
        _ => None,
    }
}

/// Gives a label another name in the defaults of a table, and binds all that the table stores.
/// Fails with 0A000 if an expression names the label otherwise.
pub(super) fn rename_in(table: &mut Table, ty: Enum, from: &str, to: &str) -> Result<(), SqlError> {
    for column in table.columns.iter_mut() {
        let Some(text) = &mut column.default else { continue };
        let mut expr = parse::expression(text)?;
        if let Some(value) = whole(&mut expr, ty, column.ty == Type::Enum(ty))
            && value.clone().into_string().as_deref() == Some(from)
        {
            *value = Value::SingleQuotedString(to.to_owned());
            *text = expr.to_string();
        }
    }
    for column in 0..table.columns.len() {
        let name = table.columns[column].name.clone();
        let bound = Binder::new(&[]).default_of(table, column);
        bound.map_err(|error| named_by(error, from, "default", &name))?;
    }
    let bound = table.bind_stored();
    bound.map_err(|error| named_by(error, from, "stored expression of the table", &table.name))
}
