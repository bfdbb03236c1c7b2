//! A database as its sessions share it.

use crate::advisory;
use crate::catalog::Cache;
use crate::error::SqlError;
use crate::memory::QueryMemory;
use crate::notify::Listeners;
use crate::statistics::Changes;
use crate::system::{ServerInfo, Sessions};
use crate::temporary::{Beside, Overlay, Temporary};
use meridian_txn::{Begin, Database, Failure, Transaction};
use std::sync::Arc;
use std::time::Duration;

/// A database: its transactions, and a cache of its catalog.
pub struct Engine {
    name: String,
    /// The database without temporary objects.
    shared: Arc<dyn Database>,
    database: Arc<dyn Database>,
    server_info: Option<Arc<dyn ServerInfo>>,
    sessions: Arc<Sessions>,
    memory: Arc<QueryMemory>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) advisory: Arc<advisory::Process>,
    pub(crate) listeners: Arc<Listeners>,
    /// The temporary objects of the session that it is for.
    temporary: Arc<Temporary>,
}

impl Engine {
    /// Creates the engine of a database.
    pub fn new(name: impl Into<String>, database: Arc<dyn Database>) -> Self {
        Engine {
            name: name.into(),
            shared: database.clone(),
            database,
            server_info: None,
            sessions: Arc::default(),
            memory: Arc::default(),
            cache: Arc::default(),
            changes: Arc::default(),
            advisory: Arc::default(),
            listeners: Arc::default(),
            temporary: Arc::default(),
        }
    }

    /// Returns the engine for the session of a number, which has temporary objects of its own.
    pub(crate) fn for_session(&self, session: u64) -> Engine {
        let temporary = Arc::new(Temporary::new(session, &self.memory));
        let database = Arc::new(Beside::new(self.shared.clone(), temporary.clone()));
        self.over(database, temporary)
    }

    /// Returns the engine for no session: it keeps no temporary objects alive.
    pub(crate) fn without_session(&self) -> Engine {
        self.over(self.shared.clone(), Arc::default())
    }

    fn over(&self, database: Arc<dyn Database>, temporary: Arc<Temporary>) -> Engine {
        Engine {
            name: self.name.clone(),
            shared: self.shared.clone(),
            database,
            server_info: self.server_info.clone(),
            sessions: self.sessions.clone(),
            memory: self.memory.clone(),
            cache: self.cache.clone(),
            changes: self.changes.clone(),
            advisory: self.advisory.clone(),
            listeners: self.listeners.clone(),
            temporary,
        }
    }

    /// Returns the temporary objects of its session.
    pub(crate) fn temporary(&self) -> &Arc<Temporary> {
        &self.temporary
    }

    /// Begins the transaction of its session. One that was not decided is rolled back.
    pub(crate) async fn begin(&self, how: Begin) -> Result<Box<dyn Transaction>, Failure> {
        let shared = self.shared.begin(how).await?;
        Ok(Box::new(Overlay::begin(shared, &self.temporary)))
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

    /// True if old notifications are to be erased now, by a clock that only goes forward.
    pub fn has_due_notifications(&self, now: Duration) -> bool {
        self.listeners.is_due(now)
    }

    /// Erases notifications that every process has had the time to read.
    pub async fn erase_notifications(&self, now: Duration) -> Result<(), SqlError> {
        self.listeners.erase(self, now).await
    }

    /// Returns the database.
    pub fn database(&self) -> &Arc<dyn Database> {
        &self.database
    }
}
