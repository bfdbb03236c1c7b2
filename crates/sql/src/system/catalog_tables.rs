//! The rows of `pg_catalog`.

use super::dependencies::{default_id, row_type_id};
use super::describe::{default_of, index_definition};
use super::domains;
use super::input_functions;
use super::{
    DATABASE_OWNER, DATABASES, OWNER, PG_CATALOG, PUBLIC, Rows, SystemContext, Value, Writer,
};
use crate::array::Array;
use crate::catalog::{ColumnDef, Identity, Table, UserType};
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::domain::Domain;
use crate::index::{Index, IndexPart};
use crate::names::{self, Qualified};
use crate::parse;
use crate::temporary::is_temporary;
use crate::types::{ARRAYS, Internal, Type};
use sqlparser::ast::{ArrayElemTypeDef, DataType};

const BTREE: u32 = 403;
const HEAP: u32 = 2;
pub(super) const DEFAULT_COLLATION: u32 = 100;
/// The collation of names.
const C_COLLATION: u32 = 950;
/// The collations: object id and name.
pub(crate) const COLLATIONS: [(u32, &str); 2] =
    [(DEFAULT_COLLATION, "default"), (C_COLLATION, "C")];

/// Types: id, name, length, kind and category.
const TYPES: &[(u32, &str, i32, &str, &str)] = &[
    (16, "bool", 1, "b", "B"),
    (17, "bytea", -1, "b", "U"),
    (18, "char", 1, "b", "Z"),
    (19, "name", 64, "b", "S"),
    (20, "int8", 8, "b", "N"),
    (21, "int2", 2, "b", "N"),
    (22, "int2vector", -1, "b", "A"),
    (23, "int4", 4, "b", "N"),
    (24, "regproc", 4, "b", "N"),
    (25, "text", -1, "b", "S"),
    (26, "oid", 4, "b", "N"),
    (28, "xid", 4, "b", "U"),
    (30, "oidvector", -1, "b", "A"),
    (114, "json", -1, "b", "U"),
    (194, "pg_node_tree", -1, "b", "Z"),
    (650, "cidr", -1, "b", "I"),
    (700, "float4", 4, "b", "N"),
    (701, "float8", 8, "b", "N"),
    (705, "unknown", -2, "p", "X"),
    (869, "inet", -1, "b", "I"),
    (1033, "aclitem", 12, "b", "U"),
    (1042, "bpchar", -1, "b", "S"),
    (1043, "varchar", -1, "b", "S"),
    (1082, "date", 4, "b", "D"),
    (1083, "time", 8, "b", "D"),
    (1114, "timestamp", 8, "b", "D"),
    (1184, "timestamptz", 8, "b", "D"),
    (1186, "interval", 16, "b", "T"),
    (1266, "timetz", 12, "b", "D"),
    (1560, "bit", -1, "b", "V"),
    (1562, "varbit", -1, "b", "V"),
    (1700, "numeric", -1, "b", "N"),
    (2202, "regprocedure", 4, "b", "N"),
    (2203, "regoper", 4, "b", "N"),
    (2204, "regoperator", 4, "b", "N"),
    (2205, "regclass", 4, "b", "N"),
    (2206, "regtype", 4, "b", "N"),
    (2249, "record", -1, "p", "P"),
    (2277, "anyarray", -1, "p", "P"),
    (2278, "void", 4, "p", "P"),
    (2950, "uuid", 16, "b", "U"),
    (3220, "pg_lsn", 8, "b", "U"),
    (3361, "pg_ndistinct", -1, "b", "Z"),
    (3402, "pg_dependencies", -1, "b", "Z"),
    (3802, "jsonb", -1, "b", "U"),
    (4089, "regnamespace", 4, "b", "N"),
    (4096, "regrole", 4, "b", "N"),
    (4191, "regcollation", 4, "b", "N"),
    (5017, "pg_mcv_list", -1, "b", "Z"),
];

/// The types that conversions prefer in their categories.
const PREFERRED: [u32; 8] = [16, 25, 26, 701, 869, 1184, 1186, 1562];

/// Returns the type of the elements of a type that every database has, 0 if it has none.
fn element_of(oid: u32) -> u32 {
    match oid {
        19 => 18,
        oid => Type::from_oid(oid).and_then(Type::element).map_or(0, Type::oid),
    }
}

/// Returns the type that a text names, as SQL writes it: `character varying(3)`, `int[]`.
pub(crate) fn type_written(text: &str, types: &[(Qualified, UserType)]) -> Option<u32> {
    let written = (text.len() <= LONGEST_TYPE).then(|| parse::data_type(text)).flatten();
    let written = written?;
    match &written {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            let name = names::relation(name).ok()?;
            let is_system = name.schema.as_deref().is_none_or(|schema| schema == "pg_catalog");
            type_named(&name.name).filter(|_| is_system).or_else(|| type_id(&written, types))
        }
        other => type_id(other, types),
    }
}

