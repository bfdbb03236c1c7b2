//! The order that clients ask for: consistency modes, and causal tokens from client to client
//! (HybridTime §4).

use super::{S, World};
use crate::Timebase;
use crate::bounds::{self, Draw};
use crate::sim_protocol::SimProtocol;
use crate::{anomalies, verdict};
use meridian_clock::{Health, Timestamp};
use meridian_history::cycles::Model;
use meridian_machine::{Machine, sometimes};
use meridian_systems::setting::SNAPSHOT_AGE;
use meridian_txn::{Consistency, Mode, ReadAt, SnapshotAge};
use rand::Rng;
use rand::seq::IndexedRandom;
use std::time::Duration;

/// The probability that a client is given another client's token before a transaction.
const HANDED_OVER: f64 = 0.1;
/// The share of transactions that send their writes before they commit, where they can.
const PIPELINED: f64 = 0.6;
/// The probability that a transaction asks for an older snapshot, where it can.
const OLDER: f64 = 0.3;
/// The longest age of a snapshot that is drawn, in nanoseconds.
const OLDEST_NS: u64 = 2 * S;
/// The probability that a client uses a token that it made itself.
const FORGED: f64 = 0.02;
/// How far ahead a token is that no clock can have shown, in nanoseconds.
const FAR_NS: u64 = 3_600 * S;

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

    /// Learns what a transaction of the client has seen, in any mode.
    pub(super) fn learn(&mut self, token: Timestamp) {
        self.token = self.token.max(token);
    }

    /// Adds a transaction of the client that has ended. It comes after the others unless its mode
    /// is `none`.
    pub(super) fn add(&mut self, name: Name, consistency: Consistency) {
        if consistency > Consistency::None {
            self.last.clear();
        }
        self.last.push(name);
    }
}

/// The order that one transaction asks for, and when it sends its writes.
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
    /// The age of its snapshot.
    pub snapshot_age: SnapshotAge,
    /// True if it sends its writes before it commits.
    pub pipelined: bool,
}

impl Default for Asked {
    fn default() -> Self {
        Asked {
            consistency: Consistency::CommitWait,
            token: Timestamp::ZERO,
            follows: Vec::new(),
            external: false,
            snapshot_age: SnapshotAge::PRESENT,
            pipelined: false,
        }
    }
}

impl<R: SimProtocol> World<R> {
    /// The consistency modes that this world's clients use: one, or a mix.
    pub(super) fn drawn_modes(modes: &[Consistency], rng: &mut impl Rng) -> Vec<Consistency> {
        if modes.len() < 2 {
            return modes.to_vec();
        }
        let mut drawn = match rng.random_range(0..9) {
            0 | 1 => vec![Consistency::CommitWait],
            2..=4 => vec![Consistency::Hybrid],
            5 | 6 => vec![Consistency::Hybrid, Consistency::CommitWait],
            7 if modes.contains(&Consistency::None) => vec![Consistency::None],
            _ => Consistency::ALL.to_vec(),
        };
        drawn.retain(|mode| modes.contains(mode));
        drawn
    }

    /// Draws the order that a client's next transaction asks for.
    pub(super) fn ask_for_order(&mut self, client: usize, node: usize) -> Asked {
        let protocol = self.options.protocol.row;
        if !protocol.has_tokens() {
            let pipelined = protocol.draws_at_start() && self.rng.random_bool(PIPELINED);
            return Asked { pipelined, ..Asked::default() };
        }
        let consistency = *self.modes.choose(&mut self.rng).expect("a world has a mode");
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
        // An authority's snapshots have whatever was acknowledged before, whatever clocks say.
        let waits = consistency == Consistency::CommitWait && !self.options.deceives();
        let external = waits || protocol.has_authority();
        let token = chain.token;
        let forged = self.forged_token(node, consistency);
        let token = forged.map_or(token, |forged| token.max(forged));
        let snapshot_age = self.draw_snapshot_age();
        Asked { consistency, token, follows, external, snapshot_age, pipelined: false }
    }

