//! Rules of versions that the lab breaks on purpose.

meridian_machine::rules! {
    /// What is no longer kept is read as absent.
    HORIZON_UNCHECKED;
}
