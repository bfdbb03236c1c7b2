//! The rows of `pg_collation`, and the collations of types.

use super::{OWNER, PG_CATALOG, SystemContext, Writer};
use crate::types::{Internal, Type};

pub(super) const DEFAULT_COLLATION: u32 = 100;
/// The collation of names.
const C_COLLATION: u32 = 950;
/// The collations: object id and name.
pub(crate) const COLLATIONS: [(u32, &str); 2] =
    [(DEFAULT_COLLATION, "default"), (C_COLLATION, "C")];

/// Returns the collation of a type, 0 if its values have none.
pub(super) fn collation_of(ty: Type) -> u32 {
    match ty {
        Type::Name => C_COLLATION,
        Type::Internal(
            Internal::NodeTree | Internal::NDistinct | Internal::Dependencies | Internal::McvList,
        ) => DEFAULT_COLLATION,
        ty if ty.is_text() => DEFAULT_COLLATION,
        _ => 0,
    }
}

pub(super) fn collation(_: &SystemContext<'_>, out: &mut Writer<'_>) {
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
