//! The world: a queue of events, ordered by virtual time, each of which may schedule others.
//!
//! 1. All random choices come from one seed, and nothing depends on an address, a hash order or
//!    real time.
//! 2. A message is encoded when it is sent and decoded when it arrives, as between servers.
//! 3. Timers, disk writes in progress and sessions belong to one incarnation of a node, and are
//!    discarded when it ends. Messages in the network are not.

use crate::anomalies::Found;
use crate::bounds::Draw;
use crate::client::Seen;
use crate::clock::{Answer, NodeClock, TrueTime};
use crate::faults::{Fault, Nemesis};
use crate::network::Network;
use crate::node::{self, Key};
use crate::node_process::NodeProcess;
use crate::profile::{DiskWait, Profile};
use crate::retention::Retention;
use crate::sim_protocol::{MessageOf, RequestRouter, SimProtocol};
use crate::verdict::{Installed, Past};
use crate::zipf::Zipf;
use crate::{Defect, Faults, Options, Report, Timebase};
use meridian_clock::Timestamp;
use meridian_clock::question::Poll;
use meridian_history::Transaction;
use meridian_log::MemoryDisk;
use meridian_machine::{Address, Incarnation, NodeId, ShardId};
use meridian_placement::{DiskId, Greeting, PeerIdentities};
use meridian_txn::{Consistency, Mode};
use order::{Asked, Chain};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Wake;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// The virtual time at which runs begin, in nanoseconds since 1970.
const BEGINNING: u64 = 1_700_000_000 * S;
/// An upper bound of the duration of the fault phase.
const FAULTS_END: u64 = 120 * S;
/// The time after the last fault within which every client must make progress, at least.
const LIVENESS: u64 = 30 * S;
/// The number of transactions that each client must commit within that time.
const EACH: usize = 8;
/// The round trips of a transaction over a contested key with a replica lost, at most: to get its
/// lock or turn, for its read, for its commit, and for the quorum that confirms it.
const ROUND_TRIPS: u64 = 4;
/// The largest offset of a lying clock from true time: several leases.
const LIE: u64 = 2 * S;
/// The wait of a sync for a disk without faults.
const DISK: DiskWait = DiskWait::UpTo(2 * MS);
/// The time that a node has to transfer its leaderships before an orderly shutdown.
const HAND_OVER_TIMEOUT: u64 = S;
/// The factor by which the key space grows where transactions are not to conflict.
const MANY_KEYS: u32 = 20_000;
/// Derives from the seed the generator of membership changes.
const MOVERS: u64 = 0x6d6f_7665_6d65_6e74;
/// Derives from the seed the generator of the idle timeouts of shards.
const IDLERS: u64 = 0x6964_6c65_6964_6c65;
/// Derives from the seed the generator of the members' retention.
const KEEPERS: u64 = 0x6b65_6570_6b65_6570;
/// The default idle times after which a leader closes timestamps, and after which a shard quiesces.
const IDLE_AFTER: (u64, u64) = (8 * S, 20 * S);
/// Derives from the seed the generator that picks the nodes that crash at a step.
const KILLERS: u64 = 0x6b69_6c6c_6174_6974;
/// The number of nodes that crash at a step, one after the other.
const KILLS: u32 = 6;
/// The age up to which old versions are kept.
const HISTORY: u64 = 4 * S;

mod corruption;
mod disks;
mod ending;
mod fault_injection;
mod frames;
mod greeting;
mod nodes;
mod offered;
mod one_by_one;
pub mod order;
mod processor;
mod qwstore;
mod scenario;
mod sessions;
mod shard;
mod sleeping;
mod tapir;
mod timing;
mod watching;

