//! Inconsistent replication in small random simulations: messages are lost, repeated and late,
//! replicas crash between a write and its sync, views change, clients fail.
//!
//! Checked: a result that a client received is in every later view and at every replica in the end;
//! a view begins with the same record at every replica; no lock has two holders; and when the
//! faults are over, every client is answered.

mod locks;

use locks::{Lock, Locks, MET_AT_RANDOM, Unlock};
use meridian_machine::planted::plant;
use meridian_machine::{
    Address, DatabaseId, Effect, Incarnation, Interval, Machine, NodeId, Outbox, Position, Reading,
    Role, ShardId,
};
use meridian_replication::inconsistent::{
    Config, Entry, Invocation, LogRecord, Message, Op, OpId, Replica, ReplicaSet, State, Timer,
    View,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};

const MS: u64 = 1_000_000;
/// The faults end at the first time, and every client is to be answered by the second.
const FAULTS_END: u64 = 4_000 * MS;
const END: u64 = 12_000 * MS;

type Said = Message<Unlock, Lock, bool>;
type Disk = LogRecord<Unlock, Lock, bool>;

enum Event {
    Deliver {
        to: Address,
        from: Address,
        said: Said,
    },
    Synced {
        replica: usize,
        incarnation: u32,
        through: Position,
    },
    Timer {
        replica: usize,
        incarnation: u32,
        timer: Timer,
        armed: u64,
    },
    Client {
        client: usize,
        turn: u64,
    },
    Crash {
        replica: usize,
    },
    Restart {
        replica: usize,
    },
    ChangeView {
        replica: usize,
    },
    /// The replica is lost for good.
    Lose {
        replica: usize,
    },
    /// The replicas of the shard change.
    Reconfigure,
    /// The replica learns the present members.
    Hears {
        replica: usize,
    },
}

#[derive(Default)]
struct TestReplica {
    replica: Option<Replica<Locks>>,
    out: Outbox<Replica<Locks>>,
    incarnation: u32,
    disk: Vec<Disk>,
    writing: Vec<(Position, Disk)>,
    /// The locks that were returned here, in the store, which survives crashes.
    unlocked: BTreeSet<OpId>,
    /// True if it never comes back.
    lost: bool,
    timers: BTreeMap<Timer, u64>,
}

/// The operation of a client.
enum Doing {
    Locks { name: u8 },
    Unlocks { lock: OpId },
}

struct Client {
    number: u64,
    doing: Doing,
    id: OpId,
    /// The members that the client knows.
    members: ReplicaSet,
    heard: Invocation<bool>,
    /// The decided result that is being sent.
    tells: Option<bool>,
    turn: u64,
    began: u64,
    left: u32,
    dead: bool,
}

struct World {
    now: u64,
    rng: ChaCha8Rng,
    events: BTreeMap<(u64, u64), Event>,
    counter: u64,
    /// The members that were decided last, and the first ones.
    members: ReplicaSet,
    first: BTreeSet<NodeId>,
    homes: Vec<TestReplica>,
    clients: Vec<Client>,
    /// The number of locks; with few, clients conflict often.
    locks: u8,
    /// The results that clients received: the lock, or none for an unlock, and the result.
    told: BTreeMap<OpId, (Option<u8>, Option<bool>)>,
    /// Locks whose return was confirmed to clients.
    given_back: BTreeSet<OpId>,
    /// The holder of each lock, as clients know it.
    held: BTreeMap<u8, OpId>,
    began: BTreeMap<View, BTreeMap<OpId, (Op<Unlock, Lock>, State<bool>)>>,
    wrong: Option<String>,
    fast: u32,
    slow: u32,
}

fn node(at: usize) -> NodeId {
    NodeId(at as u32 + 1)
}

fn asked(members: &ReplicaSet) -> Invocation<bool> {
    Invocation::new(members.epoch, members.enough().expect("the number of replicas is odd"))
}

