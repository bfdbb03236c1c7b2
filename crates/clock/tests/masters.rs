//! Time masters and daemons in small simulations: references that are wrong, stop, jump and vanish;
//! late or lost messages; boot clocks that break the drift bound.

use meridian_clock::daemon::{ClockSource, Daemon, TimeResponse};
use meridian_clock::question::{POLL_EVERY_NS, Poll};
use meridian_clock::rules;
use meridian_clock::{Bound, ClockStatus, Drift, Interval};
use meridian_machine::NodeId;
use meridian_machine::planted::plant;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

enum Event {
    Tick,
    Asked { from: usize, poll: Poll },
    TimeResponse { from: usize, told: TimeResponse },
    Read,
}

/// The error of a reference.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    None,
    /// It is off by this many nanoseconds, while its stated error is unchanged.
    Off(i64),
    /// It moves away at this rate, in billionths.
    Away(i64),
    /// It always shows this.
    Frozen(u64),
    /// It smears a leap second differently: by up to half a second, for a while.
    Smeared,
}

struct Node {
    daemon: Daemon,
    booted: u64,
    /// The rate error of the boot clock in billionths, since when it applies, and the lead that the
    /// clock had then.
    ppb: i64,
    since: u64,
    ahead: i64,
    /// The error of its reference; none for a node that is no master.
    exact_ns: Option<u64>,
    lie: (Lie, u64),
    gone_until: u64,
    still_until: u64,
}

impl Node {
    fn boot_ns(&self, now: u64) -> u64 {
        let fast = i128::from(now - self.since) * i128::from(self.ppb) / 1_000_000_000;
        (now - self.booted).saturating_add_signed(self.ahead + fast as i64)
    }

    /// Changes the rate of the boot clock from now on.
    fn runs(&mut self, now: u64, ppb: i64) {
        self.ahead = self.boot_ns(now) as i64 - (now - self.booted) as i64;
        (self.since, self.ppb) = (now, ppb);
    }

    fn reference(&self, now: u64, rng: &mut ChaCha8Rng) -> Option<Interval> {
        let exact_ns = self.exact_ns?;
        let told = match self.lie {
            (Lie::None, _) => now,
            (Lie::Off(by), _) => now.saturating_add_signed(by),
            (Lie::Away(ppb), since) => now.saturating_add_signed(
                (i128::from(now - since) * i128::from(ppb) / 1_000_000_000) as i64,
            ),
            (Lie::Frozen(at), _) => at,
            // A day's smear within a minute: up to half a second away, and back.
            (Lie::Smeared, since) => {
                let phase = (now - since) % (60 * S);
                now + phase.min(60 * S - phase) / 60
            }
        };
        let off = rng.random_range(0..=exact_ns);
        Some(Interval { earliest: told - off, latest: told + (exact_ns - off) })
    }
}

struct World {
    now: u64,
    rng: ChaCha8Rng,
    nodes: Vec<Node>,
    masters: usize,
    queue: BTreeMap<(u64, u64), (usize, Event)>,
    pushed: u64,
    delay_ns: u64,
    loss: f64,
    /// The number of good readings and of all readings since the last reset, and the widest good
    /// one.
    read: (u32, u32),
    widest: u64,
    /// The node that may be wrong, because its boot clock breaks the drift bound.
    broken: Option<usize>,
    /// Since when that node has had a usable, wrong reading.
    wrong_since: Option<u64>,
    longest_wrong: u64,
}

