//! What members agree on, and what a shard keeps for itself of it.

use crate::shard::{Command, Damaged, OwnRows, ShardCommand, bytes, row};
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange, Value, Write, local};
use meridian_replication::group::{Membership, Payload};
use meridian_txn::locking::{Blind, TransactionId};
use meridian_txn::{Age, Lock, SchemaHistory, SchemaVersion};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

const FORMAT: u8 = 1;

/// One agreed entry. Timestamps grow in the order of the log, except those of outcomes, which were
/// chosen elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Agreed {
    /// A transaction committed.
    #[n(0)]
    Commit {
        /// The commit timestamp.
        #[n(0)]
        at: Timestamp,
        /// The attempt that committed.
        #[n(1)]
        transaction: TransactionId,
        /// What it wrote.
        #[n(2)]
        writes: Vec<Write>,
        /// Shards that are prepared, and have to be told.
        #[n(3)]
        #[cbor(default)]
        participants: Vec<ShardId>,
        /// Versions of schemas that hold from here on.
        #[n(4)]
        #[cbor(default)]
        schemas: Vec<SchemaVersion>,
        /// The terms in which the participants voted, in the same order.
        #[n(5)]
        #[cbor(default)]
        voted_in: Vec<u64>,
    },
    /// Whoever leads next issues above the ceiling: below it this leader promises in memory.
    #[n(1)]
    Ceiling {
        /// When.
        #[n(0)]
        at: Timestamp,
        /// The ceiling; the timestamp itself, if none is given.
        #[n(1)]
        through: Option<Timestamp>,
    },
    /// A transaction is prepared here.
    #[n(2)]
    Prepare {
        /// The attempt.
        #[n(0)]
        transaction: TransactionId,
        /// How.
        #[n(1)]
        prepared: Prepared,
    },
    /// What became of a transaction that is prepared here.
    #[n(3)]
    Outcome {
        /// The attempt.
        #[n(0)]
        transaction: TransactionId,
        /// When it committed; none if it is aborted.
        #[n(1)]
        at: Option<Timestamp>,
    },
    /// Every participant has these outcomes in its log.
    #[n(4)]
    Forget {
        /// When.
        #[n(0)]
        at: Timestamp,
        /// Of which transactions.
        #[n(1)]
        transactions: Vec<TransactionId>,
    },
    /// From here on the keys from one on are another shard's.
    #[n(5)]
    Split {
        /// When.
        #[n(0)]
        at: Timestamp,
        /// The first key of the other.
        #[n(1)]
        key: Key,
        /// The other.
        #[n(2)]
        shard: ShardId,
        /// Who is in the other's group; everybody there was at the database's creation, if none is
        /// given.
        #[n(3)]
        members: Option<Membership>,
    },
    /// The entry that carries this says who is in the group.
    #[n(6)]
    Members {
        /// When.
        #[n(0)]
        at: Timestamp,
    },
}

/// A prepared transaction: what a later leader has to know of it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Prepared {
    /// The prepare timestamp.
    #[n(0)]
    pub at: Timestamp,
    /// Its age.
    #[n(1)]
    pub age: Age,
    /// Whose group decides.
    #[n(2)]
    pub coordinator: ShardId,
    /// What it will have written here.
    #[n(3)]
    pub writes: Vec<Write>,
    /// What it holds here besides, shared or not (Trap A.5-8).
    #[n(4)]
    pub locks: Vec<(KeyRange, Lock)>,
    /// The commit timestamp is below this one: from there on a schema may be another than it was
    /// planned for.
    #[n(5)]
    pub below: Option<Timestamp>,
    /// The schemas that it changes, and from when on at the earliest (§4.2.3).
    #[n(6)]
    pub changes: Option<(Timestamp, Vec<SchemaVersion>)>,
    /// How the coordinator was asked, if the attempt has locked nothing there.
    #[n(7)]
    pub blind: Option<Blind>,
    /// The term of the coordinator's leadership that decides, or none ever.
    #[n(8)]
    #[cbor(default)]
    pub decides: u64,
}

