//! From a drawn timestamp to an answer: agreement, installation, commit wait (§4.1.2), and what may be shown.

use super::Agreed;
use super::leadership::Workload;
use super::replica::{Effect, Message, Passing, Pending, Replica, Timer};
use meridian_clock::{Issuer, Reading, Timestamp};
use meridian_machine::planted::{Rule, broken};
use meridian_machine::{Outbox, always, sometimes};
use meridian_replication::group::{Entry, Event, Index};
use meridian_txn::Conflict;
use meridian_txn::locking::{Ask, LockTable, Readable, Reply, Spent};

/// Members are told so often, at most, how far the leader has shown.
const CLOSE_EVERY_NS: u64 = 200_000_000;

impl Replica {
    pub(super) fn propose(&mut self, agreed: &Agreed) -> Option<Index> {
        self.group.propose(agreed.encode()).ok().map(|(_, index)| index)
    }

    /// Draws timestamps for commits that hold their locks: timestamp and place in the log in one step (Trap A.5-4).
    pub(super) fn draw(&mut self, now: Reading, out: &mut Outbox<Replica>) {
        while let Some(mut pending) = self.ready.pop_front() {
            pending.drawn_ns = now.boot_ns;
            let end = self.group.lease().map_or(0, |lease| lease.granted_until);
            self.issuer.raise_ceiling(end.saturating_sub(1));
            // The log is the persisted ceiling: whatever is issued stands in it, and a new leader starts above it.
            let Ok(at) = self.issuer.issue(now.interval.latest) else {
                sometimes!("a commit waits for the lease to reach further");
                self.ready.push_front(pending);
                out.arm(Timer::CommitWait, now.boot_ns + 10_000_000);
                return;
            };
            self.group.use_timestamp(at.nanos);
            let Ask::Commit { writes } = &pending.request.ask else { unreachable!("only commits are ready") };
            let transaction = pending.request.transaction;
            match self.propose(&Agreed::Commit { at, transaction, writes: writes.clone() }) {
                Some(index) => drop(self.agreeing.insert(index, pending)),
                None => self.ready.push_front(pending),
            }
            if !self.serving {
                return;
            }
        }
    }

    pub(super) fn on_event(&mut self, now: Reading, event: Event, out: &mut Outbox<Replica>) {
        match event {
            Event::Committed { entries } => entries.into_iter().for_each(|entry| self.on_agreed(now, entry, out)),
            Event::BecameLeader { .. } => {
                self.workload = Workload::new(now.boot_ns);
                let floor = if broken(Rule::IssuerBelowLog) { Timestamp::ZERO } else { self.agreed };
                self.issuer = Issuer::above(self.me.0, floor);
                self.group.use_timestamp(self.agreed.nanos);
            }
            Event::LostLeadership { .. } => self.step_down(out),
            Event::SendSnapshot { to, index, term } => out.act(Effect::SendSnapshot { to, index, term }),
        }
    }

    pub(super) fn on_agreed(&mut self, now: Reading, entry: Entry, out: &mut Outbox<Replica>) {
        match Agreed::decode(&entry.payload) {
            Ok(None) => {}
            Ok(Some(Agreed::Floor { at })) => {
                // An install of nothing: the promise moves to the store with the position, and outlives the log.
                self.agreed = self.agreed.max(at);
                out.act(Effect::Install { at, writes: Vec::new(), index: entry.index, term: entry.term });
            }
            Ok(Some(Agreed::Commit { at, transaction, writes })) => {
                always!(at > self.agreed, "I4: timestamps grow in the order of the log");
                self.agreed = self.agreed.max(at);
                out.act(Effect::Install { at, writes, index: entry.index, term: entry.term });
                self.remember(transaction, at, entry.term);
                let pending = self.agreeing.remove(&entry.index);
                let drawn_ns = pending.as_ref().map_or(now.boot_ns, |pending| pending.drawn_ns);
                let asked = pending.map(|pending| (pending.from, pending.request.id));
                self.passing.push_back(Passing { at, transaction, asked, drawn_ns, agreed_ns: now.boot_ns });
            }
            Err(damaged) => out.act(Effect::Stop { why: format!("entry {}: {}", entry.index, damaged.0) }),
        }
    }

    pub(super) fn step_down(&mut self, out: &mut Outbox<Replica>) {
        self.serving = false;
        if !self.agreeing.is_empty() {
            sometimes!("leadership is lost while a commit is being agreed on");
        }
        let mut tell = |pending: Pending, reply: fn(u64) -> Reply| {
            out.send(pending.from, Message::Answer(reply(pending.request.id)));
        };
        let aborted = |id| Reply::Aborted { id, why: Conflict::LeaderChanged };
        let unknown: fn(u64) -> Reply =
            if broken(Rule::UnknownSaidAborted) { aborted } else { |id| Reply::Unknown { id } };
        std::mem::take(&mut self.pending).into_values().for_each(|pending| tell(pending, aborted));
        std::mem::take(&mut self.ready).into_iter().for_each(|pending| tell(pending, aborted));
        std::mem::take(&mut self.agreeing).into_values().for_each(|pending| tell(pending, unknown));
        for (_, from, request) in std::mem::take(&mut self.snapshots) {
            let reply = Reply::NotLeader { id: request.id, leader: self.group.leader().map(|node| node.0) };
            out.send(from, Message::Answer(reply));
        }
        self.locks = LockTable::new();
        self.live.clear();
        self.floor = Timestamp::ZERO;
    }

