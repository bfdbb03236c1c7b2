//! Messages in the network: encoded, delayed, lost, repeated and decoded.

use super::{Event, Whom, World, index};
use crate::Defect;
use crate::carried::{Carried, Desk, MessageOf};
use crate::life::address;
use crate::world::processor::Price;
use meridian_machine::{Address, Incarnation, Machine, NodeId, Role, ShardId};
use meridian_placement::DiskId;

impl<R: Carried> World<R> {
    pub(super) fn send(
        &mut self,
        node: usize,
        shard: ShardId,
        pause_ns: u64,
        deadline: Option<u64>,
        to: Address,
        message: MessageOf<R>,
    ) {
        let me = self.members[node];
        let whom = self.whom(node);
        let now = self.nodes[node].clock.reading_after(pause_ns);
        if deadline.is_some_and(|deadline| now.interval.latest >= deadline) {
            return;
        }
        let Some(life) = &self.nodes[node].life else { return };
        if to.node == me {
            let rest = match to.role {
                Role::Coordinator(session) => {
                    self.tell_heard(me, me, to.role, &message);
                    life.desk.hear(me, session, message)
                }
                Role::Replica => Some(message),
            };
            if let Some(message) = rest.map(Box::new) {
                self.push(
                    pause_ns,
                    whom,
                    Event::Local { from: address(me, shard), to: to.shard, message },
                );
            }
            return;
        }
        let from = Address { incarnation: life.incarnation, ..address(me, shard) };
        self.carry(node, pause_ns, from, to, &message);
    }

    pub(super) fn carry(
        &mut self,
        node: usize,
        pause_ns: u64,
        from: Address,
        to: Address,
        message: &MessageOf<R>,
    ) {
        if !self.nodes[node].acquaintances.admitted() {
            return;
        }
        let disk = self.disk(node);
        self.pay(node, Price::Send);
        let bytes = R::write_frame(from, to, message);
        let target = index(to.node);
        for delay in self.network.carry(self.now() + pause_ns, node, target, &mut self.rng) {
            let frame = Event::Frame { from: node, to: target, disk, bytes: bytes.clone() };
            self.push(pause_ns + delay, Some(Whom { node: target, life: None }), frame);
        }
    }

    pub(super) fn arrive(&mut self, sender: usize, node: usize, disk: DiskId, bytes: &[u8]) {
        self.note(u64::from(crc32fast::hash(bytes)));
        let Some(life) = &self.nodes[node].life else { return };
        if !self.nodes[node].acquaintances.heeds(self.members[sender], disk) {
            return;
        }
        let (from, to, message) = match R::read_frame(bytes) {
            Ok(frame) => frame,
            Err(why) => {
                return self
                    .fail(format!("a frame of {} cannot be read: {why}", self.members[sender]));
            }
        };
        let heeds = self.options.defect != Some(Defect::EarlierLifeHeard);
        if heeds && to.incarnation != Incarnation(0) && to.incarnation != life.incarnation {
            return; // For an earlier incarnation.
        }
        self.tell_heard(self.members[node], self.members[sender], to.role, &message);
        let mut rest = None;
        match to.role {
            Role::Coordinator(session) => {
                self.with_desk(node, |desk| rest = desk.hear(from.node, session, message))
            }
            Role::Replica => rest = Some(message),
        }
        if let Some(message) = rest {
            R::hear(self, node, from, to.shard, message);
        }
    }

    /// Delivers a message to a shard's replica at a node, and carries out the replica's effects.
    pub fn deliver(&mut self, node: usize, from: Address, shard: ShardId, message: MessageOf<R>) {
        match self.member(node, shard) {
            Some(_) => self
                .step(node, shard, |replica, now, out| replica.on_message(now, from, message, out)),
            None => R::miss(self, node, from, shard, message),
        }
    }

    /// Writes a received message to the trace, if the protocol renders it.
    pub(super) fn tell_heard(&self, me: NodeId, from: NodeId, role: Role, message: &MessageOf<R>) {
        if self.options.tell.is_some()
            && let Some(line) = R::line(me, from, role, message)
        {
            self.tell(|| line);
        }
    }
}
