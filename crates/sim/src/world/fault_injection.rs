//! Applies faults to the world, and repairs them for the quiet phase.

use super::{DISK, Event, EventTarget, HAND_OVER_TIMEOUT, LIE, MS, World};
use crate::Defect;
use crate::faults::{FAR, Fault};
use crate::profile::DiskWait;
use crate::sim_protocol::{RequestRouter, SimProtocol};
use crate::world::corruption::Part;
use meridian_machine::steps;
use rand::Rng;

impl<R: SimProtocol> World<R> {
    pub(super) fn next_fault(&mut self) {
        if let Some((after, fault)) = self.nemesis.draw(&mut self.rng, self.nodes.len()) {
            self.push(after, None, Event::Fault(fault));
        }
    }

    pub(super) fn inject_fault(&mut self, fault: Fault) {
        let name = fault.name();
        self.log(|| format!("{fault:?}"));
        if self.apply_fault(fault) {
            *self.struck.entry(name).or_default() += 1;
        }
    }

    /// Applies a fault. Returns false if it has no effect: its target does not run, or too many
    /// nodes suffer already.
    fn apply_fault(&mut self, fault: Fault) -> bool {
        let now = self.now();
        match fault {
            Fault::Cut { nodes, inward, outward, for_ns } => {
                self.cut(&nodes, inward, outward, for_ns)
            }
            Fault::CutPair { from, to, both, for_ns } => {
                self.network.cut(from, to, now + for_ns);
                if both {
                    self.network.cut(to, from, now + for_ns);
                }
                self.push(for_ns, None, Event::Reach);
            }
            Fault::Alone { node, for_ns } => {
                self.cut(&[node], true, true, for_ns);
                for other in (0..self.nodes.len()).filter(|other| *other != node) {
                    let for_ns = self.rng.random_range(1..50 * MS);
                    self.crash(other, for_ns);
                }
            }
            Fault::Weather { loss, repeat, straggle } => {
                (self.network.loss, self.network.repeat, self.network.straggle) =
                    (loss, repeat, straggle);
            }
            Fault::Clog { from, to, by_ns, for_ns } => {
                self.network.clog(from, to, by_ns, now + for_ns)
            }
            Fault::Break { a, b } => return self.break_connection(a, b),
            Fault::Drift { node, part, over_ns } => {
                self.nodes[node].clock.slew((part * self.half_width_ns as f64) as i64, over_ns);
            }
            Fault::Strobe { node, for_ns } => {
                let target = Some(EventTarget { node, incarnation: None });
                self.push(
                    0,
                    target,
                    Event::Strobe { reach_ns: self.half_width_ns, until: now + for_ns },
                );
            }
            Fault::Widen { node, times, for_ns } => {
                self.nodes[node].clock.claim(self.half_width_ns * times);
                self.push(for_ns, Some(EventTarget { node, incarnation: None }), Event::Right);
            }
            Fault::Lie { node, by_ns, over_ns } => self.nodes[node].clock.slew(by_ns, over_ns),
            Fault::StrobeBeyond { node, for_ns } => {
                let target = Some(EventTarget { node, incarnation: None });
                self.push(0, target, Event::Strobe { reach_ns: LIE, until: now + for_ns });
            }
            Fault::Freeze { node, for_ns } => {
                self.nodes[node].clock.freeze();
                self.push(for_ns, Some(EventTarget { node, incarnation: None }), Event::Right);
            }
            Fault::FarClock { node, for_ns } => {
                self.nodes[node].clock.slew(FAR as i64, 0);
                self.push(for_ns, Some(EventTarget { node, incarnation: None }), Event::Right);
            }
            Fault::SlowDisk { node, sync_ns } => {
                self.nodes[node].disk = DiskWait::UpTo(sync_ns);
            }
            Fault::FullDisk { node, for_ns } => {
                self.nodes[node].disks.0.set_full(true);
                self.nodes[node].disks.1.set_full(true);
                self.push(for_ns, Some(EventTarget { node, incarnation: None }), Event::Room);
            }
            Fault::SyncFails { node, store, power_after_ns } => {
                let disks = &self.nodes[node].disks;
                if store {
                    disks.1.fail_next_sync()
                } else {
                    disks.0.fail_next_sync()
                }
                if let Some(after) = power_after_ns {
                    let for_ns = self.rng.random_range(1..500 * MS);
                    self.push(
                        after,
                        Some(EventTarget { node, incarnation: None }),
                        Event::Crash { for_ns },
                    );
                }
            }
            Fault::Injury { node, decay } => {
                return self.may_corrupt(node) && self.corrupt(node, decay);
            }
            Fault::Crash { nodes, for_ns } => {
                let living =
                    nodes.iter().filter(|node| self.nodes[**node].process.is_some()).count();
                for node in nodes {
                    let for_ns = for_ns + self.rng.random_range(0..100 * MS);
                    self.crash(node, for_ns);
                }
                return living > 0;
            }
            Fault::Restarts { node, times } => {
                for time in 0..times {
                    let after = self.rng.random_range(0..400 * MS) + u64::from(time) * 200 * MS;
                    let for_ns = self.rng.random_range(1..100 * MS);
                    self.push(
                        after,
                        Some(EventTarget { node, incarnation: None }),
                        Event::Crash { for_ns },
                    );
                }
            }
            Fault::End { node, .. } if self.is_stopped(node) => return false,
            Fault::End { node, for_ns } => {
                let Some(process) = &self.nodes[node].process else { return false };
                let incarnation = Some(process.incarnation);
                R::transfer_leadership(self, node);
                self.push(
                    0,
                    Some(EventTarget { node, incarnation }),
                    Event::End { for_ns, until: now + HAND_OVER_TIMEOUT },
                );
            }
            Fault::Pause { node, for_ns } => self.nodes[node].paused_until = now + for_ns,
            Fault::Sleep(sleep) => return self.fall_asleep(sleep),
            Fault::SlowProcessor { node, step_ns, for_ns } => {
                self.nodes[node].slow = (step_ns, now + for_ns)
            }
            Fault::Lost { node } => {
                if !self.may_corrupt(node) || !self.gone.insert(node) {
                    return false;
                }
                self.crash(node, 0);
            }
            Fault::Wiped { node, forgets, for_ns } => return self.wipe(node, forgets, for_ns),
        }
        true
    }

