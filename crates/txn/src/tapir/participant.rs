//! A TAPIR replica's votes on proposals, and the state of the proposals that it voted for.
//!
//! The participant holds in memory the writes and reads above the settled timestamp, and those of
//! the last settled interval. At or below the settled timestamp every replica has the same
//! versions, and no proposal is accepted.

use super::highest::Highest;
use super::prepared::{Held, Prepared};
use super::slots::Slots;
use super::{End, Guarantee, Past, Proposal, RangeRead, TxnStatus, Vote};
use crate::TransactionId;
use crate::tapir::rules;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{ShardId, sometimes};
use meridian_mvcc::{Key, KeyRange, Write, local};
use std::collections::BTreeMap;

/// A proposal this far ahead of the replica's clock, in nanoseconds, comes from a wrong clock or
/// would keep other transactions from their keys (Trap A.2-1). Coordinators go half as far.
const FAR_NS: u64 = 1_000_000_000;
/// A replica serves no snapshot farther ahead of its clock than this, in nanoseconds. The excess
/// over [`FAR_NS`] covers the difference of clocks within their bounds. A `Served` fact of another
/// replica beyond this comes from a wrong clock.
const SERVED_AHEAD_NS: u64 = FAR_NS + 500_000_000;

/// The leader of a view accepts no open proposal that is farther above the newest commit than this,
/// in nanoseconds. The leader's own clock is no measure: if it is an hour ahead, the leader may be
/// alone with a proposal that the other replicas rejected. Where nothing has committed there is no
/// limit.
const OPEN_AHEAD_NS: u64 = 10_000_000_000;

/// A transaction that was validated here and may be prepared.
#[derive(Clone, Debug)]
struct Known {
    /// The newest validated attempt and the vote on it. It is reported in recovery, whatever is
    /// prepared (Trap A.2-2).
    newest: (u32, Vote),
    /// The highest timestamp of an attempt that this replica received.
    latest: Timestamp,
    /// The later of the time at which it was prepared and that at which the last view began, by the
    /// boot clock. Its outcome could have arrived since.
    since_ns: u64,
}

/// A transaction in recovery. No attempt of it is prepared any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fence {
    /// The `Resolve` operation arrived in this view.
    Heard,
    /// A view began with the `Resolve` operation: nothing that is known here of the transaction is
    /// undecided.
    Stands,
}

/// One replica's state of a shard's transactions.
#[derive(Clone, Debug)]
pub struct Participant {
    guarantee: Guarantee,
    shard: ShardId,
    bounds: KeyRange,
    /// Keys of rows about the shard itself that transactions read and write.
    own: KeyRange,
    known: BTreeMap<TransactionId, Known>,
    /// The prepared attempt of each known transaction.
    prepared: Prepared,
    fences: BTreeMap<TransactionId, Fence>,
    /// The ended transactions: the timestamp, and the proposal if it committed. An entry is removed
    /// once its timestamp is settled: from then on proposals of the transaction are refused for
    /// their timestamp. The names of commits of several shards stay.
    ended: BTreeMap<TransactionId, (Timestamp, Option<Proposal>)>,
    /// The newest version of each key, if it is not settled.
    written: Slots<Timestamp>,
    /// The highest timestamp at which a committed transaction or a snapshot read each key.
    read: Highest,
    /// The highest timestamp at which a replica may have served snapshots.
    served: Timestamp,
    /// The timestamp of the newest known commit. A quorum of replicas accepted it, each by its own
    /// clock.
    committed: Timestamp,
    /// The closed timestamp, at or below which no proposal is accepted, and the settled timestamp,
    /// at or below which every transaction has ended, everywhere.
    past: Past,
    /// True for a replica that takes over. It has no single versions at or below the timestamp that
    /// was settled when it began.
    takes_over: bool,
    /// The former settled timestamp, at or below which single versions are not known any more.
    /// Reads from before the newest view began may still be validated.
    forgotten: Timestamp,
}

