//! A session's open transaction, and its replay by the server.
//!
//! When the protocol aborts a transaction, all its statements run again in a new one of the same
//! age. If each returns the same result as before (by checksum), the client cannot tell the
//! difference, and its transaction continues; the result of the last one may differ if the client
//! has not seen it. Otherwise, or when a result was returned in parts, the client gets 40001.

use crate::advisory;
use crate::catalog::{self, Cache, Planned};
use crate::compile::Compiled;
use crate::constraint::{self, Deferral, Deferred, Written};
use crate::datetime::{self, Zone};
use crate::datum::Datum;
use crate::engine::Engine;
use crate::error::{SqlError, restart, state};
use crate::expr::Facts;
use crate::key;
use crate::made;
use crate::notify::Action;
use crate::savepoints::Savepoints;
use crate::sequence::{Changed, Drawn, Sequences};
use crate::settings::Settings;
use crate::system;
use crate::temporary;
use meridian_txn::{Begin, Lock, Mode, Savepoint, SchemaVersion, Transaction};
use std::hash::Hasher;
use std::sync::Arc;

/// The effects of a statement's functions that a replay does not repeat: the values that it drew
/// from sequences, and its other calls.
#[derive(Default, Clone)]
pub(crate) struct Effected {
    pub(crate) drawn: Drawn,
    pub(crate) calls: made::Calls,
}

impl Effected {
    pub(crate) fn is_empty(&self) -> bool {
        self.drawn.is_empty() && self.calls.is_empty()
    }

    /// Returns what the statement that ran last has done.
    pub(crate) fn of_last(facts: &Facts) -> Effected {
        Effected { drawn: facts.sequences.take_drawn(), calls: facts.made.take_done() }
    }

    /// Returns what the statement that failed has done, and was to do again, for its next attempt.
    pub(crate) fn of_failed(facts: &Facts) -> Effected {
        Effected { drawn: facts.sequences.take_rest(), calls: facts.made.take_rest() }
    }
}

/// A statement that ran, with the checksum of its result and the effects that it had.
pub(crate) enum Step {
    Ran {
        compiled: Arc<Compiled>,
        params: Arc<[Datum]>,
        checksum: u64,
        effected: Arc<Effected>,
        /// The session's settings when it ran.
        settings: Arc<Settings>,
    },
    Savepoint {
        name: String,
        /// The number of advisory locks of the transaction that were taken before it.
        locks: usize,
    },
    Release(String),
    RollbackTo(String),
    /// SET CONSTRAINTS, and which constraints are deferred from then on.
    Deferral(Deferral),
    /// LISTEN, UNLISTEN or NOTIFY.
    Announced(Action),
}

/// The progress of a transaction in what its session does apart from it.
#[derive(Clone, Copy)]
pub(crate) struct Marks {
    /// The number of advisory locks that it has taken.
    pub(crate) locks: usize,
    /// The number of its actions for LISTEN and NOTIFY.
    pub(crate) notifications: usize,
}

/// The state of a transaction at a savepoint.
pub(crate) struct Saved {
    point: Savepoint,
    /// The number of sequences that were changed before it.
    changed: usize,
    marks: Marks,
    deferral: Deferral,
    /// The changes of the deferred obligations before it.
    deferred: usize,
}

/// The declared reads of a transaction (Spanner §4.2.2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// None are declared.
    Open,
    /// Its only statement may declare them.
    Wanted,
    /// They are declared, and the transaction may read nothing else.
    Narrow,
}

/// An open transaction.
pub(crate) struct Work {
    pub(crate) txn: Box<dyn Transaction>,
    /// True if it was begun by BEGIN.
    pub(crate) explicit: bool,
    /// True after a failed statement: only ROLLBACK helps.
    pub(crate) failed: bool,
    /// True if the transaction has not changed the catalog.
    pub(crate) clean: bool,
    /// True if the node's cached catalog may not hold at its snapshot, so that it reads the catalog
    /// itself.
    pub(crate) exact: bool,
    /// True if a result has reached the client that a replay could not reproduce.
    pub(crate) settled: bool,
    /// True once a query has begun in it, or another statement with a snapshot.
    pub(crate) ran: bool,
    /// The declared reads of a transaction with a single statement.
    pub(crate) scope: Scope,
    /// True if the shards of declared reads negotiate the timestamp first.
    pub(crate) negotiates: bool,
    /// The number of its next row in a table without a primary key.
    pub(crate) row_number: u64,
    pub(crate) savepoints: Savepoints<Saved>,
    pub(crate) journal: Vec<Step>,
    /// The levels for which the statements of the journal need stack.
    pub(crate) levels: usize,
    /// The ids that were allocated to it: no other transaction sees those storages.
    pub(crate) own: Vec<u32>,
    /// The sequences that it has created or changed.
    pub(crate) sequences: Changed,
    /// The constraints that it has deferred, or made immediate.
    pub(crate) deferral: Deferral,
    /// The obligations that it has deferred.
    pub(crate) deferred: Deferred,
    /// The notices of its newest statement, which its client gets if it succeeds.
    pub(crate) notices: Vec<SqlError>,
    /// The tables of which it has read or written rows, by id.
    pub(crate) touched: Vec<u32>,
    /// The numbers of rows that its statements have changed, by table.
    pub(crate) changed: Vec<(u32, u64)>,
    /// The versions of tables that it has read itself.
    versions: Vec<(u32, u64)>,
}

