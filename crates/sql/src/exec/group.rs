//! Groups of rows: aggregates and DISTINCT.

use super::{CHUNK_ROWS, Context, Operator, Row};
use crate::aggregate::Groups;
use crate::error::SqlError;
use crate::expr::Scope;
use crate::key;
use crate::physical::{Node, Op};
use crate::record::similar::Similar;
use meridian_txn::Future;
use std::collections::HashSet;
use std::sync::Arc;

/// Groups, once the input has ended.
pub(super) struct Aggregate {
    input: Box<dyn Operator>,
    plan: Arc<Node>,
    groups: Option<std::vec::IntoIter<Row>>,
}

impl Aggregate {
    pub(super) fn new(input: Box<dyn Operator>, plan: Arc<Node>) -> Self {
        Aggregate { input, plan, groups: None }
    }
}

impl Operator for Aggregate {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let Op::Aggregate { keys, sets, aggregates, .. } = &self.plan.op else {
                return Ok(Vec::new());
            };
            if self.groups.is_none() {
                let mut groups = Groups::new(keys, aggregates, sets.as_deref(), cx.facts.zone());
                let steps = sets.as_ref().map_or(1, |sets| sets.sets.len());
                // Many sets make a chunk long.
                let chunk = (CHUNK_ROWS / steps).max(1);
                loop {
                    let found = self.input.next(cx, chunk).await?;
                    if found.is_empty() {
                        break;
                    }
                    cx.pause(found.len() * steps).await;
                    let state = &mut *cx.state;
                    let scope = Scope {
                        params: &state.params,
                        now_us: cx.now_us,
                        session: cx.facts,
                        catalog: state.catalog.as_ref(),
                        effects: None,
                    };
                    for row in &found {
                        groups.add(row, &scope, &mut state.held)?;
                        state.turn.pause(1).await;
                    }
                }
                self.groups = Some(groups.finish(&mut cx.state.held)?.into_iter());
            }
            Ok(self.groups.iter_mut().flatten().take(want).collect())
        })
    }
}

/// The first row of each group that is equal in some columns.
pub(super) struct Distinct {
    input: Box<dyn Operator>,
    plan: Arc<Node>,
    seen: HashSet<Vec<u8>>,
    similar: Similar,
}

impl Distinct {
    pub(super) fn new(input: Box<dyn Operator>, plan: Arc<Node>) -> Self {
        Distinct { input, plan, seen: HashSet::new(), similar: Similar::default() }
    }
}

impl Operator for Distinct {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let Op::Distinct { on, .. } = &self.plan.op else { return Ok(Vec::new()) };
            loop {
                let found = self.input.next(cx, want).await?;
                if found.is_empty() {
                    return Ok(found);
                }
                cx.pause(found.len()).await;
                let mut fresh = Vec::with_capacity(found.len());
                for row in found {
                    self.similar.check(on.iter().map(|at| &row[*at]))?;
                    let mut bytes = Vec::new();
                    on.iter().for_each(|at| key::write(&row[*at], false, &mut bytes));
                    let length = bytes.len();
                    if self.seen.insert(bytes) {
                        cx.state.held.add(length + 48)?;
                        fresh.push(row);
                    }
                }
                if !fresh.is_empty() {
                    return Ok(fresh);
                }
            }
        })
    }
}
