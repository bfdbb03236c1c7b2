//! What each fault does to the world, and the quiet after the last.

use super::{Event, MS, Whom, World};
use crate::faults::Fault;
use rand::Rng;

impl World {
    pub(super) fn next_fault(&mut self) {
        if let Some((after, fault)) = self.nemesis.draw(&mut self.rng, self.nodes.len()) {
            self.push(after, None, Event::Fault(fault));
        }
    }

    pub(super) fn strike(&mut self, fault: Fault) {
        *self.struck.entry(fault.name()).or_default() += 1;
        self.tell(|| format!("{fault:?}"));
        let now = self.now();
        match fault {
            Fault::Cut { nodes, inward, outward, for_ns } => {
                for a in &nodes {
                    for b in (0..self.nodes.len()).filter(|b| !nodes.contains(b)) {
                        if outward {
                            self.network.cut(*a, b, now + for_ns);
                        }
                        if inward {
                            self.network.cut(b, *a, now + for_ns);
                        }
                    }
                }
                self.push(for_ns, None, Event::Reach);
                self.reach();
            }
            Fault::Weather { loss, repeat, straggle } => {
                (self.network.loss, self.network.repeat, self.network.straggle) = (loss, repeat, straggle);
            }
            Fault::Drift { node, part } => self.nodes[node].clock.set((part * self.half_width_ns as f64) as i64),
            Fault::SlowDisk { node, sync_ns } => self.nodes[node].sync_ns = sync_ns,
            Fault::FullDisk { node, for_ns } => {
                self.nodes[node].disks.0.set_full(true);
                self.nodes[node].disks.1.set_full(true);
                self.push(for_ns, Some(Whom { node, life: None }), Event::Room);
            }
            Fault::Crash { nodes, for_ns } => {
                for node in nodes {
                    let for_ns = for_ns + self.rng.random_range(0..100 * MS);
                    self.crash(node, for_ns);
                }
            }
            Fault::Pause { node, for_ns } => self.nodes[node].paused_until = now + for_ns,
        }
    }

    /// No fault strikes any more, and what struck is repaired.
    pub(super) fn quiet(&mut self) {
        self.faulty = false;
        self.network.heal();
        for node in 0..self.nodes.len() {
            let there = &mut self.nodes[node];
            there.disks.0.set_full(false);
            there.disks.1.set_full(false);
            (there.sync_ns, there.paused_until) = (2 * MS, 0);
            self.push(0, Some(Whom { node, life: None }), Event::Boot);
        }
        self.reach();
    }
}
