//! Runs one transaction after the other, on a network where each message takes the same time and
//! nothing else takes any, and counts sequential message delays.

use super::{Event, EventTarget, IDLE_AFTER, MS, S, World};
use crate::client;
use crate::profile::DiskWait;
use crate::retention::Retention;
use crate::sim_protocol::SimProtocol;
use crate::workload::{Plan, Scope, Step};
use crate::world::order::Asked;
use crate::{Defect, Faults, Options, SimulatedProtocol};
use meridian_txn::Mode;
use std::sync::Arc;

/// The delay of one message.
pub(super) const ONE: u64 = 20 * MS;

impl<R: SimProtocol> World<R> {
    /// Returns a world of three nodes that have met; if there are leaders, the first node leads.
    pub(super) fn three(protocol: &'static SimulatedProtocol, defect: Option<Defect>) -> Self {
        Self::three_and(0, protocol, defect)
    }

    /// Returns the world of [`three`](Self::three) with additional nodes that have no replicas.
    pub(super) fn three_and(
        gateways: usize,
        protocol: &'static SimulatedProtocol,
        defect: Option<Defect>,
    ) -> Self {
        let quiet = Options {
            faults: Faults::NONE,
            clients: 1,
            splits: Some(0),
            moves: Some(0),
            protocol,
            ..Options::new(1)
        };
        let mut world = World::new(Options { nodes: 3 + gateways, gateways, defect, ..quiet });
        world.network.even(ONE);
        (world.open, world.lease_ns, world.idle_after_ns) = (false, 10 * S, IDLE_AFTER);
        (world.retention, world.scripted) = (Retention::LONG, true);
        for node in 0..world.nodes.len() {
            world.nodes[node].disk = DiskWait::UpTo(10);
            world.nodes[node].clock.claim(1_000);
            world.nodes[node].clock.set(0);
            world.push(0, Some(EventTarget { node, incarnation: None }), Event::Boot);
        }
        world.until(0, |_| false);
        world.exchange_identities();
        world.until(3 * S, |_| false);
        world
    }

    /// Runs one transaction at a node, and returns its message delays.
    pub(super) fn takes(&mut self, node: usize, mode: Mode, steps: Vec<Step>) -> u64 {
        self.takes_with(node, mode, steps, Scope::Open)
    }

    /// Runs one transaction with a declared scope, and returns its message delays.
    pub(super) fn takes_with(
        &mut self,
        node: usize,
        mode: Mode,
        steps: Vec<Step>,
        scope: Scope,
    ) -> u64 {
        self.takes_in_order(node, mode, steps, scope, Asked::default())
    }

    /// Runs one transaction that asks for an order, and returns its message delays.
    pub(super) fn takes_in_order(
        &mut self,
        node: usize,
        mode: Mode,
        steps: Vec<Step>,
        scope: Scope,
        asked: Asked,
    ) -> u64 {
        let plan = Plan {
            mode,
            steps,
            mark: None,
            rows: 10,
            scope,
            alone: false,
            schema: None,
            dawdles_ns: None,
        };
        let Some(process) = &self.nodes[node].process else { return u64::MAX };
        let (txn_client, router) = (Arc::clone(&process.txn_client), Arc::clone(&process.router));
        let (seen, began) = (Arc::default(), self.now());
        let there = &mut self.clients[0];
        (there.node, there.mode, there.mark, there.start, there.seen) =
            (node, mode, None, began, Arc::clone(&seen));
        there.attempt = Some(Box::pin(client::attempt(txn_client, router, plan, asked, seen)));
        self.poll(0);
        self.poll_ready();
        let ended = self.until(10 * S, |world| world.clients[0].attempt.is_none());
        assert!(
            ended,
            "the transaction does not end: {:?} {:?}",
            self.violation,
            self.what_is_left()
        );
        let took = self.now() - began;
        self.until(ONE / 2, |_| false); // Lets background work end.
        assert_eq!(self.violation, None);
        (took + ONE / 4) / ONE
    }
}
