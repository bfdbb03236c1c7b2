//! When this node's members of a database's groups begin and end.
//!
//! ```text
//!   at the start       the first shard's, and what the log and the store have
//!   a split settles    the child's, with the members that the parent's log names
//!   a leader speaks    one that is not here: it was made a member by an entry ──▶ invite
//!   an entry removes   this node ──▶ leave: what it has of the shard goes, except for children that it keeps
//! ```
//!
//! Members begin and end one after the other.

use super::member::{self, Begun, MemberShard, Place};
use super::sessions::Sessions;
use crate::context::NodeContext;
use crate::database::Watch;
use crate::identity::OpenError;
use crate::resident::Input;
use meridian_log::MachineKey;
use meridian_machine::ShardId;
use meridian_mvcc::{KeyRange, StoreError};
use meridian_placement::{DatabaseRow, FIRST_SHARD, keys_untold};
use meridian_replication::group::{Index, Membership, Roster, Stay};
use meridian_store::{Left, Space};
use meridian_systems::spanner::{Damaged, KIND, Origin, Replica};
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

    /// Brings to life the members that this node has of the database's groups.
    pub fn begin(&self, watch: Option<Watch>) -> Result<(), OpenError> {
        let _alone = self.bearing.lock();
        let placed = Origin::Placed(Box::new(self.all_nodes()));
        self.bear((FIRST_SHARD, KeyRange::all()), placed, false, watch)?;
        // Those whose parents have no member here.
        let machines = self.context.records.machines(self.sessions.database());
        machines
            .into_iter()
            .map(|key| ShardId(key.shard))
            .try_for_each(|shard| self.bear((shard, keys_untold(shard)), Origin::Remembered, false, None))
    }

    /// The database's sessions on this node.
    pub fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    fn key(&self, shard: ShardId) -> MachineKey {
        MachineKey { database: self.sessions.database().0, shard: shard.0 }
    }

    fn all_nodes(&self) -> Membership {
        Membership::at_birth(Roster::voters(self.context.members.iter().copied()))
    }

    /// A shard with these keys was split off from another, and is in the store: its member comes to life, and stands for
    /// election at once if it is eager. False if that has to be tried again.
    pub fn bear_split(&self, parent: ShardId, child: (ShardId, KeyRange), eager: bool) -> bool {
        let _alone = self.bearing.lock();
        let begun = self.bear_child(parent, child, eager);
        if let Err(error) = &begun {
            tracing::error!(%error, "a shard that was split off cannot be begun on this node; trying again");
        }
        begun.is_ok()
    }

    /// Queues that this node becomes a member, since an entry: a leader has spoken to a member that is not here.
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
        self.context.run_in_background(move || this.upgrade().iter().for_each(|this| this.leave(shard, since)));
    }

    /// Begins a member, unless this node was one and was removed later.
    fn invite(&self, shard: ShardId, stay: Stay) -> Result<(), OpenError> {
        let (context, key, since) = (&self.context, self.key(shard), stay.since);
        if self.sessions.member(shard).is_some() || self.sessions.is_closed() {
            return Ok(()); // It was asked for twice, or the database ends.
        }
        let removed = Space::removed(key.database, key.shard, &*context.plumbing.store);
        let removed = removed.map_err(|error| context.of_store(error))?;
        if removed.is_some_and(|removed| removed >= since.0) {
            return Ok(());
        }
        if since == Index(0) && self.expects(shard) {
            return Ok(()); // With it come the rows that it began with.
        }
        let _alone = self.bearing.lock();
        if context.records.has(key) {
            if since == Index(0) {
                return Ok(()); // It has been one since the shard's birth, of which it will read in its parent's log.
            }
            // What the log has is of an earlier stay, which has ended.
            context.records.take(key);
            context.plumbing.journal.forget(key);
        }
        tracing::info!(database = key.database, shard = shard.0, %since, "becomes a member of a shard");
        self.bear((shard, keys_untold(shard)), Origin::Invited(stay), false, None)
    }

    /// Ends a member, and removes what this node has of the shard.
    fn leave(&self, shard: ShardId, since: Index) {
        let Some(member) = self.sessions.remove(shard) else { return };
        let key = self.key(shard);
        tracing::info!(database = key.database, shard = shard.0, %since, "is no member of a shard any more");
        let _alone = self.bearing.lock();
        let (world, space) = (member.world(), member.world().space());
        while let Err(error) =
            space.leave(since.0, |child| Origin::keep(world.members_at_birth(ShardId(child)).as_ref()))
        {
            tracing::error!(%error, "what this node has of a shard cannot be removed; trying again");
            member.world().heed(&error);
            if self.sessions.is_closed() {
                return; // The next life hears of it again.
            }
            std::thread::sleep(AGAIN);
        }
        let left = space.left().map_err(|error| self.context.of_store(error));
        if let Err(error) = left.and_then(|left| self.bear_left(left)) {
            tracing::error!(%error, "a shard that was split off cannot be begun on this node before its next start");
        }
        self.context.plumbing.journal.forget(key);
    }

    /// Brings a shard's member to life, if this node has one, and those that were split off from it.
    fn bear(
        &self,
        (shard, bounds): (ShardId, KeyRange),
        origin: Origin,
        eager: bool,
        watch: Option<Watch>,
    ) -> Result<(), OpenError> {
        let (context, key) = (&self.context, self.key(shard));
        if self.sessions.member(shard).is_some() || self.sessions.is_closed() {
            return Ok(());
        }
        let kept = context.records.of(key);
        let records = context.read(KIND, &kept)?;
        let sessions = Arc::clone(&self.sessions);
        let place = Place { key, bounds, origin, eager, context: Arc::clone(context), sessions, watch };
        let of_store = |error| context.of_store(error);
        let Begun { member, removed, left } = member::begin(place, records).map_err(of_store)?;
        // Of one that is not known to be a member nothing is forgotten that it voted and promised: its parent's copy may
        // yet say that it was born here.
        if member.is_some() || removed {
            context.records.take(key);
        }
        self.bear_left(left)?;
        let Some(member) = member else {
            if removed && !kept.is_empty() {
                context.plumbing.journal.forget(key);
            }
            return Ok(());
        };
        let children = member.world().space().children().map_err(of_store)?;
        self.sessions.add(member);
        let mut children = children.into_iter();
        children.try_for_each(|(child, bounds)| self.bear_child(shard, (ShardId(child), bounds), false))
    }

    /// Begins the member of a shard that was split off from one of which this node has a member.
    fn bear_child(&self, parent: ShardId, (child, bounds): (ShardId, KeyRange), eager: bool) -> Result<(), OpenError> {
        self.sessions.learn_route(&bounds.start, bounds.start.clone(), child);
        // A node that leaves the parent is told of what it leaves.
        let Some(parent) = self.sessions.member(parent) else { return Ok(()) };
        let members = parent.world().members_at_birth(child);
        let origin = Origin::Born(Box::new(members.unwrap_or_else(|| self.all_nodes())));
        self.bear((child, bounds), origin, eager, None)
    }

    /// Begins the members of shards that were split off before this node was removed from their parent.
    fn bear_left(&self, left: Vec<Left>) -> Result<(), OpenError> {
        left.into_iter().try_for_each(|Left { child, bounds, birth }| {
            let damaged = |Damaged(what)| StoreError::Damaged { file: "the store".to_owned(), what };
            let origin = Origin::kept(&birth).map_err(|error| self.context.of_store(damaged(error)))?;
            self.bear((ShardId(child), bounds), origin, false, None)
        })
    }

    /// Whether a shard is to be born on this node, as the log of a member says or its space. Not within a step, nor while
    /// a member is being begun: it waits for steps.
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
        heard.recv().is_ok() || members.iter().any(|member| member.world().space().expects_child(child.0))
    }
}
