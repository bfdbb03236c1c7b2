//! A session's open transaction, and how the server replays it.
//!
//! When the protocol aborts a transaction, all its statements run again in a new one of the same
//! age. As long as each returns what it returned before (by checksum), the client cannot tell, and
//! its transaction goes on. Otherwise, or when a result was handed out in parts, the client
//! gets 40001.

use crate::catalog::{self, Cache};
use crate::compile::Compiled;
use crate::datetime;
use crate::datum::Datum;
use crate::engine::Engine;
use crate::error::SqlError;
use crate::key;
use crate::system;
use meridian_txn::{Age, Begin, Lock, Mode, Savepoint, SchemaVersion, Transaction};
use std::hash::Hasher;
use std::sync::Arc;

/// A statement that ran, and what it returned.
pub(crate) enum Step {
    Ran { compiled: Arc<Compiled>, params: Arc<[Datum]>, checksum: u64 },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
}

/// What is known of what a transaction will read (Spanner §4.2.2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Nothing.
    Open,
    /// Its only statement may say.
    Wanted,
    /// It has said it: nothing else may be read.
    Narrow,
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
    /// What is known of the catalog here may not hold at its snapshot: it reads the catalog itself.
    pub(crate) exact: bool,
    /// Something of it reached the client that a replay could not take back.
    pub(crate) settled: bool,
    /// It is for one statement, which may say what it will read; it has said so, and nothing else
    /// is read in it.
    pub(crate) scope: Scope,
    /// Where that lies in several shards, they are asked first at which timestamp it is to be read.
    pub(crate) negotiates: bool,
    pub(crate) sequence: u64,
    pub(crate) savepoints: Vec<(String, Savepoint)>,
    pub(crate) journal: Vec<Step>,
    /// Ids that were handed out to it: nobody else sees what lies there.
    pub(crate) own: Vec<u32>,
    /// The tables of which it has read or written rows, by id.
    pub(crate) touched: Vec<u32>,
    /// What it has read itself: tables and their versions.
    versions: Vec<(u32, u64)>,
}

impl Work {
    pub(crate) async fn begin(
        engine: &Engine,
        mode: Mode,
        age: Option<Age>,
        explicit: bool,
    ) -> Result<Work, SqlError> {
        let txn = engine.database().begin(Begin { mode, age }).await?;
        Ok(Work {
            txn,
            explicit,
            failed: false,
            clean: true,
            exact: false,
            settled: false,
            scope: Scope::Open,
            negotiates: false,
            sequence: 0,
            savepoints: Vec::new(),
            journal: Vec::new(),
            own: Vec::new(),
            touched: Vec::new(),
            versions: Vec::new(),
        })
    }

    pub(crate) fn reads_only(&self) -> bool {
        matches!(self.txn.mode(), Mode::ReadOnly(_))
    }

    /// CURRENT_TIMESTAMP.
    pub(crate) fn now_us(&self) -> i64 {
        datetime::from_unix_ns(self.txn.began().earliest)
    }

    /// Whether its statements are planned for the catalog as it sees it itself; else for the newest
    /// that is known here, which whoever has the rows refuses if it is outdated.
    pub(crate) fn sees_catalog(&self) -> bool {
        self.exact || !self.clean
    }

    /// Whether the tables are those that a plan was made for, as far as is known; if so, what comes
    /// next is said to be planned for them.
    pub(crate) async fn is_current(
        &mut self,
        cache: &Cache,
        tables: &[(u32, u64)],
    ) -> Result<bool, SqlError> {
        let tables = || tables.iter().copied().filter(|(id, _)| !system::is_system(*id));
        for (id, version) in tables() {
            // What is read in one shard only is of the present, whatever its timestamp: the shard
            // has nothing newer.
            let at = self.txn.read_at().filter(|_| self.scope == Scope::Open);
            let now =
                if self.sees_catalog() { self.version(id).await? } else { cache.version(id, at) };
            if now != Some(version) {
                return Ok(false);
            }
        }
        if !self.exact {
            tables().for_each(|(table, version)| {
                self.txn.planned_for(SchemaVersion { table, version })
            });
        }
        Ok(true)
    }

    /// The version of a table as the transaction sees it; read once.
    async fn version(&mut self, id: u32) -> Result<Option<u64>, SqlError> {
        let known =
            self.versions.iter().find(|(other, _)| *other == id).map(|(_, version)| *version);
        if known.is_some() {
            return Ok(known);
        }
        let now = catalog::version(self.txn.as_mut(), id, Lock::Shared).await?;
        self.versions.extend(now.map(|now| (id, now)));
        Ok(now)
    }

    /// After a change of the catalog: nothing that was known of it holds.
    pub(crate) fn catalog_changed(&mut self) {
        self.clean = false;
        self.versions.clear();
    }

    pub(crate) fn savepoint(&mut self, name: &str) {
        let point = self.txn.savepoint();
        self.savepoints.push((name.into(), point));
        self.journal.push(Step::Savepoint(name.into()));
    }

    fn find(&self, name: &str) -> Result<usize, SqlError> {
        let missing = || {
            SqlError::new(
                crate::error::state::NO_SAVEPOINT,
                format!("savepoint \"{name}\" does not exist"),
            )
        };
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
        self.versions.clear();
        self.journal.push(Step::RollbackTo(name.into()));
        Ok(())
    }

    /// Remembers a statement for a replay.
    pub(crate) fn record(
        &mut self,
        compiled: &Arc<Compiled>,
        params: &Arc<[Datum]>,
        checksum: u64,
    ) {
        if !self.reads_only() {
            self.journal.push(Step::Ran {
                compiled: compiled.clone(),
                params: params.clone(),
                checksum,
            });
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
