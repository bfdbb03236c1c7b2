//! Golden transcripts of TAPIR end to end: the messages between sessions and replicas, and the
//! answers to users.
//!
//! There are two shards, of the keys before `n` and of the rest, with a replica on each node. Only
//! the backoff after conflicts is random. Messages arrive when the script delivers them, or while
//! time passes; disks are synced at once.

#[allow(dead_code, reason = "random worlds ask more of it")]
#[path = "world/request_router.rs"]
mod request_router;
#[path = "../../txn/tests/common/script.rs"]
mod script;
mod words;

use futures::channel::oneshot;
use futures::future::BoxFuture;
use meridian_clock::rules as clock_rules;
use meridian_clock::{Interval, Reading, Timestamp};
use meridian_machine::planted::plant;
use meridian_machine::{Address, Effect as Do, Incarnation, Machine, Outbox, Role, ShardId};
use meridian_mvcc::{Key, Value};
use meridian_replication::inconsistent::{Config, ReplicaSet};
use meridian_systems::Protocol;
use meridian_systems::tapir::{self, Effect, LogRecord, Message, Replica, Shard, Timer};
use meridian_txn::tapir::rules as tapir_rules;
use meridian_txn::tapir::{Guarantee, TxnClient, recover};
use meridian_txn::{Begin, Database, Lock, Mode, Outcome, TransactionId};
use parking_lot::Mutex;
use request_router::{
    Key as Waits, RequestRouter, RouterEffect, Shared, bounds, node, replica_of, shard_of,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use words::{Names, moment, place, write, writes};

const MS: u64 = 1_000_000;
const BEGINNING: u64 = 1_000_000 * MS;
const KEYS: u8 = 26;
const SHARDS: usize = 2;
/// The clock uncertainty.
const HALF_WIDTH: u64 = 5 * MS;

#[derive(Default)]
struct TestReplica {
    replica: Option<Replica>,
    out: Outbox<Replica>,
    disk: Vec<LogRecord>,
    timers: BTreeMap<Timer, u64>,
}

#[derive(Default)]
struct Node {
    incarnation: u32,
    /// The offset of its clock from true time.
    skew: i64,
    router: Option<Arc<RequestRouter>>,
    txn_client: Option<Arc<TxnClient<RequestRouter>>>,
}

/// A task of a node, until it ends.
struct Task {
    node: usize,
    name: String,
    future: BoxFuture<'static, ()>,
}

struct World {
    guarantee: Guarantee,
    now: u64,
    nodes: Vec<Node>,
    /// By shard and node.
    homes: Vec<TestReplica>,
    shared: Arc<Mutex<Shared>>,
    tasks: Vec<Task>,
    /// Sessions that have read and wait to commit.
    gates: BTreeMap<String, oneshot::Sender<()>>,
    alarms: BTreeMap<(u64, u64), (usize, u32, Waits)>,
    counter: u64,
    wire: VecDeque<(Address, Address, Message)>,
    /// Nodes whose sessions receive nothing for now, with the messages that are held back.
    held: BTreeSet<usize>,
    logged: Vec<(Address, Address, Message)>,
    /// Messages from and to these places are lost.
    cut: BTreeSet<String>,
    names: Arc<Mutex<Names>>,
    /// The lines of sessions.
    told: Arc<Mutex<Vec<String>>>,
    said: String,
}

impl World {
    fn empty() -> World {
        World {
            guarantee: Guarantee::StrictlySerializable,
            now: BEGINNING,
            nodes: Vec::new(),
            homes: Vec::new(),
            shared: Arc::new(Mutex::new(Shared::new(0, 0, false))),
            tasks: Vec::new(),
            gates: BTreeMap::new(),
            alarms: BTreeMap::new(),
            counter: 0,
            wire: VecDeque::new(),
            held: BTreeSet::new(),
            logged: Vec::new(),
            cut: BTreeSet::new(),
            names: Arc::default(),
            told: Arc::default(),
            said: String::new(),
        }
    }

    fn line(&mut self, line: String) {
        let _ = writeln!(self.said, "{line}");
    }

    fn reading(&self, node: usize) -> Reading {
        Reading::at(
            self.now,
            Interval::around(self.now.saturating_add_signed(self.nodes[node].skew), HALF_WIDTH),
        )
    }

    fn address(&self, home: usize) -> Address {
        replica_of(ShardId((home / self.nodes.len()) as u32), node(home % self.nodes.len()))
    }

    /// Starts a node with what is on its disk.
    fn boot(&mut self, at: usize) {
        self.nodes[at].incarnation += 1;
        let incarnation = self.nodes[at].incarnation;
        let router = Arc::new(RequestRouter::new(at, incarnation, Arc::clone(&self.shared)));
        self.nodes[at].txn_client =
            Some(Arc::new(TxnClient::new(Arc::clone(&router), self.guarantee)));
        self.nodes[at].router = Some(router);
        self.shared.lock().begin(at);
        for shard in 0..SHARDS {
            let home = shard * self.nodes.len() + at;
            let address = self.address(home);
            let config = Config {
                me: address.node,
                members: ReplicaSet::first((0..self.nodes.len()).map(node).collect()),
                database: address.database,
                shard: address.shard,
                repeat_ns: 30 * MS,
                view_timeout_ns: 200 * MS,
                gather_ns: 5 * MS,
                part_bytes: usize::MAX,
            };
            let (now, application) =
                (self.reading(at), Shard::new(self.guarantee, address.shard, bounds(shard)));
            let there = &mut self.homes[home];
            (there.out, there.timers) = (Outbox::new(), BTreeMap::new());
            there.replica = Replica::new(
                config,
                (Incarnation(incarnation), false),
                application,
                there.disk.clone(),
                now,
                &mut there.out,
            );
            self.perform(home);
        }
    }

    fn step(
        &mut self,
        home: usize,
        step: impl FnOnce(&mut Replica, Reading, &mut Outbox<Replica>),
    ) {
        let now = self.reading(home % self.nodes.len());
        let there = &mut self.homes[home];
        let Some(replica) = &mut there.replica else { return };
        step(replica, now, &mut there.out);
        self.perform(home);
    }

    fn perform(&mut self, home: usize) {
        let effects: Vec<_> = self.homes[home].out.drain().collect();
        let (at, shard, me) =
            (home % self.nodes.len(), home / self.nodes.len(), self.address(home));
        let mut through = None;
        for effect in effects {
            match effect {
                Do::Send { to, message } | Do::SendBefore { to, message, .. } => {
                    self.send(me, to, message)
                }
                Do::Arm { timer, at } => drop(self.homes[home].timers.insert(timer, at)),
                Do::Disarm { timer } => drop(self.homes[home].timers.remove(&timer)),
                Do::Persist { position, record } => {
                    self.homes[home].disk.push(record);
                    through = Some(position);
                }
                Do::Do(Effect::Install { at: when, writes: all }) => {
                    self.line(format!(
                        "{} installs {} at {}",
                        place(me),
                        writes(&all),
                        moment(when)
                    ));
                    self.shared.lock().install(at, when, all);
                }
                Do::Do(Effect::Began { settled, .. }) => {
                    self.shared.lock().settle(at, shard, settled)
                }
                Do::Do(Effect::Serve(_)) => unreachable!("no script reads a snapshot"),
                Do::Do(Effect::Adopt(_) | Effect::Copied(_) | Effect::Serves) => {
                    unreachable!("in no script a replica takes over")
                }
            }
        }
        if let Some(through) = through {
            self.step(home, |replica, now, out| replica.on_durable(now, through, out));
        }
    }

    fn send(&mut self, from: Address, to: Address, message: Message) {
        // A replica is cut off alone, or with its node, or with its shard.
        let cut = |address: Address| {
            let (whole, shard) =
                (format!("n{}", address.node.0), format!("s{}", address.shard.0 + 1));
            let is_replica = !matches!(address.role, Role::Coordinator(_));
            self.cut.contains(&whole)
                || is_replica && [shard, place(address)].iter().any(|name| self.cut.contains(name))
        };
        // A message within a node is lost only where its shard is cut off.
        let stays = from.node == to.node && !self.cut.contains(&format!("s{}", to.shard.0 + 1));
        let lost = if !stays && (cut(from) || cut(to)) { " (lost)" } else { "" };
        let what = self.names.lock().message(&message);
        self.line(format!("{} → {}: {what}{lost}", place(from), place(to)));
        if lost.is_empty() {
            self.wire.push_back((from, to, message));
        }
    }

    /// Runs tasks as far as they can go, and carries out their requests.
    fn go_on(&mut self) {
        loop {
            let (before, said) = (self.tasks.len(), self.said.len());
            for at in 0..self.nodes.len() {
                if let Some(router) = &self.nodes[at].router {
                    router.set(self.reading(at));
                }
            }
            let mut tasks = std::mem::take(&mut self.tasks);
            tasks.retain_mut(|task| {
                task.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending
            });
            self.tasks = tasks;
            let mut alarms = 0;
            for at in 0..self.nodes.len() {
                let Some(router) = self.nodes[at].router.clone() else { continue };
                let incarnation = self.nodes[at].incarnation;
                for wish in router.take_effects() {
                    match wish {
                        RouterEffect::Alarm(until, key) => {
                            (self.counter, alarms) = (self.counter + 1, alarms + 1);
                            self.alarms.insert(
                                (until.max(self.now), self.counter),
                                (at, incarnation, key),
                            );
                        }
                        RouterEffect::Say((shard, to), message) => {
                            let role = Role::Coordinator(0);
                            let from = Address {
                                incarnation: Incarnation(incarnation),
                                role,
                                ..replica_of(shard, node(at))
                            };
                            self.send(from, replica_of(shard, to), message);
                        }
                    }
                }
            }
            let told = std::mem::take(&mut *self.told.lock());
            told.into_iter().for_each(|line| self.line(line));
            if (self.tasks.len(), self.said.len(), alarms) == (before, said, 0) {
                return;
            }
        }
    }

    fn deliver(&mut self) -> Result<(), String> {
        self.go_on();
        for _ in 0..10_000 {
            let Some((from, to, message)) = self.wire.pop_front() else { return Ok(()) };
            let at = to.node.0 as usize - 1;
            match to.role {
                Role::Coordinator(_) if self.held.contains(&at) => {
                    self.logged.push((from, to, message))
                }
                Role::Coordinator(_) => {
                    let lives = self.nodes[at].incarnation == to.incarnation.0;
                    if let Some(router) = self.nodes[at].router.as_ref().filter(|_| lives) {
                        router.hear(from.node, message);
                    }
                }
                _ => {
                    let home = shard_of(to) * self.nodes.len() + at;
                    self.step(home, |replica, now, out| {
                        replica.on_message(now, from, message, out)
                    });
                }
            }
            self.go_on();
        }
        Err("they never stop talking".into())
    }

    /// Lets time pass, with timers and alarms on the way; messages take no time.
    fn pass(&mut self, nanos: u64) -> Result<(), String> {
        let end = self.now + nanos;
        self.deliver()?;
        loop {
            let timers = self.homes.iter().enumerate().filter(|(_, home)| home.replica.is_some());
            let timers = timers.flat_map(|(home, there)| {
                there.timers.iter().map(move |(timer, at)| (*at, home, *timer))
            });
            let (timer, alarm) =
                (timers.min(), self.alarms.first_key_value().map(|(when, _)| *when));
            match (timer, alarm) {
                (Some((at, home, timer)), _)
                    if at <= end && alarm.is_none_or(|(alarm, _)| at <= alarm) =>
                {
                    self.now = self.now.max(at);
                    self.homes[home].timers.remove(&timer);
                    self.step(home, |replica, now, out| replica.on_timer(now, timer, out));
                }
                (_, Some(when)) if when.0 <= end => {
                    self.now = self.now.max(when.0);
                    let (at, incarnation, key) =
                        self.alarms.remove(&when).expect("it is the first");
                    if let Some(router) = self.nodes[at]
                        .router
                        .as_ref()
                        .filter(|_| self.nodes[at].incarnation == incarnation)
                    {
                        router.alarm(key);
                    }
                }
                _ => break,
            }
            self.deliver()?;
        }
        self.now = end;
        self.go_on();
        Ok(())
    }

    /// Starts a session that reads some keys, and commits with its writes on the script's command.
    fn begin(
        &mut self,
        name: &str,
        at: usize,
        reads: Vec<Key>,
        writes: Vec<(Key, Value)>,
    ) -> Result<(), String> {
        let there = &self.nodes[at];
        let (txn_client, incarnation) =
            (there.txn_client.clone().ok_or("its node is down")?, there.incarnation);
        let (names, told, name) =
            (Arc::clone(&self.names), Arc::clone(&self.told), name.to_owned());
        let (open, gate) = oneshot::channel();
        self.gates.insert(name.clone(), open);
        let called = name.clone();
        let future = Box::pin(async move {
            let say = |what: String| told.lock().push(format!("{name} {what}"));
            let begin = txn_client.begin(Begin::new(Mode::ReadWrite)).await;
            let Ok(mut transaction) = begin else { return say("cannot begin".into()) };
            let age = transaction.age();
            let id = TransactionId { node: age.node, incarnation, number: age.number };
            names.lock().call(id, &name);
            for key in reads {
                let value = match transaction.get(&key, Lock::Shared).await {
                    Ok(value) => value,
                    Err(why) => return say(format!("cannot read: {why}")),
                };
                say(format!("reads {}", write(&meridian_mvcc::Write { key, value })));
            }
            for (key, value) in writes {
                transaction.put(key, Some(value)).expect("it writes little");
            }
            if gate.await.is_err() {
                return;
            }
            match transaction.commit().await {
                Outcome::Committed { at } => {
                    say(format!("is told that it has committed at {}", moment(at)))
                }
                Outcome::Aborted { why } => say(format!("is told that it is aborted: {why}")),
                Outcome::Unknown => say("is told that nobody knows".into()),
            }
        });
        self.tasks.push(Task { node: at, name: called, future });
        self.go_on();
        Ok(())
    }

    /// Recovers the transactions that are prepared at a node's replicas.
    fn recover(&mut self, at: usize) -> Result<(), String> {
        let now = self.reading(at);
        let mut found = BTreeMap::new();
        for home in (0..SHARDS).map(|shard| shard * self.nodes.len() + at) {
            let Some(replica) = &self.homes[home].replica else { continue };
            found.extend(replica.operations().application().participant().overdue(now, 0));
        }
        for (who, participants) in found {
            let router = self.nodes[at].router.clone().ok_or("it is down")?;
            let (told, name) = (Arc::clone(&self.told), self.names.lock().of(who).to_owned());
            let called = format!("recovery of {name}");
            let until = now.boot_ns + 10_000 * MS;
            let future = Box::pin(async move {
                let what = match recover(&*router, who, &participants, until).await {
                    Some(true) => "has committed",
                    Some(false) => "is aborted",
                    None => "nobody knows",
                };
                told.lock().push(format!("n{} has found out: {name} {what}", at + 1));
            });
            self.tasks.push(Task { node: at, name: called, future });
        }
        self.go_on();
        Ok(())
    }

    fn state(&mut self) {
        for home in 0..self.homes.len() {
            let me = self.address(home);
            let Some(replica) = &self.homes[home].replica else { continue };
            let operations = replica.operations();
            let names = self.names.lock();
            let prepared: Vec<String> = operations
                .application()
                .participant()
                .prepared()
                .map(|proposal| {
                    format!(
                        "{} prepared at {}",
                        names.of(proposal.transaction),
                        moment(proposal.at)
                    )
                })
                .collect();
            drop(names);
            let shared = self.shared.lock();
            let all = shared.page(
                home % self.nodes.len(),
                &bounds(shard_of(me)),
                Timestamp::MAX,
                false,
                usize::MAX,
            );
            drop(shared);
            let versions = all.map(|page| page.versions).unwrap_or_default();
            let versions = versions
                .iter()
                .map(|(at, version)| format!("{} of {}", write(version), moment(*at)));
            let has: Vec<String> = versions.chain(prepared).collect();
            let has = if has.is_empty() { "nothing".to_owned() } else { has.join(", ") };
            let between = if operations.is_between_views() { "waits for " } else { "" };
            let line = format!("{}: {between}{}, has {has}", place(me), operations.view());
            self.line(line);
        }
    }

    fn command(&mut self, command: &str) -> Result<String, String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let number =
            |word: &str| word[1..].parse::<usize>().map_err(|error| format!("{word}: {error}"));
        let node = |word: &str| Ok::<usize, String>(number(word)? - 1);
        match words.as_slice() {
            ["nodes", many, "of", protocol] => {
                let protocol = Protocol::named(protocol).ok_or("no such protocol")?;
                let many: usize = many.parse().map_err(|_| "how many?")?;
                self.guarantee = tapir::guarantee(protocol);
                self.nodes = (0..many).map(|_| Node::default()).collect();
                self.homes = (0..many * SHARDS).map(|_| TestReplica::default()).collect();
                self.shared = Arc::new(Mutex::new(Shared::new(many, 1, false)));
                (0..many).for_each(|at| self.boot(at));
            }
            // Milliseconds.
            ["skew", who, by] => {
                self.nodes[node(who)?].skew =
                    by.parse::<i64>().map_err(|_| "by how much?")? * MS as i64;
            }
            ["begin", name, "at", who, rest @ ..] => {
                let (mut reads, mut writes) = (Vec::new(), Vec::new());
                for word in rest.iter().filter(|word| !["reads", "writes"].contains(word)) {
                    match word.split_once('=') {
                        Some((key, value)) => writes.push((Key::from(key), Value::from(value))),
                        None => reads.push(Key::from(*word)),
                    }
                }
                self.begin(name, node(who)?, reads, writes)?;
            }
            ["commit", name] => {
                let gate = self.gates.remove(*name).ok_or("it has not begun")?;
                gate.send(()).map_err(|()| "it is gone")?;
                self.go_on();
            }
            ["deliver"] => self.deliver()?,
            ["pass", ms] => self.pass(ms.parse::<u64>().map_err(|_| "how long?")? * MS)?,
            ["cut", places @ ..] => self.cut.extend(places.iter().map(|place| (*place).to_owned())),
            ["heal"] => self.cut.clear(),
            // Its sessions receive nothing until they are released.
            ["hold", who] => drop(self.held.insert(node(who)?)),
            ["release", who] => {
                self.held.remove(&node(who)?);
                self.wire.extend(std::mem::take(&mut self.logged));
                self.deliver()?;
            }
            // Drops a session in the middle of its work.
            ["leave", name] => self.tasks.retain(|task| task.name != *name),
            ["crash", who] => {
                let at = node(who)?;
                (self.nodes[at].router, self.nodes[at].txn_client) = (None, None);
                self.shared.lock().end(at);
                (0..SHARDS)
                    .for_each(|shard| self.homes[shard * self.nodes.len() + at].replica = None);
                self.tasks.retain(|task| task.node != at);
            }
            ["change", "view", "of", shard, "at", who] => {
                let home = (number(shard)? - 1) * self.nodes.len() + node(who)?;
                self.step(home, |replica, now, out| replica.change_view(now, out));
            }
            ["recover", "at", who] => self.recover(node(who)?)?,
            ["state"] => self.state(),
            _ => return Err("there is no such command".into()),
        }
        Ok(std::mem::take(&mut self.said))
    }
}

#[test]
fn transcripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    script::check(&folder, World::empty, World::command);
}

#[test]
fn what_is_planted_is_noticed() {
    if std::env::var_os("UPDATE").is_some() {
        return; // Or what is broken would be written down.
    }
    let rules = [
        clock_rules::COMMIT_WAIT,
        tapir_rules::PHANTOMS_PASS,
        tapir_rules::COMMITTED_READS_FREE,
        tapir_rules::READS_FROM_THE_FUTURE,
        tapir_rules::RESOLVED_IN_ITS_VIEW,
    ];
    for rule in rules {
        let broken = std::thread::spawn(move || {
            plant(Some(rule), true);
            transcripts();
        });
        assert!(broken.join().is_err(), "{rule:?}");
    }
}
