//! CREATE, ALTER and DROP FUNCTION, and COMMENT ON FUNCTION.
//!
//! A plan that calls a function reads its version: what changes it needs to tell no shard.

use super::{Ddl, depended_on, owner, stored, users, views};
use crate::bind::shown_inputs;
use crate::catalog::{self, Object, Table, UserType, is_system_schema};
use crate::compile;
use crate::composite::ROW_TYPE;
use crate::error::{SqlError, state};
use crate::function::Volatility;
use crate::kv;
use crate::names::{self, NamedTypes, Qualified};
use crate::system;
use crate::temporary;
use crate::type_names;
use crate::types::Type;
use crate::user_function::{
    self, Argument, FunctionChange, FunctionOptions, FunctionStatement, Kind, Language, Mode,
    NewFunction, Parameter, Promises, Properties, Returns, Signature, UserFunction,
};
use meridian_mvcc::KeyRange;
use meridian_txn::Lock;
use sqlparser::ast::{self, DataType, Statement};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Types that only functions have, which take their place from the types of the arguments.
const POLYMORPHIC: [&str; 12] = [
    "any",
    "anyarray",
    "anycompatible",
    "anycompatiblearray",
    "anycompatiblemultirange",
    "anycompatiblenonarray",
    "anycompatiblerange",
    "anyelement",
    "anyenum",
    "anymultirange",
    "anynonarray",
    "anyrange",
];

/// Types that functions in other languages have.
const OF_OTHERS: [&str; 5] =
    ["cstring", "event_trigger", "internal", "language_handler", "trigger"];

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(state::INVALID_FUNCTION, message)
}

/// Runs a statement about a function. Returns its tag.
pub(super) async fn run(
    cx: &mut Ddl<'_>,
    statement: &FunctionStatement,
) -> Result<String, SqlError> {
    cx.know_types(types_in(statement)).await?;
    match statement {
        FunctionStatement::Create(new) => create(cx, new).await?,
        FunctionStatement::Alter { kind, function, change } => {
            let old = find(cx, *kind, function).await?;
            alter(cx, &old, change).await?;
        }
        FunctionStatement::Drop { kind, if_exists, functions, cascade } => {
            let mut found: Vec<Arc<UserFunction>> = Vec::with_capacity(functions.len());
            for function in functions {
                match find(cx, *kind, function).await {
                    Ok(one) if found.iter().any(|other| other.id == one.id) => {}
                    Ok(one) => found.push(one),
                    Err(missing) if *if_exists && missing.sqlstate == state::UNDEFINED_FUNCTION => {
                        skip(cx, *kind, function, &missing);
                    }
                    Err(error) => return Err(error),
                }
            }
            for function in found {
                drop_one(cx, &function, *cascade).await?;
            }
        }
        FunctionStatement::Comment { kind, function, text } => {
            let function = find(cx, *kind, function).await?;
            let mut comments = catalog::comments(cx.txn, function.id).await?;
            comments.set(0, text.as_deref().filter(|text| !text.is_empty()));
            catalog::put_comments(cx.txn, function.id, &comments)?;
        }
    }
    Ok(match statement {
        FunctionStatement::Create(_) => "CREATE FUNCTION".into(),
        FunctionStatement::Alter { kind, .. } => format!("ALTER {}", kind.word().to_uppercase()),
        FunctionStatement::Drop { kind, .. } => format!("DROP {}", kind.word().to_uppercase()),
        FunctionStatement::Comment { .. } => "COMMENT".into(),
    })
}

/// Says that IF EXISTS has found no function.
fn skip(cx: &mut Ddl<'_>, kind: Kind, function: &Signature, missing: &SqlError) {
    let message = match &function.args {
        Some(_) => format!("{}, skipping", missing.message),
        None => {
            let name = names::relation(&function.name).map_or(String::new(), |it| it.to_string());
            format!("{} {name}() does not exist, skipping", kind.word())
        }
    };
    cx.notices.push(SqlError::new(state::SUCCESSFUL, message));
}

