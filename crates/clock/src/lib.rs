//! Timestamps, intervals, and their sources.

pub mod agreement;
mod bound;
pub mod cluster;
pub mod daemon;
pub mod duration;
mod hybrid;
mod issuer;
pub mod oracle;
mod policy;
pub mod question;
pub mod rules;
mod status;
mod timestamp;
mod timestamp_range;

pub use bound::{Bound, Drift};
pub use hybrid::Hybrid;
pub use issuer::{CeilingReached, Issuer};
pub use meridian_machine::{Health, Interval, Reading};
pub use policy::{AtStart, FromAuthority, LocalClock, TimestampPolicy, TrueTime};
pub use status::{ClockStatus, EVICTED_FOR_NS};
pub use timestamp::Timestamp;
pub use timestamp_range::{LONGEST_RANGE, TimestampRange};
