//! Two-phase commit between groups (§4.2.1): as the coordinator, and as a participant.
//!
//! 1. A participant's prepare record holds its locks, the shared ones too: the next leader restores
//!    them before it serves (Trap A.5-8).
//! 2. A shard that was only read logs nothing. It votes with a bound below its ceiling, and keeps
//!    its locks until the outcome is known or the bound has passed. From then on it issues
//!    timestamps above the bound, and so does its next leader (Trap A.5-8).
//! 3. The commit timestamp is above all votes and below all bounds (Trap A.5-9). No session or
//!    participant is told before it has surely passed.
//! 4. A transaction is decided in the leader term that its prepare records name, or never. A
//!    transaction that is unknown to a leader of that term or a later one is aborted: its commit
//!    would need a lock epoch of that term, and there is none. A one-shot commit that may still be
//!    admitted is waited for ([`one_shot`](super::one_shot)). A leader of an earlier term says
//!    nothing.
//! 5. Decisions stay in the log until every participant has the outcome in its own (Traps A.5-11,
//!    A.5-12). A participant's leader confirms this for a transaction that it does not know only if
//!    the transaction was not prepared in a later term than its own.
//! 6. If an older transaction waits for one that is prepared or has voted, the coordinator is told.
//!    While votes are outstanding, the coordinator aborts (Trap A.5-10).
//!
//! | file | question |
//! |---|---|
//! | `coordinating` | how does the coordinator collect votes, decide, and tell? |
//! | `participating` | how does a participant prepare, vote, and log the outcome? |
//! | `readers` | how does a participant take part that was only read? |
//! | `leaders` | which messages do leaders exchange, and repeat? |
//!
//! No clock decides any of this: a lease that a wrong clock believes in never splits a transaction
//! (I7).

mod coordinating;
mod leaders;
mod participating;
mod readers;

use super::participant::Pending;
use super::records::{Decision, Prepared};
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Address, NodeId, ShardId};
use meridian_txn::locking::{OneShot, ReplicaId, RequestBody, TransactionId, Vote};
use std::collections::{BTreeMap, BTreeSet};

/// The interval at which unresolved votes and decisions are sent again, in nanoseconds.
pub(super) const RESOLVE_NS: u64 = 1_000_000_000;
/// How long the vote of a shard that was only read is good, in nanoseconds: at least, and about, if
/// a new ceiling is needed. Under a short lease it is less.
const READ_AT_LEAST_NS: u64 = 300_000_000;
const READ_FOR_NS: u64 = 1_000_000_000;
/// Limits the backoff of a participant that asks for an outcome: it asks after 1, 2 and then 4
/// rounds, at most 2 to the power of this.
const MOST_RESTS: u32 = 2;
/// How far a prepare timestamp, or what was read, may be ahead of the coordinator's clock, in
/// nanoseconds. Farther ahead, one of the clocks is wrong.
const FAR_NS: u64 = 1_000_000_000;

/// A transaction that is prepared here and not resolved.
pub(super) struct PreparedTxn {
    pub(super) record: Prepared,
    /// True once the outcome is proposed; `told_by` is the leader that sent it.
    ending: bool,
    told_by: Option<Address>,
    /// The node that led the coordinator's group when this leader prepared it.
    coordinator: Option<NodeId>,
    /// How often the coordinator was asked, and how many rounds pass before the next time.
    asked: u32,
    rests: u32,
}

impl PreparedTxn {
    pub(super) fn new(record: Prepared) -> PreparedTxn {
        // Not in the first round.
        PreparedTxn { record, ending: false, told_by: None, coordinator: None, asked: 0, rests: 1 }
    }

    /// Returns whether to ask for the outcome in this round, and which node: first the node that
    /// led the coordinator's group, then all nodes (`None`), less and less often.
    fn asks(&mut self) -> Option<Option<NodeId>> {
        if self.rests > 0 {
            self.rests -= 1;
            return None;
        }
        let first = self.asked == 0;
        self.rests = (1 << self.asked.min(MOST_RESTS)) - 1;
        self.asked += 1;
        Some(self.coordinator.filter(|_| first))
    }

    /// The timestamp at which the prepare record's row is replaced: the commit timestamp, or for an
    /// abort one above the prepare timestamp that no other version has. The last timestamp of a
    /// nanosecond is never issued.
    fn ends_at(&self, at: Option<Timestamp>) -> Timestamp {
        at.unwrap_or(Timestamp { logical: u32::MAX, ..self.record.at })
    }

