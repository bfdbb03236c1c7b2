//! Reads without locks: which timestamps may be read, and when (§4.1.3, §4.1.4, §4.2.4).
//! [`shard`](crate::shard) describes how a shard promises timestamps.

use super::participant::Locking;
use super::records::{Prepared, any_within};
use super::{Member, Message};
use crate::locking::rules;
use crate::shard::{Effect, Serve};
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Health, Outbox, sometimes};
use meridian_mvcc::KeyRange;
use meridian_txn::locking::rules as locking_rules;
use meridian_txn::shards::{LockEpoch, Request, RequestBody, Response};
use meridian_txn::{Conflict, TransactionId};

/// How far ahead a snapshot may lie to wait for its time, in nanoseconds: clocks differ.
const FUTURE_NS: u64 = 1_000_000_000;

/// How long a snapshot waits for a prepared transaction that is younger before that is aborted, in
/// nanoseconds, unless it is decided.
const WOUNDS_AFTER_NS: u64 = 1_000_000_000;

/// A snapshot that waits.
pub(super) struct Snapshot {
    at: Timestamp,
    from: Address,
    request: Request,
    /// When it was asked for, by the boot clock.
    asked_ns: u64,
}

impl Member {
    /// Queues a request to read a snapshot.
    pub(super) fn on_snapshot(
        &mut self,
        now: Reading,
        from: Address,
        request: Request,
        out: &mut Outbox<Member>,
    ) {
        let RequestBody::Snapshot { at, single_shard_range, .. } = &request.body else {
            unreachable!("only snapshots are asked for so")
        };
        let same = |snapshot: &&mut Snapshot| {
            snapshot.request.transaction == request.transaction
                && snapshot.request.body == request.body
        };
        if let Some(waiting) = self.participant.snapshots.iter_mut().find(same) {
            (waiting.from, waiting.request.id) = (from, request.id);
            return out.send(from, Message::Response(Response::Waiting { id: request.id }));
        }
        // For a single-shard read the newest commit is as good as now. Otherwise another shard may
        // have a newer one.
        let all = KeyRange::all();
        let single_shard_range = single_shard_range.as_ref().unwrap_or(&all);
        let alone = self.bounds.contains_range(single_shard_range);
        let at = at.unwrap_or_else(|| {
            let newest =
                if alone { self.last_ts(now, single_shard_range) } else { self.shown_present(now) };
            // Promised, so that no later leader issues below the token either.
            newest.max(request.token.filter(|_| self.policy.shows_early()).unwrap_or_default())
        });
        let fenced = now.health != Health::Good && !broken(locking_rules::FENCED_SERVES);
        if (at.nanos > self.present(now).nanos + FUTURE_NS || fenced) && at > self.visible {
            // A promise for the future would delay every commit until then.
            return out.send(from, Message::Response(Response::Unknown { id: request.id }));
        }
        self.participant.snapshots.push(Snapshot { at, from, request, asked_ns: now.boot_ns });
    }

    /// Returns a timestamp at or above everything that was acknowledged anywhere.
    fn shown_present(&self, now: Reading) -> Timestamp {
        self.visible.max(self.present(now))
    }

    /// Returns LastTS of a range (§4.2.2, §4.2.4): a timestamp such that nothing writes into the
    /// range between it and the present. While a prepared transaction writes into the range, only
    /// the present will do, because it may be committed elsewhere already (Trap A.5-6).
    ///
    /// **Departure.** The paper's LastTS is the newest commit that has been applied. Where a
    /// database has several shards that is too early: a commit that is under way here may have a
    /// timestamp that has passed everywhere. Another shard may have acknowledged a later one, and a
    /// snapshot between the two may have shown the first without the second; a reader that begins
    /// now has to see both.
    fn last_ts(&self, now: Reading, range: &KeyRange) -> Timestamp {
        let prepared = &self.participant.two_phase.prepared;
        let in_doubt = |record: &Prepared| record.writes_into(range) || record.changes.is_some();
        if !broken(rules::LAST_TS_PREPARED) && prepared.records().any(in_doubt) {
            return self.shown_present(now);
        }
        if !prepared.is_empty() {
            sometimes!("what is prepared writes into other keys than are read");
        }
        let late = self
            .participant
            .late
            .iter()
            .filter(|late| late.schema || any_within(&late.keys, |key| key, range));
        let late = late.map(|late| late.at).filter(|_| !broken(rules::LAST_TS_LATE));
        late.chain(self.last_in_flight(now, range)).fold(self.newest(), Timestamp::max)
    }

