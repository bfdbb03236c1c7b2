//! The log of a node in one incarnation: queued records, records being written, and the replicas to
//! notify when they are durable.

use bytes::Bytes;
use meridian_log::{Log, LogError, Lsn, MachineKey, MemoryDisk};
use meridian_machine::{Position, ShardId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The id of the database of every world.
pub const DATABASE: u32 = 1;
/// Small, so that segments are sealed, freed and reused within a run.
const SEGMENT_BYTES: u64 = 32 << 10;

pub fn key(shard: ShardId) -> MachineKey {
    MachineKey { database: DATABASE, shard: shard.0 }
}

/// The action that follows when a record is durable.
enum Then {
    Tell(ShardId, Position),
    Release(ShardId, Lsn),
}

/// The log, and the records on their way to it.
pub struct Journal {
    log: Log,
    queue: VecDeque<(ShardId, Bytes, Option<Position>)>,
    writing: Vec<Then>,
    /// Shards that this node no longer has, whose records the log may drop.
    forgotten: Vec<ShardId>,
    pub syncing: bool,
}

/// The records of a log, by shard.
pub type Records = BTreeMap<ShardId, Vec<Bytes>>;

impl Journal {
    /// Reads the log on a disk. With `existed`, an empty disk is an error.
    pub fn open(disk: &MemoryDisk, existed: bool) -> Result<(Journal, Records), LogError> {
        let options = meridian_log::Options { segment_bytes: SEGMENT_BYTES, existed };
        let (log, recovered) = Log::open(Arc::new(disk.clone()), options)?;
        let mut records = Records::new();
        for (key, _, bytes) in recovered.records {
            records.entry(ShardId(key.shard)).or_default().push(bytes);
        }
        let (queue, writing, forgotten) = (VecDeque::new(), Vec::new(), Vec::new());
        Ok((Journal { log, queue, writing, forgotten, syncing: false }, records))
    }

    /// Queues a record of a shard, and reports `position` when it is durable.
    pub fn persist(&mut self, shard: ShardId, position: Position, record: Bytes) {
        self.queue.push_back((shard, record, Some(position)));
    }

    /// Queues records that replace all earlier records of a shard.
    pub fn checkpoint(&mut self, shard: ShardId, records: Bytes) {
        self.queue.push_back((shard, records, None));
    }

    /// Marks all records of a shard as no longer needed.
    pub fn forget(&mut self, shard: ShardId) {
        self.forgotten.push(shard);
    }

    /// Drops the records of a shard that are on their way, without notifying its replica.
    pub fn stop(&mut self, shard: ShardId) {
        self.writing.retain(|then| !matches!(then, Then::Tell(of, _) if *of == shard));
        self.queue.retain(|(of, _, _)| *of != shard);
    }

    /// True if there is anything to write.
    pub fn wants_to_write(&self) -> bool {
        !self.syncing && !self.queue.is_empty()
    }

    /// Writes the queue, not yet durably. Returns false if the disk is full.
    pub fn write(&mut self) -> Result<bool, LogError> {
        for shard in std::mem::take(&mut self.forgotten) {
            self.log.release(key(shard), self.log.next_lsn())?;
        }
        for (shard, bytes, position) in self.queue.drain(..) {
            let lsn = self.log.append(key(shard), bytes);
            let then =
                position.map_or(Then::Release(shard, lsn), |position| Then::Tell(shard, position));
            self.writing.push(then);
        }
        match self.log.write() {
            Ok(()) => Ok(true),
            Err(LogError::Full { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Syncs the log, and returns the newest durable position of each shard.
    pub fn sync(&mut self, really: bool) -> Result<BTreeMap<ShardId, Position>, LogError> {
        if really {
            self.log.sync()?;
        }
        let mut through = BTreeMap::new();
        for then in std::mem::take(&mut self.writing) {
            match then {
                Then::Tell(shard, position) => drop(through.insert(shard, position)),
                Then::Release(shard, lsn) => self.log.release(key(shard), lsn)?,
            }
        }
        Ok(through)
    }

    /// Shuts down in order: writes the queue, and seals the log.
    pub fn end(self) {
        let Journal { mut log, queue, .. } = self;
        for (shard, bytes, _) in queue {
            log.append(key(shard), bytes);
        }
        let _ = log.close(); // On a full or failing disk this equals a power failure.
    }

    /// Returns the open segment's name, and the length up to which a later record vouches for it.
    pub fn vouched(&self) -> Option<(String, u64)> {
        self.log.vouched()
    }
}
