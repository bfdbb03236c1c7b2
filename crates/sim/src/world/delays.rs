//! How many messages one after the other a transaction waits for: on a network where each takes the same time, and nothing else takes any.

use super::{Event, MS, S, Whom, World};
use crate::client;
use crate::workload::{Plan, Step};
use crate::{Faults, Options};
use meridian_clock::Timestamp;
use meridian_machine::{Machine, ShardId};
use meridian_systems::spanner::Message;
use meridian_txn::locking::{Ask, Request, TransactionId};
use meridian_txn::{Age, Lock, Mode, ReadAt};
use std::sync::Arc;

/// What one message takes.
const ONE: u64 = 20 * MS;
const NOW: Mode = Mode::ReadOnly(ReadAt::Now);

impl World {
    /// What each kind of transaction waits for, in message delays.
    pub fn delays() -> Vec<(&'static str, u64)> {
        let quiet = Options { faults: Faults::NONE, clients: 1, splits: Some(0), moves: Some(0), ..Options::new(1) };
        let mut world = World::new(quiet);
        world.network.even(ONE);
        (world.open, world.lease_ns, world.idle_after_ns) = (false, 10 * S, super::IDLE_AFTER);
        for node in 0..world.nodes.len() {
            world.nodes[node].sync_ns = 10;
            world.nodes[node].clock.claim(1_000);
            world.nodes[node].clock.set(0);
            world.push(0, Some(Whom { node, life: None }), Event::Boot);
        }
        world.until(0, |_| false);
        world.acquaint();
        world.until(3 * S, |_| false);
        let write = |name: &str| Step::Write(name.to_owned(), Some(1));
        let read = |name: &str| Step::Read(name.to_owned(), Lock::Shared);
        let change = |name: &str| Step::Append(name.to_owned(), 1);
        let mut found = Vec::new();
        let (leader, other) = (0, 1);
        found.push(("one group: write, at the leader", world.takes(leader, Mode::ReadWrite, vec![write("ra")])));
        found.push(("one group: write, elsewhere", world.takes(other, Mode::ReadWrite, vec![write("ra")])));
        found.push(("one group: read and write, elsewhere", world.takes(other, Mode::ReadWrite, vec![change("lb")])));
        found.push(("one group: read-only, at the leader", world.takes(leader, NOW, vec![read("ra"), read("lb")])));
        found.push(("one group: read-only, elsewhere", world.takes(other, NOW, vec![read("ra")])));
        world.until(S, |_| false);
        let past = Mode::ReadOnly(ReadAt::AtLeast(Timestamp::end_of(world.now() - 8 * S)));
        found.push(("one group: some time ago, elsewhere", world.takes(other, past, vec![read("ra"), read("lb")])));
        world.split_at("m");
        let both = || vec![write("lb"), write("ra")];
        found.push(("two groups led here: write both", world.takes(leader, Mode::ReadWrite, both())));
        found.push(("two groups led elsewhere: write both", world.takes(other, Mode::ReadWrite, both())));
        world.until(2 * S, |_| false);
        found.push(("two groups led here: read-only", world.takes(leader, NOW, vec![read("lb"), read("ra")])));
        found.push(("two groups led here: read-only, again", world.takes(leader, NOW, vec![read("lb"), read("ra")])));
        world.until(2 * S, |_| false);
        let mixed = || vec![read("lb"), write("ra")];
        found.push(("two groups led here: read one, write one", world.takes(leader, Mode::ReadWrite, mixed())));
        found.push(("two groups led here: the same again", world.takes(leader, Mode::ReadWrite, mixed())));
        let second = ShardId(1);
        world.step(leader, second, |replica, now, out| replica.abdicate(now, out));
        world.until(3 * S, |_| false);
        found.push(("two groups, one led here: write both", world.takes(leader, Mode::ReadWrite, both())));
        found
    }

    /// Runs one transaction at a node, and says what it waited for.
    fn takes(&mut self, node: usize, mode: Mode, steps: Vec<Step>) -> u64 {
        let plan = Plan { mode, steps, mark: None, rows: 10, alone: false, schema: None };
        let Some(life) = &self.nodes[node].life else { return u64::MAX };
        let (gateway, desk) = (Arc::clone(&life.gateway), life.gateway.site().clone());
        let (seen, began) = (Arc::default(), self.now());
        let there = &mut self.clients[0];
        (there.node, there.mode, there.mark, there.start, there.seen) = (node, mode, None, began, Arc::clone(&seen));
        there.attempt = Some(Box::pin(client::attempt(gateway, desk, plan, seen)));
        self.poll(0);
        let ended = self.until(10 * S, |world| world.clients[0].attempt.is_none());
        assert!(ended, "it goes on for ever: {:?} {:?}", self.violation, self.what_is_left());
        let took = self.now() - began;
        self.until(ONE / 2, |_| false); // What was left behind is done.
        assert_eq!(self.violation, None);
        (took + ONE / 4) / ONE
    }

    /// Splits the first shard, where it is led.
    fn split_at(&mut self, key: &str) {
        let (shard, node) = (ShardId(0), 0);
        let number = 1 << 40;
        let transaction = TransactionId { node: 1, incarnation: 1, number };
        let ask = Ask::Split { at: key.into(), shard: ShardId(1) };
        let request = Request {
            transaction,
            age: Age { began_ns: 0, node: 1, number },
            id: 1,
            footing: None,
            ask,
            planned: Vec::new(),
        };
        let from = crate::member::address(self.members[node], shard);
        self.step(node, shard, |replica, now, out| replica.on_message(now, from, Message::Ask(request), out));
        self.until(3 * S, |_| false);
    }
}