    /// Draws the age of a snapshot, in databases whose transactions choose it.
    fn draw_snapshot_age(&mut self) -> SnapshotAge {
        let has_ages = self.options.protocol.row.setting(SNAPSHOT_AGE.name).is_some();
        if !has_ages || !self.rng.random_bool(OLDER) {
            return SnapshotAge::PRESENT;
        }
        match self.rng.random_bool(0.5) {
            true => SnapshotAge::Auto,
            // Each power of two is drawn equally often.
            false => {
                let longest_ns = OLDEST_NS >> self.rng.random_range(0..16);
                SnapshotAge::Fixed(Duration::from_nanos(self.rng.random_range(1..=longest_ns)))
            }
        }
    }

    /// Makes a token that no session was told, now and then: from the far future, which is refused,
    /// or of the present with a logical part that is used up (Traps A.4-3, A.4-5). Returns `None`
    /// where clocks may be as far off themselves, and in mode `none`, which uses no token.
    fn forged_token(&mut self, node: usize, consistency: Consistency) -> Option<Timestamp> {
        let checked = consistency > Consistency::None && !self.options.deceives();
        if !checked || !self.rng.random_bool(FORGED) {
            return None;
        }
        sometimes!("a client makes a token itself");
        let far = self.rng.random_bool(0.5);
        let reading = self.nodes[node].clock.reading();
        let nanos = reading.interval.latest;
        (reading.health == Health::Good).then_some(match far {
            true => Timestamp { nanos: nanos + FAR_NS, ..Timestamp::ZERO },
            false => Timestamp { nanos, logical: u32::MAX, issuer: u32::MAX },
        })
    }

    /// Checks that a transaction that wrote comes after its token, and that a snapshot of the
    /// present is not older.
    pub(super) fn check_token(&mut self, token: Timestamp, at: Timestamp, mode: Mode, wrote: bool) {
        let keeps = match mode {
            Mode::ReadWrite => !wrote || at > token,
            Mode::ReadOnly(ReadAt::Exact(_)) => true,
            Mode::ReadOnly(ReadAt::Now | ReadAt::AtLeast(_)) => at >= token,
        };
        if !keeps {
            self.fail(format!("a transaction was given the token {token}, and is at {at}"));
        }
    }

    /// Records the timestamps in a record that were not seen before. A leader writes its record in
    /// the step in which it draws them.
    pub(super) fn note_draws(&mut self, record: &<R::Replica as Machine>::Record) {
        if self.options.protocol.row.consistency.len() < 2 || self.options.profile.is_some() {
            return;
        }
        let (shown_ns, widest_ns) = self.have_shown();
        for at in R::drawn(record) {
            let newest = self.newest_draws.entry(at.issuer).or_default();
            if at > *newest {
                *newest = at;
                let true_ns = self.time.now();
                self.draws.push(Draw { at, true_ns, shown_ns, widest_ns });
            }
        }
    }

    /// Returns the greatest time and the widest interval that any clock has shown so far, in
    /// nanoseconds.
    pub(super) fn have_shown(&self) -> (u64, u64) {
        let all = self.nodes.iter().map(|node| node.clock.has_shown());
        all.fold((0, 0), |most, shown| (most.0.max(shown.0), most.1.max(shown.1)))
    }

    /// True if clocks show true time, within their bounds.
    pub(super) fn tells_true_time(&self) -> bool {
        !self.options.deceives() && self.options.timebase != Timebase::Cluster
    }

    /// Returns the model that the history must satisfy: the protocol's, or the strict one if every
    /// transaction waits.
    pub(super) fn model(&self) -> Model {
        let all_wait = self.modes == [Consistency::CommitWait] && !self.options.deceives();
        match self.options.model() {
            Model::Causal if all_wait => Model::StrictSerializable,
            model => model,
        }
    }

    /// Judges drawn timestamps and the reads that have no place in the history, and counts the
    /// anomalies that modes allow.
    pub(super) fn judge_modes(&mut self) -> Result<(), String> {
        if self.options.protocol.row.consistency.len() < 2 {
            return Ok(());
        }
        bounds::judge(&self.draws, self.tells_true_time())
            .map_err(|why| format!("by clocks: {why}"))?;
        let by_modes = |why| format!("by modes: {why}");
        if self.options.sql {
            return verdict::committed_reads(&self.history, &self.reads_apart).map_err(by_modes);
        }
        let (history, installed) = (&self.history, &self.installed);
        self.anomalies = anomalies::judge_order(history, &self.modes_of).map_err(by_modes)?;
        let reads = anomalies::judge_reads(&self.reads_apart, history, installed);
        self.anomalies.extend(reads.map_err(by_modes)?);
        Ok(())
    }
}
