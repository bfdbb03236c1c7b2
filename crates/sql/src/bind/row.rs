//! Rows as values: row constructors, whole rows of relations, and fields.

use super::scope::{Relation, Visibility};
use super::subquery::row_of;
use super::target::{check_updatable, is_default};
use super::{Binder, Typed};
use crate::carried;
use crate::cast;
use crate::catalog::{ColumnDef, Table};
use crate::composite::Composite;
use crate::datum::Datum;
use crate::dialect;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::limits::MOST_OUTPUTS;
use crate::logical::{ColumnId, JoinKind, Rel, Wants};
use crate::names;
use crate::record::{Field, Shape};
use crate::temporary::is_temporary;
use crate::types::Type;
use sqlparser::ast;

impl Binder {
    /// Binds the parts of a row constructor, the columns of `t.*` among them.
    pub(super) fn row_parts(&mut self, parts: &[ast::Expr]) -> Result<Vec<Typed>, SqlError> {
        let mut bound = Vec::with_capacity(parts.len());
        for part in parts {
            if let Some(row) = dialect::row_of_all_fields(part) {
                bound.extend(self.all_fields(&row)?.into_iter().map(|(_, field)| field));
                continue;
            }
            match part {
                ast::Expr::CompoundIdentifier(name) if dialect::is_whole_row(name) => {
                    let whole = self.whole_row_of(&name[0])?;
                    // The relation of a function without columns of its own is one value.
                    let Some(shape) = self.shape(&whole) else {
                        bound.push(whole);
                        continue;
                    };
                    for at in 0..shape.fields().len() {
                        bound.push(field_at(whole.expr.clone(), &shape, at));
                    }
                }
                part => bound.push(self.bind(part)?),
            }
        }
        if bound.len() > MOST_OUTPUTS {
            let message = format!("ROW expressions can have at most {MOST_OUTPUTS} entries");
            return Err(SqlError::new(state::TOO_MANY_COLUMNS, message));
        }
        Ok(bound)
    }

    /// Binds `ROW (…)` as a value. Literals are text, as is a parameter without a type.
    pub(super) fn row(&mut self, parts: &[ast::Expr]) -> Result<Typed, SqlError> {
        let bound = self.row_parts(parts)?;
        let (mut exprs, mut types) = (Vec::new(), Vec::new());
        for part in bound {
            let ty = self.type_of(&part).unwrap_or(Type::Text);
            exprs.push(self.coerce(part, ty, false)?);
            types.push(ty);
        }
        Ok(Typed::of(Expr::Row(exprs, Shape::of_types(types)), Type::Record))
    }

    /// Binds an expression whose value becomes one of a type: the parts of a row constructor take
    /// the types of the fields. An `explicit` conversion truncates what is too long.
    pub(crate) fn bind_as(
        &mut self,
        expr: &ast::Expr,
        ty: Type,
        explicit: bool,
    ) -> Result<Typed, SqlError> {
        let (Type::Composite(of), Some(parts)) = (ty, row_of(expr)) else {
            return self.bind(expr);
        };
        let is_whole = |part: &ast::Expr| match part {
            ast::Expr::CompoundIdentifier(name) => dialect::is_whole_row(name),
            other => dialect::row_of_all_fields(other).is_some(),
        };
        let fields = of.fields();
        let bound = match parts.len() == fields.len() && !parts.iter().any(is_whole) {
            true => {
                let parts = parts.iter().zip(fields.iter());
                parts
                    .map(|(part, field)| self.bind_as(part, field.ty, explicit))
                    .collect::<Result<_, _>>()?
            }
            false => self.row_parts(parts)?,
        };
        Ok(Typed::of(self.row_as(bound, of, explicit)?, ty))
    }

    /// Converts the parts of a row to the fields of a composite type. Fails with 42846 if they do
    /// not fit.
    fn row_as(
        &mut self,
        parts: Vec<Typed>,
        ty: Composite,
        explicit: bool,
    ) -> Result<Expr, SqlError> {
        let converts = if explicit { cast::exists } else { cast::is_assignable };
        let cannot = |detail: String| {
            let message = format!("cannot cast type record to {}", ty.shown());
            SqlError::new(state::CANNOT_COERCE, message).detail(detail)
        };
        if parts.len() != ty.fields().len() {
            let many = if parts.len() > ty.fields().len() { "many" } else { "few" };
            return Err(cannot(format!("Input has too {many} columns.")));
        }
        let mut exprs = Vec::with_capacity(parts.len());
        for (at, (part, field)) in parts.into_iter().zip(ty.fields().iter()).enumerate() {
            if let Some(from) = self.type_of(&part).filter(|from| !converts(*from, field.ty)) {
                let (from, to) = (from.name(), field.ty.name());
                let number = at + 1;
                return Err(cannot(format!("Cannot cast type {from} to {to} in column {number}.")));
            }
            exprs.push(self.coerce(part, field.ty, explicit)?);
        }
        Ok(Expr::Row(exprs, Shape::Named(ty)))
    }

