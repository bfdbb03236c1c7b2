//! A shard whose replicas have a leader: everything that does not depend on how its transactions
//! are ordered.
//!
//! ```text
//!   request ──▶ participant ── propose ──▶ group ── agreed ──▶ shard's commands
//!                    ▲                                    └──▶ participant's commands
//!                    └── keys, timestamps, leadership ── shard
//! ```
//!
//! | file | question |
//! |---|---|
//! | `participant` | which interface do a shard and a concurrency control share? |
//! | `messages` | which messages, timers and effects does a member have? |
//! | `records` | what is agreed about the shard itself, and what is kept of it? |
//! | `step` | what is done in each step, and in which order? |
//! | `ceilings` | how are timestamps drawn, promised and closed? |
//! | `authority` | how do leaders and sessions get the timestamps of an authority? |
//! | `splits` | how does a shard become two? |
//! | `membership` | how do the members of a group change? |
//! | `leadership` | which member should lead? |
//! | `idleness` | what does a leader without requests do? |
//! | `lifecycle` | when does a node's member start, and how does it end? |
//! | `take_over` | when and how does a member continue from a copy of its shard? |
//!
//! Invariants:
//! 1. Timestamps grow in the order of the log, except those of outcomes that another shard decided.
//!    A new leader starts above everything in the log, whatever its clock says (Trap A.5-2).
//! 2. A promised timestamp above every commit lies below a ceiling that the log holds: no later
//!    leader issues at or below it (I4).
//! 3. A timestamp is *closed* at a member that has installed an entry at or above it, if it was
//!    visible at a leader and nothing below is in doubt: a snapshot of it is right for ever.
//!    Leaders tell members what was visible ([`Message::LeaderVisible`]).

mod authority;
mod ceilings;
mod idleness;
mod leadership;
pub mod lifecycle;
mod membership;
mod messages;
mod participant;
pub(crate) mod records;
pub mod rules;
mod splits;
mod step;
mod take_over;

pub use idleness::Config;
pub use membership::{Invitations, Origin};
pub use messages::{Effect, Message, Serve, Timer};
pub use participant::Participant;
pub use records::{
    Command, Damaged, OwnRows, Recovered, Rows, ShardCommand, SplitOrigin, initial_members, newest,
    split_rows,
};
pub use take_over::{CopyDecision, CopyError, ReceivedCopy};

pub(crate) use ceilings::LEASE_SOON_NS;
pub(crate) use records::{
    bytes, name_of, row, row_of_ceiling, row_of_schema, take_schema, transaction_of,
};

use authority::AuthorityState;
use idleness::Idleness;
use leadership::Workload;
use membership::Changing;
use meridian_clock::{Issuer, Reading, Timestamp, TimestampPolicy};
use meridian_machine::{Address, DatabaseId, NodeId, Outbox, ShardId};
use meridian_mvcc::{Key, KeyRange};
use meridian_replication::group::{Entry, Group, Index, Membership, Restored, Term};
use meridian_txn::locking::Waits;
use meridian_txn::shards::{ReadLease, Response};
use splits::Splitting;
use std::collections::{BTreeMap, VecDeque};

/// The most shards that a database may ever have, and the limit of node ids: together they make the
/// issuer of a timestamp.
pub const MOST_SHARDS: u32 = 1 << 16;

/// Returns a shard's issuer on a node, distinct from every other, so that a timestamp is unique
/// (I2).
fn issuer(node: NodeId, shard: ShardId, read_floor: Timestamp) -> Issuer {
    assert!(
        node.0 < MOST_SHARDS && shard.0 < MOST_SHARDS,
        "invariant: numbers are checked where they are given out"
    );
    Issuer::above((shard.0 << 16) | node.0, read_floor)
}

/// The messages of a shard with this participant.
pub type MessageOf<P> = Message<<P as Participant>::Peer>;

