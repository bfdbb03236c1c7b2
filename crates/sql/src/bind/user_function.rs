//! Calls of the database's functions. The body of a function takes the place of the call: it is
//! bound as a query inside one whose only relation has the arguments as its columns.
//!
//! Arguments are computed once. A body that only computes, and constants and columns as arguments,
//! leave no query behind.

use super::call::Parts;
use super::lock::Lockable;
use super::query::{Bound, Output};
use super::scope::{Level, Relation, ScopeColumn, Visibility};
use super::{Binder, Objects, Typed};
use crate::aggregate::{self, Aggregate};
use crate::cast::{self, Coercion};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::function::{self, Form, Out, Param};
use crate::logical::{ColumnId, JoinKind, Rel, Subquery, Wants};
use crate::names::{self, Qualified};
use crate::parse;
use crate::record::{Field, Shape};
use crate::types::Type;
use crate::user_function::{self, Parameter, UserFunction};
use crate::view::Mention;
use sqlparser::ast;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The type of a value of a function.
type Declared = user_function::Typed;

/// A function whose body is being bound, and the columns of its arguments.
pub(super) struct Body {
    function: u32,
    params: Vec<ColumnId>,
}

/// The meaning of a function's rows.
pub(super) enum Rows {
    /// Nothing.
    Void,
    /// One value.
    Value(Declared),
    /// Columns with names: of RETURNS TABLE, of parameters, or of a composite type.
    Columns(Shape, Vec<Declared>),
}

/// An argument of a call.
struct Given<'a> {
    name: Option<String>,
    expr: &'a ast::Expr,
}

/// A function that a call may mean.
struct Candidate {
    function: Arc<UserFunction>,
    /// The types of the parameters that have arguments, in the order of these.
    params: Vec<Param>,
    /// The places of these parameters.
    places: Vec<usize>,
    /// The types of all inputs.
    inputs: Vec<Declared>,
}

impl Form for Candidate {
    fn params(&self) -> &[Param] {
        &self.params
    }

    fn is_variadic(&self) -> bool {
        false
    }

    fn result(&self) -> Out {
        Out::Of(Type::Void)
    }
}

/// The rows of a call.
struct Inlined {
    name: String,
    /// The arguments, by the columns that stand for them in the rest.
    params: Vec<(ColumnId, Expr)>,
    /// The conditions under which a strict function has a value: its arguments are not NULL.
    present: Vec<Expr>,
    rel: Rel,
    /// The names and the values of the result's columns.
    outputs: Vec<(String, Expr)>,
    rows: Rows,
    returns_set: bool,
}

/// Fails with 0A000 if a body would be evaluated once for several calls, each of which has other
/// values: it is volatile, and reads nothing of the rows that it is called for.
fn refuse_shared(rel: &Rel, per_row: bool) -> Result<(), SqlError> {
    if per_row && rel.is_volatile() && rel.free_columns().is_empty() {
        let what =
            "a volatile function over tables that is called for each row, and reads none of it,";
        return Err(SqlError::unsupported(what));
    }
    Ok(())
}

/// Returns the meaning of a function's rows.
fn rows_of(function: &UserFunction, types: &names::NamedTypes) -> Result<Rows, SqlError> {
    let declared = |param: &Parameter| user_function::type_of(&param.ty, types);
    let returns = user_function::type_of(&function.returns, types)?;
    let outputs: Vec<&Parameter> = function.outputs().collect();
    Ok(match (returns.ty, outputs.as_slice()) {
        (Type::Void, _) => Rows::Void,
        (Type::Record, [_, _, ..]) => {
            let all = outputs.iter().map(|param| declared(param)).collect::<Result<Vec<_>, _>>()?;
            let names = outputs.iter().enumerate().map(|(at, param)| match &*param.name {
                "" => format!("column{}", at + 1),
                name => name.to_owned(),
            });
            let field = |(name, of): (String, &Declared)| Field { name: name.into(), ty: of.ty };
            Rows::Columns(Shape::Anonymous(names.zip(&all).map(field).collect()), all)
        }
        (Type::Composite(of), _) if returns.domain.is_none() => {
            let all = of.fields().iter().map(|field| Declared { ty: field.ty, domain: None });
            Rows::Columns(Shape::Named(of), all.collect())
        }
        _ => Rows::Value(returns),
    })
}

/// Returns 42P13: the body does not return what the function does.
fn mismatch(returns: &str, detail: String) -> SqlError {
    let message = format!("return type mismatch in function declared to return {returns}");
    SqlError::new(state::INVALID_FUNCTION, message).detail(detail)
}

