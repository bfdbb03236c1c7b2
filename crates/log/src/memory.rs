//! A disk in memory for tests and the simulator. It loses unsynced writes, tears writes, flips
//! bits, fails, and fills up.
//!
//! It has a page cache like Linux. After a failed sync the unwritten pages are clean: every process
//! reads them as they were written, no later sync writes them unless they are written to again, and
//! they are lost when the power fails.

use crate::{Disk, File};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// The unit that a disk writes atomically, in bytes.
const SECTOR: usize = 512;
/// The unit of the page cache, in bytes.
const PAGE: usize = 4096;

#[derive(Default)]
struct Content {
    /// The content that survives a crash.
    synced: Vec<u8>,
    /// The content that readers see.
    bytes: Vec<u8>,
    /// Writes since the last sync, in order: offset and length.
    unsynced: Vec<(usize, usize)>,
    /// Pages that a failed sync left clean although they did not reach the disk.
    forsaken: BTreeSet<usize>,
    /// The next write is misdirected by this many bytes.
    astray: Option<i64>,
}

/// Operations that fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The disk is full: files cannot grow.
    pub full: bool,
    /// Every read fails.
    pub reads: bool,
    /// Every write fails.
    pub writes: bool,
    /// Every sync fails: see [`MemoryDisk::fail_next_sync`].
    pub syncs: bool,
}

impl Content {
    /// Writes the dirty pages to the disk.
    fn write_back(&mut self) {
        let Content { synced, bytes, unsynced, forsaken, .. } = self;
        synced.resize(bytes.len(), 0);
        for (start, length) in unsynced.drain(..) {
            let end = (start + length).min(bytes.len());
            if start < end {
                synced[start..end].copy_from_slice(&bytes[start..end]);
            }
            for page in pages(start, end).filter(|page| forsaken.remove(page)) {
                let whole = page * PAGE..((page + 1) * PAGE).min(bytes.len());
                synced[whole.clone()].copy_from_slice(&bytes[whole]);
            }
        }
    }

    /// Marks the dirty pages clean without writing them to the disk.
    fn detach(&mut self) {
        for (start, length) in self.unsynced.drain(..) {
            self.forsaken.extend(pages(start, (start + length).min(self.bytes.len())));
        }
    }

    /// Drops unwritten sectors, except those for which `survives` returns true.
    fn lose_power(&mut self, survives: &mut impl FnMut() -> bool) {
        let Content { synced, bytes, unsynced, forsaken, .. } = self;
        let forsaken = std::mem::take(forsaken).into_iter().map(|page| (page * PAGE, PAGE));
        for (start, length) in forsaken.chain(unsynced.drain(..)) {
            let end = (start + length).min(bytes.len());
            let mut at = start;
            while at < end {
                let until = ((at / SECTOR + 1) * SECTOR).min(end);
                if survives() {
                    if synced.len() < until {
                        synced.resize(until, 0);
                    }
                    synced[at..until].copy_from_slice(&bytes[at..until]);
                }
                at = until;
            }
        }
        *bytes = synced.clone();
    }
}

/// Returns the pages that hold the bytes from `start` to `end`.
fn pages(start: usize, end: usize) -> std::ops::Range<usize> {
    if start < end { start / PAGE..end.div_ceil(PAGE) } else { 0..0 }
}

#[derive(Default)]
struct Inner {
    files: BTreeMap<String, Arc<Mutex<Content>>>,
    faults: Faults,
    /// Successful syncs before one fails.
    until_sync_fails: Option<u64>,
    /// True if a sync has failed since the last call of [`MemoryDisk::take_failed_sync`].
    sync_failed: bool,
    /// Counts the crashes. Files opened before the last one fail.
    life: u64,
    /// Writes and syncs before the power fails.
    until_power_fails: Option<u64>,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    inner: Arc<Mutex<Inner>>,
}

impl MemoryDisk {
    /// Free bytes of a disk that is not full.
    const ROOM: u64 = 1 << 40;

    /// Returns an empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Simulates a power failure. For each 512-byte sector of the writes since a file's last sync,
    /// in order, `survives` decides whether it reached the disk: sectors arrive in any order, each
    /// whole or not at all. File names are durable at once. Files that were opened before fail from
    /// now on.
    pub fn crash(&self, mut survives: impl FnMut() -> bool) {
        let mut inner = self.inner.lock();
        inner.life += 1;
        inner.until_power_fails = None;
        for content in inner.files.values() {
            content.lock().lose_power(&mut survives);
        }
    }

    /// Simulates the end of the process without a power failure. Files that it opened fail from now
    /// on, and the next process reads everything that was written.
    pub fn end_process(&self) {
        self.inner.lock().life += 1;
    }

    /// Makes the next sync of a file fail. The unsynced content stays readable until
    /// [`MemoryDisk::crash`], and no later sync writes it, except with a page that is written to
    /// again.
    pub fn fail_next_sync(&self) {
        self.fail_sync_after(0);
    }

    /// Makes one sync fail after `syncs` successful ones.
    pub fn fail_sync_after(&self, syncs: u64) {
        self.inner.lock().until_sync_fails = Some(syncs);
    }

    /// True if a planned failure of a sync has happened since the last call. Cancels a failure that
    /// is still planned.
    pub fn take_failed_sync(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.until_sync_fails = None;
        std::mem::take(&mut inner.sync_failed)
    }

