//! Rules that the lab breaks on purpose, to see whether anybody notices.
//!
//! A place that keeps a rule asks `broken(Rule::…)` first. Without the feature `planted`, which nothing that ships has, that is a constant, and
//! nothing is left of it. With it a thread may [`plant`] one rule; from then on the assertions of [`always!`](crate::always) are silent on that
//! thread: who notices has to be a judge of what clients saw, or of what disks hold.

/// What can be broken. Each is one line somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A commit is shown before its timestamp has surely passed (Spanner §4.1.2).
    CommitWait,
    /// A snapshot is served although a commit below it is under way (Trap A.5-6).
    SafeTimeInFlight,
    /// A snapshot in the present is served although nobody else has heard of the promise.
    CeilingNotAgreed,
    /// A snapshot is served although a transaction that is prepared below it may have written into it (Trap A.5-5).
    SafeTimePrepared,
    /// Something prepared that may be committed already is not reckoned with when the newest commit of a range is looked for (Trap A.5-6).
    LastTsPrepared,
    /// Nor is what is installed above commits that are not visible yet.
    LastTsLate,
    /// The newest commit that was acknowledged is read, although one is under way whose timestamp has passed.
    LastTsInFlight,
    /// Of what shards say of the timestamp at which they are to be read, the least is taken (§4.2.2).
    NegotiatedLeast,
    /// A prepare record does not hold the locks of what was read (Trap A.5-8).
    PrepareWithoutReadLocks,
    /// A shard that was only read promises for ever, and nobody heeds it (Trap A.5-8).
    ReadVoteUnbounded,
    /// A commit timestamp is below a prepare timestamp (Trap A.5-9).
    CommitBelowPrepare,
    /// A leader says that a transaction has ended of which it knows nothing, although it may have been prepared under a later leader.
    EndedUnknown,
    /// A leader says that a transaction is aborted that a later one decides.
    DecidesInAnyTerm,
    /// A shard that was only read lets go although its promise is needed for longer.
    ReadVoteNotRenewed,
    /// The coordinator of a prepared transaction is not told that an older one waits for it (Trap A.5-10).
    WoundNotForwarded,
    /// What was planned for a schema that holds no more is served and committed (§4.2.3).
    SchemaUnchecked,
    /// Nobody cares for a change of the schema that is registered and not decided (§4.2.3).
    ChangeNotHeeded,
    /// A timestamp is issued twice (I2).
    DuplicateTimestamp,
    /// A new leader trusts its clock more than the log (Trap A.5-2).
    IssuerBelowLog,
    /// Reads take no locks.
    SharedLocksFree,
    /// Ranges that were read can be written into: phantoms.
    RangeLocksFree,
    /// A transaction that has lost its locks goes on.
    WoundedGoesOn,
    /// The leader of a group with one voter draws timestamps and serves while its node does not know the time (Trap A.5-14).
    FencedServes,
    /// Leadership is given away before sessions of this node hear that they may no longer read by themselves.
    SlotWithdrawnLate,
    /// A session asks to commit again when an older transaction wants a lock of the one that is committing.
    WoundsCommits,
    /// Who only read commits without a look at the lease.
    LeaseUncheckedAtCommit,
    /// A commit of which a leader does not know the outcome is said to be aborted (I5).
    UnknownSaidAborted,
    /// An attempt that asks blindly begins as often as it is heard.
    BlindTwice,
    /// A commit that is asked for again is not remembered (Trap A.5-11).
    OutcomesForgotten,
    /// A leader that forgets an outcome for the sake of newer ones does not note that it may have forgotten some (Trap A.5-15).
    ForgetsSilently,
    /// Entries are acknowledged before they are on disk.
    AckBeforeDurable,
    /// A lease is promised, and the promise not written down.
    PromiseNotLogged,
    /// A vote is given although another was promised a lease (Trap A.5-3).
    LeasesOverlap,
    /// A leader or candidate is heard whose clock is far ahead: its timestamps stop the group until they have passed.
    FarClocksHeard,
    /// One fewer than a majority is enough.
    MajorityOffByOne,
    /// While one set of voters takes over from another, only the new one is asked (Ongaro §4.3).
    OutgoingNotAsked,
    /// The former voters' lease still runs when only the new ones are asked.
    LeaseLeftBehind,
    /// What a node said before it was removed counts after it was added again.
    StaysNotTold,
    /// Members of a shard that was split off, who have nothing of what it began with, elect one of themselves.
    HearsayLeads,
    /// Who has a split in his log, and is sent a copy before he knows that it was agreed on, skips it, and has nothing of the shard that was split off.
    SplitSkipped,
    /// A shard that was split off begins beside a witness of its parent, which has no versions, as if it had them.
    HollowChild,
    /// Who is behind is elected (Raft §5.4.1).
    StaleLogElected,
    /// Entries that contradict the leader's stay.
    ContradictionStays,
    /// A snapshot is served by a member that has not installed everything at or below it.
    ClosedBeforeInstalled,
    /// A copy of a shard has no history: it cannot be read below the moment at which it was made.
    CopyWithoutHistory,
    /// A session that was reading a snapshot at a member goes on at its successor, which began with nothing.
    ReadsNewcomer,
    /// What is no longer kept is read as absent.
    HorizonUnchecked,
    /// Records of the log are taken for what they say.
    LogChecksum,
    /// Blocks of the store are taken for what they say.
    StoreChecksum,
    /// A record that was torn by a crash is taken for whole.
    TornTail,
    /// Recovery of the log relies on what a failed sync has left in the page cache alone.
    TailNotRewritten,
    /// A store that was emptied is gone on with.
    GapUnnoticed,
    /// A log whose entries contradict what the store was filled from is kept after a restart.
    LogContradictsStore,
    /// A log that was emptied is gone on with.
    EmptiedLogUnnoticed,
    /// A member that comes back with an empty disk is taken for the one that it was.
    DisksNotRemembered,
    /// A replica that nobody leads answers before it has on disk what it says.
    RepliesBeforeDurable,
    /// A replica forgets over a restart that it has left a view.
    ViewNotKept,
    /// As many answers are taken for fast as are in the paper, where nobody is freed by a fact (TAPIR §3.2.1).
    FastQuorumTooSmall,
    /// What a client has decided in one view is taken for the result in a later one, which has forgotten that something else was decided since.
    OldDecisionsCount,
    /// A client decides on what one replica knows, which may be alone with it.
    DecidesFromOne,
    /// What replicas of different views have is forgotten like what everybody has.
    ForgetsWhatOneLacks,
    /// What is not yet on the disk of every store is forgotten by those who know it.
    ForgetsBeforeStored,
    /// What is other than in another view is taken up, or merged, by who was not in that.
    BaseUnchecked,
    /// Answers of an epoch count for who asks the replicas of another one.
    EpochUnchecked,
    /// A client decides anew on an operation when a change of replicas ends.
    DecidesTwice,
    /// Answers to a snapshot count together whichever view each replica was in.
    ViewsMixed,
    /// Who takes over begins with what one of the former replicas has.
    FormerNotAsked,
    /// What a node's log has of an earlier stay counts when the node is given a replica again.
    EarlierStayKept,
    /// What a node's store has of an earlier stay is there when the node is given a replica again.
    LetGoForgotten,
    /// A replica that takes over serves reads before it has everything.
    ServesUncopied,
    /// A replica that begins again while it copies asks for what was settled since, of which former replicas do not know.
    CopyMovesOn,
    /// The row of an epoch is noted before the node's replica has begun as that says.
    NotedBeforeBegun,
    /// What was tentative in an older view is merged like what is in the newest (Trap A.2-8).
    OlderViewsMerged,
    /// Records of older views do not count as those that said no (Trap A.2-8).
    OlderViewsNotCounted,
    /// A transaction that wants what others were refused for of late does not wait for its turn.
    TurnsNotTaken,
    /// A transaction that is prepared here is said to be so at whatever other timestamp it is proposed (Trap A.2-2).
    PreparedUnchecked,
    /// A replica serves a snapshot alone that is not settled.
    ServesUnsettled,
    /// Somebody writes below the timestamp of a committed transaction that has read there (Trap A.2-20).
    CommittedReadsFree,
    /// A transaction has read versions above its timestamp (Trap A.2-20).
    ReadsFromTheFuture,
    /// What was not there is not validated: phantoms (Trap A.2-18).
    PhantomsPass,
    /// A transaction is prepared after it has ended (Trap A.2-15).
    EndedPrepares,
    /// A transaction is prepared although somebody was told that it would not be any more (Trap A.2-12).
    FencedPrepares,
    /// A replica that knows that a part of the past is closed says yes to somebody there.
    ClosedSaysYes,
    /// What is closed by a view is settled with it, although nobody was kept from it in the last one: that view may be bypassed (Trap A.2-17).
    SettlesUnclosed,
    /// What is settled passes somebody who is prepared and may commit (Trap A.2-17).
    SettlesPrepared,
    /// Of a commit of several shards nothing is kept, although another shard may have to learn of it.
    NamesForgotten,
    /// Who asks about a timestamp that is forgotten is told that it was refused.
    LateSaidRefused,
    /// What a replica says to have served, or closes, is merged however far its clock is ahead of the others'.
    ClocksUncapped,
    /// A replica that has served a snapshot lets somebody write below it (TAPIR §6.1).
    SnapshotsUnguarded,
    /// A replica forgets over a restart, or does not tell in a view change, up to where it has served snapshots.
    ServedForgotten,
    /// What is prepared below a snapshot is not reckoned with (Trap A.2-3).
    SnapshotsMissPrepared,
    /// Who recovers a transaction takes yeses to different attempts for one (Trap A.2-2).
    AttemptsMixed,
    /// What became of a transaction is told before a view has begun with the question: something may be undecided (Trap A.2-12).
    ResolvedInItsView,
    /// A write is acknowledged before every replica has it, in a store that is read at any one of them.
    AcknowledgedBySome,
    /// A clock jumps while others hold bounds on it (cluster time).
    ClockJumpsAloud,
    /// A clock begins a life below what it has shown (cluster time).
    ClockFloorForgotten,
    /// One clock fewer than a majority is enough to know the time (cluster time).
    FewClocksAreEnough,
    /// What a clock has done since the question was sent is not allowed for (cluster time).
    RoundTripIgnored,
    /// The narrowest interval is believed, and not what most agree on (time masters).
    NarrowestIsBelieved,
    /// A node does not notice that its own clock, or another one, breaks the bound (time masters, cluster time).
    OwnRateUnchecked,
    /// A batch of timestamps is void by a timer that may be slow (Trap A.1-A).
    TtlByASlowTimer,
    /// A batch is void so long after it was answered, and not after it was asked for (Trap A.1-A1).
    TtlFromTheAnswer,
    /// More timestamps are drawn from a batch than there are in it (Trap A.1-A).
    BatchNotCapped,
    /// A batch begins below the last one (Trap A.1-A5).
    BatchGoesBack,
}

