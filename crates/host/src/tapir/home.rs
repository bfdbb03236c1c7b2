//! This node's replica of a shard.
//!
//! Invariants:
//! 1. Versions are installed before anything that follows in the outbox leaves.
//! 2. What is looked at in the space without a step is looked at after what is settled: the other
//!    way round something could be settled in between that was not seen.

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

/// What was said to begin a view is said again after so long.
const REPEAT_NS: u64 = 100_000_000;
/// A view that does not begin is given up after so long.
const VIEW_TIMEOUT_NS: u64 = 1_000_000_000;
/// A view's leader that has heard enough waits so long for the rest.
const GATHER_NS: u64 = 50_000_000;
/// So much of a record is said at once: a frame holds more, and a link's queue far more.
const PART_BYTES: usize = 4 << 20;

/// A replica at home.
pub type ReplicaShard = Resident<Replica, ReplicaHome>;

/// The world of a replica.
pub struct ReplicaHome {
    outlet: Arc<Outlet>,
    desk: Arc<Desk>,
    space: Space,
    progress: RwLock<Progress>,
    this: Weak<ReplicaShard>,
}

/// Where a replica finds itself.
pub struct Place {
    /// What the node has of the shard.
    pub space: Space,
    /// What its database promises.
    pub guarantee: Guarantee,
    /// When it forgets what is over.
    pub forgetting: Forgetting,
    /// It was none from the beginning: what the others have is copied first.
    pub takes_over: bool,
    /// The database's sessions on this node.
    pub desk: Arc<Desk>,
}

/// Brings a replica to life from what the log has of it. `None` if this node is none of the
/// database's.
pub fn begin(place: Place, records: Vec<Kept>) -> Result<Option<Arc<ReplicaShard>>, StoreError> {
    let Place { space, guarantee, forgetting, takes_over, desk } = place;
    let ((me, life), plumbing) = (desk.node().here(), Arc::clone(desk.node().plumbing()));
    let id = space.id();
    let key = MachineKey { database: id.database, shard: id.shard };
    let extent = space.extent()?;
    let goes_to = Kept::goes_to(&records).unwrap_or_default();
    if extent.position < goes_to {
        return Err(space.lacks(goes_to)); // What was forgotten elsewhere is nowhere any more.
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
    /// The shard's versions.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Everything at or below has ended here, and stands in its store.
    pub fn closed(&self) -> Timestamp {
        self.progress.read().closed()
    }

    /// What is newest in a range here, for a session of this node; nothing, before it has
    /// everything.
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

    /// What stands in a range at a timestamp, for a session of this node; nothing, where somebody
    /// may still come to write there.
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

    /// Reads for a session, and answers it.
    fn serve(&self, serve: &Serve) {
        let found =
            self.space.scan(&serve.range, serve.at(), serve.reverse, serve.limit_rows, CHUNK_BYTES);
        let answer = match found {
            Ok(chunk) => serve.answer(Page::of(chunk, serve.reverse)),
            Err(StoreError::BelowHorizon { oldest }) => Message::TooOld { id: serve.id, oldest },
            // Others have it.
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
            true => self.desk.hear(me, message), // A replica says nothing to itself.
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
                tracing::warn!(%error, "where a copy begins cannot be kept; trying again");
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
