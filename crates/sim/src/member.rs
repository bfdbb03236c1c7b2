//! One life of a node: a replica of the spanner recipe on a real log and a real store, both on disks that fail.

use crate::Defect;
use crate::clock::NodeClock;
use crate::site::{Desk, Handle};
use bytes::Bytes;
use meridian_clock::Timestamp;
use meridian_log::{Log, LogError, Lsn, MachineKey, MemoryDisk};
use meridian_machine::{Address, DatabaseId, Incarnation, NodeId, Outbox, Position, ShardId};
use meridian_mvcc::{KeyRange, Store, StoreError, StoredVersion};
use meridian_replication::group::{Config, Entry, Index, Record, Restored, Term};
use meridian_sql::Engine;
use meridian_store::{Extent, RedbStore, Space};
use meridian_systems::envelope;
use meridian_systems::spanner::{Replica, Timer};
use meridian_txn::Database;
use meridian_txn::locking::Gateway;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub const KEY: MachineKey = MachineKey { database: 1, shard: 0 };
const MS: u64 = 1_000_000;
/// Small, so that segments are sealed, freed and used again within a run.
const SEGMENT_BYTES: u64 = 32 << 10;
const CACHE_BYTES: usize = 1 << 20;
const SETTLE_BYTES: usize = 8 << 10;

/// The member of the one group at a node.
pub fn address(node: NodeId) -> Address {
    Address::replica(node, DatabaseId(KEY.database), ShardId(KEY.shard))
}

/// What was written to the log means, once it is durable.
enum Then {
    Tell(Position),
    Release(Lsn),
}

/// How patient a member is.
pub struct Timing {
    pub election_timeout_ns: u64,
    pub lease_ns: u64,
}

/// A copy of the shard on its way.
pub struct Copy {
    pub extent: Extent,
    pub versions: Vec<StoredVersion>,
}

/// What would be found of a log: the entry before the first, and the entries.
pub fn log_of(disk: &MemoryDisk) -> (Index, BTreeMap<Index, Entry>) {
    let options = meridian_log::Options { segment_bytes: SEGMENT_BYTES, existed: false };
    let Ok((_, recovered)) = Log::open(Arc::new(disk.clone()), options) else { return Default::default() };
    let records = recovered.records.iter().filter_map(|(_, _, bytes)| envelope::read_record::<Vec<Record>>(bytes).ok());
    let restored = Restored { records: records.flatten().collect(), ..Restored::default() };
    let (base, kept) = restored.log();
    (base.0, kept)
}

/// Why a node cannot go on.
#[derive(Debug)]
pub enum Unfit {
    /// What its disks hold is not what was written to them.
    Damaged(String),
    /// There is no room for what it needs.
    Full,
    /// Its code is wrong.
    Wrong(String),
}

impl From<LogError> for Unfit {
    fn from(error: LogError) -> Unfit {
        match error {
            LogError::Damaged { .. } => Unfit::Damaged(error.to_string()),
            LogError::Full { .. } => Unfit::Full,
            _ => Unfit::Wrong(error.to_string()),
        }
    }
}

impl From<StoreError> for Unfit {
    fn from(error: StoreError) -> Unfit {
        match error {
            StoreError::Damaged { .. } => Unfit::Damaged(error.to_string()),
            StoreError::Full { .. } => Unfit::Full,
            _ => Unfit::Wrong(error.to_string()),
        }
    }
}

pub struct Life {
    pub incarnation: Incarnation,
    pub replica: Replica,
    pub out: Outbox<Replica>,
    pub timers: BTreeMap<Timer, u64>,
    pub desk: Arc<Desk>,
    pub gateway: Arc<Gateway<Handle>>,
    /// For clients that speak SQL.
    pub engine: Arc<Engine>,
    pub space: Arc<Space>,
    /// Agreed, and kept from readers by a planted defect.
    pub late: Vec<(Timestamp, Vec<meridian_mvcc::Write>, Index, Term)>,
    store: Arc<RedbStore>,
    log: Log,
    queue: VecDeque<(Bytes, Option<Position>)>,
    writing: Vec<Then>,
    pub syncing: bool,
}

impl Life {
    /// Reads what the disks have, and begins a life with it.
    pub fn begin(
        me: NodeId,
        incarnation: Incarnation,
        members: &[NodeId],
        (seed, timing, defect): (u64, Timing, Option<Defect>),
        admitted: bool,
        clock: &Arc<NodeClock>,
        disks: &(MemoryDisk, MemoryDisk),
    ) -> Result<Life, Unfit> {
        let store = Arc::new(RedbStore::open(&disks.1, CACHE_BYTES)?);
        let options = meridian_log::Options { segment_bytes: SEGMENT_BYTES, existed: admitted };
        let (log, recovered) = Log::open(Arc::new(disks.0.clone()), options)?;
        let mut records: Vec<Record> = Vec::new();
        for (_, _, bytes) in &recovered.records {
            records.extend(envelope::read_record::<Vec<Record>>(bytes).map_err(Unfit::Wrong)?);
        }
        match defect {
            Some(Defect::VoteForgotten) => records.retain(|record| !matches!(record, Record::Standing { .. })),
            Some(Defect::EntriesForgotten) => {
                let last = records.iter().rposition(|record| matches!(record, Record::Append { .. }));
                last.map(|at| records.remove(at));
            }
            _ => {}
        }
        let space = Arc::new(Space::open(KEY.database, KEY.shard, Arc::clone(&store) as Arc<dyn Store>)?);
        let extent = space.extent()?;
        let mut config = Config::new(me, members.to_vec(), DatabaseId(KEY.database), ShardId(KEY.shard));
        (config.heartbeat_ns, config.election_timeout_ns) = (50 * MS, timing.election_timeout_ns);
        config.lease_ns = timing.lease_ns;
        config.keep_log_bytes = 2 << 10;
        let restored = Restored { records, applied: Index(extent.position), applied_term: Term(extent.term) };
        if let Some(base) = restored.gap() {
            return Err(space.lacks(base.0).into());
        }
        let mut out = Outbox::new();
        let replica = Replica::new(config, seed, restored, extent.at, clock.reading(), &mut out);
        let desk = Desk::new(Arc::clone(clock), me, incarnation, members.to_vec(), Arc::clone(&space));
        let desk = Arc::new(desk);
        let gateway = Arc::new(Gateway::new(Handle(Arc::clone(&desk))));
        Ok(Life {
            incarnation,
            replica,
            out,
            timers: BTreeMap::new(),
            engine: Arc::new(Engine::new("lab", Arc::clone(&gateway) as Arc<dyn Database>)),
            gateway,
            desk,
            space,
            late: Vec::new(),
            store,
            log,
            queue: VecDeque::new(),
            writing: Vec::new(),
            syncing: false,
        })
    }

