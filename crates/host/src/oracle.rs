//! The oracle and the timestamp authority as services of a node, with the requests to those of
//! other nodes (K2 §2.2, §4; Clock-SI §2).
//!
//! ```text
//!   coordinator ── Ask ──▶ oracle       one frame per request. Requests that came with one read of
//!               ◀── Answer ──           the socket are answered by one clock reading, taken after
//!                                       it, and with one write
//! ```
//!
//! All messages use the links between members. No answer exceeds a ceiling that the folder keeps
//! (`oracle`), so that the next incarnation answers above this one. A thread, started by the first
//! request, reserves the ceiling ahead of need. No protocol of this version uses the oracle;
//! `cargo run --release -p meridian-host --example oracle` measures it.

use crate::clock::{Clock, boot_ns};
use crate::durable_file;
use crate::oneshot::{Answer, Sender, oneshot};
use crate::panics::PanicGuard;
use crate::peers::Peers;
use meridian_clock::oracle::{Batches, Oracle, Refused, Strawman, Terms};
use meridian_clock::{
    CeilingReached, Health, Interval, Issuer, Reading, Timestamp, TimestampRange,
};
use meridian_machine::NodeId;
use meridian_systems::envelope::{self, Kind};
use minicbor::{Decode, Encode};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const MAGIC: &[u8; 16] = b"meridian oracle\n";
/// Nanoseconds that are reserved ahead; half of it used up starts the next reservation. The oracle
/// of the next incarnation may have to refuse requests for this long.
const RESERVE_NS: u64 = 1_000_000_000;
/// Time after which a request fails without a response.
const ANSWERED_WITHIN_NS: u64 = 1_000_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A message about timestamps.
#[derive(Encode, Decode)]
enum OracleMessage {
    #[n(0)]
    AskTime(#[n(0)] u64),
    #[n(1)]
    AskStamps(#[n(0)] u64, #[n(1)] u32),
    #[n(2)]
    Time(#[n(0)] u64, #[n(1)] Interval),
    #[n(3)]
    Stamps(#[n(0)] u64, #[n(1)] TimestampRange),
    #[n(4)]
    Refused(#[n(0)] u64, #[n(1)] String),
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OracleResponse {
    /// The oracle's interval.
    Time(Interval),
    /// The authority's timestamps.
    Stamps(TimestampRange),
    /// The reason of a refusal; the request may be retried.
    Refused(String),
}

struct Server {
    oracle: Oracle,
    authority: Issuer,
    ceiling: u64,
    /// True if a request was refused because of the ceiling.
    reached: bool,
}

/// Both services of one node, and its requests to those of other nodes.
pub struct Service {
    me: NodeId,
    server: Mutex<Server>,
    /// The time of each request, and the side of it that waits.
    waiting: Mutex<HashMap<u64, (u64, Sender<OracleResponse>)>>,
    next: AtomicU64,
    clock: Arc<Clock>,
    peers: Arc<OnceLock<Arc<Peers>>>,
    guard: Arc<PanicGuard>,
    folder: Option<PathBuf>,
    keeper: Mutex<Keeper>,
    changed: Condvar,
}

/// The thread that reserves the ceiling and fails requests without a response. The first request
/// starts it.
#[derive(Default)]
struct Keeper {
    thread: Option<std::thread::JoinHandle<()>>,
    stopped: bool,
}

/// Requests that came with one read. One clock reading answers them, and one write sends the
/// answers.
#[derive(Default)]
pub struct Batch {
    reading: Option<Reading>,
}

impl Service {
    /// Returns the services of a node. They answer above the ceiling that the folder has from
    /// earlier incarnations.
    pub fn begin(
        me: NodeId,
        folder: Option<PathBuf>,
        clock: Arc<Clock>,
        peers: Arc<OnceLock<Arc<Peers>>>,
        guard: Arc<PanicGuard>,
    ) -> io::Result<Arc<Service>> {
        let floor = folder.as_ref().map_or(Ok(0), |folder| read(folder))?;
        let server = Server {
            oracle: Oracle::above(&Terms::K2, floor),
            authority: Issuer::above(me.0, Timestamp::end_of(floor)),
            ceiling: floor,
            reached: false,
        };
        Ok(Arc::new(Service {
            me,
            server: Mutex::new(server),
            waiting: Mutex::default(),
            next: AtomicU64::new(1),
            clock,
            peers,
            guard,
            folder,
            keeper: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// Handles a request or a response of another node. [`Service::end`] sends the responses.
    pub fn receive(self: &Arc<Self>, from: NodeId, frame: &[u8], batch: &mut Batch) {
        let word = match envelope::read::<OracleMessage>(Kind::ORACLE, frame) {
            Ok(word) => word,
            Err(why) => return tracing::warn!(%from, %why, "dropped a frame about timestamps"),
        };
        let answer = match word {
            OracleMessage::AskTime(number) => match self.time(batch) {
                Ok(interval) => OracleMessage::Time(number, interval),
                Err(why) => OracleMessage::Refused(number, why.to_string()),
            },
            OracleMessage::AskStamps(number, count) => match self.stamps(count, batch) {
                Ok(stamps) => OracleMessage::Stamps(number, stamps),
                Err(why) => OracleMessage::Refused(number, why.to_string()),
            },
            OracleMessage::Time(number, interval) => {
                return self.heard(number, OracleResponse::Time(interval));
            }
            OracleMessage::Stamps(number, stamps) => {
                return self.heard(number, OracleResponse::Stamps(stamps));
            }
            OracleMessage::Refused(number, why) => {
                return self.heard(number, OracleResponse::Refused(why));
            }
        };
        self.post(from, &answer);
    }

    /// Sends the responses to the requests of one read.
    pub fn end(&self, from: NodeId, batch: &Batch) {
        if batch.reading.is_some() {
            self.flush(from);
        }
    }

    fn time(self: &Arc<Self>, batch: &mut Batch) -> Result<Interval, Refused> {
        let now = *batch.reading.get_or_insert_with(|| self.clock.now());
        self.with_reserve(|server| server.oracle.answer(now))
    }

    fn stamps(self: &Arc<Self>, count: u32, batch: &mut Batch) -> Result<TimestampRange, Refused> {
        let now = *batch.reading.get_or_insert_with(|| self.clock.now());
        self.with_reserve(|server| {
            let durable = Timestamp::end_of(server.authority.ceiling());
            let handed_out = server.authority.hand_out(now.interval.latest, count, durable);
            handed_out.map_err(|CeilingReached| Refused::Ceiling)
        })
    }

    fn with_reserve<T>(
        self: &Arc<Self>,
        what: impl FnOnce(&mut Server) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let answer = {
            let mut server = self.server.lock();
            let answer = what(&mut server);
            server.reached |= matches!(answer, Err(Refused::Ceiling));
            answer
        };
        if matches!(answer, Err(Refused::Ceiling)) {
            self.keep();
            self.changed.notify_all();
        }
        answer
    }

    /// Starts the thread, if it does not run yet.
    fn keep(self: &Arc<Self>) {
        let mut keeper = self.keeper.lock();
        if keeper.thread.is_some() || keeper.stopped {
            return;
        }
        let this = Arc::clone(self);
        let thread = self.guard.spawn("oracle", move || {
            loop {
                this.reserve();
                let now = boot_ns();
                this.waiting
                    .lock()
                    .retain(|_, (asked, _)| now.saturating_sub(*asked) < ANSWERED_WITHIN_NS);
                let mut keeper = this.keeper.lock();
                if !keeper.stopped {
                    this.changed.wait_for(&mut keeper, LOOK_EVERY);
                }
                if keeper.stopped {
                    return;
                }
            }
        });
        match thread {
            Ok(thread) => keeper.thread = Some(thread),
            Err(error) => {
                tracing::error!(%error, "cannot start the oracle's thread: it refuses all requests")
            }
        }
    }

    /// Reserves a higher ceiling durably, if half of the reservation is used up.
    fn reserve(&self) {
        let now = self.clock.now();
        let (ceiling, reached) = {
            let mut server = self.server.lock();
            (server.ceiling, std::mem::take(&mut server.reached))
        };
        let enough = !reached && now.interval.latest.saturating_add(RESERVE_NS / 2) < ceiling;
        if now.health != Health::Good || enough {
            return;
        }
        // Above the old ceiling, too: an authority may be ahead of its clock.
        let next = now.interval.latest.max(ceiling).saturating_add(RESERVE_NS);
        match self.folder.as_ref().map_or(Ok(()), |folder| write(folder, next)) {
            Ok(()) => {
                let mut server = self.server.lock();
                server.ceiling = next;
                server.oracle.raise_ceiling(next);
                server.authority.raise_ceiling(next);
            }
            Err(error) => {
                tracing::error!(%error, "cannot write the file `oracle`: the oracle refuses all requests")
            }
        }
    }

    /// Ends the thread and all waits.
    pub fn stop(&self) {
        let thread = {
            let mut keeper = self.keeper.lock();
            keeper.stopped = true;
            keeper.thread.take()
        };
        self.changed.notify_all();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        self.waiting.lock().clear();
    }

    /// Requests the time from this node's or another node's oracle. [`Service::flush`] sends the
    /// request.
    pub fn ask_time(self: &Arc<Self>, oracle: NodeId) -> Answer<OracleResponse> {
        self.ask(oracle, OracleMessage::AskTime, |batch| self.time(batch).map(OracleResponse::Time))
    }

    /// Requests `count` timestamps from this node's or another node's authority. [`Service::flush`]
    /// sends the request.
    pub fn ask_stamps(self: &Arc<Self>, authority: NodeId, count: u32) -> Answer<OracleResponse> {
        self.ask(
            authority,
            |number| OracleMessage::AskStamps(number, count),
            |batch| self.stamps(count, batch).map(OracleResponse::Stamps),
        )
    }

    fn ask(
        self: &Arc<Self>,
        node: NodeId,
        word: impl FnOnce(u64) -> OracleMessage,
        here: impl FnOnce(&mut Batch) -> Result<OracleResponse, Refused>,
    ) -> Answer<OracleResponse> {
        let (sender, answer) = oneshot();
        if node == self.me {
            sender.answer(
                here(&mut Batch::default())
                    .unwrap_or_else(|why| OracleResponse::Refused(why.to_string())),
            );
            return answer;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.waiting.lock().insert(number, (boot_ns(), sender));
        self.keep();
        self.post(node, &word(number));
        answer
    }

    /// Sends the queued requests to a node.
    pub fn flush(&self, node: NodeId) {
        if let Some(peers) = self.peers.get() {
            peers.flush(node);
        }
    }

    fn heard(&self, number: u64, heard: OracleResponse) {
        let sender = self.waiting.lock().remove(&number);
        if let Some((_, sender)) = sender {
            sender.answer(heard);
        }
    }

    fn post(&self, to: NodeId, word: &OracleMessage) {
        if let Some(peers) = self.peers.get() {
            peers.post(to, None, envelope::write(Kind::ORACLE, word));
        }
    }
}

/// The way in which a coordinator gets its timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One request serves all transactions of a period (K2-TB).
    Batches,
    /// One request for each transaction.
    Strawman,
}

enum Source {
    Batches(Batches),
    Strawman(Strawman),
}

/// A coordinator, which draws timestamps from an oracle for transactions that have started.
pub struct Coordinator {
    service: Arc<Service>,
    oracle: NodeId,
    /// The boot time by which the timestamps of an earlier incarnation are over.
    begins_at: u64,
    source: Mutex<Source>,
    /// Held while a batch is requested: timestamps are drawn from a batch by the time since its
    /// request.
    asking: futures::lock::Mutex<()>,
}

impl Coordinator {
    /// Returns a coordinator of this node.
    pub fn new(service: Arc<Service>, oracle: NodeId, mode: Mode) -> Coordinator {
        let (issuer, terms) = (service.me.0, Terms::K2);
        let source = match mode {
            Mode::Batches => Source::Batches(Batches::above(terms, issuer, 0)),
            Mode::Strawman => Source::Strawman(Strawman::above(issuer, 0)),
        };
        let begins_at = boot_ns() + terms.commit_wait_ns();
        Coordinator {
            service,
            oracle,
            begins_at,
            source: Mutex::new(source),
            asking: futures::lock::Mutex::new(()),
        }
    }

    /// Returns how long a transaction waits between drawing its timestamp and reporting the
    /// outcome.
    pub fn commit_wait_ns(&self) -> u64 {
        match *self.source.lock() {
            Source::Batches(_) => Terms::K2.commit_wait_ns(),
            Source::Strawman(_) => Terms::K2.strawman_wait_ns(),
        }
    }

    /// Returns a timestamp above the start of the transaction that requests it, and below the
    /// transaction's end if it waits for the commit wait. Fails with the reason if there is none.
    pub async fn timestamp(&self) -> Result<Timestamp, String> {
        if boot_ns() < self.begins_at {
            return Err(
                "the timestamps of this coordinator's former incarnation are not over yet: retry"
                    .into(),
            );
        }
        if let Some(drawn) = self.draw() {
            return Ok(drawn);
        }
        if matches!(*self.source.lock(), Source::Strawman(_)) {
            let answer = self.ask().await?;
            return match &mut *self.source.lock() {
                Source::Strawman(strawman) => strawman
                    .stamp(answer)
                    .ok_or_else(|| "a later response was faster: retry".into()),
                Source::Batches(_) => Err("invariant: a coordinator keeps its mode".into()),
            };
        }
        let _alone = self.asking.lock().await;
        for _ in 0..3 {
            if let Some(drawn) = self.draw() {
                return Ok(drawn); // Another task has requested a batch meanwhile.
            }
            if let Source::Batches(batches) = &mut *self.source.lock() {
                batches.ask(boot_ns());
            }
            let answer = self.ask().await?;
            if let Source::Batches(batches) = &mut *self.source.lock() {
                batches.receive(boot_ns(), answer);
            }
        }
        self.draw().ok_or_else(|| {
            "every batch had expired when it arrived: the oracle is too far away for its terms"
                .into()
        })
    }

    fn draw(&self) -> Option<Timestamp> {
        match &mut *self.source.lock() {
            Source::Batches(batches) => batches.next(boot_ns()),
            Source::Strawman(_) => None,
        }
    }

    async fn ask(&self) -> Result<Interval, String> {
        let answer = self.service.ask_time(self.oracle);
        self.service.flush(self.oracle);
        match answer.await {
            Some(OracleResponse::Time(interval)) => Ok(interval),
            Some(OracleResponse::Refused(why)) => Err(why),
            Some(OracleResponse::Stamps(_)) => {
                Err("the oracle sent a response of the wrong kind".into())
            }
            None => Err(format!("node {} did not answer", self.oracle.0)),
        }
    }
}

/// Reads the ceiling of the earlier incarnations.
fn read(folder: &Path) -> io::Result<u64> {
    const DAMAGED: &str =
        "it is damaged, and the ceiling of this node's oracle and authority is lost";
    let ceiling = |body: &[u8]| Some(u64::from_le_bytes(body.try_into().ok()?));
    Ok(durable_file::read(&folder.join("oracle"), MAGIC, DAMAGED, ceiling)?.unwrap_or(0))
}

fn write(folder: &Path, ceiling: u64) -> io::Result<()> {
    durable_file::write(folder, "oracle", MAGIC, &ceiling.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_life_answers_above_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(Clock::new(crate::clock::ClockBound::LOOPBACK));
        let mut last = (0, Timestamp::ZERO);
        for _ in 0..3 {
            let service = Service::begin(
                NodeId(1),
                Some(folder.path().into()),
                Arc::clone(&clock),
                Arc::default(),
                PanicGuard::of_test(),
            )
            .unwrap();
            let end = std::time::Instant::now() + Duration::from_secs(20);
            // The node asks itself; the first answer has to wait for the disk. An incarnation that
            // ends so soon leaves a ceiling in the future.
            let stamps = loop {
                match futures::executor::block_on(service.ask_stamps(NodeId(1), 10)) {
                    Some(OracleResponse::Stamps(stamps)) => break stamps,
                    other => assert!(std::time::Instant::now() < end, "{other:?}"),
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            assert!(stamps.first > last.1 && stamps.count == 10);
            last.1 = stamps.last().unwrap();
            service.stop();
        }
    }

    /// Byte for byte what version 6 of the protocol between nodes writes.
    #[test]
    fn words_of_version_6_read_back_and_are_written_alike() {
        let first = Timestamp { nanos: 1 << 60, logical: 1, issuer: 2 };
        let interval = Interval { earliest: 3, latest: 300 };
        for (word, digits) in [
            (OracleMessage::AskTime(5), "010482008105"),
            (OracleMessage::AskStamps(5, 1_000), "0104820182051903e8"),
            (OracleMessage::Time(5, interval), "010482028205820319012c"),
            (
                OracleMessage::Stamps(5, TimestampRange { first, count: 7 }),
                "01048203820582831b1000000000000000010207",
            ),
            (OracleMessage::Refused(5, "no".into()), "010482048205626e6f"),
        ] {
            let hex =
                |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let bytes = envelope::write(Kind::ORACLE, &word);
            assert_eq!(hex(&bytes), digits);
            let read = envelope::read::<OracleMessage>(Kind::ORACLE, &bytes).unwrap();
            assert_eq!(envelope::write(Kind::ORACLE, &read), bytes);
        }
    }
}
