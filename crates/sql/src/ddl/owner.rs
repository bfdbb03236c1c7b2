//! ALTER … OWNER TO: every object is the session's user's, the one role.

use super::{Ddl, comments, domains, schemas, types};
use crate::alter_any::{self, Kind};
use crate::catalog;
use crate::error::{SqlError, state};
use crate::names;
use crate::system;
use sqlparser::ast::{Ident, ObjectName};

/// Checks that the object exists, and that the owner is its own, which does not change.
pub(super) async fn run(
    cx: &mut Ddl<'_>,
    kind: Kind,
    if_exists: bool,
    object: &ObjectName,
    role: &Ident,
) -> Result<(), SqlError> {
    let name = names::relation(object)?;
    match kind {
        Kind::Table | Kind::View | Kind::MaterializedView | Kind::Sequence | Kind::Index => {
            let is_there = cx.relation(&name).await?.is_some();
            if if_exists && !is_there {
                cx.skip("relation", &name.name);
                return Ok(());
            }
            check_relation(cx, kind, object).await?;
        }
        Kind::Type => drop(types::open(cx, &name).await?),
        Kind::Domain => drop(domains::open(cx, &name).await?),
        Kind::Schema => check_schema(cx, &names::simple(object)?).await?,
        Kind::Database => check_database(cx, &names::simple(object)?)?,
    }
    check(cx, role)
}

/// Fails unless a role is the user of the session.
pub(super) fn check(cx: &Ddl<'_>, role: &Ident) -> Result<(), SqlError> {
    let Some(role) = alter_any::role(role).filter(|role| *role != cx.facts.user) else {
        return Ok(());
    };
    Err(match system::is_role(&role) {
        true => SqlError::unsupported("an owner other than the user of the session"),
        false => {
            let message = format!("role \"{role}\" does not exist");
            SqlError::new(state::UNDEFINED_OBJECT, message)
        }
    })
}

async fn check_relation(cx: &mut Ddl<'_>, kind: Kind, name: &ObjectName) -> Result<(), SqlError> {
    if kind == Kind::Index {
        return comments::index(cx, name).await.map(|_| ());
    }
    let object = comments::relation(cx, name).await?;
    match kind.fits(&object) {
        true => Ok(()),
        false => Err(catalog::not_a(kind.word(), object.name())),
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
