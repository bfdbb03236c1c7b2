//! CREATE, ALTER and DROP DOMAIN.
//!
//! Each column of a domain holds its descriptor, as each domain over it does: a change of it is one
//! of all these. The values that exist are read before a constraint is added.

use super::index::unqualified;
use super::rows::all_rows;
use super::{Ddl, change, comments, create, stored, types, users, views};
use crate::catalog::{self, ColumnDef, Object, Table, UserType};
use crate::constraint::Check;
use crate::datum::Datum;
use crate::domain::{Descriptor, Domain, VALUE};
use crate::error::{SqlError, state};
use crate::names::{self, Qualified};
use crate::parse::Parsed;
use crate::types::Type;
use meridian_txn::Lock;
use sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ColumnOption, Ident, ObjectType, Statement,
    TableConstraint,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Runs a statement about a domain, which is parsed as one about a table.
pub(super) async fn run(cx: &mut Ddl<'_>, source: &Parsed) -> Result<String, SqlError> {
    match &source.statement {
        Statement::CreateTable(create) => {
            self::create(cx, create).await?;
            Ok("CREATE DOMAIN".into())
        }
        Statement::AlterTable(alter) => {
            self::alter(cx, alter).await?;
            Ok("ALTER DOMAIN".into())
        }
        Statement::Drop { object_type: ObjectType::Type, if_exists, names, cascade, .. } => {
            for name in names {
                let name = names::relation(name)?;
                if let Some(ty) = types::known(cx, &name, *if_exists).await? {
                    let UserType::Domain(_) = ty else { return Err(not_a_domain(&name, true)) };
                    types::drop_one(cx, ty, *cascade).await?;
                }
            }
            Ok("DROP DOMAIN".into())
        }
        _ => Err(SqlError::unsupported("this statement about a domain")),
    }
}

fn not_a_domain(name: &Qualified, is_quoted: bool) -> SqlError {
    let name = if is_quoted { format!("\"{name}\"") } else { name.to_string() };
    SqlError::new(state::WRONG_OBJECT, format!("{name} is not a domain"))
}

/// Finds a domain, and locks its version until the transaction ends.
pub(super) async fn open(cx: &mut Ddl<'_>, name: &Qualified) -> Result<Domain, SqlError> {
    match types::open(cx, name).await {
        Ok(UserType::Domain(domain)) => Ok(domain),
        Ok(_) => Err(not_a_domain(name, false)),
        Err(error) if error.sqlstate == state::WRONG_OBJECT => Err(not_a_domain(name, false)),
        Err(error) => Err(error),
    }
}

async fn create(cx: &mut Ddl<'_>, create: &ast::CreateTable) -> Result<(), SqlError> {
    let wrong = |message: &str| Err(SqlError::new(state::SYNTAX, message));
    let ([def], []) = (&*create.columns, &*create.constraints) else {
        return wrong("a domain has one base type");
    };
    let name = names::relation(&create.name)?;
    let schema = cx.place(&name).await?;
    let name = name.name;
    types::check_free(cx, schema, &name).await?;
    let (base, over) = base_of(cx, def)?;
    let (id, array) = (cx.next_id().await?, cx.next_id().await?);
    let (not_null, checks) = (false, Vec::new());
    let default = over.and_then(|over| over.descriptor().default.clone());
    let mut new =
        Descriptor { id, array, name, version: 1, schema, base, over, not_null, default, checks };
    let (mut takes_null, mut has_default) = (None, false);
    for option in &def.options {
        match &option.option {
            ColumnOption::Collation(_) => {
                return Err(SqlError::unsupported("COLLATE of a domain"));
            }
            ColumnOption::Default(_) if has_default => {
                return wrong("multiple default expressions");
            }
            ColumnOption::Default(expr) => {
                new.default = Some(default_of(cx, &new, expr).await?);
                has_default = true;
            }
            ColumnOption::Null | ColumnOption::NotNull => {
                let takes = matches!(option.option, ColumnOption::Null);
                if takes_null.replace(takes).is_some_and(|before| before != takes) {
                    return wrong("conflicting NULL/NOT NULL constraints");
                }
                new.not_null = !takes;
            }
            ColumnOption::Check(check) => {
                let name = option.name.as_ref().or(check.name.as_ref()).map(names::fold);
                add_check(cx, &mut new, name, &check.expr, true).await?;
            }
            ColumnOption::Unique(_) => return wrong("unique constraints not possible for domains"),
            ColumnOption::PrimaryKey(_) => {
                return wrong("primary key constraints not possible for domains");
            }
            ColumnOption::ForeignKey(_) => {
                return wrong("foreign key constraints not possible for domains");
            }
            other => return Err(SqlError::unsupported(format!("the option {other} of a domain"))),
        }
    }
    if let Some(over) = over {
        users::add(cx, over.id(), id)?;
    }
    catalog::put_type_name(cx.txn, schema, &new.name, id)?;
    catalog::put(cx.txn, &Object::Domain(Domain::of(new)?))
}

