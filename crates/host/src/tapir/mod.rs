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
//! | `runtime` | the runtime of a replica: its messages, records and reads |
//! | `local` | reads of coordinators at the node's replica |
//! | `recovery` | recovery of abandoned transactions and of replicas that missed messages |
//!
//! `systems/tapir` decides which nodes have replicas, and when one starts and ends (`rows`,
//! `lifecycle`); the handle carries it out.
//!
//! Not yet here: more shards than one.

mod handle;
mod local;
mod recovery;
mod runtime;

pub use handle::{HOSTED_SERIALIZABLE, HOSTED_STRICTLY_SERIALIZABLE};
pub use meridian_systems::tapir::{KIND, LogRecord, Replica};
pub use runtime::{ReplicaSetup, ReplicaShard, TapirRuntime, begin};

use crate::actor::Input;
use crate::request_router::{self, Leaderless};
use meridian_machine::NodeId;
use meridian_replication::inconsistent::OpId;
use meridian_systems::envelope::Kind;
use meridian_systems::tapir::lifecycle::Lifecycle;
use meridian_systems::tapir::{Message, Shards};
use parking_lot::{Mutex, MutexGuard};
use recovery::Recovery;
use std::sync::Arc;
use std::time::Duration;

/// TAPIR's part of a database's request router.
#[derive(Default)]
pub struct Tapir {
    recovery: Recovery,
    lifecycle: Mutex<Lifecycle>,
}

impl Leaderless for Tapir {
    type Message = Message;
    type Replica = Replica;
    type Runtime = TapirRuntime;
    const KIND: Kind = KIND;

    fn answers(message: &Message) -> Option<OpId> {
        message.answers()
    }

    fn maintain(router: Arc<RequestRouter>, now: u64, connected: &[NodeId]) {
        router.maintain(now, connected);
    }
}

/// The request router of a TAPIR database on this node.
pub type RequestRouter = request_router::RequestRouter<Tapir>;

impl RequestRouter {
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
pub type TxnClient = meridian_txn::tapir::TxnClient<Shards<RequestRouter>>;
