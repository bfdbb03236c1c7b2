//! The sessions of a database on this node: whom they ask, what they wait for, what they hold.
//!
//! Invariants:
//! 1. Who waits for an answer hears one, or that none will come: nobody waits for ever.
//! 2. A member of this node stands in the table before its first step: what it says to another one
//!    of this node is heard.

use super::lifecycle::Lifecycle;
use super::member::MemberShard;
use crate::context::NodeContext;
use crate::local_node::LocalNode;
use crate::rendezvous::{Answerer, rendezvous};
use crate::resident::Input;
use meridian_machine::{Address, DatabaseId, NodeId, Role, ShardId};
use meridian_mvcc::KeyRange;
use meridian_placement::{DatabaseRow, FIRST_SHARD};
use meridian_replication::group::{Index, Stay};
use meridian_systems::envelope;
use meridian_systems::setting::VERSION_RETENTION_PERIOD;
use meridian_systems::spanner::{Invitations, KIND, Message};
use meridian_txn::Node;
use meridian_txn::locking::{
    Ask, Heard, HeldLocks, PendingRequests, Reply, Request, RequestKey, Seat, ShardMap, Woken,
};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

const KEEP_ALIVE_NS: u64 = 1_000_000_000;

/// What sessions of one database share on this node.
pub struct Sessions {
    database: DatabaseId,
    node: Arc<LocalNode>,
    lifecycle: Weak<Lifecycle>,
    invitations: Mutex<Invitations>,
    /// The first shard's member apart: most databases have one.
    first: RwLock<Option<Arc<MemberShard>>>,
    members: RwLock<BTreeMap<ShardId, Arc<MemberShard>>>,
    map: ShardMap,
    /// For how long superseded versions are kept, in nanoseconds; 0, if nobody says.
    retention_ns: AtomicU64,
    waiting: Mutex<PendingRequests<Answerer<Heard>>>,
    held_locks: Mutex<HeldLocks>,
    kept_alive_at: AtomicU64,
}

impl Sessions {
    /// Of a database that has no member here yet.
    pub fn new(
        database: DatabaseId,
        context: &NodeContext,
        lifecycle: Weak<Lifecycle>,
    ) -> Arc<Self> {
        Arc::new(Sessions {
            database,
            node: LocalNode::new(context),
            lifecycle,
            invitations: Mutex::default(),
            first: RwLock::default(),
            members: RwLock::default(),
            map: ShardMap::new(context.me, context.members.clone()),
            retention_ns: AtomicU64::new(0),
            waiting: Mutex::default(),
            held_locks: Mutex::default(),
            kept_alive_at: AtomicU64::new(0),
        })
    }

    /// The database.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// For how long superseded versions are kept, if the database's row says.
    pub fn retention(&self) -> Option<Duration> {
        Some(self.retention_ns.load(Ordering::Relaxed))
            .filter(|ns| *ns > 0)
            .map(Duration::from_nanos)
    }

