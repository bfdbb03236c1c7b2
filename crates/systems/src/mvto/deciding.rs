//! Decisions: how a transaction is decided, and how its other shards learn the outcome.

use super::participant::{Proposed, Pushed};
use super::records::OrderedCommand;
use super::{Member, Message};
use crate::shard::Effect;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Health, NodeId, Outbox, always, sometimes, step};
use meridian_txn::TransactionId;
use meridian_txn::mvto::{Decision, EXPIRES_NS, Held, Peer, Place, State, rules};
use meridian_txn::shards::{Request, RequestBody};

/// The time after which a recorder aborts a transaction whatever its coordinator does, in
/// nanoseconds: later readers wait for it.
const LIFE_NS: u64 = 60_000_000_000;
/// The time after which a push to a missing record aborts its transaction, in nanoseconds: a first
/// write may be on its way.
const GRACE_NS: u64 = 1_000_000_000;
/// The time after which a shard asks for the outcome of a transaction although no reader waits, in
/// nanoseconds.
const ORPHANED_NS: u64 = 2_000_000_000;
/// The time after which a push is repeated, in nanoseconds.
const PUSH_AGAIN_NS: u64 = 1_000_000_000;
/// The distance of the closed timestamp from the present, in nanoseconds: a transaction whose
/// timestamp is older cannot write any more, and moves to a new one.
const CLOSED_AFTER_NS: u64 = 10_000_000_000;

impl Member {
    // ------------------------------------------------------------------------
    // the recorder

    /// Commits a transaction whose intents are in all logs.
    pub(super) fn on_commit(
        &mut self,
        now: Reading,
        asked: (Address, u64),
        txn: TransactionId,
        at: Timestamp,
        (places, parts): (Vec<Place>, u32),
        out: &mut Outbox<Member>,
    ) {
        if let Some(outcome) = self.participant.outcomes.get(txn) {
            sometimes!("a commit is asked for again after it was agreed");
            return self.answer_outcome(asked, outcome, out);
        }
        if self.is_deciding(txn) {
            return self.asks_again(txn, None, asked, out);
        }
        match self.participant.recorder.state(txn) {
            Some(State::Committed) => self.answer_outcome(asked, Some(at), out),
            Some(State::Aborted) => self.answer_outcome(asked, None, out),
            Some(State::Pending) => {
                step!("recorder: proposes its decision");
                self.propose_decision((txn, at), Some(parts), places, Some(asked));
            }
            None if Member::is_credible(now, at) => self.settle(asked, txn, at, places, out),
            None => {} // It is asked again.
        }
    }

    /// Aborts a transaction whose coordinator has given up.
    pub(super) fn on_abort(
        &mut self,
        now: Reading,
        txn: TransactionId,
        at: Timestamp,
        places: Vec<Place>,
    ) {
        let open = match self.participant.recorder.state(txn) {
            Some(state) => state == State::Pending,
            None => Member::is_credible(now, at),
        };
        if open && at > self.participant.closed && !self.is_deciding(txn) {
            self.propose_decision((txn, at), None, places, None);
        }
    }

    /// Proposes to commit a transaction that has written in so many parts here, or to abort it.
    pub(super) fn propose_decision(
        &mut self,
        (txn, at): (TransactionId, Timestamp),
        commits: Option<u32>,
        places: Vec<Place>,
        asked: Option<(Address, u64)>,
    ) {
        self.issuer.observe(at);
        let (commits, parts) = (commits.is_some(), commits.unwrap_or(0));
        let decide = OrderedCommand::Decide { transaction: txn, at, commits, places, parts };
        if let Some(index) = self.propose(&decide) {
            let proposed =
                Proposed { transaction: txn, asked, part: None, passed_ns: None, decides: true };
            self.participant.proposed.insert(index, proposed);
        }
    }

    /// Aborts all pending transactions.
    pub(super) fn abort_pending(&mut self) {
        for (txn, at) in self.participant.recorder.overdue(u64::MAX, 0) {
            if !self.is_deciding(txn) {
                sometimes!("a recorder aborts a transaction for a split");
                self.propose_decision((txn, at), None, Vec::new(), None);
            }
        }
    }

    /// Sends a decision to the shards that have intents, and to those that have pushed.
    pub(super) fn send_decision(&mut self, txn: TransactionId, out: &mut Outbox<Member>) {
        let decisions = self.participant.recorder.decisions_of(txn);
        if !decisions.is_empty() {
            step!("recorder: sends its decision");
        }
        decisions.into_iter().for_each(|decision| self.send_to_members(decision, out));
        let Some(state) = self.participant.recorder.state(txn) else { return };
        if let Some(Pushed { at, by, .. }) = self.participant.pushed.remove(&txn) {
            let at = (state == State::Committed).then_some(at);
            by.into_iter().for_each(|to| self.answer_push(to, txn, at, out));
        }
    }

