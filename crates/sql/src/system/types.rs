//! The rows of `pg_type` and `pg_enum`, and the names of types.

use super::collations::collation_of;
use super::dependencies::{default_id, row_type_id};
use super::{OWNER, PG_CATALOG, SystemContext, Value, Writer};
use super::{domains, functions, input_functions};
use crate::catalog::UserType;
use crate::domain::Domain;
use crate::extension;
use crate::names::{self, Qualified};
use crate::parse;
use crate::types::{ARRAYS, Type};
use sqlparser::ast::{ArrayElemTypeDef, DataType};

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
    (4072, "jsonpath", -1, "b", "U"),
    (4089, "regnamespace", 4, "b", "N"),
    (4096, "regrole", 4, "b", "N"),
    (4191, "regcollation", 4, "b", "N"),
    (5017, "pg_mcv_list", -1, "b", "Z"),
    (8000, "hstore", -1, "b", "U"),
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
    // The array type of a type `x` is called `_x`, unless another type is.
    if let DataType::Custom(array, modifiers) = name
        && modifiers.is_empty()
        && names::user_type(name, types).is_none()
        && let Some(Qualified { schema, name: array }) = names::relation(array).ok()
        && let Some(element) = array.strip_prefix('_')
    {
        let element = Qualified { schema, name: element.to_owned() };
        let found = types.iter().find(|(other, _)| *other == element);
        return found.map(|(_, ty)| ty.array_id());
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
        Type::Enum(_) | Type::Composite(_) | Type::Base(_) => {
            ty.user_type().map(|of| of.name().to_owned()).unwrap_or_default()
        }
        Type::Array(element) if let Some(of) = element.ty().user_type() => {
            format!("_{}", of.name())
        }
        Type::Array(element) => format!("_{}", of(element.ty())),
        ty => of(ty).to_owned(),
    }
}

/// Returns the types of values, as SQL writes them and as `pg_type` names them.
#[cfg(test)]
pub(crate) fn shown_types() -> Vec<(String, &'static str)> {
    let of_values = TYPES.iter().filter(|(.., kind, category)| *kind == "b" && *category != "Z");
    of_values.map(|(oid, name, ..)| (super::format_type((*oid).into(), None), *name)).collect()
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

/// The labels of enum types.
pub(super) fn enumeration(context: &SystemContext<'_>, out: &mut Writer<'_>) {
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

pub(super) fn types(context: &SystemContext<'_>, out: &mut Writer<'_>) {
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
    let mut one = |oid: u32,
                   name: Value<'_>,
                   schema,
                   length: i32,
                   kind: &str,
                   category: &str,
                   element: u32| {
        let is_array = category == "A";
        let of = if is_array { element } else { oid };
        let collation = Type::from_oid(of).map_or(0, collation_of);
        let functions = input_functions::of_type(oid).unwrap_or(input_functions::ARRAY);
        let mut row = vec![
            ("oid", oid.into()),
            ("typname", name),
            ("typnamespace", u32::into(schema)),
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
    let schema_of = |oid: u32| match Type::from_oid(oid).and_then(extension::of_type) {
        Some(of) => {
            let installed = context.catalog.extensions.iter().find(|it| it.name == of.name);
            installed.map(|installed| installed.schema)
        }
        None => Some(PG_CATALOG),
    };
    for (oid, name, length, kind, category) in TYPES {
        if let Some(schema) = schema_of(*oid) {
            one(*oid, (*name).into(), schema, *length, kind, category, element_of(*oid));
        }
    }
    for (oid, name, length) in functions::PSEUDO_TYPES {
        one(oid, name.into(), PG_CATALOG, length, "p", "P", 0);
    }
    for (of, array, _) in ARRAYS {
        if let Some((_, name, ..)) = TYPES.iter().find(|(oid, ..)| *oid == of)
            && let Some(schema) = schema_of(of)
        {
            one(array, format!("_{name}").into(), schema, -1, "b", "A", of);
        }
    }
    domains::types(context, out);
    for ty in &context.catalog.types {
        let name = ty.name();
        let (length, kind, relation) = match ty {
            UserType::Enum(_) => (4, ("e", "E"), 0),
            UserType::Composite(of) => (-1, ("c", "C"), of.relation_id()),
            UserType::Base(_) => (-1, ("b", "S"), 0),
            UserType::Domain(_) => continue,
        };
        let mut one = |oid: u32, name: &str, length: i32, (kind, category): (&str, &str), ids| {
            let (element, array): (u32, u32) = ids;
            let is_array = element > 0;
            let functions = match kind {
                _ if is_array => input_functions::ARRAY,
                "c" => input_functions::ROW,
                "b" => input_functions::of_type(Type::Text.oid()).unwrap_or(input_functions::ROW),
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
