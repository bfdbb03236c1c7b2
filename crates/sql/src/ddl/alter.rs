//! ALTER TABLE.

use super::create::{Given, add_unique, column_def, set_primary};
use super::index::{fill, parts};
use super::rows::{move_rows, refuse_nulls};
use super::stored::stored;
use super::{Ddl, change, duplicate, open, renew, sequences};
use crate::bind::{self, Binder};
use crate::catalog;
use crate::clauses;
use crate::error::{SqlError, state};
use crate::kv;
use crate::names;
use crate::parse;
use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation, TableConstraint};

pub(super) async fn alter_table(cx: &mut Ddl<'_>, alter: &ast::AlterTable) -> Result<(), SqlError> {
    let before = open(cx, &alter.name).await?;
    let mut table = (*before).clone();
    for operation in &alter.operations {
        match operation {
            AlterTableOperation::AddConstraint { not_valid: true, constraint: _ } => {
                return Err(SqlError::unsupported("NOT VALID"));
            }
            AlterTableOperation::AddConstraint {
                constraint: TableConstraint::PrimaryKey(key),
                ..
            } => {
                let old = table.clone();
                let parts = parts(&table, &key.columns)?;
                set_primary(cx, &mut table, parts, key.name.as_ref().map(names::fold)).await?;
                renew(cx, &mut table).await?;
                move_rows(cx, &old, &table).await?;
            }
            AlterTableOperation::AddConstraint {
                constraint: TableConstraint::Unique(key), ..
            } => {
                let parts = parts(&table, &key.columns)?;
                let name = key.name.as_ref().map(names::fold);
                add_unique(cx, &mut table, parts, name).await?;
                fill(cx, &table).await?;
            }
            AlterTableOperation::AddColumn { column_position: Some(_), .. } => {
                return Err(SqlError::unsupported("ADD COLUMN FIRST or AFTER"));
            }
            AlterTableOperation::AddColumn {
                column_keyword: _,
                if_not_exists,
                column_def: def,
                column_position: None,
            } => {
                let (column, given) = column_def(cx, def, &table.name).await?;
                if table.column(&column.name).is_some() {
                    if *if_not_exists {
                        continue;
                    }
                    let message = format!(
                        "column \"{}\" of relation \"{}\" already exists",
                        column.name, table.name
                    );
                    return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
                }
                clauses::check_columns(table.columns.len() + 1)?;
                if column.not_null || column.default.is_some() {
                    // Existing rows lack the column and would read it as NULL, so they are
                    // rewritten.
                    let old = table.clone();
                    table.columns.push(column);
                    table.settle();
                    if let Some(Given { identity, options }) = given {
                        let at = table.columns.len() - 1;
                        sequences::give(cx, &mut table, at, identity, &options).await?;
                    }
                    renew(cx, &mut table).await?;
                    move_rows(cx, &old, &table).await?;
                } else {
                    table.columns.push(column);
                }
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let column = bind::target_columns(&table, std::slice::from_ref(column_name))?[0];
                if table.columns[column].identity.is_some()
                    && matches!(
                        op,
                        AlterColumnOperation::SetDefault { .. }
                            | AlterColumnOperation::DropDefault
                            | AlterColumnOperation::DropNotNull
                    )
                {
                    let (name, relation) = (&table.columns[column].name, &table.name);
                    let message = format!(
                        "column \"{name}\" of relation \"{relation}\" is an identity column"
                    );
                    let hint = "Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.";
                    return Err(SqlError::new(state::SYNTAX, message).hint(hint));
                }
                match op {
                    AlterColumnOperation::SetDefault { value } => {
                        let text = stored(cx, value).await?;
                        table.columns[column].default = Some(text);
                    }
                    AlterColumnOperation::DropDefault => table.columns[column].default = None,
                    AlterColumnOperation::DropNotNull => table.columns[column].not_null = false,
                    AlterColumnOperation::SetNotNull => {
                        refuse_nulls(cx, &table, column).await?;
                        table.columns[column].not_null = true;
                    }
                    other => return Err(SqlError::unsupported(format!("ALTER COLUMN {other}"))),
                }
                Binder::new(&[]).defaults(&table)?;
            }
            AlterTableOperation::RenameTable { table_name } => {
                let name = match table_name {
                    ast::RenameTableNameKind::As(name) | ast::RenameTableNameKind::To(name) => {
                        names::relation(name)?
                    }
                };
                if catalog::relation(cx.txn, &name).await?.is_some() {
                    return Err(duplicate(&name));
                }
                cx.txn.put(kv::name_key(&table.name), None)?;
                catalog::put_name(cx.txn, &name, table.id, table.id)?;
                table.name = name;
                table.bind_indexes()?;
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let column =
                    bind::target_columns(&table, std::slice::from_ref(old_column_name))?[0];
                let name = names::fold(new_column_name);
                if table.column(&name).is_some() {
                    let message =
                        format!("column \"{name}\" of relation \"{}\" already exists", table.name);
                    return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
                }
                for index in &mut table.indexes {
                    let texts = index.expressions.iter_mut().chain(&mut index.predicate);
                    for text in texts {
                        *text = renamed(text, &table.columns[column].name, new_column_name)?;
                    }
                }
                table.columns[column].name = name;
                table.bind_indexes()?;
            }
            other => return Err(SqlError::unsupported(format!("ALTER TABLE {other}"))),
        }
        table.settle();
    }
    change(cx, &before, table)
}

/// Returns the text of an expression in which a column has another name.
pub(super) fn renamed(text: &str, old: &str, new: &ast::Ident) -> Result<String, SqlError> {
    let mut expr = parse::expression(text)?;
    let _ = ast::visit_expressions_mut(&mut expr, |part| {
        if let ast::Expr::Identifier(ident) = part
            && names::fold(ident) == old
        {
            *ident = new.clone();
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    Ok(expr.to_string())
}
