//! Requests of sessions to a leader: locks, reads, commits and prepares, and which of them wait or
//! give way.

use super::blind::Heard;
use super::participant::{Live, Pending};
use super::two_phase::{Asked, Ballot, Decider};
use super::{Member, Message};
use crate::spanner::rules;
use meridian_clock::{Reading, Timestamp, TimestampPolicy};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Health, Outbox, sometimes};
use meridian_mvcc::KeyRange;
use meridian_txn::locking::rules as locking_rules;
use meridian_txn::locking::{
    Ask, Blind, Footing, Reply, Request, Spent, Ticket, TransactionId, Verdict, Vote,
};
use meridian_txn::{Conflict, Lock};

impl<T: TimestampPolicy> Member<T> {
    pub(super) fn on_ask(
        &mut self,
        now: Reading,
        from: Address,
        mut request: Request,
        out: &mut Outbox<Member<T>>,
    ) {
        let id = request.id;
        if let Ask::Commit { writes, .. } | Ask::Prepare { writes, .. } = &mut request.ask {
            // They are mostly sorted already. Readers search them by bisection.
            writes.sort_by(|one, other| one.key.cmp(&other.key));
        }
        self.is_wanted(now, out);
        // A request that names a later term proves that this leader was replaced without noticing.
        let named =
            request.footing.map(|footing| footing.term).or(request.blind.map(|blind| blind.term));
        let deposed = named.is_some_and(|term| term > self.group.term().0);
        if !self.serving || !self.group.is_leader() || deposed {
            if deposed && self.serving {
                sometimes!("a leader learns from a request that it was replaced");
            }
            let leader = self.group.leader().filter(|leader| *leader != self.me).map(|node| node.0);
            return out.send(from, Message::Answer(Reply::NotLeader { id, leader }));
        }
        let transaction = request.transaction;
        if !matches!(request.ask, Ask::Abort | Ask::KeepAlive | Ask::Withdraw) {
            self.count(now, from.node, 1, out);
        }
        match &request.ask {
            Ask::Read { range, .. } | Ask::Snapshot { range, .. } | Ask::LastTs { range }
                if !self.bounds.contains_range(range) =>
            {
                self.say_moved(from, &request, out);
            }
            Ask::Read { .. }
                if self.parks(from, &request) || self.holds_back(now, from, &request, out) => {}
            // Sends a new attempt to the transfer target, which is about to lead.
            Ask::Read { .. }
                if request.footing.is_none()
                    && !self.participant.live.contains_key(&transaction)
                    && self.workload.heir.is_some() =>
            {
                let leader = self.workload.heir.map(|(heir, _)| heir.0);
                out.send(from, Message::Answer(Reply::NotLeader { id, leader }));
            }
            Ask::Abort if self.participant.collecting.contains_key(&transaction) => {
                self.abort_collecting(now, transaction, Conflict::RolledBack, out);
            }
            // The coordinator decides its outcome.
            Ask::Abort
                if self.coordinator_of(transaction).is_some()
                    || self.participant.readers.contains_key(&transaction) => {}
            Ask::Abort => {
                self.forget(now, transaction, out);
                self.participant.live.remove(&transaction);
            }
            Ask::Snapshot { .. } => self.on_snapshot(now, from, request, out),
            Ask::LastTs { range } => self.on_last_ts(now, from, id, range, out),
            Ask::Split { at, shard } => {
                self.on_split(now, (from, id), transaction, (at.clone(), *shard), out)
            }
            Ask::Members(members) => self.on_members(now, (from, id), members, out),
            Ask::KeepAlive => self.participant.locks.touch(now.boot_ns, transaction),
            Ask::Withdraw => {
                self.wants_no_answer(transaction);
                if let Some(live) =
                    self.participant.live.get_mut(&transaction).filter(|live| live.newest < id)
                {
                    live.newest = id; // Older requests may still arrive.
                    self.withdraw(now, transaction, out);
                }
            }
            ask @ Ask::Prepare { .. }
                if Decider::of(ask)
                    .is_some_and(|decider| self.has_voted(from, transaction, id, decider, out)) => {
            }
            Ask::Read { .. } | Ask::Commit { .. } | Ask::Prepare { .. }
                if self.repeats(now, from, &request, out) =>
            {
                self.participant.locks.touch(now.boot_ns, transaction);
            }
            Ask::Read { range, lock, nowait, .. } => {
                let (range, lock, nowait) = (range.clone(), *lock, *nowait);
                if !self.admit(from, &request, out) {
                } else if nowait
                    && self.participant.locks.would_wait(transaction, request.age, &range, lock)
                {
                    sometimes!("a read does not wait for a lock");
                    let birth =
                        self.participant.live.get(&transaction).map_or(0, |live| live.birth);
                    let footing = Footing { term: self.group.term().0, birth };
                    out.send(from, Message::Answer(Reply::Locked { id, footing }));
                } else {
                    self.acquire(now, Pending::new(from, request), range, lock, out);
                }
            }
            Ask::Commit { .. } => {
                // A repeated request is answered like the first once that has passed (Trap A.5-11).
                // A commit in commit wait counts even if its outcome was already forgotten in
                // favour of newer ones.
                let remembers = !broken(rules::OUTCOMES_FORGOTTEN);
                if let Some(passing) = self.participant.passing.find_of(transaction, |_| remembers)
                {
                    sometimes!("a commit is asked for again after it was agreed");
                    passing.asked = Some((from, id));
                    return;
                }
                if let Some(at) = self.participant.outcome_of(transaction).filter(|_| remembers) {
                    sometimes!("a commit is asked for again after it was agreed");
                    return out.send(
                        from,
                        Message::Answer(Reply::Committed { id, at, spent: Spent::default() }),
                    );
                }
                if !self.hears_blindly(now, from, &request, out) {
                    return;
                }
                // A commit without a lock epoch cannot be told from a late copy of itself:
                // coordinators that have locked something always name one.
                if let Some(footing) = request.footing
                    && footing.term <= self.participant.forgotten.0
                    && self
                        .participant
                        .live
                        .get(&transaction)
                        .is_none_or(|live| live.birth != footing.birth)
                {
                    return out.send(from, Message::Answer(Reply::Unknown { id }));
                }
                if self.admit(from, &request, out) {
                    self.lock_writes(now, Pending::new(from, request), out);
                }
            }
            Ask::Prepare { .. } => {
                if self.hears_blindly(now, from, &request, out) && self.admit(from, &request, out) {
                    self.lock_writes(now, Pending::new(from, request), out);
                }
            }
        }
    }

