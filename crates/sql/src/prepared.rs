//! PREPARE and EXECUTE: the prepared statements of the wire protocol, by SQL.

use crate::bind::Binder;
use crate::cast;
use crate::catalog::{self, Resolver, UserType};
use crate::clauses;
use crate::compile::{self, Compiled, Plan};
use crate::datetime;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::{Expr, Scope};
use crate::names::{self, NamedTypes, Qualified};
use crate::parse::Parsed;
use crate::portal::Portal;
use crate::response::Response;
use crate::session::{Prepared, Session};
use crate::stack;
use crate::type_names;
use crate::types::Type;
use meridian_txn::{Begin, Lock, Mode, ReadAt};
use sqlparser::ast::{self, Statement};
use std::pin::Pin;
use std::sync::Arc;

/// Returns the name and the arguments of EXECUTE. Fails with 0A000 for what is not built.
pub(crate) fn executed(statement: &Statement) -> Result<(String, &[ast::Expr]), SqlError> {
    let Statement::Execute {
        name: Some(name),
        parameters,
        has_parentheses,
        immediate,
        into,
        using,
        output,
        default,
    } = statement
    else {
        return Err(SqlError::unsupported("this form of EXECUTE"));
    };
    let is_other = *immediate || !into.is_empty() || !using.is_empty() || *output || *default;
    clauses::refuse(&[(is_other, "EXECUTE of another dialect")])?;
    match name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(ident)] if *has_parentheses || parameters.is_empty() => {
            Ok((names::fold(ident), parameters))
        }
        _ => {
            Err(SqlError::new(state::SYNTAX, "EXECUTE takes a name, and arguments in parentheses"))
        }
    }
}

/// Fails with 0A000 for a statement that EXECUTE does not run. A client may prepare each, also an
/// EXECUTE of itself.
fn check_kind(plan: &Plan) -> Result<(), SqlError> {
    match plan {
        Plan::Query(_) | Plan::Write { .. } | Plan::With(_) | Plan::Explain { .. } => Ok(()),
        Plan::Schema | Plan::Control => {
            let what = "PREPARE or EXECUTE of anything but a query or a change of rows";
            Err(SqlError::unsupported(what))
        }
    }
}

/// A prepared statement: its name, its plan, and the values of the arguments.
type Called = (String, Arc<Compiled>, Arc<[Datum]>);

impl Session {
    /// Runs PREPARE.
    pub(crate) async fn prepare(&mut self, compiled: &Compiled) -> Result<Response, SqlError> {
        let Statement::Prepare { name, data_types, statement } = &compiled.source.statement else {
            return Err(SqlError::unsupported("this form of PREPARE"));
        };
        let name = names::fold(name);
        self.refuse_prepared(&name)?;
        let named: Vec<_> = data_types.iter().filter_map(names::enumeration).collect();
        let types = self.user_types(named).await?;
        let declared =
            data_types.iter().map(|ty| Ok(Some(names::data_type(ty, &types)?.unlimited())));
        let declared: Arc<[_]> = declared.collect::<Result<_, SqlError>>()?;
        let mut parsed = Parsed::clone(&compiled.source);
        parsed.statement = Statement::clone(statement);
        let sql = Arc::from(statement.to_string());
        let inner = self.compile(Arc::new(parsed), declared).await?;
        check_kind(&inner.plan)?;
        let shown = Some(Arc::from(compiled.source.statement.to_string()));
        self.prepared.insert(name, Prepared { sql, compiled: Some(inner), shown });
        Ok(Response::Complete("PREPARE".into()))
    }

    /// Runs EXECUTE: its portal becomes one of the prepared statement.
    pub(crate) async fn execute_prepared(
        &mut self,
        portal: &mut Portal,
        compiled: &Compiled,
        max: usize,
    ) -> Result<Response, SqlError> {
        let Some((name, inner, params)) =
            self.called(&compiled.source, &compiled.source.statement).await?
        else {
            return Ok(Response::Empty);
        };
        *portal = Portal::of_statement(&name, Some(inner.clone()), params);
        self.deepen(inner.levels);
        let ran = stack::run_if_deep(inner.levels, || self.run_boxed(portal, max)).await;
        // Its places are those of the text of PREPARE.
        let response = ran.map_err(SqlError::unplaced)?;
        self.keep_plan(portal);
        Ok(response)
    }

    /// Runs EXPLAIN EXECUTE: its portal becomes one of EXPLAIN of the prepared statement.
    pub(crate) async fn explain_prepared(
        &mut self,
        portal: &mut Portal,
        compiled: &Compiled,
        max: usize,
    ) -> Result<Response, SqlError> {
        let mut explain = compiled.source.statement.clone();
        let Statement::Explain { statement, .. } = &mut explain else {
            return Err(SqlError::unsupported("this form of EXPLAIN"));
        };
        let Some((_, inner, params)) = self.called(&compiled.source, statement).await? else {
            return Ok(Response::Empty);
        };
        if let Plan::Explain { .. } = inner.plan {
            return Err(SqlError::unsupported("EXPLAIN EXECUTE of an EXPLAIN"));
        }
        **statement = inner.source.statement.clone();
        let mut parsed = Parsed::clone(&inner.source);
        parsed.statement = explain;
        let types = inner.params.iter().map(|ty| Some(*ty)).collect();
        let explained = self.compile(Arc::new(parsed), types).await;
        let explained = explained.map_err(SqlError::unplaced)?;
        *portal = Portal::new(explained, params);
        self.deepen(inner.levels);
        let ran = stack::run_if_deep(inner.levels, || self.run_boxed(portal, max)).await;
        ran.map_err(SqlError::unplaced)
    }

