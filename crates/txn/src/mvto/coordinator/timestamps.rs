//! The timestamps that coordinators draw.

use crate::{Node, Stamps};
use meridian_clock::Timestamp;

/// How far ahead an attempt draws its timestamp at most, after others have lost, in nanoseconds.
const MOST_TRIED_AHEAD_NS: u64 = 50_000_000;
/// The bits of a timestamp's logical part that set coordinators' timestamps apart from leaders',
/// and those that are drawn ahead from the others.
const OF_COORDINATOR: u32 = 1 << 31;
const AHEAD: u32 = 1 << 30;

/// The timestamps that a node draws for a database. One that is drawn ahead of the present does not
/// move the others ahead.
#[derive(Clone, Debug, Default)]
pub(super) struct Draws {
    now: Stamps,
    ahead: Stamps,
}

impl Draws {
    /// Draws a timestamp of now.
    pub(super) fn draw_now(&self, node: &impl Node) -> Timestamp {
        self.draw(node, 0)
    }

    /// Draws a timestamp for an attempt whose former ones have lost for so long: ahead of
    /// transactions that begin now, the further the longer they have tried.
    pub(super) fn draw_after(&self, node: &impl Node, tried_ns: u64) -> Timestamp {
        let ahead_ns = (tried_ns / 8).min(MOST_TRIED_AHEAD_NS);
        self.draw(node, node.now().interval.latest + ahead_ns)
    }

    /// Draws a timestamp at or above `least_ns`, and not below now. It is that of no other
    /// transaction, and of no leader.
    pub(super) fn draw(&self, node: &impl Node, least_ns: u64) -> Timestamp {
        let now_ns = node.now().interval.latest;
        let (stamps, bits) = match least_ns > now_ns {
            true => (&self.ahead, OF_COORDINATOR | AHEAD),
            false => (&self.now, OF_COORDINATOR),
        };
        let at = stamps.draw(node.here(), least_ns.max(now_ns));
        Timestamp { logical: at.logical | bits, ..at }
    }
}
