//! A world of nodes with a replica of each shard, sessions on them, and the network.

mod request_router;

use futures::future::BoxFuture;
use meridian_clock::{Interval, Reading, Timestamp};
use meridian_machine::{
    Address, Effect as Do, Incarnation, Machine, Outbox, Position, Role, ShardId,
};
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_replication::inconsistent::{Config, Op, ReplicaSet, View};
use meridian_systems::tapir::{
    Effect, LogRecord, Message, Replica, Serve, Shard, Timer, TruncationPolicy,
};
use meridian_txn::tapir::{
    ConsensusOp, End, Guarantee, InconsistentOp, Proposal, TxnClient, recover,
};
use meridian_txn::{Begin, Database, Lock, Mode, Outcome, ReadAt, Transaction, TransactionId};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use request_router::{
    Key as Waits, RequestRouter, RouterEffect, Shared, node, replica_of, shard_of,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

pub const MS: u64 = 1_000_000;
/// Faults stop at this time, so that every session is answered by the end.
const FAULTS_END: u64 = 3_000 * MS;
const END: u64 = 40_000 * MS;
pub const BEGINNING: u64 = 1_000_000 * MS;
pub const KEYS: u8 = 6;
pub const SHARDS: usize = 2;
/// The number of transactions of each client.
const EACH: u32 = 20;
/// The operations of one message: records come in parts.
const PART_BYTES: usize = 20 << 10;
/// How long a transaction is prepared before it is recovered.
const OVERDUE: u64 = 400 * MS;
/// A few operations are enough to be forgotten.
const FORGETTING: TruncationPolicy =
    TruncationPolicy { every_ns: 60 * MS, behind_ns: 150 * MS, enough_bytes: 10 << 10 };
/// The size at which a replica's disk is rewritten.
const CHECKPOINT: usize = 60;

enum Event {
    Deliver {
        to: Address,
        from: Address,
        said: Message,
    },
    Synced {
        home: usize,
        incarnation: u32,
        through: Position,
    },
    /// A store has flushed what a view began with, and everything else by then.
    Stored {
        home: usize,
        incarnation: u32,
        view: View,
    },
    /// A replica reads for a session.
    Serve {
        home: usize,
        incarnation: u32,
        serve: Serve,
    },
    Timer {
        home: usize,
        incarnation: u32,
        timer: Timer,
        armed: u64,
    },
    /// Wakes a waiting session of a request router.
    Alarm {
        node: usize,
        incarnation: u32,
        key: Waits,
    },
    /// A client begins a transaction, or its node looks for overdue ones.
    Begin {
        client: usize,
    },
    Look {
        node: usize,
        incarnation: u32,
    },
    /// A session is dropped in the middle of its work.
    Leave {
        client: usize,
        number: u32,
    },
    Crash {
        node: usize,
    },
    Restart {
        node: usize,
    },
    ChangeView {
        home: usize,
    },
}

/// A replica.
#[derive(Default)]
struct TestReplica {
    replica: Option<Replica>,
    out: Outbox<Replica>,
    disk: Vec<LogRecord>,
    writing: Vec<(Position, LogRecord)>,
    timers: BTreeMap<Timer, u64>,
}

struct Node {
    incarnation: u32,
    /// The offset of its clock from true time.
    skew: i64,
    router: Option<Arc<RequestRouter>>,
    txn_client: Option<Arc<TxnClient<RequestRouter>>>,
    recovering: BTreeSet<TransactionId>,
}

/// A transaction as its client saw it.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    reads: Vec<(Key, Option<Value>)>,
    /// The timestamp of a read-only transaction.
    read_at: Option<Timestamp>,
    began: u64,
    told: u64,
    outcome: Option<Outcome>,
}

struct Client {
    node: usize,
    number: u32,
    seen: Arc<Mutex<Observed>>,
    task: Option<u64>,
}

struct Task {
    node: usize,
    incarnation: u32,
    client: Option<usize>,
    recovers: Option<TransactionId>,
    future: BoxFuture<'static, ()>,
}

struct Ready {
    task: u64,
    queue: Arc<Mutex<VecDeque<u64>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.queue.lock().push_back(self.task);
    }
}

