//! ALTER TABLE.

use super::{Ddl, change, check_row_type, columns, constraints, materialized, open, views};
use crate::catalog;
use crate::error::SqlError;
use crate::kv;
use crate::materialized::not_materialized;
use crate::names;
use sqlparser::ast::{self, AlterTableOperation};

pub(super) async fn alter_table(
    cx: &mut Ddl<'_>,
    alter: &ast::AlterTable,
    is_materialized: bool,
) -> Result<(), SqlError> {
    let materialized = materialized::named(cx, &alter.name).await?;
    let before = match materialized {
        Some(table) => {
            alter.operations.iter().try_for_each(|it| materialized::check_action(&table, it))?;
            table
        }
        None => open(cx, &alter.name).await?,
    };
    if is_materialized && before.query.is_none() {
        return Err(not_materialized(&before.name));
    }
    cx.refuse_deferred("ALTER TABLE", &before)?;
    let mut table = (*before).clone();
    for operation in &alter.operations {
        match operation {
            AlterTableOperation::AddConstraint { constraint, not_valid } => {
                constraints::add(cx, &mut table, constraint, *not_valid).await?;
            }
            AlterTableOperation::ValidateConstraint { name } => {
                constraints::validate(cx, &mut table, &names::fold(name)).await?;
            }
            AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
                let (name, cascade) = (names::fold(name), is_cascade(drop_behavior));
                constraints::drop_constraint(cx, &mut table, &name, *if_exists, cascade).await?;
            }
            AlterTableOperation::RenameConstraint { old_name, new_name } => {
                let (old, new) = (names::fold(old_name), names::fold(new_name));
                constraints::rename_constraint(cx, &mut table, &old, &new).await?;
            }
            AlterTableOperation::AddColumn { column_position: Some(_), .. } => {
                return Err(SqlError::unsupported("ADD COLUMN FIRST or AFTER"));
            }
            AlterTableOperation::AddColumn {
                column_keyword: _,
                if_not_exists,
                column_def,
                column_position: None,
            } => columns::add(cx, &mut table, column_def, *if_not_exists).await?,
            AlterTableOperation::AlterColumn { column_name, op } => {
                columns::alter(cx, &mut table, column_name, op).await?;
            }
            AlterTableOperation::DropColumn {
                has_column_keyword: _,
                column_names,
                if_exists,
                drop_behavior,
            } => {
                let cascade = is_cascade(drop_behavior);
                for name in column_names {
                    columns::drop(cx, &mut table, name, *if_exists, cascade).await?;
                }
            }
            AlterTableOperation::RenameTable { table_name } => {
                let name = match table_name {
                    ast::RenameTableNameKind::As(name) | ast::RenameTableNameKind::To(name) => {
                        names::simple(name)?
                    }
                };
                cx.check_free(table.schema, &name).await?;
                check_row_type(cx, table.schema, &name).await?;
                views::refuse_renamed(cx, table.id, &table.name).await?;
                cx.txn.put(kv::name_key(table.schema, &table.name), None)?;
                catalog::put_name(cx.txn, table.schema, &name, table.id, table.id)?;
                table.name = name;
                table.bind_stored()?;
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                columns::rename(cx, &mut table, old_column_name, new_column_name).await?;
                materialized::name_columns(&mut table);
            }
            other => return Err(SqlError::unsupported(format!("ALTER TABLE {other}"))),
        }
        table.settle();
    }
    views::check_readers(cx, &before, &table).await?;
    change(cx, &before, table)
}

fn is_cascade(behavior: &Option<ast::DropBehavior>) -> bool {
    *behavior == Some(ast::DropBehavior::Cascade)
}
