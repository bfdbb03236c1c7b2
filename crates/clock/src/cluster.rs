//! Cluster time: what the time is when there is nobody to ask but each other.
//!
//! Each member keeps a logical clock: it never goes back, and runs at the rate of the member's boot
//! clock, give or take what is slewed. Who wants to know the time bounds the clocks of a majority
//! by round trips, and takes the hull of the bounds.
//!
//! 1. **If a reading ends before another begins, wherever they are, the first one's `earliest` is
//!    not above the second one's `latest`.** Two majorities share a member. Its clock was above the
//!    first one's `earliest`, does not go back, and was below the second one's `latest`.
//! 2. A member's clock is never beyond what it has reserved durably, so that its next life begins
//!    above everything that this one has shown.
//! 3. Two bounds on one clock contradict each other only if that clock or this machine's own has
//!    broken the drift bound. Who is contradicted by most of those whom he hears takes it on
//!    himself, and does not know the time for [`EVICTED_FOR_NS`]; who is contradicted by few does
//!    not believe those, for as long.
//! 4. A member that begins a life, or jumps forward, shows its clock to nobody until all bounds on
//!    what it was before have expired.
//!
//! This is all that commit wait and leases need of TrueTime (Spanner §3, §4.2, Appendix A). What it
//! is not: the time of day. Members begin with the greatest of their system clocks, and from then
//! on follow each other.

use crate::agreement::both;
use crate::bound::{Bound, Drift};
use crate::question::{POLL_EVERY_NS, Poll, Questions, Sample, narrowest};
use crate::rules;
use crate::standing::{EVICTED_FOR_NS, Standing, WIDE_NS, WIDEST_NS};
use meridian_machine::planted::broken;
use meridian_machine::{Interval, NodeId};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, VecDeque};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// A bound on another's clock is used for so long: so long is everybody silent who may have jumped.
pub const BOUND_LASTS_NS: u64 = 2 * S;
/// A logical clock runs faster or slower than its boot clock by at most so much, in billionths.
/// With it, the drift that everybody allows for (200 ppm) covers boot clocks that are wrong by up
/// to 50 ppm each, and slewing keeps such clocks together.
const SLEW_PPB: i64 = 100_000;
/// Who is surely behind by more does not slew, but jumps.
const JUMP_NS: u64 = 10 * MS;
/// So far ahead is reserved.
const RESERVE_NS: u64 = 5 * S;
/// Nobody who is alone is believed to be so far ahead of one's own system clock.
const FAR_NS: u64 = 3_600 * S;

/// A member's clock, shown to one that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Shown {
    /// The question.
    #[n(0)]
    pub sent: u64,
    /// The clock.
    #[n(1)]
    pub value: u64,
    /// False while it may still jump: no bound follows from it.
    #[n(2)]
    pub steady: bool,
}

/// What a member has to find again in its next life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Anchor {
    /// Which boot of the machine it was.
    #[n(0)]
    pub boot: u64,
    /// Its boot clock.
    #[n(1)]
    pub at: u64,
    /// The logical clock then.
    #[n(2)]
    pub value: u64,
    /// The logical clock was never beyond this.
    #[n(3)]
    pub ceiling: u64,
}

/// Never goes back while it is steady.
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

    /// From this moment on; one before the last change would add the time between them twice.
    fn slew(&mut self, boot_ns: u64, ppb: i64) {
        let boot_ns = boot_ns.max(self.at);
        *self = Logical { at: boot_ns, value: self.on(boot_ns), slew_ppb: ppb };
    }
}

fn middle(interval: Interval) -> u64 {
    interval.earliest + (interval.latest - interval.earliest) / 2
}

/// Until when somebody is silent who begins to be now: whoever has bounded the clock has forgotten
/// it by then.
fn silence(boot_ns: u64, drift: Drift) -> u64 {
    if broken(rules::CLOCK_JUMPS_ALOUD) {
        return boot_ns;
    }
    boot_ns + BOUND_LASTS_NS + drift.of(BOUND_LASTS_NS)
}

/// The bounds of a majority.
#[derive(Clone, Copy, Debug)]
struct Majority {
    hull: Interval,
    /// One of the clocks is surely not below this.
    greatest: u64,
    /// Until when the bounds last.
    until: u64,
}

