//! Rules of TAPIR's replicas and sessions that the lab breaks on purpose. Each says what the broken
//! replica or session does.

use meridian_machine::planted::Rule;

meridian_machine::rules! {
    /// Lets a client decide an operation a second time when a change of replicas ends.
    DECIDES_TWICE;
    /// Counts answers to a snapshot read together although the replicas were in different views.
    VIEWS_MIXED;
    /// Counts the log records of an earlier membership epoch when a node gets a replica again.
    EARLIER_STAY_KEPT;
    /// Keeps the stored versions of an earlier membership epoch when a node gets a replica again.
    LET_GO_FORGOTTEN;
    /// Lets a new replica serve reads before its copy is complete.
    SERVES_UNCOPIED;
    /// Lets a new replica that restarts during a copy request what was settled since, which former
    /// replicas do not know.
    COPY_MOVES_ON;
    /// Notes the row of an epoch before the node's replica has started as the row says.
    NOTED_BEFORE_BEGUN;
    /// Lets one replica serve a snapshot that is not settled.
    SERVES_UNSETTLED;
    /// Settles what a view closes together with that view, although transactions could still
    /// prepare there in the last one: the view may be bypassed (Trap A.2-17).
    SETTLES_UNCLOSED;
    /// Settles timestamps above a transaction that is prepared and may commit (Trap A.2-17).
    SETTLES_PREPARED;
}

/// Rules about proposed transactions that random worlds of them break (`systems/tests/tapir.rs`).
/// Others are tested elsewhere: `ENDED_PREPARES`, `CLOSED_SAYS_YES`, `CLOCKS_UNCAPPED`,
/// `SETTLES_UNCLOSED` and `OLD_DECISIONS_COUNT` by schedules (`txn/tests/tapir.rs`,
/// `systems/tests/schedules.rs`), `VIEWS_MIXED` and `DECIDES_TWICE` by unit tests of the session
/// (`systems/src/tapir/client.rs`), `TURNS_NOT_TAKEN` in a world over continents
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

/// Rules about new replicas, broken where worlds change the replicas (`sim/tests/taking_over.rs`).
pub const OF_TAKING_OVER: [Rule; 5] =
    [EARLIER_STAY_KEPT, LET_GO_FORGOTTEN, SERVES_UNCOPIED, COPY_MOVES_ON, NOTED_BEFORE_BEGUN];
