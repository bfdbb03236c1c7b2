//! Schedules of TAPIR's replicas that random worlds rarely reach: they fix which replica receives
//! which message, in which order.

use meridian_clock::{Interval, Reading, Timestamp};
use meridian_machine::planted::{Rule, plant};
use meridian_machine::{
    Address, DatabaseId, Effect as Do, Incarnation, Machine, NodeId, Outbox, Role, ShardId,
};
use meridian_mvcc::{Key, KeyRange, Value, Write};
use meridian_replication::inconsistent::{
    Config, Message as Said, Op, OpId, ReplicaSet, State, Timer as Waits, View,
};
use meridian_replication::rules as replication_rules;
use meridian_systems::tapir::rules as tapir_rules;
use meridian_systems::tapir::{
    Effect, Message, Page, Replica, Serve, Shard, Timer, TruncationPolicy,
};
use meridian_txn::TransactionId;
use meridian_txn::tapir::rules as txn_rules;
use meridian_txn::tapir::{
    ConsensusOp, ConsensusResult, End, Footprint, Guarantee, InconsistentOp, Past, Proposal,
    TxnStatus, Vote,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

const NOW: u64 = 1_000_000_000;

/// The replicas of one shard, whose disks are synced at once. A message between two of them arrives
/// if both are reachable.
struct Group {
    replicas: Vec<(Replica, Outbox<Replica>)>,
    heard: Vec<bool>,
    armed: Vec<BTreeSet<Timer>>,
    /// The time of each replica's clock.
    clocks: Vec<u64>,
    /// The content of each replica's store.
    stores: Vec<BTreeMap<Key, (Timestamp, Write)>>,
    /// Snapshots that were served, and answers to clients.
    served: usize,
    served_in: Vec<View>,
    answers: Vec<Message>,
}

fn node(at: usize) -> NodeId {
    NodeId(at as u32 + 1)
}

fn address(at: usize) -> Address {
    Address::replica(node(at), DatabaseId(1), ShardId(0))
}

fn client() -> Address {
    Address {
        node: NodeId(9),
        incarnation: Incarnation(1),
        role: Role::Coordinator(0),
        ..address(0)
    }
}

fn now() -> Reading {
    Reading::at(NOW, Interval::around(NOW, 1))
}

fn at(nanos: u64) -> Timestamp {
    Timestamp { nanos, logical: 1, issuer: 9 }
}

fn id(number: u64) -> OpId {
    OpId { node: 9, incarnation: 1, number }
}

fn writes(number: u64, nanos: u64, key: &str) -> Proposal {
    let footprint = Arc::new(Footprint {
        reads: Vec::new(),
        writes: vec![Write { key: Key::from(key), value: Some(Value::from("1")) }],
        participants: vec![ShardId(0)],
    });
    Proposal {
        transaction: TransactionId { node: 9, incarnation: 1, number },
        attempt: 0,
        at: at(nanos),
        footprint,
    }
}

impl Group {
    fn of(replicas: usize) -> Group {
        let members = ReplicaSet::first((0..replicas).map(node).collect());
        let mut group = Group {
            replicas: Vec::new(),
            heard: Vec::new(),
            armed: Vec::new(),
            clocks: Vec::new(),
            stores: Vec::new(),
            served: 0,
            served_in: Vec::new(),
            answers: Vec::new(),
        };
        (0..replicas).for_each(|_| group.add(members.clone()));
        group
    }

    /// Adds a replica, once these are the members.
    fn add(&mut self, members: ReplicaSet) {
        let (at, takes_over) = (self.replicas.len(), members.epoch > 0);
        let replica = {
            let config = Config {
                me: node(at),
                members,
                database: DatabaseId(1),
                shard: ShardId(0),
                repeat_ns: NOW,
                view_timeout_ns: NOW,
                gather_ns: NOW,
                part_bytes: 1,
            };
            let shard = Shard::new(Guarantee::StrictlySerializable, ShardId(0), KeyRange::all());
            let mut out = Outbox::new();
            let replica = Replica::new(
                config,
                (Incarnation(1), takes_over),
                shard,
                Vec::new(),
                now(),
                &mut out,
            );
            let truncation = TruncationPolicy {
                behind_ns: NOW / 2,
                enough_bytes: 3 << 10,
                ..TruncationPolicy::default()
            };
            (replica.expect("one of them").truncation(truncation), out)
        };
        self.replicas.push(replica);
        self.heard.push(true);
        self.armed.push(BTreeSet::new());
        self.clocks.push(NOW);
        self.stores.push(BTreeMap::new());
        self.step(at, |_, _| {});
    }

    fn now(&self, at: usize) -> Reading {
        Reading::at(NOW, Interval::around(self.clocks[at], 1))
    }

    /// Serves a read; a page has one row.
    fn serves(&self, at: usize, serve: &Serve) -> Message {
        let mut there = self.stores[at].iter().filter(|(key, _)| serve.range.contains(key));
        let versions = there.next().map(|(_, version)| version.clone()).into_iter().collect();
        let rest = there.next().map(|(key, _)| serve.range.from_key(key, false));
        serve.answer(Page { versions, rest })
    }

    /// Steps a replica, and then the replicas to which it sends.
    fn step(&mut self, at: usize, step: impl FnOnce(&mut Replica, &mut Outbox<Replica>)) {
        let mut wire = VecDeque::from(self.said(at, step));
        while let Some((from, to, message)) = wire.pop_front() {
            if self.heard[from] && self.heard[to] {
                let now = self.now(to);
                wire.extend(
                    self.said(to, |replica, out| {
                        replica.on_message(now, address(from), message, out)
                    }),
                );
            }
        }
    }

    fn said(
        &mut self,
        at: usize,
        step: impl FnOnce(&mut Replica, &mut Outbox<Replica>),
    ) -> Vec<(usize, usize, Message)> {
        let now = self.now(at);
        let (replica, out) = &mut self.replicas[at];
        step(replica, out);
        let through = out.persisted();
        replica.on_durable(now, through, out);
        let (effects, mut said): (Vec<_>, _) = (out.drain().collect(), Vec::new());
        for effect in effects {
            match effect {
                Do::Send { to, message } if to.node == client().node => self.answers.push(message),
                Do::Send { to, message } => said.push((at, to.node.0 as usize - 1, message)),
                Do::Do(Effect::Serve(serve)) if serve.to.node == client().node => {
                    self.served += 1;
                    if let Message::Looked { view, .. } = self.serves(at, &serve) {
                        self.served_in.push(view);
                    }
                }
                Do::Do(Effect::Serve(serve)) => {
                    said.push((at, serve.to.node.0 as usize - 1, self.serves(at, &serve)));
                }
                Do::Do(Effect::Install { at: when, writes }) => {
                    self.stores[at]
                        .extend(writes.into_iter().map(|write| (write.key.clone(), (when, write))));
                }
                Do::Do(Effect::Adopt(versions)) => {
                    self.stores[at].extend(
                        versions
                            .into_iter()
                            .map(|(when, write)| (write.key.clone(), (when, write))),
                    );
                }
                Do::Arm { timer, .. } => drop(self.armed[at].insert(timer)),
                Do::Disarm { timer } => drop(self.armed[at].remove(&timer)),
                _ => {}
            }
        }
        said
    }

    fn fires(&mut self, at: usize, timer: Timer) {
        assert!(self.armed[at].remove(&timer), "n{} does not wait for {timer:?}", at + 1);
        let now = self.now(at);
        self.step(at, |replica, out| replica.on_timer(now, timer, out));
    }

    fn tells(&mut self, to: usize, message: Message) {
        let now = self.now(to);
        self.step(to, |replica, out| replica.on_message(now, client(), message, out));
    }

    fn proposes(&mut self, to: usize, number: u64, proposal: &Proposal) {
        let op = Op::Consensus(ConsensusOp::Prepare(proposal.clone()));
        self.tells(
            to,
            Message::Operation(Said::Propose { id: id(number), op, newest: View::of(0) }),
        );
    }

    /// Sends a commit to all replicas: timestamps up to its own may be closed.
    fn commits(&mut self, number: u64, nanos: u64) {
        let end = End::Commit(writes(number, nanos, "committed"));
        let tell =
            Message::Operation(Said::Tell { id: id(number), op: InconsistentOp::Ended(end) });
        (0..self.replicas.len()).for_each(|at| self.tells(at, tell.clone()));
    }

    /// Makes a replica leave its view for one that it leads, without unreachable replicas.
    fn begins_another_view(&mut self, leader: usize) {
        let now = self.now(leader);
        self.step(leader, |replica, out| replica.change_view(now, out));
        if self.armed[leader].contains(&Timer::Operations(Waits::Gather)) {
            self.fires(leader, Timer::Operations(Waits::Gather));
        }
    }

    fn vote(&self, at: usize, number: u64) -> Option<Vote> {
        let entry = self.replicas[at].0.operations().record().get(&id(number))?;
        match &entry.state {
            State::Finalized(Some(ConsensusResult::Vote(vote))) => Some(*vote),
            _ => None,
        }
    }
}

/// n1 has missed a view without knowing it, and serves a snapshot, as n2 does. Then n2 is away, and
/// the next view is merged from the other two.
#[test]
fn no_write_lands_below_a_snapshot_served_in_an_older_view() {
    let mut group = Group::of(3);
    group.heard[0] = false;
    group.begins_another_view(1);
    group.proposes(2, 1, &writes(1, 10, "k"));
    for replica in [0, 1] {
        let look = Message::Look {
            id: id(2),
            at: at(20),
            range: KeyRange::all(),
            reverse: false,
            limit_rows: 1,
            epoch: 0,
        };
        group.tells(replica, look);
    }
    assert_eq!(group.served, 2, "so many are enough");
    group.heard = vec![true, false, true];
    group.begins_another_view(2);
    for replica in [0, 2] {
        assert_eq!(group.replicas[replica].0.operations().began(), View::of(2));
        assert!(matches!(group.vote(replica, 1), Some(Vote::Retry(above)) if above >= at(20)));
    }
}

/// n1 and n2 have voted yes on a transaction. n3, which has not seen it, serves a snapshot above
/// it. n2 begins a view with n3's record, which rejects the transaction, serves the same snapshot,
/// and is away. The next view has what n1 has: the transaction. So only answers of one view count
/// together (`systems/tapir/client.rs`).
#[test]
fn a_view_that_is_bypassed_has_served_a_snapshot_without_what_commits_below_it() {
    let mut group = Group::of(3);
    let early = writes(1, 10, "k");
    [0, 1].into_iter().for_each(|at| group.proposes(at, 1, &early));
    let look = Message::Look {
        id: id(2),
        at: at(20),
        range: KeyRange::all(),
        reverse: false,
        limit_rows: 1,
        epoch: 0,
    };
    group.tells(2, look.clone());
    group.heard[0] = false;
    group.step(1, |replica, out| replica.change_view(now(), out));
    group.heard[2] = false;
    group.fires(1, Timer::Operations(Waits::Gather));
    assert!(matches!(group.vote(1, 1), Some(Vote::Retry(_))));
    group.tells(1, look);
    assert_eq!(group.served_in, [View::of(0), View::of(1)]);
    let (result, view) = (Some(ConsensusResult::Vote(Vote::Ok)), View::of(0));
    group.heard = vec![true, false, true];
    group.tells(
        0,
        Message::Operation(Said::Finalize { id: id(1), result, newest: view, decided: view }),
    );
    group.fires(2, Timer::Operations(Waits::View));
    group.fires(2, Timer::Operations(Waits::Gather));
    assert_eq!(group.replicas[2].0.operations().began(), View::of(2));
    assert_eq!((group.vote(0, 1), group.vote(2, 1)), (Some(Vote::Ok), Some(Vote::Ok)));
}

/// n2 serves a snapshot and notes it in a view that begins there alone and is bypassed. In the next
/// view it serves another snapshot that the lost note would have covered, as n1 does. Then n1 is
/// away, and n3 has voted yes below the snapshot.
#[test]
fn what_was_said_of_snapshots_in_a_view_that_was_bypassed_is_said_again() {
    let look = |number, nanos| {
        let (id, at, range) = (id(number), at(nanos), KeyRange::all());
        Message::Look { id, at, range, reverse: false, limit_rows: 1, epoch: 0 }
    };
    let mut group = Group::of(3);
    group.tells(1, look(2, 20));
    group.heard[0] = false;
    group.step(1, |replica, out| replica.change_view(now(), out));
    group.heard[2] = false;
    group.fires(1, Timer::Operations(Waits::Gather));
    group.heard = vec![true, false, true];
    group.fires(2, Timer::Operations(Waits::View));
    group.fires(2, Timer::Operations(Waits::Gather));
    group.heard = vec![true; 3];
    group.fires(1, Timer::Operations(Waits::Repeat));
    (0..3).for_each(|at| assert_eq!(group.replicas[at].0.operations().began(), View::of(2)));
    [0, 1].into_iter().for_each(|at| group.tells(at, look(3, 30)));
    group.proposes(2, 1, &writes(1, 10, "k"));
    group.heard = vec![false, true, true];
    group.begins_another_view(2);
    assert!(matches!(group.vote(2, 1), Some(Vote::Retry(_))), "{:?}", group.vote(2, 1));
}

impl Group {
    /// True unless one replica has the commit while another one has settled its timestamp without
    /// it.
    fn is_settled_what_is_settled(&self, number: u64, at: Timestamp) -> bool {
        let settled = self.replicas.iter().any(|(replica, _)| replica.settled() >= at);
        let said_yes =
            (0..self.replicas.len()).any(|replica| self.vote(replica, number) == Some(Vote::Ok));
        !(settled && said_yes)
    }
}

/// n2 leads the next view, so it starts the view change that forgets. n1 would if n2 did not.
#[test]
fn ended_operations_are_truncated_and_then_replicas_are_silent() {
    let mut group = Group::of(3);
    for number in 1..=2 {
        let proposal = writes(number, 10 * number, "k");
        (0..3).for_each(|at| group.proposes(at, number, &proposal));
        let tells =
            Said::Tell { id: id(10 + number), op: InconsistentOp::Ended(End::Commit(proposal)) };
        (0..3).for_each(|at| group.tells(at, Message::Operation(tells.clone())));
    }
    group.fires(0, Timer::Over);
    assert_eq!(
        group.replicas[0].0.operations().view(),
        View::of(0),
        "it waits for the replica that leads first"
    );
    group.fires(1, Timer::Over);
    for round in 1..=2 {
        for at in 0..3 {
            assert_eq!(group.replicas[at].0.operations().began(), View::of(round));
            group.step(at, |replica, out| replica.stored(View::of(round), 0, out));
        }
        // What one replica has closed is forgotten with the next view.
        group.begins_another_view((round as usize + 1) % 3);
    }
    for at in 0..3 {
        assert!(group.replicas[at].0.settled() >= Timestamp { nanos: 20, logical: 1, issuer: 9 });
        assert_eq!(group.replicas[at].0.operations().record().len(), 1, "that this much is over");
        while group.armed[at].contains(&Timer::Over) {
            group.fires(at, Timer::Over);
        }
    }
    assert!(group.armed.iter().all(|timers| !timers.contains(&Timer::Over)));
}

/// n2 merges the records of n1 and n2, and no other replica learns that the view has begun. The
/// next one is merged from n1 and n3, which has voted yes on a transaction.
#[test]
fn what_is_closed_is_not_settled_by_a_view_that_may_be_bypassed() {
    let mut group = Group::of(3);
    group.commits(9, 90);
    let early = writes(1, 10, "k");
    group.proposes(2, 1, &early);
    group.heard[2] = false;
    group.step(1, |replica, out| replica.close(now(), out));
    group.heard[1] = false;
    group.fires(1, Timer::Operations(Waits::Gather));
    assert_eq!(group.replicas[1].0.operations().began(), View::of(1));
    group.heard[2] = true;
    group.fires(0, Timer::Operations(Waits::View));
    group.fires(2, Timer::Operations(Waits::Gather));
    assert_eq!(group.vote(2, 1), Some(Vote::Ok), "no other replica knows the closed timestamp");
    assert!(group.is_settled_what_is_settled(1, early.at));
}

/// Only n3 knows that a transaction has committed, and settles it in a view that is bypassed. The
/// other replicas have it as prepared, and learn of the commit from n3 once that has joined their
/// view.
#[test]
fn outcomes_known_only_to_a_bypassed_view_are_sent_again() {
    let mut group = Group::of(3);
    group.commits(9, 90);
    let early = writes(1, 10, "k");
    (0..3).for_each(|at| group.proposes(at, 1, &early));
    group.step(1, |replica, out| replica.close(now(), out));
    let end = InconsistentOp::Ended(End::Commit(early.clone()));
    group.tells(2, Message::Operation(Said::Tell { id: id(2), op: end }));
    group.heard[0] = false;
    group.step(2, |replica, out| replica.change_view(now(), out));
    group.heard = vec![true, true, false];
    group.fires(2, Timer::Operations(Waits::Gather));
    assert!(group.replicas[2].0.settled() >= early.at);
    let bypassed = group.replicas[2].0.operations().began();
    group.step(2, |replica, out| replica.stored(bypassed, 0, out));
    assert_eq!(group.replicas[2].0.operations().has_stored(), bypassed);
    group.fires(1, Timer::Operations(Waits::View));
    group.fires(0, Timer::Operations(Waits::Gather));
    let has = |group: &Group, at: usize| group.stores[at].contains_key(&early.writes[0].key);
    assert_eq!([0, 1, 2].map(|at| has(&group, at)), [false, false, true], "it is prepared there");
    group.heard = vec![true; 3];
    group.fires(2, Timer::Operations(Waits::Repeat));
    let whole = [0, 2].map(|at| group.replicas[at].0.operations().began());
    assert_eq!(whole[0], whole[1]);
    // The state that n3 has durably of the other view says nothing of this one, and never counts.
    let stored = |group: &Group| group.replicas[2].0.operations().has_stored();
    assert_eq!(stored(&group), View::default());
    group.step(2, |replica, out| replica.stored(bypassed, 0, out));
    assert_eq!(stored(&group), View::default());
    group.step(2, |replica, out| replica.stored(whole[1], 0, out));
    assert_eq!(stored(&group), whole[1]);
    // A recovery of it does not get the answer from n3 that it was never prepared.
    let (transaction, through) = (early.transaction, early.at);
    for number in [3, 4] {
        let op = Op::Consensus(ConsensusOp::Resolve { transaction, through });
        let propose = Said::Propose { id: id(number), op, newest: View::of(0) };
        (0..3).for_each(|at| group.tells(at, Message::Operation(propose.clone())));
        let said = [0, 1, 2].map(|at| {
            let record = group.replicas[at].0.operations().record();
            record.get(&id(number)).and_then(|entry| entry.state.result().cloned())
        });
        assert!(!said.contains(&Some(ConsensusResult::Stands(TxnStatus::Never))), "{said:?}");
        group.begins_another_view(0);
    }
    assert_eq!([0, 1, 2].map(|at| has(&group, at)), [true; 3]);
}

/// n3 is away, so that the records of the others keep what is settled: the abort of one
/// transaction, and an earlier attempt of another one. Their other shards have both of them
/// prepared. (Campaigns found the second one, seeds 31200474 and 31200857: its recovery began view
/// after view.)
#[test]
fn what_is_settled_and_not_forgotten_keeps_no_recovery_from_an_answer() {
    let mut group = Group::of(3);
    group.heard[2] = false;
    let (aborted, first) = (writes(1, 10, "a"), writes(2, 20, "b"));
    let second = Proposal { attempt: 1, at: at(NOW), ..first.clone() };
    let transaction = aborted.transaction;
    let end = InconsistentOp::Ended(End::Abort { transaction, at: aborted.at });
    for replica in 0..2 {
        for (number, proposal) in [(1, &aborted), (2, &first), (3, &second)] {
            group.proposes(replica, number, proposal);
        }
        group.tells(replica, Message::Operation(Said::Tell { id: id(4), op: end.clone() }));
    }
    group.commits(9, 90);
    for _ in 0..2 {
        group.step(0, |replica, out| replica.close(now(), out));
        group.fires(0, Timer::Operations(Waits::Gather));
    }
    assert!((first.at..second.at).contains(&group.replicas[0].0.settled()));
    assert_eq!(group.vote(0, 2), Some(Vote::Ok), "the record keeps the first attempt");
    for numbers in [[5, 6], [7, 8]] {
        for (number, transaction) in numbers.into_iter().zip([transaction, first.transaction]) {
            let op = Op::Consensus(ConsensusOp::Resolve { transaction, through: at(NOW) });
            let propose = Said::Propose { id: id(number), op, newest: View::of(0) };
            (0..2).for_each(|at| group.tells(at, Message::Operation(propose.clone())));
        }
        group.begins_another_view(0);
    }
    let stands = |at: usize, number| {
        let entry = group.replicas[at].0.operations().record().get(&id(number))?;
        entry.state.result().cloned()
    };
    let known = [TxnStatus::Never, TxnStatus::Prepared(second)];
    for (number, status) in [7, 8].into_iter().zip(known) {
        let answers = [0, 1].map(|at| stands(at, number));
        assert_eq!(answers, [(); 2].map(|()| Some(ConsensusResult::Stands(status.clone()))));
    }
}

/// All replicas know the closed timestamp. n3 settles it in a view that no other one learns of. The
/// next view is merged from n2 and n1, which have received a late proposal.
#[test]
fn no_proposal_is_accepted_at_or_below_closed() {
    let mut group = Group::of(3);
    group.commits(9, 90);
    group.step(1, |replica, out| replica.close(now(), out));
    let late = writes(1, 10, "k");
    group.proposes(0, 1, &late);
    group.heard[0] = false;
    group.step(2, |replica, out| replica.change_view(now(), out));
    group.heard = vec![true, true, false];
    group.fires(2, Timer::Operations(Waits::Gather));
    assert!(group.replicas[2].0.settled() >= late.at);
    group.fires(1, Timer::Operations(Waits::View));
    group.fires(0, Timer::Operations(Waits::Gather));
    assert!(group.vote(0, 1).is_some());
    assert!(group.is_settled_what_is_settled(1, late.at));
}

/// n1 and n3 have voted yes, so the client has decided. But a view begins with another result, and
/// another view has forgotten that. (A random world of three replicas, seed 1491 of that day.)
#[test]
fn what_was_decided_in_an_earlier_view_is_not_the_result_once_that_is_forgotten() {
    let mut group = Group::of(3);
    let (early, later) = (writes(1, 10, "k"), writes(2, 20, "k"));
    group.tells(
        1,
        Message::Operation(Said::Tell { id: id(2), op: InconsistentOp::Ended(End::Commit(later)) }),
    );
    [0, 2].into_iter().for_each(|at| group.proposes(at, 1, &early));
    group.step(1, |replica, out| replica.close(now(), out));
    assert!(matches!(group.vote(0, 1), Some(Vote::Retry(_))));
    (0..3).for_each(|at| group.step(at, |replica, out| replica.stored(View::of(1), 0, out)));
    group.step(0, |replica, out| replica.change_view(now(), out));
    assert_eq!(group.vote(0, 1), None);
    group.proposes(0, 1, &early);
    let (result, view) = (Some(ConsensusResult::Vote(Vote::Ok)), View::of(0));
    group.tells(
        0,
        Message::Operation(Said::Finalize { id: id(1), result, newest: view, decided: view }),
    );
    assert_eq!(group.vote(0, 1), None);
}

/// Operations of the far future, operations that only a replica itself adds, questions about them,
/// and results of another kind of operation.
#[test]
fn messages_that_no_correct_peer_sends_are_dropped() {
    let mut group = Group::of(3);
    let transaction = TransactionId { node: 9, incarnation: 1, number: 1 };
    let far = NOW + 120_000_000_000;
    let tell = |op| Said::Tell { id: id(7), op };
    let propose = |op| Said::Propose { id: id(7), op, newest: View::of(0) };
    let name = writes(1, 10, "k").name();
    for said in [
        tell(InconsistentOp::Ended(End::Abort { transaction, at: at(far) })),
        tell(InconsistentOp::Ended(End::Commit(writes(1, far, "k")))),
        tell(InconsistentOp::Ended(End::Commit(name.clone()))),
        tell(InconsistentOp::Served(at(10))),
        tell(InconsistentOp::Over(Past { closed: at(10), settled: at(10) })),
        propose(Op::Inconsistent(InconsistentOp::Ended(End::Abort { transaction, at: at(10) }))),
        propose(Op::Consensus(ConsensusOp::Resolve { transaction, through: at(far) })),
        propose(Op::Consensus(ConsensusOp::Prepare(writes(1, far, "k")))),
        propose(Op::Consensus(ConsensusOp::Prepare(name))),
    ] {
        group.tells(0, Message::Operation(said));
        assert!(group.replicas[0].0.operations().record().is_empty());
    }
    group.proposes(0, 1, &writes(1, 10, "k"));
    for result in [Some(ConsensusResult::Stands(TxnStatus::Never)), None] {
        let finalize =
            Said::Finalize { id: id(1), result, newest: View::of(0), decided: View::of(0) };
        group.tells(0, Message::Operation(finalize));
        assert!(!group.replicas[0].0.operations().record().get(&id(1)).unwrap().state.is_final());
    }
}

/// A new replica copies what no record contains any more from the others, page by page. Before that
/// it serves nothing, and has nothing durably.
#[test]
fn a_new_replica_copies_what_is_settled() {
    let mut group = Group::of(3);
    for number in 1..4 {
        let key = ["a", "b", "c"][number as usize - 1];
        let proposal = writes(number, 10 + number, key);
        (0..3).for_each(|at| group.proposes(at, number, &proposal));
        let told = Said::Tell {
            id: id(100 + number),
            op: InconsistentOp::Ended(End::Commit(proposal.name())),
        };
        (0..3).for_each(|at| group.tells(at, Message::Operation(told.clone())));
    }
    for _ in 0..3 {
        group.step(0, |replica, out| replica.close(now(), out));
        for at in 0..3 {
            group.step(at, |replica, out| replica.stored(replica.operations().began(), 0, out));
        }
    }
    assert_eq!(group.replicas[0].0.operations().record().len(), 1, "that this much is over");
    let members = ReplicaSet::first((0..3).map(node).collect()).then([0, 1, 3].map(node).into());
    group.heard[2] = false;
    group.add(members.clone());
    assert!(group.replicas[3].0.is_copying());
    for at in 0..2 {
        group.step(at, |replica, out| replica.reconfigure(now(), members.clone(), out));
    }
    let leader = members
        .replicas
        .iter()
        .position(|node| *node == members.leader_of(View { epoch: 1, number: 0 }));
    group.fires(leader.expect("one of them"), Timer::Operations(Waits::Gather));
    assert_eq!(group.replicas[3].0.operations().began(), View { epoch: 1, number: 0 });
    assert!(group.replicas[3].0.is_copying(), "that is nowhere for good");
    group.step(3, |replica, out| replica.stored(replica.operations().began(), 0, out));
    assert!(!group.replicas[3].0.is_copying());
    assert_eq!(group.stores[3].keys().cloned().collect::<Vec<_>>(), ["a", "b", "c"].map(Key::from));
    // A session that knows only the former replicas is served by none of the new ones, except
    // settled state.
    let look = |at| Message::Look {
        id: id(9),
        at,
        range: KeyRange::all(),
        reverse: false,
        limit_rows: 1,
        epoch: 0,
    };
    group.tells(0, look(at(NOW)));
    assert_eq!(group.served, 0);
    group.tells(3, look(at(13)));
    assert_eq!(group.served, 1);
}

/// A replica that has a commit prepared accepts it by its name, and keeps it as a whole. Others
/// ignore it.
#[test]
fn a_commit_that_is_told_by_its_name_is_what_is_prepared() {
    let mut group = Group::of(3);
    let (prepared, another) = (writes(1, 10, "k"), writes(1, 20, "k"));
    group.proposes(0, 1, &prepared);
    for name in [another.name(), writes(2, 10, "k").name()] {
        group.tells(
            0,
            Message::Operation(Said::Tell {
                id: id(7),
                op: InconsistentOp::Ended(End::Commit(name)),
            }),
        );
        assert_eq!(group.replicas[0].0.operations().record().len(), 1, "only what was proposed");
    }
    let told = Said::Tell { id: id(7), op: InconsistentOp::Ended(End::Commit(prepared.name())) };
    (0..2).for_each(|at| group.tells(at, Message::Operation(told.clone())));
    let known = group.replicas[0].0.operations().record().get(&id(7)).map(|entry| entry.op.clone());
    assert_eq!(known, Some(Op::Inconsistent(InconsistentOp::Ended(End::Commit(prepared)))));
    assert!(group.replicas[1].0.operations().record().is_empty());
}

#[test]
fn a_client_that_reports_two_results_stops_no_other() {
    let mut group = Group::of(3);
    for (replica, vote) in [Vote::Ok, Vote::Abort, Vote::Abort].into_iter().enumerate() {
        group.proposes(replica, 1, &writes(1, 10, "k"));
        let result = Some(ConsensusResult::Vote(vote));
        let finalize =
            Said::Finalize { id: id(1), result, newest: View::of(0), decided: View::of(0) };
        group.tells(replica, Message::Operation(finalize));
    }
    group.begins_another_view(1);
    let votes: Vec<Option<Vote>> = (0..3).map(|replica| group.vote(replica, 1)).collect();
    assert!(votes[0].is_some() && votes.iter().all(|vote| *vote == votes[0]), "{votes:?}");
}

impl Group {
    /// Lets time pass at one replica, so that what it holds since then is due.
    fn passes(&mut self, at: usize, ns: u64) {
        let then = Reading::at(NOW + ns, Interval::around(NOW + ns, 1));
        self.step(at, |replica, out| replica.on_timer(then, Timer::Earlier, out));
    }

    /// Sends two proposals that write the same key, the later timestamp first.
    fn come_out_of_order(wait_ns: u64) -> Group {
        let mut group = Group::of(3);
        group.step(0, |replica, _| replica.wait(wait_ns));
        [20, 10]
            .into_iter()
            .for_each(|number| group.proposes(0, number, &writes(number, number, "k")));
        group
    }

    fn answered(&self, at: usize, number: u64) -> Option<Vote> {
        match self.replicas[at].0.operations().record().get(&id(number))?.state {
            State::Tentative(Some(ConsensusResult::Vote(vote))) => Some(vote),
            _ => None,
        }
    }
}

/// §6.6: without a delay the earlier one, which arrives later, is refused.
#[test]
fn proposals_that_wait_are_looked_at_in_the_order_of_their_timestamps() {
    let at_once = Group::come_out_of_order(0);
    assert_eq!(at_once.answered(0, 20), Some(Vote::Ok));
    assert!(matches!(at_once.answered(0, 10), Some(Vote::Retry(_))));
    assert!(!at_once.armed[0].contains(&Timer::Earlier), "nothing waits");
    let mut group = Group::come_out_of_order(5);
    assert!(group.armed[0].contains(&Timer::Earlier) && group.answers.is_empty());
    group.passes(0, 4);
    assert_eq!((group.answered(0, 20), group.answered(0, 10)), (None, None));
    group.passes(0, 5);
    assert_eq!((group.answered(0, 20), group.answered(0, 10)), (Some(Vote::Ok), Some(Vote::Ok)));
    assert_eq!(group.answers.len(), 2);
}

/// n1 has just begun to delay proposals. Earlier arrivals, outcomes, and repetitions of answered
/// proposals are not delayed.
#[test]
fn only_reproposed_operations_wait() {
    let mut group = Group::of(3);
    let (early, late) = (writes(1, 10, "k"), writes(2, 20, "k"));
    group.proposes(0, 1, &early);
    group.step(0, |replica, _| replica.wait(5));
    group.proposes(0, 1, &early);
    assert_eq!(group.answers.len(), 2, "it says again what it has said");
    (0..3).for_each(|_| group.proposes(0, 2, &late));
    assert_eq!((group.answers.len(), group.answered(0, 2)), (2, None));
    let finalize = Said::Finalize {
        id: id(2),
        result: Some(ConsensusResult::Vote(Vote::Ok)),
        newest: View::of(0),
        decided: View::of(0),
    };
    group.tells(0, Message::Operation(finalize));
    assert!(matches!(group.answers.last(), Some(Message::Operation(Said::Missing { .. }))));
    group.tells(
        0,
        Message::Operation(Said::Tell { id: id(3), op: InconsistentOp::Ended(End::Commit(early)) }),
    );
    assert!(group.replicas[0].0.operations().record().get(&id(3)).is_some());
    group.step(0, |replica, _| replica.wait(0));
    group.passes(0, 5);
    assert_eq!(
        (group.answers.len(), group.answered(0, 2)),
        (4, Some(Vote::Ok)),
        "once, and also if nothing waits any more"
    );
    group.proposes(0, 4, &writes(4, 30, "k"));
    assert_eq!(group.answered(0, 4), Some(Vote::Ok));
}

/// Held proposals are lost when the replica leaves its view, like messages. Their clients repeat
/// them.
#[test]
fn a_view_begins_without_what_waits() {
    let mut group = Group::come_out_of_order(5);
    group.begins_another_view(1);
    assert!(group.replicas[0].0.operations().record().is_empty());
    group.passes(0, 5);
    let votes = [group.answered(0, 10), group.answered(0, 20)];
    assert!(votes.iter().all(Option::is_some), "it is asked in the next view: {votes:?}");
}

/// n1's clock is an hour ahead: it serves a snapshot an hour ahead, and closes timestamps an hour
/// ahead. Once views have begun with that, the other replicas continue to write by their own
/// clocks.
#[test]
fn a_clock_that_is_ahead_by_an_hour_does_not_block_writes() {
    const HOUR: u64 = 3_600_000_000_000;
    let mut group = Group::of(3);
    group.commits(9, 90);
    group.clocks[0] += HOUR;
    let (range, reverse) = (KeyRange::all(), false);
    group.tells(
        0,
        Message::Look { id: id(2), at: at(NOW + HOUR), range, reverse, limit_rows: 1, epoch: 0 },
    );
    assert_eq!(group.served, 1);
    let now = group.now(0);
    group.step(0, |replica, out| replica.close(now, out));
    (0..2).for_each(|leader| group.begins_another_view(leader));
    for replica in &group.replicas {
        assert!(replica.0.operations().began() > View::of(2), "views have begun");
        assert!(replica.0.settled() < at(NOW), "nothing of the future is settled");
    }
    // Some seconds later.
    group.clocks.iter_mut().for_each(|clock| *clock += 5 * NOW);
    let later = writes(3, 6 * NOW, "k");
    (1..3).for_each(|at| group.proposes(at, 3, &later));
    let answered: Vec<Option<Vote>> = (1..3).map(|at| group.answered(at, 3)).collect();
    assert_eq!(answered, [Some(Vote::Ok); 2]);
}

#[test]
fn rules_that_seeds_rarely_break_are_covered_by_schedules() {
    let schedules: [(Rule, fn()); 5] = [
        (txn_rules::CLOCKS_UNCAPPED, a_clock_that_is_ahead_by_an_hour_does_not_block_writes),
        (
            replication_rules::OLDER_VIEWS_NOT_COUNTED,
            no_write_lands_below_a_snapshot_served_in_an_older_view,
        ),
        (
            tapir_rules::SETTLES_UNCLOSED,
            what_is_closed_is_not_settled_by_a_view_that_may_be_bypassed,
        ),
        (
            replication_rules::OLD_DECISIONS_COUNT,
            what_was_decided_in_an_earlier_view_is_not_the_result_once_that_is_forgotten,
        ),
        (txn_rules::CLOSED_SAYS_YES, no_proposal_is_accepted_at_or_below_closed),
    ];
    for (rule, schedule) in schedules {
        let broken = std::thread::spawn(move || {
            plant(Some(rule), true);
            schedule();
        });
        assert!(broken.join().is_err(), "{rule:?} was not noticed");
    }
}
