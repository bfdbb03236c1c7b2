//! Rules of a shard with leaders that the lab breaks on purpose. Each says what the broken shard
//! does.

meridian_machine::rules! {
    /// Serves a snapshot in the present although the promise is in memory only.
    CEILING_NOT_AGREED;
    /// Starts a new leader's timestamps from its clock instead of the log (Trap A.5-2).
    ISSUER_BELOW_LOG;
    /// Transfers leadership before sessions of this node learn that they must not read without
    /// asking.
    SLOT_WITHDRAWN_LATE;
    /// Lets members of a new shard elect a leader although they know of it only from a copy of its
    /// parent, and have none of the rows with which it begins.
    HEARSAY_LEADS;
    /// Starts a new shard beside a witness of its parent, which has no versions, as if it had them.
    HOLLOW_CHILD;
    /// Serves a snapshot above a split that is being agreed: the new shard may issue below it.
    SNAPSHOT_ABOVE_SPLIT;
    /// Serves a snapshot at a member that has not installed everything at or below it.
    CLOSED_BEFORE_INSTALLED;
    /// Adopts no timestamp that a message carries (HybridTime's `Update`; Traps A.4-2, A.4-11).
    TOKEN_IGNORED;
}
