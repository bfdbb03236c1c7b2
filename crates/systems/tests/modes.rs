//! Golden transcripts of HybridTime, Clock-SI and conventional snapshot isolation end to end:
//! sessions in each consistency mode, the messages between their coordinators and the leaders, and
//! the results that sessions receive.
//!
//! There are two shards, of the keys before `n` and of the rest, with one member each: shard `s1`
//! on node `n1`, `s2` on `n2`. Clocks are off as the script says, within five milliseconds.
//! Messages take no time, and disks are synced at once unless the script stalls them.

#[path = "modes/nodes.rs"]
mod nodes;
#[path = "../../txn/tests/common/script.rs"]
mod script;
#[path = "modes/wording.rs"]
mod wording;

use futures::future::BoxFuture;
use meridian_clock::rules as clock_rules;
use meridian_clock::{Interval, Reading, Timestamp};
use meridian_machine::planted::plant;
use meridian_machine::{
    Address, DatabaseId, Effect as Do, Machine, NodeId, Outbox, Position, Role, ShardId,
};
use meridian_mvcc::{Key, KeyRange, Value, Write, local};
use meridian_replication::group::{Config, Record, Restored};
use meridian_systems::locking::rules as participant_rules;
use meridian_systems::locking::{Effect, Locking, Message, Recovered, Replica};
use meridian_systems::shard::Participant;
use meridian_systems::shard::rules as shard_rules;
use meridian_systems::shard::{self, Timer};
use meridian_systems::{Protocol, clock_si, conventional_si, hybrid_time};
use meridian_txn::locking::rules as locking_rules;
use meridian_txn::shards::{ReplicaId, Response};
use meridian_txn::snapshot::rules as snapshot_rules;
use meridian_txn::{Begin, Consistency, Database, Lock, Mode, Outcome, ReadAt};
use nodes::{Node, RouterEffect, SHARDS, Store, bounds, home};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use wording::{Names, moment, writes};

const MS: u64 = 1_000_000;
/// Scripts begin here.
const BEGINNING: u64 = 1_000_000 * MS;
/// The time before that in which leaders begin to serve.
const BEFORE: u64 = 100 * MS;
/// The clocks' error.
const ERROR: u64 = 5 * MS;
const NODES: usize = 3;

/// The group of a shard, of one member.
struct Group {
    replica: Replica,
    out: Outbox<Replica>,
    timers: BTreeMap<Timer, u64>,
    disk: Vec<Record>,
    /// True if the disk does not answer. Records are durable when it does.
    stalled: bool,
    written: Option<Position>,
}

/// A session, and what it was told.
#[derive(Clone)]
struct Session {
    node: usize,
    mode: Consistency,
    token: Arc<Mutex<Timestamp>>,
}

/// The reads and writes of one transaction.
struct Work {
    reads: Vec<Key>,
    writes: Vec<Write>,
    /// Declares the keys that it reads, and whether shards negotiate.
    declares: Option<bool>,
    /// Keeps the keys that it reads as they are, absent ones too.
    keeps: bool,
}

struct World {
    protocol: &'static Protocol,
    now: u64,
    skews: [i64; NODES],
    nodes: Vec<(Arc<Node>, Arc<dyn Database>)>,
    groups: Vec<Group>,
    stores: Arc<Mutex<[Store; SHARDS]>>,
    sessions: BTreeMap<String, Session>,
    tasks: Vec<BoxFuture<'static, ()>>,
    alarms: BTreeMap<(u64, u64), (usize, (u64, u64))>,
    counter: u64,
    wire: VecDeque<(Address, Address, Message)>,
    /// Two shards; messages from the first to the second are held back.
    holds: Option<(usize, usize)>,
    held: Vec<(Address, Address, Message)>,
    names: Arc<Mutex<Names>>,
    /// The lines of sessions.
    told: Arc<Mutex<Vec<String>>>,
    said: Vec<String>,
}

