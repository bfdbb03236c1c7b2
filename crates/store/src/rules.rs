//! Rules of the store that the simulator can break on purpose, to show that its checks notice.

meridian_machine::rules! {
    /// A copy of a shard has no history: it cannot be read below its own timestamp.
    COPY_WITHOUT_HISTORY;
    /// The data of a dropped database is removed before the store has the row that says so.
    FORGOTTEN_BEFORE_ROW;
    /// A session that was reading a snapshot at a removed replica goes on at the next one, which
    /// started empty.
    READS_NEWCOMER;
    /// The store does not verify the checksums of blocks.
    STORE_CHECKSUM;
}
