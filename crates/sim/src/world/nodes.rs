//! Lives of nodes: they begin, take steps whose effects are carried out, and end.

use super::{BEGINNING, Event, MS, S, Whom, World, index};
use crate::member::{Life, Member, Timing};
use crate::{Defect, Timebase};
use meridian_clock::Reading;
use meridian_machine::{Effect as Do, NodeId, Outbox, Role, ShardId};
use meridian_mvcc::StoreError;
use meridian_systems::spanner::{Effect, Message, Replica, Serve};
use meridian_txn::locking::{Heard, Reply};
use rand::Rng;
use std::collections::BTreeSet;

impl World {
    pub(super) fn boot(&mut self, node: usize) {
        if self.nodes[node].life.is_some() || self.gone.contains(&node) {
            return;
        }
        let (seed, timing, others) = (self.rng.random(), self.timing(), self.others(node));
        let (me, there) = (self.members[node], &mut self.nodes[node]);
        there.incarnation.0 += 1;
        there.paused_until = 0;
        let masters = self.options.scene.map_or(usize::MAX, |scene| scene.masters);
        let asks =
            there.clock.begin(others.into_iter().filter(|other| index(*other) < masters).collect(), node < masters);
        match Life::begin(
            me,
            there.incarnation,
            &self.members,
            (seed, timing, self.options.defect),
            there.acquaintances.admitted(),
            self.options.scene.is_some(),
            &there.clock,
            &there.disks,
        ) {
            Ok(life) => {
                let extents: Vec<_> = life.members.values().map(|member| member.space.extent()).collect();
                there.life = Some(life);
                self.tell(|| format!("{me} comes to life with {extents:?}"));
            }
            Err(why) => return self.unfit(node, "begin", why),
        }
        let whom = self.whom(node);
        let every = self.rng.random_range(50 * MS..500 * MS);
        self.push(every, whom, Event::Settle);
        self.push(S, whom, Event::KeepAlive);
        if asks {
            self.push(0, whom, Event::AskTime);
        }
        if self.options.profile.is_none() {
            self.greet_soon(node);
        }
        if self.now() > BEGINNING {
            self.reach(); // At the beginning all come to life, and are told once.
        }
        self.perform_all(node);
    }

    /// How patient members are: with nodes that are far apart, more.
    fn timing(&self) -> Timing {
        let election_timeout_ns = (250 * MS).max(4 * self.options.regions.farthest_ns());
        let (min_next_ns, quiesce_ns) = self.idle_after_ns;
        Timing { election_timeout_ns, lease_ns: self.lease_ns, min_next_ns, quiesce_ns }
    }

    /// A life ends: what it was about to do is not done, and its sessions hear no more of it.
    pub(super) fn leave(&mut self, node: usize) -> Option<Life> {
        let life = self.nodes[node].life.take()?;
        life.desk.close();
        for client in 0..self.clients.len() {
            if self.clients[client].node == node && self.clients[client].attempt.take().is_some() {
                self.record(client);
            }
        }
        let there = &mut self.nodes[node];
        there.inbox.clear();
        (there.busy_until, there.sync_fails) = (0, false);
        Some(life)
    }

    pub(super) fn crash(&mut self, node: usize, for_ns: u64) {
        let Some(life) = self.leave(node) else { return };
        self.tell(|| format!("{} loses power", self.members[node]));
        if self.options.timebase != Timebase::Bound && self.rng.random_bool(0.3) {
            self.nodes[node].clock.reboot();
        }
        let survives = self.rng.random_range(0.0..=1.0);
        let there = &self.nodes[node];
        there.disks.0.crash(|| self.rng.random_bool(survives));
        there.disks.1.crash(|| self.rng.random_bool(survives));
        drop(life); // After its disks: whatever it would still write is lost.
        self.push(for_ns, Some(Whom { node, life: None }), Event::Boot);
        self.reach();
    }

