//! Calls of functions: of scalar functions here, of aggregates and window functions by the parts of
//! the call.

use super::named_args;
use super::types::shared;
use super::{Binder, Typed};
use crate::aggregate;
use crate::cast::Coercion;
use crate::datum::Datum;
use crate::domain::Domain;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::extension;
use crate::function::{self, Function};
use crate::names;
use crate::system;
use crate::types::{Object, Type};
use crate::window;
use sqlparser::ast;

/// The parts of a call that aggregates and window functions may have.
pub(super) struct Parts<'a> {
    pub(super) name: String,
    /// True for `f(*)`.
    pub(super) star: bool,
    pub(super) distinct: bool,
    pub(super) args: Vec<&'a ast::Expr>,
    /// ORDER BY among the arguments.
    pub(super) order: &'a [ast::OrderByExpr],
    pub(super) within: &'a [ast::OrderByExpr],
    pub(super) filter: Option<&'a ast::Expr>,
    pub(super) over: Option<&'a ast::WindowType>,
}

/// The id of `unknown`, the type of a literal.
const UNKNOWN: u32 = 705;

impl<'a> Parts<'a> {
    pub(super) fn of(call: &'a ast::Function) -> Result<Parts<'a>, SqlError> {
        let ast::Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            filter,
            null_treatment,
            over,
            within_group,
        } = call;
        let name = names::function_name(name);
        if *uses_odbc_syntax || !matches!(parameters, ast::FunctionArguments::None) {
            return Err(SqlError::unsupported("a call of another dialect"));
        }
        if null_treatment.is_some() {
            return Err(SqlError::unsupported(format!("IGNORE NULLS or RESPECT NULLS of {name}")));
        }
        let mut parts = Parts {
            name,
            star: false,
            distinct: false,
            args: Vec::new(),
            order: &[],
            within: within_group,
            filter: filter.as_deref(),
            over: over.as_ref(),
        };
        let list = match args {
            ast::FunctionArguments::None => return Ok(parts),
            ast::FunctionArguments::Subquery(_) => {
                return Err(SqlError::unsupported("a subquery as argument"));
            }
            ast::FunctionArguments::List(list) => list,
        };
        let ast::FunctionArgumentList { duplicate_treatment, args, clauses } = list;
        parts.distinct = matches!(duplicate_treatment, Some(ast::DuplicateTreatment::Distinct));
        if let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)] = args.as_slice() {
            parts.star = true;
        } else {
            parts.args = named_args::of_call(call)?;
        }
        match clauses.as_slice() {
            [] => {}
            [ast::FunctionArgumentClause::OrderBy(order)] => parts.order = order,
            _ => return Err(SqlError::unsupported(format!("a clause in {}", parts.name))),
        }
        if parts.distinct && (parts.star || parts.args.is_empty()) {
            let message = "DISTINCT specified, but there is no argument";
            return Err(SqlError::new(state::SYNTAX, message));
        }
        Ok(parts)
    }

    /// Returns the error of a call that has a part of aggregates, if it has one.
    pub(super) fn not_an_aggregate(&self) -> Option<SqlError> {
        let name = &self.name;
        let part = match self {
            Parts { distinct: true, .. } => "DISTINCT",
            Parts { within: [_, ..], .. } => "WITHIN GROUP",
            Parts { order: [_, ..], .. } => "ORDER BY",
            Parts { filter: Some(_), .. } => "FILTER",
            Parts { over: Some(_), .. } => {
                let message = format!(
                    "OVER specified, but {name} is not a window function nor an aggregate function"
                );
                return Some(SqlError::new(state::WRONG_OBJECT, message));
            }
            Parts { star: true, .. } => {
                let message =
                    format!("{name}(*) specified, but {name} is not an aggregate function");
                return Some(SqlError::new(state::WRONG_OBJECT, message));
            }
            _ => return None,
        };
        let message = format!("{part} specified, but {name} is not an aggregate function");
        Some(SqlError::new(state::WRONG_OBJECT, message))
    }
}

/// Removes the parameters of type void, which stand for the result of a call, as JDBC's driver
/// sends it.
pub(super) fn without_results(mut args: Vec<Typed>) -> Vec<Typed> {
    args.retain(|arg| !matches!((&arg.expr, arg.ty), (Expr::Param(_), Some(Type::Void))));
    args
}

impl Binder {
    pub(super) fn call(&mut self, call: &ast::Function) -> Result<Typed, SqlError> {
        if self.is_extension_call(&call.name) {
            return self.extension_call(call);
        }
        if self.is_user_call(&call.name) {
            return self.user_call(call);
        }
        if let ast::FunctionArguments::Subquery(query) = &call.args
            && names::function_name(&call.name) == "array"
        {
            return self.array_of_query(query);
        }
        let parts = Parts::of(call)?;
        let name = parts.name.as_str();
        if name == "grouping" {
            return self.grouping(&parts);
        }
        let is_window = window::exists(name);
        let is_aggregate = !aggregate::named(name).is_empty();
        match parts.over {
            Some(over) if is_window || is_aggregate => return self.window_call(&parts, over),
            None if is_aggregate && !(is_window && parts.args.is_empty()) => {
                return self.aggregate(&parts);
            }
            None if is_window => {
                let message = format!("window function {name} requires an OVER clause");
                return Err(SqlError::new(state::WRONG_OBJECT, message));
            }
            _ => {}
        }
        self.scalar_call(&parts)
    }

