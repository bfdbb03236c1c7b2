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

use super::lifecycle::from_orphaned;
use super::request_router::RequestRouter;
use super::slot::Slot;
use crate::actor::{Actor, Input, ReplicaRuntime};
use crate::context::NodeContext;
use crate::database::Watch;
use crate::flusher::Flushable;
use crate::node_resources::CHUNK_BYTES;
use crate::panics::{MachineName, PanicGuard, say_last};
use crate::replica_io::ReplicaIo;
use crate::timers::Wake;
use crate::transfer::Transfers;
use meridian_clock::{Reading, Timestamp};
use meridian_log::MachineKey;
use meridian_machine::{Address, NodeId, Outbox, Position, Role, ShardId};
use meridian_mvcc::{KeyRange, StoreError};
use meridian_replication::group::{
    self, Config, Index, Membership, Record, Restored, Roster, Term,
};
use meridian_store::courier::Order;
use meridian_store::{ShardStore, Split};
use meridian_systems::Protocol;
use meridian_systems::shard::{
    self, Effect, Message, MessageOf, Origin, Participant, Recovered, Serve, Shard, SplitOrigin,
    initial_members, lifecycle, newest,
};
use meridian_txn::Node;
use meridian_txn::shards::{ReadLease, RequestOutcome, Response};
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
/// This node's replica of a shard, with the thread-safe wrapper that steps it.
pub type MemberShard<P> = Actor<Shard<P>, MemberRuntime<P>>;

/// Carries out the effects of a replica's state machine.
pub struct MemberRuntime<P: Participant> {
    io: Arc<ReplicaIo>,
    /// The database's request router on this node.
    router: Arc<RequestRouter<P>>,
    shard_store: Arc<ShardStore>,
    slot: Slot,
    /// Reads by the slot since the local leader was last told of them.
    local_reads: AtomicU64,
    /// The leader's node number, as far as this replica knows; 0 if unknown.
    heard: AtomicU32,
    transfers: Arc<OnceLock<Arc<Transfers>>>,
    watch: Option<Watch>,
    /// The group's membership.
    members: Mutex<Membership>,
    /// The initial membership of each shard that was split off from this one.
    initial_members_of: Mutex<BTreeMap<ShardId, Membership>>,
    /// True if the cluster has no other nodes.
    alone: bool,
    protocol: &'static Protocol,
    this: Weak<MemberShard<P>>,
}

/// Timeouts of a group. All nodes of a cluster should have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
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

impl Default for Timeouts {
    fn default() -> Self {
        let ms = Duration::from_millis;
        let (min_next, quiesce) = (ms(8_000), ms(20_000));
        Timeouts {
            heartbeat: ms(100),
            election_timeout: ms(600),
            lease: ms(2_000),
            min_next,
            quiesce,
        }
    }
}

/// Parameters of a replica that is to be restored.
pub struct MemberSetup<P: Participant> {
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
    pub router: Arc<RequestRouter<P>>,
    /// The database's protocol.
    pub protocol: &'static Protocol,
    /// Called with every write that is installed.
    pub watch: Option<Watch>,
}

/// Reads the shard's state from the store, except for its versions.
fn recovered<P: Participant>(shard_store: &ShardStore) -> Result<Recovered<P::Rows>, StoreError> {
    let (shard, agreed) = (shard_store.id().shard, shard_store.extent()?.at);
    let recovered = Recovered::new(
        shard,
        shard_store.bounds(),
        shard_store.children()?,
        &shard_store.protocol_rows()?,
        agreed,
    );
    recovered
        .map_err(|damaged| StoreError::Damaged { file: "the store".to_owned(), what: damaged.0 })
}

fn members_of(split_origins: &BTreeMap<ShardId, SplitOrigin>) -> BTreeMap<ShardId, Membership> {
    split_origins
        .iter()
        .map(|(child, split_origin)| (*child, split_origin.members.clone()))
        .collect()
}