    /// Returns the newest commit under way that writes into a range, of those whose timestamps may
    /// have passed. Returns `None` in a database with one shard, which acknowledges commits in the
    /// order of their timestamps.
    fn last_in_flight(&self, now: Reading, range: &KeyRange) -> Option<Timestamp> {
        if self.bounds == KeyRange::all() || broken(locking_rules::LAST_TS_IN_FLIGHT) {
            return None;
        }
        let present = self.shown_present(now);
        let commit_waits = self
            .participant
            .commit_waits
            .values()
            .filter(|commit_waits| commit_waits.writes_into(range))
            .map(|commit_waits| commit_waits.at);
        let agreeing = self
            .participant
            .agreeing
            .values()
            .filter(|pending| pending.writes_into(range))
            .map(|pending| pending.at);
        let last = commit_waits.chain(agreeing).filter(|at| *at <= present).max();
        if last.is_some() {
            sometimes!("a reader of one shard waits for a commit that is under way");
        }
        last
    }

    /// Answers LastTS of a range. A session that reads in several shards asks each of them, and
    /// reads at the latest answer (§4.2.2).
    pub(super) fn on_last_ts(
        &self,
        now: Reading,
        from: Address,
        id: u64,
        range: &KeyRange,
        out: &mut Outbox<Member>,
    ) {
        let until = self.leased_until(now);
        if now.interval.latest >= until {
            return out.send(from, Message::Response(Response::Unknown { id }));
        }
        let at = self.last_ts(now, range);
        out.send_before(until, from, Message::Response(Response::LastTs { id, at }));
    }

    /// True if a prepared transaction may turn out to have written into a range at or below a
    /// timestamp.
    fn is_in_doubt(&self, range: &KeyRange, at: Timestamp) -> bool {
        let mut prepared = self.participant.two_phase.prepared.records();
        !broken(rules::SAFE_TIME_PREPARED)
            && prepared.any(|record| record.at <= at && record.writes_into(range))
    }

    /// Returns the prepared transactions for which a snapshot of an older transaction has waited
    /// for long, with the conflict that aborts them. Such a transaction may hold locks for which
    /// they wait (a repetition that locks what it keeps before it reads), so that neither would
    /// end.
    pub(super) fn wounded_by_snapshots(&self, now: Reading) -> Vec<(TransactionId, Conflict)> {
        let long = |snapshot: &&Snapshot| now.boot_ns >= snapshot.asked_ns + WOUNDS_AFTER_NS;
        let waiting = self.participant.snapshots.iter().filter(long);
        let wounds = |snapshot: &Snapshot| {
            let RequestBody::Snapshot { range, .. } = &snapshot.request.body else {
                unreachable!("only snapshots wait so")
            };
            let (at, age, key) = (snapshot.at, snapshot.request.age, range.start.clone());
            let (range, prepared) = (range.clone(), self.participant.two_phase.prepared.iter());
            let met = prepared.filter(move |(_, record)| {
                record.at <= at && age < record.age && record.writes_into(&range)
            });
            met.map(move |(txn, _)| {
                (txn, Conflict::Wounded { by: age, key: key.clone(), application: None })
            })
        };
        waiting.flat_map(wounds).collect()
    }

