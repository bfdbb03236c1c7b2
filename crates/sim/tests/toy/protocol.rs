//! The toy: values on one node, without replication, in one file.
//!
//! - A transaction takes no locks. It reads one snapshot, and its commit fails if anything that it
//!   has read was written since.
//! - The node draws every timestamp, and an answer waits until its timestamp has surely passed. So
//!   the order of timestamps is the order of real time.
//! - Values are in memory: a crash of their node loses what it had acknowledged.

use meridian_clock::{Interval, Issuer, Reading, Timestamp, TimestampPolicy, TrueTime};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Machine, NodeId, Outbox, Position, ShardId};
use meridian_mvcc::{Key, KeyRange, Value, Write};
use meridian_placement::FIRST_SHARD;
use meridian_replication::inconsistent::OpId;
use meridian_sim::carried::Carried;
use meridian_sim::leaderless::{self, Leaderless};
use meridian_sim::{Defect, Faults, Life, Member, SimulatedProtocol, Unfit, World};
use meridian_systems::envelope::{self, Kind};
use meridian_systems::{Protocol, Wire};
use meridian_txn::{
    Age, Begin, Buffer, Conflict, Database, Failure, Future, IsolationLevel, Lock, Mode, Outcome,
    ReadAt, Rows, Savepoint, SchemaHistory, SchemaVersion, Transaction,
};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

/// The row in `systems`.
pub static TOY: Protocol = Protocol {
    name: "toy",
    kind: Kind(200),
    isolation: Some(IsolationLevel::Serializable),
    real_time_order: true,
    has_leaders: false,
    own_settings: &[],
};

/// The row in `sim`.
pub static SIMULATED: SimulatedProtocol = SimulatedProtocol {
    row: &TOY,
    run: |options| World::<Toy>::new(options).run(),
    stage: |options, scene, costs| World::<Toy>::new(options).stage(scene, costs),
    should_meet: &[],
    seams: &[Defect::ClockLies],
    rules: || vec![READS_THE_SNAPSHOT, VALIDATES, COMMITS_ONCE, meridian_clock::rules::COMMIT_WAIT],
    faults: |_| SURVIVED,
    needs_sql: |_| false,
    delays: Vec::new,
};

/// The faults that it survives.
pub const SURVIVED: Faults = Faults { network: true, clock: true, ..Faults::NONE };

/// The node that has the values.
const HOME: NodeId = NodeId(2);
/// How long a session waits for an answer, in nanoseconds.
const PATIENCE_NS: u64 = 10_000_000_000;
/// How stale a read is where [`READS_THE_SNAPSHOT`] is broken, in nanoseconds.
const STALE_NS: u64 = 100_000_000;

meridian_machine::rules! {
    /// A read is served from a stale copy.
    READS_THE_SNAPSHOT;
    /// A transaction commits although what it has read was written since.
    VALIDATES;
    /// A commit that the network repeats is executed again.
    COMMITS_ONCE;
}

#[derive(Clone, Debug, Encode, Decode)]
pub struct Read {
    #[n(0)]
    id: OpId,
    /// The transaction's snapshot. The node draws it at the first read.
    #[n(1)]
    at: Option<Timestamp>,
    #[n(2)]
    range: KeyRange,
    #[n(3)]
    reverse: bool,
    #[n(4)]
    limit_rows: u64,
    #[n(5)]
    plans: Vec<SchemaVersion>,
}

#[derive(Clone, Debug, Encode, Decode)]
pub struct Commit {
    #[n(0)]
    id: OpId,
    #[n(1)]
    snapshot: Timestamp,
    #[n(2)]
    reads: Vec<KeyRange>,
    #[n(3)]
    plans: Vec<SchemaVersion>,
    #[n(4)]
    schemas: Vec<SchemaVersion>,
    #[n(5)]
    writes: Vec<Write>,
}

/// The answer to a read, or without rows to a commit.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Done {
    #[n(0)]
    at: Timestamp,
    #[n(1)]
    rows: Vec<(Key, Value)>,
    #[n(2)]
    rest: Option<KeyRange>,
}

