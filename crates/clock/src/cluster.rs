//! Cluster time: the time that members agree on where no source of UTC exists.
//!
//! Each member keeps a logical clock. It never goes back, and runs at the rate of the member's boot
//! clock, plus or minus a slew. A member learns the time by bounding the clocks of a majority by
//! round trips, and taking the hull of the bounds.
//!
//! 1. **If a reading ends before another begins, on whichever nodes, the first one's `earliest` is
//!    not above the second one's `latest`.** Two majorities share a member. Its clock was above the
//!    first one's `earliest`, does not go back, and was below the second one's `latest`.
//! 2. A member's clock is never beyond what it has reserved durably, so that its next incarnation
//!    begins above every value that this one has shown.
//! 3. Two bounds on one clock contradict each other only if that clock or this machine's own has
//!    broken the drift bound. A member that is contradicted by most of the members that answer
//!    blames its own clock, and does not know the time for [`EVICTED_FOR_NS`]. A member that is
//!    contradicted by few does not trust those, for as long.
//! 4. A member that begins an incarnation, or jumps forward, shows its clock to no other member
//!    until all bounds on its former clock have expired.
//!
//! This is all that commit wait and leases need of TrueTime (Spanner §3, §4.2, Appendix A). It is
//! not the time of day: members begin with the greatest of their system clocks, and then follow
//! each other.

use crate::agreement::both;
use crate::bound::{Bound, Drift};
use crate::question::{POLL_EVERY_NS, Poll, Questions, Sample, narrowest};
use crate::rules;
use crate::status::{ClockStatus, EVICTED_FOR_NS, WIDE_NS, WIDEST_NS};
use meridian_machine::planted::broken;
use meridian_machine::{Interval, NodeId};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, VecDeque};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// The time that a bound on another member's clock is used, and so the time that a member that may
/// have jumped stays silent, in nanoseconds.
pub const BOUND_LASTS_NS: u64 = 2 * S;
/// The maximum slew: a logical clock runs faster or slower than its boot clock by at most this, in
/// billionths. With it, the drift that every member allows for (200 ppm) covers boot clocks that
/// are wrong by up to 50 ppm each, and slewing keeps such clocks together.
const SLEW_PPB: i64 = 100_000;
/// A clock that is surely behind by more than this jumps instead of slewing.
const JUMP_NS: u64 = 10 * MS;
/// The distance ahead of the clock to which values are reserved, in nanoseconds.
const RESERVE_NS: u64 = 5 * S;
/// A single member's clock is not followed if it is farther than this ahead of this node's system
/// clock.
const FAR_NS: u64 = 3_600 * S;

/// A member's answer to a poll: its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Shown {
    /// The poll's `sent`, which identifies it.
    #[n(0)]
    pub sent: u64,
    /// The value of the clock.
    #[n(1)]
    pub value: u64,
    /// False while the clock may still jump: no bound follows from it.
    #[n(2)]
    pub steady: bool,
}

/// The state of a clock that its next incarnation needs, on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Anchor {
    /// The boot of the machine.
    #[n(0)]
    pub boot: u64,
    /// Its boot clock.
    #[n(1)]
    pub at: u64,
    /// The logical clock then.
    #[n(2)]
    pub value: u64,
    /// The logical clock is never beyond this.
    #[n(3)]
    pub ceiling: u64,
}

/// A logical clock, which never goes back while it is steady.
#[derive(Clone, Copy, Debug)]
struct Logical {
    at: u64,
    value: u64,
    slew_ppb: i64,
}

impl Logical {
    fn on(&self, boot_ns: u64) -> u64 {
        let elapsed = boot_ns.saturating_sub(self.at);
        let slewed = i128::from(elapsed) * i128::from(self.slew_ppb) / 1_000_000_000;
        self.value.saturating_add(elapsed).saturating_add_signed(slewed as i64)
    }

