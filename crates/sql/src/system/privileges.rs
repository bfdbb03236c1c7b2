//! The tables of `information_schema` about roles and what these may do: the one user may do
//! everything, and may let others do it.

use super::{Rows, SystemContext, Value, Writer};

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        "table_privileges" | "role_table_grants" => table_privileges,
        "column_privileges" | "role_column_grants" => column_privileges,
        "enabled_roles" => enabled_roles,
        "pg_group" => group,
        "pg_shadow" => shadow,
        _ => return None,
    })
}

const ON_TABLE: [&str; 7] =
    ["DELETE", "INSERT", "REFERENCES", "SELECT", "TRIGGER", "TRUNCATE", "UPDATE"];
const ON_COLUMN: [&str; 4] = ["INSERT", "REFERENCES", "SELECT", "UPDATE"];

/// A table or a view.
struct Relation {
    schema: u32,
    name: String,
    columns: Vec<String>,
}

fn relations(context: &SystemContext<'_>) -> Vec<Relation> {
    let tables = context.catalog.tables.iter().map(|table| Relation {
        schema: table.schema,
        name: table.name.clone(),
        columns: table.present().map(|(_, column)| column.name.clone()).collect(),
    });
    let views = context.catalog.views.iter().map(|view| Relation {
        schema: view.schema,
        name: view.name.clone(),
        columns: view.columns.iter().map(|column| column.name.clone()).collect(),
    });
    tables.chain(views).collect()
}

/// Returns what is the same in every row about a relation.
fn on<'a>(
    context: &'a SystemContext<'_>,
    relation: &'a Relation,
) -> Vec<(&'static str, Value<'a>)> {
    let user = context.facts.user.as_str();
    vec![
        ("grantor", user.into()),
        ("grantee", user.into()),
        ("table_catalog", context.facts.database.as_str().into()),
        ("table_schema", context.catalog.schema_name(relation.schema).into()),
        ("table_name", relation.name.as_str().into()),
        ("is_grantable", true.into()),
    ]
}

fn table_privileges(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for relation in relations(context) {
        for privilege in ON_TABLE {
            let mut row = on(context, &relation);
            row.push(("privilege_type", privilege.into()));
            row.push(("with_hierarchy", (privilege == "SELECT").into()));
            out.row(&row);
        }
    }
}

fn column_privileges(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for relation in relations(context) {
        for column in &relation.columns {
            for privilege in ON_COLUMN {
                let mut row = on(context, &relation);
                row.push(("column_name", column.as_str().into()));
                row.push(("privilege_type", privilege.into()));
                out.row(&row);
            }
        }
    }
}

fn enabled_roles(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    out.row(&[("role_name", context.facts.user.as_str().into())]);
    for (_, role) in super::ROLES {
        out.row(&[("role_name", role.into())]);
    }
}

fn group(_: &SystemContext<'_>, out: &mut Writer<'_>) {
    for (id, role) in super::ROLES {
        out.row(&[("groname", role.into()), ("grosysid", id.into()), ("grolist", "{}".into())]);
    }
}

fn shadow(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    out.row(&[
        ("usename", context.facts.user.as_str().into()),
        ("usesysid", super::OWNER.into()),
        ("usecreatedb", true.into()),
        ("usesuper", true.into()),
        ("userepl", true.into()),
        ("usebypassrls", true.into()),
    ]);
}
