//! Two-phase commit between two groups of one member each, message by message: messages can be
//! inspected, lost and delayed.

#[path = "../groups/mod.rs"]
mod groups;
mod requests;

use groups::{BEGINNING, EPSILON, MS, member, transaction, writes};
use meridian_clock::Timestamp;
use meridian_machine::planted::plant;
use meridian_machine::{Machine, NodeId, ShardId};
use meridian_mvcc::{Key, KeyRange};
use meridian_systems::locking::rules as participant_rules;
use meridian_systems::locking::{Locking, Message};
use meridian_systems::shard::rules as shard_rules;
use meridian_txn::locking::rules as locking_rules;
use meridian_txn::shards::{LockEpoch, ReplicaId, RequestBody, Response};
use meridian_txn::two_phase::{OneShot, ParticipantMessage, Vote, rules as two_phase_rules};
use meridian_txn::{Conflict, Lock, SchemaChange, SchemaVersion};
use std::collections::VecDeque;

use requests::snapshot;

type World = groups::World<Locking>;

#[test]
fn both_groups_install_at_one_timestamp_above_the_vote_and_after_commit_wait() {
    let mut world = World::new();
    let (here, there) =
        (world.read(0, 1, "a", Lock::Exclusive), world.read(1, 1, "z", Lock::Exclusive));
    assert!(matches!(world.prepare(1, there, &["z"])[..], [Response::Prepared { id: 5 }]));
    let Some((_, _, ParticipantMessage::Vote { vote: Vote::Prepared { at: prepared, .. }, .. })) =
        world.between.front().cloned()
    else {
        panic!("it votes: {:?}", world.between)
    };
    assert_eq!(world.commit(1, here, &["a"]), [], "it waits for the vote");
    world.talk();
    let at = world.outcome().expect("told").expect("committed");
    assert!(at > prepared && world.reading().interval.after(at.nanos));
    assert_eq!(world.groups[0].installed, [(at, vec!["a".to_owned()])]);
    assert_eq!(world.groups[1].installed, [(at, vec!["z".to_owned()])]);
    world.pass(3_000 * MS);
    world.talk();
    world.pass(3_000 * MS);
    assert!(
        world
            .groups
            .iter()
            .all(|group| group.replica.unresolved() == 0 && group.replica.locks().is_empty())
    );
}

/// Trap A.5-8: without the shared lock in the record, the new leader would admit a writer that must
/// come after the commit.
#[test]
fn a_new_leader_takes_up_the_locks_of_what_is_prepared_the_shared_ones_too() {
    let mut world = World::new();
    let here = world.read(0, 1, "a", Lock::Exclusive);
    let there = world.read(1, 1, "x", Lock::Shared);
    world.prepare(1, there, &["z"]);
    world.restart(1);
    assert_eq!(
        world.read(1, 2, "x", Lock::Exclusive),
        None,
        "x was only read, and is locked still"
    );
    world.commit(1, here, &["a"]);
    world.talk();
    let at = world.outcome().expect("told").expect("committed: the new leader votes again");
    assert_eq!(world.groups[1].installed, [(at, vec!["z".to_owned()])]);
    assert!(
        world
            .heard
            .iter()
            .any(|(shard, reply)| shard.0 == 1 && matches!(reply, Response::Rows { .. })),
        "2 goes on"
    );
}

/// Random worlds reach it once in thousands of runs.
#[test]
fn a_prepare_record_without_the_locks_of_what_was_read_is_noticed() {
    let broken = std::thread::spawn(|| {
        plant(Some(participant_rules::PREPARE_WITHOUT_READ_LOCKS), true);
        a_new_leader_takes_up_the_locks_of_what_is_prepared_the_shared_ones_too();
    });
    assert!(broken.join().is_err());
}

/// Trap A.5-11: a coordinator that does not know a transaction can never commit it, and says so.
#[test]
fn a_coordinator_that_has_forgotten_aborts_and_a_late_commit_finds_that() {
    let mut world = World::new();
    let (here, there) =
        (world.read(0, 1, "a", Lock::Exclusive), world.read(1, 1, "z", Lock::Exclusive));
    world.prepare(1, there, &["z"]);
    world.between.clear(); // The vote is lost, and so is the coordinator's memory.
    world.restart(0);
    world.pass(3_000 * MS);
    world.talk();
    assert_eq!(world.groups[1].installed, []);
    assert_eq!(world.groups[1].replica.unresolved(), 0, "it has asked, and heard");
    assert!(matches!(world.commit(1, here, &["a"])[..], [Response::Aborted { .. }]));
}

/// Trap A.5-12: the next leader repeats a decision in the log until the participant has it in its
/// own.
#[test]
fn a_decision_outlives_its_coordinator() {
    let mut world = World::new();
    let (here, there) =
        (world.read(0, 1, "a", Lock::Exclusive), world.read(1, 1, "z", Lock::Exclusive));
    world.prepare(1, there, &["z"]);
    world.commit(1, here, &["a"]);
    let vote = world.between.pop_front().expect("a vote");
    world.step(0, |replica, now, out| {
        replica.on_message(now, member(vote.0), Message::Participant(vote.2), out)
    });
    assert_eq!(world.groups[0].installed.len(), 1, "decided, and not told yet");
    world.between.clear();
    world.restart(0);
    world.pass(3_000 * MS);
    world.talk();
    assert_eq!(world.groups[1].installed.len(), 1);
    world.pass(3_000 * MS);
    world.talk();
    assert!(world.groups.iter().all(|group| group.replica.unresolved() == 0));
}

