//! Schedules of a TAPIR replica: those of the traps, and variants of them.

use meridian_clock::{Interval, Reading, Timestamp};
use meridian_machine::ShardId;
use meridian_machine::planted::plant;
use meridian_mvcc::{Key, KeyRange, Value, Write};
use meridian_txn::TransactionId;
use meridian_txn::tapir::rules;
use meridian_txn::tapir::{
    End, Footprint, Guarantee, Participant, Past, Proposal, RangeRead, TxnStatus, Vote, decide,
};
use std::sync::Arc;

fn at(nanos: u64) -> Timestamp {
    Timestamp { nanos, logical: 0, issuer: 1 }
}

fn now() -> Reading {
    Reading::at(1_000, Interval::around(1_000, 1))
}

fn point(key: &str) -> KeyRange {
    KeyRange::point(Key::from(key))
}

fn txn(number: u64) -> TransactionId {
    TransactionId { node: 1, incarnation: 1, number }
}

/// Returns a proposal with these reads and written keys.
fn proposal(number: u64, nanos: u64, reads: Vec<RangeRead>, writes: &[&str]) -> Proposal {
    let writes = writes
        .iter()
        .map(|key| Write { key: Key::from(*key), value: Some(Value::from("1")) })
        .collect();
    let footprint = Arc::new(Footprint { reads, writes, participants: vec![ShardId(0)] });
    Proposal { transaction: txn(number), attempt: 0, at: at(nanos), footprint }
}

/// Returns a proposal with other participants.
fn of(participants: Vec<ShardId>, proposal: Proposal) -> Proposal {
    let footprint = Arc::new(Footprint { participants, ..proposal.footprint.as_ref().clone() });
    Proposal { footprint, ..proposal }
}

fn again(before: &Proposal, nanos: u64) -> Proposal {
    Proposal { attempt: before.attempt + 1, at: at(nanos), ..before.clone() }
}

fn replica(guarantee: Guarantee) -> Participant {
    Participant::new(guarantee, ShardId(0), KeyRange::all())
}

/// Returns a past that is closed and settled up to this timestamp.
fn over(nanos: u64) -> Past {
    Past { closed: at(nanos), settled: at(nanos) }
}

fn commits(replica: &mut Participant, proposal: &Proposal) {
    assert_eq!(replica.end(&End::Commit(proposal.clone())).is_some(), !proposal.writes.is_empty());
}

/// Trap A.2-2: the transaction is prepared at one timestamp, and its read is overwritten before the
/// next is proposed.
#[test]
fn another_timestamp_of_a_prepared_transaction_is_checked_again() {
    let mut replica = replica(Guarantee::Serializable);
    let first = proposal(1, 10, vec![replica.see(&point("k"))], &["w"]);
    assert_eq!(replica.prepare(now(), &first), Vote::Ok);
    commits(&mut replica, &proposal(2, 12, Vec::new(), &["k"]));
    assert_eq!(replica.prepare(now(), &again(&first, 20)), Vote::Abort);
    let status: Vec<Timestamp> = replica.prepared().map(|status| status.at).collect();
    assert_eq!(status, [at(10)], "a recovery may still decide on that attempt");
    assert_eq!(replica.newest(txn(1)), Some((1, Vote::Abort)), "the newest attempt is reported");
    assert_eq!(replica.prepare(now(), &first), Vote::Abstain, "only the newest attempt counts");
}

/// A proposal is repeated at the same timestamp where a view has begun without the operation.
#[test]
fn a_repeated_prepare_at_the_same_timestamp_is_checked_again() {
    let mut replica = replica(Guarantee::Serializable);
    let asks = proposal(1, 20, vec![replica.see(&point("k"))], &["w"]);
    assert_eq!(replica.prepare(now(), &asks), Vote::Ok);
    commits(&mut replica, &proposal(2, 10, Vec::new(), &["k"]));
    assert_eq!(replica.prepare(now(), &asks), Vote::Abort, "the former vote does not count");
    assert_eq!(replica.prepared().count(), 0);
}

