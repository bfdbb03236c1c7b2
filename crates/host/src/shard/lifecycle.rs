//! Starts and ends this node's replicas of a database's shards, as decided by the shard lifecycle
//! ([`lifecycle`](meridian_systems::shard::lifecycle)).
//!
//! An entry that removes this node from a shard is carried out here: the node deletes what it has
//! of the shard, except for children that it keeps.
//!
//! Replicas start and end one after the other. A step that fails is tried again later; no lock is
//! held and no thread waits meanwhile.

use super::member::{self, MemberSetup, MemberShard};
use super::request_router::RequestRouter;
use crate::actor::Input;
use crate::context::NodeContext;
use crate::database::Watch;
use crate::identity::OpenError;
use crate::timers::Wake;
use meridian_log::MachineKey;
use meridian_machine::ShardId;
use meridian_mvcc::{KeyRange, StoreError};
use meridian_placement::{DatabaseRow, FIRST_SHARD};
use meridian_replication::group::{Index, Membership, MembershipEpoch, Roster};
use meridian_store::{OrphanedChild, ShardStore};
use meridian_systems::Protocol;
use meridian_systems::shard::lifecycle::{
    self, Ending, Endings, MemberHost, OrphanedSplit, Restored,
};
use meridian_systems::shard::{Damaged, Origin, Participant, Shard};
use meridian_txn::Node;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak, mpsc};

/// The lifecycle of a database's replicas on this node.
pub struct Lifecycle<P: Participant> {
    context: Arc<NodeContext>,
    router: Arc<RequestRouter<P>>,
    protocol: &'static Protocol,
    /// Held while one replica starts or ends.
    transition: Mutex<()>,
    /// True once all replicas have started that the node has at the start of the database.
    has_begun: AtomicBool,
    /// The ends of replicas that are under way.
    endings: Mutex<Endings<Arc<MemberShard<P>>>>,
    /// True while the timer for the next try of these is set.
    retries: AtomicBool,
    this: Weak<Lifecycle<P>>,
}

impl<P: Participant> Lifecycle<P> {
    /// Returns the lifecycle of a database none of whose replicas has started here.
    pub fn new(
        row: &DatabaseRow,
        context: &Arc<NodeContext>,
        protocol: &'static Protocol,
    ) -> Arc<Lifecycle<P>> {
        let lifecycle = Arc::new_cyclic(|this: &Weak<Lifecycle<P>>| Lifecycle {
            context: Arc::clone(context),
            router: RequestRouter::new(row.id, context, this.clone()),
            protocol,
            transition: Mutex::new(()),
            has_begun: AtomicBool::new(false),
            endings: Mutex::default(),
            retries: AtomicBool::new(false),
            this: this.clone(),
        });
        lifecycle.router.apply_settings(row);
        lifecycle
    }

    /// Starts this node's replicas. For `system`, `watch` is called with every write to its first
    /// shard.
    pub fn begin(&self, watch: Option<Watch>) -> Result<(), OpenError> {
        let _alone = self.transition.lock();
        lifecycle::start(&mut NodeMembers { lifecycle: self, watch }, false)?;
        self.has_begun.store(true, Ordering::Release);
        Ok(())
    }

    /// Starts the replicas that an earlier [`begin`](Self::begin) could not start.
    pub fn begin_missing(&self) -> Result<(), OpenError> {
        if self.has_begun.load(Ordering::Acquire) { Ok(()) } else { self.begin(None) }
    }

