//! The names of types in a statement, which are looked up before it is bound.

use crate::names::{self, Qualified};
use sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ArrayElemTypeDef, DataType, Expr, ObjectName,
    Statement, UserDefinedTypeRepresentation, Visit,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Returns the type that an expression names.
pub(crate) fn of(expr: &Expr) -> Option<&DataType> {
    match expr {
        Expr::Cast { data_type, .. } => Some(data_type),
        Expr::TypedString(typed) => Some(&typed.data_type),
        _ => None,
    }
}

/// Returns the type that an expression names, to be changed.
pub(crate) fn of_mut(expr: &mut Expr) -> Option<&mut DataType> {
    match expr {
        Expr::Cast { data_type, .. } => Some(data_type),
        Expr::TypedString(typed) => Some(&mut typed.data_type),
        _ => None,
    }
}

/// Returns the name of a type, or of its elements, if it is one that the database may have.
pub(crate) fn element(ty: &DataType) -> Option<&ObjectName> {
    match ty {
        DataType::Custom(name, _) => Some(name),
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => self::element(element),
        _ => None,
    }
}

/// Returns the names of the types that expressions may have of their database.
pub(crate) fn in_expressions(part: &impl Visit) -> BTreeSet<Qualified> {
    let mut names = BTreeSet::new();
    let _ = ast::visit_expressions(part, |expr| {
        names.extend(of(expr).and_then(names::enumeration));
        ControlFlow::<()>::Continue(())
    });
    names
}

/// Returns the names of the types that a statement may have of its database: in its expressions,
/// and in the columns that it defines.
pub(crate) fn in_statement(statement: &Statement) -> BTreeSet<Qualified> {
    let mut names = in_expressions(statement);
    match statement {
        Statement::CreateTable(create) => {
            let types = create.columns.iter().map(|column| &column.data_type);
            names.extend(types.filter_map(names::enumeration));
        }
        Statement::CreateType {
            representation: Some(UserDefinedTypeRepresentation::Composite { attributes }),
            ..
        } => {
            let types = attributes.iter().map(|attribute| &attribute.data_type);
            names.extend(types.filter_map(names::enumeration));
        }
        Statement::AlterTable(alter) => {
            let types = alter.operations.iter().filter_map(|operation| match operation {
                AlterTableOperation::AddColumn { column_def, .. } => Some(&column_def.data_type),
                AlterTableOperation::AlterColumn {
                    op: AlterColumnOperation::SetDataType { data_type, .. },
                    ..
                } => Some(data_type),
                _ => None,
            });
            names.extend(types.filter_map(names::enumeration));
        }
        _ => {}
    }
    names
}