    /// True if the same request is already pending, or a newer one has arrived. A pending request
    /// then answers to this number instead. If false, the attempt's earlier request is withdrawn.
    pub(super) fn repeats(
        &mut self,
        now: Reading,
        from: Address,
        request: &Request,
        out: &mut Outbox<Member<T>>,
    ) -> bool {
        if self
            .participant
            .live
            .get(&request.transaction)
            .is_some_and(|live| request.id < live.newest)
        {
            sometimes!("an old question comes late");
            return true;
        }
        if let Some(pending) = self.under_way(request) {
            sometimes!("a question is asked again while it waits");
            (pending.from, pending.request.id) = (from, request.id);
            out.send(from, Message::Answer(Reply::Waiting { id: request.id }));
            return true;
        }
        self.withdraw(now, request.transaction, out);
        false
    }

    /// Returns the pending request of the same attempt with the same content.
    fn under_way(&mut self, request: &Request) -> Option<&mut Pending> {
        let who = request.transaction;
        let same = |pending: &Pending| {
            pending.request.transaction == who && pending.request.ask == request.ask
        };
        let collecting =
            self.participant.collecting.get_mut(&who).map(|collecting| &mut collecting.pending);
        // These are few: requests that wait for the lease to reach further, and schema changes.
        let others = self
            .participant
            .ready
            .iter_mut()
            .chain(&mut self.participant.would_vote)
            .chain(self.participant.schemas.under_way());
        let mut drawn = collecting.into_iter().chain(others).filter(|pending| same(pending));
        let agreed_on = self.participant.agreeing.find_of(who, same).or_else(|| drawn.next());
        agreed_on.or_else(|| self.participant.pending.find_of(who, same))
    }

    /// Withdraws the attempt's request for a lock, if one waits.
    fn withdraw(&mut self, now: Reading, transaction: TransactionId, out: &mut Outbox<Member<T>>) {
        if self.participant.pending.withdraw(transaction) {
            let verdicts = self.participant.locks.withdraw(transaction);
            self.judge(now, verdicts, out);
        }
    }

