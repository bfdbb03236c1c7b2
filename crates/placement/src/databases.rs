//! Which databases there are.

use meridian_machine::{DatabaseId, NodeId, ShardId};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

/// The database that holds the cluster's own facts.
pub const SYSTEM: DatabaseId = DatabaseId(0);
/// The database that PostgreSQL clients expect.
pub const POSTGRES: DatabaseId = DatabaseId(1);
/// The database that users begin with.
pub const MERIDIAN: DatabaseId = DatabaseId(2);
/// The first number that `CREATE DATABASE` gives out.
pub const FIRST_FREE: DatabaseId = DatabaseId(3);

const PREFIX: &[u8] = b"\0placement\0database\0";
const SHARDS: &[u8] = b"\0placement\0shards\0";

/// The prefix of the rows in `system` that say which databases there are.
pub fn row_prefix() -> &'static [u8] {
    PREFIX
}

/// The key in `system` of the newest number that was given to a shard of a database.
pub fn shards_key(id: DatabaseId) -> Vec<u8> {
    [SHARDS, &id.0.to_be_bytes()].concat()
}

/// One database, as its row in `system` says.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct DatabaseRow {
    /// Its number, never reused.
    #[n(0)]
    pub id: DatabaseId,
    /// Its name.
    #[n(1)]
    pub name: String,
    /// The recipe that runs it.
    #[n(2)]
    pub protocol: String,
    /// The shards that it began with. What they became since, their own logs say.
    #[n(3)]
    pub shards: Vec<ShardId>,
    /// Dropped: the row stays so that the number is not given out again.
    #[n(4)]
    pub dropped: bool,
    /// For how long superseded versions can be read, in nanoseconds; without it, for as long as the node says.
    #[n(5)]
    #[cbor(default)]
    pub retention_ns: Option<u64>,
    /// The nodes that have a replica, where that is fixed from the beginning; none: all nodes, or whoever its groups say.
    #[n(6)]
    #[cbor(default)]
    pub replicas: Vec<NodeId>,
    /// So long a replica of TAPIR waits with what is to be prepared for what has an earlier timestamp, in nanoseconds; without it, nothing waits.
    #[n(7)]
    #[cbor(default)]
    pub prepare_wait_ns: Option<u64>,
    /// How often others took over from those.
    #[n(8)]
    #[cbor(default)]
    pub epoch: u32,
    /// From whom these take over; none, once they have.
    #[n(9)]
    #[cbor(default)]
    pub former: Vec<NodeId>,
    /// Since which epoch a node has a replica, without a break; one that is not named, from the beginning.
    #[n(10)]
    #[cbor(default)]
    pub since: Vec<(NodeId, u32)>,
}

impl DatabaseRow {
    /// A database with one shard under the spanner recipe.
    pub fn new(id: DatabaseId, name: impl Into<String>) -> Self {
        let (protocol, shards) = ("spanner".into(), vec![ShardId(0)]);
        DatabaseRow {
            id,
            name: name.into(),
            protocol,
            shards,
            dropped: false,
            retention_ns: None,
            replicas: Vec::new(),
            prepare_wait_ns: None,
            epoch: 0,
            former: Vec::new(),
            since: Vec::new(),
        }
    }

    /// The row's key in `system`.
    pub fn key(&self) -> Vec<u8> {
        let mut key = PREFIX.to_vec();
        key.extend_from_slice(&self.id.0.to_be_bytes());
        key
    }

    /// The row's value in `system`.
    pub fn value(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("invariant: writing to memory cannot fail")
    }

    /// Reads a row. `None` if these bytes are not one.
    pub fn read(value: &[u8]) -> Option<Self> {
        minicbor::decode(value).ok()
    }
}

/// The databases that a node knows of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Databases {
    by_id: BTreeMap<DatabaseId, DatabaseRow>,
}

