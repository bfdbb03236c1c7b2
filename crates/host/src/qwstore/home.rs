//! This node's replica of a shard.
//!
//! Invariants:
//! 1. Versions are installed before anything that follows in the outbox leaves.
//! 2. What is collected lies at or below what the machine has closed: nothing is written there any
//!    more.

use super::Desk;
use crate::outlet::Outlet;
use crate::panics::{MachineName, PanicGuard};
use crate::plumbing::CHUNK_BYTES;
use crate::resident::{Input, Resident, World};
use crate::settle::Settles;
use crate::timers::Wake;
use meridian_clock::{Reading, Timestamp};
use meridian_log::MachineKey;
use meridian_machine::{Address, Outbox, Position};
use meridian_mvcc::{KeyRange, StoreError};
use meridian_store::Space;
use meridian_systems::baselines::qwstore::{Effect, KIND, Kept, Message, Put, Replica, Serve};
use meridian_txn::Node;
use meridian_txn::Rows;
use parking_lot::RwLock;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A replica at home.
pub type ReplicaShard = Resident<Replica, ReplicaHome>;

/// The world of a replica.
pub struct ReplicaHome {
    outlet: Arc<Outlet>,
    desk: Arc<Desk>,
    space: Space,
    closed: RwLock<Timestamp>,
    this: Weak<ReplicaShard>,
}

/// Brings a replica to life from what the log has of it. `None` if this node is none of the
/// database's.
pub fn begin(
    key: MachineKey,
    desk: Arc<Desk>,
    records: Vec<Kept>,
) -> Result<Option<Arc<ReplicaShard>>, StoreError> {
    let ((me, life), plumbing) = (desk.node().here(), Arc::clone(desk.node().plumbing()));
    if !desk.replicas().contains(&me) {
        return Ok(None);
    }
    let space = Space::open(key.database, key.shard, Arc::clone(&plumbing.store))?;
    let (extent, goes_to) = (space.extent()?, Kept::goes_to(&records));
    if extent.position < goes_to {
        // What was acknowledged is on every replica's disk, or a disk was lost.
        return Err(space.lacks(goes_to));
    }
    let mut out = Outbox::new();
    let replica =
        Replica::new(KeyRange::all(), records, (extent.position, extent.horizon), &mut out);
    let outlet = Outlet::new(KIND, key, (me, life), plumbing, Arc::clone(desk.node().links()));
    Ok(Some(Resident::new(replica, out, |this| ReplicaHome {
        outlet: Arc::new(outlet),
        desk,
        space,
        closed: RwLock::new(extent.horizon),
        this: this.clone(),
    })))
}

impl ReplicaHome {
    /// What is newest in a range here: of so many rows and about a megabyte at most.
    pub fn find(
        &self,
        range: &KeyRange,
        reverse: bool,
        limit_rows: usize,
    ) -> Result<Rows, StoreError> {
        let chunk = self.space.scan(range, Timestamp::MAX, reverse, limit_rows, CHUNK_BYTES)?;
        Ok(Rows { rows: chunk.rows, at: Vec::new(), rest: chunk.rest })
    }

    /// Reads for a session of another node, and answers it.
    fn serve(&self, serve: &Serve) {
        match self.find(&serve.range, serve.reverse, serve.limit_rows) {
            Ok(Rows { rows, rest, .. }) => {
                self.send(None, serve.to, Message::Found { id: serve.id, rows, rest });
                self.outlet.flush_to(serve.to.node);
            }
            // Others have it.
            Err(error) => tracing::warn!(%error, "cannot read for a session"),
        }
    }
}

impl World<Replica> for ReplicaHome {
    fn now(&self) -> Reading {
        self.outlet.now()
    }

    fn send(&self, deadline: Option<u64>, to: Address, message: Message) {
        let me = self.outlet.me();
        match to.node == me {
            true => self.desk.hear(me, message), // A replica says nothing to itself.
            false => self.outlet.send(deadline, to, &message),
        }
    }

    fn persist(&self, position: Position, record: Kept) {
        self.outlet.persist(position, record, self.this.upgrade());
    }

    fn act(&self, effect: Effect) {
        match effect {
            Effect::Install(Put { place, at, writes }) => self.space.install(at, &writes, place, 0),
            Effect::Closed(closed) => *self.closed.write() = closed,
            // What one key takes is not worth another thread.
            Effect::Serve(serve) if serve.range.as_point().is_some() => self.serve(&serve),
            Effect::Serve(serve) => {
                if let Some(this) = self.this.upgrade() {
                    self.outlet.plumbing().readers.run(move || this.world().serve(&serve));
                }
            }
        }
    }

    fn flush(&self) {
        self.outlet.flush();
    }

    fn wake_at(&self, at: u64, who: Weak<dyn Wake>) {
        self.outlet.wake_at(at, who);
    }

    fn guard(&self) -> &PanicGuard {
        self.outlet.guard()
    }

    fn machine(&self) -> MachineName {
        self.outlet.machine("qwstore")
    }

    fn kind(message: &Message) -> &'static str {
        match message {
            Message::Put { .. } => "put",
            Message::Stored { .. } => "stored",
            Message::Read { .. } => "read",
            Message::Found { .. } => "found",
        }
    }
}

impl Settles for ReplicaShard {
    fn space(&self) -> &Space {
        &self.world().space
    }

    fn closed(&self) -> Timestamp {
        *self.world().closed.read()
    }

    fn retention(&self) -> Option<Duration> {
        self.world().desk.retention()
    }

    fn settled(&self) {}

    fn let_go(&self, applied: u64) {
        let outlet = Arc::clone(&self.world().outlet);
        self.post(Input::Call(Box::new(move |replica: &mut Replica, now, out| {
            outlet.checkpoint(&replica.stored(now, applied, out));
        })));
    }

    fn heed(&self, _: &StoreError) {}
}
