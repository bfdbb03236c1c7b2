//! Two-phase commit between groups (§4.2.1): as the coordinator, and as a participant.
//!
//! 1. A participant's prepare record holds its locks, the shared ones too: whoever leads next takes
//!    them up before it serves (Trap A.5-8).
//! 2. A shard that was only read logs nothing: it votes with a bound below its ceiling, keeps its
//!    locks until the outcome is known or the bound has passed, and issues above the bound from
//!    then on, as whoever leads next does (Trap A.5-8).
//! 3. The commit timestamp is above all votes and below all bounds (Trap A.5-9). Nobody is told
//!    before it has surely passed.
//! 4. A transaction is decided in the leadership that its prepare records name, or never. What a
//!    leader of that term or a later one knows nothing of is aborted: its commit would stand on a
//!    birth in that leadership, and there is none; one that may yet begin without
//!    ([`blind`](super::blind)) is waited for. A leader of an earlier term says nothing.
//! 5. Decisions stay in the log until every participant has the outcome in its own (Traps A.5-11,
//!    A.5-12). A participant's leader says that of a transaction of which it knows nothing only if
//!    it was not prepared in a later term than its own.
//! 6. An older transaction that waits for one that is prepared, or has voted, has its coordinator
//!    told; while votes are outstanding it is aborted (Trap A.5-10).
//!
//! | file | question |
//! |---|---|
//! | `coordinating` | how does the coordinator collect votes, decide, and tell? |
//! | `participating` | how does a participant prepare, vote, and take in the outcome? |
//! | `readers` | what does a participant do in which a transaction has only read? |
//! | `leaders` | what do leaders say to one another, and ask again? |
//!
//! None of this is decided by a clock: a lease that a wrong clock believes in breaks no transaction
//! apart (I7).

mod coordinating;
mod leaders;
mod participating;
mod readers;

use super::participant::Pending;
use super::records::{Decision, Prepared};
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Address, NodeId, ShardId};
use meridian_txn::locking::{Ask, Blind, Seat, TransactionId, Vote};
use std::collections::{BTreeMap, BTreeSet};

/// What is prepared, or owed, is asked and told again so often.
pub(super) const RESOLVE_NS: u64 = 1_000_000_000;
/// A vote of a shard that was only read is good for at least so long, and for about so long if a
/// new ceiling is needed; under a short lease for less.
const READ_AT_LEAST_NS: u64 = 300_000_000;
const READ_FOR_NS: u64 = 1_000_000_000;
/// What is prepared and not resolved is asked for after 1, 2 and then 4 rounds: at most 2 to the
/// power of this.
const MOST_RESTS: u32 = 2;
/// A prepare timestamp, or what was read, may be so far ahead of the coordinator's clock: otherwise
/// its clock, or another, is wrong.
const FAR_NS: u64 = 1_000_000_000;

/// A transaction that is prepared here.
pub(super) struct InDoubt {
    pub(super) record: Prepared,
    /// The outcome is proposed, and who told it.
    ending: bool,
    told_by: Option<Address>,
    /// The node that led the coordinator's group when this leader prepared it.
    coordinator: Option<NodeId>,
    /// How often its coordinator was looked for, and how many rounds are let pass before the next
    /// time.
    asked: u32,
    rests: u32,
}

impl InDoubt {
    pub(super) fn new(record: Prepared) -> InDoubt {
        // Not in the first moment.
        InDoubt { record, ending: false, told_by: None, coordinator: None, asked: 0, rests: 1 }
    }

    /// Whether its coordinator is to be asked in this round, and where: at the node that led it,
    /// then everywhere, less and less often.
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

    /// When what stands here of it is replaced: at its commit, or where nothing else is. Nobody
    /// issues the last of a nanosecond.
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

/// A decision that participants have to be told of: those that are, and the terms in which they
/// voted.
pub(super) struct Debt {
    at: Timestamp,
    owes: BTreeMap<ShardId, u64>,
}

impl Debt {
    pub(super) fn new(Decision { at, participants, voted_in }: Decision) -> Debt {
        let terms = voted_in.into_iter().chain(std::iter::repeat(0));
        Debt { at, owes: participants.into_iter().zip(terms).collect() }
    }
}

/// A shard's vote: the node that led it, and in which term.
#[derive(Clone, Debug)]
pub(super) struct Ballot {
    pub(super) shard: ShardId,
    pub(super) node: NodeId,
    pub(super) term: u64,
    pub(super) vote: Vote,
}

/// Votes, all of them yes; of each shard the newest.
#[derive(Clone, Debug, Default)]
pub(super) struct Collected(BTreeMap<ShardId, Ballot>);

impl Collected {
    /// The commit timestamp is above this.
    pub(super) fn above(&self) -> Timestamp {
        let above = |ballot: &Ballot| match ballot.vote {
            Vote::Prepared { at, .. } => at,
            Vote::Read { through, .. } => through,
            Vote::No { .. } => Timestamp::ZERO,
        };
        self.0.values().map(above).max().unwrap_or_default()
    }

    /// The commit timestamp is below this.
    pub(super) fn below(&self) -> Timestamp {
        let below = |ballot: &Ballot| match ballot.vote {
            Vote::Prepared { below, .. } | Vote::Read { below, .. } => below,
            Vote::No { .. } => Timestamp::MAX,
        };
        self.0.values().map(below).min().unwrap_or(Timestamp::MAX)
    }

    /// Whether some vote is so far ahead that a clock is wrong: the commit would wait for that, and
    /// everything behind it.
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

/// The leadership that decides on a transaction.
#[derive(Clone, Copy)]
pub(super) struct Decider {
    pub(super) seat: Seat,
    /// Its term: in another one the transaction is never committed.
    term: u64,
    /// How it was asked, if the attempt has locked nothing there.
    blind: Option<Blind>,
}

impl Decider {
    /// The one that a request to prepare names.
    pub(super) fn of(ask: &Ask) -> Option<Decider> {
        let Ask::Prepare { coordinator, blind, decides, .. } = ask else { return None };
        Some(Decider { seat: *coordinator, term: *decides, blind: *blind })
    }
}

/// A transaction that a participant asks about.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) transaction: TransactionId,
    pub(super) blind: Option<Blind>,
    /// The term in which it is decided, and the one in which the participant voted.
    pub(super) decides: u64,
    pub(super) voted_in: u64,
    /// It was only read there.
    pub(super) reads: bool,
}

/// An attempt that has only read here, and has voted.
pub(super) struct Reader {
    decider: Decider,
    /// Its commit timestamp is below this.
    below: Timestamp,
    /// However often the promise is renewed, not beyond this: a schema may be another from there
    /// on.
    limit: Timestamp,
    /// When the coordinator is to be asked whether the promise is needed for longer, in nanoseconds
    /// since the epoch; it is asked once for each promise.
    ask_at: u64,
    asked: bool,
}
