//! The engine behind mvcc's store trait, over log's Disk.
