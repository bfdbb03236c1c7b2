//! The rows of `information_schema`.

use super::PG_CATALOG;
use super::{Rows, SystemContext, Value, Writer, type_name};
use crate::catalog::{Identity, Table, UserType};
use crate::constraint::Check;
use crate::sequence::{Owner, Sequence};
use crate::temporary::is_temporary;
use crate::types::Type;
use std::sync::Arc;

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        "character_sets" => character_sets,
        "check_constraints" => check_constraints,
        "columns" => columns,
        "key_column_usage" => key_column_usage,
        "constraint_column_usage" => constraint_column_usage,
        "constraint_table_usage" => constraint_table_usage,
        "attributes" => attributes,
        "element_types" => element_types,
        "user_defined_types" => user_defined_types,
        "information_schema_catalog_name" => catalog_name,
        "referential_constraints" => referential_constraints,
        "schemata" => schemata,
        "table_constraints" => table_constraints,
        "tables" => tables,
        "view_table_usage" => view_table_usage,
        "views" => views,
        _ => return None,
    })
}

fn tables(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    for table in context.catalog.base_tables() {
        out.row(&[
            ("table_catalog", database.into()),
            ("table_schema", context.catalog.schema_name(table.schema).into()),
            ("table_name", table.name.as_str().into()),
            ("table_type", table_type(table.id, "BASE TABLE").into()),
            ("is_insertable_into", true.into()),
            ("is_typed", false.into()),
        ]);
    }
    let catalog = context.catalog;
    let views = catalog.views.iter();
    let views = views.map(|view| (catalog.schema_name(view.schema), view.name.as_str(), view.id));
    let system = super::TABLES.iter().map(|(schema, it)| (*schema, it.name.as_str(), it.id));
    for (schema, name, id) in views.chain(system) {
        out.row(&[
            ("table_catalog", database.into()),
            ("table_schema", schema.into()),
            ("table_name", name.into()),
            ("table_type", table_type(id, "VIEW").into()),
            ("is_insertable_into", false.into()),
            ("is_typed", false.into()),
        ]);
    }
}

/// Returns the type of a relation, which is `otherwise` unless it is temporary.
fn table_type(id: u32, otherwise: &str) -> &str {
    if is_temporary(id) { "LOCAL TEMPORARY" } else { otherwise }
}

fn views(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for view in &context.catalog.views {
        out.row(&[
            ("table_catalog", context.facts.database.as_str().into()),
            ("table_schema", context.catalog.schema_name(view.schema).into()),
            ("table_name", view.name.as_str().into()),
            ("view_definition", context.catalog.view_definition(view.id.into()).into()),
            ("check_option", "NONE".into()),
            ("is_updatable", false.into()),
            ("is_insertable_into", false.into()),
            ("is_trigger_updatable", false.into()),
            ("is_trigger_deletable", false.into()),
            ("is_trigger_insertable_into", false.into()),
        ]);
    }
}

/// Returns the fields of a type of intervals, as `interval_type` has them.
fn fields_of(ty: Type) -> Option<String> {
    let Type::Rounded(rounded) = ty else { return None };
    rounded.fields()?;
    Some(ty.to_string().split_once(' ')?.1.to_uppercase())
}