impl World {
    /// Creates a simulation in which the first `masters` nodes have references; the last of them
    /// has an oscillator if `atomic`.
    fn new(seed: u64, masters: usize, others: usize, atomic: bool) -> World {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let now = 1_700_000_000 * S;
        let node = |me: usize, rng: &mut ChaCha8Rng| {
            let asks: Vec<NodeId> = (0..masters)
                .filter(|master| *master != me)
                .map(|master| NodeId(master as u32))
                .collect();
            let oscillates = atomic && me + 1 == masters;
            let daemon = match oscillates {
                true => Daemon::with_oscillator(asks, Drift::ppm(1)),
                false => Daemon::new(asks, me < masters),
            };
            Node {
                daemon,
                booted: now - rng.random_range(1..100_000 * S),
                // The oscillator keeps its drift.
                ppb: if oscillates {
                    rng.random_range(-900..=900)
                } else {
                    rng.random_range(-190_000..=190_000)
                },
                since: now,
                ahead: 0,
                exact_ns: (me < masters && !oscillates)
                    .then(|| [1_000, 100_000, 3 * MS][rng.random_range(0..3)]),
                lie: (Lie::None, now),
                gone_until: 0,
                still_until: 0,
            }
        };
        let nodes: Vec<Node> = (0..masters + others).map(|me| node(me, &mut rng)).collect();
        let delay_ns = [50_000, MS, 50 * MS][rng.random_range(0..3)];
        let loss = [0.0, 0.1, 0.4][rng.random_range(0..3)];
        let mut world = World {
            now,
            rng,
            nodes,
            masters,
            queue: BTreeMap::new(),
            pushed: 0,
            delay_ns,
            loss,
            read: (0, 0),
            widest: 0,
            broken: None,
            wrong_since: None,
            longest_wrong: 0,
        };
        for node in 0..masters + others {
            let after = world.rng.random_range(0..S);
            world.push(after, node, Event::Tick);
            world.push(after, node, Event::Read);
        }
        world
    }

    fn push(&mut self, after: u64, node: usize, event: Event) {
        self.pushed += 1;
        self.queue.insert((self.now + after, self.pushed), (node, event));
    }

    fn send(&mut self, from: usize, to: usize, event: Event) {
        if self.nodes[from].gone_until <= self.now && !self.rng.random_bool(self.loss) {
            let late = if self.rng.random_bool(0.05) { 20 } else { 1 };
            let delay = self.rng.random_range(self.delay_ns / 2..self.delay_ns * late);
            self.push(delay, to, event);
        }
    }

    fn happen(&mut self, me: usize, event: Event) -> Result<(), String> {
        let now = self.now;
        if self.nodes[me].still_until > now {
            let after = self.nodes[me].still_until - now + self.rng.random_range(0..MS);
            self.push(after, me, event);
            return Ok(());
        }
        let boot_ns = self.nodes[me].boot_ns(now);
        match event {
            Event::Tick => {
                if let Some(interval) = self.nodes[me].reference(now, &mut self.rng) {
                    self.nodes[me].daemon.refer(boot_ns, 0, Bound { at: boot_ns, interval });
                }
                let polls = self.nodes[me].daemon.poll(boot_ns);
                polls.into_iter().for_each(|(to, poll)| {
                    self.send(me, to.0 as usize, Event::Asked { from: me, poll })
                });
                self.push(POLL_EVERY_NS, me, Event::Tick);
            }
            Event::Asked { from, poll } => {
                let told = self.nodes[me].daemon.answer_poll(boot_ns, poll);
                self.send(me, from, Event::TimeResponse { from: me, told });
            }
            Event::TimeResponse { from, told } => {
                self.nodes[me].daemon.receive(boot_ns, NodeId(from as u32), told)
            }
            Event::Read => {
                let reading = self.nodes[me].daemon.reading(boot_ns);
                self.read.1 += 1;
                let mut wrong = false;
                if let Some((interval, clock_status)) =
                    reading.filter(|(_, clock_status)| clock_status.is_usable())
                {
                    self.read.0 += u32::from(clock_status <= ClockStatus::Wide);
                    self.widest = self.widest.max(interval.half_width_ns());
                    wrong = now < interval.earliest || interval.latest < now;
                    if wrong && self.broken != Some(me) {
                        let late = now as i64 - interval.earliest as i64;
                        return Err(format!(
                            "{me} reads {interval}, {clock_status}; the time is {late} ns after its beginning"
                        ));
                    }
                }
                if self.broken == Some(me) {
                    let since = wrong.then(|| *self.wrong_since.get_or_insert(now));
                    self.wrong_since = since;
                    self.longest_wrong =
                        self.longest_wrong.max(since.map_or(0, |since| now - since));
                }
                let after = self.rng.random_range(1..40 * MS);
                self.push(after, me, Event::Read);
            }
        }
        Ok(())
    }