#[derive(Clone, Debug, Encode, Decode)]
pub enum Message {
    #[n(0)]
    Read(#[n(0)] Read),
    #[n(1)]
    Commit(#[n(0)] Commit),
    #[n(2)]
    Answer(#[n(0)] OpId, #[n(1)] Result<Done, Conflict>),
}

pub enum Effect {
    Install { place: u64, at: Timestamp, writes: Vec<Write> },
    Serve { to: Address, at: Timestamp, read: Read },
}

/// The earliest timestamp of an answer that waits has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Passed;

/// The value that is stepped.
pub struct Replica {
    issuer: Issuer,
    written: BTreeMap<Key, Timestamp>,
    schemas: BTreeMap<u32, SchemaHistory>,
    commits: BTreeSet<OpId>,
    /// Reads and, as `None`, commits whose timestamps have not surely passed.
    waiting: BTreeMap<(Timestamp, OpId), (Address, Option<Read>)>,
}

impl Replica {
    pub fn new() -> Replica {
        let mut issuer = Issuer::above(HOME.0, Timestamp::ZERO);
        issuer.raise_ceiling(u64::MAX); // No later life relies on a bound.
        let (written, schemas) = (BTreeMap::new(), BTreeMap::new());
        Replica { issuer, written, schemas, commits: BTreeSet::new(), waiting: BTreeMap::new() }
    }

    fn draw(&mut self, now: Reading) -> Timestamp {
        self.issuer.issue(TrueTime::next_ns(now)).expect("the ceiling is never reached")
    }

    fn outdated(&self, plans: &[SchemaVersion], at: Timestamp) -> Option<Conflict> {
        let holds = |plan: &&SchemaVersion| {
            let history = self.schemas.get(&plan.table);
            history.is_some_and(|history| history.outdates(plan.version, at))
        };
        plans.iter().find(holds).map(|plan| Conflict::SchemaChanged { table: plan.table })
    }

    fn is_overwritten(&self, range: &KeyRange, snapshot: Timestamp) -> bool {
        let from = self.written.range(range.start.clone()..);
        let within = from.take_while(|(key, _)| range.contains(key.as_ref()));
        within.into_iter().any(|(_, written)| *written > snapshot)
    }

    fn commit(&mut self, at: Timestamp, commit: Commit, out: &mut Outbox<Self>) {
        for SchemaVersion { table, version } in commit.schemas {
            self.schemas.entry(table).or_default().begin(at, version);
        }
        self.written.extend(commit.writes.iter().map(|write| (write.key.clone(), at)));
        let place = self.commits.len() as u64;
        out.act(Effect::Install { place, at, writes: commit.writes });
    }

    /// Answers what is waiting for timestamps that have surely passed.
    fn release(&mut self, now: Reading, out: &mut Outbox<Self>) {
        while let Some(first) = self.waiting.first_entry() {
            let (at, id) = *first.key();
            if !TrueTime::is_visible(now, at) {
                return out.arm(Passed, now.boot_ns + TrueTime::wait_ns(now, at) + 1);
            }
            let (to, read) = first.remove();
            match read {
                None => {
                    let done = Done { at, rows: Vec::new(), rest: None };
                    out.send(to, Message::Answer(id, Ok(done)));
                }
                Some(read) => match self.outdated(&read.plans, at) {
                    Some(why) => out.send(to, Message::Answer(id, Err(why))),
                    None => out.act(Effect::Serve { to, at, read }),
                },
            }
        }
    }
}

impl Machine for Replica {
    type Message = Message;
    type Timer = Passed;
    type Record = Infallible;
    type Effect = Effect;

    fn on_message(&mut self, now: Reading, from: Address, said: Message, out: &mut Outbox<Self>) {
        match said {
            Message::Read(read) => {
                let at = read.at.unwrap_or_else(|| self.draw(now));
                self.waiting.insert((at, read.id), (from, Some(read)));
            }
            Message::Commit(commit) => {
                if !self.commits.insert(commit.id) && !broken(COMMITS_ONCE) {
                    return;
                }
                let (id, at) = (commit.id, self.draw(now));
                let overwritten = |range| self.is_overwritten(range, commit.snapshot);
                let conflict = match commit.reads.iter().any(overwritten) && !broken(VALIDATES) {
                    true => Some(Conflict::Overwritten),
                    false => self.outdated(&commit.plans, at),
                };
                if let Some(why) = conflict {
                    return out.send(from, Message::Answer(id, Err(why)));
                }
                self.commit(at, commit, out);
                self.waiting.insert((at, id), (from, None));
            }
            Message::Answer(..) => {}
        }
        self.release(now, out);
    }

    fn on_timer(&mut self, now: Reading, _: Passed, out: &mut Outbox<Self>) {
        self.release(now, out);
    }

    fn on_durable(&mut self, _: Reading, _: Position, _: &mut Outbox<Self>) {}
}

type Desk = leaderless::Desk<Toy>;

struct Gateway(Arc<Desk>);

struct Session {
    desk: Arc<Desk>,
    mode: Mode,
    age: Age,
    began: Interval,
    snapshot: Option<Timestamp>,
    reads: Vec<KeyRange>,
    plans: Vec<SchemaVersion>,
    writes: Buffer,
}

impl Database for Gateway {
    fn isolation(&self) -> IsolationLevel {
        IsolationLevel::Serializable
    }

    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        let (desk, mode) = (Arc::clone(&self.0), how.mode);
        let (began, node) = (desk.reading().interval, desk.here().0.0);
        let first = || Age { began_ns: began.latest, node, number: desk.new_number() };
        let age = how.age.unwrap_or_else(first);
        let snapshot = if let Mode::ReadOnly(ReadAt::Exact(at)) = mode { Some(at) } else { None };
        let (reads, plans, writes) = (Vec::new(), Vec::new(), Buffer::default());
        let session = Session { desk, mode, age, began, snapshot, reads, plans, writes };
        Box::pin(async move { Ok(Box::new(session) as Box<dyn Transaction>) })
    }
}

impl Session {
    async fn ask(&self, id: OpId, message: Message) -> Option<Result<Done, Conflict>> {
        let until = self.desk.boot_ns() + PATIENCE_NS;
        match self.desk.ask((FIRST_SHARD, HOME), id, message, until).await? {
            Message::Answer(_, result) => Some(result),
            Message::Read(_) | Message::Commit(_) => None,
        }
    }

    async fn read(&mut self, range: &KeyRange, how: (bool, usize)) -> Result<Rows, Failure> {
        let (id, at, range) = (self.desk.new_id(), self.snapshot, range.clone());
        let (reverse, limit_rows, plans) = (how.0, how.1 as u64, self.plans.clone());
        self.reads.push(range.clone());
        let read = Read { id, at, range, reverse, limit_rows, plans };
        let Some(answer) = self.ask(id, Message::Read(read)).await else {
            let why = format!("node {HOME}, which has the values, does not answer: is it up?");
            return Err(Failure::Unavailable(why));
        };
        let done = answer.map_err(Failure::Aborted)?;
        self.snapshot = Some(done.at);
        Ok(Rows { rows: done.rows, at: Vec::new(), rest: done.rest })
    }
}

impl Transaction for Session {
    fn mode(&self) -> Mode {
        self.mode
    }

    fn age(&self) -> Age {
        self.age
    }

    fn began(&self) -> Interval {
        self.began
    }

    fn read_at(&self) -> Option<Timestamp> {
        self.snapshot.filter(|_| self.mode != Mode::ReadWrite)
    }

    fn get<'a>(&'a mut self, key: &'a Key, _: Lock) -> Future<'a, Result<Option<Value>, Failure>> {
        Box::pin(async move {
            if let Some(own) = self.writes.get(key) {
                return Ok(own.clone());
            }
            let found = self.read(&KeyRange::point(key.clone()), (false, 1)).await?;
            Ok(found.rows.into_iter().next().map(|(_, value)| value))
        })
    }

    fn scan<'a>(
        &'a mut self,
        range: &'a KeyRange,
        _: Lock,
        reverse: bool,
        limit_rows: usize,
    ) -> Future<'a, Result<Rows, Failure>> {
        Box::pin(async move {
            let found = self.read(range, (reverse, limit_rows)).await?;
            Ok(self.writes.over(range, found, reverse, limit_rows))
        })
    }

    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        let writes = self.mode == Mode::ReadWrite;
        if writes { self.writes.put(key, value) } else { Err(Failure::ReadOnly) }
    }

    fn planned_for(&mut self, schema: SchemaVersion) {
        self.plans.push(schema);
    }

    fn change_schema(&mut self, to: SchemaVersion, on: Vec<KeyRange>) -> Result<(), Failure> {
        self.writes.change_schema(to, on);
        Ok(())
    }

    fn savepoint(&mut self) -> Savepoint {
        self.writes.savepoint()
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        self.writes.rollback_to(savepoint);
    }

    fn commit(mut self: Box<Self>) -> Future<'static, Outcome> {
        Box::pin(async move {
            let (id, snapshot) = (self.desk.new_id(), self.snapshot);
            if self.writes.is_empty() {
                let began = Timestamp::end_of(self.began.earliest);
                return Outcome::Committed { at: snapshot.unwrap_or(began) };
            }
            let schemas = self.writes.take_schemas().into_iter().map(|(version, _)| version);
            let commit = Commit {
                id,
                snapshot: snapshot.unwrap_or_default(),
                reads: std::mem::take(&mut self.reads),
                plans: std::mem::take(&mut self.plans),
                schemas: schemas.collect(),
                writes: self.writes.take(),
            };
            match self.ask(id, Message::Commit(commit)).await {
                Some(Ok(done)) => Outcome::Committed { at: done.at },
                Some(Err(why)) => Outcome::Aborted { why },
                None => Outcome::Unknown,
            }
        })
    }
}