impl Rule {
    /// Every one that clients' histories or disks tell of. Of the Spanner protocol's, `ReadVoteNotRenewed`, `FencedServes` and `SlotWithdrawnLate` are not
    /// among them: scripts hold those (`systems/tests/two_phase.rs`, `rules.rs`). Worlds without faults hold `WoundsCommits` (`sim/tests/spanner.rs`). `LogContradictsStore` a transcript of the group holds, `ReadsNewcomer` a situation
    /// that is played (`sim/tests/spanner.rs`).
    pub const ALL: [Rule; 46] = [
        Rule::CommitWait,
        Rule::SafeTimeInFlight,
        Rule::CeilingNotAgreed,
        Rule::SafeTimePrepared,
        Rule::LastTsPrepared,
        Rule::LastTsLate,
        Rule::LastTsInFlight,
        Rule::NegotiatedLeast,
        Rule::PrepareWithoutReadLocks,
        Rule::ReadVoteUnbounded,
        Rule::CommitBelowPrepare,
        Rule::EndedUnknown,
        Rule::DecidesInAnyTerm,
        Rule::WoundNotForwarded,
        Rule::SchemaUnchecked,
        Rule::ChangeNotHeeded,
        Rule::ClosedBeforeInstalled,
        Rule::DuplicateTimestamp,
        Rule::IssuerBelowLog,
        Rule::SharedLocksFree,
        Rule::RangeLocksFree,
        Rule::WoundedGoesOn,
        Rule::LeaseUncheckedAtCommit,
        Rule::UnknownSaidAborted,
        Rule::BlindTwice,
        Rule::OutcomesForgotten,
        Rule::ForgetsSilently,
        Rule::AckBeforeDurable,
        Rule::PromiseNotLogged,
        Rule::LeasesOverlap,
        Rule::FarClocksHeard,
        Rule::MajorityOffByOne,
        Rule::HearsayLeads,
        Rule::SplitSkipped,
        Rule::HollowChild,
        Rule::StaleLogElected,
        Rule::ContradictionStays,
        Rule::HorizonUnchecked,
        Rule::CopyWithoutHistory,
        Rule::LogChecksum,
        Rule::StoreChecksum,
        Rule::TornTail,
        Rule::TailNotRewritten,
        Rule::GapUnnoticed,
        Rule::EmptiedLogUnnoticed,
        Rule::DisksNotRemembered,
    ];

