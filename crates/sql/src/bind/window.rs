//! Window functions: OVER, named windows and frames.

use super::call::{Parts, element, polymorphic};
use super::types::check_equality;
use super::{Binder, Typed};
use crate::aggregate::{self, OrderKey};
use crate::carried;
use crate::cast;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::function::{Form, Out};
use crate::logical::{self, ColumnId, Rel, SortKey};
use crate::names;
use crate::types::Type;
use crate::window::{self, Bound, Call, Exclude, Frame, Units, Work};
use sqlparser::ast;

/// The windows of a query.
#[derive(Default)]
pub(super) struct Windows {
    /// The windows of the clause WINDOW.
    named: Vec<(String, Spec)>,
    pub(super) calls: Vec<WindowCall>,
}

/// A division of rows, and the frame within it.
#[derive(Clone)]
pub(super) struct Spec {
    partition: Vec<(Expr, Type)>,
    order: Vec<(OrderKey, Type)>,
    frame: Option<Frame>,
}

/// A call of a window function: its column, and the division that it is over.
pub(super) struct WindowCall {
    pub(super) id: ColumnId,
    call: Call,
    partition: Vec<(Expr, Type)>,
    order: Vec<(OrderKey, Type)>,
}

impl WindowCall {
    /// Its arguments, and the offsets of its frame.
    pub(super) fn exprs(&self) -> Vec<&Expr> {
        self.call.exprs()
    }

    /// Its expressions over the rows.
    pub(super) fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        let mut exprs = self.call.exprs_mut();
        exprs.extend(self.partition.iter_mut().map(|(expr, _)| expr));
        exprs.extend(self.order.iter_mut().map(|(key, _)| &mut key.expr));
        exprs
    }
}

fn windowing(message: impl Into<String>) -> SqlError {
    SqlError::new(state::WINDOWING, message)
}

impl Binder {
    /// Binds the clause WINDOW.
    pub(super) fn bind_named_windows(
        &mut self,
        windows: &[ast::NamedWindowDefinition],
    ) -> Result<(), SqlError> {
        for ast::NamedWindowDefinition(ident, window) in windows {
            let name = names::fold(ident);
            if self.named_window(&name).is_some() {
                return Err(windowing(format!("window \"{name}\" is already defined"))
                    .at(names::position(ident)));
            }
            let ast::NamedWindowExpr::WindowSpec(spec) = window else {
                return Err(SqlError::unsupported("WINDOW … AS a window's name"));
            };
            let spec = self.window_spec(spec, false)?;
            let windows = self.level().windows.get_or_insert_default();
            windows.named.push((name, spec));
        }
        Ok(())
    }

    fn named_window(&mut self, name: &str) -> Option<Spec> {
        let windows = self.level().windows.as_ref()?;
        let found = windows.named.iter().find(|(known, _)| known == name);
        found.map(|(_, spec)| spec.clone())
    }

    /// Binds a call with OVER.
    pub(super) fn window_call(
        &mut self,
        parts: &Parts<'_>,
        over: &ast::WindowType,
    ) -> Result<Typed, SqlError> {
        if self.level().windows.is_none() {
            let clause = self.level().clause;
            return Err(match clause {
                _ if self.tables.is_none() && self.level().aggregates.is_some() => {
                    SqlError::unsupported(format!("{} as a window function here", parts.name))
                }
                "an aggregate" => SqlError::new(
                    state::GROUPING,
                    "aggregate function calls cannot contain window function calls",
                ),
                "a window function" => windowing("window function calls cannot be nested"),
                "" => windowing("window functions are not allowed here"),
                clause => windowing(format!("window functions are not allowed in {clause}")),
            });
        }
        let spec = match over {
            ast::WindowType::WindowSpec(spec) => self.window_spec(spec, true)?,
            ast::WindowType::NamedWindow(ident) => {
                let name = names::fold(ident);
                self.named_window(&name).ok_or_else(|| {
                    SqlError::new(
                        state::UNDEFINED_OBJECT,
                        format!("window \"{name}\" does not exist"),
                    )
                    .at(names::position(ident))
                })?
            }
        };
        let (work, ty) = self.without_windows("a window function", |binder| binder.work(parts))?;
        let frame = spec.frame.unwrap_or_else(Frame::usual);
        let call = Call { work, frame };
        let (partition, order) = (spec.partition, spec.order);
        let known = self.level().windows.iter().flat_map(|windows| &windows.calls);
        let mut same =
            known.filter(|k| k.call == call && k.partition == partition && k.order == order);
        if let Some(known) = same.next()
            && !call.exprs().into_iter().any(Expr::is_volatile)
        {
            return Ok(Typed::of(Expr::Column(known.id), ty));
        }
        let id = self.computed(&parts.name, ty);
        if let Some(windows) = &mut self.level().windows {
            windows.calls.push(WindowCall { id, call, partition, order });
        }
        Ok(Typed::of(Expr::Column(id), ty))
    }

