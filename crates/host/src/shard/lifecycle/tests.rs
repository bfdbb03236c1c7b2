//! Replicas start and end on a node whose disk is full for a while.

use super::*;
use crate::actor::ReplicaRuntime;
use crate::clock::{Clock, ClockBound};
use crate::context::{BackgroundTask, RecoveredRecords};
use crate::directory::Directory;
use crate::journal::Journal;
use crate::node_resources::NodeResources;
use crate::panics::PanicGuard;
use crate::readers::Readers;
use crate::shard::Timeouts;
use crate::timers::Timers;
use meridian_clock::Timestamp;
use meridian_log::MemoryDisk;
use meridian_machine::{DatabaseId, Incarnation, NodeId};
use meridian_mvcc::{Key, Store};
use meridian_replication::group::Term;
use meridian_store::{RedbStore, Split};
use meridian_systems::locking::{Effect, Locking};
use meridian_systems::shard::{SplitOrigin, split_rows};
use meridian_systems::spanner;
use meridian_systems::tapir::TruncationPolicy;
use std::time::Duration;

const DATABASE: u32 = 7;
const CHILD: ShardId = ShardId(5);
const REMOVED: Index = Index(9);
const PATIENCE: Duration = Duration::from_secs(20);

/// A node with a disk, and the tasks of its directory's thread, which the test runs.
struct TestNode {
    disk: MemoryDisk,
    lifecycle: Arc<Lifecycle<Locking>>,
    tasks: mpsc::Receiver<BackgroundTask>,
}

impl TestNode {
    fn new() -> TestNode {
        let (disk, guard) = (MemoryDisk::new(), PanicGuard::of_test());
        let store = Arc::new(RedbStore::open(&disk, 1 << 20).unwrap());
        let (background, tasks) = mpsc::channel();
        let resources = NodeResources {
            clock: Arc::new(Clock::new(ClockBound::Alone)),
            timers: Timers::start(&guard).unwrap(),
            journal: Journal::in_memory(),
            readers: Readers::start(&guard).unwrap(),
            store,
            guard,
        };
        let context = NodeContext {
            me: NodeId(1),
            incarnation: Incarnation(1),
            members: (1..=3).map(NodeId).collect(),
            protocols: Vec::new(),
            timeouts: Timeouts::default(),
            truncation: TruncationPolicy::default(),
            folder: None,
            resources: Arc::new(resources),
            peers: Arc::default(),
            transfers: Arc::default(),
            records: RecoveredRecords::new(Default::default()),
            background,
            catalog: Weak::<Directory>::new(),
        };
        let row = DatabaseRow::new(DatabaseId(DATABASE), "lab");
        TestNode {
            disk,
            lifecycle: Lifecycle::new(&row, &Arc::new(context), &spanner::PROTOCOL),
            tasks,
        }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.lifecycle.context.resources.store)
    }

    /// Runs the next task of the directory's thread.
    fn run_task(&self) {
        self.tasks.recv_timeout(PATIENCE).expect("a task is queued")();
    }

    fn has(&self, shard: ShardId) -> bool {
        self.lifecycle.router.member(shard).is_some()
    }

    fn removed(&self) -> Option<u64> {
        ShardStore::removed(DATABASE, FIRST_SHARD.0, &*self.store()).unwrap()
    }

    /// Splits the first shard.
    fn split(&self) {
        let members = Membership::initial(self.roster());
        let origin = SplitOrigin { members, index: Index(2), term: Term(1) };
        let at = Timestamp { nanos: 10, logical: 0, issuer: 1 };
        let rows = split_rows(FIRST_SHARD, CHILD, &origin);
        let (key, hollow, index, term) = (Key::from("m"), true, Index(2), Term(1));
        let divide = Effect::Divide { at, key, shard: CHILD, rows, hollow, index, term };
        self.lifecycle.router.member(FIRST_SHARD).unwrap().runtime().act(divide);
    }

    fn roster(&self) -> Roster {
        Roster::voters(self.lifecycle.context.members.iter().copied())
    }
}

#[test]
fn a_replica_ends_when_there_is_room_again_and_nothing_waits_for_it() {
    let node = TestNode::new();
    node.lifecycle.begin(None).unwrap();
    node.disk.set_full(true);
    node.split();
    node.lifecycle.queue_leave(FIRST_SHARD, REMOVED);
    node.lifecycle.queue_leave(FIRST_SHARD, REMOVED); // The leader says it twice.
    for _ in 0..4 {
        node.run_task(); // After the first two, a retry.
        assert!(!node.has(FIRST_SHARD) && !node.has(CHILD));
        assert_eq!(node.removed(), None);
        assert!(node.lifecycle.transition.try_lock().is_some(), "other replicas start meanwhile");
        let stale = MembershipEpoch { since: Index(5), witness: false };
        node.lifecycle.invite(FIRST_SHARD, stale).unwrap();
        assert!(!node.has(FIRST_SHARD), "an entry before the removal starts no replica");
        assert!(node.lifecycle.expects(CHILD), "its split waits for room on the disk");
    }
    node.disk.set_full(false);
    node.run_task();
    assert_eq!(node.removed(), Some(REMOVED.0));
    assert!(node.has(CHILD) && node.lifecycle.endings.lock().is_empty());
    let again = node.tasks.recv_timeout(3 * Duration::from_nanos(lifecycle::RETRY_NS));
    assert!(again.is_err(), "one timer was set, and the last try has succeeded");
    let later = MembershipEpoch { since: Index(12), witness: false };
    node.lifecycle.invite(FIRST_SHARD, later).unwrap();
    assert!(node.has(FIRST_SHARD));
}

#[test]
fn a_database_that_closes_gives_up_the_ends_that_are_under_way() {
    let node = TestNode::new();
    node.lifecycle.begin(None).unwrap();
    node.disk.set_full(true);
    node.lifecycle.queue_leave(FIRST_SHARD, REMOVED);
    node.run_task();
    let closed = node.lifecycle.close();
    assert_eq!(
        closed.iter().map(|member| member.runtime().shard()).collect::<Vec<_>>(),
        [FIRST_SHARD]
    );
    node.disk.set_full(false);
    node.run_task();
    assert_eq!(node.removed(), None, "the replica starts again, and learns of its removal");
}

#[test]
fn replicas_that_cannot_start_for_want_of_room_are_tried_again() {
    let node = TestNode::new();
    // An orphaned child of which this node has nothing: its replica notes durably that it is empty.
    let parent = ShardStore::open(DATABASE, FIRST_SHARD.0, node.store()).unwrap();
    let at = Timestamp { nanos: 10, logical: 0, issuer: 1 };
    let (key, child, rows, hollow) = (Key::from("m"), CHILD.0, Vec::new(), true);
    parent.divide(Split { at, key, child, rows, hollow }, 2, 1);
    let members = Membership::initial(node.roster());
    parent.leave(REMOVED.0, |_| Origin::keep(Some(&members))).unwrap();
    node.disk.set_full(true);
    assert!(node.lifecycle.begin(None).is_err());
    assert!(node.lifecycle.begin_missing().is_err() && !node.has(CHILD));
    let epoch = MembershipEpoch { since: Index(12), witness: false };
    node.lifecycle.invite(FIRST_SHARD, epoch).unwrap();
    assert!(!node.has(FIRST_SHARD), "what is in the log starts before what a leader invites");
    node.disk.set_full(false);
    node.lifecycle.begin_missing().unwrap();
    assert!(node.has(CHILD));
    node.lifecycle.invite(FIRST_SHARD, epoch).unwrap();
    assert!(node.has(FIRST_SHARD));
}
