//! Rules of QWStore that the lab breaks on purpose.

meridian_machine::rules! {
    /// Acknowledges a write before every replica has it, in a store that reads at any one of them.
    ACKNOWLEDGED_BY_SOME;
}
