//! The row executor: runs a physical plan in a transaction, rows on request.
//!
//! Each operator returns its next rows, at most as many as are wanted, so that a LIMIT reads no
//! more than it needs. An operator holds its own state; the parameters, the rows of WITH queries
//! and the memory are the query's. A dependent join runs its right side again for each left row.
//!
//! Not done: operators spill nothing to disk; beyond `--query-memory` a query fails with 53200.

mod functions;
mod group;
mod join;
mod lock_rows;
mod measured;
mod pairs;
mod rows;
mod scan;
mod set;
mod sort;
#[cfg(test)]
mod tests;
mod window;
mod with;

use crate::datum::Datum;
use crate::effects;
use crate::error::SqlError;
use crate::explain::Actuals;
use crate::expr::{self, Expr, Facts, Scope};
use crate::memory::{Held, weight};
use crate::physical::{Node, Op, Query};
use crate::stack;
use crate::system::{self, Catalog};
use crate::turn::Turn;
use lock_rows::Pins;
use meridian_txn::{Future, Locking, Transaction};
use std::collections::HashMap;
use std::sync::Arc;

/// The values of a row.
pub(crate) type Row = Vec<Datum>;

/// The number of rows that an operator asks for when it needs all of them.
const CHUNK_ROWS: usize = 1000;
/// The size at which the rows that an operator makes are enough, in bytes.
const CHUNK_BYTES: usize = 1 << 20;

/// The state of a running query that its operators share.
struct State {
    /// The parameters, then the columns of enclosing relations.
    params: Vec<Datum>,
    /// The rows of WITH queries, once they are known.
    named: Vec<Option<Arc<Vec<Row>>>>,
    /// The rows of system tables, by table id.
    made: HashMap<u32, Arc<Vec<Row>>>,
    /// The tables, if a function reads them.
    catalog: Option<Catalog>,
    /// The counts of each node, for EXPLAIN ANALYZE.
    actuals: Option<Actuals>,
    /// The rows that scans of their tables read alone.
    pins: Pins,
    /// The locking of reads now.
    locking: Locking,
    held: Held,
    turn: Turn,
}

impl State {
    fn scope<'a>(&'a self, now_us: i64, facts: &'a Facts) -> Scope<'a> {
        let catalog = self.catalog.as_ref();
        Scope { params: &self.params, now_us, session: facts, catalog, effects: None }
    }
}

/// The transaction and the query of an operator.
struct Context<'a> {
    txn: &'a mut dyn Transaction,
    facts: &'a Facts,
    now_us: i64,
    state: &'a mut State,
}

impl Context<'_> {
    fn scope(&self) -> Scope<'_> {
        self.state.scope(self.now_us, self.facts)
    }

    /// Evaluates expressions over a row, whose functions may have effects.
    async fn evaluate(&mut self, exprs: &[Expr], row: &[Datum]) -> Result<Row, SqlError> {
        let scope = self.state.scope(self.now_us, self.facts);
        effects::evaluate(exprs, row, &scope, self.txn).await
    }

    /// True if a condition, whose functions may have effects, is true for a row.
    async fn holds(&mut self, condition: &Expr, row: &[Datum]) -> Result<bool, SqlError> {
        let scope = self.state.scope(self.now_us, self.facts);
        effects::holds(condition, row, &scope, self.txn).await
    }

    /// Sets how reads lock rows from now on; returns how they did before. Fails if the protocol
    /// cannot do it.
    fn lock_as(&mut self, how: Locking) -> Result<Locking, SqlError> {
        let before = std::mem::replace(&mut self.state.locking, how);
        if before != how && !self.txn.set_locking(how) {
            return Err(SqlError::unsupported(match how {
                Locking::None => "SKIP LOCKED in a database whose protocol takes no locks",
                _ => "NOWAIT in a database whose protocol takes no locks and has readers wait",
            }));
        }
        Ok(before)
    }

    /// Takes memory for a row until the query ends.
    fn hold(&mut self, row: &[Datum]) -> Result<(), SqlError> {
        self.state.held.add(weight(row))
    }

    /// Lets other tasks run once in a while.
    async fn pause(&mut self, rows: usize) {
        self.state.turn.pause(rows + 1).await;
    }
}

/// A running operator.
trait Operator: Send {
    /// Returns the next rows, at most `want` (at least one); none only at the end.
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>>;
}

