//! Runs a statement whose WITH changes data.
//!
//! Each change, and each query of WITH that several parts read, is a step of its own, as the
//! statement behind WITH is. A step that others read runs before them, and hands its rows over. All
//! run once, and completely, in PostgreSQL's order: the statement behind WITH with the steps that
//! it reads, and then the others, the last first.
//!
//! Invariant: no query of the statement reads what it has written, since the writes wait
//! ([`Target`]). A row that one step has changed stays as that step has written it: the others pass
//! it over, as in PostgreSQL.

use super::target::Target;
use super::{Given, Running, Write, all_rows};
use crate::catalog::Table;
use crate::constraint::{Deferral, Obligations, Owed, Related};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::explain::Actuals;
use crate::expr::Scope;
use crate::memory::{Held, weight};
use crate::response::Column;
use crate::{explain, physical};
use meridian_txn::Transaction;
use std::sync::Arc;
use std::time::Duration;

/// The work of a step.
pub(crate) enum Part {
    Query(Arc<physical::Query>),
    Write(Write),
}

/// A step of a statement.
pub(crate) struct Step {
    /// Its number among the queries of WITH; `None` for the statement behind WITH.
    pub(crate) number: Option<usize>,
    /// Its name in WITH.
    pub(crate) name: String,
    pub(crate) part: Part,
    /// The numbers of the steps whose rows it reads.
    pub(crate) reads: Vec<usize>,
}

/// A planned statement whose WITH changes data.
pub(crate) struct With {
    /// The steps in the order of the text; the statement behind WITH is the last.
    pub(crate) steps: Vec<Step>,
    /// The order in which they run.
    order: Vec<usize>,
    /// The tables that foreign keys concern.
    related: Option<Arc<Related>>,
}

impl With {
    /// Returns the tables whose rows it changes.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Table> {
        self.steps.iter().filter_map(|step| match &step.part {
            Part::Write(write) => Some(&**write.table()),
            Part::Query(_) => None,
        })
    }
}

/// The effects of a statement.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The number of rows that the statement behind WITH returns or changes, and the rows.
    pub(crate) count: u64,
    pub(crate) rows: Vec<Vec<Datum>>,
    /// The numbers of rows that were changed, by table.
    pub(crate) changed: Vec<(u32, u64)>,
    /// The checks that wait for the end of the transaction.
    pub(crate) later: Obligations,
}

/// Returns the order in which steps run.
fn order_of(steps: &[Step]) -> Vec<usize> {
    fn visit(at: usize, steps: &[Step], order: &mut Vec<usize>) {
        if order.contains(&at) {
            return;
        }
        // A step reads only steps before it.
        for (before, step) in steps.iter().enumerate().take(at) {
            if step.number.is_some_and(|number| steps[at].reads.contains(&number)) {
                visit(before, steps, order);
            }
        }
        order.push(at);
    }
    let mut order = Vec::with_capacity(steps.len());
    (0..steps.len()).rev().for_each(|at| visit(at, steps, &mut order));
    order
}

impl With {
    pub(crate) fn new(steps: Vec<Step>, related: Option<Arc<Related>>) -> With {
        let order = order_of(&steps);
        With { steps, order, related }
    }

    /// The statement behind WITH.
    fn main(&self) -> &Step {
        self.steps.last().expect("invariant: there is a statement behind WITH")
    }

    /// Returns the word of its tag.
    pub(crate) fn verb(&self) -> &'static str {
        match &self.main().part {
            Part::Query(_) => "SELECT",
            Part::Write(write) => write.verb(),
        }
    }

    /// Returns the columns of its result.
    pub(crate) fn columns(&self) -> Option<Arc<[Column]>> {
        match &self.main().part {
            Part::Query(query) => Some(query.columns.clone()),
            Part::Write(write) => write.columns(),
        }
    }

    /// Runs all steps. Counts what their nodes do, if that is wanted.
    pub(crate) async fn run(
        &self,
        txn: &mut dyn Transaction,
        scope: &Scope<'_>,
        row_number: &mut u64,
        deferral: &Deferral,
        mut actuals: Option<&mut Actuals>,
    ) -> Result<Outcome, SqlError> {
        let memory = &scope.session.memory;
        let mut running = Running {
            target: Target::at_the_end(txn, memory),
            scope,
            row_number,
            owed: self.related.as_deref().map(Owed::new),
            given: Given::new(),
        };
        let mut outcome = Outcome::default();
        let mut held = Vec::with_capacity(self.steps.len());
        let clock = || scope.session.clock.map_or(Duration::ZERO, |clock| clock());
        for at in &self.order {
            let step = &self.steps[*at];
            let began = clock();
            let (count, rows) = match &step.part {
                Part::Query(query) => {
                    let (rows, of_query) =
                        all_rows(query, &mut running, actuals.as_deref_mut()).await?;
                    held.push(of_query);
                    (rows.len() as u64, rows)
                }
                Part::Write(write) => {
                    let changed = write.run_in(&mut running, actuals.as_deref_mut()).await?;
                    outcome.changed.push((write.table().id, changed.count));
                    let mut of_rows = Held::none(memory);
                    of_rows.add(changed.rows.iter().map(|row| weight(row)).sum())?;
                    held.push(of_rows);
                    (changed.count, changed.rows)
                }
            };
            if let Some(number) = step.number {
                running.given.insert(number, Arc::new(rows));
                if let (Some(actuals), Part::Write(_)) = (&mut actuals, &step.part) {
                    let took = clock().saturating_sub(began);
                    actuals.extend(explain::counted_step(*at, count, took));
                }
            } else {
                (outcome.count, outcome.rows) = (count, rows);
            }
        }
        outcome.later = running.finish(deferral).await?;
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Table;

    /// A step of WITH that changes no table; only its reads matter.
    fn step(number: Option<usize>, reads: &[usize]) -> Step {
        let table = Arc::new(Table::new(1, "t", Vec::new()));
        let part = Part::Write(Write::Insert(super::super::Insert::of_nothing(table)));
        Step { number, name: String::new(), part, reads: reads.to_vec() }
    }

    #[test]
    fn steps_run_in_the_order_of_postgresql() {
        for (reads, expected) in [
            (vec![vec![], vec![], vec![]], vec![2, 1, 0]),
            (vec![vec![], vec![], vec![0]], vec![0, 2, 1]),
            (vec![vec![], vec![0], vec![1]], vec![0, 1, 2]),
            (vec![vec![], vec![0], vec![], vec![]], vec![3, 2, 0, 1]),
            (vec![vec![], vec![], vec![0, 1]], vec![0, 1, 2]),
        ] {
            let main = reads.len() - 1;
            let steps: Vec<Step> = reads
                .iter()
                .enumerate()
                .map(|(at, reads)| step((at < main).then_some(at), reads))
                .collect();
            assert_eq!(order_of(&steps), expected, "{reads:?}");
        }
    }
}
