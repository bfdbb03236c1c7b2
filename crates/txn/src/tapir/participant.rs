//! What a replica answers to a proposal, and what it keeps of those that it has said yes to.
//!
//! It holds in memory what was written and read above what is settled, and a bit longer; at or
//! below that every replica has the same, and nothing is proposed any more.

use super::highest::Highest;
use super::prepared::{Held, Prepared};
use super::slots::Slots;
use super::{End, Guarantee, Past, Proposal, Seen, Standing, Vote};
use crate::TransactionId;
use crate::tapir::rules;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{ShardId, sometimes};
use meridian_mvcc::{Key, KeyRange, Write, local};
use std::collections::BTreeMap;

/// Who proposes a timestamp so far ahead has a clock that is wrong, or wants to keep others from
/// their keys (Trap A.2-1). Sessions go half as far.
const FAR_NS: u64 = 1_000_000_000;
/// A replica serves no snapshot farther ahead of its clock than this, in nanoseconds; the excess
/// over the distance to which it says yes covers what clocks differ by within their bounds. What
/// another replica says to have served beyond is the word of a clock that is wrong.
const SERVED_AHEAD_NS: u64 = FAR_NS + 500_000_000;

/// As the leader of a view a replica says yes to no open proposal that is farther above the newest
/// commit than this, in nanoseconds. Its own clock is no measure: if that is an hour ahead, it may
/// be alone with what the others rejected. Where nothing has committed nothing else is.
const OPEN_AHEAD_NS: u64 = 10_000_000_000;

/// A transaction that was looked at here, and may be prepared.
#[derive(Clone, Debug)]
struct Known {
    /// The newest attempt that was looked at, and what was said of it: reported to who recovers the
    /// transaction, whatever is prepared (Trap A.2-2).
    newest: (u32, Vote),
    /// The highest timestamp of an attempt that was heard of.
    latest: Timestamp,
    /// When it was prepared or the last view began, whichever is later, by the boot clock: its
    /// outcome could have arrived since.
    since_ns: u64,
}

/// Somebody asks what became of a transaction. No attempt is prepared any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fence {
    /// It was heard of in this view.
    Heard,
    /// A view has begun with it: of what is known here of the transaction nothing is undecided.
    Stands,
}

/// One replica's part of a shard's transactions.
#[derive(Clone, Debug)]
pub struct Participant {
    guarantee: Guarantee,
    shard: ShardId,
    bounds: KeyRange,
    /// Rows about the shard itself that sessions read and write.
    own: KeyRange,
    known: BTreeMap<TransactionId, Known>,
    /// Of those that are known: the attempt that was found good.
    prepared: Prepared,
    fences: BTreeMap<TransactionId, Fence>,
    /// Who has ended: when, and as what if it committed. Forgotten once that is settled: then its
    /// proposals are refused for their timestamp. The names of commits of several shards stay.
    ended: BTreeMap<TransactionId, (Timestamp, Option<Proposal>)>,
    /// The newest version of each key, if it is not settled.
    written: Slots<Timestamp>,
    /// Who has committed, or read at a snapshot, has read up to here.
    read: Highest,
    /// Some replica may have served snapshots up to here.
    served: Timestamp,
    /// The newest commit that was heard of. Its timestamp was accepted by a quorum of replicas,
    /// each by its own clock.
    committed: Timestamp,
    /// Nothing is said yes to at or below the first any more; everything at or below the second has
    /// ended, everywhere.
    past: Past,
    /// It takes over: of what was settled when it began it knows nothing apart.
    takes_over: bool,
    /// What was settled before, up to where nothing is known apart any more: who read before the
    /// newest view began may still be validated.
    forgotten: Timestamp,
}

/// What is to be installed: versions of one commit.
pub type Installed = (Timestamp, Vec<Write>);

impl Participant {
    /// Nobody has been here. A shard has these keys.
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

    /// One that has nothing of what was settled before its first view.
    pub fn taking_over(self) -> Self {
        Participant { takes_over: true, ..self }
    }

