//! A shard that several nodes replicate: this node's member of its group, and the sessions that use it from here.
//!
//! ```text
//!   session ──Ask──▶ leader here?  ── yes ──▶ stepped on the session's thread ──▶ Serve ──▶ the session reads by itself
//!                        │ no
//!                        └──▶ frame ──▶ the leader's node steps, reads, answers ──▶ frame ──▶ wakes the session once
//! ```
//!
//! Invariants:
//! 1. Agreed versions are installed before anything that follows in the outbox leaves.
//! 2. Whoever reads at the slot checks the lease with a reading sampled after he loaded the slot.
//! 3. An answer from here leaves only before its deadline, by a fresh reading.
//! 4. Who waits for an answer hears one, or that none will come: nobody waits for ever.
//!
//! A node that is alone is a group of one: the same machine, which hears from nobody.

use crate::peers::Peers;
use crate::plumbing::Plumbing;
use crate::rendezvous::{Answerer, rendezvous};
use crate::resident::{Input, Resident, World};
use crate::settle::Settles;
use crate::timers::Wake;
use crate::transfer::Transfers;
use meridian_clock::Reading;
use meridian_log::MachineKey;
use meridian_machine::{Address, DatabaseId, Incarnation, NodeId, Outbox, Position, Role, ShardId};
use meridian_mvcc::{StoreError, Write};
use meridian_replication::group::{Config, Index, Record, Restored, Term};
use meridian_store::Space;
use meridian_systems::envelope;
use meridian_systems::spanner::{Effect, Message, Replica, Serve, newest};
use meridian_txn::Age;
use meridian_txn::locking::{Ask, Heard, Readable, Reply, Request, TransactionId};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

const CHUNK_BYTES: usize = 1 << 20;
/// What a leader's log keeps in memory and on disk for members that are slow.
const KEEP_LOG_BYTES: usize = 4 << 20;
const KEEP_ALIVE_NS: u64 = 1_000_000_000;

/// A member of a shard's group at home.
pub type MemberShard = Resident<Replica, MemberHome>;

struct Waiting {
    answerer: Answerer<Heard>,
    node: NodeId,
    until: u64,
    /// The node said that it has the question.
    waits: bool,
}

/// The world of a member.
pub struct MemberHome {
    key: MachineKey,
    me: NodeId,
    incarnation: Incarnation,
    plumbing: Arc<Plumbing>,
    peers: Arc<OnceLock<Arc<Peers>>>,
    space: Space,
    readable: RwLock<Readable>,
    waiting: Mutex<HashMap<(u64, u64), Waiting>>,
    /// Attempts of this node that hold locks somewhere: they are kept alive while their sessions are idle.
    holding: Mutex<HashMap<u64, (NodeId, TransactionId, Age)>>,
    kept_alive_at: AtomicU64,
    /// Transactions that read here without asking the leader, which is here, since it was last told.
    read_alone: AtomicU64,
    /// Whom to ask.
    leader: AtomicU32,
    /// Who leads, as this node's member has heard; 0 while nobody is known to.
    heard: AtomicU32,
    said: Mutex<Vec<NodeId>>,
    next: AtomicU64,
    closed: AtomicBool,
    transfers: Arc<OnceLock<Arc<Transfers>>>,
    watch: Option<Watch>,
    /// There are no other members.
    alone: bool,
    this: Weak<MemberShard>,
}

/// How patient the members of a group are. All nodes of a cluster should have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How often a leader is heard.
    pub heartbeat: Duration,
    /// How long a silence means that there is no leader; drawn from one to two times this.
    pub election_timeout: Duration,
    /// For how long a leader that is cut off keeps others from leading (10 s in the paper).
    pub lease: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Patience { heartbeat: ms(100), election_timeout: ms(600), lease: ms(2000) }
    }
}

/// Told of all writes that are installed, in order, on the stepping thread.
pub type Watch = Box<dyn Fn(&[Write]) + Send + Sync>;

/// Where a member finds itself.
pub struct Place {
    /// The shard.
    pub key: MachineKey,
    /// This node.
    pub me: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
    /// All members.
    pub members: Vec<NodeId>,
    /// How patient they are.
    pub patience: Patience,
    /// The links; set once they stand.
    pub peers: Arc<OnceLock<Arc<Peers>>>,
    /// Who sends and receives whole copies; set once the links stand.
    pub transfers: Arc<OnceLock<Arc<Transfers>>>,
    /// Who wants to know of every write.
    pub watch: Option<Watch>,
}

