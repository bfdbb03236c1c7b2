//! Snapshots at timestamps of the database's authority (conventional snapshot isolation, the
//! baseline of Clock-SI §II and §V): one round trip to the leader of the first shard.

use super::order::check_token;
use super::{Coordinator, ONE_TRY_NS, PAUSE_NS, TIMEOUT_NS, TRIES, TxnClient};
use crate::shards;
use crate::shards::{ReplicaId, RequestBody, RequestOutcome, Response, Shards};
use crate::snapshot::rules;
use crate::{Begin, Failure, Mode, Node, ReadAt};
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::{Health, ShardId, sometimes};
use std::sync::Arc;

/// The shard whose leader is the authority.
const OF_AUTHORITY: ShardId = ShardId(0);

impl<S: Shards> TxnClient<S> {
    /// True if the authority chooses a transaction's snapshot: that of one that reads the present,
    /// or, where this node has nothing as new, a past that may be newer.
    pub(super) fn asks_authority(&self, how: &Begin) -> bool {
        self.authority
            && !broken(rules::AUTHORITY_NOT_ASKED)
            && match how.mode {
                Mode::ReadOnly(ReadAt::Now) => true,
                Mode::ReadOnly(ReadAt::AtLeast(at)) => {
                    shards::closed(&*self.shards) < at.max(how.token)
                }
                Mode::ReadOnly(ReadAt::Exact(_)) | Mode::ReadWrite => false,
            }
    }

    /// Begins a transaction whose snapshot the authority chooses, once it reads.
    pub(super) fn begin_at_authority(&self, how: Begin) -> Result<Box<Coordinator<S>>, Failure> {
        let now = self.shards.node().now();
        let least = match how.mode {
            Mode::ReadOnly(ReadAt::AtLeast(at)) => at,
            _ => Timestamp::ZERO,
        };
        let mut coordinator = Box::new(self.coordinator(how, now.interval, None));
        let token = coordinator.order.token();
        if now.health == Health::Good {
            check_token(token, now.interval)?;
        }
        if least.nanos > now.interval.latest.max(token.nanos) {
            return Err(Failure::InFuture { now: now.interval });
        }
        // The authority adopts the token, which is another one's if it was not the authority's.
        coordinator.authority = Some(token.max(least));
        Ok(coordinator)
    }
}

impl<S: Shards> Coordinator<S> {
    /// Asks the authority for the snapshot's timestamp, before the first read; one that writes and
    /// has read nothing, at its commit. Does nothing if the timestamp is chosen, or is not the
    /// authority's to choose.
    pub(crate) async fn choose_snapshot(&mut self) -> Result<(), Failure> {
        if let Some(least) = self.authority.filter(|_| self.read_at.is_none()) {
            self.read_at = Some(self.ask_authority().await?.max(least));
        }
        Ok(())
    }

    /// Asks the authority for a timestamp.
    async fn ask_authority(&mut self) -> Result<Timestamp, Failure> {
        let shards = Arc::clone(&self.shards);
        let (until, mut tries) = (self.boot_ns() + TIMEOUT_NS, 0);
        loop {
            let now = self.boot_ns();
            if now >= until || shards.node().is_closed() {
                return Err(self.unavailable(OF_AUTHORITY));
            }
            let replica =
                ReplicaId { shard: OF_AUTHORITY, node: shards.map().leader(OF_AUTHORITY) };
            let request = self.request(None, RequestBody::SnapshotTimestamp);
            let heard = if shards.node().reaches(replica.node) {
                shards.request(replica, request, now + ONE_TRY_NS).await
            } else {
                None
            };
            match heard {
                Some(RequestOutcome::Response(Response::SnapshotTimestamp { at, .. })) => {
                    return Ok(at);
                }
                Some(RequestOutcome::Response(Response::Refused { why, .. })) => {
                    return Err(Failure::Refused(why));
                }
                Some(RequestOutcome::Response(Response::NotLeader { leader, .. })) => {
                    sometimes!("a session looks for the authority");
                    self.lost_leader(replica, leader)?;
                    shards.node().sleep_until(self.boot_ns() + PAUSE_NS).await;
                }
                None if tries < TRIES && shards.node().reaches(replica.node) => tries += 1,
                Some(_) | None => {
                    tries = 0;
                    self.lost_leader(replica, None)?;
                    shards.node().sleep_until(self.boot_ns() + PAUSE_NS).await;
                }
            }
        }
    }
}
