//! Leader-based groups with timed leases.
//!
//! What carries agreement: the replicas of a shard agree on one log of payloads that this room never looks into.

pub mod group;
mod quorum;

pub use quorum::{Majority, Quorum};