/// Trap A.2-15: an aborted transaction is not prepared by a late proposal.
#[test]
fn an_ended_transaction_is_not_prepared() {
    let mut replica = replica(Guarantee::StrictlySerializable);
    let late = proposal(1, 10, Vec::new(), &["k"]);
    assert_eq!(replica.end(&End::Abort { transaction: txn(1), at: at(10) }), None);
    assert_eq!(replica.prepare(now(), &late), Vote::Abort);
    assert_eq!(replica.prepared().count(), 0);
    replica.settle(over(50));
    assert_eq!(replica.ended(txn(1)), None, "the outcome is forgotten");
    assert_eq!(
        replica.prepare(now(), &late),
        Vote::Late,
        "a proposal at a forgotten timestamp gets no outcome"
    );
}

#[test]
fn preparing_an_ended_transaction_is_noticed() {
    let broken = std::thread::spawn(|| {
        plant(Some(rules::ENDED_PREPARES), true);
        an_ended_transaction_is_not_prepared();
    });
    assert!(broken.join().is_err());
}

/// Trap A.2-18.
#[test]
fn no_write_lands_in_a_range_that_was_read_as_empty() {
    let mut replica = replica(Guarantee::Serializable);
    let range = KeyRange::prefix(b"k");
    let scan = proposal(1, 30, vec![replica.see(&range)], &["sum"]);
    commits(&mut replica, &proposal(2, 20, Vec::new(), &["k1"]));
    assert_eq!(replica.prepare(now(), &scan), Vote::Abort, "a row was written into the range");
    let scan = proposal(3, 40, vec![replica.see(&range)], &["sum"]);
    assert_eq!(replica.prepare(now(), &scan), Vote::Ok);
    assert_eq!(replica.prepare(now(), &proposal(4, 35, Vec::new(), &["k2"])), Vote::Retry(at(40)));
    assert_eq!(replica.prepare(now(), &proposal(5, 45, Vec::new(), &["k2"])), Vote::Ok);
    let later = proposal(6, 50, vec![replica.see(&range)], &[]);
    assert_eq!(
        replica.prepare(now(), &later),
        Vote::Abstain,
        "the prepared transaction may commit"
    );
}

/// Trap A.2-20, both halves.
#[test]
fn a_timestamp_is_above_all_reads_and_no_write_lands_below_a_read() {
    let mut replica = replica(Guarantee::Serializable);
    commits(&mut replica, &proposal(1, 100, Vec::new(), &["x"]));
    let early = proposal(2, 50, vec![replica.see(&point("x"))], &["y"]);
    assert_eq!(replica.prepare(now(), &early), Vote::Retry(at(100)));
    let reader = proposal(3, 150, vec![replica.see(&point("z"))], &[]);
    commits(&mut replica, &reader);
    assert_eq!(replica.prepare(now(), &proposal(4, 140, Vec::new(), &["z"])), Vote::Retry(at(150)));
    assert_eq!(
        replica.prepare(now(), &proposal(5, 90, Vec::new(), &["x"])),
        Vote::Ok,
        "no transaction has read below 100"
    );
}

#[test]
fn only_where_real_time_does_not_count_is_something_written_in_the_past() {
    let mut replica = replica(Guarantee::StrictlySerializable);
    commits(&mut replica, &proposal(1, 100, Vec::new(), &["x"]));
    assert_eq!(replica.prepare(now(), &proposal(2, 90, Vec::new(), &["x"])), Vote::Retry(at(100)));
    assert_eq!(replica.prepare(now(), &proposal(3, 200, Vec::new(), &["y"])), Vote::Ok);
    let reader = proposal(4, 150, vec![replica.see(&point("y"))], &[]);
    assert_eq!(
        replica.prepare(now(), &reader),
        Vote::Retry(at(200)),
        "it may have been acknowledged"
    );
}

