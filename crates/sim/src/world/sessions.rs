//! Clients, and the coordinators that they use.

use super::{Event, HISTORY, MS, Ready, S, Task, World};
use crate::Timebase;
use crate::client;
use crate::client::Seen;
use crate::node::RouterEffect;
use crate::sim_protocol::{RequestRouter, SimProtocol};
use crate::sql;
use crate::workload::{Drawing, Plan, Step};
use crate::world::order::Asked;
use crate::world::processor::Price;
use futures::future::BoxFuture;
use meridian_clock::Timestamp;
use meridian_history::{Op, Status, Transaction};
use meridian_machine::{Machine, Role};
use meridian_txn::{Consistency, Mode, ReadAt};
use parking_lot::Mutex;
use rand::Rng;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

impl<R: SimProtocol> World<R> {
    pub(super) fn begin(&mut self, client: usize) {
        if !self.open || self.clients[client].attempt.is_some() {
            return;
        }
        if let Some(scenario) = self.options.scenario {
            return self.play(scenario, client);
        }
        let living: Vec<usize> =
            (0..self.nodes.len()).filter(|node| self.nodes[*node].process.is_some()).collect();
        let Some(first) = living.first() else {
            return self.push(50 * MS, None, Event::Begin(client));
        };
        let own = self.favourite.unwrap_or(self.clients[client].node);
        let membership_epoch = living.contains(&own) && !self.rng.random_bool(0.1);
        let node = if membership_epoch {
            own
        } else {
            living[self.rng.random_range(0..living.len())].max(*first)
        };
        let reader = self.is_reader(client);
        let past: Vec<Timestamp> = self.recent.iter().copied().collect();
        let present = Timestamp::end_of(self.nodes[node].clock.reading().interval.earliest);
        let (rng, keys, next) = (&mut self.rng, self.keys, &mut self.next_element);
        let hurries = !self.faulty;
        let mut drawing = Drawing { rng, hurries, reader, keys, next, past: &past, present };
        let mut plan = drawing.plan(self.options.workload);
        if self.options.sql {
            plan = plan.in_sql(&mut drawing);
        }
        if !self.options.protocol.row.has_transactions() {
            plan = plan.of_the_present();
        }
        if self.options.profile.is_some() {
            plan.steps.retain(|step| !matches!(step, Step::Think(_)));
        }
        self.begun += usize::from(!reader);
        self.clients[client].asked = self.ask_for_order(client, node);
        self.start(client, node, plan);
    }

    /// Starts a client's transaction on a node.
    pub(super) fn start(&mut self, client: usize, node: usize, plan: Plan) {
        let Some(process) = &self.nodes[node].process else { return };
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (txn_client, engine, router) = (
            Arc::clone(&process.txn_client),
            Arc::clone(&process.engine),
            Arc::clone(&process.router),
        );
        let start = self.time.now();
        let there = &mut self.clients[client];
        (there.node, there.mode, there.mark, there.start) = (node, plan.mode, plan.mark, start);
        there.faulty = self.faulty;
        there.seen = Arc::clone(&seen);
        let asked = there.asked.clone();
        there.attempt = Some(match self.options.sql {
            true => Box::pin(sql::attempt(engine, router, plan, asked, seen)),
            false => Box::pin(client::attempt(txn_client, router, plan, asked, seen)),
        });
        self.poll(client);
    }

    pub(super) fn with_router(&mut self, node: usize, step: impl FnOnce(&R::RequestRouter)) {
        if let Some(process) = &self.nodes[node].process {
            step(&process.router);
            self.grant(node);
        }
    }

    /// Polls all tasks that were woken.
    pub(super) fn poll_ready(&mut self) {
        loop {
            let next = self.ready.lock().pop_front();
            let Some(task) = next else { return };
            self.go_on_with(task);
        }
    }

    pub(super) fn go_on_with(&mut self, task: Task) {
        match task {
            Task::Client(client) => self.poll(client),
            Task::BackgroundTask { node, number } => self.poll_background_task(node, number),
        }
    }

    /// Starts a background task of a node, which ends with the incarnation at the latest.
    pub(super) fn send_out(&mut self, node: usize, background_task: BoxFuture<'static, ()>) {
        self.background_tasks += 1;
        let number = self.background_tasks;
        let Some(process) = &mut self.nodes[node].process else { return };
        process.background_tasks.insert(number, background_task);
        self.poll_background_task(node, number);
    }

