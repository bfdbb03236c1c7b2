//! COMMENT ON: texts about objects, which are read with their descriptors. They change no plan.

use super::{Ddl, constraints, domains, extensions, schemas, types};
use crate::bind;
use crate::catalog::{self, Comments, Object, Part};
use crate::constraint::missing;
use crate::error::{SqlError, state};
use crate::names;
use crate::system;
use sqlparser::ast::{CommentObject, Ident, ObjectName, ObjectNamePart};

/// Runs COMMENT ON.
pub(super) async fn comment(
    cx: &mut Ddl<'_>,
    kind: CommentObject,
    name: &ObjectName,
    constraint: Option<&Ident>,
    text: Option<&str>,
) -> Result<(), SqlError> {
    let text = text.filter(|text| !text.is_empty());
    if let Some(constraint) = constraint {
        if kind == CommentObject::Domain {
            let constraint = names::fold(constraint);
            return domains::comment_on_constraint(cx, &constraint, name, text).await;
        }
        return on_constraint(cx, &names::fold(constraint), name, text).await;
    }
    let (id, column) = match kind {
        CommentObject::Table
        | CommentObject::View
        | CommentObject::MaterializedView
        | CommentObject::Sequence => {
            let (object, wanted) = (relation(cx, name).await?, kind.to_string().to_lowercase());
            if object.kind() != wanted {
                return Err(catalog::not_a(&wanted, object.name()));
            }
            (object.id(), 0)
        }
        CommentObject::Column => column_of(cx, name).await?,
        CommentObject::Type => (types::open(cx, &names::relation(name)?).await?.id(), 0),
        CommentObject::Domain => (domains::open(cx, &names::relation(name)?).await?.id(), 0),
        CommentObject::Extension => (extensions::open(cx, &names::simple(name)?).await?.id, 0),
        CommentObject::Index => {
            let (table, name) = index(cx, name).await?;
            return set_part(cx, table, Part::Index, &name, text).await;
        }
        CommentObject::Database => {
            let name = names::simple(name)?;
            if name != cx.facts.database {
                return other_database(cx, &name);
            }
            (system::DATABASES, 0)
        }
        CommentObject::Schema => {
            let id = schemas::open(cx, &names::simple(name)?).await?;
            if id == system::PUBLIC {
                // Without a text of its own it has PostgreSQL's, so that none is one, too.
                let mut comments = catalog::comments(cx.txn, id).await?;
                comments.set(0, Some(text.unwrap_or_default()));
                return catalog::put_comments(cx.txn, id, &comments);
            }
            (id, 0)
        }
        other => return Err(SqlError::unsupported(format!("COMMENT ON {other}"))),
    };
    let mut comments = catalog::comments(cx.txn, id).await?;
    comments.set(column, text);
    catalog::put_comments(cx.txn, id, &comments)
}

/// Forgets the comment on `public`, which is dropped: PostgreSQL's, too.
pub(super) fn forget_public(cx: &mut Ddl<'_>) -> Result<(), SqlError> {
    let mut none = Comments::default();
    none.set(0, Some(""));
    catalog::put_comments(cx.txn, system::PUBLIC, &none)
}

/// Warns of a database that does not exist, as PostgreSQL does; fails with 0A000 for another one.
fn other_database(cx: &mut Ddl<'_>, name: &str) -> Result<(), SqlError> {
    let known = cx.facts.server_info().map_or_else(Vec::new, |info| info.databases());
    if known.iter().any(|known| known == name) {
        return Err(SqlError::unsupported("COMMENT ON another DATABASE than the session's"));
    }
    let message = format!("database \"{name}\" does not exist");
    cx.notices.push(SqlError::new(state::NO_DATABASE, message));
    Ok(())
}