    fn until(&mut self, end: u64) -> Result<(), String> {
        while let Some(((at, number), (node, event))) = self.queue.pop_first() {
            if at > end {
                self.queue.insert((at, number), (node, event));
                break;
            }
            self.now = at;
            self.happen(node, event)?;
        }
        self.now = end;
        Ok(())
    }

    fn lie(&mut self) -> Lie {
        match self.rng.random_range(0..4) {
            3 => Lie::Smeared,
            0 => Lie::Off(
                [-1, 1][self.rng.random_range(0..2)]
                    * [MS, 100 * MS, 3_600 * S][self.rng.random_range(0..3)] as i64,
            ),
            1 => Lie::Away(
                [-1, 1][self.rng.random_range(0..2)]
                    * [500_000, 50_000_000][self.rng.random_range(0..2)],
            ),
            _ => Lie::Frozen(self.now),
        }
    }

    /// Makes as many masters wrong as may be, always the same ones, in many ways; masters fail and
    /// return. Then nothing is wrong any more.
    fn run(&mut self) -> Result<(), String> {
        let liars = (self.masters - 1) / 2;
        let began = self.now;
        self.until(began + 3 * S)?;
        while self.now < began + 90 * S {
            let next = self.now + self.rng.random_range(S / 10..8 * S);
            self.until(next)?;
            if liars > 0 && self.rng.random_bool(0.6) {
                let (who, lie) = (self.rng.random_range(0..liars), self.lie());
                self.nodes[who].lie = (lie, self.now);
            }
            if self.rng.random_bool(0.3) {
                let (who, for_ns) =
                    (self.rng.random_range(0..self.masters), self.rng.random_range(0..20 * S));
                self.nodes[who].gone_until = self.now + for_ns;
            }
            if self.rng.random_bool(0.3) {
                // The rate stays within the bound: no node may notice it.
                let who = self.rng.random_range(0..self.nodes.len());
                if self.nodes[who].exact_ns.is_some() || who >= self.masters {
                    let ppb = self.rng.random_range(-190_000..=190_000);
                    self.nodes[who].runs(self.now, ppb);
                }
            }
        }
        self.nodes
            .iter_mut()
            .for_each(|node| (node.lie, node.gone_until) = ((Lie::None, began), 0));
        self.loss = 0.0;
        self.until(self.now + 60 * S)?;
        (self.read, self.widest) = ((0, 0), 0);
        self.until(self.now + 10 * S)
    }
}

fn world(seed: u64) -> World {
    let (masters, others) = [(3, 2), (4, 1), (5, 2), (1, 2), (3, 0)][seed as usize % 5];
    World::new(seed, masters, others, masters > 2 && seed.is_multiple_of(2))
}

#[test]
fn every_reading_holds_the_time_if_no_more_masters_lie_than_may() {
    for seed in 0..150 {
        let mut world = world(seed);
        world.run().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let (good, all) = world.read;
        assert!(good == all && all > 100, "seed {seed}: {good} of {all} readings are good");
        // A round trip and a reference's error, plus the drift meanwhile.
        let wide = 20 * world.delay_ns + 3 * MS + 600_000;
        assert!(world.widest < wide, "seed {seed}: {} ns", world.widest);
    }
}

