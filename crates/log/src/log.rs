//! The log: append, recovery, and release of space.

use crate::rules;
use crate::segment::{self, FIRST, Preamble, SEAL};
use crate::{Disk, File};
use bytes::Bytes;
use meridian_machine::planted::broken;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

/// The machine that persisted a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineKey {
    /// The database.
    pub database: u32,
    /// The shard.
    pub shard: u32,
}

/// A log sequence number. It starts at 1 each time the log is opened, and grows by one with each
/// append, across machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// Options of a log.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The size of a segment file. A larger record gets a segment of its own size.
    pub segment_bytes: u64,
    /// True if there was a log here before: a missing log is then damage.
    pub existed: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { segment_bytes: 32 << 20, existed: false }
    }
}

/// The content of a log when it was opened.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Every record, in order.
    pub records: Vec<(MachineKey, Lsn, Bytes)>,
    /// True if unacknowledged bytes were cut from the end.
    pub torn: bool,
    /// The oldest segment that must exist.
    oldest: u64,
}

/// Error of the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// No room on the disk. Appended records stay in memory; `write` can be retried.
    #[error("no room left on the disk that holds {file}: free some space, and writes resume")]
    Full {
        /// The file.
        file: String,
    },
    /// Acknowledged records do not match their checksums.
    #[error(
        "{file} is damaged at byte {offset}: {what}. Nothing was repaired or removed. A single node: restore its data \
         directory from a backup. One of several nodes: leave it stopped, the other nodes go on without it. Do not restore an \
         older copy of its data directory: it would break promises it made to them. They refuse a node with an empty \
         directory (a member cannot be replaced in this version)"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The offset of the damage.
        offset: u64,
        /// The problem.
        what: &'static str,
    },
    /// The file has a newer format.
    #[error(
        "{file} has log format {found}, and this version reads up to {known}: use the newer version of meridian"
    )]
    NewerFormat {
        /// The file.
        file: String,
        /// The format of the file.
        found: u32,
        /// The newest format that this version reads.
        known: u32,
    },
    /// The disk failed. After a failed sync it is unknown what reached the disk: the process must
    /// end.
    #[error("{file}: {source}")]
    Disk {
        /// The file.
        file: String,
        /// The operating system's error.
        source: io::Error,
    },
}

struct Segment {
    number: u64,
    file: Arc<dyn File>,
    /// The LSN of each machine's newest record in it.
    newest: BTreeMap<MachineKey, Lsn>,
}

/// The log of a node.
pub struct Log {
    disk: Arc<dyn Disk>,
    options: Options,
    /// Oldest first. The last one is open.
    segments: VecDeque<Segment>,
    /// The offset of the next record in the open segment.
    offset: u64,
    /// The offset up to which the open segment is synced.
    synced: u64,
    /// The synced offset that the newest written record names, and the one that the newest synced
    /// record names.
    marks: (u64, u64),
    /// The capacity of the open segment; 0 if none could be started yet.
    capacity: u64,
    /// The number of the next segment.
    next_number: u64,
    pending: VecDeque<(MachineKey, Lsn, Bytes)>,
    next: Lsn,
    released: BTreeMap<MachineKey, Lsn>,
    /// Files of the standard size for future segments.
    spare: Vec<String>,
    /// The next spare file, while zeros are written to it.
    growing: Option<(String, Arc<dyn File>)>,
    /// True if there was no room for a spare file.
    short: bool,
    /// Reused by all writes.
    buffer: Vec<u8>,
}

/// Spare files that are kept. Further ones are removed.
const SPARES: usize = 2;
/// Zeros of one write, in bytes.
const ZEROS: usize = 1 << 20;
/// Bytes of the buffer that are kept between writes.
const BUFFER_KEPT: usize = 4 << 20;

/// Extends a file by a piece of zeros towards a length, and returns its new length.
fn write_zeros(file: &Arc<dyn File>, length: u64, until: u64) -> io::Result<u64> {
    let piece = vec![0; ZEROS.min(until.saturating_sub(length) as usize)];
    file.write_at(length, &piece)?;
    Ok(length + piece.len() as u64)
}

/// Rewrites a segment's preamble and seal durably, as they were read.
///
/// A seal is written once everything before it is durable. But the sync of the seal itself, or of a
/// preamble with nothing behind it, may have failed.
fn rewrite_ends(file: &Arc<dyn File>, bytes: &[u8], seal: u64) -> io::Result<()> {
    file.write_at(0, &bytes[..FIRST as usize])?;
    file.write_at(seal, &bytes[seal as usize..seal as usize + segment::HEADER])?;
    file.sync()
}

