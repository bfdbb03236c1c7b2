//! The timestamps that coordinators draw, from the node's clock or from oracles (K2 §4).
//!
//! Each lies between the true times at which its transaction begins and ends (Property 4.1), if the
//! transaction waits until it has passed. So timestamps of both origins may be mixed: where no
//! oracle answers, the node's clock does.

use crate::shards::asking::ONE_TRY_NS;
use crate::shards::{Oracles, ReplicaId, Request, RequestOutcome, Response, Shards};
use crate::{Node, Stamps};
use futures::lock::Mutex as Turn;
use meridian_clock::oracle::{self, Batches, Strawman};
use meridian_clock::{Interval, Timestamp};
use meridian_machine::{NodeId, ShardId, sometimes};
use parking_lot::Mutex;
use std::sync::Arc;

/// How far ahead an attempt draws its timestamp at most, after others have lost, in nanoseconds.
const MOST_TRIED_AHEAD_NS: u64 = 50_000_000;
/// How long a coordinator waits for an oracle, in nanoseconds, before it asks another one.
const ORACLE_ANSWERS_NS: u64 = 50_000_000;
/// How long the node's clock is used after no oracle has answered, in nanoseconds.
const WITHOUT_ORACLES_NS: u64 = ONE_TRY_NS;
/// How long another oracle than the first is asked, in nanoseconds.
const RETURNS_NS: u64 = 10_000_000_000;
/// The bits of a timestamp's logical part that set coordinators' timestamps apart from leaders',
/// those that are drawn ahead from the others, and those of oracles from both.
const OF_COORDINATOR: u32 = 1 << 31;
const AHEAD: u32 = 1 << 30;
const OF_ORACLE: u32 = 1 << 29;

/// A timestamp that was drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    pub(super) at: Timestamp,
    /// When it has surely passed, by the boot clock. `None` if the node's clock says so.
    pub(super) passed_ns: Option<u64>,
    /// The time that its transaction waited for an oracle.
    pub(super) waited_ns: u64,
}

impl Drawn {
    /// A timestamp of which the node's clock says when it has passed.
    pub(super) fn by_clock(at: Timestamp) -> Drawn {
        Drawn { at, passed_ns: None, waited_ns: 0 }
    }

    /// Makes an oracle's timestamp that of this incarnation of the node.
    fn by_oracle(node: &impl Node, drawn: oracle::Drawn) -> Drawn {
        let logical = node.here().1.0 | OF_COORDINATOR | OF_ORACLE;
        let at = Timestamp { logical, ..drawn.at };
        Drawn { at, passed_ns: Some(drawn.passed_ns), waited_ns: 0 }
    }
}

/// The timestamps that a node draws for a database. One that is drawn ahead of the present does not
/// move the others ahead.
#[derive(Clone, Default)]
pub(super) struct Draws {
    now: Stamps,
    ahead: Stamps,
    source: Arc<Mutex<Source>>,
    /// Held while a batch is asked for.
    turn: Arc<Turn<()>>,
}

/// The answers of oracles that are in use.
#[derive(Default)]
struct Source {
    oracles: Option<Arc<Oracles>>,
    drawing: Option<Drawing>,
    /// The nanoseconds of the newest timestamp of an oracle: with other oracles, or other terms,
    /// the next one is above it.
    above_ns: u64,
    /// The number of times that another oracle was chosen since the first one was asked, and when,
    /// by the boot clock.
    changes: usize,
    changed_ns: u64,
    /// Until when no oracle is asked, by the boot clock.
    without_until_ns: u64,
}

enum Drawing {
    Batches(Batches),
    Strawman(Strawman),
}

impl Source {
    /// Returns the means to draw with these oracles.
    fn of(&mut self, oracles: &Arc<Oracles>, here: NodeId) -> &mut Drawing {
        if !self.oracles.as_ref().is_some_and(|known| Arc::ptr_eq(known, oracles)) {
            (self.oracles, self.drawing) = (Some(Arc::clone(oracles)), None);
        }
        let above_ns = self.above_ns;
        self.drawing.get_or_insert_with(|| match oracles.batches {
            true => Drawing::Batches(Batches::above(oracles.terms, here.0, above_ns)),
            false => Drawing::Strawman(Strawman::above(oracles.terms, here.0, above_ns)),
        })
    }
}

