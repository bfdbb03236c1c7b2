//! A group: replicas that agree on one log, led by one member at a time, under a timed lease.
//!
//! **The problem.** Replicas must agree on an order of payloads although messages are lost and
//! members crash; and a leader must know, *without asking anybody*, that no other leader exists, so
//! that it may assign timestamps and serve reads by itself.
//!
//! **The idea.** Agreement is Raft-shaped: a contiguous log, terms, pre-vote, pipelined appends.
//! The lease is Spanner's (Appendix A): whoever votes for a leader, or acknowledges one, promises
//! to vote for no other until a moment that is surely past for everybody. The leader counts the
//! lease from *before* it asked, the voter from *after* it heard, each in true time's bounds:
//!
//! ```text
//!   leader   asked_at = now.earliest ──────── lease: until asked_at + L ─────┤
//!                    └── Append ──▶ voter
//!   voter                          heard: now.latest ─── no other vote until now.latest + L ───┤
//! ```
//!
//! 1. One vote a term, on disk before it is answered.
//! 2. An entry counts for a member only when it is on its disk, the leader's own included.
//! 3. A leader commits by counting only entries of its own term; everything before comes with them.
//! 4. A member that granted a lease to one votes for no other before `TT.after(grant)`, across
//!    restarts too. What is on disk reaches further ahead than what was granted, so that a steady
//!    leader costs one record per lease length, not one per heartbeat.
//! 5. So leases of one group never overlap in true time, as long as intervals are true.
//! 6. A leader gives up on notice only after `TT.after(s_max)`, the largest timestamp that was used
//!    (Trap A.5-1).
//!
//! **Departures.** Spanner's leases ride on Paxos; ours on appends, and heartbeats extend them.
//! `propose` only adds to the log in memory: [`Group::flush`], called once by the owner at the end
//! of a step, persists and sends everything in one go. The commit index travels with the next
//! append or heartbeat, never alone.
//!
//! 7. Who is in the group, its log says; from the moment it does (`membership`, `changes`).
//! 8. A group that nobody asks is silent (`quiescence`).
//! 9. The log in memory reaches back as far as the members that are being helped need
//!    (`compaction`).
//! 10. A leader whose clock is far ahead is not heard (`far_clocks`).

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
pub use messages::{Entry, Grant, Index, Message, Payload, Record, Stay, Term};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Who is in the group, and how patient they are.
#[derive(Clone, Debug)]
pub struct Config {
    /// This member.
    pub me: NodeId,
    /// Who is in it, as far as applied entries say; nobody, for one that is to be told everything.
    pub members: Membership,
    /// A leader has just made this node a member, which nothing says yet that is kept.
    pub invited: Option<Stay>,
    /// Every node there is: whom a member asks that has nothing yet, and is told nothing.
    pub nodes: Vec<NodeId>,
    /// The database.
    pub database: DatabaseId,
    /// The shard.
    pub shard: ShardId,
    /// How often a leader is heard.
    pub heartbeat_ns: u64,
    /// How long a silence means that there is no leader; drawn from one to two times this.
    pub election_timeout_ns: u64,
    /// How often a silent member asks whether it still is one.
    pub confirm_ns: u64,
    /// The length of a lease: 10 s in the paper.
    pub lease_ns: u64,
    /// The size of one append.
    pub max_append_bytes: usize,
    /// Appends to one follower that are not answered yet.
    pub max_inflight: usize,
    /// To a follower that answers sooner there is one: what comes meanwhile goes together with the
    /// next, which costs everybody fewer wakes and syncs than it costs in time.
    pub prompt_ns: u64,
    /// Entries kept in memory for slow followers although a checkpoint covers them.
    pub keep_log_bytes: usize,
    /// Entries kept in memory while a member receives a copy, and until it has caught up after it …
    pub pin_log_bytes: usize,
    /// … twice as many each time that they were too few for a copy, up to this.
    pub most_pin_log_bytes: usize,
    /// Stands for election at its birth, if nobody leads yet as far as it knows.
    pub eager: bool,
}

