//! Rules of snapshot isolation that the simulator breaks on purpose. Each says what breaks.

meridian_machine::rules! {
    /// Commits are not certified: updates are lost (Clock-SI, Algorithm 2, line 6).
    NOT_CERTIFIED;
    /// A new leader takes rows that it has not seen written for unwritten (Trap A.3-8).
    RECENT_WITHOUT_FLOOR;
    /// A commit does not wait until the leader's clock has reached its snapshot (Trap A.3-7).
    COMMIT_BELOW_SNAPSHOT;
    /// A snapshot is at the clock of its transaction's node instead of the authority's timestamp.
    AUTHORITY_NOT_ASKED;
    /// An older snapshot lacks what its session has seen: the age counts, and the token does not
    /// (Trap A.3-10).
    AGE_BEFORE_TOKEN;
    /// A schema change does not see rows that were written while it read the table.
    RANGE_NOT_KEPT;
    /// A transaction that has read nothing commits at any timestamp of the authority.
    OVERWRITE_UNBOUNDED;
}
