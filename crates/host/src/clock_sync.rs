//! Clock synchronisation: a thread polls this node's time sources and other nodes in rounds.
//!
//! Responses arrive on the threads of the connections and are matched with the clock there, so that
//! a bound is as wide as the network and both threads took. On cluster time all members are polled,
//! and the clock readings that peers may see are reserved in the folder first (`clock`, an anchor;
//! see [`meridian_clock::cluster`]). On UTC the time masters are polled
//! ([`meridian_clock::daemon`]).

use crate::clock::{Clock, boot_ns, system_ns};
use crate::durable_file;
use crate::panics::PanicGuard;
use crate::peers::Peers;
use crate::sources::{Reference, Source};
use meridian_clock::cluster::{Anchor, ClusterClock, Shown};
use meridian_clock::daemon::{ClockSource, Daemon, TimeResponse};
use meridian_clock::question::{POLL_EVERY_NS, Poll};
use meridian_clock::{Bound, ClockStatus, Drift, Interval};
use meridian_machine::NodeId;
use meridian_systems::envelope::{self, Kind};
use minicbor::{Decode, Encode};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const MAGIC: &[u8; 16] = b"meridian clock\n\0";
/// Rounds between two reports of this node's clock to the other nodes.
const VIEW_EVERY_ROUNDS: u64 = 5;
/// Time after which another node's report is not shown any more.
const VIEW_LASTS_NS: u64 = 3_000_000_000;

/// Rounds between two requests to a time source that failed.
const PATIENCE_ROUNDS: u64 = 25;

const OWN_CLOCK: &str = "this machine's clock contradicts the other nodes' clocks";

/// A message between nodes about time.
#[derive(Encode, Decode)]
enum TimeMessage {
    #[n(0)]
    Poll(#[n(0)] Poll),
    #[n(1)]
    Shown(#[n(0)] Shown),
    #[n(2)]
    TimeResponse(#[n(0)] TimeResponse),
    #[n(3)]
    ClockReport(#[n(0)] ClockReport),
}

/// A node's report of its own clock, for operators.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct ClockReport {
    #[n(0)]
    clock_status: u8,
    #[n(1)]
    interval: Option<Interval>,
    #[n(2)]
    source: String,
}

impl ClockReport {
    /// Decodes the report. Returns `None` if its standing is of an unknown version, and drops an
    /// interval that ends before it begins.
    fn told(&self) -> Option<(ClockStatus, Option<Interval>, String)> {
        let interval = self.interval.filter(|interval| interval.earliest <= interval.latest);
        Some((ClockStatus::of_number(self.clock_status)?, interval, self.source.clone()))
    }
}

/// The sources of UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Utc {
    /// This node's own sources.
    pub sources: Vec<Reference>,
    /// The time masters, perhaps with this node among them.
    pub masters: Vec<NodeId>,
    /// If set, this node is a master by its own oscillator, whose drift this bounds.
    pub oscillator: Option<Drift>,
}

impl Utc {
    /// Returns the sources in words.
    fn name(&self, me: NodeId) -> String {
        let mut names: Vec<String> = self.sources.iter().map(Reference::to_string).collect();
        if self.oscillator.is_some() {
            names.push("this machine's oscillator".into());
        }
        if self.masters.iter().any(|master| *master != me) {
            names.push("time masters".into());
        }
        names.join(" and ")
    }
}

/// A node's clock, as far as this node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTime {
    /// The node.
    pub node: NodeId,
    /// Offset of its clock from this node's clock in nanoseconds, if known.
    pub ahead_ns: Option<i64>,
    /// The round trip of the poll that measured it.
    pub round_trip_ns: Option<u64>,
    /// Its last report, if recent: the state of its clock, the interval, and the source.
    pub view: Option<(ClockStatus, Option<Interval>, String)>,
    /// True if its clock contradicts the other clocks and is ignored.
    pub demoted: bool,
}

/// A node's clock synchronisation.
pub struct ClockSync {
    state: Mutex<State>,
    stopped: Condvar,
    clock: Arc<Clock>,
    peers: Arc<OnceLock<Arc<Peers>>>,
    others: Vec<NodeId>,
    sources: Vec<Reference>,
    name: String,
    boot: u64,
    /// The folder of the anchor; `None` for an in-memory node, whose next incarnation is a new node
    /// anyway.
    folder: Option<PathBuf>,
}

enum Keeper {
    Cluster(ClusterClock),
    Utc(Daemon),
    /// All nodes are on one machine and read its clock: none is polled.
    Shared(Arc<Clock>),
}

struct State {
    keeper: Keeper,
    clock_status: ClockStatus,
    demoted: Vec<ClockSource>,
    /// The error of each source that gives no time.
    silent: Vec<Option<String>>,
    views: BTreeMap<NodeId, (u64, ClockReport)>,
    stopped: bool,
    complained: bool,
}

impl Keeper {
    fn poll(&mut self, boot_ns: u64) -> Vec<(NodeId, Poll)> {
        match self {
            Keeper::Cluster(cluster) => cluster.poll(boot_ns),
            Keeper::Utc(daemon) => daemon.poll(boot_ns),
            Keeper::Shared(_) => Vec::new(),
        }
    }

