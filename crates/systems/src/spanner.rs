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
//! [`locking`], the participant that orders transactions by locks. The policy [`TrueTime`] says how
//! their timestamps relate to time.

use crate::Protocol;
use crate::envelope::Kind;
use crate::locking::{self, Locking};
use crate::shard::Shard;
use meridian_clock::TrueTime;
use meridian_txn::IsolationLevel;

/// The first byte of its frames and records.
pub const KIND: Kind = Kind(1);

/// The protocol's row.
pub static PROTOCOL: Protocol = Protocol {
    name: "spanner",
    kind: KIND,
    isolation: Some(IsolationLevel::Serializable),
    real_time_order: true,
    has_leaders: true,
    own_settings: &[],
};

/// A member of a shard's group.
pub type Replica = Shard<Locking<TrueTime>>;
/// The messages between members and coordinators.
pub type Message = locking::Message;
/// The effects that a member asks of its runtime.
pub type Effect = locking::Effect;
/// The state that a member recovers from the store.
pub type Recovered = locking::Recovered;