fn given<'a>(args: &'a [ast::FunctionArg]) -> Result<Vec<Given<'a>>, SqlError> {
    let mut all: Vec<Given<'a>> = Vec::with_capacity(args.len());
    for arg in args {
        let (name, expr) = match arg {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::BinaryOp {
                left,
                op: ast::BinaryOperator::Assignment,
                right,
            })) if let ast::Expr::Identifier(name) = &**left => (Some(names::fold(name)), &**right),
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => {
                if all.last().is_some_and(|last| last.name.is_some()) {
                    let message = "positional argument cannot follow named argument";
                    return Err(SqlError::new(state::SYNTAX, message));
                }
                (None, expr)
            }
            ast::FunctionArg::Named {
                name,
                arg: ast::FunctionArgExpr::Expr(expr),
                operator:
                    ast::FunctionArgOperator::RightArrow | ast::FunctionArgOperator::Assignment,
            } => (Some(names::fold(name)), expr),
            other => return Err(SqlError::unsupported(format!("the argument {other}"))),
        };
        if let Some(name) = &name
            && all.iter().any(|other| other.name.as_ref() == Some(name))
        {
            let message = format!("argument name \"{name}\" used more than once");
            return Err(SqlError::new(state::SYNTAX, message));
        }
        all.push(Given { name, expr });
    }
    Ok(all)
}

