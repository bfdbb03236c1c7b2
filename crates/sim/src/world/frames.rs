//! Messages on their way: encoded, delayed, lost, repeated, decoded.

use super::{Event, Whom, World, index};
use crate::member;
use meridian_machine::{Address, Incarnation, Machine, Role};
use meridian_systems::envelope;
use meridian_systems::spanner::Message;

impl World {
    pub(super) fn send(&mut self, node: usize, pause_ns: u64, deadline: Option<u64>, to: Address, message: Message) {
        let me = self.members[node];
        let whom = self.whom(node);
        let now = self.nodes[node].clock.reading_after(pause_ns);
        if deadline.is_some_and(|deadline| now.interval.latest >= deadline) {
            return;
        }
        let Some(life) = &self.nodes[node].life else { return };
        if to.node == me {
            match (to.role, message) {
                (Role::Coordinator(number), Message::Answer(reply)) => life.desk.hear(number, reply),
                (_, message) => {
                    let message = Box::new(message);
                    self.push(pause_ns, whom, Event::Local { from: member::address(me), message });
                }
            }
            return;
        }
        let from = Address { incarnation: life.incarnation, ..member::address(me) };
        self.carry(node, pause_ns, from, to, &message);
    }

    pub(super) fn carry(&mut self, node: usize, pause_ns: u64, from: Address, to: Address, message: &Message) {
        let bytes = envelope::write_frame(from, to, message);
        let target = index(to.node);
        for delay in self.network.carry(self.now() + pause_ns, node, target, &mut self.rng) {
            let frame = Event::Frame { from: node, to: target, bytes: bytes.clone() };
            self.push(pause_ns + delay, Some(Whom { node: target, life: None }), frame);
        }
    }

    pub(super) fn arrive(&mut self, sender: usize, node: usize, bytes: &[u8]) {
        self.note(u64::from(crc32fast::hash(bytes)));
        let Some(life) = &self.nodes[node].life else { return };
        let (from, to, message): (Address, Address, Message) = match envelope::read_frame(bytes) {
            Ok(frame) => frame,
            Err(why) => return self.fail(format!("a frame of {} cannot be read: {why}", self.members[sender])),
        };
        if to.incarnation != Incarnation(0) && to.incarnation != life.incarnation {
            return; // For an earlier life.
        }
        match (to.role, message) {
            (Role::Coordinator(number), Message::Answer(reply)) => {
                self.with_desk(node, |desk| desk.0.hear(number, reply))
            }
            (_, message) => self.step(node, |replica, now, out| replica.on_message(now, from, message, out)),
        }
    }
}
