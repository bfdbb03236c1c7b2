//! How a change of a database's replicas is carried out.
//!
//! ```text
//!   ALTER DATABASE … MEMBERS   row { epoch + 1, replicas, former } in `system` ──▶ every node: reconfigure, or a new replica, which copies
//!   the node that is asked     waits until enough replicas are in the epoch, and each new one serves reads
//!                              row { former: none } ──▶ a node without a replica removes what it had
//! ```
//!
//! The row decides. A change whose node ends in the middle goes on when it is asked for again;
//! nothing waits for that but the former replicas.

use super::{Message, client};
use crate::Wire;
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange};
use meridian_txn::Node;

/// Between two looks whether replicas have taken over.
const PAUSE_NS: u64 = 50_000_000;
/// One that does not answer is asked again after so long.
const TRY_NS: u64 = 500_000_000;

/// Waits until enough replicas of these shards, each with one of its keys, are in an epoch, and
/// each new one serves reads: then the former ones are not needed any more. An error says what is
/// missing when the boot clock reaches `until`.
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
            // A snapshot of the present is served only by enough replicas of the newest epoch that
            // is known here.
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
