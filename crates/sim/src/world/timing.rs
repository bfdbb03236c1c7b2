//! Polls between the nodes' clocks.

use super::{Event, EventTarget, World};
use crate::clock::Answer;
use crate::sim_protocol::SimProtocol;
use meridian_clock::Health;
use meridian_clock::question::{POLL_EVERY_NS, Poll};
use meridian_placement::DiskId;

impl<R: SimProtocol> World<R> {
    pub(super) fn ask_time(&mut self, node: usize) {
        if let Some(unsure_ns) = self.nodes[node].unsure_ns.take() {
            self.measured.unsure_ns.push((self.now() - self.measured_since, unsure_ns));
        }
        let target = self.target(node);
        let (disk, polls) = (self.disk(node), self.nodes[node].clock.poll());
        for (to, poll) in polls {
            self.carry_time(node, super::index(to), Event::TimeRequest { from: node, disk, poll });
        }
        self.push(POLL_EVERY_NS, target, Event::AskTime);
        let reading = self.nodes[node].clock.reading();
        let knows = reading.health == Health::Good;
        if std::mem::replace(&mut self.nodes[node].knows_time, knows) != knows {
            let (me, half_width_ns) = (self.members[node], reading.interval.half_width_ns());
            self.log(|| match knows {
                true => format!("{me} knows the time within {half_width_ns} ns"),
                false => format!("{me} does not know the time any more"),
            });
        }
    }

    pub(super) fn on_time_request(&mut self, node: usize, from: usize, disk: DiskId, poll: Poll) {
        let there = &self.nodes[node];
        if there.process.is_none() || !there.peer_identities.accepts(self.members[from], disk) {
            return;
        }
        let disk = self.disk(node);
        if let Some(answer) = self.nodes[node].clock.answer(poll) {
            self.carry_time(node, from, Event::TimeAnswer { from: node, disk, answer });
        }
    }

    pub(super) fn on_time_answer(
        &mut self,
        node: usize,
        from: usize,
        disk: DiskId,
        answer: Answer,
    ) {
        let slave = self.options.scenario.is_some_and(|scenario| node >= scenario.masters);
        let there = &mut self.nodes[node];
        if there.process.is_some() && there.peer_identities.accepts(self.members[from], disk) {
            there.clock.receive(self.members[from], answer);
            if slave {
                there.unsure_ns = Some(there.clock.reading().interval.half_width_ns());
            }
        }
    }

    fn carry_time(&mut self, node: usize, to: usize, event: Event<R>) {
        if !self.nodes[node].peer_identities.admitted() {
            return;
        }
        // Only the first of repeated copies: a clock ignores duplicates.
        if let Some(delay) =
            self.network.carry(self.now(), node, to, &mut self.rng).into_iter().next()
        {
            self.push(delay, Some(EventTarget { node: to, incarnation: None }), event);
        }
    }
}
