//! Rules of a leader with two-phase locking that the lab breaks on purpose. Each says what the
//! broken leader does.

meridian_machine::rules! {
    /// Serves a snapshot although a commit below it is under way (Trap A.5-6).
    SAFE_TIME_IN_FLIGHT;
    /// Serves a snapshot although a transaction that is prepared below it may have written into it
    /// (Trap A.5-5).
    SAFE_TIME_PREPARED;
    /// Ignores prepared transactions, which may be committed already, in the LastTS of a range
    /// (Trap A.5-6).
    LAST_TS_PREPARED;
    /// Ignores, in the LastTS of a range, commits that are installed above commits that are not
    /// visible yet.
    LAST_TS_LATE;
    /// Leaves the locks of what was read out of a prepare record (Trap A.5-8).
    PREPARE_WITHOUT_READ_LOCKS;
    /// Lets a shard that was only read promise for ever, without keeping the promise (Trap A.5-8).
    READ_VOTE_UNBOUNDED;
    /// Draws a commit timestamp below a prepare timestamp (Trap A.5-9).
    COMMIT_BELOW_PREPARE;
    /// Lets a shard that was only read release its locks although its promise is needed for longer.
    READ_VOTE_NOT_RENEWED;
    /// Does not tell the coordinator of a prepared transaction that an older one waits for it (Trap
    /// A.5-10).
    WOUND_NOT_FORWARDED;
    /// Serves and commits transactions that were planned for an outdated schema (§4.2.3).
    SCHEMA_UNCHECKED;
    /// Ignores a schema change that is registered and not decided (§4.2.3).
    CHANGE_NOT_HEEDED;
    /// Lets a transaction that has lost its locks continue.
    WOUNDED_GOES_ON;
    /// Commits transactions that only read without checking the lease.
    LEASE_UNCHECKED_AT_COMMIT;
    /// Reports a commit of unknown outcome as aborted (I5).
    UNKNOWN_SAID_ABORTED;
    /// Admits a one-shot commit as often as it arrives.
    BLIND_TWICE;
    /// Does not remember the outcomes of commits that are repeated (Trap A.5-11).
    OUTCOMES_FORGOTTEN;
}