/// Returns the names of the types that a statement may have of the database.
fn types_in(statement: &FunctionStatement) -> BTreeSet<Qualified> {
    let mut types = BTreeSet::new();
    let mut add = |args: &[Argument]| {
        for Argument { ty, default, .. } in args {
            types.extend(names::enumeration(ty));
            types.extend(default.iter().flat_map(type_names::in_expressions));
        }
    };
    match statement {
        FunctionStatement::Create(new) => {
            add(&new.args);
            if let Some(Returns::Type(ty, _)) = &new.returns {
                types.extend(names::enumeration(ty));
            }
        }
        FunctionStatement::Alter { function, .. } | FunctionStatement::Comment { function, .. } => {
            add(function.args.as_deref().unwrap_or_default());
        }
        FunctionStatement::Drop { functions, .. } => {
            functions.iter().for_each(|it| add(it.args.as_deref().unwrap_or_default()));
        }
    }
    types
}

/// Returns the type of a parameter or a result, without a length.
fn declared(cx: &Ddl<'_>, ty: &DataType, refused: &str) -> Result<user_function::Typed, SqlError> {
    let named = match ty {
        DataType::Trigger => Some("trigger".to_owned()),
        ty => type_names::element(ty).map(names::function_name),
    };
    if let Some(name) = named {
        if POLYMORPHIC.contains(&&*name) {
            return Err(SqlError::unsupported(format!("a function of the type {name}")));
        }
        if OF_OTHERS.contains(&&*name) {
            return Err(invalid(format!("SQL functions cannot {refused} type {name}")));
        }
    }
    let found = names::declared_type(ty, &cx.types);
    let (ty, domain) = found.map_err(|error| error.at(names::type_position(ty)))?;
    Ok(user_function::Typed { ty: ty.unlimited(), domain })
}

/// Returns the name of a type as descriptors have it.
fn stored_type(of: user_function::Typed) -> Result<String, SqlError> {
    let name = user_function::stored_type(of);
    name.ok_or_else(|| SqlError::unsupported(format!("a function of the type {}", of.name())))
}

/// The arguments that a function may have, as in PostgreSQL.
const MOST_ARGUMENTS: usize = 100;

/// Returns the parameters of a new function.
async fn parameters(
    cx: &mut Ddl<'_>,
    args: &[Argument],
) -> Result<(Vec<Parameter>, Vec<user_function::Typed>), SqlError> {
    if args.iter().filter(|arg| arg.mode.is_input()).count() > MOST_ARGUMENTS {
        let message = format!("functions cannot have more than {MOST_ARGUMENTS} arguments");
        return Err(SqlError::new("54023", message));
    }
    let (mut params, mut types) = (Vec::<Parameter>::new(), Vec::new());
    let mut has_default = false;
    for Argument { name, mode, ty, default } in args {
        let name = name.as_ref().map(names::fold).unwrap_or_default();
        let is_other = |other: &Parameter| {
            (other.mode == Mode::In) == (*mode == Mode::In)
                || other.mode == Mode::InOut
                || *mode == Mode::InOut
        };
        if !name.is_empty() && params.iter().any(|other| other.name == name && is_other(other)) {
            return Err(invalid(format!("parameter name \"{name}\" used more than once")));
        }
        let of = declared(cx, ty, "have arguments of").map_err(|error| match error.sqlstate {
            state::UNDEFINED_OBJECT => {
                let message = error.message.replace('"', "");
                SqlError { message, hint: None, ..error }
            }
            _ => error,
        })?;
        if matches!(of.ty, Type::Void | Type::Record) {
            let ty = of.name();
            return Err(invalid(format!("SQL functions cannot have arguments of type {ty}")));
        }
        let default = match default {
            Some(_) if !mode.is_input() => {
                return Err(invalid("only input parameters can have default values"));
            }
            Some(default) => {
                refuse_names(default)?;
                refuse_calls(cx, default, "the default of a parameter").await?;
                Some(stored::stored(cx, default).await?)
            }
            None if has_default && mode.is_input() => {
                let message =
                    "input parameters after one with a default value must also have defaults";
                return Err(invalid(message));
            }
            None => None,
        };
        has_default |= default.is_some();
        params.push(Parameter { name, mode: *mode, ty: stored_type(of)?, default });
        types.push(of);
    }
    Ok((params, types))
}

/// Fails with 42P10 if the default of a parameter names a column.
fn refuse_names(default: &ast::Expr) -> Result<(), SqlError> {
    let found = ast::visit_expressions(default, |part| match part {
        ast::Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_)) => {
            ControlFlow::Break(())
        }
        ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            Err(SqlError::unsupported("a query or a parameter in the default of a parameter"))
        }
    }
}

