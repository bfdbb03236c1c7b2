//! Rules of placement that the lab breaks on purpose.

meridian_machine::rules! {
    /// A member that comes back with an empty disk is taken for the one that it was.
    DISKS_NOT_REMEMBERED;
}
