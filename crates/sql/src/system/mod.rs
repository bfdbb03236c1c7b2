//! The system tables: `pg_catalog` and `information_schema`, as clients of PostgreSQL query them,
//! and `meridian`.
//!
//! They are not stored. A scan of one builds its rows from the descriptors that its transaction
//! sees, so that they are as transactional as the tables they describe. Their ids are PostgreSQL's,
//! all below those of users' tables, and they have no versions: nothing can change them.
//!
//! Many of PostgreSQL's tables are here and empty (`is_always_empty`): the objects that they list
//! do not exist. Columns have PostgreSQL's types.
//!
//! `meridian` is a third schema, with tables that PostgreSQL does not have; `pg_namespace` does
//! not list it.
//!
//! Not done: rows of `pg_class` for the system tables themselves; operators and casts
//! (`pg_operator` and its like are empty).

mod activity;
mod catalog_tables;
mod clock;
mod collations;
mod definitions;
mod dependencies;
mod describe;
mod domains;
mod extensions;
pub(crate) mod functions;
mod information_schema;
mod input_functions;
mod layout;
mod operator_classes;
mod privileges;
mod roles;
mod sequences;
mod session;
mod setting_tables;
mod shards;
mod types;
mod usage;
mod user_functions;
mod zones;

pub(crate) use activity::SessionSlot;
pub use activity::{Backend, ServerInfo, Sessions, TransactionName, Waiting};
pub(crate) use activity::{blocking, database_id};
pub use clock::ClockFact;
pub(crate) use clock::interval_now;
pub(crate) use collations::COLLATIONS;
pub use describe::Catalog;
pub(crate) use describe::{format_type, is_key_word, quoted};
pub(crate) use functions::{
    arguments_of, procedure_name, procedure_named, result_of, signature_named, signature_of,
};
pub(crate) use session::{OpenCursor, Opened, shows_opened};
pub use shards::ShardFact;
#[cfg(test)]
pub(crate) use types::shown_types;
pub(crate) use types::{type_name, type_named, type_written};

use crate::advisory;
use crate::array::Array;
use crate::catalog::{ColumnDef, Comments, Object, Table, UserType};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Facts;
use crate::interval::Interval;
use crate::kv;
use crate::names::Qualified;
use crate::sequence;
use crate::statistics;
use crate::temporary;
use crate::types::{Object as Kind, Type};
use layout::layouts;
use meridian_mvcc::KeyRange;
use meridian_txn::{Lock, Locking, Transaction};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The first id of users' tables.
pub(crate) const FIRST_USER_ID: u32 = 16384;

pub(crate) const PG_CATALOG: u32 = 11;
pub(crate) const PUBLIC: u32 = 2200;
pub(crate) const INFORMATION_SCHEMA: u32 = 13184;
/// The role that has the objects: the user of the current session.
pub(crate) const OWNER: i32 = 10;
/// The role that has the schema `public`, whose one member is the owner.
pub(crate) const DATABASE_OWNER: i32 = 6171;
/// The id of `pg_database`, under which a database keeps the comment on itself.
pub(crate) const DATABASES: u32 = 1262;

/// The names of the roles that every database has.
pub(crate) const ROLES: [(i32, &str); 1] = [(DATABASE_OWNER, "pg_database_owner")];

/// True for the name of a role other than the user.
pub(crate) fn is_role(name: &str) -> bool {
    ROLES.iter().any(|(_, role)| *role == name)
}

static TABLES: LazyLock<Vec<(&'static str, Arc<Table>)>> = LazyLock::new(|| {
    layouts()
        .map(|(schema, name, id, columns)| {
            let columns = columns.split_whitespace().map(column).collect();
            (*schema, Arc::new(Table::new(*id, name, columns)))
        })
        .collect()
});

fn column(spec: &str) -> ColumnDef {
    let (name, code) = spec.split_once(':').expect("invariant: a layout's columns have types");
    let of = type_named(code.trim_end_matches('?')).and_then(Type::from_oid);
    let ty = of.expect("invariant: the types of a layout exist");
    ColumnDef { not_null: !code.ends_with('?'), ..ColumnDef::new(name, ty) }
}

/// True if an id is a system table's.
pub(crate) fn is_system(id: u32) -> bool {
    id < FIRST_USER_ID
}

