//! This node's replica of a shard.
//!
//! ```text
//!   session ──Ask──▶ leader here? ─ yes ─▶ stepped on its thread ─▶ Serve ─▶ session reads
//!                        │ no
//!                        └──▶ frame ─▶ leader's node steps, reads, answers ─▶ frame ─▶ session
//! ```
//!
//! Invariants:
//! 1. Committed versions are installed before anything that follows in the outbox leaves.
//! 2. A read by the slot checks the lease with a clock reading sampled after it loaded the slot.
//! 3. A message with a deadline leaves only before it, by a fresh clock reading.
//!
//! A single-node cluster runs the same state machine as a group of one.

use super::lifecycle::of_left;
use super::sessions::Sessions;
use super::slot::Slot;
use crate::context::NodeContext;
use crate::database::Watch;
use crate::outlet::Outlet;
use crate::panics::{MachineName, PanicGuard};
use crate::plumbing::CHUNK_BYTES;
use crate::resident::{Input, Resident, World};
use crate::settle::Settles;
use crate::timers::Wake;
use crate::transfer::Transfers;
use meridian_clock::{Reading, Timestamp};
use meridian_log::MachineKey;
use meridian_machine::{Address, NodeId, Outbox, Position, Role, ShardId};
use meridian_mvcc::{KeyRange, SpaceId, StoreError};
use meridian_replication::group::{
    self, Config, Index, Membership, Record, Restored, Roster, Term,
};
use meridian_store::courier::Order;
use meridian_store::{Extent, Space, Split};
use meridian_systems::spanner::{
    self, Birth, Effect, KIND, Kept, Message, Origin, Replica, Rows, Serve, lifecycle,
    members_at_birth, newest,
};
use meridian_txn::Node;
use meridian_txn::locking::{Heard, Readable, Reply};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Log bytes that a leader keeps in memory and on disk for slow followers.
const KEEP_LOG_BYTES: usize = 4 << 20;
/// Log bytes that a leader keeps besides while a follower receives a copy of the shard, at first …
const PIN_LOG_BYTES: usize = 32 << 20;
/// … and at most, if more than that is written while the copy is under way.
const MOST_PIN_LOG_BYTES: usize = 256 << 20;
/// Pause before the retry of a split that cannot be settled because the disk is full.
const SETTLE_AGAIN: Duration = Duration::from_millis(200);

/// This node's replica of a shard, with the thread-safe wrapper that steps it.
pub type MemberShard = Resident<Replica, MemberHome>;

/// Carries out the effects of a replica's state machine.
pub struct MemberHome {
    outlet: Arc<Outlet>,
    /// The database's request router on this node.
    sessions: Arc<Sessions>,
    space: Arc<Space>,
    slot: Slot,
    /// Reads by the slot since the local leader was last told of them.
    read_alone: AtomicU64,
    /// The leader's node number, as far as this replica knows; 0 if unknown.
    heard: AtomicU32,
    transfers: Arc<OnceLock<Arc<Transfers>>>,
    watch: Option<Watch>,
    /// The group's membership.
    members: Mutex<Membership>,
    /// The initial membership of each shard that was split off from this one.
    born_with: Mutex<BTreeMap<ShardId, Membership>>,
    /// True if the cluster has no other nodes.
    alone: bool,
    this: Weak<MemberShard>,
}

/// Timeouts of a group. All nodes of a cluster should have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Interval between a leader's heartbeats.
    pub heartbeat: Duration,
    /// Silence after which a follower assumes that there is no leader; each timeout is drawn from
    /// one to two times this.
    pub election_timeout: Duration,
    /// Duration of a leader's lease (10 s in the paper). A leader that is cut off blocks the
    /// next one for as long.
    pub lease: Duration,
    /// Time without a commit after which a leader advances its closed timestamp all the same (8 s
    /// in the paper).
    pub min_next: Duration,
    /// Time without a request after which a group quiesces.
    pub quiesce: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let ms = Duration::from_millis;
        let (min_next, quiesce) = (ms(8_000), ms(20_000));
        Patience {
            heartbeat: ms(100),
            election_timeout: ms(600),
            lease: ms(2_000),
            min_next,
            quiesce,
        }
    }
}

/// Parameters of a replica that is to be restored.
pub struct Place {
    /// The shard.
    pub key: MachineKey,
    /// The shard's range, if the store does not have one.
    pub bounds: KeyRange,
    /// The ways in which this node's replica may have been created.
    pub origin: Origin,
    /// True if the replica campaigns at once.
    pub eager: bool,
    /// The resources that the databases of the node share.
    pub context: Arc<NodeContext>,
    /// The database's request router on this node.
    pub sessions: Arc<Sessions>,
    /// Called with every write that is installed.
    pub watch: Option<Watch>,
}

