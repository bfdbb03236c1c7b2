//! Commits from a drawn timestamp to an answer: agreement, installation, commit wait (§4.1.2), and
//! visibility.

use super::participant::{CommitWait, Pending};
use super::records::TransactionCommand;
use super::{Member, Message};
use crate::locking::rules;
use crate::shard::{LEASE_SOON_NS, Participant};
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Health, Outbox, always, sometimes, step};
use meridian_replication::group::Entry;
use meridian_txn::Conflict;
use meridian_txn::locking::LockTable;
use meridian_txn::locking::rules as locking_rules;
use meridian_txn::shards::{RequestBody, Response, Spent};
use meridian_txn::two_phase::{Collected, OneShots};

/// How long a commit waits for a timestamp of the authority, in nanoseconds. It holds its locks.
const WITHOUT_AUTHORITY_NS: u64 = 10_000_000_000;

impl Member {
    /// Draws timestamps for commits and prepares that hold their locks, and proposes them.
    pub(super) fn draw(&mut self, now: Reading, out: &mut Outbox<Member>) {
        if now.health != Health::Good && !broken(locking_rules::FENCED_SERVES) {
            // Without a clock this leader can judge neither whether a vote is too far ahead nor
            // when a schema change is due.
            return;
        }
        for _ in 0..self.participant.ready.len() {
            let Some(mut pending) = self.participant.ready.pop_front() else { return };
            if let Some(left) = pending.lies_ahead(now) {
                sometimes!("a change of the schema waits for its time");
                self.participant.ready.push_back(pending);
                self.wake_in(left);
                continue;
            }
            if let Some(left) = self.behind_snapshot(now, &pending.request) {
                self.participant.ready.push_back(pending);
                self.wake_in(left);
                continue;
            }
            pending.drawn_ns = now.boot_ns;
            let ahead = pending.change().map_or(0, |change| change.from.nanos);
            if let Some(votes) =
                pending.votes.take_if(|votes| votes.is_far(now.interval.latest, ahead))
            {
                self.abort_voted(now, pending, &votes, Conflict::Late, out);
                continue;
            }
            if let Some(votes) =
                pending.votes.as_ref().filter(|_| !broken(rules::COMMIT_BELOW_PREPARE))
            {
                self.issuer.observe(votes.above());
            }
            let commits = matches!(pending.request.body, RequestBody::Commit { .. });
            if let Some(change) = pending.change().filter(|_| commits) {
                self.issuer.observe(change.from);
            }
            if commits && !self.has_commit_timestamp() {
                let since_ns = *pending.asked_ns.get_or_insert(now.boot_ns);
                if now.boot_ns - since_ns < WITHOUT_AUTHORITY_NS {
                    self.participant.ready.push_back(pending);
                } else {
                    sometimes!("a commit is given up because the authority does not answer");
                    self.refuse_drawn(now, pending, Conflict::Late, out);
                }
                continue;
            }
            let drawn = if commits { self.draw_commit(now) } else { self.draw_one(now) };
            let Some(at) = drawn else {
                sometimes!("a commit waits for the lease to reach further");
                self.participant.ready.push_front(pending);
                return self.wake_in(LEASE_SOON_NS);
            };
            if let Some(votes) = pending.votes.take_if(|votes| at >= votes.below()) {
                sometimes!("a shard that was only read has not promised for long enough");
                self.abort_voted(now, pending, &votes, Conflict::Late, out);
                continue;
            }
            if let Some(why) = self.unfit(&pending.request, at) {
                sometimes!("a commit was planned for a schema that holds no more");
                self.refuse_drawn(now, pending, why, out);
                continue;
            }
            pending.at = at;
            let (transaction, schemas) = (pending.request.transaction, pending.versions());
            let agreed = match &pending.request.body {
                RequestBody::Commit { writes, .. } => {
                    self.participant.schemas.draw(&schemas);
                    let prepared = pending.votes.as_ref().map(Collected::prepared);
                    let (participants, voted_in) = prepared.unwrap_or_default();
                    let writes = writes.clone();
                    Some(TransactionCommand::Commit {
                        at,
                        transaction,
                        writes,
                        participants,
                        schemas,
                        voted_in,
                    })
                }
                _ => self.record_of(&pending, at),
            };
            match (&pending.request.body, &pending.votes) {
                (RequestBody::Prepare { .. }, _) => step!("participant: proposes to prepare"),
                (_, Some(_)) => step!("coordinator: proposes its decision"),
                (_, None) => step!("leader: proposes a commit"),
            }
            match self.propose(&agreed.expect("only commits and prepares are ready")) {
                Some(index) => self.participant.agreeing.insert(index, pending),
                None => self.participant.ready.push_front(pending),
            }
            if !self.serving {
                return;
            }
        }
    }

