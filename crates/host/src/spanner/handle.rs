//! A database of the spanner protocol, as the node uses it.

use super::lifecycle::Lifecycle;
use super::member::MemberShard;
use super::sessions::Sessions;
use super::shards::Gateway;
use crate::context::NodeContext;
use crate::database::{DatabaseError, DatabaseHandle, ShardStatus, Watch};
use crate::identity::OpenError;
use crate::protocols::HostedProtocol;
use crate::resident::Input;
use crate::settle::Settles;
use crate::transfer::Copied;
use meridian_machine::{NodeId, Role, ShardId};
use meridian_mvcc::Key;
use meridian_placement::DatabaseRow;
use meridian_systems::Protocol;
use meridian_systems::envelope::Frame;
use meridian_systems::spanner::{self, KIND, Message, Replica};
use meridian_txn::locking::{Members, Request, Seat, Waits};
use meridian_txn::{Database, Failure, Future, Node};
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

struct Handle {
    gateway: Arc<Gateway>,
    context: Arc<NodeContext>,
    /// Ends with the handle: requests of its replicas after that are dropped.
    lifecycle: Arc<Lifecycle>,
}

/// Spanner, as a node runs it.
pub const HOSTED: HostedProtocol =
    HostedProtocol { protocol: &spanner::PROTOCOL, open, choose_replicas };

/// Opens a database. Its replicas start with [`DatabaseHandle::begin`].
fn open(
    row: &DatabaseRow,
    context: &Arc<NodeContext>,
) -> Result<Arc<dyn DatabaseHandle>, OpenError> {
    let lifecycle = Lifecycle::new(row, context);
    let gateway = Arc::new(Gateway::new(Arc::clone(lifecycle.sessions())));
    Ok(Arc::new(Handle { gateway, context: Arc::clone(context), lifecycle }))
}

/// Chooses the nodes of a new database: always all.
fn choose_replicas(asked: Vec<NodeId>, _: &[NodeId]) -> Result<Vec<NodeId>, DatabaseError> {
    if asked.is_empty() {
        return Ok(asked);
    }
    let why = "a database whose protocol is spanner starts on all nodes: use ALTER DATABASE … MEMBERS afterwards";
    Err(DatabaseError::Replicas(why.into()))
}

impl Handle {
    fn sessions(&self) -> &Arc<Sessions> {
        self.lifecycle.sessions()
    }

    /// Handles the frames of one shard. Those for its replica here form one batch.
    fn receive_of_shard(&self, shard: ShardId, frames: &[Frame<'_>]) {
        let (sessions, member) = (self.sessions(), self.sessions().member(shard));
        let mut to_member = Vec::with_capacity(frames.len());
        for frame in frames {
            let (from, to) = (frame.from, frame.to);
            let message = match frame.message::<Message>(KIND) {
                Ok(message) => message,
                Err(why) => {
                    tracing::warn!(%from, %why, "dropped a frame");
                    continue;
                }
            };
            match (to.role, message) {
                (Role::Replica, Message::Leads(term)) => {
                    sessions.map().set_leader(shard, from.node);
                    sessions.map().learn_term(Seat { shard, node: from.node }, term.0);
                }
                (Role::Replica, message) if member.is_some() => {
                    to_member.push(Input::Message(from, message));
                }
                // There is no replica here: not yet, or not any more.
                (Role::Replica, Message::Group(said)) => {
                    if let Some(stay) = said.invitation() {
                        sessions.invite(shard, stay);
                    }
                }
                (Role::Replica, Message::Ask(Request { id, .. })) => {
                    sessions.say_elsewhere(from, to, id);
                }
                (Role::Coordinator(number), Message::Answer(reply)) => sessions.hear(number, reply),
                (Role::Replica | Role::Coordinator(_), _) => {}
            }
        }
        if let Some(member) = member {
            member.post_all(to_member);
        }
    }

    async fn split_at(&self, mut keys: Vec<Key>) -> Result<(), DatabaseError> {
        let (sessions, failed) = (self.sessions(), DatabaseError::Failed);
        // The others are split there already.
        keys.retain(|key| sessions.map().route(key).1.start != *key);
        // From the end: every key is split off from the same shard, which has a leader.
        keys.sort_unstable_by(|one, other| other.cmp(one));
        keys.dedup();
        let mut shards = Vec::with_capacity(keys.len());
        for keys in keys.chunks(NUMBERS_AT_ONCE) {
            let ended = || failed(Failure::Unavailable("this node is shutting down".into()));
            let catalog = self.context.catalog.upgrade().ok_or_else(ended)?;
            let numbers =
                catalog.new_shards(sessions.database(), keys.len()).await.map_err(failed)?;
            for (key, shard) in keys.iter().zip(numbers.map(ShardId)) {
                self.gateway.split(key.clone(), shard).await.map_err(failed)?;
                shards.push(shard);
            }
        }
        // This node's replicas are created in a moment; the session that splits waits, so as to see
        // them.
        let until = crate::clock::boot_ns() + BORN_WITHIN_NS;
        for shard in shards {
            while sessions.member(shard).is_none()
                && !sessions.node().is_closed()
                && crate::clock::boot_ns() < until
            {
                let wakes_ns = crate::clock::boot_ns() + BORN_WITHIN_NS / 1000;
                sessions.node().sleep_until(wakes_ns).await;
            }
        }
        Ok(())
    }
}

impl DatabaseHandle for Handle {
    fn protocol(&self) -> &'static Protocol {
        &spanner::PROTOCOL
    }

