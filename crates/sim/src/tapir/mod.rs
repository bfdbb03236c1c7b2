//! TAPIR in the simulator: a node's incarnation, and its request router.

pub mod node_process;
mod protocol;
pub mod request_router;

pub use protocol::{SERIALIZABLE, STRICTLY_SERIALIZABLE};

use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange};

/// The marker type of TAPIR's worlds.
pub struct Tapir;

/// The division of the key space into two shards, which never changes.
#[derive(Clone, Debug)]
pub struct Halves {
    bounds: [KeyRange; 2],
}

impl Halves {
    /// Divides the key space at a key.
    pub fn at(middle: Key) -> Halves {
        let (first, second) = KeyRange::all().cut(&middle);
        Halves { bounds: [first, second] }
    }

    /// Returns both shards.
    pub fn all(&self) -> impl Iterator<Item = (ShardId, &KeyRange)> {
        self.bounds.iter().enumerate().map(|(shard, bounds)| (ShardId(shard as u32), bounds))
    }

    /// Returns the shard that has a key.
    pub fn of(&self, key: &Key) -> (ShardId, KeyRange) {
        let second = self.bounds[1].contains(key);
        (ShardId(second.into()), self.bounds[usize::from(second)].clone())
    }

    /// Returns the shard that has the last key below `end`, or the last shard.
    pub fn below(&self, end: Option<&Key>) -> (ShardId, KeyRange) {
        let second = end.is_none_or(|end| self.bounds[1].start < *end);
        (ShardId(second.into()), self.bounds[usize::from(second)].clone())
    }
}
