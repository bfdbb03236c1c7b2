//! Tests of a copy of a parent shard that announces a child: received by members that have none of
//! the child's data, and by a member that has all of it.

use super::node_process::{NodeProcess, Timing};
use crate::clock::{NodeClock, TrueTime};
use crate::node_process::{NodeFailure, address};
use crate::retention::Retention;
use meridian_clock::Timestamp;
use meridian_log::{MachineKey, MemoryDisk};
use meridian_machine::planted::plant;
use meridian_machine::{Effect as Do, Incarnation, Machine, NodeId, ShardId};
use meridian_mvcc::{Cursor, Key, KeyRange, Store, Write};
use meridian_placement::FIRST_SHARD;
use meridian_replication::group::{
    self, Entry, Index, Membership, MembershipEpoch, Record, Roster, Term,
};
use meridian_replication::rules as replication_rules;
use meridian_store::courier::Received;
use meridian_store::{MemoryStore, ShardStore, Split};
use meridian_systems::envelope;
use meridian_systems::locking::{Effect, KIND, Locking, Message, TransactionCommand};
use meridian_systems::shard::SplitOrigin;
use meridian_systems::shard::rules as shard_rules;
use meridian_systems::shard::{Command, CopyDecision, split_rows};
use meridian_txn::locking::TransactionId;
use std::collections::VecDeque;
use std::sync::Arc;

const MS: u64 = 1_000_000;
const CHILD: ShardId = ShardId(1);
const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

fn at(nanos: u64) -> Timestamp {
    Timestamp { nanos, logical: 0, issuer: 1 }
}

fn a_row() -> Write {
    Write { key: Key::from("z"), value: Some("a row".into()) }
}

fn all_nodes() -> Membership {
    Membership::initial(Roster::voters(NODES))
}

/// Splits the first shard by the second entry of its log.
fn split(shard_store: &ShardStore) {
    shard_store.install(at(1), &[a_row()], 1, 1);
    let split_origin = SplitOrigin { members: all_nodes(), index: Index(2), term: Term(1) };
    let rows = split_rows(FIRST_SHARD, CHILD, &split_origin);
    shard_store.divide(
        Split { at: at(2), key: Key::from("m"), child: CHILD.0, rows, hollow: false },
        2,
        1,
    );
    shard_store.flush(usize::MAX).unwrap();
}

/// Returns the log entries that lead to [`split`].
fn log_of_split() -> Vec<Entry> {
    let transaction = TransactionId { node: 1, incarnation: 1, number: 1 };
    let (writes, participants, schemas, voted_in) =
        (vec![a_row()], Vec::new(), Vec::new(), Vec::new());
    let row = TransactionCommand::Commit {
        at: at(1),
        transaction,
        writes,
        participants,
        schemas,
        voted_in,
    };
    let split = TransactionCommand::Split {
        at: at(2),
        key: Key::from("m"),
        shard: CHILD,
        members: Some(all_nodes()),
    };
    let entry = |(index, agreed): (u64, TransactionCommand)| Entry {
        index: Index(index),
        term: Term(1),
        payload: agreed.to_payload(),
        members: None,
    };
    [(1, row), (2, split)].map(entry).to_vec()
}

/// Copies a shard from one store to another, as a receiver of its parts does.
fn receive(to: &ShardStore, shard: ShardId, from: &ShardStore) -> Received {
    let shard_snapshot = from.shard_snapshot(1).unwrap().unwrap();
    let (copy, mut rest) = (to.begin_copy().unwrap(), Some(Cursor::default()));
    while let Some(place) = rest {
        let (versions, next) = shard_snapshot.page(&place, 100).unwrap();
        to.extend_copy(copy, versions).unwrap();
        rest = next;
    }
    to.end_copy(copy, shard_snapshot.extent).unwrap();
    let key = MachineKey { database: 1, shard: shard.0 };
    Received { key, from: NODES[0], number: 1, copy, extent: shard_snapshot.extent }
}

/// Returns the parent's store after an entry that followed the split.
fn parent() -> ShardStore {
    let shard_store =
        ShardStore::open(1, FIRST_SHARD.0, Arc::new(MemoryStore::new()) as Arc<dyn Store>).unwrap();
    split(&shard_store);
    shard_store.install(at(3), &[Write { key: Key::from("a"), value: Some("newer".into()) }], 3, 1);
    shard_store.flush(usize::MAX).unwrap();
    shard_store
}