    /// Returns another disk with the content that would survive a power failure now, if no unsynced
    /// write had reached the disk.
    pub fn remains(&self) -> MemoryDisk {
        let kept = |content: &Arc<Mutex<Content>>| {
            let synced = content.lock().synced.clone();
            Arc::new(Mutex::new(Content { bytes: synced.clone(), synced, ..Content::default() }))
        };
        let files = self
            .inner
            .lock()
            .files
            .iter()
            .map(|(name, content)| (name.clone(), kept(content)))
            .collect();
        MemoryDisk { inner: Arc::new(Mutex::new(Inner { files, ..Inner::default() })) }
    }

    /// Sets whether the disk is full.
    pub fn set_full(&self, full: bool) {
        self.inner.lock().faults.full = full;
    }

    /// Sets the operations that fail from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.inner.lock().faults = faults;
    }

    /// Makes the power fail after `operations` writes and syncs: each later one fails, until
    /// [`MemoryDisk::crash`] decides what survives.
    pub fn fail_power_after(&self, operations: u64) {
        self.inner.lock().until_power_fails = Some(operations);
    }

    /// Misdirects the next write to a file by this many bytes, if it fits there: the bytes to be
    /// overwritten stay.
    pub fn misdirect(&self, name: &str, by: i64) {
        if let Some(content) = self.inner.lock().files.get(name) {
            content.lock().astray = Some(by);
        }
    }

    /// Copies bytes of a file to another offset, on the disk itself, like an old misdirected write.
    pub fn misplace(&self, name: &str, from: u64, to: u64, length: usize) {
        if let Some(content) = self.inner.lock().files.get(name) {
            let mut content = content.lock();
            let Content { synced, bytes, .. } = &mut *content;
            for side in [synced, bytes] {
                let (from, to) = (from as usize, to as usize);
                if from.max(to) + length <= side.len() {
                    side.copy_within(from..from + length, to);
                }
            }
        }
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

impl MemoryDisk {
    fn is_sync_to_fail(&self) -> bool {
        let mut inner = self.inner.lock();
        let due = match &mut inner.until_sync_fails {
            None => false,
            Some(0) => inner.until_sync_fails.take().is_some(),
            Some(syncs) => {
                *syncs -= 1;
                false
            }
        };
        let fails = due || inner.faults.syncs;
        inner.sync_failed |= fails;
        fails
    }
}

impl Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.inner.lock().files.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut inner = self.inner.lock();
        let life = inner.life;
        let content = Arc::clone(inner.files.entry(name.to_owned()).or_default());
        Ok(Arc::new(MemoryFile { content, disk: self.clone(), life }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner
            .lock()
            .files
            .remove(name)
            .map(|_| ())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.inner.lock();
        let content = inner.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        inner.files.insert(to.to_owned(), content);
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(if self.inner.lock().faults.full { 0 } else { Self::ROOM })
    }

    fn describe(&self, name: &str) -> String {
        name.to_owned()
    }
}

struct MemoryFile {
    content: Arc<Mutex<Content>>,
    disk: MemoryDisk,
    life: u64,
}

impl MemoryFile {
    /// Returns the faults of this file, without the planned failures of syncs.
    fn faults(&self) -> Faults {
        let inner = self.disk.inner.lock();
        let gone = inner.life != self.life;
        let Faults { full, reads, writes, .. } = inner.faults;
        Faults { full, reads: reads || gone, writes: writes || gone, syncs: gone }
    }

    /// Returns the faults of an operation that changes the disk.
    fn change(&self) -> Faults {
        let faults = self.faults();
        match &mut self.disk.inner.lock().until_power_fails {
            Some(0) => Faults { writes: true, syncs: true, ..faults },
            Some(operations) => {
                *operations -= 1;
                faults
            }
            None => faults,
        }
    }
}

fn refuse(refused: bool) -> io::Result<()> {
    if refused { Err(io::Error::other("the disk failed")) } else { Ok(()) }
}

impl File for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        refuse(self.faults().reads)?;
        let content = self.content.lock();
        let start = offset as usize;
        let found = start.checked_add(buffer.len()).and_then(|end| content.bytes.get(start..end));
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let faults = self.change();
        refuse(faults.writes)?;
        let mut content = self.content.lock();
        let astray = content.astray.take().and_then(|by| offset.checked_add_signed(by));
        let offset = astray
            .filter(|at| at + bytes.len() as u64 <= content.bytes.len() as u64)
            .unwrap_or(offset);
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        if end > content.bytes.len() {
            if faults.full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            content.bytes.resize(end, 0);
        }
        content.bytes[start..end].copy_from_slice(bytes);
        content.unsynced.push((start, bytes.len()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        refuse(self.change().syncs)?;
        let failed = self.disk.is_sync_to_fail();
        let mut content = self.content.lock();
        if failed {
            content.detach()
        } else {
            content.write_back()
        }
        refuse(failed)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().bytes.len() as u64)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let faults = self.change();
        refuse(faults.writes)?;
        let mut content = self.content.lock();
        let (length, before) = (length as usize, content.bytes.len());
        if length > before && faults.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        content.bytes.resize(length, 0);
        content.forsaken.retain(|page| page * PAGE < length);
        if length < before {
            // The cut part reads as zeros when the file grows again, not as the bytes that `synced`
            // still holds.
            content.unsynced.push((length, before - length));
        }
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }
}
