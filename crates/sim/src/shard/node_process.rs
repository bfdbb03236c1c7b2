//! An incarnation of a node: members of groups, whose logs are in the
//! node's log, and shards that are created, copied and left.

use super::Leaders;
use super::request_router::RequestRouter;
use crate::Defect;
use crate::clock::NodeClock;
use crate::journal::{DATABASE, Journal, Records};
use crate::node_process::{self, FLUSH_BYTES, NodeFailure, full};
use crate::retention::{ALL_WRITES, Retention};
use meridian_clock::Timestamp;
use meridian_log::MemoryDisk;
use meridian_machine::{DatabaseId, Incarnation, NodeId, Outbox, ShardId};
use meridian_mvcc::{KeyRange, Store, StoreError};
use meridian_replication::group::{
    Config, Entry, Index, Membership, MembershipEpoch, Record, Restored, Roster, Term,
};
use meridian_store::courier::{Courier, Pace, Received};
use meridian_store::{OrphanedChild, ShardStore};
use meridian_systems::Protocol;
use meridian_systems::envelope::{self, Kind};
use meridian_systems::shard::lifecycle::{self, Ending, Endings, MemberHost, OrphanedSplit};
use meridian_systems::shard::{self, Damaged, Invitations, Origin};
use meridian_systems::shard::{CopyDecision, CopyError, ReceivedCopy};
use meridian_systems::shard::{Participant, Recovered, Rows, Shard};
use meridian_txn::shards::Oracles;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

const MS: u64 = 1_000_000;

pub type NodeProcess<P> = node_process::NodeProcess<Leaders<P>>;
pub type Member<P> = node_process::Member<Shard<P>>;

/// The timeouts of a member.
pub struct Timing {
    pub election_timeout_ns: u64,
    pub lease_ns: u64,
    /// The idle time after which a leader closes timestamps; `quiesce_ns` is the idle time after
    /// which a shard quiesces.
    pub min_next_ns: u64,
    pub quiesce_ns: u64,
}

/// Small pages, so that a copy takes several of them, and a window does not cover it all. The waits
/// are shorter than a node's, because a run lasts for seconds.
const PACE: Pace = Pace {
    tick_ns: 50 * MS,
    again_ns: 500 * MS,
    timeout_ns: 5_000 * MS,
    page_bytes: 1 << 10,
    window: 4,
    flush_bytes: FLUSH_BYTES,
};

/// Returns the log of a shard as found on a disk: the index before the first entry, and the
/// entries.
pub fn log_of(kind: Kind, disk: &MemoryDisk, shard: ShardId) -> (Index, BTreeMap<Index, Entry>) {
    let Ok((_, recovered)) = Journal::open(disk, false) else { return Default::default() };
    let of_shard = recovered.get(&shard).into_iter().flatten();
    let records = of_shard.filter_map(|bytes| envelope::read::<Vec<Record>>(kind, bytes).ok());
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
    protocol: &'static Protocol,
}

/// Spanner's own state of an incarnation.
pub struct Own<P: Participant> {
    start: StartConfig,
    /// The recovered log records of shards that have no member yet.
    records: Records,
    /// The ends of members that are under way, because the disk is full.
    endings: Endings<Rc<Member<P>>>,
    invitations: Invitations,
    /// The copies of shards in progress; `ticks` is true while a timer for them is scheduled.
    pub courier: Courier,
    pub ticks: bool,
}

/// Returns a shard's persisted state beside its versions.
fn recovered<P: Participant>(
    shard_store: &ShardStore,
    shard: ShardId,
    agreed: Timestamp,
) -> Result<Recovered<P::Rows>, NodeFailure> {
    let recovered = Recovered::new(
        shard.0,
        shard_store.bounds(),
        shard_store.children()?,
        &shard_store.protocol_rows()?,
        agreed,
    );
    recovered.map_err(|damaged| NodeFailure::Damaged(damaged.0))
}

