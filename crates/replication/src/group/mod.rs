//! A group: replicas that agree on one log, led by one member at a time, under a timed lease.
//!
//! **The problem.** Replicas must agree on an order of payloads although messages are lost and
//! members crash. A leader must know, *without asking another member*, that no other leader exists,
//! so that it may assign timestamps and serve reads by itself.
//!
//! **The idea.** Agreement is Raft-shaped: a contiguous log, terms, pre-vote, pipelined appends.
//! The lease is Spanner's (Appendix A): a member that votes for a leader, or acknowledges one,
//! promises to vote for no other until a time that is surely past on every clock. The leader counts
//! the lease from *before* it sent the request, the voter from *after* it received it, each by the
//! bounds of true time:
//!
//! ```text
//!   leader   asked_at = now.earliest ──────── lease: until asked_at + L ─────┤
//!                    └── Append ──▶ voter
//!   voter                          received: now.latest ─ no other vote until now.latest + L ───┤
//! ```
//!
//! 1. A member votes once a term, and the vote is on disk before it is sent.
//! 2. An entry counts for a member only when it is on its disk, the leader's own included.
//! 3. A leader commits by counting only entries of its own term; everything before comes with them.
//! 4. A member that granted a lease votes for no other member before `TT.after(grant)`, across
//!    restarts too. The grant on disk reaches further ahead than the one that was promised, so that
//!    a steady leader costs one record per lease length, not one per heartbeat.
//! 5. So leases of one group never overlap in true time, as long as intervals are true.
//! 6. A leader transfers leadership only after `TT.after(s_max)`, the largest timestamp that was
//!    used (Trap A.5-1).
//!
//! **Departures.** Spanner's leases ride on Paxos; ours ride on appends, and heartbeats extend
//! them. `propose` only adds to the log in memory: [`Group::flush`], called once by the owner at
//! the end of a step, persists and sends all proposals together. The commit index travels with the
//! next append or heartbeat, never alone.
//!
//! 7. The log says which nodes are members. A membership takes effect when its entry is appended
//!    (`membership`, `changes`).
//! 8. A group without requests is quiescent (`quiescence`).
//! 9. The log in memory reaches back as far as members that are catching up need (`compaction`).
//! 10. Messages of a leader whose clock is far ahead are ignored (`far_clocks`).

mod appends;
mod changes;
mod compaction;
mod elections;
mod entries;
mod far_clocks;
mod membership;
mod messages;
mod promises;
mod quiescence;

use crate::rules;
use compaction::Pin;
use entries::Entries;
use membership::Memberships;
pub use membership::{ChangeError, Membership, Roster};
use meridian_machine::planted::broken;
use meridian_machine::{
    Address, DatabaseId, Machine, NodeId, Outbox, Position, Reading, ShardId, sometimes, step,
};
pub use messages::{Entry, Grant, Index, MembershipEpoch, Message, Payload, Record, Term};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The members of a group, and a member's settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// This member's node.
    pub me: NodeId,
    /// The members according to applied entries; empty for a member that has no state yet.
    pub members: Membership,
    /// Set if a leader has just made this node a member, of which nothing is on disk yet.
    pub invited: Option<MembershipEpoch>,
    /// All nodes. A member without any state, or without an answer, sends its pre-vote to them.
    pub nodes: Vec<NodeId>,
    /// The database.
    pub database: DatabaseId,
    /// The shard.
    pub shard: ShardId,
    /// The interval of a leader's heartbeats.
    pub heartbeat_ns: u64,
    /// The time without a message after which a leader counts as failed; drawn from one to two
    /// times this.
    pub election_timeout_ns: u64,
    /// The interval at which a quiescent member asks whether it still is one.
    pub confirm_ns: u64,
    /// The length of a lease: 10 s in the paper.
    pub lease_ns: u64,
    /// The maximum size of one append.
    pub max_append_bytes: usize,
    /// The maximum number of unanswered appends to one follower.
    pub max_inflight: usize,
    /// A follower that answers sooner than this gets one append at a time: entries that arrive
    /// meanwhile go together with the next append, which saves more wakes and syncs than it costs
    /// in latency.
    pub prompt_ns: u64,
    /// The bytes of entries kept in memory for slow followers although a checkpoint covers them.
    pub keep_log_bytes: usize,
    /// The bytes of entries kept in memory while a member receives a snapshot and until it has
    /// caught up after it …
    pub pin_log_bytes: usize,
    /// … doubled each time that they were too few for a snapshot, up to this.
    pub most_pin_log_bytes: usize,
    /// True if the member stands for election when it is created, unless it knows of a leader.
    pub eager: bool,
}

