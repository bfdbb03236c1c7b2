//! INSERT, UPDATE, DELETE and MERGE: writes the rows that a query or a list of values gives.
//!
//! All rows of a change are known before the first is written, so that no query sees the
//! statement's own changes, and a row that moves is not found again. A statement may have several
//! changes, in its WITH (`with`); then the writes wait until it ends (`target`).

mod change;
mod insert;
mod merge;
mod target;
mod with;

pub(crate) use change::Change;
pub(crate) use insert::Insert;
pub(crate) use merge::Merge;
pub(crate) use with::{Part, Step, With};

use crate::catalog::Table;
use crate::constraint::{Deferral, Obligations, Owed, Related};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::exec::Reader;
use crate::explain::Actuals;
use crate::expr::Scope;
use crate::memory::{Held, weight};
use crate::response::Column;
use crate::{physical, write};
use meridian_mvcc::Key;
use meridian_txn::{Locking, Transaction};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use target::Target;

/// A planned change of a table's rows.
pub(crate) enum Write {
    Insert(Insert),
    Change(Change),
    Merge(Merge),
}

/// The effects of a change.
#[derive(Default)]
pub(crate) struct Changed {
    /// The number of rows.
    pub(crate) count: u64,
    /// The rows of RETURNING.
    pub(crate) rows: Vec<Vec<Datum>>,
    /// The checks that wait for the end of the transaction.
    pub(crate) later: Obligations,
}

impl Changed {
    fn add(&mut self, returned: Option<Vec<Datum>>) {
        self.count += 1;
        self.rows.extend(returned);
    }
}

/// The rows of the queries of WITH that have run, by the numbers of these.
type Given = BTreeMap<usize, Arc<Vec<Vec<Datum>>>>;

/// The state of a running statement, which its changes share.
struct Running<'a> {
    target: Target<'a>,
    scope: &'a Scope<'a>,
    row_number: &'a mut u64,
    owed: Option<Owed<'a>>,
    given: Given,
}

/// The memory of a key of a row that was changed, besides its bytes.
const KEY_BYTES: usize = 48;

/// The keys of the rows that a change has changed, and their memory.
struct Touched {
    keys: BTreeSet<Key>,
    held: Held,
}

impl Touched {
    fn none(scope: &Scope<'_>) -> Touched {
        Touched { keys: BTreeSet::new(), held: scope.session.held() }
    }

    fn contains(&self, key: &Key) -> bool {
        self.keys.contains(key)
    }

    /// Adds a key. Fails with 53200 if queries have no memory for it.
    fn add(&mut self, key: Key) -> Result<(), SqlError> {
        self.held.add(key.len() + KEY_BYTES)?;
        self.keys.insert(key);
        Ok(())
    }
}

impl Running<'_> {
    /// Locks a row that the statement has read, and returns its values.
    async fn locked_row(&mut self, table: &Table, key: &Key) -> Result<Vec<Datum>, SqlError> {
        let found = self.target.locked_row(table, key).await?;
        found.ok_or_else(|| SqlError::corrupted("a row that was just read is not there"))
    }

    /// Writes the new values of a row, or deletes it if there are none; notes what its foreign keys
    /// and those that refer to it owe for that.
    async fn rewrite(
        &mut self,
        table: &Arc<Table>,
        key: &Key,
        old: &[Datum],
        new: Option<&[Datum]>,
    ) -> Result<(), SqlError> {
        let Running { target, scope, owed, .. } = self;
        match new {
            Some(new) => write::update(target, table, key, old, new, scope.session).await?,
            None => write::delete(target, table, key, old).await?,
        }
        if let Some(owed) = owed {
            match new {
                Some(new) => owed.wrote(table, Some(old), new)?,
                None => owed.deleted(table, old)?,
            }
        }
        target.account()
    }

    /// Ends what the statement has to write, and what it has to do for foreign keys. Returns what
    /// has to hold when the transaction ends.
    async fn finish(self, deferral: &Deferral) -> Result<Obligations, SqlError> {
        let txn = self.target.finish()?;
        match self.owed {
            Some(owed) => owed.finish(txn, self.scope, deferral).await,
            None => Ok(Obligations::new()),
        }
    }
}

impl Write {
    /// Returns the table that it changes.
    pub(crate) fn table(&self) -> &Arc<Table> {
        match self {
            Write::Insert(insert) => &insert.table,
            Write::Change(change) => &change.table,
            Write::Merge(merge) => &merge.table,
        }
    }

    /// Returns the columns of RETURNING.
    pub(crate) fn columns(&self) -> Option<Arc<[Column]>> {
        match self {
            Write::Insert(insert) => insert.columns(),
            Write::Change(change) => change.returning.clone(),
            Write::Merge(_) => None,
        }
    }

    /// Returns the word of its tag.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Write::Insert(_) => "INSERT",
            Write::Change(change) if change.is_update() => "UPDATE",
            Write::Change(_) => "DELETE",
            Write::Merge(_) => "MERGE",
        }
    }

    /// Runs it as a whole statement. Counts what the nodes of its query do, if that is wanted.
    pub(crate) async fn run(
        &self,
        txn: &mut dyn Transaction,
        scope: &Scope<'_>,
        row_number: &mut u64,
        foreign: (Option<&Related>, &Deferral),
        actuals: Option<&mut Actuals>,
    ) -> Result<Changed, SqlError> {
        let (related, deferral) = foreign;
        let owed = related.map(Owed::new);
        let (target, given) = (Target::at_once(txn), Given::new());
        let mut running = Running { target, scope, row_number, owed, given };
        let mut changed = self.run_in(&mut running, actuals).await?;
        changed.later = running.finish(deferral).await?;
        Ok(changed)
    }

    /// Runs it as a part of a statement.
    async fn run_in(
        &self,
        running: &mut Running<'_>,
        actuals: Option<&mut Actuals>,
    ) -> Result<Changed, SqlError> {
        match self {
            Write::Insert(insert) => insert.run(running, actuals).await,
            Write::Change(change) => change.run(running, actuals).await,
            Write::Merge(merge) => merge.run(running, actuals).await,
        }
    }
}

/// Returns all rows of a planned query, and the memory that they hold. Counts what its nodes do, if
/// that is wanted.
async fn all_rows(
    plan: &physical::Query,
    running: &mut Running<'_>,
    actuals: Option<&mut Actuals>,
) -> Result<(Vec<Vec<Datum>>, Held), SqlError> {
    let Running { target, scope, given, .. } = running;
    let (mut rows, mut held) = (Vec::new(), Held::none(&scope.session.memory));
    let given = plan.given.iter().map(|number| given.get(number).cloned()).collect();
    let mut query = plan.start(scope.params.to_vec(), given, actuals.is_some());
    let mut reader = Reader::new(&mut *target.txn, scope.session, scope.now_us);
    while let Some(more) = query.next(&mut reader, usize::MAX).await? {
        held.add(more.iter().map(|row| weight(row)).sum())?;
        rows.extend(more);
    }
    // The statement's own reads wait for locks, whatever its query did (NOWAIT).
    reader.transaction.set_locking(Locking::Wait);
    if let Some(actuals) = actuals {
        actuals.extend(query.actuals());
    }
    Ok((rows, held))
}
