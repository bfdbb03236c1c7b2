//! The world: events in the order of their time, each of which may cause others.
//!
//! 1. Everything is drawn from one generator, and nothing depends on an address, a hash order or real time.
//! 2. A message is encoded when it leaves and decoded when it arrives, as between hosts.
//! 3. What belonged to a life of a node dies with it: timers, writes on their way, sessions. Messages do not.

use crate::client::{self, Seen};
use crate::clock::{NodeClock, TrueTime};
use crate::faults::{Fault, Nemesis};
use crate::member::{self, Copy, Life};
use crate::network::Network;
use crate::site::{Handle, Key, Wish};
use crate::verdict::{self, Installed, Past};
use crate::{Defect, Options, Report};
use meridian_clock::{Reading, Timestamp};
use meridian_history::{Status, Transaction, Value};
use meridian_log::MemoryDisk;
use meridian_machine::{Address, Effect as Do, Incarnation, Machine, NodeId, Outbox, Role};
use meridian_mvcc::KeyRange;
use meridian_replication::group::Index;
use meridian_systems::envelope;
use meridian_systems::spanner::{Effect, Message, Replica, Serve, Timer};
use meridian_txn::locking::{Heard, Reply};
use meridian_txn::{Mode, ReadAt};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// When worlds begin.
const BEGINNING: u64 = 1_700_000_000 * S;
/// Longer than any run's faults last.
const FAULTS_END: u64 = 120 * S;
/// Within so long after the last fault everybody must have got on.
const LIVENESS: u64 = 30 * S;
/// What each client must have done by then.
const EACH: usize = 3;
/// How far a lying clock may be from true time: several leases.
const LIE: u64 = 2 * S;
/// Old versions are kept for so long.
const HISTORY: u64 = 4 * S;

enum Event {
    Frame {
        from: usize,
        to: usize,
        bytes: Vec<u8>,
    },
    /// Boxed: most events are small.
    Local {
        from: Address,
        message: Box<Message>,
    },
    Timer {
        timer: Timer,
        at: u64,
    },
    Write,
    Synced,
    Settle,
    KeepAlive,
    Alarm(Key),
    Hear(Key, Heard),
    Serve(Box<Serve>),
    Late,
    CopyOut {
        to: usize,
        index: Index,
        tries: u32,
    },
    CopyIn {
        from: usize,
        copy: Option<Copy>,
        index: Index,
    },
    CopyDone {
        to: usize,
        index: Index,
    },
    Boot,
    Room,
    Reach,
    Fault(Fault),
    /// A lying clock jumps.
    Strobe,
    Begin(usize),
    Poll(usize),
}

/// Whom an event is for: a node, in one of its lives or in whichever it is.
#[derive(Clone, Copy)]
struct Whom {
    node: usize,
    life: Option<Incarnation>,
}

struct Node {
    clock: Arc<NodeClock>,
    disks: (MemoryDisk, MemoryDisk),
    incarnation: Incarnation,
    life: Option<Life>,
    paused_until: u64,
    sync_ns: u64,
}

struct Client {
    node: usize,
    attempt: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    seen: Arc<Mutex<Seen>>,
    mode: Mode,
    start: u64,
    committed: usize,
}

/// Wakes a client: it is polled after the event that woke it.
struct Ready {
    client: usize,
    queue: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.queue.lock().push_back(self.client);
    }
}

pub struct World {
    options: Options,
    rng: ChaCha8Rng,
    time: TrueTime,
    half_width_ns: u64,
    queue: BTreeMap<(u64, u64), (Option<Whom>, Event)>,
    pushed: u64,
    nodes: Vec<Node>,
    members: Vec<NodeId>,
    network: Network,
    nemesis: Nemesis,
    clients: Vec<Client>,
    ready: Arc<Mutex<VecDeque<usize>>>,
    /// Where all clients go, if they have a favourite.
    favourite: Option<usize>,
    keys: u32,
    lease_ns: u64,
    next_element: i64,
    begun: usize,
    /// Whether new transactions are begun, and faults strike.
    open: bool,
    faulty: bool,
    history: Vec<Transaction>,
    past: Vec<Past>,
    recent: VecDeque<Timestamp>,
    installed: Installed,
    struck: BTreeMap<&'static str, u64>,
    failures: BTreeMap<String, u64>,
    violation: Option<String>,
    trace: u64,
    events: u64,
}

fn index(node: NodeId) -> usize {
    node.0 as usize - 1
}

