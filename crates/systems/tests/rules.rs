//! The protocol's promises one by one, on a member whose clock and disk the test moves by hand. It
//! is alone in its group, or has a second member of which only the messages exist.

use meridian_clock::{Interval, Reading, Timestamp};
use meridian_machine::planted::{Rule, plant};
use meridian_machine::{
    Address, DatabaseId, Effect as Do, Health, Incarnation, Machine, NodeId, Outbox, Position,
    Role, ShardId,
};
use meridian_mvcc::{Key, KeyRange, Value, Write, local};
use meridian_replication::group::{self, Config, Index, Record, Restored, Term};
use meridian_systems::locking::{Effect, Message, Recovered, Replica};
use meridian_systems::locking::{Serve, rules as participant_rules};
use meridian_systems::shard::rules as shard_rules;
use meridian_systems::shard::{self, Timer};
use meridian_systems::{Protocol, clock_si, hybrid_time};
use meridian_txn::locking::TransactionId;
use meridian_txn::locking::rules as locking_rules;
use meridian_txn::shards::{LockEpoch, Request, RequestBody, Response, Spent};
use meridian_txn::{Age, Conflict, Lock};
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
const EPSILON: u64 = 4 * MS;

#[derive(Default)]
struct Node {
    replica: Option<Replica>,
    out: Outbox<Replica>,
    now: u64,
    timers: BTreeMap<Timer, u64>,
    disk: Vec<Record>,
    applied: (Index, Term),
    newest: Timestamp,
    /// The shard's local rows.
    rows: BTreeMap<Key, Value>,
    /// The highest snapshot that sessions of this node read without a request.
    read_lease: Timestamp,
    /// The replies of the member. Installs are added as `Committed` with request 0, so that their
    /// order with replies is visible.
    said: Vec<Response>,
    /// True if the member does not know the time.
    fenced: bool,
    /// A second member of the group, simulated by its messages; `None` if the member is alone.
    voter: Option<Voter>,
    /// A protocol other than Spanner.
    protocol: Option<&'static Protocol>,
    /// The causal token of requests.
    token: Option<Timestamp>,
}

/// Returns the answer of a member that agrees to everything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Voter {
    Here,
    CutOff,
}

fn agrees(said: &group::Message) -> Option<group::Message> {
    let since = Index(0);
    match said {
        group::Message::PreVote { term, .. } => {
            Some(group::Message::PreVoteReply { term: *term, granted: true, since })
        }
        group::Message::Vote { term, .. } => {
            Some(group::Message::VoteReply { term: *term, granted: true, since })
        }
        group::Message::Append { term, prev_index, entries, asked_at, .. } => {
            let matched = entries.last().map_or(*prev_index, |entry| entry.index);
            Some(group::Message::Appended { term: *term, matched, granted: Some(*asked_at), since })
        }
        _ => None,
    }
}

fn client() -> Address {
    let (node, database, shard) = (NodeId(9), DatabaseId(1), ShardId(0));
    Address { node, incarnation: Incarnation(1), database, shard, role: Role::Coordinator(1) }
}

impl Node {
    fn reading(&self) -> Reading {
        match self.fenced {
            true => Reading { boot_ns: self.now, interval: Interval::ANY, health: Health::Fenced },
            false => Reading::at(self.now, Interval::around(self.now, EPSILON)),
        }
    }

    /// Restarts the member from its disk, with the clock at `now`.
    fn boot(&mut self, now: u64, applied: (Index, Term)) {
        (self.now, self.out, self.timers) = (now, Outbox::new(), BTreeMap::new());
        let members =
            if self.voter.is_some() { vec![NodeId(0), NodeId(1)] } else { vec![NodeId(0)] };
        let config = Config::new(NodeId(0), members, DatabaseId(1), ShardId(0));
        let mut config = shard::Config::from(config);
        if let Some(protocol) = self.protocol {
            config.policy = protocol.policy.expect("its shards have leaders");
            config.certifies = protocol.certifies();
        }
        let restored =
            Restored { records: self.disk.clone(), applied: applied.0, applied_term: applied.1 };
        let stored = applied.0 > Index(0);
        let agreed = if stored { self.newest } else { Timestamp::ZERO };
        let rows = if stored { self.rows.clone().into_iter().collect() } else { Vec::new() };
        let recovered =
            Recovered::new(0, KeyRange::all(), Vec::new(), &rows, agreed).expect("its own rows");
        let replica = Replica::new(config, 7, restored, recovered, self.reading(), &mut self.out);
        self.replica = Some(replica);
        self.settle();
    }

