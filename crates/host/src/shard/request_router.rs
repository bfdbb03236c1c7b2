//! The request router of a database on this node: the replicas, the routes and known leaders, the
//! requests that wait for responses, and the transactions that hold locks.
//!
//! Invariants:
//! 1. A waiting request gets a response, or its waiter is dropped: no request waits for ever.
//! 2. A replica of this node is in the table before its first step, so that it receives what other
//!    replicas of this node send it.

use super::lifecycle::Lifecycle;
use super::member::MemberShard;
use crate::actor::Input;
use crate::context::NodeContext;
use crate::local_node::LocalNode;
use crate::oneshot::{Sender, oneshot};
use meridian_machine::{Address, DatabaseId, NodeId, Role, ShardId};
use meridian_mvcc::KeyRange;
use meridian_placement::{DatabaseRow, FIRST_SHARD};
use meridian_replication::group::{Index, MembershipEpoch};
use meridian_systems::setting::VERSION_RETENTION_PERIOD;
use meridian_systems::shard::{Invitations, Message, MessageOf, Participant};
use meridian_systems::{envelope, k2};
use meridian_txn::shards::{
    HeldLocks, Oracles, PendingRequests, ReplicaId, Request, RequestBody, RequestKey,
    RequestOutcome, Response, ShardMap, Woken,
};
use meridian_txn::{Node, TxnCounters};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

const KEEP_ALIVE_NS: u64 = 1_000_000_000;

/// State that the sessions of one database share on this node.
pub struct RequestRouter<P: Participant> {
    database: DatabaseId,
    node: Arc<LocalNode>,
    lifecycle: Weak<Lifecycle<P>>,
    invitations: Mutex<Invitations>,
    /// The first shard's replica, kept apart because most databases have only this shard.
    first: RwLock<Option<Arc<MemberShard<P>>>>,
    members: RwLock<BTreeMap<ShardId, Arc<MemberShard<P>>>>,
    map: ShardMap,
    /// Retention of superseded versions, in nanoseconds; 0 if the database's row does not say.
    retention_ns: AtomicU64,
    oracles: RwLock<Option<Arc<Oracles>>>,
    waiting: Mutex<PendingRequests<Sender<RequestOutcome>>>,
    held_locks: Mutex<HeldLocks>,
    kept_alive_at: AtomicU64,
    /// The counters of this node's transactions.
    counters: TxnCounters,
}

