//! Golden transcripts of inconsistent replication: messages, records, and results at clients.

mod locks;
#[path = "../../txn/tests/common/script.rs"]
mod script;

use locks::{Lock, Locks, MET_AT_RANDOM, Unlock};
use meridian_machine::planted::plant;
use meridian_machine::{
    Address, DatabaseId, Effect, Incarnation, Interval, Machine, NodeId, Outbox, Position, Reading,
    Role, ShardId,
};
use meridian_replication::inconsistent::{
    ChangesOf, Config, Entry, Invocation, LogRecord, Message, Op, OpId, Replica, ReplicaSet, State,
    Timer, View,
};
use meridian_replication::rules;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;
use std::path::Path;

const MS: u64 = 1_000_000;

type Said = Message<Unlock, Lock, bool>;
type Disk = LogRecord<Unlock, Lock, bool>;

#[derive(Default)]
struct TestReplica {
    replica: Option<Replica<Locks>>,
    out: Outbox<Replica<Locks>>,
    timers: BTreeMap<Timer, u64>,
    disk: Vec<Disk>,
    writing: Vec<(Position, Disk)>,
    /// True if its disk is slow.
    held: bool,
    /// True if no message reaches or leaves it.
    cut: bool,
}

struct Client {
    number: u64,
    op: Op<Unlock, Lock>,
    /// The replicas that it asks: those of the epoch in which it began.
    members: ReplicaSet,
    heard: Invocation<bool>,
}

#[derive(Default)]
struct World {
    now: u64,
    /// The members that were decided last.
    members: Option<ReplicaSet>,
    homes: Vec<TestReplica>,
    clients: BTreeMap<u32, Client>,
    wire: VecDeque<(Address, Address, Said)>,
    said: String,
}

fn replica(at: usize) -> Address {
    Address::replica(NodeId(at as u32 + 1), DatabaseId(1), ShardId(0))
}

fn client(number: u32) -> Address {
    let incarnation = Incarnation(1);
    Address { node: NodeId(100 + number), incarnation, role: Role::Coordinator(0), ..replica(0) }
}

fn name(address: Address) -> String {
    match address.node.0 {
        number @ 100.. => format!("c{}", number - 100),
        number => format!("n{number}"),
    }
}

fn id(id: &OpId) -> String {
    format!("c{}#{}", id.node - 100, id.number)
}

fn op(op: &Op<Unlock, Lock>) -> String {
    match op {
        Op::Consensus(Lock(name)) => format!("lock {}", char::from(*name)),
        Op::Inconsistent(Unlock(lock)) => format!("unlock {}", id(lock)),
    }
}

fn result(result: &Option<bool>) -> &'static str {
    match result {
        Some(true) => "granted",
        Some(false) => "refused",
        None => "done",
    }
}

fn state(state: &State<bool>) -> String {
    match state {
        State::Tentative(None) => "tentative".into(),
        State::Tentative(given) => format!("tentative {}", result(given)),
        State::Finalized(given) => format!("final {}", result(given)),
    }
}

fn entry((known, entry): (&OpId, &Entry<Unlock, Lock, bool>)) -> String {
    format!("{} {} {}", id(known), op(&entry.op), state(&entry.state))
}

fn listed(entries: Vec<String>) -> String {
    if entries.is_empty() { "nothing".into() } else { entries.join("; ") }
}

fn changes(changes: &ChangesOf<Locks>) -> Vec<String> {
    let change = |(known, now): (&OpId, &Option<_>)| match now {
        Some(now) => entry((known, now)),
        None => format!("{} is forgotten", id(known)),
    };
    changes.iter().map(change).collect()
}

fn upon(upon: &Option<View>) -> String {
    upon.map_or_else(String::new, |upon| format!(", other than {upon}"))
}