    fn step(&mut self, step: impl FnOnce(&mut Replica, Reading, &mut Outbox<Replica>)) {
        let now = self.reading();
        step(self.replica.as_mut().expect("it lives"), now, &mut self.out);
        self.settle();
    }

    /// Performs effects; the disk's at once.
    fn settle(&mut self) {
        loop {
            let effects: Vec<_> = self.out.drain().collect();
            let (mut durable, mut answers) = (None, Vec::new());
            for effect in effects {
                match effect {
                    Do::Send { message: Message::Response(reply), .. } => {
                        if let Response::Committed { at, .. } = &reply {
                            assert!(
                                self.read_lease >= *at,
                                "the next read on this node must find an answered commit"
                            );
                        }
                        self.said.push(reply);
                    }
                    Do::Send { message: Message::Group(said), .. }
                        if self.voter == Some(Voter::Here) =>
                    {
                        answers.extend(agrees(&said));
                    }
                    Do::Do(Effect::ReadLease(read_lease)) => self.read_lease = read_lease.through,
                    Do::Arm { timer, at } => drop(self.timers.insert(timer, at)),
                    Do::Disarm { timer } => drop(self.timers.remove(&timer)),
                    Do::Persist { position, record } => {
                        self.disk.push(record);
                        durable = Some(position);
                    }
                    Do::Do(Effect::Install { at, index, term, writes, .. }) => {
                        (self.applied, self.newest) = ((index, term), at);
                        let (rows, writes): (Vec<_>, Vec<_>) =
                            writes.into_iter().partition(|write| local::is(&write.key));
                        for row in rows {
                            match row.value {
                                Some(value) => drop(self.rows.insert(row.key, value)),
                                None => drop(self.rows.remove(&row.key)),
                            }
                        }
                        if !writes.is_empty() {
                            self.said.push(Response::Committed {
                                id: 0,
                                at,
                                spent: Spent::default(),
                            });
                        }
                    }
                    Do::Do(Effect::Serve(Serve { id, lock_epoch, at, .. })) => {
                        self.said.push(Response::Rows {
                            id,
                            lock_epoch,
                            at,
                            rows: Vec::new(),
                            rest: None,
                            committed_at: Vec::new(),
                            waited_ns: None,
                        });
                    }
                    _ => {}
                }
            }
            if durable.is_none() && answers.is_empty() {
                return;
            }
            durable.into_iter().for_each(|through| self.durable(through));
            let (now, from) =
                (self.reading(), Address::replica(NodeId(1), DatabaseId(1), ShardId(0)));
            for answer in answers {
                let replica = self.replica.as_mut().expect("it lives");
                replica.on_message(now, from, Message::Group(answer), &mut self.out);
            }
        }
    }

    fn durable(&mut self, through: Position) {
        let now = self.reading();
        self.replica.as_mut().expect("it lives").on_durable(now, through, &mut self.out);
    }

    /// Lets time pass, and fires timers on the way.
    fn pass(&mut self, nanos: u64) {
        let end = self.now + nanos;
        while let Some((timer, at)) =
            self.timers.iter().map(|(timer, at)| (*timer, *at)).min_by_key(|(_, at)| *at)
        {
            if at > end {
                break;
            }
            self.now = self.now.max(at);
            self.timers.remove(&timer);
            self.step(|replica, now, out| replica.on_timer(now, timer, out));
        }
        self.now = end;
    }

    fn ask(
        &mut self,
        number: u64,
        id: u64,
        lock_epoch: Option<LockEpoch>,
        body: RequestBody,
    ) -> Vec<Response> {
        let transaction = TransactionId { node: 9, incarnation: 1, number };
        let age = Age { began_ns: number, node: 9, number };
        let request = Request {
            transaction,
            age,
            id,
            lock_epoch,
            body,
            planned: Vec::new(),
            one_shot: None,
            token: self.token,
            snapshot: None,
            private: None,
        };
        self.said.clear();
        self.step(|replica, now, out| {
            replica.on_message(now, client(), Message::Request(request), out)
        });
        std::mem::take(&mut self.said)
    }

