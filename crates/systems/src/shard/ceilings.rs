//! Timestamps of a leader: how it draws them, which ones it promises never to draw, and which are
//! closed (§4.1.3, §4.2.4).
//!
//! ```text
//!            visible               floor: promised in memory       ceiling: in the log
//!   ────────────┼───────────────────────┼─────────────────────────────┼──────▶
//!    shown      │                       │ this leader issues here     │ later leaders issue here
//! ```
//!
//! Before a leader serves a snapshot above the newest commit, it promises it: it issues nothing at
//! or below that timestamp any more. So that the next leader does not either, the timestamp lies
//! below a ceiling that is already in the log. One ceiling serves all snapshots for a while.

use super::{Command, Participant, Shard, ShardCommand};
use crate::shard::rules;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Health, sometimes, step};
use meridian_replication::group::Index;
use meridian_txn::locking::MOST_TOKEN_AHEAD_NS;
use meridian_txn::locking::rules as locking_rules;

/// The time after which a lease that was too short is checked again, in nanoseconds.
pub(crate) const LEASE_SOON_NS: u64 = 10_000_000;
/// The shortest interval at which the leader sends
/// [`Message::LeaderVisible`](super::Message::LeaderVisible), in nanoseconds.
pub(super) const CLOSE_EVERY_NS: u64 = 200_000_000;
/// How far a new ceiling reaches beyond the present, unless a higher one is requested, in
/// nanoseconds. A later leader has to wait for it.
const AHEAD_NS: u64 = 100_000_000;

/// How far a timestamp of a message may be ahead of `now.latest` to be adopted, in nanoseconds: as
/// far as coordinators accept a token, for clocks that differ by as much.
const MOST_AHEAD_NS: u64 = 2 * MOST_TOKEN_AHEAD_NS;

impl<P: Participant> Shard<P> {
    /// Proposes a command. Returns `None` if this member does not lead.
    pub(crate) fn propose(&mut self, command: &P::Command) -> Option<Index> {
        self.group.propose(command.to_payload()).ok().map(|(_, index)| index)
    }

    /// Proposes a command about the shard itself.
    pub(super) fn propose_about_shard(&mut self, command: ShardCommand) -> Option<Index> {
        self.propose(&P::Command::about_shard(command))
    }

    /// Draws a timestamp for a command that is proposed in the same step, so that timestamps grow
    /// in the order of the log (Trap A.5-4). Returns `None` while the lease does not reach that
    /// far.
    pub(crate) fn draw_one(&mut self, now: Reading) -> Option<Timestamp> {
        self.draw_from(now, self.policy.next_ns(now))
    }

    /// Draws such a timestamp at or above a time in nanoseconds.
    pub(super) fn draw_from(&mut self, now: Reading, at_least: u64) -> Option<Timestamp> {
        let end = self.leased_until(now);
        if end == 0 {
            return None;
        }
        self.issuer.raise_ceiling(end.saturating_sub(1));
        // Every timestamp issued is in the log, and a new leader starts above it.
        let at = self.issuer.issue(at_least).ok()?;
        self.group.use_timestamp(at.nanos);
        Some(at)
    }

    /// Returns the present: everything that was acknowledged before now is at or below it, and so
    /// is every timestamp that this member has adopted.
    pub(crate) fn present(&self, now: Reading) -> Timestamp {
        self.policy.present(now).max(self.heard)
    }

    /// Adopts the timestamp of a message, under a policy that does so: this leader issues above it
    /// from now on. False if it is too far ahead to be true, and nothing is adopted (Trap A.4-3).
    pub(crate) fn adopt(&mut self, now: Reading, at: Timestamp) -> bool {
        if !self.policy.adopts() || broken(rules::TOKEN_IGNORED) {
            return true;
        }
        let ahead_ns = at.nanos.saturating_sub(now.interval.latest);
        if ahead_ns > MOST_AHEAD_NS && !broken(locking_rules::FAR_TOKEN_ADOPTED) {
            return false;
        }
        self.heard = self.heard.max(at);
        // Also what was adopted in an earlier term: the issuer is a new one.
        self.issuer.observe(at);
        true
    }

    /// The end of this leader's lease, in nanoseconds since the epoch. Returns 0 without a lease,
    /// and while this node does not know the time: the lease of a group with one voter never ends
    /// (Trap A.5-14).
    pub(crate) fn leased_until(&self, now: Reading) -> u64 {
        let fenced = now.health != Health::Good && !broken(locking_rules::FENCED_SERVES);
        self.group.lease().filter(|_| !fenced).map_or(0, |lease| lease.granted_until)
    }

