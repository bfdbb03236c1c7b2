//! Timestamps, intervals, and their sources.

pub mod agreement;
pub mod authority;
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

pub use bound::{Bound, Drift};
pub use hybrid::Hybrid;
pub use issuer::{CeilingReached, Issuer};
pub use meridian_machine::{Health, Interval, Reading};
pub use policy::{LocalClock, TimestampPolicy, TrueTime};
pub use status::{ClockStatus, EVICTED_FOR_NS};
pub use timestamp::Timestamp;