/// Trap A.5-10.
#[test]
fn an_older_transaction_has_a_prepared_one_aborted_while_a_vote_is_outstanding() {
    let mut world = World::new();
    let (here, there) =
        (world.read(0, 7, "a", Lock::Exclusive), world.read(1, 7, "z", Lock::Exclusive));
    world.prepare(7, there, &["z"]);
    world.between.clear();
    world.commit(7, here, &["a"]);
    assert_eq!(world.read(1, 3, "z", Lock::Exclusive), None, "it is prepared: the older one waits");
    world.talk();
    assert!(matches!(world.outcome(), Some(Err(Conflict::Wounded { .. }))), "{:?}", world.heard);
    assert!(
        world
            .heard
            .iter()
            .any(|(shard, reply)| shard.0 == 1 && matches!(reply, Response::Rows { .. }))
    );
    assert_eq!(world.groups[1].installed, []);
}

/// Random worlds reach it once in a hundred runs.
#[test]
fn that_a_prepared_transaction_is_not_wounded_is_noticed() {
    let broken = std::thread::spawn(|| {
        plant(Some(participant_rules::WOUND_NOT_FORWARDED), true);
        an_older_transaction_has_a_prepared_one_aborted_while_a_vote_is_outstanding();
    });
    assert!(broken.join().is_err());
}

/// Trap A.5-8, the cheaper way: no record, and a bound below which the commit has to stay.
#[test]
fn a_shard_that_was_only_read_votes_with_a_bound_and_logs_no_record() {
    let mut world = World::new();
    let (here, there) =
        (world.read(0, 1, "a", Lock::Exclusive), world.read(1, 1, "z", Lock::Shared));
    world.prepare(1, there, &[]);
    world.pass(10 * MS);
    let Some((_, _, ParticipantMessage::Vote { vote: Vote::Read { below, .. }, .. })) =
        world.between.front().cloned()
    else {
        panic!("it votes: {:?}", world.between)
    };
    assert_eq!(world.groups[1].replica.unresolved(), 0);
    // The vote arrives when its bound has passed: too late.
    world.pass(3_000 * MS);
    assert!(world.reading().interval.after(below.nanos));
    let said = world.read(1, 2, "z", Lock::Exclusive);
    assert!(said.is_some(), "its locks are free");
    world.commit(1, here, &["a"]);
    world.talk();
    assert_eq!(world.outcome(), Some(Err(Conflict::Late)));
    // A later writer there is above the bound, and so is a later leader.
    world.restart(1);
    let lock_epoch = world.read(1, 3, "z", Lock::Exclusive);
    world.ask(
        1,
        3,
        6,
        lock_epoch,
        RequestBody::Commit { writes: writes(&["z"]), participants: Vec::new(), schema: None },
    );
    world.pass(50 * MS);
    assert!(world.groups[1].installed[0].0 > below);
}

/// A commit waits for a lock for longer than any promise lasts: the promise of a shard that was
/// only read is renewed as long as its coordinator waits.
#[test]
fn a_shard_that_was_only_read_promises_for_as_long_as_its_coordinator_waits() {
    let mut world = World::new();
    world.read(0, 1, "b", Lock::Shared); // It is older.
    let (here, there) =
        (world.read(0, 2, "a", Lock::Exclusive), world.read(1, 2, "z", Lock::Shared));
    world.prepare(2, there, &[]);
    world.commit(2, here, &["a", "b"]);
    for _ in 0..60 {
        world.hear();
        world.pass(50 * MS);
        world.ask(0, 1, 2, None, RequestBody::KeepAlive);
        world.ask(0, 2, 6, None, RequestBody::KeepAlive);
    }
    assert_eq!(world.outcome(), None, "it waits for b");
    assert_eq!(world.read(1, 3, "z", Lock::Exclusive), None, "z is locked still");
    world.ask(0, 1, 7, None, RequestBody::Abort);
    world.talk();
    assert!(matches!(world.outcome(), Some(Ok(_))), "{:?}", world.outcome());
    assert!(
        world
            .heard
            .iter()
            .any(|(shard, reply)| shard.0 == 1 && matches!(reply, Response::Rows { .. })),
        "3 goes on"
    );
}

/// An older transaction waits for one that has only read, and has voted: the coordinator aborts
/// that one, as if it was prepared.
#[test]
fn an_older_transaction_does_not_wait_for_the_promise_of_a_shard_that_was_only_read() {
    let mut world = World::new();
    let (here, there) =
        (world.read(0, 7, "a", Lock::Exclusive), world.read(1, 7, "z", Lock::Shared));
    world.prepare(7, there, &[]);
    world.between.clear(); // Its vote is lost.
    world.commit(7, here, &["a"]);
    assert_eq!(world.read(1, 3, "z", Lock::Exclusive), None, "it has voted: the older one waits");
    world.hear();
    assert!(matches!(world.outcome(), Some(Err(Conflict::Wounded { .. }))), "{:?}", world.heard);
}

