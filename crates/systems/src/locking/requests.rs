//! Requests of sessions to a leader: locks, reads, commits and prepares, and which of them wait or
//! give way.

use super::participant::{ActiveTxn, Pending};
use super::{Member, Message};
use crate::locking::rules;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Health, Outbox, sometimes};
use meridian_mvcc::KeyRange;
use meridian_txn::locking::rules as locking_rules;
use meridian_txn::locking::{Ticket, TransactionId, Verdict};
use meridian_txn::shards::{LockEpoch, Request, RequestBody, Response, Spent};
use meridian_txn::two_phase::{Ballot, Inquiry, OneShot, OneShotAdmission, Vote};
use meridian_txn::{Conflict, Lock};

impl Member {
    pub(super) fn on_ask(
        &mut self,
        now: Reading,
        from: Address,
        mut request: Request,
        out: &mut Outbox<Member>,
    ) {
        let id = request.id;
        if let RequestBody::Commit { writes, .. } | RequestBody::Prepare { writes, .. } =
            &mut request.body
        {
            // They are mostly sorted already. Readers search them by bisection.
            writes.sort_by(|one, other| one.key.cmp(&other.key));
        }
        self.is_wanted(now, out);
        // A request that names a later term proves that this leader was replaced without noticing.
        let named = request
            .lock_epoch
            .map(|lock_epoch| lock_epoch.term)
            .or(request.one_shot.map(|one_shot| one_shot.term));
        let deposed = named.is_some_and(|term| term > self.group.term().0);
        if !self.serving || !self.group.is_leader() || deposed {
            if deposed && self.serving {
                sometimes!("a leader learns from a request that it was replaced");
            }
            let leader = self.group.leader().filter(|leader| *leader != self.me).map(|node| node.0);
            return out.send(from, Message::Response(Response::NotLeader { id, leader }));
        }
        let transaction = request.transaction;
        if self.is_far_ahead(now, &request) || !self.adopts_times_of(now, &request) {
            let why =
                "the causal token, or the snapshot, lies too far in the future: a clock is wrong";
            return out.send(from, Message::Response(Response::Refused { id, why: why.into() }));
        }
        if !matches!(
            request.body,
            RequestBody::Abort | RequestBody::KeepAlive | RequestBody::Withdraw
        ) {
            self.count(now, from.node, 1, out);
        }
        match &request.body {
            RequestBody::Read { range, .. }
            | RequestBody::Snapshot { range, .. }
            | RequestBody::LastTs { range }
                if !self.bounds.contains_range(range) =>
            {
                self.say_moved(from, &request, out);
            }
            RequestBody::Read { .. }
                if self.parks(from, &request) || self.holds_back(now, from, &request, out) => {}
            // Sends a new attempt to the transfer target, which is about to lead.
            RequestBody::Read { .. }
                if request.lock_epoch.is_none()
                    && !self.participant.active.contains_key(&transaction)
                    && self.workload.transfer_target.is_some() =>
            {
                let leader =
                    self.workload.transfer_target.map(|(transfer_target, _)| transfer_target.0);
                out.send(from, Message::Response(Response::NotLeader { id, leader }));
            }
            RequestBody::Abort if self.participant.two_phase.voting.contains(transaction) => {
                self.abort_collecting(now, transaction, Conflict::RolledBack, out);
            }
            // The coordinator decides its outcome.
            RequestBody::Abort
                if self.coordinator_of(transaction).is_some()
                    || self.participant.two_phase.readers.contains(transaction) => {}
            RequestBody::Abort => {
                self.forget(now, transaction, out);
                self.participant.active.remove(&transaction);
            }
            RequestBody::Snapshot { .. } => self.on_snapshot(now, from, request, out),
            RequestBody::LastTs { range } => self.on_last_ts(now, from, id, range, out),
            RequestBody::Split { at, shard } => {
                self.on_split(now, (from, id), transaction, (at.clone(), *shard), out)
            }
            RequestBody::SnapshotTimestamp => self.on_snapshot_timestamp(from, id, out),
            RequestBody::Ordered { .. } | RequestBody::Time { .. } => {
                let why = "this database orders transactions by locks, and takes no requests of other protocols";
                let why = why.to_owned();
                out.send(from, Message::Response(Response::Refused { id, why }));
            }
            RequestBody::Members(members) => self.on_members(now, (from, id), members, out),
            RequestBody::KeepAlive => self.participant.locks.touch(now.boot_ns, transaction),
            RequestBody::Withdraw => {
                self.wants_no_answer(transaction);
                if let Some(active) = self
                    .participant
                    .active
                    .get_mut(&transaction)
                    .filter(|active| active.newest < id)
                {
                    active.newest = id; // Older requests may still arrive.
                    self.withdraw(now, transaction, out);
                }
            }
            body @ RequestBody::Prepare { .. }
                if body
                    .decider()
                    .is_some_and(|decider| self.has_voted(from, transaction, id, decider, out)) => {
            }
            RequestBody::Read { .. } | RequestBody::Commit { .. } | RequestBody::Prepare { .. }
                if self.repeats(now, from, &request, out) =>
            {
                self.participant.locks.touch(now.boot_ns, transaction);
            }
            RequestBody::Read { range, lock, nowait, .. } => {
                let (range, lock, nowait) = (range.clone(), *lock, *nowait);
                if !self.admit(from, &request, out) {
                } else if nowait
                    && self.participant.locks.would_wait(transaction, request.age, &range, lock)
                {
                    sometimes!("a read does not wait for a lock");
                    let admission = self
                        .participant
                        .active
                        .get(&transaction)
                        .map_or(0, |active| active.admission);
                    let lock_epoch = LockEpoch { term: self.group.term().0, admission };
                    out.send(from, Message::Response(Response::Locked { id, lock_epoch }));
                } else {
                    self.acquire(now, Pending::new(from, request), range, lock, out);
                }
            }
            RequestBody::Commit { .. } => {
                // A repeated request is answered like the first once that has passed (Trap A.5-11).
                // A commit in commit wait counts even if its outcome was already forgotten in
                // favour of newer ones.
                let remembers = !broken(rules::OUTCOMES_FORGOTTEN);
                if let Some(commit_waits) =
                    self.participant.commit_waits.find_of(transaction, |_| remembers)
                {
                    sometimes!("a commit is asked for again after it was agreed");
                    commit_waits.asked = Some((from, id));
                    return;
                }
                if let Some(at) =
                    self.participant.two_phase.outcome_of(transaction).filter(|_| remembers)
                {
                    sometimes!("a commit is asked for again after it was agreed");
                    return out.send(
                        from,
                        Message::Response(Response::Committed { id, at, spent: Spent::default() }),
                    );
                }
                if !self.admits_one_shot(now, from, &request, out) {
                    return;
                }
                // A commit without a lock epoch cannot be told from a late copy of itself:
                // coordinators that have locked something always name one.
                if let Some(lock_epoch) = request.lock_epoch
                    && self.participant.two_phase.outcomes.may_have_forgotten(lock_epoch.term)
                    && self
                        .participant
                        .active
                        .get(&transaction)
                        .is_none_or(|active| active.admission != lock_epoch.admission)
                {
                    return out.send(from, Message::Response(Response::Unknown { id }));
                }
                if self.admit(from, &request, out) {
                    self.lock_writes(now, Pending::new(from, request), out);
                }
            }
            RequestBody::Prepare { .. } => {
                if self.admits_one_shot(now, from, &request, out) && self.admit(from, &request, out)
                {
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
        out: &mut Outbox<Member>,
    ) -> bool {
        if self
            .participant
            .active
            .get(&request.transaction)
            .is_some_and(|active| request.id < active.newest)
        {
            sometimes!("an old question comes late");
            return true;
        }
        if let Some(pending) = self.under_way(request) {
            sometimes!("a question is asked again while it waits");
            (pending.from, pending.request.id) = (from, request.id);
            out.send(from, Message::Response(Response::Waiting { id: request.id }));
            return true;
        }
        self.withdraw(now, request.transaction, out);
        false
    }

    /// Returns the pending request of the same attempt with the same content.
    fn under_way(&mut self, request: &Request) -> Option<&mut Pending> {
        let txn = request.transaction;
        let same = |pending: &Pending| {
            pending.request.transaction == txn && pending.request.body == request.body
        };
        let collecting = self.participant.two_phase.voting.get_mut(txn);
        // These are few: requests that wait for the lease to reach further, and schema changes.
        let others = self
            .participant
            .ready
            .iter_mut()
            .chain(&mut self.participant.two_phase.readers.waiting)
            .chain(self.participant.schemas.under_way());
        let mut drawn = collecting.into_iter().chain(others).filter(|pending| same(pending));
        let agreed_on = self.participant.agreeing.find_of(txn, same).or_else(|| drawn.next());
        agreed_on.or_else(|| self.participant.pending.find_of(txn, same))
    }

    /// Withdraws the attempt's request for a lock, if one waits.
    fn withdraw(&mut self, now: Reading, transaction: TransactionId, out: &mut Outbox<Member>) {
        if self.participant.pending.withdraw(transaction) {
            let verdicts = self.participant.locks.withdraw(transaction);
            self.judge(now, verdicts, out);
        }
    }

    /// True if a request may proceed as far as one-shot rules are concerned: it is not one-shot, or
    /// is admitted, or was. Otherwise refuses it for good and answers that.
    fn admits_one_shot(
        &mut self,
        now: Reading,
        from: Address,
        request: &Request,
        out: &mut Outbox<Member>,
    ) -> bool {
        let Some(OneShot { term, by }) = request.one_shot else { return true };
        if now.health != Health::Good && !broken(locking_rules::FENCED_SERVES) {
            return false; // The deadline needs a clock. The session sends it again.
        }
        let (txn, id, this) = (request.transaction, request.id, self.group.term().0);
        let begun = self.participant.active.contains_key(&txn);
        let aborted =
            self.participant.active.get(&txn).is_some_and(|active| active.aborted.is_some());
        if broken(rules::BLIND_TWICE) {
            return true;
        }
        let heard = match () {
            // An earlier term's outcome may be forgotten. This term does not admit it.
            () if term != this && !self.participant.two_phase.outcomes.may_have_forgotten(term) => {
                OneShotAdmission::Known
            }
            () if term != this => OneShotAdmission::Late,
            () => self.participant.two_phase.one_shots.admit(now.interval.latest, txn, by),
        };
        let heard = match heard {
            OneShotAdmission::Known if begun && self.participant.two_phase.one_shots.knows(txn) => {
                return true;
            }
            OneShotAdmission::Known | OneShotAdmission::Late if aborted => return true, // `admit` answers the reason.
            // A transaction that locks first waits for its locks. A one-shot commit must not delay
            // a split, transfer or schema change.
            OneShotAdmission::New if !begun && !self.is_awaited(now, request) => return true,
            OneShotAdmission::New => OneShotAdmission::Known,
            heard => heard,
        };
        match (heard, &request.body) {
            (OneShotAdmission::Late, RequestBody::Commit { .. }) => {
                sometimes!("a commit that was asked for blindly comes too late");
                out.send(from, Message::Response(Response::TooLate { id }));
            }
            _ => {
                sometimes!("an attempt that has locked nothing is to lock first");
                for Ballot { shard, node, term: voted_in, vote } in
                    self.participant.two_phase.one_shots.take_early(txn)
                {
                    let reads = matches!(vote, Vote::Read { .. });
                    let asked = Inquiry {
                        transaction: txn,
                        one_shot: request.one_shot,
                        decides: term,
                        voted_in,
                        reads,
                    };
                    self.notify_voter(now, self.replica_address(node, shard), asked, out);
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
            || self.workload.transfer_target.is_some()
            || change().is_some_and(|(from, _)| from.nanos <= now.interval.latest)
    }

    /// True if the attempt may proceed here; admits a new one. Otherwise answers the reason.
    pub(super) fn admit(
        &mut self,
        from: Address,
        request: &Request,
        out: &mut Outbox<Member>,
    ) -> bool {
        let newest = request.id;
        let why = match (request.lock_epoch, self.participant.active.get_mut(&request.transaction))
        {
            (Some(lock_epoch), _) if lock_epoch.term != self.group.term().0 => {
                Some(Conflict::LeaderChanged)
            }
            (Some(_), None) => Some(Conflict::Expired),
            (Some(lock_epoch), Some(active)) if lock_epoch.admission != active.admission => {
                sometimes!("an attempt was born again by an old question");
                Some(Conflict::Expired)
            }
            (None, None) if self.participant.two_phase.outcomes.contains(request.transaction) => {
                sometimes!("a first question comes after its transaction has ended");
                return false;
            }
            (None, None) => {
                self.participant.admissions += 1;
                let votes = self.participant.two_phase.one_shots.take_early(request.transaction);
                let application = match &request.body {
                    RequestBody::Read { application, .. } => application.clone(),
                    _ => None,
                };
                let (admission, age) = (self.participant.admissions, request.age);
                let active = ActiveTxn {
                    admission,
                    age,
                    application,
                    aborted: None,
                    newest,
                    coordinator: from,
                    private: request.private.clone(),
                    votes,
                };
                self.participant.active.insert(request.transaction, active);
                None
            }
            (_, Some(active)) => {
                active.newest = newest;
                active.aborted.clone().filter(|_| !broken(rules::WOUNDED_GOES_ON))
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
        out: &mut Outbox<Member>,
    ) {
        let (txn, age) = (pending.request.transaction, pending.request.age);
        let (RequestBody::Commit { writes, .. } | RequestBody::Prepare { writes, .. }) =
            &pending.request.body
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
                txn,
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
        if let Some(why) = self.uncertified(&pending.request) {
            return self.refuse_drawn(now, pending, why, out);
        }
        match &pending.request.body {
            _ if pending.change().is_some() && !pending.registered => {
                return self.register(now, pending, out);
            }
            RequestBody::Prepare { .. } => return self.prepare(pending, out),
            RequestBody::Commit { participants, .. } if !participants.is_empty() => {
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
                Message::Response(Response::Committed { id, at, spent: Spent::default() }),
            );
            self.participant.active.remove(&txn);
            self.participant.two_phase.remember(txn, at, self.group.term().0);
            return self.forget(now, txn, out);
        }
        if only_read {
            sometimes!("a transaction that only read commits through the log, for want of a lease");
        }
        self.participant.locks.committing(txn);
        self.participant.ready.push_back(pending);
    }

    /// Adopts the timestamps that a request carries. False if one of them cannot be true.
    fn adopts_times_of(&mut self, now: Reading, request: &Request) -> bool {
        let at = match &request.body {
            RequestBody::Snapshot { at, .. } => *at,
            // Ends and signs of life are never refused.
            RequestBody::Abort | RequestBody::KeepAlive | RequestBody::Withdraw => return true,
            _ => None,
        };
        let certified = request.snapshot.as_ref().map(|read| read.at);
        [request.token, at, certified].into_iter().flatten().all(|at| self.adopt(now, at))
    }

    /// Returns the timestamp at which a range is read whose locks are held: nothing is in flight
    /// there, so that any timestamp from the newest visible commit on will do. Where commits show
    /// early it becomes a part of the session's token.
    fn read_under_locks_at(&self) -> Timestamp {
        if !self.policy.shows_early() {
            return Timestamp::MAX;
        }
        self.participant.late.iter().map(|late| late.at).fold(self.newest(), Timestamp::max)
    }

    /// Returns a timestamp of the current state, at or above everything that was acknowledged
    /// anywhere. `None` if that needs a new ceiling.
    fn as_of(&mut self, now: Reading) -> Option<Timestamp> {
        let shown =
            self.participant.late.iter().map(|late| late.at).fold(self.visible, Timestamp::max);
        if self.bounds == KeyRange::all() {
            return Some(shown);
        }
        let present = self.present(now).max(shown);
        self.promise(now, present).then_some(present)
    }

    fn judge_unplaced(&mut self, now: Reading, pending: Pending, out: &mut Outbox<Member>) {
        let txn = pending.request.transaction;
        // The answer names the shard that has the keys, so that the retry goes there.
        self.say_moved(pending.from, &pending.request, out);
        self.judge(now, vec![Verdict::Victim(txn, None, Conflict::Moved)], out);
    }

    /// Answers which shard has the keys of a request that are not in this shard.
    pub(super) fn say_moved(&self, from: Address, request: &Request, out: &mut Outbox<Member>) {
        let key = match &request.body {
            RequestBody::Read { range, .. }
            | RequestBody::Snapshot { range, .. }
            | RequestBody::LastTs { range } => match &self.bounds.end {
                Some(end) if self.bounds.contains(&range.start) => end,
                _ => &range.start,
            },
            RequestBody::Commit { writes, schema, .. }
            | RequestBody::Prepare { writes, schema, .. } => {
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
        out: &mut Outbox<Member>,
    ) {
        self.participant.next_ticket += 1;
        let (ticket, txn, age) =
            (self.participant.next_ticket, pending.request.transaction, pending.request.age);
        let verdicts = self.participant.locks.acquire(now.boot_ns, txn, age, range, lock, ticket);
        self.wait(now, ticket, pending, verdicts, out);
    }

    /// Adds the application name of the transaction that won the conflict.
    fn name_winner(&self, why: &mut Conflict) {
        if let Conflict::Wounded { by, application, .. } = why {
            let winner = self
                .participant
                .active
                .values()
                .find(|active| active.age == *by && active.application.is_some());
            *application = winner.and_then(|active| active.application.clone());
        }
    }

    /// Registers a request for a lock, and carries out the lock table's verdicts.
    pub(super) fn wait(
        &mut self,
        now: Reading,
        ticket: Ticket,
        pending: Pending,
        verdicts: Vec<Verdict>,
        out: &mut Outbox<Member>,
    ) {
        let txn = pending.request.transaction;
        self.participant.pending.insert(ticket, pending);
        let own = |verdict: &Verdict| matches!(verdict, Verdict::Victim(victim, None, _) if *victim == txn);
        if let Some(Verdict::Victim(_, _, why)) = verdicts.iter().find(|verdict| own(verdict)) {
            let verdict = Verdict::Victim(txn, Some(ticket), why.clone());
            return self.judge(now, vec![verdict], out);
        }
        self.judge(now, verdicts, out);
    }

    pub(super) fn judge(&mut self, now: Reading, verdicts: Vec<Verdict>, out: &mut Outbox<Member>) {
        for verdict in verdicts {
            match verdict {
                Verdict::Granted(ticket) => {
                    // An earlier verdict may have ended an attempt to which a later one grants a
                    // lock. That lock has been released since.
                    let Some(mut pending) = self.participant.pending.remove(ticket) else {
                        sometimes!("a lock is granted to an attempt that was just given up");
                        continue;
                    };
                    match &pending.request.body {
                        RequestBody::Read { .. } => self.serve(
                            pending.from,
                            &pending.request,
                            self.read_under_locks_at(),
                            (None, None),
                            out,
                        ),
                        _ => {
                            pending.locked += 1;
                            self.lock_writes(now, pending, out);
                        }
                    }
                }
                Verdict::Victim(victim, ticket, mut why) => {
                    self.name_winner(&mut why);
                    if let Some(active) = self.participant.active.get_mut(&victim) {
                        active.aborted = Some(why.clone());
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
                Verdict::Marked(txn, why) => {
                    if let Some(active) = self.participant.active.get(&txn) {
                        out.send(active.coordinator, Message::Response(Response::Wounded { why }));
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
        out: &mut Outbox<Member>,
    ) {
        let committing = self.is_ending(transaction)
            || self
                .participant
                .two_phase
                .readers
                .waiting
                .iter()
                .any(|pending| pending.request.transaction == transaction)
            || self.participant.two_phase.has_voted(transaction);
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
