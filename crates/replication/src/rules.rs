//! Rules of replication that the lab breaks on purpose.

use meridian_machine::planted::Rule;

meridian_machine::rules! {
    /// Entries are acknowledged before they are on disk.
    ACK_BEFORE_DURABLE;
    /// A lease is promised, and the promise not written down.
    PROMISE_NOT_LOGGED;
    /// A vote is given although another was promised a lease (Trap A.5-3).
    LEASES_OVERLAP;
    /// A leader or candidate is heard whose clock is far ahead: its timestamps stop the group until
    /// they have passed.
    FAR_CLOCKS_HEARD;
    /// One fewer than a majority is enough.
    MAJORITY_OFF_BY_ONE;
    /// While one set of voters takes over from another, only the new one is asked (Ongaro §4.3).
    OUTGOING_NOT_ASKED;
    /// The former voters' lease still runs when only the new ones are asked.
    LEASE_LEFT_BEHIND;
    /// What a node said before it was removed counts after it was added again.
    STAYS_NOT_TOLD;
    /// Who has a split in his log, and is sent a copy before he knows that it was agreed on, skips
    /// it, and has nothing of the shard that was split off.
    SPLIT_SKIPPED;
    /// Who is behind is elected (Raft §5.4.1).
    STALE_LOG_ELECTED;
    /// Entries that contradict the leader's stay.
    CONTRADICTION_STAYS;
    /// A store that was emptied is gone on with.
    GAP_UNNOTICED;
    /// A log whose entries contradict what the store was filled from is kept after a restart.
    LOG_CONTRADICTS_STORE;
    /// A replica that nobody leads answers before it has on disk what it says.
    REPLIES_BEFORE_DURABLE;
    /// A replica forgets over a restart that it has left a view.
    VIEW_NOT_KEPT;
    /// As many answers are taken for fast as are in the paper, where nobody is freed by a fact
    /// (TAPIR §3.2.1).
    FAST_QUORUM_TOO_SMALL;
    /// What a client has decided in one view is taken for the result in a later one, which has
    /// forgotten that something else was decided since.
    OLD_DECISIONS_COUNT;
    /// A client decides on what one replica knows, which may be alone with it.
    DECIDES_FROM_ONE;
    /// What replicas of different views have is forgotten like what everybody has.
    FORGETS_WHAT_ONE_LACKS;
    /// What is not yet on the disk of every store is forgotten by those who know it.
    FORGETS_BEFORE_STORED;
    /// What is other than in another view is taken up, or merged, by who was not in that.
    BASE_UNCHECKED;
    /// Answers of an epoch count for who asks the replicas of another one.
    EPOCH_UNCHECKED;
    /// Who takes over begins with what one of the former replicas has.
    FORMER_NOT_ASKED;
    /// What was tentative in an older view is merged like what is in the newest (Trap A.2-8).
    OLDER_VIEWS_MERGED;
    /// Records of older views do not count as those that said no (Trap A.2-8).
    OLDER_VIEWS_NOT_COUNTED;
}

/// Those of changing members, where the group alone is looked at (`replication/tests/faults.rs`).
pub const OF_MEMBERS: [Rule; 2] = [OUTGOING_NOT_ASKED, STAYS_NOT_TOLD];

/// Those of inconsistent replication, where its replicas alone are looked at
/// (`replication/tests/unordered.rs`, `views.rs`); `OLDER_VIEWS_NOT_COUNTED` a schedule of TAPIR's
/// holds (`systems/tests/schedules.rs`).
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
