//! Blocks with checksums.
//!
//! The engine verifies its pages when it recovers, not when it reads. A flipped bit would become a
//! wrong row, or a panic within a tree. So between the engine and the disk every block of 4096
//! bytes has a checksum, verified whenever the block is read from the disk (not from the engine's
//! cache).
//!
//! ```text
//!   page 0      1          2 … 1025         1026       1027 …
//!   ┌─────────┬──────────┬────────────────┬──────────┬──────────
//!   │ header  │ 1024     │ 1024 blocks    │ 1024     │ 1024
//!   │         │ checksums│                │ checksums│ blocks …
//!   └─────────┴──────────┴────────────────┴──────────┴──────────
//! ```
//!
//! Invariants:
//! 1. A checksum covers the block's number, so that a misdirected write is noticed.
//! 2. Checksums are written before the sync that makes their blocks durable. The engine never
//!    overwrites a block that its last durable state needs, and commits in two phases. So the last
//!    durable state needs no block that a crash tears or leaves with an old checksum. This relies
//!    on a sector of 512 bytes being written whole or not at all.
//! 3. The engine's header is overwritten in place. It is shorter than a sector, and its checksum is
//!    in the same sector.

use crate::rules;
use meridian_log::File;
use meridian_machine::planted::broken;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Bytes of a block, and of a page of checksums.
const BLOCK: usize = 4096;
/// Blocks whose checksums fill one page.
const GROUP: u64 = (BLOCK / 4) as u64;
const SECTOR: usize = 512;
/// Offset of this layer's own fields in the first sector: magic, format, checksum.
const OWN: usize = SECTOR - 16;
const MAGIC: &[u8; 8] = b"MERISTOR";
/// The format that this version writes. It reads no newer one.
pub(crate) const FORMAT: u32 = 1;
/// The first bytes of the engine's header.
const ENGINE: &[u8; 4] = b"redb";

struct Sums {
    sums: Vec<u32>,
    dirty: bool,
}

/// A file of blocks with checksums. Offsets are the engine's: header and blocks, without the
/// checksums in between.
pub(crate) struct Blocks {
    file: Arc<dyn File>,
    groups: Mutex<BTreeMap<u64, Sums>>,
    /// The first damage that was found. Later errors of the engine are consequences.
    damage: Mutex<Option<String>>,
}

/// Error on opening a file as blocks.
pub(crate) enum Unopened {
    Io(io::Error),
    Damaged(String),
    Newer(u32),
}

impl Blocks {
    /// Opens a file. One whose creation was interrupted by a crash is created again: it was never
    /// used.
    pub(crate) fn open(file: Arc<dyn File>) -> Result<Self, Unopened> {
        let blocks = Blocks { file, groups: Mutex::default(), damage: Mutex::default() };
        let length = blocks.file.len().map_err(Unopened::Io)?;
        if length == 0 {
            return Ok(blocks);
        }
        let mut first = [0; SECTOR];
        let present = SECTOR.min(length as usize);
        blocks.file.read_at(0, &mut first[..present]).map_err(Unopened::Io)?;
        let begun = &first[OWN..OWN + 8] == MAGIC;
        if begun && word(&first, OWN + 8) > FORMAT && word(&first, SECTOR - 4) == header_sum(&first)
        {
            return Err(Unopened::Newer(word(&first, OWN + 8)));
        }
        let checks = begun && word(&first, SECTOR - 4) == header_sum(&first);
        if checks && first.starts_with(ENGINE) {
            return Ok(blocks);
        }
        if (checks || first == [0; SECTOR]) && blocks.untouched(length).map_err(Unopened::Io)? {
            blocks.file.set_len(0).map_err(Unopened::Io)?;
            return Ok(blocks);
        }
        Err(Unopened::Damaged("its first 512 bytes do not match their checksum".to_owned()))
    }

    /// True if no block was ever written durably.
    fn untouched(&self, length: u64) -> io::Result<bool> {
        if length < 2 * BLOCK as u64 {
            return Ok(true);
        }
        let mut sums = [0; BLOCK];
        self.file.read_at(BLOCK as u64, &mut sums)?;
        Ok(sums.iter().all(|byte| *byte == 0))
    }

    /// Returns the first damage that was found, if any.
    pub(crate) fn damage(&self) -> Option<String> {
        self.damage.lock().clone()
    }

