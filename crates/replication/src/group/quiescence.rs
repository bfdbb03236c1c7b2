//! A group that is not asked falls silent: no heartbeat, no election, and no lease, until it is
//! asked for something.
//!
//! ```text
//!   leader    idle ── Quiesce ──▶ silent ············ asked: heartbeat ──▶ its lease holds again ─▶ serves
//!   follower             waits for nothing ··········· asked: waits for its leader as if it had just been heard
//! ```
//!
//! 1. A leader that was not deposed may extend its lease whenever it likes: a quorum that
//!    acknowledges its term has elected nobody else. It is as if all its heartbeats had been lost
//!    in between.
//! 2. Who was not told still waits, and asks for votes one day: whoever hears that is awake.
//! 3. A removal reaches the removed member once, and may be lost; a silent member would never stand
//!    for election and so find out. So it asks every now and then, which wakes no other member.
//! 4. What a follower is told when all falls silent includes that all it has is agreed: it would
//!    not hear it otherwise.

use super::{Group, Index, Message, Role, Timer};
use meridian_machine::{NodeId, Outbox, Reading, sometimes};

impl Group {
    /// Falls silent, if all that is in the log is agreed and every member has it: one that is away
    /// is waited for, since it may have been told of an earlier silence and would never ask. The
    /// owner sees to it that nobody wants anything.
    pub fn quiesce(&mut self, now: Reading, out: &mut Outbox<Group>) -> bool {
        let (last, term) = (self.log.last().0, self.term);
        let settled = self.is_settled()
            && self.commit == last
            && self.durable == last
            && self.may_lead(self.config.me);
        let Role::Leader { followers, announced: true, abdicating: None, quiescent, .. } =
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

    /// Asks all nodes whether this silent member still is one: those that its log names may have
    /// left the group, too.
    pub(super) fn confirm(&mut self, now: Reading, out: &mut Outbox<Group>) {
        if !self.is_quiescent() || self.gone {
            return;
        }
        sometimes!("a silent member asks whether it still is one");
        let others = self.config.nodes.iter().filter(|node| **node != self.config.me);
        others.for_each(|node| out.send(self.address(*node), Message::Confirm));
        out.arm(Timer::Confirm, now.boot_ns + self.config.confirm_ns);
    }

    /// Somebody wants something of this member, or asks for votes.
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

    /// Whether it waits for nothing but somebody who wants something.
    pub fn is_quiescent(&self) -> bool {
        match self.role {
            Role::Leader { quiescent, .. } => quiescent,
            _ => self.quiescent,
        }
    }

    /// The leader falls silent.
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
        // The leader has heard that this log agrees with its own up to there; there may be more by
        // now.
        if follows && self.matched == last && self.log.last().0 == last {
            self.advance_commit(last, out);
            self.quiescent = true;
            out.disarm(Timer::Election);
            out.arm(Timer::Confirm, now.boot_ns + self.config.confirm_ns);
        }
    }
}
