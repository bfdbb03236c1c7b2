//! Scenarios: groups placed as a figure needs them, sessions that run one kind of transaction, and
//! the measurements.

use super::{Event, MS, S, World};
use crate::Report;
use crate::client::Seen;
use crate::faults::Fault;
use crate::profile::{Commit, Costs};
use crate::scenario::{FEED, ITEMS, Incident, RUN, Scenario, Work};
use crate::sim_protocol::SimProtocol;
use crate::workload::{Plan, Scope, Step};
use crate::world::order::Asked;
use crate::world::processor::Price;
use meridian_clock::Timestamp;
use meridian_history::Status;
use meridian_mvcc::Key;
use meridian_txn::{Lock, Mode, ReadAt};
use rand::Rng;
use std::collections::BTreeSet;

/// The duration of the priming writes to every group, and of the silence after them.
const PRIMED: u64 = S / 2;
/// The time limit for transactions that began before the measurement.
const LAST: u64 = 20 * S;

/// The number of runs of a group: two million keys.
const RUNS: u32 = 250_000;

/// Returns the first key of a group.
pub(super) fn start_of(group: u32) -> Key {
    if group == 0 { Key::default() } else { Key::from(format!("r{group:05}").into_bytes()) }
}

/// Returns the steps of a transaction that reads two keys and writes both.
fn follow(keys: [String; 2]) -> Vec<Step> {
    let reads = keys.clone().map(|key| Step::Read(key, Lock::Exclusive));
    reads.into_iter().chain(keys.map(|key| Step::Write(key, Some(1)))).collect()
}

/// Returns the name of a key of a group.
fn name_of(group: u32, key: u32) -> String {
    format!("r{group:05}{key:08}")
}

/// Returns the step that reads a run of adjacent keys in one request.
fn read_run(group: u32, first: u32, keys: u32) -> Step {
    Step::Scan(name_of(group, first), name_of(group, first + keys), false)
}