    /// Tells each node whom it can speak with.
    pub(super) fn reach(&mut self) {
        let now = self.now();
        let heeds = |a: usize, b: usize| {
            self.network.open(now, b, a) && self.nodes[a].acquaintances.heeds(self.members[b], self.disk(b))
        };
        for a in 0..self.nodes.len() {
            let Some(life) = &self.nodes[a].life else { continue };
            let open = |b: &usize| {
                let both = heeds(a, *b) && heeds(*b, a);
                a == *b || (both && self.nodes[*b].life.is_some())
            };
            let reached: BTreeSet<NodeId> = (0..self.nodes.len()).filter(open).map(|b| self.members[b]).collect();
            life.desk.set_reached(reached);
        }
    }

    /// A shard's member at a node that lives.
    pub(super) fn member(&mut self, node: usize, shard: ShardId) -> Option<&mut Member> {
        self.nodes[node].life.as_mut()?.members.get_mut(&shard)
    }

    pub(super) fn step(
        &mut self,
        node: usize,
        shard: ShardId,
        step: impl FnOnce(&mut Replica, Reading, &mut Outbox<Replica>),
    ) {
        let now = self.nodes[node].clock.reading();
        let Some(member) = self.member(node, shard) else { return };
        step(&mut member.replica, now, &mut member.out);
        self.perform(node, shard);
    }

    pub(super) fn perform_all(&mut self, node: usize) {
        let Some(life) = &self.nodes[node].life else { return };
        let shards: Vec<ShardId> = life.members.keys().copied().collect();
        shards.into_iter().for_each(|shard| self.perform(node, shard));
    }

    /// Does what a member asked for, in order.
    pub(super) fn perform(&mut self, node: usize, shard: ShardId) {
        let Some(member) = self.member(node, shard) else { return };
        let effects: Vec<_> = member.out.drain().collect();
        if self.ends_at_step(node) || effects.is_empty() {
            return;
        }
        // Now and then a node stops between a step and what it asked for: more often when it has just looked at its lease.
        let mut pause_ns = 0;
        let leased = |effect: &Do<Replica>| matches!(effect, Do::Do(Effect::Serve(_)) | Do::SendBefore { .. });
        let often = if effects.iter().any(leased) { 0.004 } else { 0.001 };
        if self.faulty && self.options.faults.process && self.rng.random_bool(often) {
            pause_ns = self.rng.random_range(1..1_500 * MS);
            self.nodes[node].paused_until = self.now() + pause_ns;
            *self.struck.entry("pause within a step").or_default() += 1;
        }
        let whom = self.whom(node);
        for effect in effects {
            match effect {
                Do::Send { to, message } => self.send(node, shard, pause_ns, None, to, message),
                Do::SendBefore { deadline, to, message } => {
                    self.send(node, shard, pause_ns, Some(deadline), to, message);
                }
                Do::Arm { timer, at } => {
                    let late = self.rng.random_range(0..50_000);
                    if let Some(member) = self.member(node, shard) {
                        member.timers.insert(timer, at);
                    }
                    let when = self.nodes[node].clock.when(at).max(self.time.now()) + late;
                    self.push_at(when, whom, Event::Timer { shard, timer, at });
                }
                Do::Disarm { timer } => {
                    if let Some(member) = self.member(node, shard) {
                        member.timers.remove(&timer);
                    }
                }
                Do::Persist { position, record } => {
                    if let Some(life) = &mut self.nodes[node].life {
                        life.persist(shard, position, record);
                    }
                }
                Do::Do(effect) => self.act(node, shard, effect),
            }
        }
        self.write(node);
    }