    fn vote(&self) -> Vote {
        Vote::Prepared {
            at: self.record.from(),
            below: self.record.below.unwrap_or(Timestamp::MAX),
        }
    }
}

/// A decision that some participants do not have in their logs, as far as is known: those
/// participants, with the terms in which they voted.
pub(super) struct UnresolvedCommit {
    at: Timestamp,
    unacknowledged: BTreeMap<ShardId, u64>,
}

impl UnresolvedCommit {
    pub(super) fn new(Decision { at, participants, voted_in }: Decision) -> UnresolvedCommit {
        let terms = voted_in.into_iter().chain(std::iter::repeat(0));
        UnresolvedCommit { at, unacknowledged: participants.into_iter().zip(terms).collect() }
    }
}

/// A shard's vote, the node that led the shard, and its term.
#[derive(Clone, Debug)]
pub(super) struct Ballot {
    pub(super) shard: ShardId,
    pub(super) node: NodeId,
    pub(super) term: u64,
    pub(super) vote: Vote,
}

/// The yes votes of a transaction's participants; of each shard the newest.
#[derive(Clone, Debug, Default)]
pub(super) struct Collected(BTreeMap<ShardId, Ballot>);

impl Collected {
    /// Returns the timestamp that the commit timestamp must be above.
    pub(super) fn above(&self) -> Timestamp {
        let above = |ballot: &Ballot| match ballot.vote {
            Vote::Prepared { at, .. } => at,
            Vote::Read { through, .. } => through,
            Vote::No { .. } => Timestamp::ZERO,
        };
        self.0.values().map(above).max().unwrap_or_default()
    }

    /// Returns the timestamp that the commit timestamp must be below.
    pub(super) fn below(&self) -> Timestamp {
        let below = |ballot: &Ballot| match ballot.vote {
            Vote::Prepared { below, .. } | Vote::Read { below, .. } => below,
            Vote::No { .. } => Timestamp::MAX,
        };
        self.0.values().map(below).min().unwrap_or(Timestamp::MAX)
    }

    /// True if some vote is so far ahead that a clock must be wrong. The commit would wait for it,
    /// and so would every later one.
    pub(super) fn is_far(&self, now: Reading, ahead_ns: u64) -> bool {
        self.above().nanos > now.interval.latest.max(ahead_ns) + FAR_NS
    }

    /// The shards that have prepared, and the terms in which they voted.
    pub(super) fn prepared(&self) -> (Vec<ShardId>, Vec<u64>) {
        let prepared =
            self.0.values().filter(|ballot| matches!(ballot.vote, Vote::Prepared { .. }));
        prepared.map(|ballot| (ballot.shard, ballot.term)).unzip()
    }
}

/// A commit that waits for votes.
pub(super) struct Collecting {
    pub(super) pending: Pending,
    missing: BTreeSet<ShardId>,
    votes: Collected,
}

/// The leader term that decides a transaction, and the member to which votes are sent.
#[derive(Clone, Copy)]
pub(super) struct Decider {
    pub(super) replica: ReplicaId,
    /// The term of the coordinator's leader: in another term the transaction is never committed.
    term: u64,
    /// The one-shot request to the coordinator, if the attempt has locked nothing there.
    one_shot: Option<OneShot>,
}

impl Decider {
    /// Returns the decider that a request to prepare names. `None` for other requests.
    pub(super) fn of(body: &RequestBody) -> Option<Decider> {
        let RequestBody::Prepare { coordinator, one_shot, decides, .. } = body else { return None };
        Some(Decider { replica: *coordinator, term: *decides, one_shot: *one_shot })
    }
}

/// A transaction that a participant asks about.
#[derive(Clone, Copy)]
pub(super) struct Inquiry {
    pub(super) transaction: TransactionId,
    pub(super) one_shot: Option<OneShot>,
    /// The term in which the transaction is decided, and the term in which the participant voted.
    pub(super) decides: u64,
    pub(super) voted_in: u64,
    /// The transaction only read in that shard.
    pub(super) reads: bool,
}

/// An attempt that has only read here, and has voted.
pub(super) struct Reader {
    decider: Decider,
    /// Its commit timestamp is below this.
    below: Timestamp,
    /// Renewals of the promise never go beyond this: a schema may change from there on.
    limit: Timestamp,
    /// When the coordinator is to be asked whether the promise is needed for longer, in nanoseconds
    /// since the epoch. It is asked once for each promise.
    ask_at: u64,
    asked: bool,
}