    /// What stands in a range above what is settled, for a read of it that is to be validated; its
    /// keys are in order.
    pub fn see(&self, range: &KeyRange) -> Seen {
        let unsettled = self.written.within(range).filter(|(_, at)| **at > self.past.settled);
        let versions = unsettled.map(|(key, at)| (key.clone(), *at)).collect();
        Seen { range: range.clone(), versions, through: self.past.settled }
    }

    /// What is prepared here, in no order that means anything.
    pub fn prepared(&self) -> impl Iterator<Item = &Proposal> {
        self.prepared.iter()
    }

    /// The attempt of this name, if it is prepared here.
    pub fn prepared_as(&self, name: &Proposal) -> Option<&Proposal> {
        let held = self.prepared.of(name.transaction).map(|held| &held.proposal);
        held.filter(|proposal| (proposal.attempt, proposal.at) == (name.attempt, name.at))
    }

    /// The newest attempt of a transaction that was looked at here, and what was said of it.
    pub fn newest(&self, transaction: TransactionId) -> Option<(u32, Vote)> {
        self.known.get(&transaction).map(|known| known.newest)
    }

    /// Whether a transaction has ended here, and as a commit.
    pub fn ended(&self, transaction: TransactionId) -> Option<bool> {
        self.ended.get(&transaction).map(|(_, committed)| committed.is_some())
    }

