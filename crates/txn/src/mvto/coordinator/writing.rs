//! The intents of a transaction: what is sent to which shard, in parts, and what is agreed there.
//!
//! A statement that has written waits for no answer (K2 §5.3): answers are taken in when the
//! transaction does something else, at the latest when it commits. So several parts may be on their
//! way to one shard. A leader takes them in their order, and asks for one again that comes too
//! early.

use super::Coordinator;
use crate::mvto::messages::Operation;
use crate::mvto::recorder::{EXPIRES_NS, Place};
use crate::mvto::rules;
use crate::shards::asking::{ONE_TRY_NS, PAUSE_NS, TIMEOUT_NS, ask_leader};
use crate::shards::{ReplicaId, Request, RequestBody, RequestOutcome, Response, Shards};
use crate::{Age, Conflict, Node, SchemaVersion, TransactionId};
use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::{ShardId, sometimes, step};
use meridian_mvcc::{Key, KeyRange, Write};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

/// The writes of a transaction in one shard, or the changes since they were last sent.
#[derive(Clone, Default)]
pub(super) struct Share {
    pub(super) writes: Vec<Write>,
    withdrawn: Vec<Key>,
    pub(super) schemas: Vec<(SchemaVersion, KeyRange)>,
}

pub(super) type Shares = BTreeMap<ShardId, Share>;

/// The bytes that a transaction sends at most before it commits. What is sent stays in the log, and
/// in memory, even if a savepoint takes it back.
const MOST_BYTES_AHEAD: u64 = 4 << 20;

/// The answer of a shard to a part.
type Answer = (ShardId, Result<u64, Conflict>);
type Answers = FuturesUnordered<Pin<Box<dyn Future<Output = Answer> + Send>>>;

/// The intents of an attempt: of one timestamp, under one number.
#[derive(Default)]
pub(super) struct Intended {
    /// The recorder, once something is sent.
    recorder: Option<ReplicaId>,
    /// The shards to which something is sent, with the parts that are agreed there.
    places: BTreeMap<ShardId, Place>,
    /// The number of parts that are sent to each.
    sent: BTreeMap<ShardId, u32>,
    /// The bytes that are sent, and true if they are too many for more before the commit.
    bytes: u64,
    full: bool,
    /// The parts on their way. The lock is never waited for.
    on_their_way: Mutex<Answers>,
    /// The reason why a part is refused: the attempt cannot commit.
    refused: Option<Conflict>,
    /// When the recorder was last sent something, by the boot clock.
    alive_ns: AtomicU64,
    /// True once the recorder is asked to commit: then it decides.
    asked: bool,
}

impl Intended {
    /// True if nothing is sent.
    pub(super) fn is_empty(&self) -> bool {
        self.recorder.is_none()
    }
}

impl<S: Shards> Coordinator<S> {
    /// Returns what has changed since it was last sent in each shard, as far as this node knows the
    /// shards.
    pub(super) fn changes(&mut self, with_schemas: bool) -> Shares {
        let (map, mut shares) = (self.shards.map(), Shares::new());
        let (writes, places) = (&self.writes, &self.intended.places);
        self.unsent.retain(|key| {
            let shard = map.route(key).0;
            match writes.get(key) {
                Some(value) => {
                    let write = Write { key: key.clone(), value: value.clone() };
                    shares.entry(shard).or_default().writes.push(write);
                    true
                }
                None if places.contains_key(&shard) => {
                    shares.entry(shard).or_default().withdrawn.push(key.clone());
                    true
                }
                None => false, // It was never sent.
            }
        });
        let schemas = writes.schemas().iter().filter(|_| with_schemas);
        for (schema, range) in
            schemas.flat_map(|(schema, ranges)| ranges.iter().map(move |range| (schema, range)))
        {
            for (shard, part) in map.parts(range) {
                shares.entry(shard).or_default().schemas.push((*schema, part));
            }
        }
        shares
    }

    fn send_changes(&mut self, shares: Shares) {
        let Some(recorder) = self.choose_recorder(&shares) else { return };
        for (shard, Share { writes, withdrawn, schemas }) in shares {
            step!("session: writes intents");
            for key in writes.iter().map(|write| &write.key).chain(&withdrawn) {
                self.unsent.remove(key);
            }
            let this = &mut self.intended;
            let none = Place { shard, term: 0, parts: 0 };
            let acknowledged = this.places.entry(shard).or_insert(none).parts;
            if this.places.len() > 1 {
                sometimes!("a transaction writes in several shards");
            }
            let next = this.sent.entry(shard).or_default();
            let part = std::mem::replace(next, *next + 1);
            if part > acknowledged {
                sometimes!("a part of an intent is sent before an earlier one is acknowledged");
            }
            this.bytes += bytes_of(&writes, &withdrawn);
            let operation =
                Operation::Write { part, writes, withdrawn, schemas, recorder, acknowledged };
            let answer = Box::pin(self.asker().write(shard, operation));
            self.intended.on_their_way.get_mut().push(answer);
        }
    }