fn no_savepoint(name: &str) -> SqlError {
    SqlError::new(state::NO_SAVEPOINT, format!("savepoint \"{name}\" does not exist"))
}

impl Work {
    pub(crate) async fn begin(
        engine: &Engine,
        how: Begin,
        explicit: bool,
    ) -> Result<Work, SqlError> {
        let txn = engine.begin(how).await?;
        Ok(Work {
            txn,
            explicit,
            failed: false,
            clean: true,
            exact: false,
            settled: false,
            ran: false,
            scope: Scope::Open,
            negotiates: false,
            row_number: 0,
            savepoints: Savepoints::default(),
            journal: Vec::new(),
            levels: 0,
            own: Vec::new(),
            sequences: Changed::default(),
            deferral: Deferral::default(),
            deferred: Deferred::default(),
            notices: Vec::new(),
            touched: Vec::new(),
            changed: Vec::new(),
            versions: Vec::new(),
        })
    }

    pub(crate) fn reads_only(&self) -> bool {
        matches!(self.txn.mode(), Mode::ReadOnly(_))
    }

    /// Returns CURRENT_TIMESTAMP.
    pub(crate) fn now_us(&self) -> i64 {
        datetime::from_unix_ns(self.txn.began().earliest)
    }

    /// True if its statements are planned for the catalog as the transaction itself reads it;
    /// otherwise for the newest cached one, which the shards reject if it is outdated.
    pub(crate) fn sees_catalog(&self) -> bool {
        self.exact || !self.clean
    }

    /// True if the tables are at the versions of a plan, as far as is known; if so, declares that
    /// the next reads and writes are planned for them. With `newest`, a plan for older statistics
    /// is not current either.
    pub(crate) async fn is_current(
        &mut self,
        cache: &Cache,
        tables: &[Planned],
        newest: bool,
    ) -> Result<bool, SqlError> {
        // Plans for temporary objects hold for a generation of these, which their path has.
        let is_shared = |id| !system::is_system(id) && !temporary::is_temporary(id);
        let tables = || tables.iter().copied().filter(|table| is_shared(table.id));
        for table in tables() {
            // Reads in one shard only are of the present, whatever their timestamp, since the shard
            // has nothing newer.
            let at = self.txn.read_at().filter(|_| self.scope == Scope::Open);
            let is_current = match self.sees_catalog() {
                true => self.version(table.id).await? == Some(table.version),
                false => cache.planned(table.id, at).is_some_and(|now| {
                    let older = newest && table.statistics < now.statistics;
                    now.version == table.version && !older
                }),
            };
            if !is_current {
                return Ok(false);
            }
        }
        if !self.exact {
            tables().for_each(|Planned { id: table, version, .. }| {
                self.txn.planned_for(SchemaVersion { table, version })
            });
        }
        Ok(true)
    }

    /// Fails if a table, whose newest version the cache has, has changed since the fixed snapshot
    /// of this transaction, if that writes: statements can be planned neither for the old version,
    /// which the shards reject, nor for the new one.
    pub(crate) fn fits_snapshot(&self, cache: &Cache, tables: &[Planned]) -> Result<(), SqlError> {
        if self.reads_only() || self.sees_catalog() {
            return Ok(());
        }
        let changed = |at| tables.iter().find_map(|table| cache.changed_since(table.id, at));
        match self.txn.read_at().and_then(changed) {
            Some(table) => Err(restart(&format!(
                "table \"{}\" has changed since this transaction's snapshot",
                table.name()
            ))),
            None => Ok(()),
        }
    }

    /// Returns the version of an object as the transaction sees it; reads it once.
    pub(crate) async fn version(&mut self, id: u32) -> Result<Option<u64>, SqlError> {
        let known =
            self.versions.iter().find(|(other, _)| *other == id).map(|(_, version)| *version);
        if known.is_some() {
            return Ok(known);
        }
        let now = catalog::version(self.txn.as_mut(), id, Lock::Shared).await?;
        self.versions.extend(now.map(|now| (id, now)));
        Ok(now)
    }