impl World {
    /// Returns a leader's answers to another leader's message.
    fn answers(&mut self, shard: u32, between: ParticipantMessage) -> Vec<ParticipantMessage> {
        self.between.clear();
        self.step(shard, |replica, now, out| {
            replica.on_message(now, member(ShardId(1 - shard)), Message::Participant(between), out);
        });
        std::mem::take(&mut self.between).into_iter().map(|(_, _, said)| said).collect()
    }
}

/// A leader was replaced and does not know it, because of its clock. It is asked about a
/// transaction that its successor may commit, and must not say that it is aborted.
#[test]
fn only_the_leadership_that_decides_and_later_ones_say_that_a_transaction_is_aborted() {
    let mut world = World::new();
    let (transaction, shard, term) = (transaction(1), ShardId(1), world.term(0));
    let at = Timestamp { nanos: BEGINNING, ..Timestamp::ZERO };
    let vote = Vote::Prepared { at, below: Timestamp::MAX };
    let asks = |decides| ParticipantMessage::Vote {
        transaction,
        shard,
        vote: vote.clone(),
        one_shot: None,
        decides,
        voted_in: 3,
    };
    assert_eq!(world.answers(0, asks(term + 1)), []);
    let aborted = [ParticipantMessage::Decided { transaction, at: None, voted_in: 3 }];
    assert_eq!(world.answers(0, asks(term)), aborted);
    assert_eq!(world.answers(0, asks(term - 1)), aborted);
    // Nor where a late copy of the first request was admitted: when that is wounded, no participant
    // learns that the transaction is aborted.
    world.read(0, 1, "a", Lock::Exclusive);
    assert_eq!(world.answers(0, asks(term + 1)), []);
    let why = Conflict::LeaderChanged;
    assert_eq!(world.answers(0, ParticipantMessage::Wound { transaction, why }), []);
}

/// A leader that was replaced receives a decision about a transaction that its successor has
/// prepared. If it confirmed the end, the coordinator would forget, and the successor would be told
/// later that the transaction was aborted: half of an acknowledged commit would be lost.
#[test]
fn only_the_leadership_that_voted_and_later_ones_say_that_a_transaction_has_ended() {
    let mut world = World::new();
    let (transaction, term) = (transaction(1), world.term(1));
    let at = Some(Timestamp { nanos: BEGINNING, ..Timestamp::ZERO });
    let decided = |voted_in| ParticipantMessage::Decided { transaction, at, voted_in };
    assert_eq!(world.answers(1, decided(term + 1)), []);
    assert_eq!(
        world.answers(1, decided(term)),
        [ParticipantMessage::Ended { transaction, shard: ShardId(1) }]
    );
}

/// Random worlds reach these once in thousands of runs: a leader must be replaced without knowing
/// it.
#[test]
fn that_a_deposed_leader_answers_or_a_promise_is_not_renewed_is_noticed() {
    let aborted: fn() =
        only_the_leadership_that_decides_and_later_ones_say_that_a_transaction_is_aborted;
    let ended: fn() =
        only_the_leadership_that_voted_and_later_ones_say_that_a_transaction_has_ended;
    let renewed: fn() = a_shard_that_was_only_read_promises_for_as_long_as_its_coordinator_waits;
    let scripts = [
        (two_phase_rules::DECIDES_IN_ANY_TERM, aborted),
        (two_phase_rules::ENDED_UNKNOWN, ended),
        (participant_rules::READ_VOTE_NOT_RENEWED, renewed),
    ];
    for (rule, script) in scripts {
        let broken = std::thread::spawn(move || {
            plant(Some(rule), true);
            script();
        });
        assert!(broken.join().is_err(), "{rule:?}");
    }
}

/// §4.1.3: a prepared transaction holds back a snapshot above it, of the keys that it writes
/// (§4.2.4).
#[test]
fn a_snapshot_waits_for_what_is_prepared_below_it_and_only_for_that() {
    let mut world = World::new();
    let (here, there) =
        (world.read(0, 1, "a", Lock::Exclusive), world.read(1, 1, "z", Lock::Exclusive));
    world.prepare(1, there, &["z"]);
    world.pass(20 * MS);
    let at = Timestamp::end_of(world.now);
    world.ask(1, 2, 1, None, snapshot("y", at));
    world.ask(1, 3, 1, None, snapshot("z", at));
    world.pass(20 * MS);
    assert_eq!(world.shown_at(at), 1, "y is shown, z may be written below");
    world.commit(1, here, &["a"]);
    world.talk();
    assert_eq!(world.shown_at(at), 2);
}