#[test]
fn each_rule_that_is_broken_shows() {
    for rule in rules::OF_MASTERS {
        plant(Some(rule), true);
        let noticed = |seed: &u64| match rule {
            rules::OWN_RATE_UNCHECKED => run_fast(*seed).longest_wrong > 10 * S,
            _ => world(*seed).run().is_err(),
        };
        let first = (0..200).find(noticed);
        plant(None, false);
        println!("{rule:?}: first noticed by seed {first:?}");
        assert!(first.is_some(), "{rule:?} was not noticed by 200 seeds");
    }
}

/// Makes a node's boot clock break the drift bound by some factor for half a minute, in which no
/// other node can correct it.
fn run_fast(seed: u64) -> World {
    let mut world = World::new(seed, 3, 2, false);
    world.until(world.now + 5 * S).expect("no reading is wrong yet");
    let who = world.rng.random_range(0..world.nodes.len());
    world.broken = Some(who);
    let ppb = [-1, 1][world.rng.random_range(0..2)] * world.rng.random_range(400_000..50_000_000);
    world.nodes[who].runs(world.now, ppb);
    for _ in 0..4 {
        let next = world.now + world.rng.random_range(S..10 * S);
        world.until(next).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    world
}

#[test]
fn a_node_whose_clock_breaks_the_bound_is_soon_fenced() {
    let slow: Vec<u64> = (0..300).filter(|seed| run_fast(*seed).longest_wrong > 10 * S).collect();
    println!("wrong for more than 10 s: {slow:?} of 300");
    assert!(slow.len() <= 3, "{slow:?}");
}

/// A machine was suspended or moved, and its boot clock does not count that time.
#[test]
fn a_stopped_node_notices_and_recovers_the_time() {
    for seed in 0..60 {
        let mut world = World::new(seed, 3, 2, false);
        world.until(world.now + 5 * S).unwrap();
        let who = world.rng.random_range(0..world.nodes.len());
        world.broken = Some(who);
        let for_ns = world.rng.random_range(MS..4 * S);
        world.nodes[who].ahead -= for_ns as i64;
        world.nodes[who].still_until = world.now + for_ns;
        world.until(world.now + 30 * S).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert!(world.longest_wrong < 10 * S, "seed {seed}: {} ns", world.longest_wrong);
        world.broken = None;
        (world.loss, world.read) = (0.0, (0, 0));
        world.until(world.now + 10 * S).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert!(world.read.0 > 100, "seed {seed}: {:?}", world.read);
    }
}

#[test]
fn a_lying_master_is_named_and_stops_serving_time() {
    let mut world = World::new(1, 3, 1, false);
    (world.delay_ns, world.loss) = (50_000, 0.0);
    world.until(world.now + 5 * S).unwrap();
    world.nodes[0].lie = (Lie::Off(S as i64), world.now);
    world.until(world.now + 3 * S).unwrap();
    let clock_status = |world: &World, node: usize| {
        let there = &world.nodes[node];
        there.daemon.reading(there.boot_ns(world.now)).unwrap().1
    };
    let liar = &world.nodes[0];
    assert!(liar.daemon.answer_poll(liar.boot_ns(world.now), Poll { sent: 1 }).interval.is_none());
    assert!(
        clock_status(&world, 0).is_usable(),
        "the master knows the time from the other masters"
    );
    assert_eq!(clock_status(&world, 3), ClockStatus::Good, "a silent master disturbs no node");
    // The reference is wrong at one other node only, as a network in between could make it.
    let boot_ns = world.nodes[3].boot_ns(world.now);
    let (_, poll) = world.nodes[3].daemon.poll(boot_ns)[0];
    let interval = Some(Interval::around(world.now + S, MS));
    world.nodes[3].daemon.receive(boot_ns, NodeId(0), TimeResponse { sent: poll.sent, interval });
    assert_eq!(
        (clock_status(&world, 3), world.nodes[3].daemon.demoted()),
        (ClockStatus::Disrupted, &[ClockSource::Master(NodeId(0))][..])
    );
}

#[test]
fn without_answers_a_clock_runs_free_and_widens_and_garbage_is_ignored() {
    let mut daemon = Daemon::new(vec![NodeId(1)], false);
    let (_, poll) = daemon.poll(10 * S)[0];
    let told = |sent, earliest, latest| TimeResponse {
        sent,
        interval: Some(Interval { earliest, latest }),
    };
    daemon.receive(10 * S, NodeId(1), told(7, 5, 6));
    daemon.receive(10 * S, NodeId(2), told(poll.sent, 5, 6));
    assert_eq!(daemon.reading(10 * S), None, "no poll was sent for these answers");
    daemon.receive(10 * S, NodeId(1), told(poll.sent, 6, 5));
    assert_eq!(daemon.reading(10 * S), None, "the interval ends before it begins");
    let (_, poll) = daemon.poll(11 * S)[0];
    daemon.receive(11 * S, NodeId(1), told(poll.sent, 50 * S, 50 * S + 1));
    assert_eq!(daemon.reading(11 * S).unwrap().1, ClockStatus::Good);
    assert_eq!(daemon.reading(20 * S).unwrap().1, ClockStatus::FreeRunning);
    let (bound, until) = daemon.known(20 * S).unwrap();
    assert_eq!(daemon.reading(until - S).unwrap().1, ClockStatus::FreeRunning);
    assert_eq!(daemon.reading(until + 30 * S).unwrap().1, ClockStatus::Fenced);
    assert!(bound.on(until, Drift::WORST).half_width_ns() <= 10 * S);
    // Two masters contradict each other, and neither is known to be right.
    let mut daemon = Daemon::new(vec![NodeId(1), NodeId(2)], false);
    let (_, poll) = daemon.poll(10 * S)[0];
    daemon.receive(10 * S, NodeId(1), told(poll.sent, 50 * S, 51 * S));
    daemon.receive(10 * S, NodeId(2), told(poll.sent, 90 * S, 91 * S));
    assert_eq!(daemon.reading(10 * S).unwrap().1, ClockStatus::Fenced);
}

/// A node's own sources share a machine, and count as one clock source; a minority of them may be
/// wrong.
#[test]
fn a_source_that_contradicts_the_others_is_named_and_two_that_do_so_tell_nothing() {
    let bound = |nanos: u64| Bound { at: 10 * S, interval: Interval::around(nanos, MS) };
    let mut daemon = Daemon::new(Vec::new(), true);
    for (number, nanos) in [(0, 50 * S), (1, 90 * S), (2, 50 * S)] {
        daemon.refer(10 * S, number, bound(nanos));
    }
    let (interval, clock_status) = daemon.reading(10 * S).unwrap();
    assert_eq!(
        (clock_status, daemon.demoted()),
        (ClockStatus::Disrupted, &[ClockSource::Source(1)][..])
    );
    assert!(interval.earliest <= 50 * S && 50 * S <= interval.latest);
    // Of two sources neither is known to be wrong, unless masters decide.
    for masters in [0, 2] {
        let mut daemon = Daemon::new((1..=masters).map(NodeId).collect(), true);
        if let Some((_, poll)) = daemon.poll(10 * S).first() {
            for master in 1..=masters {
                let interval = Some(Interval::around(50 * S, MS));
                daemon.receive(10 * S, NodeId(master), TimeResponse { sent: poll.sent, interval });
            }
        }
        daemon.refer(10 * S, 0, bound(50 * S));
        daemon.refer(10 * S, 1, bound(90 * S));
        let clock_status = daemon.reading(10 * S).unwrap().1;
        let expected = if masters == 0 { ClockStatus::Fenced } else { ClockStatus::Disrupted };
        assert_eq!(clock_status, expected, "{masters} masters: {:?}", daemon.demoted());
        assert!(masters == 0 || daemon.demoted().contains(&ClockSource::Source(1)));
    }
}
