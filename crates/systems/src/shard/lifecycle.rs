//! Starting and ending a node's members of a database's shards.
//!
//! ```text
//!   node starts              the first shard's member, and those in the log and the store
//!   a split is stored        the child's member, with the members that the parent's log names
//!   a leader's message for a member that is missing: a log entry added it ──▶ invite
//!   a log entry removed this node ──▶ leave: the member is taken out
//!                                         ──▶ the store notes the removal, keeps the children
//!                                         ──▶ the children's members start
//!                                         ──▶ the log's records are removed
//! ```
//!
//! The decisions are made here, once. A node and the simulator carry them out ([`MemberHost`]).
//!
//! A step may fail because the disk is full. Then the caller calls the function again after
//! [`RETRY_NS`], and it continues with the step that failed. Nothing else of the node waits
//! meanwhile.
//!
//! Invariants:
//! 1. The log records of a member are kept even if the node does not know that it is a member: its
//!    votes and promises count, and a copy of its parent may yet say that it was created here.
//! 2. A removed member starts again only by a later entry than that of its removal.
//! 3. Shards that were split off before this node was removed from their parent start before the
//!    parent's own member, and before the log records of an ended member are removed.
//! 4. A shard has no member while the end of its last one is under way: before the store has noted
//!    the removal, an earlier entry could start it again.

use super::{Damaged, Origin};
use meridian_machine::ShardId;
use meridian_mvcc::KeyRange;
use meridian_placement::{FIRST_SHARD, keys_without_route};
use meridian_replication::group::{Index, Membership, MembershipEpoch};
use std::collections::BTreeMap;

/// Time after which a step that failed on a full disk is tried again, in nanoseconds.
pub const RETRY_NS: u64 = 100_000_000;

/// A shard that was split off while this node was a member of its parent: the shard, its keys, and
/// the encoded origin ([`Origin::keep`]).
pub type OrphanedSplit = (ShardId, KeyRange, Vec<u8>);

/// A node's state of a shard, ready to start.
#[derive(Debug)]
pub struct Restored<M> {
    /// The member. `None` if this node is not a member, was removed, or does not know yet that it
    /// is one.
    pub member: Option<M>,
    /// True if this node was a member and was removed.
    pub ended: bool,
    /// Shards that were split off before this node was removed.
    pub left: Vec<OrphanedSplit>,
}

/// The end of a member that is under way.
#[derive(Clone, Debug)]
pub struct Ending<E> {
    /// The entry that removed the node.
    pub since: Index,
    /// The member.
    pub ended: E,
    /// True once the store has noted the removal.
    noted: bool,
}

/// The ends that are under way on a node.
pub type Endings<E> = BTreeMap<ShardId, Ending<E>>;

