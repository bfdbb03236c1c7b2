//! ON COMMIT: what the end of a transaction does with temporary tables.

use super::{SCHEMA, is_temporary};
use crate::catalog::{self, Table};
use crate::ddl;
use crate::engine::Engine;
use crate::error::{SqlError, state};
use crate::expr::Facts;
use crate::kv;
use crate::work::Work;
use meridian_mvcc::{Key, KeyRange};
use meridian_txn::Transaction;
use sqlparser::ast;
use std::sync::Arc;

/// The effect of a commit on a temporary table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnCommit {
    DeleteRows,
    Drop,
}

/// Reads ON COMMIT of CREATE TABLE; `None` if the rows stay.
pub(crate) fn on_commit(clause: Option<&ast::OnCommit>) -> Option<OnCommit> {
    match clause? {
        ast::OnCommit::DeleteRows => Some(OnCommit::DeleteRows),
        ast::OnCommit::Drop => Some(OnCommit::Drop),
        ast::OnCommit::PreserveRows => None,
    }
}

/// Notes the effect of commits on a new table.
pub(crate) fn set_on_commit(
    txn: &mut dyn Transaction,
    table: u32,
    action: OnCommit,
) -> Result<(), SqlError> {
    let code = match action {
        OnCommit::DeleteRows => 1,
        OnCommit::Drop => 2,
    };
    Ok(txn.put(kv::on_commit_key(table), Some(kv::to_value(vec![code])))?)
}

/// Before a commit, deletes the rows of temporary tables, and drops tables, as their ON COMMIT
/// says. Fails with 0A000 if a table refers to one whose rows are deleted, and keeps its own.
pub(crate) async fn end_of_transaction(
    engine: &Engine,
    work: &mut Work,
    facts: &Facts,
) -> Result<(), SqlError> {
    let range = kv::prefix_range(&kv::ON_COMMIT);
    match facts.temporary.is_empty_in(&range) {
        true => Ok(()),
        // In a box, so that the state of each commit stays small.
        false => Box::pin(act(engine, work, facts, &range)).await,
    }
}

async fn act(
    engine: &Engine,
    work: &mut Work,
    facts: &Facts,
    range: &KeyRange,
) -> Result<(), SqlError> {
    let (mut emptied, mut dropped) = (Vec::new(), Vec::new());
    for (key, value) in facts.temporary.scan(range, false, usize::MAX).rows {
        let Some(id) = id_of(&key) else { continue };
        let found = catalog::temporary_table(work.txn.as_mut(), id).await?;
        match (found, value.first()) {
            (Some(table), Some(1)) => emptied.push(table),
            (Some(_), _) => dropped.push(id),
            // It was dropped before.
            (None, _) => work.txn.put(key, None)?,
        }
    }
    check_references(work, &emptied).await?;
    for table in &emptied {
        for range in table.ranges(&[]) {
            facts.temporary.erase(&range)?;
        }
    }
    if dropped.is_empty() {
        Ok(())
    } else {
        ddl::drop_at_commit(engine, work, facts, &dropped).await
    }
}

fn id_of(key: &Key) -> Option<u32> {
    key.last_chunk().map(|id| u32::from_be_bytes(*id)).filter(|id| is_temporary(*id))
}

/// Fails with 0A000 if a table that keeps its rows refers to one that loses them.
async fn check_references(work: &mut Work, emptied: &[Arc<Table>]) -> Result<(), SqlError> {
    for parent in emptied {
        for id in &parent.referenced_by {
            if emptied.iter().any(|other| other.id == *id) {
                continue;
            }
            let child = catalog::temporary_table(work.txn.as_mut(), *id).await?;
            let Some(child) = child else { continue };
            let message = "unsupported ON COMMIT and foreign key combination";
            let (child, parent) = (&child.name, &parent.name);
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message).detail(format!(
                "Table \"{child}\" references \"{parent}\", but they do not have the same ON COMMIT setting."
            )));
        }
    }
    Ok(())
}

/// Creates the schema of temporary objects, unless the session has it.
pub(crate) fn ensure_schema(txn: &mut dyn Transaction, facts: &Facts) -> Result<(), SqlError> {
    if facts.temporary.get(&kv::version_key(SCHEMA)).is_some() {
        return Ok(());
    }
    let name = facts.temporary.schema();
    for name in [super::ALIAS, name] {
        catalog::put_schema_name(txn, name, Some(SCHEMA))?;
    }
    let schema = catalog::Schema { id: SCHEMA, name: name.to_owned(), version: 1, is_gone: false };
    catalog::put(txn, &catalog::Object::Schema(Arc::new(schema)))
}