fn message(said: &Said) -> String {
    match said {
        Message::Propose { id: of, op: what, .. } => format!("Propose {}: {}", id(of), op(what)),
        Message::Reply { id: of, view, state: known } => {
            format!("Reply {} in {view}: {}", id(of), state(known))
        }
        Message::Finalize { id: of, result: given, .. } => {
            format!("Finalize {}: {}", id(of), result(given))
        }
        Message::Confirm { id: of, view } => format!("Confirm {} in {view}", id(of)),
        Message::Missing { id: of, view } => format!("Missing {} in {view}", id(of)),
        Message::LeaveView { view } => format!("LeaveView for {view}"),
        Message::Change { view, last, part, .. } => match part.upon {
            Some(upon) => format!(
                "Change to {view} with what came since {upon}: {}",
                listed(changes(&part.changes))
            ),
            None => format!(
                "Change to {view} with all that {last} began with: {}",
                listed(changes(&part.changes))
            ),
        },
        Message::StartView { view, part } => {
            format!("StartView {view}{}: {}", upon(&part.upon), listed(changes(&part.changes)))
        }
        Message::More { view, upon: None, from: None } => format!("More of {view}: all of it"),
        Message::More { view, .. } => format!("More of {view}"),
        Message::Started { view } => format!("Started {view}"),
        Message::Tell { id: of, op: what } => {
            format!("Tell {}: {}", id(of), op(&Op::Inconsistent(*what)))
        }
        Message::Renew { view } => format!("Renew {view}"),
    }
}

fn logged(logged: &Disk) -> String {
    match logged {
        LogRecord::Proposed { id: of, op: what, result: given } => {
            format!("{} {} {}", id(of), op(what), state(&State::Tentative(*given)))
        }
        LogRecord::Told { id: of, op: what } => {
            format!("{} {} final", id(of), op(&Op::Inconsistent(*what)))
        }
        LogRecord::Finalized { id: of, result: given } => {
            format!("{} {}", id(of), state(&State::Finalized(*given)))
        }
        LogRecord::Left { view } => format!("that it has left for {view}"),
        LogRecord::Began { view, upon: before, changes: new, decided } => {
            let decided = decided
                .iter()
                .map(|(of, given)| format!("{} {}", id(of), state(&State::Finalized(*given))));
            let all = changes(new).into_iter().chain(decided).collect();
            format!("that {view} began{}: {}", upon(before), listed(all))
        }
        LogRecord::Stored { view, .. } => format!("that its store has what {view} began with"),
    }
}

impl World {
    fn reading(&self) -> Reading {
        Reading::at(self.now, Interval::around(self.now, MS))
    }

    fn boot(&mut self, at: usize) {
        let members = self.members.clone().expect("the members are set");
        let (me, database, shard) = (NodeId(at as u32 + 1), DatabaseId(1), ShardId(0));
        let (repeat_ns, view_timeout_ns, gather_ns) = (50 * MS, 200 * MS, 5 * MS);
        let config = Config {
            me,
            members,
            database,
            shard,
            repeat_ns,
            view_timeout_ns,
            gather_ns,
            part_bytes: usize::MAX,
        };
        let now = self.reading();
        let home = &mut self.homes[at];
        (home.out, home.timers, home.writing, home.held) =
            (Outbox::new(), BTreeMap::new(), Vec::new(), false);
        home.replica =
            Replica::new(config, Locks::default(), home.disk.clone(), now, &mut home.out);
        self.perform(at);
    }

    fn step(
        &mut self,
        at: usize,
        step: impl FnOnce(&mut Replica<Locks>, Reading, &mut Outbox<Replica<Locks>>),
    ) -> Result<(), String> {
        let now = self.reading();
        let home = &mut self.homes[at];
        step(home.replica.as_mut().ok_or("the replica is down")?, now, &mut home.out);
        self.perform(at);
        Ok(())
    }

    fn perform(&mut self, at: usize) {
        let effects: Vec<_> = self.homes[at].out.drain().collect();
        let mut through = None;
        for effect in effects {
            match effect {
                Effect::Send { to, message } | Effect::SendBefore { to, message, .. } => {
                    self.send(replica(at), to, message);
                }
                Effect::Arm { timer, at: when } => drop(self.homes[at].timers.insert(timer, when)),
                Effect::Disarm { timer } => drop(self.homes[at].timers.remove(&timer)),
                Effect::Persist { position, record } => {
                    let home = &mut self.homes[at];
                    let slow = if home.held { " (the disk is slow)" } else { "" };
                    let _ = writeln!(self.said, "n{} writes {}{slow}", at + 1, logged(&record));
                    if home.held {
                        home.writing.push((position, record));
                    } else {
                        home.disk.push(record);
                        through = Some(position);
                    }
                }
                Effect::Do(_) => {}
            }
        }
        if let Some(through) = through {
            let _ = self.step(at, |replica, now, out| replica.on_durable(now, through, out));
        }
    }