    /// The end of every step: what may be shown is shown, what may be drawn is drawn, what was gathered leaves.
    pub(super) fn finish(&mut self, now: Reading, out: &mut Outbox<Replica>) {
        // What is answered leaves after the slot shows it: who reads next on this node must find it (real time).
        let mut answers = Vec::new();
        let passed = |at: Timestamp| broken(Rule::CommitWait) || now.interval.after(at.nanos);
        while let Some(passing) = self.passing.pop_front_if(|passing| passed(passing.at)) {
            let Passing { at, transaction, asked, drawn_ns, agreed_ns } = passing;
            self.visible = self.visible.max(at);
            if let Some((from, id)) = asked {
                always!(now.interval.after(at.nanos), "I3: commit wait");
                let spent = Spent {
                    replication_ns: agreed_ns.saturating_sub(drawn_ns),
                    commit_wait_ns: now.boot_ns.saturating_sub(agreed_ns),
                };
                answers.push((from, Reply::Committed { id, at, spent }));
            }
            self.live.remove(&transaction);
            let verdicts = self.locks.release(transaction);
            self.judge(now, verdicts, out);
        }
        self.hand_over_when_drained(now, out);
        let passed = broken(Rule::IssuerBelowLog) || now.interval.after(self.agreed.nanos);
        if self.group.is_leader() && !self.serving && self.passing.is_empty() && passed {
            self.serving = true;
            self.visible = self.agreed;
        }
        if self.group.is_leader() && !self.serving {
            sometimes!("a new leader waits until what it inherited has passed");
            let left = self.agreed.nanos.saturating_sub(now.interval.earliest) + 1;
            out.arm(Timer::CommitWait, now.boot_ns + left);
        }
        if self.serving && self.group.is_leader() {
            self.draw(now, out); // not while it gives up: each new timestamp would put that off
        }
        self.with_group(now, out, |group, out| group.flush(now, out));
        self.show_snapshots(now, out);
        if let Some(passing) = self.passing.front() {
            let left = passing.at.nanos.saturating_sub(now.interval.earliest) + 1;
            out.arm(Timer::CommitWait, now.boot_ns + left);
        }
        if !self.watching && !self.locks.is_empty() {
            self.watching = true;
            out.arm(Timer::Idle, now.boot_ns + LockTable::IDLE_NS / 2);
        }
        let lease = self.group.lease().filter(|_| self.serving).map_or(0, |lease| lease.granted_until);
        self.shown = self.shown.max(self.visible);
        if self.serving && self.shown > self.told && !self.telling && self.group.peers().next().is_some() {
            self.telling = true;
            out.arm(Timer::Close, now.boot_ns + CLOSE_EVERY_NS);
        }
        let installed = if broken(Rule::ClosedBeforeInstalled) { Timestamp::MAX } else { self.agreed };
        let readable = Readable { through: self.visible, until: lease, closed: self.shown.min(installed) };
        if readable != self.published {
            self.published = readable;
            out.act(Effect::Readable(readable));
        }
        if self.leader != self.group.leader() {
            self.leader = self.group.leader();
            out.act(Effect::Leader(self.leader));
        }
        answers.into_iter().for_each(|(to, reply)| out.send(to, Message::Answer(reply)));
    }

    /// Tells the members how far they may show what they have installed.
    pub(super) fn tell_shown(&mut self, out: &mut Outbox<Replica>) {
        self.telling = false;
        if self.serving && self.shown > self.told {
            self.told = self.shown;
            self.group.peers().for_each(|other| out.send(other, Message::Shown(self.shown)));
        }
    }

    pub(super) fn show_snapshots(&mut self, now: Reading, out: &mut Outbox<Replica>) {
        let until = self.group.lease().map_or(0, |lease| lease.granted_until);
        if !self.serving || self.snapshots.is_empty() || now.interval.latest >= until {
            return;
        }
        // The oldest commit that is not visible yet, proposed or in commit wait, holds back everything from it on.
        let drawn = self.agreeing.is_empty() && self.passing.is_empty();
        let early = broken(Rule::SafeTimeInFlight);
        let safe = |at: Timestamp| early || at <= self.visible || (drawn && at <= self.agreed);
        let (now_safe, wait): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.snapshots).into_iter().partition(|(at, _, _)| safe(*at));
        if !wait.is_empty() {
            sometimes!("a snapshot waits for a commit before it");
        }
        self.snapshots = wait;
        for (at, from, request) in now_safe {
            self.group.use_timestamp(at.nanos);
            self.serve(from, &request, at, Some(until), out);
        }
    }
}