    /// Binds something in which there may be no window function and no set-returning function.
    pub(super) fn without_windows<T>(
        &mut self,
        clause: &'static str,
        bind: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let windows = self.level().windows.take();
        let bound = self.without_sets(clause, bind);
        self.level().windows = windows;
        bound
    }

    /// Binds the function of a call with OVER, and its arguments.
    fn work(&mut self, parts: &Parts<'_>) -> Result<(Work, Type), SqlError> {
        let name = parts.name.as_str();
        let refuse = |message: &str| SqlError::new(state::FEATURE_NOT_SUPPORTED, message);
        if parts.distinct {
            return Err(refuse("DISTINCT is not implemented for window functions"));
        }
        if !parts.order.is_empty() {
            return Err(refuse("aggregate ORDER BY is not implemented for window functions"));
        }
        if !parts.within.is_empty() {
            let message = format!("OVER is not supported for ordered-set aggregate {name}");
            return Err(refuse(&message));
        }
        if !window::exists(name) {
            let aggregate = self.aggregate_parts(parts)?;
            let ty = aggregate.ty;
            return Ok((Work::Aggregate(aggregate), ty));
        }
        if parts.filter.is_some() {
            return Err(refuse("FILTER is not implemented for non-aggregate window functions"));
        }
        if !aggregate::named(name).is_empty() && !parts.args.is_empty() {
            let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
            return Err(SqlError::new(state::WRONG_OBJECT, message));
        }
        let args = parts.args.iter().map(|arg| self.bind(arg)).collect::<Result<Vec<_>, _>>()?;
        let types: Vec<_> = args.iter().map(|arg| arg.ty).collect();
        let call = window::resolve(name, &types)?;
        let ty = match call.function.result() {
            // The default of LAG has a type in common with the value.
            Out::Common if types.len() == 3 => polymorphic(call.result, &types),
            Out::Common => element(call.result, &types[..1])?,
            Out::Of(_) | Out::Array => call.result,
        };
        let args = self.convert(args, call.params)?;
        Ok((Work::Function(call.function, args), ty))
    }

    /// Binds a window: on its own, or as a copy of a named one with additions.
    fn window_spec(&mut self, spec: &ast::WindowSpec, is_over: bool) -> Result<Spec, SqlError> {
        let ast::WindowSpec { window_name, partition_by, order_by, window_frame } = spec;
        let (name, excluded) = match window_name {
            Some(ident) => carried::exclusion(ident),
            None => (None, None),
        };
        let base = match &name {
            None => None,
            Some(ident) => {
                let name = names::fold(ident);
                let missing = || {
                    let message = format!("window \"{name}\" does not exist");
                    SqlError::new(state::UNDEFINED_OBJECT, message).at(names::position(ident))
                };
                Some((name.clone(), self.named_window(&name).ok_or_else(missing)?))
            }
        };
        let mut bound = self.without_windows("window definitions", |binder| {
            let mut partition = Vec::with_capacity(partition_by.len());
            for expr in partition_by {
                let bound = binder.bind_free(expr)?;
                let ty = bound.ty.unwrap_or(Type::Text);
                check_equality(ty)?;
                partition.push((bound.expr, ty));
            }
            let order = binder.order_keys(order_by)?;
            Ok(Spec { partition, order, frame: None })
        })?;
        if let Some((name, base)) = base {
            if !bound.partition.is_empty() {
                let message = format!("cannot override PARTITION BY clause of window \"{name}\"");
                return Err(windowing(message));
            }
            if !bound.order.is_empty() && !base.order.is_empty() {
                let message = format!("cannot override ORDER BY clause of window \"{name}\"");
                return Err(windowing(message));
            }
            if base.frame.is_some() {
                let message =
                    format!("cannot copy window \"{name}\" because it has a frame clause");
                let error = windowing(message);
                return Err(match is_over && bound.order.is_empty() && window_frame.is_none() {
                    true => error.hint("Omit the parentheses in this OVER clause."),
                    false => error,
                });
            }
            bound.partition = base.partition;
            if bound.order.is_empty() {
                bound.order = base.order;
            }
        }
        bound.frame = match (window_frame, excluded) {
            (None, None) => None,
            (None, Some(_)) => {
                return Err(SqlError::new(state::SYNTAX, "syntax error at or near \"exclude\""));
            }
            (Some(frame), excluded) => {
                Some(self.frame(frame, excluded.unwrap_or(Exclude::Nothing), &bound.order)?)
            }
        };
        Ok(bound)
    }