    pub(super) fn act(&mut self, node: usize, shard: ShardId, effect: Effect) {
        let whom = self.whom(node);
        let Some(life) = &mut self.nodes[node].life else { return };
        let Some(member) = life.members.get_mut(&shard) else { return };
        match effect {
            Effect::Install { at, writes, index, term, decided_elsewhere } => {
                if !member.replica.is_witness() {
                    self.watch_install(node, (shard, at), &writes, (index, term), decided_elsewhere);
                }
                if self.options.defect == Some(Defect::InstalledLate) {
                    let Some(member) = self.member(node, shard) else { return };
                    member.late.push((at, writes, index, term));
                    let after = self.rng.random_range(0..20 * MS);
                    return self.push(after, whom, Event::Late(shard));
                }
                let halves = self.options.defect == Some(Defect::HalfInstalled) && node == 1;
                let all = if halves && writes.len() > 1 { &writes[..writes.len() - 1] } else { &writes[..] };
                let Some(member) = self.member(node, shard) else { return };
                member.space.install(at, all, index.0, term.0);
            }
            Effect::Divide { at, key, shard: child, rows, index, term } => {
                // What a planted defect keeps back is not kept back from the child.
                for (at, writes, index, term) in std::mem::take(&mut member.late) {
                    member.space.install(at, &writes, index.0, term.0);
                }
                member.space.divide((at, rows), &key, child.0, index.0, term.0);
                life.desk.learn_route(&key, key.clone(), child);
                self.push(0, whom, Event::Bear);
            }
            Effect::Serve(mut serve) => {
                if self.options.defect == Some(Defect::ReadOneBefore) {
                    serve.at.nanos = serve.at.nanos.saturating_sub(1);
                }
                match serve.reply_to.role {
                    Role::Coordinator(number) if serve.reply_to.node == self.members[node] => {
                        let Serve { id, footing, at, deadline, .. } = serve;
                        self.push(0, whom, Event::Hear((number, id), Heard::Read { footing, at, deadline }));
                    }
                    _ => {
                        let longest = if self.options.profile.is_some() { 2 } else { MS };
                        let after = self.rng.random_range(0..longest);
                        self.push(after, whom, Event::Serve(shard, Box::new(serve)));
                    }
                }
            }
            Effect::Readable(mut readable) => {
                if self.options.defect == Some(Defect::LeaseNotChecked) && readable.until > 0 {
                    readable.until = u64::MAX;
                }
                life.desk.set_readable(shard, readable);
            }
            Effect::Leader(leader) => {
                if let Some(tell) = self.options.tell {
                    tell(&format!("{} follows {leader:?} in shard {}", self.members[node], shard.0));
                }
                if let Some(leader) = leader {
                    life.desk.set_leader(shard, leader);
                }
            }
            Effect::SendSnapshot { to, index: wanted, witness } => {
                let to = index(to);
                self.push(MS, whom, Event::CopyOut { shard, to, index: wanted, witness, tries: 0 });
            }
            Effect::Members(_) => {}
            Effect::Removed { index } => self.push(0, whom, Event::Removed { shard, index }),
            Effect::Stop { why } => self.fail(format!("{} stops: {why}", self.members[node])),
        }
    }

    pub(super) fn install_late(&mut self, node: usize, shard: ShardId) {
        let Some(member) = self.member(node, shard) else { return };
        for (at, writes, index, term) in std::mem::take(&mut member.late) {
            member.space.install(at, &writes, index.0, term.0);
        }
    }

    pub(super) fn serve(&mut self, node: usize, shard: ShardId, serve: Serve) {
        let Some(member) = self.member(node, shard) else { return };
        let Serve { reply_to, id, footing, at, range, reverse, limit_rows, versions, deadline } = serve;
        let found = member.space.scan(&range, at, reverse, limit_rows as usize, 1 << 16);
        if found.is_ok() {
            self.watch_read(shard, range, at);
        }
        let reply = match found {
            Ok(chunk) => {
                let committed_at = if versions { chunk.at } else { Vec::new() };
                Reply::Rows { id, footing, at, rows: chunk.rows, rest: chunk.rest, committed_at }
            }
            Err(error) if matches!(error, StoreError::Damaged { .. }) => return self.unfit(node, "read", error.into()),
            Err(error) => Reply::refused(id, error),
        };
        self.send(node, shard, 0, deadline, reply_to, Message::Answer(reply));
    }
}