/// The versions of one commit that are to be installed.
pub type Installed = (Timestamp, Vec<Write>);

impl Participant {
    /// Returns the state of a replica that has received nothing. `bounds` is the shard's key range.
    pub fn new(guarantee: Guarantee, shard: ShardId, bounds: KeyRange) -> Self {
        Participant {
            guarantee,
            shard,
            bounds,
            own: local::schemas(shard.0),
            known: BTreeMap::new(),
            prepared: Prepared::default(),
            fences: BTreeMap::new(),
            ended: BTreeMap::new(),
            written: Slots::default(),
            read: Highest::default(),
            served: Timestamp::ZERO,
            committed: Timestamp::ZERO,
            past: Past::default(),
            takes_over: false,
            forgotten: Timestamp::ZERO,
        }
    }

    /// Marks a replica that has nothing of what was settled before its first view.
    pub fn taking_over(self) -> Self {
        Participant { takes_over: true, ..self }
    }

    /// Returns the versions in a range above the settled timestamp, in key order, for a read that
    /// is to be validated.
    pub fn see(&self, range: &KeyRange) -> RangeRead {
        let unsettled = self.written.within(range).filter(|(_, at)| **at > self.past.settled);
        let versions = unsettled.map(|(key, at)| (key.clone(), *at)).collect();
        RangeRead { range: range.clone(), versions, through: self.past.settled }
    }

    /// Returns the prepared proposals, in no particular order.
    pub fn prepared(&self) -> impl Iterator<Item = &Proposal> {
        self.prepared.iter()
    }

    /// Returns the prepared proposal with the attempt and timestamp of `name`, if there is one.
    pub fn prepared_as(&self, name: &Proposal) -> Option<&Proposal> {
        let held = self.prepared.of(name.transaction).map(|held| &held.proposal);
        held.filter(|proposal| (proposal.attempt, proposal.at) == (name.attempt, name.at))
    }

    /// Returns the newest attempt of a transaction that was validated here, and the vote on it.
    pub fn newest(&self, transaction: TransactionId) -> Option<(u32, Vote)> {
        self.known.get(&transaction).map(|known| known.newest)
    }

    /// Returns true if a transaction has ended here as a commit, false if it was aborted, and
    /// `None` if it has not ended.
    pub fn ended(&self, transaction: TransactionId) -> Option<bool> {
        self.ended.get(&transaction).map(|(_, committed)| committed.is_some())
    }

    /// Validates a proposal (TAPIR-OCC-CHECK) and prepares it if the vote is `Ok`. Returns the
    /// vote.
    pub fn prepare(&mut self, now: Reading, proposal: &Proposal) -> Vote {
        let ended =
            self.ended.get(&proposal.transaction).filter(|_| !broken(rules::ENDED_PREPARES));
        if ended.is_some_and(|(at, committed)| committed.is_some() && *at == proposal.at) {
            return Vote::Ok;
        }
        if proposal.at <= self.past.settled {
            sometimes!("a timestamp is proposed that is settled");
            return if broken(rules::LATE_SAID_REFUSED) {
                Vote::Retry(self.past.settled)
            } else {
                Vote::Late
            };
        }
        if ended.is_some() {
            sometimes!("a transaction is proposed that has ended");
            return Vote::Abort;
        }
        if self.fences.contains_key(&proposal.transaction) && !broken(rules::FENCED_PREPARES) {
            sometimes!("a transaction is proposed that is being recovered");
            return Vote::Abort;
        }
        let txn = proposal.transaction;
        // Only the newest attempt counts.
        if self.known.get(&txn).is_some_and(|known| proposal.attempt < known.newest.0) {
            sometimes!("an attempt comes that is not the newest");
            return Vote::Abstain;
        }
        if self.prepared.of(txn).is_some() && broken(rules::PREPARED_UNCHECKED) {
            return Vote::Ok;
        }
        // The transaction's own former attempt is taken out first, because no transaction conflicts
        // with itself. A former attempt that stays prepared may yet be decided on in recovery. The
        // same attempt does not stay: it is proposed again where a view began without it, its
        // former vote did not count, and other transactions may have been prepared since.
        let before =
            self.prepared.take(txn).filter(|held| held.proposal.attempt < proposal.attempt);
        let vote = self.check(now, proposal);
        match vote {
            Vote::Ok => self.prepared.put(Held { proposal: proposal.clone(), sure: false }),
            _ => before.into_iter().for_each(|held| self.prepared.put(held)),
        }
        let (newest, latest, since_ns) = ((proposal.attempt, vote), proposal.at, now.boot_ns);
        let known = self.known.entry(txn).or_insert(Known { newest, latest, since_ns });
        (known.newest, known.latest) = (newest, latest.max(known.latest));
        if vote == Vote::Ok {
            known.since_ns = since_ns;
        }
        vote
    }