    fn frame(
        &mut self,
        frame: &ast::WindowFrame,
        exclude: Exclude,
        order: &[(OrderKey, Type)],
    ) -> Result<Frame, SqlError> {
        use ast::WindowFrameBound::{CurrentRow, Following, Preceding};
        let ast::WindowFrame { units, start_bound, end_bound } = frame;
        let units = match units {
            ast::WindowFrameUnits::Rows => Units::Rows,
            ast::WindowFrameUnits::Range => Units::Range,
            ast::WindowFrameUnits::Groups => Units::Groups,
        };
        let end_bound = end_bound.as_ref().unwrap_or(&CurrentRow);
        let wrong = match (start_bound, end_bound) {
            (Following(None), _) => "frame start cannot be UNBOUNDED FOLLOWING",
            (_, Preceding(None)) => "frame end cannot be UNBOUNDED PRECEDING",
            (CurrentRow, Preceding(_)) => {
                "frame starting from current row cannot have preceding rows"
            }
            (Following(_), CurrentRow) if frame.end_bound.is_none() => {
                "frame starting from following row cannot end with current row"
            }
            (Following(_), Preceding(_) | CurrentRow) => {
                "frame starting from following row cannot have preceding rows"
            }
            _ => "",
        };
        if !wrong.is_empty() {
            return Err(windowing(wrong));
        }
        let has_offset = [start_bound, end_bound]
            .iter()
            .any(|b| matches!(b, Preceding(Some(_)) | Following(Some(_))));
        if units == Units::Range && has_offset && order.len() != 1 {
            let message =
                "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(windowing(message));
        }
        if units == Units::Groups && order.is_empty() {
            return Err(windowing("GROUPS mode requires an ORDER BY clause"));
        }
        let mut bound = |bound: &ast::WindowFrameBound| {
            Ok::<_, SqlError>(match bound {
                CurrentRow => Bound::Current,
                Preceding(None) | Following(None) => Bound::Unbounded,
                Preceding(Some(offset)) => Bound::Preceding(self.offset(offset, units, order)?),
                Following(Some(offset)) => Bound::Following(self.offset(offset, units, order)?),
            })
        };
        let (start, end) = (bound(start_bound)?, bound(end_bound)?);
        Ok(Frame { units, start, end, exclude })
    }

