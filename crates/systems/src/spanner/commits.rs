//! From a drawn timestamp to an answer: agreement, installation, commit wait (§4.1.2), and what may be shown.

use super::blind::Blinds;
use super::leadership::Workload;
use super::replica::{Effect, Message, Passing, Pending, Replica, Timer};
use super::two_phase::{Collected, RESOLVE_NS};
use super::{Agreed, Birth, Rows};
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::{Rule, broken};
use meridian_machine::{Health, Outbox, always, sometimes, step};
use meridian_mvcc::{Write, local};
use meridian_replication::group::{Entry, Event, Index};
use meridian_txn::Conflict;
use meridian_txn::locking::{Ask, LockTable, Readable, Reply, Spent};

/// A lease that does not reach far enough is looked at again after this.
pub(super) const LEASE_SOON_NS: u64 = 10_000_000;
/// Members are told so often, at most, how far the leader has shown.
const CLOSE_EVERY_NS: u64 = 200_000_000;

impl Replica {
    pub(super) fn propose(&mut self, agreed: &Agreed) -> Option<Index> {
        self.group.propose(agreed.encode()).ok().map(|(_, index)| index)
    }

    /// Draws a timestamp for something that is proposed in the same step: timestamp and place in the log (Trap A.5-4). None while the lease does not
    /// reach so far.
    pub(super) fn draw_one(&mut self, now: Reading) -> Option<Timestamp> {
        let end = self.leased_until(now);
        if end == 0 {
            return None;
        }
        self.issuer.raise_ceiling(end.saturating_sub(1));
        // What is issued stands in the log, and a new leader starts above it.
        let at = self.issuer.issue(now.interval.latest).ok()?;
        self.group.use_timestamp(at.nanos);
        Some(at)
    }

    /// The end of this leader's lease, in nanoseconds since the epoch. Returns 0 without a lease, and
    /// while this node does not know the time: the lease of a group with one voter never ends (Trap A.5-14).
    pub(super) fn leased_until(&self, now: Reading) -> u64 {
        let fenced = now.health != Health::Good && !broken(Rule::FencedServes);
        self.group.lease().filter(|_| !fenced).map_or(0, |lease| lease.granted_until)
    }

    /// Something is due in this step or after so long.
    pub(super) fn wake_in(&mut self, ns: u64) {
        self.wake_ns = Some(self.wake_ns.map_or(ns, |soonest| soonest.min(ns)));
    }

    /// Draws timestamps for commits and prepares that hold their locks.
    pub(super) fn draw(&mut self, now: Reading, out: &mut Outbox<Replica>) {
        if now.health != Health::Good && !broken(Rule::FencedServes) {
            return; // How far ahead a vote is, and when a change of the schema is due, is not known either.
        }
        for _ in 0..self.ready.len() {
            let Some(mut pending) = self.ready.pop_front() else { return };
            if let Some(left) = pending.lies_ahead(now) {
                sometimes!("a change of the schema waits for its time");
                self.ready.push_back(pending);
                self.wake_in(left);
                continue;
            }
            pending.drawn_ns = now.boot_ns;
            let ahead = pending.change().map_or(0, |change| change.from.nanos);
            if let Some(votes) = pending.votes.take_if(|votes| votes.is_far(now, ahead)) {
                self.abort_voted(now, pending, &votes, Conflict::Late, out);
                continue;
            }
            if let Some(votes) = pending.votes.as_ref().filter(|_| !broken(Rule::CommitBelowPrepare)) {
                self.issuer.observe(votes.above());
            }
            let Some(at) = self.draw_one(now) else {
                sometimes!("a commit waits for the lease to reach further");
                self.ready.push_front(pending);
                return self.wake_in(LEASE_SOON_NS);
            };
            if let Some(votes) = pending.votes.take_if(|votes| at >= votes.below()) {
                sometimes!("a shard that was only read has not promised for long enough");
                self.abort_voted(now, pending, &votes, Conflict::Late, out);
                continue;
            }
            if let Some(why) = self.unfit(&pending.request, at) {
                sometimes!("a commit was planned for a schema that holds no more");
                self.refuse_drawn(now, pending, why, out);
                continue;
            }
            pending.at = at;
            let (transaction, schemas) = (pending.request.transaction, pending.versions());
            let agreed = match &pending.request.ask {
                Ask::Commit { writes, .. } => {
                    self.schemas.draw(&schemas);
                    let prepared = pending.votes.as_ref().map(Collected::prepared);
                    let (participants, voted_in) = prepared.unwrap_or_default();
                    let writes = writes.clone();
                    Some(Agreed::Commit { at, transaction, writes, participants, schemas, voted_in })
                }
                _ => self.record_of(&pending, at),
            };
            match (&pending.request.ask, &pending.votes) {
                (Ask::Prepare { .. }, _) => step!("participant: proposes to prepare"),
                (_, Some(_)) => step!("coordinator: proposes its decision"),
                (_, None) => step!("leader: proposes a commit"),
            }
            match self.propose(&agreed.expect("only commits and prepares are ready")) {
                Some(index) => self.agreeing.insert(index, pending),
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
                let floor = if broken(Rule::IssuerBelowLog) { Timestamp::ZERO } else { self.agreed.max(self.ceiling) };
                self.issuer = self.issuer_above(floor);
                self.group.use_timestamp(self.agreed.nanos);
            }
            Event::LostLeadership { .. } => self.step_down(out),
            Event::SendSnapshot { to, index, .. } => {
                let witness = self.group.membership().is_witness(to);
                let term = self.group.term();
                out.act(Effect::SendSnapshot { to, index, witness, term });
            }
            Event::Removed { index } => out.act(Effect::Removed { index }),
        }
    }