/// Finds a system table by its name: with its schema, or without it if it is one of `pg_catalog`.
pub(crate) fn find(name: &Qualified) -> Option<Arc<Table>> {
    let schema = name.schema.as_deref().unwrap_or("pg_catalog");
    TABLES
        .iter()
        .find(|(other, table)| *other == schema && table.name == name.name)
        .map(|(_, table)| table.clone())
}

/// True if a table of `pg_catalog` or `information_schema` never has rows here, because the objects
/// that it lists do not exist.
pub(crate) fn is_always_empty(name: &Qualified) -> bool {
    find(name).is_some_and(|table| rows_of(&table).is_none())
}

/// The source of a system table's rows.
pub(super) struct SystemContext<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) facts: &'a Facts,
    /// The values of sequences, for the table that shows them.
    pub(super) values: BTreeMap<u32, sequence::Value>,
    /// The advisory locks, for the table that shows them.
    pub(super) advisory: Vec<(advisory::Name, Vec<advisory::Entry>)>,
}

type Rows = fn(&SystemContext<'_>, &mut Writer<'_>);

fn rows_of(table: &Table) -> Option<Rows> {
    // The names of the schemas do not collide.
    catalog_tables::rows_of(&table.name)
        .or_else(|| information_schema::rows_of(&table.name))
        .or_else(|| activity::rows_of(&table.name))
        .or_else(|| clock::rows_of(&table.name))
        .or_else(|| domains::rows_of(&table.name))
        .or_else(|| dependencies::rows_of(&table.name))
        .or_else(|| extensions::rows_of(&table.name))
        .or_else(|| functions::rows_of(&table.name))
        .or_else(|| privileges::rows_of(&table.name))
        .or_else(|| sequences::rows_of(&table.name))
        .or_else(|| session::rows_of(&table.name))
        .or_else(|| shards::rows_of(&table.name))
        .or_else(|| zones::rows_of(&table.name))
        .or_else(|| usage::rows_of(&table.name))
        .or_else(|| user_functions::rows_of(&table.name))
}

/// Collects the rows of a system table. A column that a row does not name is NULL if that is
/// allowed, else zero, false or empty.
pub(super) struct Writer<'t> {
    table: &'t Table,
    defaults: Vec<Datum>,
    rows: Vec<Vec<Datum>>,
}

impl<'t> Writer<'t> {
    fn new(table: &'t Table) -> Self {
        let default = |column: &ColumnDef| match column.ty {
            _ if !column.not_null => Datum::Null,
            Type::Bool => Datum::Bool(false),
            Type::Int2 => Datum::Int2(0),
            Type::Int4 => Datum::Int4(0),
            Type::Int8 => Datum::Int8(0),
            Type::Float8 => Datum::Float8(0.0),
            Type::Oid | Type::Xid => Datum::Oid(0),
            Type::Float4 => Datum::Float4(0.0),
            ty if ty.is_text() => Datum::text(""),
            Type::ByteChar => Datum::text(""),
            Type::Object(_) => Datum::Object(0, "-".into()),
            _ => Datum::Null,
        };
        Writer { table, defaults: table.columns.iter().map(default).collect(), rows: Vec::new() }
    }

