//! Reads of a transaction, at its timestamp; and the same reads again where it moves to another.

use super::{ASKED_TOGETHER, Coordinator};
use crate::buffer::rest_of;
use crate::mvto::messages::Operation;
use crate::shards::asking::{TIMEOUT_NS, ask_leader, unanswered};
use crate::shards::{RequestOutcome, Response, Shards};
use crate::{Conflict, Failure, Lock, Mode, Node, Rows, TxnCounters};
use futures::future::try_join_all;
use meridian_machine::{ShardId, sometimes};
use meridian_mvcc::{Key, KeyRange, StoreError, Value};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The most rows that are read at once when a read is made again.
const REREAD_ROWS: usize = 4000;

/// A read that was made, to be made again at another timestamp.
pub(super) struct Done {
    /// The range that the read covered, and what it found there.
    range: KeyRange,
    digest: u64,
}

/// A digest of rows, which are added in the order of their keys.
#[derive(Default)]
struct Digest(DefaultHasher);

impl Digest {
    fn add<'a>(&mut self, rows: impl Iterator<Item = &'a (Key, Value)>) {
        for (key, value) in rows {
            key[..].hash(&mut self.0);
            value[..].hash(&mut self.0);
        }
    }
}

impl<S: Shards> Coordinator<S> {
    /// Reads a chunk of committed rows at the transaction's timestamp. The result's `rest` covers
    /// the other shards' parts.
    pub(super) async fn read(
        &self,
        range: &KeyRange,
        reverse: bool,
        limit_rows: usize,
        reserves: bool,
    ) -> Result<Rows, Failure> {
        let (shards, limit) = (&*self.shards, limit_rows.max(1));
        let until = self.boot_ns() + TIMEOUT_NS;
        loop {
            let (shard, bounds) = match reverse {
                true => shards.map().route_below(range.end.as_ref()),
                false => shards.map().route(&range.start),
            };
            let part = range.common(&bounds);
            if reserves {
                self.reserved.lock().insert(shard);
            }
            let ask = || {
                self.request(Operation::Read {
                    range: part.clone(),
                    reverse,
                    limit_rows: u32::try_from(limit).unwrap_or(u32::MAX),
                    versions: self.versions,
                    reserves,
                })
            };
            let waiting = Waiting { coordinator: self, shard, answered: false };
            let heard = ask_leader(shards, shard, ask).await;
            waiting.end();
            let Some((_, heard)) = heard else { return Err(unanswered(shards, shard)) };
            let whole =
                |rows, at, rest| Rows { rows, at, rest: rest_of(range, &bounds, rest, reverse) };
            match heard {
                RequestOutcome::Response(Response::Rows {
                    rows,
                    rest,
                    committed_at,
                    waited_ns,
                    ..
                }) => {
                    self.note_read_wait(waited_ns);
                    return Ok(whole(rows, committed_at.into_iter().map(Some).collect(), rest));
                }
                RequestOutcome::Read { at, waited_ns, .. } => {
                    match shards.scan(shard, &part, at, reverse, limit) {
                        Ok(found) => {
                            self.note_read_wait(waited_ns);
                            let at = if self.versions { found.at } else { Vec::new() };
                            let at = at.into_iter().map(Some).collect();
                            return Ok(whole(found.rows, at, found.rest));
                        }
                        // The shard was split, or its member here has been replaced.
                        Err(StoreError::Elsewhere) => {}
                        Err(StoreError::BelowHorizon { oldest }) => {
                            return Err(Failure::BelowHorizon { oldest });
                        }
                        Err(other) => return Err(Failure::Storage(other.to_string())),
                    }
                }
                RequestOutcome::Response(Response::Moved { to, .. }) => {
                    sometimes!("a shard is asked for keys that it has no more");
                    if let Some((from, other)) = to {
                        shards.map().learn_route(&part.start, from, other);
                    }
                }
                RequestOutcome::Response(Response::Aborted { why, .. }) => {
                    return Err(Failure::Aborted(why));
                }
                RequestOutcome::Response(Response::BelowHorizon { oldest, .. }) => {
                    return Err(Failure::BelowHorizon { oldest });
                }
                RequestOutcome::Response(Response::Refused { why, .. }) => {
                    return Err(Failure::Refused(why));
                }
                RequestOutcome::Response(Response::Broken { what, .. }) => {
                    return Err(Failure::Storage(what));
                }
                _ => {}
            }
            if self.boot_ns() >= until {
                return Err(unanswered(shards, shard));
            }
            self.pause().await;
        }
    }