/// The prepared transaction may wait for locks of the one that takes the snapshot.
#[test]
fn a_snapshot_that_waits_long_has_a_younger_prepared_transaction_wounded() {
    let mut world = World::new();
    world.read(0, 3, "b", Lock::Shared).expect("it is granted");
    let (here, there) =
        (world.read(0, 7, "a", Lock::Exclusive), world.read(1, 7, "z", Lock::Exclusive));
    world.prepare(7, there, &["z"]);
    world.commit(7, here, &["b"]);
    world.hear();
    world.pass(20 * MS);
    let at = Timestamp::end_of(world.now);
    world.ask(1, 3, 2, None, snapshot("z", at));
    world.pass(700 * MS);
    world.hear();
    assert_eq!((world.outcome(), world.shown_at(at)), (None, 0), "each waits for the other");
    world.pass(1_100 * MS);
    world.talk();
    assert!(matches!(world.outcome(), Some(Err(Conflict::Wounded { .. }))), "{:?}", world.heard);
    assert_eq!(world.shown_at(at), 1);
}

/// §4.2.2, §4.2.4: a prepared transaction holds back a reader of the present only where it writes.
/// An installed outcome, which may have been acknowledged, is read although other keys are being
/// written below it.
#[test]
fn the_newest_commit_of_a_key_is_found_whatever_happens_to_others() {
    let mut world = World::new();
    let newest = |key: &str| {
        let range = KeyRange::point(Key::from(key));
        let single_shard_range = Some(range.clone());
        RequestBody::Snapshot {
            at: None,
            range,
            reverse: false,
            limit_rows: 1,
            versions: false,
            single_shard_range,
        }
    };
    let shown = |said: Vec<Response>| {
        said.iter()
            .find_map(|said| if let Response::Rows { at, .. } = said { Some(*at) } else { None })
    };
    let there = world.read(1, 1, "z", Lock::Exclusive);
    world.prepare(1, there, &["z"]);
    world.pass(20 * MS);
    assert!(shown(world.ask(1, 2, 1, None, newest("x"))).is_some(), "x is not being written");
    assert_eq!(shown(world.ask(1, 3, 1, None, newest("z"))), None, "z may be written");
    world.ask(1, 3, 2, None, RequestBody::Withdraw);
    // Another key is in commit wait when the coordinator says that the first was committed above
    // it. The coordinator's clock is ahead, so it has told that to other shards, too.
    assert_eq!(world.write(4, "y"), [], "in commit wait");
    let decided = Timestamp { nanos: world.now + EPSILON + MS, ..Timestamp::ZERO };
    let (transaction, voted_in) = (transaction(1), world.term(1));
    let between = ParticipantMessage::Decided { transaction, at: Some(decided), voted_in };
    world.step(1, |replica, now, out| {
        replica.on_message(now, member(ShardId(0)), Message::Participant(between), out)
    });
    assert_eq!(world.groups[1].installed.last(), Some(&(decided, vec!["z".to_owned()])));
    let x = shown(world.ask(1, 5, 1, None, newest("x")));
    assert!(x.is_some_and(|at| at < decided), "x is still not being written: {x:?}");
    let z = shown(world.ask(1, 6, 1, None, newest("z")));
    assert_eq!(z, Some(decided), "y is not read");
    let RequestBody::Snapshot { range, reverse, limit_rows, versions, single_shard_range, .. } =
        newest("y")
    else {
        unreachable!("as above")
    };
    let at = Some(decided);
    let y = RequestBody::Snapshot { at, range, reverse, limit_rows, versions, single_shard_range };
    let asked = world.heard.len();
    assert_eq!(shown(world.ask(1, 7, 1, None, y)), None, "y is in commit wait below");
    let said =
        |world: &World| world.heard[asked..].iter().map(|(_, reply)| reply.clone()).collect();
    world.pass(3 * EPSILON);
    assert_eq!(shown(said(&world)), Some(decided));
}

