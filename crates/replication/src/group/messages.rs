//! The messages of a group's members, and the records of each on disk.

use super::Membership;
use bytes::Bytes;
use meridian_machine::NodeId;
use minicbor::decode::{Decoder, Error as DecodeError};
use minicbor::encode::{Encoder, Error as EncodeError, Write};
use minicbor::{Decode, Encode};
use std::fmt;

/// The number of a leadership; each election increases it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Term(#[n(0)] pub u64);

/// The position of an entry in the log; the first entry is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Index(#[n(0)] pub u64);

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// The content of an entry; empty for a leader's first entry. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload(pub Bytes);

impl<C> Encode<C> for Payload {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.bytes(&self.0).map(|_| ())
    }
}

impl<'b, C> Decode<'b, C> for Payload {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        d.bytes().map(|bytes| Payload(Bytes::copy_from_slice(bytes)))
    }
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Entry {
    /// Its position.
    #[n(0)]
    pub index: Index,
    /// The term of the leader that appended it.
    #[n(1)]
    pub term: Term,
    /// Its content.
    #[n(2)]
    pub payload: Payload,
    /// The group's membership from here on, if it changes.
    #[n(3)]
    pub members: Option<Box<Membership>>,
}

/// A lease vote: the member votes for no other candidate until this has surely passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Grant {
    /// The member that holds the lease.
    #[n(0)]
    pub to: NodeId,
    /// The end of the grant, nanoseconds since the epoch.
    #[n(1)]
    pub until: u64,
    /// The length of the lease that the holder counts on, from when it sent its request; 0 in
    /// records of earlier releases.
    #[n(2)]
    #[cbor(default)]
    pub lease_ns: u64,
}

/// A record of a member on disk.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Record {
    /// The hard state: the term, the vote in it, and the grant.
    #[n(0)]
    HardState {
        /// The term.
        #[n(0)]
        term: Term,
        /// The vote.
        #[n(1)]
        voted_for: Option<NodeId>,
        /// At least as far as any grant that was promised.
        #[n(2)]
        grant: Option<Grant>,
    },
    /// Entries that replace everything from the first one's index on.
    #[n(1)]
    Append {
        /// The entries, at least one.
        #[n(0)]
        entries: Vec<Entry>,
    },
    /// The log begins anew after this entry, which a snapshot or a checkpoint covers.
    #[n(2)]
    Base {
        /// The last entry that is covered.
        #[n(0)]
        index: Index,
        /// Its term.
        #[n(1)]
        term: Term,
    },
    /// This node was added to an existing group.
    #[n(3)]
    MembershipEpoch {
        /// The entry that added it.
        #[n(0)]
        since: Index,
        /// True for a witness; a member stays one for its whole membership epoch.
        #[n(1)]
        #[cbor(default)]
        witness: bool,
    },
}