    /// Prepares to serve a snapshot of a range: nothing is written below its timestamp from now on.
    /// Returns false while a prepared transaction may write below it, because that transaction may
    /// have been reported as committed (Trap A.2-3).
    pub fn serves(&mut self, range: &KeyRange, at: Timestamp) -> bool {
        if self.prepared.writing(range).any(|proposal| proposal.at <= at)
            && !broken(rules::SNAPSHOTS_MISS_PREPARED)
        {
            sometimes!("a snapshot waits for what is prepared below it");
            return false;
        }
        if !broken(rules::SNAPSHOTS_UNGUARDED) {
            self.read.raise(range, at);
        }
        true
    }

    /// Records that a replica may have served snapshots of any range up to `through`.
    ///
    /// A replica whose clock is ahead by an hour records a fact that is an hour ahead, and the fact
    /// stays in the record. This replica accepts no more of it than it could vote for within the
    /// next moments: a snapshot is served by a quorum, so one that was read lies below what most
    /// clocks allow. The record keeps the fact, and each view that begins caps it anew. Until the
    /// next view no view decides above the cap of this one.
    pub fn served(&mut self, now: Reading, through: Timestamp) {
        let most = Timestamp::end_of(now.interval.latest.saturating_add(SERVED_AHEAD_NS));
        let through = if through > most && !broken(rules::CLOCKS_UNCAPPED) {
            sometimes!("a replica says that it has served snapshots in the future");
            most
        } else {
            through
        };
        self.served = self.served.max(through);
        if !broken(rules::SERVED_FORGOTTEN) {
            self.read.raise(&KeyRange::all(), through);
        }
    }

    /// Returns the timestamp of the newest commit that is known here.
    pub fn committed(&self) -> Timestamp {
        self.committed
    }

    /// Returns the highest timestamp at which a replica may have served snapshots.
    pub fn served_through(&self) -> Timestamp {
        self.served
    }

    /// Returns the shard's key range.
    pub fn bounds(&self) -> &KeyRange {
        &self.bounds
    }

    /// True if all keys of a range are this shard's.
    pub fn has(&self, range: &KeyRange) -> bool {
        self.bounds.contains_range(range) || self.own.contains_range(range)
    }

    fn has_key(&self, key: &Key) -> bool {
        self.bounds.contains(key) || self.own.contains(key)
    }

    /// Returns the closed and settled timestamps.
    pub fn past(&self) -> Past {
        self.past
    }

    /// Raises the closed timestamp: no proposal at or below is accepted any more.
    pub fn close(&mut self, through: Timestamp) {
        self.past.closed = self.past.closed.max(through);
    }

    /// Returns the state of a transaction for its recovery, and prepares no attempt of it from now
    /// on.
    pub fn resolve(&mut self, transaction: TransactionId) -> TxnStatus {
        match self.ended.get(&transaction) {
            Some((_, Some(proposal))) => return TxnStatus::Committed(proposal.clone()),
            Some((_, None)) => return TxnStatus::Aborted,
            None => {}
        }
        let stands = *self.fences.entry(transaction).or_insert(Fence::Heard) == Fence::Stands;
        if !stands && !broken(rules::RESOLVED_IN_ITS_VIEW) {
            return TxnStatus::Open;
        }
        let held = self.prepared.of(transaction).filter(|held| held.sure);
        held.map_or(TxnStatus::Never, |held| TxnStatus::Prepared(held.proposal.clone()))
    }

