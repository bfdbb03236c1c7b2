//! A scripted test: a node sends a request and crashes, and the response arrives at its next
//! incarnation, whose sessions are numbered from one again.

use super::{MS, S, World};
use crate::Defect;
use crate::client;
use crate::node_process::address;
use crate::shard::{Leaders, SIMULATED};
use crate::workload::{Plan, Scope, Step};
use crate::world::order::Asked;
use meridian_clock::Timestamp;
use meridian_history::{Op, Value};
use meridian_machine::{Address, Role, ShardId};
use meridian_systems::envelope;
use meridian_systems::locking::KIND;
use meridian_systems::locking::Locking;
use meridian_systems::locking::Message;
use meridian_txn::Node;
use meridian_txn::shards::{LockEpoch, Response};
use meridian_txn::{Lock, Mode, ReadAt};
use std::sync::Arc;

impl World<Leaders<Locking>> {
    /// Returns the value that a session of the next incarnation reads of a key that is 2, when a
    /// response arrives that the previous incarnation requested, of another key, which is 1.
    pub fn reads_in_the_next_life(defect: Option<Defect>) -> Option<i64> {
        let mut world = World::<Leaders<Locking>>::three(&SIMULATED, defect);
        let (leader, node, shard) = (0, 1, ShardId(0));
        let write = |name: &str, number| vec![Step::Write(name.to_owned(), Some(number))];
        world.takes(leader, Mode::ReadWrite, write("ra", 1));
        world.takes(leader, Mode::ReadWrite, write("rb", 2));
        let before = world.nodes[node].incarnation;
        world.crash(node, MS);
        world.until(5 * S, |_| false);
        let process = world.nodes[node].process.as_ref()?;
        let (txn_client, router) = (Arc::clone(&process.txn_client), Arc::clone(&process.router));
        let number = router.node().new_number() + 1;
        let (mode, steps) =
            (Mode::ReadOnly(ReadAt::Now), vec![Step::Read("rb".to_owned(), Lock::Shared)]);
        let plan = Plan {
            mode,
            steps,
            mark: None,
            rows: 1,
            scope: Scope::Open,
            alone: false,
            schema: None,
            dawdles_ns: None,
        };
        let (seen, began) = (Arc::default(), world.now());
        let there = &mut world.clients[0];
        (there.node, there.mode, there.mark, there.start, there.seen) =
            (node, mode, None, began, Arc::clone(&seen));
        there.attempt =
            Some(Box::pin(client::attempt(txn_client, router, plan, Asked::default(), seen)));
        world.poll(0);
        let shard_store = &world.nodes[leader].process.as_ref()?.members.get(&shard)?.shard_store;
        let stored = shard_store.get(b"ra", Timestamp::MAX).ok()??;
        let (at, rows) = (stored.at, vec![("ra".into(), stored.value?)]);
        let lock_epoch = LockEpoch { term: 1, admission: 0 };
        let answer = Response::Rows {
            id: 1,
            lock_epoch,
            at,
            rows,
            rest: None,
            committed_at: Vec::new(),
            waited_ns: None,
        };
        let (from, home) =
            (address(world.members[leader], shard), address(world.members[node], shard));
        let to = Address { incarnation: before, role: Role::Coordinator(number), ..home };
        let (disk, frame) =
            (world.disk(leader), envelope::write_frame(KIND, from, to, &Message::Response(answer)));
        world.arrive(leader, node, disk, &frame);
        world.until(10 * S, |world| world.clients[0].attempt.is_none());
        world.history.last()?.ops.iter().find_map(|op| match op {
            Op::Read(_, Value::Number(number)) => Some(*number),
            _ => None,
        })
    }
}