    /// Reads a chunk, and notes the read and the time that it took.
    pub(super) async fn read_and_note(
        &mut self,
        range: &KeyRange,
        (reverse, limit_rows): (bool, usize),
        lock: Lock,
    ) -> Result<Rows, Failure> {
        self.check().await?;
        let timings = self.timings.clone();
        let began_ns = timings.as_ref().map_or(0, |timings| timings.elapsed_ns());
        let reserves = self.lost && lock == Lock::Exclusive && self.mode == Mode::ReadWrite;
        let found = self.alive(self.read(range, reverse, limit_rows, reserves)).await;
        if let Some(timings) = timings {
            timings.note(|times| {
                times.reads += 1;
                times.reading_ns += timings.elapsed_ns() - began_ns;
            });
        }
        match found {
            Ok(found) => {
                self.note(range, reverse, &found);
                Ok(found)
            }
            Err(Failure::Aborted(why)) => Err(self.end(why)),
            Err(other) => Err(other),
        }
    }

    pub(super) fn note(&mut self, range: &KeyRange, reverse: bool, found: &Rows) {
        if self.mode != Mode::ReadWrite {
            return;
        }
        let covered = match &found.rest {
            None => range.clone(),
            Some(rest) if reverse => {
                KeyRange { start: rest.end.clone().unwrap_or_default(), end: range.end.clone() }
            }
            Some(rest) => KeyRange { start: range.start.clone(), end: Some(rest.start.clone()) },
        };
        let known = self.reads.iter().rev().take(ASKED_TOGETHER);
        if known.into_iter().any(|done| done.range == covered) {
            return; // A transaction reads the same each time.
        }
        let mut digest = Digest::default();
        match reverse {
            true => digest.add(found.rows.iter().rev()),
            false => digest.add(found.rows.iter()),
        }
        self.reads.push(Done { range: covered, digest: digest.0.finish() });
    }

    /// Fails if the transaction has ended. Moves its timestamp if it has to.
    pub(super) async fn check(&mut self) -> Result<(), Failure> {
        if let Some(why) = &self.aborted {
            return Err(Failure::Aborted(why.clone()));
        }
        if !self.intended.is_empty() {
            self.take_answers().await;
            if self.has_expired() {
                sometimes!("a transaction that was idle moves");
                self.move_to(self.shards.node().now().interval.latest).await?;
            }
            self.show_life();
        }
        if let Some(why) = self.refusal() {
            if !self.moves_after(&why) {
                return Err(self.end(why));
            }
            let least_ns = self.shards.node().now().interval.latest + self.ahead_ns;
            self.move_to(least_ns).await?;
        }
        if self.above >= self.at && self.mode == Mode::ReadWrite {
            sometimes!("a transaction moves above commits that were made for it");
            self.move_to(self.above.nanos + 1).await?;
        }
        Ok(())
    }

    /// Draws a new timestamp, at or above `least_ns` if that lies ahead, and makes all reads again
    /// at it: then the transaction is one that has begun now. Fails if a read shows something else.
    pub(super) async fn move_to(&mut self, least_ns: u64) -> Result<(), Failure> {
        // Unless all reads have been made again, it must not go on.
        self.aborted = Some(Conflict::Overwritten);
        self.count(TxnCounters::moved);
        self.begin_again();
        self.at = self.stamps.draw(self.shards.node(), least_ns);
        self.passed_ns = None;
        for reads in self.reads.chunks(ASKED_TOGETHER) {
            let again = |done: &Done| {
                // What it writes next.
                let key = done.range.as_point();
                let reserves = key.is_some_and(|key| self.writes.get(key).is_some());
                let (this, range) = (&*self, done.range.clone());
                async move { this.digest_of(range, reserves).await }
            };
            let found = match try_join_all(reads.iter().map(again)).await {
                Err(Failure::Aborted(why)) => return Err(self.end(why)),
                found => found?,
            };
            if found.iter().zip(reads).any(|(digest, done)| *digest != done.digest) {
                sometimes!("a transaction cannot move: its reads would show something else");
                return Err(self.end(Conflict::Overwritten));
            }
        }
        self.aborted = None;
        Ok(())
    }

    /// Reads a whole range, and returns the digest of what is there.
    async fn digest_of(&self, range: KeyRange, reserves: bool) -> Result<u64, Failure> {
        let (mut digest, mut rest) = (Digest::default(), Some(range));
        while let Some(range) = rest {
            let found = self.read(&range, false, REREAD_ROWS, reserves).await?;
            digest.add(found.rows.iter());
            rest = found.rest;
        }
        Ok(digest.0.finish())
    }
}

/// A read that waits for its answer. If it is dropped before, because the statement was cancelled,
/// the leader drops it, and does not wait for older transactions any longer.
struct Waiting<'a, S: Shards> {
    coordinator: &'a Coordinator<S>,
    shard: ShardId,
    answered: bool,
}

impl<S: Shards> Waiting<'_, S> {
    fn end(mut self) {
        self.answered = true;
    }
}

impl<S: Shards> Drop for Waiting<'_, S> {
    fn drop(&mut self) {
        if !self.answered {
            self.coordinator.give_up_in(self.shard);
        }
    }
}