    /// The recorder: one of the shards that are written to first, led here if there is one.
    fn choose_recorder(&mut self, shares: &Shares) -> Option<ReplicaId> {
        if self.intended.recorder.is_none() {
            let map = self.shards.map();
            let here = self.shards.node().here().0;
            let led_here = shares.keys().find(|shard| map.leader(**shard) == here);
            let shard = *led_here.or_else(|| shares.keys().next())?;
            self.intended.recorder = Some(ReplicaId { shard, node: map.leader(shard) });
            self.intended.alive_ns = AtomicU64::new(self.boot_ns());
        }
        self.intended.recorder
    }

    /// Sends the writes so far, unless they are many. The transaction goes on meanwhile.
    pub(super) async fn send_ahead(&mut self) {
        let this = &self.intended;
        if this.full || this.refused.is_some() || self.shards.is_crowded() {
            return;
        }
        let changes = self.changes(false);
        let bytes = changes.values().map(|share| bytes_of(&share.writes, &share.withdrawn));
        if self.intended.bytes + bytes.sum::<u64>() > MOST_BYTES_AHEAD {
            // From here on all of it waits for the commit, without a look at each statement's end.
            self.intended.full = true;
            return;
        }
        sometimes!("a transaction writes before it commits");
        self.send_changes(changes);
        // A request leaves when its answer is first asked for.
        self.take_answers().await;
    }

    /// Takes in the answers that are there.
    pub(super) async fn take_answers(&mut self) {
        loop {
            let answers = self.intended.on_their_way.get_mut();
            let Poll::Ready(Some(answer)) = futures::poll!(answers.next()) else { return };
            self.take_answer(answer);
        }
    }

    fn take_answer(&mut self, (shard, answer): Answer) {
        match (answer, self.intended.places.get_mut(&shard)) {
            (Ok(term), Some(place)) => {
                (place.term, place.parts) = (place.term.max(term), place.parts + 1);
            }
            (Err(why), _) => drop(self.intended.refused.get_or_insert(why)),
            (Ok(_), None) => {}
        }
    }

    /// The reason why the attempt cannot commit, if a part is refused.
    pub(super) fn refusal(&self) -> Option<Conflict> {
        self.intended.refused.clone()
    }

    /// Sends what is not sent yet, and waits until all of it is in the logs. Returns the recorder,
    /// and where the intents are.
    pub(super) async fn all_written(
        &mut self,
        changes: Shares,
    ) -> Result<(ShardId, Vec<Place>), Conflict> {
        self.send_changes(changes);
        while !self.intended.on_their_way.get_mut().is_empty() && self.intended.refused.is_none() {
            self.show_life();
            let answer = {
                let tick_ns = self.intended.alive_ns.load(Ordering::Relaxed) + ONE_TRY_NS;
                let tick = pin!(self.shards.node().sleep_until(tick_ns));
                match select(self.intended.on_their_way.get_mut().next(), tick).await {
                    Either::Left((answer, _)) => answer,
                    Either::Right(((), _)) => None,
                }
            };
            if let Some(answer) = answer {
                self.take_answer(answer);
            }
            if broken(rules::INTENTS_NOT_AWAITED) {
                break;
            }
        }
        if let Some(why) = self.refusal() {
            return Err(why);
        }
        let recorder = self.intended.recorder.expect("invariant: something was sent");
        let agreed = self.intended.places.values().filter(|place| place.parts > 0);
        Ok((recorder.shard, agreed.copied().collect()))
    }

    /// True if the recorder has had no sign of life for so long that it has aborted, or soon does.
    pub(super) fn has_expired(&self) -> bool {
        self.boot_ns() >= self.intended.alive_ns.load(Ordering::Relaxed) + EXPIRES_NS
    }

    /// The recorder decides from here on: it is asked to commit.
    pub(super) fn note_asked(&mut self) {
        self.intended.asked = true;
    }

