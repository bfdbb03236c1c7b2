//! One database as its sessions share it.

use crate::analytic::Analytic;
use crate::catalog::Cache;
use crate::memory::QueryMemory;
use crate::system::{Sessions, Surroundings};
use meridian_txn::Database;
use std::sync::Arc;

/// A database: where its transactions begin, and what is known of its catalog.
pub struct Engine {
    name: String,
    database: Arc<dyn Database>,
    analytic: Option<Arc<dyn Analytic>>,
    around: Option<Arc<dyn Surroundings>>,
    sessions: Arc<Sessions>,
    memory: Arc<QueryMemory>,
    pub(crate) cache: Cache,
}

impl Engine {
    /// A database of a name.
    pub fn new(name: impl Into<String>, database: Arc<dyn Database>) -> Self {
        Engine {
            name: name.into(),
            database,
            analytic: None,
            around: None,
            sessions: Arc::default(),
            memory: Arc::default(),
            cache: Cache::default(),
        }
    }

    /// The same with an engine for analytical queries.
    pub fn with_analytic(mut self, analytic: Arc<dyn Analytic>) -> Self {
        self.analytic = Some(analytic);
        self
    }

    /// The same with whoever knows of other databases and sessions.
    pub fn with_surroundings(mut self, around: Arc<dyn Surroundings>) -> Self {
        self.around = Some(around);
        self
    }

    /// Whoever knows of other databases and sessions.
    pub fn surroundings(&self) -> Option<&Arc<dyn Surroundings>> {
        self.around.as_ref()
    }

    /// The same with a room that its sessions share with other databases'.
    pub fn with_sessions(mut self, sessions: Arc<Sessions>) -> Self {
        self.sessions = sessions;
        self
    }

    /// The same with a limit to memory that its queries share with other databases'.
    pub fn with_memory(mut self, memory: Arc<QueryMemory>) -> Self {
        self.memory = memory;
        self
    }

    /// What its queries may hold.
    pub fn memory(&self) -> &Arc<QueryMemory> {
        &self.memory
    }

    /// The sessions of this process.
    pub fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where transactions begin.
    pub fn database(&self) -> &Arc<dyn Database> {
        &self.database
    }

    /// The engine for analytical queries.
    pub fn analytic(&self) -> Option<&Arc<dyn Analytic>> {
        self.analytic.as_ref()
    }
}
