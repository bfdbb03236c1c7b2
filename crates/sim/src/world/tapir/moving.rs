//! Moves of replicas to other nodes, at random times.
//!
//! ```text
//!   Move ──▶ a row { epoch + 1, replicas, former } ──▶ Learn, at each node, sooner or later
//!   CarryOutChange ──▶ a running node waits for their takeover ──▶ a row { former: none } ──▶ Learn
//! ```
//!
//! 1. The rows are in `system`, which this world does not simulate: a row is committed when it is
//!    written, and nodes receive it later. After a crash a node may begin with an older row than
//!    the last one that it received.
//! 2. A node that is lost for good is not needed: where replicas move, at most one of five is lost,
//!    and at least three of five have replicas.

use super::{Event, MS, ProtocolEvent, S, World};
use crate::journal::DATABASE;
use crate::node_process::NodeFailure;
use crate::tapir::Tapir;
use crate::world::{EventTarget, index};
use meridian_machine::{DatabaseId, NodeId};
use meridian_placement::DatabaseRow;
use meridian_systems::replica_rows as rows;
use rand::Rng;
use std::collections::BTreeMap;

/// The time from the start within which all moves of a run begin.
const WITHIN: u64 = 15 * S;
/// The interval at which the completion of a move is checked.
const SEE_TO_EVERY: u64 = 300 * MS;
/// The time after which a node stops waiting for a move, and another node may.
const PATIENCE: u64 = 4 * S;
/// The delay before an action is retried that failed for want of disk space.
const AGAIN: u64 = 100 * MS;

/// The catalog rows of the database, and the number of them that each node has received.
#[derive(Default)]
pub struct Catalog {
    rows: Vec<DatabaseRow>,
    seen: BTreeMap<usize, usize>,
}

impl World<Tapir> {
    /// Draws the number and the times of moves.
    pub(super) fn plan_moves(&mut self) {
        let drawn = if self.movers.random_bool(0.3) { self.movers.random_range(1..8) } else { 0 };
        let moves = self.options.moves.unwrap_or(drawn);
        self.moves = moves > 0;
        if self.moves {
            let replicas = self.some_replicas();
            self.catalog.rows = vec![DatabaseRow { replicas, ..self.newest_row() }];
        }
        for _ in 0..moves {
            let after = self.movers.random_range(0..WITHIN);
            self.push(after, None, Event::Of(ProtocolEvent::Move));
        }
    }

    pub(super) fn newest_row(&self) -> DatabaseRow {
        self.catalog.rows.last().cloned().unwrap_or_else(|| {
            let replicas = self.members[..self.nodes.len() - self.options.gateways].to_vec();
            DatabaseRow { replicas, ..DatabaseRow::new(DatabaseId(DATABASE), "lab") }
        })
    }

    /// Returns the row with which a node's incarnation begins, and its place in the list, from 1.
    pub(super) fn initial_row(&self, node: usize, seed: u64) -> (usize, DatabaseRow) {
        let seen = self.catalog.seen.get(&node).copied().unwrap_or_default();
        let seen = seen.saturating_sub((seed % 3) as usize).max(1);
        (seen, self.catalog.rows.get(seen - 1).cloned().unwrap_or_else(|| self.newest_row()))
    }

    /// Schedules the delivery of later rows to a node that has just booted.
    pub(super) fn see_rows(&mut self, node: usize) {
        let (Some(process), target) = (&self.nodes[node].process, self.target(node)) else {
            return;
        };
        let seen = process.own.start.seen - usize::from(!process.has_applied());
        if self.moves {
            self.catalog.seen.insert(node, seen);
        }
        for row in seen..self.catalog.rows.len() {
            let after = self.movers.random_range(0..500 * MS);
            self.push(after, target, Event::Of(ProtocolEvent::Learn(row)));
        }
    }

    /// Commits a row, and schedules its delivery to all nodes.
    pub(super) fn write_row(&mut self, row: DatabaseRow) {
        self.log(|| {
            format!(
                "epoch {}: replicas on {:?} instead of {:?}",
                row.epoch, row.replicas, row.former
            )
        });
        self.catalog.rows.push(row);
        for node in 0..self.nodes.len() {
            let longest = match self.movers.random_range(0..20) {
                0 => 4 * S,
                1..4 => S,
                _ => 100 * MS,
            };
            let after = self.movers.random_range(0..longest);
            let learn = ProtocolEvent::Learn(self.catalog.rows.len() - 1);
            self.push(after, Some(EventTarget { node, incarnation: None }), Event::Of(learn));
        }
    }

