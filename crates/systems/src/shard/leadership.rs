//! Leadership follows the load: the node that sends the most requests should lead.
//!
//! A leader counts the requests of each node. If more than three quarters of the requests in two
//! successive windows came through one other node, leadership is transferred to it. That saves each
//! request a round trip, and reads of that node's sessions need no message at all.
//!
//! 1. A transfer aborts no transaction. Once it is decided, new transactions are sent to the
//!    transfer target, and those under way have [`DRAIN_NS`] to end. If one does not end, the
//!    transfer is cancelled, and the next attempt waits twice as long.
//! 2. Leadership does not oscillate: a new leader stays for [`REST_NS`], and reads that sessions of
//!    the leader's node make without a request count as well ([`Shard::note_reads`]).
//!
//! **Departure.** The papers place leaders by hand or by their directories' preference (Spanner
//! §2.2.1).

use super::{Effect, Message, Participant, Shard, Timer};
use meridian_clock::Reading;
use meridian_machine::{NodeId, Outbox, sometimes};
use std::collections::BTreeMap;

const WINDOW_NS: u64 = 2_000_000_000;
/// With fewer requests than this in a window, no transfer is considered.
const FEW: u64 = 50;
/// The number of successive windows with the same favourite that cause a transfer.
const WINDOWS: u32 = 2;
const REST_NS: u64 = 10_000_000_000;
const LONGEST_REST_NS: u64 = 600_000_000_000;
const DRAIN_NS: u64 = 1_000_000_000;

/// The requests of each node in the current window, and the transfer target if there is one.
#[derive(Debug, Default)]
pub(crate) struct Workload {
    asked: BTreeMap<NodeId, u64>,
    /// True if the timer for the end of the window is armed.
    watching: bool,
    /// The node that sent most requests, and in how many successive windows.
    favourite: Option<(NodeId, u32)>,
    /// No transfer begins before this, by the boot clock.
    rests_until: u64,
    rest_ns: u64,
    /// The transfer target, and until when transactions under way may end, by the boot clock.
    pub(crate) transfer_target: Option<(NodeId, u64)>,
}

impl Workload {
    /// Starts counting at the beginning of a leader term.
    pub(super) fn new(now_ns: u64) -> Workload {
        Workload { rests_until: now_ns + REST_NS, rest_ns: REST_NS, ..Workload::default() }
    }
}

impl<P: Participant> Shard<P> {
    /// Announces that this leader begins to serve, to the sessions of all nodes.
    pub(super) fn announce_leader(&self, out: &mut Outbox<Shard<P>>) {
        for node in self.nodes.iter().filter(|node| **node != self.me) {
            out.send(self.replica_address(*node, self.shard), Message::Leads(self.group.term()));
        }
        out.act(Effect::Leader(Some(self.me)));
    }

    /// Adds requests of a node to the window.
    pub(crate) fn count(
        &mut self,
        now: Reading,
        node: NodeId,
        questions: u64,
        out: &mut Outbox<Shard<P>>,
    ) {
        *self.workload.asked.entry(node).or_default() += questions;
        if !self.workload.watching {
            self.workload.watching = true;
            out.arm(Timer::Workload, now.boot_ns + WINDOW_NS);
        }
    }

    /// Counts reads that sessions of this node made without a request, under the lease.
    pub fn note_reads(&mut self, now: Reading, reads: u64, out: &mut Outbox<Shard<P>>) {
        if self.serving && self.group.is_leader() {
            self.is_wanted(now, out);
            self.count(now, self.me, reads, out);
        }
    }

    /// Ends a window: decides whether to transfer leadership.
    pub(super) fn look_at_workload(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        self.workload.watching = false;
        let asked = std::mem::take(&mut self.workload.asked);
        let (all, most) = (
            asked.values().sum::<u64>(),
            asked.into_iter().max_by_key(|(_, questions)| *questions),
        );
        let favourite = most
            .filter(|(node, questions)| *node != self.me && all >= FEW && questions * 4 > all * 3);
        self.workload.favourite = favourite.map(|(node, _)| match self.workload.favourite {
            Some((before, windows)) if before == node => (node, windows + 1),
            _ => (node, 1),
        });
        let rested = now.boot_ns >= self.workload.rests_until;
        let Some((node, WINDOWS..)) = self.workload.favourite else { return };
        if rested
            && self.workload.transfer_target.is_none()
            && self.group.is_leader()
            && self.group.could_lead(node)
        {
            self.workload.transfer_target = Some((node, now.boot_ns + DRAIN_NS));
            out.arm(Timer::HandOver, now.boot_ns + DRAIN_NS);
        }
    }

    /// Transfers leadership once no transaction is under way, or cancels the transfer.
    pub(super) fn hand_over_when_drained(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        let Some((transfer_target, until)) = self.workload.transfer_target else { return };
        if self.participant.has_drained() && self.group.is_leader() {
            sometimes!("leadership is handed to the node that asks most");
            self.workload = Workload::new(now.boot_ns);
            self.with_group(now, out, |group, out| {
                group.transfer_leadership(now, Some(transfer_target), out)
            });
        } else if now.boot_ns >= until {
            let rest_ns = (self.workload.rest_ns * 2).min(LONGEST_REST_NS);
            self.workload =
                Workload { rests_until: now.boot_ns + rest_ns, rest_ns, ..Workload::default() };
        }
    }
}