    /// Converts a row to a composite type, if its fields are known. Fails with 42846 for another.
    pub(super) fn composite_of(
        &mut self,
        row: Expr,
        from: Type,
        ty: Composite,
        explicit: bool,
    ) -> Result<Expr, SqlError> {
        match row {
            Expr::Row(parts, shape) if from == Type::Record => {
                let of_part = |(expr, field): (Expr, &Field)| match (&expr, field.ty) {
                    (Expr::Const(Datum::Text(_) | Datum::Null), Type::Text) => Typed::free(expr),
                    (_, ty) => Typed::of(expr, ty),
                };
                let parts = parts.into_iter().zip(shape.fields()).map(of_part).collect();
                self.row_as(parts, ty, explicit)
            }
            _ => {
                let message = format!("cannot cast type {} to {}", from.name(), ty.shown());
                Err(SqlError::new(state::CANNOT_COERCE, message))
            }
        }
    }

    /// Returns what is known of the fields of a value.
    pub(super) fn shape(&self, value: &Typed) -> Option<Shape> {
        match self.type_of(value)? {
            Type::Composite(ty) => Some(Shape::Named(ty)),
            Type::Record => self.shape_of(&value.expr),
            _ => None,
        }
    }

    /// Returns what is known of the fields of a `record`.
    pub(super) fn shape_of(&self, expr: &Expr) -> Option<Shape> {
        match expr {
            Expr::Row(_, shape) => Some(shape.clone()),
            Expr::Column(id) => self.columns[*id].shape.clone(),
            Expr::Const(Datum::Record(record)) => Some(record.shape().clone()),
            Expr::Call(function, _) if !function.columns.is_empty() => Some(function.shape()),
            Expr::Subquery(subquery) => match subquery.wants {
                Wants::Value(id) => self.columns[id].shape.clone(),
                _ => None,
            },
            // The row of a relation, or NULL where there is none.
            Expr::Case { branches, otherwise } => match branches.as_slice() {
                [(_, Expr::Const(Datum::Null))] => self.shape_of(otherwise),
                _ => None,
            },
            _ => None,
        }
    }

    /// Binds a field of a value.
    pub(super) fn field(&mut self, row: Typed, name: &ast::Ident) -> Result<Typed, SqlError> {
        let (place, name) = (names::position(name), names::fold(name));
        let ty = self.type_of(&row);
        let Some(shape) = self.shape(&row) else {
            return Err(match ty {
                Some(Type::Record) => no_field(&name),
                ty => {
                    let ty = ty.map_or("unknown", Type::name);
                    let message = format!(
                        "column notation .{name} applied to type {ty}, which is not a composite type"
                    );
                    SqlError::new(state::WRONG_OBJECT, message)
                }
            }
            .at(place));
        };
        let Some(at) = shape.find(&name) else {
            return Err(match shape {
                Shape::Anonymous(_) => no_field(&name),
                Shape::Named(of) => {
                    let ty = of.shown();
                    let message = format!("column \"{name}\" not found in data type {ty}");
                    SqlError::new(state::UNDEFINED_COLUMN, message)
                }
            }
            .at(place));
        };
        Ok(field_at(row.expr, &shape, at))
    }

    /// Binds `(row).*`: each field with its name.
    pub(super) fn all_fields(&mut self, row: &ast::Expr) -> Result<Vec<(String, Typed)>, SqlError> {
        let bound = self.bind(row)?;
        let Some(shape) = self.shape(&bound) else {
            let ty = self.type_of(&bound);
            let message = match ty {
                Some(Type::Record) => "record type has not been registered".to_owned(),
                ty => format!("type {} is not composite", ty.map_or("unknown", Type::name)),
            };
            return Err(SqlError::new(state::WRONG_OBJECT, message).at(names::expr_position(row)));
        };
        let named = |(at, field): (usize, &Field)| {
            (field.name.to_string(), field_at(bound.expr.clone(), &shape, at))
        };
        Ok(shape.fields().iter().enumerate().map(named).collect())
    }

    /// Binds `SET column.field = value` of UPDATE: the row as it is, or as assignments before have
    /// made it, with another field.
    pub(super) fn assign_field(
        &mut self,
        table: &Table,
        column: usize,
        path: &[ast::Ident],
        value: &ast::Expr,
        out: &mut Vec<(usize, Expr)>,
    ) -> Result<(), SqlError> {
        check_updatable(table, column)?;
        let id = self.relations()[0].columns[column].id;
        self.columns[id].is_used = true;
        let known = out.iter().position(|(other, _)| *other == column);
        let row = match known {
            Some(at) => out[at].1.clone(),
            None => Expr::Column(id),
        };
        let changed = self.with_field(row, &table.columns[column], path, value)?;
        match known {
            Some(at) => out[at].1 = changed,
            None => out.push((column, changed)),
        }
        Ok(())
    }

