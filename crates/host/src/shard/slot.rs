//! The slot: the state that a replica's last step left for reads of this node's sessions.
//!
//! ```text
//!   stepping thread    effects in order: slot withdrawn ─▶ leadership given away
//!   session's thread   is a step under way? ─▶ slot ─▶ clock ─▶ read
//! ```
//!
//! Invariants:
//! 1. A slot that says that its replica leads was loaded before leadership left the node: it misses
//!    nothing that another leader acknowledged.
//! 2. A slot that is quiet has every timestamp that its replica assigned before the load started.

use crate::sync::RwLock;
use meridian_txn::shards::ReadLease;

/// A replica's slot.
#[derive(Debug, Default)]
pub struct Slot(RwLock<ReadLease>);

impl Slot {
    /// Sets the readable state. Called by the thread that steps the replica, in the order of its
    /// effects.
    pub fn set(&self, read_lease: ReadLease) {
        *self.0.write() = read_lease;
    }

    /// Returns the readable state, without claiming that no commit is under way.
    pub fn load(&self) -> ReadLease {
        ReadLease { quiet: false, ..*self.0.read() }
    }

    /// Returns the readable state. It is quiet only if no step is under way.
    pub fn load_unless_busy(&self, is_idle: impl FnOnce() -> bool) -> ReadLease {
        // Asked before the slot is loaded: a step that is under way may have assigned a timestamp
        // that the slot does not show yet.
        let idle = is_idle();
        let slot = *self.0.read();
        ReadLease { quiet: slot.quiet && idle, ..slot }
    }
}
