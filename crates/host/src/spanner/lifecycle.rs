//! Begins and ends this node's members of a database's groups, as the lifecycle of shards says
//! ([`lifecycle`](meridian_systems::shard::lifecycle)).
//!
//! An entry that removes this node from a shard is carried out here: what the node has of the shard
//! goes, except for children that it keeps.
//!
//! Members begin and end one after the other.

use super::member::{self, MemberShard, Place};
use super::sessions::Sessions;
use crate::context::NodeContext;
use crate::database::Watch;
use crate::identity::OpenError;
use crate::resident::Input;
use meridian_log::MachineKey;
use meridian_machine::ShardId;
use meridian_mvcc::{KeyRange, StoreError};
use meridian_placement::{DatabaseRow, FIRST_SHARD};
use meridian_replication::group::{Index, Membership, Roster, Stay};
use meridian_store::{Left, Space};
use meridian_systems::spanner::lifecycle::{self, LeftChild, Members, Restored};
use meridian_systems::spanner::{Damaged, KIND, Origin, Replica};
use meridian_txn::Node;
use parking_lot::Mutex;
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

/// What cannot be removed for want of room is tried again after this.
const AGAIN: Duration = Duration::from_millis(200);

/// The members of a database on this node.
pub struct Lifecycle {
    context: Arc<NodeContext>,
    sessions: Arc<Sessions>,
    /// One member after the other.
    bearing: Mutex<()>,
    this: Weak<Lifecycle>,
}

impl Lifecycle {
    /// Makes the lifecycle of a database of which no member has begun here.
    pub fn new(row: &DatabaseRow, context: &Arc<NodeContext>) -> Arc<Lifecycle> {
        let lifecycle = Arc::new_cyclic(|this: &Weak<Lifecycle>| Lifecycle {
            context: Arc::clone(context),
            sessions: Sessions::new(row.id, context, this.clone()),
            bearing: Mutex::new(()),
            this: this.clone(),
        });
        lifecycle.sessions.retain(row);
        lifecycle
    }

    /// Begins the members that this node has of the database's groups. For `system`, `watch` is
    /// called with every write to its first shard.
    pub fn begin(&self, watch: Option<Watch>) -> Result<(), OpenError> {
        let _alone = self.bearing.lock();
        lifecycle::start(&mut NodeMembers { lifecycle: self, watch }, false)
    }

    fn members(&self) -> NodeMembers<'_> {
        NodeMembers { lifecycle: self, watch: None }
    }

    /// The database's sessions on this node.
    pub fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    fn key(&self, shard: ShardId) -> MachineKey {
        MachineKey { database: self.sessions.database().0, shard: shard.0 }
    }

    /// A shard with these keys was split off from another, and is in the store: its member comes to
    /// life, and stands for election at once if it is eager. False if that has to be tried again.
    pub fn bear_split(&self, parent: ShardId, child: (ShardId, KeyRange), eager: bool) -> bool {
        let _alone = self.bearing.lock();
        let (child, bounds) = child;
        let begun = lifecycle::begin_child(&mut self.members(), parent, child, bounds, eager);
        if let Err(error) = &begun {
            tracing::error!(%error, "a shard that was split off cannot be begun on this node; trying again");
        }
        begun.is_ok()
    }

    /// Queues that this node becomes a member, since an entry: a leader has spoken to a member that
    /// is not here.
    pub fn queue_invite(&self, shard: ShardId, stay: Stay) {
        let this = self.this.clone();
        self.context.run_in_background(move || {
            let invited = this.upgrade().map_or(Ok(()), |this| this.invite(shard, stay));
            if let Err(error) = invited {
                tracing::error!(%error, "a member of a shard cannot be begun on this node; its leader asks again");
            }
        });
    }

    /// Queues that this node is no member of a shard any more, since an entry.
    pub fn queue_leave(&self, shard: ShardId, since: Index) {
        let this = self.this.clone();
        self.context.run_in_background(move || {
            this.upgrade().iter().for_each(|this| this.leave(shard, since))
        });
    }

    fn invite(&self, shard: ShardId, stay: Stay) -> Result<(), OpenError> {
        // Not under the lock: it waits for steps, and a step may begin a member.
        if !lifecycle::heeds(&self.members(), shard, stay)? {
            return Ok(());
        }
        let _alone = self.bearing.lock();
        if lifecycle::invite(&mut self.members(), shard, stay)? {
            let (database, since) = (self.sessions.database().0, stay.since);
            tracing::info!(database, shard = shard.0, %since, "becomes a member of a shard");
        }
        Ok(())
    }

    /// Ends a member, and removes what this node has of the shard.
    fn leave(&self, shard: ShardId, since: Index) {
        let Some(member) = self.sessions.remove(shard) else { return };
        let key = self.key(shard);
        tracing::info!(database = key.database, shard = shard.0, %since, "is no member of a shard any more");
        let _alone = self.bearing.lock();
        let (world, space) = (member.world(), member.world().space());
        while let Err(error) = space
            .leave(since.0, |child| Origin::keep(world.members_at_birth(ShardId(child)).as_ref()))
        {
            tracing::error!(%error, "what this node has of a shard cannot be removed; trying again");
            member.world().heed(&error);
            if self.sessions.node().is_closed() {
                return; // The next life hears of it again.
            }
            std::thread::sleep(AGAIN);
        }
        let left = space.left().map_err(|error| self.context.of_store(error));
        let begun = left.and_then(|left| {
            lifecycle::begin_left(&mut self.members(), left.into_iter().map(of_left).collect())
        });
        if let Err(error) = begun {
            tracing::error!(%error, "a shard that was split off cannot be begun on this node before its next start");
        }
        self.context.plumbing.journal.forget(key);
    }

    /// Whether a shard is to be born on this node, as the log of a member says or its space. Not
    /// within a step, nor while a member begins: it waits for steps.
    fn expects(&self, child: ShardId) -> bool {
        let (say, heard) = mpsc::channel::<()>();
        let members: Vec<Arc<MemberShard>> = self.sessions.members();
        for member in &members {
            let say = say.clone();
            member.post(Input::Call(Box::new(move |replica: &mut Replica, _, _| {
                if replica.expects(child) {
                    let _ = say.send(());
                }
            })));
        }
        drop(say);
        // What is in no log any more is on its way to the store.
        heard.recv().is_ok()
            || members.iter().any(|member| member.world().space().expects_child(child.0))
    }
}