/// Brings a member to life from what the log and the store have of it.
pub fn begin(place: Place, plumbing: &Arc<Plumbing>, records: Vec<Record>) -> Result<Arc<MemberShard>, StoreError> {
    let Place { key, me, incarnation, members, patience, peers, transfers, watch } = place;
    let space = Space::open(key.database, key.shard, Arc::clone(&plumbing.store))?;
    let extent = space.extent()?;
    let (applied, applied_term, agreed) = (Index(extent.position), Term(extent.term), extent.at);
    let alone = members.len() == 1;
    let mut config = Config::new(me, members, DatabaseId(key.database), ShardId(key.shard));
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    config.heartbeat_ns = nanoseconds(patience.heartbeat);
    config.election_timeout_ns = nanoseconds(patience.election_timeout);
    config.lease_ns = nanoseconds(patience.lease);
    config.keep_log_bytes = if alone { 0 } else { KEEP_LOG_BYTES };
    if alone {
        plumbing.clock.not_before(agreed.max(newest(&records)).nanos);
    }
    let seed = (u64::from(me.0) << 40) ^ (u64::from(incarnation.0) << 8) ^ u64::from(key.database);
    let mut out = Outbox::new();
    let restored = Restored { records, applied, applied_term };
    if let Some(base) = restored.gap() {
        return Err(space.lacks(base.0));
    }
    let replica = Replica::new(config, seed, restored, agreed, plumbing.clock.now(), &mut out);
    let plumbing = Arc::clone(plumbing);
    let member = Resident::new(replica, out, |this| MemberHome {
        key,
        me,
        incarnation,
        plumbing,
        peers,
        space,
        readable: RwLock::default(),
        waiting: Mutex::default(),
        holding: Mutex::default(),
        kept_alive_at: AtomicU64::new(0),
        read_alone: AtomicU64::new(0),
        leader: AtomicU32::new(me.0),
        heard: AtomicU32::new(0),
        said: Mutex::default(),
        next: AtomicU64::new(1),
        closed: AtomicBool::new(false),
        transfers,
        watch,
        alone,
        this: this.clone(),
    });
    member.post(Input::Wake); // what its birth asked for
    Ok(member)
}

impl MemberHome {
    /// What the node's machines share.
    pub fn plumbing(&self) -> &Arc<Plumbing> {
        &self.plumbing
    }

    /// The shard's versions.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The slot for readers of this node.
    pub fn readable(&self) -> Readable {
        *self.readable.read()
    }

    /// A number for a new attempt.
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// This node and its life.
    pub fn here(&self) -> (NodeId, Incarnation) {
        (self.me, self.incarnation)
    }

    /// Whom to ask, as far as is known.
    pub fn leader(&self) -> NodeId {
        NodeId(self.leader.load(Ordering::Relaxed))
    }

    /// Who leads, if that is known.
    pub fn known_leader(&self) -> Option<NodeId> {
        Some(NodeId(self.heard.load(Ordering::Relaxed))).filter(|leader| leader.0 != 0)
    }

    /// Whether a node can be asked, and can answer.
    pub fn reaches(&self, node: NodeId) -> bool {
        node == self.me || self.peers.get().is_some_and(|peers| peers.connected().contains(&node))
    }

    /// From now on another node is asked.
    pub fn ask_next(&self, leader: NodeId) {
        self.leader.store(leader.0, Ordering::Relaxed);
    }

    /// Asks a node, and waits for the answer until the boot clock reaches `until`; `None` if none came.
    pub async fn ask(&self, node: NodeId, request: Request, until: u64) -> Option<Heard> {
        let (answerer, answer) = rendezvous();
        let (number, id) = (request.transaction.number, request.id);
        self.waiting.lock().insert((number, id), Waiting { answerer, node, until, waits: false });
        if self.is_closed() {
            self.waiting.lock().remove(&(number, id)); // after the insertion: whoever closes has not missed it
        }
        self.tell(node, request);
        answer.await
    }