    /// Reads a key under a lock, and returns the lock's epoch.
    fn read(&mut self, number: u64, key: &str) -> LockEpoch {
        let range = KeyRange::point(Key::from(key));
        let read = RequestBody::Read {
            range,
            lock: Lock::Exclusive,
            reverse: false,
            limit_rows: 1,
            application: None,
            versions: false,
            nowait: false,
        };
        match self.ask(number, 1, None, read).as_slice() {
            [Response::Rows { lock_epoch, .. }] => *lock_epoch,
            other => panic!("{other:?}"),
        }
    }
}

fn commit(writes: Vec<Write>) -> RequestBody {
    RequestBody::Commit { writes, participants: Vec::new(), schema: None }
}

fn write(key: &str) -> RequestBody {
    commit(vec![Write { key: Key::from(key), value: Some(Value::from("1")) }])
}

fn serving(now: u64) -> Node {
    let mut node = Node::default();
    node.boot(now, Default::default());
    node.pass(10 * MS);
    assert!(node.replica.as_ref().is_some_and(Replica::is_serving));
    node
}

fn committed(said: &[Response]) -> Option<Timestamp> {
    said.iter().find_map(|reply| match reply {
        Response::Committed { id, at, .. } if *id > 0 => Some(*at),
        _ => None,
    })
}

#[test]
fn a_commit_is_installed_first_and_answered_only_when_its_timestamp_has_surely_passed() {
    let mut node = serving(1_000_000 * MS);
    let lock_epoch = node.read(1, "a");
    let said = node.ask(1, 2, Some(lock_epoch), write("a"));
    let [Response::Committed { id: 0, at, .. }] = said.as_slice() else {
        panic!("installed, not answered: {said:?}")
    };
    assert!(at.nanos >= node.reading().interval.latest);
    node.pass(2 * EPSILON);
    assert_eq!(committed(&node.said), None, "the clock's earliest has only reached the timestamp");
    node.pass(1);
    assert_eq!(committed(&node.said), Some(*at));
    assert!(node.reading().interval.after(at.nanos), "I3");
}

#[test]
fn a_nowait_read_reports_the_lock_and_wounds_no_transaction() {
    let mut node = serving(1_000_000 * MS);
    let read = |key: &str, lock: Lock, nowait: bool| {
        let range = KeyRange::point(Key::from(key));
        RequestBody::Read {
            range,
            lock,
            reverse: false,
            limit_rows: 1,
            application: None,
            versions: false,
            nowait,
        }
    };
    let holder = node.read(2, "a");
    // An older transaction would wound the holder and wait. A `nowait` read does neither.
    let said = node.ask(1, 1, None, read("a", Lock::Exclusive, true));
    let [Response::Locked { id: 1, lock_epoch }] = said.as_slice() else { panic!("{said:?}") };
    assert!(matches!(
        node.ask(1, 2, Some(*lock_epoch), read("a", Lock::Shared, true)).as_slice(),
        [Response::Locked { .. }]
    ));
    // A free lock is granted, and held ones are kept.
    assert!(matches!(
        node.ask(1, 3, Some(*lock_epoch), read("b", Lock::Exclusive, true)).as_slice(),
        [Response::Rows { .. }]
    ));
    assert!(matches!(
        node.ask(3, 1, None, read("b", Lock::Shared, true)).as_slice(),
        [Response::Locked { .. }]
    ));
    node.ask(2, 2, Some(holder), write("a"));
    node.pass(20 * MS);
    assert!(committed(&node.said).is_some(), "no transaction was wounded: {:?}", node.said);
    assert!(matches!(
        node.ask(1, 4, Some(*lock_epoch), read("a", Lock::Exclusive, true)).as_slice(),
        [Response::Rows { .. }]
    ));
}

#[test]
fn a_repeated_commit_has_the_same_timestamp_also_after_a_restart() {
    let mut node = serving(1_000_000 * MS);
    let lock_epoch = node.read(1, "a");
    node.ask(1, 2, Some(lock_epoch), write("a"));
    node.pass(20 * MS);
    let at = committed(&node.said).expect("it committed");
    assert_eq!(committed(&node.ask(1, 3, Some(lock_epoch), write("a"))), Some(at));
    // The store has everything, and the log still has it too.
    node.boot(node.now + MS, node.applied);
    node.pass(20 * MS);
    assert_eq!(committed(&node.ask(1, 4, Some(lock_epoch), write("a"))), Some(at));
}