fn columns(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let (database, zone) = (context.facts.database.as_str(), context.facts.zone());
    let views: Vec<Arc<Table>> =
        context.catalog.views.iter().map(|view| Arc::new(view.as_table())).collect();
    let schema_of = |table: &Table| context.catalog.schema_name(table.schema);
    let tables = context.catalog.base_tables().map(|table| (schema_of(table), table, true));
    let views = views.iter().map(|view| (schema_of(view), view, false));
    let system = super::TABLES.iter().map(|(schema, table)| (*schema, table, true));
    for (schema, table, is_updatable) in tables.chain(views).chain(system) {
        for (at, column) in table.present() {
            // A domain over another one has that as its base type.
            let over = column.domain.and_then(|domain| domain.descriptor().over);
            let data_type = match column.ty {
                _ if over.is_some() => "USER-DEFINED",
                Type::Array(_) => "ARRAY",
                Type::Enum(_) | Type::Composite(_) | Type::Base(_) => "USER-DEFINED",
                ty => ty.name(),
            };
            let is_generated = column.generated.is_some();
            let generated = context.catalog.shown_generated(table, column, zone);
            let own = over.map(UserType::Domain).or(column.ty.user_type());
            let udt_schema = own.map_or(PG_CATALOG, UserType::schema);
            let udt_name =
                over.map_or_else(|| type_name(column.ty), |it| it.descriptor().name.clone());
            let rejects_null =
                column.not_null || column.domain.is_some_and(|it| it.descriptor().not_null);
            let identity = column.identity.and_then(|_| {
                let is_its = |owner: Owner| {
                    owner.is_identity && owner.table == table.id && owner.column as usize == at
                };
                context.catalog.sequences.iter().find(|it| it.owner.is_some_and(is_its))
            });
            let number = |of: &dyn Fn(&Sequence) -> i64| identity.map(|it| of(it).to_string());
            let mut row = vec![
                ("table_catalog", database.into()),
                ("table_schema", schema.into()),
                ("table_name", table.name.as_str().into()),
                ("column_name", column.name.as_str().into()),
                ("ordinal_position", (at as i32 + 1).into()),
                ("column_default", context.catalog.shown_column_default(column, zone).into()),
                ("is_nullable", (!rejects_null).into()),
                ("data_type", data_type.into()),
                ("interval_type", fields_of(column.ty).into()),
                ("udt_catalog", database.into()),
                ("udt_schema", context.catalog.schema_name(udt_schema).into()),
                ("udt_name", udt_name.into()),
                ("dtd_identifier", (at + 1).to_string().into()),
                ("is_self_referencing", false.into()),
                ("is_identity", identity.is_some().into()),
                ("identity_generation", column.identity.map(generation).into()),
                ("identity_start", number(&|it| it.start).into()),
                ("identity_increment", number(&|it| it.increment).into()),
                ("identity_maximum", number(&|it| it.max).into()),
                ("identity_minimum", number(&|it| it.min).into()),
                ("identity_cycle", identity.is_some_and(|it| it.cycle).into()),
                ("is_generated", if is_generated { "ALWAYS" } else { "NEVER" }.into()),
                ("generation_expression", generated.into()),
                ("is_updatable", is_updatable.into()),
            ];
            if over.is_none() {
                row.extend(Measures::of(column.ty).columns());
            }
            if let Some(collation) = &column.collation {
                row.extend([
                    ("collation_catalog", database.into()),
                    ("collation_schema", "pg_catalog".into()),
                    ("collation_name", collation.as_str().into()),
                ]);
            }
            if let Some(domain) = column.domain {
                let of = domain.descriptor();
                row.extend([
                    ("domain_catalog", database.into()),
                    ("domain_schema", context.catalog.schema_name(of.schema).into()),
                    ("domain_name", of.name.as_str().into()),
                ]);
            }
            out.row(&row);
        }
    }
}

/// The measures of a type's values.
#[derive(Default)]
pub(super) struct Measures {
    /// The most characters.
    length: Option<u32>,
    /// The most bytes of these.
    octets: Option<u32>,
    /// The digits of numbers, their base, and how many are fractions.
    precision: Option<i32>,
    radix: Option<i32>,
    scale: Option<i32>,
    /// The digits of seconds.
    datetime: Option<i32>,
}

impl Measures {
    pub(super) fn of(ty: Type) -> Measures {
        let mut measures = Measures::default();
        let number = |precision: i32, radix: i32, scale: Option<i32>| Measures {
            precision: Some(precision),
            radix: Some(radix),
            scale,
            ..Measures::default()
        };
        match ty {
            Type::Int2 => return number(16, 2, Some(0)),
            Type::Int4 => return number(32, 2, Some(0)),
            Type::Int8 => return number(64, 2, Some(0)),
            Type::Float4 => return number(24, 2, None),
            Type::Float8 => return number(53, 2, None),
            Type::Numeric(Some((precision, scale))) => {
                // PostgreSQL 15 shows the bits of a scale below zero.
                return number(precision.into(), 10, Some(i32::from(scale) & 0x7FF));
            }
            Type::Numeric(None) => measures.radix = Some(10),
            Type::Varchar(length) => measures.length = length,
            Type::Char(length) => measures.length = Some(length),
            Type::Bit(length) | Type::Varbit(length) => measures.length = length,
            Type::Time | Type::TimeTz | Type::Interval => measures.datetime = Some(6),
            Type::Timestamp | Type::TimestampTz => measures.datetime = Some(6),
            Type::Rounded(rounded) => measures.datetime = i32::try_from(rounded.digits()).ok(),
            Type::Date => measures.datetime = Some(0),
            _ => {}
        }
        // In UTF8, a character takes up to 4 bytes; a text up to 1 GB.
        measures.octets = match ty {
            Type::Text | Type::Varchar(None) => Some(1 << 30),
            Type::Bit(_) | Type::Varbit(_) => None,
            _ => measures.length.map(|length| length.saturating_mul(4)),
        };
        measures
    }