    fn poll_background_task(&mut self, node: usize, number: u64) {
        let task = Task::BackgroundTask { node, number };
        let until = self.nodes[node].paused_until;
        if until > self.now() {
            return self.push_at(until, None, Event::Poll(task));
        }
        if self.sleeps(node, task) {
            return;
        }
        let Some(process) = &mut self.nodes[node].process else { return };
        let Some(background_task) = process.background_tasks.get_mut(&number) else { return };
        let waker = Waker::from(Arc::new(Ready { task, queue: Arc::clone(&self.ready) }));
        if background_task.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(()) {
            process.background_tasks.remove(&number);
        }
        self.grant(node);
    }

    pub(super) fn poll(&mut self, client: usize) {
        let node = self.clients[client].node;
        let busy_until =
            if self.options.profile.is_some() { self.nodes[node].busy_until } else { 0 };
        let until = self.nodes[node].paused_until.max(busy_until);
        if until > self.now() {
            return self.push_at(until, None, Event::Poll(Task::Client(client)));
        }
        if self.sleeps(node, Task::Client(client)) {
            return;
        }
        let there = &mut self.clients[client];
        let Some(attempt) = &mut there.attempt else { return };
        let waker = Waker::from(Arc::new(Ready {
            task: Task::Client(client),
            queue: Arc::clone(&self.ready),
        }));
        let ended = attempt.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(());
        if ended {
            there.attempt = None;
            self.record(client);
        }
        if self.ends_at_step(node) {
            return;
        }
        self.grant(node);
        self.watch_sessions(node);
        let damage = self.nodes[node].process.as_ref().and_then(|process| process.router.damage());
        if let Some(damage) = damage {
            self.node_failure(node, "read for a session", damage.into());
        }
    }

    /// Carries out the requests of a node's coordinators.
    pub(super) fn grant(&mut self, node: usize) {
        while let Some(process) = &self.nodes[node].process {
            let effects = process.router.node().take_effects();
            if effects.is_empty() {
                return;
            }
            let (me, target) = (self.members[node], self.target(node));
            for wish in effects {
                match wish {
                    RouterEffect::Alarm(at, key) => {
                        let when = self.nodes[node].clock.when(at);
                        self.push_at(when, target, Event::Alarm(key));
                    }
                    RouterEffect::Say { from, to, message } if to.node == me => {
                        self.pay(node, Price::Local);
                        self.log_received(me, me, Role::Replica, &message);
                        self.step(node, to.shard, |replica, now, out| {
                            replica.on_message(now, from, *message, out)
                        });
                    }
                    RouterEffect::Say { from, to, message } => {
                        self.carry(node, 0, from, to, &message)
                    }
                }
            }
        }
    }

    /// Closes the session of a random client, in the middle of its transaction.
    pub(super) fn leave_session(&mut self) {
        let client = self.rng.random_range(0..self.clients.len());
        if self.clients[client].attempt.take().is_some() {
            *self.changed.entry("session gone").or_default() += 1;
            self.record(client);
        }
    }