/// Returns what a function returns, by RETURNS and its parameters, and whether a set of it.
fn returns(
    cx: &Ddl<'_>,
    new: &NewFunction,
    params: &[Parameter],
    types: &[user_function::Typed],
) -> Result<(user_function::Typed, bool), SqlError> {
    let outputs = params.iter().zip(types).filter(|(param, _)| param.mode.is_output());
    let outputs: Vec<_> = outputs.map(|(_, of)| *of).collect();
    let record = user_function::Typed { ty: Type::Record, domain: None };
    let of_outputs = match outputs.as_slice() {
        [] => None,
        [one] => Some(*one),
        _ => Some(record),
    };
    Ok(match (&new.returns, of_outputs) {
        (Some(Returns::Table), _) => (of_outputs.unwrap_or(record), true),
        (None, Some(of)) => (of, false),
        (None, None) => return Err(invalid("function result type must be specified")),
        (Some(Returns::Type(ty, is_set)), of_outputs) => {
            let of = declared(cx, ty, "return")?;
            if let Some(wanted) = of_outputs.filter(|wanted| *wanted != of) {
                let wanted = wanted.name();
                return Err(invalid(format!(
                    "function result type must be {wanted} because of OUT parameters"
                )));
            }
            if of_outputs.is_none() && of.ty.is_anonymous() {
                return Err(SqlError::unsupported(
                    "a function that returns record, without OUT parameters,",
                ));
            }
            (of, *is_set)
        }
    })
}

/// Returns the volatility, strictness and so on of a function with other options.
fn with_options(
    options: &FunctionOptions,
    volatility: Volatility,
    strict: bool,
    promises: &Promises,
    returns_set: bool,
) -> Result<(Volatility, bool, Promises), SqlError> {
    let FunctionOptions { leakproof, parallel, cost, rows, .. } = options;
    if rows.is_some() && !returns_set {
        let message = "ROWS is not applicable when function does not return a set";
        return Err(SqlError::new(state::INVALID_PARAMETER, message));
    }
    let parallel = match parallel.as_ref().map(names::fold).as_deref() {
        None => promises.parallel,
        Some("safe") => Some('s'),
        Some("restricted") => Some('r'),
        Some("unsafe") => None,
        Some(_) => {
            let message = "parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE";
            return Err(SqlError::new(state::SYNTAX, message));
        }
    };
    let promises = Promises {
        leakproof: leakproof.unwrap_or(promises.leakproof),
        parallel,
        cost: cost.or(promises.cost),
        rows: rows.or(promises.rows),
    };
    let strict = options.strict.unwrap_or(strict);
    Ok((options.volatility.unwrap_or(volatility), strict, promises))
}

/// Creates a function, or replaces one.
async fn create(cx: &mut Ddl<'_>, new: &NewFunction) -> Result<(), SqlError> {
    let name = names::relation(&new.name)?;
    let schema = cx.place(&name).await?;
    let name = name.name;
    user_function::check_name(&name)?;
    let language = new.language.as_deref().ok_or_else(|| invalid("no language specified"))?;
    match Language::named(language) {
        Language::Sql => {}
        Language::Other => return Err(SqlError::unsupported(format!("LANGUAGE {language}"))),
        Language::Unknown => {
            let message = format!("language \"{language}\" does not exist");
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
        }
    }
    let (params, types) = parameters(cx, &new.args).await?;
    let (returns, returns_set) = returns(cx, new, &params, &types)?;
    let (volatility, strict, promises) =
        with_options(&new.options, Volatility::Volatile, false, &Promises::default(), returns_set)?;
    let body = new.body.clone().ok_or_else(|| invalid("no function body specified"))?;
    let properties = Properties {
        returns: stored_type(returns)?,
        returns_set,
        body,
        volatility,
        strict,
        promises,
    };
    let inputs = params.iter().filter(|param| param.mode.is_input());
    let signature = user_function::signature_of(inputs.map(|param| param.ty.as_str()));
    let old = by_key(cx, schema, &name, &signature).await?;
    let (id, version) = match &old {
        Some(old) => (old.id, old.version + 1),
        None => (cx.next_id().await?, 1),
    };
    let function = UserFunction::new((id, version), (schema, name), params, properties);
    if let Some(old) = &old {
        if !new.or_replace {
            let message =
                format!("function \"{}\" already exists with same argument types", old.name);
            return Err(SqlError::new(state::DUPLICATE_FUNCTION, message));
        }
        check_replaced(cx, old, &function).await?;
        forget_types(cx, old)?;
    }
    let mut named: Vec<UserType> = Vec::new();
    for of in types.iter().chain([&returns]) {
        named.extend(of.ty.user_type());
        named.extend(of.domain.map(UserType::Domain));
    }
    for ty in named {
        users::add(cx, ty.id(), id)?;
    }
    if cx.facts.settings.is_on("check_function_bodies") {
        let zone = cx.facts.zone().clone();
        compile::function(cx.engine, cx.txn, &mut cx.names, &function, zone).await?;
    }
    put(cx, function)
}

