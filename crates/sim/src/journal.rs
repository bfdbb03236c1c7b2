//! The node's one log in one life: what its replicas want kept, what is being written, and who is
//! told when it is durable.

use bytes::Bytes;
use meridian_log::{Log, LogError, Lsn, MachineKey, MemoryDisk};
use meridian_machine::{Position, ShardId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The database of every world.
pub const DATABASE: u32 = 1;
/// Small, so that segments are sealed, freed and used again within a run.
const SEGMENT_BYTES: u64 = 32 << 10;

pub fn key(shard: ShardId) -> MachineKey {
    MachineKey { database: DATABASE, shard: shard.0 }
}

/// What was written to the log means, once it is durable.
enum Then {
    Tell(ShardId, Position),
    Release(ShardId, Lsn),
}

/// The log, and what is on its way to it.
pub struct Journal {
    log: Log,
    queue: VecDeque<(ShardId, Bytes, Option<Position>)>,
    writing: Vec<Then>,
    /// Shards that are no more here: the log need not keep what it has of them.
    forgotten: Vec<ShardId>,
    pub syncing: bool,
}

/// What a log on a disk has, shard by shard.
pub type Records = BTreeMap<ShardId, Vec<Bytes>>;

impl Journal {
    /// Reads what the disk has. `existed`: it must have something.
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

    /// Keeps a record of a shard's, and tells when it is durable.
    pub fn persist(&mut self, shard: ShardId, position: Position, record: Bytes) {
        self.queue.push_back((shard, record, Some(position)));
    }

    /// This stands for everything that was kept of a shard before.
    pub fn checkpoint(&mut self, shard: ShardId, records: Bytes) {
        self.queue.push_back((shard, records, None));
    }

    /// What is kept of a shard is needed no more.
    pub fn forget(&mut self, shard: ShardId) {
        self.forgotten.push(shard);
    }

    /// The same, and what is on its way.
    pub fn leave(&mut self, shard: ShardId) {
        self.stop(shard);
        self.forget(shard);
    }

    /// What is on its way of a shard is not written any more, and its replica is not told.
    pub fn stop(&mut self, shard: ShardId) {
        self.writing.retain(|then| !matches!(then, Then::Tell(of, _) if *of == shard));
        self.queue.retain(|(of, _, _)| *of != shard);
    }

    /// True if there is anything to write.
    pub fn wants_to_write(&self) -> bool {
        !self.syncing && !self.queue.is_empty()
    }

    /// Writes what is queued, not yet durably. False while there is no room.
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

    /// Makes it durable; the newest positions that are.
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

    /// Ends in order: what was asked for is written, and the log sealed.
    pub fn end(self) {
        let Journal { mut log, queue, .. } = self;
        for (shard, bytes, _) in queue {
            log.append(key(shard), bytes);
        }
        let _ = log.close(); // A full or failing disk: then it is as if the power had failed.
    }

    /// How far the open segment of the log is beyond doubt.
    pub fn vouched(&self) -> Option<(String, u64)> {
        self.log.vouched()
    }
}
