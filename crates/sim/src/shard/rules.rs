//! The rules whose breach the judges must detect in runs of Spanner, and the faults under which it
//! shows.

use crate::Faults;
use meridian_clock::rules as clock;
use meridian_log::rules as log;
use meridian_machine::planted::Rule;
use meridian_mvcc::rules as mvcc;
use meridian_placement::rules as placement;
use meridian_replication::rules as replication;
use meridian_store::rules as store;
use meridian_systems::locking::rules as participant;
use meridian_systems::shard::rules as shard;
use meridian_txn::locking::rules as locking;
use meridian_txn::mvto::rules as mvto;
use meridian_txn::snapshot::rules as snapshot;
use meridian_txn::two_phase::rules as two_phase;

/// All rules whose breach shows in clients' histories or on disks. Of Spanner's,
/// `READ_VOTE_NOT_RENEWED`, `FENCED_SERVES` and `SLOT_WITHDRAWN_LATE` are missing here: scripts
/// test those (`systems/tests/two_phase/`, `rules.rs`). Runs without faults test `WOUNDS_COMMITS`
/// (`sim/tests/spanner.rs`). A transcript of the group tests `LOG_CONTRADICTS_STORE`, and a
/// scripted test `READS_NEWCOMER` (`sim/tests/spanner.rs`).
pub const NOTICED: [Rule; 46] = [
    clock::COMMIT_WAIT,
    participant::SAFE_TIME_IN_FLIGHT,
    shard::CEILING_NOT_AGREED,
    participant::SAFE_TIME_PREPARED,
    participant::LAST_TS_PREPARED,
    participant::LAST_TS_LATE,
    locking::LAST_TS_IN_FLIGHT,
    locking::NEGOTIATED_LEAST,
    participant::PREPARE_WITHOUT_READ_LOCKS,
    participant::READ_VOTE_UNBOUNDED,
    participant::COMMIT_BELOW_PREPARE,
    two_phase::ENDED_UNKNOWN,
    two_phase::DECIDES_IN_ANY_TERM,
    participant::WOUND_NOT_FORWARDED,
    participant::SCHEMA_UNCHECKED,
    participant::CHANGE_NOT_HEEDED,
    shard::CLOSED_BEFORE_INSTALLED,
    clock::DUPLICATE_TIMESTAMP,
    shard::ISSUER_BELOW_LOG,
    locking::SHARED_LOCKS_FREE,
    locking::RANGE_LOCKS_FREE,
    participant::WOUNDED_GOES_ON,
    participant::LEASE_UNCHECKED_AT_COMMIT,
    participant::UNKNOWN_SAID_ABORTED,
    participant::BLIND_TWICE,
    participant::OUTCOMES_FORGOTTEN,
    two_phase::FORGETS_SILENTLY,
    replication::ACK_BEFORE_DURABLE,
    replication::PROMISE_NOT_LOGGED,
    replication::LEASES_OVERLAP,
    replication::FAR_CLOCKS_HEARD,
    replication::MAJORITY_OFF_BY_ONE,
    shard::HEARSAY_LEADS,
    replication::SPLIT_SKIPPED,
    shard::HOLLOW_CHILD,
    replication::STALE_LOG_ELECTED,
    replication::CONTRADICTION_STAYS,
    mvcc::HORIZON_UNCHECKED,
    store::COPY_WITHOUT_HISTORY,
    log::LOG_CHECKSUM,
    store::STORE_CHECKSUM,
    log::TORN_TAIL,
    log::TAIL_NOT_REWRITTEN,
    replication::GAP_UNNOTICED,
    log::EMPTIED_LOG_UNNOTICED,
    placement::DISKS_NOT_REMEMBERED,
];

/// The rules of HybridTime's own, and some of those that it shares with Spanner, whose breach its
/// judges must detect.
pub const NOTICED_OF_HYBRID_TIME: [Rule; 16] = [
    clock::COMMIT_WAIT,
    clock::DUPLICATE_TIMESTAMP,
    clock::SET_BACK_BY_A_MESSAGE,
    clock::LOGICAL_WRAPS,
    clock::DRAWN_AT_THE_MIDDLE,
    locking::READ_WAIT,
    locking::TOKEN_DROPPED,
    locking::FAR_TOKEN_ADOPTED,
    locking::NEGOTIATED_LEAST,
    shard::TOKEN_IGNORED,
    shard::ISSUER_BELOW_LOG,
    shard::CEILING_NOT_AGREED,
    shard::CLOSED_BEFORE_INSTALLED,
    participant::SAFE_TIME_IN_FLIGHT,
    participant::SAFE_TIME_PREPARED,
    participant::COMMIT_BELOW_PREPARE,
];

