//! Who a message is for.

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
    /// A node of the cluster. Never reused, because it is also the issuer in a timestamp.
    NodeId, u32, "n"
);
number!(
    /// How many times a node has started: a message for an earlier life of a node is dropped.
    Incarnation, u32, "i"
);
number!(
    /// A database. Number 0 is `system`, which holds the cluster's own facts.
    DatabaseId, u32, "d"
);
number!(
    /// A shard of a database: the unit that one group replicates.
    ShardId, u32, "s"
);

/// Which machine of a node a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Role {
    /// The node's replica of the shard.
    #[n(0)]
    Replica,
    /// A transaction's coordinator at its gateway; the number is the gateway's own and never reused
    /// within an incarnation.
    #[n(1)]
    Coordinator(#[n(0)] u64),
}

/// One machine in one life of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Address {
    /// The node.
    #[n(0)]
    pub node: NodeId,
    /// The node's life; 0 in a message means "whichever is living" (the sender has not heard of one
    /// yet).
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
    /// The replica of a shard at a node, in whichever life it is.
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
