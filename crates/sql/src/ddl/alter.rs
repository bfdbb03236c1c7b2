//! ALTER TABLE.

use super::create::{add_unique, set_primary};
use super::index::{fill, parts};
use super::rows::{Move, check_rows, move_rows};
use super::{Ddl, change, columns, constraints, duplicate, foreign_keys, open, renew};
use crate::catalog;
use crate::error::SqlError;
use crate::kv;
use crate::names;
use sqlparser::ast::{self, AlterTableOperation, TableConstraint};

pub(super) async fn alter_table(cx: &mut Ddl<'_>, alter: &ast::AlterTable) -> Result<(), SqlError> {
    let before = open(cx, &alter.name).await?;
    cx.refuse_deferred("ALTER TABLE", &before)?;
    let mut table = (*before).clone();
    for operation in &alter.operations {
        match operation {
            AlterTableOperation::AddConstraint {
                constraint: TableConstraint::Check(check),
                not_valid,
            } => {
                let name = check.name.as_ref().map(names::fold);
                let id =
                    constraints::add_check(cx, &mut table, name, &check.expr, !not_valid).await?;
                let added = table.checks.iter().find(|check| check.id == id);
                if let Some(added) = added.filter(|_| !not_valid) {
                    check_rows(cx, &table, added).await?;
                }
            }
            AlterTableOperation::AddConstraint {
                constraint: TableConstraint::ForeignKey(foreign),
                not_valid,
            } => {
                let name = foreign.name.as_ref().map(names::fold);
                let is_valid = !not_valid;
                let at = foreign_keys::add_foreign(cx, &mut table, foreign, name, None, is_valid)
                    .await?;
                if is_valid {
                    foreign_keys::check_foreign(cx, &table, at).await?;
                }
            }
            AlterTableOperation::ValidateConstraint { name } => {
                constraints::validate(cx, &mut table, &names::fold(name)).await?;
            }
            AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
                let old = table.clone();
                let name = names::fold(name);
                let cascade = *drop_behavior == Some(ast::DropBehavior::Cascade);
                if constraints::drop_constraint(cx, &mut table, &name, *if_exists, cascade).await? {
                    table.settle();
                    renew(cx, &mut table).await?;
                    move_rows(cx, &old, &table, &Move::Fill).await?;
                }
            }
            AlterTableOperation::RenameConstraint { old_name, new_name } => {
                let (old, new) = (names::fold(old_name), names::fold(new_name));
                constraints::rename_constraint(cx, &mut table, &old, &new).await?;
            }
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
                move_rows(cx, &old, &table, &Move::Fill).await?;
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
                let cascade = *drop_behavior == Some(ast::DropBehavior::Cascade);
                for name in column_names {
                    columns::drop(cx, &mut table, name, *if_exists, cascade).await?;
                }
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
                table.bind_stored()?;
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                columns::rename(&mut table, old_column_name, new_column_name)?;
            }
            other => return Err(SqlError::unsupported(format!("ALTER TABLE {other}"))),
        }
        table.settle();
    }
    change(cx, &before, table)
}
