//! Polls of other nodes' clocks, and the bounds that follow from the answers: the clock showed the
//! answered value after the poll was sent and before the answer was received.
//!
//! ```text
//!   sent ── Poll ──▶ told     at `now` the clock is at least told.earliest + (now − heard)
//!    now ◀── answer ─┘ heard  and at most told.latest + (now − sent), plus or minus the drift
//! ```

use crate::bound::{Bound, Drift};
use crate::rules;
use meridian_machine::planted::broken;
use meridian_machine::{Interval, NodeId};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, VecDeque};

/// The interval between polls of a node, in nanoseconds.
pub const POLL_EVERY_NS: u64 = 200_000_000;

/// A poll; the answer repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Poll {
    /// The polling node's boot clock.
    #[n(0)]
    pub sent: u64,
}

/// The polls that were sent, and the newest one that each node has answered.
#[derive(Clone, Debug)]
pub(crate) struct Questions {
    /// The time after the poll for which an answer is valid, in nanoseconds.
    lasts_ns: u64,
    /// The times of the polls whose answers are still valid.
    asked: VecDeque<u64>,
    /// The newest poll that each node has answered.
    answered: BTreeMap<NodeId, u64>,
}

impl Questions {
    pub fn new(lasts_ns: u64) -> Self {
        Questions { lasts_ns, asked: VecDeque::new(), answered: BTreeMap::new() }
    }

    /// Records and returns a new poll.
    pub fn ask(&mut self, boot_ns: u64) -> Poll {
        self.asked.retain(|sent| boot_ns.saturating_sub(*sent) < self.lasts_ns);
        self.asked.push_back(boot_ns);
        Poll { sent: boot_ns }
    }

    /// True if this is the first answer to a poll that was sent, and that poll is newer than those
    /// that the node has answered before.
    pub fn answered(&mut self, from: NodeId, sent: u64) -> bool {
        let newer = self.answered.get(&from).is_none_or(|last| *last < sent);
        let counts = newer && self.asked.contains(&sent);
        if counts {
            self.answered.insert(from, sent);
        }
        counts
    }

    /// Returns the number of nodes that have ever answered.
    pub fn answerers(&self) -> usize {
        self.answered.len()
    }
}

/// An answer, with the times of poll and answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub sent: u64,
    pub heard: u64,
    pub told: Interval,
}

impl Sample {
    pub fn round_trip_ns(&self) -> u64 {
        self.heard.saturating_sub(self.sent)
    }

    /// Returns the interval that the answer implies now.
    pub fn on(&self, boot_ns: u64, drift: Drift) -> Interval {
        let since = |at| Bound { at, interval: self.told }.on(boot_ns, drift);
        let from = if broken(rules::ROUND_TRIP_IGNORED) { self.heard } else { self.sent };
        Interval { earliest: since(self.heard).earliest, latest: since(from).latest }
    }
}

/// Returns the sample with the narrowest interval.
pub(crate) fn narrowest<'a>(
    samples: impl Iterator<Item = &'a Sample>,
    boot_ns: u64,
    drift: Drift,
) -> Option<&'a Sample> {
    samples.min_by_key(|sample| {
        let Interval { earliest, latest } = sample.on(boot_ns, drift);
        latest.saturating_sub(earliest)
    })
}