/// Stores a function under its name.
fn put(cx: &mut Ddl<'_>, function: UserFunction) -> Result<(), SqlError> {
    cx.clean = false;
    let object = Object::Function(Arc::new(function));
    let id = kv::to_value(object.id().to_be_bytes().to_vec());
    cx.txn.put(object.name_key(), Some(id))?;
    catalog::put(cx.txn, &object)
}

/// Returns the ids of the types of the database that a function has.
fn type_ids(function: &UserFunction) -> BTreeSet<u32> {
    function.types().filter_map(|name| name.id()).collect()
}

fn forget_types(cx: &mut Ddl<'_>, function: &UserFunction) -> Result<(), SqlError> {
    type_ids(function).into_iter().try_for_each(|ty| users::remove(cx, ty, function.id))
}

/// Fails unless a function that is replaced stays what callers rely on.
async fn check_replaced(
    cx: &mut Ddl<'_>,
    old: &UserFunction,
    new: &UserFunction,
) -> Result<(), SqlError> {
    let outputs = |function: &UserFunction| -> Vec<_> {
        function.outputs().map(|it| (it.name.clone(), it.ty.clone())).collect()
    };
    let names = |function: &UserFunction| -> Vec<_> {
        function.inputs().map(|it| it.name.clone()).collect()
    };
    let renamed = names(old).into_iter().zip(names(new));
    let mut renamed = renamed.filter(|(old, new)| !old.is_empty() && old != new);
    let has_default =
        |function: &UserFunction| function.inputs().filter(|it| it.default.is_some()).count();
    let error = if (&old.returns, old.returns_set) != (&new.returns, new.returns_set) {
        invalid("cannot change return type of existing function")
    } else if old.outputs().count() > 1 && outputs(old) != outputs(new) {
        invalid("cannot change return type of existing function")
            .detail("Row type defined by OUT parameters is different.")
    } else if let Some((name, _)) = renamed.next() {
        invalid(format!("cannot change name of input parameter \"{name}\""))
    } else if has_default(old) > has_default(new) {
        invalid("cannot remove parameter defaults from existing function")
    } else {
        return Ok(());
    };
    let shown = described(cx, old).await?.replace(", ", ",");
    let shown = shown.trim_start_matches("function ");
    Err(error.hint(format!("Use DROP FUNCTION {shown} first.")))
}

/// Returns a function as it is shown, behind the word for its kind.
pub(super) async fn described(
    cx: &mut Ddl<'_>,
    function: &UserFunction,
) -> Result<String, SqlError> {
    let cache = &cx.engine.cache;
    let types: NamedTypes = cx.names.user_types(cx.txn, cache, function.types(), false).await?;
    let inputs = shown_inputs(function, &types)?.replace(", ", ",");
    Ok(format!("function {}({inputs})", system::quoted(&function.name)))
}

/// Returns the function of a name with such inputs in a schema.
async fn by_key(
    cx: &mut Ddl<'_>,
    schema: u32,
    name: &str,
    signature: &str,
) -> Result<Option<Arc<UserFunction>>, SqlError> {
    let key = kv::function_key(schema, name, signature);
    cx.txn.keep_range(KeyRange::point(key.clone()));
    let Some(id) = cx.txn.get(&key, Lock::Exclusive).await? else { return Ok(None) };
    now(cx, catalog::read_u32(&id)?).await
}

