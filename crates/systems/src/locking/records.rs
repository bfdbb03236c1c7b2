//! The commands that a group agrees on, and the rows that a shard keeps of them.

use crate::shard::{
    Command, OwnRows, ShardCommand, bytes, name_of, row, take_schema, transaction_of,
};
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange, Write, local};
use meridian_replication::group::Membership;
use meridian_txn::locking::TransactionId;
use meridian_txn::two_phase::{Decision, OneShot, PrepareRecord};
use meridian_txn::{Age, Lock, SchemaHistory, SchemaVersion};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

/// A command in the log. Timestamps grow in the order of the log, except those of outcomes, which
/// another group chose.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum TransactionCommand {
    /// A transaction committed.
    #[n(0)]
    Commit {
        /// The commit timestamp.
        #[n(0)]
        at: Timestamp,
        /// The attempt that committed.
        #[n(1)]
        transaction: TransactionId,
        /// Its writes.
        #[n(2)]
        writes: Vec<Write>,
        /// The shards that are prepared, and must be told the outcome.
        #[n(3)]
        #[cbor(default)]
        participants: Vec<ShardId>,
        /// The schema versions that hold from here on.
        #[n(4)]
        #[cbor(default)]
        schemas: Vec<SchemaVersion>,
        /// The terms in which the participants voted, in the same order.
        #[n(5)]
        #[cbor(default)]
        voted_in: Vec<u64>,
    },
    /// Raises the ceiling. The next leader issues above it; below it this leader makes promises in
    /// memory.
    #[n(1)]
    Ceiling {
        /// The timestamp of the entry.
        #[n(0)]
        at: Timestamp,
        /// The ceiling; `at` if `None`.
        #[n(1)]
        through: Option<Timestamp>,
    },
    /// A transaction is prepared here.
    #[n(2)]
    Prepare {
        /// The attempt.
        #[n(0)]
        transaction: TransactionId,
        /// Its prepare record.
        #[n(1)]
        prepared: Prepared,
    },
    /// The outcome of a transaction that is prepared here.
    #[n(3)]
    Outcome {
        /// The attempt.
        #[n(0)]
        transaction: TransactionId,
        /// The commit timestamp; `None` if it aborted.
        #[n(1)]
        at: Option<Timestamp>,
    },
    /// Every participant has the outcomes of these transactions in its log.
    #[n(4)]
    Forget {
        /// The timestamp of the entry.
        #[n(0)]
        at: Timestamp,
        /// The transactions.
        #[n(1)]
        transactions: Vec<TransactionId>,
    },
    /// Splits the shard: the keys from `key` on belong to another shard.
    #[n(5)]
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
    #[n(6)]
    Members {
        /// The timestamp of the entry.
        #[n(0)]
        at: Timestamp,
    },
}

/// The prepare record of a transaction: the state that a later leader needs.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Prepared {
    /// The prepare timestamp.
    #[n(0)]
    pub at: Timestamp,
    /// Its age.
    #[n(1)]
    pub age: Age,
    /// The shard whose group decides.
    #[n(2)]
    pub coordinator: ShardId,
    /// Its writes in this shard.
    #[n(3)]
    pub writes: Vec<Write>,
    /// The other locks that it holds here, shared or exclusive (Trap A.5-8).
    #[n(4)]
    pub locks: Vec<(KeyRange, Lock)>,
    /// The commit timestamp must be below this: from there on a schema may differ from the one that
    /// the transaction was planned for.
    #[n(5)]
    pub below: Option<Timestamp>,
    /// The schema versions that it changes, and their earliest timestamp (§4.2.3).
    #[n(6)]
    pub changes: Option<(Timestamp, Vec<SchemaVersion>)>,
    /// The one-shot request to the coordinator, if the attempt has locked nothing there.
    #[n(7)]
    pub one_shot: Option<OneShot>,
    /// The term of the coordinator's leader that decides the transaction, if it is ever decided.
    #[n(8)]
    #[cbor(default)]
    pub decides: u64,
}

impl PrepareRecord for Prepared {
    fn at(&self) -> Timestamp {
        self.at
    }

    /// The prepare timestamp, or the later timestamp of a schema change.
    fn above(&self) -> Timestamp {
        self.changes.as_ref().map_or(self.at, |(from, _)| self.at.max(*from))
    }

    fn below(&self) -> Timestamp {
        self.below.unwrap_or(Timestamp::MAX)
    }

    fn coordinator(&self) -> ShardId {
        self.coordinator
    }

    fn decides(&self) -> u64 {
        self.decides
    }

    fn one_shot(&self) -> Option<OneShot> {
        self.one_shot
    }
}

impl Prepared {
    /// True if it writes into a range.
    pub fn writes_into(&self, range: &KeyRange) -> bool {
        any_within(&self.writes, |write| &write.key, range)
    }
}

/// True if any of the entries, which are sorted by key, lies in a range.
pub(super) fn any_within<T>(sorted: &[T], key: impl Fn(&T) -> &Key, range: &KeyRange) -> bool {
    let first = sorted.partition_point(|one| *key(one) < range.start);
    sorted.get(first).is_some_and(|one| range.contains(key(one)))
}