fn copy_of_parent(process: &NodeProcess<Locking>) -> Received {
    receive(&process.members[&FIRST_SHARD].shard_store, FIRST_SHARD, &parent())
}

struct Node {
    me: NodeId,
    time: TrueTime,
    clock: Arc<NodeClock>,
    disks: (MemoryDisk, MemoryDisk),
    process: NodeProcess<Locking>,
    /// The nodes to which the child's leader wants to send a copy.
    asked: Vec<NodeId>,
}

impl Node {
    fn new(me: NodeId) -> Node {
        let mut node = Node::nowhere(me);
        node.process.place(FIRST_SHARD, KeyRange::all(), &NODES, false).unwrap();
        node
    }

    /// Returns a node without a member of any shard.
    fn nowhere(me: NodeId) -> Node {
        let time = TrueTime::at(1_000_000 * MS);
        let clock = Arc::new(NodeClock::new(time.clone(), 0, MS));
        clock.begin(Vec::new(), false);
        let disks = (MemoryDisk::new(), MemoryDisk::new());
        let process = Node::process(me, 1, &clock, &disks);
        Node { me, time, clock, disks, process, asked: Vec::new() }
    }

    fn process(
        me: NodeId,
        number: u32,
        clock: &Arc<NodeClock>,
        disks: &(MemoryDisk, MemoryDisk),
    ) -> NodeProcess<Locking> {
        let timing = Timing {
            election_timeout_ns: 300 * MS,
            lease_ns: 1_000 * MS,
            min_next_ns: 1 << 40,
            quiesce_ns: 1 << 40,
        };
        let seed = u64::from(me.0);
        NodeProcess::begin(
            me,
            Incarnation(number),
            &NODES,
            (seed, timing, Retention::LONG, None),
            number > 1,
            true,
            (&meridian_systems::spanner::PROTOCOL, None),
            clock,
            disks,
        )
        .unwrap()
    }

    /// Tells the parent's member that the ninth entry removed it, and which split it had agreed to.
    fn hears_of_its_removal(&mut self) {
        let (now, from) = (self.clock.reading(), address(NODES[0], FIRST_SHARD));
        let member = self.process.members.get_mut(&FIRST_SHARD).expect("it has one");
        let (pinned_entries, term) = (vec![(Index(2), Term(1))], Some(Term(1)));
        let removed = group::Message::Removed { index: Index(9), pinned_entries, term };
        member.replica.on_message(now, from, Message::Group(removed), &mut member.out);
        self.installs();
    }

    /// Carries out the effects of the parent's member on the store and the log.
    fn installs(&mut self) {
        let member = self.process.members.get_mut(&FIRST_SHARD).expect("every node has one");
        for effect in member.out.drain().collect::<Vec<_>>() {
            match effect {
                Do::Persist { position, .. } => {
                    member.replica.on_durable(self.clock.reading(), position, &mut member.out);
                }
                Do::Do(Effect::Install { at, writes, index, term, .. }) => {
                    member.shard_store.install(at, &writes, index.0, term.0);
                }
                Do::Do(Effect::Divide { at, key, shard, rows, hollow, index, term }) => {
                    member.shard_store.divide(
                        Split { at, key, child: shard.0, rows, hollow },
                        index.0,
                        term.0,
                    );
                }
                _ => {}
            }
        }
    }

    /// Returns the messages of the child's member, after what it persisted is durable.
    fn says(&mut self) -> Vec<(NodeId, Message)> {
        let mut said = Vec::new();
        loop {
            let Some(member) = self.process.members.get_mut(&CHILD) else { return said };
            let mut written = None;
            for effect in member.out.drain().collect::<Vec<_>>() {
                match effect {
                    Do::Send { to, message } | Do::SendBefore { to, message, .. } => {
                        said.push((to.node, message))
                    }
                    Do::Arm { timer, at } => member.alarms.set(timer, at),
                    Do::Disarm { timer } => member.alarms.cancel(&timer),
                    Do::Persist { position, .. } => written = Some(position),
                    Do::Do(Effect::Stop { why }) => panic!("{why}"),
                    Do::Do(Effect::SendSnapshot { to, .. }) => self.asked.push(to),
                    Do::Do(_) => {}
                }
            }
            let Some(through) = written else { return said };
            member.replica.on_durable(self.clock.reading(), through, &mut member.out);
        }
    }

