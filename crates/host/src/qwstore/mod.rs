//! Databases of the qwstore protocol on this node: a replica of the shard, and the sessions that
//! write to all replicas and read from one.
//!
//! | file | question |
//! |---|---|
//! | `handle` | how does the node reach such a database? |
//! | `home` | what does a replica's node do for it? |
//! | `local` | what do sessions read here, without a message? |

mod handle;
mod home;
mod local;

pub use handle::HOSTED;
pub use home::{ReplicaHome, ReplicaShard, begin};

use crate::desk::{self, Leaderless};
use meridian_replication::inconsistent::OpId;
use meridian_systems::baselines::qwstore::{self, KIND, Message, Replica};
use meridian_systems::envelope::Kind;

/// A node remembers nothing for a database's sake.
pub struct QwStore;

impl Leaderless for QwStore {
    type Message = Message;
    type Replica = Replica;
    type Home = ReplicaHome;
    const KIND: Kind = KIND;

    fn answers(message: &Message) -> Option<OpId> {
        message.answers()
    }
}

/// What sessions of one database share on this node.
pub type Desk = desk::Desk<QwStore>;

/// A database, from this node.
pub type Gateway = qwstore::Gateway<Desk>;