    pub fn persist(&mut self, position: Position, record: Record) {
        self.queue.push_back((envelope::write_record(&vec![record]).into(), Some(position)));
    }

    /// True if there is anything to write.
    pub fn wants_to_write(&self) -> bool {
        !self.syncing && !self.queue.is_empty()
    }

    /// Writes what is queued, not yet durably. False while there is no room.
    pub fn write(&mut self) -> Result<bool, LogError> {
        for (bytes, position) in self.queue.drain(..) {
            let lsn = self.log.append(KEY, bytes);
            self.writing.push(position.map_or(Then::Release(lsn), Then::Tell));
        }
        match self.log.write() {
            Ok(()) => Ok(true),
            Err(LogError::Full { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes it durable; the newest position that is.
    pub fn sync(&mut self, really: bool) -> Result<Option<Position>, LogError> {
        if really {
            self.log.sync()?;
        }
        let mut through = None;
        for then in std::mem::take(&mut self.writing) {
            match then {
                Then::Tell(position) => through = Some(position),
                Then::Release(lsn) => self.log.release(KEY, lsn)?,
            }
        }
        Ok(through)
    }

    /// Ends in order: what was asked for is written, and the log sealed.
    pub fn end(self) {
        let Life { mut log, queue, .. } = self;
        for (bytes, _) in queue {
            log.append(KEY, bytes);
        }
        let _ = log.close(); // A full or failing disk: then it is as if the power had failed.
    }

    /// How far the open segment of the log is beyond doubt.
    pub fn vouched(&self) -> Option<(String, u64)> {
        self.log.vouched()
    }

    /// Moves versions from memory to the store, removes old ones, and lets the log go.
    pub fn settle(&mut self, horizon: Timestamp, checkpoint: bool, defect: Option<Defect>) -> Result<(), StoreError> {
        let settled = self.space.settle(SETTLE_BYTES).map(drop);
        let settled = settled.and_then(|()| self.space.collect(horizon, 0, SETTLE_BYTES).map(drop));
        if full(settled)? || !checkpoint {
            return Ok(());
        }
        let applied = self.space.extent()?.position;
        if defect != Some(Defect::ForgottenTooEarly) && full(self.store.checkpoint())? {
            return Ok(());
        }
        let replica = &mut self.replica;
        let reading = meridian_clock::Reading::at(0, meridian_clock::Interval::around(0, 0)); // Compaction asks for no time.
        let records = replica.with_group(reading, &mut self.out, |group, _| {
            group.compact(Index(applied));
            group.checkpoint()
        });
        self.queue.push_back((envelope::write_record(&records).into(), None));
        Ok(())
    }

    /// The whole shard, for a member that is too far behind.
    pub fn whole(&self, index: Index) -> Result<Option<Copy>, StoreError> {
        if full(self.space.settle(SETTLE_BYTES).map(drop))? {
            return Ok(None);
        }
        let Some((id, extent, view)) = self.space.whole(index.0)? else { return Ok(None) };
        let (mut versions, mut rest) = (Vec::new(), Some(KeyRange::all()));
        while let Some(range) = rest {
            let page = view.scan(id, &range, extent.at, false, 4, SETTLE_BYTES)?;
            versions.extend(page.versions);
            rest = page.rest;
        }
        Ok(Some(Copy { extent: Extent { horizon: extent.at, ..extent }, versions }))
    }

    /// Goes on from a copy, if it is still lacking what is in it. What is decided there is in the outbox.
    pub fn take_over(&mut self, now: meridian_clock::Reading, copy: Copy) -> Result<(), StoreError> {
        let Copy { extent, versions } = copy;
        if self.space.extent()?.position >= extent.position {
            return Ok(());
        }
        let id = self.space.begin_copy()?;
        self.space.extend_copy(id, versions)?;
        self.space.end_copy(id, extent)?;
        if self.replica.group().commit_index() >= Index(extent.position) {
            return Ok(()); // The log was faster.
        }
        self.space.use_copy(id, extent)?;
        self.replica.snapshot_installed(now, Index(extent.position), Term(extent.term), extent.at, &mut self.out);
        Ok(())
    }
}

/// Whether there was no room: then it is tried again.
pub fn full(result: Result<(), StoreError>) -> Result<bool, StoreError> {
    match result {
        Ok(()) => Ok(false),
        Err(StoreError::Full { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}