/// §4.2.2 as printed is not strictly serializable where a database has several shards. Shard 1
/// replicates W slowly, below the present. S reads in both shards, below B in shard 0 and above W
/// in shard 1, where it waits. B is acknowledged, and R begins, which reads in shard 1 alone. The
/// newest acknowledged commit there is older than W: then R < W < S < B, and B had ended when R
/// began.
#[test]
fn a_reader_of_one_shard_waits_for_a_commit_that_another_shard_has_been_read_above() {
    let mut world = World::new();
    let snapshot = |key: &str, at: Option<Timestamp>| {
        let range = KeyRange::point(Key::from(key));
        let single_shard_range = Some(range.clone()).filter(|_| at.is_none());
        RequestBody::Snapshot {
            at,
            range,
            reverse: false,
            limit_rows: 1,
            versions: false,
            single_shard_range,
        }
    };
    let shown = |world: &World, shard: u32, after: usize| {
        world.heard[after..].iter().find_map(|(of, said)| match said {
            Response::Rows { at, .. } if of.0 == shard => Some(*at),
            _ => None,
        })
    };
    world.write(1, "x");
    world.pass(20 * MS);
    assert!(world.groups[1].quiet);
    world.groups[1].stalled = true;
    world.write(2, "w");
    assert!(!world.groups[1].quiet, "W is under way");
    world.pass(MS);
    let s = Some(Timestamp::end_of(world.reading().interval.latest));
    let asked = world.heard.len();
    world.ask(0, 3, 1, None, snapshot("a", s));
    world.pass(2 * EPSILON);
    assert_eq!(shown(&world, 0, asked), s, "S has seen nothing of B");
    world.put(4, "a");
    world.pass(3 * EPSILON);
    let b = world.heard[asked..].iter().find_map(|(_, said)| match said {
        Response::Committed { at, .. } => Some(*at),
        _ => None,
    });
    assert!(b > s, "B has ended");
    // R, and a read that need not wait.
    let asked = world.heard.len();
    let other = world.ask(1, 5, 1, None, snapshot("x", None));
    assert!(
        other.iter().any(|said| matches!(said, Response::Rows { .. })),
        "x is not being written"
    );
    let asked_last =
        world.ask(1, 6, 1, None, RequestBody::LastTs { range: KeyRange::point(Key::from("w")) });
    let asked_now = world.heard.len();
    world.ask(1, 7, 1, None, snapshot("w", None));
    world.ask(1, 3, 2, None, snapshot("w", s));
    assert_eq!(shown(&world, 1, asked_now), None, "R and S wait for W");
    world.groups[1].stalled = false;
    world.step(1, |_, _, _| {});
    world.pass(3 * EPSILON);
    let (w, keys) = world.groups[1].installed.last().cloned().expect("W");
    assert!(keys == ["w"] && Some(w) < s);
    assert!(asked_last.iter().any(|said| matches!(said, Response::LastTs { at, .. } if *at == w)));
    let rows = world.heard[asked..].iter().filter_map(|(_, said)| match said {
        Response::Rows { id: 1, at, .. } => Some(*at),
        _ => None,
    });
    assert_eq!(rows.last(), Some(w), "R has seen W");
    assert!(world.groups[1].quiet);
}

/// Random worlds hardly reach the second: an outcome is above what is visible only for a moment.
#[test]
fn that_the_newest_commit_of_a_key_is_not_looked_for_is_noticed() {
    let script: fn() = the_newest_commit_of_a_key_is_found_whatever_happens_to_others;
    let in_flight: fn() =
        a_reader_of_one_shard_waits_for_a_commit_that_another_shard_has_been_read_above;
    for (rule, script) in [
        (participant_rules::LAST_TS_PREPARED, script),
        (participant_rules::LAST_TS_LATE, script),
        (locking_rules::LAST_TS_IN_FLIGHT, in_flight),
    ] {
        let broken = std::thread::spawn(move || {
            plant(Some(rule), true);
            script();
        });
        assert!(broken.join().is_err(), "{rule:?}");
    }
}

/// A transaction stays prepared because its coordinator does not answer: a split does not hold new
/// transactions back for ever.
#[test]
fn a_split_is_given_up_because_of_what_is_prepared() {
    let mut world = World::new();
    let there = world.read(1, 1, "z", Lock::Exclusive);
    world.prepare(1, there, &["z"]);
    let split = RequestBody::Split { at: Key::from("s"), shard: ShardId(2) };
    assert_eq!(world.ask(1, 2, 1, None, split), []);
    assert_eq!(world.read(1, 3, "y", Lock::Exclusive), None, "it waits for the split");
    world.pass(1_900 * MS);
    assert!(!world.heard.iter().any(|(_, said)| matches!(said, Response::Refused { .. })));
    let asked = world.heard.len();
    world.pass(200 * MS);
    let said: Vec<&Response> = world.heard[asked..].iter().map(|(_, said)| said).collect();
    assert!(
        matches!(said[..], [Response::Refused { id: 1, .. }, Response::Rows { id: 1, .. }]),
        "{said:?}"
    );
}

/// The table of these tests: its keys are in shard 1.
const TABLE: u32 = 7;

fn planned(version: u64) -> Vec<SchemaVersion> {
    vec![SchemaVersion { table: TABLE, version }]
}

/// Makes the schema change to version 2, from a timestamp on.
fn change(from: u64) -> Option<SchemaChange> {
    let keys = KeyRange { start: "n".into(), end: Some("y".into()) };
    let from = Timestamp { nanos: from, ..Timestamp::ZERO };
    Some(SchemaChange { from, tables: vec![(SchemaVersion { table: TABLE, version: 2 }, keys)] })
}

impl World {
    /// Has a transaction of both shards prepared in shard 1. Returns its lock epoch in shard 0, and
    /// its vote, which is held back.
    fn voted(
        &mut self,
        number: u64,
    ) -> (Option<LockEpoch>, VecDeque<(ShardId, ShardId, ParticipantMessage)>) {
        let here = self.read(0, number, "a", Lock::Exclusive);
        let there = self.read(1, number, "z", Lock::Exclusive);
        self.prepare(number, there, &["z"]);
        (here, std::mem::take(&mut self.between))
    }

