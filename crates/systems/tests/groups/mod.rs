//! The groups of two shards on one node, stepped by hand, and a client that asks them.

use meridian_clock::{Interval, Reading, Timestamp};
use meridian_machine::{
    Address, DatabaseId, Effect as Do, Incarnation, Machine, NodeId, Outbox, Position, Role,
    ShardId,
};
use meridian_mvcc::{Key, KeyRange, Value, Write, local};
use meridian_replication::group::{Config, Index, Record, Restored, Term};
use meridian_systems::shard::{Effect, Message, Participant, Recovered, Shard, Timer};
use meridian_txn::locking::TransactionId;
use meridian_txn::shards::{LockEpoch, Request, RequestBody, Response};
use meridian_txn::two_phase::OneShot;
use meridian_txn::{Age, Lock, SchemaVersion};
use std::collections::{BTreeMap, VecDeque};

pub const MS: u64 = 1_000_000;
pub const EPSILON: u64 = 4 * MS;
pub const BEGINNING: u64 = 1_000_000 * MS;

/// The group of one shard. Both groups are on one node.
pub struct Group<P: Participant> {
    pub shard: ShardId,
    pub replica: Shard<P>,
    pub out: Outbox<Shard<P>>,
    pub timers: BTreeMap<Timer, u64>,
    pub disk: Vec<Record>,
    pub rows: BTreeMap<Key, Value>,
    pub applied: (Index, Term),
    pub newest: Timestamp,
    /// The installed client writes: timestamps and keys.
    pub installed: Vec<(Timestamp, Vec<String>)>,
    /// True if its disk does not answer. Records are durable when it does.
    pub stalled: bool,
    pub written: Option<Position>,
    /// True if a single-shard read may read the newest commit without asking.
    pub quiet: bool,
}

/// The keys below `m` are shard 0's, the others shard 1's.
pub fn bounds(shard: ShardId) -> KeyRange {
    let (low, high) = KeyRange::all().cut(&"m".into());
    if shard.0 == 0 { low } else { high }
}

pub fn member(shard: ShardId) -> Address {
    Address::replica(NodeId(1), DatabaseId(1), shard)
}

impl<P: Participant> Group<P> {
    pub fn born(
        shard: ShardId,
        now: Reading,
        disk: Vec<Record>,
        rows: BTreeMap<Key, Value>,
        newest: Timestamp,
    ) -> Group<P> {
        let me = NodeId(1);
        let mut out = Outbox::new();
        let pairs: Vec<(Key, Value)> = rows.clone().into_iter().collect();
        let recovered = Recovered::new(shard.0, bounds(shard), Vec::new(), &pairs, newest)
            .expect("its own rows");
        let restored = Restored { records: disk.clone(), ..Restored::default() };
        let config = Config::new(me, vec![me], DatabaseId(1), shard);
        let replica = Shard::new(config, 7, restored, recovered, now, &mut out);
        let (timers, applied) = (BTreeMap::new(), (Index(0), Term(0)));
        let (installed, stalled, written, quiet) = (Vec::new(), false, None, false);
        Group {
            shard,
            replica,
            out,
            timers,
            disk,
            rows,
            applied,
            newest,
            installed,
            stalled,
            written,
            quiet,
        }
    }
}

/// Two groups, and a client.
pub struct World<P: Participant> {
    pub groups: [Group<P>; 2],
    pub now: u64,
    /// The messages between leaders that are not delivered yet.
    pub between: VecDeque<(ShardId, ShardId, P::Peer)>,
    /// The schema versions that the client's transactions are planned for.
    pub planned: Vec<SchemaVersion>,
    /// The one-shot field of its requests, for shards where it has locked nothing.
    pub one_shot: Option<OneShot>,
    /// The replies that the client received.
    pub heard: Vec<(ShardId, Response)>,
}

impl<P: Participant> World<P> {
    pub fn new() -> World<P> {
        let reading = Reading::at(BEGINNING, Interval::around(BEGINNING, EPSILON));
        let born = |shard| {
            Group::born(ShardId(shard), reading, Vec::new(), BTreeMap::new(), Timestamp::ZERO)
        };
        let (groups, between) = ([born(0), born(1)], VecDeque::new());
        let mut world = World {
            groups,
            now: BEGINNING,
            between,
            planned: Vec::new(),
            one_shot: None,
            heard: Vec::new(),
        };
        (0..2).for_each(|shard| world.step(shard, |_, _, _| {})); // Performs their first effects.
        world.pass(20 * MS);
        assert!(world.groups.iter().all(|group| group.replica.is_serving()));
        world
    }

    pub fn reading(&self) -> Reading {
        Reading::at(self.now, Interval::around(self.now, EPSILON))
    }

    /// Restarts a shard's leader with what its disk has.
    pub fn restart(&mut self, shard: u32) {
        let (now, group) = (self.reading(), &mut self.groups[shard as usize]);
        let (disk, rows) = (std::mem::take(&mut group.disk), BTreeMap::new());
        *group = Group::born(group.shard, now, disk, rows, Timestamp::ZERO);
        self.step(shard, |_, _, _| {});
        self.pass(2_000 * MS); // Until what it may have promised has passed.
        assert!(self.groups[shard as usize].replica.is_serving());
    }