impl Config {
    /// Returns settings for members on one continent, all of which vote.
    pub fn new(me: NodeId, members: Vec<NodeId>, database: DatabaseId, shard: ShardId) -> Self {
        Config {
            me,
            members: Membership::initial(Roster::voters(members.iter().copied())),
            invited: None,
            nodes: members,
            database,
            shard,
            heartbeat_ns: 100_000_000,
            election_timeout_ns: 600_000_000,
            confirm_ns: 300_000_000_000,
            lease_ns: 2_000_000_000,
            max_append_bytes: 1 << 20,
            max_inflight: 64,
            prompt_ns: 2_000_000,
            keep_log_bytes: 16 << 20,
            pin_log_bytes: 32 << 20,
            most_pin_log_bytes: 256 << 20,
            eager: false,
        }
    }
}

/// The state of a member when it stopped.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// Its records, in order.
    pub records: Vec<Record>,
    /// The last entry whose effects the owner has stored.
    pub applied: Index,
    /// That entry's term.
    pub applied_term: Term,
}

impl Restored {
    /// Returns the log that the records make up: the entry before the first, and the entries. If
    /// the store contradicts them, the log is empty and begins after `applied`.
    pub fn log(&self) -> ((Index, Term), BTreeMap<Index, Entry>) {
        let (base, kept) = self.replayed();
        let last = kept.keys().next_back().copied().unwrap_or(base.0);
        let found = match kept.get(&self.applied) {
            Some(entry) => Some(entry.term),
            None => (base.0 == self.applied).then_some(base.1),
        };
        if self.contradicts(last, found) {
            return ((self.applied, self.applied_term), BTreeMap::new());
        }
        (base, kept)
    }

    /// True if the store was filled from another log: this one ends before the store's last entry,
    /// or has an entry of another term there. Such a log remains after a crash between the store's
    /// switch to a snapshot and the log's record of it. None of its entries at or above the first
    /// that differs was ever agreed. A term of 0 is not known.
    fn contradicts(&self, last: Index, found: Option<Term>) -> bool {
        let differs = |found: Term| {
            found != self.applied_term && found != Term(0) && self.applied_term != Term(0)
        };
        last < self.applied || found.is_some_and(differs) && !broken(rules::LOG_CONTRADICTS_STORE)
    }

    fn replayed(&self) -> ((Index, Term), BTreeMap<Index, Entry>) {
        let (mut base, mut kept) = (<(Index, Term)>::default(), BTreeMap::new());
        let (mut last, mut membership_epoch) = (Index(0), None);
        for record in &self.records {
            match record {
                Record::HardState { .. } => {}
                Record::MembershipEpoch { since, .. } => {
                    if membership_epoch.replace(*since) != Some(*since) {
                        (base, kept, last) = <_>::default();
                    }
                }
                Record::Base { index, term } => {
                    (base, kept, last) = ((*index, *term), BTreeMap::new(), *index)
                }
                Record::Append { entries } => {
                    let (Some(first), Some(end)) = (entries.first(), entries.last()) else {
                        continue;
                    };
                    if first.index.0 > last.0 + 1 || first.index <= base.0 {
                        // The records in between were freed.
                        (base, kept) = ((Index(first.index.0 - 1), Term(0)), BTreeMap::new());
                    }
                    kept.split_off(&first.index);
                    kept.extend(entries.iter().map(|entry| (entry.index, entry.clone())));
                    last = end.index;
                }
            }
        }
        (base, kept)
    }

    /// Returns the entry that made it a member, if it was not one when the group was created.
    pub fn membership_epoch(&self) -> Option<Index> {
        let stays = self.records.iter().rev();
        stays
            .filter_map(|record| {
                if let Record::MembershipEpoch { since, .. } = record { Some(*since) } else { None }
            })
            .next()
    }

