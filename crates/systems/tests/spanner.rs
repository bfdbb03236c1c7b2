//! Three replicas, clients with random transactions, lost messages, crashes and skewed clocks. The judge replays all commits in the order of
//! their timestamps: every read must have seen exactly that order, and the order must respect real time.

use meridian_clock::{Interval, Reading, Timestamp};
use meridian_machine::{
    Address, DatabaseId, Effect as Do, Incarnation, Machine, NodeId, Outbox, Position, Role, ShardId,
};
use meridian_mvcc::{Key, KeyRange, Recent, SpaceId, Value, Write, scan};
use meridian_replication::group::{Config, Index, Record, Restored, Term};
use meridian_store::MemoryStore;
use meridian_systems::spanner::{Effect, Message, Replica, Timer};
use meridian_txn::locking::{Ask, Reply, Request, TransactionId};
use meridian_txn::{Age, Lock};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};

const MS: u64 = 1_000_000;
const NODES: usize = 3;
const EPSILON: u64 = 3 * MS;
const SPACE: SpaceId = SpaceId { database: 1, shard: 0, copy: 0 };

/// What the world does wrong on purpose, so that the judge is seen to notice.
#[derive(Clone, Copy, PartialEq)]
enum Defect {
    None,
    /// Versions become readable only after the locks that protected them were released.
    InstalledLate,
    /// Records are called durable before they are.
    SyncLost,
}

#[derive(Default)]
struct Node {
    replica: Option<Replica>,
    out: Outbox<Replica>,
    recent: Recent,
    timers: BTreeMap<Timer, u64>,
    disk: Vec<Record>,
    writing: Vec<(Position, Record, u64)>,
    offset: i64,
    back_at: u64,
    late: Vec<(Timestamp, Vec<Write>, u64)>,
}

/// One transaction as its client saw it.
#[derive(Clone, Debug)]
struct Seen {
    start: u64,
    end: u64,
    at: Timestamp,
    reads: Vec<(Key, Option<Value>)>,
    writes: Vec<Write>,
}

struct Client {
    number: u64,
    age: Age,
    start: u64,
    /// Grows over all transactions of a client; this one's questions come after `base`.
    id: u64,
    base: u64,
    term: Option<u64>,
    leader: usize,
    /// Keys to read, then what to write; a snapshot reads everything at once.
    plan: Vec<(Key, Lock)>,
    reads: Vec<(Key, Option<Value>)>,
    writes: Vec<Write>,
    snapshot: bool,
    retry_at: u64,
    deadline: u64,
    committing: bool,
    aborted: bool,
}

struct World {
    seed: u64,
    defect: Defect,
    rng: ChaCha8Rng,
    now: u64,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    wire: BTreeMap<(u64, u64), (Address, Address, Message)>,
    sent: u64,
    seen: Vec<Seen>,
    maybe: BTreeMap<TransactionId, Vec<Write>>,
    /// Every commit that any node installed.
    commits: BTreeMap<Timestamp, Vec<Write>>,
    faults: bool,
    numbers: u64,
    unknown: usize,
}

fn address(node: usize) -> Address {
    Address::replica(NodeId(node as u32), DatabaseId(1), ShardId(0))
}

fn client_address(client: usize) -> Address {
    let role = Role::Coordinator(client as u64);
    Address { node: NodeId(9), incarnation: Incarnation(1), database: DatabaseId(1), shard: ShardId(0), role }
}

impl World {
    fn reading(&self, node: usize) -> Reading {
        let nanos = self.now.saturating_add_signed(self.nodes[node].offset);
        Reading::at(self.now, Interval::around(nanos, EPSILON))
    }

