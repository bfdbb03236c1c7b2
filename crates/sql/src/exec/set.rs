//! UNION, INTERSECT and EXCEPT.

use super::{CHUNK_ROWS, Context, Operator, Row};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::key;
use crate::logical::SetOp;
use crate::memory::weight;
use crate::physical::{Node, Op};
use crate::record::similar::Similar;
use meridian_txn::Future;
use std::collections::HashMap;
use std::sync::Arc;

/// A running set operation.
pub(super) struct Set {
    sides: Vec<Box<dyn Operator>>,
    plan: Arc<Node>,
    /// The side that is read.
    at: usize,
    /// The rows of the last side, or those that were returned, with their numbers.
    counts: HashMap<Vec<u8>, u64>,
    similar: Similar,
}

impl Set {
    pub(super) fn new(sides: Vec<Box<dyn Operator>>, plan: Arc<Node>) -> Self {
        Set { sides, plan, at: 0, counts: HashMap::new(), similar: Similar::default() }
    }

    /// Counts the rows of the last side.
    async fn count_last(&mut self, cx: &mut Context<'_>) -> Result<(), SqlError> {
        let Some(last) = self.sides.last_mut() else { return Ok(()) };
        loop {
            let found = last.next(cx, CHUNK_ROWS).await?;
            if found.is_empty() {
                return Ok(());
            }
            cx.pause(found.len()).await;
            for row in found {
                self.similar.check(&row)?;
                let bytes = bytes(&row);
                cx.state.held.add(bytes.len() + 56)?;
                *self.counts.entry(bytes).or_default() += 1;
            }
        }
    }

    /// True if a row of the first side is in the result. The counts decrease as rows meet those of
    /// the other side.
    fn keeps(&mut self, op: SetOp, all: bool, row: &[Datum]) -> bool {
        let bytes = bytes(row);
        match (op, all) {
            (SetOp::Union, true) => true,
            (SetOp::Union, false) => self.counts.insert(bytes, 1).is_none(),
            (SetOp::Intersect, true) => match self.counts.get_mut(&bytes) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    true
                }
                _ => false,
            },
            (SetOp::Intersect, false) => self.counts.remove(&bytes).is_some(),
            (SetOp::Except, true) => match self.counts.get_mut(&bytes) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    false
                }
                _ => true,
            },
            (SetOp::Except, false) => self.counts.insert(bytes, 1).is_none(),
        }
    }
}

fn bytes(row: &[Datum]) -> Vec<u8> {
    let mut bytes = Vec::new();
    row.iter().for_each(|datum| key::write(datum, false, &mut bytes));
    bytes
}

impl Operator for Set {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let plan = self.plan.clone();
            let Op::Set { op, all, .. } = &plan.op else { return Ok(Vec::new()) };
            if *op != SetOp::Union && self.at == 0 && self.sides.len() > 1 {
                self.count_last(cx).await?;
                self.sides.truncate(1);
            }
            while let Some(side) = self.sides.get_mut(self.at) {
                let found = side.next(cx, want).await?;
                if found.is_empty() {
                    self.at += 1;
                    continue;
                }
                cx.pause(found.len()).await;
                let mut kept = Vec::with_capacity(found.len());
                for row in found {
                    if !(*op == SetOp::Union && *all) {
                        self.similar.check(&row)?;
                    }
                    let known = self.counts.len();
                    if self.keeps(*op, *all, &row) {
                        if self.counts.len() > known {
                            cx.state.held.add(weight(&row) + 56)?;
                        }
                        kept.push(row);
                    }
                }
                if !kept.is_empty() {
                    return Ok(kept);
                }
            }
            Ok(Vec::new())
        })
    }
}
