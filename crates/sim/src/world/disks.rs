//! Disk writes and syncs, which take time.

use super::{Event, MS, Whom, World};
use crate::Defect;
use crate::carried::{Carried, Desk};
use meridian_machine::Machine;
use rand::Rng;

impl<R: Carried> World<R> {
    pub(super) fn write(&mut self, node: usize) {
        let whom = self.whom(node);
        let there = &mut self.nodes[node];
        let Some(life) = there.life.as_mut().filter(|life| life.journal.wants_to_write()) else {
            return;
        };
        life.journal.syncing = true;
        self.try_write(node, whom);
    }

    pub(super) fn try_write(&mut self, node: usize, whom: Option<Whom>) {
        let there = &mut self.nodes[node];
        let Some(life) = &mut there.life else { return };
        match life.journal.write() {
            Ok(true) => {
                life.desk.node().set_disk_full(false);
                let sync_ns = self.rng.random_range(there.sync_ns / 10..=there.sync_ns);
                self.push(sync_ns, whom, Event::Synced);
            }
            Ok(false) => {
                life.desk.node().set_disk_full(true);
                life.journal.syncing = false;
                self.push(100 * MS, whom, Event::Write);
            }
            Err(error) => self.unfit(node, "write its log", error.into()),
        }
    }

    pub(super) fn synced(&mut self, node: usize) {
        let really = self.options.defect != Some(Defect::SyncLost);
        let Some(life) = &mut self.nodes[node].life else { return };
        life.journal.syncing = false;
        match life.journal.sync(really) {
            Ok(through) => {
                for (shard, through) in through {
                    self.step(node, shard, |replica, now, out| {
                        replica.on_durable(now, through, out)
                    });
                }
            }
            Err(error) => return self.unfit(node, "sync its log", error.into()),
        }
        self.write(node);
    }

    pub(super) fn settle(&mut self, node: usize) {
        let whom = self.whom(node);
        let checkpoint = self.rng.random_bool(0.4);
        let there = &self.nodes[node];
        if there.life.is_none() {
            return;
        }
        let now_ns = there.clock.reading().interval.earliest;
        if let Err(error) = R::settle(self, node, now_ns, checkpoint) {
            return self.unfit(node, "settle", error.into());
        }
        let every = self.rng.random_range(50 * MS..500 * MS);
        self.push(every, whom, Event::Settle);
        R::settled(self, node);
        self.perform_all(node);
        self.write(node);
    }
}