    pub(super) fn on_agreed(&mut self, now: Reading, entry: Entry, out: &mut Outbox<Replica>) {
        let agreed = match Agreed::decode(&entry.payload) {
            Ok(None) => return,
            Ok(Some(agreed)) => agreed,
            Err(damaged) => return out.act(Effect::Stop { why: format!("entry {}: {}", entry.index, damaged.0) }),
        };
        let before = self.agreed;
        let in_order = |at: Timestamp| always!(at > before, "I4: timestamps grow in the order of the log");
        let witness = self.is_witness();
        let install = |at: Timestamp, mut writes: Vec<Write>, decided_elsewhere: bool| {
            let (index, term) = (entry.index, entry.term);
            writes.retain(|write| !witness || local::is(&write.key)); // It keeps what the shard knows of itself.
            Effect::Install { at, writes, index, term, decided_elsewhere }
        };
        match agreed {
            Agreed::Commit { at, transaction, mut writes, participants, schemas, voted_in } => {
                in_order(at);
                self.agreed = at;
                writes.extend(self.owe(transaction, at, (participants, voted_in)));
                writes.extend(self.on_schemas_agreed(at, &schemas));
                out.act(install(at, writes, false));
                self.remember(transaction, at, entry.term);
                let pending = self.agreeing.remove(entry.index);
                match pending {
                    Some(_) => step!("leader: its commit is agreed"),
                    None => step!("member: another's commit is agreed"),
                }
                let drawn_ns = pending.as_ref().map_or(now.boot_ns, |pending| pending.drawn_ns);
                let votes = pending.as_ref().and_then(|pending| pending.votes.clone());
                let asked = pending.as_ref().map(|pending| (pending.from, pending.request.id));
                let schema = pending.as_ref().is_some_and(|pending| pending.change().is_some());
                let writes = match pending.map(|pending| pending.request.ask) {
                    Some(Ask::Commit { writes, .. }) => writes,
                    _ => Vec::new(),
                };
                let agreed_ns = now.boot_ns;
                self.passing.insert(at, Passing { at, transaction, asked, drawn_ns, agreed_ns, votes, writes, schema });
                self.unregister(now, transaction, out);
            }
            Agreed::Ceiling { at, through } => {
                in_order(at);
                self.agreed = at;
                self.raising = false;
                self.ceiling = self.ceiling.max(through.unwrap_or(at));
                out.act(install(at, vec![Rows::of_ceiling(self.shard, self.ceiling)], false));
            }
            Agreed::Prepare { transaction, prepared } => {
                in_order(prepared.at);
                self.agreed = prepared.at;
                let (at, pending) = (prepared.at, self.agreeing.remove(entry.index));
                let row = self.on_prepare_agreed(transaction, prepared, pending, out);
                out.act(install(at, vec![row], false));
            }
            Agreed::Outcome { transaction, at } => {
                let Some((installed_at, writes)) = self.on_outcome_agreed(transaction, at, out) else { return };
                out.act(install(installed_at, writes, true));
                if let Some(at) = at {
                    self.remember(transaction, at, entry.term);
                }
                let verdicts = self.locks.release(transaction);
                self.judge(now, verdicts, out);
                self.unregister(now, transaction, out);
            }
            Agreed::Forget { at, transactions } => {
                in_order(at);
                self.agreed = at;
                let rows = self.on_forget_agreed(&transactions);
                out.act(install(at, rows, false));
            }
            Agreed::Split { at, key, shard, members } => {
                in_order(at);
                self.agreed = at;
                self.bounds = self.bounds.clone().cut(&key).0;
                self.children.insert(key.clone(), shard);
                let stays_witness = members.as_ref().is_some_and(|members| members.is_witness(self.me));
                let hollow = witness && !stays_witness && !broken(Rule::HollowChild);
                let birth = members.map(|members| Birth { members, index: entry.index, term: entry.term });
                let births = birth.iter().flat_map(|birth| Rows::of_birth(self.shard, shard, birth));
                let rows = births.chain(self.schemas_of_child(shard)).collect();
                self.split_off.extend(birth.map(|birth| (shard, birth)));
                self.group.note_landmark(entry.index, entry.term);
                let (index, term) = (entry.index, entry.term);
                out.act(Effect::Divide { at, key, shard, rows, hollow, index, term });
                self.on_split_agreed(now, at, out);
            }
            Agreed::Members { at } => {
                in_order(at);
                self.agreed = at;
                let Some(members) = entry.members.as_deref() else {
                    let why = format!("entry {} is about members and names none", entry.index);
                    return out.act(Effect::Stop { why });
                };
                self.members = members.clone();
                out.act(Effect::Members(members.clone()));
                out.act(install(at, vec![Rows::of_members(self.shard, members)], false));
            }
        }
    }

