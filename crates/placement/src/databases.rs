//! The databases of a cluster.

use meridian_clock::duration;
use meridian_machine::{DatabaseId, NodeId, ShardId};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;
use std::time::Duration;

/// The database that holds the cluster's metadata.
pub const SYSTEM: DatabaseId = DatabaseId(0);
/// The database that PostgreSQL clients expect.
pub const POSTGRES: DatabaseId = DatabaseId(1);
/// The database for users to begin with.
pub const MERIDIAN: DatabaseId = DatabaseId(2);
/// The first number for `CREATE DATABASE`.
pub const FIRST_FREE: DatabaseId = DatabaseId(3);

const PREFIX: &[u8] = b"\0placement\0database\0";
const SHARDS: &[u8] = b"\0placement\0shards\0";

/// Returns the prefix of the rows in `system` that describe databases.
pub fn row_prefix() -> &'static [u8] {
    PREFIX
}

/// Returns the key in `system` of the newest shard number of a database.
pub fn shards_key(id: DatabaseId) -> Vec<u8> {
    [SHARDS, &id.0.to_be_bytes()].concat()
}

/// A database, as its row in `system` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseRow {
    /// Its number, never reused.
    pub id: DatabaseId,
    /// Its name.
    pub name: String,
    /// The name of its protocol.
    pub protocol: String,
    /// The shards at its creation. Later splits are in the shards' own logs.
    pub shards: Vec<ShardId>,
    /// True if it is dropped. The row stays so that the number is not reused.
    pub dropped: bool,
    /// Its settings by name. The protocol has validated them.
    pub settings: BTreeMap<String, String>,
    /// The nodes with a replica, where the row determines them. Empty for all nodes, or where the
    /// groups determine them.
    pub replicas: Vec<NodeId>,
    /// The number of changes of the replicas.
    pub epoch: u32,
    /// The former replicas, until the present ones have taken over.
    pub former: Vec<NodeId>,
    /// The first epoch of each node's uninterrupted membership. A node that is missing has been a
    /// replica from the beginning.
    pub since: Vec<(NodeId, u32)>,
}

/// The encoding of a row. Fields that earlier versions did not have come last.
#[derive(Encode, Decode)]
struct Written {
    #[n(0)]
    id: DatabaseId,
    #[n(1)]
    name: String,
    #[n(2)]
    protocol: String,
    #[n(3)]
    shards: Vec<ShardId>,
    #[n(4)]
    dropped: bool,
    /// `version_retention_period` and `prepare_wait` in nanoseconds: a node of the previous version
    /// reads them here, and rows that it wrote have no map.
    #[n(5)]
    #[cbor(default)]
    retention_ns: Option<u64>,
    #[n(6)]
    #[cbor(default)]
    replicas: Vec<NodeId>,
    #[n(7)]
    #[cbor(default)]
    prepare_wait_ns: Option<u64>,
    #[n(8)]
    #[cbor(default)]
    epoch: u32,
    #[n(9)]
    #[cbor(default)]
    former: Vec<NodeId>,
    #[n(10)]
    #[cbor(default)]
    since: Vec<(NodeId, u32)>,
    #[n(11)]
    #[cbor(default)]
    settings: Option<BTreeMap<String, String>>,
}

const RETENTION: &str = "version_retention_period";
const PREPARE_WAIT: &str = "prepare_wait";

impl From<&DatabaseRow> for Written {
    fn from(row: &DatabaseRow) -> Written {
        let DatabaseRow {
            id,
            name,
            protocol,
            shards,
            dropped,
            settings,
            replicas,
            epoch,
            former,
            since,
        } = row.clone();
        let ns = |name: &str| {
            let time = duration::parse(settings.get(name)?)?;
            Some(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        };
        let (retention_ns, prepare_wait_ns) = (ns(RETENTION), ns(PREPARE_WAIT));
        let settings = Some(settings);
        Written {
            id,
            name,
            protocol,
            shards,
            dropped,
            retention_ns,
            replicas,
            prepare_wait_ns,
            epoch,
            former,
            since,
            settings,
        }
    }
}

impl From<Written> for DatabaseRow {
    fn from(written: Written) -> DatabaseRow {
        let Written { id, name, protocol, shards, dropped, replicas, epoch, former, since, .. } =
            written;
        let settings = written.settings.unwrap_or_else(|| {
            let of = |name: &str, ns: Option<u64>| {
                Some((name.to_owned(), duration::show(Duration::from_nanos(ns?))))
            };
            let known =
                [of(RETENTION, written.retention_ns), of(PREPARE_WAIT, written.prepare_wait_ns)];
            known.into_iter().flatten().collect()
        });
        DatabaseRow {
            id,
            name,
            protocol,
            shards,
            dropped,
            settings,
            replicas,
            epoch,
            former,
            since,
        }
    }
}

impl DatabaseRow {
    /// Makes a database of the protocol "spanner" with one shard.
    pub fn new(id: DatabaseId, name: impl Into<String>) -> Self {
        let (protocol, shards) = ("spanner".into(), vec![ShardId(0)]);
        DatabaseRow {
            id,
            name: name.into(),
            protocol,
            shards,
            dropped: false,
            settings: BTreeMap::new(),
            replicas: Vec::new(),
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
        minicbor::to_vec(Written::from(self)).expect("invariant: writing to memory cannot fail")
    }

    /// Reads a row. `None` if these bytes are not one.
    pub fn read(value: &[u8]) -> Option<Self> {
        minicbor::decode::<Written>(value).ok().map(DatabaseRow::from)
    }
}

/// The databases that a node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Databases {
    by_id: BTreeMap<DatabaseId, DatabaseRow>,
}

impl Default for Databases {
    fn default() -> Self {
        let birth = [(SYSTEM, "system"), (POSTGRES, "postgres"), (MERIDIAN, "meridian")];
        Databases {
            by_id: birth.map(|(id, name)| (id, DatabaseRow::new(id, name))).into_iter().collect(),
        }
    }
}

impl Databases {
    /// Returns the databases that exist in every cluster.
    pub fn initial() -> Self {
        Self::default()
    }

