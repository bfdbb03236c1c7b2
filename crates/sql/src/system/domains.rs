//! The rows about domains.

use super::collations::DEFAULT_COLLATION;
use super::describe::Description;
use super::information_schema::Measures;
use super::types::storage;
use super::{OWNER, PG_CATALOG, Rows, SystemContext, Writer, input_functions, type_name};
use crate::catalog::{ColumnDef, Comments, Part, UserType};
use crate::domain::Domain;
use crate::types::Type;

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        "domains" => domains,
        "domain_constraints" => domain_constraints,
        "domain_udt_usage" => udt_usage,
        "column_domain_usage" => column_usage,
        _ => return None,
    })
}

/// Iterates over the comments on the constraints of a domain.
pub(super) fn descriptions(
    domain: Domain,
    comments: &Comments,
) -> impl Iterator<Item = Description<'_>> {
    domain.descriptor().checks.iter().filter_map(|check| {
        let text = comments.get_part(Part::Constraint, &check.name)?;
        Some(Description { id: check.id, column: 0, class: (2606, "pg_constraint"), text })
    })
}

/// Returns a column as a domain makes it.
fn column_of(domain: Domain) -> ColumnDef {
    let mut column = ColumnDef::new("value", domain.base());
    column.default.clone_from(&domain.descriptor().default);
    column
}

/// Returns the letter of a type's category.
fn category(ty: Type) -> &'static str {
    match ty.plain() {
        Type::Array(_) => "A",
        Type::Bool => "B",
        Type::Date | Type::Time | Type::Timestamp => "D",
        Type::TimeTz | Type::TimestampTz => "D",
        Type::Bit(_) | Type::Varbit(_) => "V",
        Type::Interval => "T",
        Type::Inet | Type::Cidr => "I",
        ty if ty.is_number() || ty.is_oid() => "N",
        ty if ty.is_text() => "S",
        _ => "U",
    }
}

/// The rows of `pg_type`.
pub(super) fn types(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for domain in context.catalog.domains() {
        let (of, base) = (domain.descriptor(), domain.base());
        let (oid, length) = (base.oid(), i32::from(base.length()));
        let is_array = base.element().is_some();
        let alignment = input_functions::alignment(oid, base.element().map(Type::oid));
        let functions = match is_array {
            true => Some(input_functions::ARRAY),
            false => input_functions::of_type(oid),
        };
        let default =
            context.catalog.shown_column_default(&column_of(domain), context.facts.zone());
        let collation = if base.is_text() { DEFAULT_COLLATION } else { 0 };
        let mut row = vec![
            ("oid", of.id.into()),
            ("typname", of.name.as_str().into()),
            ("typnamespace", of.schema.into()),
            ("typowner", OWNER.into()),
            ("typlen", length.into()),
            ("typbyval", (1..=8).contains(&length).into()),
            ("typtype", "d".into()),
            ("typcategory", category(base).into()),
            ("typisdefined", true.into()),
            ("typdelim", ",".into()),
            ("typarray", of.array.into()),
            ("typalign", alignment.into()),
            ("typstorage", storage(oid, length).into()),
            ("typnotnull", of.not_null.into()),
            ("typbasetype", of.over.map_or(oid, Domain::id).into()),
            ("typtypmod", of.over.map_or(base.modifier(), |_| -1).into()),
            ("typndims", i32::from(is_array).into()),
            ("typcollation", collation.into()),
            ("typdefault", default.clone().into()),
            ("typdefaultbin", default.into()),
            ("typsubscript", input_functions::subscript(0, false)),
        ];
        row.extend(functions.into_iter().flat_map(input_functions::of_domain));
        out.row(&row);
        let mut row = vec![
            ("oid", of.array.into()),
            ("typname", format!("_{}", of.name).into()),
            ("typnamespace", of.schema.into()),
            ("typowner", OWNER.into()),
            ("typlen", (-1).into()),
            ("typtype", "b".into()),
            ("typcategory", "A".into()),
            ("typisdefined", true.into()),
            ("typdelim", ",".into()),
            ("typelem", of.id.into()),
            ("typalign", if alignment == "d" { "d" } else { "i" }.into()),
            ("typstorage", "x".into()),
            ("typtypmod", (-1).into()),
            ("typcollation", collation.into()),
            ("typsubscript", input_functions::subscript(0, true)),
        ];
        row.extend(input_functions::columns(input_functions::ARRAY));
        out.row(&row);
    }
}