/// Returns the function of an id as it is now.
async fn now(cx: &mut Ddl<'_>, id: u32) -> Result<Option<Arc<UserFunction>>, SqlError> {
    let cache = &cx.engine.cache;
    let found = catalog::object_by_id(cx.txn, cache, id, false, Lock::Exclusive).await?;
    Ok(found.and_then(|object| match object {
        Object::Function(function) => Some(function),
        _ => None,
    }))
}

/// Finds a function, and locks its version until the transaction ends.
async fn find(cx: &mut Ddl<'_>, kind: Kind, of: &Signature) -> Result<Arc<UserFunction>, SqlError> {
    let name = names::relation(&of.name)?;
    if let Some(schema) = name.schema.as_deref().filter(|schema| !is_system_schema(schema))
        && catalog::schema_id(cx.txn, schema, Lock::Shared).await?.is_none()
    {
        let message = format!("schema \"{schema}\" does not exist");
        return Err(SqlError::new(state::NO_SCHEMA, message));
    }
    let cache = &cx.engine.cache;
    let mut all = cx.names.functions(cx.txn, cache, &name, cx.clean, Lock::Exclusive).await?;
    let word = kind.word();
    let Some(args) = &of.args else {
        if all.len() > 1 {
            let message = format!("{word} name \"{name}\" is not unique");
            return Err(SqlError::new(state::AMBIGUOUS_FUNCTION, message)
                .hint(format!("Specify the argument list to select the {word} unambiguously.")));
        }
        return all.pop().filter(|_| kind.fits()).ok_or_else(|| {
            let article = if kind == Kind::Aggregate { "an" } else { "a" };
            let message = format!("could not find {article} {word} named \"{name}\"");
            SqlError::new(state::UNDEFINED_FUNCTION, message)
        });
    };
    let inputs = args.iter().filter(|arg| arg.mode.is_input());
    let inputs = inputs.map(|arg| declared(cx, &arg.ty, "have arguments of"));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let types = inputs.iter().map(|of| stored_type(*of)).collect::<Result<Vec<_>, _>>()?;
    let signature = user_function::signature_of(types.iter().map(String::as_str));
    let shown: Vec<_> = inputs.iter().map(|of| of.name()).collect();
    let found = all.into_iter().find(|function| function.signature() == signature);
    if let Some(found) = found {
        if kind.fits() {
            return Ok(found);
        }
        let shown = format!("{name}({})", shown.join(", "));
        let message = match kind {
            Kind::Aggregate => format!("function {shown} is not an aggregate"),
            _ => format!("{shown} is not a {word}"),
        };
        return Err(SqlError::new(state::WRONG_OBJECT, message));
    }
    let shown = format!("{name}({})", shown.join(", "));
    if user_function::is_known(&name.name) && !user_function::may_be(&name) {
        let what = format!("changing the {word} {shown}, which every database has,");
        return Err(SqlError::unsupported(what));
    }
    let message = format!("{word} {shown} does not exist");
    Err(SqlError::new(state::UNDEFINED_FUNCTION, message))
}

/// Runs ALTER FUNCTION.
async fn alter(
    cx: &mut Ddl<'_>,
    old: &UserFunction,
    change: &FunctionChange,
) -> Result<(), SqlError> {
    match change {
        FunctionChange::Owner(role) => owner::check(cx, role),
        FunctionChange::Rename(name) => {
            let name = names::fold(name);
            user_function::check_name(&name)?;
            if let Some(view) = views::readers(cx, old.id).await?.first() {
                let what = format!("renaming \"{}\", which a view calls,", old.name);
                return Err(SqlError::unsupported(what)
                    .detail(format!("The view \"{}\" calls it.", view.name))
                    .hint("Drop the view, and create it again."));
            }
            move_to(cx, old, old.schema, name).await
        }
        FunctionChange::Schema(schema) => {
            let schema = names::fold(schema);
            if is_system_schema(&schema) {
                let message = format!("permission denied for schema {schema}");
                return Err(SqlError::new(state::NO_PRIVILEGE, message));
            }
            if schema.starts_with(temporary::ALIAS) {
                let message = "cannot move objects into or out of temporary schemas";
                return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
            }
            let to = cx.place(&Qualified { schema: Some(schema), name: String::new() }).await?;
            match to == old.schema {
                true => Ok(()),
                false => move_to(cx, old, to, old.name.clone()).await,
            }
        }
        FunctionChange::Options(options) => {
            let is_set = old.returns_set;
            let (volatility, strict, promises) =
                with_options(options, old.volatility(), old.strict, &old.promises, is_set)?;
            let (returns, body) = (old.returns.clone(), old.body.clone());
            let properties =
                Properties { returns, returns_set: is_set, body, volatility, strict, promises };
            let name = (old.schema, old.name.clone());
            let params = old.params.clone();
            put(cx, UserFunction::new((old.id, old.version + 1), name, params, properties))
        }
    }
}

