//! Administration of groups: membership changes and splits.

use super::{Coordinator, ONE_TRY_NS, PAUSE_NS, TIMEOUT_NS};
use crate::locking::{MemberRoles, ReplicaId, RequestBody, RequestOutcome, Response, Shards};
use crate::{Failure, Lock, Node, Transaction};
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::Key;
use std::sync::Arc;

impl<S: Shards> Coordinator<S> {
    /// Changes the members of each shard, in the order of the shards' keys.
    pub(super) async fn change_members(mut self, members: MemberRoles) -> Result<(), Failure> {
        let shards = Arc::clone(&self.shards);
        let mut next = Some(Key::default());
        while let Some(key) = next {
            // A shard that answers for the key has it, so the route that is known here is correct
            // then.
            self.get(&key, Lock::Shared).await?;
            let (shard, bounds) = shards.map().route(&key);
            self.change_members_of(shard, &members).await?;
            next = bounds.end;
        }
        Ok(())
    }

    async fn change_members_of(
        &self,
        shard: ShardId,
        members: &MemberRoles,
    ) -> Result<(), Failure> {
        let shards = &*self.shards;
        let mut until = self.boot_ns() + TIMEOUT_NS;
        loop {
            let replica = ReplicaId { shard, node: shards.map().leader(shard) };
            let request = self.request(None, RequestBody::Members(members.clone()));
            match shards.request(replica, request, self.boot_ns() + ONE_TRY_NS).await {
                Some(RequestOutcome::Response(Response::Committed { .. })) => return Ok(()),
                Some(RequestOutcome::Response(Response::Refused { why, .. })) => {
                    return Err(Failure::Refused(why));
                }
                Some(RequestOutcome::Response(Response::NotLeader { leader, .. })) => {
                    shards.map().redirect(replica, leader.map(NodeId))
                }
                // Newcomers take as long as it takes to send them a snapshot.
                Some(RequestOutcome::Waits) => until = self.boot_ns() + TIMEOUT_NS,
                Some(_) => {}
                None => shards.map().redirect(replica, None),
            }
            if self.boot_ns() >= until || shards.node().is_closed() {
                return Err(self.unavailable(shard));
            }
            shards.node().sleep_until(self.boot_ns() + PAUSE_NS).await;
        }
    }

    /// Splits the shard that has a key.
    pub(super) async fn split(self, at: Key, shard: ShardId) -> Result<(), Failure> {
        let shards = Arc::clone(&self.shards);
        let until = self.boot_ns() + TIMEOUT_NS;
        loop {
            let (old, bounds) = shards.map().route(&at);
            if old == shard || bounds.start == at {
                return Ok(());
            }
            let replica = ReplicaId { shard: old, node: shards.map().leader(old) };
            let request = self.request(None, RequestBody::Split { at: at.clone(), shard });
            match shards.request(replica, request, self.boot_ns() + ONE_TRY_NS).await {
                Some(RequestOutcome::Response(Response::Committed { .. })) => {
                    shards.map().learn_route(&at, at.clone(), shard);
                    return Ok(());
                }
                Some(RequestOutcome::Response(Response::Moved {
                    to: Some((from, other)), ..
                })) => {
                    shards.map().learn_route(&at, from, other);
                }
                Some(RequestOutcome::Response(Response::NotLeader { leader, .. })) => {
                    shards.map().redirect(replica, leader.map(NodeId))
                }
                Some(RequestOutcome::Response(Response::Refused { why, .. })) => {
                    return Err(Failure::Refused(why));
                }
                Some(_) => {}
                None => shards.map().redirect(replica, None),
            }
            if self.boot_ns() >= until || shards.node().is_closed() {
                return Err(self.unavailable(old));
            }
            shards.node().sleep_until(self.boot_ns() + PAUSE_NS).await;
        }
    }
}
