//! QWStore's replicas in small random worlds: messages that are lost, repeated and late, crashes
//! between a write and its sync, stores that lag behind the log, and collected tombstones.
//!
//! The judge checks that every acknowledged write is on every replica's disk, and that each replica
//! shows the version of a key with the highest timestamp, whichever arrived first.

use meridian_clock::{Interval, Reading, Timestamp};
use meridian_machine::{
    Address, DatabaseId, Effect as Do, Incarnation, Machine, NodeId, Outbox, Position, Role,
    ShardId,
};
use meridian_mvcc::{Key, KeyRange, MemTable, Value, Write, local};
use meridian_replication::inconsistent::OpId;
use meridian_systems::baselines::qwstore::{Effect, LogRecord, Message, Put, Replica};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const REPLICAS: usize = 3;
const SESSIONS: u32 = 3;
/// The largest offset of a session's clock.
const EPSILON: u64 = 200 * MS;
/// How long a session waits before it gives up.
const PATIENCE: u64 = 10 * SECOND;
const ENDS: u64 = 150 * SECOND;

fn reading(now: u64) -> Reading {
    Reading::at(now, Interval::around(now, EPSILON))
}

fn replica(node: usize) -> Address {
    Address::replica(NodeId(node as u32 + 1), DatabaseId(5), ShardId(0))
}

fn session(number: u32) -> Address {
    let (node, incarnation) = (NodeId(10 + number), Incarnation(4));
    Address { node, incarnation, role: Role::Coordinator(0), ..replica(0) }
}

/// A planted defect of a world, which the judge must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    /// The world reports a record as durable that is not.
    SyncsLater,
    /// The world reports a write as durable in the store that is not.
    StoresLess,
    /// A replica shows the version that arrived last, not the one with the highest timestamp.
    ArrivalCounts,
    /// A replica collects a tombstone above its closed timestamp.
    CollectsOpen,
}

/// The records that are in the log and may be lost.
enum Logged {
    Record(Position, LogRecord),
    Checkpoint(Vec<LogRecord>),
}

struct Node {
    replica: Replica,
    out: Outbox<Replica>,
    up: bool,
    synced: Vec<LogRecord>,
    unsynced: Vec<Logged>,
    /// Everything that is readable; the part that is durable in the store; and the place that the
    /// store has reached.
    installed: Vec<Put>,
    stored: (u64, Vec<Put>),
    recent: MemTable,
    closed: Timestamp,
    horizon: Timestamp,
}

fn shows(puts: &[Put]) -> MemTable {
    let recent = MemTable::new();
    puts.iter().for_each(|put| recent.install(put.at, &put.writes, put.place));
    recent
}

/// Removes tombstones at or below a horizon, with the versions that they supersede there.
fn collect(puts: &mut [Put], horizon: Timestamp) {
    let recent = shows(puts);
    for put in puts.iter_mut().filter(|put| put.at <= horizon) {
        let needed =
            |write: &Write| recent.get(&write.key, horizon).expect("it has one").at == put.at;
        put.writes.retain(|write| needed(write) && write.value.is_some());
    }
}

enum Event {
    Deliver(Address, Address, Message),
    Sync(usize),
    Checkpoint(usize),
    Crash(usize),
    Up(usize),
    Begins(u32),
    Again(usize),
}

/// A session's write.
struct Written {
    session: u32,
    id: OpId,
    at: Timestamp,
    writes: Vec<Write>,
    until: u64,
    lacking: BTreeSet<NodeId>,
}

struct World {
    random: ChaCha8Rng,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    next: u64,
    nodes: Vec<Node>,
    written: Vec<Written>,
    /// The newest timestamp of each session, and its clock's offset.
    clocks: Vec<(u64, i64)>,
    defect: Option<Defect>,
    met: Met,
}

/// The events that worlds should reach.
#[derive(Debug, Default)]
struct Met {
    acknowledged: usize,
    given_up: usize,
    lost_unsynced: usize,
    collected: usize,
}

impl World {
    fn new(seed: u64, defect: Option<Defect>) -> World {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut out = Outbox::new();
        let nodes = (0..REPLICAS).map(|_| Node {
            replica: Replica::new(KeyRange::all(), Vec::new(), (0, Timestamp::ZERO), &mut out),
            out: Outbox::new(),
            up: true,
            synced: Vec::new(),
            unsynced: Vec::new(),
            installed: Vec::new(),
            stored: (0, Vec::new()),
            recent: MemTable::new(),
            closed: Timestamp::ZERO,
            horizon: Timestamp::ZERO,
        });
        let nodes = nodes.collect();
        let off = EPSILON as i64;
        let clocks = (0..SESSIONS).map(|_| (0, random.random_range(-off..off))).collect();
        let (events, written, now) = (BTreeMap::new(), Vec::new(), 1_000 * SECOND);
        let mut world = World {
            random,
            now,
            events,
            next: 0,
            nodes,
            written,
            clocks,
            defect,
            met: Met::default(),
        };
        (0..SESSIONS).for_each(|session| world.after(MS, Event::Begins(session)));
        for node in 0..REPLICAS {
            world.after(SECOND, Event::Checkpoint(node));
            world.soon(20 * SECOND, Event::Crash(node));
        }
        world
    }

