//! The request router of a database on this node: the replicas, the routes and known leaders, the
//! requests that wait for responses, and the transactions that hold locks.
//!
//! Invariants:
//! 1. A waiting request gets a response, or its waiter is dropped: no request waits for ever.
//! 2. A replica of this node is in the table before its first step, so that it receives what other
//!    replicas of this node send it.

use super::lifecycle::Lifecycle;
use super::member::MemberShard;
use crate::context::NodeContext;
use crate::peers::Peers;
use crate::plumbing::Plumbing;
use crate::rendezvous::{Answerer, rendezvous};
use crate::resident::Input;
use meridian_machine::{Address, DatabaseId, Incarnation, NodeId, Role, ShardId};
use meridian_mvcc::{Key, KeyRange};
use meridian_placement::{DatabaseRow, FIRST_SHARD, Routes};
use meridian_replication::group::{Index, Stay};
use meridian_systems::envelope;
use meridian_systems::setting::VERSION_RETENTION_PERIOD;
use meridian_systems::spanner::{Invitations, KIND, Message};
use meridian_txn::Age;
use meridian_txn::locking::{
    Ask, DOUBTED_FOR_NS, Heard, Leaderships, PendingRequests, Reply, Request, RequestKey, Seat,
    TransactionId, Woken,
};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

const KEEP_ALIVE_NS: u64 = 1_000_000_000;

/// State that the sessions of one database share on this node.
pub struct Sessions {
    database: DatabaseId,
    me: NodeId,
    incarnation: Incarnation,
    nodes: Vec<NodeId>,
    plumbing: Arc<Plumbing>,
    peers: Arc<OnceLock<Arc<Peers>>>,
    lifecycle: Weak<Lifecycle>,
    invitations: Mutex<Invitations>,
    /// The first shard's replica, kept apart because most databases have only this shard.
    first: RwLock<Option<Arc<MemberShard>>>,
    members: RwLock<BTreeMap<ShardId, Arc<MemberShard>>>,
    routes: RwLock<Routes>,
    one_shard: AtomicBool,
    /// Retention of superseded versions, in nanoseconds; 0 if the database's row does not say.
    retention_ns: AtomicU64,
    /// The node to send requests for the first shard to. `leaders` has the other shards' nodes.
    leader: AtomicU32,
    leaders: RwLock<BTreeMap<ShardId, NodeId>>,
    leaderships: RwLock<Leaderships>,
    waiting: Mutex<PendingRequests<Answerer<Heard>>>,
    /// Transactions of this node that hold locks. They are kept alive while their sessions are
    /// idle.
    holding: Mutex<HashMap<u64, Vec<(Seat, TransactionId, Age)>>>,
    kept_alive_at: AtomicU64,
    next: AtomicU64,
    closed: AtomicBool,
}

impl Sessions {
    /// Returns the router of a database that has no replica on this node yet.
    pub fn new(
        database: DatabaseId,
        context: &NodeContext,
        lifecycle: Weak<Lifecycle>,
    ) -> Arc<Self> {
        let me = context.me;
        Arc::new(Sessions {
            database,
            me,
            incarnation: context.incarnation,
            nodes: context.members.clone(),
            plumbing: Arc::clone(&context.plumbing),
            peers: Arc::clone(&context.peers),
            lifecycle,
            invitations: Mutex::default(),
            first: RwLock::default(),
            members: RwLock::default(),
            routes: RwLock::default(),
            one_shard: AtomicBool::new(true),
            retention_ns: AtomicU64::new(0),
            leader: AtomicU32::new(me.0),
            leaders: RwLock::default(),
            leaderships: RwLock::default(),
            waiting: Mutex::default(),
            holding: Mutex::default(),
            kept_alive_at: AtomicU64::new(0),
            next: AtomicU64::new(1),
            closed: AtomicBool::new(false),
        })
    }

    /// Returns the database's id.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// Returns how long superseded versions are kept, if the database's row says.
    pub fn retention(&self) -> Option<Duration> {
        Some(self.retention_ns.load(Ordering::Relaxed))
            .filter(|ns| *ns > 0)
            .map(Duration::from_nanos)
    }

