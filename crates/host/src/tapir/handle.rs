//! A database of the tapir protocol, as the node uses it. The database's row decides when this
//! node's replica starts and ends, and which other nodes have one.

use super::{LogRecord, Replica, ReplicaSetup, RequestRouter, Tapir, TxnClient, begin};
use crate::actor::Input;
use crate::context::NodeContext;
use crate::database::{DatabaseError, DatabaseHandle, ShardStatus};
use crate::flusher::Flushable;
use crate::identity::OpenError;
use crate::protocols::{HostedProtocol, those_or_all};
use meridian_log::MachineKey;
use meridian_machine::NodeId;
use meridian_mvcc::Key;
use meridian_placement::{DatabaseRow, FIRST_SHARD};
use meridian_store::ShardStore;
use meridian_systems::Protocol;
use meridian_systems::envelope::Frame;
use meridian_systems::replica_rows as rows;
use meridian_systems::tapir::lifecycle::{self, Begins, RowAction};
use meridian_systems::tapir::{self, KIND, have_taken_over};
use meridian_txn::shards::MemberRoles;
use meridian_txn::{Database, Failure, Future, TxnStats};
use std::sync::Arc;
use std::time::Duration;

/// Time that a session waits for replicas to take over before it gets an error, in nanoseconds.
const TAKEN_OVER_WITHIN_NS: u64 = 120_000_000_000;

struct Handle {
    txn_client: Arc<TxnClient>,
    protocol: &'static Protocol,
    context: Arc<NodeContext>,
}

/// TAPIR with strict serializability, as a node runs it.
pub const HOSTED_STRICTLY_SERIALIZABLE: HostedProtocol = HostedProtocol {
    protocol: &tapir::STRICTLY_SERIALIZABLE,
    open: |row, context| open(row, context, &tapir::STRICTLY_SERIALIZABLE),
    choose_replicas,
};

/// TAPIR as in its paper, as a node runs it.
pub const HOSTED_SERIALIZABLE: HostedProtocol = HostedProtocol {
    protocol: &tapir::SERIALIZABLE,
    open: |row, context| open(row, context, &tapir::SERIALIZABLE),
    choose_replicas,
};

/// Opens a database, and restores this node's replica if it has one.
fn open(
    row: &DatabaseRow,
    context: &Arc<NodeContext>,
    protocol: &'static Protocol,
) -> Result<Arc<dyn DatabaseHandle>, OpenError> {
    let router = RequestRouter::of(row, context, Tapir::default());
    let txn_client =
        Arc::new(TxnClient::new(Arc::new(tapir::Shards(router)), tapir::guarantee(protocol)));
    let handle = Handle { txn_client, protocol, context: Arc::clone(context) };
    handle.begin_replica(row)?;
    handle.set_prepare_wait(row);
    Ok(Arc::new(handle))
}

/// Chooses the nodes of a new database. Fails for an even number of replicas.
fn choose_replicas(asked: Vec<NodeId>, all: &[NodeId]) -> Result<Vec<NodeId>, DatabaseError> {
    odd(those_or_all(asked, all)?)
}

/// Returns the replicas if their number is odd: an even number tolerates no more failures than one
/// less.
fn odd(replicas: Vec<NodeId>) -> Result<Vec<NodeId>, DatabaseError> {
    if replicas.len().is_multiple_of(2) {
        return Err(DatabaseError::Replicas(format!(
            "a database without leaders needs an odd number of replicas, not {}: name their nodes, PROTOCOL = tapir MEMBERS (1, 2, 3)",
            replicas.len()
        )));
    }
    Ok(replicas)
}

impl Handle {
    fn router(&self) -> &Arc<RequestRouter> {
        &self.txn_client.shards().0
    }

    fn set_prepare_wait(&self, row: &DatabaseRow) {
        self.router().set_prepare_wait(tapir::PREPARE_WAIT.duration(row).unwrap_or_default());
    }