impl World {
    fn new(protocol: &'static Protocol) -> World {
        let nodes: Vec<NodeId> = (0..NODES).map(nodes::name).collect();
        let stores: Arc<Mutex<[Store; SHARDS]>> = Arc::default();
        let node = |at| {
            let node = Arc::new(Node::new(at, nodes.clone(), Arc::clone(&stores)));
            let client = Locking::database(protocol, Arc::clone(&node));
            (node, client)
        };
        let mut world = World {
            protocol,
            now: BEGINNING - BEFORE,
            skews: [0; NODES],
            nodes: (0..NODES).map(node).collect(),
            groups: Vec::new(),
            stores,
            sessions: BTreeMap::new(),
            tasks: Vec::new(),
            alarms: BTreeMap::new(),
            counter: 0,
            wire: VecDeque::new(),
            holds: None,
            held: Vec::new(),
            names: Arc::default(),
            told: Arc::default(),
            said: Vec::new(),
        };
        for shard in 0..SHARDS {
            let group = world.boot(shard, Vec::new());
            world.groups.push(group);
        }
        (0..SHARDS).for_each(|shard| world.perform(shard));
        world.pass(BEFORE).expect("leaders begin to serve");
        assert!(world.groups.iter().all(|group| group.replica.is_serving()));
        world.said.clear();
        world
    }

    /// Starts the leader of a shard with what is on its disk.
    fn boot(&self, shard: usize, disk: Vec<Record>) -> Group {
        let mut out = Outbox::new();
        let (id, me) = (ShardId(shard as u32), nodes::name(shard));
        let mut config = Config::new(me, vec![me], DatabaseId(1), id);
        config.nodes = (0..NODES).map(nodes::name).collect();
        let mut config = shard::Config::from(config);
        config.policy = self.protocol.policy.expect("its shards have leaders");
        config.certifies = self.protocol.certifies();
        let restored = Restored { records: disk.clone(), ..Restored::default() };
        let recovered = Recovered::new(id.0, bounds(shard), Vec::new(), &[], Timestamp::ZERO)
            .expect("it has no rows");
        let replica = Replica::new(config, 7, restored, recovered, self.reading(shard), &mut out);
        Group { replica, out, timers: BTreeMap::new(), disk, stalled: false, written: None }
    }

    fn line(&mut self, line: String) {
        self.said.push(line);
    }

    fn reading(&self, node: usize) -> Reading {
        let shown = self.now.saturating_add_signed(self.skews[node]);
        Reading::at(self.now, Interval::around(shown, ERROR))
    }

    fn step(
        &mut self,
        shard: usize,
        step: impl FnOnce(&mut Replica, Reading, &mut Outbox<Replica>),
    ) {
        let (now, group) = (self.reading(shard), &mut self.groups[shard]);
        step(&mut group.replica, now, &mut group.out);
        self.perform(shard);
    }

    fn perform(&mut self, shard: usize) {
        let effects: Vec<_> = self.groups[shard].out.drain().collect();
        let from = home(shard);
        for effect in effects {
            match effect {
                Do::Send { to, message } | Do::SendBefore { to, message, .. } => {
                    self.send(from, to, message)
                }
                Do::Arm { timer, at } => drop(self.groups[shard].timers.insert(timer, at)),
                Do::Disarm { timer } => drop(self.groups[shard].timers.remove(&timer)),
                Do::Persist { position, record } => {
                    let group = &mut self.groups[shard];
                    group.disk.push(record);
                    group.written = Some(position);
                }
                Do::Do(Effect::Install { at, writes: mut all, .. }) => {
                    all.retain(|write| !local::is(&write.key));
                    if !all.is_empty() {
                        self.line(format!(
                            "s{} installs {} at {}",
                            shard + 1,
                            writes(&all),
                            moment(at)
                        ));
                        let mut stores = self.stores.lock();
                        for Write { key, value } in all {
                            stores[shard].entry(key).or_default().insert(at, value);
                        }
                    }
                }
                Do::Do(Effect::Serve(serve)) => {
                    let (at, id, lock_epoch) = (serve.at, serve.id, serve.lock_epoch);
                    let limit = serve.limit_rows as usize;
                    let chunk = nodes::look(
                        &self.stores.lock()[shard],
                        &serve.range,
                        at,
                        serve.reverse,
                        limit,
                    );
                    let (rows, rest, committed_at) = (chunk.rows, chunk.rest, Vec::new());
                    let waited_ns = serve.waited_ns;
                    let rows =
                        Response::Rows { id, lock_epoch, at, rows, rest, committed_at, waited_ns };
                    self.send(from, serve.reply_to, Message::Response(rows));
                }
                Do::Do(Effect::ReadLease(lease)) => {
                    self.nodes[shard].0.set_read_lease(ShardId(shard as u32), lease)
                }
                Do::Do(_) => {}
            }
        }
        self.sync(shard);
    }