    fn damaged(&self, at: u64, what: &str) -> io::Error {
        let what = format!("{what} at byte {at} does not check");
        self.damage.lock().get_or_insert(what.clone());
        io::Error::new(io::ErrorKind::InvalidData, what)
    }

    fn read_header(&self, out: &mut [u8]) -> io::Result<()> {
        let mut sector = [0; SECTOR];
        self.file.read_at(0, &mut sector)?;
        if word(&sector, SECTOR - 4) != header_sum(&sector) {
            return Err(self.damaged(0, "the header"));
        }
        out.copy_from_slice(&sector[..out.len()]);
        Ok(())
    }

    fn write_header(&self, data: &[u8]) -> io::Result<()> {
        let mut sector = [0; SECTOR];
        sector[..data.len()].copy_from_slice(data);
        sector[OWN..OWN + 8].copy_from_slice(MAGIC);
        sector[OWN + 8..OWN + 12].copy_from_slice(&FORMAT.to_le_bytes());
        let sum = header_sum(&sector);
        sector[SECTOR - 4..].copy_from_slice(&sum.to_le_bytes());
        self.file.write_at(0, &sector)
    }

    /// Calls `step` with a group's checksums, which the first call reads from the file.
    fn with_sums<R>(&self, group: u64, step: impl FnOnce(&mut Sums) -> R) -> io::Result<R> {
        let mut groups = self.groups.lock();
        if let Some(sums) = groups.get_mut(&group) {
            return Ok(step(sums));
        }
        let mut page = [0; BLOCK];
        self.file.read_at(sums_at(group), &mut page)?;
        let sums = page.chunks_exact(4).map(|sum| word(sum, 0)).collect();
        Ok(step(groups.entry(group).or_insert(Sums { sums, dirty: false })))
    }

