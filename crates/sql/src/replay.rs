//! Replays: a transaction that the protocol has aborted runs again, unless its client could tell
//! the difference.

use crate::conflict;
use crate::error::{SqlError, restart};
use crate::expr::Facts;
use crate::portal::Portal;
use crate::run::{attempt, checksum_of, response_of};
use crate::session::Session;
use crate::work::{self, Effected, Marks, Step};
use meridian_txn::{Conflict, Mode, ReadAt};
use std::sync::Arc;

/// The number of replays before the client receives the error. A replay keeps the age, so that the
/// transaction grows old and wins.
pub(crate) const MOST_REPLAYS: usize = 50;

impl Session {
    /// Restarts a read-only transaction, if that helps. If its plan was for a schema that does not
    /// hold at its snapshot, it continues at that snapshot, and reads the catalog there. A
    /// single-shard read of the present begins again.
    pub(crate) async fn restarts_transaction(
        &mut self,
        error: &SqlError,
    ) -> Result<bool, SqlError> {
        if let Some(table) = error.changed_schema() {
            self.engine.cache.forget(table);
        }
        let Some(old) = self.work.as_ref().filter(|work| work.reads_only()) else {
            return Ok(false);
        };
        if self.facts.temporary.has_written() {
            return Ok(false);
        }
        let narrow = old.scope == work::Scope::Narrow;
        let (mode, exact) = match error.conflict.as_deref() {
            Some(Conflict::SchemaChanged { .. }) if narrow => (Mode::ReadOnly(ReadAt::Now), false),
            Some(Conflict::SchemaChanged { .. }) if !old.exact => (
                old.txn.read_at().map_or(old.txn.mode(), |at| Mode::ReadOnly(ReadAt::Exact(at))),
                true,
            ),
            _ => return Ok(false),
        };
        let explicit = old.explicit;
        let fresh = self.begin_work(mode, None, explicit).await?;
        let old = self.work.replace(fresh).expect("invariant: it was there above");
        if let Some(work) = &mut self.work {
            (work.exact, work.settled, work.ran) = (exact, old.settled, old.ran);
            (work.savepoints, work.touched) = (old.savepoints, old.touched);
            work.scope = if narrow { work::Scope::Wanted } else { work::Scope::Open };
        }
        Ok(true)
    }

    /// Replays the transaction, unless the client could tell the difference.
    pub(crate) async fn replay(&mut self, mut error: SqlError) -> Result<(), SqlError> {
        for _ in 0..MOST_REPLAYS {
            if let Some(table) = error.changed_schema() {
                self.engine.cache.forget(table);
            }
            let known = self.work.as_ref().filter(|old| !old.settled && !old.reads_only());
            let Some((age, explicit)) = known.map(|old| (old.txn.age(), old.explicit)) else {
                let age = self.work.as_ref().map(|old| old.txn.age());
                return Err(conflict::explain(error, &self.engine.cache, age, self.facts.zone()));
            };
            let fresh = self.begin_work(Mode::ReadWrite, Some(age), explicit).await?;
            // Drops the old transaction first, with the locks that it still held.
            let old = self.work.replace(fresh).expect("invariant: it was there above");
            let (journal, levels, kept) = (old.journal, old.levels, old.txn.kept_ranges());
            let length = journal.len();
            drop(old.txn);
            if let Some(work) = &mut self.work {
                work.ran = old.ran;
                work.txn.lock_first(kept).await?;
            }
            let replayed = self.replay_steps(&journal).await;
            match self.stands(replayed).await {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    let why = restart("a replay of the transaction would have shown other results");
                    let error = SqlError { conflict: error.conflict, ..why };
                    return Err(conflict::explain(
                        error,
                        &self.engine.cache,
                        Some(age),
                        self.facts.zone(),
                    ));
                }
                Err(again) if again.is_restart() => {
                    error = again;
                    if let Some(work) = &mut self.work {
                        (work.journal, work.levels) = (journal, levels);
                    }
                }
                // The last statement failed, of which the client has seen nothing.
                Err(other)
                    if self.unseen.is_some()
                        && self.work.as_ref().is_some_and(|it| it.journal.len() + 1 == length) =>
                {
                    return Err(other);
                }
                Err(other) => {
                    return Err(restart(&format!(
                        "a replay of the transaction failed: {}",
                        other.message
                    )));
                }
            }
        }
        let age = self.work.as_ref().map(|work| work.txn.age());
        Err(conflict::explain(error, &self.engine.cache, age, self.facts.zone()))
    }

    async fn replay_steps(&mut self, journal: &[Step]) -> Result<bool, SqlError> {
        let Some(work) = &mut self.work else { return Ok(false) };
        self.facts.notifications.roll_back(0);
        // The client has got its warnings.
        let mut facts = Facts { warnings: Arc::default(), ..self.facts.clone() };
        for (at, step) in journal.iter().enumerate() {
            match step {
                Step::Savepoint { name, locks } => {
                    let notifications = self.facts.notifications.mark();
                    work.savepoint(name, Marks { locks: *locks, notifications });
                }
                Step::Release(name) => work.release(name)?,
                Step::Deferral(deferral) => {
                    work.defer(deferral.clone(), self.facts.zone()).await?;
                }
                Step::Announced(action) => {
                    self.facts.notifications.add(action.clone());
                    work.journal.push(Step::Announced(action.clone()));
                }
                Step::RollbackTo(name) => {
                    let marks = work.rollback_to(name, &self.facts.sequences)?;
                    self.facts.notifications.roll_back(marks.notifications);
                }
                Step::Ran { compiled, params, checksum, effected, settings } => {
                    facts.settings.clone_from(settings);
                    let mut portal = Portal::new(compiled.clone(), params.clone());
                    let unseen = self.unseen.as_mut().filter(|_| at + 1 == journal.len());
                    let max = unseen.as_ref().map_or(usize::MAX, |unseen| unseen.limit);
                    let effected = &mut (**effected).clone();
                    let engine = &self.engine;
                    let ran = attempt(engine, &facts, work, &mut portal, max, effected).await;
                    let ran = ran.and_then(|chunk| facts.made.check_all_made().map(|()| chunk));
                    let chunk = match ran {
                        Err(_) if facts.made.take_is_other() => return Ok(false),
                        ran => ran?,
                    };
                    let found = checksum_of(compiled, &chunk);
                    if found != *checksum {
                        // The client may know the columns, and expects all rows at once.
                        let columns = portal.compiled.as_ref().map(|now| &now.columns);
                        let fits = chunk.done && columns == Some(&compiled.columns);
                        let Some(unseen) = unseen.filter(|_| fits) else { return Ok(false) };
                        unseen.response = response_of(compiled, chunk, true, facts.zone())?;
                    }
                    let effected = Effected::of_last(&self.facts);
                    work.record(compiled, params, found, effected, settings);
                }
            }
        }
        Ok(true)
    }
}
