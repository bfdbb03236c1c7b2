//! Replication: agreement among the replicas of a shard.
//!
//! | folder | contents |
//! |---|---|
//! | `group` | replicas that agree on one log, whose leader has a timed lease |
//! | `inconsistent` | operations that reach a quorum of replicas in no order, without a leader |
//! | `quorum` | quorum sizes |
//!
//! This crate never interprets the payloads that are agreed on.

pub mod group;
pub mod inconsistent;
mod quorum;
pub mod rules;

pub use quorum::{Majority, Quorum, Unordered};