    /// Returns the entry after which the log begins if the store does not reach up to there: then
    /// the store has lost entries that the log was allowed to forget.
    pub fn gap(&self) -> Option<Index> {
        let base = self.log().0.0;
        (base > self.applied && !broken(rules::GAP_UNNOTICED)).then_some(base)
    }
}

/// The number of pinned entries that a removed member is sent.
const PINNED_ENTRIES: usize = 4_096;
/// The pause before a leader checks again whether the transfer target has all entries.
const SOON_NS: u64 = 2_000_000;

/// The timers of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// No leader was heard from.
    Election,
    /// The leader's next heartbeat is due.
    Heartbeat,
    /// The leader transfers leadership once `s_max` has passed.
    TransferLeadership,
    /// A quiescent member asks whether it still is one.
    Confirm,
}

/// The events that the owner receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Agreed entries, in order, each once in an incarnation.
    Committed {
        /// The entries, without gaps.
        entries: Vec<Entry>,
    },
    /// This member leads, everything agreed before is committed, and it holds a lease.
    BecameLeader {
        /// Its term.
        term: Term,
    },
    /// This member does not lead any more.
    LostLeadership {
        /// The term that it led.
        term: Term,
    },
    /// A follower needs entries that are no longer in the log. The owner sends it a snapshot at or
    /// above `index`, calls [`Group::snapshot_begun`] when the follower begins to receive it, and
    /// then [`Group::snapshot_delivered`].
    SendSnapshot {
        /// The follower.
        to: NodeId,
        /// The last entry that the snapshot must cover.
        index: Index,
        /// Its term.
        term: Term,
    },
    /// This node is not a member any more, and nothing of its state is needed. It sends and accepts
    /// nothing from now on.
    Removed {
        /// The entry as of which it is removed; a membership epoch that begins later is another
        /// one.
        index: Index,
    },
}

/// The error of a member that does not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLeader {
    /// The leader, as far as this member knows.
    pub leader: Option<NodeId>,
}

/// The right to assign timestamps below `granted_until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Nanoseconds since the epoch.
    pub granted_until: u64,
}

#[derive(Clone, Debug)]
struct Progress {
    /// The next entry to send.
    next: Index,
    /// The follower has the log up to here on disk, equal to the leader's.
    matched: Index,
    /// `matched` at the last heartbeat: no progress in between means that a message was lost.
    matched_before: Index,
    /// The last entries of unanswered appends, and when they were sent.
    inflight: VecDeque<(Index, u64)>,
    /// The recent time from append to answer; unknown before the first answer.
    answers_in_ns: Option<u64>,
    /// Sends one append at a time until the logs are known to agree.
    probing: bool,
    /// The follower waits for a snapshot through this entry.
    snapshot: Option<Index>,
    /// The entries that the log keeps for the follower besides, and the maximum size of them.
    pin: Option<Pin>,
    pin_bytes: usize,
    /// The newest `asked_at` for which the follower granted its lease vote.
    granted: u64,
    /// The follower's membership epoch.
    since: Index,
}

#[derive(Clone, Debug)]
enum Role {
    Follower,
    PreCandidate {
        votes: BTreeSet<NodeId>,
    },
    Candidate {
        votes: BTreeSet<NodeId>,
    },
    Leader {
        followers: BTreeMap<NodeId, Progress>,
        first: Index,
        announced: bool,
        /// When the transfer of leadership began, by the boot clock.
        transferring: Option<u64>,
        /// The end of the lease when joint consensus began.
        leased_to: u64,
        /// When it became leader, by the boot clock.
        began_ns: u64,
        /// True if the group is quiescent.
        quiescent: bool,
        /// When it was last woken, by the boot clock.
        woken_ns: u64,
    },
}

enum Waiting {
    /// Entries through this one, of this term.
    Entries(Index, Term),
    /// The hard state: term, grant, and the candidate that is sent the vote once it is on disk.
    HardState { term: Term, grant: Option<Grant>, vote_reply: Option<NodeId> },
    /// The record of the membership epoch.
    MembershipEpoch,
}