/// Marks worlds of the protocol.
pub struct Toy;

impl Leaderless for Toy {
    type Message = Message;
    type Own = ();

    fn answers(message: &Message) -> Option<OpId> {
        if let Message::Answer(id, _) = message { Some(*id) } else { None }
    }
}

impl Carried for Toy {
    type Replica = Replica;
    type Desk = Desk;
    type Own = ();
    type Happening = Infallible;
    type Catalog = ();

    fn write_frame(from: Address, to: Address, message: &Message) -> Vec<u8> {
        envelope::write_frame(TOY.kind, from, to, message)
    }

    fn read_frame(bytes: &[u8]) -> Result<(Address, Address, Message), String> {
        envelope::read_frame(TOY.kind, bytes)
    }

    fn write_record(record: Infallible) -> Vec<u8> {
        match record {}
    }

    fn begin(world: &World<Self>, node: usize, seed: u64) -> Result<Life<Self>, Unfit> {
        let desk: Arc<Desk> = world.new_desk(node, BTreeSet::from([HOME]), (), seed);
        let (here, gateway) = (desk.here().0, Arc::new(Gateway(Arc::clone(&desk))));
        let (mut life, _) = world.new_life(node, (desk, gateway), ())?;
        if here == HOME {
            life.begin_member(FIRST_SHARD, KeyRange::all(), Replica::new())?;
        }
        Ok(life)
    }

