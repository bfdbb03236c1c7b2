//! An incarnation of a node in the Spanner protocol: members of groups, whose logs are in the
//! node's log, and shards that are created, copied and left.

use super::Spanner;
use super::desk::Desk;
use crate::Defect;
use crate::clock::NodeClock;
use crate::journal::{DATABASE, Journal, Records};
use crate::life::{self, SETTLE_BYTES, Unfit, full};
use meridian_clock::Timestamp;
use meridian_log::MemoryDisk;
use meridian_machine::{DatabaseId, Incarnation, NodeId, Outbox, ShardId};
use meridian_mvcc::{KeyRange, Store, StoreError};
use meridian_replication::group::{
    Config, Entry, Index, Membership, Record, Restored, Roster, Stay, Term,
};
use meridian_store::courier::{Courier, Pace, Received};
use meridian_store::{Left, Space};
use meridian_systems::envelope;
use meridian_systems::spanner::lifecycle::{self, LeftChild, Members};
use meridian_systems::spanner::{self, Damaged, Invitations, KIND, Kept, Origin, Replica, Rows};
use meridian_txn::Database;
use meridian_txn::locking::Gateway;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

const MS: u64 = 1_000_000;

pub type Life = life::Life<Spanner>;
pub type Member = life::Member<Replica>;

/// The timeouts of a member.
pub struct Timing {
    pub election_timeout_ns: u64,
    pub lease_ns: u64,
    /// The idle time after which a leader closes timestamps; `quiesce_ns` is the idle time after
    /// which a shard quiesces.
    pub min_next_ns: u64,
    pub quiesce_ns: u64,
}

/// The amount of state that a member retains after transactions end: less than in a server, so that
/// it is trimmed within a run.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// The number of outcomes that it remembers for repeated requests.
    pub outcomes: usize,
    /// The bytes of the log, of entries that its store has, that it keeps for slow members.
    pub log_bytes: usize,
}

impl Retention {
    /// Remembers every commit of a run.
    pub const LONG: Retention = Retention { outcomes: 10_000, log_bytes: 2 << 10 };

    /// Draws a retention: in half of the seeds few or no outcomes; in half a short log.
    pub fn draw(keepers: &mut ChaCha8Rng) -> Retention {
        let few = keepers.random_bool(0.5).then(|| keepers.random_range(0..40));
        let short = keepers.random_bool(0.5).then(|| keepers.random_range(256..1 << 10));
        Retention {
            outcomes: few.unwrap_or(Self::LONG.outcomes),
            log_bytes: short.unwrap_or(Self::LONG.log_bytes),
        }
    }
}

/// Small pages, so that a copy takes several of them, and a window does not cover it all.
const PACE: Pace = Pace {
    again_ns: 500 * MS,
    patience_ns: 5_000 * MS,
    page_bytes: 1 << 10,
    window: 4,
    settle_bytes: SETTLE_BYTES,
};

/// Returns the log of a shard as found on a disk: the index before the first entry, and the
/// entries.
pub fn log_of(disk: &MemoryDisk, shard: ShardId) -> (Index, BTreeMap<Index, Entry>) {
    let Ok((_, recovered)) = Journal::open(disk, false) else { return Default::default() };
    let of_shard = recovered.get(&shard).into_iter().flatten();
    let records = of_shard.filter_map(|bytes| envelope::read::<Vec<Record>>(KIND, bytes).ok());
    let restored = Restored { records: records.flatten().collect(), ..Restored::default() };
    let (base, kept) = restored.log();
    (base.0, kept)
}

/// The configuration that the members of an incarnation share.
struct Birth {
    me: NodeId,
    nodes: Vec<NodeId>,
    seed: u64,
    timing: Timing,
    retention: Retention,
    defect: Option<Defect>,
    clock: Arc<NodeClock>,
}

/// Spanner's own state of an incarnation.
pub struct Own {
    birth: Birth,
    /// The recovered log records of shards that have no member yet.
    records: Records,
    /// The stores of shards that were just removed here: their children are yet to be created.
    left: Vec<Arc<Space>>,
    invitations: Invitations,
    /// The copies of shards in progress; `ticks` is true while a timer for them is scheduled.
    pub courier: Courier,
    pub ticks: bool,
}