    /// Changes the table's schema in shard 1 by a transaction that writes in shard 0.
    fn change_schema(&mut self, number: u64, from: u64) {
        let (here, there) =
            (self.read(0, number, "c", Lock::Exclusive), self.read(1, number, "n", Lock::Shared));
        let coordinator = ReplicaId { shard: ShardId(0), node: NodeId(1) };
        let (schema, decides) = (change(from), self.term(0));
        let prepare = RequestBody::Prepare {
            writes: Vec::new(),
            coordinator,
            schema,
            one_shot: None,
            decides,
        };
        self.ask(1, number, 5, there, prepare);
        let when = change(from).map(|change| SchemaChange { tables: Vec::new(), ..change });
        let commit = RequestBody::Commit {
            writes: writes(&["c"]),
            participants: vec![ShardId(1)],
            schema: when,
        };
        self.ask(0, number, 5, here, commit);
    }

    /// Writes a key of shard 1, and nothing else.
    fn write(&mut self, number: u64, key: &str) -> Vec<Response> {
        let lock_epoch = self.read(1, number, key, Lock::Exclusive);
        let commit =
            RequestBody::Commit { writes: writes(&[key]), participants: Vec::new(), schema: None };
        self.ask(1, number, 6, lock_epoch, commit)
    }

    fn outcomes(&self, shard: u32) -> Vec<Result<Timestamp, Conflict>> {
        let ended =
            self.heard.iter().filter(|(at, _)| at.0 == shard).filter_map(
                |(_, reply)| match reply {
                    Response::Committed { at, .. } => Some(Ok(*at)),
                    Response::Aborted { why, .. } => Some(Err(why.clone())),
                    _ => None,
                },
            );
        ended.collect()
    }
}

/// §4.2.3, from both sides of the change's timestamp.
#[test]
fn a_schema_change_holds_back_only_transactions_above_its_timestamp() {
    let mut world = World::new();
    world.planned = planned(1);
    let from = world.now + 200 * MS;
    world.change_schema(1, from);
    world.hear();
    world.pass(50 * MS);
    assert_eq!(world.outcomes(0), [], "registered, and not yet due");
    // Below the timestamp, as if there were no change.
    world.write(2, "p");
    world.pass(20 * MS);
    let below = world.outcomes(1)[0].clone().expect("committed");
    assert!(below.nanos < from);
    // At its time, before it is decided, reads wait and commits are refused.
    let lock_epoch = world.read(1, 3, "q", Lock::Exclusive);
    world.now = from + MS; // No timer has fired.
    let commit =
        RequestBody::Commit { writes: writes(&["q"]), participants: Vec::new(), schema: None };
    world.ask(1, 3, 6, lock_epoch, commit);
    assert_eq!(world.outcomes(1)[1..], [Err(Conflict::SchemaChanged { table: TABLE })]);
    assert_eq!(world.read(1, 4, "r", Lock::Shared), None, "it waits");
    world.planned = planned(2);
    assert_eq!(world.read(1, 5, "r", Lock::Shared), None, "so does a plan for the new version");
    // It is decided, and holds.
    world.pass(20 * MS);
    world.talk();
    let at = world.outcomes(0)[0].clone().expect("the change is committed");
    assert!(at.nanos >= from && at.nanos < from + 30 * MS, "not before its time, and soon after");
    assert_eq!(
        world.outcomes(1)[2..],
        [Err(Conflict::SchemaChanged { table: TABLE })],
        "4 plans anew"
    );
    world.write(6, "s");
    world.pass(20 * MS);
    assert!(world.outcomes(1)[3].clone().expect("committed") > at);
    // A later leader knows the version.
    world.restart(1);
    world.planned = planned(1);
    assert_eq!(world.read(1, 7, "s", Lock::Shared), None);
    assert_eq!(world.outcomes(1)[4..], [Err(Conflict::SchemaChanged { table: TABLE })]);
}

/// Second part of traps, 13: a transaction that prepared before a change was registered may commit
/// above its timestamp.
#[test]
fn a_schema_change_registers_once_voted_transactions_have_ended() {
    let mut world = World::new();
    world.planned = planned(1);
    let (here, vote) = world.voted(9);
    let from = world.now + 300 * MS;
    world.change_schema(1, from);
    world.pass(100 * MS);
    assert!(world.between.is_empty(), "it has not voted: the earlier vote has no bound");
    world.between = vote;
    world.commit(9, here, &["a"]);
    world.talk();
    let ended = world.outcomes(0);
    let changed = ended[1].clone().expect("the change is committed");
    assert!(ended[0].clone().expect("committed, planned for the former version") < changed);
    assert!(changed.nanos >= from);
}

/// The voters may wait for a transaction that waits for the change.
#[test]
fn a_schema_change_yields_to_voted_transactions_that_do_not_end_in_time() {
    let mut world = World::new();
    world.planned = planned(1);
    let (here, vote) = world.voted(9);
    world.change_schema(1, world.now + 50 * MS);
    world.pass(70 * MS);
    assert!(world.read(1, 3, "p", Lock::Shared).is_some(), "no transaction waits for it any more");
    world.talk();
    assert_eq!(world.outcomes(0), [Err(Conflict::Late)]);
    world.between = vote;
    world.commit(9, here, &["a"]);
    world.talk();
    assert!(world.outcomes(0)[1].is_ok());
}

