//! A database whose shards have leaders, as the node uses it.

use super::lifecycle::Lifecycle;
use super::member::MemberShard;
use super::request_router::RequestRouter;
use crate::actor::Input;
use crate::context::NodeContext;
use crate::database::{DatabaseError, DatabaseHandle, ShardStatus, Watch};
use crate::flusher::Flushable;
use crate::identity::OpenError;
use crate::protocols::HostedProtocol;
use crate::transfer::Copied;
use meridian_machine::{NodeId, Role, ShardId};
use meridian_mvcc::Key;
use meridian_placement::DatabaseRow;
use meridian_systems::Protocol;
use meridian_systems::envelope::Frame;
use meridian_systems::locking::Locking;
use meridian_systems::mvto::Mvto;
use meridian_systems::shard::{Message, MessageOf, Participant, Shard};
use meridian_systems::{clock_si, conventional_si, hybrid_time, k2, spanner};
use meridian_txn::locking::Waits;
use meridian_txn::shards::{Administrator, MemberRoles, ReplicaId, Request};
use meridian_txn::{Database, Failure, Future, Node, TxnStats};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Time within which a node that has committed a split normally has its replica of the new shard,
/// in nanoseconds.
const BORN_WITHIN_NS: u64 = 5_000_000_000;
/// Shard ids that a split of many keys takes at once. As many are lost if it fails, and a database
/// has a bounded number of them.
const NUMBERS_AT_ONCE: usize = 32;
/// Time that a request for the waits-for edges may wait for a busy replica.
const WAITS_PATIENCE: Duration = Duration::from_millis(200);

struct Handle<P: Participant> {
    protocol: &'static Protocol,
    database: Arc<dyn Database>,
    administrator: Administrator<RequestRouter<P>>,
    context: Arc<NodeContext>,
    /// Ends with the handle: requests of its replicas after that are dropped.
    lifecycle: Arc<Lifecycle<P>>,
}

/// Spanner, as a node runs it.
pub const HOSTED: HostedProtocol = HostedProtocol {
    protocol: &spanner::PROTOCOL,
    open: |row, context| open::<Locking>(row, context, &spanner::PROTOCOL),
    choose_replicas,
};

/// Clock-SI, as a node runs it.
pub const HOSTED_CLOCK_SI: HostedProtocol = HostedProtocol {
    protocol: &clock_si::PROTOCOL,
    open: |row, context| open::<Locking>(row, context, &clock_si::PROTOCOL),
    choose_replicas,
};

/// Conventional snapshot isolation, as a node runs it.
pub const HOSTED_CONVENTIONAL_SI: HostedProtocol = HostedProtocol {
    protocol: &conventional_si::PROTOCOL,
    open: |row, context| open::<Locking>(row, context, &conventional_si::PROTOCOL),
    choose_replicas,
};

/// HybridTime, as a node runs it.
pub const HOSTED_HYBRID_TIME: HostedProtocol = HostedProtocol {
    protocol: &hybrid_time::PROTOCOL,
    open: |row, context| open::<Locking>(row, context, &hybrid_time::PROTOCOL),
    choose_replicas,
};

/// K2, as a node runs it.
pub const HOSTED_K2: HostedProtocol = HostedProtocol {
    protocol: &k2::PROTOCOL,
    open: |row, context| open::<Mvto>(row, context, &k2::PROTOCOL),
    choose_replicas,
};

/// Opens a database. Its replicas start with [`DatabaseHandle::begin`].
fn open<P: Participant>(
    row: &DatabaseRow,
    context: &Arc<NodeContext>,
    protocol: &'static Protocol,
) -> Result<Arc<dyn DatabaseHandle>, OpenError> {
    let lifecycle = Lifecycle::<P>::new(row, context, protocol);
    let database = P::database(protocol, Arc::clone(lifecycle.router()));
    let administrator = Administrator::new(Arc::clone(lifecycle.router()));
    let context = Arc::clone(context);
    Ok(Arc::new(Handle::<P> { protocol, database, administrator, context, lifecycle }))
}

/// Chooses the nodes of a new database: always all.
fn choose_replicas(asked: Vec<NodeId>, _: &[NodeId]) -> Result<Vec<NodeId>, DatabaseError> {
    if asked.is_empty() {
        return Ok(asked);
    }
    let why =
        "a database with leaders starts on all nodes: use ALTER DATABASE … MEMBERS afterwards";
    Err(DatabaseError::Replicas(why.into()))
}

impl<P: Participant> Handle<P> {
    fn router(&self) -> &Arc<RequestRouter<P>> {
        self.lifecycle.router()
    }