impl<P: Participant> RequestRouter<P> {
    /// Returns the router of a database that has no replica on this node yet.
    pub fn new(
        database: DatabaseId,
        context: &NodeContext,
        lifecycle: Weak<Lifecycle<P>>,
    ) -> Arc<Self> {
        Arc::new(RequestRouter {
            database,
            node: LocalNode::new(context),
            lifecycle,
            invitations: Mutex::default(),
            first: RwLock::default(),
            members: RwLock::default(),
            map: ShardMap::new(context.me, context.members.clone()),
            retention_ns: AtomicU64::new(0),
            oracles: RwLock::default(),
            waiting: Mutex::default(),
            held_locks: Mutex::default(),
            kept_alive_at: AtomicU64::new(0),
            counters: TxnCounters::default(),
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

    /// Applies the settings in the database's row.
    pub fn apply_settings(&self, row: &DatabaseRow) {
        let retention = VERSION_RETENTION_PERIOD.duration(row).unwrap_or_default();
        self.retention_ns
            .store(u64::try_from(retention.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let oracles = k2::oracles(row, self.node.here().0, self.map.nodes());
        *self.oracles.write() = oracles.map(Arc::new);
    }

    /// Returns the nodes that transactions ask for the time when they begin, if the database has
    /// some.
    pub fn oracles(&self) -> Option<Arc<Oracles>> {
        self.oracles.read().clone()
    }

    /// Returns this node.
    pub fn node(&self) -> &LocalNode {
        &self.node
    }

    /// Returns the counters of this node's transactions.
    pub fn counters(&self) -> &TxnCounters {
        &self.counters
    }

    /// Returns the keys and the leaders of the shards, as far as this node knows them.
    pub fn map(&self) -> &ShardMap {
        &self.map
    }

    /// Returns the transactions of this node that hold locks. They are kept alive while their
    /// sessions are idle.
    pub fn held_locks(&self) -> &Mutex<HeldLocks> {
        &self.held_locks
    }

    // ------------------------------------------------------------------------
    // shards

    /// Adds a shard's replica to this node, and has it take its first step.
    pub fn add(&self, member: Arc<MemberShard<P>>) {
        let shard = member.runtime().shard();
        self.map.learn_bounds(&member.runtime().shard_store().bounds(), shard);
        if shard == FIRST_SHARD {
            *self.first.write() = Some(Arc::clone(&member));
        }
        self.members.write().insert(shard, Arc::clone(&member));
        member.post(Input::Wake); // Carries out what its creation asked for.
    }

    /// Returns this node's replica of a shard.
    pub fn member(&self, shard: ShardId) -> Option<Arc<MemberShard<P>>> {
        match shard {
            FIRST_SHARD => self.first.read().clone(),
            _ => self.members.read().get(&shard).cloned(),
        }
    }

    /// Calls `look` with this node's replica of a shard, if there is one.
    pub fn with_member<T>(
        &self,
        shard: ShardId,
        look: impl FnOnce(&MemberShard<P>) -> T,
    ) -> Option<T> {
        // Not under the lock: `look` may take a step, which may read this table.
        self.member(shard).map(|member| look(&member))
    }

    /// Returns all replicas of this node.
    pub fn members(&self) -> Vec<Arc<MemberShard<P>>> {
        self.members.read().values().cloned().collect()
    }

    /// Creates the replicas of shards that were split off and are in the store.
    pub fn create_children(
        &self,
        parent: ShardId,
        children: Vec<(ShardId, KeyRange)>,
        eager: bool,
    ) {
        if let Some(lifecycle) = self.lifecycle.upgrade() {
            lifecycle.create_children(parent, children, eager);
        }
    }

    /// Queues the creation of a replica here, because a leader sent a message to one that does not
    /// exist.
    pub fn invite(&self, shard: ShardId, membership_epoch: MembershipEpoch) {
        if self.invitations.lock().accepts(shard, membership_epoch.since) {
            self.lifecycle
                .upgrade()
                .iter()
                .for_each(|lifecycle| lifecycle.queue_invite(shard, membership_epoch));
        }
    }

    /// Queues the removal of this node's replica of a shard, as of a log entry.
    pub fn removed(&self, shard: ShardId, since: Index) {
        self.lifecycle.upgrade().iter().for_each(|lifecycle| lifecycle.queue_leave(shard, since));
    }

    /// Removes and stops this node's replica of a shard.
    pub fn remove(&self, shard: ShardId) -> Option<Arc<MemberShard<P>>> {
        if shard == FIRST_SHARD {
            *self.first.write() = None;
        }
        let member = self.members.write().remove(&shard)?;
        member.stop();
        Some(member)
    }

    /// Redirects a request for a shard that has no replica here.
    pub fn send_not_here(&self, from: Address, to: Address, id: u64) {
        if let Some(peers) = self.node.peers() {
            let answer: MessageOf<P> = Message::Response(Response::NotLeader { id, leader: None });
            let here = Address { incarnation: self.node.here().1, ..to };
            peers.post(from.node, None, envelope::write_frame(P::KIND, here, from, &answer));
            peers.flush(from.node);
        }
    }

    // ------------------------------------------------------------------------
    // requests

    /// Sends a request to a shard's replica and waits for the response until the boot clock reaches
    /// `until`. Returns `None` if none came.
    pub async fn ask(
        &self,
        replica_id: ReplicaId,
        request: Request,
        until: u64,
    ) -> Option<RequestOutcome> {
        let (sender, answer) = oneshot();
        let (number, id) = (request.transaction.number, request.id);
        self.wait_for((number, id), replica_id.node, until, sender);
        self.send(replica_id, request);
        answer.await
    }

    /// Sends a request to a shard's replica without waiting for a response.
    pub fn send(&self, replica_id: ReplicaId, request: Request) {
        let ReplicaId { shard, node } = replica_id;
        let (number, id) = (request.transaction.number, request.id);
        let role = Role::Coordinator(number);
        let (database, (me, incarnation)) = (self.database, self.node.here());
        let from = Address { node: me, incarnation, database, shard, role };
        let message: MessageOf<P> = Message::Request(request);
        if node == me {
            match self.member(shard) {
                Some(member) => member.post(Input::Message(from, message)),
                None => self.on_response(number, Response::NotLeader { id, leader: None }),
            }
        } else if let Some(peers) = self.node.peers() {
            peers.post(
                node,
                None,
                envelope::write_frame(
                    P::KIND,
                    from,
                    Address::replica(node, database, shard),
                    &message,
                ),
            );
            peers.flush(node);
        }
    }

    fn wait_for(&self, key: RequestKey, node: NodeId, until: u64, sender: Sender<RequestOutcome>) {
        self.waiting.lock().insert(key, node, until, sender);
        if self.node.is_closed() {
            // After the insertion, so that a concurrent `close` cannot miss the entry.
            let removed = self.waiting.lock().remove(key);
            drop(removed);
        }
    }

    /// Delivers a response to a session of this node.
    pub fn on_response(&self, number: u64, reply: Response) {
        let wounded = matches!(reply, Response::Wounded { .. });
        let holds = wounded && self.held_locks.lock().has(number);
        let woken = self.waiting.lock().respond(number, reply, holds);
        wake_all(woken);
    }

    /// Wakes the session that waits for this request.
    pub fn wake(&self, number: u64, id: u64, heard: RequestOutcome) {
        let woken = self.waiting.lock().wake((number, id), heard);
        wake_all(woken);
    }

    /// Every second, tells the leaders that idle transactions are alive, and tells local leaders
    /// how many reads bypassed them.
    fn keep_alive(&self, now_ns: u64) {
        if now_ns < self.kept_alive_at.load(Ordering::Relaxed) + KEEP_ALIVE_NS {
            return;
        }
        self.kept_alive_at.store(now_ns, Ordering::Relaxed);
        self.members().iter().for_each(|member| member.runtime().report_local_reads());
        let held = Vec::from_iter(self.held_locks.lock().iter());
        for (replica_id, transaction, age) in held {
            self.send(replica_id, Request::plain(transaction, age, 0, RequestBody::KeepAlive));
        }
    }

    /// Wakes requests past their deadline, or to a node that is unreachable.
    pub fn sweep(&self) {
        let now = crate::clock::boot_ns();
        self.keep_alive(now);
        let connected = self.node.peers().map(|peers| peers.connected()).unwrap_or_default();
        let me = self.node.here().0;
        let reaches = |node| node == me || connected.contains(&node);
        let woken = self.waiting.lock().sweep(now, reaches);
        wake_all(woken);
    }

    /// Ends all waits and stops the replicas. Returns the replicas.
    pub fn close(&self) -> Vec<Arc<MemberShard<P>>> {
        self.node.close();
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
fn wake_all(woken: impl IntoIterator<Item = Woken<Sender<RequestOutcome>>>) {
    for (sender, heard) in woken {
        if let Some(heard) = heard {
            sender.answer(heard);
        }
    }
}
