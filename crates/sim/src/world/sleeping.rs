//! Leaders that sleep through the end of their leases, and wake when others lead.
//!
//! ```text
//!   leads ──┤ asleep: what is for it, or what it said, waits ├── awake: all of that comes, in any order
//!           │                                                │
//!   others: │ · · its leases end ─ another leads, commits ── may be cut off: the sleeper is heard first ──▶
//! ```
//!
//! 1. A node sleeps for longer than a lease, until another leads every shard that it led, or for as
//!    long as was drawn.
//! 2. Nothing is lost of what waits, unless the sleeper's connections broke: then what others said
//!    to it is.
//! 3. A minority sleeps at a time: the others can elect.

use super::{Event, MS, Task, Whom, World};
use crate::carried::Carried;
use crate::faults::{Sleep, Stops};
use meridian_machine::ShardId;
use rand::Rng;
use std::collections::BTreeSet;

/// How often it is looked whether another leads.
const LOOK: u64 = 100 * MS;
/// How much longer than a lease every sleep is.
const AFTER_LEASE: u64 = 500 * MS;

/// A node that sleeps.
pub(super) struct Asleep<R: Carried> {
    sleep: Sleep,
    /// What it led when it fell asleep.
    led: BTreeSet<ShardId>,
    since: u64,
    /// Its successors are cut off already.
    alone: bool,
    /// What waits until it wakes.
    waits: Vec<(Option<Whom>, Event<R>)>,
}

impl<R: Carried> World<R> {
    /// A node that leads falls asleep. False if none does that may.
    pub(super) fn fall_asleep(&mut self, sleep: Sleep) -> bool {
        let asleep = self.nodes.iter().filter(|node| node.asleep.is_some()).count();
        let leads =
            |node: &usize| self.nodes[*node].asleep.is_none() && !self.led(*node).is_empty();
        let leaders: Vec<usize> = (0..self.nodes.len()).filter(leads).collect();
        if leaders.is_empty() || asleep >= (self.nodes.len() - 1) / 2 {
            return false;
        }
        let node = leaders[sleep.turn % leaders.len()];
        let led = self.led(node);
        self.tell(|| format!("{} falls asleep, and leads {led:?}", self.members[node]));
        self.nodes[node].asleep =
            Some(Asleep { sleep, led, since: self.now(), alone: false, waits: Vec::new() });
        self.push(LOOK, Some(Whom { node, life: None }), Event::Rouse);
        true
    }

    fn led(&self, node: usize) -> BTreeSet<ShardId> {
        self.nodes[node].life.as_ref().map(R::led).unwrap_or_default()
    }

    /// Whether a node's processor is stopped.
    pub(super) fn is_stopped(&self, node: usize) -> bool {
        let there = &self.nodes[node];
        let stopped =
            there.asleep.as_ref().is_some_and(|asleep| asleep.sleep.stops != Stops::Links);
        stopped || there.paused_until > self.now()
    }

    /// Keeps an event for which a sleeping node has to wake; gives back any other.
    pub(super) fn outsleeps(&mut self, whom: Option<Whom>, event: Event<R>) -> Option<Event<R>> {
        let from = match &event {
            Event::Frame { from, .. }
            | Event::TimeAsked { from, .. }
            | Event::TimeTold { from, .. }
            | Event::Greeting { from, .. } => Some(*from),
            _ => None,
        };
        let to = whom.map(|whom| whom.node);
        let sleeps = |node: &usize| {
            self.nodes[*node].asleep.as_ref().is_some_and(|asleep| match asleep.sleep.stops {
                Stops::Links => from.is_some(),
                Stops::Processor | Stops::ProcessorAndConnections => to == Some(*node),
            })
        };
        let Some(node) = to.into_iter().chain(from).find(sleeps) else { return Some(event) };
        if let Some(asleep) = &mut self.nodes[node].asleep
            && (from.is_none() || asleep.sleep.stops != Stops::ProcessorAndConnections)
        {
            asleep.waits.push((whom, event));
        }
        None
    }

    /// Whether a task of a node has to wait for the node to wake; it goes on then.
    pub(super) fn sleeps(&mut self, node: usize, task: Task) -> bool {
        match &mut self.nodes[node].asleep {
            Some(asleep) if asleep.sleep.stops != Stops::Links => {
                asleep.waits.push((None, Event::Poll(task)));
                true
            }
            _ => false,
        }
    }

    /// Wakes a node whose time has come.
    pub(super) fn rouse(&mut self, node: usize) {
        let Some(Asleep { sleep, led, since, alone, .. }) = &self.nodes[node].asleep else {
            return;
        };
        let (slept_ns, whom) = (self.now() - since, Some(Whom { node, life: None }));
        let others = (0..self.nodes.len()).filter(|other| *other != node);
        let successors: Vec<usize> =
            others.filter(|other| !self.led(*other).is_disjoint(led)).collect();
        let led_elsewhere: BTreeSet<ShardId> =
            successors.iter().flat_map(|other| self.led(*other)).collect();
        let replaced = led_elsewhere.is_superset(led);
        if !alone
            && (slept_ns < self.lease_ns + AFTER_LEASE || !replaced && slept_ns < sleep.most_ns)
        {
            return self.push(LOOK, whom, Event::Rouse);
        }
        let cut_ns = sleep.successors_cut_ns.filter(|_| self.faulty && !alone && replaced);
        if let Some((before_ns, after_ns)) = cut_ns {
            if let Some(asleep) = &mut self.nodes[node].asleep {
                asleep.alone = true;
            }
            self.cut(&successors, true, true, before_ns + after_ns);
            return self.push(before_ns, whom, Event::Rouse);
        }
        if replaced {
            *self.changed.entry("woken where another leads").or_default() += 1;
        }
        self.tell(|| format!("{} wakes; its successors are {successors:?}", self.members[node]));
        self.wake(node);
    }

    /// A node does not sleep any more: what waited for it comes.
    pub(super) fn wake(&mut self, node: usize) {
        let Some(Asleep { sleep, waits, .. }) = self.nodes[node].asleep.take() else { return };
        for (whom, event) in waits {
            let after = self.rng.random_range(0..sleep.backlog_ns);
            self.push(after, whom, event);
        }
    }
}
