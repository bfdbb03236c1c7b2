//! The links between nodes: each direction of a link can be slow, lossy or cut.

use crate::Regions;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

/// All links between nodes.
#[derive(Debug)]
pub struct Network {
    /// The shortest delay between two nodes, in one direction.
    base_ns: BTreeMap<(usize, usize), u64>,
    /// The largest extra delay of a message, as a fraction of the shortest.
    spread: f64,
    /// The time until which a direction is cut.
    cut: BTreeMap<(usize, usize), u64>,
    /// The extra delay of a direction, and the time until which it applies.
    clogged: BTreeMap<(usize, usize), (u64, u64)>,
    pub loss: f64,
    pub repeat: f64,
    pub straggle: f64,
}

impl Network {
    pub fn new(nodes: usize, regions: Regions, rng: &mut ChaCha8Rng) -> Self {
        let slow = rng.random_range(1..=20);
        let mut base_ns = BTreeMap::new();
        for a in 0..nodes {
            for b in 0..nodes {
                let drawn = rng.random_range(50_000..slow * MS);
                base_ns.insert((a, b), regions.one_way_ns(a, b).unwrap_or(drawn));
            }
        }
        let spread = if regions == Regions::Drawn { 1.0 } else { 0.1 };
        Network {
            base_ns,
            spread,
            cut: BTreeMap::new(),
            clogged: BTreeMap::new(),
            loss: 0.0,
            repeat: 0.0,
            straggle: 0.0,
        }
    }

    /// Returns the delays after which the copies of a message arrive; none if it is lost.
    pub fn carry(&self, now: u64, from: usize, to: usize, rng: &mut ChaCha8Rng) -> Vec<u64> {
        let lost = rng.random_bool(self.loss);
        let copies = if rng.random_bool(self.repeat) { 2 } else { 1 };
        let clog = self
            .clogged
            .get(&(from, to))
            .filter(|(_, until)| *until > now)
            .map_or(0, |(by_ns, _)| *by_ns);
        let delays: Vec<u64> = (0..copies)
            .map(|_| {
                let base = self.base_ns[&(from, to)];
                let late = if rng.random_bool(self.straggle) {
                    rng.random_range(0..2_000 * MS)
                } else {
                    0
                };
                rng.random_range(base..=base + (base as f64 * self.spread) as u64) + late + clog
            })
            .collect();
        if lost || !self.open(now, from, to) { Vec::new() } else { delays }
    }

    /// True if this direction is not cut.
    pub fn open(&self, now: u64, from: usize, to: usize) -> bool {
        self.cut.get(&(from, to)).is_none_or(|until| *until <= now)
    }

    /// Cuts one direction.
    pub fn cut(&mut self, from: usize, to: usize, until: u64) {
        self.cut.insert((from, to), until);
    }

    /// Delays all messages in this direction by `by_ns`.
    pub fn clog(&mut self, from: usize, to: usize, by_ns: u64, until: u64) {
        self.clogged.insert((from, to), (by_ns, until));
    }

    /// Makes every message take the shortest delay.
    pub fn steady(&mut self) {
        self.spread = 0.0;
    }

    /// Makes all messages take the same time.
    pub fn even(&mut self, one_way_ns: u64) {
        self.base_ns.values_mut().for_each(|base| *base = one_way_ns);
        self.spread = 0.0;
    }

    /// Ends all faults of the network.
    pub fn heal(&mut self) {
        (self.loss, self.repeat, self.straggle) = (0.0, 0.0, 0.0);
        self.cut.clear();
        self.clogged.clear();
    }
}