    fn scalar_call(&mut self, parts: &Parts<'_>) -> Result<Typed, SqlError> {
        let name = parts.name.as_str();
        let is_special = matches!(name, "coalesce" | "make_interval" | "pg_typeof");
        let exists = is_special || !function::named(name).is_empty();
        match parts.not_an_aggregate() {
            Some(error) if exists => return Err(error),
            Some(_) => {
                let bound = parts.args.iter().map(|arg| self.bind(arg));
                let types = bound.map(|bound| Ok(bound?.ty)).collect::<Result<Vec<_>, SqlError>>();
                return Err(function::missing(name, &types?));
            }
            None => {}
        }
        if name == "coalesce" {
            let all = self.without_sets("COALESCE", |binder| binder.bind_all(&parts.args))?;
            let ty = self.meet_all("COALESCE", &all)?.unwrap_or(Type::Text);
            let domain = shared(all.iter().map(|arg| arg.domain));
            let all =
                all.into_iter().map(|arg| self.coerce(arg, ty, false)).collect::<Result<_, _>>()?;
            return Ok(Typed { domain, ..Typed::of(Expr::Coalesce(all), ty) });
        }
        match name {
            "pg_typeof" => return self.pg_typeof(&parts.args),
            "enum_first" | "enum_last" | "enum_range" => {
                return self.enum_values(name, &parts.args);
            }
            _ => {}
        }
        let mut bound = self.bind_arguments(name, &parts.args)?;
        if matches!(name, "greatest" | "least") {
            bound.iter().try_for_each(|arg| self.check_collation(arg))?;
            let ty = self.meet_all(&name.to_uppercase(), &bound)?.unwrap_or(Type::Text);
            let typed = |expr| Typed::of(expr, ty);
            let all = bound.into_iter().map(|arg| self.coerce(arg, ty, false).map(typed));
            let all = all.collect::<Result<_, _>>()?;
            return Ok(typed(self.apply(name, all)?.expr));
        }
        if name == "nullif" {
            return self.nullif(bound);
        }
        if self.is_folding_call(name, &bound) {
            return self.folding_call(name, bound);
        }
        match self.type_before_literal(name, &bound) {
            Some(ty) if extension::of_type(ty).is_none() => {
                Ok(Typed::of(self.coerce(bound.remove(0), ty, true)?, ty))
            }
            _ => self.apply(name, bound),
        }
    }

    /// Returns the type whose name stands before a literal as a function would: it converts the
    /// literal, whatever functions have this name.
    pub(super) fn type_before_literal(&self, name: &str, args: &[Typed]) -> Option<Type> {
        let [literal] = args else { return None };
        let ty = system::type_named(name).and_then(Type::from_oid)?;
        let is_literal = self.type_of(literal).is_none();
        (is_literal && !ty.is_anonymous() && !ty.is_of_system()).then_some(ty)
    }

    /// Binds `pg_typeof`: its argument, and the type that this has.
    fn pg_typeof(&mut self, args: &[&ast::Expr]) -> Result<Typed, SqlError> {
        let mut bound = self.bind_all(args)?;
        let [arg] = bound.as_slice() else {
            let types: Vec<_> = bound.iter().map(|arg| self.type_of(arg)).collect();
            return Err(function::missing("pg_typeof", &types));
        };
        let (oid, shown) = match self.type_of(arg) {
            // Its name depends on the search path.
            Some(ty) if arg.domain.is_some() || ty.user_type().is_some() => {
                let oid = arg.domain.map_or(ty.oid(), Domain::id);
                let oid = Expr::Const(Datum::Int8(oid.into()));
                let named = self.apply(Object::Type.name(), vec![Typed::of(oid, Type::Int8)])?;
                bound.push(named);
                return self.apply(function::PG_TYPEOF, bound);
            }
            Some(ty) => (ty.oid(), system::format_type(ty.oid().into(), None)),
            None => (UNKNOWN, "unknown".to_owned()),
        };
        let ty = Expr::Const(Datum::Object(oid, shown.into()));
        bound.push(Typed::of(ty, Type::Object(Object::Type)));
        self.apply(function::PG_TYPEOF, bound)
    }