/// Returns the base type of a new domain, and the domain that it is over.
fn base_of(cx: &Ddl<'_>, def: &ast::ColumnDef) -> Result<(Type, Option<Domain>), SqlError> {
    let (base, over) = names::declared_type(&def.data_type, &cx.types)?;
    if create::is_pseudo(base) {
        let message = format!("\"{base}\" is not a valid base type for a domain");
        return Err(SqlError::new(state::TYPE_MISMATCH, message));
    }
    match base.user_type() {
        Some(UserType::Composite(_)) => {
            return Err(SqlError::unsupported("a domain over a composite type"));
        }
        Some(_) => return Err(SqlError::unsupported("a domain over an enum type")),
        None => {}
    }
    create::check_stored(base)?;
    Ok((base, over))
}

/// Returns the text of a default as a descriptor keeps it.
async fn default_of(
    cx: &mut Ddl<'_>,
    domain: &Descriptor,
    expr: &ast::Expr,
) -> Result<String, SqlError> {
    let text = stored::stored(cx, expr).await?;
    let mut column = ColumnDef::new(&domain.name, domain.base);
    column.default = Some(text.clone());
    let table = Table::new(domain.id, &domain.name, vec![column]);
    if !table.sequences().is_empty() {
        return Err(SqlError::unsupported("a sequence in the default of a domain"));
    }
    stored::check_default(cx, &table, 0)?;
    Ok(text)
}

fn exists(domain: &str, name: &str) -> SqlError {
    let message = format!("constraint \"{name}\" for domain \"{domain}\" already exists");
    SqlError::new(state::DUPLICATE_OBJECT, message)
}

/// Returns 42704 in the words of DROP and VALIDATE CONSTRAINT.
fn missing(domain: &str, name: &str) -> SqlError {
    let message = format!("constraint \"{name}\" of domain \"{domain}\" does not exist");
    SqlError::new(state::UNDEFINED_OBJECT, message)
}

/// Declares a CHECK constraint, and returns it. The caller checks the values that exist.
async fn add_check(
    cx: &mut Ddl<'_>,
    domain: &mut Descriptor,
    name: Option<String>,
    expr: &ast::Expr,
    is_validated: bool,
) -> Result<Check, SqlError> {
    let has = |name: &str| domain.checks.iter().any(|check| check.name == name);
    let name = match name {
        Some(name) if has(&name) => return Err(exists(&domain.name, &name)),
        Some(name) => name,
        None => {
            let wanted = names::made(&domain.name, "", "check");
            let numbered = (1..).map(|n| names::made(&domain.name, "", &format!("check{n}")));
            let mut all = std::iter::once(wanted.clone()).chain(numbered);
            all.find(|name| !has(name)).unwrap_or(wanted)
        }
    };
    let mut expr = expr.clone();
    let _ = ast::visit_expressions_mut(&mut expr, |part| {
        // As PostgreSQL shows it.
        if let ast::Expr::Identifier(ident) = part
            && ident.quote_style.is_none()
            && names::fold(ident) == VALUE
        {
            *part = ast::Expr::Identifier(Ident::new(VALUE.to_uppercase()));
        }
        ControlFlow::<()>::Continue(())
    });
    let text = unqualified(&expr, &cx.types);
    let new = Check::new(cx.next_id().await?, name, text, is_validated);
    let mut bound = new.clone();
    bound.bind(&domain.as_table())?;
    stored::refuse_zone(cx, bound.reads_zone)?;
    let at = domain.checks.partition_point(|other| other.name < new.name);
    comments::forget_parts(cx, domain.id, &new.name).await?;
    domain.checks.insert(at, new);
    Ok(bound)
}

