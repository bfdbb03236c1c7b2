//! The simulated protocols, one entry each. Shared code reads the entry, and names no protocol.

use crate::{Defect, Faults, Options, Report, profile, scenario};
use meridian_machine::planted::Rule;
use meridian_systems::Protocol;
use std::fmt;

pub use crate::qwstore::SIMULATED as QWSTORE;
pub use crate::shard::{CLOCK_SI, CONVENTIONAL_SI, HYBRID_TIME, K2, SIMULATED as SPANNER};
pub use crate::tapir::{SERIALIZABLE as TAPIR_SERIALIZABLE, STRICTLY_SERIALIZABLE as TAPIR};

/// A protocol in the simulator.
pub struct SimulatedProtocol {
    /// The entry of the protocol in the server.
    pub row: &'static Protocol,
    /// Runs a simulation to its end.
    pub run: fn(Options) -> Report,
    /// Runs a scenario to its end, at these costs.
    pub stage: fn(Options, scenario::Scenario, profile::Costs) -> Report,
    /// The states that every campaign of some hundred seeds with all faults should reach.
    pub should_meet: &'static [&'static str],
    /// The defects of the environment that its judges must detect.
    pub seams: &'static [Defect],
    /// The rules whose breach its judges must detect.
    pub rules: fn() -> Vec<Rule>,
    /// The faults under which the breach of a rule shows soonest.
    pub faults: fn(Rule) -> Faults,
    /// True if only SQL meets a rule.
    pub needs_sql: fn(Rule) -> bool,
    /// The message delays of each kind of transaction, without faults.
    pub delays: fn() -> Vec<(&'static str, u64)>,
}

/// The protocols of this version.
pub const ALL: [&SimulatedProtocol; 8] = [
    &SPANNER,
    &HYBRID_TIME,
    &CLOCK_SI,
    &CONVENTIONAL_SI,
    &K2,
    &TAPIR,
    &TAPIR_SERIALIZABLE,
    &QWSTORE,
];

/// The protocol of runs that name none.
pub const DEFAULT: &SimulatedProtocol = &SPANNER;

/// Finds a protocol by its name.
pub fn named(name: &str) -> Option<&'static SimulatedProtocol> {
    ALL.into_iter().find(|simulated| simulated.row.name == name)
}

impl fmt::Debug for SimulatedProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row.name)
    }
}

impl PartialEq for SimulatedProtocol {
    fn eq(&self, other: &SimulatedProtocol) -> bool {
        self.row == other.row
    }
}