/// A member of a group.
pub struct Group {
    config: Config,
    rng: ChaCha8Rng,
    role: Role,
    term: Term,
    voted_for: Option<NodeId>,
    leader: Option<NodeId>,
    log: Entries,
    /// Entries after this one are in `log` and were not persisted yet.
    persisted: Index,
    /// The last entry of `log` that is on disk.
    durable: Index,
    commit: Index,
    /// As a follower: the log equals the leader's up to here.
    matched: Index,
    /// The lease that was promised.
    grant: Option<Grant>,
    /// The promise that is on disk, at least as far as `grant`.
    durable_grant: Option<Grant>,
    /// The promise that is being written.
    written_grant: Option<Grant>,
    /// The newest append's `asked_at`, which waits for its grant to be on disk.
    ungranted: Option<u64>,
    heard_leader_at: Option<u64>,
    /// The largest timestamp that was used under the lease.
    s_max: u64,
    /// The transfer target: the member that is to lead next.
    transfer_target: Option<NodeId>,
    /// As a follower: the leader is quiescent.
    quiescent: bool,
    memberships: Memberships,
    /// The entry that made this node a member.
    since: Index,
    /// True if it keeps the log and no versions.
    witness: bool,
    /// True if the membership epoch is on disk: records that follow belong to this epoch.
    joined: bool,
    /// True if it was removed.
    gone: bool,
    /// Agreed entries that no member may skip.
    pinned_entries: BTreeSet<(Index, Term)>,
    waiting: VecDeque<(Position, Waiting)>,
}

impl Group {
    /// Creates a member, new or restored, and arms its first timers.
    pub fn new(
        mut config: Config,
        seed: u64,
        mut restored: Restored,
        now: Reading,
        out: &mut Outbox<Group>,
    ) -> Group {
        config.lease_ns = config.lease_ns.min(promises::LONGEST_LEASE_NS);
        let memberships = Memberships::new(config.members.clone());
        let MembershipEpoch { since, witness } =
            config.invited.unwrap_or(config.members.membership_epoch(config.me));
        let mut group = Group {
            memberships,
            since,
            witness,
            joined: config.invited.is_none(),
            gone: false,
            pinned_entries: BTreeSet::new(),
            config,
            rng: ChaCha8Rng::seed_from_u64(seed),
            role: Role::Follower,
            term: Term(0),
            voted_for: None,
            leader: None,
            log: Entries::default(),
            persisted: Index(0),
            durable: Index(0),
            commit: restored.applied,
            matched: Index(0),
            grant: None,
            durable_grant: None,
            written_grant: None,
            ungranted: None,
            heard_leader_at: None,
            s_max: 0,
            transfer_target: None,
            quiescent: false,
            waiting: VecDeque::new(),
        };
        let (applied, applied_term) = (restored.applied, restored.applied_term);
        let records = std::mem::take(&mut restored.records);
        for record in records {
            group.replay(record);
        }
        let last = group.log.last().0;
        if restored.contradicts(last, group.log.term(applied)) {
            group.log.reset(applied, applied_term);
            group.memberships = Memberships::new(group.config.members.clone());
            if last > Index(0) {
                // This is written before anything is appended, so that a restart does not find the
                // former log below.
                sometimes!("a log contradicts what the store has, and begins anew");
                out.persist(Record::Base { index: applied, term: applied_term });
            }
        }
        group.term = group.term.max(group.log.last().1);
        group.durable = group.log.last().0;
        group.persisted = group.durable;
        (group.durable_grant, group.written_grant) = (group.grant, group.grant);
        if !group.joined {
            let position = out.persist(Record::MembershipEpoch { since, witness });
            group.waiting.push_back((position, Waiting::MembershipEpoch));
        }
        let me = group.config.me;
        let first = group.membership().voters().first() == Some(&me);
        let votes = group.votes();
        if votes && (group.is_alone() || group.is_new() && (first || group.config.eager)) {
            out.arm(Timer::Election, now.boot_ns);
        } else {
            group.arm_election(now, out);
        }
        group
    }

