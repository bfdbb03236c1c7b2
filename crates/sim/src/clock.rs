//! Clocks of nodes: true time is the world's; each node is wrong by something, and says by how much at most. On cluster time none knows what time it is: then
//! its boot clock runs at a rate of its own, its system clock is asked once, and the rest is what nodes tell each other.

use meridian_clock::cluster::{Anchor, ClusterClock, Poll, Shown};
use meridian_clock::{Health, Interval, Reading, Standing};
use meridian_machine::NodeId;
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

/// On cluster time.
#[derive(Debug, Default)]
struct Cluster {
    /// By how much in a billion its boot clock is fast.
    ppb: i64,
    boots: u64,
    clock: Option<ClusterClock>,
    anchor: Option<Anchor>,
}

/// One node's clock. It never goes back, whatever it is set to.
#[derive(Debug)]
pub struct NodeClock {
    time: TrueTime,
    /// When the machine booted: its boot clock compares with nobody else's.
    booted: AtomicU64,
    course: Mutex<Course>,
    cluster: Option<Mutex<Cluster>>,
}

impl NodeClock {
    pub fn new(time: TrueTime, booted: u64, half_width_ns: u64) -> Self {
        let now = time.now();
        let course = Course { from: (now, 0), to: (now, 0), frozen: None, half_width_ns, newest: 0 };
        NodeClock { time, booted: AtomicU64::new(booted), course: Mutex::new(course), cluster: None }
    }

    /// On cluster time, with a boot clock that is wrong by so much in a billion.
    pub fn on_cluster_time(self, ppb: i64) -> Self {
        NodeClock { cluster: Some(Mutex::new(Cluster { ppb, ..Cluster::default() })), ..self }
    }

    fn boot_ns(&self, now: u64) -> u64 {
        let elapsed = now - self.booted.load(Relaxed);
        let ppb = self.cluster.as_ref().map_or(0, |cluster| cluster.lock().ppb);
        elapsed.saturating_add_signed((i128::from(elapsed) * i128::from(ppb) / 1_000_000_000) as i64)
    }

    /// The machine boots again.
    pub fn reboot(&self) {
        if let Some(cluster) = &self.cluster {
            self.booted.store(self.time.now(), Relaxed);
            cluster.lock().boots += 1;
        }
    }

    /// A process begins. True if the time has to be asked for.
    pub fn begin(&self, others: Vec<NodeId>) -> bool {
        let now = self.time.now();
        let (boot_ns, system_ns) = (self.boot_ns(now), now.saturating_add_signed(self.course.lock().offset(now)));
        let Some(cluster) = &self.cluster else { return false };
        let mut cluster = cluster.lock();
        cluster.clock = Some(ClusterClock::begin(others, cluster.boots, boot_ns, system_ns, cluster.anchor));
        true
    }

    fn with<T>(&self, what: impl FnOnce(&mut Cluster, u64) -> T) -> Option<T> {
        let boot_ns = self.boot_ns(self.time.now());
        Some(what(&mut self.cluster.as_ref()?.lock(), boot_ns))
    }

    /// What is to be asked now. What has to be durable is.
    pub fn poll(&self) -> Vec<(NodeId, Poll)> {
        let polls = self.with(|cluster, boot_ns| {
            let clock = cluster.clock.as_mut()?;
            let polls = clock.poll(boot_ns);
            if clock.wants_reserve(boot_ns) {
                let anchor = clock.anchor(cluster.boots, boot_ns);
                cluster.anchor = Some(anchor);
                clock.reserved(boot_ns, &anchor);
            }
            Some(polls)
        });
        polls.flatten().unwrap_or_default()
    }

    /// The answer to another.
    pub fn show(&self, poll: Poll) -> Option<Shown> {
        self.with(|cluster, boot_ns| Some(cluster.clock.as_ref()?.show(boot_ns, poll)))?
    }

    /// Another's answer.
    pub fn hear(&self, from: NodeId, shown: Shown) {
        self.with(|cluster, boot_ns| cluster.clock.as_mut().map(|clock| clock.hear(boot_ns, from, shown)));
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
        let boot_ns = self.boot_ns(now);
        if let Some(cluster) = &self.cluster {
            let cluster = cluster.lock();
            let read = cluster.clock.as_ref().and_then(|clock| clock.reading(boot_ns));
            let (interval, standing) = read.unwrap_or((Interval::ANY, Standing::Starting));
            let health = if standing.is_usable() { Health::Good } else { Health::Fenced };
            return Reading { boot_ns, interval, health };
        }
        let mut course = self.course.lock();
        let says = course.frozen.unwrap_or_else(|| now.saturating_add_signed(course.offset(now))).max(course.newest);
        if pause_ns == 0 {
            course.newest = says;
        }
        Reading::at(boot_ns, Interval::around(says, course.half_width_ns))
    }

    /// True time when the boot clock shows this.
    pub fn when(&self, boot_ns: u64) -> u64 {
        let ppb = self.cluster.as_ref().map_or(0, |cluster| cluster.lock().ppb);
        let elapsed = (i128::from(boot_ns) * 1_000_000_000 / i128::from(1_000_000_000 + ppb)) as u64;
        self.booted.load(Relaxed).saturating_add(elapsed)
    }
}