    pub(super) fn step_down(&mut self, out: &mut Outbox<Replica>) {
        self.serving = false;
        if !self.agreeing.is_empty() {
            sometimes!("leadership is lost while a commit is being agreed on");
        }
        let why = Conflict::LeaderChanged;
        let waiting = self.pending.take();
        for pending in waiting.chain(std::mem::take(&mut self.ready)) {
            self.refuse(&pending, why.clone(), out);
            let votes = pending.votes.iter();
            votes.for_each(|votes| self.tell_outcome(pending.request.transaction, None, votes, out));
        }
        for Pending { from, request, .. } in self.agreeing.take() {
            let id = request.id;
            let unknown = if broken(Rule::UnknownSaidAborted) {
                Reply::Aborted { id, why: why.clone() }
            } else {
                Reply::Unknown { id }
            };
            out.send(from, Message::Answer(unknown));
        }
        self.dismiss_snapshots(out);
        self.dismiss_votes(out);
        self.dismiss_schemas(out);
        self.dismiss_split(out);
        self.dismiss_change(out);
        self.dismiss_idleness();
        self.forget_keys();
        self.locks = LockTable::new();
        self.live.clear();
        self.blinds = Blinds::default();
        (self.floor, self.wanted_ceiling, self.raising) = (Timestamp::ZERO, None, false);
    }

