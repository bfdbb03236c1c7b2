//! When a node's members of a database's shards begin.
//!
//! ```text
//!   at the start       the first shard's, and what the log and the store have
//!   a split settles    the child's, with the members that the parent's log names
//!   a leader speaks    to one that is not here: it was made a member by an entry ──▶ invite
//! ```
//!
//! The decisions are here, once. A node and a world carry them out ([`Members`]).
//!
//! Invariants:
//! 1. Records of a member that is not known to be one are not forgotten: what it voted and promised
//!    counts, and its parent's copy may yet say that it was born here.
//! 2. A member of a shard that was removed begins again only by a later entry than that of its
//!    removal.
//! 3. What was split off from a shard before this node was removed from it begins before the
//!    shard's own member, and before what the log has of one that has ended is forgotten.

use super::{Damaged, Origin};
use meridian_machine::ShardId;
use meridian_mvcc::KeyRange;
use meridian_placement::{FIRST_SHARD, keys_untold};
use meridian_replication::group::{Index, Membership, Stay};

/// A shard that was split off from another while this node was a member of that one: its keys, and
/// how it was born.
pub type LeftChild = (ShardId, KeyRange, Vec<u8>);

/// What a node has of a shard, ready to begin.
#[derive(Debug)]
pub struct Restored<M> {
    /// The member. None if this node is no member of the shard, or no more, or does not know yet
    /// that it is one.
    pub member: Option<M>,
    /// Whether it was one, and was removed.
    pub ended: bool,
    /// Shards that were split off from it before this node was removed from it.
    pub left: Vec<LeftChild>,
}

/// What a lifecycle requires of a node, or of a node of a world.
pub trait Members {
    /// A member that is not one of the node's yet.
    type Member;
    /// Why a member cannot begin.
    type Error;
    /// Whether the node has a member of a shard, or begins none any more because the database ends.
    fn has(&self, shard: ShardId) -> bool;
    /// The members of a database's groups at its creation.
    fn all_nodes(&self) -> Membership;
    /// Shards of whose members the log has records, that have not begun in this life.
    fn recovered(&self) -> Vec<ShardId>;
    /// Whether the log has records of a member that has not begun in this life.
    fn has_records(&self, shard: ShardId) -> bool;
    /// Forgets what the log had of a member that has not begun in this life.
    fn forget_recovered(&mut self, shard: ShardId);
    /// Removes what the log has of a shard.
    fn forget_log(&mut self, shard: ShardId);
    /// The entry by which this node was removed from a shard, if it was, as the store has noted.
    fn removed(&self, shard: ShardId) -> Result<Option<Index>, Self::Error>;
    /// Whether a shard is to be born on this node, as the log of a member says or its store.
    fn expects(&self, shard: ShardId) -> bool;
    /// Whether the node has the parent of a shard; and the members at the shard's birth, as far as
    /// the parent knows.
    fn parent_knows(&self, parent: ShardId, child: ShardId) -> Option<Option<Membership>>;
    /// Adds a shard's keys to the routes.
    fn learn_route(&mut self, shard: ShardId, bounds: &KeyRange);
    /// Makes a member with what the log and the store have of it, if it is one. An eager one stands
    /// for election at once.
    fn restore(
        &mut self,
        shard: ShardId,
        bounds: KeyRange,
        origin: Origin,
        eager: bool,
    ) -> Result<Restored<Self::Member>, Self::Error>;
    /// Adds a member to the node's. Returns the shards that were split off from its shard, and
    /// their keys.
    fn add(
        &mut self,
        shard: ShardId,
        member: Self::Member,
    ) -> Result<Vec<(ShardId, KeyRange)>, Self::Error>;
    /// What the store has of a shard's birth cannot be read.
    fn damaged(&self, what: Damaged) -> Self::Error;
}

/// Begins the members that a node has when it starts: of the first shard, unless its members are
/// `placed` otherwise, and of those of which the log has something.
pub fn start<M: Members>(members: &mut M, placed: bool) -> Result<(), M::Error> {
    if !placed {
        let origin = Origin::Placed(Box::new(members.all_nodes()));
        begin(members, FIRST_SHARD, KeyRange::all(), origin, false)?;
    }
    // Those whose parents have no member here.
    members.recovered().into_iter().try_for_each(|shard| recall(members, shard))
}

fn recall<M: Members>(members: &mut M, shard: ShardId) -> Result<(), M::Error> {
    begin(members, shard, keys_untold(shard), Origin::Remembered, false)
}

/// Begins a shard's member, if this node has one, and those of shards that were split off from it.
pub fn begin<M: Members>(
    members: &mut M,
    shard: ShardId,
    bounds: KeyRange,
    origin: Origin,
    eager: bool,
) -> Result<(), M::Error> {
    if members.has(shard) {
        return Ok(());
    }
    let Restored { member, ended, left } = members.restore(shard, bounds, origin, eager)?;
    // First, so that what fails is tried again with this member.
    begin_left(members, left)?;
    let Some(member) = member else {
        if ended && members.has_records(shard) {
            members.forget_recovered(shard);
            members.forget_log(shard);
        }
        return Ok(());
    };
    let children = members.add(shard, member)?;
    members.forget_recovered(shard);
    children
        .into_iter()
        .try_for_each(|(child, bounds)| begin_child(members, shard, child, bounds, false))
}

/// Begins the member of a shard that was split off from one of which this node has a member, and is
/// in the store. A node that leaves the parent hears of the shard by what it leaves.
pub fn begin_child<M: Members>(
    members: &mut M,
    parent: ShardId,
    child: ShardId,
    bounds: KeyRange,
    eager: bool,
) -> Result<(), M::Error> {
    members.learn_route(child, &bounds);
    let Some(known) = members.parent_knows(parent, child) else { return Ok(()) };
    let origin = Origin::Born(Box::new(known.unwrap_or_else(|| members.all_nodes())));
    begin(members, child, bounds, origin, eager)
}

/// Begins the members of shards that were split off from one before this node was removed from it.
pub fn begin_left<M: Members>(members: &mut M, left: Vec<LeftChild>) -> Result<(), M::Error> {
    left.into_iter().try_for_each(|(child, bounds, birth)| {
        let origin = Origin::kept(&birth).map_err(|what| members.damaged(what))?;
        begin(members, child, bounds, origin, false)
    })
}

/// Whether a leader that speaks to a member that is not here, since an entry, is to be heard: the
/// member was added after this node was removed last, and its shard is not to be born here.
///
/// It looks at members, which may be within a step: not to be called under a lock that a step
/// takes.
pub fn heeds<M: Members>(members: &M, shard: ShardId, stay: Stay) -> Result<bool, M::Error> {
    let since = stay.since;
    if members.has(shard) || members.removed(shard)?.is_some_and(|removed| removed >= since) {
        return Ok(false);
    }
    // With a birth come the rows that the shard began with.
    Ok(since > Index(0) || !members.expects(shard))
}

/// Begins the member that a leader speaks to, since an entry, where that is to be [heard](heeds).
/// Returns whether it begins.
pub fn invite<M: Members>(members: &mut M, shard: ShardId, stay: Stay) -> Result<bool, M::Error> {
    if members.has(shard) {
        return Ok(false);
    }
    if members.has_records(shard) {
        if stay.since == Index(0) {
            // It has been one since the shard's birth, of which it will read in its parent's log.
            return Ok(false);
        }
        // What the log has is of an earlier stay, which has ended.
        members.forget_recovered(shard);
        members.forget_log(shard);
    }
    begin(members, shard, keys_untold(shard), Origin::Invited(stay), false)?;
    Ok(true)
}