#[test]
fn what_the_log_no_longer_tells_is_unknown_never_aborted() {
    let mut node = serving(1_000_000 * MS);
    let lock_epoch = node.read(1, "a");
    node.ask(1, 2, Some(lock_epoch), write("a"));
    node.pass(20 * MS);
    node.disk = vec![Record::Base { index: node.applied.0, term: node.applied.1 }];
    node.boot(node.now + MS, node.applied);
    node.pass(20 * MS);
    assert_eq!(node.ask(1, 3, Some(lock_epoch), write("a")), [Response::Unknown { id: 3 }]);
}

#[test]
fn locks_of_an_earlier_leadership_are_void() {
    let mut node = serving(1_000_000 * MS);
    let lock_epoch = node.read(1, "a");
    node.boot(node.now + MS, Default::default());
    node.pass(20 * MS);
    let why = Conflict::LeaderChanged;
    assert_eq!(node.ask(1, 2, Some(lock_epoch), write("a")), [Response::Aborted { id: 2, why }]);
}

#[test]
fn a_waiter_that_gives_up_blocks_no_other() {
    let mut node = serving(1_000_000 * MS);
    let lock = |key: &str, lock| {
        let range = KeyRange::point(Key::from(key));
        RequestBody::Read {
            range,
            lock,
            reverse: false,
            limit_rows: 1,
            application: None,
            versions: false,
            nowait: false,
        }
    };
    let holder = node.ask(3, 1, None, lock("a", Lock::Shared));
    assert!(matches!(holder[..], [Response::Rows { .. }]));
    let other = node.read(2, "b");
    // 2 waits for a. 4 waits behind it, although it could share the lock with 3.
    let said = node.ask(2, 2, Some(other), lock("a", Lock::Exclusive));
    assert!(
        matches!(said[..], [Response::Wounded { .. }]),
        "3 is in an older one's way, and hears of it: {said:?}"
    );
    assert_eq!(node.ask(4, 1, None, lock("a", Lock::Shared)), []);
    let said = node.ask(2, 3, Some(other), RequestBody::Withdraw);
    assert!(matches!(said[..], [Response::Rows { id: 1, .. }]), "4 goes on: {said:?}");
    // 2 keeps its locks. Its earlier request arrives late and is ignored.
    assert_eq!(node.ask(2, 2, Some(other), lock("a", Lock::Exclusive)), []);
    let said = node.ask(1, 1, None, lock("b", Lock::Shared));
    assert!(matches!(said[..], [Response::Wounded { .. }]), "b is locked: {said:?}");
}

#[test]
fn a_leader_unaware_of_its_replacement_aborts_no_transaction() {
    let mut node = serving(1_000_000 * MS);
    let lock_epoch = node.read(1, "a");
    let later = LockEpoch { term: lock_epoch.term + 1, ..lock_epoch };
    let said = node.ask(2, 5, Some(later), write("b"));
    assert!(
        matches!(said[..], [Response::NotLeader { id: 5, .. }]),
        "a later leader may have it: {said:?}"
    );
}

#[test]
fn timestamps_go_on_above_the_log_even_with_a_clock_that_went_back() {
    let mut node = serving(1_000_000 * MS);
    let lock_epoch = node.read(1, "a");
    node.ask(1, 2, Some(lock_epoch), write("a"));
    node.pass(20 * MS);
    let before = committed(&node.said).expect("it committed");
    node.boot(node.now - 500 * MS, Default::default());
    assert!(
        !node.replica.as_ref().is_some_and(Replica::is_serving),
        "what was inherited has not passed yet"
    );
    node.pass(600 * MS);
    let lock_epoch = node.read(2, "a");
    node.ask(2, 2, Some(lock_epoch), write("a"));
    node.pass(20 * MS);
    assert!(committed(&node.said).expect("it committed") > before);
}

#[test]
fn the_future_is_not_promised() {
    let mut node = serving(1_000_000 * MS);
    let snapshot = |at| RequestBody::Snapshot {
        at: Some(at),
        range: KeyRange::all(),
        reverse: false,
        limit_rows: 1,
        versions: false,
        single_shard_range: None,
    };
    assert_eq!(node.ask(1, 1, None, snapshot(Timestamp::MAX)), [Response::Unknown { id: 1 }]);
    let past = Timestamp::end_of(node.now);
    let said = node.ask(2, 1, None, snapshot(past));
    assert!(matches!(said.as_slice(), [Response::Rows { at, .. }] if *at == past), "{said:?}");
    let lock_epoch = node.read(3, "a");
    let said = node.ask(3, 2, Some(lock_epoch), write("a"));
    let [Response::Committed { id: 0, at, .. }] = said.as_slice() else { panic!("{said:?}") };
    assert!(*at > past, "I4");
}