    fn replay(&mut self, record: Record) {
        match record {
            Record::HardState { term, voted_for, grant } => {
                (self.term, self.voted_for) = (term, voted_for);
                // A grant only grows in an incarnation; another member's grant began after the
                // former had passed.
                self.grant = grant;
            }
            Record::Base { index, term } => {
                self.log.reset(index, term);
                // The store reaches at least this far, and knows the members.
                self.memberships = Memberships::new(self.config.members.clone());
            }
            Record::MembershipEpoch { since, witness } => {
                if self.since != since {
                    // The records before are of a former membership epoch.
                    self.log = Entries::default();
                    self.memberships = Memberships::new(self.config.members.clone());
                }
                (self.since, self.witness, self.joined) = (since, witness, true);
            }
            Record::Append { entries } => {
                let Some(first) = entries.first() else { return };
                if first.index.0 > self.log.last().0.0 + 1 || first.index <= self.log.base().0 {
                    // The entries in between were freed: a checkpoint's records follow, or the
                    // store covers them.
                    self.log.reset(Index(first.index.0 - 1), Term(0));
                }
                self.log.truncate(first.index);
                self.memberships.truncate(first.index);
                entries.into_iter().for_each(|entry| self.add(entry));
            }
        }
    }

    // ------------------------------------------------------------------------
    // reading the state