    /// Takes the retention from the database's row.
    pub fn retain(&self, row: &DatabaseRow) {
        let retention = VERSION_RETENTION_PERIOD.of(row).unwrap_or_default();
        self.retention_ns
            .store(u64::try_from(retention.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// This node.
    pub fn node(&self) -> &LocalNode {
        &self.node
    }

    /// The keys and the leaders of the shards, as far as this node knows them.
    pub fn map(&self) -> &ShardMap {
        &self.map
    }

    /// The locks that coordinators of this node hold: their leaders are told that idle sessions
    /// live on.
    pub fn held_locks(&self) -> &Mutex<HeldLocks> {
        &self.held_locks
    }

    // ------------------------------------------------------------------------
    // shards

    /// A shard has a member here, which takes its first step.
    pub fn add(&self, member: Arc<MemberShard>) {
        let shard = member.world().shard();
        self.map.learn_bounds(&member.world().space().bounds(), shard);
        if shard == FIRST_SHARD {
            *self.first.write() = Some(Arc::clone(&member));
        }
        self.members.write().insert(shard, Arc::clone(&member));
        member.post(Input::Wake); // what its birth asked for
    }

    /// This node's member of a shard.
    pub fn member(&self, shard: ShardId) -> Option<Arc<MemberShard>> {
        match shard {
            FIRST_SHARD => self.first.read().clone(),
            _ => self.members.read().get(&shard).cloned(),
        }
    }

    /// The same, for what takes a moment.
    pub fn with_member<T>(
        &self,
        shard: ShardId,
        look: impl FnOnce(&MemberShard) -> T,
    ) -> Option<T> {
        // Not under the lock: what is looked at may take a step, which may look here again.
        self.member(shard).map(|member| look(&member))
    }

    /// All members of this node.
    pub fn members(&self) -> Vec<Arc<MemberShard>> {
        self.members.read().values().cloned().collect()
    }

    /// A shard was split off from another, and is in the store: its member begins. False if that
    /// has to be tried again.
    pub fn bear(&self, parent: ShardId, child: (ShardId, KeyRange), eager: bool) -> bool {
        self.lifecycle.upgrade().is_none_or(|lifecycle| lifecycle.bear_split(parent, child, eager))
    }

    /// A leader speaks to a member that is not here.
    pub fn invite(&self, shard: ShardId, stay: Stay) {
        if self.invitations.lock().heeds(shard, stay.since) {
            self.lifecycle
                .upgrade()
                .iter()
                .for_each(|lifecycle| lifecycle.queue_invite(shard, stay));
        }
    }

    /// This node is no member of a shard any more, since an entry.
    pub fn removed(&self, shard: ShardId, since: Index) {
        self.lifecycle.upgrade().iter().for_each(|lifecycle| lifecycle.queue_leave(shard, since));
    }

    /// A shard has no member here any more.
    pub fn remove(&self, shard: ShardId) -> Option<Arc<MemberShard>> {
        if shard == FIRST_SHARD {
            *self.first.write() = None;
        }
        let member = self.members.write().remove(&shard)?;
        member.stop();
        Some(member)
    }

    /// Somebody asks a shard that has no member here: another node is to be asked.
    pub fn say_elsewhere(&self, from: Address, to: Address, id: u64) {
        if let Some(peers) = self.node.peers() {
            let leader = self.map.remote_leader(to.shard).map(|leader| leader.0);
            let answer = Message::Answer(Reply::NotLeader { id, leader });
            let here = Address { incarnation: self.node.here().1, ..to };
            peers.post(from.node, None, envelope::write_frame(KIND, here, from, &answer));
            peers.flush(from.node);
        }
    }

    // ------------------------------------------------------------------------
    // questions

    /// Asks a shard's member, and waits for the answer until the boot clock reaches `until`; `None`
    /// if none came.
    pub async fn ask(&self, seat: Seat, request: Request, until: u64) -> Option<Heard> {
        let (answerer, answer) = rendezvous();
        let (number, id) = (request.transaction.number, request.id);
        self.wait_for((number, id), seat.node, until, answerer);
        self.tell(seat, request);
        answer.await
    }

    /// Says something to a shard's member; whatever it answers is not waited for.
    pub fn tell(&self, seat: Seat, request: Request) {
        let Seat { shard, node } = seat;
        let (number, id) = (request.transaction.number, request.id);
        let role = Role::Coordinator(number);
        let (database, (me, incarnation)) = (self.database, self.node.here());
        let from = Address { node: me, incarnation, database, shard, role };
        let message = Message::Ask(request);
        if node == me {
            let leader = || self.map.remote_leader(shard).map(|leader| leader.0);
            match self.member(shard) {
                Some(member) => member.post(Input::Message(from, message)),
                None => self.hear(number, Reply::NotLeader { id, leader: leader() }),
            }
        } else if let Some(peers) = self.node.peers() {
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

    fn wait_for(&self, key: RequestKey, node: NodeId, until: u64, answerer: Answerer<Heard>) {
        self.waiting.lock().insert(key, node, until, answerer);
        if self.node.is_closed() {
            // After the insertion: a database that closes has not missed it.
            let removed = self.waiting.lock().remove(key);
            drop(removed);
        }
    }

    /// An answer came for a session of this node.
    pub fn hear(&self, number: u64, reply: Reply) {
        let wounded = matches!(reply, Reply::Wounded { .. });
        let holds = wounded && self.held_locks.lock().has(number);
        let woken = self.waiting.lock().respond(number, reply, holds);
        wake_all(woken);
    }

    /// Who waits for this goes on.
    pub fn wake(&self, number: u64, id: u64, heard: Heard) {
        let woken = self.waiting.lock().wake((number, id), heard);
        wake_all(woken);
    }

    /// Tells the leaders, every second, that idle sessions live on, and the leaders here, how much
    /// is read without them.
    fn keep_alive(&self, now_ns: u64) {
        if now_ns < self.kept_alive_at.load(Ordering::Relaxed) + KEEP_ALIVE_NS {
            return;
        }
        self.kept_alive_at.store(now_ns, Ordering::Relaxed);
        self.members().iter().for_each(|member| member.world().tell_reads());
        let held = Vec::from_iter(self.held_locks.lock().iter());
        for (seat, transaction, age) in held {
            self.tell(seat, Request::plain(transaction, age, 0, Ask::KeepAlive));
        }
    }

    /// Lets go of whoever waits for too long, or for a node that cannot be reached.
    pub fn sweep(&self) {
        let now = crate::clock::boot_ns();
        self.keep_alive(now);
        let connected = self.node.peers().map(|peers| peers.connected()).unwrap_or_default();
        let me = self.node.here().0;
        let reaches = |node| node == me || connected.contains(&node);
        let woken = self.waiting.lock().sweep(now, reaches);
        wake_all(woken);
    }

    /// Lets go of everybody, and ends the members; says which there were.
    pub fn close(&self) -> Vec<Arc<MemberShard>> {
        self.node.close();
        let members = std::mem::take(&mut *self.members.write());
        *self.first.write() = None; // Members know their sessions, too.
        members.values().for_each(|member| member.stop());
        let woken = self.waiting.lock().clear();
        wake_all(woken);
        members.into_values().collect()
    }
}

/// Wakes sessions, under no lock. One that hears nothing goes on when its answerer is dropped.
fn wake_all(woken: impl IntoIterator<Item = Woken<Answerer<Heard>>>) {
    for (answerer, heard) in woken {
        if let Some(heard) = heard {
            answerer.answer(heard);
        }
    }
}