    /// True if a commit that is not visible yet, or a prepare that is not agreed yet, writes into a
    /// range at or below a timestamp. What other keys get by then is no part of the snapshot
    /// (§4.2.4).
    fn is_being_written(&self, range: &KeyRange, at: Timestamp) -> bool {
        let Locking { commit_waits, agreeing, .. } = &self.participant;
        let mut waits = commit_waits.values().take_while(|wait| wait.at <= at);
        let mut agreeing = agreeing.values().take_while(|pending| pending.at <= at);
        waits.any(|wait| wait.may_write_into(range))
            || agreeing.any(|pending| pending.may_write_into(range))
    }

    /// Answers the snapshots that can be served now.
    pub(super) fn show_snapshots(&mut self, now: Reading, out: &mut Outbox<Member>) {
        let until = self.leased_until(now);
        if !self.serving || self.participant.snapshots.is_empty() || now.interval.latest >= until {
            return;
        }
        let early = broken(rules::SAFE_TIME_IN_FLIGHT);
        let (mut waits, mut soonest) = (Vec::new(), u64::MAX);
        for snapshot in std::mem::take(&mut self.participant.snapshots) {
            let Snapshot { at, from, request, asked_ns } = &snapshot;
            let RequestBody::Snapshot { range, .. } = &request.body else {
                unreachable!("only snapshots wait so")
            };
            if !self.bounds.contains_range(range) {
                self.say_moved(*from, request, out);
                continue;
            }
            let promised = self.promise(now, *at);
            let in_flight = promised && *at > self.visible && self.is_being_written(range, *at);
            let doubtful = self.is_in_doubt(range, *at) || self.meets_change(request, *at);
            if promised && (early || !in_flight) && !doubtful {
                match self.participant.schemas.outdated(&request.planned, *at) {
                    Some(why) => out
                        .send(*from, Message::Response(Response::Aborted { id: request.id, why })),
                    None => {
                        self.group.use_timestamp(at.nanos);
                        let waited_ns = Some(now.boot_ns - asked_ns).filter(|ns| *ns > 0);
                        self.serve(*from, request, *at, (Some(until), waited_ns), out);
                    }
                }
                continue;
            }
            if doubtful {
                sometimes!("a snapshot waits for a prepared transaction");
            }
            if in_flight {
                sometimes!("a snapshot waits for a commit before it");
            }
            let present = self.present(now);
            if at.nanos > present.nanos {
                soonest = soonest.min(at.nanos - present.nanos);
            }
            waits.push(snapshot);
        }
        self.participant.snapshots = waits;
        if soonest < u64::MAX {
            sometimes!("a snapshot waits for its time");
            self.wake_in(soonest);
        }
    }

    /// Answers all waiting snapshots, because this member lost leadership.
    pub(super) fn dismiss_snapshots(&mut self, out: &mut Outbox<Member>) {
        let leader = self.group.leader().map(|node| node.0);
        for Snapshot { from, request, .. } in std::mem::take(&mut self.participant.snapshots) {
            out.send(from, Message::Response(Response::NotLeader { id: request.id, leader }));
        }
    }

    pub(super) fn serve(
        &self,
        to: Address,
        request: &Request,
        at: Timestamp,
        (deadline, waited_ns): (Option<u64>, Option<u64>),
        out: &mut Outbox<Member>,
    ) {
        let (RequestBody::Read { range, reverse, limit_rows, versions, .. }
        | RequestBody::Snapshot { range, reverse, limit_rows, versions, .. }) = &request.body
        else {
            unreachable!("only reads are served")
        };
        let admission =
            self.participant.active.get(&request.transaction).map_or(0, |active| active.admission);
        out.act(Effect::Serve(Serve {
            reply_to: to,
            id: request.id,
            lock_epoch: LockEpoch { term: self.group.term().0, admission },
            at,
            range: range.clone(),
            reverse: *reverse,
            limit_rows: *limit_rows,
            versions: *versions,
            deadline,
            waited_ns,
        }));
    }
}
