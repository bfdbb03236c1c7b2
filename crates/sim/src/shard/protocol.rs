//! The entry of Spanner in the list of simulated protocols, and the states that its campaigns
//! should reach.

use super::{Leaders, rules};
use crate::Defect;
use crate::protocols::SimulatedProtocol;
use crate::world::World;
use meridian_machine::planted::Rule;
use meridian_systems::locking::Locking;
use meridian_systems::mvto::Mvto;
use meridian_systems::{clock_si, conventional_si, hybrid_time, k2, spanner};

/// The entry of Spanner.
pub static SIMULATED: SimulatedProtocol = SPANNER;

const SPANNER: SimulatedProtocol = SimulatedProtocol {
    row: &spanner::PROTOCOL,
    run: |options| World::<Leaders<Locking>>::new(options).run(),
    stage: |options, scenario, costs| {
        World::<Leaders<Locking>>::new(options).stage(scenario, costs)
    },
    should_meet: SHOULD_MEET,
    seams: &[
        Defect::InstalledLate,
        Defect::SyncLost,
        Defect::ClockLies,
        Defect::ReadOneBefore,
        Defect::LeaseNotChecked,
        Defect::VoteForgotten,
        Defect::EntriesForgotten,
        Defect::HalfInstalled,
        Defect::CopyClaimsMore,
        Defect::EarlierLifeHeard,
        Defect::ForgottenTooEarly,
    ],
    rules: || rules::NOTICED.into(),
    faults: rules::faults,
    needs_sql: rules::needs_sql,
    delays: World::<Leaders<Locking>>::delays,
};

/// The entry of HybridTime. Its worlds are Spanner's, with clients that choose modes.
pub static HYBRID_TIME: SimulatedProtocol = SimulatedProtocol {
    row: &hybrid_time::PROTOCOL,
    should_meet: SHOULD_MEET_OF_HYBRID_TIME,
    rules: || rules::NOTICED_OF_HYBRID_TIME.into(),
    delays: World::<Leaders<Locking>>::delays_of_modes,
    ..SPANNER
};

/// The entry of Clock-SI. Its worlds are HybridTime's, judged by snapshot isolation.
pub static CLOCK_SI: SimulatedProtocol = SimulatedProtocol {
    row: &clock_si::PROTOCOL,
    should_meet: SHOULD_MEET_OF_CLOCK_SI,
    rules: || rules::NOTICED_OF_CLOCK_SI.into(),
    delays: || World::<Leaders<Locking>>::delays_of_snapshots(&CLOCK_SI),
    ..SPANNER
};

/// The entry of conventional snapshot isolation. Its worlds are Clock-SI's, and its snapshots have
/// what was acknowledged before.
pub static CONVENTIONAL_SI: SimulatedProtocol = SimulatedProtocol {
    row: &conventional_si::PROTOCOL,
    should_meet: SHOULD_MEET_OF_CONVENTIONAL_SI,
    rules: || rules::NOTICED_OF_CONVENTIONAL_SI.into(),
    delays: || World::<Leaders<Locking>>::delays_of_snapshots(&CONVENTIONAL_SI),
    ..SPANNER
};

/// The entry of K2. Its worlds are Spanner's, with shards that order transactions by timestamps.
pub static K2: SimulatedProtocol = SimulatedProtocol {
    row: &k2::PROTOCOL,
    run: |options| World::<Leaders<Mvto>>::new(options).run(),
    stage: |options, scenario, costs| World::<Leaders<Mvto>>::new(options).stage(scenario, costs),
    should_meet: SHOULD_MEET_OF_K2,
    seams: &[
        Defect::InstalledLate,
        Defect::SyncLost,
        Defect::ClockLies,
        Defect::ReadOneBefore,
        Defect::VoteForgotten,
        Defect::EntriesForgotten,
        Defect::HalfInstalled,
        Defect::CopyClaimsMore,
    ],
    rules: || rules::NOTICED_OF_K2.into(),
    faults: rules::faults,
    needs_sql: rules::needs_sql,
    delays: || World::<Leaders<Mvto>>::delays_of_write_streams(&K2),
};

/// The states that campaigns of K2 should reach.
const SHOULD_MEET_OF_K2: &[&str] = &[
    "a coordinator looks for another oracle",
    "a reader waits for an older transaction",
    "a recorder aborts a transaction that shows no sign of life",
    "a recorder repeats a decision",
    "a shard asks a recorder what became of a transaction",
    "a transaction moves because a later one has read what it writes",
    "a transaction moves because its intents are gone",
    "a transaction writes before it commits",
    "a transaction writes in several shards",
    "a write is refused because of a later reader",
    "no oracle answers in time",
];

