//! Rules of QWStore that the lab breaks on purpose.

meridian_machine::rules! {
    /// A write is acknowledged before every replica has it, in a store that is read at any one of
    /// them.
    ACKNOWLEDGED_BY_SOME;
}
