//! Appending, recovering, and giving space back.

use crate::rules;
use crate::segment::{self, FIRST, Preamble, SEAL};
use crate::{Disk, File};
use bytes::Bytes;
use meridian_machine::planted::broken;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

/// Whose record it is: the machine that persisted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineKey {
    /// The database.
    pub database: u32,
    /// The shard.
    pub shard: u32,
}

/// A record's number in one life of the log: grows by one with each append, across machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// How a log is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The size of a segment file. A larger record gets a segment of its own size.
    pub segment_bytes: u64,
    /// There was a log here before: that there is none is damage.
    pub existed: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { segment_bytes: 32 << 20, existed: false }
    }
}

/// What stood in the log when it was opened.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Every record, in order.
    pub records: Vec<(MachineKey, Lsn, Bytes)>,
    /// Bytes cut from the end because they were never acknowledged.
    pub torn: bool,
    /// The oldest segment that has to be there.
    oldest: u64,
}

/// Why the log cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// No room. What was appended stays in memory; `write` may be tried again when there is room.
    #[error("no room left on the disk that holds {file}: make room, writes go on by themselves")]
    Full {
        /// The file.
        file: String,
    },
    /// Acknowledged records do not check.
    #[error(
        "{file} is damaged at byte {offset}: {what}. Nothing was repaired or removed. A node that is alone: \
         restore its data directory from a backup. One of several: leave it off, the others go on. Do not set its data \
         back to a copy: it would forget what it has promised them. Emptied, they keep it away (a member cannot be replaced in this version)"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Where.
        offset: u64,
        /// What was expected.
        what: &'static str,
    },
    /// Written by a newer version.
    #[error(
        "{file} has log format {found}, and this version reads up to {known}: use the newer version of meridian"
    )]
    NewerFormat {
        /// The file.
        file: String,
        /// The format of the file.
        found: u32,
        /// The newest format that is known here.
        known: u32,
    },
    /// The disk refused. After a failed sync nothing is known of what reached the disk: the process
    /// must end.
    #[error("{file}: {source}")]
    Disk {
        /// The file.
        file: String,
        /// The operating system's answer.
        source: io::Error,
    },
}

struct Segment {
    number: u64,
    file: Arc<dyn File>,
    /// The newest record of each machine in it.
    newest: BTreeMap<MachineKey, Lsn>,
}

/// The log: append, write, sync; and release what is no longer needed.
pub struct Log {
    disk: Arc<dyn Disk>,
    options: Options,
    /// Oldest first; the last is open.
    segments: VecDeque<Segment>,
    /// Where the next record goes in the open segment.
    offset: u64,
    /// How far the open segment is synced.
    synced: u64,
    /// How far the newest record that was written says that it was synced, and the newest that is
    /// synced itself.
    marks: (u64, u64),
    /// Room in the open segment; 0 if none could be begun yet.
    capacity: u64,
    /// The number that the next segment gets.
    next_number: u64,
    pending: VecDeque<(MachineKey, Lsn, Bytes)>,
    next: Lsn,
    released: BTreeMap<MachineKey, Lsn>,
    /// Files of the standard size to be used instead of allocating new ones.
    spare: Vec<String>,
    /// The next spare, while zeros are being written to it.
    growing: Option<(String, Arc<dyn File>)>,
    /// No spare could be made.
    short: bool,
    /// Kept between writes.
    buffer: Vec<u8>,
}

/// Spare files that are kept; more are removed.
const SPARES: usize = 2;
/// Zeros that are written at once.
const ZEROS: usize = 1 << 20;
/// A buffer that grew beyond this is given back.
const BUFFER_KEPT: usize = 4 << 20;

/// Extends a file by a piece of zeros towards a length; its length afterwards.
fn write_zeros(file: &Arc<dyn File>, length: u64, until: u64) -> io::Result<u64> {
    let piece = vec![0; ZEROS.min(until.saturating_sub(length) as usize)];
    file.write_at(length, &piece)?;
    Ok(length + piece.len() as u64)
}

/// Writes what a segment begins and ends with again, as it was read, durably.
///
/// A seal is written once everything before it is durable; but the sync of the seal itself, or of a
/// preamble with nothing behind it, may have failed.
fn rewrite_ends(file: &Arc<dyn File>, bytes: &[u8], seal: u64) -> io::Result<()> {
    file.write_at(0, &bytes[..FIRST as usize])?;
    file.write_at(seal, &bytes[seal as usize..seal as usize + segment::HEADER])?;
    file.sync()
}

impl Log {
    /// Opens a log, reading everything that stands in it, and begins a new segment. A log that is
    /// new exists durably when this comes back, and so does every record that is recovered.
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
        // On a full disk the log opens all the same, so that what it holds can be read; the first
        // write tries again.
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
            // A crash while the newest segment was being begun: nothing was appended to it. A file
            // that is being used again still bears its former number.
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