/// The counts of a world's outcomes.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    pub committed: usize,
    pub aborted: usize,
    pub unknown: usize,
    pub recovered: usize,
    /// Read-only transactions.
    pub snapshots: usize,
    /// Transactions that committed in more than one shard.
    pub of_many: usize,
    /// The size of the largest record in the end.
    pub most: usize,
}

impl Outcomes {
    pub fn add(&mut self, other: &Outcomes) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.unknown += other.unknown;
        self.recovered += other.recovered;
        self.snapshots += other.snapshots;
        self.of_many += other.of_many;
        self.most = self.most.max(other.most);
    }
}

pub struct World {
    guarantee: Guarantee,
    half_width: u64,
    now: u64,
    rng: ChaCha8Rng,
    events: BTreeMap<(u64, u64), Event>,
    counter: u64,
    nodes: Vec<Node>,
    /// By shard and node.
    homes: Vec<TestReplica>,
    shared: Arc<Mutex<Shared>>,
    clients: Vec<Client>,
    tasks: BTreeMap<u64, Task>,
    /// The outcome of each transaction in each shard, as replicas learned it; the proposal if it
    /// committed.
    ended: BTreeMap<(usize, TransactionId), BTreeSet<Option<Proposal>>>,
    ready: Arc<Mutex<VecDeque<u64>>>,
    told: Vec<Observed>,
    outcomes: Outcomes,
}

fn key(number: u8) -> Key {
    Key::from(&[b'a' + number][..])
}

/// A client's transaction: reads some keys, writes some, and commits.
async fn transact(
    txn_client: Arc<TxnClient<RequestRouter>>,
    (gets, scans, writes): (Vec<u8>, Vec<(u8, u8)>, Vec<(u8, Option<Value>)>),
    seen: Arc<Mutex<Observed>>,
) {
    let mode = if writes.is_empty() { Mode::ReadOnly(ReadAt::Now) } else { Mode::ReadWrite };
    let Ok(mut transaction) = txn_client.begin(Begin::new(mode)).await else { return };
    seen.lock().read_at = transaction.read_at();
    for number in gets {
        let key = key(number);
        match transaction.get(&key, Lock::Shared).await {
            Ok(value) => seen.lock().reads.push((key, value)),
            Err(_) => return,
        }
    }
    for (first, many) in scans {
        let range = KeyRange { start: key(first), end: Some(key(first + many)) };
        if look(&mut *transaction, range, (first, many), &seen).await.is_none() {
            return;
        }
    }
    for (number, value) in writes {
        transaction.put(key(number), value).expect("it writes little");
    }
    let outcome = transaction.commit().await;
    seen.lock().outcome = Some(outcome);
}

async fn look(
    transaction: &mut dyn Transaction,
    range: KeyRange,
    (first, many): (u8, u8),
    seen: &Mutex<Observed>,
) -> Option<()> {
    let (mut rest, mut rows) = (Some(range), BTreeMap::new());
    while let Some(range) = rest {
        let found = transaction.scan(&range, Lock::Shared, first % 2 == 0, 2).await.ok()?;
        rows.extend(found.rows);
        rest = found.rest;
    }
    let keys = (first..first + many).map(key);
    seen.lock().reads.extend(keys.map(|key| (key.clone(), rows.get(&key).cloned())));
    Some(())
}

impl World {
    /// Makes a world with three or five nodes, or with the given number.
    pub fn new(seed: u64, nodes: Option<usize>) -> World {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let drawn = if rng.random_bool(0.7) { 3 } else { 5 };
        let nodes = nodes.unwrap_or(drawn);
        let guarantee = if seed.is_multiple_of(2) {
            Guarantee::Serializable
        } else {
            Guarantee::StrictlySerializable
        };
        let half_width = rng.random_range(MS..30 * MS);
        let half = half_width as i64;
        let shared = Arc::new(Mutex::new(Shared::new(nodes, rng.random(), true)));
        let mut world = World {
            guarantee,
            half_width,
            now: BEGINNING,
            events: BTreeMap::new(),
            counter: 0,
            nodes: (0..nodes)
                .map(|_| Node {
                    incarnation: 0,
                    skew: rng.random_range(-half..=half),
                    router: None,
                    txn_client: None,
                    recovering: BTreeSet::new(),
                })
                .collect(),
            homes: (0..nodes * SHARDS).map(|_| TestReplica::default()).collect(),
            shared,
            clients: Vec::new(),
            tasks: BTreeMap::new(),
            ended: BTreeMap::new(),
            ready: Arc::default(),
            told: Vec::new(),
            outcomes: Outcomes::default(),
            rng,
        };
        (0..nodes).for_each(|node| world.boot(node));
        for client in 0..world.rng.random_range(3..7) {
            world.clients.push(Client {
                node: client % nodes,
                number: 0,
                seen: Arc::default(),
                task: None,
            });
            let after = world.rng.random_range(0..20 * MS);
            world.push(after, Event::Begin { client });
        }
        for _ in 0..world.rng.random_range(0..6) {
            let (after, node) =
                (world.rng.random_range(0..FAULTS_END), world.rng.random_range(0..nodes));
            world.push(after, Event::Crash { node });
        }
        for _ in 0..world.rng.random_range(0..8) {
            let (after, home) =
                (world.rng.random_range(0..FAULTS_END), world.rng.random_range(0..nodes * SHARDS));
            world.push(after, Event::ChangeView { home });
        }
        world
    }

