//! Rules of timestamp ordering that the lab breaks on purpose. Each says what the broken part does.

meridian_machine::rules! {
    /// Does not remember which timestamps a key was read at (K2 §5.2).
    READS_NOT_TRACKED;
    /// Tracks reads of single keys only: a row may appear within a range that was read (Trap
    /// A.1-B2).
    RANGES_NOT_TRACKED;
    /// Forgets reads without raising the floor (Trap A.1-B2).
    FLOOR_NOT_RAISED;
    /// Lets a new leader accept writes below what its predecessors have served (Trap A.1-B1).
    LEADER_WITHOUT_FLOOR;
    /// Serves reads and writes that were planned for an outdated schema.
    SCHEMA_UNCHECKED;
    /// Lets a transaction write at a timestamp at which another one has read (Trap A.1-B4).
    TIES_ACCEPTED;
    /// Reads past an undecided intent of an older transaction (K2 §5.2).
    INTENT_PASSED_OVER;
    /// Lets an abort take effect although the transaction is committed, and a commit although it is
    /// aborted (Trap A.1-B7).
    DECIDED_TWICE;
    /// Forgets that it has aborted a transaction of which it had no record (Trap A.1-B5).
    TOMBSTONE_FORGOTTEN;
    /// Forgets a commit before every shard has it in its log (Trap A.1-B6).
    RECORD_FORGOTTEN;
    /// Decides before the timestamp has surely passed (K2 §4.2, Trap A.1-B3).
    COMMIT_WAIT;
    /// Commits writes that a savepoint has taken back, and that were sent before (K2 §5.3).
    WITHDRAWN_KEPT;
    /// Commits writes that are not durable in every shard (Trap A.1-B13).
    INTENTS_NOT_AWAITED;
}