/// The next attempt of a change meets them again: they may wait for its locks in another shard.
#[test]
fn a_schema_change_that_yields_twice_has_younger_voted_transactions_aborted() {
    let mut world = World::new();
    world.planned = planned(1);
    let (here, vote) = world.voted(9);
    for attempt in 1..=2 {
        world.change_schema(attempt, world.now + 50 * MS);
        world.pass(70 * MS);
        world.talk();
    }
    assert_eq!(world.outcomes(0), [Err(Conflict::Late), Err(Conflict::Late)]);
    world.between = vote;
    world.commit(9, here, &["a"]);
    world.talk();
    let ended = world.outcomes(0);
    assert!(matches!(ended[2], Err(Conflict::Wounded { .. })), "{ended:?}");
}

/// A timestamp farther ahead than clocks explain.
#[test]
fn a_schema_change_in_the_far_future_is_refused() {
    let mut world = World::new();
    world.change_schema(1, world.now + 3_600_000 * MS);
    world.talk();
    assert_eq!(world.outcomes(0), [Err(Conflict::Late)]);
    assert!(world.write(2, "p").is_empty() && world.read(1, 3, "q", Lock::Shared).is_some());
}

/// A vote while a change is registered has a bound.
#[test]
fn a_vote_during_a_registered_schema_change_stays_below_it() {
    let mut world = World::new();
    world.planned = planned(1);
    let from = world.now + 50 * MS;
    world.change_schema(1, from);
    world.hear();
    let (here, there) =
        (world.read(0, 9, "a", Lock::Exclusive), world.read(1, 9, "z", Lock::Exclusive));
    world.prepare(9, there, &["z"]);
    let Some((_, _, ParticipantMessage::Vote { vote: Vote::Prepared { at, below }, .. })) =
        world.between.front().cloned()
    else {
        panic!("it votes: {:?}", world.between)
    };
    assert!(at < below && below.nanos == from);
    let vote = std::mem::take(&mut world.between);
    world.pass(100 * MS); // The vote arrives when its bound has passed.
    world.between.extend(vote);
    world.commit(9, here, &["a"]);
    world.talk();
    let ended = world.outcomes(0);
    assert!(ended[0].is_ok(), "the change: {ended:?}");
    assert!(matches!(ended[1], Err(Conflict::SchemaChanged { .. } | Conflict::Late)), "{ended:?}");
}

/// Random worlds hardly reach it: votes arrive sooner than changes.
#[test]
fn ignoring_a_schema_change_is_noticed() {
    for test in [
        a_schema_change_holds_back_only_transactions_above_its_timestamp,
        a_schema_change_registers_once_voted_transactions_have_ended,
        a_vote_during_a_registered_schema_change_stays_below_it,
    ] {
        let broken = std::thread::spawn(move || {
            plant(Some(participant_rules::CHANGE_NOT_HEEDED), true);
            test();
        });
        assert!(broken.join().is_err());
    }
}

#[test]
fn a_request_for_moved_keys_names_the_shard_that_has_them() {
    let mut world = World::new();
    let said = world.ask(0, 1, 1, None, RequestBody::Split { at: "g".into(), shard: ShardId(5) });
    assert_eq!(said, []);
    world.pass(100 * MS);
    assert!(matches!(world.outcome(), Some(Ok(_))), "{:?}", world.heard);
    let range = KeyRange::point(Key::from("h"));
    let read = RequestBody::Read {
        range,
        lock: Lock::Shared,
        reverse: false,
        limit_rows: 1,
        application: None,
        versions: false,
        nowait: false,
    };
    assert_eq!(
        world.ask(0, 2, 1, None, read),
        [Response::Moved { id: 1, to: Some(("g".into(), ShardId(5))) }]
    );
    assert!(world.read(0, 3, "a", Lock::Shared).is_some());
    // Invalid requests: a key that is not in the shard, and its first key.
    let split = |at: &str| RequestBody::Split { at: at.into(), shard: ShardId(6) };
    assert!(matches!(world.ask(0, 4, 1, None, split("z"))[..], [Response::Moved { .. }]));
    assert!(matches!(world.ask(0, 5, 1, None, split(""))[..], [Response::Unknown { .. }]));
}

/// The new shard knows nothing of a snapshot that its parent served above the split: its first
/// leader, whose clock may be behind, would issue below it.
#[test]
fn no_snapshot_is_served_above_a_split_that_is_being_agreed() {
    let test = || {
        let mut world = World::new();
        let snapshot = |at: Timestamp| RequestBody::Snapshot {
            at: Some(at),
            range: KeyRange::point(Key::from("a")),
            reverse: false,
            limit_rows: 1,
            versions: false,
            single_shard_range: None,
        };
        let present = |world: &World| Timestamp::end_of(world.reading().interval.earliest);
        let first = present(&world);
        world.ask(0, 1, 1, None, snapshot(first));
        world.pass(20 * MS);
        assert_eq!(world.heard.len(), 1, "a ceiling is agreed, and the snapshot is served");
        world.groups[0].stalled = true;
        world.ask(0, 2, 1, None, RequestBody::Split { at: "g".into(), shard: ShardId(5) });
        world.pass(20 * MS);
        let second = present(&world);
        assert_eq!(world.ask(0, 3, 1, None, snapshot(second)), []);
        world.groups[0].stalled = false;
        world.step(0, |_, _, _| {});
        world.pass(20 * MS);
        let served = |(_, said): &(ShardId, Response)| matches!(said, Response::Rows { at, .. } if *at == second);
        assert!(world.heard.iter().any(served), "{:?}", world.heard);
    };
    test();
    let broken = std::thread::spawn(move || {
        plant(Some(shard_rules::SNAPSHOT_ABOVE_SPLIT), true);
        test();
    });
    assert!(broken.join().is_err());
}

