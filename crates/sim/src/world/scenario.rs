//! Scenarios: groups placed as a figure needs them, sessions that run one kind of transaction, and
//! the measurements.

use super::{Event, MS, S, World};
use crate::Report;
use crate::faults::Fault;
use crate::profile::{Commit, Costs};
use crate::scenario::{Incident, Scenario, Work};
use crate::sim_protocol::SimProtocol;
use crate::workload::{Plan, Scope, Step};
use crate::world::order::Asked;
use crate::world::processor::Price;
use meridian_clock::Timestamp;
use meridian_history::Status;
use meridian_mvcc::Key;
use meridian_txn::{Lock, Mode, ReadAt};
use rand::Rng;

/// The duration of the priming writes to every group, and of the silence after them.
const PRIMED: u64 = S / 2;
/// The time limit for transactions that began before the measurement.
const LAST: u64 = 20 * S;

/// Returns the first key of a group.
pub(super) fn start_of(group: u32) -> Key {
    if group == 0 { Key::default() } else { Key::from(format!("r{group:05}").into_bytes()) }
}

/// Returns the steps of a transaction that reads two keys and writes both.
fn follow(keys: [String; 2]) -> Vec<Step> {
    let reads = keys.clone().map(|key| Step::Read(key, Lock::Exclusive));
    reads.into_iter().chain(keys.map(|key| Step::Write(key, Some(1)))).collect()
}

impl<R: SimProtocol> World<R> {
    /// Sets up the scenario, runs it, and measures.
    pub fn stage(mut self, scenario: Scenario, costs: Costs) -> Report {
        self.raise_nodes();
        self.lease_ns = scenario.lease_ns;
        self.even(costs, scenario.clocks.most_ns);
        self.until(0, |_| false);
        self.exchange_identities();
        if scenario.steady {
            self.network.steady();
        }
        R::set(&mut self, scenario);
        self.primed_since = self.now();
        self.raise();
        self.until(PRIMED, |_| false);
        self.open = false;
        self.until(LAST, |world| world.clients.iter().all(|client| client.attempt.is_none()));
        self.until(PRIMED, |_| false);
        self.open = true;
        self.begin_count();
        if scenario.clocks.varies() {
            self.draw_error_bound();
        }
        let (all, clients) = (scenario.window_ns, self.clients.len() as u64);
        for (number, client) in self.clients.iter_mut().enumerate() {
            client.due = self.time.now()
                + scenario.every_ns.map_or(MS, |every| number as u64 * every / clients);
        }
        self.raise();
        let mut rest = all;
        match scenario.incident {
            Some(Incident::Kill { zone, told, at_ns }) => {
                rest -= at_ns.min(all);
                self.until(at_ns.min(all), |_| false);
                self.kill(scenario, zone, told);
            }
            Some(Incident::Masters { late, late_until_ns, away_at_ns, away_for_ns }) => {
                let weather = |straggle| Fault::Weather { loss: 0.0, repeat: 0.0, straggle };
                self.inject_fault(weather(1.0 / f64::from(late.max(1))));
                self.push(late_until_ns, None, Event::Fault(weather(0.0)));
                let two = Fault::Crash { nodes: vec![0, scenario.zones], for_ns: away_for_ns };
                self.push(away_at_ns, None, Event::Fault(two));
            }
            None => {}
        }
        self.until(rest, |_| false);
        self.end_count(all);
        self.report()
    }

    fn kill(&mut self, scenario: Scenario, zone: usize, told: bool) {
        for node in (0..scenario.servers).map(|server| server * scenario.zones + zone) {
            self.gone.insert(node);
            if told {
                self.inject_fault(Fault::End { node, for_ns: 0 });
            } else {
                self.crash(node, 0);
            }
        }
    }

    /// Draws the error bound that all clocks claim, and schedules the next draw.
    pub(super) fn draw_error_bound(&mut self) {
        let Some(Scenario { clocks, .. }) = self.options.scenario else { return };
        let half_width_ns = self.rng.random_range(clocks.least_ns..=clocks.most_ns);
        self.nodes.iter().for_each(|node| node.clock.claim(half_width_ns));
        self.measured.bounds_ns.push((self.now() - self.measured_since, half_width_ns));
        self.push(clocks.every_ns, None, Event::ErrorBound);
    }

    fn raise(&mut self) {
        for client in 0..self.clients.len() {
            self.push_at(self.clients[client].due, None, Event::Begin(client));
        }
    }