/// Reads the shard's state from the store, except for its versions.
fn kept(space: &Space) -> Result<Kept, StoreError> {
    let (shard, agreed) = (space.id().shard, space.extent()?.at);
    let kept = Kept::new(shard, space.bounds(), space.children()?, &space.protocol_rows()?, agreed);
    kept.map_err(|damaged| StoreError::Damaged { file: "the store".to_owned(), what: damaged.0 })
}

fn members_of(births: &BTreeMap<ShardId, Birth>) -> BTreeMap<ShardId, Membership> {
    births.iter().map(|(child, birth)| (*child, birth.members.clone())).collect()
}

/// Restores a replica from the log and the store.
pub fn restore(
    place: Place,
    records: Vec<Record>,
) -> Result<lifecycle::Restored<Arc<MemberShard>>, StoreError> {
    let Place { key, bounds, origin, eager, context, sessions, watch } = place;
    let (plumbing, nodes, patience) =
        (&context.plumbing, context.members.clone(), context.patience);
    let (me, incarnation) = sessions.node().here();
    let space = Space::open_with(key.database, key.shard, bounds, Arc::clone(&plumbing.store))?;
    let (extent, kept, left) = (space.extent()?, kept(&space)?, space.left()?);
    let left = left.into_iter().map(of_left).collect();
    let restored =
        Restored { records, applied: Index(extent.position), applied_term: Term(extent.term) };
    let removed = Space::removed(key.database, key.shard, &*plumbing.store)?.map(Index);
    let begins = origin.begins(me, removed, &restored, &kept);
    let Some(origin) = begins.map_err(|base| space.lacks(base.0))? else {
        let ended = Origin::has_ended(me, removed, &kept);
        return Ok(lifecycle::Restored { member: None, ended, left });
    };
    if let Origin::Invited(stay) = &origin {
        space.begin_empty(stay.since.0)?;
    }
    let alone = nodes.len() == 1;
    let mut config = Config::new(me, nodes, sessions.database(), ShardId(key.shard));
    origin.tell(&mut config);
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    config.heartbeat_ns = nanoseconds(patience.heartbeat);
    config.election_timeout_ns = nanoseconds(patience.election_timeout);
    config.lease_ns = nanoseconds(patience.lease);
    config.keep_log_bytes = if alone { 0 } else { KEEP_LOG_BYTES };
    (config.pin_log_bytes, config.most_pin_log_bytes) = (PIN_LOG_BYTES, MOST_PIN_LOG_BYTES);
    config.eager = eager;
    if alone {
        plumbing
            .clock
            .not_before(kept.agreed.max(kept.rows.ceiling).max(newest(&restored.records)).nanos);
    }
    let shard = (u64::from(key.database) << 16) ^ u64::from(key.shard);
    let seed = (u64::from(me.0) << 48) ^ (u64::from(incarnation.0) << 32) ^ shard;
    let mut out = Outbox::new();
    let born_with = members_of(&kept.rows.births);
    let (min_next_ns, quiesce_ns) = (nanoseconds(patience.min_next), nanoseconds(patience.quiesce));
    let config = spanner::Config { min_next_ns, quiesce_ns, ..spanner::Config::from(config) };
    let replica = Replica::new(config, seed, restored, kept, plumbing.clock.now(), &mut out);
    let members = replica.members().clone();
    let outlet =
        Outlet::new(KIND, key, (me, incarnation), Arc::clone(plumbing), Arc::clone(&context.peers));
    let member = Resident::new(replica, out, |this| MemberHome {
        outlet: Arc::new(outlet),
        sessions,
        space: Arc::new(space),
        slot: Slot::default(),
        read_alone: AtomicU64::new(0),
        heard: AtomicU32::new(0),
        transfers: Arc::clone(&context.transfers),
        watch,
        members: Mutex::new(members),
        born_with: Mutex::new(born_with),
        alone,
        this: this.clone(),
    });
    Ok(lifecycle::Restored { member: Some(member), ended: false, left })
}

impl MemberHome {
    /// Returns the shard's versions.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the shard's versions for callers that may outlive this replica.
    pub fn shared_space(&self) -> Arc<Space> {
        Arc::clone(&self.space)
    }

    /// Returns the shard's id.
    pub fn shard(&self) -> ShardId {
        self.outlet.shard()
    }

    /// Returns the slot by which sessions of this node read.
    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Loads the slot.
    pub fn readable(&self) -> Readable {
        self.slot.load()
    }

