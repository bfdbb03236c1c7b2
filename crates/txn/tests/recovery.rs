//! Schedules of TAPIR's coordinator and its recovery. Each shard is one replica here, and its
//! operations can be held up.

use futures::channel::oneshot;
use meridian_clock::rules;
use meridian_clock::{Interval, Reading, Timestamp};
use meridian_machine::planted::plant;
use meridian_machine::{Incarnation, NodeId, ShardId};
use meridian_mvcc::{Chunk, Key, KeyRange, Value};
use meridian_txn::tapir::{
    Common, ConsensusOp, ConsensusResult, End, Guarantee, Participant, ReadResult, Shards,
    SnapshotRead, Turn, TxnClient, TxnStatus, recover,
};
use meridian_txn::{
    Begin, Conflict, Database, Failure, Future, Lock, Mode, Node, Outcome, SchemaVersion,
    Transaction,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

const A: ShardId = ShardId(0);
const B: ShardId = ShardId(1);
/// The first shard has the keys below this one.
const MIDDLE: &str = "b";

/// Two shards, and true time.
struct World {
    now: u64,
    participants: [Participant; 2],
    versions: BTreeMap<Key, BTreeMap<Timestamp, Option<Value>>>,
    /// The operations of a node on a shard that do not arrive yet.
    held: Vec<(u32, ShardId, oneshot::Receiver<()>)>,
    pauses: Vec<(u64, oneshot::Sender<()>)>,
    /// The longest round trip that nodes have measured, in nanoseconds.
    round_trip_ns: u64,
}

/// A node, with the skew of its clock from true time and the half width of its intervals.
struct TestNode {
    node: u32,
    skew: i64,
    half: u64,
    numbers: Mutex<u64>,
    shards: Arc<Mutex<World>>,
}

fn keys_of(shard: ShardId) -> KeyRange {
    let (first, second) = KeyRange::all().cut(&Key::from(MIDDLE));
    if shard == A { first } else { second }
}

fn shards(guarantee: Guarantee) -> Arc<Mutex<World>> {
    let participants = [A, B].map(|shard| Participant::new(guarantee, shard, keys_of(shard)));
    let (versions, held, pauses) = (BTreeMap::new(), Vec::new(), Vec::new());
    let (now, round_trip_ns) = (1_000, 0);
    Arc::new(Mutex::new(World { now, participants, versions, held, pauses, round_trip_ns }))
}

fn txn_client(
    shards: &Arc<Mutex<World>>,
    guarantee: Guarantee,
    node: u32,
    (skew, half): (i64, u64),
) -> TxnClient<TestNode> {
    let (numbers, shards) = (Mutex::default(), Arc::clone(shards));
    TxnClient::new(Arc::new(TestNode { node, skew, half, numbers, shards }), guarantee)
}

/// Holds up a node's next operation on a shard until the returned sender is used or dropped.
fn hold(shards: &Mutex<World>, node: u32, shard: ShardId) -> oneshot::Sender<()> {
    let (release, held) = oneshot::channel();
    shards.lock().unwrap().held.push((node, shard, held));
    release
}

/// Advances true time.
fn pass(shards: &Mutex<World>, until: u64) {
    let mut shards = shards.lock().unwrap();
    shards.now = until;
    shards.pauses.retain(|(due, _)| *due > until); // Dropping a sender wakes its pause.
}

impl Node for TestNode {
    fn now(&self) -> Reading {
        let now = self.shards.lock().unwrap().now;
        Reading::at(now, Interval::around(now.saturating_add_signed(self.skew), self.half))
    }

    fn here(&self) -> (NodeId, Incarnation) {
        (NodeId(self.node), Incarnation(1))
    }

    fn new_number(&self) -> u64 {
        let mut number = self.numbers.lock().unwrap();
        *number += 1;
        *number
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn random_below(&self, _: usize) -> usize {
        0
    }

    fn is_closed(&self) -> bool {
        false
    }

    fn is_full(&self) -> bool {
        false
    }

    fn reaches(&self, _: NodeId) -> bool {
        true
    }

    async fn sleep_until(&self, until: u64) {
        let (due, pause) = oneshot::channel();
        self.shards.lock().unwrap().pauses.push((until, due));
        let _ = pause.await;
    }
}

impl Shards for TestNode {
    type Node = Self;

    fn node(&self) -> &Self {
        self
    }

    fn route(&self, key: &Key) -> (ShardId, KeyRange) {
        let shard = if keys_of(A).contains(key) { A } else { B };
        (shard, keys_of(shard))
    }

    fn route_below(&self, _: Option<&Key>) -> (ShardId, KeyRange) {
        unreachable!("no test reads backwards")
    }

    fn round_trip_ns(&self) -> u64 {
        self.shards.lock().unwrap().round_trip_ns
    }

    async fn take_turn(
        &self,
        key: (ShardId, Key),
        ranges: Vec<KeyRange>,
        _: u64,
        _: u64,
    ) -> Option<Turn> {
        let (at, number) = (NodeId(1), self.new_number());
        Some(Turn { key, ranges, at, number, waited: false })
    }

    async fn read(
        &self,
        _: ShardId,
        range: &KeyRange,
        _: (bool, usize),
        _: bool,
        _: u64,
    ) -> Option<Result<ReadResult, Failure>> {
        let shards = self.shards.lock().unwrap();
        let mut chunk = Chunk::default();
        for (key, versions) in shards.versions.iter().filter(|(key, _)| range.contains(key)) {
            match versions.last_key_value() {
                Some((at, Some(value))) => {
                    chunk.rows.push((key.clone(), value.clone()));
                    chunk.at.push(*at);
                }
                Some((at, None)) => chunk.gone.push((key.clone(), *at)),
                None => {}
            }
        }
        Some(Ok(ReadResult { chunk, through: Timestamp::ZERO }))
    }

    async fn look(
        &self,
        _: ShardId,
        _: &KeyRange,
        _: Timestamp,
        _: (bool, usize),
        _: u64,
    ) -> Option<Result<SnapshotRead, Failure>> {
        unreachable!("no test reads a snapshot")
    }

    async fn ask(&self, shard: ShardId, question: ConsensusOp, _: u64) -> Option<Common> {
        let held = {
            let mut shards = self.shards.lock().unwrap();
            let place =
                shards.held.iter().position(|(node, of, _)| (*node, *of) == (self.node, shard));
            place.map(|place| shards.held.remove(place).2)
        };
        if let Some(held) = held {
            let _ = held.await;
        }
        let now = self.now();
        let participant = &mut self.shards.lock().unwrap().participants[shard.0 as usize];
        let answer = match question {
            ConsensusOp::Prepare(proposal) => {
                ConsensusResult::Vote(participant.prepare(now, &proposal))
            }
            ConsensusOp::Resolve { transaction, .. } => {
                let status = participant.resolve(transaction);
                if status == TxnStatus::Open {
                    // A view begins with the operation, and with the prepared proposals.
                    let prepared: Vec<_> = participant.prepared().cloned().collect();
                    let decided: Vec<_> =
                        prepared.iter().map(|one| (one, meridian_txn::tapir::Vote::Ok)).collect();
                    participant.sync(now, &decided, &[transaction], &[]);
                }
                ConsensusResult::Stands(status)
            }
        };
        Some(Common { answer, by_all: false })
    }

    fn send(&self, shard: ShardId, end: End) {
        let mut shards = self.shards.lock().unwrap();
        let Some((at, writes)) = shards.participants[shard.0 as usize].end(&end) else { return };
        for write in writes {
            shards.versions.entry(write.key).or_default().insert(at, write.value);
        }
    }
}

fn poll<T>(future: &mut (impl std::future::Future<Output = T> + Unpin)) -> Option<T> {
    match std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

fn done<T>(future: impl std::future::Future<Output = T>) -> T {
    poll(&mut Box::pin(future)).expect("the future is not held up")
}

fn begin(txn_client: &TxnClient<TestNode>) -> Box<dyn Transaction> {
    done(txn_client.begin(Begin::new(Mode::ReadWrite))).expect("the transaction begins")
}

/// Returns the commit of a transaction that has read some keys and writes others.
fn commits(
    txn_client: &TxnClient<TestNode>,
    reads: &[&str],
    writes: &[&str],
) -> Future<'static, Outcome> {
    let mut transaction = begin(txn_client);
    for key in reads {
        done(transaction.get(&Key::from(*key), Lock::Shared)).expect("the read succeeds");
    }
    for key in writes {
        transaction.put(Key::from(*key), Some(Value::from("1"))).expect("the write is buffered");
    }
    transaction.commit()
}

fn aborted(why: Conflict) -> Option<Outcome> {
    Some(Outcome::Aborted { why })
}

/// Trap A.2-1: the third transaction reads a and writes b at 50, and is prepared at a's shard only.
/// The first writes a at 100, and its client receives the outcome. The second begins after that,
/// and writes b at 10. Returns the outcome of the third transaction, and the timestamps of the
/// first and the second.
fn inversion(guarantee: Guarantee) -> (Option<Outcome>, Vec<Timestamp>) {
    let shards = shards(guarantee);
    let clocks = [(1, 0), (2, -90), (3, -50)]
        .map(|(node, skew)| txn_client(&shards, guarantee, node, (skew, 100)));
    let slow = hold(&shards, 3, B);
    let mut third = commits(&clocks[2], &["a"], &["b"]);
    assert_eq!(poll(&mut third), None, "its proposal to the other shard is on its way");
    let mut first = commits(&clocks[0], &[], &["a"]);
    let mut now = 1_000;
    let at_first = loop {
        if let Some(Outcome::Committed { at }) = poll(&mut first) {
            break at;
        }
        now += 10;
        pass(&shards, now);
    };
    let mut second = commits(&clocks[1], &[], &["b"]);
    let at_second = loop {
        if let Some(Outcome::Committed { at }) = poll(&mut second) {
            break at;
        }
        now += 10;
        pass(&shards, now);
    };
    drop(slow);
    let mut outcome = None;
    for _ in 0..100 {
        outcome = outcome.or_else(|| poll(&mut third));
        now += 10;
        pass(&shards, now);
    }
    (outcome, vec![at_first, at_second])
}

#[test]
fn real_time_is_kept_by_the_wait_for_the_final_timestamp() {
    let (outcome, at) = inversion(Guarantee::StrictlySerializable);
    assert_eq!(
        outcome,
        aborted(Conflict::Overwritten),
        "its timestamp is too early for one transaction, and it has not read the other's write"
    );
    assert!(
        at[0] < at[1],
        "a transaction that was acknowledged before another began is ordered before it"
    );
}

#[test]
fn without_commit_wait_history_is_serializable_but_not_strict() {
    for guarantee in [Guarantee::Serializable, Guarantee::StrictlySerializable] {
        plant((guarantee == Guarantee::StrictlySerializable).then_some(rules::COMMIT_WAIT), true);
        let (outcome, at) = inversion(guarantee);
        plant(None, false);
        let Some(Outcome::Committed { at: between }) = outcome else { panic!("{outcome:?}") };
        assert!(
            at[1] < between && between < at[0],
            "the transaction that began last is ordered first"
        );
    }
}

/// A session ends after it has sent its transaction's outcome to the shards, and before its client
/// has received it.
#[test]
fn a_session_that_ends_during_commit_wait_has_committed() {
    let shards = shards(Guarantee::StrictlySerializable);
    let [gone, other] =
        [1, 2].map(|node| txn_client(&shards, Guarantee::StrictlySerializable, node, (0, 10)));
    let release = hold(&shards, 1, B);
    let mut commit = commits(&gone, &["a"], &["a", "b"]);
    assert_eq!(poll(&mut commit), None);
    let txn = shards.lock().unwrap().participants[0]
        .prepared()
        .next()
        .map(|one| one.transaction)
        .expect("prepared");
    drop(release);
    assert_eq!(
        poll(&mut commit),
        None,
        "the outcome was sent to every shard, and the commit wait is under way"
    );
    drop(commit);
    assert_eq!(resolved(&shards, &other, txn), Some(true));
    assert_eq!(shards.lock().unwrap().versions.len(), 2);
}

/// Recovers a transaction until its outcome is known.
fn resolved(
    shards: &Mutex<World>,
    by: &TxnClient<TestNode>,
    txn: meridian_txn::TransactionId,
) -> Option<bool> {
    let local_node = Arc::clone(by.shards());
    let mut recovery = Box::pin(async move { recover(&*local_node, txn, &[A, B], u64::MAX).await });
    for _ in 0..5 {
        if let Some(outcome) = poll(&mut recovery) {
            return outcome;
        }
        let now = shards.lock().unwrap().now;
        pass(shards, now + 100_000_000);
    }
    panic!("the recovery does not end");
}

/// §5.2.2, the first case: one shard has recorded the outcome, and the other has not received it.
#[test]
fn a_recorded_outcome_is_kept() {
    for commits_it in [true, false] {
        let shards = shards(Guarantee::StrictlySerializable);
        let [gone, other] =
            [1, 2].map(|node| txn_client(&shards, Guarantee::StrictlySerializable, node, (0, 10)));
        let mut commit = commits(&gone, &[], &["a", "b"]);
        let release = hold(&shards, 1, B);
        assert_eq!(poll(&mut commit), None);
        let proposal =
            shards.lock().unwrap().participants[0].prepared().next().cloned().expect("prepared");
        let (txn, at) = (proposal.transaction, proposal.at);
        let mut its_part = proposal.clone();
        Arc::make_mut(&mut its_part.footprint).writes[0].key = Key::from("b");
        let now = other.shards().now();
        shards.lock().unwrap().participants[1].prepare(now, &its_part);
        let end =
            if commits_it { End::Commit(proposal) } else { End::Abort { transaction: txn, at } };
        other.shards().send(A, end);
        assert_eq!(resolved(&shards, &other, txn), Some(commits_it));
        let there = shards.lock().unwrap().participants[1].ended(txn);
        assert_eq!(there, Some(commits_it), "the other shard receives the outcome");
        drop((release, commit));
    }
}

/// The second case: a shard has not voted `Ok`. It never will, and the coordinator that was only
/// slow receives that too.
#[test]
fn what_a_shard_has_not_said_yes_to_is_aborted_for_good() {
    let shards = shards(Guarantee::StrictlySerializable);
    let [slow, other] =
        [1, 2].map(|node| txn_client(&shards, Guarantee::StrictlySerializable, node, (0, 10)));
    let release = hold(&shards, 1, B);
    let mut commit = commits(&slow, &[], &["a", "b"]);
    assert_eq!(poll(&mut commit), None);
    let txn = shards.lock().unwrap().participants[0]
        .prepared()
        .next()
        .map(|one| one.transaction)
        .expect("prepared");
    assert_eq!(resolved(&shards, &other, txn), Some(false));
    drop(release);
    assert_eq!(poll(&mut commit), aborted(Conflict::Overwritten), "its late proposal is refused");
    assert!(shards.lock().unwrap().versions.is_empty());
}

/// The third case: all shards have voted `Ok`, and no node has received all votes.
#[test]
fn any_recovery_commits_what_all_shards_accepted() {
    let shards = shards(Guarantee::StrictlySerializable);
    let [gone, other] =
        [1, 2].map(|node| txn_client(&shards, Guarantee::StrictlySerializable, node, (0, 10)));
    let (of_a, of_b) = (hold(&shards, 1, A), hold(&shards, 1, B));
    let mut commit = commits(&gone, &[], &["a", "b"]);
    assert_eq!(poll(&mut commit), None);
    drop(of_a);
    assert_eq!(poll(&mut commit), None);
    let proposal =
        shards.lock().unwrap().participants[0].prepared().next().cloned().expect("prepared");
    let mut its_part = proposal.clone();
    Arc::make_mut(&mut its_part.footprint).writes[0].key = Key::from("b");
    let now = other.shards().now();
    shards.lock().unwrap().participants[1].prepare(now, &its_part);
    drop((commit, of_b)); // The coordinator fails before it receives the second vote.
    assert_eq!(resolved(&shards, &other, proposal.transaction), Some(true));
    assert_eq!(
        resolved(&shards, &other, proposal.transaction),
        Some(true),
        "a repeated recovery has the same outcome"
    );
    assert_eq!(shards.lock().unwrap().versions.len(), 2);
}

/// A replica was slow when it last answered, and its measured distance stays. A transaction that
/// has its turn lets the proposal arrive there first, and still proposes no timestamp so far ahead
/// that every replica rejects it. (A campaign found this: seed 31200630 made no progress.)
#[test]
fn a_turn_is_of_use_although_a_replica_was_slow() {
    let shards = shards(Guarantee::Serializable);
    shards.lock().unwrap().round_trip_ns = 2_000_000_000;
    let [one, other] =
        [1, 2].map(|node| txn_client(&shards, Guarantee::Serializable, node, (0, 0)));
    let mut overwritten = begin(&one);
    done(overwritten.get(&"a".into(), Lock::Shared)).expect("the read succeeds");
    assert!(matches!(done(commits(&other, &[], &["a"])), Outcome::Committed { .. }));
    assert_eq!(Some(done(overwritten.commit())), aborted(Conflict::Overwritten));
    // The key is contested now.
    let outcome = done(commits(&one, &["a"], &["a"]));
    assert!(
        matches!(outcome, Outcome::Committed { at } if at.nanos > 100_000_000),
        "in its turn: {outcome:?}"
    );
}

/// A transaction waits for another one of its session, as DDL does for an id, and both meet keys of
/// one turn. (A comparison with PostgreSQL found this: each id took 100 ms, until the turn ended.)
#[test]
fn a_transaction_gives_its_turn_up_for_one_that_it_waits_for() {
    let shards = shards(Guarantee::Serializable);
    let [one, other] =
        [1, 2].map(|node| txn_client(&shards, Guarantee::Serializable, node, (0, 0)));
    let mut overwritten = begin(&one);
    done(overwritten.get(&"a".into(), Lock::Shared)).expect("the read succeeds");
    for key in ["a", "aa"] {
        overwritten.put(Key::from(key), Some(Value::from("1"))).expect("the write is buffered");
    }
    assert!(matches!(done(commits(&other, &[], &["a"])), Outcome::Committed { .. }));
    assert_eq!(Some(done(overwritten.commit())), aborted(Conflict::Overwritten));
    // Both keys are contested now, and share a turn.
    let mut outer = begin(&one);
    done(outer.get(&"a".into(), Lock::Shared)).expect("the read succeeds");
    let (mut inner, key) = (begin(&one), Key::from("aa"));
    let mut read = inner.get(&key, Lock::Shared);
    assert!(poll(&mut read).is_none(), "the turn is taken");
    outer.give_way();
    poll(&mut read).expect("the turn is free").expect("the read succeeds");
}

/// A schema changes in both shards of its table. A transaction that was planned for the version
/// before does not commit any more, whether it has read the version row before or not.
#[test]
fn what_was_planned_for_a_schema_that_has_changed_does_not_commit() {
    let shards = shards(Guarantee::Serializable);
    let [one, other] =
        [1, 2].map(|node| txn_client(&shards, Guarantee::Serializable, node, (0, 0)));
    let version = |version| SchemaVersion { table: 7, version };
    let plan = |txn_client: &TxnClient<TestNode>, of: u64, reads: &[&str]| {
        let mut transaction = begin(txn_client);
        transaction.planned_for(version(of));
        for key in reads {
            done(transaction.get(&Key::from(*key), Lock::Shared)).expect("the read succeeds");
        }
        transaction.put("c".into(), Some(Value::from("1"))).expect("the write is buffered");
        transaction
    };
    let (early, late) = (plan(&one, 1, &["a"]), plan(&one, 1, &[]));
    let mut change = begin(&other);
    change.change_schema(version(2), vec![KeyRange::all()]).expect("the change is buffered");
    assert!(matches!(done(change.commit()), Outcome::Committed { .. }));
    assert_eq!(shards.lock().unwrap().versions.len(), 2, "there is a row in each shard");
    let changed = Conflict::SchemaChanged { table: 7 };
    assert_eq!(Some(done(early.commit())), aborted(changed.clone()), "its other shard refuses it");
    assert_eq!(Some(done(late.commit())), aborted(changed.clone()));
    let mut reads = begin(&one);
    reads.planned_for(version(1));
    assert_eq!(done(reads.get(&"a".into(), Lock::Shared)), Err(Failure::Aborted(changed)));
    assert!(matches!(done(plan(&one, 2, &["a"]).commit()), Outcome::Committed { .. }));
    // A transaction that has read the version row before the next change is validated.
    let looked = plan(&one, 2, &["a", "c"]);
    let mut change = begin(&other);
    change.change_schema(version(3), vec![KeyRange::all()]).expect("the change is buffered");
    assert!(matches!(done(change.commit()), Outcome::Committed { .. }));
    assert_eq!(Some(done(looked.commit())), aborted(Conflict::Overwritten));
}

/// The session validates the reads before it reports an error that follows from them.
#[test]
fn reads_are_validated_on_request() {
    let shards = shards(Guarantee::Serializable);
    let [one, other] =
        [1, 2].map(|node| txn_client(&shards, Guarantee::Serializable, node, (0, 0)));
    let mut reads = begin(&one);
    assert_eq!(done(reads.get(&"a".into(), Lock::Shared)), Ok(None));
    assert_eq!(done(reads.validate()), Ok(()));
    assert!(matches!(done(commits(&other, &[], &["a"])), Outcome::Committed { .. }));
    assert_eq!(done(reads.validate()), Err(Failure::Aborted(Conflict::Overwritten)));
    assert_eq!(done(begin(&one).validate()), Ok(()), "a transaction without reads is valid");
}