enum Event<R: SimProtocol> {
    Frame {
        from: usize,
        to: usize,
        /// The disk of the sender.
        disk: DiskId,
        bytes: Vec<u8>,
    },
    /// Sends greetings to all other nodes.
    Greet,
    /// Polls all other nodes for the time.
    AskTime,
    TimeRequest {
        from: usize,
        disk: DiskId,
        poll: Poll,
    },
    TimeAnswer {
        from: usize,
        disk: DiskId,
        answer: Answer,
    },
    Greeting {
        from: usize,
        greeting: Greeting,
        answers: bool,
    },
    /// A message from a replica to another of its node. Boxed: most events are small.
    Local {
        from: Address,
        to: ShardId,
        message: Box<MessageOf<R>>,
    },
    /// Fires the timers of a shard's replica that are due.
    Wake(ShardId),
    Write,
    Synced,
    Flush,
    /// An event of the protocol.
    Of(R::ProtocolEvent),
    Alarm(Key),
    Boot,
    Room,
    Reach,
    Fault(Fault),
    /// Sets a clock to an offset of up to `reach_ns`, repeatedly until `until`, then corrects it.
    Strobe {
        reach_ns: u64,
        until: u64,
    },
    /// Corrects a clock.
    Right,
    /// Draws the error bound of all clocks again, in scenarios.
    ErrorBound,
    /// Shuts a node down in order, once it has transferred its leaderships or at `until`.
    End {
        for_ns: u64,
        until: u64,
    },
    /// Cuts the power of a node.
    Crash {
        for_ns: u64,
    },
    /// Continues the work that waits for a node's processor.
    Free,
    /// Wakes a node that slept, if its sleep is over.
    Rouse,
    Begin(usize),
    Poll(Task),
}

/// The node that an event is for; `incarnation` restricts it to one incarnation.
#[derive(Clone, Copy)]
struct EventTarget {
    node: usize,
    incarnation: Option<Incarnation>,
}

struct Node<R: SimProtocol> {
    clock: Arc<NodeClock>,
    /// True if the clock had a bounded reading when it was last checked.
    knows_time: bool,
    disks: (MemoryDisk, MemoryDisk),
    incarnation: Incarnation,
    /// The peers that the node has met, as durable as it reports them.
    peer_identities: PeerIdentities,
    process: Option<NodeProcess<R>>,
    paused_until: u64,
    asleep: Option<sleeping::Asleep<R>>,
    disk: DiskWait,
    /// A slow processor: the duration of each step, and the time until which it applies.
    slow: (u64, u64),
    /// The time until which the processor is busy; events for the node queue until then.
    busy_until: u64,
    /// The total time for which the processor was busy.
    spent_ns: u64,
    inbox: VecDeque<(Option<EventTarget>, Event<R>)>,
    /// The clock's uncertainty after the last answer of a time master; measured in scenarios only.
    unsure_ns: Option<u64>,
}

struct Client {
    node: usize,
    attempt: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    seen: Arc<Mutex<Seen>>,
    mode: Mode,
    mark: Option<i64>,
    /// True if the transaction began while faults were on.
    faulty: bool,
    start: u64,
    /// The order that its transaction asks for, and the chain of its transactions.
    asked: Asked,
    chain: Chain,
    /// In a scenario, the time at which the next transaction is to begin.
    due: u64,
    committed: usize,
}

/// A future that the world polls: a client's transaction, or a background task of a node.
#[derive(Clone, Copy)]
enum Task {
    Client(usize),
    BackgroundTask { node: usize, number: u64 },
}

/// A waker that enqueues its task; the world polls it after the current event.
struct Ready {
    task: Task,
    queue: Arc<Mutex<VecDeque<Task>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.queue.lock().push_back(self.task);
    }
}

