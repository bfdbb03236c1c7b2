//! Clocks of nodes: true time is the world's; each node is wrong by something, and says by how much
//! at most. Where nodes ask for the time, their boot clocks run at rates of their own. On cluster
//! time a node's system clock is asked once, and the rest is what nodes tell each other. With time
//! masters every node is one: its system clock is its reference, and what it reads is what most
//! references agree on.

use crate::faults::FAR;
use meridian_clock::cluster::{Anchor, ClusterClock, Shown};
use meridian_clock::daemon::{Daemon, Told};
use meridian_clock::question::Poll;
use meridian_clock::{Bound, Health, Interval, Reading, Standing};
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

/// What a node asks others with.
#[derive(Debug)]
enum Keeper {
    Cluster(ClusterClock),
    Masters(Daemon),
}

/// What it answers.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    Cluster(Shown),
    Master(Told),
}

/// A node that asks for the time.
#[derive(Debug)]
struct Asking {
    masters: bool,
    /// It has a reference of its own.
    refers: bool,
    /// By how much in a billion its boot clock is fast.
    ppb: i64,
    boots: u64,
    keeper: Option<Keeper>,
    anchor: Option<Anchor>,
}

impl Asking {
    fn known(&self, boot_ns: u64) -> Option<(Interval, Standing)> {
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
    /// When the machine booted: its boot clock compares with nobody else's.
    booted: AtomicU64,
    course: Mutex<Course>,
    asking: Option<Mutex<Asking>>,
}

impl NodeClock {
    pub fn new(time: TrueTime, booted: u64, half_width_ns: u64) -> Self {
        let now = time.now();
        let course =
            Course { from: (now, 0), to: (now, 0), frozen: None, half_width_ns, newest: 0 };
        NodeClock { time, booted: AtomicU64::new(booted), course: Mutex::new(course), asking: None }
    }

    /// On cluster time, or asking time masters, with a boot clock that is wrong by so much in a
    /// billion.
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

    /// The machine boots again.
    pub fn reboot(&self) {
        if let Some(asking) = &self.asking {
            self.booted.store(self.time.now(), Relaxed);
            asking.lock().boots += 1;
        }
    }

    /// Whether what it has shown is far ahead of the time: a process that has seen this sees
    /// nothing earlier.
    pub fn is_far(&self) -> bool {
        self.course.lock().newest > self.time.now() + FAR / 2
    }

    /// A process begins, which asks these; with time masters, it is one of them if it has a
    /// reference of its own. True if the time has to be asked for.
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

    /// What is to be asked now. What has to be durable is.
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

    /// The answer to another.
    pub fn answer(&self, poll: Poll) -> Option<Answer> {
        self.with(|asking, boot_ns| {
            Some(match asking.keeper.as_ref()? {
                Keeper::Cluster(clock) => Answer::Cluster(clock.show(boot_ns, poll)),
                Keeper::Masters(daemon) => Answer::Master(daemon.tell(boot_ns, poll)),
            })
        })
    }

    /// Another's answer.
    pub fn hear(&self, from: NodeId, answer: Answer) {
        self.with(|asking, boot_ns| {
            match (asking.keeper.as_mut()?, answer) {
                (Keeper::Cluster(clock), Answer::Cluster(shown)) => {
                    clock.hear(boot_ns, from, shown)
                }
                (Keeper::Masters(daemon), Answer::Master(told)) => daemon.hear(boot_ns, from, told),
                _ => {}
            }
            Some(())
        });
    }

    /// What its system clock says, and claims.
    fn reference(&self) -> Interval {
        let (now, course) = (self.time.now(), self.course.lock());
        let says = course.frozen.unwrap_or_else(|| now.saturating_add_signed(course.offset(now)));
        Interval::around(says, course.half_width_ns)
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
        if let Some(asking) = &self.asking {
            let known = asking.lock().known(boot_ns);
            let (interval, standing) = known.unwrap_or((Interval::ANY, Standing::Starting));
            let health = if standing.is_usable() { Health::Good } else { Health::Fenced };
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

    /// The first moment of true time at which the boot clock shows this.
    pub fn when(&self, boot_ns: u64) -> u64 {
        let ppb = self.asking.as_ref().map_or(0, |asking| asking.lock().ppb);
        let elapsed =
            (i128::from(boot_ns) * 1_000_000_000 / i128::from(1_000_000_000 + ppb)) as u64;
        let mut when = self.booted.load(Relaxed).saturating_add(elapsed);
        while self.boot_ns(when) < boot_ns {
            when += 1; // Both are rounded.
        }
        when
    }
}