    /// Returns the leader, if it is known.
    pub fn known_leader(&self) -> Option<NodeId> {
        Some(NodeId(self.heard.load(Ordering::Relaxed))).filter(|leader| leader.0 != 0)
    }

    /// Counts a read by the slot.
    pub fn reads_alone(&self) {
        self.read_alone.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells the local leader how many reads used the slot since the last call.
    pub fn tell_reads(&self) {
        let reads = self.read_alone.swap(0, Ordering::Relaxed);
        if let Some(this) = self.this.upgrade().filter(|_| reads > 0) {
            this.post(Input::Call(Box::new(move |replica: &mut Replica, now, out| {
                replica.note_reads(now, reads, out)
            })));
        }
    }

    /// Releases log entries, once the store has been checkpointed with everything up to `applied`.
    pub fn let_go(&self, applied: u64) {
        let Some(this) = self.this.upgrade() else { return };
        let outlet = Arc::clone(&self.outlet);
        this.post(Input::Call(Box::new(move |replica: &mut Replica, now, out| {
            let checkpoint = replica.with_group(now, out, |group, _| {
                group.compact(Index(applied));
                group.checkpoint()
            });
            outlet.checkpoint(&checkpoint);
        })));
    }

    /// Stops the process if the store is damaged, so that another replica leads. A single-node
    /// cluster goes on with what can be read.
    pub fn heed(&self, error: &StoreError) {
        if !self.alone && matches!(error, StoreError::Damaged { .. }) {
            self.act(Effect::Stop { why: error.to_string() });
        }
    }

    /// Creates the replicas of shards that were split off from this one and are in the store.
    pub fn bear(&self) {
        for (child, bounds) in self.space.born() {
            let begun = self.sessions.bear(
                self.shard(),
                (ShardId(child), bounds.clone()),
                self.readable().leads,
            );
            if !begun {
                self.space.bear_again(child, bounds); // The settler retries.
            }
        }
    }

    /// Settles a split on a thread of its own, because requests to the new shard wait for it and
    /// the settler's next round may be seconds away.
    fn settle_split(&self) {
        let this = self.this.clone();
        let settle = move || {
            while let Some(member) = this.upgrade() {
                let home = member.world();
                let settled = home.space.settle(16 << 20);
                home.bear();
                match settled {
                    Err(error) if !home.sessions.node().is_closed() => {
                        tracing::error!(%error, "cannot settle a split; trying again");
                        std::thread::sleep(SETTLE_AGAIN);
                    }
                    _ => return,
                }
            }
        };
        if let Err(error) = self.outlet.plumbing().guard.spawn("split", settle) {
            tracing::warn!(%error, "cannot start a thread to settle a split; the settler will");
        }
    }

    /// Reads a received copy's rows about the shard itself.
    pub fn rows_of(&self, copy: SpaceId) -> Result<Rows, StoreError> {
        let rows = Rows::read(self.shard(), &self.space.protocol_rows_of(copy)?);
        rows.map_err(|damaged| StoreError::Damaged { file: "a copy".to_owned(), what: damaged.0 })
    }

    /// Replaces the shard's versions by a received copy. Called within a step of the state machine.
    pub fn use_copy(&self, copy: SpaceId, extent: Extent) -> Result<Kept, StoreError> {
        self.space.use_copy(copy, extent)?;
        let kept = kept(&self.space)?;
        self.born_with.lock().extend(members_of(&kept.rows.births));
        if let Some(members) = &kept.rows.members {
            *self.members.lock() = members.clone();
        }
        self.space.tell_children()?;
        self.sessions.map().learn_bounds(&self.space.bounds(), self.shard());
        Ok(kept)
    }

    /// Returns the group's members, present and planned.
    pub fn roster(&self) -> Roster {
        self.members.lock().roster()
    }

    /// Returns the initial membership of a shard that was split off, if this process has applied
    /// the split.
    pub fn members_at_birth(&self, child: ShardId) -> Option<Membership> {
        self.born_with.lock().get(&child).cloned()
    }

    /// Reads for a session of another node, and responds.
    fn serve(&self, what: Serve) {
        let Serve { reply_to: to, id, footing, at, .. } = what;
        let found =
            self.space.scan(&what.range, at, what.reverse, what.limit_rows as usize, CHUNK_BYTES);
        let reply = match found {
            Ok(chunk) => {
                let committed_at = if what.versions { chunk.at } else { Vec::new() };
                Reply::Rows { id, footing, at, rows: chunk.rows, rest: chunk.rest, committed_at }
            }
            Err(error) => {
                self.heed(&error);
                tracing::warn!(%error, "refused a read for another node");
                Reply::refused(id, error)
            }
        };
        self.send(what.deadline, to, Message::Answer(reply));
        self.outlet.flush_to(to.node);
    }
}

impl Settles for MemberShard {
    fn space(&self) -> &Space {
        &self.world().space
    }

