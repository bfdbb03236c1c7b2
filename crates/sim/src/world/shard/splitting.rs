//! Splits of shards at random written keys, at random times.

use super::{Event, ProtocolEvent, S, World};
use crate::node_process;
use crate::shard::Leaders;
use meridian_machine::{Address, Incarnation, Machine, Role, ShardId};
use meridian_mvcc::Key;
use meridian_systems::shard::lifecycle;
use meridian_systems::shard::{Message, Participant};
use meridian_txn::Age;
use meridian_txn::locking::TransactionId;
use meridian_txn::shards::{Request, RequestBody};
use rand::Rng;

/// The time from the start within which all splits of a run begin.
const WITHIN: u64 = 12 * S;
/// The number of the coordinator that requests splits; no session has it.
const NO_SESSION: u64 = u64::MAX - 1;

impl<P: Participant> World<Leaders<P>> {
    /// Draws the number and the times of splits.
    pub(super) fn plan_splits(&mut self) {
        let splits = self.options.splits.unwrap_or_else(|| self.rng.random_range(0..4));
        for number in 1..=splits {
            let after = self.rng.random_range(0..WITHIN);
            self.push(after, None, Event::Of(ProtocolEvent::Split(number)));
        }
    }

    /// Requests a split from the leader of a random written key, and again later, until there are
    /// more than `wanted` shards.
    pub(super) fn split(&mut self, wanted: u32) {
        let lives = self.nodes.iter().filter_map(|node| node.process.as_ref());
        let shards = lives.map(|process| process.members.len()).max().unwrap_or(0);
        if shards > wanted as usize || !self.open {
            return;
        }
        self.push(3 * S, None, Event::Of(ProtocolEvent::Split(wanted)));
        // A shard number is used once, whatever becomes of the request.
        self.shards_born += 1;
        let shard = ShardId(self.shards_born);
        let keys: Vec<&Key> = self.installed.values().flatten().map(|write| &write.key).collect();
        if keys.is_empty() {
            return;
        }
        let key = keys[self.rng.random_range(0..keys.len())].clone();
        let mut leaders = Vec::new();
        for (node, process) in self
            .nodes
            .iter()
            .enumerate()
            .filter_map(|(node, there)| Some((node, there.process.as_ref()?)))
        {
            for (led, member) in &process.members {
                let within =
                    member.replica.bounds().contains(&key) && member.replica.bounds().start != key;
                if member.replica.is_serving() && within && !self.is_stopped(node) {
                    leaders.push((node, *led));
                }
            }
        }
        let Some((node, parent)) = leaders.pop() else { return };
        self.log(|| {
            format!(
                "{} is asked to split {key:?} off shard {} as {}",
                self.members[node], parent.0, shard.0
            )
        });
        let me = self.members[node];
        let transaction = TransactionId { node: me.0, incarnation: 0, number: NO_SESSION };
        let age = Age { began_ns: 0, node: me.0, number: NO_SESSION };
        let request = Request::plain(
            transaction,
            age,
            u64::from(shard.0),
            RequestBody::Split { at: key, shard },
        );
        let from = Address {
            incarnation: Incarnation(0),
            role: Role::Coordinator(NO_SESSION),
            ..node_process::address(me, parent)
        };
        self.step(node, parent, |replica, now, out| {
            replica.on_message(now, from, Message::Request(request), out)
        });
    }

    /// Flushes shards that split, and creates the members of the new shards.
    pub(super) fn flush_split(&mut self, node: usize) {
        let target = self.target(node);
        let Some(process) = &mut self.nodes[node].process else { return };
        for member in process.members.values().filter(|member| member.shard_store.expects()) {
            if let Err(error) = member.shard_store.flush(1 << 16)
                && !matches!(error, meridian_mvcc::StoreError::Full { .. })
            {
                return self.node_failure(node, "settle a split", error.into());
            }
        }
        let Some(process) = &mut self.nodes[node].process else { return };
        if process.members.values().any(|member| member.shard_store.expects()) {
            // No room on disk.
            self.push(lifecycle::RETRY_NS, target, Event::Of(ProtocolEvent::FlushSplit));
        }
        self.create_children(node);
    }

    /// Creates the members of the child shards that the node's store knows of.
    pub(super) fn create_children(&mut self, node: usize) {
        let target = self.target(node);
        let Some(process) = &mut self.nodes[node].process else { return };
        match process.create_children() {
            Ok((created, all)) => {
                if !all {
                    // No room on disk.
                    self.push(lifecycle::RETRY_NS, target, Event::Of(ProtocolEvent::FlushSplit));
                }
                self.created(node, created);
            }
            Err(why) => self.node_failure(node, "begin a shard's member", why),
        }
    }

    /// Carries out what new members asked for at their creation.
    pub(super) fn created(&mut self, node: usize, created: Vec<ShardId>) {
        for shard in created {
            *self.changed.entry("shard born").or_default() += 1;
            self.log(|| format!("{} has a member of shard {} now", self.members[node], shard.0));
            self.perform(node, shard);
        }
    }
}