    fn answer(&self, boot_ns: u64, poll: Poll) -> Option<TimeMessage> {
        match self {
            Keeper::Cluster(cluster) => Some(TimeMessage::Shown(cluster.show(boot_ns, poll))),
            Keeper::Utc(daemon) => {
                Some(TimeMessage::TimeResponse(daemon.answer_poll(boot_ns, poll)))
            }
            Keeper::Shared(_) => None,
        }
    }

    /// Returns the bound, and the boot time until which it is valid.
    fn known(&self, boot_ns: u64) -> Option<(Bound, u64)> {
        match self {
            Keeper::Cluster(cluster) => cluster.hull(),
            Keeper::Utc(daemon) => daemon.known(boot_ns),
            Keeper::Shared(_) => None,
        }
    }

    fn reading(&self, boot_ns: u64) -> Option<(Interval, ClockStatus)> {
        match self {
            Keeper::Cluster(cluster) => cluster.reading(boot_ns),
            Keeper::Utc(daemon) => daemon.reading(boot_ns),
            Keeper::Shared(clock) => Some((clock.now().interval, ClockStatus::Good)),
        }
    }

    fn clock_status(&self, boot_ns: u64) -> ClockStatus {
        self.reading(boot_ns).map_or(ClockStatus::Starting, |(_, clock_status)| clock_status)
    }

    fn offset_ns(&self, boot_ns: u64, node: NodeId) -> Option<i64> {
        match self {
            Keeper::Cluster(cluster) => cluster.offset_ns(boot_ns, node),
            Keeper::Utc(daemon) => daemon.offset_ns(boot_ns, node),
            Keeper::Shared(_) => Some(0),
        }
    }

    fn round_trip_ns(&self, boot_ns: u64, node: NodeId) -> Option<u64> {
        match self {
            Keeper::Cluster(cluster) => cluster.round_trip_ns(boot_ns, node),
            Keeper::Utc(daemon) => daemon.round_trip_ns(boot_ns, node),
            Keeper::Shared(_) => None,
        }
    }

    fn demoted(&self, boot_ns: u64) -> Vec<ClockSource> {
        match self {
            Keeper::Cluster(cluster) => cluster.demoted(boot_ns).map(ClockSource::Master).collect(),
            Keeper::Utc(daemon) => daemon.demoted().to_vec(),
            Keeper::Shared(_) => Vec::new(),
        }
    }
}

impl ClockSync {
    /// Starts cluster time for this incarnation.
    pub fn on_cluster_time(
        others: Vec<NodeId>,
        folder: Option<PathBuf>,
        clock: Arc<Clock>,
        peers: Arc<OnceLock<Arc<Peers>>>,
    ) -> io::Result<Arc<ClockSync>> {
        let anchor = match &folder {
            Some(folder) => read(folder)?,
            None => None,
        };
        let boot = boot()?;
        let cluster = ClusterClock::begin(others.clone(), boot, boot_ns(), system_ns(), anchor)
            .drifting(clock.drift());
        let name = clock.bound().name().to_owned();
        Ok(ClockSync::new(
            Keeper::Cluster(cluster),
            others,
            Vec::new(),
            name,
            boot,
            folder,
            clock,
            peers,
        ))
    }

    /// Starts reports between nodes that all read the clock of one machine.
    pub fn on_one_machine(
        others: Vec<NodeId>,
        clock: Arc<Clock>,
        peers: Arc<OnceLock<Arc<Peers>>>,
    ) -> Arc<ClockSync> {
        let name = clock.bound().name().to_owned();
        ClockSync::new(
            Keeper::Shared(Arc::clone(&clock)),
            others,
            Vec::new(),
            name,
            0,
            None,
            clock,
            peers,
        )
    }