    /// Makes what was written durable, unless the disk is stalled.
    fn sync(&mut self, shard: usize) {
        if self.groups[shard].stalled {
            return;
        }
        if let Some(through) = self.groups[shard].written.take() {
            self.step(shard, |replica, now, out| replica.on_durable(now, through, out));
        }
    }

    fn send(&mut self, from: Address, to: Address, message: Message) {
        let has = to.node == nodes::name(to.shard.0 as usize);
        if let Message::Leads(term) = message {
            let leader = ReplicaId { shard: from.shard, node: from.node };
            return self.nodes.iter().for_each(|(node, _)| node.learn_term(leader, term.0));
        }
        // Leaders send word to all nodes; those that have no member of the shard ignore it.
        if matches!(to.role, Role::Replica) && !has {
            return;
        }
        if let Some(what) = self.names.lock().message(from, to, &message) {
            self.said.push(what);
        }
        let between = (from.shard.0 as usize, to.shard.0 as usize);
        let held = self.holds == Some(between) && matches!(to.role, Role::Replica);
        match held && matches!(from.role, Role::Replica) {
            true => self.held.push((from, to, message)),
            false => self.wire.push_back((from, to, message)),
        }
    }

    /// Runs sessions as far as they can go, and carries out their requests.
    fn go_on(&mut self) {
        loop {
            let (tasks, lines) = (self.tasks.len(), self.said.len());
            for at in 0..NODES {
                self.nodes[at].0.set(self.reading(at));
            }
            self.tasks.retain_mut(|task| {
                task.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending
            });
            let mut asked = false;
            for at in 0..NODES {
                for effect in self.nodes[at].0.take_effects() {
                    asked = true;
                    match effect {
                        RouterEffect::Alarm(until, key) => {
                            self.counter += 1;
                            self.alarms.insert((until.max(self.now), self.counter), (at, key));
                        }
                        RouterEffect::Say(from, to, request) => {
                            self.send(from, to, Message::Request(*request));
                        }
                    }
                }
            }
            let told = std::mem::take(&mut *self.told.lock());
            self.said.extend(told);
            if (self.tasks.len(), self.said.len(), asked) == (tasks, lines, false) {
                return;
            }
        }
    }

    fn deliver(&mut self) -> Result<(), String> {
        self.go_on();
        for _ in 0..10_000 {
            let Some((from, to, message)) = self.wire.pop_front() else { return Ok(()) };
            match (to.role, message) {
                (Role::Coordinator(number), Message::Response(response)) => {
                    self.nodes[nodes::number(to.node)].0.hear(number, response)
                }
                (_, message) => self.step(to.shard.0 as usize, |replica, now, out| {
                    replica.on_message(now, from, message, out)
                }),
            }
            self.go_on();
        }
        Err("they never stop talking".into())
    }

    /// Lets time pass, with timers and alarms on the way.
    fn pass(&mut self, nanos: u64) -> Result<(), String> {
        let end = self.now + nanos;
        self.deliver()?;
        loop {
            let timers = self.groups.iter().enumerate().flat_map(|(shard, group)| {
                group.timers.iter().map(move |(timer, at)| (*at, shard, *timer))
            });
            let (timer, alarm) =
                (timers.min(), self.alarms.first_key_value().map(|(when, _)| *when));
            match (timer, alarm) {
                (Some((at, shard, timer)), _)
                    if at <= end && alarm.is_none_or(|(alarm, _)| at <= alarm) =>
                {
                    self.now = self.now.max(at);
                    self.groups[shard].timers.remove(&timer);
                    self.step(shard, |replica, now, out| replica.on_timer(now, timer, out));
                }
                (_, Some(when)) if when.0 <= end => {
                    self.now = self.now.max(when.0);
                    let (at, key) = self.alarms.remove(&when).expect("it is the first");
                    self.nodes[at].0.alarm(key);
                }
                _ => break,
            }
            self.deliver()?;
        }
        self.now = end;
        self.go_on();
        Ok(())
    }