    /// Returns the row of a column with another field.
    pub(super) fn with_field(
        &mut self,
        row: Expr,
        column: &ColumnDef,
        path: &[ast::Ident],
        value: &ast::Expr,
    ) -> Result<Expr, SqlError> {
        self.with_field_of(row, (&column.name, column.ty), path, value)
    }

    pub(super) fn with_field_of(
        &mut self,
        row: Expr,
        (name, ty): (&str, Type),
        path: &[ast::Ident],
        value: &ast::Expr,
    ) -> Result<Expr, SqlError> {
        if let Some((part, rest)) = path.split_first()
            && let Some(text) = carried::subscripts(part)
        {
            return self.with_element(row, (name, ty), text, rest, value);
        }
        let Some((field, rest)) = path.split_first() else {
            if is_default(value) {
                return Err(SqlError::unsupported("DEFAULT of a field"));
            }
            let bound = self.bind_as(value, ty, false)?;
            if let Some(from) = self.type_of(&bound).filter(|from| !cast::is_assignable(*from, ty))
            {
                let (ty, from) = (ty.name(), from.name());
                let message =
                    format!("subfield \"{name}\" is of type {ty} but expression is of type {from}");
                return Err(SqlError::new(state::TYPE_MISMATCH, message)
                    .hint("You will need to rewrite or cast the expression.")
                    .at(names::expr_position(value)));
            }
            return self.coerce(bound, ty, false);
        };
        let (place, field) = (names::position(field), names::fold(field));
        let refused = |why: String, sqlstate: &'static str| {
            let message =
                format!("cannot assign to field \"{field}\" of column \"{name}\" because {why}");
            SqlError::new(sqlstate, message).at(place)
        };
        let Type::Composite(of) = ty else {
            let why = format!("its type {} is not a composite type", ty.name());
            return Err(refused(why, state::TYPE_MISMATCH));
        };
        let shape = Shape::Named(of);
        let Some(at) = shape.find(&field) else {
            let why = format!("there is no such column in data type {}", of.shown());
            return Err(refused(why, state::UNDEFINED_COLUMN));
        };
        let mut parts: Vec<Expr> = match row {
            // Each part is used once: it may be volatile.
            Expr::Row(parts, _) if parts.len() == of.fields().len() => parts,
            row => (0..of.fields().len()).map(|at| Expr::Field(row.clone().into(), at)).collect(),
        };
        let inner = std::mem::replace(&mut parts[at], Expr::Const(Datum::Null));
        parts[at] = self.with_field_of(inner, (&field, of.fields()[at].ty), rest, value)?;
        Ok(Expr::Row(parts, shape))
    }

    /// Returns the name of the relation that an expression in brackets stands for.
    pub(super) fn relation_named(&self, expr: &ast::Expr) -> Option<String> {
        let name = match expr {
            ast::Expr::Nested(inner) => return self.relation_named(inner),
            ast::Expr::Identifier(ident) => names::fold(ident),
            ast::Expr::CompoundIdentifier(parts) if dialect::is_whole_row(parts) => {
                return Some(names::fold(&parts[0]));
            }
            ast::Expr::QualifiedWildcard(name, _) => {
                return name.0.first().and_then(|part| part.as_ident()).map(names::fold);
            }
            _ => return None,
        };
        let relations = || self.levels.iter().flat_map(|level| &level.relations);
        let has_column = relations().any(|relation| !relation.find(&name, false).is_empty());
        let mut named = relations().filter(|one| one.alias.as_ref() == Some(&name));
        named.next().filter(|one| !one.is_scalar && !has_column).map(|_| name)
    }

    /// Returns the row of a relation that `t.*` names. Fails with 42P01 if there is none.
    pub(super) fn whole_row_of(&mut self, name: &ast::Ident) -> Result<Typed, SqlError> {
        let folded = names::fold(name);
        self.whole_row(&folded)?.ok_or_else(|| {
            let message = format!("missing FROM-clause entry for table \"{folded}\"");
            SqlError::new(state::UNDEFINED_TABLE, message).at(names::position(name))
        })
    }

    /// Returns the row of a relation; `None` if there is none of this name. It is NULL where an
    /// outer join has found none.
    pub(super) fn whole_row(&mut self, name: &str) -> Result<Option<Typed>, SqlError> {
        let named = |relation: &Relation| relation.alias.as_deref() == Some(name);
        let of_level = |(at, level): (usize, &super::Level)| {
            Some((at, level.relations.iter().find(|relation| named(relation))?.clone()))
        };
        let Some((level, relation)) = self.levels.iter().enumerate().rev().find_map(of_level)
        else {
            return Ok(None);
        };
        if relation.is_scalar {
            let id = relation.columns[0].id;
            self.columns[id].is_used = true;
            return Ok(Some(self.typed_column(id)));
        }
        if self.is_stored || self.is_frozen && self.tables.is_none() {
            return Err(SqlError::unsupported("the row of a table in a text of the catalog"));
        }
        let (mut parts, mut fields) = (Vec::new(), Vec::new());
        for column in relation.columns.iter().filter(|one| one.visibility != Visibility::Dropped) {
            let info = &mut self.columns[column.id];
            info.is_used = true;
            parts.push(Expr::Column(column.id));
            fields.push(Field { name: column.name.as_str().into(), ty: info.ty });
        }
        let shape = match &relation.table {
            // The process keeps each named shape, also beyond the session.
            Some(table) if !is_temporary(table.id) => Shape::Named(Composite::of_table(table)),
            _ => Shape::Anonymous(fields.into()),
        };
        let ty = shape.ty();
        let row = Expr::Row(parts, shape);
        if relation.outer_joins == 0 {
            return Ok(Some(Typed::of(row, ty)));
        }
        let present = self.presence(level, &relation, name)?;
        let is_missing = Expr::IsNull(Box::new(Expr::Column(present)), false);
        let branches = vec![(is_missing, Expr::Const(Datum::Null))];
        Ok(Some(Typed::of(Expr::Case { branches, otherwise: Box::new(row) }, ty)))
    }

    /// Returns a column that is NULL only where an outer join has found no row of a relation.
    fn presence(
        &mut self,
        level: usize,
        relation: &Relation,
        name: &str,
    ) -> Result<ColumnId, SqlError> {
        let table = relation.table.as_ref();
        let mut present = table.iter().flat_map(|table| table.present());
        if let Some((at, _)) = present.find(|(_, column)| column.not_null && !column.ty.is_row()) {
            return Ok(relation.columns[at].id);
        }
        let refused = || {
            let what = format!("the row of {name}, which is behind an outer join, here");
            SqlError::unsupported(what)
        };
        let first = relation.columns.first().ok_or_else(refused)?.id;
        let known = self.levels[level].present.as_ref().ok_or_else(refused)?;
        if let Some((_, mark)) = known.iter().find(|(of, _)| *of == first) {
            return Ok(*mark);
        }
        let mark = self.computed("present", Type::Bool);
        self.columns[mark].level = level;
        self.columns[mark].is_used = true;
        self.levels[level].present.get_or_insert_default().push((first, mark));
        Ok(mark)
    }

    /// Adds the columns that tell whether rows of relations are there to a query's FROM.
    pub(super) fn add_presence(&mut self, rel: &mut Rel) -> Result<(), SqlError> {
        for (column, mark) in self.level().present.take().unwrap_or_default() {
            let has_it = |one: &&Relation| one.columns.first().is_some_and(|it| it.id == column);
            let joins = self.relations().iter().find(has_it).map_or(0, |one| one.outer_joins);
            if joins == 0 || !mark_present(rel, column, mark, joins) {
                return Err(SqlError::unsupported("a row behind an outer join of this query"));
            }
        }
        Ok(())
    }
}