    pub fn step(
        &mut self,
        shard: u32,
        step: impl FnOnce(&mut Shard<P>, Reading, &mut Outbox<Shard<P>>),
    ) {
        let now = self.reading();
        let group = &mut self.groups[shard as usize];
        step(&mut group.replica, now, &mut group.out);
        loop {
            let mut durable = None;
            for effect in group.out.drain().collect::<Vec<_>>() {
                match effect {
                    Do::Send { to, message } | Do::SendBefore { to, message, .. } => {
                        match message {
                            Message::Response(reply) => self.heard.push((group.shard, reply)),
                            Message::Participant(between) if to.node == member(to.shard).node => {
                                self.between.push_back((group.shard, to.shard, between));
                            }
                            _ => {}
                        }
                    }
                    Do::Arm { timer, at } => drop(group.timers.insert(timer, at)),
                    Do::Disarm { timer } => drop(group.timers.remove(&timer)),
                    Do::Persist { position, record } => {
                        group.disk.push(record);
                        durable = Some(position);
                    }
                    Do::Do(Effect::Install { at, index, term, writes, .. }) => {
                        (group.applied, group.newest) = ((index, term), group.newest.max(at));
                        let (rows, writes): (Vec<_>, Vec<_>) =
                            writes.into_iter().partition(|write| local::is(&write.key));
                        for row in rows {
                            match row.value {
                                Some(value) => drop(group.rows.insert(row.key, value)),
                                None => drop(group.rows.remove(&row.key)),
                            }
                        }
                        let name = |write: &Write| String::from_utf8_lossy(&write.key).into_owned();
                        if !writes.is_empty() {
                            group.installed.push((at, writes.iter().map(name).collect()));
                        }
                    }
                    Do::Do(Effect::Serve(serve)) => {
                        let (id, lock_epoch, at) = (serve.id, serve.lock_epoch, serve.at);
                        let name = |key: &Key| String::from_utf8_lossy(key).into_owned();
                        let key = serve.range.as_point().map(name).unwrap_or_default();
                        let versions = group
                            .installed
                            .iter()
                            .filter(|(of, keys)| *of <= at && keys.contains(&key));
                        let newest = versions.map(|(of, _)| *of).max();
                        self.heard.push((
                            group.shard,
                            Response::Rows {
                                id,
                                lock_epoch,
                                at,
                                rows: Vec::new(),
                                rest: None,
                                committed_at: newest.into_iter().collect(),
                                waited_ns: None,
                            },
                        ));
                    }
                    Do::Do(Effect::ReadLease(read_lease)) => group.quiet = read_lease.quiet,
                    Do::Do(_) => {}
                }
            }
            group.written = durable.or(group.written);
            let Some(through) = group.written.take_if(|_| !group.stalled) else { return };
            group.replica.on_durable(now, through, &mut group.out);
        }
    }

    /// Lets time pass, and fires timers on the way.
    pub fn pass(&mut self, nanos: u64) {
        let end = self.now + nanos;
        loop {
            let due = |(shard, group): (usize, &Group<P>)| {
                group
                    .timers
                    .iter()
                    .map(|(timer, at)| (*at, shard as u32, *timer))
                    .min_by_key(|(at, _, _)| *at)
            };
            let next = self.groups.iter().enumerate().filter_map(due).min_by_key(|(at, _, _)| *at);
            let Some((at, shard, timer)) = next.filter(|(at, _, _)| *at <= end) else { break };
            self.now = self.now.max(at);
            self.groups[shard as usize].timers.remove(&timer);
            self.step(shard, |replica, now, out| replica.on_timer(now, timer, out));
        }
        self.now = end;
    }

    /// Delivers all messages between leaders, and those that follow from them.
    pub fn talk(&mut self) {
        for _ in 0..20 {
            while let Some((from, to, between)) = self.between.pop_front() {
                self.step(to.0, |replica, now, out| {
                    replica.on_message(now, member(from), Message::Participant(between), out);
                });
            }
            self.pass(3 * EPSILON);
        }
    }

    /// Delivers the messages between leaders that are there now.
    pub fn hear(&mut self) {
        for (from, to, between) in std::mem::take(&mut self.between) {
            self.step(to.0, |replica, now, out| {
                replica.on_message(now, member(from), Message::Participant(between), out)
            });
        }
    }

    pub fn ask(
        &mut self,
        shard: u32,
        number: u64,
        id: u64,
        lock_epoch: Option<LockEpoch>,
        body: RequestBody,
    ) -> Vec<Response> {
        let transaction = transaction(number);
        let age = Age { began_ns: number, node: 9, number };
        let request = Request {
            transaction,
            age,
            id,
            lock_epoch,
            body,
            planned: self.planned.clone(),
            one_shot: self.one_shot,
            token: None,
            snapshot: None,
            private: None,
        };
        let (node, incarnation, role) = (NodeId(9), Incarnation(1), Role::Coordinator(number));
        let from =
            Address { node, incarnation, database: DatabaseId(1), shard: ShardId(shard), role };
        let before = self.heard.len();
        self.step(shard, |replica, now, out| {
            replica.on_message(now, from, Message::Request(request), out)
        });
        self.heard[before..].iter().map(|(_, reply)| reply.clone()).collect()
    }
}

/// Locks a key, and reads it.
pub fn locks(key: &str, lock: Lock) -> RequestBody {
    RequestBody::Read {
        range: KeyRange::point(Key::from(key)),
        lock,
        reverse: false,
        limit_rows: 1,
        application: None,
        versions: false,
        nowait: false,
    }
}

pub fn transaction(number: u64) -> TransactionId {
    TransactionId { node: 9, incarnation: 1, number }
}

pub fn writes(keys: &[&str]) -> Vec<Write> {
    keys.iter().map(|key| Write { key: Key::from(*key), value: Some(Value::from("1")) }).collect()
}