impl Prepared {
    /// The prepare timestamp that the commit timestamp is at or above: of a change of schemas one
    /// that lies ahead.
    pub fn from(&self) -> Timestamp {
        self.changes.as_ref().map_or(self.at, |(from, _)| self.at.max(*from))
    }

    /// Whether it writes into a range.
    pub fn writes_into(&self, range: &KeyRange) -> bool {
        any_within(&self.writes, |write| &write.key, range)
    }
}

/// Whether any of what is sorted by key lies in a range.
pub(super) fn any_within<T>(sorted: &[T], key: impl Fn(&T) -> &Key, range: &KeyRange) -> bool {
    let first = sorted.partition_point(|one| *key(one) < range.start);
    sorted.get(first).is_some_and(|one| range.contains(key(one)))
}

/// A commit that was decided here and that participants have to be told of.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Decision {
    /// The commit timestamp.
    #[n(0)]
    pub at: Timestamp,
    /// Who was prepared.
    #[n(1)]
    pub participants: Vec<ShardId>,
    /// The terms in which they voted, in the same order.
    #[n(2)]
    #[cbor(default)]
    pub voted_in: Vec<u64>,
}

impl Command for Agreed {
    fn encode(&self) -> Payload {
        let mut bytes = vec![FORMAT];
        minicbor::encode(self, &mut bytes).expect("invariant: writing to memory cannot fail");
        Payload(bytes.into())
    }

    fn decode(payload: &Payload) -> Result<Option<Agreed>, Damaged> {
        match payload.0.split_first() {
            None => Ok(None),
            Some((&FORMAT, rest)) => {
                minicbor::decode(rest).map(Some).map_err(|error| Damaged(error.to_string()))
            }
            Some((format, _)) => Err(Damaged(format!("format {format} is newer than {FORMAT}"))),
        }
    }

    fn newest(&self) -> Timestamp {
        match self {
            Agreed::Commit { at, .. }
            | Agreed::Forget { at, .. }
            | Agreed::Split { at, .. }
            | Agreed::Members { at } => *at,
            Agreed::Ceiling { at, through } => through.unwrap_or(*at).max(*at),
            Agreed::Prepare { prepared, .. } => prepared.at,
            Agreed::Outcome { at, .. } => at.unwrap_or_default(),
        }
    }

    fn about_shard(command: ShardCommand) -> Agreed {
        match command {
            ShardCommand::Ceiling { at, through } => Agreed::Ceiling { at, through },
            ShardCommand::Split { at, key, shard, members } => {
                Agreed::Split { at, key, shard, members }
            }
            ShardCommand::Members { at } => Agreed::Members { at },
        }
    }

    fn into_shard(self) -> Result<ShardCommand, Agreed> {
        match self {
            Agreed::Ceiling { at, through } => Ok(ShardCommand::Ceiling { at, through }),
            Agreed::Split { at, key, shard, members } => {
                Ok(ShardCommand::Split { at, key, shard, members })
            }
            Agreed::Members { at } => Ok(ShardCommand::Members { at }),
            of_transaction => Err(of_transaction),
        }
    }
}

/// What a shard must not lose of transactions, beside the versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionRows {
    /// Transactions that are prepared here.
    pub prepared: BTreeMap<TransactionId, Prepared>,
    /// Decisions that are not in every participant's log, as far as is known here.
    pub decisions: BTreeMap<TransactionId, Decision>,
    /// Which versions of tables' schemas hold.
    pub schemas: BTreeMap<u32, SchemaHistory>,
}

const PREPARED: u8 = b'p';
const DECISION: u8 = b'd';

/// A transaction in the name of a row.
fn name_of(TransactionId { node, incarnation, number }: TransactionId) -> Vec<u8> {
    [&node.to_be_bytes()[..], &incarnation.to_be_bytes(), &number.to_be_bytes()].concat()
}