    /// Runs a session's next transaction, and charges its node for it.
    pub(super) fn play(&mut self, scenario: Scenario, client: usize) {
        let node = scenario.seat(client);
        if self.nodes[node].process.is_none() || scenario.groups == 0 {
            return;
        }
        self.pay(node, Price::Local);
        let number = self.begun as u32;
        self.begun += 1;
        let (work, first) = match self.measured_since {
            0 => (Work::Write(1), number % scenario.groups),
            _ => (scenario.work, self.rng.random_range(0..scenario.groups)),
        };
        let keys = self.keys;
        let mut name = |group: u32| format!("r{group:05}{:07}", self.rng.random_range(0..keys));
        let mut scope = Scope::Open;
        let before = Timestamp::end_of(self.primed_since);
        let (mode, steps) = match work {
            Work::Write(groups) => {
                let some =
                    (0..groups.min(scenario.groups)).map(|more| (first + more) % scenario.groups);
                (Mode::ReadWrite, some.map(|group| Step::Write(name(group), Some(1))).collect())
            }
            Work::Read => {
                (Mode::ReadOnly(ReadAt::Now), vec![Step::Read(name(first), Lock::Shared)])
            }
            Work::Snapshot => {
                (Mode::ReadOnly(ReadAt::Exact(before)), vec![Step::Read(name(first), Lock::Shared)])
            }
            Work::Rows { inserts, updates } => {
                // Rows are spread over the groups in turn, each beside the keys of priming.
                let row =
                    |number: u32| format!("r{:05}{:07}", number % scenario.groups, keys + number);
                let drawn = self.rng.random_range(0..100);
                if drawn < inserts || self.inserted == 0 {
                    self.inserted += 1;
                    (Mode::ReadWrite, vec![Step::Write(row(self.inserted - 1), Some(1))])
                } else {
                    let some = row(self.rng.random_range(0..self.inserted));
                    if drawn < inserts + updates {
                        (Mode::ReadWrite, vec![Step::Write(some, Some(2))])
                    } else {
                        scope = Scope::Said;
                        (Mode::ReadOnly(ReadAt::Now), vec![Step::Read(some, Lock::Shared)])
                    }
                }
            }
            Work::Follow(groups) => {
                let (one, mut other) = (name(first), name((first + groups - 1) % scenario.groups));
                while other == one {
                    other = name(first);
                }
                (Mode::ReadWrite, follow([one, other]))
            }
            Work::FollowByZipf => {
                let Some(zipf) = &self.zipf else { return };
                let (one, mut other) = (zipf.draw(&mut self.rng), zipf.draw(&mut self.rng));
                while other == one {
                    other = zipf.draw(&mut self.rng);
                }
                let name = |rank: u32| format!("r{:05}{rank:07}", rank % scenario.groups);
                (Mode::ReadWrite, follow([name(one), name(other)]))
            }
        };
        self.clients[client].asked = self.asked_in(scenario, client);
        self.start(
            client,
            node,
            Plan {
                mode,
                steps,
                mark: None,
                rows: 1,
                scope,
                alone: false,
                schema: None,
                dawdles_ns: None,
            },
        );
    }

    /// Returns the order that a session asks for: its mode, and its token in a database that uses
    /// tokens.
    fn asked_in(&self, scenario: Scenario, client: usize) -> Asked {
        if self.options.protocol.row.consistency.len() < 2 {
            return Asked::default();
        }
        let token = self.clients[client].chain.token();
        Asked { consistency: scenario.mode(client), token, ..Asked::default() }
    }

    /// Counts the outcome of a transaction, and schedules the session's next one.
    pub(super) fn go_on(
        &mut self,
        scenario: Scenario,
        client: usize,
        (status, token, waited_ns): (Status, Timestamp, u64),
    ) {
        let (now, there) = (self.now(), &self.clients[client]);
        if status == Status::Ok {
            self.measured.commits.push(Commit {
                consistency: there.asked.consistency,
                writes: there.mode == Mode::ReadWrite,
                ended_ns: now - self.measured_since,
                took_ns: now - there.start,
                waited_ns,
            });
        } else {
            self.measured.failed += 1;
        }
        let there = &mut self.clients[client];
        if status == Status::Ok {
            there.chain.learn(token);
        }
        there.due += scenario.every_ns.filter(|_| self.measured_since > 0).unwrap_or(0);
        let due = there.due;
        self.push_at(due, None, Event::Begin(client));
    }
}
