//! What log and store stand on: the host gives files, the simulator gives the faulty disk.

use std::io;
use std::sync::Arc;

/// A directory of files.
pub trait Disk: Send + Sync {
    /// The names of all files, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file, creating an empty one if there is none.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Removes a file, durably.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Renames a file, durably, replacing another.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Room left, in bytes.
    fn free_bytes(&self) -> io::Result<u64>;
    /// Where this is, for messages.
    fn describe(&self, name: &str) -> String;
}

/// One file.
pub trait File: Send + Sync {
    /// Reads exactly `buffer.len()` bytes at an offset.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all bytes at an offset; they survive a crash after the next `sync`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes all writes survive a crash.
    fn sync(&self) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether it is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts, or extends with zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Room left on the file's disk, in bytes.
    fn free_bytes(&self) -> io::Result<u64>;
}
