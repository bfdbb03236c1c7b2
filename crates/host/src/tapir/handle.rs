//! A database of the tapir protocol, as the node uses it. The database's row decides when this
//! node's replica starts and ends, and which other nodes have one.

use super::{Desk, Gateway, Kept, Place, Replica, Tapir, begin};
use crate::context::NodeContext;
use crate::database::{DatabaseError, DatabaseHandle, ShardStatus};
use crate::identity::OpenError;
use crate::protocols::{HostedProtocol, those_or_all};
use crate::resident::Input;
use crate::settle::Settles;
use meridian_log::MachineKey;
use meridian_machine::NodeId;
use meridian_mvcc::Key;
use meridian_placement::{DatabaseRow, FIRST_SHARD};
use meridian_store::Space;
use meridian_systems::Protocol;
use meridian_systems::envelope::Frame;
use meridian_systems::tapir::lifecycle::{self, Begins, Turn};
use meridian_systems::tapir::{self, KIND, have_taken_over, rows};
use meridian_txn::locking::Members;
use meridian_txn::{Database, Failure, Future};
use std::sync::Arc;
use std::time::Duration;

/// Time that a session waits for replicas to take over before it gets an error, in nanoseconds.
const TAKEN_OVER_WITHIN_NS: u64 = 120_000_000_000;

struct Handle {
    gateway: Arc<Gateway>,
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
    let desk = Desk::of(row, context, Tapir::default());
    let gateway = Arc::new(Gateway::new(Arc::new(tapir::Shards(desk)), tapir::guarantee(protocol)));
    let handle = Handle { gateway, protocol, context: Arc::clone(context) };
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
    fn desk(&self) -> &Arc<Desk> {
        &self.gateway.shards().0
    }

    fn set_prepare_wait(&self, row: &DatabaseRow) {
        self.desk().set_prepare_wait(tapir::PREPARE_WAIT.of(row).unwrap_or_default());
    }

    /// Starts this node's replica, if the row gives it one, with what the store and the log have of
    /// its present membership epoch.
    fn begin_replica(&self, row: &DatabaseRow) -> Result<(), OpenError> {
        let (key, context, desk) =
            (MachineKey { database: row.id.0, shard: FIRST_SHARD.0 }, &self.context, self.desk());
        let mut records: Vec<Kept> = context.read(KIND, &context.records.of(key))?;
        let failed = |error| context.of_store(error);
        let mut space = Space::open(key.database, key.shard, Arc::clone(&context.plumbing.store))
            .map_err(failed)?;
        let as_of = space.as_of().map_err(failed)?;
        let begins = lifecycle::begins(row, &context.members, context.me, as_of, &mut records);
        let (with, let_go) = match begins {
            Begins::Waits => (None, None),
            Begins::Without { let_go } => (None, let_go),
            Begins::With { stay, let_go } => (Some(stay), let_go),
        };
        if let Some(as_of) = let_go {
            space = space.let_go(as_of).map_err(failed)?;
            context.plumbing.journal.forget(key);
        }
        if let Some(stay) = with {
            if stay > 0 && let_go.is_some() {
                tracing::info!(
                    database = row.id.0,
                    epoch = row.epoch,
                    "takes over as a replica of a database"
                );
            }
            let (guarantee, forgetting, takes_over) =
                (tapir::guarantee(self.protocol), context.forgetting, stay > 0);
            let place = Place { space, guarantee, forgetting, takes_over, desk: Arc::clone(desk) };
            begin(place, records)
                .map_err(failed)?
                .into_iter()
                .for_each(|replica| desk.add(replica));
        }
        if begins != Begins::Waits {
            context.records.take(key);
        }
        desk.lifecycle().begun(rows::members(row, &context.members), begins);
        Ok(())
    }

