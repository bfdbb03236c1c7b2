//! The time daemon, and the time masters that it asks (Spanner §3).
//!
//! A *master* has a reference of its own: sources that its host reads (the kernel, chrony, a
//! hardware clock …), or an oscillator good enough to go on alone for long between
//! synchronisations, which is the paper's atomic clock. Every node asks all masters, lets
//! Marzullo's algorithm outvote those who lie, and lets what it knows widen by the drift bound
//! until the next answers: the sawtooth.
//!
//! 1. **If at most [`Daemon::liars`] masters tell an interval that the time is not in, and this
//!    machine's clock keeps the drift bound, every usable reading holds the time.** So does what
//!    lies in both the new agreement and the old one, widened; that is what is kept.
//! 2. If nothing lies in both, this machine's clock has broken its bound, or too many lie. The node
//!    evicts itself, and comes back when there has been no contradiction for [`EVICTED_FOR_NS`].
//! 3. A master tells its reference and never what it heard from others, lest one lie come back as
//!    many voices; one whose reference contradicts the others tells nothing, for as long.
//! 4. A node's own sources share a machine, and are one voice.

use crate::agreement::{agree, both};
use crate::bound::{Bound, Drift};
use crate::question::{Poll, Questions, Sample, narrowest};
use crate::rules;
use crate::standing::{EVICTED_FOR_NS, Standing, WIDE_NS, WIDEST_NS};
use meridian_machine::planted::broken;
use meridian_machine::{Interval, NodeId};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, VecDeque};

const S: u64 = 1_000_000_000;

/// An answer is used for so long.
const ANSWER_LASTS_NS: u64 = 30 * S;
/// The narrowest answer of so long ago is used.
const WINDOW_NS: u64 = 2 * S;
/// Without a new word for so long, it goes on freely.
const FREE_AFTER_NS: u64 = 2 * S;
/// A master with an oscillator asks the others so often.
const SYNCHRONISE_EVERY_NS: u64 = 30 * S;

/// A master's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Told {
    /// The question.
    #[n(0)]
    pub sent: u64,
    /// Where the time lies by its reference; nothing, if it has none at the moment.
    #[n(1)]
    pub interval: Option<Interval>,
}

/// Somebody who tells the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Voice {
    /// This node's own reference.
    Own,
    /// One of its sources.
    Source(usize),
    /// A master.
    Master(NodeId),
}

/// One node's daemon.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// The other masters.
    masters: Vec<NodeId>,
    /// This node is a master, or has a source for itself.
    has_own: bool,
    /// This node is a master by its oscillator, which drifts by no more than that.
    oscillator: Option<Drift>,
    drift: Drift,
    /// What each of its own sources said last.
    sources: BTreeMap<usize, Bound>,
    /// The oscillator's last synchronisation.
    synchronised: Option<Bound>,
    questions: Questions,
    samples: BTreeMap<NodeId, VecDeque<Sample>>,
    known: Option<Bound>,
    /// When somebody who is believed said something last.
    refreshed_at: u64,
    /// Until when this node does not believe itself.
    evicted_until: u64,
    /// Until when its reference is told to nobody.
    diverged_until: u64,
    /// Those who contradict the others now.
    demoted: Vec<Voice>,
    /// More contradict each other than may lie.
    contradiction: bool,
}

impl Daemon {
    /// The daemon of a node that asks these masters, and has sources of its own if `has_own`.
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

    /// A master whose reference is its own oscillator, which the other masters set every half
    /// minute.
    pub fn with_oscillator(masters: Vec<NodeId>, drift: Drift) -> Daemon {
        Daemon { oscillator: Some(drift), ..Daemon::new(masters, true) }
    }

    /// The same, where clocks may drift by more than 200 ppm.
    pub fn drifting(self, drift: Drift) -> Daemon {
        Daemon { drift, ..self }
    }

    /// How many voices may lie without anybody being deceived.
    pub fn liars(&self) -> usize {
        (self.masters.len() + usize::from(self.has_own)).saturating_sub(1) / 2
    }

    /// One of this node's own sources says where the time lies.
    pub fn refer(&mut self, boot_ns: u64, source: usize, bound: Bound) {
        self.sources.insert(source, bound);
        self.hear_voices(boot_ns, true);
    }

    /// The questions that are to be asked now.
    pub fn poll(&mut self, boot_ns: u64) -> Vec<(NodeId, Poll)> {
        self.hear_voices(boot_ns, false);
        let poll = self.questions.ask(boot_ns);
        self.masters.iter().map(|master| (*master, poll)).collect()
    }

    /// A master's answer to another's question. The clock is read now: this is to be sent, or
    /// forgotten.
    pub fn tell(&self, boot_ns: u64, poll: Poll) -> Told {
        let interval = self.own(boot_ns).filter(|_| self.has_own && boot_ns >= self.diverged_until);
        Told { sent: poll.sent, interval }
    }

    /// An answer. What was not asked is not heard, and no interval that ends before it begins.
    pub fn hear(&mut self, boot_ns: u64, from: NodeId, told: Told) {
        if !self.masters.contains(&from) || !self.questions.answered(from, told.sent) {
            return;
        }
        let known = self.samples.entry(from).or_default();
        known.retain(|sample| boot_ns.saturating_sub(sample.sent) < ANSWER_LASTS_NS);
        match told.interval.filter(|interval| interval.earliest <= interval.latest) {
            Some(interval) => {
                known.push_back(Sample { sent: told.sent, heard: boot_ns, told: interval })
            }
            None => known.clear(), // it does not believe itself
        }
        self.hear_voices(boot_ns, true);
    }

