//! The end of a world in which replicas move: the database is dropped while clients use it and
//! nodes lose their power.
//!
//! A node that has removed its replicas may begin again with an older row of the catalog, and with
//! what its disks have kept. At the end no client waits, and no node has a replica or a row.

use super::{Event, LIVENESS, MS, ProtocolEvent, S, World};
use crate::tapir::Tapir;
use meridian_placement::DatabaseRow;
use rand::Rng;

/// The time in which clients use the database while it is dropped.
const IN_USE: u64 = 5 * S;

impl World<Tapir> {
    /// Drops the database, and checks that nothing of it remains. The history of the run is judged
    /// before.
    pub(super) fn drop_database(&mut self) -> Result<(), String> {
        let (history, quiet) = (std::mem::take(&mut self.history), self.quiet_transactions);
        let failures = self.failures.clone();
        self.open = true;
        for client in 0..self.clients.len() {
            self.push(0, None, Event::Begin(client));
        }
        let after = self.movers.random_range(0..S);
        self.push(after, None, Event::Of(ProtocolEvent::Drop));
        for _ in 0..self.movers.random_range(1..6) {
            let after = self.movers.random_range(0..IN_USE);
            self.push(after, None, Event::Of(ProtocolEvent::LosePower));
        }
        self.until(IN_USE, |_| false);
        self.open = false;
        let ended = self.until(LIVENESS, Self::has_ended);
        // What clients were told meanwhile is not part of the run.
        (self.history, self.quiet_transactions, self.failures) = (history, quiet, failures);
        if let Some(why) = self.violation.take() {
            return Err(format!("while the database is dropped: {why}"));
        }
        if !ended {
            return Err(format!(
                "the database is not dropped {} s after its clients stopped: {}",
                LIVENESS / S,
                self.what_is_left()
            ));
        }
        self.nothing_remains()
    }

    /// Commits the row of the dropped database.
    pub(super) fn drop_row(&mut self) {
        *self.changed.entry("database dropped").or_default() += 1;
        let row = self.newest_row();
        self.write_row(DatabaseRow { dropped: true, ..row });
    }

    /// A random node loses power.
    pub(super) fn lose_power(&mut self) {
        let node = self.movers.random_range(0..self.nodes.len());
        let for_ns = self.movers.random_range(MS..S);
        self.crash(node, for_ns);
    }

    fn has_ended(world: &Self) -> bool {
        let lives = || world.nodes.iter().filter_map(|node| node.process.as_ref());
        lives().count() + world.gone.len() == world.nodes.len()
            && world.has_moved()
            && world.clients.iter().all(|client| client.attempt.is_none())
            && lives().all(|process| process.members.is_empty())
    }

    fn nothing_remains(&self) -> Result<(), String> {
        for (node, there) in self.nodes.iter().enumerate() {
            let Some(process) = &there.process else { continue };
            let left = process.rows_left().or_else(|why| {
                let harmed = self.corrupted.contains_key(&node);
                if harmed {
                    Ok(0)
                } else {
                    Err(format!("{} cannot be read: {why}", self.members[node]))
                }
            })?;
            if left > 0 {
                return Err(format!(
                    "{} has {left} rows of the dropped database",
                    self.members[node]
                ));
            }
        }
        Ok(())
    }
}