    fn begin(&self, watch: Option<Watch>) -> Result<(), OpenError> {
        self.lifecycle.begin(watch)
    }

    fn database(&self) -> Arc<dyn Database> {
        Arc::clone(&self.gateway) as Arc<dyn Database>
    }

    fn apply(&self, row: &DatabaseRow) -> Result<(), OpenError> {
        self.sessions().retain(row);
        Ok(())
    }

    fn receive(&self, frames: &[Frame<'_>]) {
        for of_shard in frames.chunk_by(|one, next| one.to.shard == next.to.shard) {
            self.receive_of_shard(of_shard[0].to.shard, of_shard);
        }
    }

    fn retention(&self) -> Option<Duration> {
        self.sessions().retention()
    }

    fn sweep(&self) {
        self.sessions().sweep();
    }

    fn shards(&self) -> Vec<Arc<dyn Settles>> {
        self.sessions().members().into_iter().map(|member| member as Arc<dyn Settles>).collect()
    }

    fn status(&self, row: &DatabaseRow) -> Vec<ShardStatus> {
        self.sessions().members().iter().map(|member| status(row, member)).collect()
    }

    fn close(&self) -> Vec<Arc<dyn Settles>> {
        self.sessions().close().into_iter().map(|member| member as Arc<dyn Settles>).collect()
    }

    fn is_ready(&self) -> bool {
        self.sessions().members().iter().all(|member| member.world().readable().leads)
    }

    fn leads(&self) -> bool {
        self.sessions().members().iter().any(|member| member.world().readable().leads)
    }

    fn hand_over(&self) {
        for member in self.sessions().members() {
            member.post(Input::Call(Box::new(|replica: &mut Replica, now, out| {
                replica.abdicate(now, out)
            })));
        }
    }

    fn copied(&self, shard: ShardId) -> Option<Arc<dyn Copied>> {
        self.sessions().member(shard).map(|member| member as Arc<dyn Copied>)
    }

    fn waits(&self) -> Vec<Waits> {
        let mut all = Vec::new();
        for member in self.sessions().members() {
            let (send, receive) = mpsc::channel();
            member.post(Input::Call(Box::new(move |replica: &mut Replica, _, _| {
                let _ = send.send(replica.locks().waits()); // The caller may have given up.
            })));
            all.extend(receive.recv_timeout(WAITS_PATIENCE).unwrap_or_default());
        }
        all
    }

    fn split(&self, keys: Vec<Key>) -> Future<'_, Result<(), DatabaseError>> {
        Box::pin(self.split_at(keys))
    }

    fn change_members(&self, members: Members) -> Future<'_, Result<(), DatabaseError>> {
        Box::pin(async move {
            self.gateway.change_members(members).await.map_err(DatabaseError::Failed)
        })
    }
}

fn status(row: &DatabaseRow, member: &MemberShard) -> ShardStatus {
    let home = member.world();
    ShardStatus {
        database: row.name.clone(),
        id: row.id,
        shard: home.shard(),
        bounds: home.space().bounds(),
        leader: home.known_leader(),
        leads: home.readable().leads,
        through: home.readable().through,
        closed: home.readable().closed,
        applied: home.space().extent().map_or(0, |extent| extent.position),
        recent_bytes: home.space().recent_bytes(),
        members: home.roster(),
    }
}
