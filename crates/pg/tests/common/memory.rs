//! The real database of a node, in memory, without a disk.

use meridian_host::node::{Node, Options};
use meridian_systems::Protocol;
use meridian_txn::{Begin, Database, Failure, Future, IsolationLevel, Transaction};
use std::sync::Arc;
use std::time::Duration;

/// The database, and its node.
pub struct Memory {
    database: Arc<dyn Database>,
    _node: Arc<Node>,
}

impl Memory {
    /// Creates a database of a protocol.
    pub fn of(protocol: &'static Protocol) -> Memory {
        let node = Node::open(Options::alone()).expect("a node in memory opens");
        futures::executor::block_on(node.create_database("lab", protocol, Vec::new()))
            .expect("it is created");
        Memory { database: node.database("lab").expect("it was created"), _node: node }
    }
}

impl Default for Memory {
    fn default() -> Self {
        let node = Node::open(Options::alone()).expect("a node in memory opens");
        Memory { database: node.database("postgres").expect("it exists from birth"), _node: node }
    }
}

impl Database for Memory {
    fn isolation(&self) -> IsolationLevel {
        self.database.isolation()
    }

    fn sleep(&self, time: Duration) -> Future<'_, ()> {
        self.database.sleep(time)
    }

    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        self.database.begin(how)
    }
}