    /// Starts UTC for this incarnation.
    pub fn on_utc(
        me: NodeId,
        others: Vec<NodeId>,
        utc: &Utc,
        clock: Arc<Clock>,
        peers: Arc<OnceLock<Arc<Peers>>>,
    ) -> Arc<ClockSync> {
        let masters = utc.masters.iter().copied().filter(|master| *master != me).collect();
        let daemon = match utc.oscillator {
            Some(drift) => Daemon::with_oscillator(masters, drift),
            None => Daemon::new(masters, !utc.sources.is_empty()),
        };
        let daemon = daemon.drifting(clock.drift());
        ClockSync::new(
            Keeper::Utc(daemon),
            others,
            utc.sources.clone(),
            utc.name(me),
            0,
            None,
            clock,
            peers,
        )
    }

    fn new(
        keeper: Keeper,
        others: Vec<NodeId>,
        sources: Vec<Reference>,
        name: String,
        boot: u64,
        folder: Option<PathBuf>,
        clock: Arc<Clock>,
        peers: Arc<OnceLock<Arc<Peers>>>,
    ) -> Arc<ClockSync> {
        let state = State {
            keeper,
            clock_status: ClockStatus::Starting,
            demoted: Vec::new(),
            silent: vec![None; sources.len()],
            views: BTreeMap::new(),
            stopped: false,
            complained: false,
        };
        let (state, stopped) = (Mutex::new(state), Condvar::new());
        Arc::new(ClockSync { state, stopped, clock, peers, others, sources, name, boot, folder })
    }

    /// Starts the polling thread.
    pub fn start(
        self: &Arc<Self>,
        guard: &Arc<PanicGuard>,
    ) -> io::Result<std::thread::JoinHandle<()>> {
        let this = Arc::clone(self);
        guard.spawn("time", move || {
            let mut sources: Vec<Box<dyn Source>> =
                this.sources.iter().map(Reference::open).collect();
            for round in 0.. {
                this.consult(round, &mut sources);
                this.ask();
                this.reserve();
                if round.is_multiple_of(VIEW_EVERY_ROUNDS) {
                    this.send_clock_report();
                }
                let mut state = this.state.lock();
                if !state.stopped {
                    this.stopped.wait_for(&mut state, Duration::from_nanos(POLL_EVERY_NS));
                }
                if state.stopped {
                    return;
                }
            }
        })
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.stopped.notify_all();
    }

    /// Handles a frame of another node.
    pub fn receive(&self, from: NodeId, frame: &[u8]) {
        // The clock is read under the lock, so that the state sees increasing times.
        match envelope::read::<TimeMessage>(Kind::TIME, frame) {
            Ok(TimeMessage::Poll(poll)) => {
                let state = self.state.lock();
                let answer = state.keeper.answer(boot_ns(), poll);
                drop(state);
                answer.into_iter().for_each(|answer| self.post(from, &answer));
            }
            Ok(TimeMessage::Shown(shown)) => {
                let mut state = self.state.lock();
                if let Keeper::Cluster(cluster) = &mut state.keeper {
                    cluster.receive(boot_ns(), from, shown);
                    self.publish(&mut state);
                }
            }
            Ok(TimeMessage::TimeResponse(told)) => {
                let mut state = self.state.lock();
                if let Keeper::Utc(daemon) = &mut state.keeper {
                    daemon.receive(boot_ns(), from, told);
                    self.publish(&mut state);
                }
            }
            Ok(TimeMessage::ClockReport(view)) if view.source.len() < 1_000 => {
                self.state.lock().views.insert(from, (boot_ns(), view));
            }
            Ok(TimeMessage::ClockReport(_)) => {}
            Err(why) => tracing::warn!(%from, %why, "dropped a frame about time"),
        }
    }

    /// Returns the state of the clock, and the name of its source with any trouble.
    pub fn clock_status(&self) -> (ClockStatus, String) {
        let (state, boot_ns) = (self.state.lock(), boot_ns());
        let mut name = self.name.clone();
        for source in state.keeper.demoted(boot_ns) {
            if let ClockSource::Source(number) = source {
                name += &format!("; ignored: {}", self.sources[number]);
            }
        }
        if let Keeper::Cluster(cluster) = &state.keeper
            && let Some(node) = cluster.far()
        {
            name += &format!(
                "; node {}'s system clock was more than an hour ahead: set one of the two",
                node.0
            );
        }
        (state.keeper.clock_status(boot_ns), name)
    }

