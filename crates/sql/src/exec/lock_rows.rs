//! SKIP LOCKED: rows are found without locks, then locked one by one, in order, until there are
//! enough. So only returned rows are locked, with their values under the lock. Rows that are
//! inserted meanwhile are not seen.

use super::{Context, Operator, Row, evaluate};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::kv;
use crate::physical::{Node, Op};
use crate::row;
use meridian_txn::{Failure, Future, Locking};
use std::sync::Arc;

/// The rows that could be locked.
pub(super) struct LockRows {
    input: Box<dyn Operator>,
    plan: Arc<Node>,
}

impl LockRows {
    pub(super) fn new(input: Box<dyn Operator>, plan: Arc<Node>) -> Self {
        LockRows { input, plan }
    }
}

impl Operator for LockRows {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let Op::LockRows(locked) = &self.plan.op else { return Ok(Vec::new()) };
            let Op::Scan(scan) = &locked.scan.op else { return Ok(Vec::new()) };
            let all = vec![true; scan.table.columns.len()];
            let mut rows = Vec::new();
            while rows.is_empty() {
                if !cx.txn.set_locking(Locking::None) {
                    return Err(SqlError::unsupported(
                        "SKIP LOCKED in a database whose protocol takes no locks",
                    ));
                }
                let found = self.input.next(cx, want).await;
                cx.txn.set_locking(Locking::NoWait);
                let found = found?;
                if found.is_empty() {
                    break;
                }
                for row in found {
                    let Datum::Bytes(key) = &row[locked.key] else { continue };
                    let key = kv::to_key(key.to_vec());
                    let value = match cx.txn.get(&key, locked.lock).await {
                        Err(Failure::Locked) => continue,
                        Err(error) => return Err(error.into()),
                        // It has been deleted since.
                        Ok(None) => continue,
                        Ok(Some(value)) => value,
                    };
                    let stored = row::decode(&scan.table, &key[kv::PREFIX..], &value, &all)?;
                    let mut taken = Vec::new();
                    scan.take(&scan.with_key(stored, &key), cx, &mut taken)?;
                    for row in taken {
                        rows.push(match &locked.outputs {
                            Some(outputs) => evaluate(outputs, &row, &cx.scope())?,
                            None => row,
                        });
                    }
                }
            }
            cx.txn.set_locking(Locking::Wait);
            Ok(rows)
        })
    }
}
