//! A shard whose replicas have a leader: everything that does not depend on how its transactions
//! are ordered.
//!
//! ```text
//!   request ──▶ participant ── propose ──▶ group ── agreed ──▶ the shard's own commands (ceilings, splits, members)
//!                    ▲                                    └──▶ participant's commands
//!                    └── keys, timestamps, leadership ── shard
//! ```
//!
//! | file | question |
//! |---|---|
//! | `participant` | what do a shard and a concurrency control want of each other? |
//! | `messages` | what do members, coordinators and runtimes say? |
//! | `records` | what is agreed about the shard itself, and what is kept of it? |
//! | `step` | what is done in each step, and in which order? |
//! | `ceilings` | how are timestamps drawn, promised and closed? |
//! | `splits` | how does a shard become two? |
//! | `membership` | how does a group come to have other members? |
//! | `leadership` | which member should lead? |
//! | `idleness` | what does a leader do that is not asked for? |
//! | `lifecycle` | when does a node's member begin? |
//!
//! Invariants:
//! 1. Timestamps grow in the order of the log, but those of outcomes that were decided elsewhere. A
//!    new leader starts above everything in it, whatever its clock says (Trap A.5-2).
//! 2. What is promised above every commit lies below a ceiling that the log holds: no later leader
//!    assigns at or below it (I4).
//! 3. A timestamp is *closed* at a member that has installed an entry at or above it, if a leader
//!    has shown that much and nothing below is in doubt: a snapshot of it is right for ever.
//!    Leaders tell members how far they have shown ([`Message::Shown`]).

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

pub use idleness::Config;
pub use membership::{Invitations, Origin};
pub use messages::{Effect, Message, Timer};
pub use participant::{Participant, Request, ShardResponse};
pub use records::{
    Birth, Command, Damaged, Kept, OwnRows, Rows, ShardCommand, members_at_birth, newest,
    rows_of_birth,
};

pub(crate) use ceilings::LEASE_SOON_NS;
pub(crate) use records::{bytes, row};

use idleness::Idleness;
use leadership::Workload;
use membership::Changing;
use meridian_clock::{Issuer, Reading, Timestamp};
use meridian_machine::{Address, DatabaseId, NodeId, Outbox, ShardId};
use meridian_mvcc::{Key, KeyRange};
use meridian_replication::group::{Entry, Group, Index, Membership, Restored, Term};
use meridian_txn::locking::Readable;
use splits::Splitting;
use std::collections::{BTreeMap, VecDeque};

/// The most shards, ever, of a database, and the highest number of a node: together they are a
/// timestamp's issuer.
pub const MOST_SHARDS: u32 = 1 << 16;

/// Issuers of one node's shards are told apart, so that a timestamp is unique (I2).
fn issuer(node: NodeId, shard: ShardId, floor: Timestamp) -> Issuer {
    assert!(
        node.0 < MOST_SHARDS && shard.0 < MOST_SHARDS,
        "invariant: numbers are checked where they are given out"
    );
    Issuer::above((shard.0 << 16) | node.0, floor)
}

/// What members of a shard with this participant say.
pub type MessageOf<P> =
    Message<<P as Participant>::Request, <P as Participant>::Response, <P as Participant>::Peer>;

/// A member of a shard's group.
pub struct Shard<P: Participant> {
    /// How transactions are ordered.
    pub(crate) participant: P,
    pub(crate) group: Group,
    pub(crate) me: NodeId,
    pub(crate) database: DatabaseId,
    pub(crate) shard: ShardId,
    /// Every node of the cluster: any of them may have members of the database's other shards.
    pub(crate) nodes: Vec<NodeId>,
    /// The members of the group, as far as is applied here.
    members: Membership,
    /// How the shards began that were split off.
    split_off: BTreeMap<ShardId, Birth>,
    /// A request for other members.
    changing: Option<Changing>,
    /// The shard's keys, and the shards that have what it had from a key on.
    pub(crate) bounds: KeyRange,
    children: BTreeMap<Key, ShardId>,
    /// The newest timestamp in the log as far as it is agreed, and in it at all as far as this
    /// leader put it there.
    pub(crate) issuer: Issuer,
    /// The newest timestamp that is agreed, and the ceiling: the next leader issues above both.
    pub(crate) agreed: Timestamp,
    pub(crate) ceiling: Timestamp,
    /// The newest commit that may be shown: nothing at or below it appears any more, but for what
    /// is in doubt.
    pub(crate) visible: Timestamp,
    /// Everything at or below was shown by some leader, as far as this member has heard; and what
    /// of that it has told the others.
    shown: Timestamp,
    told: Timestamp,
    /// The timer to tell them is armed.
    telling: bool,
    published: Readable,
    leader: Option<NodeId>,
    /// Leads, and everything that was agreed before it led has surely passed.
    pub(crate) serving: bool,
    /// Which nodes ask, and which one is to lead therefore.
    pub(crate) workload: Workload,
    idleness: Idleness,
    /// Read floor: this leader issues only above it.
    floor: Timestamp,
    /// A ceiling is wanted that is at least so high; one is being agreed on.
    wanted_ceiling: Option<u64>,
    raising: bool,
    /// When [`Timer::CommitWait`] is due at the latest, as far as this step has found.
    wake_ns: Option<u64>,
    /// The shard is about to be split.
    pub(crate) splitting: Option<Splitting<P::Request>>,
}

