//! Rules of versions that the simulator breaks on purpose.

meridian_machine::rules! {
    /// A version that is no longer kept is read as absent.
    HORIZON_UNCHECKED;
}