impl Config {
    /// Sensible settings for members on one continent; they vote, all of them.
    pub fn new(me: NodeId, members: Vec<NodeId>, database: DatabaseId, shard: ShardId) -> Self {
        Config {
            me,
            members: Membership::at_birth(Roster::voters(members.iter().copied())),
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

/// What a member was when it stopped.
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
    /// What the records leave of the log, as far as the store does not contradict it: the entry
    /// before the first, and the entries.
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

    /// Whether a log is not the one that the store was filled from: it ends before the entry that
    /// the store ends with, or has an entry of another term there. Such a log was left behind by a
    /// crash between the store's switch to a copy and the log's record of it: none of its entries
    /// at or above the first that differs was ever agreed on. A term of 0 is not known.
    fn contradicts(&self, last: Index, found: Option<Term>) -> bool {
        let differs = |found: Term| {
            found != self.applied_term && found != Term(0) && self.applied_term != Term(0)
        };
        last < self.applied || found.is_some_and(differs) && !broken(rules::LOG_CONTRADICTS_STORE)
    }

    fn replayed(&self) -> ((Index, Term), BTreeMap<Index, Entry>) {
        let (mut base, mut kept) = (<(Index, Term)>::default(), BTreeMap::new());
        let (mut last, mut stay) = (Index(0), None);
        for record in &self.records {
            match record {
                Record::Standing { .. } => {}
                Record::Stay { since, .. } => {
                    if stay.replace(*since) != Some(*since) {
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
                        // What stood between was freed.
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

    /// Which entry made it a member, if it was not one at the group's birth.
    pub fn stay(&self) -> Option<Index> {
        let stays = self.records.iter().rev();
        stays
            .filter_map(
                |record| if let Record::Stay { since, .. } = record { Some(*since) } else { None },
            )
            .next()
    }

    /// The entry behind which the log begins, if the store does not reach up to there: it has lost
    /// what the log was allowed to forget.
    pub fn gap(&self) -> Option<Index> {
        let base = self.log().0.0;
        (base > self.applied && !broken(rules::GAP_UNNOTICED)).then_some(base)
    }
}

/// An heir that lacks entries is looked at again after this.
/// So many landmarks are told of.
const LANDMARKS: usize = 4_096;
const SOON_NS: u64 = 2_000_000;

/// What a member waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// No leader was heard.
    Election,
    /// The leader's turn to speak.
    Heartbeat,
    /// The leader gives up as soon as `s_max` has passed.
    Abdicate,
    /// A silent member's turn to ask whether it still is one.
    Confirm,
}

/// What the owner is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Agreed entries, in order, each once in a life.
    Committed {
        /// Without gaps.
        entries: Vec<Entry>,
    },
    /// This member leads, everything agreed before is committed, and it holds a lease.
    BecameLeader {
        /// Its term.
        term: Term,
    },
    /// It leads no more.
    LostLeadership {
        /// The term that it led.
        term: Term,
    },
    /// A follower needs what is no longer in the log: send it a snapshot at or above `index`; tell
    /// [`Group::snapshot_begun`] once it takes it, then [`Group::snapshot_delivered`].
    SendSnapshot {
        /// The follower.
        to: NodeId,
        /// The last entry that the snapshot must cover.
        index: Index,
        /// Its term.
        term: Term,
    },
    /// This member is none any more: nothing of what it keeps is needed. It says and hears nothing
    /// from now on.
    Removed {
        /// As of this entry; a stay that begins later is another one.
        index: Index,
    },
}

/// Not the leader; maybe this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLeader {
    /// The leader, as far as this member has heard.
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
    /// Durable there and equal to ours.
    matched: Index,
    /// `matched` at the last heartbeat: no progress in between means that something was lost.
    matched_before: Index,
    /// The last entries of appends that are not answered yet, and when they were sent.
    inflight: VecDeque<(Index, u64)>,
    /// How long it takes to answer, lately; not known before it has.
    answers_in_ns: Option<u64>,
    /// Sends one append at a time until the logs are known to agree.
    probing: bool,
    /// Waits for a snapshot through this entry.
    snapshot: Option<Index>,
    /// What the log keeps for it besides, and how many bytes of that at most.
    pin: Option<Pin>,
    pin_bytes: usize,
    /// The newest `asked_at` that it granted.
    granted: u64,
    /// Which stay of the node this is about.
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
        /// Since when it gives up, by the boot clock.
        abdicating: Option<u64>,
        /// How far its lease reached when another set of voters began to take over.
        leased_to: u64,
        /// By the boot clock.
        began_ns: u64,
        /// It is silent, because nobody wants anything.
        quiescent: bool,
        /// When it was woken last, by the boot clock.
        woken_ns: u64,
    },
}

enum Waiting {
    /// Entries through here, of this term.
    Entries(Index, Term),
    /// The standing; who is to be told of a vote or a grant.
    Standing { term: Term, grant: Option<Grant>, vote_reply: Option<NodeId> },
    /// Since when this is a member.
    Stay,
}

/// One member of a group.
pub struct Group {
    config: Config,
    rng: ChaCha8Rng,
    role: Role,
    term: Term,
    voted_for: Option<NodeId>,
    leader: Option<NodeId>,
    log: Entries,
    /// Entries at or below are in `log` but were not persisted yet from the next one on.
    persisted: Index,
    /// On disk and still in the log.
    durable: Index,
    commit: Index,
    /// As a follower: equal to the leader's log up to here.
    matched: Index,
    /// What was promised.
    grant: Option<Grant>,
    /// What is on disk of the promise: at least as far.
    durable_grant: Option<Grant>,
    /// What is being written of it.
    written_grant: Option<Grant>,
    /// The newest append's `asked_at` that waits for its grant to be durable.
    ungranted: Option<u64>,
    heard_leader_at: Option<u64>,
    /// The largest timestamp that was used under the lease.
    s_max: u64,
    /// Who is to lead next.
    heir: Option<NodeId>,
    /// As a follower: its leader is silent on purpose.
    quiescent: bool,
    memberships: Memberships,
    /// The entry that made this one a member.
    since: Index,
    /// It keeps the log and no versions.
    witness: bool,
    /// Since when it is a member is on disk: what comes after is known to belong to this stay.
    joined: bool,
    /// Removed.
    gone: bool,
    /// Agreed entries that nobody may skip.
    landmarks: BTreeSet<(Index, Term)>,
    waiting: VecDeque<(Position, Waiting)>,
}

impl Group {
    /// A member, new or restored. Arms its first timers.
    pub fn new(
        mut config: Config,
        seed: u64,
        mut restored: Restored,
        now: Reading,
        out: &mut Outbox<Group>,
    ) -> Group {
        config.lease_ns = config.lease_ns.min(promises::LONGEST_LEASE_NS);
        let memberships = Memberships::new(config.members.clone());
        let Stay { since, witness } = config.invited.unwrap_or(config.members.stay(config.me));
        let mut group = Group {
            memberships,
            since,
            witness,
            joined: config.invited.is_none(),
            gone: false,
            landmarks: BTreeSet::new(),
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
            heir: None,
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
                // Before anything is appended to it: the next life must not find the former log
                // below.
                sometimes!("a log contradicts what the store has, and begins anew");
                out.persist(Record::Base { index: applied, term: applied_term });
            }
        }
        group.term = group.term.max(group.log.last().1);
        group.durable = group.log.last().0;
        group.persisted = group.durable;
        (group.durable_grant, group.written_grant) = (group.grant, group.grant);
        if !group.joined {
            let position = out.persist(Record::Stay { since, witness });
            group.waiting.push_back((position, Waiting::Stay));
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
            Record::Standing { term, voted_for, grant } => {
                (self.term, self.voted_for) = (term, voted_for);
                // A grant only grows in a life; another holder's began after the former had passed.
                self.grant = grant;
            }
            Record::Base { index, term } => {
                self.log.reset(index, term);
                // The store goes as far at least, and says who was in the group.
                self.memberships = Memberships::new(self.config.members.clone());
            }
            Record::Stay { since, witness } => {
                if self.since != since {
                    // What stands before is of a former stay.
                    self.log = Entries::default();
                    self.memberships = Memberships::new(self.config.members.clone());
                }
                (self.since, self.witness, self.joined) = (since, witness, true);
            }
            Record::Append { entries } => {
                let Some(first) = entries.first() else { return };
                if first.index.0 > self.log.last().0.0 + 1 || first.index <= self.log.base().0 {
                    // What stood between was freed: a checkpoint's records follow, or the store
                    // covers it.
                    self.log.reset(Index(first.index.0 - 1), Term(0));
                }
                self.log.truncate(first.index);
                self.memberships.truncate(first.index);
                entries.into_iter().for_each(|entry| self.add(entry));
            }
        }
    }

    // ------------------------------------------------------------------------
    // what is known

    /// The leader, as far as this member has heard.
    pub fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    /// Whether this member leads, everything before is committed, and it was announced.
    pub fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader { announced: true, abdicating: None, .. })
    }