/// The nodes of one run, their clients, and everything that happens to them.
pub struct World<R: SimProtocol> {
    options: Options,
    rng: ChaCha8Rng,
    time: TrueTime,
    half_width_ns: u64,
    queue: BTreeMap<(u64, u64), (Option<EventTarget>, Event<R>)>,
    pushed: u64,
    nodes: Vec<Node<R>>,
    members: Vec<NodeId>,
    network: Network,
    nemesis: Nemesis,
    clients: Vec<Client>,
    /// The consistency modes that clients use.
    modes: Vec<Consistency>,
    ready: Arc<Mutex<VecDeque<Task>>>,
    /// The number of background tasks started so far.
    background_tasks: u64,
    /// The node that all clients connect to, if drawn or set.
    favourite: Option<usize>,
    keys: u32,
    lease_ns: u64,
    /// The idle times after which a leader closes timestamps, and after which a shard quiesces.
    idle_after_ns: (u64, u64),
    /// The amount of state that group members retain after transactions end.
    retention: Retention,
    /// The Zipf distribution of keys, in scenarios that use one.
    zipf: Option<Zipf>,
    next_element: i64,
    /// The number of rows that a scenario's sessions have begun to insert.
    inserted: u32,
    begun: usize,
    /// True while clients begin new transactions; `faulty` is true while faults are applied.
    open: bool,
    faulty: bool,
    /// True in scripted worlds, where nothing is drawn that a script does not say.
    scripted: bool,
    history: Vec<Transaction>,
    /// The mark of each transaction of `history`, if it has one.
    marks: Vec<Option<i64>>,
    /// The consistency mode of each transaction of `history`.
    modes_of: Vec<Consistency>,
    /// Reads in mode `none`: they need not be of one moment, and have no place in `history`.
    reads_apart: Vec<Transaction>,
    /// The timestamps that leaders drew, each once.
    draws: Vec<Draw>,
    /// The newest timestamp that each issuer drew.
    newest_draws: BTreeMap<u32, Timestamp>,
    /// The anomalies that modes allow, by kind.
    anomalies: Found,
    past: Vec<Past>,
    recent: VecDeque<Timestamp>,
    installed: Installed,
    /// The highest shard number allocated so far.
    shards_born: u32,
    /// Draws membership changes; `moves` is true if there are any. A separate generator, so that
    /// runs without them draw the same as before.
    movers: ChaCha8Rng,
    moves: bool,
    catalog: R::Catalog,
    /// Draws the nodes that crash at a step; `kills` is the number of crashes left.
    killers: ChaCha8Rng,
    kills: u32,
    watch: watching::Watch,
    /// The clients' measurements.
    measured: Profile,
    measured_since: u64,
    /// The start of a scenario's priming writes, and the number of its groups that were led on the
    /// intended node then.
    primed_since: u64,
    well_led: u32,
    /// Nodes whose disks were corrupted: a minority.
    corrupted: BTreeMap<usize, corruption::Part>,
    /// Nodes that never come back: those that detected their corruption, and those lost for good.
    gone: BTreeSet<usize>,
    disks_born: u64,
    /// The number of faults drawn.
    drawn: u64,
    struck: BTreeMap<&'static str, u64>,
    /// The number of each kind of change: splits, membership changes and others.
    changed: BTreeMap<&'static str, u64>,
    faulty_transactions: (u64, u64),
    quiet_transactions: (u64, u64),
    failures: BTreeMap<String, u64>,
    violation: Option<String>,
    trace: u64,
    events: u64,
}

fn index(node: NodeId) -> usize {
    node.0 as usize - 1
}

