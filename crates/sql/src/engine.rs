//! One database as its sessions share it.

use meridian_txn::Database;
use std::sync::Arc;

/// A database: where its transactions begin, and what is known of its catalog.
pub struct Engine {
    name: String,
    database: Arc<dyn Database>,
}

impl Engine {
    /// A database of a name.
    pub fn new(name: impl Into<String>, database: Arc<dyn Database>) -> Self {
        Engine { name: name.into(), database }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where transactions begin.
    pub fn database(&self) -> &Arc<dyn Database> {
        &self.database
    }
}
