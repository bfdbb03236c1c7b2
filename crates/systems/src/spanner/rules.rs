//! Rules of Spanner's transactions at a leader that the lab breaks on purpose.

meridian_machine::rules! {
    /// A snapshot is served although a commit below it is under way (Trap A.5-6).
    SAFE_TIME_IN_FLIGHT;
    /// A snapshot is served although a transaction that is prepared below it may have written into
    /// it (Trap A.5-5).
    SAFE_TIME_PREPARED;
    /// Something prepared that may be committed already is not reckoned with when the newest commit
    /// of a range is looked for (Trap A.5-6).
    LAST_TS_PREPARED;
    /// Nor is what is installed above commits that are not visible yet.
    LAST_TS_LATE;
    /// A prepare record does not hold the locks of what was read (Trap A.5-8).
    PREPARE_WITHOUT_READ_LOCKS;
    /// A shard that was only read promises for ever, and nobody heeds it (Trap A.5-8).
    READ_VOTE_UNBOUNDED;
    /// A commit timestamp is below a prepare timestamp (Trap A.5-9).
    COMMIT_BELOW_PREPARE;
    /// A leader says that a transaction has ended of which it knows nothing, although it may have
    /// been prepared under a later leader.
    ENDED_UNKNOWN;
    /// A leader says that a transaction is aborted that a later one decides.
    DECIDES_IN_ANY_TERM;
    /// A shard that was only read lets go although its promise is needed for longer.
    READ_VOTE_NOT_RENEWED;
    /// The coordinator of a prepared transaction is not told that an older one waits for it (Trap
    /// A.5-10).
    WOUND_NOT_FORWARDED;
    /// What was planned for a schema that holds no more is served and committed (§4.2.3).
    SCHEMA_UNCHECKED;
    /// Nobody cares for a change of the schema that is registered and not decided (§4.2.3).
    CHANGE_NOT_HEEDED;
    /// A transaction that has lost its locks goes on.
    WOUNDED_GOES_ON;
    /// Who only read commits without a look at the lease.
    LEASE_UNCHECKED_AT_COMMIT;
    /// A commit of which a leader does not know the outcome is said to be aborted (I5).
    UNKNOWN_SAID_ABORTED;
    /// An attempt that asks blindly begins as often as it is heard.
    BLIND_TWICE;
    /// A commit that is asked for again is not remembered (Trap A.5-11).
    OUTCOMES_FORGOTTEN;
    /// A leader that forgets an outcome for the sake of newer ones does not note that it may have
    /// forgotten some (Trap A.5-15).
    FORGETS_SILENTLY;
}
