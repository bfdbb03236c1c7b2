//! LIKE in CREATE TABLE: the columns of another relation, and what else the new table takes of it.
//!
//! A column is found by its name again, since a table has each name once. So the texts of defaults,
//! conditions and indexes mean the same in the new table.

use super::create::{Given, add_unique, set_primary};
use super::index::add_index;
use super::{Ddl, constraints, sequences, users};
use crate::catalog::{self, ColumnDef, Comments, Object, Table};
use crate::constraint::Check;
use crate::error::{SqlError, state};
use crate::index::{Index, IndexPart};
use crate::like::{Like, Part};
use crate::names;
use crate::sequence::Options;
use crate::system;
use meridian_txn::Lock;
use std::sync::Arc;

/// A relation that a new table is to be like.
pub(super) struct Model<'l> {
    like: &'l Like,
    relation: Arc<Table>,
}

/// Finds the relation of a LIKE, which stays as it is until the transaction has committed.
pub(super) async fn model<'l>(cx: &mut Ddl<'_>, like: &'l Like) -> Result<Model<'l>, SqlError> {
    let name = names::relation(&like.relation)?;
    let place = like.relation.0.last().and_then(|part| part.as_ident()).and_then(names::position);
    if let Some(relation) = system::find(&name) {
        return Ok(Model { like, relation });
    }
    let invalid = |kind: &str| {
        let message = format!("relation \"{name}\" is invalid in LIKE clause");
        Err(SqlError::new(state::WRONG_OBJECT, message)
            .detail(format!("This operation is not supported for {kind}."))
            .at(place))
    };
    let found = cx.relation(&name).await?;
    if found.is_some_and(|relation| relation.id != relation.table) {
        return invalid("indexes");
    }
    let cache = &cx.engine.cache;
    let relation = match cx.names.object(cx.txn, cache, &name, cx.clean, Lock::Shared).await? {
        Some(Object::Table(table)) => table,
        Some(Object::View(view)) => Arc::new(view.as_table()),
        Some(Object::Sequence(_)) => return invalid("sequences"),
        Some(
            Object::Enum(_)
            | Object::Domain(_)
            | Object::Composite(_)
            | Object::Schema(_)
            | Object::Function(_)
            | Object::Extension(_)
            | Object::BaseType(_),
        )
        | None => {
            let message = format!("relation \"{name}\" does not exist");
            return Err(SqlError::new(state::UNDEFINED_TABLE, message).at(place));
        }
    };
    Ok(Model { like, relation })
}

impl Model<'_> {
    /// Returns the columns of the relation for the new table, each with the sequence that it is to
    /// get.
    pub(super) async fn columns(
        &self,
        cx: &mut Ddl<'_>,
    ) -> Result<Vec<(ColumnDef, Option<Given>)>, SqlError> {
        let mut columns = Vec::new();
        for (at, column) in self.relation.present() {
            if column.ty.is_of_system() {
                return Err(SqlError::unsupported(format!("a column of type {}", column.ty)));
            }
            let mut new = ColumnDef::new(&column.name, column.ty);
            new.not_null = column.not_null;
            new.domain = column.domain;
            new.collation.clone_from(&column.collation);
            if self.like.includes(Part::Generated) {
                new.generated.clone_from(&column.generated);
            }
            let mut given = None;
            if column.identity.is_none() && self.like.includes(Part::Defaults) {
                new.default.clone_from(&column.default);
            } else if column.identity.is_some() && self.like.includes(Part::Identity) {
                let sequence = sequences::identity_of(cx, &self.relation, at).await?;
                given = Some(Given { identity: column.identity, options: Options::of(&sequence) });
            }
            columns.push((new, given));
        }
        if self.like.includes(Part::Defaults) {
            // The new table shares them.
            for id in self.relation.sequences() {
                let cache = &cx.engine.cache;
                catalog::object_by_id(cx.txn, cache, id, cx.clean, Lock::Shared).await?;
                users::keep(cx, id);
            }
        }
        Ok(columns)
    }

    /// Gives the new table, which has the columns, what else it is to take.
    pub(super) async fn finish(
        &self,
        cx: &mut Ddl<'_>,
        table: &mut Table,
        comments: &mut Comments,
    ) -> Result<(), SqlError> {
        let mut texts = Comments::default();
        if self.like.includes(Part::Comments) {
            texts = catalog::comments(cx.txn, self.relation.id).await?;
        }
        for (number, text) in texts.iter().filter(|(number, _)| *number > 0) {
            let column = self.column(table, number - 1)?;
            comments.set(column + 1, Some(text));
        }
        if self.like.includes(Part::Constraints) {
            for check in &self.relation.checks {
                self.add_check(cx, table, check).await?;
                let part = catalog::Part::Constraint;
                comments.set_part(part, &check.name, texts.get_part(part, &check.name));
            }
        }
        if self.like.includes(Part::Indexes) {
            for index in self.relation.primary.iter().chain(&self.relation.indexes) {
                let name = self.add_key(cx, table, index).await?;
                let part = catalog::Part::Index;
                comments.set_part(part, &name, texts.get_part(part, &index.name));
            }
        }
        Ok(())
    }

    /// Returns the number of a column of the relation in the new table.
    fn column(&self, table: &Table, column: u32) -> Result<u32, SqlError> {
        let found = self.relation.columns.get(column as usize).map(|column| &column.name);
        let found = found.and_then(|name| table.column(name));
        found.map(|at| at as u32).ok_or_else(|| SqlError::corrupted("a part of no column"))
    }

    async fn add_check(
        &self,
        cx: &mut Ddl<'_>,
        table: &mut Table,
        check: &Check,
    ) -> Result<(), SqlError> {
        if constraints::names_of(table).any(|other| other == check.name) {
            return Err(constraints::exists(table, &check.name));
        }
        let id = cx.next_id_in(table.schema).await?;
        let mut check = Check::new(id, check.name.clone(), check.text.clone(), true);
        check.bind(&table.columns_alone())?;
        constraints::insert_check(table, check);
        Ok(())
    }

    /// Adds an index like one of the relation, under a name that is free. Returns this name.
    async fn add_key(
        &self,
        cx: &mut Ddl<'_>,
        table: &mut Table,
        index: &Index,
    ) -> Result<String, SqlError> {
        let mut parts = Vec::with_capacity(index.columns.len());
        for part in &index.columns {
            parts.push(match part.column() {
                Some(_) => IndexPart { column: self.column(table, part.column)?, ..*part },
                None => *part,
            });
        }
        if self.relation.primary.as_ref().is_some_and(|primary| primary.id == index.id) {
            set_primary(cx, table, parts, None).await?;
            return Ok(table.primary.as_ref().map_or_else(String::new, |it| it.name.clone()));
        }
        if index.is_constraint() {
            let index = Index::of_unique(parts, index.nulls_not_distinct, index.deferrable);
            add_unique(cx, table, index, None).await?;
        } else {
            let mut new = Index::new(0, String::new(), parts, index.unique);
            new.nulls_not_distinct = index.nulls_not_distinct;
            for column in &index.included {
                new.included.push(self.column(table, *column)?);
            }
            new.expressions.clone_from(&index.expressions);
            new.predicate.clone_from(&index.predicate);
            add_index(cx, table, new, None, "idx").await?;
        }
        Ok(table.indexes.last().map_or_else(String::new, |it| it.name.clone()))
    }
}
