//! The time daemon and its time masters (Spanner §3).
//!
//! A *master* has a reference of its own: sources that its host reads (the kernel, chrony, a
//! hardware clock …), or an oscillator that is good enough to run alone for long between
//! synchronisations, which is the paper's atomic clock. Every node polls all masters, and rejects
//! wrong ones by Marzullo's algorithm. Its interval widens by the drift bound until the next
//! answers: the sawtooth.
//!
//! 1. **If at most [`Daemon::liars`] masters send an interval that does not contain the time, and
//!    this machine's clock keeps the drift bound, every usable reading contains the time.** So does
//!    the intersection of the new agreement and the old one, widened; the daemon keeps that.
//! 2. If the intersection is empty, this machine's clock has broken its bound, or too many masters
//!    lie. The node evicts itself, and returns when there has been no contradiction for
//!    [`EVICTED_FOR_NS`].
//! 3. A master sends its reference and never what it received from other masters, so that one wrong
//!    clock does not count several times. A master whose reference contradicts the other masters
//!    sends no interval, for as long.
//! 4. A node's own sources share a machine, and count as one clock source.

use crate::agreement::{agree, both};
use crate::bound::{Bound, Drift};
use crate::question::{Poll, Questions, Sample, narrowest};
use crate::rules;
use crate::status::{ClockStatus, EVICTED_FOR_NS, WIDE_NS, WIDEST_NS};
use meridian_machine::planted::broken;
use meridian_machine::{Interval, NodeId};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, VecDeque};

const S: u64 = 1_000_000_000;

/// The time that an answer is used, in nanoseconds.
const ANSWER_LASTS_NS: u64 = 30 * S;
/// The narrowest answer within this time is used, in nanoseconds.
const WINDOW_NS: u64 = 2 * S;
/// Without an answer for this time the daemon counts as free-running, in nanoseconds.
const FREE_AFTER_NS: u64 = 2 * S;
/// The interval at which a master with an oscillator synchronises with the others, in nanoseconds.
const SYNCHRONISE_EVERY_NS: u64 = 30 * S;

/// A master's answer to a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TimeResponse {
    /// The poll's `sent`, which identifies it.
    #[n(0)]
    pub sent: u64,
    /// The interval by the master's reference; none if it has none at the moment.
    #[n(1)]
    pub interval: Option<Interval>,
}

/// A clock source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClockSource {
    /// This node's own reference.
    Own,
    /// One of its sources.
    Source(usize),
    /// A master.
    Master(NodeId),
}

/// The time daemon of a node.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// The other masters.
    masters: Vec<NodeId>,
    /// True if this node is a master, or has a source for itself.
    has_own: bool,
    /// The drift of the oscillator, if this node is a master by one.
    oscillator: Option<Drift>,
    drift: Drift,
    /// The last bound of each of its own sources.
    sources: BTreeMap<usize, Bound>,
    /// The oscillator's last synchronisation.
    synchronised: Option<Bound>,
    questions: Questions,
    samples: BTreeMap<NodeId, VecDeque<Sample>>,
    known: Option<Bound>,
    /// When a trusted clock source answered last.
    refreshed_at: u64,
    /// Until when this node does not trust its own clock.
    evicted_until: u64,
    /// Until when its reference is not sent to other nodes.
    diverged_until: u64,
    /// The clock sources that contradict the agreement now.
    demoted: Vec<ClockSource>,
    /// True if more clock sources contradict each other than may lie.
    contradiction: bool,
}

impl Daemon {
    /// Creates the daemon of a node that polls these masters, and has sources of its own if
    /// `has_own`.
    pub fn new(masters: Vec<NodeId>, has_own: bool) -> Daemon {
        Daemon {
            masters,
            has_own,
            oscillator: None,
            drift: Drift::WORST,
            sources: BTreeMap::new(),
            synchronised: None,
            questions: Questions::new(WINDOW_NS),
            samples: BTreeMap::new(),
            known: None,
            refreshed_at: 0,
            evicted_until: 0,
            diverged_until: 0,
            demoted: Vec::new(),
            contradiction: false,
        }
    }

    /// Creates the daemon of a master whose reference is its own oscillator, which is synchronised
    /// with the other masters every half minute.
    pub fn with_oscillator(masters: Vec<NodeId>, drift: Drift) -> Daemon {
        Daemon { oscillator: Some(drift), ..Daemon::new(masters, true) }
    }

