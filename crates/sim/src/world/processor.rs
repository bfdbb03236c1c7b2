//! A node's one processor: what is for a node that is busy waits, in order.

use super::{Event, Whom, World};

impl World {
    /// Whether an event has to wait; then it does.
    pub(super) fn queues(&mut self, node: usize, whom: Option<Whom>, event: Event) -> Option<Event> {
        let now = self.now();
        let there = &mut self.nodes[node];
        if there.busy_until <= now && there.inbox.is_empty() {
            return Some(event);
        }
        let first = there.inbox.is_empty();
        there.inbox.push_back((whom, event));
        if first {
            let free = there.busy_until;
            self.push_at(free, Some(Whom { node, life: None }), Event::Free);
        }
        None
    }

    /// The next of those that wait has its turn.
    pub(super) fn free(&mut self, node: usize) {
        let Some((whom, event)) = self.nodes[node].inbox.pop_front() else { return };
        if self.is_there(whom) {
            self.take_place(whom, event);
        }
        if !self.nodes[node].inbox.is_empty() {
            let free = self.nodes[node].busy_until;
            self.push_at(free, Some(Whom { node, life: None }), Event::Free);
        }
    }

    /// What a node does takes its time.
    pub(super) fn work(&mut self, node: usize) {
        let (now, there) = (self.now(), &mut self.nodes[node]);
        let (step_ns, until) = there.slow;
        if now < until {
            there.busy_until = now + step_ns;
        }
    }
}
