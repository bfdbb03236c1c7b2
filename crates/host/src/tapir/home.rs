//! This node's replica of a shard.
//!
//! Invariants:
//! 1. Versions are installed before anything that follows in the outbox leaves.
//! 2. A read without a step loads the settled timestamp before it reads the versions. In the other
//!    order, a commit that the read misses could be settled in between.

use super::Desk;
use crate::outlet::Outlet;
use crate::panics::{MachineName, PanicGuard};
use crate::plumbing::CHUNK_BYTES;
use crate::resident::{Input, Resident, World};
use crate::settle::Settles;
use crate::timers::Wake;
use meridian_clock::{Reading, Timestamp};
use meridian_log::MachineKey;
use meridian_machine::{Address, Outbox, Position, ShardId};
use meridian_mvcc::{KeyRange, StoreError, Write};
use meridian_replication::inconsistent::{self, Config};
use meridian_store::Space;
use meridian_systems::tapir::{
    Effect, Forgetting, KIND, Kept, Message, Page, Progress, Replica, Serve, Shard, looked,
};
use meridian_txn::Failure;
use meridian_txn::Node;
use meridian_txn::tapir::{Found, Guarantee, Looked};
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
pub type ReplicaShard = Resident<Replica, ReplicaHome>;

/// Carries out the effects of a replica's state machine.
pub struct ReplicaHome {
    outlet: Arc<Outlet>,
    desk: Arc<Desk>,
    space: Space,
    progress: RwLock<Progress>,
    this: Weak<ReplicaShard>,
}

/// Parameters of a replica that is to be restored.
pub struct Place {
    /// The shard's versions on this node.
    pub space: Space,
    /// The isolation level of the database.
    pub guarantee: Guarantee,
    /// The policy by which the replica truncates its record.
    pub forgetting: Forgetting,
    /// True if the replica joins a running shard: it copies the shard's state first.
    pub takes_over: bool,
    /// The database's request router on this node.
    pub desk: Arc<Desk>,
}

/// Restores a replica from the log and the store. Returns `None` if this node has no replica of the
/// database.
pub fn begin(place: Place, records: Vec<Kept>) -> Result<Option<Arc<ReplicaShard>>, StoreError> {
    let Place { space, guarantee, forgetting, takes_over, desk } = place;
    let ((me, life), plumbing) = (desk.node().here(), Arc::clone(desk.node().plumbing()));
    let id = space.id();
    let key = MachineKey { database: id.database, shard: id.shard };
    let extent = space.extent()?;
    let goes_to = Kept::goes_to(&records).unwrap_or_default();
    if extent.position < goes_to {
        return Err(space.lacks(goes_to)); // Truncated records are in no log any more.
    }
    let config = Config {
        me,
        members: desk.members(),
        database: desk.database(),
        shard: ShardId(key.shard),
        repeat_ns: REPEAT_NS,
        view_timeout_ns: VIEW_TIMEOUT_NS,
        gather_ns: GATHER_NS,
        part_bytes: PART_BYTES,
    };
    let shard = Shard::new(guarantee, ShardId(key.shard), KeyRange::all());
    let mut out = Outbox::new();
    let Some(replica) =
        Replica::new(config, (life, takes_over), shard, records, plumbing.clock.now(), &mut out)
    else {
        return Ok(None);
    };
    let replica = replica.forgetting(forgetting);
    let progress = Progress::new(extent.position, extent.horizon, replica.is_copying());
    let outlet = Outlet::new(KIND, key, (me, life), plumbing, Arc::clone(desk.node().links()));
    Ok(Some(Resident::new(replica, out, |this| ReplicaHome {
        outlet: Arc::new(outlet),
        desk,
        space,
        progress: RwLock::new(progress),
        this: this.clone(),
    })))
}

impl ReplicaHome {
    /// Returns the shard's versions.
    pub fn space(&self) -> &Space {
        &self.space
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
    ) -> Option<Result<Found, Failure>> {
        if !self.progress.read().has_all() {
            return None;
        }
        let through = self.closed();
        match self.space.scan(range, Timestamp::MAX, reverse, limit, CHUNK_BYTES) {
            Ok(chunk) => Some(Ok(Found { chunk, through })),
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
    ) -> Option<Result<Looked, Failure>> {
        if at > self.closed() {
            return None;
        }
        Some(match self.space.scan(range, at, reverse, limit, CHUNK_BYTES) {
            Ok(chunk) => Ok(looked(range, vec![Page::of(chunk, reverse)], (reverse, limit))),
            Err(StoreError::BelowHorizon { oldest }) => Err(Failure::BelowHorizon { oldest }),
            Err(StoreError::Elsewhere) => return None,
            Err(error) => Err(Failure::Storage(error.to_string())),
        })
    }

    fn install(&self, at: Timestamp, writes: &[Write]) {
        let place = self.progress.write().install(at);
        if let Some(place) = place {
            self.space.install(at, writes, place, 0);
        }
    }

    /// Reads for a session, and responds.
    fn serve(&self, serve: &Serve) {
        let found =
            self.space.scan(&serve.range, serve.at(), serve.reverse, serve.limit_rows, CHUNK_BYTES);
        let answer = match found {
            Ok(chunk) => serve.answer(Page::of(chunk, serve.reverse)),
            Err(StoreError::BelowHorizon { oldest }) => Message::TooOld { id: serve.id, oldest },
            // Another replica will respond.
            Err(error) => return tracing::warn!(%error, "cannot read for a session"),
        };
        self.send(None, serve.to, answer);
        self.outlet.flush_to(serve.to.node);
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
            Effect::Install { at, writes } => self.install(at, &writes),
            Effect::Adopt(versions) => versions
                .iter()
                .for_each(|(at, write)| self.install(*at, std::slice::from_ref(write))),
            Effect::Began { view, settled } => self.progress.write().began(view, settled),
            Effect::Copied(at) => {
                self.space.raise_horizon(at);
                self.progress.write().copied();
            }
            Effect::Serves => self.progress.write().serves(),
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
        self.outlet.machine("tapir")
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

impl Settles for ReplicaShard {
    fn space(&self) -> &Space {
        &self.world().space
    }

    fn closed(&self) -> Timestamp {
        self.world().closed()
    }

    fn retention(&self) -> Option<Duration> {
        self.world().desk.retention()
    }

    fn settled(&self) {}

    fn waits_for_checkpoint(&self) -> bool {
        self.world().progress.read().waits_for_store()
    }

    fn let_go(&self, applied: u64) {
        let home = self.world();
        let outlet = Arc::clone(&home.outlet);
        let has_copy = home.progress.read().has_copy_in(applied);
        if has_copy {
            if let Err(error) = home.space.keep_horizon() {
                tracing::warn!(%error, "cannot store the horizon of a copy; trying again");
                return;
            }
            home.progress.write().horizon_kept();
        }
        let stored = home.progress.write().stored(applied);
        self.post(Input::Call(Box::new(move |replica: &mut Replica, _, out| {
            stored.into_iter().for_each(|view| replica.stored(view, applied, out));
            if let Some(checkpoint) = replica.checkpoint() {
                outlet.checkpoint(&checkpoint);
            }
        })));
    }

    fn heed(&self, _: &StoreError) {}
}
