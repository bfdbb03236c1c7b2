//! The order of work in each step of a member.

use super::ceilings::{CLOSE_EVERY_NS, LEASE_SOON_NS};
use super::leadership::Workload;
use super::records::{row_of_ceiling, row_of_members, split_rows};
use super::{
    Command, Effect, Message, MessageOf, Participant, Shard, ShardCommand, SplitOrigin, Timer,
    issuer,
};
use crate::shard::rules;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Health, Machine, Outbox, Position, always, sometimes, step};
use meridian_mvcc::{Write, local};
use meridian_replication::group::{Entry, Event, Group, Record};
use meridian_txn::shards::ReadLease;
use std::collections::VecDeque;

pub(super) fn embed<P: Participant>(
    effect: meridian_machine::Effect<Group>,
    events: &mut VecDeque<Event>,
) -> Option<meridian_machine::Effect<Shard<P>>> {
    use meridian_machine::Effect as E;
    Some(match effect {
        E::Send { to, message } => E::Send { to, message: Message::Group(message) },
        E::SendBefore { deadline, to, message } => {
            E::SendBefore { deadline, to, message: Message::Group(message) }
        }
        E::Arm { timer, at } => E::Arm { timer: Timer::Group(timer), at },
        E::Disarm { timer } => E::Disarm { timer: Timer::Group(timer) },
        E::Persist { position, record } => E::Persist { position, record },
        E::Do(event) => {
            events.push_back(event);
            return None;
        }
    })
}

impl<P: Participant> Machine for Shard<P> {
    type Message = MessageOf<P>;
    type Timer = Timer;
    type Record = Record;
    type Effect = Effect;

    fn on_message(
        &mut self,
        now: Reading,
        from: Address,
        message: MessageOf<P>,
        out: &mut Outbox<Self>,
    ) {
        match message {
            Message::Group(message) => {
                self.with_group(now, out, |group, out| group.on_message(now, from, message, out));
            }
            Message::Request(request) => P::on_request(self, now, from, request, out),
            Message::Participant(message) => {
                self.is_wanted(now, out);
                // Otherwise the sender repeats the message, and finds the member that serves.
                if self.serving && self.group.is_leader() && from.database == self.database {
                    P::on_peer(self, now, from, message, out);
                }
            }
            Message::LeaderVisible(at) if self.group.is_peer(from) => {
                self.leader_visible = self.leader_visible.max(at)
            }
            Message::AskTimestamps { count, term, above } => {
                self.is_wanted(now, out);
                self.on_ask_timestamps(from, (count, term), above);
            }
            Message::Timestamps { range, term } => self.on_timestamps(from, range, term),
            // Not for this member.
            Message::LeaderVisible(_) | Message::Response(_) | Message::Leads(_) => return,
        }
        self.finish(now, out);
    }

    fn on_timer(&mut self, now: Reading, timer: Timer, out: &mut Outbox<Self>) {
        match timer {
            Timer::Group(timer) => {
                self.with_group(now, out, |group, out| group.on_timer(now, timer, out))
            }
            Timer::CommitWait | Timer::HandOver | Timer::Split => {}
            Timer::Workload => self.look_at_workload(now, out),
            Timer::Close => self.announce_visible(out),
            Timer::Resolve => P::resolve(self, now, out),
            Timer::MinNext => self.look_at_idleness(now, out),
            Timer::Authority => self.ask_again(),
            Timer::Idle => P::look_at_idle(self, now, out),
        }
        self.finish(now, out);
    }

    fn on_durable(&mut self, now: Reading, through: Position, out: &mut Outbox<Self>) {
        self.with_group(now, out, |group, out| group.on_durable(now, through, out));
        self.finish(now, out);
    }
}

impl<P: Participant> Shard<P> {
    /// Runs an operation of the group (compact, transfer leadership, install a snapshot), and
    /// handles its events.
    pub fn with_group<R>(
        &mut self,
        now: Reading,
        out: &mut Outbox<Shard<P>>,
        step: impl FnOnce(&mut Group, &mut Outbox<Group>) -> R,
    ) -> R {
        let (mut events, before) = (VecDeque::new(), out.mark());
        let group = &mut self.group;
        let result = out.lend(|out| step(group, out), |effect| embed(effect, &mut events));
        let gave_up = self.published.leads && !self.group.is_leader();
        let gone = self.published.until > 0 && self.group.lease().is_none();
        if (gave_up || gone) && !broken(rules::SLOT_WITHDRAWN_LATE) {
            // Published before another member learns that it may lead: a session that begins here
            // afterwards must not miss that member's commits.
            self.published = ReadLease { until: 0, leads: false, quiet: false, ..self.published };
            out.act_at(before, Effect::ReadLease(self.published));
        }
        for event in events {
            self.on_event(now, event, out);
        }
        result
    }