    fn boot(&mut self, at: usize) {
        let members = (0..NODES as u32).map(NodeId).collect();
        let mut config = Config::new(NodeId(at as u32), members, DatabaseId(1), ShardId(0));
        (config.heartbeat_ns, config.election_timeout_ns, config.lease_ns) = (20 * MS, 100 * MS, 150 * MS);
        let (now, seed) = (self.reading(at), self.rng.random());
        let node = &mut self.nodes[at];
        node.recent = Recent::new();
        node.late.clear();
        (node.out, node.timers) = (Outbox::new(), BTreeMap::new());
        let restored = Restored { records: node.disk.clone(), applied: Index(0), applied_term: Term(0) };
        let mut out = Outbox::new();
        node.replica = Some(Replica::new(config, seed, restored, Timestamp::ZERO, now, &mut out));
        node.out = out;
        self.perform(at);
    }

    fn step(&mut self, at: usize, step: impl FnOnce(&mut Replica, &mut Outbox<Replica>)) {
        let node = &mut self.nodes[at];
        let Some(replica) = &mut node.replica else { return };
        step(replica, &mut node.out);
        self.perform(at);
    }

    fn send(&mut self, from: Address, to: Address, message: Message) {
        if self.faults && self.rng.random_bool(0.03) {
            return;
        }
        let slow = if self.faults && self.rng.random_bool(0.03) { 80 } else { 3 };
        self.sent += 1;
        let when = self.now + self.rng.random_range(1..slow * MS);
        self.wire.insert((when, self.sent), (from, to, message));
    }

    fn perform(&mut self, at: usize) {
        let effects: Vec<_> = self.nodes[at].out.drain().collect();
        for effect in effects {
            match effect {
                Do::Send { to, message } => self.send(address(at), to, message),
                Do::SendBefore { deadline, to, message } => {
                    if self.reading(at).interval.latest < deadline {
                        self.send(address(at), to, message);
                    }
                }
                Do::Arm { timer, at: when } => drop(self.nodes[at].timers.insert(timer, when)),
                Do::Disarm { timer } => drop(self.nodes[at].timers.remove(&timer)),
                Do::Persist { position, record } => {
                    let when = self.now + self.rng.random_range(0..2 * MS);
                    let node = &mut self.nodes[at];
                    let when = node.writing.last().map_or(when, |(_, _, last)| when.max(*last));
                    node.writing.push((position, record, when));
                }
                Do::Do(effect) => self.act(at, effect),
            }
        }
    }

    fn act(&mut self, at: usize, effect: Effect) {
        match effect {
            Effect::Install { at: commit_at, writes, index, .. } => {
                let known = self.commits.entry(commit_at).or_insert_with(|| writes.clone());
                assert_eq!(*known, writes, "seed {}: I2", self.seed);
                if self.defect == Defect::InstalledLate {
                    self.nodes[at].late.push((commit_at, writes, index.0));
                } else {
                    self.nodes[at].recent.install(commit_at, &writes, index.0);
                }
            }
            Effect::Serve { reply_to, id, term, at: read_at, range, reverse, limit_rows, deadline } => {
                let (recent, store) = (&self.nodes[at].recent, MemoryStore::new());
                let chunk = scan(recent, &store, SPACE, &range, read_at, reverse, limit_rows as usize, 1 << 20)
                    .expect("memory");
                let reply = Reply::Rows { id, term, at: read_at, rows: chunk.rows, rest: chunk.rest };
                if deadline.is_none_or(|deadline| self.reading(at).interval.latest < deadline) {
                    self.send(address(at), reply_to, Message::Answer(reply));
                }
            }
            Effect::Readable(_) | Effect::Leader(_) => {}
            Effect::SendSnapshot { .. } | Effect::Stop { .. } => panic!("seed {}: {effect:?}", self.seed),
        }
    }

