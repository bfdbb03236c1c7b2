//! Databases of the qwstore protocol on this node: the shard's replica, and the request router by
//! which sessions write to all replicas and read from one.
//!
//! | file | content |
//! |---|---|
//! | `handle` | the database as the node uses it |
//! | `runtime` | the runtime of a replica: its messages, records and reads |
//! | `local` | reads of sessions at the node's replica |

mod handle;
mod local;
mod runtime;

pub use handle::HOSTED;
pub use runtime::{QwStoreRuntime, ReplicaShard, begin};

use crate::request_router::{self, Leaderless};
use meridian_replication::inconsistent::OpId;
use meridian_systems::baselines::qwstore::{self, KIND, Message, Replica};
use meridian_systems::envelope::Kind;

/// QWStore's part of a database's request router, which is empty.
pub struct QwStore;

impl Leaderless for QwStore {
    type Message = Message;
    type Replica = Replica;
    type Runtime = QwStoreRuntime;
    const KIND: Kind = KIND;

    fn answers(message: &Message) -> Option<OpId> {
        message.answers()
    }
}

/// The request router of a QWStore database on this node.
pub type RequestRouter = request_router::RequestRouter<QwStore>;

/// A QWStore database, for transactions of this node.
pub type TxnClient = qwstore::TxnClient<RequestRouter>;