    /// Schedules another step in at most this many nanoseconds.
    pub(crate) fn wake_in(&mut self, ns: u64) {
        self.wake_ns = Some(self.wake_ns.map_or(ns, |soonest| soonest.min(ns)));
    }

    /// Returns the timestamp that a single-shard read uses as now: the newest commit, or the closed
    /// timestamp if that is later. Where nothing is written, the newest commit may be older than
    /// the retained versions.
    pub(crate) fn newest(&self) -> Timestamp {
        self.visible.max(self.closed())
    }

    /// Returns the closed timestamp: everything at or below it is installed here, and was visible
    /// at a leader. Zero at a witness.
    pub(crate) fn closed(&self) -> Timestamp {
        if self.is_witness() {
            return Timestamp::ZERO;
        }
        let installed =
            if broken(rules::CLOSED_BEFORE_INSTALLED) { Timestamp::MAX } else { self.agreed };
        // Trap A.5-5.
        self.leader_visible.min(installed).min(self.participant.in_doubt_from())
    }

    /// Promises that this leader issues nothing at or below a snapshot's timestamp. False while the
    /// log holds no ceiling above it, or if it lies in the future.
    pub(crate) fn promise(&mut self, now: Reading, at: Timestamp) -> bool {
        if at <= self.visible.max(self.read_floor) {
            return true;
        }
        if at <= self.agreed {
            self.read_floor = at; // No leader issues below an agreed entry.
            return true;
        }
        if at.nanos > self.present(now).nanos {
            return false;
        }
        if self.is_above_split(at) {
            sometimes!("a snapshot waits until a split is agreed");
            return false;
        }
        if !broken(rules::CEILING_NOT_AGREED) {
            // The next snapshots are not to wait for one.
            let soon = (at.nanos + AHEAD_NS / 2).min(self.leased_until(now).saturating_sub(1));
            if at <= self.ceiling {
                self.want_ceiling(soon);
            } else {
                // A command in flight above it serves as a ceiling.
                if self.participant.newest_proposed().is_none_or(|last| last < at) {
                    self.want_ceiling(soon.max(at.nanos));
                }
                return false;
            }
        }
        sometimes!("a snapshot above every commit is promised");
        self.read_floor = at;
        self.issuer.observe(at);
        self.group.use_timestamp(at.nanos);
        true
    }

    /// Requests a ceiling at or above a time in nanoseconds.
    pub(crate) fn want_ceiling(&mut self, nanos: u64) {
        self.wanted_ceiling = Some(self.wanted_ceiling.unwrap_or(0).max(nanos));
    }

    /// Proposes the requested ceiling once the lease reaches it: a later leader does not begin
    /// before the lease's end anyway.
    pub(super) fn raise_ceiling(&mut self, now: Reading) {
        let Some(wanted) = self.wanted_ceiling.filter(|_| !self.raising) else { return };
        self.wanted_ceiling = None;
        if wanted <= self.ceiling.nanos {
            return;
        }
        let end = self.leased_until(now).saturating_sub(1);
        if wanted > end {
            sometimes!("a ceiling waits for the lease to reach further");
            self.wanted_ceiling = Some(wanted);
            return self.wake_in(LEASE_SOON_NS);
        }
        let nanos = wanted.max((now.interval.latest + AHEAD_NS).min(end));
        if let Some(at) = self.draw_one(now) {
            step!("leader: proposes a ceiling");
            let through = Some(Timestamp::end_of(nanos));
            self.raising =
                self.propose_about_shard(ShardCommand::Ceiling { at, through }).is_some();
        }
    }

    /// True if no ceiling is requested or being agreed on.
    pub(super) fn promises_nothing(&self) -> bool {
        self.wanted_ceiling.is_none() && !self.raising
    }

    /// True if the members have been sent the newest
    /// [`Message::LeaderVisible`](super::Message::LeaderVisible).
    pub(super) fn has_announced(&self) -> bool {
        !self.announcing && self.leader_visible <= self.announced
    }

    /// Marks the read floor as shown if nothing in flight lies at or below it.
    pub(super) fn show_promised(&mut self) {
        if self.read_floor > self.leader_visible
            && self.participant.oldest_in_flight().is_none_or(|oldest| oldest > self.read_floor)
        {
            sometimes!("timestamps without commits are closed");
            self.leader_visible = self.read_floor;
        }
    }
}
