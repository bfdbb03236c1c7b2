//! A shard on which little happens: how far its leader closes timestamps all the same (MinNextTS,
//! §4.2.4), and when its group falls silent.
//!
//! ```text
//!   commits ──┤   8 s    ├─ a ceiling, and told ─┤   8 s    ├─ a ceiling, and told ─┤ ··· nobody asked for 20 s: silent
//! ```
//!
//! 1. What a leader closes above its newest commit lies below a ceiling that is in the log, as with
//!    snapshots that it promised: no clock is believed.
//! 2. It falls silent only when nothing is under way: no lock, nothing prepared, nothing owed,
//!    nothing that members were not told.
//! 3. Every question wakes the group, also one that goes to a member which does not lead: its
//!    leader may be dead.
//!
//! **Departure.** In the paper the promise lies within the lease and is told with it; a shard at
//! rest has no lease here, and closes nothing.

use super::{Participant, Shard, Timer};
use meridian_clock::{Reading, Timestamp, TimestampPolicy};
use meridian_machine::{Outbox, sometimes, step};
use meridian_replication::group;

/// The configuration of a member.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its group's part of it.
    pub group: group::Config,
    /// A leader that committed nothing for so long closes timestamps all the same: 8 s in the
    /// paper.
    pub min_next_ns: u64,
    /// A leader that was asked nothing for so long falls silent with its group.
    pub quiesce_ns: u64,
    /// How many outcomes of transactions it remembers for requests that are repeated.
    pub outcomes: usize,
}

impl From<group::Config> for Config {
    fn from(group: group::Config) -> Config {
        Config { group, min_next_ns: 8_000_000_000, quiesce_ns: 20_000_000_000, outcomes: 10_000 }
    }
}

/// What a leader knows of how idle it is.
#[derive(Debug, Default)]
pub(super) struct Idleness {
    min_next_ns: u64,
    quiesce_ns: u64,
    /// When the latest request came, by the boot clock.
    asked_ns: u64,
    /// A look at it is armed.
    watching: bool,
    /// Everything at or below is to be closed.
    closing: Option<Timestamp>,
}

impl Idleness {
    pub(super) fn new(config: &Config, now: Reading) -> Idleness {
        let (min_next_ns, quiesce_ns) = (config.min_next_ns, config.quiesce_ns);
        Idleness { min_next_ns, quiesce_ns, asked_ns: now.boot_ns, watching: false, closing: None }
    }
}

impl<P: Participant> Shard<P> {
    /// Notes that the shard is in use, and wakes a group that has fallen silent.
    pub(crate) fn is_wanted(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        self.idleness.asked_ns = now.boot_ns;
        if self.group.is_quiescent() {
            self.with_group(now, out, |group, out| group.wake(now, out));
        }
    }

    /// A leader looks now and then how idle it is.
    pub(super) fn watch_idleness(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        let followed = self.group.peers().next().is_some();
        if followed && !self.idleness.watching && !self.group.is_quiescent() {
            self.idleness.watching = true;
            let every_ns = self.idleness.min_next_ns.min(self.idleness.quiesce_ns / 2);
            out.arm(Timer::MinNext, now.boot_ns + every_ns);
        }
    }

    /// Lets a group fall silent that is not in use, or closes timestamps if nothing was committed
    /// for long.
    pub(super) fn look_at_idleness(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        self.idleness.watching = false;
        if !self.serving || !self.group.is_leader() {
            return; // Whoever serves next looks again.
        }
        let unasked = now.boot_ns >= self.idleness.asked_ns + self.idleness.quiesce_ns;
        if unasked
            && self.is_at_rest()
            && self.with_group(now, out, |group, out| group.quiesce(now, out))
        {
            sometimes!("a shard that nobody asks falls silent");
            step!("leader: falls silent");
        } else if now.interval.earliest
            >= self.shown.nanos.saturating_add(self.idleness.min_next_ns)
        {
            self.idleness.closing = Some(P::Clock::present(now));
        }
    }

    /// Whether nothing is under way.
    fn is_at_rest(&self) -> bool {
        let promised = self.idleness.closing.is_none() && self.promises_nothing();
        let form =
            self.splitting.is_none() && self.changing.is_none() && self.workload.heir.is_none();
        self.participant.is_at_rest() && self.has_told() && promised && form
    }

    /// Closes what is to be closed, as soon as the log holds a ceiling above it.
    pub(super) fn close_idle(&mut self, now: Reading) {
        if let Some(at) = self.idleness.closing.take().filter(|at| !self.promise(now, *at)) {
            self.idleness.closing = Some(at);
        }
        self.show_promised();
    }

    /// Drops what is to be closed when leadership is lost.
    pub(super) fn dismiss_idleness(&mut self) {
        self.idleness.closing = None;
    }
}
