//! A database of the qwstore protocol, as the node uses it.

use super::{QwStore, RequestRouter, TxnClient, begin};
use crate::context::NodeContext;
use crate::database::{DatabaseError, DatabaseHandle, ShardStatus};
use crate::flusher::Flushable;
use crate::identity::OpenError;
use crate::protocols::{HostedProtocol, those_or_all};
use meridian_log::MachineKey;
use meridian_machine::NodeId;
use meridian_placement::{DatabaseRow, FIRST_SHARD};
use meridian_systems::Protocol;
use meridian_systems::baselines::qwstore::{self, KIND};
use meridian_systems::envelope::Frame;
use meridian_txn::Database;
use std::sync::Arc;
use std::time::Duration;

struct Handle {
    txn_client: Arc<TxnClient>,
}

/// QWStore, as a node runs it.
pub const HOSTED: HostedProtocol =
    HostedProtocol { protocol: &qwstore::PROTOCOL, open, choose_replicas };

/// Opens a database, and restores this node's replica if it has one.
fn open(
    row: &DatabaseRow,
    context: &Arc<NodeContext>,
) -> Result<Arc<dyn DatabaseHandle>, OpenError> {
    let router = RequestRouter::of(row, context, QwStore);
    let key = MachineKey { database: row.id.0, shard: FIRST_SHARD.0 };
    let records = context.read(KIND, &context.records.of(key))?;
    let replica =
        begin(key, Arc::clone(&router), records).map_err(|error| context.of_store(error))?;
    context.records.take(key); // Not before: after an error the database is opened again.
    replica.into_iter().for_each(|replica| router.add(replica));
    Ok(Arc::new(Handle { txn_client: Arc::new(TxnClient::new(router)) }))
}

/// Chooses the nodes of a new database: any number of replicas, because they agree on nothing.
fn choose_replicas(asked: Vec<NodeId>, all: &[NodeId]) -> Result<Vec<NodeId>, DatabaseError> {
    those_or_all(asked, all)
}

impl Handle {
    fn router(&self) -> &Arc<RequestRouter> {
        self.txn_client.replicas()
    }
}

impl DatabaseHandle for Handle {
    fn protocol(&self) -> &'static Protocol {
        &qwstore::PROTOCOL
    }

    fn database(&self) -> Arc<dyn Database> {
        Arc::clone(&self.txn_client) as Arc<dyn Database>
    }

    fn apply(&self, row: &DatabaseRow) -> Result<(), OpenError> {
        self.router().retain(row);
        Ok(())
    }

    fn receive(&self, frames: &[Frame<'_>]) {
        self.router().receive(frames);
    }

    fn retention(&self) -> Option<Duration> {
        self.router().retention()
    }

    fn sweep(&self) {
        self.router().sweep();
    }

    fn shards(&self) -> Vec<Arc<dyn Flushable>> {
        self.router().replica().into_iter().map(|replica| replica as Arc<dyn Flushable>).collect()
    }

    fn status(&self, row: &DatabaseRow) -> Vec<ShardStatus> {
        let (router, replicas) = (self.router(), self.router().replicas());
        router
            .replica()
            .map(|replica| ShardStatus::leaderless(row, &replicas, &*replica))
            .into_iter()
            .collect()
    }

    fn close(&self) -> Vec<Arc<dyn Flushable>> {
        self.router().close().into_iter().map(|ended| ended as Arc<dyn Flushable>).collect()
    }
}