async fn alter(cx: &mut Ddl<'_>, alter: &ast::AlterTable) -> Result<(), SqlError> {
    let ast::AlterTable { name, if_exists: false, operations, .. } = alter else {
        return Err(SqlError::new(state::SYNTAX, "ALTER DOMAIN has no IF EXISTS"));
    };
    if operations.len() > 1 {
        return Err(SqlError::new(state::SYNTAX, "syntax error at or near \",\""));
    }
    let old = open(cx, &names::relation(name)?).await?;
    let mut new = old.descriptor().clone();
    new.version += 1;
    for operation in operations {
        match operation {
            AlterTableOperation::AlterColumn { op, .. } => set(cx, old, &mut new, op).await?,
            AlterTableOperation::AddConstraint { constraint, not_valid } => {
                add(cx, old, &mut new, constraint, *not_valid).await?;
            }
            AlterTableOperation::DropConstraint { if_exists, name, drop_behavior: _ } => {
                let name = names::fold(name);
                let Some(at) = new.checks.iter().position(|check| check.name == name) else {
                    let missing = missing(&new.name, &name);
                    if *if_exists {
                        let message = format!("{}, skipping", missing.message);
                        cx.notices.push(SqlError::new(state::SUCCESSFUL, message));
                        continue;
                    }
                    return Err(missing);
                };
                new.checks.remove(at);
            }
            AlterTableOperation::RenameConstraint { old_name, new_name } => {
                let (from, to) = (names::fold(old_name), names::fold(new_name));
                rename_check(cx, &mut new, &from, &to).await?;
            }
            AlterTableOperation::ValidateConstraint { name } => {
                let name = names::fold(name);
                let domain = new.as_table();
                let found = new.checks.iter_mut().find(|check| check.name == name);
                let check = found.ok_or_else(|| missing(&domain.name, &name))?;
                let mut bound = check.clone();
                bound.bind(&domain)?;
                check_values(cx, old, Added::Check(&bound)).await?;
                check.is_validated = true;
            }
            AlterTableOperation::RenameTable { table_name } => {
                let (ast::RenameTableNameKind::As(to) | ast::RenameTableNameKind::To(to)) =
                    table_name;
                let to = names::simple(to)?;
                return types::move_to(cx, UserType::Domain(old), new.schema, &to).await;
            }
            other => return Err(SqlError::unsupported(format!("ALTER DOMAIN {other}"))),
        }
    }
    replace(cx, old, new).await
}

/// Runs SET and DROP.
async fn set(
    cx: &mut Ddl<'_>,
    old: Domain,
    new: &mut Descriptor,
    op: &AlterColumnOperation,
) -> Result<(), SqlError> {
    match op {
        AlterColumnOperation::SetDefault { value } => {
            new.default = Some(default_of(cx, new, value).await?);
        }
        AlterColumnOperation::DropDefault => new.default = None,
        AlterColumnOperation::SetNotNull => {
            check_values(cx, old, Added::NotNull).await?;
            new.not_null = true;
        }
        AlterColumnOperation::DropNotNull => new.not_null = false,
        other => return Err(SqlError::unsupported(format!("ALTER DOMAIN {other}"))),
    }
    Ok(())
}

/// Runs ADD CONSTRAINT.
async fn add(
    cx: &mut Ddl<'_>,
    old: Domain,
    new: &mut Descriptor,
    constraint: &TableConstraint,
    not_valid: bool,
) -> Result<(), SqlError> {
    let kind = match constraint {
        TableConstraint::Check(check) => {
            let name = check.name.as_ref().map(names::fold);
            let added = add_check(cx, new, name, &check.expr, !not_valid).await?;
            return match not_valid {
                true => Ok(()),
                false => check_values(cx, old, Added::Check(&added)).await,
            };
        }
        TableConstraint::Unique(_) => "unique",
        TableConstraint::PrimaryKey(_) => "primary key",
        TableConstraint::ForeignKey(_) => "foreign key",
        other => return Err(SqlError::unsupported(format!("the constraint {other} of a domain"))),
    };
    let message = format!("{kind} constraints not possible for domains");
    Err(SqlError::new(state::SYNTAX, message))
}

async fn rename_check(
    cx: &mut Ddl<'_>,
    domain: &mut Descriptor,
    from: &str,
    to: &str,
) -> Result<(), SqlError> {
    let at = domain.checks.iter().position(|check| check.name == from);
    let Some(at) = at else {
        let message = format!("constraint \"{from}\" for domain {} does not exist", domain.name);
        return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
    };
    if domain.checks.iter().any(|check| check.name == to) {
        let message = format!("constraint \"{to}\" for domain {} already exists", domain.name);
        return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
    }
    domain.checks[at].name = to.to_owned();
    domain.checks.sort_by(|a, b| a.name.cmp(&b.name));
    comments::rename_parts(cx, domain.id, from, to).await
}