/// Returns a shard's persisted state beside its versions.
fn kept(space: &Space, shard: ShardId, agreed: Timestamp) -> Result<Kept, Unfit> {
    let kept =
        Kept::new(shard.0, space.bounds(), space.children()?, &space.protocol_rows()?, agreed);
    kept.map_err(|damaged| Unfit::Damaged(damaged.0))
}

impl Life {
    /// Begins an incarnation with the contents of the disks: with a member of the first shard,
    /// unless a scenario places members.
    pub fn begin(
        me: NodeId,
        incarnation: Incarnation,
        nodes: &[NodeId],
        (seed, timing, retention, defect): (u64, Timing, Retention, Option<Defect>),
        admitted: bool,
        placed: bool,
        clock: &Arc<NodeClock>,
        disks: &(MemoryDisk, MemoryDisk),
    ) -> Result<Life, Unfit> {
        let desk = Arc::new(Desk::new(Arc::clone(clock), (me, incarnation), nodes.to_vec(), seed));
        let gateway = Arc::new(Gateway::new(Arc::clone(&desk))) as Arc<dyn Database>;
        let (nodes, clock) = (nodes.to_vec(), Arc::clone(clock));
        let birth = Birth { me, nodes, seed, timing, retention, defect, clock };
        let courier = Courier::new(PACE, u64::from(incarnation.0) << 32);
        let (records, left, invitations) = (Records::new(), Vec::new(), Invitations::default());
        let own = Own { birth, records, left, invitations, courier, ticks: false };
        let (mut life, records) = Life::dawn(incarnation, (desk, gateway), own, admitted, disks)?;
        life.own.records = records;
        lifecycle::start(&mut life, placed)?;
        Ok(life)
    }

    /// Creates a member of a shard whose voters are known from the start.
    pub fn place(
        &mut self,
        shard: ShardId,
        bounds: KeyRange,
        voters: &[NodeId],
        eager: bool,
    ) -> Result<(), Unfit> {
        let members = Membership::at_birth(Roster::voters(voters.iter().copied()));
        lifecycle::begin(self, shard, bounds, Origin::Placed(Box::new(members)), eager)
    }

    /// Creates a member of a shard on the invitation of its leader. Returns true if it was created.
    pub fn invite(&mut self, shard: ShardId, stay: Stay) -> Result<bool, Unfit> {
        if self.members.contains_key(&shard) || !self.own.invitations.heeds(shard, stay.since) {
            return Ok(false);
        }
        Ok(lifecycle::heeds(self, shard, stay)? && lifecycle::invite(self, shard, stay)?)
    }

    /// Removes this node's member of a shard.
    pub fn remove(&mut self, shard: ShardId, since: Index) -> Result<(), StoreError> {
        let Some(member) = self.members.get(&shard) else { return Ok(()) };
        member.space.leave(since.0, |child| {
            Origin::keep(member.replica.members_at_birth(ShardId(child)))
        })?;
        let left = self.members.remove(&shard).map(|member| member.space);
        self.own.left.extend(left);
        self.desk.forget(shard);
        self.journal.leave(shard);
        Ok(())
    }

    /// Creates the members of child shards that were split off since the last call, and returns the
    /// shards that are new on this node.
    pub fn bear_children(&mut self) -> Result<Vec<ShardId>, Unfit> {
        let born = |(parent, member): (&ShardId, &Member)| {
            let (parent, eager) = (*parent, member.replica.is_serving());
            member
                .space
                .born()
                .into_iter()
                .map(move |(child, bounds)| (parent, ShardId(child), bounds, eager))
        };
        let born: Vec<_> = self.members.iter().flat_map(born).collect();
        let before: Vec<ShardId> = self.members.keys().copied().collect();
        for (parent, child, bounds, eager) in born {
            lifecycle::begin_child(self, parent, child, bounds, eager)?;
        }
        for space in std::mem::take(&mut self.own.left) {
            let left = space.left()?.into_iter().map(of_left).collect();
            lifecycle::begin_left(self, left)?;
        }
        Ok(self.members.keys().copied().filter(|shard| !before.contains(shard)).collect())
    }

