//! Timestamp ordering (K2 §5) in two groups of one member each, message by message: messages can be
//! inspected, lost and delayed.

#[path = "../groups/mod.rs"]
mod groups;

use groups::{EPSILON, MS, writes};
use meridian_clock::Timestamp;
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::{Key, KeyRange};
use meridian_systems::locking::Locking;
use meridian_systems::mvto::Mvto;
use meridian_txn::mvto::{Operation, Peer, Place};
use meridian_txn::shards::{ReplicaId, RequestBody, Response};
use meridian_txn::{Conflict, Lock};
use std::collections::BTreeSet;

type World = groups::World<Mvto>;

/// The recorder of all transactions here is shard 0, the keys below `m`.
const RECORDER: ReplicaId = ReplicaId { shard: ShardId(0), node: NodeId(1) };

/// The shard of a key.
fn shard_of(key: &str) -> u32 {
    u32::from(key >= "m")
}

impl World {
    /// The timestamp of a transaction that begins now.
    fn draw(&self, number: u32) -> Timestamp {
        let nanos = self.reading().interval.latest + u64::from(number);
        Timestamp { nanos, logical: 1 << 31, issuer: 9 }
    }

    fn do_now(
        &mut self,
        shard: u32,
        by: u64,
        at: Timestamp,
        operation: Operation,
    ) -> Vec<Response> {
        let id = self.heard.len() as u64 + 1;
        self.ask(shard, by, id, None, RequestBody::Ordered { at, operation })
    }

    /// Reads a key. Returns the timestamp of the version, or `None` if there is no answer yet.
    fn read(&mut self, key: &str, by: u64, at: Timestamp) -> Option<Timestamp> {
        let operation = Operation::Read {
            range: KeyRange::point(Key::from(key)),
            reverse: false,
            limit_rows: 1,
            versions: true,
            reserves: false,
        };
        let before = self.heard.len();
        self.do_now(shard_of(key), by, at, operation);
        self.pass(MS); // The log has the ceiling.
        self.read_since(before)
    }

    fn read_since(&self, before: usize) -> Option<Timestamp> {
        self.heard[before..].iter().find_map(|(_, said)| match said {
            Response::Rows { committed_at, .. } => {
                Some(committed_at.first().copied().unwrap_or(Timestamp::ZERO))
            }
            _ => None,
        })
    }

    /// Writes keys of one shard as a part of an intent.
    fn write(&mut self, part: u32, keys: &[&str], by: u64, at: Timestamp) -> Vec<Response> {
        let operation = intends((part, part), keys, &[], RECORDER);
        self.do_now(shard_of(keys[0]), by, at, operation)
    }

    /// Writes a key in each shard, and lets the timestamp pass. Returns the second shard's place.
    fn write_both(&mut self, by: u64, at: Timestamp) -> Place {
        assert!(is_written(&self.write(0, &["a"], by, at)));
        assert!(is_written(&self.write(0, &["z"], by, at)));
        self.pass(3 * EPSILON);
        self.place(1)
    }

    fn commit(&mut self, by: u64, at: Timestamp, places: &[Place]) -> Vec<Response> {
        self.do_now(0, by, at, Operation::Commit { places: places.to_vec(), parts: 1 })
    }

    /// The second shard, with intents in so many parts.
    fn place(&self, parts: u32) -> Place {
        Place { shard: ShardId(1), term: self.groups[1].replica.group().term().0, parts }
    }