    fn push_at(&mut self, at: u64, event: Event) {
        self.counter += 1;
        self.events.insert((at, self.counter), event);
    }

    fn push(&mut self, after: u64, event: Event) {
        self.push_at(self.now + after, event);
    }

    fn faulty(&self) -> bool {
        self.now < BEGINNING + FAULTS_END
    }

    fn home(&self, shard: usize, node: usize) -> usize {
        shard * self.nodes.len() + node
    }

    fn node_of(&self, home: usize) -> usize {
        home % self.nodes.len()
    }

    fn address(&self, home: usize) -> Address {
        replica_of(ShardId((home / self.nodes.len()) as u32), node(self.node_of(home)))
    }

    fn reading(&self, node: usize) -> Reading {
        let nanos = self.now.saturating_add_signed(self.nodes[node].skew);
        Reading::at(self.now, Interval::around(nanos, self.half_width))
    }

    fn boot(&mut self, at: usize) {
        let there = &mut self.nodes[at];
        there.incarnation += 1;
        there.recovering.clear();
        let incarnation = there.incarnation;
        let router = Arc::new(RequestRouter::new(at, incarnation, Arc::clone(&self.shared)));
        router.set(self.reading(at));
        let txn_client = Arc::new(TxnClient::new(Arc::clone(&router), self.guarantee));
        (self.nodes[at].router, self.nodes[at].txn_client) = (Some(router), Some(txn_client));
        self.shared.lock().begin(at);
        for shard in 0..SHARDS {
            let home = self.home(shard, at);
            let members = ReplicaSet::first((0..self.nodes.len()).map(node).collect());
            let bounds = request_router::bounds(shard);
            let address = self.address(home);
            let (me, database, shard) = (node(at), address.database, address.shard);
            let (repeat_ns, view_timeout_ns, gather_ns) = (30 * MS, 200 * MS, 5 * MS);
            let config = Config {
                me,
                members,
                database,
                shard,
                repeat_ns,
                view_timeout_ns,
                gather_ns,
                part_bytes: PART_BYTES,
            };
            let (now, shard) = (self.reading(at), Shard::new(self.guarantee, shard, bounds));
            let there = &mut self.homes[home];
            (there.out, there.timers, there.writing) = (Outbox::new(), BTreeMap::new(), Vec::new());
            let replica = Replica::new(
                config,
                (Incarnation(incarnation), false),
                shard,
                there.disk.clone(),
                now,
                &mut there.out,
            );
            there.replica = replica.map(|replica| replica.truncation(FORGETTING));
            self.perform(home);
        }
        let after = self.rng.random_range(50 * MS..150 * MS);
        self.push(after, Event::Look { node: at, incarnation });
    }

    fn step(
        &mut self,
        home: usize,
        step: impl FnOnce(&mut Replica, Reading, &mut Outbox<Replica>),
    ) {
        let now = self.reading(self.node_of(home));
        let there = &mut self.homes[home];
        let Some(replica) = &mut there.replica else { return };
        step(replica, now, &mut there.out);
        self.perform(home);
    }