    fn members(&self) -> NodeMembers<'_, P> {
        NodeMembers { lifecycle: self, watch: None }
    }

    /// Returns the database's request router on this node.
    pub fn router(&self) -> &Arc<RequestRouter<P>> {
        &self.router
    }

    fn key(&self, shard: ShardId) -> MachineKey {
        MachineKey { database: self.router.database().0, shard: shard.0 }
    }

    /// Creates the replicas of shards that were split off and are in the store. They campaign at
    /// once if they are `eager`. The parent reports those again that cannot start.
    pub fn create_children(
        &self,
        parent: ShardId,
        children: Vec<(ShardId, KeyRange)>,
        eager: bool,
    ) {
        let _alone = self.transition.lock();
        let begun = lifecycle::begin_children(&mut self.members(), parent, children, eager);
        if let Err(error) = begun {
            tracing::error!(%error, "cannot start the replica of a new shard; trying again");
        }
    }

    /// Queues the creation of a replica here, because a leader sent a message to one that does not
    /// exist. The replica is a member as of a log entry.
    pub fn queue_invite(&self, shard: ShardId, membership_epoch: MembershipEpoch) {
        let this = self.this.clone();
        self.context.run_in_background(move || {
            let invited =
                this.upgrade().map_or(Ok(()), |this| this.invite(shard, membership_epoch));
            if let Err(error) = invited {
                tracing::error!(%error, "cannot start a replica of a shard; its leader asks again");
            }
        });
    }

    /// Queues the removal of this node's replica of a shard, as of a log entry.
    pub fn queue_leave(&self, shard: ShardId, since: Index) {
        let this = self.this.clone();
        self.context.run_in_background(move || {
            this.upgrade().iter().for_each(|this| this.leave(shard, since))
        });
    }

    fn invite(&self, shard: ShardId, membership_epoch: MembershipEpoch) -> Result<(), OpenError> {
        // Replicas with records start first: an invitation would drop their records.
        if !self.has_begun.load(Ordering::Acquire) {
            return Ok(());
        }
        // Not under the lock: this waits for steps, and a step may create a replica.
        if !lifecycle::accepts(&self.members(), shard, membership_epoch)? {
            return Ok(());
        }
        let _alone = self.transition.lock();
        if lifecycle::invite(&mut self.members(), shard, membership_epoch)? {
            let (database, since) = (self.router.database().0, membership_epoch.since);
            tracing::info!(database, shard = shard.0, %since, "joins a shard as a replica");
        }
        Ok(())
    }

    /// Ends a replica, and deletes what this node has of the shard. Called again by
    /// [`resume`](Self::resume) after an error.
    fn leave(&self, shard: ShardId, since: Index) {
        let _alone = self.transition.lock();
        if self.router.node().is_closed() {
            return; // The deletion is due again after the next start.
        }
        let database = self.router.database().0;
        let is_retry = self.endings.lock().contains_key(&shard);
        match lifecycle::leave(&mut self.members(), shard, since) {
            Ok(true) => tracing::info!(database, shard = shard.0, %since, "removed from a shard"),
            Ok(false) => {}
            Err(error) => {
                if !is_retry {
                    tracing::error!(database, shard = shard.0, %error, "cannot delete a shard that this node left; trying again");
                }
                self.retry_later();
            }
        }
    }

    fn retry_later(&self) {
        if !self.retries.swap(true, Ordering::AcqRel) {
            let this: Weak<dyn Wake> = self.this.clone();
            let at = crate::clock::boot_ns() + lifecycle::RETRY_NS;
            self.context.resources.timers.wake_at(at, this);
        }
    }

    /// Continues the ends that are under way.
    fn resume(&self) {
        self.retries.store(false, Ordering::Release);
        let endings = self.endings.lock().clone();
        endings.into_iter().for_each(|(shard, ending)| self.leave(shard, ending.since));
    }

    /// Stops the replicas, and gives up the ends that are under way. Returns all of them.
    pub fn close(&self) -> Vec<Arc<MemberShard<P>>> {
        let mut closed = self.router.close();
        let _alone = self.transition.lock(); // Behind a step of an end, which is the last.
        let endings = std::mem::take(&mut *self.endings.lock());
        closed.extend(endings.into_values().map(|ending| ending.ended));
        closed
    }

    /// True if this node will have a replica of the shard, because a local replica's log or store
    /// has the split. Not called within a step, nor while a replica starts: it waits for steps.
    fn expects(&self, child: ShardId) -> bool {
        let (say, heard) = mpsc::channel::<()>();
        let members: Vec<Arc<MemberShard<P>>> = self.router.members();
        for member in &members {
            let say = say.clone();
            member.post(Input::Call(Box::new(move |replica: &mut Shard<P>, _, _| {
                if replica.expects(child) {
                    let _ = say.send(());
                }
            })));
        }
        drop(say);
        // A split that is in no log any more is on its way to the store.
        let ended = self.endings.lock().values().map(|ending| Arc::clone(&ending.ended)).collect();
        let stored =
            |member: &Arc<MemberShard<P>>| member.runtime().shard_store().expects_child(child.0);
        heard.recv().is_ok() || [members, ended].iter().flatten().any(stored)
    }
}

impl<P: Participant> Wake for Lifecycle<P> {
    fn wake(self: Arc<Self>) {
        // On a thread that may wait for the disk.
        let this = self.this.clone();
        let resume = move || this.upgrade().iter().for_each(|this| this.resume());
        self.context.run_in_background(resume);
    }
}

pub(super) fn from_orphaned(
    OrphanedChild { child, bounds, split_origin }: OrphanedChild,
) -> OrphanedSplit {
    (ShardId(child), bounds, split_origin)
}

/// This node's replicas, while the lifecycle starts or ends one of them.
struct NodeMembers<'l, P: Participant> {
    lifecycle: &'l Lifecycle<P>,
    watch: Option<Watch>,
}

