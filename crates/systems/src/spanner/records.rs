//! What members agree on, and what a shard keeps for itself of it.

use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange, Value, Write, local};
use meridian_replication::group::{Index, Membership, Payload, Term};
use meridian_txn::locking::{Blind, TransactionId};
use meridian_txn::{Age, Lock, SchemaHistory, SchemaVersion};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

const FORMAT: u8 = 1;

/// One agreed entry. Timestamps grow in the order of the log, except those of outcomes, which were chosen elsewhere.
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
        /// Who is in the other's group; everybody there was at the database's creation, if none is given.
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
    /// The commit timestamp is below this one: from there on a schema may be another than it was planned for.
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
    /// The prepare timestamp that the commit timestamp is at or above: of a change of schemas one that lies ahead.
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

/// How a shard began that was split off from another.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Birth {
    /// Who was in its group.
    #[n(0)]
    pub members: Membership,
    /// The entry of its parent's log that split it off.
    #[n(1)]
    pub index: Index,
    /// That entry's term.
    #[n(2)]
    pub term: Term,
}

/// An entry that cannot be read: another format, or not ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged(pub String);

impl Agreed {
    /// As a payload.
    pub fn encode(&self) -> Payload {
        let mut bytes = vec![FORMAT];
        minicbor::encode(self, &mut bytes).expect("invariant: writing to memory cannot fail");
        Payload(bytes.into())
    }

    /// From a payload; a leader's first entry is empty.
    pub fn decode(payload: &Payload) -> Result<Option<Agreed>, Damaged> {
        match payload.0.split_first() {
            None => Ok(None),
            Some((&FORMAT, rest)) => minicbor::decode(rest).map(Some).map_err(|error| Damaged(error.to_string())),
            Some((format, _)) => Err(Damaged(format!("format {format} is newer than {FORMAT}"))),
        }
    }

    /// Its timestamp; the ceiling of one that has it. Nothing below it is issued any more.
    pub fn newest(&self) -> Timestamp {
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
}

/// What a shard must not lose of what was agreed, beside the versions: rows of its own ([`local`]), so that whatever carries versions carries it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Transactions that are prepared here.
    pub prepared: BTreeMap<TransactionId, Prepared>,
    /// Decisions that are not in every participant's log, as far as is known here.
    pub decisions: BTreeMap<TransactionId, Decision>,
    /// Whoever leads next issues above this.
    pub ceiling: Timestamp,
    /// Who is in the group; none if that never changed since the database was created.
    pub members: Option<Membership>,
    /// How the shards began that were split off.
    pub births: BTreeMap<ShardId, Birth>,
    /// Which versions of tables' schemas hold.
    pub schemas: BTreeMap<u32, SchemaHistory>,
}

const PREPARED: u8 = b'p';
const DECISION: u8 = b'd';
const CEILING: u8 = b'c';
const MEMBERS: u8 = b'm';
const BIRTH: u8 = b'b';

fn row(shard: ShardId, kind: u8, of: Option<TransactionId>, value: Option<Vec<u8>>) -> Write {
    let mut name = vec![kind];
    if let Some(TransactionId { node, incarnation, number }) = of {
        name.extend([node.to_be_bytes(), incarnation.to_be_bytes()].concat());
        name.extend(number.to_be_bytes());
    }
    Write { key: local::protocol(shard.0, &name), value: value.map(Value::from) }
}

fn bytes<T: Encode<()>>(what: &T) -> Option<Vec<u8>> {
    Some(minicbor::to_vec(what).expect("invariant: writing to memory cannot fail"))
}

impl Rows {
    /// The row of a prepared transaction, or that it is none any more.
    pub fn of_prepared(shard: ShardId, transaction: TransactionId, prepared: Option<&Prepared>) -> Write {
        row(shard, PREPARED, Some(transaction), prepared.and_then(bytes))
    }

    /// The row of a decision, or that everybody has it.
    pub fn of_decision(shard: ShardId, transaction: TransactionId, decision: Option<&Decision>) -> Write {
        row(shard, DECISION, Some(transaction), decision.and_then(bytes))
    }

    /// The row of the ceiling.
    pub fn of_ceiling(shard: ShardId, ceiling: Timestamp) -> Write {
        row(shard, CEILING, None, Some(ceiling.to_be_bytes().to_vec()))
    }

