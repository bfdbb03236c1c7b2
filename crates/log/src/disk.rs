//! The interface of log and store to the disk. The host implements it by files, the simulator by a
//! disk with faults.

use std::io;
use std::sync::Arc;

/// A directory of files.
pub trait Disk: Send + Sync {
    /// Returns the names of all files, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file, and creates an empty one if it does not exist.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Removes a file, durably.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Renames a file, durably, and replaces an existing one.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Returns the room left, in bytes.
    fn free_bytes(&self) -> io::Result<u64>;
    /// Returns the path of a file, for messages.
    fn describe(&self, name: &str) -> String;
}

/// An open file.
pub trait File: Send + Sync {
    /// Reads exactly `buffer.len()` bytes at an offset.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all bytes at an offset; they survive a crash after the next `sync`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes all writes durable.
    fn sync(&self) -> io::Result<()>;
    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// True if the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Truncates the file, or extends it with zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Returns the room left on the file's disk, in bytes.
    fn free_bytes(&self) -> io::Result<u64>;
}