    /// True if a request may proceed as far as one-shot rules are concerned: it is not one-shot, or
    /// is admitted, or was. Otherwise refuses it for good and answers that.
    fn hears_blindly(
        &mut self,
        now: Reading,
        from: Address,
        request: &Request,
        out: &mut Outbox<Member<T>>,
    ) -> bool {
        let Some(Blind { term, by }) = request.blind else { return true };
        if now.health != Health::Good && !broken(locking_rules::FENCED_SERVES) {
            return false; // The deadline needs a clock. The session sends it again.
        }
        let (who, id, this) = (request.transaction, request.id, self.group.term().0);
        let begun = self.participant.live.contains_key(&who);
        let doomed = self.participant.live.get(&who).is_some_and(|live| live.doomed.is_some());
        if broken(rules::BLIND_TWICE) {
            return true;
        }
        let heard = match () {
            // An earlier term's outcome may be forgotten. This term does not admit it.
            () if term != this && term > self.participant.forgotten.0 => Heard::Known,
            () if term != this => Heard::Late,
            () => self.participant.blinds.hear(now.interval.latest, who, by),
        };
        let heard = match heard {
            Heard::Known if begun && self.participant.blinds.knows(who) => return true,
            Heard::Known | Heard::Late if doomed => return true, // `admit` answers the reason.
            // A transaction that locks first waits for its locks. A one-shot commit must not delay
            // a split, transfer or schema change.
            Heard::New if !begun && !self.is_awaited(now, request) => return true,
            Heard::New => Heard::Known,
            heard => heard,
        };
        match (heard, &request.ask) {
            (Heard::Late, Ask::Commit { .. }) => {
                sometimes!("a commit that was asked for blindly comes too late");
                out.send(from, Message::Answer(Reply::TooLate { id }));
            }
            _ => {
                sometimes!("an attempt that has locked nothing is to lock first");
                for Ballot { shard, node, term: voted_in, vote } in
                    self.participant.blinds.take_early(who)
                {
                    let reads = matches!(vote, Vote::Read { .. });
                    let asked = Asked {
                        transaction: who,
                        blind: request.blind,
                        decides: term,
                        voted_in,
                        reads,
                    };
                    self.tell_voter(now, self.seat(node, shard), asked, out);
                }
                self.refuse(&Pending::new(from, request.clone()), Conflict::LeaderChanged, out);
            }
        }
        false
    }

    /// True if a split, a leadership transfer or a schema change waits for attempts to end.
    fn is_awaited(&self, now: Reading, request: &Request) -> bool {
        let change =
            || self.participant.schemas.changes_from(request.transaction, &request.planned);
        self.splitting.is_some()
            || self.workload.heir.is_some()
            || change().is_some_and(|(from, _)| from.nanos <= now.interval.latest)
    }

    /// True if the attempt may proceed here; admits a new one. Otherwise answers the reason.
    pub(super) fn admit(
        &mut self,
        from: Address,
        request: &Request,
        out: &mut Outbox<Member<T>>,
    ) -> bool {
        let newest = request.id;
        let why = match (request.footing, self.participant.live.get_mut(&request.transaction)) {
            (Some(footing), _) if footing.term != self.group.term().0 => {
                Some(Conflict::LeaderChanged)
            }
            (Some(_), None) => Some(Conflict::Expired),
            (Some(footing), Some(live)) if footing.birth != live.birth => {
                sometimes!("an attempt was born again by an old question");
                Some(Conflict::Expired)
            }
            (None, None) if self.participant.outcomes.contains_key(&request.transaction) => {
                sometimes!("a first question comes after its transaction has ended");
                return false;
            }
            (None, None) => {
                self.participant.births += 1;
                let votes = self.participant.blinds.take_early(request.transaction);
                let application = match &request.ask {
                    Ask::Read { application, .. } => application.clone(),
                    _ => None,
                };
                let (birth, age) = (self.participant.births, request.age);
                let live =
                    Live { birth, age, application, doomed: None, newest, gateway: from, votes };
                self.participant.live.insert(request.transaction, live);
                None
            }
            (_, Some(live)) => {
                live.newest = newest;
                live.doomed.clone().filter(|_| !broken(rules::WOUNDED_GOES_ON))
            }
        };
        if let Some(why) = why {
            self.refuse(&Pending::new(from, request.clone()), why, out);
            return false;
        }
        true
    }