/// A member of a shard's group.
pub struct Shard<P: Participant> {
    /// The concurrency control.
    pub(crate) participant: P,
    pub(crate) group: Group,
    pub(crate) me: NodeId,
    pub(crate) database: DatabaseId,
    pub(crate) shard: ShardId,
    /// Every node of the cluster: any of them may have members of the database's other shards.
    pub(crate) nodes: Vec<NodeId>,
    /// The members of the group, as of the applied entries.
    members: Membership,
    /// The origin of the shards that were split off.
    split_off: BTreeMap<ShardId, SplitOrigin>,
    /// A pending membership change.
    changing: Option<Changing>,
    /// The shard's keys, and the shards that were split off, by their first keys.
    pub(crate) bounds: KeyRange,
    children: BTreeMap<Key, ShardId>,
    /// Issues above the newest timestamp in the log: agreed, or proposed by this leader.
    pub(crate) issuer: Issuer,
    /// The relation of timestamps to time.
    pub(crate) policy: &'static dyn TimestampPolicy,
    /// The greatest timestamp that this member has adopted.
    heard: Timestamp,
    /// The newest agreed timestamp, and the ceiling: the next leader issues above both.
    pub(crate) agreed: Timestamp,
    pub(crate) ceiling: Timestamp,
    /// The newest visible commit: nothing at or below it appears any more, except transactions in
    /// doubt.
    pub(crate) visible: Timestamp,
    /// Everything at or below `leader_visible` was visible at a leader, as far as this member
    /// knows; `announced` is what it last sent to the other members.
    leader_visible: Timestamp,
    announced: Timestamp,
    /// True if the timer for that is armed.
    announcing: bool,
    published: ReadLease,
    leader: Option<NodeId>,
    /// True if this member leads, and everything agreed before has surely passed.
    pub(crate) serving: bool,
    /// The requests of each node, and the transfer target.
    pub(crate) workload: Workload,
    idleness: Idleness,
    /// Read floor: this leader issues only above it.
    read_floor: Timestamp,
    /// The requested ceiling in nanoseconds, and true if one is being agreed on.
    wanted_ceiling: Option<u64>,
    raising: bool,
    /// Timestamps of the authority: wanted here, or asked for here.
    authority: AuthorityState,
    /// The time until [`Timer::CommitWait`] must fire, in nanoseconds, as far as is known.
    wake_ns: Option<u64>,
    /// A pending split.
    pub(crate) splitting: Option<Splitting>,
}

impl<P: Participant> Shard<P> {
    /// Makes a member, new or restored. The configuration's members count only if the store and the
    /// log have none.
    pub fn new(
        config: impl Into<Config>,
        seed: u64,
        restored: Restored,
        recovered: Recovered<P::Rows>,
        now: Reading,
        out: &mut Outbox<Shard<P>>,
    ) -> Shard<P> {
        let config = config.into();
        let policy = config.policy;
        let (idleness, participant) = (Idleness::new(&config, now), P::new(&config));
        let mut config = config.group;
        let (me, database, shard) = (config.me, config.database, config.shard);
        let nodes = config.nodes.clone();
        let agreed = recovered.agreed;
        if let Some(members) = &recovered.rows.members {
            config.members = members.clone();
        } else if restored.membership_epoch().is_some() {
            // It was added later: the members at the shard's creation may not include it.
            config.members = Membership::default();
        }
        let applied = (restored.applied, restored.applied_term);
        let (base, log) = restored.log();
        let mut events = VecDeque::new();
        let group = out.lend(
            |out| Group::new(config, seed, restored, now, out),
            |e| step::embed(e, &mut events),
        );
        assert!(events.is_empty(), "a new group reports no events");
        let members = group.agreed_members().clone();
        let mut replica = Shard {
            participant,
            group,
            me,
            database,
            shard,
            nodes,
            members,
            split_off: BTreeMap::new(),
            changing: None,
            bounds: KeyRange::default(),
            children: BTreeMap::new(),
            issuer: issuer(me, shard, agreed),
            policy,
            heard: Timestamp::ZERO,
            agreed,
            ceiling: Timestamp::ZERO,
            visible: Timestamp::ZERO,
            leader_visible: Timestamp::ZERO,
            announced: Timestamp::ZERO,
            announcing: false,
            published: ReadLease::default(),
            leader: None,
            serving: false,
            workload: Workload::default(),
            idleness,
            read_floor: Timestamp::ZERO,
            wanted_ceiling: None,
            raising: false,
            authority: AuthorityState::default(),
            wake_ns: None,
            splitting: None,
        };
        replica.take(recovered);
        replica.recall(applied, base, &log);
        replica
    }