impl<P: Participant> Shard<P> {
    /// A member, new or restored. The configuration's members are the shard's if it does not know
    /// better.
    pub fn new(
        config: impl Into<Config>,
        seed: u64,
        restored: Restored,
        kept: Kept<P::Rows>,
        now: Reading,
        out: &mut Outbox<Shard<P>>,
    ) -> Shard<P> {
        let config = config.into();
        let (idleness, participant) = (Idleness::new(&config, now), P::new(&config));
        let mut config = config.group;
        let (me, database, shard) = (config.me, config.database, config.shard);
        let nodes = config.nodes.clone();
        let agreed = kept.agreed;
        if let Some(members) = &kept.rows.members {
            config.members = members.clone();
        } else if restored.stay().is_some() {
            // It came later: the members at birth need not have been there then.
            config.members = Membership::default();
        }
        let applied = (restored.applied, restored.applied_term);
        let (base, log) = restored.log();
        let mut events = VecDeque::new();
        let group = out.lend(
            |out| Group::new(config, seed, restored, now, out),
            |e| step::embed(e, &mut events),
        );
        assert!(events.is_empty(), "a member is told nothing at its birth");
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
            agreed,
            ceiling: Timestamp::ZERO,
            visible: Timestamp::ZERO,
            shown: Timestamp::ZERO,
            told: Timestamp::ZERO,
            telling: false,
            published: Readable::default(),
            leader: None,
            serving: false,
            workload: Workload::default(),
            idleness,
            floor: Timestamp::ZERO,
            wanted_ceiling: None,
            raising: false,
            wake_ns: None,
            splitting: None,
        };
        replica.take(kept);
        replica.recall(applied, base, &log);
        replica
    }

    /// Restores what the store has.
    fn take(&mut self, kept: Kept<P::Rows>) {
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
        P::restore(self, rows.own);
    }

    /// Learns again what applied entries that are still in the log have said. The group does not
    /// tell them a second time.
    fn recall(
        &mut self,
        applied: (Index, Term),
        base: (Index, Term),
        kept: &BTreeMap<Index, Entry>,
    ) {
        let mut next = Index(base.0.0 + 1);
        self.participant.forget_through(base.1);
        for entry in kept.range(next..).map(|(_, entry)| entry) {
            if entry.index != next || next > applied.0 {
                break;
            }
            next.0 += 1;
            // The store has the rest. What cannot be read stopped the node when it was agreed on.
            if let Ok(Some(command)) = P::Command::decode(&entry.payload) {
                self.participant.recall(command, entry.term);
            }
        }
        if next <= applied.0 {
            // The store is ahead of what is left of the log.
            self.participant.forget_through(applied.1);
        }
    }

    /// A member of another shard of this database.
    pub(crate) fn seat(&self, node: NodeId, shard: ShardId) -> Address {
        Address::replica(node, self.database, shard)
    }

    /// Answers a request about the shard.
    pub(crate) fn answer(&self, to: Address, response: ShardResponse, out: &mut Outbox<Shard<P>>) {
        out.send(to, Message::Answer(response.into()));
    }

    /// Answers that another member leads, as far as is known here.
    pub(crate) fn answer_not_leader(&self, to: Address, id: u64, out: &mut Outbox<Shard<P>>) {
        let leader = self.group.leader().map(|node| node.0);
        self.answer(to, ShardResponse::NotLeader { id, leader }, out);
    }

    /// The group, to look at.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The shard's keys.
    pub fn bounds(&self) -> &KeyRange {
        &self.bounds
    }

    /// Whether it leads and serves.
    pub fn is_serving(&self) -> bool {
        self.serving
    }

    /// Gives up leadership as soon as every timestamp that was used has surely passed, and what is
    /// under way is decided. What is asked from now on is sent to another.
    pub fn abdicate(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        self.with_group(now, out, |group, out| group.abdicate(now, None, out));
        self.finish(now, out);
    }

    /// The members of the group, as far as is applied here.
    pub fn members(&self) -> &Membership {
        &self.members
    }

    /// Whether it keeps the log and no versions.
    pub fn is_witness(&self) -> bool {
        self.group.is_witness()
    }

    /// The members of the group of a shard that was split off, at its birth, as far as is known
    /// here.
    pub fn members_at_birth(&self, child: ShardId) -> Option<&Membership> {
        self.split_off.get(&child).map(|birth| &birth.members)
    }

    /// A copy of the shard through an entry was stored.
    pub fn snapshot_installed(
        &mut self,
        now: Reading,
        index: Index,
        term: Term,
        kept: Kept<P::Rows>,
        out: &mut Outbox<Shard<P>>,
    ) {
        self.take(kept);
        self.participant.forget_through(term);
        let members = self.members.clone();
        self.with_group(now, out, |group, out| {
            group.install_snapshot(now, (index, term), members, out)
        });
        self.finish(now, out);
    }
}
