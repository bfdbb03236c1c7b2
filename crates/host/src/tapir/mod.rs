//! Databases of the tapir protocol on this node: a replica of the shard, and the sessions that ask
//! replicas.
//!
//! ```text
//!   session ── gateway (txn) ── desk ──┬──▶ this node's replica: stepped on the session's thread, read without a step
//!                                      └──▶ frames ──▶ other nodes' replicas ──▶ frames ──▶ wake the session
//! ```
//!
//! Nobody leads, so no session looks for a leader, and a node that ends hands nothing over.
//!
//! | file | question |
//! |---|---|
//! | `handle` | how does the node reach such a database, and when does its replica begin? |
//! | `home` | what does a replica's node do for it? |
//! | `local` | what do sessions read here, without a message? |
//! | `tending` | who finishes what nobody finishes, and who catches up? |
//!
//! Which nodes have replicas, and when one begins and ends, `systems/tapir` says (`rows`,
//! `lifecycle`); the handle does it.
//!
//! Not yet here: more shards than one.

mod handle;
mod home;
mod local;
mod tending;

pub use handle::{HOSTED_SERIALIZABLE, HOSTED_STRICTLY_SERIALIZABLE};
pub use home::{Place, ReplicaHome, ReplicaShard, begin};
pub use meridian_systems::tapir::{KIND, Kept, Replica};

use crate::desk::{self, Leaderless};
use crate::resident::Input;
use meridian_machine::NodeId;
use meridian_replication::inconsistent::OpId;
use meridian_systems::envelope::Kind;
use meridian_systems::tapir::lifecycle::Lifecycle;
use meridian_systems::tapir::{Message, Shards};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;
use tending::Tending;

/// What a node remembers for a database's sake.
#[derive(Default)]
pub struct Tapir {
    tending: Tending,
    lifecycle: Mutex<Lifecycle>,
}

impl Leaderless for Tapir {
    type Message = Message;
    type Replica = Replica;
    type Home = ReplicaHome;
    const KIND: Kind = KIND;

    fn answers(message: &Message) -> Option<OpId> {
        message.answers()
    }

    fn tend(desk: Arc<Desk>, now: u64, connected: &[NodeId]) {
        desk.tend(now, connected);
    }
}

/// What sessions of one database share on this node.
pub type Desk = desk::Desk<Tapir>;

impl Desk {
    /// What this node's replica is about.
    pub fn lifecycle(&self) -> MutexGuard<'_, Lifecycle> {
        self.protocol().lifecycle.lock()
    }

    /// Whatever is to be prepared waits so long at this node's replica, from now on.
    pub fn set_prepare_wait(&self, wait: Duration) {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        if let Some(replica) = self.replica() {
            replica.post(Input::Call(Box::new(move |replica: &mut Replica, _, _| {
                replica.wait(wait_ns)
            })));
        }
    }
}

/// A database, from this node.
pub type Gateway = meridian_txn::tapir::Gateway<Shards<Desk>>;
