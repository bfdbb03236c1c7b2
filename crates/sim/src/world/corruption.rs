//! Corruption of disks, and the nodes that detect it and end.
//!
//! 1. Only a minority of the nodes is ever corrupted, and a corrupted node never recovers.
//! 2. A node that detects damage ends, and does not come back. A node that reports damage without
//!    having been corrupted is a violation.
//! 3. A corrupted node's messages are trusted as any other's: it must detect the damage before it
//!    sends anything wrong.
//!
//! **Left out.** The part of the log that no later record vouches for is not corrupted: there a
//! flipped bit cannot be told from a torn end (see the log's rule 4). The newest segment is never
//! lost, for the same reason.

use super::{Event, EventTarget, MS, World};
use crate::faults::Decay;
use crate::node_process::NodeFailure;
use crate::sim_protocol::SimProtocol;
use meridian_log::{Disk, MemoryDisk};
use meridian_machine::sometimes;
use rand::Rng;

const BLOCK: u64 = 4096;
/// The number of bits of a store that flip at once; `STRIDE` is the distance between them.
const FLIPS: u64 = 24;
const STRIDE: u64 = 7 * BLOCK + 611;

/// The corrupted part of a node. If both parts were corrupted, one would mostly be detected before
/// the other mattered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Log,
    Store,
}

impl<R: SimProtocol> World<R> {
    /// Corrupts bytes of a disk. Returns false if there are none.
    pub(super) fn corrupt(&mut self, node: usize, decay: Decay) -> bool {
        if let Decay::FileLost = decay {
            return self.lose_file(node);
        }
        let log = self.corrupted.get(&node) == Some(&Part::Log) && !matches!(decay, Decay::Astray);
        let vouched =
            self.nodes[node].process.as_ref().and_then(|process| process.journal.vouched());
        let there = &self.nodes[node];
        let disk = if log { there.disks.0.clone() } else { there.disks.1.clone() };
        let Some((name, length)) = self.some_bytes(&disk, log, vouched) else { return false };
        // The engine fills its file from the beginning. The draw must not depend on the file's
        // contents: its unused bytes differ in a debug build.
        let part: f64 = self.rng.random_range(0.0..1.0);
        let at = (length as f64 * if log { part } else { part * part }) as u64;
        match decay {
            Decay::Rot => {
                let mask = 1 << self.rng.random_range(0..8);
                // Most of the store's file is unused, so many bits flip at once.
                let times = if log { 1 } else { FLIPS };
                (0..times).for_each(|time| disk.rot(&name, (at + time * STRIDE) % length, mask));
            }
            Decay::Misplaced => {
                let piece = if log { 512 } else { BLOCK };
                if length < 2 * piece {
                    return false;
                }
                let place = |at: u64| (at / piece * piece).min(length - piece);
                let (from, to) = (place(at), place(self.rng.random_range(0..length)));
                disk.misplace(&name, from, to, piece as usize);
            }
            Decay::Astray => {
                let blocks = self.rng.random_range(1..40) * BLOCK as i64;
                disk.misdirect(&name, if self.rng.random_bool(0.5) { blocks } else { -blocks });
            }
            Decay::FileLost => {}
        }
        true
    }

    /// Returns a random file, and the number of its bytes that may be corrupted.
    fn some_bytes(
        &mut self,
        disk: &MemoryDisk,
        log: bool,
        vouched: Option<(String, u64)>,
    ) -> Option<(String, u64)> {
        let mut names: Vec<String> = disk.list().ok()?;
        if log {
            names.retain(|name| name.starts_with("log-"));
        }
        if names.is_empty() {
            return None;
        }
        let name = names.swap_remove(self.rng.random_range(0..names.len()));
        let whole = disk.open(&name).ok()?.len().ok()?;
        let length = match vouched {
            _ if !log => whole,
            Some((open, until)) if open == name => until,
            Some((open, _)) if name < open => whole,
            // The node does not run, or the segment is about to begin.
            _ => 0,
        };
        (length > 0).then_some((name, length))
    }

    /// Crashes a node, and removes one of its files.
    fn lose_file(&mut self, node: usize) -> bool {
        let for_ns = self.rng.random_range(1..500 * MS);
        let newest = self.nodes[node]
            .process
            .as_ref()
            .and_then(|process| process.journal.vouched())
            .map(|(open, _)| open);
        let Some(newest) = newest else { return false };
        self.crash(node, for_ns);
        let there = &self.nodes[node];
        let log = self.corrupted.get(&node) == Some(&Part::Log);
        let disk = if log { there.disks.0.clone() } else { there.disks.1.clone() };
        let mut names = disk.list().unwrap_or_default();
        names.retain(|name| !log || *name < newest);
        if names.is_empty() {
            return false;
        }
        let name = names.swap_remove(self.rng.random_range(0..names.len()));
        self.log(|| format!("{} loses {name}", self.members[node]));
        disk.remove(&name).is_ok()
    }

    /// Handles an error after which a node cannot continue.
    pub(super) fn node_failure(&mut self, node: usize, doing: &str, why: NodeFailure) {
        let me = self.members[node];
        match why {
            NodeFailure::Damaged(what) if self.corrupted.contains_key(&node) => {
                self.log(|| format!("{me} ends for good, unable to {doing}: {what}"));
                *self.struck.entry("damage found").or_default() += 1;
                self.gone.insert(node);
                self.crash(node, 0);
            }
            // Its store is gone and the disk is full: the node boots again, until there is room.
            NodeFailure::Full if self.corrupted.contains_key(&node) => {
                self.push(100 * MS, Some(EventTarget { node, incarnation: None }), Event::Boot);
            }
            NodeFailure::Full => self.fail(format!("{me} cannot {doing} on a full disk")),
            // The process no longer knows what the disk holds: it ends, and the next one reads the
            // disk.
            NodeFailure::Refused(what) => {
                let disks = self.nodes[node].disks.clone();
                if !(disks.0.take_failed_sync() | disks.1.take_failed_sync()) {
                    return self
                        .fail(format!("{me} cannot {doing}, and its disks did not fail: {what}"));
                }
                sometimes!("a sync fails");
                self.log(|| format!("{me} ends its process, unable to {doing}: {what}"));
                self.end_process(node);
            }
            NodeFailure::Damaged(what) => {
                self.fail(format!("{me} cannot {doing}, but its disks were not corrupted: {what}"))
            }
            NodeFailure::Wrong(what) => self.fail(format!("{me} cannot {doing}: {what}")),
        }
    }

    /// Shuts a node down in order, once it leads no shard.
    pub(super) fn end(&mut self, node: usize, for_ns: u64, until: u64) {
        let target = self.target(node);
        let Some(process) = &self.nodes[node].process else { return };
        if !R::led(process).is_empty() && self.now() < until {
            return self.push(MS, target, Event::End { for_ns, until });
        }
        if let Some(process) = self.leave(node) {
            process.journal.end();
        }
        self.push(for_ns, Some(EventTarget { node, incarnation: None }), Event::Boot);
        self.reach();
    }
}