    /// Whether the node ends: nobody answers any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Says something to a node's member; whatever it answers is not waited for.
    pub fn tell(&self, node: NodeId, request: Request) {
        let (database, shard) = (DatabaseId(self.key.database), ShardId(self.key.shard));
        let role = Role::Coordinator(request.transaction.number);
        let from = Address { node: self.me, incarnation: self.incarnation, database, shard, role };
        let message = Message::Ask(request);
        if node == self.me {
            if let Some(this) = self.this.upgrade() {
                this.post(Input::Message(from, message));
            }
        } else if let Some(peers) = self.peers.get() {
            peers.post(node, None, envelope::write_frame(from, Address::replica(node, database, shard), &message));
            peers.flush(node);
        }
    }

    /// Waits a moment: nobody answers to this.
    pub async fn pause(&self, until: u64) {
        let (answerer, answer) = rendezvous();
        let key = (u64::MAX, self.number());
        self.waiting.lock().insert(key, Waiting { answerer, node: self.me, until, waits: false });
        if self.is_closed() {
            self.waiting.lock().remove(&key);
        }
        let _: Option<Heard> = answer.await;
    }

    /// An answer came for a session of this node.
    pub fn hear(&self, number: u64, reply: Reply) {
        let id = reply.id();
        if let Reply::Waiting { .. } = reply {
            if let Some(waiting) = self.waiting.lock().get_mut(&(number, id)) {
                waiting.waits = true;
            }
            return;
        }
        self.wake(number, id, Heard::Reply(reply));
    }

    fn wake(&self, number: u64, id: u64, heard: Heard) {
        let waiting = self.waiting.lock().remove(&(number, id));
        if let Some(waiting) = waiting {
            waiting.answerer.answer(heard);
        }
    }

    /// An attempt holds locks at a node.
    pub fn holds(&self, node: NodeId, transaction: TransactionId, age: Age) {
        self.holding.lock().insert(transaction.number, (node, transaction, age));
    }

    /// It holds none any more, or its leader ends it.
    pub fn holds_no_more(&self, transaction: TransactionId) {
        self.holding.lock().remove(&transaction.number);
    }

    /// A transaction reads here without asking anybody.
    pub fn reads_alone(&self) {
        self.read_alone.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells the leaders, every second, that idle sessions live on, and the leader here, how much is read without it.
    fn keep_alive(&self, now_ns: u64) {
        if now_ns < self.kept_alive_at.load(Ordering::Relaxed) + KEEP_ALIVE_NS {
            return;
        }
        self.kept_alive_at.store(now_ns, Ordering::Relaxed);
        let reads = self.read_alone.swap(0, Ordering::Relaxed);
        if let Some(this) = self.this.upgrade().filter(|_| reads > 0) {
            this.post(Input::Call(Box::new(move |replica: &mut Replica, now, out| {
                replica.note_reads(now, reads, out)
            })));
        }
        let holding: Vec<(NodeId, TransactionId, Age)> = self.holding.lock().values().copied().collect();
        for (node, transaction, age) in holding {
            self.tell(node, Request { transaction, age, id: 0, footing: None, ask: Ask::KeepAlive });
        }
    }

    /// Lets go of whoever waits for too long, or for a node that cannot be reached.
    pub fn sweep(&self) {
        let now = crate::clock::boot_ns();
        self.keep_alive(now);
        let connected = self.peers.get().map(|peers| peers.connected()).unwrap_or_default();
        let late =
            |waiting: &Waiting| waiting.until <= now || (waiting.node != self.me && !connected.contains(&waiting.node));
        let gone: Vec<Waiting> = {
            let mut waiting = self.waiting.lock();
            let keys: Vec<(u64, u64)> = waiting.iter().filter(|(_, w)| late(w)).map(|(key, _)| *key).collect();
            keys.iter().filter_map(|key| waiting.remove(key)).collect()
        };
        for waiting in gone {
            // Whoever was not heard of at all hears nothing: the answerer is dropped.
            if waiting.waits && waiting.until <= now {
                waiting.answerer.answer(Heard::Waits);
            }
        }
    }

    /// Lets go of everybody: the node ends.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let gone = std::mem::take(&mut *self.waiting.lock());
        drop(gone);
    }

    /// The store has been checkpointed with everything up to `applied`: lets the log go.
    pub fn let_go(&self, applied: u64) {
        let Some(this) = self.this.upgrade() else { return };
        let (plumbing, key) = (Arc::clone(&self.plumbing), self.key);
        this.post(Input::Call(Box::new(move |replica: &mut Replica, now, out| {
            let checkpoint = replica.with_group(now, out, |group, _| {
                group.compact(Index(applied));
                group.checkpoint()
            });
            plumbing.journal.checkpoint(key, envelope::write_record(&checkpoint));
        })));
    }

