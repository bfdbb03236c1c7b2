//! Membership changes: a client repeats its request to the leader until the change is done.
//!
//! ```text
//!   Members ──▶ learners join ──▶ joint consensus: both sets vote ──▶ settled ──▶ answered
//!               each step is an entry of the log
//! ```
//!
//! The group decides which step is next
//! ([`Group::next_members`](meridian_replication::group::Group::next_members)); this module draws
//! its timestamp. A later leader continues from the log, even without a request.

use super::{Command, Damaged, Participant, Recovered, Shard, ShardCommand};
use crate::shard::rules;
use meridian_clock::Reading;
use meridian_machine::planted::broken;
use meridian_machine::{Address, NodeId, Outbox, ShardId, sometimes};
use meridian_replication::group::{
    ChangeError, Config, Index, Membership, MembershipEpoch, Restored, Roster,
};
use meridian_txn::shards::{MemberRoles, Response, Spent};
use std::collections::BTreeMap;

/// The first entry of a shard that was split off: the split itself, which brings the rows with
/// which the shard begins.
const BIRTH: Index = Index(1);

/// The reason why a node has a member of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The database was created with these members, and its keys placed.
    Placed(Box<Membership>),
    /// The shard was split off from another with these members.
    Born(Box<Membership>),
    /// A leader has just added the member.
    Invited(MembershipEpoch),
    /// The log has records of the member.
    Remembered,
}

impl Origin {
    /// Decodes the origin that [`keep`](Self::keep) encoded, for a shard that was split off from
    /// one which this node has left since.
    pub fn recovered(split_origin: &[u8]) -> Result<Origin, Damaged> {
        if split_origin.is_empty() {
            return Ok(Origin::Remembered);
        }
        let members = minicbor::decode(split_origin)
            .map_err(|error| Damaged(format!("the members at a shard's creation: {error}")));
        members.map(|members| Origin::Born(Box::new(members)))
    }

    /// Encodes the origin of a shard for a node that leaves the shard's parent. The node may be a
    /// member of the shard and know of it only by the split.
    pub fn keep(members: Option<&Membership>) -> Vec<u8> {
        members.map_or(Vec::new(), |members| {
            minicbor::to_vec(members).expect("invariant: writing to memory cannot fail")
        })
    }

    /// Returns how the node's member of a shard starts, if it has one. `removed` is the entry of
    /// its last removal, if any: then the members at the shard's creation do not count.
    ///
    /// A node that knows of a split only from a copy of the parent's shard has none of the rows
    /// with which the shard begins. It starts as invited by a leader that has them: otherwise two
    /// of three members without those rows could elect a leader, and lose what the third one has.
    ///
    /// Fails with the entry behind which the log begins if the store has lost state and does not
    /// reach that entry. It also fails if the store does not know the member at all, unless the
    /// member was removed, or its creation may yet come from its parent's log.
    pub fn begins<R>(
        self,
        me: NodeId,
        removed: Option<Index>,
        restored: &Restored,
        recovered: &Recovered<R>,
    ) -> Result<Option<Origin>, Index> {
        let stands = self.stands(me, removed, restored, recovered);
        if let Some(base) =
            restored.gap().filter(|base| stands || (removed.is_none() && *base > BIRTH))
        {
            return Err(base);
        }
        if !stands {
            return Ok(None);
        }
        Ok(match self {
            Origin::Born(members)
                if restored.applied == Index(0) && !broken(rules::HEARSAY_LEADS) =>
            {
                sometimes!("a member has only heard of its shard's birth");
                Some(Origin::Invited(MembershipEpoch {
                    since: Index(0),
                    witness: members.is_witness(me),
                }))
            }
            known => Some(known),
        })
    }

    fn stands<R>(
        &self,
        me: NodeId,
        removed: Option<Index>,
        restored: &Restored,
        recovered: &Recovered<R>,
    ) -> bool {
        let membership_epoch = restored.membership_epoch();
        match (self, removed) {
            (Origin::Invited(_), _) => true,
            (_, Some(removed)) => {
                membership_epoch.is_some_and(|membership_epoch| membership_epoch > removed)
            }
            (Origin::Placed(members) | Origin::Born(members), None) => {
                recovered.rows.members.as_ref().unwrap_or(&**members).contains(me)
                    || membership_epoch.is_some()
            }
            (Origin::Remembered, None) => {
                recovered.rows.members.as_ref().is_some_and(|members| members.contains(me))
                    || membership_epoch.is_some()
            }
        }
    }