    /// Returns the clocks of the other nodes, as far as this node knows.
    pub fn others(&self) -> Vec<NodeTime> {
        let (state, boot_ns) = (self.state.lock(), boot_ns());
        let demoted = state.keeper.demoted(boot_ns);
        let lately = |(at, _): &&(u64, ClockReport)| boot_ns.saturating_sub(*at) < VIEW_LASTS_NS;
        let of = |node: &NodeId| NodeTime {
            node: *node,
            ahead_ns: state.keeper.offset_ns(boot_ns, *node),
            round_trip_ns: state.keeper.round_trip_ns(boot_ns, *node),
            view: state.views.get(node).filter(lately).and_then(|(_, view)| view.told()),
            demoted: demoted.contains(&ClockSource::Master(*node)),
        };
        self.others.iter().map(of).collect()
    }

    fn post(&self, to: NodeId, word: &TimeMessage) {
        if let Some(peers) = self.peers.get() {
            peers.post(to, None, envelope::write(Kind::TIME, word));
            peers.flush(to);
        }
    }

    /// Reads this node's own sources. No request waits for this, which may take long.
    fn consult(&self, round: u64, sources: &mut [Box<dyn Source>]) {
        for (number, source) in sources.iter_mut().enumerate() {
            if self.state.lock().silent[number].is_some() && !round.is_multiple_of(PATIENCE_ROUNDS)
            {
                continue;
            }
            let said = source.ask();
            let mut state = self.state.lock();
            let silent = said.as_ref().err().cloned();
            if state.silent[number].is_some() != silent.is_some() {
                let source = &self.sources[number];
                match &silent {
                    Some(why) => tracing::warn!(%source, why, "the time source gives no time"),
                    None => tracing::info!(%source, "the time source gives the time"),
                }
            }
            state.silent[number] = silent;
            if let (Ok(said), Keeper::Utc(daemon)) = (said, &mut state.keeper) {
                daemon.refer(boot_ns(), number, said.bound());
                self.publish(&mut state);
            }
        }
    }

    fn ask(&self) {
        let polls = {
            let mut state = self.state.lock();
            let polls = state.keeper.poll(boot_ns());
            self.publish(&mut state);
            polls
        };
        polls.into_iter().for_each(|(to, poll)| self.post(to, &TimeMessage::Poll(poll)));
    }

    /// Sends a report of this node's clock to the other nodes. It is for operators: no node decides
    /// by it.
    fn send_clock_report(&self) {
        let (clock_status, interval) = {
            let (state, boot_ns) = (self.state.lock(), boot_ns());
            let reading = state.keeper.reading(boot_ns);
            (
                reading.map_or(ClockStatus::Starting, |(_, clock_status)| clock_status),
                reading.map(|(interval, _)| interval),
            )
        };
        let view = ClockReport {
            clock_status: clock_status.number(),
            interval,
            source: self.name.clone(),
        };
        self.others
            .iter()
            .for_each(|other| self.post(*other, &TimeMessage::ClockReport(view.clone())));
    }

    /// Reserves readings durably before peers may see them. Without room on the disk, peers get no
    /// reading once the last reservation is used up.
    fn reserve(&self) {
        let anchor = {
            let (state, boot_ns) = (self.state.lock(), boot_ns());
            match &state.keeper {
                Keeper::Cluster(cluster) if cluster.wants_reserve(boot_ns) => {
                    cluster.anchor(self.boot, boot_ns)
                }
                _ => return,
            }
        };
        let written = self.folder.as_ref().map_or(Ok(()), |folder| write(folder, &anchor));
        let mut state = self.state.lock();
        match written {
            Ok(()) => {
                if let Keeper::Cluster(cluster) = &mut state.keeper {
                    cluster.reserved(boot_ns(), &anchor);
                }
                state.complained = false;
                self.publish(&mut state);
            }
            Err(error) if !state.complained => {
                state.complained = true;
                tracing::error!(%error, "cannot write the file `clock`: peers get no time from this node");
            }
            Err(_) => {}
        }
    }