    /// Sends the recorder a sign of life, if it had none for a second.
    pub(super) fn show_life(&self) {
        let Some(recorder) = self.intended.recorder else { return };
        let now = self.boot_ns();
        if now >= self.intended.alive_ns.load(Ordering::Relaxed) + ONE_TRY_NS {
            self.intended.alive_ns.store(now, Ordering::Relaxed);
            self.send_to_leader(recorder.shard, self.request_of(RequestBody::KeepAlive));
        }
    }

    /// Runs something, and sends the recorder a sign of life every second, if there is one.
    pub(super) async fn alive<T>(&self, work: impl Future<Output = T>) -> T {
        if self.intended.is_empty() {
            return work.await;
        }
        let mut work = pin!(work);
        loop {
            let tick = pin!(self.shards.node().sleep_until(self.boot_ns() + ONE_TRY_NS));
            match select(work, tick).await {
                Either::Left((done, _)) => return done,
                Either::Right(((), again)) => {
                    self.show_life();
                    work = again;
                }
            }
        }
    }

    /// Gives up the intents. If the recorder is not asked to commit, it aborts at once: later
    /// readers do not wait until the attempt expires.
    pub(super) fn give_up_intents(&mut self) {
        let Intended { recorder, places, asked, .. } = std::mem::take(&mut self.intended);
        if let Some(recorder) = recorder.filter(|_| !asked) {
            let others = places.into_values().filter(|place| place.shard != recorder.shard);
            let abort = self.request(Operation::Abort { places: others.collect() });
            self.send_to_leader(recorder.shard, abort);
        }
    }

    /// Makes the attempt another transaction to the shards: with another number, under which
    /// nothing is written or reserved.
    pub(super) fn begin_again(&mut self) {
        self.release();
        self.transaction.number = self.shards.node().new_number();
        self.unsent = self.writes.iter().map(|(key, _)| key.clone()).collect();
    }

    /// The means to make requests of this attempt, and to ask shards.
    pub(super) fn asker(&self) -> Asker<S> {
        Asker {
            shards: Arc::clone(&self.shards),
            transaction: self.transaction,
            age: self.age,
            at: self.at,
            planned: self.planned.iter().collect(),
            requests: Arc::clone(&self.requests),
        }
    }
}

/// Learns from a shard that has given keys away where they are.
pub(super) fn learn_route<S: Shards>(shards: &S, to: Option<(Key, ShardId)>) {
    if let Some((from, other)) = to {
        shards.map().learn_route(&from, from.clone(), other);
    }
}

fn bytes_of(writes: &[Write], withdrawn: &[Key]) -> u64 {
    let length = |write: &Write| write.key.len() + write.value.as_ref().map_or(0, |it| it.len());
    let bytes = writes.iter().map(length).chain(withdrawn.iter().map(|key| key.len()));
    bytes.sum::<usize>() as u64
}

/// Makes the requests of an attempt, and asks a shard to write a part whatever the coordinator does
/// meanwhile.
pub(super) struct Asker<S> {
    shards: Arc<S>,
    transaction: TransactionId,
    age: Age,
    at: Timestamp,
    planned: Vec<SchemaVersion>,
    requests: Arc<AtomicU64>,
}

impl<S: Shards> Asker<S> {
    pub(super) fn request(&self, operation: Operation) -> Request {
        let id = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let body = RequestBody::Ordered { at: self.at, operation };
        let planned = self.planned.clone();
        Request { planned, ..Request::plain(self.transaction, self.age, id, body) }
    }

    async fn write(self, shard: ShardId, operation: Operation) -> Answer {
        (shard, self.written(shard, operation).await)
    }

    /// Returns the term of the leader that has the part in its log.
    async fn written(&self, shard: ShardId, operation: Operation) -> Result<u64, Conflict> {
        let (shards, node) = (&*self.shards, self.shards.node());
        let until = node.boot_ns() + TIMEOUT_NS;
        loop {
            let heard = ask_leader(shards, shard, || self.request(operation.clone())).await;
            match heard.map(|(_, heard)| heard) {
                Some(RequestOutcome::Response(Response::Written { term, .. })) => return Ok(term),
                Some(RequestOutcome::Response(Response::Aborted { why, .. })) => return Err(why),
                Some(RequestOutcome::Response(Response::Moved { to, .. })) => {
                    learn_route(shards, to);
                    return Err(Conflict::Moved);
                }
                None | Some(RequestOutcome::Response(Response::Refused { .. })) => {
                    return Err(Conflict::LeaderChanged);
                }
                Some(_) if node.boot_ns() >= until => return Err(Conflict::LeaderChanged),
                Some(_) => node.sleep_until(node.boot_ns() + PAUSE_NS).await,
            }
        }
    }
}