fn no_field(name: &str) -> SqlError {
    let message = format!("could not identify column \"{name}\" in record data type");
    SqlError::new(state::UNDEFINED_COLUMN, message)
}

/// Returns a field of a row.
pub(super) fn field_at(row: Expr, shape: &Shape, at: usize) -> Typed {
    let ty = shape.fields()[at].ty;
    Typed::of(
        match row {
            Expr::Row(mut parts, _) if !parts.iter().any(Expr::is_volatile) => {
                parts.swap_remove(at)
            }
            row => Expr::Field(Box::new(row), at),
        },
        ty,
    )
}

/// Adds a column that is true to the innermost side of outer joins that has a column; `joins` is
/// the number of joins around it that may return rows without that side.
fn mark_present(rel: &mut Rel, column: ColumnId, mark: ColumnId, joins: usize) -> bool {
    if joins == 0 {
        *rel = rel.take().with_columns(vec![(mark, Expr::truth())]);
        return true;
    }
    match rel {
        Rel::Join(join) => {
            let is_left = join.left.columns().contains(&column);
            let side = if is_left { &mut join.left } else { &mut join.right };
            let may_lack = match join.kind {
                JoinKind::Left => !is_left,
                JoinKind::Full => true,
                _ => false,
            };
            mark_present(side, column, mark, joins - usize::from(may_lack))
        }
        Rel::Project { input, outputs } => {
            let is_marked = mark_present(input, column, mark, joins);
            outputs.push((mark, Expr::Column(mark)));
            is_marked
        }
        Rel::Filter { input, .. } => mark_present(input, column, mark, joins),
        _ => false,
    }
}
