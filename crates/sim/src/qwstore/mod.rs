//! The protocol's part of a world: what a node's life is, and what its sessions see of it.

pub mod desk;
pub mod life;

use crate::protocols::SimulatedProtocol;
use crate::world::World;
use meridian_systems::baselines::qwstore;

/// The protocol's row.
pub static SIMULATED: SimulatedProtocol = SimulatedProtocol {
    row: &qwstore::PROTOCOL,
    run: |options| World::<QwStore>::new(options).run(),
    stage: |options, scene, costs| World::<QwStore>::new(options).stage(scene, costs),
    should_meet: &[],
    delays: Vec::new,
};

/// Marks worlds of the protocol.
pub struct QwStore;
