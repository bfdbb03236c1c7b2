//! The protocol's part of a world: what a node's life is, and what its sessions see of it.

pub mod desk;
pub mod life;

use crate::protocols::SimulatedProtocol;
use crate::world::World;
use crate::{Defect, Faults};
use meridian_systems::baselines::qwstore;

/// The protocol's row.
pub static SIMULATED: SimulatedProtocol = SimulatedProtocol {
    row: &qwstore::PROTOCOL,
    run: |options| World::<QwStore>::new(options).run(),
    stage: |options, scene, costs| World::<QwStore>::new(options).stage(scene, costs),
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

/// Marks worlds of the protocol.
pub struct QwStore;