    /// Returns the columns that show them.
    pub(super) fn columns<'a>(self) -> [(&'a str, Value<'a>); 6] {
        [
            ("character_maximum_length", self.length.into()),
            ("character_octet_length", self.octets.into()),
            ("numeric_precision", self.precision.into()),
            ("numeric_precision_radix", self.radix.into()),
            ("numeric_scale", self.scale.into()),
            ("datetime_precision", self.datetime.into()),
        ]
    }
}

fn generation(identity: Identity) -> &'static str {
    match identity {
        Identity::Always => "ALWAYS",
        Identity::ByDefault => "BY DEFAULT",
    }
}

fn schemata(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for (_, name) in context.catalog.all_schemas() {
        let owner = if name == "public" { "pg_database_owner" } else { &context.facts.user };
        out.row(&[
            ("catalog_name", context.facts.database.as_str().into()),
            ("schema_name", name.into()),
            ("schema_owner", owner.into()),
        ]);
    }
}

fn table_constraints(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    for table in &context.catalog.tables {
        let keys = table.constraints().map(|index| {
            let kind = if table.is_primary(index) { "PRIMARY KEY" } else { "UNIQUE" };
            let nulls = if index.nulls_not_distinct { "NO" } else { "YES" };
            let nulls = (kind == "UNIQUE").then_some(nulls);
            (index.name.as_str(), kind, nulls, index.deferrable)
        });
        let checks = table.checks.iter().map(|it| (it.name.as_str(), "CHECK", None, None));
        let foreign = table.foreign.iter().map(|it| {
            let deferrable = it.is_deferrable.then_some(it.is_deferred);
            (it.name.as_str(), "FOREIGN KEY", None, deferrable)
        });
        for (name, kind, nulls, deferrable) in keys.chain(checks).chain(foreign) {
            out.row(&[
                ("constraint_catalog", database.into()),
                ("constraint_schema", context.catalog.schema_name(table.schema).into()),
                ("constraint_name", name.into()),
                ("table_catalog", database.into()),
                ("table_schema", context.catalog.schema_name(table.schema).into()),
                ("table_name", table.name.as_str().into()),
                ("constraint_type", kind.into()),
                ("is_deferrable", deferrable.is_some().into()),
                ("initially_deferred", (deferrable == Some(true)).into()),
                ("enforced", true.into()),
                ("nulls_distinct", nulls.into()),
            ]);
        }
    }
}

fn character_sets(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    out.row(&[
        ("character_set_name", "UTF8".into()),
        ("character_repertoire", "UCS".into()),
        ("form_of_use", "UTF8".into()),
        ("default_collate_catalog", database.into()),
        ("default_collate_schema", "pg_catalog".into()),
        ("default_collate_name", "C".into()),
    ]);
}

fn catalog_name(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    out.row(&[("catalog_name", context.facts.database.as_str().into())]);
}

/// The tables that keys belong to, and those that foreign keys refer to.
fn constraint_table_usage(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    let mut one = |table: &Table, (of, name): (&Table, &str)| {
        out.row(&[
            ("table_catalog", database.into()),
            ("table_schema", context.catalog.schema_name(table.schema).into()),
            ("table_name", table.name.as_str().into()),
            ("constraint_catalog", database.into()),
            ("constraint_schema", context.catalog.schema_name(of.schema).into()),
            ("constraint_name", name.into()),
        ]);
    };
    for table in &context.catalog.tables {
        table.constraints().for_each(|key| one(table, (table, &key.name)));
        for foreign in &table.foreign {
            if let Some(parent) = context.catalog.table(foreign.parent.into()) {
                one(parent, (table, &foreign.name));
            }
        }
    }
}

