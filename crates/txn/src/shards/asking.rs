//! A request to the leader of a shard, whichever node that is.

use super::{ReplicaId, Request, RequestOutcome, Response, Shards};
use crate::{Failure, Node};
use meridian_machine::{NodeId, ShardId};

/// The time that a coordinator looks for a leader that answers, in nanoseconds.
pub const TIMEOUT_NS: u64 = 10_000_000_000;
/// The time after which a request is resent because it or its response may be lost, in nanoseconds.
pub const ONE_TRY_NS: u64 = 1_000_000_000;
/// The number of unanswered requests after which a connected node is taken not to lead.
pub(crate) const TRIES: u32 = 3;
pub(crate) const PAUSE_NS: u64 = 20_000_000;

/// Sends a request until the shard's leader answers it: to the node that leads as far as is known,
/// and to others if that one does not. A leader where the request waits says so, and may take as
/// long as it needs. `None` if no leader has answered for [`TIMEOUT_NS`], or if the node closes.
///
/// The request is made anew for each try, with a number of its own; so it must be one that may be
/// received twice.
pub(crate) async fn ask_leader<S: Shards>(
    shards: &S,
    shard: ShardId,
    mut request: impl FnMut() -> Request,
) -> Option<(ReplicaId, RequestOutcome)> {
    let node = shards.node();
    let (mut until, mut tries) = (node.boot_ns() + TIMEOUT_NS, 0);
    loop {
        let now = node.boot_ns();
        if now >= until || node.is_closed() {
            return None;
        }
        let replica = ReplicaId { shard, node: shards.map().leader(shard) };
        let heard = match node.reaches(replica.node) {
            true => shards.request(replica, request(), now + ONE_TRY_NS).await,
            false => None,
        };
        match heard {
            Some(RequestOutcome::Waits) => {
                (until, tries) = (node.boot_ns() + TIMEOUT_NS, 0);
                continue;
            }
            Some(RequestOutcome::Response(Response::NotLeader { leader, .. })) => {
                shards.map().redirect(replica, leader.map(NodeId));
            }
            Some(heard) => return Some((replica, heard)),
            None if tries < TRIES && node.reaches(replica.node) => {
                tries += 1;
                continue;
            }
            None => {
                tries = 0;
                shards.map().redirect(replica, None);
            }
        }
        node.sleep_until(node.boot_ns() + PAUSE_NS).await;
    }
}

/// The failure of a request that no leader has answered.
pub(crate) fn unanswered<S: Shards>(shards: &S, shard: ShardId) -> Failure {
    if shards.node().is_closed() {
        return Failure::Unavailable("this node is shutting down: retry once it is back".into());
    }
    let group = shards.describe(shard);
    Failure::Unavailable(format!(
        "no leader of {group} answers: check that a majority of its nodes are up"
    ))
}
