//! Leaders that sleep beyond the end of their leases, and wake when other nodes lead.
//!
//! ```text
//!   leads ──┤ asleep: its incoming or outgoing messages wait ├── awake: they all arrive, in any order
//!           │                                                │
//!   others: │ · · its leases end ─ another leads, commits ── may be cut off: the sleeper's messages arrive first ──▶
//! ```
//!
//! 1. A node sleeps for longer than a lease, until other nodes lead every shard that it led, or for
//!    as long as was drawn.
//! 2. Nothing that waits is lost, unless the sleeper's connections broke: then messages to it are
//!    lost.
//! 3. Only a minority sleeps at a time, so that the other nodes can elect leaders.

use super::{Event, EventTarget, MS, Task, World};
use crate::faults::{Sleep, Stops};
use crate::sim_protocol::SimProtocol;
use meridian_machine::ShardId;
use rand::Rng;
use std::collections::BTreeSet;

/// The interval at which the world checks whether another node leads.
const LOOK: u64 = 100 * MS;
/// The time by which every sleep exceeds a lease.
const AFTER_LEASE: u64 = 500 * MS;

/// The state of a sleeping node.
pub(super) struct Asleep<R: SimProtocol> {
    sleep: Sleep,
    /// The shards that it led when it fell asleep.
    led: BTreeSet<ShardId>,
    since: u64,
    /// True if its successors have been cut off.
    alone: bool,
    /// The events that wait until it wakes.
    waits: Vec<(Option<EventTarget>, Event<R>)>,
}

impl<R: SimProtocol> World<R> {
    /// Puts a leader to sleep. Returns false if no leader may sleep.
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
        self.log(|| format!("{} falls asleep, and leads {led:?}", self.members[node]));
        self.nodes[node].asleep =
            Some(Asleep { sleep, led, since: self.now(), alone: false, waits: Vec::new() });
        self.push(LOOK, Some(EventTarget { node, incarnation: None }), Event::Rouse);
        true
    }

    fn led(&self, node: usize) -> BTreeSet<ShardId> {
        self.nodes[node].process.as_ref().map(R::led).unwrap_or_default()
    }

    /// True if a node's processor is stopped.
    pub(super) fn is_stopped(&self, node: usize) -> bool {
        let there = &self.nodes[node];
        let stopped =
            there.asleep.as_ref().is_some_and(|asleep| asleep.sleep.stops != Stops::Links);
        stopped || there.paused_until > self.now()
    }

    /// Defers an event until the sleeping node wakes; returns the event if it is not affected.
    pub(super) fn outsleeps(
        &mut self,
        target: Option<EventTarget>,
        event: Event<R>,
    ) -> Option<Event<R>> {
        let from = match &event {
            Event::Frame { from, .. }
            | Event::TimeRequest { from, .. }
            | Event::TimeAnswer { from, .. }
            | Event::Greeting { from, .. } => Some(*from),
            _ => None,
        };
        let to = target.map(|target| target.node);
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
            asleep.waits.push((target, event));
        }
        None
    }

    /// Defers a task if its node sleeps; returns true if so.
    pub(super) fn sleeps(&mut self, node: usize, task: Task) -> bool {
        match &mut self.nodes[node].asleep {
            Some(asleep) if asleep.sleep.stops != Stops::Links => {
                asleep.waits.push((None, Event::Poll(task)));
                true
            }
            _ => false,
        }
    }

    /// Wakes a node if its sleep is over; otherwise checks again later.
    pub(super) fn rouse(&mut self, node: usize) {
        let Some(Asleep { sleep, led, since, alone, .. }) = &self.nodes[node].asleep else {
            return;
        };
        let (slept_ns, target) =
            (self.now() - since, Some(EventTarget { node, incarnation: None }));
        let others = (0..self.nodes.len()).filter(|other| *other != node);
        let successors: Vec<usize> =
            others.filter(|other| !self.led(*other).is_disjoint(led)).collect();
        let led_elsewhere: BTreeSet<ShardId> =
            successors.iter().flat_map(|other| self.led(*other)).collect();
        let replaced = led_elsewhere.is_superset(led);
        if !alone
            && (slept_ns < self.lease_ns + AFTER_LEASE || !replaced && slept_ns < sleep.most_ns)
        {
            return self.push(LOOK, target, Event::Rouse);
        }
        let cut_ns = sleep.successors_cut_ns.filter(|_| self.faulty && !alone && replaced);
        if let Some((before_ns, after_ns)) = cut_ns {
            if let Some(asleep) = &mut self.nodes[node].asleep {
                asleep.alone = true;
            }
            self.cut(&successors, true, true, before_ns + after_ns);
            return self.push(before_ns, target, Event::Rouse);
        }
        if replaced {
            *self.changed.entry("woken where another leads").or_default() += 1;
        }
        self.log(|| format!("{} wakes; its successors are {successors:?}", self.members[node]));
        self.wake(node);
    }

    /// Wakes a node, and schedules the events that waited for it.
    pub(super) fn wake(&mut self, node: usize) {
        let Some(Asleep { sleep, waits, .. }) = self.nodes[node].asleep.take() else { return };
        for (target, event) in waits {
            let after = self.rng.random_range(0..sleep.backlog_ns);
            self.push(after, target, event);
        }
    }
}
