//! Timestamps, intervals, and where they come from.

mod bound;
pub mod cluster;
mod issuer;
mod timestamp;

pub use bound::{Bound, Drift};
pub use issuer::{CeilingReached, Issuer};
pub use meridian_machine::{Health, Interval, Reading};
pub use timestamp::Timestamp;