    /// Sets a drift bound above 200 ppm.
    pub fn drifting(self, drift: Drift) -> Daemon {
        Daemon { drift, ..self }
    }

    /// Returns the number of clock sources that may lie without making a reading wrong.
    pub fn liars(&self) -> usize {
        (self.masters.len() + usize::from(self.has_own)).saturating_sub(1) / 2
    }

    /// Records the bound of one of this node's own sources.
    pub fn refer(&mut self, boot_ns: u64, source: usize, bound: Bound) {
        self.sources.insert(source, bound);
        self.follow_sources(boot_ns, true);
    }

    /// Returns the polls that are to be sent now.
    pub fn poll(&mut self, boot_ns: u64) -> Vec<(NodeId, Poll)> {
        self.follow_sources(boot_ns, false);
        let poll = self.questions.ask(boot_ns);
        self.masters.iter().map(|master| (*master, poll)).collect()
    }

    /// Answers another node's poll. The clock is read now: the answer must be sent at once or
    /// dropped.
    pub fn answer_poll(&self, boot_ns: u64, poll: Poll) -> TimeResponse {
        let interval = self.own(boot_ns).filter(|_| self.has_own && boot_ns >= self.diverged_until);
        TimeResponse { sent: poll.sent, interval }
    }

    /// Handles an answer. An answer without a poll is ignored, and so is an interval that ends
    /// before it begins.
    pub fn receive(&mut self, boot_ns: u64, from: NodeId, told: TimeResponse) {
        if !self.masters.contains(&from) || !self.questions.answered(from, told.sent) {
            return;
        }
        let known = self.samples.entry(from).or_default();
        known.retain(|sample| boot_ns.saturating_sub(sample.sent) < ANSWER_LASTS_NS);
        match told.interval.filter(|interval| interval.earliest <= interval.latest) {
            Some(interval) => {
                known.push_back(Sample { sent: told.sent, heard: boot_ns, told: interval })
            }
            None => known.clear(), // The master does not trust its reference.
        }
        self.follow_sources(boot_ns, true);
    }

    /// Returns the time and the status of the clock.
    pub fn reading(&self, boot_ns: u64) -> Option<(Interval, ClockStatus)> {
        let interval = self.known?.on(boot_ns, self.drift);
        let clock_status = match interval.half_width_ns() {
            half_width_ns if half_width_ns > WIDEST_NS => ClockStatus::Fenced,
            _ if self.is_evicted(boot_ns) || self.contradiction => ClockStatus::Fenced,
            _ if !self.demoted.is_empty() => ClockStatus::Disrupted,
            _ if boot_ns.saturating_sub(self.refreshed_at) > FREE_AFTER_NS => {
                ClockStatus::FreeRunning
            }
            half_width_ns if half_width_ns > WIDE_NS => ClockStatus::Wide,
            _ => ClockStatus::Good,
        };
        Some((interval, clock_status))
    }

    /// Returns the known bound, for a caller that extrapolates by itself, and until when it may be
    /// used.
    pub fn known(&self, boot_ns: u64) -> Option<(Bound, u64)> {
        let bound = self.known?;
        if self.is_evicted(boot_ns) || self.contradiction {
            return Some((bound, 0));
        }
        let room = WIDEST_NS.saturating_sub(bound.interval.half_width_ns());
        Some((bound, bound.at.saturating_add(self.drift.keeps_within(room))))
    }

    /// Returns the clock sources that contradict the agreement.
    pub fn demoted(&self) -> &[ClockSource] {
        &self.demoted
    }

    /// True if this node's own clock contradicts the masters.
    pub fn is_evicted(&self, boot_ns: u64) -> bool {
        boot_ns < self.evicted_until
    }

    /// Returns how far the middle of a master's interval is ahead of this node's, in nanoseconds.
    pub fn offset_ns(&self, boot_ns: u64, master: NodeId) -> Option<i64> {
        let middle =
            |interval: Interval| interval.earliest + (interval.latest - interval.earliest) / 2;
        let known = self.known?.on(boot_ns, self.drift);
        Some(middle(self.clock_source(boot_ns, master)?).wrapping_sub(middle(known)) as i64)
    }

    /// Returns the interval of this node's own reference.
    fn own(&self, boot_ns: u64) -> Option<Interval> {
        if let Some(drift) = self.oscillator {
            return Some(self.synchronised?.on(boot_ns, drift));
        }
        let told: Vec<Interval> =
            self.sources.values().map(|bound| bound.on(boot_ns, self.drift)).collect();
        agree(&told, told.len().saturating_sub(1) / 2)
    }

