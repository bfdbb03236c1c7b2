//! Messages in the network: encoded, delayed, lost, repeated and decoded.

use super::{Event, EventTarget, World, index};
use crate::Defect;
use crate::node_process::address;
use crate::sim_protocol::{MessageOf, RequestRouter, SimProtocol};
use crate::world::processor::Price;
use meridian_machine::{Address, Incarnation, Machine, NodeId, Role, ShardId};
use meridian_placement::DiskId;

impl<R: SimProtocol> World<R> {
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
        let target = self.target(node);
        let now = self.nodes[node].clock.reading_after(pause_ns);
        if deadline.is_some_and(|deadline| now.interval.latest >= deadline) {
            return;
        }
        let Some(process) = &self.nodes[node].process else { return };
        if to.node == me {
            let rest = match to.role {
                Role::Coordinator(session) => {
                    self.log_received(me, me, to.role, &message);
                    process.router.receive(me, session, message)
                }
                Role::Replica => Some(message),
            };
            if let Some(message) = rest.map(Box::new) {
                self.push(
                    pause_ns,
                    target,
                    Event::Local { from: address(me, shard), to: to.shard, message },
                );
            }
            return;
        }
        let from = Address { incarnation: process.incarnation, ..address(me, shard) };
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
        if !self.nodes[node].peer_identities.admitted() {
            return;
        }
        let disk = self.disk(node);
        self.pay(node, Price::Send);
        let bytes = R::write_frame(from, to, message);
        let target = index(to.node);
        for delay in self.network.carry(self.now() + pause_ns, node, target, &mut self.rng) {
            let frame = Event::Frame { from: node, to: target, disk, bytes: bytes.clone() };
            self.push(
                pause_ns + delay,
                Some(EventTarget { node: target, incarnation: None }),
                frame,
            );
        }
    }

    pub(super) fn arrive(&mut self, sender: usize, node: usize, disk: DiskId, bytes: &[u8]) {
        self.note(u64::from(crc32fast::hash(bytes)));
        let Some(process) = &self.nodes[node].process else { return };
        if !self.nodes[node].peer_identities.accepts(self.members[sender], disk) {
            return;
        }
        let (from, to, message) = match R::read_frame(bytes) {
            Ok(frame) => frame,
            Err(why) => {
                return self
                    .fail(format!("a frame of {} cannot be read: {why}", self.members[sender]));
            }
        };
        let accepts = self.options.defect != Some(Defect::EarlierLifeHeard);
        if accepts && to.incarnation != Incarnation(0) && to.incarnation != process.incarnation {
            return; // For an earlier incarnation.
        }
        self.log_received(self.members[node], self.members[sender], to.role, &message);
        let mut rest = None;
        match to.role {
            Role::Coordinator(session) => {
                self.with_router(node, |router| rest = router.receive(from.node, session, message))
            }
            Role::Replica => rest = Some(message),
        }
        if let Some(message) = rest {
            R::receive(self, node, from, to.shard, message);
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
    pub(super) fn log_received(
        &self,
        me: NodeId,
        from: NodeId,
        role: Role,
        message: &MessageOf<R>,
    ) {
        if self.options.log.is_some()
            && let Some(line) = R::line(me, from, role, message)
        {
            self.log(|| line);
        }
    }
}
