//! The timestamp authority of a database, and the leaders that ask it (conventional snapshot
//! isolation, the baseline of Clock-SI §II and §V).
//!
//! ```text
//!   session ── SnapshotTimestamp ─▶ authority: the leader of the first shard
//!   session ◀─ SnapshotTimestamp ──    │
//!   leader  ── AskTimestamps ─────▶    │  at or above its clock, at or below its ceiling
//!   leader  ◀─ Timestamps ─────────    ▼
//! ```
//!
//! Invariants:
//! 1. The authority's timestamps grow, over all its leaders: each lies at or below the ceiling in
//!    the log of the first shard, and a new leader begins above that. The first shard's own
//!    timestamps are of the same issuer.
//! 2. They lie at or above its clock, and a new authority serves once that ceiling has surely
//!    passed. So two never hand out at one time, and a snapshot is above every commit that was
//!    acknowledged before it was asked for, if clocks keep their bounds.
//! 3. A leader commits only at a timestamp above everything that it has drawn, adopted or promised.
//!    It passes over others, so that a late, repeated or reordered answer does no harm.
//! 4. A leader draws the timestamps of everything else itself, just above those: prepare records,
//!    splits and ceilings order its log, and no snapshot shows them. A commit in two phases is
//!    above all of its prepare timestamps.
//!
//! A snapshot above every commit still lies below a ceiling of the shard that serves it. With
//! leases that never overlap it could do without: a later leader asks for its timestamps after the
//! snapshot was handed out. Leases rest on clocks, and this order rests on none.

use super::{Message, Participant, Shard, Timer};
use crate::shard::{LEASE_SOON_NS, rules};
use meridian_clock::{LONGEST_RANGE, Reading, Timestamp, TimestampRange};
use meridian_machine::planted::broken;
use meridian_machine::{Address, NodeId, Outbox, sometimes, step};
use meridian_placement::FIRST_SHARD;
use meridian_replication::group::Term;
use meridian_txn::shards::Response;
use std::collections::VecDeque;

/// The time after which a leader asks the authority again, in nanoseconds.
const AGAIN_NS: u64 = 250_000_000;
/// How far the authority's ceiling reaches beyond the present, in nanoseconds, or as far as its
/// lease if that is less; it is raised at half of that. A later authority has to wait for it.
const AHEAD_NS: u64 = 500_000_000;

/// A request to the authority.
enum Asked {
    /// A session asks for a snapshot.
    Session { from: Address, id: u64 },
    /// The leader of a shard asks for timestamps of commits.
    Leader { from: Address, count: u32, term: Term, above: Timestamp },
}

/// A leader's timestamps of the authority, and the requests to a member that is the authority.
#[derive(Default)]
pub(super) struct AuthorityState {
    /// Timestamps that no commit has used, in order.
    timestamps: VecDeque<Timestamp>,
    /// The number of commits that were found without a timestamp in this step.
    wanting: u32,
    /// True if a commit waits for the lease to reach the next timestamp.
    keeps: bool,
    /// The number of timestamps that were asked for and have not arrived.
    asked: u32,
    /// The node of the authority, if it is known. Otherwise all nodes are asked.
    authority: Option<NodeId>,
    /// True if the timer to ask again is armed, and if the authority has answered since then.
    armed: bool,
    heard: bool,
    /// Requests that this authority has not answered.
    queue: VecDeque<Asked>,
}

impl AuthorityState {
    /// True if nothing is asked for.
    pub(super) fn is_at_rest(&self) -> bool {
        self.queue.is_empty() && self.asked == 0
    }
}

impl<P: Participant> Shard<P> {
    /// True if the leader of this shard is the database's authority.
    fn is_of_authority(&self) -> bool {
        self.policy.asks_authority() && self.shard == FIRST_SHARD
    }

    // ------------------------------------------------------------------------
    // a leader that commits

    /// True if a commit can draw its timestamp. Otherwise it waits for the authority's, which this
    /// step asks for.
    pub(crate) fn has_commit_timestamp(&mut self) -> bool {
        if !self.policy.asks_authority() || self.is_of_authority() {
            return true;
        }
        let last = self.issuer.last();
        let timestamps = &mut self.authority.timestamps;
        while timestamps
            .front()
            .is_some_and(|at| *at <= last && !broken(rules::TIMESTAMP_BELOW_SNAPSHOT))
        {
            sometimes!("a leader passes over a timestamp of the authority");
            timestamps.pop_front();
        }
        let has = !timestamps.is_empty();
        self.authority.wanting += u32::from(!has);
        has
    }

    /// Draws the timestamp of a commit, as [`draw_one`](Self::draw_one) does.
    pub(crate) fn draw_commit(&mut self, now: Reading) -> Option<Timestamp> {
        if self.is_of_authority() {
            return self.draw_from(now, now.interval.latest);
        }
        if !self.policy.asks_authority() {
            return self.draw_one(now);
        }
        let end = self.leased_until(now);
        let next = self.authority.timestamps.front().copied()?;
        if next.nanos >= end {
            self.authority.keeps = true;
            return None;
        }
        self.authority.timestamps.pop_front();
        self.issuer.observe(next);
        self.group.use_timestamp(next.nanos);
        Some(next)
    }

