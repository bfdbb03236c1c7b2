//! The query of a view: alone when the view is created or checked, and inside the query that names
//! the view.

use super::query::Output;
use super::{Binder, Objects, Query};
use crate::cast::{self, Coercion};
use crate::error::SqlError;
use crate::expr::Expr;
use crate::logical::Rel;
use crate::names;
use crate::response::Column;
use crate::type_names;
use crate::view::{self, Mention, View};
use sqlparser::ast;
use std::ops::ControlFlow;

/// The query of a new view, bound.
pub(crate) struct NewView {
    pub(crate) query: Query,
    /// The parts that its text has otherwise once it is stored.
    pub(crate) mentions: Vec<Mention>,
    /// True if a literal is another time in another zone.
    pub(crate) reads_zone: bool,
    /// The ids of the functions of the database that it calls.
    pub(crate) called: Vec<u32>,
}

/// Binds the query of a new view.
pub(crate) fn view(query: &ast::Query, objects: &Objects) -> Result<NewView, SqlError> {
    let mut binder = Binder::over(objects, &[]);
    binder.is_frozen = true;
    binder.mentions = Some(Vec::new());
    let bound = binder.bind_query(query)?;
    if bound.rel.locks_rows() {
        return Err(SqlError::unsupported("FOR UPDATE or FOR SHARE in a view"));
    }
    let column = |output: &Output| {
        let info = binder.column(output.id);
        Column { domain: info.domain, ..Column::new(output.name.clone(), info.ty) }
    };
    let columns = bound.outputs.iter().map(column).collect();
    let outputs = bound.outputs.iter().map(|output| output.id).collect();
    let mut mentions = binder.mentions.take().unwrap_or_default();
    let _ = ast::visit_expressions(query, |part| {
        let named = type_names::of(part).and_then(type_names::element);
        let found = named.and_then(|name| {
            let qualified = names::relation(name).ok()?;
            let ty = objects.types.iter().find(|(other, _)| *other == qualified)?;
            Mention::of_type(name, ty.1.id())
        });
        mentions.extend(found);
        ControlFlow::<()>::Continue(())
    });
    let (reads_zone, called) = (binder.reads_zone, std::mem::take(&mut binder.called));
    let query = Query { columns, ..binder.finish(bound.rel, outputs) };
    Ok(NewView { query, mentions, reads_zone, called })
}

impl Binder {
    /// Binds the query of a view. Its names are those of the catalog alone: no query around it is
    /// in its scope.
    pub(super) fn bind_view(
        &mut self,
        view: &View,
        alias: Option<&ast::TableAlias>,
        shown: &str,
    ) -> Result<Rel, SqlError> {
        let parsed = view.parsed()?;
        let changed = || SqlError::corrupted(format!("the query of view \"{}\"", view.name));
        let query = view::query_of(&parsed).ok_or_else(changed)?;
        let levels = self.levels.iter_mut();
        let outside: Vec<_> = levels.map(|level| std::mem::take(&mut level.relations)).collect();
        let named = std::mem::take(&mut self.named);
        let mentions = self.mentions.take();
        let frozen = std::mem::replace(&mut self.is_frozen, true);
        let bound = self.bind_query(query);
        (self.named, self.mentions, self.is_frozen) = (named, mentions, frozen);
        for (level, relations) in self.levels.iter_mut().zip(outside) {
            level.relations = relations;
        }
        let mut bound = bound.map_err(SqlError::unplaced)?;
        if bound.outputs.len() != view.columns.len() {
            return Err(changed());
        }
        let mut casts = Vec::new();
        for (output, column) in bound.outputs.iter_mut().zip(&view.columns) {
            output.name.clone_from(&column.name);
            output.unknown = false;
            let (mut expr, from) = (Expr::Column(output.id), self.columns[output.id].ty);
            // The release that created the view had another type for the expression.
            if from != column.ty {
                if !cast::exists(from, column.ty) {
                    return Err(changed());
                }
                let how = Coercion::of(Some(from), column.ty, true);
                expr = Expr::Cast(Box::new(expr), column.ty, how);
                output.id = self.computed(&column.name, column.ty);
            }
            casts.push((output.id, expr));
        }
        if casts.iter().any(|(_, expr)| matches!(expr, Expr::Cast(..))) {
            bound.rel = Rel::Project { input: Box::new(bound.rel), outputs: casts };
        }
        let relation = self.derived(&bound.outputs, alias, Some(shown), bound.rows)?;
        self.level().relations.push(relation);
        Ok(bound.rel)
    }
}