    /// Returns the transactions, with their participants, that have been prepared for at least
    /// `after_ns` without an outcome: their coordinators failed, or their messages were lost.
    pub fn overdue(&self, now: Reading, after_ns: u64) -> Vec<(TransactionId, Vec<ShardId>)> {
        let since = |proposal: &Proposal| {
            self.known.get(&proposal.transaction).map_or(0, |known| known.since_ns)
        };
        let late = self
            .prepared()
            .filter(|proposal| since(proposal).saturating_add(after_ns) <= now.boot_ns);
        late.map(|proposal| (proposal.transaction, proposal.participants.clone())).collect()
    }

    /// True if all reads and writes of a proposal are of this shard's keys, and the shard takes
    /// part.
    fn is_in_shard(&self, proposal: &Proposal) -> bool {
        proposal.participants.contains(&self.shard)
            && proposal.participants.is_sorted_by(|one, next| one < next)
            && proposal.reads.iter().all(|seen| self.has(&seen.range))
            && proposal.writes.iter().all(|write| self.has_key(&write.key))
    }

    /// Checks a proposal against the state of this replica.
    fn check(&self, now: Reading, proposal: &Proposal) -> Vote {
        if !self.is_in_shard(proposal) {
            return Vote::Abort;
        }
        let mut against = Against::default();
        if proposal.at.nanos > now.interval.latest.saturating_add(FAR_NS) {
            // This replica's own clock may be the wrong one: the other replicas decide.
            against.worst(Vote::Abstain);
        }
        if proposal.at <= self.past.closed && !broken(rules::CLOSED_SAYS_YES) {
            against.above(self.past.closed);
        }
        for seen in &proposal.reads {
            against.worst(self.reads(proposal.at, seen));
        }
        for write in &proposal.writes {
            let read = self.read.of(&write.key);
            if read >= proposal.at && !broken(rules::COMMITTED_READS_FREE) {
                against.above(read);
            }
            // A key that no transaction has read may be written in the past: the newer version
            // stays the newer one.
            let newest = self.written.get(&write.key).copied().unwrap_or_default();
            if newest >= proposal.at && self.guarantee == Guarantee::StrictlySerializable {
                against.above(newest);
            }
        }
        for other in self.prepared.beside(proposal) {
            against.worst(beside(self.guarantee, proposal, other));
        }
        against.vote()
    }

    /// Checks a read against the commits since.
    fn reads(&self, at: Timestamp, seen: &RangeRead) -> Vote {
        if seen.through < self.forgotten {
            sometimes!("something was read before what is forgotten");
            return Vote::Abort; // The versions written in between are no longer known one by one.
        }
        let newest = seen
            .versions
            .iter()
            .map(|(_, version)| *version)
            .max()
            .unwrap_or_default()
            .max(seen.through);
        let overwritten = |(key, newest): (&Key, &Timestamp)| {
            *newest > seen.through
                && seen.of(key).map_or(!broken(rules::PHANTOMS_PASS), |version| version < *newest)
        };
        if self.written.within(&seen.range).any(overwritten) {
            return Vote::Abort;
        }
        if newest >= at && !broken(rules::READS_FROM_THE_FUTURE) {
            Vote::Retry(newest)
        } else {
            Vote::Ok
        }
    }