    /// Returns the room left on the disk, in bytes.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        self.file.free_bytes()
    }

    /// Returns the length that the engine sees.
    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(engine_length(self.file.len()?))
    }

    pub(crate) fn set_len(&self, length: u64) -> io::Result<()> {
        if !length.is_multiple_of(BLOCK as u64) {
            return Err(unaligned());
        }
        let blocks = length / BLOCK as u64;
        // The checksums of a removed group start at zero when the file grows again.
        let groups = blocks.saturating_sub(1).div_ceil(GROUP);
        let mut known = self.groups.lock();
        known.split_off(&groups);
        self.file.set_len(file_length(blocks))
    }

    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset == 0 && out.len() <= OWN {
            return self.read_header(out);
        }
        for Run { group, first, at, bytes } in runs(offset, out.len())? {
            let part = &mut out[bytes];
            self.file.read_at(at, part)?;
            let expected = self.with_sums(group, |sums| {
                let count = part.len() / BLOCK;
                sums.sums[first as usize..first as usize + count].to_vec()
            })?;
            for (place, (block, expected)) in part.chunks_exact(BLOCK).zip(expected).enumerate() {
                let checks = broken(rules::STORE_CHECKSUM)
                    || sum(group * GROUP + first + place as u64, block) == expected;
                if !checks {
                    return Err(self.damaged(at + (place * BLOCK) as u64, "the block"));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset == 0 && data.len() <= OWN {
            return self.write_header(data);
        }
        for Run { group, first, at, bytes } in runs(offset, data.len())? {
            let part = &data[bytes];
            self.file.write_at(at, part)?;
            self.with_sums(group, |sums| {
                for (place, block) in part.chunks_exact(BLOCK).enumerate() {
                    let within = first + place as u64;
                    sums.sums[within as usize] = sum(group * GROUP + within, block);
                }
                sums.dirty = true;
            })?;
        }
        Ok(())
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut groups = self.groups.lock();
        let mut page = [0; BLOCK];
        for (group, sums) in groups.iter_mut().filter(|(_, sums)| sums.dirty) {
            for (bytes, sum) in page.chunks_exact_mut(4).zip(&sums.sums) {
                bytes.copy_from_slice(&sum.to_le_bytes());
            }
            self.file.write_at(sums_at(*group), &page)?;
            sums.dirty = false;
        }
        drop(groups);
        self.file.sync()
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn sum(number: u64, block: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(block);
    hasher.update(&number.to_le_bytes());
    hasher.finalize()
}

fn header_sum(sector: &[u8; SECTOR]) -> u32 {
    crc32fast::hash(&sector[..SECTOR - 4])
}

fn unaligned() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the engine reads and writes whole blocks")
}

/// Returns the offset of a group's checksums.
fn sums_at(group: u64) -> u64 {
    (1 + group * (GROUP + 1)) * BLOCK as u64
}

fn file_length(blocks: u64) -> u64 {
    let behind_header = blocks.saturating_sub(1);
    (blocks + behind_header.div_ceil(GROUP)) * BLOCK as u64
}

/// Returns the engine's length for any file length that a crash may have left.
fn engine_length(file: u64) -> u64 {
    let pages = file / BLOCK as u64;
    let behind_header = pages.saturating_sub(1);
    (pages - behind_header.div_ceil(GROUP + 1)) * BLOCK as u64
}

/// Blocks that are contiguous in the file.
struct Run {
    group: u64,
    /// The first block's index in its group.
    first: u64,
    /// Its offset in the file.
    at: u64,
    /// The range of the requested bytes.
    bytes: std::ops::Range<usize>,
}

fn runs(offset: u64, length: usize) -> io::Result<impl Iterator<Item = Run>> {
    let block = BLOCK as u64;
    if offset == 0 || !offset.is_multiple_of(block) || !length.is_multiple_of(BLOCK) {
        return Err(unaligned());
    }
    let mut done = 0;
    Ok(std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let behind_header = offset / block + (done / BLOCK) as u64 - 1;
        let (group, first) = (behind_header / GROUP, behind_header % GROUP);
        let count = (GROUP - first).min(((length - done) / BLOCK) as u64);
        let bytes = done..done + count as usize * BLOCK;
        done = bytes.end;
        Some(Run { group, first, at: sums_at(group) + (1 + first) * block, bytes })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_log::{Disk, MemoryDisk};

    fn open(disk: &MemoryDisk) -> Blocks {
        Blocks::open(disk.open("f").unwrap()).unwrap_or_else(|_| panic!("it opens"))
    }

    #[test]
    fn lengths_turn_around() {
        for blocks in [0, 1, 2, 3, 1024, 1025, 1026, 2049, 2050, 5000] {
            assert_eq!(engine_length(file_length(blocks)), blocks * 4096, "{blocks}");
        }
    }

    #[test]
    fn what_was_written_is_read_across_groups() {
        let disk = MemoryDisk::new();
        let blocks = open(&disk);
        blocks.set_len(3000 * 4096).unwrap();
        let data: Vec<u8> = (0..2100 * BLOCK).map(|at| (at / 7) as u8).collect();
        blocks.write(500 * 4096, &data).unwrap();
        let mut head = [0; 320];
        head[..4].copy_from_slice(ENGINE);
        blocks.write(0, &head).unwrap();
        blocks.sync().unwrap();
        let again = open(&disk);
        let mut found = vec![0; data.len()];
        again.read(500 * 4096, &mut found).unwrap();
        assert!(found == data);
        assert_eq!(again.len().unwrap(), 3000 * 4096);
    }

    #[test]
    fn a_flipped_bit_and_a_misplaced_block_are_noticed() {
        let disk = MemoryDisk::new();
        let blocks = open(&disk);
        blocks.set_len(8 * 4096).unwrap();
        blocks.write(4096, &[5; 2 * BLOCK]).unwrap();
        disk.rot("f", 2 * 4096 + 77, 1);
        let mut out = [0; BLOCK];
        assert_eq!(blocks.read(4096, &mut out).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(blocks.damage().unwrap(), "the block at byte 8192 does not check");
        blocks.read(2 * 4096, &mut out).unwrap();
        disk.open("f").unwrap().write_at(5 * 4096, &[5; BLOCK]).unwrap();
        assert!(blocks.read(4 * 4096, &mut out).is_err());
    }

    #[test]
    fn a_making_that_was_broken_off_is_made_again_and_a_lost_header_is_not() {
        let disk = MemoryDisk::new();
        let blocks = open(&disk);
        blocks.set_len(8 * 4096).unwrap();
        blocks.sync().unwrap();
        assert_eq!(open(&disk).len().unwrap(), 0);
        let blocks = open(&disk);
        blocks.set_len(8 * 4096).unwrap();
        blocks.write(4096, &[5; BLOCK]).unwrap();
        blocks.sync().unwrap();
        assert!(matches!(Blocks::open(disk.open("f").unwrap()), Err(Unopened::Damaged(_))));
    }
}
