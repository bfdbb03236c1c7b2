//! A scripted test: a leader sleeps through the end of its lease, another leads and commits, and a
//! session of the first wakes before any message that its node received meanwhile.

use super::{S, World};
use crate::Defect;
use crate::client;
use crate::shard::{Leaders, SIMULATED};
use crate::workload::{Plan, Scope, Step};
use crate::world::order::Asked;
use meridian_history::{Op, Value};
use meridian_systems::locking::Locking;
use meridian_txn::{Lock, Mode, ReadAt};
use std::sync::Arc;

impl World<Leaders<Locking>> {
    /// Returns the value that the session reads of a key that was 1 when its node fell asleep, and
    /// is 2 now.
    pub fn reads_after_a_pause(defect: Option<Defect>) -> Option<i64> {
        let mut world = World::<Leaders<Locking>>::three(&SIMULATED, defect);
        let (asleep, awake) = (0, 1);
        let write = |number| vec![Step::Write("ra".to_owned(), Some(number))];
        world.takes(asleep, Mode::ReadWrite, write(1));
        world.nodes[asleep].paused_until = world.now() + 15 * S; // A lease lasts ten seconds.
        world.until(13 * S, |_| false);
        world.takes(awake, Mode::ReadWrite, write(2));
        let steps = vec![Step::Read("ra".to_owned(), Lock::Shared)];
        let mode = Mode::ReadOnly(ReadAt::Now);
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
        let process = world.nodes[asleep].process.as_ref()?;
        let (txn_client, router) = (Arc::clone(&process.txn_client), Arc::clone(&process.router));
        let (seen, began) = (Arc::default(), world.now());
        let there = &mut world.clients[0];
        (there.node, there.mode, there.mark, there.start, there.seen) =
            (asleep, mode, None, began, Arc::clone(&seen));
        there.attempt = Some(Box::pin(client::attempt(
            txn_client,
            router,
            plan,
            Asked::default(),
            Arc::clone(&seen),
        )));
        world.poll(0);
        world.until(20 * S, |world| world.clients[0].attempt.is_none());
        world.history.last()?.ops.iter().find_map(|op| match op {
            Op::Read(_, Value::Number(number)) => Some(*number),
            _ => None,
        })
    }
}
