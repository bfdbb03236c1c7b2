//! CREATE, ALTER and DROP EXTENSION, and the part of extensions in stored expressions.

use super::{Ddl, change, depended_on, types, users, views};
use crate::base_type::{BaseType, Descriptor};
use crate::bind::is_of_postgresql;
use crate::catalog::{self, Object, Table, UserType};
use crate::error::{SqlError, state};
use crate::extension::{self, Extension, ExtensionStatement, Installed};
use crate::kv;
use crate::names::{self, Qualified};
use crate::notice;
use crate::parse::Parsed;
use crate::system;
use crate::types::Type;
use meridian_txn::Lock;
use sqlparser::ast::{self, Expr, Statement};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

pub(super) async fn run(
    cx: &mut Ddl<'_>,
    statement: &ExtensionStatement,
) -> Result<String, SqlError> {
    Ok(match statement {
        ExtensionStatement::Create { name, if_not_exists, schema, version, cascade: _ } => {
            // No extension needs another one, which CASCADE would install.
            create(cx, name, *if_not_exists, schema.as_deref(), version.as_deref()).await?;
            "CREATE EXTENSION".into()
        }
        ExtensionStatement::Update { name, version } => {
            update(cx, name, version.as_deref()).await?;
            "ALTER EXTENSION".into()
        }
        ExtensionStatement::SetSchema { name, schema } => {
            set_schema(cx, name, schema).await?;
            "ALTER EXTENSION".into()
        }
        ExtensionStatement::Drop { names, if_exists, cascade } => {
            drop_all(cx, names, *if_exists, *cascade).await?;
            "DROP EXTENSION".into()
        }
    })
}

/// Returns the extension of a name, if it is installed, and locks its version until the transaction
/// ends.
async fn find(cx: &mut Ddl<'_>, name: &str) -> Result<Option<Arc<Installed>>, SqlError> {
    catalog::extension(cx.txn, &cx.engine.cache, name, false, Lock::Exclusive).await
}

/// Returns the installed extension of a name. Fails with 42704.
pub(super) async fn open(cx: &mut Ddl<'_>, name: &str) -> Result<Arc<Installed>, SqlError> {
    find(cx, name).await?.ok_or_else(|| {
        let message = format!("extension \"{name}\" does not exist");
        SqlError::new(state::UNDEFINED_OBJECT, message)
    })
}

fn not_available(name: &str) -> SqlError {
    let error = SqlError::new(
        state::FEATURE_NOT_SUPPORTED,
        format!("extension \"{name}\" is not available"),
    );
    match name {
        "plpgsql" => error.hint("Functions are written in the language sql."),
        _ => error.hint("The table pg_available_extensions lists those that are built in."),
    }
}

async fn create(
    cx: &mut Ddl<'_>,
    name: &str,
    if_not_exists: bool,
    schema: Option<&str>,
    version: Option<&str>,
) -> Result<(), SqlError> {
    if find(cx, name).await?.is_some() {
        let message = format!("extension \"{name}\" already exists");
        let error = SqlError::new(state::DUPLICATE_OBJECT, message);
        if !if_not_exists {
            return Err(error);
        }
        cx.notices.push(notice::skipping(error));
        return Ok(());
    }
    let declared = extension::available(name).ok_or_else(|| not_available(name))?;
    if let Some(version) = version.filter(|version| *version != declared.version) {
        let message = format!(
            "extension \"{name}\" has no installation script nor update path for version \
             \"{version}\""
        );
        return Err(SqlError::new(state::INVALID_PARAMETER, message));
    }
    let place = Qualified { schema: schema.map(str::to_owned), name: String::new() };
    let schema = cx.place(&place).await?;
    let id = cx.next_id().await?;
    let release = declared.version.to_owned();
    let mut types = Vec::with_capacity(declared.types.len());
    for (name, kind) in declared.types {
        types::check_free(cx, schema, name).await?;
        let (of, array, name) = (cx.next_id().await?, cx.next_id().await?, (*name).to_owned());
        catalog::put_type_name(cx.txn, schema, &name, of)?;
        let (version, extension, kind) = (1, id, *kind);
        let new = Descriptor { id: of, array, name, version, schema, extension, kind };
        catalog::put(cx.txn, &Object::BaseType(BaseType::of(new)))?;
        types.push(of);
    }
    let name = name.to_owned();
    let key = kv::extension_key(&name);
    let installed = Installed { id, name, version: 1, schema, release, types };
    cx.txn.put(key, Some(kv::to_value(id.to_be_bytes().to_vec())))?;
    catalog::put(cx.txn, &Object::Extension(Arc::new(installed)))?;
    let mut comments = catalog::comments(cx.txn, id).await?;
    comments.set(0, Some(declared.comment));
    catalog::put_comments(cx.txn, id, &comments)
}

