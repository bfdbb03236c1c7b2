//! What sessions of a node may read without a question to the shard's machine, as its last step
//! left it.
//!
//! ```text
//!   stepping thread    effects in order: slot withdrawn ─▶ leadership given away
//!   session's thread   is a step under way? ─▶ slot ─▶ clock ─▶ read
//! ```
//!
//! Invariants:
//! 1. A slot that says that its member leads was loaded before leadership left the node: nothing
//!    that another leader acknowledged is missing from it.
//! 2. A slot that is quiet has every timestamp that its machine drew before the load began.

use crate::sync::RwLock;
use meridian_txn::locking::Readable;

/// A shard's slot.
#[derive(Debug, Default)]
pub struct Slot(RwLock<Readable>);

impl Slot {
    /// What may be read from now on. Called by the thread that steps the machine, in the order of
    /// its effects.
    pub fn set(&self, readable: Readable) {
        *self.0.write() = readable;
    }

    /// What may be read now; it is not known whether commits are under way.
    pub fn load(&self) -> Readable {
        Readable { quiet: false, ..*self.0.read() }
    }

    /// What may be read now, and whether it is the present of the shard alone.
    pub fn load_unless_busy(&self, is_idle: impl FnOnce() -> bool) -> Readable {
        // Asked before the slot is loaded: a step that is under way may have drawn a timestamp that
        // the slot does not show yet.
        let idle = is_idle();
        let slot = *self.0.read();
        Readable { quiet: slot.quiet && idle, ..slot }
    }
}
