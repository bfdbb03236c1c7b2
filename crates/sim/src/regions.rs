//! The distances between nodes: round trips between regions, from the papers.

use std::fmt;
use std::str::FromStr;

/// The placement of the nodes, which are assigned to the regions in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regions {
    /// Each link is drawn: from 0.05 to 20 ms.
    Drawn,
    /// One switch (Clock-SI, §V).
    Lan,
    /// Data centres less than a millisecond apart (Spanner, §5.1).
    Spanner,
    /// Five cities (K2, Table 1).
    K2,
    /// Three continents (TAPIR, Table 1).
    Tapir,
    /// Two data centres of one provider, in the US and in Europe (HybridTime §5.5, which gives no
    /// round trips: those of TAPIR's Table 1, which is of the same provider).
    HybridTime,
    /// US West, US East, Europe (Clock-SI, §V.B, which gives the two distances from US West; the
    /// third is taken as their mean).
    ClockSi,
}

const LAN: &[&[f64]] = &[&[0.14]];
const SPANNER: &[&[f64]] = &[&[0.9]];
const K2: &[&[f64]] = &[
    &[0.2, 27.3, 31.3, 29.2, 69.3],
    &[27.3, 0.2, 42.6, 38.5, 77.6],
    &[31.3, 42.6, 0.2, 28.0, 46.8],
    &[29.2, 38.5, 28.0, 0.2, 60.0],
    &[69.3, 77.6, 46.8, 60.0, 0.2],
];
const TAPIR: &[&[f64]] = &[&[1.2, 111.3, 166.5], &[111.0, 0.8, 261.8], &[166.7, 263.2, 10.8]];
const HYBRID_TIME: &[&[f64]] = &[&[0.14, 111.3], &[111.0, 0.14]];
const CLOCK_SI: &[&[f64]] = &[&[0.14, 170.0, 160.0], &[170.0, 0.14, 165.0], &[160.0, 165.0, 0.14]];

impl Regions {
    /// All placements.
    pub const ALL: [Regions; 7] = [
        Regions::Drawn,
        Regions::Lan,
        Regions::Spanner,
        Regions::K2,
        Regions::Tapir,
        Regions::HybridTime,
        Regions::ClockSi,
    ];

    /// Returns the name, as in `--regions`.
    pub const fn name(self) -> &'static str {
        match self {
            Regions::Drawn => "drawn",
            Regions::Lan => "lan",
            Regions::Spanner => "spanner",
            Regions::K2 => "k2",
            Regions::Tapir => "tapir",
            Regions::HybridTime => "hybrid-time",
            Regions::ClockSi => "clock-si",
        }
    }

    /// Returns the round trips in milliseconds, row by row; `None` if links are drawn.
    pub const fn round_trips_ms(self) -> Option<&'static [&'static [f64]]> {
        match self {
            Regions::Drawn => None,
            Regions::Lan => Some(LAN),
            Regions::Spanner => Some(SPANNER),
            Regions::K2 => Some(K2),
            Regions::Tapir => Some(TAPIR),
            Regions::HybridTime => Some(HYBRID_TIME),
            Regions::ClockSi => Some(CLOCK_SI),
        }
    }

    /// Returns the delay from one node to another, in one direction, in nanoseconds.
    pub(crate) fn one_way_ns(self, from: usize, to: usize) -> Option<u64> {
        let table = self.round_trips_ms()?;
        let round_trip_ms = table[from % table.len()][to % table.len()];
        Some((round_trip_ms * 500_000.0) as u64)
    }

    /// Returns the longest of all round trips, in nanoseconds.
    pub(crate) fn farthest_ns(self) -> u64 {
        let all =
            self.round_trips_ms().unwrap_or(&[&[20.0]]).iter().flat_map(|row| row.iter().copied());
        (all.fold(0.0, f64::max) * 1e6) as u64
    }
}

impl fmt::Display for Regions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Regions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Regions::ALL.map(Regions::name).join(", ");
        let found = Regions::ALL.into_iter().find(|regions| regions.name() == text);
        found.ok_or_else(|| format!("no regions are called {text}; there are {}", known()))
    }
}