/// The fields of composite types.
fn attributes(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    for ty in &context.catalog.types {
        let UserType::Composite(of) = ty else { continue };
        let attributes = of.descriptor().attributes.iter().enumerate();
        for (at, attribute) in attributes.filter(|(_, attribute)| !attribute.dropped) {
            let data_type = match attribute.ty {
                Type::Array(_) => "ARRAY",
                Type::Enum(_) | Type::Composite(_) | Type::Base(_) => "USER-DEFINED",
                ty => ty.name(),
            };
            let udt_schema = attribute.ty.user_type().map_or(PG_CATALOG, |ty| ty.schema());
            let length = match attribute.ty {
                Type::Varchar(length) => length,
                Type::Char(length) => Some(length),
                _ => None,
            };
            out.row(&[
                ("udt_catalog", database.into()),
                ("udt_schema", context.catalog.schema_name(ty.schema()).into()),
                ("udt_name", ty.name().into()),
                ("attribute_name", attribute.name.as_str().into()),
                ("ordinal_position", (at as i32 + 1).into()),
                ("is_nullable", "YES".into()),
                ("data_type", data_type.into()),
                ("character_maximum_length", length.into()),
                ("attribute_udt_catalog", database.into()),
                ("attribute_udt_schema", context.catalog.schema_name(udt_schema).into()),
                ("attribute_udt_name", type_name(attribute.ty).into()),
                ("dtd_identifier", (at + 1).to_string().into()),
                ("is_derived_reference_attribute", false.into()),
            ]);
        }
    }
}

/// The composite types.
fn user_defined_types(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    for ty in &context.catalog.types {
        let UserType::Composite(of) = ty else { continue };
        out.row(&[
            ("user_defined_type_catalog", database.into()),
            ("user_defined_type_schema", context.catalog.schema_name(ty.schema()).into()),
            ("user_defined_type_name", of.name().into()),
            ("user_defined_type_category", "STRUCTURED".into()),
            ("is_instantiable", true.into()),
        ]);
    }
}

/// The types of the elements of arrays.
fn element_types(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    for table in &context.catalog.tables {
        for (at, column) in table.present() {
            let Some(element) = column.ty.element() else { continue };
            let own = element.user_type();
            let data_type = if own.is_some() { "USER-DEFINED" } else { element.name() };
            let udt_schema = own.map_or(PG_CATALOG, |ty| ty.schema());
            let number = (at + 1).to_string();
            out.row(&[
                ("object_catalog", database.into()),
                ("object_schema", context.catalog.schema_name(table.schema).into()),
                ("object_name", table.name.as_str().into()),
                ("object_type", "TABLE".into()),
                ("collection_type_identifier", number.as_str().into()),
                ("data_type", data_type.into()),
                ("udt_catalog", database.into()),
                ("udt_schema", context.catalog.schema_name(udt_schema).into()),
                ("udt_name", type_name(element).into()),
                ("dtd_identifier", format!("a{number}").into()),
            ]);
        }
    }
}

/// The tables and views that views read.
fn view_table_usage(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    for view in &context.catalog.views {
        for id in &view.reads {
            let table = context.catalog.table((*id).into()).map(|it| (it.schema, &it.name));
            let view_of = || context.catalog.view((*id).into()).map(|it| (it.schema, &it.name));
            let Some((schema, name)) = table.or_else(view_of) else { continue };
            out.row(&[
                ("view_catalog", database.into()),
                ("view_schema", context.catalog.schema_name(view.schema).into()),
                ("view_name", view.name.as_str().into()),
                ("table_catalog", database.into()),
                ("table_schema", context.catalog.schema_name(schema).into()),
                ("table_name", name.as_str().into()),
            ]);
        }
    }
}

