//! Commands about the shard itself, and the rows that a shard keeps about itself.

use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange, Value, Write, local};
use meridian_replication::group::{Entry, Index, Membership, Payload, Record, Term};
use meridian_txn::{SchemaHistory, TransactionId};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

/// The format of commands that this program writes.
const FORMAT: u8 = 1;

/// A command about the shard itself.
#[expect(clippy::large_enum_variant, reason = "it is taken apart where it is made")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardCommand {
    /// Raises the ceiling. The next leader issues above it; below it this leader makes promises in
    /// memory.
    Ceiling {
        /// The command's timestamp.
        at: Timestamp,
        /// The ceiling; `at` if `None`.
        through: Option<Timestamp>,
    },
    /// Splits the shard: the keys from `key` on belong to another shard.
    Split {
        /// The command's timestamp.
        at: Timestamp,
        /// The first key of the other shard.
        key: Key,
        /// The other shard.
        shard: ShardId,
        /// The other group's members; `None` means the members at the database's creation.
        members: Option<Membership>,
    },
    /// Records the members of the group, which the log entry carries.
    Members {
        /// The command's timestamp.
        at: Timestamp,
    },
}

/// A command that a participant's group agrees on: its own, or one about the shard itself.
pub trait Command: Sized + Encode<()> + for<'b> Decode<'b, ()> {
    /// Encodes a command as the payload of an entry.
    fn to_payload(&self) -> Payload {
        let mut bytes = vec![FORMAT];
        minicbor::encode(self, &mut bytes).expect("invariant: writing to memory cannot fail");
        Payload(bytes.into())
    }
    /// Decodes a payload. Returns `None` for a leader's first entry, which is empty.
    fn from_payload(payload: &Payload) -> Result<Option<Self>, Damaged> {
        match payload.0.split_first() {
            None => Ok(None),
            Some((&FORMAT, rest)) => {
                minicbor::decode(rest).map(Some).map_err(|error| Damaged(error.to_string()))
            }
            Some((format, _)) => Err(Damaged(format!("format {format} is newer than {FORMAT}"))),
        }
    }
    /// The command's timestamp, or the ceiling that it sets: no later leader issues at or below it.
    fn newest(&self) -> Timestamp;
    /// The timestamp that the leader drew for the command. `None` if it was chosen elsewhere.
    fn drawn(&self) -> Option<Timestamp>;
    /// Makes a command about the shard itself.
    fn about_shard(command: ShardCommand) -> Self;
    /// Returns the command about the shard itself, or `Err` with a participant's command.
    fn into_shard(self) -> Result<ShardCommand, Self>;
}

/// Returns the newest timestamp in a member's records, agreed or not.
pub fn newest<C: Command>(records: &[Record]) -> Timestamp {
    let entries = records.iter().flat_map(|record| match record {
        Record::Append { entries } => entries.as_slice(),
        Record::HardState { .. } | Record::Base { .. } | Record::MembershipEpoch { .. } => &[],
    });
    let at = |entry: &Entry| match C::from_payload(&entry.payload) {
        Ok(Some(command)) => command.newest(),
        Ok(None) | Err(_) => Timestamp::ZERO,
    };
    entries.map(at).max().unwrap_or_default()
}

/// The origin of a shard that was split off from another.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SplitOrigin {
    /// The members of its group.
    #[n(0)]
    pub members: Membership,
    /// The entry of its parent's log that split it off.
    #[n(1)]
    pub index: Index,
    /// That entry's term.
    #[n(2)]
    pub term: Term,
}

/// An entry or a row that cannot be read: its format is unknown, or it is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged(pub String);

/// A participant's rows among those that a shard keeps about itself.
pub trait OwnRows: Default {
    /// Takes a row, by its kind and what follows the kind in its key. Returns `None` if it cannot
    /// be read.
    fn take(&mut self, kind: u8, name: &[u8], value: &[u8]) -> Option<()>;
}

/// The state that a shard must not lose besides the versions. It consists of local rows
/// ([`local`]), so that it travels with the versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows<R> {
    /// The next leader issues above this.
    pub ceiling: Timestamp,
    /// The members of the group; `None` if they never changed since the database was created.
    pub members: Option<Membership>,
    /// The origins of the shards that were split off.
    pub split_origins: BTreeMap<ShardId, SplitOrigin>,
    /// The participant's rows.
    pub own: R,
}

const CEILING: u8 = b'c';
const MEMBERS: u8 = b'm';
const BIRTH: u8 = b'b';

/// Makes a local row of a shard.
pub(crate) fn row(shard: ShardId, kind: u8, name: &[u8], value: Option<Vec<u8>>) -> Write {
    Write {
        key: local::protocol(shard.0, &[&[kind], name].concat()),
        value: value.map(Value::from),
    }
}

