//! A scripted test: a session reads a snapshot from its node's member, and continues after that
//! member was removed and an empty one was invited.

use super::{S, World};
use crate::shard::{Leaders, SIMULATED};
use crate::workload::Step;
use futures::channel::oneshot;
use meridian_machine::planted::{Rule, plant};
use meridian_machine::{NodeId, ShardId};
use meridian_systems::locking::Locking;
use meridian_txn::shards::{MemberRoles, RequestBody};
use meridian_txn::{Begin, Failure, Lock, Mode, ReadAt};
use parking_lot::Mutex;
use std::sync::Arc;

impl World<Leaders<Locking>> {
    /// True if the session misses a key that has existed since before its snapshot.
    pub fn finds_nothing_at_a_newcomer(rule: Option<Rule>) -> bool {
        plant(rule, rule.is_some());
        let found = Self::reads_around_a_removal();
        plant(None, false);
        found.expect("the session reads both keys").is_none()
    }

    fn reads_around_a_removal() -> Result<Option<meridian_mvcc::Value>, Failure> {
        let mut world = World::<Leaders<Locking>>::three(&SIMULATED, None);
        let (leader, node, shard) = (0, 2, ShardId(0));
        for name in ["ra", "rb"] {
            world.takes(leader, Mode::ReadWrite, vec![Step::Write(name.to_owned(), Some(1))]);
        }
        let slot = |world: &World<Leaders<Locking>>| {
            world.nodes[node]
                .process
                .as_ref()
                .map(|process| process.router.read_lease(shard).closed)
                .unwrap_or_default()
        };
        world.until(10 * S, |_| false); // All writes are closed at every member.
        let at = slot(&world);
        let txn_client =
            Arc::clone(&world.nodes[node].process.as_ref().expect("the node runs").txn_client);
        let (replaced, until_replaced) = oneshot::channel::<()>();
        let (first, second) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
        let (tell_first, tell_second) = (Arc::clone(&first), Arc::clone(&second));
        let session = async move {
            let mode = Mode::ReadOnly(ReadAt::Exact(at));
            let mut transaction =
                txn_client.begin(Begin::new(mode)).await.expect("a node that serves");
            *tell_first.lock() = Some(transaction.get(&"ra".into(), Lock::Shared).await);
            let _ = until_replaced.await;
            *tell_second.lock() = Some(transaction.get(&"rb".into(), Lock::Shared).await);
        };
        world.send_out(node, Box::pin(session));
        assert!(
            matches!(*first.lock(), Some(Ok(Some(_)))),
            "the session did not read from its own node"
        );
        let has_member = |world: &World<Leaders<Locking>>| {
            world.nodes[node]
                .process
                .as_ref()
                .is_some_and(|process| process.members.contains_key(&shard))
        };
        let all = world.members.clone();
        world.ask_for_members(leader, shard, voters(&all[..node]));
        assert!(world.until(10 * S, |world| !has_member(world)), "the member is not removed");
        world.ask_for_members(leader, shard, voters(&all));
        assert!(world.until(10 * S, has_member), "no new member is invited");
        let _ = replaced.send(());
        world.poll_ready();
        world.until(10 * S, |_| second.lock().is_some());
        let read = second.lock().take();
        read.unwrap_or_else(|| Err(Failure::Unavailable("nothing is read in time".to_owned())))
    }
}

fn voters(nodes: &[NodeId]) -> RequestBody {
    RequestBody::Members(MemberRoles {
        voters: nodes.to_vec(),
        learners: Vec::new(),
        witnesses: Vec::new(),
    })
}
