//! ALTER … OWNER TO: every object is the session's user's, the one role.

use super::{Ddl, comments, schemas, types};
use crate::catalog::{self, Object};
use crate::error::{SqlError, state};
use crate::names;
use crate::owner::{Kind, SetOwner};
use crate::system;

/// Checks that the object exists, and that it may have the owner: the one that it has.
pub(super) async fn run(cx: &mut Ddl<'_>, change: &SetOwner) -> Result<String, SqlError> {
    let tag = format!("ALTER {}", change.kind.word().to_uppercase());
    let name = names::relation(&change.name)?;
    match change.kind {
        Kind::Table | Kind::View | Kind::Sequence | Kind::Index => {
            let is_there = cx.relation(&name).await?.is_some();
            if change.if_exists && !is_there {
                cx.skip("relation", &name.name);
                return Ok(tag);
            }
            check_relation(cx, change, &name.name).await?;
        }
        Kind::Type => drop(types::open(cx, &name).await?),
        Kind::Schema => check_schema(cx, &names::simple(&change.name)?).await?,
        Kind::Database => check_database(cx, &names::simple(&change.name)?)?,
    }
    let Some(role) = change.role() else { return Ok(tag) };
    if role == cx.facts.user {
        return Ok(tag);
    }
    Err(match system::is_role(&role) {
        true => SqlError::unsupported("an owner other than the user of the session"),
        false => {
            let message = format!("role \"{role}\" does not exist");
            SqlError::new(state::UNDEFINED_OBJECT, message)
        }
    })
}

async fn check_relation(cx: &mut Ddl<'_>, change: &SetOwner, name: &str) -> Result<(), SqlError> {
    if change.kind == Kind::Index {
        return comments::index(cx, &change.name).await.map(|_| ());
    }
    let object = comments::relation(cx, &change.name).await?;
    let fits = match (change.kind, &object) {
        // ALTER TABLE changes any relation.
        (Kind::Table, _) => true,
        (Kind::View, object) => matches!(object, Object::View(_)),
        (_, object) => matches!(object, Object::Sequence(_)),
    };
    match fits {
        true => Ok(()),
        false => Err(catalog::not_a(change.kind.word(), name)),
    }
}

async fn check_schema(cx: &mut Ddl<'_>, name: &str) -> Result<(), SqlError> {
    if catalog::is_system_schema(name) {
        return Err(SqlError::unsupported(format!("another owner of the schema {name}")));
    }
    schemas::open(cx, name).await.map(|_| ())
}

fn check_database(cx: &Ddl<'_>, name: &str) -> Result<(), SqlError> {
    let known = cx.facts.server_info().map_or_else(Vec::new, |info| info.databases());
    if name == cx.facts.database || known.iter().any(|known| known == name) {
        return Ok(());
    }
    let message = format!("database \"{name}\" does not exist");
    Err(SqlError::new(state::NO_DATABASE, message))
}