    /// Returns the leader, as far as this member knows.
    pub fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    /// True if this member leads, everything before is committed, and the owner has received
    /// `BecameLeader`.
    pub fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader { announced: true, transferring: None, .. })
    }

    /// Returns its term.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Returns the last entry that is agreed, as far as this member knows.
    pub fn commit_index(&self) -> Index {
        self.commit
    }

    /// Returns the last entry that is agreed, as far as this member knows, and its term. `None` if
    /// the log does not reach so far.
    pub fn agreed_entry(&self) -> Option<(Index, Term)> {
        Some((self.commit, self.log.term(self.commit)?))
    }

    /// Returns the newest entry's index.
    pub fn last_index(&self) -> Index {
        self.log.last().0
    }

    /// Returns a leader's lease: it may assign timestamps below `granted_until`, and serves reads
    /// while `now.latest` is below it.
    pub fn lease(&self) -> Option<Lease> {
        let Role::Leader { followers, .. } = &self.role else { return None };
        if self.electors().next().is_none() {
            return Some(Lease { granted_until: u64::MAX }); // No other member votes.
        }
        // The leader's promise to itself counts like a follower's, as far as it is on disk.
        let own = self
            .durable_grant
            .filter(|grant| grant.to == self.config.me)
            .map_or(0, |grant| grant.until);
        let lease = |granted: u64| if granted == 0 { 0 } else { granted + self.config.lease_ns };
        let end = |node: NodeId| match followers.get(&node) {
            Some(progress) => lease(progress.granted),
            None if node == self.config.me => own,
            None => 0,
        };
        Some(Lease { granted_until: self.membership().quorum().reached(end) })
    }

    fn address(&self, node: NodeId) -> Address {
        Address::replica(node, self.config.database, self.config.shard)
    }

    /// Returns the addresses of the other members.
    pub fn peers(&self) -> impl Iterator<Item = Address> {
        self.others().map(|node| self.address(node))
    }

    /// True if this is the address of another member.
    pub fn is_peer(&self, from: Address) -> bool {
        from.node != self.config.me && self.membership().contains(from.node)
    }

    fn others(&self) -> impl Iterator<Item = NodeId> {
        self.membership().nodes().filter(|node| *node != self.config.me)
    }

    fn electors(&self) -> impl Iterator<Item = NodeId> {
        self.others().filter(|node| self.membership().is_voter(*node))
    }

    fn is_alone(&self) -> bool {
        self.membership().contains(self.config.me) && self.others().next().is_none()
    }

    /// Returns the records from which this member can be restored without any older one.
    pub fn checkpoint(&self) -> Vec<Record> {
        let (index, term) = self.log.base();
        let (me, agreed) = (self.config.me, self.memberships.agreed());
        let told = self.since > Index(0) || !agreed.contains(me);
        let membership_epoch =
            told.then_some(Record::MembershipEpoch { since: self.since, witness: self.witness });
        let mut records: Vec<Record> = membership_epoch.into_iter().collect();
        records.extend([self.hard_state(self.written_grant), Record::Base { index, term }]);
        let entries = self.log.from(Index(index.0 + 1), usize::MAX);
        let entries: Vec<Entry> =
            entries.into_iter().filter(|entry| entry.index <= self.persisted).collect();
        if !entries.is_empty() {
            records.push(Record::Append { entries });
        }
        records
    }

    // ------------------------------------------------------------------------
    // the owner's calls

    /// Adds a payload to the log. [`Group::flush`] persists and sends it.
    pub fn propose(&mut self, payload: Payload) -> Result<(Term, Index), NotLeader> {
        if !matches!(self.role, Role::Leader { .. }) {
            return Err(NotLeader { leader: self.leader });
        }
        let index = Index(self.log.last().0.0 + 1);
        self.log.push(Entry { index, term: self.term, payload, members: None });
        Ok((self.term, index))
    }

    /// Persists and sends everything that was proposed. Called once, at the end of a step.
    pub fn flush(&mut self, now: Reading, out: &mut Outbox<Group>) {
        if self.is_quiescent() && self.log.last().0 > self.commit {
            self.wake(now, out);
        }
        self.persist_entries(out);
        self.send_appends(now, false, out);
    }

    /// Records a timestamp that was used under the lease, be it by a commit, a prepare, a promise
    /// or a served read (Trap A.5-1).
    pub fn use_timestamp(&mut self, nanos: u64) {
        self.s_max = self.s_max.max(nanos);
    }

    /// True if a member could lead at once: it has nearly all entries, and answers.
    pub fn could_lead(&self, node: NodeId) -> bool {
        const BEHIND: u64 = 100;
        let Role::Leader { followers, .. } = &self.role else { return false };
        let near = |progress: &Progress| {
            progress.snapshot.is_none()
                && !progress.probing
                && progress.matched.0 + BEHIND >= self.log.last().0.0
        };
        self.may_lead(node) && followers.get(&node).is_some_and(near)
    }

    /// Transfers leadership as soon as every used timestamp has surely passed, to `transfer_target`
    /// or, if it cannot lead, to the member with the longest matching log.
    pub fn transfer_leadership(
        &mut self,
        now: Reading,
        transfer_target: Option<NodeId>,
        out: &mut Outbox<Group>,
    ) {
        self.transfer_target = transfer_target;
        let s_max = self.s_max;
        let members = self.memberships.newest();
        let Role::Leader { transferring, followers, .. } = &mut self.role else { return };
        let may_lead =
            |node: &NodeId| members.voters().contains(node) && !members.is_witness(*node);
        let able = || followers.iter().filter(|(node, _)| may_lead(node));
        let most = || able().max_by_key(|(_, progress)| progress.matched).map(|(node, _)| *node);
        let transfer_target = self
            .transfer_target
            .filter(|transfer_target| able().any(|(node, _)| node == transfer_target))
            .or_else(most);
        let Some(transfer_target) = transfer_target else { return }; // No other member can lead.
        let began_ns = *transferring.get_or_insert(now.boot_ns);
        if !now.interval.after(s_max) {
            out.arm(Timer::TransferLeadership, now.boot_ns + (s_max - now.interval.earliest) + 1);
            return;
        }
        let lacks = followers
            .get(&transfer_target)
            .is_some_and(|progress| progress.matched < self.log.last().0);
        if lacks && now.boot_ns < began_ns + self.config.election_timeout_ns {
            out.arm(Timer::TransferLeadership, now.boot_ns + SOON_NS); // It would not be elected yet.
            return;
        }
        for node in self.others() {
            out.send(self.address(node), Message::TakeOver { term: self.term, transfer_target });
        }
        // The leader's promise to itself ends here: nothing more is assigned or served under it.
        self.grant = None;
        self.follow(now, None, out);
    }

    /// Learns that the group has agreed on these entries. The newest of them that is in this
    /// follower's log is agreed, and everything before it; the owner receives these entries. True
    /// if the commit index advanced.
    pub fn learn_agreed(&mut self, entries: &[(Index, Term)], out: &mut Outbox<Group>) -> bool {
        let stands = |(index, term): &&(Index, Term)| self.log.term(*index) == Some(*term);
        let newest = entries.iter().filter(stands).map(|(index, _)| *index).max();
        let Some(index) = newest.filter(|index| *index > self.commit && !self.is_leader()) else {
            return false;
        };
        self.advance_commit(index, out);
        true
    }

    /// Pins an agreed entry that no member may skip. A member that is removed is sent the newest
    /// ones.
    pub fn pin_entry(&mut self, index: Index, term: Term) {
        self.pinned_entries.insert((index, term));
        if self.pinned_entries.len() > PINNED_ENTRIES {
            self.pinned_entries.pop_first();
        }
    }

    /// Returns the entries that are not known to be agreed.
    pub fn uncommitted(&self) -> Vec<Entry> {
        self.log.from(Index(self.commit.0 + 1), usize::MAX)
    }

    /// Begins the log anew after a snapshot through an entry, which a follower's owner has stored
    /// durably. `members` is the membership in the snapshot.
    pub fn install_snapshot(
        &mut self,
        now: Reading,
        (index, term): (Index, Term),
        members: Membership,
        out: &mut Outbox<Group>,
    ) {
        if index <= self.commit {
            return;
        }
        if self.log.term(index) != Some(term) {
            self.log.reset(index, term);
            self.memberships = Memberships::new(members);
            (self.persisted, self.durable) = (index, index);
            out.persist(Record::Base { index, term });
        }
        self.commit = index;
        self.on_members_agreed(out);
        self.matched = self.matched.max(index);
        self.arm_election(now, out);
        self.acknowledge(out);
    }
}