#[test]
fn a_promise_outlives_the_log_in_which_it_stood() {
    let mut node = serving(1_000_000 * MS);
    let promised = Timestamp::end_of(node.now);
    let range = KeyRange::all();
    node.ask(
        1,
        1,
        None,
        RequestBody::Snapshot {
            at: Some(promised),
            range,
            reverse: false,
            limit_rows: 1,
            versions: false,
            single_shard_range: None,
        },
    );
    node.disk.clear(); // the store is checkpointed and the log truncated
    node.boot(node.now - 500 * MS, node.applied);
    let serves = |node: &Node| node.replica.as_ref().is_some_and(Replica::is_serving);
    for _ in 0..100 {
        node.pass(if serves(&node) { 0 } else { 10 * MS });
    }
    let lock_epoch = node.read(2, "a");
    node.ask(2, 2, Some(lock_epoch), write("a"));
    node.pass(20 * MS);
    assert!(committed(&node.said).expect("it committed") > promised, "I4");
}

#[test]
fn a_leader_whose_lease_ended_answers_no_reader() {
    let mut node = Node { voter: Some(Voter::Here), ..Node::default() };
    node.boot(1_000_000 * MS, Default::default());
    node.pass(1_000 * MS);
    assert!(node.replica.as_ref().is_some_and(Replica::is_serving));
    let (lock_epoch, later) = (node.read(1, "a"), node.read(2, "b"));
    assert!(committed(&node.ask(1, 2, Some(lock_epoch), commit(Vec::new()))).is_some());
    node.voter = Some(Voter::CutOff);
    // The node was paused as a whole, and does not know yet how late it is.
    node.now += 10_000 * MS;
    assert_eq!(node.ask(2, 2, Some(later), commit(Vec::new())), [], "another may lead by now");
}

/// Random worlds reach these once in thousands of runs.
#[test]
fn rules_that_seeds_rarely_break_are_covered_by_scripts() {
    let scripts: [(Rule, fn()); 2] = [
        (shard_rules::CEILING_NOT_AGREED, a_promise_outlives_the_log_in_which_it_stood),
        (
            participant_rules::LEASE_UNCHECKED_AT_COMMIT,
            a_leader_whose_lease_ended_answers_no_reader,
        ),
    ];
    for (rule, script) in scripts {
        let broken = std::thread::spawn(move || {
            plant(Some(rule), true);
            script();
        });
        assert!(broken.join().is_err(), "{rule:?} was not noticed");
    }
}

#[test]
fn a_commit_of_nothing_adds_nothing_to_the_log() {
    let mut node = serving(1_000_000 * MS);
    let lock_epoch = node.read(1, "a");
    let before = node.disk.len();
    let said = node.ask(1, 2, Some(lock_epoch), commit(Vec::new()));
    assert!(matches!(said.as_slice(), [Response::Committed { id: 2, .. }]), "{said:?}");
    assert_eq!(node.disk.len(), before);
    node.read(2, "a"); // its lock is free
}

#[test]
fn an_ended_attempt_is_not_readmitted_by_an_old_request() {
    let mut node = serving(1_000_000 * MS);
    let read = || {
        let range = KeyRange::point(Key::from("a"));
        RequestBody::Read {
            range,
            lock: Lock::Exclusive,
            reverse: false,
            limit_rows: 1,
            application: None,
            versions: false,
            nowait: false,
        }
    };
    let nothing = || commit(Vec::new());
    // The first request was delayed on the network, and repeated.
    let [Response::Rows { lock_epoch, .. }] = node.ask(1, 2, None, read())[..] else {
        panic!("its lock is free")
    };
    let at = committed(&node.ask(1, 3, Some(lock_epoch), nothing())).expect("it committed");
    let later = node.read(2, "b");
    node.ask(2, 2, Some(later), write("b"));
    node.pass(20 * MS);
    // Now it arrives. The session has not learned of the commit, and repeats its request.
    assert_eq!(node.ask(1, 1, None, read()), []);
    assert_eq!(
        committed(&node.ask(1, 4, Some(lock_epoch), nothing())),
        Some(at),
        "not of now: it read earlier"
    );
    // An attempt that was given up can be admitted again, but its locks from before are void.
    let lock_epoch = node.read(3, "c");
    node.ask(3, 2, Some(lock_epoch), RequestBody::Abort);
    node.read(3, "c");
    let why = Conflict::Expired;
    assert_eq!(node.ask(3, 3, Some(lock_epoch), write("c")), [Response::Aborted { id: 3, why }]);
}