fn check_constraints(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let (catalog, zone) = (context.catalog, context.facts.zone());
    let mut one = |schema: u32, check: &Check, condition: String| {
        out.row(&[
            ("constraint_catalog", context.facts.database.as_str().into()),
            ("constraint_schema", context.catalog.schema_name(schema).into()),
            ("constraint_name", check.name.as_str().into()),
            ("check_clause", check.definition(&condition).split_off("CHECK ".len()).into()),
        ]);
    };
    for table in &context.catalog.tables {
        for check in &table.checks {
            one(table.schema, check, catalog.shown_check(check, table, zone));
        }
    }
    for domain in context.catalog.domains() {
        let of = domain.descriptor();
        for check in &of.checks {
            one(of.schema, check, catalog.shown_domain_check(check, domain, zone));
        }
    }
}

fn referential_constraints(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    let tables = context.catalog.tables.iter();
    for (table, foreign) in tables.flat_map(|table| table.foreign.iter().map(move |it| (table, it)))
    {
        let key = context.catalog.index(context.catalog.key_of(foreign).into());
        let key_schema = key.map(|(parent, _)| context.catalog.schema_name(parent.schema));
        out.row(&[
            ("constraint_catalog", database.into()),
            ("constraint_schema", context.catalog.schema_name(table.schema).into()),
            ("constraint_name", foreign.name.as_str().into()),
            ("unique_constraint_catalog", database.into()),
            ("unique_constraint_schema", key_schema.into()),
            ("unique_constraint_name", key.map(|(_, index)| index.name.as_str()).into()),
            ("match_option", if foreign.is_full { "FULL" } else { "NONE" }.into()),
            ("update_rule", foreign.on_update.name().into()),
            ("delete_rule", foreign.on_delete.name().into()),
        ]);
    }
}

/// The columns that constraints use: of a foreign key, those that it refers to.
fn constraint_column_usage(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    let mut one = |table: &Table, column: usize, (of, name): (&Table, &str)| {
        out.row(&[
            ("table_catalog", database.into()),
            ("table_schema", context.catalog.schema_name(table.schema).into()),
            ("table_name", table.name.as_str().into()),
            ("column_name", table.columns[column].name.as_str().into()),
            ("constraint_catalog", database.into()),
            ("constraint_schema", context.catalog.schema_name(of.schema).into()),
            ("constraint_name", name.into()),
        ]);
    };
    for table in &context.catalog.tables {
        for index in table.constraints() {
            let columns = index.columns.iter().filter_map(|part| part.column());
            columns.for_each(|column| one(table, column, (table, &index.name)));
        }
        for check in &table.checks {
            check.columns().into_iter().for_each(|column| one(table, column, (table, &check.name)));
        }
        for foreign in &table.foreign {
            let Some(parent) = context.catalog.table(foreign.parent.into()) else { continue };
            for column in &foreign.key {
                one(parent, *column as usize, (table, &foreign.name));
            }
        }
    }
}

fn key_column_usage(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    for table in &context.catalog.tables {
        for index in table.constraints() {
            for (at, part) in index.columns.iter().enumerate() {
                out.row(&[
                    ("constraint_catalog", database.into()),
                    ("constraint_schema", context.catalog.schema_name(table.schema).into()),
                    ("constraint_name", index.name.as_str().into()),
                    ("table_catalog", database.into()),
                    ("table_schema", context.catalog.schema_name(table.schema).into()),
                    ("table_name", table.name.as_str().into()),
                    ("column_name", table.columns[part.column as usize].name.as_str().into()),
                    ("ordinal_position", (at as i32 + 1).into()),
                ]);
            }
        }
        for foreign in &table.foreign {
            let key = context.catalog.index(context.catalog.key_of(foreign).into());
            for (at, column) in foreign.columns.iter().enumerate() {
                let place = key.and_then(|(_, index)| {
                    index.columns.iter().position(|part| part.column == foreign.key[at])
                });
                out.row(&[
                    ("constraint_catalog", database.into()),
                    ("constraint_schema", context.catalog.schema_name(table.schema).into()),
                    ("constraint_name", foreign.name.as_str().into()),
                    ("table_catalog", database.into()),
                    ("table_schema", context.catalog.schema_name(table.schema).into()),
                    ("table_name", table.name.as_str().into()),
                    ("column_name", table.columns[*column as usize].name.as_str().into()),
                    ("ordinal_position", (at as i32 + 1).into()),
                    ("position_in_unique_constraint", place.map(|at| at as i32 + 1).into()),
                ]);
            }
        }
    }
}