/// Returns the object id of a type name.
fn type_id(name: &DataType, types: &[(Qualified, UserType)]) -> Option<u32> {
    if let DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) = name
        && let Some(ty) = names::user_type(element, types)
    {
        return Some(ty.array_id());
    }
    let (ty, domain) = names::declared_type(name, types).ok()?;
    Some(domain.map_or(ty.oid(), Domain::id))
}

/// Returns `pg_type`'s name of a type: `int4`, `_int4`.
pub(crate) fn type_name(ty: Type) -> String {
    let of = |ty: Type| {
        let found = TYPES.iter().find(|(oid, ..)| *oid == ty.oid()).map(|(_, name, ..)| *name);
        found.unwrap_or(ty.name())
    };
    match ty {
        Type::Enum(_) | Type::Composite(_) => {
            ty.user_type().map(|of| of.name().to_owned()).unwrap_or_default()
        }
        Type::Array(element) if let Some(of) = element.ty().user_type() => {
            format!("_{}", of.name())
        }
        Type::Array(element) => format!("_{}", of(element.ty())),
        ty => of(ty).to_owned(),
    }
}

/// The longest text that is read as the name of a type, in bytes.
const LONGEST_TYPE: usize = 200;

/// Returns the type of a name of SQL or `pg_type`.
pub(crate) fn type_named(name: &str) -> Option<u32> {
    let last = name.rsplit('.').next().unwrap_or(name);
    if let Some(element) = last.strip_prefix('_') {
        let element = type_named(element).and_then(Type::from_oid)?;
        return Some(element.array().oid()).filter(|oid| *oid != element.oid());
    }
    let by_name = TYPES.iter().find(|(_, other, ..)| *other == last).map(|(oid, ..)| *oid);
    by_name.or_else(|| {
        let mut all =
            TYPES.iter().filter_map(|(oid, ..)| Type::from_oid(*oid).map(|ty| (*oid, ty)));
        all.find(|(oid, ty)| ty.name() == last && ty.oid() == *oid).map(|(oid, _)| oid)
    })
}

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        "pg_am" => am,
        "pg_attrdef" => attrdef,
        "pg_attribute" => attribute,
        "pg_authid" | "pg_roles" => roles,
        "pg_class" => class,
        "pg_collation" => collation,
        "pg_constraint" => constraint,
        "pg_database" => database,
        "pg_db_role_setting" => db_role_setting,
        "pg_description" => description,
        "pg_shdescription" => shared_description,
        "pg_enum" => enumeration,
        "pg_index" => index,
        "pg_indexes" => indexes,
        "pg_matviews" => materialized_views,
        "pg_namespace" => namespace,
        "pg_opclass" => opclass,
        "pg_opfamily" => opfamily,
        "pg_settings" => settings,
        "pg_tables" => tables,
        "pg_tablespace" => tablespace,
        "pg_type" => types,
        "pg_user" => user,
        "pg_views" => views,
        _ => return None,
    })
}

fn am(_: &SystemContext<'_>, out: &mut Writer<'_>) {
    out.row(&[("oid", HEAP.into()), ("amname", "heap".into()), ("amtype", "t".into())]);
    out.row(&[("oid", BTREE.into()), ("amname", "btree".into()), ("amtype", "i".into())]);
}

fn attrdef(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for table in &context.catalog.tables {
        for (at, column) in table.columns.iter().enumerate() {
            let default = default_of(context.catalog, column);
            if let Some(default) = default.or_else(|| context.catalog.shown_generated(column)) {
                out.row(&[
                    ("oid", default_id(table.id, at).into()),
                    ("adrelid", table.id.into()),
                    ("adnum", (at as i32 + 1).into()),
                    ("adbin", default.into()),
                ]);
            }
        }
    }
}

fn attribute(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for sequence in &context.catalog.sequences {
        for (at, column) in sequence.as_table().columns.iter().enumerate() {
            column_of(out, sequence.id, at, true, column);
        }
    }
    for view in &context.catalog.views {
        for (at, column) in view.columns.iter().enumerate() {
            column_of(out, view.id, at, true, column);
        }
    }
    for ty in &context.catalog.types {
        let UserType::Composite(ty) = ty else { continue };
        for (at, attribute) in ty.descriptor().attributes.iter().enumerate() {
            let mut column = ColumnDef::new(&attribute.name, attribute.ty);
            column.dropped = attribute.dropped;
            column_of(out, ty.relation_id(), at, true, &column);
        }
    }
    for table in &context.catalog.tables {
        for (at, column) in table.columns.iter().enumerate() {
            column_of(out, table.id, at, true, column);
        }
        for index in table.keys() {
            for (at, part) in index.columns.iter().enumerate() {
                let column = match part.column() {
                    // A key is one of the base type, as in PostgreSQL.
                    Some(column) => ColumnDef { domain: None, ..table.columns[column].clone() },
                    None => {
                        ColumnDef::new(&part_name(table, index, at), index.type_of(table, *part))
                    }
                };
                column_of(out, index.id, at, false, &column);
            }
        }
    }
}

