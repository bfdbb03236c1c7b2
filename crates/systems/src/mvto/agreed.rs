//! Agreed commands: what each member does with them, and what the leader answers.

use super::Member;
use super::participant::{CommitWait, Proposed};
use super::records::{OrderedCommand, row_of_closed, row_of_intent, row_of_record};
use crate::shard::{Effect, row_of_schema};
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Outbox, ShardId, always, step};
use meridian_mvcc::Write;
use meridian_replication::group::{Entry, Index, Term};
use meridian_txn::mvto::{Held, Intent, Peer, Place, State, rules};
use meridian_txn::shards::{Response, Spent};
use meridian_txn::{SchemaVersion, TransactionId};

/// Where a transaction's rows are kept until its outcome is known: just below its timestamp, so
/// that the outcome replaces them.
fn before(at: Timestamp) -> Timestamp {
    Timestamp::end_of(at.nanos - 1)
}

/// The log has every part of what it commits (Trap A.1-B8).
const ALL: &str = "a commit has all parts of its intents";

/// The deletions of the rows of intents.
fn rows_of_held(
    shard: ShardId,
    txn: TransactionId,
    held: &Held,
) -> impl Iterator<Item = Write> + use<> {
    (0..held.agreed()).map(move |part| row_of_intent(shard, txn, part, None))
}

impl Member {
    pub(super) fn on_agreed(
        &mut self,
        now: Reading,
        entry: &Entry,
        command: OrderedCommand,
        out: &mut Outbox<Member>,
    ) {
        let proposed = self.participant.proposed.remove(&entry.index);
        let asked = proposed.as_ref().and_then(|Proposed { asked, .. }| *asked);
        let passed_ns = proposed.as_ref().and_then(|Proposed { passed_ns, .. }| *passed_ns);
        match command {
            OrderedCommand::Alone { transaction, at, writes, schemas } => {
                self.learn_of(at);
                let aborted = self.participant.recorder.state(transaction) == Some(State::Aborted);
                let mut rows = Vec::new();
                if !aborted {
                    rows = writes;
                    rows.extend(self.begin_schemas(at, &schemas));
                    self.participant.outcomes.remember(transaction, at, Some(at));
                }
                match proposed.is_some() {
                    true => step!("leader: its commit is agreed"),
                    false => step!("member: another's commit is agreed"),
                }
                self.install(entry, at, rows, true, out);
                if aborted || proposed.is_none() {
                    self.participant.intents.remove(self.shard, transaction);
                    asked.iter().for_each(|asked| self.answer_outcome(*asked, None, out));
                } else {
                    // Later readers see it once its timestamp has surely passed.
                    let wait = CommitWait { transaction, asked, agreed_ns: now.boot_ns, passed_ns };
                    self.participant.commit_waits.insert(at, wait);
                }
            }
            OrderedCommand::Intend { transaction, intent } => {
                self.on_intent_agreed(now, entry, transaction, intent, asked, out);
            }
            OrderedCommand::Decide { transaction, at, commits, places, parts } => {
                let decided = (commits.then_some(parts), places);
                let committed =
                    self.on_decision_agreed(now, entry, (transaction, at), decided, out);
                if let Some(asked) = asked {
                    self.answer_outcome(asked, committed.then_some(at), out);
                }
            }
            OrderedCommand::Finalize { transaction, at, parts } => {
                self.on_outcome_agreed(entry, transaction, (at, parts), out);
            }
            OrderedCommand::Close { at, through } => {
                self.advance(at);
                let this = &mut self.participant;
                this.closed = this.closed.max(through);
                this.closing = false;
                if self.serving {
                    this.tracker.raise_floor(through);
                }
                let closed = this.closed;
                self.install(entry, at, vec![row_of_closed(self.shard, closed)], false, out);
            }
            OrderedCommand::Forget { at, transactions } => {
                self.advance(at);
                self.participant.recorder.forget(&transactions);
                let row = |txn: &TransactionId| row_of_record(self.shard, *txn, None);
                let rows = transactions.iter().map(row).collect();
                self.install(entry, at, rows, false, out);
            }
            OrderedCommand::Ceiling { .. }
            | OrderedCommand::Split { .. }
            | OrderedCommand::Members { .. } => {
                unreachable!("commands about the shard are the shard's")
            }
        }
    }

    /// Ends the commit wait of commits in one shard whose timestamps have surely passed: readers
    /// need not wait for them any longer.
    pub(super) fn release_waited_commits(&mut self, now: Reading, out: &mut Outbox<Member>) {
        while let Some(first) = self.participant.commit_waits.first_entry() {
            let passed = match first.get().passed_ns {
                Some(passed_ns) => now.boot_ns >= passed_ns,
                None => self.policy.is_visible(now, *first.key()),
            };
            if !passed {
                break;
            }
            let (at, CommitWait { transaction, asked, agreed_ns, .. }) = first.remove_entry();
            step!("leader: answers");
            self.participant.intents.remove(self.shard, transaction);
            let commit_wait_ns = now.boot_ns - agreed_ns;
            if let Some((to, id)) = asked {
                let spent = Spent { commit_wait_ns, ..Spent::default() };
                self.answer(to, Response::Committed { id, at, spent }, out);
            }
        }
    }

    /// Learns of a coordinator's timestamp: commands about the shard are drawn above it.
    fn learn_of(&mut self, at: Timestamp) {
        self.agreed = self.agreed.max(at);
        self.issuer.observe(at);
        self.participant.newest = self.participant.newest.max(at);
    }