    /// The time, and how well it is known.
    pub fn reading(&self, boot_ns: u64) -> Option<(Interval, Standing)> {
        let interval = self.known?.on(boot_ns, self.drift);
        let standing = match interval.half_width_ns() {
            half_width_ns if half_width_ns > WIDEST_NS => Standing::Fenced,
            _ if self.is_evicted(boot_ns) || self.contradiction => Standing::Fenced,
            _ if !self.demoted.is_empty() => Standing::Disrupted,
            _ if boot_ns.saturating_sub(self.refreshed_at) > FREE_AFTER_NS => Standing::FreeRunning,
            half_width_ns if half_width_ns > WIDE_NS => Standing::Wide,
            _ => Standing::Good,
        };
        Some((interval, standing))
    }

    /// What is known, for whoever extrapolates by himself, and until when it may be used.
    pub fn known(&self, boot_ns: u64) -> Option<(Bound, u64)> {
        let bound = self.known?;
        if self.is_evicted(boot_ns) || self.contradiction {
            return Some((bound, 0));
        }
        let room = WIDEST_NS.saturating_sub(bound.interval.half_width_ns());
        Some((bound, bound.at.saturating_add(self.drift.keeps_within(room))))
    }

    /// Those who contradict what the others prove.
    pub fn demoted(&self) -> &[Voice] {
        &self.demoted
    }

    /// Whether this node's own clock contradicts the masters.
    pub fn is_evicted(&self, boot_ns: u64) -> bool {
        boot_ns < self.evicted_until
    }

    /// How far the middle of a master's interval is ahead of what this node knows.
    pub fn offset_ns(&self, boot_ns: u64, master: NodeId) -> Option<i64> {
        let middle =
            |interval: Interval| interval.earliest + (interval.latest - interval.earliest) / 2;
        let known = self.known?.on(boot_ns, self.drift);
        Some(middle(self.voice(boot_ns, master)?).wrapping_sub(middle(known)) as i64)
    }

    /// What this node's own reference says.
    fn own(&self, boot_ns: u64) -> Option<Interval> {
        if let Some(drift) = self.oscillator {
            return Some(self.synchronised?.on(boot_ns, drift));
        }
        let told: Vec<Interval> =
            self.sources.values().map(|bound| bound.on(boot_ns, self.drift)).collect();
        agree(&told, told.len().saturating_sub(1) / 2)
    }

    /// How long the round trip took from which a master's time is known.
    pub fn round_trip_ns(&self, boot_ns: u64, master: NodeId) -> Option<u64> {
        Some(self.best(boot_ns, master)?.round_trip_ns())
    }

    /// The narrowest of a master's last answers, or the last one, if they are older.
    fn best(&self, boot_ns: u64, master: NodeId) -> Option<&Sample> {
        let samples = self.samples.get(&master)?;
        let fresh = samples.iter().filter(|sample| boot_ns.saturating_sub(sample.sent) < WINDOW_NS);
        let last =
            || samples.back().filter(|last| boot_ns.saturating_sub(last.sent) < ANSWER_LASTS_NS);
        narrowest(fresh, boot_ns, self.drift).or_else(last)
    }

    /// What a master says.
    fn voice(&self, boot_ns: u64, master: NodeId) -> Option<Interval> {
        Some(self.best(boot_ns, master)?.on(boot_ns, self.drift))
    }

    /// Looks at everything that was said.
    fn hear_voices(&mut self, boot_ns: u64, news: bool) {
        let mut voices: Vec<(Voice, Interval)> = Vec::with_capacity(self.masters.len() + 1);
        let masters = self.masters.iter();
        voices
            .extend(masters.filter_map(|master| {
                Some((Voice::Master(*master), self.voice(boot_ns, *master)?))
            }));
        if self.oscillator.is_some() {
            self.synchronise(boot_ns, &voices);
        }
        let own = self.own(boot_ns);
        if self.has_own && boot_ns >= self.diverged_until {
            voices.extend(own.map(|interval| (Voice::Own, interval)));
        }
        let told: Vec<Interval> = voices.iter().map(|(_, interval)| *interval).collect();
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
            .map(|(number, bound)| (Voice::Source(*number), bound.on(boot_ns, self.drift)));
        let contradicts = |(_, told): &(Voice, Interval)| both(*told, agreed).is_none();
        let demoted = sources.chain(voices).filter(contradicts).map(|(voice, _)| voice).collect();
        self.demoted = demoted;
        if self.demoted.contains(&Voice::Own) {
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

    /// The others set the oscillator.
    fn synchronise(&mut self, boot_ns: u64, masters: &[(Voice, Interval)]) {
        if self
            .synchronised
            .is_some_and(|last| boot_ns.saturating_sub(last.at) < SYNCHRONISE_EVERY_NS)
            || boot_ns < self.diverged_until
        {
            return;
        }
        let told: Vec<Interval> = masters.iter().map(|(_, interval)| *interval).collect();
        // As many may lie as ever: an oscillator that a liar has set would be his second voice.
        let Some(agreed) = agree(&told, self.liars()) else { return };
        let interval = match self.synchronised.zip(self.oscillator) {
            // What it says itself is narrower, if it is as good as it should be.
            Some((last, drift)) => both(last.on(boot_ns, drift), agreed).unwrap_or(agreed),
            None => agreed,
        };
        self.synchronised = Some(Bound { at: boot_ns, interval });
    }
}