    fn passes(&mut self, ns: u64) {
        self.time.advance(self.time.now() + ns);
        let now = self.clock.reading();
        let Some(member) = self.process.members.get_mut(&CHILD) else { return };
        let due: Vec<_> = std::iter::from_fn(|| member.alarms.due(now.boot_ns)).collect();
        for timer in due {
            member.replica.on_timer(now, timer, &mut member.out);
        }
    }
}

/// Exchanges messages of the child between these nodes; messages to other nodes are lost.
fn talk(nodes: &mut [Node], rounds: u32) {
    for _ in 0..rounds {
        let mut wire = VecDeque::new();
        for node in &mut *nodes {
            node.passes(10 * MS);
            wire.extend(node.says().into_iter().map(|(to, message)| (node.me, to, message)));
        }
        while let Some((from, to, message)) = wire.pop_front() {
            let Some(node) = nodes.iter_mut().find(|node| node.me == to) else { continue };
            let Some(member) = node.process.members.get_mut(&CHILD) else {
                let Message::Group(said) = message else { continue };
                said.invitation()
                    .map(|membership_epoch| node.process.invite(CHILD, membership_epoch).unwrap());
                continue;
            };
            let now = node.clock.reading();
            member.replica.on_message(now, address(from, CHILD), message, &mut member.out);
            wire.extend(node.says().into_iter().map(|(to, message)| (node.me, to, message)));
        }
        let asked = |node: &mut Node| -> Vec<_> {
            std::mem::take(&mut node.asked).into_iter().map(|to| (node.me, to)).collect()
        };
        for (from, to) in nodes.iter_mut().flat_map(asked).collect::<Vec<_>>() {
            send_copy(nodes, from, to);
        }
    }
}

fn send_copy(nodes: &mut [Node], from: NodeId, to: NodeId) {
    let at = |nodes: &[Node], node: NodeId| nodes.iter().position(|known| known.me == node);
    let (Some(sender), Some(receiver)) = (at(nodes, from), at(nodes, to)) else { return };
    let shard_store = |node: usize| &nodes[node].process.members[&CHILD].shard_store;
    let copy = receive(shard_store(receiver), CHILD, shard_store(sender));
    let (now, index) = (nodes[receiver].clock.reading(), Index(copy.extent.position));
    nodes[receiver].process.take_over(now, &copy).unwrap();
    let now = nodes[sender].clock.reading();
    let member = nodes[sender].process.members.get_mut(&CHILD).expect("it sends its copy");
    member.replica.with_group(now, &mut member.out, |group, out| {
        group.snapshot_delivered(now, to, index, out)
    });
}

fn has_leader(nodes: &[Node]) -> bool {
    let leads = |node: &Node| {
        node.process.members.get(&CHILD).is_some_and(|member| member.replica.is_serving())
    };
    nodes.iter().any(leads)
}

/// True if, after ten seconds, the child has a leader among two nodes that know of its creation
/// by a copy of the parent only and have none of its data. The third node, which has the data, is
/// down.
fn leads() -> bool {
    let mut nodes = [Node::new(NODES[1]), Node::new(NODES[2])];
    for node in &mut nodes {
        let now = node.clock.reading();
        let copy = copy_of_parent(&node.process);
        node.process.take_over(now, &copy).unwrap();
        assert_eq!(
            node.process.create_children().unwrap().0,
            [CHILD],
            "the copy announces the child"
        );
    }
    talk(&mut nodes, 1_000);
    has_leader(&nodes)
}

/// Returns a node that acknowledged the split, and does not know that it was committed.
fn acknowledging_member() -> Node {
    let mut node = Node::new(NODES[2]);
    let now = node.clock.reading();
    let (member, from) =
        (node.process.members.get_mut(&FIRST_SHARD).unwrap(), address(NODES[0], FIRST_SHARD));
    let append = group::Message::Append {
        term: Term(1),
        prev_index: Index(0),
        prev_term: Term(0),
        entries: log_of_split(),
        commit: Index(0),
        asked_at: now.interval.earliest,
        since: Index(0),
        witness: false,
        lease_ns: 1_000 * MS,
    };
    member.replica.on_message(now, from, Message::Group(append), &mut member.out);
    node.installs();
    node
}

