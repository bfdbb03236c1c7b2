//! A session's open transaction, and how the server replays it.
//!
//! When the protocol aborts a transaction, all its statements run again in a new one of the same age. As long as each returns what
//! it returned before (by checksum), the client cannot tell, and its transaction goes on. Otherwise, or when a result was handed
//! out in parts, the client gets 40001.

use crate::catalog;
use crate::compile::Compiled;
use crate::datetime;
use crate::datum::Datum;
use crate::engine::Engine;
use crate::error::SqlError;
use crate::key;
use crate::system;
use meridian_txn::{Age, Begin, Lock, Mode, Savepoint, Transaction};
use std::hash::Hasher;
use std::sync::Arc;

/// A statement that ran, and what it returned.
pub(crate) enum Step {
    Ran { compiled: Arc<Compiled>, params: Arc<[Datum]>, checksum: u64 },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
}

/// An open transaction.
pub(crate) struct Work {
    pub(crate) txn: Box<dyn Transaction>,
    /// Begun by BEGIN.
    pub(crate) explicit: bool,
    /// A statement failed: only ROLLBACK helps.
    pub(crate) failed: bool,
    /// The catalog is as committed.
    pub(crate) clean: bool,
    /// Something of it reached the client that a replay could not take back.
    pub(crate) settled: bool,
    pub(crate) sequence: u64,
    pub(crate) savepoints: Vec<(String, Savepoint)>,
    pub(crate) journal: Vec<Step>,
    /// Ids that were handed out to it: nobody else sees what lies there.
    pub(crate) own: Vec<u32>,
    /// The tables of which it has read or written rows, by id.
    pub(crate) touched: Vec<u32>,
    fences: Vec<(u32, u64)>,
}

impl Work {
    pub(crate) async fn begin(engine: &Engine, mode: Mode, age: Option<Age>, explicit: bool) -> Result<Work, SqlError> {
        let txn = engine.database().begin(Begin { mode, age }).await?;
        Ok(Work {
            txn,
            explicit,
            failed: false,
            clean: true,
            settled: false,
            sequence: 0,
            savepoints: Vec::new(),
            journal: Vec::new(),
            own: Vec::new(),
            touched: Vec::new(),
            fences: Vec::new(),
        })
    }

    pub(crate) fn reads_only(&self) -> bool {
        matches!(self.txn.mode(), Mode::ReadOnly(_))
    }

    /// CURRENT_TIMESTAMP.
    pub(crate) fn now_us(&self) -> i64 {
        datetime::from_unix_ns(self.txn.began().earliest)
    }

    /// Whether the tables are still those that a plan was made for. Each fence is read once in a transaction.
    pub(crate) async fn is_current(&mut self, tables: &[(u32, u64)]) -> Result<bool, SqlError> {
        for &(id, version) in tables {
            if system::is_system(id) {
                continue;
            }
            let known = self.fences.iter().find(|(other, _)| *other == id).map(|(_, version)| *version);
            let now = match known {
                Some(version) => Some(version),
                None => {
                    let now = catalog::fence(self.txn.as_mut(), id, Lock::Shared).await?;
                    self.fences.extend(now.map(|now| (id, now)));
                    now
                }
            };
            if now != Some(version) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// After a change of the catalog: nothing that was known of it holds.
    pub(crate) fn catalog_changed(&mut self) {
        self.clean = false;
        self.fences.clear();
    }

    pub(crate) fn savepoint(&mut self, name: &str) {
        let point = self.txn.savepoint();
        self.savepoints.push((name.into(), point));
        self.journal.push(Step::Savepoint(name.into()));
    }

    fn find(&self, name: &str) -> Result<usize, SqlError> {
        let missing =
            || SqlError::new(crate::error::state::NO_SAVEPOINT, format!("savepoint \"{name}\" does not exist"));
        self.savepoints.iter().rposition(|(other, _)| other == name).ok_or_else(missing)
    }

    pub(crate) fn release(&mut self, name: &str) -> Result<(), SqlError> {
        let at = self.find(name)?;
        self.savepoints.truncate(at);
        self.journal.push(Step::Release(name.into()));
        Ok(())
    }

    pub(crate) fn rollback_to(&mut self, name: &str) -> Result<(), SqlError> {
        let at = self.find(name)?;
        self.savepoints.truncate(at + 1);
        self.txn.rollback_to(self.savepoints[at].1);
        self.failed = false;
        self.fences.clear();
        self.journal.push(Step::RollbackTo(name.into()));
        Ok(())
    }

    /// Remembers a statement for a replay.
    pub(crate) fn record(&mut self, compiled: &Arc<Compiled>, params: &Arc<[Datum]>, checksum: u64) {
        if !self.reads_only() {
            self.journal.push(Step::Ran { compiled: compiled.clone(), params: params.clone(), checksum });
        }
    }
}

/// What a client saw of a result.
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