/// A constraint that the values which exist are to fulfil.
#[derive(Clone, Copy)]
enum Added<'c> {
    NotNull,
    Check(&'c Check),
}

impl Added<'_> {
    /// Fails with 23502 or 23514 if a value of a table's column violates it.
    fn check(
        self,
        cx: &Ddl<'_>,
        value: &Datum,
        table: &Table,
        column: &ColumnDef,
    ) -> Result<(), SqlError> {
        let (column, table) = (&column.name, &table.name);
        match self {
            Added::NotNull if value.is_null() => {
                let message =
                    format!("column \"{column}\" of table \"{table}\" contains null values");
                Err(SqlError::new(state::NOT_NULL, message))
            }
            Added::Check(check) if !check.holds(std::slice::from_ref(value), cx.facts)? => {
                let message = format!(
                    "column \"{column}\" of table \"{table}\" contains values that violate the new \
                     constraint"
                );
                Err(SqlError::new(state::CHECK, message))
            }
            _ => Ok(()),
        }
    }
}

/// Fails if a value of a domain, or of one over it, violates a constraint. The rows stay as they
/// are until the transaction has committed.
async fn check_values(cx: &mut Ddl<'_>, domain: Domain, added: Added<'_>) -> Result<(), SqlError> {
    for table in tables_of(cx, domain).await? {
        cx.refuse_deferred("ALTER DOMAIN", &table)?;
        let is_of = |column: &ColumnDef| {
            column.domain.is_some_and(|own| own.chain().any(|it| it == domain))
        };
        let wanted: Vec<bool> = table.columns.iter().map(is_of).collect();
        let mut cursor = all_rows(cx.txn, &table);
        loop {
            let found = cursor.next(cx.txn, &table, &wanted, Lock::Shared, 4000).await?;
            if found.is_empty() {
                break;
            }
            for found in found {
                for (at, column) in table.columns.iter().enumerate().filter(|(at, _)| wanted[*at]) {
                    added.check(cx, &found.row[at], &table, column)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the tables that have columns of a domain, or of one over it, each once.
async fn tables_of(cx: &mut Ddl<'_>, domain: Domain) -> Result<Vec<Arc<Table>>, SqlError> {
    let (mut tables, mut rest) = (Vec::<Arc<Table>>::new(), vec![domain.id()]);
    while let Some(id) = rest.pop() {
        for user in users::of(cx, id).await? {
            match user {
                Object::Domain(over) => rest.push(over.id()),
                Object::Table(table) if tables.iter().all(|known| known.id != table.id) => {
                    tables.push(table);
                }
                _ => {}
            }
        }
    }
    Ok(tables)
}

/// Writes a new version of a domain, and gives it to the users of the domain.
pub(super) async fn replace(
    cx: &mut Ddl<'_>,
    old: Domain,
    new: Descriptor,
) -> Result<(), SqlError> {
    let mut rest = vec![(old, Domain::of(new)?)];
    cx.clean = false;
    while let Some((old, new)) = rest.pop() {
        catalog::put(cx.txn, &Object::Domain(new))?;
        for user in users::of(cx, old.id()).await? {
            match user {
                Object::Table(table) => {
                    let mut changed = (*table).clone();
                    let ty = UserType::Domain(new);
                    changed.columns.iter_mut().for_each(|column| column.take_version(ty));
                    changed.bind_stored()?;
                    change(cx, &table, changed)?;
                }
                Object::View(view) => views::set_type(cx, &view, UserType::Domain(new)).await?,
                Object::Domain(over) => {
                    let mut descriptor = over.descriptor().clone();
                    descriptor.over = Some(new);
                    descriptor.version += 1;
                    rest.push((over, Domain::of(descriptor)?));
                }
                other => {
                    let message = format!("\"{}\" has columns of a domain", other.name());
                    return Err(SqlError::corrupted(message));
                }
            }
        }
    }
    Ok(())
}

/// Sets or removes the comment on a constraint of a domain.
pub(super) async fn comment_on_constraint(
    cx: &mut Ddl<'_>,
    constraint: &str,
    domain: &ast::ObjectName,
    text: Option<&str>,
) -> Result<(), SqlError> {
    let domain = open(cx, &names::relation(domain)?).await?;
    if !domain.descriptor().checks.iter().any(|check| check.name == constraint) {
        let name = domain.shown();
        let message = format!("constraint \"{constraint}\" for domain {name} does not exist");
        return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
    }
    comments::set_part(cx, domain.id(), catalog::Part::Constraint, constraint, text).await
}
