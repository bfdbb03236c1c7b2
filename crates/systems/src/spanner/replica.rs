//! One member: the switchboard between its group and, when it leads, the lock table.

use super::blind::Blinds;
use super::by_transaction::ByTransaction;
use super::idleness::{Config, Idleness};
use super::leadership::Workload;
use super::membership::Changing;
use super::records::any_within;
use super::schemas::{Registered, Schemas};
use super::snapshots::Snapshot;
use super::splits::Splitting;
use super::two_phase::{Ballot, Collected, Collecting, Debt, InDoubt, Reader};
use super::{Agreed, Birth, Damaged, Rows};
use meridian_clock::{Issuer, Reading, Timestamp};
use meridian_machine::planted::{Rule, broken};
use meridian_machine::{Address, DatabaseId, Machine, NodeId, Outbox, Position, ShardId, sometimes};
use meridian_mvcc::{Key, KeyRange, Value, Write};
use meridian_replication::group::{self, Entry, Event, Group, Index, Membership, Record, Restored, Term};
use meridian_txn::locking::{Ask, Between, Footing, LockTable, Readable, Reply, Request, Ticket, TransactionId};
use meridian_txn::{Age, Conflict};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What replicas and coordinators say to one another.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message {
    /// Between members.
    #[n(0)]
    Group(#[n(0)] group::Message),
    /// From a coordinator.
    #[n(1)]
    Ask(#[n(0)] Request),
    /// To a coordinator.
    #[n(2)]
    Answer(#[n(0)] Reply),
    /// Between members: everything at or below was shown by a leader. A fact, whoever says it and whenever it arrives.
    #[n(3)]
    Shown(#[n(0)] Timestamp),
    /// Between the leaders of a transaction's shards.
    #[n(4)]
    Between(#[n(0)] Between),
    /// To the sessions of a node, whether it has a member or not: who says this begins to serve, and is to be asked from now on.
    #[n(5)]
    Leads(#[n(0)] Term),
}

/// What a replica waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The group's.
    Group(group::Timer),
    /// A commit timestamp has surely passed, or a lease reaches further.
    CommitWait,
    /// A look at transactions that are idle for too long.
    Idle,
    /// A look at who asks.
    Workload,
    /// The members are told how far the leader has shown.
    Close,
    /// Transactions that are under way have had time to end.
    HandOver,
    /// The same, for a split.
    Split,
    /// A look at what is prepared, and at decisions that are not told to all.
    Resolve,
    /// A look at how idle the shard is.
    MinNext,
}

/// A read that is to be answered with [`Reply::Rows`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serve {
    /// Who asked.
    pub reply_to: Address,
    /// The question.
    pub id: u64,
    /// What the attempt's locks stand on.
    pub footing: Footing,
    /// The snapshot.
    pub at: Timestamp,
    /// What to read.
    pub range: KeyRange,
    /// From its end backwards.
    pub reverse: bool,
    /// At most so many rows.
    pub limit_rows: u32,
    /// Tell when each row was committed.
    pub versions: bool,
    /// The answer is true only if it leaves while `now.latest` is below this.
    pub deadline: Option<u64>,
}

/// What a replica asks of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put agreed versions into Recent, before anything that follows in the outbox.
    Install {
        /// The commit timestamp.
        at: Timestamp,
        /// The versions; none of a floor.
        writes: Vec<Write>,
        /// The entry's place in the log.
        index: Index,
        /// Its term.
        term: Term,
        /// The timestamp was chosen by another shard: there may be later ones here already.
        decided_elsewhere: bool,
    },
    /// From a key on the keys are another shard's, which is born here with what stands here of them; before anything that follows in the outbox.
    Divide {
        /// The timestamp of the split.
        at: Timestamp,
        /// The first key of the other shard.
        key: Key,
        /// The other shard.
        shard: ShardId,
        /// What the other shard knows of itself at its birth.
        rows: Vec<Write>,
        /// This member keeps no versions, and the node's member of the other shard would have to have them: the other
        /// shard does not begin with what stands here.
        hollow: bool,
        /// The entry's place in the log.
        index: Index,
        /// Its term.
        term: Term,
    },
    /// Read, and answer.
    Serve(Serve),
    /// Publish for readers of this node.
    Readable(Readable),
    /// Publish for whoever wants to ask: the leader that this member has heard of.
    Leader(Option<NodeId>),
    /// Send what is stored, at or above an entry, to a member that is too far behind.
    SendSnapshot {
        /// The member.
        to: NodeId,
        /// The entry.
        index: Index,
        /// It is a witness: only what the shard knows of itself.
        witness: bool,
        /// The term of the leader that wants it.
        term: Term,
    },
    /// Publish who is in the group.
    Members(Membership),
    /// This node is no member of the group as of an entry: what is kept of the shard goes, and it is one again only if it is added by a later entry than this.
    Removed {
        /// The entry.
        index: Index,
    },
    /// An agreed entry cannot be read: this node must stop rather than diverge.
    Stop {
        /// Why.
        why: String,
    },
}

/// An attempt that asked this leadership something.
pub(super) struct Live {
    /// The number of its birth here.
    pub(super) birth: u64,
    pub(super) age: Age,
    /// What its session calls itself.
    pub(super) application: Option<String>,
    /// Why it cannot go on, if it cannot.
    pub(super) doomed: Option<Conflict>,
    /// Its newest question: what is older and arrives later is not answered.
    pub(super) newest: u64,
    /// Who is told that it is wounded.
    pub(super) gateway: Address,
    /// Votes of other shards that came before the commit, for which this one coordinates.
    pub(super) votes: Vec<Ballot>,
}

pub(super) struct Pending {
    pub(super) from: Address,
    pub(super) request: Request,
    /// Of a commit: how many of its keys are locked.
    pub(super) locked: usize,
    /// Of a commit or a prepare: its timestamp, and when that was drawn, by the boot clock.
    pub(super) at: Timestamp,
    pub(super) drawn_ns: u64,
    /// Of a commit that coordinates: the votes.
    pub(super) votes: Option<Collected>,
    /// Of a change of schemas: nobody who has voted before it can come after it.
    pub(super) registered: bool,
}

impl Pending {
    /// Whether it commits what writes into a range.
    pub(super) fn writes_into(&self, range: &KeyRange) -> bool {
        let Ask::Commit { writes, .. } = &self.request.ask else { return false };
        self.change().is_some() || any_within(writes, |write| &write.key, range)
    }

    pub(super) fn new(from: Address, request: Request) -> Pending {
        Pending { from, request, locked: 0, at: Timestamp::ZERO, drawn_ns: 0, votes: None, registered: false }
    }
}

/// An agreed commit whose timestamp has not surely passed.
pub(super) struct Passing {
    pub(super) at: Timestamp,
    pub(super) transaction: TransactionId,
    /// Who wants to hear of it, and by which question.
    pub(super) asked: Option<(Address, u64)>,
    /// By the boot clock.
    pub(super) drawn_ns: u64,
    pub(super) agreed_ns: u64,
    /// Who waits for the outcome elsewhere.
    pub(super) votes: Option<Collected>,
    /// What it wrote, sorted, where this leader drew its timestamp.
    pub(super) writes: Vec<Write>,
    /// It changed a schema.
    pub(super) schema: bool,
}

impl Passing {
    pub(super) fn writes_into(&self, range: &KeyRange) -> bool {
        self.schema || any_within(&self.writes, |write| &write.key, range)
    }
}

/// An outcome that is installed before what lies below it.
pub(super) struct Late {
    pub(super) at: Timestamp,
    /// What it wrote, sorted.
    pub(super) keys: Vec<Key>,
    /// It changed a schema: everything here is another since.
    pub(super) schema: bool,
}

/// Attempts that are remembered although they hold nothing here.
const IDLE_ATTEMPTS: usize = 10_000;

/// What a member finds of itself in the store.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Which keys the shard has.
    pub bounds: KeyRange,
    /// What it became from which key on, where it was split.
    pub children: Vec<(Key, ShardId)>,
    /// Its own rows.
    pub rows: Rows,
    /// The newest timestamp that was agreed.
    pub agreed: Timestamp,
}

impl Kept {
    /// From what the store says: which keys, what parts of it became, its rows, and the newest timestamp.
    pub fn new(
        shard: u32,
        bounds: KeyRange,
        children: Vec<(u32, KeyRange)>,
        rows: &[(Key, Value)],
        agreed: Timestamp,
    ) -> Result<Kept, Damaged> {
        let children = children.into_iter().map(|(child, keys)| (keys.start, ShardId(child))).collect();
        Ok(Kept { bounds, children, rows: Rows::read(ShardId(shard), rows)?, agreed })
    }
}

/// The most shards, ever, of a database, and the highest number of a node: together they are a timestamp's issuer.
pub const MOST_SHARDS: u32 = 1 << 16;

/// Issuers of one node's shards are told apart, so that a timestamp is unique (I2).
fn issuer(node: NodeId, shard: ShardId, floor: Timestamp) -> Issuer {
    assert!(node.0 < MOST_SHARDS && shard.0 < MOST_SHARDS, "invariant: numbers are checked where they are given out");
    Issuer::above((shard.0 << 16) | node.0, floor)
}

/// A member of a shard's group.
pub struct Replica {
    pub(super) group: Group,
    pub(super) me: NodeId,
    pub(super) database: DatabaseId,
    pub(super) shard: ShardId,
    /// Every node of the cluster: any of them may have members of the database's other shards.
    pub(super) nodes: Vec<NodeId>,
    /// Who is in the group, as far as is applied here.
    pub(super) members: Membership,
    /// How the shards began that were split off.
    pub(super) split_off: BTreeMap<ShardId, Birth>,
    /// What is known of the schemas of its tables.
    pub(super) schemas: Schemas,
    /// Somebody wants other members.
    pub(super) changing: Option<Changing>,
    /// Which keys the shard has, and from which key on others have what it had.
    pub(super) bounds: KeyRange,
    pub(super) children: BTreeMap<Key, ShardId>,
    /// The newest timestamp in the log as far as it is agreed, and in it at all as far as this leader put it there.
    pub(super) issuer: Issuer,
    /// The newest timestamp that is agreed, and the ceiling: whoever leads next issues above both.
    pub(super) agreed: Timestamp,
    pub(super) ceiling: Timestamp,
    /// The newest commit that may be shown: nothing at or below it will appear any more, but for what is prepared.
    pub(super) visible: Timestamp,
    /// Outcomes that are installed, above commits that are not visible yet.
    pub(super) late: Vec<Late>,
    /// Everything at or below was shown by some leader, as far as this member has heard; and what of that it has told the others.
    pub(super) shown: Timestamp,
    pub(super) told: Timestamp,
    /// The timer to tell them is armed.
    pub(super) telling: bool,
    pub(super) published: Readable,
    pub(super) leader: Option<NodeId>,
    /// Leads, and everything that was agreed before it led has surely passed.
    pub(super) serving: bool,
    pub(super) locks: LockTable,
    /// Who asks, and who is to lead therefore.
    pub(super) workload: Workload,
    pub(super) idleness: Idleness,
    /// The timer for idle transactions is armed.
    pub(super) watching: bool,
    pub(super) live: BTreeMap<TransactionId, Live>,
    /// What this leadership remembers of attempts that locked nothing before.
    pub(super) blinds: Blinds,
    /// How many attempts this life of the member has seen begin.
    pub(super) births: u64,
    /// Requests that wait for a lock.
    pub(super) pending: ByTransaction<Ticket, Pending>,
    pub(super) next_ticket: Ticket,
    /// Commits that hold their locks and wait for the lease to reach further.
    pub(super) ready: VecDeque<Pending>,
    /// Proposed.
    pub(super) agreeing: ByTransaction<Index, Pending>,
    /// Agreed; in commit wait, by their timestamps.
    pub(super) passing: ByTransaction<Timestamp, Passing>,
    /// Snapshots that wait until everything at or below them is visible.
    pub(super) snapshots: Vec<Snapshot>,
    /// This leader issues nothing at or below any more.
    pub(super) floor: Timestamp,
    /// A ceiling is wanted that is at least so high; one is being agreed on.
    pub(super) wanted_ceiling: Option<u64>,
    pub(super) raising: bool,
    /// What is prepared here, whoever leads.
    pub(super) prepared: BTreeMap<TransactionId, InDoubt>,
    /// What was decided here and is not in every participant's log, as far as is known, whoever leads.
    pub(super) debts: BTreeMap<TransactionId, Debt>,
    /// Commits that wait for votes.
    pub(super) collecting: BTreeMap<TransactionId, Collecting>,
    /// Attempts that have only read here, and want to vote; and those that have, with the bound of their commit timestamps.
    pub(super) would_vote: Vec<Pending>,
    pub(super) readers: BTreeMap<TransactionId, Reader>,
    /// Those whose bound is to be a later one.
    pub(super) renewing: BTreeSet<TransactionId>,
    /// Votes of this step.
    pub(super) votes: Vec<(Address, Message)>,
    /// The timer for what is prepared or owed is armed.
    pub(super) resolving: bool,
    /// When [`Timer::CommitWait`] is due at the latest, as far as this step has found.
    pub(super) wake_ns: Option<u64>,
    /// The shard is about to be split.
    pub(super) splitting: Option<Splitting>,
    pub(super) outcomes: BTreeMap<TransactionId, Timestamp>,
    /// How many of them are remembered.
    most_outcomes: usize,
    /// The remembered outcomes and their terms, oldest first.
    pub(super) remembered: VecDeque<(TransactionId, Term)>,
    /// Outcomes of this term and of earlier ones may be forgotten: who asks for one hears `Unknown`, never `Aborted`.
    pub(super) forgotten: Term,
}

fn embed(
    effect: meridian_machine::Effect<Group>,
    events: &mut VecDeque<Event>,
) -> Option<meridian_machine::Effect<Replica>> {
    use meridian_machine::Effect as E;
    Some(match effect {
        E::Send { to, message } => E::Send { to, message: Message::Group(message) },
        E::SendBefore { deadline, to, message } => E::SendBefore { deadline, to, message: Message::Group(message) },
        E::Arm { timer, at } => E::Arm { timer: Timer::Group(timer), at },
        E::Disarm { timer } => E::Disarm { timer: Timer::Group(timer) },
        E::Persist { position, record } => E::Persist { position, record },
        E::Do(event) => {
            events.push_back(event);
            return None;
        }
    })
}

/// The newest timestamp in a member's records, agreed or not.
pub fn newest(records: &[Record]) -> Timestamp {
    let entries = records.iter().flat_map(|record| match record {
        Record::Append { entries } => entries.as_slice(),
        Record::Standing { .. } | Record::Base { .. } | Record::Stay { .. } => &[],
    });
    let at = |entry: &Entry| match Agreed::decode(&entry.payload) {
        Ok(Some(agreed)) => agreed.newest(),
        Ok(None) | Err(_) => Timestamp::ZERO,
    };
    entries.map(at).max().unwrap_or_default()
}

impl Replica {
    /// A member, new or restored. The configuration's members are the shard's if it does not know better.
    pub fn new(
        config: impl Into<Config>,
        seed: u64,
        restored: Restored,
        kept: Kept,
        now: Reading,
        out: &mut Outbox<Replica>,
    ) -> Replica {
        let config = config.into();
        let (idleness, most_outcomes) = (Idleness::new(&config, now), config.outcomes);
        let mut config = config.group;
        let (me, database, shard) = (config.me, config.database, config.shard);
        let nodes = config.nodes.clone();
        let agreed = kept.agreed;
        if let Some(members) = &kept.rows.members {
            config.members = members.clone();
        } else if restored.stay().is_some() {
            config.members = Membership::default(); // It came later: who was there at birth does not tell who was there then.
        }
        let applied = (restored.applied, restored.applied_term);
        let (base, log) = restored.log();
        let mut events = VecDeque::new();
        let group = out.lend(|out| Group::new(config, seed, restored, now, out), |e| embed(e, &mut events));
        assert!(events.is_empty(), "a member is told nothing at its birth");
        let members = group.agreed_members().clone();
        let mut replica = Replica {
            group,
            me,
            database,
            shard,
            nodes,
            members,
            split_off: BTreeMap::new(),
            schemas: Schemas::default(),
            changing: None,
            bounds: KeyRange::default(),
            children: BTreeMap::new(),
            issuer: issuer(me, shard, agreed),
            agreed,
            ceiling: Timestamp::ZERO,
            visible: Timestamp::ZERO,
            late: Vec::new(),
            shown: Timestamp::ZERO,
            told: Timestamp::ZERO,
            telling: false,
            published: Readable::default(),
            leader: None,
            serving: false,
            locks: LockTable::new(),
            workload: Workload::default(),
            idleness,
            watching: false,
            live: BTreeMap::new(),
            blinds: Blinds::default(),
            births: 0,
            pending: ByTransaction::default(),
            next_ticket: 0,
            ready: VecDeque::new(),
            agreeing: ByTransaction::default(),
            passing: ByTransaction::default(),
            snapshots: Vec::new(),
            floor: Timestamp::ZERO,
            wanted_ceiling: None,
            raising: false,
            prepared: BTreeMap::new(),
            debts: BTreeMap::new(),
            collecting: BTreeMap::new(),
            would_vote: Vec::new(),
            readers: BTreeMap::new(),
            votes: Vec::new(),
            renewing: BTreeSet::new(),
            resolving: false,
            wake_ns: None,
            splitting: None,
            outcomes: BTreeMap::new(),
            most_outcomes,
            remembered: VecDeque::new(),
            forgotten: Term(0),
        };
        replica.take(kept);
        replica.recall(applied, base, &log);
        replica
    }

    /// Goes on from what the store has.
    fn take(&mut self, kept: Kept) {
        let Kept { bounds, children, rows, agreed } = kept;
        self.agreed = self.agreed.max(agreed);
        self.ceiling = self.ceiling.max(rows.ceiling);
        self.bounds = bounds;
        if let Some(members) = rows.members {
            self.members = members;
        }
        self.children.extend(children);
        rows.births.values().for_each(|birth| self.group.note_landmark(birth.index, birth.term));
        self.split_off.extend(rows.births);
        self.prepared = rows.prepared.into_iter().map(|(who, prepared)| (who, InDoubt::new(prepared))).collect();
        let changes = |(who, doubt): (&TransactionId, &InDoubt)| {
            doubt.record.changes.as_ref().map(|changes| (*who, Registered::new(changes)))
        };
        self.schemas.registered = self.prepared.iter().filter_map(changes).collect();
        self.schemas.agreed = rows.schemas;
        self.debts = rows.decisions.into_iter().map(|(who, decision)| (who, Debt::new(decision))).collect();
    }

    /// An issuer above everything that was agreed.
    pub(super) fn issuer_above(&self, floor: Timestamp) -> Issuer {
        issuer(self.me, self.shard, floor)
    }

    /// A member of another shard of this database.
    pub(super) fn seat(&self, node: NodeId, shard: ShardId) -> Address {
        Address::replica(node, self.database, shard)
    }

    /// Learns again what applied entries that are still in the log have said. The group does not tell them a second time.
    pub(super) fn recall(&mut self, applied: (Index, Term), base: (Index, Term), kept: &BTreeMap<Index, Entry>) {
        let mut next = Index(base.0.0 + 1);
        self.forgotten = base.1;
        for entry in kept.range(next..).map(|(_, entry)| entry) {
            if entry.index != next || next > applied.0 {
                break;
            }
            next.0 += 1;
            // The store has the rest. What cannot be read stopped the node when it was agreed on.
            if let Ok(Some(Agreed::Commit { at, transaction, .. } | Agreed::Outcome { at: Some(at), transaction })) =
                Agreed::decode(&entry.payload)
            {
                self.remember(transaction, at, entry.term);
            }
        }
        if next <= applied.0 {
            self.forgotten = applied.1; // The store is ahead of what is left of the log.
        }
    }

    pub(super) fn remember(&mut self, transaction: TransactionId, at: Timestamp, term: Term) {
        self.outcomes.insert(transaction, at);
        self.blinds.note_commit(transaction, at);
        self.remembered.push_back((transaction, term));
        if self.remembered.len() > self.most_outcomes
            && let Some((oldest, term)) = self.remembered.pop_front()
        {
            sometimes!("an outcome is forgotten for the sake of newer ones");
            self.outcomes.remove(&oldest);
            if !broken(Rule::ForgetsSilently) {
                self.forgotten = self.forgotten.max(term);
            }
        }
    }

    /// When a transaction committed, if that is remembered.
    pub(super) fn outcome_of(&self, transaction: TransactionId) -> Option<Timestamp> {
        self.outcomes.get(&transaction).copied().or_else(|| self.blinds.committed(transaction))
    }

    /// The group, to look at.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The lock table, to look at.
    pub fn locks(&self) -> &LockTable {
        &self.locks
    }

    /// Which keys the shard has.
    pub fn bounds(&self) -> &KeyRange {
        &self.bounds
    }

    /// How many transactions are prepared here or were decided here and not told to all.
    pub fn unresolved(&self) -> usize {
        self.prepared.len() + self.debts.len()
    }

    /// Whether it leads and serves.
    pub fn is_serving(&self) -> bool {
        self.serving
    }

    /// Gives up leadership as soon as every timestamp that was used has surely passed, and what is under way is decided. What is asked from
    /// now on is sent to another.
    pub fn abdicate(&mut self, now: Reading, out: &mut Outbox<Replica>) {
        self.with_group(now, out, |group, out| group.abdicate(now, None, out));
        self.finish(now, out);
    }

    /// Who is in the group, as far as is applied here.
    pub fn members(&self) -> &Membership {
        &self.members
    }

    /// Whether it keeps the log and no versions.
    pub fn is_witness(&self) -> bool {
        self.group.is_witness()
    }

    /// Who was in the group of a shard that was split off, at its birth, as far as is known here.
    pub fn members_at_birth(&self, child: ShardId) -> Option<&Membership> {
        self.split_off.get(&child).map(|birth| &birth.members)
    }

    /// Lets the group do something of its own (compact, abdicate, install a snapshot), then goes on.
    pub fn with_group<R>(
        &mut self,
        now: Reading,
        out: &mut Outbox<Replica>,
        step: impl FnOnce(&mut Group, &mut Outbox<Group>) -> R,
    ) -> R {
        let (mut events, before) = (VecDeque::new(), out.mark());
        let group = &mut self.group;
        let result = out.lend(|out| step(group, out), |effect| embed(effect, &mut events));
        let gave_up = self.published.leads && !self.group.is_leader();
        let gone = self.published.until > 0 && self.group.lease().is_none();
        if (gave_up || gone) && !broken(Rule::SlotWithdrawnLate) {
            // Before another is told that it may lead: its commits must not be missed by a session that begins here afterwards.
            self.published = Readable { until: 0, leads: false, quiet: false, ..self.published };
            out.act_at(before, Effect::Readable(self.published));
        }
        for event in events {
            self.on_event(now, event, out);
        }
        result
    }

    /// A copy of the shard through an entry was stored.
    pub fn snapshot_installed(
        &mut self,
        now: Reading,
        index: Index,
        term: Term,
        kept: Kept,
        out: &mut Outbox<Replica>,
    ) {
        self.take(kept);
        self.forgotten = self.forgotten.max(term);
        let members = self.members.clone();
        self.with_group(now, out, |group, out| group.install_snapshot(now, (index, term), members, out));
        self.finish(now, out);
    }
}

impl Machine for Replica {
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Effect = Effect;

    fn on_message(&mut self, now: Reading, from: Address, message: Message, out: &mut Outbox<Self>) {
        match message {
            Message::Group(message) => {
                self.with_group(now, out, |group, out| group.on_message(now, from, message, out));
            }
            Message::Ask(request) => self.on_ask(now, from, request, out),
            Message::Between(between) => self.on_between(now, from, between, out),
            Message::Shown(at) if self.group.is_peer(from) => self.shown = self.shown.max(at),
            Message::Shown(_) | Message::Answer(_) | Message::Leads(_) => return, // Not for this member.
        }
        self.finish(now, out);
    }

    fn on_timer(&mut self, now: Reading, timer: Timer, out: &mut Outbox<Self>) {
        match timer {
            Timer::Group(timer) => self.with_group(now, out, |group, out| group.on_timer(now, timer, out)),
            Timer::CommitWait | Timer::HandOver | Timer::Split => {}
            Timer::Workload => self.look_at_workload(now, out),
            Timer::Close => self.tell_shown(out),
            Timer::Resolve => self.resolve(now, out),
            Timer::MinNext => self.look_at_idleness(now, out),
            Timer::Idle => {
                let victims = self.locks.idle_victims(now.boot_ns);
                self.judge(now, victims, out);
                if self.live.len() > IDLE_ATTEMPTS {
                    // Victims whose sessions never came back. Should one come yet, it hears `Expired`.
                    self.live.retain(|_, live| live.doomed.is_none());
                }
                self.watching = false;
            }
        }
        self.finish(now, out);
    }

    fn on_durable(&mut self, now: Reading, through: Position, out: &mut Outbox<Self>) {
        self.with_group(now, out, |group, out| group.on_durable(now, through, out));
        self.finish(now, out);
    }
}