impl Default for Databases {
    fn default() -> Self {
        let birth = [(SYSTEM, "system"), (POSTGRES, "postgres"), (MERIDIAN, "meridian")];
        Databases { by_id: birth.map(|(id, name)| (id, DatabaseRow::new(id, name))).into_iter().collect() }
    }
}

impl Databases {
    /// The databases that exist from birth.
    pub fn at_birth() -> Self {
        Self::default()
    }

    /// Takes in a row. True if it says something new.
    pub fn learn(&mut self, row: DatabaseRow) -> bool {
        let known = self.by_id.get(&row.id);
        let row = match known {
            // Those of birth are what they are; but for how long they keep versions.
            Some(known) if row.id < FIRST_FREE => DatabaseRow { retention_ns: row.retention_ns, ..known.clone() },
            None if row.id < FIRST_FREE => return false,
            _ => row,
        };
        // A number is never reused: what was dropped stays so, whatever older row is heard of later. And epochs do not go back.
        let step = |row: &DatabaseRow| (row.epoch, row.former.is_empty());
        if known.is_some_and(|known| known.dropped || *known == row || step(known) > step(&row)) {
            return false;
        }
        self.by_id.insert(row.id, row);
        true
    }

    /// The living database of this name.
    pub fn named(&self, name: &str) -> Option<&DatabaseRow> {
        self.iter().find(|row| row.name == name)
    }

    /// The living databases, by number.
    pub fn iter(&self) -> impl Iterator<Item = &DatabaseRow> {
        self.by_id.values().filter(|row| !row.dropped)
    }

    /// The number that the next new database gets.
    pub fn next_id(&self) -> DatabaseId {
        let last = self.by_id.keys().next_back().map_or(0, |id| id.0 + 1);
        DatabaseId(last.max(FIRST_FREE.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_back_and_garbage_does_not() {
        let row = DatabaseRow::new(DatabaseId(7), "lab");
        assert_eq!(DatabaseRow::read(&row.value()), Some(row.clone()));
        assert_eq!(DatabaseRow::read(&[0xff; 9]), None);
        for cut in 0..row.value().len() {
            assert_eq!(DatabaseRow::read(&row.value()[..cut]), None);
        }
        assert!(row.key().starts_with(row_prefix()));
        let of_lab = DatabaseRow { prepare_wait_ns: Some(5_000_000), ..row.clone() };
        assert_eq!(DatabaseRow::read(&of_lab.value()), Some(of_lab));
        // As versions wrote it that did not know of anything behind `dropped`.
        let mut older = Vec::new();
        let mut written = minicbor::Encoder::new(&mut older);
        written.array(5).and_then(|row| row.u32(7)?.str("lab")?.str("spanner")?.array(1)?.u32(0)?.bool(false)).unwrap();
        assert_eq!(DatabaseRow::read(&older), Some(row));
    }

    #[test]
    fn a_dropped_number_is_not_given_out_again() {
        let mut databases = Databases::at_birth();
        let lab = DatabaseRow::new(databases.next_id(), "lab");
        assert!(databases.learn(lab.clone()));
        assert!(!databases.learn(lab.clone()));
        assert!(databases.named("lab").is_some());
        databases.learn(DatabaseRow { dropped: true, ..lab.clone() });
        assert!(databases.named("lab").is_none());
        assert!(databases.next_id() > lab.id);
        assert!(!databases.learn(lab), "an older row comes late");
        assert!(databases.named("lab").is_none());
    }

    #[test]
    fn the_databases_of_birth_cannot_be_changed_by_a_row() {
        let mut databases = Databases::at_birth();
        assert!(!databases.learn(DatabaseRow { dropped: true, ..DatabaseRow::new(SYSTEM, "system") }));
        assert!(databases.named("system").is_some());
        let kept = DatabaseRow { retention_ns: Some(7), dropped: true, ..DatabaseRow::new(MERIDIAN, "another") };
        assert!(databases.learn(kept.clone()), "but for how long it keeps versions");
        assert!(!databases.learn(kept));
        assert_eq!(databases.named("meridian").and_then(|row| row.retention_ns), Some(7));
    }
}