/// The rows of `pg_constraint`.
pub(super) fn constraints(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let zone = context.facts.zone();
    for domain in context.catalog.domains() {
        for check in &domain.descriptor().checks {
            out.row(&[
                ("oid", check.id.into()),
                ("conname", check.name.as_str().into()),
                ("connamespace", domain.descriptor().schema.into()),
                ("contype", "c".into()),
                ("convalidated", check.is_validated.into()),
                ("contypid", domain.id().into()),
                ("confupdtype", " ".into()),
                ("confdeltype", " ".into()),
                ("confmatchtype", " ".into()),
                ("conislocal", true.into()),
                ("conbin", context.catalog.shown_domain_check(check, domain, zone).into()),
            ]);
        }
    }
}

fn domains(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    for domain in context.catalog.domains() {
        let (of, base) = (domain.descriptor(), domain.base());
        let over = of.over.map(Domain::descriptor);
        let data_type = match base.element() {
            _ if over.is_some() => "USER-DEFINED".to_owned(),
            Some(_) => base.to_string(),
            None => base.name().to_owned(),
        };
        let udt_schema = over.map_or(PG_CATALOG, |over| over.schema);
        let udt_name = over.map_or_else(|| type_name(base), |over| over.name.clone());
        let mut row = vec![
            ("domain_catalog", database.into()),
            ("domain_schema", context.catalog.schema_name(of.schema).into()),
            ("domain_name", of.name.as_str().into()),
            ("data_type", data_type.into()),
            (
                "domain_default",
                context
                    .catalog
                    .shown_column_default(&column_of(domain), context.facts.zone())
                    .into(),
            ),
            ("udt_catalog", database.into()),
            ("udt_schema", context.catalog.schema_name(udt_schema).into()),
            ("udt_name", udt_name.into()),
            ("dtd_identifier", "1".into()),
        ];
        if of.over.is_none() {
            row.extend(Measures::of(base).columns());
        }
        out.row(&row);
    }
}

fn domain_constraints(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    for domain in context.catalog.domains() {
        let schema = context.catalog.schema_name(domain.descriptor().schema);
        for check in &domain.descriptor().checks {
            out.row(&[
                ("constraint_catalog", database.into()),
                ("constraint_schema", schema.into()),
                ("constraint_name", check.name.as_str().into()),
                ("domain_catalog", database.into()),
                ("domain_schema", schema.into()),
                ("domain_name", domain.descriptor().name.as_str().into()),
                ("is_deferrable", false.into()),
                ("initially_deferred", false.into()),
            ]);
        }
    }
}

/// The base types of domains.
fn udt_usage(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    for domain in context.catalog.domains() {
        out.row(&[
            ("udt_catalog", database.into()),
            ("udt_schema", context.catalog.schema_name(PG_CATALOG).into()),
            ("udt_name", type_name(domain.base()).into()),
            ("domain_catalog", database.into()),
            ("domain_schema", context.catalog.schema_name(domain.descriptor().schema).into()),
            ("domain_name", domain.descriptor().name.as_str().into()),
        ]);
    }
}

/// The columns of domains.
fn column_usage(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = context.facts.database.as_str();
    for table in &context.catalog.tables {
        for (_, column) in table.present() {
            let Some(UserType::Domain(domain)) = column.user_type() else { continue };
            out.row(&[
                ("domain_catalog", database.into()),
                ("domain_schema", context.catalog.schema_name(domain.descriptor().schema).into()),
                ("domain_name", domain.descriptor().name.as_str().into()),
                ("table_catalog", database.into()),
                ("table_schema", context.catalog.schema_name(table.schema).into()),
                ("table_name", table.name.as_str().into()),
                ("column_name", column.name.as_str().into()),
            ]);
        }
    }
}
