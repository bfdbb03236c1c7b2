//! Rules of placement that the lab breaks on purpose. Each says what the broken member does.

meridian_machine::rules! {
    /// Accepts a member that returns with an empty disk as the one that it was.
    DISKS_NOT_REMEMBERED;
}
