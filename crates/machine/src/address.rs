//! Addresses of machines: the senders and receivers of messages.

use minicbor::{Decode, Encode};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

number!(
    /// A node of the cluster. Its number is never reused, because it is also the issuer of
    /// timestamps.
    NodeId, u32, "n"
);
number!(
    /// The number of times a node has started. Messages to an earlier incarnation are dropped.
    Incarnation, u32, "i"
);
number!(
    /// A database. Number 0 is `system`, which holds the cluster's metadata.
    DatabaseId, u32, "d"
);
number!(
    /// A shard of a database: the unit that one group replicates.
    ShardId, u32, "s"
);

/// The kind of machine on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Role {
    /// The node's replica of the shard.
    #[n(0)]
    Replica,
    /// A transaction's coordinator. The number is never reused within an incarnation of its node.
    #[n(1)]
    Coordinator(#[n(0)] u64),
}

/// A machine in one incarnation of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Address {
    /// The node.
    #[n(0)]
    pub node: NodeId,
    /// The node's incarnation. 0 means the current one, when the sender does not know it.
    #[n(1)]
    pub incarnation: Incarnation,
    /// The database.
    #[n(2)]
    pub database: DatabaseId,
    /// The shard.
    #[n(3)]
    pub shard: ShardId,
    /// The machine.
    #[n(4)]
    pub role: Role,
}

impl Address {
    /// Returns the address of a shard's replica on a node, in its current incarnation.
    pub const fn replica(node: NodeId, database: DatabaseId, shard: ShardId) -> Self {
        Address { node, incarnation: Incarnation(0), database, shard, role: Role::Replica }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.node, self.database, self.shard)?;
        match self.role {
            Role::Replica => Ok(()),
            Role::Coordinator(number) => write!(f, "/t{number}"),
        }
    }
}