    /// Handles the frames of one shard. Those for its replica here form one batch.
    fn receive_of_shard(&self, shard: ShardId, frames: &[Frame<'_>]) {
        let (router, member) = (self.router(), self.router().member(shard));
        let mut to_member = Vec::with_capacity(frames.len());
        for frame in frames {
            let (from, to) = (frame.from, frame.to);
            let message = match frame.message::<MessageOf<P>>(P::KIND) {
                Ok(message) => message,
                Err(why) => {
                    tracing::warn!(%from, %why, "dropped a frame");
                    continue;
                }
            };
            match (to.role, message) {
                (Role::Replica, Message::Leads(term)) => {
                    router.map().set_leader(shard, from.node);
                    router.map().learn_term(ReplicaId { shard, node: from.node }, term.0);
                }
                (Role::Replica, message) if member.is_some() => {
                    to_member.push(Input::Message(from, message));
                }
                // There is no replica here: not yet, or not any more.
                (Role::Replica, Message::Group(said)) => {
                    if let Some(membership_epoch) = said.invitation() {
                        router.invite(shard, membership_epoch);
                    }
                }
                (Role::Replica, Message::Request(Request { id, .. })) => {
                    router.send_not_here(from, to, id);
                }
                (Role::Coordinator(number), Message::Response(reply)) => {
                    router.on_response(number, reply)
                }
                (Role::Replica | Role::Coordinator(_), _) => {}
            }
        }
        if let Some(member) = member {
            member.post_all(to_member);
        }
    }

    async fn split_at(&self, mut keys: Vec<Key>) -> Result<(), DatabaseError> {
        let (router, failed) = (self.router(), DatabaseError::Failed);
        // The others are split there already.
        keys.retain(|key| router.map().route(key).1.start != *key);
        // From the end: every key is split off from the same shard, which has a leader.
        keys.sort_unstable_by(|one, other| other.cmp(one));
        keys.dedup();
        let mut shards = Vec::with_capacity(keys.len());
        for keys in keys.chunks(NUMBERS_AT_ONCE) {
            let ended = || failed(Failure::Unavailable("this node is shutting down".into()));
            let catalog = self.context.catalog.upgrade().ok_or_else(ended)?;
            let numbers =
                catalog.new_shards(router.database(), keys.len()).await.map_err(failed)?;
            for (key, shard) in keys.iter().zip(numbers.map(ShardId)) {
                self.administrator.split(key.clone(), shard).await.map_err(failed)?;
                shards.push(shard);
            }
        }
        // This node's replicas are created in a moment; the session that splits waits, so as to see
        // them.
        let until = crate::clock::boot_ns() + BORN_WITHIN_NS;
        for shard in shards {
            while router.member(shard).is_none()
                && !router.node().is_closed()
                && crate::clock::boot_ns() < until
            {
                let wakes_ns = crate::clock::boot_ns() + BORN_WITHIN_NS / 1000;
                router.node().sleep_until(wakes_ns).await;
            }
        }
        Ok(())
    }
}

impl<P: Participant> DatabaseHandle for Handle<P> {
    fn protocol(&self) -> &'static Protocol {
        self.protocol
    }

    fn begin(&self, watch: Option<Watch>) -> Result<(), OpenError> {
        self.lifecycle.begin(watch)
    }

    fn database(&self) -> Arc<dyn Database> {
        Arc::clone(&self.database)
    }

    fn apply(&self, row: &DatabaseRow) -> Result<(), OpenError> {
        self.router().apply_settings(row);
        self.lifecycle.begin_missing()
    }

    fn receive(&self, frames: &[Frame<'_>]) {
        for of_shard in frames.chunk_by(|one, next| one.to.shard == next.to.shard) {
            self.receive_of_shard(of_shard[0].to.shard, of_shard);
        }
    }

    fn retention(&self) -> Option<Duration> {
        self.router().retention()
    }

    fn sweep(&self) {
        self.router().sweep();
    }

    fn shards(&self) -> Vec<Arc<dyn Flushable>> {
        self.router().members().into_iter().map(|member| member as Arc<dyn Flushable>).collect()
    }

    fn status(&self, row: &DatabaseRow) -> Vec<ShardStatus> {
        self.router().members().iter().map(|member| status(row, member)).collect()
    }

    fn transactions(&self) -> TxnStats {
        self.router().counters().read()
    }

    fn close(&self) -> Vec<Arc<dyn Flushable>> {
        self.lifecycle.close().into_iter().map(|member| member as Arc<dyn Flushable>).collect()
    }

    fn is_ready(&self) -> bool {
        self.router().members().iter().all(|member| member.runtime().read_lease().leads)
    }

    fn leads(&self) -> bool {
        self.router().members().iter().any(|member| member.runtime().read_lease().leads)
    }

    fn hand_over(&self) {
        for member in self.router().members() {
            member.post(Input::Call(Box::new(|replica: &mut Shard<P>, now, out| {
                replica.transfer_leadership(now, out)
            })));
        }
    }

    fn copied(&self, shard: ShardId) -> Option<Arc<dyn Copied>> {
        self.router().member(shard).map(|member| member as Arc<dyn Copied>)
    }

    fn waits(&self) -> Vec<Waits> {
        let mut all = Vec::new();
        for member in self.router().members() {
            let (send, receive) = mpsc::channel();
            member.post(Input::Call(Box::new(move |replica: &mut Shard<P>, _, _| {
                let _ = send.send(replica.waits()); // The caller may have given up.
            })));
            all.extend(receive.recv_timeout(WAITS_PATIENCE).unwrap_or_default());
        }
        all
    }

    fn split(&self, keys: Vec<Key>) -> Future<'_, Result<(), DatabaseError>> {
        Box::pin(self.split_at(keys))
    }

    fn change_members(&self, members: MemberRoles) -> Future<'_, Result<(), DatabaseError>> {
        Box::pin(async move {
            self.administrator.change_members(members).await.map_err(DatabaseError::Failed)
        })
    }
}

fn status<P: Participant>(row: &DatabaseRow, member: &MemberShard<P>) -> ShardStatus {
    let runtime = member.runtime();
    ShardStatus {
        database: row.name.clone(),
        id: row.id,
        shard: runtime.shard(),
        bounds: runtime.shard_store().bounds(),
        leader: runtime.known_leader(),
        leads: runtime.read_lease().leads,
        through: runtime.read_lease().through,
        closed: runtime.read_lease().closed,
        applied: runtime.shard_store().extent().map_or(0, |extent| extent.position),
        memtable_bytes: runtime.shard_store().memtable_bytes(),
        members: runtime.roster(),
    }
}
