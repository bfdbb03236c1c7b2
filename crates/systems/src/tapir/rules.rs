//! Rules of TAPIR's replicas and sessions that the lab breaks on purpose.

use meridian_machine::planted::Rule;

meridian_machine::rules! {
    /// A client decides anew on an operation when a change of replicas ends.
    DECIDES_TWICE;
    /// Answers to a snapshot count together whichever view each replica was in.
    VIEWS_MIXED;
    /// What a node's log has of an earlier stay counts when the node is given a replica again.
    EARLIER_STAY_KEPT;
    /// What a node's store has of an earlier stay is there when the node is given a replica again.
    LET_GO_FORGOTTEN;
    /// A replica that takes over serves reads before it has everything.
    SERVES_UNCOPIED;
    /// A replica that begins again while it copies asks for what was settled since, of which former
    /// replicas do not know.
    COPY_MOVES_ON;
    /// The row of an epoch is noted before the node's replica has begun as that says.
    NOTED_BEFORE_BEGUN;
    /// A replica serves a snapshot alone that is not settled.
    SERVES_UNSETTLED;
    /// What is closed by a view is settled with it, although nobody was kept from it in the last
    /// one: that view may be bypassed (Trap A.2-17).
    SETTLES_UNCLOSED;
    /// What is settled passes somebody who is prepared and may commit (Trap A.2-17).
    SETTLES_PREPARED;
}

/// Those of transactions that are proposed, which random worlds of them meet
/// (`systems/tests/tapir.rs`); `ENDED_PREPARES`, `CLOSED_SAYS_YES`, `CLOCKS_UNCAPPED`,
/// `SETTLES_UNCLOSED` and `OLD_DECISIONS_COUNT` schedules hold (`txn/tests/tapir.rs`,
/// `systems/tests/schedules.rs`), `VIEWS_MIXED` and `DECIDES_TWICE` the session's half of one
/// (`systems/src/tapir/client.rs`), `TURNS_NOT_TAKEN` a world over continents
/// (`sim/tests/tapir.rs`).
pub const OF_PROPOSALS: [Rule; 15] = [
    meridian_txn::tapir::rules::PREPARED_UNCHECKED,
    meridian_txn::tapir::rules::COMMITTED_READS_FREE,
    meridian_txn::tapir::rules::READS_FROM_THE_FUTURE,
    meridian_txn::tapir::rules::PHANTOMS_PASS,
    meridian_txn::tapir::rules::FENCED_PREPARES,
    meridian_txn::tapir::rules::ATTEMPTS_MIXED,
    meridian_txn::tapir::rules::RESOLVED_IN_ITS_VIEW,
    meridian_txn::tapir::rules::SNAPSHOTS_UNGUARDED,
    SERVES_UNSETTLED,
    meridian_txn::tapir::rules::SERVED_FORGOTTEN,
    meridian_txn::tapir::rules::SNAPSHOTS_MISS_PREPARED,
    meridian_replication::rules::FORGETS_BEFORE_STORED,
    SETTLES_PREPARED,
    meridian_txn::tapir::rules::NAMES_FORGOTTEN,
    meridian_txn::tapir::rules::LATE_SAID_REFUSED,
];

/// Those of replicas that take over from others, where worlds change them
/// (`sim/tests/taking_over.rs`).
pub const OF_TAKING_OVER: [Rule; 5] =
    [EARLIER_STAY_KEPT, LET_GO_FORGOTTEN, SERVES_UNCOPIED, COPY_MOVES_ON, NOTED_BEFORE_BEGUN];
