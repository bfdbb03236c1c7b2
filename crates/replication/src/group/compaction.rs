//! Compaction of the log in memory.
//!
//! ```text
//!    base        pin: a snapshot goes to here             applied          last
//!   ──┼───────────────┼───────────────────────────────────────┼──────────────┼──
//!     │  forgotten    │  kept for the member that receives it,│  kept: not   │
//!     │               │  up to a limit                        │  stored yet  │
//! ```
//!
//! Entries that a checkpoint covers are forgotten, but for `keep_log_bytes`. While a member
//! receives a snapshot of the shard, and until it has caught up after it, the entries behind the
//! snapshot are kept for it. Otherwise, under a steady load, the snapshot would be too old when it
//! has arrived, and so would each one after it. The limit of these entries is `pin_log_bytes`. A
//! snapshot whose entries exceed the limit is begun anew at once, and may keep twice as much, up to
//! `most_pin_log_bytes`.
//!
//! Entries are kept only for a member that answers: one that has begun to receive
//! ([`Group::snapshot_begun`]), and after the snapshot, one whose log grows within some
//! checkpoints.

use super::{Group, Index, Progress, Role};
use meridian_machine::{NodeId, Outbox, Reading, sometimes};

/// The number of checkpoints without progress after which no entries are kept for a member that has
/// received its snapshot.
const SILENT_CHECKPOINTS: u32 = 10;

/// The entries that are kept for a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pin {
    /// Entries after this one are kept.
    after: Index,
    /// The member's last entry at the last checkpoint, and the number of checkpoints since its last
    /// progress.
    had: (Index, u32),
}

impl Progress {
    /// Returns the entry after which the log is kept for this member.
    fn pinned(&self) -> Option<Index> {
        self.pin.map(|pin| pin.after.max(self.matched))
    }

    /// True if entries that the member needs after its snapshot are gone.
    pub(super) fn is_outrun(&self, base: Index) -> bool {
        self.pinned().is_some_and(|pinned| pinned < base)
    }

    /// Records that the member needs a snapshot that reaches at least to the log's base, because
    /// the log does not reach back to its entries.
    pub(super) fn wait_for_snapshot(&mut self, base: Index, (least, most): (usize, usize)) {
        let outrun = self.is_outrun(base);
        if outrun {
            sometimes!("a copy is too old before it has arrived");
        }
        self.pin_bytes =
            if outrun { self.pin_bytes.saturating_mul(2).min(most).max(least) } else { least };
        (self.snapshot, self.pin) = (Some(base), None);
    }

    /// Removes the pin if the member has nearly all that was kept for it, or does not answer any
    /// more.
    fn unpin(&mut self, bytes_left: usize, keep_bytes: usize) {
        let Some(pin) = self.pin.as_mut().filter(|_| self.snapshot.is_none()) else { return };
        let stands = if pin.had.0 == self.matched { pin.had.1 + 1 } else { 0 };
        pin.had = (self.matched, stands);
        if bytes_left <= keep_bytes || stands > SILENT_CHECKPOINTS {
            self.pin = None;
        }
    }
}

impl Group {
    /// Forgets entries at or below `through`, which are in a durable checkpoint.
    pub fn compact(&mut self, through: Index) {
        let (through, keep) = (through.min(self.commit), self.config.keep_log_bytes);
        let mut pinned: Option<(Index, usize)> = None;
        if let Role::Leader { followers, .. } = &mut self.role {
            for progress in followers.values_mut() {
                let Some(after) = progress.pinned() else { continue };
                progress.unpin(self.log.bytes_after(after), keep);
                if progress.pin.is_some() {
                    let (oldest, most) = pinned.unwrap_or((after, 0));
                    pinned = Some((oldest.min(after), most.max(progress.pin_bytes)));
                }
            }
        }
        let (oldest, limit) = pinned.unwrap_or((through, keep));
        self.log.compact(through.min(oldest), keep);
        self.log.compact(through, limit.max(keep));
    }

    /// Records that a follower has begun to receive a snapshot through an entry; later entries are
    /// kept.
    pub fn snapshot_begun(&mut self, to: NodeId, index: Index) {
        let Role::Leader { followers, .. } = &mut self.role else { return };
        if let Some(progress) =
            followers.get_mut(&to).filter(|progress| progress.snapshot.is_some())
        {
            progress.pin = Some(Pin { after: index, had: (Index(0), 0) });
        }
    }

    /// Records that a follower has the snapshot through an entry; 0 if it has none and needs
    /// another.
    pub fn snapshot_delivered(
        &mut self,
        now: Reading,
        to: NodeId,
        index: Index,
        out: &mut Outbox<Group>,
    ) {
        let Role::Leader { followers, .. } = &mut self.role else { return };
        let Some(progress) = followers.get_mut(&to) else { return };
        progress.snapshot = None;
        progress.pin = progress.pin.filter(|_| index > Index(0));
        progress.probing = true;
        progress.inflight.clear();
        progress.next = Index(index.0.max(progress.matched.0) + 1);
        self.send_appends(now, false, out);
    }
}
