//! Operator classes: the orders that PostgreSQL's B-trees have for a type.
//!
//! All of them are the order of Meridian's keys: an index keeps the name of its class, and has its
//! entries in the same order whatever the name.

use crate::error::{SqlError, state};
use crate::names;
use crate::types::Type;
use sqlparser::ast;

/// The type `anyarray`.
const ANY_ARRAY: u32 = 2277;
/// The type `anyenum`.
const ANY_ENUM: u32 = 3500;

/// An operator class.
#[derive(Debug)]
pub(crate) struct OperatorClass {
    pub(crate) oid: u32,
    pub(crate) name: &'static str,
    /// The type whose values it orders.
    pub(crate) of: u32,
    pub(crate) family: u32,
    /// True if the type has it unless another is named.
    pub(crate) is_default: bool,
}

const fn usual(oid: u32, name: &'static str, of: u32, family: u32) -> OperatorClass {
    OperatorClass { oid, name, of, family, is_default: true }
}

const fn other(oid: u32, name: &'static str, of: u32, family: u32) -> OperatorClass {
    OperatorClass { oid, name, of, family, is_default: false }
}

/// The operator classes, by their ids.
pub(crate) static OPERATOR_CLASSES: [OperatorClass; 32] = [
    usual(1978, "int4_ops", 23, 1976),
    usual(1979, "int2_ops", 21, 1976),
    usual(1981, "oid_ops", 26, 1989),
    usual(3122, "date_ops", 1082, 434),
    usual(3123, "float8_ops", 701, 1970),
    usual(3124, "int8_ops", 20, 1976),
    usual(3125, "numeric_ops", 1700, 1988),
    usual(3126, "text_ops", 25, 1994),
    usual(3127, "timestamptz_ops", 1184, 434),
    usual(3128, "timestamp_ops", 1114, 434),
    other(4217, "text_pattern_ops", 25, 2095),
    other(4218, "varchar_pattern_ops", 25, 2095),
    other(4219, "bpchar_pattern_ops", 1042, 2097),
    usual(10000, "array_ops", ANY_ARRAY, 397),
    usual(10002, "bit_ops", 1560, 423),
    usual(10003, "bool_ops", 16, 424),
    usual(10004, "bpchar_ops", 1042, 426),
    usual(10006, "bytea_ops", 17, 428),
    usual(10007, "char_ops", 18, 429),
    other(10009, "cidr_ops", 869, 1974),
    usual(10012, "float4_ops", 700, 1970),
    usual(10015, "inet_ops", 869, 1974),
    usual(10022, "interval_ops", 1186, 1982),
    usual(10028, "name_ops", 19, 1994),
    usual(10034, "record_ops", Type::Record.oid(), 2994),
    usual(10038, "time_ops", 1083, 1996),
    usual(10041, "timetz_ops", 1266, 2000),
    usual(10043, "varbit_ops", 1562, 2002),
    other(10044, "varchar_ops", 25, 1994),
    usual(10065, "uuid_ops", 2950, 2968),
    usual(10069, "enum_ops", ANY_ENUM, 3522),
    usual(10088, "jsonb_ops", 3802, 4033),
];

/// Returns the type by which the classes of a type are found.
fn ordered_as(ty: Type) -> u32 {
    match ty {
        Type::Array(_) => ANY_ARRAY,
        Type::Enum(_) => ANY_ENUM,
        Type::Cidr => Type::Inet.oid(),
        ty if ty.is_row() => Type::Record.oid(),
        ty => ty.base().oid(),
    }
}

/// Returns the operator class that a type has unless another is named.
pub(crate) fn of_type(ty: Type) -> Option<&'static OperatorClass> {
    let of = ordered_as(ty);
    OPERATOR_CLASSES.iter().find(|class| class.is_default && class.of == of)
}

/// Returns the operator class of an id.
pub(crate) fn of_id(oid: u32) -> Option<&'static OperatorClass> {
    OPERATOR_CLASSES.iter().find(|class| class.oid == oid)
}

/// Returns the operator class of a name. Fails with 42704 if there is none, with 3F000 for a schema
/// that does not exist.
pub(crate) fn named(name: &ast::ObjectName) -> Result<&'static OperatorClass, SqlError> {
    let parts: Vec<String> =
        name.0.iter().filter_map(|part| part.as_ident().map(names::fold)).collect();
    let (schema, name) = match parts.as_slice() {
        [name] => (None, name),
        [schema, name] => (Some(schema), name),
        _ => return Err(SqlError::unsupported(format!("the operator class {name}"))),
    };
    if let Some(schema) = schema.filter(|schema| !matches!(&***schema, "pg_catalog" | "public")) {
        let message = format!("schema \"{schema}\" does not exist");
        return Err(SqlError::new(state::NO_SCHEMA, message));
    }
    OPERATOR_CLASSES.iter().find(|class| class.name == name).ok_or_else(|| {
        let message =
            format!("operator class \"{name}\" does not exist for access method \"btree\"");
        SqlError::new(state::UNDEFINED_OBJECT, message)
    })
}

impl OperatorClass {
    /// Fails with 42804 unless it orders the values of a type.
    pub(crate) fn check(&self, ty: Type) -> Result<(), SqlError> {
        if self.of == ordered_as(ty) {
            return Ok(());
        }
        let (class, name) = (self.name, ty.name());
        // PostgreSQL takes texts for those that are padded with blanks.
        if self.of == Type::Char(0).oid() && ty.is_text() && ty != Type::Name {
            let what = format!("the operator class {class} of a column of type {name}");
            return Err(SqlError::unsupported(what));
        }
        let message = format!("operator class \"{class}\" does not accept data type {name}");
        Err(SqlError::new(state::TYPE_MISMATCH, message))
    }
}