/// A message between members.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message {
    /// Asks whether the receiver would vote for the sender, before the sender begins a new term.
    #[n(0)]
    PreVote {
        /// The term that would begin.
        #[n(0)]
        term: Term,
        /// The newest entry of the candidate.
        #[n(1)]
        last_index: Index,
        /// Its term.
        #[n(2)]
        last_term: Term,
        /// The voter's membership epoch; none if the sender has no vote itself.
        #[n(3)]
        #[cbor(default)]
        membership_epoch: Option<MembershipEpoch>,
        /// `TT.now().earliest` at the candidate when this was sent; 0 from earlier releases.
        #[n(4)]
        #[cbor(default)]
        asked_at: u64,
    },
    /// The answer to `PreVote`.
    #[n(1)]
    PreVoteReply {
        /// The term that was asked about, or a newer one that the voter is in.
        #[n(0)]
        term: Term,
        /// True if the vote would be granted.
        #[n(1)]
        granted: bool,
        /// The voter's membership epoch.
        #[n(2)]
        #[cbor(default)]
        since: Index,
    },
    /// Requests a vote.
    #[n(2)]
    Vote {
        /// The new term.
        #[n(0)]
        term: Term,
        /// The newest entry of the candidate.
        #[n(1)]
        last_index: Index,
        /// Its term.
        #[n(2)]
        last_term: Term,
        /// `TT.now().earliest` at the candidate when this was sent; 0 from earlier releases.
        #[n(3)]
        #[cbor(default)]
        asked_at: u64,
    },
    /// The answer to `Vote`; a granted vote is on disk.
    #[n(3)]
    VoteReply {
        /// The voter's term.
        #[n(0)]
        term: Term,
        /// True if the vote is granted.
        #[n(1)]
        granted: bool,
        /// The voter's membership epoch.
        #[n(2)]
        #[cbor(default)]
        since: Index,
    },
    /// Entries from the leader; without any it is a heartbeat.
    #[n(4)]
    Append {
        /// The leader's term.
        #[n(0)]
        term: Term,
        /// The entry before the first.
        #[n(1)]
        prev_index: Index,
        /// Its term.
        #[n(2)]
        prev_term: Term,
        /// The entries, in order, without gaps.
        #[n(3)]
        entries: Vec<Entry>,
        /// The last entry that is agreed.
        #[n(4)]
        commit: Index,
        /// `TT.now().earliest` at the leader when this was sent: the lease is counted from here
        /// (Spanner, Appendix A).
        #[n(5)]
        asked_at: u64,
        /// The follower's membership epoch: the entry that made it a member.
        #[n(6)]
        #[cbor(default)]
        since: Index,
        /// True if the follower is a witness.
        #[n(7)]
        #[cbor(default)]
        witness: bool,
        /// The length of the lease that the leader counts on. The follower promises as much,
        /// whatever its own setting.
        #[n(8)]
        lease_ns: u64,
    },
    /// The follower's log equals the leader's up to `matched`, and is on disk.
    #[n(5)]
    Appended {
        /// The follower's term.
        #[n(0)]
        term: Term,
        /// The last entry that is on disk and equal to the leader's.
        #[n(1)]
        matched: Index,
        /// The `asked_at` for which a lease vote is granted, on disk.
        #[n(2)]
        granted: Option<u64>,
        /// The follower's membership epoch: the entry that made it a member.
        #[n(3)]
        #[cbor(default)]
        since: Index,
    },
    /// The follower lacks the previous entry, or is in a newer term.
    #[n(6)]
    Refused {
        /// The follower's term.
        #[n(0)]
        term: Term,
        /// The `prev_index` that was refused.
        #[n(1)]
        prev_index: Index,
        /// The entry after which the leader is to retry.
        #[n(2)]
        hint: Index,
        /// The follower's membership epoch.
        #[n(3)]
        #[cbor(default)]
        since: Index,
    },
    /// The leader has given up leadership: promises to it are void.
    #[n(7)]
    TakeOver {
        /// The leader's term.
        #[n(0)]
        term: Term,
        /// The transfer target, which stands for election now.
        #[n(1)]
        transfer_target: NodeId,
    },
    /// The receiver is not a member: not any more, or never, because the entry that would have
    /// added it was not agreed.
    #[n(8)]
    Removed {
        /// The agreed entry as of which it is not a member.
        #[n(0)]
        index: Index,
        /// Agreed pinned entries. A receiver that has them in its log learns that they are agreed
        /// before it ends.
        #[n(1)]
        #[cbor(default)]
        pinned_entries: Vec<(Index, Term)>,
        /// That entry's term; none if it is not known, and from earlier releases.
        #[n(2)]
        term: Option<Term>,
    },
    /// The group becomes quiescent: everything is agreed, and the leader sends no more heartbeats.
    #[n(9)]
    Quiesce {
        /// The leader's term.
        #[n(0)]
        term: Term,
        /// The newest entry.
        #[n(1)]
        last: Index,
        /// The follower's membership epoch.
        #[n(2)]
        since: Index,
    },
    /// A quiescent member asks whether it still is one. The answer is [`Message::Removed`], or
    /// none.
    #[n(10)]
    Confirm,
}

/// A membership epoch: a node's membership from the entry that added it until one that removes it.
/// Two epochs of one node have nothing in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct MembershipEpoch {
    /// The entry that added it; 0 for a member since the group's creation.
    #[n(0)]
    pub since: Index,
    /// True if it keeps the log and no versions.
    #[n(1)]
    pub witness: bool,
}

impl Message {
    /// Returns the membership epoch that a message of a leader or candidate assigns to its
    /// receiver. A receiver that has no member of the group creates one. Epoch 0 is that of members
    /// since the group's creation, which mostly exist and do not know it yet.
    pub fn invitation(&self) -> Option<MembershipEpoch> {
        match self {
            Message::Append { since, witness, .. } => {
                Some(MembershipEpoch { since: *since, witness: *witness })
            }
            Message::PreVote { membership_epoch, .. } => *membership_epoch,
            _ => None,
        }
    }
}
