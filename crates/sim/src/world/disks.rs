//! Writes and syncs that take their time, and whole copies of a shard.

use super::{Event, HISTORY, MS, S, Whom, World};
use crate::Defect;
use crate::member::{Copy, Unfit};
use meridian_machine::{Machine, ShardId, sometimes};
use meridian_replication::group::Index;
use rand::Rng;

impl World {
    pub(super) fn write(&mut self, node: usize) {
        let whom = self.whom(node);
        let there = &mut self.nodes[node];
        let Some(life) = there.life.as_mut().filter(|life| life.wants_to_write()) else { return };
        life.syncing = true;
        self.try_write(node, whom);
    }

    pub(super) fn try_write(&mut self, node: usize, whom: Option<Whom>) {
        let there = &mut self.nodes[node];
        let Some(life) = &mut there.life else { return };
        match life.write() {
            Ok(true) => {
                life.desk.set_disk_full(false);
                let sync_ns = self.rng.random_range(there.sync_ns / 10..=there.sync_ns);
                self.push(sync_ns, whom, Event::Synced);
            }
            Ok(false) => {
                life.desk.set_disk_full(true);
                life.syncing = false;
                self.push(100 * MS, whom, Event::Write);
            }
            Err(error) => self.unfit(node, "write its log", error.into()),
        }
    }

    pub(super) fn synced(&mut self, node: usize) {
        let really = self.options.defect != Some(Defect::SyncLost);
        if self.nodes[node].sync_fails {
            // Nothing is known any more of what the disk holds: the process ends, and reads it again.
            sometimes!("a sync fails");
            let for_ns = self.rng.random_range(1..100 * MS);
            return self.crash(node, for_ns);
        }
        let Some(life) = &mut self.nodes[node].life else { return };
        life.syncing = false;
        match life.sync(really) {
            Ok(through) => {
                for (shard, through) in through {
                    self.step(node, shard, |replica, now, out| replica.on_durable(now, through, out));
                }
            }
            Err(error) => return self.unfit(node, "sync its log", error.into()),
        }
        self.write(node);
    }

    pub(super) fn settle(&mut self, node: usize) {
        let whom = self.whom(node);
        let checkpoint = self.rng.random_bool(0.4);
        let there = &mut self.nodes[node];
        let Some(life) = &mut there.life else { return };
        let now_ns = there.clock.reading().interval.earliest;
        if let Err(error) = life.settle(now_ns, HISTORY, checkpoint, self.options.defect) {
            return self.unfit(node, "settle", error.into());
        }
        let every = self.rng.random_range(50 * MS..500 * MS);
        self.push(every, whom, Event::Settle);
        self.bear_children(node);
        self.perform_all(node);
        self.write(node);
    }

    pub(super) fn copy_out(
        &mut self,
        node: usize,
        shard: ShardId,
        to: usize,
        (index, witness): (Index, bool),
        tries: u32,
    ) {
        let whom = self.whom(node);
        let Some(life) = &self.nodes[node].life else { return };
        match life.whole(shard, index, witness) {
            Ok(Some(mut copy)) => {
                copy.extent.position += u64::from(self.options.defect == Some(Defect::CopyClaimsMore));
                let position = Index(copy.extent.position);
                let delay = self.rng.random_range(MS..50 * MS);
                let away = self.nodes[to].life.is_none() || !self.nodes[to].acquaintances.admitted();
                let lost = !self.network.open(self.now(), node, to) || away;
                if lost {
                    // Given up after a while: the group begins anew.
                    self.push(3 * S, whom, Event::CopyDone { shard, to, index: Index(0) });
                } else {
                    let receiver = self.whom(to);
                    self.push(delay, receiver, Event::CopyIn { shard, from: node, copy: Some(copy), index: position });
                    self.push(3 * S, whom, Event::CopyDone { shard, to, index: Index(0) });
                }
            }
            Ok(None) if tries < 20 => {
                self.push(100 * MS, whom, Event::CopyOut { shard, to, index, witness, tries: tries + 1 });
            }
            Ok(None) => self.push(0, whom, Event::CopyDone { shard, to, index: Index(0) }),
            Err(error) => self.unfit(node, "copy", error.into()),
        }
    }

    pub(super) fn copy_in(&mut self, node: usize, shard: ShardId, from: usize, copy: Option<Copy>, index: Index) {
        let sender = self.whom(from);
        let there = &mut self.nodes[node];
        let (Some(life), Some(copy)) = (&mut there.life, copy) else { return };
        match life.learn_births(there.clock.reading(), shard, &copy) {
            Ok(true) => self.perform(node, shard),
            Ok(false) => {}
            Err(why) => return self.unfit(node, "read a copy", why),
        }
        let there = &mut self.nodes[node];
        let Some(life) = &mut there.life else { return }; // It ended at a step.
        match life.take_over(there.clock.reading(), shard, copy) {
            Ok(()) => {
                *self.changed.entry("whole copy").or_default() += 1;
                self.tell(|| format!("{} goes on from a copy through {}", self.members[node], index.0));
                self.push(MS, sender, Event::CopyDone { shard, to: node, index });
            }
            Err(Unfit::Full) => {} // No room: the sender gives up, and tries again.
            Err(why) => return self.unfit(node, "take a copy", why),
        }
        self.bear_children(node);
        self.perform_all(node);
    }
}