/// Restores a replica from the log and the store.
pub fn restore<P: Participant>(
    setup: MemberSetup<P>,
    records: Vec<Record>,
) -> Result<lifecycle::Restored<Arc<MemberShard<P>>>, StoreError> {
    let MemberSetup { key, bounds, origin, eager, context, router, protocol, watch } = setup;
    let (resources, nodes, timeouts) =
        (&context.resources, context.members.clone(), context.timeouts);
    let (me, incarnation) = router.node().here();
    let shard_store =
        ShardStore::open_with(key.database, key.shard, bounds, Arc::clone(&resources.store))?;
    let (extent, recovered, left) =
        (shard_store.extent()?, recovered::<P>(&shard_store)?, shard_store.left()?);
    let left = left.into_iter().map(from_orphaned).collect();
    let restored =
        Restored { records, applied: Index(extent.position), applied_term: Term(extent.term) };
    let removed = ShardStore::removed(key.database, key.shard, &*resources.store)?.map(Index);
    let begins = origin.begins(me, removed, &restored, &recovered);
    let Some(origin) = begins.map_err(|base| shard_store.lacks(base.0))? else {
        let ended = Origin::has_ended(me, removed, &recovered);
        return Ok(lifecycle::Restored { member: None, ended, left });
    };
    if let Origin::Invited(membership_epoch) = &origin {
        shard_store.begin_empty(membership_epoch.since.0)?;
    }
    let alone = nodes.len() == 1;
    let mut config = Config::new(me, nodes, router.database(), ShardId(key.shard));
    origin.apply_to(&mut config);
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    config.heartbeat_ns = nanoseconds(timeouts.heartbeat);
    config.election_timeout_ns = nanoseconds(timeouts.election_timeout);
    config.lease_ns = nanoseconds(timeouts.lease);
    config.keep_log_bytes = if alone { 0 } else { KEEP_LOG_BYTES };
    (config.pin_log_bytes, config.most_pin_log_bytes) = (PIN_LOG_BYTES, MOST_PIN_LOG_BYTES);
    config.eager = eager;
    if alone {
        resources.clock.not_before(
            recovered
                .agreed
                .max(recovered.rows.ceiling)
                .max(newest::<P::Command>(&restored.records))
                .nanos,
        );
    }
    let shard = (u64::from(key.database) << 16) ^ u64::from(key.shard);
    let seed = (u64::from(me.0) << 48) ^ (u64::from(incarnation.0) << 32) ^ shard;
    let mut out = Outbox::new();
    let initial_members_of = members_of(&recovered.rows.split_origins);
    let (min_next_ns, quiesce_ns) = (nanoseconds(timeouts.min_next), nanoseconds(timeouts.quiesce));
    let policy = protocol.policy.expect("invariant: a protocol with leaders has a policy");
    let certifies = protocol.certifies();
    let config =
        shard::Config { min_next_ns, quiesce_ns, policy, certifies, ..shard::Config::from(config) };
    let replica =
        Shard::<P>::new(config, seed, restored, recovered, resources.clock.now(), &mut out);
    let members = replica.members().clone();
    let io = ReplicaIo::new(
        P::KIND,
        key,
        (me, incarnation),
        Arc::clone(resources),
        Arc::clone(&context.peers),
    );
    let member = Actor::new(replica, out, |this| MemberRuntime {
        io: Arc::new(io),
        router,
        shard_store: Arc::new(shard_store),
        slot: Slot::default(),
        local_reads: AtomicU64::new(0),
        heard: AtomicU32::new(0),
        transfers: Arc::clone(&context.transfers),
        watch,
        members: Mutex::new(members),
        initial_members_of: Mutex::new(initial_members_of),
        alone,
        protocol,
        this: this.clone(),
    });
    Ok(lifecycle::Restored { member: Some(member), ended: false, left })
}

impl<P: Participant> MemberRuntime<P> {
    /// Returns the shard's versions.
    pub fn shard_store(&self) -> &ShardStore {
        &self.shard_store
    }

    /// Returns the shard's versions for callers that may outlive this replica.
    pub fn shared_space(&self) -> Arc<ShardStore> {
        Arc::clone(&self.shard_store)
    }

    /// Returns the shard's id.
    pub fn shard(&self) -> ShardId {
        self.io.shard()
    }

    /// Returns the slot by which sessions of this node read.
    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Loads the slot.
    pub fn read_lease(&self) -> ReadLease {
        self.slot.load()
    }

    /// Returns the leader, if it is known.
    pub fn known_leader(&self) -> Option<NodeId> {
        Some(NodeId(self.heard.load(Ordering::Relaxed))).filter(|leader| leader.0 != 0)
    }