    /// Flushes versions to the store, removes old ones, and with `checkpoint` truncates the log.
    pub fn settle(
        &mut self,
        now_ns: u64,
        retention_ns: u64,
        checkpoint: bool,
        defect: Option<Defect>,
    ) -> Result<(), StoreError> {
        for (shard, member) in &self.members {
            let space = &member.space;
            let settled = space.settle(SETTLE_BYTES).map(drop);
            let closed = self.desk.readable(*shard).closed;
            let settled = settled
                .and_then(|()| space.collect(now_ns, retention_ns, closed, SETTLE_BYTES).map(drop));
            if full(settled)? {
                return Ok(());
            }
        }
        if !checkpoint {
            return Ok(());
        }
        let mut applied = Vec::new();
        for (shard, member) in &self.members {
            applied.push((*shard, member.space.extent()?.position));
        }
        if defect != Some(Defect::ForgottenTooEarly) && full(self.store.checkpoint())? {
            return Ok(());
        }
        // Compaction does not depend on the time.
        let reading = meridian_clock::Reading::at(0, meridian_clock::Interval::around(0, 0));
        for (shard, applied) in applied {
            let Some(member) = self.members.get_mut(&shard) else { continue };
            let records = member.replica.with_group(reading, &mut member.out, |group, _| {
                group.compact(Index(applied));
                group.checkpoint()
            });
            self.journal.checkpoint(shard, envelope::write(KIND, &records).into());
        }
        Ok(())
    }

    /// Applies the splits that a copy announces and that this node's log contains. Returns true if
    /// there are effects to carry out first.
    pub fn learn_births(
        &mut self,
        now: meridian_clock::Reading,
        received: &Received,
    ) -> Result<bool, Unfit> {
        let shard = ShardId(received.key.shard);
        let Some(member) = self.members.get_mut(&shard) else { return Ok(false) };
        let own = member.space.protocol_rows_of(received.copy)?;
        let rows = Rows::read(shard, &own).map_err(|damaged| Unfit::Damaged(damaged.0))?;
        Ok(member.replica.learn_births(now, &rows, &mut member.out))
    }

    /// Continues from a copy, if the member still lacks part of it. Decided transactions are in the
    /// outbox.
    pub fn take_over(
        &mut self,
        now: meridian_clock::Reading,
        received: &Received,
    ) -> Result<bool, Unfit> {
        let Received { key, copy, extent, .. } = *received;
        let shard = ShardId(key.shard);
        let Some(member) = self.members.get_mut(&shard) else { return Ok(false) };
        let space = &member.space;
        if member.replica.group().commit_index() >= Index(extent.position)
            || !member.replica.group().has_joined()
        {
            return Ok(false); // The log was faster, or the membership is not durable yet.
        }
        space.use_copy(copy, extent)?;
        space.tell_children()?;
        self.desk.learn(&space.bounds(), shard, Arc::clone(space));
        let (index, term, kept) =
            (Index(extent.position), Term(extent.term), kept(space, shard, extent.at)?);
        member.replica.snapshot_installed(now, index, term, kept, &mut member.out);
        Ok(true)
    }
}

fn of_left(Left { child, bounds, birth }: Left) -> LeftChild {
    (ShardId(child), bounds, birth)
}

impl Members for Life {
    type Member = Member;
    type Error = Unfit;

    fn has(&self, shard: ShardId) -> bool {
        self.members.contains_key(&shard)
    }

    fn all_nodes(&self) -> Membership {
        Membership::at_birth(Roster::voters(self.own.birth.nodes.iter().copied()))
    }

    fn recovered(&self) -> Vec<ShardId> {
        self.own.records.keys().copied().collect()
    }

    fn has_records(&self, shard: ShardId) -> bool {
        self.own.records.contains_key(&shard)
    }

    fn forget_recovered(&mut self, shard: ShardId) {
        self.own.records.remove(&shard);
    }

    fn forget_log(&mut self, shard: ShardId) {
        self.journal.forget(shard);
    }