    /// Makes an unsealed segment durable up to its end, sealed, before recovery relies on it.
    ///
    /// The process that wrote it may have ended after a failed sync. Then these bytes may be in the
    /// page cache alone, clean, and no sync of the file ever writes them. So they are written to
    /// another file, which takes the segment's name once it is durable: a crash leaves the segment
    /// as it was or as it is to be. A disk that has no room for another file gets them written
    /// again in their place: each sector then holds what it held, or what was to be there, as when
    /// they were first written.
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

    /// Ends a segment at an offset, durably: whatever stands beyond is never read again. A seal
    /// says that everything before it was synced, so that it is written only once that is true.
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
        // A preamble and a seal behind it share a sector: both reach the disk, or neither.
        if begin {
            segment::write_preamble(file, number, self.oldest(number))
                .map_err(|source| self.failure(name, source))?;
        } else {
            file.sync().map_err(unsynced)?;
        }
        file.write_at(offset, &seal).map_err(|source| self.failure(name, source))?;
        file.sync().map_err(unsynced)
    }

    /// The oldest segment that is in use, when another is begun.
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

    /// Begins a segment: zeros are written ahead, so that a later sync has no metadata to write.
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
                // Nothing is in it, and what it took may be what somebody else needs.
                let _ = self.disk.remove(&name);
                return Err(self.failure(&name, source));
            }
        };
        self.segments.push_back(Segment { number, file, newest: BTreeMap::new() });
        (self.offset, self.synced, self.capacity, self.marks) = (FIRST, FIRST, capacity, (0, 0));
        self.next_number += 1;
        Ok(())
    }

    /// Makes the next segment's file ahead of its need, a piece at a time: to be called when nobody
    /// waits. True if there is more to do.
    ///
    /// What is in place is room that agreement may use when the disk is full: see
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

    /// True if there was no room to make the next segment's file: what is in the open segment still
    /// goes on, and whoever can wait should. [`Log::prepare`] tries again.
    pub fn is_short(&self) -> bool {
        self.short
    }

    fn take_lsn(&mut self) -> Lsn {
        let lsn = self.next;
        self.next.0 += 1;
        lsn
    }

    /// Adds a record in memory; `write` and `sync` make it durable.
    pub fn append(&mut self, key: MachineKey, payload: Bytes) -> Lsn {
        assert!(key != SEAL, "invariant: the seal's key is no machine's");
        assert!(
            u32::try_from(payload.len()).is_ok(),
            "invariant: whoever writes more cuts it into records below 4 GB"
        );
        let lsn = self.take_lsn();
        self.pending.push_back((key, lsn, payload));
        lsn
    }

    /// Whether anything waits to be written or synced.
    pub fn is_dirty(&self) -> bool {
        !self.pending.is_empty() || self.synced < self.offset
    }

    /// Writes what was appended. After [`LogError::Full`] everything that was not written is kept,
    /// to be tried again.
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

    /// The size of a segment that a record fits into.
    fn capacity_for(&self, payload: usize) -> u64 {
        self.options.segment_bytes.max(FIRST + segment::footprint(payload) + segment::footprint(0))
    }

    /// Writes and syncs what was appended and ends the log in order: from then on every flipped bit
    /// is noticed, in the last batch too.
    pub fn close(mut self) -> Result<(), LogError> {
        self.write()?;
        if self.capacity > 0 {
            let open = self.current();
            self.seal(&open.file, &segment::name(open.number), open.number, self.offset, false)?;
        }
        Ok(())
    }

    /// Makes everything written survive a crash. After an error nothing is known of what reached
    /// the disk.
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

    /// The open segment, and how far a flipped bit in it is surely told from a torn end: a later
    /// record that is synced says that what lies before was acknowledged. Sealed segments are
    /// covered whole.
    pub fn vouched(&self) -> Option<(String, u64)> {
        self.segments
            .back()
            .filter(|_| self.capacity > 0)
            .map(|open| (segment::name(open.number), self.marks.1))
    }

    /// A machine's records below `before` are covered by its checkpoint. Segments that nobody needs
    /// are used again or removed.
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
        // What is about to go is not needed any more, says the newest segment, durably: whatever
        // else is missing one day was lost.
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

    /// The machines that keep the oldest segment from being freed: whoever owns them checkpoints
    /// them, or copies their live records forward.
    pub fn holding_back(&self) -> Vec<MachineKey> {
        if self.segments.len() < 2 {
            return Vec::new();
        }
        let needed = |(key, lsn): (&MachineKey, &Lsn)| {
            self.released.get(key).is_none_or(|before| lsn >= before).then_some(*key)
        };
        self.segments[0].newest.iter().filter_map(needed).collect()
    }

    /// Segments in use.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The number that the next record gets.
    pub fn next_lsn(&self) -> Lsn {
        self.next
    }
}