/// Starts an operator, which counts what it does if it `measures`.
fn start(node: &Arc<Node>, measures: bool) -> Box<dyn Operator> {
    let plan = node.clone();
    let operator: Box<dyn Operator> = match &node.op {
        Op::Values(_) => Box::new(rows::Values::new(plan)),
        Op::Scan(_) => Box::new(scan::Scan::new(plan)),
        Op::LockRows { input, .. } => {
            Box::new(lock_rows::LockRows::new(start(input, measures), plan))
        }
        Op::Filter { input, .. } => Box::new(rows::Filter::new(start(input, measures), plan)),
        Op::Project { input, .. } => Box::new(rows::Project::new(start(input, measures), plan)),
        Op::Join(join) => Box::new(join::Join::new(start(&join.left, measures), plan)),
        Op::Aggregate { input, .. } => {
            Box::new(group::Aggregate::new(start(input, measures), plan))
        }
        Op::Window { input, .. } => Box::new(window::Window::new(start(input, measures), plan)),
        Op::Distinct { input, .. } => Box::new(group::Distinct::new(start(input, measures), plan)),
        Op::Sort { input, .. } => Box::new(sort::Sort::new(start(input, measures), plan)),
        Op::Limit { input, .. } => Box::new(rows::Limit::new(start(input, measures), plan)),
        Op::Set { sides, .. } => {
            Box::new(set::Set::new(sides.iter().map(|side| start(side, measures)).collect(), plan))
        }
        Op::With { body, .. } => Box::new(with::With::new(start(body, measures), plan)),
        Op::Named { .. } => Box::new(with::Named::new(plan)),
        Op::Recursive { first, .. } => Box::new(with::Recursive::new(start(first, measures), plan)),
        Op::Functions { .. } => Box::new(functions::Functions::new(plan)),
    };
    match measures {
        true => Box::new(measured::Measured::new(operator, node)),
        false => operator,
    }
}

/// Returns all rows of an operator, whose memory is held.
async fn all(operator: &mut dyn Operator, cx: &mut Context<'_>) -> Result<Vec<Row>, SqlError> {
    let mut rows = Vec::new();
    loop {
        let more = operator.next(cx, CHUNK_ROWS).await?;
        if more.is_empty() {
            return Ok(rows);
        }
        for row in &more {
            cx.hold(row)?;
        }
        cx.pause(more.len()).await;
        rows.extend(more);
    }
}

/// Evaluates expressions over a row.
fn evaluate(exprs: &[Expr], row: &[Datum], scope: &Scope<'_>) -> Result<Row, SqlError> {
    expr::evaluate(exprs, row, scope)
}

/// The session's transaction, lent for one call.
pub(crate) struct Reader<'t> {
    pub(crate) transaction: &'t mut dyn Transaction,
    pub(crate) facts: &'t Facts,
    pub(crate) now_us: i64,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(transaction: &'t mut dyn Transaction, facts: &'t Facts, now_us: i64) -> Self {
        Reader { transaction, facts, now_us }
    }
}

impl Query {
    /// Starts the query; rows are computed on request. It is given the rows of other steps of its
    /// statement. With `measures` it counts what each node does.
    pub(crate) fn start(
        &self,
        params: Vec<Datum>,
        given: Vec<Option<Arc<Vec<Row>>>>,
        measures: bool,
    ) -> Running {
        let mut params = params;
        params.resize(self.slots.max(params.len()), Datum::Null);
        let relations = self.relations;
        let root = stack::with_room(relations, || start(&self.root, measures));
        let (mut named, reads_catalog) = (given, self.reads_catalog);
        named.resize(self.named, None);
        Running {
            returned: 0,
            root,
            relations,
            named,
            reads_catalog,
            measures,
            params,
            state: None,
        }
    }
}

/// A running query.
pub(crate) struct Running {
    /// The memory of the rows that were returned last, and of no others.
    returned: usize,
    root: Box<dyn Operator>,
    params: Vec<Datum>,
    /// The rows of WITH queries that are known from the beginning.
    named: Vec<Option<Arc<Vec<Row>>>>,
    reads_catalog: bool,
    measures: bool,
    relations: usize,
    /// Set with the first request.
    state: Option<State>,
}

impl Running {
    /// Returns the counts of each node; none if nothing was counted.
    pub(crate) fn actuals(&mut self) -> Actuals {
        self.state.as_mut().and_then(|state| state.actuals.take()).unwrap_or_default()
    }

    /// The next rows, at most `want` (at least one), `None` at the end. The reader is lent for this
    /// call; a later call may lend another of the same transaction.
    pub(crate) async fn next(
        &mut self,
        reader: &mut Reader<'_>,
        want: usize,
    ) -> Result<Option<Vec<Row>>, SqlError> {
        let state = self.state.get_or_insert_with(|| State {
            params: std::mem::take(&mut self.params),
            named: std::mem::take(&mut self.named),
            made: HashMap::new(),
            catalog: None,
            actuals: self.measures.then(Actuals::new),
            pins: Pins::new(),
            locking: Locking::Wait,
            held: reader.facts.held(),
            turn: Turn::new(reader.facts.clock),
        });
        if self.reads_catalog && state.catalog.is_none() {
            state.catalog =
                Some(system::load_unlocked(&mut *reader.transaction, reader.facts).await?);
        }
        let mut cx = Context {
            txn: &mut *reader.transaction,
            facts: reader.facts,
            now_us: reader.now_us,
            state,
        };
        cx.state.held.free(std::mem::take(&mut self.returned));
        let rows =
            stack::run(self.relations, self.root.next(&mut cx, want.clamp(1, CHUNK_ROWS))).await?;
        let bytes: usize = rows.iter().map(|row| weight(row)).sum();
        if bytes > CHUNK_BYTES {
            cx.state.held.add(bytes)?;
            self.returned = bytes;
        }
        cx.pause(rows.len()).await;
        Ok((!rows.is_empty()).then_some(rows))
    }
}