/// Trap A.2-10.
#[test]
fn a_merge_puts_back_what_is_likely_before_it_looks_at_what_is_open() {
    let mut replica = replica(Guarantee::StrictlySerializable);
    let read =
        || vec![RangeRead { range: point("k"), versions: Vec::new(), through: Timestamp::ZERO }];
    let (open, likely) = (proposal(1, 10, read(), &["k"]), proposal(2, 20, read(), &["k"]));
    assert_eq!(replica.prepare(now(), &open), Vote::Ok, "here the open proposal came first");
    assert_eq!(replica.merge(now(), &[(&likely, Vote::Ok)], &[&open]), [Vote::Retry(at(20))]);
    assert_eq!(replica.prepared().map(|status| status.transaction).collect::<Vec<_>>(), [txn(2)]);
}

/// All records have the likely vote, so a conflicting transaction was not prepared any more where
/// the likely one was accepted: its end, or another attempt of it, is not known here.
#[test]
fn a_likely_vote_stays_whatever_else_is_known() {
    let mut replica = replica(Guarantee::Serializable);
    let read =
        || vec![RangeRead { range: point("k"), versions: Vec::new(), through: Timestamp::ZERO }];
    let (known, likely) = (proposal(1, 20, read(), &["k"]), proposal(2, 10, read(), &["k"]));
    replica.sync(now(), &[(&known, Vote::Ok)], &[], &[]);
    assert_eq!(replica.merge(now(), &[(&likely, Vote::Ok)], &[]), []);
    assert_eq!(replica.prepared().count(), 2);
}

/// Of five replicas, three accepted one transaction. It was aborted, and two of the three know
/// that; so four accepted the other, which conflicts with it. A view that is merged without those
/// two knows both votes.
#[test]
fn of_two_that_contradict_each_other_both_yeses_may_be_known() {
    let mut replica = replica(Guarantee::StrictlySerializable);
    let read =
        || vec![RangeRead { range: point("k"), versions: Vec::new(), through: Timestamp::ZERO }];
    let (aborted, other) = (proposal(1, 20, read(), &["k"]), proposal(2, 10, read(), &["k"]));
    replica.sync(now(), &[(&aborted, Vote::Ok), (&other, Vote::Ok)], &[], &[]);
    assert_eq!(replica.prepared().count(), 2);
    commits(&mut replica, &other);
    assert_eq!(replica.end(&End::Abort { transaction: txn(1), at: at(20) }), None);
    assert_eq!(replica.prepared().count(), 0);
}

/// With two shards: this one has accepted the first attempt, the other has not, and the second
/// attempt is under way when a reader takes the fast path.
#[test]
fn an_attempt_that_will_never_commit_blocks_no_other() {
    let mut replica = replica(Guarantee::Serializable);
    let first = proposal(2, 10, Vec::new(), &["k"]);
    let second = again(&first, 30);
    let reader = proposal(1, 20, vec![replica.see(&point("k"))], &["w"]);
    replica.sync(now(), &[(&first, Vote::Ok)], &[], &[]);
    assert_eq!(replica.merge(now(), &[(&reader, Vote::Ok)], &[&second]), [Vote::Ok]);
    replica.sync(now(), &[(&first, Vote::Ok), (&second, Vote::Retry(at(40)))], &[], &[]);
    assert!(
        replica.prepared().all(|status| status.transaction == txn(1)),
        "no attempt of the transaction stays"
    );
}

/// Found by a random simulation of three replicas, seed 4878.
#[test]
fn an_earlier_attempts_result_stands_after_the_transaction_ended() {
    let mut replica = replica(Guarantee::Serializable);
    let first = proposal(1, 10, vec![replica.see(&point("x"))], &["k", "x"]);
    let between = proposal(2, 20, vec![replica.see(&point("k"))], &["x"]);
    commits(&mut replica, &between);
    commits(&mut replica, &again(&first, 30));
    assert_eq!(replica.merge(now(), &[(&first, Vote::Ok)], &[]), []);
    assert_eq!(replica.prepared().count(), 0);
}

