//! Spanner in the simulator: a node's incarnation, and its request router.

pub mod desk;
#[cfg(test)]
mod hearsay;
pub mod life;
mod protocol;
pub mod rules;

pub use protocol::{
    SIMULATED, STEPS, finds_nothing_at_a_newcomer, reads_after_a_pause, reads_in_the_next_life,
};

/// The marker type of Spanner's worlds.
pub struct Spanner;
