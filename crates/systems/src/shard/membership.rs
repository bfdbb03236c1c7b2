//! Other members for a group: who wants them asks the leader, again and again, until it is so.
//!
//! ```text
//!   Members ──▶ step in the log: newcomers learn ──▶ step: both sets vote ──▶ step: settled ──▶ answered
//! ```
//!
//! The group says which step may be taken
//! ([`Group::next_members`](meridian_replication::group::Group::next_members)); here it gets its
//! timestamp. A later leader goes on with what the log says, whether anybody asks or not.

use super::{Command, Damaged, Kept, Participant, Shard, ShardCommand, ShardResponse};
use crate::shard::rules;
use meridian_clock::Reading;
use meridian_machine::planted::broken;
use meridian_machine::{Address, NodeId, Outbox, ShardId, sometimes};
use meridian_replication::group::{ChangeError, Config, Index, Membership, Restored, Roster, Stay};
use meridian_txn::locking::Members;
use std::collections::BTreeMap;

/// The first entry of a shard that was split off: the split itself, which brings what the shard
/// begins with.
const BIRTH: Index = Index(1);

/// How a node may have come to a member of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The database was created with these, and its keys placed.
    Placed(Box<Membership>),
    /// The shard was split off from another with these.
    Born(Box<Membership>),
    /// A leader has just made it one.
    Invited(Stay),
    /// The log has something of it.
    Remembered,
}

impl Origin {
    /// Of a shard that was split off from one that this node has left since: what
    /// [`keep`](Self::keep) kept.
    pub fn kept(birth: &[u8]) -> Result<Origin, Damaged> {
        if birth.is_empty() {
            return Ok(Origin::Remembered);
        }
        let members = minicbor::decode(birth)
            .map_err(|error| Damaged(format!("who was there at a shard's birth: {error}")));
        members.map(|members| Origin::Born(Box::new(members)))
    }

    /// What is to be kept of a shard's birth by a node that leaves its parent: it may be a member,
    /// and have heard only of its birth.
    pub fn keep(members: Option<&Membership>) -> Vec<u8> {
        members.map_or(Vec::new(), |members| {
            minicbor::to_vec(members).expect("invariant: writing to memory cannot fail")
        })
    }

    /// How the node's member of a shard begins, if it has one. `removed` is the entry since which
    /// it had none, if it ever was removed: then what it was at the shard's birth says nothing any
    /// more.
    ///
    /// Who has only heard of a birth, because its parent's shard came as a copy, has nothing of
    /// what the shard began with. It is told by a leader who has: two of three that have nothing
    /// would agree on nothing, and lose what the third has.
    ///
    /// Fails with the entry behind which the log begins if the store, which has lost something,
    /// does not reach up to there; also where the store does not know of the member any more,
    /// unless it was removed, or its birth may yet come from its parent's log.
    pub fn begins<R>(
        self,
        me: NodeId,
        removed: Option<Index>,
        restored: &Restored,
        kept: &Kept<R>,
    ) -> Result<Option<Origin>, Index> {
        let stands = self.stands(me, removed, restored, kept);
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
                Some(Origin::Invited(Stay { since: Index(0), witness: members.is_witness(me) }))
            }
            known => Some(known),
        })
    }

    fn stands<R>(
        &self,
        me: NodeId,
        removed: Option<Index>,
        restored: &Restored,
        kept: &Kept<R>,
    ) -> bool {
        let stay = restored.stay();
        match (self, removed) {
            (Origin::Invited(_), _) => true,
            (_, Some(removed)) => stay.is_some_and(|stay| stay > removed),
            (Origin::Placed(members) | Origin::Born(members), None) => {
                kept.rows.members.as_ref().unwrap_or(&**members).contains(me) || stay.is_some()
            }
            (Origin::Remembered, None) => {
                kept.rows.members.as_ref().is_some_and(|members| members.contains(me))
                    || stay.is_some()
            }
        }
    }

    /// Of a node that has no member of the shard: whether what its log has of one has ended,
    /// because it was removed, or the shard's own rows say so. Otherwise its parent's copy may yet
    /// say that it was born, and what it voted and promised counts.
    pub fn has_ended<R>(me: NodeId, removed: Option<Index>, kept: &Kept<R>) -> bool {
        removed.is_some() || kept.rows.members.as_ref().is_some_and(|members| !members.contains(me))
    }

    /// Who is in the group, and how this node came to be, if nothing that is kept says more.
    pub fn tell(self, config: &mut Config) {
        (config.members, config.invited) = match self {
            Origin::Placed(members) | Origin::Born(members) => (*members, None),
            Origin::Invited(stay) => (Membership::default(), Some(stay)),
            Origin::Remembered => (Membership::default(), None),
        };
    }
}