    fn versions(&self, key: &str) -> Vec<Timestamp> {
        let group = &self.groups[shard_of(key) as usize];
        let of_key = group.installed.iter().filter(|(_, keys)| keys.iter().any(|it| it == key));
        // A version may be installed early, and again once its outcome is in the log.
        of_key.map(|(at, _)| *at).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Asserts that no intent is left, and no undecided record.
    fn is_clean(&mut self) {
        self.talk();
        self.pass(20_000 * MS);
        self.talk();
        for group in &self.groups {
            assert_eq!((group.replica.holders(), group.replica.unresolved()), (0, 0));
        }
    }
}

/// A part of an intent, of a coordinator that knows of so many parts in the log.
fn intends(
    (part, acknowledged): (u32, u32),
    keys: &[&str],
    withdrawn: &[&str],
    recorder: ReplicaId,
) -> Operation {
    let withdrawn = withdrawn.iter().map(|key| Key::from(*key)).collect();
    let (writes, schemas) = (writes(keys), Vec::new());
    Operation::Write { part, writes, withdrawn, schemas, recorder, acknowledged }
}

fn is_written(said: &[Response]) -> bool {
    matches!(said, [Response::Written { .. }])
}

fn is_refused_because_of_a_reader(said: &[Response]) -> bool {
    matches!(said, [Response::Aborted { why: Conflict::ReadLater { .. }, .. }])
}

/// K2, Figure 7. MVTO that draws commit timestamps after the writes, its second column, is not
/// built.
#[test]
fn two_phase_locking_blocks_in_all_three_conflicts_and_timestamp_ordering_in_none() {
    // Read, then write: under locks the writer waits for the reader.
    let mut locks = groups::World::<Locking>::new();
    let lock = |world: &mut groups::World<Locking>, by: u64, lock: Lock| {
        let said = world.ask(0, by, 1, None, groups::locks("a", lock));
        said.iter().any(|said| matches!(said, Response::Rows { .. }))
    };
    for (first, second) in [
        (Lock::Shared, Lock::Exclusive),
        (Lock::Exclusive, Lock::Shared),
        (Lock::Exclusive, Lock::Exclusive),
    ] {
        assert!(lock(&mut locks, 1, first));
        assert!(!lock(&mut locks, 2, second), "the younger one waits");
        for by in [1, 2] {
            locks.ask(0, by, 2, None, RequestBody::Abort);
        }
    }
    let mut world = World::new();
    let (early, late) = (world.draw(1), world.draw(2));
    // Read, then write: the writer goes on.
    assert_eq!(world.read("a", 1, early), Some(Timestamp::ZERO));
    assert!(is_written(&world.write(0, &["a"], 2, late)));
    // Write, then read: the earlier reader passes over the intent.
    assert_eq!(world.read("a", 3, early), Some(Timestamp::ZERO));
    // Write, then write: both intents are there, and both commit.
    let third = world.draw(3);
    assert!(is_written(&world.write(0, &["b"], 4, third)));
    assert!(is_written(&world.write(0, &["b"], 5, late)));
    world.pass(3 * EPSILON);
    for (by, at) in [(2, late), (4, third), (5, late)] {
        assert!(matches!(world.commit(by, at, &[])[..], [Response::Committed { .. }]));
    }
    let after = world.draw(4);
    assert_eq!(world.read("b", 6, after), Some(third), "the later timestamp counts");
    world.is_clean();
}

#[test]
fn a_write_below_a_later_read_is_refused() {
    let mut world = World::new();
    let (early, late) = (world.draw(1), world.draw(2));
    assert_eq!(world.read("a", 1, late), Some(Timestamp::ZERO));
    assert!(is_refused_because_of_a_reader(&world.write(0, &["a"], 2, early)));
    // Its own read does not matter, and neither does that of a transaction that is earlier.
    assert!(is_written(&world.write(0, &["a"], 1, late)));
    // A new leader does not know who has read what: it refuses what its predecessor may have.
    world.restart(0);
    assert!(is_refused_because_of_a_reader(&world.write(0, &["c"], 3, late)));
    world.is_clean();
}

/// K2, Figure 8: reads A and B, writes B.
#[test]
fn a_transaction_that_reads_two_keys_and_writes_one_commits_in_one_step() {
    let mut world = World::new();
    let at = world.draw(1);
    assert_eq!(world.read("a", 1, at), Some(Timestamp::ZERO));
    assert_eq!(world.read("z", 1, at), Some(Timestamp::ZERO));
    let recorder = ReplicaId { shard: ShardId(1), node: NodeId(1) };
    let intent = intends((0, 0), &["z"], &[], recorder);
    assert!(is_written(&world.do_now(1, 1, at, intent)));
    // What it has read stays as it is: an earlier writer of A is refused.
    let earlier = Timestamp { nanos: at.nanos - 1, ..at };
    assert!(is_refused_because_of_a_reader(&world.write(0, &["a"], 2, earlier)));
    // A later reader waits for the decision, and has it in the step in which it is agreed.
    let (late, before) = (world.draw(2), world.heard.len());
    assert_eq!(world.read("z", 3, late), None);
    world.pass(3 * EPSILON);
    world.do_now(1, 1, at, Operation::Commit { places: Vec::new(), parts: 1 });
    assert_eq!(world.read_since(before), Some(at));
    assert_eq!(world.versions("z"), [at]);
    world.is_clean();
}

/// A query of the past once passed over the intent of the transaction whose timestamp it named, and
/// showed half of it.
#[test]
fn a_query_at_a_transactions_own_timestamp_waits_for_it() {
    let mut world = World::new();
    let at = world.draw(1);
    let place = world.write_both(1, at);
    world.commit(1, at, &[place]);
    assert_eq!(world.read("a", 2, at), Some(at));
    let before = world.heard.len();
    assert_eq!(world.read("z", 2, at), None, "the other shard does not know the outcome yet");
    world.talk();
    assert_eq!(world.read_since(before), Some(at));
    world.is_clean();
}

/// Trap A.1-B5.
#[test]
fn a_push_to_a_missing_record_aborts_for_good() {
    let mut world = World::new();
    let at = world.draw(1);
    // The first write, which would create the record, is on its way; the other one is there.
    assert!(is_written(&world.write(0, &["z"], 1, at)));
    let (late, before) = (world.draw(2), world.heard.len());
    assert_eq!(world.read("z", 2, late), None, "it waits, and pushes");
    let is_push = |said: &Peer| matches!(said, Peer::Push { reader: Some(_), .. });
    assert!(world.between.iter().any(|(_, to, said)| to.0 == 0 && is_push(said)));
    world.talk();
    world.pass(3_000 * MS);
    world.talk();
    assert_eq!(world.read_since(before), Some(Timestamp::ZERO), "it goes on without");
    let said = world.write(0, &["a"], 1, at);
    assert!(matches!(said[..], [Response::Aborted { why: Conflict::Expired, .. }]), "{said:?}");
    let place = world.place(1);
    assert!(matches!(world.commit(1, at, &[place])[..], [Response::Aborted { .. }]));
    assert_eq!((world.versions("a"), world.versions("z")), (vec![], vec![]));
    world.is_clean();
}

#[test]
fn a_decision_outlives_the_recorder_that_dies_before_it_answers() {
    let mut world = World::new();
    let at = world.draw(1);
    let place = world.write_both(1, at);
    world.commit(1, at, &[place]);
    // Neither the client nor the other shard receives it.
    world.between.clear();
    world.heard.clear();
    world.restart(0);
    assert!(matches!(world.commit(1, at, &[place])[..], [Response::Committed { .. }]));
    world.pass(3_000 * MS);
    world.talk();
    assert_eq!((world.versions("a"), world.versions("z")), (vec![at], vec![at]));
    world.is_clean();
}

/// The coordinator is silent after its intents are written.
#[test]
fn an_idle_transaction_gives_way_after_three_seconds_and_a_busy_one_after_a_minute() {
    let mut world = World::new();
    for (lives_ns, keeps_alive) in [(3_000 * MS, false), (60_000 * MS, true)] {
        let (at, began) = (world.draw(1), world.now);
        let by = world.heard.len() as u64 + 1_000;
        assert!(is_written(&world.write(0, &["a"], by, at)));
        while world.groups[0].replica.holders() > 0 {
            world.pass(500 * MS);
            if keeps_alive {
                world.ask(0, by, 99, None, RequestBody::KeepAlive);
            }
            assert!(world.now < began + 100_000 * MS);
        }
        let lived = world.now - began;
        assert!((lives_ns..lives_ns + 2_000 * MS).contains(&lived), "{lived}");
        assert!(matches!(world.commit(by, at, &[])[..], [Response::Aborted { .. }]));
    }
    assert_eq!(world.versions("a"), []);
}

/// Writes that are sent as statements run (K2 §5.3).
#[test]
fn parts_may_come_twice_and_survive_a_change_of_leaders() {
    let mut world = World::new();
    let at = world.draw(1);
    assert!(is_written(&world.write(0, &["a"], 1, at)));
    assert!(is_written(&world.write(0, &["x", "y"], 1, at)));
    world.restart(1);
    assert!(is_written(&world.write(0, &["x", "y"], 1, at)), "a copy of what the log has");
    // A later reader of x waits: x may be written again, and z, which it has not read.
    let late = world.draw(2);
    assert_eq!(world.read("x", 2, late), None);
    assert!(is_written(&world.write(1, &["x"], 1, at)));
    let third = intends((2, 2), &[], &["y"], RECORDER);
    assert!(is_written(&world.do_now(1, 1, at, third)));
    assert!(is_written(&world.write(1, &["x"], 1, at)), "a late copy changes nothing");
    assert_eq!(world.read("y", 3, late), Some(Timestamp::ZERO), "it was taken back");
    assert!(is_refused_because_of_a_reader(&world.write(3, &["y"], 1, at)));
    world.pass(3 * EPSILON);
    let (place, before) = (world.place(3), world.heard.len());
    assert!(matches!(world.commit(1, at, &[place])[..], [Response::Committed { .. }]));
    world.talk();
    assert_eq!(world.read_since(before), Some(at), "the reader that has waited");
    assert_eq!((world.versions("x"), world.versions("y")), (vec![at], vec![]));
    world.is_clean();
}

/// The second part does not wait for the answer to the first, and may overtake it.
#[test]
fn a_part_that_comes_before_an_earlier_one_is_asked_for_again() {
    let mut world = World::new();
    let at = world.draw(1);
    assert!(is_written(&world.write(0, &["a"], 1, at)));
    let second = |acknowledged: u32| intends((1, acknowledged), &["y"], &[], RECORDER);
    assert!(matches!(world.do_now(1, 1, at, second(0))[..], [Response::Unknown { .. }]));
    assert!(is_written(&world.write(0, &["x"], 1, at)));
    assert!(is_written(&world.do_now(1, 1, at, second(0))));
    world.pass(3 * EPSILON);
    let place = world.place(2);
    assert!(matches!(world.commit(1, at, &[place])[..], [Response::Committed { .. }]));
    world.talk();
    assert_eq!((world.versions("x"), world.versions("y")), (vec![at], vec![at]));
    // Of one whose first part is known to be in the log, and is not there, nothing is left.
    let other = world.draw(2);
    let said = world.do_now(1, 2, other, second(1));
    assert!(matches!(said[..], [Response::Aborted { why: Conflict::Expired, .. }]));
    world.is_clean();
}

/// A leader that was deposed after the first part, and does not know it, must not show half of a
/// transaction.
#[test]
fn a_leader_without_all_parts_does_not_take_a_commit_for_its_own() {
    let mut world = World::new();
    let at = world.draw(1);
    assert!(is_written(&world.write(0, &["a"], 1, at)));
    assert!(is_written(&world.write(0, &["x"], 1, at)));
    world.pass(3 * EPSILON);
    let place = world.place(2);
    world.commit(1, at, &[place]);
    world.hear();
    assert_eq!(world.versions("x"), [], "its second part is missing");
    let late = world.draw(2);
    assert_eq!(world.read("x", 2, late), None);
    // The part that it has not, in its log after all.
    assert!(is_written(&world.write(1, &["z"], 1, at)));
    world.pass(2_000 * MS);
    world.talk();
    assert_eq!((world.versions("x"), world.versions("z")), (vec![at], vec![at]));
    world.is_clean();
}