    fn send(&mut self, from: Address, to: Address, said: Said) {
        let cut = |address: Address| {
            self.homes.get(address.node.0 as usize - 1).is_some_and(|home| home.cut)
        };
        let lost = if cut(from) || cut(to) { " (lost)" } else { "" };
        let _ = writeln!(self.said, "{} → {}: {}{lost}", name(from), name(to), message(&said));
        if lost.is_empty() {
            self.wire.push_back((from, to, said));
        }
    }

    fn deliver(&mut self) -> Result<(), String> {
        for _ in 0..10_000 {
            let Some((from, to, said)) = self.wire.pop_front() else { return Ok(()) };
            if to.node.0 >= 100 {
                self.hear(to.node.0 - 100, from, said);
            } else if self.homes[to.node.0 as usize - 1].replica.is_some() {
                self.step(to.node.0 as usize - 1, |replica, now, out| {
                    replica.on_message(now, from, said, out)
                })?;
            }
        }
        Err("message delivery does not end".into())
    }

    fn hear(&mut self, number: u32, from: Address, said: Said) {
        let Some(asks) = self.clients.get_mut(&number) else { return };
        let of = OpId { node: 100 + number, incarnation: 1, number: asks.number };
        match said {
            Message::Reply { id, view, state } if id == of => {
                asks.heard.on_reply(from.node, view, state)
            }
            Message::Confirm { id, view } if id == of => asks.heard.on_confirm(from.node, view),
            Message::Missing { id, .. } if id == of => {
                let (op, newest) = (asks.op.clone(), asks.heard.view());
                return self.send(client(number), from, Message::Propose { id, op, newest });
            }
            _ => return,
        }
        let (heard, asks) = (&asks.heard, &asks.op);
        let knows = match (asks, heard.settled(), heard.fast()) {
            (Op::Inconsistent(_), ..) if heard.is_executed() => "executed".to_owned(),
            (Op::Consensus(_), Some(known), _) => format!("{}, settled", result(&Some(*known))),
            (Op::Consensus(_), None, Some(known)) => format!("{}, fast", result(&Some(*known))),
            (Op::Consensus(_), None, None) if heard.is_slow() => "not fast".into(),
            _ => return,
        };
        let _ = writeln!(self.said, "c{number} knows of #{}: {knows}", of.number);
    }

    fn ask(&mut self, number: u32, op: Op<Unlock, Lock>) {
        let before = self.clients.get(&number).map_or(0, |client| client.number);
        let members = self.members.clone().expect("the members are set");
        let heard = Invocation::new(
            members.epoch,
            members.enough().expect("the number of replicas is odd"),
        );
        self.clients.insert(number, Client { number: before + 1, op: op.clone(), members, heard });
        let id = OpId { node: 100 + number, incarnation: 1, number: before + 1 };
        for to in self.replicas() {
            let propose = Message::Propose { id, op: op.clone(), newest: View::default() };
            self.send(client(number), replica(to), propose);
        }
    }

    fn tell(&mut self, number: u32, result: Option<bool>) -> Result<(), String> {
        let asks = self.clients.get_mut(&number).ok_or("the client has no operation")?;
        let result = result.map(|result| *asks.heard.decide(result));
        let id = OpId { node: 100 + number, incarnation: 1, number: asks.number };
        let (newest, decided) = (asks.heard.view(), asks.heard.decided().unwrap_or_default());
        for to in self.replicas() {
            self.send(
                client(number),
                replica(to),
                Message::Finalize { id, result, newest, decided },
            );
        }
        Ok(())
    }

    fn replicas(&self) -> Vec<usize> {
        let replicas = self.members.iter().flat_map(|members| &members.replicas);
        replicas.map(|node| node.0 as usize - 1).collect()
    }

    /// Changes the replicas; every replica that is not cut off receives the change.
    fn reconfigure(&mut self, replicas: BTreeSet<NodeId>) -> Result<(), String> {
        let members = self.members.as_ref().ok_or("there are no former members")?.then(replicas);
        self.members = Some(members.clone());
        for at in self.replicas() {
            if at >= self.homes.len() {
                self.homes.push(TestReplica::default());
                self.boot(self.homes.len() - 1);
            }
        }
        for at in 0..self.homes.len() {
            if !self.homes[at].cut && self.homes[at].replica.is_some() {
                self.step(at, |replica, now, out| replica.reconfigure(now, members.clone(), out))?;
            }
        }
        Ok(())
    }