#[test]
fn votes_of_a_bypassed_view_block_no_transaction() {
    let mut replica = replica(Guarantee::StrictlySerializable);
    let bypassed = proposal(1, 10, Vec::new(), &["k"]);
    let reader = proposal(2, 20, vec![replica.see(&point("k"))], &["k"]);
    replica.sync(now(), &[(&bypassed, Vote::Ok)], &[], &[]);
    replica.sync(now(), &[], &[], &[]); // The newest view does not have it.
    assert_eq!(replica.prepared().count(), 1, "another shard may be committing it");
    assert_eq!(replica.merge(now(), &[(&reader, Vote::Ok)], &[]), []);
    assert_eq!(replica.prepared().count(), 2);
}

#[test]
fn what_is_settled_does_not_come_back() {
    let mut replica = replica(Guarantee::StrictlySerializable);
    let old = proposal(1, 10, Vec::new(), &["k"]);
    commits(&mut replica, &old);
    replica.settle(over(20));
    let installed = replica.sync(now(), &[(&old, Vote::Ok)], &[], &[&End::Commit(old.clone())]);
    assert!(installed.is_empty(), "{installed:?}");
    assert_eq!(replica.prepared().count(), 0);
}

/// Another shard may be committing it (Trap A.2-10).
#[test]
fn what_is_prepared_stays_when_a_view_begins_without_it() {
    let mut replica = replica(Guarantee::StrictlySerializable);
    let prepared = proposal(1, 10, Vec::new(), &["k"]);
    replica.prepare(now(), &prepared);
    replica.sync(now(), &[], &[], &[]);
    assert_eq!(replica.prepared().count(), 1);
    replica.sync(now(), &[(&prepared, Vote::Abstain)], &[], &[]);
    assert_eq!(replica.prepared().count(), 0, "the group's vote replaces it");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let mut replica =
        Participant::new(Guarantee::StrictlySerializable, ShardId(0), KeyRange::prefix(b"a"));
    assert_eq!(
        replica.prepare(now(), &proposal(1, 10, Vec::new(), &["b"])),
        Vote::Abort,
        "another shard's key"
    );
    for participants in
        [vec![], vec![ShardId(1)], vec![ShardId(1), ShardId(0)], vec![ShardId(0), ShardId(0)]]
    {
        let asks = of(participants, proposal(1, 10, Vec::new(), &["a"]));
        assert_eq!(
            replica.prepare(now(), &asks),
            Vote::Abort,
            "participants are sorted, unique, and include this shard"
        );
        assert_eq!(replica.end(&End::Commit(asks)), None);
    }
    let far = proposal(2, 60_000_000_000, Vec::new(), &["a"]);
    assert_eq!(replica.prepare(now(), &far), Vote::Abstain, "either clock may be wrong");
    let before = replica.see(&point("a"));
    replica.settle(over(5));
    assert_eq!(
        replica.prepare(now(), &proposal(3, 10, vec![before.clone()], &[])),
        Vote::Ok,
        "a recent read is still valid"
    );
    replica.settle(over(8));
    let late = proposal(4, 10, vec![before], &[]);
    assert_eq!(replica.prepare(now(), &late), Vote::Abort, "the read is older than what is known");
}

/// Trap A.2-17.
#[test]
fn no_proposal_is_accepted_below_the_closed_timestamp() {
    let mut replica = replica(Guarantee::Serializable);
    let (before, late) = (proposal(1, 10, Vec::new(), &["a"]), proposal(2, 10, Vec::new(), &["b"]));
    assert_eq!(replica.prepare(now(), &before), Vote::Ok);
    replica.close(at(20));
    assert_eq!(replica.prepare(now(), &late), Vote::Retry(at(20)));
    assert_eq!(replica.prepare(now(), &again(&late, 30)), Vote::Ok);
    assert_eq!(replica.prepared().count(), 2, "a transaction that was prepared before may commit");
    commits(&mut replica, &before);
}