impl Machine for Group {
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Effect = Event;

    fn on_message(
        &mut self,
        now: Reading,
        from: Address,
        message: Message,
        out: &mut Outbox<Self>,
    ) {
        // Messages of nodes that are not known as members are accepted: a member that is behind
        // does not know later ones.
        let from = from.node;
        if from == self.config.me || self.gone || Self::is_from_far_ahead(now, &message) {
            return;
        }
        self.shorten_promise(now);
        if let Message::Removed { index, pinned_entries, term } = &message {
            let pinned_entries =
                if broken(rules::SPLIT_SKIPPED) { &[] } else { &pinned_entries[..] };
            return self.on_removed((*index, *term), pinned_entries, out);
        }
        if matches!(message, Message::Confirm) {
            return self.notify_removed(from, out);
        }
        if matches!(message, Message::PreVote { .. }) {
            self.wake(now, out);
            self.notify_removed(from, out);
        }
        let term = match &message {
            Message::PreVote { .. } | Message::PreVoteReply { granted: true, .. } => self.term,
            Message::PreVoteReply { term, .. }
            | Message::Vote { term, .. }
            | Message::VoteReply { term, .. }
            | Message::Append { term, .. }
            | Message::Appended { term, .. }
            | Message::Refused { term, .. }
            | Message::TakeOver { term, .. }
            | Message::Quiesce { term, .. } => *term,
            Message::Removed { .. } | Message::Confirm => unreachable!("handled above"),
        };
        if term > self.term {
            if matches!(message, Message::Vote { .. })
                && (self.promised_to_another(now, from)
                    || self.has_live_leader(now) && self.leader != Some(from))
            {
                return; // A promise holds whatever the term; the vote is not answered.
            }
            self.enter(now, term, out);
        }
        match message {
            Message::PreVote { term, last_index, last_term, .. } => {
                let granted = term > self.term
                    && self.up_to_date(last_index, last_term)
                    && !self.has_live_leader(now)
                    && !self.promised_to_another(now, from);
                let (term, since) = (if granted { term } else { self.term }, self.since);
                out.send(self.address(from), Message::PreVoteReply { term, granted, since });
            }
            Message::PreVoteReply { term, granted, since } => {
                let (enough, same) = (self.memberships.newest().quorum(), self.knows(from, since));
                if let Role::PreCandidate { votes } = &mut self.role
                    && granted
                    && same
                    && term.0 == self.term.0 + 1
                {
                    votes.insert(from);
                    if enough.has(votes) {
                        self.stand(now, out);
                    }
                }
            }
            Message::Vote { term, last_index, last_term, .. } => {
                let granted = term == self.term
                    && self.voted_for.is_none_or(|voted| voted == from)
                    && !self.promised_to_another(now, from)
                    && self.up_to_date(last_index, last_term);
                if granted {
                    step!("voter: gives its vote");
                    self.voted_for = Some(from);
                    self.arm_election(now, out);
                    self.persist_hard_state(Some(from), out);
                } else {
                    let reply =
                        Message::VoteReply { term: self.term, granted: false, since: self.since };
                    out.send(self.address(from), reply);
                }
            }
            Message::VoteReply { term, granted, since } => {
                let (enough, same) = (self.memberships.newest().quorum(), self.knows(from, since));
                if let Role::Candidate { votes } = &mut self.role
                    && granted
                    && same
                    && term == self.term
                {
                    votes.insert(from);
                    if enough.has(votes) {
                        self.lead(now, out);
                    }
                }
            }
            Message::Append { term, prev_index, since, .. } if term < self.term => {
                let hint = self.log.last().0;
                out.send(
                    self.address(from),
                    Message::Refused { term: self.term, prev_index, hint, since },
                );
            }
            Message::Append { .. } => self.on_append(now, from, message, out),
            Message::Appended { term, matched, granted, since } if term == self.term => {
                self.on_appended(now, from, (matched, granted, since), out);
            }
            Message::Refused { term, prev_index, hint, since } if term == self.term => {
                self.on_refused(now, from, (prev_index, hint, since), out);
            }
            Message::TakeOver { term, transfer_target } if term == self.term => {
                // The leader has given up its lease, and with it this member's promise to it.
                self.wake(now, out);
                self.grant = self.grant.filter(|grant| grant.to != from);
                (self.heard_leader_at, self.leader) = (None, None);
                if transfer_target == self.config.me {
                    self.campaign(now, false, out);
                }
            }
            Message::Quiesce { term, last, since } if term == self.term => {
                self.on_quiesce(now, from, (last, since), out);
            }
            Message::Appended { .. }
            | Message::Refused { .. }
            | Message::TakeOver { .. }
            | Message::Quiesce { .. }
            | Message::Confirm
            | Message::Removed { .. } => {}
        }
    }