    fn after(&mut self, ns: u64, event: Event) {
        self.next += 1;
        self.events.insert((self.now + ns, self.next), event);
    }

    /// Schedules an event at a random time within a limit.
    fn soon(&mut self, within: u64, event: Event) {
        let ns = self.random.random_range(0..within);
        self.after(ns, event);
    }

    /// Sends a message, which may be lost, repeated, or very late.
    fn say(&mut self, from: Address, to: Address, message: Message) {
        let copies = [0, 1, 1, 1, 1, 1, 1, 2][self.random.random_range(0..8)];
        for _ in 0..copies {
            let within = [5 * MS, 5 * MS, 500 * MS, 60 * SECOND][self.random.random_range(0..4)];
            self.soon(within, Event::Deliver(from, to, message.clone()));
        }
    }

    fn begins(&mut self, number: u32) {
        let (newest, off) = &mut self.clocks[number as usize];
        let clock = self.now.saturating_add_signed(*off);
        *newest = clock.max(*newest + 1);
        let Address { node, incarnation, .. } = session(number);
        let at = Timestamp { nanos: *newest, logical: incarnation.0, issuer: node.0 };
        let id =
            OpId { node: node.0, incarnation: incarnation.0, number: self.written.len() as u64 };
        let mut writes: BTreeMap<Key, Option<Value>> = BTreeMap::new();
        for _ in 0..self.random.random_range(1..4) {
            let key = Key::from(["a", "b", "c", "d", "e"][self.random.random_range(0..5)]);
            let value =
                self.random.random_bool(0.7).then(|| Value::from(id.number.to_string().as_str()));
            writes.insert(key, value);
        }
        let writes = writes.into_iter().map(|(key, value)| Write { key, value }).collect();
        let lacking = (0..REPLICAS).map(|node| replica(node).node).collect();
        self.written.push(Written {
            session: number,
            id,
            at,
            writes,
            until: self.now + PATIENCE,
            lacking,
        });
        self.again(self.written.len() - 1);
        self.soon(4 * SECOND, Event::Begins(number));
    }

    fn again(&mut self, which: usize) {
        let Written { session: number, id, at, ref writes, until, ref lacking } =
            self.written[which];
        if lacking.is_empty() {
            return;
        }
        if self.now > until {
            self.met.given_up += 1;
            return;
        }
        let put = Message::Put { id, at, writes: writes.clone() };
        for node in lacking.clone() {
            self.say(
                session(number),
                Address::replica(node, DatabaseId(5), ShardId(0)),
                put.clone(),
            );
        }
        self.after(400 * MS, Event::Again(which));
    }

    fn perform(&mut self, node: usize) {
        let mut out = std::mem::take(&mut self.nodes[node].out);
        for effect in out.drain() {
            let Node { unsynced, installed, recent, closed, .. } = &mut self.nodes[node];
            match effect {
                Do::Send { to, message } => self.say(replica(node), to, message),
                Do::Persist { position, record } => {
                    unsynced.push(Logged::Record(position, record));
                    self.soon(30 * MS, Event::Sync(node));
                    if self.defect == Some(Defect::SyncsLater) {
                        let now = reading(self.now);
                        let Node { replica, out, .. } = &mut self.nodes[node];
                        replica.on_durable(now, position, out);
                    }
                }
                Do::Do(Effect::Install(mut put)) => {
                    if self.defect == Some(Defect::ArrivalCounts) {
                        put.at = Timestamp { nanos: self.now, ..put.at };
                    }
                    recent.install(put.at, &put.writes, put.place);
                    installed.push(put);
                }
                Do::Do(Effect::Closed(at)) => *closed = at,
                Do::Do(Effect::Serve(_))
                | Do::SendBefore { .. }
                | Do::Arm { .. }
                | Do::Disarm { .. } => {
                    unreachable!("QWStore has no such effect")
                }
            }
        }
        let left = std::mem::replace(&mut self.nodes[node].out, out);
        if !left.is_empty() {
            self.nodes[node].out = left;
            self.perform(node);
        }
    }

