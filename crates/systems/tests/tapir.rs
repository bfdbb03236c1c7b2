//! TAPIR's replicas of one shard in small random worlds: coordinators whose clocks differ, messages that are lost, repeated and late, replicas that crash between a
//! write and its sync, views that change.
//!
//! Judged: every transaction that committed has read what stood at its timestamp; whatever committed is at every replica in the end, and every vote that a coordinator
//! was told; everybody is answered.

use meridian_clock::{Interval, Issuer, Reading, Timestamp};
use meridian_machine::planted::{Rule, plant};
use meridian_machine::{
    Address, DatabaseId, Effect as Do, Incarnation, Machine, NodeId, Outbox, Position, Role, ShardId,
};
use meridian_mvcc::{Key, KeyRange, Value, Write};
use meridian_replication::Unordered;
use meridian_replication::inconsistent::{Config, Invocation, Kept, Message, Op, OpId, Replica, State, Timer};
use meridian_systems::tapir::{Effect, Shard};
use meridian_txn::TransactionId;
use meridian_txn::tapir::{End, Guarantee, Proposal, Seen, Vote, decide};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};

const MS: u64 = 1_000_000;
/// Faults end then, and everybody is to be answered by then.
const FAULTS_END: u64 = 3_000 * MS;
const END: u64 = 12_000 * MS;
const BEGINNING: u64 = 1_000_000 * MS;
const KEYS: u8 = 6;
/// So often another timestamp is proposed.
const ATTEMPTS: u32 = 4;

type Said = Message<End, Proposal, Vote>;
type Disk = Kept<End, Proposal, Vote>;

enum Event {
    Deliver { to: Address, from: Address, said: Said },
    Synced { replica: usize, life: u32, through: Position },
    Timer { replica: usize, life: u32, timer: Timer, armed: u64 },
    Client { client: usize, turn: u64 },
    Crash { replica: usize },
    Restart { replica: usize },
    ChangeView { replica: usize },
}

#[derive(Default)]
struct Home {
    replica: Option<Replica<Shard>>,
    out: Outbox<Replica<Shard>>,
    life: u32,
    disk: Vec<Disk>,
    writing: Vec<(Position, Disk)>,
    timers: BTreeMap<Timer, u64>,
    /// In its store, in all its lives.
    installed: BTreeMap<Timestamp, BTreeSet<Key>>,
}

/// What a coordinator is about.
enum Doing {
    Proposes,
    Ends(End),
}

struct Client {
    /// Its clock is so far from the others'.
    skew: u64,
    /// What it has proposed: its timestamps are unique for ever (I2).
    issuer: Issuer,
    proposal: Proposal,
    op: OpId,
    doing: Doing,
    heard: Invocation<Vote>,
    tells: Option<Vote>,
    turn: u64,
    left: u32,
    done: bool,
}

impl Client {
    fn issues(&mut self, now: u64) -> Timestamp {
        self.issuer.raise_ceiling(u64::MAX);
        self.issuer.issue(now + self.skew).expect("below the ceiling")
    }
}

struct World {
    guarantee: Guarantee,
    now: u64,
    rng: ChaCha8Rng,
    events: BTreeMap<(u64, u64), Event>,
    counter: u64,
    homes: Vec<Home>,
    clients: Vec<Client>,
    /// What coordinators were told of their proposals.
    told: BTreeMap<OpId, Vote>,
    committed: Vec<Proposal>,
    aborted: u32,
    fast: u32,
    slow: u32,
}

fn node(at: usize) -> NodeId {
    NodeId(at as u32 + 1)
}

fn replica_of(at: usize) -> Address {
    Address::replica(node(at), DatabaseId(1), ShardId(0))
}

fn of_client(at: usize) -> Address {
    Address { node: NodeId(100 + at as u32), incarnation: Incarnation(1), role: Role::Coordinator(0), ..replica_of(0) }
}

