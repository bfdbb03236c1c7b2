//! This node's replica of a shard.
//!
//! Invariants:
//! 1. Versions are installed before anything that follows in the outbox leaves.
//! 2. A read without a step loads the settled timestamp before it reads the versions. In the other
//!    order, a commit that the read misses could be settled in between.

use super::RequestRouter;
use crate::actor::{Actor, Input, ReplicaRuntime};
use crate::flusher::Flushable;
use crate::node_resources::CHUNK_BYTES;
use crate::panics::{MachineName, PanicGuard};
use crate::replica_io::ReplicaIo;
use crate::timers::Wake;
use meridian_clock::{Reading, Timestamp};
use meridian_log::MachineKey;
use meridian_machine::{Address, Outbox, Position, ShardId};
use meridian_mvcc::{KeyRange, StoreError, Write};
use meridian_replication::inconsistent::{self, Config};
use meridian_store::ShardStore;
use meridian_systems::tapir::{
    Effect, KIND, LogRecord, Message, Page, Progress, Replica, Serve, Shard, TruncationPolicy,
    looked,
};
use meridian_txn::Failure;
use meridian_txn::Node;
use meridian_txn::tapir::{Guarantee, ReadResult, SnapshotRead};
use parking_lot::RwLock;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Time after which the messages of a view change are sent again.
const REPEAT_NS: u64 = 100_000_000;
/// Time after which a view change that does not finish is given up.
const VIEW_TIMEOUT_NS: u64 = 1_000_000_000;
/// Time that a view's leader with enough responses waits for the remaining ones.
const GATHER_NS: u64 = 50_000_000;
/// Bytes of a record in one message: less than a frame and far less than a link's queue hold.
const PART_BYTES: usize = 4 << 20;

/// This node's replica of a shard, with the thread-safe wrapper that steps it.
pub type ReplicaShard = Actor<Replica, TapirRuntime>;

/// Carries out the effects of a replica's state machine.
pub struct TapirRuntime {
    io: Arc<ReplicaIo>,
    router: Arc<RequestRouter>,
    shard_store: ShardStore,
    progress: RwLock<Progress>,
    this: Weak<ReplicaShard>,
}

/// Parameters of a replica that is to be restored.
pub struct ReplicaSetup {
    /// The shard's versions on this node.
    pub shard_store: ShardStore,
    /// The isolation level of the database.
    pub guarantee: Guarantee,
    /// The policy by which the replica truncates its record.
    pub truncation: TruncationPolicy,
    /// True if the replica joins a running shard: it copies the shard's state first.
    pub takes_over: bool,
    /// The database's request router on this node.
    pub router: Arc<RequestRouter>,
}

/// Restores a replica from the log and the store. Returns `None` if this node has no replica of the
/// database.
pub fn begin(
    setup: ReplicaSetup,
    records: Vec<LogRecord>,
) -> Result<Option<Arc<ReplicaShard>>, StoreError> {
    let ReplicaSetup { shard_store, guarantee, truncation, takes_over, router } = setup;
    let ((me, incarnation), resources) =
        (router.node().here(), Arc::clone(router.node().resources()));
    let id = shard_store.id();
    let key = MachineKey { database: id.database, shard: id.shard };
    let extent = shard_store.extent()?;
    let goes_to = LogRecord::goes_to(&records).unwrap_or_default();
    if extent.position < goes_to {
        return Err(shard_store.lacks(goes_to)); // Truncated records are in no log any more.
    }
    let config = Config {
        me,
        members: router.members(),
        database: router.database(),
        shard: ShardId(key.shard),
        repeat_ns: REPEAT_NS,
        view_timeout_ns: VIEW_TIMEOUT_NS,
        gather_ns: GATHER_NS,
        part_bytes: PART_BYTES,
    };
    let shard = Shard::new(guarantee, ShardId(key.shard), KeyRange::all());
    let mut out = Outbox::new();
    let Some(replica) = Replica::new(
        config,
        (incarnation, takes_over),
        shard,
        records,
        resources.clock.now(),
        &mut out,
    ) else {
        return Ok(None);
    };
    let replica = replica.truncation(truncation);
    let progress = Progress::new(extent.position, extent.horizon, replica.is_copying());
    let io =
        ReplicaIo::new(KIND, key, (me, incarnation), resources, Arc::clone(router.node().links()));
    Ok(Some(Actor::new(replica, out, |this| TapirRuntime {
        io: Arc::new(io),
        router,
        shard_store,
        progress: RwLock::new(progress),
        this: this.clone(),
    })))
}

impl TapirRuntime {
    /// Returns the shard's versions.
    pub fn shard_store(&self) -> &ShardStore {
        &self.shard_store
    }

    /// Returns the timestamp at or below which every transaction has ended here and is installed.
    pub fn closed(&self) -> Timestamp {
        self.progress.read().closed()
    }

    /// Reads the newest versions of a range, for a session of this node. Returns `None` while this
    /// replica lacks data.
    pub fn find(
        &self,
        range: &KeyRange,
        reverse: bool,
        limit: usize,
    ) -> Option<Result<ReadResult, Failure>> {
        if !self.progress.read().has_all() {
            return None;
        }
        let through = self.closed();
        match self.shard_store.scan(range, Timestamp::MAX, reverse, limit, CHUNK_BYTES) {
            Ok(chunk) => Some(Ok(ReadResult { chunk, through })),
            Err(StoreError::Elsewhere) => None, // The node has no replica any more.
            Err(error) => Some(Err(Failure::Storage(error.to_string()))),
        }
    }

