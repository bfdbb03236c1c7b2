//! The rows of `pg_catalog`.

use super::collations::collation_of_column;
use super::dependencies::{default_id, row_type_id};
use super::operator_classes::{BTREE, HEAP};
use super::types::storage;
use super::{DATABASE_OWNER, DATABASES, OWNER, PUBLIC, Rows, SystemContext, Writer};
use super::{collations, domains, input_functions, operator_classes, roles, setting_tables, types};
use crate::catalog::{ColumnDef, Identity, Table, UserType};
use crate::deparse::Style;
use crate::index::{Index, IndexPart};
use crate::temporary::is_temporary;
use crate::types::Type;

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        "pg_am" => operator_classes::am,
        "pg_attrdef" => attrdef,
        "pg_attribute" => attribute,
        "pg_authid" | "pg_roles" => roles::roles,
        "pg_class" => class,
        "pg_collation" => collations::collation,
        "pg_constraint" => constraint,
        "pg_database" => database,
        "pg_db_role_setting" => setting_tables::db_role_setting,
        "pg_description" => description,
        "pg_shdescription" => shared_description,
        "pg_enum" => types::enumeration,
        "pg_index" => index,
        "pg_indexes" => indexes,
        "pg_matviews" => materialized_views,
        "pg_namespace" => namespace,
        "pg_opclass" => operator_classes::opclass,
        "pg_opfamily" => operator_classes::opfamily,
        "pg_settings" => setting_tables::settings,
        "pg_tables" => tables,
        "pg_tablespace" => tablespace,
        "pg_type" => types::types,
        "pg_user" => roles::user,
        "pg_views" => views,
        _ => return None,
    })
}

fn attrdef(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for table in &context.catalog.tables {
        for (at, column) in table.columns.iter().enumerate() {
            let (catalog, zone) = (context.catalog, context.facts.zone());
            let default = catalog.shown_column_default(column, zone);
            let generated = || catalog.shown_generated(table, column, zone);
            if let Some(default) = default.or_else(generated) {
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
        ("attcollation", collation_of_column(column).into()),
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
            triggers: table.has_late_checks(),
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
                ("condeferrable", index.deferrable.is_some().into()),
                ("condeferred", index.deferrable.unwrap_or(false).into()),
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
                ("conbin", context.catalog.shown_check(check, table, context.facts.zone()).into()),
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
            let class_of = |at: usize| {
                let part: IndexPart = index.columns[at];
                let class = part.operator_class(index.type_of(table, part));
                class.map_or(0, |class| class.oid as i32)
            };
            let mut row = vec![
                ("indexrelid", index.id.into()),
                ("indrelid", table.id.into()),
                ("indnatts", (count + index.included.len() as i32).into()),
                ("indnkeyatts", count.into()),
                ("indisunique", index.is_declared_unique().into()),
                ("indnullsnotdistinct", index.nulls_not_distinct.into()),
                ("indisprimary", table.is_primary(index).into()),
                ("indimmediate", index.deferrable.is_none().into()),
                ("indisvalid", index.building.is_none().into()),
                ("indisready", true.into()),
                ("indislive", true.into()),
                ("indkey", numbers(index, " ").into()),
                ("indcollation", list(&|_| 0).into()),
                ("indclass", list(&class_of).into()),
                ("indoption", list(&|at| option_of(index.columns[at])).into()),
            ];
            let (catalog, style) = (context.catalog, (Style::Plain, context.facts.zone()));
            if let Some(texts) = catalog.shown_keys(table, index, style) {
                row.push(("indexprs", texts.into()));
            }
            if let Some(predicate) = catalog.shown_predicate(table, index, style) {
                row.push(("indpred", predicate.into()));
            }
            out.row(&row);
        }
    }
}

fn indexes(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let style = (Style::Plain, context.facts.zone());
    for table in &context.catalog.tables {
        for index in table.keys() {
            out.row(&[
                ("schemaname", context.catalog.schema_name(table.schema).into()),
                ("tablename", table.name.as_str().into()),
                ("indexname", index.name.as_str().into()),
                ("indexdef", context.catalog.definition_of(table, index, style).into()),
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