    fn sync(&mut self, node: usize) {
        let now = reading(self.now);
        let Node { replica, out, synced, unsynced, .. } = &mut self.nodes[node];
        let mut through = None;
        for logged in unsynced.drain(..) {
            match logged {
                Logged::Record(position, kept) => {
                    synced.push(kept);
                    through = Some(position);
                }
                Logged::Checkpoint(kept) => *synced = kept,
            }
        }
        through.into_iter().for_each(|through| replica.on_durable(now, through, out));
        self.perform(node);
    }

    fn checkpoint(&mut self, node: usize) {
        let now = reading(self.now);
        let collects = self.random.random_bool(0.5);
        let Node { replica, out, unsynced, installed, stored, closed, horizon, recent, .. } =
            &mut self.nodes[node];
        let place = installed.iter().map(|put| put.place).max().unwrap_or(stored.0).max(stored.0);
        if self.defect != Some(Defect::StoresLess) {
            *stored = (place, installed.clone());
        }
        unsynced.push(Logged::Checkpoint(replica.stored(now, place, out)));
        if collects {
            let open = self.defect == Some(Defect::CollectsOpen);
            *horizon = if open { Timestamp::end_of(self.now) } else { *closed };
            collect(installed, *horizon);
            collect(&mut stored.1, *horizon);
            *recent = shows(installed);
            self.met.collected += 1;
        }
        self.soon(30 * MS, Event::Sync(node));
        self.perform(node);
    }

    fn crash(&mut self, node: usize) {
        let lost = self.random.random_range(0..3usize);
        let Node { up, unsynced, synced, stored, installed, horizon, .. } = &mut self.nodes[node];
        *up = false;
        // A prefix of the records that were not synced may survive.
        let survives = unsynced.len().saturating_sub(lost);
        self.met.lost_unsynced += unsynced.len() - survives;
        for logged in unsynced.drain(..).take(survives) {
            match logged {
                Logged::Record(_, kept) => synced.push(kept),
                Logged::Checkpoint(kept) => *synced = kept,
            }
        }
        installed.clone_from(&stored.1);
        let (stored, horizon, kept) = (stored.0, *horizon, synced.clone());
        if self.defect.is_none() {
            assert!(LogRecord::goes_to(&kept) <= stored, "what is kept no more is in the store");
        }
        let mut out = Outbox::new();
        let replica = Replica::new(KeyRange::all(), kept, (stored, horizon), &mut out);
        let recent = shows(&self.nodes[node].installed);
        let old = &mut self.nodes[node];
        (old.replica, old.out, old.recent, old.closed) = (replica, out, recent, horizon);
        self.perform(node);
        let away =
            [2 * SECOND, 2 * SECOND, 2 * SECOND, 40 * SECOND][self.random.random_range(0..4)];
        self.soon(away, Event::Up(node));
    }

    fn deliver(&mut self, from: Address, to: Address, message: Message) {
        if let Some(node) = (0..REPLICAS).find(|node| replica(*node).node == to.node) {
            let now = reading(self.now);
            let Node { replica, out, up, .. } = &mut self.nodes[node];
            if *up {
                replica.on_message(now, from, message, out);
                self.perform(node);
            }
        } else if let Message::Stored { id } = message {
            let written = &mut self.written[id.number as usize];
            if self.now <= written.until
                && written.lacking.remove(&from.node)
                && written.lacking.is_empty()
            {
                self.met.acknowledged += 1;
            }
        }
    }

    /// Runs the world, and checks the state after a final crash of all replicas.
    fn judge(mut self) -> Result<Met, String> {
        let ends = self.now + ENDS;
        while let Some(((at, _), event)) = self.events.pop_first()
            && at < ends
        {
            self.now = at;
            match event {
                Event::Deliver(from, to, message) => self.deliver(from, to, message),
                Event::Sync(node) => self.sync(node),
                Event::Checkpoint(node) => {
                    self.checkpoint(node);
                    self.soon(12 * SECOND, Event::Checkpoint(node));
                }
                Event::Crash(node) => {
                    self.crash(node);
                    self.soon(25 * SECOND, Event::Crash(node));
                }
                Event::Up(node) => self.nodes[node].up = true,
                Event::Begins(session) => self.begins(session),
                Event::Again(which) => self.again(which),
            }
        }
        (0..REPLICAS).for_each(|node| self.crash(node));
        for (node, Node { recent, .. }) in self.nodes.iter().enumerate() {
            for key in ["a", "b", "c", "d", "e"].map(Key::from) {
                let of_key = |put: &Written| {
                    put.writes
                        .iter()
                        .find(|write| write.key == key)
                        .map(|write| write.value.clone())
                };
                let all: BTreeMap<Timestamp, Option<Value>> =
                    self.written.iter().filter_map(|put| Some((put.at, of_key(put)?))).collect();
                let acknowledged = self
                    .written
                    .iter()
                    .filter(|put| put.lacking.is_empty() && of_key(put).is_some());
                let Some(newest) = acknowledged.map(|put| put.at).max() else { continue };
                match recent.get(&key, Timestamp::MAX) {
                    Some(version) if all.get(&version.at) != Some(&version.value) => {
                        return Err(format!(
                            "node {node} shows {version:?} of {key:?}, which no session wrote"
                        ));
                    }
                    Some(version) if version.at < newest => {
                        return Err(format!(
                            "node {node} shows {version:?} of {key:?}; {newest} was acknowledged"
                        ));
                    }
                    None if all.range(newest..).all(|(_, value)| value.is_some()) => {
                        return Err(format!(
                            "node {node} has nothing of {key:?}; {newest} was acknowledged"
                        ));
                    }
                    Some(_) | None => {}
                }
            }
        }
        Ok(self.met)
    }
}

