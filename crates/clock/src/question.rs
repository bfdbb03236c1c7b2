//! Questions for the time, and what follows from their answers: the time was what another told
//! after the question was sent, and before the answer was heard.
//!
//! ```text
//!   sent ── Poll ──▶ told              at `now` it is within [told.earliest + (now − heard), told.latest + (now − sent)], give or take the drift
//!    now ◀── answer ─┘ heard
//! ```

use crate::bound::{Bound, Drift};
use crate::rules;
use meridian_machine::planted::broken;
use meridian_machine::{Interval, NodeId};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, VecDeque};

/// Another node is asked so often.
pub const POLL_EVERY_NS: u64 = 200_000_000;

/// A question; the answer names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Poll {
    /// The asker's boot clock.
    #[n(0)]
    pub sent: u64,
}

/// What was asked, and who has answered what.
#[derive(Clone, Debug)]
pub(crate) struct Questions {
    /// An answer is good for so long after the question.
    lasts_ns: u64,
    /// When questions were sent that are still good for an answer.
    asked: VecDeque<u64>,
    /// The newest question that each has answered.
    answered: BTreeMap<NodeId, u64>,
}

impl Questions {
    pub fn new(lasts_ns: u64) -> Self {
        Questions { lasts_ns, asked: VecDeque::new(), answered: BTreeMap::new() }
    }

    /// A question is asked.
    pub fn ask(&mut self, boot_ns: u64) -> Poll {
        self.asked.retain(|sent| boot_ns.saturating_sub(*sent) < self.lasts_ns);
        self.asked.push_back(boot_ns);
        Poll { sent: boot_ns }
    }

    /// Whether this is an answer to a question that was asked, and the first one, and no older than
    /// what this node has answered before.
    pub fn answered(&mut self, from: NodeId, sent: u64) -> bool {
        let newer = self.answered.get(&from).is_none_or(|last| *last < sent);
        let counts = newer && self.asked.contains(&sent);
        if counts {
            self.answered.insert(from, sent);
        }
        counts
    }

    /// How many have ever answered.
    pub fn answerers(&self) -> usize {
        self.answered.len()
    }
}

/// What an answer says.
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

    /// Where the time lies now.
    pub fn on(&self, boot_ns: u64, drift: Drift) -> Interval {
        let since = |at| Bound { at, interval: self.told }.on(boot_ns, drift);
        let from = if broken(rules::ROUND_TRIP_IGNORED) { self.heard } else { self.sent };
        Interval { earliest: since(self.heard).earliest, latest: since(from).latest }
    }
}

/// The narrowest of these.
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
