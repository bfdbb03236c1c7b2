//! How far back the log in memory reaches, and for whom.
//!
//! ```text
//!    base        pin: a copy goes to here                 applied          last
//!   ──┼───────────────┼───────────────────────────────────────┼──────────────┼──
//!     │  forgotten    │  kept for the member that is sent it, │  kept, it is │
//!     │               │  up to a limit                        │  not stored  │
//! ```
//!
//! What a checkpoint covers is forgotten, but for `keep_log_bytes`. While a member receives a copy
//! of the shard, and until it has caught up after it, the entries behind the copy are kept for it:
//! under a steady load the copy would otherwise be too old by the time that it has arrived, and so
//! would each one after it. The limit of that is `pin_log_bytes`. A copy whose entries are over the
//! limit begins anew at once, and may keep twice as much, up to `most_pin_log_bytes`.
//!
//! Only a member that answers is waited for: one that has begun to receive
//! ([`Group::snapshot_begun`]), and after the copy, one whose log grows within some checkpoints.

use super::{Group, Index, Progress, Role};
use meridian_machine::{NodeId, Outbox, Reading, sometimes};

/// A member whose log has not grown for so many checkpoints after its copy is waited for no more.
const SILENT_CHECKPOINTS: u32 = 10;

/// Entries that are kept for a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pin {
    /// Those after this one.
    after: Index,
    /// What the member had at the last checkpoint, and for how many more it has had no more.
    had: (Index, u32),
}

impl Progress {
    /// The entry after which the log is kept for this member.
    fn pinned(&self) -> Option<Index> {
        self.pin.map(|pin| pin.after.max(self.matched))
    }

    /// Whether entries that it needs after its copy are gone.
    pub(super) fn is_outrun(&self, base: Index) -> bool {
        self.pinned().is_some_and(|pinned| pinned < base)
    }

    /// The log does not reach back to what it has: it needs a copy that goes at least to the log's
    /// base.
    pub(super) fn wait_for_snapshot(&mut self, base: Index, (least, most): (usize, usize)) {
        let outrun = self.is_outrun(base);
        if outrun {
            sometimes!("a copy is too old before it has arrived");
        }
        self.pin_bytes =
            if outrun { self.pin_bytes.saturating_mul(2).min(most).max(least) } else { least };
        (self.snapshot, self.pin) = (Some(base), None);
    }

    /// It has all that was kept for it, or does not answer any more.
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
    /// Entries at or below `through` are in a durable checkpoint.
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

    /// A follower has begun to receive a copy through an entry: what comes after it is kept.
    pub fn snapshot_begun(&mut self, to: NodeId, index: Index) {
        let Role::Leader { followers, .. } = &mut self.role else { return };
        if let Some(progress) =
            followers.get_mut(&to).filter(|progress| progress.snapshot.is_some())
        {
            progress.pin = Some(Pin { after: index, had: (Index(0), 0) });
        }
    }

    /// A follower has the snapshot through an entry; 0, if it has none and is to be sent another.
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