impl<P: Participant> MemberHost for NodeMembers<'_, P> {
    type Member = Arc<MemberShard<P>>;
    type Ended = Arc<MemberShard<P>>;
    type Error = OpenError;

    fn has(&self, shard: ShardId) -> bool {
        self.lifecycle.router.member(shard).is_some() || self.lifecycle.router.node().is_closed()
    }

    fn all_nodes(&self) -> Membership {
        Membership::initial(Roster::voters(self.lifecycle.context.members.iter().copied()))
    }

    fn recovered(&self) -> Vec<ShardId> {
        let machines = self.lifecycle.context.records.machines(self.lifecycle.router.database());
        machines.into_iter().map(|key| ShardId(key.shard)).collect()
    }

    fn has_records(&self, shard: ShardId) -> bool {
        self.lifecycle.context.records.has(self.lifecycle.key(shard))
    }

    fn forget_recovered(&mut self, shard: ShardId) {
        self.lifecycle.context.records.take(self.lifecycle.key(shard));
    }

    fn forget_log(&mut self, shard: ShardId) {
        self.lifecycle.context.resources.journal.forget(self.lifecycle.key(shard));
    }

    fn removed(&self, shard: ShardId) -> Result<Option<Index>, OpenError> {
        let (context, key) = (&self.lifecycle.context, self.lifecycle.key(shard));
        let removed = ShardStore::removed(key.database, key.shard, &*context.resources.store);
        Ok(removed.map_err(|error| context.of_store(error))?.map(Index))
    }

    fn expects(&self, shard: ShardId) -> bool {
        self.lifecycle.expects(shard)
    }

    fn parent_knows(&self, parent: ShardId, child: ShardId) -> Option<Option<Membership>> {
        self.lifecycle.router.member(parent).map(|parent| parent.runtime().initial_members(child))
    }

    fn learn_route(&mut self, shard: ShardId, bounds: &KeyRange) {
        self.lifecycle.router.map().learn_route(&bounds.start, bounds.start.clone(), shard);
    }

    fn restore(
        &mut self,
        shard: ShardId,
        bounds: KeyRange,
        origin: Origin,
        eager: bool,
    ) -> Result<Restored<Arc<MemberShard<P>>>, OpenError> {
        let Lifecycle { context, router, .. } = self.lifecycle;
        let key = self.lifecycle.key(shard);
        let records = context.read(P::KIND, &context.records.of(key))?;
        let watch = self.watch.take_if(|_| shard == FIRST_SHARD);
        let (context_of, sessions_of) = (Arc::clone(context), Arc::clone(router));
        let place = MemberSetup {
            key,
            bounds,
            origin,
            eager,
            context: context_of,
            router: sessions_of,
            protocol: self.lifecycle.protocol,
            watch,
        };
        member::restore(place, records).map_err(|error| context.of_store(error))
    }

    fn add(
        &mut self,
        _: ShardId,
        member: Arc<MemberShard<P>>,
    ) -> Result<Vec<(ShardId, KeyRange)>, OpenError> {
        let Lifecycle { context, router, .. } = self.lifecycle;
        let children = member.runtime().shard_store().children();
        let children = children.map_err(|error| context.of_store(error))?;
        router.add(member);
        Ok(children.into_iter().map(|(child, bounds)| (ShardId(child), bounds)).collect())
    }

    fn retry_child(&mut self, parent: ShardId, child: ShardId, bounds: KeyRange) {
        if let Some(parent) = self.lifecycle.router.member(parent) {
            parent.runtime().shard_store().retry_child(child.0, bounds); // The settler retries.
        }
    }

    fn take_out(&mut self, shard: ShardId) -> Option<Arc<MemberShard<P>>> {
        self.lifecycle.router.remove(shard)
    }

    fn ending(&self, shard: ShardId) -> Option<Ending<Arc<MemberShard<P>>>> {
        self.lifecycle.endings.lock().get(&shard).cloned()
    }

    fn keep_ending(&mut self, shard: ShardId, ending: Option<Ending<Arc<MemberShard<P>>>>) {
        let mut endings = self.lifecycle.endings.lock();
        match ending {
            Some(ending) => drop(endings.insert(shard, ending)),
            None => drop(endings.remove(&shard)),
        }
    }

    fn note_removal(&mut self, ended: &Arc<MemberShard<P>>, since: Index) -> Result<(), OpenError> {
        let runtime = ended.runtime();
        let origin = |child| Origin::keep(runtime.initial_members(ShardId(child)).as_ref());
        let noted = runtime.shard_store().leave(since.0, origin);
        noted.map_err(|error| {
            runtime.on_store_error(&error);
            self.lifecycle.context.of_store(error)
        })
    }

    fn orphaned(&self, ended: &Arc<MemberShard<P>>) -> Result<Vec<OrphanedSplit>, OpenError> {
        let left = ended.runtime().shard_store().left();
        let left = left.map_err(|error| self.lifecycle.context.of_store(error))?;
        Ok(left.into_iter().map(from_orphaned).collect())
    }

    fn damaged(&self, Damaged(what): Damaged) -> OpenError {
        self.lifecycle.context.of_store(StoreError::Damaged { file: "the store".to_owned(), what })
    }
}

#[cfg(test)]
mod tests;
