//! The protocols that worlds run: one row for each. What is shared asks the row, and names no
//! protocol.

use crate::{Defect, Faults, Options, Report, profile, scene};
use meridian_machine::planted::Rule;
use meridian_systems::Protocol;
use std::fmt;

pub use crate::qwstore::SIMULATED as QWSTORE;
pub use crate::spanner::SIMULATED as SPANNER;
pub use crate::tapir::{SERIALIZABLE as TAPIR_SERIALIZABLE, STRICTLY_SERIALIZABLE as TAPIR};

/// A protocol in the simulator.
pub struct SimulatedProtocol {
    /// Its row.
    pub row: &'static Protocol,
    /// Runs a world to its end.
    pub run: fn(Options) -> Report,
    /// Runs a scene to its end, at these costs.
    pub stage: fn(Options, scene::Scene, profile::Costs) -> Report,
    /// The states that every campaign of some hundred seeds under all faults should meet.
    pub should_meet: &'static [&'static str],
    /// The defects at the world's seams that its worlds are to notice.
    pub seams: &'static [Defect],
    /// The rules whose breach its worlds are to notice.
    pub rules: fn() -> Vec<Rule>,
    /// The faults under which the breach of a rule shows soonest.
    pub faults: fn(Rule) -> Faults,
    /// Whether only SQL meets a rule.
    pub needs_sql: fn(Rule) -> bool,
    /// The message delays of each kind of transaction, without faults.
    pub delays: fn() -> Vec<(&'static str, u64)>,
}

/// The protocols of this version.
pub const ALL: [&SimulatedProtocol; 4] = [&SPANNER, &TAPIR, &TAPIR_SERIALIZABLE, &QWSTORE];

/// The protocol of worlds where no other one is named.
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
