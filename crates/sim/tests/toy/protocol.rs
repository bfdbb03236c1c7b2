//! The toy: values on one node, without replication, in one file.
//!
//! - A transaction takes no locks. If it writes, it reads what is newest, and its commit fails if
//!   anything that it has read was written since. Otherwise it reads one snapshot.
//! - The node draws every timestamp, and an answer waits until its timestamp has surely passed. So
//!   the order of timestamps is the order of real time.
//! - Values are in memory: a crash of their node loses what it had acknowledged.

use crate::TOY;
use meridian_clock::{Interval, Issuer, Reading, Timestamp, TimestampPolicy, TrueTime};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Machine, NodeId, Outbox, Position, ShardId};
use meridian_mvcc::{Key, KeyRange, Value, Write};
use meridian_placement::FIRST_SHARD;
use meridian_replication::inconsistent::OpId;
use meridian_sim::leaderless::{self, Leaderless};
use meridian_sim::{Member, NodeFailure, NodeProcess, World, sim_protocol::SimProtocol};
use meridian_systems::{Wire, envelope};
use meridian_txn::{
    Age, Begin, Buffer, Conflict, Database, Failure, Future, IsolationLevel, Lock, Mode, Node,
    Outcome, ReadAt, Rows, Savepoint, SchemaHistory, SchemaVersion, Transaction,
};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// The node that has the values.
const HOME: NodeId = NodeId(2);
/// How long a session waits for an answer, in nanoseconds.
const TIMEOUT_NS: u64 = 10_000_000_000;

meridian_machine::rules! {
    /// A read is served from a stale copy.
    READS_THE_NEWEST;
    /// A transaction commits although what it has read was written since.
    VALIDATES;
    /// A commit that the network repeats is executed again.
    COMMITS_ONCE;
}

/// A request of a session to the node.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Request {
    #[n(0)]
    pub id: OpId,
    /// The snapshot to read. Without one the node draws the timestamp of the request.
    #[n(1)]
    pub snapshot: Option<Timestamp>,
    /// The schemas that the transaction was planned for.
    #[n(2)]
    pub plans: Vec<SchemaVersion>,
    #[n(3)]
    pub what: What,
}

