//! Rules of two-phase commit that the simulator breaks on purpose. Each says what the broken leader
//! does.

meridian_machine::rules! {
    /// Confirms that an unknown transaction has ended, although it may have been prepared under a
    /// later leader.
    ENDED_UNKNOWN;
    /// Reports a transaction as aborted that a later leader term decides.
    DECIDES_IN_ANY_TERM;
    /// Does not note that it may have forgotten outcomes when it drops old ones (Trap A.5-15).
    FORGETS_SILENTLY;
}