impl Log {
    /// Opens a log, reads all its records, and starts a new segment. When this returns, a new log
    /// and every recovered record are durable.
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<(Log, Recovered), LogError> {
        let fail = |name: &str, source| LogError::Disk { file: disk.describe(name), source };
        let names = disk.list().map_err(|error| fail("log", error))?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment::number(name)).collect();
        numbers.sort_unstable();
        let mut log = Log {
            disk: Arc::clone(&disk),
            options,
            segments: VecDeque::new(),
            offset: FIRST,
            synced: FIRST,
            marks: (0, 0),
            capacity: 0,
            next_number: numbers.last().map_or(1, |last| last + 1),
            pending: VecDeque::new(),
            next: Lsn(1),
            released: BTreeMap::new(),
            spare: Vec::new(),
            growing: None,
            short: false,
            buffer: Vec::new(),
        };
        if numbers.is_empty() && options.existed && !broken(rules::EMPTIED_LOG_UNNOTICED) {
            let file = disk.describe(&segment::name(1));
            return Err(LogError::Damaged { file, offset: 0, what: "the whole log is missing" });
        }
        let mut recovered = Recovered::default();
        for (place, &number) in numbers.iter().enumerate() {
            let last = place + 1 == numbers.len();
            let name = segment::name(number);
            if place > 0 && numbers[place - 1] + 1 != number {
                let file = disk.describe(&segment::name(number - 1));
                return Err(LogError::Damaged {
                    file,
                    offset: 0,
                    what: "a segment between two others is missing",
                });
            }
            log.recover_segment(number, &name, last, &mut recovered)?;
        }
        if numbers.first().is_some_and(|first| *first > recovered.oldest && recovered.oldest > 0) {
            let file = disk.describe(&segment::name(recovered.oldest));
            return Err(LogError::Damaged {
                file,
                offset: 0,
                what: "the oldest segment is missing",
            });
        }
        let names = disk.list().map_err(|error| fail("log", error))?;
        for name in names.into_iter().filter(|name| segment::is_spare(name)) {
            let whole =
                disk.open(&name).and_then(|file| file.len()).map_err(|error| fail(&name, error))?;
            if whole == options.segment_bytes && log.spare.len() < SPARES {
                log.spare.push(name);
            } else {
                disk.remove(&name).map_err(|error| fail(&name, error))?;
            }
        }
        // A log opens on a full disk, so that its content can be read. The first write starts the
        // segment.
        match log.begin(options.segment_bytes) {
            Err(LogError::Full { .. }) if !numbers.is_empty() => Ok((log, recovered)),
            begun => begun.map(|()| (log, recovered)),
        }
    }

    fn recover_segment(
        &mut self,
        number: u64,
        name: &str,
        last: bool,
        to: &mut Recovered,
    ) -> Result<(), LogError> {
        let described = self.disk.describe(name);
        let fail = |source| LogError::Disk { file: described.clone(), source };
        let damaged = |offset, what| LogError::Damaged { file: described.clone(), offset, what };
        let mut file = self.disk.open(name).map_err(fail)?;
        let mut bytes = vec![0; file.len().map_err(fail)? as usize];
        file.read_at(0, &mut bytes).map_err(fail)?;
        match segment::preamble(&bytes) {
            Preamble::Begun { number: begun, oldest } if begun == number => {
                to.oldest = to.oldest.max(oldest)
            }
            Preamble::Newer(found) => {
                return Err(LogError::NewerFormat {
                    file: described,
                    found,
                    known: segment::FORMAT,
                });
            }
            // A crash happened while the newest segment was being started: nothing was appended to
            // it. A reused file still names its former segment.
            _ if last && !segment::acknowledged(&bytes, number, 0) => {
                self.seal(&file, name, number, FIRST, true)?;
                to.torn = true;
                self.segments.push_back(Segment { number, file, newest: BTreeMap::new() });
                return Ok(());
            }
            _ => return Err(damaged(0, "the segment's first bytes do not check")),
        }
        let mut newest = BTreeMap::new();
        let mut offset = FIRST;
        let bytes = Bytes::from(bytes);
        loop {
            match segment::record_at(&bytes, number, offset, last) {
                Some((header, _, _)) if header.key == SEAL => {
                    if last && !broken(rules::TAIL_NOT_REWRITTEN) {
                        rewrite_ends(&file, &bytes, offset).map_err(fail)?;
                    }
                    break;
                }
                Some((header, payload, next)) => {
                    let lsn = self.take_lsn();
                    newest.insert(header.key, lsn);
                    to.records.push((header.key, lsn, bytes.slice_ref(payload)));
                    offset = next;
                }
                None if last && !segment::acknowledged(&bytes, number, offset) => {
                    let rest = &bytes[(offset as usize).min(bytes.len())..];
                    to.torn |= rest.iter().take(segment::HEADER).any(|byte| *byte != 0);
                    file = self.rewrite(file, number, &bytes[..offset as usize])?;
                    break;
                }
                None => {
                    return Err(damaged(offset, "a record that was acknowledged does not check"));
                }
            }
        }
        self.segments.push_back(Segment { number, file, newest });
        Ok(())
    }

    /// Makes an unsealed segment durable up to its end, and seals it, before recovery relies on it.
    ///
    /// The process that wrote it may have ended after a failed sync. Its bytes may then be in the
    /// page cache only, marked clean, so that no sync of the file ever writes them. Recovery
    /// therefore writes them to another file, which takes the segment's name once it is durable: a
    /// crash leaves either the old file or the new one. Without room for another file, the bytes
    /// are rewritten in place: after a crash each sector then holds its old or its new content, as
    /// after the first write.
    fn rewrite(
        &self,
        file: Arc<dyn File>,
        number: u64,
        bytes: &[u8],
    ) -> Result<Arc<dyn File>, LogError> {
        let (name, offset) = (segment::name(number), bytes.len() as u64);
        if broken(rules::TAIL_NOT_REWRITTEN) {
            self.seal(&file, &name, number, offset, false)?;
            return Ok(file);
        }
        let copy = segment::copy_name(number);
        let step = || -> io::Result<Arc<dyn File>> {
            let file = self.disk.open(&copy)?;
            file.set_len(0)?;
            file.write_at(0, bytes)?;
            let mut seal = Vec::new();
            segment::encode(&mut seal, number, offset, offset, SEAL, &[]);
            file.write_at(offset, &seal)?;
            file.sync()?;
            self.disk.rename(&copy, &name)?;
            Ok(file)
        };
        match step().map_err(|source| self.failure(&copy, source)) {
            Err(LogError::Full { .. }) => {
                file.write_at(0, bytes).map_err(|source| self.failure(&name, source))?;
                self.seal(&file, &name, number, offset, false)?;
                Ok(file)
            }
            result => result,
        }
    }

    /// Ends a segment at an offset, durably: bytes beyond it are never read again. A seal states
    /// that everything before it was synced, so it is written only after that sync.
    fn seal(
        &self,
        file: &Arc<dyn File>,
        name: &str,
        number: u64,
        offset: u64,
        begin: bool,
    ) -> Result<(), LogError> {
        let mut seal = Vec::new();
        segment::encode(&mut seal, number, offset, offset, SEAL, &[]);
        let unsynced = |source| LogError::Disk { file: self.disk.describe(name), source };
        // A preamble and the seal behind it share a sector: a crash keeps both or neither.
        if begin {
            segment::write_preamble(file, number, self.oldest(number))
                .map_err(|source| self.failure(name, source))?;
        } else {
            file.sync().map_err(unsynced)?;
        }
        file.write_at(offset, &seal).map_err(|source| self.failure(name, source))?;
        file.sync().map_err(unsynced)
    }

    /// Returns the oldest segment in use when the segment `begun` is started.
    fn oldest(&self, begun: u64) -> u64 {
        self.segments.front().map_or(begun, |segment| segment.number)
    }

    fn failure(&self, name: &str, source: io::Error) -> LogError {
        let file = self.disk.describe(name);
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => LogError::Full { file },
            _ => LogError::Disk { file, source },
        }
    }

    /// Starts a segment. Zeros are written ahead, so that a later sync has no metadata to write.
    fn begin(&mut self, capacity: u64) -> Result<(), LogError> {
        let number = self.next_number;
        let name = segment::name(number);
        if capacity == self.options.segment_bytes
            && let Some(spare) = self.spare.pop()
        {
            self.disk.rename(&spare, &name).map_err(|source| self.failure(&name, source))?;
        }
        let step = || -> io::Result<Arc<dyn File>> {
            let file = self.disk.open(&name)?;
            let mut length = file.len()?;
            while length < capacity {
                length = write_zeros(&file, length, capacity)?;
            }
            segment::write_preamble(&file, number, self.oldest(number))?;
            file.sync()?;
            Ok(file)
        };
        let file = match step() {
            Ok(file) => file,
            Err(source) => {
                // The segment is empty, and its space may be needed by others.
                let _ = self.disk.remove(&name);
                return Err(self.failure(&name, source));
            }
        };
        self.segments.push_back(Segment { number, file, newest: BTreeMap::new() });
        (self.offset, self.synced, self.capacity, self.marks) = (FIRST, FIRST, capacity, (0, 0));
        self.next_number += 1;
        Ok(())
    }

    /// Allocates the next segment's file ahead of need, a piece at a time, between batches. Returns
    /// true if there is more to do.
    ///
    /// The allocated space is a reserve for writes in flight when the disk is full: see
    /// [`Log::is_short`].
    pub fn prepare(&mut self) -> Result<bool, LogError> {
        let capacity = self.options.segment_bytes;
        if !self.spare.is_empty() || (self.offset < self.capacity / 2 && !self.short) {
            self.short = false;
            return Ok(false);
        }
        let name = segment::prepared_name(self.next_number);
        let result = self.grow_spare(&name, capacity).map_err(|source| self.failure(&name, source));
        self.short = matches!(result, Err(LogError::Full { .. }));
        match result {
            Err(LogError::Full { .. }) => Ok(false),
            other => other,
        }
    }

    fn grow_spare(&mut self, name: &str, capacity: u64) -> io::Result<bool> {
        let (name, file) = match self.growing.take() {
            Some(growing) => growing,
            None => (name.to_owned(), self.disk.open(name)?),
        };
        self.growing = Some((name.clone(), Arc::clone(&file)));
        let length = write_zeros(&file, file.len()?, capacity)?;
        // Piece by piece, so that no sync has much to do.
        file.sync()?;
        if length < capacity {
            return Ok(true);
        }
        self.growing = None;
        self.spare.push(name);
        Ok(false)
    }

    /// True if there was no room for the next segment's file. Writes in flight still fit into the
    /// open segment; new ones should be refused. [`Log::prepare`] retries.
    pub fn is_short(&self) -> bool {
        self.short
    }

    fn take_lsn(&mut self) -> Lsn {
        let lsn = self.next;
        self.next.0 += 1;
        lsn
    }

    /// Appends a record in memory. `write` and `sync` make it durable.
    pub fn append(&mut self, key: MachineKey, payload: Bytes) -> Lsn {
        assert!(key != SEAL, "invariant: no machine has the seal's key");
        assert!(
            u32::try_from(payload.len()).is_ok(),
            "invariant: the caller splits records of 4 GB and more"
        );
        let lsn = self.take_lsn();
        self.pending.push_back((key, lsn, payload));
        lsn
    }

    /// True if records wait to be written or synced.
    pub fn is_dirty(&self) -> bool {
        !self.pending.is_empty() || self.synced < self.offset
    }

    /// Writes the appended records. After [`LogError::Full`] the unwritten ones are kept for a
    /// retry.
    pub fn write(&mut self) -> Result<(), LogError> {
        while let Some((_, _, first)) = self.pending.front() {
            if self.capacity == 0 {
                self.begin(self.capacity_for(first.len()))?;
                continue;
            }
            let (number, start, synced) = (self.current().number, self.offset, self.synced);
            let room = self.capacity - segment::footprint(0);
            let mut taken = 0;
            self.buffer.clear();
            for (key, _, payload) in &self.pending {
                let at = start + self.buffer.len() as u64;
                if at + segment::footprint(payload.len()) > room {
                    break;
                }
                segment::encode(&mut self.buffer, number, at, synced, *key, payload);
                taken += 1;
            }
            if taken == 0 {
                self.roll()?;
                continue;
            }
            let written = self.current().file.write_at(start, &self.buffer);
            written.map_err(|source| self.failure(&segment::name(number), source))?;
            for (key, lsn, _) in self.pending.drain(..taken) {
                let open = self
                    .segments
                    .back_mut()
                    .expect("invariant: a log that has capacity has an open segment");
                open.newest.insert(key, lsn);
            }
            self.offset = start + self.buffer.len() as u64;
            self.marks.0 = synced;
            self.buffer.shrink_to(BUFFER_KEPT);
        }
        Ok(())
    }

    fn current(&self) -> &Segment {
        self.segments.back().expect("invariant: a log that has capacity has an open segment")
    }

    fn roll(&mut self) -> Result<(), LogError> {
        let open = self.current();
        let (number, file) = (open.number, Arc::clone(&open.file));
        self.seal(&file, &segment::name(number), number, self.offset, false)?;
        self.synced = self.offset;
        let first = self.pending.front().map_or(0, |(_, _, payload)| payload.len());
        self.begin(self.capacity_for(first))
    }

    /// Returns the size of a segment that a record fits into.
    fn capacity_for(&self, payload: usize) -> u64 {
        self.options.segment_bytes.max(FIRST + segment::footprint(payload) + segment::footprint(0))
    }

    /// Writes, syncs and seals the log. From then on every flipped bit is noticed, in the last
    /// batch too.
    pub fn close(mut self) -> Result<(), LogError> {
        self.write()?;
        if self.capacity > 0 {
            let open = self.current();
            self.seal(&open.file, &segment::name(open.number), open.number, self.offset, false)?;
        }
        Ok(())
    }

    /// Makes all written records durable. After an error it is unknown what reached the disk.
    pub fn sync(&mut self) -> Result<(), LogError> {
        if self.synced < self.offset {
            let open = self.current();
            let name = segment::name(open.number);
            open.file
                .sync()
                .map_err(|source| LogError::Disk { file: self.disk.describe(&name), source })?;
            self.synced = self.offset;
            self.marks.1 = self.marks.0;
        }
        Ok(())
    }

    /// Returns the open segment's name, and the offset up to which a flipped bit in it is surely
    /// told from a torn end: a later synced record states that the records before were
    /// acknowledged. Sealed segments are covered whole.
    pub fn vouched(&self) -> Option<(String, u64)> {
        self.segments
            .back()
            .filter(|_| self.capacity > 0)
            .map(|open| (segment::name(open.number), self.marks.1))
    }

    /// Releases a machine's records below `before`, which its checkpoint covers. Segments without
    /// needed records are reused or removed.
    pub fn release(&mut self, key: MachineKey, before: Lsn) -> Result<(), LogError> {
        let released = self.released.entry(key).or_default();
        *released = before.max(*released);
        let needed = |segment: &Segment| {
            let of = |(key, lsn): (&MachineKey, &Lsn)| {
                self.released.get(key).is_none_or(|before| lsn >= before)
            };
            segment.newest.iter().any(of)
        };
        let all = self.segments.len();
        let free = self
            .segments
            .iter()
            .take(all.saturating_sub(1))
            .take_while(|segment| !needed(segment))
            .count();
        if free == 0 {
            return Ok(());
        }
        // The newest segment first states durably that the released ones are not needed. Any other
        // missing segment is damage.
        let (oldest, newest) = (self.segments[free].number, &self.segments[all - 1]);
        let unsaid = |source| LogError::Disk {
            file: self.disk.describe(&segment::name(newest.number)),
            source,
        };
        segment::write_preamble(&newest.file, newest.number, oldest).map_err(unsaid)?;
        newest.file.sync().map_err(unsaid)?;
        for _ in 0..free {
            let oldest = &self.segments[0];
            let name = segment::name(oldest.number);
            let free = segment::spare_name(oldest.number);
            let standard =
                oldest.file.len().is_ok_and(|length| length == self.options.segment_bytes);
            let step = if standard && self.spare.len() < SPARES {
                self.disk.rename(&name, &free).map(|()| self.spare.push(free))
            } else {
                self.disk.remove(&name)
            };
            step.map_err(|source| self.failure(&name, source))?;
            self.segments.pop_front();
        }
        Ok(())
    }

    /// Returns the machines whose records keep the oldest segment from being freed. A checkpoint of
    /// each frees it.
    pub fn holding_back(&self) -> Vec<MachineKey> {
        if self.segments.len() < 2 {
            return Vec::new();
        }
        let needed = |(key, lsn): (&MachineKey, &Lsn)| {
            self.released.get(key).is_none_or(|before| lsn >= before).then_some(*key)
        };
        self.segments[0].newest.iter().filter_map(needed).collect()
    }

    /// Returns the number of segments in use.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Returns the LSN of the next record.
    pub fn next_lsn(&self) -> Lsn {
        self.next
    }
}