    /// What the store refuses because it is damaged, other members still have: this one ends, so that one of them leads. A node that is alone
    /// goes on with what can be read.
    pub fn heed(&self, error: &StoreError) {
        if !self.alone && matches!(error, StoreError::Damaged { .. }) {
            self.act(Effect::Stop { why: error.to_string() });
        }
    }

    /// Reads for a session of another node, and answers it.
    fn serve(&self, what: Serve) {
        let Serve { reply_to: to, id, footing, at, .. } = what;
        let found = self.space.scan(&what.range, at, what.reverse, what.limit_rows as usize, CHUNK_BYTES);
        let reply = match found {
            Ok(chunk) => Reply::Rows { id, footing, at, rows: chunk.rows, rest: chunk.rest },
            Err(error) => {
                self.heed(&error);
                tracing::warn!(%error, "refused a read for another node");
                Reply::refused(id, error)
            }
        };
        self.send(what.deadline, to, Message::Answer(reply));
        if let Some(peers) = self.peers.get() {
            peers.flush(to.node);
        }
    }
}

impl Settles for MemberShard {
    fn space(&self) -> &Space {
        &self.world().space
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
        self.plumbing.clock.now()
    }

    fn send(&self, deadline: Option<u64>, to: Address, message: Message) {
        if to.node == self.me {
            match (to.role, message) {
                (Role::Coordinator(number), Message::Answer(reply)) => self.hear(number, reply),
                (Role::Replica, message) => {
                    if let Some(this) = self.this.upgrade() {
                        let from = Address::replica(self.me, to.database, to.shard);
                        this.post(Input::Message(from, message));
                    }
                }
                _ => {}
            }
            return;
        }
        let Some(peers) = self.peers.get() else { return };
        let from = Address {
            incarnation: self.incarnation,
            ..Address::replica(self.me, DatabaseId(self.key.database), ShardId(self.key.shard))
        };
        peers.post(to.node, deadline, envelope::write_frame(from, to, &message));
        let mut said = self.said.lock();
        if !said.contains(&to.node) {
            said.push(to.node);
        }
    }

    fn persist(&self, position: Position, record: Record) {
        if let Some(this) = self.this.upgrade() {
            self.plumbing.journal.persist(self.key, || envelope::write_record(&vec![record]), position, this);
        }
    }

    fn act(&self, effect: Effect) {
        match effect {
            Effect::Install { at, writes, index, term } => {
                self.space.install(at, &writes, index.0, term.0);
                if let Some(watch) = &self.watch {
                    watch(&writes);
                }
            }
            Effect::Readable(readable) => *self.readable.write() = readable,
            Effect::Leader(leader) => {
                self.heard.store(leader.map_or(0, |node| node.0), Ordering::Relaxed);
                if let Some(leader) = leader {
                    self.leader.store(leader.0, Ordering::Relaxed);
                }
            }
            Effect::Serve(what) => match what.reply_to.role {
                Role::Coordinator(number) if what.reply_to.node == self.me => {
                    let Serve { id, footing, at, deadline, .. } = what;
                    self.wake(number, id, Heard::Read { footing, at, deadline });
                }
                _ => {
                    if let Some(this) = self.this.upgrade() {
                        self.plumbing.readers.run(move || this.world().serve(what));
                    }
                }
            },
            Effect::SendSnapshot { to, index, .. } => {
                if let Some(transfers) = self.transfers.get() {
                    transfers.send(self.key, to, index);
                }
            }
            Effect::Stop { why } => {
                tracing::error!(%why, "this process ends rather than diverge");
                eprintln!("meridian: this process ends rather than diverge: {why}");
                std::process::abort();
            }
        }
    }

    fn flush(&self) {
        self.plumbing.journal.kick();
        if let Some(peers) = self.peers.get() {
            let said = std::mem::take(&mut *self.said.lock());
            said.into_iter().for_each(|node| peers.flush(node));
        }
    }

    fn wake_at(&self, at: u64, who: Weak<dyn Wake>) {
        self.plumbing.timers.wake_at(at, who);
    }
}