#[derive(Clone, Debug, Encode, Decode)]
pub enum What {
    /// A range, whether from its end, and how many rows at most.
    #[n(0)]
    Read(#[n(0)] KeyRange, #[n(1)] bool, #[n(2)] u64),
    /// The reads and their times, the writes, and the schemas that hold from then on.
    #[n(1)]
    Commit(#[n(0)] Vec<(KeyRange, Timestamp)>, #[n(1)] Vec<Write>, #[n(2)] Vec<SchemaVersion>),
}

/// The answer to a read, or without rows to a commit.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Done {
    #[n(0)]
    pub at: Timestamp,
    #[n(1)]
    rows: Vec<(Key, Value)>,
    #[n(2)]
    rest: Option<KeyRange>,
}

#[derive(Clone, Debug, Encode, Decode)]
pub enum Message {
    #[n(0)]
    Ask(#[n(0)] Request),
    #[n(1)]
    Answer(#[n(0)] OpId, #[n(1)] Result<Done, Conflict>),
}

pub enum Effect {
    Install { place: u64, at: Timestamp, writes: Vec<Write> },
    Serve { to: Address, at: Timestamp, id: OpId, read: (KeyRange, bool, u64) },
}

/// The value that is stepped.
pub struct Replica {
    issuer: Issuer,
    written: BTreeMap<Key, Timestamp>,
    schemas: BTreeMap<u32, SchemaHistory>,
    commits: BTreeSet<OpId>,
    /// Requests that are answered once their timestamps have surely passed.
    waiting: BTreeMap<(Timestamp, OpId), (Address, Request)>,
}

impl Replica {
    pub fn new() -> Replica {
        let mut issuer = Issuer::above(HOME.0, Timestamp::ZERO);
        issuer.raise_ceiling(u64::MAX); // No later incarnation relies on it.
        let (written, schemas, waiting) = Default::default();
        Replica { issuer, written, schemas, commits: BTreeSet::new(), waiting }
    }

    fn draw(&mut self, now: Reading) -> Timestamp {
        self.issuer.issue(TrueTime.next_ns(now)).expect("no ceiling")
    }

    /// The conflict of a plan with the schemas that hold at a timestamp.
    fn outdated(&self, plans: &[SchemaVersion], at: Timestamp) -> Option<Conflict> {
        plans.iter().find_map(|SchemaVersion { table, version }| {
            let history = self.schemas.get(table)?;
            history.outdates(*version, at).then_some(Conflict::SchemaChanged { table: *table })
        })
    }

    /// Whether anything was written in a range after it was read.
    fn is_overwritten(&self, (range, read_at): &(KeyRange, Timestamp)) -> bool {
        let from = self.written.range(range.start.clone()..);
        let mut within = from.take_while(|(key, _)| range.contains(key));
        !broken(VALIDATES) && within.any(|(_, written)| written > read_at)
    }

    /// Answers the requests whose timestamps have surely passed.
    fn release(&mut self, now: Reading, out: &mut Outbox<Self>) {
        while let Some(first) = self.waiting.first_entry() {
            let (at, id) = *first.key();
            if !TrueTime.is_visible(now, at) {
                return out.arm((), now.boot_ns + TrueTime.wait_ns(now, at) + 1);
            }
            let (to, request) = first.remove();
            let What::Read(range, reverse, limit) = request.what else {
                let done = Done { at, rows: Vec::new(), rest: None };
                out.send(to, Message::Answer(id, Ok(done)));
                continue;
            };
            match self.outdated(&request.plans, at) {
                Some(why) => out.send(to, Message::Answer(id, Err(why))),
                None => out.act(Effect::Serve { to, at, id, read: (range, reverse, limit) }),
            }
        }
    }
}

impl Machine for Replica {
    type Message = Message;
    /// The earliest timestamp for which a request waits has passed.
    type Timer = ();
    type Record = Infallible;
    type Effect = Effect;

    fn on_message(&mut self, now: Reading, from: Address, said: Message, out: &mut Outbox<Self>) {
        let Message::Ask(request) = said else { return };
        let mut at = request.snapshot;
        if let What::Commit(reads, writes, schemas) = &request.what {
            if !self.commits.insert(request.id) && !broken(COMMITS_ONCE) {
                return;
            }
            let commit_at = *at.insert(self.draw(now));
            let overwritten = reads.iter().find(|read| self.is_overwritten(read));
            let overwritten = overwritten.map(|_| Conflict::Overwritten);
            if let Some(why) = overwritten.or(self.outdated(&request.plans, commit_at)) {
                return out.send(from, Message::Answer(request.id, Err(why)));
            }
            for SchemaVersion { table, version } in schemas {
                self.schemas.entry(*table).or_default().begin(commit_at, *version);
            }
            self.written.extend(writes.iter().map(|write| (write.key.clone(), commit_at)));
            let (place, writes) = (self.commits.len() as u64, writes.clone());
            out.act(Effect::Install { place, at: commit_at, writes });
        }
        let at = at.unwrap_or_else(|| self.draw(now));
        self.waiting.insert((at, request.id), (from, request));
        self.release(now, out);
    }

    fn on_timer(&mut self, now: Reading, (): (), out: &mut Outbox<Self>) {
        self.release(now, out);
    }

    fn on_durable(&mut self, _: Reading, _: Position, _: &mut Outbox<Self>) {}
}

type RequestRouter = leaderless::RequestRouter<Toy>;

struct TxnClient(Arc<RequestRouter>);

struct Session {
    router: Arc<RequestRouter>,
    mode: Mode,
    age: Age,
    began: Interval,
    snapshot: Option<Timestamp>,
    reads: Vec<(KeyRange, Timestamp)>,
    plans: Vec<SchemaVersion>,
    writes: Buffer,
}

impl Database for TxnClient {
    fn isolation(&self) -> IsolationLevel {
        IsolationLevel::Serializable
    }

    fn sleep(&self, time: Duration) -> Future<'_, ()> {
        Box::pin(meridian_txn::sleep(self.0.node(), time))
    }

    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        let (router, mode) = (Arc::clone(&self.0), how.mode);
        let (began, node) = (router.node().now().interval, router.node().here().0.0);
        let first = Age { began_ns: began.latest, node, number: router.node().new_number() };
        let age = how.age.unwrap_or(first);
        let snapshot = if let Mode::ReadOnly(ReadAt::Exact(at)) = mode { Some(at) } else { None };
        let (reads, plans, writes) = (Vec::new(), Vec::new(), Buffer::default());
        let session = Session { router, mode, age, began, snapshot, reads, plans, writes };
        Box::pin(async move { Ok(Box::new(session) as Box<dyn Transaction>) })
    }
}

impl Session {
    async fn ask(&self, what: What) -> Result<Done, Failure> {
        let (id, until) = (self.router.new_id(), self.router.node().boot_ns() + TIMEOUT_NS);
        let request = Request { id, snapshot: self.snapshot, plans: self.plans.clone(), what };
        let to = (FIRST_SHARD, HOME);
        match self.router.ask(to, id, Message::Ask(request), until).await {
            Some(Message::Answer(_, result)) => result.map_err(Failure::Aborted),
            _ => Err(Failure::Unavailable(format!("node {HOME} does not answer: is it up?"))),
        }
    }