/// Returns the name of an index's column that is an expression: that of its function, and a number
/// if one before has it.
fn part_name(table: &Table, index: &Index, at: usize) -> String {
    let name = |part: &IndexPart| match part.column() {
        Some(column) => table.columns[column].name.clone(),
        None => index.call_of(table, *part).unwrap_or("expr").to_lowercase(),
    };
    let wanted = name(&index.columns[at]);
    let before = index.columns[..at].iter().filter(|part| name(part) == wanted).count();
    if before == 0 { wanted } else { format!("{wanted}{before}") }
}

/// Returns PostgreSQL's kind of storage of a type: it has no meaning here, and tools compare it.
pub(super) fn storage(oid: u32, length: i32) -> &'static str {
    const ADDRESSES: [u32; 2] = [Type::Inet.oid(), Type::Cidr.oid()];
    match length {
        0.. => "p",
        _ if matches!(Type::from_oid(oid), Some(Type::Int2Vector | Type::OidVector)) => "p",
        _ if oid == Type::Numeric(None).oid() || ADDRESSES.contains(&oid) => "m",
        _ => "x",
    }
}

/// Returns the collation of a type, 0 if its values have none.
fn collation_of(ty: Type) -> u32 {
    match ty {
        Type::Name => C_COLLATION,
        Type::Internal(
            Internal::NodeTree | Internal::NDistinct | Internal::Dependencies | Internal::McvList,
        ) => DEFAULT_COLLATION,
        ty if ty.is_text() => DEFAULT_COLLATION,
        _ => 0,
    }
}

/// Writes a table's `own` column, or one of an index.
fn column_of(out: &mut Writer<'_>, relation: u32, at: usize, own: bool, column: &ColumnDef) {
    let identity = match column.identity.filter(|_| own) {
        Some(Identity::Always) => "a",
        Some(Identity::ByDefault) => "d",
        None => "",
    };
    let is_generated = column.generated.is_some();
    let has_default = is_generated || column.default.is_some() && column.identity.is_none();
    let element = column.ty.element().map(Type::oid);
    out.row(&[
        ("attrelid", relation.into()),
        ("attname", column.name.as_str().into()),
        ("atttypid", if column.dropped { 0.into() } else { column.type_id().into() }),
        ("attisdropped", column.dropped.into()),
        ("atthasmissing", column.filled.is_some().into()),
        ("attstattarget", (-1).into()),
        ("attlen", i32::from(column.ty.length()).into()),
        ("attnum", (at as i32 + 1).into()),
        ("attcacheoff", (-1).into()),
        ("atttypmod", column.domain.map_or(column.ty.modifier(), |_| -1).into()),
        ("attbyval", (1..=8).contains(&column.ty.length()).into()),
        ("attalign", input_functions::alignment(column.ty.oid(), element).into()),
        ("attndims", i32::from(matches!(column.ty, Type::Array(_))).into()),
        ("attstorage", storage(column.ty.oid(), column.ty.length().into()).into()),
        ("attnotnull", (own && column.not_null).into()),
        ("atthasdef", (own && has_default).into()),
        ("attidentity", identity.into()),
        ("attgenerated", if own && is_generated { "s" } else { "" }.into()),
        ("attislocal", true.into()),
        ("attcollation", collation_of(column.ty).into()),
    ]);
}

fn roles(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    out.row(&[
        ("oid", OWNER.into()),
        ("rolname", context.facts.user.as_str().into()),
        ("rolsuper", true.into()),
        ("rolinherit", true.into()),
        ("rolcreaterole", true.into()),
        ("rolcreatedb", true.into()),
        ("rolcanlogin", true.into()),
        ("rolbypassrls", true.into()),
        ("rolreplication", true.into()),
        ("rolconnlimit", (-1).into()),
    ]);
    for (oid, name) in super::ROLES {
        out.row(&[
            ("oid", oid.into()),
            ("rolname", name.into()),
            ("rolinherit", true.into()),
            ("rolconnlimit", (-1).into()),
        ]);
    }
}

fn user(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    out.row(&[
        ("usename", context.facts.user.as_str().into()),
        ("usesysid", OWNER.into()),
        ("usecreatedb", true.into()),
        ("usesuper", true.into()),
        ("userepl", true.into()),
        ("usebypassrls", true.into()),
    ]);
}

