//! Rules of the log that the lab breaks on purpose.

meridian_machine::rules! {
    /// Records of the log are taken for what they say.
    LOG_CHECKSUM;
    /// A record that was torn by a crash is taken for whole.
    TORN_TAIL;
    /// Recovery of the log relies on what a failed sync has left in the page cache alone.
    TAIL_NOT_REWRITTEN;
    /// A log that was emptied is gone on with.
    EMPTIED_LOG_UNNOTICED;
}