    fn act(world: &mut World<Self>, node: usize, shard: ShardId, effect: Effect) {
        match effect {
            Effect::Install { place, at, writes } => {
                world.install_commit(node, (shard, place), at, &writes);
            }
            Effect::Serve { to, at, read } => {
                let stale_ns = if broken(READS_THE_SNAPSHOT) { STALE_NS } else { 0 };
                let seen = Timestamp { nanos: at.nanos - stale_ns, ..at };
                let limit = read.limit_rows as usize;
                let Some(member) = world.replica_at(node, shard) else { return };
                let found = member.space.scan(&read.range, seen, read.reverse, limit, 1 << 16);
                let Ok(chunk) = found else { return }; // The session hears nothing.
                let done = Done { at, rows: chunk.rows, rest: chunk.rest };
                world.answer(node, shard, to, Message::Answer(read.id, Ok(done)));
            }
        }
    }

    fn happen(_: &mut World<Self>, _: usize, event: Infallible) {
        match event {}
    }

    fn is_at_rest(world: &World<Self>, _: &mut BTreeSet<ShardId>) -> bool {
        world.all_replicas().all(|member| member.replica.waiting.is_empty())
    }

    fn what_is_left(member: &Member<Replica>) -> String {
        format!("{} answers wait", member.replica.waiting.len())
    }

    fn holds(member: &Member<Replica>) -> Option<(KeyRange, bool)> {
        Some((member.space.bounds(), true))
    }
}