fn key(number: u8) -> Key {
    Key::from(&[b'a' + number][..])
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let replicas = if rng.random_bool(0.6) { 3 } else { 5 };
        let guarantee = if seed.is_multiple_of(2) { Guarantee::Serializable } else { Guarantee::StrictlySerializable };
        let mut world = World {
            guarantee,
            now: BEGINNING,
            rng,
            events: BTreeMap::new(),
            counter: 0,
            homes: (0..replicas).map(|_| Home::default()).collect(),
            clients: Vec::new(),
            told: BTreeMap::new(),
            committed: Vec::new(),
            aborted: 0,
            fast: 0,
            slow: 0,
        };
        (0..replicas).for_each(|at| world.boot(at));
        for at in 0..world.rng.random_range(3..7) {
            let skew = if world.rng.random_bool(0.5) { 0 } else { world.rng.random_range(0..60 * MS) };
            let (node, transaction) =
                (100 + at as u32, TransactionId { node: 100 + at as u32, incarnation: 1, number: 0 });
            let proposal =
                Proposal { transaction, attempt: 0, at: Timestamp::ZERO, reads: Vec::new(), writes: Vec::new() };
            world.clients.push(Client {
                skew,
                issuer: Issuer::above(node, Timestamp::ZERO),
                proposal,
                op: OpId { node, incarnation: 1, number: 0 },
                doing: Doing::Proposes,
                heard: Invocation::new(Unordered::of(replicas).unwrap()),
                tells: None,
                turn: 0,
                left: 40,
                done: false,
            });
            let after = world.rng.random_range(0..20 * MS);
            world.push(after, Event::Client { client: at, turn: 0 });
        }
        for _ in 0..world.rng.random_range(0..8) {
            let (after, replica) = (world.rng.random_range(0..FAULTS_END), world.rng.random_range(0..replicas));
            world.push(after, Event::Crash { replica });
        }
        for _ in 0..world.rng.random_range(0..10) {
            let (after, replica) = (world.rng.random_range(0..FAULTS_END), world.rng.random_range(0..replicas));
            world.push(after, Event::ChangeView { replica });
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

    fn reading(&self) -> Reading {
        Reading::at(self.now, Interval::around(self.now, MS))
    }

    fn boot(&mut self, at: usize) {
        let replicas = (0..self.homes.len()).map(node).collect();
        let (database, shard) = (DatabaseId(1), ShardId(0));
        let (repeat_ns, view_timeout_ns, gather_ns) = (30 * MS, 200 * MS, 5 * MS);
        let config = Config { me: node(at), replicas, database, shard, repeat_ns, view_timeout_ns, gather_ns };
        let (now, shard) = (self.reading(), Shard::new(self.guarantee, KeyRange::all()));
        let home = &mut self.homes[at];
        (home.out, home.timers, home.writing) = (Outbox::new(), BTreeMap::new(), Vec::new());
        home.life += 1;
        let kept = home.disk.clone();
        home.replica = Replica::new(config, shard, kept, now, &mut home.out);
        self.perform(at);
    }

    fn step(&mut self, at: usize, step: impl FnOnce(&mut Replica<Shard>, Reading, &mut Outbox<Replica<Shard>>)) {
        let now = self.reading();
        let home = &mut self.homes[at];
        let Some(replica) = &mut home.replica else { return };
        step(replica, now, &mut home.out);
        self.perform(at);
    }

    fn perform(&mut self, at: usize) {
        let effects: Vec<_> = self.homes[at].out.drain().collect();
        let (life, mut through) = (self.homes[at].life, None);
        for effect in effects {
            match effect {
                Do::Send { to, message } | Do::SendBefore { to, message, .. } => self.send(replica_of(at), to, message),
                Do::Arm { timer, at: when } => {
                    self.homes[at].timers.insert(timer, when);
                    self.push_at(when.max(self.now), Event::Timer { replica: at, life, timer, armed: when });
                }
                Do::Disarm { timer } => drop(self.homes[at].timers.remove(&timer)),
                Do::Persist { position, record } => {
                    self.homes[at].writing.push((position, record));
                    through = Some(position);
                }
                Do::Do(Effect::Install { at: when, writes }) => {
                    let keys = writes.into_iter().map(|write| write.key).collect();
                    self.homes[at].installed.insert(when, keys);
                }
            }
        }
        if let Some(through) = through {
            let after = self.rng.random_range(0..10 * MS);
            self.push(after, Event::Synced { replica: at, life, through });
        }
    }

    fn send(&mut self, from: Address, to: Address, said: Said) {
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

    /// A transaction begins: it reads, each range at a replica that answers, and is proposed.
    fn begin(&mut self, at: usize) {
        let mut reads: Vec<Seen> = Vec::new();
        for _ in 0..self.rng.random_range(0..3) {
            let (first, many) = (self.rng.random_range(0..KEYS), self.rng.random_range(1..4));
            let range = match self.rng.random_bool(0.6) {
                true => KeyRange::point(key(first)),
                false => KeyRange { start: key(first), end: Some(key(first + many)) },
            };
            let asked = self.rng.random_range(0..self.homes.len());
            let Some(replica) = self.homes[asked].replica.as_ref().filter(|replica| !replica.is_between_views()) else {
                continue;
            };
            if reads.iter().all(|seen| !seen.range.overlaps(&range)) {
                reads.push(replica.application().participant().see(&range));
            }
        }
        let mut writes = BTreeMap::new();
        for _ in 0..self.rng.random_range(if reads.is_empty() { 1 } else { 0 }..3) {
            writes.insert(key(self.rng.random_range(0..KEYS)), Some(Value::from("1")));
        }
        let client = &mut self.clients[at];
        client.left -= 1;
        client.proposal.transaction.number += 1;
        client.proposal.attempt = 0;
        (client.proposal.reads, client.proposal.writes) =
            (reads, writes.into_iter().map(|(key, value)| Write { key, value }).collect());
        client.proposal.at = client.issues(self.now);
        self.asks(at, Doing::Proposes);
    }

    /// Another operation.
    fn asks(&mut self, at: usize, doing: Doing) {
        let replicas = self.homes.len();
        let client = &mut self.clients[at];
        client.op.number += 1;
        client.turn += 1;
        (client.doing, client.tells) = (doing, None);
        client.heard = Invocation::new(Unordered::of(replicas).unwrap());
        self.ask_all(at);
    }

    fn op(&self, at: usize) -> Op<End, Proposal> {
        match &self.clients[at].doing {
            Doing::Proposes => Op::Consensus(self.clients[at].proposal.clone()),
            Doing::Ends(end) => Op::Inconsistent(end.clone()),
        }
    }

    fn ask_all(&mut self, at: usize) {
        let op = self.op(at);
        let Client { op: id, heard, tells, turn, .. } = &self.clients[at];
        let all: Vec<NodeId> = (0..self.homes.len()).map(node).collect();
        let asked = if tells.is_some() { all.clone() } else { heard.lacks(&all) };
        let (id, tells, newest, turn) = (*id, *tells, heard.view(), *turn);
        for to in asked {
            let said = match tells {
                None => Message::Propose { id, op: op.clone(), newest },
                Some(vote) => Message::Finalize { id, result: Some(vote), newest },
            };
            self.send(of_client(at), replica_of(to.0 as usize - 1), said);
        }
        let after = self.rng.random_range(20 * MS..80 * MS);
        self.push(after, Event::Client { client: at, turn });
    }

    fn tell_all(&mut self, at: usize, result: Option<Vote>) {
        let (id, newest) = (self.clients[at].op, self.clients[at].heard.view());
        for to in 0..self.homes.len() {
            self.send(of_client(at), replica_of(to), Message::Finalize { id, result, newest });
        }
    }

    /// Whatever has come of it by now.
    fn consider(&mut self, at: usize, impatient: bool) {
        let quorum = self.homes.len() / 2 + 1;
        let client = &mut self.clients[at];
        if let Doing::Ends(end) = &client.doing {
            if client.heard.is_executed() {
                match end {
                    End::Commit(proposal) => self.committed.push(proposal.clone()),
                    End::Abort { .. } => self.aborted += 1,
                }
                self.tell_all(at, None);
                self.next(at);
            }
            return;
        }
        let (settled, fast) = (client.heard.settled().copied(), client.heard.fast().copied());
        if let Some(vote) = settled.or(fast) {
            *(if settled.is_none() { &mut self.fast } else { &mut self.slow }) += 1;
            if fast.is_some() {
                client.heard.decide(vote);
                self.tell_all(at, Some(vote));
            }
            return self.on_vote(at, vote);
        }
        if client.tells.is_none()
            && (client.heard.is_slow() || impatient)
            && let Some(answers) = client.heard.answers()
        {
            let vote = match answers[..] {
                [known] => *known,
                _ => decide(answers, quorum),
            };
            client.tells = Some(*client.heard.decide(vote));
            client.turn += 1;
            self.ask_all(at);
        }
    }

    fn on_vote(&mut self, at: usize, vote: Vote) {
        let (id, elsewhere) = (self.clients[at].op, self.rng.random_range(0..6) == 0);
        self.told.insert(id, vote);
        let client = &mut self.clients[at];
        let proposal = &mut client.proposal;
        match vote {
            // As if another shard had wanted another timestamp.
            Vote::Ok if elsewhere && proposal.attempt + 1 < ATTEMPTS => {
                proposal.attempt += 1;
                client.proposal.at = client.issues(self.now + 2 * MS);
                self.asks(at, Doing::Proposes);
            }
            Vote::Ok => {
                let end = End::Commit(proposal.clone());
                self.asks(at, Doing::Ends(end));
            }
            Vote::Retry(above) if proposal.attempt + 1 < ATTEMPTS => {
                proposal.attempt += 1;
                client.issuer.observe(above);
                client.proposal.at = client.issues(self.now);
                self.asks(at, Doing::Proposes);
            }
            _ => {
                let end = End::Abort { transaction: proposal.transaction, at: proposal.at };
                self.asks(at, Doing::Ends(end));
            }
        }
    }

    fn next(&mut self, at: usize) {
        let client = &mut self.clients[at];
        client.turn += 1;
        if client.left == 0 {
            client.done = true;
            return;
        }
        self.begin(at);
    }

    fn hear(&mut self, at: usize, from: NodeId, said: Said) {
        let client = &mut self.clients[at];
        let (Message::Reply { id, .. } | Message::Confirm { id, .. } | Message::Missing { id, .. }) = &said else {
            return;
        };
        if client.done || *id != client.op {
            return;
        }
        match said {
            Message::Reply { view, state, .. } => client.heard.on_reply(from, view, state),
            Message::Confirm { view, .. } => client.heard.on_confirm(from, view),
            Message::Missing { id, .. } => {
                let (op, newest) = (self.op(at), self.clients[at].heard.view());
                let to = replica_of(from.0 as usize - 1);
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
                _ => self.step(to.node.0 as usize - 1, |replica, now, out| replica.on_message(now, from, said, out)),
            },
            Event::Synced { replica: at, life, through } => {
                if self.homes[at].life == life && self.homes[at].replica.is_some() {
                    let home = &mut self.homes[at];
                    let synced = home.writing.iter().take_while(|(position, _)| *position <= through).count();
                    home.disk.extend(home.writing.drain(..synced).map(|(_, record)| record));
                    self.step(at, |replica, now, out| replica.on_durable(now, through, out));
                }
            }
            Event::Timer { replica: at, life, timer, armed } => {
                if self.homes[at].life == life && self.homes[at].timers.get(&timer) == Some(&armed) {
                    self.homes[at].timers.remove(&timer);
                    self.step(at, |replica, now, out| replica.on_timer(now, timer, out));
                }
            }
            Event::Client { client: at, turn } => {
                if self.clients[at].turn == turn && !self.clients[at].done {
                    if turn == 0 {
                        return self.begin(at);
                    }
                    self.consider(at, true);
                    if self.clients[at].turn == turn {
                        self.ask_all(at);
                    }
                }
            }
            Event::Crash { replica: at } => {
                self.homes[at].replica = None;
                let most = if self.rng.random_bool(0.5) { 2 * MS } else { 400 * MS };
                let after = self.rng.random_range(MS / 10..most);
                self.push(after, Event::Restart { replica: at });
            }
            Event::Restart { replica: at } => {
                if self.homes[at].replica.is_none() {
                    self.boot(at);
                }
            }
            Event::ChangeView { replica } => self.step(replica, |replica, now, out| replica.change_view(now, out)),
        }
    }

    fn until(&mut self, end: u64) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= BEGINNING + end) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.happens(event);
        }
        self.now = BEGINNING + end;
    }

    fn judge(&mut self) -> Result<(), String> {
        self.until(END);
        if let Some(client) = self.clients.iter().find(|client| !client.done) {
            return Err(format!("{:?} was not answered: {}", client.proposal, client.op));
        }
        self.step(0, |replica, now, out| replica.change_view(now, out));
        self.until(END + 2_000 * MS);
        let mut versions: BTreeMap<Key, BTreeSet<Timestamp>> = BTreeMap::new();
        for Proposal { at, writes, .. } in &self.committed {
            for write in writes {
                versions.entry(write.key.clone()).or_default().insert(*at);
            }
        }
        for Proposal { transaction, at, reads, .. } in &self.committed {
            for seen in reads {
                for (key, all) in versions.iter().filter(|(key, _)| seen.range.contains(key)) {
                    let stood = all.range(..*at).next_back().copied();
                    if seen.of(key) != stood {
                        let saw = seen.of(key);
                        return Err(format!(
                            "{transaction:?} at {at} has read {saw:?} of {key:?}, where {stood:?} stood"
                        ));
                    }
                }
            }
        }
        for (at, home) in self.homes.iter().enumerate() {
            let Some(replica) = &home.replica else { return Err(format!("{} is not there in the end", node(at))) };
            for Proposal { transaction, at: when, writes, .. } in &self.committed {
                let keys: BTreeSet<Key> = writes.iter().map(|write| write.key.clone()).collect();
                if home.installed.get(when) != Some(&keys) {
                    return Err(format!("{transaction:?} committed at {when}, and is not whole at {}", node(at)));
                }
            }
            let participant = replica.application().participant();
            if let Some(left) = participant.prepared().next() {
                return Err(format!("{:?} has ended, and is prepared at {}", left.transaction, node(at)));
            }
            for (id, vote) in &self.told {
                let state = replica.record().get(id).map(|entry| &entry.state);
                if state != Some(&State::Finalized(Some(*vote))) {
                    return Err(format!("a coordinator was told {vote:?} of {id}, and in the end it is {state:?}"));
                }
            }
            let open = |state: &State<Vote>| !state.is_final();
            if replica.record().values().any(|entry| open(&entry.state)) {
                return Err(format!("something is undecided at {} in the end", node(at)));
            }
        }
        Ok(())
    }
}

fn verdict(seed: u64) -> Result<World, String> {
    let mut world = World::new(seed);
    world.judge().map(|()| world)
}

#[test]
fn who_has_committed_has_read_what_stood_at_its_timestamp() {
    let (mut committed, mut aborted, mut fast, mut slow) = (0, 0, 0, 0);
    for seed in 0..200 {
        let world = verdict(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        (committed, aborted) = (committed + world.committed.len(), aborted + world.aborted);
        (fast, slow) = (fast + world.fast, slow + world.slow);
    }
    println!("{committed} committed, {aborted} aborted; {fast} fast, {slow} slow");
    assert!(committed > 10_000 && aborted > 1_000 && fast > 5_000 && slow > 2_000);
}

#[test]
fn every_planted_defect_is_noticed() {
    for rule in Rule::OF_PROPOSALS {
        let look = move || {
            plant(Some(rule), true);
            (0..1_000).find(|seed| verdict(*seed).is_err())
        };
        let first = std::thread::spawn(look).join().expect("it does not panic");
        println!("{rule:?}: first noticed by seed {first:?}");
        assert!(first.is_some(), "{rule:?}");
    }
}
