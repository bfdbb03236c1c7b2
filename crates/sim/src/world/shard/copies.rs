//! Copies of whole shards, in pages, for members that lag too far behind: they are sent between the
//! couriers of two nodes, over a network that loses, repeats and delays messages.

use super::{Event, EventTarget, ProtocolEvent, World, index};
use crate::Defect;
use crate::journal::DATABASE;
use crate::node_process::NodeFailure;
use crate::shard::Leaders;
use crate::world::processor::Price;
use meridian_log::MachineKey;
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::StoreError;
use meridian_placement::DiskId;
use meridian_replication::group::Index;
use meridian_store::courier::{Courier, Find, Order, Parcel, Received, Said};
use meridian_systems::envelope::{self, Kind};
use meridian_systems::shard::Participant;
use meridian_systems::shard::{CopyDecision, CopyError};
use std::sync::Arc;

impl<P: Participant> World<Leaders<P>> {
    pub(super) fn send_copy(&mut self, node: usize, order: Order) {
        self.with_courier(node, |courier, now_ns, find| {
            courier.send(now_ns, find, order);
        });
    }

    pub(super) fn tick_courier(&mut self, node: usize) {
        if let Some(process) = &mut self.nodes[node].process {
            process.own.ticks = false;
            self.with_courier(node, |courier, now_ns, find| courier.tick(now_ns, find));
        }
    }

    pub(super) fn receive_parcel(&mut self, node: usize, from: usize, disk: DiskId, bytes: &[u8]) {
        self.note(u64::from(crc32fast::hash(bytes)));
        let sender = self.members[from];
        if self.nodes[node].process.is_none()
            || !self.nodes[node].peer_identities.accepts(sender, disk)
        {
            return;
        }
        match envelope::read(Kind::TRANSFER, bytes) {
            Ok(parcel) => self.with_courier(node, |courier, now_ns, find| {
                courier.receive(now_ns, find, sender, parcel)
            }),
            Err(why) => self.fail(format!("a part of a copy from {sender} cannot be read: {why}")),
        }
    }

    /// Runs a step of a node's courier, and carries out its actions.
    fn with_courier(&mut self, node: usize, act: impl FnOnce(&mut Courier, u64, Find<'_>)) {
        let there = &mut self.nodes[node];
        let now_ns = there.clock.reading().boot_ns;
        let Some(process) = &mut there.process else { return };
        let (members, own) = (&process.members, &mut process.own);
        act(&mut own.courier, now_ns, &|key| {
            Some(Arc::clone(&members.get(&ShardId(key.shard))?.shard_store))
        });
        let (said, ticks_at) = (own.courier.drain(), own.courier.next_tick());
        if let Some(at) = ticks_at
            && !std::mem::replace(&mut own.ticks, true)
        {
            let target = self.target(node);
            self.push(at.saturating_sub(now_ns), target, Event::Of(ProtocolEvent::Courier));
        }
        said.into_iter().for_each(|said| self.carry_out(node, said));
    }

    fn carry_out(&mut self, node: usize, said: Said) {
        let claims_more = u64::from(self.options.defect == Some(Defect::CopyClaimsMore));
        match said {
            Said::Post(to, mut parcel) => {
                if let Parcel::Offer { extent, .. } = &mut parcel {
                    extent.position += claims_more;
                }
                self.post_parcel(node, to, &parcel);
            }
            Said::Began { key: MachineKey { shard, .. }, to, position } => {
                self.step(node, ShardId(shard), |replica, now, out| {
                    replica
                        .with_group(now, out, |group, _| group.snapshot_begun(to, Index(position)));
                });
            }
            Said::Ended { key: MachineKey { shard, .. }, to, position } => {
                let index = Index(if position > 0 { position + claims_more } else { 0 });
                self.step(node, ShardId(shard), |replica, now, out| {
                    replica.with_group(now, out, |group, out| {
                        group.snapshot_delivered(now, to, index, out)
                    });
                });
            }
            Said::Received(received) => {
                self.take_over(node, &received);
                self.with_courier(node, |courier, _, _| courier.taken(&received));
            }
            Said::Failed { error: StoreError::Full { .. }, .. } => {} // Retried later.
            Said::Failed { error, .. } => self.node_failure(node, "copy a shard", error.into()),
        }
    }

    fn post_parcel(&mut self, node: usize, to: NodeId, parcel: &Parcel) {
        if !self.nodes[node].peer_identities.admitted() {
            return;
        }
        let (target, disk) = (index(to), self.disk(node));
        self.pay(node, Price::Send);
        let bytes = envelope::write(Kind::TRANSFER, parcel);
        for delay in self.network.carry(self.now(), node, target, &mut self.rng) {
            let parcel = ProtocolEvent::Parcel { from: node, disk, bytes: bytes.clone() };
            self.push(
                delay,
                Some(EventTarget { node: target, incarnation: None }),
                Event::Of(parcel),
            );
        }
    }

    fn take_over(&mut self, node: usize, received: &Received) {
        debug_assert_eq!(received.key.database, DATABASE);
        let shard = ShardId(received.key.shard);
        loop {
            let there = &mut self.nodes[node];
            let Some(process) = &mut there.process else { return }; // It may crash at a step.
            match process.take_over(there.clock.reading(), received) {
                Ok(CopyDecision::SplitsFirst) => self.perform(node, shard),
                Ok(CopyDecision::Taken) => {
                    *self.changed.entry("whole copy").or_default() += 1;
                    let position = received.extent.position;
                    self.log(|| {
                        format!("{} goes on from a copy through {position}", self.members[node])
                    });
                    break;
                }
                Ok(CopyDecision::Unwanted) => break,
                // The leader will find out.
                Err(CopyError::NotReplaced(NodeFailure::Full)) => break,
                Err(CopyError::Unreadable(why) | CopyError::NotReplaced(why)) => {
                    return self.node_failure(node, "take a copy", why);
                }
            }
        }
        self.create_children(node);
        self.perform_all(node);
    }
}