impl<R: SimProtocol> World<R> {
    /// Draws the nodes, the network and the faults from the seed of `options`.
    pub fn new(options: Options) -> World<R> {
        let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
        let movers = ChaCha8Rng::seed_from_u64(options.seed ^ MOVERS);
        let mut idlers = ChaCha8Rng::seed_from_u64(options.seed ^ IDLERS);
        let quiesce_ns =
            if idlers.random_bool(0.5) { idlers.random_range(20 * MS..S) } else { IDLE_AFTER.1 };
        let idle_after_ns = (idlers.random_range(50 * MS..IDLE_AFTER.0), quiesce_ns);
        let retention = match options.profile {
            Some(_) => Retention::LONG,
            None => Retention::draw(&mut ChaCha8Rng::seed_from_u64(options.seed ^ KEEPERS)),
        };
        let time = TrueTime::at(BEGINNING);
        let half_width_ns = rng.random_range(100_000..8 * MS);
        let node = |rng: &mut ChaCha8Rng| {
            let booted = BEGINNING - rng.random_range(1..1_000 * S);
            let mut clock = NodeClock::new(time.clone(), booted, half_width_ns);
            match options.timebase {
                Timebase::Bound => {}
                Timebase::Cluster => {
                    clock = clock.asking(false, rng.random_range(-50_000..=50_000));
                    // Long unsynchronized, and so up to half a second off.
                    clock.set(rng.random_range(-(MS as i64) * 500..MS as i64 * 500));
                }
                Timebase::Masters => {
                    clock = clock.asking(true, rng.random_range(-150_000..=150_000))
                }
            }
            if options.defect == Some(Defect::ClockLies) {
                clock.claim(0);
            }
            if options.faults.clock && options.timebase != Timebase::Cluster {
                clock.set((rng.random_range(-1.0..=1.0) * half_width_ns as f64) as i64);
            }
            Node {
                clock: Arc::new(clock),
                knows_time: false,
                disks: (MemoryDisk::new(), MemoryDisk::new()),
                incarnation: Incarnation(0),
                peer_identities: PeerIdentities::of_new_disk(DiskId(0)),
                process: None,
                paused_until: 0,
                asleep: None,
                disk: DISK,
                slow: (0, 0),
                busy_until: 0,
                spent_ns: 0,
                inbox: VecDeque::new(),
                unsure_ns: None,
            }
        };
        let mut nodes: Vec<Node<R>> = (0..options.nodes).map(|_| node(&mut rng)).collect();
        for (number, node) in nodes.iter_mut().enumerate() {
            node.peer_identities = PeerIdentities::of_new_disk(DiskId(number as u64));
        }
        let client = |number: usize| Client {
            node: number % options.nodes,
            attempt: None,
            seen: Arc::default(),
            mode: Mode::ReadWrite,
            mark: None,
            faulty: false,
            start: 0,
            asked: Asked::default(),
            chain: Chain::default(),
            due: 0,
            committed: 0,
        };
        World {
            network: Network::new(options.nodes, options.regions, &mut rng),
            nemesis: Nemesis::new(&mut rng, &options),
            members: (1..=options.nodes as u32).map(NodeId).collect(),
            clients: (0..options.clients).map(client).collect(),
            modes: World::<R>::drawn_modes(options.protocol.row.consistency, &mut rng),
            favourite: options
                .favourite
                .or_else(|| rng.random_bool(0.15).then(|| rng.random_range(0..options.nodes)))
                .filter(|_| options.profile.is_none()),
            keys: rng.random_range(2..8) * if options.profile.is_some() { MANY_KEYS } else { 1 },
            // A lease outlasts several round trips.
            lease_ns: (rng.random_range(400..4_000) * MS).max(10 * options.regions.farthest_ns()),
            idle_after_ns: if options.profile.is_some() { IDLE_AFTER } else { idle_after_ns },
            retention,
            disks_born: options.nodes as u64,
            options,
            rng,
            time,
            half_width_ns,
            queue: BTreeMap::new(),
            pushed: 0,
            nodes,
            ready: Arc::default(),
            background_tasks: 0,
            zipf: options
                .scenario
                .and_then(|scenario| scenario.work.zipf())
                .map(|(keys, exponent)| Zipf::of(keys, exponent)),
            next_element: 0,
            inserted: 0,
            begun: 0,
            open: true,
            scripted: false,
            faulty: options.faults != Faults::NONE,
            history: Vec::new(),
            marks: Vec::new(),
            modes_of: Vec::new(),
            reads_apart: Vec::new(),
            draws: Vec::new(),
            newest_draws: BTreeMap::new(),
            anomalies: Found::new(),
            past: Vec::new(),
            recent: VecDeque::new(),
            installed: Installed::new(),
            shards_born: 0,
            movers,
            moves: false,
            catalog: R::Catalog::default(),
            killers: ChaCha8Rng::seed_from_u64(options.seed ^ KILLERS),
            kills: if options.kill_at.is_some() { KILLS } else { 0 },
            watch: watching::Watch::default(),
            measured: Profile::default(),
            measured_since: 0,
            primed_since: 0,
            well_led: 0,
            corrupted: BTreeMap::new(),
            gone: BTreeSet::new(),
            drawn: 0,
            struck: BTreeMap::new(),
            changed: BTreeMap::new(),
            faulty_transactions: (0, 0),
            quiet_transactions: (0, 0),
            failures: BTreeMap::new(),
            violation: None,
            trace: 0xcbf2_9ce4_8422_2325,
            events: 0,
        }
    }

    /// Schedules the first boot of all nodes.
    fn raise_nodes(&mut self) {
        for node in 0..self.nodes.len() {
            self.push(0, Some(EventTarget { node, incarnation: None }), Event::Boot);
            if self.options.defect == Some(Defect::ClockLies) {
                self.push(
                    0,
                    Some(EventTarget { node, incarnation: None }),
                    Event::Strobe { reach_ns: LIE, until: u64::MAX },
                );
            }
        }
        self.push(0, None, Event::Reach);
    }

