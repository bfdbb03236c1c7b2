//! COMMENT ON: texts about objects, which are read with their descriptors. They change no plan.

use super::{Ddl, schemas, types};
use crate::bind;
use crate::catalog::{self, Object};
use crate::error::{SqlError, state};
use crate::names;
use sqlparser::ast::{CommentObject, Ident, ObjectName, ObjectNamePart};

/// Runs COMMENT ON.
pub(super) async fn comment(
    cx: &mut Ddl<'_>,
    kind: CommentObject,
    name: &ObjectName,
    text: Option<&str>,
) -> Result<(), SqlError> {
    let (id, column) = match kind {
        CommentObject::Table | CommentObject::View | CommentObject::Sequence => {
            let (object, wanted) = (relation(cx, name).await?, kind.to_string().to_lowercase());
            if object.kind() != wanted {
                return Err(catalog::not_a(&wanted, object.name()));
            }
            (object.id(), 0)
        }
        CommentObject::Column => column_of(cx, name).await?,
        CommentObject::Type => (types::open(cx, &names::relation(name)?).await?.id(), 0),
        CommentObject::Schema => (schemas::open(cx, &names::simple(name)?).await?, 0),
        other => return Err(SqlError::unsupported(format!("COMMENT ON {other}"))),
    };
    let mut comments = catalog::comments(cx.txn, id).await?;
    comments.set(column, text.filter(|text| !text.is_empty()));
    catalog::put_comments(cx.txn, id, &comments)
}

/// Finds a relation, which is there until the transaction has committed.
async fn relation(cx: &mut Ddl<'_>, name: &ObjectName) -> Result<Object, SqlError> {
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
