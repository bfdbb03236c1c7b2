//! The rows of `pg_am`, `pg_opclass` and `pg_opfamily`: the ways in which indexes order values.

use super::{OWNER, PG_CATALOG, SystemContext, Writer};
use crate::operator_class::OPERATOR_CLASSES;

pub(super) const BTREE: u32 = 403;
pub(super) const HEAP: u32 = 2;

pub(super) fn am(_: &SystemContext<'_>, out: &mut Writer<'_>) {
    out.row(&[("oid", HEAP.into()), ("amname", "heap".into()), ("amtype", "t".into())]);
    out.row(&[("oid", BTREE.into()), ("amname", "btree".into()), ("amtype", "i".into())]);
}

pub(super) fn opclass(_: &SystemContext<'_>, out: &mut Writer<'_>) {
    for class in &OPERATOR_CLASSES {
        out.row(&[
            ("oid", class.oid.into()),
            ("opcmethod", BTREE.into()),
            ("opcname", class.name.into()),
            ("opcnamespace", PG_CATALOG.into()),
            ("opcowner", OWNER.into()),
            ("opcfamily", class.family.into()),
            ("opcintype", class.of.into()),
            ("opcdefault", class.is_default.into()),
        ]);
    }
}

/// The families of the operator classes.
const OPFAMILIES: [(u32, &str); 23] = [
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
    (2095, "text_pattern_ops"),
    (2097, "bpchar_pattern_ops"),
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