    /// Records the end of a transaction. Returns its writes if it committed and they are not
    /// installed yet.
    pub fn end(&mut self, end: &End) -> Option<Installed> {
        let (transaction, at, committed) = match end {
            End::Commit(proposal) => (proposal.transaction, proposal.at, Some(proposal)),
            End::Abort { transaction, at } => (*transaction, *at, None),
        };
        if committed.is_some_and(|proposal| !self.is_in_shard(proposal)) {
            sometimes!("a commit of another shard is announced");
            return None;
        }
        let known = self.known.remove(&transaction);
        self.prepared.take(transaction);
        match self.fences.get_mut(&transaction) {
            // No end that is settled is kept below. A recovery learns that the aborted transaction
            // never commits.
            Some(fence) if at <= self.past.settled && committed.is_none() => *fence = Fence::Stands,
            _ => drop(self.fences.remove(&transaction)),
        }
        // Every replica has everything that is settled.
        if at <= self.past.settled || self.ended.contains_key(&transaction) {
            return None;
        }
        self.ended.insert(transaction, (at, committed.cloned()));
        let proposal = committed?;
        self.committed = at.max(self.committed);
        if known.is_none() {
            sometimes!("a commit comes to a replica that has not heard of it");
        }
        for seen in &proposal.reads {
            self.read.raise(&seen.range, at);
        }
        for write in &proposal.writes {
            let newest = self.written.slot(&write.key);
            *newest = at.max(*newest);
        }
        (!proposal.writes.is_empty()).then(|| (at, proposal.writes.clone()))
    }

    /// Adopts the record of a view that begins: decided proposals with their votes, transactions in
    /// recovery with whose `Resolve` the view begins, and ends. A proposal that is prepared here
    /// and is not in the record stays, because another shard may be committing it (Trap A.2-10). A
    /// transaction in recovery does not: every replica then knows of it what the record says, and
    /// nothing else.
    pub fn sync(
        &mut self,
        now: Reading,
        decided: &[(&Proposal, Vote)],
        asked: &[TransactionId],
        ends: &[&End],
    ) -> Vec<Installed> {
        // Between two views no replica receives outcomes, even if the coordinator is alive.
        self.known.values_mut().for_each(|known| known.since_ns = now.boot_ns);
        // A view that began here may have been bypassed: only the present record is the group's.
        self.prepared.suspect();
        self.fences.clear();
        let newest = newest_of(decided.iter().map(|(proposal, _)| *proposal));
        for transaction in asked.iter().filter(|transaction| !self.ended.contains_key(transaction))
        {
            self.known.remove(transaction);
            self.prepared.take(*transaction);
            // A transaction that is settled here ended in a view of which this record may lack a
            // part. Other replicas know its outcome. Its newest attempt decides: the record keeps
            // settled earlier ones while a replica is away, and they never commit.
            let is_settled = |(proposal, vote): &(&Proposal, Vote)| {
                proposal.transaction == *transaction
                    && *vote == Vote::Ok
                    && proposal.at <= self.past.settled
                    && !is_dead(&newest, proposal)
            };
            let fence = if decided.iter().any(is_settled) { Fence::Heard } else { Fence::Stands };
            self.fences.insert(*transaction, fence);
        }
        for (proposal, vote) in decided.iter().filter(|(proposal, _)| !is_dead(&newest, proposal)) {
            self.note(now, proposal, *vote);
        }
        ends.iter().filter_map(|end| self.end(end)).collect()
    }

    /// Adopts the group's vote on a transaction's newest attempt in the record.
    fn note(&mut self, now: Reading, proposal: &Proposal, vote: Vote) {
        let Some(known) = self.unended(now, proposal, vote) else { return };
        let dead = known.newest.0 > proposal.attempt;
        let held = self.prepared.of(proposal.transaction).map(|held| held.proposal.attempt);
        match vote {
            Vote::Ok if held == Some(proposal.attempt) => {
                self.prepared.mark(proposal.transaction, !dead)
            }
            Vote::Ok if dead || held > Some(proposal.attempt) => {}
            Vote::Ok => self.prepared.put(Held { proposal: proposal.clone(), sure: true }),
            // A newer attempt was opened, so the earlier ones will never commit.
            _ if held <= Some(proposal.attempt) => drop(self.prepared.take(proposal.transaction)),
            _ => {}
        }
    }