impl World {
    pub fn new(options: Options) -> World {
        let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
        let time = TrueTime::at(BEGINNING);
        let half_width_ns = rng.random_range(100_000..8 * MS);
        let node = |rng: &mut ChaCha8Rng| {
            let booted = BEGINNING - rng.random_range(1..1_000 * S);
            let clock = NodeClock::new(time.clone(), booted, half_width_ns);
            if options.defect == Some(Defect::ClockLies) {
                clock.lie();
            }
            if options.faults.clock {
                clock.set((rng.random_range(-1.0..=1.0) * half_width_ns as f64) as i64);
            }
            Node {
                clock: Arc::new(clock),
                disks: (MemoryDisk::new(), MemoryDisk::new()),
                incarnation: Incarnation(0),
                life: None,
                paused_until: 0,
                sync_ns: 2 * MS,
            }
        };
        let nodes: Vec<Node> = (0..options.nodes).map(|_| node(&mut rng)).collect();
        let client = |number: usize| Client {
            node: number % options.nodes,
            attempt: None,
            seen: Arc::default(),
            mode: Mode::ReadWrite,
            start: 0,
            committed: 0,
        };
        World {
            network: Network::new(options.nodes, &mut rng),
            nemesis: Nemesis::new(&mut rng, options.faults),
            members: (1..=options.nodes as u32).map(NodeId).collect(),
            clients: (0..options.clients).map(client).collect(),
            favourite: options.favourite.or_else(|| rng.random_bool(0.15).then(|| rng.random_range(0..options.nodes))),
            keys: rng.random_range(2..8),
            lease_ns: rng.random_range(400..4_000) * MS,
            options,
            rng,
            time,
            half_width_ns,
            queue: BTreeMap::new(),
            pushed: 0,
            nodes,
            ready: Arc::default(),
            next_element: 0,
            begun: 0,
            open: true,
            faulty: true,
            history: Vec::new(),
            past: Vec::new(),
            recent: VecDeque::new(),
            installed: Installed::new(),
            struck: BTreeMap::new(),
            failures: BTreeMap::new(),
            violation: None,
            trace: 0xcbf2_9ce4_8422_2325,
            events: 0,
        }
    }

    pub fn run(mut self) -> Report {
        for node in 0..self.nodes.len() {
            self.push(0, Some(Whom { node, life: None }), Event::Boot);
            if self.options.defect == Some(Defect::ClockLies) {
                self.push(0, Some(Whom { node, life: None }), Event::Strobe);
            }
        }
        for client in 0..self.clients.len() {
            self.push(client as u64 * MS, None, Event::Begin(client));
        }
        self.next_fault();
        let enough = self.options.transactions;
        self.until(FAULTS_END, |world| world.begun >= enough);
        self.quiet();
        let before: Vec<usize> = self.clients.iter().map(|client| client.committed).collect();
        let got_on =
            |world: &World| world.clients.iter().zip(&before).all(|(client, before)| client.committed >= before + EACH);
        if !self.until(LIVENESS, got_on) {
            let stuck = self.clients.iter().zip(&before).position(|(client, before)| client.committed < before + EACH);
            self.fail(format!("client {stuck:?} did not get on within {} s after the last fault", LIVENESS / S));
        }
        self.open = false;
        if !self.until(LIVENESS, World::is_at_rest) {
            let what = self.what_is_left();
            self.fail(format!("something is left {} s after everybody went home: {what}", LIVENESS / S));
        }
        if self.violation.is_none() {
            let same = self.copies_are_equal();
            let verdict = same.and_then(|()| verdict::judge(&mut self.history, &self.past, &self.installed));
            self.violation = verdict.err();
        }
        Report {
            seed: self.options.seed,
            virtual_ns: self.now() - BEGINNING,
            verdict: self.violation.map_or(Ok(()), |why| Err(format!("seed {}: {why}", self.options.seed))),
            history: self.history,
            faults: self.struck,
            failures: self.failures,
            leader: self.nodes.iter().position(|node| node.life.as_ref().is_some_and(|life| life.replica.is_serving())),
            trace_hash: self.trace,
            events: self.events,
        }
    }

    fn now(&self) -> u64 {
        self.time.now()
    }

    /// Tells whoever listens; the line is made only then.
    fn tell(&self, line: impl FnOnce() -> String) {
        if let Some(tell) = self.options.tell {
            tell(&format!("{:>12.6} s  {}", (self.now() - BEGINNING) as f64 / S as f64, line()));
        }
    }

    fn fail(&mut self, why: String) {
        self.violation.get_or_insert(why);
    }

    fn push(&mut self, after_ns: u64, whom: Option<Whom>, event: Event) {
        self.pushed += 1;
        self.queue.insert((self.now() + after_ns, self.pushed), (whom, event));
    }

