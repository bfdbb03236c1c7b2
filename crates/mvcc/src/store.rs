//! What stands behind Recent: a store of settled versions.

use crate::{Key, KeyRange, Value};
use meridian_clock::Timestamp;
use minicbor::{Decode, Encode};
use std::sync::Arc;

/// One shard's keys in a store that several shards share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct SpaceId {
    /// The database.
    #[n(0)]
    pub database: u32,
    /// The shard.
    #[n(1)]
    pub shard: u32,
    /// Which copy of it: one that is received whole is written beside the one that it replaces.
    #[n(2)]
    #[cbor(default)]
    pub copy: u8,
}

impl SpaceId {
    /// The first copy of a shard.
    pub fn new(database: u32, shard: u32) -> Self {
        SpaceId { database, shard, copy: 0 }
    }
}

/// A value at a timestamp; `None` is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Version {
    /// When it was committed.
    #[n(0)]
    pub at: Timestamp,
    /// The value, or a tombstone.
    #[n(1)]
    pub value: Option<Value>,
}

/// A version with its key.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StoredVersion {
    /// The key.
    #[n(0)]
    pub key: Key,
    /// The version.
    #[n(1)]
    pub version: Version,
}

/// What is written to a store in one step: all of it or, after a crash, none of it.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The space of its versions.
    pub space: SpaceId,
    /// New versions.
    pub versions: Vec<StoredVersion>,
    /// Versions that nobody may read any more.
    pub removals: Vec<(Key, Timestamp)>,
    /// Facts that must move together with the versions (an applied position, a horizon), each by
    /// the space that it is about and its name.
    pub facts: Vec<(SpaceId, &'static str, Vec<u8>)>,
}

/// Versions of a range, in key order (or reverse), newest first within a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// What was found.
    pub versions: Vec<StoredVersion>,
    /// What is left; `None` when the range is exhausted.
    pub rest: Option<KeyRange>,
}

/// A place among all versions of a space, in key order and newest first within a key. Behind it are
/// the versions of a range; of its first key only those older than a timestamp, if one is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The keys.
    pub range: KeyRange,
    /// The versions of the first key that are at or above this lie before the place.
    pub below: Option<Timestamp>,
}

/// A store of versions, shared by the shards of a node.
pub trait Store: Send + Sync {
    /// A consistent view of what has been applied so far.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError>;
    /// Writes a batch, unsynced: after a crash the store is as it was at its last checkpoint, or at
    /// a later whole batch.
    fn apply(&self, batch: Batch) -> Result<(), StoreError>;
    /// Writes a batch and makes it, and everything before it, survive a crash; after an error
    /// nothing of it was written.
    fn apply_durably(&self, batch: Batch) -> Result<(), StoreError>;
    /// Makes everything applied so far survive a crash.
    fn checkpoint(&self) -> Result<(), StoreError>;
    /// A fact of a space, as of the last `apply`.
    fn fact(&self, space: SpaceId, name: &str) -> Result<Option<Vec<u8>>, StoreError>;
    /// Removes a space and its facts.
    fn drop_space(&self, space: SpaceId) -> Result<(), StoreError>;
}

/// A view of a store that later batches do not change.
pub trait Snapshot: Send + Sync {
    /// The newest version of a key at or below `at`, a tombstone included.
    fn get(&self, space: SpaceId, key: &[u8], at: Timestamp)
    -> Result<Option<Version>, StoreError>;
    /// For each key of a range its newest version at or below `at`, tombstones included, up to a
    /// number of keys and about a number of bytes, but at least one key.
    fn scan(
        &self,
        space: SpaceId,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_keys: usize,
        limit_bytes: usize,
    ) -> Result<Page, StoreError>;
    /// Every version of a range in key order, up to about a number of bytes but always whole keys:
    /// what collection looks at.
    fn versions(
        &self,
        space: SpaceId,
        range: &KeyRange,
        limit_bytes: usize,
    ) -> Result<Page, StoreError>;
    /// Every version behind a place, up to about a number of bytes but at least one, and the place
    /// where the rest begins. A key with many versions takes several pages.
    fn history(
        &self,
        space: SpaceId,
        from: &Cursor,
        limit_bytes: usize,
    ) -> Result<(Vec<StoredVersion>, Option<Cursor>), StoreError>;
}

/// Why a store could not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// What was asked for is no longer kept: an error, never an empty answer.
    #[error("versions below {oldest} are no longer kept")]
    BelowHorizon {
        /// The oldest timestamp that can still be read.
        oldest: Timestamp,
    },
    /// Other keys than this shard has (any more).
    #[error("these keys are another shard's")]
    Elsewhere,
    /// No room. Reads go on.
    #[error("no room left on the disk that holds {file}")]
    Full {
        /// The file.
        file: String,
    },
    /// The file does not hold what was written to it, or is not ours.
    #[error("{file} is damaged: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// What was found, and what to do.
        what: String,
    },
    /// The disk refused.
    #[error("{file}: {what}")]
    Disk {
        /// The file.
        file: String,
        /// The operating system's words.
        what: String,
    },
}