    /// Records the outcome of a client's transaction, and schedules the client's next one.
    pub(super) fn record(&mut self, client: usize) {
        let there = &mut self.clients[client];
        let seen = std::mem::take(&mut *there.seen.lock());
        let unknown = if seen.committing { Status::Info } else { Status::Fail };
        let (status, at) = seen.ended.unwrap_or((unknown, None));
        // A read of the present must not fail before versions expire, except under lying clocks,
        // where the present is not known.
        let (start, mode) = (there.start, there.mode);
        let soon = self.now() - start < HISTORY / 2;
        let keeps = !self.options.deceives();
        if seen.too_old && mode == Mode::ReadOnly(ReadAt::Now) && soon && keeps {
            self.fail(format!("client {client} cannot read at the present time: {:?}", seen.why));
        }
        // An index entry and its row are written together.
        if let Some(why) = seen.why.as_ref().filter(|why| why.contains("row that is not there")) {
            self.fail(format!("client {client}: {why}"));
        }
        let there = &mut self.clients[client];
        if let Some(why) = &seen.why {
            *self.failures.entry(why.clone()).or_default() += 1;
        }
        there.committed += usize::from(status == Status::Ok);
        let sums =
            if there.faulty { &mut self.faulty_transactions } else { &mut self.quiet_transactions };
        *sums = (sums.0 + u64::from(!seen.gave_way), sums.1 + u64::from(status == Status::Ok));
        let (start, mode, mark, node) = (there.start, there.mode, there.mark, there.node);
        self.log(|| {
            let node = self.members[node];
            format!(
                "client {client} at {node}: {status:?} {at:?} {mode:?} since {start}: {:?}",
                seen.ops
            )
        });
        let wrote = seen.ops.iter().any(|op| matches!(op, Op::Write(..) | Op::Append(..)));
        if let (Some((nanos, logical, issuer)), true) = (at, wrote) {
            self.watch_acknowledged(Timestamp { nanos, logical, issuer });
            // The other half of K2's Property 4.1.
            let utc = self.options.timebase != Timebase::Cluster && !self.options.deceives();
            if self.options.protocol.row.draws_at_start() && utc && nanos < start {
                self.fail(format!("client {client} began at {start}, and committed at {nanos}"));
            }
        }
        if let (Some((nanos, logical, issuer)), Mode::ReadWrite) = (at, mode) {
            self.recent.push_back(Timestamp { nanos, logical, issuer });
            if self.recent.len() > 20 {
                self.recent.pop_front();
            }
        }
        if self.options.profile.is_some() {
            let took = self.now() - start;
            let times = if mode == Mode::ReadWrite {
                &mut self.measured.writes_ns
            } else {
                &mut self.measured.reads_ns
            };
            times.extend((status == Status::Ok).then_some(took));
            if let Some(scenario) = self.options.scenario {
                return self.go_on(scenario, client, status, &seen);
            }
            // Closed loop: nothing is recorded, and the client begins again at once.
            return self.push(0, None, Event::Begin(client));
        }
        let asked = std::mem::take(&mut self.clients[client].asked);
        let consistency = asked.consistency;
        let causal = consistency > Consistency::None;
        let apart = !causal && mode == Mode::ReadOnly(ReadAt::Now);
        let token = if causal { asked.token } else { Timestamp::ZERO };
        // A snapshot that is never read has no timestamp.
        if let (Status::Ok, Some((nanos, logical, issuer)), false) =
            (status, at, seen.ops.is_empty())
        {
            self.check_token(token, Timestamp { nanos, logical, issuer }, mode, wrote);
        }
        // Nothing that the client had been told of is missing.
        self.past
            .extend(seen.narrow.filter(|_| !apart).map(|at| (at.max(token), seen.ops.clone())));
        match mode {
            _ if seen.ops.is_empty() => {}
            Mode::ReadOnly(ReadAt::Exact(at)) if status == Status::Ok => {
                self.past.push((at, seen.ops))
            }
            Mode::ReadOnly(ReadAt::AtLeast(least)) if status == Status::Ok => {
                let (nanos, logical, issuer) = at.unwrap_or_default();
                let at = Timestamp { nanos, logical, issuer };
                if at < least {
                    self.fail(format!(
                        "a snapshot at {at} is older than {least}, the least timestamp requested"
                    ));
                }
                self.past.push((at, seen.ops));
            }
            Mode::ReadOnly(ReadAt::Exact(_) | ReadAt::AtLeast(_)) => {}
            _ => {
                if status == Status::Ok {
                    self.clients[client].chain.learn(seen.token);
                }
                if status == Status::Ok && !apart {
                    self.clients[client].chain.add((client as u64, start), consistency);
                }
                let period = (start, self.now());
                let Asked { follows, external, snapshot_age, .. } = asked;
                let it = Transaction {
                    at,
                    follows,
                    external,
                    snapshot: seen.snapshot.map(client::stamp),
                    snapshot_age_ns: snapshot_age.longest().as_nanos() as u64,
                    ..Transaction::new(client as u64, period, status, seen.ops)
                };
                if apart {
                    self.reads_apart.push(it);
                } else {
                    self.history.push(it);
                    self.marks.push(mark);
                    self.modes_of.push(consistency);
                }
            }
        }
        let pace_ns = match self.is_reader(client) {
            // Long enough to come back to a leader that was abandoned meanwhile.
            false if self.rng.random_bool(0.03) => 3 * S,
            false => 20 * MS,
            true if self.rng.random_bool(0.2) => 3 * S,
            true => 100 * MS,
        };
        let after = self.rng.random_range(0..pace_ns);
        self.push(after, None, Event::Begin(client));
    }

    /// True if a client mostly reads. One client per node writes.
    pub(super) fn is_reader(&self, client: usize) -> bool {
        self.options.profile.is_none() && client >= self.nodes.len()
    }
}