/// Returns the steps that write a run of adjacent keys.
fn write_run(group: u32, first: u32, keys: u32) -> impl Iterator<Item = Step> {
    (first..first + keys).map(move |key| Step::Write(name_of(group, key), Some(1)))
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
            _ => (scenario.work, self.rng.random_range(scenario.first_group()..scenario.groups)),
        };
        let keys = self.keys;
        let mut name = |group: u32| name_of(group, self.rng.random_range(0..keys));
        let (mut scope, mut rows) = (Scope::Open, 1);
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
                let name = |rank: u32| name_of(rank % scenario.groups, rank);
                (Mode::ReadWrite, follow([name(one), name(other)]))
            }
            Work::YcsbT(_) => {
                let Some(zipf) = &self.zipf else { return };
                let all = scenario.groups - scenario.first_group();
                let steps = (0..3).map(|_| {
                    let rank = zipf.draw(&mut self.rng);
                    let name = name_of(scenario.first_group() + rank % all, rank);
                    match self.rng.random_bool(0.5) {
                        true => Step::Write(name, Some(1)),
                        false => Step::Read(name, Lock::Shared),
                    }
                });
                let steps: Vec<Step> = steps.collect();
                let writes = steps.iter().any(|step| matches!(step, Step::Write(..)));
                let mode = if writes { Mode::ReadWrite } else { Mode::ReadOnly(ReadAt::Now) };
                (mode, steps)
            }
            Work::Begin => (Mode::ReadOnly(ReadAt::Now), Vec::new()),
            Work::ReadRuns(groups) => {
                rows = RUN as usize;
                let (least, all) =
                    (scenario.first_group(), scenario.groups - scenario.first_group());
                let near = scenario.clients_in.map_or(first - least, |zone| zone as u32);
                let group = |more: u32| least + (near + more) % all;
                let steps =
                    (0..groups.min(all)).map(|more| read_run(group(more), self.run_of(RUN), RUN));
                (Mode::ReadOnly(ReadAt::Now), steps.collect())
            }
            Work::UpdateRun => {
                rows = RUN as usize;
                let run = self.run_of(RUN);
                let steps =
                    [read_run(first, run, RUN)].into_iter().chain(write_run(first, run, RUN));
                (Mode::ReadWrite, steps.collect())
            }
            Work::Feed => {
                rows = FEED.tweets as usize;
                self.tweet(scenario)
            }
            Work::HotSpots(percent) => {
                rows = ITEMS as usize;
                let updating = self.clients.len().div_ceil(2) as u32;
                let hot = |session: u32| session * ITEMS;
                if client.is_multiple_of(2) {
                    let own = hot(client as u32 / 2);
                    let steps =
                        [read_run(0, own, ITEMS)].into_iter().chain(write_run(0, own, ITEMS));
                    (Mode::ReadWrite, steps.collect())
                } else {
                    let is_hot = self.rng.random_range(0..100) < percent;
                    let some = hot(self.rng.random_range(0..updating));
                    let beyond = if is_hot { 0 } else { hot(updating) };
                    (Mode::ReadOnly(ReadAt::Now), vec![read_run(0, beyond + some, ITEMS)])
                }
            }
            Work::Items(items) => {
                let mut drawn: Vec<u32> = Vec::with_capacity(2 * ITEMS as usize);
                while drawn.len() < 2 * ITEMS as usize {
                    let item = self.rng.random_range(0..items);
                    if !drawn.contains(&item) {
                        drawn.push(item);
                    }
                }
                let (reads, writes) = drawn.split_at(ITEMS as usize);
                let reads = reads.iter().map(|item| Step::Read(name_of(0, *item), Lock::Shared));
                let writes = writes.iter().map(|item| Step::Write(name_of(0, *item), Some(1)));
                (Mode::ReadWrite, reads.chain(writes).collect())
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
                rows,
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
        let row = self.options.protocol.row;
        if !row.has_tokens() {
            let pipelined = row.draws_at_start() && !scenario.buffered;
            return Asked { pipelined, ..Asked::default() };
        }
        let token = self.clients[client].chain.token();
        let (consistency, snapshot_age) = (scenario.mode(client), scenario.age);
        Asked { consistency, token, snapshot_age, ..Asked::default() }
    }

    /// Draws the first key of a run.
    fn run_of(&mut self, keys: u32) -> u32 {
        self.rng.random_range(0..RUNS) * keys
    }

    /// Returns a transaction of a social network: reads the newest tweets of a user's feed, or adds
    /// to the number of a user's tweets and posts one to the feeds of the followers.
    fn tweet(&mut self, scenario: Scenario) -> (Mode, Vec<Step>) {
        let all = scenario.groups - scenario.first_group();
        let group = |user: u32| scenario.first_group() + user % all;
        // The key of a user's friends, that of the number of tweets, and the feed.
        let first = |user: u32| user / all * (FEED.tweets + 2);
        let user = self.rng.random_range(0..FEED.users);
        if self.rng.random_range(0..10) > 0 {
            let newest = read_run(group(user), first(user) + 2, FEED.tweets);
            return (Mode::ReadOnly(ReadAt::Now), vec![newest]);
        }
        let number = name_of(group(user), first(user) + 1);
        let mut steps = vec![
            Step::Read(name_of(group(user), first(user)), Lock::Shared),
            Step::Read(number.clone(), Lock::Exclusive),
            Step::Write(number, Some(1)),
        ];
        let mut feeds = BTreeSet::new();
        while feeds.len() < FEED.followers as usize {
            let nth = feeds.len() as u32 % FEED.groups.min(all);
            let some = self.rng.random_range(0..FEED.users / all) * all;
            let follower = some + (user + nth) % all;
            let newest = self.rng.random_range(0..FEED.tweets);
            feeds.insert(name_of(group(follower), first(follower) + 2 + newest));
        }
        steps.extend(feeds.into_iter().map(|feed| Step::Write(feed, Some(1))));
        (Mode::ReadWrite, steps)
    }

    /// Counts the outcome of a transaction, and schedules the session's next one.
    pub(super) fn go_on(&mut self, scenario: Scenario, client: usize, status: Status, seen: &Seen) {
        let (now, there) = (self.now(), &self.clients[client]);
        if status == Status::Ok {
            self.measured.commits.push(Commit {
                consistency: there.asked.consistency,
                writes: there.mode == Mode::ReadWrite,
                ended_ns: now - self.measured_since,
                took_ns: now - there.start,
                timestamp_ns: seen.timestamp_ns,
                commit_ns: seen.commit_ns,
                waited_ns: seen.waited_ns,
            });
        } else {
            self.measured.failed += 1;
        }
        let there = &mut self.clients[client];
        if status == Status::Ok {
            there.chain.learn(seen.token);
        }
        there.due += scenario.every_ns.filter(|_| self.measured_since > 0).unwrap_or(0);
        let due = there.due;
        self.push_at(due, None, Event::Begin(client));
    }
}