impl<P: Participant> NodeProcess<P> {
    /// Begins an incarnation with the contents of the disks: with a member of the first shard,
    /// unless a scenario places members.
    pub fn begin(
        me: NodeId,
        incarnation: Incarnation,
        nodes: &[NodeId],
        (seed, timing, retention, defect): (u64, Timing, Retention, Option<Defect>),
        admitted: bool,
        placed: bool,
        (protocol, oracles): (&'static Protocol, Option<Oracles>),
        clock: &Arc<NodeClock>,
        disks: &(MemoryDisk, MemoryDisk),
    ) -> Result<NodeProcess<P>, NodeFailure> {
        let router = Arc::new(RequestRouter::new(
            Arc::clone(clock),
            (me, incarnation),
            nodes.to_vec(),
            seed,
            oracles,
        ));
        let txn_client = P::database(protocol, Arc::clone(&router));
        let (nodes, clock) = (nodes.to_vec(), Arc::clone(clock));
        let start = StartConfig { me, nodes, seed, timing, retention, defect, clock, protocol };
        let courier = Courier::new(PACE, u64::from(incarnation.0) << 32);
        let (records, endings, invitations) =
            (Records::new(), Endings::new(), Invitations::default());
        let own = Own { start, records, endings, invitations, courier, ticks: false };
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

    /// Ends this node's member of a shard. Returns the shards that are new on this node, or `None`
    /// if there was no member to end.
    pub fn leave(
        &mut self,
        shard: ShardId,
        since: Index,
    ) -> Result<Option<Vec<ShardId>>, NodeFailure> {
        let before = self.shards();
        let complete = lifecycle::leave(self, shard, since)?;
        Ok(complete.then(|| self.shards_except(&before)))
    }

    /// Creates the members of child shards that were split off since the last call. Returns the
    /// shards that are new on this node, and false if the disk is full and others are missing.
    pub fn create_children(&mut self) -> Result<(Vec<ShardId>, bool), NodeFailure> {
        let created = |(parent, member): (&ShardId, &Member<P>)| {
            let of_parent = member.shard_store.created().into_iter();
            let of_parent = of_parent.map(|(child, bounds)| (ShardId(child), bounds)).collect();
            (*parent, of_parent, member.replica.is_serving())
        };
        let created: Vec<(_, Vec<_>, _)> = self.members.iter().map(created).collect();
        let (before, mut all) = (self.shards(), true);
        for (parent, children, eager) in created {
            match lifecycle::begin_children(self, parent, children, eager) {
                Ok(()) => {}
                Err(NodeFailure::Full) => all = false,
                Err(why) => return Err(why),
            }
        }
        Ok((self.shards_except(&before), all))
    }

    fn shards(&self) -> Vec<ShardId> {
        self.members.keys().copied().collect()
    }

    fn shards_except(&self, before: &[ShardId]) -> Vec<ShardId> {
        self.members.keys().copied().filter(|shard| !before.contains(shard)).collect()
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
            self.journal.checkpoint(shard, envelope::write(P::KIND, &records).into());
        }
        Ok(())
    }

    /// Has a member continue from a received copy, if it wants the copy. Its effects are in the
    /// outbox.
    pub fn take_over(
        &mut self,
        now: meridian_clock::Reading,
        received: &Received,
    ) -> Result<CopyDecision, CopyError<NodeFailure>> {
        let shard = ShardId(received.key.shard);
        let Some(member) = self.members.get_mut(&shard) else { return Ok(CopyDecision::Unwanted) };
        let shard_store = &member.shard_store;
        let mut copy = CopyOnNode { shard, shard_store, router: &self.router, received };
        member.replica.take_over(now, &mut copy, &mut member.out)
    }
}

/// A received copy, with the store and the routes of its node.
struct CopyOnNode<'n, P: Participant> {
    shard: ShardId,
    shard_store: &'n Arc<ShardStore>,
    router: &'n RequestRouter<P>,
    received: &'n Received,
}

impl<P: Participant> ReceivedCopy for CopyOnNode<'_, P> {
    type Rows = P::Rows;
    type Error = NodeFailure;

    fn through(&self) -> (Index, Term) {
        (Index(self.received.extent.position), Term(self.received.extent.term))
    }

    fn rows(&self) -> Result<Rows<P::Rows>, NodeFailure> {
        let rows = self.shard_store.protocol_rows_of(self.received.copy)?;
        Rows::read(self.shard, &rows).map_err(|damaged| NodeFailure::Damaged(damaged.0))
    }

    fn replace(&mut self) -> Result<(), NodeFailure> {
        Ok(self.shard_store.use_copy(self.received.copy, self.received.extent)?)
    }

    fn recovered(&self) -> Result<Recovered<P::Rows>, NodeFailure> {
        recovered::<P>(self.shard_store, self.shard, self.received.extent.at)
    }

    fn publish(&mut self, recovered: &Recovered<P::Rows>) {
        self.router.learn(&recovered.bounds, self.shard, Arc::clone(self.shard_store));
    }

    fn report_children(&mut self) -> Result<(), NodeFailure> {
        Ok(self.shard_store.list_children()?)
    }
}