    /// Those of changing members, where the group alone is looked at (`replication/tests/faults.rs`).
    pub const OF_MEMBERS: [Rule; 2] = [Rule::OutgoingNotAsked, Rule::StaysNotTold];

    /// Those of inconsistent replication, where its replicas alone are looked at (`replication/tests/unordered.rs`, `views.rs`); `OlderViewsNotCounted` a schedule of TAPIR's
    /// holds (`systems/tests/schedules.rs`).
    pub const OF_RECORDS: [Rule; 9] = [
        Rule::RepliesBeforeDurable,
        Rule::ViewNotKept,
        Rule::FastQuorumTooSmall,
        Rule::DecidesFromOne,
        Rule::ForgetsWhatOneLacks,
        Rule::BaseUnchecked,
        Rule::FormerNotAsked,
        Rule::EpochUnchecked,
        Rule::OlderViewsMerged,
    ];

    /// Those of replicas that take over from others, where worlds change them (`sim/tests/taking_over.rs`).
    pub const OF_TAKING_OVER: [Rule; 5] =
        [Rule::EarlierStayKept, Rule::LetGoForgotten, Rule::ServesUncopied, Rule::CopyMovesOn, Rule::NotedBeforeBegun];

    /// Those of transactions that are proposed, which random worlds of them meet (`systems/tests/tapir.rs`); `EndedPrepares`, `ClosedSaysYes`, `ClocksUncapped`, `SettlesUnclosed` and `OldDecisionsCount` schedules hold (`txn/tests/tapir.rs`,
    /// `systems/tests/schedules.rs`), `ViewsMixed` and `DecidesTwice` the session's half of one (`systems/src/tapir/client.rs`), `TurnsNotTaken` a world over continents (`sim/tests/tapir.rs`).
    pub const OF_PROPOSALS: [Rule; 15] = [
        Rule::PreparedUnchecked,
        Rule::CommittedReadsFree,
        Rule::ReadsFromTheFuture,
        Rule::PhantomsPass,
        Rule::FencedPrepares,
        Rule::AttemptsMixed,
        Rule::ResolvedInItsView,
        Rule::SnapshotsUnguarded,
        Rule::ServesUnsettled,
        Rule::ServedForgotten,
        Rule::SnapshotsMissPrepared,
        Rule::ForgetsBeforeStored,
        Rule::SettlesPrepared,
        Rule::NamesForgotten,
        Rule::LateSaidRefused,
    ];

