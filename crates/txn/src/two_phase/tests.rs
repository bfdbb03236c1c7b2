//! Tests of two-phase commit's state: two values that exchange messages, and each of the parts.

use super::*;
use crate::Conflict;
use meridian_machine::planted::plant;
use meridian_machine::{Address, DatabaseId, Interval};

const COORDINATOR: ShardId = ShardId(1);
const OTHERS: [ShardId; 2] = [ShardId(2), ShardId(3)];

/// A prepare record, as a protocol without locks may have it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    at: Timestamp,
    decides: u64,
}

impl PrepareRecord for Record {
    fn at(&self) -> Timestamp {
        self.at
    }

    fn coordinator(&self) -> ShardId {
        COORDINATOR
    }

    fn decides(&self) -> u64 {
        self.decides
    }
}

type State = TwoPhase<Record, &'static str>;

fn txn(number: u64) -> TransactionId {
    TransactionId { node: 1, incarnation: 1, number }
}

fn at(nanos: u64) -> Timestamp {
    Timestamp { nanos, logical: 0, issuer: 7 }
}

fn yes(shard: ShardId, nanos: u64, term: u64) -> Ballot {
    let vote = Vote::Prepared { at: at(nanos), below: Timestamp::MAX };
    Ballot { shard, node: NodeId(shard.0), term, vote }
}

fn leader_of(shard: ShardId) -> Address {
    Address::replica(NodeId(9), DatabaseId(1), shard)
}

/// A question of a participant with a prepare record, which voted in term 4.
fn asks(number: u64, decides: u64) -> Inquiry {
    Inquiry { transaction: txn(number), one_shot: None, decides, voted_in: 4, reads: false }
}

#[test]
fn each_shard_counts_once_and_its_newest_ballot_wins() {
    let mut voting = Voting::default();
    voting.begin(txn(1), "commit", OTHERS);
    assert!(matches!(voting.count(txn(1), yes(OTHERS[0], 10, 4)), Some(Counted::Waits)));
    assert!(matches!(voting.count(txn(1), yes(OTHERS[0], 12, 5)), Some(Counted::Waits)));
    assert!(voting.has_vote_of(txn(1), OTHERS[0]) && !voting.has_vote_of(txn(1), OTHERS[1]));
    let Some(Counted::Complete("commit", votes)) = voting.count(txn(1), yes(OTHERS[1], 11, 6))
    else {
        panic!("both have voted")
    };
    assert_eq!(votes.above(), at(12));
    assert_eq!(votes.prepared(), (OTHERS.to_vec(), vec![5, 6]));
    assert!(voting.count(txn(1), yes(OTHERS[0], 13, 7)).is_none(), "the commit is complete");
}

#[test]
fn a_no_ends_a_commit_and_later_votes_find_none() {
    let mut voting = Voting::default();
    voting.begin(txn(1), "commit", OTHERS);
    voting.count(txn(1), yes(OTHERS[0], 10, 4));
    let no = Ballot { vote: Vote::No { why: Conflict::Late }, ..yes(OTHERS[1], 0, 4) };
    let Some(Counted::Refused("commit", votes, Conflict::Late)) = voting.count(txn(1), no) else {
        panic!("a participant has refused")
    };
    let told: Vec<ShardId> = votes.ballots().map(|ballot| ballot.shard).collect();
    assert_eq!(told, [OTHERS[0]], "the shard that is prepared is told");
    assert!(voting.count(txn(1), yes(OTHERS[1], 11, 4)).is_none() && voting.is_empty());
}

#[test]
fn the_commit_timestamp_is_above_all_votes_and_below_all_bounds() {
    let mut voting = Voting::default();
    voting.begin(txn(1), "commit", OTHERS);
    voting.count(txn(1), yes(OTHERS[0], 10, 4));
    let read = Vote::Read { through: at(14), below: at(30) };
    let read = Ballot { vote: read, ..yes(OTHERS[1], 0, 4) };
    let Some(Counted::Complete(_, votes)) = voting.count(txn(1), read) else {
        panic!("both have voted")
    };
    assert_eq!((votes.above(), votes.below()), (at(14), at(30)));
    assert_eq!(votes.prepared().0, [OTHERS[0]], "a shard that was only read logs nothing");
    let second = 1_000_000_000;
    let mut far = Collected::default();
    far.insert(yes(OTHERS[0], 2 * second, 4));
    assert!(far.is_far(second - 1, 0) && !far.is_far(second, 0) && !far.is_far(0, second));
}

