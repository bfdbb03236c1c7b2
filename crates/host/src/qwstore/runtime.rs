//! This node's replica of a shard.
//!
//! Invariants:
//! 1. Versions are installed before anything that follows in the outbox leaves.
//! 2. Collected versions lie at or below the replica's closed timestamp, where nothing is written
//!    any more.

use super::RequestRouter;
use crate::actor::{Actor, Input, ReplicaRuntime};
use crate::flusher::Flushable;
use crate::node_resources::CHUNK_BYTES;
use crate::panics::{MachineName, PanicGuard};
use crate::replica_io::ReplicaIo;
use crate::timers::Wake;
use meridian_clock::{Reading, Timestamp};
use meridian_log::MachineKey;
use meridian_machine::{Address, Outbox, Position};
use meridian_mvcc::{KeyRange, StoreError};
use meridian_store::ShardStore;
use meridian_systems::baselines::qwstore::{Effect, KIND, LogRecord, Message, Put, Replica, Serve};
use meridian_txn::Node;
use meridian_txn::Rows;
use parking_lot::RwLock;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// This node's replica of a shard, with the thread-safe wrapper that steps it.
pub type ReplicaShard = Actor<Replica, QwStoreRuntime>;

/// Carries out the effects of a replica's state machine.
pub struct QwStoreRuntime {
    io: Arc<ReplicaIo>,
    router: Arc<RequestRouter>,
    shard_store: ShardStore,
    closed: RwLock<Timestamp>,
    this: Weak<ReplicaShard>,
}

/// Restores a replica from the log and the store. Returns `None` if this node has no replica of the
/// database.
pub fn begin(
    key: MachineKey,
    router: Arc<RequestRouter>,
    records: Vec<LogRecord>,
) -> Result<Option<Arc<ReplicaShard>>, StoreError> {
    let ((me, incarnation), resources) =
        (router.node().here(), Arc::clone(router.node().resources()));
    if !router.replicas().contains(&me) {
        return Ok(None);
    }
    let shard_store = ShardStore::open(key.database, key.shard, Arc::clone(&resources.store))?;
    let (extent, goes_to) = (shard_store.extent()?, LogRecord::goes_to(&records));
    if extent.position < goes_to {
        // Acknowledged writes are on every replica's disk: otherwise a disk was lost.
        return Err(shard_store.lacks(goes_to));
    }
    let mut out = Outbox::new();
    let replica =
        Replica::new(KeyRange::all(), records, (extent.position, extent.horizon), &mut out);
    let io =
        ReplicaIo::new(KIND, key, (me, incarnation), resources, Arc::clone(router.node().links()));
    Ok(Some(Actor::new(replica, out, |this| QwStoreRuntime {
        io: Arc::new(io),
        router,
        shard_store,
        closed: RwLock::new(extent.horizon),
        this: this.clone(),
    })))
}

impl QwStoreRuntime {
    /// Reads the newest versions of a range, up to `limit_rows` rows and about a megabyte.
    pub fn find(
        &self,
        range: &KeyRange,
        reverse: bool,
        limit_rows: usize,
    ) -> Result<Rows, StoreError> {
        let chunk =
            self.shard_store.scan(range, Timestamp::MAX, reverse, limit_rows, CHUNK_BYTES)?;
        Ok(Rows { rows: chunk.rows, at: Vec::new(), rest: chunk.rest })
    }

    /// Reads for a session of another node, and responds.
    fn serve(&self, serve: &Serve) {
        match self.find(&serve.range, serve.reverse, serve.limit_rows) {
            Ok(Rows { rows, rest, .. }) => {
                self.send(None, serve.to, Message::Found { id: serve.id, rows, rest });
                self.io.flush_to(serve.to.node);
            }
            // Another replica will respond.
            Err(error) => tracing::warn!(%error, "cannot read for a session"),
        }
    }
}

impl ReplicaRuntime<Replica> for QwStoreRuntime {
    fn now(&self) -> Reading {
        self.io.now()
    }

    fn send(&self, deadline: Option<u64>, to: Address, message: Message) {
        let me = self.io.me();
        match to.node == me {
            true => self.router.on_response(me, message), // A replica sends itself no message.
            false => self.io.send(deadline, to, &message),
        }
    }

    fn persist(&self, position: Position, record: LogRecord) {
        self.io.persist(position, record, self.this.upgrade());
    }

    fn act(&self, effect: Effect) {
        match effect {
            Effect::Install(Put { place, at, writes }) => {
                self.shard_store.install(at, &writes, place, 0)
            }
            Effect::Closed(closed) => *self.closed.write() = closed,
            // Reading one key is not worth another thread.
            Effect::Serve(serve) if serve.range.as_point().is_some() => self.serve(&serve),
            Effect::Serve(serve) => {
                if let Some(this) = self.this.upgrade() {
                    self.io.resources().readers.run(move || this.runtime().serve(&serve));
                }
            }
        }
    }

    fn flush(&self) {
        self.io.flush();
    }

    fn wake_at(&self, at: u64, who: Weak<dyn Wake>) {
        self.io.wake_at(at, who);
    }

    fn guard(&self) -> &PanicGuard {
        self.io.guard()
    }

    fn machine(&self) -> MachineName {
        self.io.machine("qwstore")
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

impl Flushable for ReplicaShard {
    fn shard_store(&self) -> &ShardStore {
        &self.runtime().shard_store
    }

    fn closed(&self) -> Timestamp {
        *self.runtime().closed.read()
    }

    fn retention(&self) -> Option<Duration> {
        self.runtime().router.retention()
    }

    fn on_flushed(&self) {}

    fn truncate_log(&self, applied: u64) {
        let io = Arc::clone(&self.runtime().io);
        self.post(Input::Call(Box::new(move |replica: &mut Replica, now, out| {
            io.checkpoint(&replica.stored(now, applied, out));
        })));
    }

    fn on_store_error(&self, _: &StoreError) {}
}