    /// Runs the faults, the quiet and the end, and judges what clients saw.
    pub fn run(mut self) -> Report {
        self.raise_nodes();
        for client in 0..self.clients.len() {
            self.push(client as u64 * MS, None, Event::Begin(client));
        }
        if let Some((costs, seconds)) = self.options.profile {
            self.until(0, |_| false); // Runs all events that are due at the start.
            self.exchange_identities();
            self.measure(costs, seconds);
            return self.report();
        }
        R::plan(&mut self);
        self.next_fault();
        let enough = self.options.transactions;
        self.until(FAULTS_END, |world| world.begun >= enough);
        self.quiet();
        let before: Vec<usize> = self.clients.iter().map(|client| client.committed).collect();
        let liveness_ns = self.liveness_ns();
        let got_on = |world: &World<R>| {
            world
                .clients
                .iter()
                .zip(&before)
                .all(|(client, before)| client.committed >= before + EACH)
        };
        if !self.until(liveness_ns, got_on) {
            let stuck = self
                .clients
                .iter()
                .zip(&before)
                .position(|(client, before)| client.committed < before + EACH);
            self.fail(format!(
                "client {stuck:?} did not make progress within {} s after the last fault",
                liveness_ns / S
            ));
        }
        self.open = false;
        let mut rested = BTreeSet::new();
        if !self.until(LIVENESS, |world| world.is_at_rest(&mut rested)) {
            let what = self.what_is_left();
            self.fail(format!("work is left {} s after the clients stopped: {what}", LIVENESS / S));
        }
        R::conclude(&mut self);
        // Also judges a world that failed: it gives the writes of unknown outcome in its history
        // the timestamps at which they were installed.
        let verdict = R::judge(&mut self);
        self.violation = self.violation.take().or(verdict.err());
        self.report()
    }

    /// Returns the time after the last fault within which every client must make progress: long
    /// enough that all their transactions can commit one after the other over the longest distance.
    ///
    /// Liveness is judged, and not throughput. Where every transaction writes one key, they cannot
    /// commit other than one by one, and over continents a round trip takes 0.26 s. Round trips of
    /// up to 90 ms leave [`LIVENESS`] as it is.
    fn liveness_ns(&self) -> u64 {
        let transactions = (self.clients.len() * EACH) as u64;
        LIVENESS.max(transactions * ROUND_TRIPS * self.options.regions.farthest_ns())
    }

    fn report(self) -> Report {
        Report {
            seed: self.options.seed,
            virtual_ns: self.now() - BEGINNING,
            verdict: self
                .violation
                .map_or(Ok(()), |why| Err(format!("seed {}: {why}", self.options.seed))),
            history: self.history,
            faults: self.struck,
            changes: self.changed,
            anomalies: self.anomalies,
            reached: BTreeMap::new(),
            faulty: self.faulty_transactions,
            quiet: self.quiet_transactions,
            failures: self.failures,
            profile: self.options.profile.map(|_| self.measured),
            leader: self.nodes.iter().position(|node| {
                node.process.as_ref().is_some_and(|process| !R::led(process).is_empty())
            }),
            trace_hash: self.trace,
            events: self.events,
        }
    }

    fn now(&self) -> u64 {
        self.time.now()
    }

    /// Writes a line to the trace; builds it only if a trace is wanted.
    fn log(&self, line: impl FnOnce() -> String) {
        if let Some(log) = self.options.log {
            log(&format!("{:>12.6} s  {}", (self.now() - BEGINNING) as f64 / S as f64, line()));
        }
    }

    fn fail(&mut self, why: String) {
        self.violation.get_or_insert(why);
    }

    fn push(&mut self, after_ns: u64, target: Option<EventTarget>, event: Event<R>) {
        self.pushed += 1;
        self.queue.insert((self.now() + after_ns, self.pushed), (target, event));
    }

    fn push_at(&mut self, at: u64, target: Option<EventTarget>, event: Event<R>) {
        self.push(at.saturating_sub(self.now()), target, event);
    }

    fn target(&self, node: usize) -> Option<EventTarget> {
        Some(EventTarget {
            node,
            incarnation: self.nodes[node].process.as_ref().map(|process| process.incarnation),
        })
    }

    /// Runs events until `holds` is true. Returns false if it did not become true within
    /// `within_ns`, or if a violation was found.
    fn until(&mut self, within_ns: u64, mut holds: impl FnMut(&World<R>) -> bool) -> bool {
        let end = self.now() + within_ns;
        while self.violation.is_none() && !holds(self) {
            let Some(((at, _), (target, event))) = self.queue.pop_first() else { return false };
            if at > end {
                self.push_at(at, target, event);
                return false;
            }
            self.time.advance(at);
            self.on_event(target, event);
            self.poll_ready();
        }
        self.violation.is_none()
    }