    /// Forgets all knowledge of the catalog after a change of it.
    pub(crate) fn catalog_changed(&mut self) {
        self.clean = false;
        self.versions.clear();
    }

    /// Checks the deferred obligations at the end of the transaction. Fails with 23503.
    pub(crate) async fn check_deferred(&mut self, zone: &Zone) -> Result<(), SqlError> {
        let all = self.deferred.take();
        constraint::check_all(&all, self.txn.as_mut(), Written::MayBeGone, zone).await
    }

    /// Changes which constraints are deferred, and checks the obligations that no longer are. Fails
    /// with 23503.
    pub(crate) async fn defer(&mut self, deferral: Deferral, zone: &Zone) -> Result<(), SqlError> {
        self.journal.push(Step::Deferral(deferral.clone()));
        self.deferral = deferral;
        self.check_due(zone).await
    }

    /// Checks the obligations whose constraints are not deferred. Fails with 23503.
    pub(crate) async fn check_due(&mut self, zone: &Zone) -> Result<(), SqlError> {
        let due = self.deferred.take_due(&self.deferral);
        constraint::check_all(&due, self.txn.as_mut(), Written::MayBeGone, zone).await
    }

    /// Counts rows that a statement has changed.
    pub(crate) fn has_changed(&mut self, table: u32, rows: u64) {
        if temporary::is_temporary(table) {
            return;
        }
        match self.changed.iter_mut().find(|(id, _)| *id == table) {
            Some((_, count)) => *count += rows,
            None if rows > 0 => self.changed.push((table, rows)),
            None => {}
        }
    }

    /// Begins a savepoint.
    pub(crate) fn savepoint(&mut self, name: &str, marks: Marks) {
        let saved = Saved {
            marks,
            point: self.txn.savepoint(),
            changed: self.sequences.ids.len(),
            deferral: self.deferral.clone(),
            deferred: self.deferred.mark(),
        };
        self.savepoints.begin(name, saved);
        self.journal.push(Step::Savepoint { name: name.into(), locks: marks.locks });
    }

    pub(crate) fn release(&mut self, name: &str) -> Result<(), SqlError> {
        if !self.savepoints.release(name) {
            return Err(no_savepoint(name));
        }
        self.journal.push(Step::Release(name.into()));
        Ok(())
    }

    /// Rolls back to a savepoint. Returns the marks of it: the caller takes back what came later. A
    /// replay does so for notifications alone, since its first run did for locks.
    pub(crate) fn rollback_to(
        &mut self,
        name: &str,
        sequences: &Sequences,
    ) -> Result<Marks, SqlError> {
        let saved = self.savepoints.roll_back_to(name).ok_or_else(|| no_savepoint(name))?;
        self.txn.rollback_to(saved.point);
        self.sequences.roll_back(saved.changed);
        self.deferral = saved.deferral.clone();
        self.deferred.roll_back(saved.deferred);
        let marks = saved.marks;
        sequences.rolled_back(self.txn.as_mut(), &self.sequences)?;
        self.failed = false;
        self.versions.clear();
        self.journal.push(Step::RollbackTo(name.into()));
        Ok(marks)
    }

    /// Fails the transaction: only a rollback helps. The advisory locks that it has taken since its
    /// newest savepoint end at once.
    pub(crate) fn fail(&mut self, locks: &advisory::Holds) {
        self.failed = true;
        locks.roll_back(self.savepoints.newest().map_or(0, |saved| saved.marks.locks));
    }

    /// True if nothing has run in it, so that another one can take its place.
    pub(crate) fn is_untouched(&self) -> bool {
        let waits = |step: &Step| matches!(step, Step::Announced(_) | Step::Deferral(_));
        !self.ran && !self.settled && self.journal.iter().all(waits)
    }

    /// Records a statement for a replay.
    pub(crate) fn record(
        &mut self,
        compiled: &Arc<Compiled>,
        params: &Arc<[Datum]>,
        checksum: u64,
        effected: Effected,
        settings: &Arc<Settings>,
    ) {
        if !self.reads_only() {
            self.levels = self.levels.max(compiled.source.levels);
            self.journal.push(Step::Ran {
                compiled: compiled.clone(),
                params: params.clone(),
                checksum,
                effected: Arc::new(effected),
                settings: settings.clone(),
            });
        }
    }
}

/// Returns the checksum of a result, as the client saw it.
pub(crate) fn checksum(rows: &[Vec<Datum>], tag: &str) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(tag.as_bytes());
    let mut bytes = Vec::new();
    for datum in rows.iter().flatten() {
        bytes.clear();
        key::write(datum, false, &mut bytes);
        hasher.write(&bytes);
    }
    hasher.finish()
}