pub(super) fn of_left(Left { child, bounds, birth }: Left) -> LeftChild {
    (ShardId(child), bounds, birth)
}

/// This node's members, while one begins after the other.
struct NodeMembers<'l> {
    lifecycle: &'l Lifecycle,
    watch: Option<Watch>,
}

impl Members for NodeMembers<'_> {
    type Member = Arc<MemberShard>;
    type Error = OpenError;

    fn has(&self, shard: ShardId) -> bool {
        self.lifecycle.sessions.member(shard).is_some()
            || self.lifecycle.sessions.node().is_closed()
    }

    fn all_nodes(&self) -> Membership {
        Membership::at_birth(Roster::voters(self.lifecycle.context.members.iter().copied()))
    }

    fn recovered(&self) -> Vec<ShardId> {
        let machines = self.lifecycle.context.records.machines(self.lifecycle.sessions.database());
        machines.into_iter().map(|key| ShardId(key.shard)).collect()
    }

    fn has_records(&self, shard: ShardId) -> bool {
        self.lifecycle.context.records.has(self.lifecycle.key(shard))
    }

    fn forget_recovered(&mut self, shard: ShardId) {
        self.lifecycle.context.records.take(self.lifecycle.key(shard));
    }

    fn forget_log(&mut self, shard: ShardId) {
        self.lifecycle.context.plumbing.journal.forget(self.lifecycle.key(shard));
    }

    fn removed(&self, shard: ShardId) -> Result<Option<Index>, OpenError> {
        let (context, key) = (&self.lifecycle.context, self.lifecycle.key(shard));
        let removed = Space::removed(key.database, key.shard, &*context.plumbing.store);
        Ok(removed.map_err(|error| context.of_store(error))?.map(Index))
    }

    fn expects(&self, shard: ShardId) -> bool {
        self.lifecycle.expects(shard)
    }

    fn parent_knows(&self, parent: ShardId, child: ShardId) -> Option<Option<Membership>> {
        self.lifecycle.sessions.member(parent).map(|parent| parent.world().members_at_birth(child))
    }

    fn learn_route(&mut self, shard: ShardId, bounds: &KeyRange) {
        self.lifecycle.sessions.map().learn_route(&bounds.start, bounds.start.clone(), shard);
    }

    fn restore(
        &mut self,
        shard: ShardId,
        bounds: KeyRange,
        origin: Origin,
        eager: bool,
    ) -> Result<Restored<Arc<MemberShard>>, OpenError> {
        let Lifecycle { context, sessions, .. } = self.lifecycle;
        let key = self.lifecycle.key(shard);
        let records = context.read(KIND, &context.records.of(key))?;
        let watch = self.watch.take_if(|_| shard == FIRST_SHARD);
        let (context_of, sessions_of) = (Arc::clone(context), Arc::clone(sessions));
        let place =
            Place { key, bounds, origin, eager, context: context_of, sessions: sessions_of, watch };
        member::restore(place, records).map_err(|error| context.of_store(error))
    }

    fn add(
        &mut self,
        _: ShardId,
        member: Arc<MemberShard>,
    ) -> Result<Vec<(ShardId, KeyRange)>, OpenError> {
        let Lifecycle { context, sessions, .. } = self.lifecycle;
        let children = member.world().space().children();
        let children = children.map_err(|error| context.of_store(error))?;
        sessions.add(member);
        Ok(children.into_iter().map(|(child, bounds)| (ShardId(child), bounds)).collect())
    }

    fn damaged(&self, Damaged(what): Damaged) -> OpenError {
        self.lifecycle.context.of_store(StoreError::Damaged { file: "the store".to_owned(), what })
    }
}
