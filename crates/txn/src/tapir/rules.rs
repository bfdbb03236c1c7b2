//! Rules of TAPIR's transactions that the simulator breaks on purpose.

meridian_machine::rules! {
    /// A transaction that touches a contested key does not wait for its turn.
    TURNS_NOT_TAKEN;
    /// A transaction that is prepared here is reported as prepared at whatever other timestamp it
    /// is proposed (Trap A.2-2).
    PREPARED_UNCHECKED;
    /// A transaction writes below the timestamp of a committed transaction that has read there
    /// (Trap A.2-20).
    COMMITTED_READS_FREE;
    /// A transaction has read versions above its timestamp (Trap A.2-20).
    READS_FROM_THE_FUTURE;
    /// Keys that were read as absent are not validated: phantoms (Trap A.2-18).
    PHANTOMS_PASS;
    /// A transaction is prepared after it has ended (Trap A.2-15).
    ENDED_PREPARES;
    /// A transaction is prepared although its recovery was answered that it would not be (Trap
    /// A.2-12).
    FENCED_PREPARES;
    /// A replica votes `Ok` on a proposal at or below its closed timestamp.
    CLOSED_SAYS_YES;
    /// The name of a commit of several shards is not kept, although another shard may need its
    /// outcome.
    NAMES_FORGOTTEN;
    /// A proposal at a timestamp that is forgotten is answered with a refusal.
    LATE_SAID_REFUSED;
    /// A replica's served and closed timestamps are merged however far its clock is ahead of the
    /// other replicas'.
    CLOCKS_UNCAPPED;
    /// A replica that has served a snapshot accepts a write below it (TAPIR §6.1).
    SNAPSHOTS_UNGUARDED;
    /// A replica forgets the timestamp up to which it has served snapshots, over a restart or in a
    /// view change.
    SERVED_FORGOTTEN;
    /// A snapshot is served although a transaction is prepared below it (Trap A.2-3).
    SNAPSHOTS_MISS_PREPARED;
    /// A recovery counts `Ok` votes on different attempts together (Trap A.2-2).
    ATTEMPTS_MIXED;
    /// A recovery is answered before a view has begun with its operation: a proposal may be
    /// undecided (Trap A.2-12).
    RESOLVED_IN_ITS_VIEW;
}
