//! The order that clients ask for: consistency modes, and causal tokens from client to client
//! (HybridTime §4).

use super::World;
use crate::sim_protocol::SimProtocol;
use crate::workload::Plan;
use meridian_clock::Timestamp;
use meridian_history::Status;
use meridian_machine::sometimes;
use meridian_txn::{Consistency, Mode};
use rand::Rng;
use rand::seq::IndexedRandom;

/// The probability that a client is given another client's token before a transaction.
const HANDED_OVER: f64 = 0.1;

/// The name of a transaction in a history: its client, and its start.
pub type Name = (u64, u64);

/// A client's causal chain.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// The greatest timestamp that the client was told.
    token: Timestamp,
    /// Its last transactions whose tokens it has: its own, and another client's.
    last: Vec<Name>,
}

impl Chain {
    /// Returns the client's token.
    pub(super) fn token(&self) -> Timestamp {
        self.token
    }
}

/// The order that one transaction asks for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The consistency mode.
    pub consistency: Consistency,
    /// The causal token.
    pub token: Timestamp,
    /// The transactions whose tokens it was given.
    pub follows: Vec<Name>,
    /// True if it must come before every transaction that begins after its end.
    pub external: bool,
}

impl Default for Asked {
    fn default() -> Self {
        Asked {
            consistency: Consistency::CommitWait,
            token: Timestamp::ZERO,
            follows: Vec::new(),
            external: false,
        }
    }
}

impl<R: SimProtocol> World<R> {
    /// The consistency modes that this world's clients use: one, or a mix.
    pub(super) fn drawn_modes(modes: &[Consistency], rng: &mut impl Rng) -> Vec<Consistency> {
        if modes.len() < 2 {
            return modes.to_vec();
        }
        match rng.random_range(0..8) {
            0 | 1 => vec![Consistency::CommitWait],
            2..=4 => vec![Consistency::Hybrid],
            5 | 6 => vec![Consistency::Hybrid, Consistency::CommitWait],
            _ => Consistency::ALL.to_vec(),
        }
    }

    /// Draws the order that a client's next transaction asks for.
    pub(super) fn ask_for_order(&mut self, client: usize, plan: &Plan) -> Asked {
        if self.options.protocol.row.consistency.len() < 2 {
            return Asked::default();
        }
        let mut consistency = *self.modes.choose(&mut self.rng).expect("a world has a mode");
        if plan.mode != Mode::ReadWrite && consistency == Consistency::None {
            // Reads of several shards need not be of one moment, which no judge of serial orders
            // accepts.
            consistency = Consistency::Hybrid;
        }
        if consistency > Consistency::None && self.rng.random_bool(HANDED_OVER) {
            let other = self.rng.random_range(0..self.clients.len());
            let given = self.clients[other].chain.clone();
            let own = &mut self.clients[client].chain;
            own.token = own.token.max(given.token);
            own.last.extend(given.last);
            own.last.sort_unstable();
            own.last.dedup();
            sometimes!("a client is given another client's token");
        }
        let chain = &self.clients[client].chain;
        let follows = match consistency {
            Consistency::None => Vec::new(),
            Consistency::Hybrid | Consistency::CommitWait => chain.last.clone(),
        };
        let external = consistency == Consistency::CommitWait && !self.options.deceives();
        Asked { consistency, token: chain.token, follows, external }
    }

    /// Adds a transaction that has ended to its client's chain.
    pub(super) fn add_to_chain(&mut self, client: usize, status: Status, token: Timestamp) {
        let there = &mut self.clients[client];
        if status == Status::Ok && there.asked.consistency > Consistency::None {
            there.chain.token = there.chain.token.max(token);
            there.chain.last = vec![(client as u64, there.start)];
        }
    }
}
