//! The outputs of a replica on this node: messages to other nodes, log records and wake-ups.
//!
//! ```text
//!   send ─────▶ a link's queue ──┐
//!   persist ──▶ the log's queue ─┴─ flush ──▶ they leave
//! ```
//!
//! Output leaves at the end of a batch of steps: waking a link or the log costs more than a step.

use crate::journal::Durable;
use crate::node_resources::NodeResources;
use crate::panics::{MachineName, PanicGuard};
use crate::peers::Peers;
use crate::timers::Wake;
use meridian_clock::Reading;
use meridian_log::MachineKey;
use meridian_machine::{Address, DatabaseId, Incarnation, NodeId, Position, ShardId};
use meridian_systems::envelope::{self, Kind};
use minicbor::Encode;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};

/// Carries out what one replica's state machine asks of its node.
pub struct ReplicaIo {
    kind: Kind,
    key: MachineKey,
    here: (NodeId, Incarnation),
    resources: Arc<NodeResources>,
    peers: Arc<OnceLock<Arc<Peers>>>,
    /// Nodes with messages queued since the last flush.
    said: Mutex<Vec<NodeId>>,
}

impl ReplicaIo {
    /// Returns the outlet of a replica in this incarnation of the node.
    pub fn new(
        kind: Kind,
        key: MachineKey,
        here: (NodeId, Incarnation),
        resources: Arc<NodeResources>,
        peers: Arc<OnceLock<Arc<Peers>>>,
    ) -> Self {
        ReplicaIo { kind, key, here, resources, peers, said: Mutex::default() }
    }

    /// Returns the replica's key in the log.
    pub fn key(&self) -> MachineKey {
        self.key
    }

    /// Returns the replica's shard.
    pub fn shard(&self) -> ShardId {
        ShardId(self.key.shard)
    }

    /// Returns this node.
    pub fn me(&self) -> NodeId {
        self.here.0
    }

    /// Returns the resources that all replicas of the node share.
    pub fn resources(&self) -> &Arc<NodeResources> {
        &self.resources
    }

    /// Returns the guard that ends the node when its own code panics.
    pub fn guard(&self) -> &PanicGuard {
        &self.resources.guard
    }

    /// Returns the replica's name for reports.
    pub fn machine(&self, protocol: &'static str) -> MachineName {
        let (me, incarnation) = self.here;
        let address = Address {
            incarnation,
            ..Address::replica(me, DatabaseId(self.key.database), self.shard())
        };
        MachineName { protocol, address }
    }

    /// Returns a clock reading.
    pub fn now(&self) -> Reading {
        self.resources.clock.now()
    }

    /// Sends a message to a replica or coordinator of another node, before the deadline if there is
    /// one.
    pub fn send<M: Encode<()>>(&self, deadline: Option<u64>, to: Address, message: &M) {
        let Some(peers) = self.peers.get().filter(|_| !self.guard().is_halted()) else { return };
        let (me, incarnation) = self.here;
        let database = DatabaseId(self.key.database);
        let from = Address { incarnation, ..Address::replica(me, database, self.shard()) };
        peers.post(to.node, deadline, envelope::write_frame(self.kind, from, to, message));
        let mut said = self.said.lock();
        if !said.contains(&to.node) {
            said.push(to.node);
        }
    }

    /// Flushes the link to one node, for answers sent outside a step.
    pub fn flush_to(&self, node: NodeId) {
        if let Some(peers) = self.peers.get() {
            peers.flush(node);
        }
    }

    /// Persists a record, unless the replica is gone or the node is halted.
    pub fn persist<R: Encode<()>>(
        &self,
        position: Position,
        record: R,
        who: Option<Arc<impl Durable + 'static>>,
    ) {
        if let Some(who) = who.filter(|_| !self.guard().is_halted()) {
            self.resources.journal.persist(
                self.key,
                || envelope::write(self.kind, &vec![record]),
                position,
                who,
            );
        }
    }

    /// Replaces the replica's earlier records in the log with this checkpoint.
    pub fn checkpoint<R: Encode<()>>(&self, checkpoint: &[R]) {
        self.resources.journal.checkpoint(self.key, envelope::write(self.kind, &checkpoint));
    }

    /// Flushes the log and the links at the end of a batch of steps.
    pub fn flush(&self) {
        self.resources.journal.kick();
        if let Some(peers) = self.peers.get() {
            let said = std::mem::take(&mut *self.said.lock());
            said.into_iter().for_each(|node| peers.flush(node));
        }
    }

    /// Wakes the replica when the boot clock reaches `at`, in nanoseconds.
    pub fn wake_at(&self, at: u64, who: Weak<dyn Wake>) {
        self.resources.timers.wake_at(at, who);
    }
}