    fn push_at(&mut self, at: u64, whom: Option<Whom>, event: Event) {
        self.push(at.saturating_sub(self.now()), whom, event);
    }

    fn whom(&self, node: usize) -> Option<Whom> {
        Some(Whom { node, life: self.nodes[node].life.as_ref().map(|life| life.incarnation) })
    }

    /// Lets things happen until something holds; false if it did not within a time, or if something was found wrong.
    fn until(&mut self, within_ns: u64, holds: impl Fn(&World) -> bool) -> bool {
        let end = self.now() + within_ns;
        while self.violation.is_none() && !holds(self) {
            let Some(((at, _), (whom, event))) = self.queue.pop_first() else { return false };
            if at > end {
                self.push_at(at, whom, event);
                return false;
            }
            self.time.advance(at);
            self.happen(whom, event);
            self.poll_ready();
        }
        self.violation.is_none()
    }

    // ------------------------------------------------------------------------------------------------------ events

    fn note(&mut self, number: u64) {
        for byte in number.to_be_bytes() {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn happen(&mut self, whom: Option<Whom>, event: Event) {
        if let Some(Whom { node, life }) = whom {
            let there = self.nodes[node].life.as_ref().map(|life| life.incarnation);
            if life.is_some() && life != there {
                return;
            }
            let until = self.nodes[node].paused_until;
            if until > self.now() && !matches!(event, Event::Boot | Event::Room | Event::Strobe) {
                // Who wakes goes on in any order: a session may be faster than the timer that would have stopped it.
                let after = self.rng.random_range(0..5 * MS);
                return self.push_at(until + after, whom, event);
            }
        }
        self.events += 1;
        self.note(self.now());
        let node = whom.map_or(0, |whom| whom.node);
        self.note(node as u64);
        match event {
            Event::Frame { from, to, bytes } => self.arrive(from, to, &bytes),
            Event::Local { from, message } => {
                self.step(node, |replica, now, out| replica.on_message(now, from, *message, out));
            }
            Event::Timer { timer, at } => {
                let Some(life) = &mut self.nodes[node].life else { return };
                if life.timers.get(&timer) == Some(&at) {
                    life.timers.remove(&timer);
                    self.step(node, |replica, now, out| replica.on_timer(now, timer, out));
                }
            }
            Event::Write => self.write(node),
            Event::Synced => self.synced(node),
            Event::Settle => self.settle(node),
            Event::KeepAlive => {
                let Some(life) = &self.nodes[node].life else { return };
                life.desk.keep_alive();
                let reads = life.desk.read_alone();
                self.push(S, whom, Event::KeepAlive);
                self.grant(node);
                if reads > 0 {
                    self.step(node, |replica, now, out| replica.note_reads(now, reads, out));
                }
            }
            Event::Alarm(key) => self.with_desk(node, |desk| desk.0.alarm(key)),
            Event::Hear(key, heard) => self.with_desk(node, |desk| desk.0.answer(key, heard)),
            Event::Serve(serve) => self.serve(node, *serve),
            Event::Late => self.install_late(node),
            Event::CopyOut { to, index, tries } => self.copy_out(node, to, index, tries),
            Event::CopyIn { from, copy, index } => self.copy_in(node, from, copy, index),
            Event::CopyDone { to, index } => {
                let to = self.members[to];
                self.step(node, |replica, now, out| {
                    replica.with_group(now, out, |group, out| group.snapshot_delivered(now, to, index, out));
                });
            }
            Event::Boot => self.boot(node),
            Event::Room => {
                self.nodes[node].disks.0.set_full(false);
                self.nodes[node].disks.1.set_full(false);
            }
            Event::Reach => self.reach(),
            Event::Fault(fault) => {
                if self.faulty {
                    self.strike(fault);
                    self.next_fault();
                }
            }
            Event::Strobe => {
                let part = self.rng.random_range(-1.0..=1.0);
                self.nodes[node].clock.set((part * LIE as f64) as i64);
                if self.faulty {
                    self.push(300 * MS, whom, Event::Strobe);
                }
            }
            Event::Begin(client) => self.begin(client),
            Event::Poll(client) => self.poll(client),
        }
    }

    // ------------------------------------------------------------------------------------------------------ nodes

    fn boot(&mut self, node: usize) {
        if self.nodes[node].life.is_some() {
            return;
        }
        let seed = self.rng.random();
        let (me, there) = (self.members[node], &mut self.nodes[node]);
        there.incarnation.0 += 1;
        there.paused_until = 0;
        match Life::begin(me, there.incarnation, &self.members, (seed, self.lease_ns), &there.clock, &there.disks) {
            Ok(life) => {
                let extent = life.space.extent();
                there.life = Some(life);
                self.tell(|| format!("{me} comes to life with {extent:?}"));
            }
            Err(why) => return self.fail(format!("{me} does not come back: {why}")),
        }
        let whom = self.whom(node);
        let every = self.rng.random_range(50 * MS..500 * MS);
        self.push(every, whom, Event::Settle);
        self.push(S, whom, Event::KeepAlive);
        self.reach();
        self.perform(node);
    }

    fn crash(&mut self, node: usize, for_ns: u64) {
        let Some(life) = self.nodes[node].life.take() else { return };
        life.desk.close();
        for client in 0..self.clients.len() {
            if self.clients[client].node == node && self.clients[client].attempt.take().is_some() {
                self.record(client);
            }
        }
        self.tell(|| format!("{} loses power", self.members[node]));
        let survives = self.rng.random_range(0.0..=1.0);
        let there = &self.nodes[node];
        there.disks.0.crash(|| self.rng.random_bool(survives));
        there.disks.1.crash(|| self.rng.random_bool(survives));
        drop(life); // After its disks: whatever it would still write is lost.
        self.push(for_ns, Some(Whom { node, life: None }), Event::Boot);
        self.reach();
    }

    /// Tells each node whom it can speak with.
    fn reach(&mut self) {
        let now = self.now();
        for a in 0..self.nodes.len() {
            let Some(life) = &self.nodes[a].life else { continue };
            let open = |b: &usize| {
                let both = self.network.open(now, a, *b) && self.network.open(now, *b, a);
                a == *b || (both && self.nodes[*b].life.is_some())
            };
            let reached: BTreeSet<NodeId> = (0..self.nodes.len()).filter(open).map(|b| self.members[b]).collect();
            life.desk.set_reached(reached);
        }
    }

    fn step(&mut self, node: usize, step: impl FnOnce(&mut Replica, Reading, &mut Outbox<Replica>)) {
        let there = &mut self.nodes[node];
        let Some(life) = &mut there.life else { return };
        step(&mut life.replica, there.clock.reading(), &mut life.out);
        self.perform(node);
    }

    /// Does what the member asked for, in order.
    fn perform(&mut self, node: usize) {
        let Some(life) = &mut self.nodes[node].life else { return };
        let effects: Vec<_> = life.out.drain().collect();
        if effects.is_empty() {
            return;
        }
        // Now and then a node stops between a step and what it asked for.
        let mut pause_ns = 0;
        if self.faulty && self.options.faults.process && self.rng.random_bool(0.001) {
            pause_ns = self.rng.random_range(1..1_500 * MS);
            self.nodes[node].paused_until = self.now() + pause_ns;
            *self.struck.entry("pause within a step").or_default() += 1;
        }
        let whom = self.whom(node);
        for effect in effects {
            match effect {
                Do::Send { to, message } => self.send(node, pause_ns, None, to, message),
                Do::SendBefore { deadline, to, message } => self.send(node, pause_ns, Some(deadline), to, message),
                Do::Arm { timer, at } => {
                    let late = self.rng.random_range(0..50_000);
                    let there = &mut self.nodes[node];
                    if let Some(life) = &mut there.life {
                        life.timers.insert(timer, at);
                    }
                    let when = there.clock.when(at).max(self.time.now()) + late;
                    self.push_at(when, whom, Event::Timer { timer, at });
                }
                Do::Disarm { timer } => {
                    if let Some(life) = &mut self.nodes[node].life {
                        life.timers.remove(&timer);
                    }
                }
                Do::Persist { position, record } => {
                    if let Some(life) = &mut self.nodes[node].life {
                        life.persist(position, record);
                    }
                }
                Do::Do(effect) => self.act(node, effect),
            }
        }
        self.write(node);
    }

    fn act(&mut self, node: usize, effect: Effect) {
        let whom = self.whom(node);
        let Some(life) = &mut self.nodes[node].life else { return };
        match effect {
            Effect::Install { at, writes, index, term } => {
                let known = self.installed.entry(at).or_insert_with(|| writes.clone());
                if *known != writes {
                    let why = format!("I2: at {at} one node installs {known:?}, {} {writes:?}", self.members[node]);
                    return self.fail(why);
                }
                if self.options.defect == Some(Defect::InstalledLate) {
                    life.late.push((at, writes, index, term));
                    let after = self.rng.random_range(0..20 * MS);
                    return self.push(after, whom, Event::Late);
                }
                life.space.install(at, &writes, index.0, term.0);
            }
            Effect::Serve(mut serve) => {
                if self.options.defect == Some(Defect::ReadOneBefore) {
                    serve.at.nanos = serve.at.nanos.saturating_sub(1);
                }
                match serve.reply_to.role {
                    Role::Coordinator(number) if serve.reply_to.node == self.members[node] => {
                        let Serve { id, footing, at, deadline, .. } = serve;
                        self.push(0, whom, Event::Hear((number, id), Heard::Read { footing, at, deadline }));
                    }
                    _ => {
                        let after = self.rng.random_range(0..MS);
                        self.push(after, whom, Event::Serve(Box::new(serve)));
                    }
                }
            }
            Effect::Readable(mut readable) => {
                if self.options.defect == Some(Defect::LeaseNotChecked) && readable.until > 0 {
                    readable.until = u64::MAX;
                }
                life.desk.set_readable(readable);
            }
            Effect::Leader(leader) => {
                if let Some(tell) = self.options.tell {
                    tell(&format!("{} follows {leader:?}", self.members[node]));
                }
                if let Some(leader) = leader {
                    life.desk.set_leader(leader);
                }
            }
            Effect::SendSnapshot { to, index: wanted, .. } => {
                self.push(MS, whom, Event::CopyOut { to: index(to), index: wanted, tries: 0 });
            }
            Effect::Stop { why } => self.fail(format!("{} stops: {why}", self.members[node])),
        }
    }

    fn install_late(&mut self, node: usize) {
        let Some(life) = &mut self.nodes[node].life else { return };
        for (at, writes, index, term) in std::mem::take(&mut life.late) {
            life.space.install(at, &writes, index.0, term.0);
        }
    }

    // ------------------------------------------------------------------------------------------------------ network

    fn send(&mut self, node: usize, pause_ns: u64, deadline: Option<u64>, to: Address, message: Message) {
        let me = self.members[node];
        let whom = self.whom(node);
        let now = self.nodes[node].clock.reading_after(pause_ns);
        if deadline.is_some_and(|deadline| now.interval.latest >= deadline) {
            return;
        }
        let Some(life) = &self.nodes[node].life else { return };
        if to.node == me {
            match (to.role, message) {
                (Role::Coordinator(number), Message::Answer(reply)) => life.desk.hear(number, reply),
                (_, message) => {
                    let message = Box::new(message);
                    self.push(pause_ns, whom, Event::Local { from: member::address(me), message });
                }
            }
            return;
        }
        let from = Address { incarnation: life.incarnation, ..member::address(me) };
        self.carry(node, pause_ns, from, to, &message);
    }

    fn carry(&mut self, node: usize, pause_ns: u64, from: Address, to: Address, message: &Message) {
        let bytes = envelope::write_frame(from, to, message);
        let target = index(to.node);
        for delay in self.network.carry(self.now() + pause_ns, node, target, &mut self.rng) {
            let frame = Event::Frame { from: node, to: target, bytes: bytes.clone() };
            self.push(pause_ns + delay, Some(Whom { node: target, life: None }), frame);
        }
    }

    fn arrive(&mut self, sender: usize, node: usize, bytes: &[u8]) {
        self.note(u64::from(crc32fast::hash(bytes)));
        let Some(life) = &self.nodes[node].life else { return };
        let (from, to, message): (Address, Address, Message) = match envelope::read_frame(bytes) {
            Ok(frame) => frame,
            Err(why) => return self.fail(format!("a frame of {} cannot be read: {why}", self.members[sender])),
        };
        if to.incarnation != Incarnation(0) && to.incarnation != life.incarnation {
            return; // For an earlier life.
        }
        match (to.role, message) {
            (Role::Coordinator(number), Message::Answer(reply)) => {
                self.with_desk(node, |desk| desk.0.hear(number, reply))
            }
            (_, message) => self.step(node, |replica, now, out| replica.on_message(now, from, message, out)),
        }
    }

    fn serve(&mut self, node: usize, serve: Serve) {
        let Some(life) = &self.nodes[node].life else { return };
        let Serve { reply_to, id, footing, at, range, reverse, limit_rows, deadline } = serve;
        let reply = match life.space.scan(&range, at, reverse, limit_rows as usize, 1 << 16) {
            Ok(chunk) => Reply::Rows { id, footing, at, rows: chunk.rows, rest: chunk.rest },
            Err(error) => Reply::refused(id, error),
        };
        self.send(node, 0, deadline, reply_to, Message::Answer(reply));
    }

    // ------------------------------------------------------------------------------------------------------ disks

    fn write(&mut self, node: usize) {
        let whom = self.whom(node);
        let there = &mut self.nodes[node];
        let Some(life) = there.life.as_mut().filter(|life| life.wants_to_write()) else { return };
        life.syncing = true;
        self.try_write(node, whom);
    }

    fn try_write(&mut self, node: usize, whom: Option<Whom>) {
        let there = &mut self.nodes[node];
        let Some(life) = &mut there.life else { return };
        match life.write() {
            Ok(true) => {
                life.desk.set_disk_full(false);
                let sync_ns = self.rng.random_range(there.sync_ns / 10..=there.sync_ns);
                self.push(sync_ns, whom, Event::Synced);
            }
            Ok(false) => {
                life.desk.set_disk_full(true);
                life.syncing = false;
                self.push(100 * MS, whom, Event::Write);
            }
            Err(error) => self.fail(format!("{} cannot write its log: {error}", self.members[node])),
        }
    }

    fn synced(&mut self, node: usize) {
        let really = self.options.defect != Some(Defect::SyncLost);
        let Some(life) = &mut self.nodes[node].life else { return };
        life.syncing = false;
        match life.sync(really) {
            Ok(Some(through)) => self.step(node, |replica, now, out| replica.on_durable(now, through, out)),
            Ok(None) => {}
            Err(error) => self.fail(format!("{} cannot sync its log: {error}", self.members[node])),
        }
        self.write(node);
    }

    fn settle(&mut self, node: usize) {
        let whom = self.whom(node);
        let checkpoint = self.rng.random_bool(0.4);
        let there = &mut self.nodes[node];
        let Some(life) = &mut there.life else { return };
        let horizon = Timestamp::end_of(there.clock.reading().interval.earliest.saturating_sub(HISTORY));
        if let Err(error) = life.settle(horizon, checkpoint) {
            return self.fail(format!("{} cannot settle: {error}", self.members[node]));
        }
        let every = self.rng.random_range(50 * MS..500 * MS);
        self.push(every, whom, Event::Settle);
        self.perform(node);
        self.write(node);
    }

    // ------------------------------------------------------------------------------------------------------ whole copies

    fn copy_out(&mut self, node: usize, to: usize, index: Index, tries: u32) {
        let whom = self.whom(node);
        let Some(life) = &self.nodes[node].life else { return };
        match life.whole(index) {
            Ok(Some(copy)) => {
                let position = Index(copy.extent.position);
                let delay = self.rng.random_range(MS..50 * MS);
                let lost = !self.network.open(self.now(), node, to) || self.nodes[to].life.is_none();
                if lost {
                    // Given up after a while: the group begins anew.
                    self.push(3 * S, whom, Event::CopyDone { to, index: Index(0) });
                } else {
                    let receiver = self.whom(to);
                    self.push(delay, receiver, Event::CopyIn { from: node, copy: Some(copy), index: position });
                    self.push(3 * S, whom, Event::CopyDone { to, index: Index(0) });
                }
            }
            Ok(None) if tries < 20 => {
                self.push(100 * MS, whom, Event::CopyOut { to, index, tries: tries + 1 });
            }
            Ok(None) => self.push(0, whom, Event::CopyDone { to, index: Index(0) }),
            Err(error) => self.fail(format!("{} cannot copy: {error}", self.members[node])),
        }
    }

    fn copy_in(&mut self, node: usize, from: usize, copy: Option<Copy>, index: Index) {
        let sender = self.whom(from);
        let there = &mut self.nodes[node];
        let (Some(life), Some(copy)) = (&mut there.life, copy) else { return };
        match member::full(life.take_over(there.clock.reading(), copy)) {
            Ok(false) => {
                *self.struck.entry("whole copy").or_default() += 1;
                self.tell(|| format!("{} goes on from a copy through {}", self.members[node], index.0));
                self.push(MS, sender, Event::CopyDone { to: node, index });
            }
            Ok(true) => {} // No room: the sender gives up, and tries again.
            Err(error) => return self.fail(format!("{} cannot take a copy: {error}", self.members[node])),
        }
        self.perform(node);
    }

    // ------------------------------------------------------------------------------------------------------ faults

    fn next_fault(&mut self) {
        if let Some((after, fault)) = self.nemesis.draw(&mut self.rng, self.nodes.len()) {
            self.push(after, None, Event::Fault(fault));
        }
    }

    fn strike(&mut self, fault: Fault) {
        *self.struck.entry(fault.name()).or_default() += 1;
        self.tell(|| format!("{fault:?}"));
        let now = self.now();
        match fault {
            Fault::Cut { nodes, inward, outward, for_ns } => {
                for a in &nodes {
                    for b in (0..self.nodes.len()).filter(|b| !nodes.contains(b)) {
                        if outward {
                            self.network.cut(*a, b, now + for_ns);
                        }
                        if inward {
                            self.network.cut(b, *a, now + for_ns);
                        }
                    }
                }
                self.push(for_ns, None, Event::Reach);
                self.reach();
            }
            Fault::Weather { loss, repeat, straggle } => {
                (self.network.loss, self.network.repeat, self.network.straggle) = (loss, repeat, straggle);
            }
            Fault::Drift { node, part } => self.nodes[node].clock.set((part * self.half_width_ns as f64) as i64),
            Fault::SlowDisk { node, sync_ns } => self.nodes[node].sync_ns = sync_ns,
            Fault::FullDisk { node, for_ns } => {
                self.nodes[node].disks.0.set_full(true);
                self.nodes[node].disks.1.set_full(true);
                self.push(for_ns, Some(Whom { node, life: None }), Event::Room);
            }
            Fault::Crash { nodes, for_ns } => {
                for node in nodes {
                    let for_ns = for_ns + self.rng.random_range(0..100 * MS);
                    self.crash(node, for_ns);
                }
            }
            Fault::Pause { node, for_ns } => self.nodes[node].paused_until = now + for_ns,
        }
    }

    /// No fault strikes any more, and what struck is repaired.
    fn quiet(&mut self) {
        self.faulty = false;
        self.network.heal();
        for node in 0..self.nodes.len() {
            let there = &mut self.nodes[node];
            there.disks.0.set_full(false);
            there.disks.1.set_full(false);
            (there.sync_ns, there.paused_until) = (2 * MS, 0);
            self.push(0, Some(Whom { node, life: None }), Event::Boot);
        }
        self.reach();
    }

    // ------------------------------------------------------------------------------------------------------ clients

    fn begin(&mut self, client: usize) {
        if !self.open || self.clients[client].attempt.is_some() {
            return;
        }
        let living: Vec<usize> = (0..self.nodes.len()).filter(|node| self.nodes[*node].life.is_some()).collect();
        let Some(first) = living.first() else { return self.push(50 * MS, None, Event::Begin(client)) };
        let own = self.favourite.unwrap_or(self.clients[client].node);
        let stay = living.contains(&own) && !self.rng.random_bool(0.1);
        let node = if stay { own } else { living[self.rng.random_range(0..living.len())].max(*first) };
        let Some(life) = &self.nodes[node].life else { return };
        let reader = self.is_reader(client);
        let past: Vec<Timestamp> = self.recent.iter().copied().collect();
        let plan = client::plan(&mut self.rng, reader, self.keys, &mut self.next_element, &past);
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (gateway, desk) = (Arc::clone(&life.gateway), life.gateway.site().clone());
        self.begun += usize::from(!reader);
        let start = self.time.now();
        let there = &mut self.clients[client];
        (there.node, there.mode, there.start) = (node, plan.mode, start);
        there.seen = Arc::clone(&seen);
        there.attempt = Some(Box::pin(client::attempt(gateway, desk, plan, seen)));
        self.poll(client);
    }

    fn with_desk(&mut self, node: usize, step: impl FnOnce(&Handle)) {
        if let Some(life) = &self.nodes[node].life {
            step(life.gateway.site());
            self.grant(node);
        }
    }

    /// Those who were woken go on.
    fn poll_ready(&mut self) {
        loop {
            let next = self.ready.lock().pop_front();
            let Some(client) = next else { return };
            self.poll(client);
        }
    }

    fn poll(&mut self, client: usize) {
        let node = self.clients[client].node;
        let until = self.nodes[node].paused_until;
        if until > self.now() {
            return self.push_at(until, None, Event::Poll(client));
        }
        let there = &mut self.clients[client];
        let Some(attempt) = &mut there.attempt else { return };
        let waker = Waker::from(Arc::new(Ready { client, queue: Arc::clone(&self.ready) }));
        let ended = attempt.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(());
        if ended {
            there.attempt = None;
            self.record(client);
        }
        self.grant(node);
    }

    /// What coordinators of a node have asked for.
    fn grant(&mut self, node: usize) {
        while let Some(life) = &self.nodes[node].life {
            let wishes = life.desk.wishes();
            if wishes.is_empty() {
                return;
            }
            let (me, incarnation, whom) = (self.members[node], life.incarnation, self.whom(node));
            for wish in wishes {
                match wish {
                    Wish::Alarm(at, key) => {
                        let when = self.nodes[node].clock.when(at);
                        self.push_at(when, whom, Event::Alarm(key));
                    }
                    Wish::Ask(to, request) => {
                        let role = Role::Coordinator(request.transaction.number);
                        let from = Address { incarnation, role, ..member::address(me) };
                        let message = Message::Ask(request);
                        if to == me {
                            self.step(node, |replica, now, out| replica.on_message(now, from, message, out));
                        } else {
                            self.carry(node, 0, from, member::address(to), &message);
                        }
                    }
                }
            }
        }
    }

    /// Writes down what became of a client's transaction, and lets it begin another.
    fn record(&mut self, client: usize) {
        let there = &mut self.clients[client];
        let seen = std::mem::take(&mut *there.seen.lock());
        let unknown = if seen.committing { Status::Info } else { Status::Fail };
        let (status, at) = seen.ended.unwrap_or((unknown, None));
        if let Some(why) = seen.why {
            *self.failures.entry(why).or_default() += 1;
        }
        there.committed += usize::from(status == Status::Ok);
        let (start, mode, node) = (there.start, there.mode, there.node);
        self.tell(|| {
            let node = self.members[node];
            format!("client {client} at {node}: {status:?} {at:?} {mode:?} since {start}: {:?}", seen.ops)
        });
        if let (Some((nanos, logical, issuer)), Mode::ReadWrite) = (at, mode) {
            self.recent.push_back(Timestamp { nanos, logical, issuer });
            if self.recent.len() > 20 {
                self.recent.pop_front();
            }
        }
        match mode {
            _ if seen.ops.is_empty() => {}
            Mode::ReadOnly(ReadAt::Exact(at)) if status == Status::Ok => self.past.push((at, seen.ops)),
            Mode::ReadOnly(ReadAt::Exact(_)) => {}
            _ => {
                let end = self.now();
                self.history.push(Transaction { client: client as u64, start, end, status, at, ops: seen.ops });
            }
        }
        let pace_ns = match self.is_reader(client) {
            false => 20 * MS,
            true if self.rng.random_bool(0.2) => 3 * S, // Long enough to come back to a leader that was left meanwhile.
            true => 100 * MS,
        };
        let after = self.rng.random_range(0..pace_ns);
        self.push(after, None, Event::Begin(client));
    }

    /// One client at each node writes; the others mostly read.
    fn is_reader(&self, client: usize) -> bool {
        client >= self.nodes.len()
    }

    // ------------------------------------------------------------------------------------------------------ the end

    /// Everybody went home, no lock is held, and everybody knows as much.
    fn is_at_rest(&self) -> bool {
        let lives: Vec<&Life> = self.nodes.iter().filter_map(|node| node.life.as_ref()).collect();
        lives.len() == self.nodes.len()
            && self.clients.iter().all(|client| client.attempt.is_none())
            && lives.iter().all(|life| life.replica.locks().is_empty() && life.late.is_empty())
            && lives.iter().all(|life| {
                let (group, first) = (life.replica.group(), lives[0].replica.group());
                group.commit_index() == first.commit_index() && group.last_index() == group.commit_index()
            })
    }

    fn what_is_left(&self) -> String {
        let attempts = self.clients.iter().filter(|client| client.attempt.is_some()).count();
        let of = |node: &Node| match &node.life {
            None => "down".to_owned(),
            Some(life) => {
                let group = life.replica.group();
                let locks = life.replica.locks().owners().count();
                format!("{} of {} agreed, {locks} hold locks", group.commit_index().0, group.last_index().0)
            }
        };
        let nodes: Vec<String> = self.nodes.iter().map(of).collect();
        format!("{attempts} transactions; {}", nodes.join("; "))
    }

    /// All copies hold what was installed, at the end of it.
    fn copies_are_equal(&self) -> Result<(), String> {
        let Some((last, _)) = self.installed.last_key_value() else { return Err("nothing was committed".into()) };
        let mut expected: BTreeMap<String, Value> = BTreeMap::new();
        for write in self.installed.values().flatten() {
            let key = String::from_utf8_lossy(write.key.as_ref()).into_owned();
            match client::value(&key, write.value.as_ref().map(|stored| stored.as_ref())) {
                Value::Nothing => drop(expected.remove(&key)),
                value => drop(expected.insert(key, value)),
            }
        }
        for (node, there) in self.nodes.iter().enumerate() {
            let Some(life) = &there.life else { continue };
            let all = life.space.scan(&KeyRange::all(), *last, false, usize::MAX, usize::MAX);
            let rows = all.map_err(|error| format!("{} cannot be read: {error}", self.members[node]))?.rows;
            let found: BTreeMap<String, Value> = rows
                .iter()
                .map(|(key, stored)| {
                    let key = String::from_utf8_lossy(key.as_ref()).into_owned();
                    let value = client::value(&key, Some(stored.as_ref()));
                    (key, value)
                })
                .collect();
            if found != expected {
                return Err(format!("{} holds {found:?}, and {expected:?} was installed", self.members[node]));
            }
        }
        Ok(())
    }
}