fn class(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for sequence in &context.catalog.sequences {
        let name = (sequence.schema, &*sequence.name);
        relation(out, sequence.id, name, ("S", 0, 3), Has { rows: 1, ..Has::default() });
    }
    for view in &context.catalog.views {
        let name = (view.schema, &*view.name);
        relation(out, view.id, name, ("v", 0, view.columns.len()), Has::default());
    }
    for ty in &context.catalog.types {
        let UserType::Composite(ty) = ty else { continue };
        let (name, width) = ((ty.descriptor().schema, ty.name()), ty.descriptor().attributes.len());
        relation(out, ty.relation_id(), name, ("c", 0, width), Has::default());
    }
    for table in &context.catalog.tables {
        let has_index = table.keys().next().is_some();
        // -1 stands for a number that is not known.
        let rows = table.statistics.as_ref().map_or(-1, |statistics| statistics.rows as i64);
        let width = table.columns.len();
        let has = Has {
            index: has_index,
            rows,
            checks: table.checks.len(),
            triggers: table.has_references(),
            ..Has::default()
        };
        let kind = if table.query.is_some() { "m" } else { "r" };
        let has = Has { rows_of_query: table.query.as_ref().map(|it| it.is_populated), ..has };
        relation(out, table.id, (table.schema, &table.name), (kind, HEAP, width), has);
        for index in table.keys() {
            let width = index.columns.len() + index.included.len();
            let has = Has { rows, ..Has::default() };
            relation(out, index.id, (table.schema, &index.name), ("i", BTREE, width), has);
        }
    }
}

/// The things that belong to a relation.
#[derive(Default)]
struct Has {
    index: bool,
    rows: i64,
    /// The number of CHECK constraints.
    checks: usize,
    /// True at both ends of a foreign key, which PostgreSQL checks by triggers.
    triggers: bool,
    /// Whether a materialized view is populated.
    rows_of_query: Option<bool>,
}

/// Returns the id of the type of a relation's rows; 0 if it has none.
fn row_type(kind: &str, id: u32) -> i32 {
    match kind {
        "r" | "v" | "m" | "c" => row_type_id(id),
        _ => 0,
    }
}

/// Writes a relation: its kind, access method and number of columns, and what it has.
fn relation(
    out: &mut Writer<'_>,
    id: u32,
    (schema, name): (u32, &str),
    (kind, access, width): (&str, u32, usize),
    has: Has,
) {
    out.row(&[
        ("oid", id.into()),
        ("relname", name.into()),
        ("relnamespace", schema.into()),
        ("reltype", row_type(kind, id).into()),
        ("relowner", OWNER.into()),
        ("relam", access.into()),
        ("relfilenode", id.into()),
        ("reltuples", has.rows.into()),
        ("relhasindex", has.index.into()),
        ("relhastriggers", has.triggers.into()),
        ("relpersistence", if is_temporary(schema) { "t" } else { "p" }.into()),
        ("relkind", kind.into()),
        ("relhasrules", matches!(kind, "v" | "m").into()),
        ("relnatts", (width as i32).into()),
        ("relchecks", (has.checks as i32).into()),
        ("relispopulated", has.rows_of_query.unwrap_or(true).into()),
        ("relreplident", if matches!(kind, "r" | "m") { "d" } else { "n" }.into()),
    ]);
}

fn collation(_: &SystemContext<'_>, out: &mut Writer<'_>) {
    for (oid, name) in COLLATIONS {
        let locale = if oid == DEFAULT_COLLATION { "" } else { name };
        out.row(&[
            ("oid", oid.into()),
            ("collname", name.into()),
            ("collnamespace", PG_CATALOG.into()),
            ("collowner", OWNER.into()),
            ("collprovider", if oid == DEFAULT_COLLATION { "d" } else { "c" }.into()),
            ("collisdeterministic", true.into()),
            ("collencoding", (-1).into()),
            ("collcollate", locale.into()),
            ("collctype", locale.into()),
        ]);
    }
}

/// Returns the numbers of an index's columns, from 1, with `between` between them.
fn numbers(index: &Index, between: &str) -> String {
    // An expression has the number 0.
    let parts = index.columns.iter().map(|part| part.column().map_or(0, |column| column + 1));
    let included = index.included.iter().map(|column| *column as usize + 1);
    let numbers: Vec<String> = parts.chain(included).map(|number| number.to_string()).collect();
    numbers.join(between)
}

