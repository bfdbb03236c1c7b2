//! Rules of the store that the lab breaks on purpose.

meridian_machine::rules! {
    /// A copy of a shard has no history: it cannot be read below the moment at which it was made.
    COPY_WITHOUT_HISTORY;
    /// A session that was reading a snapshot at a member goes on at its successor, which began with
    /// nothing.
    READS_NEWCOMER;
    /// Blocks of the store are taken for what they say.
    STORE_CHECKSUM;
}
