//! Rules of a shard whose replicas have a leader that the lab breaks on purpose.

meridian_machine::rules! {
    /// A snapshot in the present is served although nobody else has heard of the promise.
    CEILING_NOT_AGREED;
    /// A new leader trusts its clock more than the log (Trap A.5-2).
    ISSUER_BELOW_LOG;
    /// Leadership is given away before sessions of this node hear that they may no longer read by
    /// themselves.
    SLOT_WITHDRAWN_LATE;
    /// Members of a shard that was split off, who have nothing of what it began with, elect one of
    /// themselves.
    HEARSAY_LEADS;
    /// A shard that was split off begins beside a witness of its parent, which has no versions, as
    /// if it had them.
    HOLLOW_CHILD;
    /// A snapshot is served by a member that has not installed everything at or below it.
    CLOSED_BEFORE_INSTALLED;
}
