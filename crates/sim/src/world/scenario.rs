//! Scenarios: groups placed as a figure needs them, sessions that run one kind of transaction, and
//! the measurements.

use super::{Event, MS, S, World};
use crate::Report;
use crate::faults::Fault;
use crate::profile::Costs;
use crate::scenario::{Incident, Scenario, Work};
use crate::sim_protocol::SimProtocol;
use crate::spanner::Spanner;
use crate::workload::{Plan, Scope, Step};
use crate::world::processor::Price;
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange};
use meridian_txn::{Lock, Mode, ReadAt};
use rand::Rng;
use std::collections::BTreeSet;

/// The time within which every group elects a leader.
const ELECTED: u64 = S;
/// The head start of the intended leaders: less than a message delay, so that the other members
/// exist when they receive the request for votes.
const FIRST: u64 = 400_000;
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
        self.even(costs, scenario.half_width_ns);
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
        self.start(
            client,
            node,
            Plan {
                mode,
                steps,
                mark: None,
                rows: 1,
                scope: Scope::Open,
                alone: false,
                schema: None,
                dawdles_ns: None,
            },
        );
    }

    /// Counts the outcome of a transaction, and schedules the session's next one.
    pub(super) fn go_on(&mut self, scenario: Scenario, client: usize, committed: bool) {
        let now = self.now();
        if committed {
            self.measured.ended_ns.push(now - self.measured_since);
        } else {
            self.measured.failed += 1;
        }
        let there = &mut self.clients[client];
        there.due += scenario.every_ns.filter(|_| self.measured_since > 0).unwrap_or(0);
        let due = there.due;
        self.push_at(due, None, Event::Begin(client));
    }
}

impl World<Spanner> {
    /// Sets up a scenario for groups with leaders.
    pub(super) fn set(&mut self, scenario: Scenario) {
        self.populate(scenario);
        self.until(ELECTED.max(8 * self.options.regions.farthest_ns()), |_| false);
        self.introduce(scenario);
    }

    /// Creates every group's members, the intended leader first.
    fn populate(&mut self, scenario: Scenario) {
        for leads in [true, false] {
            for group in 0..scenario.groups {
                let (members, shard) = (scenario.members(group), ShardId(group));
                let voters: Vec<_> = members.iter().map(|node| self.members[*node]).collect();
                let end = (group + 1 < scenario.groups).then(|| start_of(group + 1));
                let bounds = KeyRange { start: start_of(group), end };
                for node in if leads { &members[..1] } else { &members[1..] } {
                    let Some(process) = &mut self.nodes[*node].process else { continue };
                    match process.place(shard, bounds.clone(), &voters, leads) {
                        Ok(()) => self.perform(*node, shard),
                        Err(why) => self.node_failure(*node, "begin a member", why),
                    }
                }
            }
            if leads {
                self.until(FIRST, |_| false);
            }
        }
        for process in self.nodes.iter().filter_map(|node| node.process.as_ref()) {
            (0..scenario.groups).for_each(|group| {
                let start = start_of(group);
                process.router.map().learn_route(&start, start.clone(), ShardId(group));
            });
        }
    }

    /// Tells every node's sessions the current leaders.
    fn introduce(&mut self, scenario: Scenario) {
        let mut well_led = BTreeSet::new();
        for group in 0..scenario.groups {
            let shard = ShardId(group);
            let leads = |node: &usize| {
                let process = self.nodes[*node].process.as_ref();
                process
                    .and_then(|process| process.members.get(&shard))
                    .is_some_and(|member| member.replica.is_serving())
            };
            let members = scenario.members(group);
            let Some(leader) = members.iter().copied().find(leads) else { continue };
            well_led.extend((leader == members[0]).then_some(group));
            let leader = self.members[leader];
            self.nodes
                .iter()
                .filter_map(|node| node.process.as_ref())
                .for_each(|process| process.router.map().set_leader(shard, leader));
        }
        self.well_led = well_led.len() as u32;
    }
}