    fn removed(&self, shard: ShardId) -> Result<Option<Index>, Unfit> {
        Ok(Space::removed(DATABASE, shard.0, &*self.store)?.map(Index))
    }

    fn expects(&self, shard: ShardId) -> bool {
        let expects =
            |member: &Member| member.replica.expects(shard) || member.space.expects_child(shard.0);
        self.members.values().any(expects)
    }

    fn parent_knows(&self, parent: ShardId, child: ShardId) -> Option<Option<Membership>> {
        self.members.get(&parent).map(|member| member.replica.members_at_birth(child).cloned())
    }

    fn learn_route(&mut self, shard: ShardId, bounds: &KeyRange) {
        self.desk.map().learn_route(&bounds.start, bounds.start.clone(), shard);
    }

    fn restore(
        &mut self,
        shard: ShardId,
        bounds: KeyRange,
        origin: Origin,
        eager: bool,
    ) -> Result<lifecycle::Restored<Member>, Unfit> {
        let birth = &self.own.birth;
        let mut records: Vec<Record> = Vec::new();
        for bytes in self.own.records.get(&shard).into_iter().flatten() {
            records.extend(envelope::read::<Vec<Record>>(KIND, bytes).map_err(Unfit::Wrong)?);
        }
        match birth.defect {
            Some(Defect::VoteForgotten) => {
                records.retain(|record| !matches!(record, Record::Standing { .. }))
            }
            Some(Defect::EntriesForgotten) => {
                let last =
                    records.iter().rposition(|record| matches!(record, Record::Append { .. }));
                last.map(|at| records.remove(at));
            }
            _ => {}
        }
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let space = Arc::new(Space::open_with(DATABASE, shard.0, bounds, store)?);
        let extent = space.extent()?;
        let restored =
            Restored { records, applied: Index(extent.position), applied_term: Term(extent.term) };
        let kept = kept(&space, shard, extent.at)?;
        let removed = Space::removed(DATABASE, shard.0, &*self.store)?.map(Index);
        let left = space.left()?;
        let left = left.into_iter().map(of_left).collect();
        let begins = origin.begins(birth.me, removed, &restored, &kept);
        let Some(origin) = begins.map_err(|base| space.lacks(base.0))? else {
            let ended = Origin::has_ended(birth.me, removed, &kept);
            return Ok(lifecycle::Restored { member: None, ended, left });
        };
        if let Origin::Invited(stay) = &origin {
            space.begin_empty(stay.since.0)?;
        }
        let mut config = Config::new(birth.me, birth.nodes.clone(), DatabaseId(DATABASE), shard);
        (config.heartbeat_ns, config.election_timeout_ns) =
            (50 * MS, birth.timing.election_timeout_ns);
        config.confirm_ns = 10_000 * MS;
        config.lease_ns = birth.timing.lease_ns;
        config.keep_log_bytes = birth.retention.log_bytes;
        (config.pin_log_bytes, config.most_pin_log_bytes) = (4 << 10, 16 << 10);
        config.eager = eager;
        origin.tell(&mut config);
        let mut out = Outbox::new();
        let seed = birth.seed ^ u64::from(shard.0) << 32;
        let (min_next_ns, quiesce_ns) = (birth.timing.min_next_ns, birth.timing.quiesce_ns);
        let outcomes = birth.retention.outcomes;
        let config = spanner::Config { group: config, min_next_ns, quiesce_ns, outcomes };
        let replica = Replica::new(config, seed, restored, kept, birth.clock.reading(), &mut out);
        let member = Some(Member::new(replica, out, space));
        Ok(lifecycle::Restored { member, ended: false, left })
    }

    fn add(&mut self, shard: ShardId, member: Member) -> Result<Vec<(ShardId, KeyRange)>, Unfit> {
        let children = member.space.children()?;
        self.desk.learn(&member.space.bounds(), shard, Arc::clone(&member.space));
        self.members.insert(shard, member);
        Ok(children.into_iter().map(|(child, bounds)| (ShardId(child), bounds)).collect())
    }

    fn damaged(&self, Damaged(what): Damaged) -> Unfit {
        Unfit::Damaged(what)
    }
}