/// True if a node that acknowledged the split has the child's rows after it receives a copy of the
/// parent.
fn has_the_rows() -> bool {
    let mut node = acknowledging_member();
    let now = node.clock.reading();
    for _ in 0..1_000 {
        let created = MembershipEpoch { since: Index(0), witness: false };
        assert!(
            !node.process.invite(CHILD, created).unwrap(),
            "the node must not begin an empty member: its log has the split"
        );
    }
    let copy = copy_of_parent(&node.process);
    if node.process.take_over(now, &copy).unwrap() == CopyDecision::SplitsFirst {
        node.installs();
        assert_eq!(node.process.take_over(now, &copy).unwrap(), CopyDecision::Taken);
    }
    assert_eq!(
        node.process.create_children().unwrap().0,
        [CHILD],
        "the copy announces the child, too"
    );
    let (parent, child) = (
        &node.process.members[&FIRST_SHARD].shard_store,
        &node.process.members[&CHILD].shard_store,
    );
    assert!(parent.get(b"a", at(9)).unwrap().is_some(), "the parent continues from the copy");
    child.get(b"z", at(9)).unwrap().is_some()
}

/// True if a node that acknowledged the split has the child's rows after it is removed from the
/// parent.
fn keeps_the_rows() -> bool {
    let mut node = acknowledging_member();
    node.hears_of_its_removal();
    node.process.leave(FIRST_SHARD, Index(9)).unwrap();
    let child = node.process.members.get(&CHILD);
    child.is_some_and(|child| child.shard_store.get(b"z", at(9)).unwrap().is_some())
}

/// Returns the log position of the child's store on a node whose member of the parent is a witness
/// and whose member of the child stores versions.
fn begins_beside_a_witness() -> u64 {
    let mut node = Node::nowhere(NODES[2]);
    let membership_epoch = MembershipEpoch { since: Index(1), witness: true };
    assert!(node.process.invite(FIRST_SHARD, membership_epoch).unwrap());
    node.installs();
    let now = node.clock.reading();
    let (member, from) =
        (node.process.members.get_mut(&FIRST_SHARD).unwrap(), address(NODES[0], FIRST_SHARD));
    let append = group::Message::Append {
        term: Term(1),
        prev_index: Index(0),
        prev_term: Term(0),
        entries: log_of_split(),
        commit: Index(2),
        asked_at: now.interval.earliest,
        since: membership_epoch.since,
        witness: membership_epoch.witness,
        lease_ns: 1_000 * MS,
    };
    member.replica.on_message(now, from, Message::Group(append), &mut member.out);
    node.installs();
    node.process.members[&FIRST_SHARD].shard_store.flush(usize::MAX).unwrap();
    assert_eq!(node.process.create_children().unwrap().0, [CHILD]);
    node.process.members[&CHILD].shard_store.extent().unwrap().position
}

/// True if a node detects that its store is gone after it has left the parent of its only shard.
fn finds_out() -> bool {
    let mut node = Node::new(NODES[2]);
    split(&node.process.members[&FIRST_SHARD].shard_store);
    assert_eq!(node.process.create_children().unwrap().0, [CHILD]);
    node.process.leave(FIRST_SHARD, Index(3)).unwrap();
    node.says();
    // A checkpoint of the log has covered all earlier records.
    let records = [Record::Base { index: Index(5), term: Term(1) }];
    node.process.journal.checkpoint(CHILD, envelope::write(KIND, &records.to_vec()).into());
    node.process.journal.write().unwrap();
    node.process.journal.sync(true).unwrap();
    let Node { me, clock, disks, process, .. } = node;
    drop(process);
    let timing = Timing {
        election_timeout_ns: 300 * MS,
        lease_ns: 1_000 * MS,
        min_next_ns: 1 << 40,
        quiesce_ns: 1 << 40,
    };
    let disks = (disks.0, MemoryDisk::new());
    NodeProcess::<Locking>::begin(
        me,
        Incarnation(2),
        &NODES,
        (1, timing, Retention::LONG, None),
        true,
        true,
        (&meridian_systems::spanner::PROTOCOL, None),
        &clock,
        &disks,
    )
    .is_err()
}

#[test]
fn a_store_that_is_gone_is_noticed_without_the_parent() {
    assert!(finds_out());
}