/// The states that campaigns of conventional snapshot isolation should reach.
const SHOULD_MEET_OF_CONVENTIONAL_SI: &[&str] = &[
    "a commit is refused because a row was written after its snapshot",
    "a leader passes over a timestamp of the authority",
    "a session looks for the authority",
    "a snapshot waits for a prepared transaction",
    "a transaction commits in two phases",
    "the authority does not answer a leader in time",
    "the authority waits for its ceiling, or its lease",
];

/// The states that campaigns of Clock-SI should reach.
const SHOULD_MEET_OF_CLOCK_SI: &[&str] = &[
    "a commit is refused because a row was written after its snapshot",
    "a commit waits until the leader's clock has reached its snapshot",
    "a row may have been written since a snapshot, by the hash of its key",
    "a snapshot waits for its time",
    "a snapshot waits for a prepared transaction",
    "a transaction commits in two phases",
    "a transaction reads an older snapshot",
];

/// The states that campaigns of HybridTime should reach besides.
const SHOULD_MEET_OF_HYBRID_TIME: &[&str] = &[
    "a client is given another client's token",
    "a client makes a token itself",
    "a read waits until its snapshot has surely passed",
    "a transaction commits in two phases",
    "a snapshot above every commit is promised",
    "a participant asks what became of a transaction",
    "a prepared transaction is wounded",
];

/// The states that every campaign of some hundred seeds with all faults should reach.
const SHOULD_MEET: &[&str] = &[
    "a commit is asked for again after it was agreed",
    "a commit waits for a lock",
    "a first question comes after its transaction has ended",
    "a leader gives up because its lease has lapsed",
    "a member is too far behind for the log",
    "a member's log does not follow the leader's",
    "a coordinator aborts while votes are outstanding",
    "a coordinator that knows nothing of a transaction says that it is aborted",
    "a participant asks what became of a transaction",
    "a prepared transaction is wounded",
    "a shard is asked for keys that it has no more",
    "a shard that was only read votes",
    "a snapshot waits for a prepared transaction",
    "a transaction commits in two phases",
    "a vote comes before the commit",
    "an attempt is aborted for a split",
    "an attempt waits for a split",
    "the bound of a shard that was only read passes",
    "a new leader has entries of which it does not know whether they are agreed",
    "a question is asked again while it waits",
    "a snapshot above every commit is promised",
    "timestamps without commits are closed",
    "shards negotiate at which timestamp they are read",
    "what is prepared writes into other keys than are read",
    "a snapshot waits for a commit before it",
    "a snapshot waits for its time",
    "a transaction that waits is wounded",
    "an old question comes late",
    "an outcome is forgotten for the sake of newer ones",
    "entries that were never agreed are replaced",
    "leadership is handed to the node that asks most",
    "leadership is lost while a commit is being agreed on",
];

/// The steps of the protocol, in each role, at which a node may crash.
pub const STEPS: &[&str] = &[
    "candidate: asks for votes",
    "candidate: is elected",
    "coordinator: forgets",
    "coordinator: has all votes",
    "coordinator: its decision is agreed",
    "coordinator: proposes its decision",
    "coordinator: tells its decision",
    "coordinator: waits for votes",
    "leader: answers",
    "leader: begins to serve",
    "leader: falls silent",
    "leader: its commit is agreed",
    "leader: proposes a ceiling",
    "leader: proposes a commit",
    "leader: proposes a split",
    "leader: proposes other members",
    "leader: registers a change of the schema",
    "member: a change of the schema is agreed",
    "member: a split is agreed",
    "member: another's commit is agreed",
    "member: another's prepare record is agreed",
    "member: is removed",
    "participant: asks for the outcome",
    "participant: hears the outcome",
    "participant: proposes to prepare",
    "participant: the outcome is agreed",
    "participant: votes",
    "reader: releases",
    "reader: votes",
    "session: asks one group to commit",
    "session: asks several groups to commit",
    "voter: gives its vote",
];

/// Returns the value that a session reads of a key that was 1 when its node, the leader, fell
/// asleep, and 2 when the node woke after its lease had expired.
pub fn reads_after_a_pause(defect: Option<Defect>) -> Option<i64> {
    World::<Leaders<Locking>>::reads_after_a_pause(defect)
}

/// Returns the value that a session reads of a key that is 2, when a response arrives that its
/// node's previous incarnation requested, with the value 1 of another key.
pub fn reads_in_the_next_life(defect: Option<Defect>) -> Option<i64> {
    World::<Leaders<Locking>>::reads_in_the_next_life(defect)
}

/// Returns how old the timestamp of a transaction of K2 is once it has committed, in nanoseconds,
/// that had sent its writes and then waited for an idle one.
pub fn age_after_a_wait() -> u64 {
    World::<Leaders<Mvto>>::age_after_a_wait()
}

/// True if a session whose node's member was replaced misses a key that has existed since before
/// the session's snapshot.
pub fn finds_nothing_at_a_newcomer(rule: Option<Rule>) -> bool {
    World::<Leaders<Locking>>::finds_nothing_at_a_newcomer(rule)
}