fn from_orphaned(OrphanedChild { child, bounds, split_origin }: OrphanedChild) -> OrphanedSplit {
    (ShardId(child), bounds, split_origin)
}

impl<P: Participant> MemberHost for NodeProcess<P> {
    type Member = Member<P>;
    type Ended = Rc<Member<P>>;
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
        let stored = |member: &Member<P>| member.shard_store.expects_child(shard.0);
        self.members.values().any(|member| member.replica.expects(shard) || stored(member))
            || self.own.endings.values().any(|ending| stored(&ending.ended))
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
    ) -> Result<lifecycle::Restored<Member<P>>, NodeFailure> {
        let start = &self.own.start;
        let mut records: Vec<Record> = Vec::new();
        for bytes in self.own.records.get(&shard).into_iter().flatten() {
            records
                .extend(envelope::read::<Vec<Record>>(P::KIND, bytes).map_err(NodeFailure::Wrong)?);
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
        let recovered = recovered::<P>(&shard_store, shard, extent.at)?;
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
        let policy = start.protocol.policy.expect("invariant: its shards have leaders");
        let certifies = start.protocol.certifies();
        let few = start.seed.is_multiple_of(2);
        let recent_writes = if few { start.retention.recent_writes } else { ALL_WRITES };
        let config = shard::Config {
            group: config,
            min_next_ns,
            quiesce_ns,
            outcomes,
            policy,
            certifies,
            recent_writes,
        };
        let replica =
            Shard::<P>::new(config, seed, restored, recovered, start.clock.reading(), &mut out);
        let member = Some(Member::new(replica, out, shard_store));
        Ok(lifecycle::Restored { member, ended: false, left })
    }

    fn add(
        &mut self,
        shard: ShardId,
        member: Member<P>,
    ) -> Result<Vec<(ShardId, KeyRange)>, NodeFailure> {
        let children = member.shard_store.children()?;
        self.router.learn(&member.shard_store.bounds(), shard, Arc::clone(&member.shard_store));
        self.members.insert(shard, member);
        Ok(children.into_iter().map(|(child, bounds)| (ShardId(child), bounds)).collect())
    }

    fn retry_child(&mut self, parent: ShardId, child: ShardId, bounds: KeyRange) {
        if let Some(parent) = self.members.get(&parent) {
            parent.shard_store.retry_child(child.0, bounds);
        }
    }

    fn take_out(&mut self, shard: ShardId) -> Option<Rc<Member<P>>> {
        let member = self.members.remove(&shard)?;
        self.router.forget(shard);
        self.journal.stop(shard);
        Some(Rc::new(member))
    }

    fn ending(&self, shard: ShardId) -> Option<Ending<Rc<Member<P>>>> {
        self.own.endings.get(&shard).cloned()
    }

    fn keep_ending(&mut self, shard: ShardId, ending: Option<Ending<Rc<Member<P>>>>) {
        match ending {
            Some(ending) => drop(self.own.endings.insert(shard, ending)),
            None => drop(self.own.endings.remove(&shard)),
        }
    }

    fn note_removal(&mut self, ended: &Rc<Member<P>>, since: Index) -> Result<(), NodeFailure> {
        let origin = |child| Origin::keep(ended.replica.initial_members(ShardId(child)));
        Ok(ended.shard_store.leave(since.0, origin)?)
    }

    fn orphaned(&self, ended: &Rc<Member<P>>) -> Result<Vec<OrphanedSplit>, NodeFailure> {
        Ok(ended.shard_store.left()?.into_iter().map(from_orphaned).collect())
    }

    fn damaged(&self, Damaged(what): Damaged) -> NodeFailure {
        NodeFailure::Damaged(what)
    }
}