#[test]
fn votes_before_their_commit_are_kept_one_for_each_shard() {
    let mut early = EarlyVotes::default();
    assert!(!early.keep(yes(OTHERS[0], 10, 4)) && !early.keep(yes(OTHERS[1], 10, 4)));
    assert!(early.keep(yes(OTHERS[0], 12, 5)), "a repeated vote");
    let kept: Vec<Ballot> = early.into_iter().collect();
    assert_eq!(kept, [yes(OTHERS[1], 10, 4), yes(OTHERS[0], 12, 5)]);
}

#[test]
fn a_participant_asks_the_known_leader_first_and_then_all_nodes_less_often() {
    let mut state = State::new(10);
    state.prepared.prepare(txn(1), Record { at: at(10), decides: 3 }, Some(NodeId(5)));
    let mut rounds = Vec::new();
    for round in 1..=13 {
        for ToLeader { shard, node, message } in state.prepared.ask(OTHERS[0], 4) {
            assert_eq!(shard, COORDINATOR);
            let vote = Vote::Prepared { at: at(10), below: Timestamp::MAX };
            let (transaction, shard, one_shot) = (txn(1), OTHERS[0], None);
            let (decides, voted_in) = (3, 4);
            assert_eq!(
                message,
                ParticipantMessage::Vote { transaction, shard, vote, one_shot, decides, voted_in }
            );
            rounds.push((round, node));
        }
    }
    assert_eq!(rounds, [(2, Some(NodeId(5))), (3, None), (5, None), (9, None), (13, None)]);
    state.prepared.take_up();
    let mut next = || state.prepared.ask(OTHERS[0], 5).len();
    assert_eq!((next(), next(), next()), (0, 1, 1), "the next leader begins anew");
}

#[test]
fn an_outcome_is_logged_once_and_only_the_deciding_shard_tells_it() {
    let mut state = State::new(10);
    let record = Record { at: at(10), decides: 3 };
    state.prepared.prepare(txn(1), record.clone(), None);
    assert_eq!(
        state.prepared.on_decided(txn(1), leader_of(OTHERS[1]), None),
        Some(Receipt::Foreign)
    );
    let from = leader_of(COORDINATOR);
    assert_eq!(state.prepared.on_decided(txn(1), from, Some(at(20))), Some(Receipt::New(at(20))));
    assert_eq!(state.prepared.on_decided(txn(1), from, Some(at(20))), Some(Receipt::Repeated));
    assert_eq!(state.prepared.on_decided(txn(2), from, Some(at(20))), None, "it is not prepared");
    assert!((0..9).all(|_| state.prepared.ask(OTHERS[0], 4).is_empty()), "it asks no more");
    assert!(state.has_voted(txn(1)), "until the outcome is in the log");
    // The next leader does not know of the proposal.
    state.prepared.take_up();
    assert_eq!(state.prepared.on_decided(txn(1), from, Some(at(20))), Some(Receipt::New(at(20))));
    let ended = state.prepared.end(txn(1), Some(at(20))).expect("it is prepared");
    assert_eq!((ended.record, ended.at, ended.told_by), (record, at(20), Some(from)));
    assert!(state.prepared.end(txn(1), Some(at(20))).is_none(), "two leaders proposed it");
}

#[test]
fn an_abort_ends_the_record_above_the_prepare_timestamp() {
    let mut state = State::new(10);
    state.prepared.prepare(txn(1), Record { at: at(10), decides: 3 }, None);
    let ended = state.prepared.end(txn(1), None).expect("it is prepared");
    assert!(ended.at > at(10) && ended.at < at(11));
}

#[test]
fn a_decision_is_kept_until_each_participant_has_acknowledged_it() {
    let mut state = State::new(10);
    let decision = Decision { at: at(20), participants: OTHERS.to_vec(), voted_in: vec![4, 6] };
    state.decisions.keep(txn(1), decision);
    let decided = |shard, voted_in| ToLeader {
        shard,
        node: None,
        message: ParticipantMessage::Decided { transaction: txn(1), at: Some(at(20)), voted_in },
    };
    // Each participant is told the term in which it voted.
    assert_eq!(state.decisions.repeat(|_| true), [decided(OTHERS[0], 4), decided(OTHERS[1], 6)]);
    assert!(state.decisions.repeat(|txn| txn.number != 1).is_empty(), "it is in commit wait");
    state.decisions.acknowledge(txn(1), OTHERS[0]);
    assert_eq!(state.decisions.repeat(|_| true), [decided(OTHERS[1], 6)]);
    assert_eq!(state.decisions.acknowledged().count(), 0);
    state.decisions.acknowledge(txn(1), OTHERS[1]);
    let done: Vec<TransactionId> = state.decisions.acknowledged().collect();
    assert_eq!(done, [txn(1)]);
    assert_eq!(state.decisions.at(txn(1)), Some(at(20)), "until the log says that it is done");
    state.decisions.forget(&done);
    assert!(state.decisions.is_empty() && state.is_at_rest());
}