    fn on_intent_agreed(
        &mut self,
        now: Reading,
        entry: &Entry,
        txn: TransactionId,
        intent: Intent,
        asked: Option<(Address, u64)>,
        out: &mut Outbox<Member>,
    ) {
        let at = intent.at;
        self.learn_of(at);
        let begins = intent.recorder.shard == self.shard;
        let this = &mut self.participant;
        let state = match (begins, intent.part) {
            (true, 0) => this.recorder.begin(txn, at, now.boot_ns),
            (true, _) => {
                this.recorder.touch(txn, now.boot_ns);
                this.recorder.state(txn).unwrap_or(State::Aborted)
            }
            (false, _) => State::Pending,
        };
        let (part, pending) = (intent.part, state == State::Pending);
        let known = this.intents.get(txn).is_some_and(|held| part < held.agreed());
        let row = row_of_intent(self.shard, txn, part, Some(&intent));
        let written =
            pending && (known || this.intents.agree(self.shard, txn, intent, now.boot_ns));
        let rows: Vec<Write> = if !pending {
            // It is decided already: aborted before it began, or this is a late copy.
            let held = this.intents.remove(self.shard, txn);
            held.iter().flat_map(|held| rows_of_held(self.shard, txn, held)).collect()
        } else if written && !known {
            match asked.is_some() {
                true => step!("leader: its intent is agreed"),
                false => step!("member: another's intent is agreed"),
            }
            let begins = begins && part == 0;
            let record = || row_of_record(self.shard, txn, this.recorder.get(txn));
            [row].into_iter().chain(begins.then(record)).collect()
        } else {
            Vec::new()
        };
        self.install(entry, before(at), rows, true, out);
        let Some((to, id)) = asked else { return };
        match written {
            true => self.answer(to, Response::Written { id, term: self.group.term().0 }, out),
            false => {
                let outcome = (state == State::Committed).then_some(at);
                self.answer_outcome((to, id), outcome, out);
            }
        }
    }

    /// Takes in a decision. Returns true if the transaction is committed, by this one or by an
    /// earlier one.
    fn on_decision_agreed(
        &mut self,
        now: Reading,
        entry: &Entry,
        (txn, at): (TransactionId, Timestamp),
        (commits, places): (Option<u32>, Vec<Place>),
        out: &mut Outbox<Member>,
    ) -> bool {
        self.learn_of(at);
        let this = &mut self.participant;
        let decided = this.recorder.state(txn).is_some_and(|state| state != State::Pending);
        let state = match commits {
            Some(_) => this.recorder.commit(txn, at, places, now.boot_ns),
            None => this.recorder.abort(txn, at, places, now.boot_ns),
        };
        let committed = state == State::Committed;
        if decided && !broken(rules::DECIDED_TWICE) {
            // The first decision counts.
            self.install(entry, at, Vec::new(), true, out);
            return committed;
        }
        step!("recorder: its decision is agreed");
        this.outcomes.remember(txn, at, committed.then_some(at));
        let mut rows = Vec::new();
        if let Some(held) = this.intents.remove(self.shard, txn) {
            rows.extend(rows_of_held(self.shard, txn, &held));
            if committed {
                always!(
                    commits == Some(held.agreed()) || broken(rules::INTENTS_NOT_AWAITED),
                    "{ALL}"
                );
                let (writes, schemas) = held.merged();
                rows.extend(writes);
                rows.extend(self.begin_schemas(at, &schemas));
            }
        }
        rows.push(row_of_record(self.shard, txn, self.participant.recorder.get(txn)));
        self.install(entry, at, rows, true, out);
        if self.serving {
            self.send_decision(txn, out);
        }
        committed
    }

    fn on_outcome_agreed(
        &mut self,
        entry: &Entry,
        txn: TransactionId,
        (at, parts): (Option<Timestamp>, u32),
        out: &mut Outbox<Member>,
    ) {
        // An outcome that two leaders proposed counts once.
        if let Some(held) = self.participant.intents.remove(self.shard, txn) {
            step!("shard: the outcome is agreed");
            always!(
                at.is_none() || held.agreed() == parts || broken(rules::INTENTS_NOT_AWAITED),
                "{ALL}"
            );
            let began = held.at;
            let mut rows: Vec<Write> = rows_of_held(self.shard, txn, &held).collect();
            if at.is_some() {
                let (writes, schemas) = held.merged();
                rows.extend(writes);
                rows.extend(self.begin_schemas(began, &schemas));
            }
            self.participant.outcomes.remember(txn, began, at);
            self.install(entry, began, rows, true, out);
        }
        if let Some(to) = self.participant.acknowledge_to.remove(&txn) {
            let finalized = Peer::Finalized { transaction: txn, shard: self.shard };
            out.send(to, super::Message::Participant(finalized));
        }
    }

    /// Has schema versions hold from a timestamp on. Returns the rows that say so.
    pub(super) fn begin_schemas(
        &mut self,
        at: Timestamp,
        versions: &[SchemaVersion],
    ) -> Vec<Write> {
        if !versions.is_empty() {
            step!("member: a change of the schema is agreed");
        }
        let mut rows = Vec::new();
        for SchemaVersion { table, version } in versions {
            let history = self.participant.schemas.entry(*table).or_default();
            if !history.has(at) {
                history.begin(at, *version);
            }
            rows.push(row_of_schema(self.shard, *table, history));
        }
        rows
    }

    /// Installs versions of a transaction whose outcome another shard's log has, before it is in
    /// this one.
    pub(super) fn install_early(
        &mut self,
        at: Timestamp,
        writes: Vec<Write>,
        (index, term): (Index, Term),
        out: &mut Outbox<Member>,
    ) {
        if !self.is_witness() {
            out.act(Effect::Install { at, writes, index, term, decided_elsewhere: true });
        }
    }
}