    fn closed(&self) -> Timestamp {
        self.world().readable().closed
    }

    fn retention(&self) -> Option<Duration> {
        self.world().sessions.retention()
    }

    fn settled(&self) {
        self.world().bear();
    }

    fn let_go(&self, applied: u64) {
        self.world().let_go(applied);
    }

    fn heed(&self, error: &StoreError) {
        self.world().heed(error);
    }
}

impl World<Replica> for MemberHome {
    fn now(&self) -> Reading {
        self.outlet.now()
    }

    fn send(&self, deadline: Option<u64>, to: Address, message: Message) {
        let me = self.outlet.me();
        if to.node != me {
            return self.outlet.send(deadline, to, &message);
        }
        match (to.role, message) {
            (Role::Coordinator(number), Message::Answer(reply)) => {
                self.sessions.hear(number, reply)
            }
            (Role::Replica, message) => {
                if let Some(member) = self.sessions.member(to.shard) {
                    member.post(Input::Message(
                        Address::replica(me, to.database, self.shard()),
                        message,
                    ));
                }
            }
            _ => {}
        }
    }

    fn persist(&self, position: Position, record: Record) {
        self.outlet.persist(position, record, self.this.upgrade());
    }

    fn act(&self, effect: Effect) {
        match effect {
            Effect::Install { at, writes, index, term, .. } => {
                self.space.install(at, &writes, index.0, term.0);
                if let Some(watch) = &self.watch {
                    watch(&writes);
                }
            }
            Effect::Divide { at, key, shard, rows, hollow, index, term } => {
                self.born_with
                    .lock()
                    .extend(members_at_birth(shard, &rows).map(|members| (shard, members)));
                self.sessions.map().learn_route(&key, key.clone(), shard);
                self.space.divide(Split { at, key, child: shard.0, rows, hollow }, index.0, term.0);
                self.settle_split();
            }
            Effect::Readable(readable) => self.slot.set(readable),
            Effect::Leader(leader) => {
                self.heard.store(leader.map_or(0, |node| node.0), Ordering::Relaxed);
                if let Some(leader) = leader {
                    self.sessions.map().set_leader(self.shard(), leader);
                }
            }
            Effect::Serve(what) => match what.reply_to.role {
                Role::Coordinator(number) if what.reply_to.node == self.outlet.me() => {
                    let Serve { id, footing, at, deadline, .. } = what;
                    self.sessions.wake(number, id, Heard::Read { footing, at, deadline });
                }
                _ => {
                    if let Some(this) = self.this.upgrade() {
                        self.outlet.plumbing().readers.run(move || this.world().serve(what));
                    }
                }
            },
            Effect::SendSnapshot { to, index, witness, term } => {
                if let Some(transfers) = self.transfers.get() {
                    let (key, index, term) = (self.outlet.key(), index.0, term.0);
                    transfers.send(Order { key, to, index, term, witness });
                }
            }
            Effect::Members(members) => *self.members.lock() = members,
            Effect::Removed { index } => self.sessions.removed(self.shard(), index),
            Effect::Stop { why } => {
                tracing::error!(%why, "this process aborts, so that the replica does not diverge");
                eprintln!(
                    "meridian: this process aborts, so that the replica does not diverge: {why}"
                );
                std::process::abort();
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
        self.outlet.machine("spanner")
    }

    fn kind(message: &Message) -> &'static str {
        use group::Message as Said;
        match message {
            Message::Group(Said::PreVote { .. }) => "group: pre-vote",
            Message::Group(Said::PreVoteReply { .. }) => "group: pre-vote reply",
            Message::Group(Said::Vote { .. }) => "group: vote",
            Message::Group(Said::VoteReply { .. }) => "group: vote reply",
            Message::Group(Said::Append { .. }) => "group: append",
            Message::Group(Said::Appended { .. }) => "group: appended",
            Message::Group(Said::Refused { .. }) => "group: refused",
            Message::Group(Said::TakeOver { .. }) => "group: take over",
            Message::Group(Said::Removed { .. }) => "group: removed",
            Message::Group(Said::Quiesce { .. }) => "group: quiesce",
            Message::Group(Said::Confirm) => "group: confirm",
            Message::Ask(_) => "request",
            Message::Answer(_) => "answer",
            Message::Shown(_) => "shown",
            Message::Between(_) => "two-phase commit",
            Message::Leads(_) => "leads",
        }
    }
}