#[test]
fn what_is_acknowledged_is_on_every_disk_and_the_last_writer_wins() {
    let mut all = Met::default();
    for seed in 0..300 {
        let met = World::new(seed, None).judge().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        all.acknowledged += met.acknowledged;
        all.given_up += met.given_up;
        all.lost_unsynced += met.lost_unsynced;
        all.collected += met.collected;
    }
    println!("{all:?}");
    assert!(all.acknowledged > 10_000 && all.given_up > 10, "{all:?}");
    assert!(all.lost_unsynced > 100 && all.collected > 1_000, "{all:?}");
}

#[test]
fn worlds_that_deceive_are_noticed() {
    for defect in
        [Defect::SyncsLater, Defect::StoresLess, Defect::ArrivalCounts, Defect::CollectsOpen]
    {
        let first = (0..300).find(|seed| World::new(*seed, Some(defect)).judge().is_err());
        println!("{defect:?}: first noticed by seed {first:?}");
        assert!(first.is_some(), "{defect:?}");
    }
}

/// A replica drops every write that no correct session sends: it does not store, show or answer it.
#[test]
fn frames_that_no_correct_peer_sends_are_rejected() {
    let (now, from) = (1_000 * SECOND, session(0));
    let bounds = KeyRange { start: Key::from("b"), end: Some(Key::from("m")) };
    let mut out = Outbox::new();
    let horizon = Timestamp::end_of(now - 60 * SECOND);
    let mut replica = Replica::new(bounds, Vec::new(), (0, horizon), &mut out);
    let id = OpId { node: from.node.0, incarnation: from.incarnation.0, number: 7 };
    let at = Timestamp { nanos: now, logical: from.incarnation.0, issuer: from.node.0 };
    let write = |key: Key| vec![Write { key, value: Some(Value::from("v")) }];
    let good = |at: Timestamp| Message::Put { id, at, writes: write(Key::from("c")) };
    let beyond = now + EPSILON + SECOND;
    let bad = [
        (from, Message::Put { id, at, writes: write(Key::from("a")) }),
        (
            from,
            Message::Put {
                id,
                at,
                writes: [write(Key::from("c")), write(Key::from("m"))].concat(),
            },
        ),
        (from, Message::Put { id, at, writes: write(local::bounds(0)) }),
        (from, good(Timestamp { nanos: beyond + 1, ..at })),
        (from, good(Timestamp { nanos: u64::MAX, ..at })),
        (from, good(Timestamp { nanos: horizon.nanos, ..at })),
        (from, good(Timestamp { issuer: 1, ..at })),
        (from, good(Timestamp { logical: 3, ..at })),
        (from, Message::Put { id: OpId { node: 1, ..id }, at, writes: write(Key::from("c")) }),
        (session(1), good(at)),
        (Address { incarnation: Incarnation(5), ..from }, good(at)),
        (Address { role: Role::Replica, ..from }, good(at)),
        (from, Message::Stored { id }),
        (from, Message::Found { id, rows: Vec::new(), rest: None }),
        (from, Message::Read { id, range: KeyRange::all(), reverse: false, limit_rows: 9 }),
    ];
    for (from, message) in bad {
        replica.on_message(reading(now), from, message.clone(), &mut out);
        assert!(out.is_empty(), "{message:?}");
    }
    for at in [at, Timestamp { nanos: beyond, ..at }, Timestamp { nanos: horizon.nanos + 1, ..at }]
    {
        replica.on_message(reading(now), from, good(at), &mut out);
        assert_eq!(out.drain().count(), 2, "it is persisted and installed");
    }
    replica.on_durable(reading(now), Position(2), &mut out);
    let said: Vec<Address> = out
        .drain()
        .filter_map(|effect| if let Do::Send { to, .. } = effect { Some(to) } else { None })
        .collect();
    assert_eq!(said, [from, from], "the third is not on disk");
}
