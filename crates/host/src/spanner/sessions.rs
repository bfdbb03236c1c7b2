//! The sessions of a database on this node: whom they ask, what they wait for, what they hold.
//!
//! Invariants:
//! 1. Who waits for an answer hears one, or that none will come: nobody waits for ever.
//! 2. A member of this node stands in the table before its first step: what it says to another one
//!    of this node is heard.

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

/// What sessions of one database share on this node.
pub struct Sessions {
    database: DatabaseId,
    me: NodeId,
    incarnation: Incarnation,
    nodes: Vec<NodeId>,
    plumbing: Arc<Plumbing>,
    peers: Arc<OnceLock<Arc<Peers>>>,
    lifecycle: Weak<Lifecycle>,
    invitations: Mutex<Invitations>,
    /// The first shard's member apart: most databases have one.
    first: RwLock<Option<Arc<MemberShard>>>,
    members: RwLock<BTreeMap<ShardId, Arc<MemberShard>>>,
    routes: RwLock<Routes>,
    one_shard: AtomicBool,
    /// For how long superseded versions are kept, in nanoseconds; 0, if nobody says.
    retention_ns: AtomicU64,
    /// Whom to ask: the first shard's, and the others'.
    leader: AtomicU32,
    leaders: RwLock<BTreeMap<ShardId, NodeId>>,
    leaderships: RwLock<Leaderships>,
    waiting: Mutex<PendingRequests<Answerer<Heard>>>,
    /// Attempts of this node that hold locks somewhere: they are kept alive while their sessions
    /// are idle.
    holding: Mutex<HashMap<u64, Vec<(Seat, TransactionId, Age)>>>,
    kept_alive_at: AtomicU64,
    next: AtomicU64,
    closed: AtomicBool,
}

impl Sessions {
    /// Of a database that has no member here yet.
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

    /// What the node's machines share.
    pub fn plumbing(&self) -> &Arc<Plumbing> {
        &self.plumbing
    }

    /// A number for a new attempt.
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// This node and its life.
    pub fn here(&self) -> (NodeId, Incarnation) {
        (self.me, self.incarnation)
    }

    // ------------------------------------------------------------------------
    // shards

