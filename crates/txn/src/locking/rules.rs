//! Rules of two-phase locking, of its coordinator and its lock table that the lab breaks on
//! purpose.

meridian_machine::rules! {
    /// The newest commit that was acknowledged is read, although one is under way whose timestamp
    /// has passed.
    LAST_TS_IN_FLIGHT;
    /// Of what shards say of the timestamp at which they are to be read, the least is taken
    /// (§4.2.2).
    NEGOTIATED_LEAST;
    /// Reads take no locks.
    SHARED_LOCKS_FREE;
    /// Ranges that were read can be written into: phantoms.
    RANGE_LOCKS_FREE;
    /// The leader of a group with one voter draws timestamps and serves while its node does not
    /// know the time (Trap A.5-14).
    FENCED_SERVES;
    /// A session asks to commit again when an older transaction wants a lock of the one that is
    /// committing.
    WOUNDS_COMMITS;
}
