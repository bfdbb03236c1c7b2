//! Rules of clocks and timestamps that the lab breaks on purpose.

use meridian_machine::planted::Rule;

meridian_machine::rules! {
    /// A commit is shown before its timestamp has surely passed (Spanner §4.1.2).
    COMMIT_WAIT;
    /// A timestamp is issued twice (I2).
    DUPLICATE_TIMESTAMP;
    /// A clock jumps while others hold bounds on it (cluster time).
    CLOCK_JUMPS_ALOUD;
    /// A clock begins a life below what it has shown (cluster time).
    CLOCK_FLOOR_FORGOTTEN;
    /// One clock fewer than a majority is enough to know the time (cluster time).
    FEW_CLOCKS_ARE_ENOUGH;
    /// What a clock has done since the question was sent is not allowed for (cluster time).
    ROUND_TRIP_IGNORED;
    /// The narrowest interval is believed, and not what most agree on (time masters).
    NARROWEST_IS_BELIEVED;
    /// A node does not notice that its own clock, or another one, breaks the bound (time masters,
    /// cluster time).
    OWN_RATE_UNCHECKED;
    /// A batch of timestamps is void by a timer that may be slow (Trap A.1-A).
    TTL_BY_A_SLOW_TIMER;
    /// A batch is void so long after it was answered, and not after it was asked for (Trap A.1-A1).
    TTL_FROM_THE_ANSWER;
    /// More timestamps are drawn from a batch than there are in it (Trap A.1-A).
    BATCH_NOT_CAPPED;
    /// A batch begins below the last one (Trap A.1-A5).
    BATCH_GOES_BACK;
}

/// Those of clocks, which clients of one group hardly see: their judge looks at readings
/// (`clock/tests/cluster.rs`).
pub const OF_CLOCKS: [Rule; 5] = [
    CLOCK_JUMPS_ALOUD,
    CLOCK_FLOOR_FORGOTTEN,
    FEW_CLOCKS_ARE_ENOUGH,
    ROUND_TRIP_IGNORED,
    OWN_RATE_UNCHECKED,
];

/// Those of time masters (`clock/tests/masters.rs`).
pub const OF_MASTERS: [Rule; 3] = [ROUND_TRIP_IGNORED, NARROWEST_IS_BELIEVED, OWN_RATE_UNCHECKED];

/// Those of batches of timestamps (`clock/tests/batches.rs`).
pub const OF_BATCHES: [Rule; 4] =
    [TTL_BY_A_SLOW_TIMER, TTL_FROM_THE_ANSWER, BATCH_NOT_CAPPED, BATCH_GOES_BACK];