    /// Changes the slew from `boot_ns` on. A time before the last change counts as that change, or
    /// the time between them would be added twice.
    fn slew(&mut self, boot_ns: u64, ppb: i64) {
        let boot_ns = boot_ns.max(self.at);
        *self = Logical { at: boot_ns, value: self.on(boot_ns), slew_ppb: ppb };
    }
}

fn middle(interval: Interval) -> u64 {
    interval.earliest + (interval.latest - interval.earliest) / 2
}

/// Returns the end of a silence that begins now: every bound on the clock has expired by then.
fn silence(boot_ns: u64, drift: Drift) -> u64 {
    if broken(rules::CLOCK_JUMPS_ALOUD) {
        return boot_ns;
    }
    boot_ns + BOUND_LASTS_NS + drift.of(BOUND_LASTS_NS)
}

/// The bounds of a majority's clocks.
#[derive(Clone, Copy, Debug)]
struct Majority {
    hull: Interval,
    /// One of the clocks is surely not below this.
    greatest: u64,
    /// The time until which the bounds last.
    until: u64,
}

/// The clock of one member.
#[derive(Clone, Debug)]
pub struct ClusterClock {
    others: Vec<NodeId>,
    majority: usize,
    drift: Drift,
    mine: Logical,
    /// The largest value that the former incarnation may have shown, on the present boot clock.
    floor: Logical,
    /// The bound of the durably reserved values; zero since a jump.
    ceiling: u64,
    /// When the clock jumped last.
    jumped_at: u64,
    /// The clock is not shown until then, and until a majority has answered.
    silent_until: Option<u64>,
    /// True if a steady member has answered since this one is silent.
    led: bool,
    /// The member that was not followed because its clock is so far ahead.
    far: Option<NodeId>,
    questions: Questions,
    samples: BTreeMap<NodeId, VecDeque<Sample>>,
    /// Until when each member is not trusted, because its answers contradict each other.
    demoted: BTreeMap<NodeId, u64>,
    /// Until when this member does not trust its own clock.
    evicted_until: u64,
    /// The hull of the tightest majority, and until when it holds.
    hull: Option<(Bound, u64)>,
}

impl ClusterClock {
    /// Creates the clock of a new incarnation. `boot` identifies the boot of this machine;
    /// `boot_ns` is its boot clock, `system_ns` its system clock.
    pub fn begin(
        others: Vec<NodeId>,
        boot: u64,
        boot_ns: u64,
        system_ns: u64,
        anchor: Option<Anchor>,
    ) -> ClusterClock {
        let floor = match anchor.filter(|_| !broken(rules::CLOCK_FLOOR_FORGOTTEN)) {
            // The clock ran like the boot clock, plus the maximum slew.
            Some(anchor) if anchor.boot == boot && anchor.at <= boot_ns => {
                let fastest = Logical { at: anchor.at, value: anchor.value, slew_ppb: SLEW_PPB };
                fastest.on(boot_ns).saturating_add(1).min(anchor.ceiling)
            }
            Some(anchor) => anchor.ceiling,
            None => 0,
        };
        let logical = |value| Logical { at: boot_ns, value, slew_ppb: 0 };
        let alone = others.is_empty();
        ClusterClock {
            majority: others.len().div_ceil(2) + usize::from(!broken(rules::FEW_CLOCKS_ARE_ENOUGH)),
            others,
            drift: Drift::WORST,
            mine: logical(system_ns.max(floor)),
            floor: logical(floor),
            ceiling: 0,
            jumped_at: boot_ns,
            silent_until: (!alone).then(|| silence(boot_ns, Drift::WORST)),
            led: false,
            far: None,
            questions: Questions::new(BOUND_LASTS_NS),
            samples: BTreeMap::new(),
            demoted: BTreeMap::new(),
            evicted_until: 0,
            hull: None,
        }
    }

    /// Sets a drift bound above 200 ppm.
    pub fn drifting(self, drift: Drift) -> ClusterClock {
        let silent_until = self.silent_until.map(|_| silence(self.jumped_at, drift));
        ClusterClock { drift, silent_until, ..self }
    }

