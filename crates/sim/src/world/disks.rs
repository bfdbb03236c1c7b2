//! Disk writes and syncs, which take time.

use super::{Event, EventTarget, MS, World};
use crate::Defect;
use crate::sim_protocol::{RequestRouter, SimProtocol};
use meridian_machine::Machine;
use rand::Rng;

impl<R: SimProtocol> World<R> {
    pub(super) fn write(&mut self, node: usize) {
        let target = self.target(node);
        let there = &mut self.nodes[node];
        let Some(process) =
            there.process.as_mut().filter(|process| process.journal.wants_to_write())
        else {
            return;
        };
        process.journal.syncing = true;
        self.try_write(node, target);
    }

    pub(super) fn try_write(&mut self, node: usize, target: Option<EventTarget>) {
        let there = &mut self.nodes[node];
        let Some(process) = &mut there.process else { return };
        match process.journal.write() {
            Ok(true) => {
                process.router.node().set_disk_full(false);
                let sync_ns = there.disk.draw(&mut self.rng);
                self.push(sync_ns, target, Event::Synced);
            }
            Ok(false) => {
                process.router.node().set_disk_full(true);
                process.journal.syncing = false;
                self.push(100 * MS, target, Event::Write);
            }
            Err(error) => self.node_failure(node, "write its log", error.into()),
        }
    }

    pub(super) fn synced(&mut self, node: usize) {
        let really = self.options.defect != Some(Defect::SyncLost);
        let Some(process) = &mut self.nodes[node].process else { return };
        process.journal.syncing = false;
        match process.journal.sync(really) {
            Ok(through) => {
                for (shard, through) in through {
                    self.step(node, shard, |replica, now, out| {
                        replica.on_durable(now, through, out)
                    });
                }
            }
            Err(error) => return self.node_failure(node, "sync its log", error.into()),
        }
        self.write(node);
    }

    pub(super) fn flush(&mut self, node: usize) {
        let target = self.target(node);
        let checkpoint = self.rng.random_bool(0.4);
        let there = &self.nodes[node];
        if there.process.is_none() {
            return;
        }
        let now_ns = there.clock.reading().interval.earliest;
        if let Err(error) = R::flush(self, node, now_ns, checkpoint) {
            return self.node_failure(node, "settle", error.into());
        }
        let every = self.rng.random_range(50 * MS..500 * MS);
        self.push(every, target, Event::Flush);
        R::on_flushed(self, node);
        self.perform_all(node);
        self.write(node);
    }
}