    /// True if the table has a column of a name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.table.column(name).is_some()
    }

    pub(super) fn row(&mut self, values: &[(&str, Value<'_>)]) {
        let mut row = self.defaults.clone();
        for (name, value) in values {
            let at = self.table.column(name);
            debug_assert!(at.is_some(), "{} has no column {name}", self.table.name);
            if let Some(at) = at {
                row[at] = match (value, self.table.columns[at].ty) {
                    (Value::Text(text), ty) => shown_as(text, ty),
                    (Value::Own(text), ty) => shown_as(text, ty),
                    (Value::Bool(b), Type::Varchar(_)) => {
                        Datum::text(if *b { "YES" } else { "NO" })
                    }
                    (Value::Bool(b), _) => Datum::Bool(*b),
                    (Value::Whole(n), Type::Int2) => Datum::Int2(*n as i16),
                    (Value::Whole(n), Type::Int4) => Datum::Int4(*n as i32),
                    (Value::Whole(n), Type::Oid | Type::Xid) => Datum::Oid(*n as u32),
                    (Value::Whole(n), Type::Float4) => Datum::Float4(*n as f32),
                    (Value::Whole(n), Type::Float8) => Datum::Float8(*n as f64),
                    (Value::Whole(n), _) => Datum::Int8(*n),
                    (Value::Time(us), _) => Datum::TimestampTz(*us),
                    (Value::Length(length), _) => Datum::Interval(*length),
                    (Value::Procedure(oid, name), _) => Datum::Object(*oid, (&**name).into()),
                    (Value::Types(types), _) => list_of_types(types),
                    (Value::Null, _) => Datum::Null,
                };
            }
        }
        self.rows.push(row);
    }
}

fn list_of_types(types: &[Type]) -> Datum {
    let all = types.iter().map(|ty| Datum::Object(ty.oid(), ty.name().into())).collect();
    let list = Array::of(Type::Object(Kind::Type), all);
    list.map_or(Datum::Null, |list| Datum::Array(list.into()))
}

/// Returns the value of a column that a text shows.
fn shown_as(text: &str, ty: Type) -> Datum {
    match ty {
        Type::Object(Kind::Type) => {
            type_named(text).map_or(Datum::Null, |oid| Datum::Object(oid, text.into()))
        }
        Type::Internal(_) => Datum::text(text),
        ty => Datum::from_text(ty, text).unwrap_or(Datum::Null),
    }
}

/// A value of a row; its column determines the exact type.
pub(super) enum Value<'a> {
    Text(&'a str),
    Own(String),
    Bool(bool),
    Whole(i64),
    Time(i64),
    Length(Interval),
    Procedure(u32, String),
    /// A list of types, `regtype[]`.
    Types(&'a [Type]),
    Null,
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(text)
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Own(text)
    }
}

impl From<bool> for Value<'_> {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}

impl From<u32> for Value<'_> {
    fn from(n: u32) -> Self {
        Value::Whole(n.into())
    }
}

impl From<i32> for Value<'_> {
    fn from(n: i32) -> Self {
        Value::Whole(n.into())
    }
}

