//! Multi-version timestamp ordering in a shard with leaders: the participant of K2 (§5).
//!
//! ```text
//!   Read ─▶ tracker notes it ─▶ older intents undecided? ─▶ push their recorders, wait ─▶ serve
//!   Write ─▶ tracker forbids it? ─▶ intent ─▶ agreed ─▶ acknowledged
//!   Commit ─▶ record: pending → committed ─▶ agreed ─▶ answered; sent to the other shards until
//!             they have it in their logs ─▶ record forgotten
//! ```
//!
//! The read tracker, the intents and the recorder are values of [`mvto`](meridian_txn::mvto). These
//! files decide with them at the leader, and apply what is agreed at every member:
//!
//! | file | question |
//! |---|---|
//! | `participant` | what state does timestamp ordering keep for a shard? |
//! | `requests` | which request is served, refused, or waits? |
//! | `deciding` | how is a transaction decided, and how do its other shards learn that? |
//! | `agreed` | what happens when a command is agreed? |
//! | `records` | what is agreed about transactions, and what is kept of it? |
//!
//! Invariants, besides those of a shard:
//! 1. A leader serves a read at or below a ceiling in the log only, and its successor's floor is
//!    that ceiling: no write appears below a read of an earlier leader (Trap A.1-B1). The paper's
//!    bound is the lease; a ceiling holds whatever clocks say (I7).
//! 2. A write at or below the closed timestamp is refused, by every leader: the log has it. So
//!    nothing that is forgotten there can come back.
//! 3. Timestamps of transactions are chosen by coordinators, and do not grow in the order of the
//!    log. Those of commands about the shard do.
//! 4. A split waits until nothing is written and undecided. The new shard's leader begins above the
//!    ceiling of the old one.

mod agreed;
mod deciding;
mod participant;
mod records;
mod requests;

use crate::envelope::Kind;
use crate::shard::{self, Shard};
use meridian_txn::mvto::Peer;

/// The first byte of the frames and records of protocols that use it.
pub const KIND: Kind = Kind(7);

/// A member of the group of a shard with timestamp ordering.
type Member = Shard<Mvto>;
/// The messages between members and coordinators.
pub type Message = shard::Message<Peer>;

pub use participant::Mvto;
pub use records::{OrderedCommand, OrderedRows};
