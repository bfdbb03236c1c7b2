//! Quiescence: a group without requests sends no heartbeats, holds no elections and has no lease
//! until the next request.
//!
//! ```text
//!   leader     idle ── Quiesce ──▶ quiescent ···· request: heartbeat ──▶ has its lease, serves
//!   follower           no election timer ········ request: arms its election timer again
//! ```
//!
//! 1. A leader that was not deposed may extend its lease at any time: a quorum that acknowledges
//!    its term has elected no other. It is as if all its heartbeats had been lost in between.
//! 2. A member that did not receive `Quiesce` keeps its election timer and eventually sends a
//!    pre-vote, which wakes every member that receives it.
//! 3. The notice of a removal is sent once and may be lost. A quiescent member would never stand
//!    for election and so find out. So it asks at intervals (`Confirm`), which wakes no other
//!    member.
//! 4. `Quiesce` implies that everything the follower has is agreed: no later message would tell it.

use super::{Group, Index, Message, Role, Timer};
use meridian_machine::{NodeId, Outbox, Reading, sometimes};

impl Group {
    /// Becomes quiescent if everything in the log is agreed and every member has it. An unreachable
    /// member prevents that, because it may be quiescent since an earlier time and would never ask.
    /// The owner ensures that no request is waiting.
    pub fn quiesce(&mut self, now: Reading, out: &mut Outbox<Group>) -> bool {
        let (last, term) = (self.log.last().0, self.term);
        let settled = self.is_settled()
            && self.commit == last
            && self.durable == last
            && self.may_lead(self.config.me);
        let Role::Leader { followers, announced: true, transferring: None, quiescent, .. } =
            &mut self.role
        else {
            return false;
        };
        let all = followers.values().all(|progress| progress.matched == last);
        if !settled || !all || *quiescent || followers.is_empty() {
            return false;
        }
        *quiescent = true;
        let told: Vec<_> =
            followers.iter().map(|(node, progress)| (*node, progress.since)).collect();
        for (node, since) in told {
            out.send(self.address(node), Message::Quiesce { term, last, since });
        }
        out.disarm(Timer::Heartbeat);
        out.arm(Timer::Confirm, now.boot_ns + self.config.confirm_ns);
        true
    }

    /// Asks all nodes whether this quiescent member still is a member. The members that its log
    /// names may have left the group too.
    pub(super) fn confirm(&mut self, now: Reading, out: &mut Outbox<Group>) {
        if !self.is_quiescent() || self.gone {
            return;
        }
        sometimes!("a silent member asks whether it still is one");
        let others = self.config.nodes.iter().filter(|node| **node != self.config.me);
        others.for_each(|node| out.send(self.address(*node), Message::Confirm));
        out.arm(Timer::Confirm, now.boot_ns + self.config.confirm_ns);
    }

    /// Ends quiescence, because of a request at this member or a pre-vote.
    pub fn wake(&mut self, now: Reading, out: &mut Outbox<Group>) {
        match &mut self.role {
            Role::Leader { quiescent, woken_ns, .. } if *quiescent => {
                sometimes!("a leader that was silent is asked");
                (*quiescent, *woken_ns) = (false, now.boot_ns);
                self.heartbeat(now, out);
            }
            _ if self.quiescent => {
                sometimes!("a follower of a silent leader is asked");
                self.arm_election(now, out);
            }
            _ => {}
        }
    }

    /// True if it is quiescent.
    pub fn is_quiescent(&self) -> bool {
        match self.role {
            Role::Leader { quiescent, .. } => quiescent,
            _ => self.quiescent,
        }
    }

    /// Handles the leader's `Quiesce`.
    pub(super) fn on_quiesce(
        &mut self,
        now: Reading,
        leader: NodeId,
        (last, since): (Index, Index),
        out: &mut Outbox<Group>,
    ) {
        let follows = matches!(self.role, Role::Follower)
            && self.leader == Some(leader)
            && self.since == since;
        // The log equals the leader's up to there. There may be later entries by now.
        if follows && self.matched == last && self.log.last().0 == last {
            self.advance_commit(last, out);
            self.quiescent = true;
            out.disarm(Timer::Election);
            out.arm(Timer::Confirm, now.boot_ns + self.config.confirm_ns);
        }
    }
}