    /// Applies a changed row: reconfigures, starts, restarts or ends this node's replica.
    fn take_over(&self, row: &DatabaseRow) -> Result<(), OpenError> {
        let (me, all, desk) = (self.context.me, &self.context.members, self.desk());
        desk.reconfigure(rows::members(row, all));
        let turn = desk.lifecycle().turn(row, all, me);
        match turn {
            Turn::Nothing => Ok(()),
            Turn::Reconfigure(members) => {
                desk.lifecycle().reconfigured(members.clone());
                if let Some(replica) = desk.replica() {
                    replica.post(Input::Call(Box::new(move |replica: &mut Replica, now, out| {
                        replica.reconfigure(now, members, out);
                    })));
                }
                Ok(())
            }
            Turn::Anew => {
                if let Some(replica) = desk.remove() {
                    replica.world().space().close();
                    desk.lifecycle().stopped();
                }
                self.begin_replica(row)
            }
        }
    }

    /// Moves the database's replicas to these nodes, and returns when they have taken over. After
    /// an error, the same request continues the change.
    async fn give_to(&self, members: Members) -> Result<(), DatabaseError> {
        if !members.learners.is_empty() || !members.witnesses.is_empty() {
            let why = "a database without leaders has neither learners nor witnesses: ALTER DATABASE … MEMBERS (1, 2, 3)";
            return Err(DatabaseError::Replicas(why.into()));
        }
        let (desk, all) = (self.desk(), self.context.members.clone());
        let replicas = choose_replicas(members.voters, &all)?;
        let unavailable = |why: String| DatabaseError::Failed(Failure::Unavailable(why));
        let catalog = self.context.catalog.upgrade();
        let catalog = catalog.ok_or_else(|| unavailable("this node is shutting down".into()))?;
        let next = move |row: &DatabaseRow| {
            rows::next(row, &all, &replicas).map_err(DatabaseError::Replicas)
        };
        catalog.change_row(desk.database(), Box::new(next)).await?;
        let until = crate::clock::boot_ns() + TAKEN_OVER_WITHIN_NS;
        let epoch = desk.members().epoch;
        let shards = [(FIRST_SHARD, Key::default())];
        have_taken_over(&**desk, &shards, epoch, until).await.map_err(|why| {
            unavailable(format!("{why}: the change continues when replicas respond; repeat the statement to complete it"))
        })?;
        let ended = move |row: &DatabaseRow| Ok(rows::ended(row, epoch));
        catalog.change_row(desk.database(), Box::new(ended)).await
    }
}

impl DatabaseHandle for Handle {
    fn protocol(&self) -> &'static Protocol {
        self.protocol
    }

    fn database(&self) -> Arc<dyn Database> {
        Arc::clone(&self.gateway) as Arc<dyn Database>
    }

    fn apply(&self, row: &DatabaseRow) -> Result<(), OpenError> {
        self.take_over(row)?;
        self.desk().retain(row);
        self.set_prepare_wait(row); // Also for a replica that has just started.
        Ok(())
    }

    fn receive(&self, frames: &[Frame<'_>]) {
        self.desk().receive(frames);
    }

    fn retention(&self) -> Option<Duration> {
        self.desk().retention()
    }

    fn sweep(&self) {
        self.desk().sweep();
    }

    fn shards(&self) -> Vec<Arc<dyn Settles>> {
        self.desk().replica().into_iter().map(|replica| replica as Arc<dyn Settles>).collect()
    }

    fn status(&self, row: &DatabaseRow) -> Vec<ShardStatus> {
        let (desk, replicas) = (self.desk(), self.desk().replicas());
        desk.replica()
            .map(|replica| ShardStatus::leaderless(row, &replicas, &*replica))
            .into_iter()
            .collect()
    }

    fn close(&self) -> Vec<Arc<dyn Settles>> {
        self.desk().close().into_iter().map(|ended| ended as Arc<dyn Settles>).collect()
    }

    fn change_members(&self, members: Members) -> Future<'_, Result<(), DatabaseError>> {
        Box::pin(self.give_to(members))
    }
}