fn constraint(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    domains::constraints(context, out);
    for table in &context.catalog.tables {
        for index in table.constraints() {
            out.row(&[
                ("oid", index.id.into()),
                ("conname", index.name.as_str().into()),
                ("connamespace", table.schema.into()),
                ("contype", if table.is_primary(index) { "p" } else { "u" }.into()),
                ("convalidated", true.into()),
                ("conrelid", table.id.into()),
                ("conindid", index.id.into()),
                ("confupdtype", " ".into()),
                ("confdeltype", " ".into()),
                ("confmatchtype", " ".into()),
                ("conislocal", true.into()),
                ("connoinherit", true.into()),
                ("conkey", format!("{{{}}}", numbers(index, ",")).into()),
            ]);
        }
        for foreign in &table.foreign {
            let list = |columns: &[u32]| {
                let numbers = columns.iter().map(|at| (at + 1).to_string());
                format!("{{{}}}", numbers.collect::<Vec<_>>().join(","))
            };
            out.row(&[
                ("oid", foreign.id.into()),
                ("conname", foreign.name.as_str().into()),
                ("connamespace", table.schema.into()),
                ("contype", "f".into()),
                ("condeferrable", foreign.is_deferrable.into()),
                ("condeferred", foreign.is_deferred.into()),
                ("convalidated", foreign.is_validated.into()),
                ("conrelid", table.id.into()),
                ("conindid", context.catalog.key_of(foreign).into()),
                ("confrelid", foreign.parent.into()),
                ("confupdtype", foreign.on_update.code().into()),
                ("confdeltype", foreign.on_delete.code().into()),
                ("confmatchtype", if foreign.is_full { "f" } else { "s" }.into()),
                ("conislocal", true.into()),
                ("connoinherit", true.into()),
                ("conkey", list(&foreign.columns).into()),
                ("confkey", list(&foreign.key).into()),
            ]);
        }
        for check in &table.checks {
            let columns = check.columns().into_iter().map(|at| (at + 1).to_string());
            let columns = columns.collect::<Vec<_>>().join(",");
            out.row(&[
                ("oid", check.id.into()),
                ("conname", check.name.as_str().into()),
                ("connamespace", table.schema.into()),
                ("contype", "c".into()),
                ("convalidated", check.is_validated.into()),
                ("conrelid", table.id.into()),
                ("confupdtype", " ".into()),
                ("confdeltype", " ".into()),
                ("confmatchtype", " ".into()),
                ("conislocal", true.into()),
                ("conkey", format!("{{{columns}}}").into()),
                ("conbin", context.catalog.shown_text(&check.text).into()),
            ]);
        }
    }
}

fn database(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let mut names =
        context.facts.server_info().map_or_else(Vec::new, |server_info| server_info.databases());
    if !names.contains(&context.facts.database) {
        names.push(context.facts.database.clone());
    }
    names.sort();
    for name in &names {
        out.row(&[
            ("oid", super::activity::database_id(name).into()),
            ("datname", name.as_str().into()),
            ("datdba", OWNER.into()),
            ("encoding", 6.into()),
            ("datlocprovider", "c".into()),
            ("datallowconn", true.into()),
            ("datconnlimit", (-1).into()),
            ("dattablespace", 1663.into()),
            ("datcollate", "C".into()),
            ("datctype", "C".into()),
        ]);
    }
}

/// The operator classes of indexes: object id, name, type and family.
const OPCLASSES: [(i32, &str, u32, u32); 28] = [
    (1978, "int4_ops", 23, 1976),
    (1979, "int2_ops", 21, 1976),
    (1981, "oid_ops", 26, 1989),
    (3122, "date_ops", 1082, 434),
    (3123, "float8_ops", 701, 1970),
    (3124, "int8_ops", 20, 1976),
    (3125, "numeric_ops", 1700, 1988),
    (3126, "text_ops", 25, 1994),
    (3127, "timestamptz_ops", 1184, 434),
    (3128, "timestamp_ops", 1114, 434),
    (10000, "array_ops", ANY_ARRAY, 397),
    (10002, "bit_ops", 1560, 423),
    (10003, "bool_ops", 16, 424),
    (10004, "bpchar_ops", 1042, 426),
    (10006, "bytea_ops", 17, 428),
    (10007, "char_ops", 18, 429),
    (10012, "float4_ops", 700, 1970),
    (10015, "inet_ops", 869, 1974),
    (10022, "interval_ops", 1186, 1982),
    (10028, "name_ops", 19, 1994),
    (10034, "record_ops", Type::Record.oid(), 2994),
    (10038, "time_ops", 1083, 1996),
    (10041, "timetz_ops", 1266, 2000),
    (10043, "varbit_ops", 1562, 2002),
    (10044, "varchar_ops", 25, 1994),
    (10065, "uuid_ops", 2950, 2968),
    (10069, "enum_ops", ANY_ENUM, 3522),
    (10088, "jsonb_ops", 3802, 4033),
];
/// The type `anyarray`.
const ANY_ARRAY: u32 = 2277;
/// The type `anyenum`.
const ANY_ENUM: u32 = 3500;
/// The class that takes texts of limited length, and is no type's own.
const VARCHAR_OPS: &str = "varchar_ops";

