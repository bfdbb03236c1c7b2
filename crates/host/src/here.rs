//! What the databases of a node share.

use crate::database::Catalog;
use crate::identity::OpenError;
use crate::peers::Peers;
use crate::plumbing::Plumbing;
use crate::spanner::Patience;
use crate::transfer::Transfers;
use bytes::Bytes;
use meridian_log::MachineKey;
use meridian_machine::{DatabaseId, Incarnation, NodeId};
use meridian_mvcc::StoreError;
use meridian_systems::envelope::{self, Kind};
use meridian_systems::tapir::Forgetting;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak, mpsc};

/// What the log has of each machine, not read yet.
pub type Records = BTreeMap<MachineKey, Vec<Bytes>>;

/// Something that the directory's thread does, after what it was asked for before.
pub type Chore = Box<dyn FnOnce() + Send>;

/// Where the databases of a node find themselves.
pub struct Here {
    /// This node.
    pub me: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
    /// All members of the cluster.
    pub members: Vec<NodeId>,
    /// How patient the members of groups are.
    pub patience: Patience,
    /// When replicas without a leader forget what is over.
    pub forgetting: Forgetting,
    /// The folder, for errors to name.
    pub folder: Option<PathBuf>,
    /// What its machines share.
    pub plumbing: Arc<Plumbing>,
    /// The links.
    pub peers: Arc<OnceLock<Arc<Peers>>>,
    /// The thread that copies whole shards.
    pub transfers: Arc<OnceLock<Arc<Transfers>>>,
    /// What the log has of machines that have not begun in this life.
    pub records: Remembered,
    /// Where the directory's thread hears what to do.
    pub chores: mpsc::Sender<Chore>,
    /// The catalog of databases.
    pub catalog: Weak<dyn Catalog>,
}

impl Here {
    /// What a store's error means for a database that cannot be opened.
    pub fn of_store(&self, error: StoreError) -> OpenError {
        OpenError::Storage { path: self.folder.clone().unwrap_or_default(), what: error.to_string() }
    }

    /// Reads records that the log has of a machine.
    pub fn read<R: for<'b> minicbor::Decode<'b, ()>>(&self, kind: Kind, kept: &[Bytes]) -> Result<Vec<R>, OpenError> {
        let path = || self.folder.clone().unwrap_or_default().join("log");
        let records: Result<Vec<Vec<R>>, String> = kept.iter().map(|bytes| envelope::read(kind, bytes)).collect();
        Ok(records.map_err(|what| OpenError::Damaged { path: path(), what })?.into_iter().flatten().collect())
    }

    /// Has the directory's thread do something, not within a machine's step.
    pub fn later(&self, chore: impl FnOnce() + Send + 'static) {
        let _ = self.chores.send(Box::new(chore)); // A directory that has ended does nothing more.
    }
}

/// What the log has of machines that have not begun in this life.
pub struct Remembered(Mutex<Records>);

impl Remembered {
    /// All that a log has.
    pub fn new(records: Records) -> Self {
        Remembered(Mutex::new(records))
    }

    /// What there is of a machine; it stays.
    pub fn of(&self, key: MachineKey) -> Vec<Bytes> {
        self.0.lock().get(&key).cloned().unwrap_or_default()
    }

    /// Whether there is anything of a machine.
    pub fn has(&self, key: MachineKey) -> bool {
        self.0.lock().contains_key(&key)
    }

    /// Takes what there is of a machine.
    pub fn take(&self, key: MachineKey) -> Vec<Bytes> {
        self.0.lock().remove(&key).unwrap_or_default()
    }

    /// The machines of a database.
    pub fn machines(&self, database: DatabaseId) -> Vec<MachineKey> {
        self.0.lock().keys().filter(|key| key.database == database.0).copied().collect()
    }
}
