//! The processor of each node: events for a busy node wait, in order.

use super::{Event, EventTarget, MS, S, World};
use crate::profile::{Costs, Profile};
use crate::sim_protocol::SimProtocol;

/// The time before measurements start, in which leaders are elected.
const WARM: u64 = 2 * S;
/// The clock uncertainty in a data centre, in nanoseconds.
const HALF_WIDTH: u64 = MS / 10;
/// The server of the first group, which may be an authority.
const AUTHORITY: usize = 0;

impl<R: SimProtocol> World<R> {
    /// Enqueues an event if its node is busy; returns it otherwise.
    pub(super) fn queues(
        &mut self,
        node: usize,
        target: Option<EventTarget>,
        event: Event<R>,
    ) -> Option<Event<R>> {
        let now = self.now();
        let there = &mut self.nodes[node];
        if there.busy_until <= now && there.inbox.is_empty() {
            return Some(event);
        }
        let first = there.inbox.is_empty();
        there.inbox.push_back((target, event));
        if first {
            let free = there.busy_until;
            self.push_at(free, Some(EventTarget { node, incarnation: None }), Event::Free);
        }
        None
    }

    /// Carries out the next waiting event of a node.
    pub(super) fn free(&mut self, node: usize) {
        let Some((target, event)) = self.nodes[node].inbox.pop_front() else { return };
        if self.is_there(target) {
            self.take_place(target, event);
        }
        if !self.nodes[node].inbox.is_empty() {
            let free = self.nodes[node].busy_until;
            self.push_at(free, Some(EventTarget { node, incarnation: None }), Event::Free);
        }
    }

    /// Returns the costs of a node, if they are modelled.
    fn costs(&self, node: usize) -> Option<Costs> {
        let (costs, _) = self.options.profile?;
        let authority_ns = self.options.scenario.and_then(|scenario| scenario.authority_ns);
        match authority_ns.filter(|_| node == AUTHORITY) {
            Some(ns) => Some(Costs { receive_ns: ns / 2, send_ns: ns - ns / 2, ..costs }),
            None => Some(costs),
        }
    }

    /// Charges a node's processor for an event.
    pub(super) fn work(&mut self, node: usize, event: &Event<R>) {
        let (now, there) = (self.now(), &mut self.nodes[node]);
        let (step_ns, until) = there.slow;
        if now < until {
            there.busy_until = now + step_ns;
        }
        if let Some(costs) = self.costs(node) {
            self.spend(
                node,
                match event {
                    Event::Frame { .. } => costs.receive_ns,
                    Event::Local { .. } => costs.local_ns,
                    Event::Of(own) if R::is_question(own) => costs.local_ns,
                    Event::Synced => costs.sync_ns,
                    _ => 0,
                },
            );
        }
    }

    /// Makes a node's processor busy for `cost_ns` longer.
    pub(super) fn spend(&mut self, node: usize, cost_ns: u64) {
        let (now, there) = (self.now(), &mut self.nodes[node]);
        there.busy_until = there.busy_until.max(now) + cost_ns;
        there.spent_ns += cost_ns;
    }

    /// Charges a node for a frame that it sends, or for a session's local request.
    pub(super) fn pay(&mut self, node: usize, what: Price) {
        let Some(costs) = self.costs(node) else { return };
        match what {
            Price::Send => {
                self.measured.frames += 1;
                self.spend(node, costs.send_ns);
            }
            Price::Local => self.spend(node, costs.local_ns),
        }
    }

    /// Runs the workload for some seconds of virtual time, and measures it.
    pub(super) fn measure(&mut self, costs: Costs, seconds: u64) {
        // Clocks of a data centre, whatever the seed says: the measurement is of the code's cost.
        self.even(costs, HALF_WIDTH);
        self.until(WARM, |_| false);
        self.begin_count();
        self.until(seconds * S, |_| false);
        self.end_count(seconds * S);
    }

    /// Makes all disks and clocks alike, whatever the seed says.
    pub(super) fn even(&mut self, costs: Costs, half_width_ns: u64) {
        for node in &mut self.nodes {
            node.disk = costs.disk;
            node.clock.claim(half_width_ns);
        }
    }

    pub(super) fn begin_count(&mut self) {
        self.measured_since = self.now();
        self.measured = Profile { well_led: self.well_led, ..Profile::default() };
        self.nodes.iter_mut().for_each(|node| node.spent_ns = 0);
    }

    pub(super) fn end_count(&mut self, window_ns: u64) {
        self.measured.window_ns = window_ns;
        self.measured.busy_ns = self.nodes.iter().map(|node| node.spent_ns).collect();
        self.measured.writes_ns.sort_unstable();
        self.measured.reads_ns.sort_unstable();
    }
}

/// The kinds of charged work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Price {
    Send,
    Local,
}