    /// Asks the authority for as many timestamps as commits wait for, in one message.
    pub(super) fn ask_authority(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        let this = &mut self.authority;
        let (wanting, keeps) = (std::mem::take(&mut this.wanting), std::mem::take(&mut this.keeps));
        if wanting == 0 && !keeps {
            this.timestamps.clear(); // They would lie ever further in the past.
        }
        let count = wanting.saturating_sub(this.asked).min(LONGEST_RANGE);
        if count > 0 {
            step!("leader: asks the authority");
            this.asked += count;
            let (authority, term, above) = (this.authority, self.group.term(), self.issuer.last());
            let others = self.nodes.iter().copied().filter(|_| authority.is_none());
            for node in authority.into_iter().chain(others) {
                let to = self.replica_address(node, FIRST_SHARD);
                out.send(to, Message::AskTimestamps { count, term, above });
            }
        }
        if self.authority.asked > 0 && !self.authority.armed {
            self.authority.armed = true;
            out.arm(Timer::Authority, now.boot_ns + AGAIN_NS);
        }
    }

    /// Receives timestamps. Those that another term asked for do not count.
    pub(super) fn on_timestamps(&mut self, from: Address, range: TimestampRange, term: Term) {
        let asked = self.serving && self.group.is_leader() && term == self.group.term();
        if !asked || from.database != self.database || from.shard != FIRST_SHARD {
            return;
        }
        let this = &mut self.authority;
        (this.authority, this.heard) = (Some(from.node), true);
        this.asked = this.asked.saturating_sub(range.count);
        this.timestamps.extend(range.take(LONGEST_RANGE as usize));
        this.timestamps.make_contiguous().sort_unstable();
    }

    /// Forgets what was asked for: this step asks again, and all nodes if the authority has not
    /// answered.
    pub(super) fn ask_again(&mut self) {
        let this = &mut self.authority;
        this.armed = false;
        if !std::mem::take(&mut this.heard) && this.asked > 0 {
            sometimes!("the authority does not answer a leader in time");
            this.authority = None;
        }
        this.asked = 0;
    }

    // ------------------------------------------------------------------------
    // the authority

    /// Queues a session's request for a snapshot.
    pub(crate) fn on_snapshot_timestamp(
        &mut self,
        from: Address,
        id: u64,
        out: &mut Outbox<Shard<P>>,
    ) {
        if !self.is_of_authority() {
            let why = "this shard is not the timestamp authority of its database".to_owned();
            return self.answer(from, Response::Refused { id, why }, out);
        }
        self.authority.queue.push_back(Asked::Session { from, id });
    }

    /// Queues a leader's request for timestamps. Does nothing at a member that does not lead: the
    /// request has gone to all nodes, or is repeated.
    pub(super) fn on_ask_timestamps(
        &mut self,
        from: Address,
        (count, term): (u32, Term),
        above: Timestamp,
    ) {
        let leads = self.serving && self.group.is_leader() && self.is_of_authority();
        if leads && from.database == self.database {
            // More than a leader needs does no harm.
            for asked in &mut self.authority.queue {
                if let Asked::Leader { from: other, count: most, term: of, above: least } = asked
                    && (*other, *of) == (from, term)
                {
                    *most = most.saturating_add(count).min(LONGEST_RANGE);
                    *least = (*least).max(above);
                    return;
                }
            }
            self.authority.queue.push_back(Asked::Leader { from, count, term, above });
        }
    }

    /// Answers the requests to the authority, within its lease and below its ceiling.
    pub(super) fn hand_out(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        if self.authority.queue.is_empty() {
            return;
        }
        let (latest, end) = (now.interval.latest, self.leased_until(now));
        if latest >= end {
            return self.wake_in(LEASE_SOON_NS);
        }
        self.issuer.raise_ceiling(end.saturating_sub(1));
        for asked in std::mem::take(&mut self.authority.queue) {
            let (count, above) = match &asked {
                Asked::Leader { count, above, .. } => (*count, *above),
                Asked::Session { .. } => (1, Timestamp::ZERO),
            };
            if above.nanos > latest.max(self.issuer.last().nanos) {
                // A snapshot of another clock, or a schema change, is ahead of this clock.
                sometimes!("the authority waits for its clock");
                self.wake_in(above.nanos - latest);
                self.authority.queue.push_back(asked);
                continue;
            }
            self.issuer.observe(above);
            let Ok(range) = self.issuer.hand_out(latest, count, self.ceiling) else {
                sometimes!("the authority waits for its ceiling, or its lease");
                self.wake_in(LEASE_SOON_NS);
                self.authority.queue.push_back(asked);
                continue;
            };
            self.group.use_timestamp(self.issuer.last().nanos);
            match asked {
                Asked::Session { from, id } => {
                    let response = Response::SnapshotTimestamp { id, at: range.first };
                    out.send_before(end, from, Message::Response(response));
                }
                Asked::Leader { from, term, .. } => {
                    out.send_before(end, from, Message::Timestamps { range, term });
                }
            }
        }
        let newest = latest.max(self.issuer.last().nanos);
        let ahead_ns = end.saturating_sub(1).saturating_sub(newest).min(AHEAD_NS);
        if ahead_ns > 0 && self.ceiling.nanos < newest + ahead_ns / 2 {
            self.want_ceiling(newest + ahead_ns);
        }
    }

    /// Drops what only a leader has: a session looks for the new authority, and a leader asks
    /// again.
    pub(super) fn dismiss_authority(&mut self, out: &mut Outbox<Shard<P>>) {
        let AuthorityState { queue, authority, armed, .. } = std::mem::take(&mut self.authority);
        self.authority = AuthorityState { authority, armed, ..AuthorityState::default() };
        for asked in queue {
            if let Asked::Session { from, id } = asked {
                self.answer_not_leader(from, id, out);
            }
        }
    }
}