    fn begin(&mut self, client: usize) {
        self.numbers += 1;
        let number = self.numbers;
        let key = |rng: &mut ChaCha8Rng| Key::from(vec![b'a' + rng.random_range(0..5)]);
        let snapshot = self.rng.random_bool(0.25);
        let keys: BTreeSet<Key> = (0..self.rng.random_range(1..4)).map(|_| key(&mut self.rng)).collect();
        let lock = if self.rng.random_bool(0.5) { Lock::Exclusive } else { Lock::Shared };
        let writes: BTreeSet<Key> = (0..self.rng.random_range(1..3)).map(|_| key(&mut self.rng)).collect();
        let value = |_: &Key| Some(Value::from(number.to_be_bytes().to_vec()));
        let age = Age { began_ns: self.now, node: 9, number };
        self.clients[client] = Client {
            number,
            age,
            start: self.now,
            id: self.clients[client].id,
            base: self.clients[client].id,
            term: None,
            leader: self.clients[client].leader,
            plan: keys.into_iter().map(|key| (key, lock)).collect(),
            reads: Vec::new(),
            writes: writes.into_iter().map(|key| Write { value: value(&key), key }).collect(),
            snapshot,
            retry_at: 0,
            deadline: self.now + 2_000 * MS,
            committing: false,
            aborted: false,
        };
        self.ask(client);
    }

    fn transaction(&self, client: usize) -> TransactionId {
        TransactionId { node: 9, incarnation: 1, number: self.clients[client].number }
    }

    fn ask(&mut self, client: usize) {
        let transaction = self.transaction(client);
        let c = &mut self.clients[client];
        c.id += 1;
        c.retry_at = self.now + 60 * MS;
        let ask = match c.plan.get(c.reads.len()) {
            _ if c.snapshot => Ask::Snapshot { at: None, range: KeyRange::all(), reverse: false, limit_rows: 100 },
            Some((key, lock)) => {
                Ask::Read { range: KeyRange::point(key.clone()), lock: *lock, reverse: false, limit_rows: 1 }
            }
            None => {
                c.committing = true;
                Ask::Commit { writes: c.writes.clone() }
            }
        };
        let request = Request { transaction, age: c.age, id: c.id, term: c.term, ask };
        let leader = c.leader;
        self.send(client_address(client), address(leader), Message::Ask(request));
    }

    /// Ends an attempt that cannot go on, and begins another transaction.
    fn give_up(&mut self, client: usize) {
        let transaction = self.transaction(client);
        let c = &self.clients[client];
        if c.committing {
            self.unknown += 1;
            self.maybe.insert(transaction, c.writes.clone());
        }
        let request = Request { transaction, age: c.age, id: c.id + 1, term: c.term, ask: Ask::Abort };
        for node in 0..NODES {
            self.send(client_address(client), address(node), Message::Ask(request.clone()));
        }
        self.begin(client);
    }

    fn hear(&mut self, client: usize, reply: Reply) {
        let now = self.now;
        let c = &mut self.clients[client];
        match reply {
            Reply::Rows { id, term, at, rows, .. } if id == c.id => {
                if c.snapshot {
                    let reads = (b'a'..b'f').map(|byte| {
                        let key = Key::from(vec![byte]);
                        let value = rows.iter().find(|(found, _)| *found == key).map(|(_, value)| value.clone());
                        (key, value)
                    });
                    let seen = Seen { start: c.start, end: now, at, reads: reads.collect(), writes: Vec::new() };
                    self.seen.push(seen);
                    return self.begin(client);
                }
                c.term = Some(term);
                let key = c.plan[c.reads.len()].0.clone();
                c.reads.push((key, rows.into_iter().next().map(|(_, value)| value)));
                self.ask(client);
            }
            Reply::Committed { id, at } if c.committing && id > c.base => {
                let seen = Seen { start: c.start, end: now, at, reads: c.reads.clone(), writes: c.writes.clone() };
                self.seen.push(seen);
                self.begin(client);
            }
            Reply::Aborted { id, .. } if id == c.id && !c.aborted => {
                c.aborted = true;
                c.committing = false;
                self.give_up(client);
            }
            Reply::NotLeader { id, leader } if id == c.id => {
                c.leader = leader.map_or_else(|| self.rng.random_range(0..NODES), |leader| leader as usize);
                c.retry_at = now + 10 * MS;
            }
            Reply::Unknown { id } if id == c.id => c.retry_at = now + 5 * MS,
            _ => {}
        }
    }