    /// Restores the replica's undecided votes when it is created, after [`sync`](Self::sync) with
    /// the decided ones.
    pub fn recall(&mut self, now: Reading, answered: &[(&Proposal, Vote)]) {
        self.forget(self.past.settled); // Of those the record may lack some.
        let mut answered = answered.to_vec();
        answered.sort_by_key(|(proposal, _)| (proposal.transaction, proposal.attempt));
        for (proposal, vote) in answered {
            let Some(known) = self.unended(now, proposal, vote) else { continue };
            let is_newest = known.newest.0 == proposal.attempt;
            let held = self.prepared.of(proposal.transaction).map(|held| held.proposal.attempt);
            if vote == Vote::Ok && is_newest && held < Some(proposal.attempt) {
                self.prepared.put(Held { proposal: proposal.clone(), sure: false });
            }
        }
    }

    /// Returns the entry of a transaction that has not ended, with this attempt noted as its newest
    /// one if it is.
    fn unended(&mut self, now: Reading, proposal: &Proposal, vote: Vote) -> Option<&mut Known> {
        if self.ended.contains_key(&proposal.transaction) || proposal.at <= self.past.settled {
            return None;
        }
        let (newest, latest, since_ns) = ((proposal.attempt, vote), proposal.at, now.boot_ns);
        let known = self.known.entry(proposal.transaction);
        let known = known.or_insert(Known { newest, latest, since_ns });
        known.latest = known.latest.max(proposal.at);
        if known.newest.0 <= proposal.attempt {
            known.newest = newest;
        }
        Some(known)
    }

    /// Decides, as the leader of a view, on proposals whose result is unknown, after
    /// [`sync`](Self::sync) with the known ones. A proposal in `likely` may have succeeded with its
    /// vote, and keeps it. A proposal in `open` did not succeed; this returns its vote, in the
    /// order of `open`. The likely ones are put back first and unchecked, and each open one is
    /// validated without this replica's former vote on it: no undecided proposal keeps out one that
    /// may be decided, or itself (Trap A.2-10).
    pub fn merge(
        &mut self,
        now: Reading,
        likely: &[(&Proposal, Vote)],
        open: &[&Proposal],
    ) -> Vec<Vote> {
        let mut newest =
            newest_of(likely.iter().map(|(proposal, _)| *proposal).chain(open.iter().copied()));
        for (transaction, attempt) in &mut newest {
            let Some(known) = self.known.get(transaction) else { continue };
            *attempt = known.newest.0.max(*attempt);
            // Every replica will know of the newer attempt: this one will never commit.
            if self.prepared.of(*transaction).is_some_and(|held| held.proposal.attempt < *attempt) {
                self.prepared.take(*transaction);
            }
        }
        for (proposal, vote) in likely.iter().filter(|(proposal, _)| !is_dead(&newest, proposal)) {
            self.note(now, proposal, *vote);
        }
        let mut living: Vec<(usize, &Proposal)> = open
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, proposal)| !is_dead(&newest, proposal))
            .collect();
        living.sort_by_key(|(_, proposal)| proposal.transaction);
        let newest_commit = self.committed.max(self.past.settled);
        let far = Timestamp::end_of(newest_commit.nanos.saturating_add(OPEN_AHEAD_NS));
        let is_far = |at: Timestamp| {
            newest_commit > Timestamp::ZERO && at > far && !broken(rules::CLOCKS_UNCAPPED)
        };
        let mut votes = vec![Vote::Abstain; open.len()];
        for (place, proposal) in living {
            if is_far(proposal.at) {
                sometimes!("the leader of a view rejects an open proposal of the far future");
                self.note(now, proposal, Vote::Abstain);
            } else {
                votes[place] = self.prepare(now, proposal);
            }
        }
        votes
    }

    /// Raises the closed and settled timestamps, and forgets single versions at or below the former
    /// settled timestamp. When a replica is created the former one is not known, and it forgets
    /// everything that is settled ([`recall`](Self::recall)).
    pub fn settle(&mut self, past: Past) {
        if past.settled > self.past.settled {
            let known =
                if std::mem::take(&mut self.takes_over) { past.settled } else { self.past.settled };
            self.forget(known);
        }
        self.past = self.past.join(past);
        // Every transaction that commits there has done so.
        let settled = self.past.settled;
        self.prepared.take_if(|proposal| proposal.at <= settled);
        self.known.retain(|_, known| known.latest > settled);
        self.ended.retain(|_, (at, committed)| {
            let of_many =
                committed.as_ref().is_some_and(|proposal| proposal.participants.len() > 1);
            *at > settled || of_many && !broken(rules::NAMES_FORGOTTEN)
        });
        for (_, committed) in self.ended.values_mut().filter(|(at, _)| *at <= settled) {
            *committed = committed.as_ref().map(Proposal::name);
        }
    }

    fn forget(&mut self, through: Timestamp) {
        self.forgotten = self.forgotten.max(through);
        self.written.retain(|at| *at > through);
        self.read.forget(through);
    }
}