/// One member's part.
#[derive(Clone, Debug)]
pub struct ClusterClock {
    others: Vec<NodeId>,
    majority: usize,
    drift: Drift,
    mine: Logical,
    /// What the former life may have shown, on the boot clock of this one.
    floor: Logical,
    /// The bound of what is reserved durably; nothing, since a jump.
    ceiling: u64,
    /// When the clock jumped last.
    jumped_at: u64,
    /// Shows nothing until then, and until a majority is heard.
    silent_until: Option<u64>,
    /// Somebody steady was heard since this one is silent.
    led: bool,
    /// Who was not followed, because his clock is so far ahead.
    far: Option<NodeId>,
    questions: Questions,
    samples: BTreeMap<NodeId, VecDeque<Sample>>,
    /// Until when each is not believed, because what it showed contradicts what it had shown.
    demoted: BTreeMap<NodeId, u64>,
    /// Until when this member does not believe itself.
    evicted_until: u64,
    /// The hull of the tightest majority, and until when it is good.
    hull: Option<(Bound, u64)>,
}

impl ClusterClock {
    /// Begins a life. `boot` tells boots of this machine apart; `boot_ns` is its boot clock,
    /// `system_ns` its system clock.
    pub fn begin(
        others: Vec<NodeId>,
        boot: u64,
        boot_ns: u64,
        system_ns: u64,
        anchor: Option<Anchor>,
    ) -> ClusterClock {
        let floor = match anchor.filter(|_| !broken(rules::CLOCK_FLOOR_FORGOTTEN)) {
            // The clock went on as the boot clock did, at most so much faster.
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

    /// The same, where clocks may drift by more than 200 ppm.
    pub fn drifting(self, drift: Drift) -> ClusterClock {
        let silent_until = self.silent_until.map(|_| silence(self.jumped_at, drift));
        ClusterClock { drift, silent_until, ..self }
    }

    /// What has to be durable before the clock goes on beyond the last one's ceiling;
    /// [`ClusterClock::reserved`] says that it is.
    pub fn anchor(&self, boot: u64, boot_ns: u64) -> Anchor {
        let value = self.mine.on(boot_ns);
        Anchor { boot, at: boot_ns, value, ceiling: value.saturating_add(RESERVE_NS) }
    }

    /// Whether an anchor should be made durable: more than half of what is reserved is used.
    pub fn wants_reserve(&self, boot_ns: u64) -> bool {
        self.silent_until.is_none()
            && self.mine.on(boot_ns).saturating_add(RESERVE_NS / 2) > self.ceiling
    }

    /// An anchor is durable.
    pub fn reserved(&mut self, boot_ns: u64, anchor: &Anchor) {
        if anchor.at >= self.jumped_at {
            self.ceiling = self.ceiling.max(anchor.ceiling);
            self.agree(boot_ns);
        }
    }

    /// The questions that are to be asked now.
    pub fn poll(&mut self, boot_ns: u64) -> Vec<(NodeId, Poll)> {
        self.agree(boot_ns);
        let poll = self.questions.ask(boot_ns);
        self.others.iter().map(|other| (*other, poll)).collect()
    }

    /// The answer to another's question. The clock is read now: this is to be sent, or forgotten.
    pub fn show(&self, boot_ns: u64, poll: Poll) -> Shown {
        Shown { sent: poll.sent, value: self.mine.on(boot_ns), steady: self.is_steady(boot_ns) }
    }

    /// An answer. What was not asked is not heard.
    pub fn hear(&mut self, boot_ns: u64, from: NodeId, shown: Shown) {
        if !self.others.contains(&from) || !self.questions.answered(from, shown.sent) {
            return;
        }
        let told = Interval { earliest: shown.value, latest: shown.value };
        let fresh = Sample { sent: shown.sent, heard: boot_ns, told };
        let known = self.samples.entry(from).or_default();
        if !shown.steady {
            known.clear(); // It may jump from where it was.
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

    /// The time, and whether it can be relied on.
    pub fn reading(&self, boot_ns: u64) -> Option<(Interval, Standing)> {
        let (bound, until) = self.hull?;
        let interval = bound.on(boot_ns, self.drift);
        let standing = match interval.half_width_ns() {
            half_width_ns if boot_ns > until || half_width_ns > WIDEST_NS => Standing::Fenced,
            _ if self.demoted.values().any(|until| boot_ns < *until) => Standing::Disrupted,
            half_width_ns if half_width_ns > WIDE_NS => Standing::Wide,
            _ => Standing::Good,
        };
        Some((interval, standing))
    }

    /// The last hull, for whoever extrapolates by himself, and until when it is good.
    pub fn hull(&self) -> Option<(Bound, u64)> {
        self.hull
    }

    /// Those who are not believed.
    pub fn demoted(&self, boot_ns: u64) -> impl Iterator<Item = NodeId> {
        self.demoted.iter().filter(move |(_, until)| boot_ns < **until).map(|(node, _)| *node)
    }

    /// Who begins with a clock that is more than an hour ahead, so that this member does not follow
    /// him alone: somebody's system clock has to be set.
    pub fn far(&self) -> Option<NodeId> {
        self.far
    }

    /// Whether this machine's own clock contradicts the others'.
    pub fn is_evicted(&self, boot_ns: u64) -> bool {
        boot_ns < self.evicted_until
    }

    /// How far another's clock is ahead of this one, as far as is known: the middle of its bound.
    pub fn offset_ns(&self, boot_ns: u64, other: NodeId) -> Option<i64> {
        let (bound, _) = self.bound_of(boot_ns, self.samples.get(&other)?)?;
        Some(middle(bound).wrapping_sub(self.mine.on(boot_ns)) as i64)
    }

    /// Whether others may bound this clock.
    pub fn is_steady(&self, boot_ns: u64) -> bool {
        self.silent_until.is_none() && self.mine.on(boot_ns) < self.ceiling
    }

    /// How long the round trip took from which the other's clock is known.
    pub fn round_trip_ns(&self, boot_ns: u64, other: NodeId) -> Option<u64> {
        Some(self.best(boot_ns, self.samples.get(&other)?)?.round_trip_ns())
    }

    /// The sample with the narrowest bound that lasts until the next answers come; if there is
    /// none, the one that lasts longest.
    fn best<'a>(&self, boot_ns: u64, samples: &'a VecDeque<Sample>) -> Option<&'a Sample> {
        let age = |sample: &&Sample| boot_ns.saturating_sub(sample.sent);
        let lasts = |sample: &&Sample| age(sample) < BOUND_LASTS_NS - 3 * POLL_EVERY_NS;
        let newest = || samples.back().filter(|newest| age(newest) < BOUND_LASTS_NS);
        narrowest(samples.iter().filter(lasts), boot_ns, self.drift).or_else(newest)
    }

    /// Where a clock is, and until when that may be used.
    fn bound_of(&self, boot_ns: u64, samples: &VecDeque<Sample>) -> Option<(Interval, u64)> {
        let sample = self.best(boot_ns, samples)?;
        Some((sample.on(boot_ns, self.drift), sample.sent + BOUND_LASTS_NS))
    }

    /// What a member showed contradicts what it had shown: its clock or this one's has broken its
    /// bound.
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

    /// Shows nothing until then: the clock is to go where the others are.
    fn withdraw(&mut self, boot_ns: u64, until: u64) {
        if self.silent_until.is_none() {
            self.floor = self.mine;
        }
        self.silent_until = Some(silence(boot_ns, self.drift).max(until));
        self.led = true;
    }

    /// While it is silent, a clock goes where the others are: to a majority, if there is one; to
    /// somebody steady, if not; and to whoever is the latest, if all have just begun.
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

    /// The majority whose bounds are closest together.
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

    /// Looks at all bounds again: what the time is, whether to be silent, and which way to slew.
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
        // A machine that stood still, or another that begins at its ceiling: nobody waits for a
        // clock to catch up.
        let behind = |nanos: u64| nanos > now.saturating_add(JUMP_NS);
        if theirs.as_ref().is_some_and(|others| behind(others.hull.earliest))
            || all.as_ref().is_some_and(|all| behind(all.greatest))
        {
            self.withdraw(boot_ns, 0);
            // What is known of the time without this clock; if that is nothing, the last hull goes
            // on and is not good.
            let known = theirs
                .map(|majority| (Bound { at: boot_ns, interval: majority.hull }, majority.until));
            self.hull = known.or(self.hull.map(|(bound, _)| (bound, 0)));
            return;
        }
        let Some(Majority { hull, .. }) = all else { return self.mine.slew(boot_ns, 0) };
        // In a second it is there, if it may be that fast.
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