    fn on_event(&mut self, now: Reading, event: Event, out: &mut Outbox<Shard<P>>) {
        match event {
            Event::Committed { entries } => {
                entries.into_iter().for_each(|entry| self.apply(now, &entry, out))
            }
            Event::BecameLeader { .. } => {
                self.workload = Workload::new(now.boot_ns);
                let read_floor = match () {
                    () if broken(rules::ISSUER_BELOW_LOG) => Timestamp::ZERO,
                    () if broken(rules::AUTHORITY_BELOW_CEILING) => self.agreed,
                    () => self.agreed.max(self.ceiling),
                };
                self.issuer = issuer(self.me, self.shard, read_floor);
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

    /// Advances the newest agreed timestamp to that of an entry which this leader or an earlier one
    /// drew.
    pub(crate) fn advance(&mut self, at: Timestamp) {
        always!(at > self.agreed, "I4: timestamps grow in the order of the log");
        self.agreed = at;
    }

    /// Installs versions of an agreed entry; at a witness only the shard's rows about itself.
    pub(crate) fn install(
        &self,
        entry: &Entry,
        at: Timestamp,
        mut writes: Vec<Write>,
        decided_elsewhere: bool,
        out: &mut Outbox<Shard<P>>,
    ) {
        let (index, term, witness) = (entry.index, entry.term, self.is_witness());
        writes.retain(|write| !witness || local::is(&write.key));
        out.act(Effect::Install { at, writes, index, term, decided_elsewhere });
    }

    fn apply(&mut self, now: Reading, entry: &Entry, out: &mut Outbox<Shard<P>>) {
        let command = match P::Command::from_payload(&entry.payload) {
            Ok(None) => return,
            Ok(Some(command)) => command,
            Err(damaged) => {
                return out
                    .act(Effect::Stop { why: format!("entry {}: {}", entry.index, damaged.0) });
            }
        };
        match command.into_shard() {
            Err(command) => P::apply(self, now, entry, command, out),
            Ok(ShardCommand::Ceiling { at, through }) => {
                self.advance(at);
                self.raising = false;
                self.ceiling = self.ceiling.max(through.unwrap_or(at));
                self.install(entry, at, vec![row_of_ceiling(self.shard, self.ceiling)], false, out);
            }
            Ok(ShardCommand::Split { at, key, shard, members }) => {
                self.advance(at);
                self.bounds = self.bounds.clone().cut(&key).0;
                self.children.insert(key.clone(), shard);
                let stays_witness =
                    members.as_ref().is_some_and(|members| members.is_witness(self.me));
                let hollow = self.is_witness() && !stays_witness && !broken(rules::HOLLOW_CHILD);
                let split_origin = members.map(|members| SplitOrigin {
                    members,
                    index: entry.index,
                    term: entry.term,
                });
                let split_origins = split_origin
                    .iter()
                    .flat_map(|split_origin| split_rows(self.shard, shard, split_origin));
                let rows = split_origins.chain(P::rows_of_child(self, shard)).collect();
                self.split_off.extend(split_origin.map(|split_origin| (shard, split_origin)));
                self.group.pin_entry(entry.index, entry.term);
                let (index, term) = (entry.index, entry.term);
                out.act(Effect::Divide { at, key, shard, rows, hollow, index, term });
                self.on_split_agreed(now, at, out);
            }
            Ok(ShardCommand::Members { at }) => {
                self.advance(at);
                let Some(members) = entry.members.as_deref() else {
                    let why = format!("entry {} is about members and names none", entry.index);
                    return out.act(Effect::Stop { why });
                };
                self.members = members.clone();
                out.act(Effect::Members(members.clone()));
                self.install(entry, at, vec![row_of_members(self.shard, members)], false, out);
            }
        }
    }

    fn step_down(&mut self, out: &mut Outbox<Shard<P>>) {
        self.serving = false;
        P::step_down(self, out);
        self.dismiss_split(out);
        self.dismiss_change(out);
        self.dismiss_idleness();
        self.dismiss_authority(out);
        (self.read_floor, self.wanted_ceiling, self.raising) = (Timestamp::ZERO, None, false);
    }

    /// Ends a step: releases what waited, takes up leadership, continues splits and membership
    /// changes, proposes, answers reads, sends to followers, publishes, and sends answers.
    pub(crate) fn finish(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        P::release(self, now, out);
        self.hand_over_when_drained(now, out);
        self.assume_leadership(now, out);
        if self.serving && self.group.is_leader() {
            // Not while leadership is being given up: each new timestamp would delay that.
            self.go_on_splitting(now, out);
            self.go_on_changing(now, out);
            P::propose_ready(self, now, out);
            self.ask_authority(now, out);
        }
        P::answer_reads(self, now, out);
        if self.serving && self.group.is_leader() {
            self.hand_out(now, out);
            self.close_idle(now);
            self.raise_ceiling(now);
            self.watch_idleness(now, out);
        }
        self.with_group(now, out, |group, out| group.flush(now, out));
        self.arm_timers(now, out);
        self.publish(now, out);
        self.participant.send(out);
    }

    /// Begins to serve as soon as everything agreed under earlier leaders has surely passed.
    fn assume_leadership(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        let below = broken(rules::AUTHORITY_BELOW_CEILING);
        let inherited = if below { self.agreed } else { self.agreed.max(self.ceiling) };
        let passed = broken(rules::ISSUER_BELOW_LOG) || now.interval.after(inherited.nanos);
        if self.group.is_leader() && !self.serving && self.participant.may_lead() && passed {
            step!("leader: begins to serve");
            self.serving = true;
            self.visible = self.agreed;
            P::lead(self, now);
            self.announce_leader(out);
        }
        if self.group.is_leader() && !self.serving {
            sometimes!("a new leader waits until what it inherited has passed");
            let left = inherited.nanos.saturating_sub(now.interval.earliest) + 1;
            self.wake_in(left);
        }
    }

    fn arm_timers(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        if let Some(left) = self.participant.next_release(now, self.policy) {
            self.wake_in(left + 1);
        }
        if now.health != Health::Good && self.group.is_leader() {
            sometimes!("a leader does not know the time");
            self.wake_in(LEASE_SOON_NS); // Without a clock no wait can be computed.
        }
        if let Some(wake_ns) = self.wake_ns.take() {
            out.arm(Timer::CommitWait, now.boot_ns.saturating_add(wake_ns));
        }
        P::arm(self, now, out);
    }

    /// Publishes what sessions of this node may read without asking, and which member leads.
    fn publish(&mut self, now: Reading, out: &mut Outbox<Shard<P>>) {
        let alone = self.serving && self.participant.reads_alone();
        let lease = self.group.lease().filter(|_| alone).map_or(0, |lease| lease.granted_until);
        self.leader_visible = self.leader_visible.max(self.visible);
        if self.serving
            && self.leader_visible > self.announced
            && !self.announcing
            && self.group.peers().next().is_some()
        {
            self.announcing = true;
            out.arm(Timer::Close, now.boot_ns + CLOSE_EVERY_NS);
        }
        let leads = self.serving && self.group.is_leader();
        let quiet = self.participant.is_quiet();
        let read_lease =
            ReadLease { through: self.newest(), until: lease, leads, quiet, closed: self.closed() };
        if read_lease != self.published {
            self.published = read_lease;
            out.act(Effect::ReadLease(read_lease));
        }
        if self.leader != self.group.leader() {
            self.leader = self.group.leader();
            out.act(Effect::Leader(self.leader));
        }
    }

    /// Sends the members the newest timestamp that was visible here.
    fn announce_visible(&mut self, out: &mut Outbox<Shard<P>>) {
        self.announcing = false;
        if self.serving && self.leader_visible > self.announced {
            self.announced = self.leader_visible;
            self.group
                .peers()
                .for_each(|other| out.send(other, Message::LeaderVisible(self.leader_visible)));
        }
    }
}