    /// Returns the round trip of the sample that a master's time is known from, in nanoseconds.
    pub fn round_trip_ns(&self, boot_ns: u64, master: NodeId) -> Option<u64> {
        Some(self.best(boot_ns, master)?.round_trip_ns())
    }

    /// Returns the narrowest of a master's recent answers, or the last one if they are older.
    fn best(&self, boot_ns: u64, master: NodeId) -> Option<&Sample> {
        let samples = self.samples.get(&master)?;
        let fresh = samples.iter().filter(|sample| boot_ns.saturating_sub(sample.sent) < WINDOW_NS);
        let last =
            || samples.back().filter(|last| boot_ns.saturating_sub(last.sent) < ANSWER_LASTS_NS);
        narrowest(fresh, boot_ns, self.drift).or_else(last)
    }

    /// Returns a master's interval.
    fn clock_source(&self, boot_ns: u64, master: NodeId) -> Option<Interval> {
        Some(self.best(boot_ns, master)?.on(boot_ns, self.drift))
    }

    /// Computes the agreement of all clock sources.
    fn follow_sources(&mut self, boot_ns: u64, news: bool) {
        let mut clock_sources: Vec<(ClockSource, Interval)> =
            Vec::with_capacity(self.masters.len() + 1);
        let masters = self.masters.iter();
        clock_sources.extend(masters.filter_map(|master| {
            Some((ClockSource::Master(*master), self.clock_source(boot_ns, *master)?))
        }));
        if self.oscillator.is_some() {
            self.synchronise(boot_ns, &clock_sources);
        }
        let own = self.own(boot_ns);
        if self.has_own && boot_ns >= self.diverged_until {
            clock_sources.extend(own.map(|interval| (ClockSource::Own, interval)));
        }
        let told: Vec<Interval> = clock_sources.iter().map(|(_, interval)| *interval).collect();
        let agreed = if broken(rules::NARROWEST_IS_BELIEVED) {
            told.iter().copied().min_by_key(|interval| interval.latest - interval.earliest)
        } else {
            agree(&told, self.liars())
        };
        let Some(agreed) = agreed else {
            let quarrel = self.oscillator.is_none() && !self.sources.is_empty() && own.is_none();
            self.contradiction = quarrel || told.len() > self.liars();
            return;
        };
        self.contradiction = false;
        let sources = self
            .sources
            .iter()
            .map(|(number, bound)| (ClockSource::Source(*number), bound.on(boot_ns, self.drift)));
        let contradicts = |(_, told): &(ClockSource, Interval)| both(*told, agreed).is_none();
        let demoted = sources
            .chain(clock_sources)
            .filter(contradicts)
            .map(|(clock_source, _)| clock_source)
            .collect();
        self.demoted = demoted;
        if self.demoted.contains(&ClockSource::Own) {
            (self.diverged_until, self.synchronised) = (boot_ns + EVICTED_FOR_NS, None);
        }
        let before = self.known.map(|known| known.on(boot_ns, self.drift));
        let interval = match before.map(|before| both(before, agreed)) {
            Some(None) if !broken(rules::OWN_RATE_UNCHECKED) => {
                self.evicted_until = boot_ns + EVICTED_FOR_NS;
                agreed
            }
            Some(Some(both)) => both,
            Some(None) | None => agreed,
        };
        self.known = Some(Bound { at: boot_ns, interval });
        if news {
            self.refreshed_at = boot_ns;
        }
    }

    /// Synchronises the oscillator with the other masters.
    fn synchronise(&mut self, boot_ns: u64, masters: &[(ClockSource, Interval)]) {
        if self
            .synchronised
            .is_some_and(|last| boot_ns.saturating_sub(last.at) < SYNCHRONISE_EVERY_NS)
            || boot_ns < self.diverged_until
        {
            return;
        }
        let told: Vec<Interval> = masters.iter().map(|(_, interval)| *interval).collect();
        // As many masters may lie as otherwise: an oscillator that a wrong master has set would
        // count as a second wrong source.
        let Some(agreed) = agree(&told, self.liars()) else { return };
        let interval = match self.synchronised.zip(self.oscillator) {
            // The oscillator's own interval is narrower, if it keeps its drift.
            Some((last, drift)) => both(last.on(boot_ns, drift), agreed).unwrap_or(agreed),
            None => agreed,
        };
        self.synchronised = Some(Bound { at: boot_ns, interval });
    }
}