    fn command(&mut self, command: &str) -> Result<String, String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let count = self.homes.len();
        let number =
            |word: &str| word[1..].parse::<u32>().map_err(|error| format!("{word}: {error}"));
        let node = |word: &str| match word
            .strip_prefix('n')
            .and_then(|number| number.parse::<usize>().ok())
        {
            Some(number) if (1..=count).contains(&number) => Ok(number - 1),
            _ => Err(format!("{word} is not a replica")),
        };
        match words.as_slice() {
            ["replicas", many] => {
                let many: usize = many.parse().map_err(|_| "the number of replicas is missing")?;
                self.homes = (0..many).map(|_| TestReplica::default()).collect();
                self.members = Some(ReplicaSet::first((1..=many as u32).map(NodeId).collect()));
                (0..many).for_each(|at| self.boot(at));
            }
            ["members", named @ ..] => {
                let named =
                    named.iter().map(|word| number(word).map(NodeId)).collect::<Result<_, _>>()?;
                self.reconfigure(named)?;
            }
            ["tell", "members", who] => {
                let (at, members) =
                    (node(who)?, self.members.clone().ok_or("there are no members")?);
                self.step(at, |replica, now, out| replica.reconfigure(now, members, out))?;
            }
            ["lock", who, lock] => self.ask(number(who)?, Op::Consensus(Lock(lock.as_bytes()[0]))),
            ["unlock", who] => {
                let number = number(who)?;
                let lock = self.clients.get(&number).ok_or("the client has no lock")?.number;
                self.ask(
                    number,
                    Op::Inconsistent(Unlock(OpId {
                        node: 100 + number,
                        incarnation: 1,
                        number: lock,
                    })),
                );
            }
            // Returns a lock by a fact, for which the client does not wait.
            ["give", "back", who] => {
                let number = number(who)?;
                let lock = self.clients.get(&number).ok_or("the client has no lock")?.number;
                let of =
                    |number_of: u64| OpId { node: 100 + number, incarnation: 1, number: number_of };
                for to in 0..count {
                    let told = Message::Tell { id: of(lock + 1), op: Unlock(of(lock)) };
                    self.send(client(number), replica(to), told);
                }
            }
            // Asks the replicas that have not answered.
            ["ask", who, "again"] => {
                let number = number(who)?;
                let asks = self.clients.get(&number).ok_or("the client has no operation")?;
                let all: Vec<NodeId> = asks.members.replicas.iter().copied().collect();
                let (id, op) = (
                    OpId { node: 100 + number, incarnation: 1, number: asks.number },
                    asks.op.clone(),
                );
                let newest = asks.heard.view();
                for to in asks.heard.lacks(&all) {
                    let propose = Message::Propose { id, op: op.clone(), newest };
                    self.send(client(number), replica(to.0 as usize - 1), propose);
                }
            }
            // The client sends the result that it knows; if there is none yet, it decides from a
            // quorum's answers.
            ["tell", who] => {
                let number = number(who)?;
                let asks = self.clients.get(&number).ok_or("the client has no operation")?;
                let known = match asks.op {
                    Op::Consensus(_)
                        if asks
                            .heard
                            .settled()
                            .or(asks.heard.fast())
                            .or_else(|| Some(asks.heard.answers()?[0]))
                            .is_none() =>
                    {
                        return Ok(format!("c{number} has heard too little"));
                    }
                    Op::Inconsistent(_) => None,
                    Op::Consensus(_) => Some(match asks.heard.settled().or(asks.heard.fast()) {
                        Some(known) => *known,
                        None => {
                            let answers = asks.heard.answers().ok_or("too few have answered")?;
                            answers.iter().filter(|granted| ***granted).count() > count / 2
                                || answers == [&true]
                        }
                    }),
                };
                self.tell(number, known)?;
            }
            ["deliver"] => self.deliver()?,
            ["lose"] => self.wire.clear(),
            ["cut", who] => self.homes[node(who)?].cut = true,
            ["heal", who] => self.homes[node(who)?].cut = false,
            ["hold", who] => self.homes[node(who)?].held = true,
            ["sync", who] => {
                let at = node(who)?;
                let written = std::mem::take(&mut self.homes[at].writing);
                self.homes[at].held = false;
                let through = written
                    .last()
                    .map(|(position, _)| *position)
                    .ok_or("nothing is being written")?;
                self.homes[at].disk.extend(written.into_iter().map(|(_, record)| record));
                self.step(at, |replica, now, out| replica.on_durable(now, through, out))?;
            }
            ["crash", who] => self.homes[node(who)?].replica = None,
            ["restart", who] => self.boot(node(who)?),
            ["change", "view", who] => {
                self.step(node(who)?, |replica, now, out| replica.change_view(now, out))?
            }
            ["fire", who, timer @ ("repeat" | "view" | "gather")] => {
                let timer = match *timer {
                    "repeat" => Timer::Repeat,
                    "view" => Timer::View,
                    _ => Timer::Gather,
                };
                let at = node(who)?;
                let when = self.homes[at].timers.remove(&timer).ok_or("the timer is not armed")?;
                self.now = self.now.max(when);
                self.step(at, |replica, now, out| replica.on_timer(now, timer, out))?;
            }
            ["state"] => {
                for (at, home) in self.homes.iter().enumerate() {
                    let _ = match &home.replica {
                        None => writeln!(self.said, "n{} is down", at + 1),
                        Some(replica) => {
                            let between =
                                if replica.is_between_views() { "waits for " } else { "" };
                            writeln!(
                                self.said,
                                "n{}: {between}{}, has {}",
                                at + 1,
                                replica.view(),
                                listed(replica.record().iter().map(entry).collect())
                            )
                        }
                    };
                }
            }
            _ => return Err("there is no such command".into()),
        }
        Ok(std::mem::take(&mut self.said))
    }
}