/// Returns the operator class of a type's keys.
fn class_of(ty: Type) -> i32 {
    let oid = match ty {
        Type::Array(_) => ANY_ARRAY,
        Type::Enum(_) => ANY_ENUM,
        Type::Cidr => Type::Inet.oid(),
        ty if ty.is_row() => Type::Record.oid(),
        ty => ty.base().oid(),
    };
    let found = OPCLASSES.iter().find(|(_, _, of, _)| *of == oid);
    found.map_or(0, |(class, ..)| *class)
}

fn opclass(_: &SystemContext<'_>, out: &mut Writer<'_>) {
    for (oid, name, of, family) in OPCLASSES {
        out.row(&[
            ("oid", oid.into()),
            ("opcmethod", BTREE.into()),
            ("opcname", name.into()),
            ("opcnamespace", PG_CATALOG.into()),
            ("opcowner", OWNER.into()),
            ("opcfamily", family.into()),
            ("opcintype", of.into()),
            ("opcdefault", (name != VARCHAR_OPS).into()),
        ]);
    }
}

/// The families of the operator classes.
const OPFAMILIES: [(u32, &str); 21] = [
    (397, "array_ops"),
    (423, "bit_ops"),
    (424, "bool_ops"),
    (426, "bpchar_ops"),
    (428, "bytea_ops"),
    (429, "char_ops"),
    (434, "datetime_ops"),
    (1970, "float_ops"),
    (1974, "network_ops"),
    (1976, "integer_ops"),
    (1982, "interval_ops"),
    (1988, "numeric_ops"),
    (1989, "oid_ops"),
    (1994, "text_ops"),
    (1996, "time_ops"),
    (2000, "timetz_ops"),
    (2002, "varbit_ops"),
    (2968, "uuid_ops"),
    (2994, "record_ops"),
    (3522, "enum_ops"),
    (4033, "jsonb_ops"),
];

fn opfamily(_: &SystemContext<'_>, out: &mut Writer<'_>) {
    for (oid, name) in OPFAMILIES {
        out.row(&[
            ("oid", oid.into()),
            ("opfmethod", BTREE.into()),
            ("opfname", name.into()),
            ("opfnamespace", PG_CATALOG.into()),
            ("opfowner", OWNER.into()),
        ]);
    }
}

/// Returns the bits of `indoption`: 1 is DESC, 2 is NULLS FIRST.
fn option_of(part: IndexPart) -> i32 {
    let nulls_first = part.descending != part.nulls_reversed;
    i32::from(part.descending) | i32::from(nulls_first) << 1
}

fn index(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for table in &context.catalog.tables {
        for index in table.keys() {
            let count = index.columns.len() as i32;
            let list = |value: &dyn Fn(usize) -> i32| {
                (0..index.columns.len())
                    .map(|at| value(at).to_string())
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            let mut row = vec![
                ("indexrelid", index.id.into()),
                ("indrelid", table.id.into()),
                ("indnatts", (count + index.included.len() as i32).into()),
                ("indnkeyatts", count.into()),
                ("indisunique", index.unique.into()),
                ("indnullsnotdistinct", index.nulls_not_distinct.into()),
                ("indisprimary", table.is_primary(index).into()),
                ("indimmediate", true.into()),
                ("indisvalid", index.building.is_none().into()),
                ("indisready", true.into()),
                ("indislive", true.into()),
                ("indkey", numbers(index, " ").into()),
                ("indcollation", list(&|_| 0).into()),
                ("indclass", list(&|at| class_of(index.type_of(table, index.columns[at]))).into()),
                ("indoption", list(&|at| option_of(index.columns[at])).into()),
            ];
            if !index.expressions.is_empty() {
                let texts = index.expressions.join(", ");
                row.push(("indexprs", context.catalog.shown_text(&texts).into()));
            }
            if let Some(predicate) = &index.predicate {
                row.push(("indpred", context.catalog.shown_text(predicate).into()));
            }
            out.row(&row);
        }
    }
}

fn indexes(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for table in &context.catalog.tables {
        for index in table.keys() {
            out.row(&[
                ("schemaname", context.catalog.schema_name(table.schema).into()),
                ("tablename", table.name.as_str().into()),
                ("indexname", index.name.as_str().into()),
                ("indexdef", index_definition(context.catalog, table, index).into()),
            ]);
        }
    }
}

fn namespace(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for (oid, name) in context.catalog.all_schemas() {
        let owner = if oid == PUBLIC { DATABASE_OWNER } else { OWNER };
        out.row(&[("oid", oid.into()), ("nspname", name.into()), ("nspowner", owner.into())]);
    }
}

fn settings(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for setting in context.facts.settings.described() {
        let kind = ValueKind::of(setting.name, setting.by_default);
        let fixed = crate::settings::FIXED.contains(&setting.name);
        out.row(&[
            ("name", setting.name.into()),
            ("setting", setting.value.into()),
            ("category", "Client Connection Defaults".into()),
            ("context", if fixed { "internal" } else { "user" }.into()),
            ("unit", kind.unit().into()),
            ("vartype", kind.name().into()),
            ("source", setting.source.into()),
            ("boot_val", setting.by_default.into()),
            ("reset_val", setting.initial.into()),
        ]);
    }
}

/// The kind of a setting's values.
enum ValueKind {
    Bool,
    Enum,
    Integer,
    Milliseconds,
    String,
}

impl ValueKind {
    fn of(name: &str, by_default: &str) -> ValueKind {
        const ENUMS: [&str; 6] = [
            "bytea_output",
            "client_min_messages",
            "default_transaction_isolation",
            "intervalstyle",
            "transaction_isolation",
            "xmloption",
        ];
        match name {
            _ if name.ends_with("_timeout") => ValueKind::Milliseconds,
            _ if ENUMS.iter().any(|it| it.eq_ignore_ascii_case(name)) => ValueKind::Enum,
            _ if matches!(by_default, "on" | "off") => ValueKind::Bool,
            _ if by_default.parse::<i64>().is_ok() => ValueKind::Integer,
            _ => ValueKind::String,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            ValueKind::Bool => "bool",
            ValueKind::Enum => "enum",
            ValueKind::Integer | ValueKind::Milliseconds => "integer",
            ValueKind::String => "string",
        }
    }

    fn unit(&self) -> Option<&'static str> {
        matches!(self, ValueKind::Milliseconds).then_some("ms")
    }
}