    fn tick(&mut self) {
        let wire = self.wire.keys().next().map(|(when, _)| *when);
        let living = || self.nodes.iter().filter(|node| node.replica.is_some());
        let timer = living().flat_map(|node| node.timers.values().copied()).min();
        let disk = self.nodes.iter().filter_map(|node| node.writing.first().map(|(_, _, when)| *when)).min();
        let back = self.nodes.iter().filter(|node| node.replica.is_none()).map(|node| node.back_at).min();
        let retry = self.clients.iter().map(|client| client.retry_at).min();
        self.now = [wire, timer, disk, back, retry].into_iter().flatten().min().unwrap_or(0).max(self.now);
        for at in 0..NODES {
            if self.rng.random_bool(0.01) {
                for (commit_at, writes, position) in std::mem::take(&mut self.nodes[at].late) {
                    self.nodes[at].recent.install(commit_at, &writes, position);
                }
            }
            if self.nodes[at].replica.is_none() && self.nodes[at].back_at <= self.now {
                self.boot(at);
            }
            let now = self.reading(at);
            let mut through = None;
            let early = self.defect == Defect::SyncLost;
            let node = &mut self.nodes[at];
            while node.writing.first().is_some_and(|(_, _, when)| *when <= self.now) {
                let (position, record, _) = node.writing.remove(0);
                node.disk.push(record);
                through = Some(position);
            }
            if early {
                through = node.writing.last().map(|(position, _, _)| *position).or(through);
            }
            if let Some(through) = through {
                self.step(at, |replica, out| replica.on_durable(now, through, out));
            }
            let due = self.nodes[at].timers.iter().find(|(_, when)| **when <= self.now).map(|(timer, _)| *timer);
            if let Some(timer) = due {
                self.nodes[at].timers.remove(&timer);
                self.step(at, |replica, out| replica.on_timer(now, timer, out));
            }
        }
        for client in 0..self.clients.len() {
            if self.clients[client].deadline <= self.now {
                self.give_up(client);
            } else if self.clients[client].retry_at <= self.now {
                if self.rng.random_bool(0.3) {
                    self.clients[client].leader = self.rng.random_range(0..NODES);
                }
                self.ask(client);
            }
        }
        if self.wire.first_key_value().is_some_and(|((when, _), _)| *when <= self.now) {
            let (_, (from, to, message)) = self.wire.pop_first().expect("just seen");
            let bytes = minicbor::to_vec(&message).expect("it encodes");
            let message: Message = minicbor::decode(&bytes).expect("it decodes");
            match (to.role, message) {
                (Role::Coordinator(client), Message::Answer(reply)) => self.hear(client as usize, reply),
                (_, message) => {
                    let at = to.node.0 as usize;
                    let now = self.reading(at);
                    self.step(at, |replica, out| replica.on_message(now, from, message, out));
                }
            }
        }
        if self.faults && self.rng.random_bool(0.002) && self.nodes.iter().all(|node| node.replica.is_some()) {
            // Mostly one node; now and then the power of all of them: what is durable survives that too.
            let first = self.rng.random_range(0..NODES);
            let last = if self.rng.random_bool(0.2) { first + NODES } else { first + 1 };
            for at in first..last {
                let back = self.rng.random_range(1..400) * MS;
                let node = &mut self.nodes[at % NODES];
                (node.replica, node.back_at) = (None, self.now + back);
                node.writing.clear();
            }
        }
    }

