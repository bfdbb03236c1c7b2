//! Administration of groups: membership changes and splits.

use super::{ONE_TRY_NS, PATIENCE_NS, PAUSE_NS, Session};
use crate::locking::{Ask, Heard, Members, Reply, Seat, Site};
use crate::{Failure, Lock, Transaction};
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::Key;
use std::sync::Arc;

impl<S: Site> Session<S> {
    /// Changes the members of each shard, in the order of the shards' keys.
    pub(super) async fn change_members(mut self, members: Members) -> Result<(), Failure> {
        let site = Arc::clone(&self.site);
        let mut next = Some(Key::default());
        while let Some(key) = next {
            // A shard that answers for the key has it, so the route that is known here is correct
            // then.
            self.get(&key, Lock::Shared).await?;
            let (shard, bounds) = site.route(&key);
            self.change_members_of(shard, &members).await?;
            next = bounds.end;
        }
        Ok(())
    }

    async fn change_members_of(&self, shard: ShardId, members: &Members) -> Result<(), Failure> {
        let site = &*self.site;
        let mut until = self.boot_ns() + PATIENCE_NS;
        loop {
            let seat = Seat { shard, node: site.leader(shard) };
            let request = self.request(None, Ask::Members(members.clone()));
            match site.ask(seat, request, self.boot_ns() + ONE_TRY_NS).await {
                Some(Heard::Reply(Reply::Committed { .. })) => return Ok(()),
                Some(Heard::Reply(Reply::Refused { why, .. })) => {
                    return Err(Failure::Refused(why));
                }
                Some(Heard::Reply(Reply::NotLeader { leader, .. })) => {
                    site.heard_of_leader(seat, leader.map(NodeId))
                }
                // Newcomers take as long as it takes to send them a snapshot.
                Some(Heard::Waits) => until = self.boot_ns() + PATIENCE_NS,
                Some(_) => {}
                None => site.heard_of_leader(seat, None),
            }
            if self.boot_ns() >= until || site.is_closed() {
                return Err(self.unavailable(shard));
            }
            site.pause(self.boot_ns() + PAUSE_NS).await;
        }
    }

    /// Splits the shard that has a key.
    pub(super) async fn split(self, at: Key, shard: ShardId) -> Result<(), Failure> {
        let site = Arc::clone(&self.site);
        let until = self.boot_ns() + PATIENCE_NS;
        loop {
            let (old, bounds) = site.route(&at);
            if old == shard || bounds.start == at {
                return Ok(());
            }
            let seat = Seat { shard: old, node: site.leader(old) };
            let request = self.request(None, Ask::Split { at: at.clone(), shard });
            match site.ask(seat, request, self.boot_ns() + ONE_TRY_NS).await {
                Some(Heard::Reply(Reply::Committed { .. })) => {
                    site.learn_route(&at, at.clone(), shard);
                    return Ok(());
                }
                Some(Heard::Reply(Reply::Moved { to: Some((from, other)), .. })) => {
                    site.learn_route(&at, from, other);
                }
                Some(Heard::Reply(Reply::NotLeader { leader, .. })) => {
                    site.heard_of_leader(seat, leader.map(NodeId))
                }
                Some(Heard::Reply(Reply::Refused { why, .. })) => {
                    return Err(Failure::Refused(why));
                }
                Some(_) => {}
                None => site.heard_of_leader(seat, None),
            }
            if self.boot_ns() >= until || site.is_closed() {
                return Err(self.unavailable(old));
            }
            site.pause(self.boot_ns() + PAUSE_NS).await;
        }
    }
}
