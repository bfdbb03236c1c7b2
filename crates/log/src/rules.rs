//! Rules of the log that the simulator can break on purpose, to show that its checks notice.

meridian_machine::rules! {
    /// The log does not verify the checksums of records.
    LOG_CHECKSUM;
    /// The log takes a record that a crash tore for complete.
    TORN_TAIL;
    /// Recovery relies on records that a failed sync left in the page cache alone.
    TAIL_NOT_REWRITTEN;
    /// The log opens although its files are missing.
    EMPTIED_LOG_UNNOTICED;
}
