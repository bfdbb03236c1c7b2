//! The entries of TAPIR in the list of simulated protocols, and the states that its campaigns
//! should reach.

use super::Tapir;
use crate::protocols::SimulatedProtocol;
use crate::world::World;
use crate::{Defect, Faults};
use meridian_clock as clock;
use meridian_replication as replication;
use meridian_store as store;
use meridian_systems::tapir;

/// The entry of TAPIR with strictly serializable transactions.
pub static STRICTLY_SERIALIZABLE: SimulatedProtocol =
    SimulatedProtocol { row: &tapir::STRICTLY_SERIALIZABLE, ..ROW };

/// The entry of TAPIR as in its paper.
pub static SERIALIZABLE: SimulatedProtocol = ROW;

const ROW: SimulatedProtocol = SimulatedProtocol {
    row: &tapir::SERIALIZABLE,
    run: |options| World::<Tapir>::new(options).run(),
    stage: |options, scenario, costs| World::<Tapir>::new(options).stage(scenario, costs),
    should_meet: SHOULD_MEET,
    seams: &[
        Defect::InstalledLate,
        Defect::SyncLost,
        Defect::ClockLies,
        Defect::ReadOneBefore,
        Defect::EntriesForgotten,
        Defect::HalfInstalled,
    ],
    rules: || {
        let of_protocol =
            tapir::rules::OF_PROPOSALS.into_iter().chain(replication::rules::OF_RECORDS);
        of_protocol.chain([clock::rules::COMMIT_WAIT, store::rules::FORGOTTEN_BEFORE_ROW]).collect()
    },
    faults: |_| Faults::ALL,
    needs_sql: |_| false,
    delays: World::<Tapir>::delays,
};

/// The states that every campaign of some hundred seeds with all faults should reach.
const SHOULD_MEET: &[&str] = &[
    "a client knows of a later view than a replica",
    "a commit comes to a replica that has not heard of it",
    "a proposal that waits is looked at before one that came earlier",
    "a replica between two views is silent",
    "a replica has not heard of what is decided",
    "a snapshot waits for what is prepared below it",
    "a transaction is proposed that has ended",
    "a transaction is proposed that is being recovered",
    "a transaction is recovered that has committed",
    "a transaction is recovered that has not committed",
    "a view begins without what a replica was told",
    "a view change decides an undecided operation",
    "a view does not begin in time",
    "a view is merged from records of different views",
    "a view's leader says again that it has begun",
    "an attempt comes that is not the newest",
    "an operation takes the slow path",
    "another timestamp is proposed",
    "it is unknown in time whether a transaction has committed",
    "a peer has not heard that a view has begun",
    "something is proposed again",
    "the nearest replica does not answer",
];