    /// Starts a session's transaction.
    fn begin(&mut self, name: &str, work: Work) -> Result<(), String> {
        let Session { node, mode, token } =
            self.sessions.get(name).cloned().ok_or("there is no such session")?;
        let (client, certifies) = (Arc::clone(&self.nodes[node].1), self.protocol.certifies());
        let (names, told, name) =
            (Arc::clone(&self.names), Arc::clone(&self.told), name.to_owned());
        let router = Arc::clone(&self.nodes[node].0);
        self.tasks.push(Box::pin(async move {
            let say = |what: String| told.lock().push(format!("{name} {what}"));
            let reads = work.writes.is_empty();
            let kind = if reads { Mode::ReadOnly(ReadAt::Now) } else { Mode::ReadWrite };
            let how = Begin { consistency: mode, token: *token.lock(), ..Begin::new(kind) };
            // It may ask for its snapshot before it has begun.
            names.lock().call(node, router.last_number() + 1, &name);
            let mut transaction = match client.begin(how).await {
                Ok(transaction) => transaction,
                Err(why) => return say(format!("is refused: {why}")),
            };
            let number = transaction.age().number;
            names.lock().call(node, number, &name);
            if certifies {
                // It reads as the transaction that began just before.
                names.lock().call(node, number - 1, &name);
            }
            if let Some(negotiates) = work.declares {
                let first = work.reads.first().cloned().expect("it reads");
                let last = KeyRange::point(work.reads.last().cloned().expect("it reads"));
                let scope = KeyRange { start: first, end: last.end };
                transaction.reads_only_in(&scope, negotiates);
            }
            for key in work.reads {
                if work.keeps {
                    transaction.keep_range(KeyRange::point(key.clone()));
                }
                match transaction.get(&key, Lock::Shared).await {
                    Ok(value) => say(format!("reads {}", wording::write(&Write { key, value }))),
                    Err(why) => return say(format!("cannot read: {why}")),
                }
            }
            for Write { key, value } in work.writes {
                transaction.put(key, value).expect("it writes little");
            }
            let mut greatest = transaction.token();
            match transaction.commit().await {
                Outcome::Committed { at } if !reads => {
                    greatest = greatest.max(at);
                    say(format!("is told that it has committed at {}", moment(at)));
                }
                Outcome::Committed { .. } => {}
                Outcome::Aborted { why } => say(format!("is told that it is aborted: {why}")),
                Outcome::Unknown => say("is not told the outcome".into()),
            }
            let mut token = token.lock();
            *token = token.max(greatest);
        }));
        self.deliver()
    }

    fn command(&mut self, command: &str) -> Result<String, String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let number = |word: &str| {
            word[1..].parse::<usize>().map(|at| at - 1).map_err(|error| format!("{word}: {error}"))
        };
        let millis = |word: &str| {
            word.parse::<f64>().map(|ms| (ms * MS as f64) as i64).map_err(|error| error.to_string())
        };
        let mode = |word: &str| Consistency::named(word).ok_or("there is no such mode");
        let keys = |keys: &[&str]| keys.iter().map(|key| Key::from(*key)).collect::<Vec<_>>();
        let read = |reads, declares| Work { reads, writes: Vec::new(), declares, keeps: false };
        match words.as_slice() {
            // Milliseconds by which a node's clock is ahead.
            ["skew", node, by] => self.skews[number(node)?] = millis(by)?,
            ["session", name, "at", node, word] => {
                let (node, mode, token) = (number(node)?, mode(word)?, Arc::default());
                self.sessions.insert((*name).to_owned(), Session { node, mode, token });
            }
            [name, "is", word] => {
                self.sessions.get_mut(*name).ok_or("there is no such session")?.mode = mode(word)?;
            }
            [name, "gives", other, "its", "token"] => {
                let token = *self.sessions[*name].token.lock();
                let mut own = self.sessions[*other].token.lock();
                *own = own.max(token);
            }
            // A token that no leader issued, this far ahead of true time.
            [name, "makes", "a", "token", ahead] => {
                let nanos = self.now.saturating_add_signed(millis(ahead)?);
                *self.sessions[*name].token.lock() = Timestamp { nanos, ..Timestamp::ZERO };
            }
            [name, "writes", pairs @ ..] => {
                let pair = |pair: &&str| {
                    let (key, value) = pair.split_once('=').ok_or("a key and a value")?;
                    Ok::<_, String>(Write { key: Key::from(key), value: Some(Value::from(value)) })
                };
                let writes = pairs.iter().map(pair).collect::<Result<_, _>>()?;
                self.begin(name, Work { writes, ..read(Vec::new(), None) })?;
            }
            [name, "reads", all @ .., "then", "writes", pair] => {
                let (key, value) = pair.split_once('=').ok_or("a key and a value")?;
                let write = Write { key: Key::from(key), value: Some(Value::from(value)) };
                self.begin(name, Work { writes: vec![write], ..read(keys(all), None) })?;
            }
            [name, "keeps", all @ .., "then", "writes", pair] => {
                let (key, value) = pair.split_once('=').ok_or("a key and a value")?;
                let write = Write { key: Key::from(key), value: Some(Value::from(value)) };
                let work = read(keys(all), None);
                self.begin(name, Work { writes: vec![write], keeps: true, ..work })?;
            }
            [name, "reads", "only", all @ ..] => self.begin(name, read(keys(all), Some(false)))?,
            [name, "negotiates", all @ ..] => self.begin(name, read(keys(all), Some(true)))?,
            [name, "reads", all @ ..] => self.begin(name, read(keys(all), None))?,
            ["pass", ms] => self.pass(millis(ms)?.unsigned_abs())?,
            // The disk of a shard's leader does not answer until it is synced.
            ["stall", shard] => self.groups[number(shard)?].stalled = true,
            ["sync", shard] => {
                let shard = number(shard)?;
                self.groups[shard].stalled = false;
                self.sync(shard);
                self.deliver()?;
            }
            // Messages of one shard's leader to another's are late.
            ["hold", from, to] => self.holds = Some((number(from)?, number(to)?)),
            ["release"] => {
                self.holds = None;
                self.wire.extend(std::mem::take(&mut self.held));
                self.deliver()?;
            }
            // The leader of a shard begins again with what its disk has.
            ["restart", shard] => {
                let shard = number(shard)?;
                let disk = std::mem::take(&mut self.groups[shard].disk);
                self.groups[shard] = self.boot(shard, disk);
                self.perform(shard);
                self.deliver()?;
            }
            _ => return Err("there is no such command".into()),
        }
        Ok(std::mem::take(&mut self.said).join("\n"))
    }
}