// ------------------------------------------------------------------------
// one-shot commits

/// A commit names a leader term, and arrives again and again: from its session, and from the
/// network.
#[test]
fn a_commit_that_was_asked_for_blindly_happens_once() {
    let mut world = World::new();
    world.commits_one_shot();
    world.put(1, "a");
    world.pass(4 * EPSILON);
    let at = world.outcome().expect("told").expect("committed");
    assert!(
        matches!(world.put(1, "a")[..], [Response::Committed { at: again, .. }] if again == at),
        "it is remembered"
    );
    world.put(2, "b");
    world.ask(0, 2, 6, None, RequestBody::Abort);
    world.pass(2_000 * MS);
    world.put(1, "a");
    world.put(2, "b");
    world.pass(4 * EPSILON);
    let installed = &world.groups[0].installed;
    assert!(installed.iter().filter(|(_, keys)| keys[0] == "a").count() == 1, "{installed:?}");
    assert!(installed.iter().filter(|(_, keys)| keys[0] == "b").count() <= 1, "{installed:?}");
}

#[test]
fn a_refused_late_or_misdirected_one_shot_commit_does_not_begin() {
    let mut world = World::new();
    world.commits_one_shot();
    let named = world.one_shot;
    // A one-shot commit that conflicts with an older transaction is aborted for good, also after
    // the conflict has ended.
    world.one_shot = None;
    assert!(world.read(0, 7, "a", Lock::Exclusive).is_some());
    world.one_shot = named;
    world.put(9, "a");
    world.ask(0, 9, 6, None, RequestBody::Abort);
    world.ask(0, 7, 6, None, RequestBody::Abort);
    let said = world.put(9, "a");
    assert!(
        matches!(said[..], [Response::Aborted { why: Conflict::LeaderChanged, .. }]),
        "{said:?}"
    );
    world.pass(2_000 * MS);
    assert!(matches!(world.put(9, "a")[..], [Response::TooLate { id: 5 }]), "it is forgotten");
    assert!(matches!(world.put(10, "a")[..], [Response::TooLate { id: 5 }]));
    world.commits_one_shot();
    world.restart(0);
    let said = world.put(11, "a");
    assert!(
        matches!(said[..], [Response::Aborted { why: Conflict::LeaderChanged, .. }]),
        "{said:?}"
    );
    let far = world.reading().interval.latest + 60_000 * MS;
    world.one_shot = Some(OneShot { term: world.groups[0].replica.group().term().0, by: far });
    assert!(matches!(world.put(12, "a")[..], [Response::Aborted { .. }]), "its clock is wrong");
    world.one_shot = world
        .one_shot
        .map(|one_shot| OneShot { by: world.reading().interval.latest + 1_000 * MS, ..one_shot });
    assert!(
        matches!(world.put(13, "a")[..], [Response::Aborted { .. }]),
        "whatever else that node says"
    );
    world.pass(4 * EPSILON);
    assert_eq!(world.groups[0].installed, []);
}

#[test]
fn beginning_once_per_duplicate_request_is_noticed() {
    let broken = std::thread::spawn(|| {
        plant(Some(participant_rules::BLIND_TWICE), true);
        a_refused_late_or_misdirected_one_shot_commit_does_not_begin();
    });
    assert!(broken.join().is_err());
}

/// A vote that arrives before the commit is not answered. If it were told that there is no commit,
/// a late copy of the vote would count for the commit later.
#[test]
fn a_vote_waits_for_a_commit_that_was_asked_for_blindly_until_none_can_come() {
    let mut world = World::new();
    world.commits_one_shot();
    world.prepare(1, None, &["z"]);
    world.hear();
    assert!(world.between.is_empty(), "the coordinator says nothing: {:?}", world.between);
    world.commit(1, None, &["a"]);
    world.talk(); // It is kept.
    let at = world.outcome().expect("told").expect("committed");
    assert_eq!(world.groups[0].installed, [(at, vec!["a".to_owned()])]);
    assert_eq!(world.groups[1].installed, [(at, vec!["z".to_owned()])]);
    world.commits_one_shot();
    world.prepare(2, None, &["y"]);
    world.pass(3_000 * MS);
    world.talk();
    assert_eq!(world.groups[1].replica.unresolved(), 0, "no commit can come any more");
    let said = world.commit(2, None, &["b"]);
    assert!(matches!(said[..], [Response::TooLate { .. }]), "{said:?}");
    assert_eq!(world.groups[1].installed.len(), 1);
}
