//! The commands that a group agrees on, and the rows that a shard keeps of them.

use crate::shard::{
    Command, OwnRows, ShardCommand, bytes, name_of, row, row_of_schema, take_schema, transaction_of,
};
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Key, Write, local};
use meridian_replication::group::Membership;
use meridian_txn::mvto::{Intent, Place, TransactionRecord};
use meridian_txn::{SchemaHistory, SchemaVersion, TransactionId};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

/// A command in the log. The timestamps of transactions are their coordinators'; those of the
/// others grow in the order of the log.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum OrderedCommand {
    /// Raises the ceiling: leaders serve reads at or below it, and the next leader accepts writes
    /// above it only.
    #[n(0)]
    Ceiling {
        /// The timestamp of the entry.
        #[n(0)]
        at: Timestamp,
        /// The ceiling; `at` if `None`.
        #[n(1)]
        through: Option<Timestamp>,
    },
    /// Splits the shard: the keys from `key` on belong to another shard.
    #[n(1)]
    Split {
        /// The timestamp of the entry.
        #[n(0)]
        at: Timestamp,
        /// The first key of the other shard.
        #[n(1)]
        key: Key,
        /// The other shard.
        #[n(2)]
        shard: ShardId,
        /// The other group's members; `None` means the members at the database's creation.
        #[n(3)]
        members: Option<Membership>,
    },
    /// Records the members of the group, which the log entry carries.
    #[n(2)]
    Members {
        /// The timestamp of the entry.
        #[n(0)]
        at: Timestamp,
    },
    /// A transaction that writes in this shard only is committed, unless it is aborted already.
    #[n(3)]
    Alone {
        /// The transaction.
        #[n(0)]
        transaction: TransactionId,
        /// Its timestamp.
        #[n(1)]
        at: Timestamp,
        /// Its writes.
        #[n(2)]
        writes: Vec<Write>,
        /// The schema versions that hold from here on.
        #[n(3)]
        schemas: Vec<SchemaVersion>,
    },
    /// A transaction writes here. In its recorder's shard it begins thereby, unless it is aborted
    /// already.
    #[n(4)]
    Intend {
        /// The transaction.
        #[n(0)]
        transaction: TransactionId,
        /// The intent.
        #[n(1)]
        intent: Intent,
    },
    /// The recorder decides a transaction, unless it is decided already.
    #[n(5)]
    Decide {
        /// The transaction.
        #[n(0)]
        transaction: TransactionId,
        /// Its timestamp.
        #[n(1)]
        at: Timestamp,
        /// True if it commits.
        #[n(2)]
        commits: bool,
        /// The other shards that have intents, or may have.
        #[n(3)]
        places: Vec<Place>,
        /// The number of parts in which a transaction that commits has written here.
        #[n(4)]
        parts: u32,
    },
    /// The outcome of a transaction whose recorder is another shard.
    #[n(6)]
    Finalize {
        /// The transaction.
        #[n(0)]
        transaction: TransactionId,
        /// The commit timestamp, or `None` if it is aborted.
        #[n(1)]
        at: Option<Timestamp>,
        /// The number of parts in which a committed one has written here.
        #[n(2)]
        parts: u32,
    },
    /// Closes timestamps: no write at or below one of them is accepted any more.
    #[n(7)]
    Close {
        /// The timestamp of the entry.
        #[n(0)]
        at: Timestamp,
        /// The latest closed timestamp.
        #[n(1)]
        through: Timestamp,
    },
    /// Every shard has the outcomes of these transactions in its log.
    #[n(8)]
    Forget {
        /// The timestamp of the entry.
        #[n(0)]
        at: Timestamp,
        /// The transactions.
        #[n(1)]
        transactions: Vec<TransactionId>,
    },
}

impl Command for OrderedCommand {
    fn newest(&self) -> Timestamp {
        match self {
            OrderedCommand::Ceiling { at, through } => through.unwrap_or(*at).max(*at),
            OrderedCommand::Split { at, .. }
            | OrderedCommand::Members { at }
            | OrderedCommand::Alone { at, .. }
            | OrderedCommand::Decide { at, .. }
            | OrderedCommand::Close { at, .. }
            | OrderedCommand::Forget { at, .. } => *at,
            OrderedCommand::Intend { intent, .. } => intent.at,
            OrderedCommand::Finalize { at, .. } => at.unwrap_or_default(),
        }
    }

    fn drawn(&self) -> Option<Timestamp> {
        match self {
            OrderedCommand::Ceiling { at, .. }
            | OrderedCommand::Split { at, .. }
            | OrderedCommand::Members { at }
            | OrderedCommand::Close { at, .. }
            | OrderedCommand::Forget { at, .. } => Some(*at),
            OrderedCommand::Alone { .. }
            | OrderedCommand::Intend { .. }
            | OrderedCommand::Decide { .. }
            | OrderedCommand::Finalize { .. } => None,
        }
    }

    fn about_shard(command: ShardCommand) -> OrderedCommand {
        match command {
            ShardCommand::Ceiling { at, through } => OrderedCommand::Ceiling { at, through },
            ShardCommand::Split { at, key, shard, members } => {
                OrderedCommand::Split { at, key, shard, members }
            }
            ShardCommand::Members { at } => OrderedCommand::Members { at },
        }
    }

    fn into_shard(self) -> Result<ShardCommand, OrderedCommand> {
        match self {
            OrderedCommand::Ceiling { at, through } => Ok(ShardCommand::Ceiling { at, through }),
            OrderedCommand::Split { at, key, shard, members } => {
                Ok(ShardCommand::Split { at, key, shard, members })
            }
            OrderedCommand::Members { at } => Ok(ShardCommand::Members { at }),
            of_transaction => Err(of_transaction),
        }
    }
}

