//! A disk in memory that loses what was not synced, tears what was being written, rots, and fills up.

use crate::{Disk, File};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

#[derive(Default)]
struct Content {
    /// What survives a crash.
    synced: Vec<u8>,
    /// What a reader sees.
    bytes: Vec<u8>,
    /// Writes since the last sync, in order: where and how many bytes.
    unsynced: Vec<(u64, usize)>,
}

#[derive(Default)]
struct Inner {
    files: BTreeMap<String, Arc<Mutex<Content>>>,
    full: bool,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    inner: Arc<Mutex<Inner>>,
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// The machine loses power. Of the writes since a file's last sync, `survives` says for each 512-byte sector, in order, whether
    /// it reached the disk: sectors arrive in any order, whole or not at all. File names are durable at once.
    pub fn crash(&self, mut survives: impl FnMut() -> bool) {
        let inner = self.inner.lock();
        for content in inner.files.values() {
            let mut content = content.lock();
            let Content { synced, bytes, unsynced } = &mut *content;
            for (offset, length) in unsynced.drain(..) {
                let end = (offset as usize + length).min(bytes.len());
                let mut at = offset as usize;
                while at < end {
                    let until = ((at / 512 + 1) * 512).min(end);
                    if survives() {
                        if synced.len() < until {
                            synced.resize(until, 0);
                        }
                        synced[at..until].copy_from_slice(&bytes[at..until]);
                    }
                    at = until;
                }
            }
            content.bytes = content.synced.clone();
        }
    }

    /// From now on nothing can be added, or things can again.
    pub fn set_full(&self, full: bool) {
        self.inner.lock().full = full;
    }

    /// Flips the bits of `mask` in one byte of a file, on the disk itself.
    pub fn rot(&self, name: &str, offset: u64, mask: u8) {
        if let Some(content) = self.inner.lock().files.get(name) {
            let mut content = content.lock();
            let Content { synced, bytes, .. } = &mut *content;
            for side in [synced, bytes] {
                if let Some(byte) = side.get_mut(offset as usize) {
                    *byte ^= mask;
                }
            }
        }
    }
}

impl Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.inner.lock().files.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let content = Arc::clone(self.inner.lock().files.entry(name.to_owned()).or_default());
        Ok(Arc::new(MemoryFile { content, disk: self.clone() }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.lock().files.remove(name).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.inner.lock();
        let content = inner.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        inner.files.insert(to.to_owned(), content);
        Ok(())
    }

    fn describe(&self, name: &str) -> String {
        name.to_owned()
    }
}

struct MemoryFile {
    content: Arc<Mutex<Content>>,
    disk: MemoryDisk,
}

impl File for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let content = self.content.lock();
        let start = offset as usize;
        let found = start.checked_add(buffer.len()).and_then(|end| content.bytes.get(start..end));
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let full = self.disk.inner.lock().full;
        let mut content = self.content.lock();
        let end = offset as usize + bytes.len();
        if end > content.bytes.len() {
            if full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            content.bytes.resize(end, 0);
        }
        content.bytes[offset as usize..end].copy_from_slice(bytes);
        content.unsynced.push((offset, bytes.len()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut content = self.content.lock();
        content.unsynced.clear();
        content.synced = content.bytes.clone();
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().bytes.len() as u64)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let full = self.disk.inner.lock().full;
        let mut content = self.content.lock();
        if length as usize > content.bytes.len() && full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        content.bytes.resize(length as usize, 0);
        Ok(())
    }
}