/// Operations that the lifecycle requires of a node or of the simulator.
pub trait MemberHost {
    /// A member that is not yet added to the node.
    type Member;
    /// A member that was taken out of the node.
    type Ended: Clone;
    /// The reason why a member cannot start or end.
    type Error;
    /// True if the node has a member of a shard, or starts no more because the database is closing.
    fn has(&self, shard: ShardId) -> bool;
    /// The members of a database's groups at its creation.
    fn all_nodes(&self) -> Membership;
    /// The shards with member records in the log that have not started since the node did.
    fn recovered(&self) -> Vec<ShardId>;
    /// True if the log has records of a member that has not started since the node did.
    fn has_records(&self, shard: ShardId) -> bool;
    /// Drops the recovered records of a member that has not started.
    fn forget_recovered(&mut self, shard: ShardId);
    /// Removes a shard's records from the log.
    fn forget_log(&mut self, shard: ShardId);
    /// Returns the entry that removed this node from a shard, if the store has noted one.
    fn removed(&self, shard: ShardId) -> Result<Option<Index>, Self::Error>;
    /// True if a shard is to be created on this node, according to a member's log, or to the store
    /// of a member or of one whose end is under way.
    fn expects(&self, shard: ShardId) -> bool;
    /// Returns `None` if the node does not have a shard's parent; otherwise the child's members at
    /// its creation, as far as the parent knows.
    fn parent_knows(&self, parent: ShardId, child: ShardId) -> Option<Option<Membership>>;
    /// Adds a shard's keys to the routes.
    fn learn_route(&mut self, shard: ShardId, bounds: &KeyRange);
    /// Restores a member from the log and the store, if this node is one. If `eager`, it stands for
    /// election at once.
    fn restore(
        &mut self,
        shard: ShardId,
        bounds: KeyRange,
        origin: Origin,
        eager: bool,
    ) -> Result<Restored<Self::Member>, Self::Error>;
    /// Adds a member to the node. Returns the shards that were split off from its shard, with their
    /// keys.
    fn add(
        &mut self,
        shard: ShardId,
        member: Self::Member,
    ) -> Result<Vec<(ShardId, KeyRange)>, Self::Error>;
    /// Notes that a shard, which was split off from a member's shard, has to be started again.
    fn retry_child(&mut self, parent: ShardId, child: ShardId, bounds: KeyRange);
    /// Takes a shard's member out of the node: it takes no step any more, and receives no message.
    fn take_out(&mut self, shard: ShardId) -> Option<Self::Ended>;
    /// Returns the end of a shard's member that is under way, if there is one.
    fn ending(&self, shard: ShardId) -> Option<Ending<Self::Ended>>;
    /// Keeps the end of a shard's member that is under way; `None` if it is complete.
    fn keep_ending(&mut self, shard: ShardId, ending: Option<Ending<Self::Ended>>);
    /// Has the store note, durably, that an entry removed this node from an ended member's shard.
    /// The store deletes the shard, and keeps those that were split off from it.
    fn note_removal(&mut self, ended: &Self::Ended, since: Index) -> Result<(), Self::Error>;
    /// Returns the shards that were split off from an ended member's shard before the removal.
    fn orphaned(&self, ended: &Self::Ended) -> Result<Vec<OrphanedSplit>, Self::Error>;
    /// Makes an error: the stored origin of a shard cannot be read.
    fn damaged(&self, what: Damaged) -> Self::Error;
}

/// True if the node has a member of a shard, or had one whose end is under way.
fn is_taken<M: MemberHost>(members: &M, shard: ShardId) -> bool {
    members.has(shard) || members.ending(shard).is_some()
}

/// Tries all of them, and returns the first error.
fn each<T, E>(
    all: impl IntoIterator<Item = T>,
    start: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    all.into_iter().map(start).fold(Ok(()), Result::and)
}

/// Starts the members that a node has at its start: the first shard's, unless `placed`, and those
/// with records in the log. Called again after an error, it starts those that are missing.
pub fn start<M: MemberHost>(members: &mut M, placed: bool) -> Result<(), M::Error> {
    if !placed {
        let origin = Origin::Placed(Box::new(members.all_nodes()));
        begin(members, FIRST_SHARD, KeyRange::all(), origin, false)?;
    }
    // Members of shards whose parents have no member here.
    members.recovered().into_iter().try_for_each(|shard| recall(members, shard))
}

fn recall<M: MemberHost>(members: &mut M, shard: ShardId) -> Result<(), M::Error> {
    begin(members, shard, keys_without_route(shard), Origin::Remembered, false)
}

/// Starts a shard's member, if this node has one, and the members of shards that were split off
/// from it.
pub fn begin<M: MemberHost>(
    members: &mut M,
    shard: ShardId,
    bounds: KeyRange,
    origin: Origin,
    eager: bool,
) -> Result<(), M::Error> {
    if is_taken(members, shard) {
        return Ok(());
    }
    let Restored { member, ended, left } = members.restore(shard, bounds, origin, eager)?;
    // These come first, so that a failure is retried together with this member.
    begin_orphaned(members, left)?;
    let Some(member) = member else {
        if ended && members.has_records(shard) {
            members.forget_recovered(shard);
            members.forget_log(shard);
        }
        return Ok(());
    };
    let children = members.add(shard, member)?;
    members.forget_recovered(shard);
    begin_children(members, shard, children, false)
}

