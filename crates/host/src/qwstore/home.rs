//! This node's replica of a shard.
//!
//! Invariants:
//! 1. Versions are installed before anything that follows in the outbox leaves.
//! 2. Collected versions lie at or below the replica's closed timestamp, where nothing is written
//!    any more.

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

/// This node's replica of a shard, with the thread-safe wrapper that steps it.
pub type ReplicaShard = Resident<Replica, ReplicaHome>;

/// Carries out the effects of a replica's state machine.
pub struct ReplicaHome {
    outlet: Arc<Outlet>,
    desk: Arc<Desk>,
    space: Space,
    closed: RwLock<Timestamp>,
    this: Weak<ReplicaShard>,
}

/// Restores a replica from the log and the store. Returns `None` if this node has no replica of the
/// database.
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
        // Acknowledged writes are on every replica's disk: otherwise a disk was lost.
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
    /// Reads the newest versions of a range, up to `limit_rows` rows and about a megabyte.
    pub fn find(
        &self,
        range: &KeyRange,
        reverse: bool,
        limit_rows: usize,
    ) -> Result<Rows, StoreError> {
        let chunk = self.space.scan(range, Timestamp::MAX, reverse, limit_rows, CHUNK_BYTES)?;
        Ok(Rows { rows: chunk.rows, at: Vec::new(), rest: chunk.rest })
    }

    /// Reads for a session of another node, and responds.
    fn serve(&self, serve: &Serve) {
        match self.find(&serve.range, serve.reverse, serve.limit_rows) {
            Ok(Rows { rows, rest, .. }) => {
                self.send(None, serve.to, Message::Found { id: serve.id, rows, rest });
                self.outlet.flush_to(serve.to.node);
            }
            // Another replica will respond.
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
            true => self.desk.hear(me, message), // A replica sends itself no message.
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
            // Reading one key is not worth another thread.
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
