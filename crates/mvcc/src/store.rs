//! The interface of the store behind Recent, which holds flushed versions.

use crate::{Key, KeyRange, Value};
use meridian_clock::Timestamp;
use minicbor::{Decode, Encode};
use std::ops::RangeInclusive;
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
    /// The copy of the shard's data: a snapshot that is received is written beside the copy that it
    /// replaces.
    #[n(2)]
    #[cbor(default)]
    pub copy: u8,
}

impl SpaceId {
    /// Returns the id of the first copy of a shard.
    pub fn new(database: u32, shard: u32) -> Self {
        SpaceId { database, shard, copy: 0 }
    }
}

/// A value at a timestamp; `None` is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Version {
    /// The commit timestamp.
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

/// The changes that are written to a store atomically: after a crash either all or none of them are
/// there.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The space of its versions.
    pub space: SpaceId,
    /// New versions.
    pub versions: Vec<StoredVersion>,
    /// Versions that no read needs any more.
    pub removals: Vec<(Key, Timestamp)>,
    /// Facts that must change together with the versions (an applied position, a horizon); each has
    /// a space and a name.
    pub facts: Vec<(SpaceId, &'static str, Vec<u8>)>,
}

/// Versions of a range, in key order or in reverse, newest first within a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The versions that were found.
    pub versions: Vec<StoredVersion>,
    /// The part of the range that is left; `None` if there is none.
    pub rest: Option<KeyRange>,
}

/// A position among all versions of a space, in key order and newest first within a key. Behind it
/// are the versions of a range; of its first key only those older than a timestamp, if one is
/// given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The keys.
    pub range: KeyRange,
    /// The versions of the first key that are at or above this lie before the position.
    pub below: Option<Timestamp>,
}

/// A store of versions, shared by the shards of a node.
pub trait Store: Send + Sync {
    /// Returns a consistent view of what has been applied so far.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError>;
    /// Writes a batch, unsynced: after a crash the store is as it was at its last checkpoint, or at
    /// a later whole batch.
    fn apply(&self, batch: Batch) -> Result<(), StoreError>;
    /// Writes a batch and makes it, and everything before it, survive a crash. After an error none
    /// of it was written.
    fn apply_durably(&self, batch: Batch) -> Result<(), StoreError>;
    /// Makes everything applied so far survive a crash.
    fn checkpoint(&self) -> Result<(), StoreError>;
    /// Returns a fact of a space, as of the last `apply`.
    fn fact(&self, space: SpaceId, name: &str) -> Result<Option<Vec<u8>>, StoreError>;
    /// Removes a range of spaces and their facts in one step.
    fn drop_spaces(&self, spaces: RangeInclusive<SpaceId>) -> Result<(), StoreError>;
}

/// A view of a store that later batches do not change.
pub trait Snapshot: Send + Sync {
    /// Returns the newest version of a key at or below `at`, a tombstone included.
    fn get(&self, space: SpaceId, key: &[u8], at: Timestamp)
    -> Result<Option<Version>, StoreError>;
    /// Returns for each key of a range its newest version at or below `at`, tombstones included, up
    /// to a number of keys and about a number of bytes, but at least one key.
    fn scan(
        &self,
        space: SpaceId,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_keys: usize,
        limit_bytes: usize,
    ) -> Result<Page, StoreError>;
    /// Returns every version of a range in key order, up to about a number of bytes but always
    /// whole keys; used by garbage collection.
    fn versions(
        &self,
        space: SpaceId,
        range: &KeyRange,
        limit_bytes: usize,
    ) -> Result<Page, StoreError>;
    /// Returns every version behind a position, up to about a number of bytes but at least one, and
    /// the position where the rest begins. A key with many versions takes several pages.
    fn history(
        &self,
        space: SpaceId,
        from: &Cursor,
        limit_bytes: usize,
    ) -> Result<(Vec<StoredVersion>, Option<Cursor>), StoreError>;
}

/// The error of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The requested versions are no longer kept: an error, never an empty result.
    #[error("versions below {oldest} are no longer kept")]
    BelowHorizon {
        /// The oldest timestamp that can still be read.
        oldest: Timestamp,
    },
    /// This shard does not have the requested keys, or not any more.
    #[error("these keys are another shard's")]
    Elsewhere,
    /// The disk is full. Reads still succeed.
    #[error("no room left on the disk that holds {file}")]
    Full {
        /// The file.
        file: String,
    },
    /// The file does not hold what was written to it, or is not a file of Meridian.
    #[error("{file} is damaged: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// The finding, and the way out.
        what: String,
    },
    /// The operating system reported an I/O error.
    #[error("{file}: {what}")]
    Disk {
        /// The file.
        file: String,
        /// The operating system's error message.
        what: String,
    },
}
