//! Spanner in the simulator: a node's incarnation, and its request router.

pub mod node_process;
mod protocol;
pub mod request_router;
pub mod rules;
#[cfg(test)]
mod unconfirmed_splits;

pub use protocol::{
    CLOCK_SI, HYBRID_TIME, SIMULATED, STEPS, finds_nothing_at_a_newcomer, reads_after_a_pause,
    reads_in_the_next_life,
};

/// The marker type of Spanner's worlds.
pub struct Spanner;
