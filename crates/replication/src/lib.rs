//! What carries agreement.
//!
//! | folder | question |
//! |---|---|
//! | `group` | how do replicas agree on one log, whose leader has a timed lease? |
//! | `inconsistent` | how do operations reach enough replicas, in no order and without a leader? |
//! | `quorum` | how many are enough? |
//!
//! What is agreed on this room never looks into.

pub mod group;
pub mod inconsistent;
mod quorum;
pub mod rules;

pub use quorum::{Majority, Quorum, Unordered};