/// The transaction state that a shard must not lose, besides the versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderedRows {
    /// The intents, by their parts.
    pub intents: BTreeMap<(TransactionId, u32), Intent>,
    /// The records of transactions that this shard decides.
    pub records: BTreeMap<TransactionId, TransactionRecord>,
    /// The schema versions of tables.
    pub schemas: BTreeMap<u32, SchemaHistory>,
    /// The closed timestamp.
    pub closed: Timestamp,
}

const INTENT: u8 = b'i';
const RECORD: u8 = b'r';
const CLOSED: u8 = b'l';

/// The write of an intent's row, or its deletion.
pub(super) fn row_of_intent(
    shard: ShardId,
    transaction: TransactionId,
    part: u32,
    intent: Option<&Intent>,
) -> Write {
    let name = [name_of(transaction), part.to_be_bytes().to_vec()].concat();
    row(shard, INTENT, &name, intent.and_then(bytes))
}

/// The write of a record's row, or its deletion.
pub(super) fn row_of_record(
    shard: ShardId,
    transaction: TransactionId,
    record: Option<&TransactionRecord>,
) -> Write {
    row(shard, RECORD, &name_of(transaction), record.and_then(bytes))
}

/// The row of the closed timestamp.
pub(super) fn row_of_closed(shard: ShardId, closed: Timestamp) -> Write {
    row(shard, CLOSED, &[], Some(closed.to_be_bytes().to_vec()))
}

/// The rows of tables' schemas in a shard.
pub(super) fn rows_of_schemas(
    shard: ShardId,
    schemas: &BTreeMap<u32, SchemaHistory>,
) -> impl Iterator<Item = Write> + '_ {
    schemas.iter().map(move |(table, history)| row_of_schema(shard, *table, history))
}

impl OwnRows for OrderedRows {
    fn take(&mut self, kind: u8, name: &[u8], value: &[u8]) -> Option<()> {
        match kind {
            INTENT => {
                let intent: Intent = minicbor::decode(value).ok()?;
                drop(self.intents.insert((transaction_of(name)?, intent.part), intent));
            }
            RECORD => {
                drop(self.records.insert(transaction_of(name)?, minicbor::decode(value).ok()?));
            }
            CLOSED => self.closed = Timestamp::from_be_bytes(value.try_into().ok()?),
            local::SCHEMA => take_schema(&mut self.schemas, name, value)?,
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::Rows;
    use meridian_machine::NodeId;
    use meridian_mvcc::Value;
    use meridian_replication::group::Payload;
    use meridian_txn::mvto::State;
    use meridian_txn::shards::ReplicaId;

    #[test]
    fn rows_and_commands_read_back_and_garbage_is_an_error() {
        let at = Timestamp { nanos: 7, logical: 1 << 31, issuer: 1 };
        let transaction = TransactionId { node: 1, incarnation: 2, number: 3 };
        let (shard, recorder) = (ShardId(9), ReplicaId { shard: ShardId(4), node: NodeId(2) });
        let writes = vec![Write { key: "a".into(), value: Some("b".into()) }];
        let schemas = vec![SchemaVersion { table: 6, version: 2 }];
        let intent = Intent {
            at,
            recorder,
            part: 2,
            writes: writes.clone(),
            withdrawn: vec!["c".into()],
            schemas: schemas.clone(),
        };
        let places = vec![Place { shard: ShardId(5), term: 3, parts: 1 }];
        let record = TransactionRecord { at, state: State::Committed, places: places.clone() };
        let mut history = SchemaHistory::default();
        history.begin(at, 2);
        let histories: BTreeMap<u32, SchemaHistory> = [(6, history)].into();
        let rows = [
            row_of_intent(shard, transaction, 2, Some(&intent)),
            row_of_record(shard, transaction, Some(&record)),
            row_of_closed(shard, at),
        ];
        let rows: Vec<(Key, Value)> = rows
            .into_iter()
            .chain(rows_of_schemas(shard, &histories))
            .map(|write| (write.key, write.value.unwrap()))
            .collect();
        let read = Rows::<OrderedRows>::read(shard, &rows).unwrap().own;
        assert_eq!(read.intents, [((transaction, 2), intent.clone())].into());
        assert_eq!((read.records, read.closed), ([(transaction, record)].into(), at));
        assert_eq!(read.schemas, histories);
        for (key, value) in rows {
            let cut = Value::from(&value[..value.len() - 1]);
            assert!(Rows::<OrderedRows>::read(shard, &[(key.clone(), cut)]).is_err());
            let strange = (local::protocol(9, b"?"), value);
            assert!(Rows::<OrderedRows>::read(shard, &[strange]).is_err());
        }
        for command in [
            OrderedCommand::Ceiling { at, through: Some(at) },
            OrderedCommand::Alone { transaction, at, writes, schemas },
            OrderedCommand::Intend { transaction, intent },
            OrderedCommand::Decide { transaction, at, commits: true, places, parts: 1 },
            OrderedCommand::Finalize { transaction, at: None, parts: 0 },
            OrderedCommand::Close { at, through: at },
            OrderedCommand::Forget { at, transactions: vec![transaction] },
        ] {
            let payload = command.to_payload();
            assert_eq!(OrderedCommand::from_payload(&payload), Ok(Some(command)));
            for end in 1..payload.0.len() {
                let cut = Payload(payload.0[..end].to_vec().into());
                assert!(OrderedCommand::from_payload(&cut).is_err());
            }
        }
    }
}