/// Runs ALTER EXTENSION … UPDATE: each extension has one version.
async fn update(cx: &mut Ddl<'_>, name: &str, version: Option<&str>) -> Result<(), SqlError> {
    let installed = open(cx, name).await?;
    let from = &installed.release;
    let to = version.unwrap_or(installed.declared()?.version);
    if from == to {
        let message = format!("version \"{to}\" of extension \"{name}\" is already installed");
        cx.notices.push(SqlError::new(state::SUCCESSFUL, message));
        return Ok(());
    }
    let message = format!(
        "extension \"{name}\" has no update path from version \"{from}\" to version \"{to}\""
    );
    Err(SqlError::new(state::INVALID_PARAMETER, message))
}

async fn set_schema(cx: &mut Ddl<'_>, name: &str, schema: &str) -> Result<(), SqlError> {
    let old = open(cx, name).await?;
    let place = Qualified { schema: Some(schema.to_owned()), name: String::new() };
    let schema = cx.place(&place).await?;
    if old.schema == schema {
        return Ok(());
    }
    cx.clean = false;
    for id in &old.types {
        if let Some(ty) = users::now(cx, *id).await?.as_ref().and_then(UserType::of) {
            types::set_schema(cx, ty, schema).await?;
        }
    }
    let new = Installed { schema, version: old.version + 1, ..(*old).clone() };
    catalog::put(cx.txn, &Object::Extension(Arc::new(new)))
}

async fn drop_all(
    cx: &mut Ddl<'_>,
    names: &[String],
    if_exists: bool,
    cascade: bool,
) -> Result<(), SqlError> {
    for name in names {
        match find(cx, name).await? {
            Some(installed) => drop_one(cx, &installed, cascade).await?,
            None if if_exists => cx.skip("extension", name),
            None => return Err(open(cx, name).await.expect_err("invariant: it is not there")),
        }
    }
    Ok(())
}

/// Drops an extension. Without CASCADE, fails with 2BP01 if an object uses it.
pub(super) async fn drop_one(
    cx: &mut Ddl<'_>,
    installed: &Arc<Installed>,
    cascade: bool,
) -> Result<(), SqlError> {
    let what = format!("extension {}", installed.name);
    views::drop_readers(cx, installed.id, &what, &[], cascade).await?;
    drop_uses(cx, installed, &what, cascade).await?;
    for id in &installed.types {
        if let Some(ty) = users::now(cx, *id).await?.as_ref().and_then(UserType::of) {
            types::drop_with(cx, ty, &what, cascade).await?;
        }
    }
    cx.clean = false;
    catalog::remove(cx.txn, &Object::Extension(installed.clone()))
}

/// True if a stored text has a function of an extension.
fn has(text: &str, extension: u32) -> bool {
    names::references(text).any(|part| part.id == Some(extension))
}

/// Returns the columns of a table whose defaults have functions of an extension.
fn defaults_with(table: &Table, extension: u32) -> Vec<usize> {
    let has_it = |text: &Option<String>| text.as_ref().is_some_and(|text| has(text, extension));
    let all = table.columns.iter().enumerate();
    all.filter(|(_, column)| has_it(&column.default)).map(|(at, _)| at).collect()
}

/// Returns the parts of a table, but defaults, that have functions of an extension.
fn parts_with(table: &Table, extension: u32) -> Vec<String> {
    let has = |text: &str| has(text, extension);
    let mut parts = Vec::new();
    for column in &table.columns {
        if column.generated.as_deref().is_some_and(has) {
            parts.push(format!("column {} of table {}", column.name, table.name));
        }
    }
    for check in table.checks.iter().filter(|check| has(&check.text)) {
        parts.push(format!("constraint {} on table {}", check.name, table.name));
    }
    for index in table.keys() {
        if index.expressions.iter().any(|text| has(text))
            || index.predicate.as_deref().is_some_and(has)
        {
            parts.push(format!("index {}", index.name));
        }
    }
    parts
}

/// Returns the objects that have types of an extension: columns, types, views, and functions by
/// their parameters and results.
fn uses_of_types(all: &system::Catalog, extension: &Extension) -> Vec<String> {
    let is_its = |ty: Type| ty.has_part(&|part| extension.fixed_types.contains(&part));
    let mut uses = Vec::new();
    for table in &all.tables {
        let columns = table.columns.iter().filter(|column| !column.dropped && is_its(column.ty));
        uses.extend(
            columns.map(|column| format!("column {} of table {}", column.name, table.name)),
        );
    }
    for ty in &all.types {
        let has_it = match ty {
            UserType::Domain(domain) => is_its(domain.base()),
            UserType::Composite(of) => of.fields().iter().any(|field| is_its(field.ty)),
            UserType::Enum(_) => false,
            UserType::Base(_) => false,
        };
        uses.extend(has_it.then(|| format!("type {}", ty.name())));
    }
    // A text that names a type does not tell which one it is.
    let names = |text: &str| extension.fixed_types.iter().any(|ty| text.contains(ty.name()));
    for view in all.views.iter().filter(|view| names(&view.text)) {
        uses.push(format!("view {}", view.name));
    }
    for function in all.functions.iter().filter(|function| names(&function.signature())) {
        uses.push(format!("function {}", function.name));
    }
    uses
}