    fn perform(&mut self, home: usize) {
        let effects: Vec<_> = self.homes[home].out.drain().collect();
        let (incarnation, mut through) = (self.nodes[self.node_of(home)].incarnation, None);
        let from = self.address(home);
        for effect in effects {
            match effect {
                Do::Send { to, message } | Do::SendBefore { to, message, .. } => {
                    self.send(from, to, message)
                }
                Do::Arm { timer, at } => {
                    self.homes[home].timers.insert(timer, at);
                    self.push_at(
                        at.max(self.now),
                        Event::Timer { home, incarnation, timer, armed: at },
                    );
                }
                Do::Disarm { timer } => drop(self.homes[home].timers.remove(&timer)),
                Do::Persist { position, record } => {
                    self.hears_of_an_end(home, &record);
                    self.homes[home].writing.push((position, record));
                    through = Some(position);
                }
                Do::Do(Effect::Install { at, writes }) => {
                    let node = self.node_of(home);
                    self.shared.lock().install(node, at, writes);
                }
                Do::Do(Effect::Began { view, settled }) => {
                    self.shared.lock().settle(self.node_of(home), home / self.nodes.len(), settled);
                    let after = self.rng.random_range(0..200 * MS);
                    self.push(after, Event::Stored { home, incarnation, view });
                }
                Do::Do(Effect::Adopt(_) | Effect::Copied(_) | Effect::Serves) => {
                    unreachable!("no replica takes over")
                }
                Do::Do(Effect::Serve(serve)) => {
                    let after = self.rng.random_range(0..2 * MS);
                    self.push(after, Event::Serve { home, incarnation, serve });
                }
            }
        }
        if let Some(through) = through {
            let after = self.rng.random_range(0..10 * MS);
            self.push(after, Event::Synced { home, incarnation, through });
        }
    }

    fn hears_of_an_end(&mut self, home: usize, logged: &LogRecord) {
        let LogRecord::Told { op: InconsistentOp::Ended(end), .. } = logged else { return };
        let (who, how) = match end {
            End::Commit(proposal) => (proposal.transaction, Some(proposal.clone())),
            End::Abort { transaction, .. } => (*transaction, None),
        };
        self.ended.entry((home / self.nodes.len(), who)).or_default().insert(how);
    }

    fn send(&mut self, from: Address, to: Address, said: Message) {
        if from.node == to.node {
            return self.push(0, Event::Deliver { to, from, said });
        }
        let copies = match self.rng.random_range(0..100) {
            0..6 if self.faulty() => 0,
            6..12 if self.faulty() => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let slow = self.faulty() && self.rng.random_range(0..12) == 0;
            let after = self.rng.random_range(MS / 2..if slow { 300 * MS } else { 3 * MS });
            self.push(after, Event::Deliver { to, from, said: said.clone() });
        }
    }

    fn begin(&mut self, at: usize) {
        if self.clients[at].number == EACH || self.clients[at].task.is_some() {
            return;
        }
        let living: Vec<usize> =
            (0..self.nodes.len()).filter(|node| self.nodes[*node].router.is_some()).collect();
        let own = self.clients[at].node;
        let node = if living.contains(&own) || living.is_empty() {
            own
        } else {
            living[self.rng.random_range(0..living.len())]
        };
        let Some(txn_client) = self.nodes[node].txn_client.clone() else {
            return self.push(20 * MS, Event::Begin { client: at });
        };
        let (mut gets, mut scans, mut writes) = (Vec::new(), Vec::new(), BTreeMap::new());
        for _ in 0..self.rng.random_range(0..3) {
            let (first, many) = (self.rng.random_range(0..KEYS), self.rng.random_range(1..4));
            match self.rng.random_bool(0.7) {
                true => gets.push(first),
                false => scans.push((first, many)),
            }
        }
        let client = &mut self.clients[at];
        client.number += 1;
        let number = client.number;
        let least = u8::from(gets.is_empty() && scans.is_empty());
        for _ in 0..self.rng.random_range(least..3) {
            let value =
                self.rng.random_bool(0.8).then(|| Value::from(format!("{at}.{number}").as_str()));
            writes.insert(self.rng.random_range(0..KEYS), value);
        }
        let seen = Arc::new(Mutex::new(Observed { began: self.now, ..Observed::default() }));
        self.clients[at].seen = Arc::clone(&seen);
        let future =
            Box::pin(transact(txn_client, (gets, scans, writes.into_iter().collect()), seen));
        let incarnation = self.nodes[node].incarnation;
        self.clients[at].task = Some(self.counter + 1);
        if self.faulty() && self.rng.random_range(0..20) == 0 {
            let after = self.rng.random_range(0..15 * MS);
            self.push(after, Event::Leave { client: at, number });
            self.clients[at].task = Some(self.counter + 1);
        }
        self.spawn(Task { node, incarnation, client: Some(at), recovers: None, future });
    }

