//! The resources of a node that its databases share.

use crate::database::DatabaseCatalog;
use crate::identity::OpenError;
use crate::node_resources::NodeResources;
use crate::peers::Peers;
use crate::protocols::HostedProtocol;
use crate::shard::Timeouts;
use crate::transfer::Transfers;
use bytes::Bytes;
use meridian_log::MachineKey;
use meridian_machine::{DatabaseId, Incarnation, NodeId};
use meridian_mvcc::StoreError;
use meridian_systems::envelope::{self, Kind};
use meridian_systems::tapir::TruncationPolicy;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak, mpsc};

/// The log's records, by replica, not decoded yet.
pub type Records = BTreeMap<MachineKey, Vec<Bytes>>;

/// A task for the directory's thread, which runs tasks one after the other.
pub type BackgroundTask = Box<dyn FnOnce() + Send>;

/// The resources of a node that its databases share.
pub struct NodeContext {
    /// This node.
    pub me: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// All members of the cluster.
    pub members: Vec<NodeId>,
    /// The protocols that the node runs.
    pub protocols: Vec<HostedProtocol>,
    /// Timeouts of replica groups.
    pub timeouts: Timeouts,
    /// The policy by which replicas without a leader truncate their records.
    pub truncation: TruncationPolicy,
    /// The folder, for errors to name.
    pub folder: Option<PathBuf>,
    /// The clock, the timers, the log and the store.
    pub resources: Arc<NodeResources>,
    /// The links to other nodes.
    pub peers: Arc<OnceLock<Arc<Peers>>>,
    /// The thread that copies whole shards.
    pub transfers: Arc<OnceLock<Arc<Transfers>>>,
    /// Log records of replicas that have not started in this process.
    pub records: RecoveredRecords,
    /// The queue of the directory's thread.
    pub background: mpsc::Sender<BackgroundTask>,
    /// The catalog of databases.
    pub catalog: Weak<dyn DatabaseCatalog>,
}

impl NodeContext {
    /// Returns how the node runs the protocol of this name, if it does.
    pub fn protocol(&self, name: &str) -> Option<&HostedProtocol> {
        self.protocols.iter().find(|hosted| hosted.protocol.name == name)
    }

    /// Wraps a store's error for a database that cannot be opened because of it.
    pub fn of_store(&self, error: StoreError) -> OpenError {
        OpenError::Storage {
            path: self.folder.clone().unwrap_or_default(),
            what: error.to_string(),
        }
    }

    /// Decodes records of a replica. Fails if one is damaged.
    pub fn read<R: for<'b> minicbor::Decode<'b, ()>>(
        &self,
        kind: Kind,
        kept: &[Bytes],
    ) -> Result<Vec<R>, OpenError> {
        let path = || self.folder.clone().unwrap_or_default().join("log");
        let records: Result<Vec<Vec<R>>, String> =
            kept.iter().map(|bytes| envelope::read(kind, bytes)).collect();
        Ok(records
            .map_err(|what| OpenError::Damaged { path: path(), what })?
            .into_iter()
            .flatten()
            .collect())
    }

    /// Queues a task for the directory's thread, for work that must not happen within a replica's
    /// step.
    pub fn run_in_background(&self, task: impl FnOnce() + Send + 'static) {
        // After the directory has closed, the task is dropped.
        let _ = self.background.send(Box::new(task));
    }
}

/// Log records of replicas that have not started in this process.
pub struct RecoveredRecords(Mutex<Records>);

impl RecoveredRecords {
    /// Holds all records that were read from the log.
    pub fn new(records: Records) -> Self {
        RecoveredRecords(Mutex::new(records))
    }

    /// Returns the records of a replica, and keeps them.
    pub fn of(&self, key: MachineKey) -> Vec<Bytes> {
        self.0.lock().get(&key).cloned().unwrap_or_default()
    }

    /// True if a replica has records.
    pub fn has(&self, key: MachineKey) -> bool {
        self.0.lock().contains_key(&key)
    }

    /// Removes the records of a replica, and returns them.
    pub fn take(&self, key: MachineKey) -> Vec<Bytes> {
        self.0.lock().remove(&key).unwrap_or_default()
    }

    /// Returns the replicas of a database that have records.
    pub fn machines(&self, database: DatabaseId) -> Vec<MachineKey> {
        self.0.lock().keys().filter(|key| key.database == database.0).copied().collect()
    }
}
