//! Incarnations of nodes: they begin, carry out the effects of their replicas' steps, and end.

use super::{BEGINNING, Event, EventTarget, MS, World, index};
use crate::Timebase;
use crate::node_process::{Member, NodeProcess};
use crate::sim_protocol::{RequestRouter, SimProtocol};
use meridian_clock::Reading;
use meridian_machine::{Effect as Do, Machine, NodeId, Outbox, ShardId};
use rand::Rng;
use std::collections::BTreeSet;

impl<R: SimProtocol> World<R> {
    pub(super) fn boot(&mut self, node: usize) {
        if self.nodes[node].process.is_some() || self.gone.contains(&node) {
            return;
        }
        let (seed, others) = (self.rng.random(), self.others(node));
        let (me, there) = (self.members[node], &mut self.nodes[node]);
        there.incarnation.0 += 1;
        there.paused_until = 0;
        let masters = self.options.scenario.map_or(usize::MAX, |scenario| scenario.masters);
        let asks = there.clock.begin(
            others.into_iter().filter(|other| index(*other) < masters).collect(),
            node < masters,
        );
        match R::begin(self, node, seed) {
            Ok(process) => {
                let extents: Vec<_> =
                    process.members.values().map(|member| member.shard_store.extent()).collect();
                self.nodes[node].process = Some(process);
                self.log(|| format!("{me} boots with {extents:?}"));
            }
            Err(why) => return self.node_failure(node, "begin", why),
        }
        let target = self.target(node);
        let every = self.rng.random_range(50 * MS..500 * MS);
        self.push(every, target, Event::Flush);
        R::on_begin(self, node);
        if asks {
            self.push(0, target, Event::AskTime);
        }
        if self.options.profile.is_none() {
            self.greet_soon(node);
        }
        if self.now() > BEGINNING {
            self.reach(); // At the start of a run, one call after all nodes have booted.
        }
        self.perform_all(node);
    }

    /// Ends an incarnation: discards its effects in progress, and closes its sessions.
    pub(super) fn leave(&mut self, node: usize) -> Option<NodeProcess<R>> {
        let process = self.nodes[node].process.take()?;
        process.router.close();
        for client in 0..self.clients.len() {
            if self.clients[client].node == node && self.clients[client].attempt.take().is_some() {
                self.record(client);
            }
        }
        self.wake(node);
        let there = &mut self.nodes[node];
        there.inbox.clear();
        there.busy_until = 0;
        Some(process)
    }

    /// Ends a node's process, and schedules the next one. The machine keeps its power and its page
    /// cache.
    pub(super) fn end_process(&mut self, node: usize) {
        let for_ns = self.rng.random_range(1..100 * MS);
        let process = self.leave(node);
        let there = &self.nodes[node];
        there.disks.0.end_process();
        there.disks.1.end_process();
        drop(process); // After its files, so that it writes no more.
        self.push(for_ns, Some(EventTarget { node, incarnation: None }), Event::Boot);
        self.reach();
    }

    pub(super) fn crash(&mut self, node: usize, for_ns: u64) {
        let Some(process) = self.leave(node) else { return };
        self.log(|| format!("{} loses power", self.members[node]));
        if self.options.timebase != Timebase::Bound && self.rng.random_bool(0.3) {
            self.nodes[node].clock.reboot();
        }
        let survives = self.rng.random_range(0.0..=1.0);
        let there = &self.nodes[node];
        there.disks.0.crash(|| self.rng.random_bool(survives));
        there.disks.1.crash(|| self.rng.random_bool(survives));
        drop(process); // After its disks, so that its last writes are lost.
        self.push(for_ns, Some(EventTarget { node, incarnation: None }), Event::Boot);
        self.reach();
    }

    /// Tells each node which peers it can reach.
    pub(super) fn reach(&mut self) {
        let now = self.now();
        let accepts = |a: usize, b: usize| {
            self.network.open(now, b, a)
                && self.nodes[a].peer_identities.accepts(self.members[b], self.disk(b))
        };
        for a in 0..self.nodes.len() {
            let Some(process) = &self.nodes[a].process else { continue };
            let open = |b: &usize| {
                let both = accepts(a, *b) && accepts(*b, a);
                a == *b || (both && self.nodes[*b].process.is_some())
            };
            let reached: BTreeSet<NodeId> =
                (0..self.nodes.len()).filter(open).map(|b| self.members[b]).collect();
            process.router.set_reached(reached);
        }
    }

