//! Splits of shards at random written keys, at random times.

use super::{Event, Happening, MS, S, World};
use crate::life;
use crate::spanner::Spanner;
use meridian_machine::{Address, Incarnation, Machine, Role, ShardId};
use meridian_mvcc::Key;
use meridian_systems::spanner::Message;
use meridian_txn::Age;
use meridian_txn::locking::{Ask, Request, TransactionId};
use rand::Rng;

/// The time from the start within which all splits of a run begin.
const WITHIN: u64 = 12 * S;
/// The number of the coordinator that requests splits; no session has it.
const NOBODY: u64 = u64::MAX - 1;

impl World<Spanner> {
    /// Draws the number and the times of splits.
    pub(super) fn plan_splits(&mut self) {
        let splits = self.options.splits.unwrap_or_else(|| self.rng.random_range(0..4));
        for number in 1..=splits {
            let after = self.rng.random_range(0..WITHIN);
            self.push(after, None, Event::Of(Happening::Split(number)));
        }
    }

    /// Requests a split from the leader of a random written key, and again later, until there are
    /// more than `wanted` shards.
    pub(super) fn split(&mut self, wanted: u32) {
        let lives = self.nodes.iter().filter_map(|node| node.life.as_ref());
        let shards = lives.map(|life| life.members.len()).max().unwrap_or(0);
        if shards > wanted as usize || !self.open {
            return;
        }
        self.push(3 * S, None, Event::Of(Happening::Split(wanted)));
        // A shard number is used once, whatever becomes of the request.
        self.shards_born += 1;
        let shard = ShardId(self.shards_born);
        let keys: Vec<&Key> = self.installed.values().flatten().map(|write| &write.key).collect();
        if keys.is_empty() {
            return;
        }
        let key = keys[self.rng.random_range(0..keys.len())].clone();
        let mut leaders = Vec::new();
        for (node, life) in self
            .nodes
            .iter()
            .enumerate()
            .filter_map(|(node, there)| Some((node, there.life.as_ref()?)))
        {
            for (led, member) in &life.members {
                let within =
                    member.replica.bounds().contains(&key) && member.replica.bounds().start != key;
                if member.replica.is_serving() && within && !self.is_stopped(node) {
                    leaders.push((node, *led));
                }
            }
        }
        let Some((node, parent)) = leaders.pop() else { return };
        self.tell(|| {
            format!(
                "{} is asked to split {key:?} off shard {} as {}",
                self.members[node], parent.0, shard.0
            )
        });
        let me = self.members[node];
        let transaction = TransactionId { node: me.0, incarnation: 0, number: NOBODY };
        let age = Age { began_ns: 0, node: me.0, number: NOBODY };
        let request =
            Request::plain(transaction, age, u64::from(shard.0), Ask::Split { at: key, shard });
        let from = Address {
            incarnation: Incarnation(0),
            role: Role::Coordinator(NOBODY),
            ..life::address(me, parent)
        };
        self.step(node, parent, |replica, now, out| {
            replica.on_message(now, from, Message::Ask(request), out)
        });
    }

    /// Flushes shards that split, and creates the members of the new shards.
    pub(super) fn bear(&mut self, node: usize) {
        let whom = self.whom(node);
        let Some(life) = &mut self.nodes[node].life else { return };
        for member in life.members.values().filter(|member| member.space.expects()) {
            if let Err(error) = member.space.settle(1 << 16)
                && !matches!(error, meridian_mvcc::StoreError::Full { .. })
            {
                return self.unfit(node, "settle a split", error.into());
            }
        }
        let Some(life) = &mut self.nodes[node].life else { return };
        if life.members.values().any(|member| member.space.expects()) {
            self.push(100 * MS, whom, Event::Of(Happening::Bear)); // No room on disk: retries.
        }
        self.bear_children(node);
    }

    /// Creates the members of the child shards that the node's store knows of.
    pub(super) fn bear_children(&mut self, node: usize) {
        let Some(life) = &mut self.nodes[node].life else { return };
        match life.bear_children() {
            Ok(born) => {
                for shard in born {
                    *self.changed.entry("shard born").or_default() += 1;
                    self.tell(|| {
                        format!("{} has a member of shard {} now", self.members[node], shard.0)
                    });
                    self.perform(node, shard);
                }
            }
            Err(why) => self.unfit(node, "begin a shard's member", why),
        }
    }
}
