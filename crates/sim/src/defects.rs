//! Planted defects: what the world does wrong on purpose. A judge that does not notice is worth nothing.
//!
//! They are broken at the world's seams (what a disk keeps, when versions are installed, what a clock says, who hears a message), so that the code
//! that ships has no switches.

use crate::Faults;

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
}

impl Defect {
    /// Every one.
    pub const ALL: [Defect; 10] = [
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
    ];

    /// The faults under which it shows soonest.
    pub const fn faults(self) -> Faults {
        match self {
            // A lie about time matters when leadership moves: many cuts.
            Defect::ClockLies => Faults { network: true, clock: true, ..Faults::NONE },
            // A lease matters to a leader that was away and does not know it: many pauses.
            Defect::LeaseNotChecked => Faults { process: true, ..Faults::NONE },
            // What is forgotten matters to nodes that restart.
            Defect::VoteForgotten | Defect::EntriesForgotten | Defect::EarlierLifeHeard => {
                Faults { process: true, network: true, ..Faults::NONE }
            }
            _ => Faults::ALL,
        }
    }
}