    /// Counts a read by the slot.
    pub fn count_local_read(&self) {
        self.local_reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells the local leader how many reads used the slot since the last call.
    pub fn report_local_reads(&self) {
        let reads = self.local_reads.swap(0, Ordering::Relaxed);
        if let Some(this) = self.this.upgrade().filter(|_| reads > 0) {
            this.post(Input::Call(Box::new(move |replica: &mut Shard<P>, now, out| {
                replica.note_reads(now, reads, out)
            })));
        }
    }

    /// Releases log entries, once the store has been checkpointed with everything up to `applied`.
    pub fn truncate_log(&self, applied: u64) {
        let Some(this) = self.this.upgrade() else { return };
        let io = Arc::clone(&self.io);
        this.post(Input::Call(Box::new(move |replica: &mut Shard<P>, now, out| {
            let checkpoint = replica.with_group(now, out, |group, _| {
                group.compact(Index(applied));
                group.checkpoint()
            });
            io.checkpoint(&checkpoint);
        })));
    }

    /// Stops the process if the store is damaged, so that another replica leads. A single-node
    /// cluster goes on with what can be read.
    pub fn on_store_error(&self, error: &StoreError) {
        if !self.alone && matches!(error, StoreError::Damaged { .. }) {
            self.act(Effect::Stop { why: error.to_string() });
        }
    }

    /// Creates the replicas of shards that were split off from this one and are in the store.
    pub fn create_children(&self) {
        let created = self.shard_store.created();
        if !created.is_empty() {
            let created = created.into_iter().map(|(child, bounds)| (ShardId(child), bounds));
            let eager = self.read_lease().leads;
            self.router.create_children(self.shard(), created.collect(), eager);
        }
    }

    /// Settles a split on a thread of its own, because requests to the new shard wait for it and
    /// the settler's next round may be seconds away.
    fn flush_split(&self) {
        let this = self.this.clone();
        let flush = move || {
            while let Some(member) = this.upgrade() {
                let runtime = member.runtime();
                let flushed = runtime.shard_store.flush(16 << 20);
                runtime.create_children();
                match flushed {
                    Err(error) if !runtime.router.node().is_closed() => {
                        tracing::error!(%error, "cannot settle a split; trying again");
                        std::thread::sleep(Duration::from_nanos(lifecycle::RETRY_NS));
                    }
                    _ => return,
                }
            }
        };
        if let Err(error) = self.io.resources().guard.spawn("split", flush) {
            tracing::warn!(%error, "cannot start a thread to settle a split; the settler will");
        }
    }

    /// Reads the replica's state from the store, except for versions.
    pub fn recovered(&self) -> Result<Recovered<P::Rows>, StoreError> {
        recovered::<P>(&self.shard_store)
    }

    /// Publishes the shard's range, its members, and the initial membership of its children, after
    /// a copy replaced the shard's versions.
    pub fn publish(&self, recovered: &Recovered<P::Rows>) {
        self.initial_members_of.lock().extend(members_of(&recovered.rows.split_origins));
        if let Some(members) = &recovered.rows.members {
            *self.members.lock() = members.clone();
        }
        self.router.map().learn_bounds(&recovered.bounds, self.shard());
    }

    /// Returns the group's members, present and planned.
    pub fn roster(&self) -> Roster {
        self.members.lock().roster()
    }

    /// Returns the initial membership of a shard that was split off, if this process has applied
    /// the split.
    pub fn initial_members(&self, child: ShardId) -> Option<Membership> {
        self.initial_members_of.lock().get(&child).cloned()
    }

    /// Reads for a session of another node, and responds.
    fn serve(&self, what: Serve) {
        let Serve { reply_to: to, id, lock_epoch, at, .. } = what;
        let found = self.shard_store.scan(
            &what.range,
            at,
            what.reverse,
            what.limit_rows as usize,
            CHUNK_BYTES,
        );
        let reply = match found {
            Ok(chunk) => {
                let committed_at = if what.versions { chunk.at } else { Vec::new() };
                Response::Rows {
                    id,
                    lock_epoch,
                    at,
                    rows: chunk.rows,
                    rest: chunk.rest,
                    committed_at,
                    waited_ns: what.waited_ns,
                }
            }
            Err(error) => {
                self.on_store_error(&error);
                tracing::warn!(%error, "refused a read for another node");
                Response::refused(id, error)
            }
        };
        self.send(what.deadline, to, Message::Response(reply));
        self.io.flush_to(to.node);
    }
}

impl<P: Participant> Flushable for MemberShard<P> {
    fn shard_store(&self) -> &ShardStore {
        &self.runtime().shard_store
    }