#[test]
fn a_commit_of_very_many_keys_needs_no_deep_stack() {
    let run = || {
        let mut node = serving(1_000_000 * MS);
        let lock_epoch = node.read(1, "a");
        let key = |number: u32| Key::from(number.to_be_bytes().to_vec());
        let writes = (0..50_000).map(|number| Write { key: key(number), value: None }).collect();
        node.ask(1, 2, Some(lock_epoch), commit(writes));
        node.pass(20 * MS);
        assert!(committed(&node.said).is_some());
    };
    let small = std::thread::Builder::new().stack_size(512 << 10).spawn(run).expect("a thread");
    small.join().expect("no overflow");
}

/// Trap A.5-14: the lease of a group with one voter never ends. Its leader draws and serves nothing
/// while its node does not know the time.
#[test]
fn alone_and_without_the_time_nothing_is_drawn_and_nothing_is_served() {
    let mut node = serving(1_000_000 * MS);
    let lock_epoch = node.read(1, "a");
    node.fenced = true;
    assert_eq!(node.ask(1, 2, Some(lock_epoch), write("a")), [], "it has no timestamp");
    let range = KeyRange::point(Key::from("b"));
    let (single_shard_range, limit_rows) = (Some(range.clone()), 1);
    let snapshot = RequestBody::Snapshot {
        at: None,
        range: range.clone(),
        reverse: false,
        limit_rows,
        versions: false,
        single_shard_range,
    };
    assert_eq!(node.ask(2, 1, None, snapshot), []);
    assert_eq!(node.ask(3, 1, None, RequestBody::LastTs { range }), [Response::Unknown { id: 1 }]);
    node.pass(100 * MS);
    assert_eq!(node.said, []);
    node.fenced = false;
    node.pass(100 * MS);
    let at = committed(&node.said).expect("it knows the time again, and goes on");
    assert!(at.nanos < node.now + EPSILON);
    assert!(node.said.iter().any(|said| matches!(said, Response::Rows { .. })), "{:?}", node.said);
}

/// A session that begins to read here when another member leads already must not be allowed to.
#[test]
fn read_leases_end_before_leadership_is_transferred() {
    // At once, and when a used timestamp has to pass first.
    for used in [false, true] {
        let mut node = Node { voter: Some(Voter::Here), ..Node::default() };
        node.boot(1_000_000 * MS, Default::default());
        node.pass(100 * MS);
        if used {
            let lock_epoch = node.read(1, "a");
            node.ask(1, 2, Some(lock_epoch), write("a"));
        }
        let (mut withdrawn, mut given) = (false, false);
        let mut look = |node: &mut Node| {
            for effect in node.out.drain() {
                match effect {
                    Do::Do(Effect::ReadLease(slot)) => withdrawn = slot.until == 0 && !slot.leads,
                    Do::Arm { timer, at } => drop(node.timers.insert(timer, at)),
                    Do::Send {
                        message: Message::Group(group::Message::TakeOver { .. }), ..
                    } => {
                        assert!(withdrawn, "the slot is withdrawn first");
                        given = true;
                    }
                    _ => {}
                }
            }
            given
        };
        let now = node.reading();
        node.replica.as_mut().expect("it lives").transfer_leadership(now, &mut node.out);
        assert_eq!(look(&mut node), !used);
        if used {
            node.now += 3 * EPSILON;
            let (now, timer) = (node.reading(), Timer::Group(group::Timer::TransferLeadership));
            node.replica.as_mut().expect("it lives").on_timer(now, timer, &mut node.out);
            assert!(look(&mut node), "leadership is given away");
        }
    }
}

