//! Rules of clocks and timestamps that the simulator breaks on purpose.

use meridian_machine::planted::Rule;

meridian_machine::rules! {
    /// A commit becomes visible before its timestamp has surely passed (Spanner §4.1.2).
    COMMIT_WAIT;
    /// A timestamp is issued twice (I2, Trap A.4-1).
    DUPLICATE_TIMESTAMP;
    /// An older timestamp in a message sets a clock back within its nanosecond (Trap A.4-2).
    SET_BACK_BY_A_MESSAGE;
    /// A used-up logical part begins again at zero in the same nanosecond (Trap A.4-5).
    LOGICAL_WRAPS;
    /// A hybrid timestamp is drawn at the middle of the clock's interval instead of its end (Trap
    /// A.4-10, Theorem 2).
    DRAWN_AT_THE_MIDDLE;
    /// A clock jumps while other members hold bounds on it (cluster time).
    CLOCK_JUMPS_ALOUD;
    /// A clock begins an incarnation below what it has shown (cluster time).
    CLOCK_FLOOR_FORGOTTEN;
    /// One clock fewer than a majority is enough to know the time (cluster time).
    FEW_CLOCKS_ARE_ENOUGH;
    /// The time since the poll was sent is not added to a clock's bound (cluster time).
    ROUND_TRIP_IGNORED;
    /// The narrowest interval is used instead of the agreement of most (time masters).
    NARROWEST_IS_BELIEVED;
    /// A node does not notice that its own clock, or another one, breaks the drift bound (time
    /// masters, cluster time).
    OWN_RATE_UNCHECKED;
    /// A batch of timestamps expires by a timer that may be slow (Trap A.1-A).
    TTL_BY_A_SLOW_TIMER;
    /// A batch's lifetime counts from the answer instead of the request (Trap A.1-A1).
    TTL_FROM_THE_ANSWER;
    /// More timestamps are drawn from a batch than it has (Trap A.1-A).
    BATCH_NOT_CAPPED;
    /// A batch begins below the last one (Trap A.1-A5).
    BATCH_GOES_BACK;
}

/// The rules of clocks, whose violations the clients of one group hardly notice. Their test checks
/// readings (`clock/tests/cluster.rs`).
pub const OF_CLOCKS: [Rule; 5] = [
    CLOCK_JUMPS_ALOUD,
    CLOCK_FLOOR_FORGOTTEN,
    FEW_CLOCKS_ARE_ENOUGH,
    ROUND_TRIP_IGNORED,
    OWN_RATE_UNCHECKED,
];

/// The rules of time masters (`clock/tests/masters.rs`).
pub const OF_MASTERS: [Rule; 3] = [ROUND_TRIP_IGNORED, NARROWEST_IS_BELIEVED, OWN_RATE_UNCHECKED];

/// The rules of batches of timestamps (`clock/tests/batches.rs`).
pub const OF_BATCHES: [Rule; 4] =
    [TTL_BY_A_SLOW_TIMER, TTL_FROM_THE_ANSWER, BATCH_NOT_CAPPED, BATCH_GOES_BACK];
