//! What members agree on about the shard itself, and what the shard keeps of it.

use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange, Value, Write, local};
use meridian_replication::group::{Entry, Index, Membership, Payload, Record, Term};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

/// A command about the shard itself.
#[expect(clippy::large_enum_variant, reason = "it is taken apart where it is made")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardCommand {
    /// The next leader issues above the ceiling: below it this leader promises in memory.
    Ceiling {
        /// The command's timestamp.
        at: Timestamp,
        /// The ceiling; the timestamp itself, if none is given.
        through: Option<Timestamp>,
    },
    /// From here on the keys from one on are another shard's.
    Split {
        /// The command's timestamp.
        at: Timestamp,
        /// The first key of the other shard.
        key: Key,
        /// The other shard.
        shard: ShardId,
        /// The members of the other shard's group; those at the database's creation, if none are
        /// given.
        members: Option<Membership>,
    },
    /// The entry that carries this says which nodes are in the group.
    Members {
        /// The command's timestamp.
        at: Timestamp,
    },
}

/// What a participant's groups agree on: its own commands, and those about the shard itself.
pub trait Command: Sized {
    /// Encodes a command as the payload of an entry.
    fn encode(&self) -> Payload;
    /// Decodes a payload; none for a leader's first entry, which is empty.
    fn decode(payload: &Payload) -> Result<Option<Self>, Damaged>;
    /// The command's timestamp, or the ceiling of one that has it: no later leader issues at or
    /// below it.
    fn newest(&self) -> Timestamp;
    /// Makes a command about the shard itself.
    fn about_shard(command: ShardCommand) -> Self;
    /// The command about the shard itself, if it is one.
    fn into_shard(self) -> Result<ShardCommand, Self>;
}

/// The newest timestamp in a member's records, agreed or not.
pub fn newest<C: Command>(records: &[Record]) -> Timestamp {
    let entries = records.iter().flat_map(|record| match record {
        Record::Append { entries } => entries.as_slice(),
        Record::Standing { .. } | Record::Base { .. } | Record::Stay { .. } => &[],
    });
    let at = |entry: &Entry| match C::decode(&entry.payload) {
        Ok(Some(command)) => command.newest(),
        Ok(None) | Err(_) => Timestamp::ZERO,
    };
    entries.map(at).max().unwrap_or_default()
}

/// How a shard began that was split off from another.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Birth {
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

/// An entry or a row that cannot be read: another format, or not one of this program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged(pub String);

/// A participant's rows among those of a shard about itself.
pub trait OwnRows: Default {
    /// Takes a row, by its kind and what follows the kind in its key. None if it cannot be read.
    fn take(&mut self, kind: u8, name: &[u8], value: &[u8]) -> Option<()>;
}

/// What a shard must not lose of what was agreed, beside the versions: rows of its own ([`local`]),
/// so that what carries versions carries them, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows<R> {
    /// The next leader issues above this.
    pub ceiling: Timestamp,
    /// The members of the group; none if they never changed since the database was created.
    pub members: Option<Membership>,
    /// How the shards began that were split off.
    pub births: BTreeMap<ShardId, Birth>,
    /// The participant's.
    pub own: R,
}

const CEILING: u8 = b'c';
const MEMBERS: u8 = b'm';
const BIRTH: u8 = b'b';

/// A row of a shard about itself.
pub(crate) fn row(shard: ShardId, kind: u8, name: &[u8], value: Option<Vec<u8>>) -> Write {
    Write {
        key: local::protocol(shard.0, &[&[kind], name].concat()),
        value: value.map(Value::from),
    }
}

/// The value of a row.
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

/// The row that says how a shard begins that is split off; and its own, with which members.
pub fn rows_of_birth(parent: ShardId, child: ShardId, birth: &Birth) -> Vec<Write> {
    vec![
        row(parent, BIRTH, &child.0.to_be_bytes(), bytes(birth)),
        row_of_members(child, &birth.members),
    ]
}

/// The members of a shard's group, if these rows say so.
pub fn members_at_birth(shard: ShardId, rows: &[Write]) -> Option<Membership> {
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
                        drop(all.births.insert(child, minicbor::decode(value).ok()?));
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
pub struct Kept<R> {
    /// The shard's keys.
    pub bounds: KeyRange,
    /// The shards that have what it had from a key on, where it was split.
    pub children: Vec<(Key, ShardId)>,
    /// Its own rows.
    pub rows: Rows<R>,
    /// The newest timestamp that was agreed.
    pub agreed: Timestamp,
}

impl<R: OwnRows> Kept<R> {
    /// Makes it from what the store says: the shard's keys, what parts of it became, its rows, and
    /// the newest timestamp.
    pub fn new(
        shard: u32,
        bounds: KeyRange,
        children: Vec<(u32, KeyRange)>,
        rows: &[(Key, Value)],
        agreed: Timestamp,
    ) -> Result<Self, Damaged> {
        let children =
            children.into_iter().map(|(child, keys)| (keys.start, ShardId(child))).collect();
        Ok(Kept { bounds, children, rows: Rows::read(ShardId(shard), rows)?, agreed })
    }
}
