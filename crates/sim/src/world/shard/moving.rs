//! Changes of the members of groups, at random times.
//!
//! 1. A node that may be lost for good (`corruption`) is never needed: where members move, at most
//!    one node is corrupted, and at least three of five vote.
//! 2. A change is requested once. A later leader continues it from the log.

use super::{Event, ProtocolEvent, S, World};
use crate::node_process::{self, NodeFailure};
use crate::shard::Leaders;
use crate::sim_protocol::SimProtocol;
use meridian_machine::{Address, Incarnation, NodeId, Role, ShardId};
use meridian_replication::group::Index;
use meridian_systems::shard::lifecycle;
use meridian_systems::shard::{Message, MessageOf, Participant};
use meridian_txn::Age;
use meridian_txn::locking::TransactionId;
use meridian_txn::shards::{MemberRoles, Request, RequestBody};
use rand::Rng;

/// The time from the start within which all membership changes of a run begin.
const WITHIN: u64 = 15 * S;
/// The number of the coordinator that requests membership changes; no session has it.
const NO_SESSION: u64 = u64::MAX - 2;

impl<P: Participant> World<Leaders<P>> {
    /// Draws the number and the times of membership changes.
    pub(super) fn plan_moves(&mut self) {
        let drawn = if self.movers.random_bool(0.3) { self.movers.random_range(1..8) } else { 0 };
        let moves = self.options.moves.unwrap_or(drawn);
        self.moves = moves > 0;
        for _ in 0..moves {
            let after = self.movers.random_range(0..WITHIN);
            self.push(after, None, Event::Of(ProtocolEvent::Move));
        }
    }

    /// Requests a change of the members of a random shard from its leader.
    pub(super) fn move_members(&mut self) {
        let mut leaders: Vec<(usize, ShardId)> = Vec::new();
        for (node, there) in self.nodes.iter().enumerate() {
            let Some(process) = there.process.as_ref().filter(|_| !self.is_stopped(node)) else {
                continue;
            };
            let led = process.members.iter().filter(|(_, member)| member.replica.is_serving());
            leaders.extend(led.map(|(shard, _)| (node, *shard)));
        }
        if leaders.is_empty() || !self.open {
            return self.push(S, None, Event::Of(ProtocolEvent::Move));
        }
        let (node, shard) = leaders[self.movers.random_range(0..leaders.len())];
        let body = self.some_members();
        self.log(|| format!("{} receives {body:?} for shard {}", self.members[node], shard.0));
        *self.changed.entry("members to change").or_default() += 1;
        self.ask_for_members(node, shard, body);
    }

    /// Sends a request for other members to the leader of a shard.
    pub(super) fn ask_for_members(&mut self, node: usize, shard: ShardId, body: RequestBody) {
        let (me, id) = (self.members[node], self.now());
        let transaction = TransactionId { node: me.0, incarnation: 0, number: NO_SESSION };
        let age = Age { began_ns: 0, node: me.0, number: NO_SESSION };
        let request = Request::plain(transaction, age, id, body);
        let role = Role::Coordinator(NO_SESSION);
        let from =
            Address { incarnation: Incarnation(0), role, ..node_process::address(me, shard) };
        self.deliver(node, from, shard, Message::Request(request));
    }

    fn some_members(&mut self) -> RequestBody {
        let all = self.nodes.len();
        let mut nodes = self.members.clone();
        let mut take = |many: usize| -> Vec<NodeId> {
            (0..many).map(|_| nodes.swap_remove(self.movers.random_range(0..nodes.len()))).collect()
        };
        let fewest = if all > 3 { 3 } else { 1 };
        let most = take(all);
        let voters = self.movers.random_range(fewest..=all);
        let learners = self.movers.random_range(voters..=all);
        let (voters, learners) = (most[..voters].to_vec(), most[voters..learners].to_vec());
        // A witness truncates its log after a while, and could not bring the successor of a lost
        // node up.
        let witness =
            voters.len() > 2 && Leaders::<P>::spares(self) == 0 && self.movers.random_bool(0.3);
        let witnesses = if witness { vec![voters[0]] } else { Vec::new() };
        RequestBody::Members(MemberRoles { voters, learners, witnesses })
    }

    /// Creates a member of a shard on a node that the leader addresses and that has none.
    pub(super) fn invite(&mut self, node: usize, shard: ShardId, message: &MessageOf<P>) {
        let Message::Group(said) = message else { return };
        let Some(membership_epoch) = said.invitation() else { return };
        let Some(process) = &mut self.nodes[node].process else { return };
        match process.invite(shard, membership_epoch) {
            Ok(true) => {
                *self.changed.entry("member added").or_default() += 1;
                self.log(|| {
                    format!(
                        "{} is invited to shard {} since {}",
                        self.members[node], shard.0, membership_epoch.since
                    )
                });
                self.perform(node, shard);
            }
            Ok(false) | Err(NodeFailure::Full) => {} // The leader repeats its message.
            Err(why) => self.node_failure(node, "begin a member", why),
        }
    }

    /// Ends the member of a shard on a node, and removes its data. Retries while the disk is full.
    pub(super) fn remove(&mut self, node: usize, shard: ShardId, index: Index) {
        let target = self.target(node);
        let Some(process) = &mut self.nodes[node].process else { return };
        match process.leave(shard, index) {
            Ok(None) => {} // It has ended already.
            Ok(Some(created)) => {
                *self.changed.entry("member removed").or_default() += 1;
                self.log(|| {
                    format!(
                        "{} is no member of shard {} since {index}",
                        self.members[node], shard.0
                    )
                });
                self.created(node, created);
                self.create_children(node);
                self.write(node);
            }
            Err(NodeFailure::Full) => {
                self.log(|| {
                    format!("{} has no room to leave shard {}", self.members[node], shard.0)
                });
                self.push(
                    lifecycle::RETRY_NS,
                    target,
                    Event::Of(ProtocolEvent::Removed { shard, index }),
                )
            }
            Err(why) => self.node_failure(node, "leave a shard", why),
        }
    }
}
