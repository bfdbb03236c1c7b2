//! The node's one log thread: one fsync for the records of all state machines.
//!
//! ```text
//!   persist ─▶ queue ─▶ [log thread: take all, append, write, sync] ─▶ Durable(position)
//!                ▲                                                          │
//!                └────── records queued meanwhile form the next batch ◀─────┘
//! ```
//!
//! Invariants:
//! 1. A machine is notified of its positions in order, and only after the sync that covers them.
//! 2. A failed write or sync, except for lack of space, aborts the process: what the disk holds is
//!    unknown from then on.
//! 3. A full disk loses nothing. The next segment is allocated ahead; when there is no room for it,
//!    [`Journal::is_full`] makes coordinators refuse new writes, and half a segment is left for
//!    writes in flight. When that runs out as well, the batch stays in memory and the write is
//!    retried until there is room.
//! 4. A machine's records are released only after the checkpoint that covers them is durable.
//!
//! An in-memory node has no log thread: a record is durable at once, for the life of the process.

use crate::panics::{PanicGuard, say_last};
use bytes::Bytes;
use meridian_log::{Log, LogError, Lsn, MachineKey};
use meridian_machine::Position;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Receives notice that a machine's records are durable. Called on the log thread.
pub trait Durable: Send + Sync {
    /// Everything up to this position survives a crash.
    fn durable(&self, through: Position);
}

enum Then {
    Tell(Arc<dyn Durable>, Position),
    /// The record is a checkpoint: earlier records of the machine are no longer needed.
    Release,
    /// All earlier records of the machine are no longer needed.
    Forget,
}

struct Queued {
    key: MachineKey,
    bytes: Bytes,
    then: Then,
}

#[derive(Default)]
struct State {
    queue: Vec<Queued>,
    stopped: bool,
}

/// Counters of the log thread since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalCounters {
    /// Records written.
    pub records: u64,
    /// Bytes of records.
    pub bytes: u64,
    /// Syncs of the log.
    pub syncs: u64,
    /// Segments in use.
    pub segments: u64,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// True if a record was queued since the log thread was last woken. A needless wake costs more
    /// than most steps of a machine.
    unheard: AtomicBool,
    full: AtomicBool,
    /// Set by the settler when the store engine has no room.
    store_full: AtomicBool,
    records: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
    segments: AtomicU64,
    holding_back: Mutex<Vec<MachineKey>>,
}

/// The log of a node.
pub struct Journal {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    keeps: bool,
}

impl Journal {
    /// Starts the log thread.
    pub fn start(log: Log, guard: &Arc<PanicGuard>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = guard.spawn("log", move || of_thread.run(log))?;
        Ok(Journal { shared, thread: Mutex::new(Some(thread)), keeps: true })
    }

    /// Returns a journal that keeps nothing on disk.
    pub fn in_memory() -> Self {
        Journal { shared: Arc::default(), thread: Mutex::new(None), keeps: false }
    }

    /// True if records survive the process.
    pub fn keeps(&self) -> bool {
        self.keeps
    }

    /// Queues a record. [`Journal::kick`] wakes the log thread.
    pub fn persist(
        &self,
        key: MachineKey,
        record: impl FnOnce() -> Vec<u8>,
        position: Position,
        who: Arc<dyn Durable>,
    ) {
        if self.keeps {
            let queued = Queued { key, bytes: record().into(), then: Then::Tell(who, position) };
            self.shared.queue(queued);
        } else {
            self.shared.records.fetch_add(1, Ordering::Relaxed);
            who.durable(position);
        }
    }

    /// Queues a checkpoint of a machine. It covers every record that the machine persisted before
    /// this call.
    pub fn checkpoint(&self, key: MachineKey, checkpoint: Vec<u8>) {
        if self.keeps {
            self.shared.queue(Queued { key, bytes: checkpoint.into(), then: Then::Release });
            self.kick();
        }
    }

    /// Releases all records that a removed machine persisted before this call.
    pub fn forget(&self, key: MachineKey) {
        if self.keeps {
            self.shared.queue(Queued { key, bytes: Bytes::new(), then: Then::Forget });
            self.kick();
        }
    }

    /// Wakes the log thread if records were queued since the last wake.
    pub fn kick(&self) {
        if self.keeps
            && self.shared.unheard.load(Ordering::Acquire)
            && self.shared.unheard.swap(false, Ordering::AcqRel)
        {
            self.shared.changed.notify_one();
        }
    }