impl From<i64> for Value<'_> {
    fn from(n: i64) -> Self {
        Value::Whole(n)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// Returns the table `meridian.clock`.
pub(crate) fn clock_table() -> Arc<Table> {
    let name = Qualified { schema: Some("meridian".into()), name: "clock".into() };
    find(&name).expect("invariant: it has a layout")
}

/// Returns the rows of `meridian.clock` without a transaction: they must be available when none can
/// begin.
pub(crate) fn clock_now(facts: &Facts) -> Vec<Vec<Datum>> {
    let table = clock_table();
    let mut writer = Writer::new(&table);
    let (catalog, values, advisory) = (&Catalog::default(), BTreeMap::new(), Vec::new());
    clock::clock(&SystemContext { catalog, facts, values, advisory }, &mut writer);
    writer.rows
}

/// Returns the rows of a system table, or of a sequence, as a transaction sees them.
pub(crate) async fn rows(
    txn: &mut dyn Transaction,
    table: &Table,
    facts: &Facts,
) -> Result<Vec<Vec<Datum>>, SqlError> {
    if table.is_sequence {
        let value = facts.sequences.peek(txn, table.id).await?;
        let row = |value: sequence::Value| {
            vec![Datum::Int8(value.last), Datum::Int8(0), Datum::Bool(value.is_called)]
        };
        return Ok(value.into_iter().map(row).collect());
    }
    let Some(rows) = rows_of(table) else { return Ok(Vec::new()) };
    let before = unlock(txn);
    let shown = shown(txn, table, facts).await;
    txn.set_locking(before);
    let (catalog, values) = shown?;
    let mut advisory = Vec::new();
    if let ("pg_locks", Some(engine)) = (&*table.name, &facts.engine) {
        advisory = advisory::all_now(engine).await?;
    }
    let mut writer = Writer::new(table);
    rows(&SystemContext { catalog: &catalog, facts, values, advisory }, &mut writer);
    Ok(writer.rows)
}

/// Returns the objects that a system table shows, and the values of sequences if it shows those.
async fn shown(
    txn: &mut dyn Transaction,
    table: &Table,
    facts: &Facts,
) -> Result<(Catalog, BTreeMap<u32, sequence::Value>), SqlError> {
    let mut catalog = load(txn).await?;
    catalog.look_in(&facts.search_path());
    if matches!(&*table.name, "pg_class" | "pg_stat_all_tables" | "pg_stat_user_tables") {
        // It shows the numbers of rows.
        for table in &mut catalog.tables {
            let statistics = statistics::read(txn, table.id).await?;
            Arc::make_mut(table).statistics = statistics.map(Arc::new);
        }
    }
    let mut values = BTreeMap::new();
    if table.name == "pg_sequences" {
        for sequence in &catalog.sequences {
            let value = facts.sequences.peek(txn, sequence.id).await?;
            values.extend(value.map(|value| (sequence.id, value)));
        }
    }
    Ok((catalog, values))
}

/// Lets the next reads take no locks, where the protocol has any: changes of the catalog do not
/// wait for a transaction that has looked at it. Returns the locking before.
fn unlock(txn: &mut dyn Transaction) -> Locking {
    let before = txn.locking();
    txn.set_locking(Locking::None);
    before
}

/// Loads every object as [`load`] does, without locks, for a session's search path.
pub(crate) async fn load_unlocked(
    txn: &mut dyn Transaction,
    facts: &Facts,
) -> Result<Catalog, SqlError> {
    let before = unlock(txn);
    let catalog = load(txn).await;
    txn.set_locking(before);
    let mut catalog = catalog?;
    catalog.look_in(&facts.search_path());
    Ok(catalog)
}

/// Loads every object as a transaction sees it, ordered by name.
pub(crate) async fn load(txn: &mut dyn Transaction) -> Result<Catalog, SqlError> {
    load_range(txn, kv::prefix_range(&kv::DESCRIPTORS)).await
}

/// Loads the temporary objects of the session.
pub(crate) async fn load_temporary(txn: &mut dyn Transaction) -> Result<Catalog, SqlError> {
    let all = kv::prefix_range(&kv::DESCRIPTORS);
    load_range(txn, KeyRange { start: kv::descriptor_key(temporary::SCHEMA), ..all }).await
}

async fn load_range(txn: &mut dyn Transaction, range: KeyRange) -> Result<Catalog, SqlError> {
    let (mut tables, mut sequences) = (BTreeMap::new(), BTreeMap::new());
    let (mut views, mut types, mut functions) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let mut schemas = BTreeMap::from([(PUBLIC, "public".to_owned())]);
    let (mut comments, mut extensions) = (BTreeMap::new(), BTreeMap::new());
    let mut rest = Some(range);
    while let Some(range) = rest {
        let chunk = txn.scan(&range, Lock::Shared, false, 1000).await?;
        for (key, value) in &chunk.rows {
            if let Some((id, true)) = kv::described(key) {
                comments.insert(id, Comments::decode(value)?);
                continue;
            }
            let object = Object::decode(value)?;
            let key = (object.name().to_owned(), object.schema());
            match object {
                Object::Table(table) => drop(tables.insert(key, table)),
                Object::Sequence(it) => drop(sequences.insert(key, it)),
                Object::View(view) => drop(views.insert(key, view)),
                Object::Enum(ty) => drop(types.insert(key, UserType::Enum(ty))),
                Object::Domain(domain) => drop(types.insert(key, UserType::Domain(domain))),
                Object::Composite(ty) => drop(types.insert(key, UserType::Composite(ty))),
                Object::BaseType(ty) => drop(types.insert(key, UserType::Base(ty))),
                Object::Function(function) => functions.push(function),
                Object::Extension(it) => drop(extensions.insert(it.name.clone(), it)),
                Object::Schema(schema) if schema.is_gone => drop(schemas.remove(&schema.id)),
                Object::Schema(it) => drop(schemas.insert(it.id, it.name.clone())),
            }
        }
        rest = chunk.rest;
    }
    let (tables, sequences) = (tables.into_values().collect(), sequences.into_values().collect());
    let (views, types) = (views.into_values().collect(), types.into_values().collect());
    functions.sort_by_key(|it| (it.name.clone(), it.schema, it.id));
    let path = vec![PUBLIC];
    let extensions = extensions.into_values().collect();
    Ok(Catalog { tables, sequences, views, types, functions, extensions, comments, schemas, path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;

    #[test]
    fn names_find_their_tables() {
        let named = |text: &str| names::written(text).expect("a name");
        let find = |text: &str| find(&named(text)).map(|table| table.id);
        let is_always_empty = |text: &str| is_always_empty(&named(text));
        assert_eq!(find("pg_class"), Some(1259));
        assert_eq!(find("pg_catalog.pg_class"), Some(1259));
        assert!(find("information_schema.tables").is_some());
        assert!(find("tables").is_none(), "information_schema is not in the search path");
        assert!(
            is_always_empty("pg_policy")
                && !is_always_empty("pg_class")
                && !is_always_empty("city")
        );
        assert!(layouts().all(|(_, _, id, _)| is_system(*id)));
    }
}