    /// Returns the anchor that must be durable before the clock passes the last one's ceiling;
    /// [`ClusterClock::reserved`] confirms that it is.
    pub fn anchor(&self, boot: u64, boot_ns: u64) -> Anchor {
        let value = self.mine.on(boot_ns);
        Anchor { boot, at: boot_ns, value, ceiling: value.saturating_add(RESERVE_NS) }
    }

    /// True if an anchor should be made durable: more than half of the reserve is used.
    pub fn wants_reserve(&self, boot_ns: u64) -> bool {
        self.silent_until.is_none()
            && self.mine.on(boot_ns).saturating_add(RESERVE_NS / 2) > self.ceiling
    }

    /// Records that an anchor is durable.
    pub fn reserved(&mut self, boot_ns: u64, anchor: &Anchor) {
        if anchor.at >= self.jumped_at {
            self.ceiling = self.ceiling.max(anchor.ceiling);
            self.agree(boot_ns);
        }
    }

    /// Returns the polls that are to be sent now.
    pub fn poll(&mut self, boot_ns: u64) -> Vec<(NodeId, Poll)> {
        self.agree(boot_ns);
        let poll = self.questions.ask(boot_ns);
        self.others.iter().map(|other| (*other, poll)).collect()
    }

    /// Answers another member's poll. The clock is read now: the answer must be sent at once or
    /// dropped.
    pub fn show(&self, boot_ns: u64, poll: Poll) -> Shown {
        Shown { sent: poll.sent, value: self.mine.on(boot_ns), steady: self.is_steady(boot_ns) }
    }

    /// Handles an answer. An answer without a poll is ignored.
    pub fn receive(&mut self, boot_ns: u64, from: NodeId, shown: Shown) {
        if !self.others.contains(&from) || !self.questions.answered(from, shown.sent) {
            return;
        }
        let told = Interval { earliest: shown.value, latest: shown.value };
        let fresh = Sample { sent: shown.sent, heard: boot_ns, told };
        let known = self.samples.entry(from).or_default();
        if !shown.steady {
            known.clear(); // The clock may jump.
        } else {
            known.retain(|sample| boot_ns.saturating_sub(sample.sent) < BOUND_LASTS_NS);
            let now = fresh.on(boot_ns, self.drift);
            let fits =
                known.iter().all(|sample| both(sample.on(boot_ns, self.drift), now).is_some());
            known.push_back(fresh);
            if !fits && !broken(rules::OWN_RATE_UNCHECKED) {
                self.contradicted(boot_ns, from);
            }
        }
        if self.silent_until.is_some() {
            self.follow(boot_ns, from, &shown, fresh);
        }
        self.agree(boot_ns);
    }

    /// Returns the time and the status of the clock.
    pub fn reading(&self, boot_ns: u64) -> Option<(Interval, ClockStatus)> {
        let (bound, until) = self.hull?;
        let interval = bound.on(boot_ns, self.drift);
        let clock_status = match interval.half_width_ns() {
            half_width_ns if boot_ns > until || half_width_ns > WIDEST_NS => ClockStatus::Fenced,
            _ if self.demoted.values().any(|until| boot_ns < *until) => ClockStatus::Disrupted,
            half_width_ns if half_width_ns > WIDE_NS => ClockStatus::Wide,
            _ => ClockStatus::Good,
        };
        Some((interval, clock_status))
    }

    /// Returns the last hull, for a caller that extrapolates by itself, and until when it holds.
    pub fn hull(&self) -> Option<(Bound, u64)> {
        self.hull
    }

    /// Returns the members that are not trusted.
    pub fn demoted(&self, boot_ns: u64) -> impl Iterator<Item = NodeId> {
        self.demoted.iter().filter(move |(_, until)| boot_ns < **until).map(|(node, _)| *node)
    }

    /// Returns a member that begins with a clock more than an hour ahead, so that this member does
    /// not follow it alone: the operator must set the system clock of one of them.
    pub fn far(&self) -> Option<NodeId> {
        self.far
    }