    /// Returns the prepared statement that EXECUTE names, and the values of its arguments; `None`
    /// for an empty statement.
    async fn called(
        &mut self,
        source: &Parsed,
        execute: &Statement,
    ) -> Result<Option<Called>, SqlError> {
        if source.as_of.is_some() {
            return Err(SqlError::unsupported("AS OF SYSTEM TIME behind EXECUTE")
                .hint("Put it into the statement that is prepared."));
        }
        let (name, given) = executed(execute)?;
        let Some(mut inner) = self.find(&name)?.compiled.clone() else { return Ok(None) };
        check_kind(&inner.plan)?;
        if given.len() != inner.params.len() {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            let (wanted, given) = (inner.params.len(), given.len());
            return Err(SqlError::new(state::SYNTAX, message)
                .detail(format!("Expected {wanted} parameters but got {given}.")));
        }
        let named = type_names::in_statement(execute);
        let types = self.user_types(named).await?;
        let mut params = self.arguments(given, &inner.params, &types).await;
        let is_bad = params.as_ref().is_err_and(|error| error.sqlstate == state::BAD_TEXT);
        if is_bad && self.renew(&name).await? {
            inner = self.find(&name)?.compiled.clone().unwrap_or(inner);
            params = self.arguments(given, &inner.params, &types).await;
        }
        Ok(Some((name, inner, params?.into())))
    }

    /// Runs a portal inside the run of another one. Without a type between them, that of the future
    /// would contain itself.
    fn run_boxed<'a>(
        &'a mut self,
        portal: &'a mut Portal,
        max: usize,
    ) -> Pin<Box<dyn Future<Output = Result<Response, SqlError>> + Send + 'a>> {
        Box::pin(self.run(portal, max))
    }

    /// Plans a prepared statement for the newest versions of its parameters' types: a client may
    /// send labels or fields that are newer than the plan. Returns false if the plan has them.
    pub async fn renew(&mut self, name: &str) -> Result<bool, SqlError> {
        let Some(old) = self.find(name)?.compiled.clone() else { return Ok(false) };
        let types: Vec<_> = old.params.iter().filter_map(|ty| ty.user_type()).collect();
        let newest = self.newest(&types).await?;
        if types.iter().zip(&newest).all(|(old, new)| old.planned() == new.planned()) {
            return Ok(false);
        }
        let renewed = |ty: &Type| newest.iter().fold(*ty, |ty, new| ty.with_version(*new));
        let declared = old.params.iter().map(|ty| Some(renewed(ty))).collect();
        let compiled = self.compile(old.source.clone(), declared).await?;
        if let Some(prepared) = self.prepared.get_mut(name) {
            prepared.compiled = Some(compiled);
        }
        Ok(true)
    }

    /// Finds the types of some names.
    async fn user_types(
        &mut self,
        names: impl IntoIterator<Item = Qualified>,
    ) -> Result<NamedTypes, SqlError> {
        let mut names = names.into_iter().peekable();
        if names.peek().is_none() {
            return Ok(Vec::new());
        }
        let (path, mut own) = (self.facts.search_path(), None);
        let (txn, clean) = compile::reader(&self.engine, self.work.as_mut(), &mut own).await?;
        Resolver::new(&path).user_types(txn, &self.engine.cache, names, clean).await
    }

    /// Returns the newest versions of types; of one that was dropped, the one that is given.
    async fn newest(&mut self, types: &[UserType]) -> Result<Vec<UserType>, SqlError> {
        let mut own = None;
        let (txn, clean) = compile::reader(&self.engine, self.work.as_mut(), &mut own).await?;
        let mut newest = Vec::with_capacity(types.len());
        for ty in types {
            let (cache, id) = (&self.engine.cache, ty.id());
            let found = catalog::type_of_id(txn, cache, id, clean, Lock::Shared).await?;
            newest.push(found.unwrap_or(*ty));
        }
        Ok(newest)
    }

    /// Returns the values of EXECUTE's arguments.
    async fn arguments(
        &mut self,
        given: &[ast::Expr],
        types: &[Type],
        named: &[(Qualified, UserType)],
    ) -> Result<Vec<Datum>, SqlError> {
        let mut binder = Binder::new(&[]);
        binder.types = named.to_vec();
        binder.zone = self.facts.zone().clone();
        binder.begin_clause("EXECUTE parameters", false);
        let mut exprs = Vec::with_capacity(given.len());
        for (at, (expr, ty)) in given.iter().zip(types).enumerate() {
            let bound = binder.bind_as(expr, *ty, false)?;
            if let Some(from) = bound.ty
                && !cast::is_assignable(from, *ty)
            {
                let (number, from, to) = (at + 1, from.name(), ty.name());
                let message = format!(
                    "parameter ${number} of type {from} cannot be coerced to the expected type {to}"
                );
                return Err(SqlError::new(state::TYPE_MISMATCH, message)
                    .at(names::expr_position(expr))
                    .hint("You will need to rewrite or cast the expression."));
            }
            exprs.push(binder.coerce(bound, *ty, false)?);
        }
        let is_constant = |expr: &Expr| matches!(expr, Expr::Const(_));
        let began = self.work.as_ref().map(|work| work.txn.began().earliest);
        let now_us = match began {
            _ if exprs.iter().all(is_constant) => 0,
            Some(earliest) => datetime::from_unix_ns(earliest),
            None => {
                let how = Begin::new(Mode::ReadOnly(ReadAt::Now));
                let began = self.engine.database().begin(how).await?.began();
                datetime::from_unix_ns(began.earliest)
            }
        };
        let session = &self.facts;
        let scope = Scope { params: &[], now_us, session, catalog: None, effects: None };
        exprs.iter().map(|expr| expr.eval(&[], &scope)).collect()
    }
}