    /// Starts this node's replica, if the row gives it one, with what the store and the log have of
    /// its present membership epoch.
    fn begin_replica(&self, row: &DatabaseRow) -> Result<(), OpenError> {
        let (key, context, router) =
            (MachineKey { database: row.id.0, shard: FIRST_SHARD.0 }, &self.context, self.router());
        let mut records: Vec<LogRecord> = context.read(KIND, &context.records.of(key))?;
        let failed = |error| context.of_store(error);
        let mut shard_store =
            ShardStore::open(key.database, key.shard, Arc::clone(&context.resources.store))
                .map_err(failed)?;
        let as_of = shard_store.as_of().map_err(failed)?;
        let begins = lifecycle::begins(row, &context.members, context.me, as_of, &mut records);
        let (with, discard) = match begins {
            Begins::Waits => (None, None),
            Begins::Without { discard } => (None, discard),
            Begins::With { since_epoch, discard } => (Some(since_epoch), discard),
        };
        if let Some(as_of) = discard {
            shard_store = shard_store.discard(as_of).map_err(failed)?;
            context.resources.journal.forget(key);
        }
        if let Some(since_epoch) = with {
            if since_epoch > 0 && discard.is_some() {
                tracing::info!(
                    database = row.id.0,
                    epoch = row.epoch,
                    "takes over as a replica of a database"
                );
            }
            let (guarantee, truncation, takes_over) =
                (tapir::guarantee(self.protocol), context.truncation, since_epoch > 0);
            let place = ReplicaSetup {
                shard_store,
                guarantee,
                truncation,
                takes_over,
                router: Arc::clone(router),
            };
            begin(place, records)
                .map_err(failed)?
                .into_iter()
                .for_each(|replica| router.add(replica));
        }
        if begins != Begins::Waits {
            context.records.take(key);
        }
        router.lifecycle().begun(rows::members(row, &context.members), begins);
        Ok(())
    }

    /// Applies a changed row: reconfigures, starts, restarts or ends this node's replica.
    fn take_over(&self, row: &DatabaseRow) -> Result<(), OpenError> {
        let (me, all, router) = (self.context.me, &self.context.members, self.router());
        router.reconfigure(rows::members(row, all));
        let action = router.lifecycle().action_for(row, all, me);
        match action {
            RowAction::Nothing => Ok(()),
            RowAction::Reconfigure(members) => {
                router.lifecycle().reconfigured(members.clone());
                if let Some(replica) = router.replica() {
                    replica.post(Input::Call(Box::new(move |replica: &mut Replica, now, out| {
                        replica.reconfigure(now, members, out);
                    })));
                }
                Ok(())
            }
            RowAction::Restart => {
                if let Some(replica) = router.remove() {
                    replica.runtime().shard_store().close();
                    router.lifecycle().stopped();
                }
                self.begin_replica(row)
            }
        }
    }

    /// Moves the database's replicas to these nodes, and returns when they have taken over. After
    /// an error, the same request continues the change.
    async fn give_to(&self, members: MemberRoles) -> Result<(), DatabaseError> {
        if !members.learners.is_empty() || !members.witnesses.is_empty() {
            let why = "a database without leaders has neither learners nor witnesses: ALTER DATABASE … MEMBERS (1, 2, 3)";
            return Err(DatabaseError::Replicas(why.into()));
        }
        let (router, all) = (self.router(), self.context.members.clone());
        let replicas = choose_replicas(members.voters, &all)?;
        let unavailable = |why: String| DatabaseError::Failed(Failure::Unavailable(why));
        let catalog = self.context.catalog.upgrade();
        let catalog = catalog.ok_or_else(|| unavailable("this node is shutting down".into()))?;
        let next = move |row: &DatabaseRow| {
            rows::next(row, &all, &replicas).map_err(DatabaseError::Replicas)
        };
        catalog.change_row(router.database(), Box::new(next)).await?;
        let until = crate::clock::boot_ns() + TAKEN_OVER_WITHIN_NS;
        let epoch = router.members().epoch;
        let shards = [(FIRST_SHARD, Key::default())];
        have_taken_over(&**router, &shards, epoch, until).await.map_err(|why| {
            unavailable(format!("{why}: the change continues when replicas respond; repeat the statement to complete it"))
        })?;
        let ended = move |row: &DatabaseRow| Ok(rows::ended(row, epoch));
        catalog.change_row(router.database(), Box::new(ended)).await
    }
}

impl DatabaseHandle for Handle {
    fn protocol(&self) -> &'static Protocol {
        self.protocol
    }

    fn database(&self) -> Arc<dyn Database> {
        Arc::clone(&self.txn_client) as Arc<dyn Database>
    }

    fn apply(&self, row: &DatabaseRow) -> Result<(), OpenError> {
        self.take_over(row)?;
        self.router().retain(row);
        self.set_prepare_wait(row); // Also for a replica that has just started.
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

    fn transactions(&self) -> TxnStats {
        self.router().counters().read()
    }

    fn close(&self) -> Vec<Arc<dyn Flushable>> {
        self.router().close().into_iter().map(|ended| ended as Arc<dyn Flushable>).collect()
    }

    fn change_members(&self, members: MemberRoles) -> Future<'_, Result<(), DatabaseError>> {
        Box::pin(self.give_to(members))
    }
}
