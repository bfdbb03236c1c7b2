//! The protocol's part of a world: what a node's life is, and what its sessions see of it.

pub mod desk;
#[cfg(test)]
mod hearsay;
pub mod life;
mod protocol;
pub mod rules;

pub use protocol::{
    SIMULATED, STEPS, finds_nothing_at_a_newcomer, reads_after_a_pause, reads_in_the_next_life,
};

/// Marks worlds of the protocol.
pub struct Spanner;