/// Returns the places of the parameters that have these arguments; `None` if they do not fit.
fn places_of(function: &UserFunction, args: &[Given<'_>]) -> Option<Vec<usize>> {
    let inputs: Vec<&Parameter> = function.inputs().collect();
    let mut places = Vec::with_capacity(args.len());
    for (at, arg) in args.iter().enumerate() {
        let place = match &arg.name {
            None => at,
            Some(name) => inputs.iter().position(|input| input.name == *name)?,
        };
        if place >= inputs.len() || places.contains(&place) {
            return None;
        }
        places.push(place);
    }
    let has_value =
        |(at, input): (usize, &&Parameter)| places.contains(&at) || input.default.is_some();
    inputs.iter().enumerate().all(has_value).then_some(places)
}

/// Returns the expressions of a relation that only computes.
fn computed_only(rel: &Rel) -> Option<&[(ColumnId, Expr)]> {
    match rel {
        Rel::Project { input, outputs } if **input == Rel::one_row() => Some(outputs),
        _ => None,
    }
}

/// True if a relation has one row at most.
fn is_single(rel: &Rel) -> bool {
    match rel {
        Rel::Project { input, .. } | Rel::Filter { input, .. } | Rel::Sort { input, .. } => {
            is_single(input)
        }
        Rel::Aggregate { keys, sets, .. } => keys.is_empty() && sets.is_none(),
        Rel::Values { rows, .. } => rows.len() <= 1,
        _ => false,
    }
}

/// True if an argument costs nothing to compute again.
fn is_plain(arg: &Expr) -> bool {
    matches!(arg, Expr::Const(_) | Expr::Param(_) | Expr::Column(_))
}

/// Returns the condition that an argument is not NULL.
fn present(id: ColumnId, ty: Type) -> Expr {
    let value = Expr::Column(id);
    match ty.is_row() {
        // IS NOT NULL is about its fields.
        true => Expr::Distinct(Box::new((value, Expr::Const(Datum::Null))), false),
        false => Expr::IsNull(Box::new(value), true),
    }
}

impl Inlined {
    /// True if an argument is computed from the rows that the call is made for.
    fn reads_columns(&self) -> bool {
        let mut reads = false;
        for (_, arg) in &self.params {
            arg.walk(&mut |part| reads |= matches!(part, Expr::Column(_)));
        }
        reads
    }

    /// Puts arguments in the place of their columns, as far as each is computed once at most.
    fn substitute(&mut self) {
        if !self.present.is_empty() {
            let is_null = |(_, arg): &(ColumnId, Expr)| matches!(arg, Expr::Const(Datum::Null));
            let is_const = |(_, arg): &(ColumnId, Expr)| matches!(arg, Expr::Const(_));
            if self.params.iter().any(is_null) || !self.params.iter().all(is_const) {
                return;
            }
            self.present.clear();
        }
        if let Some(computed) = computed_only(&self.rel) {
            let computed = computed.to_vec();
            for (_, value) in &mut self.outputs {
                value.replace_columns(&|id| {
                    computed.iter().find(|(other, _)| *other == id).map(|(_, expr)| expr.clone())
                });
            }
            self.rel = Rel::one_row();
        }
        let mut rest = Vec::new();
        for (id, arg) in std::mem::take(&mut self.params) {
            let is_replaced = match is_plain(&arg) {
                true => self.is_in_expressions(id),
                false => self.is_used_once(id, arg.is_volatile()),
            };
            match is_replaced {
                true => self.replace(id, &arg),
                false => rest.push((id, arg)),
            }
        }
        self.params = rest;
    }

    /// True if expressions alone name the column of an argument: no key by which rows are grouped
    /// or sorted is it.
    fn is_in_expressions(&self, id: ColumnId) -> bool {
        let mut without = self.rel.clone();
        without.replace_columns(&|other| (other == id).then_some(Expr::Const(Datum::Null)));
        !without.free_columns().contains(&id)
    }

    /// True if the value of an argument is computed once at most, or, where it has to be, once.
    fn is_used_once(&self, id: ColumnId, always: bool) -> bool {
        if self.rel != Rel::one_row() {
            return false;
        }
        let (mut uses, mut is_inside) = (0_usize, false);
        for (_, value) in &self.outputs {
            value.each_column(&mut |other| uses += usize::from(other == id));
            value.walk(&mut |part| {
                let inside = matches!(part, Expr::Subquery(_) | Expr::Case { .. });
                is_inside |= inside && part.names_any(&BTreeSet::from([id]));
            });
        }
        !is_inside && if always { uses == 1 } else { uses <= 1 }
    }

    fn replace(&mut self, id: ColumnId, arg: &Expr) {
        let with = |other: ColumnId| (other == id).then(|| arg.clone());
        self.rel.replace_columns(&with);
        for (_, value) in &mut self.outputs {
            value.replace_columns(&with);
        }
    }

    /// True if no rows are read for it.
    fn is_computed(&self) -> bool {
        self.params.is_empty() && self.present.is_empty() && self.rel == Rel::one_row()
    }

    /// Returns the relation with the arguments and the body's rows, without those of a strict
    /// function of a NULL.
    fn joined(self) -> (Rel, Vec<(String, Expr)>) {
        let Inlined { params, present, rel, outputs, .. } = self;
        if params.is_empty() {
            return (rel, outputs);
        }
        let input = Box::new(Rel::one_row());
        let arguments = Rel::Project { input, outputs: params }.filter(present);
        let all = match rel == Rel::one_row() {
            true => arguments,
            false => arguments.join(JoinKind::Inner, rel, Expr::truth()),
        };
        (all, outputs)
    }
}

impl Binder {
    /// True if a call is one of a function of the database: its name has a schema of the users, or
    /// it is none of a function that every database has.
    pub(super) fn is_user_call(&self, name: &ast::ObjectName) -> bool {
        if self.functions.is_empty() && name.0.len() == 1 {
            return false;
        }
        let Ok(name) = names::relation(name) else { return false };
        match name.schema.as_deref() {
            Some(schema) => user_function::is_schema_of_users(schema),
            None => self.functions.iter().any(|(other, _)| *other == name),
        }
    }

    /// Returns a name that an expression gives to its column: for a function, that which it has.
    pub(super) fn heading_of(&self, name: String) -> String {
        let mut functions = self.functions.iter().map(|(_, function)| function);
        let called = Qualified::of(&name).id();
        let function = called.and_then(|id| functions.find(|function| function.id == id));
        function.map_or(name, |function| function.name.clone())
    }

    /// Binds a call as a value.
    pub(super) fn user_call(&mut self, call: &ast::Function) -> Result<Typed, SqlError> {
        let list = match &call.args {
            ast::FunctionArguments::None => &[][..],
            ast::FunctionArguments::List(list) => &list.args,
            ast::FunctionArguments::Subquery(_) => {
                return Err(SqlError::unsupported("a subquery as argument"));
            }
        };
        let has_names = list.iter().any(|arg| matches!(arg, ast::FunctionArg::Named { .. }));
        if !has_names && let Some(error) = Parts::of(call)?.not_an_aggregate() {
            return Err(error);
        }
        let inlined = self.inline(&call.name, list)?;
        match inlined.returns_set {
            true => self.set_of(inlined),
            false => {
                let per_row = !self.level().relations.is_empty();
                self.value_of(inlined, per_row)
            }
        }
    }

    /// Returns the value of a call: that of the body's first row, NULL without one. `per_row`: the
    /// call is made for each of several rows.
    fn value_of(&mut self, inlined: Inlined, per_row: bool) -> Result<Typed, SqlError> {
        let mut inlined = self.checked(inlined)?;
        let (ty, domain) = match &inlined.rows {
            Rows::Void => (Type::Void, None),
            Rows::Value(of) => (of.ty, of.domain),
            Rows::Columns(shape, _) => (shape.ty(), None),
        };
        let named = |domain| move |expr| Typed { domain, ..Typed::of(expr, ty) };
        let named = named(domain);
        let row = match &inlined.rows {
            Rows::Columns(shape, _) => Some(shape.clone()),
            _ => None,
        };
        if let Some(shape) = &row {
            let parts = std::mem::take(&mut inlined.outputs).into_iter().map(|(_, value)| value);
            inlined.outputs = vec![(String::new(), Expr::Row(parts.collect(), shape.clone()))];
        }
        inlined.substitute();
        let is_computed = inlined.is_computed();
        let (rel, outputs) = inlined.joined();
        let value = outputs.into_iter().next().map_or(Expr::Const(Datum::Null), |(_, it)| it);
        if is_computed {
            return Ok(named(value));
        }
        let first = match is_single(&rel) {
            true => rel,
            false => first_of(rel),
        };
        let id = self.computed("value", ty);
        self.columns[id].shape = row;
        let rel = Rel::Project { input: Box::new(first), outputs: vec![(id, value)] };
        refuse_shared(&rel, per_row)?;
        let subquery = Subquery { wants: Wants::Value(id), rel };
        Ok(named(Expr::Subquery(Box::new(subquery))))
    }

    /// Returns a column of the rows that a call makes for each row of the query, where it is one of
    /// its outputs.
    fn set_of(&mut self, mut inlined: Inlined) -> Result<Typed, SqlError> {
        let level = self.level();
        let Some(sets) = &level.sets else { return Err(self.no_sets()) };
        if !sets.is_empty() || !level.set_queries.is_empty() {
            let what = "a set-returning function beside another among the outputs";
            return Err(SqlError::unsupported(what));
        }
        let row = match &inlined.rows {
            Rows::Columns(shape, _) => Some(shape.clone()),
            _ => None,
        };
        let (ty, domain) = match (&row, &inlined.rows) {
            (Some(shape), _) => (shape.ty(), None),
            (None, Rows::Value(of)) => (of.ty, of.domain),
            (None, _) => (Type::Void, None),
        };
        inlined.substitute();
        let (rel, outputs) = inlined.joined();
        let mut values = outputs.into_iter().map(|(_, value)| value);
        let value = match &row {
            Some(shape) => Expr::Row(values.collect(), shape.clone()),
            None => values.next().unwrap_or(Expr::Const(Datum::Null)),
        };
        let id = self.computed("value", ty);
        self.columns[id].shape = row;
        let rel = Rel::Project { input: Box::new(rel), outputs: vec![(id, value)] };
        refuse_shared(&rel, !self.level().relations.is_empty())?;
        self.level().set_queries.push(rel);
        Ok(Typed { domain, ..Typed::of(Expr::Column(id), ty) })
    }

    /// Gives a value to a function that returns none: it is NULL once the body's rows are read.
    fn checked(&mut self, mut inlined: Inlined) -> Result<Inlined, SqlError> {
        if !matches!(inlined.rows, Rows::Void) {
            return Ok(inlined);
        }
        let null = || Expr::Const(Datum::Null);
        if computed_only(&inlined.rel).is_none() && !inlined.outputs.is_empty() {
            let mut counts = Vec::with_capacity(inlined.outputs.len());
            for (_, value) in std::mem::take(&mut inlined.outputs) {
                let call = aggregate::resolve("count", &[Some(Type::Text)])?;
                let (function, ty) = (call.function, call.result);
                let (distinct, order, filter) = (false, Vec::new(), None);
                let args = vec![value];
                let count = Aggregate { function, args, ty, distinct, order, filter };
                counts.push((self.computed("count", Type::Int8), count));
            }
            let values = counts.iter().map(|(id, _)| (String::new(), Expr::Column(*id)));
            inlined.outputs = values.collect();
            let input = Box::new(std::mem::replace(&mut inlined.rel, Rel::one_row()));
            inlined.rel =
                Rel::Aggregate { input, keys: Vec::new(), sets: None, aggregates: counts };
        }
        let values = std::mem::take(&mut inlined.outputs).into_iter().map(|(_, value)| value);
        let is_null = |value| Expr::IsNull(Box::new(value), false);
        let branches = values.map(|value| (is_null(value), null())).collect();
        let nothing = Expr::Case { branches, otherwise: Box::new(null()) };
        inlined.outputs = vec![(String::new(), nothing)];
        Ok(inlined)
    }

    /// Binds a call in FROM, and adds its relation.
    pub(super) fn bind_user_function(
        &mut self,
        name: &ast::ObjectName,
        args: &[ast::FunctionArg],
        with_ordinality: bool,
        alias: Option<&ast::TableAlias>,
    ) -> Result<Rel, SqlError> {
        if with_ordinality {
            let what = format!("WITH ORDINALITY of the function {name}");
            return Err(SqlError::unsupported(what));
        }
        self.begin_clause("functions in FROM", false);
        let inlined = self.inline(name, args);
        self.end_clause();
        let mut inlined = inlined?;
        let shown = inlined.name.clone();
        let is_value = matches!(inlined.rows, Rows::Value(_) | Rows::Void);
        let declared: Vec<Declared> = match &inlined.rows {
            Rows::Void => vec![Declared { ty: Type::Void, domain: None }],
            Rows::Value(of) => vec![*of],
            Rows::Columns(_, all) => all.clone(),
        };
        // The column of a single value has the name of its parameter, or that of the alias.
        let mut names: Vec<String> = inlined.outputs.iter().map(|(name, _)| name.clone()).collect();
        if matches!(inlined.rows, Rows::Void) {
            names = vec![String::new()];
        }
        if is_value && names.iter().all(String::is_empty) {
            names = vec![alias.map_or(shown.clone(), |alias| names::fold(&alias.name))];
        }
        let per_row = inlined.reads_columns();
        let (rel, values) = if inlined.returns_set {
            inlined.substitute();
            let (rel, values) = inlined.joined();
            let is_volatile = values.iter().any(|(_, value)| value.is_volatile());
            refuse_shared(&rel, per_row && (is_volatile || rel.is_volatile()))?;
            (rel, values)
        } else if is_value {
            let value = self.value_of(inlined, per_row)?.expr;
            (Rel::one_row(), vec![(String::new(), value)])
        } else {
            inlined.substitute();
            let (rel, values) = inlined.joined();
            let first = if is_single(&rel) { rel } else { first_of(rel) };
            // A row of NULLs where the body has none.
            let ids: Vec<ColumnId> = values.iter().map(|_| self.computed("", Type::Text)).collect();
            let columns = ids.iter().zip(values).map(|(id, (_, value))| (*id, value)).collect();
            let first = Rel::Project { input: Box::new(first), outputs: columns };
            let rel = Rel::one_row().join(JoinKind::Left, first, Expr::truth());
            let values = ids.into_iter().map(|id| (String::new(), Expr::Column(id)));
            (rel, values.collect())
        };
        let mut outputs = Vec::with_capacity(names.len());
        let mut columns = Vec::with_capacity(names.len());
        for ((name, of), (_, value)) in names.into_iter().zip(declared).zip(values) {
            let id = self.computed(&name, of.ty);
            self.columns[id].domain = of.domain;
            outputs.push(Output { id, name, unknown: false });
            columns.push((id, value));
        }
        let rows = Lockable::default().of_kind("a function");
        let mut relation = self.derived(&outputs, alias, Some(&shown), rows)?;
        relation.is_scalar = is_value;
        self.level().relations.push(relation);
        Ok(Rel::Project { input: Box::new(rel), outputs: columns })
    }

    /// Chooses the function of a call, and binds its body beside the arguments.
    fn inline(
        &mut self,
        written: &ast::ObjectName,
        args: &[ast::FunctionArg],
    ) -> Result<Inlined, SqlError> {
        let name = names::relation(written)?;
        let given = given(args)?;
        let bound = given.iter().map(|arg| self.bind(arg.expr)).collect::<Result<Vec<_>, _>>()?;
        let (function, args) = self.choose_user(&name, &given, bound)?;
        if let Some(mentions) = &mut self.mentions {
            mentions.extend(Mention::of_type(written, function.id));
            self.called.push(function.id);
        }
        self.body_of(&function, args)
    }

    fn choose_user(
        &mut self,
        name: &Qualified,
        given: &[Given<'_>],
        bound: Vec<Typed>,
    ) -> Result<(Arc<UserFunction>, Vec<(Expr, Declared)>), SqlError> {
        let types: Vec<Option<Type>> = bound.iter().map(|arg| self.type_of(arg)).collect();
        let named = self.functions.iter().filter(|(other, _)| other == name);
        let functions: Vec<Arc<UserFunction>> = named.map(|(_, it)| it.clone()).collect();
        let mut candidates = Vec::new();
        for function in functions {
            let Some(places) = places_of(&function, given) else { continue };
            let inputs = function.inputs().map(|it| user_function::type_of(&it.ty, &self.types));
            let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
            let params = places.iter().map(|at| Param::Of(inputs[*at].ty.base())).collect();
            candidates.push(Candidate { function, params, places, inputs });
        }
        let forms: Vec<&Candidate> = candidates.iter().collect();
        let shown = match given.iter().any(|arg| arg.name.is_some()) {
            false => name.to_string(),
            // The names of arguments stand before their types.
            true => return self.chosen_by_name(name, given, &types, &forms, bound),
        };
        let Candidate { function, places, inputs, .. } =
            function::choose(&shown, &forms, &types)?.function;
        let args = self.arguments(function, places, inputs, bound)?;
        Ok((function.clone(), args))
    }

    /// Chooses as [`function::choose`] does, for a call with names of arguments.
    fn chosen_by_name(
        &mut self,
        name: &Qualified,
        given: &[Given<'_>],
        types: &[Option<Type>],
        forms: &[&Candidate],
        bound: Vec<Typed>,
    ) -> Result<(Arc<UserFunction>, Vec<(Expr, Declared)>), SqlError> {
        let plain = name.to_string();
        let chosen = function::choose(&plain, forms, types).map_err(|error| {
            let shown = given.iter().zip(types).map(|(arg, ty)| {
                let ty = ty.map_or("unknown", Type::name);
                arg.name.as_ref().map_or(ty.to_owned(), |name| format!("{name} => {ty}"))
            });
            let shown = format!("{plain}({})", shown.collect::<Vec<_>>().join(", "));
            let types = types.iter().map(|ty| ty.map_or("unknown", Type::name));
            let before = format!("{plain}({})", types.collect::<Vec<_>>().join(", "));
            SqlError { message: error.message.replace(&before, &shown), ..error }
        })?;
        let Candidate { function, places, inputs, .. } = chosen.function;
        let args = self.arguments(function, places, inputs, bound)?;
        Ok((function.clone(), args))
    }

    /// Returns the values of all inputs of a function: the arguments, and defaults.
    fn arguments(
        &mut self,
        function: &UserFunction,
        places: &[usize],
        inputs: &[Declared],
        bound: Vec<Typed>,
    ) -> Result<Vec<(Expr, Declared)>, SqlError> {
        let mut given: Vec<(usize, Typed)> = places.iter().copied().zip(bound).collect();
        let mut args = Vec::with_capacity(inputs.len());
        for (at, (param, of)) in function.inputs().zip(inputs).enumerate() {
            let arg = match given.iter().position(|(place, _)| *place == at) {
                Some(found) => given.swap_remove(found).1,
                None => {
                    let text = param.default.as_deref().unwrap_or("NULL");
                    let default = parse::expression(text)?;
                    self.apart(true, |binder| binder.bind(&default))?
                }
            };
            args.push((self.as_declared(arg, *of)?, *of));
        }
        Ok(args)
    }

    /// Converts a value to a declared type.
    fn as_declared(&mut self, value: Typed, of: Declared) -> Result<Expr, SqlError> {
        let domain = value.domain;
        let expr = match self.type_of(&value) {
            Some(from) if from == of.ty => value.expr,
            _ => self.coerce(value, of.ty, false)?,
        };
        Ok(match of.domain {
            Some(of) if domain != Some(of) => Expr::Domain(Box::new(expr), of),
            _ => expr,
        })
    }

    /// Binds something that names nothing of the queries around it. A text of the catalog, if it
    /// `is_stored`, means the same in any session.
    fn apart<T>(
        &mut self,
        is_stored: bool,
        bind: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let levels = self.levels.iter_mut();
        let outside: Vec<_> = levels.map(|level| std::mem::take(&mut level.relations)).collect();
        let named = std::mem::take(&mut self.named);
        let mentions: Option<Vec<Mention>> = self.mentions.take();
        let frozen = std::mem::replace(&mut self.is_frozen, is_stored);
        let stored = std::mem::replace(&mut self.is_stored, is_stored);
        let (side, row_keys) = (std::mem::take(&mut self.binds_side), self.row_keys);
        self.row_keys = false;
        let bound = bind(self);
        (self.named, self.mentions, self.row_keys) = (named, mentions, row_keys);
        (self.is_frozen, self.is_stored, self.binds_side) = (frozen, stored, side);
        for (level, relations) in self.levels.iter_mut().zip(outside) {
            level.relations = relations;
        }
        bound.map_err(SqlError::unplaced)
    }

    /// Binds the body of a function.
    fn body_of(
        &mut self,
        function: &UserFunction,
        args: Vec<(Expr, Declared)>,
    ) -> Result<Inlined, SqlError> {
        if self.bodies.iter().any(|body| body.function == function.id) {
            let what = format!("the function {}, which calls itself,", function.name);
            return Err(SqlError::unsupported(what));
        }
        if self.tables.is_none() {
            return Err(SqlError::unsupported(format!("the function {} here", function.name)));
        }
        let rows = rows_of(function, &self.types)?;
        let parsed = function.parsed().map_err(SqlError::unplaced)?;
        let query = user_function::query_of(&parsed)?;
        let (params, bound) = self.apart(false, |binder| {
            let depth = binder.levels.len();
            binder.levels.push(Level::default());
            let mut params = Vec::with_capacity(args.len());
            let mut columns = Vec::with_capacity(args.len());
            for (param, (_, of)) in function.inputs().zip(&args) {
                let id = binder.computed(&param.name, of.ty);
                binder.columns[id].domain = of.domain;
                binder.columns[id].relation.clone_from(&function.name);
                let visibility = match &*param.name {
                    "" => Visibility::Dropped,
                    _ => Visibility::Full,
                };
                columns.push(ScopeColumn { name: param.name.clone(), id, visibility });
                params.push(id);
            }
            let relation = Relation {
                alias: Some(function.name.clone()),
                columns,
                table: None,
                commit_timestamp: None,
                row_key: None,
                rows: Lockable::default(),
                is_scalar: false,
                outer_joins: 0,
            };
            binder.level().relations.push(relation);
            binder.bodies.push(Body { function: function.id, params: params.clone() });
            let bound = binder.bind_query(query);
            binder.bodies.pop();
            binder.levels.truncate(depth);
            Ok((params, bound?))
        })?;
        if bound.rel.locks_rows() {
            return Err(SqlError::unsupported("FOR UPDATE or FOR SHARE in a function"));
        }
        let outputs = self.returned(function, &rows, &bound)?;
        let is_present = |(id, (_, of)): (&ColumnId, &(Expr, Declared))| present(*id, of.ty);
        let present = match function.strict {
            true => params.iter().zip(&args).map(is_present).collect(),
            false => Vec::new(),
        };
        let args = args.into_iter().map(|(arg, _)| arg);
        Ok(Inlined {
            name: function.name.clone(),
            params: params.into_iter().zip(args).collect(),
            present,
            rel: bound.rel,
            outputs,
            rows,
            returns_set: function.returns_set,
        })
    }

    /// Converts what a body returns to what its function does. Fails with 42P13 if it cannot.
    fn returned(
        &mut self,
        function: &UserFunction,
        rows: &Rows,
        bound: &Bound,
    ) -> Result<Vec<(String, Expr)>, SqlError> {
        let name = match rows {
            Rows::Void => "void",
            Rows::Value(of) => of.name(),
            Rows::Columns(shape, _) => shape.ty().name(),
        };
        let outputs = bound.outputs.as_slice();
        let only = function.outputs().next().map(|param| param.name.clone());
        match rows {
            Rows::Void => {
                let value = |output: &Output| (String::new(), Expr::Column(output.id));
                Ok(outputs.iter().map(value).collect())
            }
            Rows::Value(of) => {
                let [output] = outputs else {
                    let detail = "Final statement must return exactly one column.".to_owned();
                    return Err(mismatch(name, detail));
                };
                let value = self.typed_column(output.id);
                let Some(value) = self.returned_as(value.clone(), *of)? else {
                    let actual =
                        Declared { ty: value.ty.unwrap_or(Type::Text), domain: value.domain };
                    return Err(mismatch(
                        name,
                        format!("Actual return type is {}.", actual.name()),
                    ));
                };
                Ok(vec![(only.unwrap_or_default(), value)])
            }
            // One value of the type is the row.
            Rows::Columns(Shape::Named(of), _)
                if let [output] = outputs
                    && self.column(output.id).ty == Type::Composite(*of) =>
            {
                let row = || Box::new(Expr::Column(output.id));
                let fields = of.fields().iter().enumerate();
                let value =
                    |(at, field): (usize, &Field)| (field.name.to_string(), Expr::Field(row(), at));
                Ok(fields.map(value).collect())
            }
            Rows::Columns(shape, all) => {
                let mut values = Vec::with_capacity(all.len());
                for (at, (field, of)) in shape.fields().iter().zip(all).enumerate() {
                    let Some(output) = outputs.get(at) else {
                        let detail = "Final statement returns too few columns.".to_owned();
                        return Err(mismatch(name, detail));
                    };
                    let value = self.typed_column(output.id);
                    let Some(value) = self.returned_as(value.clone(), *of)? else {
                        let actual = value.ty.map_or("unknown", Type::name);
                        return Err(mismatch(
                            name,
                            format!(
                                "Final statement returns {actual} instead of {} at column {}.",
                                of.name(),
                                at + 1
                            ),
                        ));
                    };
                    values.push((field.name.to_string(), value));
                }
                if outputs.len() > all.len() {
                    let detail = "Final statement returns too many columns.".to_owned();
                    return Err(mismatch(name, detail));
                }
                Ok(values)
            }
        }
    }

    /// Converts a value of a body to the type that its function returns, as an assignment does.
    fn returned_as(&mut self, value: Typed, of: Declared) -> Result<Option<Expr>, SqlError> {
        let from = value.ty.unwrap_or(Type::Text);
        if from != of.ty && !cast::is_assignable(from, of.ty) {
            return Ok(None);
        }
        let is_of_it = value.domain == of.domain;
        let expr = match from == of.ty {
            true => value.expr,
            false => {
                Expr::Cast(Box::new(value.expr), of.ty, Coercion::of(Some(from), of.ty, false))
            }
        };
        Ok(Some(match of.domain {
            Some(domain) if !is_of_it => Expr::Domain(Box::new(expr), domain),
            _ => expr,
        }))
    }

    /// Returns the column of an argument that `$1` and so on name in a body.
    pub(super) fn argument_numbered(&self, number: usize) -> Option<Option<Typed>> {
        let body = self.bodies.last()?;
        Some(body.params.get(number - 1).map(|id| self.typed_column(*id)))
    }
}

/// Binds the body of a new function, over the objects that it may name, to see that it returns what
/// the function does, and that the defaults of its parameters have their types.
pub(crate) fn check_body(function: &UserFunction, objects: &Objects) -> Result<(), SqlError> {
    let mut binder = Binder::over(objects, &[]);
    let inputs = function.inputs().map(|it| user_function::type_of(&it.ty, &objects.types));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    for (param, of) in function.inputs().zip(&inputs) {
        let Some(text) = &param.default else { continue };
        let default = parse::expression(text)?;
        let bound = binder.apart(true, |binder| binder.bind(&default))?;
        if let Some(from) = bound.ty.filter(|from| !cast::is_assignable(*from, of.ty)) {
            let (to, from) = (of.name(), from.name());
            let message = format!("argument of DEFAULT must be type {to}, not type {from}");
            return Err(SqlError::new(state::TYPE_MISMATCH, message));
        }
        binder.as_declared(bound, *of)?;
    }
    let nothing = |of: Declared| (Expr::Const(Datum::Null), of);
    binder.body_of(function, inputs.into_iter().map(nothing).collect()).map(|_| ())
}

/// Returns the error of a CALL: no procedure can be created.
pub(crate) fn procedure_error(call: &ast::Function, objects: &Objects) -> SqlError {
    let mut binder = Binder::over(objects, &[]);
    let shown = |binder: &mut Binder| {
        let name = names::relation(&call.name)?;
        let list = match &call.args {
            ast::FunctionArguments::List(list) => list.args.as_slice(),
            _ => &[],
        };
        let given = given(list)?;
        let bound = given.iter().map(|arg| binder.bind(arg.expr)).collect::<Result<Vec<_>, _>>()?;
        let types = bound.iter().map(|arg| binder.type_of(arg).map_or("unknown", Type::name));
        let shown = format!("{name}({})", types.collect::<Vec<_>>().join(", "));
        Ok((shown, binder.choose_user(&name, &given, bound).is_ok()))
    };
    match shown(&mut binder) {
        Err(error) => error,
        Ok((shown, true)) => {
            let message = format!("{shown} is not a procedure");
            SqlError::new(state::WRONG_OBJECT, message).hint("To call a function, use SELECT.")
        }
        Ok((shown, false)) => {
            let message = format!("procedure {shown} does not exist");
            SqlError::new(state::UNDEFINED_FUNCTION, message).hint(
                "No procedure matches the given name and argument types. You might need to add \
                 explicit type casts.",
            )
        }
    }
}

/// Returns the first row of a relation.
fn first_of(rel: Rel) -> Rel {
    let limit = Some(Expr::Const(Datum::Int8(1)));
    Rel::Limit { input: Box::new(rel), limit, offset: None }
}

/// Returns the names of the types of a function's inputs, as messages show them.
pub(crate) fn shown_inputs(
    function: &UserFunction,
    types: &names::NamedTypes,
) -> Result<String, SqlError> {
    let inputs = function.inputs().map(|it| user_function::type_of(&it.ty, types));
    let inputs = inputs.map(|of| of.map(Declared::name)).collect::<Result<Vec<_>, _>>()?;
    Ok(inputs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_of_the_system_is_not_the_users() {
        let binder = Binder::new(&[]);
        let name = |text: &str| {
            let parts = text.split('.').map(ast::Ident::new);
            ast::ObjectName::from(parts.collect::<Vec<_>>())
        };
        assert!(binder.is_user_call(&name("app.f")));
        assert!(!binder.is_user_call(&name("pg_catalog.lower")));
        assert!(!binder.is_user_call(&name("meridian.causal_token")));
        assert!(!binder.is_user_call(&name("lower")));
    }
}
