//! Planted defects: what the world does wrong on purpose. A judge that does not notice is worth nothing.
//!
//! Some are broken at the world's seams: what a disk keeps, when versions are installed, what a clock says, who hears a message. What only the code
//! itself can do wrong is a [`Rule`]: a switch that no program that ships has. While something is planted, assertions are silent.

use crate::{Faults, Options, campaign, tapir};
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
    /// Those at the seams.
    const SEAMS: [Defect; 11] = [
        Defect::InstalledLate,
        Defect::SyncLost,
        Defect::ClockLies,
        Defect::ReadOneBefore,
        Defect::LeaseNotChecked,
        Defect::VoteForgotten,
        Defect::EntriesForgotten,
        Defect::HalfInstalled,
        Defect::CopyClaimsMore,
        Defect::EarlierLifeHeard,
        Defect::ForgottenTooEarly,
    ];

    /// Every one.
    pub fn all() -> impl Iterator<Item = Defect> {
        Self::SEAMS.into_iter().chain(Rule::ALL.into_iter().map(Defect::Rule))
    }

    /// Those that worlds without leaders are to notice: of the seams those that they have, and their own rules.
    pub fn of_tapir() -> impl Iterator<Item = Defect> {
        let seams = [
            Defect::InstalledLate,
            Defect::SyncLost,
            Defect::ClockLies,
            Defect::ReadOneBefore,
            Defect::EntriesForgotten,
            Defect::HalfInstalled,
        ];
        let rules = Rule::OF_PROPOSALS.into_iter().chain(Rule::OF_RECORDS).chain([Rule::CommitWait]);
        seams.into_iter().chain(rules.map(Defect::Rule))
    }

    /// A world without leaders in which it may show.
    pub fn world_of_tapir(self, seed: u64) -> Options {
        let protocol = &tapir::STRICTLY_SERIALIZABLE;
        // Replicas stay where they are: what is broken here shows without, and sooner.
        Options { protocol, defect: Some(self), faults: self.faults(), moves: Some(0), ..campaign(seed) }
    }

    /// As tables have it.
    pub fn name(self) -> String {
        match self {
            Defect::Rule(rule) => format!("{rule:?}"),
            seam => format!("{seam:?}"),
        }
    }

    /// A world in which it may show: a campaign's, with the faults under which it shows soonest.
    pub fn world(self, seed: u64) -> Options {
        // Only SQL has schemas.
        let sql = matches!(self, Defect::Rule(Rule::SchemaUnchecked | Rule::ChangeNotHeeded));
        // Members stay: what is broken here shows without, and sooner.
        Options { defect: Some(self), faults: self.faults(), moves: Some(0), sql, ..campaign(seed) }
    }

    /// The faults under which it shows soonest.
    pub fn faults(self) -> Faults {
        let none = Faults::NONE;
        match self {
            // A lie about time matters when leadership moves: many cuts.
            Defect::ClockLies => Faults { network: true, clock: true, ..none },
            // A lease matters to a leader that was away and does not know it: many pauses.
            Defect::LeaseNotChecked | Defect::Rule(Rule::LeaseUncheckedAtCommit | Rule::LeasesOverlap) => {
                Faults { process: true, ..none }
            }
            // What is forgotten matters to nodes that restart.
            Defect::VoteForgotten
            | Defect::EntriesForgotten
            | Defect::EarlierLifeHeard
            | Defect::Rule(Rule::StaleLogElected | Rule::PromiseNotLogged) => {
                Faults { process: true, network: true, ..none }
            }
            // Who is deposed and does not know it was asleep, or not heard.
            Defect::Rule(Rule::EndedUnknown | Rule::DecidesInAnyTerm) => {
                Faults { process: true, network: true, ..none }
            }
            // A clock that is far ahead matters where its node leads.
            Defect::Rule(Rule::FarClocksHeard) => Faults { lies: true, ..none },
            // What is not on disk yet matters to slow disks that lose power.
            Defect::Rule(Rule::AckBeforeDurable) => Faults { process: true, network: true, disk: true, ..none },
            // Clocks that are true need no log to keep an order.
            Defect::Rule(Rule::IssuerBelowLog) => Faults { network: true, process: true, lies: true, ..none },
            // What is not looked at has to be wrong.
            Defect::Rule(
                Rule::LogChecksum
                | Rule::StoreChecksum
                | Rule::GapUnnoticed
                | Rule::EmptiedLogUnnoticed
                | Rule::TornTail
                | Rule::TailNotRewritten,
            )
            | Defect::ForgottenTooEarly => Faults { disk: true, process: true, ..none },
            // Who waits in vain is somebody whom nobody tells.
            Defect::Rule(Rule::WoundNotForwarded) => Faults { network: true, ..none },
            _ => Faults::ALL,
        }
    }
}
