//! ALTER TYPE … ATTRIBUTE: the fields of a composite type.
//!
//! The parser does not know it, so that it is parsed as ALTER TABLE … COLUMN. Values stay as they
//! are: a field that is added is NULL in them, and one that is dropped keeps its number.

use super::types::{attribute_of, open, put_composite, replace};
use super::{Ddl, users};
use crate::catalog::{ColumnDef, Object, UserType};
use crate::clauses;
use crate::composite::{Attribute, Descriptor};
use crate::error::{SqlError, state};
use crate::names;
use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation, Ident};

/// Finds a field.
fn find(ty: &Descriptor, name: &Ident) -> Result<usize, SqlError> {
    let name = names::fold(name);
    let is_it = |it: &Attribute| it.name == name && !it.dropped;
    ty.attributes.iter().position(is_it).ok_or_else(|| {
        let message = format!("column \"{name}\" of relation \"{}\" does not exist", ty.name);
        SqlError::new(state::UNDEFINED_COLUMN, message)
    })
}

/// Fails with 42701 if there is a field of a name.
fn check_new(ty: &Descriptor, name: &Ident) -> Result<(), SqlError> {
    match find(ty, name) {
        Err(_) => Ok(()),
        Ok(at) => {
            let (name, ty) = (&ty.attributes[at].name, &ty.name);
            let message = format!("column \"{name}\" of relation \"{ty}\" already exists");
            Err(SqlError::new(state::DUPLICATE_COLUMN, message))
        }
    }
}

/// Returns a field of a type that exists. Fails with 42P16 if its values would have values of the
/// type itself.
fn attribute_in(
    cx: &Ddl<'_>,
    of: UserType,
    name: &Ident,
    data_type: &ast::DataType,
) -> Result<Attribute, SqlError> {
    let attribute = attribute_of(cx, name, data_type)?;
    let mut types = Vec::new();
    attribute.ty.each_user_type(&mut types);
    if types.contains(&of) {
        let message = format!("composite type {} cannot be made a member of itself", of.name());
        return Err(SqlError::new(state::INVALID_TABLE, message));
    }
    Ok(attribute)
}

/// Fails with 0A000 if a key of a table has a type, whose values it would then sort otherwise.
pub(super) async fn refuse_keys(cx: &mut Ddl<'_>, old: UserType) -> Result<(), SqlError> {
    for user in users::of(cx, old.id()).await? {
        if let Object::Table(table) = user
            && let Some(index) = table.key_with(old)
        {
            let what = "dropping a field of a type that an index has";
            return Err(
                SqlError::unsupported(what).detail(format!("The index \"{}\" has it.", index.name))
            );
        }
    }
    Ok(())
}

/// Fails with 0A000 if a table has columns of a type, whose values would be of another type.
async fn refuse_used(cx: &mut Ddl<'_>, old: UserType) -> Result<(), SqlError> {
    let users = users::of(cx, old.id()).await?;
    let is_table = |user: &&Object| matches!(user, Object::Table(_));
    let Some(user) = users.iter().find(is_table).or(users.first()) else { return Ok(()) };
    let of = match user {
        Object::Table(table) => {
            let has_it = |column: &ColumnDef| {
                let mut types = Vec::new();
                column.ty.each_user_type(&mut types);
                types.contains(&old)
            };
            let found = table.present().find(|(_, column)| has_it(column));
            found
                .map_or_else(|| table.name.clone(), |(_, it)| format!("{}.{}", table.name, it.name))
        }
        other => other.name().to_owned(),
    };
    let message = format!("cannot alter type \"{}\" because column \"{of}\" uses it", old.name());
    Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
}

/// Runs the actions in order.
pub(super) async fn alter(cx: &mut Ddl<'_>, alter: &ast::AlterTable) -> Result<(), SqlError> {
    let name = names::relation(&alter.name)?;
    let not_one = || {
        let message = format!("\"{}\" is not a composite type", name.name);
        SqlError::new(state::WRONG_OBJECT, message)
    };
    let old = match open(cx, &name).await {
        // A type of the system, or the row type of a table.
        Err(error) if error.sqlstate == state::WRONG_OBJECT => return Err(not_one()),
        found => found?,
    };
    let UserType::Composite(of) = old else { return Err(not_one()) };
    let mut new = of.descriptor().clone();
    new.version += 1;
    for operation in &alter.operations {
        match operation {
            AlterTableOperation::AddColumn {
                column_def: ast::ColumnDef { name, data_type, options },
                if_not_exists: false,
                ..
            } => {
                for option in options {
                    match &option.option {
                        ast::ColumnOption::Collation(name) => clauses::collation(name)?,
                        other => {
                            let what = format!("the option {other} of an attribute");
                            return Err(SqlError::unsupported(what));
                        }
                    }
                }
                check_new(&new, name)?;
                new.attributes.push(attribute_in(cx, old, name, data_type)?);
            }
            AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
                refuse_keys(cx, old).await?;
                for name in column_names {
                    match find(&new, name) {
                        Ok(at) => new.attributes[at].drop(at),
                        Err(error) if *if_exists => {
                            let message = format!("{}, skipping", error.message);
                            cx.notices.push(SqlError::new(state::SUCCESSFUL, message));
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            AlterTableOperation::AlterColumn {
                column_name,
                op: AlterColumnOperation::SetDataType { data_type, using: None, .. },
            } => {
                let at = find(&new, column_name)?;
                refuse_used(cx, old).await?;
                new.attributes[at] = attribute_in(cx, old, column_name, data_type)?;
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let at = find(&new, old_column_name)?;
                check_new(&new, new_column_name)?;
                new.attributes[at].name = names::fold(new_column_name);
            }
            other => return Err(SqlError::unsupported(format!("ALTER TYPE … {other}"))),
        }
    }
    let new = put_composite(cx, Some(of), new)?;
    cx.clean = false;
    replace(cx, old, new, None).await
}