/// Starts the members of stored shards that were split off from a shard which this node has. Those
/// that cannot start are reported again ([`MemberHost::retry_child`]). A node that has left the
/// parent finds the shards among its orphaned children instead.
pub fn begin_children<M: MemberHost>(
    members: &mut M,
    parent: ShardId,
    children: Vec<(ShardId, KeyRange)>,
    eager: bool,
) -> Result<(), M::Error> {
    each(children, |(child, bounds)| {
        begin_child(members, parent, child, bounds.clone(), eager)
            .inspect_err(|_| members.retry_child(parent, child, bounds))
    })
}

fn begin_child<M: MemberHost>(
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

/// Starts the members of shards that were split off before this node was removed from their parent.
fn begin_orphaned<M: MemberHost>(
    members: &mut M,
    left: Vec<OrphanedSplit>,
) -> Result<(), M::Error> {
    each(left, |(child, bounds, split_origin)| {
        let origin = Origin::recovered(&split_origin).map_err(|what| members.damaged(what))?;
        begin(members, child, bounds, origin, false)
    })
}

/// True if a leader's message to a missing member, which an entry added, is to start the member:
/// the entry is later than the node's last removal, and the shard is not about to be created here
/// by a split.
///
/// It looks at members, which may be within a step. Do not call it under a lock that a step takes.
pub fn accepts<M: MemberHost>(
    members: &M,
    shard: ShardId,
    membership_epoch: MembershipEpoch,
) -> Result<bool, M::Error> {
    let since = membership_epoch.since;
    if is_taken(members, shard) || members.removed(shard)?.is_some_and(|removed| removed >= since) {
        return Ok(false);
    }
    // A split brings the rows with which the shard begins.
    Ok(since > Index(0) || !members.expects(shard))
}

/// Starts the member that a leader's message is for, if [`accepts`] allows it. True if it starts.
pub fn invite<M: MemberHost>(
    members: &mut M,
    shard: ShardId,
    membership_epoch: MembershipEpoch,
) -> Result<bool, M::Error> {
    if is_taken(members, shard) {
        return Ok(false);
    }
    if members.has_records(shard) {
        if membership_epoch.since == Index(0) {
            // It has been a member since the shard's creation, which it will read in the parent's
            // log.
            return Ok(false);
        }
        // The log's records are of an earlier membership epoch, which has ended.
        members.forget_recovered(shard);
        members.forget_log(shard);
    }
    begin(members, shard, keys_without_route(shard), Origin::Invited(membership_epoch), false)?;
    Ok(true)
}

/// Ends this node's member of a shard, which an entry has removed from the group. Called again
/// after an error, it continues with the step that failed. True if this call completes the end.
pub fn leave<M: MemberHost>(
    members: &mut M,
    shard: ShardId,
    since: Index,
) -> Result<bool, M::Error> {
    if let Some(ended) = members.take_out(shard) {
        members.keep_ending(shard, Some(Ending { since, ended, noted: false }));
    }
    let Some(mut ending) = members.ending(shard) else { return Ok(false) };
    if !ending.noted {
        // A member whose adding was never agreed may end as of an entry before its last removal.
        let removed = members.removed(shard)?.unwrap_or_default();
        members.note_removal(&ending.ended, ending.since.max(removed))?;
        ending.noted = true;
        members.keep_ending(shard, Some(ending.clone()));
    }
    let orphaned = members.orphaned(&ending.ended)?;
    begin_orphaned(members, orphaned)?;
    // Last: after a restart, these records lead to the shard's orphaned children.
    members.forget_log(shard);
    members.keep_ending(shard, None);
    Ok(true)
}
