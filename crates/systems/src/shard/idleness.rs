//! Idle shards: how a leader closes timestamps without commits (MinNextTS, §4.2.4), and when its
//! group quiesces.
//!
//! ```text
//!   commits ──┤  8 s  ├─ ceiling, Shown ─┤  8 s  ├─ ceiling, Shown ─┤ ··· 20 s idle: quiescent
//! ```
//!
//! 1. A timestamp that a leader closes above its newest commit lies below a ceiling in the log,
//!    like a promised snapshot: no clock is trusted.
//! 2. A group quiesces only when nothing is pending: no lock, no prepared transaction, no decision
//!    to be told, no [`Message::LeaderVisible`](super::Message::LeaderVisible) to send.
//! 3. Every request wakes the group, even at a member that does not lead: the leader may have
//!    failed.
//!
//! **Departure.** In the paper the promise lies within the lease and is sent with it. An idle shard
//! has no lease here, and closes nothing.

use super::{Participant, Shard, Timer};
use meridian_clock::{Reading, Timestamp, TimestampPolicy, TrueTime};
use meridian_machine::{Outbox, sometimes, step};
use meridian_replication::group;

/// The configuration of a member.
#[derive(Clone, Debug)]
pub struct Config {
    /// The configuration of its group.
    pub group: group::Config,
    /// After this long without a commit a leader closes timestamps, in nanoseconds: 8 s in the
    /// paper.
    pub min_next_ns: u64,
    /// After this long without a request a leader quiesces its group, in nanoseconds.
    pub quiesce_ns: u64,
    /// How many outcomes of transactions the leader remembers for repeated requests.
    pub outcomes: usize,
    /// The relation of the shard's timestamps to time.
    pub policy: &'static dyn TimestampPolicy,
    /// True if transactions commit that are certified against a snapshot.
    pub certifies: bool,
    /// How many writes the leader then remembers by key; and how many reads, where transactions are
    /// ordered by timestamps.
    pub recent_writes: usize,
}

impl From<group::Config> for Config {
    fn from(group: group::Config) -> Config {
        Config {
            group,
            min_next_ns: 8_000_000_000,
            quiesce_ns: 20_000_000_000,
            outcomes: 10_000,
            policy: &TrueTime,
            certifies: false,
            recent_writes: 65_536,
        }
    }
}

/// A leader's record of how idle its shard is.
#[derive(Debug, Default)]
pub(super) struct Idleness {
    min_next_ns: u64,
    quiesce_ns: u64,
    /// When the latest request arrived, by the boot clock.
    asked_ns: u64,
    /// True if the timer for the next check is armed.
    watching: bool,
    /// The timestamp that is to be closed.
    closing: Option<Timestamp>,
}

impl Idleness {
    pub(super) fn new(config: &Config, now: Reading) -> Idleness {
        let (min_next_ns, quiesce_ns) = (config.min_next_ns, config.quiesce_ns);
        Idleness { min_next_ns, quiesce_ns, asked_ns: now.boot_ns, watching: false, closing: None }
    }
}

impl<P: Participant> Shard<P> {
    /// Notes that the shard is in use, and wakes a quiescent group.
    pub(crate) fn is_wanted(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        self.idleness.asked_ns = now.boot_ns;
        if self.group.is_quiescent() {
            self.with_group(now, out, |group, out| group.wake(now, out));
        }
    }

    /// Arms the timer with which a leader checks how idle its shard is.
    pub(super) fn watch_idleness(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        let followed = self.group.peers().next().is_some();
        if followed && !self.idleness.watching && !self.group.is_quiescent() {
            self.idleness.watching = true;
            let every_ns = self.idleness.min_next_ns.min(self.idleness.quiesce_ns / 2);
            out.arm(Timer::MinNext, now.boot_ns + every_ns);
        }
    }

    /// Quiesces a group that is not in use, or closes timestamps after a long time without commits.
    pub(super) fn look_at_idleness(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        self.idleness.watching = false;
        if !self.serving || !self.group.is_leader() {
            return; // The next leader checks again.
        }
        let unasked = now.boot_ns >= self.idleness.asked_ns + self.idleness.quiesce_ns;
        if unasked
            && self.is_at_rest()
            && self.with_group(now, out, |group, out| group.quiesce(now, out))
        {
            sometimes!("a shard without requests quiesces");
            step!("leader: falls silent");
        } else if now.interval.earliest
            >= self.leader_visible.nanos.saturating_add(self.idleness.min_next_ns)
        {
            self.idleness.closing = Some(self.present(now));
        }
    }

    /// True if nothing is pending.
    fn is_at_rest(&self) -> bool {
        let promised = self.idleness.closing.is_none() && self.promises_nothing();
        let form = self.splitting.is_none()
            && self.changing.is_none()
            && self.workload.transfer_target.is_none();
        self.participant.is_at_rest()
            && self.has_announced()
            && promised
            && form
            && self.authority.is_at_rest()
    }

    /// Closes a timestamp as soon as the log holds a ceiling above it.
    pub(super) fn close_idle(&mut self, now: Reading) {
        if let Some(at) = self.idleness.closing.take().filter(|at| !self.promise(now, *at)) {
            self.idleness.closing = Some(at);
        }
        self.show_promised();
    }

    /// Drops the timestamp to be closed when leadership is lost.
    pub(super) fn dismiss_idleness(&mut self) {
        self.idleness.closing = None;
    }
}
