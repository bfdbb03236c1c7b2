//! Protocols whose shards have leaders, in the simulator: a node's incarnation, and its request
//! router.

use std::marker::PhantomData;

pub mod node_process;
mod protocol;
pub mod request_router;
pub mod rules;
#[cfg(test)]
mod unconfirmed_splits;

pub use protocol::{
    CLOCK_SI, CONVENTIONAL_SI, HYBRID_TIME, K2, SIMULATED, STEPS, age_after_a_wait,
    finds_nothing_at_a_newcomer, reads_after_a_pause, reads_in_the_next_life,
};

/// The marker type of worlds of shards with leaders and this concurrency control.
pub struct Leaders<P>(PhantomData<P>);
