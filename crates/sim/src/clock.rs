//! The nodes' clocks. The world holds true time; each node's clock is off by some amount, and
//! states a bound of it.
//!
//! On cluster time and with time masters, the boot clocks run at rates of their own. On cluster
//! time a node reads its system clock once, and otherwise depends on what the nodes tell each
//! other. With time masters every node is a master: its system clock is its reference, and its
//! reading is what most references agree on.

use crate::faults::FAR;
use meridian_clock::cluster::{Anchor, ClusterClock, Shown};
use meridian_clock::daemon::{Daemon, TimeResponse};
use meridian_clock::question::Poll;
use meridian_clock::{Bound, ClockStatus, Health, Interval, Reading};
use meridian_machine::NodeId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// True time, in nanoseconds since the epoch.
#[derive(Clone, Debug)]
pub struct TrueTime(Arc<AtomicU64>);

impl TrueTime {
    pub fn at(now: u64) -> Self {
        TrueTime(Arc::new(AtomicU64::new(now)))
    }

    pub fn now(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Advances true time.
    pub fn advance(&self, to: u64) {
        self.0.fetch_max(to, Relaxed);
    }
}

/// The course of a clock: its offset changes linearly between two moments, and then stays.
#[derive(Debug)]
struct Course {
    from: (u64, i64),
    to: (u64, i64),
    /// The constant reading of a frozen clock.
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

/// The client that polls the other nodes' clocks.
#[derive(Debug)]
enum Keeper {
    Cluster(ClusterClock),
    Masters(Daemon),
}

/// The answer to a poll.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    Cluster(Shown),
    Master(TimeResponse),
}

/// The state of a node that polls other nodes for the time.
#[derive(Debug)]
struct Asking {
    masters: bool,
    /// True if the node has a reference of its own.
    refers: bool,
    /// The rate error of the boot clock, in parts per billion.
    ppb: i64,
    boots: u64,
    keeper: Option<Keeper>,
    anchor: Option<Anchor>,
}

impl Asking {
    fn known(&self, boot_ns: u64) -> Option<(Interval, ClockStatus)> {
        match self.keeper.as_ref()? {
            Keeper::Cluster(clock) => clock.reading(boot_ns),
            Keeper::Masters(daemon) => daemon.reading(boot_ns),
        }
    }
}

/// One node's clock. It never goes back within a process, whatever it is set to.
#[derive(Debug)]
pub struct NodeClock {
    time: TrueTime,
    /// The true time at which the machine booted. Boot clocks of different nodes cannot be
    /// compared.
    booted: AtomicU64,
    course: Mutex<Course>,
    asking: Option<Mutex<Asking>>,
    /// The greatest time that it has shown while it knew the time, and the widest interval.
    greatest_ns: AtomicU64,
    widest_ns: AtomicU64,
}

impl NodeClock {
    pub fn new(time: TrueTime, booted: u64, half_width_ns: u64) -> Self {
        let now = time.now();
        let course =
            Course { from: (now, 0), to: (now, 0), frozen: None, half_width_ns, newest: 0 };
        let (booted, course) = (AtomicU64::new(booted), Mutex::new(course));
        let (greatest_ns, widest_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        NodeClock { time, booted, course, asking: None, greatest_ns, widest_ns }
    }

    /// Makes the clock poll other nodes, on cluster time or as time masters, with this rate error
    /// of the boot clock in parts per billion.
    pub fn asking(self, masters: bool, ppb: i64) -> Self {
        let asking = Asking { masters, refers: true, ppb, boots: 0, keeper: None, anchor: None };
        NodeClock { asking: Some(Mutex::new(asking)), ..self }
    }

    fn boot_ns(&self, now: u64) -> u64 {
        let elapsed = now - self.booted.load(Relaxed);
        let ppb = self.asking.as_ref().map_or(0, |asking| asking.lock().ppb);
        elapsed
            .saturating_add_signed((i128::from(elapsed) * i128::from(ppb) / 1_000_000_000) as i64)
    }

    /// Reboots the machine: its boot clock starts at zero.
    pub fn reboot(&self) {
        if let Some(asking) = &self.asking {
            self.booted.store(self.time.now(), Relaxed);
            asking.lock().boots += 1;
        }
    }

    /// True if the clock has shown a reading far ahead of true time, below which the process will
    /// not read.
    pub fn is_far(&self) -> bool {
        self.course.lock().newest > self.time.now() + FAR / 2
    }

    /// Begins a process that polls `others`. With time masters, `refers` makes the node one of
    /// them. Returns true if the node has to poll.
    pub fn begin(&self, others: Vec<NodeId>, refers: bool) -> bool {
        self.course.lock().newest = 0;
        let now = self.time.now();
        let (boot_ns, system_ns) =
            (self.boot_ns(now), now.saturating_add_signed(self.course.lock().offset(now)));
        let Some(asking) = &self.asking else { return false };
        let mut asking = asking.lock();
        asking.refers = refers;
        asking.keeper = Some(match asking.masters {
            true => Keeper::Masters(Daemon::new(others, refers)),
            false => Keeper::Cluster(ClusterClock::begin(
                others,
                asking.boots,
                boot_ns,
                system_ns,
                asking.anchor,
            )),
        });
        true
    }

    fn with<T>(&self, what: impl FnOnce(&mut Asking, u64) -> Option<T>) -> Option<T> {
        let boot_ns = self.boot_ns(self.time.now());
        what(&mut self.asking.as_ref()?.lock(), boot_ns)
    }

    /// Returns the polls that are due, and persists what has to be durable.
    pub fn poll(&self) -> Vec<(NodeId, Poll)> {
        let reference = self.reference();
        let polls = self.with(|asking, boot_ns| match asking.keeper.as_mut()? {
            Keeper::Cluster(clock) => {
                let polls = clock.poll(boot_ns);
                if clock.wants_reserve(boot_ns) {
                    let anchor = clock.anchor(asking.boots, boot_ns);
                    asking.anchor = Some(anchor);
                    clock.reserved(boot_ns, &anchor);
                }
                Some(polls)
            }
            Keeper::Masters(daemon) => {
                if asking.refers {
                    daemon.refer(boot_ns, 0, Bound { at: boot_ns, interval: reference });
                }
                Some(daemon.poll(boot_ns))
            }
        });
        polls.unwrap_or_default()
    }

    /// Answers another node's poll.
    pub fn answer(&self, poll: Poll) -> Option<Answer> {
        self.with(|asking, boot_ns| {
            Some(match asking.keeper.as_ref()? {
                Keeper::Cluster(clock) => Answer::Cluster(clock.show(boot_ns, poll)),
                Keeper::Masters(daemon) => Answer::Master(daemon.answer_poll(boot_ns, poll)),
            })
        })
    }

    /// Receives another node's answer.
    pub fn receive(&self, from: NodeId, answer: Answer) {
        self.with(|asking, boot_ns| {
            match (asking.keeper.as_mut()?, answer) {
                (Keeper::Cluster(clock), Answer::Cluster(shown)) => {
                    clock.receive(boot_ns, from, shown)
                }
                (Keeper::Masters(daemon), Answer::Master(told)) => {
                    daemon.receive(boot_ns, from, told)
                }
                _ => {}
            }
            Some(())
        });
    }

    /// Returns the system clock's reading and its claimed bound.
    fn reference(&self) -> Interval {
        let (now, course) = (self.time.now(), self.course.lock());
        let says = course.frozen.unwrap_or_else(|| now.saturating_add_signed(course.offset(now)));
        Interval::around(says, course.half_width_ns)
    }

    /// Steps the clock to this offset from true time.
    pub fn set(&self, offset: i64) {
        self.slew(offset, 0);
    }

    /// Changes the rate of the clock until it has this offset from true time.
    pub fn slew(&self, offset: i64, for_ns: u64) {
        let now = self.time.now();
        let mut course = self.course.lock();
        (course.from, course.to) = ((now, course.offset(now)), (now + for_ns, offset));
        course.frozen = None;
    }

    /// Stops the clock, until it is set.
    pub fn freeze(&self) {
        let mut course = self.course.lock();
        course.frozen = Some(course.newest);
    }

    /// Sets the bound that the clock claims.
    pub fn claim(&self, half_width_ns: u64) {
        self.course.lock().half_width_ns = half_width_ns;
    }

    pub fn reading(&self) -> Reading {
        self.reading_after(0)
    }

    /// Returns the reading after a pause without other events.
    pub fn reading_after(&self, pause_ns: u64) -> Reading {
        let reading = self.read(pause_ns);
        if reading.health == Health::Good {
            let Interval { earliest, latest } = reading.interval;
            self.greatest_ns.fetch_max(latest, Relaxed);
            self.widest_ns.fetch_max(latest - earliest, Relaxed);
        }
        reading
    }

    /// Returns the greatest time that the clock has shown while it knew the time, and its widest
    /// interval, in nanoseconds.
    pub fn has_shown(&self) -> (u64, u64) {
        (self.greatest_ns.load(Relaxed), self.widest_ns.load(Relaxed))
    }

    fn read(&self, pause_ns: u64) -> Reading {
        let now = self.time.now() + pause_ns;
        let boot_ns = self.boot_ns(now);
        if let Some(asking) = &self.asking {
            let known = asking.lock().known(boot_ns);
            let (interval, clock_status) = known.unwrap_or((Interval::ANY, ClockStatus::Starting));
            let health = if clock_status.is_usable() { Health::Good } else { Health::Fenced };
            return Reading { boot_ns, interval, health };
        }
        let mut course = self.course.lock();
        let says = course
            .frozen
            .unwrap_or_else(|| now.saturating_add_signed(course.offset(now)))
            .max(course.newest);
        if pause_ns == 0 {
            course.newest = says;
        }
        Reading::at(boot_ns, Interval::around(says, course.half_width_ns))
    }

    /// Returns the first moment of true time at which the boot clock shows `boot_ns`.
    pub fn when(&self, boot_ns: u64) -> u64 {
        let ppb = self.asking.as_ref().map_or(0, |asking| asking.lock().ppb);
        let elapsed =
            (i128::from(boot_ns) * 1_000_000_000 / i128::from(1_000_000_000 + ppb)) as u64;
        let mut when = self.booted.load(Relaxed).saturating_add(elapsed);
        while self.boot_ns(when) < boot_ns {
            when += 1; // Both conversions round.
        }
        when
    }
}