impl Draws {
    /// Draws a timestamp for a transaction that begins: from an oracle's answer, if the database
    /// has oracles. `ask` makes a request for the time.
    pub(super) async fn draw_to_begin<S: Shards>(
        &self,
        shards: &S,
        tried_ns: u64,
        ask: impl Fn(u64) -> Request,
    ) -> Drawn {
        let (node, began_ns) = (shards.node(), shards.node().boot_ns());
        if tried_ns == 0
            && let Some(oracles) = shards.oracles()
            && let Some(drawn) = self.draw_from_oracles(shards, &oracles, ask).await
        {
            sometimes!("a timestamp is an oracle's");
            let waited_ns = node.boot_ns().saturating_sub(began_ns);
            if let Some(counters) = shards.counters() {
                counters.timestamp_drawn(waited_ns);
            }
            return Drawn { waited_ns, ..drawn };
        }
        Drawn::by_clock(self.draw_after(node, tried_ns))
    }

    async fn draw_from_oracles<S: Shards>(
        &self,
        shards: &S,
        oracles: &Arc<Oracles>,
        ask: impl Fn(u64) -> Request,
    ) -> Option<Drawn> {
        let node = shards.node();
        if let Some(drawn) = self.next(node, oracles) {
            return Some(drawn);
        }
        // One request serves all that wait for it meanwhile; each waits for its own by itself.
        let _turn = if oracles.batches { Some(self.turn.lock().await) } else { None };
        for _ in 0..=oracles.nodes.len() {
            if let Some(drawn) = self.next(node, oracles) {
                return Some(drawn);
            }
            let now = node.boot_ns();
            let oracle = {
                let mut source = self.source.lock();
                if now < source.without_until_ns || oracles.nodes.is_empty() {
                    return None;
                }
                if let Drawing::Batches(batches) = source.of(oracles, node.here().0) {
                    batches.ask(now);
                }
                if now > source.changed_ns + RETURNS_NS {
                    source.changes = 0;
                }
                oracles.nodes[source.changes % oracles.nodes.len()]
            };
            let replica = ReplicaId { shard: ShardId(0), node: oracle };
            let request = ask(oracles.terms.half_width_ns);
            let heard = match node.reaches(oracle) {
                true => shards.request(replica, request, now + ORACLE_ANSWERS_NS).await,
                false => None,
            };
            let interval = match heard {
                Some(RequestOutcome::Response(Response::Time { interval, .. })) => Some(interval),
                _ => None,
            };
            let drawn = interval.and_then(|interval| self.receive(node, oracles, interval));
            if drawn.is_some() {
                return drawn;
            }
            sometimes!("a coordinator looks for another oracle");
            let mut source = self.source.lock();
            (source.changes, source.changed_ns) = (source.changes + 1, node.boot_ns());
        }
        sometimes!("no oracle answers in time");
        self.source.lock().without_until_ns = node.boot_ns() + WITHOUT_ORACLES_NS;
        None
    }

    /// Draws the next timestamp of the batch, if there is one.
    fn next(&self, node: &impl Node, oracles: &Arc<Oracles>) -> Option<Drawn> {
        let (mut source, boot_ns) = (self.source.lock(), node.boot_ns());
        let Drawing::Batches(batches) = source.of(oracles, node.here().0) else { return None };
        let drawn = batches.next(boot_ns)?;
        source.above_ns = source.above_ns.max(drawn.at.nanos);
        Some(Drawn::by_oracle(node, drawn))
    }

    /// Takes in an oracle's answer, and draws a timestamp from it.
    fn receive(
        &self,
        node: &impl Node,
        oracles: &Arc<Oracles>,
        interval: Interval,
    ) -> Option<Drawn> {
        let boot_ns = node.boot_ns();
        let mut source = self.source.lock();
        let drawn = match source.of(oracles, node.here().0) {
            Drawing::Batches(batches) => batches.receive(boot_ns, interval),
            Drawing::Strawman(strawman) => strawman.stamp(boot_ns, interval),
        }?;
        source.above_ns = source.above_ns.max(drawn.at.nanos);
        Some(Drawn::by_oracle(node, drawn))
    }

    /// Draws a timestamp for an attempt whose former ones have lost for so long: ahead of
    /// transactions that begin now, the further the longer they have tried.
    fn draw_after(&self, node: &impl Node, tried_ns: u64) -> Timestamp {
        let ahead_ns = (tried_ns / 8).min(MOST_TRIED_AHEAD_NS);
        self.draw(node, node.now().interval.latest + ahead_ns)
    }

    /// Draws a timestamp at or above `least_ns`, and not below now. It is that of no other
    /// transaction, and of no leader.
    pub(super) fn draw(&self, node: &impl Node, least_ns: u64) -> Timestamp {
        let now_ns = node.now().interval.latest;
        let (stamps, bits) = match least_ns > now_ns {
            true => (&self.ahead, OF_COORDINATOR | AHEAD),
            false => (&self.now, OF_COORDINATOR),
        };
        let at = stamps.draw(node.here(), least_ns.max(now_ns));
        Timestamp { logical: at.logical | bits, ..at }
    }
}
