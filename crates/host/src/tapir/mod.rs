//! Databases of the tapir protocol on this node: the shard's replica, and the request router by
//! which sessions reach replicas.
//!
//! ```text
//!   session ── gateway (txn) ── desk ──┬──▶ this node's replica: stepped on the session's thread,
//!                                      │    read without a step
//!                                      └──▶ frames ─▶ other nodes' replicas ─▶ frames ─▶ session
//! ```
//!
//! No replica leads: sessions look for no leader, and a node that shuts down hands nothing over.
//!
//! | file | content |
//! |---|---|
//! | `handle` | the database as the node uses it; start and end of its replica |
//! | `home` | the runtime of a replica: its messages, records and reads |
//! | `local` | reads of coordinators at the node's replica |
//! | `tending` | recovery of abandoned transactions and of replicas that missed messages |
//!
//! `systems/tapir` decides which nodes have replicas, and when one starts and ends (`rows`,
//! `lifecycle`); the handle carries it out.
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

/// TAPIR's part of a database's request router.
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

/// The request router of a TAPIR database on this node.
pub type Desk = desk::Desk<Tapir>;

impl Desk {
    /// Locks and returns the lifecycle of this node's replica.
    pub fn lifecycle(&self) -> MutexGuard<'_, Lifecycle> {
        self.protocol().lifecycle.lock()
    }

    /// Sets how long this node's replica delays a prepare from now on (§6.6).
    pub fn set_prepare_wait(&self, wait: Duration) {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        if let Some(replica) = self.replica() {
            replica.post(Input::Call(Box::new(move |replica: &mut Replica, _, _| {
                replica.wait(wait_ns)
            })));
        }
    }
}

/// A TAPIR database, for transactions of this node.
pub type Gateway = meridian_txn::tapir::Gateway<Shards<Desk>>;
