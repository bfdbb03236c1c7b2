//! An incarnation of a node in the Spanner protocol: members of groups, whose logs are in the
//! node's log, and shards that are created, copied and left.

use super::Spanner;
use super::request_router::RequestRouter;
use crate::Defect;
use crate::clock::NodeClock;
use crate::journal::{DATABASE, Journal, Records};
use crate::node_process::{self, FLUSH_BYTES, NodeFailure, full};
use crate::retention::Retention;
use meridian_clock::Timestamp;
use meridian_log::MemoryDisk;
use meridian_machine::{DatabaseId, Incarnation, NodeId, Outbox, ShardId};
use meridian_mvcc::{KeyRange, Store, StoreError};
use meridian_replication::group::{
    Config, Entry, Index, Membership, MembershipEpoch, Record, Restored, Roster, Term,
};
use meridian_store::courier::{Courier, Pace, Received};
use meridian_store::{OrphanedChild, ShardStore};
use meridian_systems::envelope;
use meridian_systems::spanner::lifecycle::{self, MemberHost, OrphanedSplit};
use meridian_systems::spanner::{
    self, Damaged, Invitations, KIND, Origin, Recovered, Replica, Rows,
};
use meridian_txn::Database;
use meridian_txn::locking::TxnClient;
use std::collections::BTreeMap;
use std::sync::Arc;

const MS: u64 = 1_000_000;

pub type NodeProcess = node_process::NodeProcess<Spanner>;
pub type Member = node_process::Member<Replica>;

/// The timeouts of a member.
pub struct Timing {
    pub election_timeout_ns: u64,
    pub lease_ns: u64,
    /// The idle time after which a leader closes timestamps; `quiesce_ns` is the idle time after
    /// which a shard quiesces.
    pub min_next_ns: u64,
    pub quiesce_ns: u64,
}

/// Small pages, so that a copy takes several of them, and a window does not cover it all.
const PACE: Pace = Pace {
    again_ns: 500 * MS,
    timeout_ns: 5_000 * MS,
    page_bytes: 1 << 10,
    window: 4,
    flush_bytes: FLUSH_BYTES,
};

/// Returns the log of a shard as found on a disk: the index before the first entry, and the
/// entries.
pub fn log_of(disk: &MemoryDisk, shard: ShardId) -> (Index, BTreeMap<Index, Entry>) {
    let Ok((_, recovered)) = Journal::open(disk, false) else { return Default::default() };
    let of_shard = recovered.get(&shard).into_iter().flatten();
    let records = of_shard.filter_map(|bytes| envelope::read::<Vec<Record>>(KIND, bytes).ok());
    let restored = Restored { records: records.flatten().collect(), ..Restored::default() };
    let (base, recovered) = restored.log();
    (base.0, recovered)
}

/// The configuration that the members of an incarnation share.
struct StartConfig {
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
    start: StartConfig,
    /// The recovered log records of shards that have no member yet.
    records: Records,
    /// The stores of shards that were just removed here: their children are yet to be created.
    left: Vec<Arc<ShardStore>>,
    invitations: Invitations,
    /// The copies of shards in progress; `ticks` is true while a timer for them is scheduled.
    pub courier: Courier,
    pub ticks: bool,
}

/// Returns a shard's persisted state beside its versions.
fn recovered(
    shard_store: &ShardStore,
    shard: ShardId,
    agreed: Timestamp,
) -> Result<Recovered, NodeFailure> {
    let recovered = Recovered::new(
        shard.0,
        shard_store.bounds(),
        shard_store.children()?,
        &shard_store.protocol_rows()?,
        agreed,
    );
    recovered.map_err(|damaged| NodeFailure::Damaged(damaged.0))
}

