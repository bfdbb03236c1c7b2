//! Spanner: leader-based groups under timed leases, and transactions across them.
//!
//! | question | answer |
//! |---|---|
//! | what is time | an interval |
//! | what orders conflicts | lock tables (wound-wait), two-phase commit between groups |
//! | what carries agreement | a leader-based group under a timed lease |
//! | when does a commit show | once agreed, when its timestamp has surely passed (commit wait) |
//!
//! Two parts make the protocol: [`shard`](crate::shard), a group with a leader and its keys, and
//! [`locking`](crate::locking), the participant that orders transactions by locks. The policy
//! [`TrueTime`] says how their timestamps relate to time.

use crate::Protocol;
use crate::locking::KIND;
use meridian_clock::TrueTime;
use meridian_txn::{Consistency, IsolationLevel};

/// The protocol's row.
pub static PROTOCOL: Protocol = Protocol {
    name: "spanner",
    kind: KIND,
    isolation: Some(IsolationLevel::Serializable),
    consistency: &[Consistency::CommitWait],
    policy: Some(&TrueTime),
    own_settings: &[],
};