/// The rules of Clock-SI's own, and some of those that it shares with Spanner, whose breach its
/// judges must detect.
pub const NOTICED_OF_CLOCK_SI: [Rule; 6] = [
    snapshot::AGE_BEFORE_TOKEN,
    snapshot::NOT_CERTIFIED,
    snapshot::RECENT_WITHOUT_FLOOR,
    snapshot::COMMIT_BELOW_SNAPSHOT,
    clock::DUPLICATE_TIMESTAMP,
    participant::SAFE_TIME_PREPARED,
];

/// The rules of conventional snapshot isolation's own, and some of those that it shares with
/// Clock-SI, whose breach its judges must detect. A transcript tests `AUTHORITY_BELOW_CEILING`
/// (`systems/tests/modes.rs`): a later authority begins after the lease, when its clock has mostly
/// passed what was handed out.
pub const NOTICED_OF_CONVENTIONAL_SI: [Rule; 5] = [
    shard::ISSUER_BELOW_LOG,
    snapshot::AUTHORITY_NOT_ASKED,
    shard::TIMESTAMP_BELOW_SNAPSHOT,
    snapshot::NOT_CERTIFIED,
    participant::SAFE_TIME_PREPARED,
];

/// The rules of K2's own, whose breach its judges must detect. `clock/tests/batches.rs` tests those
/// of batches of timestamps that need slow timers, or an oracle behind another one. Two more are
/// missing, which histories hardly show, and which tests of the values cover: `TIES_ACCEPTED` (only
/// a query of the past reads at another transaction's timestamp: `txn/src/mvto/read_tracker.rs`),
/// and `DECIDED_TWICE` (a commit has to meet the abort of a transaction that is taken for dead:
/// `recorder.rs`).
pub const NOTICED_OF_K2: [Rule; 14] = [
    mvto::READS_NOT_TRACKED,
    mvto::RANGES_NOT_TRACKED,
    mvto::FLOOR_NOT_RAISED,
    mvto::LEADER_WITHOUT_FLOOR,
    mvto::SCHEMA_UNCHECKED,
    mvto::INTENT_PASSED_OVER,
    mvto::TOMBSTONE_FORGOTTEN,
    mvto::RECORD_FORGOTTEN,
    mvto::COMMIT_WAIT,
    mvto::WITHDRAWN_KEPT,
    mvto::INTENTS_NOT_AWAITED,
    shard::CEILING_NOT_AGREED,
    clock::TTL_FROM_THE_ANSWER,
    clock::BATCH_NOT_CAPPED,
];

/// Returns the faults under which the breach of a rule shows soonest.
pub fn faults(rule: Rule) -> Faults {
    let none = Faults::NONE;
    match rule {
        // A lease matters to a leader that paused without knowing it: many pauses.
        participant::LEASE_UNCHECKED_AT_COMMIT | replication::LEASES_OVERLAP => {
            Faults { process: true, ..none }
        }
        // Lost state matters to nodes that restart.
        replication::STALE_LOG_ELECTED | replication::PROMISE_NOT_LOGGED => {
            Faults { process: true, network: true, ..none }
        }
        // A leader that is deposed without knowing it slept, or was unreachable.
        two_phase::ENDED_UNKNOWN | two_phase::DECIDES_IN_ANY_TERM => {
            Faults { process: true, network: true, ..none }
        }
        // A clock that is far ahead matters where its node leads.
        replication::FAR_CLOCKS_HEARD => Faults { lies: true, ..none },
        // Data that are not on disk yet matter to slow disks that lose power.
        replication::ACK_BEFORE_DURABLE => {
            Faults { process: true, network: true, disk: true, ..none }
        }
        // Clocks without error need no log to keep an order.
        shard::ISSUER_BELOW_LOG => Faults { network: true, process: true, lies: true, ..none },
        // An unchecked record matters if it is corrupt.
        log::LOG_CHECKSUM
        | store::STORE_CHECKSUM
        | replication::GAP_UNNOTICED
        | log::EMPTIED_LOG_UNNOTICED
        | log::TORN_TAIL
        | log::TAIL_NOT_REWRITTEN => Faults { disk: true, process: true, ..none },
        // An endless wait needs a lost message.
        participant::WOUND_NOT_FORWARDED => Faults { network: true, ..none },
        _ => Faults::ALL,
    }
}

/// True if only SQL, which has schemas, meets a rule.
pub fn needs_sql(rule: Rule) -> bool {
    [participant::SCHEMA_UNCHECKED, participant::CHANGE_NOT_HEEDED, mvto::SCHEMA_UNCHECKED]
        .contains(&rule)
}
