//! What every machine's home has: a way to other nodes' machines, a place in the node's log, and
//! the time.
//!
//! ```text
//!   send ─────▶ a link's queue ──┐
//!   persist ──▶ the log's queue ─┴─ flush ──▶ they leave
//! ```
//!
//! What a batch of steps says leaves at its end: to wake a link or the log costs more than a step.

use crate::journal::Durable;
use crate::panics::{MachineName, PanicGuard};
use crate::peers::Peers;
use crate::plumbing::Plumbing;
use crate::timers::Wake;
use meridian_clock::Reading;
use meridian_log::MachineKey;
use meridian_machine::{Address, DatabaseId, Incarnation, NodeId, Position, ShardId};
use meridian_systems::envelope::{self, Kind};
use minicbor::Encode;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};

/// Where what a machine asks for leaves its home.
pub struct Outlet {
    kind: Kind,
    key: MachineKey,
    here: (NodeId, Incarnation),
    plumbing: Arc<Plumbing>,
    peers: Arc<OnceLock<Arc<Peers>>>,
    /// Whose links are to be flushed.
    said: Mutex<Vec<NodeId>>,
}

impl Outlet {
    /// Of a machine of a protocol, on this node in this life.
    pub fn new(
        kind: Kind,
        key: MachineKey,
        here: (NodeId, Incarnation),
        plumbing: Arc<Plumbing>,
        peers: Arc<OnceLock<Arc<Peers>>>,
    ) -> Self {
        Outlet { kind, key, here, plumbing, peers, said: Mutex::default() }
    }

    /// Whose place in the log it is.
    pub fn key(&self) -> MachineKey {
        self.key
    }

    /// Which shard the machine is of.
    pub fn shard(&self) -> ShardId {
        ShardId(self.key.shard)
    }

    /// The node.
    pub fn me(&self) -> NodeId {
        self.here.0
    }

    /// What all machines of the node share.
    pub fn plumbing(&self) -> &Arc<Plumbing> {
        &self.plumbing
    }

    /// Ends the node when its own code panics.
    pub fn guard(&self) -> &PanicGuard {
        &self.plumbing.guard
    }

    /// The machine, as reports name it.
    pub fn machine(&self, protocol: &'static str) -> MachineName {
        let (me, incarnation) = self.here;
        let address = Address {
            incarnation,
            ..Address::replica(me, DatabaseId(self.key.database), self.shard())
        };
        MachineName { protocol, address }
    }

    /// The time now.
    pub fn now(&self) -> Reading {
        self.plumbing.clock.now()
    }

    /// Sends a message to a machine of another node, before the deadline if there is one.
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

    /// What was said to a node leaves now: for who answers outside of a step.
    pub fn flush_to(&self, node: NodeId) {
        if let Some(peers) = self.peers.get() {
            peers.flush(node);
        }
    }

    /// Keeps a record for a machine that is still there.
    pub fn persist<R: Encode<()>>(
        &self,
        position: Position,
        record: R,
        who: Option<Arc<impl Durable + 'static>>,
    ) {
        if let Some(who) = who.filter(|_| !self.guard().is_halted()) {
            self.plumbing.journal.persist(
                self.key,
                || envelope::write(self.kind, &vec![record]),
                position,
                who,
            );
        }
    }

    /// The machine's records before this are not needed any more: these are what is left.
    pub fn checkpoint<R: Encode<()>>(&self, checkpoint: &[R]) {
        self.plumbing.journal.checkpoint(self.key, envelope::write(self.kind, &checkpoint));
    }

    /// A batch of steps is done: what was gathered leaves.
    pub fn flush(&self) {
        self.plumbing.journal.kick();
        if let Some(peers) = self.peers.get() {
            let said = std::mem::take(&mut *self.said.lock());
            said.into_iter().for_each(|node| peers.flush(node));
        }
    }

    /// Wakes the machine when the boot clock reaches `at`.
    pub fn wake_at(&self, at: u64, who: Weak<dyn Wake>) {
        self.plumbing.timers.wake_at(at, who);
    }
}