    /// The term it is in.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Everything up to here is agreed, as far as this member has heard.
    pub fn commit_index(&self) -> Index {
        self.commit
    }

    /// The newest entry.
    pub fn last_index(&self) -> Index {
        self.log.last().0
    }

    /// The lease of a leader: it may assign timestamps below `granted_until`, and serves reads
    /// while `now.latest` is below it.
    pub fn lease(&self) -> Option<Lease> {
        let Role::Leader { followers, .. } = &self.role else { return None };
        if self.electors().is_empty() {
            return Some(Lease { granted_until: u64::MAX }); // Nobody else votes.
        }
        // Our own promise to ourselves counts like everybody's, as far as it is on disk.
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

    /// The other members.
    pub fn peers(&self) -> impl Iterator<Item = Address> {
        self.others().into_iter().map(|node| self.address(node))
    }

    /// Whether this is another member.
    pub fn is_peer(&self, from: Address) -> bool {
        from.node != self.config.me && self.membership().contains(from.node)
    }

    fn others(&self) -> Vec<NodeId> {
        self.membership().nodes().into_iter().filter(|node| *node != self.config.me).collect()
    }

    fn electors(&self) -> Vec<NodeId> {
        self.others().into_iter().filter(|node| self.membership().is_voter(*node)).collect()
    }

    fn is_alone(&self) -> bool {
        self.membership().contains(self.config.me) && self.others().is_empty()
    }

    /// The records from which this member can be born again without any older one.
    pub fn checkpoint(&self) -> Vec<Record> {
        let (index, term) = self.log.base();
        let (me, agreed) = (self.config.me, self.memberships.agreed());
        let told = self.since > Index(0) || !agreed.contains(me);
        let stay = told.then_some(Record::Stay { since: self.since, witness: self.witness });
        let mut records: Vec<Record> = stay.into_iter().collect();
        records.extend([self.standing(self.written_grant), Record::Base { index, term }]);
        let entries = self.log.from(Index(index.0 + 1), usize::MAX);
        let entries: Vec<Entry> =
            entries.into_iter().filter(|entry| entry.index <= self.persisted).collect();
        if !entries.is_empty() {
            records.push(Record::Append { entries });
        }
        records
    }

    // ------------------------------------------------------------------------
    // what the owner does

    /// Adds a payload to the log. [`Group::flush`] persists and sends it.
    pub fn propose(&mut self, payload: Payload) -> Result<(Term, Index), NotLeader> {
        if !matches!(self.role, Role::Leader { .. }) {
            return Err(NotLeader { leader: self.leader });
        }
        let index = Index(self.log.last().0.0 + 1);
        self.log.push(Entry { index, term: self.term, payload, members: None });
        Ok((self.term, index))
    }

    /// Persists what was proposed and sends it. Called once, at the end of a step.
    pub fn flush(&mut self, now: Reading, out: &mut Outbox<Group>) {
        if self.is_quiescent() && self.log.last().0 > self.commit {
            self.wake(now, out);
        }
        self.persist_entries(out);
        self.send_appends(now, false, out);
    }

    /// A timestamp was used under the lease: commits, prepares, promises and served reads alike
    /// (Trap A.5-1).
    pub fn use_timestamp(&mut self, nanos: u64) {
        self.s_max = self.s_max.max(nanos);
    }

    /// Whether a member could lead at once: it has nearly everything, and answers.
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

    /// Gives up leadership as soon as every used timestamp has surely passed, to an heir or to
    /// whoever has most.
    pub fn abdicate(&mut self, now: Reading, heir: Option<NodeId>, out: &mut Outbox<Group>) {
        self.heir = heir;
        let s_max = self.s_max;
        let members = self.memberships.newest();
        let Role::Leader { abdicating, followers, .. } = &mut self.role else { return };
        let may_lead =
            |node: &NodeId| members.voters().contains(node) && !members.is_witness(*node);
        let able = || followers.iter().filter(|(node, _)| may_lead(node));
        let most = || able().max_by_key(|(_, progress)| progress.matched).map(|(node, _)| *node);
        let heir = self.heir.filter(|heir| able().any(|(node, _)| node == heir)).or_else(most);
        let Some(heir) = heir else { return }; // There is nobody to give up to.
        let began_ns = *abdicating.get_or_insert(now.boot_ns);
        if !now.interval.after(s_max) {
            out.arm(Timer::Abdicate, now.boot_ns + (s_max - now.interval.earliest) + 1);
            return;
        }
        let lacks =
            followers.get(&heir).is_some_and(|progress| progress.matched < self.log.last().0);
        if lacks && now.boot_ns < began_ns + self.config.election_timeout_ns {
            out.arm(Timer::Abdicate, now.boot_ns + SOON_NS); // Nobody would vote for it yet.
            return;
        }
        for node in self.others() {
            out.send(self.address(node), Message::TakeOver { term: self.term, heir });
        }
        // Our promise to ourselves ends here: nothing more is assigned or served under it.
        self.grant = None;
        self.follow(now, None, out);
    }

    /// Somebody knows that these entries were agreed on: of those that stand in this follower's
    /// log, the newest is, and everything before it; the owner is told of that. True if that is
    /// news.
    pub fn learn_agreed(&mut self, entries: &[(Index, Term)], out: &mut Outbox<Group>) -> bool {
        let stands = |(index, term): &&(Index, Term)| self.log.term(*index) == Some(*term);
        let newest = entries.iter().filter(stands).map(|(index, _)| *index).max();
        let Some(index) = newest.filter(|index| *index > self.commit && !self.is_leader()) else {
            return false;
        };
        self.advance_commit(index, out);
        true
    }

    /// An agreed entry that nobody may skip: who leaves the group is told of the newest ones.
    pub fn note_landmark(&mut self, index: Index, term: Term) {
        self.landmarks.insert((index, term));
        if self.landmarks.len() > LANDMARKS {
            self.landmarks.pop_first();
        }
    }

    /// Entries that are not known to be agreed on.
    pub fn in_doubt(&self) -> Vec<Entry> {
        self.log.from(Index(self.commit.0 + 1), usize::MAX)
    }

    /// A follower's owner has stored a snapshot through an entry, durably, with what it says of
    /// members: the log begins anew there.
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
        // Not only members are heard: one that is behind does not know those who came after.
        let from = from.node;
        if from == self.config.me || self.gone || Self::is_from_far_ahead(now, &message) {
            return;
        }
        self.shorten_promise(now);
        if let Message::Removed { index, landmarks } = &message {
            let landmarks = if broken(rules::SPLIT_SKIPPED) { &[] } else { &landmarks[..] };
            return self.on_removed(*index, landmarks, out);
        }
        if matches!(message, Message::Confirm) {
            return self.tell_removed(from, out);
        }
        if matches!(message, Message::PreVote { .. }) {
            self.wake(now, out);
            self.tell_removed(from, out);
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
            Message::Removed { .. } | Message::Confirm => unreachable!("it was taken care of"),
        };
        if term > self.term {
            if matches!(message, Message::Vote { .. })
                && (self.promised_to_another(now, from)
                    || self.hears_a_leader(now) && self.leader != Some(from))
            {
                return; // A promise is kept whatever the term; silence is an answer.
            }
            self.enter(now, term, out);
        }
        match message {
            Message::PreVote { term, last_index, last_term, .. } => {
                let granted = term > self.term
                    && self.up_to_date(last_index, last_term)
                    && !self.hears_a_leader(now)
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
                    self.persist_standing(Some(from), out);
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
            Message::TakeOver { term, heir } if term == self.term => {
                // The leader has given up its lease, and with it this member's promise to it.
                self.wake(now, out);
                self.grant = self.grant.filter(|grant| grant.to != from);
                (self.heard_leader_at, self.leader) = (None, None);
                if heir == self.config.me {
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
            Timer::Abdicate => self.abdicate(now, self.heir, out),
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
                Waiting::Stay => self.joined = true,
                Waiting::Standing { term, grant, vote_reply } => {
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