async fn on_constraint(
    cx: &mut Ddl<'_>,
    constraint: &str,
    table: &ObjectName,
    text: Option<&str>,
) -> Result<(), SqlError> {
    let table = match relation(cx, table).await? {
        Object::Table(table) => table,
        other => return Err(catalog::not_a("table", other.name())),
    };
    if !constraints::names_of(&table).any(|name| name == constraint) {
        return Err(missing(&table.name, constraint));
    }
    set_part(cx, table.id, Part::Constraint, constraint, text).await
}

pub(super) async fn set_part(
    cx: &mut Ddl<'_>,
    table: u32,
    part: Part,
    name: &str,
    text: Option<&str>,
) -> Result<(), SqlError> {
    let mut comments = catalog::comments(cx.txn, table).await?;
    match comments.set_part(part, name, text) || text.is_some() {
        true => catalog::put_comments(cx.txn, table, &comments),
        false => Ok(()),
    }
}

/// Finds an index, which is there until the transaction has committed. Returns its
/// table's id and its name.
pub(super) async fn index(cx: &mut Ddl<'_>, name: &ObjectName) -> Result<(u32, String), SqlError> {
    let folded = names::relation(name)?;
    match cx.relation(&folded).await? {
        Some(found) if found.id != found.table => Ok((found.table, folded.name)),
        _ => {
            let other = relation(cx, name).await?;
            Err(catalog::not_a("index", other.name()))
        }
    }
}

/// Forgets the comments on an index and a constraint of a name, which are to be made: those of one
/// that was dropped are left until then.
pub(super) async fn forget_parts(cx: &mut Ddl<'_>, table: u32, name: &str) -> Result<(), SqlError> {
    set_part(cx, table, Part::Index, name, None).await?;
    set_part(cx, table, Part::Constraint, name, None).await
}

/// Gives the comments on an index and a constraint their new name.
pub(super) async fn rename_parts(
    cx: &mut Ddl<'_>,
    table: u32,
    old: &str,
    new: &str,
) -> Result<(), SqlError> {
    forget_parts(cx, table, new).await?;
    let mut comments = catalog::comments(cx.txn, table).await?;
    match comments.rename_parts(old, new) {
        true => catalog::put_comments(cx.txn, table, &comments),
        false => Ok(()),
    }
}

/// Finds a relation, which is there until the transaction has committed.
pub(super) async fn relation(cx: &mut Ddl<'_>, name: &ObjectName) -> Result<Object, SqlError> {
    let name = names::relation(name)?;
    cx.object(&name).await?.ok_or_else(|| {
        let message = format!("relation \"{name}\" does not exist");
        SqlError::new(state::UNDEFINED_TABLE, message)
    })
}

/// Finds a column by the name of its relation and its own. Returns the relation's id, and the
/// column's number from 1.
async fn column_of(cx: &mut Ddl<'_>, name: &ObjectName) -> Result<(u32, u32), SqlError> {
    let parts: Vec<&Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
    let qualified = parts.split_last().filter(|(_, qualifier)| !qualifier.is_empty());
    let Some((column, qualifier)) = qualified else {
        return Err(SqlError::new(state::SYNTAX, "column name must be qualified"));
    };
    let qualifier: Vec<Ident> = qualifier.iter().copied().cloned().collect();
    let object = relation(cx, &ObjectName::from(qualifier)).await?;
    let table = match &object {
        Object::Table(table) => (**table).clone(),
        Object::View(view) => view.as_table(),
        other => {
            let message = format!("cannot set comment on relation \"{}\"", other.name());
            return Err(SqlError::new(state::WRONG_OBJECT, message));
        }
    };
    let number = bind::target_columns(&table, &[Ident::clone(column)])?[0];
    Ok((object.id(), number as u32 + 1))
}

/// Forgets the comment on a column that is dropped, counted from 0.
pub(super) async fn forget_column(
    cx: &mut Ddl<'_>,
    table: u32,
    column: usize,
) -> Result<(), SqlError> {
    let mut comments = catalog::comments(cx.txn, table).await?;
    if comments.set(column as u32 + 1, None) {
        catalog::put_comments(cx.txn, table, &comments)?;
    }
    Ok(())
}