    /// Binds the offset of a frame, which is the same for all rows.
    fn offset(
        &mut self,
        offset: &ast::Expr,
        units: Units,
        order: &[(OrderKey, Type)],
    ) -> Result<Expr, SqlError> {
        let clause = match units {
            Units::Rows => "ROWS",
            Units::Range => "RANGE",
            Units::Groups => "GROUPS",
        };
        let place = names::expr_position(offset);
        let aggregates = self.level().aggregates.take();
        let literal = unit_less(offset);
        let bound = self.without_windows("window definitions", |binder| match literal {
            Some(value) => binder.bind(&ast::Expr::Value(value.clone())),
            None => binder.bind(offset),
        });
        self.level().aggregates = aggregates;
        let bound = bound?;
        let offset = match (units, order) {
            (Units::Range, [(_, column)]) => self.range_offset(bound, *column)?,
            _ => {
                if let Some(ty) = bound.ty
                    && !(cast::is_assignable(ty, Type::Int8) && ty.is_number())
                {
                    let message =
                        format!("argument of {clause} must be type bigint, not type {}", ty.name());
                    return Err(SqlError::new(state::TYPE_MISMATCH, message).at(place));
                }
                self.coerce(bound, Type::Int8, false)?
            }
        };
        let mut varies = false;
        offset.each_column(&mut |id| varies |= self.is_own(id));
        if varies {
            let message = format!("argument of {clause} must not contain variables");
            return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message).at(place));
        }
        if offset.has_subquery() {
            return Err(SqlError::unsupported("a subquery in a window's frame"));
        }
        Ok(offset)
    }

    /// Converts an offset to what is added to the values of a column.
    fn range_offset(&mut self, offset: Typed, column: Type) -> Result<Expr, SqlError> {
        let what = "RANGE with offset PRECEDING/FOLLOWING is not supported for column type";
        let refuse = |message: String| SqlError::new(state::FEATURE_NOT_SUPPORTED, message);
        let is_time = matches!(
            column.plain(),
            Type::Date | Type::Timestamp | Type::TimestampTz | Type::Interval
        );
        let fits = |ty: Type| match column.base() {
            Type::Int2 | Type::Int4 | Type::Int8 => ty.is_integer(),
            Type::Numeric(_) => ty.is_integer() || matches!(ty, Type::Numeric(_)),
            _ => ty.is_number() && !is_time,
        };
        match offset.ty {
            None | Some(Type::Interval) if is_time => self.coerce(offset, Type::Interval, false),
            _ if !column.is_number() && !is_time => {
                Err(refuse(format!("{what} {}", column.name())))
            }
            Some(ty) if !fits(ty) => {
                let message = format!("{what} {} and offset type {}", column.name(), ty.name());
                Err(refuse(message).hint("Cast the offset value to an appropriate type."))
            }
            Some(ty) if ty.is_integer() && column.is_integer() => Ok(offset.expr),
            _ if column == Type::Float4 => self.coerce(offset, Type::Float8, false),
            _ => self.coerce(offset, column.base(), false),
        }
    }

    /// Adds the window functions of the innermost query to a relation.
    pub(super) fn add_windows(&mut self, rel: Rel, windows: Windows) -> Rel {
        let (mut rel, mut calls) = (rel, windows.calls);
        while !calls.is_empty() {
            let WindowCall { id, call, partition, order } = calls.remove(0);
            let is_same = |other: &WindowCall| other.partition == partition && other.order == order;
            let (same, others): (Vec<_>, Vec<_>) = calls.into_iter().partition(is_same);
            calls = others;
            let same = same.into_iter().map(|WindowCall { id, call, .. }| (id, call));
            let together = std::iter::once((id, call)).chain(same).collect();
            rel = self.add_window(rel, partition, order, together);
        }
        rel
    }

    fn add_window(
        &mut self,
        rel: Rel,
        partition: Vec<(Expr, Type)>,
        order: Vec<(OrderKey, Type)>,
        calls: Vec<(ColumnId, Call)>,
    ) -> Rel {
        let has = rel.columns();
        let mut computed: Vec<(ColumnId, Expr)> = Vec::new();
        let mut column = |expr: Expr, ty: Type| match expr {
            Expr::Column(id) if has.contains(&id) => id,
            expr => {
                let id = self.computed("?column?", ty);
                computed.push((id, expr));
                id
            }
        };
        let partition = partition.into_iter().map(|(expr, ty)| column(expr, ty)).collect();
        let key = |(key, ty): (OrderKey, Type)| SortKey {
            column: column(key.expr, ty),
            descending: key.descending,
            nulls_first: key.nulls_first,
        };
        let order = order.into_iter().map(key).collect();
        let mut input = rel;
        if !computed.is_empty() {
            let passed = has.into_iter().map(|id| (id, Expr::Column(id)));
            let outputs = passed.chain(computed).collect();
            input = Rel::Project { input: Box::new(input), outputs };
        }
        Rel::Window(Box::new(logical::Window { input, partition, order, calls }))
    }
}

/// Returns the literal of an offset that the parser takes for an interval without a unit: `'1'`.
fn unit_less(offset: &ast::Expr) -> Option<&ast::ValueWithSpan> {
    let ast::Expr::Interval(interval) = offset else { return None };
    let ast::Interval {
        value,
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    } = interval
    else {
        return None;
    };
    match &**value {
        ast::Expr::Value(value) => Some(value),
        _ => None,
    }
}
