//! What members say to one another, and what each keeps on disk.

use super::Membership;
use bytes::Bytes;
use meridian_machine::NodeId;
use minicbor::decode::{Decoder, Error as DecodeError};
use minicbor::encode::{Encoder, Error as EncodeError, Write};
use minicbor::{Decode, Encode};
use std::fmt;

/// The number of a leadership: grows with each election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Term(#[n(0)] pub u64);

/// A place in the log; the first entry is 1.
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

/// What is agreed on; empty for a leader's first entry. Cheap to clone.
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
    /// Its place.
    #[n(0)]
    pub index: Index,
    /// The leadership that put it there.
    #[n(1)]
    pub term: Term,
    /// What it says.
    #[n(2)]
    pub payload: Payload,
    /// Who is in the group from here on, if that changes.
    #[n(3)]
    pub members: Option<Box<Membership>>,
}

/// A lease vote: no other candidate is voted for until this has surely passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Grant {
    /// Who holds it.
    #[n(0)]
    pub to: NodeId,
    /// Until when, nanoseconds since the epoch.
    #[n(1)]
    pub until: u64,
    /// How long a lease the holder counts on, from when it asked; 0 in what earlier releases wrote.
    #[n(2)]
    #[cbor(default)]
    pub lease_ns: u64,
}

/// What a member keeps on disk.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Record {
    /// The term it is in, whom it voted for in it, and how far it may have granted a lease.
    #[n(0)]
    Standing {
        /// The term.
        #[n(0)]
        term: Term,
        /// The vote.
        #[n(1)]
        voted_for: Option<NodeId>,
        /// At least as far as any grant that was given.
        #[n(2)]
        grant: Option<Grant>,
    },
    /// Entries that replace everything from the first one's index on.
    #[n(1)]
    Append {
        /// At least one.
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
    /// This member was added to a group that was there already.
    #[n(3)]
    Stay {
        /// The entry that added it.
        #[n(0)]
        since: Index,
        /// As a witness; it stays one for as long as it is a member.
        #[n(1)]
        #[cbor(default)]
        witness: bool,
    },
}

/// What members say.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message {
    /// Would you vote for me? Asked before disturbing anybody with a new term.
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
        /// Which stay the voter is asked in; none by one who has no vote itself.
        #[n(3)]
        #[cbor(default)]
        stay: Option<Stay>,
        /// `TT.now().earliest` at the candidate when this was sent; 0 by earlier releases.
        #[n(4)]
        #[cbor(default)]
        asked_at: u64,
    },
    /// Answer to `PreVote`.
    #[n(1)]
    PreVoteReply {
        /// The term that was asked about, or a newer one that the answerer is in.
        #[n(0)]
        term: Term,
        /// Yes or no.
        #[n(1)]
        granted: bool,
        /// Whose vote it is: the stay of the node in the group.
        #[n(2)]
        #[cbor(default)]
        since: Index,
    },
    /// Vote for me.
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
        /// `TT.now().earliest` at the candidate when this was sent; 0 by earlier releases.
        #[n(3)]
        #[cbor(default)]
        asked_at: u64,
    },
    /// Answer to `Vote`; the vote is on disk.
    #[n(3)]
    VoteReply {
        /// The answerer's term.
        #[n(0)]
        term: Term,
        /// Yes or no.
        #[n(1)]
        granted: bool,
        /// Whose vote it is: the stay of the node in the group.
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
        /// In order, without gaps.
        #[n(3)]
        entries: Vec<Entry>,
        /// Everything up to here is agreed.
        #[n(4)]
        commit: Index,
        /// `TT.now().earliest` at the leader when this was sent: the lease is counted from here
        /// (Spanner, Appendix A).
        #[n(5)]
        asked_at: u64,
        /// The entry that made the follower a member.
        #[n(6)]
        #[cbor(default)]
        since: Index,
        /// As a witness.
        #[n(7)]
        #[cbor(default)]
        witness: bool,
        /// How long a lease the leader counts on: the voter promises as much, whatever it would ask
        /// for itself.
        #[n(8)]
        lease_ns: u64,
    },
    /// The follower's log agrees with the leader's up to `matched`, and has it on disk.
    #[n(5)]
    Appended {
        /// The follower's term.
        #[n(0)]
        term: Term,
        /// Durable and equal to the leader's.
        #[n(1)]
        matched: Index,
        /// The `asked_at` for which a lease vote is granted, on disk.
        #[n(2)]
        granted: Option<u64>,
        /// The stay in the group that this is true of: the entry that made the follower a member.
        #[n(3)]
        #[cbor(default)]
        since: Index,
    },
    /// The follower has no such previous entry, or is in a newer term.
    #[n(6)]
    Refused {
        /// The follower's term.
        #[n(0)]
        term: Term,
        /// The `prev_index` that was refused.
        #[n(1)]
        prev_index: Index,
        /// Try after this one.
        #[n(2)]
        hint: Index,
        /// The stay in the group that this is true of.
        #[n(3)]
        #[cbor(default)]
        since: Index,
    },
    /// Your leader has given up: what was promised to it is void.
    #[n(7)]
    TakeOver {
        /// The leader's term.
        #[n(0)]
        term: Term,
        /// Who stands for election now.
        #[n(1)]
        heir: NodeId,
    },
    /// You are no member: not any more, or never, for what would have made you one was not agreed.
    #[n(8)]
    Removed {
        /// As of this entry, which is agreed.
        #[n(0)]
        index: Index,
        /// Landmarks that are agreed: whoever has them in his log is told of them before he goes.
        #[n(1)]
        #[cbor(default)]
        landmarks: Vec<(Index, Term)>,
    },
    /// Nobody wants anything: the leader is silent from now on, and all is agreed.
    #[n(9)]
    Quiesce {
        /// The leader's term.
        #[n(0)]
        term: Term,
        /// The newest entry.
        #[n(1)]
        last: Index,
        /// The stay in the group that is told this.
        #[n(2)]
        since: Index,
    },
    /// A silent member asks whether it still is one. Answered by [`Message::Removed`], or not at
    /// all.
    #[n(10)]
    Confirm,
}

/// A node's membership from the entry that made it a member until one that removes it. Two stays of
/// one node have nothing in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Stay {
    /// That entry; 0 for those who were there at the group's birth.
    #[n(0)]
    pub since: Index,
    /// It keeps the log and no versions.
    #[n(1)]
    pub witness: bool,
}

impl Message {
    /// What a leader or a candidate says to a member tells a node that has none that it is to have
    /// one: since this entry. At the group's birth (0) it has, mostly, and only does not know it
    /// yet.
    pub fn invitation(&self) -> Option<Stay> {
        match self {
            Message::Append { since, witness, .. } => {
                Some(Stay { since: *since, witness: *witness })
            }
            Message::PreVote { stay, .. } => *stay,
            _ => None,
        }
    }
}
