//! QWStore in the simulator: a node's incarnation, and its request router.

pub mod node_process;
pub mod request_router;

use crate::protocols::SimulatedProtocol;
use crate::world::World;
use crate::{Defect, Faults};
use meridian_systems::baselines::qwstore;

/// The entry of QWStore in the list of simulated protocols.
pub static SIMULATED: SimulatedProtocol = SimulatedProtocol {
    row: &qwstore::PROTOCOL,
    run: |options| World::<QwStore>::new(options).run(),
    stage: |options, scenario, costs| World::<QwStore>::new(options).stage(scenario, costs),
    should_meet: &[],
    seams: &[
        Defect::InstalledLate,
        Defect::SyncLost,
        Defect::EntriesForgotten,
        Defect::HalfInstalled,
    ],
    rules: || {
        vec![
            qwstore::rules::ACKNOWLEDGED_BY_SOME,
            meridian_replication::rules::REPLIES_BEFORE_DURABLE,
        ]
    },
    faults: |_| Faults::ALL,
    needs_sql: |_| false,
    delays: Vec::new,
};

/// The marker type of QWStore's worlds.
pub struct QwStore;
