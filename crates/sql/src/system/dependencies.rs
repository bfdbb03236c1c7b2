//! The rows about what needs which object: tools that write out a database go by their order.

use super::{Rows, SystemContext, Writer};
use crate::catalog::UserType;
use crate::composite::ROW_TYPE;
use std::collections::BTreeSet;

/// The ids of the catalogs by which `pg_depend` names objects.
const CLASS: u32 = 1259;
const ATTRDEF: u32 = 2604;
const REWRITE: u32 = 2618;
const TYPE: u32 = 1247;
const PROCEDURE: u32 = 1255;
const EXTENSION: u32 = 3079;

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        "pg_depend" => depend,
        "pg_rewrite" => rewrite,
        _ => return None,
    })
}

/// Returns the id of a column's default in `pg_attrdef`.
pub(super) fn default_id(table: u32, column: usize) -> i32 {
    table as i32 ^ (column as i32 + 1) << 20
}

/// Returns the id of the rule of a view's query: that of no default, as views have none.
fn rule_id(view: u32) -> i32 {
    default_id(view, 0)
}

/// Returns the id of the type of a relation's rows.
pub(super) fn row_type_id(relation: u32) -> i32 {
    (relation ^ ROW_TYPE) as i32
}

fn depend(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    of_types(context, out);
    of_sequences(context, out);
    of_views(context, out);
    of_functions(context, out);
    of_extensions(context, out);
}

/// The types that belong to extensions.
fn of_extensions(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for ty in &context.catalog.types {
        let UserType::Base(of) = ty else { continue };
        out.row(&[
            ("classid", TYPE.into()),
            ("objid", of.id().into()),
            ("refclassid", EXTENSION.into()),
            ("refobjid", of.descriptor().extension.into()),
            ("deptype", "e".into()),
        ]);
    }
}

/// The dependencies of columns and fields on types of the database, and of domains on these.
fn of_types(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let composites = context.catalog.types.iter().filter_map(|ty| match ty {
        UserType::Composite(of) => Some(of),
        UserType::Enum(_) | UserType::Domain(_) | UserType::Base(_) => None,
    });
    for of in composites {
        out.row(&[
            ("classid", CLASS.into()),
            ("objid", of.relation_id().into()),
            ("refclassid", TYPE.into()),
            ("refobjid", of.id().into()),
            ("deptype", "i".into()),
        ]);
        for (at, attribute) in of.descriptor().attributes.iter().enumerate() {
            let Some(ty) = attribute.ty.user_type().filter(|_| !attribute.dropped) else {
                continue;
            };
            let is_array = attribute.ty.element().is_some();
            let id = if is_array { ty.array_id() } else { ty.id() };
            out.row(&[
                ("classid", CLASS.into()),
                ("objid", of.relation_id().into()),
                ("objsubid", (at as i32 + 1).into()),
                ("refclassid", TYPE.into()),
                ("refobjid", id.into()),
                ("deptype", "n".into()),
            ]);
        }
    }
    for table in &context.catalog.tables {
        for (at, column) in table.present() {
            let Some(ty) = column.user_type() else { continue };
            let is_array = column.domain.is_none() && column.ty.element().is_some();
            let id = if is_array { ty.array_id() } else { ty.id() };
            out.row(&[
                ("classid", CLASS.into()),
                ("objid", table.id.into()),
                ("objsubid", (at as i32 + 1).into()),
                ("refclassid", TYPE.into()),
                ("refobjid", id.into()),
                ("deptype", "n".into()),
            ]);
        }
    }
    for domain in context.catalog.domains() {
        let Some(over) = domain.descriptor().over else { continue };
        out.row(&[
            ("classid", TYPE.into()),
            ("objid", domain.id().into()),
            ("refclassid", TYPE.into()),
            ("refobjid", over.id().into()),
            ("deptype", "n".into()),
        ]);
    }
}

/// The dependencies of columns' sequences, and of the defaults that take their values.
fn of_sequences(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for sequence in &context.catalog.sequences {
        if let Some(owner) = sequence.owner {
            out.row(&[
                ("classid", CLASS.into()),
                ("objid", sequence.id.into()),
                ("refclassid", CLASS.into()),
                ("refobjid", owner.table.into()),
                ("refobjsubid", (owner.column as i32 + 1).into()),
                ("deptype", if owner.is_identity { "i" } else { "a" }.into()),
            ]);
        }
        for table in &context.catalog.tables {
            let defaults = table.defaults_with(sequence.id);
            for column in defaults.filter(|column| table.columns[*column].identity.is_none()) {
                out.row(&[
                    ("classid", ATTRDEF.into()),
                    ("objid", default_id(table.id, column).into()),
                    ("refclassid", CLASS.into()),
                    ("refobjid", sequence.id.into()),
                    ("deptype", "n".into()),
                ]);
            }
        }
    }
}

/// The dependencies of views: PostgreSQL's are those of a rule that belongs to the view.
fn of_views(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for (id, _, reads) in context.catalog.queries() {
        let rule = rule_id(id);
        let mut needs = |class: u32, id: u32, kind: &str| {
            out.row(&[
                ("classid", REWRITE.into()),
                ("objid", rule.into()),
                ("refclassid", class.into()),
                ("refobjid", id.into()),
                ("deptype", kind.into()),
            ]);
        };
        needs(CLASS, id, "i");
        for read in reads {
            let is_type = context.catalog.types.iter().any(|ty| ty.id() == *read);
            let is_function = context.catalog.functions.iter().any(|it| it.id == *read);
            let is_extension = context.catalog.extensions.iter().any(|it| it.id == *read);
            let class = match () {
                () if is_type => TYPE,
                () if is_function => PROCEDURE,
                () if is_extension => EXTENSION,
                () => CLASS,
            };
            needs(class, *read, "n");
        }
    }
}

/// The dependencies of functions on types of the database, and of row types among these on their
/// tables.
fn of_functions(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let mut rows = BTreeSet::new();
    for function in &context.catalog.functions {
        for ty in context.catalog.types_of_function(function) {
            out.row(&[
                ("classid", PROCEDURE.into()),
                ("objid", function.id.into()),
                ("refclassid", TYPE.into()),
                ("refobjid", ty.into()),
                ("deptype", "n".into()),
            ]);
            if ty & ROW_TYPE != 0 && rows.insert(ty) {
                out.row(&[
                    ("classid", TYPE.into()),
                    ("objid", ty.into()),
                    ("refclassid", CLASS.into()),
                    ("refobjid", (ty ^ ROW_TYPE).into()),
                    ("deptype", "i".into()),
                ]);
            }
        }
    }
}

/// The rules of views.
fn rewrite(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for (id, ..) in context.catalog.queries() {
        out.row(&[
            ("oid", rule_id(id).into()),
            ("rulename", "_RETURN".into()),
            ("ev_class", id.into()),
            ("ev_type", "1".into()),
            ("ev_enabled", "O".into()),
            ("is_instead", true.into()),
        ]);
    }
}