    /// Sets the retention from the database's row.
    pub fn retain(&self, row: &DatabaseRow) {
        let retention = VERSION_RETENTION_PERIOD.of(row).unwrap_or_default();
        self.retention_ns
            .store(u64::try_from(retention.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the resources that the node's state machines share.
    pub fn plumbing(&self) -> &Arc<Plumbing> {
        &self.plumbing
    }

    /// Returns a new transaction number.
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns this node and its incarnation.
    pub fn here(&self) -> (NodeId, Incarnation) {
        (self.me, self.incarnation)
    }

    // ------------------------------------------------------------------------
    // shards

    /// Adds a shard's replica to this node, and has it take its first step.
    pub fn add(&self, member: Arc<MemberShard>) {
        let shard = member.world().shard();
        self.learn_bounds(&member.world().space().bounds(), shard);
        if shard == FIRST_SHARD {
            *self.first.write() = Some(Arc::clone(&member));
        }
        self.members.write().insert(shard, Arc::clone(&member));
        member.post(Input::Wake); // Carries out what its creation asked for.
    }

    /// Returns this node's replica of a shard.
    pub fn member(&self, shard: ShardId) -> Option<Arc<MemberShard>> {
        match shard {
            FIRST_SHARD => self.first.read().clone(),
            _ => self.members.read().get(&shard).cloned(),
        }
    }

    /// Calls `look` with this node's replica of a shard, if there is one.
    pub fn with_member<T>(
        &self,
        shard: ShardId,
        look: impl FnOnce(&MemberShard) -> T,
    ) -> Option<T> {
        // Not under the lock: `look` may take a step, which may read this table.
        self.member(shard).map(|member| look(&member))
    }

    /// Returns all replicas of this node.
    pub fn members(&self) -> Vec<Arc<MemberShard>> {
        self.members.read().values().cloned().collect()
    }

    /// Creates the replica of a shard that was split off and is in the store. Returns false if the
    /// creation must be retried.
    pub fn bear(&self, parent: ShardId, child: (ShardId, KeyRange), eager: bool) -> bool {
        self.lifecycle.upgrade().is_none_or(|lifecycle| lifecycle.bear_split(parent, child, eager))
    }

    /// Queues the creation of a replica here, because a leader sent a message to one that does not
    /// exist.
    pub fn invite(&self, shard: ShardId, stay: Stay) {
        if self.invitations.lock().heeds(shard, stay.since) {
            self.lifecycle
                .upgrade()
                .iter()
                .for_each(|lifecycle| lifecycle.queue_invite(shard, stay));
        }
    }

    /// Queues the removal of this node's replica of a shard, as of a log entry.
    pub fn removed(&self, shard: ShardId, since: Index) {
        self.lifecycle.upgrade().iter().for_each(|lifecycle| lifecycle.queue_leave(shard, since));
    }

    /// Removes and stops this node's replica of a shard.
    pub fn remove(&self, shard: ShardId) -> Option<Arc<MemberShard>> {
        if shard == FIRST_SHARD {
            *self.first.write() = None;
        }
        let member = self.members.write().remove(&shard)?;
        member.stop();
        Some(member)
    }

    /// True if the database has one shard, as far as this node knows.
    pub fn has_one_shard(&self) -> bool {
        self.one_shard.load(Ordering::Acquire)
    }

    /// Returns the known shards and their first keys.
    pub fn routes(&self) -> Routes {
        self.routes.read().clone()
    }

    /// Returns the shard that has a key, and the shard's range.
    pub fn route(&self, key: &Key) -> (ShardId, KeyRange) {
        if self.has_one_shard() {
            return (FIRST_SHARD, KeyRange::all());
        }
        self.routes.read().of(key)
    }

    /// Returns the shard that has the last key below `end`, and the shard's range.
    pub fn route_below(&self, end: Option<&Key>) -> (ShardId, KeyRange) {
        if self.has_one_shard() {
            return (FIRST_SHARD, KeyRange::all());
        }
        self.routes.read().below(end)
    }

    /// Records the range of a shard.
    pub fn learn_bounds(&self, bounds: &KeyRange, shard: ShardId) {
        if bounds.is_empty() {
            return; // The range is not known yet.
        }
        self.learn_route(&bounds.start, bounds.start.clone(), shard);
        if let Some(end) = &bounds.end
            && self.routes.write().learn_end(end.clone())
        {
            self.one_shard.store(false, Ordering::Release);
        }
    }

    /// Records, from a response, the shard that has `key` and the keys from `from` on.
    pub fn learn_route(&self, key: &[u8], from: Key, shard: ShardId) {
        let mut routes = self.routes.write();
        // A split-off shard most often has the same leader as its parent.
        let leader = self.leader(routes.of(&from).0);
        if routes.learn_whereabouts(key, from, shard) {
            self.leaders.write().entry(shard).or_insert(leader);
            self.one_shard.store(false, Ordering::Release);
        }
    }

    /// Returns the node to send a shard's requests to, as far as this node knows.
    pub fn leader(&self, shard: ShardId) -> NodeId {
        match shard {
            FIRST_SHARD => NodeId(self.leader.load(Ordering::Relaxed)),
            _ => self.leaders.read().get(&shard).copied().unwrap_or(self.me),
        }
    }

    /// Returns the shard's known leader if it is another node.
    pub fn elsewhere(&self, shard: ShardId) -> Option<u32> {
        Some(self.leader(shard)).filter(|leader| *leader != self.me).map(|leader| leader.0)
    }

    /// Redirects a request for a shard that has no replica here.
    pub fn say_elsewhere(&self, from: Address, to: Address, id: u64) {
        if let Some(peers) = self.peers.get() {
            let answer = Message::Answer(Reply::NotLeader { id, leader: self.elsewhere(to.shard) });
            let here = Address { incarnation: self.incarnation, ..to };
            peers.post(from.node, None, envelope::write_frame(KIND, here, from, &answer));
            peers.flush(from.node);
        }
    }

    /// Sends the shard's requests to `leader` from now on.
    pub fn ask_next(&self, shard: ShardId, leader: NodeId) {
        match shard {
            FIRST_SHARD => self.leader.store(leader.0, Ordering::Relaxed),
            _ => drop(self.leaders.write().insert(shard, leader)),
        }
    }

    /// Returns the term in which a replica leads, as far as this node knows.
    pub fn leadership(&self, seat: Seat) -> Option<u64> {
        self.leaderships.read().of(seat, crate::clock::boot_ns())
    }

    /// Marks a term as doubtful, because a request that named it was refused.
    pub fn doubts_leadership(&self, seat: Seat, term: u64) {
        self.leaderships.write().doubt(seat, term, crate::clock::boot_ns() + DOUBTED_FOR_NS);
    }

    /// Records that a replica leads in this term.
    pub fn heard_of_leadership(&self, seat: Seat, term: u64) {
        if self.leaderships.read().of(seat, u64::MAX) != Some(term) {
            self.leaderships.write().learn(seat, term);
        }
    }

    /// Returns the next node to try after `asked`, which does not know the leader.
    pub fn node_after(&self, asked: NodeId) -> Option<NodeId> {
        self.nodes.iter().find(|node| **node > asked).or(self.nodes.first()).copied()
    }

    /// True if a node can receive requests and respond.
    pub fn reaches(&self, node: NodeId) -> bool {
        node == self.me || self.peers.get().is_some_and(|peers| peers.is_connected(node))
    }

    // ------------------------------------------------------------------------
    // requests

    /// Sends a request to a shard's replica and waits for the response until the boot clock reaches
    /// `until`. Returns `None` if none came.
    pub async fn ask(&self, seat: Seat, request: Request, until: u64) -> Option<Heard> {
        let (answerer, answer) = rendezvous();
        let (number, id) = (request.transaction.number, request.id);
        self.wait_for((number, id), seat.node, until, answerer);
        self.tell(seat, request);
        answer.await
    }

    /// Sends a request to a shard's replica without waiting for a response.
    pub fn tell(&self, seat: Seat, request: Request) {
        let Seat { shard, node } = seat;
        let (number, id) = (request.transaction.number, request.id);
        let role = Role::Coordinator(number);
        let (database, incarnation) = (self.database, self.incarnation);
        let from = Address { node: self.me, incarnation, database, shard, role };
        let message = Message::Ask(request);
        if node == self.me {
            match self.member(shard) {
                Some(member) => member.post(Input::Message(from, message)),
                None => self.hear(number, Reply::NotLeader { id, leader: self.elsewhere(shard) }),
            }
        } else if let Some(peers) = self.peers.get() {
            peers.post(
                node,
                None,
                envelope::write_frame(
                    KIND,
                    from,
                    Address::replica(node, database, shard),
                    &message,
                ),
            );
            peers.flush(node);
        }
    }

    /// Waits until the boot clock reaches `until`.
    pub async fn pause(&self, until: u64) {
        let (answerer, answer) = rendezvous();
        let key = (u64::MAX, self.number());
        self.wait_for(key, self.me, until, answerer);
        let _: Option<Heard> = answer.await;
    }

    fn wait_for(&self, key: RequestKey, node: NodeId, until: u64, answerer: Answerer<Heard>) {
        self.waiting.lock().insert(key, node, until, answerer);
        if self.is_closed() {
            // After the insertion, so that a concurrent `close` cannot miss the entry.
            let removed = self.waiting.lock().remove(key);
            drop(removed);
        }
    }

    /// Delivers a response to a session of this node.
    pub fn hear(&self, number: u64, reply: Reply) {
        let wounded = matches!(reply, Reply::Wounded { .. });
        let holds = wounded && self.holding.lock().contains_key(&number);
        let woken = self.waiting.lock().respond(number, reply, holds);
        wake_all(woken);
    }

    /// Wakes the session that waits for this request.
    pub fn wake(&self, number: u64, id: u64, heard: Heard) {
        let woken = self.waiting.lock().wake((number, id), heard);
        wake_all(woken);
    }

    /// Records that a transaction holds locks at a replica.
    pub fn holds(&self, seat: Seat, transaction: TransactionId, age: Age) {
        let mut holding = self.holding.lock();
        let seats = holding.entry(transaction.number).or_default();
        seats.retain(|(known, _, _)| known.shard != seat.shard);
        seats.push((seat, transaction, age));
    }

    /// Records that a transaction holds no locks any more, or that leaders end it.
    pub fn holds_no_more(&self, transaction: TransactionId) {
        self.holding.lock().remove(&transaction.number);
    }

    /// Every second, tells the leaders that idle transactions are alive, and tells local leaders
    /// how many reads bypassed them.
    fn keep_alive(&self, now_ns: u64) {
        if now_ns < self.kept_alive_at.load(Ordering::Relaxed) + KEEP_ALIVE_NS {
            return;
        }
        self.kept_alive_at.store(now_ns, Ordering::Relaxed);
        self.members().iter().for_each(|member| member.world().tell_reads());
        let holding: Vec<(Seat, TransactionId, Age)> =
            self.holding.lock().values().flatten().copied().collect();
        for (seat, transaction, age) in holding {
            self.tell(seat, Request::plain(transaction, age, 0, Ask::KeepAlive));
        }
    }

    /// Wakes requests past their deadline, or to a node that is unreachable.
    pub fn sweep(&self) {
        let now = crate::clock::boot_ns();
        self.keep_alive(now);
        let connected = self.peers.get().map(|peers| peers.connected()).unwrap_or_default();
        let reaches = |node| node == self.me || connected.contains(&node);
        let woken = self.waiting.lock().sweep(now, reaches);
        wake_all(woken);
    }

    /// True once the node or the database closes: no request gets a response any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends all waits and stops the replicas. Returns the replicas.
    pub fn close(&self) -> Vec<Arc<MemberShard>> {
        self.closed.store(true, Ordering::Release);
        let members = std::mem::take(&mut *self.members.write());
        *self.first.write() = None; // Replicas hold a reference to this router, too.
        members.values().for_each(|member| member.stop());
        let woken = self.waiting.lock().clear();
        wake_all(woken);
        members.into_values().collect()
    }
}

/// Wakes sessions, under no lock. A session without a response goes on when its answerer is
/// dropped.
fn wake_all(woken: impl IntoIterator<Item = Woken<Answerer<Heard>>>) {
    for (answerer, heard) in woken {
        if let Some(heard) = heard {
            answerer.answer(heard);
        }
    }
}