#[test]
fn transcripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/views");
    script::check(&folder, World::default, World::command);
}

/// Random simulations (`unordered.rs`) meet these once in thousands of runs.
#[test]
fn what_is_planted_and_rare_is_noticed() {
    for rule in rules::OF_RECORDS.into_iter().filter(|rule| !MET_AT_RANDOM.contains(rule)) {
        let broken = std::thread::spawn(move || {
            plant(Some(rule), true);
            transcripts();
        });
        assert!(broken.join().is_err(), "{rule:?}");
    }
}

/// A restarted node may learn late of the epoch that it was in. It answers nothing before, and
/// returns to no view that it has left.
#[test]
fn a_node_from_a_later_epoch_waits_for_its_row() {
    let nodes = |all: &[u32]| all.iter().copied().map(NodeId).collect::<BTreeSet<_>>();
    let before = ReplicaSet::first(nodes(&[1, 2, 3]));
    let (after, view) = (before.then(nodes(&[1, 2, 4])), |number| View { epoch: 1, number });
    let logged = || {
        let began = LogRecord::Began {
            view: view(3),
            upon: None,
            changes: ChangesOf::<Locks>::new(),
            decided: Vec::new(),
        };
        vec![LogRecord::Left { view: view(0) }, began, LogRecord::Left { view: view(4) }]
    };
    let born = |members: &ReplicaSet| {
        let (me, database, shard) = (NodeId(1), DatabaseId(1), ShardId(0));
        let (repeat_ns, view_timeout_ns, gather_ns) = (50 * MS, 200 * MS, 5 * MS);
        let members = members.clone();
        let config = Config {
            me,
            members,
            database,
            shard,
            repeat_ns,
            view_timeout_ns,
            gather_ns,
            part_bytes: usize::MAX,
        };
        Replica::new(
            config,
            Locks::default(),
            logged(),
            Reading::at(0, Interval::around(0, MS)),
            &mut Outbox::new(),
        )
    };
    assert!(born(&before).is_none());
    let replica = born(&after).expect("the node has a replica in this epoch");
    assert_eq!((replica.view(), replica.is_between_views()), (view(4), true));
}

/// A replica skips views whose leaders may be down, and begins the first view that it leads: it has
/// waited for none of them.
#[test]
fn a_view_that_was_skipped_has_not_failed() {
    let mut world = World::default();
    let timeout = |world: &World, at: usize| world.homes[at].timers[&Timer::View] - world.now;
    for command in ["replicas 3", "cut n3"] {
        world.command(command).expect("it is a command");
    }
    world.step(2, |replica, now, out| replica.lead_view(now, out)).expect("it runs");
    let view = |world: &World| world.homes[2].replica.as_ref().expect("it runs").view().number;
    assert_eq!((view(&world), timeout(&world, 2)), (2, 200 * MS));
    for doubled in 1..3 {
        world.command("fire n3 view").expect("it waits");
        assert_eq!((view(&world), timeout(&world, 2)), (2 + doubled, (200 * MS) << doubled));
    }
}