    /// Locks the keys of a commit or a prepare one after the other. It is a loop, not a recursion,
    /// because there may be millions of keys.
    pub(super) fn lock_writes(
        &mut self,
        now: Reading,
        mut pending: Pending,
        out: &mut Outbox<Member<T>>,
    ) {
        let (who, age) = (pending.request.transaction, pending.request.age);
        let (Ask::Commit { writes, .. } | Ask::Prepare { writes, .. }) = &pending.request.ask
        else {
            unreachable!("only those lock writes")
        };
        if writes.iter().any(|write| !self.bounds.contains(&write.key))
            || !self.has_all(pending.change())
        {
            // A split has moved some of the keys, which ended the attempt's locks, or the
            // coordinator sent keys that were never here.
            return self.judge_unplaced(now, pending, out);
        }
        while let Some(write) = writes.get(pending.locked) {
            let range = KeyRange::point(write.key.clone());
            self.participant.next_ticket += 1;
            let ticket = self.participant.next_ticket;
            let verdicts = self.participant.locks.acquire(
                now.boot_ns,
                who,
                age,
                range,
                Lock::Exclusive,
                ticket,
            );
            if verdicts != [Verdict::Granted(ticket)] {
                sometimes!("a commit waits for a lock");
                return self.wait(now, ticket, pending, verdicts, out);
            }
            pending.locked += 1;
        }
        match &pending.request.ask {
            _ if pending.change().is_some() && !pending.registered => {
                return self.register(now, pending, out);
            }
            Ask::Prepare { .. } => return self.prepare(pending, out),
            Ask::Commit { participants, .. } if !participants.is_empty() => {
                return self.collect(now, pending, out);
            }
            _ => {}
        }
        let leads = broken(rules::LEASE_UNCHECKED_AT_COMMIT)
            || now.interval.latest < self.leased_until(now);
        let only_read = pending.locked == 0 && pending.change().is_none();
        let as_of = if only_read && leads { self.as_of(now) } else { None };
        if let Some(why) = as_of.and_then(|at| self.unfit(&pending.request, at)) {
            return self.refuse_drawn(now, pending, why, out);
        }
        if let Some(at) = as_of {
            // The transaction only read. Its locks were held under one lease from its first read to
            // now, so everything it read is still current, and nothing needs to be agreed on.
            let id = pending.request.id;
            out.send(
                pending.from,
                Message::Answer(Reply::Committed { id, at, spent: Spent::default() }),
            );
            self.participant.live.remove(&who);
            self.participant.remember(who, at, self.group.term());
            return self.forget(now, who, out);
        }
        if only_read {
            sometimes!("a transaction that only read commits through the log, for want of a lease");
        }
        self.participant.locks.committing(who);
        self.participant.ready.push_back(pending);
    }

    /// Returns a timestamp of the current state, at or above everything that was acknowledged
    /// anywhere. `None` if that needs a new ceiling.
    fn as_of(&mut self, now: Reading) -> Option<Timestamp> {
        let shown =
            self.participant.late.iter().map(|late| late.at).fold(self.visible, Timestamp::max);
        if self.bounds == KeyRange::all() {
            return Some(shown);
        }
        let present = T::present(now).max(shown);
        self.promise(now, present).then_some(present)
    }

    fn judge_unplaced(&mut self, now: Reading, pending: Pending, out: &mut Outbox<Member<T>>) {
        let who = pending.request.transaction;
        // The answer names the shard that has the keys, so that the retry goes there.
        self.say_moved(pending.from, &pending.request, out);
        self.judge(now, vec![Verdict::Victim(who, None, Conflict::Moved)], out);
    }

    /// Answers which shard has the keys of a request that are not in this shard.
    pub(super) fn say_moved(&self, from: Address, request: &Request, out: &mut Outbox<Member<T>>) {
        let key = match &request.ask {
            Ask::Read { range, .. } | Ask::Snapshot { range, .. } | Ask::LastTs { range } => {
                match &self.bounds.end {
                    Some(end) if self.bounds.contains(&range.start) => end,
                    _ => &range.start,
                }
            }
            Ask::Commit { writes, schema, .. } | Ask::Prepare { writes, schema, .. } => {
                let ranges =
                    schema.iter().flat_map(|change| &change.tables).map(|(_, range)| range);
                let beyond =
                    ranges.filter(|range| !self.bounds.contains_range(range)).filter_map(|range| {
                        if self.bounds.contains(&range.start) {
                            self.bounds.end.as_ref()
                        } else {
                            Some(&range.start)
                        }
                    });
                let strange =
                    writes.iter().map(|write| &write.key).find(|key| !self.bounds.contains(key));
                strange.or(beyond.min()).unwrap_or(&self.bounds.start)
            }
            _ => &self.bounds.start,
        };
        self.answer_moved(from, request.id, key, out);
    }