/// Another shard may still need the outcome.
#[test]
fn of_a_commit_of_several_shards_the_name_stays() {
    let mut replica = replica(Guarantee::StrictlySerializable);
    let alone = proposal(1, 10, Vec::new(), &["a"]);
    let of_two = of(vec![ShardId(0), ShardId(1)], proposal(2, 10, Vec::new(), &["b"]));
    commits(&mut replica, &alone);
    commits(&mut replica, &of_two);
    replica.settle(over(20));
    assert_eq!((replica.ended(txn(1)), replica.ended(txn(2))), (None, Some(true)));
    assert_eq!(replica.resolve(txn(2)), TxnStatus::Committed(of_two.name()));
    assert_eq!(
        replica.prepare(now(), &of_two),
        Vote::Ok,
        "its coordinator receives the same outcome"
    );
    assert_eq!(replica.prepare(now(), &again(&of_two, 30)), Vote::Abort);
}

/// A restarted replica does not have what the record has forgotten.
#[test]
fn a_readmitted_attempt_does_not_validate_earlier_reads() {
    let mut replica = replica(Guarantee::StrictlySerializable);
    let before = replica.see(&point("a"));
    replica.sync(now(), &[], &[], &[]);
    replica.settle(over(20));
    replica.recall(now(), &[]);
    assert_eq!(replica.prepare(now(), &proposal(1, 30, vec![before], &[])), Vote::Abort);
    assert_eq!(
        replica.prepare(now(), &proposal(2, 30, vec![replica.see(&point("a"))], &[])),
        Vote::Ok
    );
}

#[test]
fn a_commit_installs_once_and_also_where_it_was_never_proposed() {
    let mut replica = replica(Guarantee::StrictlySerializable);
    let unheard = End::Commit(proposal(1, 10, Vec::new(), &["k"]));
    assert_eq!(replica.end(&unheard).map(|(at, writes)| (at, writes.len())), Some((at(10), 1)));
    assert_eq!(replica.end(&unheard), None);
    replica.settle(over(10));
    assert_eq!(replica.end(&unheard), None, "the commit is settled");
}

#[test]
fn votes_of_one_attempt_become_one() {
    use Vote::{Abort, Abstain, Ok, Retry};
    for (votes, decided) in [
        (vec![Ok, Ok], Ok),
        (vec![Ok, Abstain], Abstain),
        (vec![Ok, Retry(at(3)), Retry(at(5))], Retry(at(5))),
        (vec![Ok, Ok, Abort], Abort),
        (vec![Abstain, Abstain, Retry(at(3))], Abstain),
        (vec![Abstain, Ok, Retry(at(3))], Retry(at(3))),
    ] {
        assert_eq!(decide(&votes, 2), decided, "{votes:?}");
    }
}

/// A commit of keys that the shard does not have is ignored.
#[test]
fn a_commit_of_keys_elsewhere_is_not_taken_in() {
    let bounds = KeyRange { start: Key::from("a"), end: Some(Key::from("m")) };
    let mut replica = Participant::new(Guarantee::StrictlySerializable, ShardId(0), bounds);
    let elsewhere = proposal(1, 10, Vec::new(), &["k", "z"]);
    assert_eq!(replica.prepare(now(), &elsewhere), Vote::Abort);
    assert_eq!(replica.end(&End::Commit(elsewhere)), None);
    assert_eq!(replica.ended(txn(1)), None, "the end is not recorded either");
    assert!(replica.end(&End::Commit(proposal(1, 10, Vec::new(), &["k"]))).is_some());
}