    /// Returns a shard's replica on a running node.
    pub(super) fn member(
        &mut self,
        node: usize,
        shard: ShardId,
    ) -> Option<&mut Member<R::Replica>> {
        self.nodes[node].process.as_mut()?.members.get_mut(&shard)
    }

    pub(super) fn step(
        &mut self,
        node: usize,
        shard: ShardId,
        step: impl FnOnce(&mut R::Replica, Reading, &mut Outbox<R::Replica>),
    ) {
        let now = self.nodes[node].clock.reading();
        let Some(member) = self.member(node, shard) else { return };
        step(&mut member.replica, now, &mut member.out);
        self.perform(node, shard);
    }

    pub(super) fn perform_all(&mut self, node: usize) {
        let Some(process) = &self.nodes[node].process else { return };
        let shards: Vec<ShardId> = process.members.keys().copied().collect();
        shards.into_iter().for_each(|shard| self.perform(node, shard));
    }

    /// Carries out the effects of a replica, in order.
    pub(super) fn perform(&mut self, node: usize, shard: ShardId) {
        let Some(member) = self.member(node, shard) else { return };
        let effects: Vec<_> = member.out.drain().collect();
        if self.ends_at_step(node) || effects.is_empty() {
            return;
        }
        // Sometimes a node pauses between a step and its effects; more often if an effect depends
        // on a lease.
        let mut pause_ns = 0;
        let leased = |effect: &Do<R::Replica>| match effect {
            Do::SendBefore { .. } => true,
            Do::Do(effect) => R::is_leased(effect),
            _ => false,
        };
        let often = if effects.iter().any(leased) { 0.004 } else { 0.001 };
        if self.faulty && self.options.faults.process && self.rng.random_bool(often) {
            pause_ns = self.rng.random_range(1..1_500 * MS);
            self.nodes[node].paused_until = self.now() + pause_ns;
            *self.struck.entry("pause within a step").or_default() += 1;
        }
        for effect in effects {
            match effect {
                Do::Send { to, message } => self.send(node, shard, pause_ns, None, to, message),
                Do::SendBefore { deadline, to, message } => {
                    self.send(node, shard, pause_ns, Some(deadline), to, message);
                }
                Do::Arm { timer, at } => {
                    if let Some(member) = self.member(node, shard) {
                        member.alarms.set(timer, at);
                    }
                }
                Do::Disarm { timer } => {
                    if let Some(member) = self.member(node, shard) {
                        member.alarms.cancel(&timer);
                    }
                }
                Do::Persist { position, record } => {
                    self.note_draws(&record);
                    if let Some(process) = &mut self.nodes[node].process {
                        process.journal.persist(shard, position, R::write_record(record).into());
                    }
                }
                Do::Do(effect) => R::act(self, node, shard, effect),
            }
        }
        self.ask_for_wake(node, shard);
        self.write(node);
    }

    /// Schedules an event for the earliest timer of a replica.
    fn ask_for_wake(&mut self, node: usize, shard: ShardId) {
        let Some(at) = self.member(node, shard).and_then(|member| member.alarms.next_wake()) else {
            return;
        };
        let late = self.rng.random_range(0..50_000);
        let when = self.nodes[node].clock.when(at).max(self.time.now()) + late;
        let target = self.target(node);
        self.push_at(when, target, Event::Wake(shard));
    }

    /// Fires the due timers of a replica.
    pub(super) fn wake_member(&mut self, node: usize, shard: ShardId) {
        let now = self.nodes[node].clock.reading();
        let Some(member) = self.member(node, shard) else { return };
        member.alarms.woken(now.boot_ns);
        while let Some(timer) =
            self.member(node, shard).and_then(|member| member.alarms.due(now.boot_ns))
        {
            self.step(node, shard, |replica, now, out| replica.on_timer(now, timer, out));
            if self.is_stopped(node) {
                break; // The step stopped the node; the other timers wait.
            }
        }
        self.ask_for_wake(node, shard);
    }
}