    fn note(&mut self, number: u64) {
        for byte in number.to_be_bytes() {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// True if the node is still in the incarnation that the event is for.
    fn is_there(&self, target: Option<EventTarget>) -> bool {
        target.is_none_or(|EventTarget { node, incarnation }| {
            incarnation.is_none()
                || incarnation
                    == self.nodes[node].process.as_ref().map(|process| process.incarnation)
        })
    }

    fn on_event(&mut self, target: Option<EventTarget>, event: Event<R>) {
        if !self.is_there(target) {
            return;
        }
        // Events that act on a node from outside, and happen even while it is paused.
        let done_to = matches!(
            event,
            Event::Boot
                | Event::Crash { .. }
                | Event::Room
                | Event::Strobe { .. }
                | Event::Right
                | Event::Free
                | Event::Rouse
        );
        let Some(EventTarget { node, .. }) = target.filter(|_| !done_to) else {
            return self.take_place(target, event);
        };
        let Some(event) = self.outsleeps(target, event) else { return };
        let until = self.nodes[node].paused_until;
        if until > self.now() {
            // A paused node resumes its events in any order: a session may run before the timer
            // that would have stopped it.
            let after = self.rng.random_range(0..5 * MS);
            return self.push_at(until + after, target, event);
        }
        if let Some(event) = self.queues(node, target, event) {
            self.take_place(target, event);
        }
    }

    fn take_place(&mut self, target: Option<EventTarget>, event: Event<R>) {
        if let Some(EventTarget { node, .. }) = target {
            self.work(node, &event);
        }
        self.events += 1;
        self.note(self.now());
        let node = target.map_or(0, |target| target.node);
        self.note(node as u64);
        match event {
            Event::Frame { from, to, disk, bytes } => self.arrive(from, to, disk, &bytes),
            Event::Greet => self.greet(node),
            Event::AskTime => self.ask_time(node),
            Event::TimeRequest { from, disk, poll } => self.on_time_request(node, from, disk, poll),
            Event::TimeAnswer { from, disk, answer } => {
                self.on_time_answer(node, from, disk, answer)
            }
            Event::Greeting { from, greeting, answers } => self.meet(node, from, greeting, answers),
            Event::Local { from, to, message } => self.deliver(node, from, to, *message),
            Event::Wake(shard) => self.wake_member(node, shard),
            Event::Write => self.write(node),
            Event::Synced => self.synced(node),
            Event::Flush => self.flush(node),
            Event::Of(event) => R::on_event(self, node, event),
            Event::Alarm((node::SLEEP, number)) => {
                self.with_router(node, |router| router.node().wake(number))
            }
            Event::Alarm(key) => self.with_router(node, |router| router.alarm(key)),
            Event::Boot => self.boot(node),
            Event::Room => {
                self.nodes[node].disks.0.set_full(false);
                self.nodes[node].disks.1.set_full(false);
            }
            Event::Reach => self.reach(),
            Event::Fault(fault) if self.options.scenario.is_some() => self.inject_fault(fault),
            Event::Fault(fault) => {
                if self.faulty {
                    let place = self.drawn;
                    self.drawn += 1;
                    if self.options.strikes.is_none_or(|(from, to)| (from..to).contains(&place)) {
                        self.inject_fault(fault);
                    }
                    self.next_fault();
                }
            }
            Event::Strobe { reach_ns, until } => {
                let part = self.rng.random_range(-1.0..=1.0);
                self.nodes[node].clock.set((part * reach_ns as f64) as i64);
                if self.faulty && self.now() < until {
                    let after = if until == u64::MAX {
                        300 * MS
                    } else {
                        self.rng.random_range(MS..50 * MS)
                    };
                    self.push(after, target, Event::Strobe { reach_ns, until });
                } else {
                    self.set_right(node);
                }
            }
            Event::Right => self.set_right(node),
            Event::ErrorBound => self.draw_error_bound(),
            Event::End { for_ns, until } => self.end(node, for_ns, until),
            Event::Crash { for_ns } => self.crash(node, for_ns),
            Event::Free => self.free(node),
            Event::Rouse => self.rouse(node),
            Event::Begin(client) => self.begin(client),
            Event::Poll(task) => self.go_on_with(task),
        }
    }
}