impl NodeProcess {
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
    ) -> Result<NodeProcess, NodeFailure> {
        let router = Arc::new(RequestRouter::new(
            Arc::clone(clock),
            (me, incarnation),
            nodes.to_vec(),
            seed,
        ));
        let txn_client = Arc::new(TxnClient::new(Arc::clone(&router))) as Arc<dyn Database>;
        let (nodes, clock) = (nodes.to_vec(), Arc::clone(clock));
        let start = StartConfig { me, nodes, seed, timing, retention, defect, clock };
        let courier = Courier::new(PACE, u64::from(incarnation.0) << 32);
        let (records, left, invitations) = (Records::new(), Vec::new(), Invitations::default());
        let own = Own { start, records, left, invitations, courier, ticks: false };
        let (mut process, records) =
            NodeProcess::empty(incarnation, (router, txn_client), own, admitted, disks)?;
        process.own.records = records;
        lifecycle::start(&mut process, placed)?;
        Ok(process)
    }

    /// Creates a member of a shard whose voters are known from the start.
    pub fn place(
        &mut self,
        shard: ShardId,
        bounds: KeyRange,
        voters: &[NodeId],
        eager: bool,
    ) -> Result<(), NodeFailure> {
        let members = Membership::initial(Roster::voters(voters.iter().copied()));
        lifecycle::begin(self, shard, bounds, Origin::Placed(Box::new(members)), eager)
    }

    /// Creates a member of a shard on the invitation of its leader. Returns true if it was created.
    pub fn invite(
        &mut self,
        shard: ShardId,
        membership_epoch: MembershipEpoch,
    ) -> Result<bool, NodeFailure> {
        if self.members.contains_key(&shard)
            || !self.own.invitations.accepts(shard, membership_epoch.since)
        {
            return Ok(false);
        }
        Ok(lifecycle::accepts(self, shard, membership_epoch)?
            && lifecycle::invite(self, shard, membership_epoch)?)
    }

    /// Removes this node's member of a shard.
    pub fn remove(&mut self, shard: ShardId, since: Index) -> Result<(), StoreError> {
        let Some(member) = self.members.get(&shard) else { return Ok(()) };
        member
            .shard_store
            .leave(since.0, |child| Origin::keep(member.replica.initial_members(ShardId(child))))?;
        let left = self.members.remove(&shard).map(|member| member.shard_store);
        self.own.left.extend(left);
        self.router.forget(shard);
        self.journal.leave(shard);
        Ok(())
    }

    /// Creates the members of child shards that were split off since the last call, and returns the
    /// shards that are new on this node.
    pub fn create_children(&mut self) -> Result<Vec<ShardId>, NodeFailure> {
        let created = |(parent, member): (&ShardId, &Member)| {
            let (parent, eager) = (*parent, member.replica.is_serving());
            member
                .shard_store
                .created()
                .into_iter()
                .map(move |(child, bounds)| (parent, ShardId(child), bounds, eager))
        };
        let created: Vec<_> = self.members.iter().flat_map(created).collect();
        let before: Vec<ShardId> = self.members.keys().copied().collect();
        for (parent, child, bounds, eager) in created {
            lifecycle::begin_child(self, parent, child, bounds, eager)?;
        }
        for shard_store in std::mem::take(&mut self.own.left) {
            let left = shard_store.left()?.into_iter().map(from_orphaned).collect();
            lifecycle::begin_orphaned(self, left)?;
        }
        Ok(self.members.keys().copied().filter(|shard| !before.contains(shard)).collect())
    }

    /// Flushes versions to the store, removes old ones, and with `checkpoint` truncates the log.
    pub fn flush(
        &mut self,
        now_ns: u64,
        retention_ns: u64,
        checkpoint: bool,
        defect: Option<Defect>,
    ) -> Result<(), StoreError> {
        for (shard, member) in &self.members {
            let shard_store = &member.shard_store;
            let flushed = shard_store.flush(FLUSH_BYTES).map(drop);
            let closed = self.router.read_lease(*shard).closed;
            let flushed = flushed.and_then(|()| {
                shard_store.collect(now_ns, retention_ns, closed, FLUSH_BYTES).map(drop)
            });
            if full(flushed)? {
                return Ok(());
            }
        }
        if !checkpoint {
            return Ok(());
        }
        let mut applied = Vec::new();
        for (shard, member) in &self.members {
            applied.push((*shard, member.shard_store.extent()?.position));
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
    pub fn learn_splits(
        &mut self,
        now: meridian_clock::Reading,
        received: &Received,
    ) -> Result<bool, NodeFailure> {
        let shard = ShardId(received.key.shard);
        let Some(member) = self.members.get_mut(&shard) else { return Ok(false) };
        let own = member.shard_store.protocol_rows_of(received.copy)?;
        let rows = Rows::read(shard, &own).map_err(|damaged| NodeFailure::Damaged(damaged.0))?;
        Ok(member.replica.learn_splits(now, &rows, &mut member.out))
    }

    /// Continues from a copy, if the member still lacks part of it. Returns true if it did; decided
    /// transactions are then in the outbox.
    pub fn take_over(
        &mut self,
        now: meridian_clock::Reading,
        received: &Received,
    ) -> Result<bool, NodeFailure> {
        let Received { key, copy, extent, .. } = *received;
        let shard = ShardId(key.shard);
        let Some(member) = self.members.get_mut(&shard) else { return Ok(false) };
        let shard_store = &member.shard_store;
        if member.replica.group().commit_index() >= Index(extent.position)
            || !member.replica.group().has_joined()
        {
            return Ok(false); // The log was faster, or the membership is not durable yet.
        }
        shard_store.use_copy(copy, extent)?;
        shard_store.list_children()?;
        self.router.learn(&shard_store.bounds(), shard, Arc::clone(shard_store));
        let (index, term, recovered) =
            (Index(extent.position), Term(extent.term), recovered(shard_store, shard, extent.at)?);
        member.replica.snapshot_installed(now, index, term, recovered, &mut member.out);
        Ok(true)
    }
}

fn from_orphaned(OrphanedChild { child, bounds, split_origin }: OrphanedChild) -> OrphanedSplit {
    (ShardId(child), bounds, split_origin)
}

impl MemberHost for NodeProcess {
    type Member = Member;
    type Error = NodeFailure;

    fn has(&self, shard: ShardId) -> bool {
        self.members.contains_key(&shard)
    }

    fn all_nodes(&self) -> Membership {
        Membership::initial(Roster::voters(self.own.start.nodes.iter().copied()))
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

    fn removed(&self, shard: ShardId) -> Result<Option<Index>, NodeFailure> {
        Ok(ShardStore::removed(DATABASE, shard.0, &*self.store)?.map(Index))
    }

    fn expects(&self, shard: ShardId) -> bool {
        let expects = |member: &Member| {
            member.replica.expects(shard) || member.shard_store.expects_child(shard.0)
        };
        self.members.values().any(expects)
    }

    fn parent_knows(&self, parent: ShardId, child: ShardId) -> Option<Option<Membership>> {
        self.members.get(&parent).map(|member| member.replica.initial_members(child).cloned())
    }

    fn learn_route(&mut self, shard: ShardId, bounds: &KeyRange) {
        self.router.map().learn_route(&bounds.start, bounds.start.clone(), shard);
    }

    fn restore(
        &mut self,
        shard: ShardId,
        bounds: KeyRange,
        origin: Origin,
        eager: bool,
    ) -> Result<lifecycle::Restored<Member>, NodeFailure> {
        let start = &self.own.start;
        let mut records: Vec<Record> = Vec::new();
        for bytes in self.own.records.get(&shard).into_iter().flatten() {
            records.extend(envelope::read::<Vec<Record>>(KIND, bytes).map_err(NodeFailure::Wrong)?);
        }
        match start.defect {
            Some(Defect::VoteForgotten) => {
                records.retain(|record| !matches!(record, Record::HardState { .. }))
            }
            Some(Defect::EntriesForgotten) => {
                let last =
                    records.iter().rposition(|record| matches!(record, Record::Append { .. }));
                last.map(|at| records.remove(at));
            }
            _ => {}
        }
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let shard_store = Arc::new(ShardStore::open_with(DATABASE, shard.0, bounds, store)?);
        let extent = shard_store.extent()?;
        let restored =
            Restored { records, applied: Index(extent.position), applied_term: Term(extent.term) };
        let recovered = recovered(&shard_store, shard, extent.at)?;
        let removed = ShardStore::removed(DATABASE, shard.0, &*self.store)?.map(Index);
        let left = shard_store.left()?;
        let left = left.into_iter().map(from_orphaned).collect();
        let begins = origin.begins(start.me, removed, &restored, &recovered);
        let Some(origin) = begins.map_err(|base| shard_store.lacks(base.0))? else {
            let ended = Origin::has_ended(start.me, removed, &recovered);
            return Ok(lifecycle::Restored { member: None, ended, left });
        };
        if let Origin::Invited(membership_epoch) = &origin {
            shard_store.begin_empty(membership_epoch.since.0)?;
        }
        let mut config = Config::new(start.me, start.nodes.clone(), DatabaseId(DATABASE), shard);
        (config.heartbeat_ns, config.election_timeout_ns) =
            (50 * MS, start.timing.election_timeout_ns);
        config.confirm_ns = 10_000 * MS;
        config.lease_ns = start.timing.lease_ns;
        config.keep_log_bytes = start.retention.log_bytes;
        (config.pin_log_bytes, config.most_pin_log_bytes) = (4 << 10, 16 << 10);
        config.eager = eager;
        origin.apply_to(&mut config);
        let mut out = Outbox::new();
        let seed = start.seed ^ u64::from(shard.0) << 32;
        let (min_next_ns, quiesce_ns) = (start.timing.min_next_ns, start.timing.quiesce_ns);
        let outcomes = start.retention.outcomes;
        let config = spanner::Config { group: config, min_next_ns, quiesce_ns, outcomes };
        let replica =
            Replica::new(config, seed, restored, recovered, start.clock.reading(), &mut out);
        let member = Some(Member::new(replica, out, shard_store));
        Ok(lifecycle::Restored { member, ended: false, left })
    }

    fn add(
        &mut self,
        shard: ShardId,
        member: Member,
    ) -> Result<Vec<(ShardId, KeyRange)>, NodeFailure> {
        let children = member.shard_store.children()?;
        self.router.learn(&member.shard_store.bounds(), shard, Arc::clone(&member.shard_store));
        self.members.insert(shard, member);
        Ok(children.into_iter().map(|(child, bounds)| (ShardId(child), bounds)).collect())
    }

    fn damaged(&self, Damaged(what): Damaged) -> NodeFailure {
        NodeFailure::Damaged(what)
    }
}
