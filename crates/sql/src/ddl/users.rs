//! The users of an object: a row for each view whose query names it, and, of a type, for each
//! relation with a column of it and each domain over it, leads back to these.

use super::Ddl;
use crate::catalog::{self, Object, UserType};
use crate::error::SqlError;
use crate::kv;
use meridian_mvcc::KeyRange;
use meridian_txn::Lock;

/// Notes that an object is used. It is there until the transaction has committed, under every
/// protocol.
pub(super) fn add(cx: &mut Ddl<'_>, object: u32, user: u32) -> Result<(), SqlError> {
    cx.txn.put(kv::user_key(object, user), Some(kv::to_value(Vec::new())))?;
    keep(cx, object);
    Ok(())
}

/// Keeps an object as it was read until the transaction has committed, under every protocol.
pub(super) fn keep(cx: &mut Ddl<'_>, object: u32) {
    cx.txn.keep_range(KeyRange::point(kv::version_key(object)));
}

/// Notes that an object is not used any more.
pub(super) fn remove(cx: &mut Ddl<'_>, object: u32, user: u32) -> Result<(), SqlError> {
    Ok(cx.txn.put(kv::user_key(object, user), None)?)
}

/// Returns the users of an object. No other appears until the transaction has ended.
pub(super) async fn of(cx: &mut Ddl<'_>, object: u32) -> Result<Vec<Object>, SqlError> {
    let prefix = kv::users_prefix(object);
    let range = kv::prefix_range(&prefix);
    let (mut ids, mut rest) = (Vec::new(), Some(range.clone()));
    while let Some(range) = rest {
        let chunk = cx.txn.scan(&range, Lock::Shared, false, 1000).await?;
        for (key, _) in &chunk.rows {
            let id = key.0.get(prefix.len()..).and_then(|bytes| bytes.try_into().ok());
            let id = id.ok_or_else(|| SqlError::corrupted("a user of an object"))?;
            ids.push(u32::from_be_bytes(id));
        }
        rest = chunk.rest;
    }
    cx.txn.keep_range(range);
    let mut users = Vec::with_capacity(ids.len());
    for id in ids {
        let cache = &cx.engine.cache;
        let found = catalog::object_by_id(cx.txn, cache, id, false, Lock::Exclusive).await?;
        let missing = || SqlError::corrupted(format!("the object {id} is not there"));
        users.push(found.ok_or_else(missing)?);
    }
    Ok(users)
}

/// Returns an object as it is in the middle of a change, which may have been one of it.
pub(super) async fn now(cx: &mut Ddl<'_>, id: u32) -> Result<Option<Object>, SqlError> {
    catalog::object_by_id(cx.txn, &cx.engine.cache, id, false, Lock::Exclusive).await
}

/// Notes the types that a table has after a change, and no longer those that it had before.
pub(super) fn settle_types(
    cx: &mut Ddl<'_>,
    table: u32,
    before: &[UserType],
    after: &[UserType],
) -> Result<(), SqlError> {
    for gone in before.iter().filter(|ty| !after.contains(ty)) {
        remove(cx, gone.id(), table)?;
    }
    for new in after.iter().filter(|ty| !before.contains(ty)) {
        add(cx, new.id(), table)?;
    }
    Ok(())
}
