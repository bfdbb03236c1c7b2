//! Planted defects, with which runs test the judges: a judge that does not detect them is worth
//! nothing.
//!
//! Some break the simulated environment: the data that a disk keeps, the time at which versions are
//! installed, the reading of a clock, the recipient of a message. Faults that only the code can
//! make are [`Rule`]s: switches that no released program has. Assertions are off while a defect is
//! planted.

use crate::protocols::SimulatedProtocol;
use crate::{Faults, Options, campaign};
use meridian_machine::planted::Rule;

/// A planted defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Versions become readable only after the locks that protected them have been released.
    InstalledLate,
    /// A sync reports success, and has done nothing.
    SyncLost,
    /// Clocks claim to be exact, and jump by seconds.
    ClockLies,
    /// Reads miss the newest version that they should return.
    ReadOneBefore,
    /// A leader that was cut off serves its node's sessions after its lease has expired.
    LeaseNotChecked,
    /// A restarted member has forgotten its vote and its lease promise.
    VoteForgotten,
    /// A restarted member has forgotten the last entries that it acknowledged.
    EntriesForgotten,
    /// One node installs all but the last write of a transaction.
    HalfInstalled,
    /// A copy of a shard claims one entry more than it has.
    CopyClaimsMore,
    /// A node receives responses to its previous incarnation.
    EarlierLifeHeard,
    /// The log is truncated before the store has made its entries durable.
    ForgottenTooEarly,
    /// The code breaks a rule.
    Rule(Rule),
}

impl Defect {
    /// Returns the defects that the judges must detect in runs of a protocol.
    pub fn of(protocol: &SimulatedProtocol) -> impl Iterator<Item = Defect> {
        let rules = (protocol.rules)().into_iter().map(Defect::Rule);
        protocol.seams.iter().copied().chain(rules)
    }

    /// Returns the name, as in tables.
    pub fn name(self) -> String {
        match self {
            Defect::Rule(rule) => format!("{rule:?}"),
            seam => format!("{seam:?}"),
        }
    }

    /// Returns the options of a run in which the defect may show: a campaign's, with the faults
    /// under which it shows soonest.
    pub fn world(self, protocol: &'static SimulatedProtocol, seed: u64) -> Options {
        let sql = matches!(self, Defect::Rule(rule) if (protocol.needs_sql)(rule));
        // Without membership changes, under which the defect shows later.
        let (defect, faults, moves) = (Some(self), self.faults(protocol), Some(0));
        Options { protocol, defect, faults, moves, sql, ..campaign(seed) }
    }

    /// Returns the faults under which the defect shows soonest.
    pub fn faults(self, protocol: &SimulatedProtocol) -> Faults {
        let none = Faults::NONE;
        match self {
            Defect::Rule(rule) => (protocol.faults)(rule),
            // A lie about time matters when leadership moves: many cuts.
            Defect::ClockLies => Faults { network: true, clock: true, ..none },
            // A lease matters to a leader that paused without knowing it: many pauses.
            Defect::LeaseNotChecked => Faults { process: true, ..none },
            // Lost state matters to nodes that restart.
            Defect::VoteForgotten | Defect::EntriesForgotten | Defect::EarlierLifeHeard => {
                Faults { process: true, network: true, ..none }
            }
            Defect::ForgottenTooEarly => Faults { disk: true, process: true, ..none },
            _ => Faults::ALL,
        }
    }
}