/// Returns the newest attempt of each transaction.
fn newest_of<'a>(proposals: impl Iterator<Item = &'a Proposal>) -> BTreeMap<TransactionId, u32> {
    let mut newest = BTreeMap::new();
    for proposal in proposals {
        let known = newest.entry(proposal.transaction).or_insert(proposal.attempt);
        *known = proposal.attempt.max(*known);
    }
    newest
}

/// True if a newer attempt was opened: then this one will never commit.
fn is_dead(newest: &BTreeMap<TransactionId, u32>, proposal: &Proposal) -> bool {
    newest.get(&proposal.transaction).is_some_and(|newest| proposal.attempt < *newest)
}

/// Checks a new proposal against another transaction that may commit, or has.
fn beside(guarantee: Guarantee, new: &Proposal, old: &Proposal) -> Vote {
    let mut against = Against::default();
    for write in &old.writes {
        // A read that has seen the version knows more than this replica: the transaction has
        // committed.
        let misses = |seen: &RangeRead| {
            seen.range.contains(&write.key)
                && seen.of(&write.key).unwrap_or_default().max(seen.through) < old.at
        };
        if new.reads.iter().any(misses) {
            match guarantee {
                // If the other transaction commits, the new one has read an old version.
                _ if old.at < new.at => against.worst(Vote::Abstain),
                Guarantee::StrictlySerializable => against.above(old.at),
                Guarantee::Serializable => {}
            }
        }
        let same = new.writes.iter().any(|own| own.key == write.key);
        if same && old.at >= new.at && guarantee == Guarantee::StrictlySerializable {
            against.above(old.at);
        }
    }
    let read = |write: &Write| old.reads.iter().any(|seen| seen.range.contains(&write.key));
    if old.at >= new.at && new.writes.iter().any(read) {
        against.above(old.at);
    }
    against.vote()
}

/// The objections to a proposal. The worst of them is the vote.
#[derive(Default)]
struct Against {
    abort: bool,
    abstain: bool,
    retry: Option<Timestamp>,
}

impl Against {
    fn above(&mut self, at: Timestamp) {
        self.retry = self.retry.max(Some(at));
    }

    fn worst(&mut self, vote: Vote) {
        match vote {
            Vote::Ok | Vote::Late => {} // A late proposal is not validated.
            Vote::Abstain => self.abstain = true,
            Vote::Retry(above) => self.above(above),
            Vote::Abort => self.abort = true,
        }
    }

    fn vote(self) -> Vote {
        match (self.abort, self.abstain, self.retry) {
            (true, _, _) => Vote::Abort,
            (_, true, _) => Vote::Abstain,
            (_, _, Some(above)) => Vote::Retry(above),
            _ => Vote::Ok,
        }
    }
}
