//! The protocol's part of a world: what a node's life is, and what its sessions see of it.

pub mod desk;
pub mod life;
mod protocol;

pub use protocol::{SERIALIZABLE, STRICTLY_SERIALIZABLE};

use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange};

/// Marks worlds of the protocol.
pub struct Tapir;

/// Which shard has which keys: two of them, for ever.
#[derive(Clone, Debug)]
pub struct Halves {
    bounds: [KeyRange; 2],
}

impl Halves {
    /// Those below a key, and the others.
    pub fn at(middle: Key) -> Halves {
        let (first, second) = KeyRange::all().cut(&middle);
        Halves { bounds: [first, second] }
    }

    /// Both.
    pub fn all(&self) -> impl Iterator<Item = (ShardId, &KeyRange)> {
        self.bounds.iter().enumerate().map(|(shard, bounds)| (ShardId(shard as u32), bounds))
    }

    /// The one that has a key.
    pub fn of(&self, key: &Key) -> (ShardId, KeyRange) {
        let second = self.bounds[1].contains(key);
        (ShardId(second.into()), self.bounds[usize::from(second)].clone())
    }

    /// The one that has the last key below one, or the last of all.
    pub fn below(&self, end: Option<&Key>) -> (ShardId, KeyRange) {
        let second = end.is_none_or(|end| self.bounds[1].start < *end);
        (ShardId(second.into()), self.bounds[usize::from(second)].clone())
    }
}