    /// Publishes the bound to the readers of the clock, and logs changes of its state.
    fn publish(&self, state: &mut State) {
        let boot_ns = boot_ns();
        let Some((bound, until)) = state.keeper.known(boot_ns) else { return };
        let clock_status = state.keeper.clock_status(boot_ns);
        self.clock.set_bound(bound, if clock_status.is_usable() { until } else { 0 });
        let demoted = state.keeper.demoted(boot_ns);
        if state.demoted != demoted {
            state.demoted = demoted;
            for source in &state.demoted {
                match source {
                    ClockSource::Own => {
                        tracing::warn!(
                            "this node's time sources contradict the other nodes and are not passed on"
                        )
                    }
                    ClockSource::Source(number) => {
                        let source = &self.sources[*number];
                        tracing::warn!(%source, "the time source contradicts the others and is ignored");
                    }
                    ClockSource::Master(node) => {
                        tracing::warn!(%node, "the node's clock contradicts itself or the others and is ignored")
                    }
                }
            }
        }
        let before = std::mem::replace(&mut state.clock_status, clock_status);
        if before != clock_status {
            let half_width_us = bound.on(boot_ns, self.clock.drift()).half_width_ns() / 1_000;
            match (clock_status.is_usable(), before.is_usable()) {
                (true, false) => tracing::info!(half_width_us, %clock_status, "the time is known"),
                (false, true) => tracing::warn!(
                    half_width_us,
                    "the time is not known: {}",
                    self.why(state, boot_ns)
                ),
                _ => {
                    tracing::info!(half_width_us, %clock_status, "the time is known from other sources than before")
                }
            }
        }
    }

    fn why(&self, state: &State, boot_ns: u64) -> &'static str {
        match &state.keeper {
            Keeper::Cluster(cluster) if cluster.is_evicted(boot_ns) => OWN_CLOCK,
            Keeper::Cluster(_) => "too few nodes have answered",
            Keeper::Utc(daemon) if daemon.is_evicted(boot_ns) => OWN_CLOCK,
            Keeper::Utc(_) | Keeper::Shared(_) => {
                "the time sources contradict each other, or have given no time for too long"
            }
        }
    }
}

/// Returns a number of this boot of the machine, or of this process if the system has no boot id.
fn boot() -> io::Result<u64> {
    match fs::read("/proc/sys/kernel/random/boot_id") {
        Ok(id) => Ok(id.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })),
        Err(_) => getrandom::u64().map_err(|error| io::Error::other(error.to_string())),
    }
}

fn read(folder: &Path) -> io::Result<Option<Anchor>> {
    const DAMAGED: &str = "it is damaged, and the upper bound of this node's clock is lost: leave this node stopped, the other nodes go on without it";
    durable_file::read(&folder.join("clock"), MAGIC, DAMAGED, |body| minicbor::decode(body).ok())
}

fn write(folder: &Path, anchor: &Anchor) -> io::Result<()> {
    let body = minicbor::to_vec(anchor).expect("invariant: writing to memory cannot fail");
    durable_file::write(folder, "clock", MAGIC, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_reads_back_and_what_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), None);
        let anchor = Anchor { boot: 7, at: 1, value: 2, ceiling: 3 };
        write(folder.path(), &anchor).unwrap();
        assert_eq!(read(folder.path()).unwrap(), Some(anchor));
        durable_file::write(folder.path(), "clock", MAGIC, b"whole, and no anchor").unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().contains("damaged"));
    }

    #[test]
    fn what_another_says_of_its_clock_is_shown_only_as_far_as_it_makes_sense() {
        let view = |clock_status, earliest, latest| {
            ClockReport {
                clock_status,
                interval: Some(Interval { earliest, latest }),
                source: "chrony".into(),
            }
            .told()
        };
        let said = Some((
            ClockStatus::Good,
            Some(Interval { earliest: 1, latest: 2 }),
            "chrony".to_owned(),
        ));
        assert_eq!(view(ClockStatus::Good.number(), 1, 2), said);
        assert_eq!(
            view(ClockStatus::Good.number(), 2, 1).and_then(|(_, interval, _)| interval),
            None
        );
        assert_eq!(view(200, 1, 2), None);
    }

    /// Byte for byte what version 6 of the protocol between nodes writes.
    #[test]
    fn words_of_version_6_read_back_and_are_written_alike() {
        let interval = Some(Interval { earliest: 3, latest: 300 });
        let view = ClockReport { clock_status: 1, interval, source: "chrony".into() };
        for (word, digits) in [
            (TimeMessage::Poll(Poll { sent: 70_000 }), "0103820081811a00011170"),
            (
                TimeMessage::Shown(Shown { sent: 5, value: 1 << 60, steady: true }),
                "010382018183051b1000000000000000f5",
            ),
            (
                TimeMessage::TimeResponse(TimeResponse { sent: 5, interval }),
                "01038202818205820319012c",
            ),
            (TimeMessage::ClockReport(view), "01038203818301820319012c666368726f6e79"),
        ] {
            let hex =
                |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let bytes = envelope::write(Kind::TIME, &word);
            assert_eq!(hex(&bytes), digits);
            let read = envelope::read::<TimeMessage>(Kind::TIME, &bytes).unwrap();
            assert_eq!(envelope::write(Kind::TIME, &read), bytes);
        }
    }
}