    fn send_to_members(
        &self,
        Decision { place, transaction, at }: Decision,
        out: &mut Outbox<Member>,
    ) {
        let (term, parts) = (at.map(|_| place.term), place.parts);
        for node in &self.nodes {
            let to = self.replica_address(*node, place.shard);
            out.send(to, Message::Participant(Peer::Decided { transaction, at, term, parts }));
        }
    }

    /// Answers a shard that has pushed a decided transaction.
    fn answer_push(
        &self,
        to: Address,
        transaction: TransactionId,
        at: Option<Timestamp>,
        out: &mut Outbox<Member>,
    ) {
        let record = self.participant.recorder.get(transaction);
        let mut places = record.into_iter().flat_map(|record| &record.places);
        let place = places.find(|place| place.shard == to.shard);
        always!(
            at.is_none() || place.is_some() || broken(rules::INTENTS_NOT_AWAITED),
            "a commit names every shard with intents"
        );
        let parts = place.map_or(0, |place| place.parts);
        out.send(to, Message::Participant(Peer::Decided { transaction, at, term: None, parts }));
    }

    // ------------------------------------------------------------------------
    // messages of other leaders

    pub(super) fn on_peer_message(
        &mut self,
        now: Reading,
        from: Address,
        message: Peer,
        out: &mut Outbox<Member>,
    ) {
        match message {
            Peer::Push { transaction, at, reader: _ } => {
                self.on_push(now, from, transaction, at, out);
            }
            Peer::Decided { transaction, at, term, parts } => {
                self.on_decided(from, transaction, at, (term, parts), out);
            }
            Peer::Finalized { transaction, shard } => {
                self.participant.recorder.acknowledge(transaction, shard);
            }
        }
    }

    /// Answers what became of a transaction, or remembers to.
    fn on_push(
        &mut self,
        now: Reading,
        from: Address,
        txn: TransactionId,
        at: Timestamp,
        out: &mut Outbox<Member>,
    ) {
        match self.participant.recorder.state(txn) {
            Some(State::Committed) => self.answer_push(from, txn, Some(at), out),
            Some(State::Aborted) => self.answer_push(from, txn, None, out),
            None if at <= self.participant.closed => {
                // Its record can never be made any more. If there was one, every shard that had to
                // know has the commit: the asker has a late copy of an intent.
                sometimes!("a transaction without a record below the closed timestamp is aborted");
                self.answer_push(from, txn, None, out);
            }
            None if !Member::is_credible(now, at) => {}
            Some(State::Pending) | None => {
                let (by, since_ns) = (Vec::new(), now.boot_ns);
                let pushed = self.participant.pushed.entry(txn);
                let pushed = pushed.or_insert(Pushed { at, by, since_ns });
                if !pushed.by.contains(&from) {
                    pushed.by.push(from);
                }
            }
        }
    }

    /// Learns what became of a transaction that has an intent here.
    fn on_decided(
        &mut self,
        from: Address,
        txn: TransactionId,
        at: Option<Timestamp>,
        (term, parts): (Option<u64>, u32),
        out: &mut Outbox<Member>,
    ) {
        let Some(held) = self.participant.intents.get(txn) else {
            // A leader of this term or of a later one has had the intent in its log: without it,
            // the outcome is there as well.
            if let Some(term) = term.filter(|term| self.group.term().0 >= *term) {
                always!(term > 0, "a commit names the terms in which its intents were agreed");
                let (transaction, shard) = (txn, self.shard);
                let finalized = Peer::Finalized { transaction, shard };
                out.send(from, Message::Participant(finalized));
            }
            return;
        };
        if at.is_some() && held.agreed() < parts {
            sometimes!("a deposed leader has not all parts of what is committed");
            return;
        }
        let is_decided = held.decided.is_some();
        if term.is_some() {
            self.participant.acknowledge_to.insert(txn, from);
        }
        if is_decided {
            return; // It is being agreed on.
        }
        step!("shard: receives the outcome");
        if self.propose(&OrderedCommand::Finalize { transaction: txn, at, parts }).is_none() {
            return;
        }
        let Some(held) = self.participant.intents.decide(self.shard, txn, at) else { return };
        let (writes, schemas) = held.clone().merged();
        if let (Some(at), Some(newest)) = (at, self.group.agreed_entry()) {
            // The outcome is in the recorder's log: nothing need wait until it is in this one.
            self.begin_schemas(at, &schemas);
            self.install_early(at, writes, newest, out);
        }
    }

    // ------------------------------------------------------------------------
    // what does not end by itself

    /// Asks the recorders of transactions for which a request waits, unless that was done just now.
    pub(super) fn push_all(
        &mut self,
        now: Reading,
        request: &Request,
        blockers: &[TransactionId],
        out: &mut Outbox<Member>,
    ) {
        let RequestBody::Ordered { at, .. } = &request.body else { return };
        for txn in blockers {
            // A reservation may be of a transaction that has moved to a later timestamp since.
            let intent = self.participant.intents.get(*txn).map(|held| held.at);
            if intent.is_none_or(|intent| intent > *at) {
                continue;
            }
            let known = self.participant.pushes.get(txn).copied();
            if known.is_some_and(|ns| now.boot_ns < ns + PUSH_AGAIN_NS) {
                continue;
            }
            let first = known.is_none();
            self.push(now, *txn, Some(*at), first, out);
        }
    }

