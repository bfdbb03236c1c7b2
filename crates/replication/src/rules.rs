//! Rules of replication that the simulator breaks on purpose.

use meridian_machine::planted::Rule;

meridian_machine::rules! {
    /// Entries are acknowledged before they are on disk.
    ACK_BEFORE_DURABLE;
    /// A lease is promised before the promise is on disk.
    PROMISE_NOT_LOGGED;
    /// A vote is granted although another member was promised a lease (Trap A.5-3).
    LEASES_OVERLAP;
    /// A leader or candidate whose clock is far ahead is accepted: its timestamps stop the group
    /// until they have passed.
    FAR_CLOCKS_HEARD;
    /// One fewer than a majority is enough.
    MAJORITY_OFF_BY_ONE;
    /// In joint consensus only the new voters are asked (Ongaro §4.3).
    OUTGOING_NOT_ASKED;
    /// Joint consensus ends while the former voters' lease still runs.
    LEASE_LEFT_BEHIND;
    /// A message of a node from before its removal counts after the node was added again.
    STAYS_NOT_TOLD;
    /// A member that has a split in its log, and receives a snapshot before it knows that the split
    /// is agreed, skips the split and has nothing of the child shard.
    SPLIT_SKIPPED;
    /// A candidate whose log is behind is elected (Raft §5.4.1).
    STALE_LOG_ELECTED;
    /// Entries that contradict the leader's log stay.
    CONTRADICTION_STAYS;
    /// A member whose store was emptied continues.
    GAP_UNNOTICED;
    /// After a restart a log is kept whose entries contradict the store.
    LOG_CONTRADICTS_STORE;
    /// A replica of inconsistent replication answers before its record is on disk.
    REPLIES_BEFORE_DURABLE;
    /// A replica forgets over a restart that it has left a view.
    VIEW_NOT_KEPT;
    /// The fast quorum is that of the paper, where no operation is ended early by another (TAPIR
    /// §3.2.1).
    FAST_QUORUM_TOO_SMALL;
    /// A client's decision of one view counts in a later view, which may have lost a newer
    /// decision.
    OLD_DECISIONS_COUNT;
    /// A client decides from the result of one replica.
    DECIDES_FROM_ONE;
    /// Entries are removed from the record although replicas of different views may lack them.
    FORGETS_WHAT_ONE_LACKS;
    /// Entries are removed from the record before every store has them on disk.
    FORGETS_BEFORE_STORED;
    /// A delta against the record of another view is adopted or merged by a replica that does not
    /// have that record.
    BASE_UNCHECKED;
    /// Answers of one epoch count for a client of another one.
    EPOCH_UNCHECKED;
    /// A replica that takes over begins with the record of one former replica.
    FORMER_NOT_ASKED;
    /// Tentative entries of an older view are merged like those of the newest (Trap A.2-8).
    OLDER_VIEWS_MERGED;
    /// Records of older views do not count as refusals (Trap A.2-8).
    OLDER_VIEWS_NOT_COUNTED;
}

/// The rules of membership changes that are tested on the group alone
/// (`replication/tests/faults.rs`).
pub const OF_MEMBERS: [Rule; 2] = [OUTGOING_NOT_ASKED, STAYS_NOT_TOLD];

/// The rules of inconsistent replication that are tested on its replicas alone
/// (`replication/tests/unordered.rs`, `views.rs`). A TAPIR schedule tests `OLDER_VIEWS_NOT_COUNTED`
/// (`systems/tests/schedules.rs`).
pub const OF_RECORDS: [Rule; 9] = [
    REPLIES_BEFORE_DURABLE,
    VIEW_NOT_KEPT,
    FAST_QUORUM_TOO_SMALL,
    DECIDES_FROM_ONE,
    FORGETS_WHAT_ONE_LACKS,
    BASE_UNCHECKED,
    FORMER_NOT_ASKED,
    EPOCH_UNCHECKED,
    OLDER_VIEWS_MERGED,
];