    fn spawn(&mut self, task: Task) {
        self.counter += 1;
        let id = self.counter;
        self.tasks.insert(id, task);
        self.poll(id);
    }

    fn poll(&mut self, id: u64) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let (node, incarnation) = (task.node, task.incarnation);
        if let Some(router) =
            self.nodes[node].router.as_ref().filter(|_| self.nodes[node].incarnation == incarnation)
        {
            router.set(self.reading(node));
        }
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let waker = Waker::from(Arc::new(Ready { task: id, queue: Arc::clone(&self.ready) }));
        if task.future.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(()) {
            let Task { client, recovers, .. } = self.tasks.remove(&id).expect("just polled");
            if let Some(transaction) = recovers {
                self.nodes[node].recovering.remove(&transaction);
                self.outcomes.recovered += 1;
            }
            if let Some(client) = client {
                self.ended(client);
            }
        }
        self.grant(node);
    }

    /// Notes that a client's transaction is over, as far as the client knows.
    fn ended(&mut self, client: usize) {
        let mut seen = std::mem::take(&mut *self.clients[client].seen.lock());
        seen.told = self.now;
        self.told.push(seen);
        self.clients[client].task = None;
        let after = self.rng.random_range(0..30 * MS);
        self.push(after, Event::Begin { client });
    }

    /// Carries out the requests of a node's sessions.
    fn grant(&mut self, at: usize) {
        let Some(router) = self.nodes[at].router.clone() else { return };
        let incarnation = self.nodes[at].incarnation;
        for wish in router.take_effects() {
            match wish {
                RouterEffect::Alarm(until, key) => {
                    self.push_at(until.max(self.now), Event::Alarm { node: at, incarnation, key })
                }
                RouterEffect::Say((shard, to), message) => {
                    let incarnation = Incarnation(incarnation);
                    let from = Address {
                        incarnation,
                        role: Role::Coordinator(0),
                        ..replica_of(shard, node(at))
                    };
                    self.send(from, replica_of(shard, to), message);
                }
            }
        }
    }

    fn look(&mut self, at: usize) {
        let now = self.reading(at);
        for shard in 0..SHARDS {
            let home = self.home(shard, at);
            let Some(replica) = &self.homes[home].replica else { continue };
            for (transaction, participants) in
                replica.operations().application().participant().overdue(now, OVERDUE)
            {
                let Some(router) = self.nodes[at].router.clone() else { return };
                if !self.nodes[at].recovering.insert(transaction) {
                    continue;
                }
                let until = now.boot_ns + 5_000 * MS;
                let future = Box::pin(async move {
                    recover(&*router, transaction, &participants, until).await;
                });
                let incarnation = self.nodes[at].incarnation;
                self.spawn(Task {
                    node: at,
                    incarnation,
                    client: None,
                    recovers: Some(transaction),
                    future,
                });
            }
        }
    }

    fn crash(&mut self, at: usize) {
        if self.nodes[at].router.is_none() {
            return;
        }
        (self.nodes[at].router, self.nodes[at].txn_client) = (None, None);
        self.shared.lock().end(at);
        for shard in 0..SHARDS {
            let home = self.home(shard, at);
            self.homes[home].replica = None;
        }
        let dead: Vec<u64> =
            self.tasks.iter().filter(|(_, task)| task.node == at).map(|(id, _)| *id).collect();
        for id in dead {
            if let Some(client) = self.tasks.remove(&id).and_then(|task| task.client) {
                self.ended(client);
            }
        }
        let most = if self.rng.random_bool(0.5) { 2 * MS } else { 600 * MS };
        let after = self.rng.random_range(MS / 10..most);
        self.push(after, Event::Restart { node: at });
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Deliver { to, from, said } => match to.role {
                Role::Coordinator(_) => {
                    let at = to.node.0 as usize - 1;
                    let lives = self.nodes[at].incarnation == to.incarnation.0;
                    if let Some(router) = self.nodes[at].router.as_ref().filter(|_| lives) {
                        router.hear(from.node, said);
                    }
                }
                _ => {
                    let home = self.home(shard_of(to), to.node.0 as usize - 1);
                    self.step(home, |replica, now, out| replica.on_message(now, from, said, out));
                }
            },
            Event::Synced { home, incarnation, through } => {
                if self.nodes[self.node_of(home)].incarnation == incarnation
                    && self.homes[home].replica.is_some()
                {
                    let there = &mut self.homes[home];
                    let synced = there
                        .writing
                        .iter()
                        .take_while(|(position, _)| *position <= through)
                        .count();
                    there.disk.extend(there.writing.drain(..synced).map(|(_, record)| record));
                    let full = there
                        .replica
                        .as_ref()
                        .filter(|_| there.disk.len() > CHECKPOINT && there.writing.is_empty());
                    if let Some(checkpoint) =
                        full.and_then(|replica| replica.operations().checkpoint())
                    {
                        there.disk = checkpoint;
                    }
                    self.step(home, |replica, now, out| replica.on_durable(now, through, out));
                }
            }
            Event::Stored { home, incarnation, view } => {
                let node = self.node_of(home);
                if self.nodes[node].incarnation == incarnation && self.homes[home].replica.is_some()
                {
                    self.shared.lock().sync(node);
                    self.step(home, |replica, _, out| replica.stored(view, 0, out));
                }
            }
            Event::Serve { home, incarnation, serve } => {
                let node = self.node_of(home);
                let Serve { to, ref range, reverse, limit_rows, .. } = serve;
                let page = self.shared.lock().page(node, range, serve.at(), reverse, limit_rows);
                if let Some(page) = page.filter(|_| self.nodes[node].incarnation == incarnation) {
                    self.send(self.address(home), to, serve.answer(page));
                }
            }
            Event::Timer { home, incarnation, timer, armed } => {
                let lives = self.nodes[self.node_of(home)].incarnation == incarnation;
                if lives && self.homes[home].timers.get(&timer) == Some(&armed) {
                    self.homes[home].timers.remove(&timer);
                    self.step(home, |replica, now, out| replica.on_timer(now, timer, out));
                }
            }
            Event::Alarm { node, incarnation, key } => {
                if let Some(router) = self.nodes[node]
                    .router
                    .as_ref()
                    .filter(|_| self.nodes[node].incarnation == incarnation)
                {
                    router.alarm(key);
                }
            }
            Event::Begin { client } => self.begin(client),
            Event::Look { node, incarnation } => {
                if self.nodes[node].incarnation == incarnation && self.nodes[node].router.is_some()
                {
                    self.look(node);
                    self.push(100 * MS, Event::Look { node, incarnation });
                }
            }
            Event::Leave { client, number } => {
                if self.clients[client].number == number
                    && let Some(task) = self.clients[client].task
                    && self.tasks.remove(&task).is_some()
                {
                    self.ended(client);
                }
            }
            Event::Crash { node } => self.crash(node),
            Event::Restart { node } => {
                if self.nodes[node].router.is_none() {
                    self.boot(node);
                }
            }
            Event::ChangeView { home } => {
                self.step(home, |replica, now, out| replica.change_view(now, out))
            }
        }
        loop {
            let next = self.ready.lock().pop_front();
            let Some(task) = next else { return };
            self.poll(task);
        }
    }

    fn until(&mut self, end: u64, enough: impl Fn(&World) -> bool) {
        while !enough(self)
            && let Some(((at, _), event)) = self.events.pop_first()
            && at <= BEGINNING + end
        {
            self.now = at;
            self.happens(event);
        }
    }

    fn is_at_rest(&self) -> bool {
        let idle = |replica: &Replica| {
            !replica.operations().is_between_views()
                && replica.operations().application().participant().prepared().next().is_none()
        };
        !self.faulty()
            && self.tasks.is_empty()
            && self.clients.iter().all(|client| client.number == EACH)
            && self.homes.iter().all(|home| home.replica.as_ref().is_some_and(idle))
    }

    pub fn judge(mut self) -> Result<Outcomes, String> {
        self.until(END, World::is_at_rest);
        if let Some(client) =
            self.clients.iter().position(|client| client.number < EACH || client.task.is_some())
        {
            return Err(format!("client {client} did not get on"));
        }
        if !self.is_at_rest() {
            return Err(
                "a transaction is prepared, or a replica between two views, in the end".into()
            );
        }
        // The next view tells replicas what neither a proposal nor an outcome has told them.
        for shard in 0..SHARDS {
            let home = self.home(shard, 0);
            self.step(home, |replica, now, out| replica.change_view(now, out));
        }
        self.until(END + 1_000 * MS, |_| false);
        if !self.is_at_rest() {
            return Err("the last view does not begin".into());
        }
        self.has_forgotten_what_is_over()?;
        let records = self
            .homes
            .iter()
            .filter_map(|there| there.replica.as_ref())
            .map(|replica| replica.operations().record());
        self.outcomes.most = records.map(|record| record.len()).max().unwrap_or_default();
        // The store has everything that a replica has forgotten, across a restart.
        for node in 0..self.nodes.len() {
            self.crash(node);
            self.boot(node);
        }
        let committed = self.committed()?;
        self.has_read_what_stood(&committed)?;
        self.was_told_so(&committed)?;
        self.outcomes.committed = committed.len();
        self.outcomes.of_many = committed.values().filter(|parts| parts.len() > 1).count();
        Ok(self.outcomes)
    }

    /// Checks that ended transactions are forgotten once nothing is proposed. Records keep the
    /// names of commits of several shards, and refusals up to the future. It takes some view
    /// changes, because not each includes all replicas.
    fn has_forgotten_what_is_over(&mut self) -> Result<(), String> {
        for round in 1..=20 {
            let left = self.is_over();
            if left.is_none() {
                return Ok(());
            }
            for shard in 0..SHARDS {
                let home = self.home(shard, round % self.nodes.len());
                self.step(home, Replica::close);
            }
            self.until(END + (1_000 + 500 * round as u64) * MS, |_| false);
        }
        self.is_over().map_or(Ok(()), Err)
    }

    /// Returns an ended transaction that a record still has.
    fn is_over(&self) -> Option<String> {
        // A shard's timestamps are closed up to its own newest commit.
        let last_of = |shard: usize| {
            let here = self.ended.iter().filter(|((of, _), _)| *of == shard);
            here.flat_map(|(_, how)| how.iter().flatten())
                .map(|proposal| proposal.at)
                .max()
                .unwrap_or_default()
        };
        for (home, there) in self.homes.iter().enumerate() {
            let Some(replica) = &there.replica else {
                return Some("a node is down in the end".into());
            };
            let (settled, last) = (replica.settled(), last_of(home / self.nodes.len()));
            if settled < last {
                return Some(format!(
                    "{settled} is settled, and a transaction has committed at {last}"
                ));
            }
            for entry in replica.operations().record().iter().map(|(_, entry)| entry) {
                let is_over = match &entry.op {
                    Op::Consensus(ConsensusOp::Prepare(proposal)) => proposal.at <= settled,
                    Op::Inconsistent(InconsistentOp::Ended(End::Commit(proposal))) => {
                        !proposal.is_name()
                    }
                    Op::Inconsistent(InconsistentOp::Ended(End::Abort { at, .. })) => {
                        *at <= settled
                    }
                    Op::Consensus(ConsensusOp::Resolve { through, .. }) => *through <= settled,
                    Op::Inconsistent(InconsistentOp::Served(_) | InconsistentOp::Over(_)) => false,
                };
                if is_over {
                    return Some(format!("{entry:?} is over, and is not forgotten"));
                }
            }
        }
        None
    }

    /// Returns the commits by timestamp, with their parts, or fails unless each is complete: in all
    /// its shards, at all replicas.
    fn committed(&self) -> Result<BTreeMap<Timestamp, Vec<Proposal>>, String> {
        let mut by_shard: Vec<BTreeMap<TransactionId, Proposal>> = vec![BTreeMap::new(); SHARDS];
        for ((shard, who), how) in &self.ended {
            let mut commits = how.iter().flatten();
            if let Some(proposal) = commits.next() {
                // A recovery may be told that a forgotten commit of one shard was never prepared,
                // which does no harm.
                if commits.next().is_some()
                    || how.contains(&None) && proposal.participants.len() > 1
                {
                    return Err(format!("{who:?} has ended in different ways: {how:?}"));
                }
                by_shard[*shard].insert(*who, proposal.clone());
            }
        }
        let mut committed: BTreeMap<Timestamp, Vec<Proposal>> = BTreeMap::new();
        for proposal in by_shard.iter().flat_map(|shard| shard.values()) {
            let who = proposal.transaction;
            for shard in &proposal.participants {
                let there = by_shard[shard.0 as usize].get(&who);
                if there.is_none_or(|other| other.at != proposal.at) {
                    return Err(format!(
                        "{who:?} has committed at {}, and in shard {} as {there:?}",
                        proposal.at, shard.0
                    ));
                }
            }
            committed.entry(proposal.at).or_default().push(proposal.clone());
        }
        let shared = self.shared.lock();
        for proposal in committed.values().flatten() {
            for (node, write) in (0..self.nodes.len())
                .flat_map(|node| proposal.writes.iter().map(move |w| (node, w)))
            {
                if shared.version(node, &write.key, proposal.at) != Some(write.value.clone()) {
                    return Err(format!("{proposal:?} is not whole at node {}", node + 1));
                }
            }
        }
        Ok(committed)
    }

    fn has_read_what_stood(
        &self,
        committed: &BTreeMap<Timestamp, Vec<Proposal>>,
    ) -> Result<(), String> {
        let mut versions: BTreeMap<&Key, BTreeSet<Timestamp>> = BTreeMap::new();
        for Proposal { at, footprint, .. } in committed.values().flatten() {
            for write in &footprint.writes {
                versions.entry(&write.key).or_default().insert(*at);
            }
        }
        for Proposal { transaction, at, footprint, .. } in committed.values().flatten() {
            for seen in &footprint.reads {
                for (key, all) in versions.iter().filter(|(key, _)| seen.range.contains(key)) {
                    let stood = all
                        .range(..*at)
                        .next_back()
                        .copied()
                        .filter(|version| *version > seen.through);
                    let saw = seen.of(key);
                    if saw != stood {
                        return Err(format!(
                            "{transaction:?} at {at} has read {saw:?} of {key:?}, where {stood:?} stood"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that sessions were told true outcomes, have read the values of their timestamps, and
    /// that real time holds where it was promised.
    fn was_told_so(
        &mut self,
        committed: &BTreeMap<Timestamp, Vec<Proposal>>,
    ) -> Result<(), String> {
        let mut values: BTreeMap<&Key, BTreeMap<Timestamp, &Option<Value>>> = BTreeMap::new();
        for Proposal { at, footprint, .. } in committed.values().flatten() {
            for write in &footprint.writes {
                values.entry(&write.key).or_default().insert(*at, &write.value);
            }
        }
        let mut known: Vec<(u64, u64, Timestamp, bool)> = Vec::new();
        for told in &self.told {
            match &told.outcome {
                None | Some(Outcome::Unknown) => self.outcomes.unknown += 1,
                Some(Outcome::Aborted { .. }) => self.outcomes.aborted += 1,
                Some(Outcome::Committed { at }) => {
                    let reads = told.read_at.is_some();
                    self.outcomes.snapshots += usize::from(reads);
                    if !reads && !committed.contains_key(at) {
                        return Err(format!(
                            "a session was told of a commit at {at}, and no replica has it"
                        ));
                    }
                    let through = if reads { Bound::Included(*at) } else { Bound::Excluded(*at) };
                    for (key, read) in &told.reads {
                        let stood = values
                            .get(key)
                            .and_then(|all| all.range((Bound::Unbounded, through)).next_back());
                        if stood.and_then(|(_, value)| (*value).clone()) != *read {
                            return Err(format!(
                                "{told:?} has read {read:?} of {key:?}, where {stood:?} stood"
                            ));
                        }
                    }
                    known.push((told.began, told.told, *at, reads));
                }
            }
        }
        if self.guarantee == Guarantee::StrictlySerializable {
            // A snapshot may lie ahead of its reader's true time: a later write below it is
            // refused.
            for (_, told, before, _) in known.iter().filter(|(.., reads)| !reads) {
                if let Some((_, _, after, _)) =
                    known.iter().find(|(began, _, after, _)| began > told && after < before)
                {
                    return Err(format!(
                        "{after} began when {before} had been told, and is before it"
                    ));
                }
            }
        }
        Ok(())
    }
}