fn db_role_setting(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let Some(server_info) = context.facts.server_info() else { return };
    for name in server_info.databases() {
        let settings = server_info.settings(&name).into_iter();
        let settings = settings.map(|(name, of)| Datum::text(format!("{name}={of}")));
        let settings: Vec<Datum> = settings.collect();
        if settings.is_empty() {
            continue;
        }
        if let Ok(list) = Array::of(Type::Text, settings) {
            let mut shown = String::new();
            list.write_text(Zone::utc(), &mut shown);
            out.row(&[
                ("setdatabase", super::activity::database_id(&name).into()),
                ("setconfig", shown.into()),
            ]);
        }
    }
}

fn tables(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for table in context.catalog.base_tables() {
        out.row(&[
            ("schemaname", context.catalog.schema_name(table.schema).into()),
            ("tablename", table.name.as_str().into()),
            ("tableowner", context.facts.user.as_str().into()),
            ("hasindexes", table.keys().next().is_some().into()),
        ]);
    }
    for (schema, table) in super::TABLES.iter() {
        out.row(&[
            ("schemaname", (*schema).into()),
            ("tablename", table.name.as_str().into()),
            ("tableowner", context.facts.user.as_str().into()),
        ]);
    }
}

fn views(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for view in &context.catalog.views {
        out.row(&[
            ("schemaname", context.catalog.schema_name(view.schema).into()),
            ("viewname", view.name.as_str().into()),
            ("viewowner", context.facts.user.as_str().into()),
            ("definition", context.catalog.view_definition(view.id.into()).into()),
        ]);
    }
}

fn materialized_views(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for table in &context.catalog.tables {
        let Some(query) = &table.query else { continue };
        out.row(&[
            ("schemaname", context.catalog.schema_name(table.schema).into()),
            ("matviewname", table.name.as_str().into()),
            ("matviewowner", context.facts.user.as_str().into()),
            ("hasindexes", table.keys().next().is_some().into()),
            ("ispopulated", query.is_populated.into()),
            ("definition", context.catalog.view_definition(table.id.into()).into()),
        ]);
    }
}

fn tablespace(_: &SystemContext<'_>, out: &mut Writer<'_>) {
    for (oid, name) in [(1663, "pg_default"), (1664, "pg_global")] {
        out.row(&[("oid", oid.into()), ("spcname", name.into()), ("spcowner", OWNER.into())]);
    }
}

/// The comments on objects.
fn description(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for description in context.catalog.descriptions() {
        out.row(&[
            ("objoid", description.id.into()),
            ("classoid", description.class.0.into()),
            ("objsubid", description.column.into()),
            ("description", description.text.into()),
        ]);
    }
}

/// The comment on the database.
fn shared_description(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    if let Some(text) = context.catalog.comment_of_database() {
        out.row(&[
            ("objoid", super::activity::database_id(&context.facts.database).into()),
            ("classoid", DATABASES.into()),
            ("description", text.into()),
        ]);
    }
}

/// The labels of enum types.
fn enumeration(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for ty in &context.catalog.types {
        let UserType::Enum(ty) = ty else { continue };
        for (at, label) in ty.descriptor().labels.iter().enumerate() {
            out.row(&[
                ("oid", default_id(ty.id(), at).into()),
                ("enumtypid", ty.id().into()),
                ("enumsortorder", (at as i64 + 1).into()),
                ("enumlabel", label.name.as_str().into()),
            ]);
        }
    }
}