impl Command for TransactionCommand {
    fn newest(&self) -> Timestamp {
        match self {
            TransactionCommand::Commit { at, .. }
            | TransactionCommand::Forget { at, .. }
            | TransactionCommand::Split { at, .. }
            | TransactionCommand::Members { at } => *at,
            TransactionCommand::Ceiling { at, through } => through.unwrap_or(*at).max(*at),
            TransactionCommand::Prepare { prepared, .. } => prepared.at,
            TransactionCommand::Outcome { at, .. } => at.unwrap_or_default(),
        }
    }

    fn drawn(&self) -> Option<Timestamp> {
        match self {
            TransactionCommand::Outcome { .. } => None,
            TransactionCommand::Ceiling { at, .. } => Some(*at),
            drawn => Some(drawn.newest()),
        }
    }

    fn about_shard(command: ShardCommand) -> TransactionCommand {
        match command {
            ShardCommand::Ceiling { at, through } => TransactionCommand::Ceiling { at, through },
            ShardCommand::Split { at, key, shard, members } => {
                TransactionCommand::Split { at, key, shard, members }
            }
            ShardCommand::Members { at } => TransactionCommand::Members { at },
        }
    }

    fn into_shard(self) -> Result<ShardCommand, TransactionCommand> {
        match self {
            TransactionCommand::Ceiling { at, through } => {
                Ok(ShardCommand::Ceiling { at, through })
            }
            TransactionCommand::Split { at, key, shard, members } => {
                Ok(ShardCommand::Split { at, key, shard, members })
            }
            TransactionCommand::Members { at } => Ok(ShardCommand::Members { at }),
            of_transaction => Err(of_transaction),
        }
    }
}

/// The transaction state that a shard must not lose, besides the versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionRows {
    /// Transactions that are prepared here.
    pub prepared: BTreeMap<TransactionId, Prepared>,
    /// Decisions that are not logged by every participant, as far as is known here.
    pub decisions: BTreeMap<TransactionId, Decision>,
    /// The schema versions of tables.
    pub schemas: BTreeMap<u32, SchemaHistory>,
}

const PREPARED: u8 = b'p';
const DECISION: u8 = b'd';

/// The write of a prepare record's row, or its deletion.
pub(super) fn row_of_prepared(
    shard: ShardId,
    transaction: TransactionId,
    prepared: Option<&Prepared>,
) -> Write {
    row(shard, PREPARED, &name_of(transaction), prepared.and_then(bytes))
}

/// The write of a decision's row, or its deletion.
pub(super) fn row_of_decision(
    shard: ShardId,
    transaction: TransactionId,
    decision: Option<&Decision>,
) -> Write {
    row(shard, DECISION, &name_of(transaction), decision.and_then(bytes))
}

impl OwnRows for TransactionRows {
    fn take(&mut self, kind: u8, name: &[u8], value: &[u8]) -> Option<()> {
        let transaction = || transaction_of(name);
        match kind {
            PREPARED => drop(self.prepared.insert(transaction()?, minicbor::decode(value).ok()?)),
            DECISION => drop(self.decisions.insert(transaction()?, minicbor::decode(value).ok()?)),
            local::SCHEMA => take_schema(&mut self.schemas, name, value)?,
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locking;
    use crate::shard::{
        SplitOrigin,
        records::{row_of_ceiling, row_of_members},
        row_of_schema, split_rows,
    };
    use meridian_machine::NodeId;
    use meridian_mvcc::Value;
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
            one_shot: Some(OneShot { term: 1, by: 2 }),
            decides: 1,
        };
        let decision = Decision { at, participants: vec![ShardId(5)], voted_in: vec![3] };
        let shard = ShardId(9);
        let members = Membership::initial(Roster::voters([1, 2].map(NodeId)));
        let mut history = SchemaHistory::default();
        history.begin(at, 2);
        let writes = [
            row_of_prepared(shard, transaction, Some(&prepared)),
            row_of_decision(shard, transaction, Some(&decision)),
            row_of_ceiling(shard, at),
            row_of_members(shard, &members),
            row_of_schema(shard, 6, &history),
        ];
        let split_origin = SplitOrigin { members: members.clone(), index: Index(4), term: Term(2) };
        let of_child = split_rows(shard, ShardId(3), &split_origin).swap_remove(0);
        let writes = writes.into_iter().chain([of_child]);
        let rows: Vec<(Key, Value)> =
            writes.map(|write| (write.key, write.value.unwrap())).collect();
        let read = locking::Rows::read(shard, &rows).unwrap();
        assert_eq!(read.own.prepared, [(transaction, prepared)].into());
        assert_eq!((read.own.decisions, read.ceiling), ([(transaction, decision)].into(), at));
        assert_eq!(
            (read.split_origins, read.members),
            ([(ShardId(3), split_origin)].into(), Some(members))
        );
        assert_eq!(read.own.schemas, [(6, history)].into());
        for (key, value) in rows {
            let cut = Value::from(&value[..value.len() - 1]);
            assert!(locking::Rows::read(shard, &[(key.clone(), cut)]).is_err());
            assert!(locking::Rows::read(shard, &[(local::protocol(9, b"?"), value)]).is_err());
        }
    }
}