/// Gives a function another name, or another schema.
async fn move_to(
    cx: &mut Ddl<'_>,
    old: &UserFunction,
    schema: u32,
    name: String,
) -> Result<(), SqlError> {
    let mut new = old.clone();
    (new.schema, new.name, new.version) = (schema, name, old.version + 1);
    if by_key(cx, schema, &new.name, &new.signature()).await?.is_some() {
        let shown = described(cx, &new).await?;
        let all = system::load_unlocked(cx.txn, cx.facts).await?;
        let schema = all.schema_name(schema);
        let message = format!("{shown} already exists in schema \"{schema}\"");
        return Err(SqlError::new(state::DUPLICATE_FUNCTION, message));
    }
    cx.txn.put(Object::Function(Arc::new(old.clone())).name_key(), None)?;
    put(cx, new)
}

/// Drops a function, and with CASCADE the views that call it.
pub(super) async fn drop_one(
    cx: &mut Ddl<'_>,
    function: &Arc<UserFunction>,
    cascade: bool,
) -> Result<(), SqlError> {
    let what = described(cx, function).await?;
    views::drop_readers(cx, function.id, &what, &[], cascade).await?;
    remove(cx, function)
}

/// Removes a function that nothing depends on.
fn remove(cx: &mut Ddl<'_>, function: &Arc<UserFunction>) -> Result<(), SqlError> {
    cx.clean = false;
    forget_types(cx, function)?;
    catalog::remove(cx.txn, &Object::Function(function.clone()))
}

/// Drops the functions that have the row type of a table which is to be dropped. Without CASCADE,
/// fails with 2BP01 if there is any.
pub(super) async fn drop_users(
    cx: &mut Ddl<'_>,
    table: &Table,
    cascade: bool,
) -> Result<(), SqlError> {
    let mut functions = Vec::new();
    for user in users::of(cx, table.id ^ ROW_TYPE).await? {
        if let Object::Function(function) = user {
            functions.push((described(cx, &function).await?, function));
        }
    }
    if !cascade && !functions.is_empty() {
        let detail = |(shown, _): &(String, _)| format!("{shown} depends on type {}", table.name);
        let details: Vec<_> = functions.iter().map(detail).collect();
        return Err(depended_on(&format!("{} {}", table.kind(), table.name), &details));
    }
    for (shown, function) in functions {
        cx.cascaded.push(shown);
        drop_one(cx, &function, true).await?;
    }
    Ok(())
}

/// Fails with 0A000 if an expression that is stored calls a function of the database.
pub(super) async fn refuse_calls(
    cx: &mut Ddl<'_>,
    part: &impl ast::Visit,
    place: &str,
) -> Result<(), SqlError> {
    let mut called = BTreeSet::new();
    let _ = ast::visit_expressions(part, |expr| {
        if let ast::Expr::Function(call) = expr {
            called.extend(names::relation(&call.name).ok().filter(user_function::may_be));
        }
        ControlFlow::<()>::Continue(())
    });
    for name in called {
        let cache = &cx.engine.cache;
        let found = cx.names.functions(cx.txn, cache, &name, cx.clean, Lock::Shared).await?;
        if !found.is_empty() {
            let what = format!("the function {name}, which the database has, in {place}");
            return Err(SqlError::unsupported(what));
        }
    }
    Ok(())
}

/// Fails with 0A000 if the definition of a table or a domain calls a function of the database: in
/// a default, a condition or a generated column.
pub(super) async fn refuse_stored(cx: &mut Ddl<'_>, statement: &Statement) -> Result<(), SqlError> {
    let place = "the definition of a table";
    match statement {
        Statement::CreateTable(create) if create.query.is_none() => {
            refuse_calls(cx, create, place).await
        }
        Statement::AlterTable(alter) => refuse_calls(cx, alter, place).await,
        _ => Ok(()),
    }
}