    fn closed(&self) -> Timestamp {
        self.runtime().read_lease().closed
    }

    fn retention(&self) -> Option<Duration> {
        self.runtime().router.retention()
    }

    fn on_flushed(&self) {
        self.runtime().create_children();
    }

    fn truncate_log(&self, applied: u64) {
        self.runtime().truncate_log(applied);
    }

    fn on_store_error(&self, error: &StoreError) {
        self.runtime().on_store_error(error);
    }
}

impl<P: Participant> ReplicaRuntime<Shard<P>> for MemberRuntime<P> {
    fn now(&self) -> Reading {
        self.io.now()
    }

    fn send(&self, deadline: Option<u64>, to: Address, message: MessageOf<P>) {
        let me = self.io.me();
        if to.node != me {
            return self.io.send(deadline, to, &message);
        }
        match (to.role, message) {
            (Role::Coordinator(number), Message::Response(reply)) => {
                self.router.on_response(number, reply)
            }
            (Role::Replica, message) => {
                if let Some(member) = self.router.member(to.shard) {
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
        self.io.persist(position, record, self.this.upgrade());
    }

    fn act(&self, effect: Effect) {
        match effect {
            Effect::Install { at, writes, index, term, .. } => {
                self.shard_store.install(at, &writes, index.0, term.0);
                if let Some(watch) = &self.watch {
                    watch(&writes, at);
                }
            }
            Effect::Divide { at, key, shard, rows, hollow, index, term } => {
                self.initial_members_of
                    .lock()
                    .extend(initial_members(shard, &rows).map(|members| (shard, members)));
                self.router.map().learn_route(&key, key.clone(), shard);
                self.shard_store.divide(
                    Split { at, key, child: shard.0, rows, hollow },
                    index.0,
                    term.0,
                );
                self.flush_split();
            }
            Effect::ReadLease(read_lease) => self.slot.set(read_lease),
            Effect::Leader(leader) => {
                self.heard.store(leader.map_or(0, |node| node.0), Ordering::Relaxed);
                if let Some(leader) = leader {
                    self.router.map().set_leader(self.shard(), leader);
                }
            }
            Effect::CountPush => self.router.counters().pushed(),
            Effect::Serve(what) => match what.reply_to.role {
                Role::Coordinator(number) if what.reply_to.node == self.io.me() => {
                    let Serve { id, lock_epoch, at, deadline, waited_ns, .. } = what;
                    let read = RequestOutcome::Read { lock_epoch, at, deadline, waited_ns };
                    self.router.wake(number, id, read);
                }
                _ => {
                    if let Some(this) = self.this.upgrade() {
                        self.io.resources().readers.run(move || this.runtime().serve(what));
                    }
                }
            },
            Effect::SendSnapshot { to, index, witness, term } => {
                if let Some(transfers) = self.transfers.get() {
                    let (key, index, term) = (self.io.key(), index.0, term.0);
                    transfers.send(Order { key, to, index, term, witness });
                }
            }
            Effect::Members(members) => *self.members.lock() = members,
            Effect::Removed { index } => self.router.removed(self.shard(), index),
            Effect::Stop { why } => {
                tracing::error!(%why, "this process aborts, so that the replica does not diverge");
                say_last(&format!(
                    "this process aborts, so that the replica does not diverge: {why}"
                ));
                std::process::abort();
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
        self.io.machine(self.protocol.name)
    }

    fn kind(message: &MessageOf<P>) -> &'static str {
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
            Message::Request(_) => "request",
            Message::Response(_) => "answer",
            Message::LeaderVisible(_) => "shown",
            Message::Participant(_) => "between leaders",
            Message::Leads(_) => "leads",
            Message::AskTimestamps { .. } => "authority: question",
            Message::Timestamps { .. } => "authority: timestamps",
        }
    }
}
