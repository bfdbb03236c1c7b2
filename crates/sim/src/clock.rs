//! Clocks of nodes: true time is the world's; each node is wrong by something, and says by how much at most.

use meridian_clock::{Interval, Reading};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// True time, nanoseconds since the epoch.
#[derive(Clone, Debug)]
pub struct TrueTime(Arc<AtomicU64>);

impl TrueTime {
    pub fn at(now: u64) -> Self {
        TrueTime(Arc::new(AtomicU64::new(now)))
    }

    pub fn now(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Time passes.
    pub fn advance(&self, to: u64) {
        self.0.fetch_max(to, Relaxed);
    }
}

/// One node's clock. It never goes back, whatever it is set to.
#[derive(Debug)]
pub struct NodeClock {
    time: TrueTime,
    /// When the machine booted: its boot clock compares with nobody else's.
    booted: u64,
    offset: AtomicI64,
    half_width_ns: AtomicU64,
    newest: AtomicU64,
}

impl NodeClock {
    pub fn new(time: TrueTime, booted: u64, half_width_ns: u64) -> Self {
        NodeClock {
            time,
            booted,
            offset: AtomicI64::new(0),
            half_width_ns: AtomicU64::new(half_width_ns),
            newest: AtomicU64::new(0),
        }
    }

    /// From now on it is wrong by so much.
    pub fn set(&self, offset: i64) {
        self.offset.store(offset, Relaxed);
    }

    /// It claims to be exact.
    pub fn lie(&self) {
        self.half_width_ns.store(0, Relaxed);
    }

    pub fn reading(&self) -> Reading {
        self.reading_after(0)
    }

    /// What it will say when nothing has happened for a while.
    pub fn reading_after(&self, pause_ns: u64) -> Reading {
        let now = self.time.now() + pause_ns;
        let says = now.saturating_add_signed(self.offset.load(Relaxed));
        let says = if pause_ns == 0 { self.newest.fetch_max(says, Relaxed).max(says) } else { says };
        Reading::at(now - self.booted, Interval::around(says, self.half_width_ns.load(Relaxed)))
    }

    /// True time when the boot clock shows this.
    pub fn when(&self, boot_ns: u64) -> u64 {
        self.booted.saturating_add(boot_ns)
    }
}
