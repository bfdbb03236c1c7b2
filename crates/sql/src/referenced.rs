//! The objects that a statement refers to: their names in its syntax tree, and their descriptors as
//! a transaction sees them, with those of the views and functions that it names.

use crate::bind::Objects;
use crate::catalog::{self, Object, Planned, Resolver, SearchPath, Table};
use crate::engine::Engine;
use crate::error::{SqlError, state};
use crate::extension;
use crate::limits;
use crate::materialized::{self, not_materialized};
use crate::names::{self, Qualified};
use crate::sequence;
use crate::stack;
use crate::system;
use crate::temporary::is_temporary;
use crate::type_names;
use crate::user_function::{self, UserFunction};
use crate::view::{Uses, View};
use meridian_txn::{Lock, Transaction};
use sqlparser::ast::{self, Statement, TableFactor, Visit};
use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The objects that a query names, and the names of its WITH clauses.
#[derive(Default)]
pub(crate) struct Named {
    pub(crate) tables: Vec<ast::ObjectName>,
    /// The literals that name sequences.
    pub(crate) literals: BTreeSet<String>,
    /// The names of types that the database may have.
    pub(crate) types: BTreeSet<Qualified>,
    /// The calls of functions that the database may have, with the numbers of their arguments.
    pub(crate) calls: Vec<(Qualified, usize)>,
    /// The names of functions and operators that extensions may have.
    pub(crate) extended: BTreeSet<Qualified>,
    pub(crate) hidden: Vec<String>,
    /// The number of tables, queries and their sides, and of windows: the deepest that a plan of
    /// the statement may be.
    pub(crate) relations: usize,
}

impl Named {
    /// Returns those of a statement.
    pub(crate) fn of(statement: &Statement) -> Named {
        // The change itself is a query of its tables.
        let changes =
            matches!(statement, Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_));
        let mut named = Named { relations: usize::from(changes), ..Named::default() };
        let _ = statement.visit(&mut named);
        named
    }

    /// Adds a call of a function.
    pub(crate) fn call(&mut self, name: &ast::ObjectName, args: &[ast::FunctionArg]) {
        let Ok(name) = names::relation(name) else { return };
        if extension::may_have(&name) {
            self.extended.insert(name.clone());
        }
        if user_function::may_be(&name) {
            self.calls.push((name, args.len()));
        }
    }

    /// Adds an operator.
    fn operator(&mut self, name: &str) {
        let name = Qualified::of(name);
        if extension::may_have(&name) {
            self.extended.insert(name);
        }
    }
}

fn is_number(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Value(it) if matches!(it.value, ast::Value::Number(..)))
}