    fn run(seed: u64, defect: Defect, steps: usize) -> World {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut nodes: Vec<Node> = (0..NODES).map(|_| Node::default()).collect();
        for node in &mut nodes {
            node.offset = rng.random_range(-(EPSILON as i64)..=EPSILON as i64);
        }
        let idle = |_| Client {
            number: 0,
            age: Age { began_ns: 0, node: 9, number: 0 },
            start: 0,
            id: 0,
            base: 0,
            term: None,
            leader: 0,
            plan: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            snapshot: false,
            retry_at: 0,
            deadline: u64::MAX,
            committing: false,
            aborted: false,
        };
        let mut world = World {
            seed,
            defect,
            rng,
            now: 1_000_000 * MS,
            nodes,
            clients: (0..5).map(idle).collect(),
            wire: BTreeMap::new(),
            sent: 0,
            seen: Vec::new(),
            maybe: BTreeMap::new(),
            commits: BTreeMap::new(),
            faults: true,
            numbers: 0,
            unknown: 0,
        };
        for at in 0..NODES {
            world.boot(at);
        }
        for client in 0..5 {
            world.begin(client);
        }
        for _ in 0..steps {
            world.tick();
        }
        world.faults = false;
        let (seen, end) = (world.seen.len(), world.now + 8_000 * MS);
        while world.now < end && world.seen.len() < seen + 30 {
            world.tick();
        }
        world
    }

    /// Replays the commits in the order of their timestamps.
    fn judge(&self) -> Result<(), String> {
        let seed = self.seed;
        let mut history: Vec<&Seen> = self.seen.iter().collect();
        history.sort_by_key(|seen| (seen.at, seen.writes.is_empty()));
        let mut state: BTreeMap<Key, Option<Value>> = BTreeMap::new();
        let mut commits = self.commits.iter().peekable();
        let mut newest_end: Option<&Seen> = None;
        for seen in &history {
            let own = !seen.writes.is_empty();
            while let Some((at, writes)) = commits.peek().filter(|(at, _)| **at < seen.at || (!own && **at == seen.at))
            {
                let _ = at;
                state.extend(writes.iter().map(|write| (write.key.clone(), write.value.clone())));
                commits.next();
            }
            for (key, value) in &seen.reads {
                let expected = state.get(key).cloned().flatten();
                if *value != expected {
                    return Err(format!("seed {seed}: {seen:?} should have read {expected:?} of {key:?}"));
                }
            }
            if own && self.commits.get(&seen.at) != Some(&seen.writes) {
                return Err(format!("seed {seed}: acknowledged but not installed anywhere: {seen:?}"));
            }
        }
        // Real time: whoever ended before another began comes first.
        let mut by_end: Vec<&Seen> = history.clone();
        by_end.sort_by_key(|seen| seen.end);
        let mut by_start = history;
        by_start.sort_by_key(|seen| seen.start);
        let mut ended = by_end.into_iter().peekable();
        for seen in by_start {
            while let Some(before) = ended.next_if(|before| before.end < seen.start) {
                newest_end = newest_end.filter(|known| known.at >= before.at).or(Some(before));
            }
            if let Some(before) = newest_end.filter(|before| before.at > seen.at) {
                return Err(format!("seed {seed}: {before:?} ended before {seen:?} began, and comes after it"));
            }
        }
        Ok(())
    }
}

#[test]
fn every_history_is_strictly_serializable_and_goes_on_after_the_faults() {
    let (mut transactions, mut unknown) = (0, 0);
    for seed in 0..40 {
        let world = World::run(seed, Defect::None, 6_000);
        if let Err(why) = world.judge() {
            panic!("{why}");
        }
        assert!(world.seen.len() > 60, "seed {seed}: only {} transactions", world.seen.len());
        transactions += world.seen.len();
        unknown += world.unknown;
    }
    println!("{transactions} transactions, {unknown} unknown");
    assert!(transactions > 8_000, "{transactions} transactions: too few to mean anything");
}

#[test]
fn the_judge_notices_versions_that_are_installed_late() {
    assert!((0..200).any(|seed| World::run(seed, Defect::InstalledLate, 6_000).judge().is_err()));
}

#[test]
fn the_judge_notices_a_sync_that_is_lost() {
    let noticed = (0..200).any(|seed| {
        std::panic::catch_unwind(|| World::run(seed, Defect::SyncLost, 6_000).judge().is_err()).unwrap_or(true)
    });
    assert!(noticed);
}