    /// Records whether the store engine lacks room. While it does, versions stay in the log and in
    /// memory, and the node refuses new writes.
    pub fn set_store_full(&self, full: bool) {
        self.shared.store_full.store(full, Ordering::Relaxed);
    }

    /// True while the disk has no room.
    pub fn is_full(&self) -> bool {
        self.shared.full.load(Ordering::Relaxed) || self.shared.store_full.load(Ordering::Relaxed)
    }

    /// Returns the machines whose oldest records keep log segments from being freed.
    pub fn holding_back(&self) -> Vec<MachineKey> {
        self.shared.holding_back.lock().clone()
    }

    /// Returns the counters.
    pub fn counters(&self) -> JournalCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shared = &self.shared;
        JournalCounters {
            records: read(&shared.records),
            bytes: read(&shared.bytes),
            syncs: read(&shared.syncs),
            segments: read(&shared.segments),
        }
    }

    /// Writes the queued records and ends the thread.
    pub fn stop(&self) {
        self.shared.state.lock().stopped = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// Queues a record. After the stop it drops the record: the record's `Durable` and this journal
    /// would keep each other alive for ever.
    fn queue(&self, queued: Queued) {
        let mut state = self.state.lock();
        if !state.stopped {
            state.queue.push(queued);
            self.unheard.store(true, Ordering::Release);
        }
    }

    /// Batches between two pieces of work on the next segment while the log is under load.
    const AHEAD_EVERY: u32 = 8;
    const TRY_AGAIN: Duration = Duration::from_millis(100);

    fn run(&self, mut log: Log) {
        let mut batch: Vec<Queued> = Vec::new();
        let mut tell: Vec<(Arc<dyn Durable>, Position)> = Vec::new();
        let mut release: Vec<(MachineKey, Lsn)> = Vec::new();
        let (mut ahead, mut batches) = (true, 0u32);
        self.note(&log);
        loop {
            {
                let mut state = self.state.lock();
                while state.queue.is_empty() {
                    if state.stopped {
                        return;
                    }
                    if ahead
                        || (log.is_short()
                            && self.changed.wait_for(&mut state, Self::TRY_AGAIN).timed_out())
                    {
                        break; // The queue is empty: time to allocate the next segment.
                    }
                    if !log.is_short() {
                        self.changed.wait(&mut state);
                    }
                }
                std::mem::swap(&mut batch, &mut state.queue);
            }
            batches += 1;
            if batch.is_empty() || batches.is_multiple_of(Self::AHEAD_EVERY) {
                ahead = log.prepare().unwrap_or_else(|error| end("make room", &error));
                self.note_room(!log.is_short());
            }
            if batch.is_empty() {
                continue;
            }
            ahead = true;
            for queued in batch.drain(..) {
                if let Then::Forget = queued.then {
                    release.push((queued.key, log.next_lsn()));
                    continue;
                }
                self.records.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(queued.bytes.len() as u64, Ordering::Relaxed);
                let lsn = log.append(queued.key, queued.bytes);
                match queued.then {
                    Then::Release => release.push((queued.key, lsn)),
                    Then::Forget => unreachable!("it has no record"),
                    Then::Tell(who, position) => {
                        match tell.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &who)) {
                            Some((_, newest)) => *newest = position,
                            None => tell.push((who, position)),
                        }
                    }
                }
            }
            if !self.make_durable(&mut log) {
                return;
            }
            self.segments.store(log.segments() as u64, Ordering::Relaxed);
            for (who, position) in tell.drain(..) {
                who.durable(position);
            }
            if !release.is_empty() {
                for (key, lsn) in release.drain(..) {
                    if let Err(error) = log.release(key, lsn) {
                        end("release", &error);
                    }
                }
                self.note(&log);
            }
        }
    }

    /// Writes and syncs the batch. Returns false if the node was stopped while the disk was full.
    fn make_durable(&self, log: &mut Log) -> bool {
        loop {
            match log.write() {
                Ok(()) => break,
                Err(LogError::Full { .. }) => {
                    self.note_room(false);
                    let mut state = self.state.lock();
                    if state.stopped {
                        return false;
                    }
                    self.changed.wait_for(&mut state, Self::TRY_AGAIN);
                }
                Err(error) => end("write", &error),
            }
        }
        if log.is_dirty() {
            if let Err(error) = log.sync() {
                end("sync", &error);
            }
            self.syncs.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    fn note_room(&self, room: bool) {
        match (self.full.swap(!room, Ordering::Relaxed), room) {
            (false, false) => tracing::error!(
                "no room on disk for the next log segment: writes are refused until there is"
            ),
            (true, true) => tracing::info!("the disk has room again: writes are accepted"),
            _ => {}
        }
    }

    fn note(&self, log: &Log) {
        self.segments.store(log.segments() as u64, Ordering::Relaxed);
        *self.holding_back.lock() = log.holding_back();
    }
}

/// Aborts the process: what reached the disk is unknown, and only a restart can read it.
fn end(what: &str, error: &LogError) -> ! {
    tracing::error!(%error, what, "the log failed; this process aborts");
    say_last(&format!("the log failed ({what}): {error}; this process aborts"));
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_log::{MemoryDisk, Options};
    use std::sync::mpsc;

    struct Notified(Mutex<mpsc::Sender<u64>>);
    impl Durable for Notified {
        fn durable(&self, through: Position) {
            let _ = self.0.lock().send(through.0);
        }
    }

    const KEY: MachineKey = MachineKey { database: 1, shard: 0 };
    const SMALL: Options = Options { segment_bytes: 64 << 10, existed: false };
    const PATIENCE: Duration = Duration::from_secs(20);

    fn told() -> (Arc<dyn Durable>, mpsc::Receiver<u64>) {
        let (sender, heard) = mpsc::channel();
        (Arc::new(Notified(Mutex::new(sender))), heard)
    }

    #[test]
    fn durable_records_survive_a_crash_and_positions_are_in_order() {
        let disk = MemoryDisk::new();
        let journal = Journal::start(
            Log::open(Arc::new(disk.clone()), SMALL).unwrap().0,
            &PanicGuard::of_test(),
        )
        .unwrap();
        let (who, heard) = told();
        for position in 1..=1000u64 {
            journal.persist(
                KEY,
                || position.to_be_bytes().to_vec(),
                Position(position),
                Arc::clone(&who),
            );
            journal.kick();
        }
        let mut last = 0;
        while last < 1000 {
            let next = heard.recv_timeout(PATIENCE).unwrap();
            assert!(next > last);
            last = next;
        }
        assert!(journal.counters().syncs <= 1000);
        // The journal's thread allocates the next segment ahead; a failing disk would abort the
        // process.
        drop(journal);
        disk.crash(|| false);
        let (_, recovered) = Log::open(Arc::new(disk), SMALL).unwrap();
        assert_eq!(recovered.records.len(), 1000);
    }

    #[test]
    fn a_full_disk_holds_writes_back_until_there_is_room() {
        let disk = MemoryDisk::new();
        let journal = Journal::start(
            Log::open(Arc::new(disk.clone()), SMALL).unwrap().0,
            &PanicGuard::of_test(),
        )
        .unwrap();
        let (who, heard) = told();
        disk.set_full(true);
        for position in 1..=20u64 {
            journal.persist(KEY, || vec![7; 16 << 10], Position(position), Arc::clone(&who));
        }
        journal.kick();
        let end = std::time::Instant::now() + PATIENCE;
        while !journal.is_full() {
            assert!(std::time::Instant::now() < end);
            std::thread::sleep(Duration::from_millis(1));
        }
        // The segments allocated before the disk was full take some of the records, not all.
        assert!(heard.try_iter().last().unwrap_or(0) < 20);
        disk.set_full(false);
        while heard.recv_timeout(PATIENCE).unwrap() < 20 {}
        while journal.is_full() {
            assert!(std::time::Instant::now() < end, "the journal still reports a full disk");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_checkpoint_frees_the_segments_before_it() {
        let journal = Journal::start(
            Log::open(Arc::new(MemoryDisk::new()), SMALL).unwrap().0,
            &PanicGuard::of_test(),
        )
        .unwrap();
        let (who, heard) = told();
        for position in 1..=50u64 {
            journal.persist(KEY, || vec![7; 16 << 10], Position(position), Arc::clone(&who));
        }
        journal.kick();
        while heard.recv_timeout(PATIENCE).unwrap() < 50 {}
        journal.checkpoint(KEY, b"all of it".to_vec());
        let end = std::time::Instant::now() + PATIENCE;
        while !(1..=2).contains(&journal.counters().segments) {
            assert!(std::time::Instant::now() < end);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