/// Encodes a transaction id as the name of a row.
pub(crate) fn name_of(TransactionId { node, incarnation, number }: TransactionId) -> Vec<u8> {
    [&node.to_be_bytes()[..], &incarnation.to_be_bytes(), &number.to_be_bytes()].concat()
}

/// Decodes a transaction id: the inverse of [`name_of`].
pub(crate) fn transaction_of(name: &[u8]) -> Option<TransactionId> {
    let part = |from: usize| name.get(from..from + 4)?.try_into().ok().map(u32::from_be_bytes);
    let number = u64::from_be_bytes(name.get(8..16)?.try_into().ok()?);
    Some(TransactionId { node: part(0)?, incarnation: part(4)?, number })
}

/// The write of the row with the versions of a table's schema.
pub(crate) fn row_of_schema(shard: ShardId, table: u32, history: &SchemaHistory) -> Write {
    Write { key: local::schema(shard.0, table), value: bytes(history).map(Value::from) }
}

/// Takes the row of a table's schema.
pub(crate) fn take_schema(
    schemas: &mut BTreeMap<u32, SchemaHistory>,
    name: &[u8],
    value: &[u8],
) -> Option<()> {
    let table = u32::from_be_bytes(name.try_into().ok()?);
    schemas.insert(table, minicbor::decode(value).ok()?);
    Some(())
}

/// Encodes the value of a row.
pub(crate) fn bytes<T: Encode<()>>(what: &T) -> Option<Vec<u8>> {
    Some(minicbor::to_vec(what).expect("invariant: writing to memory cannot fail"))
}

/// The row of the ceiling.
pub(crate) fn row_of_ceiling(shard: ShardId, ceiling: Timestamp) -> Write {
    row(shard, CEILING, &[], Some(ceiling.to_be_bytes().to_vec()))
}

/// The row of a shard's members.
pub(crate) fn row_of_members(shard: ShardId, members: &Membership) -> Write {
    row(shard, MEMBERS, &[], bytes(members))
}

/// The rows that record a split: the parent's row with the child's origin, and the child's row with
/// its members.
pub fn split_rows(parent: ShardId, child: ShardId, split_origin: &SplitOrigin) -> Vec<Write> {
    vec![
        row(parent, BIRTH, &child.0.to_be_bytes(), bytes(split_origin)),
        row_of_members(child, &split_origin.members),
    ]
}

/// Returns the members of a shard's group if these rows contain them.
pub fn initial_members(shard: ShardId, rows: &[Write]) -> Option<Membership> {
    let key = row_of_members(shard, &Membership::default()).key;
    let row = rows.iter().find(|row| row.key == key)?;
    minicbor::decode(row.value.as_ref()?).ok()
}

impl<R: OwnRows> Rows<R> {
    /// Reads a shard's rows.
    pub fn read(shard: ShardId, rows: &[(Key, Value)]) -> Result<Rows<R>, Damaged> {
        let mut all = Rows::<R>::default();
        let prefix = local::protocol(shard.0, b"").len();
        let damaged =
            |key: &Key| Damaged(format!("a row of shard {} about itself: {key:?}", shard.0));
        for (key, value) in rows {
            let (kind, name) = key
                .get(prefix..)
                .and_then(|name| name.split_first())
                .ok_or_else(|| damaged(key))?;
            let mut take = || {
                match *kind {
                    CEILING => all.ceiling = Timestamp::from_be_bytes(value[..].try_into().ok()?),
                    MEMBERS => all.members = Some(minicbor::decode(value).ok()?),
                    BIRTH => {
                        let child = ShardId(u32::from_be_bytes(name.try_into().ok()?));
                        drop(all.split_origins.insert(child, minicbor::decode(value).ok()?));
                    }
                    kind => all.own.take(kind, name, value)?,
                }
                Some(())
            };
            take().ok_or_else(|| damaged(key))?;
        }
        Ok(all)
    }
}

/// A member's state in the store.
#[derive(Clone, Debug, Default)]
pub struct Recovered<R> {
    /// The shard's keys.
    pub bounds: KeyRange,
    /// The shards that were split off, by their first keys.
    pub children: Vec<(Key, ShardId)>,
    /// Its rows about itself.
    pub rows: Rows<R>,
    /// The newest agreed timestamp.
    pub agreed: Timestamp,
}

impl<R: OwnRows> Recovered<R> {
    /// Makes a member's state from the store's: the shard's keys, the shards that were split off,
    /// its rows, and the newest agreed timestamp.
    pub fn new(
        shard: u32,
        bounds: KeyRange,
        children: Vec<(u32, KeyRange)>,
        rows: &[(Key, Value)],
        agreed: Timestamp,
    ) -> Result<Self, Damaged> {
        let children =
            children.into_iter().map(|(child, keys)| (keys.start, ShardId(child))).collect();
        Ok(Recovered { bounds, children, rows: Rows::read(ShardId(shard), rows)?, agreed })
    }
}
