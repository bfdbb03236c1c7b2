//! Planted defects: what the world does wrong on purpose. A judge that does not notice is worth
//! nothing.
//!
//! Some are broken at the world's seams: what a disk keeps, when versions are installed, what a
//! clock says, who hears a message. What only the code itself can do wrong is a [`Rule`]: a switch
//! that no program that ships has. While something is planted, assertions are silent.

use crate::protocols::SimulatedProtocol;
use crate::{Faults, Options, campaign};
use meridian_machine::planted::Rule;

/// What the world does wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Versions become readable only after the locks that protected them were released.
    InstalledLate,
    /// A sync says that it is done, and has done nothing.
    SyncLost,
    /// Clocks claim to be exact, and jump by seconds.
    ClockLies,
    /// Reads miss the newest version that they should see.
    ReadOneBefore,
    /// A leader that was cut off lets sessions of its node read on when its lease has ended.
    LeaseNotChecked,
    /// A member that restarts has forgotten for whom it voted and whom it promised a lease.
    VoteForgotten,
    /// A member that restarts has forgotten the last entries that it had acknowledged.
    EntriesForgotten,
    /// One node installs all but the last write of a transaction.
    HalfInstalled,
    /// A copy of a shard says that it goes one entry further than it does.
    CopyClaimsMore,
    /// Answers to an earlier life of a node are heard by the next one.
    EarlierLifeHeard,
    /// The log forgets what the store has not made durable.
    ForgottenTooEarly,
    /// The code breaks a rule.
    Rule(Rule),
}

impl Defect {
    /// The defects that worlds of a protocol are to notice: at its seams, and of its rules.
    pub fn of(protocol: &SimulatedProtocol) -> impl Iterator<Item = Defect> {
        let rules = (protocol.rules)().into_iter().map(Defect::Rule);
        protocol.seams.iter().copied().chain(rules)
    }

    /// As tables have it.
    pub fn name(self) -> String {
        match self {
            Defect::Rule(rule) => format!("{rule:?}"),
            seam => format!("{seam:?}"),
        }
    }

    /// A world of a protocol in which it may show: a campaign's, with the faults under which it
    /// shows soonest.
    pub fn world(self, protocol: &'static SimulatedProtocol, seed: u64) -> Options {
        let sql = matches!(self, Defect::Rule(rule) if (protocol.needs_sql)(rule));
        // Members stay: what is broken here shows without, and sooner.
        let (defect, faults, moves) = (Some(self), self.faults(protocol), Some(0));
        Options { protocol, defect, faults, moves, sql, ..campaign(seed) }
    }

    /// The faults under which it shows soonest.
    pub fn faults(self, protocol: &SimulatedProtocol) -> Faults {
        let none = Faults::NONE;
        match self {
            Defect::Rule(rule) => (protocol.faults)(rule),
            // A lie about time matters when leadership moves: many cuts.
            Defect::ClockLies => Faults { network: true, clock: true, ..none },
            // A lease matters to a leader that was away and does not know it: many pauses.
            Defect::LeaseNotChecked => Faults { process: true, ..none },
            // What is forgotten matters to nodes that restart.
            Defect::VoteForgotten | Defect::EntriesForgotten | Defect::EarlierLifeHeard => {
                Faults { process: true, network: true, ..none }
            }
            Defect::ForgottenTooEarly => Faults { disk: true, process: true, ..none },
            _ => Faults::ALL,
        }
    }
}