/// So many words of a leader are for a member that does not know yet that it is one.
const INVITATIONS: u32 = 100;

/// What leaders have said to members that a node does not have.
#[derive(Debug, Default)]
pub struct Invitations(BTreeMap<ShardId, u32>);

impl Invitations {
    /// A leader speaks to a member since an entry: whether that is to begin now. One that was a
    /// member at the shard's birth has time to read of that in the log.
    pub fn heeds(&mut self, shard: ShardId, since: Index) -> bool {
        let heard = self.0.entry(shard).or_default();
        *heard += 1;
        let heeds = since > Index(0) || *heard > INVITATIONS;
        if heeds {
            self.0.remove(&shard);
        }
        heeds
    }
}

/// A request for other members, answered after the last step.
pub(super) struct Changing {
    wanted: Roster,
    asked: (Address, u64),
}

impl<P: Participant> Shard<P> {
    /// Changes the members of the group as a request wants; answered when that is done.
    pub(crate) fn on_members(
        &mut self,
        now: Reading,
        asked: (Address, u64),
        members: &Members,
        out: &mut Outbox<Shard<P>>,
    ) {
        let (Members { voters, learners, witnesses }, (from, id)) = (members, asked);
        let set = |nodes: &[_]| nodes.iter().copied().collect();
        let wanted =
            Roster { voters: set(voters), learners: set(learners), witnesses: set(witnesses) };
        if let Some(stranger) = wanted.nodes().into_iter().find(|node| !self.nodes.contains(node)) {
            let why = format!("there is no node {}", stranger.0);
            return self.answer(from, ShardResponse::Refused { id, why }, out);
        }
        if self.splitting.is_some() {
            return self.answer(from, ShardResponse::Waiting { id }, out);
        }
        match self.group.change_members(wanted.clone()) {
            Err(ChangeError::NotLeader) => {
                return self.answer(from, ShardResponse::NotLeader { id, leader: None }, out);
            }
            Err(why) => {
                return self.answer(from, ShardResponse::Refused { id, why: why.to_string() }, out);
            }
            Ok(Some(step)) => {
                if !self.take_step(now, step, out) {
                    // The lease does not reach so far yet: it is asked again.
                    return self.answer(from, ShardResponse::Waiting { id }, out);
                }
            }
            Ok(None) => {}
        }
        self.changing = Some(Changing { wanted, asked });
        if !self.group.is_settled() {
            self.answer(from, ShardResponse::Waiting { id }, out);
        }
    }

    fn take_step(&mut self, now: Reading, step: Membership, out: &mut Outbox<Shard<P>>) -> bool {
        let Some(at) = self.draw_one(now) else { return false };
        let payload = P::Command::about_shard(ShardCommand::Members { at }).encode();
        self.with_group(now, out, |group, out| group.propose_members(now, step, payload, out))
            .is_ok()
    }

    /// Takes the next step as soon as it may be taken, and answers after the last.
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
            self.answer(to, ShardResponse::Done { id, at: self.visible }, out);
        }
    }

    /// Answers the pending request that another member leads, when leadership is lost.
    pub(super) fn dismiss_change(&mut self, out: &mut Outbox<Shard<P>>) {
        if let Some(Changing { asked: (to, id), .. }) = self.changing.take() {
            self.answer_not_leader(to, id, out);
        }
    }
}