    /// Takes in a row. True if it changes something.
    pub fn learn(&mut self, row: DatabaseRow) -> bool {
        let known = self.by_id.get(&row.id);
        let row = match known {
            // Only the settings of predefined databases can change.
            Some(known) if row.id < FIRST_FREE => {
                DatabaseRow { settings: row.settings, ..known.clone() }
            }
            None if row.id < FIRST_FREE => return false,
            _ => row,
        };
        // A number is never reused: a dropped database stays dropped, and an epoch never decreases,
        // whatever older row arrives later.
        let step = |row: &DatabaseRow| (row.epoch, row.former.is_empty());
        if known.is_some_and(|known| known.dropped || *known == row || step(known) > step(&row)) {
            return false;
        }
        self.by_id.insert(row.id, row);
        true
    }

    /// Returns the database of this name that is not dropped.
    pub fn named(&self, name: &str) -> Option<&DatabaseRow> {
        self.iter().find(|row| row.name == name)
    }

    /// The databases that are not dropped, by number.
    pub fn iter(&self) -> impl Iterator<Item = &DatabaseRow> {
        self.by_id.values().filter(|row| !row.dropped)
    }

    /// Returns the number for the next new database.
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
        let settings =
            [("prepare_wait", "5ms"), ("version_retention_period", "1h"), ("theirs", "x")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let of_lab = DatabaseRow { settings, ..row.clone() };
        assert_eq!(DatabaseRow::read(&of_lab.value()), Some(of_lab.clone()));
        // As versions without the fields after `dropped` wrote it.
        let mut older = Vec::new();
        let mut written = minicbor::Encoder::new(&mut older);
        written
            .array(5)
            .and_then(|row| row.u32(7)?.str("lab")?.str("spanner")?.array(1)?.u32(0)?.bool(false))
            .unwrap();
        assert_eq!(DatabaseRow::read(&older), Some(row));
        // As the version before the map of settings wrote and reads it.
        let written = Written { settings: None, ..Written::from(&of_lab) };
        assert_eq!(
            (written.retention_ns, written.prepare_wait_ns),
            (Some(3_600_000_000_000), Some(5_000_000))
        );
        let older = DatabaseRow::read(&minicbor::to_vec(written).unwrap()).expect("a row");
        assert_eq!(older.settings.len(), 2);
        assert_eq!(older.settings["prepare_wait"], "5ms");
    }

    #[test]
    fn a_dropped_number_is_not_given_out_again() {
        let mut databases = Databases::initial();
        let lab = DatabaseRow::new(databases.next_id(), "lab");
        assert!(databases.learn(lab.clone()));
        assert!(!databases.learn(lab.clone()));
        assert!(databases.named("lab").is_some());
        databases.learn(DatabaseRow { dropped: true, ..lab.clone() });
        assert!(databases.named("lab").is_none());
        assert!(databases.next_id() > lab.id);
        assert!(!databases.learn(lab), "an older row arrives late");
        assert!(databases.named("lab").is_none());
    }

    #[test]
    fn the_databases_of_birth_cannot_be_changed_by_a_row() {
        let mut databases = Databases::initial();
        assert!(
            !databases.learn(DatabaseRow { dropped: true, ..DatabaseRow::new(SYSTEM, "system") })
        );
        assert!(databases.named("system").is_some());
        let settings = BTreeMap::from([("version_retention_period".to_owned(), "7s".to_owned())]);
        let set = DatabaseRow { settings, dropped: true, ..DatabaseRow::new(MERIDIAN, "another") };
        assert!(databases.learn(set.clone()), "only their settings can change");
        assert!(!databases.learn(set));
        assert_eq!(databases.named("meridian").map(|row| row.settings.len()), Some(1));
    }
}
