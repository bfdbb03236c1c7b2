//! Rules of TAPIR's transactions that the lab breaks on purpose.

meridian_machine::rules! {
    /// A transaction that wants what others were refused for of late does not wait for its turn.
    TURNS_NOT_TAKEN;
    /// A transaction that is prepared here is said to be so at whatever other timestamp it is
    /// proposed (Trap A.2-2).
    PREPARED_UNCHECKED;
    /// Somebody writes below the timestamp of a committed transaction that has read there (Trap
    /// A.2-20).
    COMMITTED_READS_FREE;
    /// A transaction has read versions above its timestamp (Trap A.2-20).
    READS_FROM_THE_FUTURE;
    /// What was not there is not validated: phantoms (Trap A.2-18).
    PHANTOMS_PASS;
    /// A transaction is prepared after it has ended (Trap A.2-15).
    ENDED_PREPARES;
    /// A transaction is prepared although somebody was told that it would not be any more (Trap
    /// A.2-12).
    FENCED_PREPARES;
    /// A replica that knows that a part of the past is closed says yes to somebody there.
    CLOSED_SAYS_YES;
    /// Of a commit of several shards nothing is kept, although another shard may have to learn of
    /// it.
    NAMES_FORGOTTEN;
    /// Who asks about a timestamp that is forgotten is told that it was refused.
    LATE_SAID_REFUSED;
    /// What a replica says to have served, or closes, is merged however far its clock is ahead of
    /// the others'.
    CLOCKS_UNCAPPED;
    /// A replica that has served a snapshot lets somebody write below it (TAPIR §6.1).
    SNAPSHOTS_UNGUARDED;
    /// A replica forgets over a restart, or does not tell in a view change, up to where it has
    /// served snapshots.
    SERVED_FORGOTTEN;
    /// What is prepared below a snapshot is not reckoned with (Trap A.2-3).
    SNAPSHOTS_MISS_PREPARED;
    /// Who recovers a transaction takes yeses to different attempts for one (Trap A.2-2).
    ATTEMPTS_MIXED;
    /// What became of a transaction is told before a view has begun with the question: something
    /// may be undecided (Trap A.2-12).
    RESOLVED_IN_ITS_VIEW;
}
