//! Timestamps, intervals, and where they come from.

mod bound;
pub mod cluster;
pub mod hybrid;
mod issuer;
pub mod oracle;
mod timestamp;

pub use bound::{Bound, Drift};
pub use issuer::{CeilingReached, Issuer};
pub use meridian_machine::{Health, Interval, Reading};
pub use timestamp::Timestamp;