    /// True if this machine's own clock contradicts the other members'.
    pub fn is_evicted(&self, boot_ns: u64) -> bool {
        boot_ns < self.evicted_until
    }

    /// Returns how far another member's clock is ahead of this one, in nanoseconds, as far as is
    /// known: the middle of its bound.
    pub fn offset_ns(&self, boot_ns: u64, other: NodeId) -> Option<i64> {
        let (bound, _) = self.bound_of(boot_ns, self.samples.get(&other)?)?;
        Some(middle(bound).wrapping_sub(self.mine.on(boot_ns)) as i64)
    }

    /// True if other members may bound this clock.
    pub fn is_steady(&self, boot_ns: u64) -> bool {
        self.silent_until.is_none() && self.mine.on(boot_ns) < self.ceiling
    }

    /// Returns the round trip of the sample that bounds another member's clock, in nanoseconds.
    pub fn round_trip_ns(&self, boot_ns: u64, other: NodeId) -> Option<u64> {
        Some(self.best(boot_ns, self.samples.get(&other)?)?.round_trip_ns())
    }

    /// Returns the sample with the narrowest bound that lasts until the next answers come; if there
    /// is none, the one that lasts longest.
    fn best<'a>(&self, boot_ns: u64, samples: &'a VecDeque<Sample>) -> Option<&'a Sample> {
        let age = |sample: &&Sample| boot_ns.saturating_sub(sample.sent);
        let lasts = |sample: &&Sample| age(sample) < BOUND_LASTS_NS - 3 * POLL_EVERY_NS;
        let newest = || samples.back().filter(|newest| age(newest) < BOUND_LASTS_NS);
        narrowest(samples.iter().filter(lasts), boot_ns, self.drift).or_else(newest)
    }

    /// Returns the bound on a clock, and until when it may be used.
    fn bound_of(&self, boot_ns: u64, samples: &VecDeque<Sample>) -> Option<(Interval, u64)> {
        let sample = self.best(boot_ns, samples)?;
        Some((sample.on(boot_ns, self.drift), sample.sent + BOUND_LASTS_NS))
    }

    /// Handles an answer of a member that contradicts its former ones: its clock or this one's has
    /// broken the drift bound.
    fn contradicted(&mut self, boot_ns: u64, by: NodeId) {
        self.demoted.insert(by, boot_ns + EVICTED_FOR_NS);
        self.samples.remove(&by);
        let lately = |until: &u64| *until > boot_ns + EVICTED_FOR_NS - BOUND_LASTS_NS;
        let contradicting = self.demoted.values().filter(|until| lately(until)).count();
        let believed = self.samples.keys().filter(|node| !self.demoted.contains_key(node)).count();
        if contradicting > believed {
            self.evicted_until = boot_ns + EVICTED_FOR_NS;
            self.demoted.clear();
            self.samples.clear();
            self.withdraw(boot_ns, self.evicted_until);
            self.hull = self.hull.map(|(bound, _)| (bound, 0));
        }
    }

    /// Stops showing the clock until then, so that it can move to the other members' time.
    fn withdraw(&mut self, boot_ns: u64, until: u64) {
        if self.silent_until.is_none() {
            self.floor = self.mine;
        }
        self.silent_until = Some(silence(boot_ns, self.drift).max(until));
        self.led = true;
    }

    /// Moves the clock of a silent member to the other members' time: to that of a majority, if
    /// there is one; otherwise to that of a steady member; and to the latest one, if all have just
    /// begun.
    fn follow(&mut self, boot_ns: u64, from: NodeId, shown: &Shown, fresh: Sample) {
        let floor = self.floor.on(boot_ns);
        let theirs = fresh.on(boot_ns, self.drift).earliest;
        if let Some(majority) = self.tightest(boot_ns, false) {
            (self.led, self.far) = (true, None);
            return self.jump(boot_ns, floor.max(majority.greatest));
        }
        let now = self.mine.on(boot_ns);
        if theirs > now.saturating_add(FAR_NS) {
            self.far = Some(from);
            return;
        }
        if self.led && !shown.steady {
            return;
        }
        let before = if self.led || !shown.steady { now } else { floor };
        self.led |= shown.steady;
        self.far = None;
        self.jump(boot_ns, before.max(theirs));
    }

    fn jump(&mut self, boot_ns: u64, value: u64) {
        self.mine = Logical { at: boot_ns, value, slew_ppb: 0 };
        (self.jumped_at, self.ceiling) = (boot_ns, 0);
    }

    /// Returns the majority with the narrowest hull.
    fn tightest(&self, boot_ns: u64, with_mine: bool) -> Option<Majority> {
        let believed = |node: &NodeId| self.demoted.get(node).is_none_or(|until| boot_ns >= *until);
        let samples =
            self.samples.iter().filter(|(node, _)| believed(node)).map(|(_, samples)| samples);
        let mut bounds: Vec<(Interval, u64)> =
            samples.filter_map(|samples| self.bound_of(boot_ns, samples)).collect();
        if with_mine && self.is_steady(boot_ns) {
            let now = self.mine.on(boot_ns);
            bounds.push((Interval { earliest: now, latest: now }, boot_ns + (self.ceiling - now)));
        }
        bounds.sort_unstable_by_key(|(interval, _)| interval.latest);
        let above = |(lowest, _): &(Interval, u64)| {
            let first = bounds
                .iter()
                .filter(|(interval, _)| interval.earliest >= lowest.earliest)
                .take(self.majority);
            let latest = first.clone().nth(self.majority - 1)?.0.latest;
            let greatest = first.clone().map(|(interval, _)| interval.earliest).max()?;
            let until = first.map(|(_, until)| *until).min()?;
            Some(Majority { hull: Interval { earliest: lowest.earliest, latest }, greatest, until })
        };
        bounds
            .iter()
            .filter_map(above)
            .min_by_key(|majority| majority.hull.latest - majority.hull.earliest)
    }

    /// Evaluates all bounds again: the time, whether to be silent, and the slew.
    fn agree(&mut self, boot_ns: u64) {
        if self.silent_until.is_some_and(|until| boot_ns >= until)
            && self.questions.answerers() + 1 >= self.majority
        {
            self.silent_until = None;
        }
        self.demoted.retain(|_, until| boot_ns < *until);
        let all = self.tightest(boot_ns, true);
        if let Some(Majority { hull: interval, until, .. }) = all
            && !self.is_evicted(boot_ns)
        {
            self.hull = Some((Bound { at: boot_ns, interval }, until));
        }
        if !self.is_steady(boot_ns) {
            return;
        }
        let now = self.mine.on(boot_ns);
        let theirs = self.tightest(boot_ns, false);
        // This happens if a machine stood still, or if another member begins at its ceiling: a
        // clock that is so far behind jumps, because catching up would take too long.
        let behind = |nanos: u64| nanos > now.saturating_add(JUMP_NS);
        if theirs.as_ref().is_some_and(|others| behind(others.hull.earliest))
            || all.as_ref().is_some_and(|all| behind(all.greatest))
        {
            self.withdraw(boot_ns, 0);
            // The time is now what is known without this clock. If that is nothing, the last hull
            // continues and is not valid.
            let known = theirs
                .map(|majority| (Bound { at: boot_ns, interval: majority.hull }, majority.until));
            self.hull = known.or(self.hull.map(|(bound, _)| (bound, 0)));
            return;
        }
        let Some(Majority { hull, .. }) = all else { return self.mine.slew(boot_ns, 0) };
        // The slew reaches the target in a second, within its maximum.
        let ppb = (middle(hull).wrapping_sub(now) as i64).clamp(-SLEW_PPB, SLEW_PPB);
        self.mine.slew(boot_ns, ppb);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_slewed_by_a_late_thread_gains_nothing() {
        let mut clock = Logical { at: 1_000, value: 5_000, slew_ppb: 0 };
        clock.slew(9_000, 0);
        clock.slew(3_000, 0);
        assert_eq!(clock.on(10_000), 14_000);
    }
}