#[test]
fn that_a_fenced_leader_goes_on_or_a_slot_is_withdrawn_late_is_noticed() {
    let fenced: fn() = alone_and_without_the_time_nothing_is_drawn_and_nothing_is_served;
    let slot: fn() = read_leases_end_before_leadership_is_transferred;
    for (rule, script) in
        [(locking_rules::FENCED_SERVES, fenced), (shard_rules::SLOT_WITHDRAWN_LATE, slot)]
    {
        let broken = std::thread::spawn(move || {
            plant(Some(rule), true);
            script();
        });
        assert!(broken.join().is_err(), "{rule:?}");
    }
}

/// Serves a shard under HybridTime's policy.
fn hybrid(now: u64) -> Node {
    of_protocol(&hybrid_time::PROTOCOL, now)
}

fn of_protocol(protocol: &'static Protocol, now: u64) -> Node {
    let mut node = Node { protocol: Some(protocol), ..Node::default() };
    node.boot(now, Default::default());
    node.pass(10 * MS);
    assert!(node.replica.as_ref().is_some_and(Replica::is_serving));
    node
}

impl Node {
    /// Commits a write, and returns its timestamp.
    fn commits(&mut self, number: u64) -> Timestamp {
        let lock_epoch = self.read(number, "a");
        let said = self.ask(number, 2, Some(lock_epoch), write("a"));
        committed(&said).unwrap_or_else(|| panic!("not answered at once: {said:?}"))
    }
}

/// HybridTime §4.3: what client A tells client B is lost without a token, and comes after with one,
/// or if A's last write has waited. A's shard has the faster clock.
#[test]
fn a_hidden_channel_needs_a_token_or_a_wait() {
    let (mut fast, mut slow) = (hybrid(1_000_000 * MS + EPSILON), hybrid(1_000_000 * MS - EPSILON));
    let told = fast.commits(1);
    assert!(!fast.reading().interval.after(told.nanos), "no commit waits for the clock");
    let lost = slow.commits(1);
    assert!(lost < told, "{lost} is later in real time, and earlier in the order");
    slow.token = Some(told);
    assert!(slow.commits(2) > told, "Trap A.4-11");
    // Without tokens, on both clocks the time passes that A's coordinator waits for.
    let (mut fast, mut slow) = (hybrid(2_000_000 * MS + EPSILON), hybrid(2_000_000 * MS - EPSILON));
    let before = fast.commits(1);
    let last = fast.commits(2);
    let wait = last.nanos - fast.reading().interval.earliest + 1;
    fast.pass(wait);
    slow.pass(wait);
    assert!(fast.reading().interval.after(last.nanos));
    let after = slow.commits(1);
    assert!(after > last && after > before, "{after} is after {last}, and so after {before}");
}

#[test]
fn a_token_that_cannot_be_true_is_refused_and_moves_no_clock() {
    let mut node = hybrid(1_000_000 * MS);
    let at = |nanos| Some(Timestamp { nanos, logical: 7, issuer: 9 });
    let latest = node.reading().interval.latest;
    let token = at(latest + 500 * MS);
    node.token = token;
    let known = node.commits(1);
    assert!(Some(known) > token, "{known} is above its token {token:?} (Trap A.4-9)");
    node.pass(2_000 * MS);
    let latest = node.reading().interval.latest;
    node.token = at(latest + 10_000 * MS);
    for body in [commit(Vec::new()), RequestBody::LastTs { range: KeyRange::all() }] {
        let said = node.ask(2, 1, None, body);
        assert!(
            matches!(&said[..], [Response::Refused { why, .. }] if why.contains("future")),
            "{said:?}"
        );
    }
    node.token = None;
    let next = node.commits(3);
    assert!(next.nanos < latest + 100 * MS, "{next} is of the present (Trap A.4-3)");
}

/// A commit of Clock-SI would wait with its locks until its token is of the present.
#[test]
fn a_leader_that_certifies_refuses_a_far_token_and_ends_what_has_one() {
    let mut node = of_protocol(&clock_si::PROTOCOL, 1_000_000 * MS);
    let lock_epoch = node.read(1, "a");
    let nanos = node.reading().interval.latest + 10_000 * MS;
    node.token = Some(Timestamp { nanos, ..Timestamp::ZERO });
    let said = node.ask(1, 2, Some(lock_epoch), write("a"));
    assert!(
        matches!(&said[..], [Response::Refused { why, .. }] if why.contains("future")),
        "{said:?}"
    );
    // Its end is not refused: another transaction gets the lock.
    assert_eq!(node.ask(1, 3, Some(lock_epoch), RequestBody::Abort), Vec::new());
    node.token = None;
    node.commits(2);
}
