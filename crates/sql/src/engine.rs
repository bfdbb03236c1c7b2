//! A database as its sessions share it.

use crate::advisory;
use crate::catalog::Cache;
use crate::error::SqlError;
use crate::memory::QueryMemory;
use crate::statistics::Changes;
use crate::system::{ServerInfo, Sessions};
use meridian_txn::Database;
use std::sync::Arc;
use std::time::Duration;

/// A database: its transactions, and a cache of its catalog.
pub struct Engine {
    name: String,
    database: Arc<dyn Database>,
    server_info: Option<Arc<dyn ServerInfo>>,
    sessions: Arc<Sessions>,
    memory: Arc<QueryMemory>,
    pub(crate) cache: Cache,
    pub(crate) changes: Changes,
    pub(crate) advisory: Arc<advisory::Process>,
}

impl Engine {
    /// Creates the engine of a database.
    pub fn new(name: impl Into<String>, database: Arc<dyn Database>) -> Self {
        Engine {
            name: name.into(),
            database,
            server_info: None,
            sessions: Arc::default(),
            memory: Arc::default(),
            cache: Cache::default(),
            changes: Changes::default(),
            advisory: Arc::default(),
        }
    }

    /// Sets the server information, about other databases and sessions.
    pub fn with_server_info(mut self, server_info: Arc<dyn ServerInfo>) -> Self {
        self.server_info = Some(server_info);
        self
    }

    /// Returns the server information.
    pub fn server_info(&self) -> Option<&Arc<dyn ServerInfo>> {
        self.server_info.as_ref()
    }

    /// Sets the sessions of the process, which several databases share.
    pub fn with_sessions(mut self, sessions: Arc<Sessions>) -> Self {
        self.sessions = sessions;
        self
    }

    /// Sets the memory limit of queries, which several databases share.
    pub fn with_memory(mut self, memory: Arc<QueryMemory>) -> Self {
        self.memory = memory;
        self
    }

    /// Returns the memory limit of queries.
    pub fn memory(&self) -> &Arc<QueryMemory> {
        &self.memory
    }

    /// Returns the sessions of this process.
    pub fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if much of a table has changed since its statistics were made, and it is time to make
    /// them again, by a clock that only goes forward.
    pub fn has_outdated_statistics(&self, now: Duration) -> bool {
        self.changes.has_due(now)
    }

    /// True if advisory locks of this process's sessions are to be kept or released now, by a clock
    /// that only goes forward.
    pub fn has_due_locks(&self, now: Duration) -> bool {
        self.advisory.is_due(now)
    }

    /// Keeps the advisory locks of this process's sessions, and releases those of sessions that
    /// have ended. To be called every second; otherwise other processes take locks over after a
    /// while.
    pub async fn keep_locks(&self, now: Duration) -> Result<(), SqlError> {
        self.advisory.keep(self, now).await
    }

    /// Returns the database.
    pub fn database(&self) -> &Arc<dyn Database> {
        &self.database
    }
}