    /// Asks the recorder of a transaction for its outcome: the node that led it, at first, and
    /// later every node.
    fn push(
        &mut self,
        now: Reading,
        txn: TransactionId,
        reader: Option<Timestamp>,
        first: bool,
        out: &mut Outbox<Member>,
    ) {
        let Some(held) = self.participant.intents.get(txn) else { return };
        let (at, recorder) = (held.at, held.recorder);
        if recorder.shard == self.shard {
            return; // Its record is here.
        }
        always!(
            reader.is_none_or(|reader| reader >= at),
            "waits go from later to earlier transactions"
        );
        sometimes!("a shard asks a recorder what became of a transaction");
        step!("shard: pushes");
        out.act(Effect::CountPush);
        self.participant.pushes.insert(txn, now.boot_ns);
        let asked: &[NodeId] = if first { &[recorder.node] } else { &self.nodes };
        for node in asked {
            let to = self.replica_address(*node, recorder.shard);
            out.send(to, Message::Participant(Peer::Push { transaction: txn, at, reader }));
        }
    }

    /// Ends what does not end by itself: aborts transactions that are silent, asks for outcomes,
    /// repeats what is not acknowledged, closes timestamps, and forgets.
    pub(super) fn resolve_pending(&mut self, now: Reading, out: &mut Outbox<Member>) {
        if !self.serving || !self.group.is_leader() {
            return;
        }
        let before = |ns| now.boot_ns.saturating_sub(ns);
        let overdue = self.participant.recorder.overdue(before(EXPIRES_NS), before(LIFE_NS));
        for (txn, at) in overdue {
            if !self.is_deciding(txn) {
                sometimes!("a recorder aborts a transaction that shows no sign of life");
                self.propose_decision((txn, at), None, Vec::new(), None);
            }
        }
        let missing = |(txn, pushed): (&TransactionId, &Pushed)| {
            let waited = now.boot_ns >= pushed.since_ns + GRACE_NS;
            let none = self.participant.recorder.state(*txn).is_none();
            (waited && none).then_some((*txn, pushed.at))
        };
        let missing: Vec<_> = self.participant.pushed.iter().filter_map(missing).collect();
        for (txn, at) in missing {
            if !self.is_deciding(txn) && self.participant.intents.get(txn).is_none() {
                sometimes!("a push to a missing record aborts its transaction");
                self.propose_decision((txn, at), None, Vec::new(), None);
            }
        }
        let orphaned = |held: &Held| {
            held.agreed() > 0
                && held.decided.is_none()
                && now.boot_ns >= held.since_ns + ORPHANED_NS
        };
        let orphans = self.participant.intents.iter().filter(|(_, held)| orphaned(held));
        for txn in orphans.map(|(txn, _)| txn).collect::<Vec<_>>() {
            self.push(now, txn, None, false, out);
        }
        for decision in self.participant.recorder.unacknowledged() {
            sometimes!("a recorder repeats a decision");
            self.send_to_members(decision, out);
        }
        let intents = &self.participant.intents;
        let held = |txn: &TransactionId| intents.get(*txn).is_some();
        let pushes = std::mem::take(&mut self.participant.pushes);
        self.participant.pushes = pushes.into_iter().filter(|(txn, _)| held(txn)).collect();
        self.participant.reservations.expire(now.boot_ns);
        self.close_timestamps(now);
        self.forget_records(now);
    }

    /// Closes timestamps that are long past and below everything that is undecided.
    fn close_timestamps(&mut self, now: Reading) {
        let this = &self.participant;
        if this.closing || this.closed >= this.newest || now.health != Health::Good {
            return;
        }
        let past = now.interval.earliest.saturating_sub(CLOSED_AFTER_NS);
        let pending = this.intents.oldest().map_or(u64::MAX, |oldest| oldest.nanos - 1);
        let through = Timestamp::end_of(past.min(pending));
        if through <= this.closed {
            return;
        }
        if let Some(at) = self.draw_one(now) {
            step!("leader: closes timestamps");
            let proposed = self.propose(&OrderedCommand::Close { at, through }).is_some();
            self.participant.closing = proposed;
            // From here on, not only once it is agreed: the log has the order.
            self.participant.tracker.raise_floor(through);
        }
    }

    fn forget_records(&mut self, now: Reading) {
        let transactions = self.participant.recorder.forgettable(self.participant.closed);
        if transactions.is_empty() {
            return;
        }
        if let Some(at) = self.draw_one(now) {
            step!("recorder: forgets");
            self.propose(&OrderedCommand::Forget { at, transactions });
        }
    }
}