    /// Looks at a proposal, and says what comes of it.
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
        let who = proposal.transaction;
        // The newest is the one that counts.
        if self.known.get(&who).is_some_and(|known| proposal.attempt < known.newest.0) {
            sometimes!("an attempt comes that is not the newest");
            return Vote::Abstain;
        }
        if self.prepared.of(who).is_some() && broken(rules::PREPARED_UNCHECKED) {
            return Vote::Ok;
        }
        // Without its own former attempt: no transaction conflicts with itself. What was prepared
        // may yet be decided on, by who recovers it; not so the same attempt: it is asked for again
        // where a view began without it, what was said of it did not count, and others may have
        // been said yes to since.
        let before =
            self.prepared.take(who).filter(|held| held.proposal.attempt < proposal.attempt);
        let vote = self.check(now, proposal);
        match vote {
            Vote::Ok => self.prepared.put(Held { proposal: proposal.clone(), sure: false }),
            _ => before.into_iter().for_each(|held| self.prepared.put(held)),
        }
        let (newest, latest, since_ns) = ((proposal.attempt, vote), proposal.at, now.boot_ns);
        let known = self.known.entry(who).or_insert(Known { newest, latest, since_ns });
        (known.newest, known.latest) = (newest, latest.max(known.latest));
        if vote == Vote::Ok {
            known.since_ns = since_ns;
        }
        vote
    }

    /// A snapshot of a range is to be read here: nothing is written below it from now on. Whether
    /// it can be: not as long as somebody is prepared who may write below it, and may have been
    /// told that he did (Trap A.2-3).
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

    /// Some replica may have served snapshots of any range up to here.
    ///
    /// A replica whose clock is ahead by an hour says so an hour ahead, and its word stays in the
    /// record. No more of that is believed than this replica could say yes to within the next
    /// moments: a snapshot is served by a quorum, so one that was read lies below what most clocks
    /// allow. The record keeps the word, and each view that begins looks at it anew: until the next
    /// one no view decides above the cap of this one.
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

    /// The newest commit that was heard of here.
    pub fn committed(&self) -> Timestamp {
        self.committed
    }

    /// The highest that was heard of.
    pub fn served_through(&self) -> Timestamp {
        self.served
    }

    /// The shard's keys.
    pub fn bounds(&self) -> &KeyRange {
        &self.bounds
    }

    /// Whether all keys of a range are this shard's.
    pub fn has(&self, range: &KeyRange) -> bool {
        self.bounds.contains_range(range) || self.own.contains_range(range)
    }

    fn has_key(&self, key: &Key) -> bool {
        self.bounds.contains(key) || self.own.contains(key)
    }

    /// Up to where this shard's past is over.
    pub fn past(&self) -> Past {
        self.past
    }

    /// Nothing is said yes to at or below this any more.
    pub fn close(&mut self, through: Timestamp) {
        self.past.closed = self.past.closed.max(through);
    }

    /// Says how a transaction stands, to who recovers it; and prepares no attempt of it from now
    /// on.
    pub fn resolve(&mut self, transaction: TransactionId) -> Standing {
        match self.ended.get(&transaction) {
            Some((_, Some(proposal))) => return Standing::Committed(proposal.clone()),
            Some((_, None)) => return Standing::Aborted,
            None => {}
        }
        let stands = *self.fences.entry(transaction).or_insert(Fence::Heard) == Fence::Stands;
        if !stands && !broken(rules::RESOLVED_IN_ITS_VIEW) {
            return Standing::Open;
        }
        let held = self.prepared.of(transaction).filter(|held| held.sure);
        held.map_or(Standing::Never, |held| Standing::Prepared(held.proposal.clone()))
    }

    /// Transactions of which nobody has said for so long what became of them, and who takes part in
    /// each: their coordinators are gone, or what they said was lost.
    pub fn overdue(&self, now: Reading, after_ns: u64) -> Vec<(TransactionId, Vec<ShardId>)> {
        let since = |proposal: &Proposal| {
            self.known.get(&proposal.transaction).map_or(0, |known| known.since_ns)
        };
        let late = self
            .prepared()
            .filter(|proposal| since(proposal).saturating_add(after_ns) <= now.boot_ns);
        late.map(|proposal| (proposal.transaction, proposal.participants.clone())).collect()
    }

    /// Whether all that a transaction has read and writes here is this shard's, and it takes part.
    fn is_at_home(&self, proposal: &Proposal) -> bool {
        proposal.participants.contains(&self.shard)
            && proposal.participants.is_sorted_by(|one, next| one < next)
            && proposal.reads.iter().all(|seen| self.has(&seen.range))
            && proposal.writes.iter().all(|write| self.has_key(&write.key))
    }

    /// What there is against a proposal.
    fn check(&self, now: Reading, proposal: &Proposal) -> Vote {
        if !self.is_at_home(proposal) {
            return Vote::Abort;
        }
        let mut against = Against::default();
        if proposal.at.nanos > now.interval.latest.saturating_add(FAR_NS) {
            // One's own clock may be the wrong one: the others decide.
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
            // What nobody has read may be written in the past: the newer version stays the newer
            // one.
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

    /// What has committed since something was read.
    fn reads(&self, at: Timestamp, seen: &Seen) -> Vote {
        if seen.through < self.forgotten {
            sometimes!("something was read before what is forgotten");
            return Vote::Abort; // What was written in between is not known apart any more.
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

    /// A transaction has ended. What it wrote, if it did and that is not installed yet.
    pub fn end(&mut self, end: &End) -> Option<Installed> {
        let (transaction, at, committed) = match end {
            End::Commit(proposal) => (proposal.transaction, proposal.at, Some(proposal)),
            End::Abort { transaction, at } => (*transaction, *at, None),
        };
        if committed.is_some_and(|proposal| !self.is_at_home(proposal)) {
            sometimes!("somebody tells of a commit that is another shard's");
            return None;
        }
        let known = self.known.remove(&transaction);
        self.prepared.take(transaction);
        self.fences.remove(&transaction);
        // What is settled everybody has.
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

    /// These are the group's: what was decided of proposals, who has ended, and of whom the view
    /// has begun with a question what became of them. What is prepared here and is not among them
    /// stays: another shard may be committing it (Trap A.2-10). Not so if somebody asks: then
    /// everybody knows of it what the record says, and nothing else.
    pub fn sync(
        &mut self,
        now: Reading,
        decided: &[(&Proposal, Vote)],
        asked: &[TransactionId],
        ends: &[&End],
    ) -> Vec<Installed> {
        // Between two views no replica hears what became of a transaction, however alive its
        // coordinator is.
        self.known.values_mut().for_each(|known| known.since_ns = now.boot_ns);
        // A view that began here may have been bypassed: only what is said now is the group's.
        self.prepared.doubt();
        self.fences.clear();
        for transaction in asked.iter().filter(|transaction| !self.ended.contains_key(transaction))
        {
            self.known.remove(transaction);
            self.prepared.take(*transaction);
            // What is settled here ended in a view of which this one may know less: what became of
            // it others say.
            let is_settled = |(proposal, vote): &(&Proposal, Vote)| {
                proposal.transaction == *transaction
                    && *vote == Vote::Ok
                    && proposal.at <= self.past.settled
            };
            let fence = if decided.iter().any(is_settled) { Fence::Heard } else { Fence::Stands };
            self.fences.insert(*transaction, fence);
        }
        let newest = newest_of(decided.iter().map(|(proposal, _)| *proposal));
        for (proposal, vote) in decided.iter().filter(|(proposal, _)| !is_dead(&newest, proposal)) {
            self.note(now, proposal, *vote);
        }
        ends.iter().filter_map(|end| self.end(end)).collect()
    }

    /// The group has said so of a transaction's newest attempt that it has said something of.
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
            // It was opened, so those before it will never commit.
            _ if held <= Some(proposal.attempt) => drop(self.prepared.take(proposal.transaction)),
            _ => {}
        }
    }

    /// A replica is born, after [`sync`](Self::sync) with what it knows to be decided. It has
    /// answered this, and nobody is known to have decided: that stands.
    pub fn recall(&mut self, now: Reading, answered: &[(&Proposal, Vote)]) {
        self.forget(self.past.settled); // Of that the record has not everything.
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

    /// Where something is to be noted of a transaction that has not ended; its newest attempt is at
    /// least this one.
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

    /// Decides, as the leader of a view, on proposals that nobody is known to have decided on;
    /// after [`sync`](Self::sync) with what is known. `likely` may have been successful with this
    /// vote, and stay so; `open` were not: votes on those, in this order. What is likely is put
    /// back first and unchecked, and each that is open is looked at without what this replica has
    /// said of it: no undecided one keeps out one that may be decided, or itself (Trap A.2-10).
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
            // Everybody will know of the newer one: this one will never commit.
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

    /// So much of the past is over. What was settled before is forgotten; at a replica's birth that
    /// is not known, and everything is ([`recall`](Self::recall)).
    pub fn settle(&mut self, past: Past) {
        if past.settled > self.past.settled {
            let known =
                if std::mem::take(&mut self.takes_over) { past.settled } else { self.past.settled };
            self.forget(known);
        }
        self.past = self.past.join(past);
        // Nobody will come to commit there who has not.
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

/// The newest attempt of each transaction.
fn newest_of<'a>(proposals: impl Iterator<Item = &'a Proposal>) -> BTreeMap<TransactionId, u32> {
    let mut newest = BTreeMap::new();
    for proposal in proposals {
        let known = newest.entry(proposal.transaction).or_insert(proposal.attempt);
        *known = proposal.attempt.max(*known);
    }
    newest
}

/// Whether a newer attempt was opened: then this one will never commit.
fn is_dead(newest: &BTreeMap<TransactionId, u32>, proposal: &Proposal) -> bool {
    newest.get(&proposal.transaction).is_some_and(|newest| proposal.attempt < *newest)
}

/// What a transaction that may commit, or has, says against another one.
fn beside(guarantee: Guarantee, new: &Proposal, old: &Proposal) -> Vote {
    let mut against = Against::default();
    for write in &old.writes {
        // Who has seen what it wrote knows more than this replica: it has committed.
        let misses = |seen: &Seen| {
            seen.range.contains(&write.key)
                && seen.of(&write.key).unwrap_or_default().max(seen.through) < old.at
        };
        if new.reads.iter().any(misses) {
            match guarantee {
                // If it commits, something else was to be read.
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

/// What was found against a proposal: the worst of it counts.
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
            Vote::Ok | Vote::Late => {} // What is late is not looked at.
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