/// Drops the defaults that call functions of an extension. Without CASCADE, fails with 2BP01 if
/// there is any; fails with 0A000 if another part of a table or a domain does.
async fn drop_uses(
    cx: &mut Ddl<'_>,
    installed: &Installed,
    what: &str,
    cascade: bool,
) -> Result<(), SqlError> {
    let (extension, name) = (installed.id, &installed.name);
    // What was changed since it was read has the version of the extension among its reads.
    let all = system::load_unlocked(cx.txn, cx.facts).await?;
    let (mut defaults, mut others) = (Vec::new(), Vec::new());
    for table in &all.tables {
        for column in defaults_with(table, extension) {
            let name = &table.columns[column].name;
            let shown = format!("default value for column {name} of table {}", table.name);
            defaults.push((table.id, column, shown));
        }
        others.extend(parts_with(table, extension));
    }
    if let Some(declared) = extension::available(name) {
        others.extend(uses_of_types(&all, declared));
    }
    for domain in all.domains() {
        let descriptor = domain.descriptor();
        let mut texts =
            descriptor.checks.iter().map(|check| &check.text).chain(&descriptor.default);
        if texts.any(|text| has(text, extension)) {
            others.push(format!("type {}", descriptor.name));
        }
    }
    let shown: Vec<&String> = defaults.iter().map(|(.., shown)| shown).chain(&others).collect();
    if !cascade && !shown.is_empty() {
        let detail = |shown: &&String| format!("{shown} depends on {what}");
        return Err(depended_on(what, &shown.iter().map(detail).collect::<Vec<_>>()));
    }
    if let Some(other) = others.first() {
        return Err(SqlError::unsupported(format!("DROP EXTENSION CASCADE of {other}")));
    }
    for (table, column, shown) in defaults {
        let found =
            catalog::table_by_id(cx.txn, &cx.engine.cache, table, false, Lock::Exclusive).await?;
        let Some(old) = found else { continue };
        let mut table = (*old).clone();
        table.columns[column].default = None;
        cx.cascaded.push(shown);
        change(cx, &old, table)?;
    }
    Ok(())
}

/// Returns the ids of the extensions in a schema. No other appears until the transaction has ended.
pub(super) async fn in_schema(cx: &mut Ddl<'_>, schema: u32) -> Result<Vec<u32>, SqlError> {
    let range = kv::prefix_range(&kv::EXTENSIONS);
    let (mut found, mut rest) = (Vec::new(), Some(range.clone()));
    while let Some(range) = rest {
        let chunk = cx.txn.scan(&range, Lock::Shared, false, 1000).await?;
        for (_, value) in &chunk.rows {
            let id = catalog::read_u32(value)?;
            if let Some(Object::Extension(it)) = users::now(cx, id).await?
                && it.schema == schema
            {
                found.push(id);
            }
        }
        rest = chunk.rest;
    }
    cx.txn.keep_range(range);
    Ok(found)
}

/// Returns a statement whose stored expressions [refer](refer_to) to the functions of extensions,
/// if it has such.
pub(super) async fn refer(cx: &mut Ddl<'_>, source: &Parsed) -> Result<Option<Parsed>, SqlError> {
    let is_stored = match &source.statement {
        Statement::CreateTable(create) => create.query.is_none(),
        Statement::AlterTable(_) => true,
        _ => false,
    };
    let called = match is_stored {
        true => called(cx, &source.statement).await?,
        false => Called::new(),
    };
    if called.is_empty() {
        return Ok(None);
    }
    let mut referring = source.clone();
    refer_to(&mut referring.statement, &called);
    Ok(Some(referring))
}

/// Extensions, by the names of their functions that a statement calls.
pub(super) type Called = BTreeMap<Qualified, u32>;

/// Returns the extensions whose functions an expression calls. They are there until the transaction
/// has committed, under every protocol.
pub(super) async fn called(cx: &mut Ddl<'_>, part: &impl ast::Visit) -> Result<Called, SqlError> {
    let mut names = BTreeSet::new();
    let _ = ast::visit_expressions(part, |expr| {
        if let Expr::Function(call) = expr
            && let Ok(name) = names::relation(&call.name)
            && extension::may_have(&name)
            && !is_of_postgresql(&name)
        {
            names.insert(name);
        }
        ControlFlow::<()>::Continue(())
    });
    let mut called = Called::new();
    for name in names {
        let cache = &cx.engine.cache;
        let found = cx.names.extensions(cx.txn, cache, &name, cx.clean).await?;
        if let Some(installed) = found.first() {
            installed.declared()?.refuse(&name.name)?;
            users::keep(cx, installed.id);
            called.insert(name, installed.id);
        }
    }
    Ok(called)
}

/// Lets an expression name the functions of extensions by the extensions' ids: they are found
/// whatever the search path.
pub(super) fn refer_to(part: &mut impl ast::VisitMut, called: &Called) {
    let _ = ast::visit_expressions_mut(part, |expr| {
        if let Expr::Function(call) = expr
            && let Ok(name) = names::relation(&call.name)
            && let Some(id) = called.get(&name)
        {
            call.name = names::of_extension(*id, &name.name);
        }
        ControlFlow::<()>::Continue(())
    });
}