    /// Binds NULLIF, whose type is that of its left side if the sides can be compared as they are.
    fn nullif(&mut self, args: Vec<Typed>) -> Result<Typed, SqlError> {
        let left = args.first().and_then(|left| self.type_of(left));
        let types: Vec<_> = args.iter().map(|arg| self.type_of(arg)).collect();
        if let [left, right] = *types
            && types.iter().flatten().any(|ty| !ty.has_order())
        {
            return Err(Self::no_operator("=", left, right));
        }
        let compared = self.apply("nullif", args)?;
        let is_time =
            |ty: Type| matches!(ty.plain(), Type::Date | Type::Timestamp | Type::TimestampTz);
        Ok(match (left, compared.ty) {
            (Some(left), Some(met))
                if left != met
                    && (left.is_integer() && met.is_integer() || is_time(left) && is_time(met)) =>
            {
                let how = Coercion::of(Some(met), left, true);
                Typed::of(Expr::Cast(Box::new(compared.expr), left, how), left)
            }
            _ => compared,
        })
    }

    pub(super) fn bind_all(&mut self, args: &[&ast::Expr]) -> Result<Vec<Typed>, SqlError> {
        args.iter().map(|arg| self.bind(arg)).collect()
    }

    /// Binds the arguments of a function. The blanks behind a text of `character(n)` are part of
    /// its JSON.
    pub(super) fn bind_arguments(
        &mut self,
        function: &str,
        args: &[&ast::Expr],
    ) -> Result<Vec<Typed>, SqlError> {
        let mut bound = without_results(self.bind_all(args)?);
        if function::makes_json(function) {
            for arg in &mut bound {
                if let Some(Type::Char(length @ 1..)) = arg.ty {
                    let length = Typed::of(Expr::Const(Datum::Int4(length as i32)), Type::Int4);
                    *arg = self.apply("rpad", vec![arg.clone(), length])?;
                }
            }
        }
        Ok(bound)
    }

    pub(super) fn function(&mut self, name: &str, args: &[&ast::Expr]) -> Result<Typed, SqlError> {
        let bound = self.bind_all(args)?;
        self.apply(name, bound)
    }

    /// Applies a function or an operator of the catalog.
    pub(super) fn apply(&mut self, name: &str, args: Vec<Typed>) -> Result<Typed, SqlError> {
        let forms = self.forms(name);
        self.apply_among(name, &forms, args)
    }

    /// Applies one of some forms of a function or an operator.
    pub(super) fn apply_among(
        &mut self,
        name: &str,
        forms: &[&'static Function],
        args: Vec<Typed>,
    ) -> Result<Typed, SqlError> {
        let (function, args, ty) = self.resolve_among(name, forms, args)?;
        if function::takes_definitions(name) {
            let message = format!("could not determine row type for result of {name}");
            let hint = "Call the function in the FROM clause with a column definition list.";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).hint(hint));
        }
        if function.reads_catalog() && self.tables.is_none() {
            return Err(SqlError::unsupported(format!("{name} here")));
        }
        match function.is_set() {
            true => self.set_call(function, args, ty),
            false => Ok(Typed::of(Expr::Call(function, args), ty)),
        }
    }

    /// Chooses the form of a function, and converts its arguments; returns its type, too.
    pub(super) fn resolve_call(
        &mut self,
        name: &str,
        args: Vec<Typed>,
    ) -> Result<(&'static Function, Vec<Expr>, Type), SqlError> {
        let forms = self.forms(name);
        self.resolve_among(name, &forms, args)
    }

    fn resolve_among(
        &mut self,
        name: &str,
        forms: &[&'static Function],
        args: Vec<Typed>,
    ) -> Result<(&'static Function, Vec<Expr>, Type), SqlError> {
        let types: Vec<_> = args.iter().map(|arg| self.type_of(arg)).collect();
        let forms = self.with_forms_of_types(name, forms, &types)?;
        let call = function::resolve(name, &forms, &types)?;
        let converted = self.convert(args, call.params)?;
        Ok((call.function, converted, call.result))
    }

    /// Converts arguments to the types of a function's form.
    pub(super) fn convert(
        &mut self,
        args: Vec<Typed>,
        params: Vec<Option<Type>>,
    ) -> Result<Vec<Expr>, SqlError> {
        let mut converted = Vec::with_capacity(args.len());
        for (arg, param) in args.into_iter().zip(params) {
            converted.push(match param {
                Some(ty) if self.type_of(&arg).is_none_or(|from| from.base() != ty) => {
                    self.coerce(arg, ty, false)?
                }
                _ => arg.expr,
            });
        }
        Ok(converted)
    }
}

/// Returns the type of a result that has the type of arguments (`anyelement`), which must be
/// determined.
pub(super) fn element(result: Type, args: &[Option<Type>]) -> Result<Type, SqlError> {
    if args.iter().all(Option::is_none) {
        let message = "could not determine polymorphic type because input has type unknown";
        return Err(SqlError::new(state::TYPE_MISMATCH, message));
    }
    Ok(polymorphic(result, args))
}

/// Returns the type of a result that has the common type of arguments (`anycompatible`).
pub(super) fn polymorphic(result: Type, args: &[Option<Type>]) -> Type {
    let is_varchar = |ty: &Type| matches!(ty, Type::Varchar(_));
    let mut texts = args.iter().flatten().filter(|ty| ty.base() == result).peekable();
    match texts.peek().is_some() && texts.all(is_varchar) {
        true => Type::Varchar(None),
        false => result,
    }
}
