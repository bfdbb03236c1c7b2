//! The commit of a session's transaction: its checks, what it announces, and its outcome.

use crate::conflict;
use crate::engine::Engine;
use crate::error::{SqlError, aborted, restart, state};
use crate::expr::Facts;
use crate::replay::MOST_REPLAYS;
use crate::session::Session;
use crate::temporary;
use crate::work::Work;
use meridian_txn::{Consistency, Failure, Mode, Outcome};

impl Session {
    /// Commits the implicit transaction, if one is open.
    pub(crate) async fn finish_implicit(&mut self) -> Result<(), SqlError> {
        // Not a match on the work itself, since a reference to it must not be held across an await.
        let implicit = self.work.as_ref().is_some_and(|work| !work.explicit);
        if implicit { self.commit().await } else { Ok(()) }
    }

    /// Commits the open transaction, replaying it if it is aborted. It is over when this returns,
    /// whatever the result.
    pub(crate) async fn commit(&mut self) -> Result<(), SqlError> {
        let result = self.try_commit().await;
        self.work = None;
        result
    }

    async fn try_commit(&mut self) -> Result<(), SqlError> {
        self.facts.notifications.prepare(&self.engine, self.facts.token).await?;
        for _ in 0..MOST_REPLAYS {
            let Some(mut work) = self.work.take() else { return Ok(()) };
            if work.reads_only() {
                // In a box, so that the state of each commit stays small.
                return Box::pin(self.commit_reads(work)).await;
            }
            if let Err(error) = check_end(&self.engine, &self.facts, &mut work).await {
                self.work = Some(work);
                if !error.is_restart() {
                    return self.stands(Err(error)).await;
                }
                self.replay(error).await?;
                continue;
            }
            let age = work.txn.age();
            let (journal, levels) = (std::mem::take(&mut work.journal), work.levels);
            let changed = std::mem::take(&mut work.changed);
            let (explicit, settled) = (work.explicit, work.settled);
            let (clean, kept) = (work.clean, work.txn.kept_ranges());
            let consistency = match clean {
                true => self.facts.settings.consistency(),
                // Every later transaction is to find the catalog as it is now.
                false => Consistency::CommitWait,
            };
            work.txn.set_consistency(consistency);
            match self.decide(work).await? {
                Outcome::Committed { at } => {
                    if !clean {
                        self.engine.cache.clear();
                    }
                    self.engine.changes.add(&changed, &self.engine.cache);
                    self.committed_at = Some(at);
                    self.learn(at);
                    self.facts.notifications.committed();
                    return Ok(());
                }
                Outcome::Unknown => {
                    let why = "Too few nodes responded in time: the transaction may have happened, or may yet.";
                    return Err(unknown().detail(why));
                }
                Outcome::Aborted { why } => {
                    self.learn_from_conflict(&why);
                    let error = aborted(why);
                    if settled {
                        return Err(conflict::explain(
                            error,
                            &self.engine.cache,
                            Some(age),
                            self.facts.zone(),
                        ));
                    }
                    let mut fresh = self.begin_work(Mode::ReadWrite, Some(age), explicit).await?;
                    kept.into_iter().for_each(|range| fresh.txn.keep_range(range));
                    (fresh.journal, fresh.levels) = (journal, levels);
                    self.work = Some(fresh);
                    self.replay(error).await?;
                }
            }
        }
        Err(restart("the transaction lost too many conflicts"))
    }

    /// Commits a read-only transaction, which may have written temporary tables and notified.
    async fn commit_reads(&mut self, mut work: Work) -> Result<(), SqlError> {
        end(&self.engine, &self.facts, &mut work).await?;
        // Before the temporary rows are committed: if it fails, they are as they were.
        let Facts { notifications, pid, .. } = &self.facts;
        let sent_at = notifications.send_apart(&self.engine, *pid).await?;
        let waits = self.facts.guarantees.modes.len() > 1
            && self.facts.settings.consistency() == Consistency::CommitWait;
        if waits {
            // What the session has seen must have passed, too.
            work.txn.set_consistency(Consistency::CommitWait);
        }
        if waits || self.facts.temporary.has_written() {
            match work.txn.commit().await {
                Outcome::Committed { .. } => {}
                Outcome::Aborted { why } => return Err(aborted(why)),
                Outcome::Unknown => return Err(unknown()),
            }
        }
        self.facts.notifications.committed();
        sent_at.into_iter().for_each(|at| self.learn(at));
        Ok(())
    }

    /// Decides a transaction that may write. It is gone when this returns, with every lock that it
    /// still held: its replay may have to wait for transactions that wait for these locks.
    async fn decide(&mut self, mut work: Work) -> Result<Outcome, SqlError> {
        match work.txn.before_commit().await {
            Ok(()) => {}
            Err(Failure::Aborted(why)) => return Ok(Outcome::Aborted { why }),
            Err(other) => return Err(other.into()),
        }
        self.committing = true;
        let outcome = work.txn.commit().await;
        self.committing = false;
        Ok(outcome)
    }
}

/// Makes the checks of a transaction that is about to commit, and writes what it announces.
async fn check_end(engine: &Engine, facts: &Facts, work: &mut Work) -> Result<(), SqlError> {
    end(engine, facts, work).await?;
    facts.advisory.check(work.txn.as_mut()).await?;
    facts.notifications.write(work.txn.as_mut(), engine, facts.pid).await
}

/// Checks what was deferred to the end of a transaction, and does what ON COMMIT says.
async fn end(engine: &Engine, facts: &Facts, work: &mut Work) -> Result<(), SqlError> {
    work.check_deferred(facts.zone()).await?;
    temporary::end_of_transaction(engine, work, facts).await
}

/// Returns the error 40003.
pub(crate) fn unknown() -> SqlError {
    SqlError::new(state::COMPLETION_UNKNOWN, "the outcome of the commit is unknown")
        .hint("Read what it wrote before trying again.")
}