fn types(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let array_of =
        |oid: u32| ARRAYS.iter().find(|(of, ..)| *of == oid).map_or(0, |(_, array, _)| *array);
    for (schema, name, relation) in context.catalog.with_rows() {
        let mut row = vec![
            ("oid", row_type_id(relation).into()),
            ("typname", name.into()),
            ("typnamespace", schema.into()),
            ("typowner", OWNER.into()),
            ("typlen", (-1).into()),
            ("typtype", "c".into()),
            ("typcategory", "C".into()),
            ("typisdefined", true.into()),
            ("typdelim", ",".into()),
            ("typrelid", relation.into()),
            ("typalign", "d".into()),
            ("typstorage", "x".into()),
            ("typtypmod", (-1).into()),
        ];
        row.extend(input_functions::columns(input_functions::ROW));
        out.row(&row);
    }
    let mut one =
        |oid: u32, name: Value<'_>, length: i32, kind: &str, category: &str, element: u32| {
            let is_array = category == "A";
            let of = if is_array { element } else { oid };
            let collation = Type::from_oid(of).map_or(0, collation_of);
            let functions = input_functions::of_type(oid).unwrap_or(input_functions::ARRAY);
            let mut row = vec![
                ("oid", oid.into()),
                ("typname", name),
                ("typnamespace", PG_CATALOG.into()),
                ("typowner", OWNER.into()),
                ("typlen", length.into()),
                ("typbyval", (1..=8).contains(&length).into()),
                ("typtype", kind.into()),
                ("typcategory", category.into()),
                ("typisdefined", true.into()),
                ("typdelim", ",".into()),
                ("typelem", element.into()),
                ("typarray", array_of(oid).into()),
                ("typstorage", storage(oid, length).into()),
                ("typtypmod", (-1).into()),
                ("typcollation", collation.into()),
                ("typispreferred", PREFERRED.contains(&oid).into()),
                ("typalign", input_functions::alignment(oid, is_array.then_some(element)).into()),
                ("typsubscript", input_functions::subscript(oid, is_array)),
            ];
            row.extend(input_functions::columns(functions));
            out.row(&row);
        };
    for (oid, name, length, kind, category) in TYPES {
        one(*oid, (*name).into(), *length, kind, category, element_of(*oid));
    }
    for (of, array, _) in ARRAYS {
        if let Some((_, name, ..)) = TYPES.iter().find(|(oid, ..)| *oid == of) {
            one(array, format!("_{name}").into(), -1, "b", "A", of);
        }
    }
    domains::types(context, out);
    for ty in &context.catalog.types {
        let name = ty.name();
        let (length, kind, relation) = match ty {
            UserType::Enum(_) => (4, ("e", "E"), 0),
            UserType::Composite(of) => (-1, ("c", "C"), of.relation_id()),
            UserType::Domain(_) => continue,
        };
        let mut one = |oid: u32, name: &str, length: i32, (kind, category): (&str, &str), ids| {
            let (element, array): (u32, u32) = ids;
            let is_array = element > 0;
            let functions = match kind {
                _ if is_array => input_functions::ARRAY,
                "c" => input_functions::ROW,
                _ => input_functions::ENUM,
            };
            let mut row = vec![
                ("oid", oid.into()),
                ("typname", name.into()),
                ("typnamespace", ty.schema().into()),
                ("typowner", OWNER.into()),
                ("typlen", length.into()),
                ("typbyval", (length > 0).into()),
                ("typtype", kind.into()),
                ("typcategory", category.into()),
                ("typisdefined", true.into()),
                ("typdelim", ",".into()),
                ("typrelid", if kind == "c" { relation.into() } else { 0.into() }),
                ("typelem", element.into()),
                ("typarray", array.into()),
                ("typstorage", storage(oid, length).into()),
                ("typtypmod", (-1).into()),
                ("typalign", if relation > 0 { "d" } else { "i" }.into()),
                ("typsubscript", input_functions::subscript(oid, is_array)),
            ];
            row.extend(input_functions::columns(functions));
            out.row(&row);
        };
        one(ty.id(), name, length, kind, (0, ty.array_id()));
        one(ty.array_id(), &format!("_{name}"), -1, ("b", "A"), (ty.id(), 0));
    }
}

impl Table {
    /// Iterates over the primary key and the indexes.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Index> {
        self.primary.iter().chain(&self.indexes)
    }

    pub(crate) fn is_primary(&self, index: &Index) -> bool {
        self.primary.as_ref().is_some_and(|primary| primary.id == index.id)
    }

    /// Iterates over the keys that are constraints. An index of CREATE UNIQUE INDEX is none in
    /// PostgreSQL. The origin is not stored, but a constraint's name ends as PostgreSQL creates it.
    pub(crate) fn constraints(&self) -> impl Iterator<Item = &Index> {
        self.keys().filter(|index| self.is_primary(index) || index.is_constraint())
    }
}