    /// Applies a command about transactions.
    pub(super) fn on_agreed(
        &mut self,
        now: Reading,
        entry: &Entry,
        agreed: TransactionCommand,
        out: &mut Outbox<Member>,
    ) {
        match agreed {
            TransactionCommand::Commit {
                at,
                transaction,
                mut writes,
                participants,
                schemas,
                voted_in,
            } => {
                self.advance(at);
                self.remember_writes(transaction, &writes, at);
                writes.extend(self.add_unresolved(transaction, at, (participants, voted_in)));
                writes.extend(self.on_schemas_agreed(at, &schemas));
                self.install(entry, at, writes, false, out);
                self.participant.two_phase.remember(transaction, at, entry.term.0);
                let pending = self.participant.agreeing.remove(entry.index);
                match pending {
                    Some(_) => step!("leader: its commit is agreed"),
                    None => step!("member: another's commit is agreed"),
                }
                let drawn_ns = pending.as_ref().map_or(now.boot_ns, |pending| pending.drawn_ns);
                let votes = pending.as_ref().and_then(|pending| pending.votes.clone());
                let asked = pending.as_ref().map(|pending| (pending.from, pending.request.id));
                let schema = pending.as_ref().is_some_and(|pending| pending.change().is_some());
                let writes = pending.and_then(|pending| match pending.request.body {
                    RequestBody::Commit { writes, .. } => Some(writes),
                    _ => None,
                });
                let agreed_ns = now.boot_ns;
                self.participant.commit_waits.insert(
                    at,
                    CommitWait {
                        at,
                        transaction,
                        asked,
                        drawn_ns,
                        agreed_ns,
                        votes,
                        writes,
                        schema,
                    },
                );
                self.unregister(now, transaction, out);
            }
            TransactionCommand::Prepare { transaction, prepared } => {
                self.advance(prepared.at);
                let (at, pending) = (prepared.at, self.participant.agreeing.remove(entry.index));
                let row = self.on_prepare_agreed(transaction, prepared, pending, out);
                self.install(entry, at, vec![row], false, out);
            }
            TransactionCommand::Outcome { transaction, at } => {
                let Some((installed_at, writes)) = self.on_outcome_agreed(transaction, at, out)
                else {
                    return;
                };
                self.install(entry, installed_at, writes, true, out);
                if let Some(at) = at {
                    self.participant.two_phase.remember(transaction, at, entry.term.0);
                }
                let verdicts = self.participant.locks.release(transaction);
                self.judge(now, verdicts, out);
                self.unregister(now, transaction, out);
            }
            TransactionCommand::Forget { at, transactions } => {
                self.advance(at);
                let rows = self.on_forget_agreed(&transactions);
                self.install(entry, at, rows, false, out);
            }
            TransactionCommand::Ceiling { .. }
            | TransactionCommand::Split { .. }
            | TransactionCommand::Members { .. } => {
                unreachable!("commands about the shard are the shard's")
            }
        }
    }

    /// Answers everything that is not agreed, and drops the state that only a leader has.
    pub(super) fn refuse_all(&mut self, out: &mut Outbox<Member>) {
        if !self.participant.agreeing.is_empty() {
            sometimes!("leadership is lost while a commit is being agreed on");
        }
        let why = Conflict::LeaderChanged;
        let waiting = self.participant.pending.take();
        for pending in waiting.chain(std::mem::take(&mut self.participant.ready)) {
            self.refuse(&pending, why.clone(), out);
            let votes = pending.votes.iter();
            votes
                .for_each(|votes| self.send_outcome(pending.request.transaction, None, votes, out));
        }
        for Pending { from, request, .. } in self.participant.agreeing.take() {
            let id = request.id;
            let unknown = if broken(rules::UNKNOWN_SAID_ABORTED) {
                Response::Aborted { id, why: why.clone() }
            } else {
                Response::Unknown { id }
            };
            out.send(from, Message::Response(unknown));
        }
        self.dismiss_snapshots(out);
        self.dismiss_votes(out);
        self.dismiss_schemas(out);
        self.forget_keys();
        self.participant.locks = LockTable::new();
        self.participant.active.clear();
        self.participant.two_phase.one_shots = OneShots::default();
    }

    /// Ends the commit wait of commits whose timestamps have surely passed (§4.1.2): makes them
    /// visible, queues their answers and releases their locks.
    pub(super) fn release_waited_commits(&mut self, now: Reading, out: &mut Outbox<Member>) {
        let policy = self.policy;
        while let Some(commit_waits) = self
            .participant
            .commit_waits
            .pop_first_if(|commit_waits| policy.is_visible(now, commit_waits.at))
        {
            let CommitWait { at, transaction, asked, drawn_ns, agreed_ns, votes, .. } =
                commit_waits;
            self.visible = self.visible.max(at);
            if let Some((from, id)) = asked {
                step!("leader: answers");
                always!(policy.shows_early() || now.interval.after(at.nanos), "I3: commit wait");
                let spent = Spent {
                    replication_ns: agreed_ns.saturating_sub(drawn_ns),
                    commit_wait_ns: now.boot_ns.saturating_sub(agreed_ns),
                };
                self.participant.answers.push((from, Response::Committed { id, at, spent }));
            }
            if let Some(votes) = &votes {
                step!("coordinator: tells its decision");
                self.send_outcome(transaction, Some(at), votes, out);
            }
            self.participant.active.remove(&transaction);
            let verdicts = self.participant.locks.release(transaction);
            self.judge(now, verdicts, out);
        }
        let oldest = self.participant.oldest_in_flight().unwrap_or(Timestamp::MAX);
        let follows =
            self.participant.late.iter().map(|late| late.at).filter(|at| *at < oldest).max();
        self.visible = self.visible.max(follows.unwrap_or_default());
        let visible = self.visible;
        self.participant.late.retain(|late| late.at > visible);
    }
}
