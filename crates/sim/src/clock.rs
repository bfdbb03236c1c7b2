//! Clocks of nodes: true time is the world's; each node is wrong by something, and says by how much at most.

use meridian_clock::{Interval, Reading};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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

/// What a clock does: its offset goes in a straight line from one moment to another, and stays.
#[derive(Debug)]
struct Course {
    from: (u64, i64),
    to: (u64, i64),
    /// It shows this, whatever the time.
    frozen: Option<u64>,
    half_width_ns: u64,
    newest: u64,
}

impl Course {
    fn offset(&self, now: u64) -> i64 {
        let ((since, first), (until, last)) = (self.from, self.to);
        if now >= until {
            return last;
        }
        let part = (now.saturating_sub(since)) as f64 / (until - since) as f64;
        first + ((last - first) as f64 * part) as i64
    }
}

/// One node's clock. It never goes back, whatever it is set to.
#[derive(Debug)]
pub struct NodeClock {
    time: TrueTime,
    /// When the machine booted: its boot clock compares with nobody else's.
    booted: u64,
    course: Mutex<Course>,
}

impl NodeClock {
    pub fn new(time: TrueTime, booted: u64, half_width_ns: u64) -> Self {
        let now = time.now();
        let course = Course { from: (now, 0), to: (now, 0), frozen: None, half_width_ns, newest: 0 };
        NodeClock { time, booted, course: Mutex::new(course) }
    }

    /// From now on it is wrong by so much: a step.
    pub fn set(&self, offset: i64) {
        self.slew(offset, 0);
    }

    /// It runs too fast or too slowly until it is wrong by so much.
    pub fn slew(&self, offset: i64, for_ns: u64) {
        let now = self.time.now();
        let mut course = self.course.lock();
        (course.from, course.to) = ((now, course.offset(now)), (now + for_ns, offset));
        course.frozen = None;
    }

    /// It stands still, until it is set.
    pub fn freeze(&self) {
        let mut course = self.course.lock();
        course.frozen = Some(course.newest);
    }

    /// It claims to be so exact.
    pub fn claim(&self, half_width_ns: u64) {
        self.course.lock().half_width_ns = half_width_ns;
    }

    pub fn reading(&self) -> Reading {
        self.reading_after(0)
    }

    /// What it will say when nothing has happened for a while.
    pub fn reading_after(&self, pause_ns: u64) -> Reading {
        let now = self.time.now() + pause_ns;
        let mut course = self.course.lock();
        let says = course.frozen.unwrap_or_else(|| now.saturating_add_signed(course.offset(now))).max(course.newest);
        if pause_ns == 0 {
            course.newest = says;
        }
        Reading::at(now - self.booted, Interval::around(says, course.half_width_ns))
    }

    /// True time when the boot clock shows this.
    pub fn when(&self, boot_ns: u64) -> u64 {
        self.booted.saturating_add(boot_ns)
    }
}