#[test]
fn a_witness_of_the_parent_has_nothing_of_the_child() {
    assert_eq!(begins_beside_a_witness(), 0, "the child must be empty, and receive a copy");
    let planted = std::thread::spawn(|| {
        plant(Some(shard_rules::HOLLOW_CHILD), true);
        begins_beside_a_witness()
    });
    assert_eq!(planted.join().unwrap(), 1, "the planted defect goes undetected");
}

#[test]
fn a_member_that_acknowledged_a_split_has_its_rows_even_if_removed_from_the_parent() {
    assert!(keeps_the_rows());
    let planted = std::thread::spawn(|| {
        plant(Some(replication_rules::SPLIT_SKIPPED), true);
        keeps_the_rows()
    });
    assert!(!planted.join().unwrap(), "the planted defect goes undetected");
}

#[test]
fn a_member_that_acknowledged_a_split_has_its_rows_even_if_a_copy_is_faster() {
    assert!(has_the_rows(), "the rows are lost, and the other node that has them may be gone");
    let planted = std::thread::spawn(|| {
        plant(Some(replication_rules::SPLIT_SKIPPED), true);
        has_the_rows()
    });
    assert!(!planted.join().unwrap(), "the planted defect goes undetected");
}

#[test]
fn a_member_with_an_unconfirmed_split_does_not_lead() {
    assert!(!leads(), "a node without the child's data leads it: the data are lost");
    let planted = std::thread::spawn(|| {
        plant(Some(shard_rules::HEARSAY_LEADS), true);
        leads()
    });
    assert!(planted.join().unwrap(), "the planted defect goes undetected");
}

#[test]
fn a_member_with_an_unconfirmed_split_stays_in_the_child_after_leaving_the_parent() {
    let mut node = Node::new(NODES[2]);
    let now = node.clock.reading();
    let copy = copy_of_parent(&node.process);
    node.process.take_over(now, &copy).unwrap();
    let created = node.process.leave(FIRST_SHARD, Index(3)).unwrap();
    assert_eq!(created, Some(vec![CHILD]));
    let Node { me, clock, disks, process, .. } = node;
    drop(process);
    let mut process = Node::process(me, 2, &clock, &disks);
    process.place(FIRST_SHARD, KeyRange::all(), &NODES, false).unwrap();
    assert_eq!(process.members.keys().copied().collect::<Vec<_>>(), [CHILD]);
}

#[test]
fn a_member_unaware_of_a_split_is_asked_for_its_vote() {
    let mut nodes = [Node::new(NODES[0]), Node::new(NODES[2])];
    split(&nodes[0].process.members[&FIRST_SHARD].shard_store);
    assert_eq!(nodes[0].process.create_children().unwrap().0, [CHILD]);
    talk(&mut nodes, 10_000);
    assert!(has_leader(&nodes), "the child has no leader, although two of three nodes run");
}

#[test]
fn a_member_that_leaves_on_a_full_disk_ends_when_there_is_room() {
    let mut node = acknowledging_member();
    node.hears_of_its_removal();
    node.disks.1.set_full(true);
    for _ in 0..2 {
        let failed = node.process.leave(FIRST_SHARD, Index(9));
        assert!(matches!(failed, Err(NodeFailure::Full)), "{failed:?}");
        assert!(node.process.members.is_empty(), "the member takes no step any more");
    }
    let since = |since| MembershipEpoch { since: Index(since), witness: false };
    assert!(!node.process.invite(FIRST_SHARD, since(5)).unwrap(), "by an entry before the removal");
    for _ in 0..1_000 {
        assert!(
            !node.process.invite(CHILD, since(0)).unwrap(),
            "the node must not begin an empty member: its rows wait for room on the disk"
        );
    }
    node.disks.1.set_full(false);
    assert_eq!(node.process.leave(FIRST_SHARD, Index(9)).unwrap(), Some(vec![CHILD]));
    let child = &node.process.members[&CHILD].shard_store;
    assert!(child.get(b"z", at(9)).unwrap().is_some(), "the child has the rows of the split");
    assert_eq!(node.process.leave(FIRST_SHARD, Index(9)).unwrap(), None, "it has ended");
    assert!(!node.process.invite(FIRST_SHARD, since(5)).unwrap());
    assert!(node.process.invite(FIRST_SHARD, since(10)).unwrap(), "by a later entry");
}