/// A later attempt has reached one replica only, and the view begins without it: a recovery must
/// receive the same from every replica.
#[test]
fn replicas_know_what_a_view_began_with_about_resolved_transactions() {
    let first = proposal(1, 10, Vec::new(), &["k"]);
    let standings = [false, true].map(|met_it| {
        let mut replica = replica(Guarantee::StrictlySerializable);
        assert_eq!(replica.prepare(now(), &first), Vote::Ok);
        if met_it {
            assert_eq!(replica.prepare(now(), &again(&first, 20)), Vote::Ok);
        }
        assert_eq!(
            replica.resolve(txn(1)),
            TxnStatus::Open,
            "no view has begun with the operation"
        );
        replica.sync(now(), &[(&first, Vote::Ok)], &[txn(1)], &[]);
        assert_eq!(
            replica.prepare(now(), &again(&first, 30)),
            Vote::Abort,
            "no other attempt is prepared"
        );
        replica.resolve(txn(1))
    });
    assert_eq!(standings, [TxnStatus::Prepared(first.clone()), TxnStatus::Prepared(first)]);
}

/// Records keep what is settled while a replica is away. A timestamp between two attempts of a
/// transaction is settled: the later attempt decides what a recovery learns. (Campaigns found this:
/// seeds 31200474 and 31200857 were recovered for ever.)
#[test]
fn a_settled_attempt_that_was_replaced_keeps_no_recovery_from_an_answer() {
    let first = of(vec![ShardId(0), ShardId(1)], proposal(1, 10, Vec::new(), &["k"]));
    let second = again(&first, 30);
    let prepared = TxnStatus::Prepared(second.clone());
    for (vote, settled, stands) in [
        (Vote::Ok, 20, prepared),
        (Vote::Abstain, 20, TxnStatus::Never),
        // This replica has forgotten the outcome: others know it.
        (Vote::Ok, 40, TxnStatus::Open),
    ] {
        let mut replica = replica(Guarantee::StrictlySerializable);
        let decided = [(&first, Vote::Ok), (&second, vote)];
        replica.sync(now(), &decided, &[], &[]);
        replica.settle(over(settled));
        replica.sync(now(), &decided, &[txn(1)], &[]);
        assert_eq!(replica.resolve(txn(1)), stands, "{vote:?}, settled at {settled}");
    }
}

/// Another shard has the transaction prepared, and received no outcome. This shard's record keeps
/// the abort while a replica is away, after it is settled.
#[test]
fn an_abort_that_is_settled_keeps_no_recovery_from_an_answer() {
    let mut replica = replica(Guarantee::StrictlySerializable);
    let prepared = of(vec![ShardId(0), ShardId(1)], proposal(1, 10, Vec::new(), &["k"]));
    let abort = End::Abort { transaction: txn(1), at: at(10) };
    let decided = [(&prepared, Vote::Ok)];
    replica.sync(now(), &decided, &[], &[&abort]);
    assert_eq!(replica.resolve(txn(1)), TxnStatus::Aborted);
    replica.settle(over(20));
    assert_eq!(replica.ended(txn(1)), None);
    replica.sync(now(), &decided, &[txn(1)], &[&abort]);
    assert_eq!(replica.resolve(txn(1)), TxnStatus::Never);
}

/// A replica that takes over has no versions from before its first view to validate old reads
/// against.
#[test]
fn a_new_replica_does_not_validate_earlier_reads() {
    let mut old = replica(Guarantee::StrictlySerializable);
    old.settle(over(10));
    let first = proposal(1, 20, vec![old.see(&point("k"))], &["k"]);
    let second = proposal(2, 40, vec![old.see(&point("k"))], &["k"]);
    commits(&mut old, &first);
    old.settle(over(30));
    assert_eq!(old.prepare(now(), &second), Vote::Abort);
    let mut takes_over = replica(Guarantee::StrictlySerializable).taking_over();
    takes_over.settle(over(30));
    assert_eq!(takes_over.prepare(now(), &second), Vote::Abort);
}