#[test]
fn a_decision_of_an_earlier_release_names_no_terms() {
    let decision = Decision { at: at(20), participants: OTHERS.to_vec(), voted_in: Vec::new() };
    let decisions = Decisions::restore([(txn(1), decision)].into());
    let term = |to: &ToLeader| match to.message {
        ParticipantMessage::Decided { voted_in, .. } => voted_in,
        _ => panic!("decisions are told"),
    };
    assert_eq!(decisions.repeat(|_| true).iter().map(term).collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn an_end_is_confirmed_in_the_term_of_the_vote_or_later() {
    let mut state = State::new(10);
    assert!(!state.confirms(txn(1), 5, 4, true), "a later leader may have prepared it");
    assert!(state.confirms(txn(1), 5, 5, false) && state.confirms(txn(1), 5, 6, false));
    // Only a lease replaces a term that was not named.
    assert!(!state.confirms(txn(1), 0, 6, false) && state.confirms(txn(1), 0, 6, true));
    state.prepared.prepare(txn(1), Record { at: at(10), decides: 3 }, None);
    assert!(!state.confirms(txn(1), 5, 5, true), "the outcome is not in the log");
}

#[test]
fn an_outcome_that_may_be_forgotten_is_unknown_and_never_aborted() {
    let mut state = State::new(2);
    for number in 1..=3 {
        state.remember(txn(number), at(10 * number), 4);
    }
    let reader = |number, decides| Inquiry { reads: true, ..asks(number, decides) };
    assert_eq!(state.answer(reader(3, 4), 5, Some(0), true), Answer::Committed(at(30)));
    assert_eq!(state.outcome_of(txn(1)), None);
    assert_eq!(state.answer(reader(1, 4), 5, Some(0), true), Answer::Unknown);
    assert!(state.outcomes.may_have_forgotten(4) && !state.outcomes.may_have_forgotten(5));
    assert_eq!(state.answer(reader(9, 5), 5, Some(0), true), Answer::Aborted, "a later term's");
    // A restart forgets, too.
    state.outcomes.forget_through(5);
    assert_eq!(state.answer(reader(9, 5), 5, Some(0), true), Answer::Unknown);
    // A decision is kept for participants with a prepare record, so nothing else is committed.
    let decision = Decision { at: at(10), participants: OTHERS.to_vec(), voted_in: vec![4, 4] };
    state.decisions.keep(txn(1), decision);
    assert_eq!(state.answer(asks(1, 4), 5, Some(0), true), Answer::Committed(at(10)));
    assert_eq!(state.answer(asks(9, 4), 5, Some(0), true), Answer::Aborted);
}

#[test]
fn a_leader_that_forgets_silently_reports_a_commit_as_aborted() {
    plant(Some(rules::FORGETS_SILENTLY), true);
    let mut state = State::new(1);
    (1..=2).for_each(|number| state.remember(txn(number), at(10 * number), 4));
    let reader = Inquiry { reads: true, ..asks(1, 4) };
    let answer = state.answer(reader, 5, Some(0), true);
    plant(None, false);
    assert_eq!(answer, Answer::Aborted);
}

#[test]
fn only_the_deciding_term_and_later_ones_abort_what_they_do_not_know() {
    let mut state = State::new(10);
    assert_eq!(state.answer(asks(1, 6), 5, Some(0), true), Answer::Unknown);
    assert_eq!(state.answer(asks(1, 6), 6, Some(0), false), Answer::Aborted);
    assert_eq!(state.answer(asks(1, 6), 7, Some(0), false), Answer::Aborted);
    // A record of an earlier release names no term: the lease decides.
    assert_eq!(state.answer(asks(1, 0), 7, Some(0), false), Answer::Unknown);
    assert_eq!(state.answer(asks(1, 0), 7, Some(0), true), Answer::Aborted);
}

#[test]
fn a_one_shot_commit_that_may_still_come_is_waited_for() {
    let mut state = State::new(10);
    let asked = Inquiry { one_shot: Some(OneShot { term: 5, by: 200 }), ..asks(1, 5) };
    assert_eq!(state.answer(asked, 5, Some(100), true), Answer::Unknown);
    assert_eq!(state.answer(asked, 5, None, true), Answer::Unknown, "the time is not known");
    assert_eq!(
        state.answer(asked, 6, Some(100), true),
        Answer::Aborted,
        "another term admits none"
    );
    assert_eq!(state.answer(asked, 5, Some(201), true), Answer::Aborted, "its time has passed");
    state.remember(txn(2), at(150), 5);
    assert!(!state.expects(txn(2), asked.one_shot, 5, Some(100)), "it has committed");
}

#[test]
fn the_promise_of_a_reader_is_renewed_below_its_limit_and_passes() {
    let now = |nanos| Interval::around(nanos, 10);
    let decider = Decider { shard: COORDINATOR, node: NodeId(5), term: 3, one_shot: None };
    let mut readers: ReadVotes<&str> = ReadVotes::default();
    let vote = readers.promise(txn(1), decider, (at(1_000), at(1_500)), 500);
    assert_eq!((vote.below, vote.decider), (at(1_000), decider));
    assert_eq!(readers.next_ns(now(100)), Some(390), "then it asks");
    assert!(readers.ask(now(489)).is_empty());
    assert_eq!(readers.ask(now(490)), [vote]);
    assert!(readers.ask(now(600)).is_empty(), "once for each promise");
    assert_eq!(readers.next_ns(now(600)), Some(410), "then the bound passes");
    readers.on_undecided(txn(1));
    assert!(readers.renew(at(1_000), 700).is_empty() && readers.is_renewing(), "no higher ceiling");
    assert_eq!(readers.renew(at(2_000), 900), [ReadVote { below: at(1_500), ..vote }]);
    assert!(!readers.are_due());
    assert_eq!(readers.ask(now(900)), [ReadVote { below: at(1_500), ..vote }]);
    readers.on_undecided(txn(1));
    assert!(readers.renew(at(3_000), 900).is_empty() && !readers.is_renewing(), "the limit");
    assert!(readers.passed(now(1_510)).is_empty());
    assert_eq!(readers.passed(now(1_511)), [(txn(1), at(1_500))]);
    readers.release(txn(1));
    readers.on_undecided(txn(1));
    assert!(readers.is_empty() && !readers.are_due(), "a reader that is gone is not renewed");
}

/// A participant asks a coordinator that has decided and lost all its messages.
#[test]
fn a_participant_that_missed_the_outcome_asks_logs_and_confirms() {
    let (mut coordinator, mut participant) = (State::new(10), State::new(10));
    let decision = Decision { at: at(20), participants: vec![OTHERS[0]], voted_in: vec![4] };
    participant.prepared.prepare(txn(1), Record { at: at(10), decides: 3 }, Some(NodeId(1)));
    coordinator.decisions.keep(txn(1), decision);
    let question = (0..2).flat_map(|_| participant.prepared.ask(OTHERS[0], 4)).next();
    let Some(ToLeader { message: ParticipantMessage::Vote { decides, voted_in, .. }, .. }) =
        question
    else {
        panic!("the participant asks")
    };
    let asked = Inquiry { voted_in, ..asks(1, decides) };
    let Answer::Committed(committed) = coordinator.answer(asked, 8, Some(0), true) else {
        panic!("a later leader knows the decision from its log")
    };
    let from = leader_of(COORDINATOR);
    assert_eq!(
        participant.prepared.on_decided(txn(1), from, Some(committed)),
        Some(Receipt::New(committed))
    );
    assert!(!participant.confirms(txn(1), voted_in, 4, true), "it is not in the log yet");
    let ended = participant.prepared.end(txn(1), Some(committed)).expect("it is prepared");
    participant.remember(txn(1), committed, 4);
    assert_eq!(ended.told_by, Some(from), "which is told");
    coordinator.decisions.acknowledge(txn(1), OTHERS[0]);
    let done: Vec<TransactionId> = coordinator.decisions.acknowledged().collect();
    coordinator.decisions.forget(&done);
    assert!(coordinator.is_at_rest() && participant.is_at_rest());
    assert_eq!(participant.outcome_of(txn(1)), Some(at(20)));
    assert!(participant.confirms(txn(1), voted_in, 4, false), "a repeated decision is confirmed");
}
