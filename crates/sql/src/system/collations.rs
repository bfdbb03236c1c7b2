//! The rows of `pg_collation`, and the collations of types.

use super::{OWNER, PG_CATALOG, SystemContext, Writer};
use crate::catalog::ColumnDef;
use crate::collation;
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

/// Returns the collation of a column, 0 if its values have none.
pub(super) fn collation_of_column(column: &ColumnDef) -> u32 {
    let of_language = column.collation.as_deref().and_then(collation::id);
    of_language.unwrap_or_else(|| collation_of(column.ty))
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
    for (oid, name, locale) in collation::of_languages() {
        out.row(&[
            ("oid", oid.into()),
            ("collname", name.as_str().into()),
            ("collnamespace", PG_CATALOG.into()),
            ("collowner", OWNER.into()),
            ("collprovider", "i".into()),
            ("collisdeterministic", true.into()),
            ("collencoding", (-1).into()),
            ("colliculocale", locale.into()),
        ]);
    }
}
