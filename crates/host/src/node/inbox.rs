//! The node's side of its links and of waits: dispatches frames, and ends requests that can get no
//! response any more.

use crate::clock_sync::ClockSync;
use crate::directory::Directory;
use crate::node_resources::NodeResources;
use crate::peers::Receive;
use crate::timers::Wake;
use crate::transfer::Transfers;
use meridian_machine::{Incarnation, NodeId};
use meridian_systems::envelope::{self, Frame, Kind};
use std::sync::{Arc, OnceLock, Weak};

/// Dispatches the frames of other nodes.
pub(super) struct Inbox {
    pub(super) directory: Weak<Directory>,
    pub(super) transfers: Arc<OnceLock<Arc<Transfers>>>,
    pub(super) clock_sync: Option<Arc<ClockSync>>,
    pub(super) me: NodeId,
    pub(super) incarnation: Incarnation,
}

impl Receive for Inbox {
    fn receive(&self, sender: NodeId, incarnation: Incarnation, frames: &[&[u8]]) {
        let mut of_databases = Vec::with_capacity(frames.len());
        for frame in frames {
            if envelope::is(Kind::TRANSFER, frame) {
                if let Some(transfers) = self.transfers.get() {
                    transfers.receive(sender, frame);
                }
            } else if envelope::is(Kind::TIME, frame) {
                if let Some(clock_sync) = &self.clock_sync {
                    clock_sync.receive(sender, frame);
                }
            } else {
                of_databases.extend(self.open(sender, incarnation, frame));
            }
        }
        let Some(directory) = self.directory.upgrade() else { return };
        for frames in of_databases.chunk_by(|one, next| one.to.database == next.to.database) {
            // Without a handle, the database is not known here yet, or was dropped.
            if let Some(handle) = directory.handle(frames[0].to.database) {
                handle.receive(frames);
            }
        }
    }
}

impl Inbox {
    /// Reads the addresses of a frame, and returns it if it is for this node.
    fn open<'b>(
        &self,
        sender: NodeId,
        incarnation: Incarnation,
        frame: &'b [u8],
    ) -> Option<Frame<'b>> {
        let frame =
            Frame::open(frame).inspect_err(|why| tracing::warn!(%sender, %why, "dropped a frame"));
        frame.ok().filter(|frame| self.is_for_here(sender, incarnation, frame))
    }

    /// True if a frame is from its sender's present incarnation and for this node's present
    /// incarnation.
    fn is_for_here(&self, sender: NodeId, incarnation: Incarnation, frame: &Frame<'_>) -> bool {
        let (from, to, any) = (frame.from, frame.to, Incarnation(0));
        if from.node != sender
            || (from.incarnation != any && from.incarnation != incarnation)
            || to.node != self.me
        {
            tracing::warn!(%sender, %from, %to, "dropped a frame with a foreign address");
            return false;
        }
        to.incarnation == any || to.incarnation == self.incarnation
    }
}

/// Ends, every 20 ms, the waits of requests that can get no response any more.
pub(super) struct Sweeper {
    pub(super) directory: Weak<Directory>,
    pub(super) resources: Weak<NodeResources>,
    pub(super) this: Weak<Sweeper>,
}

impl Sweeper {
    pub(super) const EVERY_NS: u64 = 20_000_000;
}

impl Wake for Sweeper {
    fn wake(self: Arc<Self>) {
        let (Some(directory), Some(resources)) =
            (self.directory.upgrade(), self.resources.upgrade())
        else {
            return;
        };
        directory.handles().iter().for_each(|handle| handle.sweep());
        let this: Weak<dyn Wake> = self.this.clone();
        resources.timers.wake_at(crate::clock::boot_ns() + Self::EVERY_NS, this);
    }
}