    async fn read(&mut self, range: &KeyRange, how: (bool, usize)) -> Result<Rows, Failure> {
        let done = self.ask(What::Read(range.clone(), how.0, how.1 as u64)).await?;
        match self.mode {
            Mode::ReadWrite => self.reads.push((range.clone(), done.at)),
            Mode::ReadOnly(_) => self.snapshot = Some(done.at),
        }
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
        self.snapshot
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

    fn validate(&mut self) -> Future<'_, Result<(), Failure>> {
        let what = What::Commit(self.reads.clone(), Vec::new(), Vec::new());
        Box::pin(async move { self.ask(what).await.map(drop) })
    }

    fn commit(mut self: Box<Self>) -> Future<'static, Outcome> {
        Box::pin(async move {
            if self.mode != Mode::ReadWrite {
                let began = Timestamp::end_of(self.began.earliest);
                return Outcome::Committed { at: self.snapshot.unwrap_or(began) };
            }
            let schemas = self.writes.take_schemas().into_iter().map(|(to, _)| to).collect();
            let (reads, writes) = (self.reads.clone(), self.writes.take());
            match self.ask(What::Commit(reads, writes, schemas)).await {
                Ok(done) => Outcome::Committed { at: done.at },
                Err(Failure::Aborted(why)) => Outcome::Aborted { why },
                Err(_) => Outcome::Unknown,
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

impl SimProtocol for Toy {
    type Replica = Replica;
    type RequestRouter = RequestRouter;
    type Own = ();
    type ProtocolEvent = Infallible;
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

    fn begin(
        world: &World<Self>,
        node: usize,
        seed: u64,
    ) -> Result<NodeProcess<Self>, NodeFailure> {
        let router: Arc<RequestRouter> = world.new_desk(node, BTreeSet::from([HOME]), (), seed);
        let (here, txn_client) = (router.node().here().0, Arc::new(TxnClient(Arc::clone(&router))));
        let (mut process, _) = world.new_life(node, (router, txn_client), ())?;
        if here == HOME {
            process.begin_member(FIRST_SHARD, KeyRange::all(), Replica::new())?;
        }
        Ok(process)
    }

    fn act(world: &mut World<Self>, node: usize, shard: ShardId, effect: Effect) {
        match effect {
            Effect::Install { place, at, writes } => {
                world.install_commit(node, (shard, place), at, &writes);
            }
            Effect::Serve { to, at, id, read: (range, reverse, limit) } => {
                let stale_ns = if broken(READS_THE_NEWEST) { 100_000_000 } else { 0 };
                let seen = Timestamp { nanos: at.nanos - stale_ns, ..at };
                let Some(member) = world.replica_at(node, shard) else { return };
                let found = member.shard_store.scan(&range, seen, reverse, limit as usize, 1 << 16);
                let Ok(chunk) = found else { return }; // The session gets no response.
                let done = Done { at, rows: chunk.rows, rest: chunk.rest };
                world.answer(node, shard, to, Message::Answer(id, Ok(done)));
            }
        }
    }

    fn on_event(_: &mut World<Self>, _: usize, event: Infallible) {
        match event {}
    }

    fn is_at_rest(world: &World<Self>, _: &mut BTreeSet<ShardId>) -> bool {
        world.all_replicas().all(|member| member.replica.waiting.is_empty())
    }

    fn what_is_left(member: &Member<Replica>) -> String {
        format!("{} answers wait", member.replica.waiting.len())
    }

    fn holds(member: &Member<Replica>) -> Option<(KeyRange, bool)> {
        Some((member.shard_store.bounds(), true))
    }
}