    /// True if the member that the log of this node has records of has ended, because it was
    /// removed or the shard's rows do not contain it. Otherwise a copy of its parent may yet say
    /// that it was created, and its votes and promises count.
    pub fn has_ended<R>(me: NodeId, removed: Option<Index>, recovered: &Recovered<R>) -> bool {
        removed.is_some()
            || recovered.rows.members.as_ref().is_some_and(|members| !members.contains(me))
    }

    /// Sets the members, and the invitation if there is one, in a group's configuration.
    pub fn apply_to(self, config: &mut Config) {
        (config.members, config.invited) = match self {
            Origin::Placed(members) | Origin::Born(members) => (*members, None),
            Origin::Invited(membership_epoch) => (Membership::default(), Some(membership_epoch)),
            Origin::Remembered => (Membership::default(), None),
        };
    }
}

/// How many messages of a leader a node waits for before it starts a member that it does not know.
const INVITATIONS: u32 = 100;

/// The number of messages that leaders sent to missing members, by shard.
#[derive(Debug, Default)]
pub struct Invitations(BTreeMap<ShardId, u32>);

impl Invitations {
    /// Counts a leader's message to a missing member. True if the member is to start now. A member
    /// since the shard's creation first gets time to read the split in its parent's log.
    pub fn accepts(&mut self, shard: ShardId, since: Index) -> bool {
        let heard = self.0.entry(shard).or_default();
        *heard += 1;
        let accepts = since > Index(0) || *heard > INVITATIONS;
        if accepts {
            self.0.remove(&shard);
        }
        accepts
    }
}

/// A request for a membership change, answered after its last step.
pub(super) struct Changing {
    wanted: Roster,
    asked: (Address, u64),
}

impl<P: Participant> Shard<P> {
    /// Starts a membership change; answers when it is done.
    pub(crate) fn on_members(
        &mut self,
        now: Reading,
        asked: (Address, u64),
        members: &MemberRoles,
        out: &mut Outbox<Shard<P>>,
    ) {
        let (MemberRoles { voters, learners, witnesses }, (from, id)) = (members, asked);
        let set = |nodes: &[_]| nodes.iter().copied().collect();
        let wanted =
            Roster { voters: set(voters), learners: set(learners), witnesses: set(witnesses) };
        if let Some(stranger) = wanted.nodes().into_iter().find(|node| !self.nodes.contains(node)) {
            let why = format!("there is no node {}", stranger.0);
            return self.answer(from, Response::Refused { id, why }, out);
        }
        if self.splitting.is_some() {
            return self.answer(from, Response::Waiting { id }, out);
        }
        match self.group.change_members(wanted.clone()) {
            Err(ChangeError::NotLeader) => {
                return self.answer(from, Response::NotLeader { id, leader: None }, out);
            }
            Err(why) => {
                return self.answer(from, Response::Refused { id, why: why.to_string() }, out);
            }
            Ok(Some(step)) => {
                if !self.take_step(now, step, out) {
                    // The lease does not reach far enough yet. The client repeats the request.
                    return self.answer(from, Response::Waiting { id }, out);
                }
            }
            Ok(None) => {}
        }
        self.changing = Some(Changing { wanted, asked });
        if !self.group.is_settled() {
            self.answer(from, Response::Waiting { id }, out);
        }
    }

    fn take_step(&mut self, now: Reading, step: Membership, out: &mut Outbox<Shard<P>>) -> bool {
        let Some(at) = self.draw_one(now) else { return false };
        let payload = P::Command::about_shard(ShardCommand::Members { at }).to_payload();
        self.with_group(now, out, |group, out| group.propose_members(now, step, payload, out))
            .is_ok()
    }

    /// Takes the next step as soon as the group allows it, and answers after the last one.
    pub(super) fn go_on_changing(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        if self.splitting.is_some() {
            return;
        }
        if let Some(step) = self.group.next_members() {
            if step.is_joint() {
                sometimes!("one set of voters takes over from another");
            }
            self.take_step(now, step, out);
        }
        let done = |changing: &mut Changing| {
            self.group.is_settled() && self.group.membership().roster() == changing.wanted
        };
        if let Some(Changing { asked: (to, id), .. }) = self.changing.take_if(done) {
            self.answer(
                to,
                Response::Committed { id, at: self.visible, spent: Spent::default() },
                out,
            );
        }
    }

    /// Answers the pending request with `NotLeader` when leadership is lost.
    pub(super) fn dismiss_change(&mut self, out: &mut Outbox<Shard<P>>) {
        if let Some(Changing { asked: (to, id), .. }) = self.changing.take() {
            self.answer_not_leader(to, id, out);
        }
    }
}