fn of_client(at: usize) -> Address {
    Address {
        node: NodeId(100 + at as u32),
        incarnation: Incarnation(1),
        database: DatabaseId(1),
        shard: ShardId(0),
        role: Role::Coordinator(0),
    }
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let replicas = if rng.random_bool(0.5) { 3 } else { 5 };
        let locks = rng.random_range(1..4);
        let mut world = World {
            now: MS,
            rng,
            events: BTreeMap::new(),
            counter: 0,
            members: ReplicaSet::first((0..replicas).map(node).collect()),
            first: (0..replicas).map(node).collect(),
            homes: (0..replicas).map(|_| TestReplica::default()).collect(),
            clients: Vec::new(),
            locks,
            told: BTreeMap::new(),
            given_back: BTreeSet::new(),
            held: BTreeMap::new(),
            began: BTreeMap::new(),
            wrong: None,
            fast: 0,
            slow: 0,
        };
        (0..replicas).for_each(|at| world.boot(at));
        for at in 0..world.rng.random_range(3..7) {
            let id = OpId { node: 100 + at as u32, incarnation: 1, number: 0 };
            let members = world.members.clone();
            let heard = asked(&members);
            let doing = Doing::Locks { name: 0 };
            world.clients.push(Client {
                number: 0,
                doing,
                id,
                members,
                heard,
                tells: None,
                turn: 0,
                began: 0,
                left: 40,
                dead: false,
            });
            world.begin(at, Doing::Locks { name: 0 });
        }
        for _ in 0..world.rng.random_range(2..12) {
            let (at, replica) =
                (world.rng.random_range(0..FAULTS_END), world.rng.random_range(0..replicas));
            world.push_at(at, Event::Crash { replica });
        }
        if world.rng.random_bool(0.2) {
            let (at, replica) =
                (world.rng.random_range(0..FAULTS_END), world.rng.random_range(0..replicas));
            world.push_at(at, Event::Lose { replica });
        }
        if world.rng.random_bool(0.4) {
            for _ in 0..world.rng.random_range(1..4) {
                let at = world.rng.random_range(0..FAULTS_END);
                world.push_at(at, Event::Reconfigure);
            }
        }
        for _ in 0..world.rng.random_range(0..12) {
            let (at, replica) =
                (world.rng.random_range(0..FAULTS_END), world.rng.random_range(0..replicas));
            world.push_at(at, Event::ChangeView { replica });
            if world.rng.random_bool(0.5) {
                let (soon, replica) =
                    (world.rng.random_range(0..20 * MS), world.rng.random_range(0..replicas));
                world.push_at(at + soon, Event::Crash { replica });
            }
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
        self.now < FAULTS_END
    }

    fn reading(&self) -> Reading {
        Reading::at(self.now, Interval::around(self.now, MS))
    }

    fn boot(&mut self, at: usize) {
        let members = self.members.clone();
        let (database, shard) = (DatabaseId(1), ShardId(0));
        let (repeat_ns, view_timeout_ns, gather_ns) = (30 * MS, 200 * MS, 5 * MS);
        let config = Config {
            me: node(at),
            members,
            database,
            shard,
            repeat_ns,
            view_timeout_ns,
            gather_ns,
            part_bytes: 3,
        };
        let (now, ended) = (self.reading(), self.ended_below());
        let home = &mut self.homes[at];
        (home.out, home.timers, home.writing) = (Outbox::new(), BTreeMap::new(), Vec::new());
        home.incarnation += 1;
        let logged = home.disk.clone();
        let locks = Locks { ended_below: ended, ..Locks::default() };
        home.replica = Replica::new(config, locks, logged, now, &mut home.out);
        home.lost |= home.replica.is_none(); // Later epochs have replaced it.
        self.perform(at);
    }

    fn step(
        &mut self,
        at: usize,
        step: impl FnOnce(&mut Replica<Locks>, Reading, &mut Outbox<Replica<Locks>>),
    ) {
        let now = self.reading();
        let home = &mut self.homes[at];
        let Some(replica) = &mut home.replica else { return };
        step(replica, now, &mut home.out);
        self.perform(at);
    }

    fn perform(&mut self, at: usize) {
        let effects: Vec<_> = self.homes[at].out.drain().collect();
        let (incarnation, from) =
            (self.homes[at].incarnation, Address::replica(node(at), DatabaseId(1), ShardId(0)));
        let mut through = None;
        for effect in effects {
            match effect {
                Effect::Send { to, message } | Effect::SendBefore { to, message, .. } => {
                    self.send(from, to, message)
                }
                Effect::Arm { timer, at: when } => {
                    self.homes[at].timers.insert(timer, when);
                    self.push_at(
                        when.max(self.now),
                        Event::Timer { replica: at, incarnation, timer, armed: when },
                    );
                }
                Effect::Disarm { timer } => drop(self.homes[at].timers.remove(&timer)),
                Effect::Persist { position, record } => {
                    self.homes[at].writing.push((position, record));
                    through = Some(position);
                }
                Effect::Do(unlocked) => drop(self.homes[at].unlocked.insert(unlocked)),
            }
        }
        // The store is durable at once.
        let home = &mut self.homes[at];
        if let Some(replica) = &mut home.replica {
            replica.stored(replica.began(), 0, &mut home.out);
        }
        if let Some(through) = through {
            let after = self.rng.random_range(0..10 * MS);
            self.push(after, Event::Synced { replica: at, incarnation, through });
        }
        self.look_at(at);
    }

    /// Checks that a view begins with the same record at every replica. It has begun when that is
    /// on disk; before, no message names it.
    fn look_at(&mut self, at: usize) {
        let TestReplica { replica: Some(replica), writing, .. } = &self.homes[at] else { return };
        if replica.is_between_views() || replica.view() == View::default() || !writing.is_empty() {
            return;
        }
        let view = replica.view();
        let known = |(id, entry): (&OpId, &Entry<Unlock, Lock, bool>)| {
            (*id, (entry.op.clone(), entry.state.clone()))
        };
        let record: BTreeMap<_, _> = replica.record().began().iter().map(known).collect();
        let known = self.began.entry(view).or_insert_with(|| record.clone());
        if *known != record {
            self.wrong.get_or_insert(format!("{view} begins differently at {}", node(at)));
        }
    }

    fn send(&mut self, from: Address, to: Address, said: Said) {
        let copies = match self.rng.random_range(0..100) {
            0..8 if self.faulty() => 0,
            8..14 if self.faulty() => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let slow = self.faulty() && self.rng.random_range(0..20) == 0;
            let after = self.rng.random_range(MS / 2..if slow { 300 * MS } else { 3 * MS });
            self.push(after, Event::Deliver { to, from, said: said.clone() });
        }
    }

    fn ask_all(&mut self, client: usize) {
        let Client { id, doing, heard, tells, members, .. } = &self.clients[client];
        let op = match doing {
            Doing::Locks { name } => Op::Consensus(Lock(*name)),
            Doing::Unlocks { lock } => Op::Inconsistent(Unlock(*lock)),
        };
        let all: Vec<NodeId> = members.replicas.iter().copied().collect();
        let asked = if tells.is_some() { all.clone() } else { heard.lacks(&all) };
        let (id, tells, newest, decided) =
            (*id, *tells, heard.view(), heard.decided().unwrap_or_default());
        for to in asked {
            let to = Address::replica(to, DatabaseId(1), ShardId(0));
            let said = match tells {
                None => Message::Propose { id, op: op.clone(), newest },
                Some(result) => Message::Finalize { id, result: Some(result), newest, decided },
            };
            self.send(of_client(client), to, said);
        }
        let (turn, after) = (self.clients[client].turn, self.rng.random_range(20 * MS..80 * MS));
        self.push(after, Event::Client { client, turn });
    }

    fn begin(&mut self, at: usize, doing: Doing) {
        let (now, client) = (self.now, &mut self.clients[at]);
        client.number += 1;
        client.turn += 1;
        client.id = OpId { number: client.number, ..client.id };
        (client.doing, client.tells, client.began) = (doing, None, now);
        client.heard = asked(&client.members);
        self.ask_all(at);
    }

    /// Acts on the answers so far.
    fn consider(&mut self, at: usize, impatient: bool) {
        let client = &mut self.clients[at];
        match client.doing {
            Doing::Unlocks { lock } => {
                if client.heard.is_executed() {
                    let id = client.id;
                    self.told.insert(id, (None, None));
                    self.given_back.insert(lock);
                    self.tell_all(at, id, None);
                    self.next(at);
                }
            }
            Doing::Locks { name } => {
                let settled = client.heard.settled().copied();
                let fast = client.heard.fast().copied();
                if let Some(granted) = settled.or(fast) {
                    *(if settled.is_none() { &mut self.fast } else { &mut self.slow }) += 1;
                    let id = client.id;
                    if fast.is_some() {
                        client.heard.decide(granted);
                        self.tell_all(at, id, Some(granted));
                    }
                    self.on_locked(at, id, name, granted);
                    return;
                }
                if client.tells.is_none()
                    && (client.heard.is_slow() || impatient)
                    && let Some(answers) = client.heard.answers()
                {
                    let granted = answers.iter().filter(|granted| ***granted).count();
                    let enough = client.members.replicas.len() / 2 + 1;
                    let decided =
                        granted * 2 > answers.len() && granted >= answers.len().min(enough);
                    client.tells = Some(*client.heard.decide(decided));
                    client.turn += 1;
                    self.ask_all(at);
                }
            }
        }
    }

    fn tell_all(&mut self, at: usize, id: OpId, result: Option<bool>) {
        for to in self.clients[at].members.replicas.clone() {
            let to = Address::replica(to, DatabaseId(1), ShardId(0));
            let heard = &self.clients[at].heard;
            let (newest, decided) = (heard.view(), heard.decided().unwrap_or_default());
            self.send(of_client(at), to, Message::Finalize { id, result, newest, decided });
        }
    }

    fn on_locked(&mut self, at: usize, id: OpId, name: u8, granted: bool) {
        self.told.insert(id, (Some(name), Some(granted)));
        if granted {
            if let Some(other) = self.held.insert(name, id) {
                self.wrong.get_or_insert(format!("lock {name} is held by {other} and by {id}"));
            }
            let unlocks = self.rng.random_range(0..100) < 99;
            if unlocks {
                self.held.remove(&name); // From now on another client may get it.
                return self.begin(at, Doing::Unlocks { lock: id });
            }
        }
        self.next(at);
    }

    fn next(&mut self, at: usize) {
        let (name, dies) = (
            self.rng.random_range(0..self.locks),
            self.faulty() && self.rng.random_range(0..40) == 0,
        );
        let client = &mut self.clients[at];
        client.left = client.left.saturating_sub(1);
        (client.turn, client.dead) = (client.turn + 1, client.left == 0);
        if client.dead {
            return;
        }
        self.begin(at, Doing::Locks { name });
        self.clients[at].dead = dies; // In the middle of it.
    }

    fn hear(&mut self, at: usize, from: NodeId, said: Said) {
        let client = &mut self.clients[at];
        let (Message::Reply { id, .. } | Message::Confirm { id, .. } | Message::Missing { id, .. }) =
            &said
        else {
            return;
        };
        if client.dead || *id != client.id {
            return;
        }
        match said {
            Message::Reply { view, state, .. } => client.heard.on_reply(from, view, state),
            Message::Confirm { view, .. } => client.heard.on_confirm(from, view),
            Message::Missing { id, .. } => {
                let op = match client.doing {
                    Doing::Locks { name } => Op::Consensus(Lock(name)),
                    Doing::Unlocks { lock } => Op::Inconsistent(Unlock(lock)),
                };
                let (to, newest) =
                    (Address::replica(from, DatabaseId(1), ShardId(0)), client.heard.view());
                return self.send(of_client(at), to, Message::Propose { id, op, newest });
            }
            _ => return,
        }
        self.consider(at, false);
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Deliver { to, from, said } => match to.role {
                Role::Coordinator(_) => self.hear(to.node.0 as usize - 100, from.node, said),
                _ => self.step(to.node.0 as usize - 1, |replica, now, out| {
                    replica.on_message(now, from, said, out)
                }),
            },
            Event::Synced { replica: at, incarnation, through } => {
                if self.homes[at].incarnation == incarnation && self.homes[at].replica.is_some() {
                    let home = &mut self.homes[at];
                    let synced = home
                        .writing
                        .iter()
                        .take_while(|(position, _)| *position <= through)
                        .count();
                    home.disk.extend(home.writing.drain(..synced).map(|(_, record)| record));
                    let full = home
                        .replica
                        .as_ref()
                        .filter(|_| home.disk.len() > 300 && home.writing.is_empty());
                    if let Some(checkpoint) = full.and_then(Replica::checkpoint) {
                        home.disk = checkpoint;
                    }
                    self.step(at, |replica, now, out| replica.on_durable(now, through, out));
                }
            }
            Event::Timer { replica: at, incarnation, timer, armed } => {
                let due = self.homes[at].incarnation == incarnation
                    && self.homes[at].timers.get(&timer) == Some(&armed);
                if due {
                    self.homes[at].timers.remove(&timer);
                    self.step(at, |replica, now, out| replica.on_timer(now, timer, out));
                }
            }
            Event::Client { client, turn } => {
                if self.clients[client].turn == turn && !self.clients[client].dead {
                    let stale = self.clients[client].members != self.members;
                    if stale && self.rng.random_bool(0.5) {
                        let client = &mut self.clients[client];
                        client.members = self.members.clone();
                        (client.heard, client.tells) = (asked(&client.members), None);
                    }
                    self.consider(client, true);
                    if self.clients[client].turn == turn {
                        self.ask_all(client);
                    }
                }
            }
            Event::Crash { replica: at } => {
                self.homes[at].replica = None;
                let most = if self.rng.random_bool(0.5) { 2 * MS } else { 400 * MS };
                let after = self.rng.random_range(MS / 10..most);
                self.push(after, Event::Restart { replica: at });
            }
            Event::Lose { replica: at } => {
                (self.homes[at].replica, self.homes[at].lost) = (None, true)
            }
            Event::Restart { replica: at } => {
                if self.homes[at].replica.is_none() && !self.homes[at].lost {
                    self.boot(at);
                }
            }
            Event::Reconfigure => self.reconfigure(),
            Event::Hears { replica } => {
                let members = self.members.clone();
                self.step(replica, |replica, now, out| replica.reconfigure(now, members, out));
            }
            Event::ChangeView { replica } => {
                let ended = self.ended_below();
                for at in 0..self.homes.len() {
                    self.step(at, |replica, _, _| replica.application_mut().ended_below = ended);
                }
                self.step(replica, |replica, now, out| replica.change_view(now, out));
            }
        }
    }

    /// Replaces one of the replicas, or adds or removes two; not before the last change has begun.
    fn reconfigure(&mut self) {
        let ReplicaSet { epoch, mut replicas, .. } = self.members.clone();
        let began = |home: &&TestReplica| {
            home.writing.is_empty()
                && home.replica.as_ref().is_some_and(|replica| replica.began().epoch == epoch)
        };
        let homes = replicas.iter().map(|node| &self.homes[node.0 as usize - 1]);
        if homes.filter(began).count() <= replicas.len() / 2 {
            return;
        }
        let (goes, comes) = match self.rng.random_range(0..4) {
            0 if replicas.len() == 3 => (0, 2),
            0 => (2, 0),
            _ => (1, 1),
        };
        for _ in 0..goes {
            let at = self.rng.random_range(0..replicas.len());
            let gone = *replicas.iter().nth(at).expect("the index is below the number of replicas");
            replicas.remove(&gone);
        }
        for _ in 0..comes {
            self.homes.push(TestReplica::default());
            replicas.insert(node(self.homes.len() - 1));
        }
        self.members = self.members.then(replicas);
        for replica in 0..self.homes.len() {
            if self.homes[replica].incarnation == 0 {
                self.boot(replica);
            }
            let after = self.rng.random_range(0..100 * MS);
            self.push(after, Event::Hears { replica });
        }
    }

    fn until(&mut self, end: u64) -> Result<(), String> {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.happens(event);
            if let Some(wrong) = self.wrong.take() {
                return Err(wrong);
            }
        }
        self.now = end;
        Ok(())
    }

    /// Returns the number below which no client has an operation or a lock.
    fn ended_below(&self) -> u64 {
        let held = self.held.values().map(|lock| lock.number);
        self.clients.iter().map(|client| client.number).chain(held).min().unwrap_or_default()
    }

    /// Checks that every received result is in the record of a view that began with all earlier
    /// ones, and of every later view.
    fn judge(&mut self) -> Result<(), String> {
        self.until(END)?;
        if let Some(client) = self.clients.iter().find(|client| !client.dead) {
            return Err(format!("{} was not answered", client.id));
        }
        let replicas = self.members.replicas.clone();
        let is_one = |at: usize| replicas.contains(&node(at)) && self.homes[at].replica.is_some();
        let first = (0..self.homes.len()).find(|at| is_one(*at)).expect("a majority is up");
        self.step(first, |replica, now, out| replica.change_view(now, out));
        self.until(END + 2_000 * MS)?;
        let homes =
            || self.homes.iter().enumerate().filter(|(at, _)| replicas.contains(&node(*at)));
        let there = || {
            homes()
                .filter_map(|(at, home)| home.replica.as_ref().map(|replica| (at, home, replica)))
        };
        let views: Vec<View> = there().map(|(.., replica)| replica.view()).collect();
        if views.iter().any(|view| *view != views[0]) {
            return Err(format!("the views differ in the end: {views:?}"));
        }
        let ended = self.ended_below();
        for (at, home, replica) in there() {
            for (id, (_, result)) in &self.told {
                let state = replica.record().get(id).map(|entry| &entry.state);
                // A late message may begin a forgotten operation again; it is refused then.
                let refused = state.is_none_or(|state| state.result() == Some(&false));
                let over = id.number < ended && refused;
                if !over && state != Some(&State::Finalized(*result)) {
                    return Err(format!(
                        "a client received {result:?} for {id}, and in the end it is {state:?}"
                    ));
                }
            }
            // New replicas have not received operations that were forgotten before.
            let told = self.given_back.iter().filter(|_| self.first.contains(&node(at)));
            if let Some(lock) = told.into_iter().find(|lock| !home.unlocked.contains(lock)) {
                return Err(format!("{lock} was returned, and one replica has not received that"));
            }
        }
        Ok(())
    }
}

fn verdict(seed: u64) -> Result<(u32, u32), String> {
    let mut world = World::new(seed);
    world.judge().map(|()| (world.fast, world.slow))
}

#[test]
fn what_was_acknowledged_is_never_lost_or_changed() {
    let (mut fast, mut slow) = (0, 0);
    for seed in 0..300 {
        let ends = verdict(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        (fast, slow) = (fast + ends.0, slow + ends.1);
    }
    println!("{fast} fast, {slow} slow");
    assert!(
        fast > 1000 && slow > 500,
        "too few operations on the fast or the slow path: {fast}, {slow}"
    );
}

#[test]
fn every_planted_defect_is_noticed() {
    for rule in MET_AT_RANDOM {
        let look = move || {
            plant(Some(rule), true);
            (0..1000).find(|seed| verdict(*seed).is_err())
        };
        let first = std::thread::spawn(look).join().expect("the run does not panic");
        println!("{rule:?}: first noticed by seed {first:?}");
        assert!(first.is_some(), "{rule:?}");
    }
}