fn check(folder: &str, protocol: &'static Protocol) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modes").join(folder);
    script::check(&folder, || World::new(protocol), World::command);
}

#[test]
fn transcripts() {
    check("scripts", &hybrid_time::PROTOCOL);
}

#[test]
fn transcripts_of_clock_si() {
    check("clock_si", &clock_si::PROTOCOL);
}

#[test]
fn transcripts_of_conventional_si() {
    check("conventional_si", &conventional_si::PROTOCOL);
}

#[test]
fn what_is_planted_is_noticed() {
    if std::env::var_os("UPDATE").is_some() {
        return; // Or what is broken would be written down.
    }
    let rules = [
        clock_rules::COMMIT_WAIT,
        clock_rules::DRAWN_AT_THE_MIDDLE,
        locking_rules::READ_WAIT,
        locking_rules::TOKEN_DROPPED,
        locking_rules::FAR_TOKEN_ADOPTED,
        locking_rules::NEGOTIATED_LEAST,
        shard_rules::TOKEN_IGNORED,
        shard_rules::ISSUER_BELOW_LOG,
        participant_rules::SAFE_TIME_IN_FLIGHT,
        participant_rules::SAFE_TIME_PREPARED,
        participant_rules::COMMIT_BELOW_PREPARE,
    ];
    let of_clock_si = [
        snapshot_rules::NOT_CERTIFIED,
        snapshot_rules::RECENT_WITHOUT_FLOOR,
        snapshot_rules::COMMIT_BELOW_SNAPSHOT,
        snapshot_rules::RANGE_NOT_KEPT,
        participant_rules::SAFE_TIME_PREPARED,
    ];
    let of_conventional_si = [
        shard_rules::AUTHORITY_BELOW_CEILING,
        shard_rules::TIMESTAMP_BELOW_SNAPSHOT,
        snapshot_rules::OVERWRITE_UNBOUNDED,
    ];
    let noticed = |rule, transcripts: fn()| {
        let broken = std::thread::spawn(move || {
            plant(Some(rule), true);
            transcripts();
        });
        assert!(broken.join().is_err(), "{rule:?}");
    };
    rules.into_iter().for_each(|rule| noticed(rule, transcripts));
    of_clock_si.into_iter().for_each(|rule| noticed(rule, transcripts_of_clock_si));
    let transcripts = transcripts_of_conventional_si;
    of_conventional_si.into_iter().for_each(|rule| noticed(rule, transcripts));
}