    /// Delivers a row to a node, which applies it.
    pub(super) fn learn(&mut self, node: usize, row: usize) {
        let (target, me) = (self.target(node), self.members[node]);
        let seen = self.catalog.seen.get(&node).copied().unwrap_or_default();
        let Some(process) = self.nodes[node].process.as_mut().filter(|_| row >= seen) else {
            return;
        };
        match process.apply(&self.catalog.rows[row]) {
            Ok(anew) => {
                self.catalog.seen.insert(node, row + 1);
                if anew {
                    let process = self.nodes[node].process.as_ref();
                    let has = process.is_some_and(|process| !process.members.is_empty());
                    let what = if has { "replica taken over" } else { "replica removed" };
                    *self.changed.entry(what).or_default() += 1;
                    let epoch = self.catalog.rows[row].epoch;
                    self.log(|| format!("{what} at {me} in epoch {epoch}"));
                }
            }
            Err(NodeFailure::Full) => {
                self.push(AGAIN, target, Event::Of(ProtocolEvent::Learn(row)))
            }
            Err(why) => return self.node_failure(node, "take over", why),
        }
        self.perform_all(node);
        self.write(node);
    }

    /// Moves the replicas to other nodes; retries later if a move is in progress.
    pub(super) fn move_replicas(&mut self) {
        if !self.open {
            return;
        }
        let (row, replicas) = (self.newest_row(), self.some_replicas());
        if row.dropped {
            return;
        }
        match rows::next(&row, &self.members, &replicas) {
            Ok(next) if next != row => {
                *self.changed.entry("replicas to move").or_default() += 1;
                let epoch = next.epoch;
                self.write_row(next);
                self.push(0, None, Event::Of(ProtocolEvent::CarryOutChange(epoch)));
            }
            Ok(_) => {}
            Err(_) => self.push(S, None, Event::Of(ProtocolEvent::Move)),
        }
    }

    fn some_replicas(&mut self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.members.clone();
        nodes.retain(|node| !self.gone.contains(&index(*node)));
        let fewest = if self.nodes.len() > 3 { 3 } else { 1 };
        let most = (nodes.len() - 1) / 2;
        let many = 2 * self.movers.random_range(fewest / 2..=most) + 1;
        while nodes.len() > many {
            nodes.swap_remove(self.movers.random_range(0..nodes.len()));
        }
        nodes.sort_unstable();
        nodes
    }

    /// Completes a move: lets a node wait until the new replicas have taken over, then commits a
    /// row without former replicas.
    pub(super) fn carry_out_change(&mut self, epoch: u32) {
        let row = self.newest_row();
        if row.epoch != epoch || row.former.is_empty() || row.dropped {
            return;
        }
        let lives = || self.nodes.iter().filter_map(|node| node.process.as_ref());
        if lives().any(|process| process.router.has_seen_taken_over() >= epoch) {
            *self.changed.entry("replicas moved").or_default() += 1;
            return self.write_row(rows::ended(&row, epoch));
        }
        let living: Vec<usize> =
            (0..self.nodes.len()).filter(|node| self.nodes[*node].process.is_some()).collect();
        let busy = lives().any(|process| process.router.is_changing());
        if !busy && !living.is_empty() {
            let node = living[self.movers.random_range(0..living.len())];
            let until = self.nodes[node].clock.reading().boot_ns + PATIENCE;
            let background_task = self.nodes[node]
                .process
                .as_ref()
                .and_then(|process| process.router.change_task(epoch, until));
            background_task
                .into_iter()
                .for_each(|background_task| self.send_out(node, background_task));
        }
        self.push(SEE_TO_EVERY, None, Event::Of(ProtocolEvent::CarryOutChange(epoch)));
    }

    /// True if a node has replicas by the newest row.
    pub(super) fn is_replica(&self, node: usize) -> bool {
        self.newest_row().replicas.contains(&self.members[node])
    }

    /// True if no move that could complete is in progress, every running node has applied the
    /// newest row, and no replica is copying.
    pub(super) fn has_moved(&self) -> bool {
        let row = self.newest_row();
        let is_lost = row.replicas.iter().any(|node| self.gone.contains(&index(*node)));
        let has_seen = |node: usize| {
            self.catalog.seen.get(&node).copied().unwrap_or_default() >= self.catalog.rows.len()
        };
        let lives = |node: &usize| self.nodes[*node].process.is_some();
        (row.former.is_empty() || is_lost || row.dropped)
            && (0..self.nodes.len()).filter(lives).all(has_seen)
            && self.replicas().all(|(_, replica)| !replica.is_copying())
    }
}