    /// Restores the state that the store holds.
    fn take(&mut self, recovered: Recovered<P::Rows>) {
        let Recovered { bounds, children, rows, agreed } = recovered;
        self.agreed = self.agreed.max(agreed);
        self.ceiling = self.ceiling.max(rows.ceiling);
        self.bounds = bounds;
        if let Some(members) = rows.members {
            self.members = members;
        }
        self.children.extend(children);
        rows.split_origins
            .values()
            .for_each(|split_origin| self.group.pin_entry(split_origin.index, split_origin.term));
        self.split_off.extend(rows.split_origins);
        P::restore(self, rows.own);
    }

    /// Replays applied entries that are still in the log to the participant. The group does not
    /// report them again.
    fn recall(
        &mut self,
        applied: (Index, Term),
        base: (Index, Term),
        recovered: &BTreeMap<Index, Entry>,
    ) {
        let mut next = Index(base.0.0 + 1);
        self.participant.forget_through(base.1);
        for entry in recovered.range(next..).map(|(_, entry)| entry) {
            if entry.index != next || next > applied.0 {
                break;
            }
            next.0 += 1;
            // The store has the rest. An entry that cannot be read stopped the node when it was
            // agreed.
            if let Ok(Some(command)) = P::Command::from_payload(&entry.payload) {
                self.participant.recall(command, entry.term);
            }
        }
        if next <= applied.0 {
            // The store is ahead of the rest of the log.
            self.participant.forget_through(applied.1);
        }
    }

    /// Returns the address of a shard's member on a node.
    pub(crate) fn replica_address(&self, node: NodeId, shard: ShardId) -> Address {
        Address::replica(node, self.database, shard)
    }

    /// Answers a request about the shard.
    pub(crate) fn answer(&self, to: Address, response: Response, out: &mut Outbox<Shard<P>>) {
        out.send(to, Message::Response(response));
    }

    /// Answers that another member leads, with its node if it is known.
    pub(crate) fn answer_not_leader(&self, to: Address, id: u64, out: &mut Outbox<Shard<P>>) {
        let leader = self.group.leader().map(|node| node.0);
        self.answer(to, Response::NotLeader { id, leader }, out);
    }

    /// The group, for inspection.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The requests that wait for other transactions.
    pub fn waits(&self) -> Vec<Waits> {
        self.participant.waits()
    }

    /// The number of transactions that hold locks or intents here.
    pub fn holders(&self) -> usize {
        self.participant.holders()
    }

    /// The number of transactions whose outcome is not known here, or not in every log that needs
    /// it.
    pub fn unresolved(&self) -> usize {
        self.participant.unresolved()
    }

    /// The shard's keys.
    pub fn bounds(&self) -> &KeyRange {
        &self.bounds
    }

    /// True if this member leads and serves.
    pub fn is_serving(&self) -> bool {
        self.serving
    }

    /// Gives up leadership as soon as every used timestamp has surely passed and pending work is
    /// decided. New requests are sent to another member.
    pub fn transfer_leadership(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        self.with_group(now, out, |group, out| group.transfer_leadership(now, None, out));
        self.finish(now, out);
    }

    /// The members of the group, as of the applied entries.
    pub fn members(&self) -> &Membership {
        &self.members
    }

    /// True if it keeps the log and no versions.
    pub fn is_witness(&self) -> bool {
        self.group.is_witness()
    }

    /// The members of a shard that was split off, at its creation, if they are known here.
    pub fn initial_members(&self, child: ShardId) -> Option<&Membership> {
        self.split_off.get(&child).map(|split_origin| &split_origin.members)
    }
}