/// The row of a prepared transaction, or that it is none any more.
pub(super) fn row_of_prepared(
    shard: ShardId,
    transaction: TransactionId,
    prepared: Option<&Prepared>,
) -> Write {
    row(shard, PREPARED, &name_of(transaction), prepared.and_then(bytes))
}

/// The row of a decision, or that every participant has it.
pub(super) fn row_of_decision(
    shard: ShardId,
    transaction: TransactionId,
    decision: Option<&Decision>,
) -> Write {
    row(shard, DECISION, &name_of(transaction), decision.and_then(bytes))
}

/// The row that says which versions of a table's schema hold.
pub(super) fn row_of_schema(shard: ShardId, table: u32, history: &SchemaHistory) -> Write {
    Write { key: local::schema(shard.0, table), value: bytes(history).map(Value::from) }
}

impl OwnRows for TransactionRows {
    fn take(&mut self, kind: u8, name: &[u8], value: &[u8]) -> Option<()> {
        let transaction = || {
            let part =
                |from: usize| name.get(from..from + 4)?.try_into().ok().map(u32::from_be_bytes);
            let number = u64::from_be_bytes(name.get(8..16)?.try_into().ok()?);
            Some(TransactionId { node: part(0)?, incarnation: part(4)?, number })
        };
        match kind {
            PREPARED => drop(self.prepared.insert(transaction()?, minicbor::decode(value).ok()?)),
            DECISION => drop(self.decisions.insert(transaction()?, minicbor::decode(value).ok()?)),
            local::SCHEMA => {
                let table = u32::from_be_bytes(name.try_into().ok()?);
                drop(self.schemas.insert(table, minicbor::decode(value).ok()?));
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::{
        Birth,
        records::{row_of_ceiling, row_of_members},
        rows_of_birth,
    };
    use crate::spanner;
    use meridian_machine::NodeId;
    use meridian_replication::group::{Index, Roster, Term};

    #[test]
    fn rows_read_back_and_garbage_is_an_error() {
        let at = Timestamp { nanos: 7, logical: 0, issuer: 1 };
        let transaction = TransactionId { node: 1, incarnation: 2, number: 3 };
        let age = Age { began_ns: 1, node: 1, number: 3 };
        let prepared = Prepared {
            at,
            age,
            coordinator: ShardId(4),
            writes: Vec::new(),
            locks: Vec::new(),
            below: Some(at),
            changes: None,
            blind: Some(Blind { term: 1, by: 2 }),
            decides: 1,
        };
        let decision = Decision { at, participants: vec![ShardId(5)], voted_in: vec![3] };
        let shard = ShardId(9);
        let members = Membership::at_birth(Roster::voters([1, 2].map(NodeId)));
        let mut history = SchemaHistory::default();
        history.begin(at, 2);
        let writes = [
            row_of_prepared(shard, transaction, Some(&prepared)),
            row_of_decision(shard, transaction, Some(&decision)),
            row_of_ceiling(shard, at),
            row_of_members(shard, &members),
            row_of_schema(shard, 6, &history),
        ];
        let birth = Birth { members: members.clone(), index: Index(4), term: Term(2) };
        let of_child = rows_of_birth(shard, ShardId(3), &birth).swap_remove(0);
        let writes = writes.into_iter().chain([of_child]);
        let rows: Vec<(Key, Value)> =
            writes.map(|write| (write.key, write.value.unwrap())).collect();
        let read = spanner::Rows::read(shard, &rows).unwrap();
        assert_eq!(read.own.prepared, [(transaction, prepared)].into());
        assert_eq!((read.own.decisions, read.ceiling), ([(transaction, decision)].into(), at));
        assert_eq!((read.births, read.members), ([(ShardId(3), birth)].into(), Some(members)));
        assert_eq!(read.own.schemas, [(6, history)].into());
        for (key, value) in rows {
            let cut = Value::from(&value[..value.len() - 1]);
            assert!(spanner::Rows::read(shard, &[(key.clone(), cut)]).is_err());
            assert!(spanner::Rows::read(shard, &[(local::protocol(9, b"?"), value)]).is_err());
        }
    }
}
