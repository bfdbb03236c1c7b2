//! Rules of two-phase locking, its coordinator and its lock table that the simulator breaks on
//! purpose.

meridian_machine::rules! {
    /// The newest acknowledged commit is read although a commit is under way whose timestamp has
    /// passed.
    LAST_TS_IN_FLIGHT;
    /// Of the timestamps that shards propose for a read, the least is used (§4.2.2).
    NEGOTIATED_LEAST;
    /// Reads take no locks.
    SHARED_LOCKS_FREE;
    /// Ranges that were read can be written into: phantoms.
    RANGE_LOCKS_FREE;
    /// The leader of a group with one voter issues timestamps and serves although its node does not
    /// know the time (Trap A.5-14).
    FENCED_SERVES;
    /// A coordinator resends Commit when an older transaction requests a lock of the transaction
    /// that is committing.
    WOUNDS_COMMITS;
    /// A transaction's requests carry no causal token (Trap A.4-11).
    TOKEN_DROPPED;
    /// A causal token is adopted however far ahead it is (Trap A.4-3).
    FAR_TOKEN_ADOPTED;
    /// A read in mode `commit_wait` is answered before what it read has surely passed (I3).
    READ_WAIT;
}