impl ast::Visitor for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        self.relations += 1;
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.hidden.extend(ctes.map(|cte| names::fold(&cte.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        self.relations += usize::from(limits::is_window(expr));
        if let Some(literal) = sequence::literal_of(expr) {
            self.literals.insert(literal.to_owned());
        }
        self.types.extend(type_names::of(expr).and_then(names::enumeration));
        match expr {
            // The remainder of a division.
            ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Modulo, right }
                if is_number(left) || is_number(right) => {}
            ast::Expr::BinaryOp {
                op: ast::BinaryOperator::PGCustomBinaryOperator(parts), ..
            } => {
                parts.last().into_iter().for_each(|name| self.operator(name));
            }
            ast::Expr::BinaryOp { op, .. } => self.operator(&op.to_string()),
            ast::Expr::UnaryOp { op, .. } => self.operator(&op.to_string()),
            ast::Expr::Prefixed { prefix, .. } => self.operator(&prefix.value),
            _ => {}
        }
        if let ast::Expr::Function(call) = expr {
            let args = match &call.args {
                ast::FunctionArguments::List(list) => &list.args,
                _ => &Vec::new(),
            };
            self.call(&call.name, args);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.relations += 1;
        match factor {
            TableFactor::Table { name, args: None, .. } => self.tables.push(name.clone()),
            TableFactor::Table { name, args: Some(args), .. } => self.call(name, &args.args),
            TableFactor::Function { name, args, .. } => self.call(name, args),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// A relation that a query may read.
pub(crate) enum Readable {
    /// A table, or a sequence as one.
    Table(Arc<Table>),
    View(Arc<View>),
}

/// Finds a relation by its name; fails with 42P01.
pub(crate) async fn readable(
    engine: &Engine,
    txn: &mut dyn Transaction,
    names: &mut Resolver<'_>,
    clean: bool,
    name: &ast::ObjectName,
) -> Result<Readable, SqlError> {
    let folded = names::relation(name)?;
    if let Some(table) = system::find(&folded)
        && !names.is_hidden(txn, &folded).await?
    {
        return Ok(Readable::Table(table));
    }
    if let Some(name) = folded.of_filled() {
        let table = filled(engine, txn, names, clean, &name).await?;
        let view = table.as_view().ok_or_else(|| not_materialized(&name.name))?;
        return Ok(Readable::View(Arc::new(view)));
    }
    match names.object(txn, &engine.cache, &folded, clean, Lock::Shared).await? {
        Some(Object::Table(table)) => return Ok(Readable::Table(table)),
        Some(Object::Sequence(sequence)) => {
            return Ok(Readable::Table(Arc::new(sequence.as_table())));
        }
        Some(Object::View(view)) => return Ok(Readable::View(view)),
        Some(
            Object::Enum(_)
            | Object::Domain(_)
            | Object::Composite(_)
            | Object::Schema(_)
            | Object::Function(_)
            | Object::Extension(_)
            | Object::BaseType(_),
        )
        | None => {}
    }
    let mut error =
        SqlError::new(state::UNDEFINED_TABLE, format!("relation \"{folded}\" does not exist"));
    let all = catalog::names(txn).await?;
    if let Some(near) = names::nearest(&folded.name, all.iter().map(|(name, _)| name.as_str())) {
        error = error.hint(format!("Did you mean \"{near}\"?"));
    }
    Err(error.at(name.0.last().and_then(|part| part.as_ident()).and_then(names::position)))
}

/// Finds the materialized view that the system fills. Fails with 42P01 if it is not there.
pub(crate) async fn filled(
    engine: &Engine,
    txn: &mut dyn Transaction,
    names: &mut Resolver<'_>,
    clean: bool,
    name: &Qualified,
) -> Result<Arc<Table>, SqlError> {
    let found = names.object(txn, &engine.cache, name, clean, Lock::Shared).await?;
    found.and_then(|object| object.table().cloned()).ok_or_else(|| materialized::missing(name))
}

/// Finds the functions of a name. Fails with 3F000 if its schema does not exist, unless the call is
/// inside another object: it is an error there where that is used.
async fn functions(
    engine: &Engine,
    txn: &mut dyn Transaction,
    names: &mut Resolver<'_>,
    clean: bool,
    name: &Qualified,
    is_inner: bool,
) -> Result<Vec<Arc<UserFunction>>, SqlError> {
    if let Some(schema) = name.schema.as_deref().filter(|_| !is_inner)
        && catalog::schema_id(txn, schema, Lock::Shared).await?.is_none()
    {
        let message = format!("schema \"{schema}\" does not exist");
        return Err(SqlError::new(state::NO_SCHEMA, message));
    }
    names.functions(txn, &engine.cache, name, clean, Lock::Shared).await
}

/// Finds the extensions of some names, and adds them to those that are found. Returns what a plan
/// that uses them depends on.
async fn extensions(
    engine: &Engine,
    txn: &mut dyn Transaction,
    names: &mut Resolver<'_>,
    clean: bool,
    named: BTreeSet<Qualified>,
    found: &mut Objects,
) -> Result<Vec<Planned>, SqlError> {
    let mut planned = Vec::new();
    for name in named {
        if found.extensions.iter().any(|(known, ..)| *known == name) {
            continue;
        }
        for installed in names.extensions(txn, &engine.cache, &name, clean).await? {
            planned.push(installed.planned());
            found.extensions.push((name.clone(), installed.id, installed.declared()?));
        }
    }
    Ok(planned)
}

/// Finds the objects that a statement may name, and adds them to those that it is planned for.
/// Returns them, and the number of relations.
pub(crate) async fn read(
    engine: &Engine,
    txn: &mut dyn Transaction,
    names: &mut Resolver<'_>,
    clean: bool,
    named: Named,
    targets: &[Arc<Table>],
    tables: &mut Vec<Planned>,
    views: &mut Uses,
) -> Result<(Objects, usize), SqlError> {
    let mut found = Objects::default();
    let mut relations = named.relations;
    let (mut literals, mut types) = (BTreeSet::new(), BTreeSet::new());
    // The statement, and then the views and functions that it names, and those that these name.
    let public = SearchPath::public();
    let in_public = &mut Resolver::new(&public);
    let mut rest = VecDeque::from([(None, named)]);
    while let Some((within, mut named)) = rest.pop_front() {
        // The text of an older view names objects of `public`.
        let view = within.and_then(|id| found.views.iter().find(|view| view.id == id));
        let is_of_old = view.is_some_and(|view: &Arc<View>| !view.by_id);
        let is_function = within.is_some() && view.is_none();
        literals.append(&mut named.literals);
        types.append(&mut named.types);
        let mut inner = Vec::new();
        for name in &named.tables {
            let folded = names::relation(name)?;
            if let Some(id) = found.relation(&folded) {
                inner.extend(found.views.iter().find(|view| view.id == id).map(|view| view.id));
                continue;
            }
            let found_table = match is_of_old {
                true => readable(engine, txn, in_public, clean, name).await,
                false => readable(engine, txn, names, clean, name).await,
            };
            let table = match found_table {
                // A name of WITH may hide a table in one place and not in another.
                Err(error)
                    if error.sqlstate == state::UNDEFINED_TABLE
                        && folded.schema.is_none()
                        && named.hidden.contains(&folded.name) =>
                {
                    continue;
                }
                // It is an error where the function is called.
                Err(error) if error.sqlstate == state::UNDEFINED_TABLE && is_function => continue,
                Ok(Readable::Table(table)) => table,
                Ok(Readable::View(view)) => {
                    found.by_name.push((folded, view.id));
                    if found.views.iter().any(|known| known.id == view.id) {
                        inner.push(view.id);
                        continue;
                    }
                    tables.push(view.planned());
                    let parsed = view.parsed()?;
                    let of = || Named::of(&parsed.statement);
                    rest.push_back((Some(view.id), stack::with_room_if_deep(parsed.levels, of)));
                    inner.push(view.id);
                    found.views.push(view);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if tables.iter().all(|known| known.id != table.id) {
                tables.push(table.planned());
            }
            found.by_name.push((folded, table.id));
            if found.tables.iter().all(|known| known.id != table.id) {
                found.tables.push(table);
            }
        }
        // Apart, as below.
        let of_names = extensions(engine, txn, names, clean, named.extended, &mut found);
        for installed in Box::pin(of_names).await? {
            if tables.iter().all(|known| known.id != installed.id) {
                tables.push(installed);
                views.unread.push(installed);
            }
        }
        for (name, count) in named.calls {
            if found.functions.iter().all(|(known, _)| *known != name) {
                let is_inner = within.is_some();
                // Apart, so that the state of what waits for it stays small.
                let of_name = Box::pin(functions(engine, txn, names, clean, &name, is_inner));
                for function in of_name.await? {
                    if tables.iter().all(|known| known.id != function.id) {
                        tables.push(function.planned());
                        views.unread.push(function.planned());
                        types.extend(function.types());
                        // What is no query is refused where it is called.
                        if let Ok(parsed) = function.parsed() {
                            let of = || Named::of(&parsed.statement);
                            let of = stack::with_room_if_deep(parsed.levels, of);
                            rest.push_back((Some(function.id), of));
                        }
                    }
                    found.functions.push((name.clone(), function));
                }
            }
            let of_name = found.functions.iter().filter(|(known, _)| *known == name);
            let fitting = of_name.filter(|(_, function)| function.takes(count));
            inner.extend(fitting.map(|(_, function)| function.id));
        }
        views.add(within, named.relations, inner);
    }
    if !found.views.is_empty() || !found.functions.is_empty() {
        relations = views.weigh(&found)?;
    }
    for literal in literals {
        // What no sequence has as its name is an error where it is used.
        let Some(name) = names::written(&literal) else { continue };
        let object = match names.relation(txn, &name).await? {
            Some(it) if it.id == it.table => {
                catalog::object_by_id(txn, &engine.cache, it.id, clean, Lock::Shared).await?
            }
            _ => None,
        };
        if let Some(object) = object {
            if tables.iter().all(|known| known.id != object.id()) {
                tables.push(object.planned());
            }
            found.relations.push((literal, object.id()));
        }
    }
    found.types = names.user_types(txn, &engine.cache, types, clean).await?;
    for (_, ty) in &found.types {
        // A change of the type is one of a table that has it, whose shards refuse the plan.
        let has_it = |table: &Table| table.user_types().contains(ty);
        let planned = match ty.ty().is_row_of_table() {
            false => ty.planned(),
            true => {
                let table = engine.cache.newest(ty.planned().id);
                table.map_or_else(|| ty.planned(), |table| table.planned())
            }
        };
        if tables.iter().any(|known| known.id == planned.id) {
            continue;
        }
        if !targets.iter().chain(&found.tables).any(|table| has_it(table)) {
            views.unread.push(planned);
        }
        tables.push(planned);
    }
    // No change of a type is one of a temporary table that has it.
    for table in targets.iter().chain(&found.tables).filter(|table| is_temporary(table.id)) {
        for ty in table.user_types() {
            // A type that was dropped does not change any more.
            if catalog::version(txn, ty.id(), Lock::Shared).await?.is_none() {
                continue;
            }
            views.unread.push(ty.planned());
            tables.push(ty.planned());
        }
    }
    Ok((found, relations))
}