    /// The row of a shard's members.
    pub fn of_members(shard: ShardId, members: &Membership) -> Write {
        row(shard, MEMBERS, None, bytes(members))
    }

    /// The row that says how a shard begins that is split off; and its own, with which members.
    pub fn of_birth(parent: ShardId, child: ShardId, birth: &Birth) -> Vec<Write> {
        let key = local::protocol(parent.0, &[&[BIRTH], &child.0.to_be_bytes()[..]].concat());
        let known = Write { key, value: bytes(birth).map(Value::from) };
        vec![known, Rows::of_members(child, &birth.members)]
    }

    /// The row that says which versions of a table's schema hold.
    pub fn of_schema(shard: ShardId, table: u32, history: &SchemaHistory) -> Write {
        Write { key: local::schema(shard.0, table), value: bytes(history).map(Value::from) }
    }

    /// Who is in a shard's group, if these rows say so.
    pub fn members_at_birth(shard: ShardId, rows: &[Write]) -> Option<Membership> {
        let key = Rows::of_members(shard, &Membership::default()).key;
        let row = rows.iter().find(|row| row.key == key)?;
        minicbor::decode(row.value.as_ref()?).ok()
    }

    /// Reads a shard's rows.
    pub fn read(shard: ShardId, rows: &[(Key, Value)]) -> Result<Rows, Damaged> {
        let mut all = Rows::default();
        let prefix = local::protocol(shard.0, b"").len();
        let damaged = |key: &Key| Damaged(format!("a row of shard {} about itself: {key:?}", shard.0));
        let transaction = |name: &[u8]| {
            let part = |from: usize| name.get(from..from + 4)?.try_into().ok().map(u32::from_be_bytes);
            let number = u64::from_be_bytes(name.get(8..16)?.try_into().ok()?);
            Some(TransactionId { node: part(0)?, incarnation: part(4)?, number })
        };
        for (key, value) in rows {
            let (kind, name) = key.get(prefix..).and_then(|name| name.split_first()).ok_or_else(|| damaged(key))?;
            let mut take = || {
                match *kind {
                    PREPARED => drop(all.prepared.insert(transaction(name)?, minicbor::decode(value).ok()?)),
                    DECISION => drop(all.decisions.insert(transaction(name)?, minicbor::decode(value).ok()?)),
                    CEILING => all.ceiling = Timestamp::from_be_bytes(value[..].try_into().ok()?),
                    MEMBERS => all.members = Some(minicbor::decode(value).ok()?),
                    BIRTH => {
                        let child = ShardId(u32::from_be_bytes(name.try_into().ok()?));
                        drop(all.births.insert(child, minicbor::decode(value).ok()?));
                    }
                    local::SCHEMA => {
                        let table = u32::from_be_bytes(name.try_into().ok()?);
                        drop(all.schemas.insert(table, minicbor::decode(value).ok()?));
                    }
                    _ => return None,
                }
                Some(())
            };
            take().ok_or_else(|| damaged(key))?;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_machine::NodeId;
    use meridian_replication::group::Roster;

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
            Rows::of_prepared(shard, transaction, Some(&prepared)),
            Rows::of_decision(shard, transaction, Some(&decision)),
            Rows::of_ceiling(shard, at),
            Rows::of_members(shard, &members),
            Rows::of_schema(shard, 6, &history),
        ];
        let birth = Birth { members: members.clone(), index: Index(4), term: Term(2) };
        let of_child = Rows::of_birth(shard, ShardId(3), &birth).swap_remove(0);
        let writes = writes.into_iter().chain([of_child]);
        let rows: Vec<(Key, Value)> = writes.map(|write| (write.key, write.value.unwrap())).collect();
        let read = Rows::read(shard, &rows).unwrap();
        assert_eq!(read.prepared, [(transaction, prepared)].into());
        assert_eq!((read.decisions, read.ceiling), ([(transaction, decision)].into(), at));
        assert_eq!((read.births, read.members), ([(ShardId(3), birth)].into(), Some(members)));
        assert_eq!(read.schemas, [(6, history)].into());
        for (key, value) in rows {
            let cut = Value::from(&value[..value.len() - 1]);
            assert!(Rows::read(shard, &[(key.clone(), cut)]).is_err());
            assert!(Rows::read(shard, &[(local::protocol(9, b"?"), value)]).is_err());
        }
    }
}
