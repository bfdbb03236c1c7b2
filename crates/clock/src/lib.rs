//! Timestamps, intervals, and where they come from.

mod issuer;
mod timestamp;

pub use issuer::{CeilingReached, Issuer};
pub use meridian_machine::{Health, Interval, Reading};
pub use timestamp::Timestamp;
