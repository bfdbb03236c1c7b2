//! Messages on their way: encoded, delayed, lost, repeated, decoded.

use super::{Event, Whom, World, index};
use crate::Defect;
use crate::member;
use crate::world::processor::Price;
use meridian_machine::{Address, Incarnation, Machine, NodeId, Role, ShardId};
use meridian_placement::DiskId;
use meridian_systems::envelope::{self, Kind};
use meridian_systems::spanner::Message;
use meridian_txn::locking::{Ask, Reply, Request, Seat};

impl World {
    pub(super) fn send(
        &mut self,
        node: usize,
        shard: ShardId,
        pause_ns: u64,
        deadline: Option<u64>,
        to: Address,
        message: Message,
    ) {
        let me = self.members[node];
        let whom = self.whom(node);
        let now = self.nodes[node].clock.reading_after(pause_ns);
        if deadline.is_some_and(|deadline| now.interval.latest >= deadline) {
            return;
        }
        let Some(life) = &self.nodes[node].life else { return };
        if to.node == me {
            match (to.role, message) {
                (Role::Coordinator(number), Message::Answer(reply)) => {
                    self.tell_heard(me, me, to.role, &Message::Answer(reply.clone()));
                    life.desk.hear(number, reply);
                }
                (_, message) => {
                    let message = Box::new(message);
                    let from = member::address(me, shard);
                    self.push(pause_ns, whom, Event::Local { from, to: to.shard, message });
                }
            }
            return;
        }
        let from = Address { incarnation: life.incarnation, ..member::address(me, shard) };
        self.carry(node, pause_ns, from, to, &message);
    }

    pub(super) fn carry(&mut self, node: usize, pause_ns: u64, from: Address, to: Address, message: &Message) {
        if !self.nodes[node].acquaintances.admitted() {
            return;
        }
        let disk = self.disk(node);
        self.pay(node, Price::Send);
        let bytes = envelope::write_frame(Kind::Spanner, from, to, message);
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
        let (from, to, message): (Address, Address, Message) = match envelope::read_frame(Kind::Spanner, bytes) {
            Ok(frame) => frame,
            Err(why) => return self.fail(format!("a frame of {} cannot be read: {why}", self.members[sender])),
        };
        let heeds = self.options.defect != Some(Defect::EarlierLifeHeard);
        if heeds && to.incarnation != Incarnation(0) && to.incarnation != life.incarnation {
            return; // For an earlier life.
        }
        self.tell_heard(self.members[node], self.members[sender], to.role, &message);
        match (to.role, message) {
            (Role::Coordinator(number), Message::Answer(reply)) => {
                self.with_desk(node, |desk| desk.0.hear(number, reply))
            }
            (_, Message::Leads(term)) => {
                life.desk.set_leadership(Seat { shard: to.shard, node: from.node }, term.0);
            }
            (_, message) => {
                self.invite(node, to.shard, &message);
                self.deliver(node, from, to.shard, message);
            }
        }
    }

    /// A member hears a message. Where there is none, who asks is told so.
    pub(super) fn deliver(&mut self, node: usize, from: Address, shard: ShardId, message: Message) {
        if self.member(node, shard).is_some() {
            return self.step(node, shard, |replica, now, out| replica.on_message(now, from, message, out));
        }
        let Message::Ask(Request { id, .. }) = message else { return };
        let Some(life) = &self.nodes[node].life else { return };
        let leader = life.desk.elsewhere(shard).map(|node| node.0);
        self.send(node, shard, 0, None, from, Message::Answer(Reply::NotLeader { id, leader }));
    }

    /// Tells what coordinators and leaders say to one another; what members say among themselves is too much for a reader.
    pub(super) fn tell_heard(&self, me: NodeId, from: NodeId, role: Role, message: &Message) {
        match (role, message) {
            (
                _,
                Message::Ask(Request { ask: Ask::KeepAlive, .. })
                | Message::Group(_)
                | Message::Shown(_)
                | Message::Leads(_),
            ) => {}
            (_, Message::Between(between)) => self.tell(|| format!("{me} hears from {from}: {between:?}")),
            (_, Message::Ask(Request { transaction, id, footing, ask, .. })) => self.tell(|| {
                let what = match ask {
                    Ask::Read { range, lock, .. } => format!("reads {range:?} {lock:?}"),
                    Ask::Snapshot { at, range, .. } => format!("reads {range:?} at {at:?}"),
                    Ask::Commit { writes, participants, .. } => {
                        format!("commits {} writes with {participants:?}", writes.len())
                    }
                    Ask::Prepare { writes, coordinator, .. } => {
                        format!("prepares {} writes for {coordinator:?}", writes.len())
                    }
                    Ask::Split { at, shard } => format!("splits {at:?} off as {}", shard.0),
                    Ask::LastTs { range } => format!("asks for the newest commit in {range:?}"),
                    Ask::Members(members) => format!("wants {members:?}"),
                    Ask::Abort | Ask::KeepAlive => "gives up".to_owned(),
                    Ask::Withdraw => "wants nothing any more".to_owned(),
                };
                format!("{me} is asked by {from}: {}.{id} {what}, on {footing:?}", transaction.number)
            }),
            (Role::Coordinator(number), Message::Answer(reply)) => self.tell(|| {
                let what = match reply {
                    Reply::Rows { footing, at, .. } => format!("rows as of {at}, on {footing:?}"),
                    other => format!("{other:?}"),
                };
                format!("{me} hears from {from}: {number}.{} {what}", reply.id())
            }),
            (Role::Replica, Message::Answer(_)) => {}
        }
    }
}
