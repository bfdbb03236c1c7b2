//! The rows of `pg_am`, `pg_opclass` and `pg_opfamily`: the ways in which indexes order values.

use super::{OWNER, PG_CATALOG, SystemContext, Writer};
use crate::types::Type;

pub(super) const BTREE: u32 = 403;
pub(super) const HEAP: u32 = 2;

pub(super) fn am(_: &SystemContext<'_>, out: &mut Writer<'_>) {
    out.row(&[("oid", HEAP.into()), ("amname", "heap".into()), ("amtype", "t".into())]);
    out.row(&[("oid", BTREE.into()), ("amname", "btree".into()), ("amtype", "i".into())]);
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
pub(super) fn class_of(ty: Type) -> i32 {
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

pub(super) fn opclass(_: &SystemContext<'_>, out: &mut Writer<'_>) {
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

pub(super) fn opfamily(_: &SystemContext<'_>, out: &mut Writer<'_>) {
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