    pub(super) fn cut(&mut self, nodes: &[usize], inward: bool, outward: bool, for_ns: u64) {
        let until = self.now() + for_ns;
        for a in nodes {
            for b in (0..self.nodes.len()).filter(|b| !nodes.contains(b)) {
                if outward {
                    self.network.cut(*a, b, until);
                }
                if inward {
                    self.network.cut(b, *a, until);
                }
            }
        }
        self.push(for_ns, None, Event::Reach);
        self.reach();
    }

    /// True if the protocol survives the corruption or loss of this node; records the node as
    /// corrupted.
    pub(super) fn may_corrupt(&mut self, node: usize) -> bool {
        // No node can be spared until all have met.
        let begun = self.nodes.iter().all(|node| node.peer_identities.admitted());
        let room = begun && self.corrupted.len() < R::spares(self);
        if room && !self.corrupted.contains_key(&node) {
            let part = if self.rng.random_bool(0.5) { Part::Log } else { Part::Store };
            self.corrupted.insert(node, part);
        }
        self.corrupted.contains_key(&node)
    }

    /// Drops the frames between two nodes, and fails the requests that wait for a response over
    /// that connection.
    fn break_connection(&mut self, a: usize, b: usize) -> bool {
        let between = |target: &Option<EventTarget>, event: &Event<R>| {
            matches!((target, event), (Some(EventTarget { node, .. }), Event::Frame { from, .. })
                if (*node == a && *from == b) || (*node == b && *from == a))
        };
        let before = self.queue.len();
        self.queue.retain(|_, (target, event)| !between(target, event));
        let (one, other) = (self.members[a], self.members[b]);
        for (node, lost) in [(a, other), (b, one)] {
            let Some(process) = &self.nodes[node].process else { continue };
            process.router.lose(lost);
            self.grant(node);
        }
        self.queue.len() < before
    }

    /// Corrects a clock, and restores its original bound.
    pub(super) fn set_right(&mut self, node: usize) {
        if self.options.defect == Some(Defect::ClockLies) {
            return;
        }
        self.nodes[node].clock.claim(self.half_width_ns);
        self.nodes[node].clock.set(0);
        if self.nodes[node].clock.is_far() && self.nodes[node].process.is_some() {
            self.log(|| format!("{} ends: its clock was far ahead", self.members[node]));
            self.end_process(node);
        }
    }

    /// Ends the fault phase, and repairs all faults.
    pub(super) fn quiet(&mut self) {
        self.kills = 0;
        self.faulty = false;
        self.network.heal();
        for node in 0..self.nodes.len() {
            let there = &mut self.nodes[node];
            there.disks.0.set_full(false);
            there.disks.1.set_full(false);
            there.disks.0.take_failed_sync();
            there.disks.1.take_failed_sync();
            (there.disk, there.paused_until, there.slow) = (DISK, 0, (0, 0));
            self.wake(node);
            self.set_right(node);
            self.push(0, Some(EventTarget { node, incarnation: None }), Event::Boot);
        }
        self.reach();
    }

    /// Crashes a node, in some of the calls, if it has just taken the step under test. Returns true
    /// if the node crashed at once, before its effects were carried out.
    pub(super) fn ends_at_step(&mut self, node: usize) -> bool {
        if !steps::taken()
            || self.kills == 0
            || self.nodes[node].process.is_none()
            || self.killers.random_bool(0.7)
        {
            return false;
        }
        self.kills -= 1;
        *self.struck.entry("ended at a step").or_default() += 1;
        let for_ns = self.killers.random_range(MS..4_000 * MS);
        if self.killers.random_bool(0.5) {
            // Its messages are sent and its writes are in progress when it crashes.
            self.push(0, Some(EventTarget { node, incarnation: None }), Event::Crash { for_ns });
            return false;
        }
        self.crash(node, for_ns);
        true
    }
}
