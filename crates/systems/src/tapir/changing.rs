//! Execution of a change of a database's replicas.
//!
//! ```text
//!   ALTER DATABASE … MEMBERS   row { epoch + 1, replicas, former } in `system`
//!                              ──▶ every node: reconfigures, or starts a new replica, which copies
//!   the node of the session    waits until enough replicas are in the epoch and new ones serve
//!                              row { former: none } ──▶ former replicas remove their state
//! ```
//!
//! The row decides. If the node of the session fails in the middle, the change continues when the
//! statement is repeated. Meanwhile only the former replicas wait.

use super::{Message, client};
use crate::Wire;
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange};
use meridian_txn::Node;

/// The interval between checks whether replicas have taken over, in nanoseconds.
const PAUSE_NS: u64 = 50_000_000;
/// How long to wait for a replica's answer before asking it again, in nanoseconds.
const TRY_NS: u64 = 500_000_000;

/// Waits until enough replicas of these shards are in an epoch, and each new one serves reads: then
/// the former ones are no longer needed. Each shard comes with one of its keys. When the boot clock
/// reaches `until`, an error says what is missing.
pub async fn have_taken_over<W: Wire<Message = Message>>(
    wire: &W,
    shards: &[(ShardId, Key)],
    epoch: u32,
    until: u64,
) -> Result<(), String> {
    let ends = || wire.node().is_closed() || wire.node().boot_ns() >= until;
    let try_ends = || until.min(wire.node().boot_ns() + TRY_NS);
    for (shard, key) in shards {
        let key = KeyRange::point(key.clone());
        loop {
            let at = Timestamp { nanos: wire.node().now().interval.latest, ..Timestamp::ZERO };
            let is_known = wire.members(*shard).epoch >= epoch;
            // A snapshot of the present is served only by enough replicas of the newest epoch known
            // here.
            if is_known
                && client::look(wire, *shard, &key, at, (false, 1), try_ends()).await.is_some()
            {
                break;
            }
            if ends() {
                return Err("too few replicas answer".to_owned());
            }
            wire.node().sleep_until(until.min(wire.node().boot_ns() + PAUSE_NS)).await;
        }
        let members = wire.members(*shard);
        for node in members.replicas.difference(&members.former) {
            while client::read(wire, (*shard, *node), &key, (false, 1), try_ends()).await.is_none()
            {
                if ends() {
                    return Err(format!("the replica on node {} does not answer", node.0));
                }
                wire.node().sleep_until(until.min(wire.node().boot_ns() + PAUSE_NS)).await;
            }
        }
    }
    Ok(())
}