    /// Reads a range at a timestamp, for a session of this node. Returns `None` if a transaction
    /// may still commit at or below the timestamp.
    pub fn look(
        &self,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit: usize,
    ) -> Option<Result<SnapshotRead, Failure>> {
        if at > self.closed() {
            return None;
        }
        Some(match self.shard_store.scan(range, at, reverse, limit, CHUNK_BYTES) {
            Ok(chunk) => Ok(looked(range, vec![Page::of(chunk, reverse)], (reverse, limit))),
            Err(StoreError::BelowHorizon { oldest }) => Err(Failure::BelowHorizon { oldest }),
            Err(StoreError::Elsewhere) => return None,
            Err(error) => Err(Failure::Storage(error.to_string())),
        })
    }

    fn install(&self, at: Timestamp, writes: &[Write]) {
        let place = self.progress.write().install(at);
        if let Some(place) = place {
            self.shard_store.install(at, writes, place, 0);
        }
    }

    /// Reads for a session, and responds.
    fn serve(&self, serve: &Serve) {
        let found = self.shard_store.scan(
            &serve.range,
            serve.at(),
            serve.reverse,
            serve.limit_rows,
            CHUNK_BYTES,
        );
        let answer = match found {
            Ok(chunk) => serve.answer(Page::of(chunk, serve.reverse)),
            Err(StoreError::BelowHorizon { oldest }) => Message::TooOld { id: serve.id, oldest },
            // Another replica will respond.
            Err(error) => return tracing::warn!(%error, "cannot read for a session"),
        };
        self.send(None, serve.to, answer);
        self.io.flush_to(serve.to.node);
    }
}

impl ReplicaRuntime<Replica> for TapirRuntime {
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
            Effect::Install { at, writes } => self.install(at, &writes),
            Effect::Adopt(versions) => versions
                .iter()
                .for_each(|(at, write)| self.install(*at, std::slice::from_ref(write))),
            Effect::Began { view, settled } => self.progress.write().began(view, settled),
            Effect::Copied(at) => {
                self.shard_store.raise_horizon(at);
                self.progress.write().copied();
            }
            Effect::Serves => self.progress.write().serves(),
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
        self.io.machine("tapir")
    }

    fn kind(message: &Message) -> &'static str {
        use inconsistent::Message as Said;
        match message {
            Message::Operation(Said::Propose { .. }) => "operation: propose",
            Message::Operation(Said::Reply { .. }) => "operation: reply",
            Message::Operation(Said::Finalize { .. }) => "operation: finalize",
            Message::Operation(Said::Confirm { .. }) => "operation: confirm",
            Message::Operation(Said::Missing { .. }) => "operation: missing",
            Message::Operation(Said::LeaveView { .. }) => "view: leave",
            Message::Operation(Said::Change { .. }) => "view: change",
            Message::Operation(Said::StartView { .. }) => "view: start",
            Message::Operation(Said::Started { .. }) => "view: started",
            Message::Operation(Said::Tell { .. }) => "record: tell",
            Message::Operation(Said::More { .. }) => "record: more",
            Message::Operation(Said::Renew { .. }) => "renew",
            Message::Look { .. } => "look",
            Message::Looked { .. } => "looked",
            Message::Read { .. } => "read",
            Message::Found { .. } => "found",
            Message::Copy { .. } => "copy",
            Message::TooOld { .. } => "too old",
            Message::TakeTurn { .. } => "turn: take",
            Message::Queued { .. } => "turn: queued",
            Message::HasTurn { .. } => "turn: given",
            Message::KeepTurn { .. } => "turn: keep",
            Message::Leave { .. } => "turn: leave",
        }
    }
}

impl Flushable for ReplicaShard {
    fn shard_store(&self) -> &ShardStore {
        &self.runtime().shard_store
    }

    fn closed(&self) -> Timestamp {
        self.runtime().closed()
    }

    fn retention(&self) -> Option<Duration> {
        self.runtime().router.retention()
    }

    fn on_flushed(&self) {}

    fn waits_for_checkpoint(&self) -> bool {
        self.runtime().progress.read().waits_for_store()
    }

    fn truncate_log(&self, applied: u64) {
        let runtime = self.runtime();
        let io = Arc::clone(&runtime.io);
        let has_copy = runtime.progress.read().has_copy_in(applied);
        if has_copy {
            if let Err(error) = runtime.shard_store.keep_horizon() {
                tracing::warn!(%error, "cannot store the horizon of a copy; trying again");
                return;
            }
            runtime.progress.write().horizon_kept();
        }
        let stored = runtime.progress.write().stored(applied);
        self.post(Input::Call(Box::new(move |replica: &mut Replica, _, out| {
            stored.into_iter().for_each(|view| replica.stored(view, applied, out));
            if let Some(checkpoint) = replica.checkpoint() {
                io.checkpoint(&checkpoint);
            }
        })));
    }

    fn on_store_error(&self, _: &StoreError) {}
}