    /// Those of clocks, which clients of one group hardly see: their judge looks at readings (`clock/tests/cluster.rs`).
    pub const OF_CLOCKS: [Rule; 5] = [
        Rule::ClockJumpsAloud,
        Rule::ClockFloorForgotten,
        Rule::FewClocksAreEnough,
        Rule::RoundTripIgnored,
        Rule::OwnRateUnchecked,
    ];

    /// Those of time masters (`clock/tests/masters.rs`).
    pub const OF_MASTERS: [Rule; 3] = [Rule::RoundTripIgnored, Rule::NarrowestIsBelieved, Rule::OwnRateUnchecked];

    /// Those of batches of timestamps (`clock/tests/batches.rs`).
    pub const OF_BATCHES: [Rule; 4] =
        [Rule::TtlByASlowTimer, Rule::TtlFromTheAnswer, Rule::BatchNotCapped, Rule::BatchGoesBack];
}

#[cfg(feature = "planted")]
mod switch {
    use super::Rule;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Rule>> = const { Cell::new(None) };
        static SILENT: Cell<bool> = const { Cell::new(false) };
    }

    /// From now on this thread breaks this rule, or none. `silent`: something else is broken, and assertions are to say nothing of it.
    pub fn plant(rule: Option<Rule>, silent: bool) {
        PLANTED.set(rule);
        SILENT.set(silent || rule.is_some());
    }

    /// Whether this thread breaks this rule.
    pub fn broken(rule: Rule) -> bool {
        PLANTED.get() == Some(rule)
    }

    /// Whether assertions are silent on this thread.
    pub fn silent() -> bool {
        SILENT.get()
    }
}

#[cfg(not(feature = "planted"))]
mod switch {
    use super::Rule;

    /// Does nothing: nothing can be planted here.
    pub const fn plant(_: Option<Rule>, _: bool) {}

    /// Never.
    #[inline(always)]
    pub const fn broken(_: Rule) -> bool {
        false
    }

    /// Never.
    #[inline(always)]
    pub const fn silent() -> bool {
        false
    }
}

pub use switch::{broken, plant, silent};

/// Whether rules can be planted at all.
pub const POSSIBLE: bool = cfg!(feature = "planted");

/// What holds always, in every node, in the lab and outside: I1 to I8 of the architecture, and what a protocol rests on besides. It is silent only
/// where the lab has broken something on purpose.
#[macro_export]
macro_rules! always {
    ($holds:expr, $($what:tt)+) => {
        if !$crate::planted::silent() {
            assert!($holds, $($what)+);
        }
    };
}