    /// The end of every step: what may be shown is shown, what may be drawn is drawn, what was gathered leaves.
    pub(super) fn finish(&mut self, now: Reading, out: &mut Outbox<Replica>) {
        // What is answered leaves after the slot shows it: who reads next on this node must find it (real time).
        let mut answers = Vec::new();
        let passed = |at: Timestamp| broken(Rule::CommitWait) || now.interval.after(at.nanos);
        while let Some(passing) = self.passing.pop_first_if(|passing| passed(passing.at)) {
            let Passing { at, transaction, asked, drawn_ns, agreed_ns, votes, .. } = passing;
            self.visible = self.visible.max(at);
            if let Some((from, id)) = asked {
                step!("leader: answers");
                always!(now.interval.after(at.nanos), "I3: commit wait");
                let spent = Spent {
                    replication_ns: agreed_ns.saturating_sub(drawn_ns),
                    commit_wait_ns: now.boot_ns.saturating_sub(agreed_ns),
                };
                answers.push((from, Reply::Committed { id, at, spent }));
            }
            if let Some(votes) = &votes {
                step!("coordinator: tells its decision");
                self.tell_outcome(transaction, Some(at), votes, out);
            }
            self.live.remove(&transaction);
            let verdicts = self.locks.release(transaction);
            self.judge(now, verdicts, out);
        }
        let oldest = self.oldest_in_flight().unwrap_or(Timestamp::MAX);
        let follows = self.late.iter().map(|late| late.at).filter(|at| *at < oldest).max();
        self.visible = self.visible.max(follows.unwrap_or_default());
        self.late.retain(|late| late.at > self.visible);
        let reader_passes = self.release_readers(now, out);
        self.hand_over_when_drained(now, out);
        let inherited = self.agreed.max(self.ceiling);
        let passed = broken(Rule::IssuerBelowLog) || now.interval.after(inherited.nanos);
        if self.group.is_leader() && !self.serving && self.passing.is_empty() && passed {
            step!("leader: begins to serve");
            self.serving = true;
            self.visible = self.agreed;
            self.late.clear();
            self.take_up_prepared(now);
            self.say_who_leads(out);
        }
        if self.group.is_leader() && !self.serving {
            sometimes!("a new leader waits until what it inherited has passed");
            let left = inherited.nanos.saturating_sub(now.interval.earliest) + 1;
            self.wake_in(left);
        }
        if self.serving && self.group.is_leader() {
            // Not while it gives up: each new timestamp would put that off.
            self.go_on_splitting(now, out);
            self.go_on_changing(now, out);
            self.go_on_registering(now, out);
            self.give_up_changes(now, out);
            self.draw(now, out);
            self.vote_reads(now, out);
        }
        self.show_snapshots(now, out);
        if self.serving && self.group.is_leader() {
            self.close_idle(now);
            self.raise_ceiling(now);
            self.watch_idleness(now, out);
        }
        self.with_group(now, out, |group, out| group.flush(now, out));
        let passes = self.passing.values().next().map(|passing| passing.at.nanos.saturating_sub(now.interval.earliest));
        if let Some(left) = passes.into_iter().chain(reader_passes).min() {
            self.wake_in(left + 1);
        }
        if now.health != Health::Good && self.group.is_leader() {
            sometimes!("a leader does not know the time");
            self.wake_in(LEASE_SOON_NS); // How long anything takes is not known either.
        }
        if let Some(wake_ns) = self.wake_ns.take() {
            out.arm(Timer::CommitWait, now.boot_ns.saturating_add(wake_ns));
        }
        let unresolved = !self.prepared.is_empty() || !self.debts.is_empty() || !self.readers.is_empty();
        if self.serving && unresolved && !self.resolving {
            self.resolving = true;
            out.arm(Timer::Resolve, now.boot_ns + RESOLVE_NS);
        }
        if !self.watching && !self.locks.is_empty() {
            self.watching = true;
            out.arm(Timer::Idle, now.boot_ns + LockTable::IDLE_NS / 2);
        }
        // What is prepared may be committed already, elsewhere: the newest commit here is not all that was acknowledged.
        let all = self.prepared.is_empty() && self.late.is_empty();
        let lease = self.group.lease().filter(|_| self.serving && all).map_or(0, |lease| lease.granted_until);
        self.shown = self.shown.max(self.visible);
        if self.serving && self.shown > self.told && !self.telling && self.group.peers().next().is_some() {
            self.telling = true;
            out.arm(Timer::Close, now.boot_ns + CLOSE_EVERY_NS);
        }
        let leads = self.serving && self.group.is_leader();
        let quiet = self.passing.is_empty() && self.agreeing.is_empty();
        let readable = Readable { through: self.newest(), until: lease, leads, quiet, closed: self.closed() };
        if readable != self.published {
            self.published = readable;
            out.act(Effect::Readable(readable));
        }
        if self.leader != self.group.leader() {
            self.leader = self.group.leader();
            out.act(Effect::Leader(self.leader));
        }
        std::mem::take(&mut self.votes).into_iter().for_each(|(to, vote)| out.send(to, vote));
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
}
