//! Changes of the members of groups, at random times.
//!
//! 1. A node that may be lost for good (`injuries`) is never needed: where members move, at most
//!    one node is corrupted, and at least three of five vote.
//! 2. A change is requested once. A later leader continues it from the log.

use super::{Event, Happening, MS, S, World};
use crate::carried::Carried;
use crate::life::{self, Unfit};
use crate::spanner::Spanner;
use meridian_machine::{Address, Incarnation, NodeId, Role, ShardId};
use meridian_replication::group::Index;
use meridian_systems::spanner::Message;
use meridian_txn::Age;
use meridian_txn::locking::{Ask, Members, Request, TransactionId};
use rand::Rng;

/// The time from the start within which all membership changes of a run begin.
const WITHIN: u64 = 15 * S;
/// The number of the coordinator that requests membership changes; no session has it.
const NOBODY: u64 = u64::MAX - 2;

impl World<Spanner> {
    /// Draws the number and the times of membership changes.
    pub(super) fn plan_moves(&mut self) {
        let drawn = if self.movers.random_bool(0.3) { self.movers.random_range(1..8) } else { 0 };
        let moves = self.options.moves.unwrap_or(drawn);
        self.moves = moves > 0;
        for _ in 0..moves {
            let after = self.movers.random_range(0..WITHIN);
            self.push(after, None, Event::Of(Happening::Move));
        }
    }

    /// Requests a change of the members of a random shard from its leader.
    pub(super) fn move_members(&mut self) {
        let mut leaders: Vec<(usize, ShardId)> = Vec::new();
        for (node, there) in self.nodes.iter().enumerate() {
            let Some(life) = there.life.as_ref().filter(|_| !self.is_stopped(node)) else {
                continue;
            };
            let led = life.members.iter().filter(|(_, member)| member.replica.is_serving());
            leaders.extend(led.map(|(shard, _)| (node, *shard)));
        }
        if leaders.is_empty() || !self.open {
            return self.push(S, None, Event::Of(Happening::Move));
        }
        let (node, shard) = leaders[self.movers.random_range(0..leaders.len())];
        let ask = self.some_members();
        self.tell(|| format!("{} receives {ask:?} for shard {}", self.members[node], shard.0));
        *self.changed.entry("members to change").or_default() += 1;
        self.ask_for_members(node, shard, ask);
    }

    /// Sends a request for other members to the leader of a shard.
    pub(super) fn ask_for_members(&mut self, node: usize, shard: ShardId, ask: Ask) {
        let (me, id) = (self.members[node], self.now());
        let transaction = TransactionId { node: me.0, incarnation: 0, number: NOBODY };
        let age = Age { began_ns: 0, node: me.0, number: NOBODY };
        let request = Request::plain(transaction, age, id, ask);
        let role = Role::Coordinator(NOBODY);
        let from = Address { incarnation: Incarnation(0), role, ..life::address(me, shard) };
        self.deliver(node, from, shard, Message::Ask(request));
    }

    fn some_members(&mut self) -> Ask {
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
            voters.len() > 2 && Spanner::spares(self) == 0 && self.movers.random_bool(0.3);
        let witnesses = if witness { vec![voters[0]] } else { Vec::new() };
        Ask::Members(Members { voters, learners, witnesses })
    }

    /// Creates a member of a shard on a node that the leader addresses and that has none.
    pub(super) fn invite(&mut self, node: usize, shard: ShardId, message: &Message) {
        let Message::Group(said) = message else { return };
        let Some(stay) = said.invitation() else { return };
        let Some(life) = &mut self.nodes[node].life else { return };
        match life.invite(shard, stay) {
            Ok(true) => {
                *self.changed.entry("member added").or_default() += 1;
                self.tell(|| {
                    format!(
                        "{} is invited to shard {} since {}",
                        self.members[node], shard.0, stay.since
                    )
                });
                self.perform(node, shard);
            }
            Ok(false) | Err(Unfit::Full) => {} // The leader repeats its message.
            Err(why) => self.unfit(node, "begin a member", why),
        }
    }

    /// Removes the member of a shard, and its data, from a node.
    pub(super) fn remove(&mut self, node: usize, shard: ShardId, index: Index) {
        let whom = self.whom(node);
        let Some(life) = &mut self.nodes[node].life else { return };
        match life::full(life.remove(shard, index)) {
            Ok(false) => {
                *self.changed.entry("member removed").or_default() += 1;
                self.tell(|| {
                    format!(
                        "{} is no member of shard {} since {index}",
                        self.members[node], shard.0
                    )
                });
                self.bear_children(node);
                self.write(node);
            }
            Ok(true) => self.push(100 * MS, whom, Event::Of(Happening::Removed { shard, index })),
            Err(error) => self.unfit(node, "leave a shard", error.into()),
        }
    }
}