    /// A shard has a member here, which takes its first step.
    pub fn add(&self, member: Arc<MemberShard>) {
        let shard = member.world().shard();
        self.learn_bounds(&member.world().space().bounds(), shard);
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

    /// Whether the database has one shard, as far as is known.
    pub fn has_one_shard(&self) -> bool {
        self.one_shard.load(Ordering::Acquire)
    }

    /// Which shards there are, and from which keys on, as far as is known.
    pub fn routes(&self) -> Routes {
        self.routes.read().clone()
    }

    /// The shard that has a key, and its keys.
    pub fn route(&self, key: &Key) -> (ShardId, KeyRange) {
        if self.has_one_shard() {
            return (FIRST_SHARD, KeyRange::all());
        }
        self.routes.read().of(key)
    }

    /// The shard that has the last key below one, and its keys.
    pub fn route_below(&self, end: Option<&Key>) -> (ShardId, KeyRange) {
        if self.has_one_shard() {
            return (FIRST_SHARD, KeyRange::all());
        }
        self.routes.read().below(end)
    }

    /// A shard has these keys.
    pub fn learn_bounds(&self, bounds: &KeyRange, shard: ShardId) {
        if bounds.is_empty() {
            return; // Of which nothing is known yet.
        }
        self.learn_route(&bounds.start, bounds.start.clone(), shard);
        if let Some(end) = &bounds.end
            && self.routes.write().learn_end(end.clone())
        {
            self.one_shard.store(false, Ordering::Release);
        }
    }

    /// Somebody who was asked for a key said from which key on they are whose, or whom to ask next.
    pub fn learn_route(&self, key: &[u8], from: Key, shard: ShardId) {
        let mut routes = self.routes.write();
        // Whoever leads the one mostly leads the other.
        let leader = self.leader(routes.of(&from).0);
        if routes.learn_whereabouts(key, from, shard) {
            self.leaders.write().entry(shard).or_insert(leader);
            self.one_shard.store(false, Ordering::Release);
        }
    }

    /// Whom to ask, as far as is known.
    pub fn leader(&self, shard: ShardId) -> NodeId {
        match shard {
            FIRST_SHARD => NodeId(self.leader.load(Ordering::Relaxed)),
            _ => self.leaders.read().get(&shard).copied().unwrap_or(self.me),
        }
    }

    /// The same, if that is another node.
    pub fn elsewhere(&self, shard: ShardId) -> Option<u32> {
        Some(self.leader(shard)).filter(|leader| *leader != self.me).map(|leader| leader.0)
    }

    /// Somebody asks a shard that has no member here: another node is to be asked.
    pub fn say_elsewhere(&self, from: Address, to: Address, id: u64) {
        if let Some(peers) = self.peers.get() {
            let answer = Message::Answer(Reply::NotLeader { id, leader: self.elsewhere(to.shard) });
            let here = Address { incarnation: self.incarnation, ..to };
            peers.post(from.node, None, envelope::write_frame(KIND, here, from, &answer));
            peers.flush(from.node);
        }
    }

    /// From now on another node is asked.
    pub fn ask_next(&self, shard: ShardId, leader: NodeId) {
        match shard {
            FIRST_SHARD => self.leader.store(leader.0, Ordering::Relaxed),
            _ => drop(self.leaders.write().insert(shard, leader)),
        }
    }

    /// The term in which a member leads, as far as is known.
    pub fn leadership(&self, seat: Seat) -> Option<u64> {
        self.leaderships.read().of(seat, crate::clock::boot_ns())
    }

    /// Who named that term was refused.
    pub fn doubts_leadership(&self, seat: Seat, term: u64) {
        self.leaderships.write().doubt(seat, term, crate::clock::boot_ns() + DOUBTED_FOR_NS);
    }

    /// A member leads in this term.
    pub fn heard_of_leadership(&self, seat: Seat, term: u64) {
        if self.leaderships.read().of(seat, u64::MAX) != Some(term) {
            self.leaderships.write().learn(seat, term);
        }
    }

    /// The node after one that did not know who leads.
    pub fn node_after(&self, asked: NodeId) -> Option<NodeId> {
        self.nodes.iter().find(|node| **node > asked).or(self.nodes.first()).copied()
    }

    /// Whether a node can be asked, and can answer.
    pub fn reaches(&self, node: NodeId) -> bool {
        node == self.me || self.peers.get().is_some_and(|peers| peers.is_connected(node))
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

    /// Waits a moment: nobody answers to this.
    pub async fn pause(&self, until: u64) {
        let (answerer, answer) = rendezvous();
        let key = (u64::MAX, self.number());
        self.wait_for(key, self.me, until, answerer);
        let _: Option<Heard> = answer.await;
    }

    fn wait_for(&self, key: RequestKey, node: NodeId, until: u64, answerer: Answerer<Heard>) {
        self.waiting.lock().insert(key, node, until, answerer);
        if self.is_closed() {
            // After the insertion: a database that closes has not missed it.
            let removed = self.waiting.lock().remove(key);
            drop(removed);
        }
    }

    /// An answer came for a session of this node.
    pub fn hear(&self, number: u64, reply: Reply) {
        let wounded = matches!(reply, Reply::Wounded { .. });
        let holds = wounded && self.holding.lock().contains_key(&number);
        let woken = self.waiting.lock().respond(number, reply, holds);
        wake_all(woken);
    }

    /// Who waits for this goes on.
    pub fn wake(&self, number: u64, id: u64, heard: Heard) {
        let woken = self.waiting.lock().wake((number, id), heard);
        wake_all(woken);
    }

    /// An attempt holds locks there.
    pub fn holds(&self, seat: Seat, transaction: TransactionId, age: Age) {
        let mut holding = self.holding.lock();
        let seats = holding.entry(transaction.number).or_default();
        seats.retain(|(known, _, _)| known.shard != seat.shard);
        seats.push((seat, transaction, age));
    }

    /// It holds none any more, or leaders end it.
    pub fn holds_no_more(&self, transaction: TransactionId) {
        self.holding.lock().remove(&transaction.number);
    }

    /// Tells the leaders, every second, that idle sessions live on, and the leaders here, how much
    /// is read without them.
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

    /// Lets go of whoever waits for too long, or for a node that cannot be reached.
    pub fn sweep(&self) {
        let now = crate::clock::boot_ns();
        self.keep_alive(now);
        let connected = self.peers.get().map(|peers| peers.connected()).unwrap_or_default();
        let reaches = |node| node == self.me || connected.contains(&node);
        let woken = self.waiting.lock().sweep(now, reaches);
        wake_all(woken);
    }

    /// Whether the node, or the database, ends: nobody answers any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Lets go of everybody, and ends the members; says which there were.
    pub fn close(&self) -> Vec<Arc<MemberShard>> {
        self.closed.store(true, Ordering::Release);
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