    fn on_timer(&mut self, now: Reading, timer: Timer, out: &mut Outbox<Self>) {
        match timer {
            Timer::Election if self.gone || matches!(self.role, Role::Leader { .. }) => {}
            Timer::Election => {
                self.shorten_promise(now);
                self.campaign(now, false, out);
            }
            Timer::Heartbeat => self.heartbeat(now, out),
            Timer::TransferLeadership => self.transfer_leadership(now, self.transfer_target, out),
            Timer::Confirm => self.confirm(now, out),
        }
    }

    fn on_durable(&mut self, now: Reading, through: Position, out: &mut Outbox<Self>) {
        let mut progressed = false;
        while self.waiting.front().is_some_and(|(position, _)| *position <= through) {
            let (_, waiting) = self.waiting.pop_front().expect("just seen");
            match waiting {
                Waiting::Entries(index, term) => {
                    if self.log.term(index) == Some(term) && index > self.durable {
                        self.durable = index;
                        progressed = true;
                    }
                }
                Waiting::MembershipEpoch => self.joined = true,
                Waiting::HardState { term, grant, vote_reply } => {
                    progressed |= grant != self.durable_grant;
                    self.durable_grant = grant;
                    if let Some(to) =
                        vote_reply.filter(|to| term == self.term && self.voted_for == Some(*to))
                    {
                        if to != self.config.me {
                            let reply = Message::VoteReply {
                                term: self.term,
                                granted: true,
                                since: self.since,
                            };
                            out.send(self.address(to), reply);
                        } else if let Role::Candidate { votes } = &mut self.role {
                            votes.insert(to);
                            if self.memberships.newest().quorum().has(votes) {
                                self.lead(now, out);
                            }
                        }
                    }
                }
            }
        }
        if progressed {
            self.count(out);
            self.announce(now, out);
            self.acknowledge(out);
        }
    }
}