    pub(super) fn acquire(
        &mut self,
        now: Reading,
        pending: Pending,
        range: KeyRange,
        lock: Lock,
        out: &mut Outbox<Member<T>>,
    ) {
        self.participant.next_ticket += 1;
        let (ticket, who, age) =
            (self.participant.next_ticket, pending.request.transaction, pending.request.age);
        let verdicts = self.participant.locks.acquire(now.boot_ns, who, age, range, lock, ticket);
        self.wait(now, ticket, pending, verdicts, out);
    }

    /// Adds the application name of the transaction that won the conflict.
    fn name_winner(&self, why: &mut Conflict) {
        if let Conflict::Wounded { by, application, .. } = why {
            let winner = self
                .participant
                .live
                .values()
                .find(|live| live.age == *by && live.application.is_some());
            *application = winner.and_then(|live| live.application.clone());
        }
    }

    /// Registers a request for a lock, and carries out the lock table's verdicts.
    pub(super) fn wait(
        &mut self,
        now: Reading,
        ticket: Ticket,
        pending: Pending,
        verdicts: Vec<Verdict>,
        out: &mut Outbox<Member<T>>,
    ) {
        let who = pending.request.transaction;
        self.participant.pending.insert(ticket, pending);
        let own = |verdict: &Verdict| matches!(verdict, Verdict::Victim(victim, None, _) if *victim == who);
        if let Some(Verdict::Victim(_, _, why)) = verdicts.iter().find(|verdict| own(verdict)) {
            let verdict = Verdict::Victim(who, Some(ticket), why.clone());
            return self.judge(now, vec![verdict], out);
        }
        self.judge(now, verdicts, out);
    }

    pub(super) fn judge(
        &mut self,
        now: Reading,
        verdicts: Vec<Verdict>,
        out: &mut Outbox<Member<T>>,
    ) {
        for verdict in verdicts {
            match verdict {
                Verdict::Granted(ticket) => {
                    // An earlier verdict may have ended an attempt to which a later one grants a
                    // lock. That lock has been released since.
                    let Some(mut pending) = self.participant.pending.remove(ticket) else {
                        sometimes!("a lock is granted to an attempt that was just given up");
                        continue;
                    };
                    match &pending.request.ask {
                        Ask::Read { .. } => {
                            self.serve(pending.from, &pending.request, Timestamp::MAX, None, out)
                        }
                        _ => {
                            pending.locked += 1;
                            self.lock_writes(now, pending, out);
                        }
                    }
                }
                Verdict::Victim(victim, ticket, mut why) => {
                    self.name_winner(&mut why);
                    if let Some(live) = self.participant.live.get_mut(&victim) {
                        live.doomed = Some(why.clone());
                    }
                    if let Some(pending) =
                        ticket.and_then(|ticket| self.participant.pending.remove(ticket))
                    {
                        sometimes!("a transaction that waits is wounded");
                        self.refuse(&pending, why.clone(), out);
                    }
                    if let Some(pending) = self.take_registering(victim) {
                        self.refuse(&pending, why.clone(), out);
                    }
                    self.abort_collecting(now, victim, why, out);
                    self.forget(now, victim, out);
                }
                Verdict::Marked(who, why) => {
                    if let Some(live) = self.participant.live.get(&who) {
                        out.send(live.gateway, Message::Answer(Reply::Wounded { why }));
                    }
                }
                Verdict::Wound(prepared, why) => {
                    if let Some(coordinator) = self.coordinator_of(prepared) {
                        self.forward_wound(prepared, coordinator, why, out);
                    }
                }
            }
        }
    }

    /// Releases an attempt's locks, unless it is committing: then its outcome releases them.
    pub(super) fn forget(
        &mut self,
        now: Reading,
        transaction: TransactionId,
        out: &mut Outbox<Member<T>>,
    ) {
        let committing = self.is_ending(transaction)
            || self
                .participant
                .would_vote
                .iter()
                .any(|pending| pending.request.transaction == transaction)
            || self.participant.prepared.contains_key(&transaction)
            || self.participant.readers.contains_key(&transaction);
        if !committing {
            self.participant.pending.withdraw(transaction);
            self.wants_no_answer(transaction);
            self.take_registering(transaction);
            self.dismiss_early_votes(now, transaction, out);
            let verdicts = self.participant.locks.release(transaction);
            self.judge(now, verdicts, out);
            self.unregister(now, transaction, out);
        }
    }
}
